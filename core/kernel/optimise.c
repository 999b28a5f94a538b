/* SPDX-License-Identifier: Apache-2.0
 *
 * See optimise.h.
 */
#include "kernel/optimise.h"

uint32_t dhowi_optimisations = DHOWI_OPTIMISE_ALL;
uint64_t dhowi_least_shed = 64 << 10;
