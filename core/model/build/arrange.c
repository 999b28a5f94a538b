/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of the builder that arrange, choose and reduce. Extents of -1 are open until the model
 * runs.
 */
#include <string.h>

#include "base/memory/size.h"
#include "model/build/build.h"
#include "model/lower/composite.h"

/* A value whose rank is known. */
static dhow_status begin(dhow_model *m, const char *function, dhow_model_value x,
                         dhow_model_value *out) {
    DHOWI_TRY(dhowi_build_begin(m, function, out));
    DHOWI_TRY(dhowi_build_value(m, function, x));
    if (m->values[x].desc.rank >= 0) return DHOW_OK;
    return dhowi_fail(DHOW_UNSUPPORTED, "%s: the shape of its input is not known", function);
}

static dhow_status finish(dhow_model *m, dhowi_layer_kind kind, const int32_t *in, uint32_t count,
                          const dhowi_attrs *attrs, const dhowi_tensor_desc *result,
                          dhow_model_value *out) {
    return dhowi_build_node(m, dhowi_layer_operator(kind), NULL, in, count, attrs, result, out);
}

/* -1 where an extent is open */
static int64_t count_of(const dhowi_tensor_desc *s) {
    int64_t count = 1;
    for (int32_t i = 0; i < s->rank; i++) {
        if (s->shape[i] < 0 || !dhowi_mul_i64(count, s->shape[i], &count)) return -1;
    }
    return count;
}

dhow_status dhow_model_reshape(dhow_model *m, dhow_model_value x, int32_t rank,
                               const int64_t *shape, dhow_model_value *out) {
    static const char function[] = "dhow_model_reshape";
    DHOWI_TRY(begin(m, function, x, out));
    const int64_t count = count_of(&m->values[x].desc);
    dhowi_tensor_desc result = {.dtype = m->values[x].desc.dtype, .rank = rank};
    dhowi_attrs attrs = {0};
    int32_t open = -1;
    int64_t known = 1;
    if (rank < 0 || rank > DHOW_MAX_RANK || (rank > 0 && shape == NULL))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: rank %d, or shape is NULL", function, rank);
    for (int32_t i = 0; i < rank; i++) {
        if (shape[i] < -1 || (shape[i] == -1 && open >= 0))
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: extent %d is %lld; one may be -1",
                              function, i, (long long)shape[i]);
        if (shape[i] == -1) open = i;
        if (shape[i] >= 0 && !dhowi_mul_i64(known, shape[i], &known)) known = 0;
        attrs.split.shape[i] = result.shape[i] = shape[i];
    }
    attrs.split.rank = rank;
    const bool fits = open >= 0 ? known > 0 && count % known == 0 : known == count;
    if (count >= 0 && !fits) {
        char a[160], b[160];
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s does not reshape to %s", function,
                          dhowi_desc_text(&m->values[x].desc, a, sizeof a),
                          dhowi_desc_text(&result, b, sizeof b));
    }
    if (count >= 0 && open >= 0) result.shape[open] = count / known;
    return finish(m, DHOWI_LAYER_RESHAPE, &x, 1, &attrs, &result, out);
}

dhow_status dhow_model_transpose(dhow_model *m, dhow_model_value x, int32_t dim0, int32_t dim1,
                                 dhow_model_value *out) {
    static const char function[] = "dhow_model_transpose";
    DHOWI_TRY(begin(m, function, x, out));
    const dhowi_tensor_desc own = m->values[x].desc;
    dhowi_tensor_desc result = own;
    dhowi_attrs attrs = {0};
    DHOWI_TRY(dhowi_dim_check(function, own.rank, dim0, &dim0));
    DHOWI_TRY(dhowi_dim_check(function, own.rank, dim1, &dim1));
    for (int32_t i = 0; i < own.rank; i++) {
        attrs.split.shape[i] = i == dim0 ? dim1 : i == dim1 ? dim0 : i;
        result.shape[i] = own.shape[attrs.split.shape[i]];
    }
    return finish(m, DHOWI_LAYER_PERMUTE, &x, 1, &attrs, &result, out);
}

/* Adds a part; extents that one side leaves open are the other's. */
static bool join(dhowi_tensor_desc *whole, const dhowi_tensor_desc *part, int32_t dim) {
    if (part->rank != whole->rank || part->dtype != whole->dtype) return false;
    for (int32_t i = 0; i < whole->rank; i++) {
        const int64_t a = whole->shape[i], b = part->shape[i];
        if (i == dim) {
            if (a < 0 || b < 0 || !dhowi_add_i64(a, b, &whole->shape[i])) whole->shape[i] = -1;
        } else if (a >= 0 && b >= 0 && a != b) {
            return false;
        } else if (a < 0) {
            whole->shape[i] = b;
        }
    }
    return true;
}

dhow_status dhow_model_cat(dhow_model *m, const dhow_model_value *values, uint32_t count,
                           int32_t dim, dhow_model_value *out) {
    static const char function[] = "dhow_model_cat";
    DHOWI_TRY(dhowi_build_begin(m, function, out));
    if (values == NULL || count == 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: there are no values", function);
    DHOWI_TRY(begin(m, function, values[0], out));
    dhowi_tensor_desc result = m->values[values[0]].desc;
    DHOWI_TRY(dhowi_dim_check(function, result.rank, dim, &dim));
    for (uint32_t i = 1; i < count; i++) {
        char a[160], b[160];
        DHOWI_TRY(dhowi_build_value(m, function, values[i]));
        const dhowi_tensor_desc before = result, *part = &m->values[values[i]].desc;
        if (!join(&result, part, dim))
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s does not join %s along dimension %d",
                              function, dhowi_desc_text(part, a, sizeof a),
                              dhowi_desc_text(&before, b, sizeof b), dim);
    }
    const dhowi_attrs attrs = {.dim = dim};
    return finish(m, DHOWI_LAYER_CAT, values, count, &attrs, &result, out);
}

dhow_status dhow_model_where(dhow_model *m, dhow_model_value condition, dhow_model_value a,
                             dhow_model_value b, dhow_model_value *out) {
    static const char function[] = "dhow_model_where";
    const int32_t in[] = {condition, a, b};
    dhowi_tensor_desc result = {.dtype = 0, .rank = 0};
    for (int i = 0; i < 3; i++) {
        DHOWI_TRY(begin(m, function, in[i], out));
        const dhowi_tensor_desc own = result, *s = &m->values[in[i]].desc;
        char p[160], q[160];
        if (!dhowi_shape_broadcast(own.rank, own.shape, s->rank, s->shape, &result.rank,
                                   result.shape))
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s and %s do not broadcast", function,
                              dhowi_desc_text(&own, p, sizeof p), dhowi_desc_text(s, q, sizeof q));
    }
    result.dtype = m->values[a].desc.dtype;
    if (m->values[condition].desc.dtype != DHOW_BOOL || m->values[b].desc.dtype != result.dtype)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: it takes bool and two of one dtype",
                          function);
    return finish(m, DHOWI_LAYER_WHERE, in, 3, NULL, &result, out);
}

dhow_status dhow_model_clip(dhow_model *m, dhow_model_value x, double low, double high,
                            dhow_model_value *out) {
    static const char function[] = "dhow_model_clip";
    DHOWI_TRY(begin(m, function, x, out));
    const dhowi_tensor_desc result = m->values[x].desc;
    const dhowi_attrs attrs = {.scalar = {dhow_scalar_f64(low), dhow_scalar_f64(high)}};
    if (result.dtype == DHOW_BOOL)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: x is bool, which it does not take", function);
    return finish(m, DHOWI_LAYER_CLIP, &x, 1, &attrs, &result, out);
}

/* The kind of dhowi_reduce(), see model/lower/composite.h. */
static int kind_of(dhow_reduction kind) {
    static const int kinds[] = {[DHOW_REDUCE_SUM] = DHOWI_SUM,
                                [DHOW_REDUCE_MEAN] = DHOWI_MEAN,
                                [DHOW_REDUCE_MAX] = DHOWI_MAX_OF,
                                [DHOW_REDUCE_MIN] = DHOWI_MIN_OF,
                                [DHOW_REDUCE_PROD] = DHOWI_PROD};
    return kinds[kind];
}

static dhow_status check_reduction(const char *function, dhow_reduction kind, dhow_dtype dtype) {
    const uint64_t taken = kind == DHOW_REDUCE_MEAN ? DHOWI_FLOATS : DHOWI_REDUCIBLE;
    if (kind < DHOW_REDUCE_SUM || kind > DHOW_REDUCE_PROD)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %d is no reduction", function, (int)kind);
    if ((taken & DHOW_DTYPE_BIT(dtype)) != 0) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: x is %s, which it does not take", function,
                      dhow_dtype_name(dtype));
}

/* Marks the dimensions to reduce, all where count is 0, and tells the result. */
static dhow_status mark_dims(const char *function, const dhowi_tensor_desc *x, const int32_t *dims,
                             uint32_t count, int32_t keep_dims, dhowi_attrs *attrs,
                             dhowi_tensor_desc *result) {
    *result = (dhowi_tensor_desc){.dtype = x->dtype};
    if (count > 0 && dims == NULL)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: dims is NULL", function);
    for (uint32_t i = 0; i < count; i++) {
        int32_t dim;
        DHOWI_TRY(dhowi_dim_check(function, x->rank, dims[i], &dim));
        if (attrs->split.strides[dim] != 0)
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: dimension %d is named twice", function,
                              dim);
        attrs->split.strides[dim] = 1;
    }
    for (int32_t i = 0; i < x->rank; i++) {
        if (count == 0) attrs->split.strides[i] = 1;
        const bool marked = attrs->split.strides[i] != 0;
        if (!marked || keep_dims != 0) result->shape[result->rank++] = marked ? 1 : x->shape[i];
    }
    attrs->split.flag[0] = keep_dims != 0;
    return DHOW_OK;
}

dhow_status dhow_model_reduce(dhow_model *m, dhow_reduction kind, dhow_model_value x,
                              const int32_t *dims, uint32_t count, int32_t keep_dims,
                              dhow_model_value *out) {
    static const char function[] = "dhow_model_reduce";
    DHOWI_TRY(begin(m, function, x, out));
    const dhowi_tensor_desc own = m->values[x].desc;
    dhowi_tensor_desc result;
    dhowi_attrs attrs = {0};
    DHOWI_TRY(check_reduction(function, kind, own.dtype));
    DHOWI_TRY(mark_dims(function, &own, dims, count, keep_dims, &attrs, &result));
    attrs.split.count = kind_of(kind);
    return finish(m, DHOWI_LAYER_REDUCE, &x, 1, &attrs, &result, out);
}

static dhow_status add_spread(dhow_model *m, const char *function, dhow_model_value x,
                              const int32_t *dims, uint32_t count, double correction,
                              int32_t keep_dims, bool root, dhow_model_value *out) {
    DHOWI_TRY(begin(m, function, x, out));
    const dhowi_tensor_desc own = m->values[x].desc;
    dhowi_tensor_desc result;
    dhowi_attrs attrs = {.number = correction};
    if (!dhowi_is_float(own.dtype))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: x is %s, which it does not take", function,
                          dhow_dtype_name(own.dtype));
    DHOWI_TRY(mark_dims(function, &own, dims, count, keep_dims, &attrs, &result));
    attrs.split.count = root;
    return finish(m, DHOWI_LAYER_SPREAD, &x, 1, &attrs, &result, out);
}

dhow_status dhow_model_var(dhow_model *m, dhow_model_value x, const int32_t *dims, uint32_t count,
                           double correction, int32_t keep_dims, dhow_model_value *out) {
    return add_spread(m, "dhow_model_var", x, dims, count, correction, keep_dims, false, out);
}

dhow_status dhow_model_std(dhow_model *m, dhow_model_value x, const int32_t *dims, uint32_t count,
                           double correction, int32_t keep_dims, dhow_model_value *out) {
    return add_spread(m, "dhow_model_std", x, dims, count, correction, keep_dims, true, out);
}
