/* SPDX-License-Identifier: Apache-2.0
 *
 * See support.h: reference arrays, and tensors that lie in memory in several ways.
 */
#include "support.h"

/* ---- values ---- */

bool conform_is_float(dhow_dtype dtype) {
    return dtype == DHOW_F32 || dtype == DHOW_F64 || dtype == DHOW_F16 || dtype == DHOW_BF16;
}

/* Round to nearest even at a number of fraction bits, with gradual underflow. */
static double round_bits(double value, int fraction_bits, int lowest_exponent) {
    if (!isfinite(value) || value == 0) return value;
    int exponent = ilogb(value);
    if (exponent < lowest_exponent) exponent = lowest_exponent;
    return scalbn(nearbyint(scalbn(value, fraction_bits - exponent)), exponent - fraction_bits);
}

static uint16_t f16_bits(double value) {
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double r = fabs(round_bits(value, 10, -14));
    if (isnan(value)) return sign | 0x7e00;
    if (r >= 65520) return sign | 0x7c00;
    if (r < 0x1p-14) return (uint16_t)(sign | (uint16_t)(r * 0x1p24));
    int exponent = ilogb(r);
    return (uint16_t)(sign | ((uint16_t)(exponent + 15) << 10) |
                      (uint16_t)(scalbn(r, 10 - exponent) - 1024));
}

static double f16_value(uint16_t bits) {
    int exponent = (bits >> 10) & 31, fraction = bits & 1023;
    double r = exponent == 0    ? fraction * 0x1p-24
               : exponent == 31 ? (fraction != 0 ? (double)NAN : (double)INFINITY)
                                : scalbn(1024 + fraction, exponent - 25);
    return (bits & 0x8000) != 0 ? -r : r;
}

static uint16_t bf16_bits(double value) {
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (isnan(f)) return 0x7fc0;
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static double bf16_value(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &wide, sizeof f);
    return (double)f;
}

/* X(dtype, C type) of those that C has */
#define C_TYPES(X)        \
    X(DHOW_F32, float)    \
    X(DHOW_F64, double)   \
    X(DHOW_I8, int8_t)    \
    X(DHOW_U8, uint8_t)   \
    X(DHOW_I16, int16_t)  \
    X(DHOW_U16, uint16_t) \
    X(DHOW_I32, int32_t)  \
    X(DHOW_U32, uint32_t) \
    X(DHOW_BOOL, uint8_t)

void conform_encode(dhow_dtype dtype, double value, void *out) {
    uint16_t half;
    int64_t wide;
    uint64_t word;
    switch (dtype) {
#define ENCODE(name, type)         \
    case name: {                   \
        type v = (type)value;      \
        memcpy(out, &v, sizeof v); \
        break;                     \
    }
        C_TYPES(ENCODE)
#undef ENCODE
        case DHOW_I64: /* 2^63 stands for the largest */
            wide = value >= 0x1p63 ? INT64_MAX : (int64_t)value;
            memcpy(out, &wide, sizeof wide);
            break;
        case DHOW_U64: /* 2^64 likewise */
            word = value >= 0x1p64 ? UINT64_MAX
                   : value < 0     ? (uint64_t)(int64_t)value
                                   : (uint64_t)value;
            memcpy(out, &word, sizeof word);
            break;
        case DHOW_F16:
        case DHOW_BF16:
            half = dtype == DHOW_F16 ? f16_bits(value) : bf16_bits(value);
            memcpy(out, &half, sizeof half);
            break;
    }
}

double conform_decode(dhow_dtype dtype, const void *in) {
    uint16_t half;
    int64_t wide;
    uint64_t word;
    switch (dtype) {
#define DECODE(name, type)        \
    case name: {                  \
        type v;                   \
        memcpy(&v, in, sizeof v); \
        return (double)v;         \
    }
        C_TYPES(DECODE)
#undef DECODE
        case DHOW_I64:
            memcpy(&wide, in, sizeof wide);
            return (double)wide;
        case DHOW_U64:
            memcpy(&word, in, sizeof word);
            return (double)word;
        case DHOW_F16:
        case DHOW_BF16:
            memcpy(&half, in, sizeof half);
            return dtype == DHOW_F16 ? f16_value(half) : bf16_value(half);
    }
    return (double)NAN;
}

double conform_round(dhow_dtype dtype, double value) {
    char bytes[8];
    conform_encode(dtype, value, bytes);
    return conform_decode(dtype, bytes);
}

uint64_t conform_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* ---- arrays ---- */

conform_array conform_array_new(conform_env *env, dhow_dtype dtype, int32_t rank,
                                const int64_t *shape) {
    conform_array a = {.dtype = dtype, .rank = rank, .count = 1};
    for (int32_t i = 0; i < rank; i++) a.count *= a.shape[i] = shape[i];
    a.value = conform_memory(env, (size_t)a.count * sizeof(double));
    return a;
}

conform_array conform_array_random(conform_env *env, dhow_dtype dtype, int32_t rank,
                                   const int64_t *shape, double low, double high, uint64_t seed) {
    conform_array a = conform_array_new(env, dtype, rank, shape);
    uint64_t state = seed * 1000003 + 17;
    for (int64_t i = 0; i < a.count; i++) {
        double unit = (double)(conform_random(&state) >> 11) * 0x1p-53;
        double v = low + unit * (high - low);
        if (dtype == DHOW_BOOL) v = unit < 0.5 ? 0 : 1;
        a.value[i] = conform_round(dtype, conform_is_float(dtype) ? v : floor(v));
    }
    return a;
}

const char *conform_layout_name(conform_layout layout) {
    static const char *const names[] = {"plain", "offset", "stepped", "transposed"};
    return names[layout];
}

/* ---- tensors ---- */

static conform_result blank_offset(conform_env *env, const conform_array *like, dhow_tensor **out) {
    dhow_tensor *whole, *part;
    OWN(TENSOR, &whole,
        dhow_tensor_create(env->device, like->dtype, DHOW_SHAPE(like->count + 7), &whole));
    OWN(TENSOR, &part, dhow_tensor_slice(whole, 0, 3, 3 + like->count, 1, &part));
    OWN(TENSOR, out, dhow_tensor_reshape(part, like->rank, like->shape, out));
    return CONFORM_PASS;
}

static conform_result blank_stepped(conform_env *env, const conform_array *like,
                                    dhow_tensor **out) {
    int64_t shape[DHOW_MAX_RANK];
    dhow_tensor *whole;
    memcpy(shape, like->shape, sizeof shape);
    shape[like->rank - 1] = 2 * shape[like->rank - 1] + 1;
    OWN(TENSOR, &whole, dhow_tensor_create(env->device, like->dtype, like->rank, shape, &whole));
    OWN(TENSOR, out, dhow_tensor_slice(whole, -1, 1, 1 + 2 * like->shape[like->rank - 1], 2, out));
    return CONFORM_PASS;
}

static conform_result blank_transposed(conform_env *env, const conform_array *like,
                                       dhow_tensor **out) {
    int64_t shape[DHOW_MAX_RANK];
    int32_t order[DHOW_MAX_RANK];
    dhow_tensor *whole;
    for (int32_t i = 0; i < like->rank; i++) {
        order[i] = like->rank - 1 - i;
        shape[i] = like->shape[order[i]];
    }
    OWN(TENSOR, &whole, dhow_tensor_create(env->device, like->dtype, like->rank, shape, &whole));
    OWN(TENSOR, out, dhow_tensor_permute(whole, order, out));
    return CONFORM_PASS;
}

conform_result conform_blank(conform_env *env, const conform_array *like, conform_layout layout,
                             dhow_tensor **out) {
    if (layout == LAYOUT_OFFSET) return blank_offset(env, like, out);
    if (layout == LAYOUT_STEPPED && like->rank > 0) return blank_stepped(env, like, out);
    if (layout == LAYOUT_TRANSPOSED) return blank_transposed(env, like, out);
    OWN(TENSOR, out, dhow_tensor_create(env->device, like->dtype, like->rank, like->shape, out));
    return CONFORM_PASS;
}

conform_result conform_upload(conform_env *env, const conform_array *array, conform_layout layout,
                              dhow_tensor **out) {
    uint32_t element = dhow_dtype_bytes(array->dtype);
    char *bytes = conform_memory(env, (size_t)array->count * element);
    for (int64_t i = 0; i < array->count; i++) {
        conform_encode(array->dtype, array->value[i], bytes + i * element);
    }
    TRY(conform_blank(env, array, layout, out));
    OK(dhow_tensor_write(*out, bytes, (uint64_t)array->count * element));
    return CONFORM_PASS;
}

/* ---- comparing ---- */

conform_tolerance conform_tolerance_of(dhow_dtype dtype) {
    switch (dtype) {
        case DHOW_F64:
            return (conform_tolerance){1e-13, 1e-12};
        case DHOW_F32:
            return (conform_tolerance){1e-6, 4e-6};
        case DHOW_F16:
            return (conform_tolerance){1e-4, 1.5e-3};
        case DHOW_BF16:
            return (conform_tolerance){1e-4, 1e-2};
        default:
            return (conform_tolerance){0, 0};
    }
}

static bool is_near(double got, double want, conform_tolerance tolerance) {
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got)) return got == want;
    return fabs(got - want) <= tolerance.absolute + tolerance.relative * fabs(want);
}

conform_result conform_expect(conform_env *env, dhow_tensor *tensor, const conform_array *want,
                              conform_tolerance tolerance, const char *what) {
    uint32_t element = dhow_dtype_bytes(want->dtype);
    char *bytes = conform_memory(env, (size_t)want->count * element);
    OK(dhow_tensor_read(tensor, bytes, (uint64_t)want->count * element));
    for (int64_t i = 0; i < want->count; i++) {
        double got = conform_decode(want->dtype, bytes + i * element);
        double target = conform_round(want->dtype, want->value[i]);
        if (conform_is_float(want->dtype) && isfinite(target)) target = want->value[i];
        CHECK(is_near(got, target, tolerance),
              "%s: element %" PRId64 " of %" PRId64 " is %.9g, not %.9g", what, i, want->count, got,
              target);
    }
    return CONFORM_PASS;
}

int64_t conform_broadcast_at(const conform_array *operand, int32_t rank, const int64_t *shape,
                             int64_t index) {
    int64_t at = 0, stride = 1;
    for (int32_t i = rank; i-- > 0;) {
        int64_t position = index % shape[i];
        int32_t own = i - (rank - operand->rank);
        index /= shape[i];
        if (own < 0) continue;
        if (operand->shape[own] != 1) at += position * stride;
        stride *= operand->shape[own];
    }
    return at;
}

void conform_pattern(void *memory, uint64_t bytes, uint64_t seed) {
    unsigned char *p = memory;
    uint64_t state = seed;
    for (uint64_t i = 0; i < bytes; i += 8) {
        uint64_t word = conform_random(&state);
        memcpy(p + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

conform_result conform_expect_bytes(conform_env *env, dhow_tensor *tensor, const void *want,
                                    uint64_t bytes, const char *what) {
    unsigned char *got = conform_memory(env, bytes);
    const unsigned char *wanted = want;
    OK(dhow_tensor_read(tensor, got, bytes));
    for (uint64_t i = 0; i < bytes && memcmp(got, want, bytes) != 0; i++) {
        CHECK(got[i] == wanted[i], "%s: byte %" PRIu64 " of %" PRIu64 " is %u, not %u", what, i,
              bytes, got[i], wanted[i]);
    }
    return CONFORM_PASS;
}
