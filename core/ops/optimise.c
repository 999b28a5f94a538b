/* SPDX-License-Identifier: Apache-2.0
 *
 * See optimise.h.
 */
#include "ops/optimise.h"

#include <string.h>

uint32_t dhowi_optimisations = DHOWI_OPTIMISE_ALL;

#ifdef DHOWI_PLANTS
const char *dhowi_plant = "";

bool dhowi_guard(const char *name, bool holds) { return holds || strcmp(name, dhowi_plant) == 0; }
#endif
