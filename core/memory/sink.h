/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the submissions of a thread go: to the device, or to a sink that the thread has set, which
 * keeps them - a plan of a model is made that way, see model/plan/record.h. Those who hand in work
 * ask for the sink first; storages that are made meanwhile are the sink's as well.
 */
#ifndef DHOWI_MEMORY_SINK_H_
#define DHOWI_MEMORY_SINK_H_

#include "memory/storage.h"

/* run() of dhow_blas and dhow_conv. */
typedef int32_t dhowi_vendor_run_fn(void *plan, void *stream, dhow_buffer a, dhow_buffer b,
                                    dhow_buffer c, dhow_buffer bias, dhow_buffer residual,
                                    dhow_buffer workspace, dhow_error *err);

typedef struct dhowi_sink dhowi_sink;
struct dhowi_sink {
    dhow_device *device; /* whose storages are the sink's; others are made as ever */
    dhow_status (*storage)(dhowi_sink *sink, uint64_t bytes, dhowi_storage **out);
    dhow_status (*launch)(dhowi_sink *sink, void *native, const dhow_geometry *geometry,
                          const dhow_arg *args, uint32_t count);
    dhow_status (*copy)(dhowi_sink *sink, const dhow_copy_rect *rect);
    dhow_status (*fill)(dhowi_sink *sink, dhow_buffer to, uint64_t bytes, uint64_t pattern,
                        uint32_t pattern_bytes);
    /* `owner` keeps alive what the call uses; it becomes the sink's, which drops it, unless this
     * fails. */
    dhow_status (*vendor)(dhowi_sink *sink, dhowi_vendor_run_fn *run, void *plan,
                          const dhow_buffer buffers[6], void *owner, void (*drop)(void *owner));
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
