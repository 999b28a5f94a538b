/* SPDX-License-Identifier: Apache-2.0
 *
 * The one way by which work reaches a device: launches, copies, fills, calls of a vendor's library.
 * Here it is decided what becomes of it. While the thread has a sink - a plan of a model is being
 * made - the sink keeps it. Otherwise the stream is handed it between dhowi_stream_begin() and
 * dhowi_stream_end(): a stream that records a graph has the driver keep it and notes the storages,
 * any other waits for what the storages ask for and runs it.
 */
#ifndef DHOWI_STREAM_SUBMIT_H_
#define DHOWI_STREAM_SUBMIT_H_

#include "memory/sink.h"
#include "stream/span.h"

/* The call of the plugin alone; of plans, which keep work and order it themselves. */
static inline int32_t dhowi_work_run(const dhowi_work *work, dhow_device *device, void *stream,
                                     dhow_error *err) {
    switch (work->kind) {
        case DHOWI_WORK_LAUNCH:
            return device->api->launch(stream, work->u.launch.native, work->u.launch.geometry,
                                       work->u.launch.args, work->u.launch.count, err);
        case DHOWI_WORK_COPY:
            return device->api->copy(stream, work->u.copy, err);
        case DHOWI_WORK_FILL:
            return device->api->fill(stream, work->u.fill.to.handle, work->u.fill.to.offset,
                                     work->u.fill.bytes, work->u.fill.pattern,
                                     work->u.fill.pattern_bytes, err);
        case DHOWI_WORK_VENDOR: {
            const dhow_buffer *b = work->u.vendor.buffers;
            return work->u.vendor.run(work->u.vendor.plan, stream, b[0], b[1], b[2], b[3], b[4],
                                      b[5], err);
        }
        default:
            return work->u.call.run(work->u.call.user, device, stream, err);
    }
}

__attribute__((cold)) dhow_status dhowi_launch_to_sink(const char *name, void *native,
                                                       const dhow_geometry *geometry,
                                                       const dhow_arg *args, uint32_t arg_count);
/* By value: the work of a caller whose address nobody takes needs no memory. */
__attribute__((cold)) dhow_status dhowi_submit_to_sink(dhowi_work work);

/* Notes what the plugin has answered. */
static inline dhow_status dhowi_submitted(dhow_stream *stream, const dhowi_use *uses,
                                          uint32_t use_count, int32_t code, dhow_error *err,
                                          const char *what) {
    (void)dhowi_stream_end(stream, uses, use_count, (dhow_status)code);
    return code == DHOW_OK ? DHOW_OK : dhowi_device_failed(stream->device, err, code, what);
}

/* A failure names work->what. */
static inline dhow_status dhowi_submit(dhow_stream *stream, const dhowi_work *work,
                                       const dhowi_use *uses, uint32_t use_count) {
    dhow_error err;
    if (dhowi_thread_sink != NULL) return dhowi_submit_to_sink(*work);
    DHOWI_TRY(dhowi_stream_begin(stream, uses, use_count));
    dhowi_error_init(&err);
    dhowi_span_begin(stream, work->traced, work->name, work->bytes, work->path);
    const int32_t code = dhowi_work_run(work, stream->device, stream->native, &err);
    return dhowi_submitted(stream, uses, use_count, code, &err, work->what);
}

/* The same of a launch, of which small ones are most of an eager program's time: to make and clear
 * a dhowi_work alone takes a tenth of an addition of 16 floats. */
__attribute__((always_inline)) static inline dhow_status dhowi_submit_launch(
    dhow_stream *stream, const char *name, void *native, const dhow_geometry *geometry,
    const dhow_arg *args, uint32_t arg_count, const dhowi_use *uses, uint32_t use_count) {
    dhow_error err;
    if (dhowi_thread_sink != NULL)
        return dhowi_launch_to_sink(name, native, geometry, args, arg_count);
    DHOWI_TRY(dhowi_stream_begin(stream, uses, use_count));
    dhowi_error_init(&err);
    dhowi_span_begin(stream, DHOWI_TRACE_KERNEL, name, 0, NULL);
    const int32_t code =
        stream->device->api->launch(stream->native, native, geometry, args, arg_count, &err);
    return dhowi_submitted(stream, uses, use_count, code, &err, name);
}

#endif /* DHOWI_STREAM_SUBMIT_H_ */
