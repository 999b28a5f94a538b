/* SPDX-License-Identifier: Apache-2.0
 *
 * How PyTorch's layers begin, see dhow_model_init_parameters().
 */
#include <math.h>
#include <string.h>

#include "dhow/create.h"
#include "model/operators/nn/layer.h"
#include "train/train.h"

static const char k_function[] = "dhow_model_init_parameters";

/* Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014. */
static uint64_t split_mix(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* 0 <= u < 1 */
static double uniform(uint64_t *state) { return (double)(split_mix(state) >> 11) * 0x1p-53; }

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

static dhow_status begin_layer(dhow_model *m, const dhowi_node *n, uint64_t seed) {
    const bool product =
        n->source == NULL && (n->row == DHOWI_OP_linear || n->row == DHOWI_OP_conv2d);
    if (n->op == dhowi_layer_operator(DHOWI_LAYER_EMBEDDING) && is_parameter(m, n->in[0]))
        return draw(m, n->in[0], 0, seed);
    if (!product || !is_parameter(m, n->in[1])) return DHOW_OK;
    const dhowi_tensor_desc *w = &m->values[n->in[1]].desc;
    double inputs = 1;
    for (int32_t i = 1; i < w->rank; i++) inputs *= (double)w->shape[i];
    for (uint32_t i = 1; i < n->in_count && i < 3; i++) {
        if (is_parameter(m, n->in[i]))
            DHOWI_TRY(draw(m, n->in[i], 1 / sqrt(fmax(inputs, 1)), seed));
    }
    return DHOW_OK;
}

dhow_status dhow_model_init_parameters(dhow_model *model, uint64_t seed) {
    DHOWI_TRY(dhowi_model_check(model, k_function));
    for (uint32_t i = 0; i < model->graph.node_count; i++)
        DHOWI_TRY(begin_layer(model, &model->graph.nodes[i], seed));
    return DHOW_OK;
}
