/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks kernels up in the generated tables.
 */
#include "kernels/cpu_table.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *name, const void *entry) {
    return strcmp(name, ((const cpu_kernel *)entry)->name);
}

const cpu_kernel *cpu_table_find(const cpu_kernel *table, size_t count, const char *name) {
    return bsearch(name, table, count, sizeof *table, compare);
}

const k_info *dhow_cpu_kernel(const char *name, int isa) {
    const cpu_kernel *entry = dhow_cpu_kernel_entry(name);
    return entry ? entry->isa[isa] : NULL;
}
