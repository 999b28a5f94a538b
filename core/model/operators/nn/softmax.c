/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax, LogSoftmax and Hardmax.
 */
#include "model/operators/nn/nn.h"

/* Rows along an axis, or, `flat`, of everything from it on. */
static dhow_status rows_along(dhowi_lowering *b, int64_t at, bool flat, int32_t *x, int32_t *axis) {
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, *x);
    DHOWI_TRY(dhowi_axis(&desc, at, axis));
    if (!flat) return DHOW_OK;
    const int64_t rows[] = {dhowi_extent(&desc, 0, *axis), dhowi_extent(&desc, *axis, desc.rank)};
    *axis = 1;
    return dhowi_reshape(b, *x, 2, rows, x);
}

dhow_status dhowi_softmax_along(dhowi_lowering *b, dhowi_op_id op, int32_t x, int64_t axis,
                                bool flat, int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    dhowi_attrs attrs = {0};
    DHOWI_TRY(rows_along(b, axis, flat, &x, &attrs.dim));
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, x);
    if (!dhowi_is_float(desc.dtype)) DHOWI_REFUSE("x is %s", dhow_dtype_name(desc.dtype));
    DHOWI_TRY(dhowi_emit(b, op, &x, 1, &attrs, &desc, out));
    return dhowi_reshape(b, *out, own.rank, own.shape, out);
}

/* Before opset 13 everything from the axis on is one row. */
static bool is_flat(const dhowi_lowering *b) { return b->node->opset < 13; }

static int64_t axis_of(const dhowi_lowering *b) {
    return dhowi_attr_int(b, "axis", is_flat(b) ? 1 : -1);
}

dhow_status dhowi_lower_softmax(dhowi_lowering *b) {
    return dhowi_softmax_along(b, (dhowi_op_id)b->node->op->arg, b->in[0], axis_of(b), is_flat(b),
                               &b->out[0]);
}

dhow_status dhowi_lower_hardmax(dhowi_lowering *b) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, b->in[0]);
    int32_t x = b->in[0], axis, top, classes;
    int64_t parts[3];
    bool axes[DHOW_MAX_RANK] = {false};
    DHOWI_TRY(rows_along(b, axis_of(b), is_flat(b), &x, &axis));
    axes[axis] = true;
    DHOWI_TRY(dhowi_group_axes(b, axes, &x, parts));
    const dhowi_tensor_desc flat = {.dtype = DHOW_I64, .rank = 3, .shape = {parts[0], 1, parts[2]}};
    const dhowi_attrs attrs = {.dim = 1};
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_argmax, &x, 1, &attrs, &flat, &top));
    DHOWI_TRY(dhowi_numbers(b, DHOW_I64, 0, 1, parts[1], &classes));
    DHOWI_TRY(dhowi_along(b, classes, 3, 1, &classes));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_EQ, top, classes, &top));
    DHOWI_TRY(dhowi_cast_to(b, top, own.dtype, &top));
    return dhowi_reshape(b, top, own.rank, own.shape, &b->out[0]);
}
