/* SPDX-License-Identifier: Apache-2.0
 *
 * What the families of nodes are made with. Each function of a family adds a few nodes on values
 * that are there, and gives the value it came to, or -1 when nothing fits.
 */
#ifndef TESTS_GRAPHS_GEN_H_
#define TESTS_GRAPHS_GEN_H_

#include "graph.h"

typedef struct gen {
    model *m;
    dice d;
    int at;        /* the graph that nodes are added to */
    int64_t batch; /* the extent that may be open */
    int last;      /* the value made last, which is taken more often than others */
} gen;

typedef int family(gen *g);

static inline value *val(gen *g, int v) { return &g->m->values[v]; }
static inline int below(gen *g, int n) { return dice_below(&g->d, n); }
static inline bool one_in(gen *g, int n) { return dice_one_in(&g->d, n); }

/* ---- values ---- */

/* Floats that are multiples of 1/4 between -2 and 2. */
int new_input(gen *g, int32_t rank, const int64_t *shape);
int new_constant(gen *g, int32_t rank, const int64_t *shape);
int new_number(gen *g, double value); /* rank 0 or 1 */
int new_ints(gen *g, int count, const int64_t *values);
/* A float value that is visible here, of at least `least` and at most `most` dimensions. */
int pick(gen *g, int32_t least, int32_t most);
int pick_type(gen *g, dhow_dtype dtype);
/* Another of the same shape, perhaps the same one. */
int pick_like(gen *g, int v);
int64_t extent(gen *g);

/* ---- nodes ---- */

node *put(gen *g, const char *op, int count, const int *in);
int result(gen *g, node *n, dhow_dtype dtype, int32_t rank, const int64_t *shape, int bits);
/* One node with one float result of v's shape. */
int unary(gen *g, const char *op, int v, int bits);
/* One with operands that broadcast; -1 when they do not. */
int binary(gen *g, const char *op, int a, int b);
void set_int(node *n, const char *name, int64_t value);
void set_ints(node *n, const char *name, int count, const int64_t *values);
void set_float(node *n, const char *name, double value);
void set_text(node *n, const char *name, const char *text);

/* Bits of a sum of products and the like; 0 when they do not fit the model's floats. */
int bits_fit(const gen *g, int bits);
int bits_sum(const gen *g, int a, int b);
int bits_product(const gen *g, int a, int b, int64_t terms);

/* The shape of two operands together; false when they do not broadcast. */
bool broadcast(const value *a, const value *b, int32_t *rank, int64_t *shape);

/* MatMul; the mean along an axis, which stays. */
int product(gen *g, int a, int b);
int mean_of(gen *g, int v, int64_t axis);

/* ---- families ---- */

/* One value held between numbers, and the written-out HardSwish of one. */
int clip_to(gen *g, int v);
int clip_above(gen *g, int v, double low);
int hard_swish_of(gen *g, int x);

family elementwise, chain, squares, beside_views, loop_conv, square_image, written_image,
    compare_select, cast_chain, clip_shrink;
family transpose, reshape, slice, squeeze, unsqueeze, flatten, expand, concat, split, tile, pad,
    depth_space, gather, trilu;
family conv, conv_line, conv_volume, conv_transpose, pool, global_pool, resize, conv_block,
    separable, shuffled, halved, branches;
family reduce, softmax, cumsum, topk, arg;
family matmul, gemm, einsum, linear_block, siblings, attention, attention_of_batches,
    attention_node, cache;
family layer_norm, normed_sum, instance_norm, batch_norm, group_norm, norm_written, lrn, lp_norm;
family gelu_written, silu_written, hard_swish_written, halves_turned;
family shape_arithmetic, range_fill, gather_elements, scatter_elements, gather_nd, one_hot,
    non_zero, where_mask;
family if_node, loop_node, lstm, quantise, quantised_product, ranged_product, quantised_conv,
    quantised_chain;

#endif /* TESTS_GRAPHS_GEN_H_ */
