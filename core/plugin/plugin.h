/* SPDX-License-Identifier: Apache-2.0
 *
 * One plugin file: its record, its library and its table. Registries (registry.h) hold many of
 * them.
 */
#ifndef DHOWI_PLUGIN_PLUGIN_H_
#define DHOWI_PLUGIN_PLUGIN_H_

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/errors/error.h"
#include "dhow/plugin.h"

typedef struct dhowi_plugin {
    char path[PATH_MAX];
    char backend[16];
    char version[64];
    dhow_plugin_state state;
    char reason[512];
    char hint[256];
    uint64_t device_id, inode; /* of the file, to find it twice */
    uint64_t folder_device_id, folder_inode;
    dhow_plugin api;      /* our copy; slots the plugin lacks are stubs */
    _Atomic(void *) self; /* what its open() gave; NULL until then */
    /* Of a backend that another process has described: it is opened here with its first device. */
    dhow_device_desc *descs;
    dhow_component *components;
    uint32_t component_count, device_count;
    bool components_listed;
    bool taken;                  /* loaded and asked, or the record says why not */
    bool listed;                 /* its devices are in the context's list */
    bool has_driver;             /* see dhowi_plugin_has_driver() */
    const dhow_plugin *built_in; /* its table where it is linked into the library; NULL: a file */
} dhowi_plugin;

/* Whether the backend's devices are to be had. */
static inline bool dhowi_plugin_serves(const dhowi_plugin *plugin) {
    return plugin->self != NULL || plugin->descs != NULL;
}

/* Around probe, open, close, device_open and device_close of all plugins, for dhow/plugin.h
 * promises that they are called by one thread at a time, whatever the contexts. Recursive, and
 * taken before the locks of a context and its devices. */
void dhowi_plugins_lock(void);
void dhowi_plugins_unlock(void);

/* Sets state, reason and hint. */
void dhowi_plugin_set_state(dhowi_plugin *plugin, dhow_plugin_state state, const char *hint,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Takes the file in: ELF check, dlopen, symbol, checks of the table; of a built-in one the table.
 * READY, or the record says why not. */
void dhowi_plugin_load(dhowi_plugin *plugin);
/* Asks the loaded plugin whether it works here. */
void dhowi_plugin_probe(dhowi_plugin *plugin, const dhow_host *host);
/* Starts the probed plugin's backend and counts its devices; a described one is left for later. */
void dhowi_plugin_open(dhowi_plugin *plugin, const dhow_host *host);
/* Starts the backend now, if that has not been done. Any thread. */
dhow_status dhowi_plugin_start(dhowi_plugin *plugin, const dhow_host *host);
/* Notes that its devices are driven by a vendor's code, which no fork() survives. */
void dhowi_plugin_has_driver(dhowi_plugin *plugin);
/* Whether such a backend was opened before fork(), by a driver whose threads stayed in the parent:
 * it must not be touched here. Says so in the record. */
bool dhowi_plugin_forked(dhowi_plugin *plugin);
/* Fills in what one device of the opened backend is, made safe to read. */
void dhowi_plugin_describe(const dhowi_plugin *plugin, uint32_t index, dhow_device_desc *out);
/* Asks the opened backend for optional libraries, once. */
void dhowi_plugin_list_components(dhowi_plugin *plugin);
/* Ends the backend. The library stays: code that ran is never unloaded. */
void dhowi_plugin_close(dhowi_plugin *plugin);
/* Drops the devices that an isolated probe reported for a plugin that is not to serve. */
void dhowi_plugin_forget_devices(dhowi_plugin *plugin);

/* Checks a table of `available` bytes (0: unknown) and copies it into *api, stubs included. False
 * with a reason. */
bool dhowi_plugin_take_table(const dhow_plugin *table, uint64_t available, dhow_plugin *api,
                             char *reason, size_t capacity);

/* Loads, probes and describes in a process of its own, which answers for crashes, exits and hangs;
 * afterwards the file is loaded here too if it was READY, and not opened: some drivers take longer
 * to start than everything else. `probe_program` is the path of dhow-probe. */
void dhowi_plugin_probe_isolated(dhowi_plugin *plugin, const char *probe_program,
                                 const dhow_host *host);
/* The other side: what dhow-probe says about a plugin, opened if it was READY. */
void dhowi_plugin_print_answer(dhowi_plugin *plugin, int fd);

#endif /* DHOWI_PLUGIN_PLUGIN_H_ */
