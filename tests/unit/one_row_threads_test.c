/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of one row, as decoders have them: the same bits with any number of threads, which share
 * the rows of long matrices among them.
 */
#include <math.h>
#include <string.h>

#include "dhow/dhow.h"
#include "numbers_fixture.h"

enum { MOST = 1600 };

/* a[batch][1][k] b[batch][k][n] on so many threads, twice, as the second run may get others. */
static void multiply(int32_t threads, int64_t batch, int64_t k, int64_t n, const float *a,
                     const float *b, float *c) {
    const dhow_context_options options =
        DHOW_INIT(dhow_context_options, .backends = "cpu", .num_threads = threads,
                  .plugin_path = DHOW_TEST_PLUGIN_DIR);
    dhow_context *context;
    dhow_device *cpu;
    dhow_tensor *left, *right, *product;
    cr_assert_eq(dhow_context_create(&options, &context), DHOW_OK, "%s", dhow_last_error());
    cr_assert_eq(dhow_device_get(context, "cpu", &cpu), DHOW_OK);
    cr_assert_eq(dhow_tensor_from_data(cpu, DHOW_F32, DHOW_SHAPE(batch, 1, k), a, &left), DHOW_OK);
    cr_assert_eq(dhow_tensor_from_data(cpu, DHOW_F32, DHOW_SHAPE(batch, k, n), b, &right), DHOW_OK);
    cr_assert_eq(dhow_tensor_create(cpu, DHOW_F32, DHOW_SHAPE(batch, 1, n), &product), DHOW_OK);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(dhow_matmul(NULL, left, right, product), DHOW_OK, "%s", dhow_last_error());
    cr_assert_eq(dhow_tensor_read(product, c, (size_t)(batch * n) * sizeof *c), DHOW_OK);
    dhow_tensor_release(left);
    dhow_tensor_release(right);
    dhow_tensor_release(product);
    dhow_context_release(context);
}

static void expect_sums(int64_t batch, int64_t k, int64_t n, const float *a, const float *b,
                        const float *c) {
    for (int64_t i = 0; i < batch * n; i++) {
        double want = 0;
        for (int64_t t = 0; t < k; t++)
            want += (double)a[i / n * k + t] * b[(i / n * k + t) * n + i % n];
        cr_assert(fabs(c[i] - want) <= 1e-5 + 1e-7 * (double)k, "%d times %d to %d: c[%d] is %.9g",
                  (int)batch, (int)k, (int)n, (int)i, c[i]);
    }
}

Test(one_row, has_the_same_bits_with_any_number_of_threads, .timeout = 60) {
    if (!__builtin_cpu_supports("avx2")) cr_skip_test("this processor has no AVX2");
    static const int64_t shapes[][3] = {{1, 1536, 384}, {1, 384, 384}, {1, 300, 1600}, {3, 700, 70},
                                        {12, 257, 32},  {1, 5, 3},     {2, 256, 1}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        const int64_t batch = shapes[s][0], k = shapes[s][1], n = shapes[s][2];
        float *a = numbers(batch * k), *b = numbers(batch * k * n), alone[MOST], c[MOST] = {0};
        multiply(1, batch, k, n, a, b, alone);
        expect_sums(batch, k, n, a, b, alone);
        for (int32_t threads = 2; threads<20; threads += threads> 3 ? 7 : 1) {
            multiply(threads, batch, k, n, a, b, c);
            cr_assert_eq(memcmp(c, alone, (size_t)(batch * n) * sizeof *c), 0,
                         "%d times %d to %d: %d threads", (int)batch, (int)k, (int)n, threads);
        }
        free(a), free(b);
    }
}
