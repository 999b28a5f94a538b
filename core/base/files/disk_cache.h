/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled kernels on disk: blobs by key. Entries carry magic, key and checksum and are written by
 * rename; a damaged or foreign one counts as absent. A cache that cannot be used is a warning,
 * once, and never fails a computation. Where a new entry makes it larger than its limit, those that
 * were not used for longest are removed; so is what a killed writer left more than a day ago.
 */
#ifndef DHOWI_BASE_DISK_CACHE_H_
#define DHOWI_BASE_DISK_CACHE_H_

#include <stdatomic.h>
#include <stdbool.h>

#include "base/errors/error.h"
#include "base/errors/log.h"

#define DHOWI_DISK_CACHE_BYTES (UINT64_C(1) << 30)

typedef struct dhowi_disk_cache {
    char folder[3072]; /* "" when switched off */
    bool homeless;     /* "" because nothing says where it is to be */
    const dhowi_log *log;
    atomic_bool warned;
} dhowi_disk_cache;

/* `folder` as DHOW_CACHE_DIR; NULL takes $XDG_CACHE_HOME/dhow or ~/.cache/dhow. INVALID_ARGUMENT
 * for a relative path. */
dhow_status dhowi_disk_cache_init(dhowi_disk_cache *cache, const char *folder,
                                  const dhowi_log *log);
/* NOT_FOUND when there is none; the blob is freed with dhowi_free(). */
dhow_status dhowi_disk_cache_load(dhowi_disk_cache *cache, const char *key, void **out_blob,
                                  uint64_t *out_bytes);
dhow_status dhowi_disk_cache_store(dhowi_disk_cache *cache, const char *key, const void *blob,
                                   uint64_t bytes);

#endif /* DHOWI_BASE_DISK_CACHE_H_ */
