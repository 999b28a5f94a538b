/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives: a walk back over the nodes of a graph, and a rule for each operator.
 */
#ifndef DHOWI_MODEL_OPERATORS_GRADIENT_H_
#define DHOWI_MODEL_OPERATORS_GRADIENT_H_

#include "model/lower/lower.h"

typedef struct dhowi_reverser {
    dhowi_lowering *b;
    const dhowi_node *node; /* being walked over */
    bool *leads;            /* by value: it depends on one of xs */
    int32_t *slope;         /* by value: the derivative of y, -1 when there is none yet */
    int32_t dy;             /* of the node's first output */
} dhowi_reverser;

/* Adds to the derivatives of the node's inputs what its result's derivative gives. */
typedef dhow_status dhowi_back_fn(dhowi_reverser *r);
dhowi_back_fn dhowi_back_div, dhowi_back_exp, dhowi_back_identity, dhowi_back_log,
    dhowi_back_matmul, dhowi_back_mul, dhowi_back_neg, dhowi_back_pow, dhowi_back_reduce_mean,
    dhowi_back_reduce_sum, dhowi_back_relu, dhowi_back_reshape, dhowi_back_sigmoid, dhowi_back_sqrt,
    dhowi_back_sub, dhowi_back_sum, dhowi_back_tanh, dhowi_back_transpose;

#endif /* DHOWI_MODEL_OPERATORS_GRADIENT_H_ */
