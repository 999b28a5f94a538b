/* SPDX-License-Identifier: Apache-2.0
 *
 * Eager functions that are a step of a model, see one_step.c.
 */
#ifndef DHOWI_MODEL_EAGER_ONE_STEP_H_
#define DHOWI_MODEL_EAGER_ONE_STEP_H_

#include "model/build/build.h"

enum { DHOWI_ONE_STEP_INPUTS = 5, DHOWI_ONE_STEP_ARGUMENTS = 192 };

/* Adds the step to a model whose inputs are `in`, -1 for one that is not given. */
typedef dhow_status dhowi_one_step_fn(dhow_model *m, const char *function, const int32_t *in,
                                      const void *arguments, dhow_model_value *out);

/* A call with its tensors; without `in[i]` where `optional` has bit i. */
typedef struct dhowi_one_step {
    const char *function, *names[DHOWI_ONE_STEP_INPUTS];
    dhow_stream *stream;
    dhow_tensor *in[DHOWI_ONE_STEP_INPUTS], *y;
    uint32_t in_count, optional;
    dhowi_one_step_fn *build;
    const void *arguments; /* zeroed before it was filled, for it is compared */
    size_t argument_bytes; /* at most DHOWI_ONE_STEP_ARGUMENTS */
} dhowi_one_step;

dhow_status dhowi_run_one_step(const dhowi_one_step *call);

#endif /* DHOWI_MODEL_EAGER_ONE_STEP_H_ */
