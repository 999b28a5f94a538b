/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the steps of a model run when its device lacks a kernel: refused, or on the CPU where the
 * caller allows it, and told.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"

enum { ROWS = 3, IN = 8, OUT = 5 };

static dhow_context *g_context;

static void set_up(void) {
    (void)setenv("DHOW_PLUGIN_PATH", DHOW_TEST_SIM_DIR, 1);
    (void)setenv("DHOW_BACKENDS", "cpu,sim", 1);
    (void)setenv("DHOW_SIM", "without=softmax", 1);
    cr_assert_eq(dhow_context_create(NULL, &g_context), DHOW_OK, "%s", dhow_last_error());
}
static void tear_down(void) { dhow_context_release(g_context); }
TestSuite(placement, .init = set_up, .fini = tear_down, .timeout = 60);

static dhow_device *device_of(const char *spec) {
    dhow_device *device;
    cr_assert_eq(dhow_device_get(g_context, spec, &device), DHOW_OK, "%s", dhow_last_error());
    return device;
}

/* Two layers with a softmax between; weights are small numbers. */
static dhow_model *network(void) {
    dhow_model *m;
    dhow_model_value x, h;
    cr_assert_eq(dhow_model_create(g_context, &m), DHOW_OK);
    cr_assert_eq(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(-1, IN), &x), DHOW_OK);
    cr_assert_eq(dhow_model_linear(m, "fc1", x, IN, IN, 1, &h), DHOW_OK);
    cr_assert_eq(dhow_model_softmax(m, h, -1, &h), DHOW_OK);
    cr_assert_eq(dhow_model_linear(m, "fc2", h, IN, OUT, 1, &h), DHOW_OK);
    cr_assert_eq(dhow_model_output(m, "y", h), DHOW_OK);
    for (uint32_t p = 0; p < dhow_model_parameter_count(m); p++) {
        dhow_model_parameter_info info = DHOW_INIT(dhow_model_parameter_info);
        float values[IN * IN];
        dhow_tensor_info t = DHOW_INIT(dhow_tensor_info);
        dhow_tensor *tensor;
        for (int i = 0; i < IN * IN; i++) values[i] = (float)((i * 7 + (int)p) % 11) / 11 - 0.5f;
        cr_assert_eq(dhow_model_parameter_at(m, p, &info), DHOW_OK);
        cr_assert_eq(dhow_tensor_get_info(info.tensor, &t), DHOW_OK);
        cr_assert_eq(
            dhow_tensor_from_data(device_of("cpu"), DHOW_F32, t.rank, t.shape, values, &tensor),
            DHOW_OK);
        cr_assert_eq(dhow_model_set_parameter(m, info.name, tensor), DHOW_OK);
        dhow_tensor_release(tensor);
    }
    return m;
}

static void run(dhow_model *m, int seed, float *y) {
    float values[ROWS * IN];
    dhow_tensor *x, *out = NULL;
    for (int i = 0; i < ROWS * IN; i++) values[i] = (float)((i * 5 + seed) % 13) - 6;
    cr_assert_eq(
        dhow_tensor_from_data(dhow_model_device(m), DHOW_F32, DHOW_SHAPE(ROWS, IN), values, &x),
        DHOW_OK);
    cr_assert_eq(dhow_model_run(m, NULL, &x, 1, &out, 1), DHOW_OK, "%s", dhow_last_error());
    cr_assert_eq(dhow_tensor_read(out, y, ROWS * OUT * sizeof *y), DHOW_OK);
    dhow_tensor_release(x);
    dhow_tensor_release(out);
}

/* The host keeps a copy of what such a step reads and writes: it counts as memory of the plan. */
Test(placement, copies_for_the_cpu_count_towards_the_limit_of_memory) {
    dhow_model *m = network();
    dhow_tensor *x, *out = NULL;
    cr_assert_eq(dhow_model_place(m, device_of("sim"), DHOW_PLACEMENT_FALLBACK), DHOW_OK);
    cr_assert_eq(dhow_tensor_full(device_of("sim"), DHOW_F32, DHOW_SHAPE(ROWS, IN), 1, &x),
                 DHOW_OK);
    /* two places of 256 bytes, an output of 60, and two copies of 96 */
    cr_assert_eq(dhow_model_set_memory_limit(m, 640), DHOW_OK);
    cr_assert_eq(dhow_model_run(m, NULL, &x, 1, &out, 1), DHOW_UNSUPPORTED);
    cr_assert_not_null(strstr(dhow_last_error(), "takes 512 bytes beside 252 taken before"), "%s",
                       dhow_last_error());
    cr_assert_eq(dhow_model_set_memory_limit(m, 764), DHOW_OK);
    cr_assert_eq(dhow_model_run(m, NULL, &x, 1, &out, 1), DHOW_OK, "%s", dhow_last_error());
    dhow_tensor_release(x);
    dhow_tensor_release(out);
    dhow_model_release(m);
}

Test(placement, a_device_without_the_kernel_is_refused_before_anything_moves) {
    dhow_model *m = network();
    cr_assert_eq(dhow_model_to(m, device_of("sim")), DHOW_UNSUPPORTED);
    cr_assert_not_null(strstr(dhow_last_error(), "softmax"), "%s", dhow_last_error());
    cr_assert_not_null(strstr(dhow_last_error(), "f32"), "%s", dhow_last_error());
    cr_assert_eq(dhow_model_device(m), device_of("cpu"));
    dhow_model_release(m);
}

Test(placement, fallback_computes_the_same_and_is_told) {
    dhow_model *m = network();
    dhow_model_summary s = DHOW_INIT(dhow_model_summary);
    float want[2][ROWS * OUT], got[ROWS * OUT];
    uint32_t found = 0;
    for (int i = 0; i < 2; i++) run(m, i, want[i]);
    cr_assert_eq(dhow_model_place(m, device_of("sim"), DHOW_PLACEMENT_FALLBACK), DHOW_OK, "%s",
                 dhow_last_error());
    for (int i = 0; i < 4; i++) { /* later runs replay the plan */
        run(m, i % 2, got);
        for (int k = 0; k < ROWS * OUT; k++)
            cr_assert_float_eq(got[k], want[i % 2][k], 1e-5, "run %d, element %d", i, k);
    }
    cr_assert_eq(dhow_model_get_summary(m, &s), DHOW_OK);
    cr_assert_eq(s.fallback_count, 1);
    cr_assert_gt(s.copied_bytes, 2 * ROWS * IN * sizeof(float) - 1);
    for (uint32_t i = 0; i < s.step_count; i++) {
        dhow_model_step_info step = DHOW_INIT(dhow_model_step_info);
        cr_assert_eq(dhow_model_step_at(m, i, &step), DHOW_OK);
        if (step.device != device_of("cpu")) continue;
        cr_assert_str_eq(step.operation, "softmax");
        found++;
    }
    cr_assert_eq(found, 1);
    dhow_model_release(m);
}

Test(placement, a_model_that_fell_back_is_refused_when_placed_strictly) {
    dhow_model *m = network();
    cr_assert_eq(dhow_model_place(m, device_of("sim"), DHOW_PLACEMENT_FALLBACK), DHOW_OK);
    cr_assert_eq(dhow_model_to(m, device_of("sim")), DHOW_UNSUPPORTED);
    cr_assert_eq(dhow_model_to(m, device_of("cpu")), DHOW_OK, "%s", dhow_last_error());
    dhow_model_release(m);
}

Test(placement, copies_on_other_devices_compute_the_same_and_outlive_the_original) {
    dhow_model *m = network(), *copies[2];
    float want[ROWS * OUT], got[ROWS * OUT];
    dhow_device *devices[] = {device_of("cpu"), device_of("cpu")};
    run(m, 1, want);
    cr_assert_eq(dhow_model_replicate(m, devices, 2, copies), DHOW_OK, "%s", dhow_last_error());
    dhow_model_release(m);
    for (int i = 0; i < 2; i++) {
        run(copies[i], 1, got);
        for (int k = 0; k < ROWS * OUT; k++) cr_assert_float_eq(got[k], want[k], 1e-6);
        dhow_model_release(copies[i]);
    }
}

Test(placement, no_copy_is_left_when_one_device_refuses) {
    dhow_model *m = network(), *copies[2];
    dhow_device *devices[] = {device_of("cpu"), device_of("sim")};
    cr_assert_eq(dhow_model_replicate(m, devices, 2, copies), DHOW_UNSUPPORTED);
    cr_assert_null(copies[0]);
    cr_assert_null(copies[1]);
    dhow_model_release(m);
}

Test(placement, tensors_are_bound_by_name) {
    dhow_model *m = network();
    float values[IN] = {1, 2, 3, 4, 5, 6, 7, 8};
    dhow_tensor *x;
    cr_assert_eq(dhow_tensor_from_data(device_of("cpu"), DHOW_F32, DHOW_SHAPE(1, IN), values, &x),
                 DHOW_OK);
    dhow_named_tensor in = DHOW_INIT(dhow_named_tensor, .name = "x", .tensor = x),
                      out = DHOW_INIT(dhow_named_tensor, .name = "y"),
                      wrong = DHOW_INIT(dhow_named_tensor, .name = "z");
    cr_assert_eq(dhow_model_run_named(m, NULL, &in, 1, &wrong, 1), DHOW_NOT_FOUND);
    cr_assert_not_null(strstr(dhow_last_error(), "no output 'z'"));
    cr_assert_not_null(strstr(dhow_last_error(), "it has '"), "%s", dhow_last_error());
    /* One name twice had given two owners one reference. */
    dhow_named_tensor two[] = {out, out}, both[] = {in, in};
    cr_assert_eq(dhow_model_run_named(m, NULL, &in, 1, two, 2), DHOW_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(dhow_last_error(), "asked for twice"), "%s", dhow_last_error());
    cr_assert_eq(dhow_model_run_named(m, NULL, both, 2, &out, 1), DHOW_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(dhow_last_error(), "given twice"), "%s", dhow_last_error());
    cr_assert_eq(dhow_model_run_named(m, NULL, NULL, 0, &out, 1), DHOW_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(dhow_last_error(), "'x' is missing"));
    cr_assert_eq(dhow_model_run_named(m, NULL, &in, 1, &out, 1), DHOW_OK, "%s", dhow_last_error());
    cr_assert_eq(dhow_tensor_count(out.tensor), OUT);
    dhow_tensor_release(out.tensor);
    cr_assert_eq(dhow_model_run_named(m, NULL, &in, 1, NULL, 0), DHOW_OK, "%s", dhow_last_error());
    dhow_tensor_release(x);
    dhow_model_release(m);
}
