/* SPDX-License-Identifier: Apache-2.0
 *
 * An arena: many small pieces of memory that end together. A limit bounds what a file from a
 * stranger can make us take.
 */
#ifndef DHOWI_BASE_ARENA_H_
#define DHOWI_BASE_ARENA_H_

#include <stddef.h>

typedef struct dhowi_arena_block dhowi_arena_block;

typedef struct dhowi_arena {
    dhowi_arena_block *block; /* the newest */
    size_t taken;             /* from the allocator, in all */
    size_t limit;             /* of `taken`; 0: none */
} dhowi_arena;

/* Zeroed memory for an array, on a boundary of 16 bytes; NULL when it is refused or there is none.
 */
void *dhowi_arena_array(dhowi_arena *arena, size_t count, size_t element_bytes);
/* A terminated copy of a text. */
char *dhowi_arena_text(dhowi_arena *arena, const char *text, size_t length);
/* Ends all pieces; the arena may be used again. */
void dhowi_arena_end(dhowi_arena *arena);

#endif /* DHOWI_BASE_ARENA_H_ */
