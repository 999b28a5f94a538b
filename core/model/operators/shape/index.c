/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that choose and place elements by index.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "model/operators/shape/shape.h"

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
    const int64_t count = dhowi_count_of(dhowi_desc_at(b, index));
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
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]), index = *dhowi_desc_at(b, b->in[1]);
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
                view.desc.shape[i] = view.desc.shape[i + 1];
                view.strides[i] = view.strides[i + 1];
            }
            return dhowi_view(b, b->out[0], x.rank - 1, view.desc.shape, view.strides, view.offset,
                              &b->out[0]);
        }
    }
    DHOWI_TRY(check_known(b, b->in[1], &x.shape[axis], 1));
    return dhowi_gather_along(b, b->in[0], axis, b->in[1], &b->out[0]);
}

/* The attributes of an element-by-element gather or scatter of an index's shape in x. */
static dhowi_attrs elements_along(const dhowi_tensor_desc *x, const dhowi_tensor_desc *index,
                                  int32_t axis) {
    dhowi_attrs attrs = {
        .split = {.n = x->shape[axis], .count = dhowi_count_of(index), .rank = x->rank}};
    dhowi_axis_split *r = &attrs.split;
    memcpy(r->shape, index->shape, sizeof r->shape);
    dhowi_shape_strides(x->rank, x->shape, r->strides);
    r->stride = r->strides[axis];
    r->strides[axis] = 0;
    return attrs;
}

static dhow_status elements(dhowi_lowering *b, int32_t x, int32_t index, dhowi_attrs *attrs) {
    const dhowi_tensor_desc *own = dhowi_desc_at(b, x), *chosen = dhowi_desc_at(b, index);
    int32_t axis;
    DHOWI_TRY(dhowi_axis(own, dhowi_attr_int(b, "axis", 0), &axis));
    if (own->rank != chosen->rank) DHOWI_REFUSE("index has another number of dimensions than x");
    *attrs = elements_along(own, chosen, axis);
    for (int32_t i = 0; i < own->rank; i++) {
        if (i != axis && chosen->shape[i] > own->shape[i])
            DHOWI_REFUSE("index is larger than x in dimension %d", i);
    }
    return check_known(b, index, &attrs->split.n, 1);
}

dhow_status dhowi_elements_at(dhowi_lowering *b, int32_t x, int32_t axis, int32_t index,
                              int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    dhowi_tensor_desc desc = *dhowi_desc_at(b, index);
    const dhowi_attrs attrs = elements_along(&own, &desc, axis);
    int32_t in[] = {x, -1};
    desc.dtype = own.dtype;
    DHOWI_TRY(dhowi_as_index(b, index, &in[1]));
    return dhowi_emit(b, DHOWI_OP_gather_elements, in, 2, &attrs, &desc, out);
}

dhow_status dhowi_lower_gather_elements(dhowi_lowering *b) {
    dhowi_attrs attrs = {0};
    int32_t axis;
    DHOWI_TRY(elements(b, b->in[0], b->in[1], &attrs));
    DHOWI_TRY(dhowi_axis(dhowi_desc_at(b, b->in[0]), dhowi_attr_int(b, "axis", 0), &axis));
    return dhowi_elements_at(b, b->in[0], axis, b->in[1], &b->out[0]);
}

/* A copy of x that may be written into; known only if everything is. */
static dhow_status writable_copy(dhowi_lowering *b, int32_t x, const int32_t others[2],
                                 int32_t *out) {
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, x);
    const int32_t in[] = {x, others[0], others[1]};
    DHOWI_TRY(dhowi_blank_of(b, &desc, in, 3, out));
    return dhowi_emit_into(b, DHOWI_OP_copy, &x, 1, NULL, *out);
}

/* Targets of single elements, from the indices along the axis. */
static dhow_status reduce_elements(dhowi_lowering *b, dhowi_map_op op, const dhowi_axis_split *r) {
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
                              dhowi_count_of(dhowi_desc_at(b, b->in[0])), 1, &b->out[0]);
    dhowi_free(targets);
    return status;
}

dhow_status dhowi_lower_scatter_elements(dhowi_lowering *b) {
    dhowi_map_op op;
    DHOWI_TRY(dhowi_scatter_kind(b, &op));
    int32_t in[] = {b->in[2], b->in[1]};
    dhowi_attrs attrs = {0};
    DHOWI_TRY(elements(b, b->in[0], b->in[1], &attrs));
    const dhowi_tensor_desc *u = dhowi_desc_at(b, b->in[2]), *i = dhowi_desc_at(b, b->in[1]);
    if (!dhowi_shape_equal(u->rank, u->shape, i->rank, i->shape) ||
        u->dtype != dhowi_desc_at(b, b->in[0])->dtype)
        DHOWI_REFUSE("updates do not fit the index or x");
    if (op != 0) return reduce_elements(b, op, &attrs.split);
    DHOWI_TRY(dhowi_as_index(b, in[1], &in[1]));
    DHOWI_TRY(writable_copy(b, b->in[0], in, &b->out[0]));
    return dhowi_emit_into(b, DHOWI_OP_scatter_elements, in, 2, &attrs, b->out[0]);
}

/* Tuples of indices into the dimensions first .. first+k-1 of x as single numbers. */
static dhow_status linear_index(dhowi_lowering *b, int32_t tuples, const dhowi_tensor_desc *x,
                                int32_t first, int32_t *out) {
    const dhowi_tensor_desc t = *dhowi_desc_at(b, tuples);
    int32_t last = t.rank - 1, sum = -1;
    int64_t k = t.shape[last], stride = 1;
    DHOWI_TRY(dhowi_as_index(b, tuples, &tuples));
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

static dhow_status check_tuples(dhowi_lowering *b, const dhowi_tensor_desc *x,
                                const dhowi_tensor_desc *t, int64_t batch) {
    if (t->rank < 1 || t->shape[t->rank - 1] < 1 || batch < 0 || batch >= t->rank ||
        t->shape[t->rank - 1] > x->rank - batch)
        DHOWI_REFUSE("the index has tuples that do not fit x");
    return check_known(b, b->in[1], x->shape + batch, t->shape[t->rank - 1]);
}

dhow_status dhowi_nd_rows(dhowi_lowering *b, dhowi_nd *out) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]), t = *dhowi_desc_at(b, b->in[1]);
    int64_t batch = dhowi_attr_int(b, "batch_dims", 0);
    DHOWI_TRY(check_tuples(b, &x, &t, batch));
    int32_t k = (int32_t)t.shape[t.rank - 1], d = (int32_t)batch, index;
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
    const int64_t count = rows * each;
    *out = (dhowi_nd){.rows = rows * per, .count = count, .inner = inner, .dims = d + k};
    return dhowi_reshape(b, index, 1, &count, &out->index);
}

dhow_status dhowi_lower_gather_nd(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]), t = *dhowi_desc_at(b, b->in[1]);
    dhowi_nd n;
    int32_t flat;
    DHOWI_TRY(dhowi_nd_rows(b, &n));
    const int64_t flat_shape[] = {n.rows, n.inner};
    DHOWI_TRY(dhowi_reshape(b, b->in[0], 2, flat_shape, &flat));
    DHOWI_TRY(dhowi_gather_along(b, flat, 0, n.index, &flat));
    dhowi_tensor_desc y = {.rank = t.rank - 1 + x.rank - n.dims};
    if (y.rank > DHOW_MAX_RANK) DHOWI_REFUSE("%d dimensions", y.rank);
    for (int32_t i = 0; i < t.rank - 1; i++) y.shape[i] = t.shape[i];
    for (int32_t i = n.dims; i < x.rank; i++) y.shape[t.rank - 1 + i - n.dims] = x.shape[i];
    return dhowi_reshape(b, flat, y.rank, y.shape, &b->out[0]);
}

dhow_status dhowi_lower_scatter_nd(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]), t = *dhowi_desc_at(b, b->in[1]);
    dhowi_map_op op;
    DHOWI_TRY(dhowi_scatter_kind(b, &op));
    DHOWI_TRY(check_tuples(b, &x, &t, 0));
    int32_t k = (int32_t)t.shape[t.rank - 1];
    dhowi_attrs attrs = {.split = {.n = dhowi_extent(&x, 0, k),
                                   .inner = dhowi_extent(&x, k, x.rank),
                                   .count = dhowi_extent(&t, 0, t.rank - 1)}};
    const dhowi_tensor_desc *u = dhowi_desc_at(b, b->in[2]);
    const int32_t tuples = t.rank - 1; /* dimensions that say which one */
    bool fits = u->rank == tuples + x.rank - k && u->dtype == x.dtype;
    for (int32_t i = 0; fits && i < u->rank; i++)
        fits = u->shape[i] == (i < tuples ? t.shape[i] : x.shape[i - tuples + k]);
    if (!fits) DHOWI_REFUSE("updates do not fit the index or x");
    int32_t in[] = {b->in[2], -1};
    if (op != 0) DHOWI_TRY(dhowi_need(b, b->in[1]));
    DHOWI_TRY(linear_index(b, b->in[1], &x, 0, &in[1]));
    if (op != 0) {
        int64_t *targets;
        DHOWI_TRY(index_values(b, in[1], attrs.split.count, &targets));
        dhow_status status =
            dhowi_scatter_reduced(b, op, b->in[0], b->in[2], targets, attrs.split.count,
                                  attrs.split.n, attrs.split.inner, &b->out[0]);
        dhowi_free(targets);
        return status;
    }
    DHOWI_TRY(writable_copy(b, b->in[0], in, &b->out[0]));
    return dhowi_emit_into(b, DHOWI_OP_scatter_rows, in, 2, &attrs, b->out[0]);
}

/* ---- caches of keys and values ---- */

static dhow_status check_cache(const dhowi_lowering *b, int32_t axis) {
    const dhowi_tensor_desc *x = dhowi_desc_at(b, b->in[0]), *u = dhowi_desc_at(b, b->in[1]);
    bool fits = u->rank == x->rank && u->dtype == x->dtype;
    for (int32_t i = 0; fits && i < x->rank; i++)
        fits = i == axis ? u->shape[i] <= x->shape[i] : u->shape[i] == x->shape[i];
    char s[160], t[160];
    if (axis == 0) DHOWI_REFUSE("axis 0 is the batch");
    if (!fits)
        DHOWI_REFUSE("update %s does not fit past_cache %s along axis %d",
                     dhowi_desc_text(u, s, sizeof s), dhowi_desc_text(x, t, sizeof t), axis);
    if (!dhowi_given(b, 2)) return DHOW_OK;
    const dhowi_tensor_desc *first = dhowi_desc_at(b, b->in[2]);
    if (first->rank != 1 || first->shape[0] != x->shape[0])
        DHOWI_REFUSE("write_indices does not have one number for each of %" PRId64 " sequences",
                     x->shape[0]);
    return DHOW_OK;
}

dhow_status dhowi_scatter_into(dhowi_lowering *b, int32_t x, int32_t updates, int32_t index,
                               int32_t axis) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x), u = *dhowi_desc_at(b, updates);
    const dhowi_tensor_desc one = {.dtype = DHOW_I64};
    const dhowi_attrs attrs = elements_along(&own, &u, axis);
    int32_t in[] = {updates, -1}, inside, nowhere;
    /* A negative place does not count from the end. */
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_GE, index, 0, &inside));
    DHOWI_TRY(dhowi_filled(b, &one, -1 - (double)own.shape[axis], &nowhere));
    DHOWI_TRY(dhowi_select(b, inside, index, nowhere, &index));
    DHOWI_TRY(check_known(b, index, &own.shape[axis], 1));
    DHOWI_TRY(dhowi_expand(b, index, u.rank, u.shape, &in[1]));
    return dhowi_emit_into(b, DHOWI_OP_scatter_elements, in, 2, &attrs, x);
}

dhow_status dhowi_scatter_along(dhowi_lowering *b, int32_t x, int32_t updates, int32_t index,
                                int32_t axis, int32_t *out) {
    const int32_t in[] = {updates, index};
    DHOWI_TRY(writable_copy(b, x, in, out));
    return dhowi_scatter_into(b, *out, updates, index, axis);
}

/* Steps `x` of a cache with others from a place of each sequence on: in four dimensions, [batch,
 * ..., steps, ...]. */
dhow_status dhowi_write_steps(dhowi_lowering *b, int32_t cache, int32_t x, int32_t first,
                              int32_t axis, bool circular, int32_t *out) {
    const dhowi_attrs attrs = {.split = {.flag = {circular}}};
    const dhowi_tensor_desc own = *dhowi_desc_at(b, cache), u = *dhowi_desc_at(b, x);
    const int64_t before = dhowi_extent(&own, 1, axis),
                  behind = dhowi_extent(&own, axis + 1, own.rank),
                  room[] = {own.shape[0], before, own.shape[axis], behind},
                  shape[] = {own.shape[0], before, u.shape[axis], behind};
    int32_t in[] = {-1, -1}, to;
    DHOWI_TRY(dhowi_regroup(b, x, 4, shape, &in[0]));
    DHOWI_TRY(dhowi_dense(b, first, &in[1]));
    DHOWI_TRY(writable_copy(b, cache, in, out));
    DHOWI_TRY(dhowi_reshape(b, *out, 4, room, &to));
    return dhowi_emit_into(b, DHOWI_OP_write_steps, in, 2, &attrs, to);
}

dhow_status dhowi_lower_tensor_scatter(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]), u = *dhowi_desc_at(b, b->in[1]);
    const bool circular = dhowi_attr_is(b, "mode", "circular", "linear");
    int32_t axis, first;
    if (!circular && !dhowi_attr_is(b, "mode", "linear", "linear"))
        return dhowi_refuse_text(b, "mode");
    DHOWI_TRY(dhowi_axis(&x, dhowi_attr_int(b, "axis", -2), &axis));
    DHOWI_TRY(check_cache(b, axis));
    b->out[0] = b->in[0];
    if (dhowi_count_of(&u) == 0) return DHOW_OK;
    if (!dhowi_given(b, 2)) {
        DHOWI_TRY(dhowi_numbers(b, DHOW_I64, 0, 0, x.shape[0], &first));
    } else {
        if (!circular)
            DHOWI_TRY(
                dhowi_keep_within(b, b->in[2], "write_indices", 0, x.shape[axis] - u.shape[axis]));
        DHOWI_TRY(dhowi_as_index(b, b->in[2], &first));
    }
    return dhowi_write_steps(b, b->in[0], b->in[1], first, axis, circular, &b->out[0]);
}
