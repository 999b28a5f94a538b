/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of what only arranges elements.
 */
#include "model/operators/backward/backward.h"

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
dhow_status dhowi_back_slice(dhowi_reverser *r) {
    const dhowi_attrs *a = r->node->attrs;
    int64_t before[DHOW_MAX_RANK] = {0}, after[DHOW_MAX_RANK] = {0};
    int32_t x, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    before[a->dim] = a->split.n;
    after[a->dim] = dhowi_desc_at(r->b, x)->shape[a->dim] - a->split.n - a->split.count;
    DHOWI_TRY(dhowi_pad_with(r->b, r->dy, before, after, 0, &d));
    return dhowi_back_pass(r, 0, d);
}

/* y[i...] = x[index[i...]], along axis 0: the sum over all positions that name a row, as a product,
 * whose order of summing is fixed. */
dhow_status dhowi_back_gather(dhowi_reverser *r) {
    const int64_t axis = dhowi_is_built(r->node) ? 0 : dhowi_attr_int(r->b, "axis", 0);
    int32_t x, index, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_back_input(r, 1, &index));
    const dhowi_tensor_desc own = *dhowi_desc_at(r->b, x);
    if (axis != 0) DHOWI_REFUSE("axis %lld; it has axis 0", (long long)axis);
    const int64_t rows = dhowi_count_of(dhowi_desc_at(r->b, index)),
                  width = dhowi_extent(&own, 1, own.rank);
    const int64_t line[] = {1, rows}, matrix[] = {rows, width};
    DHOWI_TRY(dhowi_reshape(r->b, index, 2, line, &index));
    DHOWI_TRY(dhowi_one_hot(r->b, index, 0, own.shape[0], own.dtype, &index));
    DHOWI_TRY(dhowi_reshape(r->b, r->dy, 2, matrix, &d));
    DHOWI_TRY(dhowi_product(r->b, index, d, -1, &d));
    DHOWI_TRY(dhowi_reshape(r->b, d, own.rank, own.shape, &d));
    return dhowi_back_pass(r, 0, d);
}
