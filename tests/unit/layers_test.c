/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers of models built in C against PyTorch's formulas, computed here in double; their names
 * against PyTorch's state_dict; and what loading says of files that do not fit. On the device that
 * DHOW_DEVICE names.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dhow/dhow.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())

enum { MOST = 8192 };

static dhow_context *g_context;
static dhow_device *g_cpu, *g_device;
static char g_path[] = "/tmp/dhow-layers-XXXXXX";

static void set_up(void) {
    (void)setenv("DHOW_PLUGIN_PATH", DHOW_TEST_PLUGIN_DIR, 1);
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, "cpu", &g_cpu));
    OK(dhow_device_get(g_context, NULL, &g_device));
    cr_assert_geq(mkstemp(g_path), 0);
}
static void tear_down(void) {
    (void)unlink(g_path);
    dhow_context_release(g_context);
}
TestSuite(layers, .init = set_up, .fini = tear_down, .timeout = 60);

/* ---- numbers ---- */

static double number(unsigned seed, unsigned i) {
    unsigned x = (seed * 7919u + i) * 2654435761u;
    return (double)((x >> 8) % 1000) / 500 - 1;
}

/* Fills every float parameter by its position; variances stay above 0. */
static void fill(dhow_model *m) {
    for (uint32_t p = 0; p < dhow_model_parameter_count(m); p++) {
        dhow_model_parameter_info info = DHOW_INIT(dhow_model_parameter_info);
        dhow_tensor_info t = DHOW_INIT(dhow_tensor_info);
        dhow_tensor *tensor;
        float values[MOST];
        OK(dhow_model_parameter_at(m, p, &info));
        OK(dhow_tensor_get_info(info.tensor, &t));
        if (t.dtype != DHOW_F32) continue;
        bool variance = strstr(info.name, "running_var") != NULL;
        for (unsigned i = 0; i < dhow_tensor_count(info.tensor); i++)
            values[i] = (float)(variance ? 1.5 + number(p, i) : 0.5 * number(p, i));
        OK(dhow_tensor_from_data(g_cpu, DHOW_F32, t.rank, t.shape, values, &tensor));
        OK(dhow_model_set_parameter(m, info.name, tensor));
        dhow_tensor_release(tensor);
    }
}

/* A parameter's values in double; kept for the next 255 calls. */
static const double *values_of(dhow_model *m, const char *name) {
    static double rooms[256][MOST];
    static int next;
    dhow_model_parameter_info info = DHOW_INIT(dhow_model_parameter_info);
    void *data;
    for (uint32_t p = 0; p < dhow_model_parameter_count(m); p++) {
        OK(dhow_model_parameter_at(m, p, &info));
        if (strcmp(info.name, name) != 0) continue;
        double *room = rooms[next++ % 256];
        OK(dhow_tensor_host_ptr(info.tensor, &data));
        for (int64_t i = 0; i < dhow_tensor_count(info.tensor); i++)
            room[i] = (double)((const float *)data)[i];
        return room;
    }
    cr_assert_fail("no parameter %s", name);
    return NULL;
}

static dhow_tensor *input(int32_t rank, const int64_t *shape, double *values) {
    float data[MOST];
    dhow_tensor *t;
    int64_t count = 1;
    for (int32_t i = 0; i < rank; i++) count *= shape[i];
    for (int64_t i = 0; i < count; i++) {
        data[i] = (float)number(99, (unsigned)i);
        values[i] = (double)data[i];
    }
    OK(dhow_tensor_from_data(g_device, DHOW_F32, rank, shape, data, &t));
    return t;
}

static void expect(dhow_model *m, dhow_tensor *x, const double *want, int64_t count) {
    static float is[MOST];
    OK(dhow_model_to(m, g_device));
    for (int run = 0; run < 2; run++) { /* the second replays */
        dhow_tensor *y;
        OK(dhow_model_run(m, NULL, &x, 1, &y, 1));
        cr_assert_eq(dhow_tensor_count(y), count);
        OK(dhow_tensor_read(y, is, (uint64_t)count * sizeof *is));
        for (int64_t i = 0; i < count; i++) {
            cr_assert(fabs((double)is[i] - want[i]) <= 2e-5 * fmax(1, fabs(want[i])),
                      "run %d, element %d is %g, not %g", run, (int)i, (double)is[i], want[i]);
        }
        dhow_tensor_release(y);
    }
}

static uint32_t steps_of(dhow_model *m) {
    dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
    OK(dhow_model_get_summary(m, &summary));
    return summary.step_count;
}

static void no_map_steps(dhow_model *m) {
    for (uint32_t i = 0; i < steps_of(m); i++) {
        dhow_model_step_info step = DHOW_INIT(dhow_model_step_info);
        OK(dhow_model_step_at(m, i, &step));
        cr_assert_str_neq(step.kernel, "map");
    }
}

static dhow_model *model_of(int32_t rank, const int64_t *shape, dhow_model_value *x) {
    dhow_model *m;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, rank, shape, x));
    return m;
}

/* ---- embedding ---- */

Test(layers, an_embedding_takes_rows_by_index) {
    static const int64_t index[] = {4, 0, 2, 2, 1, 6};
    dhow_model *m;
    dhow_model_value x, y;
    dhow_tensor *t;
    double want[6 * 3];
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_I64, DHOW_SHAPE(-1, 3), &x));
    OK(dhow_model_embedding(m, "words", x, 7, 3, DHOW_F32, &y));
    OK(dhow_model_output(m, "y", y));
    fill(m);
    const double *w = values_of(m, "words.weight");
    for (int i = 0; i < 18; i++) want[i] = w[index[i / 3] * 3 + i % 3];
    OK(dhow_tensor_from_data(g_device, DHOW_I64, DHOW_SHAPE(2, 3), index, &t));
    expect(m, t, want, 18);
    dhow_tensor_release(t);
    dhow_model_release(m);
}

/* ---- batch norm ---- */

static double normalized(dhow_model *m, const char *name, double x, int64_t c) {
    char text[64];
    static const char *const parts[] = {"running_mean", "running_var", "weight", "bias"};
    double v[4];
    for (int i = 0; i < 4; i++) {
        (void)snprintf(text, sizeof text, "%s.%s", name, parts[i]);
        v[i] = values_of(m, text)[c];
    }
    return (x - v[0]) / sqrt(v[1] + 1e-3) * v[2] + v[3];
}

Test(layers, batchnorm_uses_running_statistics_by_channel) {
    const int64_t shape[] = {2, 3, 4};
    double x[24], want[24];
    dhow_model_value v;
    dhow_model *m = model_of(3, shape, &v);
    OK(dhow_model_batchnorm(m, "bn", v, 3, 1e-3f, &v));
    OK(dhow_model_output(m, "y", v));
    fill(m);
    dhow_tensor *t = input(3, shape, x);
    for (int i = 0; i < 24; i++) want[i] = normalized(m, "bn", x[i], i / 4 % 3);
    expect(m, t, want, 24);
    dhow_tensor_release(t);
    dhow_model_release(m);
}

Test(layers, batchnorm_goes_into_the_linear_layer_before_it) {
    const int64_t shape[] = {5, 4};
    double x[20], want[15];
    dhow_model_value v;
    dhow_model *m = model_of(2, shape, &v);
    OK(dhow_model_linear(m, "fc", v, 4, 3, 1, &v));
    OK(dhow_model_batchnorm(m, "bn", v, 3, 1e-3f, &v));
    OK(dhow_model_relu(m, v, &v));
    OK(dhow_model_output(m, "y", v));
    fill(m);
    dhow_tensor *t = input(2, shape, x);
    const double *w = values_of(m, "fc.weight"), *b = values_of(m, "fc.bias");
    for (int i = 0; i < 15; i++) {
        double sum = b[i % 3];
        for (int k = 0; k < 4; k++) sum += x[i / 3 * 4 + k] * w[i % 3 * 4 + k];
        want[i] = fmax(0, normalized(m, "bn", sum, i % 3));
    }
    expect(m, t, want, 15);
    cr_assert_eq(steps_of(m), 1, "%u steps", steps_of(m));
    dhow_tensor_release(t);
    dhow_model_release(m);
}

Test(layers, batchnorm_goes_into_the_convolution_before_it) {
    const int64_t shape[] = {1, 2, 3, 3};
    const dhow_window window = DHOW_INIT(dhow_window, .kernel = {1, 1});
    double x[18], want[36];
    dhow_model_value v;
    dhow_model *m = model_of(4, shape, &v);
    OK(dhow_model_conv2d(m, "conv", v, 2, 4, &window, 0, &v));
    OK(dhow_model_batchnorm(m, "bn", v, 4, 1e-3f, &v));
    OK(dhow_model_output(m, "y", v));
    fill(m);
    dhow_tensor *t = input(4, shape, x);
    const double *w = values_of(m, "conv.weight");
    for (int i = 0; i < 36; i++) {
        double sum = x[i % 9] * w[i / 9 * 2] + x[9 + i % 9] * w[i / 9 * 2 + 1];
        want[i] = normalized(m, "bn", sum, i / 9);
    }
    expect(m, t, want, 36);
    no_map_steps(m);
    dhow_tensor_release(t);
    dhow_model_release(m);
}

Test(layers, two_batchnorms_after_a_convolution_are_both_applied) {
    const int64_t shape[] = {1, 1, 2, 2};
    const dhow_window window = DHOW_INIT(dhow_window, .kernel = {1, 1});
    double x[4], want[12];
    dhow_model_value v;
    dhow_model *m = model_of(4, shape, &v);
    OK(dhow_model_conv2d(m, "conv", v, 1, 3, &window, 1, &v));
    OK(dhow_model_batchnorm(m, "bn1", v, 3, 1e-3f, &v));
    OK(dhow_model_batchnorm(m, "bn2", v, 3, 1e-3f, &v));
    OK(dhow_model_output(m, "y", v));
    fill(m);
    dhow_tensor *t = input(4, shape, x);
    const double *w = values_of(m, "conv.weight"), *b = values_of(m, "conv.bias");
    for (int i = 0; i < 12; i++) {
        double y = x[i % 4] * w[i / 4] + b[i / 4];
        want[i] = normalized(m, "bn2", normalized(m, "bn1", y, i / 4), i / 4);
    }
    expect(m, t, want, 12);
    dhow_tensor_release(t);
    dhow_model_release(m);
}

/* 17 channels: numbers beyond the one that is repeated would be read. */
Test(layers, a_number_goes_into_the_convolution_before_it_with_and_without_a_bias) {
    enum { CHANNELS = 17, COUNT = CHANNELS * 4 };
    const int64_t shape[] = {1, 1, 2, 2};
    const dhow_window window = DHOW_INIT(dhow_window, .kernel = {1, 1});
    for (int32_t bias = 0; bias < 2; bias++) {
        double x[4], want[COUNT];
        dhow_model_value v;
        dhow_model *m = model_of(4, shape, &v);
        OK(dhow_model_conv2d(m, "conv", v, 1, CHANNELS, &window, bias, &v));
        OK(dhow_model_mul_scalar(m, v, DHOW_SCALAR(-1.5), &v));
        OK(dhow_model_add_scalar(m, v, DHOW_SCALAR(2.5), &v));
        OK(dhow_model_output(m, "y", v));
        fill(m);
        dhow_tensor *t = input(4, shape, x);
        const double *w = values_of(m, "conv.weight"), *b = bias ? values_of(m, "conv.bias") : NULL;
        for (int i = 0; i < COUNT; i++)
            want[i] = -1.5 * (x[i % 4] * w[i / 4] + (b != NULL ? b[i / 4] : 0)) + 2.5;
        for (int run = 0; run < 2; run++) { /* the second has the weights of the first */
            expect(m, t, want, COUNT);
            no_map_steps(m);
            OK(dhow_model_to(m, g_cpu));
        }
        dhow_tensor_release(t);
        dhow_model_release(m);
    }
}

/* Rows and columns of the result that see padding alone, where oneDNN 2.6 may crash. */
Test(layers, a_convolution_may_see_nothing_but_padding) {
    enum {
        CHANNELS = 16,
        SIDE = 3,
        PAD = 4,
        OUT = SIDE + 2 * PAD - 2,
        COUNT = CHANNELS * OUT * OUT
    };
    const int64_t shape[] = {1, CHANNELS, SIDE, SIDE};
    const dhow_window window =
        DHOW_INIT(dhow_window, .kernel = {3, 3}, .pad = {PAD, PAD, PAD, PAD});
    static double x[CHANNELS * SIDE * SIDE], want[COUNT];
    dhow_model_value v;
    dhow_model *m = model_of(4, shape, &v);
    OK(dhow_model_conv2d(m, "conv", v, CHANNELS, CHANNELS, &window, 1, &v));
    OK(dhow_model_sigmoid(m, v, &v));
    OK(dhow_model_output(m, "y", v));
    fill(m);
    dhow_tensor *t = input(4, shape, x);
    const double *w = values_of(m, "conv.weight"), *bias = values_of(m, "conv.bias");
    for (int i = 0; i < COUNT; i++) {
        const int k = i / OUT / OUT, row = i / OUT % OUT - PAD, column = i % OUT - PAD;
        double sum = bias[k];
        for (int j = 0; j < CHANNELS * 9; j++) {
            const int c = j / 9, r = row + j / 3 % 3, q = column + j % 3;
            if (r >= 0 && r < SIDE && q >= 0 && q < SIDE)
                sum += x[(c * SIDE + r) * SIDE + q] * w[k * CHANNELS * 9 + j];
        }
        want[i] = 1 / (1 + exp(-sum));
    }
    expect(m, t, want, COUNT);
    dhow_tensor_release(t);
    dhow_model_release(m);
}

/* What a step makes of nothing lies somewhere, too. */
Test(layers, a_product_of_no_columns_is_zeros) {
    const int64_t none[] = {0, 3};
    const double want[6] = {0};
    dhow_model_value x, y;
    dhow_tensor *in[2], *out;
    float is[6];
    dhow_model *m = model_of(2, none, &x);
    OK(dhow_model_input(m, "z", DHOW_F32, DHOW_SHAPE(0, 2), &y));
    OK(dhow_model_sigmoid(m, x, &x));
    OK(dhow_model_permute(m, x, (const int32_t[]){1, 0}, 2, &x));
    OK(dhow_model_sigmoid(m, x, &x));
    OK(dhow_model_matmul(m, x, y, &y));
    OK(dhow_model_output(m, "y", y));
    OK(dhow_model_to(m, g_device));
    OK(dhow_tensor_create(g_device, DHOW_F32, 2, none, &in[0]));
    OK(dhow_tensor_create(g_device, DHOW_F32, DHOW_SHAPE(0, 2), &in[1]));
    for (int run = 0; run < 2; run++) {
        OK(dhow_model_run(m, NULL, in, 2, &out, 1));
        OK(dhow_tensor_read(out, is, sizeof is));
        for (int i = 0; i < 6; i++) cr_assert_float_eq((double)is[i], want[i], 0);
        dhow_tensor_release(out);
    }
    dhow_tensor_release(in[0]);
    dhow_tensor_release(in[1]);
    dhow_model_release(m);
}

/* ---- attention ---- */

/* Parts of 64 bytes, so that heads are read where they lie. */
enum { B = 2, S = 5, E = 48, H = 3, D = E / H };

/* One row of x by rows `part` E .. of in_proj_weight. */
static double projected(const double *x, const double *w, const double *bias, int row, int part,
                        int column) {
    double sum = bias != NULL ? bias[part * E + column] : 0;
    for (int k = 0; k < E; k++) sum += x[row * E + k] * w[(part * E + column) * E + k];
    return sum;
}

static void attend(dhow_model *m, const double *q, const double *kv, const double *mask,
                   double *want) {
    const double *w = values_of(m, "attn.in_proj_weight"), *b = values_of(m, "attn.in_proj_bias"),
                 *ow = values_of(m, "attn.out_proj.weight"),
                 *ob = values_of(m, "attn.out_proj.bias");
    static double mixed[B * S * E];
    for (int row = 0; row < B * S; row++) {
        for (int h = 0; h < H; h++) {
            double score[S], sum = 0;
            for (int j = 0; j < S; j++) {
                double dot = 0;
                for (int d = 0; d < D; d++)
                    dot += projected(q, w, b, row, 0, h * D + d) *
                           projected(kv, w, b, row / S * S + j, 1, h * D + d);
                score[j] = exp(dot / sqrt((double)D) + (mask != NULL ? mask[row % S * S + j] : 0));
                sum += score[j];
            }
            for (int d = 0; d < D; d++) {
                double value = 0;
                for (int j = 0; j < S; j++)
                    value += score[j] / sum * projected(kv, w, b, row / S * S + j, 2, h * D + d);
                mixed[row * E + h * D + d] = value;
            }
        }
    }
    for (int i = 0; i < B * S * E; i++) {
        want[i] = ob[i % E];
        for (int k = 0; k < E; k++) want[i] += mixed[i / E * E + k] * ow[i % E * E + k];
    }
}

Test(layers, self_attention_is_pytorch_s) {
    const int64_t shape[] = {B, S, E}, open[] = {-1, -1, E};
    double x[B * S * E], want[B * S * E];
    dhow_model_value v;
    dhow_model *m = model_of(3, open, &v);
    OK(dhow_model_multihead_attention(m, "attn", v, v, v, -1, E, H, 1, &v));
    OK(dhow_model_output(m, "y", v));
    fill(m);
    dhow_tensor *t = input(3, shape, x);
    attend(m, x, x, NULL, want);
    expect(m, t, want, B * S * E);
    dhow_tensor_release(t);
    dhow_model_release(m);
}

Test(layers, attention_to_other_values_with_a_mask_is_pytorch_s) {
    const int64_t shape[] = {B, S, E};
    double x[B * S * E], kv[B * S * E], mask[S * S], want[B * S * E];
    dhow_model_value v, other, added;
    dhow_model *m = model_of(3, shape, &v);
    OK(dhow_model_parameter(m, "mask", DHOW_F32, DHOW_SHAPE(S, S), &added));
    OK(dhow_model_tanh(m, v, &other));
    OK(dhow_model_multihead_attention(m, "attn", v, other, other, added, E, H, 1, &v));
    OK(dhow_model_output(m, "y", v));
    fill(m);
    dhow_tensor *t = input(3, shape, x);
    for (int i = 0; i < B * S * E; i++) kv[i] = tanh(x[i]);
    memcpy(mask, values_of(m, "mask"), sizeof mask);
    attend(m, x, kv, mask, want);
    expect(m, t, want, B * S * E);
    dhow_tensor_release(t);
    dhow_model_release(m);
}

Test(layers, heads_that_do_not_divide_are_refused_and_leave_nothing) {
    dhow_model_value v, y;
    const int64_t shape[] = {B, S, E};
    dhow_model *m = model_of(3, shape, &v);
    cr_assert_eq(dhow_model_multihead_attention(m, "attn", v, v, v, -1, E, 5, 1, &y),
                 DHOW_INVALID_ARGUMENT);
    OK(dhow_model_parameter(m, "attn.out_proj.bias", DHOW_F32, DHOW_SHAPE(1), &y));
    cr_assert_eq(dhow_model_multihead_attention(m, "attn", v, v, v, -1, E, H, 1, &y),
                 DHOW_INVALID_ARGUMENT); /* the name of its last parameter is taken */
    cr_assert_eq(dhow_model_parameter_count(m), 1);
    dhow_model_release(m);
}

/* ---- LSTM ---- */

enum { STEPS = 4, IN = 3, HIDDEN = 5 };

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* One layer in one direction: y[batch, steps, stride] from column `at` on. */
static void lstm(dhow_model *m, const char *suffix, const double *x, int inputs, bool reverse,
                 double *y, int stride, int at) {
    static const char *const parts[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    const double *p[4];
    char name[64];
    for (int i = 0; i < 4; i++) {
        (void)snprintf(name, sizeof name, "rnn.%s_%s", parts[i], suffix);
        p[i] = values_of(m, name);
    }
    for (int n = 0; n < B; n++) {
        double h[HIDDEN] = {0}, c[HIDDEN] = {0};
        for (int i = 0; i < STEPS; i++) {
            int t = n * STEPS + (reverse ? STEPS - 1 - i : i);
            double gates[4 * HIDDEN];
            for (int g = 0; g < 4 * HIDDEN; g++) {
                gates[g] = p[2][g] + p[3][g];
                for (int k = 0; k < inputs; k++)
                    gates[g] += p[0][g * inputs + k] * x[t * inputs + k];
                for (int k = 0; k < HIDDEN; k++) gates[g] += p[1][g * HIDDEN + k] * h[k];
            }
            for (int k = 0; k < HIDDEN; k++) { /* i f g o */
                c[k] = sigmoid(gates[HIDDEN + k]) * c[k] +
                       sigmoid(gates[k]) * tanh(gates[2 * HIDDEN + k]);
                h[k] = sigmoid(gates[3 * HIDDEN + k]) * tanh(c[k]);
                y[t * stride + at + k] = h[k];
            }
        }
    }
}

Test(layers, two_layers_of_lstm_in_both_directions_are_pytorch_s) {
    const int64_t shape[] = {B, STEPS, IN};
    double x[B * STEPS * IN], middle[B * STEPS * 2 * HIDDEN], want[B * STEPS * 2 * HIDDEN];
    dhow_model_value v;
    dhow_model *m = model_of(3, shape, &v);
    OK(dhow_model_lstm(m, "rnn", v, IN, HIDDEN, 2, 1, 1, &v));
    OK(dhow_model_output(m, "y", v));
    fill(m);
    dhow_tensor *t = input(3, shape, x);
    lstm(m, "l0", x, IN, false, middle, 2 * HIDDEN, 0);
    lstm(m, "l0_reverse", x, IN, true, middle, 2 * HIDDEN, HIDDEN);
    lstm(m, "l1", middle, 2 * HIDDEN, false, want, 2 * HIDDEN, 0);
    lstm(m, "l1_reverse", middle, 2 * HIDDEN, true, want, 2 * HIDDEN, HIDDEN);
    expect(m, t, want, B * STEPS * 2 * HIDDEN);
    dhow_tensor_release(t);
    dhow_model_release(m);
}

/* ---- names ---- */

static void expect_names(dhow_model *m, const char *const *names, uint32_t count) {
    dhow_model_parameter_info info = DHOW_INIT(dhow_model_parameter_info);
    cr_assert_eq(dhow_model_parameter_count(m), count);
    for (uint32_t i = 0; i < count; i++) {
        OK(dhow_model_parameter_at(m, i, &info));
        cr_assert_str_eq(info.name, names[i]);
    }
}

Test(layers, a_table_is_named_and_computed_as_pytorch_s_sequential) {
    static const char *const names[] = {"0.weight", "0.bias", "2.0.weight", "2.2.weight",
                                        "2.2.bias"};
    static const dhow_layer inner[] = {
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_LINEAR, .in = 4, .out = 3, .no_bias = 1),
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_DROPOUT),
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_LAYERNORM, .in = 3)};
    static const dhow_layer layers[] = {
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_LINEAR, .in = 3, .out = 4),
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_ACTIVATION, .activation = dhow_model_relu),
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_SEQUENTIAL, .layers = inner, .layer_count = 3),
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_SOFTMAX)};
    const int64_t shape[] = {2, 3};
    dhow_model_value v, y;
    dhow_model *m = model_of(2, shape, &v);
    OK(dhow_model_sequential(m, NULL, v, layers, 4, &v));
    OK(dhow_model_output(m, "y", v));
    expect_names(m, names, 5);
    fill(m);
    double x[6], want[6];
    dhow_tensor *t = input(2, shape, x);
    const double *w0 = values_of(m, "0.weight"), *b0 = values_of(m, "0.bias"),
                 *w1 = values_of(m, "2.0.weight"), *g = values_of(m, "2.2.weight"),
                 *b = values_of(m, "2.2.bias");
    for (int r = 0; r < 2; r++) {
        double h[4], z[3], mean = 0, variance = 0, sum = 0;
        for (int i = 0; i < 4; i++) {
            h[i] = b0[i];
            for (int k = 0; k < 3; k++) h[i] += x[r * 3 + k] * w0[i * 3 + k];
            h[i] = fmax(0, h[i]);
        }
        for (int i = 0; i < 3; i++) {
            z[i] = 0;
            for (int k = 0; k < 4; k++) z[i] += h[k] * w1[i * 4 + k];
            mean += z[i] / 3;
        }
        for (int i = 0; i < 3; i++) variance += (z[i] - mean) * (z[i] - mean) / 3;
        for (int i = 0; i < 3; i++) {
            z[i] = exp((z[i] - mean) / sqrt(variance + 1e-5) * g[i] + b[i]);
            sum += z[i];
        }
        for (int i = 0; i < 3; i++) want[r * 3 + i] = z[i] / sum;
    }
    expect(m, t, want, 6);
    /* A layer that does not fit leaves nothing behind, and is named. */
    static const dhow_layer wrong[] = {
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_LINEAR, .in = 3, .out = 4),
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_LINEAR, .in = 5, .out = 4)};
    cr_assert_eq(dhow_model_sequential(m, "head", v, wrong, 2, &y), DHOW_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(dhow_last_error(), "layer head.1"), "%s", dhow_last_error());
    expect_names(m, names, 5);
    dhow_tensor_release(t);
    dhow_model_release(m);
}

#define LAYER(...) DHOW_FIELDS(dhow_layer, __VA_ARGS__)
static const dhow_conv_options k_three =
                                   DHOW_FIELDS(dhow_conv_options, .kernel = {3}, .padding = {1}),
                               k_twice =
                                   DHOW_FIELDS(dhow_conv_options, .kernel = {2}, .stride = {2}),
                               k_square = DHOW_FIELDS(dhow_conv_options, .kernel = {2, 2}),
                               k_cube = DHOW_FIELDS(dhow_conv_options, .kernel = {2, 1, 2});

/* Two models with the same parameters give the same. */
static void expect_same(dhow_model *a, dhow_model *b, dhow_tensor *x, int64_t count) {
    float *is[2];
    dhow_model *models[] = {a, b};
    for (int i = 0; i < 2; i++) {
        dhow_tensor *y, *home;
        is[i] = malloc((size_t)count * sizeof(float));
        fill(models[i]);
        OK(dhow_model_to(models[i], g_device));
        OK(dhow_model_run(models[i], NULL, &x, 1, &y, 1));
        OK(dhow_tensor_to_dtype(NULL, y, DHOW_F32, &home));
        OK(dhow_tensor_read(home, is[i], (uint64_t)count * sizeof(float)));
        dhow_tensor_release(y), dhow_tensor_release(home);
    }
    for (int64_t i = 0; i < count; i++) cr_assert_eq(is[0][i], is[1][i], "element %d", (int)i);
    free(is[0]), free(is[1]);
}

Test(layers, a_table_has_convolutions_norms_and_functions_of_one_dimension) {
    static const char *const names[] = {"0.weight", "0.bias",   "1.weight",
                                        "1.bias",   "3.weight", "6.weight"};
    const int64_t shape[] = {2, 3, 9};
    static const dhow_layer layers[] = {
        LAYER(.kind = DHOW_LAYER_CONV1D, .in = 3, .out = 4, .conv = &k_three),
        LAYER(.kind = DHOW_LAYER_GROUPNORM, .groups = 2, .in = 4, .eps = 0.5f),
        LAYER(.kind = DHOW_LAYER_LEAKY_RELU, .alpha = 0.3),
        LAYER(.kind = DHOW_LAYER_CONV_TRANSPOSE1D, .in = 4, .out = 2, .conv = &k_twice,
              .no_bias = 1),
        LAYER(.kind = DHOW_LAYER_ELU, .alpha = 0.7),
        LAYER(.kind = DHOW_LAYER_UPSAMPLE, .scale = 2, .mode = DHOW_INTERPOLATE_LINEAR),
        LAYER(.kind = DHOW_LAYER_RMSNORM, .in = 36, .eps = 0.25f),
        LAYER(.kind = DHOW_LAYER_LOG_SOFTMAX)};
    const double twice = 2;
    double x[54];
    dhow_model_value v, u;
    dhow_model *m = model_of(3, shape, &v), *by_hand = model_of(3, shape, &u);
    dhow_tensor *t = input(3, shape, x);
    OK(dhow_model_sequential(m, NULL, v, layers, 8, &v));
    OK(dhow_model_output(m, "y", v));
    OK(dhow_model_conv1d(by_hand, "0", u, 3, 4, &k_three, 1, &u));
    OK(dhow_model_groupnorm(by_hand, "1", u, 2, 4, 0.5f, &u));
    OK(dhow_model_leaky_relu(by_hand, u, 0.3, &u));
    OK(dhow_model_conv_transpose1d(by_hand, "3", u, 4, 2, &k_twice, 0, &u));
    OK(dhow_model_elu(by_hand, u, 0.7, &u));
    OK(dhow_model_interpolate(by_hand, u, NULL, &twice, DHOW_INTERPOLATE_LINEAR, 0, &u));
    OK(dhow_model_rmsnorm(by_hand, "6", u, 36, 0.25f, &u));
    OK(dhow_model_log_softmax(by_hand, u, -1, &u));
    OK(dhow_model_output(by_hand, "y", u));
    expect_names(m, names, 6);
    expect_same(m, by_hand, t, 2 * 2 * 36);
    dhow_tensor_release(t);
    dhow_model_release(m), dhow_model_release(by_hand);
}

Test(layers, a_table_has_convolutions_of_two_and_three_dimensions) {
    static const char *const names[] = {"0.weight", "0.bias", "1.weight", "1.bias"};
    const int64_t volume[] = {1, 2, 3, 4, 3}, image[] = {1, 2, 3, 4};
    static const dhow_layer three[] = {
        LAYER(.kind = DHOW_LAYER_CONV3D, .in = 2, .out = 3, .conv = &k_cube),
        LAYER(.kind = DHOW_LAYER_CONV_TRANSPOSE3D, .in = 3, .out = 2, .conv = &k_cube)};
    static const dhow_layer two[] = {
        LAYER(.kind = DHOW_LAYER_CONV_TRANSPOSE2D, .in = 2, .out = 3, .conv = &k_square)};
    double x[72];
    dhow_model_value v, u;
    dhow_model *m = model_of(5, volume, &v), *by_hand = model_of(5, volume, &u);
    dhow_tensor *t = input(5, volume, x);
    OK(dhow_model_sequential(m, "", v, three, 2, &v));
    OK(dhow_model_output(m, "y", v));
    OK(dhow_model_conv3d(by_hand, "0", u, 2, 3, &k_cube, 1, &u));
    OK(dhow_model_conv_transpose3d(by_hand, "1", u, 3, 2, &k_cube, 1, &u));
    OK(dhow_model_output(by_hand, "y", u));
    expect_names(m, names, 4);
    expect_same(m, by_hand, t, 72);
    dhow_tensor_release(t);
    dhow_model_release(m), dhow_model_release(by_hand);
    m = model_of(4, image, &v), by_hand = model_of(4, image, &u);
    t = input(4, image, x);
    OK(dhow_model_sequential(m, "", v, two, 1, &v));
    OK(dhow_model_output(m, "y", v));
    OK(dhow_model_conv_transpose2d(by_hand, "0", u, 2, 3, &k_square, 1, &u));
    OK(dhow_model_output(by_hand, "y", u));
    expect_names(m, names, 2);
    expect_same(m, by_hand, t, 3 * 4 * 5);
    dhow_tensor_release(t);
    dhow_model_release(m), dhow_model_release(by_hand);
}

Test(layers, a_table_has_embeddings_of_a_type_and_lstm) {
    static const char *const names[] = {"rnn.0.weight", "rnn.1.weight_ih_l0", "rnn.1.weight_hh_l0",
                                        "rnn.1.bias_ih_l0", "rnn.1.bias_hh_l0"};
    static const dhow_layer layers[] = {
        LAYER(.kind = DHOW_LAYER_EMBEDDING, .in = 7, .out = 4, .dtype = DHOW_F64),
        LAYER(.kind = DHOW_LAYER_LSTM, .in = 4, .out = 3)};
    dhow_model_value v;
    dhow_model *m;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_I64, DHOW_SHAPE(-1, 5), &v));
    OK(dhow_model_sequential(m, "rnn", v, layers, 2, &v));
    OK(dhow_model_output(m, "y", v));
    expect_names(m, names, 5);
    dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
    OK(dhow_model_output_at(m, 0, &info));
    cr_assert(info.dtype == DHOW_F64 && info.rank == 3 && info.shape[2] == 3);
    dhow_model_release(m);
    /* A convolution without its kernel, a scale that makes nothing, and what is no layer. */
    static const dhow_layer wrong[] = {LAYER(.kind = DHOW_LAYER_CONV1D, .in = 3, .out = 4),
                                       LAYER(.kind = DHOW_LAYER_UPSAMPLE),
                                       LAYER(.kind = (dhow_layer_kind)99)};
    static const char *const said[] = {"its kernel is needed", "scale factor 0 is 0",
                                       "99 is no kind of layer"};
    const int64_t shape[] = {2, 3, 9};
    m = model_of(3, shape, &v);
    for (int i = 0; i < 3; i++) {
        dhow_model_value y;
        cr_assert_eq(dhow_model_sequential(m, NULL, v, &wrong[i], 1, &y), DHOW_INVALID_ARGUMENT);
        cr_assert_not_null(strstr(dhow_last_error(), said[i]), "%s", dhow_last_error());
    }
    dhow_model_release(m);
}

Test(layers, scopes_nest_and_end) {
    static const char *const names[] = {"layers.0.self_attn.in_proj_weight",
                                        "layers.0.self_attn.out_proj.weight",
                                        "layers.0.norm1.weight", "layers.0.norm1.bias", "cls"};
    const int64_t shape[] = {1, 2, 4};
    dhow_model_value v, y;
    dhow_model *m = model_of(3, shape, &v);
    OK(dhow_model_begin_scope(m, "layers"));
    OK(dhow_model_begin_scope(m, "0"));
    OK(dhow_model_multihead_attention(m, "self_attn", v, v, v, -1, 4, 2, 0, &v));
    OK(dhow_model_layernorm(m, "norm1", v, 4, 1e-5f, &v));
    OK(dhow_model_end_scope(m));
    OK(dhow_model_end_scope(m));
    OK(dhow_model_parameter(m, "cls", DHOW_F32, DHOW_SHAPE(4), &y));
    expect_names(m, names, 5);
    cr_assert_eq(dhow_model_end_scope(m), DHOW_INVALID_ARGUMENT);
    for (int i = 0; i < 16; i++) OK(dhow_model_begin_scope(m, "deep"));
    cr_assert_eq(dhow_model_begin_scope(m, "deep"), DHOW_INVALID_ARGUMENT);
    dhow_model_release(m);
}

/* ---- files that do not fit ---- */

enum { LAYERS = 40 };

static dhow_model *deep(int first, int64_t features) {
    dhow_model_value v;
    dhow_model *m;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(1, 2), &v));
    for (int i = first; i < first + LAYERS; i++) {
        char name[32];
        dhow_model_value ignored;
        (void)snprintf(name, sizeof name, "a_rather_long_name_%d", i);
        OK(dhow_model_linear(m, name, v, 2, i == 30 ? features : 2, 1, &ignored));
    }
    OK(dhow_model_linear(m, "last", v, 2, 2, 0, &v));
    OK(dhow_model_output(m, "y", v));
    fill(m);
    return m;
}

/* load_state_dict() converts, and so does this where it is asked to. */
Test(layers, another_dtype_is_converted_where_that_is_asked_for) {
    static const char *const names[] = {"fc.weight", "fc.bias"};
    dhow_model_value v;
    dhow_model *m;
    dhow_tensor *tensors[2];
    OK(dhow_tensor_full(g_cpu, DHOW_F16, DHOW_SHAPE(2, 2), 0.375, &tensors[0]));
    OK(dhow_tensor_full(g_cpu, DHOW_F64, DHOW_SHAPE(2), -7, &tensors[1]));
    OK(dhow_safetensors_save(g_path, 2, names, tensors));
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(1, 2), &v));
    OK(dhow_model_linear(m, "fc", v, 2, 2, 1, &v));
    OK(dhow_model_output(m, "y", v));
    cr_assert_eq(dhow_model_load_state(m, g_path), DHOW_INVALID_ARGUMENT);
    OK(dhow_model_load_state_with(m, g_path, DHOW_STATE_CONVERT, NULL, NULL));
    cr_assert_eq(values_of(m, "fc.weight")[3], 0.375);
    cr_assert_eq(values_of(m, "fc.bias")[1], -7);
    for (int i = 0; i < 2; i++) dhow_tensor_release(tensors[i]);
    dhow_model_release(m);
}

/* PyTorch before 0.4.1 wrote none, and no run reads it. */
Test(layers, a_file_without_num_batches_tracked_loads) {
    dhow_model_value v;
    dhow_tensor *four;
    dhow_model *m;
    static const char *const names[] = {"bn.weight", "bn.bias", "bn.running_mean",
                                        "bn.running_var"};
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(1, 4), &v));
    OK(dhow_model_batchnorm(m, "bn", v, 4, 1e-5f, &v));
    OK(dhow_model_output(m, "y", v));
    OK(dhow_tensor_full(g_cpu, DHOW_F32, DHOW_SHAPE(4), 3, &four));
    dhow_tensor *tensors[] = {four, four, four, four};
    OK(dhow_safetensors_save(g_path, 4, names, tensors));
    OK(dhow_model_load_state(m, g_path));
    cr_assert_eq(values_of(m, "bn.running_var")[3], 3);
    dhow_tensor_release(four);
    dhow_model_release(m);
}

Test(layers, a_parameter_that_is_not_there_is_told_with_those_that_are) {
    const int64_t shape[] = {1, 2};
    dhow_model_value v;
    dhow_model *m = model_of(2, shape, &v);
    dhow_tensor *t;
    OK(dhow_model_linear(m, "net.4.3", v, 2, 2, 1, &v));
    OK(dhow_tensor_full(g_cpu, DHOW_F32, DHOW_SHAPE(2), 1, &t));
    cr_assert_eq(dhow_model_set_parameter(m, "net.4.3.bais", t), DHOW_NOT_FOUND);
    cr_assert_not_null(strstr(dhow_last_error(), "is 'net.4.3.bias' meant?"), "%s",
                       dhow_last_error());
    cr_assert_eq(dhow_model_set_parameter(m, "gamma", t), DHOW_NOT_FOUND);
    cr_assert_not_null(strstr(dhow_last_error(), "it has 'net.4.3.weight', 'net.4.3.bias'"), "%s",
                       dhow_last_error());
    dhow_tensor_release(t);
    dhow_model_release(m);
}

static uint32_t g_told[DHOW_STATE_MISMATCHED + 1];
static void count_told(void *user, dhow_state_difference difference, const char *name,
                       const char *detail) {
    cr_assert_eq(user, g_told);
    cr_assert_eq(strncmp(name, "a_rather_long_name_", 19), 0, "%s", name);
    cr_assert_eq(difference == DHOW_STATE_MISMATCHED, strstr(detail, "in the model") != NULL);
    g_told[difference]++;
}

/* Layers 20 to 39 are common; the weight and bias of number 30 have other shapes. */
Test(layers, every_difference_is_told_and_nothing_is_loaded) {
    dhow_model *m = deep(0, 3), *other = deep(20, 2);
    double before[4];
    OK(dhow_model_save_state(other, g_path));
    memcpy(before, values_of(m, "a_rather_long_name_25.weight"), sizeof before);
    memset(g_told, 0, sizeof g_told);
    cr_assert_eq(dhow_model_load_state_with(m, g_path, 0, count_told, g_told),
                 DHOW_INVALID_ARGUMENT);
    cr_assert_eq(g_told[DHOW_STATE_MISSING], 40);
    cr_assert_eq(g_told[DHOW_STATE_UNEXPECTED], 40);
    cr_assert_eq(g_told[DHOW_STATE_MISMATCHED], 2);
    cr_assert_not_null(strstr(dhow_last_error(), "40 missing, 40 unexpected, 2 differ"), "%s",
                       dhow_last_error());
    cr_assert_eq(memcmp(before, values_of(m, "a_rather_long_name_25.weight"), sizeof before), 0);
    cr_assert_eq(dhow_model_load_state(m, g_path), DHOW_INVALID_ARGUMENT);
    cr_assert_eq(dhow_model_load_state_with(m, g_path, 8, NULL, NULL), DHOW_INVALID_ARGUMENT);
    dhow_model_release(m);
    dhow_model_release(other);
}

Test(layers, a_partial_load_takes_what_fits) {
    dhow_model *m = deep(0, 3), *other = deep(20, 2);
    double missing[4], mismatched[6];
    OK(dhow_model_save_state(other, g_path));
    memcpy(missing, values_of(m, "a_rather_long_name_3.weight"), sizeof missing);
    memcpy(mismatched, values_of(m, "a_rather_long_name_30.weight"), sizeof mismatched);
    OK(dhow_model_load_state_with(m, g_path, DHOW_STATE_PARTIAL, NULL, NULL));
    static const char *const both[] = {"a_rather_long_name_25.weight", "last.weight"};
    for (int i = 0; i < 2; i++)
        cr_assert_eq(memcmp(values_of(m, both[i]), values_of(other, both[i]), 4 * sizeof(double)),
                     0, "%s", both[i]);
    cr_assert_eq(memcmp(missing, values_of(m, "a_rather_long_name_3.weight"), sizeof missing), 0);
    cr_assert_eq(
        memcmp(mismatched, values_of(m, "a_rather_long_name_30.weight"), sizeof mismatched), 0);
    dhow_model_release(m);
    dhow_model_release(other);
}

Test(layers, a_truncated_file_loads_nothing_even_in_part) {
    dhow_model *m = deep(0, 2);
    double before[4];
    OK(dhow_model_save_state(m, g_path));
    memcpy(before, values_of(m, "a_rather_long_name_0.weight"), sizeof before);
    cr_assert_eq(truncate(g_path, 2000), 0);
    cr_assert_neq(dhow_model_load_state_with(m, g_path, DHOW_STATE_PARTIAL, NULL, NULL), DHOW_OK);
    cr_assert_eq(memcmp(before, values_of(m, "a_rather_long_name_0.weight"), sizeof before), 0);
    dhow_model_release(m);
}
