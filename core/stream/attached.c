/* SPDX-License-Identifier: Apache-2.0
 *
 * Work elsewhere that belongs to the order of a stream, and failures that are left to its next
 * wait.
 */
#include "stream/stream.h"

void dhowi_stream_fail(dhow_stream *stream, const dhowi_saved_error *failure) {
    pthread_mutex_lock(&stream->state);
    if (!atomic_load(&stream->failed)) {
        stream->failure = *failure;
        atomic_store(&stream->failed, true);
    }
    pthread_mutex_unlock(&stream->state);
}

dhow_status dhowi_stream_take_failure(dhow_stream *stream) {
    if (!atomic_load_explicit(&stream->failed, memory_order_acquire)) return DHOW_OK;
    pthread_mutex_lock(&stream->state);
    dhowi_saved_error failure = stream->failure;
    bool failed = atomic_exchange(&stream->failed, false);
    pthread_mutex_unlock(&stream->state);
    return failed ? dhowi_error_raise(&failure) : DHOW_OK;
}

/* Whether it needs no more looking at: it is done, or it never will be and the stream was told. */
static bool is_over(const dhowi_attached *a) {
    return dhowi_timepoint_done(a->point) ||
           (a->awaited && dhowi_timeline_is_lost(a->point.timeline));
}

/* Under `state`: forgets what is over. */
static void settle(dhow_stream *stream) {
    uint32_t kept = 0, count = atomic_load(&stream->attached_count);
    for (uint32_t i = 0; i < count; i++) {
        if (!is_over(&stream->attached[i])) stream->attached[kept++] = stream->attached[i];
    }
    atomic_store(&stream->attached_count, kept);
}

void dhowi_stream_attach(dhow_stream *stream, dhowi_timepoint point) {
    if (dhowi_timepoint_done(point)) return;
    dhowi_timepoint oldest = {NULL, 0};
    pthread_mutex_lock(&stream->state);
    settle(stream);
    uint32_t i = 0, count = atomic_load(&stream->attached_count);
    while (i < count && stream->attached[i].point.timeline != point.timeline) i++;
    if (i == DHOWI_MAX_ATTACHED) {
        i = 0;
        oldest = stream->attached[0].point;
    } else if (i == count) {
        atomic_store(&stream->attached_count, count + 1);
    }
    stream->attached[i] = (dhowi_attached){.point = point};
    pthread_mutex_unlock(&stream->state);
    /* Its failure is reported where it is synced. */
    if (oldest.timeline != NULL) (void)oldest.timeline->wait(oldest.timeline, oldest.number);
}

uint32_t dhowi_stream_attached(dhow_stream *stream, dhowi_timepoint points[DHOWI_MAX_ATTACHED]) {
    if (atomic_load_explicit(&stream->attached_count, memory_order_relaxed) == 0) return 0;
    pthread_mutex_lock(&stream->state);
    settle(stream);
    uint32_t count = atomic_load(&stream->attached_count);
    for (uint32_t i = 0; i < count; i++) points[i] = stream->attached[i].point;
    pthread_mutex_unlock(&stream->state);
    return count;
}

dhowi_timepoint dhowi_stream_next_attached(dhow_stream *stream) {
    dhowi_timepoint found = {NULL, 0};
    pthread_mutex_lock(&stream->state);
    settle(stream);
    uint32_t count = atomic_load(&stream->attached_count);
    for (uint32_t i = 0; i < count && found.timeline == NULL; i++) {
        if (!stream->attached[i].awaited) found = stream->attached[i].point;
    }
    pthread_mutex_unlock(&stream->state);
    return found;
}

void dhowi_stream_set_awaited(dhow_stream *stream, dhowi_timepoint point) {
    pthread_mutex_lock(&stream->state);
    for (uint32_t i = 0; i < atomic_load(&stream->attached_count); i++) {
        dhowi_attached *a = &stream->attached[i];
        if (a->point.timeline == point.timeline && a->point.number == point.number)
            a->awaited = true;
    }
    pthread_mutex_unlock(&stream->state);
}
