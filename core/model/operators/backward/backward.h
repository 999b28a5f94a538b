/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives: a walk back over the nodes of a graph, and a rule for each operator.
 */
#ifndef DHOWI_MODEL_OPERATORS_BACKWARD_H_
#define DHOWI_MODEL_OPERATORS_BACKWARD_H_

#include "model/lower/composite.h"
#include "model/lower/lower.h"

typedef struct dhowi_reverser {
    dhowi_lowering *b;      /* b->node is the node being walked over, for its attributes */
    const dhowi_node *node; /* the same */
    bool *leads;            /* by value: it depends on one of xs */
    int32_t *slope;         /* by value: the derivative of y, -1 when there is none yet */
    int32_t dy;             /* of the node's first output; -1 where only another one has it */
    bool half;              /* the rule computes in 16 bits, see precision.c */
} dhowi_reverser;

/* Adds to the derivatives of the node's inputs what its result's derivative gives. */
typedef dhow_status dhowi_back_fn(dhowi_reverser *r);

/* Named by the table of operators. */
/* activations.c */
dhowi_back_fn dhowi_back_cast, dhowi_back_celu, dhowi_back_mean, dhowi_back_mod, dhowi_back_prelu,
    dhowi_back_selu, dhowi_back_shrink, dhowi_back_threshold;
/* elementwise.c */
dhowi_back_fn dhowi_back_abs, dhowi_back_acos, dhowi_back_acosh, dhowi_back_asin, dhowi_back_asinh,
    dhowi_back_atan, dhowi_back_atanh, dhowi_back_cosh, dhowi_back_sinh, dhowi_back_tan,
    dhowi_back_clip, dhowi_back_cos, dhowi_back_div, dhowi_back_dropout, dhowi_back_elu,
    dhowi_back_erf, dhowi_back_exp, dhowi_back_extreme, dhowi_back_gelu, dhowi_back_gelu_tanh,
    dhowi_back_gelu_of_mode, dhowi_back_hard_sigmoid, dhowi_back_hard_swish, dhowi_back_identity,
    dhowi_back_leaky, dhowi_back_log, dhowi_back_mish, dhowi_back_mul, dhowi_back_neg,
    dhowi_back_none, dhowi_back_pow, dhowi_back_reciprocal, dhowi_back_relu, dhowi_back_sigmoid,
    dhowi_back_silu, dhowi_back_sin, dhowi_back_softplus, dhowi_back_softsign, dhowi_back_sqrt,
    dhowi_back_square, dhowi_back_sub, dhowi_back_sum, dhowi_back_swiglu, dhowi_back_tanh,
    dhowi_back_where;
/* shapes.c */
dhowi_back_fn dhowi_back_center_crop_pad, dhowi_back_concat, dhowi_back_cumsum,
    dhowi_back_depth_to_space, dhowi_back_narrow, dhowi_back_pad, dhowi_back_reshape,
    dhowi_back_resize, dhowi_back_reverse_sequence, dhowi_back_slice, dhowi_back_space_to_depth,
    dhowi_back_split, dhowi_back_tile, dhowi_back_transpose, dhowi_back_trilu;
/* index.c */
dhowi_back_fn dhowi_back_gather, dhowi_back_gather_elements, dhowi_back_gather_nd,
    dhowi_back_one_hot, dhowi_back_range, dhowi_back_scatter_elements, dhowi_back_scatter_nd,
    dhowi_back_topk;
/* products.c */
dhowi_back_fn dhowi_back_gemm, dhowi_back_linear, dhowi_back_matmul;
/* attention.c */
dhowi_back_fn dhowi_back_attention, dhowi_back_dot_attention, dhowi_back_rotary;
/* norms.c */
dhowi_back_fn dhowi_back_batch_norm, dhowi_back_batch_norm_training, dhowi_back_group_norm,
    dhowi_back_instance_norm, dhowi_back_layer_norm, dhowi_back_lp_norm, dhowi_back_lrn,
    dhowi_back_mvn, dhowi_back_rms_norm;
/* reductions.c */
dhowi_back_fn dhowi_back_global_pool, dhowi_back_log_softmax, dhowi_back_reduce, dhowi_back_softmax,
    dhowi_back_spread;
/* nn/pools.c */
dhowi_back_fn dhowi_back_avgpool, dhowi_back_lp_pool, dhowi_back_maxpool;
/* nn/convolutions.c */
dhowi_back_fn dhowi_back_conv, dhowi_back_conv_transpose;
/* nn/ctc.c */
dhowi_back_fn dhowi_back_ctc;
/* nn/recurrent.c */
dhowi_back_fn dhowi_back_gru, dhowi_back_lstm, dhowi_back_lstm_layer, dhowi_back_rnn;
/* losses.c */
dhowi_back_fn dhowi_back_entropy_loss, dhowi_back_likelihood_loss;
/* Whether the builder made it: its attributes are in `attrs`. */
static inline bool dhowi_is_built(const dhowi_node *node) { return node->source == NULL; }
/* Whether one of some values, -1 for none, is marked. */
bool dhowi_is_marked(const bool *marks, const int32_t *values, uint32_t count);
/* Marks, by value, what depends on the values that are marked already, also by way of branches. */
void dhowi_find_leads(const dhowi_node *nodes, uint32_t count, bool *leads);
/* What the rule of a node knows of its input i: a constant has a derivative that it does not make,
 * by others it is 0. */
typedef enum dhowi_by { DHOWI_BY_VALUE, DHOWI_BY_CONSTANT, DHOWI_BY_NOTHING } dhowi_by;
dhowi_by dhowi_back_by(const dhowi_node *node, uint32_t i);
/* Refuses by name the first constant of a node that depends on one of xs, as `leads` says. */
dhow_status dhowi_back_check(const dhow_model *m, const dhowi_node *node, const bool *leads);
/* The rule of a node; NULL where there is none. */
dhowi_back_fn *dhowi_back_of(const dhowi_node *node);

/* ---- for rules, see support.c ---- */

/* What the node read and what it made. */
dhow_status dhowi_back_input(dhowi_reverser *r, uint32_t i, int32_t *out);
dhow_status dhowi_back_output(dhowi_reverser *r, int32_t *out);
/* The first inputs, -1 for one that is not given. */
dhow_status dhowi_back_inputs(dhowi_reverser *r, uint32_t count, int32_t *in);
/* While a function that reads b->in looks at the node, or at other inputs of its kind. */
typedef struct dhowi_back_scope {
    int32_t *in;
    uint32_t in_count, out_count;
} dhowi_back_scope;
dhowi_back_scope dhowi_back_enter(dhowi_reverser *r, int32_t *in, uint32_t count);
void dhowi_back_leave(dhowi_reverser *r, dhowi_back_scope scope);
/* What an operator with the node's attributes makes of other inputs. */
dhow_status dhowi_back_lower(dhowi_reverser *r, dhowi_lower_fn *lower, int32_t *in, uint32_t count,
                             int32_t *out);
/* Whether the derivative by an input is asked for. */
bool dhowi_back_wants(const dhowi_reverser *r, uint32_t i);
/* Adds to the derivative by the node's input i; sums over what was repeated. */
dhow_status dhowi_back_pass(dhowi_reverser *r, uint32_t i, int32_t d);
/* The derivative of the result, times x. */
dhow_status dhowi_back_times(dhowi_reverser *r, int32_t x, int32_t *out);
/* Adds it, times x, to the derivative by the node's only input. */
dhow_status dhowi_back_scaled(dhowi_reverser *r, int32_t x);
/* Passes on the derivative of x^e. */
dhow_status dhowi_back_power(dhowi_reverser *r, double e);
/* x with its last two dimensions exchanged. */
dhow_status dhowi_turned(dhowi_lowering *b, int32_t x, int32_t *out);
/* Rows of all but the last dimension. */
dhow_status dhowi_as_matrix(dhowi_lowering *b, int32_t x, int32_t *out);
/* The sum over one axis, which stays as an extent of 1. */
dhow_status dhowi_sum_along(dhowi_lowering *b, int32_t x, int32_t axis, int32_t *out);
/* The sum of all others: [n] of axis `axis`. */
dhow_status dhowi_sum_but(dhowi_lowering *b, int32_t x, int32_t axis, int32_t *out);
/* 1 where `classes` along `axis` (of extent 1) names the position, else 0; extent `count`. */
dhow_status dhowi_one_hot(dhowi_lowering *b, int32_t classes, int32_t axis, int64_t count,
                          dhow_dtype dtype, int32_t *out);
/* d along an axis was taken from n elements by index, of i64 and none negative: their sums. */
dhow_status dhowi_ungather(dhowi_lowering *b, int32_t d, int32_t axis, int32_t index, int64_t n,
                           int32_t *out);

#endif /* DHOWI_MODEL_OPERATORS_BACKWARD_H_ */
