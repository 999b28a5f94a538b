/* SPDX-License-Identifier: Apache-2.0
 *
 * Events. A recorded event is a marker in its stream's queue; an event for the host is a user event
 * in the context of every stream that waits for it, all completed together by event_signal.
 */
#include "opencl.h"

/* A host event as one context sees it. */
typedef struct user_event {
    struct user_event *next;
    cl_context context;
    cl_event event;
} user_event;

typedef struct cl_point {
    dhowi_cl_device *device;
    uint32_t flags;
    pthread_mutex_t lock; /* all below */
    pthread_cond_t signal;
    cl_event marker;    /* the last record; NULL: none */
    cl_context context; /* marker's */
    bool signalled;     /* host events */
    user_event *users;  /* host events */
} cl_point;

int32_t dhowi_cl_event_create(void *device_pointer, uint32_t flags, void **out_event,
                              dhow_error *err) {
    dhowi_cl_device *device = device_pointer;
    *out_event = NULL;
    if ((flags & DHOW_EVENT_HOST) && !device->has_user_events)
        return dhowi_cl_refuse(err, DHOW_UNSUPPORTED, "%s: its streams cannot wait for the host",
                               device->name);
    cl_point *point = dhowi_cl_new(device->host, sizeof *point);
    if (point == NULL)
        return dhowi_cl_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", device->name);
    point->device = device;
    point->flags = flags;
    pthread_mutex_init(&point->lock, NULL);
    pthread_cond_init(&point->signal, NULL);
    *out_event = point;
    return DHOW_OK;
}

/* Completes the host event in all contexts. The lock is held or nobody else knows the event. */
static cl_int complete_users(cl_point *point) {
    cl_int first = CL_SUCCESS;
    while (point->users != NULL) {
        user_event *user = point->users;
        point->users = user->next;
        cl_int code = dhowi_cl.SetUserEventStatus(user->event, CL_COMPLETE);
        if (first == CL_SUCCESS) first = code;
        dhowi_cl.ReleaseEvent(user->event);
        dhowi_cl_delete(point->device->host, user);
    }
    return first;
}

void dhowi_cl_event_destroy(void *event_pointer) {
    cl_point *point = event_pointer;
    if (point == NULL) return;
    /* Nobody can signal it any more, and streams that wait must not hang for ever. A failed user
     * event would say it better, but PoCL aborts the process on one. */
    complete_users(point);
    if (point->marker != NULL) dhowi_cl.ReleaseEvent(point->marker);
    pthread_cond_destroy(&point->signal);
    pthread_mutex_destroy(&point->lock);
    dhowi_cl_delete(point->device->host, point);
}

int32_t dhowi_cl_event_record(void *event_pointer, void *stream_pointer, dhow_error *err) {
    cl_point *point = event_pointer;
    dhowi_cl_stream *stream = stream_pointer;
    cl_event marker = NULL;
    if (point->flags & DHOW_EVENT_HOST)
        return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT,
                               "an event for the host is signalled, not recorded");
    if (point->flags & DHOW_EVENT_TIMING) {
        int32_t status = dhowi_cl_stream_start_timing(stream, err);
        if (status != DHOW_OK) return status;
    }
    cl_int code = dhowi_cl.EnqueueMarkerWithWaitList(stream->queue, 0, NULL, &marker);
    if (code != CL_SUCCESS)
        return dhowi_cl_fail(err, code, "%s: the event is not recorded", stream->device->name);
    dhowi_cl_stream_submitted(stream);
    dhowi_cl_stream_flush(stream);
    pthread_mutex_lock(&point->lock);
    cl_event before = point->marker;
    point->marker = marker;
    point->context = stream->device->context;
    pthread_mutex_unlock(&point->lock);
    if (before != NULL) dhowi_cl.ReleaseEvent(before);
    return DHOW_OK;
}

/* The last recorded marker, retained, so that a record by another thread may replace it meanwhile;
 * NULL: none. */
static cl_event take_marker(cl_point *point, cl_context *out_context) {
    pthread_mutex_lock(&point->lock);
    cl_event marker = point->marker;
    if (marker != NULL) dhowi_cl.RetainEvent(marker);
    if (out_context != NULL) *out_context = point->context;
    pthread_mutex_unlock(&point->lock);
    return marker;
}

static int32_t wait_for_marker(cl_event marker, dhow_error *err) {
    cl_int code = dhowi_cl.WaitForEvents(1, &marker);
    if (code == CL_SUCCESS) return DHOW_OK;
    int32_t status = dhowi_cl_event_status(marker, err);
    if (status != DHOW_OK && status != DHOW_NOT_READY) return status;
    return dhowi_cl_fail_late(err, code, "waiting for an event failed");
}

/* ---- waiting -------------------------------------------------------------------------------- */

/* The host event as the context sees it, made on first use. The lock is held. */
static int32_t user_event_in(cl_point *point, cl_context context, cl_event *out, dhow_error *err) {
    for (const user_event *user = point->users; user != NULL; user = user->next)
        if (user->context == context) {
            *out = user->event;
            return DHOW_OK;
        }
    cl_int code = CL_SUCCESS;
    user_event *user = dhowi_cl_new(point->device->host, sizeof *user);
    if (user == NULL)
        return dhowi_cl_refuse(err, DHOW_OUT_OF_MEMORY, "no host memory for an event");
    user->event = dhowi_cl.CreateUserEvent(context, &code);
    if (code != CL_SUCCESS) {
        dhowi_cl_delete(point->device->host, user);
        return dhowi_cl_fail(err, code, "no user event");
    }
    user->context = context;
    user->next = point->users;
    point->users = user;
    *out = user->event;
    return DHOW_OK;
}

int32_t dhowi_cl_stream_wait_event(dhowi_cl_stream *stream, cl_event event, dhow_error *err) {
    cl_int code = dhowi_cl.EnqueueBarrierWithWaitList(stream->queue, 1, &event, NULL);
    if (code != CL_SUCCESS)
        return dhowi_cl_fail(err, code, "%s: the stream cannot wait", stream->device->name);
    dhowi_cl_stream_submitted(stream);
    return DHOW_OK;
}

static int32_t wait_for_host(dhowi_cl_stream *stream, cl_point *point, dhow_error *err) {
    if (!stream->device->has_user_events) return dhowi_cl_event_sync(point, err);
    int32_t status = DHOW_OK;
    cl_event event = NULL;
    pthread_mutex_lock(&point->lock);
    if (!point->signalled) {
        status = user_event_in(point, stream->device->context, &event, err);
        if (status == DHOW_OK) status = dhowi_cl_stream_wait_event(stream, event, err);
    }
    pthread_mutex_unlock(&point->lock);
    return status;
}

int32_t dhowi_cl_stream_wait(void *stream_pointer, void *event_pointer, dhow_error *err) {
    dhowi_cl_stream *stream = stream_pointer;
    cl_point *point = event_pointer;
    if (point->flags & DHOW_EVENT_HOST) return wait_for_host(stream, point, err);
    cl_context context = NULL;
    cl_event marker = take_marker(point, &context);
    if (marker == NULL) return DHOW_OK;
    /* Markers mean nothing outside their context; the other device's work was flushed with the
     * record, so it ends. */
    int32_t status = context == stream->device->context
                         ? dhowi_cl_stream_wait_event(stream, marker, err)
                         : wait_for_marker(marker, err);
    dhowi_cl.ReleaseEvent(marker);
    return status;
}

int32_t dhowi_cl_event_sync(void *event_pointer, dhow_error *err) {
    cl_point *point = event_pointer;
    if (point->flags & DHOW_EVENT_HOST) {
        pthread_mutex_lock(&point->lock);
        while (!point->signalled) pthread_cond_wait(&point->signal, &point->lock);
        pthread_mutex_unlock(&point->lock);
        return DHOW_OK;
    }
    cl_event marker = take_marker(point, NULL);
    if (marker == NULL) return DHOW_OK;
    int32_t status = wait_for_marker(marker, err);
    dhowi_cl.ReleaseEvent(marker);
    return status;
}

int32_t dhowi_cl_event_query(void *event_pointer, dhow_error *err) {
    cl_point *point = event_pointer;
    if (point->flags & DHOW_EVENT_HOST) {
        pthread_mutex_lock(&point->lock);
        bool signalled = point->signalled;
        pthread_mutex_unlock(&point->lock);
        return signalled ? DHOW_OK : DHOW_NOT_READY;
    }
    cl_event marker = take_marker(point, NULL);
    if (marker == NULL) return DHOW_OK;
    int32_t status = dhowi_cl_event_status(marker, err);
    dhowi_cl.ReleaseEvent(marker);
    return status;
}

int32_t dhowi_cl_event_signal(void *event_pointer, dhow_error *err) {
    cl_point *point = event_pointer;
    if (!(point->flags & DHOW_EVENT_HOST))
        return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT,
                               "only an event made for the host can be signalled");
    pthread_mutex_lock(&point->lock);
    point->signalled = true;
    cl_int code = complete_users(point);
    pthread_cond_broadcast(&point->signal);
    pthread_mutex_unlock(&point->lock);
    if (code != CL_SUCCESS)
        return dhowi_cl_fail(err, code, "%s: the event is not signalled", point->device->name);
    return DHOW_OK;
}

/* ---- time ----------------------------------------------------------------------------------- */

static int32_t time_of(cl_point *point, cl_ulong *out, dhow_error *err) {
    cl_event marker = take_marker(point, NULL);
    if (marker == NULL)
        return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT, "a timing event was never recorded");
    cl_int code =
        dhowi_cl.GetEventProfilingInfo(marker, CL_PROFILING_COMMAND_END, sizeof *out, out, NULL);
    dhowi_cl.ReleaseEvent(marker);
    if (code != CL_SUCCESS)
        return dhowi_cl_fail(err, code, "%s: an event has no time", point->device->name);
    return DHOW_OK;
}

int32_t dhowi_cl_event_elapsed(void *start, void *end, int64_t *out_nanoseconds, dhow_error *err) {
    cl_point *first = start, *second = end;
    cl_ulong from = 0, to = 0;
    *out_nanoseconds = 0;
    if (!(first->flags & second->flags & DHOW_EVENT_TIMING))
        return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT, "both events must be made for timing");
    if (first->device != second->device)
        return dhowi_cl_refuse(err, DHOW_UNSUPPORTED, "OpenCL devices have clocks of their own");
    int32_t status = time_of(first, &from, err);
    if (status == DHOW_OK) status = time_of(second, &to, err);
    if (status == DHOW_OK) *out_nanoseconds = (int64_t)(to - from);
    return status;
}

int32_t dhowi_cl_event_native(void *event_pointer, uint64_t *out_native, dhow_error *err) {
    cl_point *point = event_pointer;
    pthread_mutex_lock(&point->lock);
    *out_native = (uint64_t)(uintptr_t)point->marker;
    pthread_mutex_unlock(&point->lock);
    if (*out_native != 0) return DHOW_OK;
    return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT, "%s: the event was never recorded",
                           point->device->name);
}
