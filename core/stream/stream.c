/* SPDX-License-Identifier: Apache-2.0
 *
 * See stream.h and dhow/stream.h.
 */
#include "stream/stream.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/places.h"
#include "base/planted.h"
#include "base/size.h"
#include "stream/span.h"

/* ---- submitting ---- */

/* Whose values the work reads that the thread is handing in, see memory/origins.h. */
static _Thread_local dhowi_origins g_origins;

static dhow_status wait_for_use(dhow_stream *stream, const dhowi_use *use) {
    const bool reads = (use->access & DHOW_ACCESS_READ) != 0;
    dhowi_hazard *hazard = &use->storage->hazard;
    dhowi_mark pending[DHOWI_MAX_PENDING];
    uint32_t count = dhowi_hazard_pending(hazard, use->access, &stream->timeline, pending);
    if (dhowi_planted("a reader waits for nobody") && use->access == DHOW_ACCESS_READ) count = 0;
    if (dhowi_planted("a writer waits for nobody") && use->access == DHOW_ACCESS_WRITE) count = 0;
    for (uint32_t i = 0; i < count; i++) {
        dhow_status status = dhowi_stream_wait_mark(stream, pending[i]);
        if (status != DHOW_OK &&
            (status != DHOW_DEVICE_LOST ||
             dhowi_hazard_needs(hazard, use->access, &stream->timeline, pending[i])))
            return status;
        if (reads && pending[i].timeline->lost != stream->timeline.lost)
            DHOWI_TRY(dhowi_origins_add(&g_origins, pending[i]));
    }
    if (!reads) return DHOW_OK;
    DHOWI_TRY(dhowi_storage_readable(use->storage, dhowi_device_is_host(stream->device)));
    return dhowi_origins_add_storage(&g_origins, use->storage);
}

static dhow_status wait_for_uses(dhow_stream *stream, const dhowi_use *uses, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) DHOWI_TRY(wait_for_use(stream, &uses[i]));
    return DHOW_OK;
}

dhow_status dhowi_stream_begin(dhow_stream *stream, const dhowi_use *uses, uint32_t count) {
    DHOWI_TRY(dhowi_device_usable(stream->device));
    g_origins.count = 0;
    if (stream->recording == NULL) {
        DHOWI_TRY(dhowi_stream_wait_attached(stream));
        DHOWI_TRY(wait_for_uses(stream, uses, count));
    }
    pthread_mutex_lock(&stream->mutex);
    return DHOW_OK;
}

dhow_status dhowi_stream_end(dhow_stream *stream, const dhowi_use *uses, uint32_t count,
                             dhow_status submitted) {
    dhowi_timeline *timeline = &stream->timeline;
    dhowi_span_end(stream);
    if (dhowi_stream_note_uses(stream, uses, count)) {
        pthread_mutex_unlock(&stream->mutex);
        return submitted;
    }
    for (uint32_t i = 0; i < count && submitted == DHOW_OK; i++) {
        if ((uses[i].access & DHOW_ACCESS_WRITE) != 0) dhowi_storage_written(uses[i].storage);
    }
    if (submitted == DHOW_OK && !dhowi_device_is_host(stream->device)) {
        uint64_t number = atomic_load_explicit(&timeline->submitted, memory_order_relaxed) + 1;
        atomic_store_explicit(&timeline->submitted, number, memory_order_release);
        dhowi_last_timeline = timeline;
        for (uint32_t i = 0; i < count; i++) {
            dhowi_hazard_note(&uses[i].storage->hazard, uses[i].access, timeline, number);
            if (g_origins.count > 0 && (uses[i].access & DHOW_ACCESS_WRITE) != 0)
                dhowi_storage_set_origins(uses[i].storage, &g_origins);
        }
    }
    pthread_mutex_unlock(&stream->mutex);
    return submitted;
}

/* ---- streams of a device ---- */

static dhow_status new_stream(dhow_device *device, dhowi_device_streams *streams, uint32_t flags,
                              dhow_stream **out) {
    dhow_error err;
    dhowi_error_init(&err);
    /* Old marks may still point here, and must find a timeline. */
    dhow_stream *s =
        dhowi_handle_new_keeping(DHOWI_STREAM, sizeof *s, offsetof(dhow_stream, device));
    if (s == NULL) return dhowi_fail_memory("stream");
    int32_t code = device->api->stream_create(dhowi_device_native(device), flags, &s->native, &err);
    if (code != DHOW_OK) {
        dhowi_handle_free(DHOWI_STREAM, s);
        return dhowi_device_failed(device, &err, code, "creating a stream");
    }
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
    for (int i = 0; i < DHOWI_STREAM_POINTS; i++)
        if (s->points[i].event != NULL) s->device->api->event_destroy(s->points[i].event);
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

/* Makes it dhow's own: it holds no context, and no program has left it behind. */
static void own(dhow_stream *stream) {
    stream->owned = true;
    if (dhowi_places_kept()) dhowi_place_forget(stream);
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

dhow_status dhowi_stream_default(dhow_device *device, dhow_stream **out) {
    dhowi_device_streams *streams = dhowi_device_attached(device, DHOWI_ATTACH_STREAMS);
    *out = streams != NULL ? atomic_load_explicit(&streams->standard, memory_order_acquire) : NULL;
    if (*out != NULL) return DHOW_OK;
    DHOWI_TRY(dhowi_device_open(device));
    streams = dhowi_device_streams_of(device);
    if (streams == NULL) return DHOW_OUT_OF_MEMORY;
    dhow_status status = DHOW_OK;
    pthread_mutex_lock(&device->mutex);
    dhow_stream *stream = atomic_load(&streams->standard);
    if (stream == NULL) {
        status = new_stream(device, streams, 0, &stream);
        if (status == DHOW_OK) {
            own(stream);
            atomic_store_explicit(&streams->standard, stream, memory_order_release);
        }
    }
    pthread_mutex_unlock(&device->mutex);
    *out = stream;
    return status;
}

dhow_status dhowi_stream_create_owned(dhow_device *device, dhow_stream **out) {
    *out = NULL;
    DHOWI_TRY(dhowi_device_open(device));
    dhowi_device_streams *streams = dhowi_device_streams_of(device);
    if (streams == NULL) return DHOW_OUT_OF_MEMORY;
    DHOWI_TRY(new_stream(device, streams, DHOW_STREAM_COPIES_ONLY, out));
    own(*out);
    return DHOW_OK;
}

dhow_status dhowi_stream_resolve(dhow_stream *stream, dhow_device *device, const char *function,
                                 dhow_stream **out) {
    *out = NULL;
    if (stream == NULL) return dhowi_stream_default(device, out);
    DHOWI_TRY(dhowi_handle_check(stream, DHOWI_STREAM, function, "stream"));
    if (stream->device != device) {
        return dhowi_fail(
            DHOW_INVALID_ARGUMENT,
            "%s: the stream is on %s, the tensors are on %s; use a stream of that device, or NULL",
            function, stream->device->name, device->name);
    }
    *out = stream;
    return DHOW_OK;
}

/* ---- the public side ---- */

dhow_status dhow_stream_create(dhow_device *device, dhow_stream **out) {
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_stream_create: out is NULL");
    *out = NULL;
    DHOWI_TRY(dhowi_device_check(device, "dhow_stream_create"));
    DHOWI_TRY(dhowi_device_open(device));
    dhowi_device_streams *streams = dhowi_device_streams_of(device);
    if (streams == NULL) return DHOW_OUT_OF_MEMORY;
    DHOWI_TRY(new_stream(device, streams, 0, out));
    dhowi_handle_retain(&device->context->handle);
    return DHOW_OK;
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

dhow_status dhow_stream_default(dhow_device *device, dhow_stream **out) {
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_stream_default: out is NULL");
    *out = NULL;
    DHOWI_TRY(dhowi_device_check(device, "dhow_stream_default"));
    return dhowi_stream_default(device, out);
}

dhow_device *dhow_stream_device(const dhow_stream *stream) {
    return dhowi_handle_is(stream, DHOWI_STREAM) ? stream->device : NULL;
}

dhow_status dhow_stream_sync(dhow_stream *stream) {
    DHOWI_TRY(dhowi_handle_check(stream, DHOWI_STREAM, "dhow_stream_sync", "stream"));
    DHOWI_TRY(dhowi_device_usable(stream->device));
    DHOWI_TRY(dhowi_stream_refuse_recording(stream, "waiting for the stream"));
    return dhowi_stream_sync(stream);
}

dhow_status dhow_stream_query(dhow_stream *stream) {
    DHOWI_TRY(dhowi_handle_check(stream, DHOWI_STREAM, "dhow_stream_query", "stream"));
    DHOWI_TRY(dhowi_device_usable(stream->device));
    dhowi_mark attached[DHOWI_MAX_ATTACHED];
    if (dhowi_stream_attached(stream, attached) > 0)
        return dhowi_fail(DHOW_NOT_READY, "%s: a copy is running", stream->device->name);
    dhow_error err;
    dhowi_error_init(&err);
    uint64_t tail = dhowi_stream_tail(stream).number;
    int32_t code = stream->device->api->stream_query(stream->native, &err);
    if (code == DHOW_NOT_READY)
        return dhowi_fail(DHOW_NOT_READY, "%s: work is running", stream->device->name);
    if (code != DHOW_DEVICE_LOST) dhowi_timeline_complete(&stream->timeline, tail);
    if (code != DHOW_OK)
        return dhowi_device_failed(stream->device, &err, code, "work submitted before failed");
    return dhowi_stream_take_failure(stream);
}

/* The device's streams, each with a reference. */
static dhow_status hold_streams(dhowi_device_streams *streams, dhow_stream ***out,
                                uint32_t *out_count) {
    uint32_t count = 0;
    pthread_mutex_lock(&streams->mutex);
    for (dhow_stream *s = streams->all; s != NULL; s = s->next) count++;
    *out = dhowi_alloc_array(count, sizeof(dhow_stream *));
    *out_count = 0;
    for (dhow_stream *s = streams->all; *out != NULL && s != NULL; s = s->next) {
        if (dhowi_handle_try_retain(&s->handle)) (*out)[(*out_count)++] = s;
    }
    pthread_mutex_unlock(&streams->mutex);
    return *out != NULL ? DHOW_OK : dhowi_fail_memory("dhow_device_sync");
}

dhow_status dhow_device_sync(dhow_device *device) {
    DHOWI_TRY(dhowi_device_check(device, "dhow_device_sync"));
    DHOWI_TRY(dhowi_device_usable(device));
    dhowi_device_streams *streams = dhowi_device_attached(device, DHOWI_ATTACH_STREAMS);
    if (streams == NULL) return DHOW_OK;
    dhow_stream **held;
    uint32_t count;
    DHOWI_TRY(hold_streams(streams, &held, &count));
    dhow_status status = DHOW_OK;
    dhowi_saved_error first;
    for (uint32_t i = 0; i < count; i++) {
        dhow_status one = dhowi_stream_sync(held[i]);
        if (status == DHOW_OK && one != DHOW_OK) dhowi_error_save(&first, status = one);
        dhow_stream_release(held[i]);
    }
    dhowi_free(held);
    return status == DHOW_OK ? DHOW_OK : dhowi_error_raise(&first);
}
