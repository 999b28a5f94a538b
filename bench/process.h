/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of serve.h, from the side of dhow-bench.
 */
#ifndef DHOW_BENCH_PROCESS_H_
#define DHOW_BENCH_PROCESS_H_

#include <sys/types.h>

enum { PROCESS_ARGS = 8, PROCESS_ENV = 4, PROCESS_VERSION = 64 };

typedef struct process {
    const char *name;               /* in the table */
    const char *args[PROCESS_ARGS]; /* program first, NULL last */
    const char *env[PROCESS_ENV];   /* "NAME=value", NULL last */
    char version[PROCESS_VERSION];  /* of what runs the model, once it has started */
    pid_t pid;
    int to, from;
    double best; /* seconds of all rounds, the least */
    double peak; /* bytes of memory that it had at most, when it has ended */
} process;

/* 0 when it does not answer: a peer that is not installed. */
int process_start(process *p);
void process_end(process *p);
/* Runs `count` times; the shortest, in seconds, also goes into p->best. */
double process_run(process *p, unsigned count);
/* The outputs of a run; free it. */
float *process_outputs(process *p, size_t *count);
/* Seconds from start to end of a process that does its work and ends; below 0 when it fails. */
double process_whole(const process *p);

#endif /* DHOW_BENCH_PROCESS_H_ */
