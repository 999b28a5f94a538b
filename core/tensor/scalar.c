/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as elements of a dtype, see dhow/scalar.h.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "tensor/tensor.h"

enum { TEXT = 40 };

static const char *text_of(dhow_scalar s, char text[TEXT]) {
    if (s.kind == DHOW_F64) (void)snprintf(text, TEXT, "%.17g", s.value.f64);
    if (s.kind == DHOW_I64) (void)snprintf(text, TEXT, "%" PRId64, s.value.i64);
    if (s.kind == DHOW_U64) (void)snprintf(text, TEXT, "%" PRIu64, s.value.u64);
    return text;
}

static dhow_status out_of_range(const char *function, dhow_dtype dtype, dhow_scalar s) {
    char text[TEXT];
    return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: %s is beyond the range of %s", function,
                      text_of(s, text), dhow_dtype_name(dtype));
}

double dhowi_scalar_float(dhow_scalar s) {
    return s.kind == DHOW_I64   ? (double)s.value.i64
           : s.kind == DHOW_U64 ? (double)s.value.u64
                                : s.value.f64;
}

/* ---- floats ---- */

static bool is_infinite(dhow_dtype dtype, uint64_t bits) {
    return dtype == DHOW_F32    ? (bits & 0x7fffffffu) == 0x7f800000u
           : dtype == DHOW_F16  ? (bits & 0x7fffu) == 0x7c00u
           : dtype == DHOW_BF16 ? (bits & 0x7fffu) == 0x7f80u
                                : false;
}

/* Integers go to f32 in one rounding. */
static double nearest(dhow_dtype dtype, dhow_scalar s) {
    if (dtype != DHOW_F32 || s.kind == DHOW_F64) return dhowi_scalar_float(s);
    return (double)(s.kind == DHOW_I64 ? (float)s.value.i64 : (float)s.value.u64);
}

static dhow_status float_bits(const char *function, dhow_dtype dtype, dhow_scalar s,
                              uint64_t *bits) {
    const double value = nearest(dtype, s);
    *bits = dhowi_dtype_encode(dtype, value);
    if (isfinite(value) && is_infinite(dtype, *bits)) return out_of_range(function, dtype, s);
    return DHOW_OK;
}

/* ---- integers ---- */

static bool is_signed(dhow_dtype dtype) {
    return dtype == DHOW_I8 || dtype == DHOW_I16 || dtype == DHOW_I32 || dtype == DHOW_I64;
}

/* A whole number as an integer; OUT_OF_RANGE beyond 64 bits. */
static dhow_status whole(const char *function, dhow_dtype dtype, dhow_scalar *s) {
    char text[TEXT];
    const double v = s->value.f64;
    if (s->kind != DHOW_F64) return DHOW_OK;
    if (!isfinite(v) || trunc(v) != v) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: %s is no whole number, which %s needs; dhow_cast() the tensor to a "
                          "float",
                          function, text_of(*s, text), dhow_dtype_name(dtype));
    }
    if (v < -0x1p63 || v >= 0x1p64) return out_of_range(function, dtype, *s);
    if (v < 0x1p63) {
        s->kind = DHOW_I64;
        s->value.i64 = (int64_t)v;
    } else {
        s->kind = DHOW_U64;
        s->value.u64 = (uint64_t)v;
    }
    return DHOW_OK;
}

static dhow_status integer_bits(const char *function, dhow_dtype dtype, dhow_scalar given,
                                uint64_t *bits) {
    const uint32_t width = dhow_dtype_bytes(dtype) * 8;
    const uint64_t mask = UINT64_MAX >> (64 - width), most = is_signed(dtype) ? mask >> 1 : mask;
    dhow_scalar s = given;
    DHOWI_TRY(whole(function, dtype, &s));
    *bits = (s.kind == DHOW_I64 ? (uint64_t)s.value.i64 : s.value.u64) & mask;
    if (s.kind == DHOW_I64 && s.value.i64 < 0) {
        if (is_signed(dtype) && s.value.i64 >= -(int64_t)most - 1) return DHOW_OK;
        return out_of_range(function, dtype, given);
    }
    if ((s.kind == DHOW_I64 ? (uint64_t)s.value.i64 : s.value.u64) <= most) return DHOW_OK;
    return out_of_range(function, dtype, given);
}

dhow_status dhowi_scalar_bits(const char *function, dhow_dtype dtype, dhow_scalar s,
                              uint64_t *bits) {
    *bits = 0;
    if (s.kind != DHOW_F64 && s.kind != DHOW_I64 && s.kind != DHOW_U64) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: the scalar's kind is %d; make it with DHOW_SCALAR()", function,
                          (int)s.kind);
    }
    if (dtype == DHOW_BOOL) {
        *bits = s.kind == DHOW_F64 ? s.value.f64 != 0 : s.value.u64 != 0;
        return DHOW_OK;
    }
    if (dtype == DHOW_F32 || dtype == DHOW_F64 || dtype == DHOW_F16 || dtype == DHOW_BF16)
        return float_bits(function, dtype, s, bits);
    return integer_bits(function, dtype, s, bits);
}
