/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of operations: each with every dtype it takes, against a reference in double, with odd
 * sizes, views in every layout, broadcasting and in place.
 */
#include "support.h"

#define FLOATS(X) X(F32, f32) X(F64, f64) X(F16, f16) X(BF16, bf16)
#define REDUCIBLE(X) FLOATS(X) X(I32, i32) X(I64, i64)
#define NUMBERS(X) REDUCIBLE(X) X(I8, i8) X(U8, u8)

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

/* ---- matrix products ---- */

/* Sums in a reference of double; the device adds `k` products in f32 in an order of its own. */
static conform_tolerance sum_tolerance(dhow_dtype dtype, int64_t k) {
    conform_tolerance t = conform_tolerance_of(dtype);
    double epsilon = dtype == DHOW_F64 ? 0x1p-52 : 0x1p-23;
    t.absolute += epsilon * (double)k * 4;
    return t;
}

static conform_result matmul_case(conform_env *env, dhow_dtype dtype, int64_t batch, int64_t m,
                                  int64_t n, int64_t k, bool shared_b, int variant) {
    const int64_t a_shape[] = {batch, m, k}, b_shape[] = {batch, k, n}, c_shape[] = {batch, m, n};
    conform_array a = conform_array_random(env, dtype, 3, a_shape, -1, 1, 21);
    conform_array b = shared_b ? conform_array_random(env, dtype, 2, b_shape + 1, -1, 1, 22)
                               : conform_array_random(env, dtype, 3, b_shape, -1, 1, 22);
    conform_array c = conform_array_new(env, dtype, 3, c_shape);
    for (int64_t i = 0; i < c.count; i++) {
        int64_t at = i / (m * n), row = i / n % m, col = i % n;
        for (int64_t p = 0; p < k; p++) {
            c.value[i] +=
                a.value[(at * m + row) * k + p] * b.value[((shared_b ? 0 : at) * k + p) * n + col];
        }
    }
    dhow_tensor *ta, *tb, *tc;
    char what[96];
    (void)snprintf(what, sizeof what,
                   "%" PRId64 " of %" PRId64 "x%" PRId64 "x%" PRId64 " variant %d", batch, m, n, k,
                   variant);
    TRY(conform_upload(env, &a, (conform_layout)(variant % LAYOUT_COUNT), &ta));
    TRY(conform_upload(env, &b, (conform_layout)(variant / 4 % LAYOUT_COUNT), &tb));
    TRY(conform_blank(env, &c, (conform_layout)((variant + variant / 4) % LAYOUT_COUNT), &tc));
    OK(dhow_matmul(NULL, ta, tb, tc));
    return conform_expect(env, tc, &c, sum_tolerance(dtype, k), what);
}

static conform_result matmul(conform_env *env, dhow_dtype dtype) {
    NEEDS_DTYPE(dtype);
    for (int variant = 0; variant < 16; variant++) {
        TRY(matmul_case(env, dtype, 1, 5, 7, 3, true, variant));
        TRY(matmul_case(env, dtype, 3, 5, 1, 9, false, variant));
        conform_release_all(env);
    }
    TRY(matmul_case(env, dtype, 1, 1, 1, 1, true, 0));
    TRY(matmul_case(env, dtype, 1, 1, 130, 67, true, 0));
    TRY(matmul_case(env, dtype, 2, 33, 65, 129, true, 0));
    TRY(matmul_case(env, dtype, 2, 33, 65, 129, false, 5));
    TRY(matmul_case(env, dtype, 2, 3, 4, 0, false, 0));
    return matmul_case(env, dtype, 1, 70, 90, 300, true, 3);
}

/* Less precision when it is allowed, and none of it left afterwards. */
static conform_result precision(conform_env *env) {
    const int64_t shape[] = {64, 64};
    conform_array a = conform_array_random(env, DHOW_F32, 2, shape, -1, 1, 25);
    conform_array c = conform_array_new(env, DHOW_F32, 2, shape);
    for (int64_t i = 0; i < 64 * 64; i++)
        for (int64_t p = 0; p < 64; p++)
            c.value[i] += a.value[i / 64 * 64 + p] * a.value[p * 64 + i % 64];
    dhow_tensor *ta, *tc;
    TRY(conform_upload(env, &a, LAYOUT_PLAIN, &ta));
    TRY(conform_blank(env, &c, LAYOUT_PLAIN, &tc));
    FAILS(DHOW_INVALID_ARGUMENT, "is no precision",
          dhow_device_set_precision(env->device, (dhow_precision)2));
    OK(dhow_device_set_precision(env->device, DHOW_PRECISION_REDUCED));
    dhow_status status = dhow_matmul(NULL, ta, ta, tc);
    CHECK(dhow_device_precision(env->device) == DHOW_PRECISION_REDUCED,
          "the precision is not kept");
    OK(dhow_device_set_precision(env->device, DHOW_PRECISION_F32));
    CHECK(status == DHOW_OK, "%s", dhow_last_error());
    TRY(conform_expect(env, tc, &c, (conform_tolerance){0.1, 0.01}, "in bf16"));
    OK(dhow_matmul(NULL, ta, ta, tc));
    return conform_expect(env, tc, &c, sum_tolerance(DHOW_F32, 64), "in f32 again");
}

static conform_result linear(conform_env *env, dhow_dtype dtype) {
    NEEDS_DTYPE(dtype);
    const int64_t x_shape[] = {3, 5, 37}, w_shape[] = {19, 37}, y_shape[] = {3, 5, 19};
    conform_array x = conform_array_random(env, dtype, 3, x_shape, -1, 1, 31);
    conform_array w = conform_array_random(env, dtype, 2, w_shape, -1, 1, 32);
    conform_array bias = conform_array_random(env, dtype, 1, w_shape, -1, 1, 33);
    for (int with_bias = 0; with_bias < 2; with_bias++) {
        conform_array y = conform_array_new(env, dtype, 3, y_shape);
        for (int64_t i = 0; i < y.count; i++) {
            int64_t row = i / 19, o = i % 19;
            y.value[i] = with_bias ? bias.value[o] : 0;
            for (int64_t p = 0; p < 37; p++)
                y.value[i] += x.value[row * 37 + p] * w.value[o * 37 + p];
        }
        for (int frozen = 0; frozen < 2; frozen++) {
            for (conform_layout at = LAYOUT_PLAIN; at < LAYOUT_COUNT; at++) {
                dhow_tensor *tx, *tw, *tb, *ty;
                TRY(conform_upload(env, &x, at, &tx));
                TRY(conform_upload(env, &w, at, &tw));
                TRY(conform_upload(env, &bias, at, &tb));
                TRY(conform_blank(env, &y, at, &ty));
                if (frozen) OK(dhow_tensor_freeze(tw));
                for (int twice = 0; twice < 2; twice++) {
                    OK(dhow_linear(NULL, tx, tw, with_bias ? tb : NULL, ty));
                    TRY(conform_expect(env, ty, &y, sum_tolerance(dtype, 37),
                                       frozen ? "frozen weight" : "weight"));
                }
            }
        }
    }
    return CONFORM_PASS;
}

#define PRODUCTS(TYPE, type)                                                                   \
    static conform_result matmul_##type(conform_env *env) { return matmul(env, DHOW_##TYPE); } \
    static conform_result linear_##type(conform_env *env) { return linear(env, DHOW_##TYPE); }
FLOATS(PRODUCTS)

/* ---- images ---- */

typedef struct image {
    int64_t n, c, h, w, k;
    dhow_window window; /* kernel given */
} image;

#define WINDOW(...) DHOW_FIELDS(dhow_window, __VA_ARGS__)
static const image k_images[] = {
    {1, 1, 5, 5, 1, WINDOW(.kernel = {3, 3})},
    {2, 3, 9, 11, 4, WINDOW(.kernel = {3, 2}, .stride = {2, 1}, .pad = {1, 0, 2, 1})},
    {1, 4, 8, 7, 6, WINDOW(.kernel = {3, 3}, .dilation = {2, 2}, .pad = {2, 2, 2, 2}, .groups = 2)},
    {2, 6, 6, 6, 6, WINDOW(.kernel = {1, 1}, .groups = 6)},
    {1, 8, 17, 13, 16, WINDOW(.kernel = {5, 5}, .stride = {3, 2}, .pad = {2, 2, 2, 2})},
    {1, 1, 4, 4, 17, WINDOW(.kernel = {1, 3}, .stride = {1, 2})},
};

static int64_t extent_of(const dhow_window *w, int i, int64_t size) {
    int64_t stride = w->stride[i] > 0 ? w->stride[i] : 1;
    int64_t dilation = w->dilation[i] > 0 ? w->dilation[i] : 1;
    return (size + w->pad[i] + w->pad[i + 2] - dilation * (w->kernel[i] - 1) - 1) / stride + 1;
}

/* The position in the input of a tap, or -1 in the padding. */
static int64_t tap(const dhow_window *w, int i, int64_t out, int64_t t, int64_t size) {
    int64_t stride = w->stride[i] > 0 ? w->stride[i] : 1;
    int64_t dilation = w->dilation[i] > 0 ? w->dilation[i] : 1;
    int64_t at = out * stride - w->pad[i] + t * dilation;
    return at >= 0 && at < size ? at : -1;
}

static double conv_at(const image *g, const conform_array *x, const conform_array *w, int64_t n,
                      int64_t k, int64_t oh, int64_t ow) {
    int64_t groups = g->window.groups > 0 ? g->window.groups : 1;
    int64_t per_group = g->c / groups, first = k / (g->k / groups) * per_group;
    double sum = 0;
    for (int64_t c = 0; c < per_group; c++) {
        for (int64_t i = 0; i < g->window.kernel[0]; i++) {
            for (int64_t j = 0; j < g->window.kernel[1]; j++) {
                int64_t y = tap(&g->window, 0, oh, i, g->h), z = tap(&g->window, 1, ow, j, g->w);
                if (y < 0 || z < 0) continue;
                sum +=
                    x->value[((n * g->c + first + c) * g->h + y) * g->w + z] *
                    w->value[((k * per_group + c) * g->window.kernel[0] + i) * g->window.kernel[1] +
                             j];
            }
        }
    }
    return sum;
}

static conform_result conv_case(conform_env *env, dhow_dtype dtype, const image *g, int variant) {
    int64_t groups = g->window.groups > 0 ? g->window.groups : 1;
    int64_t oh = extent_of(&g->window, 0, g->h), ow = extent_of(&g->window, 1, g->w);
    const int64_t x_shape[] = {g->n, g->c, g->h, g->w}, y_shape[] = {g->n, g->k, oh, ow};
    const int64_t w_shape[] = {g->k, g->c / groups, g->window.kernel[0], g->window.kernel[1]};
    conform_array x = conform_array_random(env, dtype, 4, x_shape, -1, 1, 41);
    conform_array w = conform_array_random(env, dtype, 4, w_shape, -1, 1, 42);
    conform_array bias = conform_array_random(env, dtype, 1, w_shape, -1, 1, 43);
    conform_array y = conform_array_new(env, dtype, 4, y_shape);
    bool with_bias = variant % 2 == 1;
    for (int64_t i = 0; i < y.count; i++) {
        int64_t k = i / (oh * ow) % g->k;
        y.value[i] = conv_at(g, &x, &w, i / (g->k * oh * ow), k, i / ow % oh, i % ow) +
                     (with_bias ? bias.value[k] : 0);
    }
    dhow_tensor *tx, *tw, *tb, *ty;
    conform_layout at = (conform_layout)(variant % LAYOUT_COUNT);
    TRY(conform_upload(env, &x, at, &tx));
    TRY(conform_upload(env, &w, at, &tw));
    TRY(conform_upload(env, &bias, at, &tb));
    TRY(conform_blank(env, &y, at, &ty));
    if (variant >= 2) OK(dhow_tensor_freeze(tw));
    OK(dhow_conv2d(NULL, tx, tw, with_bias ? tb : NULL, &g->window, ty));
    char what[64];
    (void)snprintf(what, sizeof what, "image %d variant %d", (int)(g - k_images), variant);
    return conform_expect(env, ty, &y, sum_tolerance(dtype, w.count / g->k + 1), what);
}

static conform_result pool_case(conform_env *env, dhow_dtype dtype, const image *g, bool max,
                                conform_layout at) {
    dhow_window window = g->window;
    window.dilation[0] = window.dilation[1] = window.groups = 0;
    for (int i = 0; i < 4; i++)
        window.pad[i] = window.pad[i] < window.kernel[i % 2] ? window.pad[i] : 0;
    int64_t oh = extent_of(&window, 0, g->h), ow = extent_of(&window, 1, g->w);
    const int64_t x_shape[] = {g->n, g->c, g->h, g->w}, y_shape[] = {g->n, g->c, oh, ow};
    conform_array x = conform_array_random(env, dtype, 4, x_shape, -3, 3, 51);
    conform_array y = conform_array_new(env, dtype, 4, y_shape);
    for (int64_t o = 0; o < y.count; o++) {
        double sum = 0, largest = -INFINITY;
        int64_t inside = 0, plane = o / (oh * ow);
        for (int64_t t = 0; t < window.kernel[0] * window.kernel[1]; t++) {
            int64_t r = tap(&window, 0, o / ow % oh, t / window.kernel[1], g->h);
            int64_t c = tap(&window, 1, o % ow, t % window.kernel[1], g->w);
            if (r < 0 || c < 0) continue;
            double v = x.value[(plane * g->h + r) * g->w + c];
            sum += v;
            largest = fmax(largest, v);
            inside++;
        }
        y.value[o] = max ? largest : sum / (double)inside;
    }
    dhow_tensor *tx, *ty;
    TRY(conform_upload(env, &x, at, &tx));
    TRY(conform_blank(env, &y, at, &ty));
    OK(max ? dhow_maxpool2d(NULL, tx, &window, ty) : dhow_avgpool2d(NULL, tx, &window, ty));
    return conform_expect(env, ty, &y, sum_tolerance(dtype, 25), max ? "maxpool" : "avgpool");
}

static conform_result images(conform_env *env, dhow_dtype dtype, bool pool) {
    NEEDS_DTYPE(dtype);
    for (size_t i = 0; i < sizeof k_images / sizeof k_images[0]; i++) {
        for (int v = 0; v < 4; v++) {
            if (!pool) TRY(conv_case(env, dtype, &k_images[i], v));
            if (pool) TRY(pool_case(env, dtype, &k_images[i], true, (conform_layout)v));
            if (pool) TRY(pool_case(env, dtype, &k_images[i], false, (conform_layout)v));
        }
    }
    return CONFORM_PASS;
}

#define IMAGES(TYPE, type)                                \
    static conform_result conv_##type(conform_env *env) { \
        return images(env, DHOW_##TYPE, false);           \
    }                                                     \
    static conform_result pool_##type(conform_env *env) { return images(env, DHOW_##TYPE, true); }
FLOATS(IMAGES)

/* ---- rows and reductions ---- */

typedef struct split {
    int64_t outer, n, inner;
} split;

static split split_at(const conform_array *a, int32_t dim) {
    split s = {1, a->shape[dim], 1};
    for (int32_t i = 0; i < dim; i++) s.outer *= a->shape[i];
    for (int32_t i = dim + 1; i < a->rank; i++) s.inner *= a->shape[i];
    return s;
}

static const int64_t k_row_shapes[][3] = {{1, 1, 1}, {3, 5, 7}, {2, 65, 33}, {4, 3, 1030}};

static conform_result softmax(conform_env *env, dhow_dtype dtype, bool logarithm) {
    NEEDS_DTYPE(dtype);
    for (size_t k = 0; k < 4; k++) {
        conform_array x = conform_array_random(env, dtype, 3, k_row_shapes[k], -9, 9, 61);
        for (int32_t dim = 0; dim < 3; dim++) {
            conform_array y = conform_array_new(env, dtype, 3, k_row_shapes[k]);
            split s = split_at(&x, dim);
            for (int64_t r = 0; r < s.outer * s.inner; r++) {
                const double *from = x.value + r / s.inner * s.n * s.inner + r % s.inner;
                double *to = y.value + (from - x.value), sum = 0, top = -INFINITY;
                for (int64_t j = 0; j < s.n; j++) top = fmax(top, from[j * s.inner]);
                for (int64_t j = 0; j < s.n; j++) sum += exp(from[j * s.inner] - top);
                for (int64_t j = 0; j < s.n; j++) {
                    double v = from[j * s.inner] - top;
                    to[j * s.inner] = logarithm ? v - log(sum) : exp(v) / sum;
                }
            }
            conform_layout at = (conform_layout)((k + (size_t)dim) % LAYOUT_COUNT);
            dhow_tensor *tx, *ty;
            TRY(conform_upload(env, &x, at, &tx));
            TRY(conform_blank(env, &y, (conform_layout)(dim % LAYOUT_COUNT), &ty));
            OK(logarithm ? dhow_log_softmax(NULL, tx, dim, ty)
                         : dhow_softmax(NULL, tx, dim - 3, ty));
            TRY(conform_expect(env, ty, &y, sum_tolerance(dtype, 8),
                               logarithm ? "log_softmax" : "softmax"));
        }
    }
    return CONFORM_PASS;
}

static conform_result layernorm(conform_env *env, dhow_dtype dtype) {
    NEEDS_DTYPE(dtype);
    static const int64_t shapes[][2] = {{1, 2}, {3, 7}, {65, 33}, {4, 1030}};
    for (size_t k = 0; k < 4; k++) {
        int64_t rows = shapes[k][0], cols = shapes[k][1];
        conform_array x = conform_array_random(env, dtype, 2, shapes[k], -3, 5, 71);
        conform_array gamma = conform_array_random(env, dtype, 1, &cols, 0.5, 2, 72);
        conform_array beta = conform_array_random(env, dtype, 1, &cols, -1, 1, 73);
        conform_array y = conform_array_new(env, dtype, 2, shapes[k]);
        for (int64_t r = 0; r < rows; r++) {
            const double *row = x.value + r * cols;
            double mean = 0, square = 0;
            for (int64_t j = 0; j < cols; j++) mean += row[j] / (double)cols;
            for (int64_t j = 0; j < cols; j++)
                square += (row[j] - mean) * (row[j] - mean) / (double)cols;
            for (int64_t j = 0; j < cols; j++) {
                y.value[r * cols + j] =
                    (row[j] - mean) / sqrt(square + (double)1e-5f) * gamma.value[j] + beta.value[j];
            }
        }
        dhow_tensor *tx, *tg, *tb, *ty;
        conform_layout at = (conform_layout)(k % LAYOUT_COUNT);
        TRY(conform_upload(env, &x, at, &tx));
        TRY(conform_upload(env, &gamma, at, &tg));
        TRY(conform_upload(env, &beta, at, &tb));
        TRY(conform_blank(env, &y, at, &ty));
        OK(dhow_layernorm(NULL, tx, tg, tb, 1e-5f, ty));
        conform_tolerance t = sum_tolerance(dtype, 16);
        if (dtype == DHOW_F16 || dtype == DHOW_BF16) t.absolute += 5e-3;
        TRY(conform_expect(env, ty, &y, t, "layernorm"));
    }
    return CONFORM_PASS;
}

typedef enum reduction { SUM, MEAN, MAX, MIN, ARGMAX } reduction;

static double reduce_ref(const double *from, split s, reduction kind) {
    double sum = 0, top = -INFINITY, low = INFINITY, at = 0;
    for (int64_t j = 0; j < s.n; j++) {
        double v = from[j * s.inner];
        sum += v;
        if (v > top) at = (double)j;
        top = fmax(top, v);
        low = fmin(low, v);
    }
    return kind == SUM    ? sum
           : kind == MEAN ? sum / (double)s.n
           : kind == MAX  ? top
           : kind == MIN  ? low
                          : at;
}

static dhow_status reduce(reduction kind, dhow_tensor *x, int32_t dim, dhow_tensor *y) {
    switch (kind) {
        case SUM:
            return dhow_reduce_sum(NULL, x, dim, y);
        case MEAN:
            return dhow_reduce_mean(NULL, x, dim, y);
        case MAX:
            return dhow_reduce_max(NULL, x, dim, y);
        case MIN:
            return dhow_reduce_min(NULL, x, dim, y);
        case ARGMAX:
            break;
    }
    return dhow_argmax(NULL, x, dim, y);
}

static conform_result reduction_case(conform_env *env, dhow_dtype dtype, reduction kind) {
    static const char *const names[] = {"sum", "mean", "max", "min", "argmax"};
    NEEDS_DTYPE(dtype);
    for (size_t k = 0; k < 4; k++) {
        conform_array x = conform_array_random(env, dtype, 3, k_row_shapes[k], -50, 50, 81);
        for (int32_t dim = 0; dim < 3; dim++) {
            int64_t kept[3], dropped[2];
            memcpy(kept, x.shape, sizeof kept);
            for (int32_t i = 0, to = 0; i < 3; i++) {
                if (i != dim) dropped[to++] = x.shape[i];
            }
            kept[dim] = 1;
            conform_array y = conform_array_new(env, kind == ARGMAX ? DHOW_I64 : dtype,
                                                k % 2 == 0 ? 3 : 2, k % 2 == 0 ? kept : dropped);
            split s = split_at(&x, dim);
            for (int64_t r = 0; r < s.outer * s.inner; r++) {
                y.value[r] =
                    reduce_ref(x.value + r / s.inner * s.n * s.inner + r % s.inner, s, kind);
            }
            dhow_tensor *tx, *ty;
            TRY(conform_upload(env, &x, (conform_layout)(k % LAYOUT_COUNT), &tx));
            TRY(conform_blank(env, &y, (conform_layout)(dim % LAYOUT_COUNT), &ty));
            OK(reduce(kind, tx, dim, ty));
            conform_tolerance t = {0, 0};
            if (conform_is_float(dtype) && (kind == SUM || kind == MEAN)) {
                t = sum_tolerance(dtype, s.n * 50);
            }
            TRY(conform_expect(env, ty, &y, t, names[kind]));
        }
    }
    return CONFORM_PASS;
}

#define ROWS(TYPE, type)                                         \
    static conform_result softmax_##type(conform_env *env) {     \
        return softmax(env, DHOW_##TYPE, false);                 \
    }                                                            \
    static conform_result log_softmax_##type(conform_env *env) { \
        return softmax(env, DHOW_##TYPE, true);                  \
    }                                                            \
    static conform_result layernorm_##type(conform_env *env) {   \
        return layernorm(env, DHOW_##TYPE);                      \
    }                                                            \
    static conform_result mean_##type(conform_env *env) {        \
        return reduction_case(env, DHOW_##TYPE, MEAN);           \
    }
FLOATS(ROWS)
#define REDUCTIONS(TYPE, type)                              \
    static conform_result sum_##type(conform_env *env) {    \
        return reduction_case(env, DHOW_##TYPE, SUM);       \
    }                                                       \
    static conform_result max_##type(conform_env *env) {    \
        return reduction_case(env, DHOW_##TYPE, MAX);       \
    }                                                       \
    static conform_result min_##type(conform_env *env) {    \
        return reduction_case(env, DHOW_##TYPE, MIN);       \
    }                                                       \
    static conform_result argmax_##type(conform_env *env) { \
        return reduction_case(env, DHOW_##TYPE, ARGMAX);    \
    }
REDUCIBLE(REDUCTIONS)

/* ---- gather ---- */

static conform_result gather(conform_env *env) {
    const int64_t index[] = {4, 0, -1, 5, 2, 2, INT64_MAX}, x_shape[] = {5, 3, 7},
                  y_shape[] = {7, 3, 7};
    dhow_tensor *ti, *tx, *ty;
    OWN(TENSOR, &ti, dhow_tensor_from_data(env->device, DHOW_I64, DHOW_SHAPE(7), index, &ti));
    for (dhow_dtype dtype = DHOW_F32; dtype <= DHOW_BOOL; dtype++) {
        conform_array x = conform_array_random(env, dtype, 3, x_shape, 0, 100, 91);
        conform_array y = conform_array_new(env, dtype, 3, y_shape);
        for (int64_t i = 0; i < y.count; i++) {
            int64_t row = index[i / 21];
            y.value[i] = row >= 0 && row < 5 ? x.value[row * 21 + i % 21] : 0;
        }
        for (conform_layout at = LAYOUT_PLAIN; at < LAYOUT_COUNT; at++) {
            TRY(conform_upload(env, &x, at, &tx));
            TRY(conform_blank(env, &y, (conform_layout)(LAYOUT_COUNT - 1 - at), &ty));
            OK(dhow_gather(NULL, tx, ti, ty));
            TRY(conform_expect(env, ty, &y, (conform_tolerance){0, 0}, dhow_dtype_name(dtype)));
        }
    }
    return CONFORM_PASS;
}

static conform_result nothing_to_do(conform_env *env) {
    dhow_tensor *x, *y, *sum;
    float got[3] = {9, 9, 9};
    OWN(TENSOR, &x, dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(3, 0), &x));
    OWN(TENSOR, &y, dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(3, 0), &y));
    OWN(TENSOR, &sum, dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(3), &sum));
    OK(dhow_relu(NULL, x, y));
    OK(dhow_add(NULL, x, y, y));
    OK(dhow_softmax(NULL, x, 1, y));
    OK(dhow_reduce_sum(NULL, x, 1, sum));
    OK(dhow_tensor_read(sum, got, sizeof got));
    CHECK(got[0] == 0 && got[2] == 0, "the sum of nothing is %g", (double)got[0]);
    FAILS(DHOW_INVALID_ARGUMENT, "has no elements", dhow_reduce_max(NULL, x, 1, sum));
    return CONFORM_PASS;
}

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
#define FLOAT_CASES(TYPE, type)                                       \
    CASE("matmul/" #type, matmul_##type, "ops,blas," #type),          \
        CASE("linear/" #type, linear_##type, "ops,blas," #type),      \
        CASE("conv2d/" #type, conv_##type, "ops,conv," #type),        \
        CASE("pool2d/" #type, pool_##type, "ops," #type),             \
        CASE("softmax/" #type, softmax_##type, "ops," #type),         \
        CASE("log_softmax/" #type, log_softmax_##type, "ops," #type), \
        CASE("layernorm/" #type, layernorm_##type, "ops," #type),     \
        CASE("reduce/mean_" #type, mean_##type, "ops," #type),
#define REDUCE_CASES(TYPE, type)                             \
    CASE("reduce/sum_" #type, sum_##type, "ops," #type),     \
        CASE("reduce/max_" #type, max_##type, "ops," #type), \
        CASE("reduce/min_" #type, min_##type, "ops," #type), \
        CASE("reduce/argmax_" #type, argmax_##type, "ops," #type),

const conform_case conform_op_cases[] = {
    DHOW_UNARY_MAP(UNARY_CASES) DHOW_BINARY_MAP(BINARY_CASES) NUMBERS(CAST_CASE) RARE(CAST_CASE)
        CAST_CASE(BOOL, bool) FLOATS(FLOAT_CASES) REDUCIBLE(REDUCE_CASES)
            CASE("unary/special", special_values, "ops"),
    CASE("binary/integers", integer_corners, "ops"),
    CASE("binary/nan", nan_wins, "ops"),
    CASE("matmul/precision", precision, "ops,blas"),
    CASE("gather", gather, "ops"),
    CASE("empty", nothing_to_do, "ops"),
};
CASES_END(conform_op);
