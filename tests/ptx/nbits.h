/* SPDX-License-Identifier: Apache-2.0
 *
 * Products with weights of 4 or 8 bits in f64, for launches whose first arguments are a, w, scales,
 * zeros, zero_numbers and bias.
 */
#ifndef PTX_NBITS_H_
#define PTX_NBITS_H_

#include "support.h"

typedef struct nbits_shape {
    element type;
    int m, n, k, shift, bits, zero_mode, bias_mode; /* as the kernel's */
} nbits_shape;

/* m n results and the sums of their terms' sizes. Ownership: the caller frees it. */
exact *nbits_exact(const nbits_shape *s);

#endif /* PTX_NBITS_H_ */
