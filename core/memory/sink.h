/* SPDX-License-Identifier: Apache-2.0
 *
 * Work for a device as data, and where the submissions of a thread go: to the device, or to a sink
 * that the thread has set, which keeps them - a plan of a model is made that way, see
 * model/plan/record.h. stream/submit.h chooses; storages that are made meanwhile are the sink's as
 * well.
 */
#ifndef DHOWI_MEMORY_SINK_H_
#define DHOWI_MEMORY_SINK_H_

#include "base/trace/trace.h"
#include "memory/storage.h"

/* run() of dhow_blas and dhow_conv. */
typedef int32_t dhowi_vendor_run_fn(void *plan, void *stream, dhow_buffer a, dhow_buffer b,
                                    dhow_buffer c, dhow_buffer bias, dhow_buffer residual,
                                    dhow_buffer workspace, dhow_error *err);

typedef enum dhowi_work_kind {
    DHOWI_WORK_LAUNCH,
    DHOWI_WORK_COPY,
    DHOWI_WORK_FILL,
    DHOWI_WORK_VENDOR,
    DHOWI_WORK_CALL /* of another slot of the plugin; no sink takes it */
} dhowi_work_kind;

/* What it points to is the caller's, and needed no more after the submission. */
typedef struct dhowi_work {
    dhowi_work_kind kind;
    dhowi_trace_kind traced;
    const char *name, *what; /* in traces, in failures */
    uint64_t bytes;          /* in traces, with a path, of copies and fills */
    const char *path;
    union {
        struct {
            void *native;
            const dhow_geometry *geometry;
            const dhow_arg *args;
            uint32_t count;
        } launch;
        const dhow_copy_rect *copy;
        struct {
            dhow_buffer to;
            uint64_t bytes, pattern;
            uint32_t pattern_bytes;
        } fill;
        struct {
            dhowi_vendor_run_fn *run;
            void *plan;
            const dhow_buffer *buffers; /* 6, as run() takes them */
            /* For a sink: makes what keeps alive what the call uses, and is dropped by drop(). */
            dhow_status (*keep)(const void *user, void **out_owner);
            void (*drop)(void *owner);
            const void *user;
        } vendor;
        struct {
            int32_t (*run)(const void *user, dhow_device *device, void *stream, dhow_error *err);
            const void *user;
        } call;
    } u;
} dhowi_work;

typedef struct dhowi_sink dhowi_sink;
struct dhowi_sink {
    dhow_device *device; /* whose storages are the sink's; others are made as ever */
    dhow_status (*storage)(dhowi_sink *sink, uint64_t bytes, dhowi_storage **out);
    dhow_status (*take)(dhowi_sink *sink, const dhowi_work *work);
};

/* The calling thread's, or NULL; base/errors/log.c has it, since a log function is no part of it.
 */
extern _Thread_local dhowi_sink *dhowi_thread_sink;

/* Sets the thread's sink and returns the one before. */
static inline dhowi_sink *dhowi_sink_set(dhowi_sink *sink) {
    dhowi_sink *before = dhowi_thread_sink;
    dhowi_thread_sink = sink;
    return before;
}

#endif /* DHOWI_MEMORY_SINK_H_ */
