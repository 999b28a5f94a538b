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
static bool is_job(dhowi_mark mark) { return mark.timeline->lost == NULL; }

static dhow_status outcome(dhowi_mark mark, bool ended) {
    const bool done = dhowi_mark_done(mark);
    if (is_job(mark)) return done ? mark.timeline->wait(mark.timeline, mark.number) : DHOW_OK;
    if (done || (!ended && !dhowi_timeline_is_lost(mark.timeline))) return DHOW_OK;
    DHOWI_TRY(mark.timeline->ask(mark.timeline));
    if (ended) dhowi_timeline_complete(mark.timeline, mark.number);
    return DHOW_OK;
}

dhow_status dhowi_origins_check(dhowi_origins *origins, bool ended) {
    dhowi_origins open = {.count = 0};
    for (uint32_t i = 0; i < origins->count; i++) {
        const dhowi_mark mark = origins->marks[i];
        const bool known = ended || dhowi_mark_done(mark);
        DHOWI_TRY(outcome(mark, ended));
        if (!known) open.marks[open.count++] = mark;
    }
    *origins = open;
    return DHOW_OK;
}

/* Whether nothing can be learnt of it any more. */
static bool is_over(dhowi_mark mark) { return !is_job(mark) && dhowi_mark_done(mark); }

dhow_status dhowi_origins_add(dhowi_origins *origins, dhowi_mark mark) {
    if (is_over(mark)) return DHOW_OK;
    for (uint32_t i = 0; i < origins->count; i++) {
        dhowi_mark *known = &origins->marks[i];
        if (known->timeline == mark.timeline && !is_job(mark)) {
            known->number = DHOWI_MAX(known->number, mark.number);
            return DHOW_OK;
        }
        if (known->timeline == mark.timeline && known->number == mark.number) return DHOW_OK;
    }
    if (origins->count == DHOWI_MAX_ORIGINS) return mark.timeline->wait(mark.timeline, mark.number);
    origins->marks[origins->count++] = mark;
    return DHOW_OK;
}

dhow_status dhowi_origins_add_storage(dhowi_origins *origins, dhowi_storage *storage) {
    if (dhowi_planted("values come from one device only")) return DHOW_OK;
    const dhowi_origins all = dhowi_storage_origins(storage);
    for (uint32_t i = 0; i < all.count; i++) DHOWI_TRY(dhowi_origins_add(origins, all.marks[i]));
    return DHOW_OK;
}

dhowi_origins dhowi_storage_origins(dhowi_storage *storage) {
    dhowi_origins all = {.count = 0};
    if (atomic_load_explicit(&storage->origin_count, memory_order_acquire) == 0) return all;
    dhowi_spin_lock(&storage->hazard.lock);
    all.count = atomic_load(&storage->origin_count);
    for (uint32_t i = 0; i < all.count; i++) all.marks[i] = storage->origins[i];
    dhowi_spin_unlock(&storage->hazard.lock);
    return all;
}

static bool holds(const dhowi_origins *origins, dhowi_mark mark) {
    for (uint32_t i = 0; i < origins->count; i++)
        if (origins->marks[i].timeline == mark.timeline && origins->marks[i].number == mark.number)
            return true;
    return false;
}

/* The storage may have been written meanwhile: only what was asked about is forgotten. */
static void forget(dhowi_storage *storage, const dhowi_origins *asked, const dhowi_origins *open) {
    dhowi_spin_lock(&storage->hazard.lock);
    uint32_t kept = 0, count = atomic_load(&storage->origin_count);
    for (uint32_t i = 0; i < count; i++) {
        const dhowi_mark mark = storage->origins[i];
        if (!holds(asked, mark) || holds(open, mark)) storage->origins[kept++] = mark;
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
    for (uint32_t i = 0; i < origins->count; i++) storage->origins[i] = origins->marks[i];
    atomic_store(&storage->origin_count, origins->count);
    dhowi_spin_unlock(&storage->hazard.lock);
}
