/* SPDX-License-Identifier: Apache-2.0
 *
 * A program's own OpenCL beside dhow's: buffers, queues and events in both directions, on PoCL.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"
#include "dhow/dlpack.h"
#include "symbols.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())
#define CL(call) cr_assert_eq((call), CL_SUCCESS, "%s", #call)
#define FAILS(status, call) \
    cr_assert_eq((call), (status), "%s: %s, not %s", #call, dhow_last_error(), #status)
#define SAYS(wanted)                                                                  \
    cr_assert_not_null(strstr(dhow_last_error(), (wanted)), "'%s' does not say '%s'", \
                       dhow_last_error(), (wanted))

enum { COUNT = 1 << 16, BYTES = COUNT * 4 };

static dhow_context *g_context;
static dhow_device *g_device;
static cl_context g_cl;
static cl_device_id g_id;
static float g_seen[COUNT];

static uint64_t number(const void *pointer) { return (uint64_t)(uintptr_t)pointer; }

static void setup(void) {
    char why[256];
    dhow_stream *stream;
    uint64_t native;
    cr_assert_eq(dhowi_cl_load(DHOWI_CL_SONAME, why, sizeof why), DHOWI_CL_LOADED, "%s", why);
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, "opencl:0", &g_device));
    OK(dhow_stream_default(g_device, &stream));
    OK(dhow_stream_native(stream, &native));
    cl_command_queue queue = (cl_command_queue)(uintptr_t)native;
    CL(dhowi_cl.GetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof g_cl, &g_cl, NULL));
    CL(dhowi_cl.GetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof g_id, &g_id, NULL));
}

static void teardown(void) { dhow_context_release(g_context); }

TestSuite(opencl_interop, .init = setup, .fini = teardown, .timeout = 120);

static cl_command_queue new_queue(cl_command_queue_properties properties) {
    cl_int code;
    cl_command_queue queue = dhowi_cl.CreateCommandQueue(g_cl, g_id, properties, &code);
    CL(code);
    return queue;
}

static cl_mem new_buffer(void) {
    cl_int code;
    cl_mem mem = dhowi_cl.CreateBuffer(g_cl, CL_MEM_READ_WRITE, BYTES, NULL, &code);
    CL(code);
    return mem;
}

/* A kernel of the program's own that takes its time: y[i] = value, after many steps that change
 * nothing. */
static void slow_fill(cl_command_queue queue, cl_mem mem, float value) {
    static const char text[] =
        "__kernel void slow(__global float *y, float value) {"
        "  float x = value; for (int k = 0; k < 8000; k++) x = x * 0.5f + value * 0.5f;"
        "  y[get_global_id(0)] = x; }";
    const char *texts[] = {text};
    const size_t items = COUNT;
    cl_int code;
    cl_program program = dhowi_cl.CreateProgramWithSource(g_cl, 1, texts, NULL, &code);
    CL(code);
    CL(dhowi_cl.BuildProgram(program, 1, &g_id, "", NULL, NULL));
    cl_kernel kernel = dhowi_cl.CreateKernel(program, "slow", &code);
    CL(code);
    CL(dhowi_cl.SetKernelArg(kernel, 0, sizeof mem, &mem));
    CL(dhowi_cl.SetKernelArg(kernel, 1, sizeof value, &value));
    CL(dhowi_cl.EnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL));
    CL(dhowi_cl.Flush(queue));
    CL(dhowi_cl.ReleaseKernel(kernel));
    CL(dhowi_cl.ReleaseProgram(program));
}

static void see(cl_command_queue queue, cl_mem mem, size_t offset, size_t bytes) {
    memset(g_seen, 0, sizeof g_seen);
    CL(dhowi_cl.EnqueueReadBuffer(queue, mem, CL_TRUE, offset, bytes, g_seen, 0, NULL, NULL));
}

static void expect_all(float value) {
    for (int i = 0; i < COUNT; i++) cr_assert_eq(g_seen[i], value, "%d: %g", i, (double)g_seen[i]);
}

static void count_release(void *user) { ++*(int *)user; }

/* The handle had been the address of a struct of the plugin's. */
Test(opencl_interop, the_native_handle_of_a_tensor_is_its_cl_mem) {
    dhow_tensor *t, *part;
    uint64_t handle, offset;
    cl_context context = NULL;
    cl_command_queue queue = new_queue(0);
    OK(dhow_tensor_full(g_device, DHOW_F32, DHOW_SHAPE(COUNT), 3, &t));
    OK(dhow_tensor_slice(t, 0, 16, COUNT, 1, &part));
    OK(dhow_fill(NULL, part, 4));
    OK(dhow_tensor_native(part, &handle, &offset));
    cl_mem mem = (cl_mem)(uintptr_t)handle;
    CL(dhowi_cl.GetMemObjectInfo(mem, CL_MEM_CONTEXT, sizeof context, &context, NULL));
    cr_assert_eq(context, g_cl);
    cr_assert_eq(offset, 64);
    see(queue, mem, 0, 128);
    cr_assert(g_seen[15] == 3 && g_seen[16] == 4);
    OK(dhow_tensor_native_done(part, NULL));
    dhow_tensor_release(part);
    dhow_tensor_release(t);
    CL(dhowi_cl.ReleaseCommandQueue(queue));
}

Test(opencl_interop, the_programs_kernel_and_dhows_work_on_one_queue) {
    dhow_stream *wrapped, *other;
    dhow_tensor *t, *y;
    int released = 0;
    uint64_t handle, offset;
    cl_command_queue mine = new_queue(0);
    cl_mem mem = new_buffer();
    OK(dhow_stream_wrap(g_device, number(mine), &wrapped));
    OK(dhow_stream_create(g_device, &other));
    OK(dhow_tensor_wrap_device(g_device, DHOW_F32, DHOW_SHAPE(COUNT), NULL, number(mem), 0, BYTES,
                               count_release, &released, &t));
    OK(dhow_tensor_create(g_device, DHOW_F32, DHOW_SHAPE(COUNT), &y));
    slow_fill(mine, mem, 2);
    OK(dhow_add(wrapped, t, t, t)); /* 4 */
    OK(dhow_add(other, t, t, y));   /* 8 */
    OK(dhow_add(wrapped, y, t, t)); /* 12 */
    see(mine, mem, 0, BYTES);
    expect_all(12);
    /* Another stream learns of the program's work by native_done. */
    OK(dhow_tensor_native(t, &handle, &offset));
    cr_assert_eq(handle, number(mem));
    slow_fill(mine, mem, 5);
    OK(dhow_tensor_native_done(t, wrapped));
    OK(dhow_add(other, t, t, y));
    OK(dhow_tensor_read(y, g_seen, sizeof g_seen));
    expect_all(10);
    dhow_tensor_release(y);
    dhow_tensor_release(t);
    cr_assert_eq(released, 1);
    dhow_stream_release(other);
    dhow_stream_release(wrapped);
    CL(dhowi_cl.Finish(mine));
    CL(dhowi_cl.ReleaseMemObject(mem));
    CL(dhowi_cl.ReleaseCommandQueue(mine));
}

Test(opencl_interop, the_programs_own_work_is_waited_for) {
    dhow_stream *wrapped;
    cl_command_queue mine = new_queue(0);
    cl_mem mem = new_buffer();
    OK(dhow_stream_wrap(g_device, number(mine), &wrapped));
    slow_fill(mine, mem, 1);
    FAILS(DHOW_NOT_READY, dhow_stream_query(wrapped));
    slow_fill(mine, mem, 1);
    OK(dhow_stream_sync(wrapped));
    dhow_status status = DHOW_NOT_READY;
    while (status == DHOW_NOT_READY) status = dhow_stream_query(wrapped);
    OK(status);
    slow_fill(mine, mem, 2);
    dhow_stream_release(wrapped);
    cl_event marker;
    CL(dhowi_cl.EnqueueMarkerWithWaitList(mine, 0, NULL, &marker));
    CL(dhowi_cl.ReleaseEvent(marker));
    see(mine, mem, 0, BYTES);
    expect_all(2);
    CL(dhowi_cl.ReleaseMemObject(mem));
    CL(dhowi_cl.ReleaseCommandQueue(mine));
}

Test(opencl_interop, events_are_waited_for_in_both_directions) {
    dhow_stream *stream;
    dhow_event *event;
    dhow_tensor *t;
    uint64_t native;
    cl_event theirs;
    cl_command_queue mine = new_queue(0);
    cl_mem mem = new_buffer();
    OK(dhow_stream_create(g_device, &stream));
    OK(dhow_event_create(g_device, 0, &event));
    FAILS(DHOW_INVALID_ARGUMENT, dhow_event_native(event, &native));
    SAYS("never recorded");
    OK(dhow_tensor_wrap_device(g_device, DHOW_F32, DHOW_SHAPE(COUNT), NULL, number(mem), 0, BYTES,
                               NULL, NULL, &t));
    slow_fill(mine, mem, 3);
    CL(dhowi_cl.EnqueueMarkerWithWaitList(mine, 0, NULL, &theirs));
    CL(dhowi_cl.Flush(mine));
    OK(dhow_stream_wait_native(stream, number(theirs)));
    CL(dhowi_cl.ReleaseEvent(theirs));
    OK(dhow_add(stream, t, t, t)); /* 6 */
    OK(dhow_event_record(event, stream));
    OK(dhow_event_native(event, &native));
    cl_event reached = (cl_event)(uintptr_t)native;
    CL(dhowi_cl.EnqueueBarrierWithWaitList(mine, 1, &reached, NULL));
    see(mine, mem, 0, BYTES);
    expect_all(6);
    dhow_tensor_release(t);
    dhow_event_release(event);
    dhow_stream_release(stream);
    CL(dhowi_cl.ReleaseMemObject(mem));
    CL(dhowi_cl.ReleaseCommandQueue(mine));
}

Test(opencl_interop, what_cannot_be_used_is_refused_with_the_remedy) {
    dhow_stream *stream;
    dhow_tensor *t;
    dhow_event *event;
    cl_int code;
    int released = 0;
    cl_context other = dhowi_cl.CreateContext(NULL, 1, &g_id, NULL, NULL, &code);
    CL(code);
    cl_command_queue theirs = dhowi_cl.CreateCommandQueue(other, g_id, 0, &code);
    CL(code);
    cl_mem mem = dhowi_cl.CreateBuffer(other, CL_MEM_READ_WRITE, BYTES, NULL, &code);
    CL(code);
    FAILS(DHOW_INVALID_ARGUMENT, dhow_stream_wrap(g_device, number(theirs), &stream));
    SAYS("another cl_context; make it in dhow's");
    cr_assert_null(stream);
    FAILS(DHOW_INVALID_ARGUMENT,
          dhow_tensor_wrap_device(g_device, DHOW_F32, DHOW_SHAPE(COUNT), NULL, number(mem), 0,
                                  BYTES, count_release, &released, &t));
    SAYS("another cl_context");
    CL(dhowi_cl.ReleaseMemObject(mem));
    CL(dhowi_cl.ReleaseCommandQueue(theirs));
    CL(dhowi_cl.ReleaseContext(other));
    cl_command_queue mine =
        dhowi_cl.CreateCommandQueue(g_cl, g_id, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
    if (code == CL_SUCCESS) {
        FAILS(DHOW_UNSUPPORTED, dhow_stream_wrap(g_device, number(mine), &stream));
        SAYS("out of order");
        CL(dhowi_cl.ReleaseCommandQueue(mine));
    }
    mem = new_buffer();
    FAILS(DHOW_INVALID_ARGUMENT,
          dhow_tensor_wrap_device(g_device, DHOW_F32, DHOW_SHAPE(2 * COUNT), NULL, number(mem), 0,
                                  2 * BYTES, count_release, &released, &t));
    SAYS("524288 are wanted");
    cr_assert_eq(released, 0);
    CL(dhowi_cl.ReleaseMemObject(mem));
    /* A queue of the program's is not changed for one that takes times. */
    mine = new_queue(0);
    OK(dhow_stream_wrap(g_device, number(mine), &stream));
    OK(dhow_event_create(g_device, 1, &event));
    FAILS(DHOW_UNSUPPORTED, dhow_event_record(event, stream));
    SAYS("CL_QUEUE_PROFILING_ENABLE");
    dhow_stream_release(stream);
    CL(dhowi_cl.ReleaseCommandQueue(mine));
    mine = new_queue(CL_QUEUE_PROFILING_ENABLE);
    OK(dhow_stream_wrap(g_device, number(mine), &stream));
    OK(dhow_event_record(event, stream));
    dhow_event_release(event);
    dhow_stream_release(stream);
    CL(dhowi_cl.ReleaseCommandQueue(mine));
}

/* DLPack of OpenCL: the buffer's handle, and where the first element lies. */
Test(opencl_interop, dlpack_hands_a_cl_mem_over_and_takes_it_back) {
    DLManagedTensorVersioned *m;
    dhow_tensor *t, *part, *back;
    cl_command_queue mine = new_queue(0);
    OK(dhow_tensor_full(g_device, DHOW_F32, DHOW_SHAPE(COUNT), 1, &t));
    OK(dhow_tensor_slice(t, 0, 3, COUNT, 1, &part));
    OK(dhow_fill(NULL, part, 2));
    OK(dhow_tensor_to_dlpack(part, mine, &m)); /* the queue waits for the fill */
    cr_assert_eq((int)m->dl_tensor.device.device_type, kDLOpenCL);
    cr_assert_eq(m->dl_tensor.byte_offset, 12);
    see(mine, m->dl_tensor.data, 0, BYTES);
    cr_assert(g_seen[2] == 1 && g_seen[3] == 2 && g_seen[COUNT - 1] == 2);
    OK(dhow_tensor_from_dlpack(g_context, m, &back));
    OK(dhow_add(NULL, back, back, back));
    OK(dhow_tensor_read(t, g_seen, sizeof g_seen));
    dhow_tensor_release(back);
    OK(dhow_tensor_read(t, g_seen, sizeof g_seen));
    cr_assert(g_seen[2] == 1 && g_seen[3] == 4 && g_seen[COUNT - 1] == 4);
    dhow_tensor_release(part);
    dhow_tensor_release(t);
    CL(dhowi_cl.ReleaseCommandQueue(mine));
}
