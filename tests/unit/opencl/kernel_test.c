/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules from text, launches, and the cache of programs.
 */
#include "fixture.h"

Test(opencl_plugin, portable_kernels_take_buffers_at_any_offset) {
    enum { COUNT = 10007 };
    static float x[COUNT], y[COUNT];
    static unsigned char bytes[COUNT];
    void *module = NULL, *next = NULL, *kernel = NULL;
    dhow_module_desc desc = portable_module();
    kernel = build_kernel(&desc, "scale", &module);
    OK(plugin->module_kernel(module, "next", &next, &err));
    uint64_t a = alloc_bytes(2 * sizeof x), b = alloc_bytes(2 * sizeof x);
    for (int i = 0; i < COUNT; i++) x[i] = (float)i, bytes[i] = (unsigned char)i;
    for (int pass = 0; pass < 3; pass++) {
        const float by = 0.5f + (float)pass;
        const uint64_t x_offset = 4 + 12 * (uint64_t)pass, y_offset = 20;
        upload(a, x_offset, x, sizeof x);
        dhow_geometry work = work_of(COUNT);
        dhow_arg args[] = {buffer_arg(a, x_offset), buffer_arg(b, y_offset), i64_arg(COUNT),
                           value_arg(&by, 4)};
        OK(plugin->launch(stream, kernel, &work, args, 4, &err));
        download(y, b, y_offset, sizeof y);
        for (int i = 0; i < COUNT; i++) cr_assert_eq(y[i], x[i] * by);
    }
    upload(a, 3, bytes, COUNT);
    dhow_geometry work = work_of(COUNT);
    dhow_arg args[] = {buffer_arg(a, 3), buffer_arg(a, 3), i64_arg(COUNT)};
    OK(plugin->launch(stream, next, &work, args, 3, &err));
    download(bytes, a, 3, COUNT);
    for (int i = 0; i < COUNT; i++) cr_assert_eq(bytes[i], (unsigned char)(i + 1));
    plugin->mem_free(device, a);
    plugin->mem_free(device, b);
    plugin->module_free(module);
}

/* A group size among the options asks for the form of graphics processors, with its barriers, on
 * processors too. */
static void check_dims_and_sums(const char *options) {
    void *module = NULL, *sums = NULL;
    dhow_module_desc desc = portable_module();
    desc.options = options;
    void *kernel = build_kernel(&desc, "strided_i32", &module);
    OK(plugin->module_kernel(module, "sums", &sums, &err));
    int32_t x[64], y[64];
    for (int i = 0; i < 64; i++) x[i] = i;
    uint64_t a = alloc_bytes(sizeof x), b = alloc_bytes(sizeof y);
    upload(a, 0, x, sizeof x);
    for (int64_t stride = 1; stride <= 3; stride++) {
        dhow_dims dims = {.rank = 1, .shape = {10}, .offset = {stride, 2}};
        dims.stride[0][0] = stride;
        dims.stride[1][0] = 5;
        dhow_arg third = {.kind = DHOW_ARG_DIMS};
        third.u.dims = &dims;
        dhow_arg args[] = {buffer_arg(a, 0), buffer_arg(b, 0), third};
        dhow_geometry work = work_of(10);
        OK(plugin->launch(stream, kernel, &work, args, 3, &err));
        download(y, b, 0, sizeof y);
        for (int i = 0; i < 10; i++) cr_assert_eq(y[2 + 5 * i], stride + stride * i);
    }
    float ones[60], total[6];
    for (int i = 0; i < 60; i++) ones[i] = 1;
    upload(a, 0, ones, sizeof ones);
    dhow_arg args[] = {buffer_arg(a, 0), buffer_arg(b, 0), i64_arg(6), i64_arg(10)};
    dhow_geometry work = work_of(60);
    OK(plugin->launch(stream, sums, &work, args, 4, &err));
    download(total, b, 0, sizeof total);
    for (int i = 0; i < 6; i++) cr_assert_eq(total[i], 10.0f);
    plugin->mem_free(device, a);
    plugin->mem_free(device, b);
    plugin->module_free(module);
}

Test(opencl_plugin, dims_go_by_value_and_groups_reduce) { check_dims_and_sums("-DT=i32"); }

Test(opencl_plugin, the_form_of_graphics_processors_gives_the_same) {
    check_dims_and_sums("-DT=i32 -DK_WG=64");
}

Test(opencl_plugin, launches_that_do_not_fit_the_kernel_are_refused) {
    void *module = NULL, *kernel = NULL;
    dhow_module_desc desc = portable_module();
    FAILS(DHOW_OK, plugin->module_build(device, &desc, &module, &err));
    FAILS(DHOW_NOT_FOUND, plugin->module_kernel(module, "absent", &kernel, &err));
    SAYS("'user.k' has no kernel 'absent'");
    cr_assert_null(kernel);
    OK(plugin->module_kernel(module, "scale", &kernel, &err));
    uint64_t a = alloc_bytes(64);
    dhow_geometry work = work_of(1), grid = {.native = 1, .grid = {1, 1, 1}, .block = {1, 1, 1}};
    dhow_arg args[] = {buffer_arg(a, 0), buffer_arg(a, 0), i64_arg(1), i64_arg(1)};
    FAILS(DHOW_INVALID_ARGUMENT, plugin->launch(stream, kernel, &work, args, 3, &err));
    SAYS("'scale' takes 4 arguments, not 3");
    FAILS(DHOW_INVALID_ARGUMENT, plugin->launch(stream, kernel, &grid, args, 4, &err));
    SAYS("is portable and was launched with a grid");
    plugin->mem_free(device, a);
    plugin->module_free(module);
}

/* Values of all sizes between buffers, some of which change from launch to launch. */
static void check_mixed_arguments(void) {
    static const char text[] =
        "KERNEL(mixed, (VAL(i32,n), IN(f32,x), VAL(f64,by), VAL(u32,plus), OUT(f32,y),\n"
        "               VAL(dims,d), VAL(f32,minus), VAL(i64,times)))\n"
        "{\n"
        "    GRID_FOR(i, n) y[i] = (x[i * d.stride[0][0]] * (f32)by + plus - minus) * times;\n"
        "}\n";
    static const dhow_kernel_param params[] = {
        {DHOW_PARAM_VALUE, DHOW_I32, "n"},     {DHOW_PARAM_IN, DHOW_F32, "x"},
        {DHOW_PARAM_VALUE, DHOW_F64, "by"},    {DHOW_PARAM_VALUE, DHOW_U32, "plus"},
        {DHOW_PARAM_OUT, DHOW_F32, "y"},       {DHOW_PARAM_VALUE, DHOW_PARAM_DIMS, "d"},
        {DHOW_PARAM_VALUE, DHOW_F32, "minus"}, {DHOW_PARAM_VALUE, DHOW_I64, "times"}};
    static const dhow_kernel_decl kernels[] = {{"mixed", "", params, 8, 0}};
    enum { COUNT = 50 };
    float x[2 * COUNT], y[COUNT];
    void *module = NULL;
    dhow_module_desc desc = describe(DHOW_MODULE_PORTABLE, text, kernels, 1);
    desc.flags = DHOW_MODULE_BUILTIN;
    void *kernel = build_kernel(&desc, "mixed", &module);
    uint64_t a = alloc_bytes(sizeof x + 16), b = alloc_bytes(sizeof y + 16);
    for (int i = 0; i < 2 * COUNT; i++) x[i] = (float)i;
    for (int pass = 0; pass < 6; pass++) {
        const int32_t n = COUNT;
        const double by = pass == 1 ? 3 : 2;
        const uint32_t plus = pass == 2 ? 7 : 5;
        const float minus = pass == 3 ? 0.5f : 1;
        const int64_t stride = pass == 4 ? 2 : 1;
        const uint64_t offset = pass == 5 ? 16 : 0;
        dhow_dims dims = {.rank = 1, .shape = {COUNT}};
        dims.stride[0][0] = stride;
        dhow_arg d = {.kind = DHOW_ARG_DIMS};
        d.u.dims = &dims;
        dhow_arg args[] = {value_arg(&n, 4),     buffer_arg(a, offset), value_arg(&by, 8),
                           value_arg(&plus, 4),  buffer_arg(b, 16),     d,
                           value_arg(&minus, 4), i64_arg(pass + 1)};
        dhow_geometry work = work_of(COUNT);
        upload(a, offset, x, sizeof x);
        OK(plugin->launch(stream, kernel, &work, args, 8, &err));
        OK(plugin->launch(stream, kernel, &work, args, 8, &err));
        download(y, b, 16, sizeof y);
        for (int i = 0; i < COUNT; i++)
            cr_assert_eq(y[i],
                         (x[i * stride] * (float)by + (float)plus - minus) * (float)(pass + 1));
        FAILS(DHOW_INVALID_ARGUMENT, plugin->launch(stream, kernel, &work, args, 4, &err));
        SAYS("kernel 'mixed' takes");
    }
    plugin->mem_free(device, a);
    plugin->mem_free(device, b);
    plugin->module_free(module);
}

Test(opencl_plugin, values_go_as_one_argument_of_dhows_kernels) { check_mixed_arguments(); }

static void pass_one_by_one(void) {
    setenv("DHOW_OPENCL_JOINED", "0", 1);
    open_plugin();
}

Test(opencl_one_by_one, values_as_arguments_of_their_own_give_the_same, .init = pass_one_by_one,
     .fini = close_plugin) {
    check_mixed_arguments();
}

Test(opencl_one_by_one, a_word_that_is_no_switch_is_an_error_that_names_it) {
    setenv("DHOW_OPENCL_JOINED", "perhaps", 1);
    if (probe_plugin().state != DHOW_PLUGIN_READY) cr_skip_test("no OpenCL here");
    FAILS(DHOW_INVALID_ARGUMENT, plugin->open(&host, &backend, &err));
    SAYS("'perhaps'");
}

Test(opencl_plugin, native_kernels_get_grid_block_and_local_memory) {
    static const char text[] =
        "__kernel void turn(__global const int *x, __global int *y, int n, __local int *t) {\n"
        "    size_t l = get_local_id(0), w = get_local_size(0), i = get_global_id(0);\n"
        "    t[l] = x[i];\n"
        "    barrier(CLK_LOCAL_MEM_FENCE);\n"
        "    y[i + get_group_id(1) * n] = t[w - 1 - l];\n"
        "}\n";
    enum { WIDTH = 8, COUNT = 64 };
    int32_t x[COUNT], y[2 * COUNT];
    const int32_t n = COUNT;
    void *module = NULL;
    dhow_module_desc desc = describe(DHOW_MODULE_OPENCL_C, text, NULL, 0);
    void *kernel = build_kernel(&desc, "turn", &module);
    for (int i = 0; i < COUNT; i++) x[i] = i;
    uint64_t a = alloc_bytes(sizeof x + 4096), b = alloc_bytes(sizeof y);
    dhow_geometry grid = {.native = 1,
                          .grid = {COUNT / WIDTH, 2, 1},
                          .block = {WIDTH, 1, 1},
                          .shared_bytes = WIDTH * 4};
    for (uint64_t offset = 0; offset <= 4096;
         offset += 2048) { /* sub-buffers where they may begin */
        memset(y, 0, sizeof y);
        upload(a, offset, x, sizeof x);
        dhow_arg args[] = {buffer_arg(a, offset), buffer_arg(b, 0), value_arg(&n, 4)};
        OK(plugin->launch(stream, kernel, &grid, args, 3, &err));
        download(y, b, 0, sizeof y);
        for (int i = 0; i < 2 * COUNT; i++)
            cr_assert_eq(y[i], i % COUNT / WIDTH * WIDTH + WIDTH - 1 - i % WIDTH);
    }
    dhow_arg args[] = {buffer_arg(a, 4), buffer_arg(b, 0), value_arg(&n, 4)};
    FAILS(DHOW_UNSUPPORTED, plugin->launch(stream, kernel, &grid, args, 3, &err));
    SAYS("argument 1 begins at byte 4");
    plugin->mem_free(device, a);
    plugin->mem_free(device, b);
    plugin->module_free(module);
}

Test(opencl_plugin, a_compile_error_points_into_the_users_text) {
    char log[4096] = "";
    void *module = &module;
    static const char text[] =
        "KERNEL(bad, (IN(f32,x), OUT(f32,y), VAL(i64,n)))\n{\n    GRID_FOR(i, n) y[i] = oops;\n}\n";
    static const dhow_kernel_param params[] = {{DHOW_PARAM_IN, DHOW_F32, "x"},
                                               {DHOW_PARAM_OUT, DHOW_F32, "y"},
                                               {DHOW_PARAM_VALUE, DHOW_I64, "n"}};
    static const dhow_kernel_decl kernel = {"bad", "(IN(f32,x), OUT(f32,y), VAL(i64,n))", params, 3,
                                            0};
    dhow_module_desc desc = describe(DHOW_MODULE_PORTABLE, text, &kernel, 1);
    desc.log = log;
    desc.log_bytes = sizeof log;
    FAILS(DHOW_COMPILE_ERROR, plugin->module_build(device, &desc, &module, &err));
    cr_assert_null(module);
    cr_assert(strstr(log, "oops") != NULL, "%s", log);
    cr_assert(strstr(log, "user.k:3") != NULL, "%s", log);
    SAYS("user.k:3");
    SAYS("CL_BUILD_PROGRAM_FAILURE");
    desc.format = DHOW_MODULE_PTX;
    FAILS(DHOW_UNSUPPORTED, plugin->module_build(device, &desc, &module, &err));
    static const dhow_kernel_param unknown = {17, DHOW_F32, "x"};
    static const dhow_kernel_decl wrong = {"bad", "", &unknown, 1, 0};
    desc = describe(DHOW_MODULE_PORTABLE, text, &wrong, 1);
    FAILS(DHOW_INVALID_ARGUMENT, plugin->module_build(device, &desc, &module, &err));
    SAYS("parameter 0 is of kind 17");
}

Test(opencl_plugin, a_program_comes_from_the_cache_and_a_damaged_one_is_built_again) {
    dhow_module_desc desc = portable_module();
    for (int pass = 0; pass < 4; pass++) {
        void *module = NULL;
        if (pass == 2) cache.blob[cache.bytes / 2] ^= 0x55;
        if (pass == 3) cache.bytes = 20;
        void *kernel = build_kernel(&desc, "next", &module);
        unsigned char byte = 41;
        uint64_t a = alloc_bytes(1);
        upload(a, 0, &byte, 1);
        dhow_arg args[] = {buffer_arg(a, 0), buffer_arg(a, 0), i64_arg(1)};
        dhow_geometry work = work_of(1);
        OK(plugin->launch(stream, kernel, &work, args, 3, &err));
        download(&byte, a, 0, 1);
        cr_assert_eq(byte, 42);
        cr_assert_eq(cache.loads, pass);
        cr_assert_eq(cache.stores, pass < 2 ? 1 : pass);
        plugin->mem_free(device, a);
        plugin->module_free(module);
    }
    desc.options = "-DT=i32 -DOTHER";
    void *module = NULL;
    OK(plugin->module_build(device, &desc, &module, &err));
    cr_assert_eq(cache.loads, 3, "other options, other program");
    plugin->module_free(module);
}
