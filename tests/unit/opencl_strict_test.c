/* SPDX-License-Identifier: Apache-2.0
 *
 * What drivers and libraries refuse that others take: PoCL with NVIDIA's idea of where a box ends,
 * and a CLBlast that multiplies nowhere.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "opencl.h"
#include "tests/plugin_host.h"

extern const dhow_plugin dhow_plugin_v1;

static const dhow_plugin *const plugin = &dhow_plugin_v1;
static dhow_error err = {.struct_size = sizeof(dhow_error)};
static void *backend, *device, *stream;
static dhowi_cl_symbols real;
static dhow_host host;
static int warnings, boxes;

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, err.message)

/* A whole pitch behind the last row, and behind the last plane, lies inside. */
static bool is_inside(cl_mem mem, const size_t *origin, const size_t *region, size_t row,
                      size_t plane) {
    size_t bytes = 0;
    (void)real.GetMemObjectInfo(mem, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    boxes++;
    if (plane == 0) plane = region[1] * row;
    return origin[0] + (origin[1] + region[1]) * row + (region[2] - 1) * plane <= bytes;
}

static cl_int CL_API_CALL write_box(cl_command_queue queue, cl_mem mem, cl_bool blocking,
                                    const size_t *origin, const size_t *host_origin,
                                    const size_t *region, size_t row, size_t plane, size_t host_row,
                                    size_t host_plane, const void *from, cl_uint count,
                                    const cl_event *events, cl_event *event) {
    if (!is_inside(mem, origin, region, row, plane)) return CL_INVALID_VALUE;
    return real.EnqueueWriteBufferRect(queue, mem, blocking, origin, host_origin, region, row,
                                       plane, host_row, host_plane, from, count, events, event);
}

static cl_int CL_API_CALL read_box(cl_command_queue queue, cl_mem mem, cl_bool blocking,
                                   const size_t *origin, const size_t *host_origin,
                                   const size_t *region, size_t row, size_t plane, size_t host_row,
                                   size_t host_plane, void *to, cl_uint count,
                                   const cl_event *events, cl_event *event) {
    if (!is_inside(mem, origin, region, row, plane)) return CL_INVALID_VALUE;
    return real.EnqueueReadBufferRect(queue, mem, blocking, origin, host_origin, region, row, plane,
                                      host_row, host_plane, to, count, events, event);
}

static void count_warning(void *user, int32_t level, const char *message) {
    (void)user;
    if (level == DHOW_LOG_WARN && strstr(message, "CLBlast refuses") != NULL) warnings++;
}

static void set_up(void) {
    dhow_probe answer = {.struct_size = sizeof answer};
    (void)setenv("POCL_DEVICES", "pthread", 1);
    (void)setenv("DHOW_OPENCL_BLAS", "on", 1);
    host = plugin_host;
    host.log = count_warning;
    OK(plugin->probe(&host, &answer, &err));
    if (answer.state != DHOW_PLUGIN_READY) cr_skip_test("no OpenCL here: %s", answer.reason);
    OK(plugin->open(&host, &backend, &err));
    OK(plugin->device_open(backend, 0, &device, &err));
    OK(plugin->stream_create(device, 0, &stream, &err));
    real = dhowi_cl;
    dhowi_cl.EnqueueWriteBufferRect = write_box;
    dhowi_cl.EnqueueReadBufferRect = read_box;
}

static void tear_down(void) {
    if (stream == NULL) return;
    plugin->stream_destroy(stream);
    plugin->device_close(device);
    plugin->close(backend);
}

TestSuite(opencl_strict, .init = set_up, .fini = tear_down, .timeout = 120);

/* Up and down again, in a buffer that ends with the box. */
static void check_box(uint64_t width, uint64_t rows, uint64_t planes, uint64_t pitch,
                      uint64_t plane) {
    enum { MOST = 4096 };
    unsigned char from[MOST], there[MOST], back[MOST];
    const uint64_t bytes = (planes - 1) * plane + (rows - 1) * pitch + width;
    uint64_t handle;
    cr_assert_leq(bytes, MOST);
    for (size_t i = 0; i < MOST; i++) from[i] = (unsigned char)(i * 7 + i / 251);
    memset(back, 0, sizeof back);
    OK(plugin->mem_alloc(device, bytes, &handle, &err));
    const dhow_copy_end on_device = {
        .space = DHOW_SPACE_DEVICE, .handle = handle, .pitch = {pitch, plane}};
    dhow_copy_end on_host = {.space = DHOW_SPACE_HOST,
                             .handle = (uint64_t)(uintptr_t)from,
                             .pitch = {width, rows * width}};
    dhow_copy_rect rect = {.extent = {width, rows, planes}, .src = on_host, .dst = on_device};
    OK(plugin->copy(stream, &rect, &err));
    on_host.handle = (uint64_t)(uintptr_t)back;
    rect.src = on_device;
    rect.dst = on_host;
    OK(plugin->copy(stream, &rect, &err));
    const dhow_copy_rect all = {
        .extent = {bytes, 1, 1},
        .src = {.space = DHOW_SPACE_DEVICE, .handle = handle, .pitch = {bytes, bytes}},
        .dst = {.space = DHOW_SPACE_HOST,
                .handle = (uint64_t)(uintptr_t)there,
                .pitch = {bytes, bytes}}};
    OK(plugin->copy(stream, &all, &err));
    OK(plugin->stream_sync(stream, &err));
    cr_assert_arr_eq(back, from, width * rows * planes);
    for (uint64_t p = 0; p < planes; p++)
        for (uint64_t r = 0; r < rows; r++)
            cr_assert_arr_eq(there + p * plane + r * pitch, from + (p * rows + r) * width, width);
    plugin->mem_free(device, handle);
}

Test(opencl_strict, boxes_that_end_with_their_buffer) {
    check_box(20, 7, 1, 33, 231);
    check_box(20, 7, 3, 33, 330);
    check_box(20, 2, 2, 33, 66);
    cr_assert_geq(boxes, 12, "%d", boxes); /* each begins as one command, and goes on as two */
}

Test(opencl_strict, a_clblast_that_refuses_is_told_once_and_gets_no_plan) {
    const dhow_blas *blas = plugin->get_extension(device, "dhow.blas/1");
    const dhow_blas_desc desc = {.struct_size = sizeof desc,
                                 .dtype_a = DHOW_F32,
                                 .dtype_b = DHOW_F32,
                                 .dtype_c = DHOW_F32,
                                 .compute = DHOW_F32,
                                 .m = 2,
                                 .n = 2,
                                 .k = 2,
                                 .batch = 1,
                                 .lda = 2,
                                 .ldb = 2,
                                 .ldc = 2,
                                 .alpha = 1};
    for (int i = 0; i < 2; i++) {
        uint64_t workspace, packed;
        void *plan;
        cr_assert_eq(blas->plan(device, &desc, &plan, &workspace, &packed, &err), DHOW_UNSUPPORTED);
        cr_assert_not_null(strstr(err.message, "CLBlast refuses"), "%s", err.message);
    }
    cr_assert_eq(warnings, 1);
}
