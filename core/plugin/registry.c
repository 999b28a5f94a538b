/* SPDX-License-Identifier: Apache-2.0
 *
 * See registry.h. Directories are searched in order; within one, files by name. Everything found
 * leaves a record.
 */
#include "plugin/registry.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "base/memory/array.h"
#include "base/memory/size.h"
#include "base/text/text.h"
#include "base/threads/machine.h"
#include "plugin/built_in.h"

/* ---- services for plugins ---- */

static void host_log(void *user, int32_t level, const char *message) {
    const dhowi_registry *registry = user;
    if (level < DHOW_LOG_ERROR || level > DHOW_LOG_DEBUG) level = DHOW_LOG_ERROR;
    dhowi_log_line(registry->log, (dhow_log_level)level, "%s", message);
}
static void *host_alloc(void *user, uint64_t bytes, uint64_t align) {
    (void)user;
    return dhowi_alloc_aligned((size_t)bytes, align < 16 ? 16 : (size_t)align);
}
static void host_free(void *user, void *memory) {
    (void)user;
    dhowi_free(memory);
}
static const char *host_env(void *user, const char *name) {
    (void)user;
    return dhowi_env(name);
}
static int32_t host_cache_load(void *user, const char *key, void **out_blob, uint64_t *out_bytes) {
    return (int32_t)dhowi_disk_cache_load(((dhowi_registry *)user)->cache, key, out_blob,
                                          out_bytes);
}
static int32_t host_cache_store(void *user, const char *key, const void *blob, uint64_t bytes) {
    return (int32_t)dhowi_disk_cache_store(((dhowi_registry *)user)->cache, key, blob, bytes);
}

static void host_memory(void *user, uint64_t *out_free, uint64_t *out_total) {
    (void)user;
    dhowi_machine_memory("", out_free, out_total);
}

/* ---- candidates ---- */

static bool same_file_known(const dhowi_registry *registry, const struct stat *info) {
    for (uint32_t i = 0; i < registry->count; i++) {
        const dhowi_plugin *p = &registry->plugins[i];
        if (p->device_id == info->st_dev && p->inode == info->st_ino) return true;
    }
    return false;
}

static bool folder_known(const dhowi_registry *registry, const struct stat *info) {
    for (uint32_t i = 0; i < registry->count; i++) {
        const dhowi_plugin *p = &registry->plugins[i];
        if (p->folder_device_id == info->st_dev && p->folder_inode == info->st_ino) return true;
    }
    return false;
}

/* A record more, empty; NULL: no memory. */
static dhowi_plugin *next_record(dhowi_registry *registry) {
    if (!dhowi_room((void **)&registry->plugins, registry->count, &registry->capacity,
                    sizeof *registry->plugins))
        return NULL;
    dhowi_plugin *p = &registry->plugins[registry->count];
    memset(p, 0, sizeof *p);
    return p;
}

/* The plugins that are linked into the library. */
static dhow_status add_built_in(dhowi_registry *registry) {
    for (uint32_t i = 0; dhowi_built_in_at(i) != NULL; i++) {
        dhowi_plugin *p = next_record(registry);
        if (p == NULL) return dhowi_fail_memory("plugin records");
        p->built_in = dhowi_built_in_at(i);
        (void)dhowi_copy_text(p->path, sizeof p->path, "(built in)");
        (void)dhowi_copy_text(p->backend, sizeof p->backend, p->built_in->name);
        p->device_id = p->folder_device_id = p->folder_inode = UINT64_MAX; /* of no file */
        p->inode = i;
        registry->count++;
    }
    return DHOW_OK;
}

static dhow_status add_candidate(dhowi_registry *registry, const char *folder,
                                 const struct stat *folder_info, const char *file,
                                 size_t name_length) {
    dhowi_plugin *p = next_record(registry);
    if (p == NULL) return dhowi_fail_memory("plugin records");
    int n = snprintf(p->path, sizeof p->path, "%s/%s", folder, file);
    if (n < 0 || (size_t)n >= sizeof p->path) {
        dhowi_log_line(registry->log, DHOW_LOG_WARN, "%s/%s: the path is too long, passed over",
                       folder, file);
        return DHOW_OK;
    }
    size_t length = DHOWI_MIN(name_length, sizeof p->backend - 1);
    memcpy(p->backend, file + strlen("libdhow_"), length);
    struct stat info = {0};
    if (stat(p->path, &info) == 0) {
        if (same_file_known(registry, &info)) {
            dhowi_plugin_set_state(p, DHOW_PLUGIN_DUPLICATE, "",
                                   "the same file was found before under another path");
        }
        p->device_id = info.st_dev;
        p->inode = info.st_ino;
    }
    p->folder_device_id = folder_info->st_dev;
    p->folder_inode = folder_info->st_ino;
    registry->count++;
    return DHOW_OK;
}

static int is_plugin_file(const struct dirent *entry) {
    size_t length = strlen(entry->d_name);
    return length > strlen("libdhow_.so") && strncmp(entry->d_name, "libdhow_", 8) == 0 &&
           strcmp(entry->d_name + length - 3, ".so") == 0;
}
static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* A folder is searched once, under whatever paths it is named. `what` asks for it: NULL where it
 * need not be there. */
static dhow_status search_folder(dhowi_registry *registry, const char *folder, const char *what) {
    struct dirent **entries = NULL;
    struct stat info = {0};
    if (stat(folder, &info) == 0 && folder_known(registry, &info)) return DHOW_OK;
    int count = scandir(folder, &entries, is_plugin_file, by_name);
    if (count < 0) {
        if (what != NULL)
            dhowi_log_line(registry->log, DHOW_LOG_WARN, "%s: plugin folder %s: %s", what, folder,
                           strerror(errno));
        return DHOW_OK;
    }
    dhow_status status = DHOW_OK;
    if (count == 0 && what != NULL)
        dhowi_log_line(registry->log, DHOW_LOG_WARN, "%s: plugin folder %s: no libdhow_*.so in it",
                       what, folder);
    for (int i = 0; i < count; i++) {
        const char *file = entries[i]->d_name;
        if (status == DHOW_OK) {
            status =
                add_candidate(registry, folder, &info, file, strlen(file) - strlen("libdhow_.so"));
        }
        (free)(entries[i]); /* scandir's own memory */
    }
    (free)(entries);
    return status;
}

static dhow_status search_path(dhowi_registry *registry, const char *path, const char *what) {
    while (path != NULL && path[0] != '\0') {
        const char *end = strchrnul(path, ':');
        size_t length = (size_t)(end - path);
        char folder[PATH_MAX];
        int shown = (int)DHOWI_MIN(length, 200);
        if (length > 0 && path[0] != '/') {
            return dhowi_fail(
                DHOW_INVALID_ARGUMENT,
                "%s: '%.*s' is no absolute path; plugin folders are absolute and separated by ':'",
                what, shown, path);
        }
        if (length >= sizeof folder) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: '%.*s...' has %zu bytes, %zu are the most", what, shown, path,
                              length, sizeof folder - 1);
        }
        if (length > 0) {
            memcpy(folder, path, length);
            folder[length] = '\0';
            DHOWI_TRY(search_folder(registry, folder, what));
        }
        path = *end == ':' ? end + 1 : end;
    }
    return DHOW_OK;
}

/* The folder libdhow.so lies in. */
static bool own_folder(char *folder, size_t capacity) {
    Dl_info info;
    char *resolved = NULL;
    if (dladdr((const void *)(uintptr_t)&dhowi_registry_init, &info) == 0 || info.dli_fname == NULL)
        return false;
    resolved = realpath(info.dli_fname, NULL);
    if (resolved == NULL) return false;
    char *slash = strrchr(resolved, '/');
    if (slash != NULL) *slash = '\0';
    bool fits = slash != NULL && dhowi_copy_text(folder, capacity, resolved);
    (free)(resolved); /* realpath's own memory */
    return fits;
}

static void find_probe_program(dhowi_registry *registry, const char *own) {
    dhowi_text text = DHOWI_TEXT(registry->probe_program);
    if (own != NULL) {
        dhowi_text_add(&text, "%s/../libexec/dhow-probe", own);
        if (access(registry->probe_program, X_OK) == 0) return;
    }
    (void)dhowi_copy_text(registry->probe_program, sizeof registry->probe_program,
                          DHOWI_LIBEXEC_DIR "/dhow-probe");
}

/* ---- loading ---- */

/* The plugin that has the name already, or NULL. */
static const dhowi_plugin *backend_taken(const dhowi_registry *registry,
                                         const dhowi_plugin *plugin) {
    for (uint32_t i = 0; i < registry->count; i++) {
        const dhowi_plugin *p = &registry->plugins[i];
        if (p != plugin && p->taken && dhowi_plugin_serves(p) &&
            strcmp(p->backend, plugin->backend) == 0)
            return p;
    }
    return NULL;
}

static bool is_duplicate(const dhowi_registry *registry, dhowi_plugin *p) {
    const dhowi_plugin *first = backend_taken(registry, p);
    if (first == NULL) return false;
    dhowi_plugin_set_state(p, DHOW_PLUGIN_DUPLICATE,
                           "remove one of the two, or name its folder first in DHOW_PLUGIN_PATH",
                           "an earlier plugin is the backend '%s': %s", p->backend, first->path);
    return true;
}

static void take_in(dhowi_registry *registry, dhowi_plugin *p) {
    const char *filter = registry->filter;
    bool isolate =
        p->built_in == NULL && (registry->isolate || p < registry->plugins + registry->third_party);
    p->taken = true;
    if (p->state == DHOW_PLUGIN_DUPLICATE) return;
    if (!dhowi_backends_keep(filter, p->backend)) {
        dhowi_plugin_set_state(p, DHOW_PLUGIN_DISABLED, "change DHOW_BACKENDS to use it",
                               "DHOW_BACKENDS=%s leaves it out", filter);
        return;
    }
    if (is_duplicate(registry, p) || dhowi_plugin_forked(p)) return;
    if (isolate) {
        dhowi_plugin_probe_isolated(p, registry->probe_program, &registry->host);
    } else {
        dhowi_plugin_load(p);
        if (p->state == DHOW_PLUGIN_READY) dhowi_plugin_probe(p, &registry->host);
    }
    if (p->state == DHOW_PLUGIN_READY) (void)is_duplicate(registry, p);
    if (p->state == DHOW_PLUGIN_READY && !dhowi_backends_keep(filter, p->backend)) {
        dhowi_plugin_set_state(p, DHOW_PLUGIN_DISABLED, "change DHOW_BACKENDS to use it",
                               "DHOW_BACKENDS=%s leaves the backend '%s' out", filter, p->backend);
    }
    if (p->state == DHOW_PLUGIN_READY) {
        dhowi_plugin_open(p, &registry->host);
    } else {
        dhowi_plugin_forget_devices(p); /* reported by an isolated probe */
    }
    dhowi_log_line(registry->log, DHOW_LOG_DEBUG, "plugin %s: %s", p->path,
                   p->state == DHOW_PLUGIN_READY ? "ready" : p->reason);
}

dhow_status dhowi_registry_init(dhowi_registry *registry, const dhowi_discovery *how,
                                const dhowi_log *log, dhowi_disk_cache *cache) {
    memset(registry, 0, sizeof *registry);
    registry->log = log;
    registry->cache = cache;
    registry->host = (dhow_host){.struct_size = (uint32_t)sizeof registry->host,
                                 .minor = DHOW_PLUGIN_MINOR,
                                 .user = registry,
                                 .log = host_log,
                                 .alloc = host_alloc,
                                 .free = host_free,
                                 .env = host_env,
                                 .cache_load = host_cache_load,
                                 .cache_store = host_cache_store,
                                 .cpu_threads = how->cpu_threads,
                                 .memory = host_memory};
    char own[PATH_MAX - 32], folder[PATH_MAX];
    bool secure = getauxval(AT_SECURE) != 0, has_own = !secure && own_folder(own, sizeof own);
    find_probe_program(registry, has_own ? own : NULL);
    /* What the program itself says counts in secure mode too; dhowi_env() gives nothing there. */
    DHOWI_TRY(search_path(registry, how->plugin_path, "plugin_path"));
    DHOWI_TRY(search_path(registry, dhowi_env("DHOW_PLUGIN_PATH"), "DHOW_PLUGIN_PATH"));
    registry->third_party = registry->count;
    if (dhowi_built_in_at(0) != NULL) {
        DHOWI_TRY(add_built_in(registry)); /* what is on the machine is another dhow's */
    } else {
        if (has_own) {
            (void)snprintf(folder, sizeof folder, "%s/dhow/plugins", own);
            DHOWI_TRY(search_folder(registry, folder, NULL));
        }
        DHOWI_TRY(search_folder(registry, DHOWI_PLUGIN_DIR, NULL));
    }
    DHOWI_TRY(dhowi_backends_check(how->backends, registry));
    registry->isolate = how->isolate;
    if (how->backends != NULL) {
        registry->filter = dhowi_strdup(how->backends);
        if (registry->filter == NULL) return dhowi_fail_memory("DHOW_BACKENDS");
    }
    for (uint32_t i = 0; i < registry->count; i++) {
        if (strcmp(registry->plugins[i].backend, "cpu") == 0)
            take_in(registry, &registry->plugins[i]);
    }
    return DHOW_OK;
}

void dhowi_registry_take_rest(dhowi_registry *registry) {
    for (uint32_t i = 0; i < registry->count; i++)
        if (!registry->plugins[i].taken) take_in(registry, &registry->plugins[i]);
}

void dhowi_registry_fini(dhowi_registry *registry) {
    for (uint32_t i = 0; i < registry->count; i++) dhowi_plugin_close(&registry->plugins[i]);
    dhowi_free(registry->plugins);
    dhowi_free(registry->filter);
    registry->plugins = NULL;
    registry->filter = NULL;
    registry->count = 0;
}
