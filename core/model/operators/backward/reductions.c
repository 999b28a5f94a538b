/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of sums and means, and of what divides a row by one.
 */
#include <math.h>

#include "model/operators/backward/backward.h"

/* The marked axes of a reduction, as its lowering reads them. */
static dhow_status axes_of(dhowi_reverser *r, const dhowi_tensor_desc *x, bool *axes,
                           double *elements) {
    dhowi_lowering *b = r->b;
    int32_t refs[2] = {-1, -1}, *in = b->in;
    uint32_t in_count = b->in_count, count;
    int64_t list[DHOW_MAX_RANK];
    if (dhowi_is_built(r->node)) { /* the builder's: its marks */
        *elements = 1;
        for (int32_t i = 0; i < x->rank; i++) {
            axes[i] = r->node->attrs->split.strides[i] != 0;
            if (axes[i]) *elements *= (double)x->shape[i];
        }
        return DHOW_OK;
    }
    for (uint32_t i = 0; i < r->node->in_count && i < 2; i++)
        if (r->node->in[i] >= 0) DHOWI_TRY(dhowi_back_input(r, i, &refs[i]));
    b->in = refs;
    b->in_count = r->node->in_count;
    dhow_status status = dhowi_axes(b, 1, list, &count);
    bool none = count == 0 && dhowi_attr_int(b, "noop_with_empty_axes", 0) != 0;
    b->in = in;
    b->in_count = in_count;
    DHOWI_TRY(status);
    for (uint32_t i = 0; i < count; i++) {
        int32_t axis;
        DHOWI_TRY(dhowi_axis(x, list[i], &axis));
        axes[axis] = true;
    }
    *elements = 1;
    for (int32_t i = 0; i < x->rank; i++) {
        axes[i] = axes[i] || (count == 0 && !none);
        if (axes[i]) *elements *= (double)x->shape[i];
    }
    return DHOW_OK;
}

static dhow_status of_reduction(dhowi_reverser *r, bool mean) {
    bool axes[DHOW_MAX_RANK] = {false};
    double elements;
    int32_t x, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    const dhowi_tensor_desc desc = *dhowi_desc_at(r->b, x);
    DHOWI_TRY(axes_of(r, &desc, axes, &elements));
    int64_t kept[DHOW_MAX_RANK];
    for (int32_t i = 0; i < desc.rank; i++) kept[i] = axes[i] ? 1 : desc.shape[i];
    DHOWI_TRY(dhowi_reshape(r->b, r->dy, desc.rank, kept, &d));
    if (mean) DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_MUL, d, 1 / elements, &d));
    DHOWI_TRY(dhowi_expand(r->b, d, desc.rank, desc.shape, &d));
    return dhowi_back_pass(r, 0, d);
}
dhow_status dhowi_back_reduce_sum(dhowi_reverser *r) { return of_reduction(r, false); }
dhow_status dhowi_back_reduce_mean(dhowi_reverser *r) { return of_reduction(r, true); }

/* Of a variance 2 (x - mean) / divisor, of its root y (x - mean) / (divisor y). */
dhow_status dhowi_back_spread(dhowi_reverser *r) {
    dhowi_lowering *b = r->b;
    const dhowi_attrs *a = r->node->attrs;
    const bool root = a->split.count != 0;
    bool axes[DHOW_MAX_RANK] = {false};
    int64_t kept[DHOW_MAX_RANK];
    double elements;
    int32_t x, y, mean, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, x);
    DHOWI_TRY(axes_of(r, &desc, axes, &elements));
    for (int32_t i = 0; i < desc.rank; i++) kept[i] = axes[i] ? 1 : desc.shape[i];
    const double divisor = fmax(0, elements - a->number);
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, r->dy, (root ? 1 : 2) / divisor, &d));
    if (root) {
        DHOWI_TRY(dhowi_back_output(r, &y));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_DIV, d, y, &d));
    }
    DHOWI_TRY(dhowi_reshape(b, d, desc.rank, kept, &d));
    DHOWI_TRY(dhowi_reduce(b, DHOWI_MEAN, x, axes, &mean));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, x, mean, &x));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, x, d, &d));
    return dhowi_back_pass(r, 0, d);
}

/* ---- rows ---- */

/* The axis of a softmax; before opset 13 it meant all dimensions from there on. */
static dhow_status axis_of_rows(dhowi_reverser *r, int32_t *out) {
    const dhowi_tensor_desc y = *dhowi_desc_at(r->b, r->dy);
    const bool old = r->node->source != NULL && r->node->opset < 13;
    const int64_t axis =
        dhowi_is_built(r->node) ? r->node->attrs->dim : dhowi_attr_int(r->b, "axis", old ? 1 : -1);
    DHOWI_TRY(dhowi_axis(&y, axis, out));
    if (old && *out != y.rank - 1) DHOWI_REFUSE("axis %d of opset %d", *out, r->node->opset);
    return DHOW_OK;
}

/* y (dy - sum of dy y) */
dhow_status dhowi_back_softmax(dhowi_reverser *r) {
    int32_t y, axis, d, sum;
    DHOWI_TRY(axis_of_rows(r, &axis));
    DHOWI_TRY(dhowi_back_output(r, &y));
    DHOWI_TRY(dhowi_back_times(r, y, &d));
    DHOWI_TRY(dhowi_sum_along(r->b, d, axis, &sum));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_SUB, r->dy, sum, &d));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, d, y, &d));
    return dhowi_back_pass(r, 0, d);
}

/* dy - e^y sum of dy */
dhow_status dhowi_back_log_softmax(dhowi_reverser *r) {
    int32_t y, axis, d, sum;
    DHOWI_TRY(axis_of_rows(r, &axis));
    DHOWI_TRY(dhowi_back_output(r, &y));
    DHOWI_TRY(dhowi_sum_along(r->b, r->dy, axis, &sum));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_EXP, 0, 0, y, &d));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, d, sum, &d));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_SUB, r->dy, d, &d));
    return dhowi_back_pass(r, 0, d);
}
