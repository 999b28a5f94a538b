/* SPDX-License-Identifier: Apache-2.0
 *
 * A timeline numbers the work of one in-order queue - a stream, or the context's host queue.
 * Storage remembers its pending writer and readers as marks: a timeline and a number.
 */
#ifndef DHOWI_DEVICE_TIMELINE_H_
#define DHOWI_DEVICE_TIMELINE_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef struct dhowi_timeline {
    _Atomic uint64_t submitted; /* number of the last unit of work handed in */
    _Atomic uint64_t completed; /* everything up to here is known to be done */
    /* Blocks until `number` is done; a failure of that very work is its status. */
    dhow_status (*wait)(struct dhowi_timeline *timeline, uint64_t number);
} dhowi_timeline;

typedef struct dhowi_mark {
    dhowi_timeline *timeline; /* NULL: no mark */
    uint64_t number;
} dhowi_mark;

static inline bool dhowi_mark_done(dhowi_mark mark) {
    return mark.timeline == NULL ||
           mark.number <= atomic_load_explicit(&mark.timeline->completed, memory_order_acquire);
}

/* Raises `completed`; it never falls. */
static inline void dhowi_timeline_complete(dhowi_timeline *timeline, uint64_t number) {
    uint64_t seen = atomic_load_explicit(&timeline->completed, memory_order_relaxed);
    while (seen < number &&
           !atomic_compare_exchange_weak_explicit(&timeline->completed, &seen, number,
                                                  memory_order_release, memory_order_relaxed)) {
    }
}

/* Timelines live in pooled memory that is used again: a new one starts after every number an old
 * one may have used, so that old marks count as done. */
void dhowi_timeline_start(dhowi_timeline *timeline,
                          dhow_status (*wait)(dhowi_timeline *timeline, uint64_t number));
void dhowi_timeline_retire(dhowi_timeline *timeline);

#endif /* DHOWI_DEVICE_TIMELINE_H_ */
