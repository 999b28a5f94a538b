/* SPDX-License-Identifier: Apache-2.0
 *
 * Products and convolutions that end in an activation: FusedGemm and FusedConv.
 */
#include "base/memory/size.h"
#include "model/operators/math/math.h"
#include "model/operators/microsoft/microsoft.h"
#include "model/operators/nn/nn.h"

static const struct {
    const char *name;
    dhowi_map_op op;
    double alpha, beta;
} k_activations[] = {
    {"Relu", DHOWI_MAP_RELU, 0, 0}, {"Sigmoid", DHOWI_MAP_SIGMOID, 0, 0},
    {"Tanh", DHOWI_MAP_TANH, 0, 0}, {"LeakyRelu", DHOWI_MAP_LEAKY, 0.01, 0},
    {"Clip", DHOWI_MAP_CLIP, 0, 0}, {"HardSigmoid", DHOWI_MAP_HARD_SIGMOID, 0.2, 0.5}};

/* What `activation` says, with these numbers in place of its own where there are any. */
static dhow_status activated(dhowi_lowering *b, int32_t x, const float *alpha, const float *beta,
                             int32_t *out) {
    *out = x;
    if (dhowi_attr(b, "activation", DHOWI_ATTRIBUTE_STRING) == NULL) return DHOW_OK;
    for (size_t i = 0; i < DHOWI_COUNT(k_activations); i++) {
        if (!dhowi_attr_is(b, "activation", k_activations[i].name, "")) continue;
        return dhowi_map_one(b, k_activations[i].op,
                             alpha != NULL ? (double)*alpha : k_activations[i].alpha,
                             beta != NULL ? (double)*beta : k_activations[i].beta, x, out);
    }
    return dhowi_refuse_text(b, "activation");
}

dhow_status dhowi_lower_ms_fused_gemm(dhowi_lowering *b) {
    const dhowi_onnx_attribute *alpha = dhowi_attr(b, "activation_alpha", DHOWI_ATTRIBUTE_FLOAT),
                               *beta = dhowi_attr(b, "activation_beta", DHOWI_ATTRIBUTE_FLOAT);
    DHOWI_TRY(dhowi_lower_gemm(b));
    return activated(b, b->out[0], alpha != NULL ? &alpha->f : NULL, beta != NULL ? &beta->f : NULL,
                     &b->out[0]);
}

/* Inputs x, weight, bias, and what is added before the activation. */
dhow_status dhowi_lower_ms_fused_conv(dhowi_lowering *b) {
    const dhowi_onnx_attribute *p = dhowi_attr(b, "activation_params", DHOWI_ATTRIBUTE_FLOATS);
    const uint32_t count = p != NULL ? p->float_count : 0;
    int32_t y;
    DHOWI_TRY(dhowi_convolve(b, b->in[0], b->in[1], dhowi_given(b, 2) ? b->in[2] : -1, &y));
    if (dhowi_given(b, 3)) {
        const dhowi_tensor_desc own = *dhowi_desc_at(b, y), z = *dhowi_desc_at(b, b->in[3]);
        char s[160], t[160];
        if (!dhowi_shape_equal(own.rank, own.shape, z.rank, z.shape))
            DHOWI_REFUSE("Z is %s for %s", dhowi_desc_text(&z, s, sizeof s),
                         dhowi_desc_text(&own, t, sizeof t));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, y, b->in[3], &y));
    }
    return activated(b, y, count > 0 ? &p->floats[0] : NULL, count > 1 ? &p->floats[1] : NULL,
                     &b->out[0]);
}
