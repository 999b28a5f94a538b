/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors made from others or from a rule: zeros, ones, numbers in a row, copies, other dtypes.
 */
#ifndef DHOW_CREATE_H_
#define DHOW_CREATE_H_

#include "dhow/copy.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Creates a tensor of zeros.
 *
 * @param device  where it lies
 * @param dtype   of its elements
 * @param rank    0 to 8
 * @param shape   `rank` extents, 0 or more; DHOW_SHAPE(2, 3) writes both
 * @param out     receives the tensor; NULL on errors
 * @return as dhow_tensor_create()
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_zeros(dhow_device *device, dhow_dtype dtype,
                                                      int32_t rank, const int64_t *shape,
                                                      dhow_tensor **out);

/**
 * Creates a tensor of ones.
 *
 * @param device  where it lies
 * @param dtype   of its elements
 * @param rank    0 to 8
 * @param shape   `rank` extents, 0 or more; DHOW_SHAPE(2, 3) writes both
 * @param out     receives the tensor; NULL on errors
 * @return as dhow_tensor_create()
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_ones(dhow_device *device, dhow_dtype dtype,
                                                     int32_t rank, const int64_t *shape,
                                                     dhow_tensor **out);

/**
 * Creates a row-major tensor with undefined contents on another's device, with its dtype and shape.
 *
 * @param tensor  of any strides; its values are not read
 * @param out     receives the tensor; NULL on errors
 * @return as dhow_tensor_create()
 *
 * Ownership: *out is owned. Threads: any. Blocks: only when memory is short.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_empty_like(const dhow_tensor *tensor,
                                                           dhow_tensor **out);

/**
 * The same filled with zeros.
 *
 * @param tensor  of any strides; its values are not read
 * @param out     receives the tensor; NULL on errors
 * @return as dhow_tensor_create()
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_zeros_like(const dhow_tensor *tensor,
                                                           dhow_tensor **out);

/**
 * The same filled with ones.
 *
 * @param tensor  of any strides; its values are not read
 * @param out     receives the tensor; NULL on errors
 * @return as dhow_tensor_create()
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_ones_like(const dhow_tensor *tensor,
                                                          dhow_tensor **out);

/**
 * The same filled with a number.
 *
 * @param tensor  of any strides; its values are not read
 * @param value   of every element, exactly; DHOW_SCALAR(...)
 * @param out     receives the tensor; NULL on errors
 * @return as dhow_tensor_full_scalar()
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_full_like(const dhow_tensor *tensor,
                                                          dhow_scalar value, dhow_tensor **out);

/**
 * Creates start, start + step, ... before end, of shape [ceil((end - start) / step)]. Element i of
 * floats is start + i step, computed in double; integers are exact.
 *
 * @param device  where it lies
 * @param dtype   of its elements, any but bool
 * @param start, end, step  integer dtypes take whole numbers of 64 signed bits
 * @param out     receives the tensor; NULL on errors
 * @return INVALID_ARGUMENT (step is 0 or leads away from end, or a number is not finite; bool),
 * OUT_OF_RANGE (an element that the dtype has not), or as dhow_tensor_create()
 *
 * Ownership: *out is owned. Threads: any. Blocks: until the values are there.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_arange(dhow_device *device, dhow_dtype dtype,
                                                       dhow_scalar start, dhow_scalar end,
                                                       dhow_scalar step, dhow_tensor **out);

/**
 * A row-major copy in memory of its own.
 *
 * @param stream  of the tensor's device, or NULL for its default stream
 * @param tensor  of any strides
 * @param out     receives the copy; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY, or what the device says
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_clone(dhow_stream *stream, dhow_tensor *tensor,
                                                      dhow_tensor **out);

/**
 * The tensor in another dtype: itself, retained, when it has it already, else a row-major result of
 * dhow_cast().
 *
 * @param stream  of the tensor's device, or NULL for its default stream
 * @param tensor  of any strides
 * @param dtype   of the result
 * @param out     receives the tensor; NULL on errors
 * @return as dhow_cast(), OUT_OF_MEMORY
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_to_dtype(dhow_stream *stream, dhow_tensor *tensor,
                                                         dhow_dtype dtype, dhow_tensor **out);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_CREATE_H_ */
