/* SPDX-License-Identifier: Apache-2.0
 *
 * Events. One recorded in a stream that is recording becomes a part of the graph, and nothing else
 * may use it until it is recorded again.
 */
#include "fake.h"

static bool is_event(cudaEvent_t event) { return fakecuda_object_is(event, FAKECUDA_EVENT); }

static bool is_captured(cudaEvent_t event) {
    fake_lock();
    const bool captured = event->captured;
    fake_unlock();
    return captured;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
    fake_call call;
    dhow_error err = {.struct_size = sizeof err};
    cudaError_t code = fake_begin(&call, "cudaEventCreateWithFlags", FAKE_CURRENT);
    if (code == cudaSuccess && flags > 7) code = cudaErrorInvalidValue;
    if (code != cudaSuccess) return fake_end(&call, code);
    fake_event *event = fakecuda_object_new(FAKECUDA_EVENT, sizeof *event);
    if (event == NULL) return fake_end(&call, cudaErrorMemoryAllocation);
    event->device = call.device;
    event->timed = (flags & cudaEventDisableTiming) == 0;
    code = fake_code(call.device, simdev_event_create(fake.devices[call.device],
                                                      event->timed ? DHOW_EVENT_TIMING : 0,
                                                      &event->native, &err));
    if (code != cudaSuccess) {
        if (event->native != NULL) simdev_event_destroy(event->native);
        fakecuda_object_delete(event);
        return fake_end(&call, code);
    }
    *out = event;
    return fake_end(&call, cudaSuccess);
}

static cudaError_t begin_on(fake_call *call, const char *name, cudaEvent_t event) {
    const bool valid = is_event(event);
    const cudaError_t code = fake_begin(call, name, valid ? event->device : FAKE_CURRENT);
    return code == cudaSuccess && !valid ? cudaErrorInvalidResourceHandle : code;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    fake_call call;
    const cudaError_t code = begin_on(&call, "cudaEventDestroy", event);
    if (call.device != FAKE_NOWHERE && is_event(event)) {
        simdev_event_destroy(event->native);
        fakecuda_object_delete(event);
    }
    return fake_end(&call, code);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
    fake_call call;
    fake_stream *stream = fake_stream_of(handle);
    cudaError_t code =
        fake_begin(&call, "cudaEventRecord", stream != NULL ? stream->device : FAKE_CURRENT);
    fake_command command = {.kind = FAKE_RECORD, .event = event};
    if (code == cudaSuccess &&
        (stream == NULL || !is_event(event) || event->device != stream->device))
        code = cudaErrorInvalidResourceHandle;
    if (code == cudaSuccess) {
        fake_lock();
        event->captured = stream->capture != NULL;
        event->early = event->timed && fake.timed_records++ < 2;
        fake_unlock();
        code = fake_submit(stream, &command);
    }
    return fake_end(&call, code);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags) {
    fake_call call;
    fake_stream *stream = fake_stream_of(handle);
    cudaError_t code =
        fake_begin(&call, "cudaStreamWaitEvent", stream != NULL ? stream->device : FAKE_CURRENT);
    fake_command command = {.kind = FAKE_WAIT, .event = event};
    if (code == cudaSuccess && (stream == NULL || !is_event(event)))
        code = cudaErrorInvalidResourceHandle;
    if (code == cudaSuccess && flags > 1) code = cudaErrorInvalidValue;
    /* A graph of two streams is more than is modelled here. */
    if (code == cudaSuccess && is_captured(event) != fake_stream_is_capturing(stream)) {
        if (fake_stream_is_capturing(stream)) (void)fake_forbidden_on(stream);
        code = cudaErrorStreamCaptureIsolation;
    }
    if (code == cudaSuccess) code = fake_submit(stream, &command);
    return fake_end(&call, code);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    fake_call call;
    dhow_error err = {.struct_size = sizeof err};
    cudaError_t code = begin_on(&call, "cudaEventSynchronize", event);
    if (code == cudaSuccess && is_captured(event)) code = cudaErrorCapturedEvent;
    if (code == cudaSuccess)
        code = fake_done(event->device, simdev_event_sync(event->native, &err));
    return fake_end(&call, code);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    fake_call call;
    dhow_error err = {.struct_size = sizeof err};
    cudaError_t code = begin_on(&call, "cudaEventQuery", event);
    if (code == cudaSuccess) code = fake_forbidden();
    if (code == cudaSuccess && is_captured(event)) code = cudaErrorCapturedEvent;
    if (code == cudaSuccess)
        code = fake_done(event->device, simdev_event_query(event->native, &err));
    return fake_end(&call, code);
}

cudaError_t cudaEventElapsedTime(float *out, cudaEvent_t start, cudaEvent_t end) {
    fake_call call;
    dhow_error err = {.struct_size = sizeof err};
    int64_t nanoseconds = 0;
    cudaError_t code = begin_on(&call, "cudaEventElapsedTime", start);
    if (code == cudaSuccess &&
        (!is_event(end) || end->device != start->device || !start->timed || !end->timed))
        code = cudaErrorInvalidResourceHandle;
    if (code == cudaSuccess && (is_captured(start) || is_captured(end)))
        code = cudaErrorCapturedEvent;
    if (code == cudaSuccess) {
        const int32_t status = simdev_event_elapsed(start->native, end->native, &nanoseconds, &err);
        code = status == DHOW_INVALID_ARGUMENT ? cudaErrorInvalidResourceHandle
                                               : fake_code(start->device, status);
    }
    const int earlier = (start->early ? 1 : 0) - (end->early ? 1 : 0);
    nanoseconds += INT64_C(1000000000) * fake.settings.clock_s * earlier;
    if (code == cudaSuccess) *out = (float)((double)nanoseconds * 1e-6);
    return fake_end(&call, code);
}
