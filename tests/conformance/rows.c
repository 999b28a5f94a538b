/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that models make of two operands: softmax of scores with a scale and a mask, and norms of a
 * sum that is read again.
 */
#include <float.h>
#include <math.h>

#include "ops.h"

enum { BATCH = 2, HEADS = 3, ROWS = 5, MOST_COLS = 1030 };
static const int64_t k_cols[] = {1, 7, 64, 100, MOST_COLS};
enum { SHAPES = sizeof k_cols / sizeof k_cols[0] };

static conform_tolerance near(dhow_dtype dtype) {
    conform_tolerance t = conform_tolerance_of(dtype);
    t.absolute += 8 * t.relative;
    return t;
}

static void softmax_row(const double *x, const double *mask, double *y, int64_t cols) {
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < cols; j++) top = fmax(top, x[j] * 0.125 + mask[j]);
    for (int64_t j = 0; j < cols; j++) sum += y[j] = exp(x[j] * 0.125 + mask[j] - top);
    for (int64_t j = 0; j < cols; j++) y[j] /= sum;
}

/* A row of the mask for each row, a matrix for all heads, or a row for each of a batch. */
static conform_result masked_of(conform_env *env, dhow_dtype dtype, int64_t cols, int kind) {
    const int64_t shape[] = {BATCH, HEADS, ROWS, cols};
    const int64_t of_mask[] = {kind == 1 ? 1 : BATCH, kind == 0 ? HEADS : 1, kind == 2 ? 1 : ROWS,
                               cols};
    conform_array x = conform_array_random(env, dtype, 4, shape, -20, 20, 3);
    conform_array mask = conform_array_random(env, dtype, 4, of_mask, -6, 0, 4);
    conform_array want = conform_array_new(env, dtype, 4, shape);
    dhow_tensor *in[2], *y;
    dhow_model *m;
    dhow_model_value v[2];
    for (int64_t r = 0; r < BATCH * HEADS * ROWS; r++) {
        const int64_t own = kind == 0 ? r : kind == 1 ? r % ROWS : r / ROWS / HEADS;
        softmax_row(x.value + r * cols, mask.value + own * cols, want.value + r * cols, cols);
    }
    OWN(MODEL, &m, dhow_model_create(env->context, &m));
    OK(dhow_model_input(m, "x", dtype, 4, shape, &v[0]));
    OK(dhow_model_input(m, "mask", dtype, 4, of_mask, &v[1]));
    OK(dhow_model_mul_scalar(m, v[0], dhow_scalar_f64(0.125), &v[0]));
    OK(dhow_model_add(m, v[0], v[1], &v[0]));
    OK(dhow_model_softmax(m, v[0], -1, &v[0]));
    OK(dhow_model_output(m, "y", v[0]));
    OK(dhow_model_to(m, env->device));
    TRY(conform_upload(env, &x, LAYOUT_PLAIN, &in[0]));
    TRY(conform_upload(env, &mask, LAYOUT_PLAIN, &in[1]));
    TRY(conform_blank(env, &want, LAYOUT_PLAIN, &y));
    OK(dhow_model_run_into(m, NULL, in, 2, &y, 1));
    return conform_expect(env, y, &want, near(dtype), "softmax of masked scores");
}

static conform_result masked_rows(conform_env *env, dhow_dtype dtype) {
    NEEDS_DTYPE(dtype);
    for (int k = 0; k < SHAPES; k++)
        for (int kind = 0; kind < 3; kind++) TRY(masked_of(env, dtype, k_cols[k], kind));
    return CONFORM_PASS;
}

static void norm_row(const double *x, const double *other, const double *gamma, const double *beta,
                     double *y, int64_t cols) {
    double mean = 0, squares = 0;
    for (int64_t j = 0; j < cols; j++) mean += (x[j] + other[j]) / (double)cols;
    for (int64_t j = 0; j < cols; j++)
        squares += (x[j] + other[j] - mean) * (x[j] + other[j] - mean) / (double)cols;
    for (int64_t j = 0; j < cols; j++) {
        y[j] = (x[j] + other[j] - mean) / sqrt(squares + (double)0.01F) * gamma[j] + beta[j];
        y[j] += x[j] + other[j];
    }
}

/* layernorm(x + other) + (x + other), with an `other` of the same rows or one for all of a batch.
 */
static conform_result sum_of(conform_env *env, dhow_dtype dtype, int64_t cols, bool shared) {
    const int64_t shape[] = {BATCH, ROWS, cols};
    conform_array x = conform_array_random(env, dtype, 3, shape, -3, 3, 5);
    conform_array other =
        conform_array_random(env, dtype, shared ? 2 : 3, shape + (shared ? 1 : 0), -3, 3, 6);
    conform_array gamma = conform_array_random(env, dtype, 1, &cols, 0.5, 2, 7);
    conform_array beta = conform_array_random(env, dtype, 1, &cols, -1, 1, 8);
    conform_array want = conform_array_new(env, dtype, 3, shape);
    dhow_tensor *in[2], *rows[2], *y;
    dhow_model *m;
    dhow_model_value v[2], sum, norm;
    for (int64_t r = 0; r < BATCH * ROWS; r++)
        norm_row(x.value + r * cols, other.value + (shared ? r % ROWS : r) * cols, gamma.value,
                 beta.value, want.value + r * cols, cols);
    OWN(MODEL, &m, dhow_model_create(env->context, &m));
    OK(dhow_model_input(m, "x", dtype, 3, shape, &v[0]));
    OK(dhow_model_input(m, "other", dtype, other.rank, other.shape, &v[1]));
    OK(dhow_model_add(m, v[0], v[1], &sum));
    OK(dhow_model_layernorm(m, "n", sum, cols, 0.01F, &norm));
    OK(dhow_model_add(m, norm, sum, &norm));
    OK(dhow_model_output(m, "y", norm));
    OK(dhow_model_to(m, env->device));
    TRY(conform_upload(env, &gamma, LAYOUT_PLAIN, &rows[0]));
    TRY(conform_upload(env, &beta, LAYOUT_PLAIN, &rows[1]));
    OK(dhow_model_set_parameter(m, "n.weight", rows[0]));
    OK(dhow_model_set_parameter(m, "n.bias", rows[1]));
    TRY(conform_upload(env, &x, LAYOUT_PLAIN, &in[0]));
    TRY(conform_upload(env, &other, LAYOUT_PLAIN, &in[1]));
    TRY(conform_blank(env, &want, LAYOUT_PLAIN, &y));
    OK(dhow_model_run_into(m, NULL, in, 2, &y, 1));
    return conform_expect(env, y, &want, near(dtype), "layernorm of a sum");
}

static conform_result summed_rows(conform_env *env, dhow_dtype dtype) {
    NEEDS_DTYPE(dtype);
    for (int k = 0; k < SHAPES; k++)
        for (int shared = 0; shared < 2; shared++) TRY(sum_of(env, dtype, k_cols[k], shared != 0));
    return CONFORM_PASS;
}

/* What masks everything may be the least number that there is: then all have the same share. */
static conform_result least_rows(conform_env *env, dhow_dtype dtype) {
    enum { COLS = 64 };
    static const int64_t shape[] = {2, COLS};
    const double least = dtype == DHOW_F64    ? -DBL_MAX
                         : dtype == DHOW_F32  ? -(double)FLT_MAX
                         : dtype == DHOW_BF16 ? -0x1.fep127
                                              : -65504;
    dhow_tensor *x, *y;
    NEEDS_DTYPE(dtype);
    conform_array values = conform_array_new(env, dtype, 2, shape);
    conform_array want = conform_array_new(env, dtype, 2, shape);
    for (int64_t i = 0; i < 2 * COLS; i++) {
        values.value[i] = i == COLS ? 0 : least;
        want.value[i] = i < COLS ? 1.0 / COLS : i == COLS;
    }
    TRY(conform_upload(env, &values, LAYOUT_PLAIN, &x));
    TRY(conform_blank(env, &want, LAYOUT_PLAIN, &y));
    OK(dhow_softmax(NULL, x, 1, y));
    return conform_expect(env, y, &want, near(dtype), "softmax of the least numbers");
}

#define OF(TYPE, type)                                                                            \
    static conform_result masked_##type(conform_env *env) {                                       \
        return masked_rows(env, DHOW_##TYPE);                                                     \
    }                                                                                             \
    static conform_result least_##type(conform_env *env) { return least_rows(env, DHOW_##TYPE); } \
    static conform_result summed_##type(conform_env *env) { return summed_rows(env, DHOW_##TYPE); }
#define CASES_OF(TYPE, type)                                   \
    CASE("rows/masked_" #type, masked_##type, "ops," #type),   \
        CASE("rows/least_" #type, least_##type, "ops," #type), \
        CASE("rows/summed_" #type, summed_##type, "ops," #type),
FLOATS(OF)
const conform_case conform_rows_cases[] = {FLOATS(CASES_OF)};
CASES_END(conform_rows);
