/* SPDX-License-Identifier: Apache-2.0
 *
 * The caching allocator: per device one pool of device memory and one of pinned host memory. Blocks
 * come in size classes of eight steps to a doubling, so at most an eighth of a block is unused. A
 * freed block keeps its hazard marks: work that follows on the same stream uses it at once, work
 * elsewhere waits for the old work first.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/errors/planted.h"
#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "base/text/text.h"
#include "memory/sink.h"

enum { SMALLEST_SHIFT = 9, CLASSES = 8 * 48 };

struct dhowi_pool {
    dhow_device *device;
    bool pinned;
    pthread_mutex_t mutex;
    dhowi_storage *cached[CLASSES];
    dhowi_storage *live;
    uint64_t live_bytes, live_peak, reserved, reserved_peak, cached_bytes;
    uint64_t limit, allocations, driver_calls;
};

typedef struct device_memory {
    dhowi_pool memory, pinned;
    _Atomic int64_t staging;
    _Atomic int64_t registered; /* host memory pinned in place */
} device_memory;

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

/* ---- lists, under the pool's mutex ---- */

static void push(dhowi_storage **list, dhowi_storage *s) {
    s->previous = NULL;
    s->next = *list;
    if (*list != NULL) (*list)->previous = s;
    *list = s;
}
static void take(dhowi_storage **list, dhowi_storage *s) {
    if (s->previous != NULL) s->previous->next = s->next;
    if (s->next != NULL) s->next->previous = s->previous;
    if (*list == s) *list = s->next;
}

/* ---- the driver ---- */

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
static inline void trace_live(const dhowi_pool *pool, uint64_t live) {
    if (dhowi_tracing(pool->device->context)) record_live(pool, live);
}

static dhow_status driver_alloc(dhowi_pool *pool, uint64_t bytes, uint64_t *out_native,
                                dhow_error *err) {
    const dhow_plugin *api = pool->device->api;
    void *native = dhowi_device_native(pool->device), *host = NULL;
    dhowi_error_init(err);
    int32_t code = pool->pinned ? api->host_alloc(native, bytes, &host, err)
                                : api->mem_alloc(native, bytes, out_native, err);
    if (pool->pinned) *out_native = (uint64_t)(uintptr_t)host;
    return dhowi_error_take(err, code);
}

static void driver_free(dhowi_pool *pool, uint64_t handle) {
    void *native = dhowi_device_native(pool->device);
    if (pool->pinned) {
        pool->device->api->host_free(native, (void *)(uintptr_t)handle);
    } else {
        pool->device->api->mem_free(native, handle);
    }
}

/* Gives every cached block back. Failures of the work that still used one belong to whoever syncs
 * its stream. */
static void trim(dhowi_pool *pool) {
    dhowi_storage *all = NULL;
    pthread_mutex_lock(&pool->mutex);
    for (uint32_t c = 0; c < CLASSES; c++) {
        while (pool->cached[c] != NULL) {
            dhowi_storage *s = pool->cached[c];
            take(&pool->cached[c], s);
            push(&all, s);
            pool->cached_bytes -= s->block_bytes;
            pool->reserved -= s->block_bytes;
        }
    }
    pthread_mutex_unlock(&pool->mutex);
    while (all != NULL) {
        dhowi_storage *s = all;
        take(&all, s);
        (void)dhowi_hazard_wait(&s->hazard, DHOW_ACCESS_WRITE);
        driver_free(pool, s->native);
        dhowi_handle_free(DHOWI_STORAGE, s);
    }
}

/* ---- pools ---- */

static void init_pool(dhowi_pool *pool, dhow_device *device, bool pinned) {
    pool->device = device;
    pool->pinned = pinned;
    pthread_mutex_init(&pool->mutex, NULL);
}

static void *make_memory(dhow_device *device) {
    device_memory *m = dhowi_alloc(sizeof *m);
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
    device_memory *m = data;
    trim(&m->memory);
    trim(&m->pinned);
    pthread_mutex_destroy(&m->memory.mutex);
    pthread_mutex_destroy(&m->pinned.mutex);
    dhowi_free(m);
}

static device_memory *memory_of(dhow_device *device) {
    return dhowi_device_attach(device, DHOWI_ATTACH_MEMORY, make_memory, end_memory);
}

/* ---- out of memory ---- */

/* Live tensors of one label. */
typedef struct holder {
    const char *label;
    uint64_t bytes, count;
} holder;

enum { MAX_HOLDERS = 64, TOLD_HOLDERS = 3 };

/* Under the pool's mutex; labels beyond the first MAX_HOLDERS count together. */
static uint32_t find_holders(const dhowi_pool *pool, holder holders[MAX_HOLDERS]) {
    uint32_t count = 0;
    for (const dhowi_storage *s = pool->live; s != NULL; s = s->next) {
        uint32_t i = 0;
        while (i < count && strcmp(holders[i].label, s->label) != 0) i++;
        if (i == MAX_HOLDERS) i--;
        if (i == count) holders[count++] = (holder){.label = s->label};
        holders[i].bytes += s->bytes;
        holders[i].count++;
    }
    return count;
}

static void largest_holders(dhowi_pool *pool, dhowi_text *text) {
    holder holders[MAX_HOLDERS];
    pthread_mutex_lock(&pool->mutex);
    uint32_t count = find_holders(pool, holders);
    for (uint32_t told = 0; told < TOLD_HOLDERS && told < count; told++) {
        char bytes[32];
        holder *most = &holders[0];
        for (uint32_t i = 1; i < count; i++)
            if (holders[i].bytes > most->bytes) most = &holders[i];
        if (most->bytes == 0) break;
        dhowi_text_add(text, "%s%s%s%s %s", told == 0 ? "; largest holders: " : ", ",
                       most->label[0] != '\0' ? "'" : "",
                       most->label[0] != '\0' ? most->label : "tensors without a label",
                       most->label[0] != '\0' ? "'" : "",
                       dhowi_bytes_text(most->bytes, bytes, sizeof bytes));
        if (most->count > 1) dhowi_text_add(text, " in %" PRIu64, most->count);
        most->bytes = 0;
    }
    pthread_mutex_unlock(&pool->mutex);
}

static dhow_status say_out_of_memory(dhowi_pool *pool, uint64_t bytes, const char *reason) {
    char story[512], a[32], f[32], t[32], l[32];
    dhowi_text text = DHOWI_TEXT(story);
    dhow_device *device = pool->device;
    uint64_t free_bytes = 0, total = device->desc.memory_bytes;
    pthread_mutex_lock(&pool->mutex);
    const uint64_t live = pool->live_bytes;
    pthread_mutex_unlock(&pool->mutex);
    dhow_error err;
    dhowi_error_init(&err);
    bool known =
        device->api->mem_info(dhowi_device_native(device), &free_bytes, &total, &err) == DHOW_OK;
    dhowi_text_add(&text, "%s: %sout of memory: asked %s, free %s of %s, live tensors hold %s",
                   device->name, pool->pinned ? "pinned host memory: " : "",
                   dhowi_bytes_text(bytes, a, sizeof a),
                   known ? dhowi_bytes_text(free_bytes, f, sizeof f) : "unknown",
                   dhowi_bytes_text(total, t, sizeof t), dhowi_bytes_text(live, l, sizeof l));
    largest_holders(pool, &text);
    dhowi_text_add(&text, " (%s); release some of them, or take smaller batches or another device",
                   reason);
    return dhowi_fail(DHOW_OUT_OF_MEMORY, "%s", story);
}

static dhow_status say_limit(dhowi_pool *pool, uint64_t bytes) {
    char reason[96], l[32];
    dhowi_text text = DHOWI_TEXT(reason);
    pthread_mutex_lock(&pool->mutex);
    const uint64_t limit = pool->limit;
    pthread_mutex_unlock(&pool->mutex);
    dhowi_text_add(&text, "dhow_memory_set_limit() allows this device %s",
                   dhowi_bytes_text(limit, l, sizeof l));
    return say_out_of_memory(pool, bytes, reason);
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
        trim(pool);
        if (!reserve(pool, block)) return say_limit(pool, bytes);
    }
    dhow_status status = driver_alloc(pool, block, out_native, &err);
    if (status == DHOW_OUT_OF_MEMORY) {
        trim(pool);
        status = driver_alloc(pool, block, out_native, &err);
    }
    count_block(pool, block, status == DHOW_OK);
    if (status == DHOW_OUT_OF_MEMORY) return say_out_of_memory(pool, bytes, err.message);
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
    dhowi_mark pending[DHOWI_MAX_PENDING];
    dhowi_storage *s = pool->cached[size_class];
    if (s == NULL || atomic_load_explicit(&s->hazard.sole, memory_order_relaxed) == NULL) return s;
    for (int i = 0; i < LOOKED_AT && s != NULL; i++, s = s->next) {
        if (dhowi_hazard_pending(&s->hazard, DHOW_ACCESS_WRITE, dhowi_last_timeline, pending) == 0)
            return s;
    }
    return pool->cached[size_class];
}

static dhow_status allocate(dhowi_pool *pool, uint64_t bytes, dhowi_storage **out) {
    uint32_t size_class = 0;
    uint64_t block = 0;
    const uint64_t guard = pool->device->context->validate ? DHOWI_GUARD_BYTES : 0;
    if (bytes > UINT64_MAX - guard || !classify(bytes + guard, &size_class, &block))
        return say_out_of_memory(pool, bytes, "more than 64 TiB");
    pthread_mutex_lock(&pool->mutex);
    dhowi_storage *s = choose_cached(pool, size_class);
    if (s != NULL) {
        take(&pool->cached[size_class], s);
        pool->cached_bytes -= block;
    }
    pthread_mutex_unlock(&pool->mutex);
    if (s == NULL) {
        DHOWI_TRY(new_block(pool, bytes, block, &s));
    } else {
        atomic_store_explicit(&s->handle.references, 1, memory_order_relaxed);
        if (dhowi_planted("a cached block is free at once")) {
            s->hazard.user_count = 0;
            atomic_store(&s->hazard.sole, NULL);
        }
    }
    s->bytes = bytes;
    dhowi_handle_retain(&pool->device->context->handle);
    pthread_mutex_lock(&pool->mutex);
    push(&pool->live, s);
    pool->allocations++;
    pool->live_bytes += bytes;
    pool->live_peak = DHOWI_MAX(pool->live_peak, pool->live_bytes);
    uint64_t live = pool->live_bytes;
    pthread_mutex_unlock(&pool->mutex);
    trace_live(pool, live);
    *out = s;
    return DHOW_OK;
}

dhow_status dhowi_storage_create(dhow_device *device, uint64_t bytes, dhowi_storage **out) {
    dhowi_sink *sink = dhowi_thread_sink;
    if (sink != NULL && sink->device == device) return sink->storage(sink, bytes, out);
    *out = NULL;
    DHOWI_TRY(dhowi_device_open(device));
    device_memory *m = memory_of(device);
    return m == NULL ? DHOW_OUT_OF_MEMORY : allocate(&m->memory, bytes, out);
}

dhow_status dhowi_storage_create_pinned(dhow_device *device, uint64_t bytes, dhowi_storage **out) {
    *out = NULL;
    DHOWI_TRY(dhowi_device_open(device));
    if (dhowi_device_is_host(device)) return dhowi_storage_create(device, bytes, out);
    device_memory *m = memory_of(device);
    return m == NULL ? DHOW_OUT_OF_MEMORY : allocate(&m->pinned, bytes, out);
}

dhow_status dhowi_storage_wrap(dhow_context *context, void *data, uint64_t bytes,
                               void (*release)(void *user), void *user, dhowi_storage **out) {
    *out = NULL;
    DHOWI_TRY(dhowi_device_open(context->cpu));
    dhowi_storage *s = dhowi_handle_new(DHOWI_STORAGE, sizeof *s);
    if (s == NULL) return dhowi_fail_memory("storage");
    s->device = context->cpu;
    s->native = (uint64_t)(uintptr_t)data;
    s->host = data;
    s->bytes = s->block_bytes = bytes;
    s->release = release;
    s->user = user;
    atomic_flag_clear(&s->hazard.lock);
    dhowi_handle_retain(&context->handle);
    *out = s;
    return DHOW_OK;
}

static pthread_mutex_t g_pin_mutex = PTHREAD_MUTEX_INITIALIZER; /* pinning is rare and slow */

static dhow_status pin(dhowi_storage *s, dhow_device *device) {
    dhow_error err;
    dhowi_error_init(&err);
    if (s->pinned_by != NULL) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_tensor_pin: the memory is pinned by %s",
                          s->pinned_by->name);
    }
    if (dhowi_device_is_host(device) || s->bytes == 0) return DHOW_OK; /* nothing to gain */
    DHOWI_TRY(dhowi_device_open(device));
    device_memory *m = memory_of(device);
    if (m == NULL) return DHOW_OUT_OF_MEMORY;
    int32_t code = device->api->host_register(dhowi_device_native(device), s->host, s->bytes, &err);
    if (code != DHOW_OK) {
        dhow_status status = dhowi_device_failed(device, &err, code, "pinning memory in place");
        return status != DHOW_UNSUPPORTED
                   ? status
                   : dhowi_fail(status, "%.800s; dhow_tensor_create_pinned() makes memory that is",
                                dhow_last_error());
    }
    atomic_fetch_add(&m->registered, (int64_t)s->bytes);
    s->registered = true;
    s->pinned_by = device;
    return DHOW_OK;
}

dhow_status dhowi_storage_pin(dhowi_storage *s, dhow_device *device) {
    pthread_mutex_lock(&g_pin_mutex);
    dhow_status status = pin(s, device);
    pthread_mutex_unlock(&g_pin_mutex);
    return status;
}

/* When no work uses the memory any more. */
static void unpin(dhowi_storage *s) {
    dhow_error err;
    dhowi_error_init(&err);
    if (!s->registered) return;
    DHOWI_KEEP_ERROR;
    (void)dhowi_hazard_wait(&s->hazard, DHOW_ACCESS_WRITE);
    int32_t code =
        s->pinned_by->api->host_unregister(dhowi_device_native(s->pinned_by), s->host, &err);
    if (code != DHOW_OK) {
        dhowi_log_line(&s->device->context->log, DHOW_LOG_WARN, "%s: memory stays pinned: %s",
                       s->pinned_by->name, err.message);
    }
    atomic_fetch_sub(&memory_of(s->pinned_by)->registered, (int64_t)s->bytes);
    s->registered = false;
    s->pinned_by = NULL;
}

static void end_companions(dhowi_storage *s) {
    if (s->companions == NULL) return;
    DHOWI_KEEP_ERROR;
    while (s->companions != NULL) {
        dhowi_companion *c = s->companions;
        s->companions = c->next;
        dhowi_storage_release(c->storage);
        dhowi_free(c);
    }
}

static void end_wrapped(dhowi_storage *s) {
    DHOWI_KEEP_ERROR;
    /* The memory is somebody else's: no work may use it any more. */
    (void)dhowi_hazard_wait(&s->hazard, DHOW_ACCESS_WRITE);
    if (s->release != NULL) s->release(s->user);
    dhowi_handle_free(DHOWI_STORAGE, s);
}

static void back_to_pool(dhowi_storage *s) {
    dhowi_pool *pool = s->pool;
    uint32_t size_class = 0;
    uint64_t block = 0;
    (void)classify(s->block_bytes, &size_class, &block);
    s->label[0] = '\0';
    atomic_store(&s->frozen, false);
    atomic_store(&s->foreign, false);
    dhowi_storage_written(s); /* whatever was missing there */
    pthread_mutex_lock(&pool->mutex);
    take(&pool->live, s);
    pool->live_bytes -= s->bytes;
    pool->cached_bytes += s->block_bytes;
    push(&pool->cached[size_class], s);
    uint64_t live = pool->live_bytes;
    pthread_mutex_unlock(&pool->mutex);
    trace_live(pool, live);
}

void dhowi_storage_release(dhowi_storage *s) {
    if (!dhowi_handle_drop(&s->handle)) return;
    dhow_context *context = s->device->context;
    end_companions(s);
    bool forked = s->device->fork_generation != dhowi_fork_generation();
    if (!forked) unpin(s);
    if (s->pool != NULL) {
        if (!forked) back_to_pool(s);
    } else if (!forked) {
        end_wrapped(s);
    }
    dhowi_context_drop(context);
}

dhow_status dhowi_storage_readable(dhowi_storage *s, bool ended) {
    uint64_t word = atomic_load_explicit(&s->staged_write, memory_order_acquire);
    if ((word & DHOWI_COPY_FAILED) == 0) return dhowi_storage_check_origins(s, ended);
    dhowi_mark copy = dhowi_ticket_mark(s->device->context, word);
    DHOWI_TRY(copy.timeline->wait(copy.timeline, copy.number));
    return dhowi_fail(DHOW_CANCELLED, "%s: an earlier copy into this tensor failed",
                      s->device->name); /* too long ago to know why */
}

/* ---- companions ---- */

static pthread_mutex_t g_companion_mutex =
    PTHREAD_MUTEX_INITIALIZER; /* rarely taken: once per frozen weight and plan */

__attribute__((constructor)) static void guard(void) {
    dhowi_fork_guard(DHOWI_FORK_PINS, &g_pin_mutex, false);
    dhowi_fork_guard(DHOWI_FORK_COMPANIONS, &g_companion_mutex, false);
}

/* Shapes that vary ask for forms without end. */
enum { MOST_COMPANIONS = 12 };

/* Puts the form of a key first; NULL when there is none. */
static dhowi_companion *find_companion(dhowi_storage *s, uint64_t key) {
    for (dhowi_companion **p = &s->companions; *p != NULL; p = &(*p)->next) {
        dhowi_companion *c = *p;
        if (c->key != key) continue;
        *p = c->next;
        c->next = s->companions;
        s->companions = c;
        return c;
    }
    return NULL;
}

dhowi_storage *dhowi_storage_companion(dhowi_storage *s, uint64_t key) {
    pthread_mutex_lock(&g_companion_mutex);
    const dhowi_companion *c = find_companion(s, key);
    dhowi_storage *form = c != NULL ? c->storage : NULL;
    if (form != NULL) dhowi_storage_retain(form);
    pthread_mutex_unlock(&g_companion_mutex);
    return form;
}

/* Takes the one that was not asked for longest out of a list that is too long. */
static dhowi_companion *take_oldest(dhowi_storage *s) {
    dhowi_companion **p = &s->companions;
    for (int i = 0; i < MOST_COMPANIONS && *p != NULL; i++) p = &(*p)->next;
    dhowi_companion *c = *p;
    if (c != NULL) *p = c->next;
    return c;
}

dhow_status dhowi_storage_keep(dhowi_storage *s, uint64_t key, dhowi_storage *form,
                               dhowi_storage **out) {
    dhowi_companion *mine = dhowi_alloc(sizeof *mine), *gone = mine;
    if (mine == NULL) {
        dhowi_storage_release(form);
        return dhowi_fail_memory("packed weight");
    }
    *mine = (dhowi_companion){.key = key, .storage = form};
    pthread_mutex_lock(&g_companion_mutex);
    const dhowi_companion *c = find_companion(s, key);
    if (c == NULL) {
        mine->next = s->companions;
        s->companions = mine;
        c = mine;
        gone = take_oldest(s);
    }
    *out = c->storage;
    dhowi_storage_retain(*out);
    pthread_mutex_unlock(&g_companion_mutex);
    if (gone == NULL) return DHOW_OK;
    dhowi_storage_release(gone->storage);
    dhowi_free(gone);
    return DHOW_OK;
}

/* ---- the public side ---- */

void dhowi_memory_count_staging(dhow_device *device, int64_t bytes) {
    device_memory *m = memory_of(device);
    if (m != NULL) atomic_fetch_add(&m->staging, bytes);
}

dhow_status dhow_memory_get_stats(dhow_device *device, dhow_memory_stats *out) {
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_memory_get_stats: out is NULL");
    memset(out, 0, sizeof *out);
    DHOWI_TRY(dhowi_device_check(device, "dhow_memory_get_stats"));
    device_memory *m = memory_of(device);
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
    return DHOW_OK;
}

dhow_status dhow_memory_reset_peaks(dhow_device *device) {
    DHOWI_TRY(dhowi_device_check(device, "dhow_memory_reset_peaks"));
    device_memory *m = memory_of(device);
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
    device_memory *m = memory_of(device);
    if (m == NULL) return DHOW_OUT_OF_MEMORY;
    trim(&m->memory);
    trim(&m->pinned);
    return DHOW_OK;
}

dhow_status dhow_memory_set_limit(dhow_device *device, uint64_t limit_bytes) {
    DHOWI_TRY(dhowi_device_check(device, "dhow_memory_set_limit"));
    device_memory *m = memory_of(device);
    if (m == NULL) return DHOW_OUT_OF_MEMORY;
    pthread_mutex_lock(&m->memory.mutex);
    m->memory.limit = limit_bytes;
    pthread_mutex_unlock(&m->memory.mutex);
    return DHOW_OK;
}
