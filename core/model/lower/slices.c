/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements chosen by index, the numbers to do so; items joined and padded.
 */
#include <inttypes.h>

#include "base/errors/planted.h"
#include "base/memory/alloc.h"
#include "base/memory/array.h"
#include "base/memory/size.h"
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

dhow_status dhowi_concat(dhowi_lowering *b, const int32_t *in, uint32_t count, int32_t axis,
                         int32_t *out) {
    dhowi_tensor_desc desc = *dhowi_desc_at(b, in[0]);
    int64_t at = 0;
    desc.shape[axis] = 0;
    for (uint32_t i = 0; i < count; i++) {
        const dhowi_tensor_desc *x = dhowi_desc_at(b, in[i]);
        bool fits = x->rank == desc.rank && x->dtype == desc.dtype;
        for (int32_t k = 0; fits && k < x->rank; k++)
            fits = k == axis || x->shape[k] == desc.shape[k];
        if (!fits) {
            char p[160], q[160];
            DHOWI_REFUSE("input %u is %s, the first is %s", i, dhowi_desc_text(x, p, sizeof p),
                         dhowi_desc_text(dhowi_desc_at(b, in[0]), q, sizeof q));
        }
        if (!dhowi_add_i64(desc.shape[axis], x->shape[axis], &desc.shape[axis]))
            DHOWI_REFUSE("the result is too large");
    }
    DHOWI_TRY(dhowi_blank_of(b, &desc, in, count, out));
    for (uint32_t i = 0; i < count; i++) {
        int64_t extent = dhowi_desc_at(b, in[i])->shape[axis];
        int32_t part;
        if (dhowi_count_of(dhowi_desc_at(b, in[i])) == 0) continue;
        DHOWI_TRY(dhowi_narrow(b, *out, axis, at, extent, 1, &part));
        DHOWI_TRY(dhowi_emit_into(b, DHOWI_OP_copy, &in[i], 1, NULL, part));
        at += extent;
    }
    return DHOW_OK;
}

dhow_status dhowi_note_padding(dhowi_lowering *b, int32_t item, const dhowi_padding *padding) {
    if (!dhowi_room((void **)&b->paddings, b->padding_count, &b->padding_capacity,
                    sizeof *b->paddings))
        return dhowi_fail_memory("plan");
    b->paddings[b->padding_count++] = *padding;
    b->items[item].padding = (int32_t)b->padding_count;
    return DHOW_OK;
}

/* `count` places from `first` on along an axis of a target take a value. */
static dhow_status fill_part(dhowi_lowering *b, int32_t target, int32_t axis, int64_t first,
                             int64_t count, const dhowi_attrs *value) {
    int32_t part;
    if (count == 0) return DHOW_OK;
    DHOWI_TRY(dhowi_narrow(b, target, axis, first, count, 1, &part));
    return dhowi_emit_into(b, DHOWI_OP_fill, NULL, 0, value, part);
}

dhow_status dhowi_pad_with(dhowi_lowering *b, int32_t x, const int64_t *before,
                           const int64_t *after, double value, int32_t *out) {
    enum { FEW = 2 }; /* parts that are filled one by one, instead of all */
    const dhowi_attrs attrs = {.scalar = {dhow_scalar_f64(value)}};
    int32_t part = x, target, sides = 0;
    dhowi_tensor_desc y = *dhowi_desc_at(b, part);
    for (int32_t i = 0; i < y.rank; i++) { /* negative padding cuts */
        int64_t n = y.shape[i], cut = DHOWI_MAX(-before[i], (int64_t)0);
        int64_t kept = n - cut - DHOWI_MAX(-after[i], (int64_t)0);
        y.shape[i] = n + before[i] + after[i];
        sides += (before[i] > 0) + (after[i] > 0);
        if (kept < 0 || y.shape[i] < 0) DHOWI_REFUSE("the padding cuts away more than there is");
        if (kept != n) DHOWI_TRY(dhowi_narrow(b, part, i, cut, kept, 1, &part));
    }
    *out = part;
    if (sides == 0) return DHOW_OK;
    DHOWI_TRY(dhowi_blank_of(b, &y, &part, 1, out));
    if (sides > FEW) DHOWI_TRY(dhowi_emit_into(b, DHOWI_OP_fill, NULL, 0, &attrs, *out));
    target = *out;
    for (int32_t i = 0; i < y.rank; i++) {
        const int64_t first = DHOWI_MAX(before[i], (int64_t)0),
                      kept = dhowi_desc_at(b, part)->shape[i];
        if (sides <= FEW) {
            DHOWI_TRY(fill_part(b, target, i, 0, first, &attrs));
            DHOWI_TRY(fill_part(b, target, i, first + kept, y.shape[i] - first - kept, &attrs));
        }
        DHOWI_TRY(dhowi_narrow(b, target, i, first, kept, 1, &target));
    }
    DHOWI_TRY(dhowi_emit_into(b, DHOWI_OP_copy, &part, 1, NULL, target));
    dhowi_padding noted = {.of = part, .value = value};
    for (int32_t i = 0; i < y.rank; i++) {
        noted.before[i] = DHOWI_MAX(before[i], (int64_t)0);
        noted.after[i] = DHOWI_MAX(after[i], (int64_t)0);
    }
    return dhowi_note_padding(b, *out, &noted);
}
