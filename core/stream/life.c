/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of streams: a stream is waited for before it ends, and whoever waits for one keeps it
 * alive meanwhile. Marks outlive the streams they name, so whoever waits first takes hold of the
 * stream.
 */
#include <stddef.h>
#include <stdio.h>

#include "base/memory/alloc.h"
#include "stream/span.h"

dhow_stream *dhowi_stream_of(dhowi_timeline *timeline) {
    if (timeline->wait != dhowi_stream_wait_number) return NULL;
    return (dhow_stream *)(void *)((char *)timeline - offsetof(dhow_stream, timeline));
}

dhow_stream *dhowi_stream_hold(dhowi_timepoint point) {
    while (!dhowi_timepoint_done(point)) {
        dhow_stream *stream = dhowi_stream_of(point.timeline);
        if (stream == NULL) return NULL;
        if (!dhowi_handle_try_retain(&stream->handle)) {
            if (!dhowi_timeline_await_end(point)) return NULL;
        } else if (dhowi_timepoint_done(point)) { /* perhaps another stream in the same memory */
            dhow_stream_release(stream);
        } else {
            return stream;
        }
    }
    return NULL;
}

dhow_status dhowi_stream_never_done(void) {
    return dhowi_fail(DHOW_DEVICE_LOST, "the device that was to make these values is lost");
}

static void end_wait(const dhow_device *device, int64_t begin) {
    char name[48];
    if (begin == 0) return;
    (void)snprintf(name, sizeof name, "wait for %s", device->name);
    dhowi_host_span_end(device->context, begin, DHOWI_TRACE_WAIT, name, 0, NULL);
}

dhow_status dhowi_stream_wait_held(dhow_stream *stream, uint64_t number) {
    dhowi_timeline *timeline = &stream->timeline;
    if (atomic_load_explicit(&timeline->completed, memory_order_acquire) >= number) return DHOW_OK;
    DHOWI_TRY(dhowi_device_usable(stream->device));
    uint64_t tail = dhowi_stream_tail(stream).number;
    dhow_error err;
    dhowi_error_init(&err);
    int64_t begin = dhowi_host_span_begin(stream->device->context);
    int32_t code = stream->device->api->stream_sync(stream->native, &err);
    end_wait(stream->device, begin);
    if (code == DHOW_OK) {
        dhowi_timeline_complete(timeline, tail);
        return DHOW_OK;
    }
    dhow_status status =
        dhowi_device_failed(stream->device, &err, code, "work submitted before failed");
    dhowi_saved_error failure;
    dhowi_error_save(&failure, status);
    /* The driver tells it once; whoever syncs the stream shall hear it, too. */
    if (status != DHOW_DEVICE_LOST) {
        dhowi_stream_fail(stream, &failure);
        /* Failed work is over, too; but perhaps it was the wait that failed. */
        if (stream->device->api->stream_query(stream->native, &err) == DHOW_OK)
            dhowi_timeline_complete(timeline, tail);
    }
    return status;
}

dhow_status dhowi_stream_wait_number(dhowi_timeline *timeline, uint64_t number) {
    const dhowi_timepoint point = {timeline, number};
    dhow_stream *stream = dhowi_stream_hold(point);
    if (stream == NULL) return dhowi_timepoint_done(point) ? DHOW_OK : dhowi_stream_never_done();
    dhow_status status = dhowi_stream_wait_held(stream, number);
    dhow_stream_release(stream);
    return status;
}

dhow_status dhowi_stream_ask(dhowi_timeline *timeline) {
    dhow_stream *stream = dhowi_stream_of(timeline);
    if (!dhowi_handle_try_retain(&stream->handle))
        return dhowi_timeline_is_lost(timeline) ? dhowi_stream_never_done() : DHOW_OK;
    const dhow_plugin *api = stream->device->api;
    dhow_status status = dhowi_device_usable(stream->device);
    dhow_error err;
    dhowi_error_init(&err);
    pthread_mutex_lock(&stream->mutex);
    int32_t code = DHOW_OK;
    for (int i = 0; i < DHOWI_STREAM_EVENTS && code != DHOW_DEVICE_LOST; i++)
        if (stream->events[i].event != NULL) code = api->event_query(stream->events[i].event, &err);
    pthread_mutex_unlock(&stream->mutex);
    if (status == DHOW_OK && code == DHOW_DEVICE_LOST)
        status = dhowi_device_failed(stream->device, &err, code, "work submitted before failed");
    dhow_stream_release(stream);
    return status;
}

dhow_status dhowi_stream_sync(dhow_stream *stream) {
    dhowi_stream_count_foreign(stream);
    dhowi_timepoint attached[DHOWI_MAX_ATTACHED];
    uint32_t count = dhowi_stream_attached(stream, attached);
    dhow_status status = DHOW_OK;
    dhowi_saved_error first;
    for (uint32_t i = 0; i < count; i++) {
        dhow_status one = attached[i].timeline->wait(attached[i].timeline, attached[i].number);
        if (one != DHOW_DEVICE_LOST) continue; /* what failed was also left to this stream */
        dhowi_stream_set_awaited(stream, attached[i]);
        if (status == DHOW_OK) dhowi_error_save(&first, status = one);
    }
    dhow_status own = dhowi_stream_wait_held(stream, dhowi_stream_tail(stream).number);
    if (status == DHOW_OK && own != DHOW_OK) dhowi_error_save(&first, status = own);
    dhow_status left = dhowi_stream_take_failure(stream);
    return status != DHOW_OK ? dhowi_error_raise(&first) : left;
}

dhow_status dhowi_stream_new(dhow_device *device, dhowi_device_streams *streams, uint32_t flags,
                             dhow_stream **out) {
    dhow_error err;
    dhowi_error_init(&err);
    void *native = NULL;
    int32_t code = device->api->stream_create(dhowi_device_native(device), flags, &native, &err);
    if (code != DHOW_OK) return dhowi_device_failed(device, &err, code, "creating a stream");
    dhow_status status = dhowi_stream_adopt(device, streams, native, false, out);
    if (status != DHOW_OK) device->api->stream_destroy(native);
    return status;
}

dhow_status dhowi_stream_adopt(dhow_device *device, dhowi_device_streams *streams, void *native,
                               bool wrapped, dhow_stream **out) {
    /* Old timepoints may still point here, and must find a timeline. */
    dhow_stream *s =
        dhowi_handle_new_keeping(DHOWI_STREAM, sizeof *s, offsetof(dhow_stream, device));
    if (s == NULL) return dhowi_fail_memory("stream");
    s->native = native;
    s->wrapped = wrapped;
    s->device = device;
    pthread_mutex_init(&s->mutex, NULL);
    pthread_mutex_init(&s->state, NULL);
    dhowi_timeline_start(&s->timeline, dhowi_stream_wait_number, dhowi_stream_ask, &device->lost);
    pthread_mutex_lock(&streams->mutex);
    s->number = streams->made++;
    s->next = streams->all;
    if (s->next != NULL) s->next->previous = s;
    streams->all = s;
    pthread_mutex_unlock(&streams->mutex);
    *out = s;
    return DHOW_OK;
}

/* Marks that it left behind are done, and its memory is fit for another stream. */
static void forget_stream(dhow_stream *s) {
    dhowi_timeline_retire(&s->timeline);
    dhowi_handle_free(DHOWI_STREAM, s);
}

static void end_stream(dhow_stream *s, dhowi_device_streams *streams) {
    (void)dhowi_stream_sync(s); /* nobody is left to hear of a failure */
    pthread_mutex_lock(&streams->mutex);
    if (s->previous != NULL) s->previous->next = s->next;
    if (s->next != NULL) s->next->previous = s->previous;
    if (streams->all == s) streams->all = s->next;
    pthread_mutex_unlock(&streams->mutex);
    for (int i = 0; i < DHOWI_STREAM_EVENTS; i++)
        if (s->events[i].event != NULL) s->device->api->event_destroy(s->events[i].event);
    s->device->api->stream_destroy(s->native);
    pthread_mutex_destroy(&s->mutex);
    pthread_mutex_destroy(&s->state);
    if (!atomic_load(&s->device->lost)) {
        forget_stream(s);
        return;
    }
    /* What the device never did is missing as long as the device lasts. */
    dhowi_handle_end(s);
    pthread_mutex_lock(&streams->mutex);
    s->next = streams->never_done;
    streams->never_done = s;
    pthread_mutex_unlock(&streams->mutex);
    dhowi_timeline_give_up(&s->timeline);
}

static void *make_streams(dhow_device *device) {
    (void)device;
    dhowi_device_streams *streams = dhowi_alloc(sizeof *streams);
    if (streams == NULL) {
        (void)dhowi_fail_memory("streams");
        return NULL;
    }
    pthread_mutex_init(&streams->mutex, NULL);
    return streams;
}

static void end_streams(void *device, void *data) {
    (void)device;
    dhowi_device_streams *streams = data;
    while (streams->all != NULL) end_stream(streams->all, streams);
    for (dhow_stream *next, *s = streams->never_done; s != NULL; s = next) {
        next = s->next;
        forget_stream(s);
    }
    pthread_mutex_destroy(&streams->mutex);
    dhowi_free(streams);
}

dhowi_device_streams *dhowi_device_streams_of(dhow_device *device) {
    return dhowi_device_attach(device, DHOWI_ATTACH_STREAMS, make_streams, end_streams);
}

void dhow_stream_release(dhow_stream *stream) {
    DHOWI_KEEP_ERROR;
    if (!dhowi_handle_is(stream, DHOWI_STREAM) || !dhowi_handle_drop(&stream->handle)) return;
    dhow_context *context = stream->device->context;
    bool forked = stream->device->fork_generation != dhowi_fork_generation();
    if (stream->owned) { /* the device's own reference is never dropped by users */
        dhowi_handle_retain(&stream->handle);
        return;
    }
    if (forked) {
        dhowi_handle_free(DHOWI_STREAM, stream);
    } else {
        end_stream(stream, dhowi_device_streams_of(stream->device));
    }
    dhowi_context_drop(context);
}
