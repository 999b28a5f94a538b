/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes over the steps of a lowering, between its end and the plan's memory.
 */
#ifndef DHOWI_MODEL_PASSES_H_
#define DHOWI_MODEL_PASSES_H_

#include "model/lower/lower.h"

/* Keeps images in the form that convolutions like, see channel_layout.c. */
dhow_status dhowi_use_blocks(dhowi_lowering *b, uint32_t first_step);
/* Gives a map that spells an activation its name, see match_activation.c. */
void dhowi_recognise(dhowi_step *s, dhow_dtype dtype);
/* The same for a step that reads x and what another step makes of x, and perhaps an operand that
 * the last instruction multiplies by, else -1; true when it now does all. */
bool dhowi_recognise_pair(const dhowi_step *first, dhowi_step *s, uint32_t of_first, int factor,
                          dhow_dtype dtype);
/* The operand that the last instruction, and no other, reads and multiplies by; -1. */
int dhowi_last_factor(const dhowi_step *s);
/* Makes one step of a normalisation spelt in several, see match_norm.c. */
dhow_status dhowi_recognise_norms(dhowi_lowering *b, uint32_t first_step);
/* The same for attention, see match_attention.c. */
dhow_status dhowi_recognise_attention(dhowi_lowering *b, uint32_t first_step);
/* Takes rows beside convolutions for images, see rows.c. */
dhow_status dhowi_lift_rows(dhowi_lowering *b, uint32_t first_step);
/* Joins steps, see fuse.c. */
dhow_status dhowi_fuse(dhowi_lowering *b, uint32_t first_step);

#endif /* DHOWI_MODEL_PASSES_H_ */
