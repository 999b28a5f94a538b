/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams inside core. Every piece of work is handed in between dhowi_stream_begin() and
 * dhowi_stream_end(), which insert the waits that the storages ask for and leave the marks for
 * those who follow.
 */
#ifndef DHOWI_STREAM_STREAM_H_
#define DHOWI_STREAM_STREAM_H_

#include "dhow/stream.h"
#include "memory/storage.h"

struct dhow_stream {
    dhowi_handle handle;
    dhowi_timeline timeline; /* numbers change under the mutex */
    dhow_device *device;
    void *native;
    pthread_mutex_t mutex; /* one submission at a time */
    void *mark_event;      /* recorded after the work `mark_number`, for streams that wait */
    uint64_t mark_number;
    _Atomic(dhowi_timeline *) attached; /* host-queue work that belongs to this stream's order */
    _Atomic uint64_t attached_number;
    atomic_bool failed; /* `failure` is set and not yet reported */
    dhowi_saved_error failure;
    bool owned; /* by the device: holds no context reference */
    struct dhow_stream *previous, *next;
};

struct dhow_event {
    dhowi_handle handle;
    dhow_device *device;
    void *native;
    bool timing;
    pthread_mutex_t mutex; /* mark */
    dhowi_mark mark;       /* of the latest record */
};

/* NULL stands for the device's default stream; another stream must belong to the device. */
dhow_status dhowi_stream_resolve(dhow_stream *stream, dhow_device *device, const char *function,
                                 dhow_stream **out);
dhow_status dhowi_stream_default(dhow_device *device, dhow_stream **out);
/* A stream that the device owns and ends: for the copy engine. */
dhow_status dhowi_stream_create_owned(dhow_device *device, dhow_stream **out);

/* Waits for what the uses ask for and locks the stream. After OK, dhowi_stream_end() must follow.
 */
dhow_status dhowi_stream_begin(dhow_stream *stream, const dhowi_use *uses, uint32_t count);
/* Notes the work, if it was handed in, and unlocks. Returns `submitted`. */
dhow_status dhowi_stream_end(dhow_stream *stream, const dhowi_use *uses, uint32_t count,
                             dhow_status submitted);

/* Makes later work of the stream wait: on the device where that is possible, else on the host. */
dhow_status dhowi_stream_wait_mark(dhow_stream *stream, dhowi_mark mark);
/* The same for an event of `device`, recorded at `mark`: exact where the backends are the same. */
dhow_status dhowi_stream_wait_event(dhow_stream *stream, dhow_device *device, void *event,
                                    dhowi_mark mark);
/* Work of the host queue that later work of the stream comes after. */
void dhowi_stream_attach(dhow_stream *stream, dhowi_mark mark);
/* A failure of background work, to be reported by the next wait on the stream. */
void dhowi_stream_fail(dhow_stream *stream, const dhowi_saved_error *failure);
/* The present end of the stream. */
static inline dhowi_mark dhowi_stream_tail(dhow_stream *stream) {
    return (dhowi_mark){&stream->timeline,
                        atomic_load_explicit(&stream->timeline.submitted, memory_order_acquire)};
}

#endif /* DHOWI_STREAM_STREAM_H_ */
