/* SPDX-License-Identifier: Apache-2.0
 *
 * Small types of ONNX, which models hold as bytes: float8 and float4 as u8 that are codes, integers
 * of 4 or 2 bits as i8 or u8. A desc's `encoding` is ONNX's number of the type. The kernels look
 * codes up in tables that are made here, by the formats' definitions.
 */
#include <math.h>
#include <string.h>

#include "base/memory/size.h"
#include "model/lower/composite.h"

enum { E4M3FN = 17, E4M3FNUZ, E5M2, E5M2FNUZ, UINT4, INT4, F4E2M1, E8M0, UINT2, INT2 };

/* ---- integers ---- */

static uint32_t integer_bits(int32_t encoding) {
    return encoding == INT4 || encoding == UINT4   ? 4
           : encoding == INT2 || encoding == UINT2 ? 2
                                                   : 0;
}

bool dhowi_integer_range(int32_t encoding, double *low, double *high) {
    const int32_t all = 1 << integer_bits(encoding);
    const bool is_signed = encoding == INT4 || encoding == INT2;
    *low = is_signed ? -(double)(all / 2) : 0;
    *high = is_signed ? (double)(all / 2 - 1) : (double)(all - 1);
    return integer_bits(encoding) != 0;
}

/* The lowest bits, as two's complement. Floats are cut to integers before. */
static dhow_status to_integer(dhowi_lowering *b, int32_t x, int32_t encoding, int32_t *out) {
    double low, high;
    const dhow_dtype from = dhowi_desc_at(b, x)->dtype;
    const bool wide = from == DHOW_I64 || from == DHOW_U64 || from == DHOW_U32;
    (void)dhowi_integer_range(encoding, &low, &high);
    DHOWI_TRY(dhowi_cast_to(b, x, wide ? DHOW_I64 : DHOW_I32, &x));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_BIT_AND, x, high - low, &x));
    if (low < 0) {
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_BIT_XOR, x, -low, &x));
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_ADD, x, low, &x));
    }
    return dhowi_integers_of(b, x, encoding, out);
}

dhow_status dhowi_integers_of(dhowi_lowering *b, int32_t x, int32_t encoding, int32_t *out) {
    DHOWI_TRY(dhowi_cast_to(b, x, dhowi_onnx_held(encoding), out));
    b->items[*out].desc.encoding = encoding;
    return DHOW_OK;
}

/* ---- floats ---- */

/* sign, exponent, mantissa. Codes of a sign's greatest number, of what lies beyond it where that
 * does not saturate, and of NaN. */
typedef struct small_float {
    uint32_t mantissa_bits;
    int32_t bias;
    uint32_t sign, greatest, beyond, nan;
    bool one_zero;
} small_float;

static small_float format_of(int32_t encoding) {
    switch (encoding) {
        case E4M3FN:
            return (small_float){3, 7, 0x80, 0x7e, 0x7f, 0x7f, false};
        case E4M3FNUZ:
            return (small_float){3, 8, 0x80, 0x7f, 0x80, 0x80, true};
        case E5M2:
            return (small_float){2, 15, 0x80, 0x7b, 0x7c, 0x7e, false};
        case E5M2FNUZ:
            return (small_float){2, 16, 0x80, 0x7f, 0x80, 0x80, true};
        default: /* E2M1 has no NaN, which becomes -0 as in ONNX's own data */
            return (small_float){1, 1, 0x8, 0x7, 0x7, 0x8, false};
    }
}

/* A positive code; the one after the greatest is what it would be with a larger exponent. */
static double value_of(const small_float *f, uint32_t code) {
    const uint32_t exponent = code >> f->mantissa_bits, one = 1u << f->mantissa_bits;
    const uint32_t mantissa = code & (one - 1);
    const int32_t scale = 1 - f->bias - (int32_t)f->mantissa_bits;
    if (exponent == 0) return ldexp(mantissa, scale);
    return ldexp(mantissa + one, scale + (int32_t)exponent - 1);
}

static float meaning_of(int32_t encoding, uint32_t code) {
    if (encoding == E8M0) return code == 255 ? NAN : (float)ldexp(1, (int32_t)code - 127);
    const small_float f = format_of(encoding);
    const uint32_t size = code & (f.sign - 1);
    const bool negative = (code & f.sign) != 0;
    float value = (float)value_of(&f, size);
    if (size > f.greatest) value = encoding == E5M2 && size == f.beyond ? INFINITY : NAN;
    if (f.one_zero && code == f.sign) value = NAN;
    return negative ? -value : value;
}

dhow_status dhowi_decoded(dhowi_lowering *b, int32_t x, dhow_dtype dtype, int32_t *out) {
    const dhowi_tensor_desc from = *dhowi_desc_at(b, x);
    dhowi_tensor_desc desc = from;
    float table[256];
    const int64_t count = (int64_t)DHOWI_COUNT(table);
    int32_t in[2] = {-1, x};
    if (from.encoding != 0 && integer_bits(from.encoding) == 0) {
        for (uint32_t i = 0; i < DHOWI_COUNT(table); i++) table[i] = meaning_of(from.encoding, i);
        DHOWI_TRY(dhowi_constant(b, DHOW_F32, 1, &count, table, &in[0]));
        desc.dtype = DHOW_F32;
        desc.encoding = 0;
        DHOWI_TRY(dhowi_emit(b, DHOWI_OP_decode, in, 2, NULL, &desc, &x));
    } else if (from.encoding != 0) { /* a view, which says no more what x says */
        const dhowi_item item = b->items[x];
        DHOWI_TRY(dhowi_view(b, x, from.rank, item.desc.shape, item.strides, item.offset, &x));
        b->items[x].desc.encoding = 0;
    }
    return dhowi_cast_to(b, x, dtype, out);
}

/* ---- from floats ---- */

enum { STEPS = 511 };
typedef struct code_table {
    int32_t step[STEPS];
    uint8_t code[STEPS + 1];
    uint32_t count;
} code_table;

/* As the kernel orders floats. */
static int32_t place_of(double value) {
    const float f = (float)value; /* exact */
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (int32_t)(bits >> 31 != 0 ? bits ^ 0x7fffffffu : bits);
}

/* From a place on there is a code, or from the next one on. */
static void add(code_table *t, double value, bool included, uint32_t code) {
    t->step[t->count++] = place_of(value) + !included;
    t->code[t->count] = (uint8_t)code;
}

static double between(const small_float *f, uint32_t code) {
    return (value_of(f, code) + value_of(f, code + 1)) / 2;
}

/* Each number has what is nearest to it; of what lies in the middle of two, the even one. */
static void add_floats(code_table *t, const small_float *f, bool saturates) {
    const uint32_t last = f->greatest, beyond = saturates ? last : f->beyond;
    t->code[0] = (uint8_t)(f->nan | f->sign);
    add(t, -INFINITY, true, beyond | f->sign);
    for (uint32_t code = saturates ? last - 1 : last; code > 0; code--)
        add(t, -between(f, code), code % 2 == 0, code | f->sign);
    add(t, -between(f, 0), true, f->one_zero ? 0 : f->sign);
    if (!f->one_zero) add(t, 0.0, true, 0);
    for (uint32_t code = 1; code <= last; code++) add(t, between(f, code - 1), code % 2 == 0, code);
    if (!saturates) add(t, between(f, last), last % 2 == 1, beyond);
    add(t, INFINITY, false, f->nan);
}

/* Powers of two from 2^-127 to 2^127. Negative numbers have none. */
static void add_powers(code_table *t, bool saturates, dhowi_rounding rounding) {
    enum { NOT_A_NUMBER = 255 };
    t->code[0] = NOT_A_NUMBER;
    add(t, -0.0, true, saturates ? 0 : NOT_A_NUMBER);
    add(t, ldexp(1, -127), true, 0);
    for (int32_t code = 1; code < NOT_A_NUMBER; code++) {
        const double low = ldexp(1, code - 128);
        const double from = rounding == DHOWI_ROUND_UP     ? low
                            : rounding == DHOWI_ROUND_DOWN ? low * 2
                                                           : low * 1.5;
        add(t, from, rounding != DHOWI_ROUND_UP, (uint32_t)code);
    }
    if (!saturates) add(t, ldexp(1, 127), false, NOT_A_NUMBER);
    add(t, INFINITY, false, NOT_A_NUMBER);
}

static dhow_status to_float(dhowi_lowering *b, int32_t x, int32_t encoding, bool saturates,
                            dhowi_rounding rounding, int32_t *out) {
    code_table t = {.count = 0};
    const int64_t steps = STEPS, codes = STEPS + 1;
    int32_t in[3];
    if (encoding == E8M0) {
        add_powers(&t, saturates, rounding);
    } else {
        const small_float f = format_of(encoding);
        add_floats(&t, &f, saturates || encoding == F4E2M1);
    }
    for (uint32_t last = t.code[t.count]; t.count < STEPS; t.code[t.count] = (uint8_t)last)
        t.step[t.count++] = INT32_MAX;
    DHOWI_TRY(dhowi_cast_to(b, x, DHOW_F32, &in[0]));
    DHOWI_TRY(dhowi_constant(b, DHOW_I32, 1, &steps, t.step, &in[1]));
    DHOWI_TRY(dhowi_constant(b, DHOW_U8, 1, &codes, t.code, &in[2]));
    dhowi_tensor_desc desc = *dhowi_desc_at(b, in[0]);
    desc.dtype = DHOW_U8;
    desc.encoding = encoding;
    return dhowi_emit(b, DHOWI_OP_encode, in, 3, NULL, &desc, out);
}

dhow_status dhowi_encoded(dhowi_lowering *b, int32_t x, int32_t encoding, bool saturates,
                          dhowi_rounding rounding, int32_t *out) {
    if (integer_bits(encoding) != 0) return to_integer(b, x, encoding, out);
    return to_float(b, x, encoding, saturates, rounding, out);
}
