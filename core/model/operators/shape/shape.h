/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that look at shapes, move elements, choose them by index or make them: views, data
 * movement, control flow, sequences and texts.
 */
#ifndef DHOWI_MODEL_OPERATORS_SHAPE_H_
#define DHOWI_MODEL_OPERATORS_SHAPE_H_

#include "model/lower/composite.h"
#include "model/lower/lower.h"

/* constants.c */
dhowi_lower_fn dhowi_lower_constant, dhowi_lower_constant_of_shape, dhowi_lower_range,
    dhowi_lower_eye_like, dhowi_lower_trilu, dhowi_lower_one_hot;
/* control.c */
dhowi_lower_fn dhowi_lower_loop, dhowi_lower_scan, dhowi_lower_sequence_map, dhowi_lower_if;
/* Before a graph of a node is lowered, perhaps anew: what it computed is forgotten. Refused where
 * all of them have come to too many nodes. */
dhow_status dhowi_enter_body(dhowi_lowering *b, const dhowi_subgraph *body);
/* data_dependent.c */
dhowi_lower_fn dhowi_lower_non_zero, dhowi_lower_compress, dhowi_lower_non_max_suppression;
/* index.c */
dhowi_lower_fn dhowi_lower_gather, dhowi_lower_gather_elements, dhowi_lower_scatter_elements,
    dhowi_lower_gather_nd, dhowi_lower_scatter_nd, dhowi_lower_tensor_scatter;
/* numbers.c */
dhowi_lower_fn dhowi_lower_window, dhowi_lower_affine_grid, dhowi_lower_mel_weights;
/* order.c */
dhowi_lower_fn dhowi_lower_cumsum, dhowi_lower_cumprod, dhowi_lower_topk;
/* pad.c */
dhowi_lower_fn dhowi_lower_pad;
/* random.c */
dhowi_lower_fn dhowi_lower_random, dhowi_lower_random_like, dhowi_lower_bernoulli,
    dhowi_lower_multinomial, dhowi_lower_dropout;
/* x as the node's Dropout leaves it: itself, or in training with zeros and the rest scaled. */
dhow_status dhowi_drop(dhowi_lowering *b, int32_t x, int32_t *out);
/* rearrange.c */
dhowi_lower_fn dhowi_lower_center_crop_pad, dhowi_lower_reverse_sequence, dhowi_lower_col2im;
/* sequence.c */
dhowi_lower_fn dhowi_lower_sequence_empty, dhowi_lower_sequence_construct,
    dhowi_lower_sequence_insert, dhowi_lower_sequence_erase, dhowi_lower_sequence_at,
    dhowi_lower_sequence_length, dhowi_lower_split_to_sequence, dhowi_lower_concat_from_sequence,
    dhowi_lower_optional, dhowi_lower_optional_has, dhowi_lower_optional_get;
/* shape.c */
dhowi_lower_fn dhowi_lower_shape, dhowi_lower_size, dhowi_lower_reshape, dhowi_lower_flatten,
    dhowi_lower_squeeze, dhowi_lower_unsqueeze, dhowi_lower_transpose, dhowi_lower_concat,
    dhowi_lower_split, dhowi_lower_slice, dhowi_lower_expand, dhowi_lower_tile,
    dhowi_lower_depth_to_space, dhowi_lower_space_to_depth;
/* string.c */
dhowi_lower_fn dhowi_lower_string_normalizer, dhowi_lower_string_concat, dhowi_lower_string_split;
/* The tensor of an attribute, or its texts. */
dhow_status dhowi_constant_of(dhowi_lowering *b, const dhowi_onnx_tensor *t, int32_t *out);
/* Texts of a shape, at places of their own; those of a tensor in the file. */
dhow_status dhowi_texts_of(dhowi_lowering *b, const dhowi_tensor_desc *shape,
                           const dhowi_slice *const *from, int32_t *out);
dhow_status dhowi_texts_of_tensor(dhowi_lowering *b, const dhowi_onnx_tensor *t, int32_t *out);
/* The node's inputs, which are texts, joined along an axis. */
dhow_status dhowi_concat_texts(dhowi_lowering *b, int32_t axis);
/* unique.c */
dhowi_lower_fn dhowi_lower_unique;
/* x with the updates along `axis` at places index[...] of i64, which broadcasts to them. Known
 * places outside are refused, those on the device write nothing. */
dhow_status dhowi_scatter_along(dhowi_lowering *b, int32_t x, int32_t updates, int32_t index,
                                int32_t axis, int32_t *out);
/* The same into an item that nobody else reads. */
dhow_status dhowi_scatter_into(dhowi_lowering *b, int32_t x, int32_t updates, int32_t index,
                               int32_t axis);
/* A cache with steps along `axis` replaced by those of x from first[batch] of i64 on, or round and
 * round; the batch is dimension 0. */
dhow_status dhowi_write_steps(dhowi_lowering *b, int32_t cache, int32_t x, int32_t first,
                              int32_t axis, bool circular, int32_t *out);
/* The reduction of a Scatter node; 0: none. */
dhow_status dhowi_scatter_kind(const dhowi_lowering *b, dhowi_map_op *op);
/* x, seen as [rows, inner], with updates [count, inner] reduced into the rows `targets`. */
dhow_status dhowi_scatter_reduced(dhowi_lowering *b, dhowi_map_op op, int32_t x, int32_t updates,
                                  int64_t *targets, int64_t count, int64_t rows, int64_t inner,
                                  int32_t *out);

/* ---- for derivatives, from the attributes and inputs of the node ---- */

/* start, start + step, ... of an axis */
typedef struct dhowi_range {
    int64_t start, count, step;
} dhowi_range;
/* What Slice takes of each axis. */
dhow_status dhowi_slice_ranges(dhowi_lowering *b, dhowi_range *out);

typedef struct dhowi_pads {
    int64_t before[DHOW_MAX_RANK], after[DHOW_MAX_RANK];
    double value;
    char mode; /* 'c' constant, 'e' edge, 'r' reflect, 'w' wrap */
} dhowi_pads;
dhow_status dhowi_pads_of(dhowi_lowering *b, dhowi_pads *p);
/* Where the elements along an axis of extent n come from, of modes that repeat: i64. */
dhow_status dhowi_pad_indices(dhowi_lowering *b, const dhowi_pads *p, int32_t axis, int64_t n,
                              int32_t *out);

/* GatherND as rows of x: x[rows, inner], of which index[count] are taken. */
typedef struct dhowi_nd {
    int64_t rows, count, inner;
    int32_t dims, index; /* dimensions of x that are rows */
} dhowi_nd;
dhow_status dhowi_nd_rows(dhowi_lowering *b, dhowi_nd *out);

#endif /* DHOWI_MODEL_OPERATORS_SHAPE_H_ */
