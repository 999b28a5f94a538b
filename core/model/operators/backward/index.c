/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of what takes or places elements by index. Sums over the places that name an element
 * are products with a matrix of ones and zeros: their order is fixed on every device.
 */
#include "model/lower/products/products.h"
#include "model/operators/backward/backward.h"
#include "model/operators/shape/shape.h"

/* Negative ones count from the end. */
static dhow_status from_start(dhowi_lowering *b, int32_t index, int64_t n, int32_t *out) {
    int32_t below;
    DHOWI_TRY(dhowi_as_index(b, index, &index));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_LT, index, 0, &below));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, below, (double)n, &below));
    return dhowi_map_two(b, DHOWI_MAP_ADD, index, below, out);
}

dhow_status dhowi_ungather(dhowi_lowering *b, int32_t d, int32_t axis, int32_t index, int64_t n,
                           int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, d);
    const int64_t rows = dhowi_count_of(dhowi_desc_at(b, index)), line[] = {1, rows};
    const int64_t outer = dhowi_extent(&own, 0, axis),
                  inner = dhowi_extent(&own, axis + 1, own.rank);
    const int64_t one[] = {rows, inner}, parts[] = {outer, rows, inner};
    dhowi_tensor_desc y = own;
    y.shape[axis] = n;
    DHOWI_TRY(dhowi_reshape(b, index, 2, line, &index));
    DHOWI_TRY(dhowi_one_hot(b, index, 0, n, own.dtype, &index));
    DHOWI_TRY(outer == 1 ? dhowi_reshape(b, d, 2, one, &d) : dhowi_reshape(b, d, 3, parts, &d));
    DHOWI_TRY(dhowi_product(b, index, d, -1, &d));
    return dhowi_reshape(b, d, y.rank, y.shape, out);
}

/* Indices of the builder's embedding are not negative. */
dhow_status dhowi_back_gather(dhowi_reverser *r) {
    dhowi_lowering *b = r->b;
    const int64_t given = dhowi_is_built(r->node) ? 0 : dhowi_attr_int(b, "axis", 0);
    int32_t x, index, axis, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_back_input(r, 1, &index));
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    DHOWI_TRY(dhowi_axis(&own, given, &axis));
    const int64_t n = own.shape[axis],
                  parts[] = {dhowi_extent(&own, 0, axis), dhowi_count_of(dhowi_desc_at(b, index)),
                             dhowi_extent(&own, axis + 1, own.rank)};
    if (!dhowi_is_built(r->node)) DHOWI_TRY(from_start(b, index, n, &index));
    DHOWI_TRY(dhowi_reshape(b, r->dy, 3, parts, &d));
    DHOWI_TRY(dhowi_ungather(b, d, 1, index, n, &d));
    DHOWI_TRY(dhowi_reshape(b, d, own.rank, own.shape, &d));
    return dhowi_back_pass(r, 0, d);
}

/* Of y = x at index[outer, k, inner] along an axis: the sum over k. */
static dhow_status ungather_elements(dhowi_reverser *r, int32_t index, int32_t axis,
                                     const dhowi_tensor_desc *x) {
    dhowi_lowering *b = r->b;
    const dhowi_tensor_desc own = *dhowi_desc_at(b, index);
    const int64_t parts[] = {dhowi_extent(&own, 0, axis), own.shape[axis], 1,
                             dhowi_extent(&own, axis + 1, own.rank)};
    int64_t shape[DHOW_MAX_RANK], none[DHOW_MAX_RANK] = {0}, more[DHOW_MAX_RANK];
    bool wider = false;
    int32_t d;
    DHOWI_TRY(from_start(b, index, x->shape[axis], &index));
    DHOWI_TRY(dhowi_reshape(b, index, 4, parts, &index));
    DHOWI_TRY(dhowi_one_hot(b, index, 2, x->shape[axis], x->dtype, &index));
    DHOWI_TRY(dhowi_reshape(b, r->dy, 4, parts, &d));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, index, d, &d));
    DHOWI_TRY(dhowi_sum_along(b, d, 1, &d));
    for (int32_t i = 0; i < own.rank; i++) {
        shape[i] = i == axis ? x->shape[i] : own.shape[i];
        more[i] = x->shape[i] - shape[i];
        wider = wider || more[i] > 0;
    }
    DHOWI_TRY(dhowi_reshape(b, d, own.rank, shape, &d));
    if (wider) DHOWI_TRY(dhowi_pad_with(b, d, none, more, 0, &d));
    return dhowi_back_pass(r, 0, d);
}

dhow_status dhowi_back_gather_elements(dhowi_reverser *r) {
    int32_t in[2], axis;
    DHOWI_TRY(dhowi_back_inputs(r, 2, in));
    const dhowi_tensor_desc x = *dhowi_desc_at(r->b, in[0]);
    DHOWI_TRY(dhowi_axis(&x, dhowi_attr_int(r->b, "axis", 0), &axis));
    return ungather_elements(r, in[1], axis, &x);
}

/* Values go back to where the indices, its second result, say. */
dhow_status dhowi_back_topk(dhowi_reverser *r) {
    int32_t x, index, axis;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    const dhowi_tensor_desc own = *dhowi_desc_at(r->b, x);
    DHOWI_TRY(dhowi_axis(&own, dhowi_attr_int(r->b, "axis", -1), &axis));
    if (r->node->out_count < 2 || r->node->out[1] < 0) DHOWI_REFUSE("its indices have no name");
    DHOWI_TRY(dhowi_ref_of(r->b, r->node->out[1], &index));
    return ungather_elements(r, index, axis, &own);
}

dhow_status dhowi_back_gather_nd(dhowi_reverser *r) {
    dhowi_lowering *b = r->b;
    dhowi_nd n;
    int32_t in[2], d;
    DHOWI_TRY(dhowi_back_inputs(r, 2, in));
    const dhowi_tensor_desc own = *dhowi_desc_at(b, in[0]);
    const dhowi_back_scope scope = dhowi_back_enter(r, in, 2);
    dhow_status status = dhowi_nd_rows(b, &n);
    dhowi_back_leave(r, scope);
    DHOWI_TRY(status);
    const int64_t flat[] = {n.count, n.inner};
    DHOWI_TRY(dhowi_reshape(b, r->dy, 2, flat, &d));
    DHOWI_TRY(dhowi_ungather(b, d, 0, n.index, n.rows, &d));
    DHOWI_TRY(dhowi_reshape(b, d, own.rank, own.shape, &d));
    return dhowi_back_pass(r, 0, d);
}

/* x keeps dy where nothing was written, or everywhere where updates are added; updates have what
 * lies where they were put. */
static dhow_status back_scatter(dhowi_reverser *r, dhowi_lower_fn *scatter,
                                dhowi_lower_fn *gather) {
    dhowi_lowering *b = r->b;
    dhowi_map_op op;
    int32_t in[3], d = r->dy;
    DHOWI_TRY(dhowi_scatter_kind(b, &op));
    if (op != 0 && op != DHOWI_MAP_ADD) DHOWI_REFUSE("a reduction other than none and add");
    DHOWI_TRY(dhowi_back_inputs(r, 3, in));
    const dhowi_tensor_desc updates = *dhowi_desc_at(b, in[2]);
    in[0] = r->dy;
    if (dhowi_back_wants(r, 0)) {
        if (op == 0) {
            DHOWI_TRY(dhowi_filled(b, &updates, 0, &in[2]));
            DHOWI_TRY(dhowi_back_lower(r, scatter, in, 3, &d));
        }
        DHOWI_TRY(dhowi_back_pass(r, 0, d));
    }
    if (!dhowi_back_wants(r, 2)) return DHOW_OK;
    DHOWI_TRY(dhowi_back_lower(r, gather, in, 2, &d));
    return dhowi_back_pass(r, 2, d);
}
dhow_status dhowi_back_scatter_elements(dhowi_reverser *r) {
    return back_scatter(r, dhowi_lower_scatter_elements, dhowi_lower_gather_elements);
}
dhow_status dhowi_back_scatter_nd(dhowi_reverser *r) {
    return back_scatter(r, dhowi_lower_scatter_nd, dhowi_lower_gather_nd);
}

/* Its values are constants. */
dhow_status dhowi_back_one_hot(dhowi_reverser *r) {
    (void)r;
    return DHOW_OK;
}

/* start + i delta; the limit only counts. */
dhow_status dhowi_back_range(dhowi_reverser *r) {
    const dhowi_tensor_desc y = *dhowi_desc_at(r->b, r->dy);
    int32_t d;
    if (dhowi_back_wants(r, 0)) DHOWI_TRY(dhowi_back_pass(r, 0, r->dy));
    if (!dhowi_back_wants(r, 2)) return DHOW_OK;
    DHOWI_TRY(dhowi_numbers(r->b, y.dtype, 0, 1, y.shape[0], &d));
    DHOWI_TRY(dhowi_back_times(r, d, &d));
    return dhowi_back_pass(r, 2, d);
}
