/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans of convolutions on a simulated device that likes NHWC.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "dhow/dhow.h"
#include "ops/run/vendor.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())

static dhow_context *g_context;
static dhow_device *g_sim, *g_cpu;

static void open_context(void) {
    (void)setenv("DHOW_PLUGIN_PATH", DHOW_TEST_SIM_DIR ":" DHOW_TEST_PLUGIN_DIR, 1);
    (void)setenv("DHOW_BACKENDS", "cpu,sim", 1);
    (void)setenv("DHOW_SIM", "images=nhwc", 1);
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, "cpu:0", &g_cpu));
    OK(dhowi_device_open(g_cpu));
    OK(dhow_device_get(g_context, "sim:0", &g_sim));
    OK(dhowi_device_open(g_sim));
}

static void close_context(void) { dhow_context_release(g_context); }

TestSuite(vendor_plans, .init = open_context, .fini = close_context, .timeout = 30);

static const dhow_conv_desc k_any = {.struct_size = sizeof k_any,
                                     .dtype = DHOW_F32,
                                     .weight_dtype = DHOW_F32,
                                     .compute = DHOW_F32,
                                     .n = 1,
                                     .c = 8,
                                     .h = 6,
                                     .w = 6,
                                     .k = 8,
                                     .kh = 3,
                                     .kw = 3,
                                     .groups = 1,
                                     .stride = {1, 1},
                                     .dilation = {1, 1},
                                     .pad = {1, 1, 1, 1},
                                     .flags = DHOW_BLAS_CONSTANT_B,
                                     .src_layout = DHOW_LAYOUT_ANY,
                                     .dst_layout = DHOW_LAYOUT_ANY};

static const dhowi_vendor_plan *plan_of(const dhow_conv_desc *desc) {
    const dhowi_vendor_plan *plan;
    OK(dhowi_conv_plan(g_sim, desc, &plan));
    cr_assert_not_null(plan);
    return plan;
}

/* Libraries take long to plan: once must do for asking which layouts and for running in them. */
Test(vendor_plans, any_layouts_and_those_settled_on_are_one_plan) {
    const dhowi_vendor_plan *any = plan_of(&k_any), *again = plan_of(&k_any);
    dhow_conv_desc named = k_any;
    cr_assert_eq(any->src_layout, DHOW_LAYOUT_NHWC);
    named.src_layout = any->src_layout;
    named.dst_layout = any->dst_layout;
    const dhowi_vendor_plan *settled = plan_of(&named);
    cr_expect_eq(settled, any);
    cr_expect_eq(again, any);
    dhowi_vendor_plan_drop(any);
    dhowi_vendor_plan_drop(again);
    dhowi_vendor_plan_drop(settled);
}

Test(vendor_plans, other_layouts_are_another_plan) {
    dhow_conv_desc plain = k_any;
    plain.src_layout = plain.dst_layout = DHOW_LAYOUT_NCHW;
    const dhowi_vendor_plan *any = plan_of(&k_any), *nchw = plan_of(&plain);
    cr_expect_neq(nchw, any);
    cr_expect_eq(nchw->src_layout, DHOW_LAYOUT_NCHW);
    dhowi_vendor_plan_drop(any);
    dhowi_vendor_plan_drop(nchw);
}

/* More descriptions than a device keeps plans of: what is held stays whole. */
Test(vendor_plans, plans_outlive_the_list_that_forgets_them) {
    const dhowi_vendor_plan *first = plan_of(&k_any);
    for (int64_t w = 7; w < 800; w++) {
        dhow_conv_desc wider = k_any;
        wider.w = w;
        dhowi_vendor_plan_drop(plan_of(&wider));
    }
    cr_expect_eq(first->src_layout, DHOW_LAYOUT_NHWC);
    dhowi_vendor_plan_drop(first);
}

/* On the CPU: oneDNN takes up to 80 times as long for them in the layout of the image before. */
Test(vendor_plans, channels_by_themselves_that_see_far_beyond_the_image_are_planes) {
    enum { CHANNELS = 16, FAR = 32 };
    dhow_conv_desc desc = k_any;
    desc.c = desc.k = desc.groups = CHANNELS;
    desc.h = desc.kh = 1;
    desc.w = 100;
    desc.dilation[1] = FAR;
    desc.pad[0] = desc.pad[2] = 0;
    desc.pad[1] = desc.pad[3] = FAR;
    const dhowi_vendor_plan *plan;
    OK(dhowi_conv_plan(g_cpu, &desc, &plan));
    if (plan == NULL) cr_skip_test("nothing convolves here but the portable kernel");
    cr_expect_eq(plan->src_layout, DHOW_LAYOUT_NCHW);
    dhowi_vendor_plan_drop(plan);
    desc.src_layout = DHOW_LAYOUT_NHWC;
    OK(dhowi_conv_plan(g_cpu, &desc, &plan));
    cr_expect_null(plan, "it is convolved in NHWC");
    dhowi_vendor_plan_drop(plan);
}

/* Turned twice they would take longer: three steps, and with two threads half of what they read
 * lies in the cache of another core. Each was turned. */
Test(vendor_plans, channels_by_themselves_of_plain_images_are_not_turned) {
    enum { CHANNELS = 16, WIDE = 40, SMALL = 7 };
    if (!__builtin_cpu_supports("avx2")) cr_skip_test("without AVX2 oneDNN convolves them");
    dhow_conv_desc desc = k_any;
    desc.c = desc.k = desc.groups = CHANNELS;
    desc.h = desc.w = WIDE;
    const dhowi_vendor_plan *plan;
    OK(dhowi_conv_plan(g_cpu, &desc, &plan));
    if (plan == NULL) cr_skip_test("nothing convolves here but the portable kernel");
    cr_expect_neq(plan->src_layout, DHOW_LAYOUT_NCHW,
                  "no block is liked where all layouts will do");
    dhowi_vendor_plan_drop(plan);
    desc.src_layout = DHOW_LAYOUT_NCHW;
    OK(dhowi_conv_plan(g_cpu, &desc, &plan));
    cr_assert_not_null(plan, "a plain image has to be turned");
    cr_expect_eq(plan->dst_layout, DHOW_LAYOUT_NCHW);
    dhowi_vendor_plan_drop(plan);
    desc.h = desc.w = SMALL;
    OK(dhowi_conv_plan(g_cpu, &desc, &plan));
    cr_expect_null(plan, "a small image is not turned");
    dhowi_vendor_plan_drop(plan);
}

/* ---- products ---- */

static const dhowi_vendor_plan *product_of(int64_t m, int64_t n, int64_t k) {
    const dhow_blas_desc desc = {.struct_size = sizeof desc,
                                 .dtype_a = DHOW_F32,
                                 .dtype_b = DHOW_F32,
                                 .dtype_c = DHOW_F32,
                                 .compute = DHOW_F32,
                                 .m = m,
                                 .n = n,
                                 .k = k,
                                 .batch = 1,
                                 .lda = k,
                                 .ldb = n,
                                 .ldc = n,
                                 .alpha = 1};
    const dhowi_vendor_plan *plan;
    OK(dhowi_blas_plan(g_cpu, &desc, &plan));
    if (plan == NULL) cr_skip_test("nothing multiplies here but the portable kernel");
    return plan;
}

/* x[1][rows][features] seen as x[rows][1][features], as sequences before their batch are: the
 * stride of the single row is that of the batch. It was so many products of one row, which take
 * ten times as long. */
Test(vendor_plans, rows_by_themselves_are_one_product) {
    enum { ROWS = 6, K = 4, N = 8 };
    static const float numbers[ROWS * K + K * N];
    static const int32_t turned[] = {1, 0, 2};
    dhow_tensor *x, *rows, *w, *y;
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, 3, (int64_t[]){1, ROWS, K}, numbers, &x));
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, 2, (int64_t[]){K, N}, numbers, &w));
    OK(dhow_tensor_permute(x, turned, &rows));
    OK(dhow_tensor_create(g_cpu, DHOW_F32, 3, (int64_t[]){ROWS, 1, N}, &y));
    const dhowi_vendor_plan *before = product_of(3, 3, 3);
    OK(dhow_matmul(NULL, rows, w, y));
    const dhowi_vendor_plan *used = product_of(ROWS, N, K);
    cr_expect_eq(used->serial, before->serial + 1, "the product has another plan");
    dhowi_vendor_plan_drop(before);
    dhowi_vendor_plan_drop(used);
    dhow_tensor_release(x);
    dhow_tensor_release(rows);
    dhow_tensor_release(w);
    dhow_tensor_release(y);
}

/* ---- models ---- */

static dhow_model_value convolved(dhow_model *m, const char *name, dhow_model_value x, int64_t in,
                                  int64_t out, int64_t kernel) {
    const int64_t pad = kernel / 2;
    const dhow_window window =
        DHOW_INIT(dhow_window, .kernel = {kernel, kernel}, .pad = {pad, pad, pad, pad});
    OK(dhow_model_conv2d(m, name, x, in, out, &window, 0, &x));
    return x;
}

/* Two halves of a convolution's channels, one of them convolved again and added to itself, all
 * three joined: the blocks of YOLO's networks. Each half was turned into plain channels, and
 * convolved so, which oneDNN does at a fifth of the speed. */
Test(vendor_plans, halves_of_channels_stay_in_the_layout_of_their_image) {
    dhow_model *m;
    dhow_model_value x, half[3];
    dhow_tensor *in, *out;
    int copies = 0;
    dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(1, 8, 6, 6), &x));
    x = convolved(m, "0", x, 8, 16, 1);
    OK(dhow_model_chunk(m, x, 1, 2, half));
    half[2] = convolved(m, "1", half[1], 8, 8, 3);
    OK(dhow_model_add(m, half[1], half[2], &half[2]));
    OK(dhow_model_cat(m, half, 3, 1, &x));
    x = convolved(m, "2", x, 24, 8, 1);
    OK(dhow_model_output(m, "y", x));
    OK(dhow_model_init_parameters(m, 1));
    OK(dhow_model_to(m, g_sim));
    OK(dhow_tensor_uniform(g_sim, DHOW_F32, DHOW_SHAPE(1, 8, 6, 6), -1, 1, 1, &in));
    OK(dhow_model_run(m, NULL, &in, 1, &out, 1));
    OK(dhow_model_get_summary(m, &summary));
    for (uint32_t i = 0; i < summary.step_count; i++) {
        dhow_model_step_info step = DHOW_INIT(dhow_model_step_info);
        OK(dhow_model_step_at(m, i, &step));
        /* [n, 1, h, w, c]; only the input and the result change their layout. */
        if (strcmp(step.kernel, "copy") == 0)
            copies++;
        else
            cr_expect_eq(step.rank, 5, "%s %s", step.operation, step.node);
    }
    cr_expect_eq(copies, 6, "input, a half, three that are joined, result: %d", copies);
    dhow_tensor_release(in);
    dhow_tensor_release(out);
    dhow_model_release(m);
}

/* Values of a model on the processor and on the device that likes NHWC, and its copies there. */
static int compare_devices(dhow_model *m, uint32_t outputs) {
    static const char *const devices[] = {"cpu", "sim:0"};
    static float values[2][4][4096];
    int copies = 0;
    for (int d = 0; d < 2; d++) {
        dhow_device *device;
        dhow_tensor *in, *out[4];
        OK(dhow_device_get(g_context, devices[d], &device));
        OK(dhow_model_to(m, device));
        OK(dhow_tensor_uniform(device, DHOW_F32, DHOW_SHAPE(2, 8, 6, 5), -1, 1, 1, &in));
        OK(dhow_model_run(m, NULL, &in, 1, out, outputs));
        for (uint32_t i = 0; i < outputs; i++) {
            dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
            size_t count = 1;
            OK(dhow_tensor_get_info(out[i], &info));
            for (int32_t k = 0; k < info.rank; k++) count *= (size_t)info.shape[k];
            cr_assert_leq(count, 4096);
            OK(dhow_tensor_read(out[i], values[d][i], count * sizeof(float)));
            for (size_t at = 0; at < count && d == 1; at++)
                cr_assert_float_eq(values[1][i][at], values[0][i][at], 1e-4, "output %u", i);
            dhow_tensor_release(out[i]);
        }
        dhow_tensor_release(in);
    }
    dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
    OK(dhow_model_get_summary(m, &summary));
    for (uint32_t i = 0; i < summary.step_count; i++) {
        dhow_model_step_info step = DHOW_INIT(dhow_model_step_info);
        OK(dhow_model_step_at(m, i, &step));
        copies += strcmp(step.kernel, "copy") == 0;
    }
    return copies;
}

typedef enum shown { NOTHING, THE_ROWS, THE_IMAGE, BOTH } shown;

/* Liu et al., 2022: a convolution whose channels are rows of a norm and of a product, added to what
 * went in, twice. */
static int copies_of_rows(shown shows) {
    static const int32_t last[] = {0, 2, 3, 1}, second[] = {0, 3, 1, 2};
    dhow_model *m;
    dhow_model_value x, y, rows = -1;
    uint32_t outputs = 1;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(2, 8, 6, 5), &x));
    x = convolved(m, "stem", x, 8, 12, 3);
    for (int i = 0; i < 2; i++) {
        OK(dhow_model_begin_scope(m, i == 0 ? "0" : "1"));
        y = convolved(m, "conv", x, 12, 12, 3);
        OK(dhow_model_permute(m, y, last, 4, &rows));
        OK(dhow_model_layernorm(m, "norm", rows, 12, 1e-5f, &y));
        OK(dhow_model_linear(m, "fc", y, 12, 12, 1, &y));
        OK(dhow_model_permute(m, y, second, 4, &y));
        OK(dhow_model_add(m, x, y, &x));
        OK(dhow_model_end_scope(m));
    }
    y = convolved(m, "end", x, 12, 8, 1);
    OK(dhow_model_output(m, "y", y));
    if (shows == THE_ROWS || shows == BOTH) {
        OK(dhow_model_output(m, "rows", rows));
        outputs++;
    }
    if (shows == THE_IMAGE || shows == BOTH) {
        OK(dhow_model_output(m, "image", x));
        outputs++;
    }
    OK(dhow_model_init_parameters(m, 1));
    const int copies = compare_devices(m, outputs);
    dhow_model_release(m);
    return copies;
}

Test(vendor_plans, channels_of_pixels_are_rows_without_a_copy) {
    cr_expect_eq(copies_of_rows(NOTHING), 2, "the input and the result");
    (void)copies_of_rows(THE_ROWS);
    (void)copies_of_rows(THE_IMAGE);
    (void)copies_of_rows(BOTH);
}

/* A part of the pixels, and of the channels, of an image that lies in NHWC. */
Test(vendor_plans, parts_of_an_image_are_copied_out_of_nhwc) {
    static const int32_t last[] = {0, 2, 3, 1};
    dhow_model *m;
    dhow_model_value x, y, part;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(2, 8, 6, 5), &x));
    x = convolved(m, "0", x, 8, 12, 3);
    OK(dhow_model_slice(m, x, 2, 1, 6, 2, &part));
    OK(dhow_model_slice(m, part, 1, 3, 11, 1, &part));
    OK(dhow_model_permute(m, part, last, 4, &part));
    OK(dhow_model_softmax(m, part, -1, &y));
    OK(dhow_model_output(m, "part", y));
    OK(dhow_model_flatten(m, x, 1, &y)); /* over channels and pixels */
    OK(dhow_model_slice(m, y, 1, 7, 300, 3, &y));
    OK(dhow_model_softmax(m, y, -1, &y));
    OK(dhow_model_output(m, "flat", y));
    OK(dhow_model_init_parameters(m, 1));
    (void)compare_devices(m, 2);
    dhow_model_release(m);
}
