/* SPDX-License-Identifier: Apache-2.0
 *
 * Benchmarks: each compares dhow with what a user would pick instead, both timed in turns in one
 * run. A figure is the ratio of the medians, peer / dhow, so that more is better; bars are the
 * project's own.
 */
#ifndef DHOW_BENCH_H_
#define DHOW_BENCH_H_

#include <stddef.h>

#include "dhow/dhow.h"

typedef struct bench bench;

/* Does the work once; aborts the program with a message when it fails. */
typedef void (*bench_fn)(void *data);

/* Times ours and theirs in turns and reports theirs / ours against the bar (0: no bar, printed
 * beside). `repeat` runs make one measurement. */
void bench_compare(bench *b, const char *name, const char *against, double bar, int repeat,
                   bench_fn ours, bench_fn theirs, void *data);
/* The same for short work on a busy machine: many pairs without a pause, the first of each in
 * turns; the median of their ratios. */
void bench_compare_pairs(bench *b, const char *name, const char *against, double bar, int repeat,
                         bench_fn ours, bench_fn theirs, void *data);
/* The same for a peer whose idle threads disturb others: it runs in a process of its own. */
void bench_compare_apart(bench *b, const char *name, const char *against, double bar, int repeat,
                         bench_fn ours, bench_fn theirs, void *data);
/* Reports a figure that shall stay below the bar (0: no bar). */
void bench_figure(bench *b, const char *name, const char *unit, double figure, double bar);
/* Reports a ratio that is no pair of times. */
void bench_ratio(bench *b, const char *name, const char *against, double bar, double ratio);
/* The median seconds of one run. */
double bench_seconds(int repeat, bench_fn fn, void *data);

/* Ends the program with dhow's message when a call fails. */
#define BENCH_OK(expression) bench_ok((expression), #expression)
void bench_ok(dhow_status status, const char *what);

dhow_tensor *bench_tensor(dhow_device *device, int32_t rank, const int64_t *shape);
/* NULL when the machine has no such device. */
dhow_device *bench_device(bench *b, const char *spec);

/* What --device names. */
dhow_device *bench_main_device(const bench *b);
dhow_context *bench_context(const bench *b);
/* --small: sizes that only show that the benchmark works. */
int bench_is_small(const bench *b);
/* Between two sides: threads of one spin for a while after its work, some for 30 ms, and would slow
 * the other down. */
void bench_rest(void);
/* A pair of times measured by the caller, reported as bench_compare() does. */
void bench_report(bench *b, const char *name, const char *against, double bar, double ours,
                  double theirs);

/* What another did of the same work. */
typedef struct bench_peer {
    const char *name, *version; /* version: "" where none is known */
    double seconds;             /* infinite where it did not do it */
    const char *left_out;       /* why it did not, NULL where it did */
} bench_peer;
/* A row against the fastest of several peers, with a column for each; a header goes before it where
 * the peers are others than those of the row before. Returns fastest / ours, 0 where no peer did
 * the work. */
double bench_report_peers(bench *b, const char *name, double bar, double ours,
                          const bench_peer *peers, int count);

/* What a program measures. */
typedef struct bench_group {
    const char *name;
    void (*run)(bench *b);
} bench_group;
extern const bench_group bench_groups[];
extern const size_t bench_group_count;
extern const char bench_default_device[];

#endif /* DHOW_BENCH_H_ */
