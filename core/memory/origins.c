/* SPDX-License-Identifier: Apache-2.0
 *
 * See origins.h.
 */
#include "memory/origins.h"

#include "base/errors/planted.h"
#include "base/memory/size.h"
#include "base/threads/spin.h"
#include "memory/storage.h"

/* Jobs of the host queue end one by one, and each is asked how it went; a stream's work has
 * succeeded once it is done. */
static bool is_job(dhowi_timepoint point) {
    return point.timeline != NULL && point.timeline->lost == NULL;
}

static dhow_status outcome(dhowi_timepoint point, bool ended) {
    const bool done = dhowi_timepoint_done(point);
    if (is_job(point)) return done ? point.timeline->wait(point.timeline, point.number) : DHOW_OK;
    if (done || (!ended && !dhowi_timeline_is_lost(point.timeline))) return DHOW_OK;
    DHOWI_TRY(point.timeline->ask(point.timeline));
    if (ended) dhowi_timeline_complete(point.timeline, point.number);
    return DHOW_OK;
}

dhow_status dhowi_origins_check(dhowi_origins *origins, bool ended) {
    dhowi_origins open = {.count = 0};
    for (uint32_t i = 0; i < origins->count; i++) {
        const dhowi_timepoint point = origins->points[i];
        const bool known = ended || dhowi_timepoint_done(point);
        DHOWI_TRY(outcome(point, ended));
        if (!known) open.points[open.count++] = point;
    }
    *origins = open;
    return DHOW_OK;
}

/* Whether nothing can be learnt of it any more. */
static bool is_over(dhowi_timepoint point) { return !is_job(point) && dhowi_timepoint_done(point); }

dhow_status dhowi_origins_add(dhowi_origins *origins, dhowi_timepoint point) {
    if (is_over(point)) return DHOW_OK;
    for (uint32_t i = 0; i < origins->count; i++) {
        dhowi_timepoint *known = &origins->points[i];
        if (known->timeline == point.timeline && !is_job(point)) {
            known->number = DHOWI_MAX(known->number, point.number);
            return DHOW_OK;
        }
        if (known->timeline == point.timeline && known->number == point.number) return DHOW_OK;
    }
    if (origins->count == DHOWI_MAX_ORIGINS)
        return point.timeline->wait(point.timeline, point.number);
    origins->points[origins->count++] = point;
    return DHOW_OK;
}

dhow_status dhowi_origins_add_storage(dhowi_origins *origins, dhowi_storage *storage) {
    if (dhowi_planted("values come from one device only")) return DHOW_OK;
    const dhowi_origins all = dhowi_storage_origins(storage);
    for (uint32_t i = 0; i < all.count; i++) DHOWI_TRY(dhowi_origins_add(origins, all.points[i]));
    return DHOW_OK;
}

dhowi_origins dhowi_storage_origins(dhowi_storage *storage) {
    dhowi_origins all = {.count = 0};
    if (atomic_load_explicit(&storage->origin_count, memory_order_acquire) == 0) return all;
    dhowi_spin_lock(&storage->hazard.lock);
    all.count = atomic_load(&storage->origin_count);
    for (uint32_t i = 0; i < all.count; i++) all.points[i] = storage->origins[i];
    dhowi_spin_unlock(&storage->hazard.lock);
    return all;
}

static bool holds(const dhowi_origins *origins, dhowi_timepoint point) {
    for (uint32_t i = 0; i < origins->count; i++)
        if (origins->points[i].timeline == point.timeline &&
            origins->points[i].number == point.number)
            return true;
    return false;
}

/* The storage may have been written meanwhile: only what was asked about is forgotten. */
static void forget(dhowi_storage *storage, const dhowi_origins *asked, const dhowi_origins *open) {
    dhowi_spin_lock(&storage->hazard.lock);
    uint32_t kept = 0, count = atomic_load(&storage->origin_count);
    for (uint32_t i = 0; i < count; i++) {
        const dhowi_timepoint point = storage->origins[i];
        if (!holds(asked, point) || holds(open, point)) storage->origins[kept++] = point;
    }
    atomic_store(&storage->origin_count, kept);
    dhowi_spin_unlock(&storage->hazard.lock);
}

dhow_status dhowi_storage_check_origins(dhowi_storage *storage, bool ended) {
    const dhowi_origins all = dhowi_storage_origins(storage);
    if (all.count == 0) return DHOW_OK;
    dhowi_origins open = all;
    DHOWI_TRY(dhowi_origins_check(&open, ended));
    if (open.count < all.count) forget(storage, &all, &open);
    return DHOW_OK;
}

void dhowi_storage_set_origins(dhowi_storage *storage, const dhowi_origins *origins) {
    if (dhowi_planted("values come from nowhere")) return;
    if (origins->count == 0 && atomic_load(&storage->origin_count) == 0) return;
    dhowi_spin_lock(&storage->hazard.lock);
    for (uint32_t i = 0; i < origins->count; i++) storage->origins[i] = origins->points[i];
    atomic_store(&storage->origin_count, origins->count);
    dhowi_spin_unlock(&storage->hazard.lock);
}
