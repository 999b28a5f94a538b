/* SPDX-License-Identifier: Apache-2.0
 *
 * LSTM, GRU and RNN as two steps: one product for all time steps of the input, and one kernel for
 * all that goes from time step to time step. Processors run it best; every device runs it, so the
 * options that single steps lack are here.
 */
#include <float.h>

#include "base/memory/size.h"
#include "kernel/optimise.h"
#include "model/lower/products/products.h"
#include "model/operators/nn/nn.h"

enum { X, W, R, BIAS, LENGTHS, STATE, CELL, PEEPHOLES };

/* ---- attributes ---- */

typedef struct gate_function {
    const char *name;
    int numbers; /* alpha, or alpha and beta */
    float alpha, beta;
} gate_function;

static const gate_function k_functions[] = {
    [DHOWI_GATE_SIGMOID] = {"Sigmoid", 0, 0, 0},
    [DHOWI_GATE_TANH] = {"Tanh", 0, 0, 0},
    [DHOWI_GATE_RELU] = {"Relu", 0, 0, 0},
    [DHOWI_GATE_AFFINE] = {"Affine", 2, 1, 0},
    [DHOWI_GATE_LEAKY_RELU] = {"LeakyRelu", 1, 0.01f, 0},
    [DHOWI_GATE_THRESHOLDED_RELU] = {"ThresholdedRelu", 1, 1, 0},
    [DHOWI_GATE_SCALED_TANH] = {"ScaledTanh", 2, 1, 1},
    [DHOWI_GATE_HARD_SIGMOID] = {"HardSigmoid", 2, 0.2f, 0.5f},
    [DHOWI_GATE_ELU] = {"Elu", 1, 1, 0},
    [DHOWI_GATE_SOFTSIGN] = {"Softsign", 0, 0, 0},
    [DHOWI_GATE_SOFTPLUS] = {"Softplus", 0, 0, 0},
};

/* f, g and h of the standard; RNN has f alone, GRU f and g. */
static dhowi_gate_function usual(int gates, uint32_t i) {
    return i == 0 && gates > 1 ? DHOWI_GATE_SIGMOID : DHOWI_GATE_TANH;
}

static uint32_t functions_of(int gates) { return gates == 4 ? 3 : gates == 3 ? 2 : 1; }

static dhow_status function_named(dhowi_slice name, dhowi_gate_function *out) {
    for (uint32_t i = 0; i < DHOWI_COUNT(k_functions); i++) {
        *out = (dhowi_gate_function)i;
        if (dhowi_slice_is(name, k_functions[i].name)) return DHOW_OK;
    }
    return dhowi_fail(DHOW_UNSUPPORTED, "activation %.*s", (int)DHOWI_MIN(name.length, (size_t)32),
                      name.data);
}

/* The functions that have numbers take them in turn, for as long as there are some. */
static float next_number(const dhowi_onnx_attribute *list, uint32_t *at, float otherwise) {
    return list != NULL && *at < list->float_count ? list->floats[(*at)++] : otherwise;
}

static dhow_status read_functions(const dhowi_lowering *b, dhowi_recurrent_node *n) {
    const dhowi_onnx_attribute *names = dhowi_attr(b, "activations", DHOWI_ATTRIBUTE_STRINGS);
    const dhowi_onnx_attribute *alpha = dhowi_attr(b, "activation_alpha", DHOWI_ATTRIBUTE_FLOATS);
    const dhowi_onnx_attribute *beta = dhowi_attr(b, "activation_beta", DHOWI_ATTRIBUTE_FLOATS);
    const uint32_t each = functions_of(n->gates), all = each * (uint32_t)n->directions;
    const uint32_t given = names == NULL ? 0 : names->string_count;
    uint32_t alphas = 0, betas = 0;
    if (given != 0 && given != each && given != all)
        DHOWI_REFUSE("%u activations, %u are wanted", given, all);
    for (uint32_t i = 0; i < all; i++) {
        dhowi_recurrent *rules = &n->rules[i / each];
        dhowi_gate_function *to = &rules->function[i % each];
        *to = usual(n->gates, i % each);
        if (given != 0) DHOWI_TRY(function_named(names->strings[i % given], to));
        const gate_function *f = &k_functions[*to];
        rules->alpha[i % each] = f->alpha;
        rules->beta[i % each] = f->beta;
        if (f->numbers > 0) rules->alpha[i % each] = next_number(alpha, &alphas, f->alpha);
        if (f->numbers > 1) rules->beta[i % each] = next_number(beta, &betas, f->beta);
        n->ordinary = n->ordinary && *to == usual(n->gates, i % each);
    }
    return DHOW_OK;
}

dhow_status dhowi_recurrent_rules(const dhowi_lowering *b, dhowi_recurrent_node *n) {
    bool coupled = false, after = false;
    const dhowi_onnx_attribute *clip = dhowi_attr(b, "clip", DHOWI_ATTRIBUTE_FLOAT);
    n->ordinary = clip == NULL;
    if (clip != NULL && !(clip->f > 0 && clip->f <= FLT_MAX))
        DHOWI_REFUSE("clip is %g, not a number above 0", (double)clip->f);
    if (n->gates == 4) DHOWI_TRY(dhowi_attr_flag(b, "input_forget", false, &coupled));
    if (n->gates == 3) DHOWI_TRY(dhowi_attr_flag(b, "linear_before_reset", false, &after));
    for (int d = 0; d < 2; d++) {
        n->rules[d] = (dhowi_recurrent){.gates = n->gates, .clip = clip != NULL ? clip->f : 0};
        if (after) n->rules[d].flags |= DHOWI_RECURRENT_RESET_AFTER;
        if (coupled) n->rules[d].flags |= DHOWI_RECURRENT_COUPLED;
        if (d == 1 || dhowi_attr_is(b, "direction", "reverse", "forward"))
            n->rules[d].flags |= DHOWI_RECURRENT_REVERSE;
    }
    n->ordinary = n->ordinary && !coupled;
    return read_functions(b, n);
}

dhow_status dhowi_recurs_whole(const dhowi_lowering *b, const dhowi_recurrent_node *n, bool *out) {
    const dhow_dtype dtype = dhowi_desc_at(b, n->x)->dtype;
    const bool can = dtype != DHOW_F64 && n->steps > 0 && n->batch > 0 && n->hidden > 0;
    *out = can && (!n->ordinary || (dhowi_optimises(DHOWI_OPTIMISE_RECURRENT) &&
                                    b->device->desc.kind == DHOW_DEVICE_CPU));
    if (can || n->ordinary || dtype != DHOW_F64) return DHOW_OK;
    return dhowi_fail(DHOW_UNSUPPORTED,
                      "activations, clip and input_forget of elements of type f64");
}

/* ---- the two steps ---- */

/* R[directions, gates hidden, hidden] as the kernel reads it: [directions, blocks, hidden, gates,
 * UNITS]. */
static dhow_status pack_weights(dhowi_lowering *b, const dhowi_recurrent_node *n, int32_t *out) {
    static const int32_t order[] = {0, 2, 4, 1, 3};
    static const int64_t none[DHOW_MAX_RANK] = {0};
    const int64_t blocks = dhowi_ceil_div(n->hidden, DHOWI_RECURRENT_UNITS);
    const int64_t rows[] = {n->directions, n->gates, n->hidden, n->hidden};
    const int64_t parts[] = {n->directions, n->gates, blocks, DHOWI_RECURRENT_UNITS, n->hidden};
    const int64_t after[] = {0, 0, blocks * DHOWI_RECURRENT_UNITS - n->hidden, 0};
    DHOWI_TRY(dhowi_widened(b, DHOWI_OP_recurrent, b->in[R], out));
    DHOWI_TRY(dhowi_reshape(b, *out, 4, rows, out));
    if (after[2] > 0) DHOWI_TRY(dhowi_pad_with(b, *out, none, after, 0, out));
    DHOWI_TRY(dhowi_reshape(b, *out, 5, parts, out));
    DHOWI_TRY(dhowi_permute(b, *out, order, out));
    return dhowi_dense(b, *out, out);
}

/* What is added to the input's share; *more, of a GRU that resets after its product, is the part of
 * the recurrent bias that is reset, too. */
static dhow_status biases(dhowi_lowering *b, const dhowi_recurrent_node *n, int32_t *sum,
                          int32_t *more) {
    const int64_t wide = n->gates * n->hidden, two = 2 * n->hidden, flat[] = {n->directions * wide};
    int32_t given, parts[2];
    *sum = -1;
    if (!dhowi_given(b, BIAS)) return DHOW_OK;
    DHOWI_TRY(dhowi_widened(b, DHOWI_OP_recurrent, b->in[BIAS], &given));
    for (int i = 0; i < 2; i++) DHOWI_TRY(dhowi_narrow(b, given, 1, i * wide, wide, 1, &parts[i]));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, parts[0], parts[1], sum));
    if ((n->rules[0].flags & DHOWI_RECURRENT_RESET_AFTER) != 0) {
        DHOWI_TRY(dhowi_narrow(b, parts[1], 1, two, n->hidden, 1, more));
        DHOWI_TRY(dhowi_narrow(b, parts[0], 1, two, n->hidden, 1, &parts[1]));
        DHOWI_TRY(dhowi_narrow(b, *sum, 1, 0, two, 1, &parts[0]));
        DHOWI_TRY(dhowi_concat(b, parts, 2, 1, sum));
    }
    return dhowi_reshape(b, *sum, 1, flat, sum);
}

/* The input's share of all gates, [steps, batch, directions, gates hidden]. */
static dhow_status input_share(dhowi_lowering *b, const dhowi_recurrent_node *n, int32_t bias,
                               int32_t *out) {
    static const int32_t turned[] = {1, 0};
    const int64_t wide = n->gates * n->hidden;
    const int64_t rows[] = {n->steps * n->batch, n->inputs};
    const int64_t weights[] = {n->directions * wide, n->inputs};
    const int64_t share[] = {n->steps, n->batch, n->directions, wide};
    int32_t x, w;
    DHOWI_TRY(dhowi_widened(b, DHOWI_OP_recurrent, n->x, &x));
    DHOWI_TRY(dhowi_widened(b, DHOWI_OP_recurrent, b->in[W], &w));
    DHOWI_TRY(dhowi_reshape(b, x, 2, rows, &x));
    DHOWI_TRY(dhowi_reshape(b, w, 2, weights, &w));
    DHOWI_TRY(dhowi_permute(b, w, turned, &w));
    DHOWI_TRY(dhowi_product(b, x, w, bias, out));
    return dhowi_reshape(b, *out, 4, share, out);
}

/* A state of all directions first, as f32. */
static dhow_status first_state(dhowi_lowering *b, const dhowi_recurrent_node *n, uint32_t input,
                               int32_t *out) {
    static const int32_t swapped[] = {1, 0, 2};
    *out = -1;
    if (!dhowi_given(b, input)) return DHOW_OK;
    DHOWI_TRY(dhowi_widened(b, DHOWI_OP_recurrent, b->in[input], out));
    return n->batchwise ? dhowi_permute(b, *out, swapped, out) : DHOW_OK;
}

typedef struct operands {
    int32_t share, weights, h, c, more, lengths; /* as the kernel has them; -1: none */
} operands;

/* Directions from `first` on, [steps, directions, batch, hidden] and states. */
static dhow_status emit(dhowi_lowering *b, const dhowi_recurrent_node *n, const operands *o,
                        int32_t first, int64_t directions, int32_t *y, int32_t *states) {
    static const int32_t at[] = {2, 0, 0, 0, 0}; /* the dimension of directions */
    const int32_t flags = n->rules[first].flags;
    const bool keeps_more =
        n->gates == 4 || (n->gates == 3 && (flags & DHOWI_RECURRENT_RESET_AFTER) == 0);
    const dhowi_attrs attrs = {.recurrent = n->rules[first]};
    const dhowi_tensor_desc all = {
        .dtype = DHOW_F32, .rank = 4, .shape = {n->steps, directions, n->batch, n->hidden}};
    dhowi_tensor_desc last = all;
    int32_t in[] = {o->share, o->weights, o->h, o->c, o->more, o->lengths};
    last.shape[0] = keeps_more ? 2 : 1;
    for (size_t i = 0; i < DHOWI_COUNT(at); i++) {
        if (in[i] >= 0 && directions < n->directions)
            DHOWI_TRY(dhowi_narrow(b, in[i], at[i], first, directions, 1, &in[i]));
    }
    return dhowi_emit_two(b, DHOWI_OP_recurrent, in, DHOWI_COUNT(in), &attrs, &all, &last, y,
                          states);
}

static bool are_alike(const dhowi_recurrent *p, const dhowi_recurrent *q) {
    bool alike = true;
    for (int i = 0; i < DHOWI_RECURRENT_FUNCTIONS; i++)
        alike = alike && p->function[i] == q->function[i] && p->alpha[i] == q->alpha[i] &&
                p->beta[i] == q->beta[i];
    return alike;
}

/* One step for all directions, or one for each where their functions are not the same. */
static dhow_status emit_all(dhowi_lowering *b, const dhowi_recurrent_node *n, const operands *o,
                            int32_t *y, int32_t *states) {
    int32_t ys[2], ends[2];
    if (n->directions == 1 || are_alike(&n->rules[0], &n->rules[1]))
        return emit(b, n, o, 0, n->directions, y, states);
    for (int32_t d = 0; d < 2; d++) DHOWI_TRY(emit(b, n, o, d, 1, &ys[d], &ends[d]));
    DHOWI_TRY(dhowi_concat(b, ys, 2, 1, y));
    return dhowi_concat(b, ends, 2, 1, states);
}

dhow_status dhowi_recur_whole(dhowi_lowering *b, const dhowi_recurrent_node *n, int32_t lengths) {
    static const int32_t batch_first[] = {2, 0, 1, 3}, swapped[] = {1, 0, 2};
    const dhow_dtype dtype = dhowi_desc_at(b, n->x)->dtype;
    const int64_t last[] = {n->directions, n->batch, n->hidden};
    operands o = {.c = -1, .more = -1, .lengths = lengths};
    int32_t bias, states;
    DHOWI_TRY(biases(b, n, &bias, &o.more));
    DHOWI_TRY(input_share(b, n, bias, &o.share));
    DHOWI_TRY(pack_weights(b, n, &o.weights));
    DHOWI_TRY(first_state(b, n, STATE, &o.h));
    if (n->gates == 4) DHOWI_TRY(first_state(b, n, CELL, &o.c));
    if (n->gates == 4 && dhowi_given(b, PEEPHOLES))
        DHOWI_TRY(dhowi_widened(b, DHOWI_OP_recurrent, b->in[PEEPHOLES], &o.more));
    DHOWI_TRY(emit_all(b, n, &o, &b->out[0], &states));
    DHOWI_TRY(dhowi_cast_to(b, b->out[0], dtype, &b->out[0]));
    if (n->batchwise) DHOWI_TRY(dhowi_permute(b, b->out[0], batch_first, &b->out[0]));
    for (uint32_t i = 1; i < DHOWI_MIN(b->out_count, n->gates == 4 ? 3u : 2u); i++) {
        DHOWI_TRY(dhowi_narrow(b, states, 0, i - 1, 1, 1, &b->out[i]));
        DHOWI_TRY(dhowi_reshape(b, b->out[i], 3, last, &b->out[i]));
        DHOWI_TRY(dhowi_cast_to(b, b->out[i], dtype, &b->out[i]));
        if (n->batchwise) DHOWI_TRY(dhowi_permute(b, b->out[i], swapped, &b->out[i]));
    }
    return DHOW_OK;
}
