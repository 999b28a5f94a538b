/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over any dimensions, and what goes along one: running sums and the largest elements.
 */
#ifndef DHOW_REDUCE_H_
#define DHOW_REDUCE_H_

#include "dhow/copy.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dhow_reduction {
    DHOW_REDUCE_SUM = 1,  /**< integers wrap; 0 of no elements */
    DHOW_REDUCE_MEAN = 2, /**< floats only */
    DHOW_REDUCE_MAX = 3,  /**< NaN if any is */
    DHOW_REDUCE_MIN = 4,
    DHOW_REDUCE_PROD = 5 /**< integers wrap; 1 of no elements */
} dhow_reduction;

/**
 * Reduces x over dimensions: y[...] = sum, mean, ... of all elements of x whose other indices are
 * these.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param kind    which DHOW_REDUCE_...; a mean of floats only
 * @param x       f32, f64, f16, bf16, i32 or i64
 * @param dims    `count` different ones in any order, negative ones from the end
 * @param count   of dims; 0: all of x's
 * @param y       the dtype of x, and its shape without these dimensions or with extents of 1 for
 * them
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, a dimension is named twice, y is
 * frozen or overlaps x), OUT_OF_RANGE (no such dimension), UNSUPPORTED (the device has no kernel
 * for this dtype), OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed;
 * dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_reduce(dhow_stream *stream, dhow_reduction kind,
                                                dhow_tensor *x, const int32_t *dims, uint32_t count,
                                                dhow_tensor *y);

/**
 * Variance over dimensions: sum of (x - mean)^2 / max(0, n - correction) of n elements each, in two
 * passes; f16 and bf16 compute in f32.
 *
 * @param stream       of the tensors' device, or NULL for its default stream
 * @param x            f32, f64, f16 or bf16
 * @param dims, count  as for dhow_reduce()
 * @param correction   1 for a sample (PyTorch's default), 0 for a population
 * @param y            as for dhow_reduce()
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, a dimension is named twice, y is
 * frozen or overlaps x), OUT_OF_RANGE (no such dimension), UNSUPPORTED (the device has no kernel
 * for this dtype), OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed;
 * dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_var(dhow_stream *stream, dhow_tensor *x,
                                             const int32_t *dims, uint32_t count, double correction,
                                             dhow_tensor *y);

/**
 * Standard deviation over dimensions: the square root of dhow_var().
 *
 * @param stream, x, dims, count, correction, y  as for dhow_var()
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, a dimension is named twice, y is
 * frozen or overlaps x), OUT_OF_RANGE (no such dimension), UNSUPPORTED (the device has no kernel
 * for this dtype), OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed;
 * dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_std(dhow_stream *stream, dhow_tensor *x,
                                             const int32_t *dims, uint32_t count, double correction,
                                             dhow_tensor *y);

/**
 * Index of the first smallest element along a dimension of extent >= 1; a NaN counts as smallest.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x       f32, f64, f16, bf16, i32 or i64
 * @param dim     that is reduced; -1 is the last
 * @param y       i64, x's shape with extent 1 at `dim` or without that dimension
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, a dimension is named twice, y is
 * frozen or overlaps x), OUT_OF_RANGE (no such dimension), UNSUPPORTED (the device has no kernel
 * for this dtype), OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed;
 * dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_argmin(dhow_stream *stream, dhow_tensor *x, int32_t dim,
                                                dhow_tensor *y);

/**
 * Running sums along a dimension: y[..., j, ...] = x[..., 0, ...] + ... + x[..., j, ...].
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x       f32, f64, i32 or i64; integers wrap
 * @param dim     along which it sums; -1 is the last
 * @param y       the shape and dtype of x; no input
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, a dimension is named twice, y is
 * frozen or overlaps x), OUT_OF_RANGE (no such dimension), UNSUPPORTED (the device has no kernel
 * for this dtype), OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed;
 * dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_cumsum(dhow_stream *stream, dhow_tensor *x, int32_t dim,
                                                dhow_tensor *y);

/**
 * The k largest or smallest elements along a dimension, in order, and where they were; of equal
 * ones the first come first, 0 and -0 are equal, and NaN counts as largest.
 *
 * @param stream   of the tensors' device, or NULL for its default stream
 * @param x        any dtype; false comes before true
 * @param k        0 to the extent of `dim`; the extent sorts
 * @param dim      along which it chooses; -1 is the last
 * @param largest  1: from the largest down (PyTorch's default), 0: from the smallest up
 * @param values   the dtype of x, its shape with extent k at `dim`
 * @param indices  i64 of the same shape
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, a dimension is named twice, y is
 * frozen or overlaps x), OUT_OF_RANGE (no such dimension), UNSUPPORTED (the extent is above 2^31 -
 * 1), OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code()
 * is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_topk(dhow_stream *stream, dhow_tensor *x, int64_t k,
                                              int32_t dim, int32_t largest, dhow_tensor *values,
                                              dhow_tensor *indices);

/**
 * All elements along a dimension in order, and where they were; of equal ones the first come first,
 * 0 and -0 are equal, and NaN counts as largest. The time grows with n log(n) of the extent n.
 *
 * @param stream      of the tensors' device, or NULL for its default stream
 * @param x           any dtype; false comes before true
 * @param dim         along which it sorts; -1 is the last
 * @param descending  0: from the smallest up (PyTorch's default), 1: from the largest down
 * @param values      the dtype of x, its shape
 * @param indices     i64 of the same shape
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, a dimension is named twice, y is
 * frozen or overlaps x), OUT_OF_RANGE (no such dimension), UNSUPPORTED (the extent is above 2^31 -
 * 1), OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code()
 * is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_sort(dhow_stream *stream, dhow_tensor *x, int32_t dim,
                                              int32_t descending, dhow_tensor *values,
                                              dhow_tensor *indices);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_REDUCE_H_ */
