/* SPDX-License-Identifier: Apache-2.0
 *
 * See built_in.h. DHOWI_BUILT_IN is X(cpu) X(opencl) ... where plugins are linked in.
 */
#include "plugin/built_in.h"

#include <stddef.h>

#ifdef DHOWI_BUILT_IN
#define X(name) extern const dhow_plugin dhow_built_in_##name;
DHOWI_BUILT_IN
#undef X
#define X(name) &dhow_built_in_##name,
static const dhow_plugin *const k_tables[] = {DHOWI_BUILT_IN NULL};
#undef X
#else
static const dhow_plugin *const k_tables[] = {NULL};
#endif

const dhow_plugin *dhowi_built_in_at(uint32_t index) {
    return index < sizeof k_tables / sizeof k_tables[0] ? k_tables[index] : NULL;
}
