/* SPDX-License-Identifier: Apache-2.0
 *
 * "dhow.native/1": memory, queues and events that a program made with the vendor's API, and those
 * of dhow that it uses there. Here a native handle is the address of a simdev object. A wrapped
 * object is one of ours that does not own the vendor's.
 */
#include "sim.h"

static int32_t mem_wrap(void *handle, uint64_t native, uint64_t bytes, uint64_t *out_handle,
                        uint64_t *out_offset, dhow_error *err) {
    const sim_device *device = handle;
    simdev_place place;
    *out_handle = *out_offset = 0;
    if (!simdev_find(device->machine, native, &place) || place.pinned)
        return sim_fail(err, DHOW_INVALID_ARGUMENT, "%#llx is no memory of a simulated device",
                        (unsigned long long)native);
    if (place.device != device->native)
        return sim_fail(err, DHOW_INVALID_ARGUMENT, "%#llx is memory of device %u",
                        (unsigned long long)native, simdev_device_index(place.device));
    if (bytes > place.start + place.bytes - native)
        return sim_fail(err, DHOW_INVALID_ARGUMENT, "%llu bytes are wanted, %#llx has %llu",
                        (unsigned long long)bytes, (unsigned long long)native,
                        (unsigned long long)(place.start + place.bytes - native));
    *out_offset = native - place.start;
    *out_handle = place.start;
    return DHOW_OK;
}

static void mem_unwrap(void *device, uint64_t handle) {
    (void)device;
    (void)handle;
}

static int32_t mem_native(void *device, uint64_t handle, uint64_t *out_native, dhow_error *err) {
    (void)device;
    (void)err;
    *out_native = handle;
    return DHOW_OK;
}

static int32_t stream_wrap(void *handle, uint64_t native, uint32_t flags, void **out_stream,
                           dhow_error *err) {
    sim_device *device = handle;
    (void)flags;
    *out_stream = NULL;
    if (native == 0) return sim_fail(err, DHOW_INVALID_ARGUMENT, "the queue is NULL");
    sim_stream *stream = sim_new(device->host, sizeof *stream);
    if (stream == NULL) return sim_fail(err, DHOW_OUT_OF_MEMORY, "no host memory for a stream");
    stream->device = device;
    stream->native = (simdev_stream *)(uintptr_t)native;
    stream->wrapped = 1;
    *out_stream = stream;
    return DHOW_OK;
}

static int32_t stream_native(void *stream, uint64_t *out_native, dhow_error *err) {
    (void)err;
    *out_native = (uint64_t)(uintptr_t)((sim_stream *)stream)->native;
    return DHOW_OK;
}

static int32_t stream_wait_native(void *stream, uint64_t native_event, dhow_error *err) {
    if (native_event == 0) return sim_fail(err, DHOW_INVALID_ARGUMENT, "the event is NULL");
    return simdev_stream_wait(((sim_stream *)stream)->native,
                              (simdev_event *)(uintptr_t)native_event, err);
}

static int32_t event_native(void *event, uint64_t *out_native, dhow_error *err) {
    const sim_event *e = event;
    *out_native = 0;
    if (!e->recorded) return sim_fail(err, DHOW_INVALID_ARGUMENT, "the event was never recorded");
    *out_native = (uint64_t)(uintptr_t)e->native;
    return DHOW_OK;
}

const dhow_native sim_native = {.struct_size = sizeof sim_native,
                                .mem_wrap = mem_wrap,
                                .mem_unwrap = mem_unwrap,
                                .mem_native = mem_native,
                                .stream_wrap = stream_wrap,
                                .stream_native = stream_native,
                                .stream_wait_native = stream_wait_native,
                                .event_native = event_native};
