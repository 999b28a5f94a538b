/* SPDX-License-Identifier: Apache-2.0
 *
 * RotaryEmbedding: pairs of a head's features are turned by the angle of their position.
 */
#include <inttypes.h>

#include "model/operators/attention/attention.h"

/* x as [batch, steps, heads, features], a view. */
static dhow_status by_heads(dhowi_lowering *b, int32_t *x) {
    static const int32_t order[] = {0, 2, 1, 3};
    const dhowi_tensor_desc own = *dhowi_desc_at(b, *x);
    const int64_t heads = dhowi_attr_int(b, "num_heads", 0);
    if (own.rank == 4) return dhowi_permute(b, *x, order, x);
    if (own.rank != 3) DHOWI_REFUSE("x has %d dimensions, not 3 or 4", own.rank);
    return dhowi_by_heads(b, "num_heads", heads, x);
}

/* A cache by positions, or one that has a row for each step: [batch, steps, 1, half]. */
static dhow_status angles(dhowi_lowering *b, uint32_t input, const dhowi_tensor_desc *x,
                          int64_t half, int32_t *out) {
    const int64_t shape[] = {x->shape[0], x->shape[1], 1, half};
    char text[160];
    *out = b->in[input];
    if (dhowi_desc_at(b, *out)->rank == 2 && dhowi_given(b, 3))
        DHOWI_TRY(dhowi_gather_along(b, *out, 0, b->in[3], out));
    const dhowi_tensor_desc is = *dhowi_desc_at(b, *out);
    if (is.rank != 3 || is.shape[0] != shape[0] || is.shape[1] != shape[1] || is.shape[2] != half)
        DHOWI_REFUSE("input %u and the positions make %s, not [%" PRId64 ", %" PRId64 ", %" PRId64
                     "]",
                     input, dhowi_desc_text(&is, text, sizeof text), shape[0], shape[1], half);
    return dhowi_reshape(b, *out, 4, shape, out);
}

/* p f op q g */
static dhow_status blend(dhowi_lowering *b, int32_t p, int32_t f, dhowi_map_op op, int32_t q,
                         int32_t g, int32_t *out) {
    int32_t other;
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, p, f, out));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, q, g, &other));
    return dhowi_map_two(b, op, *out, other, out);
}

dhow_status dhowi_turn(dhowi_lowering *b, int32_t x, int32_t cosine, int32_t sine, bool interleaved,
                       int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    const int64_t half = dhowi_desc_at(b, cosine)->shape[3], second = interleaved ? 1 : half,
                  step = interleaved ? 2 : 1, rest = own.shape[3] - 2 * half;
    const int32_t all[] = {x, cosine, sine};
    int32_t p, q, to, turned[2];
    DHOWI_TRY(dhowi_narrow(b, x, 3, 0, half, step, &p));
    DHOWI_TRY(dhowi_narrow(b, x, 3, second, half, step, &q));
    DHOWI_TRY(blend(b, p, cosine, DHOWI_MAP_SUB, q, sine, &turned[0]));
    DHOWI_TRY(blend(b, p, sine, DHOWI_MAP_ADD, q, cosine, &turned[1]));
    DHOWI_TRY(dhowi_blank_of(b, &own, all, 3, out));
    for (int i = 0; i < 2; i++) {
        DHOWI_TRY(dhowi_narrow(b, *out, 3, i * second, half, step, &to));
        DHOWI_TRY(dhowi_emit_into(b, DHOWI_OP_copy, &turned[i], 1, NULL, to));
    }
    if (rest == 0) return DHOW_OK;
    DHOWI_TRY(dhowi_narrow(b, x, 3, 2 * half, rest, 1, &p));
    DHOWI_TRY(dhowi_narrow(b, *out, 3, 2 * half, rest, 1, &to));
    return dhowi_emit_into(b, DHOWI_OP_copy, &p, 1, NULL, to);
}

dhow_status dhowi_lower_rotary(dhowi_lowering *b) {
    static const int32_t order[] = {0, 2, 1, 3};
    const dhowi_tensor_desc own = *dhowi_desc_at(b, b->in[0]);
    int64_t part = dhowi_attr_int(b, "rotary_embedding_dim", 0);
    bool interleaved;
    int32_t x = b->in[0], cosine, sine;
    DHOWI_TRY(dhowi_attr_flag(b, "interleaved", false, &interleaved));
    DHOWI_TRY(by_heads(b, &x));
    const int64_t features = dhowi_desc_at(b, x)->shape[3];
    if (part == 0) part = features;
    if (part < 2 || part % 2 != 0 || part > features)
        DHOWI_REFUSE("%" PRId64 " of %" PRId64 " features cannot be turned in pairs", part,
                     features);
    const dhowi_tensor_desc apart = *dhowi_desc_at(b, x);
    DHOWI_TRY(angles(b, 1, &apart, part / 2, &cosine));
    DHOWI_TRY(angles(b, 2, &apart, part / 2, &sine));
    DHOWI_TRY(dhowi_turn(b, x, cosine, sine, interleaved, &b->out[0]));
    if (own.rank == 4) return dhowi_permute(b, b->out[0], order, &b->out[0]);
    return dhowi_reshape(b, b->out[0], 3, own.shape, &b->out[0]);
}
