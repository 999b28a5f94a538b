/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that choose and place elements by index, and those that make numbers.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "model/operators.h"

/* ---- gather ---- */

static dhowi_run around(const dhowi_spec *x, int32_t axis) {
    return (dhowi_run){.outer = dhowi_extent(x, 0, axis),
                       .n = x->shape[axis],
                       .inner = dhowi_extent(x, axis + 1, x->rank)};
}

dhow_status dhowi_gather_along(dhowi_lowering *b, int32_t x, int32_t axis, int32_t index,
                               int32_t *out) {
    const dhowi_spec own = *dhowi_spec_at(b, x);
    dhowi_attrs attrs = {.run = around(&own, axis)};
    dhowi_spec spec = own;
    DHOWI_TRY(dhowi_cast_to(b, index, DHOW_I64, &index));
    const dhowi_spec chosen = *dhowi_spec_at(b, index);
    attrs.run.count = dhowi_count_of(&chosen);
    spec.rank = own.rank - 1 + chosen.rank;
    if (spec.rank > DHOW_MAX_RANK) DHOWI_REFUSE("%d dimensions", spec.rank);
    for (int32_t i = 0; i < chosen.rank; i++) spec.shape[axis + i] = chosen.shape[i];
    for (int32_t i = axis + 1; i < own.rank; i++) spec.shape[chosen.rank - 1 + i] = own.shape[i];
    const int32_t in[] = {x, index};
    return dhowi_emit(b, DHOWI_OP_gather_axis, in, 2, &attrs, &spec, out);
}

dhow_status dhowi_pick(dhowi_lowering *b, int32_t x, int32_t axis, const int64_t *index,
                       int64_t count, int32_t *out) {
    int32_t chosen;
    DHOWI_TRY(dhowi_constant(b, DHOW_I64, 1, &count, index, &chosen));
    return dhowi_gather_along(b, x, axis, chosen, out);
}

/* All numbers of an index as whole ones; free them. */
static dhow_status index_values(dhowi_lowering *b, int32_t ref, int64_t count, int64_t **out) {
    uint32_t read;
    *out = NULL;
    DHOWI_TRY(dhowi_need(b, ref));
    if (count > INT32_MAX) DHOWI_REFUSE("%" PRId64 " elements to scatter", count);
    DHOWI_TRY(dhowi_host_room(b, count, sizeof **out));
    *out = dhowi_alloc_array((size_t)count + 1, sizeof **out);
    if (*out == NULL) return dhowi_fail_memory("plan");
    dhow_status status = dhowi_ints(b, ref, *out, (uint32_t)count, &read);
    if (status != DHOW_OK) dhowi_free(*out);
    return status;
}

/* Refuses known indices that are not -extent .. extent - 1, the extents taken in turn. Those that
 * are on the device read zeros there. */
static dhow_status check_known(dhowi_lowering *b, int32_t index, const int64_t *extents,
                               int64_t per) {
    const int64_t count = dhowi_count_of(dhowi_spec_at(b, index));
    int64_t *values, wrong = 0, extent = 0;
    if (!dhowi_is_known(b, index) || count == 0) return DHOW_OK;
    DHOWI_TRY(index_values(b, index, count, &values));
    for (int64_t i = 0; i < count; i++) {
        if (values[i] >= -extents[i % per] && values[i] < extents[i % per]) continue;
        wrong = values[i];
        extent = extents[i % per];
        dhowi_free(values);
        DHOWI_REFUSE("index %" PRId64 " of an extent of %" PRId64, wrong, extent);
    }
    dhowi_free(values);
    return DHOW_OK;
}

dhow_status dhowi_lower_gather(dhowi_lowering *b) {
    const dhowi_spec x = *dhowi_spec_at(b, b->in[0]), index = *dhowi_spec_at(b, b->in[1]);
    int32_t axis;
    DHOWI_TRY(dhowi_axis(&x, dhowi_attr_int(b, "axis", 0), &axis));
    if (dhowi_is_known(b, b->in[1])) { /* checked here, and a single one is a view */
        int64_t n = dhowi_count_of(&index), at;
        if (n == 1 && index.rank <= 1) {
            DHOWI_TRY(dhowi_one_int(b, b->in[1], "the index", &at));
            if (at < -x.shape[axis] || at >= x.shape[axis])
                DHOWI_REFUSE("index %" PRId64 " of an extent of %" PRId64, at, x.shape[axis]);
            if (at < 0) at += x.shape[axis];
            DHOWI_TRY(dhowi_narrow(b, b->in[0], axis, at, 1, 1, &b->out[0]));
            if (index.rank == 1) return DHOW_OK;
            dhowi_item view = b->items[b->out[0]];
            for (int32_t i = axis; i + 1 < x.rank; i++) {
                view.spec.shape[i] = view.spec.shape[i + 1];
                view.strides[i] = view.strides[i + 1];
            }
            return dhowi_view(b, b->out[0], x.rank - 1, view.spec.shape, view.strides, view.offset,
                              &b->out[0]);
        }
    }
    DHOWI_TRY(check_known(b, b->in[1], &x.shape[axis], 1));
    return dhowi_gather_along(b, b->in[0], axis, b->in[1], &b->out[0]);
}

/* The attributes of an element-by-element gather or scatter of an index's shape in x. */
static dhow_status elements(dhowi_lowering *b, int32_t x, int32_t index, dhowi_attrs *attrs) {
    const dhowi_spec *own = dhowi_spec_at(b, x), *chosen = dhowi_spec_at(b, index);
    int32_t axis;
    DHOWI_TRY(dhowi_axis(own, dhowi_attr_int(b, "axis", 0), &axis));
    if (own->rank != chosen->rank) DHOWI_REFUSE("index has another number of dimensions than x");
    dhowi_run *r = &attrs->run;
    *r = (dhowi_run){.n = own->shape[axis], .count = dhowi_count_of(chosen), .rank = own->rank};
    memcpy(r->shape, chosen->shape, sizeof r->shape);
    dhowi_shape_strides(own->rank, own->shape, r->strides);
    r->stride = r->strides[axis];
    r->strides[axis] = 0;
    for (int32_t i = 0; i < own->rank; i++) {
        if (i != axis && chosen->shape[i] > own->shape[i])
            DHOWI_REFUSE("index is larger than x in dimension %d", i);
    }
    return check_known(b, index, &attrs->run.n, 1);
}

dhow_status dhowi_lower_gather_elements(dhowi_lowering *b) {
    dhowi_spec spec = *dhowi_spec_at(b, b->in[1]);
    dhowi_attrs attrs = {0};
    int32_t in[] = {b->in[0], b->in[1]};
    spec.dtype = dhowi_spec_at(b, b->in[0])->dtype;
    DHOWI_TRY(elements(b, in[0], in[1], &attrs));
    DHOWI_TRY(dhowi_cast_to(b, in[1], DHOW_I64, &in[1]));
    return dhowi_emit(b, DHOWI_OP_gather_elements, in, 2, &attrs, &spec, &b->out[0]);
}

/* A copy of x that may be written into; known only if everything is. */
static dhow_status writable_copy(dhowi_lowering *b, int32_t x, const int32_t others[2],
                                 int32_t *out) {
    const dhowi_spec spec = *dhowi_spec_at(b, x);
    const int32_t in[] = {x, others[0], others[1]};
    DHOWI_TRY(dhowi_blank_of(b, &spec, in, 3, out));
    return dhowi_emit_into(b, DHOWI_OP_copy, &x, 1, NULL, *out);
}

/* Targets of single elements, from the indices along the axis. */
static dhow_status reduce_elements(dhowi_lowering *b, dhowi_map_op op, const dhowi_run *r) {
    int64_t *targets, strides[DHOW_MAX_RANK];
    DHOWI_TRY(index_values(b, b->in[1], r->count, &targets));
    dhowi_shape_strides(r->rank, r->shape, strides);
    for (int64_t i = 0; i < r->count; i++) {
        int64_t at = targets[i] < 0 ? targets[i] + r->n : targets[i];
        bool inside = at >= 0 && at < r->n;
        targets[i] = inside ? at * r->stride : -1;
        for (int32_t k = 0; k < r->rank && inside; k++)
            targets[i] += i / strides[k] % r->shape[k] * r->strides[k];
    }
    dhow_status status =
        dhowi_scatter_reduced(b, op, b->in[0], b->in[2], targets, r->count,
                              dhowi_count_of(dhowi_spec_at(b, b->in[0])), 1, &b->out[0]);
    dhowi_free(targets);
    return status;
}

dhow_status dhowi_lower_scatter_elements(dhowi_lowering *b) {
    dhowi_map_op op;
    DHOWI_TRY(dhowi_scatter_kind(b, &op));
    int32_t in[] = {b->in[2], b->in[1]};
    dhowi_attrs attrs = {0};
    DHOWI_TRY(elements(b, b->in[0], b->in[1], &attrs));
    const dhowi_spec *u = dhowi_spec_at(b, b->in[2]), *i = dhowi_spec_at(b, b->in[1]);
    if (!dhowi_shape_equal(u->rank, u->shape, i->rank, i->shape) ||
        u->dtype != dhowi_spec_at(b, b->in[0])->dtype)
        DHOWI_REFUSE("updates do not fit the index or x");
    if (op != 0) return reduce_elements(b, op, &attrs.run);
    DHOWI_TRY(dhowi_cast_to(b, in[1], DHOW_I64, &in[1]));
    DHOWI_TRY(writable_copy(b, b->in[0], in, &b->out[0]));
    return dhowi_emit_into(b, DHOWI_OP_scatter_elements, in, 2, &attrs, b->out[0]);
}

/* Tuples of indices into the dimensions first .. first+k-1 of x as single numbers. */
static dhow_status linear_index(dhowi_lowering *b, int32_t tuples, const dhowi_spec *x,
                                int32_t first, int32_t *out) {
    const dhowi_spec t = *dhowi_spec_at(b, tuples);
    int32_t last = t.rank - 1, sum = -1;
    int64_t k = t.shape[last], stride = 1;
    DHOWI_TRY(dhowi_cast_to(b, tuples, DHOW_I64, &tuples));
    for (int64_t i = k - 1; i >= 0; i--) {
        int32_t part, below;
        double extent = (double)x->shape[first + i];
        DHOWI_TRY(dhowi_narrow(b, tuples, last, i, 1, 1, &part));
        /* from the end where negative: part + extent (part < 0) */
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_LT, part, 0, &below));
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, below, extent, &below));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, part, below, &part));
        if (stride != 1) DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, part, (double)stride, &part));
        if (sum >= 0) DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, sum, part, &part));
        sum = part;
        stride *= x->shape[first + i];
    }
    return dhowi_reshape(b, sum, last, t.shape, out);
}

static dhow_status check_tuples(dhowi_lowering *b, const dhowi_spec *x, const dhowi_spec *t,
                                int64_t batch) {
    if (t->rank < 1 || t->shape[t->rank - 1] < 1 || batch < 0 || batch >= t->rank ||
        t->shape[t->rank - 1] > x->rank - batch)
        DHOWI_REFUSE("the index has tuples that do not fit x");
    return check_known(b, b->in[1], x->shape + batch, t->shape[t->rank - 1]);
}

dhow_status dhowi_lower_gather_nd(dhowi_lowering *b) {
    const dhowi_spec x = *dhowi_spec_at(b, b->in[0]), t = *dhowi_spec_at(b, b->in[1]);
    int64_t batch = dhowi_attr_int(b, "batch_dims", 0);
    DHOWI_TRY(check_tuples(b, &x, &t, batch));
    int32_t k = (int32_t)t.shape[t.rank - 1], d = (int32_t)batch, index, flat;
    int64_t rows = dhowi_extent(&x, 0, d), per = dhowi_extent(&x, d, d + k);
    int64_t inner = dhowi_extent(&x, d + k, x.rank), each = dhowi_extent(&t, d, t.rank - 1);
    if (rows != dhowi_extent(&t, 0, d)) DHOWI_REFUSE("the batch dimensions differ");
    DHOWI_TRY(linear_index(b, b->in[1], &x, d, &index));
    if (d > 0) { /* the batches of x follow each other */
        const int64_t shape[] = {rows, each}, column[] = {rows, 1};
        DHOWI_TRY(dhowi_host_room(b, rows, sizeof(int64_t)));
        int64_t *base = dhowi_alloc_array((size_t)rows + 1, sizeof *base);
        int32_t bases;
        if (base == NULL) return dhowi_fail_memory("plan");
        for (int64_t i = 0; i < rows; i++) base[i] = i * per;
        dhow_status status = dhowi_constant(b, DHOW_I64, 2, column, base, &bases);
        dhowi_free(base);
        DHOWI_TRY(status);
        DHOWI_TRY(dhowi_reshape(b, index, 2, shape, &index));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, index, bases, &index));
    }
    const int64_t flat_shape[] = {rows * per, inner}, count[] = {rows * each};
    DHOWI_TRY(dhowi_reshape(b, b->in[0], 2, flat_shape, &flat));
    DHOWI_TRY(dhowi_reshape(b, index, 1, count, &index));
    DHOWI_TRY(dhowi_gather_along(b, flat, 0, index, &flat));
    dhowi_spec y = {.rank = t.rank - 1 + x.rank - d - k};
    if (y.rank > DHOW_MAX_RANK) DHOWI_REFUSE("%d dimensions", y.rank);
    for (int32_t i = 0; i < t.rank - 1; i++) y.shape[i] = t.shape[i];
    for (int32_t i = d + k; i < x.rank; i++) y.shape[t.rank - 1 + i - d - k] = x.shape[i];
    return dhowi_reshape(b, flat, y.rank, y.shape, &b->out[0]);
}

dhow_status dhowi_lower_scatter_nd(dhowi_lowering *b) {
    const dhowi_spec x = *dhowi_spec_at(b, b->in[0]), t = *dhowi_spec_at(b, b->in[1]);
    dhowi_map_op op;
    DHOWI_TRY(dhowi_scatter_kind(b, &op));
    DHOWI_TRY(check_tuples(b, &x, &t, 0));
    int32_t k = (int32_t)t.shape[t.rank - 1];
    dhowi_attrs attrs = {.run = {.n = dhowi_extent(&x, 0, k),
                                 .inner = dhowi_extent(&x, k, x.rank),
                                 .count = dhowi_extent(&t, 0, t.rank - 1)}};
    const dhowi_spec *u = dhowi_spec_at(b, b->in[2]);
    if (dhowi_count_of(u) != attrs.run.count * attrs.run.inner || u->dtype != x.dtype)
        DHOWI_REFUSE("updates do not fit the index or x");
    int32_t in[] = {b->in[2], -1};
    if (op != 0) DHOWI_TRY(dhowi_need(b, b->in[1]));
    DHOWI_TRY(linear_index(b, b->in[1], &x, 0, &in[1]));
    if (op != 0) {
        int64_t *targets;
        DHOWI_TRY(index_values(b, in[1], attrs.run.count, &targets));
        dhow_status status =
            dhowi_scatter_reduced(b, op, b->in[0], b->in[2], targets, attrs.run.count, attrs.run.n,
                                  attrs.run.inner, &b->out[0]);
        dhowi_free(targets);
        return status;
    }
    DHOWI_TRY(writable_copy(b, b->in[0], in, &b->out[0]));
    return dhowi_emit_into(b, DHOWI_OP_scatter_rows, in, 2, &attrs, b->out[0]);
}

/* ---- making numbers ---- */

static dhow_status from_attribute(dhowi_lowering *b, const dhowi_onnx_tensor *t, int32_t *out) {
    dhow_dtype dtype;
    int64_t count;
    uint64_t bytes;
    dhow_tensor *tensor;
    void *data;
    DHOWI_TRY(dhowi_onnx_tensor_check(t, &dtype, &count, &bytes));
    DHOWI_TRY(dhowi_tensor_new(b->model->context->cpu, dtype, t->rank, t->shape, &tensor));
    dhow_status status = dhow_tensor_host_ptr(tensor, &data);
    if (status == DHOW_OK) status = dhowi_onnx_tensor_read(b->model->file, t, data);
    if (status == DHOW_OK) status = dhowi_known(b, tensor, -1, out);
    dhow_tensor_release(tensor);
    return status;
}

/* `value` is a parameter of the model from the import on; the other forms come here. */
dhow_status dhowi_lower_constant(dhowi_lowering *b) {
    const dhowi_onnx_attribute *a;
    if ((a = dhowi_attr(b, "value")) != NULL && a->tensor != NULL)
        return from_attribute(b, a->tensor, &b->out[0]);
    if ((a = dhowi_attr(b, "value_int")) != NULL)
        return dhowi_constant(b, DHOW_I64, 0, NULL, &a->i, &b->out[0]);
    if ((a = dhowi_attr(b, "value_float")) != NULL)
        return dhowi_constant(b, DHOW_F32, 0, NULL, &a->f, &b->out[0]);
    int64_t count;
    if ((a = dhowi_attr(b, "value_ints")) != NULL) {
        count = a->int_count;
        return dhowi_constant(b, DHOW_I64, 1, &count, a->ints, &b->out[0]);
    }
    if ((a = dhowi_attr(b, "value_floats")) != NULL) {
        count = a->float_count;
        return dhowi_constant(b, DHOW_F32, 1, &count, a->floats, &b->out[0]);
    }
    return dhowi_fail(DHOW_UNSUPPORTED, "a constant of strings, or a sparse one");
}

dhow_status dhowi_lower_constant_of_shape(dhowi_lowering *b) {
    const dhowi_onnx_attribute *a = dhowi_attr(b, "value");
    const int64_t zeros[DHOW_MAX_RANK] = {0};
    int64_t shape[DHOW_MAX_RANK];
    uint32_t rank;
    int32_t value;
    const float zero = 0;
    DHOWI_TRY(dhowi_shape_values(b, b->in[0], "the shape", shape, &rank));
    for (uint32_t i = 0; i < rank; i++) {
        if (shape[i] < 0) DHOWI_REFUSE("extent %" PRId64 " in the shape", shape[i]);
    }
    if (a != NULL && a->tensor != NULL) {
        DHOWI_TRY(from_attribute(b, a->tensor, &value));
        if (dhowi_count_of(dhowi_spec_at(b, value)) != 1)
            DHOWI_REFUSE("value has several elements");
    } else {
        DHOWI_TRY(dhowi_constant(b, DHOW_F32, 0, NULL, &zero, &value));
    }
    return dhowi_view(b, value, (int32_t)rank, shape, zeros, 0, &b->out[0]);
}

dhow_status dhowi_numbers(dhowi_lowering *b, dhow_dtype dtype, double start, double step,
                          int64_t count, int32_t *out) {
    if (count > INT32_MAX) DHOWI_REFUSE("%" PRId64 " numbers", count);
    DHOWI_TRY(dhowi_host_room(b, count, sizeof(double)));
    double *list = dhowi_alloc_array((size_t)count + 1, sizeof *list);
    if (list == NULL) return dhowi_fail_memory("plan");
    for (int64_t i = 0; i < count; i++) list[i] = start + (double)i * step;
    dhow_status status = dhowi_constant(b, DHOW_F64, 1, &count, list, out);
    dhowi_free(list);
    if (status == DHOW_OK) status = dhowi_cast_to(b, *out, dtype, out);
    return status;
}

dhow_status dhowi_lower_range(dhowi_lowering *b) {
    double v[3];
    static const char *const names[] = {"start", "limit", "delta"};
    for (int i = 0; i < 3; i++) DHOWI_TRY(dhowi_one_float(b, b->in[i], names[i], &v[i]));
    if (v[2] == 0) DHOWI_REFUSE("a step of 0");
    double n = ceil((v[1] - v[0]) / v[2]);
    if (!(n < 2147483647.0)) DHOWI_REFUSE("%g numbers", n);
    return dhowi_numbers(b, dhowi_spec_at(b, b->in[0])->dtype, v[0], v[2], n > 0 ? (int64_t)n : 0,
                         &b->out[0]);
}

/* rows and columns of a matrix as numbers, [m, 1] and [1, n] */
static dhow_status rows_and_columns(dhowi_lowering *b, int64_t m, int64_t n, int32_t *rows,
                                    int32_t *columns) {
    const int64_t down[] = {m, 1}, across[] = {1, n};
    DHOWI_TRY(dhowi_numbers(b, DHOW_I64, 0, 1, m, rows));
    DHOWI_TRY(dhowi_reshape(b, *rows, 2, down, rows));
    DHOWI_TRY(dhowi_numbers(b, DHOW_I64, 0, 1, n, columns));
    return dhowi_reshape(b, *columns, 2, across, columns);
}

dhow_status dhowi_lower_eye_like(dhowi_lowering *b) {
    const dhowi_spec x = *dhowi_spec_at(b, b->in[0]);
    int32_t rows, columns;
    if (x.rank != 2) DHOWI_REFUSE("x has %d dimensions, not 2", x.rank);
    const dhowi_onnx_attribute *type = dhowi_attr(b, "dtype");
    dhow_dtype dtype = type != NULL ? dhowi_onnx_dtype((int32_t)type->i) : x.dtype;
    if (dtype == 0)
        return dhowi_fail(DHOW_UNSUPPORTED, "unsupported dtype %s",
                          dhowi_onnx_type_name((int32_t)type->i));
    DHOWI_TRY(rows_and_columns(b, x.shape[0], x.shape[1], &rows, &columns));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_ADD, rows, (double)dhowi_attr_int(b, "k", 0), &rows));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_EQ, rows, columns, &b->out[0]));
    return dhowi_cast_to(b, b->out[0], dtype, &b->out[0]);
}

dhow_status dhowi_lower_trilu(dhowi_lowering *b) {
    const dhowi_spec x = *dhowi_spec_at(b, b->in[0]);
    dhowi_spec one = {.dtype = x.dtype};
    int64_t k = 0;
    bool upper;
    int32_t rows, columns, zero;
    if (x.rank < 2) DHOWI_REFUSE("x has %d dimensions", x.rank);
    if (dhowi_given(b, 1)) DHOWI_TRY(dhowi_one_int(b, b->in[1], "k", &k));
    DHOWI_TRY(dhowi_attr_flag(b, "upper", true, &upper));
    DHOWI_TRY(rows_and_columns(b, x.shape[x.rank - 2], x.shape[x.rank - 1], &rows, &columns));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_ADD, rows, (double)k, &rows));
    DHOWI_TRY(dhowi_map_two(b, upper ? DHOWI_MAP_LE : DHOWI_MAP_GE, rows, columns, &rows));
    DHOWI_TRY(dhowi_filled(b, &one, 0, &zero));
    return dhowi_select(b, rows, b->in[0], zero, &b->out[0]);
}

dhow_status dhowi_lower_one_hot(dhowi_lowering *b) {
    const dhowi_spec x = *dhowi_spec_at(b, b->in[0]);
    int64_t depth, axis = dhowi_attr_int(b, "axis", -1);
    int32_t index, below, classes, off, on;
    DHOWI_TRY(dhowi_one_int(b, b->in[1], "depth", &depth));
    if (axis < 0) axis += x.rank + 1;
    if (axis < 0 || axis > x.rank || depth < 1 || x.rank == DHOW_MAX_RANK)
        DHOWI_REFUSE("axis %" PRId64 ", depth %" PRId64, axis, depth);
    dhowi_spec wide = {.rank = x.rank + 1}, line = {.rank = x.rank + 1};
    for (int32_t i = 0; i < wide.rank; i++) {
        line.shape[i] = i == axis ? depth : 1;
        wide.shape[i] = i == axis ? 1 : x.shape[i < axis ? i : i - 1];
    }
    DHOWI_TRY(dhowi_cast_to(b, b->in[0], DHOW_I64, &index));
    /* from the end where negative: index + depth (index < 0); the others outside hit no class */
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_LT, index, 0, &below));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, below, (double)depth, &below));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, index, below, &index));
    DHOWI_TRY(dhowi_reshape(b, index, wide.rank, wide.shape, &index));
    DHOWI_TRY(dhowi_numbers(b, DHOW_I64, 0, 1, depth, &classes));
    DHOWI_TRY(dhowi_reshape(b, classes, line.rank, line.shape, &classes));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_EQ, index, classes, &index));
    const dhowi_spec *values = dhowi_spec_at(b, b->in[2]);
    if (values->rank != 1 || values->shape[0] != 2) DHOWI_REFUSE("values are no pair");
    DHOWI_TRY(dhowi_narrow(b, b->in[2], 0, 0, 1, 1, &off));
    DHOWI_TRY(dhowi_narrow(b, b->in[2], 0, 1, 1, 1, &on));
    return dhowi_select(b, index, on, off, &b->out[0]);
}

/* ---- along an axis ---- */

dhow_status dhowi_lower_cumsum(dhowi_lowering *b) {
    int32_t x = b->in[0], axis;
    int64_t given;
    bool exclusive, reverse;
    const dhow_dtype dtype = dhowi_spec_at(b, x)->dtype;
    DHOWI_TRY(dhowi_one_int(b, b->in[1], "the axis", &given));
    DHOWI_TRY(dhowi_axis(dhowi_spec_at(b, x), given, &axis));
    DHOWI_TRY(dhowi_widened(b, DHOWI_OP_cumsum, x, &x));
    const dhowi_spec spec = *dhowi_spec_at(b, x);
    dhowi_attrs attrs = {.run = around(&spec, axis)};
    DHOWI_TRY(dhowi_attr_flag(b, "exclusive", false, &exclusive));
    DHOWI_TRY(dhowi_attr_flag(b, "reverse", false, &reverse));
    attrs.run.flag[0] = exclusive;
    attrs.run.flag[1] = reverse;
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_cumsum, &x, 1, &attrs, &spec, &b->out[0]));
    return dhowi_cast_to(b, b->out[0], dtype, &b->out[0]);
}

dhow_status dhowi_lower_topk(dhowi_lowering *b) {
    int32_t x = b->in[0], axis;
    int64_t k = dhowi_attr_int(b, "k", 0);
    bool largest;
    const dhow_dtype dtype = dhowi_spec_at(b, x)->dtype;
    if (dhowi_given(b, 1)) DHOWI_TRY(dhowi_one_int(b, b->in[1], "k", &k));
    DHOWI_TRY(dhowi_attr_flag(b, "largest", true, &largest));
    DHOWI_TRY(dhowi_axis(dhowi_spec_at(b, x), dhowi_attr_int(b, "axis", -1), &axis));
    DHOWI_TRY(dhowi_widened(b, DHOWI_OP_topk, x, &x));
    dhowi_spec spec = *dhowi_spec_at(b, x), index;
    dhowi_attrs attrs = {.run = around(&spec, axis)};
    if (k < 0 || k > spec.shape[axis])
        DHOWI_REFUSE("k is %" PRId64 ", the axis has %" PRId64, k, spec.shape[axis]);
    attrs.run.count = spec.shape[axis] = k;
    attrs.run.flag[0] = largest;
    index = spec;
    index.dtype = DHOW_I64;
    DHOWI_TRY(
        dhowi_emit_two(b, DHOWI_OP_topk, &x, 1, &attrs, &spec, &index, &b->out[0], &b->out[1]));
    return dhowi_cast_to(b, b->out[0], dtype, &b->out[0]);
}
