/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of convolutions of one image, as networks have them while they are trained.
 */
#include <math.h>
#include <string.h>

#include "gen.h"

enum { MOST_TERMS = 6 };

/* What the convolutions of a sum have in common, but for a few. */
typedef struct common {
    int32_t axes;
    int x;
    int64_t results, groups, step, shape[DHOW_MAX_RANK]; /* of the sum */
} common;

/* One with a result for each place of an image, or each second one. */
static int branch_of(gen *g, const common *c, int x) {
    const int32_t rank = c->axes + 2;
    const int64_t own = val(g, x)->shape[1], groups = one_in(g, 8) ? 1 : c->groups;
    int64_t w[DHOW_MAX_RANK] = {c->results, own / groups}, steps[3], dilations[3], pads[6];
    int64_t terms = w[1];
    const bool square = !one_in(g, 6);
    const int64_t size = one_in(g, 2) ? 3 : 1, wide = one_in(g, 6) ? 2 : 1;
    for (int32_t i = 0; i < c->axes; i++) {
        w[2 + i] = square ? size : one_in(g, 2) ? 3 : 1;
        dilations[i] = wide;
        steps[i] = c->step;
        pads[i] = pads[c->axes + i] = w[2 + i] / 2 * wide;
        terms *= w[2 + i];
    }
    if (terms * c->results > MAX_ELEMENTS) return -1;
    const int in[] = {x, new_constant(g, rank, w),
                      one_in(g, 2) ? new_constant(g, 1, &c->results) : -1};
    if (in[1] < 0) return -1;
    node *n = put(g, "Conv", in[2] >= 0 ? 3 : 2, in);
    set_ints(n, "strides", c->axes, steps);
    set_ints(n, "dilations", c->axes, dilations);
    set_ints(n, "pads", 2 * c->axes, pads);
    if (groups > 1) set_int(n, "group", groups);
    return result(g, n, g->m->dtype, rank, c->shape, 0);
}

static int normed(gen *g, int x) {
    if (x < 0) return -1;
    const int64_t c = val(g, x)->shape[1];
    const int in[] = {x, new_constant(g, 1, &c), new_constant(g, 1, &c), new_constant(g, 1, &c),
                      new_constant(g, 1, &c)};
    for (int64_t k = 0; in[4] >= 0 && k < c; k++)
        val(g, in[4])->data[k] = fabs(val(g, in[4])->data[k]) + 0.5;
    return result(g, put(g, "BatchNormalization", 5, in), g->m->dtype, val(g, x)->rank,
                  val(g, x)->shape, 0);
}

static int by_channel(gen *g, const char *op, int x) {
    if (x < 0) return -1;
    int64_t row[DHOW_MAX_RANK] = {val(g, x)->shape[1]};
    const int32_t rank = val(g, x)->rank - 1;
    for (int32_t i = 1; i < rank; i++) row[i] = 1;
    return binary(g, op, x, one_in(g, 4) ? new_number(g, 0.75) : new_constant(g, rank, row));
}

static int term_of(gen *g, const common *c) {
    const bool same = c->step == 1 && c->results == val(g, c->x)->shape[1];
    const int how = below(g, 12);
    if (how < 3 && same) return normed(g, c->x);
    if (how == 3 && same) return by_channel(g, "Add", by_channel(g, "Mul", c->x));
    if (how == 4 && same) return c->x;
    if (how == 5) return new_input(g, c->axes + 2, c->shape); /* a residual */
    if (how == 6) {                                           /* of another image */
        const int other = new_input(g, c->axes + 2, val(g, c->x)->shape);
        return other >= 0 ? branch_of(g, c, other) : -1;
    }
    const int y = branch_of(g, c, c->x);
    return how == 7 ? by_channel(g, "Mul", y) : how < 10 ? normed(g, y) : y;
}

/* Two at a time, in any order, or all at once. */
static int sum_of(gen *g, int *terms, int count) {
    if (one_in(g, 6))
        return result(g, put(g, "Sum", count, terms), g->m->dtype, val(g, terms[0])->rank,
                      val(g, terms[0])->shape, 0);
    while (count > 1) {
        const int i = below(g, count), a = terms[i];
        terms[i] = terms[--count];
        const int k = below(g, count);
        terms[k] = binary(g, one_in(g, 5) ? "Sub" : "Add", a, terms[k]);
        if (terms[k] >= 0 && one_in(g, 12)) terms[k] = by_channel(g, "Mul", terms[k]);
        if (terms[k] < 0) return -1;
    }
    return terms[0];
}

static bool begin(gen *g, common *c) {
    static const int64_t channels[] = {1, 2, 4, 4, 6, 8, 16, 17};
    *c = (common){.axes = one_in(g, 3) ? 1 + below(g, 3) : 2, .groups = 1, .step = 1};
    int64_t shape[DHOW_MAX_RANK] = {g->batch, channels[below(g, 8)]}, count;
    for (int32_t i = 0; i < c->axes; i++) shape[2 + i] = 1 + below(g, c->axes == 3 ? 4 : 9);
    c->x = new_input(g, c->axes + 2, shape);
    if (c->x < 0) return false;
    if (one_in(g, 5)) c->step = 2;
    if (one_in(g, 3)) c->groups = one_in(g, 3) && shape[1] % 2 == 0 ? 2 : shape[1];
    c->results = one_in(g, 4) ? c->groups * (1 + below(g, 4)) : shape[1];
    memcpy(c->shape, shape, sizeof shape);
    c->shape[1] = c->results;
    count = c->shape[0] * c->shape[1];
    for (int32_t i = 2; i < c->axes + 2; i++) count *= c->shape[i] = (shape[i] - 1) / c->step + 1;
    return count <= MAX_ELEMENTS;
}

int branches(gen *g) {
    common c;
    int terms[MOST_TERMS], count = 0;
    if (!begin(g, &c)) return -1;
    for (int i = 2 + below(g, MOST_TERMS - 1); i > 0; i--) {
        terms[count] = term_of(g, &c);
        if (terms[count] >= 0) count++;
    }
    if (count < 2) return -1;
    const int again = one_in(g, 6) ? terms[below(g, count)] : -1;
    int y = sum_of(g, terms, count);
    if (one_in(g, 2)) y = unary(g, "Relu", y, 0);
    return again >= 0 ? binary(g, "Add", y, unary(g, "Tanh", again, 0)) : y;
}
