/* SPDX-License-Identifier: Apache-2.0
 *
 * Products by panels against sums in double.
 */
#include "plugins/cpu/panels.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "numbers_fixture.h"

typedef struct extents {
    int64_t m, n, k;
} extents;

/* In two parts, with rows that lie apart, and a bias of rows and ReLU where they have an end; what
 * is beside the results stays as it is. */
static void expect_product(panels *run, extents e, int across_a, int across_b, float alpha,
                           float beta, int with_end) {
    const int64_t lda = (across_a ? e.m : e.k) + 3, ldb = (across_b ? e.k : e.n) + 1, ldc = e.n + 2,
                  cut = e.n / 2 / PANEL_COLUMNS * PANEL_COLUMNS;
    float *a = numbers((across_a ? e.k : e.m) * lda), *b = numbers((across_b ? e.n : e.k) * ldb),
          *c = numbers(e.m * ldc), *bias = numbers(e.m),
          *before = malloc((size_t)(e.m * ldc) * sizeof *before);
    for (int64_t i = 0; i < e.m * ldc; i++) before[i] = c[i];
    const panels_job job = {.m = e.m,
                            .n = e.n,
                            .k = e.k,
                            .a = a,
                            .a_row = across_a ? 1 : lda,
                            .a_column = across_a ? lda : 1,
                            .b = b,
                            .b_row = across_b ? 1 : ldb,
                            .b_column = across_b ? ldb : 1,
                            .c = c,
                            .ldc = ldc,
                            .row_bias = with_end ? bias : NULL,
                            .relu = with_end,
                            .added = beta != 0 ? c : NULL,
                            .added_row = ldc,
                            .alpha = alpha,
                            .beta = beta};
    if (beta == 0) c[0] = NAN; /* is not read */
    run(&job, 0, cut);
    run(&job, cut, e.n);
    for (int64_t i = 0; i < e.m * ldc; i++) {
        const int64_t row = i / ldc, column = i % ldc;
        double want = with_end ? (double)bias[row] : 0;
        for (int64_t l = 0; l < e.k; l++)
            want += (double)a[row * job.a_row + l * job.a_column] *
                    b[l * job.b_row + column % e.n * job.b_column];
        want = alpha * want + (beta != 0 ? beta * (double)before[i] : 0);
        if (with_end && want < 0) want = 0;
        if (column >= e.n) want = before[i];
        cr_assert(fabs(c[i] - want) <= 1e-5 + 1e-7 * (double)e.k,
                  "%d x %d x %d%s%s: c[%d][%d] is %.9g, not %.9g", (int)e.m, (int)e.n, (int)e.k,
                  across_a ? ", a transposed" : "", across_b ? ", b transposed" : "", (int)row,
                  (int)column, c[i], want);
    }
    free(a), free(b), free(c), free(bias), free(before);
}

/* Packed, with a row and further rows that are added; b is read no more. */
static void expect_packed(pack_panels *pack, panels *run, extents e, int across_b) {
    const int64_t ldb = (across_b ? e.k : e.n) + 1, ldc = e.n + 2,
                  cut = e.n / 2 / PANEL_COLUMNS * PANEL_COLUMNS;
    float *a = numbers(e.m * e.k), *b = numbers((across_b ? e.n : e.k) * ldb), *bias = numbers(e.n),
          *added = numbers(e.m * ldc), *c = numbers(e.m * ldc),
          *packed = malloc((size_t)packed_panels(e.n, e.k) * sizeof *packed);
    panels_job job = {.m = e.m,
                      .n = e.n,
                      .k = e.k,
                      .a = a,
                      .a_row = e.k,
                      .a_column = 1,
                      .b = b,
                      .b_row = across_b ? 1 : ldb,
                      .b_column = across_b ? ldb : 1,
                      .c = c,
                      .ldc = ldc,
                      .bias = bias,
                      .added = added,
                      .added_row = ldc,
                      .alpha = 1,
                      .beta = 1};
    for (int64_t i = 0; i < packed_panels(e.n, e.k); i++) packed[i] = NAN; /* is not read */
    for (int64_t i = 0; i < e.m * ldc; i++) c[i] = NAN;
    pack(&job, cut, e.n, packed);
    pack(&job, 0, cut, packed);
    job.packed = packed;
    job.b = NULL;
    run(&job, 0, cut);
    run(&job, cut, e.n);
    for (int64_t i = 0; i < e.m * ldc; i++) {
        const int64_t row = i / ldc, column = i % ldc;
        if (column >= e.n) {
            cr_assert(isnan(c[i]), "%d x %d x %d: %.9g beside row %d", (int)e.m, (int)e.n, (int)e.k,
                      c[i], (int)row);
            continue;
        }
        double want = (double)bias[column] + added[i];
        for (int64_t l = 0; l < e.k; l++)
            want += (double)a[row * e.k + l] * b[l * job.b_row + column * job.b_column];
        cr_assert(fabs(c[i] - want) <= 1e-5 + 1e-7 * (double)e.k,
                  "%d x %d x %d, packed%s: c[%d][%d] is %.9g, not %.9g", (int)e.m, (int)e.n,
                  (int)e.k, across_b ? ", b transposed" : "", (int)row, (int)column, c[i], want);
    }
    free(a), free(b), free(bias), free(added), free(c), free(packed);
}

static void expect_products(panels *run, pack_panels *pack) {
    static const int64_t m[] = {1, 5, 12, 30, 47}, n[] = {1, 8, 16, 31, 32, 33, 100},
                         k[] = {1, 7, 33, 256, 530};
    for (int i = 0; i < 5 * 7 * 5 * 4; i++) {
        const extents e = {m[i % 5], n[i / 5 % 7], k[i / 35 % 5]};
        expect_product(run, e, i / 175 % 2, i / 350, 1, 0, i % 3 == 0);
        expect_product(run, e, i / 175 % 2, i / 350, 0.5f, i % 2 == 0 ? 2 : 0, i % 3 == 0);
        if (pack != NULL) expect_packed(pack, run, e, i / 350);
    }
}

Test(panels, equal_sums_in_double) {
    if (!__builtin_cpu_supports("avx2")) cr_skip_test("this processor has no AVX2");
    expect_products(panels_v3, pack_panels_v3);
    if (__builtin_cpu_supports("avx512vl")) expect_products(panels_v4, NULL);
}
