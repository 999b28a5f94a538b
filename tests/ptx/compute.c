/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic, as the PTX ISA has it. Values are bits in the low end of 64. The approximate
 * functions
 * (.approx) are the C library's, rounded once: better than a GPU's, never worse.
 */
#include <fenv.h>
#include <math.h>
#include <string.h>

#include "../float_bits.h"
#include "machine.h"

/* ---- bits ---- */

static uint64_t mask_of(unsigned bits) { return bits >= 64 ? ~0ull : (1ull << bits) - 1; }

static int64_t signed_of(uint64_t v, unsigned bits) {
    const unsigned up = 64 - bits;
    return (int64_t)(v << up) >> up;
}

/* An integer of a type, extended to 64 bits. */
static uint64_t extend(uint64_t v, ptx_type type) {
    return type.kind == 's' ? (uint64_t)signed_of(v, type.bits) : v & mask_of(type.bits);
}

/* ---- integers ---- */

__extension__ typedef __int128 int128; /* gcc and clang have it, ISO C does not */
__extension__ typedef unsigned __int128 uint128;

static uint64_t product_high(uint64_t a, uint64_t b, ptx_type type) {
    if (type.bits < 64) return extend(a, type) * extend(b, type) >> type.bits;
    if (type.kind == 's') return (uint64_t)(((int128)(int64_t)a * (int64_t)b) >> 64);
    return (uint64_t)(((uint128)a * b) >> 64);
}

static uint64_t quotient(uint64_t a, uint64_t b, ptx_type type, bool remainder) {
    const uint64_t x = extend(a, type), y = extend(b, type);
    if (y == 0) return remainder ? x : ~0ull;
    if (type.kind != 's') return remainder ? x % y : x / y;
    if (y == ~0ull) return remainder ? 0 : 0 - x;
    return (uint64_t)(remainder ? (int64_t)x % (int64_t)y : (int64_t)x / (int64_t)y);
}

static uint64_t shift_right(uint64_t v, uint64_t by, ptx_type type) {
    const uint64_t x = extend(v, type);
    if (type.kind == 's') return (uint64_t)((int64_t)x >> (by > 63 ? 63 : by));
    return by >= type.bits ? 0 : x >> by;
}

/* Four bytes chosen out of eight; bit 3 of a choice repeats the sign. */
static uint64_t permute(const uint64_t *in) {
    const uint64_t from = (in[0] & 0xffffffff) | in[1] << 32;
    uint64_t result = 0;
    for (unsigned k = 0; k < 4; k++) {
        const unsigned choice = in[2] >> 4 * k & 15;
        uint64_t byte = from >> 8 * (choice & 7) & 255;
        if (choice & 8) byte = byte & 128 ? 255 : 0;
        result |= byte << 8 * k;
    }
    return result;
}

static uint64_t insert_bits(const uint64_t *in, unsigned bits) {
    const unsigned at = in[2] & 255, length = in[3] & 255;
    if (at >= bits) return in[1];
    const uint64_t field = mask_of(length) << at;
    return (in[1] & ~field) | (in[0] << at & field);
}

static uint64_t extract_bits(const uint64_t *in, unsigned bits) {
    const unsigned at = in[1] & 255, length = in[2] & 255;
    return at >= bits ? 0 : (in[0] & mask_of(bits)) >> at & mask_of(length);
}

static uint64_t compute_integer(const ptx_instruction *i, const uint64_t *in) {
    const ptx_type type = i->code.type;
    const uint64_t a = extend(in[0], type), b = extend(in[1], type);
    const bool is_less = type.kind == 's' ? (int64_t)a < (int64_t)b : a < b;
    const uint64_t product = i->code.mode == PTX_HI ? product_high(a, b, type) : a * b;
    switch (i->code.op) {
        case PTX_ABS:
            return (int64_t)a < 0 ? 0 - a : a;
        case PTX_ADD:
            return a + b;
        case PTX_SUB:
            return a - b;
        case PTX_MUL:
            return product;
        case PTX_MAD:
            return product + in[2];
        case PTX_DIV:
            return quotient(a, b, type, false);
        case PTX_REM:
            return quotient(a, b, type, true);
        case PTX_NEG:
            return 0 - a;
        case PTX_MIN:
            return is_less ? a : b;
        case PTX_MAX:
            return is_less ? b : a;
        case PTX_AND:
            return a & b;
        case PTX_OR:
            return a | b;
        case PTX_XOR:
            return a ^ b;
        case PTX_NOT:
            return ~a & mask_of(type.bits);
        case PTX_CLZ:
            return a == 0 ? type.bits : (uint64_t)__builtin_clzll(a) - (64u - type.bits);
        case PTX_SHL:
            return (in[1] & 0xffffffff) >= type.bits ? 0 : a << (in[1] & 63);
        case PTX_SHR:
            return shift_right(a, in[1] & 0xffffffff, type);
        case PTX_BFI:
            return insert_bits(in, type.bits);
        case PTX_BFE:
            return extract_bits(in, type.bits);
        case PTX_PRMT:
            return permute(in);
        default:
            return a; /* mov, cvta */
    }
}

/* ---- floating point ---- */

static int rounding_of(ptx_round round) {
    switch (round) {
        case PTX_RZ:
        case PTX_RZI:
            return FE_TOWARDZERO;
        case PTX_RM:
        case PTX_RMI:
            return FE_DOWNWARD;
        case PTX_RP:
        case PTX_RPI:
            return FE_UPWARD;
        default:
            return FE_TONEAREST;
    }
}

static float flush(float f) { return fpclassify(f) == FP_SUBNORMAL ? copysignf(0, f) : f; }

#define ARITHMETIC(name, real, SUFFIX)                             \
    static real name(ptx_op op, real a, real b, real c) {          \
        switch (op) {                                              \
            case PTX_ADD:                                          \
                return a + b;                                      \
            case PTX_SUB:                                          \
                return a - b;                                      \
            case PTX_MUL:                                          \
                return a * b;                                      \
            case PTX_DIV:                                          \
                return a / b;                                      \
            case PTX_FMA:                                          \
                return fma##SUFFIX(a, b, c);                       \
            case PTX_ABS:                                          \
                return fabs##SUFFIX(a);                            \
            case PTX_NEG:                                          \
                return -a;                                         \
            case PTX_MIN:                                          \
                return fmin##SUFFIX(a, b);                         \
            case PTX_MAX:                                          \
                return fmax##SUFFIX(a, b);                         \
            case PTX_COPYSIGN:                                     \
                return copysign##SUFFIX(b, a); /* the sign of a */ \
            case PTX_SQRT:                                         \
                return sqrt##SUFFIX(a);                            \
            case PTX_RCP:                                          \
                return 1 / a;                                      \
            case PTX_RSQRT:                                        \
                return 1 / sqrt##SUFFIX(a);                        \
            case PTX_EX2:                                          \
                return exp2##SUFFIX(a);                            \
            case PTX_LG2:                                          \
                return log2##SUFFIX(a);                            \
            case PTX_SIN:                                          \
                return sin##SUFFIX(a);                             \
            case PTX_COS:                                          \
                return cos##SUFFIX(a);                             \
            default:                                               \
                return a;                                          \
        }                                                          \
    }
ARITHMETIC(arithmetic_f32, float, f)
ARITHMETIC(arithmetic_f64, double, )

static uint64_t compute_f32(const ptx_instruction *i, const uint64_t *in) {
    float v[3];
    for (int k = 0; k < 3; k++)
        v[k] = i->code.ftz ? flush(f32_of_bits((uint32_t)in[k])) : f32_of_bits((uint32_t)in[k]);
    if (i->code.keeps_nan && (isnan(v[0]) || isnan(v[1]))) return 0x7fffffff;
    float y = arithmetic_f32(i->code.op, v[0], v[1], v[2]);
    if (i->code.ftz) y = flush(y);
    if (i->code.sat) y = y > 0 ? fminf(y, 1) : 0;
    return bits_of_f32(y);
}

static uint64_t compute_f64(const ptx_instruction *i, const uint64_t *in) {
    const double y =
        arithmetic_f64(i->code.op, f64_of_bits(in[0]), f64_of_bits(in[1]), f64_of_bits(in[2]));
    /* The approximations in f64 give the upper half of the bits. */
    return i->code.approx ? bits_of_f64(y) & ~0xffffffffull : bits_of_f64(y);
}

/* ---- conversions ---- */

static uint64_t float_to_integer(double v, ptx_type from, ptx_type to) {
    if (isnan(v)) return from.bits == 64 || to.bits == 64 ? 1ull << (to.bits - 1) : 0;
    const double whole = nearbyint(v), top = ldexp(1, to.kind == 's' ? to.bits - 1 : to.bits);
    if (to.kind == 's') {
        if (whole >= top) return mask_of(to.bits - 1u);
        return whole <= -top ? ~mask_of(to.bits - 1u) : (uint64_t)(int64_t)whole;
    }
    return whole <= 0 ? 0 : whole >= top ? mask_of(to.bits) : (uint64_t)whole;
}

static uint64_t of_real(double v, ptx_type to) {
    return to.bits == 64   ? bits_of_f64(v)
           : to.bits == 32 ? bits_of_f32((float)v)
                           : half_of_double((double)(float)v);
}

static uint64_t integer_to_float(uint64_t v, ptx_type from, ptx_type to) {
    const uint64_t wide = extend(v, from);
    if (from.kind == 's')
        return to.bits == 64 ? bits_of_f64((double)(int64_t)wide)
                             : bits_of_f32((float)(int64_t)wide);
    return to.bits == 64 ? bits_of_f64((double)wide) : bits_of_f32((float)wide);
}

static uint64_t brain_of_f32(uint32_t bits) { /* to the nearest, ties to even */
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* cvt.rn.f16x2.f32 d, a, b: b is the low half. */
static uint64_t convert_pair(const ptx_instruction *i, const uint64_t *in) {
    uint64_t pair = 0;
    for (int k = 0; k < 2; k++) {
        const uint32_t v = (uint32_t)in[k];
        pair = pair << 16 | (i->code.type.kind == 'g' ? brain_of_f32(v)
                                                      : half_of_double((double)f32_of_bits(v)));
    }
    return pair;
}

static uint64_t convert(const ptx_instruction *i, uint64_t v) {
    const ptx_type to = i->code.type, from = i->code.from;
    if (to.kind == 'g') return brain_of_f32((uint32_t)v);
    if (from.kind != 'f') return to.kind == 'f' ? integer_to_float(v, from, to) : extend(v, from);
    double real = from.bits == 64   ? f64_of_bits(v)
                  : from.bits == 32 ? (double)f32_of_bits((uint32_t)v)
                                    : double_of_half((uint16_t)v);
    if (i->code.ftz && from.bits == 32) real = (double)flush((float)real);
    if (to.kind != 'f') return float_to_integer(real, from, to);
    if (i->code.round >= PTX_RNI) real = nearbyint(real);
    if (i->code.sat) real = real > 0 ? fmin(real, 1) : 0;
    return of_real(real, to);
}

/* ---- comparisons ---- */

static bool holds(ptx_compare compare, bool less, bool equal, bool unordered) {
    switch (compare) {
        case PTX_EQ:
            return !unordered && equal;
        case PTX_NE:
            return !unordered && !equal;
        case PTX_LT:
            return !unordered && less;
        case PTX_LE:
            return !unordered && (less || equal);
        case PTX_GT:
            return !unordered && !less && !equal;
        case PTX_GE:
            return !unordered && !less;
        case PTX_EQU:
            return unordered || equal;
        case PTX_NEU:
            return unordered || !equal;
        case PTX_LTU:
            return unordered || less;
        case PTX_LEU:
            return unordered || less || equal;
        case PTX_GTU:
            return unordered || (!less && !equal);
        case PTX_GEU:
            return unordered || !less;
        case PTX_NUM:
            return !unordered;
        default:
            return unordered;
    }
}

static uint64_t compare(const ptx_instruction *i, const uint64_t *in) {
    const ptx_type type = i->code.type;
    bool result = false;
    if (type.kind == 'f') {
        double a = type.bits == 64 ? f64_of_bits(in[0]) : (double)f32_of_bits((uint32_t)in[0]);
        double b = type.bits == 64 ? f64_of_bits(in[1]) : (double)f32_of_bits((uint32_t)in[1]);
        if (i->code.ftz && type.bits == 32) {
            a = (double)flush((float)a);
            b = (double)flush((float)b);
        }
        result = holds(i->code.compare, a < b, a == b, isnan(a) || isnan(b));
    } else {
        const uint64_t a = extend(in[0], type), b = extend(in[1], type);
        const bool less = type.kind == 's' ? (int64_t)a < (int64_t)b : a < b;
        result = holds(i->code.compare, less, a == b, false);
    }
    if (i->code.logic == '&') return result && in[2];
    if (i->code.logic == '|') return result || in[2];
    return i->code.logic == '^' ? result != (in[2] != 0) : result;
}

static uint64_t compute(const ptx_instruction *i, const uint64_t *in) {
    switch (i->code.op) {
        case PTX_SETP:
            return compare(i, in);
        case PTX_SELP:
            return in[2] ? in[0] : in[1];
        case PTX_CVT:
            return i->code.pair ? convert_pair(i, in) : convert(i, in[0]);
        case PTX_MOV:
            return in[0];
        default:
            break;
    }
    if (i->code.type.kind != 'f') return compute_integer(i, in);
    return i->code.type.bits == 64 ? compute_f64(i, in) : compute_f32(i, in);
}

uint64_t ptx_compute(const ptx_instruction *i, const uint64_t *in) {
    const int rounding = rounding_of(i->code.round);
    if (rounding == FE_TONEAREST) return compute(i, in);
    (void)fesetround(rounding);
    const uint64_t result = compute(i, in);
    (void)fesetround(FE_TONEAREST);
    return result;
}
