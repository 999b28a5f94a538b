/* SPDX-License-Identifier: Apache-2.0
 *
 * Products, and sums of integers where their operands are known to be quantised.
 */
#ifndef DHOWI_MODEL_LOWER_PRODUCTS_H_
#define DHOWI_MODEL_LOWER_PRODUCTS_H_

#include "model/lower/lower.h"

/* a[..., m, k] b[..., k, n] with outer extents that broadcast; bias may be -1 */
dhow_status dhowi_product(dhowi_lowering *b, int32_t x, int32_t y, int32_t bias, int32_t *out);

/* Weight and bias of the one convolution, as large as the first of these, that is their sum; *bias
 * is -1 where none has one. They are made when they are read, and what they are made of is shed. */
dhow_status dhowi_sum_branches(dhowi_lowering *b, const dhowi_branch *of, uint32_t count,
                               int32_t *weight, int32_t *bias);

/* ---- integers ---- */

/* The sums of integers of a product whose operands are known to be quantised, as i32: without the
 * scales that they may have. *out is -1 where the device or the operands have no such product. */
dhow_status dhowi_integer_product(dhowi_lowering *b, int32_t x, int32_t y, int32_t *out);
/* Known elements without gaps; NULL where bringing them into order is too much for the host. */
dhow_status dhowi_known_bytes(dhowi_lowering *b, int32_t ref, const void **out);
/* Weights of a product as i8[k, n], the sums of the columns of what they stand for as i32[1, n],
 * and what all of a column stand for beyond their bytes, i32[1, n]; -1 for nothing. */
typedef struct dhowi_code_columns {
    int32_t weights, sums, shifts;
} dhowi_code_columns;
/* Of known codes y[k, n] without gaps; out->weights stays where that is too much for the host. */
dhow_status dhowi_make_columns(dhowi_lowering *b, int32_t y, int32_t zero, dhowi_code_columns *out);
/* Known weights of sums of integers: codes [results][terms], or [terms][results] where `columns`.
 */
typedef struct dhowi_code_weights {
    int32_t codes, zero; /* zero: one number, or one for each result; -1 for none */
    int64_t results, terms;
    bool columns;
    bool exact;       /* sums of i8 must lie within what f32 has exactly */
    bool may_be_wide; /* weights become i16, whose sums are exact, where i8 does not do, or else */
    int32_t *shifts;  /* not NULL: may become i32[results], what all weights of a result are more
                         than those made of them; -1 for none */
} dhowi_code_weights;
/* The weights less their zero points as i8, or i16, of a shape of [results][terms]; *fits is false
 * where one does not fit, or where sums may not be exact. */
dhow_status dhowi_centre_weights(dhowi_lowering *b, const dhowi_code_weights *w,
                                 const dhowi_tensor_desc *shape, int32_t *out, bool *fits);
/* f32[2, results]: biases in units of the sums, and scales, that of x times those of an item, one
 * or one for each result; -1 for none. *fits is false where these are no numbers to divide by. */
dhow_status dhowi_rows_of_sums(dhowi_lowering *b, double x_scale, int32_t scale, int32_t bias,
                               int64_t results, int32_t *out, bool *fits);
/* A known number, or `otherwise` for an item that is not there; false for another item. */
bool dhowi_known_number(dhowi_lowering *b, int32_t ref, double otherwise, double *out);
/* The transpose of a matrix, which stays known to be quantised. */
dhow_status dhowi_turn_quantised(dhowi_lowering *b, int32_t x, int32_t *out);
/* An item that tells what weights are, and has no numbers, which integers do without; they would
 * take four times as much. */
dhow_status dhowi_described(dhowi_lowering *b, int32_t codes, int32_t zero, int32_t scale,
                            int32_t *out);

#endif /* DHOWI_MODEL_LOWER_PRODUCTS_H_ */
