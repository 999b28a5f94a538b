/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduce..., ArgMax and ArgMin.
 */
#include "model/operators/math/math.h"

/* Without the extents of 1 that the marked axes have become. */
static dhow_status drop_axes(dhowi_lowering *b, int32_t x, const bool *axes, int32_t *out) {
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, x);
    int64_t shape[DHOW_MAX_RANK];
    int32_t rank = 0;
    for (int32_t i = 0; i < desc.rank; i++) {
        if (!axes[i]) shape[rank++] = desc.shape[i];
    }
    return dhowi_reshape(b, x, rank, shape, out);
}

dhow_status dhowi_lower_reduce(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    int64_t given[DHOW_MAX_RANK];
    bool axes[DHOW_MAX_RANK] = {false};
    uint32_t count;
    bool noop, keep;
    DHOWI_TRY(dhowi_axes(b, 1, given, &count));
    DHOWI_TRY(dhowi_attr_flag(b, "noop_with_empty_axes", false, &noop));
    DHOWI_TRY(dhowi_attr_flag(b, "keepdims", true, &keep));
    /* Over no axes nothing is summed up, but a logarithm or square is taken all the same. */
    for (int32_t i = 0; count == 0 && !noop && i < x.rank; i++) axes[i] = true;
    for (uint32_t i = 0; i < count; i++) {
        int32_t axis;
        DHOWI_TRY(dhowi_axis(&x, given[i], &axis));
        axes[axis] = true;
    }
    DHOWI_TRY(dhowi_reduce(b, b->node->op->arg, b->in[0], axes, &b->out[0]));
    if (keep) return DHOW_OK;
    return drop_axes(b, b->out[0], axes, &b->out[0]);
}

/* Of the largest, or (arg != 0) the smallest; select_last_index looks from the end. */
dhow_status dhowi_lower_arg(dhowi_lowering *b) {
    int32_t x = b->in[0], axis;
    bool axes[DHOW_MAX_RANK] = {false};
    int64_t parts[3];
    DHOWI_TRY(dhowi_axis(dhowi_desc_at(b, x), dhowi_attr_int(b, "axis", 0), &axis));
    dhowi_tensor_desc result = *dhowi_desc_at(b, x);
    int64_t n = result.shape[axis];
    bool last, keep;
    DHOWI_TRY(dhowi_attr_flag(b, "select_last_index", false, &last));
    DHOWI_TRY(dhowi_attr_flag(b, "keepdims", true, &keep));
    if (n == 0) DHOWI_REFUSE("the axis has no elements");
    result.shape[axis] = 1;
    axes[axis] = true;
    DHOWI_TRY(dhowi_widened(b, DHOWI_OP_argmax, x, &x));
    /* The least integer has no negative. */
    const dhowi_map_op mirror =
        dhowi_is_float(dhowi_desc_at(b, x)->dtype) ? DHOWI_MAP_NEG : DHOWI_MAP_BIT_NOT;
    if (b->node->op->arg != 0) DHOWI_TRY(dhowi_map_one(b, mirror, 0, 0, x, &x));
    if (last) {
        int32_t order;
        DHOWI_TRY(dhowi_numbers(b, DHOW_I64, (double)(n - 1), -1, n, &order));
        DHOWI_TRY(dhowi_gather_along(b, x, axis, order, &x));
    }
    DHOWI_TRY(dhowi_group_axes(b, axes, &x, parts));
    const dhowi_tensor_desc flat = {.dtype = DHOW_I64, .rank = 2, .shape = {parts[0], parts[2]}};
    const dhowi_attrs attrs = {.dim = 1};
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_argmax, &x, 1, &attrs, &flat, &b->out[0]));
    if (last) {
        DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_LINEAR, -1, (double)(n - 1), b->out[0], &b->out[0]));
    }
    DHOWI_TRY(dhowi_reshape(b, b->out[0], result.rank, result.shape, &b->out[0]));
    if (keep) return DHOW_OK;
    return drop_axes(b, b->out[0], axes, &b->out[0]);
}
