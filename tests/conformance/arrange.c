/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of models that arrange, choose and reduce, with an open extent.
 */
#include "support.h"

/* y = mean over dimensions 0 and 2 of clip(where(x < 2, transpose(reshape(x)), -x'), -1, 3) joined
 * with itself. */
static conform_result arranged(conform_env *env, dhow_dtype dtype) {
    NEEDS_DTYPE(dtype);
    static const int64_t shape[] = {2, 12}, result[] = {1, 8, 1}, open[] = {-1, 12};
    static const int64_t split[] = {-1, 3, 4};
    static const int32_t dims[] = {2, 0};
    conform_array x = conform_array_random(env, dtype, 2, shape, -4, 4, 5);
    conform_array flags = conform_array_random(env, DHOW_BOOL, 1, (int64_t[]){3}, 0, 1, 6);
    conform_array want = conform_array_new(env, dtype, 3, result);
    dhow_model *m;
    dhow_model_value in, flag, v, turned, minus, both[2];
    dhow_tensor *inputs[2], *y;
    for (int64_t i = 0; i < 2; i++) {
        for (int64_t j = 0; j < 3; j++) {
            for (int64_t k = 0; k < 4; k++) {
                const double e = x.value[i * 12 + j * 4 + k], c = flags.value[j] != 0 ? e : -e;
                want.value[k] += fmax(-1, fmin(3, c));
                want.value[4 + k] += fmax(-1, fmin(3, c));
            }
        }
    }
    OWN(MODEL, &m, dhow_model_create(env->context, &m));
    OK(dhow_model_input(m, "x", dtype, 2, open, &in));
    OK(dhow_model_input(m, "flag", DHOW_BOOL, DHOW_SHAPE(3), &flag));
    OK(dhow_model_reshape(m, in, 3, split, &v));
    OK(dhow_model_transpose(m, v, 1, -1, &turned));
    OK(dhow_model_mul_scalar(m, turned, DHOW_SCALAR(-1), &minus));
    OK(dhow_model_where(m, flag, turned, minus, &v));
    OK(dhow_model_clip(m, v, -1, 3, &v));
    both[0] = both[1] = v;
    OK(dhow_model_cat(m, both, 2, 1, &v));
    OK(dhow_model_reduce(m, DHOW_REDUCE_SUM, v, dims, 2, 1, &v));
    OK(dhow_model_output(m, "y", v));
    OK(dhow_model_to(m, env->device));
    TRY(conform_upload(env, &x, LAYOUT_PLAIN, &inputs[0]));
    TRY(conform_upload(env, &flags, LAYOUT_PLAIN, &inputs[1]));
    TRY(conform_blank(env, &want, LAYOUT_PLAIN, &y));
    conform_tolerance t = conform_tolerance_of(dtype);
    t.absolute += conform_is_float(dtype) && dtype != DHOW_F64 ? 1e-5 : 0;
    for (int run = 0; run < 2; run++) {
        OK(dhow_model_run_into(m, NULL, inputs, 2, &y, 1));
        TRY(conform_expect(env, y, &want, t, "arranged"));
    }
    return CONFORM_PASS;
}

static conform_result arranged_f32(conform_env *env) { return arranged(env, DHOW_F32); }
static conform_result arranged_i32(conform_env *env) { return arranged(env, DHOW_I32); }

static conform_result reductions(conform_env *env) {
    static const int64_t shape[] = {3, 4};
    static const double first[] = {0, 0, 0, 0, 1};
    conform_array x = conform_array_random(env, DHOW_F32, 2, shape, 0.5, 1.5, 7);
    for (dhow_reduction kind = DHOW_REDUCE_SUM; kind <= DHOW_REDUCE_PROD; kind++) {
        conform_array want = conform_array_new(env, DHOW_F32, 0, NULL);
        dhow_model *m;
        dhow_model_value v;
        dhow_tensor *tx, *ty;
        double r =
            kind == DHOW_REDUCE_MAX || kind == DHOW_REDUCE_MIN ? x.value[0] : first[kind - 1];
        for (int64_t i = 0; i < x.count; i++)
            r = kind == DHOW_REDUCE_MAX    ? fmax(r, x.value[i])
                : kind == DHOW_REDUCE_MIN  ? fmin(r, x.value[i])
                : kind == DHOW_REDUCE_PROD ? r * x.value[i]
                : kind == DHOW_REDUCE_MEAN ? r + x.value[i] / 12
                                           : r + x.value[i];
        want.value[0] = r;
        OWN(MODEL, &m, dhow_model_create(env->context, &m));
        OK(dhow_model_input(m, "x", DHOW_F32, 2, shape, &v));
        OK(dhow_model_reduce(m, kind, v, NULL, 0, 0, &v));
        OK(dhow_model_output(m, "y", v));
        OK(dhow_model_to(m, env->device));
        TRY(conform_upload(env, &x, LAYOUT_PLAIN, &tx));
        TRY(conform_blank(env, &want, LAYOUT_PLAIN, &ty));
        OK(dhow_model_run_into(m, NULL, &tx, 1, &ty, 1));
        TRY(conform_expect(env, ty, &want, (conform_tolerance){1e-5, 1e-5}, "reduced"));
    }
    return CONFORM_PASS;
}

/* A tensor of the device, a view of another, and one of the host. */
static conform_result joined(conform_env *env) {
    enum { ROWS = 3, COLS = 12 };
    static const int64_t parts[] = {5, 1, 6}, all[] = {ROWS, COLS};
    conform_array want = conform_array_random(env, DHOW_F32, 2, all, -4, 4, 8);
    dhow_tensor *t[3], *y, *host;
    dhow_device *cpu;
    for (int64_t k = 0, at = 0; k < 3; at += parts[k++]) {
        conform_array part = conform_array_new(env, DHOW_F32, 2, (const int64_t[]){ROWS, parts[k]});
        for (int64_t i = 0; i < part.count; i++)
            part.value[i] = want.value[i / parts[k] * COLS + at + i % parts[k]];
        TRY(conform_upload(env, &part, k == 1 ? LAYOUT_OFFSET : LAYOUT_TRANSPOSED, &t[k]));
    }
    OK(dhow_device_get(env->context, "cpu", &cpu));
    OWN(TENSOR, &host, dhow_tensor_to(t[2], cpu, &host));
    t[2] = host;
    TRY(conform_blank(env, &want, LAYOUT_PLAIN, &y));
    OK(dhow_cat(NULL, t, 3, 1, y));
    return conform_expect(env, y, &want, conform_tolerance_of(DHOW_F32), "cat");
}

static conform_result refusals(conform_env *env) {
    static const int32_t twice[] = {0, -2};
    dhow_model *m;
    dhow_model_value x, flag, v, both[2];
    OWN(MODEL, &m, dhow_model_create(env->context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(2, 3), &x));
    OK(dhow_model_input(m, "flag", DHOW_BOOL, DHOW_SHAPE(2, 4), &flag));
    both[0] = x;
    both[1] = flag;
    FAILS(DHOW_INVALID_ARGUMENT, "does not reshape", dhow_model_reshape(m, x, DHOW_SHAPE(4), &v));
    FAILS(DHOW_INVALID_ARGUMENT, "one may be -1", dhow_model_reshape(m, x, DHOW_SHAPE(-1, -1), &v));
    FAILS(DHOW_OUT_OF_RANGE, "transpose", dhow_model_transpose(m, x, 0, 2, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "does not join", dhow_model_cat(m, both, 2, 0, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "no values", dhow_model_cat(m, both, 0, 0, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "broadcast", dhow_model_where(m, flag, x, x, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "takes bool", dhow_model_where(m, x, x, x, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "bool", dhow_model_clip(m, flag, 0, 1, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "twice",
          dhow_model_reduce(m, DHOW_REDUCE_SUM, x, twice, 2, 0, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "bool",
          dhow_model_reduce(m, DHOW_REDUCE_SUM, flag, NULL, 0, 0, &v));
    return CONFORM_PASS;
}

const conform_case conform_arrange_cases[] = {
    CASE("arrange/f32", arranged_f32, "ops,f32"),      CASE("arrange/i32", arranged_i32, "ops,i32"),
    CASE("arrange/reductions", reductions, "ops,f32"), CASE("arrange/cat", joined, "ops,f32"),
    CASE("arrange/refusals", refusals, "ops"),
};
CASES_END(conform_arrange);
