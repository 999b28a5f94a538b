/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of the builder that see the same elements in another shape, or some of them.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/size.h"
#include "model/build/build.h"

dhow_status dhow_model_permute(dhow_model *m, dhow_model_value x, const int32_t *order,
                               uint32_t count, dhow_model_value *out) {
    static const char function[] = "dhow_model_permute";
    dhowi_build_step s;
    int64_t perm[DHOW_MAX_RANK];
    uint32_t seen = 0;
    DHOWI_TRY(dhowi_step_begin(m, &s, function, "Transpose", &x, 1, out));
    const dhowi_tensor_desc own = s.result[0];
    if (count != (uint32_t)own.rank || (order == NULL && count > 0))
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: order has %u dimensions, x has %d; name each of them once", function,
                          order != NULL ? count : 0, own.rank);
    for (uint32_t i = 0; i < count; i++) {
        int32_t dim;
        DHOWI_TRY(dhowi_dim_check(function, own.rank, order[i], &dim));
        if ((seen & 1u << dim) != 0)
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: order names dimension %d twice", function,
                              dim);
        seen |= 1u << dim;
        perm[i] = dim;
        s.result[0].shape[i] = own.shape[dim];
    }
    dhowi_step_ints(m, &s, "perm", perm, count);
    return dhowi_step_end(m, &s, out);
}

static void leave_out(dhowi_tensor_desc *desc, int32_t dim) {
    for (int32_t i = dim; i + 1 < desc->rank; i++) desc->shape[i] = desc->shape[i + 1];
    desc->rank--;
}

dhow_status dhow_model_squeeze(dhow_model *m, dhow_model_value x, int32_t dim,
                               dhow_model_value *out) {
    static const char function[] = "dhow_model_squeeze";
    dhowi_build_step s;
    int64_t axes[DHOW_MAX_RANK];
    uint32_t count = 0;
    const bool all = dim == DHOW_ALL_DIMS;
    DHOWI_TRY(dhowi_step_begin(m, &s, function, "Squeeze", &x, 1, out));
    const dhowi_tensor_desc own = s.result[0];
    if (!all) DHOWI_TRY(dhowi_dim_check(function, own.rank, dim, &dim));
    for (int32_t i = own.rank - 1; i >= 0; i--) {
        if (!all && i != dim) continue;
        if (all && own.shape[i] < 0)
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: the extent of dimension %d is open; name the dimensions that go "
                              "one by one",
                              function, i);
        if (own.shape[i] > 1 || own.shape[i] == 0) continue;
        axes[count++] = i;
        leave_out(&s.result[0], i);
    }
    if (count == 0) { /* nothing goes, as in PyTorch */
        *out = x;
        return DHOW_OK;
    }
    dhowi_step_ints(m, &s, "axes", axes, count);
    return dhowi_step_end(m, &s, out);
}

dhow_status dhow_model_unsqueeze(dhow_model *m, dhow_model_value x, int32_t dim,
                                 dhow_model_value *out) {
    static const char function[] = "dhow_model_unsqueeze";
    dhowi_build_step s;
    DHOWI_TRY(dhowi_step_begin(m, &s, function, "Unsqueeze", &x, 1, out));
    dhowi_tensor_desc *y = &s.result[0];
    if (y->rank == DHOW_MAX_RANK)
        return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: x has all %d dimensions already", function,
                          DHOW_MAX_RANK);
    DHOWI_TRY(dhowi_dim_check(function, y->rank + 1, dim, &dim));
    for (int32_t i = y->rank++; i > dim; i--) y->shape[i] = y->shape[i - 1];
    y->shape[dim] = 1;
    const int64_t axis = dim;
    dhowi_step_ints(m, &s, "axes", &axis, 1);
    return dhowi_step_end(m, &s, out);
}

dhow_status dhow_model_expand(dhow_model *m, dhow_model_value x, int32_t rank, const int64_t *shape,
                              dhow_model_value *out) {
    static const char function[] = "dhow_model_expand";
    dhowi_build_step s;
    int64_t wanted[DHOW_MAX_RANK];
    DHOWI_TRY(dhowi_step_begin(m, &s, function, "Expand", &x, 1, out));
    const dhowi_tensor_desc own = s.result[0];
    if (rank < own.rank || rank > DHOW_MAX_RANK || (rank > 0 && shape == NULL))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: rank %d, or shape is NULL; x has rank %d",
                          function, rank, own.rank);
    s.result[0].rank = rank;
    for (int32_t i = 0; i < rank; i++) {
        const int32_t at = i - (rank - own.rank);
        const int64_t extent = at >= 0 ? own.shape[at] : 1;
        const bool keeps = shape[i] == -1 && at >= 0;
        if (!keeps && (shape[i] < 0 || (extent != 1 && extent >= 0 && extent != shape[i])))
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: extent %d is %" PRId64 ", x has %" PRId64
                              " there; 1 expands to any, -1 keeps what is there",
                              function, i, shape[i], extent);
        wanted[i] = keeps ? 1 : shape[i]; /* an operator's 1 keeps */
        s.result[0].shape[i] = keeps ? extent : shape[i];
    }
    dhowi_step_constant(m, &s, DHOW_I64, 1, rank, wanted);
    return dhowi_step_end(m, &s, out);
}

static int64_t clamp(int64_t i, int64_t extent) {
    if (i < 0) i += extent;
    return i < 0 ? 0 : DHOWI_MIN(i, extent);
}

dhow_status dhow_model_slice(dhow_model *m, dhow_model_value x, int32_t dim, int64_t start,
                             int64_t stop, int64_t step, dhow_model_value *out) {
    static const char function[] = "dhow_model_slice";
    dhowi_build_step s;
    DHOWI_TRY(dhowi_step_begin(m, &s, function, "Slice", &x, 1, out));
    DHOWI_TRY(dhowi_dim_check(function, s.result[0].rank, dim, &dim));
    if (step < 1)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: step %" PRId64 "; 1 or more is allowed",
                          function, step);
    int64_t *extent = &s.result[0].shape[dim];
    const int64_t axis = dim;
    if (*extent >= 0) {
        const int64_t first = clamp(start, *extent), end = clamp(stop, *extent);
        *extent = end > first ? dhowi_ceil_div(end - first, step) : 0;
    }
    dhowi_step_constant(m, &s, DHOW_I64, 1, 1, &start);
    dhowi_step_constant(m, &s, DHOW_I64, 1, 1, &stop);
    dhowi_step_constant(m, &s, DHOW_I64, 1, 1, &axis);
    dhowi_step_constant(m, &s, DHOW_I64, 1, 1, &step);
    return dhowi_step_end(m, &s, out);
}

dhow_status dhow_model_narrow(dhow_model *m, dhow_model_value x, int32_t dim, int64_t start,
                              int64_t length, dhow_model_value *out) {
    static const char function[] = "dhow_model_narrow";
    DHOWI_TRY(dhowi_build_begin(m, function, out));
    DHOWI_TRY(dhowi_build_value(m, function, x));
    dhowi_tensor_desc y = m->values[x].desc;
    DHOWI_TRY(dhowi_dim_check(function, y.rank, dim, &dim));
    const int64_t extent = y.shape[dim];
    if (start < 0 || length < 0 || start > INT64_MAX - length ||
        (extent >= 0 && start + length > extent))
        return dhowi_fail(DHOW_OUT_OF_RANGE,
                          "%s: %" PRId64 " indices from %" PRId64 " on, of an extent of %" PRId64,
                          function, length, start, extent);
    y.shape[dim] = length;
    const dhowi_attrs attrs = {.dim = dim, .split = {.n = start, .count = length}};
    return dhowi_build_node(m, dhowi_layer_operator(DHOWI_LAYER_NARROW), NULL, &x, 1, &attrs, &y,
                            out);
}

dhow_status dhow_model_select(dhow_model *m, dhow_model_value x, int32_t dim, int64_t index,
                              dhow_model_value *out) {
    static const char function[] = "dhow_model_select";
    dhowi_build_step s;
    DHOWI_TRY(dhowi_step_begin(m, &s, function, "Gather", &x, 1, out));
    DHOWI_TRY(dhowi_dim_check(function, s.result[0].rank, dim, &dim));
    const int64_t extent = s.result[0].shape[dim];
    if (extent >= 0 && (index < -extent || index >= extent))
        return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: index %" PRId64 " of an extent of %" PRId64,
                          function, index, extent);
    leave_out(&s.result[0], dim);
    dhowi_step_int(&s, "axis", dim);
    dhowi_step_constant(m, &s, DHOW_I64, 0, 0, &index);
    return dhowi_step_end(m, &s, out);
}

dhow_status dhow_model_stack(dhow_model *m, const dhow_model_value *values, uint32_t count,
                             int32_t dim, dhow_model_value *out) {
    static const char function[] = "dhow_model_stack";
    DHOWI_TRY(dhowi_build_begin(m, function, out));
    if (values == NULL || count == 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: there are no values", function);
    dhow_model_value *parts = dhowi_arena_array(&m->arena, count, sizeof *parts), y = -1;
    if (parts == NULL) return dhowi_fail_memory(function);
    const dhowi_build_mark mark = dhowi_build_here(m);
    dhow_status status = DHOW_OK;
    for (uint32_t i = 0; i < count && status == DHOW_OK; i++)
        status = dhow_model_unsqueeze(m, values[i], dim, &parts[i]);
    if (status == DHOW_OK) {
        const int32_t rank = m->values[parts[0]].desc.rank;
        status = dhow_model_cat(m, parts, count, dim < 0 ? dim + rank : dim, &y);
    }
    if (status != DHOW_OK)
        return dhowi_build_undo(m, mark, dhowi_fail_prefix(status, "%s", function));
    *out = y;
    return DHOW_OK;
}

/* Parts of a dimension one after the other: of these sizes, or with NULL of `each`, the last ones
 * of what is left. */
static dhow_status add_parts(dhow_model *m, dhow_model_value x, int32_t dim, const int64_t *sizes,
                             int64_t each, uint32_t count, dhow_model_value *out) {
    const int64_t extent = m->values[x].desc.shape[dim];
    const dhowi_build_mark mark = dhowi_build_here(m);
    int64_t start = 0;
    for (uint32_t i = 0; i < count; i++) {
        const int64_t size = sizes != NULL ? sizes[i] : DHOWI_MIN(each, extent - start);
        const dhow_status status = dhow_model_narrow(m, x, dim, start, size, &out[i]);
        if (status != DHOW_OK) {
            for (uint32_t k = 0; k < i; k++) out[k] = -1;
            return dhowi_build_undo(m, mark, status);
        }
        start += size;
    }
    return DHOW_OK;
}

static dhow_status begin_parts(dhow_model *m, const char *function, dhow_model_value x,
                               int32_t *dim, uint32_t count, dhow_model_value *out) {
    if (out == NULL || count == 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s", function,
                          out == NULL ? "out is NULL" : "0 parts");
    for (uint32_t i = 0; i < count; i++) out[i] = -1;
    DHOWI_TRY(dhowi_build_begin(m, function, out));
    DHOWI_TRY(dhowi_build_value(m, function, x));
    DHOWI_TRY(dhowi_dim_check(function, m->values[x].desc.rank, *dim, dim));
    if (m->values[x].desc.shape[*dim] >= 0) return DHOW_OK;
    return dhowi_fail(DHOW_UNSUPPORTED,
                      "%s: the extent of dimension %d is open; give dhow_model_input() the extent "
                      "that it divides",
                      function, *dim);
}

dhow_status dhow_model_split(dhow_model *m, dhow_model_value x, int32_t dim, const int64_t *sizes,
                             uint32_t count, dhow_model_value *out) {
    static const char function[] = "dhow_model_split";
    DHOWI_TRY(begin_parts(m, function, x, &dim, count, out));
    DHOWI_TRY(dhowi_parts_check(function, m->values[x].desc.shape[dim], sizes, count));
    return add_parts(m, x, dim, sizes, 0, count, out);
}

dhow_status dhow_model_chunk(dhow_model *m, dhow_model_value x, int32_t dim, uint32_t count,
                             dhow_model_value *out) {
    DHOWI_TRY(begin_parts(m, "dhow_model_chunk", x, &dim, count, out));
    return add_parts(m, x, dim, NULL, dhowi_ceil_div(m->values[x].desc.shape[dim], count), count,
                     out);
}
