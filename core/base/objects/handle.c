/* SPDX-License-Identifier: Apache-2.0
 *
 * See handle.h. One pool per kind: a list of slabs that only grows and a list of free objects, of
 * which the one that rests for longest is taken: a released one rests while RESTING others do, so
 * that its use is told and does not reach a newer object. Where the places of handles are kept,
 * more of them rest.
 */
#include "base/objects/handle.h"

#include <pthread.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "base/objects/call_sites.h"

enum { SLAB_OBJECTS = 64, RESTING = 32, RESTING_WITH_PLACES = 256 };

typedef struct free_object {
    dhowi_handle handle;
    struct free_object *next;
} free_object;

typedef struct slab {
    struct slab *next;
} slab;

typedef struct pool {
    pthread_mutex_t mutex;
    slab *slabs;              /* keeps them reachable for leak checkers */
    free_object *free, *last; /* the end of the list, where objects rest; NULL: not known */
    int64_t free_count;
    size_t stride; /* of the objects in a slab */
    int64_t live;
} pool;

#define POOL(name, text) {.mutex = PTHREAD_MUTEX_INITIALIZER},
static pool g_pools[DHOWI_HANDLE_KINDS] = {DHOWI_HANDLE_MAP(POOL)};
#undef POOL

static bool grow(pool *p, size_t bytes) {
    size_t stride;
    if (!dhowi_align_up(bytes, 64, &stride)) return false;
    char *memory = dhowi_alloc_aligned(64 + SLAB_OBJECTS * stride, 64);
    if (memory == NULL) return false;
    slab *s = (slab *)(void *)memory;
    s->next = p->slabs;
    p->slabs = s;
    p->stride = stride;
    for (size_t i = SLAB_OBJECTS; i-- > 0;) {
        free_object *object = (free_object *)(void *)(memory + 64 + i * stride);
        memset(object, 0, stride);
        object->next = p->free;
        p->free = object;
    }
    p->free_count += SLAB_OBJECTS;
    return true;
}

/* Under the mutex. Slabs that are added lie before what was released. */
static free_object *take(pool *p, size_t bytes) {
    const int64_t resting = dhowi_call_sites_kept() ? RESTING_WITH_PLACES : RESTING;
    if (p->free_count < resting) (void)grow(p, bytes);
    if (p->free == NULL && !grow(p, bytes)) return NULL;
    free_object *object = p->free;
    p->free = object->next;
    if (p->free == NULL) p->last = NULL;
    p->free_count--;
    p->live++;
    return object;
}

/* Under the mutex. */
static void give(pool *p, free_object *object) {
    p->live--;
    p->free_count++;
    object->next = NULL;
    if (p->free == NULL) {
        p->free = p->last = object;
        return;
    }
    if (p->last == NULL)
        for (p->last = p->free; p->last->next != NULL;) p->last = p->last->next;
    p->last->next = object;
    p->last = object;
}

void *dhowi_handle_new(dhowi_handle_kind kind, size_t bytes) {
    return dhowi_handle_new_keeping(kind, bytes, 0);
}

void *dhowi_handle_new_keeping(dhowi_handle_kind kind, size_t bytes, size_t kept) {
    pool *p = &g_pools[kind];
    pthread_mutex_lock(&p->mutex);
    free_object *object = take(p, bytes);
    pthread_mutex_unlock(&p->mutex);
    if (object == NULL) return NULL;
    /* Not the header: another thread may be looking at a released handle's magic. */
    size_t from = DHOWI_MAX(kept, sizeof(dhowi_handle));
    memset((char *)object + from, 0, bytes - from);
    atomic_store_explicit(&object->handle.references, 1, memory_order_relaxed);
    atomic_store_explicit(&object->handle.magic, DHOWI_MAGIC(kind), memory_order_release);
    if (dhowi_call_sites_kept()) dhowi_call_site_made(object);
    return object;
}

void dhowi_handle_end(void *memory) {
    free_object *object = memory;
    /* Only who took the last reference ends the object: a load and a store, no exchange. */
    if (atomic_load_explicit(&object->handle.magic, memory_order_relaxed) == 0) return;
    atomic_store_explicit(&object->handle.magic, 0, memory_order_relaxed);
    if (dhowi_call_sites_kept()) dhowi_call_site_released(object);
}

void dhowi_handle_free(dhowi_handle_kind kind, void *memory) {
    pool *p = &g_pools[kind];
    free_object *object = memory;
    dhowi_handle_end(object);
    pthread_mutex_lock(&p->mutex);
    give(p, object);
    pthread_mutex_unlock(&p->mutex);
}

int64_t dhowi_handle_live(dhowi_handle_kind kind) {
    pool *p = &g_pools[kind];
    pthread_mutex_lock(&p->mutex);
    int64_t live = p->live;
    pthread_mutex_unlock(&p->mutex);
    return live;
}

void dhowi_handle_each(dhowi_handle_kind kind, void (*fn)(void *user, const void *object),
                       void *user) {
    pool *p = &g_pools[kind];
    pthread_mutex_lock(&p->mutex);
    for (const slab *s = p->slabs; s != NULL; s = s->next) {
        for (size_t i = 0; i < SLAB_OBJECTS; i++) {
            const void *object = (const char *)s + 64 + i * p->stride;
            if (dhowi_handle_is(object, kind)) fn(user, object);
        }
    }
    pthread_mutex_unlock(&p->mutex);
}

int64_t dhowi_handle_slabs(void) {
    int64_t count = 0;
    for (int kind = 0; kind < DHOWI_HANDLE_KINDS; kind++) {
        pthread_mutex_lock(&g_pools[kind].mutex);
        for (const slab *s = g_pools[kind].slabs; s != NULL; s = s->next) count++;
        pthread_mutex_unlock(&g_pools[kind].mutex);
    }
    return count;
}

const char *dhowi_handle_kind_name(dhowi_handle_kind kind) {
#define NAME(name, text) text,
    static const char *const names[] = {DHOWI_HANDLE_MAP(NAME)};
#undef NAME
    return names[kind];
}

dhow_status dhowi_handle_reject(const void *object, dhowi_handle_kind kind, const char *function,
                                const char *name) {
    const char *text = dhowi_handle_kind_name(kind);
    if (object == NULL) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s is NULL, a %s is needed", function, name,
                          text);
    }
    char place[2 * DHOWI_CALL_SITE_BYTES] = "";
    if (dhowi_call_sites_kept()) (void)dhowi_call_site_text(object, place, sizeof place);
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "%s: %s is no live %s; was it released, or is it something else?%s", function,
                      name, text, place);
}

__attribute__((constructor)) static void guard_pools(void) {
    _Static_assert((int)DHOWI_HANDLE_KINDS <= DHOWI_FORK_PLACES - DHOWI_FORK_HANDLES,
                   "each pool has a place among the locks");
    for (int i = 0; i < DHOWI_HANDLE_KINDS; i++)
        dhowi_fork_guard((dhowi_fork_lock)(DHOWI_FORK_HANDLES + i), &g_pools[i].mutex, false);
}
