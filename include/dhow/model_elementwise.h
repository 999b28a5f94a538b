/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise steps of models that are built.
 * Written by scripts/declare from the maps in dhow/ops.h.
 */
#ifndef DHOW_MODEL_ELEMENTWISE_H_
#define DHOW_MODEL_ELEMENTWISE_H_

#include "dhow/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A step *out = dhow_relu(x): max(x, 0).
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_relu(dhow_model *model, dhow_model_value x,
                                                    dhow_model_value *out);

/**
 * A step *out = dhow_gelu(x): x/2 (1 + erf(x / sqrt 2)), Hendrycks and Gimpel 2016.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_gelu(dhow_model *model, dhow_model_value x,
                                                    dhow_model_value *out);

/**
 * A step *out = dhow_gelu_tanh(x): x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), Hendrycks and
 * Gimpel 2016.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_gelu_tanh(dhow_model *model, dhow_model_value x,
                                                         dhow_model_value *out);

/**
 * A step *out = dhow_silu(x): x / (1 + exp(-x)).
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_silu(dhow_model *model, dhow_model_value x,
                                                    dhow_model_value *out);

/**
 * A step *out = dhow_sigmoid(x): 1 / (1 + exp(-x)).
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_sigmoid(dhow_model *model, dhow_model_value x,
                                                       dhow_model_value *out);

/**
 * A step *out = dhow_tanh(x): tanh x.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_tanh(dhow_model *model, dhow_model_value x,
                                                    dhow_model_value *out);

/**
 * A step *out = dhow_exp(x): e^x.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_exp(dhow_model *model, dhow_model_value x,
                                                   dhow_model_value *out);

/**
 * A step *out = dhow_log(x): natural logarithm; NaN below 0.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_log(dhow_model *model, dhow_model_value x,
                                                   dhow_model_value *out);

/**
 * A step *out = dhow_sqrt(x): square root; NaN below 0.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_sqrt(dhow_model *model, dhow_model_value x,
                                                    dhow_model_value *out);

/**
 * A step *out = dhow_neg(x): -x.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_neg(dhow_model *model, dhow_model_value x,
                                                   dhow_model_value *out);

/**
 * A step *out = dhow_abs(x): |x|.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_abs(dhow_model *model, dhow_model_value x,
                                                   dhow_model_value *out);

/**
 * A step *out = dhow_add(a, b): a + b.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param a, b   f32, f64, f16, bf16, i32, i64, i8 or u8, both the same; shapes broadcast as in
 * NumPy
 * @param out    receives the value, the dtype of a; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_add(dhow_model *model, dhow_model_value a,
                                                   dhow_model_value b, dhow_model_value *out);

/**
 * A step *out = dhow_sub(a, b): a - b.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param a, b   f32, f64, f16, bf16, i32, i64, i8 or u8, both the same; shapes broadcast as in
 * NumPy
 * @param out    receives the value, the dtype of a; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_sub(dhow_model *model, dhow_model_value a,
                                                   dhow_model_value b, dhow_model_value *out);

/**
 * A step *out = dhow_mul(a, b): a b.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param a, b   f32, f64, f16, bf16, i32, i64, i8 or u8, both the same; shapes broadcast as in
 * NumPy
 * @param out    receives the value, the dtype of a; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_mul(dhow_model *model, dhow_model_value a,
                                                   dhow_model_value b, dhow_model_value *out);

/**
 * A step *out = dhow_div(a, b): a / b.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param a, b   f32, f64, f16, bf16, i32, i64, i8 or u8, both the same; shapes broadcast as in
 * NumPy
 * @param out    receives the value, the dtype of a; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_div(dhow_model *model, dhow_model_value a,
                                                   dhow_model_value b, dhow_model_value *out);

/**
 * A step *out = dhow_max(a, b): the larger one, NaN if either is.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param a, b   f32, f64, f16, bf16, i32, i64, i8 or u8, both the same; shapes broadcast as in
 * NumPy
 * @param out    receives the value, the dtype of a; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_max(dhow_model *model, dhow_model_value a,
                                                   dhow_model_value b, dhow_model_value *out);

/**
 * A step *out = dhow_min(a, b): the smaller one, NaN if either is.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param a, b   f32, f64, f16, bf16, i32, i64, i8 or u8, both the same; shapes broadcast as in
 * NumPy
 * @param out    receives the value, the dtype of a; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_min(dhow_model *model, dhow_model_value a,
                                                   dhow_model_value b, dhow_model_value *out);

/**
 * A step *out = dhow_add_scalar(x, s): x + s.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; any dtype but bool
 * @param s      DHOW_SCALAR(...)
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return OUT_OF_RANGE (a number that x's dtype has not, see dhow/scalar.h), INVALID_ARGUMENT (a
 * value is none of this model, or shapes or dtypes that are known do not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_add_scalar(dhow_model *model, dhow_model_value x,
                                                          dhow_scalar s, dhow_model_value *out);

/**
 * A step *out = dhow_sub_scalar(x, s): x - s.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; any dtype but bool
 * @param s      DHOW_SCALAR(...)
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return OUT_OF_RANGE (a number that x's dtype has not, see dhow/scalar.h), INVALID_ARGUMENT (a
 * value is none of this model, or shapes or dtypes that are known do not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_sub_scalar(dhow_model *model, dhow_model_value x,
                                                          dhow_scalar s, dhow_model_value *out);

/**
 * A step *out = dhow_mul_scalar(x, s): x s.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; any dtype but bool
 * @param s      DHOW_SCALAR(...)
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return OUT_OF_RANGE (a number that x's dtype has not, see dhow/scalar.h), INVALID_ARGUMENT (a
 * value is none of this model, or shapes or dtypes that are known do not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_mul_scalar(dhow_model *model, dhow_model_value x,
                                                          dhow_scalar s, dhow_model_value *out);

/**
 * A step *out = dhow_div_scalar(x, s): x / s; of integers truncated, 0 where s is 0.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; any dtype but bool
 * @param s      DHOW_SCALAR(...)
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return OUT_OF_RANGE (a number that x's dtype has not, see dhow/scalar.h), INVALID_ARGUMENT (a
 * value is none of this model, or shapes or dtypes that are known do not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_div_scalar(dhow_model *model, dhow_model_value x,
                                                          dhow_scalar s, dhow_model_value *out);

/**
 * A step *out = dhow_pow_scalar(x, s): x^s; of integers 0, 1 or -1 where s is negative.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; any dtype but bool
 * @param s      DHOW_SCALAR(...)
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return OUT_OF_RANGE (a number that x's dtype has not, see dhow/scalar.h), INVALID_ARGUMENT (a
 * value is none of this model, or shapes or dtypes that are known do not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_pow_scalar(dhow_model *model, dhow_model_value x,
                                                          dhow_scalar s, dhow_model_value *out);

/**
 * A step *out = dhow_max_scalar(x, s): the larger of x and s, NaN if either is.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; any dtype but bool
 * @param s      DHOW_SCALAR(...)
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return OUT_OF_RANGE (a number that x's dtype has not, see dhow/scalar.h), INVALID_ARGUMENT (a
 * value is none of this model, or shapes or dtypes that are known do not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_max_scalar(dhow_model *model, dhow_model_value x,
                                                          dhow_scalar s, dhow_model_value *out);

/**
 * A step *out = dhow_min_scalar(x, s): the smaller of x and s, NaN if either is.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; any dtype but bool
 * @param s      DHOW_SCALAR(...)
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return OUT_OF_RANGE (a number that x's dtype has not, see dhow/scalar.h), INVALID_ARGUMENT (a
 * value is none of this model, or shapes or dtypes that are known do not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_min_scalar(dhow_model *model, dhow_model_value x,
                                                          dhow_scalar s, dhow_model_value *out);

/**
 * A step *out = dhow_erf(x): the error function.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_erf(dhow_model *model, dhow_model_value x,
                                                   dhow_model_value *out);

/**
 * A step *out = dhow_reciprocal(x): 1 / x.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_reciprocal(dhow_model *model, dhow_model_value x,
                                                          dhow_model_value *out);

/**
 * A step *out = dhow_square(x): x x.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_square(dhow_model *model, dhow_model_value x,
                                                      dhow_model_value *out);

/**
 * A step *out = dhow_sign(x): -1, 0 or 1.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_sign(dhow_model *model, dhow_model_value x,
                                                    dhow_model_value *out);

/**
 * A step *out = dhow_floor(x): the next integer below.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_floor(dhow_model *model, dhow_model_value x,
                                                     dhow_model_value *out);

/**
 * A step *out = dhow_ceil(x): the next integer above.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_ceil(dhow_model *model, dhow_model_value x,
                                                    dhow_model_value *out);

/**
 * A step *out = dhow_round(x): the nearest integer, the even one of two.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_round(dhow_model *model, dhow_model_value x,
                                                     dhow_model_value *out);

/**
 * A step *out = dhow_sin(x): sin x.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_sin(dhow_model *model, dhow_model_value x,
                                                   dhow_model_value *out);

/**
 * A step *out = dhow_cos(x): cos x.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_cos(dhow_model *model, dhow_model_value x,
                                                   dhow_model_value *out);

/**
 * A step *out = dhow_tan(x): tan x.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_tan(dhow_model *model, dhow_model_value x,
                                                   dhow_model_value *out);

/**
 * A step *out = dhow_asin(x): arcsin x; NaN outside -1..1.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_asin(dhow_model *model, dhow_model_value x,
                                                    dhow_model_value *out);

/**
 * A step *out = dhow_acos(x): arccos x; NaN outside -1..1.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_acos(dhow_model *model, dhow_model_value x,
                                                    dhow_model_value *out);

/**
 * A step *out = dhow_atan(x): arctan x.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_atan(dhow_model *model, dhow_model_value x,
                                                    dhow_model_value *out);

/**
 * A step *out = dhow_sinh(x): sinh x.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_sinh(dhow_model *model, dhow_model_value x,
                                                    dhow_model_value *out);

/**
 * A step *out = dhow_cosh(x): cosh x.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_cosh(dhow_model *model, dhow_model_value x,
                                                    dhow_model_value *out);

/**
 * A step *out = dhow_asinh(x): arsinh x.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_asinh(dhow_model *model, dhow_model_value x,
                                                     dhow_model_value *out);

/**
 * A step *out = dhow_acosh(x): arcosh x; NaN below 1.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_acosh(dhow_model *model, dhow_model_value x,
                                                     dhow_model_value *out);

/**
 * A step *out = dhow_atanh(x): artanh x; NaN outside -1..1.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_atanh(dhow_model *model, dhow_model_value x,
                                                     dhow_model_value *out);

/**
 * A step *out = dhow_softplus(x): log(1 + e^x).
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_softplus(dhow_model *model, dhow_model_value x,
                                                        dhow_model_value *out);

/**
 * A step *out = dhow_softsign(x): x / (1 + |x|).
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_softsign(dhow_model *model, dhow_model_value x,
                                                        dhow_model_value *out);

/**
 * A step *out = dhow_mish(x): x tanh(softplus(x)), Misra 2019.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_mish(dhow_model *model, dhow_model_value x,
                                                    dhow_model_value *out);

/**
 * A step *out = dhow_hard_swish(x): x max(0, min(1, x/6 + 1/2)), Howard et al. 2019.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param out    receives the value, the dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_hard_swish(dhow_model *model, dhow_model_value x,
                                                          dhow_model_value *out);

/**
 * A step *out = dhow_pow(a, b): a^b.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param a, b   any dtype but bool, both the same; shapes broadcast as in NumPy
 * @param out    receives the value, the dtype of a; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_pow(dhow_model *model, dhow_model_value a,
                                                   dhow_model_value b, dhow_model_value *out);

/**
 * A step *out = dhow_mod(a, b): the remainder with the sign of b, as in Python.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param a, b   any dtype but bool, both the same; shapes broadcast as in NumPy
 * @param out    receives the value, the dtype of a; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_mod(dhow_model *model, dhow_model_value a,
                                                   dhow_model_value b, dhow_model_value *out);

/**
 * A step *out = dhow_fmod(a, b): the remainder with the sign of a, as in C.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param a, b   any dtype but bool, both the same; shapes broadcast as in NumPy
 * @param out    receives the value, the dtype of a; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_fmod(dhow_model *model, dhow_model_value a,
                                                    dhow_model_value b, dhow_model_value *out);

/**
 * A step *out = dhow_equal(a, b): a == b.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param a, b   any dtype but bool, both the same; shapes broadcast as in NumPy
 * @param out    receives the value, bool; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_equal(dhow_model *model, dhow_model_value a,
                                                     dhow_model_value b, dhow_model_value *out);

/**
 * A step *out = dhow_not_equal(a, b): a != b.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param a, b   any dtype but bool, both the same; shapes broadcast as in NumPy
 * @param out    receives the value, bool; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_not_equal(dhow_model *model, dhow_model_value a,
                                                         dhow_model_value b, dhow_model_value *out);

/**
 * A step *out = dhow_less(a, b): a < b.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param a, b   any dtype but bool, both the same; shapes broadcast as in NumPy
 * @param out    receives the value, bool; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_less(dhow_model *model, dhow_model_value a,
                                                    dhow_model_value b, dhow_model_value *out);

/**
 * A step *out = dhow_less_equal(a, b): a <= b.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param a, b   any dtype but bool, both the same; shapes broadcast as in NumPy
 * @param out    receives the value, bool; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_less_equal(dhow_model *model, dhow_model_value a,
                                                          dhow_model_value b,
                                                          dhow_model_value *out);

/**
 * A step *out = dhow_greater(a, b): a > b.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param a, b   any dtype but bool, both the same; shapes broadcast as in NumPy
 * @param out    receives the value, bool; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_greater(dhow_model *model, dhow_model_value a,
                                                       dhow_model_value b, dhow_model_value *out);

/**
 * A step *out = dhow_greater_equal(a, b): a >= b.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param a, b   any dtype but bool, both the same; shapes broadcast as in NumPy
 * @param out    receives the value, bool; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_greater_equal(dhow_model *model, dhow_model_value a,
                                                             dhow_model_value b,
                                                             dhow_model_value *out);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_MODEL_ELEMENTWISE_H_ */
