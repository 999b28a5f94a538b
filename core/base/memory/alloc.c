/* SPDX-License-Identifier: Apache-2.0
 *
 * See alloc.h.
 */
#include "base/memory/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/size.h"

static _Atomic(dhowi_alloc_hook_fn) g_hook;
static atomic_int_fast64_t g_live;

static bool allowed(size_t bytes) {
    dhowi_alloc_hook_fn hook = atomic_load_explicit(&g_hook, memory_order_relaxed);
    return hook == NULL || hook(bytes);
}

static void *counted(void *memory) {
    if (memory != NULL) atomic_fetch_add_explicit(&g_live, 1, memory_order_relaxed);
    return memory;
}

void *dhowi_alloc(size_t bytes) { return dhowi_alloc_array(1, bytes); }

void *dhowi_alloc_array(size_t count, size_t element_bytes) {
    if (!allowed(count * element_bytes)) return NULL;
    return counted(calloc(count > 0 ? count : 1, element_bytes > 0 ? element_bytes : 1));
}

void *dhowi_alloc_aligned(size_t bytes, size_t align) {
    if (align < sizeof(void *)) align = sizeof(void *);
    size_t rounded;
    if (!dhowi_align_up(bytes > 0 ? bytes : 1, align, &rounded) || !allowed(bytes)) return NULL;
    return counted(aligned_alloc(align, rounded));
}

void *dhowi_realloc_array(void *memory, size_t count, size_t element_bytes) {
    size_t bytes;
    if (!dhowi_mul(count, element_bytes, &bytes) || !allowed(bytes)) return NULL;
    void *grown = realloc(memory, bytes > 0 ? bytes : 1);
    return memory == NULL ? counted(grown) : grown;
}

#ifdef __SANITIZE_ADDRESS__
void *dhowi_moved(void *memory, size_t bytes) {
    void *copy = malloc(bytes);
    if (copy == NULL) return memory;
    memcpy(copy, memory, bytes);
    free(memory);
    return copy;
}
#endif

char *dhowi_strdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = dhowi_alloc(bytes);
    if (copy != NULL) memcpy(copy, text, bytes);
    return copy;
}

void dhowi_free(void *memory) {
    if (memory == NULL) return;
    atomic_fetch_sub_explicit(&g_live, 1, memory_order_relaxed);
    free(memory);
}

void dhowi_alloc_set_hook(dhowi_alloc_hook_fn hook) { atomic_store(&g_hook, hook); }

int64_t dhowi_alloc_live(void) { return atomic_load(&g_live); }
