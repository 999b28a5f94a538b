/* SPDX-License-Identifier: Apache-2.0
 *
 * Pending writers and readers of a storage, see storage.h.
 *
 * The invariant, which tests/interleave tries in all orders of a few threads' steps: work that was
 * noted is found by everybody who has to wait for it, until it is done, or until work that waits
 * for it is found in its place.
 *
 * All is under the lock, but for dhowi_hazard_is_quiet(): `sole_user` alone tells that nobody else
 * works with the storage.
 */
#include "base/errors/planted.h"
#include "base/memory/size.h"
#include "base/threads/spin.h"
#include "memory/storage.h"

_Thread_local const dhowi_timeline *dhowi_last_timeline;

static dhowi_timeline g_shared; /* only its address counts */
#define SHARED (&g_shared)

static void drop(dhowi_hazard *h, uint32_t at) { h->users[at] = h->users[--h->user_count]; }

static bool is_done(const dhowi_user *u) {
    return dhowi_timepoint_done((dhowi_timepoint){u->timeline, DHOWI_MAX(u->wrote, u->read)});
}

static void forget_done(dhowi_hazard *h) {
    for (uint32_t i = h->user_count; i-- > 0;)
        if (is_done(&h->users[i])) drop(h, i);
}

/* What a write of `self` makes unnecessary to wait for: what it waits for itself, and what a lost
 * device will never do. Another thread may have noted more meanwhile, and that stays. */
static void forget_awaited(dhowi_hazard *h, dhowi_timeline *self) {
    for (uint32_t i = h->user_count; i-- > 0;) {
        const dhowi_user *u = &h->users[i];
        dhowi_timepoint point = {u->timeline, DHOWI_MAX(u->wrote, u->read)};
        if (u->timeline != self &&
            (dhowi_timeline_is_lost(u->timeline) || dhowi_timeline_awaits(self, point) ||
             dhowi_planted("a write forgets all others")))
            drop(h, i);
    }
}

static void publish(dhowi_hazard *h) {
    atomic_store_explicit(&h->sole_user,
                          h->user_count == 0   ? NULL
                          : h->user_count == 1 ? h->users[0].timeline
                                               : SHARED,
                          memory_order_release);
}

/* The last number of a user's work that one with this access has to wait for; 0: none. What a lost
 * device was to read is over. What it was to write is missing to those who read, and of no matter
 * to those who write. */
static uint64_t number_of(const dhowi_user *u, uint32_t access) {
    if (dhowi_timeline_is_lost(u->timeline)) return (access & DHOW_ACCESS_READ) != 0 ? u->wrote : 0;
    return (access & DHOW_ACCESS_WRITE) != 0 ? DHOWI_MAX(u->wrote, u->read) : u->wrote;
}

uint32_t dhowi_hazard_pending(dhowi_hazard *h, uint32_t access, const dhowi_timeline *self,
                              dhowi_timepoint pending[DHOWI_MAX_PENDING]) {
    if (dhowi_hazard_is_quiet(h, self)) return 0;
    uint32_t count = 0;
    dhowi_spin_lock(&h->lock);
    forget_done(h);
    for (uint32_t i = 0; i < h->user_count; i++) {
        dhowi_timepoint point = {h->users[i].timeline, number_of(&h->users[i], access)};
        if (point.timeline != self && point.number != 0 && !dhowi_timepoint_done(point))
            pending[count++] = point;
    }
    publish(h);
    dhowi_spin_unlock(&h->lock);
    return count;
}

static dhowi_user *find(dhowi_hazard *h, const dhowi_timeline *self) {
    for (uint32_t i = 0; i < h->user_count; i++)
        if (h->users[i].timeline == self) return &h->users[i];
    return NULL;
}

/* So many streams use the storage at once that one has to be waited for; its failure is reported
 * where it is synced. Others may change the hazard meanwhile. */
static void make_room(dhowi_hazard *h) {
    const dhowi_user oldest = h->users[0];
    dhowi_spin_unlock(&h->lock);
    (void)oldest.timeline->wait(oldest.timeline, DHOWI_MAX(oldest.wrote, oldest.read));
    dhowi_spin_lock(&h->lock);
    forget_done(h);
    const dhowi_user *left = find(h, oldest.timeline); /* of a lost device, say: never done */
    if (left != NULL && left->wrote == oldest.wrote && left->read == oldest.read)
        drop(h, (uint32_t)(left - h->users));
}

/* The entry of `self`, among those that are not done. */
static dhowi_user *enter(dhowi_hazard *h, dhowi_timeline *self) {
    dhowi_user *u;
    while ((u = find(h, self)) == NULL && h->user_count == DHOWI_MAX_USERS) make_room(h);
    if (dhowi_planted("a second user is forgotten") && h->user_count == 2) h->user_count = 1;
    if (u != NULL) return u;
    u = &h->users[h->user_count++];
    *u = (dhowi_user){.timeline = self};
    return u;
}

static void set_number(dhowi_user *u, uint32_t access, uint64_t number) {
    *((access & DHOW_ACCESS_WRITE) != 0 ? &u->wrote : &u->read) = number;
}

static void unlock_after_note(dhowi_hazard *h) {
    if (!dhowi_planted("a note without the lock")) dhowi_spin_unlock(&h->lock);
}

/* Apart, since the one user that most storages have pays for each instruction. */
__attribute__((noinline)) static void note_beside_others(dhowi_hazard *h, uint32_t access,
                                                         dhowi_timeline *self, uint64_t number) {
    forget_done(h);
    if ((access & DHOW_ACCESS_WRITE) != 0) forget_awaited(h, self);
    set_number(enter(h, self), access, number);
    publish(h);
    unlock_after_note(h);
}

void dhowi_hazard_note(dhowi_hazard *h, uint32_t access, dhowi_timeline *self, uint64_t number) {
    if (dhowi_planted("a read is not noted") && access == DHOW_ACCESS_READ) return;
    if (!dhowi_planted("a note without the lock")) dhowi_spin_lock(&h->lock);
    if (atomic_load_explicit(&h->sole_user, memory_order_relaxed) != self) {
        note_beside_others(h, access, self, number);
        return;
    }
    set_number(&h->users[0], access, number);
    unlock_after_note(h);
}

void dhowi_hazard_overwritten(dhowi_hazard *h) {
    dhowi_timeline *sole_user = atomic_load_explicit(&h->sole_user, memory_order_acquire);
    if (sole_user == NULL || (sole_user != SHARED && !dhowi_timeline_is_lost(sole_user))) return;
    dhowi_spin_lock(&h->lock);
    for (uint32_t i = h->user_count; i-- > 0;)
        if (dhowi_timeline_is_lost(h->users[i].timeline)) drop(h, i);
    publish(h);
    dhowi_spin_unlock(&h->lock);
}

bool dhowi_hazard_needs(dhowi_hazard *h, uint32_t access, const dhowi_timeline *self,
                        dhowi_timepoint point) {
    dhowi_timepoint pending[DHOWI_MAX_PENDING];
    uint32_t count = dhowi_hazard_pending(h, access, self, pending);
    for (uint32_t i = 0; i < count; i++)
        if (pending[i].timeline == point.timeline) return true;
    return false;
}

dhow_status dhowi_hazard_wait(dhowi_hazard *h, uint32_t access) {
    dhowi_timepoint pending[DHOWI_MAX_PENDING];
    uint32_t count = dhowi_hazard_pending(h, access, NULL, pending);
    dhow_status status = DHOW_OK;
    for (uint32_t i = 0; i < count; i++) {
        dhow_status one = pending[i].timeline->wait(pending[i].timeline, pending[i].number);
        if (one == DHOW_DEVICE_LOST && !dhowi_hazard_needs(h, access, NULL, pending[i])) continue;
        if (status == DHOW_OK) status = one;
    }
    return status;
}
