/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations of neural networks and by index that are operators of ONNX: each call is a model of
 * one step. Its plan is kept for calls with the same arguments, shapes and device - the latest 32
 * that need little memory - until the program releases its last reference of the context. As in
 * dhow/ops.h: inputs first, destination last, all on one device, strides as they are. The steps of
 * models by the same names stand in dhow/model_steps.h.
 *
 * Weights are inputs here like any others. Where a vendor's library wants them in an order of its
 * own, as oneDNN does for convolutions on the CPU, each call brings them into it: a program may
 * write to a tensor by its host pointer between two calls, of which nothing is noted. Layers of
 * models keep their parameters in that order, dhow_conv2d() and dhow_linear() weights that
 * dhow_tensor_freeze() was called for.
 */
#ifndef DHOW_NN_H_
#define DHOW_NN_H_

#include "dhow/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * y = x with elements around it, as PyTorch's F.pad().
 *
 * @param stream       of the tensors' device, or NULL for its default stream
 * @param x            any dtype
 * @param pads, count  how many before and after the last dimension, then the one before it, and so
 * on; negative ones cut
 * @param mode         which DHOW_PAD_...: what stands around x
 * @param value        of DHOW_PAD_CONSTANT
 * @param y            the dtype of x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen; the message names
 * the tensor), UNSUPPORTED (the device has no kernel for this dtype), OUT_OF_MEMORY (workspace),
 * DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_pad(dhow_stream *stream, dhow_tensor *x,
                                             const int64_t *pads, uint32_t count,
                                             dhow_pad_mode mode, double value, dhow_tensor *y);

/**
 * y = the indices of a dimension that `index` names, in its order.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x       any dtype
 * @param dim     of x that the index is of; -1 is the last
 * @param index   i64[count]; negative ones count from the end, others outside x give zeros
 * @param y       x's shape with extent count at dim; the dtype of x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen; the message names
 * the tensor), OUT_OF_RANGE (no such dimension), UNSUPPORTED (the device has no kernel for this
 * dtype), OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed;
 * dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_index_select(dhow_stream *stream, dhow_tensor *x,
                                                      int32_t dim, dhow_tensor *index,
                                                      dhow_tensor *y);

/**
 * y = for each index the element of x there along dim, and at the index's own place elsewhere;
 * PyTorch's gather().
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x       any dtype
 * @param index   i64 of x's rank, no larger than x but along dim; negative ones count from the end,
 * others outside x give zeros
 * @param dim     of x that the index is of; -1 is the last
 * @param y       the shape of index, the dtype of x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen; the message names
 * the tensor), OUT_OF_RANGE (no such dimension), UNSUPPORTED (the device has no kernel for this
 * dtype), OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed;
 * dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_take_along_dim(dhow_stream *stream, dhow_tensor *x,
                                                        dhow_tensor *index, int32_t dim,
                                                        dhow_tensor *y);

/**
 * y = x with elements of source at the places that the index names along dim.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x       any dtype; bool is only replaced
 * @param dim     of x that the index is of; -1 is the last
 * @param index   i64 of x's rank, no larger than x but along dim
 * @param source  the shape of index, the dtype of x
 * @param reduce  what becomes of the elements of x; not DHOW_SCATTER_REPLACE: an element may come
 * 4096 times
 * @param y       the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen; the message names
 * the tensor), OUT_OF_RANGE (no such dimension), UNSUPPORTED (the device has no kernel for this
 * dtype), OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed;
 * dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not; a reduction waits for index.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_scatter(dhow_stream *stream, dhow_tensor *x, int32_t dim,
                                                 dhow_tensor *index, dhow_tensor *source,
                                                 dhow_scatter_mode reduce, dhow_tensor *y);

/**
 * y = the rows of weight that `index` names; PyTorch's F.embedding().
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param index  i64, any shape; negative ones count from the end, others outside weight give zeros
 * @param weight  [count, features]; any dtype
 * @param y  [index..., features], the dtype of weight
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen; the message names
 * the tensor), UNSUPPORTED (the device has no kernel for this dtype), OUT_OF_MEMORY (workspace),
 * DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_embedding(dhow_stream *stream, dhow_tensor *index,
                                                   dhow_tensor *weight, dhow_tensor *y);

/**
 * y = the cross-correlation of x with a weight over one dimension, plus a bias.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  [n, c, l]; f32, f64, f16 or bf16
 * @param weight  [k, c / groups, ...]
 * @param bias  [k], or NULL
 * @param options  NULL: all defaults; its kernel is not looked at
 * @param y  [n, k, ...] with extents (extent + 2 padding - dilation (kernel - 1) - 1) / stride + 1
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen; the message names
 * the tensor), UNSUPPORTED (the device has no kernel for this dtype), OUT_OF_MEMORY (workspace),
 * DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_conv1d(dhow_stream *stream, dhow_tensor *x,
                                                dhow_tensor *weight, dhow_tensor *bias,
                                                const dhow_conv_options *options, dhow_tensor *y);

/**
 * y = the cross-correlation of x with a weight over three dimensions, plus a bias.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  [n, c, d, h, w]; f32, f64, f16 or bf16
 * @param weight  [k, c / groups, ...]
 * @param bias  [k], or NULL
 * @param options  NULL: all defaults; its kernel is not looked at
 * @param y  [n, k, ...] with extents (extent + 2 padding - dilation (kernel - 1) - 1) / stride + 1
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen; the message names
 * the tensor), UNSUPPORTED (the device has no kernel for this dtype), OUT_OF_MEMORY (workspace),
 * DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_conv3d(dhow_stream *stream, dhow_tensor *x,
                                                dhow_tensor *weight, dhow_tensor *bias,
                                                const dhow_conv_options *options, dhow_tensor *y);

/**
 * y = the transposed convolution of x with a weight over one dimension, plus a bias.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  [n, c, l]; f32, f64, f16 or bf16
 * @param weight  [c, k / groups, ...]
 * @param bias  [k], or NULL
 * @param options  NULL: all defaults; its kernel is not looked at
 * @param y  [n, k, ...] with extents (extent - 1) stride + dilation (kernel - 1) + output_padding +
 * 1 - 2 padding
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen; the message names
 * the tensor), UNSUPPORTED (the device has no kernel for this dtype), OUT_OF_MEMORY (workspace),
 * DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_conv_transpose1d(dhow_stream *stream, dhow_tensor *x,
                                                          dhow_tensor *weight, dhow_tensor *bias,
                                                          const dhow_conv_options *options,
                                                          dhow_tensor *y);

/**
 * y = the transposed convolution of x with a weight over two dimensions, plus a bias.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  [n, c, h, w]; f32, f64, f16 or bf16
 * @param weight  [c, k / groups, ...]
 * @param bias  [k], or NULL
 * @param options  NULL: all defaults; its kernel is not looked at
 * @param y  [n, k, ...] with extents (extent - 1) stride + dilation (kernel - 1) + output_padding +
 * 1 - 2 padding
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen; the message names
 * the tensor), UNSUPPORTED (the device has no kernel for this dtype), OUT_OF_MEMORY (workspace),
 * DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_conv_transpose2d(dhow_stream *stream, dhow_tensor *x,
                                                          dhow_tensor *weight, dhow_tensor *bias,
                                                          const dhow_conv_options *options,
                                                          dhow_tensor *y);

/**
 * y = the transposed convolution of x with a weight over three dimensions, plus a bias.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  [n, c, d, h, w]; f32, f64, f16 or bf16
 * @param weight  [c, k / groups, ...]
 * @param bias  [k], or NULL
 * @param options  NULL: all defaults; its kernel is not looked at
 * @param y  [n, k, ...] with extents (extent - 1) stride + dilation (kernel - 1) + output_padding +
 * 1 - 2 padding
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen; the message names
 * the tensor), UNSUPPORTED (the device has no kernel for this dtype), OUT_OF_MEMORY (workspace),
 * DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_conv_transpose3d(dhow_stream *stream, dhow_tensor *x,
                                                          dhow_tensor *weight, dhow_tensor *bias,
                                                          const dhow_conv_options *options,
                                                          dhow_tensor *y);

/**
 * y = (x - mean) / sqrt(var + eps) weight + bias for each channel, with given statistics; Ioffe and
 * Szegedy 2015.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x       [n, c, ...]; f32, f64, f16 or bf16
 * @param running_mean, running_var, weight, bias  [c]
 * @param eps     added to the variance
 * @param y       the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen; the message names
 * the tensor), UNSUPPORTED (the device has no kernel for this dtype), OUT_OF_MEMORY (workspace),
 * DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_batchnorm(dhow_stream *stream, dhow_tensor *x,
                                                   dhow_tensor *running_mean,
                                                   dhow_tensor *running_var, dhow_tensor *weight,
                                                   dhow_tensor *bias, float eps, dhow_tensor *y);

/**
 * y = groups of channels brought to mean 0 and variance 1, scaled and shifted by channel; Wu and
 * He 2018.
 *
 * @param stream        of the tensors' device, or NULL for its default stream
 * @param x             [n, c, ...]; f32, f64, f16 or bf16
 * @param groups        divides c
 * @param weight, bias  [c]
 * @param eps           added to the variance
 * @param y             the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen; the message names
 * the tensor), UNSUPPORTED (the device has no kernel for this dtype), OUT_OF_MEMORY (workspace),
 * DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_groupnorm(dhow_stream *stream, dhow_tensor *x,
                                                   int64_t groups, dhow_tensor *weight,
                                                   dhow_tensor *bias, float eps, dhow_tensor *y);

/**
 * y = x / sqrt(mean(x^2) + eps) weight over the last dimension; Zhang and Sennrich 2019.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x       [..., f]; f32, f64, f16 or bf16
 * @param weight  [f]
 * @param eps     added to the mean of squares
 * @param y       the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen; the message names
 * the tensor), UNSUPPORTED (the device has no kernel for this dtype), OUT_OF_MEMORY (workspace),
 * DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_rmsnorm(dhow_stream *stream, dhow_tensor *x,
                                                 dhow_tensor *weight, float eps, dhow_tensor *y);

/**
 * y = x / (1 - p) with elements replaced by 0 that are drawn with probability p; Srivastava et al.
 * 2014, PyTorch's F.dropout of a model in training. The same seed draws the same elements on every
 * device: the gradient of x is dhow_dropout() of that of y.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  f32, f64, f16 or bf16
 * @param p  0 to 1
 * @param seed  element i is 0 where the upper half of the i-th number of SplitMix64 (Steele, Lea
 * and Flood 2014) from mix(seed + 0x9e3779b97f4a7c15) lies below p 2^32
 * @param y  the shape and dtype of x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, p is no probability, y is frozen;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_dropout(dhow_stream *stream, dhow_tensor *x, double p,
                                                 uint64_t seed, dhow_tensor *y);

/**
 * y = softmax(scale query key^T + mask) value, Vaswani et al. 2017; PyTorch's function of that
 * name.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param query, key, value  [..., l, e], [..., s, e], [..., s, v] with the same extents before, but
 * that the heads of query, the extent before l, may be a multiple of the others': each of those
 * serves as many in a row; f32, f64, f16 or bf16
 * @param mask  of their dtype it is added, of bool it keeps what it is true for; it broadcasts to
 * [..., l, s]; or NULL
 * @param is_causal  not 0: row i sees columns up to i; no mask besides
 * @param scale  0: 1 / sqrt(e)
 * @param y  [..., l, v]
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen; the message names
 * the tensor), UNSUPPORTED (the device has no kernel for this dtype), OUT_OF_MEMORY (workspace),
 * DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_scaled_dot_product_attention(
    dhow_stream *stream, dhow_tensor *query, dhow_tensor *key, dhow_tensor *value,
    dhow_tensor *mask, int32_t is_causal, double scale, dhow_tensor *y);

/**
 * y = images, rows or volumes in another size; PyTorch's F.interpolate().
 *
 * @param stream         of the tensors' device, or NULL for its default stream
 * @param x              [n, c] and one to three dimensions; f32, f64, f16 or bf16
 * @param size           the extent of each of these, or NULL
 * @param scale_factor   what each is multiplied by, where size is NULL; else NULL
 * @param mode           which DHOW_INTERPOLATE_...: how elements are found
 * @param align_corners  not 0: the first and last elements stay where they are; of
 * DHOW_INTERPOLATE_LINEAR and DHOW_INTERPOLATE_CUBIC
 * @param y              [n, c] and the size, or floor(extent scale_factor)
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen; the message names
 * the tensor), UNSUPPORTED (the device has no kernel for this dtype), OUT_OF_MEMORY (workspace),
 * DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_interpolate(dhow_stream *stream, dhow_tensor *x,
                                                     const int64_t *size,
                                                     const double *scale_factor,
                                                     dhow_interpolation mode, int32_t align_corners,
                                                     dhow_tensor *y);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_NN_H_ */
