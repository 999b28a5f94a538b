/* SPDX-License-Identifier: Apache-2.0
 *
 * All plugins of one context: where they are looked for, which are wanted, and the record of each
 * candidate.
 */
#ifndef DHOWI_PLUGIN_REGISTRY_H_
#define DHOWI_PLUGIN_REGISTRY_H_

#include "base/files/disk_cache.h"
#include "plugin/plugin.h"

typedef struct dhowi_registry {
    dhowi_plugin *plugins; /* a fixed array once discovery is over */
    uint32_t count, capacity;
    dhow_host host; /* must not move: plugins keep its address */
    const dhowi_log *log;
    dhowi_disk_cache *cache;
    char probe_program[PATH_MAX];
    char *filter; /* as DHOW_BACKENDS, or NULL */
    bool isolate; /* all probes run in processes of their own */
    uint32_t
        third_party; /* plugins of folders that are not dhow's come first, and are isolated, too */
} dhowi_registry;

typedef struct dhowi_discovery {
    const char *plugin_path; /* of the options, may be NULL */
    const char *backends;    /* as DHOW_BACKENDS, may be NULL */
    bool isolate;
    uint32_t cpu_threads;
} dhowi_discovery;

/* Finds all plugins, and loads, probes and opens that of the CPU. INVALID_ARGUMENT for paths and
 * filters that do not parse, OUT_OF_MEMORY. */
dhow_status dhowi_registry_init(dhowi_registry *registry, const dhowi_discovery *how,
                                const dhowi_log *log, dhowi_disk_cache *cache);
/* Loads, probes and opens the others, which may take a driver's time to start: once, when somebody
 * asks for more than the CPU. */
void dhowi_registry_take_rest(dhowi_registry *registry);
void dhowi_registry_fini(dhowi_registry *registry);
/* The record of a backend: the READY one if there is one. NULL when no file of that name was found.
 */
const dhowi_plugin *dhowi_registry_find(const dhowi_registry *registry, const char *backend,
                                        size_t length);

/* ---- DHOW_BACKENDS ---- */

/* Whether the filter keeps a backend. */
bool dhowi_backends_keep(const char *filter, const char *backend);
/* INVALID_ARGUMENT when a word is malformed or names no backend among the plugins found. */
dhow_status dhowi_backends_check(const char *filter, const dhowi_registry *registry);

#endif /* DHOWI_PLUGIN_REGISTRY_H_ */
