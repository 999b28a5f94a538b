/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of random graphs in 16-bit floats beside those in f32.
 */
#ifndef DHOW_TESTS_GRADIENTS_HALVES_H_
#define DHOW_TESTS_GRADIENTS_HALVES_H_

#include "gen.h"

typedef struct halves {
    uint64_t graphs, refused, same, compared, unclear, wrong;
} halves;

/* One graph. Inputs and parameters that are moved by as much as 16 bits round show what its
 * derivatives are worth in such floats: a gradient that this changes a good deal is unclear, others
 * have to be as near. */
void compare_halves(dhow_context *context, dhow_device *device, dhow_precision precision,
                    uint64_t seed, halves *sum);

#endif /* DHOW_TESTS_GRADIENTS_HALVES_H_ */
