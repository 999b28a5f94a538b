/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations: inputs first, destination last; the destination exists and has the right shape and
 * dtype. All tensors are on one device, all float tensors of one call have one dtype. f16 and bf16
 * compute in f32.
 *
 * Strided inputs and outputs are allowed everywhere; where the kernel needs contiguous memory a
 * temporary is made. A destination may be exactly one of the inputs for elementwise operations; any
 * other overlap is refused.
 */
#ifndef DHOW_OPS_H_
#define DHOW_OPS_H_

#include "dhow/elementwise.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- elementwise operations: the functions themselves stand in dhow/elementwise.h, which
 * scripts/declare writes from these maps ---- */

/* One input. X(name, formula) */
#define DHOW_UNARY_MAP(X)                                                                    \
    X(relu, "max(x, 0)")                                                                     \
    X(gelu, "x/2 (1 + erf(x / sqrt 2)), Hendrycks and Gimpel 2016")                          \
    X(gelu_tanh, "x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), Hendrycks and Gimpel 2016") \
    X(silu, "x / (1 + exp(-x))")                                                             \
    X(sigmoid, "1 / (1 + exp(-x))")                                                          \
    X(tanh, "tanh x")                                                                        \
    X(exp, "e^x")                                                                            \
    X(log, "natural logarithm; NaN below 0")                                                 \
    X(sqrt, "square root; NaN below 0")                                                      \
    X(neg, "-x")                                                                             \
    X(abs, "|x|")

/* Two inputs. X(name, formula) */
#define DHOW_BINARY_MAP(X)                     \
    X(add, "a + b")                            \
    X(sub, "a - b")                            \
    X(mul, "a b")                              \
    X(div, "a / b")                            \
    X(max, "the larger one, NaN if either is") \
    X(min, "the smaller one, NaN if either is")

/* Further ones of one input. X(name, MAP, formula) */
#define DHOW_FUNCTION_MAP(X)                                    \
    X(erf, ERF, "the error function")                           \
    X(reciprocal, RECIPROCAL, "1 / x")                          \
    X(square, SQUARE, "x x")                                    \
    X(sign, SIGN, "-1, 0 or 1")                                 \
    X(floor, FLOOR, "the next integer below")                   \
    X(ceil, CEIL, "the next integer above")                     \
    X(round, ROUND, "the nearest integer, the even one of two") \
    X(sin, SIN, "sin x")                                        \
    X(cos, COS, "cos x")                                        \
    X(tan, TAN, "tan x")                                        \
    X(asin, ASIN, "arcsin x; NaN outside -1..1")                \
    X(acos, ACOS, "arccos x; NaN outside -1..1")                \
    X(atan, ATAN, "arctan x")                                   \
    X(sinh, SINH, "sinh x")                                     \
    X(cosh, COSH, "cosh x")                                     \
    X(asinh, ASINH, "arsinh x")                                 \
    X(acosh, ACOSH, "arcosh x; NaN below 1")                    \
    X(atanh, ATANH, "artanh x; NaN outside -1..1")              \
    X(softplus, SOFTPLUS, "log(1 + e^x)")                       \
    X(softsign, SOFTSIGN, "x / (1 + |x|)")                      \
    X(mish, MISH, "x tanh(softplus(x)), Misra 2019")            \
    X(hard_swish, HARD_SWISH, "x max(0, min(1, x/6 + 1/2)), Howard et al. 2019")

/**
 * y = x held between low and high; floats and integers.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x f32, f64, f16, bf16 or an integer type
 * @param low, high as numbers of that dtype; NaN in x stays NaN
 * @param y the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_clip(dhow_stream *stream, dhow_tensor *x, double low,
                                              double high, dhow_tensor *y);
/**
 * y = x, alpha x below 0; floats.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x       any shape; f32, f64, f16 or bf16
 * @param alpha   the slope below 0
 * @param y       the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_leaky_relu(dhow_stream *stream, dhow_tensor *x,
                                                    double alpha, dhow_tensor *y);
/**
 * y = x, alpha (e^x - 1) below 0; floats. Clevert et al. 2015.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x       any shape; f32, f64, f16 or bf16
 * @param alpha   the bound below 0, with its sign turned
 * @param y       the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_elu(dhow_stream *stream, dhow_tensor *x, double alpha,
                                             dhow_tensor *y);

/* Further ones of two inputs. X(name, MAP, formula) */
#define DHOW_FURTHER_BINARY_MAP(X)                                \
    X(pow, POW, "a^b")                                            \
    X(mod, MOD, "the remainder with the sign of b, as in Python") \
    X(fmod, FMOD, "the remainder with the sign of a, as in C")

/* y is bool. X(name, MAP, formula) */
#define DHOW_COMPARE_MAP(X)     \
    X(equal, EQ, "a == b")      \
    X(not_equal, NE, "a != b")  \
    X(less, LT, "a < b")        \
    X(less_equal, LE, "a <= b") \
    X(greater, GT, "a > b")     \
    X(greater_equal, GE, "a >= b")

/* With a number (dhow/scalar.h) in the place of a tensor. X(name, formula) */
#define DHOW_SCALAR_MAP(X)                                    \
    X(add, "x + s")                                           \
    X(sub, "x - s")                                           \
    X(mul, "x s")                                             \
    X(div, "x / s; of integers truncated, 0 where s is 0")    \
    X(pow, "x^s; of integers 0, 1 or -1 where s is negative") \
    X(max, "the larger of x and s, NaN if either is")         \
    X(min, "the smaller of x and s, NaN if either is")

/**
 * Element by element: y = a x + b with numbers, in one pass. f16 and bf16 compute in f32, in which
 * a and b are; integers wrap; floats may be rounded once or twice.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x  any shape; any dtype but bool
 * @param a, b  DHOW_SCALAR(...)
 * @param y  the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor; a number is not whole that must be), OUT_OF_RANGE (a number that
 * x's dtype has not, see dhow/scalar.h), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_affine(dhow_stream *stream, dhow_tensor *x, dhow_scalar a,
                                                dhow_scalar b, dhow_tensor *y);

/**
 * y = a where the condition (bool) is true, else b; all three broadcast. Any dtype of a, b and y.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param condition bool
 * @param a, b any dtype, both the same
 * @param y the shape that all three broadcast to, the dtype of a
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_where(dhow_stream *stream, dhow_tensor *condition,
                                               dhow_tensor *a, dhow_tensor *b, dhow_tensor *y);

/**
 * y = x in y's dtype. Floats become integers by truncation, saturated, NaN as 0; bool is x != 0.
 * All dtypes.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x any shape and dtype
 * @param y the shape of x, any dtype
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_cast(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y);

/**
 * Sets all elements of y to a value.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param y       any shape and dtype
 * @param value   of every element; integers take it truncated, bool as value != 0
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_fill(dhow_stream *stream, dhow_tensor *y, double value);

/**
 * Sets all elements of y to a number, exact for integers. All dtypes.
 *
 * @param stream  of y's device, or NULL for its default stream
 * @param y any shape and dtype
 * @param value  DHOW_SCALAR(...)
 * @return INVALID_ARGUMENT (y is frozen; a number is not whole that must be), OUT_OF_RANGE (a
 * number that y's dtype has not, see dhow/scalar.h), UNSUPPORTED (the device has no kernel for this
 * dtype), OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed;
 * dhow_last_native_code() is its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_fill_scalar(dhow_stream *stream, dhow_tensor *y,
                                                     dhow_scalar value);

/* ---- matrix products: f32 f64 f16 bf16 ---- */

/**
 * c = a b with a[..., m, k], b[..., k, n], c[..., m, n]; the outer extents are equal or b has
 * none.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param a [..., m, k]; f32, f64, f16 or bf16
 * @param b [..., k, n] or [k, n]; the dtype of a
 * @param c [..., m, n]; the dtype of a; no input
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_matmul(dhow_stream *stream, dhow_tensor *a, dhow_tensor *b,
                                                dhow_tensor *c);

/**
 * y = x w^T + bias with x[..., in], w[out, in], bias[out] or NULL, y[..., out]. A frozen w is
 * packed once.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x [..., in]; f32, f64, f16 or bf16
 * @param w [out, in]
 * @param bias [out], or NULL
 * @param y [..., out]; no input
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_linear(dhow_stream *stream, dhow_tensor *x, dhow_tensor *w,
                                                dhow_tensor *bias, dhow_tensor *y);

/* ---- images, NCHW: f32 f64 f16 bf16 ---- */

/** Window of a convolution or a pooling. Zero fields take the defaults: strides and dilations 1,
 * groups 1, no padding. */
typedef struct dhow_window {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    int64_t
        kernel[2]; /**< rows, columns; of pooling and layers of models, else the weight has it */
    int64_t stride[2];   /**< rows, columns */
    int64_t pad[4];      /**< top, left, bottom, right */
    int64_t dilation[2]; /**< convolution only */
    int64_t groups;      /**< convolution only */
} dhow_window;

/**
 * y[n,k,oh,ow] = cross-correlation of x[n,c,h,w] with weight[k,c/groups,kh,kw], plus bias[k] or
 * NULL; oh = (h + top + bottom - dilation (kh - 1) - 1) / stride + 1.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x [n, c, h, w]; f32, f64, f16 or bf16
 * @param weight [k, c/groups, kh, kw]
 * @param bias [k], or NULL
 * @param window NULL: all defaults
 * @param y [n, k, oh, ow]; no input
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_conv2d(dhow_stream *stream, dhow_tensor *x,
                                                dhow_tensor *weight, dhow_tensor *bias,
                                                const dhow_window *window, dhow_tensor *y);

/**
 * y[n,c,oh,ow] = largest element of each window of x[n,c,h,w]; padding never wins.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x [n, c, h, w]; f32, f64, f16 or bf16
 * @param window its kernel is needed
 * @param y [n, c, oh, ow]; no input
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_maxpool2d(dhow_stream *stream, dhow_tensor *x,
                                                   const dhow_window *window, dhow_tensor *y);

/**
 * y[n,c,oh,ow] = mean of the elements of each window that lie inside x[n,c,h,w].
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x [n, c, h, w]; f32, f64, f16 or bf16
 * @param window its kernel is needed
 * @param y [n, c, oh, ow]; no input
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_avgpool2d(dhow_stream *stream, dhow_tensor *x,
                                                   const dhow_window *window, dhow_tensor *y);

/* ---- rows and reductions: f32 f64 f16 bf16 (reductions also i32 i64) ---- */

/**
 * y = exp(x - max x) / sum along `dim`.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x f32, f64, f16 or bf16
 * @param dim counted from the end when negative
 * @param y the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_softmax(dhow_stream *stream, dhow_tensor *x, int32_t dim,
                                                 dhow_tensor *y);

/**
 * y = log of softmax along `dim`.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x f32, f64, f16 or bf16
 * @param dim counted from the end when negative
 * @param y the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_log_softmax(dhow_stream *stream, dhow_tensor *x,
                                                     int32_t dim, dhow_tensor *y);

/**
 * y = (x - mean) / sqrt(variance + eps) gamma + beta over the last dimension, Ba et al. 2016;
 * gamma[n], beta[n].
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x [..., n]; f32, f64, f16 or bf16
 * @param gamma, beta [n]
 * @param eps added to the variance
 * @param y the shape and dtype of x; may be x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_layernorm(dhow_stream *stream, dhow_tensor *x,
                                                   dhow_tensor *gamma, dhow_tensor *beta, float eps,
                                                   dhow_tensor *y);

/**
 * Sum along a dimension; integers wrap.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x f32, f64, f16, bf16, i32 or i64
 * @param dim counted from the end when negative
 * @param y x's shape with extent 1 at dim, or without that dimension; the dtype of x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_reduce_sum(dhow_stream *stream, dhow_tensor *x,
                                                    int32_t dim, dhow_tensor *y);
/**
 * Mean along a dimension; floats only.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x f32, f64, f16 or bf16
 * @param dim counted from the end when negative
 * @param y x's shape with extent 1 at dim, or without that dimension; the dtype of x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_reduce_mean(dhow_stream *stream, dhow_tensor *x,
                                                     int32_t dim, dhow_tensor *y);
/**
 * Largest element along a dimension of extent >= 1.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x f32, f64, f16, bf16, i32 or i64
 * @param dim counted from the end when negative
 * @param y x's shape with extent 1 at dim, or without that dimension; the dtype of x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_reduce_max(dhow_stream *stream, dhow_tensor *x,
                                                    int32_t dim, dhow_tensor *y);
/**
 * Smallest element along a dimension of extent >= 1.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x f32, f64, f16, bf16, i32 or i64
 * @param dim counted from the end when negative
 * @param y x's shape with extent 1 at dim, or without that dimension; the dtype of x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_reduce_min(dhow_stream *stream, dhow_tensor *x,
                                                    int32_t dim, dhow_tensor *y);
/**
 * Index of the first largest element along a dimension of extent >= 1; y is i64.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x f32, f64, f16, bf16, i32 or i64
 * @param dim counted from the end when negative
 * @param y i64; x's shape with extent 1 at dim, or without that dimension
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_argmax(dhow_stream *stream, dhow_tensor *x, int32_t dim,
                                                dhow_tensor *y);

/**
 * y[i, ...] = x[index[i], ...]; index is i64[count] on the same device; an index outside x gives
 * zeros. Any dtype.
 *
 * @param stream  of the tensors' device, or NULL for its default stream
 * @param x [m, ...]; any dtype
 * @param index i64[count]
 * @param y [count, ...]; the dtype of x
 * @return INVALID_ARGUMENT (devices, shapes or dtypes do not fit, y is frozen or overlaps an input;
 * the message names the tensor), UNSUPPORTED (the device has no kernel for this dtype),
 * OUT_OF_MEMORY (workspace), DEVICE_LOST, INTERNAL (the driver failed; dhow_last_native_code() is
 * its number)
 *
 * Ownership: tensors live until the work has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_gather(dhow_stream *stream, dhow_tensor *x,
                                                dhow_tensor *index, dhow_tensor *y);

/* ---- what eager functions and steps of models share ---- */

/** What stands around a padded tensor, as PyTorch's F.pad() has it. */
typedef enum dhow_pad_mode {
    DHOW_PAD_CONSTANT = 0,  /**< a value */
    DHOW_PAD_REFLECT = 1,   /**< the tensor mirrored at its first and last element */
    DHOW_PAD_REPLICATE = 2, /**< its first and last element */
    DHOW_PAD_CIRCULAR = 3   /**< the tensor from its other end */
} dhow_pad_mode;

/** What a scatter makes of the element that is there and the one that comes. */
typedef enum dhow_scatter_mode {
    DHOW_SCATTER_REPLACE = 0, /**< the one that comes; of several for one place, any */
    DHOW_SCATTER_SUM = 1,
    DHOW_SCATTER_PROD = 2,
    DHOW_SCATTER_MAX = 3,
    DHOW_SCATTER_MIN = 4
} dhow_scatter_mode;

/** A convolution over one to three dimensions, the outermost first, as PyTorch has its arguments.
 * Zero fields take the defaults: strides and dilations 1, groups 1, no padding. Numbers of further
 * dimensions than the function has are not looked at. */
typedef struct dhow_conv_options {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    int64_t kernel[3];    /**< of layers of models; else the weight has it */
    int64_t stride[3];    /**< how far the window moves */
    int64_t padding[3];   /**< zeros before and after x; of a transposed one, what is cut off */
    int64_t dilation[3];  /**< how far the kernel's elements are apart */
    int64_t output_padding[3]; /**< elements more after the result, of transposed ones */
    int64_t groups;            /**< parts of the channels that do not see each other */
} dhow_conv_options;

/** How dhow_model_interpolate() finds values between those there are, as PyTorch. */
typedef enum dhow_interpolation {
    DHOW_INTERPOLATE_NEAREST = 0, /**< the one at floor(place) */
    DHOW_INTERPOLATE_LINEAR = 1,  /**< linear, bilinear, trilinear */
    DHOW_INTERPOLATE_CUBIC = 2,   /**< by cubic convolution of four, with a = -0.75; Keys 1981 */
    DHOW_INTERPOLATE_NEAREST_EXACT = 3, /**< the one whose middle is nearest */
    DHOW_INTERPOLATE_AREA = 4 /**< means of what each new element covers, as adaptive pooling */
} dhow_interpolation;

#ifdef __cplusplus
}
#endif

#endif /* DHOW_OPS_H_ */
