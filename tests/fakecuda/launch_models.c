/* SPDX-License-Identifier: Apache-2.0 */
#include "launch_models.h"

#include <stdio.h>

static dhow_status conv(dhow_model *m, const char *name, dhow_model_value x, int64_t in,
                        int64_t out, int64_t kernel, int64_t stride, int64_t groups,
                        dhow_model_value *y) {
    const int64_t pad = kernel / 2;
    const dhow_window window =
        DHOW_INIT(dhow_window, .kernel = {kernel, kernel}, .stride = {stride, stride},
                  .pad = {pad, pad, pad, pad}, .groups = groups);
    char norm[48];
    dhow_status status;
    (void)snprintf(norm, sizeof norm, "%s_bn", name);
    TRY(dhow_model_conv2d(m, name, x, in, out, &window, 0, y));
    return dhow_model_batchnorm(m, norm, *y, out, 1e-5f, y);
}

static dhow_status head(dhow_model *m, dhow_model_value x, int64_t side, int64_t channels) {
    const dhow_window all = DHOW_INIT(dhow_window, .kernel = {side, side}, .stride = {1, 1});
    dhow_status status;
    TRY(dhow_model_avgpool2d(m, x, &all, &x));
    TRY(dhow_model_flatten(m, x, 1, &x));
    TRY(dhow_model_linear(m, "fc", x, channels, 1000, 1, &x));
    return dhow_model_output(m, "y", x);
}

/* He et al., 2015: the block of three convolutions. */
static dhow_status bottleneck(dhow_model *m, int64_t in, int64_t width, int64_t stride,
                              dhow_model_value *x) {
    dhow_model_value y, skip = *x;
    dhow_status status;
    TRY(conv(m, "a", *x, in, width, 1, 1, 1, &y));
    TRY(dhow_model_relu(m, y, &y));
    TRY(conv(m, "b", y, width, width, 3, stride, 1, &y));
    TRY(dhow_model_relu(m, y, &y));
    TRY(conv(m, "c", y, width, 4 * width, 1, 1, 1, &y));
    if (in != 4 * width) TRY(conv(m, "skip", *x, in, 4 * width, 1, stride, 1, &skip));
    TRY(dhow_model_add(m, y, skip, &y));
    return dhow_model_relu(m, y, x);
}

static dhow_status resnet50(dhow_model *m, dhow_dtype dtype, int64_t batch) {
    static const int blocks[] = {3, 4, 6, 3};
    const dhow_window pool =
        DHOW_INIT(dhow_window, .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1});
    dhow_model_value x;
    dhow_status status;
    int64_t in = 64;
    TRY(dhow_model_input(m, "x", dtype, DHOW_SHAPE(batch, 3, 224, 224), &x));
    TRY(conv(m, "stem", x, 3, in, 7, 2, 1, &x));
    TRY(dhow_model_relu(m, x, &x));
    TRY(dhow_model_maxpool2d(m, x, &pool, &x));
    for (int stage = 0; stage < 4; stage++) {
        for (int i = 0; i < blocks[stage]; i++) {
            char scope[24];
            (void)snprintf(scope, sizeof scope, "layer%d.%d", stage + 1, i);
            TRY(dhow_model_begin_scope(m, scope));
            TRY(bottleneck(m, in, INT64_C(64) << stage, stage > 0 && i == 0 ? 2 : 1, &x));
            TRY(dhow_model_end_scope(m));
            in = INT64_C(256) << stage;
        }
    }
    return head(m, x, 7, in);
}

/* Sandler et al., 2018: widen, depthwise, narrow. */
static dhow_status inverted(dhow_model *m, int64_t in, int64_t out, int64_t widen, int64_t stride,
                            dhow_model_value *x) {
    const int64_t width = in * widen;
    dhow_model_value y = *x;
    dhow_status status;
    if (widen > 1) {
        TRY(conv(m, "a", y, in, width, 1, 1, 1, &y));
        TRY(dhow_model_clip(m, y, 0, 6, &y));
    }
    TRY(conv(m, "b", y, width, width, 3, stride, width, &y));
    TRY(dhow_model_clip(m, y, 0, 6, &y));
    TRY(conv(m, "c", y, width, out, 1, 1, 1, &y));
    if (stride == 1 && in == out) TRY(dhow_model_add(m, *x, y, &y));
    *x = y;
    return DHOW_OK;
}

static dhow_status mobilenet_v2(dhow_model *m, dhow_dtype dtype, int64_t batch) {
    static const int64_t rows[][4] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                      {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    dhow_model_value x;
    dhow_status status;
    int64_t in = 32;
    TRY(dhow_model_input(m, "x", dtype, DHOW_SHAPE(batch, 3, 224, 224), &x));
    TRY(conv(m, "stem", x, 3, in, 3, 2, 1, &x));
    TRY(dhow_model_clip(m, x, 0, 6, &x));
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (int64_t i = 0; i < rows[r][2]; i++) {
            char scope[24];
            (void)snprintf(scope, sizeof scope, "row%d.%d", (int)r, (int)i);
            TRY(dhow_model_begin_scope(m, scope));
            TRY(inverted(m, in, rows[r][1], rows[r][0], i == 0 ? rows[r][3] : 1, &x));
            TRY(dhow_model_end_scope(m));
            in = rows[r][1];
        }
    }
    TRY(conv(m, "last", x, in, 1280, 1, 1, 1, &x));
    TRY(dhow_model_clip(m, x, 0, 6, &x));
    return head(m, x, 7, 1280);
}

enum { WIDTH = 768 };

/* A layer of BERT-base, Devlin et al., 2018: norms behind the sums. */
static dhow_status bert_of(dhow_model *m, dhow_model_value x, dhow_model_value mask) {
    enum { HEADS = 12 };
    dhow_model_value y;
    dhow_status status;
    TRY(dhow_model_multihead_attention(m, "attention", x, x, x, mask, WIDTH, HEADS, 1, &y));
    TRY(dhow_model_add(m, x, y, &x));
    TRY(dhow_model_layernorm(m, "norm1", x, WIDTH, 1e-12f, &x));
    TRY(dhow_model_linear(m, "wide", x, WIDTH, INT64_C(4) * WIDTH, 1, &y));
    TRY(dhow_model_gelu(m, y, &y));
    TRY(dhow_model_linear(m, "narrow", y, INT64_C(4) * WIDTH, WIDTH, 1, &y));
    TRY(dhow_model_add(m, x, y, &x));
    TRY(dhow_model_layernorm(m, "norm2", x, WIDTH, 1e-12f, &x));
    return dhow_model_output(m, "y", x);
}

static dhow_status bert(dhow_model *m, dhow_dtype dtype, int64_t batch, int64_t steps) {
    dhow_model_value x;
    dhow_status status;
    TRY(dhow_model_input(m, "x", dtype, DHOW_SHAPE(batch, steps, WIDTH), &x));
    return bert_of(m, x, -1);
}

/* What lies before the layers, and the first one with a mask of what is no word. */
static dhow_status bert_first(dhow_model *m, dhow_dtype dtype, int64_t batch) {
    enum { WORDS = 128 };
    dhow_model_value x, place, mask;
    dhow_status status;
    TRY(dhow_model_input(m, "words", dtype, DHOW_SHAPE(batch, WORDS, WIDTH), &x));
    TRY(dhow_model_input(m, "places", dtype, DHOW_SHAPE(WORDS, WIDTH), &place));
    TRY(dhow_model_input(m, "mask", dtype, DHOW_SHAPE(batch, 1, 1, WORDS), &mask));
    TRY(dhow_model_add(m, x, place, &x));
    TRY(dhow_model_layernorm(m, "norm0", x, WIDTH, 1e-12F, &x));
    return bert_of(m, x, mask);
}

static dhow_status bert_layer(dhow_model *m, dhow_dtype dtype, int64_t batch) {
    return bert(m, dtype, batch, 128);
}

static dhow_status bert_layer_512(dhow_model *m, dhow_dtype dtype, int64_t batch) {
    return bert(m, dtype, batch, 512);
}

enum { LENGTH = 128, PAST = 2047 };

typedef struct llama {
    int64_t state, queries, keys, hidden;
} llama;

/* Su et al., 2021, as Llama has it: x cos + (-right half, left half) sin. */
static dhow_status rotate(dhow_model *m, dhow_model_value cosine, dhow_model_value sine,
                          dhow_model_value *x) {
    dhow_model_value half[2], turned;
    dhow_status status;
    TRY(dhow_model_chunk(m, *x, -1, 2, half));
    TRY(dhow_model_neg(m, half[1], &half[1]));
    TRY(dhow_model_cat(m, (dhow_model_value[]){half[1], half[0]}, 2, -1, &turned));
    TRY(dhow_model_mul(m, turned, sine, &turned));
    TRY(dhow_model_mul(m, *x, cosine, x));
    return dhow_model_add(m, *x, turned, x);
}

static dhow_status heads_of(dhow_model *m, const char *name, dhow_model_value x, int64_t state,
                            int64_t heads, dhow_model_value *y) {
    dhow_status status;
    TRY(dhow_model_linear(m, name, x, state, heads * LENGTH, 0, y));
    TRY(dhow_model_reshape(m, *y, DHOW_SHAPE(1, 1, heads, LENGTH), y));
    return dhow_model_permute(m, *y, (const int32_t[]){0, 2, 1, 3}, 4, y);
}

/* Of a small Llama, Touvron et al., 2023: one token with 2,047 before it. */
static dhow_status llama_attention(dhow_model *m, const llama *of, dhow_dtype dtype,
                                   dhow_model_value x, dhow_model_value *y) {
    dhow_model_value q, k, v, cosine, sine, keys, values;
    dhow_status status;
    TRY(dhow_model_input(m, "cos", dtype, DHOW_SHAPE(1, 1, 1, LENGTH), &cosine));
    TRY(dhow_model_input(m, "sin", dtype, DHOW_SHAPE(1, 1, 1, LENGTH), &sine));
    TRY(dhow_model_input(m, "keys", dtype, DHOW_SHAPE(1, of->keys, PAST, LENGTH), &keys));
    TRY(dhow_model_input(m, "values", dtype, DHOW_SHAPE(1, of->keys, PAST, LENGTH), &values));
    TRY(heads_of(m, "q", x, of->state, of->queries, &q));
    TRY(heads_of(m, "k", x, of->state, of->keys, &k));
    TRY(heads_of(m, "v", x, of->state, of->keys, &v));
    TRY(rotate(m, cosine, sine, &q));
    TRY(rotate(m, cosine, sine, &k));
    TRY(dhow_model_cat(m, (dhow_model_value[]){keys, k}, 2, 2, &k));
    TRY(dhow_model_cat(m, (dhow_model_value[]){values, v}, 2, 2, &v));
    TRY(dhow_model_output(m, "new_keys", k));
    TRY(dhow_model_output(m, "new_values", v));
    TRY(dhow_model_scaled_dot_product_attention(m, q, k, v, -1, 0, 0, y));
    TRY(dhow_model_permute(m, *y, (const int32_t[]){0, 2, 1, 3}, 4, y));
    TRY(dhow_model_reshape(m, *y, DHOW_SHAPE(1, 1, of->state), y));
    return dhow_model_linear(m, "o", *y, of->state, of->state, 0, y);
}

static dhow_status llama_layer(dhow_model *m, const llama *of, dhow_dtype dtype) {
    dhow_model_value x, y, gate, up;
    dhow_status status;
    TRY(dhow_model_input(m, "x", dtype, DHOW_SHAPE(1, 1, of->state), &x));
    TRY(dhow_model_rmsnorm(m, "norm1", x, of->state, 1e-5f, &y));
    TRY(llama_attention(m, of, dtype, y, &y));
    TRY(dhow_model_add(m, x, y, &x));
    TRY(dhow_model_rmsnorm(m, "norm2", x, of->state, 1e-5f, &y));
    TRY(dhow_model_linear(m, "gate", y, of->state, of->hidden, 0, &gate));
    TRY(dhow_model_silu(m, gate, &gate));
    TRY(dhow_model_linear(m, "up", y, of->state, of->hidden, 0, &up));
    TRY(dhow_model_mul(m, gate, up, &gate));
    TRY(dhow_model_linear(m, "down", gate, of->hidden, of->state, 0, &y));
    TRY(dhow_model_add(m, x, y, &x));
    return dhow_model_output(m, "y", x);
}

static dhow_status llama_decode(dhow_model *m, dhow_dtype dtype, int64_t batch) {
    const llama small = {2048, 16, 4, 5632};
    (void)batch;
    return llama_layer(m, &small, dtype);
}

static dhow_status llama3_decode(dhow_model *m, dhow_dtype dtype, int64_t batch) {
    const llama third = {4096, 32, 8, 14336};
    (void)batch;
    return llama_layer(m, &third, dtype);
}

/* That of examples/digits. */
static dhow_status digits(dhow_model *m, dhow_dtype dtype, int64_t batch) {
    const dhow_window three = DHOW_INIT(dhow_window, .kernel = {3, 3}, .pad = {1, 1, 1, 1}),
                      two = DHOW_INIT(dhow_window, .kernel = {2, 2}, .stride = {2, 2});
    dhow_model_value x;
    dhow_status status;
    TRY(dhow_model_input(m, "x", dtype, DHOW_SHAPE(batch, 1, 8, 8), &x));
    TRY(dhow_model_conv2d(m, "conv1", x, 1, 16, &three, 1, &x));
    TRY(dhow_model_relu(m, x, &x));
    TRY(dhow_model_maxpool2d(m, x, &two, &x));
    TRY(dhow_model_conv2d(m, "conv2", x, 16, 32, &three, 1, &x));
    TRY(dhow_model_relu(m, x, &x));
    TRY(dhow_model_maxpool2d(m, x, &two, &x));
    TRY(dhow_model_flatten(m, x, 1, &x));
    TRY(dhow_model_linear(m, "fc1", x, 128, 64, 1, &x));
    TRY(dhow_model_relu(m, x, &x));
    TRY(dhow_model_linear(m, "fc2", x, 64, 10, 1, &x));
    return dhow_model_output(m, "y", x);
}

#define IN_F16 DHOW_F16, DHOW_PRECISION_DEVICE
const launch_model launch_models[LAUNCH_MODELS] = {
    {"resnet50", "ResNet-50", IN_F16, 32, 1, resnet50, 1, 1},
    {"mobilenet_v2", "MobileNetV2", IN_F16, 32, 1, mobilenet_v2, 1, 1},
    {"bert_layer", "a layer of BERT-base, 128 steps", IN_F16, 32, 1, bert_layer, 1, 1},
    {"llama_decode", "a decode step of a layer of a Llama of 1 B", IN_F16, 1, 1, llama_decode, 0,
     1},
    {"digits", "the digits", DHOW_F32, DHOW_PRECISION_DEVICE, 64, 1, digits, 0, 1},
    {"", "ResNet-50 in TF32", DHOW_F32, DHOW_PRECISION_REDUCED, 32, 1, resnet50, 0, 0},
    {"bert_first", "the first layer of BERT-base with a mask in TF32, 128 steps", DHOW_F32,
     DHOW_PRECISION_REDUCED, 32, 1, bert_first, 0, 1},
    {"", "a layer of BERT-base, 512 steps", IN_F16, 8, 1, bert_layer_512, 0, 0},
    {"", "a decode step of the 32 layers of Llama-3-8B", IN_F16, 1, 32, llama3_decode, 0, 0}};
