/* SPDX-License-Identifier: Apache-2.0
 *
 * All interleavings of a few threads. Code that is compiled with hooks.h stops before each atomic
 * operation and each operation on a lock; the explorer then chooses which thread goes on, and runs
 * the scenario again and again until every choice was made, but for those that only swap steps
 * which have nothing to do with each other (sleep sets). Threads are fibers of one real thread, so
 * a schedule is repeated exactly. Memory is sequentially consistent: what a processor may reorder
 * beyond that is the matter of ThreadSanitizer.
 */
#ifndef TESTS_INTERLEAVE_INTERLEAVE_H_
#define TESTS_INTERLEAVE_INTERLEAVE_H_

#include <stdbool.h>
#include <stddef.h>

enum { INTERLEAVE_THREADS = 6 };

typedef struct scenario {
    const char *name;
    void (*begin)(void);
    void (*threads[INTERLEAVE_THREADS])(void); /* NULL ends the list */
    void (*end)(void);                         /* checks what is left */
} scenario;

typedef struct interleave_result {
    long schedules;
    bool failed;
    char story[512]; /* what was wrong, and the order of the threads' steps */
} interleave_result;

void interleave_explore(const scenario *s, interleave_result *out);
/* For scenarios: this must not happen. */
void interleave_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- for hooks.h; outside of a thread of a scenario they do nothing ---- */

typedef enum interleave_kind {
    INTERLEAVE_READ,
    INTERLEAVE_WRITE,
    INTERLEAVE_LOCK, /* waits until it is free */
    INTERLEAVE_UNLOCK
} interleave_kind;

void interleave_step(interleave_kind kind, const volatile void *address);
void interleave_wait(const volatile void *condition, const volatile void *mutex);
void interleave_wake(const volatile void *condition);
/* Threads of the explored code itself: one more of the scenario's, INTERLEAVE_THREADS in all. */
int interleave_start(unsigned long *out, void *(*work)(void *argument), void *argument);
int interleave_join(unsigned long thread);
/* In a scenario's begin: such threads may be left waiting for work in the end. */
void interleave_leave_idle(void);
unsigned long interleave_self(void); /* 0 outside of threads */

#endif /* TESTS_INTERLEAVE_INTERLEAVE_H_ */
