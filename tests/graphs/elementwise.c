/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise nodes: chains, the same value on both sides, known operands on either side.
 */
#include <string.h>

#include "gen.h"

/* A known operand for v: a number, one for each channel, for each column, or for each element. */
static int known_for(gen *g, int v) {
    const value *x = val(g, v);
    int64_t shape[DHOW_MAX_RANK];
    for (int32_t i = 0; i < x->rank; i++) shape[i] = 1;
    if (one_in(g, 6)) { /* a number that something else reads, too */
        for (int i = g->m->value_count; i-- > 0;) {
            const value *c = val(g, i);
            if (c->kind == VALUE_CONSTANT && c->dtype == g->m->dtype && !c->stays &&
                value_count(c) == 1 && c->rank <= 1 && c->scope == g->at)
                return i;
        }
    }
    switch (below(g, 7)) {
        case 0:
        case 1:
            return new_number(g, (below(g, 17) - 8) * 0.25);
        case 2: /* [c, 1, 1] or [1, c, 1, 1] */
            if (x->rank < 2) return new_number(g, 0.5);
            shape[1] = x->shape[1];
            return one_in(g, 2) ? new_constant(g, x->rank, shape)
                                : new_constant(g, x->rank - 1, shape + 1);
        case 3: /* [n] of the last dimension */
            return x->rank < 1 ? new_number(g, 2) : new_constant(g, 1, &x->shape[x->rank - 1]);
        case 4: /* one for each row */
            if (x->rank < 1) return new_number(g, -1);
            memcpy(shape, x->shape, sizeof shape);
            shape[x->rank - 1] = 1;
            return new_constant(g, x->rank, shape);
        case 5:
            if (x->rank < 1) return new_number(g, 1);
            shape[below(g, x->rank)] = 1;
            return new_constant(g, x->rank, shape);
        default:
            return new_constant(g, x->rank, x->shape);
    }
}

/* Something that broadcasts to v by itself: a mean over some of its dimensions. */
static int reduced(gen *g, int v) {
    const value *x = val(g, v);
    int64_t shape[DHOW_MAX_RANK], axes[1];
    if (x->rank < 1) return v;
    axes[0] = below(g, x->rank);
    memcpy(shape, x->shape, sizeof shape);
    shape[axes[0]] = 1;
    const int in[] = {v, new_ints(g, 1, axes)};
    const int bits = x->bits;
    node *n = put(g, one_in(g, 2) ? "ReduceMax" : "ReduceMin", 2, in);
    return result(g, n, x->dtype, val(g, v)->rank, shape, bits);
}

static int operand_for(gen *g, int v) {
    switch (below(g, 8)) {
        case 0:
        case 1:
        case 2:
            return known_for(g, v);
        case 3:
            return reduced(g, v);
        case 4:
        case 5:
            return v;
        default:
            return pick_like(g, v);
    }
}

static int one_unary(gen *g, int v) {
    static const char *const safe[] = {
        "Relu",      "Neg",      "Abs",      "Sigmoid",  "Tanh", "Elu",  "LeakyRelu", "HardSigmoid",
        "HardSwish", "Softplus", "Softsign", "Erf",      "Sin",  "Cos",  "Atan",      "Selu",
        "Celu",      "Mish",     "Gelu",     "Identity", "Sinh", "Asinh"};
    static const char *const stepped[] = {"Floor", "Ceil", "Round", "Sign", "ThresholdedRelu"};
    const int bits = v >= 0 ? val(g, v)->bits : 0;
    if (v < 0) return -1;
    if (bits > 0 && one_in(g, 8)) {
        const char *op = stepped[below(g, 5)];
        return unary(g, op, v, bits);
    }
    if (one_in(g, 8)) { /* where the argument must not be negative */
        static const char *const roots[] = {"Sqrt", "Log", "Reciprocal"};
        int x = unary(g, "Abs", v, bits);
        /* What is nearly 0 by one way and 0 by another has no root that both agree on. */
        const bool bare = one_in(g, 6) && bits > 0;
        if (!bare) x = binary(g, "Add", x, new_number(g, 0.5));
        return unary(g, roots[below(g, 3)], x, 0);
    }
    if (one_in(g, 10)) return unary(g, "Exp", unary(g, "Tanh", v, 0), 0);
    const int which = below(g, (int)(sizeof safe / sizeof safe[0]));
    const char *op = safe[which];
    const bool keeps = which < 3 || strcmp(op, "Identity") == 0;
    const int y = unary(g, op, v, keeps ? bits : 0);
    if (y >= 0 && strcmp(op, "Gelu") == 0 && one_in(g, 2))
        set_text(&g->m->nodes[g->m->node_count - 1], "approximate", "tanh");
    if (y >= 0 && strcmp(op, "LeakyRelu") == 0 && one_in(g, 2))
        set_float(&g->m->nodes[g->m->node_count - 1], "alpha", 0.25);
    return y;
}

static int one_binary(gen *g, int v) {
    static const char *const ops[] = {"Add", "Add", "Sub", "Mul",  "Mul",
                                      "Max", "Min", "Sum", "PRelu"};
    if (v < 0) return -1;
    int other = operand_for(g, v);
    if (other < 0) return -1;
    switch (below(g, 8)) {
        case 0: { /* a divisor away from 0 */
            const int d =
                binary(g, "Add", unary(g, "Abs", other, val(g, other)->bits), new_number(g, 0.5));
            return one_in(g, 2) ? binary(g, "Div", v, d)
                                : binary(g, "Div", d,
                                         binary(g, "Add", unary(g, "Abs", v, 0), new_number(g, 1)));
        }
        case 1: {
            static const double powers[] = {2, 3, 0.5, -1, 1, 0};
            const double p = powers[below(g, 6)];
            const int bits = val(g, v)->bits;
            const int x = p == 2 || p == 3 || p == 1 || p == 0
                              ? v
                              : binary(g, "Add", unary(g, "Abs", v, bits), new_number(g, 0.25));
            return binary(g, "Pow", x, new_number(g, p));
        }
        default: {
            const char *op = ops[below(g, 9)];
            if (strcmp(op, "PRelu") == 0) {
                const value *x = val(g, v);
                const int slope =
                    x->rank > 1 ? new_constant(g, 1, &x->shape[x->rank - 1]) : new_number(g, 0.25);
                const int in[] = {v, slope};
                return result(g, put(g, op, 2, in), x->dtype, val(g, v)->rank, val(g, v)->shape, 0);
            }
            return one_in(g, 2) ? binary(g, op, v, other) : binary(g, op, other, v);
        }
    }
}

int elementwise(gen *g) {
    const int v = pick(g, 0, 6);
    return one_in(g, 2) ? one_unary(g, v) : one_binary(g, v);
}

int chain(gen *g) {
    int v = pick(g, 0, 6);
    for (int i = 2 + below(g, 6); i > 0 && v >= 0; i--)
        v = one_in(g, 3) ? one_unary(g, v) : one_binary(g, v);
    return v;
}

/* One value used several times: f(x); g(v, v); h(g, v). */
int squares(gen *g) {
    static const char *const ops[] = {"Add", "Mul", "Sub", "Max", "Min"};
    int v = pick(g, 0, 6);
    v = one_in(g, 2) ? one_unary(g, v) : one_binary(g, v);
    const int w = binary(g, ops[below(g, 5)], v, v);
    if (one_in(g, 2)) return w;
    const int u =
        one_in(g, 2) ? binary(g, ops[below(g, 5)], w, v) : binary(g, ops[below(g, 5)], v, w);
    return one_in(g, 2) ? u : binary(g, ops[below(g, 5)], u, pick_like(g, u));
}

/* A value beside another view of its elements: its transpose, itself backwards. Some are larger
 * than what maps take at once. */
int beside_views(gen *g) {
    static const char *const ops[] = {"Add", "Mul", "Sub", "Max"};
    const int64_t n = (one_in(g, 2) ? 2 : 17) + below(g, 4), square[] = {n, n}, order[] = {1, 0};
    int v = new_input(g, 2, square);
    if (v < 0) return -1;
    for (int32_t i = 0; i < 2; i++) val(g, v)->open[i] = false;
    v = one_in(g, 2) ? one_unary(g, v) : one_binary(g, v);
    if (v < 0 || val(g, v)->rank != 2) return -1;
    int w;
    if (one_in(g, 2)) {
        node *t = put(g, "Transpose", 1, &v);
        set_ints(t, "perm", 2, order);
        w = result(g, t, g->m->dtype, 2, square, val(g, v)->bits);
    } else {
        const int64_t start = -1, end = -n - 1, axis = below(g, 2), step = -1;
        const int in[] = {v, new_ints(g, 1, &start), new_ints(g, 1, &end), new_ints(g, 1, &axis),
                          new_ints(g, 1, &step)};
        w = result(g, put(g, "Slice", 5, in), g->m->dtype, 2, square, val(g, v)->bits);
    }
    const int y =
        one_in(g, 2) ? binary(g, ops[below(g, 4)], v, w) : binary(g, ops[below(g, 4)], w, v);
    return one_in(g, 2) ? one_unary(g, y) : y;
}

static int mask_of(gen *g, int v) {
    static const char *const ops[] = {"Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal"};
    int x = v;
    if (val(g, v)->bits == 0) { /* only values that are known to the last bit are compared */
        x = new_constant(g, val(g, v)->rank, val(g, v)->shape);
        if (x < 0) return -1;
    }
    const int in[] = {x, new_number(g, (below(g, 9) - 4) * 0.25)};
    int m =
        result(g, put(g, ops[below(g, 5)], 2, in), DHOW_BOOL, val(g, x)->rank, val(g, x)->shape, 1);
    if (m >= 0 && one_in(g, 3)) m = unary(g, "Not", m, 1);
    return m;
}

int compare_select(gen *g) {
    const int v = pick(g, 0, 6);
    if (v < 0) return -1;
    const int m = mask_of(g, v);
    if (m < 0) return -1;
    const int other = one_in(g, 3)   ? new_number(g, 0)
                      : one_in(g, 2) ? pick_like(g, v)
                                     : known_for(g, v);
    if (other < 0) return -1;
    const int a = one_in(g, 2) ? v : other, b = a == v ? other : v;
    const int in[] = {m, a, b};
    int64_t shape[DHOW_MAX_RANK];
    int32_t rank;
    if (!broadcast(val(g, v), val(g, other), &rank, shape) || rank != val(g, v)->rank) return -1;
    for (int32_t i = 0; i < rank; i++)
        if (shape[i] != val(g, v)->shape[i]) return -1;
    const int p = val(g, a)->bits, q = val(g, b)->bits;
    return result(g, put(g, "Where", 3, in), g->m->dtype, rank, shape,
                  p == 0 || q == 0 ? 0
                  : p > q          ? p
                                   : q);
}

int where_mask(gen *g) {
    const int v = pick(g, 1, 5);
    if (v < 0) return -1;
    const int m = mask_of(g, v);
    if (m < 0) return -1;
    node *n = put(g, "Cast", 1, &m);
    set_int(n, "to", (int64_t)g->m->dtype);
    const int f = result(g, n, g->m->dtype, val(g, m)->rank, val(g, m)->shape, 1);
    return binary(g, "Mul", v, f);
}

/* To float8, float4 or an integer of 4 bits and back. What is rounded to it has one bit more. */
static int by_small_type(gen *g, int v) {
    enum { E4M3FN = 17, UINT4 = 21, INT4 = 22, TYPES = 7 };
    const int type = E4M3FN + below(g, TYPES), bits = bits_fit(g, val(g, v)->bits + 1);
    node *n = put(g, "Cast", 1, &v);
    set_int(n, "to", SMALL_TYPES + type);
    if (type < UINT4 && one_in(g, 2)) set_int(n, "saturate", 1);
    const int i =
        result(g, n, type == INT4 ? DHOW_I8 : DHOW_U8, val(g, v)->rank, val(g, v)->shape, bits);
    if (i < 0) return -1;
    n = put(g, "Cast", 1, &i);
    set_int(n, "to", (int64_t)g->m->dtype);
    return result(g, n, g->m->dtype, val(g, i)->rank, val(g, i)->shape, bits);
}

int cast_chain(gen *g) {
    const dhow_dtype types[] = {DHOW_I64, DHOW_I32, DHOW_BOOL};
    int v = pick(g, 0, 5);
    if (v < 0 || val(g, v)->bits == 0 || val(g, v)->bits > 10) return -1;
    if (one_in(g, 4)) return by_small_type(g, v);
    const dhow_dtype to = types[below(g, 3)];
    node *n = put(g, "Cast", 1, &v);
    set_int(n, "to", (int64_t)to);
    int i = result(g, n, to, val(g, v)->rank, val(g, v)->shape, val(g, v)->bits);
    if (i >= 0 && to != DHOW_BOOL && one_in(g, 2))
        i = binary(g, one_in(g, 2) ? "Add" : "Mul", i, i);
    if (i < 0) return -1;
    const int bits = val(g, i)->bits;
    n = put(g, "Cast", 1, &i);
    set_int(n, "to", (int64_t)g->m->dtype);
    return result(g, n, g->m->dtype, val(g, i)->rank, val(g, i)->shape, bits);
}

static int bound(gen *g, double number) {
    const int64_t one = 1;
    const int b = add_value(g->m, VALUE_CONSTANT, g->m->dtype, 0, &one, g->at);
    if (b >= 0) val(g, b)->data[0] = number;
    return b;
}

static int clip_between(gen *g, int v, int low, int high) {
    const int in[] = {v, low, high};
    return v < 0 ? -1
                 : result(g, put(g, "Clip", 3, in), g->m->dtype, val(g, v)->rank, val(g, v)->shape,
                          val(g, v)->bits);
}

int clip_to(gen *g, int v) {
    const int low = one_in(g, 3) ? -1 : bound(g, -0.5);
    const int high = one_in(g, 3) ? -1 : bound(g, one_in(g, 2) ? 0.75 : 6);
    return clip_between(g, v, low, high);
}

int clip_above(gen *g, int v, double low) { return clip_between(g, v, bound(g, low), -1); }

int clip_shrink(gen *g) {
    const int v = pick(g, 0, 6);
    if (v < 0) return -1;
    if (one_in(g, 4)) {
        const int y = unary(g, "Shrink", v, 0);
        if (val(g, v)->bits == 0) return -1;
        if (y >= 0) set_float(&g->m->nodes[g->m->node_count - 1], "lambd", 0.5);
        return y;
    }
    return clip_to(g, v);
}

/* ---- functions spelt in single nodes ---- */

int gelu_written(gen *g) {
    const int x = pick(g, 1, 4);
    if (x < 0) return -1;
    int e, y;
    if (one_in(g, 3)) {
        const int s = one_in(g, 2) ? binary(g, "Div", x, new_number(g, 1.4142135381698608))
                                   : binary(g, "Mul", x, new_number(g, 0.7071067690849304));
        e = binary(g, "Add", unary(g, "Erf", s, 0), new_number(g, 1));
    } else {
        const int cube = one_in(g, 2) ? binary(g, "Pow", x, new_number(g, 3))
                                      : binary(g, "Mul", binary(g, "Mul", x, x), x);
        const int inner = binary(
            g, "Add", x, binary(g, "Mul", cube, new_number(g, one_in(g, 5) ? 0.05 : 0.044715)));
        e = binary(g, "Add",
                   unary(g, "Tanh", binary(g, "Mul", inner, new_number(g, 0.7978845608028654)), 0),
                   new_number(g, 1));
    }
    switch (below(g, 6)) {
        case 0:
            y = binary(g, "Mul", binary(g, "Mul", x, e), new_number(g, 0.5));
            break;
        case 3: /* of two values */
            y = binary(g, "Mul", binary(g, "Mul", pick_like(g, x), e), new_number(g, 0.5));
            break;
        case 1:
            y = binary(g, "Mul", binary(g, "Mul", x, new_number(g, 0.5)), e);
            break;
        case 2:
            y = binary(g, "Mul", x, binary(g, "Mul", new_number(g, 0.5), e));
            break;
        default: /* nearly one */
            y = binary(g, "Mul", pick_like(g, x), binary(g, "Mul", new_number(g, 0.5), e));
            break;
    }
    return one_in(g, 3) ? binary(g, "Mul", y, one_in(g, 4) ? x : pick_like(g, x)) : y; /* gated */
}

static int part_of(gen *g, int v, int64_t from, int64_t to, int64_t axis) {
    if (v < 0) return -1;
    int64_t shape[DHOW_MAX_RANK];
    memcpy(shape, val(g, v)->shape, sizeof shape);
    shape[axis] = to - from;
    const int in[] = {v, new_ints(g, 1, &from), new_ints(g, 1, &to), new_ints(g, 1, &axis)};
    return result(g, put(g, "Slice", 4, in), g->m->dtype, val(g, v)->rank, shape, val(g, v)->bits);
}

/* x cos + (-right half, left half) sin, as rotary embeddings have it, and not quite. */
int halves_turned(gen *g) {
    const int64_t own[] = {1 + below(g, 3), 2 * extent(g)};
    const int x = one_in(g, 2) ? new_input(g, 2, own) : pick(g, 1, 4);
    if (x < 0) return -1;
    const int32_t rank = val(g, x)->rank;
    const int64_t axis = one_in(g, 4) ? 0 : rank - 1, n = val(g, x)->shape[axis], half = n / 2;
    if (n < 2 || value_count(val(g, x)) == 0) return -1;
    const int left = part_of(g, x, 0, half, axis);
    int right = part_of(g, x, half, n, axis), bits = val(g, x)->bits;
    if (!one_in(g, 4)) right = unary(g, "Neg", right, bits);
    const int in[] = {right, left};
    if (left < 0 || right < 0) return -1;
    node *joined = put(g, "Concat", 2, in);
    set_int(joined, "axis", axis);
    const int turned = result(g, joined, g->m->dtype, rank, val(g, x)->shape, bits);
    if (turned < 0) return -1;
    const int64_t row = val(g, x)->shape[rank - 1];
    const bool first = one_in(g, 2);
    int s = -1;
    if (first) s = binary(g, "Mul", turned, new_constant(g, 1, &row));
    int c = -1;
    if (one_in(g, 3)) {
        c = unary(g, "Tanh", x, 0);
        c = binary(g, "Mul", c, c);
    } else {
        c = binary(g, "Mul", x, one_in(g, 2) ? new_constant(g, 1, &row) : pick_like(g, x));
    }
    if (!first) s = binary(g, "Mul", turned, new_input(g, 1, &row));
    const int y = one_in(g, 2) ? binary(g, "Add", c, s) : binary(g, "Add", s, c);
    return one_in(g, 6) ? binary(g, "Add", y, turned) : y;
}

int silu_written(gen *g) {
    const int x = pick(g, 1, 4);
    const int s = unary(g, one_in(g, 3) ? "HardSigmoid" : "Sigmoid", x, 0);
    return one_in(g, 2) ? binary(g, "Mul", x, s) : binary(g, "Mul", s, x);
}

/* x max(0, min(1, x/6 + 1/2)) in one of its spellings, or something that is nearly that. */
int hard_swish_of(gen *g, int x) {
    const double off = one_in(g, 5) ? 0.5 : 0;
    int u;
    if (x < 0) return -1;
    if (one_in(g, 2)) {
        u = clip_between(g, binary(g, "Add", x, new_number(g, 3 + off)), bound(g, 0),
                         bound(g, one_in(g, 6) ? 5 : 6));
        if (one_in(g, 2)) return binary(g, "Div", binary(g, "Mul", x, u), new_number(g, 6));
        u = binary(g, "Div", u, new_number(g, 6));
    } else {
        u = binary(g, "Add", binary(g, "Div", x, new_number(g, 6)), new_number(g, 0.5 + off));
        u = clip_between(g, u, bound(g, one_in(g, 6) ? 0.125 : 0), bound(g, 1));
    }
    return binary(g, "Mul", one_in(g, 6) ? pick_like(g, x) : x, u);
}

int hard_swish_written(gen *g) { return hard_swish_of(g, pick(g, 1, 4)); }
