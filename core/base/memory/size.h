/* SPDX-License-Identifier: Apache-2.0
 *
 * Size arithmetic that notices overflow. All sizes that come from outside go through these.
 */
#ifndef DHOWI_BASE_SIZE_H_
#define DHOWI_BASE_SIZE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* *out = a op b; false, and *out untouched, when the result does not fit. */
static inline bool dhowi_mul(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}
static inline bool dhowi_add(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}
static inline bool dhowi_mul_i64(int64_t a, int64_t b, int64_t *out) {
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}
static inline bool dhowi_add_i64(int64_t a, int64_t b, int64_t *out) {
    int64_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}
/* Rounds up to a multiple of align, a power of two. */
static inline bool dhowi_align_up(size_t value, size_t align, size_t *out) {
    size_t r;
    if (__builtin_add_overflow(value, align - 1, &r)) return false;
    *out = r & ~(align - 1);
    return true;
}
static inline int64_t dhowi_ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

#define DHOWI_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define DHOWI_MIN(a, b) ((a) < (b) ? (a) : (b))
#define DHOWI_MAX(a, b) ((a) > (b) ? (a) : (b))

#endif /* DHOWI_BASE_SIZE_H_ */
