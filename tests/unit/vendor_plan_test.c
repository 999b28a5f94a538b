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
static dhow_device *g_sim;

static void open_context(void) {
    (void)setenv("DHOW_PLUGIN_PATH", DHOW_TEST_SIM_DIR ":" DHOW_TEST_PLUGIN_DIR, 1);
    (void)setenv("DHOW_BACKENDS", "cpu,sim", 1);
    (void)setenv("DHOW_SIM", "images=nhwc", 1);
    OK(dhow_context_create(NULL, &g_context));
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
