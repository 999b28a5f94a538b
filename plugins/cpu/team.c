/* SPDX-License-Identifier: Apache-2.0
 *
 * How many threads the next parallel region gets. OpenMP's regions end when the last of their
 * threads does, and where other programs use the cores too, that one waits for a core for
 * milliseconds: many times what the region saved. So each region is timed against what half as many
 * threads would have needed. Once late regions have cost more than the ones before them saved, the
 * regions to come get half as many threads, and the next higher number is tried after so much work
 * that another failure is a small part of it, or once the system says that cores idle: many
 * neighbours, threads that spin after their work among them, are soon gone.
 */
#include <time.h>

#include "cpu.h"

/* A region that is late by less than SLACK is no sign: the system's own work takes as long, and so
 * does by FIRST what only the first run does. */
static const int64_t SLACK = 250 * 1000, FIRST = 1000 * 1000,
                     LONGEST_PAUSE = INT64_C(3000) * 1000 * 1000; /* nanoseconds */
/* What regions in time saved is remembered up to here: so much is lost once a neighbour comes. */
static const int64_t MOST_SAVED = 25 * 1000 * 1000;
/* Linux may wake a thread that slept on the core where the others of its region run, and leaves it
 * there for two of its time slices, other cores idle: a team begins, and begins again, with so much
 * to lose. */
static const int64_t CREDIT = 17 * 1000 * 1000;
/* Of work that a try may cost a part: what was lost by the last one, times this, comes first. */
enum { PAID_BACK = 10 };
/* Work between two looks at idle cores at least. Where they told wrong, as where a container has a
 * share of each core only, so many times as much. */
static const int64_t BETWEEN_LOOKS = 20 * 1000 * 1000;
enum { TOLD_WRONG = 4 };
/* Who uses the cores while this process rests for longer than that is no neighbour. */
static const int64_t REST = 5 * 1000 * 1000;

/* OpenMP's threads turn this often before they sleep, whatever the processor. */
static const int64_t AWAKE = 500 * 1000;

int64_t cpu_now(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void cpu_team_init(cpu_team *team, int threads) {
    (void)pthread_mutex_init(&team->region, NULL);
    team->threads = threads;
    team->apart = 0;
    atomic_init(&team->level, 0);
    atomic_init(&team->worked, 0);
    atomic_init(&team->ended, 0);
    team->pause = 0;
    team->saved = CREDIT;
    team->idle_now = cpu_idle_now;
    team->look.time = 0;
    team->between = BETWEEN_LOOKS;
    team->on_trial = 0;
}

void cpu_team_destroy(cpu_team *team) { (void)pthread_mutex_destroy(&team->region); }

static int level_of(const cpu_team *team) {
    return atomic_load_explicit(&team->level, memory_order_relaxed);
}

static int64_t worked_of(const cpu_team *team) {
    return atomic_load_explicit(&team->worked, memory_order_relaxed);
}

static void set_level(cpu_team *team, int level) {
    team->saved = CREDIT;
    atomic_store_explicit(&team->level, level, memory_order_relaxed);
    atomic_store_explicit(&team->worked, 0, memory_order_relaxed);
    team->look.time = 0;
}

static int64_t used_by_process(void) {
    struct timespec used;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) != 0) return 0;
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

static cpu_look look_at_cores(const cpu_team *team) {
    return (cpu_look){worked_of(team), cpu_now(), used_by_process(), team->idle_now()};
}

/* Whether others left the next higher number of threads their cores since the last look. */
static int had_cores_left(cpu_team *team, int rested) {
    const cpu_look before = team->look;
    if (before.time > 0 && !rested && worked_of(team) - before.worked < team->between) return 0;
    const int level = level_of(team), threads = team->threads >> level;
    const int more = (team->threads >> (level - 1)) - threads;
    team->look = look_at_cores(team);
    if (rested || before.time == 0 || before.idle.cores == 0 ||
        team->look.idle.cores != before.idle.cores)
        return 0;
    const int64_t time = team->look.time - before.time, used = team->look.used - before.used;
    const int64_t idled = team->look.idle.time - before.idle.time;
    /* What others left, by this process's own threads used or not, less a core for each of the
     * threads of now; a reading can be wrong by a third. (A primitive for which oneDNN has no form
     * of fewer threads keeps more of them spinning.) */
    const int64_t left = idled + used - threads * time;
    return left >= more * time - time / 3;
}

/* More threads again, after work enough or where cores idle. */
static void step_forward(cpu_team *team, int64_t now) {
    const int level = level_of(team);
    const int rested = now - atomic_load_explicit(&team->ended, memory_order_relaxed) > REST;
    if (level == 0) return;
    if (worked_of(team) >= team->pause) {
        set_level(team, level - 1);
    } else if (had_cores_left(team, rested)) {
        set_level(team, level - 1);
        team->on_trial = 1;
    }
}

/* OpenMP's threads belong to the caller's thread, and starting them takes tens of milliseconds. */
static _Thread_local int started;

int cpu_team_is_awake(const cpu_team *team) {
    return team->threads >> level_of(team) > 1 &&
           cpu_now() - atomic_load_explicit(&team->ended, memory_order_relaxed) < AWAKE;
}

cpu_region cpu_region_begin(cpu_team *team) {
    cpu_region region = {.threads = 1};
    if (team->threads == 1) return region;
    region.start = cpu_now();
    if (pthread_mutex_trylock(&team->region) != 0) return region; /* works beside the other */
    step_forward(team, region.start);
    region.level = level_of(team);
    if (team->threads >> region.level > 1) {
        region.threads = team->threads >> region.level;
        region.starts = started < region.threads;
        if (region.starts) started = region.threads;
        if (team->apart) cpu_keep_apart(region.threads);
    } else {
        (void)pthread_mutex_unlock(&team->region);
    }
    return region;
}

/* Fewer threads from now on. A try that fails soon after the last one doubles the pause. */
static void step_back(cpu_team *team, int64_t late) {
    const int64_t least = PAID_BACK * (late > CREDIT ? late : CREDIT);
    const int lately = worked_of(team) < 4 * team->pause;
    team->pause = lately ? 2 * team->pause : 0;
    if (team->pause < least) team->pause = least;
    if (team->pause > LONGEST_PAUSE) team->pause = LONGEST_PAUSE;
    if (team->on_trial) team->between *= TOLD_WRONG;
    if (team->between > LONGEST_PAUSE) team->between = LONGEST_PAUSE;
    team->on_trial = 0;
    set_level(team, level_of(team) + 1);
}

/* Whether the regions of late, this one last, were worse than half as many threads. */
static int is_no_gain(cpu_team *team, int64_t took, int64_t expected) {
    team->saved += 2 * expected - took;
    if (team->saved > MOST_SAVED) {
        team->saved = MOST_SAVED;
        team->on_trial = 0;
        team->between = BETWEEN_LOOKS;
    }
    return team->saved < -SLACK;
}

void cpu_region_called(cpu_team *team, int64_t took) {
    if (took > SLACK && is_no_gain(team, took, 0)) step_back(team, took);
}

/* Ends a region that took so long where `expected` was to be. */
static void end_after(cpu_team *team, const cpu_region *region, int64_t took, int64_t expected) {
    (void)atomic_fetch_add_explicit(&team->worked, took, memory_order_relaxed);
    atomic_store_explicit(&team->ended, region->start + took, memory_order_relaxed);
    if (region->threads == 1) return;
    if (!region->starts && is_no_gain(team, took, expected)) step_back(team, took - expected);
    (void)pthread_mutex_unlock(&team->region);
}

/* Of time that the calling thread took for a region, what it can have had a core for: at most what
 * it has had since this was asked last. The clock is slow, so it is asked after long ones alone. */
static int64_t had_core(int64_t time) {
    static _Thread_local int64_t before;
    struct timespec now;
    if (time < SLACK || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0) return time;
    const int64_t used = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec, since = used - before;
    before = used;
    return since < time ? since : time;
}

void cpu_region_end(cpu_team *team, const cpu_region *region, int64_t expected) {
    if (region->start == 0 || (region->threads == 1 && level_of(team) == 0)) return;
    if (region->threads > 1) expected = had_core(expected);
    end_after(team, region, cpu_now() - region->start, expected);
}

void cpu_region_end_timed(cpu_team *team, const cpu_region *region, cpu_times *times) {
    static const double slowest = 2.0; /* multiplications of a thread per nanosecond */
    if (region->start == 0) return;
    const int64_t took = cpu_now() - region->start;
    const int64_t alone = atomic_load_explicit(&times->alone, memory_order_relaxed);
    int64_t expected = 0;
    if (region->threads == 1) {
        if (alone == 0 || took < alone)
            atomic_store_explicit(&times->alone, took, memory_order_relaxed);
    } else if (!region->starts) {
        int64_t *best = &times->divided[region->level];
        /* A best time is late too where there was no other yet. */
        expected = FIRST + (int64_t)(times->products / (slowest * region->threads));
        if (*best > 0 && *best < expected) expected = *best;
        if (alone > 0 && expected > alone / 2) expected = alone / 2; /* late: slower than alone */
        if (*best == 0 || took < *best) *best = took;
    }
    end_after(team, region, took, expected);
}
