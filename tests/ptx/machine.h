/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a launch: one block at a time, whose threads take turns.
 */
#ifndef PTX_MACHINE_H_
#define PTX_MACHINE_H_

#include "program.h"

typedef enum ptx_thread_state {
    PTX_RUNNING,
    PTX_AT_SHUFFLE, /* or another instruction of a whole warp */
    PTX_AT_BARRIER,
    PTX_ENDED
} ptx_thread_state;

/* A copy on its way to shared memory, by cp.async. */
typedef struct ptx_copy {
    uint64_t to;
    unsigned group;
    unsigned char bytes[16];
} ptx_copy;

enum { PTX_MAX_COPIES = 32, PTX_WARP = 32, PTX_SECTOR = 32 };

typedef struct ptx_thread {
    uint64_t *registers;
    unsigned char *local;
    unsigned index;
    bool carry; /* or borrow, of the latest instruction with .cc */
    size_t at;  /* the next instruction */
    ptx_thread_state state;
    ptx_copy copies[PTX_MAX_COPIES];
    unsigned copy_count, group; /* group: of the next copy */
} ptx_thread;

/* Who touched a byte of shared memory since which barrier: thread + 1, 0 for nobody. */
typedef struct ptx_shadow {
    unsigned epoch, writer, reader, other_reader;
    int write_line, read_line;
    unsigned block; /* the last that wrote, and 1 */
    bool atomic;    /* what wrote since the barrier, by one thread or several */
    bool several;
} ptx_shadow;

typedef struct ptx_request ptx_request;
typedef struct ptx_requests ptx_requests;

typedef struct ptx_machine {
    const ptx_kernel *kernel, *entry; /* what runs, which a call changes; what was launched */
    const ptx_launch *launch;
    ptx_report *report;
    unsigned block, epoch;
    ptx_thread *threads;
    uint64_t *registers;
    unsigned char *params, *shared, *local;
    ptx_shadow *shadow;
    unsigned char *
        *touched; /* per allocation and write: a byte for each sector; NULL: not counted */
    ptx_requests *requests; /* per instruction, of global and of shared memory; NULL: not counted */
    unsigned *seen;         /* per lane and those: how often it came there */
    long long *entered;     /* per instruction: where threads came to lines of code, less where they
                               left them before it */
    unsigned long long budget; /* branches back until the launch counts as endless */
} ptx_machine;

/* The result of an instruction without side effects; `in` are its operands' bits. */
uint64_t ptx_compute(const ptx_instruction *i, const uint64_t *in);

/* Where `bytes` at an address of a space lie, or NULL after a finding. */
void *ptx_access(ptx_machine *m, const ptx_thread *t, const ptx_instruction *i, ptx_space space,
                 uint64_t address, size_t bytes, bool write);

static inline uint64_t ptx_read(const ptx_machine *m, const ptx_thread *t, const ptx_operand *o) {
    switch (o->kind) {
        case PTX_REGISTER:
            return t->registers[o->reg];
        case PTX_BASE_ADDRESS:
            return (t->registers[o->reg] + o->value) & (o->bits < 64 ? 0xffffffff : ~0ull);
        case PTX_TID:
            return t->index;
        case PTX_CTAID:
            return m->block;
        case PTX_NTID:
            return m->launch->threads;
        case PTX_NCTAID:
            return m->launch->groups;
        case PTX_LANEID:
            return t->index % PTX_WARP;
        default:
            return o->value;
    }
}

static inline void ptx_write(const ptx_thread *t, const ptx_operand *o, uint64_t value) {
    if (o->kind != PTX_REGISTER) return;
    t->registers[o->reg] = o->bits < 64 ? value & ((1ull << o->bits) - 1) : value;
}

/* matrix.c: what a whole warp does together, `warp` being its first thread. */
void ptx_load_matrices(ptx_machine *m, ptx_thread *warp, const ptx_instruction *i);
void ptx_multiply_matrices(const ptx_machine *m, ptx_thread *warp, const ptx_instruction *i);

/* requests.c: between begin and end each access is noted, and served when all lanes of a warp wait.
 */
bool ptx_requests_begin(ptx_machine *m);
void ptx_request_note(ptx_machine *m, const ptx_thread *t, const ptx_instruction *i,
                      ptx_space space, uint64_t address, size_t bytes);
void ptx_requests_serve(ptx_machine *m);
void ptx_requests_end(ptx_machine *m);

void ptx_find_fault(ptx_machine *m, const ptx_thread *t, const ptx_instruction *i, ptx_fault fault,
                    uint64_t address, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

#endif /* PTX_MACHINE_H_ */
