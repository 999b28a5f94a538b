/* SPDX-License-Identifier: Apache-2.0
 *
 * See plugin.h.
 */
#include "plugin/plugin.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/text.h"
#include "base/threads/fork.h"
#include "plugin/elf_check.h"

enum { MAX_DEVICES = 1024 }; /* of one backend; more is a mistake */

/* ---- one thread at a time ---- */

/* Recursive: a plugin may log, and a log function may open another device. */
static pthread_mutex_t g_mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

__attribute__((constructor)) static void guard(void) {
    dhowi_fork_guard(DHOWI_FORK_PLUGINS, &g_mutex, true);
}

void dhowi_plugins_lock(void) { pthread_mutex_lock(&g_mutex); }
void dhowi_plugins_unlock(void) { pthread_mutex_unlock(&g_mutex); }

/* Texts of plugins are shown, and passed on by dhow-probe, as one line each: without what moves a
 * terminal's cursor, and as UTF-8, which JSON is. */
static void make_one_line(char *text) {
    enum { DELETE = 0x7f };
    const bool utf8 = dhowi_is_utf8(text);
    for (char *c = text; *c != '\0'; c++) {
        const unsigned char byte = (unsigned char)*c;
        if (byte < ' ' || byte == DELETE) *c = ' ';
        if (byte > DELETE && !utf8) *c = '?';
    }
}

void dhowi_plugin_set_state(dhowi_plugin *plugin, dhow_plugin_state state, const char *hint,
                            const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(plugin->reason, sizeof plugin->reason, format, args);
    va_end(args);
    plugin->state = state;
    (void)dhowi_copy_text(plugin->hint, sizeof plugin->hint, hint);
    make_one_line(plugin->reason);
    make_one_line(plugin->hint);
}

static const char *const k_rebuild = "rebuild the plugin against this version of dhow/plugin.h";

static void set_dlopen_failed(dhowi_plugin *plugin, const char *text) {
    if (strstr(text, "undefined symbol") != NULL) {
        dhowi_plugin_set_state(plugin, DHOW_PLUGIN_MISSING_SYMBOL,
                               "link the plugin with -Wl,-z,defs to find what it lacks", "%s",
                               text);
    } else if (strstr(text, "cannot open shared object file") != NULL) {
        dhowi_plugin_set_state(plugin, DHOW_PLUGIN_MISSING_DEPENDENCY,
                               "install the library named in the reason", "%s", text);
    } else if (strstr(text, "file too short") != NULL) {
        dhowi_plugin_set_state(plugin, DHOW_PLUGIN_TRUNCATED, "install the plugin again", "%s",
                               text);
    } else {
        dhowi_plugin_set_state(plugin, DHOW_PLUGIN_INIT_FAILED, "install the plugin again", "%s",
                               text);
    }
}

/* The symbol's size as the linker recorded it, 0 when unknown. */
static uint64_t symbol_bytes(const void *symbol) {
    Dl_info info;
    const ElfW(Sym) *entry = NULL;
    if (dladdr1(symbol, &info, (void **)&entry, RTLD_DL_SYMENT) == 0 || entry == NULL) return 0;
    return entry->st_size;
}

/* The table of the plugin's file, with its library; NULL and the record says why there is none. */
static const dhow_plugin *load_file(dhowi_plugin *plugin, void **out_library) {
    char reason[sizeof plugin->reason];
    dhow_plugin_state state = dhowi_elf_check(plugin->path, reason, sizeof reason);
    if (state != DHOW_PLUGIN_READY) {
        dhowi_plugin_set_state(
            plugin, state,
            state == DHOW_PLUGIN_WRONG_ARCH      ? "install the plugin for this machine"
            : state == DHOW_PLUGIN_NO_PERMISSION ? "make the file readable"
                                                 : "install the plugin again, or remove the file",
            "%s", reason);
        return NULL;
    }
    (void)dlerror();
    void *library = dlopen(plugin->path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *text = dlerror();
        set_dlopen_failed(plugin, text != NULL ? text : "dlopen failed without a reason");
        return NULL;
    }
    const dhow_plugin *table = dlsym(library, DHOW_PLUGIN_SYMBOL);
    if (table == NULL) {
        dhowi_plugin_set_state(plugin, DHOW_PLUGIN_MISSING_SYMBOL,
                               "it is no dhow plugin, or one for another major version",
                               "it exports no '%s'", DHOW_PLUGIN_SYMBOL);
        (void)dlclose(library); /* none of its functions has run */
    }
    *out_library = library;
    return table;
}

void dhowi_plugin_load(dhowi_plugin *plugin) {
    char reason[sizeof plugin->reason];
    void *library = NULL;
    const dhow_plugin *table =
        plugin->built_in != NULL ? plugin->built_in : load_file(plugin, &library);
    if (table == NULL) return;
    uint64_t bytes = plugin->built_in != NULL ? sizeof *table : symbol_bytes(table);
    if (!dhowi_plugin_take_table(table, bytes, &plugin->api, reason, sizeof reason)) {
        dhowi_plugin_set_state(
            plugin, DHOW_PLUGIN_ABI_MISMATCH,
            strstr(reason, "is NULL") != NULL
                ? "give the slot a function and rebuild; docs/write-a-backend.md tells what it does"
                : k_rebuild,
            "%s", reason);
        if (library != NULL) (void)dlclose(library);
        return;
    }
    (void)dhowi_copy_text(plugin->backend, sizeof plugin->backend, plugin->api.name);
    const char *version = plugin->api.version != NULL ? plugin->api.version : "";
    (void)dhowi_copy_text(plugin->version, sizeof plugin->version, version);
    make_one_line(plugin->version);
    plugin->state = DHOW_PLUGIN_READY;
}

void dhowi_plugin_probe(dhowi_plugin *plugin, const dhow_host *host) {
    dhow_probe answer = {.struct_size = (uint32_t)sizeof answer};
    dhow_error err;
    dhowi_error_init(&err);
    dhowi_plugins_lock();
    int32_t code = plugin->api.probe(host, &answer, &err);
    dhowi_plugins_unlock();
    answer.reason[sizeof answer.reason - 1] = answer.hint[sizeof answer.hint - 1] = '\0';
    if (code != DHOW_OK) {
        dhow_status status = dhowi_error_take(&err, code);
        dhowi_plugin_set_state(plugin, DHOW_PLUGIN_INIT_FAILED, "", "probe failed: %s: %s",
                               dhow_status_name(status), err.message);
    } else if (answer.state < DHOW_PLUGIN_READY || answer.state > DHOW_PLUGIN_INIT_FAILED) {
        dhowi_plugin_set_state(plugin, DHOW_PLUGIN_ABI_MISMATCH, k_rebuild,
                               "its probe answers with state %d, which does not exist",
                               answer.state);
    } else {
        dhowi_plugin_set_state(plugin, (dhow_plugin_state)answer.state, answer.hint, "%s",
                               answer.reason);
    }
}

/* ---- fork ---- */

/* The files whose backends this process, or one that it was forked from, has opened. */
static struct {
    uint64_t device_id, inode;
    uint32_t generation;
} g_opened[64];
static uint32_t g_opened_count;

/* Under the lock. What there is no room for is forgotten, and tried as if it was new. */
static void remember(const dhowi_plugin *plugin) {
    for (uint32_t i = 0; i < g_opened_count; i++) {
        if (g_opened[i].device_id == plugin->device_id && g_opened[i].inode == plugin->inode)
            return; /* the first time counts */
    }
    if (g_opened_count == sizeof g_opened / sizeof g_opened[0]) return;
    g_opened[g_opened_count].device_id = plugin->device_id;
    g_opened[g_opened_count].inode = plugin->inode;
    g_opened[g_opened_count++].generation = dhowi_fork_generation();
}

void dhowi_plugin_has_driver(dhowi_plugin *plugin) {
    dhowi_plugins_lock();
    plugin->has_driver = true;
    if (plugin->self != NULL) remember(plugin);
    dhowi_plugins_unlock();
}

bool dhowi_plugin_forked(dhowi_plugin *plugin) {
    bool forked = false;
    dhowi_plugins_lock();
    for (uint32_t i = 0; i < g_opened_count; i++) {
        forked = forked || (g_opened[i].device_id == plugin->device_id &&
                            g_opened[i].inode == plugin->inode &&
                            g_opened[i].generation != dhowi_fork_generation());
    }
    dhowi_plugins_unlock();
    if (forked) {
        dhowi_plugin_set_state(
            plugin, DHOW_PLUGIN_INIT_FAILED,
            "fork before the first use of its devices, or call exec after fork()",
            "the backend was opened before fork(), and its driver's threads stayed in "
            "the parent");
    }
    return forked;
}

/* The backend, or NULL with *err saying why. Under the lock. */
static int32_t open_backend(dhowi_plugin *plugin, const dhow_host *host, dhow_error *err) {
    void *self = NULL;
    int32_t code = plugin->api.open(host, &self, err);
    plugin->self = code == DHOW_OK ? self : NULL;
    if (plugin->self != NULL && plugin->has_driver) remember(plugin);
    return code;
}

dhow_status dhowi_plugin_start(dhowi_plugin *plugin, const dhow_host *host) {
    dhow_error err;
    dhowi_error_init(&err);
    dhowi_plugins_lock();
    int32_t code = plugin->self == NULL ? open_backend(plugin, host, &err) : DHOW_OK;
    const bool started = plugin->self != NULL;
    dhowi_plugins_unlock();
    if (started) return DHOW_OK;
    dhow_status status = code != DHOW_OK ? dhowi_error_take(&err, code) : DHOW_UNAVAILABLE;
    return dhowi_fail_native(status, err.native_code, "the backend %s cannot be opened: %s",
                             plugin->backend, err.message);
}

void dhowi_plugin_describe(const dhowi_plugin *plugin, uint32_t index, dhow_device_desc *d) {
    dhow_error err;
    dhowi_error_init(&err);
    memset(d, 0, sizeof *d);
    d->struct_size = (uint32_t)sizeof *d;
    int32_t code = plugin->api.device_describe(plugin->self, index, d, &err);
    if (code != DHOW_OK) {
        (void)dhowi_error_take(&err, code);
        (void)snprintf(d->name, sizeof d->name, "(no description: %.100s)", err.message);
    }
    d->name[sizeof d->name - 1] = d->driver[sizeof d->driver - 1] = '\0';
    d->uuid[sizeof d->uuid - 1] = d->pci[sizeof d->pci - 1] = '\0';
    char *const texts[] = {d->name, d->driver, d->uuid, d->pci};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) make_one_line(texts[i]);
    bool power_of_two = d->offset_align != 0 && (d->offset_align & (d->offset_align - 1)) == 0;
    if (!power_of_two || d->offset_align > 4096) d->offset_align = 256;
    if ((d->index_bits & 96u) == 0) d->index_bits = 64;
}

void dhowi_plugin_list_components(dhowi_plugin *plugin) {
    enum { MAX_COMPONENTS = 8 };
    if (plugin->components_listed || plugin->self == NULL) return;
    plugin->components_listed = true;
    plugin->components = dhowi_alloc_array(MAX_COMPONENTS, sizeof *plugin->components);
    if (plugin->components == NULL) return;
    for (uint32_t i = 0; i < MAX_COMPONENTS; i++) {
        dhow_component *c = &plugin->components[i];
        dhow_error err;
        dhowi_error_init(&err);
        c->struct_size = (uint32_t)sizeof *c;
        if (plugin->api.component(plugin->self, i, c, &err) != DHOW_OK) break;
        c->name[sizeof c->name - 1] = c->purpose[sizeof c->purpose - 1] = '\0';
        c->detail[sizeof c->detail - 1] = '\0';
        make_one_line(c->name);
        make_one_line(c->purpose);
        make_one_line(c->detail);
        plugin->component_count = i + 1;
    }
}

void dhowi_plugin_open(dhowi_plugin *plugin, const dhow_host *host) {
    dhow_error err;
    dhowi_error_init(&err);
    uint32_t devices = 0;
    if (plugin->descs != NULL) return;
    dhowi_plugins_lock();
    int32_t code = open_backend(plugin, host, &err);
    dhowi_plugins_unlock();
    if (code == DHOW_OK && plugin->self != NULL)
        code = plugin->api.device_count(plugin->self, &devices, &err);
    if (code != DHOW_OK) {
        dhow_status status = dhowi_error_take(&err, code);
        dhowi_plugin_set_state(plugin, DHOW_PLUGIN_INIT_FAILED, "", "open failed: %s: %s",
                               dhow_status_name(status), err.message);
    } else if (plugin->self == NULL) {
        dhowi_plugin_set_state(plugin, DHOW_PLUGIN_INIT_FAILED, "",
                               "open failed: it reported success and gave nothing");
    } else if (devices > MAX_DEVICES) {
        dhowi_plugin_set_state(plugin, DHOW_PLUGIN_ABI_MISMATCH, k_rebuild,
                               "it has %u devices; %d are the most", devices, MAX_DEVICES);
    } else if (devices == 0) {
        dhowi_plugin_set_state(plugin, DHOW_PLUGIN_NO_DEVICE, "",
                               "the backend opened and shows no device");
    }
    plugin->device_count = plugin->state == DHOW_PLUGIN_READY ? devices : 0;
    if (plugin->state != DHOW_PLUGIN_READY) dhowi_plugin_close(plugin);
}

void dhowi_plugin_close(dhowi_plugin *plugin) {
    dhowi_plugins_lock();
    if (plugin->self != NULL) plugin->api.close(plugin->self);
    plugin->self = NULL;
    dhowi_plugins_unlock();
    dhowi_free(plugin->components);
    dhowi_free(plugin->descs);
    plugin->components = NULL;
    plugin->descs = NULL;
}

void dhowi_plugin_forget_devices(dhowi_plugin *plugin) {
    dhowi_free(plugin->descs);
    plugin->descs = NULL;
    plugin->device_count = 0;
}
