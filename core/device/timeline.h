/* SPDX-License-Identifier: Apache-2.0
 *
 * A timeline numbers the work of one in-order queue - a stream, or the context's host queue.
 * Storage remembers its pending writer and readers as timepoints: a timeline and a number.
 */
#ifndef DHOWI_DEVICE_TIMELINE_H_
#define DHOWI_DEVICE_TIMELINE_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/errors/error.h"

typedef struct dhowi_timeline dhowi_timeline;

typedef struct dhowi_timepoint {
    dhowi_timeline *timeline; /* NULL: no timepoint */
    uint64_t number;
} dhowi_timepoint;

/* Blocks until `number` is done; a failure of that very work is its status. */
typedef dhow_status dhowi_timeline_wait_fn(dhowi_timeline *timeline, uint64_t number);

/* Whether the timeline's device is still there, without blocking: its loss is the status. */
typedef dhow_status dhowi_timeline_ask_fn(dhowi_timeline *timeline);

enum { DHOWI_MAX_AWAITED = 8 };

struct dhowi_timeline {
    _Atomic uint64_t submitted; /* number of the last unit of work handed in */
    _Atomic uint64_t completed; /* everything up to here is known to be done */
    /* Who holds a timepoint of an earlier timeline in this memory may read these while they change.
     */
    _Atomic(dhowi_timeline_wait_fn *) wait;
    _Atomic(dhowi_timeline_ask_fn *) ask;       /* NULL where `lost` is */
    _Atomic(const atomic_bool *) lost;          /* of its device; NULL: what it does is not lost */
    bool given_up;                              /* under the mutex of retiring */
    atomic_flag lock;                           /* guards `awaited` */
    dhowi_timepoint awaited[DHOWI_MAX_AWAITED]; /* later work comes after them; the latest ones */
};

static inline bool dhowi_timepoint_done(dhowi_timepoint point) {
    return point.timeline == NULL ||
           point.number <= atomic_load_explicit(&point.timeline->completed, memory_order_acquire);
}

/* Raises `completed`; it never falls. */
static inline void dhowi_timeline_complete(dhowi_timeline *timeline, uint64_t number) {
    uint64_t seen = atomic_load_explicit(&timeline->completed, memory_order_relaxed);
    while (seen < number &&
           !atomic_compare_exchange_weak_explicit(&timeline->completed, &seen, number,
                                                  memory_order_release, memory_order_relaxed)) {
    }
}

/* Whether what is not done by now never will be. */
static inline bool dhowi_timeline_is_lost(const dhowi_timeline *timeline) {
    const atomic_bool *lost = timeline->lost;
    return lost != NULL && atomic_load_explicit(lost, memory_order_acquire);
}

/* Notes that the timeline was made to wait for the timepoint, once it was. */
void dhowi_timeline_awaited(dhowi_timeline *timeline, dhowi_timepoint point);
/* Whether it was, as far as it remembers. */
bool dhowi_timeline_awaits(dhowi_timeline *timeline, dhowi_timepoint point);

/* Timelines live in pooled memory that is used again: a new one starts after every number an old
 * one may have used, so that old timepoints count as done. */
void dhowi_timeline_start(dhowi_timeline *timeline, dhowi_timeline_wait_fn *wait,
                          dhowi_timeline_ask_fn *ask, const atomic_bool *lost);
/* Marks that outlive the timeline are done. */
void dhowi_timeline_retire(dhowi_timeline *timeline);
/* Its device is lost: timepoints that outlive the timeline are never done, until it retires. */
void dhowi_timeline_give_up(dhowi_timeline *timeline);
/* Blocks until the timepoint is done; false when it never will be. For timelines on their way out:
 * only what retires is told of. */
bool dhowi_timeline_await_end(dhowi_timepoint point);

#endif /* DHOWI_DEVICE_TIMELINE_H_ */
