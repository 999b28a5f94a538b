/* SPDX-License-Identifier: Apache-2.0
 *
 * A busy neighbour: models with the default settings beside processes that spin, on one core and on
 * all, against one thread beside the same. BENCH_NETWORKS and DHOW_MODELS_DIR name the models.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "process.h"

enum { ROUNDS = 6, MOST_RUNS = 2000, MOST_SPINNERS = 64 };
static const double k_seconds =
    0.05; /* of a round at least: longer than the system's time slices */

void bench_busy(bench *b);

typedef struct spinners {
    pid_t pid[MOST_SPINNERS];
    int count;
} spinners;

static void spin(spinners *s, int count) {
    s->count = count < MOST_SPINNERS ? count : MOST_SPINNERS;
    for (int i = 0; i < s->count; i++) {
        s->pid[i] = fork();
        if (s->pid[i] != 0) continue;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) __asm__ volatile("");
    }
}

static void stop(spinners *s) {
    for (int i = 0; i < s->count; i++) {
        if (s->pid[i] <= 0) continue;
        (void)kill(s->pid[i], SIGKILL);
        (void)waitpid(s->pid[i], NULL, 0);
    }
}

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Both in turns; the mean seconds of a run of each. */
static void measure(process *ours, process *alone, int rounds, double *mean) {
    const double once = process_run(alone, 3);
    const unsigned runs =
        once * MOST_RUNS < k_seconds ? MOST_RUNS : 1 + (unsigned)(k_seconds / once);
    mean[0] = mean[1] = 0;
    for (int round = 0; round < rounds; round++) {
        process *turn[] = {ours, alone};
        for (int i = 0; i < 2; i++) {
            const double start = now();
            (void)process_run(turn[i], runs);
            mean[i] += (now() - start) / ((double)runs * rounds);
        }
    }
}

static void compare(bench *b, const char *folder, const char *name, const char *where, int count) {
    char what[120];
    double mean[2];
    spinners others = {.count = 0};
    process ours = {.name = "dhow", .args = {BENCH_SERVE, folder, "cpu", "f32"}};
    process alone = {.name = "one thread",
                     .args = {BENCH_SERVE, folder, "cpu", "f32"},
                     .env = {"DHOW_NUM_THREADS=1"}};
    spin(&others, count);
    if (process_start(&ours) && process_start(&alone)) {
        measure(&ours, &alone, bench_is_small(b) ? 1 : ROUNDS, mean);
        (void)snprintf(what, sizeof what, "%.40s, a spinning process on %s, best", name, where);
        bench_report(b, what, "one thread beside the same", 0.5, ours.best, alone.best);
        (void)snprintf(what, sizeof what, "%.40s, a spinning process on %s, mean", name, where);
        bench_report(b, what, "one thread beside the same", 1.0 / 3, mean[0], mean[1]);
    }
    process_end(&ours);
    process_end(&alone);
    stop(&others);
}

static void bench_models_of(bench *b, const char *parent) {
    struct dirent **entries = NULL;
    const int count = parent != NULL ? scandir(parent, &entries, NULL, alphasort) : 0;
    for (int i = 0; i < count; i++) {
        char folder[600], path[700];
        struct stat about;
        const char *name = entries[i]->d_name;
        (void)snprintf(folder, sizeof folder, "%.300s/%.255s", parent, name);
        (void)snprintf(path, sizeof path, "%s/model.onnx", folder);
        if (name[0] != '.' && stat(path, &about) == 0) {
            compare(b, folder, name, "one core", 1);
            compare(b, folder, name, "each core", (int)sysconf(_SC_NPROCESSORS_ONLN));
        }
        free(entries[i]);
    }
    free(entries);
}

void bench_busy(bench *b) {
    bench_models_of(b, getenv("BENCH_NETWORKS"));
    bench_models_of(b, getenv("DHOW_MODELS_DIR"));
}
