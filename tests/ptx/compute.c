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

/* Into the loops of the forms, where the opcode is known. */
#define INLINE static inline __attribute__((always_inline))

/* ---- bits ---- */

INLINE uint64_t mask_of(unsigned bits) { return bits >= 64 ? ~0ull : (1ull << bits) - 1; }

INLINE int64_t signed_of(uint64_t v, unsigned bits) {
    const unsigned up = 64 - bits;
    return (int64_t)(v << up) >> up;
}

/* An integer of a type, extended to 64 bits. */
INLINE uint64_t extend(uint64_t v, ptx_type type) {
    return type.kind == 's' ? (uint64_t)signed_of(v, type.bits) : v & mask_of(type.bits);
}

/* ---- integers ---- */

__extension__ typedef __int128 int128; /* gcc and clang have it, ISO C does not */
__extension__ typedef unsigned __int128 uint128;

INLINE uint64_t product_high(uint64_t a, uint64_t b, ptx_type type) {
    if (type.bits < 64) return extend(a, type) * extend(b, type) >> type.bits;
    if (type.kind == 's') return (uint64_t)(((int128)(int64_t)a * (int64_t)b) >> 64);
    return (uint64_t)(((uint128)a * b) >> 64);
}

INLINE uint64_t quotient(uint64_t a, uint64_t b, ptx_type type, bool remainder) {
    const uint64_t x = extend(a, type), y = extend(b, type);
    if (y == 0) return remainder ? x : ~0ull;
    if (type.kind != 's') return remainder ? x % y : x / y;
    if (y == ~0ull) return remainder ? 0 : 0 - x;
    return (uint64_t)(remainder ? (int64_t)x % (int64_t)y : (int64_t)x / (int64_t)y);
}

INLINE uint64_t shift_right(uint64_t v, uint64_t by, ptx_type type) {
    const uint64_t x = extend(v, type);
    if (type.kind == 's') return (uint64_t)((int64_t)x >> (by > 63 ? 63 : by));
    return by >= type.bits ? 0 : x >> by;
}

/* Four bytes chosen out of eight; bit 3 of a choice repeats the sign. */
INLINE uint64_t permute(const uint64_t *in) {
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

INLINE uint64_t insert_bits(const uint64_t *in, unsigned bits) {
    const unsigned at = in[2] & 255, length = in[3] & 255;
    if (at >= bits) return in[1];
    const uint64_t field = mask_of(length) << at;
    return (in[1] & ~field) | (in[0] << at & field);
}

INLINE uint64_t extract_bits(const uint64_t *in, unsigned bits) {
    const unsigned at = in[1] & 255, length = in[2] & 255;
    return at >= bits ? 0 : (in[0] & mask_of(bits)) >> at & mask_of(length);
}

INLINE uint64_t compute_integer(const ptx_opcode *code, const uint64_t *in) {
    const ptx_type type = code->type;
    const uint64_t a = extend(in[0], type), b = extend(in[1], type);
    const bool is_less = type.kind == 's' ? (int64_t)a < (int64_t)b : a < b;
    const uint64_t product = code->mode == PTX_HI ? product_high(a, b, type) : a * b;
    switch (code->op) {
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

INLINE float flush(float f) { return fpclassify(f) == FP_SUBNORMAL ? copysignf(0, f) : f; }

#define ARITHMETIC(name, real, SUFFIX)                             \
    INLINE real name(ptx_op op, real a, real b, real c) {          \
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

INLINE uint64_t compute_f32(const ptx_opcode *code, const uint64_t *in) {
    float v[3];
    for (int k = 0; k < 3; k++)
        v[k] = code->ftz ? flush(f32_of_bits((uint32_t)in[k])) : f32_of_bits((uint32_t)in[k]);
    if (code->keeps_nan && (isnan(v[0]) || isnan(v[1]))) return 0x7fffffff;
    float y = arithmetic_f32(code->op, v[0], v[1], v[2]);
    if (code->ftz) y = flush(y);
    if (code->sat) y = y > 0 ? fminf(y, 1) : 0;
    return bits_of_f32(y);
}

INLINE uint64_t compute_f64(const ptx_opcode *code, const uint64_t *in) {
    const double y =
        arithmetic_f64(code->op, f64_of_bits(in[0]), f64_of_bits(in[1]), f64_of_bits(in[2]));
    /* The approximations in f64 give the upper half of the bits. */
    return code->approx ? bits_of_f64(y) & ~0xffffffffull : bits_of_f64(y);
}

/* ---- conversions ---- */

INLINE uint64_t float_to_integer(double v, ptx_type from, ptx_type to) {
    if (isnan(v)) return from.bits == 64 || to.bits == 64 ? 1ull << (to.bits - 1) : 0;
    const double whole = nearbyint(v), top = ldexp(1, to.kind == 's' ? to.bits - 1 : to.bits);
    if (to.kind == 's') {
        if (whole >= top) return mask_of(to.bits - 1u);
        return whole <= -top ? ~mask_of(to.bits - 1u) : (uint64_t)(int64_t)whole;
    }
    return whole <= 0 ? 0 : whole >= top ? mask_of(to.bits) : (uint64_t)whole;
}

INLINE uint64_t of_real(double v, ptx_type to) {
    return to.bits == 64   ? bits_of_f64(v)
           : to.bits == 32 ? bits_of_f32((float)v)
                           : half_of_double((double)(float)v);
}

INLINE uint64_t integer_to_float(uint64_t v, ptx_type from, ptx_type to) {
    const uint64_t wide = extend(v, from);
    if (from.kind == 's')
        return to.bits == 64 ? bits_of_f64((double)(int64_t)wide)
                             : bits_of_f32((float)(int64_t)wide);
    return to.bits == 64 ? bits_of_f64((double)wide) : bits_of_f32((float)wide);
}

INLINE uint64_t brain_of_f32(uint32_t bits) { /* to the nearest, ties to even */
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* cvt.rn.f16x2.f32 d, a, b: b is the low half. */
INLINE uint64_t convert_pair(const ptx_opcode *code, const uint64_t *in) {
    uint64_t pair = 0;
    for (int k = 0; k < 2; k++) {
        const uint32_t v = (uint32_t)in[k];
        pair = pair << 16 |
               (code->type.kind == 'g' ? brain_of_f32(v) : half_of_double((double)f32_of_bits(v)));
    }
    return pair;
}

INLINE uint64_t convert(const ptx_opcode *code, uint64_t v) {
    const ptx_type to = code->type, from = code->from;
    if (to.kind == 'g') return brain_of_f32((uint32_t)v);
    if (from.kind != 'f') return to.kind == 'f' ? integer_to_float(v, from, to) : extend(v, from);
    double real = from.bits == 64   ? f64_of_bits(v)
                  : from.bits == 32 ? (double)f32_of_bits((uint32_t)v)
                                    : double_of_half((uint16_t)v);
    if (code->ftz && from.bits == 32) real = (double)flush((float)real);
    if (to.kind != 'f') return float_to_integer(real, from, to);
    if (code->round >= PTX_RNI) real = nearbyint(real);
    if (code->sat) real = real > 0 ? fmin(real, 1) : 0;
    return of_real(real, to);
}

/* ---- comparisons ---- */

INLINE bool holds(ptx_compare compare, bool less, bool equal, bool unordered) {
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

INLINE uint64_t compare(const ptx_opcode *code, const uint64_t *in) {
    const ptx_type type = code->type;
    bool result = false;
    if (type.kind == 'f') {
        double a = type.bits == 64 ? f64_of_bits(in[0]) : (double)f32_of_bits((uint32_t)in[0]);
        double b = type.bits == 64 ? f64_of_bits(in[1]) : (double)f32_of_bits((uint32_t)in[1]);
        if (code->ftz && type.bits == 32) {
            a = (double)flush((float)a);
            b = (double)flush((float)b);
        }
        result = holds(code->compare, a < b, a == b, isnan(a) || isnan(b));
    } else {
        const uint64_t a = extend(in[0], type), b = extend(in[1], type);
        const bool less = type.kind == 's' ? (int64_t)a < (int64_t)b : a < b;
        result = holds(code->compare, less, a == b, false);
    }
    if (code->logic == '&') return result && in[2];
    if (code->logic == '|') return result || in[2];
    return code->logic == '^' ? result != (in[2] != 0) : result;
}

INLINE uint64_t compute(const ptx_opcode *code, const uint64_t *in) {
    switch (code->op) {
        case PTX_SETP:
            return compare(code, in);
        case PTX_SELP:
            return in[2] ? in[0] : in[1];
        case PTX_CVT:
            return code->pair ? convert_pair(code, in) : convert(code, in[0]);
        case PTX_MOV:
            return in[0];
        default:
            break;
    }
    if (code->type.kind != 'f') return compute_integer(code, in);
    return code->type.bits == 64 ? compute_f64(code, in) : compute_f32(code, in);
}

/* ---- all lanes ---- */

INLINE void compute_lanes(const ptx_opcode *code, const uint64_t *const *in, uint64_t *out) {
    for (unsigned lane = 0; lane < PTX_WARP; lane++) {
        const uint64_t one[4] = {in[0][lane], in[1][lane], in[2][lane], in[3][lane]};
        out[lane] = compute(code, one);
    }
}

static void any_form(const ptx_opcode *code, const uint64_t *const *in, uint64_t *out) {
    const int rounding = rounding_of(code->round);
    if (rounding != FE_TONEAREST) (void)fesetround(rounding);
    compute_lanes(code, in, out);
    if (rounding != FE_TONEAREST) (void)fesetround(FE_TONEAREST);
}

/* The forms that kernels use most, rounding to the nearest: name and opcode. */
#define FORMS(FORM)                                                        \
    FORM(add_s32, .op = PTX_ADD, .type = {'s', 32})                        \
    FORM(add_s64, .op = PTX_ADD, .type = {'s', 64})                        \
    FORM(add_f32, .op = PTX_ADD, .type = {'f', 32})                        \
    FORM(sub_s32, .op = PTX_SUB, .type = {'s', 32})                        \
    FORM(sub_s64, .op = PTX_SUB, .type = {'s', 64})                        \
    FORM(sub_f32, .op = PTX_SUB, .type = {'f', 32})                        \
    FORM(mul_f32, .op = PTX_MUL, .type = {'f', 32})                        \
    FORM(mul_lo_s32, .op = PTX_MUL, .mode = PTX_LO, .type = {'s', 32})     \
    FORM(mul_lo_s64, .op = PTX_MUL, .mode = PTX_LO, .type = {'s', 64})     \
    FORM(mul_wide_s32, .op = PTX_MUL, .mode = PTX_WIDE, .type = {'s', 32}) \
    FORM(mul_wide_u32, .op = PTX_MUL, .mode = PTX_WIDE, .type = {'u', 32}) \
    FORM(mul_hi_u32, .op = PTX_MUL, .mode = PTX_HI, .type = {'u', 32})     \
    FORM(mad_lo_s32, .op = PTX_MAD, .mode = PTX_LO, .type = {'s', 32})     \
    FORM(mad_lo_s64, .op = PTX_MAD, .mode = PTX_LO, .type = {'s', 64})     \
    FORM(mad_wide_u32, .op = PTX_MAD, .mode = PTX_WIDE, .type = {'u', 32}) \
    FORM(fma_f32, .op = PTX_FMA, .type = {'f', 32})                        \
    FORM(fma_f64, .op = PTX_FMA, .type = {'f', 64})                        \
    FORM(max_f32, .op = PTX_MAX, .type = {'f', 32})                        \
    FORM(min_s32, .op = PTX_MIN, .type = {'s', 32})                        \
    FORM(max_s32, .op = PTX_MAX, .type = {'s', 32})                        \
    FORM(and_b32, .op = PTX_AND, .type = {'b', 32})                        \
    FORM(and_b64, .op = PTX_AND, .type = {'b', 64})                        \
    FORM(and_pred, .op = PTX_AND, .type = {'p', 1})                        \
    FORM(or_b32, .op = PTX_OR, .type = {'b', 32})                          \
    FORM(or_b64, .op = PTX_OR, .type = {'b', 64})                          \
    FORM(or_pred, .op = PTX_OR, .type = {'p', 1})                          \
    FORM(xor_b32, .op = PTX_XOR, .type = {'b', 32})                        \
    FORM(shl_b32, .op = PTX_SHL, .type = {'b', 32})                        \
    FORM(shl_b64, .op = PTX_SHL, .type = {'b', 64})                        \
    FORM(shr_u32, .op = PTX_SHR, .type = {'u', 32})                        \
    FORM(shr_s32, .op = PTX_SHR, .type = {'s', 32})                        \
    FORM(shr_u64, .op = PTX_SHR, .type = {'u', 64})                        \
    FORM(bfe_u32, .op = PTX_BFE, .type = {'u', 32})                        \
    FORM(prmt_b32, .op = PTX_PRMT, .type = {'b', 32})                      \
    FORM(selp_b16, .op = PTX_SELP, .type = {'b', 16})                      \
    FORM(selp_b32, .op = PTX_SELP, .type = {'b', 32})                      \
    FORM(selp_b64, .op = PTX_SELP, .type = {'b', 64})                      \
    FORM(selp_f32, .op = PTX_SELP, .type = {'f', 32})                      \
    FORM(lt_s32, .op = PTX_SETP, .compare = PTX_LT, .type = {'s', 32})     \
    FORM(le_s32, .op = PTX_SETP, .compare = PTX_LE, .type = {'s', 32})     \
    FORM(gt_s32, .op = PTX_SETP, .compare = PTX_GT, .type = {'s', 32})     \
    FORM(ge_s32, .op = PTX_SETP, .compare = PTX_GE, .type = {'s', 32})     \
    FORM(eq_s32, .op = PTX_SETP, .compare = PTX_EQ, .type = {'s', 32})     \
    FORM(ne_s32, .op = PTX_SETP, .compare = PTX_NE, .type = {'s', 32})     \
    FORM(lt_u32, .op = PTX_SETP, .compare = PTX_LT, .type = {'u', 32})     \
    FORM(gt_u32, .op = PTX_SETP, .compare = PTX_GT, .type = {'u', 32})     \
    FORM(eq_b32, .op = PTX_SETP, .compare = PTX_EQ, .type = {'b', 32})     \
    FORM(lt_s64, .op = PTX_SETP, .compare = PTX_LT, .type = {'s', 64})     \
    FORM(gt_s64, .op = PTX_SETP, .compare = PTX_GT, .type = {'s', 64})     \
    FORM(ge_s64, .op = PTX_SETP, .compare = PTX_GE, .type = {'s', 64})     \
    FORM(eq_s64, .op = PTX_SETP, .compare = PTX_EQ, .type = {'s', 64})     \
    FORM(ne_s64, .op = PTX_SETP, .compare = PTX_NE, .type = {'s', 64})     \
    FORM(lt_f32, .op = PTX_SETP, .compare = PTX_LT, .type = {'f', 32})     \
    FORM(gt_f32, .op = PTX_SETP, .compare = PTX_GT, .type = {'f', 32})     \
    FORM(nan_f32, .op = PTX_SETP, .compare = PTX_NAN, .type = {'f', 32})   \
    FORM(cvt_u32_u64, .op = PTX_CVT, .type = {'u', 32}, .from = {'u', 64}) \
    FORM(cvt_u64_u32, .op = PTX_CVT, .type = {'u', 64}, .from = {'u', 32}) \
    FORM(cvt_s64_s32, .op = PTX_CVT, .type = {'s', 64}, .from = {'s', 32}) \
    FORM(cvt_u16_u32, .op = PTX_CVT, .type = {'u', 16}, .from = {'u', 32}) \
    FORM(cvt_u32_u16, .op = PTX_CVT, .type = {'u', 32}, .from = {'u', 16}) \
    FORM(cvt_f32_f16, .op = PTX_CVT, .type = {'f', 32}, .from = {'f', 16}) \
    FORM(cvt_f16_f32, .op = PTX_CVT, .type = {'f', 16}, .from = {'f', 32})

#define FORM(name, ...)                                                                    \
    static void name(const ptx_opcode *unused, const uint64_t *const *in, uint64_t *out) { \
        static const ptx_opcode code = {__VA_ARGS__};                                      \
        (void)unused;                                                                      \
        compute_lanes(&code, in, out);                                                     \
    }
FORMS(FORM)
#undef FORM

static bool same_type(ptx_type a, ptx_type b) { return a.kind == b.kind && a.bits == b.bits; }

/* By what the arithmetic above looks at. */
static bool same_form(const ptx_opcode *a, const ptx_opcode *b) {
    return a->op == b->op && same_type(a->type, b->type) && same_type(a->from, b->from) &&
           rounding_of(a->round) == rounding_of(b->round) &&
           (a->round >= PTX_RNI) == (b->round >= PTX_RNI) && a->compare == b->compare &&
           a->logic == b->logic && a->mode == b->mode && a->ftz == b->ftz && a->sat == b->sat &&
           a->approx == b->approx && a->keeps_nan == b->keeps_nan && a->pair == b->pair;
}

ptx_form *ptx_form_of(const ptx_opcode *code) {
#define FORM(name, ...) {{__VA_ARGS__}, name},
    static const struct {
        ptx_opcode code;
        ptx_form *form;
    } k_forms[] = {FORMS(FORM)};
#undef FORM
    for (size_t k = 0; k < sizeof k_forms / sizeof k_forms[0]; k++)
        if (same_form(code, &k_forms[k].code)) return k_forms[k].form;
    return any_form;
}
