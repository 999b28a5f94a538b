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
    dhowi_lower_clip, dhowi_lower_prelu, dhowi_lower_cast, dhowi_lower_bitcast, dhowi_lower_swiglu,
    dhowi_lower_identity;
/* x sigmoid(alpha x) */
dhow_status dhowi_swish(dhowi_lowering *b, int32_t x, double alpha, int32_t *out);
/* fourier.c */
dhowi_lower_fn dhowi_lower_dft, dhowi_lower_stft;
/* gradient.c */
dhowi_lower_fn dhowi_lower_gradient;
/* matrix.c */
dhowi_lower_fn dhowi_lower_matmul, dhowi_lower_gemm, dhowi_lower_det;
/* reduce.c */
dhowi_lower_fn dhowi_lower_reduce, dhowi_lower_arg;

/* ---- the CTC loss, see ctc.c ---- */

/* Places are a target's classes with blanks around them; ways are logarithms of sums over them. */
typedef struct dhowi_ctc {
    dhow_dtype dtype;
    int64_t steps, batch, classes, labels, states; /* places: 2 labels + 1 */
    int32_t length, target_length;                 /* [batch, 1] */
    int32_t label;                                 /* i64[batch, states]: the class of each place */
    int32_t score;                                 /* [steps, batch, states]: its log-probability */
    int32_t skip, end; /* [batch, states]: 0 where a way may skip the blank before a place, or
                          end there, else far below */
    int32_t last;      /* [batch, states]: ways up to the end of each sequence */
    int32_t forward, backward; /* [steps, batch, states]: up to a step, from it on, both with it */
    int32_t loss;              /* [batch, 1] */
    int32_t fits;              /* [batch, 1]: 1 where there is a way, else 0 */
    int32_t share;             /* [batch, 1]: what a loss is divided by */
    int32_t wrong;             /* how many lengths and classes are none */
} dhowi_ctc;

/* Of log-probabilities x[t, n, c] and target i64[n, 2 + s]: lengths of input and target, then
 * classes. All but `backward`. */
dhow_status dhowi_ctc_forward(dhowi_lowering *b, int32_t x, int32_t target, dhowi_ctc *c);
dhow_status dhowi_ctc_backward(dhowi_lowering *b, dhowi_ctc *c);
/* The node's loss, one number; attrs.dim is 1 where sequences without a way count 0. */
dhowi_lower_fn dhowi_lower_ctc;

#endif /* DHOWI_MODEL_OPERATORS_MATH_H_ */
