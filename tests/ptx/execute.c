/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs blocks one after the other. Each thread of a warp runs until it ends or waits, at a shuffle
 * for the lanes that the mask names or at a barrier for the block; then the next thread runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

static const unsigned long long k_most = 10000000ull;

/* ---- instructions that touch more than registers ---- */

static void load(ptx_machine *m, const ptx_thread *t, const ptx_instruction *i) {
    const size_t each = i->code.type.bits / 8u;
    const unsigned char *from =
        ptx_access(m, t, i, i->code.space, ptx_read(m, t, &i->in[0]), each * i->code.vector, false);
    for (unsigned k = 0; k < i->out_count; k++) {
        uint64_t value = 0;
        if (from != NULL) memcpy(&value, from + k * each, each);
        if (i->code.type.kind == 's') {
            const unsigned up = 64u - i->code.type.bits;
            value = (uint64_t)((int64_t)(value << up) >> up);
        }
        ptx_write(t, &i->out[k], value);
    }
}

static void store(ptx_machine *m, const ptx_thread *t, const ptx_instruction *i) {
    const size_t each = i->code.type.bits / 8u;
    unsigned char *to =
        ptx_access(m, t, i, i->code.space, ptx_read(m, t, &i->in[0]), each * i->code.vector, true);
    for (unsigned k = 0; to != NULL && k < i->code.vector; k++) {
        const uint64_t value = ptx_read(m, t, &i->in[1 + k]);
        memcpy(to + k * each, &value, each);
    }
}

/* atom.add: what was there before. */
static void add(ptx_machine *m, const ptx_thread *t, const ptx_instruction *i) {
    uint32_t before = 0;
    unsigned char *at =
        ptx_access(m, t, i, i->code.space, ptx_read(m, t, &i->in[0]), sizeof before, true);
    if (at != NULL) {
        memcpy(&before, at, sizeof before);
        const uint32_t after = before + (uint32_t)ptx_read(m, t, &i->in[1]);
        memcpy(at, &after, sizeof after);
    }
    ptx_write(t, &i->out[0], before);
}

/* cp.async: what is read is there after a wait only; until then the place holds NaN. */
static void copy_async(ptx_machine *m, ptx_thread *t, const ptx_instruction *i) {
    const size_t bytes = (size_t)ptx_read(m, t, &i->in[3]);
    ptx_copy copy = {.to = ptx_read(m, t, &i->in[0]), .group = t->group};
    unsigned char *to = ptx_access(m, t, i, PTX_SHARED, copy.to, sizeof copy.bytes, true);
    const void *from =
        bytes > 0 ? ptx_access(m, t, i, PTX_GLOBAL, ptx_read(m, t, &i->in[1]), bytes, false) : NULL;
    if (to == NULL) return;
    if (t->copy_count == PTX_MAX_COPIES) {
        ptx_find_fault(m, t, i, PTX_NO_MEMORY, 0, "more than %d copies at once", PTX_MAX_COPIES);
        return;
    }
    if (from != NULL) memcpy(copy.bytes, from, bytes);
    memset(to, 0xff, sizeof copy.bytes);
    t->copies[t->copy_count++] = copy;
}

/* Ends copies of all groups but the latest `most`. */
static void await_copies(ptx_machine *m, ptx_thread *t, const ptx_instruction *i, unsigned most) {
    unsigned left = 0;
    for (unsigned k = 0; k < t->copy_count; k++) {
        const ptx_copy copy = t->copies[k];
        if (copy.group + most >= t->group) {
            t->copies[left++] = copy;
            continue;
        }
        void *to = ptx_access(m, t, i, PTX_SHARED, copy.to, sizeof copy.bytes, true);
        if (to != NULL) memcpy(to, copy.bytes, sizeof copy.bytes);
    }
    t->copy_count = left;
}

static void copy(ptx_machine *m, ptx_thread *t, const ptx_instruction *i) {
    if (i->code.async == PTX_COPY) copy_async(m, t, i);
    if (i->code.async == PTX_COMMIT) t->group++;
    if (i->code.async == PTX_WAIT) await_copies(m, t, i, (unsigned)i->in[0].value);
}

/* mov.b64 %rd, {%r1, %r2} and mov.b64 {%r1, %r2}, %rd: parts from the low end up. */
static void move(const ptx_machine *m, const ptx_thread *t, const ptx_instruction *i) {
    uint64_t value = 0;
    const unsigned part =
        i->code.type.bits / (i->in_count > i->out_count ? i->in_count : i->out_count);
    for (unsigned k = 0; k < i->in_count; k++) value |= ptx_read(m, t, &i->in[k]) << k * part;
    for (unsigned k = 0; k < i->out_count; k++) ptx_write(t, &i->out[k], value >> k * part);
}

/* add, sub and mad of 32 bits with what the one before carried or borrowed. */
static uint64_t carry(ptx_thread *t, const ptx_instruction *i, const uint64_t *in) {
    const uint64_t a = (uint32_t)in[0], b = (uint32_t)in[1], c = (uint32_t)in[2];
    const uint64_t before = i->code.carry_in && t->carry ? 1 : 0;
    uint64_t result;
    if (i->code.op == PTX_ADD)
        result = a + b + before;
    else if (i->code.op == PTX_SUB)
        result = a - b - before;
    else
        result = (i->code.mode == PTX_HI ? a * b >> 32 : (uint32_t)(a * b)) + c + before;
    if (i->code.carry_out) t->carry = result >> 32 != 0;
    return (uint32_t)result;
}

static void compute(const ptx_machine *m, ptx_thread *t, const ptx_instruction *i) {
    uint64_t in[4] = {0}; /* no instruction of one thread has more */
    for (unsigned k = 0; k < i->in_count; k++) in[k] = ptx_read(m, t, &i->in[k]);
    const bool carries = i->code.carry_in || i->code.carry_out;
    ptx_write(t, &i->out[0], carries ? carry(t, i, in) : ptx_compute(i, in));
}

static void run_thread(ptx_machine *m, ptx_thread *t);

/* Adds what was executed of a kernel or function to the report. */
static void sum_up(ptx_machine *m) {
    long long executed = 0;
    for (size_t k = 0; k < m->kernel->code_count; k++) {
        executed += m->entered[k];
        m->report->instructions += (unsigned long long)executed;
        m->report->machine_instructions += (double)executed * (double)m->kernel->code[k].machine;
    }
}

/* What is passed lies in local memory: the caller's on its side, the function's on the other. */
static void pass(unsigned char *to, const unsigned char *from, const ptx_operand *operand,
                 const ptx_variable *v, bool back) {
    if (back)
        memcpy(to + operand->value, from + v->offset, v->bytes);
    else
        memcpy(to + v->offset, from + operand->value, v->bytes);
}

/* The function runs to its end: none waits for other threads. */
static void call(ptx_machine *m, const ptx_thread *t, const ptx_instruction *i) {
    const ptx_kernel *caller = m->kernel;
    const ptx_kernel *function = &caller->module->functions[i->target];
    long long *entered = m->entered;
    ptx_thread inside = {.index = t->index};
    m->entered = calloc(function->code_count + 1, sizeof *m->entered);
    inside.registers = calloc(function->registers + 1u, sizeof *inside.registers);
    inside.local = calloc(1, function->local_bytes + 1);
    if (inside.registers != NULL && inside.local != NULL && m->entered != NULL) {
        const ptx_variable *v = function->variables.at;
        m->kernel = function;
        for (unsigned k = 0; k < i->in_count; k++)
            pass(inside.local, t->local, &i->in[k], &v[i->out_count + k], false);
        run_thread(m, &inside);
        sum_up(m);
        for (unsigned k = 0; k < i->out_count; k++)
            pass(t->local, inside.local, &i->out[k], &v[k], true);
        m->kernel = caller;
    } else {
        ptx_find_fault(m, t, i, PTX_NO_MEMORY, 0, "out of memory");
    }
    free(inside.registers);
    free(inside.local);
    free(m->entered);
    m->entered = entered;
}

static void branch(ptx_machine *m, ptx_thread *t, const ptx_instruction *i) {
    const bool back = i->target < t->at;
    m->entered[t->at]--;
    t->at = i->target;
    m->entered[t->at]++;
    if (!back || m->budget-- > 0) return;
    ptx_find_fault(m, t, i, PTX_ENDLESS, 0, "the launch does not end");
    m->budget = 0;
    t->state = PTX_ENDED;
}

static void step(ptx_machine *m, ptx_thread *t) {
    const ptx_instruction *i = &m->kernel->code[t->at];
    t->at++;
    if (i->guard >= 0 && (t->registers[i->guard] != 0) == i->guard_negated) return;
    switch (i->code.op) {
        case PTX_BRA:
            branch(m, t, i);
            break;
        case PTX_RET:
        case PTX_EXIT:
            t->state = PTX_ENDED;
            break;
        case PTX_CALL:
            call(m, t, i);
            break;
        case PTX_BAR:
            t->state = PTX_AT_BARRIER;
            break;
        case PTX_SHFL:
        case PTX_LDMATRIX:
        case PTX_MMA:
            t->state = PTX_AT_SHUFFLE;
            break;
        case PTX_ATOM:
            add(m, t, i);
            break;
        case PTX_CP:
            copy(m, t, i);
            break;
        case PTX_LD:
            load(m, t, i);
            break;
        case PTX_ST:
            store(m, t, i);
            break;
        case PTX_MOV:
            move(m, t, i);
            break;
        default:
            compute(m, t, i);
    }
}

static void run_thread(ptx_machine *m, ptx_thread *t) {
    if (t->state != PTX_RUNNING) return;
    m->entered[t->at]++;
    while (t->state == PTX_RUNNING) {
        if (t->at == m->kernel->code_count) {
            t->state = PTX_ENDED;
        } else {
            step(m, t);
        }
    }
    m->entered[t->at]--;
}

/* ---- what lanes of a warp do together: shuffles and matrices ---- */

static const ptx_instruction *waits_at(const ptx_machine *m, const ptx_thread *t) {
    return &m->kernel->code[t->at - 1];
}

/* The lanes that are to come to where a thread waits: all of them for a matrix. */
static unsigned mask_at(const ptx_machine *m, const ptx_thread *t) {
    const ptx_instruction *i = waits_at(m, t);
    return i->code.op == PTX_SHFL ? (unsigned)ptx_read(m, t, &i->in[3]) : 0xffffffff;
}

/* The lanes of a warp that wait at the shuffle where `t` waits. */
static unsigned lanes_at(const ptx_machine *m, const ptx_thread *t) {
    const unsigned first = t->index / PTX_WARP * PTX_WARP;
    unsigned lanes = 0;
    for (unsigned k = 0; k < PTX_WARP && first + k < m->launch->threads; k++) {
        const ptx_thread *other = &m->threads[first + k];
        if (other->state == PTX_AT_SHUFFLE && other->at == t->at) lanes |= 1u << k;
    }
    return lanes;
}

/* The lane that shfl.sync reads; false when it lies beyond the segment, which reads the own lane.
 */
static bool source_lane(ptx_lane how, unsigned lane, unsigned b, unsigned c, unsigned *from) {
    const unsigned segment = c >> 8 & 31, clamp = c & 31;
    const unsigned low = lane & segment, high = low | (clamp & ~segment);
    const unsigned by = b & 31;
    int j = 0;
    switch (how) {
        case PTX_UP:
            j = (int)lane - (int)by;
            break;
        case PTX_DOWN:
            j = (int)(lane + by);
            break;
        case PTX_BFLY:
            j = (int)(lane ^ by);
            break;
        default:
            j = (int)(low | (by & ~segment));
            break;
    }
    const bool inside = how == PTX_UP ? j >= (int)high : j <= (int)high;
    *from = inside ? (unsigned)j : lane;
    return inside;
}

/* All lanes of `lanes` take part in the shuffle where `t` waits. */
static void shuffle(ptx_machine *m, const ptx_thread *t, unsigned lanes) {
    const ptx_instruction *i = waits_at(m, t);
    ptx_thread *warp = &m->threads[t->index / PTX_WARP * PTX_WARP];
    uint64_t given[PTX_WARP] = {0};
    for (unsigned lane = 0; lane < PTX_WARP; lane++)
        if (lanes >> lane & 1) given[lane] = ptx_read(m, &warp[lane], &i->in[0]);
    for (unsigned lane = 0; lane < PTX_WARP; lane++) {
        ptx_thread *self = &warp[lane];
        unsigned from = 0;
        if (!(lanes >> lane & 1)) continue;
        const unsigned mask = (unsigned)ptx_read(m, self, &i->in[3]);
        const bool inside = source_lane(i->code.lane, lane, (unsigned)ptx_read(m, self, &i->in[1]),
                                        (unsigned)ptx_read(m, self, &i->in[2]), &from);
        if (!(mask >> lane & 1))
            ptx_find_fault(m, self, i, PTX_BAD_SHUFFLE, mask,
                           "the mask 0x%x leaves out lane %u, which runs it", mask, lane);
        else if ((mask & ~lanes) != 0)
            ptx_find_fault(m, self, i, PTX_BAD_SHUFFLE, mask,
                           "the mask 0x%x names lanes 0x%x, which do not come", mask,
                           mask & ~lanes);
        else if (!((mask & lanes) >> from & 1))
            ptx_find_fault(m, self, i, PTX_BAD_SHUFFLE, mask,
                           "reads lane %u, which takes no part (mask 0x%x)", from, mask);
        ptx_write(self, &i->out[0], given[from]);
        if (i->out_count > 1) ptx_write(self, &i->out[1], inside);
        self->state = PTX_RUNNING;
    }
}

static void matrices(ptx_machine *m, const ptx_thread *t, unsigned lanes) {
    const ptx_instruction *i = waits_at(m, t);
    ptx_thread *warp = &m->threads[t->index / PTX_WARP * PTX_WARP];
    if (lanes != 0xffffffff)
        ptx_find_fault(m, t, i, PTX_BAD_SHUFFLE, lanes, "lanes 0x%x do not come", ~lanes);
    else if (i->code.op == PTX_MMA)
        ptx_multiply_matrices(m, warp, i);
    else
        ptx_load_matrices(m, warp, i);
    for (unsigned lane = 0; lane < PTX_WARP; lane++)
        if (lanes >> lane & 1) warp[lane].state = PTX_RUNNING;
}

static void together(ptx_machine *m, const ptx_thread *t, unsigned lanes) {
    if (waits_at(m, t)->code.op == PTX_SHFL)
        shuffle(m, t, lanes);
    else
        matrices(m, t, lanes);
}

/* Lets one shuffle of a warp happen, one that all its lanes have reached where there is one. */
static bool shuffle_warp(ptx_machine *m, unsigned first) {
    const ptx_thread *any = NULL;
    for (unsigned k = first; k < first + PTX_WARP && k < m->launch->threads; k++) {
        const ptx_thread *t = &m->threads[k];
        if (t->state != PTX_AT_SHUFFLE) continue;
        const unsigned lanes = lanes_at(m, t);
        if (any == NULL) any = t;
        if ((mask_at(m, t) & ~lanes) != 0) continue;
        together(m, t, lanes);
        return true;
    }
    if (any != NULL) together(m, any, lanes_at(m, any));
    return any != NULL;
}

static void run_warp(ptx_machine *m, unsigned first) {
    do {
        for (unsigned k = first; k < first + PTX_WARP && k < m->launch->threads; k++)
            run_thread(m, &m->threads[k]);
    } while (shuffle_warp(m, first));
    ptx_requests_serve(m);
}

/* ---- blocks ---- */

/* Whether somebody goes on behind a barrier. All threads must wait, and at the same one. */
static bool pass_barrier(ptx_machine *m) {
    const ptx_thread *waiting = NULL, *elsewhere = NULL;
    unsigned count = 0;
    for (unsigned k = 0; k < m->launch->threads; k++) {
        ptx_thread *t = &m->threads[k];
        if (t->state != PTX_AT_BARRIER) continue;
        if (waiting == NULL) waiting = t;
        if (t->at != waiting->at && elsewhere == NULL) elsewhere = t;
        count++;
    }
    if (waiting == NULL) return false;
    if (count != m->launch->threads)
        ptx_find_fault(m, waiting, waits_at(m, waiting), PTX_BAD_BARRIER, 0,
                       "%u of %u threads come to this barrier, the others have ended", count,
                       m->launch->threads);
    if (elsewhere != NULL)
        ptx_find_fault(m, waiting, waits_at(m, waiting), PTX_BAD_BARRIER, 0,
                       "divergent barrier: thread %u waits at the one in line %d", elsewhere->index,
                       waits_at(m, elsewhere)->line);
    for (unsigned k = 0; k < m->launch->threads; k++)
        if (m->threads[k].state == PTX_AT_BARRIER) m->threads[k].state = PTX_RUNNING;
    m->epoch++;
    return true;
}

static void run_block(ptx_machine *m, unsigned block) {
    const ptx_kernel *kernel = m->kernel;
    const unsigned threads = m->launch->threads;
    m->block = block;
    m->epoch++;
    memset(m->shared, 0, kernel->shared_bytes);
    for (unsigned k = 0; k < threads; k++) { /* not its copies, which are many */
        ptx_thread *t = &m->threads[k];
        t->registers = m->registers + k * (size_t)kernel->registers;
        t->local = m->local + k * kernel->local_bytes;
        t->index = k;
        t->carry = false;
        t->at = 0;
        t->state = PTX_RUNNING;
        t->copy_count = t->group = 0;
    }
    do {
        for (unsigned first = 0; first < threads; first += PTX_WARP) run_warp(m, first);
    } while (pass_barrier(m));
}

static void copy_arguments(ptx_machine *m) {
    for (size_t k = 0; k < m->kernel->param_count; k++) {
        const ptx_variable *v = &m->kernel->variables.at[k];
        memcpy(m->params + v->offset, m->launch->args[k], v->bytes);
    }
}

static void free_sectors(ptx_machine *m) {
    for (size_t k = 0; m->touched != NULL && k < 2 * m->launch->allocation_count; k++)
        free(m->touched[k]);
    free(m->touched);
}

static bool make_sectors(ptx_machine *m) {
    const ptx_launch *launch = m->launch;
    if (!launch->counts_memory) return true;
    m->touched = calloc(2 * launch->allocation_count + 1, sizeof *m->touched);
    bool made = m->touched != NULL && ptx_requests_begin(m);
    for (size_t k = 0; made && k < 2 * launch->allocation_count; k++) {
        m->touched[k] = calloc(launch->allocations[k / 2].bytes / PTX_SECTOR + 1, 1);
        made = m->touched[k] != NULL;
    }
    return made;
}

static void tell(const ptx_kernel *kernel) {
    const char *path = getenv("PTX_EXECUTED");
    FILE *file = path != NULL && !*kernel->told ? fopen(path, "ae") : NULL;
    if (file == NULL) return;
    *kernel->told = true;
    (void)fprintf(file, "%s\n", kernel->name);
    (void)fclose(file);
}

bool ptx_run(const ptx_kernel *kernel, const ptx_launch *launch, ptx_report *report) {
    ptx_machine m = {.kernel = kernel, .entry = kernel, .launch = launch, .report = report};
    const size_t threads = launch->threads;
    memset(report, 0, sizeof *report);
    m.budget = launch->most != 0 ? launch->most : k_most;
    m.threads = calloc(threads, sizeof *m.threads);
    m.registers = calloc(threads * kernel->registers + 1, sizeof *m.registers);
    m.params = calloc(1, kernel->param_bytes + 1);
    m.shared = calloc(1, kernel->shared_bytes + 1);
    m.shadow = calloc(kernel->shared_bytes + 1, sizeof *m.shadow);
    m.local = calloc(threads, kernel->local_bytes + 1);
    m.entered = calloc(kernel->code_count + 1, sizeof *m.entered);
    if (m.threads && m.registers && m.params && m.shared && m.shadow && m.local && m.entered &&
        make_sectors(&m)) {
        copy_arguments(&m);
        for (unsigned block = 0; block < launch->groups; block++) run_block(&m, block);
        sum_up(&m);
    } else {
        report->findings[report->count++] =
            (ptx_finding){.fault = PTX_NO_MEMORY, .text = "out of memory"};
    }
    free_sectors(&m);
    ptx_requests_end(&m);
    free(m.threads);
    free(m.registers);
    free(m.params);
    free(m.shared);
    free(m.shadow);
    free(m.local);
    free(m.entered);
    if (report->count == 0) tell(kernel);
    return report->count == 0;
}
