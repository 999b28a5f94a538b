/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of arithmetic with numbers: every dtype, layout and form against references in double,
 * integers that doubles have not, numbers that are refused, fills, and models.
 */
#include "support.h"

typedef dhow_status (*scalar_fn)(dhow_stream *, dhow_tensor *, dhow_scalar, dhow_tensor *);
typedef dhow_status (*model_fn)(dhow_model *, dhow_model_value, dhow_scalar, dhow_model_value *);

static double ref_add(double x, double s) { return x + s; }
static double ref_sub(double x, double s) { return x - s; }
static double ref_mul(double x, double s) { return x * s; }
static double ref_div(double x, double s) { return x / s; }
static double ref_max(double x, double s) { return x > s ? x : s; }
static double ref_min(double x, double s) { return x < s ? x : s; }

static const struct {
    const char *name;
    scalar_fn function;
    model_fn build;
    double (*ref)(double, double);
    double real, whole; /* the number for floats, and for integers */
} k_ops[] = {{"add", dhow_add_scalar, dhow_model_add_scalar, ref_add, 2.625, 3},
             {"sub", dhow_sub_scalar, dhow_model_sub_scalar, ref_sub, 2.625, 3},
             {"mul", dhow_mul_scalar, dhow_model_mul_scalar, ref_mul, 0.3, 7},
             {"div", dhow_div_scalar, dhow_model_div_scalar, ref_div, 0.3, 3},
             {"max", dhow_max_scalar, dhow_model_max_scalar, ref_max, 1.5, 2},
             {"min", dhow_min_scalar, dhow_model_min_scalar, ref_min, 1.5, 2},
             {"square", dhow_pow_scalar, dhow_model_pow_scalar, pow, 2, 2},
             {"cube", dhow_pow_scalar, dhow_model_pow_scalar, pow, 3, 3},
             {"root", dhow_pow_scalar, dhow_model_pow_scalar, pow, 0.5, 1},
             {"power", dhow_pow_scalar, dhow_model_pow_scalar, pow, 1.7, 4},
             {"inverse", dhow_pow_scalar, dhow_model_pow_scalar, pow, -2, 0}};
enum { OPS = sizeof k_ops / sizeof k_ops[0] };

static bool is_signed(dhow_dtype dtype) {
    return dtype == DHOW_I8 || dtype == DHOW_I16 || dtype == DHOW_I32 || dtype == DHOW_I64;
}

/* Integers wrap, and divide truncated. */
static double reference(dhow_dtype dtype, double value) {
    double span = scalbn(1, (int)dhow_dtype_bytes(dtype) * 8);
    if (conform_is_float(dtype) || dhow_dtype_bytes(dtype) == 8)
        return conform_is_float(dtype) ? value : trunc(value);
    double r = fmod(trunc(value), span);
    if (r < 0) r += span;
    return is_signed(dtype) && r >= span / 2 ? r - span : r;
}

/* f32 holds the number of f16 and bf16. */
static double number_of(dhow_dtype dtype, int k) {
    double s = conform_is_float(dtype) ? k_ops[k].real : k_ops[k].whole;
    return dtype == DHOW_F64 ? s : (double)(float)s;
}

static conform_array sample(conform_env *env, dhow_dtype dtype, uint64_t seed) {
    static const int64_t shape[] = {5, 67};
    bool real = conform_is_float(dtype);
    double low = real ? 0.5 : is_signed(dtype) ? -9 : 0;
    return conform_array_random(env, dtype, 2, shape, low, real ? 4 : 10, seed);
}

static conform_result arithmetic(conform_env *env, dhow_dtype dtype) {
    NEEDS_DTYPE(dtype);
    for (int k = 0; k < OPS; k++) {
        conform_array x = sample(env, dtype, (uint64_t)k + 1);
        conform_array want = conform_array_new(env, dtype, x.rank, x.shape);
        const double number = number_of(dtype, k);
        const dhow_scalar s =
            conform_is_float(dtype) ? dhow_scalar_f64(number) : dhow_scalar_i64((int64_t)number);
        for (int64_t i = 0; i < x.count; i++)
            want.value[i] = reference(dtype, k_ops[k].ref(x.value[i], number));
        for (conform_layout at = LAYOUT_PLAIN; at < LAYOUT_COUNT; at++) {
            dhow_tensor *tx, *ty;
            TRY(conform_upload(env, &x, at, &tx));
            TRY(conform_blank(env, &want, (conform_layout)(LAYOUT_COUNT - 1 - at), &ty));
            OK(k_ops[k].function(NULL, tx, s, ty));
            TRY(conform_expect(env, ty, &want, conform_tolerance_of(dtype), k_ops[k].name));
            OK(k_ops[k].function(NULL, tx, s, tx));
            TRY(conform_expect(env, tx, &want, conform_tolerance_of(dtype), "in place"));
        }
    }
    return CONFORM_PASS;
}

static conform_result affine(conform_env *env, dhow_dtype dtype) {
    conform_array x = sample(env, dtype, 77);
    conform_array want = conform_array_new(env, dtype, x.rank, x.shape);
    const bool real = conform_is_float(dtype);
    const double a = real ? -0.5 : 3, b = real ? 1.25 : 2;
    dhow_tensor *tx, *ty;
    for (int64_t i = 0; i < x.count; i++) want.value[i] = reference(dtype, x.value[i] * a + b);
    TRY(conform_upload(env, &x, LAYOUT_TRANSPOSED, &tx));
    TRY(conform_blank(env, &want, LAYOUT_PLAIN, &ty));
    /* A number may be of another kind than the tensor. */
    OK(dhow_affine(NULL, tx, DHOW_SCALAR(a), DHOW_SCALAR(b), ty));
    return conform_expect(env, ty, &want, conform_tolerance_of(dtype), "affine");
}

#define TYPES(X)                                                                                  \
    X(F32, f32)                                                                                   \
    X(F64, f64)                                                                                   \
    X(F16, f16)                                                                                   \
    X(BF16, bf16) X(I8, i8) X(U8, u8) X(I16, i16) X(U16, u16) X(I32, i32) X(U32, u32) X(I64, i64) \
        X(U64, u64)
#define ARITHMETIC(TYPE, type)                                  \
    static conform_result arithmetic_##type(conform_env *env) { \
        TRY(arithmetic(env, DHOW_##TYPE));                      \
        return affine(env, DHOW_##TYPE);                        \
    }
TYPES(ARITHMETIC)

/* ---- what doubles have not ---- */

static conform_result exact(conform_env *env) {
    const int64_t big = (INT64_C(1) << 53) + 1, x[] = {0, 1, -1, big, INT64_MIN};
    const int64_t sum[] = {big, big + 1, big - 1, 2 * big, INT64_MIN + big};
    const int64_t product[] = {0, big, -big, 2 * big - 1, INT64_MIN}; /* 2^106 is lost */
    const int64_t larger[] = {big, big, big, big, big};
    const uint64_t u[] = {0, 1, UINT64_MAX}, less[] = {1, 2, 0};
    dhow_tensor *tx, *ty, *tu, *tv;
    OWN(TENSOR, &tx, dhow_tensor_from_data(env->device, DHOW_I64, DHOW_SHAPE(5), x, &tx));
    OWN(TENSOR, &ty, dhow_tensor_create(env->device, DHOW_I64, DHOW_SHAPE(5), &ty));
    OWN(TENSOR, &tu, dhow_tensor_from_data(env->device, DHOW_U64, DHOW_SHAPE(3), u, &tu));
    OWN(TENSOR, &tv, dhow_tensor_create(env->device, DHOW_U64, DHOW_SHAPE(3), &tv));
    OK(dhow_add_scalar(NULL, tx, DHOW_SCALAR(big), ty));
    TRY(conform_expect_bytes(env, ty, sum, sizeof sum, "add_scalar of 2^53 + 1"));
    OK(dhow_mul_scalar(NULL, tx, DHOW_SCALAR(big), ty));
    TRY(conform_expect_bytes(env, ty, product, sizeof product, "mul_scalar of 2^53 + 1"));
    OK(dhow_max_scalar(NULL, tx, DHOW_SCALAR(big), ty));
    TRY(conform_expect_bytes(env, ty, larger, sizeof larger, "max_scalar of 2^53 + 1"));
    OK(dhow_sub_scalar(NULL, tu, DHOW_SCALAR(UINT64_MAX), tv));
    TRY(conform_expect_bytes(env, tv, less, sizeof less, "sub_scalar of 2^64 - 1"));
    OK(dhow_fill_scalar(NULL, ty, DHOW_SCALAR(big)));
    TRY(conform_expect_bytes(env, ty, larger, sizeof larger, "fill_scalar of 2^53 + 1"));
    OWN(TENSOR, &tv,
        dhow_tensor_full_scalar(env->device, DHOW_U64, DHOW_SHAPE(1), DHOW_SCALAR(UINT64_MAX),
                                &tv));
    return conform_expect_bytes(env, tv, &u[2], sizeof u[2], "full_scalar of 2^64 - 1");
}

static conform_result refusals(conform_env *env) {
    static const struct {
        dhow_dtype dtype;
        dhow_scalar s;
        dhow_status status;
        const char *text;
    } cases[] = {
        {DHOW_U8, {DHOW_I64, {.i64 = -1}}, DHOW_OUT_OF_RANGE, "-1 is beyond the range of u8"},
        {DHOW_U8, {DHOW_I64, {.i64 = 256}}, DHOW_OUT_OF_RANGE, "256 is beyond the range of u8"},
        {DHOW_I8, {DHOW_I64, {.i64 = 128}}, DHOW_OUT_OF_RANGE, "128 is beyond the range of i8"},
        {DHOW_I8, {DHOW_I64, {.i64 = -129}}, DHOW_OUT_OF_RANGE, "-129 is beyond"},
        {DHOW_I64, {DHOW_U64, {.u64 = UINT64_MAX}}, DHOW_OUT_OF_RANGE, "18446744073709551615 is"},
        {DHOW_U64, {DHOW_I64, {.i64 = -1}}, DHOW_OUT_OF_RANGE, "-1 is beyond the range of u64"},
        {DHOW_I64, {DHOW_F64, {.f64 = 0x1p63}}, DHOW_OUT_OF_RANGE, "is beyond the range of i64"},
        {DHOW_I32, {DHOW_F64, {.f64 = 2.5}}, DHOW_INVALID_ARGUMENT, "2.5 is no whole number"},
        {DHOW_I32, {DHOW_F64, {.f64 = NAN}}, DHOW_INVALID_ARGUMENT, "nan is no whole number"},
        {DHOW_F32, {DHOW_F64, {.f64 = 1e300}}, DHOW_OUT_OF_RANGE, "is beyond the range of f32"},
        {DHOW_F32, {DHOW_F32, {.f64 = 1}}, DHOW_INVALID_ARGUMENT, "DHOW_SCALAR()"}};
    const dhow_scalar whole = DHOW_SCALAR(1), one = dhow_scalar_f64(1);
    dhow_tensor *t, *flags;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OWN(TENSOR, &t, dhow_tensor_full(env->device, cases[i].dtype, DHOW_SHAPE(3), 1, &t));
        FAILS(cases[i].status, cases[i].text, dhow_mul_scalar(NULL, t, cases[i].s, t));
        FAILS(cases[i].status, cases[i].text, dhow_affine(NULL, t, whole, cases[i].s, t));
        FAILS(cases[i].status, cases[i].text, dhow_fill_scalar(NULL, t, cases[i].s));
        OK(dhow_mul_scalar(NULL, t, one, t)); /* a whole number may be a double */
    }
    OWN(TENSOR, &flags, dhow_tensor_full(env->device, DHOW_BOOL, DHOW_SHAPE(3), 1, &flags));
    FAILS(DHOW_INVALID_ARGUMENT, "bool", dhow_add_scalar(NULL, flags, whole, flags));
    return CONFORM_PASS;
}

/* ---- numbers that are none, and ends of ranges ---- */

static conform_result corners(conform_env *env) {
    const float x[] = {NAN, 1, -INFINITY, 4};
    const int32_t n[] = {INT32_MIN, 7, -7, 0}, none[] = {0, 0, 0, 0};
    const int32_t turned[] = {INT32_MIN, -7, 7, 0};
    float got[4];
    dhow_tensor *tx, *ty, *tn, *tm;
    OWN(TENSOR, &tx, dhow_tensor_from_data(env->device, DHOW_F32, DHOW_SHAPE(4), x, &tx));
    OWN(TENSOR, &ty, dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(4), &ty));
    OWN(TENSOR, &tn, dhow_tensor_from_data(env->device, DHOW_I32, DHOW_SHAPE(4), n, &tn));
    OWN(TENSOR, &tm, dhow_tensor_create(env->device, DHOW_I32, DHOW_SHAPE(4), &tm));
    OK(dhow_max_scalar(NULL, tx, DHOW_SCALAR(2), ty));
    OK(dhow_tensor_read(ty, got, sizeof got));
    CHECK(isnan(got[0]) && got[1] == 2 && got[2] == 2 && got[3] == 4, "max: %g %g %g %g",
          (double)got[0], (double)got[1], (double)got[2], (double)got[3]);
    OK(dhow_min_scalar(NULL, tx, DHOW_SCALAR(NAN), ty));
    OK(dhow_tensor_read(ty, got, sizeof got));
    for (int i = 0; i < 4; i++) CHECK(isnan(got[i]), "min with NaN: %g", (double)got[i]);
    OK(dhow_div_scalar(NULL, tx, DHOW_SCALAR(0), ty));
    OK(dhow_tensor_read(ty, got, sizeof got));
    CHECK(isinf(got[1]) && isinf(got[3]) && got[2] < 0, "div by 0: %g %g", (double)got[1],
          (double)got[2]);
    OK(dhow_div_scalar(NULL, tn, DHOW_SCALAR(0), tm));
    TRY(conform_expect_bytes(env, tm, none, sizeof none, "integers by 0"));
    OK(dhow_div_scalar(NULL, tn, DHOW_SCALAR(-1), tm));
    return conform_expect_bytes(env, tm, turned, sizeof turned, "integers by -1");
}

/* ---- models ---- */

static conform_result run_model(conform_env *env, dhow_dtype dtype, int k, dhow_scalar s) {
    conform_array x = sample(env, dtype, (uint64_t)k + 1);
    conform_array want = conform_array_new(env, dtype, x.rank, x.shape);
    dhow_model *m;
    dhow_model_value v;
    dhow_tensor *tx, *ty;
    const double number = number_of(dtype, k);
    for (int64_t i = 0; i < x.count; i++)
        want.value[i] = reference(dtype, k_ops[k].ref(x.value[i], number));
    OWN(MODEL, &m, dhow_model_create(env->context, &m));
    OK(dhow_model_input(m, "x", dtype, 2, x.shape, &v));
    OK(k_ops[k].build(m, v, s, &v));
    OK(dhow_model_output(m, "y", v));
    OK(dhow_model_to(m, env->device));
    TRY(conform_upload(env, &x, LAYOUT_PLAIN, &tx));
    TRY(conform_blank(env, &want, LAYOUT_PLAIN, &ty));
    for (int run = 0; run < 2; run++) {
        OK(dhow_model_run_into(m, NULL, &tx, 1, &ty, 1));
        TRY(conform_expect(env, ty, &want, conform_tolerance_of(dtype), k_ops[k].name));
    }
    return CONFORM_PASS;
}

static conform_result models(conform_env *env) {
    for (int k = 0; k < OPS; k++) {
        TRY(run_model(env, DHOW_F32, k, dhow_scalar_f64(k_ops[k].real)));
        TRY(run_model(env, DHOW_I32, k, dhow_scalar_i64((int64_t)k_ops[k].whole)));
    }
    return CONFORM_PASS;
}

static conform_result exact_models(conform_env *env) {
    const int64_t big = (INT64_C(1) << 53) + 1, x[] = {0, 1, -1};
    const int64_t want[] = {3, big + 3, 3 - big};
    dhow_model *m;
    dhow_model_value in, y;
    dhow_tensor *tx, *ty;
    OWN(MODEL, &m, dhow_model_create(env->context, &m));
    OK(dhow_model_input(m, "x", DHOW_I64, DHOW_SHAPE(3), &in));
    OK(dhow_model_affine(m, in, DHOW_SCALAR(big), DHOW_SCALAR(2), &y));
    OK(dhow_model_add_scalar(m, y, DHOW_SCALAR(big), &y));
    OK(dhow_model_sub_scalar(m, y, DHOW_SCALAR(big - 1), &y));
    FAILS(DHOW_INVALID_ARGUMENT, "0.5", dhow_model_mul_scalar(m, y, DHOW_SCALAR(0.5), &in));
    OK(dhow_model_output(m, "y", y));
    OK(dhow_model_to(m, env->device));
    OWN(TENSOR, &tx, dhow_tensor_from_data(env->device, DHOW_I64, DHOW_SHAPE(3), x, &tx));
    OWN(TENSOR, &ty, dhow_tensor_create(env->device, DHOW_I64, DHOW_SHAPE(3), &ty));
    OK(dhow_model_run_into(m, NULL, &tx, 1, &ty, 1));
    return conform_expect_bytes(env, ty, want, sizeof want, "numbers of 54 bits in a model");
}

const conform_case conform_scalar_cases[] = {
#define ROW(TYPE, type) CASE("scalars/" #type, arithmetic_##type, "ops," #type),
    TYPES(ROW) CASE("scalars/exact", exact, "ops,i64,u64"),
    CASE("scalars/refusals", refusals, "ops"),
    CASE("scalars/corners", corners, "ops,f32,i32"),
    CASE("scalars/models", models, "ops,f32,i32"),
    CASE("scalars/exact_models", exact_models, "ops,i64"),
};
CASES_END(conform_scalar);
