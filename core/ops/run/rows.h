/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions behind the rows of the operation table.
 */
#ifndef DHOWI_OPS_ROWS_H_
#define DHOWI_OPS_ROWS_H_

#include "base/memory/size.h"
#include "ops/run/op.h"

typedef dhow_status dhowi_infer_fn(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                                   const dhowi_attrs *attrs, dhowi_tensor_desc *out);
typedef dhow_status dhowi_run_fn(const dhowi_call *call);

dhowi_infer_fn dhowi_infer_same, dhowi_infer_broadcast, dhowi_infer_matmul, dhowi_infer_linear,
    dhowi_infer_conv2d, dhowi_infer_pool2d, dhowi_infer_rows, dhowi_infer_layernorm,
    dhowi_infer_reduce, dhowi_infer_argmax, dhowi_infer_gather, dhowi_infer_flatten;
dhowi_run_fn dhowi_run_map, dhowi_run_cast, dhowi_run_copy, dhowi_run_fill, dhowi_run_conv3d,
    dhowi_run_conv_transpose, dhowi_run_pool, dhowi_run_pool_blocks, dhowi_run_pool_index,
    dhowi_run_resample, dhowi_run_gather_axis, dhowi_run_gather_elements,
    dhowi_run_scatter_elements, dhowi_run_scatter_rows, dhowi_run_normalize, dhowi_run_lrn,
    dhowi_run_lstm_cell, dhowi_run_recurrent, dhowi_run_cumsum, dhowi_run_topk, dhowi_run_dropout,
    dhowi_run_decode, dhowi_run_encode, dhowi_run_quantize, dhowi_run_range,
    dhowi_run_scale_of_range, dhowi_run_mean_codes, dhowi_run_roi_align, dhowi_run_determinant,
    dhowi_run_matmul_nbits, dhowi_run_attention, dhowi_run_conv_data_gradient,
    dhowi_run_conv_weight_gradient, dhowi_run_scale_channels, dhowi_run_matmul_integer,
    dhowi_run_attention_cache, dhowi_run_write_steps, dhowi_run_map_codes, dhowi_run_conv2d_integer,
    dhowi_run_matmul_codes, dhowi_run_softmax_scores, dhowi_run_norm_sum, dhowi_run_trees,
    dhowi_run_bitcast, dhowi_run_cumprod, dhowi_run_linear_attention, dhowi_run_causal_conv,
    dhowi_run_experts;
dhowi_run_fn dhowi_run_unary, dhowi_run_binary, dhowi_run_matmul, dhowi_run_linear,
    dhowi_run_conv2d, dhowi_run_pool2d, dhowi_run_image_mean, dhowi_run_softmax,
    dhowi_run_layernorm, dhowi_run_reduce, dhowi_run_argmax, dhowi_run_gather, dhowi_run_flatten;

/* How many items of a GPU's group share a row, see kernels/lanes.h: by extents alone, so that sums
 * are the same on any number of multiprocessors and devices. 0: a group does, element by element.
 */
int32_t dhowi_lanes_of(const dhow_device *device, dhow_dtype dtype, int64_t rows, int64_t cols);
/* Whether rows may be made of two operands while they are read: a row stays with its group. */
bool dhowi_joins_rows(dhow_dtype dtype, int64_t cols);
/* The most numbers of a row that an item keeps in registers. */
static inline int64_t dhowi_kept_by_item(dhow_dtype dtype) {
    return 128 / DHOWI_MAX(dhow_dtype_bytes(dtype), 4);
}

/* In place, see elementwise.c: y += x and y /= x, where x broadcasts to y; y = activation(y),
 * dense.
 */
dhow_status dhowi_add_to(dhow_stream *stream, dhow_tensor *y, dhow_tensor *x);
dhow_status dhowi_divide_by(dhow_stream *stream, dhow_tensor *y, dhow_tensor *x);
dhow_status dhowi_activate(dhow_stream *stream, const dhowi_activation *activation, dhow_tensor *y);
/* Whether matmul's and conv2d's own kernels end with it; else it follows them. */
bool dhowi_kernels_end_with(const dhowi_activation *activation);

/* The window with its defaults filled in; INVALID_ARGUMENT for negative or absurd fields. */
dhow_status dhowi_window_check(const char *op, const dhow_window *window, int64_t kernel_h,
                               int64_t kernel_w, dhow_window *out);

#endif /* DHOWI_OPS_ROWS_H_ */
