/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as elements of a dtype, see dhow/scalar.h.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

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

static bool is_float(dhow_dtype dtype) {
    return dtype == DHOW_F32 || dtype == DHOW_F64 || dtype == DHOW_F16 || dtype == DHOW_BF16;
}

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

/* ---- from elements ---- */

static double decode_f16(uint16_t bits) {
    const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
    const int exponent = (bits >> 10) & 31, fraction = bits & 0x3ff;
    if (exponent == 31) return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, -24);
    return sign * ldexp(fraction + 1024, exponent - 25);
}

static double float_at(dhow_dtype dtype, const void *element) {
    uint32_t word = 0;
    float single;
    double wide;
    if (dtype == DHOW_F64) {
        memcpy(&wide, element, sizeof wide);
        return wide;
    }
    memcpy(&word, element, dtype == DHOW_F32 ? 4 : 2); /* little-endian, like all of dhow */
    if (dtype == DHOW_F16) return decode_f16((uint16_t)word);
    if (dtype == DHOW_BF16) word <<= 16;
    memcpy(&single, &word, sizeof single);
    return (double)single;
}

dhow_scalar dhowi_scalar_of(dhow_dtype dtype, const void *element) {
    const uint32_t bytes = dhow_dtype_bytes(dtype), unused = 64 - bytes * 8;
    uint64_t bits = 0;
    if (is_float(dtype)) return dhow_scalar_f64(float_at(dtype, element));
    memcpy(&bits, element, bytes);
    if (dtype == DHOW_U64) return dhow_scalar_u64(bits);
    if (!is_signed(dtype)) return dhow_scalar_i64((int64_t)bits);
    return dhow_scalar_i64((int64_t)(bits << unused) >> unused);
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
    if (is_float(dtype)) return float_bits(function, dtype, s, bits);
    return integer_bits(function, dtype, s, bits);
}
