/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products with outer extents that broadcast.
 */
#include <string.h>

#include "model/lower/composite.h"

/* The outer extents of both operands, broadcast; then each operand repeated to them. */
static dhow_status broadcast_outer(dhowi_lowering *b, int32_t *x, int32_t *y) {
    const dhowi_tensor_desc p = *dhowi_desc_at(b, *x), q = *dhowi_desc_at(b, *y);
    int64_t outer[DHOW_MAX_RANK], shape[DHOW_MAX_RANK];
    int32_t rank;
    if (q.rank == 2 ||
        (p.rank == q.rank && dhowi_shape_equal(p.rank - 2, p.shape, q.rank - 2, q.shape)))
        return DHOW_OK;
    if (!dhowi_shape_broadcast(p.rank - 2, p.shape, q.rank - 2, q.shape, &rank, outer)) {
        char s[160], t[160];
        DHOWI_REFUSE("%s and %s do not fit", dhowi_desc_text(&p, s, sizeof s),
                     dhowi_desc_text(&q, t, sizeof t));
    }
    memcpy(shape, outer, sizeof shape);
    memcpy(shape + rank, p.shape + p.rank - 2, 2 * sizeof *shape);
    DHOWI_TRY(dhowi_expand(b, *x, rank + 2, shape, x));
    memcpy(shape + rank, q.shape + q.rank - 2, 2 * sizeof *shape);
    return dhowi_expand(b, *y, rank + 2, shape, y);
}

dhow_status dhowi_product(dhowi_lowering *b, int32_t x, int32_t y, int32_t bias, int32_t *out) {
    const dhowi_tensor_desc p = *dhowi_desc_at(b, x), q = *dhowi_desc_at(b, y);
    char s[160], t[160];
    if (p.rank < 2 || q.rank < 2 || p.dtype != q.dtype ||
        p.shape[p.rank - 1] != q.shape[q.rank - 2]) {
        DHOWI_REFUSE("%s and %s do not fit", dhowi_desc_text(&p, s, sizeof s),
                     dhowi_desc_text(&q, t, sizeof t));
    }
    DHOWI_TRY(broadcast_outer(b, &x, &y));
    dhowi_tensor_desc desc = *dhowi_desc_at(b, x);
    desc.shape[desc.rank - 1] = q.shape[q.rank - 1];
    const int32_t in[] = {x, y, bias};
    return dhowi_emit(b, DHOWI_OP_matmul, in, 3, NULL, &desc, out);
}
