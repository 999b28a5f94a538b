/* SPDX-License-Identifier: Apache-2.0
 *
 * See stream.h and dhow/stream.h.
 */
#include "stream/stream.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "stream/host_queue.h"

typedef struct device_streams {
    pthread_mutex_t mutex;
    dhow_stream *all;
    _Atomic(dhow_stream *) standard; /* the default stream */
    _Atomic int host_events;         /* 0: not tried, 1: the device has them, -1: it has not */
} device_streams;

static dhow_status wait_number(dhowi_timeline *timeline, uint64_t number);

static dhow_stream *stream_of(dhowi_timeline *timeline) {
    if (timeline->wait != wait_number) return NULL;
    return (dhow_stream *)(void *)((char *)timeline - offsetof(dhow_stream, timeline));
}

/* ---- waiting on the host ---- */

static dhow_status wait_number(dhowi_timeline *timeline, uint64_t number) {
    if (atomic_load_explicit(&timeline->completed, memory_order_acquire) >= number) return DHOW_OK;
    dhow_stream *stream = stream_of(timeline);
    DHOWI_TRY(dhowi_device_usable(stream->device));
    uint64_t tail = atomic_load_explicit(&timeline->submitted, memory_order_acquire);
    dhow_error err;
    dhowi_error_init(&err);
    int32_t code = stream->device->api->stream_sync(stream->native, &err);
    /* Failed work is over, too. */
    dhowi_timeline_complete(timeline, tail);
    if (code == DHOW_OK) return DHOW_OK;
    return dhowi_device_failed(stream->device, &err, code, "work submitted before failed");
}

static dhowi_mark attached_mark(dhow_stream *stream) {
    dhowi_timeline *timeline = atomic_load_explicit(&stream->attached, memory_order_acquire);
    return (dhowi_mark){timeline,
                        atomic_load_explicit(&stream->attached_number, memory_order_acquire)};
}

void dhowi_stream_attach(dhow_stream *stream, dhowi_mark mark) {
    atomic_store(&stream->attached_number, mark.number);
    atomic_store(&stream->attached, mark.timeline);
}

void dhowi_stream_fail(dhow_stream *stream, const dhowi_saved_error *failure) {
    pthread_mutex_lock(&stream->mutex);
    if (!atomic_load(&stream->failed)) {
        stream->failure = *failure;
        atomic_store(&stream->failed, true);
    }
    pthread_mutex_unlock(&stream->mutex);
}

static dhow_status take_failure(dhow_stream *stream) {
    if (!atomic_load_explicit(&stream->failed, memory_order_acquire)) return DHOW_OK;
    pthread_mutex_lock(&stream->mutex);
    dhowi_saved_error failure = stream->failure;
    bool failed = atomic_exchange(&stream->failed, false);
    pthread_mutex_unlock(&stream->mutex);
    return failed ? dhowi_error_raise(&failure) : DHOW_OK;
}

static dhow_status sync_stream(dhow_stream *stream) {
    dhowi_mark attached = attached_mark(stream);
    dhow_status status = DHOW_OK;
    if (!dhowi_mark_done(attached))
        (void)attached.timeline->wait(attached.timeline, attached.number);
    status = wait_number(&stream->timeline, dhowi_stream_tail(stream).number);
    dhow_status background = take_failure(stream);
    return status != DHOW_OK ? status : background;
}

/* ---- waiting on the device ---- */

static dhow_status plugin_wait(dhow_stream *stream, void *event) {
    dhow_error err;
    dhowi_error_init(&err);
    pthread_mutex_lock(&stream->mutex);
    int32_t code = stream->device->api->stream_wait(stream->native, event, &err);
    pthread_mutex_unlock(&stream->mutex);
    if (code == DHOW_OK) return DHOW_OK;
    return dhowi_device_failed(stream->device, &err, code, "waiting for another stream");
}

/* Under the other stream's mutex: an event after the work `number`. */
static dhow_status mark_event(dhow_stream *other, uint64_t number, dhow_error *err) {
    const dhow_plugin *api = other->device->api;
    int32_t code = DHOW_OK;
    if (other->mark_event == NULL) {
        code = api->event_create(dhowi_device_native(other->device), 0, &other->mark_event, err);
        if (code != DHOW_OK) other->mark_event = NULL;
    }
    if (code == DHOW_OK && other->mark_number < number) {
        code = api->event_record(other->mark_event, other->native, err);
        if (code == DHOW_OK) other->mark_number = atomic_load(&other->timeline.submitted);
    }
    return dhowi_error_take(err, code);
}

static dhow_status wait_same_backend(dhow_stream *stream, dhow_stream *other, uint64_t number) {
    dhow_error err;
    dhowi_error_init(&err);
    pthread_mutex_lock(&other->mutex);
    dhow_status status = mark_event(other, number, &err);
    pthread_mutex_unlock(&other->mutex);
    if (status != DHOW_OK) {
        return dhowi_device_failed(other->device, &err, (int32_t)status, "recording an event");
    }
    return plugin_wait(stream, other->mark_event);
}

/* A signal from the host queue to a device. */
typedef struct signal_job {
    dhowi_job job;
    dhowi_mark mark;
    dhow_stream *stream;
    void *event;
} signal_job;

static dhow_status run_signal(dhowi_job *job) {
    signal_job *s = (signal_job *)job;
    dhow_device *device = s->stream->device;
    dhow_error err;
    dhowi_error_init(&err);
    dhow_status status = DHOW_OK;
    if (!dhowi_mark_done(s->mark))
        status = s->mark.timeline->wait(s->mark.timeline, s->mark.number);
    /* A failure is passed on, but the stream must not hang. */
    if (status != DHOW_OK) {
        dhowi_saved_error failure;
        dhowi_error_save(&failure, status);
        dhowi_stream_fail(s->stream, &failure);
    }
    int32_t code = device->api->event_signal(s->event, &err);
    if (code != DHOW_OK) status = dhowi_device_failed(device, &err, code, "signalling an event");
    device->api->event_destroy(s->event);
    dhow_stream_release(s->stream);
    dhowi_free(s);
    return status;
}

static device_streams *streams_of(dhow_device *device);

static bool has_host_events(dhow_device *device, void **out_event) {
    device_streams *streams = streams_of(device);
    if (streams == NULL || atomic_load(&streams->host_events) < 0) return false;
    dhow_error err;
    dhowi_error_init(&err);
    int32_t code =
        device->api->event_create(dhowi_device_native(device), DHOW_EVENT_HOST, out_event, &err);
    atomic_store(&streams->host_events, code == DHOW_OK ? 1 : code == DHOW_UNSUPPORTED ? -1 : 0);
    return code == DHOW_OK;
}

/* Lets the host queue signal the stream; false when that is not possible here. */
static bool wait_by_signal(dhow_stream *stream, dhowi_mark mark) {
    void *event = NULL;
    dhowi_host_queue *queue = dhowi_host_queue_of(stream->device->context);
    if (queue == NULL || !has_host_events(stream->device, &event)) return false;
    signal_job *job = dhowi_alloc(sizeof *job);
    if (job == NULL || plugin_wait(stream, event) != DHOW_OK) {
        stream->device->api->event_destroy(event);
        dhowi_free(job);
        return false;
    }
    job->job.run = run_signal;
    job->mark = mark;
    job->stream = stream;
    job->event = event;
    dhowi_handle_retain(&stream->handle);
    (void)dhowi_host_queue_push(queue, &job->job);
    return true;
}

dhow_status dhowi_stream_wait_mark(dhow_stream *stream, dhowi_mark mark) {
    if (dhowi_mark_done(mark) || mark.timeline == &stream->timeline) return DHOW_OK;
    dhow_stream *other = stream_of(mark.timeline);
    if (!dhowi_device_is_host(stream->device)) {
        if (other != NULL && other->device->backend == stream->device->backend) {
            return wait_same_backend(stream, other, mark.number);
        }
        if (wait_by_signal(stream, mark)) return DHOW_OK;
    }
    return mark.timeline->wait(mark.timeline, mark.number);
}

dhow_status dhowi_stream_wait_event(dhow_stream *stream, dhow_device *device, void *event,
                                    dhowi_mark mark) {
    if (dhowi_mark_done(mark) || mark.timeline == &stream->timeline) return DHOW_OK;
    bool native = device->backend == stream->device->backend && !dhowi_device_is_host(device);
    return native ? plugin_wait(stream, event) : dhowi_stream_wait_mark(stream, mark);
}

/* ---- submitting ---- */

static dhow_status wait_for_uses(dhow_stream *stream, const dhowi_use *uses, uint32_t count) {
    dhowi_mark pending[DHOWI_MAX_PENDING];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t n = dhowi_hazard_pending(&uses[i].storage->hazard, uses[i].access,
                                          &stream->timeline, pending);
        for (uint32_t k = 0; k < n; k++) DHOWI_TRY(dhowi_stream_wait_mark(stream, pending[k]));
    }
    return DHOW_OK;
}

dhow_status dhowi_stream_begin(dhow_stream *stream, const dhowi_use *uses, uint32_t count) {
    DHOWI_TRY(dhowi_device_usable(stream->device));
    if (atomic_load_explicit(&stream->attached, memory_order_relaxed) != NULL) {
        dhowi_mark attached = attached_mark(stream);
        DHOWI_TRY(dhowi_stream_wait_mark(stream, attached));
        atomic_compare_exchange_strong(&stream->attached, &attached.timeline, NULL);
    }
    DHOWI_TRY(wait_for_uses(stream, uses, count));
    pthread_mutex_lock(&stream->mutex);
    return DHOW_OK;
}

dhow_status dhowi_stream_end(dhow_stream *stream, const dhowi_use *uses, uint32_t count,
                             dhow_status submitted) {
    dhowi_timeline *timeline = &stream->timeline;
    if (submitted == DHOW_OK && !dhowi_device_is_host(stream->device)) {
        uint64_t number = atomic_load_explicit(&timeline->submitted, memory_order_relaxed) + 1;
        atomic_store_explicit(&timeline->submitted, number, memory_order_release);
        for (uint32_t i = 0; i < count; i++) {
            dhowi_hazard_note(&uses[i].storage->hazard, uses[i].access, timeline, number);
        }
    }
    pthread_mutex_unlock(&stream->mutex);
    return submitted;
}

/* ---- streams of a device ---- */

static dhow_status new_stream(dhow_device *device, device_streams *streams, dhow_stream **out) {
    dhow_error err;
    dhowi_error_init(&err);
    dhow_stream *s = dhowi_handle_new(DHOWI_STREAM, sizeof *s);
    if (s == NULL) return dhowi_fail_memory("stream");
    int32_t code = device->api->stream_create(dhowi_device_native(device), 0, &s->native, &err);
    if (code != DHOW_OK) {
        dhowi_handle_free(DHOWI_STREAM, s);
        return dhowi_device_failed(device, &err, code, "creating a stream");
    }
    s->device = device;
    pthread_mutex_init(&s->mutex, NULL);
    dhowi_timeline_start(&s->timeline, wait_number);
    s->mark_number = atomic_load(&s->timeline.submitted);
    pthread_mutex_lock(&streams->mutex);
    s->next = streams->all;
    if (s->next != NULL) s->next->previous = s;
    streams->all = s;
    pthread_mutex_unlock(&streams->mutex);
    *out = s;
    return DHOW_OK;
}

static void end_stream(dhow_stream *s, device_streams *streams) {
    (void)sync_stream(s); /* nobody is left to hear of a failure */
    pthread_mutex_lock(&streams->mutex);
    if (s->previous != NULL) s->previous->next = s->next;
    if (s->next != NULL) s->next->previous = s->previous;
    if (streams->all == s) streams->all = s->next;
    pthread_mutex_unlock(&streams->mutex);
    if (s->mark_event != NULL) s->device->api->event_destroy(s->mark_event);
    s->device->api->stream_destroy(s->native);
    dhowi_timeline_retire(&s->timeline);
    pthread_mutex_destroy(&s->mutex);
    dhowi_handle_free(DHOWI_STREAM, s);
}

static void *make_streams(dhow_device *device) {
    (void)device;
    device_streams *streams = dhowi_alloc(sizeof *streams);
    if (streams == NULL) {
        (void)dhowi_fail_memory("streams");
        return NULL;
    }
    pthread_mutex_init(&streams->mutex, NULL);
    return streams;
}

static void end_streams(void *device, void *data) {
    (void)device;
    device_streams *streams = data;
    while (streams->all != NULL) end_stream(streams->all, streams);
    pthread_mutex_destroy(&streams->mutex);
    dhowi_free(streams);
}

static device_streams *streams_of(dhow_device *device) {
    return dhowi_device_attach(device, DHOWI_ATTACH_STREAMS, make_streams, end_streams);
}

dhow_status dhowi_stream_default(dhow_device *device, dhow_stream **out) {
    device_streams *streams = dhowi_device_attached(device, DHOWI_ATTACH_STREAMS);
    *out = streams != NULL ? atomic_load_explicit(&streams->standard, memory_order_acquire) : NULL;
    if (*out != NULL) return DHOW_OK;
    DHOWI_TRY(dhowi_device_open(device));
    streams = streams_of(device);
    if (streams == NULL) return DHOW_OUT_OF_MEMORY;
    dhow_status status = DHOW_OK;
    pthread_mutex_lock(&device->mutex);
    dhow_stream *stream = atomic_load(&streams->standard);
    if (stream == NULL) {
        status = new_stream(device, streams, &stream);
        if (status == DHOW_OK) {
            stream->owned = true;
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
    device_streams *streams = streams_of(device);
    if (streams == NULL) return DHOW_OUT_OF_MEMORY;
    DHOWI_TRY(new_stream(device, streams, out));
    (*out)->owned = true;
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
    device_streams *streams = streams_of(device);
    if (streams == NULL) return DHOW_OUT_OF_MEMORY;
    DHOWI_TRY(new_stream(device, streams, out));
    dhowi_handle_retain(&device->context->handle);
    return DHOW_OK;
}

void dhow_stream_release(dhow_stream *stream) {
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
        end_stream(stream, streams_of(stream->device));
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
    return sync_stream(stream);
}

dhow_status dhow_stream_query(dhow_stream *stream) {
    DHOWI_TRY(dhowi_handle_check(stream, DHOWI_STREAM, "dhow_stream_query", "stream"));
    DHOWI_TRY(dhowi_device_usable(stream->device));
    if (!dhowi_mark_done(attached_mark(stream)))
        return dhowi_fail(DHOW_NOT_READY, "a staged copy is running");
    dhow_error err;
    dhowi_error_init(&err);
    uint64_t tail = dhowi_stream_tail(stream).number;
    int32_t code = stream->device->api->stream_query(stream->native, &err);
    if (code == DHOW_NOT_READY)
        return dhowi_fail(DHOW_NOT_READY, "%s: work is running", stream->device->name);
    dhowi_timeline_complete(&stream->timeline, tail);
    if (code != DHOW_OK)
        return dhowi_device_failed(stream->device, &err, code, "work submitted before failed");
    return take_failure(stream);
}

/* The device's streams, each with a reference. */
static dhow_status hold_streams(device_streams *streams, dhow_stream ***out, uint32_t *out_count) {
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
    device_streams *streams = dhowi_device_attached(device, DHOWI_ATTACH_STREAMS);
    if (streams == NULL) return DHOW_OK;
    dhow_stream **held;
    uint32_t count;
    DHOWI_TRY(hold_streams(streams, &held, &count));
    dhow_status status = DHOW_OK;
    dhowi_saved_error first;
    for (uint32_t i = 0; i < count; i++) {
        dhow_status one = sync_stream(held[i]);
        if (status == DHOW_OK && one != DHOW_OK) dhowi_error_save(&first, status = one);
        dhow_stream_release(held[i]);
    }
    dhowi_free(held);
    return status == DHOW_OK ? DHOW_OK : dhowi_error_raise(&first);
}
