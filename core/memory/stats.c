/* SPDX-License-Identifier: Apache-2.0
 *
 * Counting, trimming and limiting memory, see dhow/memory.h.
 */
#include <string.h>

#include "base/objects/struct_size.h"
#include "memory/pool.h"

void dhowi_memory_count_staging(dhow_device *device, int64_t bytes) {
    dhowi_device_memory *m = dhowi_memory_of(device);
    if (m != NULL) atomic_fetch_add(&m->staging, bytes);
}

dhow_status dhow_memory_get_stats(dhow_device *device, dhow_memory_stats *given) {
    dhow_memory_stats own, *out = &own;
    DHOWI_TRY(DHOWI_STRUCT_OUT(dhow_memory_stats, given, &own, "dhow_memory_get_stats"));
    DHOWI_TRY(dhowi_device_check(device, "dhow_memory_get_stats"));
    dhowi_device_memory *m = dhowi_memory_of(device);
    if (m == NULL) return DHOW_OUT_OF_MEMORY;
    dhowi_pool *pool = &m->memory;
    pthread_mutex_lock(&pool->mutex);
    out->live = pool->live_bytes;
    out->live_peak = pool->live_peak;
    out->reserved = pool->reserved;
    out->reserved_peak = pool->reserved_peak;
    out->cached = pool->cached_bytes;
    out->limit = pool->limit;
    out->allocations = pool->allocations;
    out->driver_calls = pool->driver_calls;
    pthread_mutex_unlock(&pool->mutex);
    out->staging = (uint64_t)atomic_load(&m->staging);
    pthread_mutex_lock(&m->pinned.mutex);
    out->pinned = m->pinned.live_bytes + out->staging + (uint64_t)atomic_load(&m->registered);
    pthread_mutex_unlock(&m->pinned.mutex);
    DHOWI_STRUCT_GIVE(given, out);
    return DHOW_OK;
}

dhow_status dhow_memory_reset_peaks(dhow_device *device) {
    DHOWI_TRY(dhowi_device_check(device, "dhow_memory_reset_peaks"));
    dhowi_device_memory *m = dhowi_memory_of(device);
    if (m == NULL) return DHOW_OUT_OF_MEMORY;
    pthread_mutex_lock(&m->memory.mutex);
    m->memory.live_peak = m->memory.live_bytes;
    m->memory.reserved_peak = m->memory.reserved;
    pthread_mutex_unlock(&m->memory.mutex);
    return DHOW_OK;
}

dhow_status dhow_memory_trim(dhow_device *device) {
    DHOWI_TRY(dhowi_device_check(device, "dhow_memory_trim"));
    DHOWI_TRY(dhowi_device_usable(device));
    dhowi_device_memory *m = dhowi_memory_of(device);
    if (m == NULL) return DHOW_OUT_OF_MEMORY;
    dhowi_context_forget_steps(device->context);
    dhowi_pool_trim(&m->memory);
    dhowi_pool_trim(&m->pinned);
    return DHOW_OK;
}

dhow_status dhow_memory_set_limit(dhow_device *device, uint64_t limit_bytes) {
    DHOWI_TRY(dhowi_device_check(device, "dhow_memory_set_limit"));
    dhowi_device_memory *m = dhowi_memory_of(device);
    if (m == NULL) return DHOW_OUT_OF_MEMORY;
    pthread_mutex_lock(&m->memory.mutex);
    m->memory.limit = limit_bytes;
    pthread_mutex_unlock(&m->memory.mutex);
    return DHOW_OK;
}
