/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers that keep off the core of the thread that calls them. Linux likes to start and to wake a
 * thread on the core of the one that does so, where both spin in turns, a time slice each, while
 * other cores idle: 4 to 20 ms of a first run, and of each run behind a pause.
 */
#include <omp.h>
#include <sched.h>

#include "cpu.h"

/* Of a worker: the cores that it was given, and those of them that it was left. */
static _Thread_local cpu_set_t given, left;

/* The calling worker leaves a core. Cores that somebody else gave it since are its own from then
 * on; one that was given this core alone stays. */
static void leave(int core) {
    cpu_set_t now;
    if (sched_getaffinity(0, sizeof now, &now) != 0) return;
    if (!CPU_EQUAL(&now, &left)) given = now;
    now = given;
    CPU_CLR((size_t)core, &now);
    if (CPU_COUNT(&now) == 0 || sched_setaffinity(0, sizeof now, &now) != 0) return;
    left = now;
}

void cpu_keep_apart(int threads) {
    static _Thread_local int before = -1, among;
    const int core = sched_getcpu();
    atomic_int gone = 0;
    if (core < 0 || core >= CPU_SETSIZE || (core == before && threads == among)) return;
    before = core;
    among = threads;
#pragma omp parallel num_threads(threads)
    {
        if (omp_get_thread_num() != 0) {
            leave(core);
            (void)atomic_fetch_add(&gone, 1);
        } else { /* makes way for those that wait for its core */
            while (atomic_load(&gone) < omp_get_num_threads() - 1) (void)sched_yield();
        }
    }
}
