/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of the nodes that the builder makes: rows of the operation table, and layers.
 */
#include "base/memory/size.h"
#include "model/operators/backward/backward.h"
#include "model/operators/nn/layer.h"

/* ---- arithmetic with a number ---- */

static dhow_status by_number(dhowi_reverser *r, dhowi_map_op op) {
    int32_t d;
    DHOWI_TRY(dhowi_map_number(r->b, op, r->dy, dhowi_scalar_float(r->node->attrs->scalar[0]), &d));
    return dhowi_back_pass(r, 0, d);
}

static dhow_status back_mul_number(dhowi_reverser *r) { return by_number(r, DHOWI_MAP_MUL); }
static dhow_status back_div_number(dhowi_reverser *r) { return by_number(r, DHOWI_MAP_DIV); }

static dhow_status back_pow_number(dhowi_reverser *r) {
    return dhowi_back_power(r, dhowi_scalar_float(r->node->attrs->scalar[0]));
}

/* Half where x is the number itself, as between two tensors. */
static dhow_status by_comparison(dhowi_reverser *r, dhowi_map_op better) {
    const double number = dhowi_scalar_float(r->node->attrs->scalar[0]);
    int32_t x, equal, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_map_number(r->b, better, x, number, &d));
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_EQ, x, number, &equal));
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_MUL, equal, 0.5, &equal));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_ADD, d, equal, &d));
    return dhowi_back_scaled(r, d);
}
static dhow_status back_max_number(dhowi_reverser *r) { return by_comparison(r, DHOWI_MAP_GT); }
static dhow_status back_min_number(dhowi_reverser *r) { return by_comparison(r, DHOWI_MAP_LT); }

/* ---- layers ---- */

static dhow_status back_permute(dhowi_reverser *r) {
    const int64_t *order = r->node->attrs->split.shape;
    int32_t back[DHOW_MAX_RANK], d;
    for (int32_t i = 0; i < dhowi_desc_at(r->b, r->dy)->rank; i++) back[order[i]] = i;
    DHOWI_TRY(dhowi_permute(r->b, r->dy, back, &d));
    return dhowi_back_pass(r, 0, d);
}

/* With the mask that the node had, made again. */
static dhow_status back_dropout(dhowi_reverser *r) {
    int32_t key, d = r->dy;
    if (r->node->in_count > 1) {
        DHOWI_TRY(dhowi_back_input(r, 1, &key));
        DHOWI_TRY(dhowi_dropout(r->b, r->dy, key, r->node->attrs, &d));
    }
    return dhowi_back_pass(r, 0, d);
}

static const struct {
    dhowi_layer_kind kind;
    dhowi_back_fn *back;
} k_layers[] = {{DHOWI_LAYER_EMBEDDING, dhowi_back_gather},
                {DHOWI_LAYER_BATCHNORM, dhowi_back_batch_norm},
                {DHOWI_LAYER_BATCHNORM_TRAINING, dhowi_back_batch_norm_training},
                {DHOWI_LAYER_ATTENTION, dhowi_back_attention},
                {DHOWI_LAYER_DOT_ATTENTION, dhowi_back_dot_attention},
                {DHOWI_LAYER_LSTM, dhowi_back_lstm_layer},
                {DHOWI_LAYER_CTC, dhowi_back_ctc},
                {DHOWI_LAYER_RESHAPE, dhowi_back_reshape},
                {DHOWI_LAYER_PERMUTE, back_permute},
                {DHOWI_LAYER_CAT, dhowi_back_concat},
                {DHOWI_LAYER_WHERE, dhowi_back_where},
                {DHOWI_LAYER_CLIP, dhowi_back_clip},
                {DHOWI_LAYER_REDUCE, dhowi_back_reduce},
                {DHOWI_LAYER_SPREAD, dhowi_back_spread},
                {DHOWI_LAYER_DROPOUT, back_dropout},
                {DHOWI_LAYER_NARROW, dhowi_back_narrow},
                {DHOWI_LAYER_CAST, dhowi_back_cast}};

/* ---- functions ---- */

static dhowi_back_fn *const k_functions[] = {[DHOWI_MAP_ERF] = dhowi_back_erf,
                                             [DHOWI_MAP_RECIPROCAL] = dhowi_back_reciprocal,
                                             [DHOWI_MAP_SQUARE] = dhowi_back_square,
                                             [DHOWI_MAP_SIGN] = dhowi_back_none,
                                             [DHOWI_MAP_FLOOR] = dhowi_back_none,
                                             [DHOWI_MAP_CEIL] = dhowi_back_none,
                                             [DHOWI_MAP_ROUND] = dhowi_back_none,
                                             [DHOWI_MAP_SIN] = dhowi_back_sin,
                                             [DHOWI_MAP_COS] = dhowi_back_cos,
                                             [DHOWI_MAP_ACOS] = dhowi_back_acos,
                                             [DHOWI_MAP_ACOSH] = dhowi_back_acosh,
                                             [DHOWI_MAP_ASIN] = dhowi_back_asin,
                                             [DHOWI_MAP_ASINH] = dhowi_back_asinh,
                                             [DHOWI_MAP_ATAN] = dhowi_back_atan,
                                             [DHOWI_MAP_ATANH] = dhowi_back_atanh,
                                             [DHOWI_MAP_SINH] = dhowi_back_sinh,
                                             [DHOWI_MAP_COSH] = dhowi_back_cosh,
                                             [DHOWI_MAP_TAN] = dhowi_back_tan,
                                             [DHOWI_MAP_SOFTPLUS] = dhowi_back_softplus,
                                             [DHOWI_MAP_SOFTSIGN] = dhowi_back_softsign,
                                             [DHOWI_MAP_MISH] = dhowi_back_mish,
                                             [DHOWI_MAP_HARD_SWISH] = dhowi_back_hard_swish,
                                             [DHOWI_MAP_LEAKY] = dhowi_back_leaky,
                                             [DHOWI_MAP_ELU] = dhowi_back_elu,
                                             [DHOWI_MAP_POW] = dhowi_back_pow,
                                             [DHOWI_MAP_FMOD] = dhowi_back_mod,
                                             [DHOWI_MAP_MOD] = dhowi_back_mod,
                                             [DHOWI_MAP_EQ] = dhowi_back_none,
                                             [DHOWI_MAP_NE] = dhowi_back_none,
                                             [DHOWI_MAP_LT] = dhowi_back_none,
                                             [DHOWI_MAP_LE] = dhowi_back_none,
                                             [DHOWI_MAP_GT] = dhowi_back_none,
                                             [DHOWI_MAP_GE] = dhowi_back_none};

/* The builder's programs load x and do one operation. */
static dhowi_back_fn *back_of_map(const dhowi_program *p) {
    const uint32_t op = p->word[1] & 0xff;
    return p->words == 2 && op < DHOWI_COUNT(k_functions) ? k_functions[op] : NULL;
}

/* ---- rows ---- */

static dhowi_back_fn *const k_rows[DHOWI_OP_COUNT] = {
    [DHOWI_OP_relu] = dhowi_back_relu,
    [DHOWI_OP_gelu] = dhowi_back_gelu,
    [DHOWI_OP_gelu_tanh] = dhowi_back_gelu_tanh,
    [DHOWI_OP_silu] = dhowi_back_silu,
    [DHOWI_OP_sigmoid] = dhowi_back_sigmoid,
    [DHOWI_OP_tanh] = dhowi_back_tanh,
    [DHOWI_OP_exp] = dhowi_back_exp,
    [DHOWI_OP_log] = dhowi_back_log,
    [DHOWI_OP_sqrt] = dhowi_back_sqrt,
    [DHOWI_OP_neg] = dhowi_back_neg,
    [DHOWI_OP_abs] = dhowi_back_abs,
    [DHOWI_OP_add] = dhowi_back_sum,
    [DHOWI_OP_sub] = dhowi_back_sub,
    [DHOWI_OP_mul] = dhowi_back_mul,
    [DHOWI_OP_div] = dhowi_back_div,
    [DHOWI_OP_max] = dhowi_back_extreme,
    [DHOWI_OP_min] = dhowi_back_extreme,
    [DHOWI_OP_add_scalar] = dhowi_back_identity,
    [DHOWI_OP_sub_scalar] = dhowi_back_identity,
    [DHOWI_OP_mul_scalar] = back_mul_number,
    [DHOWI_OP_div_scalar] = back_div_number,
    [DHOWI_OP_pow_scalar] = back_pow_number,
    [DHOWI_OP_max_scalar] = back_max_number,
    [DHOWI_OP_min_scalar] = back_min_number,
    [DHOWI_OP_affine] = back_mul_number,
    [DHOWI_OP_matmul] = dhowi_back_matmul,
    [DHOWI_OP_linear] = dhowi_back_linear,
    [DHOWI_OP_conv2d] = dhowi_back_conv,
    [DHOWI_OP_maxpool2d] = dhowi_back_maxpool,
    [DHOWI_OP_avgpool2d] = dhowi_back_avgpool,
    [DHOWI_OP_softmax] = dhowi_back_softmax,
    [DHOWI_OP_log_softmax] = dhowi_back_log_softmax,
    [DHOWI_OP_layernorm] = dhowi_back_layer_norm,
    [DHOWI_OP_flatten] = dhowi_back_reshape,
};

dhowi_back_fn *dhowi_back_of(const dhowi_node *node) {
    if (dhowi_is_built(node) && node->row != DHOWI_OP_COUNT) return k_rows[node->row];
    if (node->op == dhowi_layer_operator(DHOWI_LAYER_MAP))
        return back_of_map(&node->attrs->program);
    for (size_t i = 0; i < DHOWI_COUNT(k_layers); i++) {
        if (node->op == dhowi_layer_operator(k_layers[i].kind)) return k_layers[i].back;
    }
    return node->op->back;
}

dhowi_by dhowi_back_by(const dhowi_node *node, uint32_t i) {
    const uint32_t bit = i < 32 ? UINT32_C(1) << i : 0;
    if (dhowi_back_of(node) == dhowi_back_none) return DHOWI_BY_NOTHING;
    return node->op->constants & bit ? DHOWI_BY_CONSTANT
           : node->op->flat & bit    ? DHOWI_BY_NOTHING
                                     : DHOWI_BY_VALUE;
}

dhow_status dhowi_back_check(const dhow_model *m, const dhowi_node *node, const bool *leads) {
    char text[160];
    for (uint32_t i = 0; i < node->in_count; i++) {
        if (node->in[i] < 0 || !leads[node->in[i]]) continue;
        const char *name = m->values[node->in[i]].name;
        if (dhowi_back_by(node, i) == DHOWI_BY_CONSTANT)
            return dhowi_fail(
                DHOW_UNSUPPORTED,
                "dhow has no derivative of %s by its input %u, '%.64s', which depends "
                "on what is trained; leave that out of `trainable`",
                dhowi_node_text(node, text, sizeof text), i, name != NULL ? name : "");
    }
    return DHOW_OK;
}
