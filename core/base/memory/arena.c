/* SPDX-License-Identifier: Apache-2.0
 *
 * See arena.h.
 */
#include "base/memory/arena.h"

#include <stdint.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"

enum { FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20, ALIGN = 16 };

struct dhowi_arena_block {
    dhowi_arena_block *next;
    size_t bytes, used;
};

static dhowi_arena_block *new_block(dhowi_arena *arena, size_t bytes) {
    /* Blocks double, so that a small file takes little and a large one few blocks. */
    size_t size = DHOWI_MIN(DHOWI_MAX(arena->taken, (size_t)FIRST_BLOCK), (size_t)LARGEST_BLOCK);
    size = DHOWI_MAX(size, bytes + sizeof(dhowi_arena_block) + ALIGN);
    if (arena->limit != 0 && size > arena->limit - DHOWI_MIN(arena->taken, arena->limit))
        return NULL;
    dhowi_arena_block *block = dhowi_alloc(size);
    if (block == NULL) return NULL;
    block->next = arena->block;
    block->bytes = size;
    block->used = (sizeof *block + ALIGN - 1) / ALIGN * ALIGN;
    arena->block = block;
    arena->taken += size;
    return block;
}

void *dhowi_arena_array(dhowi_arena *arena, size_t count, size_t element_bytes) {
    size_t bytes;
    if (!dhowi_mul(count, element_bytes, &bytes) || bytes > SIZE_MAX / 2) return NULL;
    bytes = (DHOWI_MAX(bytes, (size_t)1) + ALIGN - 1) / ALIGN * ALIGN;
    dhowi_arena_block *block = arena->block;
    if (block == NULL || block->bytes - block->used < bytes) block = new_block(arena, bytes);
    if (block == NULL) return NULL;
    void *piece = (char *)block + block->used;
    block->used += bytes;
    return piece;
}

char *dhowi_arena_text(dhowi_arena *arena, const char *text, size_t length) {
    char *copy = length < SIZE_MAX ? dhowi_arena_array(arena, length + 1, 1) : NULL;
    if (copy != NULL && length > 0) memcpy(copy, text, length);
    return copy;
}

void dhowi_arena_end(dhowi_arena *arena) {
    while (arena->block != NULL) {
        dhowi_arena_block *next = arena->block->next;
        dhowi_free(arena->block);
        arena->block = next;
    }
    arena->taken = 0;
}
