/* SPDX-License-Identifier: Apache-2.0
 *
 * The pools of a device, for the files of this folder.
 */
#ifndef DHOWI_MEMORY_POOL_H_
#define DHOWI_MEMORY_POOL_H_

#include "memory/storage.h"

enum { DHOWI_SIZE_CLASSES = 8 * 48 };

struct dhowi_pool {
    dhow_device *device;
    bool pinned;
    pthread_mutex_t mutex;
    dhowi_storage *cached[DHOWI_SIZE_CLASSES];
    dhowi_storage *live;
    uint64_t live_bytes, live_peak, reserved, reserved_peak, cached_bytes;
    uint64_t limit, allocations, driver_calls;
};

typedef struct dhowi_device_memory {
    dhowi_pool memory, pinned;
    _Atomic int64_t staging;
    _Atomic int64_t registered; /* host memory pinned in place */
} dhowi_device_memory;

/* Lists of storages, under the pool's mutex. */
void dhowi_pool_push(dhowi_storage **list, dhowi_storage *s);
void dhowi_pool_take(dhowi_storage **list, dhowi_storage *s);
/* Tells a trace of the live bytes. */
void dhowi_pool_trace(const dhowi_pool *pool, uint64_t live);
/* Memory of the driver, and back. */
dhow_status dhowi_pool_driver_alloc(dhowi_pool *pool, uint64_t bytes, uint64_t *out_native,
                                    dhow_error *err);
/* Gives what is cached back to the driver. */
void dhowi_pool_trim(dhowi_pool *pool);
/* The pools of a device, made on first use; NULL with an error. */
dhowi_device_memory *dhowi_memory_of(dhow_device *device);
/* OUT_OF_MEMORY with what was asked, what is there, and who holds it. */
dhow_status dhowi_pool_exhausted(dhowi_pool *pool, uint64_t bytes, const char *reason);
dhow_status dhowi_pool_limited(dhowi_pool *pool, uint64_t bytes);
/* When no work uses the memory any more. */
void dhowi_storage_unpin(dhowi_storage *s);

#endif /* DHOWI_MEMORY_POOL_H_ */
