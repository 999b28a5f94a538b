/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions behind the rows of the operator table.
 */
#ifndef DHOWI_MODEL_OPERATORS_H_
#define DHOWI_MODEL_OPERATORS_H_

#include "model/lower.h"

/* lower_math.c */
dhowi_lower_fn dhowi_lower_unary, dhowi_lower_binary, dhowi_lower_compare, dhowi_lower_logic,
    dhowi_lower_variadic, dhowi_lower_where, dhowi_lower_clip, dhowi_lower_pow, dhowi_lower_mod,
    dhowi_lower_shift, dhowi_lower_cast, dhowi_lower_identity, dhowi_lower_dropout,
    dhowi_lower_prelu;
/* lower_shape.c */
dhowi_lower_fn dhowi_lower_shape, dhowi_lower_size, dhowi_lower_reshape, dhowi_lower_flatten,
    dhowi_lower_squeeze, dhowi_lower_unsqueeze, dhowi_lower_transpose, dhowi_lower_concat,
    dhowi_lower_split, dhowi_lower_slice, dhowi_lower_expand, dhowi_lower_tile,
    dhowi_lower_depth_to_space, dhowi_lower_space_to_depth, dhowi_lower_if;
/* lower_index.c */
dhowi_lower_fn dhowi_lower_gather, dhowi_lower_gather_elements, dhowi_lower_gather_nd,
    dhowi_lower_scatter_elements, dhowi_lower_scatter_nd, dhowi_lower_constant,
    dhowi_lower_constant_of_shape, dhowi_lower_range, dhowi_lower_eye_like, dhowi_lower_one_hot,
    dhowi_lower_trilu, dhowi_lower_cumsum, dhowi_lower_topk;
/* lower_reduce.c */
dhowi_lower_fn dhowi_lower_reduce, dhowi_lower_arg, dhowi_lower_softmax, dhowi_lower_hardmax,
    dhowi_lower_layer_norm, dhowi_lower_batch_norm, dhowi_lower_instance_norm,
    dhowi_lower_group_norm, dhowi_lower_rms_norm, dhowi_lower_lp_norm, dhowi_lower_mvn,
    dhowi_lower_lrn;
/* lower_window.c */
dhowi_lower_fn dhowi_lower_conv, dhowi_lower_conv_transpose, dhowi_lower_pool,
    dhowi_lower_global_pool, dhowi_lower_pad, dhowi_lower_resize;
/* lower_matrix.c */
dhowi_lower_fn dhowi_lower_matmul, dhowi_lower_gemm, dhowi_lower_quantize, dhowi_lower_dequantize,
    dhowi_lower_dynamic_quantize, dhowi_lower_matmul_integer, dhowi_lower_conv_integer,
    dhowi_lower_qlinear_matmul, dhowi_lower_qlinear_conv;
/* lower_recurrent.c */
dhowi_lower_fn dhowi_lower_lstm, dhowi_lower_gru, dhowi_lower_rnn;
/* lower_host.c */
dhowi_lower_fn dhowi_lower_non_zero, dhowi_lower_compress, dhowi_lower_non_max_suppression;
/* lower_sequence.c */
dhowi_lower_fn dhowi_lower_sequence_empty, dhowi_lower_sequence_construct,
    dhowi_lower_sequence_insert, dhowi_lower_sequence_erase, dhowi_lower_sequence_at,
    dhowi_lower_sequence_length, dhowi_lower_split_to_sequence, dhowi_lower_concat_from_sequence,
    dhowi_lower_optional, dhowi_lower_optional_has, dhowi_lower_optional_get;
/* lower_einsum.c */
dhowi_lower_fn dhowi_lower_einsum;
/* lower_grid.c */
dhowi_lower_fn dhowi_lower_grid_sample;
/* lower_loop.c */
dhowi_lower_fn dhowi_lower_loop, dhowi_lower_sequence_map;
/* lower_loss.c */
dhowi_lower_fn dhowi_lower_likelihood_loss, dhowi_lower_entropy_loss;
/* lower_rotary.c */
dhowi_lower_fn dhowi_lower_rotary;
/* lower_rearrange.c */
dhowi_lower_fn dhowi_lower_center_crop_pad, dhowi_lower_reverse_sequence, dhowi_lower_col2im;
/* lower_numbers.c */
dhowi_lower_fn dhowi_lower_window, dhowi_lower_affine_grid;
/* lower_text.c */
dhowi_lower_fn dhowi_lower_string_normalizer;
/* gradient.c */
dhowi_lower_fn dhowi_lower_gradient;
/* lower_row.c */
dhowi_lower_fn dhowi_lower_row;

/* ---- shared between them ---- */

/* The axes of a reduction, Squeeze or Unsqueeze: the attribute, or input `from` where it is given.
 */
dhow_status dhowi_axes(dhowi_lowering *b, uint32_t from, int64_t *out, uint32_t *count);
/* The numbers of an input that gives one for each dimension, `name` in messages. */
dhow_status dhowi_shape_values(dhowi_lowering *b, int32_t ref, const char *name,
                               int64_t out[DHOW_MAX_RANK], uint32_t *count);
/* y[o][k][i] = x[o][index[k]][i] along an axis; index is known or i64 on the device */
dhow_status dhowi_gather_along(dhowi_lowering *b, int32_t x, int32_t axis, int32_t index,
                               int32_t *out);
/* The same with numbers of the host. */
dhow_status dhowi_pick(dhowi_lowering *b, int32_t x, int32_t axis, const int64_t *index,
                       int64_t count, int32_t *out);
dhow_status dhowi_concat(dhowi_lowering *b, const int32_t *in, uint32_t count, int32_t axis,
                         int32_t *out);
/* The reduction of a Scatter node; 0: none. */
dhow_status dhowi_scatter_kind(const dhowi_lowering *b, dhowi_map_op *op);
/* x, seen as [rows, inner], with updates [count, inner] reduced into the rows `targets`. */
dhow_status dhowi_scatter_reduced(dhowi_lowering *b, dhowi_map_op op, int32_t x, int32_t updates,
                                  int64_t *targets, int64_t count, int64_t rows, int64_t inner,
                                  int32_t *out);
/* x with `value` before and after it; negative padding cuts. */
dhow_status dhowi_pad_with(dhowi_lowering *b, int32_t x, const int64_t *before,
                           const int64_t *after, double value, int32_t *out);
/* count numbers start, start + step, ... */
dhow_status dhowi_numbers(dhowi_lowering *b, dhow_dtype dtype, double start, double step,
                          int64_t count, int32_t *out);
enum {
    DHOWI_SUM,
    DHOWI_MEAN,
    DHOWI_MAX_OF,
    DHOWI_MIN_OF,
    DHOWI_PROD,
    DHOWI_L1,
    DHOWI_L2,
    DHOWI_LOG_SUM,
    DHOWI_LOG_SUM_EXP,
    DHOWI_SUM_SQUARE
};
/* Reduces the marked axes, which stay as extents of 1. */
dhow_status dhowi_reduce(dhowi_lowering *b, int kind, int32_t x, const bool *axes, int32_t *out);
/* a[..., m, k] b[..., k, n] with outer extents that broadcast; bias may be -1 */
dhow_status dhowi_product(dhowi_lowering *b, int32_t x, int32_t y, int32_t bias, int32_t *out);
/* A convolution by the attributes of the node. */
dhow_status dhowi_convolve(dhowi_lowering *b, int32_t x, int32_t weight, int32_t bias,
                           int32_t *out);
/* (x - mean) / sqrt(variance + eps) scale + bias by the node's inputs x, scale, bias, mean,
 * variance */
dhow_status dhowi_batch_norm(dhowi_lowering *b, double eps, int32_t *out);
/* v as a row along `axis` of a tensor of `rank` dimensions: [n] as [1, n, 1, 1]. */
dhow_status dhowi_along(dhowi_lowering *b, int32_t v, int32_t rank, int32_t axis, int32_t *out);

#endif /* DHOWI_MODEL_OPERATORS_H_ */
