/* SPDX-License-Identifier: Apache-2.0
 *
 * What a timeline waits for, see timeline.h. It remembers the latest timepoint of a few timelines:
 * what it forgets is waited for once more, which does no harm.
 */
#include <string.h>

#include "base/threads/spin.h"
#include "device/timeline.h"

bool dhowi_timeline_awaits(dhowi_timeline *timeline, dhowi_timepoint point) {
    bool found = false;
    dhowi_spin_lock(&timeline->lock);
    for (int i = 0; i < DHOWI_MAX_AWAITED && !found; i++) {
        const dhowi_timepoint *a = &timeline->awaited[i];
        found = a->timeline == point.timeline && a->number >= point.number;
    }
    dhowi_spin_unlock(&timeline->lock);
    return found;
}

void dhowi_timeline_awaited(dhowi_timeline *timeline, dhowi_timepoint point) {
    if (dhowi_timepoint_done(point)) return;
    dhowi_spin_lock(&timeline->lock);
    /* In the order of use; the one that makes room is its own, one that is done, or the oldest. */
    dhowi_timepoint *a = timeline->awaited;
    int at = 0;
    while (at < DHOWI_MAX_AWAITED && a[at].timeline != point.timeline) at++;
    if (at < DHOWI_MAX_AWAITED && a[at].number > point.number) point = a[at];
    for (int i = 0; at == DHOWI_MAX_AWAITED && i < DHOWI_MAX_AWAITED; i++)
        if (dhowi_timepoint_done(a[i])) at = i;
    if (at == DHOWI_MAX_AWAITED) at = 0;
    memmove(&a[at], &a[at + 1], (size_t)(DHOWI_MAX_AWAITED - 1 - at) * sizeof *a);
    a[DHOWI_MAX_AWAITED - 1] = point;
    dhowi_spin_unlock(&timeline->lock);
}
