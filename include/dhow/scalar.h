/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers that operations take by value. A number keeps the kind it was written with, so that
 * integers of 64 bits are exact: DHOW_SCALAR(0.5), DHOW_SCALAR(-3), DHOW_SCALAR(UINT64_MAX).
 *
 * Where a number meets a tensor, it becomes the tensor's dtype. Floats take every number, rounded;
 * a finite one beyond their range is OUT_OF_RANGE. Integers take whole numbers within their range:
 * OUT_OF_RANGE names the number and the dtype where it lies beyond, INVALID_ARGUMENT where it is
 * not whole. bool is number != 0.
 */
#ifndef DHOW_SCALAR_H_
#define DHOW_SCALAR_H_

#include "dhow/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A number and its kind. It is passed by value and never grows. */
typedef struct dhow_scalar {
    dhow_dtype kind; /**< DHOW_F64, DHOW_I64 or DHOW_U64 */
    union {
        double f64;
        int64_t i64;
        uint64_t u64;
    } value;
} dhow_scalar;

/** A floating-point number. Threads: any. Blocks: no. */
static inline dhow_scalar dhow_scalar_f64(double value) {
    dhow_scalar s;
    s.kind = DHOW_F64;
    s.value.f64 = value;
    return s;
}

/** A signed integer. Threads: any. Blocks: no. */
static inline dhow_scalar dhow_scalar_i64(int64_t value) {
    dhow_scalar s;
    s.kind = DHOW_I64;
    s.value.i64 = value;
    return s;
}

/** An unsigned integer. Threads: any. Blocks: no. */
static inline dhow_scalar dhow_scalar_u64(uint64_t value) {
    dhow_scalar s;
    s.kind = DHOW_U64;
    s.value.u64 = value;
    return s;
}

#ifdef __cplusplus
}
extern "C++" {
inline dhow_scalar dhow_scalar_of_(float v) { return dhow_scalar_f64(static_cast<double>(v)); }
inline dhow_scalar dhow_scalar_of_(double v) { return dhow_scalar_f64(v); }
inline dhow_scalar dhow_scalar_of_(unsigned long v) { return dhow_scalar_u64(v); }
inline dhow_scalar dhow_scalar_of_(unsigned long long v) { return dhow_scalar_u64(v); }
template <typename T>
inline dhow_scalar dhow_scalar_of_(T v) {
    return dhow_scalar_i64(v);
}
}
#define DHOW_SCALAR(number) (::dhow_scalar_of_(number))
#else
/** A number as it is written: floats and doubles are f64, unsigned integers of 64 bits u64, other
 * integers i64. */
#define DHOW_SCALAR(number)                        \
    _Generic((number), float                       \
             : dhow_scalar_f64, double             \
             : dhow_scalar_f64, unsigned long      \
             : dhow_scalar_u64, unsigned long long \
             : dhow_scalar_u64, default            \
             : dhow_scalar_i64)(number)
#endif

#endif /* DHOW_SCALAR_H_ */
