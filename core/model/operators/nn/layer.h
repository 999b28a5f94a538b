/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers of the builder that are more than one row of the operation table, see layer.c.
 */
#ifndef DHOWI_MODEL_OPERATORS_LAYER_H_
#define DHOWI_MODEL_OPERATORS_LAYER_H_

#include "model/lower/lower.h"
#include "model/operators/attention/attention.h"

typedef enum dhowi_layer_kind {
    DHOWI_LAYER_EMBEDDING,          /* weight, index */
    DHOWI_LAYER_BATCHNORM,          /* x, weight, bias, mean, variance; attrs.eps */
    DHOWI_LAYER_BATCHNORM_TRAINING, /* the same in training, of nodes from files as well; y, the
                                       next running mean and variance; attrs.number is the momentum,
                                       0 for that of the file */
    DHOWI_LAYER_ATTENTION,          /* query, key, value, mask, in_proj_weight, in_proj_bias,
                                       out_proj.weight, out_proj.bias; attrs.dim is the number of heads */
    DHOWI_LAYER_RESHAPE,            /* x; attrs.split.shape, one extent may be -1 */
    DHOWI_LAYER_PERMUTE,            /* x; attrs.split.shape is the order */
    DHOWI_LAYER_CAT,                /* any; attrs.dim */
    DHOWI_LAYER_WHERE,              /* condition, a, b */
    DHOWI_LAYER_CLIP,               /* x; attrs.scalar: two f64 */
    DHOWI_LAYER_REDUCE,             /* x; attrs.split.strides marks the axes, .count is a kind of
                                       dhowi_reduce(), .flag[0] keeps them */
    DHOWI_LAYER_SPREAD, /* x; attrs.split as a reduction's, .count is 0 for the variance, 1 for
                           its root; attrs.number the correction */
    DHOWI_LAYER_NARROW, /* x; attrs.dim, .split.n is the first index, .split.count how many */
    DHOWI_LAYER_MAP,    /* operands; attrs.program; attrs.dim is the dtype of the result */
    DHOWI_LAYER_CAST,   /* x; attrs.dim is the dtype */
    DHOWI_LAYER_DOT_ATTENTION, /* query, key, value, mask; attrs.dim is 1 for a causal mask,
                                  .scalar[0] the scale, 0 for 1 / sqrt(e) */
    DHOWI_LAYER_DROPOUT,       /* x, and in training the key of a step; attrs.number is the share of
                                  zeros, .split.n tells layers apart */
    DHOWI_LAYER_LSTM, /* x, then weight_ih, weight_hh, bias_ih, bias_hh of each direction */
    DHOWI_LAYER_CTC   /* log-probabilities, target, see ctc.c; attrs.dim is 1 for zero_infinity */
} dhowi_layer_kind;

const dhowi_operator *dhowi_layer_operator(dhowi_layer_kind kind);
/* The rows that a node of the builder runs; *count of them. */
const dhowi_op_id *dhowi_node_rows(const dhowi_node *node, uint32_t *count);

/* The node's attention by its inputs, without the last product and projection; -1 is no mask. */
dhow_status dhowi_dot_attention_of(dhowi_lowering *b, const int32_t in[4], dhowi_attention *a);
dhow_status dhowi_attention_of(dhowi_lowering *b, const int32_t in[8], dhowi_attention *a);

/* An LSTM layer's inputs, b->in, as those of ONNX's LSTM: x, W, R and B, which is -1 without
 * biases. */
dhow_status dhowi_lstm_of_layer(dhowi_lowering *b, int32_t out[4]);

#endif /* DHOWI_MODEL_OPERATORS_LAYER_H_ */
