/* SPDX-License-Identifier: Apache-2.0
 *
 * What the builders of steps and of layers share. A layer that cannot be built adds nothing.
 */
#ifndef DHOWI_MODEL_BUILD_H_
#define DHOWI_MODEL_BUILD_H_

#include "model/operators/nn/layer.h"
#include "model/operators/row.h"

enum { DHOWI_LAYER_INPUTS = 12, DHOWI_LAYER_NAME = 128 };

/* What a model held before a layer. */
typedef struct dhowi_build_mark {
    uint32_t values, parameters;
} dhowi_build_mark;

/* *out = -1; refuses a model that is complete. */
dhow_status dhowi_build_begin(dhow_model *m, const char *function, dhow_model_value *out);
dhow_status dhowi_build_value(const dhow_model *m, const char *function, dhow_model_value value);
dhow_status dhowi_build_extent(const char *function, const char *what, int64_t extent);
/* A parameter "<scopes><owner>.<name>" with all elements of a value. */
dhow_status dhowi_build_parameter(dhow_model *m, const char *function, const char *owner,
                                  const char *name, const dhowi_tensor_desc *desc, double value,
                                  int32_t *out);
dhow_status dhowi_build_node(dhow_model *m, const dhowi_operator *op, const char *layer,
                             const int32_t *in, uint32_t count, const dhowi_attrs *attrs,
                             const dhowi_tensor_desc *result, dhow_model_value *out);
dhowi_build_mark dhowi_build_here(const dhow_model *m);
/* Takes away what came since; returns the status. */
dhow_status dhowi_build_undo(dhow_model *m, dhowi_build_mark mark, dhow_status status);

#endif /* DHOWI_MODEL_BUILD_H_ */
