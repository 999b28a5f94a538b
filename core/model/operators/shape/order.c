/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators along an axis in its order: CumSum, CumProd and TopK.
 */
#include <inttypes.h>

#include "model/operators/shape/shape.h"

static dhow_status run_along(dhowi_lowering *b, dhowi_op_id op) {
    int32_t x = b->in[0], axis;
    int64_t given;
    bool exclusive, reverse;
    const dhow_dtype dtype = dhowi_desc_at(b, x)->dtype;
    DHOWI_TRY(dhowi_one_int(b, b->in[1], "the axis", &given));
    DHOWI_TRY(dhowi_axis(dhowi_desc_at(b, x), given, &axis));
    DHOWI_TRY(dhowi_widened(b, op, x, &x));
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, x);
    dhowi_attrs attrs = {.split = dhowi_split_along(&desc, axis)};
    DHOWI_TRY(dhowi_attr_flag(b, "exclusive", false, &exclusive));
    DHOWI_TRY(dhowi_attr_flag(b, "reverse", false, &reverse));
    attrs.split.flag[0] = exclusive;
    attrs.split.flag[1] = reverse;
    DHOWI_TRY(dhowi_emit(b, op, &x, 1, &attrs, &desc, &b->out[0]));
    return dhowi_cast_to(b, b->out[0], dtype, &b->out[0]);
}

dhow_status dhowi_lower_cumsum(dhowi_lowering *b) { return run_along(b, DHOWI_OP_cumsum); }

dhow_status dhowi_lower_cumprod(dhowi_lowering *b) { return run_along(b, DHOWI_OP_cumprod); }

dhow_status dhowi_top(dhowi_lowering *b, int32_t x, int32_t axis, int64_t k, bool largest,
                      int32_t *values, int32_t *places) {
    dhowi_tensor_desc desc = *dhowi_desc_at(b, x), index;
    dhowi_attrs attrs = {.split = dhowi_split_along(&desc, axis)};
    attrs.split.count = desc.shape[axis] = k;
    attrs.split.flag[0] = largest;
    index = desc;
    index.dtype = DHOW_I64;
    return dhowi_emit_two(b, DHOWI_OP_topk, &x, 1, &attrs, &desc, &index, values, places);
}

dhow_status dhowi_lower_topk(dhowi_lowering *b) {
    const int32_t x = b->in[0];
    int32_t axis;
    int64_t k;
    bool largest;
    if (dhowi_given(b, 1)) {
        DHOWI_TRY(dhowi_one_int(b, b->in[1], "k", &k));
    } else { /* before opset 10 */
        DHOWI_TRY(dhowi_attr_needed(b, "k", &k));
    }
    DHOWI_TRY(dhowi_attr_flag(b, "largest", true, &largest));
    DHOWI_TRY(dhowi_axis(dhowi_desc_at(b, x), dhowi_attr_int(b, "axis", -1), &axis));
    const int64_t extent = dhowi_desc_at(b, x)->shape[axis];
    if (k < 0 || k > extent) DHOWI_REFUSE("k is %" PRId64 ", the axis has %" PRId64, k, extent);
    return dhowi_top(b, x, axis, k, largest, &b->out[0], &b->out[1]);
}
