/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles: the objects behind the opaque pointers of the API. Each begins with a dhowi_handle,
 * whose magic word tells a live object from NULL, another type or a released one. Their memory
 * comes from pools that are never unmapped, so that looking at a released handle is safe.
 */
#ifndef DHOWI_BASE_HANDLE_H_
#define DHOWI_BASE_HANDLE_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errors/error.h"
#include "base/threads/fork.h"

/* X(NAME, text) */
#define DHOWI_HANDLE_MAP(X)            \
    X(CONTEXT, "context")              \
    X(DEVICE, "device")                \
    X(STREAM, "stream")                \
    X(EVENT, "event")                  \
    X(GRAPH, "graph")                  \
    X(STORAGE, "storage")              \
    X(TENSOR, "tensor")                \
    X(MODULE, "module")                \
    X(KERNEL, "kernel")                \
    X(MODEL, "model")                  \
    X(SAFETENSORS, "safetensors file") \
    X(DATASET, "dataset")              \
    X(LOADER, "loader")                \
    X(SINK, "sink")                    \
    X(DATUM, "datum")                  \
    X(PARALLEL, "parallel")            \
    X(TRAINER, "trainer")

typedef enum dhowi_handle_kind {
#define DHOWI_HANDLE_ENUM_(name, text) DHOWI_##name,
    DHOWI_HANDLE_MAP(DHOWI_HANDLE_ENUM_) DHOWI_HANDLE_KINDS
#undef DHOWI_HANDLE_ENUM_
} dhowi_handle_kind;

typedef struct dhowi_handle {
    atomic_uint_least32_t magic;
    atomic_uint_least32_t references;
} dhowi_handle;

#define DHOWI_MAGIC(kind) (UINT32_C(0xd40e0000) + (uint32_t)(kind))

/* A zeroed object with one reference, or NULL. `bytes` is always the same for one kind. */
void *dhowi_handle_new(dhowi_handle_kind kind, size_t bytes);
/* The same, but the first `kept` bytes stay as the last object left them; a first object has
 * zeros. */
void *dhowi_handle_new_keeping(dhowi_handle_kind kind, size_t bytes, size_t kept);
/* Gives the object back to its pool. */
/* Ends the handle and keeps its memory for a while, until dhowi_handle_free(). */
void dhowi_handle_end(void *object);
void dhowi_handle_free(dhowi_handle_kind kind, void *object);
/* Living objects of a kind. For tests and DHOW_VALIDATE. */
int64_t dhowi_handle_live(dhowi_handle_kind kind);
/* Calls fn for each of them; none begins or ends meanwhile, so fn must make and release none. */
void dhowi_handle_each(dhowi_handle_kind kind, void (*fn)(void *user, const void *object),
                       void *user);
/* Blocks of memory that the pools hold for good. For tests. */
int64_t dhowi_handle_slabs(void);
const char *dhowi_handle_kind_name(dhowi_handle_kind kind);

static inline bool dhowi_handle_is(const void *object, dhowi_handle_kind kind) {
    return object != NULL && atomic_load_explicit(&((const dhowi_handle *)object)->magic,
                                                  memory_order_relaxed) == DHOWI_MAGIC(kind);
}

/* INVALID_ARGUMENT with "<function>: <name> is NULL" or "... is no live <kind>". */
dhow_status dhowi_handle_reject(const void *object, dhowi_handle_kind kind, const char *function,
                                const char *name);

static inline dhow_status dhowi_handle_check(const void *object, dhowi_handle_kind kind,
                                             const char *function, const char *name) {
    if (dhowi_handle_is(object, kind)) return DHOW_OK;
    return dhowi_handle_reject(object, kind, function, name);
}

static inline void dhowi_handle_retain(dhowi_handle *handle) {
    atomic_fetch_add_explicit(&handle->references, 1, memory_order_relaxed);
}
/* False when the object is already on its way out. */
static inline bool dhowi_handle_try_retain(dhowi_handle *handle) {
    uint_least32_t seen = atomic_load_explicit(&handle->references, memory_order_relaxed);
    while (seen != 0) {
        if (atomic_compare_exchange_weak_explicit(&handle->references, &seen, seen + 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}
/* True when the last reference is gone. */
static inline bool dhowi_handle_drop(dhowi_handle *handle) {
    return atomic_fetch_sub_explicit(&handle->references, 1, memory_order_acq_rel) == 1;
}

#endif /* DHOWI_BASE_HANDLE_H_ */
