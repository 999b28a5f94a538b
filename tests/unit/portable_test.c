/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts in the kernel dialect that are wrong: what one compiler accepts and another does not is
 * refused by all, with the portable name, and at the line and column where it stands.
 */
#include "loader_fixture.h"

static dhow_context *g_context;
static dhow_device *g_devices[2];
static int g_count;

static void set_up(void) {
    static const char *const specs[] = {"cpu", "opencl"};
    OK(dhow_context_create(&DHOW_INIT(dhow_context_options, .plugin_path = DHOW_TEST_PLUGIN_DIR
                                      ":" DHOW_TEST_SIM_DIR),
                           &g_context));
    for (int i = 0; i < 2; i++)
        g_count += dhow_device_get(g_context, specs[i], &g_devices[g_count]) == DHOW_OK;
}
static void tear_down(void) { dhow_context_release(g_context); }
TestSuite(portable, .init = set_up, .fini = tear_down, .timeout = 120);

static void refuses(dhow_device *device, uint32_t format, const char *text, dhow_status wanted,
                    const char *says) {
    dhow_module *m;
    const dhow_module_source source =
        DHOW_INIT(dhow_module_source, .text = text, .format = format, .name = "own.k");
    cr_assert_eq(dhow_module_build(device, &source, &m), wanted, "%s: %s: %s",
                 dhow_device_name(device), text, dhow_last_error());
    SAYS(dhow_last_error(), says);
}

/* They worked on the CPU, and the program broke on the user's GPU. */
Test(portable, names_that_only_some_compilers_have_are_refused_with_the_portable_one) {
    static const struct {
        const char *expression, *says;
    } bad[] = {
        {"sinf(v)", "write MATH(f32, sin)"},         {"powf(v, 2.0f)", "write MATH(f32, pow)"},
        {"fminf(v, 1.0f)", "write MATH(f32, fmin)"}, {"rintf(v)", "write MATH(f32, rint)"},
        {"MAX(v, 1.0f)", "write MAXOF(a, b)"},       {"nobody(v)", "nobody"}};
    for (int d = 0; d < g_count; d++) {
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            char text[256];
            (void)snprintf(text, sizeof text,
                           "KERNEL(f, (OUT(f32,y), VAL(i64,n)))\n"
                           "{ GRID_FOR(i, n) { const f32 v = (f32)i; y[i] = %s; } }\n",
                           bad[i].expression);
            refuses(g_devices[d], 0, text, DHOW_COMPILE_ERROR, bad[i].says);
        }
    }
}

/* The CPU compiled a kernel named 'step'; OpenCL said "expected ')'" of it, CUDA something else. */
Test(portable, names_of_kernels_that_a_language_has_for_itself_are_refused) {
    static const char *const bad[] = {"step", "dot", "min", "norm", "kernel", "abs", "yn", "f32"};
    static const char *const good[] = {"steps", "ste", "dots", "axpy", "scale", "my_step"};
    for (int d = 0; d < g_count; d++) {
        char text[160];
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            (void)snprintf(text, sizeof text, "KERNEL(%s, (OUT(f32,y))) { GRID_FOR(i, 1) y[i] = 1; }",
                           bad[i]);
            refuses(g_devices[d], 0, text, DHOW_INVALID_ARGUMENT, "call it 'my_");
        }
        for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
            dhow_module *m;
            (void)snprintf(text, sizeof text, "KERNEL(%s, (OUT(f32,y))) { GRID_FOR(i, 1) y[i] = 1; }",
                           good[i]);
            OK(dhow_module_build(g_devices[d], &DHOW_INIT(dhow_module_source, .text = text), &m));
            dhow_module_release(m);
        }
    }
}

Test(portable, names_that_all_have_compile) {
    static const char text[] =
        "KERNEL(f, (OUT(f32,y), OUT(i32,z), VAL(i64,n)))\n"
        "{ GRID_FOR(i, n) { const f32 v = (f32)i; z[i] = abs((i32)i - 5);\n"
        "  y[i] = sqrtf(v) + expf(v) + logf(v) + tanhf(v) + fabsf(v) + rsqrtf(v) + fmaf(v, v, v)\n"
        "       + (f32)sin(v) + (f32)floor(v) + (isnan(v) ? 1 : 0) + MAXOF(v, 1.0f); } }\n";
    for (int d = 0; d < g_count; d++) {
        dhow_module *m;
        OK(dhow_module_build(g_devices[d],
                             &DHOW_INIT(dhow_module_source, .text = text, .name = "own.k"), &m));
        dhow_module_release(m);
    }
}

/* OpenCL told a column that lay behind, by the macro put into the line. */
Test(portable, an_error_is_told_with_its_line_and_column) {
    static const char text[] =
        "/* one */\nKERNEL(f, (OUT(f32,y), VAL(i64,n))) { GRID_FOR(i, n) { y[i] = nothing; } }\n";
    char place[40];
    const int column = (int)(strstr(text, "nothing") - strchr(text, '\n'));
    (void)snprintf(place, sizeof place, "own.k:2:%d", column);
    for (int d = 0; d < g_count; d++) refuses(g_devices[d], 0, text, DHOW_COMPILE_ERROR, place);
}

Test(portable, bools_and_foreign_formats_are_named) {
    for (int d = 0; d < g_count; d++) {
        refuses(g_devices[d], 0, "KERNEL(f, (OUT(bool,y))) {}", DHOW_INVALID_ARGUMENT,
                "cannot have the type bool; u8 takes bool tensors");
        refuses(g_devices[d], 0, "KERNEL(f, (OUT(float,y))) {}", DHOW_INVALID_ARGUMENT,
                "cannot have the type float; buffers are f32");
        refuses(g_devices[d], 0, "KERNEL(f, (VAL(f16,y))) {}", DHOW_INVALID_ARGUMENT,
                "cannot have the type f16; values are i32");
        refuses(g_devices[d], DHOW_MODULE_CUDA_C, "int x;", DHOW_UNSUPPORTED, "not CUDA C");
    }
}

/* UINT64_MAX was told as -1. */
Test(portable, a_number_that_a_parameter_cannot_hold_is_told) {
    static const char text[] =
        "KERNEL(f, (OUT(f64,y), VAL(i32,a), VAL(u32,b), VAL(i64,c)))\n"
        "{ GRID_FOR(i, 1) { y[i] = (f64)a + (f64)b + (f64)c; } }\n";
    for (int d = 0; d < g_count; d++) {
        dhow_module *m;
        dhow_kernel *f;
        dhow_tensor *y;
        OK(dhow_module_build(g_devices[d],
                             &DHOW_INIT(dhow_module_source, .text = text, .name = "own.k"), &m));
        OK(dhow_module_kernel(m, "f", &f));
        OK(dhow_tensor_create(g_devices[d], DHOW_F64, DHOW_SHAPE(1), &y));
        cr_assert_eq(dhow_launch(NULL, f, 1, y, 1, 2, UINT64_MAX), DHOW_OUT_OF_RANGE);
        SAYS(dhow_last_error(), "argument 4 'c' is i64, 18446744073709551615 does not fit");
        cr_assert_eq(dhow_launch(NULL, f, 1, y, 1, -2, 3), DHOW_OUT_OF_RANGE);
        SAYS(dhow_last_error(), "argument 3 'b' is u32, -2 does not fit");
        cr_assert_eq(dhow_launch(NULL, f, 1, y, INT64_MIN, 2, 3), DHOW_OUT_OF_RANGE);
        SAYS(dhow_last_error(), "argument 2 'a' is i32, -9223372036854775808 does not fit");
        OK(dhow_launch(NULL, f, 1, y, 1, 2, (uint64_t)INT64_MAX));
        dhow_tensor_release(y);
        dhow_kernel_release(f);
        dhow_module_release(m);
    }
}
