/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear attention: a state in place of keys and values.
 */
#include <inttypes.h>
#include <math.h>

#include "base/memory/size.h"
#include "model/operators/attention/attention.h"

static dhow_status check_state(const dhowi_lowering *b, const dhowi_linear_attention *a) {
    const dhowi_tensor_desc *k = dhowi_desc_at(b, a->k), *v = dhowi_desc_at(b, a->v);
    const int64_t wanted[] = {v->shape[0], v->shape[2], k->shape[3], v->shape[3]};
    char s[160];
    if (a->before < 0) return DHOW_OK;
    const dhowi_tensor_desc *own = dhowi_desc_at(b, a->before);
    if (!dhowi_shape_equal(own->rank, own->shape, 4, wanted))
        DHOWI_REFUSE("the state is %s, not [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]",
                     dhowi_desc_text(own, s, sizeof s), wanted[0], wanted[1], wanted[2], wanted[3]);
    return DHOW_OK;
}

static dhow_status check(const dhowi_lowering *b, const dhowi_linear_attention *a) {
    enum { MOST_DEPTH = 256 }; /* of the kernel */
    const dhowi_tensor_desc *q = dhowi_desc_at(b, a->q), *k = dhowi_desc_at(b, a->k),
                            *v = dhowi_desc_at(b, a->v);
    const int64_t heads = v->shape[2];
    char s[160], t[160], u[160];
    if (q->shape[0] != k->shape[0] || q->shape[1] != k->shape[1] || k->shape[0] != v->shape[0] ||
        k->shape[1] != v->shape[1] || q->shape[3] != k->shape[3])
        DHOWI_REFUSE("query %s, key %s and value %s do not fit one another",
                     dhowi_desc_text(q, s, sizeof s), dhowi_desc_text(k, t, sizeof t),
                     dhowi_desc_text(v, u, sizeof u));
    if (q->shape[2] < 1 || k->shape[2] < 1 || heads < 1 || heads % k->shape[2] != 0 ||
        (q->shape[2] % heads != 0 && heads % q->shape[2] != 0))
        DHOWI_REFUSE("%" PRId64 " heads of query and %" PRId64 " of key for %" PRId64 " of value",
                     q->shape[2], k->shape[2], heads);
    if (k->shape[3] > MOST_DEPTH)
        DHOWI_REFUSE("heads of %" PRId64 " elements; it takes up to %d", k->shape[3], MOST_DEPTH);
    return check_state(b, a);
}

dhow_status dhowi_attend_linear(dhowi_lowering *b, const dhowi_linear_attention *a, int32_t *out,
                                int32_t *state) {
    DHOWI_TRY(check(b, a));
    const dhowi_tensor_desc q = *dhowi_desc_at(b, a->q), v = *dhowi_desc_at(b, a->v);
    const dhowi_tensor_desc y = {
        .dtype = DHOW_F32,
        .rank = 4,
        .shape = {v.shape[0], v.shape[1], DHOWI_MAX(q.shape[2], v.shape[2]), v.shape[3]}};
    const dhowi_tensor_desc s = {
        .dtype = DHOW_F32, .rank = 4, .shape = {v.shape[0], v.shape[2], q.shape[3], v.shape[3]}};
    const dhowi_attrs attrs = {.split = {.alpha = (float)a->scale}};
    int32_t in[] = {a->q, a->k, a->v, a->before, a->keep, a->beta};
    for (size_t i = 0; i < DHOWI_COUNT(in); i++) {
        if (in[i] >= 0) DHOWI_TRY(dhowi_cast_to(b, in[i], DHOW_F32, &in[i]));
    }
    if (dhowi_count_of(&y) > 0)
        return dhowi_emit_two(b, DHOWI_OP_linear_attention, in, DHOWI_COUNT(in), &attrs, &y, &s,
                              out, state);
    *state = in[3];
    DHOWI_TRY(dhowi_blank(b, &y, out));
    return *state >= 0 ? DHOW_OK : dhowi_filled(b, &s, 0, state); /* no steps change nothing */
}

static const struct {
    const char *name;
    bool gated, corrects;
} k_rules[] = {{"gated_delta", true, true},
               {"delta", false, true},
               {"gated", true, false},
               {"linear", false, false}};

dhow_status dhowi_update_rule(const dhowi_lowering *b, uint32_t decay, uint32_t beta) {
    for (size_t i = 0; i < DHOWI_COUNT(k_rules); i++) {
        if (!dhowi_attr_is(b, "update_rule", k_rules[i].name, "gated_delta")) continue;
        if (k_rules[i].gated != dhowi_given(b, decay))
            DHOWI_REFUSE("update_rule %s %s decay", k_rules[i].name,
                         k_rules[i].gated ? "wants" : "has no");
        if (k_rules[i].corrects != dhowi_given(b, beta))
            DHOWI_REFUSE("update_rule %s %s beta", k_rules[i].name,
                         k_rules[i].corrects ? "wants" : "has no");
        return DHOW_OK;
    }
    return dhowi_refuse_text(b, "update_rule");
}

dhow_status dhowi_kept(dhowi_lowering *b, int32_t decay, int32_t *out) {
    DHOWI_TRY(dhowi_cast_to(b, decay, DHOW_F32, out));
    return dhowi_map_one(b, DHOWI_MAP_EXP, 0, 0, *out, out);
}

/* An input [batch, steps, heads features] of features that are 1 or `depth`, by heads. */
static dhow_status factors(dhowi_lowering *b, uint32_t i, const char *name, int64_t heads,
                           int64_t depth, int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, b->in[i]), k = *dhowi_desc_at(b, b->in[1]);
    const bool fits = own.rank == 3 && own.shape[0] == k.shape[0] && own.shape[1] == k.shape[1] &&
                      (own.shape[2] == heads || own.shape[2] == heads * depth);
    char s[160];
    if (!fits)
        DHOWI_REFUSE("%s is %s for %" PRId64 " heads", name, dhowi_desc_text(&own, s, sizeof s),
                     heads);
    const int64_t shape[] = {own.shape[0], own.shape[1], heads, own.shape[2] / heads};
    return dhowi_reshape(b, b->in[i], 4, shape, out);
}

/* One number for all heads is one for each. */
static dhow_status corrections(dhowi_lowering *b, uint32_t i, int64_t heads, int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, b->in[i]);
    const int64_t shape[] = {own.shape[0], own.shape[1], heads};
    if (own.rank == 3 && own.shape[2] == 1) return dhowi_expand(b, b->in[i], 3, shape, out);
    return factors(b, i, "beta", heads, 1, out);
}

/* Of ONNX Runtime, several heads of values may share one of keys. */
static dhow_status keys_by_heads(dhowi_lowering *b, int64_t depth, int32_t *k) {
    const int64_t wide = dhowi_desc_at(b, *k)->shape[2];
    if (depth < 1 || wide % depth != 0)
        DHOWI_REFUSE("key has %" PRId64 " features for heads of %" PRId64, wide, depth);
    return dhowi_by_heads(b, "key's heads", wide / depth, k);
}

/* Rows of heads side by side, as the operators take and give them. */
dhow_status dhowi_lower_linear_attention(dhowi_lowering *b) {
    enum { QUERY, KEY, VALUE, PAST, DECAY, BETA };
    static const char *const names[] = {"query", "key", "value"};
    dhowi_linear_attention a = {.before = -1, .keep = -1, .beta = -1};
    int64_t heads_q, heads;
    int32_t *parts[] = {&a.q, &a.k, &a.v};
    int32_t state;
    DHOWI_TRY(dhowi_attr_needed(b, "q_num_heads", &heads_q));
    DHOWI_TRY(dhowi_attr_needed(b, "kv_num_heads", &heads));
    DHOWI_TRY(dhowi_update_rule(b, DECAY, BETA));
    DHOWI_TRY(dhowi_attr_only(b, "state_window", 0));
    for (uint32_t i = 0; i < DHOWI_COUNT(parts); i++) {
        DHOWI_TRY(dhowi_expect_floats(b, i, names[i], 3));
        *parts[i] = b->in[i];
    }
    DHOWI_TRY(dhowi_by_heads(b, "q_num_heads", heads_q, &a.q));
    DHOWI_TRY(dhowi_by_heads(b, "kv_num_heads", heads, &a.v));
    DHOWI_TRY(keys_by_heads(b, dhowi_desc_at(b, a.q)->shape[3], &a.k));
    const dhowi_tensor_desc q = *dhowi_desc_at(b, a.q);
    const dhow_dtype dtype = q.dtype;
    const dhow_dtype held = dhowi_given(b, PAST) ? dhowi_desc_at(b, b->in[PAST])->dtype : dtype;
    a.scale = (double)dhowi_attr_float(b, "scale", 0);
    if (a.scale == 0) a.scale = 1 / sqrt((double)DHOWI_MAX(q.shape[3], (int64_t)1));
    if (dhowi_given(b, PAST)) a.before = b->in[PAST];
    if (dhowi_given(b, DECAY)) {
        DHOWI_TRY(factors(b, DECAY, "decay", heads, q.shape[3], &a.keep));
        DHOWI_TRY(dhowi_kept(b, a.keep, &a.keep));
    }
    if (dhowi_given(b, BETA)) DHOWI_TRY(corrections(b, BETA, heads, &a.beta));
    DHOWI_TRY(dhowi_attend_linear(b, &a, &b->out[0], &state));
    const dhowi_tensor_desc y = *dhowi_desc_at(b, b->out[0]);
    const int64_t rows[] = {y.shape[0], y.shape[1], y.shape[2] * y.shape[3]};
    DHOWI_TRY(dhowi_reshape(b, b->out[0], 3, rows, &b->out[0]));
    DHOWI_TRY(dhowi_cast_to(b, b->out[0], dtype, &b->out[0]));
    return b->out_count < 2 ? DHOW_OK : dhowi_cast_to(b, state, held, &b->out[1]);
}
