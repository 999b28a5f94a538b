/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels compiled for this processor family, one pointer per instruction set.
 */
#ifndef DHOW_KERNELS_CPU_TABLE_H_
#define DHOW_KERNELS_CPU_TABLE_H_

#include <stddef.h>

/* As k.h has it. */
typedef struct k_info {
    const char *name, *sig;
    void (*run)(long long group, long long groups, void *const *argv);
} k_info;

/* Instruction sets in the order of cpu_kernel.isa. Without x86-64 there is only the first, the
 * compiler's default. */
enum { CPU_ISA_V2 = 0, CPU_ISA_V3 = 1, CPU_ISA_V4 = 2, CPU_ISA_COUNT = 3 };

typedef struct cpu_kernel {
    const char *name, *unit;
    const k_info
        *isa[CPU_ISA_COUNT]; /* a set that a kernel was not built for holds the next lower one */
} cpu_kernel;

/* NULL when there is no such kernel. */
const cpu_kernel *dhow_cpu_kernel_entry(const char *name);
const cpu_kernel *dhow_cpu_kernel_entry_at(size_t index);
const k_info *dhow_cpu_kernel(const char *name, int isa);

/* For the generated tables. */
const cpu_kernel *cpu_table_find(const cpu_kernel *table, size_t count, const char *name);

#endif
