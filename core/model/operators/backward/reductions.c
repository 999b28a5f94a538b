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

/* Of a product without its own factor: that of the others, 0 where one of those is. */
static dhow_status other_factors(dhowi_lowering *b, int32_t x, const bool *axes, int32_t *out) {
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, x);
    int32_t zero, zeros, apart, factor;
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_EQ, x, 0, &zero));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, x, zero, &factor)); /* 1 in place of 0 */
    DHOWI_TRY(dhowi_reduce(b, DHOWI_PROD, factor, axes, out));
    DHOWI_TRY(dhowi_reduce(b, DHOWI_SUM, zero, axes, &zeros));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_EQ, zeros, zero, &apart));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_DIV, *out, factor, out));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, *out, apart, out));
    return dhowi_expand(b, *out, desc.rank, desc.shape, out);
}

/* dy / y, and 0 where y is 0: a norm of nothing but zeros has a corner there. */
static dhow_status over_norm(dhowi_lowering *b, int32_t d, int32_t y, int32_t *out) {
    int32_t zero;
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_EQ, y, 0, &zero));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, y, zero, &y));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_DIV, d, y, out));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_RSUB, zero, 1, &zero));
    return dhowi_map_two(b, DHOWI_MAP_MUL, *out, zero, out);
}

/* dx of the reduction y = kind(x) over axes, which y and d keep as extents of 1. */
static dhow_status back_kind(dhowi_lowering *b, int kind, int32_t x, int32_t y, const bool *axes,
                             int32_t d, int32_t *out) {
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, x);
    double elements = 1;
    int32_t share, sum;
    for (int32_t i = 0; i < desc.rank; i++) elements *= axes[i] ? (double)desc.shape[i] : 1;
    switch (kind) {
        case DHOWI_SUM:
            return dhowi_expand(b, d, desc.rank, desc.shape, out);
        case DHOWI_MEAN:
            DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, d, 1 / elements, &d));
            return dhowi_expand(b, d, desc.rank, desc.shape, out);
        case DHOWI_MAX_OF: /* those that are equal share it, as in PyTorch's amax */
        case DHOWI_MIN_OF:
            DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_EQ, x, y, &share));
            DHOWI_TRY(dhowi_reduce(b, DHOWI_SUM, share, axes, &sum));
            DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_DIV, d, sum, &d));
            break;
        case DHOWI_PROD:
            DHOWI_TRY(other_factors(b, x, axes, &share));
            break;
        case DHOWI_L1:
            DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SIGN, 0, 0, x, &share));
            break;
        case DHOWI_L2:
            DHOWI_TRY(over_norm(b, d, y, &d));
            share = x;
            break;
        case DHOWI_LOG_SUM: /* 1 / sum = e^-y */
            DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_NEG, 0, 0, y, &share));
            DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_EXP, 0, 0, share, &share));
            DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, d, share, &d));
            return dhowi_expand(b, d, desc.rank, desc.shape, out);
        case DHOWI_LOG_SUM_EXP:
            DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, x, y, &share));
            DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_EXP, 0, 0, share, &share));
            break;
        default:
            DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_LINEAR, 2, 0, x, &share));
    }
    return dhowi_map_two(b, DHOWI_MAP_MUL, share, d, out);
}

static dhow_status back_marked(dhowi_reverser *r, int kind, const bool *axes) {
    int32_t x, y, d;
    int64_t kept[DHOW_MAX_RANK];
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_back_output(r, &y));
    const dhowi_tensor_desc desc = *dhowi_desc_at(r->b, x);
    for (int32_t i = 0; i < desc.rank; i++) kept[i] = axes[i] ? 1 : desc.shape[i];
    DHOWI_TRY(dhowi_reshape(r->b, r->dy, desc.rank, kept, &d));
    DHOWI_TRY(dhowi_reshape(r->b, y, desc.rank, kept, &y));
    DHOWI_TRY(back_kind(r->b, kind, x, y, axes, d, &d));
    return dhowi_back_pass(r, 0, d);
}

dhow_status dhowi_back_reduce(dhowi_reverser *r) {
    const int kind = dhowi_is_built(r->node) ? (int)r->node->attrs->split.count : r->node->op->arg;
    bool axes[DHOW_MAX_RANK] = {false};
    double elements;
    int32_t x;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    const dhowi_tensor_desc desc = *dhowi_desc_at(r->b, x);
    DHOWI_TRY(axes_of(r, &desc, axes, &elements));
    return back_marked(r, kind, axes);
}

/* Over everything but samples and channels. */
dhow_status dhowi_back_global_pool(dhowi_reverser *r) {
    int kind = r->node->op->arg;
    bool axes[DHOW_MAX_RANK] = {false};
    int32_t x;
    if (kind == DHOWI_L2 && dhowi_attr_int(r->b, "p", 2) == 1) kind = DHOWI_L1;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    for (int32_t i = 2; i < dhowi_desc_at(r->b, x)->rank; i++) axes[i] = true;
    return back_marked(r, kind, axes);
}

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
