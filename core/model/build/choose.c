/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of the builder that choose, place and order elements along a dimension, and padding.
 */
#include <inttypes.h>

#include "base/memory/size.h"
#include "model/build/build.h"

/* ---- by index ---- */

static dhow_status check_index(const dhow_model *m, const char *function, dhow_model_value index,
                               int32_t rank) {
    const dhowi_tensor_desc *desc = &m->values[index].desc;
    char text[160];
    if (desc->dtype == DHOW_I64 && desc->rank == rank) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: index is %s; it takes i64 of rank %d", function,
                      dhowi_desc_text(desc, text, sizeof text), rank);
}

dhow_status dhowi_build_index_select(dhow_model *m, const char *function, dhow_model_value x,
                                     int32_t dim, dhow_model_value index, dhow_model_value *out) {
    const int32_t in[] = {x, index};
    dhowi_build_step s;
    DHOWI_TRY(dhowi_step_begin(m, &s, function, "Gather", in, 2, out));
    DHOWI_TRY(dhowi_dim_check(function, s.result[0].rank, dim, &dim));
    DHOWI_TRY(dhowi_build_value(m, function, index));
    DHOWI_TRY(check_index(m, function, index, 1));
    s.result[0].shape[dim] = m->values[index].desc.shape[0];
    dhowi_step_int(&s, "axis", dim);
    return dhowi_step_end(m, &s, out);
}

dhow_status dhow_model_index_select(dhow_model *m, dhow_model_value x, int32_t dim,
                                    dhow_model_value index, dhow_model_value *out) {
    return dhowi_build_index_select(m, "dhow_model_index_select", x, dim, index, out);
}

dhow_status dhow_model_gather(dhow_model *m, dhow_model_value x, dhow_model_value index,
                              dhow_model_value *out) {
    return dhowi_build_index_select(m, "dhow_model_gather", x, 0, index, out);
}

dhow_status dhowi_build_embedding(dhow_model *m, const char *function, dhow_model_value index,
                                  dhow_model_value weight, dhow_model_value *out) {
    const int32_t in[] = {weight, index};
    dhowi_build_step s;
    char a[160], b[160];
    DHOWI_TRY(dhowi_step_begin(m, &s, function, "Gather", in, 2, out));
    DHOWI_TRY(dhowi_build_value(m, function, index));
    const dhowi_tensor_desc w = s.result[0], *i = &m->values[index].desc;
    if (w.rank != 2 || i->dtype != DHOW_I64 || i->rank >= DHOW_MAX_RANK)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: index is %s, weight %s; it takes i64 of rank 0 to %d and a matrix",
                          function, dhowi_desc_text(i, a, sizeof a),
                          dhowi_desc_text(&w, b, sizeof b), DHOW_MAX_RANK - 1);
    s.result[0] = *i;
    s.result[0].dtype = w.dtype;
    s.result[0].shape[s.result[0].rank++] = w.shape[1];
    dhowi_step_int(&s, "axis", 0);
    return dhowi_step_end(m, &s, out);
}

/* An index of x's rank that is larger nowhere but along dim. */
static dhow_status check_inside(const dhow_model *m, const char *function, dhow_model_value x,
                                int32_t dim, dhow_model_value index) {
    const dhowi_tensor_desc *own = &m->values[x].desc, *i = &m->values[index].desc;
    DHOWI_TRY(check_index(m, function, index, own->rank));
    for (int32_t k = 0; k < own->rank; k++) {
        if (k != dim && own->shape[k] >= 0 && i->shape[k] > own->shape[k])
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: index has extent %" PRId64 " at dimension %d, x has %" PRId64,
                              function, i->shape[k], k, own->shape[k]);
    }
    return DHOW_OK;
}

dhow_status dhowi_build_take_along_dim(dhow_model *m, const char *function, dhow_model_value x,
                                       dhow_model_value index, int32_t dim, dhow_model_value *out) {
    const int32_t in[] = {x, index};
    dhowi_build_step s;
    DHOWI_TRY(dhowi_step_begin(m, &s, function, "GatherElements", in, 2, out));
    const dhow_dtype dtype = s.result[0].dtype;
    DHOWI_TRY(dhowi_dim_check(function, s.result[0].rank, dim, &dim));
    DHOWI_TRY(dhowi_build_value(m, function, index));
    DHOWI_TRY(check_inside(m, function, x, dim, index));
    s.result[0] = m->values[index].desc;
    s.result[0].dtype = dtype;
    dhowi_step_int(&s, "axis", dim);
    return dhowi_step_end(m, &s, out);
}

dhow_status dhow_model_take_along_dim(dhow_model *m, dhow_model_value x, dhow_model_value index,
                                      int32_t dim, dhow_model_value *out) {
    return dhowi_build_take_along_dim(m, "dhow_model_take_along_dim", x, index, dim, out);
}

static dhow_status check_source(const dhow_model *m, const char *function, dhow_dtype dtype,
                                dhow_model_value index, dhow_model_value source) {
    DHOWI_TRY(dhowi_build_value(m, function, source));
    const dhowi_tensor_desc *i = &m->values[index].desc, *s = &m->values[source].desc;
    bool fits = s->dtype == dtype && s->rank == i->rank;
    for (int32_t k = 0; fits && k < i->rank; k++)
        fits = s->shape[k] == i->shape[k] || s->shape[k] < 0 || i->shape[k] < 0;
    char a[160], b[160];
    if (fits) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: source is %s, index %s; it takes %s of its shape",
                      function, dhowi_desc_text(s, a, sizeof a), dhowi_desc_text(i, b, sizeof b),
                      dhow_dtype_name(dtype));
}

dhow_status dhowi_build_scatter(dhow_model *m, const char *function, dhow_model_value x,
                                int32_t dim, dhow_model_value index, dhow_model_value source,
                                dhow_scatter_mode reduce, dhow_model_value *out) {
    static const char *const names[] = {[DHOW_SCATTER_REPLACE] = "none",
                                        [DHOW_SCATTER_SUM] = "add",
                                        [DHOW_SCATTER_PROD] = "mul",
                                        [DHOW_SCATTER_MAX] = "max",
                                        [DHOW_SCATTER_MIN] = "min"};
    const int32_t in[] = {x, index, source};
    dhowi_build_step s;
    DHOWI_TRY(dhowi_step_begin(m, &s, function, "ScatterElements", in, 3, out));
    DHOWI_TRY(dhowi_dim_check(function, s.result[0].rank, dim, &dim));
    DHOWI_TRY(dhowi_build_value(m, function, index));
    DHOWI_TRY(check_inside(m, function, x, dim, index));
    DHOWI_TRY(check_source(m, function, s.result[0].dtype, index, source));
    if (reduce < DHOW_SCATTER_REPLACE || reduce > DHOW_SCATTER_MIN)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: reduce is %d; DHOW_SCATTER_... are allowed",
                          function, (int)reduce);
    if (reduce != DHOW_SCATTER_REPLACE && s.result[0].dtype == DHOW_BOOL)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: x is bool, which is only replaced", function);
    dhowi_step_int(&s, "axis", dim);
    dhowi_step_text(&s, "reduction", names[reduce]);
    return dhowi_step_end(m, &s, out);
}

dhow_status dhow_model_scatter(dhow_model *m, dhow_model_value x, int32_t dim,
                               dhow_model_value index, dhow_model_value source,
                               dhow_scatter_mode reduce, dhow_model_value *out) {
    return dhowi_build_scatter(m, "dhow_model_scatter", x, dim, index, source, reduce, out);
}

/* ---- in their order ---- */

static dhow_status begin_ordered(dhow_model *m, dhowi_build_step *s, const char *function,
                                 const char *op, dhow_model_value x, int32_t *dim,
                                 dhow_model_value *out) {
    DHOWI_TRY(dhowi_step_begin(m, s, function, op, &x, 1, out));
    return dhowi_dim_check(function, s->result[0].rank, *dim, dim);
}

static dhow_status check_reducible(const dhowi_build_step *s, const char *function) {
    const dhow_dtype dtype = s->result[0].dtype;
    if ((DHOWI_REDUCIBLE & DHOW_DTYPE_BIT(dtype)) != 0) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: x is %s, which it does not take", function,
                      dhow_dtype_name(dtype));
}

dhow_status dhow_model_cumsum(dhow_model *m, dhow_model_value x, int32_t dim,
                              dhow_model_value *out) {
    dhowi_build_step s;
    DHOWI_TRY(begin_ordered(m, &s, "dhow_model_cumsum", "CumSum", x, &dim, out));
    DHOWI_TRY(check_reducible(&s, "dhow_model_cumsum"));
    const int64_t axis = dim;
    dhowi_step_constant(m, &s, DHOW_I64, 0, 0, &axis);
    return dhowi_step_end(m, &s, out);
}

dhow_status dhow_model_argmin(dhow_model *m, dhow_model_value x, int32_t dim,
                              dhow_model_value *out) {
    dhowi_build_step s;
    DHOWI_TRY(begin_ordered(m, &s, "dhow_model_argmin", "ArgMin", x, &dim, out));
    DHOWI_TRY(check_reducible(&s, "dhow_model_argmin"));
    dhowi_tensor_desc *y = &s.result[0];
    for (int32_t i = dim; i + 1 < y->rank; i++) y->shape[i] = y->shape[i + 1];
    y->rank--;
    y->dtype = DHOW_I64;
    dhowi_step_int(&s, "axis", dim);
    dhowi_step_int(&s, "keepdims", 0);
    return dhowi_step_end(m, &s, out);
}

static dhow_status add_ordered(dhow_model *m, dhowi_build_step *s, int64_t k, int32_t dim,
                               int32_t largest, dhow_model_value *values,
                               dhow_model_value *indices) {
    dhow_model_value both[2];
    dhowi_step_int(s, "axis", dim);
    dhowi_step_int(s, "largest", largest != 0);
    dhowi_step_constant(m, s, DHOW_I64, 0, 0, &k);
    s->result[0].shape[dim] = k;
    s->result[1] = s->result[0];
    s->result[1].dtype = DHOW_I64;
    s->result_count = 2;
    DHOWI_TRY(dhowi_step_end(m, s, both));
    *values = both[0];
    *indices = both[1];
    return DHOW_OK;
}

/* Neither is a value until both are. */
static dhow_status begin_two(const char *function, dhow_model_value *values,
                             dhow_model_value *indices) {
    if (values != NULL) *values = -1;
    if (indices == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: indices is NULL", function);
    *indices = -1;
    return DHOW_OK;
}

dhow_status dhow_model_topk(dhow_model *m, dhow_model_value x, int64_t k, int32_t dim,
                            int32_t largest, dhow_model_value *values, dhow_model_value *indices) {
    static const char function[] = "dhow_model_topk";
    dhowi_build_step s;
    DHOWI_TRY(begin_two(function, values, indices));
    DHOWI_TRY(begin_ordered(m, &s, function, "TopK", x, &dim, values));
    const int64_t extent = s.result[0].shape[dim];
    if (k < 0 || (extent >= 0 && k > extent))
        return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: k is %" PRId64 " of an extent of %" PRId64,
                          function, k, extent);
    return add_ordered(m, &s, k, dim, largest, values, indices);
}

dhow_status dhow_model_sort(dhow_model *m, dhow_model_value x, int32_t dim, int32_t descending,
                            dhow_model_value *values, dhow_model_value *indices) {
    static const char function[] = "dhow_model_sort";
    dhowi_build_step s;
    DHOWI_TRY(begin_two(function, values, indices));
    DHOWI_TRY(begin_ordered(m, &s, function, "TopK", x, &dim, values));
    const int64_t extent = s.result[0].shape[dim];
    if (extent < 0)
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "%s: the extent of dimension %d is open; give dhow_model_input() the "
                          "extent along which it sorts",
                          function, dim);
    return add_ordered(m, &s, extent, dim, descending, values, indices);
}

/* ---- padding ---- */

enum { MAX_PADDING = 1 << 24 }; /* as the operator */

/* One side after the other of the dimensions from the last on, as PyTorch has them, to an
 * operator's order: before all dimensions, then after all. */
static dhow_status read_pads(const char *function, const int64_t *pads, uint32_t count,
                             dhowi_tensor_desc *y, int64_t all[2 * DHOW_MAX_RANK]) {
    if (count % 2 != 0 || count / 2 > (uint32_t)y->rank || (count > 0 && pads == NULL))
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: %u pads for rank %d; it takes two for each dimension from the last "
                          "on, at most %d",
                          function, pads != NULL ? count : 0, y->rank, 2 * y->rank);
    for (uint32_t i = 0; i < count / 2; i++) {
        const int32_t dim = y->rank - 1 - (int32_t)i;
        const int64_t before = pads[2 * i], after = pads[2 * i + 1];
        const bool sane = before >= -MAX_PADDING && before <= MAX_PADDING &&
                          after >= -MAX_PADDING && after <= MAX_PADDING;
        if (!sane || (y->shape[dim] >= 0 && y->shape[dim] + before + after < 0))
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: pads of %" PRId64 " and %" PRId64
                              " for dimension %d of extent %" PRId64,
                              function, before, after, dim, y->shape[dim]);
        all[dim] = before;
        all[y->rank + dim] = after;
        if (y->shape[dim] >= 0) y->shape[dim] += before + after;
    }
    return DHOW_OK;
}

dhow_status dhowi_build_pad(dhow_model *m, const char *function, dhow_model_value x,
                            const int64_t *pads, uint32_t count, dhow_pad_mode mode, double value,
                            dhow_model_value *out) {
    static const char *const names[] = {[DHOW_PAD_CONSTANT] = "constant",
                                        [DHOW_PAD_REFLECT] = "reflect",
                                        [DHOW_PAD_REPLICATE] = "edge",
                                        [DHOW_PAD_CIRCULAR] = "wrap"};
    int64_t all[2 * DHOW_MAX_RANK] = {0};
    dhowi_build_step s;
    DHOWI_TRY(dhowi_step_begin(m, &s, function, "Pad", &x, 1, out));
    if (mode < DHOW_PAD_CONSTANT || mode > DHOW_PAD_CIRCULAR)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: mode is %d; DHOW_PAD_... are allowed",
                          function, (int)mode);
    DHOWI_TRY(read_pads(function, pads, count, &s.result[0], all));
    for (int32_t i = 0; mode == DHOW_PAD_REFLECT && i < s.result[0].rank; i++) {
        const int64_t extent = m->values[x].desc.shape[i];
        if (extent >= 0 && DHOWI_MAX(all[i], all[s.result[0].rank + i]) >= extent && extent > 0)
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: reflecting takes pads below the extent %" PRId64
                              " of dimension %d",
                              function, extent, i);
    }
    dhowi_step_ints(m, &s, "pads", all, 2 * (uint32_t)s.result[0].rank);
    dhowi_step_text(&s, "mode", names[mode]);
    s.in[s.in_count++] = -1; /* pads as a tensor */
    dhowi_step_constant(m, &s, DHOW_F64, 0, 0, &value);
    return dhowi_step_end(m, &s, out);
}

dhow_status dhow_model_pad(dhow_model *m, dhow_model_value x, const int64_t *pads, uint32_t count,
                           dhow_pad_mode mode, double value, dhow_model_value *out) {
    return dhowi_build_pad(m, "dhow_model_pad", x, pads, count, mode, value, out);
}
