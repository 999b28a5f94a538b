/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans: one piece of work as a trace sees it. The host's clock is read before and after the call;
 * devices that work on their own are asked for the time between two events beside it, once that
 * has passed. While nothing is traced a span is one relaxed load.
 */
#ifndef DHOWI_STREAM_SPAN_H_
#define DHOWI_STREAM_SPAN_H_

#include "stream/stream.h"

/* ---- work of a stream, under its mutex ---- */

/* Of the piece of work that the thread has handed to a stream of the host, which has no lock. */
extern _Thread_local dhowi_span dhowi_host_span;
static inline dhowi_span *dhowi_stream_span(dhow_stream *stream) {
    return dhowi_device_is_host(stream->device) ? &dhowi_host_span : &stream->span;
}

void dhowi_span_open(dhow_stream *stream, dhowi_trace_kind kind, const char *name, uint64_t bytes,
                     const char *path);
void dhowi_span_close(dhow_stream *stream);

/* Begins a span that dhowi_stream_end(), or the next one, ends. `name` is copied; `path`, of
 * copies, is static text or NULL. */
static inline void dhowi_span_begin(dhow_stream *stream, dhowi_trace_kind kind, const char *name,
                                    uint64_t bytes, const char *path) {
    if (dhowi_tracing(stream->device->context)) dhowi_span_open(stream, kind, name, bytes, path);
}
static inline void dhowi_span_end(dhow_stream *stream) {
    if (DHOWI_TRACE_HOOKS && __builtin_expect(dhowi_stream_span(stream)->record != NULL, 0))
        dhowi_span_close(stream);
}

/* ---- what the host does itself ---- */

/* When something began: 0 while nothing is traced. */
static inline int64_t dhowi_host_span_begin(const dhow_context *context) {
    return dhowi_tracing(context) ? dhowi_trace_now() : 0;
}
void dhowi_host_span_end(dhow_context *context, int64_t begin, dhowi_trace_kind kind,
                         const char *name, uint64_t bytes, const char *path);

#endif /* DHOWI_STREAM_SPAN_H_ */
