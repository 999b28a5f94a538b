/* SPDX-License-Identifier: Apache-2.0
 *
 * See timeline.h.
 */
#include "device/timeline.h"

#include <pthread.h>
#include <string.h>

#include "base/threads/fork.h"
#include "base/threads/spin.h"

static _Atomic uint64_t g_highest;
static pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER; /* of retiring, which is rare */
static pthread_cond_t g_retired = PTHREAD_COND_INITIALIZER;

__attribute__((constructor)) static void guard(void) {
    dhowi_fork_guard(DHOWI_FORK_TIMELINES, &g_mutex, false);
}

void dhowi_timeline_start(dhowi_timeline *timeline, dhowi_timeline_wait_fn *wait,
                          dhowi_timeline_ask_fn *ask, const atomic_bool *lost) {
    uint64_t start = atomic_load(&g_highest);
    timeline->wait = wait;
    timeline->ask = ask;
    timeline->lost = lost;
    dhowi_spin_lock(&timeline->lock);
    memset(timeline->awaited, 0, sizeof timeline->awaited);
    dhowi_spin_unlock(&timeline->lock);
    atomic_store(&timeline->submitted, start);
    atomic_store(&timeline->completed, start);
}

void dhowi_timeline_retire(dhowi_timeline *timeline) {
    uint64_t last = atomic_load(&timeline->submitted), seen = atomic_load(&g_highest);
    while (seen < last && !atomic_compare_exchange_weak(&g_highest, &seen, last)) {
    }
    /* The pool keeps the memory readable for those who still hold timepoints. */
    pthread_mutex_lock(&g_mutex);
    atomic_store(&timeline->completed, UINT64_MAX);
    timeline->given_up = false;
    pthread_cond_broadcast(&g_retired);
    pthread_mutex_unlock(&g_mutex);
}

void dhowi_timeline_give_up(dhowi_timeline *timeline) {
    pthread_mutex_lock(&g_mutex);
    timeline->given_up = true;
    pthread_cond_broadcast(&g_retired);
    pthread_mutex_unlock(&g_mutex);
}

bool dhowi_timeline_await_end(dhowi_timepoint point) {
    pthread_mutex_lock(&g_mutex);
    while (!dhowi_timepoint_done(point) && !point.timeline->given_up)
        pthread_cond_wait(&g_retired, &g_mutex);
    const bool done = dhowi_timepoint_done(point);
    pthread_mutex_unlock(&g_mutex);
    return done;
}
