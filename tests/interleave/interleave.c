/* SPDX-License-Identifier: Apache-2.0
 *
 * See interleave.h. The search is stateless: each run repeats the choices so far and then makes new
 * ones. Sleep sets are Godefroid's: a step that was tried first at a node need not be tried again
 * behind steps that are independent of it.
 */
#include "interleave.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { MAX_DEPTH = 4000, STACK_BYTES = 1 << 18, MAX_LOCKS = 64 };

typedef struct step {
    interleave_kind kind;
    const volatile void *address, *condition; /* the latter where a wait begins */
} step;

typedef enum fiber_state { FIBER_NONE, FIBER_READY, FIBER_WAITS, FIBER_ENDED } fiber_state;

typedef struct fiber {
    fiber_state state;
    bool entered;
    ucontext_t context; /* where it begins */
    jmp_buf place;      /* where it is; unlike swapcontext(), a jump asks the system for nothing */
    char *stack;
    void (*run)(void);
    void *(*work)(void *argument); /* of a thread that the explored code started */
    void *argument;
    step next;
    const volatile void *condition; /* FIBER_WAITS */
} fiber;

typedef struct node {
    unsigned enabled, sleep, done; /* threads, as bits */
    int chosen;
    step next[INTERLEAVE_THREADS];
} node;

static fiber g_fibers[INTERLEAVE_THREADS];
static int g_count, g_running = -1;
static jmp_buf g_explorer;
static const volatile void *g_locks[MAX_LOCKS]; /* those that are held */
static node g_nodes[MAX_DEPTH];
static int g_depth; /* of the choices that are repeated */
static bool g_failed, g_idle;
static char g_story[256];

void interleave_fail(const char *format, ...) {
    va_list args;
    if (g_failed) return;
    g_failed = true;
    va_start(args, format);
    (void)vsnprintf(g_story, sizeof g_story, format, args);
    va_end(args);
}

/* ---- locks ---- */

static const volatile void **lock_slot(const volatile void *address) {
    for (int i = 0; i < MAX_LOCKS; i++)
        if (g_locks[i] == address) return &g_locks[i];
    return NULL;
}

static void take(const volatile void *address) {
    const volatile void **slot = lock_slot(NULL);
    if (slot == NULL) abort();
    *slot = address;
}

static void leave(const volatile void *address) {
    const volatile void **slot = lock_slot(address);
    if (slot != NULL) *slot = NULL;
}

/* ---- in a fiber ---- */

static void pause_at(interleave_kind kind, const volatile void *address,
                     const volatile void *condition) {
    fiber *f = &g_fibers[g_running];
    f->next = (step){kind, address, condition};
    if (_setjmp(f->place) == 0) _longjmp(g_explorer, 1);
}

void interleave_step(interleave_kind kind, const volatile void *address) {
    if (g_running < 0) return;
    /* Who wants the lock waits, so that nothing is lost by giving it back without a choice. */
    if (kind != INTERLEAVE_UNLOCK) pause_at(kind, address, NULL);
    if (kind == INTERLEAVE_LOCK) take(address);
    if (kind == INTERLEAVE_UNLOCK) leave(address);
}

void interleave_wait(const volatile void *condition, const volatile void *mutex) {
    if (g_running < 0) abort();
    pause_at(INTERLEAVE_UNLOCK, mutex, condition);
    leave(mutex);
    g_fibers[g_running].state = FIBER_WAITS;
    g_fibers[g_running].condition = condition;
    pause_at(INTERLEAVE_LOCK, mutex, NULL);
    take(mutex);
}

void interleave_wake(const volatile void *condition) {
    if (g_running < 0) return;
    pause_at(INTERLEAVE_WRITE, condition, NULL);
    for (int i = 0; i < g_count; i++) {
        fiber *f = &g_fibers[i];
        if (f->state == FIBER_WAITS && f->condition == condition) f->state = FIBER_READY;
    }
}

static void run_fiber(int index) {
    fiber *f = &g_fibers[index];
    if (f->work != NULL) {
        (void)f->work(f->argument);
        interleave_step(INTERLEAVE_UNLOCK, &f->work); /* who joins waits for this */
    } else {
        f->run();
    }
    f->state = FIBER_ENDED;
    _longjmp(g_explorer, 1);
}

static fiber *start(void (*run)(void)) {
    if (g_count == INTERLEAVE_THREADS) abort();
    fiber *f = &g_fibers[g_count];
    if (f->stack == NULL) f->stack = malloc(STACK_BYTES);
    if (f->stack == NULL || getcontext(&f->context) != 0) abort();
    f->state = FIBER_READY;
    f->entered = false;
    f->run = run;
    f->work = NULL;
    f->next = (step){INTERLEAVE_READ, f, NULL}; /* to begin is of no matter to others */
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK_BYTES;
    f->context.uc_link = NULL;
    makecontext(&f->context, (void (*)(void))run_fiber, 1, g_count);
    g_count++;
    return f;
}

int interleave_start(unsigned long *out, void *(*work)(void *argument), void *argument) {
    fiber *f = start(NULL);
    f->work = work;
    f->argument = argument;
    take(&f->work);
    *out = (unsigned long)g_count;
    return 0;
}

int interleave_join(unsigned long thread) {
    interleave_step(INTERLEAVE_LOCK, &g_fibers[thread - 1].work);
    interleave_step(INTERLEAVE_UNLOCK, &g_fibers[thread - 1].work);
    return 0;
}

void interleave_leave_idle(void) { g_idle = true; }

unsigned long interleave_self(void) { return (unsigned long)(g_running + 1); }

/* ---- one run ---- */

static bool is_enabled(const fiber *f) {
    return f->state == FIBER_READY &&
           (f->next.kind != INTERLEAVE_LOCK || lock_slot(f->next.address) == NULL);
}

static unsigned enabled_threads(void) {
    unsigned enabled = 0;
    for (int i = 0; i < g_count; i++)
        if (is_enabled(&g_fibers[i])) enabled |= 1u << i;
    return enabled;
}

static bool is_dependent(step a, step b) {
    if (a.condition != NULL && a.condition == b.address) return true;
    if (b.condition != NULL && b.condition == a.address) return true;
    return a.address == b.address && !(a.kind == INTERLEAVE_READ && b.kind == INTERLEAVE_READ);
}

/* Of the steps that need no trying at a node, those that the step chosen there does not change. */
static unsigned still_asleep(const node *n) {
    unsigned asleep = 0;
    for (int i = 0; i < INTERLEAVE_THREADS; i++) {
        if (((n->sleep | n->done) >> i & 1) != 0 && i != n->chosen &&
            !is_dependent(n->next[i], n->next[n->chosen]))
            asleep |= 1u << i;
    }
    return asleep;
}

static int first_of(unsigned threads) { return __builtin_ctz(threads); }

static void go_on(int thread) {
    fiber *f = &g_fibers[thread];
    g_running = thread;
    if (_setjmp(g_explorer) == 0) {
        if (f->entered) _longjmp(f->place, 1);
        f->entered = true;
        (void)setcontext(&f->context);
    }
    g_running = -1;
}

/* What is to be done at a depth: repeated, or new. -1: nothing but what was done elsewhere. */
static int choose(int depth, unsigned enabled) {
    node *n = &g_nodes[depth];
    if (depth < g_depth) return n->chosen;
    *n = (node){.enabled = enabled, .sleep = depth == 0 ? 0 : still_asleep(&g_nodes[depth - 1])};
    for (int i = 0; i < g_count; i++) n->next[i] = g_fibers[i].next;
    const unsigned left = n->enabled & ~n->sleep;
    n->chosen = left != 0 ? first_of(left) : -1;
    return n->chosen;
}

/* A thread that the code started may go on waiting for work where nobody ends it. */
static bool is_over(const fiber *f) {
    return f->state == FIBER_ENDED || (g_idle && f->work != NULL && f->state == FIBER_WAITS);
}

/* Returns the number of choices that were made. A run that is found to be one of those before is
 * ended in any order. */
static int run_once(const scenario *s) {
    int made = 0;
    bool repeats = false;
    g_count = 0;
    g_idle = false;
    memset(g_locks, 0, sizeof g_locks);
    s->begin();
    for (int i = 0; i < INTERLEAVE_THREADS && s->threads[i] != NULL; i++)
        (void)start(s->threads[i]);
    for (unsigned enabled; (enabled = enabled_threads()) != 0;) {
        int thread = repeats || g_failed ? -1 : choose(made, enabled);
        if (thread >= 0) {
            if (++made == MAX_DEPTH - 1) abort();
        } else {
            repeats = true;
            thread = first_of(enabled);
        }
        go_on(thread);
    }
    for (int i = 0; i < g_count; i++)
        if (!is_over(&g_fibers[i])) interleave_fail("thread %d waits for ever", i);
    if (!g_failed) s->end();
    return made;
}

static void tell(int made, interleave_result *out) {
    int length = snprintf(out->story, sizeof out->story, "%s; the steps' threads: ", g_story);
    for (int i = 0; i < made && length < (int)sizeof out->story - 1; i++)
        out->story[length++] = (char)('0' + g_nodes[i].chosen);
    out->story[length] = '\0';
}

void interleave_explore(const scenario *s, interleave_result *out) {
    *out = (interleave_result){0};
    g_depth = 0;
    g_failed = false;
    for (;;) {
        const int made = run_once(s);
        out->schedules++;
        if (g_failed) {
            out->failed = true;
            tell(made, out);
            return;
        }
        g_depth = made;
        for (; g_depth > 0; g_depth--) { /* back to the last node with something left to try */
            node *n = &g_nodes[g_depth - 1];
            n->done |= 1u << n->chosen;
            const unsigned left = n->enabled & ~n->sleep & ~n->done;
            if (left == 0) continue;
            n->chosen = first_of(left);
            break;
        }
        if (g_depth == 0) return;
    }
}
