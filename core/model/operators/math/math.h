/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of arithmetic: elementwise, reductions, products, gradients.
 */
#ifndef DHOWI_MODEL_OPERATORS_MATH_H_
#define DHOWI_MODEL_OPERATORS_MATH_H_

#include "model/lower/composite.h"
#include "model/lower/lower.h"

/* einsum.c */
dhowi_lower_fn dhowi_lower_einsum;
/* elementwise.c */
dhowi_lower_fn dhowi_lower_unary, dhowi_lower_binary, dhowi_lower_compare, dhowi_lower_logic,
    dhowi_lower_shift, dhowi_lower_mod, dhowi_lower_pow, dhowi_lower_variadic, dhowi_lower_where,
    dhowi_lower_clip, dhowi_lower_prelu, dhowi_lower_cast, dhowi_lower_identity,
    dhowi_lower_dropout;
/* fourier.c */
dhowi_lower_fn dhowi_lower_dft, dhowi_lower_stft;
/* gradient.c */
dhowi_lower_fn dhowi_lower_gradient;
/* matrix.c */
dhowi_lower_fn dhowi_lower_matmul, dhowi_lower_gemm, dhowi_lower_det;
/* reduce.c */
dhowi_lower_fn dhowi_lower_reduce, dhowi_lower_arg;

#endif /* DHOWI_MODEL_OPERATORS_MATH_H_ */
