/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of one row against sums in double.
 */
#include "plugins/cpu/one_row.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "numbers_fixture.h"

/* In two parts, with rows of b that lie apart; what is behind the results stays as it is. */
static void expect_product(one_row *run, int64_t n, int64_t k, int transposed, int cached,
                           int ahead) {
    const int64_t ldb = (transposed ? k : n) + 2;
    float *a = numbers(k), *b = numbers((transposed ? n : k) * ldb), *c = numbers(n + 1);
    const float behind = c[n];
    const one_row_job job = {.n = n,
                             .k = k,
                             .ldb = ldb,
                             .transposed = transposed,
                             .cached = cached,
                             .ahead = ahead,
                             .a = a,
                             .b = b,
                             .c = c};
    run(&job, 0, n / 3);
    run(&job, n / 3, n);
    for (int64_t j = 0; j < n; j++) {
        double want = 0;
        for (int64_t t = 0; t < k; t++)
            want += (double)a[t] * b[transposed ? j * ldb + t : t * ldb + j];
        cr_assert(fabs(c[j] - want) <= 1e-5 + 1e-7 * (double)k,
                  "%d to %d%s: c[%d] is %.9g, not %.9g", (int)k, (int)n,
                  transposed ? ", transposed" : "", (int)j, c[j], want);
    }
    cr_assert_eq(c[n], behind);
    free(a), free(b), free(c);
}

static void expect_products(one_row *run) {
    static const int64_t extents[] = {1, 7, 16, 33, 67, 300, 1100};
    for (int i = 0; i < 7 * 7 * 4; i++)
        expect_product(run, extents[i / 4 % 7], extents[i / 28], i % 4 == 0, i % 4 == 1,
                       i % 4 == 2);
}

Test(one_row, equals_sums_in_double) {
    if (!__builtin_cpu_supports("avx2")) cr_skip_test("this processor has no AVX2");
    expect_products(one_row_v3);
    if (__builtin_cpu_supports("avx512vl")) expect_products(one_row_v4);
}
