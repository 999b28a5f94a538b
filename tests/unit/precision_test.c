/* SPDX-License-Identifier: Apache-2.0
 *
 * The precision of a device and the plans of models: a plan belongs to the precision that it was
 * made for.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"

enum { ROWS = 32, IN = 96, OUT = 64 };

static dhow_context *g_context;
static dhow_device *g_cpu;

static void set_up(void) {
    (void)setenv("DHOW_PLUGIN_PATH", DHOW_TEST_PLUGIN_DIR, 1);
    (void)setenv("DHOW_BACKENDS", "cpu", 1);
    (void)setenv("DHOW_NUM_THREADS", "1", 1); /* how a product is divided decides its last bit */
    cr_assert_eq(dhow_context_create(NULL, &g_context), DHOW_OK, "%s", dhow_last_error());
    cr_assert_eq(dhow_device_get(g_context, "cpu", &g_cpu), DHOW_OK, "%s", dhow_last_error());
}
static void tear_down(void) { dhow_context_release(g_context); }
TestSuite(precision, .init = set_up, .fini = tear_down, .timeout = 60);

static dhow_tensor *numbers(int64_t rows, int64_t columns, unsigned seed) {
    float *values = malloc((size_t)(rows * columns) * sizeof *values);
    dhow_tensor *t;
    cr_assert_not_null(values);
    for (int64_t i = 0; i < rows * columns; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) / (float)(1 << 24) - 0.5f;
    }
    cr_assert_eq(dhow_tensor_from_data(g_cpu, DHOW_F32, DHOW_SHAPE(rows, columns), values, &t),
                 DHOW_OK);
    free(values);
    return t;
}

static dhow_model *one_layer(dhow_tensor *weight) {
    dhow_model *m;
    dhow_model_value x;
    cr_assert_eq(dhow_model_create(g_context, &m), DHOW_OK);
    cr_assert_eq(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(ROWS, IN), &x), DHOW_OK);
    cr_assert_eq(dhow_model_linear(m, "fc", x, IN, OUT, 0, &x), DHOW_OK);
    cr_assert_eq(dhow_model_output(m, "y", x), DHOW_OK);
    cr_assert_eq(dhow_model_set_parameter(m, "fc.weight", weight), DHOW_OK);
    return m;
}

static void run(dhow_model *m, dhow_tensor *x, float *y) {
    dhow_tensor *out = NULL;
    cr_assert_eq(dhow_model_run(m, NULL, &x, 1, &out, 1), DHOW_OK, "%s", dhow_last_error());
    cr_assert_eq(dhow_tensor_read(out, y, ROWS * OUT * sizeof *y), DHOW_OK);
    dhow_tensor_release(out);
}

static uint32_t plans_of(dhow_model *m) {
    dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
    cr_assert_eq(dhow_model_get_summary(m, &summary), DHOW_OK);
    return summary.plan_count;
}

Test(precision, a_plan_made_in_one_precision_is_not_replayed_in_another) {
    static const dhow_precision order[] = {DHOW_PRECISION_F32, DHOW_PRECISION_REDUCED,
                                           DHOW_PRECISION_F32, DHOW_PRECISION_REDUCED,
                                           DHOW_PRECISION_REDUCED};
    static const uint32_t plans[] = {1, 2, 2, 2, 2};
    static float y[2][ROWS * OUT], again[ROWS * OUT];
    dhow_tensor *x = numbers(ROWS, IN, 1), *w = numbers(OUT, IN, 2);
    dhow_model *m = one_layer(w);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(dhow_device_set_precision(g_cpu, order[i]), DHOW_OK);
        run(m, x, i < 2 ? y[i] : again);
        cr_assert_eq(plans_of(m), plans[i], "run %d: %u plans", i, plans_of(m));
        if (i < 2) continue;
        cr_assert_eq(memcmp(again, y[order[i] == DHOW_PRECISION_REDUCED], sizeof again), 0,
                     "run %d: not the result of its precision", i);
    }
    dhow_model_release(m);
    dhow_tensor_release(x);
    dhow_tensor_release(w);
}

/* Weights packed as bf16, where the processor has it: close to f32, whatever follows the product.
 */
Test(precision, bf16_is_close_to_f32_with_bias_activation_and_residual) {
    static float y[2][ROWS * OUT];
    dhow_tensor *x = numbers(ROWS, IN, 5), *w = numbers(OUT, IN, 6);
    dhow_model *m;
    dhow_model_value v, h;
    cr_assert_eq(dhow_model_create(g_context, &m), DHOW_OK);
    cr_assert_eq(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(ROWS, IN), &v), DHOW_OK);
    cr_assert_eq(dhow_model_linear(m, "fc", v, IN, OUT, 1, &h), DHOW_OK);
    cr_assert_eq(dhow_model_gelu(m, h, &h), DHOW_OK);
    cr_assert_eq(dhow_model_linear(m, "fc2", h, OUT, OUT, 0, &v), DHOW_OK);
    cr_assert_eq(dhow_model_add(m, v, h, &v), DHOW_OK);
    cr_assert_eq(dhow_model_output(m, "y", v), DHOW_OK);
    cr_assert_eq(dhow_model_set_parameter(m, "fc.weight", w), DHOW_OK);
    dhow_tensor *w2 = numbers(OUT, OUT, 7);
    cr_assert_eq(dhow_model_set_parameter(m, "fc2.weight", w2), DHOW_OK);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(
            dhow_device_set_precision(g_cpu, i == 0 ? DHOW_PRECISION_F32 : DHOW_PRECISION_REDUCED),
            DHOW_OK);
        for (int run_twice = 0; run_twice < 2; run_twice++) run(m, x, y[i]);
    }
    for (int i = 0; i < ROWS * OUT; i++)
        cr_assert(fabsf(y[0][i] - y[1][i]) < 0.05f, "%d: %g in f32, %g in bf16", i, (double)y[0][i],
                  (double)y[1][i]);
    dhow_model_release(m);
    dhow_tensor_release(x);
    dhow_tensor_release(w);
    dhow_tensor_release(w2);
}

/* The device is the same for all models: one made in bf16 is exact again afterwards. */
Test(precision, a_model_first_run_in_bf16_gives_f32_results_in_f32) {
    static float y[ROWS * OUT], a[ROWS * IN], b[OUT * IN];
    dhow_tensor *x = numbers(ROWS, IN, 3), *w = numbers(OUT, IN, 4);
    dhow_model *m = one_layer(w);
    cr_assert_eq(dhow_device_set_precision(g_cpu, DHOW_PRECISION_REDUCED), DHOW_OK);
    for (int i = 0; i < 2; i++) run(m, x, y);
    cr_assert_eq(dhow_device_set_precision(g_cpu, DHOW_PRECISION_F32), DHOW_OK);
    run(m, x, y);
    cr_assert_eq(dhow_tensor_read(x, a, sizeof a), DHOW_OK);
    cr_assert_eq(dhow_tensor_read(w, b, sizeof b), DHOW_OK);
    for (int i = 0; i < ROWS * OUT; i++) {
        double want = 0;
        for (int k = 0; k < IN; k++)
            want += (double)a[i / OUT * IN + k] * (double)b[i % OUT * IN + k];
        cr_assert(fabs(want - (double)y[i]) < 1e-5, "%d: %g, not %g", i, (double)y[i], want);
    }
    dhow_model_release(m);
    dhow_tensor_release(x);
    dhow_tensor_release(w);
}
