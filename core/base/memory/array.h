/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays that grow, and the search in sorted ones.
 */
#ifndef DHOWI_BASE_ARRAY_H_
#define DHOWI_BASE_ARRAY_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/alloc.h"

/* Room for one more element than `count`; false when there is no memory, and nothing changed. Under
 * AddressSanitizer a small array moves each time: a pointer that was kept across a growth fails
 * there in every test, and not only where the array happens to be full. */
static inline bool dhowi_room(void **array, uint32_t count, uint32_t *capacity,
                              size_t element_bytes) {
    if (count < *capacity) {
#ifdef __SANITIZE_ADDRESS__
        if (*capacity <= 512) *array = dhowi_moved(*array, *capacity * element_bytes);
#endif
        return true;
    }
    uint32_t larger = *capacity * 2 + 32;
    void *grown = dhowi_realloc_array(*array, larger, element_bytes);
    if (grown == NULL) return false;
    *array = grown;
    *capacity = larger;
    return true;
}

/* Sets `at` to the first of ascending numbers that lies above `value`, to the last where none does.
 * A macro, for numbers of any type; there is at least one. */
#define DHOWI_FIRST_ABOVE(at, numbers, count, value)     \
    do {                                                 \
        uint64_t low_ = 0, high_ = (uint64_t)(count)-1;  \
        while (low_ < high_) {                           \
            const uint64_t middle_ = (low_ + high_) / 2; \
            if ((value) < (numbers)[middle_])            \
                high_ = middle_;                         \
            else                                         \
                low_ = middle_ + 1;                      \
        }                                                \
        (at) = low_;                                     \
    } while (0)

#endif /* DHOWI_BASE_ARRAY_H_ */
