/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic with numbers, see scalar.c.
 */
#ifndef DHOWI_OPS_SCALAR_H_
#define DHOWI_OPS_SCALAR_H_

#include "ops/run/rows.h"

/* What kernels/scalar.k computes, by number; a row has its own in its flags. */
enum {
    DHOWI_FORM_affine,
    DHOWI_FORM_add,
    DHOWI_FORM_sub,
    DHOWI_FORM_mul,
    DHOWI_FORM_div,
    DHOWI_FORM_pow,
    DHOWI_FORM_max,
    DHOWI_FORM_min,
    DHOWI_FORM_SQUARE,
    DHOWI_FORM_CUBE,
    DHOWI_FORM_ROOT,
    DHOWI_FORM_SHIFT = 16
};

dhowi_infer_fn dhowi_infer_scalar;
dhowi_run_fn dhowi_run_scalar;

#endif /* DHOWI_OPS_SCALAR_H_ */
