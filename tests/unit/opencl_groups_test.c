/* SPDX-License-Identifier: Apache-2.0
 *
 * How often a module is built. Devices that take no groups of the size that a kernel was built for:
 * it is built anew for half of them, and computes the same. PoCL plays a GPU, and two of its
 * functions refuse large groups. And which forms of a text a processor gets.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "opencl.h"
#include "tests/plugin_host.h"

extern const dhow_plugin dhow_plugin_v1;

enum { ROWS = 7, COLS = 1000 };

static const dhow_plugin *const plugin = &dhow_plugin_v1;
static dhow_error err = {.struct_size = sizeof(dhow_error)};
static void *backend, *device, *stream;
static char *header;
static dhowi_cl_symbols real;
static size_t most_to_build = 256, most_to_launch = 256;
static int builds, launches;
static uint32_t module_flags; /* DHOW_MODULE_... */

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, err.message)

static cl_int CL_API_CALL build(cl_program program, cl_uint count, const cl_device_id *ids,
                                const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                                void *user) {
    const char *size = strstr(options, "-DK_WG=");
    builds++;
    if (size != NULL && (size_t)atoi(size + 7) > most_to_build) return CL_OUT_OF_RESOURCES;
    return real.BuildProgram(program, count, ids, options, notify, user);
}

static cl_int CL_API_CALL enqueue(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                  const size_t *offset, const size_t *global, const size_t *local,
                                  cl_uint count, const cl_event *events, cl_event *event) {
    launches++;
    if (local[0] > most_to_launch) return CL_INVALID_WORK_GROUP_SIZE;
    return real.EnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, count,
                                     events, event);
}

static void set_up(void) {
    dhow_probe answer = {.struct_size = sizeof answer};
    (void)setenv("POCL_DEVICES", "pthread", 1);
    OK(plugin->probe(&plugin_host, &answer, &err));
    if (answer.state != DHOW_PLUGIN_READY) cr_skip_test("no OpenCL here: %s", answer.reason);
    OK(plugin->open(&plugin_host, &backend, &err));
    OK(plugin->device_open(backend, 0, &device, &err));
    OK(plugin->stream_create(device, 0, &stream, &err));
    real = dhowi_cl;
    dhowi_cl.BuildProgram = build;
    dhowi_cl.EnqueueNDRangeKernel = enqueue;
    ((dhowi_cl_device *)device)->is_cpu = false;
    ((dhowi_cl_device *)device)->group_items = 256;
    FILE *file = fopen(DHOW_TEST_SOURCE_DIR "/include/dhow/kernel/k.h", "rb");
    cr_assert_not_null(file);
    header = calloc(1, 1 << 20);
    cr_assert_gt(fread(header, 1, (1 << 20) - 1, file), 0);
    (void)fclose(file);
}

static void tear_down(void) {
    if (stream == NULL) return;
    plugin->stream_destroy(stream);
    plugin->device_close(device);
    plugin->close(backend);
    free(header);
}

TestSuite(opencl_groups, .init = set_up, .fini = tear_down, .timeout = 120);

static int32_t try_build(void **module, void **kernel) {
    static const dhow_kernel_param params[] = {{DHOW_PARAM_IN, DHOW_F32, "x"},
                                               {DHOW_PARAM_OUT, DHOW_F32, "y"},
                                               {DHOW_PARAM_VALUE, DHOW_I64, "rows"},
                                               {DHOW_PARAM_VALUE, DHOW_I64, "cols"}};
    static const dhow_kernel_decl decl = {
        "sums", "(IN(f32,x), OUT(f32,y), VAL(i64,rows), VAL(i64,cols))", params, 4, 0};
    static const char text[] =
        "KERNEL(sums, (IN(f32,x), OUT(f32,y), VAL(i64,rows), VAL(i64,cols)))\n"
        "{\n"
        "    REDUCE_SPACE(f32);\n"
        "    GROUP_FOR(r, rows) {\n"
        "        GLOBAL const f32 *xr = x + r*cols;\n"
        "        REDUCE(SUM, f32, s, j, cols, xr[j]);\n"
        "        ONCE y[r] = s;\n"
        "    }\n"
        "}\n";
    const dhow_module_desc desc = {.struct_size = sizeof desc,
                                   .format = DHOW_MODULE_PORTABLE,
                                   .name = "sums.k",
                                   .text = text,
                                   .text_bytes = sizeof text - 1,
                                   .header = header,
                                   .options = "",
                                   .kernels = &decl,
                                   .kernel_count = 1,
                                   .index_bits = 32,
                                   .flags = module_flags};
    const int32_t status = plugin->module_build(device, &desc, module, &err);
    return status == DHOW_OK ? plugin->module_kernel(*module, "sums", kernel, &err) : status;
}

static dhow_arg buffer(uint64_t handle, uint64_t offset, uint32_t access) {
    return (dhow_arg){
        .kind = DHOW_ARG_BUFFER, .bytes = access, .u.buffer = {.handle = handle, .offset = offset}};
}

static void move(dhow_copy_end dst, dhow_copy_end src, uint64_t bytes) {
    const dhow_copy_rect rect = {.extent = {bytes, 1, 1}, .src = src, .dst = dst};
    OK(plugin->copy(stream, &rect, &err));
    OK(plugin->stream_sync(stream, &err));
}

/* Sums of rows, with y at its buffer's begin and behind it. */
static int32_t sum_rows(void *kernel, uint64_t offset) {
    static float x[ROWS * COLS];
    float y[ROWS];
    uint64_t dx = 0, dy = 0;
    for (int i = 0; i < ROWS * COLS; i++) x[i] = (float)(i % 8);
    OK(plugin->mem_alloc(device, sizeof x, &dx, &err));
    OK(plugin->mem_alloc(device, sizeof y + offset, &dy, &err));
    const dhow_copy_end at_x = {.handle = dx}, at_y = {.handle = dy, .offset = offset};
    move(at_x, (dhow_copy_end){.space = DHOW_SPACE_HOST, .handle = (uint64_t)(uintptr_t)x},
         sizeof x);
    const dhow_arg args[] = {buffer(dx, 0, DHOW_ACCESS_READ),
                             buffer(dy, offset, DHOW_ACCESS_WRITE),
                             {.kind = DHOW_ARG_VALUE, .bytes = 8, .u.value = ROWS},
                             {.kind = DHOW_ARG_VALUE, .bytes = 8, .u.value = COLS}};
    const dhow_geometry geometry = {.work = ROWS * COLS};
    const int32_t status = plugin->launch(stream, kernel, &geometry, args, 4, &err);
    if (status == DHOW_OK) {
        move((dhow_copy_end){.space = DHOW_SPACE_HOST, .handle = (uint64_t)(uintptr_t)y}, at_y,
             sizeof y);
        for (int i = 0; i < ROWS; i++) cr_assert_eq(y[i], 3500.0f, "row %d: %g", i, (double)y[i]);
    }
    plugin->mem_free(device, dx);
    plugin->mem_free(device, dy);
    return status;
}

Test(opencl_groups, a_build_that_lacks_resources_is_tried_for_half_the_items) {
    void *module = NULL, *kernel = NULL;
    most_to_build = most_to_launch = 64;
    OK(try_build(&module, &kernel));
    cr_assert_eq(builds, 3); /* 256, 128, 64 */
    OK(sum_rows(kernel, 0));
    OK(sum_rows(kernel, 16)); /* the other form begins there */
    cr_assert_eq(builds, 4);
    plugin->module_free(module);
}

Test(opencl_groups, a_launch_that_lacks_resources_is_tried_for_half_the_items) {
    void *module = NULL, *kernel = NULL;
    OK(try_build(&module, &kernel));
    OK(sum_rows(kernel, 0));
    cr_assert_eq(launches, 1);
    most_to_launch = 128;
    OK(sum_rows(kernel, 16));
    OK(sum_rows(kernel, 0));
    most_to_launch = 32;
    OK(sum_rows(kernel, 0));
    plugin->module_free(module);
}

Test(opencl_groups, one_that_fails_at_every_size_fails_with_the_runtimes_reason) {
    void *module = NULL, *kernel = NULL;
    most_to_build = 1;
    cr_assert_eq(try_build(&module, &kernel), DHOW_OUT_OF_MEMORY);
    cr_assert_not_null(strstr(err.message, "CL_OUT_OF_RESOURCES"), "%s", err.message);
    most_to_build = 256;
    OK(try_build(&module, &kernel));
    most_to_launch = 1;
    cr_assert_neq(sum_rows(kernel, 0), DHOW_OK);
    cr_assert_not_null(strstr(err.message, "CL_INVALID_WORK_GROUP_SIZE"), "%s", err.message);
    plugin->module_free(module);
}

Test(opencl_groups, on_a_processor_texts_of_dhow_are_built_once_and_a_programs_for_parts_as_well) {
    void *module = NULL, *kernel = NULL;
    ((dhowi_cl_device *)device)->is_cpu = true;
    module_flags = DHOW_MODULE_BUILTIN;
    OK(try_build(&module, &kernel));
    OK(sum_rows(kernel, 0));
    OK(sum_rows(kernel, 16));
    cr_assert_eq(builds, 1);
    plugin->module_free(module);
    module_flags = 0; /* its launches with whole tensors have an argument less */
    OK(try_build(&module, &kernel));
    OK(sum_rows(kernel, 0));
    cr_assert_eq(builds, 2);
    OK(sum_rows(kernel, 16));
    cr_assert_eq(builds, 3);
    plugin->module_free(module);
}
