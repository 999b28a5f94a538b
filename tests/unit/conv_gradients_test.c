/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of convolutions in f32, which vendors' libraries compute, beside those in f64, which
 * onnx_gradients_test compares with central differences: random images, windows and groups.
 * DHOW_TEST_WINDOWS is how many of them, for a longer look than the suite's.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "device_fixture.h"
#include "dhow/dhow.h"
#include "dhow/model_steps.h"
#include "hash_fixture.h"

static dhow_device *g_cpu;

static void set_up(void) {
    open_device();
    OK(dhow_device_get(g_context, "cpu", &g_cpu));
}

TestSuite(conv_gradients, .init = set_up, .fini = close_device, .timeout = 600);

typedef struct shape {
    bool transposed;
    int64_t n, in, out, h, w, groups, kernel[2], stride[2], dilation[2], pad[4];
    char text[160];
} shape;

/* Within both ends. */
static int64_t draw(uint32_t *seed, int64_t least, int64_t most) {
    *seed += 1;
    return least + (int64_t)(mix(*seed) % (uint32_t)(most - least + 1));
}

/* Of which the window fits into the image, so that there is a result. */
static shape draw_shape(uint32_t seed) {
    static const int64_t groups[] = {1, 1, 1, 2, 3, 4};
    shape s = {0};
    uint32_t at = seed * 64;
    s.transposed = draw(&at, 0, 3) == 0;
    s.groups = groups[draw(&at, 0, 5)];
    s.n = draw(&at, 1, 3);
    s.in = s.groups * draw(&at, 1, draw(&at, 0, 1) ? 1 + (int64_t)(seed % 3) : 24);
    s.out = s.groups * draw(&at, 1, draw(&at, 0, 1) ? 3 : 24);
    if (draw(&at, 0, 5) == 0) s.groups = s.in = s.out; /* depthwise */
    for (int i = 0; i < 2; i++) {
        s.kernel[i] = draw(&at, 1, draw(&at, 0, 1) ? 3 : 5);
        s.stride[i] = draw(&at, 1, 3);
        s.dilation[i] = draw(&at, 0, 3) == 0 ? 2 : 1;
        const int64_t reach = s.dilation[i] * (s.kernel[i] - 1) + 1;
        s.pad[i] = draw(&at, 0, reach - 1);
        s.pad[2 + i] = draw(&at, 0, 3) == 0 ? draw(&at, 0, reach - 1) : s.pad[i];
        *(i == 0 ? &s.h : &s.w) =
            draw(&at, s.transposed ? 1 + 2 * reach : reach,
                 draw(&at, 0, 2) == 0 ? (s.transposed ? 1 + 2 * reach : reach) + 1
                                      : reach + draw(&at, 0, 1) * 12 + 12);
    }
    (void)snprintf(s.text, sizeof s.text,
                   "%s %lld x %lldx%lldx%lld to %lld, groups %lld, window %lldx%lld, stride "
                   "%lld,%lld, dilation %lld,%lld, pad %lld,%lld,%lld,%lld",
                   s.transposed ? "transposed" : "plain", (long long)s.n, (long long)s.in,
                   (long long)s.h, (long long)s.w, (long long)s.out, (long long)s.groups,
                   (long long)s.kernel[0], (long long)s.kernel[1], (long long)s.stride[0],
                   (long long)s.stride[1], (long long)s.dilation[0], (long long)s.dilation[1],
                   (long long)s.pad[0], (long long)s.pad[1], (long long)s.pad[2],
                   (long long)s.pad[3]);
    return s;
}

static dhow_tensor *numbers(dhow_dtype dtype, int32_t rank, const int64_t *extents, uint32_t k) {
    int64_t count = 1;
    dhow_tensor *doubles, *t;
    for (int32_t i = 0; i < rank; i++) count *= extents[i];
    double *data = malloc((size_t)(count + 1) * sizeof *data);
    for (int64_t i = 0; i < count; i++) data[i] = number(k, (uint32_t)i);
    OK(dhow_tensor_from_data(g_cpu, DHOW_F64, rank, extents, data, &doubles));
    OK(dhow_tensor_to_dtype(NULL, doubles, dtype, &t));
    free(data);
    dhow_tensor_release(doubles);
    return t;
}

static void set_parameters(dhow_model *m, dhow_dtype dtype) {
    for (uint32_t k = 0; k < dhow_model_parameter_count(m); k++) {
        dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
        OK(dhow_model_parameter_describe(m, k, &info));
        dhow_tensor *w = numbers(dtype, info.rank, info.shape, k);
        OK(dhow_model_set_parameter(m, info.name, w));
        dhow_tensor_release(w);
    }
}

/* A trainer whose parameters are the image, the weight and the bias; false where there is no such
 * convolution. */
static bool begin(const shape *s, dhow_dtype dtype, dhow_trainer **out) {
    const dhow_window window = DHOW_INIT(
        dhow_window, .kernel = {s->kernel[0], s->kernel[1]}, .stride = {s->stride[0], s->stride[1]},
        .dilation = {s->dilation[0], s->dilation[1]},
        .pad = {s->pad[0], s->pad[1], s->pad[2], s->pad[3]}, .groups = s->groups);
    const dhow_conv_options options = DHOW_INIT(
        dhow_conv_options, .kernel = {s->kernel[0], s->kernel[1]},
        .stride = {s->stride[0], s->stride[1]}, .dilation = {s->dilation[0], s->dilation[1]},
        .padding = {s->pad[0], s->pad[1]}, .groups = s->groups);
    dhow_model *m;
    dhow_model_value x, one;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "one", dtype, DHOW_SHAPE(1), &one));
    OK(dhow_model_parameter(m, "image", dtype, DHOW_SHAPE(s->n, s->in, s->h, s->w), &x));
    OK(dhow_model_mul(m, x, one, &x));
    dhow_status status =
        s->transposed ? dhow_model_conv_transpose2d(m, "conv", x, s->in, s->out, &options, 1, &x)
                      : dhow_model_conv2d(m, "conv", x, s->in, s->out, &window, 1, &x);
    if (status == DHOW_OK) {
        OK(dhow_model_sin(m, x, &x)); /* so that each pixel has a derivative of its own */
        OK(dhow_model_reduce(m, DHOW_REDUCE_SUM, x, NULL, 0, 0, &x));
        OK(dhow_model_output(m, "y", x));
        set_parameters(m, dtype);
        OK(dhow_model_to(m, g_device));
        OK(dhow_trainer_create(m, NULL, out));
    }
    dhow_model_release(m);
    return status == DHOW_OK;
}

static void backward(dhow_trainer *t, dhow_dtype dtype) {
    dhow_tensor *one;
    OK(dhow_tensor_full(g_device, dtype, DHOW_SHAPE(1), 1, &one));
    OK(dhow_trainer_backward(t, NULL, &one, 1, NULL, NULL));
    dhow_tensor_release(one);
}

static double *gradient(dhow_trainer *t, uint32_t k, int64_t *count) {
    dhow_tensor *w, *g, *wide, *here;
    const char *name;
    OK(dhow_trainer_parameter_at(t, k, &name, &w, &g));
    OK(dhow_tensor_to(g, g_cpu, &here));
    OK(dhow_tensor_to_dtype(NULL, here, DHOW_F64, &wide));
    *count = dhow_tensor_count(wide);
    double *data = malloc((size_t)(*count + 1) * sizeof *data);
    OK(dhow_tensor_read(wide, data, (uint64_t)*count * sizeof *data));
    dhow_tensor_release(w);
    dhow_tensor_release(g);
    dhow_tensor_release(here);
    dhow_tensor_release(wide);
    return data;
}

static void compare(const shape *s, uint32_t seed) {
    static const char *const names[] = {"image", "weight", "bias"};
    dhow_trainer *wide, *narrow;
    if (!begin(s, DHOW_F64, &wide)) return;
    cr_assert(begin(s, DHOW_F32, &narrow), "%s", s->text);
    for (int run = 0; run < 2; run++) { /* the second finds what the first left in memory */
        OK(dhow_trainer_zero_gradients(narrow));
        backward(narrow, DHOW_F32);
    }
    backward(wide, DHOW_F64);
    for (uint32_t k = 0; k < 3; k++) {
        int64_t count, same;
        double *want = gradient(wide, k, &count), *got = gradient(narrow, k, &same), most = 1e-30;
        cr_assert_eq(count, same);
        for (int64_t i = 0; i < count; i++) most = fmax(most, fabs(want[i]));
        for (int64_t i = 0; i < count; i++) {
            if (fabs(got[i] - want[i]) <= 2e-4 * fmax(most, 1)) continue;
            cr_expect(false, "seed %u, %s: by %s[%lld] %.9g, not %.9g", seed, s->text, names[k],
                      (long long)i, got[i], want[i]);
            break;
        }
        free(want);
        free(got);
    }
    dhow_trainer_release(narrow);
    dhow_trainer_release(wide);
}

Test(conv_gradients, of_random_windows_are_those_in_f64) {
    const char *asked = getenv("DHOW_TEST_WINDOWS"), *first = getenv("DHOW_TEST_SEED");
    const uint32_t from = first != NULL ? (uint32_t)atoi(first) : 0;
    const uint32_t count = asked != NULL ? (uint32_t)atoi(asked) : 200;
    for (uint32_t seed = from; seed < from + count; seed++) {
        const shape s = draw_shape(seed);
        compare(&s, seed);
    }
}
