/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of quantised images, and what stands around them; functions of codes. Scales are
 * powers of two and sums are small, so that whoever computes them comes to the same numbers, halves
 * of steps included.
 */
#include "gen.h"

static int number(gen *g, dhow_dtype dtype, double at) {
    const int64_t none = 0;
    const int v = add_value(g->m, VALUE_CONSTANT, dtype, 0, &none, g->at);
    if (v >= 0) val(g, v)->data[0] = at;
    return v;
}

/* A scale and a zero point. */
typedef struct codes {
    int scale, zero;
    dhow_dtype dtype;
} codes;

static codes some_codes(gen *g, double scale) {
    const dhow_dtype dtype = one_in(g, 2) ? DHOW_U8 : DHOW_I8;
    const double zero = one_in(g, 3)       ? 0
                        : dtype == DHOW_U8 ? 100 + below(g, 50)
                                           : below(g, 21) - 10;
    const codes c = {number(g, DHOW_F32, scale), number(g, dtype, zero), dtype};
    if (c.zero >= 0 && one_in(g, 3)) { /* nobody knows it before the run */
        val(g, c.zero)->kind = VALUE_INPUT;
        val(g, c.zero)->scope = 0;
    }
    return c;
}

static int quantised(gen *g, int v, const codes *c) {
    const int in[] = {v, c->scale, c->zero};
    if (v < 0 || c->scale < 0 || c->zero < 0) return -1;
    return result(g, put(g, "QuantizeLinear", 3, in), c->dtype, val(g, v)->rank, val(g, v)->shape,
                  8);
}

static int real(gen *g, int q, const codes *c) {
    const int in[] = {q, c->scale, c->zero};
    if (q < 0) return -1;
    return result(g, put(g, "DequantizeLinear", 3, in), DHOW_F32, val(g, q)->rank, val(g, q)->shape,
                  8);
}

/* An image of bytes and its convolution by few small weights. */
typedef struct window {
    int64_t kernel, stride, pads[4], group;
    int64_t x[4], y[4], w[4];
} window;

static bool choose_window(gen *g, const value *x, window *w) {
    static const int64_t results[] = {1, 3, 4, 8, 16, 17, 33};
    const int64_t c = x->shape[1];
    *w = (window){.kernel = 1 + below(g, 3), .stride = 1 + one_in(g, 3), .group = 1};
    int64_t k = results[below(g, 7)];
    if (one_in(g, 3)) { /* each channel by itself, or halves */
        w->group = one_in(g, 2) || c % 2 != 0 ? c : 2;
        k = w->group * (one_in(g, 2) ? 1 : results[below(g, 7)]);
    }
    for (int i = 0; i < 4; i++) w->pads[i] = one_in(g, 2) ? 0 : below(g, (int)w->kernel);
    const int64_t y[] = {x->shape[0], k}, weight[] = {k, c / w->group, w->kernel, w->kernel};
    for (int i = 0; i < 4; i++) {
        w->x[i] = x->shape[i];
        w->w[i] = weight[i];
        w->y[i] =
            i < 2 ? y[i] : (x->shape[i] + w->pads[i - 2] + w->pads[i] - w->kernel) / w->stride + 1;
        if (i >= 2 && x->shape[i] + w->pads[i - 2] + w->pads[i] < w->kernel) return false;
    }
    return w->y[0] * w->y[1] * w->y[2] * w->y[3] <= MAX_ELEMENTS &&
           k * weight[1] * w->kernel * w->kernel <= MAX_ELEMENTS && weight[1] * 9 < 1000;
}

static void set_window(node *n, const window *w) {
    const int64_t kernel[] = {w->kernel, w->kernel}, stride[] = {w->stride, w->stride};
    set_ints(n, "kernel_shape", 2, kernel);
    set_ints(n, "strides", 2, stride);
    set_ints(n, "pads", 4, w->pads);
    set_int(n, "group", w->group);
}

typedef struct weights {
    int codes, scale, zero, bias;
} weights;

/* One scale for all or for each result. Less their zero point, those of u8 may exceed i8. */
static bool make_weights(gen *g, const window *w, weights *out) {
    const int64_t k = w->w[0], none = 0;
    const bool each = one_in(g, 2), wide = one_in(g, 3);
    const dhow_dtype dtype = wide || one_in(g, 3) ? DHOW_U8 : DHOW_I8;
    const int middle = dtype == DHOW_U8 ? 120 : 0;
    *out = (weights){add_value(g->m, VALUE_CONSTANT, dtype, 4, w->w, g->at),
                     add_value(g->m, VALUE_CONSTANT, DHOW_F32, each, each ? &k : &none, g->at),
                     add_value(g->m, VALUE_CONSTANT, dtype, each, each ? &k : &none, g->at),
                     one_in(g, 2) ? add_value(g->m, VALUE_CONSTANT, DHOW_I32, 1, &k, g->at) : -1};
    if (out->codes < 0 || out->scale < 0 || out->zero < 0) return false;
    for (int64_t i = 0; i < w->w[0] * w->w[1] * w->w[2] * w->w[3]; i++)
        val(g, out->codes)->data[i] = wide ? below(g, 256) : middle + below(g, 25) - 12;
    for (int64_t i = 0; i < (each ? k : 1); i++) {
        val(g, out->scale)->data[i] = each && one_in(g, 2) ? 0.5 : 0.25;
        val(g, out->zero)->data[i] = middle + (one_in(g, 4) ? 1 : 0);
    }
    for (int64_t i = 0; i < k && out->bias >= 0; i++)
        val(g, out->bias)->data[i] = below(g, 41) - 20;
    return true;
}

/* Between DequantizeLinear nodes. */
static int convolved(gen *g, int q, const codes *x, const window *w, const weights *by) {
    const int weight[] = {by->codes, by->scale, by->zero};
    node *n = put(g, "DequantizeLinear", 3, weight);
    set_int(n, "axis", 0);
    const int wf = result(g, n, DHOW_F32, 4, w->w, 0), xf = real(g, q, x);
    const int in[] = {xf, wf};
    if (xf < 0 || wf < 0) return -1;
    n = put(g, "Conv", 2, in);
    set_window(n, w);
    return result(g, n, DHOW_F32, 4, w->y, 0);
}

/* Codes, a function of them as codes, perhaps of other ones than the reader thinks, and both again:
 * as an activation by its own factor is written. */
static int by_its_own(gen *g, int v) {
    const codes c = some_codes(g, 0.25);
    const int x = real(g, quantised(g, v, &c), &c), kind = below(g, 4);
    int f = x;
    if (x < 0) return -1;
    if (kind == 0) f = unary(g, "Relu", x, 0);
    if (kind == 1) f = clip_to(g, x);
    if (kind >= 2) {
        node *n = put(g, kind == 2 ? "LeakyRelu" : "HardSigmoid", 1, &x);
        set_float(n, "alpha", 0.25);
        if (kind == 3) set_float(n, "beta", 0.5);
        f = result(g, n, DHOW_F32, val(g, x)->rank, val(g, x)->shape, 0);
    }
    codes made = some_codes(g, one_in(g, 2) ? 0.5 : 0.0625), read = made;
    const int q = quantised(g, f, &made);
    if (one_in(g, 6)) read.scale = number(g, DHOW_F32, 1);
    if (one_in(g, 6)) read.zero = number(g, made.dtype, 3);
    if (read.scale < 0 || read.zero < 0) return -1;
    const int y = real(g, q, &read);
    if (y < 0 || one_in(g, 4)) return y;
    const int z =
        binary(g, one_in(g, 2) ? "Mul" : "Sub", one_in(g, 2) ? x : y, one_in(g, 2) ? y : x);
    if (z < 0 || !one_in(g, 3)) return z;
    const codes last = some_codes(g, 1); /* y's codes are read twice */
    return binary(g, "Add", real(g, quantised(g, z, &last), &last), y);
}

/* What follows: an activation, numbers of channels, another quantised image. */
static int followed(gen *g, int v, const window *w) {
    const int64_t row[] = {w->y[1], 1, 1};
    for (int i = 0; i < 2 && v >= 0; i++) {
        const int kind = below(g, 7);
        if (kind == 0) v = unary(g, "Relu", v, 0);
        if (kind == 1) v = clip_to(g, v);
        if (kind == 2) v = binary(g, one_in(g, 2) ? "Add" : "Mul", v, new_constant(g, 3, row));
        if (kind == 3) {
            const codes c = some_codes(g, 0.25);
            const int other = real(g, quantised(g, new_input(g, 4, w->y), &c), &c);
            if (other >= 0)
                v = one_in(g, 2) ? binary(g, "Add", v, other) : binary(g, "Add", other, v);
        }
        if (kind == 4) {
            const codes c = some_codes(g, 0.5);
            v = real(g, quantised(g, v, &c), &c);
        }
        if (kind == 5) v = by_its_own(g, v);
    }
    return v;
}

static int in_one_node(gen *g, int q, const codes *x, const window *w, const weights *by) {
    const codes y = some_codes(g, 1);
    const int in[] = {q,        x->scale, x->zero, by->codes, by->scale,
                      by->zero, y.scale,  y.zero,  by->bias};
    if (y.scale < 0 || y.zero < 0) return -1;
    node *n = put(g, "QLinearConv", by->bias >= 0 ? 9 : 8, in);
    set_window(n, w);
    return real(g, result(g, n, y.dtype, 4, w->y, 8), &y);
}

static int summed(gen *g, int q, const codes *x, const window *w, const weights *by) {
    const int in[] = {q, by->codes, x->zero};
    node *n = put(g, "ConvInteger", 3, in);
    set_window(n, w);
    const int sums = result(g, n, DHOW_I32, 4, w->y, 0);
    if (sums < 0) return -1;
    n = put(g, "Cast", 1, &sums);
    set_int(n, "to", 1);
    return result(g, n, DHOW_F32, 4, w->y, 0);
}

int quantised_conv(gen *g) {
    const codes x = some_codes(g, 0.25);
    const int64_t shape[] = {1 + below(g, 2), 1 + below(g, 9), 1 + below(g, 7), 1 + below(g, 7)};
    window w;
    weights by;
    int v = one_in(g, 2) ? pick(g, 4, 4) : -1;
    if (g->m->dtype != DHOW_F32) return -1;
    if (v < 0 || val(g, v)->bits == 0 || value_count(val(g, v)) == 0) v = new_input(g, 4, shape);
    if (v < 0 || val(g, v)->open[0] || !choose_window(g, val(g, v), &w) ||
        !make_weights(g, &w, &by))
        return -1;
    const int q = quantised(g, v, &x), form = below(g, 4);
    if (q < 0) return -1;
    if (form == 0) return in_one_node(g, q, &x, &w, &by);
    if (form == 1) return summed(g, q, &x, &w, &by);
    v = followed(g, convolved(g, q, &x, &w, &by), &w);
    if (one_in(g, 3)) return v;
    const codes y = some_codes(g, one_in(g, 2) ? 1 : 0.5);
    return real(g, quantised(g, v, &y), &y);
}

int quantised_chain(gen *g) {
    const int v = pick(g, 1, 4);
    if (g->m->dtype != DHOW_F32 || v < 0 || val(g, v)->bits == 0) return -1;
    const codes c = some_codes(g, one_in(g, 2) ? 1 : 0.5);
    return real(g, quantised(g, by_its_own(g, v), &c), &c);
}
