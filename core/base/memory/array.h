/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays that grow.
 */
#ifndef DHOWI_BASE_ARRAY_H_
#define DHOWI_BASE_ARRAY_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/alloc.h"

/* Room for one more element than `count`; false when there is no memory, and nothing changed. */
static inline bool dhowi_room(void **array, uint32_t count, uint32_t *capacity,
                              size_t element_bytes) {
    if (count < *capacity) return true;
    uint32_t larger = *capacity * 2 + 32;
    void *grown = dhowi_realloc_array(*array, larger, element_bytes);
    if (grown == NULL) return false;
    *array = grown;
    *capacity = larger;
    return true;
}

#endif /* DHOWI_BASE_ARRAY_H_ */
