/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers of models built in C against PyTorch's formulas, computed here in double.
 */
#include <stdio.h>

#include "layers_fixture.h"

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
