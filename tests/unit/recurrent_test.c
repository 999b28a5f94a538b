/* SPDX-License-Identifier: Apache-2.0
 *
 * LSTM, GRU and RNN by the definition of ONNX, in f64, with all that a node may ask for: as one
 * kernel for all time steps and, where the node has that form too, as steps of their own.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernel/optimise.h"
#include "onnx_fixture.h"

TestSuite(recurrent, .init = set_up, .fini = tear_down, .timeout = 60);

enum { MOST_H = 260, INPUTS = 3, MOST = 400000, I32 = 6, F32 = 1 };

typedef struct layer {
    const char *op;
    int gates, steps, batch, hidden, directions;
    const char *direction;
    bool has_bias, has_lengths, has_states, has_peepholes, resets_after, coupled;
    const char *f, *g, *h; /* NULL: the standard's */
    float clip;            /* 0: none */
} layer;

/* In the order of the node's inputs. */
typedef struct values {
    float x[20000], w[MOST], r[MOST], b[10000], h[10000], c[10000], p[10000];
    int32_t lengths[64];
} values;

static uint32_t draw(uint32_t *state) { return (*state = *state * 1664525u + 1013904223u) >> 8; }

static void draw_floats(float *to, int64_t count, float size, uint32_t *state) {
    for (int64_t i = 0; i < count; i++)
        to[i] = size * ((float)(draw(state) % 2001) / 1000.0f - 1.0f);
}

static void draw_values(const layer *l, values *v, uint32_t seed) {
    const int64_t wide = (int64_t)l->directions * l->gates * l->hidden,
                  state = (int64_t)l->directions * l->batch * l->hidden;
    draw_floats(v->x, (int64_t)l->steps * l->batch * INPUTS, 1, &seed);
    draw_floats(v->w, wide * INPUTS, 1, &seed);
    draw_floats(v->r, wide * l->hidden, 2 / sqrtf((float)l->hidden), &seed);
    draw_floats(v->b, 2 * wide, 0.5f, &seed);
    draw_floats(v->h, state, 1, &seed);
    draw_floats(v->c, state, 1, &seed);
    draw_floats(v->p, 3 * (int64_t)l->directions * l->hidden, 0.5f, &seed);
    for (int i = 0; i < l->batch; i++) v->lengths[i] = (int32_t)draw(&seed) % (l->steps + 1);
}

/* ---- the definition ---- */

static double opened(const layer *l, const char *name, double v) {
    const double a = 0.6, b = 0.4, most = l->clip > 0 ? (double)l->clip : INFINITY;
    v = fmax(-most, fmin(most, v));
    if (strcmp(name, "Sigmoid") == 0) return 1 / (1 + exp(-v));
    if (strcmp(name, "Tanh") == 0) return tanh(v);
    if (strcmp(name, "Relu") == 0) return fmax(v, 0);
    if (strcmp(name, "Affine") == 0) return a * v + b;
    if (strcmp(name, "LeakyRelu") == 0) return v < 0 ? a * v : v;
    if (strcmp(name, "ThresholdedRelu") == 0) return v > a ? v : 0;
    if (strcmp(name, "ScaledTanh") == 0) return a * tanh(b * v);
    if (strcmp(name, "HardSigmoid") == 0) return fmax(0, fmin(1, a * v + b));
    if (strcmp(name, "Elu") == 0) return v < 0 ? a * (exp(v) - 1) : v;
    if (strcmp(name, "Softsign") == 0) return v / (1 + fabs(v));
    return log1p(exp(-fabs(v))) + fmax(v, 0);
}

static double unclipped(const layer *l, const char *name, double v) {
    layer free = *l;
    free.clip = 0;
    return opened(&free, name, v);
}

static double times_state(const layer *l, const values *v, int d, int row, const double *h) {
    const float *r = v->r + ((int64_t)d * l->gates * l->hidden + row) * l->hidden;
    double sum = 0;
    for (int k = 0; k < l->hidden; k++) sum += (double)r[k] * h[k];
    return sum;
}

static double bias_at(const layer *l, const values *v, int d, int row) {
    return l->has_bias ? (double)v->b[(int64_t)d * 2 * l->gates * l->hidden + row] : 0;
}

/* One step of one sequence; `x` is the input's share of the gates. */
static void step(const layer *l, const values *v, int d, const double *x, double *h, double *c) {
    const char *f = l->f ? l->f : l->gates > 1 ? "Sigmoid" : "Tanh", *g = l->g ? l->g : "Tanh";
    const float *p = v->p + (int64_t)d * 3 * l->hidden;
    const int n = l->hidden, rb = l->gates * n;
    double fresh[MOST_H], reset[MOST_H];
    for (int j = 0; j < n && l->gates == 3; j++) {
        const double r =
            opened(l, f, x[n + j] + times_state(l, v, d, n + j, h) + bias_at(l, v, d, rb + n + j));
        reset[j] = l->resets_after ? r : r * h[j];
    }
    for (int j = 0; j < n; j++) {
        double own[4];
        for (int k = 0; k < l->gates; k++)
            own[k] = x[k * n + j] + bias_at(l, v, d, rb + k * n + j) +
                     (l->gates == 3 && k == 2 ? 0 : times_state(l, v, d, k * n + j, h));
        if (l->gates == 1) {
            fresh[j] = opened(l, f, own[0]);
        } else if (l->gates == 3) {
            const double z = opened(l, f, own[0]), rest = bias_at(l, v, d, rb + 2 * n + j);
            const double at =
                l->resets_after
                    ? own[2] - rest + reset[j] * (times_state(l, v, d, 2 * n + j, h) + rest)
                    : own[2] + times_state(l, v, d, 2 * n + j, reset);
            fresh[j] = (1 - z) * opened(l, g, at) + z * h[j];
        } else {
            const bool peeps = l->has_peepholes;
            const double i = opened(l, f, own[0] + (peeps ? (double)p[j] * c[j] : 0));
            const double keep =
                l->coupled ? 1 - i
                           : opened(l, f, own[2] + (peeps ? (double)p[2 * n + j] * c[j] : 0));
            c[j] = keep * c[j] + i * opened(l, g, own[3]);
            const double o = opened(l, f, own[1] + (peeps ? (double)p[n + j] * c[j] : 0));
            fresh[j] = o * unclipped(l, l->h ? l->h : "Tanh", c[j]);
        }
    }
    memcpy(h, fresh, (size_t)n * sizeof *h);
}

/* y[steps, directions, batch, hidden], h and c[directions, batch, hidden] */
static void define(const layer *l, const values *v, double *y, double *last_h, double *last_c) {
    static double x[4 * MOST_H];
    const int n = l->hidden, places = l->directions * l->batch * n;
    memset(y, 0, sizeof *y * (size_t)(l->steps * places));
    for (int at = 0; at < l->directions * l->batch; at++) {
        const int d = at / l->batch, b = at % l->batch;
        const int length = l->has_lengths ? v->lengths[b] : l->steps;
        const bool back = d == 1 || strcmp(l->direction, "reverse") == 0;
        double *h = last_h + at * n, *c = last_c + at * n;
        for (int j = 0; j < n; j++) {
            h[j] = l->has_states ? (double)v->h[at * n + j] : 0;
            c[j] = l->has_states ? (double)v->c[at * n + j] : 0;
        }
        for (int i = 0; i < length; i++) {
            const int t = back ? length - 1 - i : i;
            for (int row = 0; row < l->gates * n; row++) {
                x[row] = bias_at(l, v, d, row);
                for (int k = 0; k < INPUTS; k++)
                    x[row] += (double)v->w[(d * l->gates * n + row) * INPUTS + k] *
                              (double)v->x[(t * l->batch + b) * INPUTS + k];
            }
            step(l, v, d, x, h, c);
            for (int j = 0; j < n; j++) y[t * places + at * n + j] = h[j];
        }
    }
}

/* ---- the node ---- */

static void add_list(bytes *node, const char *name, const layer *l) {
    const char *const functions[] = {l->f ? l->f : "Sigmoid", l->g ? l->g : "Tanh",
                                     l->h ? l->h : "Tanh"};
    const int each = l->gates == 4 ? 3 : l->gates == 3 ? 2 : 1;
    const float number = strcmp(name, "activation_alpha") == 0 ? 0.6f : 0.4f;
    bytes a = {0};
    put_text(&a, 1, name);
    for (int i = 0; i < each * l->directions; i++) {
        const char *const own = functions[i % each];
        const bool two = strcmp(own, "Affine") == 0 || strcmp(own, "ScaledTanh") == 0 ||
                         strcmp(own, "HardSigmoid") == 0;
        const bool one = two || strcmp(own, "LeakyRelu") == 0 || strcmp(own, "Elu") == 0 ||
                         strcmp(own, "ThresholdedRelu") == 0;
        if (strcmp(name, "activations") == 0) {
            put_text(&a, 9, own);
        } else if (number > 0.5f ? one : two) {
            put_varint(&a, 7 << 3 | 5);
            put_raw(&a, &number, sizeof number);
        }
    }
    put_number(&a, 20, strcmp(name, "activations") == 0 ? 8 : 6);
    put_message(node, 5, &a);
}

static bytes node_of_layer(const layer *l) {
    char inputs[64];
    (void)snprintf(inputs, sizeof inputs, "x w r %s %s %s %s %s", l->has_bias ? "b" : "",
                   l->has_lengths ? "lengths" : "", l->has_states ? "h" : "",
                   l->has_states && l->gates == 4 ? "c" : "", l->has_peepholes ? "p" : "");
    bytes n = node_of(l->op, "n", inputs, l->gates == 4 ? "y yh yc" : "y yh");
    add_int(&n, "hidden_size", l->hidden);
    add_text(&n, "direction", l->direction);
    if (l->resets_after) add_int(&n, "linear_before_reset", 1);
    if (l->coupled) add_int(&n, "input_forget", 1);
    if (l->clip > 0) add_float(&n, "clip", l->clip);
    if (l->f != NULL) {
        add_list(&n, "activations", l);
        add_list(&n, "activation_alpha", l);
        add_list(&n, "activation_beta", l);
    }
    return n;
}

typedef struct operand {
    const char *name;
    bool given;
    int32_t rank;
    int64_t shape[3];
    const void *data;
} operand;

static void run_layer(const layer *l, const values *v, dhow_model **model, dhow_tensor *out[3]) {
    const int64_t wide = (int64_t)l->gates * l->hidden, d = l->directions, n = l->hidden,
                  batch = l->batch;
    const operand in[] = {{"x", true, 3, {l->steps, batch, INPUTS}, v->x},
                          {"w", true, 3, {d, wide, INPUTS}, v->w},
                          {"r", true, 3, {d, wide, n}, v->r},
                          {"b", l->has_bias, 2, {d, 2 * wide}, v->b},
                          {"lengths", l->has_lengths, 1, {batch}, v->lengths},
                          {"h", l->has_states, 3, {d, batch, n}, v->h},
                          {"c", l->has_states && l->gates == 4, 3, {d, batch, n}, v->c},
                          {"p", l->has_peepholes, 2, {d, 3 * n}, v->p}};
    const char *const outputs[] = {"y", "yh", "yc"};
    const uint32_t results = l->gates == 4 ? 3 : 2;
    bytes g = {0}, node = node_of_layer(l), file;
    dhow_tensor *given[8];
    uint32_t count = 0;
    put_message(&g, GRAPH_NODE, &node);
    for (size_t i = 0; i < 8; i++) {
        if (!in[i].given) continue;
        const bool counts = strcmp(in[i].name, "lengths") == 0;
        bytes value =
            typed_value_of(in[i].name, counts ? I32 : F32, (uint32_t)in[i].rank, in[i].shape);
        put_message(&g, GRAPH_INPUT, &value);
        OK(dhow_tensor_from_data(g_cpu, counts ? DHOW_I32 : DHOW_F32, in[i].rank, in[i].shape,
                                 in[i].data, &given[count++]));
    }
    for (uint32_t i = 0; i < results; i++) {
        bytes value = typed_value_of(outputs[i], F32, 0, NULL);
        put_message(&g, GRAPH_OUTPUT, &value);
    }
    file = model_of(14, &g);
    OK(load_bytes(&file, model));
    OK(dhow_model_run(*model, NULL, given, count, out, results));
    for (uint32_t i = 0; i < count; i++) dhow_tensor_release(given[i]);
    bytes_free(&file);
}

static int steps_of(const dhow_model *model, const char *kernel) {
    dhow_model_summary s = DHOW_INIT(dhow_model_summary);
    int count = 0;
    OK(dhow_model_get_summary(model, &s));
    for (uint32_t i = 0; i < s.step_count; i++) {
        dhow_model_step_info info = DHOW_INIT(dhow_model_step_info);
        OK(dhow_model_step_at(model, i, &info));
        count += strcmp(info.kernel, kernel) == 0;
    }
    return count;
}

static void compare(dhow_tensor *t, const double *want, int count, const layer *l,
                    const char *what) {
    static float got[MOST];
    OK(dhow_tensor_read(t, got, (size_t)count * sizeof *got));
    dhow_tensor_release(t);
    for (int i = 0; i < count; i++)
        cr_assert_float_eq((double)got[i], want[i], 2e-5 * (1 + fabs(want[i])),
                           "%s of hidden %d, %s: %s[%d] is %g, not %g", l->op, l->hidden,
                           l->direction, what, i, (double)got[i], want[i]);
}

/* As one kernel and, where `both`, as steps. */
static void check(const layer *l, bool both) {
    static values v;
    static double y[MOST], h[10000], c[10000];
    const int places = l->directions * l->batch * l->hidden;
    draw_values(l, &v, (uint32_t)(l->hidden * 7 + l->gates + l->steps));
    define(l, &v, y, h, c);
    for (int way = 0; way <= both; way++) {
        dhow_tensor *out[3] = {NULL};
        dhow_model *model;
        dhowi_optimisations =
            DHOWI_OPTIMISE_ALL & (way ? ~(uint32_t)DHOWI_OPTIMISE_RECURRENT : ~0u);
        run_layer(l, &v, &model, out);
        cr_expect_eq(steps_of(model, "recurrent"), way == 0, "way %d", way);
        compare(out[0], y, l->steps * places, l, "y");
        compare(out[1], h, places, l, "h");
        if (l->gates == 4) compare(out[2], c, places, l, "c");
        dhow_model_release(model);
    }
    dhowi_optimisations = DHOWI_OPTIMISE_ALL;
}

static layer plain(int kind) {
    static const layer layers[] = {{.op = "LSTM", .gates = 4},
                                   {.op = "GRU", .gates = 3},
                                   {.op = "GRU", .gates = 3, .resets_after = true},
                                   {.op = "RNN", .gates = 1}};
    layer l = layers[kind];
    l.steps = 4, l.batch = 1, l.hidden = 20, l.directions = 1, l.direction = "forward";
    return l;
}

Test(recurrent, layers_of_every_size_are_as_defined) {
    static const int sizes[] = {1, 15, 16, 17, 128, 130, 200};
    for (int kind = 0; kind < 4; kind++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            layer l = plain(kind);
            l.hidden = sizes[i];
            check(&l, true);
        }
    }
}

/* With 200 cells of an LSTM threads share the cells of one sequence; with 5 sequences they do not.
 */
Test(recurrent, sequences_of_all_lengths_and_numbers_are_as_defined) {
    for (int kind = 0; kind < 4; kind++) {
        for (int batch = 1; batch <= 9; batch += batch == 1 ? 1 : 3) {
            layer l = plain(kind);
            l.batch = batch;
            l.hidden = 33;
            l.has_lengths = l.has_bias = true;
            l.has_states = batch > 1;
            l.direction = batch % 2 ? "reverse" : "forward";
            check(&l, true);
            l.directions = 2;
            l.direction = "bidirectional";
            l.has_peepholes = kind == 0;
            check(&l, true);
        }
    }
}

Test(recurrent, threads_that_share_time_steps_compute_the_same) {
    static const int hidden[] = {200, 256, 210, 0};
    for (int i = 0; i < 2 * 3; i++) {
        const int kind = i % 3;
        layer l = plain(kind);
        l.hidden = hidden[kind];
        l.has_lengths = true;
        l.batch = 2 + i / 3;
        check(&l, true);
        l.direction = "reverse";
        l.has_states = l.has_bias = true;
        l.has_peepholes = kind == 0;
        check(&l, true);
    }
}

Test(recurrent, every_function_of_the_standard_opens_gates) {
    static const char *const names[] = {
        "Sigmoid",    "Tanh",        "Relu", "Affine",   "LeakyRelu", "ThresholdedRelu",
        "ScaledTanh", "HardSigmoid", "Elu",  "Softsign", "Softplus"};
    enum { COUNT = sizeof names / sizeof *names };
    for (int i = 1; i < COUNT; i++) {
        for (int kind = 0; kind < 4; kind++) {
            layer l = plain(kind);
            l.f = names[i];
            l.g = names[(i + 3) % COUNT];
            l.h = names[(i + 7) % COUNT];
            if (i % 2) l.clip = 0.7f;
            l.has_bias = true;
            if (kind == 3 && i == 1) continue; /* RNN's own */
            check(&l, false);
        }
    }
}

Test(recurrent, gates_that_are_coupled_or_clipped_are_as_defined) {
    layer l = plain(0);
    l.coupled = l.has_peepholes = true;
    check(&l, false);
    for (int kind = 0; kind < 4; kind++) {
        l = plain(kind);
        l.clip = 0.3f;
        l.directions = 2;
        l.direction = "bidirectional";
        check(&l, false);
    }
}
