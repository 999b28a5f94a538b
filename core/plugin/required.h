/* SPDX-License-Identifier: Apache-2.0
 *
 * The slots without which a table is no plugin, for the library and for dhow-conform, which calls
 * nothing else of the library's own.
 */
#ifndef DHOWI_PLUGIN_REQUIRED_H_
#define DHOWI_PLUGIN_REQUIRED_H_

#include <stddef.h>

#include "dhow/plugin.h"

/* The name of a slot that a plugin must have and this one lacks, or NULL. */
static inline const char *dhowi_plugin_missing_slot(const dhow_plugin *api) {
#define REQUIRED(slot) \
    if (api->slot == NULL) return #slot
    REQUIRED(probe);
    REQUIRED(open);
    REQUIRED(close);
    REQUIRED(device_count);
    REQUIRED(device_describe);
    REQUIRED(device_open);
    REQUIRED(device_close);
    REQUIRED(mem_alloc);
    REQUIRED(mem_free);
    REQUIRED(stream_create);
    REQUIRED(stream_destroy);
    REQUIRED(stream_sync);
    REQUIRED(stream_query);
    REQUIRED(stream_wait);
    REQUIRED(event_create);
    REQUIRED(event_destroy);
    REQUIRED(event_record);
    REQUIRED(event_sync);
    REQUIRED(event_query);
    REQUIRED(copy);
    REQUIRED(fill);
    REQUIRED(module_build);
    REQUIRED(module_free);
    REQUIRED(module_kernel);
    REQUIRED(launch);
#undef REQUIRED
    return NULL;
}

#endif /* DHOWI_PLUGIN_REQUIRED_H_ */
