/* SPDX-License-Identifier: Apache-2.0
 *
 * What the cases of dhow.blas/1 and dhow.conv/1 share: arrays on the device with their values, and
 * references of activations.
 */
#ifndef TESTS_CONFORMANCE_VENDOR_H_
#define TESTS_CONFORMANCE_VENDOR_H_

#include "slots.h"

typedef struct vendor_array {
    dhow_dtype dtype;
    int64_t count;
    uint64_t handle;
    double *value; /* as the type holds them */
} vendor_array;

/* Small random values, on the device and here. */
conform_result vendor_array_new(conform_env *env, void *stream, dhow_dtype dtype, int64_t count,
                                uint64_t seed, vendor_array *out);
conform_result vendor_array_read(conform_env *env, void *stream, const vendor_array *a,
                                 double *out);
/* With alpha and beta of the activation. */
double vendor_activate(uint32_t activation, double alpha, double beta, double x);
/* How far a sum of terms may be off whose sizes add up to `size`. */
double vendor_tolerance(dhow_dtype dtype, double want, double size);
/* Puts what was asked for in front of the message. */
void vendor_prefix(conform_env *env, const char *what);

/* Cases of conv, see conv_bytes.c and packed_forms.c. */
conform_result conform_convolutions_of_bytes(conform_env *env);
conform_result conform_packed_forms(conform_env *env);

#define NEEDS_DTYPE_BIT(dtype)                                  \
    if ((env->slots->desc.dtypes & DHOW_DTYPE_BIT(dtype)) == 0) \
    return conform_unsupported(env, "the device does not compute %s", dhow_dtype_name(dtype))

#endif /* TESTS_CONFORMANCE_VENDOR_H_ */
