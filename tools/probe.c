/* SPDX-License-Identifier: Apache-2.0
 *
 * dhow-probe PLUGIN.so THREADS: loads a plugin, asks it whether it works here and which devices it
 * has, and writes the answer to descriptor 3. THREADS is what the CPU may use. A plugin that
 * crashes, exits or hangs does it here and not in the program that wants to know.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "base/text/text.h"
#include "plugin/plugin.h"

static void *host_alloc(void *user, uint64_t bytes, uint64_t align) {
    (void)user;
    return dhowi_alloc_aligned((size_t)bytes, align < 16 ? 16 : (size_t)align);
}
static void host_free(void *user, void *memory) {
    (void)user;
    dhowi_free(memory);
}
static void host_log(void *user, int32_t level, const char *message) {
    (void)user, (void)level, (void)message;
}
static const char *host_env(void *user, const char *name) {
    (void)user;
    return dhowi_env(name);
}
static int32_t host_cache_load(void *user, const char *key, void **out_blob, uint64_t *out_bytes) {
    (void)user, (void)key;
    *out_blob = NULL;
    *out_bytes = 0;
    return DHOW_NOT_FOUND;
}
static int32_t host_cache_store(void *user, const char *key, const void *blob, uint64_t bytes) {
    (void)user, (void)key, (void)blob, (void)bytes;
    return DHOW_OK;
}

int main(int argc, char **argv) {
    static dhowi_plugin plugin;
    static dhow_host host = {.struct_size = (uint32_t)sizeof host,
                             .minor = DHOW_PLUGIN_MINOR,
                             .log = host_log,
                             .alloc = host_alloc,
                             .free = host_free,
                             .env = host_env,
                             .cache_load = host_cache_load,
                             .cache_store = host_cache_store,
                             .cpu_threads = 1};
    int64_t threads = 0;
    if (argc != 3 || !dhowi_parse_i64(argv[2], strlen(argv[2]), 1, 65536, &threads)) {
        (void)fprintf(stderr, "usage: dhow-probe PLUGIN.so THREADS 3>answer\n");
        return 2;
    }
    host.cpu_threads = (uint32_t)threads;
    if (!dhowi_copy_text(plugin.path, sizeof plugin.path, argv[1])) return 2;
    /* Out of the way of what the plugin may write there, or hand to programs it starts. */
    int answer = fcntl(3, F_DUPFD_CLOEXEC, 64);
    if (answer < 0) return 2;
    (void)close(3);
    dhowi_plugin_load(&plugin);
    if (plugin.state == DHOW_PLUGIN_READY) dhowi_plugin_probe(&plugin, &host);
    if (plugin.state == DHOW_PLUGIN_READY) dhowi_plugin_open(&plugin, &host);
    dhowi_plugin_print_answer(&plugin, answer);
    _exit(0); /* what the plugin registered to run at exit does not matter any more */
}
