/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs blocks one after the other. The lanes of a warp that are furthest behind go together until
 * they part, end, come to where others are, or wait: at a shuffle for the lanes that the mask
 * names, or at a barrier for the block; when all wait, the next warp runs.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

static const unsigned long long k_most = 10000000ull;
static const unsigned k_all = 0xffffffff;

static unsigned count_of(unsigned lanes) { return (unsigned)__builtin_popcount(lanes); }

/* ---- instructions that touch more than registers ---- */

static void load(ptx_machine *m, const ptx_warp *w, unsigned lanes, const ptx_instruction *i) {
    const size_t each = i->code.type.bits / 8u, bytes = each * i->code.vector;
    const unsigned up = i->code.type.kind == 's' ? 64u - i->code.type.bits : 0;
    uint64_t room[PTX_WARP], values[PTX_MAX_OUT][PTX_WARP];
    const uint64_t *address = ptx_lanes(m, w, &i->in[0], room);
    ptx_count_request(m, i->code.space, lanes, address, bytes);
    for (unsigned left = lanes; left != 0;) {
        const unsigned lane = ptx_next_lane(&left);
        const unsigned char *from =
            ptx_access(m, w, lane, i, i->code.space, address[lane], bytes, false);
        for (unsigned k = 0; k < i->out_count; k++) {
            uint64_t value = 0;
            if (from != NULL) memcpy(&value, from + k * each, each);
            values[k][lane] = up != 0 ? (uint64_t)((int64_t)(value << up) >> up) : value;
        }
    }
    for (unsigned k = 0; k < i->out_count; k++) ptx_write(w, &i->out[k], lanes, values[k]);
}

static void store(ptx_machine *m, const ptx_warp *w, unsigned lanes, const ptx_instruction *i) {
    const size_t each = i->code.type.bits / 8u, bytes = each * i->code.vector;
    uint64_t room[1 + PTX_MAX_OUT][PTX_WARP];
    const uint64_t *address = ptx_lanes(m, w, &i->in[0], room[0]), *values[PTX_MAX_OUT];
    for (unsigned k = 0; k < i->code.vector; k++)
        values[k] = ptx_lanes(m, w, &i->in[1 + k], room[1 + k]);
    ptx_count_request(m, i->code.space, lanes, address, bytes);
    while (lanes != 0) {
        const unsigned lane = ptx_next_lane(&lanes);
        unsigned char *to = ptx_access(m, w, lane, i, i->code.space, address[lane], bytes, true);
        for (unsigned k = 0; to != NULL && k < i->code.vector; k++)
            memcpy(to + k * each, &values[k][lane], each);
    }
}

/* atom.add: what was there before. */
static void add(ptx_machine *m, const ptx_warp *w, unsigned lanes, const ptx_instruction *i) {
    uint64_t room[2][PTX_WARP], before[PTX_WARP];
    const uint64_t *address = ptx_lanes(m, w, &i->in[0], room[0]);
    const uint64_t *values = ptx_lanes(m, w, &i->in[1], room[1]);
    ptx_count_request(m, i->code.space, lanes, address, sizeof(uint32_t));
    for (unsigned left = lanes; left != 0;) {
        const unsigned lane = ptx_next_lane(&left);
        uint32_t sum = 0;
        unsigned char *at =
            ptx_access(m, w, lane, i, i->code.space, address[lane], sizeof sum, true);
        if (at != NULL) memcpy(&sum, at, sizeof sum);
        before[lane] = sum;
        sum += (uint32_t)values[lane];
        if (at != NULL) memcpy(at, &sum, sizeof sum);
    }
    ptx_write(w, &i->out[0], lanes, before);
}

/* cp.async: what is read is there after a wait only; until then the place holds NaN. */
static void copy_async(ptx_machine *m, const ptx_warp *w, unsigned lane, const ptx_instruction *i,
                       uint64_t to_address, uint64_t from_address, size_t bytes) {
    ptx_copies *copies = &w->copies[lane];
    ptx_copy copy = {.to = to_address, .group = copies->group};
    unsigned char *to = ptx_access(m, w, lane, i, PTX_SHARED, to_address, sizeof copy.bytes, true);
    const void *from =
        bytes > 0 ? ptx_access(m, w, lane, i, PTX_GLOBAL, from_address, bytes, false) : NULL;
    if (to == NULL) return;
    if (copies->count == PTX_MAX_COPIES) {
        ptx_find_fault(m, w, lane, i, PTX_NO_MEMORY, 0, "more than %d copies at once",
                       PTX_MAX_COPIES);
        return;
    }
    if (from != NULL) memcpy(copy.bytes, from, bytes);
    memset(to, 0xff, sizeof copy.bytes);
    copies->at[copies->count++] = copy;
}

static void begin_copies(ptx_machine *m, const ptx_warp *w, unsigned lanes,
                         const ptx_instruction *i) {
    uint64_t room[3][PTX_WARP];
    const uint64_t *to = ptx_lanes(m, w, &i->in[0], room[0]);
    const uint64_t *from = ptx_lanes(m, w, &i->in[1], room[1]);
    const uint64_t *bytes = ptx_lanes(m, w, &i->in[3], room[2]);
    unsigned reading = 0;
    for (unsigned lane = 0; lane < PTX_WARP; lane++) reading |= (unsigned)(bytes[lane] > 0) << lane;
    ptx_count_request(m, PTX_SHARED, lanes, to, sizeof(((ptx_copy *)0)->bytes));
    ptx_count_request(m, PTX_GLOBAL, lanes & reading, from, sizeof(((ptx_copy *)0)->bytes));
    while (lanes != 0) {
        const unsigned lane = ptx_next_lane(&lanes);
        copy_async(m, w, lane, i, to[lane], from[lane], (size_t)bytes[lane]);
    }
}

/* Ends copies of all groups but the latest `most`. */
static void await_copies(ptx_machine *m, const ptx_warp *w, unsigned lane, const ptx_instruction *i,
                         unsigned most) {
    ptx_copies *copies = &w->copies[lane];
    unsigned left = 0;
    for (unsigned k = 0; k < copies->count; k++) {
        const ptx_copy copy = copies->at[k];
        if (copy.group + most >= copies->group) {
            copies->at[left++] = copy;
            continue;
        }
        void *to = ptx_access(m, w, lane, i, PTX_SHARED, copy.to, sizeof copy.bytes, true);
        if (to != NULL) memcpy(to, copy.bytes, sizeof copy.bytes);
    }
    copies->count = left;
}

static void copy(ptx_machine *m, const ptx_warp *w, unsigned lanes, const ptx_instruction *i) {
    if (i->code.async == PTX_COPY) {
        begin_copies(m, w, lanes, i);
        return;
    }
    while (lanes != 0) {
        const unsigned lane = ptx_next_lane(&lanes);
        if (i->code.async == PTX_COMMIT)
            w->copies[lane].group++;
        else
            await_copies(m, w, lane, i, (unsigned)i->in[0].value);
    }
}

/* mov.b64 %rd, {%r1, %r2} and mov.b64 {%r1, %r2}, %rd: parts from the low end up. */
static void move(const ptx_machine *m, const ptx_warp *w, unsigned lanes,
                 const ptx_instruction *i) {
    uint64_t value[PTX_WARP] = {0}, room[PTX_WARP];
    const unsigned parts = i->in_count > i->out_count ? i->in_count : i->out_count;
    const unsigned part = i->code.type.bits / parts;
    if (parts == 1) {
        ptx_write(w, &i->out[0], lanes, ptx_lanes(m, w, &i->in[0], room));
        return;
    }
    for (unsigned k = 0; k < i->in_count; k++) {
        const uint64_t *in = ptx_lanes(m, w, &i->in[k], room);
        for (unsigned lane = 0; lane < PTX_WARP; lane++) value[lane] |= in[lane] << k * part;
    }
    for (unsigned k = 0; k < i->out_count; k++) {
        for (unsigned lane = 0; lane < PTX_WARP; lane++) room[lane] = value[lane] >> k * part;
        ptx_write(w, &i->out[k], lanes, room);
    }
}

/* add, sub and mad of 32 bits with what the one before carried or borrowed. */
static void carry(ptx_warp *w, unsigned lanes, const ptx_instruction *i, const uint64_t *const *in,
                  uint64_t *out) {
    for (; lanes != 0;) {
        const unsigned lane = ptx_next_lane(&lanes);
        const uint64_t a = (uint32_t)in[0][lane], b = (uint32_t)in[1][lane];
        const uint64_t before = i->code.carry_in ? w->carry >> lane & 1 : 0;
        if (i->code.op == PTX_ADD)
            out[lane] = a + b + before;
        else if (i->code.op == PTX_SUB)
            out[lane] = a - b - before;
        else
            out[lane] = (i->code.mode == PTX_HI ? a * b >> 32 : (uint32_t)(a * b)) +
                        (uint32_t)in[2][lane] + before;
        if (i->code.carry_out)
            w->carry = (w->carry & ~(1u << lane)) | (unsigned)(out[lane] >> 32 != 0) << lane;
    }
}

static void compute(const ptx_machine *m, ptx_warp *w, unsigned lanes, const ptx_instruction *i) {
    static const uint64_t k_zeros[PTX_WARP];
    uint64_t room[4][PTX_WARP], out[PTX_WARP];
    const uint64_t *in[4] = {k_zeros, k_zeros, k_zeros, k_zeros}; /* no such has more */
    for (unsigned k = 0; k < i->in_count; k++) in[k] = ptx_lanes(m, w, &i->in[k], room[k]);
    if (i->code.carry_in || i->code.carry_out)
        carry(w, lanes, i, in, out);
    else
        i->form(&i->code, in, out);
    ptx_write(w, &i->out[0], lanes, out);
}

/* ---- functions ---- */

static void run_lanes(ptx_machine *m, ptx_warp *w);

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
static void call(ptx_machine *m, const ptx_warp *w, unsigned lanes, const ptx_instruction *i) {
    const ptx_kernel *caller = m->kernel;
    const ptx_kernel *function = &caller->module->functions[i->target];
    long long *entered = m->entered;
    ptx_warp inside = {.first = w->first, .copies = w->copies, .running = lanes};
    m->entered = calloc(function->code_count + 1, sizeof *m->entered);
    inside.registers = calloc(function->registers + 1u, sizeof *inside.registers);
    inside.local = calloc(PTX_WARP, function->local_bytes + 1);
    if (inside.registers != NULL && inside.local != NULL && m->entered != NULL) {
        const ptx_variable *v = function->variables.at;
        m->kernel = function;
        m->area = NULL;
        for (unsigned lane = 0; lane < PTX_WARP; lane++)
            for (unsigned k = 0; k < i->in_count; k++)
                pass(inside.local + lane * function->local_bytes,
                     w->local + lane * caller->local_bytes, &i->in[k], &v[i->out_count + k], false);
        run_lanes(m, &inside);
        sum_up(m);
        for (unsigned left = lanes; left != 0;) {
            const unsigned lane = ptx_next_lane(&left);
            for (unsigned k = 0; k < i->out_count; k++)
                pass(w->local + lane * caller->local_bytes,
                     inside.local + lane * function->local_bytes, &i->out[k], &v[k], true);
        }
        m->kernel = caller;
        m->area = NULL;
    } else {
        ptx_find_fault(m, w, 0, i, PTX_NO_MEMORY, 0, "out of memory");
    }
    free(inside.registers);
    free(inside.local);
    free(m->entered);
    m->entered = entered;
}

/* ---- lanes that go together ---- */

/* Those of the lanes whose predicate lets them execute an instruction. */
static unsigned guarded(const ptx_warp *w, const ptx_instruction *i, unsigned lanes) {
    if (i->guard < 0) return lanes;
    const uint64_t *predicate = w->registers[i->guard];
    unsigned holds = 0;
    for (unsigned lane = 0; lane < PTX_WARP; lane++)
        holds |= (unsigned)(predicate[lane] != 0) << lane;
    return lanes & (i->guard_negated ? ~holds : holds);
}

static void execute(ptx_machine *m, ptx_warp *w, unsigned lanes, const ptx_instruction *i) {
    switch (i->code.op) {
        case PTX_RET:
        case PTX_EXIT:
            w->running &= ~lanes;
            break;
        case PTX_CALL:
            call(m, w, lanes, i);
            break;
        case PTX_BAR:
            w->running &= ~lanes;
            w->at_barrier |= lanes;
            break;
        case PTX_SHFL:
        case PTX_LDMATRIX:
        case PTX_MMA:
            w->running &= ~lanes;
            w->at_shuffle |= lanes;
            break;
        case PTX_ATOM:
            add(m, w, lanes, i);
            break;
        case PTX_CP:
            copy(m, w, lanes, i);
            break;
        case PTX_LD:
            load(m, w, lanes, i);
            break;
        case PTX_ST:
            store(m, w, lanes, i);
            break;
        case PTX_MOV:
            move(m, w, lanes, i);
            break;
        default:
            compute(m, w, lanes, i);
    }
}

/* Lanes that are at one instruction, and the first where other lanes of the warp are. */
typedef struct party {
    unsigned lanes;
    size_t at, others;
} party;

static party furthest_behind(const ptx_warp *w) {
    party p = {0, SIZE_MAX, SIZE_MAX};
    for (unsigned left = w->running; left != 0;) {
        const unsigned lane = ptx_next_lane(&left);
        const size_t at = w->at[lane];
        if (at < p.at) p = (party){0, at, p.at};
        if (at == p.at)
            p.lanes |= 1u << lane;
        else if (at < p.others)
            p.others = at;
    }
    return p;
}

static void set_at(ptx_warp *w, unsigned lanes, size_t at) {
    while (lanes != 0) w->at[ptx_next_lane(&lanes)] = at;
}

/* The lanes that take a branch leave the party unless all do. */
static void branch(ptx_machine *m, ptx_warp *w, party *p, unsigned lanes,
                   const ptx_instruction *i) {
    const unsigned count = count_of(lanes);
    const bool back = i->target < p->at;
    if (lanes == 0) return;
    m->entered[p->at] -= count;
    if (lanes == p->lanes) {
        m->entered[i->target] += count;
        p->at = i->target;
    } else {
        p->lanes &= ~lanes;
        set_at(w, lanes, i->target);
        if (i->target < p->others) p->others = i->target;
    }
    if (!back || m->budget >= count) {
        m->budget -= back ? count : 0;
        return;
    }
    ptx_find_fault(m, w, (unsigned)__builtin_ctz(lanes), i, PTX_ENDLESS, 0,
                   "the launch does not end");
    m->budget = 0;
    w->running &= ~lanes;
}

static void run_party(ptx_machine *m, ptx_warp *w, party p) {
    m->entered[p.at] += count_of(p.lanes);
    while (p.at < p.others && p.at < m->kernel->code_count && (w->running & p.lanes) == p.lanes) {
        const ptx_instruction *i = &m->kernel->code[p.at++];
        const unsigned lanes = guarded(w, i, p.lanes);
        if (i->code.op == PTX_BRA)
            branch(m, w, &p, lanes, i);
        else if (lanes != 0)
            execute(m, w, lanes, i);
    }
    m->entered[p.at] -= count_of(p.lanes);
    set_at(w, p.lanes, p.at);
    if (p.at == m->kernel->code_count) w->running &= ~p.lanes;
}

static void run_lanes(ptx_machine *m, ptx_warp *w) {
    while (w->running != 0) run_party(m, w, furthest_behind(w));
}

/* ---- what lanes of a warp do together: shuffles and matrices ---- */

static const ptx_instruction *waits_at(const ptx_machine *m, const ptx_warp *w, unsigned lane) {
    return &m->kernel->code[w->at[lane] - 1];
}

/* The lanes of a warp that wait at the shuffle where a lane waits. */
static unsigned lanes_at(const ptx_warp *w, unsigned lane) {
    unsigned lanes = 0;
    for (unsigned left = w->at_shuffle; left != 0;) {
        const unsigned other = ptx_next_lane(&left);
        if (w->at[other] == w->at[lane]) lanes |= 1u << other;
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

static void check_shuffle(ptx_machine *m, const ptx_warp *w, unsigned lane, unsigned lanes,
                          unsigned mask, unsigned from) {
    const ptx_instruction *i = waits_at(m, w, lane);
    if (!(mask >> lane & 1))
        ptx_find_fault(m, w, lane, i, PTX_BAD_SHUFFLE, mask,
                       "the mask 0x%x leaves out lane %u, which runs it", mask, lane);
    else if ((mask & ~lanes) != 0)
        ptx_find_fault(m, w, lane, i, PTX_BAD_SHUFFLE, mask,
                       "the mask 0x%x names lanes 0x%x, which do not come", mask, mask & ~lanes);
    else if (!((mask & lanes) >> from & 1))
        ptx_find_fault(m, w, lane, i, PTX_BAD_SHUFFLE, mask,
                       "reads lane %u, which takes no part (mask 0x%x)", from, mask);
}

/* All lanes of `lanes`, which wait at it, take part in a shuffle. */
static void shuffle(ptx_machine *m, const ptx_warp *w, unsigned lanes, const ptx_instruction *i) {
    uint64_t room[4][PTX_WARP], given[PTX_WARP] = {0}, inside[PTX_WARP];
    const uint64_t *in[4];
    for (unsigned k = 0; k < 4; k++) in[k] = ptx_lanes(m, w, &i->in[k], room[k]);
    for (unsigned left = lanes; left != 0;) {
        const unsigned lane = ptx_next_lane(&left);
        unsigned from = 0;
        inside[lane] =
            source_lane(i->code.lane, lane, (unsigned)in[1][lane], (unsigned)in[2][lane], &from);
        check_shuffle(m, w, lane, lanes, (unsigned)in[3][lane], from);
        given[lane] = lanes >> from & 1 ? in[0][from] : 0;
    }
    ptx_write(w, &i->out[0], lanes, given);
    if (i->out_count > 1) ptx_write(w, &i->out[1], lanes, inside);
}

/* What the lanes that wait where `lane` waits do together. */
static void together(ptx_machine *m, ptx_warp *w, unsigned lane) {
    const ptx_instruction *i = waits_at(m, w, lane);
    const unsigned lanes = lanes_at(w, lane);
    if (i->code.op == PTX_SHFL)
        shuffle(m, w, lanes, i);
    else if (lanes != k_all)
        ptx_find_fault(m, w, lane, i, PTX_BAD_SHUFFLE, lanes, "lanes 0x%x do not come", ~lanes);
    else if (i->code.op == PTX_MMA)
        ptx_multiply_matrices(m, w, i);
    else
        ptx_load_matrices(m, w, i);
    w->at_shuffle &= ~lanes;
    w->running |= lanes;
}

/* Whether all lanes have come to where one waits: those that the mask names, all for a matrix. */
static bool all_came(const ptx_machine *m, const ptx_warp *w, unsigned lane) {
    const ptx_instruction *i = waits_at(m, w, lane);
    uint64_t room[PTX_WARP];
    const unsigned mask =
        i->code.op == PTX_SHFL ? (unsigned)ptx_lanes(m, w, &i->in[3], room)[lane] : k_all;
    return (mask & ~lanes_at(w, lane)) == 0;
}

/* One shuffle of a warp happens, one that all its lanes have reached where there is one. */
static void shuffle_warp(ptx_machine *m, ptx_warp *w) {
    for (unsigned left = w->at_shuffle; left != 0;) {
        const unsigned lane = ptx_next_lane(&left);
        if (!all_came(m, w, lane)) continue;
        together(m, w, lane);
        return;
    }
    together(m, w, (unsigned)__builtin_ctz(w->at_shuffle));
}

static void run_warp(ptx_machine *m, ptx_warp *w) {
    run_lanes(m, w);
    while (w->at_shuffle != 0) {
        shuffle_warp(m, w);
        run_lanes(m, w);
    }
}

/* ---- blocks ---- */

/* Whether somebody goes on behind a barrier. All threads must wait, and at the same one. */
static bool pass_barrier(ptx_machine *m) {
    const ptx_warp *waiting = NULL, *elsewhere = NULL;
    unsigned count = 0, first = 0, other = 0;
    for (unsigned k = 0; k < m->warp_count; k++) {
        const ptx_warp *w = &m->warps[k];
        count += count_of(w->at_barrier);
        for (unsigned left = w->at_barrier; left != 0;) {
            const unsigned lane = ptx_next_lane(&left);
            if (waiting == NULL) {
                waiting = w;
                first = lane;
            } else if (elsewhere == NULL && w->at[lane] != waiting->at[first]) {
                elsewhere = w;
                other = lane;
            }
        }
    }
    if (waiting == NULL) return false;
    const ptx_instruction *i = waits_at(m, waiting, first);
    if (count != m->launch->threads)
        ptx_find_fault(m, waiting, first, i, PTX_BAD_BARRIER, 0,
                       "%u of %u threads come to this barrier, the others have ended", count,
                       m->launch->threads);
    if (elsewhere != NULL)
        ptx_find_fault(m, waiting, first, i, PTX_BAD_BARRIER, 0,
                       "divergent barrier: thread %u waits at the one in line %d",
                       elsewhere->first + other, waits_at(m, elsewhere, other)->line);
    for (unsigned k = 0; k < m->warp_count; k++) {
        m->warps[k].running = m->warps[k].at_barrier;
        m->warps[k].at_barrier = 0;
    }
    m->epoch++;
    return true;
}

static void run_block(ptx_machine *m, unsigned block) {
    const ptx_kernel *kernel = m->kernel;
    m->block = block;
    m->epoch++;
    memset(m->shared, 0, kernel->shared_bytes);
    for (unsigned k = 0; k < m->warp_count; k++) {
        const unsigned first = k * PTX_WARP, lanes = m->launch->threads - first;
        m->warps[k] = (ptx_warp){
            .registers = m->registers + k * (size_t)kernel->registers,
            .local = m->local + first * kernel->local_bytes,
            .copies = m->copies != NULL ? m->copies + first : NULL,
            .first = first,
            .running = lanes < PTX_WARP ? (1u << lanes) - 1 : k_all,
        };
    }
    for (unsigned k = 0; m->copies != NULL && k < m->warp_count * PTX_WARP; k++)
        m->copies[k].count = m->copies[k].group = 0;
    do {
        for (unsigned k = 0; k < m->warp_count; k++) run_warp(m, &m->warps[k]);
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
    bool made = m->touched != NULL;
    for (size_t k = 0; made && k < 2 * launch->allocation_count; k++) {
        m->touched[k] = calloc(launch->allocations[k / 2].bytes / PTX_SECTOR + 1, 1);
        made = m->touched[k] != NULL;
    }
    return made;
}

static bool has_copies(const ptx_kernel *kernel) {
    for (size_t k = 0; k < kernel->code_count; k++)
        if (kernel->code[k].code.op == PTX_CP) return true;
    return false;
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
    memset(report, 0, sizeof *report);
    m.budget = launch->most != 0 ? launch->most : k_most;
    m.warp_count = (launch->threads + PTX_WARP - 1) / PTX_WARP;
    const size_t threads = (size_t)m.warp_count * PTX_WARP;
    m.warps = calloc(m.warp_count, sizeof *m.warps);
    m.registers = calloc(m.warp_count * (size_t)kernel->registers + 1, sizeof *m.registers);
    const bool copies = has_copies(kernel);
    if (copies) m.copies = calloc(threads, sizeof *m.copies);
    m.params = calloc(1, kernel->param_bytes + 1);
    m.shared = calloc(1, kernel->shared_bytes + 1);
    m.shadow = calloc(kernel->shared_bytes + 1, sizeof *m.shadow);
    m.local = calloc(threads, kernel->local_bytes + 1);
    m.entered = calloc(kernel->code_count + 1, sizeof *m.entered);
    if (m.warps && m.registers && (m.copies || !copies) && m.params && m.shadow && m.shared &&
        m.local && m.entered && make_sectors(&m)) {
        copy_arguments(&m);
        for (unsigned block = 0; block < launch->groups; block++) run_block(&m, block);
        sum_up(&m);
    } else {
        report->findings[report->count++] =
            (ptx_finding){.fault = PTX_NO_MEMORY, .text = "out of memory"};
    }
    free_sectors(&m);
    free(m.warps);
    free(m.registers);
    free(m.copies);
    free(m.params);
    free(m.shared);
    free(m.shadow);
    free(m.local);
    free(m.entered);
    if (report->count == 0) tell(kernel);
    return report->count == 0;
}
