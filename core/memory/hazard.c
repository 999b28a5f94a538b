/* SPDX-License-Identifier: Apache-2.0
 *
 * Pending writers and readers of a storage, see storage.h.
 *
 * The race that matters: thread A notes work through the lock-free words while thread B turns the
 * hazard into its shared form. A stores its number and then looks at `sole` again; B stores `sole`
 * and then reads the numbers. Both are sequentially consistent, so either B sees A's number or A
 * sees B's change and notes again under the lock.
 */
#include "memory/storage.h"

static dhowi_timeline g_shared; /* only its address counts */
#define SHARED (&g_shared)

static void lock(dhowi_hazard *h) {
    while (atomic_flag_test_and_set_explicit(&h->lock, memory_order_acquire)) {
        /* held for nanoseconds only */
    }
}
static void unlock(dhowi_hazard *h) { atomic_flag_clear_explicit(&h->lock, memory_order_release); }

/* Under the lock: moves the words of a sole timeline into marks and forgets what is done. */
static void share(dhowi_hazard *h) {
    dhowi_timeline *sole = atomic_load(&h->sole);
    if (sole != NULL && sole != SHARED) {
        atomic_store(&h->sole, SHARED);
        h->writer = (dhowi_mark){sole, atomic_load(&h->write_number)};
        h->readers[0] = (dhowi_mark){sole, atomic_load(&h->read_number)};
        h->reader_count = 1;
    }
    if (dhowi_mark_done(h->writer)) h->writer.timeline = NULL;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < h->reader_count; i++) {
        if (!dhowi_mark_done(h->readers[i])) h->readers[kept++] = h->readers[i];
    }
    h->reader_count = kept;
}

/* Under the lock, after share(): leaves the shared form when nothing is pending any more. */
static void settle(dhowi_hazard *h) {
    if (h->writer.timeline == NULL && h->reader_count == 0) atomic_store(&h->sole, NULL);
}

uint32_t dhowi_hazard_pending(dhowi_hazard *h, uint32_t access, const dhowi_timeline *self,
                              dhowi_mark pending[DHOWI_MAX_PENDING]) {
    dhowi_timeline *sole = atomic_load_explicit(&h->sole, memory_order_acquire);
    if (sole == NULL || sole == self) return 0;
    uint32_t count = 0;
    lock(h);
    share(h);
    if (h->writer.timeline != NULL && h->writer.timeline != self) pending[count++] = h->writer;
    for (uint32_t i = 0; (access & DHOW_ACCESS_WRITE) != 0 && i < h->reader_count; i++) {
        if (h->readers[i].timeline != self) pending[count++] = h->readers[i];
    }
    settle(h);
    unlock(h);
    return count;
}

static bool update_reader(dhowi_hazard *h, dhowi_timeline *self, uint64_t number) {
    for (uint32_t i = 0; i < h->reader_count; i++) {
        if (h->readers[i].timeline != self) continue;
        if (h->readers[i].number < number) h->readers[i].number = number;
        return true;
    }
    return false;
}

static void forget_reader(dhowi_hazard *h, dhowi_mark mark) {
    for (uint32_t i = 0; i < h->reader_count; i++) {
        if (h->readers[i].timeline != mark.timeline || h->readers[i].number != mark.number)
            continue;
        h->readers[i] = h->readers[--h->reader_count];
        return;
    }
}

static void note_reader(dhowi_hazard *h, dhowi_timeline *self, uint64_t number) {
    while (!update_reader(h, self, number)) {
        if (h->reader_count < DHOWI_MAX_READERS) {
            h->readers[h->reader_count++] = (dhowi_mark){self, number};
            return;
        }
        /* So many streams read at once that one has to be waited for; its failure is reported where
         * it is synced. Others may change the hazard meanwhile. */
        dhowi_mark oldest = h->readers[0];
        unlock(h);
        dhow_status status = oldest.timeline->wait(oldest.timeline, oldest.number);
        lock(h);
        share(h);
        if (status != DHOW_OK) forget_reader(h, oldest); /* of a lost device, say: never done */
    }
}

static void note_shared(dhowi_hazard *h, uint32_t access, dhowi_timeline *self, uint64_t number) {
    lock(h);
    share(h);
    bool writes = (access & DHOW_ACCESS_WRITE) != 0;
    /* A write has waited for all others; a read alone in the field is sole as well. */
    if (writes || (h->writer.timeline == NULL && h->reader_count == 0)) {
        h->writer.timeline = NULL;
        h->reader_count = 0;
        atomic_store(&h->write_number, writes ? number : 0);
        atomic_store(&h->read_number, number);
        atomic_store(&h->sole, self);
    } else {
        note_reader(h, self, number);
        atomic_store(&h->sole, SHARED);
    }
    unlock(h);
}

void dhowi_hazard_note(dhowi_hazard *h, uint32_t access, dhowi_timeline *self, uint64_t number) {
    if (atomic_load_explicit(&h->sole, memory_order_relaxed) == self) {
        atomic_store((access & DHOW_ACCESS_WRITE) != 0 ? &h->write_number : &h->read_number,
                     number);
        if (atomic_load(&h->sole) == self) return;
    }
    note_shared(h, access, self, number);
}

dhow_status dhowi_hazard_wait(dhowi_hazard *h, uint32_t access) {
    dhowi_mark pending[DHOWI_MAX_PENDING];
    uint32_t count = dhowi_hazard_pending(h, access, NULL, pending);
    dhow_status status = DHOW_OK;
    for (uint32_t i = 0; i < count; i++) {
        dhow_status one = pending[i].timeline->wait(pending[i].timeline, pending[i].number);
        if (status == DHOW_OK) status = one;
    }
    return status;
}
