/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes that move elements: views, slices, joins, gathers, arithmetic on shapes.
 */
#include <string.h>

#include "gen.h"

int transpose(gen *g) {
    const int v = pick(g, 2, 6);
    if (v < 0) return -1;
    const value *x = val(g, v);
    int64_t order[DHOW_MAX_RANK], shape[DHOW_MAX_RANK];
    for (int32_t i = 0; i < x->rank; i++) order[i] = i;
    for (int32_t i = x->rank - 1; i > 0; i--) {
        const int k = below(g, i + 1);
        const int64_t t = order[i];
        order[i] = order[k];
        order[k] = t;
    }
    for (int32_t i = 0; i < x->rank; i++) shape[i] = x->shape[order[i]];
    const int32_t rank = x->rank, bits = x->bits;
    node *n = put(g, "Transpose", 1, &v);
    set_ints(n, "perm", rank, order);
    return result(g, n, g->m->dtype, rank, shape, bits);
}

/* A random shape of as many elements. */
static int32_t reshaped(gen *g, const value *x, int64_t *shape) {
    int64_t left = value_count(x);
    int32_t rank = 0;
    const int32_t most = 1 + below(g, 5);
    if (left == 0) return -1;
    if (x->rank > 0 && one_in(g, 2)) { /* keep the first, for open extents */
        shape[rank++] = x->shape[0];
        left /= x->shape[0];
    }
    while (rank < most) {
        int64_t d = 1 + below(g, 6);
        while (left % d != 0) d--;
        shape[rank++] = d;
        left /= d;
    }
    shape[rank++] = left;
    return rank;
}

/* The same shape, which a run finds out from numbers that it has computed: what comes before them
 * is a segment of its own. */
static int computed_shape(gen *g, int32_t rank, const int64_t *shape) {
    const int u = pick(g, 1, 6);
    const int64_t none = 0, all = -1, one = 1, extents = rank;
    if (u < 0 || value_count(val(g, u)) == 0) return -1;
    const int64_t count = value_count(val(g, u));
    const int flat[] = {u, new_ints(g, 1, &all)};
    const int row = result(g, put(g, "Reshape", 2, flat), g->m->dtype, 1, &count, val(g, u)->bits);
    if (row < 0) return -1;
    node *n = put(g, "ArgMax", 1, &row);
    set_int(n, "axis", 0);
    const int at[] = {result(g, n, DHOW_I64, 1, &one, 1), new_ints(g, 1, &none)};
    if (at[0] < 0) return -1;
    const int zero[] = {result(g, put(g, "Mul", 2, at), DHOW_I64, 1, &one, 1),
                        new_ints(g, rank, shape)};
    return zero[0] < 0 ? -1 : result(g, put(g, "Add", 2, zero), DHOW_I64, 1, &extents, 1);
}

int reshape(gen *g) {
    const int v = pick(g, 0, 6);
    int64_t shape[DHOW_MAX_RANK], told[DHOW_MAX_RANK];
    if (v < 0) return -1;
    const int32_t rank = reshaped(g, val(g, v), shape);
    if (rank < 0) return -1;
    memcpy(told, shape, sizeof told);
    if (one_in(g, 2)) told[below(g, rank)] = -1;
    if (val(g, v)->rank > 0 && told[0] == val(g, v)->shape[0] && one_in(g, 2)) told[0] = 0;
    const int in[] = {v, one_in(g, 4) ? computed_shape(g, rank, told) : new_ints(g, rank, told)};
    if (in[1] < 0) return -1;
    return result(g, put(g, "Reshape", 2, in), g->m->dtype, rank, shape, val(g, v)->bits);
}

int flatten(gen *g) {
    const int v = pick(g, 1, 6);
    if (v < 0) return -1;
    const int axis = below(g, val(g, v)->rank + 1);
    int64_t shape[2] = {1, 1};
    for (int32_t i = 0; i < val(g, v)->rank; i++) shape[i < axis ? 0 : 1] *= val(g, v)->shape[i];
    node *n = put(g, "Flatten", 1, &v);
    set_int(n, "axis", axis);
    return result(g, n, g->m->dtype, 2, shape, val(g, v)->bits);
}

int slice(gen *g) {
    const int v = pick(g, 1, 6);
    if (v < 0) return -1;
    int64_t shape[DHOW_MAX_RANK], starts[2], ends[2], axes[2], steps[2];
    memcpy(shape, val(g, v)->shape, sizeof shape);
    const int32_t rank = val(g, v)->rank;
    int count = 1 + (rank > 1 && one_in(g, 2));
    axes[0] = below(g, rank);
    axes[1] = (axes[0] + 1) % rank;
    for (int i = 0; i < count; i++) {
        const int64_t n = shape[axes[i]];
        const int64_t step = one_in(g, 3) ? 2 : 1, from = n > 1 ? below(g, (int)n) : 0;
        if (one_in(g, 4)) { /* backwards */
            starts[i] = -1 - (n > 2 ? below(g, 2) : 0);
            ends[i] = -n - 1;
            steps[i] = -step;
            shape[axes[i]] = n == 0 ? 0 : (n + starts[i] + step) / step;
            continue;
        }
        starts[i] = from;
        ends[i] = one_in(g, 2) ? INT64_MAX : n;
        steps[i] = step;
        shape[axes[i]] = n == 0 ? 0 : (n - from + step - 1) / step;
    }
    const int in[] = {v, new_ints(g, count, starts), new_ints(g, count, ends),
                      new_ints(g, count, axes), new_ints(g, count, steps)};
    return result(g, put(g, "Slice", 5, in), g->m->dtype, rank, shape, val(g, v)->bits);
}

int squeeze(gen *g) {
    const int v = pick(g, 1, 6);
    if (v < 0) return -1;
    int64_t shape[DHOW_MAX_RANK];
    int32_t rank = 0, at = -1;
    for (int32_t i = 0; i < val(g, v)->rank; i++)
        if (val(g, v)->shape[i] == 1) at = i;
    if (at < 0) return -1;
    for (int32_t i = 0; i < val(g, v)->rank; i++)
        if (i != at) shape[rank++] = val(g, v)->shape[i];
    const int64_t axis = at;
    const int in[] = {v, new_ints(g, 1, &axis)};
    return result(g, put(g, "Squeeze", 2, in), g->m->dtype, rank, shape, val(g, v)->bits);
}

int unsqueeze(gen *g) {
    const int v = pick(g, 0, 5);
    if (v < 0) return -1;
    int64_t shape[DHOW_MAX_RANK];
    const int64_t axis = below(g, val(g, v)->rank + 1);
    for (int32_t i = 0, k = 0; i <= val(g, v)->rank; i++)
        shape[i] = i == axis ? 1 : val(g, v)->shape[k++];
    const int in[] = {v, new_ints(g, 1, &axis)};
    return result(g, put(g, "Unsqueeze", 2, in), g->m->dtype, val(g, v)->rank + 1, shape,
                  val(g, v)->bits);
}

int expand(gen *g) {
    const int v = pick(g, 0, 4);
    if (v < 0) return -1;
    int64_t shape[DHOW_MAX_RANK] = {0};
    const int32_t own = val(g, v)->rank, rank = own + below(g, 2);
    if (rank == 0) return -1;
    int64_t count = 1;
    for (int32_t i = 0; i < rank; i++) {
        const int64_t n = i < rank - own ? 1 : val(g, v)->shape[i - (rank - own)];
        shape[i] = n == 1 ? 1 + below(g, 4) : n;
        count *= shape[i];
    }
    if (count > MAX_ELEMENTS) return -1;
    const int in[] = {v, new_ints(g, rank, shape)};
    return result(g, put(g, "Expand", 2, in), g->m->dtype, rank, shape, val(g, v)->bits);
}

int concat(gen *g) {
    const int v = pick(g, 1, 5);
    if (v < 0) return -1;
    int in[4], count = 2 + below(g, 2), bits = val(g, v)->bits;
    int64_t shape[DHOW_MAX_RANK];
    const int axis = below(g, val(g, v)->rank);
    memcpy(shape, val(g, v)->shape, sizeof shape);
    in[0] = v;
    for (int i = 1; i < count; i++) {
        in[i] = one_in(g, 3) ? new_constant(g, val(g, v)->rank, val(g, v)->shape) : pick_like(g, v);
        if (in[i] < 0) return -1;
        shape[axis] += val(g, v)->shape[axis];
        bits = bits == 0 || val(g, in[i])->bits == 0 ? 0
               : bits > val(g, in[i])->bits          ? bits
                                                     : val(g, in[i])->bits;
    }
    if (value_count(val(g, v)) * count > MAX_ELEMENTS) return -1;
    node *n = put(g, "Concat", count, in);
    set_int(n, "axis", one_in(g, 2) ? axis : axis - val(g, v)->rank);
    return result(g, n, g->m->dtype, val(g, v)->rank, shape, bits);
}

int split(gen *g) {
    const int v = pick(g, 1, 5);
    if (v < 0) return -1;
    const int32_t rank = val(g, v)->rank;
    const int axis = below(g, rank);
    const int64_t n = val(g, v)->shape[axis];
    if (n < 2) return -1;
    int64_t parts[2] = {1 + below(g, (int)n - 1), 0}, shape[DHOW_MAX_RANK];
    parts[1] = n - parts[0];
    const int in[] = {v, new_ints(g, 2, parts)};
    node *s = put(g, "Split", 2, in);
    set_int(s, "axis", axis);
    int last = -1, made[2] = {-1, -1};
    for (int i = 0; i < 2 && s != NULL; i++) {
        memcpy(shape, val(g, v)->shape, sizeof shape);
        shape[axis] = parts[i];
        made[i] = last = result(g, s, g->m->dtype, rank, shape, val(g, v)->bits);
    }
    if (parts[0] == parts[1] && made[1] >= 0)
        return binary(g, one_in(g, 2) ? "Mul" : "Add", made[one_in(g, 2)], made[one_in(g, 2)]);
    return last;
}

int tile(gen *g) {
    const int v = pick(g, 1, 4);
    if (v < 0) return -1;
    int64_t shape[DHOW_MAX_RANK], times[DHOW_MAX_RANK], count = 1;
    for (int32_t i = 0; i < val(g, v)->rank; i++) {
        times[i] = one_in(g, 3) ? 2 : 1;
        count *= shape[i] = val(g, v)->shape[i] * times[i];
    }
    if (count > MAX_ELEMENTS) return -1;
    const int in[] = {v, new_ints(g, val(g, v)->rank, times)};
    return result(g, put(g, "Tile", 2, in), g->m->dtype, val(g, v)->rank, shape, val(g, v)->bits);
}

int pad(gen *g) {
    static const char *const modes[] = {"constant", "edge", "reflect", "wrap"};
    const int v = pick(g, 1, 4);
    if (v < 0) return -1;
    const int32_t rank = val(g, v)->rank;
    int64_t shape[DHOW_MAX_RANK], pads[2 * DHOW_MAX_RANK], count = 1;
    const int mode = below(g, 4);
    for (int32_t i = 0; i < rank; i++) {
        const int64_t n = val(g, v)->shape[i];
        pads[i] = one_in(g, 3) ? below(g, 3) : 0;
        pads[rank + i] = one_in(g, 3) ? below(g, 3) : 0;
        const int64_t most = mode == 2 ? n - 1 : mode == 3 ? n : mode == 1 && n == 0 ? 0 : 2;
        if (pads[i] > most) pads[i] = most < 0 ? 0 : most;
        if (pads[rank + i] > most) pads[rank + i] = most < 0 ? 0 : most;
        if (mode == 0 && n > 2 && one_in(g, 6)) pads[i] = -1; /* takes away */
        count *= shape[i] = n + pads[i] + pads[rank + i];
    }
    if (count > MAX_ELEMENTS) return -1;
    const int64_t none = 1;
    int in[] = {v, new_ints(g, 2 * rank, pads), -1};
    if (mode == 0 && one_in(g, 2))
        in[2] = add_value(g->m, VALUE_CONSTANT, g->m->dtype, 0, &none, g->at);
    if (in[2] >= 0) val(g, in[2])->data[0] = 1.5;
    node *n = put(g, "Pad", 3, in);
    set_text(n, "mode", modes[mode]);
    return result(g, n, g->m->dtype, rank, shape, val(g, v)->bits);
}

int depth_space(gen *g) {
    const int v = pick(g, 4, 4);
    if (v < 0) return -1;
    int64_t shape[4];
    memcpy(shape, val(g, v)->shape, sizeof shape);
    const bool up = shape[1] % 4 == 0 && one_in(g, 2);
    if (!up && (shape[2] % 2 != 0 || shape[3] % 2 != 0)) return -1;
    shape[1] = up ? shape[1] / 4 : shape[1] * 4;
    shape[2] = up ? shape[2] * 2 : shape[2] / 2;
    shape[3] = up ? shape[3] * 2 : shape[3] / 2;
    node *n = put(g, up ? "DepthToSpace" : "SpaceToDepth", 1, &v);
    set_int(n, "blocksize", 2);
    if (up) set_text(n, "mode", one_in(g, 2) ? "CRD" : "DCR");
    return result(g, n, g->m->dtype, 4, shape, val(g, v)->bits);
}

/* Indices within `n`, perhaps negative ones. */
static int new_index(gen *g, int32_t rank, const int64_t *shape, int64_t n) {
    const int v = add_value(g->m, VALUE_CONSTANT, DHOW_I64, rank, shape, g->at);
    if (v < 0) return -1;
    for (int64_t i = 0; i < value_count(val(g, v)); i++)
        val(g, v)->data[i] = (double)(below(g, (int)n) - (one_in(g, 4) ? n : 0));
    return v;
}

int gather(gen *g) {
    const int v = pick(g, 1, 4);
    if (v < 0) return -1;
    const int axis = below(g, val(g, v)->rank);
    const int64_t n = val(g, v)->shape[axis];
    if (n == 0) return -1;
    const int32_t rank = below(g, 3);
    int64_t own[2] = {1 + below(g, 4), 1 + below(g, 2)}, shape[DHOW_MAX_RANK];
    const int index = new_index(g, rank, own, n);
    int32_t k = 0;
    for (int32_t i = 0; i < val(g, v)->rank; i++) {
        if (i != axis) shape[k++] = val(g, v)->shape[i];
        for (int32_t j = 0; i == axis && j < rank; j++) shape[k++] = own[j];
    }
    if (index < 0) return -1;
    const int in[] = {v, index};
    node *s = put(g, "Gather", 2, in);
    set_int(s, "axis", axis);
    return result(g, s, g->m->dtype, k, shape, val(g, v)->bits);
}

int gather_elements(gen *g) {
    const int v = pick(g, 1, 4);
    if (v < 0) return -1;
    const int axis = below(g, val(g, v)->rank);
    int64_t shape[DHOW_MAX_RANK];
    memcpy(shape, val(g, v)->shape, sizeof shape);
    if (shape[axis] == 0) return -1;
    const int64_t n = shape[axis];
    shape[axis] = 1 + below(g, 4);
    const int in[] = {v, new_index(g, val(g, v)->rank, shape, n)};
    if (in[1] < 0) return -1;
    node *s = put(g, "GatherElements", 2, in);
    set_int(s, "axis", axis);
    return result(g, s, g->m->dtype, val(g, v)->rank, shape, val(g, v)->bits);
}

int scatter_elements(gen *g) {
    const int v = pick(g, 1, 4);
    if (v < 0) return -1;
    const int axis = below(g, val(g, v)->rank);
    int64_t shape[DHOW_MAX_RANK];
    memcpy(shape, val(g, v)->shape, sizeof shape);
    const int64_t n = shape[axis];
    if (n == 0) return -1;
    shape[axis] = 1; /* no index twice */
    const int update = one_in(g, 2) ? new_constant(g, val(g, v)->rank, shape)
                                    : new_input(g, val(g, v)->rank, shape);
    const int in[] = {v, new_index(g, val(g, v)->rank, shape, n), update};
    if (in[1] < 0 || update < 0) return -1;
    node *s = put(g, "ScatterElements", 3, in);
    set_int(s, "axis", axis);
    return result(g, s, g->m->dtype, val(g, v)->rank, val(g, v)->shape, val(g, v)->bits);
}

int gather_nd(gen *g) {
    const int v = pick(g, 2, 4);
    if (v < 0 || value_count(val(g, v)) == 0) return -1;
    const int64_t own[] = {1 + below(g, 3), 2};
    const int index = add_value(g->m, VALUE_CONSTANT, DHOW_I64, 2, own, g->at);
    if (index < 0) return -1;
    for (int64_t i = 0; i < own[0] * 2; i++)
        val(g, index)->data[i] = below(g, (int)val(g, v)->shape[i % 2]);
    int64_t shape[DHOW_MAX_RANK] = {own[0]};
    int32_t rank = 1;
    for (int32_t i = 2; i < val(g, v)->rank; i++) shape[rank++] = val(g, v)->shape[i];
    const int in[] = {v, index};
    return result(g, put(g, "GatherND", 2, in), g->m->dtype, rank, shape, val(g, v)->bits);
}

int one_hot(gen *g) {
    const int64_t own[] = {1 + below(g, 4), 1 + below(g, 3)}, two = 2, depth = 2 + below(g, 4);
    const int32_t rank = 1 + below(g, 2);
    const int index = new_index(g, rank, own, depth),
              levels = add_value(g->m, VALUE_CONSTANT, g->m->dtype, 1, &two, g->at);
    if (index < 0 || levels < 0) return -1;
    val(g, levels)->data[1] = 1;
    int64_t shape[3];
    const int axis = below(g, rank + 1);
    for (int32_t i = 0, k = 0; i <= rank; i++) shape[i] = i == axis ? depth : own[k++];
    const int in[] = {index, new_ints(g, 1, &depth), levels};
    node *n = put(g, "OneHot", 3, in);
    set_int(n, "axis", axis);
    const int hot = result(g, n, g->m->dtype, rank + 1, shape, 1);
    if (hot < 0) return -1;
    return binary(g, "Mul", hot, new_input(g, rank + 1, shape));
}

int trilu(gen *g) {
    const int v = pick(g, 2, 4);
    if (v < 0) return -1;
    const int64_t zero = 0;
    const int k = add_value(g->m, VALUE_CONSTANT, DHOW_I64, 0, &zero, g->at);
    if (k < 0) return -1;
    val(g, k)->data[0] = below(g, 3) - 1;
    const int in[] = {v, k};
    node *n = put(g, "Trilu", 2, in);
    set_int(n, "upper", below(g, 2));
    return result(g, n, g->m->dtype, val(g, v)->rank, val(g, v)->shape, val(g, v)->bits);
}

/* ---- arithmetic on shapes ---- */

static int shape_of(gen *g, int v) {
    const int64_t rank = val(g, v)->rank;
    return result(g, put(g, "Shape", 1, &v), DHOW_I64, 1, &rank, 1);
}

static int one_extent(gen *g, int shape, int64_t at) {
    const int64_t one = 1;
    const int in[] = {shape, new_ints(g, 1, &at)};
    return result(g, put(g, "Gather", 2, in), DHOW_I64, 1, &one, 1);
}

/* Reshape by extents that are taken from the value's own shape. */
int shape_arithmetic(gen *g) {
    const int v = pick(g, 2, 4);
    if (v < 0) return -1;
    const int32_t rank = val(g, v)->rank;
    const int64_t rest = -1, two = 2, count = value_count(val(g, v)), first = val(g, v)->shape[0];
    if (count == 0) return -1;
    const int s = shape_of(g, v);
    const int n = s >= 0 ? one_extent(g, s, 0) : -1;
    if (n < 0) return -1;
    switch (below(g, 3)) {
        case 0: { /* [n, -1] */
            const int parts[] = {n, new_ints(g, 1, &rest)};
            node *c = put(g, "Concat", 2, parts);
            set_int(c, "axis", 0);
            const int64_t shape[] = {first, count / first};
            const int in[] = {v, result(g, c, DHOW_I64, 1, &two, 1)};
            return result(g, put(g, "Reshape", 2, in), g->m->dtype, 2, shape, val(g, v)->bits);
        }
        case 1: { /* zeros of the same shape, added */
            node *z = put(g, "ConstantOfShape", 1, &s);
            const int zeros = result(g, z, DHOW_F32, rank, val(g, v)->shape, 1);
            if (zeros < 0) return -1;
            node *cast = put(g, "Cast", 1, &zeros);
            set_int(cast, "to", (int64_t)g->m->dtype);
            const int f = result(g, cast, g->m->dtype, rank, val(g, v)->shape, 1);
            return binary(g, "Add", v, f);
        }
        default: { /* a row repeated to the same shape */
            const int row = new_constant(g, 1, &val(g, v)->shape[rank - 1]);
            const int in[] = {row, s};
            if (row < 0) return -1;
            const int e =
                result(g, put(g, "Expand", 2, in), g->m->dtype, rank, val(g, v)->shape, 4);
            return binary(g, one_in(g, 2) ? "Add" : "Mul", e, v);
        }
    }
}

int range_fill(gen *g) {
    const int64_t n = 1 + below(g, 6), none = 0;
    int in[3];
    const double words[] = {0, (double)n, 1};
    for (int i = 0; i < 3; i++) {
        in[i] = add_value(g->m, VALUE_CONSTANT, DHOW_I64, 0, &none, g->at);
        if (in[i] < 0) return -1;
        val(g, in[i])->data[0] = words[i];
    }
    const int r = result(g, put(g, "Range", 3, in), DHOW_I64, 1, &n, 1);
    if (r < 0) return -1;
    node *cast = put(g, "Cast", 1, &r);
    set_int(cast, "to", (int64_t)g->m->dtype);
    const int f = result(g, cast, g->m->dtype, 1, &n, 4);
    const int64_t shape[] = {g->batch, n};
    const int x = new_input(g, 2, shape);
    return binary(g, "Mul", x, f);
}

/* As many elements as the values say: a plan in segments. */
int non_zero(gen *g) {
    if (g->at != 0) return -1;
    const int v = pick(g, 1, 3);
    if (v < 0 || val(g, v)->bits == 0 || val(g, v)->kind != VALUE_INPUT) return -1;
    const value *x = val(g, v);
    int64_t count = 0;
    for (int64_t i = 0; i < value_count(x); i++) count += x->data[i] != 0;
    if (count == 0) return -1;
    const int64_t shape[] = {x->rank, count}, flipped[] = {count, x->rank};
    const int32_t rank = x->rank;
    for (int32_t i = 0; i < DHOW_MAX_RANK; i++) val(g, v)->open[i] = false;
    const int nz = result(g, put(g, "NonZero", 1, &v), DHOW_I64, 2, shape, 1);
    if (nz < 0) return -1;
    const int t = result(g, put(g, "Transpose", 1, &nz), DHOW_I64, 2, flipped, 1);
    const int64_t out[] = {count};
    const int in[] = {v, t};
    (void)rank;
    return t < 0 ? -1 : result(g, put(g, "GatherND", 2, in), g->m->dtype, 1, out, val(g, v)->bits);
}
