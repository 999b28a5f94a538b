/* SPDX-License-Identifier: Apache-2.0
 *
 * Mistakes in a user's kernel that the C form lets pass: with ptx=1 each is found by name.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"
#include "fakecuda.h"

enum { COUNT = 512 };

static const char k_text[] =
    "KERNEL(no_barrier, (IN(f32,x), OUT(f32,y), VAL(i64,n)))\n"
    "{\n"
    "    LOCAL(f32, a, 256);\n"
    "    GROUP_FOR(g, n / 256) {\n"
    "        ITEM_FOR(j, 256) a[j] = 0;\n"
    "        ITEM_FOR_NB(j, 256) a[j] = x[g * 256 + j];\n"
    "        ITEM_FOR(j, 256) y[g * 256 + j] = a[255 - j];\n"
    "    }\n"
    "}\n"
    "KERNEL(uneven_barrier, (IN(f32,x), OUT(f32,y), VAL(i64,n)))\n"
    "{ ITEM_FOR_NB(i, 100) { ITEM_FOR(j, n) y[j] = x[j]; } }\n"
    "KERNEL(never_written, (IN(f32,x), OUT(f32,y), VAL(i64,n)))\n"
    "{\n"
    "    LOCAL(f32, a, 256);\n"
    "    ITEM_FOR(j, 128) a[j] = x[j];\n"
    "    ITEM_FOR(j, 256) y[j] = a[j];\n"
    "}\n"
    "KERNEL(half_a_number, (IN(f32,x), OUT(f32,y), VAL(i64,n)))\n"
    "{ GRID_FOR(i, n / 2 - 1)\n"
    "    y[i] = (f32)*(GLOBAL const f64 *)((GLOBAL const u8 *)x + 4 + 8 * i); }\n"
    "KERNEL(far_away, (IN(f32,x), OUT(f32,y), VAL(i64,n)))\n"
    "{ GRID_FOR(i, n) y[i] = x[i + ((i64)1 << 28)]; }\n"
    "KERNEL(right, (IN(f32,x), OUT(f32,y), VAL(i64,n)))\n"
    "{ GRID_FOR(i, n) y[i] = x[n - 1 - i]; }\n";

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())

/* Runs a kernel on x [COUNT], which counts up. The status is that of the wait for it. */
static dhow_status run(const char *settings, const char *name, float *y) {
    const int64_t count = COUNT;
    dhow_context *context;
    dhow_device *device;
    dhow_module *module;
    dhow_kernel *kernel;
    dhow_tensor *from, *to;
    float x[COUNT];
    const dhow_context_options options = DHOW_INIT(dhow_context_options, .backends = "cpu,cuda");
    for (int i = 0; i < COUNT; i++) x[i] = (float)i;
    cr_assert(fakecuda_reset(settings, NULL, NULL, 0));
    (void)setenv("FAKECUDA", settings, 1); /* devices are described by dhow-probe */
    (void)setenv("DHOW_CACHE_DIR", "off", 1);
    OK(dhow_context_create(&options, &context));
    OK(dhow_device_get(context, "cuda:0", &device));
    OK(dhow_module_build(
        device, &DHOW_INIT(dhow_module_source, .text = k_text, .name = "mistakes.k"), &module));
    OK(dhow_module_kernel(module, name, &kernel));
    OK(dhow_tensor_from_data(device, DHOW_F32, 1, &count, x, &from));
    OK(dhow_tensor_full(device, DHOW_F32, 1, &count, 0, &to));
    OK(dhow_launch(NULL, kernel, count, from, to, count));
    const dhow_status status = dhow_tensor_read(to, y, sizeof x);
    dhow_tensor_release(from);
    dhow_tensor_release(to);
    dhow_kernel_release(kernel);
    dhow_module_release(module);
    dhow_context_release(context);
    return status;
}

static void expect_unnoticed(const char *name) {
    float y[COUNT];
    cr_assert_eq(run("devices=1", name, y), DHOW_OK, "%s: %s", name, dhow_last_error());
    cr_assert_eq(fakecuda_complaints(), 0, "%s", fakecuda_first_complaint());
}

/* The stand-in says `words`; a GPU would have said nothing, or something else. */
static void expect_complaint(const char *name, const char *words) {
    float y[COUNT];
    expect_unnoticed(name);
    cr_assert_neq(run("devices=1,ptx=1", name, y), DHOW_OK, "%s passes", name);
    cr_assert_not_null(strstr(fakecuda_first_complaint(), words), "%s: %s", name,
                       fakecuda_first_complaint());
    cr_assert_not_null(strstr(fakecuda_first_complaint(), name), "%s", fakecuda_first_complaint());
}

static void expect_error(const char *name, const char *words) {
    float y[COUNT];
    cr_assert_neq(run("devices=1,ptx=1", name, y), DHOW_OK, "%s passes", name);
    cr_assert_not_null(strstr(dhow_last_error(), words), "%s: %s", name, dhow_last_error());
}

Test(fakecuda_ptx, mistakes_are_found) {
    expect_complaint("no_barrier", "race: ");
    expect_complaint("uneven_barrier", "barrier");
    expect_complaint("never_written", "which this block never wrote");
    expect_unnoticed("half_a_number");
    expect_error("half_a_number", "cudaErrorMisalignedAddress");
    expect_error("far_away", "cudaErrorIllegalAddress");
}

Test(fakecuda_ptx, what_is_right_is_right) {
    float y[COUNT];
    cr_assert_eq(run("devices=1,ptx=1", "right", y), DHOW_OK, "%s", dhow_last_error());
    for (int i = 0; i < COUNT; i++) cr_assert_eq(y[i], (float)(COUNT - 1 - i));
    cr_assert_eq(fakecuda_complaints(), 0, "%s", fakecuda_first_complaint());
}
