/* SPDX-License-Identifier: Apache-2.0
 *
 * random_programs [FIRST_SEED] [COUNT] [OPERATIONS] [THREADS|lost]: runs random programs on all
 * devices that are there; with several threads as many at once, on the same streams and events;
 * with "lost" each on a machine of its own, whose first simulated device is lost on the way. Prints
 * a minimal program for the first seed that fails, where one thread runs.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

static bool open_machine(machine *m) {
    dhow_device *cpu, *device;
    if (dhow_context_create(NULL, &m->context) != DHOW_OK ||
        dhow_device_get(m->context, "cpu", &cpu) != DHOW_OK)
        return false;
    m->devices[m->device_count++] = cpu;
    for (uint32_t i = 0; i < dhow_device_count(m->context) && m->device_count < MAX_DEVICES; i++) {
        if (dhow_device_at(m->context, i, &device) != DHOW_OK) return false;
        if (device != cpu) m->devices[m->device_count++] = device;
    }
    for (int i = 0; i < EVENTS; i++) {
        if (dhow_event_create(m->devices[i % m->device_count], 0, &m->events[i]) != DHOW_OK)
            return false;
    }
    for (int d = 0; d < m->device_count; d++) {
        for (int s = 1; s < STREAMS; s++)
            if (dhow_stream_create(m->devices[d], &m->streams[d][s]) != DHOW_OK) return false;
    }
    return true;
}

static void close_machine(machine *m) {
    for (int d = 0; d < m->device_count; d++)
        for (int s = 1; s < STREAMS; s++) dhow_stream_release(m->streams[d][s]);
    for (int i = 0; i < EVENTS; i++) dhow_event_release(m->events[i]);
    dhow_context_release(m->context);
}

static int report(program *p, const machine *m, const char *story) {
    (void)fprintf(stderr, "seed %llu fails: %s\n", (unsigned long long)p->seed, story);
    program_minimise(p, m);
    (void)fprintf(stderr, "the shortest program found that fails, devices being");
    for (int d = 0; d < m->device_count; d++)
        (void)fprintf(stderr, " %d: %s", d, dhow_device_name(m->devices[d]));
    (void)fprintf(stderr, "\n");
    program_print(p, stderr);
    return 1;
}

static long g_operations;

static bool run_seed(program *p, const machine *m, uint64_t seed, int length, char *story,
                     size_t capacity) {
    program_generate(p, seed, length, m->device_count);
    (void)__atomic_fetch_add(&g_operations, p->count, __ATOMIC_RELAXED);
    return program_run(p, m, story, capacity);
}

/* ---- several threads ---- */

typedef struct share {
    const machine *m;
    uint64_t first;
    int count, length;
    bool right;
    char story[512];
} share;

static void *run_share(void *argument) {
    share *s = argument;
    program *p = malloc(sizeof *p);
    s->right = p != NULL;
    for (int i = 0; i < s->count && s->right; i++) {
        s->right = run_seed(p, s->m, s->first + (uint64_t)i, s->length, s->story, sizeof s->story);
        if (!s->right)
            (void)fprintf(stderr, "seed %llu fails beside others: %s\n",
                          (unsigned long long)p->seed, s->story);
    }
    free(p);
    return NULL;
}

static int run_threads(const machine *m, uint64_t first, int count, int length, int threads) {
    enum { MOST = 16 };
    pthread_t handles[MOST];
    static share shares[MOST];
    int wrong = 0;
    if (threads > MOST) threads = MOST;
    for (int i = 0; i < threads; i++) {
        shares[i] = (share){.m = m, .count = count / threads, .length = length};
        shares[i].first = first + (uint64_t)(i * (count / threads));
        if (pthread_create(&handles[i], NULL, run_share, &shares[i]) != 0) return 1;
    }
    for (int i = 0; i < threads; i++) {
        (void)pthread_join(handles[i], NULL);
        wrong += !shares[i].right;
    }
    return wrong > 0;
}

/* ---- lost devices ---- */

/* The n-th call of some kind loses device sim:0. */
static bool open_losing(machine *m, uint64_t seed) {
    static const char *const calls[] = {"launch", "copy", "fill", "peer_copy"};
    char fault[64];
    (void)snprintf(fault, sizeof fault, "%s#0@%d=%sDEVICE_LOST!", calls[seed % 4],
                   (int)(seed / 4 % 13) + 1, seed / 52 % 2 == 0 ? "" : "async:");
    if (setenv("DHOW_SIM_FAULTS", fault, 1) != 0) return false;
    *m = (machine){0};
    if (!open_machine(m)) return false;
    for (int d = 1; d < m->device_count; d++)
        if (strcmp(dhow_device_name(m->devices[d]), "sim:0") == 0) m->lost = d;
    return m->lost > 0;
}

static int run_losing(program *p, machine *m, uint64_t first, int count, int length) {
    char story[512];
    for (int i = 0; i < count; i++) {
        const uint64_t seed = first + (uint64_t)i;
        if (!open_losing(m, seed)) return 1;
        if (!run_seed(p, m, seed, length, story, sizeof story)) {
            (void)fprintf(stderr, "seed %llu fails with %s: %s\n", (unsigned long long)seed,
                          getenv("DHOW_SIM_FAULTS"), story);
            program_print(p, stderr);
            return 1;
        }
        close_machine(m);
    }
    return 0;
}

int main(int argc, char **argv) {
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int count = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 1000;
    int length = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 60;
    const bool losing = argc > 4 && strcmp(argv[4], "lost") == 0;
    int threads = argc > 4 && !losing ? (int)strtol(argv[4], NULL, 10) : 1, failed = 0;
    static machine m;
    static program p;
    char story[512];
    if (!losing && !open_machine(&m)) {
        (void)fprintf(stderr, "random_programs: %s\n", dhow_last_error());
        return 1;
    }
    if (losing) {
        failed = run_losing(&p, &m, first, count, length);
    } else if (threads > 1) {
        failed = run_threads(&m, first, count, length, threads);
    }
    for (int i = 0; i < count && threads <= 1 && !losing; i++) {
        if (!run_seed(&p, &m, first + (uint64_t)i, length, story, sizeof story))
            return report(&p, &m, story);
    }
    if (failed != 0) return failed;
    printf("random_programs: %d programs with %ld operations on %d devices are right\n", count,
           g_operations, m.device_count);
    if (!losing) close_machine(&m);
    return 0;
}
