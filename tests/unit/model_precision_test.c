/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of f32 that compute in 16-bit floats: how far their results are off, what stays f32, where
 * the weights are, and what else is done with such models. On the device that DHOW_DEVICE names.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dhow/dhow.h"

enum { MOST = 4096 };

static dhow_context *g_context;
static dhow_device *g_device, *g_cpu;

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())

static void set_up(void) {
    if (getenv("DHOW_PLUGIN_PATH") == NULL)
        (void)setenv("DHOW_PLUGIN_PATH", DHOW_TEST_PLUGIN_DIR ":" DHOW_TEST_SIM_DIR, 1);
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, "cpu", &g_cpu));
    OK(dhow_device_get(g_context, getenv("DHOW_DEVICE") != NULL ? NULL : "cpu", &g_device));
}
static void tear_down(void) { dhow_context_release(g_context); }
TestSuite(model_precision, .init = set_up, .fini = tear_down, .timeout = 240);

static const dhow_precision k_halves[] = {DHOW_PRECISION_BF16, DHOW_PRECISION_F16};
static const dhow_dtype k_dtypes[] = {DHOW_BF16, DHOW_F16};
/* Of the root mean square of the results. */
static const double k_bounds[] = {2e-2, 3e-3};

/* ---- models ---- */

static void fill(float *values, int64_t count, unsigned seed, float scale) {
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = ((float)(seed >> 8) / (float)(1 << 24) - 0.5f) * scale;
    }
}

static dhow_tensor *numbers(dhow_device *device, int32_t rank, const int64_t *shape, unsigned seed,
                            float scale) {
    int64_t count = 1;
    dhow_tensor *t;
    for (int32_t i = 0; i < rank; i++) count *= shape[i];
    float *values = malloc((size_t)count * sizeof *values);
    cr_assert_not_null(values);
    fill(values, count, seed, scale);
    OK(dhow_tensor_from_data(device, DHOW_F32, rank, shape, values, &t));
    free(values);
    return t;
}

/* Random weights, of products about 1 / sqrt(inputs). Variances are positive. */
static void give_parameters(dhow_model *m) {
    for (uint32_t p = 0; p < dhow_model_parameter_count(m); p++) {
        dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
        int64_t inputs = 1;
        OK(dhow_model_parameter_describe(m, p, &info));
        if (info.dtype != DHOW_F32) continue; /* a count */
        for (int32_t i = 1; i < info.rank; i++) inputs *= info.shape[i];
        const bool vector = info.rank == 1;
        dhow_tensor *t =
            numbers(g_cpu, info.rank, info.shape, 17 + p, vector ? 1 : 3.4f / sqrtf((float)inputs));
        if (strstr(info.name, "running_var") != NULL || strstr(info.name, "norm") != NULL) {
            dhow_tensor *sum;
            OK(dhow_tensor_create(g_cpu, DHOW_F32, info.rank, info.shape, &sum));
            OK(dhow_add_scalar(NULL, t, DHOW_SCALAR(1), sum));
            dhow_tensor_release(t);
            t = sum;
        }
        OK(dhow_model_set_parameter(m, info.name, t));
        dhow_tensor_release(t);
    }
}

static dhow_model_value cnn(dhow_model *m, dhow_model_value x) {
    const dhow_window window =
        DHOW_INIT(dhow_window, .kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1, 1, 1});
    const dhow_window half = DHOW_INIT(dhow_window, .kernel = {2, 2}, .stride = {2, 2});
    dhow_model_value y, z;
    OK(dhow_model_conv2d(m, "conv1", x, 3, 16, &window, 0, &y));
    OK(dhow_model_batchnorm(m, "norm1", y, 16, 1e-5f, &y));
    OK(dhow_model_relu(m, y, &y));
    OK(dhow_model_maxpool2d(m, y, &half, &y));
    OK(dhow_model_conv2d(m, "conv2", y, 16, 16, &window, 1, &z));
    OK(dhow_model_add(m, y, z, &y));
    OK(dhow_model_avgpool2d(m, y, &half, &y));
    OK(dhow_model_flatten(m, y, 1, &y));
    OK(dhow_model_linear(m, "fc", y, 64, 10, 1, &y));
    return y;
}

static dhow_model_value mlp(dhow_model *m, dhow_model_value x) {
    OK(dhow_model_linear(m, "fc1", x, 24, 48, 1, &x));
    OK(dhow_model_gelu(m, x, &x));
    OK(dhow_model_layernorm(m, "norm", x, 48, 1e-5f, &x));
    OK(dhow_model_linear(m, "fc2", x, 48, 16, 0, &x));
    OK(dhow_model_softmax(m, x, -1, &x));
    return x;
}

static dhow_model_value attention(dhow_model *m, dhow_model_value x) {
    dhow_model_value y;
    OK(dhow_model_multihead_attention(m, "attn", x, x, x, -1, 32, 4, 1, &y));
    OK(dhow_model_add(m, x, y, &y));
    OK(dhow_model_layernorm(m, "norm", y, 32, 1e-5f, &y));
    OK(dhow_model_linear(m, "fc", y, 32, 32, 1, &x));
    OK(dhow_model_add(m, x, y, &y));
    return y;
}

static dhow_model_value lstm(dhow_model *m, dhow_model_value x) {
    OK(dhow_model_lstm(m, "lstm", x, 12, 16, 1, 0, 1, &x));
    OK(dhow_model_linear(m, "fc", x, 16, 8, 1, &x));
    return x;
}

typedef struct network {
    const char *name;
    dhow_model_value (*build)(dhow_model *m, dhow_model_value x);
    int32_t rank;
    int64_t shape[4];
} network;

static const network k_networks[] = {{"cnn", cnn, 4, {2, 3, 8, 8}},
                                     {"mlp", mlp, 2, {5, 24}},
                                     {"attention", attention, 3, {2, 9, 32}},
                                     {"lstm", lstm, 3, {2, 7, 12}}};
enum { NETWORKS = sizeof k_networks / sizeof k_networks[0] };

static dhow_model *made(const network *n) {
    dhow_model *m;
    dhow_model_value x;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, n->rank, n->shape, &x));
    OK(dhow_model_output(m, "y", n->build(m, x)));
    give_parameters(m);
    return m;
}

static int64_t run_scaled(dhow_model *m, const network *n, float scale, float *y) {
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    dhow_tensor *x = numbers(dhow_model_device(m), n->rank, n->shape, 5, scale), *out = NULL;
    OK(dhow_model_run(m, NULL, &x, 1, &out, 1));
    OK(dhow_tensor_get_info(out, &info));
    cr_assert(info.dtype == DHOW_F32 && info.count <= MOST, "%s: the result is not f32", n->name);
    OK(dhow_tensor_read(out, y, (uint64_t)info.count * sizeof *y));
    dhow_tensor_release(x);
    dhow_tensor_release(out);
    return info.count;
}

static int64_t run(dhow_model *m, const network *n, float *y) { return run_scaled(m, n, 2, y); }

static double apart(const float *x, const float *y, int64_t count) {
    double sum = 0, all = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        all += (double)y[i] * (double)y[i];
    }
    return sqrt(sum / all);
}

/* Steps of an operation whose result is of a type. */
static int steps_in(const dhow_model *m, const char *operation, dhow_dtype dtype) {
    dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
    int count = 0;
    OK(dhow_model_get_summary(m, &summary));
    for (uint32_t i = 0; i < summary.step_count; i++) {
        dhow_model_step_info step = DHOW_INIT(dhow_model_step_info);
        OK(dhow_model_step_at(m, i, &step));
        count += strcmp(step.kernel, operation) == 0 && step.dtype == dtype;
    }
    return count;
}

/* ---- results ---- */

Test(model_precision, results_stay_close_and_f32_comes_back_as_it_was) {
    static float f32[MOST], half[MOST], again[MOST];
    for (int k = 0; k < NETWORKS; k++) {
        dhow_model *m = made(&k_networks[k]);
        OK(dhow_model_to(m, g_device));
        cr_assert_eq(dhow_model_precision(m), DHOW_PRECISION_DEVICE);
        const int64_t count = run(m, &k_networks[k], f32);
        for (int p = 0; p < 2; p++) {
            OK(dhow_model_set_precision(m, k_halves[p]));
            cr_assert_eq(dhow_model_precision(m), k_halves[p]);
            run(m, &k_networks[k], half);
            const double far = apart(half, f32, count);
            cr_assert(far > 0 && far <= k_bounds[p], "%s in %s: %g apart", k_networks[k].name,
                      dhow_dtype_name(k_dtypes[p]), far);
            run(m, &k_networks[k], again);
            cr_assert_arr_eq(half, again, (size_t)count * sizeof *half);
            cr_assert(
                steps_in(m, "linear", k_dtypes[p]) > 0 || steps_in(m, "matmul", k_dtypes[p]) > 0,
                "%s: no product in %s", k_networks[k].name, dhow_dtype_name(k_dtypes[p]));
        }
        OK(dhow_model_set_precision(m, DHOW_PRECISION_DEVICE));
        run(m, &k_networks[k], again);
        cr_assert_arr_eq(f32, again, (size_t)count * sizeof *f32, "%s", k_networks[k].name);
        dhow_model_release(m);
    }
}

Test(model_precision, the_order_of_moving_and_setting_does_not_matter) {
    static float before[MOST], after[MOST], there[MOST];
    const network *n = &k_networks[1];
    dhow_model *m = made(n);
    OK(dhow_model_set_precision(m, DHOW_PRECISION_BF16));
    OK(dhow_model_to(m, g_device));
    const int64_t count = run(m, n, before);
    dhow_model *other = made(n);
    OK(dhow_model_to(other, g_device));
    OK(dhow_model_set_precision(other, DHOW_PRECISION_BF16));
    run(other, n, after);
    cr_assert_arr_eq(before, after, (size_t)count * sizeof *before);
    OK(dhow_model_to(m, g_cpu)); /* it computes in bf16 there as well */
    run(m, n, there);
    cr_assert(apart(there, before, count) <= k_bounds[0]);
    cr_assert_eq(steps_in(m, "linear", DHOW_BF16), 2);
    dhow_model_release(m);
    dhow_model_release(other);
}

/* ---- what stays f32 ---- */

static dhow_model_value with_constants(dhow_model *m, dhow_model_value x) {
    OK(dhow_model_linear(m, "fc1", x, 24, 24, 1, &x));
    OK(dhow_model_add_scalar(m, x, DHOW_SCALAR(1e6), &x)); /* beyond f16 */
    OK(dhow_model_sub_scalar(m, x, DHOW_SCALAR(1e6), &x));
    OK(dhow_model_mul_scalar(m, x, DHOW_SCALAR(1e-9), &x)); /* below it */
    OK(dhow_model_mul_scalar(m, x, DHOW_SCALAR(1e9), &x));
    return x;
}

static dhow_model_value with_a_large_weight(dhow_model *m, dhow_model_value x) {
    OK(dhow_model_linear(m, "fc1", x, 24, 24, 0, &x));
    return x;
}

Test(model_precision, constants_that_16_bits_cannot_hold_are_computed_with_in_f32) {
    static const network n = {"constants", with_constants, 2, {5, 24}};
    static const network large = {"large", with_a_large_weight, 2, {5, 24}};
    static float f32[MOST], half[MOST];
    dhow_model *m = made(&n);
    OK(dhow_model_to(m, g_device));
    const int64_t count = run(m, &n, f32);
    OK(dhow_model_set_precision(m, DHOW_PRECISION_F16));
    run(m, &n, half);
    for (int64_t i = 0; i < count; i++) /* 1e6 costs f32 bits as well */
        cr_assert(fabsf(half[i] - f32[i]) < 0.13f, "%g and %g", (double)half[i], (double)f32[i]);
    dhow_model_release(m);

    m = made(&large);
    dhow_tensor *w = numbers(g_cpu, DHOW_SHAPE(24, 24), 3, 1e6f);
    OK(dhow_model_set_parameter(m, "fc1.weight", w));
    dhow_tensor_release(w);
    OK(dhow_model_to(m, g_device));
    run(m, &large, f32);
    OK(dhow_model_set_precision(m, DHOW_PRECISION_F16));
    run(m, &large, half);
    cr_assert_arr_eq(f32, half, 5 * 24 * sizeof *f32);
    OK(dhow_model_set_precision(m, DHOW_PRECISION_BF16)); /* which holds it */
    run(m, &large, half);
    cr_assert_eq(steps_in(m, "linear", DHOW_BF16), 1);
    dhow_model_release(m);
}

static dhow_model_value with_a_bias(dhow_model *m, dhow_model_value x) {
    OK(dhow_model_linear(m, "fc1", x, 24, 24, 1, &x));
    return x;
}

/* What a norm leaves of a sum that was 0: 1e-8 is nothing beside the product. */
Test(model_precision, a_bias_of_tiny_numbers_keeps_no_product_from_16_bits) {
    static const network n = {"bias", with_a_bias, 2, {5, 24}};
    static float f32[MOST], half[MOST];
    dhow_model *m = made(&n);
    dhow_tensor *b = numbers(g_cpu, DHOW_SHAPE(24), 3, 1e-8f);
    OK(dhow_model_set_parameter(m, "fc1.bias", b));
    dhow_tensor_release(b);
    OK(dhow_model_to(m, g_device));
    const int64_t count = run(m, &n, f32);
    OK(dhow_model_set_precision(m, DHOW_PRECISION_F16));
    run(m, &n, half);
    cr_assert_eq(steps_in(m, "linear", DHOW_F16), 1);
    cr_assert(apart(half, f32, count) <= k_bounds[1]);
    dhow_model_release(m);
}

static dhow_model_value written_out_norm(dhow_model *m, dhow_model_value x) {
    const int32_t last = -1;
    dhow_model_value square, mean;
    OK(dhow_model_linear(m, "fc1", x, 24, 24, 0, &x));
    OK(dhow_model_mul(m, x, x, &square)); /* beyond f16 where x is beyond 256 */
    OK(dhow_model_reduce(m, DHOW_REDUCE_MEAN, square, &last, 1, 1, &mean));
    OK(dhow_model_add_scalar(m, mean, DHOW_SCALAR(1e-6), &mean));
    OK(dhow_model_sqrt(m, mean, &mean));
    OK(dhow_model_div(m, x, mean, &x));
    OK(dhow_model_linear(m, "fc2", x, 24, 16, 1, &x));
    return x;
}

Test(model_precision, the_squares_of_a_norm_that_is_written_out_are_f32) {
    static const network n = {"norm", written_out_norm, 2, {5, 24}};
    static float f32[MOST], half[MOST];
    dhow_model *m = made(&n);
    OK(dhow_model_to(m, g_device));
    const int64_t count = run_scaled(m, &n, 4000, f32);
    for (int p = 0; p < 2; p++) {
        OK(dhow_model_set_precision(m, k_halves[p]));
        run_scaled(m, &n, 4000, half);
        const double far = apart(half, f32, count);
        cr_assert(far > 0 && far <= k_bounds[p], "%s: %g apart", dhow_dtype_name(k_dtypes[p]), far);
        cr_assert_eq(steps_in(m, "linear", k_dtypes[p]), 2);
    }
    dhow_model_release(m);
}

/* A row that is masked as a whole is an average in f32; of minus infinities it would be NaN. */
Test(model_precision, a_mask_that_is_an_input_is_not_cast_to_f16) {
    enum { ROWS = 4, COLUMNS = 8 };
    float masks[COLUMNS], y[ROWS * COLUMNS];
    dhow_model *m;
    dhow_model_value x, mask;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(ROWS, 24), &x));
    OK(dhow_model_input(m, "mask", DHOW_F32, DHOW_SHAPE(1, COLUMNS), &mask));
    OK(dhow_model_linear(m, "fc1", x, 24, COLUMNS, 0, &x));
    OK(dhow_model_add(m, x, mask, &x));
    OK(dhow_model_softmax(m, x, -1, &x));
    OK(dhow_model_output(m, "y", x));
    give_parameters(m);
    OK(dhow_model_to(m, g_device));
    OK(dhow_model_set_precision(m, DHOW_PRECISION_F16));
    for (int i = 0; i < COLUMNS; i++) masks[i] = -1e9f;
    dhow_tensor *in[] = {numbers(g_device, DHOW_SHAPE(ROWS, 24), 5, 2), NULL}, *out = NULL;
    OK(dhow_tensor_from_data(g_device, DHOW_F32, DHOW_SHAPE(1, COLUMNS), masks, &in[1]));
    OK(dhow_model_run(m, NULL, in, 2, &out, 1));
    OK(dhow_tensor_read(out, y, sizeof y));
    for (int i = 0; i < ROWS * COLUMNS; i++)
        cr_assert(fabsf(y[i] - 1.0f / COLUMNS) < 1e-3f, "%g", (double)y[i]);
    cr_assert_eq(steps_in(m, "linear", DHOW_F16), 1);
    for (int i = 0; i < 2; i++) dhow_tensor_release(in[i]);
    dhow_tensor_release(out);
    dhow_model_release(m);
}

static dhow_model_value places(dhow_model *m, dhow_model_value x) {
    dhow_model_value largest, sum;
    OK(dhow_model_linear(m, "fc1", x, 24, 24, 1, &x));
    OK(dhow_model_argmax(m, x, 0, &largest));
    OK(dhow_model_cast(m, largest, DHOW_F32, &sum));
    OK(dhow_model_exp(m, x, &x));
    OK(dhow_model_add(m, x, sum, &x));
    return x;
}

Test(model_precision, indices_and_exponentials_are_those_of_f32) {
    static const network n = {"places", places, 2, {5, 24}};
    static float f32[MOST], half[MOST];
    dhow_model *m = made(&n);
    OK(dhow_model_to(m, g_device));
    const int64_t count = run(m, &n, f32);
    OK(dhow_model_set_precision(m, DHOW_PRECISION_BF16));
    run(m, &n, half);
    cr_assert(apart(half, f32, count) < 2e-2);
    cr_assert_eq(steps_in(m, "linear", DHOW_BF16), 1);
    cr_assert_eq(steps_in(m, "map", DHOW_BF16), 0, "an exponential is 16 bits");
    dhow_model_release(m);
}

/* A single number in a shape of 32 MiB, which is laid out for its way to the device alone. */
Test(model_precision, a_huge_constant_that_is_one_number_is_cast_as_one_number) {
    dhow_memory_stats stats = DHOW_INIT(dhow_memory_stats);
    dhow_model *m;
    dhow_model_value x, c;
    dhow_tensor *in = numbers(g_device, DHOW_SHAPE(1, 24), 5, 2), *out = NULL;
    if (g_device == g_cpu) cr_skip_test("the result is on the CPU, too");
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(1, 24), &x));
    OK(dhow_model_linear(m, "fc1", x, 24, 1, 0, &x));
    OK(dhow_model_parameter(m, "c", DHOW_F32, DHOW_SHAPE(1, 1), &c));
    OK(dhow_model_expand(m, c, DHOW_SHAPE(INT64_C(1) << 14, INT64_C(1) << 10), &c));
    OK(dhow_model_add(m, x, c, &x));
    OK(dhow_model_output(m, "y", x));
    give_parameters(m);
    OK(dhow_model_set_precision(m, DHOW_PRECISION_F16));
    OK(dhow_memory_reset_peaks(g_cpu));
    OK(dhow_model_to(m, g_device));
    OK(dhow_model_run(m, NULL, &in, 1, &out, 1));
    OK(dhow_memory_get_stats(g_cpu, &stats));
    cr_assert_lt(stats.live_peak, UINT64_C(40) << 20, "%llu bytes",
                 (unsigned long long)stats.live_peak);
    dhow_tensor_release(out);
    dhow_model_release(m);
    dhow_tensor_release(in);
}

/* ---- parameters ---- */

static dhow_model_value wide(dhow_model *m, dhow_model_value x) {
    OK(dhow_model_linear(m, "fc1", x, 512, 512, 0, &x));
    OK(dhow_model_linear(m, "fc2", x, 512, 512, 0, &x));
    return x;
}

static uint64_t live(void) {
    dhow_memory_stats stats = DHOW_INIT(dhow_memory_stats);
    OK(dhow_memory_get_stats(g_device, &stats));
    return stats.live;
}

Test(model_precision, weights_are_16_bits_alone_on_a_device) {
    static const network n = {"wide", wide, 2, {1, 512}};
    static float y[MOST];
    const uint64_t weights = UINT64_C(2) * 512 * 512 * sizeof(float), before = live();
    if (g_device == g_cpu) cr_skip_test("the CPU keeps the model's own parameters");
    dhow_model *m = made(&n);
    OK(dhow_model_to(m, g_device));
    run(m, &n, y);
    cr_assert_geq(live() - before, weights);
    OK(dhow_model_set_precision(m, DHOW_PRECISION_F16)); /* those of f32 are there already */
    run(m, &n, y);
    cr_assert_leq(live() - before, weights / 2 + weights / 8);
    dhow_model_release(m);
    m = made(&n);
    OK(dhow_model_set_precision(m, DHOW_PRECISION_F16));
    OK(dhow_model_to(m, g_device));
    cr_assert_leq(live() - before, weights / 2 + weights / 8);
    run(m, &n, y);
    cr_assert_leq(live() - before, weights / 2 + weights / 8);
    dhow_model_release(m);
}

Test(model_precision, parameters_are_saved_loaded_and_set_as_f32) {
    static float one[MOST], two[MOST];
    const network *n = &k_networks[1];
    char path[64];
    (void)snprintf(path, sizeof path, "/tmp/model_precision_%d.safetensors", (int)getpid());
    dhow_model *m = made(n), *other = made(n);
    OK(dhow_model_to(m, g_device));
    OK(dhow_model_to(other, g_device));
    OK(dhow_model_set_precision(m, DHOW_PRECISION_BF16));
    dhow_tensor *w = numbers(g_cpu, DHOW_SHAPE(48, 24), 99, 1);
    OK(dhow_model_set_parameter(m, "fc1.weight", w));
    dhow_tensor_release(w);
    const int64_t count = run(m, n, one);
    OK(dhow_model_save_state(m, path));
    OK(dhow_model_load_state(other, path));
    run(other, n, two);
    cr_assert(apart(one, two, count) <= k_bounds[0]);
    OK(dhow_model_set_precision(m, DHOW_PRECISION_DEVICE));
    run(m, n, one);
    cr_assert_arr_eq(one, two, (size_t)count * sizeof *one, "the file is not f32");
    OK(dhow_model_set_precision(other, DHOW_PRECISION_BF16));
    OK(dhow_model_load_state(other, path)); /* after it was set */
    run(other, n, two);
    cr_assert(apart(two, one, count) <= k_bounds[0]);
    dhow_model_parameter_info info = DHOW_INIT(dhow_model_parameter_info);
    dhow_tensor_info tensor = DHOW_INIT(dhow_tensor_info);
    OK(dhow_model_parameter_at(other, 0, &info));
    OK(dhow_tensor_get_info(info.tensor, &tensor));
    cr_assert_eq(tensor.dtype, DHOW_F32);
    (void)remove(path);
    dhow_model_release(m);
    dhow_model_release(other);
}

/* ---- together with the rest ---- */

Test(model_precision, copies_compute_in_the_same) {
    static float own[MOST], copied[MOST];
    const network *n = &k_networks[1];
    dhow_device *devices[] = {g_device, g_cpu};
    dhow_model *m = made(n), *copies[2];
    OK(dhow_model_to(m, g_device));
    OK(dhow_model_set_precision(m, DHOW_PRECISION_BF16));
    const int64_t count = run(m, n, own);
    OK(dhow_model_replicate(m, devices, 2, copies));
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(dhow_model_precision(copies[i]), DHOW_PRECISION_BF16);
        run(copies[i], n, copied);
        cr_assert_eq(steps_in(copies[i], "linear", DHOW_BF16), 2);
        cr_assert(apart(copied, own, count) <= k_bounds[0]);
    }
    dhow_model_release(m);
    for (int i = 0; i < 2; i++) dhow_model_release(copies[i]);
}

Test(model_precision, a_parallel_model_computes_in_it) {
    static float own[MOST], together[MOST];
    const network *n = &k_networks[1];
    dhow_device *devices[] = {g_cpu, g_device};
    dhow_model *m;
    dhow_model_value x;
    dhow_parallel *p;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(-1, 24), &x));
    OK(dhow_model_output(m, "y", mlp(m, x)));
    give_parameters(m);
    OK(dhow_model_set_precision(m, DHOW_PRECISION_BF16));
    const int64_t count = run(m, n, own);
    OK(dhow_parallel_create(m, devices, g_device == g_cpu ? 1 : 2, NULL, &p));
    dhow_tensor *in = numbers(g_cpu, n->rank, n->shape, 5, 2), *out = NULL;
    OK(dhow_parallel_run(p, &in, 1, &out, 1));
    OK(dhow_tensor_read(out, together, (uint64_t)count * sizeof *together));
    cr_assert(apart(together, own, count) <= k_bounds[0]);
    dhow_tensor_release(in);
    dhow_tensor_release(out);
    dhow_parallel_release(p);
    dhow_model_release(m);
}

typedef struct worker {
    dhow_model *model;
    const float *wanted;
    int wrong;
} worker;

static void *work(void *data) {
    worker *w = data;
    static const network *n = &k_networks[1];
    float y[5 * 16];
    for (int i = 0; i < 20; i++) {
        dhow_tensor *x = numbers(g_device, n->rank, n->shape, 5, 2), *out = NULL;
        if (dhow_model_run(w->model, NULL, &x, 1, &out, 1) != DHOW_OK ||
            dhow_tensor_read(out, y, sizeof y) != DHOW_OK || memcmp(y, w->wanted, sizeof y) != 0)
            w->wrong++;
        dhow_tensor_release(x);
        dhow_tensor_release(out);
    }
    return NULL;
}

Test(model_precision, several_threads_run_it_from_its_first_plan_on) {
    static float wanted[MOST];
    const network *n = &k_networks[1];
    pthread_t threads[4];
    worker workers[4];
    dhow_model *first = made(n), *m = made(n);
    OK(dhow_model_to(first, g_device));
    OK(dhow_model_set_precision(first, DHOW_PRECISION_BF16));
    run(first, n, wanted);
    OK(dhow_model_to(m, g_device));
    OK(dhow_model_set_precision(m, DHOW_PRECISION_BF16));
    for (int i = 0; i < 4; i++) {
        workers[i] = (worker){.model = m, .wanted = wanted};
        cr_assert_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        (void)pthread_join(threads[i], NULL);
        cr_assert_eq(workers[i].wrong, 0);
    }
    dhow_model_release(first);
    dhow_model_release(m);
}

/* Computed in the same type, by one thread or more, which add up in another order; 16 bits would
 * differ by 100 times as much. */
static void expect_alike(const float *y, const float *wanted, int64_t count) {
    float largest = 0;
    for (int64_t i = 0; i < count; i++) largest = fmaxf(largest, fabsf(wanted[i]));
    for (int64_t i = 0; i < count; i++) cr_assert_float_eq(y[i], wanted[i], 1e-5 * largest);
}

Test(model_precision, f32_and_reduced_hold_whatever_the_device_is_set_to) {
    static float exact[MOST], reduced[MOST], y[MOST];
    static const network n = {"wide", wide, 2, {1, 512}};
    dhow_model *m = made(&n);
    OK(dhow_model_to(m, g_device));
    const int64_t count = run(m, &n, exact);
    OK(dhow_device_set_precision(g_device, DHOW_PRECISION_REDUCED));
    run(m, &n, reduced); /* as the device: on some it is f32 all the same */
    OK(dhow_model_set_precision(m, DHOW_PRECISION_F32));
    run(m, &n, y);
    expect_alike(y, exact, count);
    OK(dhow_device_set_precision(g_device, DHOW_PRECISION_F32));
    OK(dhow_model_set_precision(m, DHOW_PRECISION_REDUCED));
    run(m, &n, y);
    expect_alike(y, reduced, count);
    dhow_model_release(m);
}

/* ---- refused ---- */

Test(model_precision, what_is_no_precision_is_refused_by_its_number) {
    dhow_model *m = made(&k_networks[1]);
    cr_assert_eq(dhow_model_set_precision(m, (dhow_precision)9), DHOW_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(dhow_last_error(), "9 is no precision"), "%s", dhow_last_error());
    cr_assert_eq(dhow_model_precision(m), DHOW_PRECISION_DEVICE);
    cr_assert_eq(dhow_device_set_precision(g_device, DHOW_PRECISION_BF16), DHOW_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(dhow_last_error(), "dhow_model_set_precision"), "%s",
                       dhow_last_error());
    dhow_model_release(m);
}

Test(model_precision, a_device_without_the_type_is_refused_by_name) {
    static float before[MOST], after[MOST];
    dhow_context *context = g_context;
    dhow_device *sim;
    if (g_device != g_cpu) cr_skip_test("once is enough");
    (void)setenv("DHOW_BACKENDS", "cpu,sim", 1);
    (void)setenv("DHOW_SIM", "without=matmul_f16", 1);
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, "cpu", &g_cpu));
    OK(dhow_device_get(g_context, "sim", &sim));
    dhow_model *m = made(&k_networks[1]);
    OK(dhow_model_set_precision(m, DHOW_PRECISION_F16));
    const int64_t count = run(m, &k_networks[1], before);
    cr_assert_eq(dhow_model_to(m, sim), DHOW_UNSUPPORTED);
    cr_assert_not_null(strstr(dhow_last_error(), "DHOW_PRECISION_F16"), "%s", dhow_last_error());
    cr_assert_not_null(strstr(dhow_last_error(), "sim:0"), "%s", dhow_last_error());
    cr_assert_eq(dhow_model_device(m), g_cpu);
    run(m, &k_networks[1], after);
    cr_assert_arr_eq(before, after, (size_t)count * sizeof *before);
    OK(dhow_model_set_precision(m, DHOW_PRECISION_DEVICE));
    OK(dhow_model_to(m, sim));
    cr_assert_eq(dhow_model_set_precision(m, DHOW_PRECISION_F16), DHOW_UNSUPPORTED);
    cr_assert_eq(dhow_model_precision(m), DHOW_PRECISION_DEVICE);
    run(m, &k_networks[1], after);
    OK(dhow_model_set_precision(m, DHOW_PRECISION_BF16));
    run(m, &k_networks[1], after);
    dhow_model_release(m);
    dhow_context_release(g_context);
    g_context = context;
}
