/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads side by side and apart, those of earlier calls, and what must fit.
 */
#include <inttypes.h>

#include "model/operators/attention/attention.h"

dhow_status dhowi_by_heads(dhowi_lowering *b, const char *name, int64_t heads, int32_t *x) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, *x);
    if (heads < 1 || own.shape[2] % heads != 0)
        DHOWI_REFUSE("%s is %" PRId64 " for %" PRId64 " features", name, heads, own.shape[2]);
    const int64_t shape[] = {own.shape[0], own.shape[1], heads, own.shape[2] / heads};
    return dhowi_regroup(b, *x, 4, shape, x);
}

dhow_status dhowi_heads_together(dhowi_lowering *b, int32_t x, int32_t *out) {
    static const int32_t order[] = {0, 2, 1, 3};
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    const int64_t shape[] = {own.shape[0], own.shape[2], own.shape[1] * own.shape[3]};
    DHOWI_TRY(dhowi_permute(b, x, order, out));
    return dhowi_reshape(b, *out, 3, shape, out);
}

dhow_status dhowi_after_past(dhowi_lowering *b, uint32_t past, int32_t *x) {
    if (!dhowi_given(b, past)) return DHOW_OK;
    const dhowi_tensor_desc p = *dhowi_desc_at(b, b->in[past]), own = *dhowi_desc_at(b, *x);
    const int32_t in[] = {b->in[past], *x};
    if (p.shape[0] != own.shape[0] || p.shape[1] != own.shape[1] || p.shape[3] != own.shape[3]) {
        char s[160], t[160];
        DHOWI_REFUSE("input %u is %s, what follows it %s", past, dhowi_desc_text(&p, s, sizeof s),
                     dhowi_desc_text(&own, t, sizeof t));
    }
    return dhowi_concat(b, in, 2, 2, x);
}

dhow_status dhowi_check_heads(const dhowi_lowering *b, const dhowi_attention *a) {
    const dhowi_tensor_desc *q = dhowi_desc_at(b, a->q), *k = dhowi_desc_at(b, a->k),
                            *v = dhowi_desc_at(b, a->v);
    char s[160], t[160], u[160];
    if (q->shape[0] == k->shape[0] && q->shape[3] == k->shape[3] && k->shape[0] == v->shape[0] &&
        k->shape[1] == v->shape[1] && k->shape[2] == v->shape[2])
        return DHOW_OK;
    DHOWI_REFUSE("query %s, key %s and value %s do not fit one another",
                 dhowi_desc_text(q, s, sizeof s), dhowi_desc_text(k, t, sizeof t),
                 dhowi_desc_text(v, u, sizeof u));
}

dhow_status dhowi_add_mask(dhowi_lowering *b, const char *name, int32_t mask, dhowi_attention *a) {
    const dhowi_tensor_desc q = *dhowi_desc_at(b, a->q), k = *dhowi_desc_at(b, a->k),
                            m = *dhowi_desc_at(b, mask);
    const int64_t scores[] = {q.shape[0], q.shape[1], q.shape[2], k.shape[2]};
    int64_t together[DHOW_MAX_RANK];
    int32_t rank;
    char s[160];
    a->masks[a->mask_count++] = mask;
    if (!dhowi_shape_broadcast(4, scores, m.rank, m.shape, &rank, together) ||
        !dhowi_shape_equal(4, scores, rank, together))
        DHOWI_REFUSE(
            "%s %s does not fit scores [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]", name,
            dhowi_desc_text(&m, s, sizeof s), scores[0], scores[1], scores[2], scores[3]);
    return DHOW_OK;
}
