/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps on quantised values: what stands between integers in f32 is computed while they are read
 * and written, and what follows a convolution of integers becomes its end.
 */
#ifndef DHOWI_MODEL_CODES_H_
#define DHOWI_MODEL_CODES_H_

#include "model/passes/fuse.h"

/* Whether an item is of a type that codes have. */
static inline bool dhowi_is_code(const dhowi_lowering *b, int32_t ref) {
    const dhow_dtype dtype = b->items[ref].desc.dtype;
    return dtype == DHOW_U8 || dtype == DHOW_I8;
}

/* Joins what quantises, dequantises and lies between; after dhowi_fuse. */
dhow_status dhowi_join_codes(dhowi_lowering *b, uint32_t first_step);

/* ---- elements.c ---- */

/* What f32 is of integers: (code - zero) scale. */
typedef struct dhowi_code {
    int32_t codes; /* an item */
    int32_t zero;
    float scale;
} dhowi_code;

/* Whether a step does nothing but make f32 of codes, or codes of f32. */
bool dhowi_decodes(const dhowi_lowering *b, const dhowi_step *s, dhowi_code *out);
bool dhowi_encodes(const dhowi_lowering *b, const dhowi_step *s, dhowi_code *out);
/* Elementwise steps read codes where others made f32 of them for them, and write codes where others
 * made them of what they wrote. */
dhow_status dhowi_read_codes(dhowi_lowering *b, uint32_t first_step);
dhow_status dhowi_write_codes(dhowi_lowering *b, uint32_t first_step, bool *changed);
/* Means of what codes stand for are made of the codes' sums. */
dhow_status dhowi_average_codes(dhowi_lowering *b, uint32_t first_step);
/* The largest of what codes stand for is the largest code, where the result has the same ones. */
dhow_status dhowi_pool_codes(dhowi_lowering *b, uint32_t first_step);

/* ---- chain.c ---- */

/* Steps of one operand that read what others made of the same codes do both. */
dhow_status dhowi_chain_codes(dhowi_lowering *b, uint32_t first_step, bool *changed);

/* ---- scale.c ---- */

/* Products of codes take what computed scales and zero points do to their sums. */
dhow_status dhowi_scale_products(dhowi_lowering *b, uint32_t first_step, bool *changed);

/* ---- tail.c ---- */

/* Elementwise steps become the end of the convolution of integers before them. */
dhow_status dhowi_end_sums(dhowi_lowering *b, uint32_t first_step, bool *changed);

#endif /* DHOWI_MODEL_CODES_H_ */
