/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a launch: one block at a time, whose warps take turns. The lanes of a warp go
 * together for as long as they are at the same instruction.
 */
#ifndef PTX_MACHINE_H_
#define PTX_MACHINE_H_

#include "program.h"

/* A copy on its way to shared memory, by cp.async. */
typedef struct ptx_copy {
    uint64_t to;
    unsigned group;
    unsigned char bytes[16];
} ptx_copy;

enum { PTX_MAX_COPIES = 32, PTX_SECTOR = 32 };

typedef struct ptx_copies {
    ptx_copy at[PTX_MAX_COPIES];
    unsigned count, group; /* group: of the next copy */
} ptx_copies;

/* Sets of lanes have a bit for each. A lane in none of the three has ended. */
typedef struct ptx_warp {
    uint64_t (*registers)[PTX_WARP];
    unsigned char *local; /* of the first lane; the others' lie behind it */
    ptx_copies *copies;   /* of each lane */
    unsigned first;       /* the number of the first lane's thread */
    unsigned running, at_shuffle /* or another instruction of a whole warp */, at_barrier;
    unsigned carry;      /* or borrow, of the latest instruction with .cc */
    size_t at[PTX_WARP]; /* the next instruction */
} ptx_warp;

/* Who touched a byte of shared memory since which barrier: thread + 1, 0 for nobody. */
typedef struct ptx_shadow {
    unsigned epoch, block; /* block: the last that wrote, and 1 */
    unsigned short writer, reader, other_reader;
    bool atomic; /* what wrote since the barrier, by one thread or several */
    bool several;
    int write_line, read_line;
} ptx_shadow;

typedef struct ptx_machine {
    const ptx_kernel *kernel, *entry; /* what runs, which a call changes; what was launched */
    const ptx_launch *launch;
    ptx_report *report;
    unsigned block, epoch, warp_count;
    ptx_warp *warps;
    uint64_t (*registers)[PTX_WARP];
    ptx_copies *copies;
    unsigned char *params, *shared, *local;
    ptx_shadow *shadow;
    const ptx_allocation *latest; /* allocation and variable of shared memory that was found */
    const ptx_variable *area;
    unsigned char *
        *touched;       /* per allocation and write: a byte for each sector; NULL: not counted */
    long long *entered; /* per instruction: where threads came to lines of code, less where
                           they left them before it */
    unsigned long long budget; /* branches back until the launch counts as endless */
} ptx_machine;

/* Where `bytes` at an address of a space lie, or NULL after a finding. */
void *ptx_access(ptx_machine *m, const ptx_warp *w, unsigned lane, const ptx_instruction *i,
                 ptx_space space, uint64_t address, size_t bytes, bool write);

/* What the lanes of a warp ask of global or shared memory together goes into the report. */
void ptx_count_request(ptx_machine *m, ptx_space space, unsigned lanes, const uint64_t *address,
                       size_t bytes);

/* The values of an operand in all lanes, in `room` where no register holds them. */
static inline const uint64_t *ptx_lanes(const ptx_machine *m, const ptx_warp *w,
                                        const ptx_operand *o, uint64_t *room) {
    uint64_t value = o->value;
    switch (o->kind) {
        case PTX_REGISTER:
            return w->registers[o->reg];
        case PTX_BASE_ADDRESS:
            for (unsigned lane = 0; lane < PTX_WARP; lane++)
                room[lane] =
                    (w->registers[o->reg][lane] + value) & (o->bits < 64 ? 0xffffffff : ~0ull);
            return room;
        case PTX_TID:
        case PTX_LANEID:
            for (unsigned lane = 0; lane < PTX_WARP; lane++)
                room[lane] = (o->kind == PTX_TID ? w->first : 0) + lane;
            return room;
        case PTX_CTAID:
            value = m->block;
            break;
        case PTX_NTID:
            value = m->launch->threads;
            break;
        case PTX_NCTAID:
            value = m->launch->groups;
            break;
        default:
            break;
    }
    for (unsigned lane = 0; lane < PTX_WARP; lane++) room[lane] = value;
    return room;
}

/* Of some lanes. */
static inline void ptx_write(const ptx_warp *w, const ptx_operand *o, unsigned lanes,
                             const uint64_t *values) {
    if (o->kind != PTX_REGISTER) return;
    uint64_t *to = w->registers[o->reg];
    const uint64_t bits = o->bits < 64 ? (1ull << o->bits) - 1 : ~0ull;
    if (lanes == 0xffffffff) {
        for (unsigned lane = 0; lane < PTX_WARP; lane++) to[lane] = values[lane] & bits;
        return;
    }
    for (unsigned lane = 0; lane < PTX_WARP; lane++)
        to[lane] = lanes >> lane & 1 ? values[lane] & bits : to[lane];
}

/* The next lane of a set, which it leaves. */
static inline unsigned ptx_next_lane(unsigned *lanes) {
    const unsigned lane = (unsigned)__builtin_ctz(*lanes);
    *lanes &= *lanes - 1;
    return lane;
}

/* matrix.c: what a whole warp does together. */
void ptx_load_matrices(ptx_machine *m, const ptx_warp *w, const ptx_instruction *i);
void ptx_multiply_matrices(const ptx_machine *m, const ptx_warp *w, const ptx_instruction *i);

void ptx_find_fault(ptx_machine *m, const ptx_warp *w, unsigned lane, const ptx_instruction *i,
                    ptx_fault fault, uint64_t address, const char *format, ...)
    __attribute__((format(printf, 7, 8)));

#endif /* PTX_MACHINE_H_ */
