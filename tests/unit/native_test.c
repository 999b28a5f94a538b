/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory, queues and events of the vendor's API in dhow's hands, on slow simulated devices and on
 * the CPU. The simulated machine has no API for programs: what stands for the program's objects are
 * another stream's queue and another tensor's memory.
 */
#include "data_fixture.h"

enum { COUNT = 1000, BYTES = COUNT * 4 };

static void set_up(void) { open_context("delay_us=10000", ""); }
TestSuite(native, .init = set_up, .fini = close_context, .timeout = 60);

static uint64_t number(const void *pointer) { return (uint64_t)(uintptr_t)pointer; }
static void count_release(void *user) { ++*(int *)user; }

static void expect_all(dhow_tensor *t, float value) {
    float got[COUNT];
    OK(dhow_tensor_read(t, got, sizeof got));
    for (int i = 0; i < COUNT; i++) cr_assert_eq(got[i], value, "%d: %g", i, (double)got[i]);
}

static dhow_stream *stream_of(dhow_device *device, uint64_t *native) {
    dhow_stream *stream;
    OK(dhow_stream_create(device, &stream));
    OK(dhow_stream_native(stream, native));
    cr_assert_neq(*native, 0);
    return stream;
}

/* The queue is slow, and each step needs the one before. */
Test(native, work_on_a_wrapped_queue_is_ordered_with_all_other_streams) {
    dhow_device *sim = device_of("sim:0"), *other_device = device_of("sim:1");
    dhow_stream *mine, *wrapped, *other, *far;
    dhow_tensor *t, *y, *z;
    uint64_t native;
    mine = stream_of(sim, &native);
    OK(dhow_stream_wrap(sim, native, &wrapped));
    cr_assert_eq(dhow_stream_device(wrapped), sim);
    OK(dhow_stream_create(sim, &other));
    OK(dhow_stream_create(other_device, &far));
    OK(dhow_tensor_full(sim, DHOW_F32, DHOW_SHAPE(COUNT), 0, &t));
    OK(dhow_tensor_full(sim, DHOW_F32, DHOW_SHAPE(COUNT), 0, &y));
    OK(dhow_tensor_full(other_device, DHOW_F32, DHOW_SHAPE(COUNT), 0, &z));
    OK(dhow_fill(wrapped, t, 1));
    OK(dhow_add(other, t, t, y));       /* 2 */
    OK(dhow_add(wrapped, y, t, t));     /* 3 */
    OK(dhow_copy_async(far, t, z, 0));
    OK(dhow_add(far, z, z, z));         /* 6 */
    expect_all(z, 6);
    expect_all(t, 3);
    dhow_tensor_release(z);
    dhow_tensor_release(y);
    dhow_tensor_release(t);
    dhow_stream_release(far);
    dhow_stream_release(other);
    dhow_stream_release(wrapped);
    OK(dhow_stream_sync(mine)); /* its queue is there still */
    dhow_stream_release(mine);
}

/* A fill of the program's own in its queue, here by the stream that made it, is no work of the
 * wrapped stream; still its syncs, queries and end wait for it. */
Test(native, the_programs_own_work_in_its_queue_is_waited_for) {
    dhow_device *sim = device_of("sim:0");
    dhow_stream *mine, *wrapped, *other;
    dhow_tensor *t, *view, *y;
    uint64_t native, handle, offset;
    int released = 0;
    mine = stream_of(sim, &native);
    OK(dhow_stream_wrap(sim, native, &wrapped));
    OK(dhow_tensor_full(sim, DHOW_F32, DHOW_SHAPE(COUNT), 0, &t));
    OK(dhow_tensor_native(t, &handle, &offset));
    OK(dhow_tensor_native_done(t, NULL));
    OK(dhow_tensor_wrap_device(sim, DHOW_F32, DHOW_SHAPE(COUNT), NULL, handle, offset,
                               offset + BYTES, count_release, &released, &view));
    OK(dhow_fill(mine, t, 1));
    FAILS(DHOW_NOT_READY, dhow_stream_query(wrapped));
    OK(dhow_stream_sync(wrapped));
    OK(dhow_stream_query(mine));
    OK(dhow_fill(mine, t, 2));
    OK(dhow_tensor_native(view, &handle, &offset));
    OK(dhow_tensor_native_done(view, wrapped)); /* the fill is the view's writer */
    OK(dhow_stream_create(sim, &other));
    OK(dhow_tensor_full(sim, DHOW_F32, DHOW_SHAPE(COUNT), 0, &y));
    OK(dhow_add(other, view, view, y));
    expect_all(y, 4);
    OK(dhow_fill(mine, t, 3));
    dhow_stream_release(wrapped);
    OK(dhow_stream_query(mine));
    dhow_tensor_release(view);
    cr_assert_eq(released, 1);
    dhow_tensor_release(y);
    dhow_tensor_release(t);
    dhow_stream_release(other);
    dhow_stream_release(mine);
}

Test(native, release_comes_when_all_work_with_the_memory_has_ended) {
    dhow_device *sim = device_of("sim:0");
    dhow_stream *other;
    dhow_tensor *t, *view;
    uint64_t handle, offset;
    int released = 0;
    OK(dhow_tensor_full(sim, DHOW_F32, DHOW_SHAPE(COUNT), 0, &t));
    OK(dhow_tensor_native(t, &handle, &offset));
    OK(dhow_tensor_native_done(t, NULL));
    OK(dhow_stream_create(sim, &other));
    OK(dhow_tensor_wrap_device(sim, DHOW_F32, DHOW_SHAPE(COUNT), NULL, handle, offset,
                               offset + BYTES, count_release, &released, &view));
    OK(dhow_fill(other, view, 5));
    FAILS(DHOW_NOT_READY, dhow_stream_query(other));
    dhow_tensor_release(view);
    cr_assert_eq(released, 1);
    OK(dhow_stream_query(other));
    expect_all(t, 5);
    dhow_tensor_release(t);
    dhow_stream_release(other);
}

Test(native, events_of_the_vendor_hold_a_stream_back) {
    dhow_device *sim = device_of("sim:0");
    dhow_stream *first, *second;
    dhow_event *event;
    dhow_tensor *t;
    uint64_t native;
    OK(dhow_stream_create(sim, &first));
    OK(dhow_stream_create(sim, &second));
    OK(dhow_event_create(sim, 0, &event));
    FAILS(DHOW_INVALID_ARGUMENT, dhow_event_native(event, &native));
    SAYS("never recorded");
    cr_assert_eq(native, 0);
    OK(dhow_tensor_full(sim, DHOW_F32, DHOW_SHAPE(COUNT), 0, &t));
    OK(dhow_stream_sync(first));
    OK(dhow_fill(first, t, 1));
    OK(dhow_event_record(event, first));
    OK(dhow_event_native(event, &native));
    OK(dhow_stream_wait_native(second, native));
    OK(dhow_stream_sync(second)); /* there is nothing else in it */
    OK(dhow_stream_query(first));
    FAILS(DHOW_INVALID_ARGUMENT, dhow_stream_wait_native(second, 0));
    SAYS("the event is NULL");
    dhow_tensor_release(t);
    dhow_event_release(event);
    dhow_stream_release(first);
    dhow_stream_release(second);
}

Test(native, memory_of_elsewhere_is_refused) {
    dhow_tensor *t, *view;
    uint64_t handle, offset;
    float local[4];
    int released = 0;
    OK(dhow_tensor_full(device_of("sim:1"), DHOW_F32, DHOW_SHAPE(COUNT), 0, &t));
    OK(dhow_tensor_native(t, &handle, &offset));
    OK(dhow_tensor_native_done(t, NULL));
    FAILS(DHOW_INVALID_ARGUMENT,
          dhow_tensor_wrap_device(device_of("sim:0"), DHOW_F32, DHOW_SHAPE(COUNT), NULL, handle,
                                  offset, offset + BYTES, count_release, &released, &view));
    SAYS("memory of device 1");
    cr_assert_null(view);
    FAILS(DHOW_INVALID_ARGUMENT,
          dhow_tensor_wrap_device(device_of("sim:0"), DHOW_F32, DHOW_SHAPE(4), NULL, number(local),
                                  0, sizeof local, count_release, &released, &view));
    FAILS(DHOW_INVALID_ARGUMENT,
          dhow_tensor_wrap_device(device_of("sim:1"), DHOW_F32, DHOW_SHAPE(2 * COUNT), NULL, handle,
                                  offset, offset + 2 * BYTES, count_release, &released, &view));
    SAYS("8000 bytes are wanted");
    cr_assert_eq(released, 0);
    dhow_tensor_release(t);
}

Test(native, the_cpu_wraps_strided_memory_and_has_no_queues) {
    static const int64_t shape[] = {2, 2}, strides[] = {1, 3};
    float values[] = {0, 1, 2, 3, 4, 5, 6}, got[4];
    dhow_tensor *t;
    dhow_stream *stream;
    uint64_t native = 7;
    int released = 0;
    OK(dhow_tensor_wrap_device(g_cpu, DHOW_F32, 2, shape, strides, number(values), 4, sizeof values,
                               count_release, &released, &t));
    OK(dhow_tensor_read(t, got, sizeof got));
    cr_assert(got[0] == 1 && got[1] == 4 && got[2] == 2 && got[3] == 5);
    dhow_tensor_release(t);
    cr_assert_eq(released, 1);
    FAILS(DHOW_UNSUPPORTED, dhow_stream_wrap(g_cpu, 1, &stream));
    SAYS("the plugin 'cpu' has no dhow.native/1");
    OK(dhow_stream_default(g_cpu, &stream));
    FAILS(DHOW_UNSUPPORTED, dhow_stream_native(stream, &native));
    cr_assert_eq(native, 0);
}

/* Tensors without elements have no memory that could be wrapped. */
Test(native, no_bytes_are_wrapped_as_well) {
    dhow_tensor *t;
    int released = 0;
    OK(dhow_tensor_wrap_device(device_of("sim:0"), DHOW_F32, DHOW_SHAPE(3, 0), NULL, 0, 0, 0,
                               count_release, &released, &t));
    OK(dhow_fill(NULL, t, 1));
    cr_assert_eq(dhow_tensor_count(t), 0);
    dhow_tensor_release(t);
    cr_assert_eq(released, 1);
}
