/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules and kernels of the CUDA plugin: CUDA C by NVRTC, PTX, fat binaries.
 */
#include <cuda.h>
#include <stdlib.h>

#include "plugin_fixture.h"

static const char k_native[] =
    "extern \"C\" __global__ void scale(float *x, const float *y, float factor, int n)\n"
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = factor * y[i]; }\n"
    "__global__ void hidden(float *x) { x[0] = 1; }\n";

Test(cuda_plugin, cuda_c_is_compiled_and_its_launches_are_checked) {
    char log[4096] = "";
    void *module = NULL, *kernel = NULL;
    begin(NULL, NULL);
    OK(build(DHOW_MODULE_CUDA_C, k_native, "", log, &module));
    OK(cuda->module_kernel(module, "scale", &kernel, &err));
    FAILS(DHOW_NOT_FOUND, cuda->module_kernel(module, "hidden", &kernel, &err));
    SAYS("extern \"C\"");
    OK(cuda->module_kernel(module, "scale", &kernel, &err));
    uint64_t memory = to_device(NULL, 64);
    const dhow_geometry geometry = {.native = 1, .grid = {1, 1, 1}, .block = {32, 1, 1}};
    dhow_arg args[4] = {{DHOW_ARG_BUFFER, 3, {.buffer = {memory, 0}}},
                        {DHOW_ARG_BUFFER, 3, {.buffer = {memory, 0}}},
                        {DHOW_ARG_VALUE, 4, {.value = 0}},
                        {DHOW_ARG_VALUE, 4, {.value = 4}}};
    FAILS(DHOW_UNSUPPORTED, cuda->launch(stream, kernel, &geometry, args, 4, &err));
    SAYS("cudaErrorNotSupported"); /* the fake runs portable kernels only */
    FAILS(DHOW_INVALID_ARGUMENT, cuda->launch(stream, kernel, &geometry, args, 3, &err));
    SAYS("takes 4 arguments, given 3");
    args[2].bytes = 8;
    FAILS(DHOW_INVALID_ARGUMENT, cuda->launch(stream, kernel, &geometry, args, 4, &err));
    SAYS("argument 3 takes 4 bytes, given 8");
    cuda->mem_free(device[0], memory);
    cuda->module_free(module);
    end();
}

Test(cuda_plugin, a_compile_error_comes_with_the_compilers_words) {
    char log[4096] = "";
    void *module = NULL;
    begin(NULL, NULL);
    FAILS(DHOW_COMPILE_ERROR,
          build(DHOW_MODULE_CUDA_C, "extern \"C\" __global__ void k(float *x) { x[0] = wrong; }\n",
                "", log, &module));
    cr_assert_null(module);
    SAYS("wrong");
    cr_assert_not_null(strstr(log, "wrong"), "%s", log);
    FAILS(DHOW_INVALID_ARGUMENT, build(DHOW_MODULE_CUDA_C, k_native, "--colour=red", log, &module));
    SAYS("--colour=red");
    end();
}

/* As most kernels begin. No folder was named to NVRTC, and it knows none. */
Test(cuda_plugin, cuda_c_includes_the_headers_of_the_toolkit) {
    static const char text[] =
        "#include <cuda_fp16.h>\n"
        "extern \"C\" __global__ void halve(__half *x, int n) { if (n > 0) x[0].bits = 0; }\n";
    char root[] = "/tmp/dhow-toolkit-XXXXXX", command[256], log[4096] = "";
    void *module = NULL, *kernel = NULL;
    cr_assert_not_null(mkdtemp(root));
    (void)snprintf(command, sizeof command,
                   "mkdir %s/include && echo 'struct __half { unsigned short bits; };' > "
                   "%s/include/cuda_fp16.h",
                   root, root);
    cr_assert_eq(system(command), 0);
    (void)setenv("CUDA_HOME", root, 1);
    begin(NULL, NULL);
    OK(build(DHOW_MODULE_CUDA_C, text, "", log, &module));
    OK(cuda->module_kernel(module, "halve", &kernel, &err));
    cuda->module_free(module);
    FAILS(DHOW_COMPILE_ERROR,
          build(DHOW_MODULE_CUDA_C, "#include <nowhere.h>\n", "", log, &module));
    SAYS("nowhere.h");
    end();
    (void)snprintf(command, sizeof command, "rm -r %s", root);
    cr_assert_eq(system(command), 0);
}

Test(cuda_plugin, ptx_is_loaded_and_damaged_ptx_is_refused) {
    static const char ptx[] =
        ".version 8.0\n.target sm_80\n.address_size 64\n"
        ".visible .entry scale(.param .u64 a, .param .f32 b)\n{\n ret;\n}\n";
    char log[4096] = "";
    void *module = NULL, *kernel = NULL;
    begin(NULL, NULL);
    OK(build(DHOW_MODULE_PTX, ptx, "", log, &module));
    OK(cuda->module_kernel(module, "scale", &kernel, &err));
    cuda->module_free(module);
    FAILS(DHOW_COMPILE_ERROR,
          build(DHOW_MODULE_PTX, ".version 8.0\n.target sm_80\n{", "", log, &module));
    SAYS("cudaErrorInvalidPtx (218)");
    FAILS(DHOW_UNSUPPORTED,
          build(DHOW_MODULE_PTX, ".version 99.0\n.target sm_80\n", "", log, &module));
    SAYS("update the driver");
    end();
}

/* The driver compiles PTX when code is first needed, and had the caller's log until then. */
Test(cuda_plugin, damaged_ptx_is_refused_when_the_module_is_built) {
    char *log = malloc(4096);
    void *module = NULL;
    begin(NULL, NULL);
    cr_assert_not_null(log);
    log[0] = '\0';
    FAILS(DHOW_COMPILE_ERROR,
          build(DHOW_MODULE_PTX, ".version 8.0\n.target sm_80\n}", "", log, &module));
    cr_assert_null(module);
    cr_assert_not_null(strstr(log, "ptxas fatal"), "%s", log);
    free(log);
    FAILS(DHOW_UNSUPPORTED,
          build(DHOW_MODULE_PTX, ".version 8.0\n.target sm_120\n", "", NULL, &module));
    SAYS("cudaErrorNoKernelImageForDevice (209)");
    end();
}

static void *load_ptx_kernel(void **out_module) {
    void *kernel = NULL;
    OK(build(DHOW_MODULE_PTX, SCALE_PTX, "", NULL, out_module));
    OK(cuda->module_kernel(*out_module, "scale", &kernel, &err));
    return kernel;
}

static int32_t launch_scale(void *kernel, uint32_t grid_y, uint32_t shared_bytes) {
    const dhow_geometry geometry = {
        .native = 1, .grid = {1, grid_y, 1}, .block = {32, 1, 1}, .shared_bytes = shared_bytes};
    const dhow_arg arg = {DHOW_ARG_BUFFER, 3, {.buffer = {0, 0}}};
    return cuda->launch(stream, kernel, &geometry, &arg, 1, &err);
}

/* It was asked for by each launch, as much as that needed: a launch of another thread could take it
 * away in between. */
Test(cuda_plugin, shared_memory_is_allowed_once_for_a_kernel) {
    static const struct {
        const char *settings;
        uint32_t most;
    } rows[] = {{"devices=1,cc=75", 64 << 10},
                {"devices=1,cc=80", 163 << 10},
                {"devices=1,cc=89", 99 << 10},
                {"devices=1,cc=90", 227 << 10}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *module = NULL;
        device[1] = NULL;
        begin(rows[i].settings, NULL);
        void *kernel = load_ptx_kernel(&module);
        const uint64_t before = fakecuda_call_count("cuFuncSetAttribute");
        cr_assert_eq(before, 1);
        FAILS(DHOW_UNSUPPORTED, launch_scale(kernel, 1, rows[i].most));
        SAYS("cudaErrorNotSupported"); /* the fake runs portable kernels only */
        FAILS(DHOW_UNSUPPORTED, launch_scale(kernel, 1, 50 << 10));
        cr_assert_eq(fakecuda_call_count("cuFuncSetAttribute"), before);
        FAILS(DHOW_INVALID_ARGUMENT, launch_scale(kernel, 1, rows[i].most + 1));
        SAYS("bytes of shared memory; cuda:0 has");
        FAILS(DHOW_INVALID_ARGUMENT, launch_scale(kernel, 65536, 0));
        SAYS("a grid of 1 x 65536 x 1 groups");
        cuda->module_free(module);
        end();
    }
}

/* A form compiled with the program for this index width takes the place of the text; one that the
 * driver refuses does not. */
Test(cuda_plugin, a_fat_binary_that_came_with_the_text_is_used) {
    static const fake_fatbin right = FAKE_FATBIN_INIT;
    fake_fatbin foreign = FAKE_FATBIN_INIT;
    static const dhow_kernel_param params[] = {{DHOW_PARAM_ALIAS, DHOW_F32, "x"},
                                               {DHOW_PARAM_ALIAS_OUT, DHOW_F32, "y"},
                                               {DHOW_PARAM_VALUE, DHOW_I64, "n"}};
    static const dhow_kernel_decl decl = {
        "relu_f32", "(ALIAS(f32,x), ALIAS_OUT(f32,y), VAL(i64,n))", params, 3, 0};
    char log[4096] = "";
    void *module = NULL;
    foreign.mark[0] = 'x';
    begin(NULL, NULL);
    dhow_module_image images[] = {{DHOW_IMAGE_CPU, 64, &right, sizeof right},
                                  {DHOW_IMAGE_CUDA, 32, &foreign, sizeof foreign},
                                  {DHOW_IMAGE_CUDA, 64, &right, sizeof right}};
    dhow_module_desc desc = {.struct_size = sizeof desc,
                             .format = DHOW_MODULE_PORTABLE,
                             .name = "own.k",
                             .text = "this is no text",
                             .text_bytes = 15,
                             .options = "",
                             .kernels = &decl,
                             .kernel_count = 1,
                             .index_bits = 64,
                             .log = log,
                             .log_bytes = sizeof log,
                             .images = images,
                             .image_count = 3};
    OK(cuda->module_build(device[0], &desc, &module, &err));
    cuda->module_free(module);
    images[2].data = &foreign; /* no code for this GPU: the text counts, and is wrong */
    FAILS(DHOW_COMPILE_ERROR, cuda->module_build(device[0], &desc, &module, &err));
    cr_assert_null(module);
    images[2] = (dhow_module_image){DHOW_IMAGE_CUDA, 64, &right, 12}; /* cut short */
    FAILS(DHOW_COMPILE_ERROR, cuda->module_build(device[0], &desc, &module, &err));
    desc.struct_size = offsetof(dhow_module_desc, images); /* a host of before */
    FAILS(DHOW_COMPILE_ERROR, cuda->module_build(device[0], &desc, &module, &err));
    end();
}

/* UNSUPPORTED, COMPILE_ERROR or UNAVAILABLE, where the text could have been compiled. */
Test(cuda_plugin, built_in_kernels_without_code_for_the_gpu_are_left_to_nvrtc) {
    static const int refusals[] = {200, 209, 221, 222, 223};
    void *kernel = NULL;
    begin("devices=1,cc=86,code=80", NULL);
    OK(cuda->builtin_kernel(device[0], "relu_f32", 32, &kernel, &err));
    end();
    device[0] = NULL;
    begin("devices=1,cc=87,code=80", NULL); /* Jetson Orin */
    FAILS(DHOW_NOT_FOUND, cuda->builtin_kernel(device[0], "relu_f32", 32, &kernel, &err));
    cr_assert_null(kernel);
    SAYS("cudaErrorNoKernelImageForDevice (209)");
    end();
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        char faults[96];
        (void)snprintf(faults, sizeof faults, "cuKernelGetFunction@1=%d;cudaLibraryLoadData@2=%d",
                       refusals[i], refusals[i]);
        device[0] = NULL;
        begin("devices=1", faults);
        FAILS(DHOW_NOT_FOUND, cuda->builtin_kernel(device[0], "relu_f32", 32, &kernel, &err));
        FAILS(DHOW_NOT_FOUND, cuda->builtin_kernel(device[0], "relu_f32", 64, &kernel, &err));
        OK(cuda->builtin_kernel(device[0], "relu_f32", 32, &kernel, &err));
        end();
    }
}
