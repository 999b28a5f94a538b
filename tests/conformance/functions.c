/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of functions that are elementwise programs: values against references in double, layouts,
 * broadcasting, in place, and what is refused.
 */
#include "support.h"

typedef dhow_status (*function_fn)(dhow_stream *, dhow_tensor *, dhow_tensor *);

static double ref_reciprocal(double x) { return 1 / x; }
static double ref_square(double x) { return x * x; }
static double ref_sign(double x) { return (x > 0) - (x < 0); }
static double ref_softplus(double x) { return log1p(exp(-fabs(x))) + fmax(x, 0); }
static double ref_softsign(double x) { return x / (1 + fabs(x)); }
static double ref_mish(double x) { return x * tanh(ref_softplus(x)); }
static double ref_hard_swish(double x) { return x * fmax(0, fmin(1, x / 6 + 0.5)); }

static const struct {
    const char *name;
    function_fn function;
    double (*ref)(double);
    double low, high;
} k_functions[] = {{"erf", dhow_erf, erf, -4, 4},
                   {"reciprocal", dhow_reciprocal, ref_reciprocal, 0.25, 4},
                   {"square", dhow_square, ref_square, -4, 4},
                   {"sign", dhow_sign, ref_sign, -4, 4},
                   {"floor", dhow_floor, floor, -4, 4},
                   {"ceil", dhow_ceil, ceil, -4, 4},
                   {"round", dhow_round, rint, -4, 4},
                   {"sin", dhow_sin, sin, -9, 9},
                   {"cos", dhow_cos, cos, -9, 9},
                   {"tan", dhow_tan, tan, -1, 1},
                   {"asin", dhow_asin, asin, -1, 1},
                   {"acos", dhow_acos, acos, -0.9, 0.9},
                   {"atan", dhow_atan, atan, -9, 9},
                   {"sinh", dhow_sinh, sinh, -3, 3},
                   {"cosh", dhow_cosh, cosh, -3, 3},
                   {"asinh", dhow_asinh, asinh, -9, 9},
                   {"acosh", dhow_acosh, acosh, 1.25, 9},
                   {"atanh", dhow_atanh, atanh, -0.9, 0.9},
                   {"softplus", dhow_softplus, ref_softplus, -6, 6},
                   {"softsign", dhow_softsign, ref_softsign, -6, 6},
                   {"mish", dhow_mish, ref_mish, -6, 6},
                   {"hard_swish", dhow_hard_swish, ref_hard_swish, -6, 6}};

static conform_result functions(conform_env *env, dhow_dtype dtype) {
    static const int64_t shape[] = {5, 67};
    NEEDS_DTYPE(dtype);
    for (size_t k = 0; k < sizeof k_functions / sizeof k_functions[0]; k++) {
        conform_array x = conform_array_random(env, dtype, 2, shape, k_functions[k].low,
                                               k_functions[k].high, k + 1);
        conform_array want = conform_array_new(env, dtype, 2, shape);
        for (int64_t i = 0; i < x.count; i++) want.value[i] = k_functions[k].ref(x.value[i]);
        for (conform_layout layout = LAYOUT_PLAIN; layout < LAYOUT_COUNT; layout++) {
            dhow_tensor *tx, *ty;
            TRY(conform_upload(env, &x, layout, &tx));
            TRY(conform_blank(env, &want, (conform_layout)(LAYOUT_COUNT - 1 - layout), &ty));
            OK(k_functions[k].function(NULL, tx, ty));
            TRY(conform_expect(env, ty, &want, conform_tolerance_of(dtype), k_functions[k].name));
            OK(k_functions[k].function(NULL, tx, tx));
            TRY(conform_expect(env, tx, &want, conform_tolerance_of(dtype), "in place"));
        }
    }
    return CONFORM_PASS;
}

#define FUNCTIONS(TYPE, type) \
    static conform_result functions_##type(conform_env *env) { return functions(env, DHOW_##TYPE); }
FUNCTIONS(F32, f32)
FUNCTIONS(F64, f64)
FUNCTIONS(F16, f16)
FUNCTIONS(BF16, bf16)

/* ---- two and three inputs ---- */

typedef dhow_status (*binary_fn)(dhow_stream *, dhow_tensor *, dhow_tensor *, dhow_tensor *);

static double ref_equal(double a, double b) { return a == b; }
static double ref_not_equal(double a, double b) { return a != b; }
static double ref_less(double a, double b) { return a < b; }
static double ref_less_equal(double a, double b) { return a <= b; }
static double ref_greater(double a, double b) { return a > b; }
static double ref_greater_equal(double a, double b) { return a >= b; }

static conform_result comparisons(conform_env *env) {
    static const struct {
        binary_fn function;
        double (*ref)(double, double);
    } all[] = {{dhow_equal, ref_equal},     {dhow_not_equal, ref_not_equal},
               {dhow_less, ref_less},       {dhow_less_equal, ref_less_equal},
               {dhow_greater, ref_greater}, {dhow_greater_equal, ref_greater_equal}};
    static const dhow_dtype types[] = {DHOW_F32, DHOW_F16, DHOW_I64, DHOW_I32, DHOW_U8, DHOW_BOOL,
                                       DHOW_I8,  DHOW_I16, DHOW_U16, DHOW_U32, DHOW_U64};
    static const int64_t shape[] = {4, 33}, row[] = {33};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        conform_array a = conform_array_random(env, types[t], 2, shape, 0, 3, t + 1);
        conform_array b = conform_array_random(env, types[t], 1, row, 0, 3, t + 9);
        conform_array want = conform_array_new(env, DHOW_BOOL, 2, shape);
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
            dhow_tensor *ta, *tb, *ty;
            for (int64_t i = 0; i < a.count; i++)
                want.value[i] = all[k].ref(a.value[i], b.value[i % 33]);
            TRY(conform_upload(env, &a, LAYOUT_PLAIN, &ta));
            TRY(conform_upload(env, &b, LAYOUT_STEPPED, &tb));
            TRY(conform_blank(env, &want, LAYOUT_PLAIN, &ty));
            OK(all[k].function(NULL, ta, tb, ty));
            TRY(conform_expect(env, ty, &want, conform_tolerance_of(DHOW_BOOL), "comparison"));
        }
    }
    return CONFORM_PASS;
}

static double ref_mod(double a, double b) { return a - b * floor(a / b); }

static conform_result powers_and_remainders(conform_env *env) {
    static const int64_t shape[] = {3, 41};
    conform_array a = conform_array_random(env, DHOW_F32, 2, shape, 0.5, 3, 1);
    conform_array b = conform_array_random(env, DHOW_F32, 2, shape, 0.5, 2, 2);
    conform_array n = conform_array_random(env, DHOW_I32, 2, shape, -50, 50, 3);
    conform_array d = conform_array_random(env, DHOW_I32, 2, shape, 1, 9, 4);
    conform_array want = conform_array_new(env, DHOW_F32, 2, shape);
    conform_array whole = conform_array_new(env, DHOW_I32, 2, shape);
    dhow_tensor *ta, *tb, *tn, *td, *ty, *tw;
    TRY(conform_upload(env, &a, LAYOUT_PLAIN, &ta));
    TRY(conform_upload(env, &b, LAYOUT_PLAIN, &tb));
    TRY(conform_upload(env, &n, LAYOUT_PLAIN, &tn));
    TRY(conform_upload(env, &d, LAYOUT_PLAIN, &td));
    TRY(conform_blank(env, &want, LAYOUT_PLAIN, &ty));
    TRY(conform_blank(env, &whole, LAYOUT_PLAIN, &tw));
    for (int64_t i = 0; i < a.count; i++) want.value[i] = pow(a.value[i], b.value[i]);
    OK(dhow_pow(NULL, ta, tb, ty));
    TRY(conform_expect(env, ty, &want, conform_tolerance_of(DHOW_F32), "pow"));
    for (int64_t i = 0; i < n.count; i++) whole.value[i] = ref_mod(n.value[i], d.value[i]);
    OK(dhow_mod(NULL, tn, td, tw));
    TRY(conform_expect(env, tw, &whole, conform_tolerance_of(DHOW_I32), "mod"));
    for (int64_t i = 0; i < n.count; i++) whole.value[i] = fmod(n.value[i], d.value[i]);
    OK(dhow_fmod(NULL, tn, td, tw));
    TRY(conform_expect(env, tw, &whole, conform_tolerance_of(DHOW_I32), "fmod"));
    for (int64_t i = 0; i < a.count; i++) want.value[i] = fmax(1, fmin(2, a.value[i]));
    OK(dhow_clip(NULL, ta, 1, 2, ty));
    TRY(conform_expect(env, ty, &want, conform_tolerance_of(DHOW_F32), "clip"));
    for (int64_t i = 0; i < a.count; i++)
        want.value[i] = a.value[i] - 2 < 0 ? (a.value[i] - 2) / 8 : a.value[i] - 2;
    OK(dhow_sub_scalar(NULL, ta, DHOW_SCALAR(2), ta));
    OK(dhow_leaky_relu(NULL, ta, 0.125, ty));
    TRY(conform_expect(env, ty, &want, conform_tolerance_of(DHOW_F32), "leaky_relu"));
    for (int64_t i = 0; i < a.count; i++)
        want.value[i] = want.value[i] < 0 ? 2 * expm1(8 * want.value[i]) : want.value[i];
    OK(dhow_elu(NULL, ta, 2, ty));
    TRY(conform_expect(env, ty, &want, conform_tolerance_of(DHOW_F32), "elu"));
    FAILS(DHOW_INVALID_ARGUMENT, "f32", dhow_pow(NULL, ta, ta, tw));
    return CONFORM_PASS;
}

static conform_result where(conform_env *env) {
    static const dhow_dtype types[] = {DHOW_F32, DHOW_BF16, DHOW_I64, DHOW_I16, DHOW_BOOL};
    static const int64_t shape[] = {6, 19}, column[] = {6, 1};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        conform_array c = conform_array_random(env, DHOW_BOOL, 2, column, 0, 1, t + 5);
        conform_array a = conform_array_random(env, types[t], 2, shape, 0, 1, t + 1);
        conform_array b = conform_array_random(env, types[t], 2, shape, 0, 1, t + 2);
        conform_array want = conform_array_new(env, types[t], 2, shape);
        dhow_tensor *tc, *ta, *tb, *ty;
        for (int64_t i = 0; i < a.count; i++)
            want.value[i] = c.value[i / 19] != 0 ? a.value[i] : b.value[i];
        TRY(conform_upload(env, &c, LAYOUT_PLAIN, &tc));
        TRY(conform_upload(env, &a, LAYOUT_TRANSPOSED, &ta));
        TRY(conform_upload(env, &b, LAYOUT_PLAIN, &tb));
        TRY(conform_blank(env, &want, LAYOUT_PLAIN, &ty));
        OK(dhow_where(NULL, tc, ta, tb, ty));
        TRY(conform_expect(env, ty, &want, conform_tolerance_of(types[t]), "where"));
        if (types[t] != DHOW_BOOL)
            FAILS(DHOW_INVALID_ARGUMENT, "takes bool", dhow_where(NULL, ta, ta, tb, ty));
    }
    return CONFORM_PASS;
}

const conform_case conform_function_cases[] = {
    CASE("functions/f32", functions_f32, "ops,f32"),
    CASE("functions/f64", functions_f64, "ops,f64"),
    CASE("functions/f16", functions_f16, "ops,f16"),
    CASE("functions/bf16", functions_bf16, "ops,bf16"),
    CASE("functions/comparisons", comparisons, "ops,broadcast"),
    CASE("functions/powers", powers_and_remainders, "ops"),
    CASE("functions/where", where, "ops,broadcast"),
};
CASES_END(conform_function);
