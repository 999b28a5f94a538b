/* SPDX-License-Identifier: Apache-2.0
 *
 * How PyTorch's layers begin, see dhow_model_init_parameters().
 */
#include <math.h>
#include <string.h>

#include "base/memory/splitmix64.h"
#include "dhow/create.h"
#include "dhow/train.h"
#include "model/build/build.h"
#include "model/operators/nn/layer.h"

static const char k_function[] = "dhow_model_init_parameters";

/* 0 <= u < 1 */
static double uniform(uint64_t *state) {
    *state += DHOWI_SPLITMIX64_STEP;
    return (double)(dhowi_splitmix64(*state) >> 11) * 0x1p-53;
}

/* Box and Muller, 1958 */
static double normal(uint64_t *state) {
    const double radius = sqrt(-2 * log(1 - uniform(state)));
    return radius * cos(2 * M_PI * uniform(state));
}

/* Uniform within `bound`, or normal where that is 0. */
static dhow_status draw(dhow_model *m, int32_t value, double bound, uint64_t seed) {
    const dhowi_value *v = &m->values[value];
    const int64_t count = dhowi_count_of(&v->desc);
    uint64_t state = seed ^ (uint64_t)value * UINT64_C(0xd1342543de82ef95);
    const size_t bytes = dhow_dtype_bytes(v->desc.dtype);
    dhow_tensor *t;
    void *data;
    DHOWI_TRY(dhowi_tensor_new(m->context->cpu, v->desc.dtype, v->desc.rank, v->desc.shape, &t));
    dhow_status status = dhow_tensor_host_ptr(t, &data);
    for (int64_t i = 0; i < count && status == DHOW_OK; i++) {
        const double x = bound > 0 ? (2 * uniform(&state) - 1) * bound : normal(&state);
        const uint64_t bits = dhowi_dtype_encode(v->desc.dtype, x); /* the lowest bytes */
        memcpy((char *)data + (size_t)i * bytes, &bits, bytes);
    }
    if (status == DHOW_OK) status = dhow_model_set_parameter(m, v->name, t);
    dhow_tensor_release(t);
    return status;
}

static bool is_parameter(const dhow_model *m, int32_t value) {
    return value >= 0 && m->values[value].kind == DHOWI_VALUE_PARAMETER &&
           m->values[value].name != NULL && dhowi_is_float(m->values[value].desc.dtype);
}

/* Draws some of a node's inputs, as far as they are parameters. */
static dhow_status draw_inputs(dhow_model *m, const dhowi_node *n, uint32_t from, uint32_t to,
                               double bound, uint64_t seed) {
    for (uint32_t i = from; i < n->in_count && i < to; i++) {
        if (is_parameter(m, n->in[i])) DHOWI_TRY(draw(m, n->in[i], bound, seed));
    }
    return DHOW_OK;
}

/* The extent of an input, or 1. */
static double extent_of(const dhow_model *m, int32_t value, int32_t dim) {
    const dhowi_tensor_desc *desc = &m->values[value].desc;
    return desc->rank > dim ? fmax((double)desc->shape[dim], 1) : 1;
}

/* The weights of all heads by Glorot and Bengio, 2010, those of the last product as of a linear
 * layer; biases stay 0. */
static dhow_status begin_attention(dhow_model *m, const dhowi_node *n, uint64_t seed) {
    enum { IN_PROJ = 4, OUT_PROJ = 6 };
    const double features = extent_of(m, n->in[OUT_PROJ], 1);
    DHOWI_TRY(draw_inputs(m, n, IN_PROJ, IN_PROJ + 1, sqrt(6 / (4 * features)), seed));
    return draw_inputs(m, n, OUT_PROJ, OUT_PROJ + 1, 1 / sqrt(features), seed);
}

/* Linear layers and convolutions: what one output has as inputs; of transposed convolutions what
 * their transpose has. */
static dhow_status begin_product(dhow_model *m, const dhowi_node *n, uint64_t seed) {
    const dhowi_tensor_desc *w = &m->values[n->in[1]].desc;
    double inputs = 1;
    for (int32_t i = 1; i < w->rank; i++) inputs *= (double)w->shape[i];
    return draw_inputs(m, n, 1, 3, 1 / sqrt(fmax(inputs, 1)), seed);
}

/* Of the builder, not of a file. */
static bool is_convolution(const dhowi_node *n) {
    return n->source != NULL && n->source->op.length == 0 &&
           (strcmp(n->operation, "Conv") == 0 || strcmp(n->operation, "ConvTranspose") == 0);
}

static dhow_status begin_layer(dhow_model *m, const dhowi_node *n, uint64_t seed) {
    const bool row = n->source == NULL && (n->row == DHOWI_OP_linear || n->row == DHOWI_OP_conv2d);
    if (n->op == dhowi_layer_operator(DHOWI_LAYER_EMBEDDING))
        return draw_inputs(m, n, 0, 1, 0, seed);
    if (n->op == dhowi_layer_operator(DHOWI_LAYER_ATTENTION)) return begin_attention(m, n, seed);
    if (n->op == dhowi_layer_operator(DHOWI_LAYER_LSTM))
        return draw_inputs(m, n, 1, n->in_count, 1 / sqrt(extent_of(m, n->in[2], 1)), seed);
    if ((row || is_convolution(n)) && is_parameter(m, n->in[1])) return begin_product(m, n, seed);
    return DHOW_OK;
}

dhow_status dhow_model_init_parameters(dhow_model *model, uint64_t seed) {
    DHOWI_TRY(dhowi_model_check(model, k_function));
    for (uint32_t i = 0; i < model->graph.node_count; i++)
        DHOWI_TRY(begin_layer(model, &model->graph.nodes[i], seed));
    return DHOW_OK;
}
