/* SPDX-License-Identifier: Apache-2.0
 *
 * The caching allocator: per device one pool of device memory and one of pinned host memory. Blocks
 * come in size classes of eight steps to a doubling, so at most an eighth of a block is unused. A
 * freed block keeps its hazard timepoints: work that follows on the same stream uses it at once,
 * work elsewhere waits for the old work first.
 */
#include "memory/pool.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/errors/planted.h"
#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "memory/sink.h"

enum { SMALLEST_SHIFT = 9 };

/* ---- size classes: up to 512 bytes in steps of 64, then eight to a doubling ---- */

static bool classify(uint64_t bytes, uint32_t *out_class, uint64_t *out_block) {
    if (bytes == 0) bytes = 1;
    if (bytes > (UINT64_C(1) << 46)) return false;
    if (bytes <= 512) {
        *out_class = (uint32_t)((bytes + 63) / 64 - 1);
        *out_block = (*out_class + 1) * UINT64_C(64);
        return true;
    }
    uint32_t shift = 63 - (uint32_t)__builtin_clzll(bytes - 1); /* 2^shift < bytes <= 2^(shift+1) */
    uint64_t step = UINT64_C(1) << (shift - 3);
    uint64_t steps = (bytes - (UINT64_C(1) << shift) + step - 1) / step; /* 1 to 8 */
    *out_class = (shift - SMALLEST_SHIFT + 1) * 8 + (uint32_t)steps - 1;
    *out_block = (UINT64_C(1) << shift) + steps * step;
    return true;
}

/* ---- allocation ---- */

/* Counts the block before the driver is asked for it: what another thread asks for meanwhile comes
 * on top. False where the limit does not allow it. */
static bool reserve(dhowi_pool *pool, uint64_t block) {
    pthread_mutex_lock(&pool->mutex);
    bool within = pool->limit == 0 || pool->reserved + block <= pool->limit;
    if (within && !dhowi_planted("a block counts when it is there")) pool->reserved += block;
    pthread_mutex_unlock(&pool->mutex);
    return within;
}

static void count_block(dhowi_pool *pool, uint64_t block, bool taken) {
    pthread_mutex_lock(&pool->mutex);
    if (taken && dhowi_planted("a block counts when it is there")) pool->reserved += block;
    if (taken) {
        pool->driver_calls++;
        pool->reserved_peak = DHOWI_MAX(pool->reserved_peak, pool->reserved);
    } else {
        pool->reserved -= block;
    }
    pthread_mutex_unlock(&pool->mutex);
}

/* A block from the driver; on shortage the cache is given back and the driver asked once more. */
static dhow_status take_from_driver(dhowi_pool *pool, uint64_t bytes, uint64_t block,
                                    uint64_t *out_native) {
    dhow_error err;
    if (!reserve(pool, block)) {
        dhowi_pool_trim(pool);
        if (!reserve(pool, block)) return dhowi_pool_limited(pool, bytes);
    }
    dhow_status status = dhowi_pool_driver_alloc(pool, block, out_native, &err);
    if (status == DHOW_OUT_OF_MEMORY) {
        dhowi_pool_trim(pool);
        status = dhowi_pool_driver_alloc(pool, block, out_native, &err);
    }
    count_block(pool, block, status == DHOW_OK);
    if (status == DHOW_OUT_OF_MEMORY) return dhowi_pool_exhausted(pool, bytes, err.message);
    if (status != DHOW_OK) {
        return dhowi_device_failed(pool->device, &err, (int32_t)status,
                                   pool->pinned ? "pinning host memory" : "allocating memory");
    }
    return DHOW_OK;
}

static dhow_status new_block(dhowi_pool *pool, uint64_t bytes, uint64_t block,
                             dhowi_storage **out) {
    dhowi_storage *s = dhowi_handle_new(DHOWI_STORAGE, sizeof *s);
    if (s == NULL) return dhowi_fail_memory("storage");
    dhow_status status = take_from_driver(pool, bytes, block, &s->native);
    if (status != DHOW_OK) {
        dhowi_handle_free(DHOWI_STORAGE, s);
        return status;
    }
    s->pool = pool;
    s->block_bytes = block;
    s->device = pool->pinned ? pool->device->context->cpu : pool->device;
    s->pinned_by = pool->pinned ? pool->device : NULL;
    s->host = dhowi_device_is_host(s->device) ? (void *)(uintptr_t)s->native : NULL;
    atomic_flag_clear(&s->hazard.lock);
    *out = s;
    return DHOW_OK;
}

/* Under the pool's mutex: a cached block, or NULL. Of the first few, one that the stream which this
 * thread has worked with last, and so most likely works with next, need not wait for. */
static dhowi_storage *choose_cached(const dhowi_pool *pool, uint32_t size_class) {
    enum { LOOKED_AT = 8 };
    dhowi_timepoint pending[DHOWI_MAX_PENDING];
    dhowi_storage *s = pool->cached[size_class];
    if (s == NULL || atomic_load_explicit(&s->hazard.sole_user, memory_order_relaxed) == NULL)
        return s;
    for (int i = 0; i < LOOKED_AT && s != NULL; i++, s = s->next) {
        if (dhowi_hazard_pending(&s->hazard, DHOW_ACCESS_WRITE, dhowi_last_timeline, pending) == 0)
            return s;
    }
    return pool->cached[size_class];
}

/* Under the mutex; the bytes that are live now. */
static uint64_t make_live(dhowi_pool *pool, dhowi_storage *s, uint64_t bytes) {
    s->bytes = bytes;
    dhowi_pool_push(&pool->live, s);
    pool->allocations++;
    pool->live_bytes += bytes;
    pool->live_peak = DHOWI_MAX(pool->live_peak, pool->live_bytes);
    return pool->live_bytes;
}

/* A cached block of a class, or NULL. */
static dhowi_storage *reuse(dhowi_pool *pool, uint32_t size_class, uint64_t block, uint64_t bytes,
                            uint64_t *live) {
    pthread_mutex_lock(&pool->mutex);
    dhowi_storage *s = choose_cached(pool, size_class);
    if (s != NULL) {
        dhowi_pool_take(&pool->cached[size_class], s);
        pool->cached_bytes -= block;
        atomic_store_explicit(&s->handle.references, 1, memory_order_relaxed);
        *live = make_live(pool, s, bytes);
    }
    pthread_mutex_unlock(&pool->mutex);
    if (s != NULL && dhowi_planted("a cached block is free at once")) {
        s->hazard.user_count = 0;
        atomic_store(&s->hazard.sole_user, NULL);
    }
    return s;
}

static dhow_status allocate(dhowi_pool *pool, uint64_t bytes, dhowi_storage **out) {
    uint32_t size_class = 0;
    uint64_t block = 0, live = 0;
    const uint64_t guard = pool->device->context->validate ? DHOWI_GUARD_BYTES : 0;
    if (bytes > UINT64_MAX - guard || !classify(bytes + guard, &size_class, &block))
        return dhowi_pool_exhausted(pool, bytes, "more than 64 TiB");
    dhowi_storage *s = reuse(pool, size_class, block, bytes, &live);
    if (s == NULL) {
        DHOWI_TRY(new_block(pool, bytes, block, &s));
        pthread_mutex_lock(&pool->mutex);
        live = make_live(pool, s, bytes);
        pthread_mutex_unlock(&pool->mutex);
    }
    dhowi_handle_retain(&pool->device->context->handle);
    dhowi_pool_trace(pool, live);
    *out = s;
    return DHOW_OK;
}

dhow_status dhowi_storage_create(dhow_device *device, uint64_t bytes, dhowi_storage **out) {
    dhowi_sink *sink = dhowi_thread_sink;
    if (sink != NULL && sink->device == device) return sink->storage(sink, bytes, out);
    *out = NULL;
    DHOWI_TRY(dhowi_device_open(device));
    dhowi_device_memory *m = dhowi_memory_of(device);
    return m == NULL ? DHOW_OUT_OF_MEMORY : allocate(&m->memory, bytes, out);
}

dhow_status dhowi_storage_create_pinned(dhow_device *device, uint64_t bytes, dhowi_storage **out) {
    *out = NULL;
    DHOWI_TRY(dhowi_device_open(device));
    if (dhowi_device_is_host(device)) return dhowi_storage_create(device, bytes, out);
    dhowi_device_memory *m = dhowi_memory_of(device);
    return m == NULL ? DHOW_OUT_OF_MEMORY : allocate(&m->pinned, bytes, out);
}

dhow_status dhowi_storage_wrap(dhow_context *context, void *data, uint64_t bytes,
                               void (*release)(void *user), void *user, dhowi_storage **out) {
    static _Alignas(64) char nothing[64];
    *out = NULL;
    DHOWI_TRY(dhowi_device_open(context->cpu));
    dhowi_storage *s = dhowi_handle_new(DHOWI_STORAGE, sizeof *s);
    if (s == NULL) return dhowi_fail_memory("storage");
    s->device = context->cpu;
    s->host = data != NULL ? data : nothing; /* NULL would be memory of a device */
    s->native = (uint64_t)(uintptr_t)s->host;
    s->bytes = s->block_bytes = bytes;
    s->release = release;
    s->user = user;
    atomic_flag_clear(&s->hazard.lock);
    dhowi_handle_retain(&context->handle);
    *out = s;
    return DHOW_OK;
}

static void end_companions(dhowi_storage *s) {
    if (s->packed_forms == NULL) return;
    DHOWI_KEEP_ERROR;
    while (s->packed_forms != NULL) {
        dhowi_packed_form *c = s->packed_forms;
        s->packed_forms = c->next;
        dhowi_storage_release(c->storage);
        dhowi_free(c);
    }
}

static void end_wrapped(dhowi_storage *s) {
    DHOWI_KEEP_ERROR;
    /* The memory is somebody else's: no work may use it any more. */
    (void)dhowi_hazard_wait(&s->hazard, DHOW_ACCESS_WRITE);
    if (s->unwrap != NULL) s->unwrap(dhowi_device_native(s->device), s->native);
    if (s->release != NULL) s->release(s->user);
    dhowi_handle_free(DHOWI_STORAGE, s);
}

static void back_to_pool(dhowi_storage *s) {
    dhowi_pool *pool = s->pool;
    uint32_t size_class = 0;
    uint64_t block = 0;
    (void)classify(s->block_bytes, &size_class, &block);
    s->label[0] = '\0';
    /* The next one to see the block takes it under the pool's mutex. */
    atomic_store_explicit(&s->frozen, false, memory_order_relaxed);
    atomic_store_explicit(&s->exported, false, memory_order_relaxed);
    atomic_store_explicit(&s->lent, false, memory_order_relaxed);
    dhowi_storage_written(s); /* whatever was missing there */
    pthread_mutex_lock(&pool->mutex);
    dhowi_pool_take(&pool->live, s);
    pool->live_bytes -= s->bytes;
    pool->cached_bytes += s->block_bytes;
    dhowi_pool_push(&pool->cached[size_class], s);
    uint64_t live = pool->live_bytes;
    pthread_mutex_unlock(&pool->mutex);
    dhowi_pool_trace(pool, live);
}

void dhowi_storage_release(dhowi_storage *s) {
    if (!dhowi_handle_drop(&s->handle)) return;
    dhow_context *context = s->device->context;
    end_companions(s);
    bool forked = s->device->fork_generation != dhowi_fork_generation();
    if (!forked) dhowi_storage_unpin(s);
    if (s->pool != NULL) {
        if (!forked) back_to_pool(s);
    } else if (!forked) {
        end_wrapped(s);
    }
    dhowi_context_drop(context);
}

_Static_assert((uint64_t)DHOWI_BACKGROUND_TIMELINES << DHOWI_TICKET_SHIFT <= DHOWI_VALUES_MISSING,
               "a ticket leaves the bits of storages alone");

dhow_status dhowi_storage_ask(dhowi_storage *s, bool ended) {
    uint64_t word = atomic_load_explicit(&s->staged_write, memory_order_acquire);
    if ((word & DHOWI_VALUES_MISSING) != 0)
        return dhowi_fail(DHOW_INTERNAL, "%s: values are read that have not been made",
                          s->device->name);
    if ((word & DHOWI_COPY_FAILED) == 0) return dhowi_storage_check_origins(s, ended);
    dhowi_timepoint copy = dhowi_ticket_mark(s->device->context, word);
    DHOWI_TRY(copy.timeline->wait(copy.timeline, copy.number));
    return dhowi_fail(DHOW_CANCELLED, "%s: an earlier copy into this tensor failed",
                      s->device->name); /* too long ago to know why */
}

/* ---- values that can be made again ---- */

_Thread_local const dhowi_values_maker *dhowi_values_maker_of_thread;

void dhowi_storage_expect(dhowi_storage *s) {
    atomic_store_explicit(&s->staged_write, DHOWI_VALUES_MISSING, memory_order_release);
}

void dhowi_storage_shed(dhowi_storage *s) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)s->host,
                    end = begin + (uintptr_t)s->bytes;
    uintptr_t from = (begin + page - 1) / page * page, to = end / page * page;
    if (s->pool == NULL || s->host == NULL || s->pinned_by != NULL || s->registered ||
        s->device != s->device->context->cpu || dhowi_storage_is_missing(s) ||
        atomic_load_explicit(&s->lent, memory_order_relaxed))
        return;
    if (from >= to) from = to = end; /* no whole page */
    if (from < to && madvise((void *)from, to - from, MADV_DONTNEED) != 0) return;
    /* What is left at the ends is no number: nobody takes it for one by mistake. */
    memset(s->host, 0xff, from - begin);
    memset((void *)to, 0xff, end - to);
    dhowi_storage_expect(s);
}
