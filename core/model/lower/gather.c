/* SPDX-License-Identifier: Apache-2.0
 *
 * Choosing elements by index, and the numbers to do so.
 */
#include <inttypes.h>

#include "base/memory/alloc.h"
#include "model/lower/composite.h"

dhowi_axis_split dhowi_split_along(const dhowi_tensor_desc *x, int32_t axis) {
    return (dhowi_axis_split){.outer = dhowi_extent(x, 0, axis),
                              .n = x->shape[axis],
                              .inner = dhowi_extent(x, axis + 1, x->rank)};
}

dhow_status dhowi_as_index(dhowi_lowering *b, int32_t x, int32_t *out) {
    const dhow_dtype dtype = dhowi_desc_at(b, x)->dtype;
    if (dhowi_is_float(dtype) || dtype == DHOW_BOOL)
        DHOWI_REFUSE("an index of type %s", dhow_dtype_name(dtype));
    return dhowi_cast_to(b, x, DHOW_I64, out);
}

dhow_status dhowi_gather_along(dhowi_lowering *b, int32_t x, int32_t axis, int32_t index,
                               int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    dhowi_attrs attrs = {.split = dhowi_split_along(&own, axis)};
    dhowi_tensor_desc desc = own;
    DHOWI_TRY(dhowi_as_index(b, index, &index));
    const dhowi_tensor_desc chosen = *dhowi_desc_at(b, index);
    attrs.split.count = dhowi_count_of(&chosen);
    desc.rank = own.rank - 1 + chosen.rank;
    if (desc.rank > DHOW_MAX_RANK) DHOWI_REFUSE("%d dimensions", desc.rank);
    for (int32_t i = 0; i < chosen.rank; i++) desc.shape[axis + i] = chosen.shape[i];
    for (int32_t i = axis + 1; i < own.rank; i++) desc.shape[chosen.rank - 1 + i] = own.shape[i];
    const int32_t in[] = {x, index};
    return dhowi_emit(b, DHOWI_OP_gather_axis, in, 2, &attrs, &desc, out);
}

dhow_status dhowi_pick(dhowi_lowering *b, int32_t x, int32_t axis, const int64_t *index,
                       int64_t count, int32_t *out) {
    int32_t chosen;
    DHOWI_TRY(dhowi_constant(b, DHOW_I64, 1, &count, index, &chosen));
    return dhowi_gather_along(b, x, axis, chosen, out);
}

dhow_status dhowi_numbers(dhowi_lowering *b, dhow_dtype dtype, double start, double step,
                          int64_t count, int32_t *out) {
    if (count > INT32_MAX) DHOWI_REFUSE("%" PRId64 " numbers", count);
    DHOWI_TRY(dhowi_host_room(b, count, sizeof(double)));
    double *list = dhowi_alloc_array((size_t)count + 1, sizeof *list);
    if (list == NULL) return dhowi_fail_memory("plan");
    for (int64_t i = 0; i < count; i++) list[i] = start + (double)i * step;
    dhow_status status = dhowi_constant(b, DHOW_F64, 1, &count, list, out);
    dhowi_free(list);
    if (status == DHOW_OK) status = dhowi_cast_to(b, *out, dtype, out);
    return status;
}

dhow_status dhowi_along(dhowi_lowering *b, int32_t v, int32_t rank, int32_t axis, int32_t *out) {
    int64_t shape[DHOW_MAX_RANK];
    for (int32_t i = 0; i < rank; i++)
        shape[i] = i == axis ? dhowi_count_of(dhowi_desc_at(b, v)) : 1;
    return dhowi_reshape(b, v, rank, shape, out);
}
