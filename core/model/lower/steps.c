/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of a lowering, see lower.h.
 */
#include <string.h>

#include "base/memory/array.h"
#include "base/memory/size.h"
#include "model/lower/lower.h"

/* ---- views ---- */

bool dhowi_is_aligned(const dhowi_lowering *b, int32_t x) {
    const dhowi_item *item = &b->items[x];
    const uint64_t align = b->device->desc.offset_align,
                   offset = (uint64_t)item->offset * dhow_dtype_bytes(item->desc.dtype);
    return item->tensor != NULL || offset % DHOWI_MAX(align, (uint64_t)1) == 0;
}

dhow_status dhowi_dense(dhowi_lowering *b, int32_t x, int32_t *out) {
    const dhowi_item *item = &b->items[x];
    *out = x;
    if (item->contiguous && dhowi_is_aligned(b, x)) return DHOW_OK;
    const dhowi_tensor_desc desc = item->desc;
    return dhowi_emit(b, DHOWI_OP_copy, &x, 1, NULL, &desc, out);
}

/* An operand as the kernels of an operation take it. */
static dhow_status operand_of(dhowi_lowering *b, dhowi_op_id op, int32_t x, int32_t *out) {
    const uint32_t flags = dhowi_op_of(op)->flags;
    *out = x;
    if (x < 0) return DHOW_OK;
    const bool fits = (flags & DHOWI_OP_STRIDED) != 0 &&
                      ((flags & DHOWI_OP_ALIGNED) == 0 || dhowi_is_aligned(b, x));
    return fits ? DHOW_OK : dhowi_dense(b, x, out);
}

static bool all_known(const dhowi_lowering *b, const int32_t *in, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (in[i] >= 0 && !dhowi_is_known(b, in[i])) return false;
    }
    return true;
}

static bool all_fixed(const dhowi_lowering *b, const int32_t *in, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (in[i] >= 0 && !dhowi_is_known(b, in[i]) && !b->items[in[i]].fixed) return false;
    }
    return true;
}

/* The kernels of these read all inputs as the type of the first. */
static dhow_status check_types(const dhowi_lowering *b, dhowi_op_id op, const int32_t *in,
                               uint32_t count) {
    if (op != DHOWI_OP_conv2d && op != DHOWI_OP_conv3d && op != DHOWI_OP_conv_transpose &&
        op != DHOWI_OP_matmul && op != DHOWI_OP_layernorm && op != DHOWI_OP_normalize)
        return DHOW_OK;
    const dhow_dtype dtype = b->items[in[0]].desc.dtype;
    for (uint32_t i = 1; i < count; i++) {
        if (in[i] >= 0 && b->items[in[i]].desc.dtype != dtype)
            DHOWI_REFUSE("inputs of types %s and %s", dhow_dtype_name(dtype),
                         dhow_dtype_name(b->items[in[i]].desc.dtype));
    }
    return DHOW_OK;
}

dhow_status dhowi_append_step(dhowi_lowering *b, const dhowi_step *s) {
    if (!dhowi_room((void **)&b->steps, b->step_count, &b->step_capacity, sizeof *b->steps))
        return dhowi_fail_memory("plan");
    b->steps[b->step_count++] = *s;
    return DHOW_OK;
}

static dhow_status add_step(dhowi_lowering *b, dhowi_op_id op, const int32_t *in, uint32_t count,
                            const dhowi_attrs *attrs, int32_t out, int32_t second) {
    dhowi_step step = {.op = op, .out = out, .second = second, .node = b->node};
    if (attrs != NULL) step.attrs = *attrs;
    DHOWI_TRY(check_types(b, op, in, count));
    if (dhowi_count_of(&b->items[out].desc) == 0) return DHOW_OK;
    for (uint32_t i = 0; i < DHOWI_OP_MAX_INPUTS; i++) {
        DHOWI_TRY(operand_of(b, op, i < count ? in[i] : -1, &step.in[i]));
        if (step.in[i] >= 0 && dhowi_is_known(b, out) && !dhowi_is_known(b, step.in[i]))
            return dhowi_fail(DHOW_UNSUPPORTED, "its constants are too large for the host");
    }
    if (dhowi_is_known(b, out))
        return b->defers && second < 0 ? dhowi_run_later(b, &step) : dhowi_run_now(b, &step);
    return dhowi_append_step(b, &step);
}

dhow_status dhowi_blank_of(dhowi_lowering *b, const dhowi_tensor_desc *desc, const int32_t *in,
                           uint32_t count, int32_t *out) {
    int64_t elements;
    uint64_t bytes;
    DHOWI_TRY(dhowi_shape_check("result", desc->dtype, desc->rank, desc->shape, &elements, &bytes));
    if (all_known(b, in, count) && dhowi_fold(b, bytes)) return dhowi_item_known(b, desc, out);
    return dhowi_item_unknown(b, desc, all_fixed(b, in, count), out);
}

dhow_status dhowi_emit_two(dhowi_lowering *b, dhowi_op_id op, const int32_t *in, uint32_t count,
                           const dhowi_attrs *attrs, const dhowi_tensor_desc *desc,
                           const dhowi_tensor_desc *second, int32_t *out, int32_t *out_second) {
    int32_t dense[DHOWI_OP_MAX_INPUTS], further = -1;
    int64_t elements;
    uint64_t bytes, more = 0;
    DHOWI_TRY(dhowi_shape_check("result", desc->dtype, desc->rank, desc->shape, &elements, &bytes));
    if (second != NULL)
        DHOWI_TRY(dhowi_shape_check("result", second->dtype, second->rank, second->shape, &elements,
                                    &more));
    for (uint32_t i = 0; i < count; i++) DHOWI_TRY(operand_of(b, op, in[i], &dense[i]));
    bool fixed = all_fixed(b, dense, count);
    bool known =
        all_known(b, dense, count) && bytes <= UINT64_MAX - more && dhowi_fold(b, bytes + more);
    DHOWI_TRY(known ? dhowi_item_known(b, desc, out) : dhowi_item_unknown(b, desc, fixed, out));
    if (second != NULL)
        DHOWI_TRY(known ? dhowi_item_known(b, second, &further)
                        : dhowi_item_unknown(b, second, fixed, &further));
    if (out_second != NULL) *out_second = further;
    return add_step(b, op, dense, count, attrs, *out, further);
}

dhow_status dhowi_emit(dhowi_lowering *b, dhowi_op_id op, const int32_t *in, uint32_t count,
                       const dhowi_attrs *attrs, const dhowi_tensor_desc *desc, int32_t *out) {
    return dhowi_emit_two(b, op, in, count, attrs, desc, NULL, out, NULL);
}

dhow_status dhowi_emit_into(dhowi_lowering *b, dhowi_op_id op, const int32_t *in, uint32_t count,
                            const dhowi_attrs *attrs, int32_t to) {
    return add_step(b, op, in, count, attrs, to, -1);
}

dhow_status dhowi_cast_to(dhowi_lowering *b, int32_t x, dhow_dtype dtype, int32_t *out) {
    dhowi_tensor_desc desc = b->items[x].desc;
    *out = x;
    if (desc.dtype == dtype) return DHOW_OK;
    desc.dtype = dtype;
    desc.encoding = 0;
    return dhowi_emit(b, DHOWI_OP_cast, &x, 1, NULL, &desc, out);
}

dhow_status dhowi_widened(dhowi_lowering *b, dhowi_op_id op, int32_t x, int32_t *out) {
    dhow_dtype dtype = b->items[x].desc.dtype;
    uint64_t has = dhowi_op_of(op)->dtypes;
    *out = x;
    if ((has & DHOW_DTYPE_BIT(dtype)) != 0) return DHOW_OK;
    if (dhowi_is_float(dtype)) return dhowi_cast_to(b, x, DHOW_F32, out);
    if ((has & DHOW_DTYPE_BIT(DHOW_I64)) != 0) return dhowi_cast_to(b, x, DHOW_I64, out);
    DHOWI_REFUSE("elements of type %s", dhow_dtype_name(dtype));
}
