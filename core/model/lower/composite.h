/* SPDX-License-Identifier: Apache-2.0
 *
 * What the lowering of one operator has in common with another's: steps that come in groups.
 */
#ifndef DHOWI_MODEL_LOWER_COMPOSITE_H_
#define DHOWI_MODEL_LOWER_COMPOSITE_H_

#include "model/lower/lower.h"

/* Elements before, along and after an axis. */
dhowi_axis_split dhowi_split_along(const dhowi_tensor_desc *x, int32_t axis);
/* As i64; numbers that are no integers are refused. */
dhow_status dhowi_as_index(dhowi_lowering *b, int32_t x, int32_t *out);
/* y[o][k][i] = x[o][index[k]][i] along an axis; index is known or i64 on the device */
dhow_status dhowi_gather_along(dhowi_lowering *b, int32_t x, int32_t axis, int32_t index,
                               int32_t *out);
/* The same with numbers of the host. */
dhow_status dhowi_pick(dhowi_lowering *b, int32_t x, int32_t axis, const int64_t *index,
                       int64_t count, int32_t *out);
/* The k largest or least along an axis, k being no more than there are, and their places, i64. */
dhow_status dhowi_top(dhowi_lowering *b, int32_t x, int32_t axis, int64_t k, bool largest,
                      int32_t *values, int32_t *places);
/* y[...] = x[.., index[...], ..] along an axis, index being as large as y. */
dhow_status dhowi_elements_at(dhowi_lowering *b, int32_t x, int32_t axis, int32_t index,
                              int32_t *out);
dhow_status dhowi_concat(dhowi_lowering *b, const int32_t *in, uint32_t count, int32_t axis,
                         int32_t *out);
/* Says of an item that it is another one with a value around it. */
dhow_status dhowi_note_padding(dhowi_lowering *b, int32_t item, const dhowi_padding *padding);
/* x with `value` before and after it; negative padding cuts. */
dhow_status dhowi_pad_with(dhowi_lowering *b, int32_t x, const int64_t *before,
                           const int64_t *after, double value, int32_t *out);
/* count numbers start, start + step, ... */
dhow_status dhowi_numbers(dhowi_lowering *b, dhow_dtype dtype, double start, double step,
                          int64_t count, int32_t *out);
enum {
    DHOWI_SUM,
    DHOWI_MEAN,
    DHOWI_MAX_OF,
    DHOWI_MIN_OF,
    DHOWI_PROD,
    DHOWI_L1,
    DHOWI_L2,
    DHOWI_LOG_SUM,
    DHOWI_LOG_SUM_EXP,
    DHOWI_SUM_SQUARE
};
/* Says of an item what it is made of, see dhowi_item; -1 for a zero point or scale it lacks. */
void dhowi_note_codes(dhowi_lowering *b, int32_t item, int32_t codes, int32_t zero, int32_t scale);
/* Weights of sums of integer products: blocks of `each` rows of `inner` sums side by side. */
typedef struct dhowi_summed {
    int64_t blocks, each, inner;
} dhowi_summed;
/* How many rows are summed at a time, multiples of `unit` from the first one on, so that sums are
 * exact: all, or as many as weights that are known allow; 0 where one unit is too much. */
dhow_status dhowi_exact_run(dhowi_lowering *b, int32_t w, const dhowi_summed *s, int64_t unit,
                            int64_t *run);
/* *sum += x, as integers; *sum is -1 at first. */
dhow_status dhowi_add_integers(dhowi_lowering *b, int32_t x, int32_t *sum);
/* Reduces the marked axes, which stay as extents of 1. */
dhow_status dhowi_reduce(dhowi_lowering *b, int kind, int32_t x, const bool *axes, int32_t *out);
/* x with zeros where the random numbers of a key and a layer say so; `a` as DHOWI_OP_dropout wants.
 */
dhow_status dhowi_dropout(dhowi_lowering *b, int32_t x, int32_t key, const dhowi_attrs *a,
                          int32_t *out);
/* v as a row along `axis` of a tensor of `rank` dimensions: [n] as [1, n, 1, 1]. */
dhow_status dhowi_along(dhowi_lowering *b, int32_t v, int32_t rank, int32_t axis, int32_t *out);
/* x with the marked axes side by side, as [outer][n][inner]. */
dhow_status dhowi_group_axes(dhowi_lowering *b, const bool *axes, int32_t *x, int64_t parts[3]);

/* The node's two inputs, which are texts, side by side: their shapes broadcast to this one. */
typedef struct dhowi_text_pairs {
    const dhow_datum *of[2];
    int32_t rank;
    int64_t shape[DHOW_MAX_RANK], count;
} dhowi_text_pairs;
dhow_status dhowi_pair_texts(const dhowi_lowering *b, dhowi_text_pairs *out);
/* Of input 0 or 1 at a place of that shape. */
const char *dhowi_paired_text(const dhowi_text_pairs *pairs, int which, int64_t place);

/* ---- small types of ONNX, see codes.c ---- */

typedef enum dhowi_rounding {
    DHOWI_ROUND_NEAREST,
    DHOWI_ROUND_UP,
    DHOWI_ROUND_DOWN
} dhowi_rounding;
/* x as numbers of a dtype, whatever it is held as. */
dhow_status dhowi_decoded(dhowi_lowering *b, int32_t x, dhow_dtype dtype, int32_t *out);
/* Numbers as a small type. Floats are rounded to the nearest, halves to the even one; `rounding` is
 * for float8e8m0, whose halves go up. Integers keep their lowest bits. */
dhow_status dhowi_encoded(dhowi_lowering *b, int32_t x, int32_t encoding, bool saturates,
                          dhowi_rounding rounding, int32_t *out);
/* The range of a small integer; false for other types. Numbers within it, of another type than that
 * which holds it, as such. */
bool dhowi_integer_range(int32_t encoding, double *low, double *high);
dhow_status dhowi_integers_of(dhowi_lowering *b, int32_t x, int32_t encoding, int32_t *out);

#endif /* DHOWI_MODEL_LOWER_COMPOSITE_H_ */
