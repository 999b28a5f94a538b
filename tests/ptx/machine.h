/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a launch: one block at a time, whose threads take turns.
 */
#ifndef PTX_MACHINE_H_
#define PTX_MACHINE_H_

#include "program.h"

typedef enum ptx_thread_state {
    PTX_RUNNING,
    PTX_AT_SHUFFLE,
    PTX_AT_BARRIER,
    PTX_ENDED
} ptx_thread_state;

typedef struct ptx_thread {
    uint64_t *registers;
    unsigned char *local;
    unsigned index;
    size_t at; /* the next instruction */
    ptx_thread_state state;
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

/* Where `bytes` at an address lie, or NULL after a finding. */
void *ptx_access(ptx_machine *m, const ptx_thread *t, const ptx_instruction *i, uint64_t address,
                 size_t bytes, bool write);

void ptx_find_fault(ptx_machine *m, const ptx_thread *t, const ptx_instruction *i, ptx_fault fault,
                    uint64_t address, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

#endif /* PTX_MACHINE_H_ */
