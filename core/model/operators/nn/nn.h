/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of neural networks: windows over images, normalisation, recurrence, losses, quantised
 * arithmetic, and the layers of the builder.
 */
#ifndef DHOWI_MODEL_OPERATORS_NN_H_
#define DHOWI_MODEL_OPERATORS_NN_H_

#include "model/lower/composite.h"
#include "model/lower/lower.h"
#include "model/operators/nn/window.h"

/* causal.c */
dhowi_lower_fn dhowi_lower_causal_conv;
/* conv.c */
dhowi_lower_fn dhowi_lower_conv, dhowi_lower_conv_transpose;
/* The window of a transposed convolution by the attributes of the node, with its extents. */
dhow_status dhowi_transposed_window(const dhowi_lowering *b, int32_t x, int32_t weight,
                                    dhowi_window3d *s);
/* loss.c */
dhowi_lower_fn dhowi_lower_softmax, dhowi_lower_hardmax;
dhowi_lower_fn dhowi_lower_likelihood_loss, dhowi_lower_entropy_loss;
/* norm.c */
dhowi_lower_fn dhowi_lower_layer_norm, dhowi_lower_rms_norm, dhowi_lower_batch_norm,
    dhowi_lower_instance_norm, dhowi_lower_group_norm, dhowi_lower_lp_norm, dhowi_lower_mvn,
    dhowi_lower_lrn;
/* pool.c */
dhowi_lower_fn dhowi_lower_pool, dhowi_lower_global_pool, dhowi_lower_max_unpool;
/* quantize.c */
dhowi_lower_fn dhowi_lower_quantize, dhowi_lower_dequantize, dhowi_lower_dynamic_quantize,
    dhowi_lower_matmul_integer, dhowi_lower_conv_integer, dhowi_lower_qlinear_matmul,
    dhowi_lower_qlinear_conv;
/* recurrent.c */
dhowi_lower_fn dhowi_lower_lstm, dhowi_lower_gru, dhowi_lower_rnn, dhowi_lower_ms_dynamic_lstm;
/* recurrent_whole.c */
typedef struct dhowi_recurrent_node {
    int gates; /* 1, 3 or 4 */
    int64_t steps, batch, inputs, hidden, directions;
    bool batchwise;           /* the attribute layout */
    int32_t x;                /* [steps, batch, inputs] */
    dhowi_recurrent rules[2]; /* of each direction */
    bool ordinary;            /* with the functions that the standard has for it, and no more */
} dhowi_recurrent_node;
/* What the node's attributes say of its steps; of `gates` and `directions`. */
dhow_status dhowi_recurrent_rules(const dhowi_lowering *b, dhowi_recurrent_node *n);
/* Whether all time steps are one step. A node that is not ordinary has no other form: it is refused
 * where it has not this one. */
dhow_status dhowi_recurs_whole(const dhowi_lowering *b, const dhowi_recurrent_node *n, bool *out);
/* The node's outputs by that. lengths of the sequences are i32[batch], or -1 where all have all
 * steps. */
dhow_status dhowi_recur_whole(dhowi_lowering *b, const dhowi_recurrent_node *n, int32_t lengths);
/* resize.c */
dhowi_lower_fn dhowi_lower_resize;
/* The derivative by a Resize node's x, from that of its result. */
dhow_status dhowi_resize_back(dhowi_lowering *b, int32_t dy, int32_t *out);
/* sample.c */
dhowi_lower_fn dhowi_lower_grid_sample, dhowi_lower_deform_conv, dhowi_lower_roi_align;
/* Rows of the last dimension brought to a root mean square of 1, `centred` ones to mean 0 before;
 * shift may be -1. */
dhow_status dhowi_norm(dhowi_lowering *b, int32_t x, int32_t scale, int32_t shift, double eps,
                       bool centred, int32_t *out);
/* A norm along the marked axes, and 1 where it is 0: zeros stay zeros. */
dhow_status dhowi_norm_to_divide_by(dhowi_lowering *b, int kind, int32_t x, const bool *axes,
                                    int32_t *out);
/* Softmax or log-softmax of x along an axis, or, `flat`, of everything from it on. */
dhow_status dhowi_softmax_along(dhowi_lowering *b, dhowi_op_id op, int32_t x, int64_t axis,
                                bool flat, int32_t *out);
/* The kernel's extents, which the node's kernel_shape repeats if it is there. */
dhow_status dhowi_kernel_of_weight(const dhowi_lowering *b, const dhowi_tensor_desc *w,
                                   dhowi_window3d *s);
/* Refuses an input x that is not quantised, and a zero point, where it is given, of another type
 * than x has. */
dhow_status dhowi_check_quantised(const dhowi_lowering *b, uint32_t x, uint32_t zero);
/* x in bytes: the codes, scale = (max(x, 0) - min(x, 0)) / 255, and zero = saturate(round(-min /
 * scale)), as DynamicQuantizeLinear. */
dhow_status dhowi_quantised_by_range(dhowi_lowering *b, int32_t x, int32_t out[3]);
/* (x - zero) as f32, of codes; zero may be -1. */
dhow_status dhowi_centred(dhowi_lowering *b, int32_t x, int32_t zero, int32_t *out);
/* What the quantised input i stands for: scale[axis] (x - zero), by inputs i + 1 and i + 2, which
 * may be missing. */
dhow_status dhowi_real_of(dhowi_lowering *b, uint32_t i, int64_t axis, int32_t *out);
/* x as integers, by the scale that input i is and the zero point that i + 1 is: of the latter's
 * type, or of `dtype` where it is missing. */
dhow_status dhowi_quantized_by(dhowi_lowering *b, int32_t x, uint32_t i, dhow_dtype dtype,
                               int32_t *out);
/* The sums of a convolution of integers by the attributes of the node, as i32; *out is -1 where the
 * device or the operands have no such convolution. */
dhow_status dhowi_sum_conv(dhowi_lowering *b, int32_t x, int32_t weight, int32_t *out);
/* The convolution in integers alone, of a weight that may be an item without numbers that tells of
 * what it is; *out is -1 where there is none. */
dhow_status dhowi_convolve_codes(dhowi_lowering *b, int32_t x, int32_t weight, int32_t bias,
                                 int32_t *out);
/* A convolution by the attributes of the node. */
dhow_status dhowi_convolve(dhowi_lowering *b, int32_t x, int32_t weight, int32_t bias,
                           int32_t *out);
/* (x - mean) / sqrt(variance + eps) scale + bias by the node's inputs x, scale, bias, mean,
 * variance */
dhow_status dhowi_batch_norm(dhowi_lowering *b, double eps, int32_t *out);
/* By the batch's own statistics, which the second and third output, the running ones, follow. */
dhowi_lower_fn dhowi_lower_batch_norm_training;
/* Of the node of a norm, from a file or from the builder. */
double dhowi_norm_eps(const dhowi_lowering *b);
/* The mean of channels, [1, c, 1, ...], x without it, and the mean of the squares of that. */
dhow_status dhowi_batch_statistics(dhowi_lowering *b, int32_t x, int32_t *mean, int32_t *apart,
                                   int32_t *variance);
/* 1 / sqrt(x + eps) */
dhow_status dhowi_inverse_root(dhowi_lowering *b, int32_t x, double eps, int32_t *out);

#endif /* DHOWI_MODEL_OPERATORS_NN_H_ */
