/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams: in-order command queues. Commands reach the device without the host waiting for them:
 * the queue is flushed at every event, query and sync, and after every few commands in between.
 */
#include "opencl.h"

/* A flush costs about as much as a launch on GPU drivers, so not each command gets one. */
enum { COMMANDS_PER_FLUSH = 64 };

static void note_failure(dhowi_cl_stream *stream, cl_int code) {
    int none = CL_SUCCESS;
    if (code != CL_SUCCESS) atomic_compare_exchange_strong(&stream->failed, &none, code);
}

void dhowi_cl_stream_flush(dhowi_cl_stream *stream) {
    if (stream->unflushed == 0) return;
    stream->unflushed = 0;
    note_failure(stream, dhowi_cl.Flush(stream->queue));
}

void dhowi_cl_stream_submitted(dhowi_cl_stream *stream) {
    /* One thread writes, so this needs no locked instruction. */
    atomic_store_explicit(&stream->submitted,
                          atomic_load_explicit(&stream->submitted, memory_order_relaxed) + 1,
                          memory_order_release);
    if (++stream->unflushed >= COMMANDS_PER_FLUSH) dhowi_cl_stream_flush(stream);
}

int32_t dhowi_cl_stream_create(void *device_pointer, uint32_t flags, void **out_stream,
                               dhow_error *err) {
    dhowi_cl_device *device = device_pointer;
    cl_int code = CL_SUCCESS;
    (void)flags; /* OpenCL has no queues for copies alone */
    *out_stream = NULL;
    dhowi_cl_stream *stream = dhowi_cl_new(device->host, sizeof *stream);
    if (stream == NULL)
        return dhowi_cl_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", device->name);
    stream->device = device;
    stream->queue = dhowi_cl.CreateCommandQueue(device->context, device->id, 0, &code);
    if (code != CL_SUCCESS) {
        dhowi_cl_delete(device->host, stream);
        return dhowi_cl_fail(err, code, "%s: no command queue", device->name);
    }
    pthread_mutex_init(&stream->lock, NULL);
    *out_stream = stream;
    return DHOW_OK;
}

static void drop_mark(dhowi_cl_stream *stream) {
    if (stream->marker != NULL) dhowi_cl.ReleaseEvent(stream->marker);
    stream->marker = NULL;
}

void dhowi_cl_stream_destroy(void *stream_pointer) {
    dhowi_cl_stream *stream = stream_pointer;
    drop_mark(stream);
    dhowi_cl.ReleaseCommandQueue(stream->queue);
    pthread_mutex_destroy(&stream->lock);
    dhowi_cl_delete(stream->device->host, stream);
}

/* Runtimes charge for time stamps on every command, so a stream gets a queue that takes them only
 * when the first event wants them. The new queue begins with a barrier behind the old one's last
 * command: the order stays, nobody waits. */
int32_t dhowi_cl_stream_start_timing(dhowi_cl_stream *stream, dhow_error *err) {
    if (stream->timed) return DHOW_OK;
    if (atomic_load(&stream->shown))
        return dhowi_cl_refuse(err, DHOW_UNSUPPORTED,
                               "%s: the stream's queue is the program's, too, and takes no times; "
                               "make it with CL_QUEUE_PROFILING_ENABLE, or record a timed event "
                               "before dhow_stream_native()",
                               stream->device->name);
    const dhowi_cl_device *device = stream->device;
    cl_int code = CL_SUCCESS;
    cl_event last = NULL;
    cl_command_queue before = stream->queue;
    cl_command_queue queue =
        dhowi_cl.CreateCommandQueue(device->context, device->id, CL_QUEUE_PROFILING_ENABLE, &code);
    if (code != CL_SUCCESS)
        return dhowi_cl_fail(err, code, "%s: its queues do not take times", device->name);
    code = dhowi_cl.EnqueueMarkerWithWaitList(before, 0, NULL, &last);
    if (code == CL_SUCCESS) code = dhowi_cl.Flush(before);
    if (code == CL_SUCCESS) code = dhowi_cl.EnqueueBarrierWithWaitList(queue, 1, &last, NULL);
    if (last != NULL) dhowi_cl.ReleaseEvent(last);
    if (code != CL_SUCCESS) {
        dhowi_cl.ReleaseCommandQueue(queue);
        return dhowi_cl_fail(err, code, "%s: the stream cannot change to a timed queue",
                             device->name);
    }
    pthread_mutex_lock(&stream->lock);
    stream->queue = queue;
    pthread_mutex_unlock(&stream->lock);
    dhowi_cl.ReleaseCommandQueue(before);
    stream->timed = true;
    dhowi_cl_stream_submitted(stream);
    return DHOW_OK;
}

int32_t dhowi_cl_stream_sync(void *stream_pointer, dhow_error *err) {
    dhowi_cl_stream *stream = stream_pointer;
    pthread_mutex_lock(&stream->lock);
    const uint64_t submitted = atomic_load_explicit(&stream->submitted, memory_order_acquire);
    cl_command_queue queue = stream->queue;
    dhowi_cl.RetainCommandQueue(queue);
    pthread_mutex_unlock(&stream->lock);
    cl_int code = dhowi_cl.Finish(queue);
    dhowi_cl.ReleaseCommandQueue(queue);
    pthread_mutex_lock(&stream->lock);
    if (stream->reached < submitted) stream->reached = submitted;
    pthread_mutex_unlock(&stream->lock);
    const cl_int before = atomic_exchange(&stream->failed, CL_SUCCESS);
    if (before != CL_SUCCESS) code = before;
    if (code != CL_SUCCESS)
        return dhowi_cl_fail_late(err, code, "%s: the stream's work failed", stream->device->name);
    return DHOW_OK;
}

/* The lock is held. */
static int32_t query_locked(dhowi_cl_stream *stream, dhow_error *err) {
    const uint64_t submitted = atomic_load_explicit(&stream->submitted, memory_order_acquire);
    /* What a program hands to its own queue is counted by nobody. */
    if (submitted == stream->reached && !stream->wrapped) return DHOW_OK;
    if (stream->marker == NULL || stream->marker_at != submitted) {
        drop_mark(stream);
        cl_int code = dhowi_cl.EnqueueMarkerWithWaitList(stream->queue, 0, NULL, &stream->marker);
        if (code != CL_SUCCESS) {
            stream->marker = NULL;
            return dhowi_cl_fail(err, code, "%s: no marker", stream->device->name);
        }
        stream->marker_at = submitted;
        note_failure(stream, dhowi_cl.Flush(stream->queue));
    }
    int32_t status = dhowi_cl_event_status(stream->marker, err);
    if (status != DHOW_NOT_READY) {
        drop_mark(stream);
        stream->reached = stream->marker_at;
    }
    return status;
}

/* OpenCL has no question for "is the queue empty": a marker behind the last command answers it. */
int32_t dhowi_cl_stream_query(void *stream_pointer, dhow_error *err) {
    dhowi_cl_stream *stream = stream_pointer;
    pthread_mutex_lock(&stream->lock);
    int32_t status = query_locked(stream, err);
    pthread_mutex_unlock(&stream->lock);
    return status;
}

int32_t dhowi_cl_event_status(cl_event event, dhow_error *err) {
    cl_int state = CL_QUEUED;
    cl_int code =
        dhowi_cl.GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    if (code != CL_SUCCESS) return dhowi_cl_fail(err, code, "an event's state is not known");
    if (state < 0) return dhowi_cl_fail_late(err, state, "work before the event failed");
    return state == CL_COMPLETE ? DHOW_OK : DHOW_NOT_READY;
}
