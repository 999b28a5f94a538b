/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of what only arranges elements.
 */
#include "model/operators/backward/backward.h"
#include "model/operators/nn/nn.h"
#include "model/operators/shape/shape.h"

dhow_status dhowi_back_reshape(dhowi_reverser *r) {
    int32_t x, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    const dhowi_tensor_desc desc = *dhowi_desc_at(r->b, x);
    DHOWI_TRY(dhowi_reshape(r->b, r->dy, desc.rank, desc.shape, &d));
    return dhowi_back_pass(r, 0, d);
}

dhow_status dhowi_back_transpose(dhowi_reverser *r) {
    const dhowi_tensor_desc dy = *dhowi_desc_at(r->b, r->dy);
    int32_t order[DHOW_MAX_RANK], d;
    uint32_t count;
    const int64_t *perm = dhowi_attr_ints(r->b, "perm", &count);
    for (int32_t i = 0; i < dy.rank; i++) {
        int64_t to = perm != NULL ? perm[i] : dy.rank - 1 - i;
        order[to < 0 ? to + dy.rank : to] = i;
    }
    DHOWI_TRY(dhowi_permute(r->b, r->dy, order, &d));
    return dhowi_back_pass(r, 0, d);
}

/* Concat of ONNX has an attribute, the builder's a dimension. */
dhow_status dhowi_back_concat(dhowi_reverser *r) {
    const dhowi_tensor_desc dy = *dhowi_desc_at(r->b, r->dy);
    const int64_t given =
        dhowi_is_built(r->node) ? r->node->attrs->dim : dhowi_attr_int(r->b, "axis", 0);
    int32_t axis, x, d;
    int64_t first = 0;
    DHOWI_TRY(dhowi_axis(&dy, given, &axis));
    for (uint32_t i = 0; i < r->node->in_count; i++) {
        DHOWI_TRY(dhowi_back_input(r, i, &x));
        const int64_t extent = dhowi_desc_at(r->b, x)->shape[axis];
        if (dhowi_back_wants(r, i)) {
            DHOWI_TRY(dhowi_narrow(r->b, r->dy, axis, first, extent, 1, &d));
            DHOWI_TRY(dhowi_back_pass(r, i, d));
        }
        first += extent;
    }
    return DHOW_OK;
}

/* Indices of one dimension, as the builder's narrow takes them: zeros around what was taken. */
dhow_status dhowi_back_narrow(dhowi_reverser *r) {
    const dhowi_attrs *a = r->node->attrs;
    int64_t before[DHOW_MAX_RANK] = {0}, after[DHOW_MAX_RANK] = {0};
    int32_t x, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    before[a->dim] = a->split.n;
    after[a->dim] = dhowi_desc_at(r->b, x)->shape[a->dim] - a->split.n - a->split.count;
    DHOWI_TRY(dhowi_pad_with(r->b, r->dy, before, after, 0, &d));
    return dhowi_back_pass(r, 0, d);
}

/* ---- views of a file ---- */

/* x backwards along an axis. */
static dhow_status flipped(dhowi_lowering *b, int32_t x, int32_t axis, int32_t *out) {
    const int64_t n = dhowi_desc_at(b, x)->shape[axis];
    *out = x;
    if (n < 2) return DHOW_OK;
    DHOWI_TRY(dhowi_narrow(b, x, axis, n - 1, n, -1, out));
    return dhowi_dense(b, *out, out);
}

/* An array of zeros, for parts to be written into. */
static dhow_status blank(dhowi_lowering *b, const dhowi_tensor_desc *desc, int32_t *out) {
    const dhowi_attrs zero = {.scalar = {dhow_scalar_f64(0)}};
    DHOWI_TRY(dhowi_blank(b, desc, out));
    return dhowi_emit_into(b, DHOWI_OP_fill, NULL, 0, &zero, *out);
}

/* Zeros, and dy where the slice took its elements. */
dhow_status dhowi_back_slice(dhowi_reverser *r) {
    dhowi_lowering *b = r->b;
    dhowi_range ranges[DHOW_MAX_RANK];
    int32_t in[5], all, place, d = r->dy;
    DHOWI_TRY(dhowi_back_inputs(r, 5, in));
    const dhowi_tensor_desc own = *dhowi_desc_at(b, in[0]);
    const dhowi_back_scope scope = dhowi_back_enter(r, in, r->node->in_count);
    dhow_status status = dhowi_slice_ranges(b, ranges);
    dhowi_back_leave(r, scope);
    DHOWI_TRY(status);
    DHOWI_TRY(blank(b, &own, &all));
    place = all;
    for (int32_t i = 0; i < own.rank; i++) {
        dhowi_range *g = &ranges[i];
        if (g->step < 0) {
            DHOWI_TRY(flipped(b, d, i, &d));
            g->start += (g->count - 1) * g->step;
            g->step = -g->step;
        }
        if (g->count == 0) return dhowi_back_pass(r, 0, all);
        DHOWI_TRY(dhowi_narrow(b, place, i, g->start, g->count, g->step, &place));
    }
    DHOWI_TRY(dhowi_emit_into(b, DHOWI_OP_copy, &d, 1, NULL, place));
    return dhowi_back_pass(r, 0, all);
}

/* Parts follow one another; those without a derivative are zeros. */
dhow_status dhowi_back_split(dhowi_reverser *r) {
    dhowi_lowering *b = r->b;
    int32_t x, axis, all, place, part;
    int64_t at = 0;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    DHOWI_TRY(dhowi_axis(&own, dhowi_attr_int(b, "axis", 0), &axis));
    DHOWI_TRY(blank(b, &own, &all));
    for (uint32_t i = 0; i < r->node->out_count; i++) {
        if (r->node->out[i] < 0) DHOWI_REFUSE("its output %u has no name", i);
        DHOWI_TRY(dhowi_ref_of(b, r->node->out[i], &part));
        const int64_t extent = dhowi_desc_at(b, part)->shape[axis];
        const int32_t d = r->slope[r->node->out[i]];
        if (d >= 0) {
            DHOWI_TRY(dhowi_narrow(b, all, axis, at, extent, 1, &place));
            DHOWI_TRY(dhowi_emit_into(b, DHOWI_OP_copy, &d, 1, NULL, place));
        }
        at += extent;
    }
    return dhowi_back_pass(r, 0, all);
}

/* The sum over repetitions, the last dimension first. */
dhow_status dhowi_back_tile(dhowi_reverser *r) {
    dhowi_lowering *b = r->b;
    int32_t x, d = r->dy;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    for (int32_t i = own.rank - 1; i >= 0; i--) {
        dhowi_tensor_desc y = *dhowi_desc_at(b, d);
        if (y.shape[i] == own.shape[i] || own.shape[i] == 0) continue;
        const int64_t parts[] = {dhowi_extent(&y, 0, i), y.shape[i] / own.shape[i],
                                 own.shape[i] * dhowi_extent(&y, i + 1, y.rank)};
        y.shape[i] = own.shape[i];
        DHOWI_TRY(dhowi_reshape(b, d, 3, parts, &d));
        DHOWI_TRY(dhowi_sum_along(b, d, 1, &d));
        DHOWI_TRY(dhowi_reshape(b, d, y.rank, y.shape, &d));
    }
    return dhowi_back_pass(r, 0, d);
}

/* The other one of the two, in the same order of blocks. */
static dhow_status inverse(dhowi_reverser *r, dhowi_lower_fn *other) {
    int32_t d;
    DHOWI_TRY(dhowi_back_lower(r, other, &r->dy, 1, &d));
    return dhowi_back_pass(r, 0, d);
}
dhow_status dhowi_back_depth_to_space(dhowi_reverser *r) {
    return inverse(r, dhowi_lower_space_to_depth);
}
dhow_status dhowi_back_space_to_depth(dhowi_reverser *r) {
    return inverse(r, dhowi_lower_depth_to_space);
}

/* ---- what repeats or cuts ---- */

/* Constant padding is cut off; what repeats an element gives it the sum, a product by axis. */
dhow_status dhowi_back_pad(dhowi_reverser *r) {
    dhowi_lowering *b = r->b;
    dhowi_pads p;
    int32_t in[4], index, d = r->dy;
    DHOWI_TRY(dhowi_back_inputs(r, 4, in));
    const dhowi_tensor_desc own = *dhowi_desc_at(b, in[0]);
    const dhowi_back_scope scope = dhowi_back_enter(r, in, r->node->in_count);
    dhow_status status = dhowi_pads_of(b, &p);
    dhowi_back_leave(r, scope);
    DHOWI_TRY(status);
    for (int32_t i = 0; i < own.rank && p.mode == 'c'; i++) {
        p.before[i] = -p.before[i];
        p.after[i] = -p.after[i];
    }
    if (p.mode == 'c') {
        DHOWI_TRY(dhowi_pad_with(b, d, p.before, p.after, 0, &d));
        return dhowi_back_pass(r, 0, d);
    }
    for (int32_t i = 0; i < own.rank; i++) {
        if (p.before[i] == 0 && p.after[i] == 0) continue;
        DHOWI_TRY(dhowi_pad_indices(b, &p, i, own.shape[i], &index));
        DHOWI_TRY(dhowi_ungather(b, d, i, index, own.shape[i], &d));
    }
    return dhowi_back_pass(r, 0, d);
}

/* It pads and cuts by constants: what it does to dy with x's shape asked for. */
dhow_status dhowi_back_center_crop_pad(dhowi_reverser *r) {
    dhowi_lowering *b = r->b;
    int64_t before[DHOW_MAX_RANK], after[DHOW_MAX_RANK];
    int32_t x, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x), y = *dhowi_desc_at(b, r->dy);
    for (int32_t i = 0; i < own.rank; i++) {
        const int64_t more = y.shape[i] - own.shape[i];
        before[i] = -(more / 2);
        after[i] = -(more - more / 2);
    }
    DHOWI_TRY(dhowi_pad_with(b, r->dy, before, after, 0, &d));
    return dhowi_back_pass(r, 0, d);
}

/* Operators that are their own transposes. */
static dhow_status by_itself(dhowi_reverser *r, dhowi_lower_fn *lower) {
    int32_t in[2], d;
    DHOWI_TRY(dhowi_back_inputs(r, 2, in));
    in[0] = r->dy;
    DHOWI_TRY(dhowi_back_lower(r, lower, in, r->node->in_count, &d));
    return dhowi_back_pass(r, 0, d);
}
dhow_status dhowi_back_trilu(dhowi_reverser *r) { return by_itself(r, dhowi_lower_trilu); }
dhow_status dhowi_back_reverse_sequence(dhowi_reverser *r) {
    return by_itself(r, dhowi_lower_reverse_sequence);
}

/* The sums from the other end. */
dhow_status dhowi_back_cumsum(dhowi_reverser *r) {
    dhowi_lowering *b = r->b;
    int64_t given;
    int32_t in[2], axis, d;
    DHOWI_TRY(dhowi_back_inputs(r, 2, in));
    DHOWI_TRY(dhowi_one_int(b, in[1], "the axis", &given));
    DHOWI_TRY(dhowi_axis(dhowi_desc_at(b, in[0]), given, &axis));
    DHOWI_TRY(flipped(b, r->dy, axis, &in[0]));
    DHOWI_TRY(dhowi_back_lower(r, dhowi_lower_cumsum, in, 2, &d));
    DHOWI_TRY(flipped(b, d, axis, &d));
    return dhowi_back_pass(r, 0, d);
}

dhow_status dhowi_back_resize(dhowi_reverser *r) {
    int32_t in[4], d;
    DHOWI_TRY(dhowi_back_inputs(r, 4, in));
    const dhowi_back_scope scope = dhowi_back_enter(r, in, r->node->in_count);
    dhow_status status = dhowi_resize_back(r->b, r->dy, &d);
    dhowi_back_leave(r, scope);
    DHOWI_TRY(status);
    return dhowi_back_pass(r, 0, d);
}
