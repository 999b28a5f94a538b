/* SPDX-License-Identifier: Apache-2.0
 *
 * What a trace costs: of a record while it runs, and of the places that look for it while none
 * does.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "hooks.h"

void bench_trace(bench *b);

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    return values[count / 2];
}

/* ---- a record ---- */

typedef struct addition {
    dhow_tensor *x, *y;
} addition;

static void add(void *data) {
    addition *a = data;
    BENCH_OK(dhow_add(NULL, a->x, a->x, a->y));
}

/* Each round has a context of its own, so that no record has memory that was touched before. */
static void bench_record(bench *b) {
    enum { ROUNDS = 7, TIMES = 50000 };
    double with[ROUNDS], without[ROUNDS], added[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        dhow_context *context;
        dhow_device *cpu;
        addition a;
        dhow_trace_stats stats = DHOW_INIT(dhow_trace_stats);
        BENCH_OK(
            dhow_context_create(&DHOW_INIT(dhow_context_options, .backends = "cpu"), &context));
        BENCH_OK(dhow_device_get(context, "cpu", &cpu));
        BENCH_OK(dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(16), 1, &a.x));
        BENCH_OK(dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(16), 1, &a.y));
        without[i] = bench_seconds(TIMES / 15, add, &a);
        BENCH_OK(dhow_trace_start(context, 0));
        with[i] = bench_seconds(TIMES / 15, add, &a);
        BENCH_OK(dhow_trace_get_stats(context, &stats));
        if (stats.dropped > 0 || stats.recorded < TIMES - 15) bench_ok(DHOW_INTERNAL, "no records");
        added[i] = with[i] - without[i];
        dhow_tensor_release(a.x);
        dhow_tensor_release(a.y);
        dhow_context_release(context);
    }
    bench_figure(b, "trace, a record of an operation", "ns", median(added, ROUNDS) * 1e9, 100);
}

/* ---- switched off ---- */

/* Of a process that loads `first` and then `second`: the time of the first and the ratio of both,
 * for each kind of work. */
static void run_pair(const bench *b, const char *first, const char *second,
                     double times[HOOKS_WORKS], double ratios[HOOKS_WORKS]) {
    char command[3 * 4096];
    int good = 1;
    (void)snprintf(command, sizeof command, "'%s' %d '%s' '%s'", BENCH_HOOKS_MAIN,
                   bench_is_small(b) ? 100 : 10000, first, second);
    FILE *answer = popen(command, "r");
    for (int i = 0; i < HOOKS_WORKS; i++)
        good = good && answer != NULL && fscanf(answer, "%lf %lf", &times[i], &ratios[i]) == 2;
    if (answer == NULL || pclose(answer) != 0 || !good) {
        (void)fprintf(stderr, "dhow-bench: dhow-bench-hooks fails\n");
        exit(1);
    }
}

/* Where code and data happen to lie is worth as much as what is measured, so both libraries are
 * loaded first as often, and the ratios are averaged. */
static void bench_off(bench *b) {
    enum { TURNS = 6 };
    static const char *const names[] = {"trace switched off: add of 16 floats",
                                        "trace switched off: copy of 4 KiB",
                                        "trace switched off: a tensor made, released"};
    double logs[HOOKS_WORKS] = {0}, times[HOOKS_WORKS][TURNS];
    for (int i = 0; i < TURNS; i++) {
        double seconds[HOOKS_WORKS], ratios[HOOKS_WORKS];
        const int with_first = i % 2 == 0;
        run_pair(b, with_first ? BENCH_HOOKS_WITH : BENCH_HOOKS_WITHOUT,
                 with_first ? BENCH_HOOKS_WITHOUT : BENCH_HOOKS_WITH, seconds, ratios);
        for (int k = 0; k < HOOKS_WORKS; k++) {
            times[k][i] = with_first ? seconds[k] : seconds[k] * ratios[k];
            logs[k] += (with_first ? 1 : -1) * log(ratios[k]) / TURNS;
        }
    }
    for (int k = 0; k < HOOKS_WORKS; k++) {
        const double typical = median(times[k], TURNS);
        bench_report(b, names[k], "core without the hooks", 0.98, typical, typical * exp(logs[k]));
    }
}

void bench_trace(bench *b) {
    bench_record(b);
    bench_off(b);
}
