/* SPDX-License-Identifier: Apache-2.0
 *
 * See peers.h.
 */
#include "peers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 7, MOST_PEERS = 4, MOST_RUNS = 2000 };

static double seconds_per_round(const bench *b) { return bench_is_small(b) ? 0.002 : 0.15; }

static void rest(void) {
    const struct timespec pause = {.tv_nsec = 20000000};
    (void)nanosleep(&pause, NULL);
}

/* The largest difference, against the largest output; probabilities that are all next to 0, of
 * noise without a text in it, are not held against themselves. */
static double difference(process *p, process *q) {
    size_t n, m;
    float *x = process_outputs(p, &n), *y = process_outputs(q, &m);
    double most = 0, scale = 1e-3;
    for (size_t i = 0; i < n && n == m; i++) {
        most = fmax(most, fabs((double)x[i] - (double)y[i]));
        scale = fmax(scale, fabs((double)y[i]));
    }
    free(x);
    free(y);
    return n == m ? most / scale : INFINITY;
}

static int agree(const char *what, process *ours, process *theirs, double tolerance) {
    double d = difference(ours, theirs);
    if (d <= tolerance) return 1;
    printf("%-44s differs from %s by %.1e: not measured\n", what, theirs->name, d);
    return 0;
}

/* All in turns, so that what else the machine does falls on everyone. */
static void measure(const bench *b, process **all, int count) {
    unsigned runs[MOST_PEERS + 1];
    for (int i = 0; i < count; i++) {
        double once = process_run(all[i], 1);
        runs[i] = (unsigned)fmin(MOST_RUNS, fmax(1, seconds_per_round(b) / once));
    }
    for (int round = 0; round < (bench_is_small(b) ? 1 : ROUNDS); round++) {
        for (int i = 0; i < count; i++) {
            if (!bench_is_small(b)) rest();
            (void)process_run(all[i], runs[i]);
        }
    }
}

/* Starts dhow and those peers that are there and agree; returns how many run. */
static int gather(const char *what, process *ours, process *peers, int count, double tolerance,
                  process **all) {
    int found = 0;
    if (!process_start(ours)) {
        printf("%-44s dhow does not run it\n", what);
        return 0;
    }
    all[found++] = ours;
    for (int i = 0; i < count; i++) {
        if (!process_start(&peers[i])) {
            if (peers[i].args[0] != NULL) printf("%-44s %s does not run it\n", what, peers[i].name);
        } else if (agree(what, ours, &peers[i], tolerance)) {
            all[found++] = &peers[i];
        }
    }
    return found;
}

double bench_compare_peers(bench *b, const char *what, double bar, double tolerance, process *ours,
                           process *peers, int count) {
    process *all[MOST_PEERS + 1];
    int found = gather(what, ours, peers, count, tolerance, all), best = 1;
    double ratio = 0;
    if (found > 1) {
        measure(b, all, found);
        for (int i = 2; i < found; i++) best = all[i]->best < all[best]->best ? i : best;
        ratio = all[best]->best / ours->best;
        bench_report(b, what, all[best]->name, bar, ours->best, all[best]->best);
    }
    process_end(ours);
    for (int i = 0; i < count; i++) process_end(&peers[i]);
    return ratio;
}
