/* SPDX-License-Identifier: Apache-2.0
 *
 * The pools of a device, and the driver below them.
 */
#include "base/memory/alloc.h"
#include "memory/pool.h"

void dhowi_pool_push(dhowi_storage **list, dhowi_storage *s) {
    s->previous = NULL;
    s->next = *list;
    if (*list != NULL) (*list)->previous = s;
    *list = s;
}

void dhowi_pool_take(dhowi_storage **list, dhowi_storage *s) {
    if (s->previous != NULL) s->previous->next = s->next;
    if (s->next != NULL) s->next->previous = s->previous;
    if (*list == s) *list = s->next;
}

/* How a trace shows allocations: the live bytes of a device over time. */
static void record_live(const dhowi_pool *pool, uint64_t live) {
    const dhow_context *context = pool->device->context;
    if (pool->pinned) return;
    dhowi_trace_record *r = dhowi_trace_add(atomic_load(&context->trace), DHOWI_TRACE_MEMORY,
                                            (uint16_t)pool->device->place, "memory");
    if (r == NULL) return;
    r->begin = r->end = dhowi_trace_now();
    r->bytes = live;
    dhowi_trace_done(r);
}

void dhowi_pool_trace(const dhowi_pool *pool, uint64_t live) {
    if (dhowi_tracing(pool->device->context)) record_live(pool, live);
}

dhow_status dhowi_pool_driver_alloc(dhowi_pool *pool, uint64_t bytes, uint64_t *out_native,
                                    dhow_error *err) {
    const dhow_plugin *api = pool->device->api;
    void *native = dhowi_device_native(pool->device), *host = NULL;
    dhowi_error_init(err);
    int32_t code = pool->pinned ? api->host_alloc(native, bytes, &host, err)
                                : api->mem_alloc(native, bytes, out_native, err);
    if (pool->pinned) *out_native = (uint64_t)(uintptr_t)host;
    return dhowi_error_take(err, code);
}

static void dhowi_pool_driver_free(dhowi_pool *pool, uint64_t handle) {
    void *native = dhowi_device_native(pool->device);
    if (pool->pinned) {
        pool->device->api->host_free(native, (void *)(uintptr_t)handle);
    } else {
        pool->device->api->mem_free(native, handle);
    }
}

/* Gives every cached block back. Failures of the work that still used one belong to whoever syncs
 * its stream. */
void dhowi_pool_trim(dhowi_pool *pool) {
    dhowi_storage *all = NULL;
    pthread_mutex_lock(&pool->mutex);
    for (uint32_t c = 0; c < DHOWI_SIZE_CLASSES; c++) {
        while (pool->cached[c] != NULL) {
            dhowi_storage *s = pool->cached[c];
            dhowi_pool_take(&pool->cached[c], s);
            dhowi_pool_push(&all, s);
            pool->cached_bytes -= s->block_bytes;
            pool->reserved -= s->block_bytes;
        }
    }
    pthread_mutex_unlock(&pool->mutex);
    while (all != NULL) {
        dhowi_storage *s = all;
        dhowi_pool_take(&all, s);
        (void)dhowi_hazard_wait(&s->hazard, DHOW_ACCESS_WRITE);
        dhowi_pool_driver_free(pool, s->native);
        dhowi_handle_free(DHOWI_STORAGE, s);
    }
}

static void init_pool(dhowi_pool *pool, dhow_device *device, bool pinned) {
    pool->device = device;
    pool->pinned = pinned;
    pthread_mutex_init(&pool->mutex, NULL);
}

static void *make_memory(dhow_device *device) {
    dhowi_device_memory *m = dhowi_alloc(sizeof *m);
    if (m == NULL) {
        (void)dhowi_fail_memory("memory pool");
        return NULL;
    }
    init_pool(&m->memory, device, false);
    init_pool(&m->pinned, device, true);
    return m;
}

static void end_memory(void *device, void *data) {
    (void)device;
    dhowi_device_memory *m = data;
    dhowi_pool_trim(&m->memory);
    dhowi_pool_trim(&m->pinned);
    pthread_mutex_destroy(&m->memory.mutex);
    pthread_mutex_destroy(&m->pinned.mutex);
    dhowi_free(m);
}

dhowi_device_memory *dhowi_memory_of(dhow_device *device) {
    return dhowi_device_attach(device, DHOWI_ATTACH_MEMORY, make_memory, end_memory);
}
