/* SPDX-License-Identifier: Apache-2.0
 *
 * Matmul by CLBlast.
 */
#include "fixture.h"

static dhow_blas_desc square_desc(void) {
    return (dhow_blas_desc){
        .struct_size = sizeof(dhow_blas_desc),
        .flags = DHOW_BLAS_TRANSPOSE_B,
        .dtype_a = DHOW_F32,
        .dtype_b = DHOW_F32,
        .dtype_c = DHOW_F32,
        .compute = DHOW_F32,
        .m = 5,
        .n = 7,
        .k = 9,
        .batch = 2,
        .lda = 9,
        .ldb = 9,
        .ldc = 7,
        .stride_a = 45,
        .stride_b = 0,
        .stride_c = 35,
        .alpha = 2.0f,
        .beta = 0.0f,
    };
}

Test(opencl_plugin, processors_leave_matmul_to_the_portable_kernel) {
    const dhow_blas *blas = plugin->get_extension(device, "dhow.blas/1");
    cr_assert_not_null(blas);
    cr_assert_null(plugin->get_extension(device, "dhow.blas/2"));
    dhow_blas_desc desc = square_desc();
    dhow_device_desc about = {.struct_size = sizeof about};
    void *plan = NULL;
    uint64_t workspace = 1, packed = 1;
    OK(plugin->device_describe(backend, device_count - 1, &about, &err));
    if (about.kind != DHOW_DEVICE_CPU) cr_skip_test("no processor device");
    FAILS(DHOW_UNSUPPORTED, blas->plan(device, &desc, &plan, &workspace, &packed, &err));
    SAYS("the portable kernel is faster");
    dhow_component component = {.struct_size = sizeof component};
    OK(plugin->component(NULL, 0, &component, &err));
    cr_assert_str_eq(component.name, "CLBlast");
    cr_assert(strstr(component.detail, "libclblast") != NULL, "%s", component.detail);
    FAILS(DHOW_OUT_OF_RANGE, plugin->component(NULL, 1, &component, &err));
}

static void force_blas(void) {
    setenv("DHOW_OPENCL_BLAS", "on", 1);
    open_plugin();
}

Test(opencl_blas, clblast_forced_on_agrees_with_three_loops, .init = force_blas,
     .fini = close_plugin, .timeout = 120) {
    const dhow_blas *blas = plugin->get_extension(device, "dhow.blas/1");
    dhow_blas_desc desc = square_desc();
    dhow_component component = {.struct_size = sizeof component};
    void *plan = NULL;
    uint64_t workspace = 1, packed = 1;
    OK(plugin->component(NULL, 0, &component, &err));
    if (!component.present) cr_skip_test("%s", component.detail);
    desc.flags |= DHOW_EPILOGUE_BIAS;
    FAILS(DHOW_UNSUPPORTED, blas->plan(device, &desc, &plan, &workspace, &packed, &err));
    desc.flags = DHOW_BLAS_TRANSPOSE_B;
    OK(blas->plan(device, &desc, &plan, &workspace, &packed, &err));
    cr_assert(workspace == 0 && packed == 0);
    float a[90], b[63], c[70];
    for (int i = 0; i < 90; i++) a[i] = (float)(i % 13) - 6;
    for (int i = 0; i < 63; i++) b[i] = (float)(i % 11) - 5;
    uint64_t da = alloc_bytes(1024), db = alloc_bytes(1024), dc = alloc_bytes(1024);
    upload(da, 4, a, sizeof a);
    upload(db, 8, b, sizeof b);
    dhow_buffer none = {0, 0};
    OK(blas->run(plan, stream, (dhow_buffer){da, 4}, (dhow_buffer){db, 8}, (dhow_buffer){dc, 12},
                 none, none, none, &err));
    download(c, dc, 12, sizeof c);
    for (int batch = 0; batch < 2; batch++)
        for (int i = 0; i < 5; i++)
            for (int j = 0; j < 7; j++) {
                float sum = 0;
                for (int k = 0; k < 9; k++) sum += a[batch * 45 + i * 9 + k] * b[j * 9 + k];
                cr_assert_float_eq(c[batch * 35 + i * 7 + j], 2 * sum, 1e-3);
            }
    blas->destroy(plan);
    plugin->mem_free(device, da);
    plugin->mem_free(device, db);
    plugin->mem_free(device, dc);
}

Test(opencl_blas, a_word_that_is_no_switch_is_an_error_that_names_it) {
    setenv("DHOW_OPENCL_BLAS", "perhaps", 1);
    if (probe_plugin().state != DHOW_PLUGIN_READY) cr_skip_test("no OpenCL here");
    FAILS(DHOW_INVALID_ARGUMENT, plugin->open(&host, &backend, &err));
    SAYS("'perhaps'");
}
