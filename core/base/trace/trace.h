/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of a trace, in one array that threads fill without a lock, and the file made of them.
 */
#ifndef DHOWI_BASE_TRACE_H_
#define DHOWI_BASE_TRACE_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errors/error.h"

/* X(NAME, the category in the file) */
#define DHOWI_TRACE_MAP(X) \
    X(KERNEL, "kernel")    \
    X(COPY, "copy")        \
    X(CHUNK, "chunk")      \
    X(FILL, "fill")        \
    X(STEP, "step")        \
    X(GRAPH, "graph")      \
    X(WAIT, "wait")        \
    X(MEMORY, "memory")    \
    X(REGION, "region")    \
    X(DATA, "data")

typedef enum dhowi_trace_kind {
#define DHOWI_TRACE_ENUM_(name, text) DHOWI_TRACE_##name,
    DHOWI_TRACE_MAP(DHOWI_TRACE_ENUM_) DHOWI_TRACE_KINDS
#undef DHOWI_TRACE_ENUM_
} dhowi_trace_kind;

enum { DHOWI_TRACE_HOST = UINT16_MAX }; /* no device: the calling thread's track */

typedef struct dhowi_trace_record {
    atomic_bool ready; /* the rest may be read */
    uint8_t kind;
    uint16_t device; /* its place in the context's list, or DHOWI_TRACE_HOST */
    uint32_t stream, thread;
    int64_t begin, end;               /* of the call, nanoseconds */
    int64_t device_begin, device_end; /* on the same clock; 0: not known */
    uint64_t bytes;                   /* moved, or live in MEMORY records */
    const char
        *path; /* of a copy, or what a step gives: static text, of dhowi_trace_keep(), or NULL */
    char name[56];
} dhowi_trace_record;

enum { DHOWI_TRACE_CHAINS = 256 };
typedef struct dhowi_trace_text dhowi_trace_text;

typedef struct dhowi_trace {
    uint64_t capacity;
    _Atomic uint64_t count; /* also of those that were dropped */
    _Atomic uint64_t untimed;
    atomic_flag lock; /* texts */
    dhowi_trace_text *texts[DHOWI_TRACE_CHAINS];
    dhowi_trace_record records[];
} dhowi_trace;

int64_t dhowi_trace_now(void);
dhowi_trace *dhowi_trace_new(uint64_t capacity);
void dhowi_trace_free(dhowi_trace *trace);
/* The same text, which lives as long as the trace; NULL without memory. */
const char *dhowi_trace_keep(dhowi_trace *trace, const char *text);
/* A record to be filled in and marked ready, or NULL when there is no room. Its thread and name are
 * set. */
dhowi_trace_record *dhowi_trace_add(dhowi_trace *trace, dhowi_trace_kind kind, uint16_t device,
                                    const char *name);
static inline void dhowi_trace_done(dhowi_trace_record *record) {
    atomic_store_explicit(&record->ready, true, memory_order_release);
}
/* In the "JSON Array/Object" format of Chrome's Trace Event Format. A host track per thread and a
 * track per stream of each device. */
dhow_status dhowi_trace_write(const dhowi_trace *trace, const char *path,
                              const char *const *device_names, uint32_t device_count);

#endif /* DHOWI_BASE_TRACE_H_ */
