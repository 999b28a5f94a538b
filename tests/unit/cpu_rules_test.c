/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules of the CPU plugin: which instruction set a processor gets, how many threads a region, and
 * what oneDNN may be called. Virtual machines that mask LZCNT or F16C got kernels of x86-64-v3 and
 * died of SIGILL; and with a neighbour on one of two cores, each region waited for its second
 * thread's core.
 */
#include <criterion/criterion.h>
#include <omp.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "plugins/cpu/cpu.h"
#include "plugins/cpu/shares.h"

#if defined(__x86_64__)
#include <cpuid.h>

Test(cpu_isa, each_masked_bit_of_a_level_gives_the_level_below) {
    const cpu_features full = {.basic = bit_SSE3 | bit_SSSE3 | bit_CMPXCHG16B | bit_SSE4_1 |
                                        bit_SSE4_2 | bit_POPCNT | bit_FMA | bit_MOVBE |
                                        bit_OSXSAVE | bit_AVX | bit_F16C,
                               .seven = bit_BMI | bit_AVX2 | bit_BMI2,
                               .extended = bit_LAHF_LM | bit_LZCNT,
                               .saved = 7};
    cr_assert_eq(cpu_isa_of(&full), CPU_ISA_V3);
    const unsigned basic[] = {bit_FMA, bit_MOVBE, bit_OSXSAVE, bit_AVX, bit_F16C};
    for (size_t i = 0; i < sizeof basic / sizeof basic[0]; i++) {
        cpu_features masked = full;
        masked.basic &= ~basic[i];
        cr_assert_eq(cpu_isa_of(&masked), CPU_ISA_V2, "bit %zu", i);
    }
    cpu_features masked = full;
    masked.extended = bit_LAHF_LM;
    cr_assert_eq(cpu_isa_of(&masked), CPU_ISA_V2);
    masked = full;
    masked.saved = 3; /* a system that does not save AVX's registers */
    cr_assert_eq(cpu_isa_of(&masked), CPU_ISA_V2);
    masked = full;
    masked.seven &= ~(unsigned)bit_BMI;
    cr_assert_eq(cpu_isa_of(&masked), CPU_ISA_V2);
    masked.basic &= ~(unsigned)bit_POPCNT;
    cr_assert_eq(cpu_isa_of(&masked), -1);
}

Test(cpu_isa, this_processor_is_seen_as_the_compiler_sees_it) {
    __builtin_cpu_init();
    cr_assert_eq(cpu_best_isa() >= CPU_ISA_V3,
                 __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                     __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"));
}
#endif

static void nap(long nanoseconds) {
    const struct timespec time = {.tv_nsec = nanoseconds};
    (void)nanosleep(&time, NULL);
}

/* One region that takes so long; returns its threads. */
static int region(cpu_team *team, long nanoseconds, int64_t expected) {
    const cpu_region one = cpu_region_begin(team);
    nap(nanoseconds);
    cpu_region_end(team, &one, expected);
    return one.threads;
}

/* What two cores idled that this process and others have. */
static int64_t others;
static cpu_idle idle_but(int64_t of_others) {
    struct timespec used;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (cpu_idle){
        2, 2 * cpu_now() - (used.tv_sec * INT64_C(1000000000) + used.tv_nsec) - of_others};
}
static int looks;
static cpu_idle not_known(void) {
    looks++;
    return (cpu_idle){0};
}
static cpu_idle one_idle(void) { return idle_but(others); }
static cpu_idle nothing_idle(void) { return idle_but(cpu_now()); }

/* The caller's threads run already. */
static void start(cpu_team *team, int threads) {
    cpu_team_init(team, threads);
    team->idle_now = nothing_idle;
    const cpu_region first = cpu_region_begin(team);
    cpu_region_end(team, &first, 0);
}

static const long k_late = 60000000;
static const int64_t k_forever = INT64_C(1) << 50;

Test(cpu_team, regions_in_time_keep_all_threads) {
    cpu_team team;
    start(&team, 8);
    for (int i = 0; i < 5; i++) cr_assert_eq(region(&team, 1, k_forever), 8);
    cpu_team_destroy(&team);
}

Test(cpu_team, the_first_region_of_a_thread_may_be_late) {
    cpu_team team;
    cpu_team_init(&team, 2);
    team.idle_now = nothing_idle;
    cr_assert_eq(region(&team, k_late, 0), 2);
    cr_assert_eq(region(&team, k_late, 0), 2);
    cr_assert_eq(region(&team, 1, k_forever), 1);
    cpu_team_destroy(&team);
}

Test(cpu_team, each_late_region_halves_the_threads_of_the_next) {
    cpu_team team;
    start(&team, 8);
    cr_assert_eq(region(&team, k_late, 0), 8);
    cr_assert_eq(region(&team, k_late, 0), 4);
    cr_assert_eq(region(&team, k_late, 0), 2);
    cr_assert_eq(region(&team, k_late, 0), 1);
    cr_assert_eq(region(&team, k_late, 0), 1);
    cpu_team_destroy(&team);
}

/* Late by so much; returns its threads. */
static int late_by(cpu_team *team, int64_t nanoseconds) {
    cpu_region one = cpu_region_begin(team);
    one.start = cpu_now() - nanoseconds;
    cpu_region_end(team, &one, 0);
    return one.threads;
}
static int late_region(cpu_team *team) { return late_by(team, 1000000); }

/* Regions of a first run are not timed themselves. */
Test(cpu_team, threads_that_come_late_when_called_are_fewer_from_then_on) {
    cpu_team team;
    start(&team, 2);
    for (int i = 0; i < 1000; i++) cpu_region_called(&team, 100000);
    cr_assert_eq(region(&team, 1, 0), 2);
    for (int i = 0; i < 3; i++) cpu_region_called(&team, 8000000);
    cr_assert_eq(region(&team, 1, 0), 1);
    cpu_team_destroy(&team);
}

/* Where the processor was busy from the start. */
Test(cpu_team, a_best_time_that_was_late_itself_excuses_no_other) {
    cpu_team team;
    cpu_times times = {.products = 1e6, .divided = {16000000}};
    start(&team, 2);
    for (int i = 0; i < 3; i++) {
        cpu_region one = cpu_region_begin(&team);
        one.start = cpu_now() - 16000000;
        cpu_region_end_timed(&team, &one, &times);
    }
    cr_assert_eq(region(&team, 1, 0), 1);
    cpu_team_destroy(&team);
}

/* A thread that had no core did not work meanwhile. */
Test(cpu_team, time_without_a_core_is_no_work) {
    cpu_team team;
    start(&team, 2);
    for (int i = 0; i < 4; i++) {
        cpu_region one = cpu_region_begin(&team);
        one.start = cpu_now() - 16000000;
        cpu_region_end(&team, &one, 16000000);
    }
    cr_assert_eq(region(&team, 1, 0), 1);
    cpu_team_destroy(&team);
}

/* Two time slices of 8 ms, in which a thread waits beside an idle core. */
Test(cpu_team, threads_that_wake_on_one_core_cost_no_threads) {
    cpu_team team;
    start(&team, 2);
    for (int i = 0; i < 3; i++) cr_assert_eq(late_by(&team, i < 2 ? 8000000 : 0), 2);
    cr_assert_eq(late_by(&team, 2 * k_late), 2);
    cr_assert_eq(region(&team, 1, 0), 1);
    atomic_store(&team.worked, team.pause);
    for (int i = 0; i < 3; i++) cr_assert_eq(late_by(&team, i < 2 ? 8000000 : 0), 2);
    cpu_team_destroy(&team);
}

/* One that the system held up once in a while left the next ones with a single thread. */
Test(cpu_team, a_late_region_costs_no_threads_while_others_saved_more) {
    cpu_team team;
    start(&team, 2);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(region(&team, 1, k_forever), 2);
        cr_assert_eq(late_region(&team), 2);
    }
    int lates = 0;
    while (late_region(&team) == 2) lates++;
    cr_assert(lates <= 27, "%d", lates);
    cpu_team_destroy(&team);
}

Test(cpu_team, more_threads_are_tried_again_after_work_that_is_doubled_while_it_fails) {
    cpu_team team;
    start(&team, 2);
    cr_assert_eq(region(&team, k_late, 0), 2);
    const int64_t first = team.pause;
    cr_assert(first >= 10 * (int64_t)k_late);
    cr_assert_eq(region(&team, 1, 0), 1, "it is not time that passes, but work that is done");
    nap(k_late);
    cr_assert_eq(region(&team, 1, 0), 1);
    atomic_store(&team.worked, first);
    cr_assert_eq(region(&team, k_late, 0), 2, "after that work");
    cr_assert(team.pause >= 2 * first);
    atomic_store(&team.worked, team.pause);
    cr_assert_eq(region(&team, 1, k_forever), 2);
    cr_assert_eq(region(&team, 1, k_forever), 2, "and they stay when it goes well");
    cpu_team_destroy(&team);
}

static void work_until(int64_t time) {
    while (cpu_now() < time) {
    }
}

/* Milliseconds of work, at least `most` or before a region has two threads. */
static int alone(cpu_team *team, int most) {
    const int64_t start = cpu_now();
    int milliseconds = 0;
    while (milliseconds < most) {
        const cpu_region one = cpu_region_begin(team);
        work_until(one.start + 1000000);
        cpu_region_end(team, &one, k_forever);
        if (one.threads == 2) return milliseconds;
        milliseconds = (int)((cpu_now() - start) / 1000000);
    }
    return milliseconds;
}

/* A neighbour whose threads spun for 20 ms after their work left one thread for 170 ms and more. */
Test(cpu_team, idle_cores_get_threads_soon_and_later_each_time_that_they_were_none) {
    cpu_team team;
    start(&team, 2);
    cr_assert_eq(region(&team, k_late, 0), 2);
    cr_assert_geq(alone(&team, 60), 60, "no core idles");
    team.idle_now = one_idle;
    cr_assert_leq(alone(&team, 150), 80);
    cr_assert_eq(region(&team, 2 * k_late, 0), 2);
    cr_assert_leq(alone(&team, 150), 80, "the idle core was one for a while");
    /* What others do while this process rests does not count. */
    cr_assert_eq(region(&team, 2 * k_late, 0), 2);
    int rests = 0;
    for (; rests < 10 && alone(&team, 60) >= 60; rests++) {
        nap(40000000);
        others += 80000000;
    }
    cr_assert_lt(rests, 3);
    atomic_store(&team.level, 0);
    team.saved = 0;
    team.on_trial = 1;
    cr_assert_eq(region(&team, k_late, 0), 2);
    cr_assert_geq(alone(&team, 60), 60, "the idle core was none");
    cpu_team_destroy(&team);
}

/* As in a container that has some of the cores; each look takes as long as a small region. */
Test(cpu_team, idle_cores_that_are_not_known_are_not_asked_for_in_each_region) {
    cpu_team team;
    start(&team, 2);
    team.idle_now = not_known;
    cr_assert_eq(region(&team, k_late, 0), 2);
    cr_assert_geq(alone(&team, 60), 60);
    cr_assert_leq(looks, 6, "%d", looks);
    cpu_team_destroy(&team);
}

Test(cpu_team, a_second_caller_works_alone_beside_the_first) {
    cpu_team team;
    start(&team, 4);
    const cpu_region first = cpu_region_begin(&team), second = cpu_region_begin(&team);
    cr_assert_eq(first.threads, 4);
    cr_assert_eq(second.threads, 1);
    cpu_region_end(&team, &second, k_forever);
    cpu_region_end(&team, &first, k_forever);
    cr_assert_eq(region(&team, 1, k_forever), 4);
    cpu_team_destroy(&team);
}

Test(cpu_team, work_slower_than_alone_is_late_though_it_never_was_faster) {
    cpu_team team;
    cpu_times times;
    memset(&times, 0, sizeof times);
    start(&team, 2);
    atomic_store(&times.alone, 1000000);
    const cpu_region one = cpu_region_begin(&team);
    nap(k_late);
    cpu_region_end_timed(&team, &one, &times);
    cr_assert_eq(team.level, 1);
    cpu_team_destroy(&team);
}

/* Copies of 64 KB and maps of 8192 elements are divided then: waking takes longer. */
Test(cpu_team, threads_are_awake_for_a_while_after_their_region) {
    cpu_team team;
    int awake = 0;
    cpu_team_init(&team, 2);
    cr_expect_not(cpu_team_is_awake(&team), "before the first region");
    cpu_team_destroy(&team);
    for (int i = 0; i < 100 && !awake; i++) { /* this thread may lose its core in between */
        start(&team, 2);
        awake = cpu_team_is_awake(&team);
    }
    cr_expect(awake);
    nap(3000000);
    cr_expect_not(cpu_team_is_awake(&team), "3 ms later");
    cr_assert_eq(late_region(&team), 2);
    for (int i = 0; i < 100 && late_region(&team) == 2; i++) continue;
    cr_expect_not(cpu_team_is_awake(&team), "a single thread waits for nobody");
    cpu_team_destroy(&team);
    start(&team, 1);
    (void)region(&team, 1000, 1000);
    cr_expect_not(cpu_team_is_awake(&team), "a team of one");
    cpu_team_destroy(&team);
}

/* ---- shares ---- */

/* Threads in turns, some of which never come: the others do what they leave. */
Test(cpu_shares, all_items_are_done_once_and_own_ones_first) {
    enum { MOST = 300 };
    static cpu_shares shares;
    static const int64_t counts[] = {0, 1, 2, 3, 31, 32, 33, 64, 100, MOST};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        for (int threads = 1; threads <= CPU_MOST_SHARES + 6; threads += threads < 6 ? 1 : 13) {
            int done[MOST] = {0};
            const int64_t items = counts[c];
            cpu_shares_init(&shares, items, threads);
            for (int thread = threads - 1; thread >= 0; thread -= 2) { /* every other */
                cpu_turn turn = {.share = thread % shares.count, .left = shares.count};
                const int own = turn.share;
                while (cpu_next_part(&shares, &turn)) {
                    cr_assert(turn.first >= 0 && turn.first < turn.end && turn.end <= items);
                    for (int64_t i = turn.first; i < turn.end; i++) done[i]++;
                    if (turn.share == own)
                        cr_expect_geq(turn.first, cpu_share_begin(&shares, own) * shares.each);
                }
            }
            for (int64_t i = 0; i < items; i++)
                cr_assert_eq(done[i], 1, "%d of %d by %d threads", (int)i, (int)items, threads);
        }
    }
}

Test(cpu_shares, each_thread_has_neighbours_and_as_many_as_the_others) {
    enum { ITEMS = 1000, THREADS = 3 };
    static cpu_shares shares;
    cpu_shares_init(&shares, ITEMS, THREADS);
    int64_t end = 0;
    for (int thread = 0; thread < THREADS; thread++) {
        cpu_turn turn = {.share = thread, .left = 1};
        int64_t count = 0;
        while (cpu_next_part(&shares, &turn)) {
            cr_expect_eq(turn.first, end, "not beside the one before");
            count += turn.end - turn.first;
            end = turn.end;
        }
        cr_expect(count > ITEMS / THREADS - 30 && count < ITEMS / THREADS + 30, "%d", (int)count);
    }
    cr_expect_eq(end, ITEMS);
}

static bool is_tried(const char *soname, int major, const char *wanted) {
    char name[64];
    for (int i = 0; onednn_name(i, soname, major, name, sizeof name); i++)
        if (strcmp(name, wanted) == 0) return true;
    return false;
}

/* Debian 13 calls it libdnnl.so.3.6, and dhow looked for libdnnl.so.3 only. */
Test(onednn_name, the_soname_of_the_build_comes_first_and_others_of_its_major_after_it) {
    char name[64];
    cr_assert(onednn_name(0, "libdnnl.so.3.6", 3, name, sizeof name));
    cr_assert_str_eq(name, "libdnnl.so.3.6");
    cr_assert(onednn_name(0, NULL, 3, name, sizeof name));
    cr_assert_str_eq(name, "libdnnl.so.3");
    cr_assert(is_tried("libdnnl.so.3.6", 3, "libdnnl.so.3"));
    cr_assert(is_tried("libdnnl.so.3", 3, "libdnnl.so.3.6"));
    cr_assert(is_tried(NULL, 3, "libdnnl.so.3.0"));
    cr_assert(is_tried("libdnnl.so.2", 2, "libdnnl.so.2.7"));
    cr_assert_not(is_tried("libdnnl.so.3.6", 3, "libdnnl.so.2"));
}

/* ---- the caller's core ---- */

static void stay_on(int core) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)core, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
}

/* The cores of the worker of a region of two; `pinned`: it is given that one, unless below 0. */
static cpu_set_t cores_of_worker(int pinned) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) {
        if (pinned >= 0) stay_on(pinned);
        (void)sched_getaffinity(0, sizeof cores, &cores);
    }
    return cores;
}

Test(cpu_team, workers_keep_off_the_core_of_their_caller) {
    cpu_set_t all = cores_of_worker(-1), cores;
    int own[2], found = 0;
    for (int core = 0; core < CPU_SETSIZE && found < 2; core++) {
        if (CPU_ISSET((size_t)core, &all)) own[found++] = core;
    }
    if (found < 2) cr_skip_test("one core");
    for (int i = 0; i < 4; i++) {
        stay_on(own[i % 2]);
        cpu_keep_apart(2);
        cores = cores_of_worker(-1);
        cr_assert_not(CPU_ISSET((size_t)own[i % 2], &cores), "round %d", i);
        cr_assert_eq(CPU_COUNT(&cores), CPU_COUNT(&all) - 1, "round %d", i);
    }
    /* What a program gave it is its own. */
    cores = cores_of_worker(own[1]);
    stay_on(own[1]);
    cpu_keep_apart(3); /* asked again, as by another count of threads */
    cores = cores_of_worker(-1);
    cr_assert(CPU_ISSET((size_t)own[1], &cores) && CPU_COUNT(&cores) == 1);
}
