/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA's own memory, streams and events in dhow's hands, and dhow's in CUDA's: DLPack, wrapped
 * memory and streams, events both ways. Every queue is slow here, so that an order that is missing
 * shows as a wrong value.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"
#include "dhow/dlpack.h"
#include "fakecuda.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())
#define CUDA(call) cr_assert_eq((call), cudaSuccess, "%s", #call)
#define FAILS(status, call) \
    cr_assert_eq((call), (status), "%s: %s, not %s", #call, dhow_last_error(), #status)
#define SAYS(wanted)                                                                  \
    cr_assert_not_null(strstr(dhow_last_error(), (wanted)), "'%s' does not say '%s'", \
                       dhow_last_error(), (wanted))

enum { COUNT = 1024, BYTES = COUNT * 4 };

static dhow_context *g_context;
static dhow_device *g_cuda, *g_other;
static float g_seen[COUNT];

static void setup(void) {
    cr_assert(fakecuda_reset("legacy=1,devices=2,delay_us=10000", NULL, NULL, 0));
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, "cuda:0", &g_cuda));
    OK(dhow_device_get(g_context, "cuda:1", &g_other));
    OK(dhow_device_open(g_cuda));
    CUDA(cudaSetDevice(0));
}

static void teardown(void) {
    dhow_context_release(g_context);
    cr_assert_eq(fakecuda_complaints(), 0, "%s", fakecuda_first_complaint());
    fakecuda_objects left;
    (void)fakecuda_live_objects(&left);
    cr_assert_eq(left.device_blocks + left.host_blocks + left.streams + left.events, 0,
                 "objects of CUDA are left");
}

TestSuite(interop, .init = setup, .fini = teardown, .timeout = 60);

static uint64_t number(const void *pointer) { return (uint64_t)(uintptr_t)pointer; }
static void *pointer(uint64_t number) { return (void *)(uintptr_t)number; }

static cudaStream_t new_stream(void) {
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static void *new_memory(float first) {
    void *memory;
    float values[COUNT];
    cudaStream_t stream = new_stream();
    for (int i = 0; i < COUNT; i++) values[i] = first + (float)i;
    CUDA(cudaMalloc(&memory, BYTES));
    CUDA(cudaMemcpyAsync(memory, values, BYTES, cudaMemcpyHostToDevice, stream));
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaStreamDestroy(stream));
    return memory;
}

static uint64_t default_native(dhow_device *device) {
    dhow_stream *stream;
    uint64_t native;
    OK(dhow_stream_default(device, &stream));
    OK(dhow_stream_native(stream, &native));
    return native;
}

/* Values read on a stream of the program's own. */
static void see(const void *memory, cudaStream_t stream) {
    memset(g_seen, 0, sizeof g_seen);
    CUDA(cudaMemcpyAsync(g_seen, memory, BYTES, cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
}

static void expect_all(float value) {
    for (int i = 0; i < COUNT; i++)
        cr_assert_eq(g_seen[i], value, "%d: %g", i, (double)g_seen[i]);
}

/* ---- DLPack ---- */

static void expect_seen_on(dhow_tensor *t, void *stream, int sets) {
    DLManagedTensorVersioned *m;
    OK(dhow_fill(NULL, t, sets));
    OK(dhow_tensor_to_dlpack(t, stream, &m));
    see(m->dl_tensor.data, stream);
    expect_all((float)sets);
    m->deleter(m);
}

/* Nobody waits on the host: the consumer's stream does, on the device. */
Test(interop, the_stream_of_a_consumer_waits_for_the_tensor) {
    DLManagedTensorVersioned *m;
    dhow_tensor *t;
    cudaStream_t stream = new_stream();
    OK(dhow_tensor_create(g_cuda, DHOW_F32, DHOW_SHAPE(COUNT), &t));
    const uint64_t syncs = fakecuda_call_count("cudaStreamSynchronize");
    OK(dhow_fill(NULL, t, 3));
    OK(dhow_tensor_to_dlpack(t, stream, &m));
    cr_assert_eq(fakecuda_call_count("cudaStreamSynchronize"), syncs, "the host has waited");
    cr_assert_eq(fakecuda_call_count("cudaStreamWaitEvent"), 1);
    cr_assert_eq((int)m->dl_tensor.device.device_type, kDLCUDA);
    cr_assert_eq(m->dl_tensor.device.device_id, 0);
    cr_assert_eq(m->dl_tensor.byte_offset, 0);
    see(m->dl_tensor.data, stream);
    expect_all(3);
    m->deleter(m);
    /* The numbers of the array API's protocol: the legacy and the thread's default stream. */
    expect_seen_on(t, pointer(1), 4);
    expect_seen_on(t, pointer(2), 5);
    expect_seen_on(t, stream, 6);
    /* And -1: nobody waits. */
    const uint64_t waits = fakecuda_call_count("cudaStreamWaitEvent");
    OK(dhow_fill(NULL, t, 7));
    OK(dhow_tensor_to_dlpack(t, DHOW_DLPACK_NO_SYNC, &m));
    cr_assert_eq(fakecuda_call_count("cudaStreamWaitEvent"), waits);
    m->deleter(m);
    /* NULL: the call has waited, and any stream will do. */
    OK(dhow_fill(NULL, t, 8));
    OK(dhow_tensor_to_dlpack(t, NULL, &m));
    see(m->dl_tensor.data, stream);
    expect_all(8);
    m->deleter(m);
    dhow_tensor_release(t);
    CUDA(cudaStreamDestroy(stream));
}

Test(interop, a_stream_of_another_device_is_refused_as_consumer) {
    DLManagedTensorVersioned *m;
    dhow_tensor *t;
    dhow_stream *wrapped;
    OK(dhow_device_open(g_other));
    OK(dhow_tensor_full(g_cuda, DHOW_F32, DHOW_SHAPE(COUNT), 1, &t));
    CUDA(cudaSetDevice(1));
    cudaStream_t stream = new_stream();
    CUDA(cudaSetDevice(0));
    FAILS(DHOW_INVALID_ARGUMENT, dhow_tensor_to_dlpack(t, stream, &m));
    SAYS("another device");
    cr_assert_null(m);
    FAILS(DHOW_INVALID_ARGUMENT, dhow_stream_wrap(g_cuda, number(stream), &wrapped));
    SAYS("another device");
    OK(dhow_stream_wrap(g_other, number(stream), &wrapped));
    dhow_stream_release(wrapped);
    dhow_tensor_release(t);
    CUDA(cudaStreamDestroy(stream));
}

typedef struct producer {
    DLManagedTensorVersioned managed;
    int64_t shape[1];
    int deleted;
} producer;

static void delete(DLManagedTensorVersioned *m) { ((producer *)m->manager_ctx)->deleted++; }

static void produce(producer *p, DLDeviceType type, int32_t id, void *data, int64_t count) {
    *p = (producer){.shape = {count}};
    p->managed = (DLManagedTensorVersioned){.version = {1, 1},
                                            .manager_ctx = p,
                                            .deleter = delete,
                                            .dl_tensor = {.data = data,
                                                          .device = {type, id},
                                                          .ndim = 1,
                                                          .dtype = {kDLFloat, 32, 1},
                                                          .shape = p->shape}};
}

/* The producer makes dhow's default stream wait, as the protocol has it; whatever stream dhow then
 * uses comes after. */
Test(interop, an_import_comes_after_what_the_default_stream_waits_for) {
    producer p;
    dhow_tensor *t, *y;
    dhow_stream *other;
    float got[COUNT];
    void *memory = new_memory(0);
    cudaStream_t mine = new_stream(), theirs = pointer(default_native(g_cuda));
    cudaEvent_t event;
    CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CUDA(cudaMemsetAsync(memory, 0, BYTES, mine));
    CUDA(cudaEventRecord(event, mine));
    CUDA(cudaStreamWaitEvent(theirs, event, 0));
    produce(&p, kDLCUDA, 0, memory, COUNT);
    OK(dhow_tensor_from_dlpack(g_context, &p.managed, &t));
    OK(dhow_stream_create(g_cuda, &other));
    OK(dhow_tensor_create(g_cuda, DHOW_F32, DHOW_SHAPE(COUNT), &y));
    OK(dhow_fill(other, y, 9));
    OK(dhow_add(other, t, y, y));
    OK(dhow_tensor_read(y, got, sizeof got));
    for (int i = 0; i < COUNT; i++) cr_assert_eq(got[i], 9, "%d: %g", i, (double)got[i]);
    dhow_tensor_release(y);
    dhow_tensor_release(t);
    cr_assert_eq(p.deleted, 1);
    dhow_stream_release(other);
    CUDA(cudaEventDestroy(event));
    CUDA(cudaStreamDestroy(mine));
    CUDA(cudaFree(memory));
}

Test(interop, the_deleter_comes_when_work_with_the_memory_has_ended) {
    producer p;
    dhow_tensor *t;
    void *memory = new_memory(0);
    cudaStream_t stream = new_stream();
    produce(&p, kDLCUDA, 0, memory, COUNT);
    OK(dhow_tensor_from_dlpack(g_context, &p.managed, &t));
    OK(dhow_fill(NULL, t, 11));
    dhow_tensor_release(t);
    cr_assert_eq(p.deleted, 1);
    see(memory, stream); /* nothing is awaited: the fill is done */
    expect_all(11);
    CUDA(cudaStreamDestroy(stream));
    CUDA(cudaFree(memory));
}

/* Kernels tell alignment by offsets, so an address amid a block is one with an offset. */
Test(interop, memory_amid_a_block_is_computed_with_right) {
    void *memory = new_memory(0);
    for (int skip = 0; skip < 9; skip++) {
        producer p;
        dhow_tensor *t, *y;
        float got[COUNT];
        produce(&p, kDLCUDA, 0, (float *)memory + skip, COUNT - 16);
        OK(dhow_tensor_from_dlpack(g_context, &p.managed, &t));
        OK(dhow_tensor_create(g_cuda, DHOW_F32, DHOW_SHAPE(COUNT - 16), &y));
        OK(dhow_add(NULL, t, t, y));
        OK(dhow_tensor_read(y, got, (COUNT - 16) * sizeof *got));
        for (int i = 0; i < COUNT - 16; i++) cr_assert_eq(got[i], 2 * (float)(i + skip));
        dhow_tensor_release(y);
        dhow_tensor_release(t);
    }
    CUDA(cudaFree(memory));
}

Test(interop, memory_of_others_is_refused_and_stays_theirs) {
    producer p;
    dhow_tensor *t;
    float local[4] = {0};
    void *memory = new_memory(0), *pinned;
    CUDA(cudaHostAlloc(&pinned, BYTES, cudaHostAllocDefault));
    produce(&p, kDLCUDA, 1, memory, COUNT);
    FAILS(DHOW_INVALID_ARGUMENT, dhow_tensor_from_dlpack(g_context, &p.managed, &t));
    SAYS("memory of cuda:0");
    produce(&p, kDLCUDA, 0, local, 4);
    FAILS(DHOW_INVALID_ARGUMENT, dhow_tensor_from_dlpack(g_context, &p.managed, &t));
    SAYS("memory CUDA does not know");
    produce(&p, kDLCUDA, 0, pinned, COUNT);
    FAILS(DHOW_INVALID_ARGUMENT, dhow_tensor_from_dlpack(g_context, &p.managed, &t));
    SAYS("pinned host memory");
    produce(&p, kDLCUDA, 0, memory, COUNT + 1);
    FAILS(DHOW_INVALID_ARGUMENT, dhow_tensor_from_dlpack(g_context, &p.managed, &t));
    SAYS("4100 are wanted");
    produce(&p, kDLCUDA, 7, memory, COUNT);
    FAILS(DHOW_NOT_FOUND, dhow_tensor_from_dlpack(g_context, &p.managed, &t));
    produce(&p, kDLCUDAManaged, 0, memory, COUNT);
    FAILS(DHOW_NOT_FOUND, dhow_tensor_from_dlpack(g_context, &p.managed, &t));
    SAYS("CUDA managed");
    cr_assert_eq(p.deleted, 0);
    CUDA(cudaFreeHost(pinned));
    CUDA(cudaFree(memory));
}

Test(interop, pinned_host_memory_goes_out_and_comes_in_as_such) {
    DLManagedTensorVersioned *m;
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    dhow_tensor *t, *back, *there;
    OK(dhow_tensor_create_pinned(g_other, DHOW_F32, DHOW_SHAPE(COUNT), &t));
    OK(dhow_fill(NULL, t, 4));
    OK(dhow_tensor_to_dlpack(t, NULL, &m));
    cr_assert_eq((int)m->dl_tensor.device.device_type, kDLCUDAHost);
    cr_assert_eq(m->dl_tensor.device.device_id, 1);
    cr_assert_eq(((float *)m->dl_tensor.data)[COUNT - 1], 4);
    OK(dhow_tensor_from_dlpack(g_context, m, &back));
    OK(dhow_tensor_get_info(back, &info));
    cr_assert_eq(info.pinned, 1);
    cr_assert_str_eq(dhow_device_name(info.device), "cpu:0");
    OK(dhow_tensor_to(back, g_cuda, &there));
    OK(dhow_tensor_read(there, g_seen, sizeof g_seen));
    expect_all(4);
    dhow_tensor_release(there);
    dhow_tensor_release(back);
    dhow_tensor_release(t);
}

Test(interop, ten_thousand_round_trips_on_the_device_copy_nothing) {
    dhow_memory_stats before = DHOW_INIT(dhow_memory_stats), after = before;
    dhow_tensor *t, *back;
    OK(dhow_tensor_full(g_cuda, DHOW_F32, DHOW_SHAPE(COUNT), 1, &t));
    OK(dhow_device_sync(g_cuda));
    OK(dhow_memory_get_stats(g_cuda, &before));
    const uint64_t copies = fakecuda_call_count("cudaMemcpyAsync");
    for (int i = 0; i < 10000; i++) {
        DLManagedTensorVersioned *m;
        uint64_t handle, offset;
        OK(dhow_tensor_to_dlpack(t, DHOW_DLPACK_NO_SYNC, &m));
        void *data = m->dl_tensor.data;
        OK(dhow_tensor_from_dlpack(g_context, m, &back));
        OK(dhow_tensor_native(back, &handle, &offset));
        cr_assert_eq(handle + offset, number(data));
        OK(dhow_tensor_native_done(back, NULL));
        dhow_tensor_release(back);
    }
    OK(dhow_memory_get_stats(g_cuda, &after));
    cr_assert_eq(after.allocations, before.allocations);
    cr_assert_eq(fakecuda_call_count("cudaMemcpyAsync"), copies);
    dhow_tensor_release(t);
}

/* ---- wrapped memory and streams ---- */

static void count_release(void *user) { ++*(int *)user; }

Test(interop, wrapped_memory_lives_by_its_own_rules) {
    static const int64_t shape[] = {2, 3}, strides[] = {8, 2}, bad[] = {2, 2};
    dhow_tensor *t;
    float got[6];
    int released = 0;
    void *memory = new_memory(0);
    OK(dhow_tensor_wrap_device(g_cuda, DHOW_F32, 2, shape, strides, number(memory), 16, BYTES,
                               count_release, &released, &t));
    OK(dhow_tensor_read(t, got, sizeof got));
    for (int i = 0; i < 6; i++) cr_assert_eq(got[i], (float)(4 + 8 * (i / 3) + 2 * (i % 3)));
    dhow_tensor_release(t);
    cr_assert_eq(released, 1);
    FAILS(DHOW_INVALID_ARGUMENT,
          dhow_tensor_wrap_device(g_cuda, DHOW_F32, 2, shape, bad, number(memory), 0, BYTES,
                                  count_release, &released, &t));
    SAYS("overlap");
    FAILS(DHOW_OUT_OF_RANGE,
          dhow_tensor_wrap_device(g_cuda, DHOW_F32, 2, shape, strides, number(memory), 16, 60,
                                  count_release, &released, &t));
    SAYS("do not fit into 60 bytes");
    cr_assert_eq(released, 1);
    CUDA(cudaFree(memory));
}

/* Ranges of one block may be wrapped apart, and dhow knows where they overlap. */
Test(interop, ranges_of_one_block_are_known_to_overlap) {
    dhow_tensor *a, *b;
    void *memory = new_memory(0);
    OK(dhow_tensor_wrap_device(g_cuda, DHOW_F32, DHOW_SHAPE(100), NULL, number(memory), 0, BYTES,
                               NULL, NULL, &a));
    OK(dhow_tensor_wrap_device(g_cuda, DHOW_F32, DHOW_SHAPE(100), NULL,
                               number((float *)memory + 50), 0, BYTES - 200, NULL, NULL, &b));
    FAILS(DHOW_INVALID_ARGUMENT, dhow_add(NULL, a, a, b));
    SAYS("overlap");
    dhow_tensor_release(a);
    dhow_tensor_release(b);
    CUDA(cudaFree(memory));
}

/* The program's work, dhow's on the same stream, dhow's on another, the program's again: no wait of
 * the host, and every one finds what the one before has left. */
Test(interop, work_on_a_wrapped_stream_is_ordered_on_all_sides) {
    dhow_stream *wrapped, *other;
    dhow_tensor *t, *y;
    int released = 0;
    void *memory = new_memory(0);
    cudaStream_t mine = new_stream();
    OK(dhow_stream_wrap(g_cuda, number(mine), &wrapped));
    OK(dhow_stream_create(g_cuda, &other));
    OK(dhow_tensor_wrap_device(g_cuda, DHOW_F32, DHOW_SHAPE(COUNT), NULL, number(memory), 0, BYTES,
                               count_release, &released, &t));
    OK(dhow_tensor_create(g_cuda, DHOW_F32, DHOW_SHAPE(COUNT), &y));
    const uint64_t syncs = fakecuda_call_count("cudaStreamSynchronize");
    CUDA(cudaMemsetAsync(memory, 0, BYTES, mine));
    OK(dhow_exp(wrapped, t, t)); /* 1 */
    OK(dhow_add(other, t, t, y));   /* waits for the wrapped stream by an event */
    OK(dhow_add(wrapped, y, t, t)); /* and back */
    cr_assert_eq(fakecuda_call_count("cudaStreamSynchronize"), syncs, "the host has waited");
    see(memory, mine);
    expect_all(1 + 1 + 1);
    /* What the program wrote, dhow's other streams learn by native_done. */
    uint64_t handle, offset;
    OK(dhow_tensor_native(t, &handle, &offset));
    cr_assert_eq(handle + offset, number(memory));
    CUDA(cudaMemsetAsync(memory, 0, BYTES, mine));
    OK(dhow_tensor_native_done(t, wrapped));
    OK(dhow_add(other, t, t, y));
    OK(dhow_tensor_read(y, g_seen, sizeof g_seen));
    expect_all(0);
    dhow_tensor_release(y);
    dhow_tensor_release(t);
    cr_assert_eq(released, 1);
    dhow_stream_release(other);
    dhow_stream_release(wrapped);
    CUDA(cudaMemsetAsync(memory, 0, BYTES, mine)); /* the queue is the program's still */
    CUDA(cudaStreamSynchronize(mine));
    CUDA(cudaStreamDestroy(mine));
    CUDA(cudaFree(memory));
}

/* A sync, a query and the end of a wrapped stream wait for the program's work as well: it had
 * counted as none. */
Test(interop, the_programs_own_work_is_waited_for) {
    dhow_stream *wrapped;
    cudaStream_t mine = new_stream();
    void *memory = new_memory(0);
    OK(dhow_stream_wrap(g_cuda, number(mine), &wrapped));
    CUDA(cudaMemsetAsync(memory, 0, BYTES, mine));
    FAILS(DHOW_NOT_READY, dhow_stream_query(wrapped));
    CUDA(cudaMemsetAsync(memory, 0, BYTES, mine));
    OK(dhow_stream_sync(wrapped));
    CUDA(cudaStreamQuery(mine));
    CUDA(cudaMemsetAsync(memory, 0, BYTES, mine));
    OK(dhow_device_sync(g_cuda));
    CUDA(cudaStreamQuery(mine));
    CUDA(cudaMemsetAsync(memory, 0, BYTES, mine));
    dhow_stream_release(wrapped);
    CUDA(cudaStreamQuery(mine));
    CUDA(cudaStreamDestroy(mine));
    CUDA(cudaFree(memory));
}

Test(interop, the_legacy_stream_can_be_wrapped_and_that_of_a_thread_not) {
    dhow_stream *wrapped;
    uint64_t native;
    FAILS(DHOW_UNSUPPORTED, dhow_stream_wrap(g_cuda, number(cudaStreamPerThread), &wrapped));
    SAYS("cudaStreamPerThread is another stream in each thread");
    cr_assert_null(wrapped);
    OK(dhow_stream_wrap(g_cuda, 0, &wrapped));
    OK(dhow_stream_native(wrapped, &native));
    cr_assert_eq(native, number(cudaStreamLegacy));
    OK(dhow_stream_sync(wrapped));
    dhow_stream_release(wrapped);
}

Test(interop, events_are_waited_for_in_both_directions) {
    dhow_stream *stream;
    dhow_event *event;
    dhow_tensor *t;
    uint64_t native;
    void *memory = new_memory(0);
    cudaStream_t mine = new_stream();
    cudaEvent_t theirs;
    CUDA(cudaEventCreateWithFlags(&theirs, cudaEventDisableTiming));
    OK(dhow_stream_create(g_cuda, &stream));
    OK(dhow_event_create(g_cuda, 0, &event));
    FAILS(DHOW_INVALID_ARGUMENT, dhow_event_native(event, &native));
    SAYS("never recorded");
    OK(dhow_tensor_wrap_device(g_cuda, DHOW_F32, DHOW_SHAPE(COUNT), NULL, number(memory), 0, BYTES,
                               NULL, NULL, &t));
    /* The program's first: dhow's stream waits for its event. */
    CUDA(cudaMemsetAsync(memory, 0, BYTES, mine));
    CUDA(cudaEventRecord(theirs, mine));
    OK(dhow_stream_wait_native(stream, number(theirs)));
    OK(dhow_exp(stream, t, t));
    /* And back: the program's stream waits for dhow's. */
    OK(dhow_event_record(event, stream));
    OK(dhow_event_native(event, &native));
    CUDA(cudaStreamWaitEvent(mine, pointer(native), 0));
    see(memory, mine);
    expect_all(1);
    FAILS(DHOW_INVALID_ARGUMENT, dhow_stream_wait_native(stream, 0));
    SAYS("the event is NULL");
    dhow_tensor_release(t);
    dhow_event_release(event);
    dhow_stream_release(stream);
    CUDA(cudaEventDestroy(theirs));
    CUDA(cudaStreamDestroy(mine));
    CUDA(cudaFree(memory));
}

/* Calls that fail on the way leave the memory the caller's and nothing behind. */
Test(interop, each_failing_call_of_the_driver_leaves_all_as_it_was) {
    static const char *const calls[] = {"cudaPointerGetAttributes@1=999", "cuStreamGetCtx@1=400"};
    for (int i = 0; i < 2; i++) {
        dhow_context_release(g_context);
        cr_assert(fakecuda_reset("devices=2", calls[i], NULL, 0));
        OK(dhow_context_create(NULL, &g_context));
        OK(dhow_device_get(g_context, "cuda:0", &g_cuda));
        OK(dhow_device_open(g_cuda));
        CUDA(cudaSetDevice(0));
        dhow_tensor *t = NULL;
        dhow_stream *wrapped = NULL;
        int released = 0;
        void *memory = new_memory(0);
        cudaStream_t mine = new_stream();
        dhow_status memory_status =
            dhow_tensor_wrap_device(g_cuda, DHOW_F32, DHOW_SHAPE(COUNT), NULL, number(memory), 0,
                                    BYTES, count_release, &released, &t);
        cr_assert_eq(memory_status == DHOW_OK, i != 0);
        dhow_status stream_status = dhow_stream_wrap(g_cuda, number(mine), &wrapped);
        cr_assert_eq(stream_status == DHOW_OK, i != 1);
        cr_assert_eq(released, 0);
        dhow_tensor_release(t);
        cr_assert_eq(released, i != 0);
        dhow_stream_release(wrapped);
        CUDA(cudaStreamDestroy(mine));
        CUDA(cudaFree(memory));
    }
}
