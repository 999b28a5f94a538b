/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host works out for kernels of GPUs: multipliers that divide, rows that consist of
 * shares, and how many items have a row.
 */
#include <criterion/criterion.h>
#include <inttypes.h>

#include "kernel/kernel.h"
#include "kernel/optimise.h"
#include "ops/run/rows.h"

/* k_over() of kernel/k.h. */
static uint32_t over(uint32_t n, uint32_t d, uint32_t multiplier) {
    const int zeros = d > 1 ? __builtin_clz(d - 1) : 32;
    const uint32_t high = (uint32_t)((uint64_t)n * multiplier >> 32);
    return (uint32_t)((uint64_t)(high + n) >> (32 - zeros));
}

static void check(uint32_t d, uint32_t n, uint32_t multiplier) {
    cr_assert_eq(over(n, d, multiplier), n / d, "%" PRIu32 " / %" PRIu32 " is not %" PRIu32, n, d,
                 over(n, d, multiplier));
}

/* The quotients that are hardest to hit are those next to a multiple, far out. */
static void check_divisor(uint32_t d) {
    const int64_t multiplier = dhowi_multiplier(d);
    const uint32_t most = INT32_MAX, last = most / d * d;
    cr_assert(multiplier >= 0 && multiplier <= UINT32_MAX, "of %" PRIu32, d);
    const uint32_t m = (uint32_t)multiplier, step = most / 97 / d * d;
    const uint32_t edges[] = {0, 1, d - 1, d, last - 1, last, most - 1, most};
    for (size_t k = 0; k < sizeof edges / sizeof edges[0]; k++) check(d, edges[k], m);
    for (uint64_t n = step; step > 0 && n <= most; n += step) {
        check(d, (uint32_t)n, m);
        check(d, (uint32_t)n - 1, m);
    }
}

Test(kernel_dims, multipliers_divide_all_indices) {
    for (uint32_t d = 1; d <= 70000; d++) check_divisor(d);
    for (int bit = 1; bit < 31; bit++)
        for (uint32_t d = (1u << bit) - 1; d <= (1u << bit) + 1; d++) check_divisor(d);
    for (uint32_t d = INT32_MAX; d > INT32_MAX - 100; d--) check_divisor(d);
    for (uint32_t d = 3; d < INT32_MAX / 2; d += d / 7 + 1) check_divisor(d);
    for (uint32_t d = 1; d <= 257; d++) /* every index, for small ones */
        for (uint32_t n = 0; n < 70000; n++) check(d, n, (uint32_t)dhowi_multiplier(d));
}

Test(kernel_dims, extents_that_no_index_of_32_bits_reaches_have_no_multiplier) {
    cr_assert_eq(dhowi_multiplier(0), 0);
    cr_assert_eq(dhowi_multiplier(INT64_C(1) << 31), 0);
    cr_assert_eq(dhowi_multiplier(INT64_MAX), 0);
}

Test(kernel_dims, rows_have_shares_where_all_of_them_begin_on_one) {
    static const struct {
        dhow_dims dims;
        bool has;
    } k[] = {{{.rank = 1, .shape = {7}, .stride = {{1}}}, true},
             {{.rank = 1, .shape = {7}, .stride = {{0}}}, true},
             {{.rank = 1, .shape = {7}, .stride = {{2}}}, false},
             {{.rank = 2, .shape = {3, 8}, .stride = {{8, 1}}}, true},
             {{.rank = 2, .shape = {3, 8}, .stride = {{-8, 1}}}, true},
             {{.rank = 2, .shape = {3, 8}, .stride = {{9, 1}}}, false},
             {{.rank = 2, .shape = {3, 8}, .stride = {{9, 0}}}, true},
             {{.rank = 2, .shape = {3, 6}, .stride = {{8, 1}}}, false},
             {{.rank = 2, .shape = {3, 6}, .stride = {{1, 0}}}, false},
             {{.rank = 2, .shape = {3, 8}, .stride = {{8, -1}}}, false},
             {{.rank = 3, .shape = {2, 3, 4}, .stride = {{6, 4, 1}}}, false}};
    for (size_t i = 0; i < sizeof k / sizeof k[0]; i++)
        cr_assert_eq(dhowi_has_shares(&k[i].dims, k[i].dims.stride[0], 4), k[i].has, "case %zu", i);
}

static int32_t lanes_of(dhow_dtype dtype, int64_t rows, int64_t cols) {
    static const dhow_device gpu;
    return dhowi_lanes_of(&gpu, dtype, rows, cols);
}

/* Of rows that fill a GPU: those that tests/ptx/budgets_rows.c counts with. */
Test(kernel_dims, lanes_hold_a_row_and_read_whole_sectors) {
    static const int64_t cols[][2] = {{64, 2},    {128, 4},    {256, 8},   {512, 16}, {1024, 32},
                                      {2048, 64}, {4096, 128}, {100, 4},   {425, 16}, {1, 1},
                                      {1021, 32}, {1025, 64},  {8192, 256}};
    for (size_t k = 0; k < sizeof cols / sizeof cols[0]; k++)
        cr_assert_eq(lanes_of(DHOW_F32, 1 << 20, cols[k][0]), cols[k][1], "%d", (int)cols[k][0]);
    cr_assert_eq(lanes_of(DHOW_F16, 1 << 20, 64), 4);
    cr_assert_eq(lanes_of(DHOW_F16, 1 << 20, 128), 4);
    cr_assert_eq(lanes_of(DHOW_F64, 1 << 20, 1024), 64);
    for (int64_t n = 1; n <= 8189; n++) /* whatever place on a share they begin at */
        cr_assert_geq(lanes_of(DHOW_BF16, 1 << 20, n) * 32, n + (n % 4 == 0 ? 0 : 3));
}

Test(kernel_dims, few_rows_get_more_lanes) {
    cr_assert_eq(lanes_of(DHOW_F32, 1, 1024), 256);
    cr_assert_eq(lanes_of(DHOW_F32, 1, 64), 16, "an item has a share at least");
    cr_assert_eq(lanes_of(DHOW_F32, 1024, 1024), 128);
}

Test(kernel_dims, lanes_are_switched_off) {
    static const dhow_device host = {.desc.flags = DHOW_DEVICE_HOST_INLINE};
    cr_assert_eq(dhowi_lanes_of(&host, DHOW_F32, 1, 64), 0);
    dhowi_optimisations &= ~(uint32_t)DHOWI_OPTIMISE_SHARES;
    cr_assert_eq(lanes_of(DHOW_F32, 1, 64), 0);
    dhowi_optimisations = DHOWI_OPTIMISE_ALL;
}

/* Of a result of three dimensions without gaps, or with some, and two operands. */
Test(kernel_dims, packs_lie_in_rows_or_across_their_ends) {
    static const struct {
        dhow_dtype dtype;
        int64_t length, a[3], b[3], y[3], mode, kind[2];
    } k[] = {{DHOW_F16, 16, {48, 16, 1}, {3, 1, 0}, {48, 16, 1}, 1, {2, 0}},
             {DHOW_F32, 12, {36, 12, 1}, {0, 0, 1}, {36, 12, 1}, 1, {2, 2}},
             {DHOW_F16, 12, {36, 12, 1}, {0, 0, 1}, {36, 12, 1}, 2, {2, 1}},
             {DHOW_F16, 12, {60, 20, 1}, {3, 1, 0}, {36, 12, 1}, 2, {1, 0}},
             {DHOW_F16, 12, {36, 12, 1}, {0, 0, 2}, {36, 12, 1}, 0, {0}},
             {DHOW_F16, 12, {36, 12, 1}, {0, 0, 1}, {60, 20, 1}, 0, {0}},
             {DHOW_F32, 3, {9, 3, 1}, {0, 0, 1}, {9, 3, 1}, 0, {0}}};
    for (size_t i = 0; i < sizeof k / sizeof k[0]; i++) {
        const dhow_dims dims = {.rank = 3, .shape = {2, 3, k[i].length}};
        const int64_t *const strides[] = {k[i].a, k[i].b};
        const dhowi_packs got = dhowi_packs_of(&dims, strides, 2, k[i].y, k[i].dtype);
        cr_assert_eq(got.mode, k[i].mode, "case %zu: mode %d", i, (int)got.mode);
        for (int o = 0; o < 2 && got.mode != 0; o++)
            cr_assert_eq(got.kind[o], k[i].kind[o], "case %zu: kind %d", i, (int)got.kind[o]);
        cr_assert_eq(got.length, k[i].length);
        cr_assert_eq(got.multiplier, dhowi_multiplier(k[i].length));
    }
}
