/* SPDX-License-Identifier: Apache-2.0
 *
 * See timeline.h.
 */
#include "device/timeline.h"

static _Atomic uint64_t g_highest;

void dhowi_timeline_start(dhowi_timeline *timeline,
                          dhow_status (*wait)(dhowi_timeline *timeline, uint64_t number)) {
    uint64_t start = atomic_load(&g_highest);
    /* Holders of old marks may be looking. */
    if (timeline->wait != wait) timeline->wait = wait;
    atomic_store(&timeline->submitted, start);
    atomic_store(&timeline->completed, start);
}

void dhowi_timeline_retire(dhowi_timeline *timeline) {
    uint64_t last = atomic_load(&timeline->submitted), seen = atomic_load(&g_highest);
    while (seen < last && !atomic_compare_exchange_weak(&g_highest, &seen, last)) {
    }
    /* Marks that outlive the timeline are done; the pool keeps the memory readable. */
    atomic_store(&timeline->completed, UINT64_MAX);
}
