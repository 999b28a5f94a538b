/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams and events. Work runs inside the call that submits it, so a recorded event has always
 * been reached; only events that the host signals can still be open, and waiting for one blocks
 * until it is signalled.
 */
#include <time.h>

#include "cpu.h"

typedef struct cpu_event {
    cpu_device *device;
    uint32_t flags;
    int reached;
    int64_t nanoseconds;
    pthread_mutex_t lock;
    pthread_cond_t signalled;
} cpu_event;

static void *allocate(cpu_device *device, uint64_t bytes) {
    const dhow_host *host = device->backend->host;
    return host->alloc(host->user, bytes, 64);
}

static void release(cpu_device *device, void *memory) {
    const dhow_host *host = device->backend->host;
    host->free(host->user, memory);
}

int32_t cpu_stream_create(void *device, uint32_t flags, void **out_stream, dhow_error *err) {
    (void)flags;
    cpu_stream *stream = allocate(device, sizeof *stream);
    *out_stream = NULL;
    if (!stream) return cpu_fail(err, DHOW_OUT_OF_MEMORY, 0, "cannot allocate a stream");
    stream->device = device;
    *out_stream = stream;
    return DHOW_OK;
}

void cpu_stream_destroy(void *stream) {
    if (stream) release(((cpu_stream *)stream)->device, stream);
}

int32_t cpu_stream_sync(void *stream, dhow_error *err) {
    (void)stream, (void)err;
    return DHOW_OK;
}

int32_t cpu_stream_query(void *stream, dhow_error *err) {
    (void)stream, (void)err;
    return DHOW_OK;
}

int32_t cpu_stream_wait(void *stream, void *event, dhow_error *err) {
    (void)stream;
    return cpu_event_sync(event, err);
}

int32_t cpu_event_create(void *device, uint32_t flags, void **out_event, dhow_error *err) {
    cpu_event *event = allocate(device, sizeof *event);
    *out_event = NULL;
    if (!event) return cpu_fail(err, DHOW_OUT_OF_MEMORY, 0, "cannot allocate an event");
    event->device = device;
    event->flags = flags;
    event->reached = (flags & DHOW_EVENT_HOST) == 0;
    event->nanoseconds = 0;
    (void)pthread_mutex_init(&event->lock, NULL);
    (void)pthread_cond_init(&event->signalled, NULL);
    *out_event = event;
    return DHOW_OK;
}

void cpu_event_destroy(void *handle) {
    cpu_event *event = handle;
    if (!event) return;
    (void)pthread_mutex_destroy(&event->lock);
    (void)pthread_cond_destroy(&event->signalled);
    release(event->device, event);
}

static void reach(cpu_event *event) {
    struct timespec now = {0, 0};
    if (event->flags & DHOW_EVENT_TIMING) (void)clock_gettime(CLOCK_MONOTONIC, &now);
    (void)pthread_mutex_lock(&event->lock);
    event->nanoseconds = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    event->reached = 1;
    (void)pthread_cond_broadcast(&event->signalled);
    (void)pthread_mutex_unlock(&event->lock);
}

int32_t cpu_event_record(void *event, void *stream, dhow_error *err) {
    (void)stream, (void)err;
    reach(event);
    return DHOW_OK;
}

int32_t cpu_event_signal(void *event, dhow_error *err) {
    (void)err;
    reach(event);
    return DHOW_OK;
}

int32_t cpu_event_sync(void *handle, dhow_error *err) {
    cpu_event *event = handle;
    (void)err;
    (void)pthread_mutex_lock(&event->lock);
    while (!event->reached) (void)pthread_cond_wait(&event->signalled, &event->lock);
    (void)pthread_mutex_unlock(&event->lock);
    return DHOW_OK;
}

int32_t cpu_event_query(void *handle, dhow_error *err) {
    cpu_event *event = handle;
    (void)err;
    (void)pthread_mutex_lock(&event->lock);
    const int reached = event->reached;
    (void)pthread_mutex_unlock(&event->lock);
    return reached ? DHOW_OK : DHOW_NOT_READY;
}

int32_t cpu_event_elapsed(void *start, void *end, int64_t *out_nanoseconds, dhow_error *err) {
    (void)err;
    *out_nanoseconds = ((cpu_event *)end)->nanoseconds - ((cpu_event *)start)->nanoseconds;
    return DHOW_OK;
}
