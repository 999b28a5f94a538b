/* SPDX-License-Identifier: Apache-2.0
 *
 * Mistakes that are planted in what nvcc made of the kernels are found, each by its name, and the
 * same launches without them are clean.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "support.h"

/* What a mistake shows as: a fault, or results that are not the CPU's. */
enum { WRONG_RESULTS = -1 };

typedef struct setting {
    const char *unit, *kernel;
    unsigned groups;
    const arg *args;
    size_t count;
} setting;

static bool has(const ptx_report *report, ptx_fault fault) {
    for (size_t k = 0; k < report->count; k++)
        if (report->findings[k].fault == fault) return true;
    return false;
}

static void expect_found(const setting *s, const plant *p, int expected) {
    const char *type = s->unit[0] == 'l' ? "u32" : s->unit[0] == 'a' ? "f16" : "f32";
    char why[256] = "";
    ptx_report report;
    ptx_module *m = ptx_load(s->unit, type, 32, NULL);
    const double tolerance = strcmp(type, "f16") == 0 ? 1e-2 : 1e-5;
    expect_as_cpu(m, s->kernel, s->groups, tolerance, s->args, s->count);
    ptx_free(m);
    m = ptx_load(s->unit, type, 32, p);
    const bool same = compare_with_cpu(m, s->kernel, s->groups, tolerance, s->args, s->count,
                                       &report, why, sizeof why);
    ptx_free(m);
    if (expected == WRONG_RESULTS)
        cr_assert(!same && report.count == 0, "no wrong results, %s", report.findings[0].text);
    else
        cr_assert(has(&report, (ptx_fault)expected), "%zu findings, the first: %s", report.count,
                  report.findings[0].text);
}

#define FOUND(unit, kernel, groups, expected, mistake, ...)                                     \
    do {                                                                                        \
        const arg args_[] = {__VA_ARGS__};                                                      \
        const setting setting_ = {unit, kernel, groups, args_, sizeof args_ / sizeof args_[0]}; \
        const plant plant_ = mistake;                                                           \
        expect_found(&setting_, &plant_, expected);                                             \
    } while (0)
#define PLANT(...) \
    { __VA_ARGS__ }

#define FLAT(shift) IN(x, F32, 1024, shift), OUT(y, F32, 1024, shift), INT64(n, 1024)
#define RELU(groups, expected, shift, ...) \
    FOUND("unary", "relu_f32", groups, expected, PLANT("relu_f32", __VA_ARGS__), FLAT(shift))

Test(ptx_mistakes, a_bound_that_is_one_too_large) {
    RELU(2, PTX_OUT_OF_BOUNDS, 0, "setp.ge.s32", "setp.ge", "setp.gt", 0);
}

Test(ptx_mistakes, a_vector_access_without_its_alignment) {
    RELU(2, PTX_MISALIGNED, 1, "and.b64", ", 15;", ", 3;", 0);
}

Test(ptx_mistakes, a_store_to_an_input) {
    RELU(2, PTX_READ_ONLY, 0, "ld.param.u64", "param_1", "param_0", 0);
}

Test(ptx_mistakes, a_comparison_the_wrong_way_round) {
    RELU(2, WRONG_RESULTS, 0, "setp.lt.f32", "setp.lt", "setp.gt", 0);
}

/* By lanes of a row, or by a group of it where there are 0. */
#define ROWS(count)                                                                               \
    IN(x, F32, 4 * 3000, 0), OUT(y, F32, 4, 0), INT64(outer, 4), INT64(n, 3000), INT64(inner, 1), \
        FLOAT32(scale, 1), INT32(lanes, count)
#define REDUCE(lanes, expected, ...)                                                     \
    FOUND("reduce", "reduce_sum_f32", 2, expected, PLANT("reduce_sum_f32", __VA_ARGS__), \
          ROWS(lanes))

Test(ptx_mistakes, no_barrier_between_writing_and_reading) {
    REDUCE(256, PTX_RACE, "bar.sync", "bar.sync", NULL, 0);
}

/* softmax: the largest value is read by all, then the sums go to the same place. */
Test(ptx_mistakes, no_barrier_between_reading_and_writing_again) {
    FOUND("rows", "softmax_f32", 2, PTX_RACE, PLANT("softmax_f32", "bar.sync", "bar.sync", NULL, 1),
          IN(x, F32, 4 * 1001, 0), OUT(y, F32, 4 * 1001, 0), INT64(rows, 4), INT64(cols, 1001),
          INT32(lanes, 0));
}

Test(ptx_mistakes, shared_memory_that_nobody_wrote) {
    REDUCE(256, PTX_UNINITIALISED, "st.shared.f32", "st.shared", NULL, 0);
}

Test(ptx_mistakes, a_shuffle_mask_of_half_a_warp) {
    REDUCE(256, PTX_BAD_SHUFFLE, "mov.u32", ", -1;", ", 65535;", 0);
}

Test(ptx_mistakes, a_shuffle_that_reads_the_wrong_lane) {
    REDUCE(0, WRONG_RESULTS, "mov.u32", ", 16;", ", 8;", 0);
}

Test(ptx_mistakes, a_stride_that_is_too_large) {
    REDUCE(256, PTX_OUT_OF_BOUNDS, "mul.wide.s32", ", 4;", ", 8;", 0);
}

Test(ptx_mistakes, an_offset_that_is_one_element_too_large) {
    REDUCE(0, WRONG_RESULTS, "ld.global.nc.f32", "+1024]", "+1028]", 0);
}

#define TURN                                                 \
    IN(x, U32, 2 * 45 * 70, 0), OUT(y, U32, 2 * 45 * 70, 0), \
        DIMS(d, 3, {2, 70, 45}, {{3150, 1, 70}, {3150, 45, 1}}, {0})

Test(ptx_mistakes, a_tile_row_with_another_stride) {
    FOUND("layout", "copy_dims_u32", 2, PTX_UNINITIALISED,
          PLANT("copy_dims_u32", "mad.lo.s32", ", 132, ", ", 128, ", 1), TURN);
}

Test(ptx_mistakes, a_tile_that_is_read_before_it_is_full) {
    FOUND("layout", "copy_dims_u32", 2, PTX_RACE,
          PLANT("copy_dims_u32", "bar.sync", "bar.sync", NULL, 1), TURN);
}

#define PRODUCT                                                                                    \
    IN(a, F32, 64 * 40, 0), IN(b, F32, 40 * 64, 0), IN(bias, F32, 64, 0), OUT(c, F32, 64 * 64, 0), \
        INT64(m, 64), INT64(n, 64), INT64(k, 40), INT64(batch, 1), INT64(a_row, 40),               \
        INT64(a_col, 1), INT64(b_row, 64), INT64(b_col, 1), INT64(a_batch, 0), INT64(b_batch, 0),  \
        INT32(bias_mode, 0), INT32(activation, 0)

Test(ptx_mistakes, a_matmul_that_overwrites_the_patch_in_use) {
    FOUND("matmul", "matmul_f32", 1, PTX_RACE, PLANT("matmul_f32", "bar.sync", "bar.sync", NULL, 3),
          PRODUCT);
}

/* Two parts of keys, 64 features: the copies of one part run while the other is computed with. */
#define HEADS                                                                                      \
    IN(q, F16, 20 * 64, 0), IN(k, F16, 100 * 64, 0), IN(v, F16, 100 * 64, 0), IN(mask, F16, 1, 0), \
        OUT(y, F16, 20 * 64, 0),                                                                   \
        DIMS(from, 4, {1, 1, 1, 20, 100, 64, 64}, {{0, 0, 64, 1}, {0, 0, 64, 1}, {0, 0, 64, 1}},   \
             {0}),                                                                                 \
        DIMS(to, 4, {0}, {{0, 0, 64, 1}}, {0}), FLOAT32(scale, 0.125f), INT32(masked, 0),          \
        INT32(empty_is_zero, 0)
#define ATTENTION(expected, ...) \
    FOUND("attention", "attention_f16", 1, expected, PLANT("attention_f16", __VA_ARGS__), HEADS)

Test(ptx_mistakes, attention_that_does_not_wait_for_keys) {
    ATTENTION(WRONG_RESULTS, "cp.async.wait_group", "wait_group 1", "wait_group 2", 2);
}

Test(ptx_mistakes, attention_that_fetches_keys_over_those_in_use) {
    ATTENTION(PTX_RACE, "bar.sync", "bar.sync", NULL, 11);
}
