/* SPDX-License-Identifier: Apache-2.0
 *
 * The only place that allocates host memory. Everything else in core, and every plugin through its
 * host table, asks here, so that tests can make any single allocation fail.
 */
#ifndef DHOWI_BASE_ALLOC_H_
#define DHOWI_BASE_ALLOC_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed memory, or NULL. */
void *dhowi_alloc(size_t bytes);
/* Zeroed memory for an array; NULL also when the size overflows. */
void *dhowi_alloc_array(size_t count, size_t element_bytes);
/* Memory on a boundary (a power of two), not zeroed. */
void *dhowi_alloc_aligned(size_t bytes, size_t align);
/* Grows or shrinks; new bytes are not zeroed. On failure NULL, and the old memory stays. */
void *dhowi_realloc_array(void *memory, size_t count, size_t element_bytes);
#ifdef __SANITIZE_ADDRESS__
void *dhowi_moved(void *memory, size_t bytes); /* the same elsewhere, as if it had grown */
#endif
char *dhowi_strdup(const char *text);
void dhowi_free(void *memory);

/* Asked before every allocation; false makes it fail. NULL, the default, lets all pass. For tests.
 */
typedef bool (*dhowi_alloc_hook_fn)(size_t bytes);
void dhowi_alloc_set_hook(dhowi_alloc_hook_fn hook);
/* Blocks given out and not yet freed. For tests. */
int64_t dhowi_alloc_live(void);

#endif /* DHOWI_BASE_ALLOC_H_ */
