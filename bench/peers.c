/* SPDX-License-Identifier: Apache-2.0
 *
 * See peers.h.
 */
#include "peers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 7, MOST_PEERS = 8, MOST_RUNS = 2000, MOST_TEXT = 40 };

static double seconds_per_round(const bench *b) { return bench_is_small(b) ? 0.002 : 0.15; }

/* The largest difference, against the largest output; probabilities that are all next to 0, of
 * noise without a text in it, are not held against themselves. NaN where one has no number and the
 * other does, infinite where they have not as many. */
static double difference(process *p, process *q) {
    size_t n, m;
    float *x = process_outputs(p, &n), *y = process_outputs(q, &m);
    double most = 0, scale = 1e-3;
    int odd = 0;
    for (size_t i = 0; i < n && n == m; i++) {
        odd |= isnan(x[i]) != isnan(y[i]);
        most = fmax(most, fabs((double)x[i] - (double)y[i]));
        scale = fmax(scale, fabs((double)y[i]));
    }
    free(x);
    free(y);
    if (n != m) return INFINITY;
    return odd ? NAN : most / scale;
}

/* Says why a peer is left out. */
static int agree(process *ours, process *theirs, double tolerance, char *why) {
    double d = difference(ours, theirs);
    if (d <= tolerance) return 1;
    if (isinf(d))
        (void)snprintf(why, MOST_TEXT, "gives outputs of another size");
    else
        (void)snprintf(why, MOST_TEXT, "differs by %.1e", d);
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
            if (!bench_is_small(b)) bench_rest();
            (void)process_run(all[i], runs[i]);
        }
    }
}

/* Starts those peers that are there and agree; returns how many run. */
static int gather(process *ours, process *peers, int count, double tolerance, process **all,
                  char (*why)[MOST_TEXT]) {
    int found = 0;
    all[found++] = ours;
    for (int i = 0; i < count; i++) {
        why[i][0] = '\0';
        if (!process_start(&peers[i])) {
            (void)snprintf(why[i], MOST_TEXT, "does not run it");
        } else if (agree(ours, &peers[i], tolerance, why[i])) {
            all[found++] = &peers[i];
        } else {
            process_end(&peers[i]);
        }
    }
    return found;
}

static double report(bench *b, const char *what, double bar, const process *ours,
                     const process *peers, int count, char (*why)[MOST_TEXT]) {
    bench_peer rows[MOST_PEERS];
    int rows_count = 0;
    for (int i = 0; i < count; i++) {
        if (peers[i].args[0] == NULL) continue; /* not installed */
        rows[rows_count++] = (bench_peer){.name = peers[i].name,
                                          .version = peers[i].version,
                                          .seconds = peers[i].best,
                                          .left_out = why[i][0] != '\0' ? why[i] : NULL};
    }
    return rows_count > 0 ? bench_report_peers(b, what, bar, ours->best, rows, rows_count) : 0;
}

double bench_compare_peers(bench *b, const char *what, double bar, double tolerance, process *ours,
                           process *peers, int count) {
    process *all[MOST_PEERS + 1];
    char why[MOST_PEERS][MOST_TEXT];
    if (!process_start(ours)) {
        printf("%-44s dhow does not run it\n", what);
        return 0;
    }
    const int found = gather(ours, peers, count, tolerance, all, why);
    measure(b, all, found);
    const double ratio = report(b, what, bar, ours, peers, count, why);
    process_end(ours);
    for (int i = 0; i < count; i++) process_end(&peers[i]);
    return ratio;
}
