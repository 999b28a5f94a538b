/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for streams on the device, and by the host queue.
 */
#include <stddef.h>

#include "base/memory/alloc.h"
#include "stream/host_queue.h"

/* ---- failures and attached timepoints ---- */

/* A timepoint counts as awaited once the wait is in the stream, not before: another thread may be
 * about to submit. Two that come at once both wait. */
dhow_status dhowi_stream_wait_attached(dhow_stream *stream) {
    if (atomic_load_explicit(&stream->attached_count, memory_order_relaxed) == 0) return DHOW_OK;
    for (dhowi_timepoint point; (point = dhowi_stream_next_attached(stream)).timeline != NULL;) {
        dhow_status status = dhowi_stream_wait_timepoint(stream, point);
        dhowi_stream_set_awaited(stream, point);
        DHOWI_TRY(status);
    }
    return DHOW_OK;
}

/* ---- on the device ---- */

static dhow_status plugin_wait(dhow_stream *stream, void *event) {
    dhow_error err;
    dhowi_error_init(&err);
    pthread_mutex_lock(&stream->mutex);
    int32_t code = stream->device->api->stream_wait(stream->native, event, &err);
    pthread_mutex_unlock(&stream->mutex);
    if (code == DHOW_OK) return DHOW_OK;
    return dhowi_device_failed(stream->device, &err, code, "waiting for another stream");
}

/* Under the stream's mutex: the earliest point at or after the work `number`, made if there is
 * none. A point that is used again stands for later work, so those who still wait for it wait
 * longer, not less. */
static dhow_status point_after(dhow_stream *stream, uint64_t number, void **out_event,
                               dhow_error *err) {
    const dhow_plugin *api = stream->device->api;
    dhowi_stream_event *found = NULL, *oldest = &stream->events[0];
    for (int i = 0; i < DHOWI_STREAM_EVENTS; i++) {
        dhowi_stream_event *p = &stream->events[i];
        if (p->event != NULL && p->number >= number && (found == NULL || p->number < found->number))
            found = p;
        if (p->number < oldest->number) oldest = p;
    }
    int32_t code = DHOW_OK;
    if (found == NULL) {
        found = oldest;
        if (found->event == NULL) {
            code = api->event_create(dhowi_device_native(stream->device), 0, &found->event, err);
            if (code != DHOW_OK) found->event = NULL;
        }
        if (code == DHOW_OK) code = api->event_record(found->event, stream->native, err);
        if (code == DHOW_OK) found->number = atomic_load(&stream->timeline.submitted);
    }
    *out_event = found->event;
    return dhowi_error_take(err, code);
}

static dhow_status find_event(dhow_stream *stream, uint64_t number, void **out_event) {
    dhow_error err;
    dhowi_error_init(&err);
    pthread_mutex_lock(&stream->mutex);
    dhow_status status = point_after(stream, number, out_event, &err);
    pthread_mutex_unlock(&stream->mutex);
    if (status == DHOW_OK) return DHOW_OK;
    return dhowi_device_failed(stream->device, &err, (int32_t)status, "recording an event");
}

static dhow_status wait_same_backend(dhow_stream *stream, dhow_stream *other, uint64_t number) {
    void *event;
    DHOWI_TRY(find_event(other, number, &event));
    DHOWI_TRY(plugin_wait(stream, event));
    dhowi_timeline_awaited(&stream->timeline, (dhowi_timepoint){&other->timeline, number});
    return DHOW_OK;
}

dhow_status dhowi_stream_ensure_event(dhowi_timepoint point) {
    void *event;
    dhow_stream *stream = dhowi_stream_hold(point);
    if (stream == NULL) return DHOW_OK;
    dhow_status status = find_event(stream, point.number, &event);
    dhow_stream_release(stream);
    return status;
}

/* ---- by the host queue ---- */

dhow_status dhowi_fence_init(dhowi_fence *fence, dhowi_timepoint point) {
    *fence = (dhowi_fence){.point = point};
    dhow_stream *stream = dhowi_stream_hold(point);
    if (stream == NULL) return DHOW_OK;
    const dhow_plugin *api = stream->device->api;
    dhow_error err;
    dhowi_error_init(&err);
    int32_t code = api->event_create(dhowi_device_native(stream->device), 0, &fence->event, &err);
    if (code == DHOW_OK) {
        pthread_mutex_lock(&stream->mutex);
        fence->number = dhowi_stream_tail(stream).number;
        code = api->event_record(fence->event, stream->native, &err);
        pthread_mutex_unlock(&stream->mutex);
        if (code == DHOW_OK) {
            fence->stream = stream;
            return DHOW_OK;
        }
        api->event_destroy(fence->event);
        fence->event = NULL;
    }
    dhow_status status = dhowi_stream_wait_held(stream, point.number);
    dhow_stream_release(stream);
    return status;
}

dhow_status dhowi_fence_wait(dhowi_fence *fence) {
    dhow_stream *stream = fence->stream;
    if (stream == NULL) {
        /* In the same lane it is done: what is left to learn is whether it failed. */
        if (fence->point.timeline != NULL && !dhowi_timepoint_done(fence->point) &&
            dhowi_timeline_is_lost(fence->point.timeline))
            return dhowi_stream_never_done();
        bool queued =
            fence->point.timeline != NULL && dhowi_stream_of(fence->point.timeline) == NULL;
        return queued ? fence->point.timeline->wait(fence->point.timeline, fence->point.number)
                      : DHOW_OK;
    }
    if (dhowi_timepoint_done(fence->point)) return DHOW_OK;
    DHOWI_TRY(dhowi_device_usable(stream->device));
    dhow_error err;
    dhowi_error_init(&err);
    int32_t code = stream->device->api->event_sync(fence->event, &err);
    if (code == DHOW_OK) {
        dhowi_timeline_complete(&stream->timeline, fence->number);
        return DHOW_OK;
    }
    return dhowi_device_failed(stream->device, &err, code, "work submitted before failed");
}

void dhowi_fence_end(dhowi_fence *fence) {
    if (fence->stream == NULL) return;
    fence->stream->device->api->event_destroy(fence->event);
    dhow_stream_release(fence->stream);
    fence->stream = NULL;
}

/* A signal from the host queue to a device. Stream and queue both use the event; the last one
 * destroys it. */
typedef struct signal_job {
    dhowi_job job;
    dhowi_fence fence;
    dhow_stream *stream;
    void *event;
    atomic_int users;
} signal_job;

static void leave_signal(signal_job *s) {
    if (atomic_fetch_sub(&s->users, 1) != 1) return;
    s->stream->device->api->event_destroy(s->event);
    dhow_stream_release(s->stream);
    dhowi_free(s);
}

static dhow_status run_signal(dhowi_job *job) {
    signal_job *s = (signal_job *)job;
    dhow_device *device = s->stream->device;
    dhow_error err;
    dhowi_error_init(&err);
    dhow_status status = dhowi_fence_wait(&s->fence);
    /* A failure is passed on, but the stream must not hang. */
    if (status != DHOW_OK) {
        dhowi_saved_error failure;
        dhowi_error_save(&failure, status);
        dhowi_stream_fail(s->stream, &failure);
    }
    int32_t code = device->api->event_signal(s->event, &err);
    if (code != DHOW_OK) status = dhowi_device_failed(device, &err, code, "signalling an event");
    return status;
}

static void end_signal(dhowi_job *job) {
    signal_job *s = (signal_job *)job;
    dhowi_fence_end(&s->fence);
    leave_signal(s);
}

static bool has_host_events(dhow_device *device, void **out_event) {
    dhowi_device_streams *streams = dhowi_device_streams_of(device);
    if (streams == NULL || atomic_load(&streams->host_events) < 0) return false;
    dhow_error err;
    dhowi_error_init(&err);
    int32_t code =
        device->api->event_create(dhowi_device_native(device), DHOW_EVENT_HOST, out_event, &err);
    atomic_store(&streams->host_events, code == DHOW_OK ? 1 : code == DHOW_UNSUPPORTED ? -1 : 0);
    return code == DHOW_OK;
}

/* Lets the host queue signal the stream; false when that is not possible here. The job is pushed
 * before the stream waits for it: a job that waits for the stream must come after it. */
static bool wait_by_signal(dhow_stream *stream, dhowi_timepoint point) {
    void *event = NULL;
    dhowi_host_lane *lane = dhowi_host_lane_of(stream);
    if (lane == NULL || !has_host_events(stream->device, &event)) return false;
    signal_job *job = dhowi_alloc(sizeof *job);
    if (job == NULL || dhowi_fence_init(&job->fence, point) != DHOW_OK) {
        stream->device->api->event_destroy(event);
        dhowi_free(job);
        return false;
    }
    job->job.run = run_signal;
    job->job.end = end_signal;
    job->stream = stream;
    job->event = event;
    atomic_init(&job->users, 2);
    dhowi_handle_retain(&stream->handle);
    (void)dhowi_host_lane_push(lane, &job->job, NULL);
    bool waits = plugin_wait(stream, event) == DHOW_OK;
    if (waits) dhowi_timeline_awaited(&stream->timeline, point);
    leave_signal(job);
    return waits;
}

/* ---- what streams wait for ---- */

dhow_status dhowi_stream_wait_timepoint(dhow_stream *stream, dhowi_timepoint point) {
    if (dhowi_timepoint_done(point) || point.timeline == &stream->timeline) return DHOW_OK;
    if (!dhowi_device_is_host(stream->device)) {
        dhow_stream *other = dhowi_stream_hold(point);
        if (other == NULL && dhowi_timepoint_done(point)) return DHOW_OK;
        if (other == NULL && dhowi_timeline_is_lost(point.timeline))
            return dhowi_stream_never_done();
        if (other != NULL && other->device->plugin == stream->device->plugin) {
            dhow_status status = wait_same_backend(stream, other, point.number);
            dhow_stream_release(other);
            return status;
        }
        dhow_stream_release(other);
        if (wait_by_signal(stream, point)) return DHOW_OK;
    }
    return point.timeline->wait(point.timeline, point.number);
}

dhow_status dhowi_stream_wait_event(dhow_stream *stream, dhow_device *device, void *event,
                                    dhowi_timepoint point) {
    if (dhowi_timepoint_done(point) || point.timeline == &stream->timeline) return DHOW_OK;
    bool native = device->plugin == stream->device->plugin && !dhowi_device_is_host(device);
    DHOWI_TRY(native ? plugin_wait(stream, event) : dhowi_stream_wait_timepoint(stream, point));
    /* The wait counts as work: those who follow the stream's present end follow the event as well.
     */
    if (!dhowi_device_is_host(stream->device)) {
        pthread_mutex_lock(&stream->mutex);
        atomic_fetch_add(&stream->timeline.submitted, 1);
        pthread_mutex_unlock(&stream->mutex);
    }
    return DHOW_OK;
}

dhow_status dhowi_stream_follow(dhow_stream *stream, dhow_stream *other) {
    dhowi_timepoint attached[DHOWI_MAX_ATTACHED];
    dhowi_stream_count_foreign(other);
    uint32_t count = dhowi_stream_attached(other, attached);
    for (uint32_t i = 0; i < count; i++)
        DHOWI_TRY(dhowi_stream_wait_timepoint(stream, attached[i]));
    return dhowi_stream_wait_timepoint(stream, dhowi_stream_tail(other));
}
