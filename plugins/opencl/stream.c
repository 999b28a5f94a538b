/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams: in-order command queues. Commands reach the device without the host waiting for them:
 * the queue is flushed at every event, query and sync, and after every few commands in between.
 */
#include "opencl.h"

/* A flush costs about as much as a launch on GPU drivers, so not each command gets one. */
enum { COMMANDS_PER_FLUSH = 16 };

void dhowi_cl_stream_flush(dhowi_cl_stream *stream) {
    if (stream->unflushed == 0) return;
    stream->unflushed = 0;
    cl_int code = dhowi_cl.Flush(stream->queue);
    if (code != CL_SUCCESS && stream->failed == CL_SUCCESS) stream->failed = code;
}

void dhowi_cl_stream_submitted(dhowi_cl_stream *stream) {
    stream->busy = true;
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
    *out_stream = stream;
    return DHOW_OK;
}

static void forget_query(dhowi_cl_stream *stream) {
    if (stream->query_mark != NULL) dhowi_cl.ReleaseEvent(stream->query_mark);
    stream->query_mark = NULL;
}

void dhowi_cl_stream_destroy(void *stream_pointer) {
    dhowi_cl_stream *stream = stream_pointer;
    forget_query(stream);
    dhowi_cl.ReleaseCommandQueue(stream->queue);
    dhowi_cl_delete(stream->device->host, stream);
}

/* Runtimes charge for time stamps on every command, so a stream gets a queue that takes them only
 * when the first event wants them. The new queue begins with a barrier behind the old one's last
 * command: the order stays, nobody waits. */
int32_t dhowi_cl_stream_start_timing(dhowi_cl_stream *stream, dhow_error *err) {
    if (stream->timed) return DHOW_OK;
    const dhowi_cl_device *device = stream->device;
    cl_int code = CL_SUCCESS;
    cl_event last = NULL;
    cl_command_queue queue =
        dhowi_cl.CreateCommandQueue(device->context, device->id, CL_QUEUE_PROFILING_ENABLE, &code);
    if (code != CL_SUCCESS)
        return dhowi_cl_fail(err, code, "%s: its queues do not take times", device->name);
    code = dhowi_cl.EnqueueMarkerWithWaitList(stream->queue, 0, NULL, &last);
    if (code == CL_SUCCESS) code = dhowi_cl.Flush(stream->queue);
    if (code == CL_SUCCESS) code = dhowi_cl.EnqueueBarrierWithWaitList(queue, 1, &last, NULL);
    if (last != NULL) dhowi_cl.ReleaseEvent(last);
    if (code != CL_SUCCESS) {
        dhowi_cl.ReleaseCommandQueue(queue);
        return dhowi_cl_fail(err, code, "%s: the stream cannot change to a timed queue",
                             device->name);
    }
    dhowi_cl.ReleaseCommandQueue(stream->queue);
    stream->queue = queue;
    stream->timed = true;
    stream->unflushed = 1;
    stream->busy = true;
    return DHOW_OK;
}

int32_t dhowi_cl_stream_sync(void *stream_pointer, dhow_error *err) {
    dhowi_cl_stream *stream = stream_pointer;
    cl_int code = dhowi_cl.Finish(stream->queue);
    if (stream->failed != CL_SUCCESS) code = stream->failed;
    stream->failed = CL_SUCCESS;
    stream->unflushed = 0;
    stream->busy = false;
    forget_query(stream);
    if (code != CL_SUCCESS)
        return dhowi_cl_fail_late(err, code, "%s: the stream's work failed", stream->device->name);
    return DHOW_OK;
}

/* OpenCL has no question for "is the queue empty": a marker behind the last command answers it. */
int32_t dhowi_cl_stream_query(void *stream_pointer, dhow_error *err) {
    dhowi_cl_stream *stream = stream_pointer;
    if (stream->busy) {
        forget_query(stream);
        cl_int code =
            dhowi_cl.EnqueueMarkerWithWaitList(stream->queue, 0, NULL, &stream->query_mark);
        if (code != CL_SUCCESS) {
            stream->query_mark = NULL;
            return dhowi_cl_fail(err, code, "%s: no marker", stream->device->name);
        }
        stream->unflushed++;
        stream->busy = false;
    }
    dhowi_cl_stream_flush(stream);
    if (stream->query_mark == NULL) return DHOW_OK;
    int32_t status = dhowi_cl_event_status(stream->query_mark, err);
    if (status == DHOW_OK) forget_query(stream);
    return status;
}
