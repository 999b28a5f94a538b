/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a kernel in its GPU form on the processor: the items of a group are fibers that take turns
 * at every barrier.
 */
#include <stdlib.h>
#include <ucontext.h>

#include "emulate_launch.h"

enum { ITEMS = 256, STACK_BYTES = 64 << 10 };

struct emulate_index {
    int x;
};
struct emulate_index threadIdx, blockIdx, gridDim;

static ucontext_t g_fibers[ITEMS], g_scheduler;
static int g_done[ITEMS], g_current;
static unsigned long long g_exchange[ITEMS];
static void (*g_body)(void *user);
static void *g_user;

void emulate_barrier(void);
unsigned long long emulate_exchange(unsigned long long bits, int lane_mask);

void emulate_barrier(void) {
    const int self = g_current;
    (void)swapcontext(&g_fibers[self], &g_scheduler);
}

unsigned long long emulate_exchange(unsigned long long bits, int lane_mask) {
    const int self = g_current;
    g_exchange[self] = bits;
    emulate_barrier();
    const unsigned long long other = g_exchange[self ^ lane_mask];
    emulate_barrier();
    return other;
}

static void item(void) {
    g_body(g_user);
    g_done[g_current] = 1;
}

/* Fibers that have not ended; static, since getcontext() may return twice. */
static int g_left;

static void run_group(char *stacks) {
    g_left = ITEMS;
    for (int i = 0; i < ITEMS; i++) {
        (void)getcontext(&g_fibers[i]);
        g_fibers[i].uc_stack.ss_sp = stacks + (size_t)i * STACK_BYTES;
        g_fibers[i].uc_stack.ss_size = STACK_BYTES;
        g_fibers[i].uc_link = &g_scheduler;
        makecontext(&g_fibers[i], item, 0);
        g_done[i] = 0;
    }
    while (g_left > 0) {
        for (int i = 0; i < ITEMS; i++) {
            if (g_done[i]) continue;
            g_current = threadIdx.x = i;
            (void)swapcontext(&g_scheduler, &g_fibers[i]);
            g_left -= g_done[i];
        }
    }
}

int emulate_launch(int groups, void (*body)(void *user), void *user) {
    char *stacks = malloc((size_t)ITEMS * STACK_BYTES);
    if (stacks == NULL) return 0;
    g_body = body;
    g_user = user;
    gridDim.x = groups;
    for (int group = 0; group < groups; group++) {
        blockIdx.x = group;
        run_group(stacks);
    }
    free(stacks);
    return 1;
}
