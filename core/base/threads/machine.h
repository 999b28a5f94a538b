/* SPDX-License-Identifier: Apache-2.0
 *
 * How much of this machine the process may use: cores by affinity and by the quotas of its control
 * groups, memory by their limits. Files are read below `root`, which is "" but in tests.
 */
#ifndef DHOWI_BASE_MACHINE_H_
#define DHOWI_BASE_MACHINE_H_

#include <stdint.h>

/* At least 1. A quota of part of a core counts as a whole one. */
uint32_t dhowi_machine_cores(const char *root);
/* In bytes; 0 where it is unknown. Memory that the system would give back counts as free. */
void dhowi_machine_memory(const char *root, uint64_t *out_free, uint64_t *out_total);

#endif /* DHOWI_BASE_MACHINE_H_ */
