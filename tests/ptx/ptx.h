/* SPDX-License-Identifier: Apache-2.0
 *
 * An interpreter of the PTX that nvcc emits for the kernels of dhow: it runs a grid of blocks on
 * the host and watches every access. It knows the instructions that those kernels use and refuses
 * others by name.
 */
#ifndef PTX_H_
#define PTX_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ptx_module ptx_module;
typedef struct ptx_kernel ptx_kernel;

/* NULL for text that is not understood; `error` then names the line and the instruction. */
ptx_module *ptx_parse(const char *text, char *error, size_t error_bytes);
void ptx_free(ptx_module *module);
size_t ptx_kernel_count(const ptx_module *module);
const ptx_kernel *ptx_kernel_at(const ptx_module *module, size_t index);
const ptx_kernel *ptx_find(const ptx_module *module, const char *name);
const char *ptx_kernel_name(const ptx_kernel *kernel);
size_t ptx_param_count(const ptx_kernel *kernel);

/* Memory that a launch may touch: the device's address `base`, which is where the host finds it too
 * unless `host` says otherwise. */
typedef struct ptx_allocation {
    const char *name;
    void *base;
    size_t bytes;
    bool read_only;
    void *host;
} ptx_allocation;

typedef struct ptx_launch {
    unsigned groups, threads; /* blocks of the grid, threads of a block: one dimension */
    const void *const *args;  /* one pointer per parameter, as cudaLaunchKernel takes them */
    const ptx_allocation *allocations;
    size_t allocation_count;
    bool counts_memory;      /* fills the end of the report, from `moved` on */
    unsigned long long most; /* branches back until it counts as endless; 0: 10 million */
} ptx_launch;

typedef enum ptx_fault {
    PTX_OUT_OF_BOUNDS,
    PTX_READ_ONLY,
    PTX_MISALIGNED,
    PTX_RACE,
    PTX_UNINITIALISED,
    PTX_BAD_BARRIER,
    PTX_BAD_SHUFFLE,
    PTX_ENDLESS,
    PTX_NO_MEMORY
} ptx_fault;

/* One fault at one instruction; `count` is how often, the rest tells of the first time. */
typedef struct ptx_finding {
    ptx_fault fault;
    int line;
    unsigned block, thread;
    uint64_t address;
    unsigned long long count;
    char text[240]; /* kernel, line, block, thread, address and what is wrong, in words */
} ptx_finding;

enum { PTX_MAX_FINDINGS = 16 };

typedef struct ptx_report {
    ptx_finding findings[PTX_MAX_FINDINGS];
    size_t count;
    unsigned long long instructions; /* executed, summed over threads */
    double machine_instructions;     /* what ptxas makes of these, by rule of thumb */
    /* Accesses of global memory and their bytes: by loads, by stores. */
    unsigned long long accesses[2], bytes[2];
    /* Bytes of memory that were touched, each of their 32-byte sectors once. */
    unsigned long long moved[2];
    /* Of a warp: accesses of global memory, and the sectors that they touch; accesses of shared
     * memory, and the words that the busiest bank had to give for them: one each without conflicts.
     * Those of ldmatrix are not counted. */
    unsigned long long requests, sectors, shared_requests, shared_passes;
} ptx_report;

/* Whether the launch ran without a finding; the file that PTX_EXECUTED names then has a line for
 * the kernel. An access with a finding is left out; loads give 0. */
bool ptx_run(const ptx_kernel *kernel, const ptx_launch *launch, ptx_report *report);

#endif /* PTX_H_ */
