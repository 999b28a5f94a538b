/* SPDX-License-Identifier: Apache-2.0
 *
 * See span.h.
 */
#include "stream/span.h"

#include <time.h>

#include "base/memory/alloc.h"

enum {
    TIMERS = 1024, /* pieces of work of a device that may be under way */
    MOST_SECONDS_SINCE_BASE = 4
};

/* Two events around a piece of work. */
typedef struct dhowi_timer {
    void *begin, *end;
    dhowi_trace_record *record; /* NULL: free */
    bool closed;                /* both are recorded */
} dhowi_timer;

/* Timers are used in turn, so the oldest is behind the newest. */
typedef struct device_timers {
    pthread_mutex_t mutex;
    bool measures; /* the device has a clock; what follows is under the mutex */
    void *base;    /* an event, and when it was reached; moves on */
    int64_t base_time;
    dhowi_timer timers[TIMERS];
    uint64_t oldest, next;
} device_timers;

/* ---- the device's clock ---- */

static void *new_event(dhow_device *device) {
    dhow_error err;
    void *event = NULL;
    dhowi_error_init(&err);
    int32_t code =
        device->api->event_create(dhowi_device_native(device), DHOW_EVENT_TIMING, &event, &err);
    return code == DHOW_OK ? event : NULL;
}

/* On an idle stream an event is reached as soon as it is recorded. */
static void find_base(dhow_device *device, device_timers *t) {
    dhow_error err;
    void *stream = NULL, *event = new_event(device);
    dhowi_error_init(&err);
    if (event == NULL) return;
    bool known = false;
    if (device->api->stream_create(dhowi_device_native(device), 0, &stream, &err) == DHOW_OK) {
        /* The first record may start something in the driver. */
        for (int i = 0; i < 2; i++) {
            known = device->api->event_record(event, stream, &err) == DHOW_OK &&
                    device->api->event_sync(event, &err) == DHOW_OK;
            t->base_time = dhowi_trace_now();
        }
        (void)device->api->stream_sync(stream, &err);
        device->api->stream_destroy(stream);
    }
    if (known) {
        t->base = event;
        t->measures = true;
    } else {
        device->api->event_destroy(event);
    }
}

static void finish_spans(dhow_context *context, int64_t patience_ms);

static void *make_timers(dhow_device *device) {
    device_timers *t = dhowi_alloc(sizeof *t);
    if (t == NULL) return NULL;
    atomic_store(&device->context->finish_spans, finish_spans);
    pthread_mutex_init(&t->mutex, NULL);
    find_base(device, t);
    return t;
}

static bool between(dhow_device *device, void *earlier, void *later, int64_t *out) {
    dhow_error err;
    dhowi_error_init(&err);
    return device->api->event_elapsed(earlier, later, out, &err) == DHOW_OK;
}

/* Under the mutex: the timer's work is over. CUDA tells times as floats, of fewer digits the longer
 * they are, so that both times are short ones: of the work itself, and since a base that moves on
 * with the work. */
static void read_timer(dhow_device *device, device_timers *t, dhowi_timer *timer) {
    dhowi_trace_record *r = timer->record;
    int64_t since_base, duration;
    if (between(device, t->base, timer->begin, &since_base) &&
        between(device, timer->begin, timer->end, &duration)) {
        r->device_begin = t->base_time + since_base;
        r->device_end = r->device_begin + duration;
        if (since_base > INT64_C(1000000000) * MOST_SECONDS_SINCE_BASE) {
            void *old = t->base;
            t->base = timer->begin;
            t->base_time = r->device_begin;
            timer->begin = old;
        }
    }
    dhowi_trace_done(r);
    timer->record = NULL;
}

/* Under the mutex: reads the timers of ended work, from the oldest on. */
static void harvest(dhow_device *device, device_timers *t, bool wait) {
    dhow_error err;
    for (; t->oldest < t->next; t->oldest++) {
        dhowi_timer *timer = &t->timers[t->oldest % TIMERS];
        if (timer->record == NULL) continue; /* given up */
        if (!timer->closed) return;
        dhowi_error_init(&err);
        if (wait) {
            (void)device->api->event_sync(timer->end, &err);
        } else if (device->api->event_query(timer->end, &err) == DHOW_NOT_READY) {
            return;
        }
        read_timer(device, t, timer);
    }
}

static void end_timers(void *owner, void *data) {
    dhow_device *device = owner;
    device_timers *t = data;
    harvest(device, t, true);
    for (int i = 0; i < TIMERS; i++) {
        if (t->timers[i].begin != NULL) device->api->event_destroy(t->timers[i].begin);
        if (t->timers[i].end != NULL) device->api->event_destroy(t->timers[i].end);
    }
    if (t->base != NULL) device->api->event_destroy(t->base);
    pthread_mutex_destroy(&t->mutex);
    dhowi_free(t);
}

static device_timers *timers_of(dhow_device *device) {
    return dhowi_device_attach(device, DHOWI_ATTACH_TIMERS, make_timers, end_timers);
}

/* A timer for a record, or NULL when there is none. */
static dhowi_timer *take_timer(dhow_device *device, device_timers *t, dhowi_trace_record *record) {
    dhowi_timer *timer = NULL;
    pthread_mutex_lock(&t->mutex);
    if (t->next - t->oldest == TIMERS) harvest(device, t, false);
    if (t->next - t->oldest < TIMERS) {
        timer = &t->timers[t->next % TIMERS];
        if (timer->begin == NULL) timer->begin = new_event(device);
        if (timer->end == NULL) timer->end = new_event(device);
        if (timer->begin != NULL && timer->end != NULL) {
            timer->record = record;
            timer->closed = false;
            t->next++;
        } else {
            timer = NULL;
        }
    }
    pthread_mutex_unlock(&t->mutex);
    return timer;
}

/* ---- spans ---- */

_Thread_local dhowi_span dhowi_host_span;

static dhowi_trace *trace_of(dhow_context *context) {
    return atomic_load_explicit(&context->trace, memory_order_acquire);
}

void dhowi_span_open(dhow_stream *stream, dhowi_trace_kind kind, const char *name, uint64_t bytes,
                     const char *path) {
    dhow_device *device = stream->device;
    dhowi_trace *trace = trace_of(device->context);
    dhowi_span_end(stream);
    if (stream->recording != NULL) return; /* nothing runs */
    dhowi_trace_record *r = dhowi_trace_add(trace, kind, (uint16_t)device->place, name);
    if (r == NULL) return;
    r->stream = stream->number;
    r->bytes = bytes;
    r->path = path;
    dhowi_span *span = dhowi_stream_span(stream);
    *span = (dhowi_span){.record = r};
    if (!dhowi_device_is_host(device)) {
        dhow_error err;
        device_timers *t = timers_of(device);
        dhowi_error_init(&err);
        if (t != NULL && t->measures) span->timer = take_timer(device, t, r);
        if (span->timer == NULL) {
            atomic_fetch_add_explicit(&trace->untimed, 1, memory_order_relaxed);
        } else {
            (void)device->api->event_record(span->timer->begin, stream->native, &err);
        }
    }
    r->begin = dhowi_trace_now();
}

void dhowi_span_close(dhow_stream *stream) {
    dhow_device *device = stream->device;
    dhowi_span *span = dhowi_stream_span(stream);
    dhowi_trace_record *r = span->record;
    dhowi_timer *timer = span->timer;
    r->end = dhowi_trace_now();
    *span = (dhowi_span){0};
    if (timer == NULL) {
        dhowi_trace_done(r);
        return;
    }
    dhow_error err;
    dhowi_error_init(&err);
    (void)device->api->event_record(timer->end, stream->native, &err);
    device_timers *t = timers_of(device);
    pthread_mutex_lock(&t->mutex);
    timer->closed = true;
    pthread_mutex_unlock(&t->mutex);
}

void dhowi_host_span_end(dhow_context *context, int64_t begin, dhowi_trace_kind kind,
                         const char *name, uint64_t bytes, const char *path) {
    if (begin == 0) return;
    int64_t end = dhowi_trace_now();
    dhowi_trace_record *r = dhowi_trace_add(trace_of(context), kind, DHOWI_TRACE_HOST, name);
    if (r == NULL) return;
    r->begin = begin;
    r->end = end;
    r->bytes = bytes;
    r->path = path;
    dhowi_trace_done(r);
}

/* Under the mutex: gives up timers whose work has not ended until then. */
static void harvest_until(dhow_device *device, device_timers *t, int64_t end) {
    dhowi_trace *trace = trace_of(device->context);
    for (;;) {
        harvest(device, t, false);
        if (t->oldest == t->next || dhowi_trace_now() >= end) break;
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    for (; t->oldest < t->next; t->oldest++) {
        dhowi_timer *timer = &t->timers[t->oldest % TIMERS];
        if (timer->record == NULL) continue;
        atomic_fetch_add_explicit(&trace->untimed, 1, memory_order_relaxed);
        dhowi_trace_done(timer->record);
        timer->record = NULL;
    }
}

static void finish_spans(dhow_context *context, int64_t patience_ms) {
    const int64_t end = dhowi_trace_now() + patience_ms * 1000000;
    for (uint32_t i = 0; i < context->device_count; i++) {
        dhow_device *device = context->devices[i];
        device_timers *t = dhowi_device_attached(device, DHOWI_ATTACH_TIMERS);
        if (t == NULL) continue;
        pthread_mutex_lock(&t->mutex);
        if (patience_ms < 0) {
            harvest(device, t, true);
        } else {
            harvest_until(device, t, end);
        }
        pthread_mutex_unlock(&t->mutex);
    }
}
