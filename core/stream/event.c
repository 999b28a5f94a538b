/* SPDX-License-Identifier: Apache-2.0
 *
 * Events, see dhow/stream.h.
 */
#include "base/errors/planted.h"
#include "base/memory/size.h"
#include "base/objects/call_sites.h"
#include "stream/span.h"

static dhow_status check_event(const dhow_event *event, const char *function) {
    DHOWI_TRY(dhowi_handle_check(event, DHOWI_EVENT, function, "event"));
    return dhowi_device_usable(event->device);
}

/* The latest record, by the timepoint it was made at and its number. */
typedef struct record {
    dhowi_timepoint point;
    uint64_t number;
} record;

static record latest(dhow_event *event) {
    pthread_mutex_lock(&event->mutex);
    record r = {event->point, event->records};
    pthread_mutex_unlock(&event->mutex);
    return r;
}

/* A reached event completes its timeline up to the recorded point. An event that was recorded again
 * since `before` was looked up completes nothing: either record may be the one that was reached. */
static dhow_status reached(dhow_event *event, record before) {
    record now = latest(event);
    const bool same = now.number == before.number || dhowi_planted("a new record is not noticed");
    if (same && before.point.timeline != NULL)
        dhowi_timeline_complete(before.point.timeline, before.point.number);
    return DHOW_OK;
}

/* DHOW_VALIDATE: an event that was never recorded counts as reached, which is seldom meant. */
static void check_recorded(dhow_event *event, const char *function) {
    const dhow_context *context = event->device->context;
    char place[2 * DHOWI_CALL_SITE_BYTES];
    if (!context->validate || event->recorded) return;
    dhowi_log_line(&context->log, DHOW_LOG_WARN,
                   "%s: the event was never recorded, so nothing is waited for%s", function,
                   dhowi_call_site_text(event, place, sizeof place));
}

dhow_status dhow_event_create(dhow_device *device, int32_t timing, dhow_event **out) {
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_event_create: out is NULL");
    *out = NULL;
    DHOWI_TRY(dhowi_device_check(device, "dhow_event_create"));
    DHOWI_TRY(dhowi_device_open(device));
    dhow_event *event = dhowi_handle_new(DHOWI_EVENT, sizeof *event);
    if (event == NULL) return dhowi_fail_memory("event");
    dhow_error err;
    dhowi_error_init(&err);
    uint32_t flags = timing != 0 ? DHOW_EVENT_TIMING : 0;
    int32_t code =
        device->api->event_create(dhowi_device_native(device), flags, &event->native, &err);
    if (code != DHOW_OK) {
        dhowi_handle_free(DHOWI_EVENT, event);
        return dhowi_device_failed(device, &err, code, "creating an event");
    }
    event->device = device;
    event->timing = timing != 0;
    pthread_mutex_init(&event->mutex, NULL);
    dhowi_handle_retain(&device->context->handle);
    *out = event;
    return DHOW_OK;
}

void dhow_event_release(dhow_event *event) {
    DHOWI_KEEP_ERROR;
    if (!dhowi_handle_is(event, DHOWI_EVENT) || !dhowi_handle_drop(&event->handle)) return;
    dhow_context *context = event->device->context;
    if (event->device->fork_generation == dhowi_fork_generation()) {
        event->device->api->event_destroy(event->native);
    }
    pthread_mutex_destroy(&event->mutex);
    dhowi_handle_free(DHOWI_EVENT, event);
    dhowi_context_drop(context);
}

dhow_status dhow_event_record(dhow_event *event, dhow_stream *stream) {
    DHOWI_TRY(check_event(event, "dhow_event_record"));
    DHOWI_TRY(dhowi_stream_resolve(stream, event->device, "dhow_event_record", &stream));
    DHOWI_TRY(dhowi_stream_refuse_recording(stream, "an event"));
    dhow_error err;
    dhowi_error_init(&err);
    DHOWI_TRY(dhowi_stream_begin(stream, NULL, 0));
    pthread_mutex_lock(&event->mutex);
    event->records++; /* also when it fails: the driver may have taken it */
    int32_t code = event->device->api->event_record(event->native, stream->native, &err);
    if (code == DHOW_OK) event->recorded = true;
    if (code == DHOW_OK && !dhowi_device_is_host(event->device)) {
        event->point = dhowi_stream_tail(stream);
        event->point.number++; /* the number this record gets */
    }
    pthread_mutex_unlock(&event->mutex);
    (void)dhowi_stream_end(stream, NULL, 0, dhowi_error_take(&err, code));
    if (code != DHOW_OK)
        return dhowi_device_failed(event->device, &err, code, "recording an event");
    return DHOW_OK;
}

dhow_status dhow_stream_wait(dhow_stream *stream, dhow_event *event) {
    DHOWI_TRY(check_event(event, "dhow_stream_wait"));
    DHOWI_TRY(dhowi_stream_resolve(stream,
                                   stream == NULL ? event->device : dhow_stream_device(stream),
                                   "dhow_stream_wait", &stream));
    DHOWI_TRY(dhowi_device_usable(stream->device));
    DHOWI_TRY(dhowi_stream_refuse_recording(stream, "a wait for an event"));
    check_recorded(event, "dhow_stream_wait");
    return dhowi_stream_wait_event(stream, event->device, event->native, latest(event).point);
}

dhow_status dhow_event_sync(dhow_event *event) {
    DHOWI_TRY(check_event(event, "dhow_event_sync"));
    check_recorded(event, "dhow_event_sync");
    dhow_error err;
    dhowi_error_init(&err);
    record before = latest(event);
    int64_t begin = dhowi_host_span_begin(event->device->context);
    int32_t code = event->device->api->event_sync(event->native, &err);
    dhowi_host_span_end(event->device->context, begin, DHOWI_TRACE_WAIT, "wait for an event", 0,
                        NULL);
    if (code == DHOW_OK) return reached(event, before);
    return dhowi_device_failed(event->device, &err, code, "work before the event failed");
}

dhow_status dhow_event_query(dhow_event *event) {
    DHOWI_TRY(check_event(event, "dhow_event_query"));
    dhow_error err;
    dhowi_error_init(&err);
    record before = latest(event);
    int32_t code = event->device->api->event_query(event->native, &err);
    if (code == DHOW_OK) return reached(event, before);
    if (code == DHOW_NOT_READY) {
        return dhowi_fail(DHOW_NOT_READY, "%s: the event is not reached", event->device->name);
    }
    return dhowi_device_failed(event->device, &err, code, "work before the event failed");
}

dhow_status dhow_event_elapsed_ms(dhow_event *start, dhow_event *end, double *out_ms) {
    if (out_ms == NULL)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_event_elapsed_ms: out_ms is NULL");
    *out_ms = 0;
    DHOWI_TRY(check_event(start, "dhow_event_elapsed_ms"));
    DHOWI_TRY(check_event(end, "dhow_event_elapsed_ms"));
    if (start->device != end->device || !start->timing || !end->timing) {
        return dhowi_fail(
            DHOW_INVALID_ARGUMENT,
            "dhow_event_elapsed_ms: both events must be of one device and created with timing");
    }
    DHOWI_TRY(dhow_event_query(start));
    DHOWI_TRY(dhow_event_query(end));
    dhow_error err;
    dhowi_error_init(&err);
    int64_t nanoseconds = 0;
    int32_t code =
        start->device->api->event_elapsed(start->native, end->native, &nanoseconds, &err);
    if (code != DHOW_OK) return dhowi_device_failed(start->device, &err, code, "timing");
    *out_ms = (double)nanoseconds / 1e6;
    return DHOW_OK;
}
