/* SPDX-License-Identifier: Apache-2.0
 *
 * How many threads the next parallel region gets. OpenMP's regions end when the last of their
 * threads does, and where other programs use the cores too, that one waits for a core for
 * milliseconds: many times what the region saved. So each region is timed. One that took longer
 * than half as many threads would have needed halves the number for the regions to come, and after
 * a pause, which grows while that goes on, the next higher number is tried.
 */
#include <time.h>

#include "cpu.h"

/* A region that is late by less than SLACK is no sign: the system's own work takes as long, and so
 * does by FIRST what only the first run does. */
static const int64_t SLACK = 250 * 1000, FIRST = 1000 * 1000, SHORTEST_PAUSE = 25 * 1000 * 1000,
                     LONGEST_PAUSE = 1600 * 1000 * 1000; /* nanoseconds */

int64_t cpu_now(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void cpu_team_init(cpu_team *team, int threads) {
    (void)pthread_mutex_init(&team->region, NULL);
    team->threads = threads;
    team->level = 0;
    team->pause = SHORTEST_PAUSE;
    team->until = 0;
}

void cpu_team_destroy(cpu_team *team) { (void)pthread_mutex_destroy(&team->region); }

cpu_region cpu_region_begin(cpu_team *team) {
    cpu_region region = {.threads = 1};
    if (team->threads == 1) return region;
    region.start = cpu_now();
    if (pthread_mutex_trylock(&team->region) != 0) return region; /* works beside the other */
    if (team->level > 0 && region.start >= team->until) {
        team->level--;
        team->until = region.start + team->pause;
    }
    if (team->threads >> team->level > 1) {
        region.threads = team->threads >> team->level;
        region.level = team->level;
    } else {
        (void)pthread_mutex_unlock(&team->region);
    }
    return region;
}

/* Fewer threads from now on. */
static void step_back(cpu_team *team, int64_t now) {
    const int lately = now < team->until + 4 * team->pause;
    team->pause = lately ? 2 * team->pause : SHORTEST_PAUSE;
    if (team->pause > LONGEST_PAUSE) team->pause = LONGEST_PAUSE;
    team->level++;
    team->until = now + team->pause;
}

static void end_at(cpu_team *team, const cpu_region *region, int64_t now, int64_t expected) {
    if (now - region->start > 2 * expected + SLACK) step_back(team, now);
    (void)pthread_mutex_unlock(&team->region);
}

void cpu_region_end(cpu_team *team, const cpu_region *region, int64_t expected) {
    if (region->threads > 1) end_at(team, region, cpu_now(), expected);
}

static void end_alone(const cpu_region *region, cpu_times *times) {
    const int64_t took = cpu_now() - region->start;
    const int64_t best = atomic_load_explicit(&times->alone, memory_order_relaxed);
    if (best == 0 || took < best) atomic_store_explicit(&times->alone, took, memory_order_relaxed);
}

void cpu_region_end_timed(cpu_team *team, const cpu_region *region, cpu_times *times) {
    if (region->threads == 1) {
        if (team->threads > 1) end_alone(region, times);
        return;
    }
    static const double slowest = 2.0; /* multiplications of a thread per nanosecond */
    int64_t *best = &times->divided[region->level];
    const int64_t alone = atomic_load_explicit(&times->alone, memory_order_relaxed);
    const int64_t now = cpu_now(), took = now - region->start;
    int64_t expected =
        *best > 0 ? *best : FIRST + (int64_t)(times->products / (slowest * region->threads));
    if (alone > 0 && expected > alone / 2) expected = alone / 2; /* late: slower than alone */
    if (*best == 0 || took < *best) *best = took;
    end_at(team, region, now, expected);
}
