/* SPDX-License-Identifier: Apache-2.0
 *
 * See submit.h: the waits that the storages ask for before the work, the timepoints for those who
 * follow after it; and what a submission uses while a graph is recorded.
 */
#include "stream/submit.h"

#include <string.h>

#include "base/errors/planted.h"
#include "base/memory/alloc.h"
#include "base/memory/array.h"
#include "stream/span.h"

/* Whose values the work reads that the thread is handing in, see memory/origins.h. */
static _Thread_local dhowi_origins g_origins;

/* Before work that uses what others work with; apart, since most work does not. */
__attribute__((noinline)) static dhow_status wait_for_others(dhow_stream *stream,
                                                             const dhowi_use *use) {
    const bool reads = (use->access & DHOW_ACCESS_READ) != 0;
    dhowi_hazard *hazard = &use->storage->hazard;
    dhowi_timepoint pending[DHOWI_MAX_PENDING];
    uint32_t count = dhowi_hazard_pending(hazard, use->access, &stream->timeline, pending);
    if (dhowi_planted("a reader waits for nobody") && use->access == DHOW_ACCESS_READ) count = 0;
    if (dhowi_planted("a writer waits for nobody") && use->access == DHOW_ACCESS_WRITE) count = 0;
    for (uint32_t i = 0; i < count; i++) {
        dhow_status status = dhowi_stream_wait_timepoint(stream, pending[i]);
        if (status != DHOW_OK &&
            (status != DHOW_DEVICE_LOST ||
             dhowi_hazard_needs(hazard, use->access, &stream->timeline, pending[i])))
            return status;
        const bool others = pending[i].timeline->lost != stream->timeline.lost;
        if (reads && others && !dhowi_device_is_host(stream->device)) /* the host has waited */
            DHOWI_TRY(dhowi_origins_add(&g_origins, pending[i]));
    }
    return DHOW_OK;
}

static dhow_status wait_for_use(dhow_stream *stream, const dhowi_use *use) {
    dhowi_storage *storage = use->storage;
    if (!dhowi_hazard_is_quiet(&storage->hazard, &stream->timeline))
        DHOWI_TRY(wait_for_others(stream, use));
    if ((use->access & DHOW_ACCESS_READ) == 0) return DHOW_OK;
    DHOWI_TRY(dhowi_storage_readable(storage, dhowi_device_is_host(stream->device)));
    if (atomic_load_explicit(&storage->origin_count, memory_order_acquire) == 0) return DHOW_OK;
    return dhowi_origins_add_storage(&g_origins, storage);
}

static dhow_status wait_for_uses(dhow_stream *stream, const dhowi_use *uses, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) DHOWI_TRY(wait_for_use(stream, &uses[i]));
    return DHOW_OK;
}

dhow_status dhowi_stream_begin(dhow_stream *stream, const dhowi_use *uses, uint32_t count) {
    DHOWI_TRY(dhowi_device_usable(stream->device));
    if (!dhowi_device_is_host(stream->device)) g_origins.count = 0;
    if (stream->recording == NULL) {
        DHOWI_TRY(dhowi_stream_wait_attached(stream));
        DHOWI_TRY(wait_for_uses(stream, uses, count));
    }
    if (!dhowi_device_is_host(stream->device)) pthread_mutex_lock(&stream->mutex);
    return DHOW_OK;
}

static void unlock(dhow_stream *stream) {
    if (!dhowi_device_is_host(stream->device)) pthread_mutex_unlock(&stream->mutex);
}

dhow_status dhowi_stream_end(dhow_stream *stream, const dhowi_use *uses, uint32_t count,
                             dhow_status submitted) {
    dhowi_timeline *timeline = &stream->timeline;
    dhowi_span_end(stream);
    if (dhowi_stream_note_uses(stream, uses, count)) {
        unlock(stream);
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
    unlock(stream);
    return submitted;
}

bool dhowi_stream_note_uses(dhow_stream *stream, const dhowi_use *uses, uint32_t count) {
    dhowi_recorded_uses *r = stream->recording;
    if (r == NULL) return false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = 0;
        while (k < r->count && r->uses[k].storage != uses[i].storage) k++;
        if (!dhowi_room((void **)&r->uses, k, &r->capacity, sizeof *r->uses)) {
            r->short_of_memory = true;
            break;
        }
        if (k == r->count) {
            dhowi_storage_retain(uses[i].storage);
            r->uses[r->count++] = (dhowi_use){uses[i].storage, 0};
        }
        r->uses[k].access |= uses[i].access;
    }
    return true;
}

dhow_status dhowi_stream_refuse_recording(const dhow_stream *stream, const char *what) {
    if (stream->recording == NULL) return DHOW_OK;
    return dhowi_fail(DHOW_UNSUPPORTED, "%s: %s cannot be recorded in a graph",
                      stream->device->name, what);
}

dhow_status dhowi_submit_to_sink(dhowi_work work) {
    return dhowi_thread_sink->take(dhowi_thread_sink, &work);
}

dhow_status dhowi_launch_to_sink(const char *name, void *native, const dhow_geometry *geometry,
                                 const dhow_arg *args, uint32_t arg_count) {
    const dhowi_work work = {.kind = DHOWI_WORK_LAUNCH,
                             .traced = DHOWI_TRACE_KERNEL,
                             .name = name,
                             .what = name,
                             .u.launch = {native, geometry, args, arg_count}};
    return dhowi_thread_sink->take(dhowi_thread_sink, &work);
}
