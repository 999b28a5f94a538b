/* SPDX-License-Identifier: Apache-2.0
 *
 * Running a random model in all ways: with and without optimisations, with other outputs, other
 * shapes, on all devices; all must agree.
 */
#ifndef TESTS_GRAPHS_RUN_H_
#define TESTS_GRAPHS_RUN_H_

#include "graph.h"

enum { MAX_DEVICES = 8, STORY = 1000 };

typedef struct machine {
    dhow_context *context;
    dhow_device *cpu, *devices[MAX_DEVICES]; /* the others */
    int device_count;
    bool shaken;      /* tolerances as for values that are not exact */
    uint64_t refused; /* models that every way refuses */
    uint64_t far;     /* that 16 bits lead astray, see is_far() in compare.c */
} machine;

typedef enum verdict { VERDICT_SAME, VERDICT_REFUSED, VERDICT_WRONG } verdict;

/* What a run gave: doubles of any dtype. */
typedef struct outcome {
    dhow_status status;
    char message[STORY];
    int count;
    dhow_tensor_info info[MAX_OUTPUTS];
    double *data[MAX_OUTPUTS];
} outcome;

typedef struct way {
    dhow_device *device;
    uint32_t optimisations;
    dhow_dtype dtype;
    bool whole;          /* without the model's 16-bit floats */
    bool fed;            /* constants are inputs */
    bool shared;         /* outputs are given the memory of inputs that look like them */
    int runs;            /* one after the other; the last one counts, all must be the same */
    int64_t batch;       /* of open extents; -1: as they are */
    bool there_and_back; /* other extents first, then these */
} way;

/* The outputs of `m` in one way; free them with outcome_free(). */
void run_one_way(const model *m, const way *w, outcome *out);
void outcome_free(outcome *o);

/* All ways; on VERDICT_WRONG the story tells which and where. */
verdict run_all_ways(const model *m, machine *on, char *story);

/* As planned on the CPU, and how far each output may be from what is right; false when it is
 * refused. */
bool run_with_tolerance(const model *m, const machine *on, outcome *out, double *tolerance);

/* Names the optimisations without which it goes right. */
void print_blame(const model *m, machine *on);

/* The smallest model that still goes wrong; m is replaced. */
model *model_minimise(model *m, machine *on, char *story);

#endif /* TESTS_GRAPHS_RUN_H_ */
