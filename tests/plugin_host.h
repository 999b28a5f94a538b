/* SPDX-License-Identifier: Apache-2.0
 *
 * What a host table is made of, for tests that drive a plugin, or parts of one, without the
 * library: memory of malloc(), the process's environment, no cache.
 */
#ifndef TESTS_PLUGIN_HOST_H_
#define TESTS_PLUGIN_HOST_H_

#include <stdio.h>
#include <stdlib.h>

#include "dhow/plugin.h"

static inline void plugin_host_log(void *user, int32_t level, const char *message) {
    (void)user;
    if (level <= DHOW_LOG_WARN) (void)fprintf(stderr, "%s\n", message);
}

static inline void *plugin_host_alloc(void *user, uint64_t bytes, uint64_t align) {
    (void)user;
    return aligned_alloc((size_t)align, (size_t)((bytes + align - 1) / align * align));
}

static inline void plugin_host_free(void *user, void *memory) {
    (void)user;
    free(memory);
}

static inline const char *plugin_host_env(void *user, const char *name) {
    (void)user;
    return getenv(name);
}

static inline int32_t plugin_host_no_load(void *user, const char *key, void **out_blob,
                                          uint64_t *out_bytes) {
    (void)user, (void)key;
    *out_blob = NULL;
    *out_bytes = 0;
    return DHOW_NOT_FOUND;
}

static inline int32_t plugin_host_no_store(void *user, const char *key, const void *blob,
                                           uint64_t bytes) {
    (void)user, (void)key, (void)blob, (void)bytes;
    return DHOW_OK;
}

static const dhow_host plugin_host = {.struct_size = sizeof(dhow_host),
                                      .log = plugin_host_log,
                                      .alloc = plugin_host_alloc,
                                      .free = plugin_host_free,
                                      .env = plugin_host_env,
                                      .cache_load = plugin_host_no_load,
                                      .cache_store = plugin_host_no_store,
                                      .cpu_threads = 1};

#endif /* TESTS_PLUGIN_HOST_H_ */
