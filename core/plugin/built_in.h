/* SPDX-License-Identifier: Apache-2.0
 *
 * Plugins that are linked into the library: those of the static one (cmake/DhowStatic.cmake). The
 * shared one has none and finds its plugins as files.
 */
#ifndef DHOWI_PLUGIN_BUILT_IN_H_
#define DHOWI_PLUGIN_BUILT_IN_H_

#include <stdint.h>

#include "dhow/plugin.h"

/* NULL when there are no more. */
const dhow_plugin *dhowi_built_in_at(uint32_t index);

#endif /* DHOWI_PLUGIN_BUILT_IN_H_ */
