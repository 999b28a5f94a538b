/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, as one node and spelt in many, some of them not quite.
 */
#include <math.h>
#include <string.h>

#include "gen.h"

static int permuted(gen *g, int v, const int64_t *order) {
    if (v < 0) return -1;
    int64_t shape[4];
    for (int i = 0; i < 4; i++) shape[i] = val(g, v)->shape[order[i]];
    node *n = put(g, "Transpose", 1, &v);
    set_ints(n, "perm", 4, order);
    return result(g, n, g->m->dtype, 4, shape, val(g, v)->bits);
}

static int to_shape(gen *g, int v, int32_t rank, const int64_t *shape, bool open) {
    if (v < 0) return -1;
    int64_t told[DHOW_MAX_RANK];
    memcpy(told, shape, (size_t)rank * sizeof *shape);
    if (open) told[0] = -1;
    const int in[] = {v, new_ints(g, rank, told)};
    return result(g, put(g, "Reshape", 2, in), g->m->dtype, rank, shape, val(g, v)->bits);
}

static int scaled(gen *g, int v, double number) {
    return binary(g, one_in(g, 2) ? "Mul" : "Div", v, new_number(g, number));
}

/* A mask that broadcasts to the scores, of any rank, or rarely one that makes them more. */
static int additive_mask(gen *g, const int64_t *scores, int32_t rank) {
    int64_t shape[4];
    const int32_t own = one_in(g, 2) ? rank : 1 + below(g, rank);
    for (int32_t i = 0; i < own; i++) shape[i] = one_in(g, 3) ? 1 : scores[i + rank - own];
    if (own == 4 && scores[0] == 1 && one_in(g, 3)) shape[0] = 2;
    return one_in(g, 3) ? new_input(g, own, shape) : new_constant(g, own, shape);
}

/* A mask for scores that are seen in another shape. */
static int masked_flat(gen *g, int scores) {
    if (scores < 0 || val(g, scores)->rank != 4) return scores;
    const int64_t *own = val(g, scores)->shape;
    const int64_t shape[] = {own[0], own[1], own[2], own[3]};
    const int64_t flat[] = {own[0], own[1] * own[2], own[3]};
    const int x = to_shape(g, scores, 3, flat, false);
    return to_shape(g, binary(g, "Add", x, new_constant(g, 2, flat + 1)), 4, shape, false);
}

/* Scale and mask, in this order or rarely in the other one. */
static int ended_scores(gen *g, int scores, double scale) {
    const int at = below(g, 5);
    if (scores < 0) return -1;
    if (at == 0) scores = scaled(g, scores, scale);
    if (at == 1) scores = binary(g, "Mul", scores, new_input(g, 0, NULL)); /* not known */
    if (scores >= 0 && one_in(g, 5)) return masked_flat(g, scores);
    if (scores >= 0 && !one_in(g, 3)) {
        int64_t shape[4];
        const int32_t rank = val(g, scores)->rank;
        memcpy(shape, val(g, scores)->shape, (size_t)rank * sizeof *shape);
        const int m = additive_mask(g, shape, rank);
        scores = one_in(g, 3) ? binary(g, "Add", m, scores) : binary(g, "Add", scores, m);
    }
    return at == 2 ? scaled(g, scores, scale) : scores;
}

static int softmax_of(gen *g, int scores) {
    if (scores < 0) return -1;
    const int32_t rank = val(g, scores)->rank;
    const int p = unary(g, "Softmax", scores, 0);
    if (p >= 0)
        set_int(&g->m->nodes[g->m->node_count - 1], "axis",
                one_in(g, 8)   ? rank - 2
                : one_in(g, 2) ? -1
                               : rank - 1);
    return p;
}

/* Heads by reshape and transpose, or heads that are there; q k v, kept as [batch, heads, keys, n]
 * but for k, which is turned. */
static bool heads_of(gen *g, int *x, int64_t heads, int64_t d, int64_t s) {
    const int64_t to_heads[] = {0, 2, 1, 3}, to_keys[] = {0, 2, 3, 1};
    const int64_t e = heads * d, full[] = {g->batch, s, e}, w[] = {e, e},
                  split[] = {g->batch, s, heads, d};
    int in[3];
    *x = new_input(g, 3, full);
    for (int i = 0; i < 3; i++) {
        in[i] = product(g, *x, new_constant(g, 2, w));
        if (in[i] < 0) return false;
        if (one_in(g, 4)) in[i] = binary(g, "Add", in[i], new_constant(g, 1, &e));
        in[i] = permuted(g, to_shape(g, in[i], 4, split, true), i == 1 ? to_keys : to_heads);
    }
    for (int i = 0; i < 3; i++) x[1 + i] = in[i];
    return in[0] >= 0 && in[1] >= 0 && in[2] >= 0;
}

/* The weights of values, or of something else by mistake. */
static int weighed(gen *g, int p, int v, int64_t s) {
    if (p < 0) return -1;
    if (one_in(g, 10) && val(g, p)->rank == 4) {
        const int64_t shape[] = {val(g, p)->shape[0], val(g, p)->shape[1], s, s};
        return product(g, new_constant(g, 4, shape), p);
    }
    return product(g, p, v);
}

/* Softmax of scaled scores with a mask, in the orders that there are. */
int attention(gen *g) {
    const int64_t heads = 1 + below(g, 3), d = 1 + below(g, 4),
                  s = one_in(g, 4) ? 2 + below(g, 5) : 8 + below(g, 9), e = heads * d;
    const int64_t full[] = {g->batch, s, e}, w[] = {e, e};
    const int64_t back[] = {0, 2, 1, 3}, otherwise[] = {0, 2, 3, 1};
    const double scale = one_in(g, 2) ? sqrt((double)d) : 4;
    int x[4];
    if (!heads_of(g, x, heads, d, s)) return -1;
    if (one_in(g, 3)) x[1] = scaled(g, x[1], scale);
    if (one_in(g, 3)) x[2] = scaled(g, x[2], scale);
    const int scores = product(g, x[1], x[2]);
    const int p = softmax_of(g, ended_scores(g, scores, scale));
    int y = weighed(g, p, x[3], s);
    if (y < 0) return -1;
    if (one_in(g, 10)) { /* who reads the scores, or the weights */
        const int read = one_in(g, 2) ? scores : p;
        const int64_t axis = 3;
        const int sum = unary(g, "Abs", read, 0);
        return binary(g, "Add", y, mean_of(g, sum, axis));
    }
    y = permuted(g, y, one_in(g, 10) ? otherwise : back);
    int out = to_shape(g, y, 3, full, true);
    if (one_in(g, 2)) out = product(g, out, new_constant(g, 2, w));
    return one_in(g, 2) ? binary(g, "Add", out, x[0]) : out;
}

/* Mask and softmax over heads that are apart, while the products have them in one dimension. */
static int masked_apart(gen *g, int scores, const int64_t *apart, const int64_t *flat) {
    scores = to_shape(g, scores, 4, apart, false);
    scores = binary(g, "Add", scores, additive_mask(g, apart, 4));
    if (scores < 0 || val(g, scores)->shape[0] != apart[0]) return -1;
    return to_shape(g, scores, 3, flat, false);
}

/* The same with heads and sequences in one dimension, or without heads. */
int attention_of_batches(gen *g) {
    const int64_t heads = 1 + below(g, 3), d = 1 + below(g, 3), l = 8 + below(g, 5),
                  s = one_in(g, 3) ? 1 : 4 * d + below(g, 5) - 1, b = 1 + below(g, 2);
    const int32_t rank = 2 + below(g, 2), skip = 3 - rank;
    const int64_t q[] = {b * heads, l, d}, k[] = {b * heads, d, s}, apart[] = {b, heads, l, s},
                  flat[] = {b * heads, l, s}, by_rows[] = {1, 0, 2};
    const int in[] = {new_input(g, rank, q + skip), new_input(g, rank, k + skip)};
    if (in[0] < 0 || in[1] < 0) return -1;
    val(g, in[0])->open[0] = val(g, in[1])->open[0] = false;
    int scores;
    /* Numbers whose product is none of f32; 0 stays 0. Of sums the order decides what overflows. */
    if (one_in(g, 8) && d == 1) {
        scores = product(g, binary(g, "Mul", in[0], new_number(g, 0x1p80)),
                         binary(g, "Mul", in[1], new_number(g, 0x1p80)));
    } else {
        scores = product(g, in[0], in[1]);
        if (one_in(g, 2)) scores = scaled(g, scores, 2);
    }
    if (rank == 3 && one_in(g, 2)) {
        scores = masked_apart(g, scores, apart, flat);
    } else if (s == 1 && one_in(g, 2)) { /* more keys than there are */
        const int64_t more = 2 + below(g, 3);
        scores = binary(g, "Add", scores, new_constant(g, 1, &more));
    } else if (one_in(g, 2)) {
        scores = binary(g, "Add", scores, additive_mask(g, flat + skip, rank));
    }
    if (scores < 0) return -1;
    const int64_t v[] = {b * heads, val(g, scores)->shape[rank - 1], d};
    const int values = new_input(g, rank, v + skip);
    if (values >= 0) val(g, values)->open[0] = false;
    const int y = product(g, softmax_of(g, scores), values);
    if (y < 0 || rank == 2 || one_in(g, 2)) return y;
    const int64_t turned[] = {l, b * heads, d}, together[] = {l, b * heads * d};
    node *n = put(g, "Transpose", 1, &y);
    set_ints(n, "perm", 3, by_rows);
    return to_shape(g, result(g, n, g->m->dtype, 3, turned, 0), 2, together, false);
}

static int random_mask(gen *g, int64_t batch, int64_t heads, int64_t l, int64_t s) {
    const int64_t full[] = {one_in(g, 2) ? 1 : batch, one_in(g, 2) ? 1 : heads,
                            one_in(g, 3) ? 1 : l, s > 1 && one_in(g, 4) ? s - 1 : s};
    const int32_t rank = 2 + below(g, 3);
    if (one_in(g, 2)) return new_constant(g, rank, full + 4 - rank);
    const int m = add_value(g->m, VALUE_CONSTANT, DHOW_BOOL, rank, full + 4 - rank, g->at);
    for (int64_t i = 0; m >= 0 && i < value_count(val(g, m)); i++)
        val(g, m)->data[i] = one_in(g, 2);
    return m;
}

/* Attention as a node of its own: its heads apart or side by side, with a past, masks, a cap. */
int attention_node(gen *g) {
    static const int64_t apart[] = {0, 1, 2, 3}, beside[] = {0, 2, 1, 3};
    const int64_t b = g->batch, shared = 1 + below(g, 2), heads = shared * (1 + below(g, 2)),
                  l = 1 + below(g, one_in(g, 3) ? 40 : 4), s = one_in(g, 2) ? l : 1 + below(g, 5),
                  e = 1 + below(g, 4), f = one_in(g, 2) ? e : 1 + below(g, 4),
                  past = one_in(g, 3) ? below(g, 3) : -1;
    const bool together = one_in(g, 2);
    const int64_t *order = together ? beside : apart, all = s + (past > 0 ? past : 0);
    const int64_t dims[3][4] = {{b, heads, l, e}, {b, shared, s, e}, {b, shared, s, f}};
    const int64_t y[] = {b, heads, l, f}, scores[] = {b, heads, l, all};
    const int64_t keys[] = {b, shared, past, e}, values[] = {b, shared, past, f};
    int in[7] = {-1, -1, -1, -1, -1, -1, -1};
    for (int i = 0; i < 3; i++) {
        const int64_t *d = dims[i], shape[] = {d[0], d[order[1]], d[order[2]], d[3]};
        const int64_t flat[] = {d[0], d[2], d[1] * d[3]};
        in[i] = together ? new_input(g, 3, flat) : new_input(g, 4, shape);
        if (in[i] < 0) return -1;
    }
    if (one_in(g, 2)) in[3] = random_mask(g, b, heads, l, all);
    if (past >= 0) in[4] = new_input(g, 4, keys);
    if (past >= 0) in[5] = new_input(g, 4, values);
    if (past < 0 && one_in(g, 4)) in[6] = add_value(g->m, VALUE_CONSTANT, DHOW_I64, 1, &b, g->at);
    for (int64_t i = 0; in[6] >= 0 && i < b; i++) val(g, in[6])->data[i] = below(g, (int)s + 1);
    node *n = put(g, "Attention", 7, in);
    if (together || one_in(g, 3)) set_int(n, "q_num_heads", heads);
    if (together || one_in(g, 3)) set_int(n, "kv_num_heads", shared);
    if (one_in(g, 2)) set_int(n, "is_causal", 1);
    if (one_in(g, 4)) set_int(n, "left_window_size", below(g, 3));
    if (one_in(g, 4)) set_int(n, "right_window_size", below(g, 3));
    if (one_in(g, 3)) set_float(n, "scale", 0.25);
    if (one_in(g, 4)) set_float(n, "softcap", 2);
    if (one_in(g, 4)) set_int(n, "softmax_precision", 11);
    const int mode = below(g, 4);
    const bool scored = one_in(g, 2);
    if (scored) set_int(n, "qk_matmul_output_mode", mode);
    const int64_t flat[] = {b, l, heads * f}, after[] = {b, shared, all, e},
                  weighed[] = {b, shared, all, f};
    const int out =
        together ? result(g, n, g->m->dtype, 3, flat, 0) : result(g, n, g->m->dtype, 4, y, 0);
    if (result(g, n, g->m->dtype, 4, after, 4) < 0 || result(g, n, g->m->dtype, 4, weighed, 4) < 0)
        return -1;
    /* Masked scores are infinite. */
    if (scored && mode != 2) (void)result(g, n, g->m->dtype, 4, scores, 0);
    if (out >= 0) g->last = out;
    return out;
}

/* One number below `most` for each sequence, known or not. */
static int numbers(gen *g, int most) {
    const value_kind kind = one_in(g, 2) ? VALUE_CONSTANT : VALUE_INPUT;
    const int v = add_value(g->m, kind, DHOW_I64, 1, &g->batch, 0);
    for (int64_t i = 0; v >= 0 && i < g->batch; i++) val(g, v)->data[i] = below(g, most);
    return v;
}

/* A cache, which is an input, with new steps in it and attention to it; its old contents are read
 * as well, or given as they were. */
int cache(gen *g) {
    const int64_t heads = 1 + below(g, 2), room = 4 + below(g, 5), steps = 1 + below(g, 3),
                  e = 1 + below(g, 4);
    const int64_t whole[] = {g->batch, heads, room, e}, fresh[] = {g->batch, heads, steps, e};
    const int old = new_input(g, 4, whole), x = new_input(g, 4, fresh);
    const int at = numbers(g, (int)(room - steps) + 1);
    if (old < 0 || x < 0 || at < 0) return -1;
    const int first = one_in(g, 3) ? unary(g, "Abs", old, 0) : -1;
    if (one_in(g, 4)) (void)unary(g, "Identity", old, 4);
    const int in[] = {old, x, at};
    node *n = put(g, "TensorScatter", 3, in);
    if (one_in(g, 3)) set_int(n, "axis", 2);
    if (one_in(g, 4)) set_text(n, "mode", "circular");
    const int new = result(g, n, g->m->dtype, 4, whole, 4);
    if (new < 0) return -1;
    if (one_in(g, 3)) (void)unary(g, "Exp", old, 0);
    if (first >= 0 && one_in(g, 2)) (void)binary(g, "Add", first, x);
    if (one_in(g, 2)) return new;
    const int valid = numbers(g, (int)room + 1);
    const int attends[] = {x, new, new, -1, -1, -1, valid};
    if (valid < 0) return -1;
    n = put(g, "Attention", 7, attends);
    if (one_in(g, 2)) set_int(n, "is_causal", 1);
    (void)result(g, n, g->m->dtype, 4, fresh, 0);
    return one_in(g, 2) ? unary(g, "Abs", new, 0) : -1; /* which may leave it an output */
}
