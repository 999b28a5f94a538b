/* SPDX-License-Identifier: Apache-2.0
 *
 * dhow-bench-hooks COUNT FIRST SECOND: loads two of the libraries of hooks.h in this order and
 * prints for each kind of work the median seconds of FIRST and the median of SECOND's time over
 * FIRST's. A process of its own, since what is loaded first finds other memory than what comes
 * after it.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "hooks.h"

enum { PAIRS = 51 };

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static hooks_run_fn *open_hooks(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    hooks_run_fn *run = NULL;
    if (library != NULL) *(void **)&run = dlsym(library, "hooks_run");
    if (run == NULL) {
        (void)fprintf(stderr, "dhow-bench-hooks: %s\n", dlerror());
        exit(1);
    }
    (void)run(HOOKS_LAUNCH, 1); /* makes its objects */
    return run;
}

static double time_of(hooks_run_fn *run, int work, int count) {
    const double seconds = run((hooks_work)work, count);
    if (seconds < 0) exit(1);
    return seconds / count;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    const int count = (int)strtol(argv[1], NULL, 10);
    hooks_run_fn *first = open_hooks(argv[2]), *second = open_hooks(argv[3]);
    for (int work = 0; work < HOOKS_WORKS; work++) {
        double times[PAIRS], ratios[PAIRS];
        for (int i = -1; i < PAIRS; i++) {
            double p = 0, q;
            if (i % 2 == 0) p = time_of(first, work, count);
            q = time_of(second, work, count);
            if (i % 2 != 0) p = time_of(first, work, count);
            if (i < 0) continue; /* to warm up */
            times[i] = p;
            ratios[i] = q / p;
        }
        qsort(times, PAIRS, sizeof *times, ascending);
        qsort(ratios, PAIRS, sizeof *ratios, ascending);
        printf("%.6e %.6f\n", times[PAIRS / 2], ratios[PAIRS / 2]);
    }
    return 0;
}
