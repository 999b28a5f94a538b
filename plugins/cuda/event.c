/* SPDX-License-Identifier: Apache-2.0
 *
 * Events. Two kinds: points in a stream, which are CUDA events out of a pool since making one costs
 * as much as a launch; and signals of the host, which are words of pinned memory that streams wait
 * for. A word only grows, so that an old waiter never sees it as not yet reached.
 */
#include <stdio.h>
#include <string.h>

#include "cuda_plugin.h"

/* A word in pinned memory. It is kept when its event goes: a wait outlives the event. */
typedef struct dhowi_cuda_flag {
    struct dhowi_cuda_flag *next, *next_spare;
    _Atomic uint32_t *word;
    CUdeviceptr address; /* of the word, as the device has it */
    uint32_t issued;     /* the value that the latest event waits for */
    void *page;          /* the pinned memory, of the first flag in it */
} dhowi_cuda_flag;

typedef struct dhowi_cuda_event {
    dhowi_cuda_device *device;
    struct dhowi_cuda_event *next_spare;
    uint32_t flags;
    atomic_bool recorded;  /* streams of other threads ask */
    cudaEvent_t native;    /* NULL for signals of the host */
    dhowi_cuda_flag *flag; /* of those */
    uint32_t value;
} dhowi_cuda_event;

enum { FLAGS_PER_PAGE = 64, FLAG_STRIDE = 64 /* one cache line each */ };

/* ---- flags ---------------------------------------------------------------------------------- */

static cudaError_t add_page(dhowi_cuda_device *device) {
    dhowi_cuda_flag *flags = dhowi_cuda_new(device->host, FLAGS_PER_PAGE * sizeof *flags);
    void *page = NULL, *address = NULL;
    if (flags == NULL) return cudaErrorMemoryAllocation;
    cudaError_t code = cudaHostAlloc(&page, FLAGS_PER_PAGE * FLAG_STRIDE, cudaHostAllocMapped);
    if (code == cudaSuccess) code = cudaHostGetDevicePointer(&address, page, 0);
    if (code != cudaSuccess) {
        if (page != NULL) (void)cudaFreeHost(page);
        dhowi_cuda_delete(device->host, flags);
        return code;
    }
    memset(page, 0, FLAGS_PER_PAGE * FLAG_STRIDE);
    (void)pthread_mutex_lock(&device->lock);
    for (size_t i = 0; i < FLAGS_PER_PAGE; i++) {
        flags[i].word = (_Atomic uint32_t *)(void *)((char *)page + i * FLAG_STRIDE);
        flags[i].address = (CUdeviceptr)(uintptr_t)address + i * FLAG_STRIDE;
        flags[i].next_spare = device->spare_flags;
        device->spare_flags = &flags[i];
    }
    flags[0].page = page;
    flags[0].next = device->flags;
    device->flags = flags;
    (void)pthread_mutex_unlock(&device->lock);
    return cudaSuccess;
}

static dhowi_cuda_flag *take_flag(dhowi_cuda_device *device) {
    (void)pthread_mutex_lock(&device->lock);
    dhowi_cuda_flag *flag = device->spare_flags;
    if (flag != NULL) device->spare_flags = flag->next_spare;
    (void)pthread_mutex_unlock(&device->lock);
    return flag;
}

static int32_t create_signal(dhowi_cuda_device *device, dhowi_cuda_event *event, dhow_error *err) {
    if (!device->host_waits)
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: its streams do not wait for the host",
                                 device->name);
    bool entered;
    cudaError_t code = dhowi_cuda_require(device, &entered);
    const enum cudaStreamCaptureMode mode = dhowi_cuda_relax();
    while (code == cudaSuccess && (event->flag = take_flag(device)) == NULL)
        code = add_page(device);
    if (code == cudaSuccess) event->value = ++event->flag->issued;
    dhowi_cuda_unrelax(mode);
    dhowi_cuda_leave(entered);
    return code == cudaSuccess
               ? DHOW_OK
               : dhowi_cuda_fail(err, code, "%s: pinned memory for events", device->name);
}

static bool signal_reached(const dhowi_cuda_event *event) {
    const uint32_t now = atomic_load_explicit(event->flag->word, memory_order_acquire);
    return (int32_t)(now - event->value) >= 0;
}

int32_t dhowi_cuda_event_signal(void *event_pointer, dhow_error *err) {
    dhowi_cuda_event *event = event_pointer;
    dhowi_cuda_device *device = event->device;
    if (event->flag == NULL)
        return dhowi_cuda_refuse(err, DHOW_INVALID_ARGUMENT,
                                 "%s: the event was not made to be signalled by the host",
                                 device->name);
    /* Streams see it at once; the lock is for threads that are about to wait. */
    atomic_store_explicit(event->flag->word, event->value, memory_order_release);
    (void)pthread_mutex_lock(&device->lock);
    (void)pthread_cond_broadcast(&device->signalled);
    (void)pthread_mutex_unlock(&device->lock);
    return DHOW_OK;
}

/* ---- events --------------------------------------------------------------------------------- */

static int32_t create_native(dhowi_cuda_device *device, dhowi_cuda_event *event, dhow_error *err) {
    const unsigned flags =
        (event->flags & DHOW_EVENT_TIMING) != 0 ? cudaEventDefault : cudaEventDisableTiming;
    bool entered;
    cudaError_t code = dhowi_cuda_require(device, &entered);
    const enum cudaStreamCaptureMode mode = dhowi_cuda_relax();
    if (code == cudaSuccess) code = cudaEventCreateWithFlags(&event->native, flags);
    dhowi_cuda_unrelax(mode);
    dhowi_cuda_leave(entered);
    return code == cudaSuccess ? DHOW_OK
                               : dhowi_cuda_fail(err, code, "%s: creating an event", device->name);
}

static dhowi_cuda_event *take_spare(dhowi_cuda_device *device, uint32_t flags) {
    (void)pthread_mutex_lock(&device->lock);
    dhowi_cuda_event **link = &device->spare_events;
    while (*link != NULL && (*link)->flags != flags) link = &(*link)->next_spare;
    dhowi_cuda_event *event = *link;
    if (event != NULL) *link = event->next_spare;
    (void)pthread_mutex_unlock(&device->lock);
    return event;
}

int32_t dhowi_cuda_event_create(void *device_pointer, uint32_t flags, void **out_event,
                                dhow_error *err) {
    dhowi_cuda_device *device = device_pointer;
    const bool is_signal = (flags & DHOW_EVENT_HOST) != 0;
    int32_t status = DHOW_OK;
    *out_event = NULL;
    dhowi_cuda_event *event = is_signal ? NULL : take_spare(device, flags);
    if (event == NULL) {
        event = dhowi_cuda_new(device->host, sizeof *event);
        if (event == NULL)
            return dhowi_cuda_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", device->name);
        event->device = device;
        event->flags = flags;
        status = is_signal ? create_signal(device, event, err) : create_native(device, event, err);
    }
    if (status != DHOW_OK) {
        dhowi_cuda_delete(device->host, event);
        return status;
    }
    event->recorded = false;
    *out_event = event;
    return DHOW_OK;
}

void dhowi_cuda_event_destroy(void *event_pointer) {
    dhowi_cuda_event *event = event_pointer;
    dhowi_cuda_device *device = event->device;
    dhow_error unused;
    if (event->flag != NULL && !signal_reached(event))
        (void)dhowi_cuda_event_signal(event, &unused);
    (void)pthread_mutex_lock(&device->lock);
    if (event->flag != NULL) {
        event->flag->next_spare = device->spare_flags;
        device->spare_flags = event->flag;
    } else {
        event->next_spare = device->spare_events;
        device->spare_events = event;
    }
    (void)pthread_mutex_unlock(&device->lock);
    if (event->flag != NULL) dhowi_cuda_delete(device->host, event);
}

void dhowi_cuda_events_end(dhowi_cuda_device *device, bool alive) {
    while (device->spare_events != NULL) {
        dhowi_cuda_event *event = device->spare_events;
        device->spare_events = event->next_spare;
        if (alive && cudaEventDestroy(event->native) != cudaSuccess) (void)cudaGetLastError();
        dhowi_cuda_delete(device->host, event);
    }
    while (device->flags != NULL) {
        dhowi_cuda_flag *flags = device->flags;
        device->flags = flags->next;
        if (alive && cudaFreeHost(flags->page) != cudaSuccess) (void)cudaGetLastError();
        dhowi_cuda_delete(device->host, flags);
    }
}

/* ---- using them ----------------------------------------------------------------------------- */

int32_t dhowi_cuda_event_record(void *event_pointer, void *stream_pointer, dhow_error *err) {
    dhowi_cuda_event *event = event_pointer;
    dhowi_cuda_stream *stream = stream_pointer;
    bool entered;
    cudaError_t code = dhowi_cuda_require(event->device, &entered);
    if (code == cudaSuccess) code = cudaEventRecord(event->native, dhowi_cuda_target(stream));
    dhowi_cuda_leave(entered);
    if (code != cudaSuccess) return dhowi_cuda_fail_on(stream, err, code, "recording an event");
    event->recorded = true;
    return DHOW_OK;
}

int32_t dhowi_cuda_stream_wait(void *stream_pointer, void *event_pointer, dhow_error *err) {
    dhowi_cuda_stream *stream = stream_pointer;
    dhowi_cuda_event *event = event_pointer;
    bool entered;
    if (event->flag != NULL ? signal_reached(event) : !event->recorded) return DHOW_OK;
    cudaError_t code = dhowi_cuda_require(stream->device, &entered);
    if (code == cudaSuccess && event->flag != NULL) {
        code =
            (cudaError_t)dhowi_cu.StreamWaitValue32(dhowi_cuda_target(stream), event->flag->address,
                                                    event->value, CU_STREAM_WAIT_VALUE_GEQ);
        if (code == cudaErrorNotSupported) { /* the function is there, the device cannot */
            (void)cudaGetLastError();
            dhowi_cuda_leave(entered);
            return dhowi_cuda_event_sync(event, err);
        }
    } else if (code == cudaSuccess) {
        code = cudaStreamWaitEvent(dhowi_cuda_target(stream), event->native, 0);
    }
    dhowi_cuda_leave(entered);
    return code == cudaSuccess ? DHOW_OK
                               : dhowi_cuda_fail_on(stream, err, code, "waiting for an event");
}

int32_t dhowi_cuda_event_sync(void *event_pointer, dhow_error *err) {
    dhowi_cuda_event *event = event_pointer;
    dhowi_cuda_device *device = event->device;
    if (event->flag != NULL) {
        (void)pthread_mutex_lock(&device->lock);
        while (!signal_reached(event)) (void)pthread_cond_wait(&device->signalled, &device->lock);
        (void)pthread_mutex_unlock(&device->lock);
        return DHOW_OK;
    }
    if (!event->recorded) return DHOW_OK;
    bool entered;
    cudaError_t code = dhowi_cuda_require(device, &entered);
    const enum cudaStreamCaptureMode mode = dhowi_cuda_relax();
    if (code == cudaSuccess) code = cudaEventSynchronize(event->native);
    dhowi_cuda_unrelax(mode);
    dhowi_cuda_leave(entered);
    return code == cudaSuccess
               ? DHOW_OK
               : dhowi_cuda_fail(err, code, "%s: waiting for an event", device->name);
}

int32_t dhowi_cuda_event_query(void *event_pointer, dhow_error *err) {
    dhowi_cuda_event *event = event_pointer;
    if (event->flag != NULL) return signal_reached(event) ? DHOW_OK : DHOW_NOT_READY;
    if (!event->recorded) return DHOW_OK;
    bool entered;
    cudaError_t code = dhowi_cuda_require(event->device, &entered);
    const enum cudaStreamCaptureMode mode = dhowi_cuda_relax();
    if (code == cudaSuccess) code = cudaEventQuery(event->native);
    dhowi_cuda_unrelax(mode);
    dhowi_cuda_leave(entered);
    if (code == cudaSuccess) return DHOW_OK;
    if (code == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return DHOW_NOT_READY;
    }
    return dhowi_cuda_fail(err, code, "%s: asking for an event's state", event->device->name);
}

int32_t dhowi_cuda_event_native(void *event_pointer, uint64_t *out_native, dhow_error *err) {
    const dhowi_cuda_event *event = event_pointer;
    *out_native = 0;
    if (event->native == NULL || !event->recorded)
        return dhowi_cuda_refuse(err, DHOW_INVALID_ARGUMENT, "%s: the event was never recorded",
                                 event->device->name);
    *out_native = (uint64_t)(uintptr_t)event->native;
    return DHOW_OK;
}

int32_t dhowi_cuda_event_elapsed(void *start_pointer, void *end_pointer, int64_t *out_nanoseconds,
                                 dhow_error *err) {
    const dhowi_cuda_event *start = start_pointer, *end = end_pointer;
    float milliseconds = 0;
    *out_nanoseconds = 0;
    if (!start->recorded || !end->recorded)
        return dhowi_cuda_refuse(err, DHOW_INVALID_ARGUMENT, "%s: an event was never recorded",
                                 start->device->name);
    bool entered;
    cudaError_t code = dhowi_cuda_require(start->device, &entered);
    if (code == cudaSuccess) code = cudaEventElapsedTime(&milliseconds, start->native, end->native);
    dhowi_cuda_leave(entered);
    if (code != cudaSuccess)
        return dhowi_cuda_fail(err, code, "%s: the time between two events", start->device->name);
    *out_nanoseconds = (int64_t)((double)milliseconds * 1e6);
    return DHOW_OK;
}
