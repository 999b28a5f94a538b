/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams inside core. Every piece of work is handed in between dhowi_stream_begin() and
 * dhowi_stream_end(), which insert the waits that the storages ask for and leave the timepoints for
 * those who follow.
 */
#ifndef DHOWI_STREAM_STREAM_H_
#define DHOWI_STREAM_STREAM_H_

#include "dhow/stream.h"
#include "memory/storage.h"

enum { DHOWI_MAX_ATTACHED = 4, DHOWI_STREAM_EVENTS = 8 };

/* Work of another timeline that belongs to a stream's order: later work of the stream comes after
 * it. */
typedef struct dhowi_attached {
    dhowi_timepoint point;
    bool awaited; /* the stream already waits for it on the device */
} dhowi_attached;

/* An event recorded in a stream, for other streams to wait for. */
typedef struct dhowi_stream_event {
    void *event;     /* NULL: none yet */
    uint64_t number; /* the work it comes after */
} dhowi_stream_event;

/* The piece of work that a trace is being told of, see span.h. */
typedef struct dhowi_span {
    dhowi_trace_record *record; /* NULL: none */
    struct dhowi_timer *timer;  /* NULL: the device's time is not measured */
} dhowi_span;

struct dhow_stream {
    dhowi_handle handle;
    dhowi_timeline timeline; /* numbers change under the mutex */
    dhow_device *device;
    void *native;
    uint32_t number;                                /* within the device, in the order of making */
    _Atomic uint32_t lane;                          /* of the host queue, + 1; 0: none yet */
    pthread_mutex_t mutex;                          /* one submission at a time */
    dhowi_span span;                                /* not of the host, see dhowi_stream_span() */
    dhowi_stream_event events[DHOWI_STREAM_EVENTS]; /* the latest ones; change under the mutex */
    pthread_mutex_t
        state; /* attached timepoints and failure; never held during a call of the plugin */
    dhowi_attached attached[DHOWI_MAX_ATTACHED];
    _Atomic uint32_t attached_count;
    atomic_bool failed; /* `failure` is set and not yet reported */
    dhowi_saved_error failure;
    bool wrapped; /* the program's queue, into which it hands work of its own */
    bool owned;   /* by the device: holds no context reference */
    struct dhowi_recorded_uses *recording; /* of a graph, see graph.c; NULL: work is run */
    struct dhow_stream *previous, *next;
};

typedef struct dhowi_device_streams {
    pthread_mutex_t mutex;
    dhow_stream *all;
    dhow_stream *never_done; /* ended after the device was lost */
    uint32_t made;
    _Atomic(dhow_stream *) default_stream; /* the default stream */
    _Atomic int host_events; /* 0: not tried, 1: the device has them, -1: it has not */
} dhowi_device_streams;

struct dhow_event {
    dhowi_handle handle;
    dhow_device *device;
    void *native;
    bool timing;
    atomic_bool recorded;
    pthread_mutex_t
        mutex; /* guards the latest record: the driver's, its timepoint and its number */
    dhowi_timepoint point;
    uint64_t records;
};

/* NULL stands for the device's default stream; another stream must belong to the device. */
dhow_status dhowi_stream_resolve(dhow_stream *stream, dhow_device *device, const char *function,
                                 dhow_stream **out);
dhow_status dhowi_stream_default(dhow_device *device, dhow_stream **out);
/* A stream of copies that the device owns and ends: for the copy engine. */
dhow_status dhowi_stream_create_owned(dhow_device *device, dhow_stream **out);

/* Waits for what the uses ask for and locks the stream, but for a stream of the host: what it was
 * handed is done when the call returns, so threads that share it need not wait for each other.
 * After OK, dhowi_stream_end() must follow. */
dhow_status dhowi_stream_begin(dhow_stream *stream, const dhowi_use *uses, uint32_t count);
/* Notes the work, if it was handed in, and unlocks. Returns `submitted`. */
dhow_status dhowi_stream_end(dhow_stream *stream, const dhowi_use *uses, uint32_t count,
                             dhow_status submitted);

/* ---- queues of the program, see native.c ---- */

/* A stream over the program's queue. With `briefly` set only the calling thread uses it, and work
 * of the program's own is not waited for when it ends. */
dhow_status dhowi_stream_wrap(dhow_device *device, uint64_t native, bool briefly,
                              dhow_stream **out);
/* Work that the program may have handed to its queue counts as work of the stream from now on. */
static inline void dhowi_stream_count_foreign(dhow_stream *stream) {
    if (!stream->wrapped) return;
    pthread_mutex_lock(&stream->mutex);
    atomic_fetch_add(&stream->timeline.submitted, 1);
    pthread_mutex_unlock(&stream->mutex);
}

/* ---- the life of streams, see life.c ---- */

dhow_status dhowi_stream_new(dhow_device *device, dhowi_device_streams *streams, uint32_t flags,
                             dhow_stream **out);
/* The same around a stream of the plugin, which becomes its own; unless this fails. */
dhow_status dhowi_stream_adopt(dhow_device *device, dhowi_device_streams *streams, void *native,
                               bool wrapped, dhow_stream **out);
dhowi_device_streams *dhowi_device_streams_of(dhow_device *device);
/* The stream that a timeline is of; NULL for one of the host queue. */
dhow_stream *dhowi_stream_of(dhowi_timeline *timeline);
/* The stream of a timepoint, retained; NULL when the timepoint is done, or never will be, or is of
 * the host queue. A stream on its way out finishes its work before its timepoints are done. */
dhow_stream *dhowi_stream_hold(dhowi_timepoint point);
/* The failure of waiting for what a lost device never did. */
dhow_status dhowi_stream_never_done(void);
/* Blocks until the stream has done the work `number`; the caller keeps the stream alive. */
dhow_status dhowi_stream_wait_held(dhow_stream *stream, uint64_t number);
/* Blocks until the stream is idle and reports its first failure. */
dhow_status dhowi_stream_sync(dhow_stream *stream);
/* The wait of a stream's timeline: blocks, and leaves a failure to the stream's sync as well. */
dhow_status dhowi_stream_wait_number(dhowi_timeline *timeline, uint64_t number);
/* Whether the device of a stream's timeline is still there, asked of its driver without blocking.
 */
dhow_status dhowi_stream_ask(dhowi_timeline *timeline);

/* ---- attached timepoints and failures, see attached.c ---- */

/* Work elsewhere that later work of the stream comes after. */
void dhowi_stream_attach(dhow_stream *stream, dhowi_timepoint point);
/* The attached timepoints that are not done; returns how many. */
uint32_t dhowi_stream_attached(dhow_stream *stream, dhowi_timepoint points[DHOWI_MAX_ATTACHED]);
/* The first timepoint that the stream does not wait for yet; NULL timeline when there is none. */
dhowi_timepoint dhowi_stream_next_attached(dhow_stream *stream);
void dhowi_stream_set_awaited(dhow_stream *stream, dhowi_timepoint point);
/* A failure of background work, to be reported by the next wait on the stream. */
void dhowi_stream_fail(dhow_stream *stream, const dhowi_saved_error *failure);
dhow_status dhowi_stream_take_failure(dhow_stream *stream);

/* ---- recording a graph, see submit.c and graph.c ---- */

typedef struct dhowi_recorded_uses {
    dhowi_use *uses;
    uint32_t count, capacity;
    bool short_of_memory;
} dhowi_recorded_uses;

/* The device's dhow.graph/1, or NULL. */
const dhow_capture *dhowi_capture_of(dhow_device *device);
/* While the stream records: notes what a submission uses, and returns true. */
bool dhowi_stream_note_uses(dhow_stream *stream, const dhowi_use *uses, uint32_t count);
/* UNSUPPORTED while the stream records: "<what> cannot be recorded in a graph". */
dhow_status dhowi_stream_refuse_recording(const dhow_stream *stream, const char *what);

/* ---- waiting, see wait.c ---- */

/* Makes later work of the stream wait: on the device where that is possible, else on the host. */
dhow_status dhowi_stream_wait_timepoint(dhow_stream *stream, dhowi_timepoint point);
/* Records an event behind the timepoint now, unless one is there, so that whoever waits for the
 * timepoint later does not wait for what the stream is given meanwhile. */
dhow_status dhowi_stream_ensure_event(dhowi_timepoint point);
/* The same for an event of `device`, recorded at `timepoint`: exact where the backends are the
 * same. */
dhow_status dhowi_stream_wait_event(dhow_stream *stream, dhow_device *device, void *event,
                                    dhowi_timepoint point);
/* The same for all that `other` was given so far. */
dhow_status dhowi_stream_follow(dhow_stream *stream, dhow_stream *other);
/* Makes later work of the stream wait for all attached timepoints. */
dhow_status dhowi_stream_wait_attached(dhow_stream *stream);

/* A timepoint that a job of the host queue can wait for. Waiting for a stream means waiting for
 * everything in it, also for what is held back until a later job of the queue - which would never
 * come. So an event is recorded when the job is made. */
typedef struct dhowi_fence {
    dhowi_timepoint point;
    dhow_stream *stream; /* retained, or NULL */
    void *event;
    uint64_t number; /* what the event stands for */
} dhowi_fence;

/* Blocks instead where no event is to be had. */
dhow_status dhowi_fence_init(dhowi_fence *fence, dhowi_timepoint point);
dhow_status dhowi_fence_wait(dhowi_fence *fence);
void dhowi_fence_end(dhowi_fence *fence);

/* The present end of the stream. */
static inline dhowi_timepoint dhowi_stream_tail(dhow_stream *stream) {
    return (dhowi_timepoint){
        &stream->timeline, atomic_load_explicit(&stream->timeline.submitted, memory_order_acquire)};
}

#endif /* DHOWI_STREAM_STREAM_H_ */
