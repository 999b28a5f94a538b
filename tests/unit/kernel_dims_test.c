/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host works out for kernels of GPUs: multipliers that divide, and rows that consist of
 * shares.
 */
#include <criterion/criterion.h>
#include <inttypes.h>

#include "kernel/kernel.h"

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
