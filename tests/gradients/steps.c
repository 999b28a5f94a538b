/* SPDX-License-Identifier: Apache-2.0
 *
 * One random step. Functions that are steep or undefined somewhere get an argument that keeps away
 * from there, for central differences to be good.
 */
#include <stdio.h>
#include <string.h>

#include "dhow/model_elementwise.h"
#include "gen.h"

static value any(graph *g) {
    return g->values[random_below(g, 3) > 0 ? g->count - 1 : random_below(g, g->count)];
}

static void note(graph *g, const char *step, const value *y) {
    const size_t used = strlen(g->text);
    (void)snprintf(g->text + used, sizeof g->text - used, "%u: %s, rank %d of %lld\n", g->count,
                   step, y->rank, (long long)count_of(y));
}

static void keep(graph *g, const char *step, const value *y) {
    if (count_of(y) > MOST_ELEMENTS || g->count > MOST_VALUES - 4) return;
    note(g, step, y);
    g->values[g->count++] = *y;
}

/* ---- one number to one ---- */

typedef dhow_status unary(dhow_model *, dhow_model_value, dhow_model_value *);
static const struct {
    const char *name;
    unary *call;
    int positive; /* takes numbers from 1/2 on */
} k_unary[] = {{"relu", dhow_model_relu, 0},
               {"gelu", dhow_model_gelu, 0},
               {"gelu_tanh", dhow_model_gelu_tanh, 0},
               {"silu", dhow_model_silu, 0},
               {"sigmoid", dhow_model_sigmoid, 0},
               {"tanh", dhow_model_tanh, 0},
               {"neg", dhow_model_neg, 0},
               {"abs", dhow_model_abs, 0},
               {"erf", dhow_model_erf, 0},
               {"sin", dhow_model_sin, 0},
               {"cos", dhow_model_cos, 0},
               {"atan", dhow_model_atan, 0},
               {"asinh", dhow_model_asinh, 0},
               {"sinh", dhow_model_sinh, 1},
               {"cosh", dhow_model_cosh, 1},
               {"square", dhow_model_square, 0},
               {"softplus", dhow_model_softplus, 0},
               {"softsign", dhow_model_softsign, 0},
               {"mish", dhow_model_mish, 0},
               {"hard_swish", dhow_model_hard_swish, 0},
               {"floor", dhow_model_floor, 0},
               {"exp", dhow_model_exp, 1},
               {"log", dhow_model_log, 1},
               {"sqrt", dhow_model_sqrt, 1},
               {"reciprocal", dhow_model_reciprocal, 1}};

/* 1/2 to 3/2 */
static dhow_model_value bounded(graph *g, dhow_model_value x) {
    OK(dhow_model_sigmoid(g->model, x, &x));
    OK(dhow_model_add_scalar(g->model, x, dhow_scalar_f64(0.5), &x));
    return x;
}

static void step_unary(graph *g) {
    const size_t i = random_below(g, sizeof k_unary / sizeof *k_unary);
    value y = any(g);
    if (k_unary[i].positive) y.v = bounded(g, y.v);
    OK(k_unary[i].call(g->model, y.v, &y.v));
    keep(g, k_unary[i].name, &y);
}

typedef dhow_status by_number(dhow_model *, dhow_model_value, dhow_scalar, dhow_model_value *);
static by_number *const k_by_number[] = {dhow_model_add_scalar, dhow_model_sub_scalar,
                                         dhow_model_mul_scalar, dhow_model_div_scalar,
                                         dhow_model_max_scalar, dhow_model_min_scalar};

static void step_number(graph *g) {
    const size_t kinds = sizeof k_by_number / sizeof *k_by_number, i = random_below(g, kinds + 6);
    double number = random_number(g);
    value y = any(g);
    if (number == 0) number = 0.25;
    if (i < kinds)
        OK(k_by_number[i](g->model, y.v, dhow_scalar_f64(number), &y.v));
    else if (i == kinds)
        OK(dhow_model_pow_scalar(g->model, y.v, dhow_scalar_f64((double)random_below(g, 4)), &y.v));
    else if (i == kinds + 1)
        OK(dhow_model_pow_scalar(g->model, bounded(g, y.v), dhow_scalar_f64(3 * number), &y.v));
    else if (i == kinds + 2)
        OK(dhow_model_clip(g->model, y.v, number - 0.7, number + 0.5, &y.v));
    else if (i == kinds + 3)
        OK(dhow_model_leaky_relu(g->model, y.v, number, &y.v));
    else if (i == kinds + 4)
        OK(dhow_model_elu(g->model, y.v, 1 + number, &y.v));
    else
        OK(dhow_model_affine(g->model, y.v, dhow_scalar_f64(number), dhow_scalar_f64(0.3), &y.v));
    keep(g, "a number", &y);
}

/* ---- two values ---- */

static int broadcast(const value *a, const value *b, value *y) {
    y->rank = a->rank > b->rank ? a->rank : b->rank;
    for (int32_t i = 1; i <= y->rank; i++) {
        const int64_t m = i <= a->rank ? a->shape[a->rank - i] : 1,
                      n = i <= b->rank ? b->shape[b->rank - i] : 1;
        if (m != n && m != 1 && n != 1) return 0;
        y->shape[y->rank - i] = m == 1 ? n : m;
    }
    return 1;
}

/* A value that goes with x, or a parameter with some of its extents 1 and outer ones left out. */
static value partner(graph *g, const value *x, value *y) {
    for (int tries = 0; tries < 4; tries++) {
        const value other = g->values[random_below(g, g->count)];
        if (broadcast(x, &other, y) && count_of(y) <= MOST_ELEMENTS) return other;
    }
    const int32_t rank = (int32_t)random_below(g, (uint64_t)x->rank + 1);
    int64_t shape[MOST_RANK];
    for (int32_t i = 0; i < rank; i++)
        shape[i] = random_below(g, 3) == 0 ? 1 : x->shape[x->rank - rank + i];
    const value p = add_parameter(g, rank, shape);
    (void)broadcast(x, &p, y);
    return p;
}

typedef dhow_status binary(dhow_model *, dhow_model_value, dhow_model_value, dhow_model_value *);
static const struct {
    const char *name;
    binary *call;
} k_binary[] = {{"add", dhow_model_add}, {"sub", dhow_model_sub}, {"mul", dhow_model_mul},
                {"div", dhow_model_div}, {"max", dhow_model_max}, {"min", dhow_model_min}};

static void step_binary(graph *g) {
    const size_t i = random_below(g, sizeof k_binary / sizeof *k_binary);
    value x = any(g), y;
    value other = partner(g, &x, &y);
    if (k_binary[i].call != dhow_model_div && random_below(g, 2) == 0) {
        const value kept = x;
        x = other;
        other = kept;
    }
    if (k_binary[i].call == dhow_model_div) other.v = bounded(g, other.v);
    OK(k_binary[i].call(g->model, x.v, other.v, &y.v));
    keep(g, k_binary[i].name, &y);
}

/* x where it is larger than a number, else another value. */
static void step_where(graph *g) {
    value x = any(g), y, limit = {0}, all;
    dhow_model_value condition;
    const value other = partner(g, &x, &y), tested = g->values[random_below(g, g->count)];
    if (!broadcast(&y, &tested, &all)) return;
    OK(dhow_model_affine(g->model, x.v, dhow_scalar_f64(0.5), dhow_scalar_f64(0.1), &limit.v));
    limit.rank = x.rank;
    memcpy(limit.shape, x.shape, sizeof x.shape);
    if (!broadcast(&tested, &limit, &limit) || count_of(&all) > MOST_ELEMENTS) return;
    OK(dhow_model_greater(g->model, tested.v, limit.v, &condition));
    OK(dhow_model_where(g->model, condition, x.v, other.v, &all.v));
    keep(g, "where", &all);
}

/* ---- arrangements ---- */

static void step_permute(graph *g) {
    value x = any(g), y = x;
    int32_t order[MOST_RANK];
    if (x.rank == 0) return;
    for (int32_t i = 0; i < x.rank; i++) order[i] = i;
    for (int32_t i = x.rank - 1; i > 0; i--) {
        const uint64_t k = random_below(g, (uint64_t)i + 1);
        const int32_t kept = order[i];
        order[i] = order[k];
        order[k] = kept;
    }
    for (int32_t i = 0; i < x.rank; i++) y.shape[i] = x.shape[order[i]];
    OK(dhow_model_permute(g->model, x.v, order, (uint32_t)x.rank, &y.v));
    keep(g, "permute", &y);
}

static void step_reshape(graph *g) {
    value x = any(g), y = {.rank = 2, .shape = {1, count_of(&x)}};
    for (int64_t k = 2; k < 5; k++)
        if (y.shape[1] % k == 0 && random_below(g, 2) == 0) {
            y.shape[0] *= k;
            y.shape[1] /= k;
        }
    if (random_below(g, 3) == 0) {
        y.rank = 4;
        y.shape[2] = y.shape[1];
        y.shape[1] = y.shape[3] = 1;
    }
    OK(dhow_model_reshape(g->model, x.v, y.rank, y.shape, &y.v));
    keep(g, "reshape", &y);
}

static void step_narrow(graph *g) {
    value y = any(g);
    if (y.rank == 0) return;
    const uint64_t dim = random_below(g, (uint64_t)y.rank);
    const int64_t length = 1 + (int64_t)random_below(g, (uint64_t)y.shape[dim]),
                  start = (int64_t)random_below(g, (uint64_t)(y.shape[dim] - length + 1));
    OK(dhow_model_narrow(g->model, y.v, (int32_t)dim - (random_below(g, 2) ? y.rank : 0), start,
                         length, &y.v));
    y.shape[dim] = length;
    keep(g, "narrow", &y);
}

/* A value beside itself, and beside what is like it. */
static void step_cat(graph *g) {
    value x = any(g), y = x;
    dhow_model_value parts[3] = {x.v, x.v, x.v};
    if (x.rank == 0) return;
    const uint64_t dim = random_below(g, (uint64_t)x.rank);
    const uint32_t count = 2 + (uint32_t)random_below(g, 2);
    for (uint32_t i = 0; i < g->count; i++) {
        const value *other = &g->values[i];
        if (other->rank == x.rank && memcmp(other->shape, x.shape, (size_t)x.rank * 8) == 0)
            parts[random_below(g, 3)] = other->v;
    }
    OK(dhow_model_cat(g->model, parts, count, (int32_t)dim, &y.v));
    y.shape[dim] *= count;
    keep(g, "cat", &y);
}

/* ---- rows ---- */

static void step_reduce(graph *g) {
    value x = any(g), y = {0};
    int32_t dims[MOST_RANK];
    uint32_t count = 0;
    const int stays = random_below(g, 2) == 0, mean = random_below(g, 2) == 0;
    for (int32_t i = 0; i < x.rank; i++)
        if (random_below(g, 2) == 0) dims[count++] = random_below(g, 2) ? i : i - x.rank;
    for (int32_t i = 0; i < x.rank; i++) {
        int gone = count == 0;
        for (uint32_t k = 0; k < count; k++) gone = gone || dims[k] == i || dims[k] + x.rank == i;
        if (!gone || stays) y.shape[y.rank++] = gone ? 1 : x.shape[i];
    }
    OK(dhow_model_reduce(g->model, mean ? DHOW_REDUCE_MEAN : DHOW_REDUCE_SUM, x.v, dims, count,
                         stays, &y.v));
    keep(g, mean ? "mean" : "sum", &y);
}

/* Over the last dimension, of x beside x + 1: a root is steep at 0. */
static void step_spread(graph *g) {
    value x = any(g), y = x;
    if (x.rank == 0) return;
    const int stays = random_below(g, 2) == 0, root = random_below(g, 2) == 0;
    const int32_t last = -1;
    const double correction = (double)random_below(g, 3) / 2;
    dhow_model_value both[2] = {x.v, x.v}, wide;
    OK(dhow_model_affine(g->model, x.v, dhow_scalar_f64(1), dhow_scalar_f64(1), &both[1]));
    OK(dhow_model_cat(g->model, both, 2, -1, &wide));
    OK((root ? dhow_model_std : dhow_model_var)(g->model, wide, &last, 1, correction, stays, &y.v));
    y.shape[--y.rank] = 1;
    y.rank += stays;
    keep(g, root ? "std" : "var", &y);
}

static void step_rows(graph *g) {
    static const char *const names[] = {"softmax", "log_softmax", "norm",
                                        "linear",  "rms norm",    "group norm"};
    value y = any(g);
    char name[16];
    if (y.rank == 0) return;
    const uint64_t kind = random_below(g, 6);
    const int32_t dim = (int32_t)random_below(g, 2 * (uint64_t)y.rank) - y.rank;
    const int64_t wide = y.shape[y.rank - 1], out = 1 + (int64_t)random_below(g, 4);
    (void)snprintf(name, sizeof name, "p%u", g->parameters);
    if (kind == 0) OK(dhow_model_softmax(g->model, y.v, dim, &y.v));
    if (kind == 1) OK(dhow_model_log_softmax(g->model, y.v, dim, &y.v));
    if (kind == 2) OK(dhow_model_layernorm(g->model, name, y.v, wide, 0.1f, &y.v));
    if (kind == 3) {
        OK(dhow_model_linear(g->model, name, y.v, wide, out, random_below(g, 2) == 0, &y.v));
        y.shape[y.rank - 1] = out;
    }
    if (kind == 4) OK(dhow_model_rmsnorm(g->model, name, y.v, wide, 0.1f, &y.v));
    if (kind == 5) {
        if (y.rank < 2) return;
        const int64_t channels = y.shape[1], groups = random_below(g, 2) == 0 ? channels : 1;
        OK(dhow_model_groupnorm(g->model, name, y.v, groups, channels, 0.1f, &y.v));
    }
    g->parameters += kind >= 2;
    keep(g, names[kind], &y);
}

/* ---- products ---- */

/* By its own transpose, or by a parameter that has its outer extents or none. */
static void step_matmul(graph *g) {
    value x = any(g), y = x, w;
    if (x.rank < 2) return;
    const int64_t rows = x.shape[x.rank - 2], inner = x.shape[x.rank - 1];
    if (random_below(g, 3) == 0) {
        w = x;
        OK(dhow_model_transpose(g->model, x.v, -2, -1, &w.v));
        y.shape[y.rank - 1] = rows;
        OK(dhow_model_matmul(g->model, x.v, w.v, &y.v));
    } else {
        int64_t shape[MOST_RANK];
        const int32_t rank = random_below(g, 2) == 0 ? 2 : x.rank;
        memcpy(shape, x.shape, sizeof shape);
        shape[rank - 2] = inner;
        shape[rank - 1] = y.shape[y.rank - 1] = 1 + (int64_t)random_below(g, 3);
        w = add_parameter(g, rank, shape);
        OK(dhow_model_matmul(g->model, x.v, w.v, &y.v));
    }
    keep(g, "matmul", &y);
}

/* A value and itself, or parameters beside it, by one of its dimensions as heads. */
static void step_attention(graph *g) {
    value x = any(g), k = x, v = x, y = x;
    if (x.rank < 2) return;
    const int causal = random_below(g, 3) == 0;
    if (random_below(g, 2) == 0) {
        int64_t shape[MOST_RANK];
        memcpy(shape, x.shape, sizeof shape);
        shape[x.rank - 2] = 1 + (int64_t)random_below(g, 4);
        k = add_parameter(g, x.rank, shape);
        shape[x.rank - 1] = y.shape[x.rank - 1] = 1 + (int64_t)random_below(g, 3);
        v = add_parameter(g, x.rank, shape);
    }
    OK(dhow_model_scaled_dot_product_attention(g->model, x.v, k.v, v.v, -1, causal, 0, &y.v));
    keep(g, "attention", &y);
}

static dhow_window random_window(graph *g, const value *x, value *y, int pool) {
    dhow_window w = DHOW_INIT(dhow_window, .groups = 1);
    for (int i = 0; i < 2; i++) {
        const int64_t in = x->shape[x->rank - 2 + i];
        w.kernel[i] = 1 + (int64_t)random_below(g, 3);
        w.stride[i] = 1 + (int64_t)random_below(g, 3);
        w.dilation[i] = pool ? 1 : 1 + (int64_t)random_below(g, 2);
        for (int k = 0; k < 2; k++)
            w.pad[i + 2 * k] = (int64_t)random_below(g, pool ? (uint64_t)w.kernel[i] : 3);
        const int64_t room = in + w.pad[i] + w.pad[i + 2] - w.dilation[i] * (w.kernel[i] - 1) - 1;
        y->shape[2 + i] = room < 0 ? 0 : room / w.stride[i] + 1;
        /* a last window of nothing but padding has no largest pixel */
        if (pool && w.pad[i] + in <= (y->shape[2 + i] - 1) * w.stride[i]) y->shape[2 + i] = 0;
    }
    return w;
}

static void step_image(graph *g) {
    value x = any(g), y;
    char name[16];
    for (uint32_t i = 0; x.rank != 4 && i < g->count; i++) x = g->values[i];
    if (x.rank != 4) return;
    y = x;
    const int kind = (int)random_below(g, 3);
    dhow_window w = random_window(g, &x, &y, kind > 0);
    if (y.shape[2] == 0 || y.shape[3] == 0) return;
    (void)snprintf(name, sizeof name, "p%u", g->parameters);
    if (kind == 1) OK(dhow_model_maxpool2d(g->model, x.v, &w, &y.v));
    if (kind == 2) OK(dhow_model_avgpool2d(g->model, x.v, &w, &y.v));
    if (kind == 0) {
        if (x.shape[1] % 2 == 0) w.groups = 1 + (int64_t)random_below(g, 2);
        y.shape[1] = w.groups * (1 + (int64_t)random_below(g, 3));
        OK(dhow_model_conv2d(g->model, name, x.v, x.shape[1], y.shape[1], &w,
                             random_below(g, 2) == 0, &y.v));
        g->parameters++;
    }
    keep(g, kind == 0 ? "conv2d" : kind == 1 ? "maxpool2d" : "avgpool2d", &y);
}

void add_step(graph *g) {
    static void (*const steps[])(graph *) = {
        step_unary,  step_unary,   step_number,  step_binary,    step_binary, step_binary,
        step_where,  step_permute, step_reshape, step_narrow,    step_cat,    step_reduce,
        step_spread, step_rows,    step_matmul,  step_attention, step_image};
    if (g->count < MOST_VALUES - 4) steps[random_below(g, sizeof steps / sizeof *steps)](g);
}
