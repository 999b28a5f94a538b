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

enum { PTX_MAX_COPIES = 32 };

typedef struct ptx_thread {
    uint64_t *registers;
    unsigned char *local;
    unsigned index;
    size_t at; /* the next instruction */
    ptx_thread_state state;
    ptx_copy copies[PTX_MAX_COPIES];
    unsigned copy_count, group; /* group: of the next copy */
} ptx_thread;

/* Who touched a byte of shared memory since which barrier: thread + 1, 0 for nobody. */
typedef struct ptx_shadow {
    unsigned epoch, writer, reader, other_reader;
    int write_line, read_line;
    bool written; /* ever, by this block */
} ptx_shadow;

typedef struct ptx_machine {
    const ptx_kernel *kernel;
    const ptx_launch *launch;
    ptx_report *report;
    unsigned block, epoch;
    ptx_thread *threads;
    uint64_t *registers;
    unsigned char *params, *shared, *local;
    ptx_shadow *shadow;
    unsigned long long budget; /* instructions until the launch counts as endless */
} ptx_machine;

/* The result of an instruction without side effects; `in` are its operands' bits. */
uint64_t ptx_compute(const ptx_instruction *i, const uint64_t *in);

/* Where `bytes` at an address of a space lie, or NULL after a finding. */
void *ptx_access(ptx_machine *m, const ptx_thread *t, const ptx_instruction *i, ptx_space space,
                 uint64_t address, size_t bytes, bool write);

uint64_t ptx_read(const ptx_machine *m, const ptx_thread *t, const ptx_operand *o);
void ptx_write(const ptx_thread *t, const ptx_operand *o, uint64_t value);

/* matrix.c: what a whole warp does together, `warp` being its first thread. */
void ptx_load_matrices(ptx_machine *m, ptx_thread *warp, const ptx_instruction *i);
void ptx_multiply_matrices(const ptx_machine *m, ptx_thread *warp, const ptx_instruction *i);

void ptx_find_fault(ptx_machine *m, const ptx_thread *t, const ptx_instruction *i, ptx_fault fault,
                    uint64_t address, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

#endif /* PTX_MACHINE_H_ */
