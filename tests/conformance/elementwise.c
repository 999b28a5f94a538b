/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of elementwise operations and casts: each with every dtype it takes, against a reference in
 * double, with odd sizes, views in every layout, broadcasting and in place.
 */
#include "ops.h"

/* ---- one input ---- */

typedef dhow_status (*unary_fn)(dhow_stream *, dhow_tensor *, dhow_tensor *);

static double ref_relu(double x) { return x > 0 ? x : 0; }
static double ref_gelu(double x) { return x / 2 * erfc(-x * M_SQRT1_2); }
static double ref_gelu_tanh(double x) {
    return x / 2 * (1 + tanh(M_SQRT2 * M_2_SQRTPI / 2 * (x + 0.044715 * x * x * x)));
}
static double ref_silu(double x) { return x / (1 + exp(-x)); }
static double ref_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double ref_tanh(double x) { return tanh(x); }
static double ref_exp(double x) { return exp(x); }
static double ref_log(double x) { return log(x); }
static double ref_sqrt(double x) { return sqrt(x); }
static double ref_neg(double x) { return -x; }
static double ref_abs(double x) { return fabs(x); }

static conform_result unary(conform_env *env, dhow_dtype dtype, unary_fn op, double (*ref)(double),
                            bool positive) {
    static const int64_t shapes[][2] = {{1, 1}, {1, 7}, {3, 5}, {37, 129}};
    NEEDS_DTYPE(dtype);
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        conform_array x =
            conform_array_random(env, dtype, 2, shapes[s], positive ? 0.01 : -6, 6, s + 1);
        conform_array want = conform_array_new(env, dtype, 2, shapes[s]);
        for (int64_t i = 0; i < x.count; i++) want.value[i] = ref(x.value[i]);
        for (conform_layout from = LAYOUT_PLAIN; from < LAYOUT_COUNT; from++) {
            for (conform_layout to = LAYOUT_PLAIN; to < LAYOUT_COUNT; to++) {
                dhow_tensor *tx, *ty;
                TRY(conform_upload(env, &x, from, &tx));
                TRY(conform_blank(env, &want, to, &ty));
                OK(op(NULL, tx, ty));
                TRY(conform_expect(env, ty, &want, conform_tolerance_of(dtype),
                                   conform_layout_name(from)));
            }
            dhow_tensor *t;
            TRY(conform_upload(env, &x, from, &t));
            OK(op(NULL, t, t));
            TRY(conform_expect(env, t, &want, conform_tolerance_of(dtype), "in place"));
        }
    }
    return CONFORM_PASS;
}

#define POSITIVE_relu false
#define POSITIVE_gelu false
#define POSITIVE_gelu_tanh false
#define POSITIVE_silu false
#define POSITIVE_sigmoid false
#define POSITIVE_tanh false
#define POSITIVE_exp false
#define POSITIVE_log true
#define POSITIVE_sqrt true
#define POSITIVE_neg false
#define POSITIVE_abs false
#define UNARY_ONE(name, TYPE, type)                                               \
    static conform_result unary_##name##_##type(conform_env *env) {               \
        return unary(env, DHOW_##TYPE, dhow_##name, ref_##name, POSITIVE_##name); \
    }
#define UNARY(name, formula)  \
    UNARY_ONE(name, F32, f32) \
    UNARY_ONE(name, F64, f64) UNARY_ONE(name, F16, f16) UNARY_ONE(name, BF16, bf16)
DHOW_UNARY_MAP(UNARY)

/* Values where formulas go wrong: zeros, large ones, infinities, NaN. */
static conform_result special_values(conform_env *env) {
    static const double values[] = {0.0, -0.0, 90, -90, 1e30, -1e30, INFINITY, -INFINITY, NAN};
    const int64_t n[] = {9};
    static const struct {
        unary_fn op;
        double (*ref)(double);
        const char *name;
    } ops[] = {{dhow_relu, ref_relu, "relu"}, {dhow_sigmoid, ref_sigmoid, "sigmoid"},
               {dhow_tanh, ref_tanh, "tanh"}, {dhow_exp, ref_exp, "exp"},
               {dhow_log, ref_log, "log"},    {dhow_sqrt, ref_sqrt, "sqrt"},
               {dhow_neg, ref_neg, "neg"},    {dhow_abs, ref_abs, "abs"}};
    conform_array x = conform_array_new(env, DHOW_F32, 1, n);
    conform_array want = conform_array_new(env, DHOW_F32, 1, n);
    dhow_tensor *tx, *ty;
    memcpy(x.value, values, sizeof values);
    TRY(conform_upload(env, &x, LAYOUT_PLAIN, &tx));
    TRY(conform_blank(env, &want, LAYOUT_PLAIN, &ty));
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        for (int k = 0; k < 9; k++) {
            want.value[k] = (double)(float)ops[i].ref((double)(float)values[k]);
        }
        if (ops[i].op == dhow_relu) want.value[8] = NAN;
        OK(ops[i].op(NULL, tx, ty));
        TRY(conform_expect(env, ty, &want, conform_tolerance_of(DHOW_F32), ops[i].name));
    }
    return CONFORM_PASS;
}

/* ---- two inputs ---- */

typedef dhow_status (*binary_fn)(dhow_stream *, dhow_tensor *, dhow_tensor *, dhow_tensor *);

static double ref_add(double a, double b) { return a + b; }
static double ref_sub(double a, double b) { return a - b; }
static double ref_mul(double a, double b) { return a * b; }
static double ref_div(double a, double b) { return a / b; }
static double ref_max(double a, double b) { return a > b ? a : b; }
static double ref_min(double a, double b) { return a < b ? a : b; }

/* Integers of a width wrap around; their division truncates, and by zero gives 0. */
static double binary_ref(dhow_dtype dtype, double (*ref)(double, double), double a, double b) {
    if (conform_is_float(dtype)) return ref(a, b);
    if (ref == ref_div) return b == 0 ? 0 : conform_round(dtype, trunc(a / b));
    double r = ref(a, b), span = scalbn(1, (int)dhow_dtype_bytes(dtype) * 8);
    if (dtype == DHOW_I64) return r;
    r = fmod(r, span);
    if (r < 0) r += span;
    return dtype != DHOW_U8 && r >= span / 2 ? r - span : r;
}

typedef struct pair {
    int32_t rank_a, rank_b, rank;
    int64_t a[5], b[5], y[5];
} pair;

static const pair k_pairs[] = {
    {1, 1, 1, {1}, {1}, {1}},
    {2, 2, 2, {33, 65}, {33, 65}, {33, 65}},
    {2, 1, 2, {17, 33}, {33}, {17, 33}},
    {2, 2, 2, {17, 1}, {1, 33}, {17, 33}},
    {3, 0, 3, {3, 5, 7}, {0}, {3, 5, 7}},
    {1, 3, 3, {7}, {3, 5, 7}, {3, 5, 7}},
    {5, 4, 5, {2, 1, 3, 1, 5}, {4, 1, 3, 1}, {2, 4, 3, 3, 5}},
};

static conform_result binary_pair(conform_env *env, dhow_dtype dtype, binary_fn op,
                                  double (*ref)(double, double), const pair *p, uint64_t seed) {
    bool is_float = conform_is_float(dtype);
    double low = is_float ? -8 : dtype == DHOW_U8 ? 0 : -100, high = is_float ? 8 : 101;
    conform_array a = conform_array_random(env, dtype, p->rank_a, p->a, low, high, seed);
    conform_array b = conform_array_random(env, dtype, p->rank_b, p->b,
                                           ref == ref_div && is_float ? 0.5 : low, high, seed + 9);
    conform_array want = conform_array_new(env, dtype, p->rank, p->y);
    for (int64_t i = 0; i < want.count; i++) {
        want.value[i] = binary_ref(dtype, ref, a.value[conform_broadcast_at(&a, p->rank, p->y, i)],
                                   b.value[conform_broadcast_at(&b, p->rank, p->y, i)]);
    }
    for (int k = 0; k < 2 * LAYOUT_COUNT; k++) { /* a selection of the layouts' combinations */
        dhow_tensor *ta, *tb, *ty;
        TRY(conform_upload(env, &a, (conform_layout)(k % LAYOUT_COUNT), &ta));
        TRY(conform_upload(env, &b, (conform_layout)((k + k / 4) % LAYOUT_COUNT), &tb));
        TRY(conform_blank(env, &want, (conform_layout)((k / 2) % LAYOUT_COUNT), &ty));
        OK(op(NULL, ta, tb, ty));
        TRY(conform_expect(env, ty, &want, conform_tolerance_of(dtype),
                           conform_layout_name((conform_layout)(k % LAYOUT_COUNT))));
        if (p->rank_a != p->rank || a.count != want.count) continue;
        OK(op(NULL, ta, tb, ta));
        TRY(conform_expect(env, ta, &want, conform_tolerance_of(dtype), "in place"));
    }
    return CONFORM_PASS;
}

static conform_result binary(conform_env *env, dhow_dtype dtype, binary_fn op,
                             double (*ref)(double, double)) {
    NEEDS_DTYPE(dtype);
    for (size_t i = 0; i < sizeof k_pairs / sizeof k_pairs[0]; i++) {
        TRY(binary_pair(env, dtype, op, ref, &k_pairs[i], i));
    }
    return CONFORM_PASS;
}

#define BINARY_ONE(name, TYPE, type)                                 \
    static conform_result binary_##name##_##type(conform_env *env) { \
        return binary(env, DHOW_##TYPE, dhow_##name, ref_##name);    \
    }
#define BINARY(name, formula)    \
    BINARY_ONE(name, F32, f32)   \
    BINARY_ONE(name, F64, f64)   \
    BINARY_ONE(name, F16, f16)   \
    BINARY_ONE(name, BF16, bf16) \
    BINARY_ONE(name, I32, i32)   \
    BINARY_ONE(name, I64, i64) BINARY_ONE(name, I8, i8) BINARY_ONE(name, U8, u8)
DHOW_BINARY_MAP(BINARY)

static conform_result integer_corners(conform_env *env) {
    const int32_t a[] = {INT32_MIN, INT32_MIN, INT32_MAX, 7, -7, 0}, b[] = {-1, 0, 1, 2, 2, 0};
    const int32_t quotient[] = {INT32_MIN, 0, INT32_MAX, 3, -3, 0};
    const int32_t sum[] = {INT32_MAX, INT32_MIN, INT32_MIN, 9, -5, 0};
    dhow_tensor *ta, *tb, *ty;
    OWN(TENSOR, &ta, dhow_tensor_from_data(env->device, DHOW_I32, DHOW_SHAPE(6), a, &ta));
    OWN(TENSOR, &tb, dhow_tensor_from_data(env->device, DHOW_I32, DHOW_SHAPE(6), b, &tb));
    OWN(TENSOR, &ty, dhow_tensor_create(env->device, DHOW_I32, DHOW_SHAPE(6), &ty));
    OK(dhow_div(NULL, ta, tb, ty));
    TRY(conform_expect_bytes(env, ty, quotient, sizeof quotient, "div"));
    OK(dhow_add(NULL, ta, tb, ty));
    return conform_expect_bytes(env, ty, sum, sizeof sum, "add");
}

static conform_result nan_wins(conform_env *env) {
    const float a[] = {NAN, 1, NAN, -INFINITY}, b[] = {2, NAN, NAN, 3};
    float got[4];
    dhow_tensor *ta, *tb, *ty;
    OWN(TENSOR, &ta, dhow_tensor_from_data(env->device, DHOW_F32, DHOW_SHAPE(4), a, &ta));
    OWN(TENSOR, &tb, dhow_tensor_from_data(env->device, DHOW_F32, DHOW_SHAPE(4), b, &tb));
    OWN(TENSOR, &ty, dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(4), &ty));
    for (int k = 0; k < 2; k++) {
        OK(k == 0 ? dhow_max(NULL, ta, tb, ty) : dhow_min(NULL, ta, tb, ty));
        OK(dhow_tensor_read(ty, got, sizeof got));
        CHECK(isnan(got[0]) && isnan(got[1]) && isnan(got[2]) && !isnan(got[3]), "%s: %g %g %g %g",
              k == 0 ? "max" : "min", (double)got[0], (double)got[1], (double)got[2],
              (double)got[3]);
    }
    return CONFORM_PASS;
}

/* ---- casts ---- */

/* The ends of an integer type's range, as near as a double comes. */
static double low_of(dhow_dtype dtype) {
    return dtype == DHOW_I8    ? -0x1p7
           : dtype == DHOW_I16 ? -0x1p15
           : dtype == DHOW_I32 ? -0x1p31
           : dtype == DHOW_I64 ? -0x1p63
                               : 0;
}
static double span_of(dhow_dtype dtype) { return exp2(8 * (int)dhow_dtype_bytes(dtype)); }

static double cast_ref(dhow_dtype from, dhow_dtype to, double v) {
    if (to == DHOW_BOOL) return v != 0;
    if (conform_is_float(to)) return conform_round(to, v);
    double low = low_of(to), span = span_of(to);
    if (conform_is_float(from)) return isnan(v) ? 0 : fmin(fmax(trunc(v), low), low + span - 1);
    double r = fmod(v, span); /* integers keep their low bits */
    if (r >= low + span) r -= span;
    if (r < low) r += span;
    return r;
}

/* Values past the ends of narrower types, as `from` holds them; those that it does not hold are
 * left out. */
static int64_t cast_corners(dhow_dtype from, double *out) {
    static const double floats[] = {NAN,   INFINITY, -INFINITY, 0.99,   -0.99,   1.5,
                                    -5,    -128.7,   255.9,     -0.0,   40000,   -40000,
                                    70000, -70000,   0x1p31,    0x1p32, -0x1p40, 0x1p63,
                                    1e19,  0x1p64,   0x1p83,    0,      -0x1p83, 65535.5};
    static const double integers[] = {0,       1,      -1,         -5,     127,    128,     -129,
                                      255,     256,    32767,      32768,  -32769, 65535,   65536,
                                      -0x1p31, 0x1p31, 0x1p32 - 1, 0x1p32, 0x1p53, -0x1p53, 0x1p63};
    bool is_float = conform_is_float(from);
    int64_t count = 0;
    if (from == DHOW_BOOL) return 0;
    for (size_t i = 0; is_float && i < sizeof floats / sizeof floats[0]; i++) {
        out[count++] = conform_round(from, floats[i]);
    }
    for (size_t i = 0; !is_float && i < sizeof integers / sizeof integers[0]; i++) {
        double low = low_of(from);
        if (integers[i] >= low && integers[i] < low + span_of(from)) out[count++] = integers[i];
    }
    return count;
}

static conform_result cast_from(conform_env *env, dhow_dtype from) {
    static const dhow_dtype types[] = {DHOW_F32, DHOW_F64, DHOW_F16, DHOW_BF16, DHOW_I8,
                                       DHOW_U8,  DHOW_I16, DHOW_U16, DHOW_I32,  DHOW_U32,
                                       DHOW_I64, DHOW_U64, DHOW_BOOL};
    const int64_t extent[] = {11, 23};
    NEEDS_DTYPE(from);
    bool is_float = conform_is_float(from), is_byte = dhow_dtype_bytes(from) == 1;
    double reach = is_byte ? 100 : from == DHOW_BF16 ? 3000 : from == DHOW_I16 ? 30000 : 60000;
    double least = is_float || low_of(from) < 0 ? -reach : 0;
    conform_array x = conform_array_random(env, from, 2, extent, least, reach, 12);
    (void)cast_corners(from, x.value);
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
        dhow_dtype to = types[k];
        if (!conform_computes(env, to)) continue;
        conform_array want = conform_array_new(env, to, 2, extent);
        for (int64_t i = 0; i < x.count; i++) want.value[i] = cast_ref(from, to, x.value[i]);
        for (conform_layout at = LAYOUT_PLAIN; at < LAYOUT_COUNT; at++) {
            dhow_tensor *tx, *ty;
            char what[64];
            TRY(conform_upload(env, &x, at, &tx));
            TRY(conform_blank(env, &want, (conform_layout)((at + k) % LAYOUT_COUNT), &ty));
            OK(dhow_cast(NULL, tx, ty));
            (void)snprintf(what, sizeof what, "to %s, %s", dhow_dtype_name(to),
                           conform_layout_name(at));
            /* The reference rounds once; through f32 it may be twice. */
            conform_tolerance t = {0, to == DHOW_F16 ? 0x1p-10 : to == DHOW_BF16 ? 0x1p-7 : 0};
            TRY(conform_expect(env, ty, &want, t, what));
        }
    }
    return CONFORM_PASS;
}

#define CAST_ONE(TYPE, type) \
    static conform_result cast_##type(conform_env *env) { return cast_from(env, DHOW_##TYPE); }
#define RARE(X) X(I16, i16) X(U16, u16) X(U32, u32) X(U64, u64)
NUMBERS(CAST_ONE)
RARE(CAST_ONE)
CAST_ONE(BOOL, bool)
/* ---- the table ---- */

#define UNARY_CASE(name, type) CASE("unary/" #name "_" #type, unary_##name##_##type, "ops," #type),
#define UNARY_CASES(name, formula) \
    UNARY_CASE(name, f32) UNARY_CASE(name, f64) UNARY_CASE(name, f16) UNARY_CASE(name, bf16)
#define BINARY_CASE(name, type) \
    CASE("binary/" #name "_" #type, binary_##name##_##type, "ops,broadcast," #type),
#define BINARY_CASES(name, formula) \
    BINARY_CASE(name, f32)          \
    BINARY_CASE(name, f64)          \
    BINARY_CASE(name, f16)          \
    BINARY_CASE(name, bf16)         \
    BINARY_CASE(name, i32) BINARY_CASE(name, i64) BINARY_CASE(name, i8) BINARY_CASE(name, u8)
#define CAST_CASE(TYPE, type) CASE("cast/" #type, cast_##type, "ops," #type),
const conform_case conform_elementwise_cases[] = {
    DHOW_UNARY_MAP(UNARY_CASES) DHOW_BINARY_MAP(BINARY_CASES) NUMBERS(CAST_CASE) RARE(CAST_CASE)
        CAST_CASE(BOOL, bool) CASE("unary/special", special_values, "ops"),
    CASE("binary/integers", integer_corners, "ops"),
    CASE("binary/nan", nan_wins, "ops"),
};
CASES_END(conform_elementwise);
