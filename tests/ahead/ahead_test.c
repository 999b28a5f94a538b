/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that were compiled with the program by dhow_add_kernels(): right on every device, on the
 * CPU also where there is no compiler, and where there is no ready-made form, from their text.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "axpy_kernels.h"
#include "dhow/dhow.h"
#include "half_kernels.h"
#include "sums_kernels.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())

enum { COUNT = 1000, ROWS = 10 };

static dhow_context *g_context;

static void open_context(void) {
    static const dhow_context_options options =
        DHOW_FIELDS(dhow_context_options, .cache_dir = "off");
    OK(dhow_context_create(&options, &g_context));
}
static void close_context(void) { dhow_context_release(g_context); }
TestSuite(ahead, .init = open_context, .fini = close_context, .timeout = 120);

static void use_kernels(dhow_device *device, const dhow_module_source *source) {
    float x[COUNT], y[COUNT];
    dhow_module *module, *reductions;
    dhow_kernel *axpy, *sums;
    dhow_tensor *tx, *ty, *rows;
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)(i % 17);
        y[i] = (float)(i % 5);
    }
    OK(dhow_module_build(device, source, &module));
    OK(dhow_module_kernel(module, "axpy", &axpy));
    OK(dhow_module_build(device, &sums_kernels, &reductions));
    OK(dhow_module_kernel(reductions, "row_sums_f32", &sums));
    OK(dhow_tensor_from_data(device, DHOW_F32, DHOW_SHAPE(COUNT), x, &tx));
    OK(dhow_tensor_from_data(device, DHOW_F32, DHOW_SHAPE(COUNT), y, &ty));
    OK(dhow_tensor_create(device, DHOW_F32, DHOW_SHAPE(ROWS), &rows));
    OK(dhow_launch(NULL, axpy, COUNT, tx, ty, 2.0f, (int64_t)COUNT));
    OK(dhow_launch(NULL, sums, COUNT, ty, rows, ROWS, COUNT / ROWS));
    float got[COUNT], sum[ROWS];
    OK(dhow_tensor_read(ty, got, sizeof got));
    OK(dhow_tensor_read(rows, sum, sizeof sum));
    for (int r = 0; r < ROWS; r++) {
        float expected = 0;
        for (int i = r * COUNT / ROWS; i < (r + 1) * COUNT / ROWS; i++) {
            cr_assert_eq(got[i], y[i] + 2 * x[i], "%s: %d", dhow_device_name(device), i);
            expected += got[i];
        }
        cr_assert_float_eq(sum[r], expected, 1e-2f);
    }
    /* A launch is checked by the signature in the text, as ever. */
    cr_assert_eq(dhow_launch(NULL, axpy, COUNT, tx, 1.0f, 2.0f, (int64_t)COUNT),
                 DHOW_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(dhow_last_error(), "'y'"), "%s", dhow_last_error());
    dhow_tensor *tensors[] = {tx, ty, rows};
    for (int i = 0; i < 3; i++) dhow_tensor_release(tensors[i]);
    dhow_kernel_release(axpy);
    dhow_kernel_release(sums);
    dhow_module_release(module);
    dhow_module_release(reductions);
}

Test(ahead, kernels_are_right_on_every_device_that_computes_users_kernels) {
    uint32_t used = 0;
    for (uint32_t i = 0; i < dhow_device_count(g_context); i++) {
        dhow_device *device;
        dhow_device_info info = DHOW_INIT(dhow_device_info);
        OK(dhow_device_at(g_context, i, &device));
        OK(dhow_device_get_info(device, &info));
        if (info.kind == DHOW_DEVICE_SIMULATED) continue; /* they have no compiler */
        use_kernels(device, &axpy_kernels);
        used++;
    }
    cr_assert(used >= 1);
}

Test(ahead, the_cpu_needs_no_compiler) {
    dhow_device *cpu;
    dhow_module *module;
    (void)setenv("PATH", "/nowhere", 1);
    (void)unsetenv("CC");
    OK(dhow_device_get(g_context, "cpu", &cpu));
    use_kernels(cpu, &axpy_kernels);
    dhow_module_source text = axpy_kernels; /* the same without its images */
    text.image_count = 0;
    cr_assert_eq(dhow_module_build(cpu, &text, &module), DHOW_UNSUPPORTED);
    cr_assert_not_null(strstr(dhow_last_error(), "needs a C compiler"), "%s", dhow_last_error());
}

/* An image without all kernels of the text is of another text: it is not used. */
Test(ahead, images_that_do_not_fit_the_text_are_passed_over) {
    dhow_device *cpu;
    dhow_module_source mixed = axpy_kernels;
    OK(dhow_device_get(g_context, "cpu", &cpu));
    mixed.images = half_kernels.images;
    mixed.image_count = half_kernels.image_count;
    use_kernels(cpu, &mixed);
    static const dhow_module_image strange = {.kind = 77};
    mixed.images = &strange;
    mixed.image_count = 1;
    use_kernels(cpu, &mixed);
}

Test(ahead, a_text_is_compiled_for_the_type_that_was_named) {
    float values[4] = {1, 2, 3, 4.5f};
    dhow_device *cpu;
    dhow_module *module;
    dhow_kernel *sums;
    dhow_tensor *x, *half, *y, *back;
    (void)setenv("PATH", "/nowhere", 1);
    OK(dhow_device_get(g_context, "cpu", &cpu));
    OK(dhow_module_build(cpu, &half_kernels, &module));
    OK(dhow_module_kernel(module, "row_sums_f16", &sums));
    OK(dhow_tensor_from_data(cpu, DHOW_F32, DHOW_SHAPE(4), values, &x));
    OK(dhow_tensor_create(cpu, DHOW_F16, DHOW_SHAPE(4), &half));
    OK(dhow_tensor_create(cpu, DHOW_F16, DHOW_SHAPE(1), &y));
    OK(dhow_tensor_create(cpu, DHOW_F32, DHOW_SHAPE(1), &back));
    OK(dhow_cast(NULL, x, half));
    OK(dhow_launch(NULL, sums, 4, half, y, 1, 4));
    OK(dhow_cast(NULL, y, back));
    OK(dhow_tensor_read(back, values, sizeof values[0]));
    cr_assert_eq(values[0], 10.5f);
    dhow_tensor *tensors[] = {x, half, y, back};
    for (int i = 0; i < 4; i++) dhow_tensor_release(tensors[i]);
    dhow_kernel_release(sums);
    dhow_module_release(module);
}
