/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise operations on tensors.
 * Written by scripts/declare from the maps in dhow/ops.h.
 */
#ifndef DHOW_ELEMENTWISE_H_
#define DHOW_ELEMENTWISE_H_

#include "dhow/copy.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Element by element: y = max(x, 0).
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_relu(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = x/2 (1 + erf(x / sqrt 2)), Hendrycks and Gimpel 2016.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_gelu(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), Hendrycks and Gimpel
 * 2016.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_gelu_tanh(dhow_stream *stream, dhow_tensor *x,
                                                   dhow_tensor *y);

/**
 * Element by element: y = x / (1 + exp(-x)).
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_silu(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = 1 / (1 + exp(-x)).
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_sigmoid(dhow_stream *stream, dhow_tensor *x,
                                                 dhow_tensor *y);

/**
 * Element by element: y = tanh x.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tanh(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = e^x.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_exp(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = natural logarithm; NaN below 0.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_log(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = square root; NaN below 0.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_sqrt(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = -x.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_neg(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = |x|.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_abs(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element, with shapes that broadcast as in NumPy: y = a + b. Integers wrap; a division
 * of integers by zero gives 0, one of floats what IEEE 754 says.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param a, b f32, f64, f16, bf16, i32, i64, i8 or u8, both the same
 * @param y the shape that both broadcast to, the dtype of a; may be an input of that shape
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_add(dhow_stream *stream, dhow_tensor *a, dhow_tensor *b,
                                             dhow_tensor *y);

/**
 * Element by element, with shapes that broadcast as in NumPy: y = a - b. Integers wrap; a division
 * of integers by zero gives 0, one of floats what IEEE 754 says.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param a, b f32, f64, f16, bf16, i32, i64, i8 or u8, both the same
 * @param y the shape that both broadcast to, the dtype of a; may be an input of that shape
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_sub(dhow_stream *stream, dhow_tensor *a, dhow_tensor *b,
                                             dhow_tensor *y);

/**
 * Element by element, with shapes that broadcast as in NumPy: y = a b. Integers wrap; a division
 * of integers by zero gives 0, one of floats what IEEE 754 says.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param a, b f32, f64, f16, bf16, i32, i64, i8 or u8, both the same
 * @param y the shape that both broadcast to, the dtype of a; may be an input of that shape
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_mul(dhow_stream *stream, dhow_tensor *a, dhow_tensor *b,
                                             dhow_tensor *y);

/**
 * Element by element, with shapes that broadcast as in NumPy: y = a / b. Integers wrap; a division
 * of integers by zero gives 0, one of floats what IEEE 754 says.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param a, b f32, f64, f16, bf16, i32, i64, i8 or u8, both the same
 * @param y the shape that both broadcast to, the dtype of a; may be an input of that shape
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_div(dhow_stream *stream, dhow_tensor *a, dhow_tensor *b,
                                             dhow_tensor *y);

/**
 * Element by element, with shapes that broadcast as in NumPy: y = the larger one, NaN if either
 * is. Integers wrap; a division of integers by zero gives 0, one of floats what IEEE 754 says.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param a, b f32, f64, f16, bf16, i32, i64, i8 or u8, both the same
 * @param y the shape that both broadcast to, the dtype of a; may be an input of that shape
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_max(dhow_stream *stream, dhow_tensor *a, dhow_tensor *b,
                                             dhow_tensor *y);

/**
 * Element by element, with shapes that broadcast as in NumPy: y = the smaller one, NaN if either
 * is. Integers wrap; a division of integers by zero gives 0, one of floats what IEEE 754 says.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param a, b f32, f64, f16, bf16, i32, i64, i8 or u8, both the same
 * @param y the shape that both broadcast to, the dtype of a; may be an input of that shape
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_min(dhow_stream *stream, dhow_tensor *a, dhow_tensor *b,
                                             dhow_tensor *y);

/**
 * Element by element: y = the error function.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_erf(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = 1 / x.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_reciprocal(dhow_stream *stream, dhow_tensor *x,
                                                    dhow_tensor *y);

/**
 * Element by element: y = x x.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_square(dhow_stream *stream, dhow_tensor *x,
                                                dhow_tensor *y);

/**
 * Element by element: y = -1, 0 or 1.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_sign(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = the next integer below.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_floor(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = the next integer above.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_ceil(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = the nearest integer, the even one of two.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_round(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = sin x.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_sin(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = cos x.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_cos(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = tan x.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tan(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = arcsin x; NaN outside -1..1.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_asin(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = arccos x; NaN outside -1..1.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_acos(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = arctan x.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_atan(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = sinh x.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_sinh(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = cosh x.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_cosh(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = arsinh x.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_asinh(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = arcosh x; NaN below 1.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_acosh(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = artanh x; NaN outside -1..1.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_atanh(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = log(1 + e^x).
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_softplus(dhow_stream *stream, dhow_tensor *x,
                                                  dhow_tensor *y);

/**
 * Element by element: y = x / (1 + |x|).
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_softsign(dhow_stream *stream, dhow_tensor *x,
                                                  dhow_tensor *y);

/**
 * Element by element: y = x tanh(softplus(x)), Misra 2019.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_mish(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Element by element: y = x max(0, min(1, x/6 + 1/2)), Howard et al. 2019.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; f32, f64, f16 or bf16
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_hard_swish(dhow_stream *stream, dhow_tensor *x,
                                                    dhow_tensor *y);

/**
 * Element by element, with shapes that broadcast as in NumPy: y = a^b.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param a, b any dtype but bool, both the same
 * @param y the shape that both broadcast to, the dtype of a; may be an input of that shape
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_pow(dhow_stream *stream, dhow_tensor *a, dhow_tensor *b,
                                             dhow_tensor *y);

/**
 * Element by element, with shapes that broadcast as in NumPy: y = the remainder with the sign of
 * b, as in Python.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param a, b any dtype but bool, both the same
 * @param y the shape that both broadcast to, the dtype of a; may be an input of that shape
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_mod(dhow_stream *stream, dhow_tensor *a, dhow_tensor *b,
                                             dhow_tensor *y);

/**
 * Element by element, with shapes that broadcast as in NumPy: y = the remainder with the sign of
 * a, as in C.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param a, b any dtype but bool, both the same
 * @param y the shape that both broadcast to, the dtype of a; may be an input of that shape
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_fmod(dhow_stream *stream, dhow_tensor *a, dhow_tensor *b,
                                              dhow_tensor *y);

/**
 * Element by element: y = x + s. One pass, without a tensor for the number. f16 and bf16 compute
 * in f32, in which s is; integers wrap.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; any dtype but bool
 * @param s  DHOW_SCALAR(...)
 * @param y  the shape and dtype of x; may be x
 * @return OUT_OF_RANGE (a number that x's dtype has not, see dhow/scalar.h), INVALID_ARGUMENT
 * (devices, shapes or dtypes do not fit, y is frozen or overlaps an input; the message names the
 * tensor), UNSUPPORTED (the device has no kernel for this dtype), OUT_OF_MEMORY (workspace),
 * DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_add_scalar(dhow_stream *stream, dhow_tensor *x,
                                                    dhow_scalar s, dhow_tensor *y);

/**
 * Element by element: y = x - s. One pass, without a tensor for the number. f16 and bf16 compute
 * in f32, in which s is; integers wrap.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; any dtype but bool
 * @param s  DHOW_SCALAR(...)
 * @param y  the shape and dtype of x; may be x
 * @return OUT_OF_RANGE (a number that x's dtype has not, see dhow/scalar.h), INVALID_ARGUMENT
 * (devices, shapes or dtypes do not fit, y is frozen or overlaps an input; the message names the
 * tensor), UNSUPPORTED (the device has no kernel for this dtype), OUT_OF_MEMORY (workspace),
 * DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_sub_scalar(dhow_stream *stream, dhow_tensor *x,
                                                    dhow_scalar s, dhow_tensor *y);

/**
 * Element by element: y = x s. One pass, without a tensor for the number. f16 and bf16 compute in
 * f32, in which s is; integers wrap.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; any dtype but bool
 * @param s  DHOW_SCALAR(...)
 * @param y  the shape and dtype of x; may be x
 * @return OUT_OF_RANGE (a number that x's dtype has not, see dhow/scalar.h), INVALID_ARGUMENT
 * (devices, shapes or dtypes do not fit, y is frozen or overlaps an input; the message names the
 * tensor), UNSUPPORTED (the device has no kernel for this dtype), OUT_OF_MEMORY (workspace),
 * DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_mul_scalar(dhow_stream *stream, dhow_tensor *x,
                                                    dhow_scalar s, dhow_tensor *y);

/**
 * Element by element: y = x / s; of integers truncated, 0 where s is 0. One pass, without a tensor
 * for the number. f16 and bf16 compute in f32, in which s is; integers wrap.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; any dtype but bool
 * @param s  DHOW_SCALAR(...)
 * @param y  the shape and dtype of x; may be x
 * @return OUT_OF_RANGE (a number that x's dtype has not, see dhow/scalar.h), INVALID_ARGUMENT
 * (devices, shapes or dtypes do not fit, y is frozen or overlaps an input; the message names the
 * tensor), UNSUPPORTED (the device has no kernel for this dtype), OUT_OF_MEMORY (workspace),
 * DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_div_scalar(dhow_stream *stream, dhow_tensor *x,
                                                    dhow_scalar s, dhow_tensor *y);

/**
 * Element by element: y = x^s; of integers 0, 1 or -1 where s is negative. One pass, without a
 * tensor for the number. f16 and bf16 compute in f32, in which s is; integers wrap.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; any dtype but bool
 * @param s  DHOW_SCALAR(...)
 * @param y  the shape and dtype of x; may be x
 * @return OUT_OF_RANGE (a number that x's dtype has not, see dhow/scalar.h), INVALID_ARGUMENT
 * (devices, shapes or dtypes do not fit, y is frozen or overlaps an input; the message names the
 * tensor), UNSUPPORTED (the device has no kernel for this dtype), OUT_OF_MEMORY (workspace),
 * DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_pow_scalar(dhow_stream *stream, dhow_tensor *x,
                                                    dhow_scalar s, dhow_tensor *y);

/**
 * Element by element: y = the larger of x and s, NaN if either is. One pass, without a tensor for
 * the number. f16 and bf16 compute in f32, in which s is; integers wrap.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; any dtype but bool
 * @param s  DHOW_SCALAR(...)
 * @param y  the shape and dtype of x; may be x
 * @return OUT_OF_RANGE (a number that x's dtype has not, see dhow/scalar.h), INVALID_ARGUMENT
 * (devices, shapes or dtypes do not fit, y is frozen or overlaps an input; the message names the
 * tensor), UNSUPPORTED (the device has no kernel for this dtype), OUT_OF_MEMORY (workspace),
 * DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_max_scalar(dhow_stream *stream, dhow_tensor *x,
                                                    dhow_scalar s, dhow_tensor *y);

/**
 * Element by element: y = the smaller of x and s, NaN if either is. One pass, without a tensor for
 * the number. f16 and bf16 compute in f32, in which s is; integers wrap.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; any dtype but bool
 * @param s  DHOW_SCALAR(...)
 * @param y  the shape and dtype of x; may be x
 * @return OUT_OF_RANGE (a number that x's dtype has not, see dhow/scalar.h), INVALID_ARGUMENT
 * (devices, shapes or dtypes do not fit, y is frozen or overlaps an input; the message names the
 * tensor), UNSUPPORTED (the device has no kernel for this dtype), OUT_OF_MEMORY (workspace),
 * DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_min_scalar(dhow_stream *stream, dhow_tensor *x,
                                                    dhow_scalar s, dhow_tensor *y);

/**
 * Element by element, with shapes that broadcast as in NumPy: y = a == b. y is bool.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param a, b any dtype but bool, both the same
 * @param y the shape that both broadcast to, bool; may be an input of that shape
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_equal(dhow_stream *stream, dhow_tensor *a, dhow_tensor *b,
                                               dhow_tensor *y);

/**
 * Element by element, with shapes that broadcast as in NumPy: y = a != b. y is bool.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param a, b any dtype but bool, both the same
 * @param y the shape that both broadcast to, bool; may be an input of that shape
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_not_equal(dhow_stream *stream, dhow_tensor *a,
                                                   dhow_tensor *b, dhow_tensor *y);

/**
 * Element by element, with shapes that broadcast as in NumPy: y = a < b. y is bool.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param a, b any dtype but bool, both the same
 * @param y the shape that both broadcast to, bool; may be an input of that shape
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_less(dhow_stream *stream, dhow_tensor *a, dhow_tensor *b,
                                              dhow_tensor *y);

/**
 * Element by element, with shapes that broadcast as in NumPy: y = a <= b. y is bool.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param a, b any dtype but bool, both the same
 * @param y the shape that both broadcast to, bool; may be an input of that shape
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_less_equal(dhow_stream *stream, dhow_tensor *a,
                                                    dhow_tensor *b, dhow_tensor *y);

/**
 * Element by element, with shapes that broadcast as in NumPy: y = a > b. y is bool.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param a, b any dtype but bool, both the same
 * @param y the shape that both broadcast to, bool; may be an input of that shape
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_greater(dhow_stream *stream, dhow_tensor *a,
                                                 dhow_tensor *b, dhow_tensor *y);

/**
 * Element by element, with shapes that broadcast as in NumPy: y = a >= b. y is bool.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param a, b any dtype but bool, both the same
 * @param y the shape that both broadcast to, bool; may be an input of that shape
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_greater_equal(dhow_stream *stream, dhow_tensor *a,
                                                       dhow_tensor *b, dhow_tensor *y);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_ELEMENTWISE_H_ */
