/* SPDX-License-Identifier: Apache-2.0
 *
 * Joining items, and padding them.
 */
#include "base/memory/size.h"
#include "model/lower/composite.h"

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

dhow_status dhowi_pad_with(dhowi_lowering *b, int32_t x, const int64_t *before,
                           const int64_t *after, double value, int32_t *out) {
    int32_t part = x, target;
    dhowi_tensor_desc y = *dhowi_desc_at(b, part);
    for (int32_t i = 0; i < y.rank; i++) { /* negative padding cuts */
        int64_t n = y.shape[i], cut = DHOWI_MAX(-before[i], (int64_t)0);
        int64_t kept = n - cut - DHOWI_MAX(-after[i], (int64_t)0);
        y.shape[i] = n + before[i] + after[i];
        if (kept < 0 || y.shape[i] < 0) DHOWI_REFUSE("the padding cuts away more than there is");
        if (kept != n) DHOWI_TRY(dhowi_narrow(b, part, i, cut, kept, 1, &part));
    }
    const dhowi_attrs attrs = {.scalar = {dhow_scalar_f64(value)}};
    DHOWI_TRY(dhowi_blank_of(b, &y, &part, 1, out));
    DHOWI_TRY(dhowi_emit_into(b, DHOWI_OP_fill, NULL, 0, &attrs, *out));
    target = *out;
    for (int32_t i = 0; i < y.rank; i++) {
        DHOWI_TRY(dhowi_narrow(b, target, i, DHOWI_MAX(before[i], (int64_t)0),
                               dhowi_desc_at(b, part)->shape[i], 1, &target));
    }
    return dhowi_emit_into(b, DHOWI_OP_copy, &part, 1, NULL, target);
}
