/* SPDX-License-Identifier: Apache-2.0
 *
 * Branches, loops, recurrent layers, numbers rounded to eight bits.
 */
#include <string.h>

#include "gen.h"

static int new_graph(gen *g) {
    model *m = g->m;
    if (m->graph_count == MAX_GRAPHS) return -1;
    m->graphs[m->graph_count] = (graph){.parent = g->at};
    return m->graph_count++;
}

static void set_graph(node *n, const char *name, int which) {
    set_int(n, name, which);
    if (n != NULL) n->attributes[n->attribute_count - 1].kind = ATTRIBUTE_GRAPH;
}

/* A few nodes on v that keep its shape; in the graph `scope`. */
static int small(gen *g, int scope, int v) {
    static const char *const ones[] = {"Relu", "Neg", "Tanh", "Sigmoid", "Abs"};
    static const char *const twos[] = {"Add", "Mul", "Sub", "Max"};
    const int outer = g->at;
    g->at = scope;
    int y = v;
    for (int i = 1 + below(g, 3); i > 0 && y >= 0; i--) {
        if (one_in(g, 3)) {
            y = unary(g, ones[below(g, 5)], y, 0);
        } else {
            y = binary(g, twos[below(g, 4)], y,
                       one_in(g, 3)   ? y
                       : one_in(g, 2) ? new_number(g, 0.5)
                                      : v);
        }
    }
    g->at = outer;
    return y;
}

static void end_graph(gen *g, int scope, int output) {
    graph *s = &g->m->graphs[scope];
    s->outputs[s->output_count++] = output;
}

int if_node(gen *g) {
    const int v = pick(g, 0, 4);
    if (v < 0) return -1;
    const int64_t none = 0;
    int condition;
    if (one_in(g, 2)) {
        condition = add_value(g->m, one_in(g, 2) ? VALUE_INPUT : VALUE_CONSTANT, DHOW_BOOL, 0,
                              &none, g->at);
        if (condition >= 0 && val(g, condition)->kind == VALUE_INPUT) val(g, condition)->scope = 0;
        if (condition >= 0) val(g, condition)->data[0] = below(g, 2);
    } else { /* computed */
        const int a = new_input(g, 0, &none), in[] = {a, new_number(g, 0.25)};
        if (in[1] < 0 || val(g, in[1])->rank != 0) return -1;
        condition = result(g, put(g, "Greater", 2, in), DHOW_BOOL, 0, &none, 1);
    }
    if (condition < 0) return -1;
    const int yes = new_graph(g), no = new_graph(g);
    if (yes < 0 || no < 0) return -1;
    const int p = small(g, yes, v), q = small(g, no, v);
    if (p < 0 || q < 0 || p == v || q == v) return -1;
    end_graph(g, yes, p);
    end_graph(g, no, q);
    node *n = put(g, "If", 1, &condition);
    set_graph(n, "then_branch", yes);
    set_graph(n, "else_branch", no);
    return result(g, n, g->m->dtype, val(g, v)->rank, val(g, v)->shape, 0);
}

int loop_node(gen *g) {
    const int v = pick(g, 0, 4);
    const int64_t none = 0;
    if (v < 0) return -1;
    const int scope = new_graph(g);
    const int trips = add_value(g->m, VALUE_CONSTANT, DHOW_I64, 0, &none, g->at);
    const int go = add_value(g->m, VALUE_CONSTANT, DHOW_BOOL, 0, &none, g->at);
    if (scope < 0 || go < 0) return -1;
    val(g, trips)->data[0] = below(g, 4);
    val(g, go)->data[0] = 1;
    graph *s = &g->m->graphs[scope];
    const int turn = add_value(g->m, VALUE_LOCAL, DHOW_I64, 0, &none, scope);
    const int on = add_value(g->m, VALUE_LOCAL, DHOW_BOOL, 0, &none, scope);
    const int state =
        add_value(g->m, VALUE_LOCAL, g->m->dtype, val(g, v)->rank, val(g, v)->shape, scope);
    if (state < 0) return -1;
    s->inputs[s->input_count++] = turn;
    s->inputs[s->input_count++] = on;
    s->inputs[s->input_count++] = state;
    const int next = small(g, scope, state);
    const int outer = g->at;
    g->at = scope;
    const int still = unary(g, "Identity", on, 1);
    g->at = outer;
    if (next < 0 || next == state || still < 0) return -1;
    end_graph(g, scope, still);
    end_graph(g, scope, next);
    const int in[] = {trips, go, v};
    node *n = put(g, "Loop", 3, in);
    set_graph(n, "body", scope);
    return result(g, n, g->m->dtype, val(g, v)->rank, val(g, v)->shape, 0);
}

/* A convolution in a loop, with a scale that each turn has another of. */
int loop_conv(gen *g) {
    const int64_t none = 0, c = 2 + below(g, 3),
                  image[] = {g->batch, c, 1 + below(g, 3), 1 + below(g, 3)}, w[] = {c, c, 1, 1},
                  row[] = {c, 1, 1};
    const int scope = new_graph(g), v = new_input(g, 4, image);
    const int trips = add_value(g->m, VALUE_CONSTANT, DHOW_I64, 0, &none, g->at);
    const int go = add_value(g->m, VALUE_CONSTANT, DHOW_BOOL, 0, &none, g->at);
    const int weight = new_constant(g, 4, w);
    if (scope < 0 || v < 0 || weight < 0) return -1;
    val(g, trips)->data[0] = 1 + below(g, 3);
    val(g, go)->data[0] = 1;
    graph *s = &g->m->graphs[scope];
    const int turn = add_value(g->m, VALUE_LOCAL, DHOW_I64, 0, &none, scope);
    const int on = add_value(g->m, VALUE_LOCAL, DHOW_BOOL, 0, &none, scope);
    const int state = add_value(g->m, VALUE_LOCAL, g->m->dtype, 4, image, scope);
    const int outer = g->at;
    g->at = scope;
    node *cast = put(g, "Cast", 1, &turn);
    set_int(cast, "to", (int64_t)g->m->dtype);
    const int t = result(g, cast, g->m->dtype, 0, &none, 0);
    const int scale = binary(g, "Add", new_constant(g, 3, row), t);
    const int in[] = {state, weight};
    int y = result(g, put(g, "Conv", 2, in), g->m->dtype, 4, image, 0);
    y = binary(g, "Mul", y, scale);
    if (one_in(g, 2)) y = binary(g, "Add", y, scale);
    y = unary(g, "Tanh", y, 0);
    const int still = unary(g, "Identity", on, 1);
    g->at = outer;
    g->last = -1;
    if (y < 0 || still < 0) return -1;
    s->inputs[s->input_count++] = turn;
    s->inputs[s->input_count++] = on;
    s->inputs[s->input_count++] = state;
    end_graph(g, scope, still);
    end_graph(g, scope, y);
    const int loop[] = {trips, go, v};
    node *n = put(g, "Loop", 3, loop);
    set_graph(n, "body", scope);
    return result(g, n, g->m->dtype, 4, image, 0);
}

/* Lengths as the node wants them, i32. */
static int lengths_of(gen *g, int64_t steps) {
    int64_t lengths[16];
    const int64_t shape[] = {g->batch};
    if (g->batch < 1 || g->batch > 16) return -1;
    for (int64_t i = 0; i < g->batch; i++) lengths[i] = 1 + below(g, (int)steps);
    const int wide = new_ints(g, (int)g->batch, lengths);
    if (wide < 0) return -1;
    node *cast = put(g, "Cast", 1, &wide);
    set_int(cast, "to", 6);
    return result(g, cast, DHOW_I32, 1, shape, 4);
}

int lstm(gen *g) {
    enum { X, W, R, BIAS, LENGTHS, STATE, CELL, PEEPHOLES, INPUTS };
    static const char *const ops[] = {"LSTM", "GRU", "RNN"};
    static const int64_t gates[] = {4, 3, 1};
    static const int inputs_of[] = {8, 6, 6};
    const int which = below(g, 3);
    const int64_t steps = 1 + below(g, 4), inputs = 1 + below(g, 4),
                  hidden = one_in(g, 4) ? 15 + below(g, 4) : 1 + below(g, 4),
                  directions = one_in(g, 3) ? 2 : 1;
    const int64_t x[] = {steps, g->batch, inputs},
                  w[] = {directions, gates[which] * hidden, inputs},
                  r[] = {directions, gates[which] * hidden, hidden},
                  b[] = {directions, 2 * gates[which] * hidden}, p[] = {directions, 3 * hidden},
                  y[] = {steps, directions, g->batch, hidden},
                  last[] = {directions, g->batch, hidden};
    int in[INPUTS] = {
        new_input(g, 3, x), new_constant(g, 3, w), new_constant(g, 3, r), -1, -1, -1, -1, -1};
    if (in[X] < 0 || in[R] < 0) return -1;
    for (int32_t k = 0; k < DHOW_MAX_RANK; k++) val(g, in[X])->open[k] = false;
    if (one_in(g, 2)) in[BIAS] = new_constant(g, 2, b);
    if (one_in(g, 3)) in[LENGTHS] = lengths_of(g, steps);
    for (int i = STATE; i <= CELL; i++)
        if (one_in(g, 3)) in[i] = new_constant(g, 3, last);
    if (one_in(g, 3)) in[PEEPHOLES] = new_constant(g, 2, p);
    node *n = put(g, ops[which], inputs_of[which], in);
    set_int(n, "hidden_size", hidden);
    if (which == 1 && one_in(g, 2)) set_int(n, "linear_before_reset", 1);
    if (directions == 2)
        set_text(n, "direction", "bidirectional");
    else if (one_in(g, 3))
        set_text(n, "direction", "reverse");
    const int all = result(g, n, g->m->dtype, 4, y, 0);
    if (all < 0) return -1;
    (void)result(g, n, g->m->dtype, 3, last, 0);
    if (which == 0) (void)result(g, n, g->m->dtype, 3, last, 0);
    return all;
}

/* To integers of eight bits and back; only of values known to the last bit. */
int quantise(gen *g) {
    const int v = pick(g, 1, 4);
    const int64_t none = 0;
    if (v < 0 || val(g, v)->bits == 0) return -1;
    const int scale = add_value(g->m, VALUE_CONSTANT, g->m->dtype, 0, &none, g->at);
    const int zero =
        add_value(g->m, VALUE_CONSTANT, one_in(g, 2) ? DHOW_U8 : DHOW_I8, 0, &none, g->at);
    if (scale < 0 || zero < 0) return -1;
    val(g, scale)->data[0] = 0.25;
    val(g, zero)->data[0] = 3;
    const dhow_dtype type = val(g, zero)->dtype;
    const int in[] = {v, scale, zero};
    const int q =
        result(g, put(g, "QuantizeLinear", 3, in), type, val(g, v)->rank, val(g, v)->shape, 8);
    if (q < 0) return -1;
    const int back[] = {q, scale, zero};
    return result(g, put(g, "DequantizeLinear", 3, back), g->m->dtype, val(g, v)->rank,
                  val(g, v)->shape, 8);
}

/* Constant codes of eight bits around a zero point, for each column or for all; some are so far
 * from it that they are not i8. */
static int weight_codes(gen *g, bool is_signed, int64_t k, int64_t n, int64_t zeros, int *zero) {
    const int64_t shape[] = {k, n};
    const dhow_dtype type = is_signed ? DHOW_I8 : DHOW_U8;
    const bool wide = !is_signed && one_in(g, 3);
    const int w = add_value(g->m, VALUE_CONSTANT, type, 2, shape, g->at);
    *zero = add_value(g->m, VALUE_CONSTANT, type, zeros > 1, &n, g->at);
    if (w < 0 || *zero < 0) return -1;
    for (int64_t i = 0; i < zeros; i++)
        val(g, *zero)->data[i] = is_signed ? below(g, 3) - 1 : 120 + below(g, 16);
    for (int64_t i = 0; i < k * n; i++)
        val(g, w)->data[i] =
            wide ? below(g, 256) : val(g, *zero)->data[zeros > 1 ? i % n : 0] + below(g, 25) - 12;
    return w;
}

/* What a product does to its sums when the scale of x is computed: with a row of scales, which may
 * have a bias and an activation behind it. */
static int scaled(gen *g, int sums, int scale, int64_t n, int32_t rank, const int64_t *shape) {
    const int row = add_value(g->m, VALUE_CONSTANT, DHOW_F32, 1, &n, g->at),
              bias = add_value(g->m, VALUE_CONSTANT, DHOW_F32, 1, &n, g->at);
    if (row < 0 || bias < 0) return -1;
    for (int64_t i = 0; i < n; i++) {
        val(g, row)->data[i] = one_in(g, 2) ? 0.5 : 0.125;
        val(g, bias)->data[i] = below(g, 17) - 8;
    }
    const bool whole = one_in(g, 3);
    const int factors[] = {scale, row};
    const int by = whole ? scale : result(g, put(g, "Mul", 2, factors), DHOW_F32, 1, &n, 0);
    node *cast = put(g, "Cast", 1, &sums);
    set_int(cast, "to", 1);
    const int values = result(g, cast, DHOW_F32, rank, shape, 0);
    if (by < 0 || values < 0) return -1;
    const int pair[] = {values, by};
    const int y = result(g, put(g, "Mul", 2, pair), DHOW_F32, rank, shape, 0);
    if (y < 0 || one_in(g, 4)) return y;
    const int ends[] = {y, bias};
    const int added = result(g, put(g, "Add", 2, ends), DHOW_F32, rank, shape, 0);
    if (added < 0 || one_in(g, 2)) return added;
    return result(g, put(g, "Relu", 1, &added), DHOW_F32, rank, shape, 0);
}

/* Whether a value may be the left side of a product of codes. */
static bool can_be_quantised(gen *g, int v) {
    if (v < 0 || val(g, v)->bits == 0 || g->m->dtype != DHOW_F32) return false;
    const int32_t last = val(g, v)->rank - 1;
    return !val(g, v)->open[last] && val(g, v)->shape[last] != 0;
}

/* A product of values that are quantised by their range, as quantised models compute them. */
int ranged_product(gen *g) {
    const int v = pick(g, 2, 4);
    const int64_t none = 0, n = extent(g);
    if (!can_be_quantised(g, v)) return -1;
    const int32_t rank = val(g, v)->rank;
    const int64_t k = val(g, v)->shape[rank - 1];
    int64_t shape[DHOW_MAX_RANK];
    for (int32_t i = 0; i < rank; i++) shape[i] = val(g, v)->shape[i];
    int zw;
    const int w = weight_codes(g, one_in(g, 2), k, n, one_in(g, 3) ? n : 1, &zw);
    node *range = put(g, "DynamicQuantizeLinear", 1, &v);
    const int q = result(g, range, DHOW_U8, rank, shape, 8),
              scale = result(g, range, DHOW_F32, 0, &none, 0),
              zero = result(g, range, DHOW_U8, 0, &none, 8);
    if (w < 0 || q < 0 || scale < 0 || zero < 0) return -1;
    const int integers[] = {q, w, zero, zw};
    shape[rank - 1] = n;
    const int sums = result(g, put(g, "MatMulInteger", 4, integers), DHOW_I32, rank, shape, 0);
    return sums < 0 ? -1 : scaled(g, sums, scale, n, rank, shape);
}

/* A product of values that were quantised with weights that are: as integers, or between
 * DequantizeLinear nodes. */
int quantised_product(gen *g) {
    const int v = pick(g, 2, 4);
    const int64_t none = 0, n = extent(g);
    if (!can_be_quantised(g, v)) return -1;
    const int32_t rank = val(g, v)->rank;
    const int64_t k = val(g, v)->shape[rank - 1];
    int zw;
    const int64_t zeros = one_in(g, 3) ? n : 1;
    const int scale = add_value(g->m, VALUE_CONSTANT, DHOW_F32, 0, &none, g->at),
              zero = add_value(g->m, VALUE_CONSTANT, one_in(g, 2) ? DHOW_U8 : DHOW_I8, 0, &none,
                               g->at),
              columns = add_value(g->m, VALUE_CONSTANT, DHOW_F32, zeros > 1, &n, g->at),
              w = weight_codes(g, one_in(g, 2), k, n, zeros, &zw);
    if (scale < 0 || zero < 0 || columns < 0 || w < 0) return -1;
    val(g, scale)->data[0] = 0.25;
    val(g, zero)->data[0] = one_in(g, 3) ? 0 : 3;
    for (int64_t i = 0; i < zeros; i++) val(g, columns)->data[i] = one_in(g, 2) ? 0.5 : 0.125;
    int64_t shape[DHOW_MAX_RANK];
    for (int32_t i = 0; i < rank; i++) shape[i] = val(g, v)->shape[i];
    const int in[] = {v, scale, zero};
    const int q = result(g, put(g, "QuantizeLinear", 3, in), val(g, zero)->dtype, rank, shape, 8);
    if (q < 0) return -1;
    if (one_in(g, 2)) {
        const int integers[] = {q, w, zero, zw};
        shape[rank - 1] = n;
        const int sums = result(g, put(g, "MatMulInteger", 4, integers), DHOW_I32, rank, shape, 0);
        if (sums < 0) return -1;
        node *cast = put(g, "Cast", 1, &sums);
        set_int(cast, "to", 1);
        return result(g, cast, DHOW_F32, rank, shape, 0);
    }
    const int left[] = {q, scale, zero}, right[] = {w, columns, zw};
    const int64_t weight[] = {k, n};
    const int x = result(g, put(g, "DequantizeLinear", 3, left), DHOW_F32, rank, shape, 8);
    node *dequantised = put(g, "DequantizeLinear", 3, right);
    set_int(dequantised, "axis", 1);
    const int y = result(g, dequantised, DHOW_F32, 2, weight, 0);
    if (x < 0 || y < 0) return -1;
    const int pair[] = {x, y};
    shape[rank - 1] = n;
    return result(g, put(g, "MatMul", 2, pair), DHOW_F32, rank, shape, 0);
}
