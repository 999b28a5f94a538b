/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions on CUDA, by cuDNN and as products of cuBLASLt: they compute what the CPU computes,
 * and no image of a model goes through the portable kernel.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"
#include "fakecuda.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())

enum { MOST = 1 << 16 };

static dhow_context *g_context;
static dhow_device *g_cpu, *g_cuda;
static char g_log[1 << 16];

static void keep(void *user, dhow_log_level level, const char *line) {
    const size_t used = strlen(g_log);
    (void)user;
    if (level <= DHOW_LOG_INFO) (void)snprintf(g_log + used, sizeof g_log - used, "%s\n", line);
}

static void begin(const char *settings, const char *faults) {
    const dhow_context_options options =
        DHOW_INIT(dhow_context_options, .backends = "cpu,cuda", .log = keep);
    char why[256] = "";
    g_log[0] = '\0';
    (void)setenv("DHOW_LOG", "info", 1);
    cr_assert(fakecuda_reset(settings, faults, why, sizeof why), "%s", why);
    OK(dhow_context_create(&options, &g_context));
    OK(dhow_device_get(g_context, "cpu", &g_cpu));
    OK(dhow_device_get(g_context, "cuda:0", &g_cuda));
}

static void end(void) {
    dhow_context_release(g_context);
    cr_assert_eq(fakecuda_complaints(), 0, "%s", fakecuda_first_complaint());
    cr_assert_eq(fakecuda_live_objects(NULL), 0, "objects of CUDA are left");
}

static uint64_t calls(const char *function) { return fakecuda_call_count(function); }

/* Small numbers that every dtype has, so that sums are exact in f32. */
static void fill(float *values, size_t count, unsigned seed) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(int)(seed >> 16 & 15) / 8.0f - 1.0f;
    }
}

static dhow_tensor *random_tensor(dhow_device *device, dhow_dtype dtype, int32_t rank,
                                  const int64_t *shape, unsigned seed) {
    static float values[MOST];
    dhow_tensor *wide, *t;
    size_t count = 1;
    for (int32_t i = 0; i < rank; i++) count *= (size_t)shape[i];
    cr_assert_leq(count, MOST);
    fill(values, count, seed);
    OK(dhow_tensor_from_data(device, DHOW_F32, rank, shape, values, &wide));
    OK(dhow_tensor_to_dtype(NULL, wide, dtype, &t));
    dhow_tensor_release(wide);
    return t;
}

static size_t read_values(dhow_tensor *t, float *values) {
    const size_t count = (size_t)dhow_tensor_count(t);
    dhow_tensor *wide;
    cr_assert_leq(count, MOST);
    OK(dhow_tensor_to_dtype(NULL, t, DHOW_F32, &wide));
    OK(dhow_tensor_read(wide, values, count * sizeof *values));
    dhow_tensor_release(wide);
    return count;
}

static void expect_close(const float *got, const float *want, size_t count, double tolerance,
                         const char *what) {
    for (size_t i = 0; i < count; i++) {
        const double error = fabs((double)got[i] - (double)want[i]);
        cr_assert(error <= tolerance * (1 + fabs((double)want[i])), "%s: element %zu is %g, not %g",
                  what, i, (double)got[i], (double)want[i]);
    }
}

/* ---- models --------------------------------------------------------------------------------- */

typedef void build_fn(dhow_model *model, dhow_model_value x);

static void fill_parameters(dhow_model *model) {
    for (uint32_t i = 0; i < dhow_model_parameter_count(model); i++) {
        dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
        OK(dhow_model_parameter_describe(model, i, &info));
        dhow_tensor *t = random_tensor(g_cpu, info.dtype, info.rank, info.shape, 77 + i);
        OK(dhow_model_set_parameter(model, info.name, t));
        dhow_tensor_release(t);
    }
}

static dhow_model *make_model(build_fn *build, dhow_dtype dtype, const int64_t *shape) {
    dhow_model *model;
    dhow_model_value x;
    OK(dhow_model_create(g_context, &model));
    OK(dhow_model_input(model, "x", dtype, 4, shape, &x));
    build(model, x);
    fill_parameters(model);
    return model;
}

static size_t run_model(dhow_model *model, dhow_device *device, dhow_dtype dtype,
                        const int64_t *shape, int runs, float *values) {
    dhow_tensor *in = random_tensor(device, dtype, 4, shape, 5), *out = NULL;
    OK(dhow_model_to(model, device));
    OK(dhow_model_run(model, NULL, &in, 1, &out, 1));
    for (int i = 1; i < runs; i++) OK(dhow_model_run_into(model, NULL, &in, 1, &out, 1));
    const size_t count = read_values(out, values);
    dhow_tensor_release(in);
    dhow_tensor_release(out);
    return count;
}

static void expect_as_cpu(build_fn *build, dhow_dtype dtype, const int64_t *shape, int runs,
                          double tolerance, const char *what) {
    static float want[MOST], got[MOST];
    dhow_model *model = make_model(build, dtype, shape);
    const size_t count = run_model(model, g_cpu, dtype, shape, 1, want);
    cr_assert_eq(run_model(model, g_cuda, dtype, shape, runs, got), count);
    expect_close(got, want, count, tolerance, what);
    dhow_model_release(model);
}

static dhow_model_value conv(dhow_model *model, const char *name, dhow_model_value x, int64_t from,
                             int64_t to, int64_t kernel, int64_t stride, int64_t groups) {
    const int64_t pad = kernel / 2;
    const dhow_window window =
        DHOW_INIT(dhow_window, .kernel = {kernel, kernel}, .stride = {stride, stride},
                  .pad = {pad, pad, pad, pad}, .groups = groups);
    OK(dhow_model_conv2d(model, name, x, from, to, &window, 1, &x));
    return x;
}

static dhow_model_value relu(dhow_model *model, dhow_model_value x) {
    OK(dhow_model_relu(model, x, &x));
    return x;
}

static void finish(dhow_model *model, dhow_model_value x, int64_t channels) {
    static const int32_t pixels[] = {2, 3};
    OK(dhow_model_reduce(model, DHOW_REDUCE_MEAN, x, pixels, 2, 0, &x));
    OK(dhow_model_linear(model, "fc", x, channels, 10, 1, &x));
    OK(dhow_model_output(model, "y", x));
}

static void resnet_like(dhow_model *model, dhow_model_value x) {
    const dhow_window pool =
        DHOW_INIT(dhow_window, .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1});
    dhow_model_value h, shortcut;
    x = relu(model, conv(model, "stem", x, 3, 8, 7, 2, 1));
    OK(dhow_model_maxpool2d(model, x, &pool, &x));
    h = relu(model, conv(model, "a1", x, 8, 8, 1, 1, 1));
    h = relu(model, conv(model, "a2", h, 8, 8, 3, 1, 1));
    h = conv(model, "a3", h, 8, 16, 1, 1, 1);
    shortcut = conv(model, "as", x, 8, 16, 1, 1, 1);
    OK(dhow_model_add(model, h, shortcut, &h));
    x = relu(model, h);
    h = relu(model, conv(model, "b1", x, 16, 8, 1, 1, 1));
    h = relu(model, conv(model, "b2", h, 8, 8, 3, 2, 1));
    h = conv(model, "b3", h, 8, 16, 1, 1, 1);
    shortcut = conv(model, "bs", x, 16, 16, 1, 2, 1);
    OK(dhow_model_add(model, h, shortcut, &h));
    finish(model, relu(model, h), 16);
}

static void mobilenet_like(dhow_model *model, dhow_model_value x) {
    static const char *const names[][2] = {{"d1", "p1"}, {"d2", "p2"}};
    x = conv(model, "stem", x, 3, 16, 3, 2, 1);
    for (int i = 0; i < 2; i++) {
        OK(dhow_model_clip(model, x, 0, 6, &x));
        x = conv(model, names[i][0], x, 16, 16, 3, 1 + i, 16);
        OK(dhow_model_clip(model, x, 0, 6, &x));
        x = conv(model, names[i][1], x, 16, 16, 1, 1, 1);
    }
    x = relu(model, conv(model, "d3", x, 16, 16, 3, 1, 16));
    finish(model, x, 16);
}

/* Groups, with a residual and without. */
static void shufflenet_like(dhow_model *model, dhow_model_value x) {
    dhow_model_value h;
    x = conv(model, "stem", x, 3, 16, 3, 2, 1);
    OK(dhow_model_clip(model, x, 0, 1, &x));
    h = conv(model, "a", x, 16, 16, 1, 1, 2);
    OK(dhow_model_add(model, h, x, &x));
    x = relu(model, x);
    x = conv(model, "b", x, 16, 36, 3, 2, 4); /* 18 bytes of results to a group in f16 */
    OK(dhow_model_clip(model, x, 0, 1, &x));
    finish(model, x, 36);
}

/* ReLU without a bias, and activations that cuDNN has not. */
static void other_ends(dhow_model *model, dhow_model_value x) {
    const dhow_window window = DHOW_INIT(dhow_window, .kernel = {3, 3});
    OK(dhow_model_conv2d(model, "bare", x, 3, 8, &window, 0, &x));
    x = conv(model, "tanh", relu(model, x), 8, 8, 3, 1, 1);
    OK(dhow_model_tanh(model, x, &x));
    x = conv(model, "sigmoid", x, 8, 8, 1, 1, 1);
    OK(dhow_model_sigmoid(model, x, &x));
    finish(model, x, 8);
}

static void pointwise(dhow_model *model, dhow_model_value x) {
    dhow_model_value h = conv(model, "a", x, 8, 16, 1, 1, 1);
    h = conv(model, "b", relu(model, h), 16, 8, 1, 1, 1);
    OK(dhow_model_add(model, h, x, &x));
    x = conv(model, "c", relu(model, x), 8, 8, 1, 1, 1);
    OK(dhow_model_output(model, "y", x));
}

static const struct {
    dhow_dtype dtype;
    dhow_precision precision;
    double tolerance;
    const char *name;
} k_types[] = {{DHOW_F32, DHOW_PRECISION_F32, 1e-5, "f32"},
               {DHOW_F32, DHOW_PRECISION_REDUCED, 1e-2, "TF32"},
               {DHOW_F16, DHOW_PRECISION_F32, 1e-2, "f16"},
               {DHOW_BF16, DHOW_PRECISION_F32, 8e-2, "bf16"}};
enum { TYPES = sizeof k_types / sizeof k_types[0] };

/* Memory that is given out next has NaN in it: nobody may read what was not written. */
static void spoil_memory(void) {
    dhow_tensor *t[24];
    for (int i = 0; i < 24; i++)
        OK(dhow_tensor_full(g_cuda, DHOW_F32, DHOW_SHAPE(INT64_C(64) << (i % 12)), NAN, &t[i]));
    for (int i = 0; i < 24; i++) dhow_tensor_release(t[i]);
}

/* Images went through the portable kernel, at 1-2 % of what a GPU can do. */
static void expect_no_portable_convolution(const char *settings) {
    static const int64_t shape[] = {2, 3, 20, 20};
    for (int i = 0; i < TYPES; i++) {
        char faults[96];
        const char *type = i < 2 ? "f32" : k_types[i].name;
        /* Where tensor cores want NHWC, a pool between convolutions keeps it. */
        (void)snprintf(faults, sizeof faults, "kernel:conv2d_%s@1+=719;kernel:%s_%s@1+=719", type,
                       i == 0 ? "none" : "maxpool2d", type);
        begin(settings, faults);
        spoil_memory();
        OK(dhow_device_set_precision(g_cuda, k_types[i].precision));
        expect_as_cpu(resnet_like, k_types[i].dtype, shape, 6, k_types[i].tolerance,
                      k_types[i].name);
        cr_assert_gt(calls("cudaGraphLaunch"), 0, "the model cannot be recorded");
        expect_as_cpu(mobilenet_like, k_types[i].dtype, shape, 1, k_types[i].tolerance,
                      k_types[i].name);
        expect_as_cpu(other_ends, k_types[i].dtype, shape, 1, k_types[i].tolerance,
                      k_types[i].name);
        expect_as_cpu(shufflenet_like, k_types[i].dtype, shape, 1, k_types[i].tolerance,
                      k_types[i].name);
        end();
    }
}

Test(conv, no_image_of_a_model_goes_through_the_portable_kernel) {
    expect_no_portable_convolution(NULL);
    expect_no_portable_convolution("nocudnn=1");
}

/* ReLU6 was a step of its own before and behind each of them. */
Test(conv, clips_around_convolutions_of_single_channels_are_part_of_them) {
    static const int64_t shape[] = {2, 3, 20, 20};
    static const char *const settings[] = {NULL, "nocudnn=1"};
    for (size_t i = 0; i < 2 * TYPES; i++) {
        begin(settings[i % 2],
              "kernel:map_f32@1+=719;kernel:map_f16@1+=719;kernel:map_bf16@1+=719");
        OK(dhow_device_set_precision(g_cuda, k_types[i / 2].precision));
        expect_as_cpu(mobilenet_like, k_types[i / 2].dtype, shape, 1, k_types[i / 2].tolerance,
                      k_types[i / 2].name);
        end();
    }
}

/* Bounds that are no numbers of f16 or bf16, and padding that lies outside them. */
static void held_between(dhow_model *model, dhow_model_value x, int shown) {
    dhow_model_value y = conv(model, "widen", x, 3, 16, 1, 1, 1);
    OK(dhow_model_clip(model, y, 0.07, 0.1, &y));
    if (shown) OK(dhow_model_output(model, "held", y));
    y = conv(model, "depthwise", y, 16, 16, 3, 1, 16);
    OK(dhow_model_clip(model, y, -0.3, 0.7, &y));
    OK(dhow_model_output(model, "y", y));
}
static void held(dhow_model *model, dhow_model_value x) { held_between(model, x, 0); }
static void held_and_shown(dhow_model *model, dhow_model_value x) { held_between(model, x, 1); }

/* What an output shows is computed by itself. */
Test(conv, an_image_held_while_it_is_read_has_the_same_bits) {
    static const int64_t shape[] = {2, 3, 9, 9};
    static float numbers[2][MOST];
    for (int i = 0; i < TYPES; i++) {
        size_t count[2];
        begin(NULL, NULL);
        for (int shown = 0; shown < 2; shown++) {
            dhow_tensor *out[2] = {NULL, NULL};
            dhow_tensor *in = random_tensor(g_cuda, k_types[i].dtype, 4, shape, 5);
            dhow_model *model = make_model(shown ? held_and_shown : held, k_types[i].dtype, shape);
            OK(dhow_model_to(model, g_cuda));
            OK(dhow_model_run(model, NULL, &in, 1, out, 1 + (uint32_t)shown));
            count[shown] = read_values(out[shown], numbers[shown]);
            for (int k = 0; k < 1 + shown; k++) dhow_tensor_release(out[k]);
            dhow_tensor_release(in);
            dhow_model_release(model);
        }
        cr_assert_eq(count[0], count[1]);
        for (size_t k = 0; k < count[0]; k++)
            cr_assert(numbers[0][k] == numbers[1][k], "%s: element %zu is %.9g, not %.9g",
                      k_types[i].name, k, (double)numbers[0][k], (double)numbers[1][k]);
        end();
    }
}

/* ResNet's nine convolutions end in bias, ReLU and residual within one call. */
Test(conv, what_follows_the_sums_is_part_of_the_call) {
    static const int64_t shape[] = {2, 3, 20, 20};
    begin(NULL, NULL);
    expect_as_cpu(resnet_like, DHOW_F16, shape, 1, 1e-2, "f16");
    cr_assert_eq(calls("cudnnConvolutionBiasActivationForward"), 9);
    cr_assert_eq(calls("cudnnConvolutionForward"), 0);
    end();
}

/* Whether cuDNN takes all in one call comes out at the call alone. */
Test(conv, what_cudnn_refuses_in_one_call_follows_in_others) {
    static const int64_t shape[] = {2, 3, 20, 20};
    for (int i = 0; i < TYPES; i++) {
        begin("nofused=1", NULL);
        OK(dhow_device_set_precision(g_cuda, k_types[i].precision));
        expect_as_cpu(resnet_like, k_types[i].dtype, shape, 6, k_types[i].tolerance,
                      k_types[i].name);
        cr_assert_not_null(strstr(g_log, "they follow in calls of their own"), "%s", g_log);
        cr_assert_eq(calls("cudnnConvolutionBiasActivationForward"), 9,
                     "refused once, then asked "
                     "no more");
        end();
    }
}

/* ---- single convolutions -------------------------------------------------------------------- */

static void convolve(dhow_device *device, dhow_dtype dtype, const int64_t *x_shape,
                     const int64_t *w_shape, const dhow_window *window, bool with_bias,
                     float *values, size_t *count) {
    dhow_tensor *x = random_tensor(device, dtype, 4, x_shape, 3), *y;
    dhow_tensor *w = random_tensor(device, dtype, 4, w_shape, 4);
    dhow_tensor *bias = with_bias ? random_tensor(device, dtype, 1, w_shape, 9) : NULL;
    int64_t shape[4] = {x_shape[0], w_shape[0]};
    for (int i = 0; i < 2; i++) {
        const int64_t padded = x_shape[2 + i] + window->pad[i] + window->pad[i + 2];
        shape[2 + i] =
            (padded - window->dilation[i] * (w_shape[2 + i] - 1) - 1) / window->stride[i] + 1;
    }
    OK(dhow_tensor_create(device, dtype, 4, shape, &y));
    OK(dhow_conv2d(NULL, x, w, bias, window, y));
    *count = read_values(y, values);
    dhow_tensor_release(x);
    dhow_tensor_release(w);
    dhow_tensor_release(bias);
    dhow_tensor_release(y);
}

static unsigned g_seed;
static int64_t pick(int64_t low, int64_t high) {
    g_seed = g_seed * 1664525u + 1013904223u;
    return low + (int64_t)(g_seed >> 16) % (high - low + 1);
}

/* Groups, strides, dilations and paddings by chance. */
static void expect_convolutions_as_cpu(const char *settings, int rounds) {
    static float want[MOST], got[MOST];
    begin(settings, NULL);
    g_seed = 1;
    for (int round = 0; round < rounds; round++) {
        const int type = round % TYPES;
        const int64_t groups = pick(1, 3), each = pick(1, 4), to = groups * pick(1, 4);
        const int64_t x_shape[] = {pick(1, 3), groups * each, pick(5, 9), pick(5, 9)};
        const int64_t w_shape[] = {to, each, pick(1, 3), pick(1, 3)};
        dhow_window w = DHOW_INIT(dhow_window, .stride = {pick(1, 2), pick(1, 2)},
                                  .dilation = {pick(1, 2), pick(1, 2)}, .groups = groups);
        size_t count, other;
        char what[96];
        for (int i = 0; i < 4; i++) w.pad[i] = i >= 2 && round % 4 != 3 ? w.pad[i - 2] : pick(0, 2);
        OK(dhow_device_set_precision(g_cuda, k_types[type].precision));
        convolve(g_cpu, k_types[type].dtype, x_shape, w_shape, &w, round % 3 != 0, want, &count);
        convolve(g_cuda, k_types[type].dtype, x_shape, w_shape, &w, round % 3 != 0, got, &other);
        (void)snprintf(what, sizeof what, "round %d in %s", round, k_types[type].name);
        cr_assert_eq(count, other);
        expect_close(got, want, count, k_types[type].tolerance, what);
    }
}

Test(conv, groups_strides_dilations_and_paddings_are_cudnns) {
    expect_convolutions_as_cpu(NULL, 200);
    cr_assert_gt(calls("cudnnConvolutionForward"), 20);
    cr_assert_gt(calls("cudnnConvolutionBiasActivationForward"), 40);
    end();
}

/* Without cuDNN as products; a few, whose groups are of one channel, by the portable kernel. */
Test(conv, groups_strides_dilations_and_paddings_are_products) {
    expect_convolutions_as_cpu("nocudnn=1", 400);
    cr_assert_gt(calls("cublasLtMatmul"), 150);
    cr_assert_eq(calls("cudnnConvolutionForward"), 0);
    end();
}

/* An image's windows are laid out in parts: more pixels than 32 MiB hold. */
static void large(dhow_model *model, dhow_model_value x) {
    const dhow_window window =
        DHOW_INIT(dhow_window, .kernel = {65, 65}, .pad = {32, 32, 32, 32}, .stride = {1, 1});
    OK(dhow_model_conv2d(model, "a", x, 1, 2, &window, 1, &x));
    OK(dhow_model_output(model, "y", x));
}

Test(conv, windows_are_laid_out_in_parts_of_the_image) {
    static const int64_t shape[] = {1, 1, 60, 70}; /* 4200 pixels, 1984 at a time */
    begin("nocudnn=1", NULL);
    expect_as_cpu(large, DHOW_F32, shape, 1, 1e-5, "f32");
    cr_assert_eq(calls("cublasLtMatmul"), 3);
    end();
}

/* With its bias and residual, and no window laid out. */
Test(conv, a_1x1_convolution_is_one_product_as_it_lies) {
    static const int64_t shape[] = {1, 8, 6, 6};
    begin("nocudnn=1", "kernel:im2col_f16@1+=719");
    expect_as_cpu(pointwise, DHOW_F16, shape, 1, 1e-2, "f16");
    cr_assert_eq(calls("cublasLtMatmul"), 3);
    end();
}

/* ---- other dimensions, and the transpose ---------------------------------------------------- */

typedef dhow_status step_fn(dhow_model *model, const char *name, dhow_model_value x,
                            int64_t in_channels, int64_t out_channels,
                            const dhow_conv_options *options, int32_t bias, dhow_model_value *out);

static void expect_step_as_cpu(step_fn *step, int32_t spatial, bool transposed, int round) {
    static float want[MOST], got[MOST];
    const int64_t groups = pick(1, 2), from = 2 * groups, to = 3 * groups;
    dhow_conv_options o = DHOW_INIT(dhow_conv_options, .groups = groups);
    int64_t shape[5] = {2, from};
    dhow_model *model;
    dhow_model_value x;
    dhow_tensor *in, *out;
    char what[64];
    for (int i = 0; i < spatial; i++) {
        shape[2 + i] = pick(4, 6);
        o.kernel[i] = pick(1, 3);
        o.stride[i] = pick(1, 2);
        o.dilation[i] = pick(1, 2);
        o.padding[i] = pick(0, 1);
        if (transposed) o.output_padding[i] = o.stride[i] - 1;
    }
    (void)snprintf(what, sizeof what, "round %d in %d dimensions", round, spatial);
    OK(dhow_model_create(g_context, &model));
    OK(dhow_model_input(model, "x", DHOW_F32, 2 + spatial, shape, &x));
    OK(step(model, "a", x, from, to, &o, round % 2, &x));
    OK(dhow_model_output(model, "y", x));
    fill_parameters(model);
    for (int d = 0; d < 2; d++) {
        out = NULL;
        in = random_tensor(d == 0 ? g_cpu : g_cuda, DHOW_F32, 2 + spatial, shape, 5);
        OK(dhow_model_to(model, d == 0 ? g_cpu : g_cuda));
        OK(dhow_model_run(model, NULL, &in, 1, &out, 1));
        const size_t count = read_values(out, d == 0 ? want : got);
        if (d == 1) expect_close(got, want, count, 1e-5, what);
        dhow_tensor_release(in);
        dhow_tensor_release(out);
    }
    dhow_model_release(model);
}

Test(conv, sequences_and_volumes_are_cudnns) {
    begin(NULL, "kernel:conv2d_f32@1+=719;kernel:conv3d_f32@1+=719");
    g_seed = 1;
    for (int round = 0; round < 12; round++) {
        expect_step_as_cpu(dhow_model_conv1d, 1, false, round);
        expect_step_as_cpu(dhow_model_conv3d, 3, false, round);
    }
    end();
}

Test(conv, transposed_convolutions_are_cudnns) {
    begin(NULL, "kernel:conv_transpose3d_f32@1+=719");
    g_seed = 2;
    for (int round = 0; round < 12; round++) {
        expect_step_as_cpu(dhow_model_conv_transpose1d, 1, true, round);
        expect_step_as_cpu(dhow_model_conv_transpose2d, 2, true, round);
        expect_step_as_cpu(dhow_model_conv_transpose3d, 3, true, round);
    }
    cr_assert_eq(calls("cudnnConvolutionBackwardData"), 36);
    end();
}

/* A product of f32 keeps all 23 bits, whatever the heuristics say of an algorithm. */
Test(conv, f32_is_not_rounded_to_tf32) {
    const float x = 1 + 1.0f / 4096, one = 1;
    float y = 0;
    begin(NULL, NULL);
    dhow_tensor *t[3];
    OK(dhow_tensor_from_data(g_cuda, DHOW_F32, DHOW_SHAPE(1, 1, 1, 1), &x, &t[0]));
    OK(dhow_tensor_from_data(g_cuda, DHOW_F32, DHOW_SHAPE(1, 1, 1, 1), &one, &t[1]));
    OK(dhow_tensor_create(g_cuda, DHOW_F32, DHOW_SHAPE(1, 1, 1, 1), &t[2]));
    OK(dhow_conv2d(NULL, t[0], t[1], NULL, NULL, t[2]));
    OK(dhow_tensor_read(t[2], &y, sizeof y));
    cr_assert_eq(y, x);
    OK(dhow_device_set_precision(g_cuda, DHOW_PRECISION_REDUCED));
    OK(dhow_conv2d(NULL, t[0], t[1], NULL, NULL, t[2]));
    OK(dhow_tensor_read(t[2], &y, sizeof y));
    cr_assert_eq(y, 1, "TF32 has 10 bits");
    for (int i = 0; i < 3; i++) dhow_tensor_release(t[i]);
    end();
}

static void two_layers(dhow_model *model, dhow_model_value x) {
    x = relu(model, conv(model, "a", x, 2, 4, 3, 1, 1));
    x = relu(model, conv(model, "b", x, 4, 4, 1, 1, 1));
    OK(dhow_model_output(model, "y", x));
}

/* cuDNN's ReLU makes 0 of a NaN unless it is told not to; transforms spread it over the image. */
static void expect_nan_of_one_pixel(const char *settings) {
    enum { H = 9, AT = 4, COUNT = 2 * H * H, RESULTS = 4 * H * H };
    static const int64_t shape[] = {1, 2, H, H};
    float x[COUNT], y[RESULTS];
    dhow_tensor *in, *out = NULL;
    begin(settings, NULL);
    dhow_model *model = make_model(two_layers, DHOW_F32, shape);
    fill(x, COUNT, 3);
    x[AT * H + AT] = NAN;
    OK(dhow_model_to(model, g_cuda));
    OK(dhow_tensor_from_data(g_cuda, DHOW_F32, 4, shape, x, &in));
    OK(dhow_model_run(model, NULL, &in, 1, &out, 1));
    OK(dhow_tensor_read(out, y, sizeof y));
    for (int i = 0; i < RESULTS; i++) {
        const int row = i / H % H, column = i % H;
        const bool sees = abs(row - AT) <= 1 && abs(column - AT) <= 1;
        cr_assert_eq(isnan(y[i]) != 0, sees, "element %d, %g", i, (double)y[i]);
    }
    dhow_tensor_release(in);
    dhow_tensor_release(out);
    dhow_model_release(model);
    end();
}

Test(conv, a_nan_reaches_the_pixels_that_see_it_and_no_others) {
    expect_nan_of_one_pixel(NULL);
    expect_nan_of_one_pixel("nofused=1");
    expect_nan_of_one_pixel("nocudnn=1");
}

/* ---- without cuDNN -------------------------------------------------------------------------- */

static int occurrences(const char *text, const char *word) {
    int count = 0;
    for (; (text = strstr(text, word)) != NULL; text++) count++;
    return count;
}

Test(conv, without_cudnn_a_line_of_the_log_says_so_once) {
    static const int64_t shape[] = {2, 3, 20, 20};
    begin("nocudnn=1", NULL);
    expect_as_cpu(resnet_like, DHOW_F32, shape, 1, 1e-5, "f32");
    cr_assert_eq(occurrences(g_log, "cuDNN does not start: CUDNN_STATUS_NOT_INITIALIZED"), 1, "%s",
                 g_log);
    cr_assert_not_null(strstr(g_log, "install cuDNN 9"), "%s", g_log);
    end();
}

/* Short memory says nothing of the next time. */
Test(conv, cudnn_is_asked_again_after_a_failure_of_its_own) {
    static const int64_t shape[] = {1, 2, 5, 5};
    begin(NULL, "cudnnCreate@1=4004");
    for (int i = 0; i < 2; i++) expect_as_cpu(two_layers, DHOW_F32, shape, 1, 1e-5, "f32");
    cr_assert_eq(calls("cudnnCreate"), 2);
    cr_assert_gt(calls("cudnnConvolutionBiasActivationForward"), 0);
    end();
}

static void expect_choice(const char *choice, bool by_cudnn, bool by_product) {
    static const int64_t shape[] = {1, 2, 5, 5};
    (void)setenv("DHOW_CUDA_CONV", choice, 1);
    begin(NULL, NULL);
    expect_as_cpu(two_layers, DHOW_F32, shape, 1, 1e-5, "f32");
    cr_assert_eq(calls("cudnnCreate") != 0, by_cudnn, "%s", choice);
    cr_assert_eq(calls("cublasLtMatmul") != 0, by_product, "%s", choice);
    end();
}

Test(conv, who_computes_can_be_chosen) {
    expect_choice("auto", true, false);
    expect_choice("cudnn", true, false);
    expect_choice("cublas", false, true);
    expect_choice("off", false, false);
}

Test(conv, a_switch_that_is_none_is_told) {
    dhow_context *context;
    dhow_device *device;
    (void)setenv("DHOW_CUDA_CONV", "cuddn", 1);
    cr_assert(fakecuda_reset(NULL, NULL, NULL, 0));
    OK(dhow_context_create(NULL, &context));
    cr_assert_neq(dhow_device_get(context, "cuda:0", &device), DHOW_OK);
    cr_assert_not_null(strstr(dhow_last_error(),
                              "DHOW_CUDA_CONV is 'cuddn'; it may be auto, cudnn, cublas or off"),
                       "%s", dhow_last_error());
    dhow_context_release(context);
}
