/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that hand a state on, and what gates them: GatedDeltaNet, LinearAttentionGate,
 * GatedRMSNorm, GatedAdd and ScaledSiLU. Gates are computed in f32.
 */
#include <inttypes.h>
#include <math.h>

#include "base/memory/size.h"
#include "model/operators/attention/attention.h"
#include "model/operators/math/math.h"
#include "model/operators/microsoft/microsoft.h"
#include "model/operators/nn/nn.h"

/* ---- GatedDeltaNet ---- */

enum { QUERY, KEY, VALUE, LENGTHS, DECAY, BETA, STATE, A_LOG, DT_BIAS, CAPTURES };

typedef struct gated_delta {
    dhowi_linear_attention a;
    int64_t batch, steps, depth, features, heads_q, heads; /* heads: of values */
    int32_t rank; /* of query, key and value: 3, or 4 where batch and steps are apart */
} gated_delta;

/* What the state says of the others: [batch, heads, features, depth]. */
static dhow_status read_state(dhowi_lowering *b, gated_delta *g) {
    static const int32_t swapped[] = {0, 1, 3, 2};
    g->a.before = -1;
    if (!dhowi_given(b, STATE)) return DHOW_OK;
    const dhowi_tensor_desc own = *dhowi_desc_at(b, b->in[STATE]);
    if (own.rank != 4 || !dhowi_is_float(own.dtype))
        return dhowi_refuse_input(b, STATE, "initial_state");
    g->batch = own.shape[0];
    g->heads = own.shape[1];
    g->features = own.shape[2];
    g->depth = own.shape[3];
    return dhowi_permute(b, b->in[STATE], swapped, &g->a.before);
}

/* Tokens as [batch, steps]: the first dimensions of an input say it, or the state does. */
static dhow_status read_tokens(const dhowi_lowering *b, bool apart, gated_delta *g) {
    const dhowi_tensor_desc *q = dhowi_desc_at(b, b->in[QUERY]);
    if (!apart && !dhowi_given(b, STATE))
        DHOWI_REFUSE("initial_state is missing, which says how many sequences there are");
    if (apart ? dhowi_given(b, STATE) && q->shape[0] != g->batch
              : g->batch < 1 || q->shape[0] % g->batch != 0)
        DHOWI_REFUSE("initial_state is of %" PRId64 " sequences, query has %" PRId64, g->batch,
                     q->shape[0]);
    if (apart) g->batch = q->shape[0];
    g->steps = apart ? q->shape[1] : q->shape[0] / g->batch;
    return DHOW_OK;
}

/* Heads of queries, keys and values side by side in the rows of query. */
static dhow_status split_rows(dhowi_lowering *b, gated_delta *g) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, b->in[QUERY]);
    const int64_t wide = own.rank > 1 ? own.shape[own.rank - 1] : 0;
    if ((own.rank != 2 && own.rank != 3) || !dhowi_given(b, STATE) || g->depth < 1)
        DHOWI_REFUSE("query, key and value in one want [tokens, features] and initial_state");
    DHOWI_TRY(read_tokens(b, own.rank == 3, g));
    const int64_t left = wide - g->heads * g->features;
    if (left < 2 * g->depth || left % (2 * g->depth) != 0)
        return dhowi_refuse_input(b, QUERY, "query");
    g->rank = own.rank + 1;
    g->heads_q = left / (2 * g->depth);
    const int64_t counts[] = {g->heads_q, g->heads_q, g->heads},
                  sizes[] = {g->depth, g->depth, g->features};
    const int64_t rows[] = {g->batch, g->steps, wide};
    int32_t *parts[] = {&g->a.q, &g->a.k, &g->a.v}, x;
    int64_t from = 0;
    DHOWI_TRY(dhowi_reshape(b, b->in[QUERY], 3, rows, &x));
    for (int i = 0; i < 3; i++) {
        DHOWI_TRY(dhowi_narrow(b, x, 2, from, counts[i] * sizes[i], 1, parts[i]));
        DHOWI_TRY(dhowi_by_heads(b, "a head", counts[i], parts[i]));
        from += counts[i] * sizes[i];
    }
    return DHOW_OK;
}

static dhow_status read_rows(dhowi_lowering *b, gated_delta *g) {
    static const char *const names[] = {"query", "key", "value"};
    int32_t *parts[] = {&g->a.q, &g->a.k, &g->a.v};
    const dhowi_tensor_desc q = *dhowi_desc_at(b, b->in[QUERY]);
    if (!dhowi_given(b, KEY) && !dhowi_given(b, VALUE)) return split_rows(b, g);
    g->rank = q.rank;
    if (q.rank != 3 && q.rank != 4) return dhowi_refuse_input(b, QUERY, names[QUERY]);
    DHOWI_TRY(read_tokens(b, q.rank == 4, g));
    for (uint32_t i = QUERY; i <= VALUE; i++) {
        if (!dhowi_given(b, i)) DHOWI_REFUSE("%s is missing", names[i]);
        const dhowi_tensor_desc own = *dhowi_desc_at(b, b->in[i]);
        bool fits = own.rank == q.rank && dhowi_is_float(own.dtype);
        for (int32_t d = 0; d < q.rank - 2; d++) fits = fits && own.shape[d] == q.shape[d];
        if (!fits) return dhowi_refuse_input(b, i, names[i]);
        const int64_t shape[] = {g->batch, g->steps, own.shape[q.rank - 2], own.shape[q.rank - 1]};
        DHOWI_TRY(dhowi_reshape(b, b->in[i], 4, shape, parts[i]));
    }
    const dhowi_tensor_desc v = *dhowi_desc_at(b, g->a.v);
    g->heads_q = q.shape[q.rank - 2];
    g->depth = q.shape[q.rank - 1];
    g->heads = v.shape[2];
    g->features = v.shape[3];
    return DHOW_OK;
}

/* An input of a number for each head, or, where `wide` lets it, for each row of a head's state, as
 * f32[batch, steps, heads, 1 or depth]; a table of heads without tokens is for all of them. */
static dhow_status by_tokens(dhowi_lowering *b, const gated_delta *g, uint32_t i, const char *name,
                             bool wide, int32_t *out) {
    const bool of_heads = i == A_LOG || i == DT_BIAS;
    const int64_t count = dhowi_count_of(dhowi_desc_at(b, b->in[i])),
                  tokens = of_heads ? 1 : g->batch * g->steps, one = tokens * g->heads;
    const int64_t shape[] = {of_heads ? 1 : g->batch, of_heads ? 1 : g->steps, g->heads,
                             count == one ? 1 : g->depth};
    if (count != one && !(wide && count == one * g->depth)) return dhowi_refuse_input(b, i, name);
    DHOWI_TRY(dhowi_reshape(b, b->in[i], 4, shape, out));
    return dhowi_cast_to(b, *out, DHOW_F32, out);
}

/* Decays in logarithms: as they are given, -exp(a_log) softplus(x), or bound sigmoid(exp(a_log) x),
 * where x is the input and its bias. */
static dhow_status decays(dhowi_lowering *b, const gated_delta *g, int32_t *out) {
    const bool bounded = dhowi_attr_is(b, "gate_activation", "sigmoid", "none") ||
                         dhowi_attr_is(b, "gate_activation", "kda", "none");
    const bool soft = dhowi_attr_is(b, "gate_activation", "softplus", "none") ||
                      dhowi_attr_is(b, "gate_activation", "qwen", "none");
    const double bound = (double)dhowi_attr_float(b, "gate_lower_bound", -5);
    int32_t rate, bias;
    DHOWI_TRY(by_tokens(b, g, DECAY, "decay", true, out));
    if (dhowi_attr_is(b, "gate_activation", "none", "none")) return DHOW_OK;
    if (!bounded && !soft) return dhowi_refuse_text(b, "gate_activation");
    if (!dhowi_given(b, A_LOG) || !dhowi_given(b, DT_BIAS))
        DHOWI_REFUSE("gate_activation wants a_log and dt_bias");
    DHOWI_TRY(by_tokens(b, g, A_LOG, "a_log", false, &rate));
    DHOWI_TRY(by_tokens(b, g, DT_BIAS, "dt_bias", true, &bias));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_EXP, 0, 0, rate, &rate));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, *out, bias, out));
    if (soft) {
        DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SOFTPLUS, 0, 0, *out, out));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, *out, rate, out));
        return dhowi_map_one(b, DHOWI_MAP_NEG, 0, 0, *out, out);
    }
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, *out, rate, out));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SIGMOID, 0, 0, *out, out));
    return dhowi_map_number(b, DHOWI_MAP_MUL, *out, bound, out);
}

static dhow_status read_gates(dhowi_lowering *b, gated_delta *g) {
    const bool sigmoid = dhowi_attr_is(b, "beta_activation", "sigmoid", "none");
    const int64_t rows[] = {g->batch, g->steps, g->heads};
    g->a.keep = g->a.beta = -1;
    if (dhowi_given(b, DECAY)) {
        DHOWI_TRY(decays(b, g, &g->a.keep));
        DHOWI_TRY(dhowi_kept(b, g->a.keep, &g->a.keep));
    }
    if (!dhowi_given(b, BETA)) return DHOW_OK;
    if (!sigmoid && !dhowi_attr_is(b, "beta_activation", "none", "none"))
        return dhowi_refuse_text(b, "beta_activation");
    DHOWI_TRY(by_tokens(b, g, BETA, "beta", false, &g->a.beta));
    if (sigmoid) DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SIGMOID, 0, 0, g->a.beta, &g->a.beta));
    return dhowi_reshape(b, g->a.beta, 3, rows, &g->a.beta);
}

/* Heads brought to a length of 1. */
static dhow_status to_unit(dhowi_lowering *b, int32_t *x) {
    static const bool last[] = {false, false, false, true};
    static const double eps = 1e-6;
    int32_t length;
    DHOWI_TRY(dhowi_cast_to(b, *x, DHOW_F32, x));
    DHOWI_TRY(dhowi_reduce(b, DHOWI_SUM_SQUARE, *x, last, &length));
    DHOWI_TRY(dhowi_inverse_root(b, length, eps, &length));
    return dhowi_map_two(b, DHOWI_MAP_MUL, *x, length, x);
}

dhow_status dhowi_lower_ms_gated_delta(dhowi_lowering *b) {
    static const int32_t swapped[] = {0, 1, 3, 2};
    gated_delta g = {0};
    const dhow_dtype dtype = dhowi_desc_at(b, b->in[QUERY])->dtype;
    bool unit;
    int32_t y, state;
    if (dhowi_given(b, LENGTHS) || dhowi_given(b, CAPTURES) ||
        dhowi_attr_int(b, "state_update_capacity", 0) != 0)
        return dhowi_fail(DHOW_UNSUPPORTED, "cu_seqlens and state updates");
    DHOWI_TRY(dhowi_update_rule(b, DECAY, BETA));
    DHOWI_TRY(dhowi_attr_flag(b, "qk_l2_norm", false, &unit));
    DHOWI_TRY(read_state(b, &g));
    DHOWI_TRY(read_rows(b, &g));
    DHOWI_TRY(read_gates(b, &g));
    if (unit) {
        DHOWI_TRY(to_unit(b, &g.a.q));
        DHOWI_TRY(to_unit(b, &g.a.k));
    }
    g.a.scale = (double)dhowi_attr_float(b, "scale", 0);
    if (g.a.scale == 0) g.a.scale = 1 / sqrt((double)DHOWI_MAX(g.depth, (int64_t)1));
    DHOWI_TRY(dhowi_attend_linear(b, &g.a, &y, &state));
    const int64_t heads = DHOWI_MAX(g.heads_q, g.heads);
    const int64_t apart[] = {g.batch, g.steps, heads, g.features},
                  flat[] = {g.batch * g.steps, heads, g.features};
    DHOWI_TRY(dhowi_reshape(b, y, g.rank, g.rank == 4 ? apart : flat, &y));
    DHOWI_TRY(dhowi_cast_to(b, y, dtype, &b->out[0]));
    return b->out_count < 2 ? DHOW_OK : dhowi_permute(b, state, swapped, &b->out[1]);
}

/* ---- gates ---- */

static dhow_status expect_row(const dhowi_lowering *b, uint32_t i, const char *name,
                              int64_t width) {
    const dhowi_tensor_desc *own = dhowi_desc_at(b, b->in[i]);
    if (own->rank == 1 && own->shape[0] == width) return DHOW_OK;
    return dhowi_refuse_input(b, i, name);
}

static int64_t last_extent(const dhowi_tensor_desc *x) {
    return x->rank > 0 ? x->shape[x->rank - 1] : 0;
}

/* scale softplus(a + bias), and the sigmoid of b. */
dhow_status dhowi_lower_ms_linear_gate(dhowi_lowering *b) {
    enum { A, BIAS, SCALE, RATE };
    const dhowi_tensor_desc a = *dhowi_desc_at(b, b->in[A]);
    int32_t x;
    DHOWI_TRY(expect_row(b, BIAS, "dt_bias", last_extent(&a)));
    DHOWI_TRY(expect_row(b, SCALE, "decay_scale", last_extent(&a)));
    DHOWI_TRY(dhowi_cast_to(b, b->in[A], DHOW_F32, &x));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, x, b->in[BIAS], &x));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SOFTPLUS, 0, 0, x, &x));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, x, b->in[SCALE], &x));
    DHOWI_TRY(dhowi_cast_to(b, x, a.dtype, &b->out[0]));
    if (b->out_count < 2) return DHOW_OK;
    if (!dhowi_given(b, RATE)) DHOWI_REFUSE("the second output wants b, which is missing");
    return dhowi_map_one(b, DHOWI_MAP_SIGMOID, 0, 0, b->in[RATE], &b->out[1]);
}

/* Rows of `scale`'s length brought to a root mean square of 1, scaled, and times their gate. */
dhow_status dhowi_lower_ms_gated_norm(dhowi_lowering *b) {
    enum { X, SCALE, GATE };
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[X]),
                            scale = *dhowi_desc_at(b, b->in[SCALE]),
                            gate = *dhowi_desc_at(b, b->in[GATE]);
    const bool sigmoid = dhowi_attr_is(b, "activation", "sigmoid", "silu");
    const int64_t wide = scale.rank == 1 ? scale.shape[0] : 0;
    int32_t y, by, in[2];
    if (!sigmoid && !dhowi_attr_is(b, "activation", "silu", "silu") &&
        !dhowi_attr_is(b, "activation", "swish", "silu"))
        return dhowi_refuse_text(b, "activation");
    if (wide < 1 || last_extent(&x) % wide != 0) return dhowi_refuse_input(b, SCALE, "scale");
    if (!dhowi_shape_equal(x.rank, x.shape, gate.rank, gate.shape))
        return dhowi_refuse_input(b, GATE, "gate");
    const int64_t rows[] = {dhowi_count_of(&x) / wide, wide};
    DHOWI_TRY(dhowi_cast_to(b, b->in[X], DHOW_F32, &in[0]));
    DHOWI_TRY(dhowi_cast_to(b, b->in[SCALE], DHOW_F32, &in[1]));
    DHOWI_TRY(dhowi_cast_to(b, b->in[GATE], DHOW_F32, &by));
    DHOWI_TRY(dhowi_reshape(b, in[0], 2, rows, &y));
    DHOWI_TRY(
        dhowi_norm(b, y, in[1], -1, (double)dhowi_attr_float(b, "epsilon", 1e-5f), false, &y));
    DHOWI_TRY(dhowi_reshape(b, y, x.rank, x.shape, &y));
    DHOWI_TRY(dhowi_map_one(b, sigmoid ? DHOWI_MAP_SIGMOID : DHOWI_MAP_SILU, 0, 0, by, &by));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, y, by, &y));
    return dhowi_cast_to(b, y, x.dtype, &b->out[0]);
}

/* X + Y gate, a gate for each row. */
dhow_status dhowi_lower_ms_gated_add(dhowi_lowering *b) {
    enum { X, Y, GATE, WEIGHT };
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[X]), y = *dhowi_desc_at(b, b->in[Y]),
                            gate = *dhowi_desc_at(b, b->in[GATE]);
    dhowi_tensor_desc wanted = x;
    int32_t product;
    if (dhowi_given(b, WEIGHT)) return dhowi_fail(DHOW_UNSUPPORTED, "gate_weight");
    if (x.rank < 1 || !dhowi_shape_equal(x.rank, x.shape, y.rank, y.shape))
        return dhowi_refuse_input(b, Y, "Y");
    wanted.shape[x.rank - 1] = 1;
    if (!dhowi_shape_equal(wanted.rank, wanted.shape, gate.rank, gate.shape))
        return dhowi_refuse_input(b, GATE, "gate");
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, b->in[Y], b->in[GATE], &product));
    return dhowi_map_two(b, DHOWI_MAP_ADD, b->in[X], product, &b->out[0]);
}

/* SiLU of x times a number. */
dhow_status dhowi_lower_ms_scaled_silu(dhowi_lowering *b) {
    int32_t x, scale;
    if (dhowi_given(b, 1)) {
        const dhowi_tensor_desc own = *dhowi_desc_at(b, b->in[1]);
        if (dhowi_count_of(&own) != 1) return dhowi_refuse_input(b, 1, "scale");
        DHOWI_TRY(dhowi_reshape(b, b->in[1], 0, NULL, &scale));
        DHOWI_TRY(dhowi_cast_to(b, scale, dhowi_desc_at(b, b->in[0])->dtype, &scale));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, b->in[0], scale, &x));
    } else {
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, b->in[0],
                                   (double)dhowi_attr_float(b, "alpha", 1), &x));
    }
    return dhowi_swish(b, x, 1, &b->out[0]);
}
