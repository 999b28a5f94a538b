/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixtures of experts: MoE, and QMoE with weights of 4 or 8 bits, which stay packed.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/memory/size.h"
#include "kernel/optimise.h"
#include "model/lower/composite.h"
#include "model/operators/math/math.h"
#include "model/operators/microsoft/microsoft.h"
#include "model/operators/nn/nn.h"

enum { MISSING = 64, MOST_EXPERTS = 1024 }; /* no node has so many inputs; kernels/experts.k */

/* Where the inputs of a layer of the experts are. */
typedef struct layer_inputs {
    const char *name;
    uint32_t weight, bias, scales, zeros;
} layer_inputs;

typedef struct mixture {
    bool coded;
    layer_inputs first, second, third;
    uint32_t weights;                 /* the input router_weights */
    int64_t tokens, experts, k, wide; /* wide: features of a token */
    int64_t block;                    /* 0: a row */
    int32_t places, shares;           /* i64[tokens k], f32[tokens, k, 1] */
} mixture;

/* ---- the router ---- */

/* The k experts of each token, and how much each of them says. */
static dhow_status route(dhowi_lowering *b, mixture *m) {
    enum { ROUTER = 1 };
    static const bool last[] = {false, true};
    const dhowi_tensor_desc own = *dhowi_desc_at(b, b->in[ROUTER]);
    const int64_t flat[] = {m->tokens * m->k}, shares[] = {m->tokens, m->k, 1};
    bool normalised;
    int32_t x, all, top, sum;
    DHOWI_TRY(dhowi_attr_flag(b, "normalize_routing_weights", false, &normalised));
    if (own.rank != 2 || own.shape[0] != m->tokens || own.shape[1] != m->experts)
        return dhowi_refuse_input(b, ROUTER, "router_probs");
    if (m->k < 1 || m->k > m->experts)
        DHOWI_REFUSE("k is %" PRId64 " of %" PRId64 " experts", m->k, m->experts);
    DHOWI_TRY(dhowi_cast_to(b, b->in[ROUTER], DHOW_F32, &x));
    DHOWI_TRY(dhowi_softmax_along(b, DHOWI_OP_softmax, x, 1, false, &all));
    DHOWI_TRY(dhowi_top(b, x, 1, m->k, true, &top, &m->places));
    if (dhowi_given(b, m->weights)) {
        const dhowi_tensor_desc given = *dhowi_desc_at(b, b->in[m->weights]);
        if (!dhowi_shape_equal(given.rank, given.shape, own.rank, own.shape))
            return dhowi_refuse_input(b, m->weights, "router_weights");
        DHOWI_TRY(dhowi_cast_to(b, b->in[m->weights], DHOW_F32, &all));
    }
    DHOWI_TRY(dhowi_elements_at(b, all, 1, m->places, &m->shares));
    if (normalised) {
        DHOWI_TRY(dhowi_reduce(b, DHOWI_SUM, m->shares, last, &sum));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_DIV, m->shares, sum, &m->shares));
    }
    DHOWI_TRY(dhowi_reshape(b, m->places, 1, flat, &m->places));
    return dhowi_reshape(b, m->shares, 3, shares, &m->shares);
}

/* ---- layers ---- */

/* Bits of a layer's codes. */
static int64_t bits_of(const dhowi_lowering *b, const layer_inputs *in) {
    char name[32] = {0};
    (void)snprintf(name, sizeof name, "%s_expert_weight_bits", in->name);
    return dhowi_attr_int(b, name, dhowi_attr_int(b, "expert_weight_bits", 4));
}

/* x[experts, n] of rows as [experts, n, blocks]. */
static dhow_status for_blocks(dhowi_lowering *b, const dhowi_axis_split *r, int32_t x,
                              int32_t *out) {
    const int64_t one[] = {r->outer, r->n, 1}, all[] = {r->outer, r->n, r->count};
    DHOWI_TRY(dhowi_reshape(b, x, 3, one, out));
    return dhowi_expand(b, *out, 3, all, out);
}

/* Zero points: packed for each row and its blocks, or for each matrix and its rows. */
static dhow_status read_zeros(dhowi_lowering *b, const layer_inputs *in, const dhowi_axis_split *r,
                              bool by_block, int32_t *zeros) {
    const int64_t by_row = r->outer * r->n * dhowi_ceil_div(r->count * r->taps, 8),
                  by_matrix = r->outer * dhowi_ceil_div(r->n * r->taps, 8);
    char name[48];
    *zeros = -1;
    if (!dhowi_given(b, in->zeros)) return DHOW_OK;
    const dhowi_tensor_desc z = *dhowi_desc_at(b, b->in[in->zeros]);
    (void)snprintf(name, sizeof name, "the zero points of %s", in->name);
    if (z.dtype != DHOW_U8 || z.encoding != 0 || z.rank != (by_block ? 3 : 2) ||
        dhowi_count_of(&z) != (by_block ? by_row : by_matrix))
        return dhowi_refuse_input(b, in->zeros, name);
    *zeros = b->in[in->zeros];
    if (by_block) return DHOW_OK;
    DHOWI_TRY(dhowi_ms_unpack(b, *zeros, r->taps == 4, r->n, zeros));
    return for_blocks(b, r, *zeros, zeros);
}

/* The largest blocks that rows of k codes are cut into, 0 where none fit. */
static int64_t blocks_of_row(int64_t k) {
    enum { LEAST = 16, MOST = 2048 }; /* of kernels/nbits.k */
    int64_t block = MOST;
    while (block >= LEAST && k % block != 0) block /= 2;
    return block >= LEAST ? block : 0;
}

/* Codes [experts, n, k bits / 8], their scales [experts, n] or [.., blocks] and zero points. */
static dhow_status read_codes(dhowi_lowering *b, const mixture *m, const layer_inputs *in,
                              dhowi_axis_split *r, int32_t *scales, int32_t *zeros) {
    const bool by_block = m->block > 0;
    const int64_t block = by_block ? m->block : blocks_of_row(r->inner);
    char name[48];
    r->taps = bits_of(b, in);
    DHOWI_TRY(dhowi_ms_check_bits(r->taps));
    if (block == 0)
        return dhowi_fail(DHOW_UNSUPPORTED, "rows of %" PRId64 " codes, which no 16 divide",
                          r->inner);
    const dhowi_tensor_desc w = *dhowi_desc_at(b, b->in[in->weight]);
    if (w.dtype != DHOW_U8 || w.encoding != 0 || r->inner % block != 0 ||
        w.shape[2] != r->inner * r->taps / 8)
        return dhowi_refuse_input(b, in->weight, in->name);
    r->count = r->inner / block;
    while (INT64_C(1) << r->stride < block) r->stride++;
    (void)snprintf(name, sizeof name, "the scales of %s", in->name);
    if (!dhowi_given(b, in->scales)) DHOWI_REFUSE("%s are missing", name);
    const dhowi_tensor_desc s = *dhowi_desc_at(b, b->in[in->scales]);
    if (dhowi_count_of(&s) != r->outer * r->n * (by_block ? r->count : 1) ||
        !dhowi_is_float(s.dtype))
        return dhowi_refuse_input(b, in->scales, name);
    DHOWI_TRY(dhowi_cast_to(b, b->in[in->scales], DHOW_F32, scales));
    if (!by_block) DHOWI_TRY(for_blocks(b, r, *scales, scales));
    r->flag[0] =
        dhowi_attr_int(b, "accuracy_level", 0) == 4 && dhowi_optimises(DHOWI_OPTIMISE_INTEGERS);
    return read_zeros(b, in, r, by_block, zeros);
}

/* What the experts of all tokens make of their rows of x, [tokens k, n]. */
static dhow_status apply(dhowi_lowering *b, const mixture *m, const layer_inputs *in, int32_t x,
                         int32_t *out) {
    if (!dhowi_given(b, in->weight)) DHOWI_REFUSE("%s is missing", in->name);
    const dhowi_tensor_desc w = *dhowi_desc_at(b, b->in[in->weight]);
    const int64_t inner = dhowi_desc_at(b, x)->shape[1];
    char name[48];
    int32_t parts[] = {x, b->in[in->weight], m->places, -1, -1, -1};
    if (w.rank != 3 || w.shape[0] != m->experts || w.shape[1] < 1 ||
        (!m->coded && w.shape[2] != inner))
        return dhowi_refuse_input(b, in->weight, in->name);
    dhowi_attrs attrs = {.split = {.outer = m->experts, .n = w.shape[1], .inner = inner}};
    const dhowi_tensor_desc y = {
        .dtype = DHOW_F32, .rank = 2, .shape = {m->tokens * m->k, w.shape[1]}};
    if (m->coded) {
        DHOWI_TRY(read_codes(b, m, in, &attrs.split, &parts[4], &parts[5]));
    } else {
        DHOWI_TRY(dhowi_cast_to(b, parts[1], DHOW_F32, &parts[1]));
    }
    if (dhowi_given(b, in->bias)) {
        const dhowi_tensor_desc bias = *dhowi_desc_at(b, b->in[in->bias]);
        (void)snprintf(name, sizeof name, "the bias of %s", in->name);
        if (bias.rank != 2 || bias.shape[0] != m->experts || bias.shape[1] != w.shape[1])
            return dhowi_refuse_input(b, in->bias, name);
        DHOWI_TRY(dhowi_cast_to(b, b->in[in->bias], DHOW_F32, &parts[3]));
    }
    return dhowi_emit(b, DHOWI_OP_experts, parts, DHOWI_COUNT(parts), &attrs, &y, out);
}

/* g sigmoid(alpha g) (l + beta), both held to a limit before, or gelu(g) l. */
static dhow_status gated(dhowi_lowering *b, bool gelu, int32_t g, int32_t l, int32_t *out) {
    const double limit = (double)dhowi_attr_float(b, "swiglu_limit", INFINITY);
    if (gelu) {
        DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_GELU_TANH, 0, 0, g, &g));
        return dhowi_map_two(b, DHOWI_MAP_MUL, g, l, out);
    }
    if (limit < (double)INFINITY) {
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MIN, g, limit, &g));
        DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_CLIP, -limit, limit, l, &l));
    }
    DHOWI_TRY(dhowi_swish(b, g, (double)dhowi_attr_float(b, "activation_alpha", 1), &g));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_ADD, l,
                               (double)dhowi_attr_float(b, "activation_beta", 0), &l));
    return dhowi_map_two(b, DHOWI_MAP_MUL, g, l, out);
}

/* The two halves of a layer's columns, side by side or taking turns. */
static dhow_status halves(dhowi_lowering *b, int32_t x, bool turns, int32_t *g, int32_t *l) {
    const int64_t wide = dhowi_desc_at(b, x)->shape[1], half = wide / 2;
    if (wide % 2 != 0) DHOWI_REFUSE("fc1 has %" PRId64 " columns, which are no pairs", wide);
    DHOWI_TRY(dhowi_narrow(b, x, 1, 0, half, turns ? 2 : 1, g));
    return dhowi_narrow(b, x, 1, turns ? 1 : half, half, turns ? 2 : 1, l);
}

static dhow_status activate(dhowi_lowering *b, const mixture *m, int32_t x, int32_t h,
                            int32_t *out) {
    static const struct {
        const char *name;
        dhowi_map_op op;
    } plain[] = {{"relu", DHOWI_MAP_RELU}, {"silu", DHOWI_MAP_SILU}, {"gelu", DHOWI_MAP_GELU_TANH}};
    const bool gelu = dhowi_attr_is(b, "activation_type", "geglu", "relu");
    const int64_t fusion = dhowi_attr_int(b, "swiglu_fusion", 0);
    const bool gates = gelu || dhowi_attr_is(b, "activation_type", "swiglu", "relu");
    int32_t g, l;
    if (dhowi_given(b, m->third.weight) && (!gates || fusion != 0))
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "fc3 with an activation_type other than swiglu, or a swiglu_fusion");
    if (gates && (fusion == 1 || fusion == 2)) {
        DHOWI_TRY(halves(b, h, fusion == 1, &g, &l));
        return gated(b, gelu, g, l, out);
    }
    if (gates) {
        if (fusion != 0 || !dhowi_given(b, m->third.weight))
            DHOWI_REFUSE("swiglu_fusion is %" PRId64 ", 0 with fc3, 1 and 2 without are the forms",
                         fusion);
        DHOWI_TRY(apply(b, m, &m->third, x, &l));
        return gated(b, gelu, h, l, out);
    }
    *out = h;
    if (dhowi_attr_is(b, "activation_type", "identity", "relu")) return DHOW_OK;
    for (size_t i = 0; i < DHOWI_COUNT(plain); i++) {
        if (dhowi_attr_is(b, "activation_type", plain[i].name, "relu"))
            return dhowi_map_one(b, plain[i].op, 0, 0, h, out);
    }
    return dhowi_refuse_text(b, "activation_type");
}

static int64_t experts_of(const dhowi_lowering *b, uint32_t weight) {
    const dhowi_tensor_desc *w = dhowi_desc_at(b, b->in[weight]);
    return w->rank > 0 ? w->shape[0] : 0;
}

/* What all experts of a token say, by their shares. */
static dhow_status mix(dhowi_lowering *b, mixture *m) {
    static const bool of_token[] = {false, true, false};
    const dhowi_tensor_desc own = *dhowi_desc_at(b, b->in[0]);
    int32_t x, h, y;
    m->wide = own.rank > 0 ? own.shape[own.rank - 1] : 0;
    if ((own.rank != 2 && own.rank != 3) || !dhowi_is_float(own.dtype) || m->wide < 1)
        return dhowi_refuse_input(b, 0, "the input");
    m->tokens = dhowi_count_of(&own) / m->wide;
    m->experts = experts_of(b, m->first.weight);
    m->k = dhowi_attr_int(b, "k", 1);
    if (m->experts < 1 || m->experts > MOST_EXPERTS)
        DHOWI_REFUSE("%" PRId64 " experts; it takes 1 to %d", m->experts, MOST_EXPERTS);
    DHOWI_TRY(dhowi_attr_only(b, "use_sparse_mixer", 0));
    DHOWI_TRY(dhowi_attr_only(b, "swiglu_limit_after_activation", 0));
    const int64_t rows[] = {m->tokens, m->wide}, apart[] = {m->tokens, m->k, m->wide};
    DHOWI_TRY(route(b, m));
    DHOWI_TRY(dhowi_cast_to(b, b->in[0], DHOW_F32, &x));
    DHOWI_TRY(dhowi_reshape(b, x, 2, rows, &x));
    DHOWI_TRY(apply(b, m, &m->first, x, &h));
    DHOWI_TRY(activate(b, m, x, h, &h));
    DHOWI_TRY(apply(b, m, &m->second, h, &y));
    if (dhowi_desc_at(b, y)->shape[1] != m->wide)
        return dhowi_refuse_input(b, m->second.weight, m->second.name);
    DHOWI_TRY(dhowi_reshape(b, y, 3, apart, &y));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, y, m->shares, &y));
    DHOWI_TRY(dhowi_reduce(b, DHOWI_SUM, y, of_token, &y));
    DHOWI_TRY(dhowi_reshape(b, y, own.rank, own.shape, &y));
    return dhowi_cast_to(b, y, own.dtype, &b->out[0]);
}

dhow_status dhowi_lower_ms_experts(dhowi_lowering *b) {
    mixture m = {.first = {"fc1", 2, 3, MISSING, MISSING},
                 .second = {"fc2", 4, 5, MISSING, MISSING},
                 .third = {"fc3", 6, 7, MISSING, MISSING},
                 .weights = MISSING};
    return mix(b, &m);
}

dhow_status dhowi_lower_ms_coded_experts(dhowi_lowering *b) {
    enum { FURTHER = 15 }; /* scales of floats of 4 and 8 bits, and of activations */
    mixture m = {.coded = true,
                 .first = {"fc1", 2, 4, 3, 11},
                 .second = {"fc2", 5, 7, 6, 12},
                 .third = {"fc3", 8, 10, 9, 13},
                 .weights = 14,
                 .block = dhowi_attr_int(b, "block_size", 0)};
    if (!dhowi_attr_is(b, "quant_type", "int", "int")) return dhowi_refuse_text(b, "quant_type");
    if (dhowi_attr_int(b, "weights_prepacked", -1) == 1)
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "unsupported weights_prepacked: export the model without packing weights "
                          "for one kind of GPU");
    for (uint32_t i = FURTHER; i < b->in_count; i++)
        if (dhowi_given(b, i)) return dhowi_fail(DHOW_UNSUPPORTED, "its input %u", i);
    if (m.block < 0 ||
        (m.block > 0 && (m.block < 16 || m.block > 2048 || (m.block & (m.block - 1)) != 0)))
        DHOWI_REFUSE("block_size is %" PRId64 ": it must be a power of two from 16 to 2048",
                     m.block);
    return mix(b, &m);
}
