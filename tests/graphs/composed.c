/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions, products and norms, as one node and spelt in many.
 */
#include <math.h>
#include <string.h>

#include "gen.h"

/* ---- reductions ---- */

int reduce(gen *g) {
    static const char *const ops[] = {"ReduceSum",       "ReduceMean",      "ReduceMax",
                                      "ReduceMin",       "ReduceL1",        "ReduceL2",
                                      "ReduceSumSquare", "ReduceLogSumExp", "ReduceProd"};
    const int v = pick(g, 1, 5);
    if (v < 0 || value_count(val(g, v)) == 0) return -1;
    const int32_t rank = val(g, v)->rank;
    int64_t axes[DHOW_MAX_RANK], shape[DHOW_MAX_RANK];
    int count = 0, keep = below(g, 2);
    int32_t left = 0;
    for (int32_t i = 0; i < rank; i++) {
        const bool gone = one_in(g, 2);
        if (gone) axes[count++] = one_in(g, 3) ? i - rank : i;
        if (gone && keep) shape[left++] = 1;
        if (!gone) shape[left++] = val(g, v)->shape[i];
    }
    if (count == 0) return -1;
    const int which = below(g, 9);
    const int in[] = {v, new_ints(g, count, axes)};
    node *n = put(g, ops[which], 2, in);
    set_int(n, "keepdims", keep);
    int bits = which == 2 || which == 3 ? val(g, v)->bits : 0;
    if (which == 0) bits = bits_product(g, val(g, v)->bits, 1, value_count(val(g, v)));
    return result(g, n, g->m->dtype, left, shape, bits);
}

int softmax(gen *g) {
    const int v = pick(g, 1, 5);
    if (v < 0) return -1;
    const int axis = below(g, val(g, v)->rank);
    const int y = unary(g, one_in(g, 4) ? "LogSoftmax" : "Softmax", v, 0);
    if (y >= 0) set_int(&g->m->nodes[g->m->node_count - 1], "axis", axis);
    return y;
}

int cumsum(gen *g) {
    const int v = pick(g, 1, 4);
    if (v < 0) return -1;
    const int64_t none = 0;
    const int axis = add_value(g->m, VALUE_CONSTANT, DHOW_I64, 0, &none, g->at);
    if (axis < 0) return -1;
    val(g, axis)->data[0] = below(g, val(g, v)->rank);
    const int in[] = {v, axis};
    node *n = put(g, "CumSum", 2, in);
    set_int(n, "exclusive", below(g, 2));
    set_int(n, "reverse", below(g, 2));
    return result(g, n, g->m->dtype, val(g, v)->rank, val(g, v)->shape,
                  bits_product(g, val(g, v)->bits, 1, 32));
}

int topk(gen *g) {
    const int v = pick(g, 1, 4);
    if (v < 0) return -1;
    const int axis = below(g, val(g, v)->rank);
    int64_t shape[DHOW_MAX_RANK];
    memcpy(shape, val(g, v)->shape, sizeof shape);
    if (shape[axis] < 1) return -1;
    const int64_t k = 1 + below(g, (int)shape[axis]);
    shape[axis] = k;
    const int in[] = {v, new_ints(g, 1, &k)};
    const int32_t rank = val(g, v)->rank, bits = val(g, v)->bits;
    node *n = put(g, "TopK", 2, in);
    set_int(n, "axis", axis);
    set_int(n, "largest", below(g, 2));
    const int y = result(g, n, g->m->dtype, rank, shape, bits);
    const int index = y >= 0 ? result(g, n, DHOW_I64, rank, shape, 1) : -1;
    /* Where values are rounded, their order is: nobody looks at the indices. */
    if (index >= 0 && bits == 0) val(g, index)->scope = MAX_GRAPHS;
    return y;
}

int arg(gen *g) {
    const int v = pick(g, 1, 4);
    if (v < 0 || val(g, v)->bits == 0 || value_count(val(g, v)) == 0) return -1;
    const int axis = below(g, val(g, v)->rank);
    int64_t shape[DHOW_MAX_RANK];
    memcpy(shape, val(g, v)->shape, sizeof shape);
    shape[axis] = 1;
    const int32_t rank = val(g, v)->rank;
    node *n = put(g, one_in(g, 2) ? "ArgMax" : "ArgMin", 1, &v);
    set_int(n, "axis", axis);
    set_int(n, "select_last_index", below(g, 2));
    const int i = result(g, n, DHOW_I64, rank, shape, 1);
    if (i < 0) return -1;
    node *cast = put(g, "Cast", 1, &i);
    set_int(cast, "to", (int64_t)g->m->dtype);
    return result(g, cast, g->m->dtype, rank, shape, 5);
}

/* ---- products ---- */

int product(gen *g, int a, int b) {
    if (a < 0 || b < 0) return -1;
    const value *x = val(g, a), *y = val(g, b);
    value p = *x, q = *y;
    int64_t shape[DHOW_MAX_RANK];
    int32_t rank;
    p.rank -= 2;
    q.rank -= 2;
    if (p.rank < 0 || q.rank < 0 || x->shape[p.rank + 1] != y->shape[q.rank] ||
        !broadcast(&p, &q, &rank, shape))
        return -1;
    shape[rank] = x->shape[p.rank];
    shape[rank + 1] = y->shape[q.rank + 1];
    int64_t count = 1;
    for (int32_t i = 0; i < rank + 2; i++) count *= shape[i];
    if (count > MAX_ELEMENTS) return -1;
    const int in[] = {a, b};
    return result(g, put(g, "MatMul", 2, in), g->m->dtype, rank + 2, shape,
                  bits_product(g, x->bits, y->bits, x->shape[p.rank + 1]));
}

int matmul(gen *g) {
    const int v = pick(g, 2, 5);
    if (v < 0) return -1;
    const int32_t rank = val(g, v)->rank;
    int64_t shape[DHOW_MAX_RANK] = {1};
    const int32_t own = one_in(g, 3) ? rank : 2;
    for (int32_t i = 0; i < own; i++) shape[i] = val(g, v)->shape[rank - own + i];
    if (own > 2 && one_in(g, 3)) shape[0] = 1;
    shape[own - 2] = val(g, v)->shape[rank - 1];
    shape[own - 1] = extent(g);
    const int w = one_in(g, 3) ? new_input(g, own, shape) : new_constant(g, own, shape);
    return product(g, v, w);
}

int gemm(gen *g) {
    const int v = pick(g, 2, 2);
    if (v < 0) return -1;
    const bool ta = one_in(g, 3), tb = one_in(g, 2);
    const int64_t m = val(g, v)->shape[ta ? 1 : 0], k = val(g, v)->shape[ta ? 0 : 1], n = extent(g);
    const int64_t w[] = {tb ? n : k, tb ? k : n}, shape[] = {m, n}, column[] = {m, 1};
    int c = -1;
    if (!one_in(g, 3))
        c = one_in(g, 4)   ? new_number(g, 0.5)
            : one_in(g, 3) ? new_constant(g, 2, shape)
            : one_in(g, 3) ? new_constant(g, 2, column)
                           : new_constant(g, 1, &n);
    const int in[] = {v, one_in(g, 5) ? new_input(g, 2, w) : new_constant(g, 2, w), c};
    if (in[1] < 0) return -1;
    node *s = put(g, "Gemm", c >= 0 ? 3 : 2, in);
    set_int(s, "transA", ta);
    set_int(s, "transB", tb);
    if (one_in(g, 3)) set_float(s, "alpha", 0.5);
    if (one_in(g, 3)) set_float(s, "beta", 2);
    return result(g, s, g->m->dtype, 2, shape, 0);
}

/* A product with what follows it in networks. */
int linear_block(gen *g) {
    static const char *const ends[] = {"Relu",      "Sigmoid", "Tanh",     "Gelu",
                                       "HardSwish", "Mish",    "LeakyRelu"};
    int x = pick(g, 2, 4), y = -1;
    for (int i = 1 + below(g, 2); i > 0 && x >= 0; i--) {
        const int64_t w[] = {val(g, x)->shape[val(g, x)->rank - 1], extent(g)};
        y = product(g, x, one_in(g, 8) ? new_input(g, 2, w) : new_constant(g, 2, w));
        for (int k = below(g, 4); k > 0 && y >= 0; k--) {
            const int row = new_constant(g, 1, &w[1]);
            switch (below(g, 7)) {
                case 0:
                    y = binary(g, "Add", y, row);
                    break;
                case 1:
                    y = binary(g, one_in(g, 2) ? "Add" : "Mul", row, y);
                    break;
                case 2:
                    y = unary(g, ends[below(g, 7)], y, 0);
                    break;
                case 5:
                    y = one_in(g, 2) ? clip_to(g, y) : hard_swish_of(g, y);
                    break;
                case 3:
                    y = binary(g, "Mul", y, unary(g, "Sigmoid", y, 0));
                    break;
                case 4:
                    y = binary(g, "Add", y, pick_like(g, y));
                    break;
                default:
                    y = binary(g, "Mul", y, new_number(g, 0.5));
                    break;
            }
        }
        x = y;
    }
    return y;
}

/* Products of one value, as queries, keys and values have them. */
int siblings(gen *g) {
    static const char *const ends[] = {"Relu", "Sigmoid", "Tanh"};
    const int64_t own[] = {1, one_in(g, 4) ? 2 : 1, extent(g)};
    const int x = one_in(g, 4) ? pick(g, 2, 4) : new_input(g, 3, own);
    if (x < 0) return -1;
    const bool biased = one_in(g, 2);
    int y = -1;
    for (int i = 2 + below(g, 2); i > 0; i--) {
        const int64_t w[] = {val(g, x)->shape[val(g, x)->rank - 1], one_in(g, 4) ? 8 : 4};
        int p = product(g, x, new_constant(g, 2, w));
        if (biased != one_in(g, 6)) p = binary(g, "Add", p, new_constant(g, 1, &w[1]));
        if (one_in(g, 6)) p = binary(g, "Mul", p, new_number(g, 0.5));
        if (one_in(g, 4)) p = unary(g, ends[below(g, 3)], p, 0);
        y = y < 0 ? p : binary(g, one_in(g, 2) ? "Add" : "Mul", y, p);
        if (y < 0) y = p;
    }
    return y;
}

int einsum(gen *g) {
    static const struct {
        const char *text;
        int32_t a, b;
    } forms[] = {{"ij,jk->ik", 2, 2},    {"bij,bjk->bik", 3, 3},   {"ij,kj->ik", 2, 2},
                 {"bij,bkj->bik", 3, 3}, {"ij->ji", 2, 0},         {"bij->b", 3, 0},
                 {"ij,ij->ij", 2, 2},    {"bhid,bhjd->bhij", 4, 4}};
    const int which = below(g, 8);
    const int64_t b = g->batch, h = 2, i = extent(g), j = extent(g), k = extent(g);
    const int64_t shapes[8][3][4] = {
        {{i, j}, {j, k}, {i, k}}, {{b, i, j}, {b, j, k}, {b, i, k}},
        {{i, j}, {k, j}, {i, k}}, {{b, i, j}, {b, k, j}, {b, i, k}},
        {{i, j}, {0}, {j, i}},    {{b, i, j}, {0}, {b}},
        {{i, j}, {i, j}, {i, j}}, {{b, h, i, k}, {b, h, j, k}, {b, h, i, j}}};
    const int32_t ranks[] = {2, 3, 2, 3, 2, 1, 2, 4};
    int in[2] = {new_input(g, forms[which].a, shapes[which][0]), -1};
    if (forms[which].b > 0) in[1] = new_input(g, forms[which].b, shapes[which][1]);
    if (in[0] < 0) return -1;
    for (int q = 0; q < 2; q++)
        for (int32_t r = 0; in[q] >= 0 && r < DHOW_MAX_RANK; r++) val(g, in[q])->open[r] = false;
    node *n = put(g, "Einsum", forms[which].b > 0 ? 2 : 1, in);
    set_text(n, "equation", forms[which].text);
    return result(g, n, g->m->dtype, ranks[which], shapes[which][2], 0);
}

/* ---- norms ---- */

int layer_norm(gen *g) {
    const int v = pick(g, 1, 4);
    if (v < 0 || value_count(val(g, v)) == 0) return -1;
    const int32_t rank = val(g, v)->rank, axis = one_in(g, 3) ? below(g, rank) : rank - 1;
    const int64_t *own = &val(g, v)->shape[axis];
    int64_t shape[DHOW_MAX_RANK];
    memcpy(shape, own, (size_t)(rank - axis) * sizeof *own);
    const int in[] = {v, new_constant(g, rank - axis, shape),
                      one_in(g, 3) ? -1 : new_constant(g, rank - axis, shape)};
    if (in[1] < 0) return -1;
    node *n = put(g, "LayerNormalization", in[2] >= 0 ? 3 : 2, in);
    set_int(n, "axis", axis);
    set_float(n, "epsilon", 0.01);
    return result(g, n, g->m->dtype, rank, val(g, v)->shape, 0);
}

/* A norm of a sum, as transformers have it: of rows that lie apart too, and read again. */
int normed_sum(gen *g) {
    const int64_t own[] = {1 + below(g, 3), 1 + below(g, 4), extent(g), 2 + below(g, 8)};
    const int64_t turned[] = {own[1], own[0], own[2], own[3]}, order[] = {1, 0, 2, 3};
    const int32_t first = below(g, 4), axis = one_in(g, 4) ? 2 : 3;
    int64_t shape[4];
    int x = new_input(g, 4, own);
    if (x < 0) return -1;
    val(g, x)->open[0] = false;
    if (one_in(g, 3)) {
        x = new_input(g, 4, turned);
        if (x < 0) return -1;
        val(g, x)->open[0] = false;
        node *n = put(g, "Transpose", 1, &x);
        set_ints(n, "perm", 4, order);
        x = result(g, n, g->m->dtype, 4, own, 0);
    }
    for (int32_t i = 0; i < 4; i++) shape[i] = one_in(g, 3) ? 1 : own[i];
    const int other =
        one_in(g, 2) ? new_input(g, 4, own) : new_constant(g, 4 - first, shape + first);
    if (other >= 0) val(g, other)->open[0] = false;
    const int sum = one_in(g, 2) ? binary(g, "Add", x, other) : binary(g, "Add", other, x);
    if (sum < 0) return -1;
    const int in[] = {sum, new_constant(g, 4 - axis, own + axis),
                      new_constant(g, 4 - axis, own + axis)};
    if (in[1] < 0 || in[2] < 0) return -1;
    node *n = put(g, "LayerNormalization", one_in(g, 3) ? 2 : 3, in);
    set_int(n, "axis", axis);
    set_float(n, "epsilon", 0.01);
    const int y = result(g, n, g->m->dtype, 4, own, 0);
    return one_in(g, 2) ? y : binary(g, "Add", y, sum);
}

/* Scale and bias of channels; in some models such that change nothing. */
static int by_channel(gen *g, int64_t channels, double neutral) {
    const int v = new_constant(g, 1, &channels);
    for (int64_t i = 0; v >= 0 && g->m->seed % 4 == 0 && i < channels; i++)
        val(g, v)->data[i] = neutral;
    return v;
}

int instance_norm(gen *g) {
    const int v = pick(g, 3, 4);
    if (v < 0 || value_count(val(g, v)) == 0) return -1;
    const int64_t c = val(g, v)->shape[1];
    const int in[] = {v, by_channel(g, c, 1), by_channel(g, c, 0)};
    node *n = put(g, "InstanceNormalization", 3, in);
    set_float(n, "epsilon", 0.01);
    return result(g, n, g->m->dtype, val(g, v)->rank, val(g, v)->shape, 0);
}

int group_norm(gen *g) {
    const int v = pick(g, 3, 4);
    if (v < 0 || value_count(val(g, v)) == 0 || val(g, v)->shape[1] % 2 != 0) return -1;
    const int64_t c = val(g, v)->shape[1];
    const int in[] = {v, by_channel(g, c, 1), by_channel(g, c, 0)};
    node *n = put(g, "GroupNormalization", 3, in);
    set_int(n, "num_groups", 2);
    set_float(n, "epsilon", 0.01);
    return result(g, n, g->m->dtype, val(g, v)->rank, val(g, v)->shape, 0);
}

int lrn(gen *g) {
    const int v = pick(g, 4, 4);
    if (v < 0) return -1;
    node *n = put(g, "LRN", 1, &v);
    set_int(n, "size", 3);
    return result(g, n, g->m->dtype, 4, val(g, v)->shape, 0);
}

int lp_norm(gen *g) {
    const int v = pick(g, 1, 4);
    if (v < 0 || value_count(val(g, v)) == 0) return -1;
    const int x = binary(g, "Add", unary(g, "Abs", v, val(g, v)->bits), new_number(g, 0.5));
    if (x < 0) return -1;
    node *n = put(g, "LpNormalization", 1, &x);
    set_int(n, "p", 1 + below(g, 2));
    set_int(n, "axis", below(g, val(g, v)->rank));
    return result(g, n, g->m->dtype, val(g, v)->rank, val(g, v)->shape, 0);
}

int mean_of(gen *g, int v, int64_t axis) {
    if (v < 0) return -1;
    int64_t shape[DHOW_MAX_RANK];
    memcpy(shape, val(g, v)->shape, sizeof shape);
    shape[axis] = 1;
    const int in[] = {v, new_ints(g, 1, &axis)};
    return result(g, put(g, "ReduceMean", 2, in), g->m->dtype, val(g, v)->rank, shape, 0);
}

/* LayerNorm and RMSNorm in single nodes, in many spellings, some of them not quite. */
int norm_written(gen *g) {
    const int64_t nine[] = {3, 3};
    const int x = one_in(g, 8) ? new_input(g, 2, nine) : pick(g, 2, 4);
    if (x < 0 || value_count(val(g, x)) == 0) return -1;
    const int32_t rank = val(g, x)->rank;
    const int64_t last = one_in(g, 8) ? 0 : rank - 1;
    int d = x;
    if (one_in(g, 2)) d = binary(g, "Sub", x, mean_of(g, x, last));
    const int square = one_in(g, 2) ? binary(g, "Mul", d, one_in(g, 5) ? pick_like(g, d) : d)
                                    : binary(g, "Pow", d, new_number(g, 2));
    const int variance = mean_of(g, square, last);
    const int e = new_number(g, 0.03125);
    const int sum = one_in(g, 2) ? binary(g, "Add", variance, e) : binary(g, "Add", e, variance);
    const int root = unary(g, "Sqrt", sum, 0);
    int y;
    switch (below(g, 3)) {
        case 0:
            y = binary(g, "Div", one_in(g, 4) ? x : one_in(g, 4) ? pick_like(g, d) : d, root);
            break;
        case 1:
            y = binary(g, "Mul", d, unary(g, "Reciprocal", root, 0));
            break;
        default:
            y = binary(g, "Mul", binary(g, "Div", new_number(g, 1), root), one_in(g, 3) ? x : d);
            break;
    }
    if (y < 0) return -1;
    const int64_t n = val(g, y)->shape[rank - 1], column[] = {n, 1};
    if (one_in(g, 6) && val(g, y)->shape[rank - 2] == n) /* by row, not by column */
        y = binary(g, "Add", binary(g, "Mul", y, new_constant(g, 2, column)),
                   new_constant(g, 2, column));
    if (y < 0) return -1;
    if (!one_in(g, 3))
        y = one_in(g, 2) ? binary(g, "Mul", y, new_constant(g, 1, &n))
                         : binary(g, "Mul", new_constant(g, 1, &n), y);
    if (!one_in(g, 3))
        y = one_in(g, 2) ? binary(g, "Add", y, new_constant(g, 1, &n))
                         : binary(g, "Add", new_constant(g, 1, &n), y);
    return y;
}
