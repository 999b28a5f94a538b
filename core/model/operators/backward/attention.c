/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of attention: its scores are computed again.
 */
#include "model/operators/attention/attention.h"

#include "model/lower/products/products.h"
#include "model/operators/backward/backward.h"
#include "model/operators/nn/layer.h"

/* Of y = p v with p = softmax(s), s = scale q kt + mask: dv = pt dy, ds = p (dp - sum of dp p) with
 * dp = dy vt, dq = scale ds k, dk = scale dst q. Heads that share a key are rows of one. */
typedef struct slopes {
    int32_t q, k, v, scores; /* like the attention's; scores: [..., heads, l, s] */
} slopes;

static dhow_status of_scores(dhowi_lowering *b, int32_t p, int32_t dp, int32_t *out) {
    int32_t sum;
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, dp, p, &sum));
    DHOWI_TRY(dhowi_sum_along(b, sum, dhowi_desc_at(b, p)->rank - 1, &sum));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, dp, sum, out));
    return dhowi_map_two(b, DHOWI_MAP_MUL, *out, p, out);
}

static dhow_status back_attend(dhowi_lowering *b, dhowi_attention *a, int32_t dy, slopes *d) {
    int64_t heads, shared;
    int32_t p, t, ds;
    DHOWI_TRY(dhowi_heads_of(b, a, &heads, &shared));
    DHOWI_TRY(dhowi_attend_scores(b, a));
    DHOWI_TRY(dhowi_with_heads(b, a->scores[DHOWI_SCORES_WEIGHTS], shared, &p));
    DHOWI_TRY(dhowi_with_heads(b, dy, shared, &dy));
    DHOWI_TRY(dhowi_turned(b, p, &t));
    DHOWI_TRY(dhowi_product(b, t, dy, -1, &d->v));
    DHOWI_TRY(dhowi_turned(b, a->v, &t));
    DHOWI_TRY(dhowi_product(b, dy, t, -1, &ds));
    DHOWI_TRY(of_scores(b, p, ds, &ds));
    DHOWI_TRY(dhowi_with_heads(b, ds, heads, &d->scores));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, ds, a->scale, &ds));
    DHOWI_TRY(dhowi_product(b, ds, a->k, -1, &d->q));
    DHOWI_TRY(dhowi_with_heads(b, d->q, heads, &d->q));
    DHOWI_TRY(dhowi_turned(b, ds, &ds));
    DHOWI_TRY(dhowi_with_heads(b, a->q, shared, &t));
    return dhowi_product(b, ds, t, -1, &d->k);
}

static dhow_status pass_wanted(dhowi_reverser *r, uint32_t i, int32_t d) {
    return dhowi_back_wants(r, i) ? dhowi_back_pass(r, i, d) : DHOW_OK;
}

dhow_status dhowi_back_dot_attention(dhowi_reverser *r) {
    int32_t in[4];
    dhowi_attention a;
    slopes d;
    DHOWI_TRY(dhowi_back_inputs(r, 4, in));
    DHOWI_TRY(dhowi_dot_attention_of(r->b, in, &a));
    DHOWI_TRY(back_attend(r->b, &a, r->dy, &d));
    DHOWI_TRY(pass_wanted(r, 0, d.q));
    DHOWI_TRY(pass_wanted(r, 1, d.k));
    DHOWI_TRY(pass_wanted(r, 2, d.v));
    return pass_wanted(r, 3, d.scores);
}

/* ---- with projections ---- */

/* dyt x, of y = x wt */
static dhow_status of_weight(dhowi_lowering *b, int32_t dy, int32_t x, int32_t *out) {
    DHOWI_TRY(dhowi_as_matrix(b, dy, &dy));
    DHOWI_TRY(dhowi_as_matrix(b, x, &x));
    DHOWI_TRY(dhowi_turned(b, dy, &dy));
    return dhowi_product(b, dy, x, -1, out);
}

/* [batch, step, width] as heads: [batch, head, step, depth] */
static dhow_status apart(dhowi_lowering *b, int32_t x, int64_t heads, int32_t *out) {
    static const int32_t order[] = {0, 2, 1, 3};
    const dhowi_tensor_desc y = *dhowi_desc_at(b, x);
    const int64_t shape[] = {y.shape[0], y.shape[1], heads, y.shape[2] / heads};
    DHOWI_TRY(dhowi_reshape(b, x, 4, shape, out));
    return dhowi_permute(b, *out, order, out);
}

/* The last projection, y = c wt + bias: what comes to c, as heads. */
static dhow_status back_output(dhowi_reverser *r, const int32_t *in, dhowi_attention *a,
                               int32_t *out) {
    dhowi_lowering *b = r->b;
    int32_t c, d;
    if (dhowi_back_wants(r, 6)) {
        DHOWI_TRY(dhowi_attend(b, a, &c));
        DHOWI_TRY(dhowi_heads_together(b, c, &c));
        DHOWI_TRY(of_weight(b, r->dy, c, &d));
        DHOWI_TRY(dhowi_back_pass(r, 6, d));
    }
    if (dhowi_back_wants(r, 7)) {
        DHOWI_TRY(dhowi_sum_but(b, r->dy, 2, &d));
        DHOWI_TRY(dhowi_back_pass(r, 7, d));
    }
    DHOWI_TRY(dhowi_product(b, r->dy, in[6], -1, &d));
    return apart(b, d, r->node->attrs->dim, out);
}

/* Of query, key or value x = in[part]: its derivative, and what its rows of weight and bias have.
 */
static dhow_status back_project(dhowi_reverser *r, const int32_t *in, int part, int32_t d,
                                int32_t *weight, int32_t *bias) {
    dhowi_lowering *b = r->b;
    const int64_t width = dhowi_desc_at(b, in[6])->shape[1];
    int32_t w;
    DHOWI_TRY(dhowi_heads_together(b, d, &d));
    DHOWI_TRY(of_weight(b, d, in[part], weight));
    DHOWI_TRY(dhowi_sum_but(b, d, 2, bias));
    if (!dhowi_back_wants(r, (uint32_t)part)) return DHOW_OK;
    DHOWI_TRY(dhowi_narrow(b, in[4], 0, part * width, width, 1, &w));
    DHOWI_TRY(dhowi_product(b, d, w, -1, &d));
    return dhowi_back_pass(r, (uint32_t)part, d);
}

dhow_status dhowi_back_attention(dhowi_reverser *r) {
    dhowi_lowering *b = r->b;
    int32_t in[8], dy, weights[3], biases[3], all;
    dhowi_attention a;
    slopes d;
    DHOWI_TRY(dhowi_back_inputs(r, 8, in));
    DHOWI_TRY(dhowi_attention_of(b, in, &a));
    DHOWI_TRY(back_output(r, in, &a, &dy));
    DHOWI_TRY(back_attend(b, &a, dy, &d));
    DHOWI_TRY(pass_wanted(r, 3, d.scores));
    DHOWI_TRY(back_project(r, in, 0, d.q, &weights[0], &biases[0]));
    DHOWI_TRY(back_project(r, in, 1, d.k, &weights[1], &biases[1]));
    DHOWI_TRY(back_project(r, in, 2, d.v, &weights[2], &biases[2]));
    if (dhowi_back_wants(r, 4)) {
        DHOWI_TRY(dhowi_concat(b, weights, 3, 0, &all));
        DHOWI_TRY(dhowi_back_pass(r, 4, all));
    }
    if (!dhowi_back_wants(r, 5)) return DHOW_OK;
    DHOWI_TRY(dhowi_concat(b, biases, 3, 0, &all));
    return dhowi_back_pass(r, 5, all);
}

/* Turned back: by the same cosines, and sines of the other sign. */
dhow_status dhowi_back_rotary(dhowi_reverser *r) {
    int32_t in[4], d;
    DHOWI_TRY(dhowi_back_inputs(r, 4, in));
    in[0] = r->dy;
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_NEG, 0, 0, in[2], &in[2]));
    DHOWI_TRY(dhowi_back_lower(r, dhowi_lower_rotary, in, r->node->in_count, &d));
    return dhowi_back_pass(r, 0, d);
}
