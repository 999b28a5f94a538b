/* SPDX-License-Identifier: Apache-2.0
 *
 * Models inside core: values, and steps that compute them.
 */
#ifndef DHOWI_MODEL_MODEL_H_
#define DHOWI_MODEL_MODEL_H_

#include "dhow/model.h"
#include "ops/op.h"

typedef enum dhowi_value_kind {
    DHOWI_VALUE_INPUT,
    DHOWI_VALUE_PARAMETER,
    DHOWI_VALUE_RESULT
} dhowi_value_kind;

typedef struct dhowi_value {
    dhowi_value_kind kind;
    char *name;          /* NULL for results */
    dhowi_spec spec;     /* extents of -1 are open */
    dhow_tensor *tensor; /* of a parameter */
    int32_t last_use;    /* step that reads it last, -1 for none; outputs are never let go */
    bool is_output;
} dhowi_value;

typedef struct dhowi_step {
    dhowi_op_id op;
    int32_t in[DHOWI_OP_MAX_INPUTS]; /* values, -1 for an input not given */
    int32_t out;
    dhowi_attrs attrs;
    char *layer; /* its name in messages, NULL when it has none */
} dhowi_step;

struct dhow_model {
    dhowi_handle handle;
    dhow_context *context;
    dhow_device *device;
    dhowi_value *values;
    uint32_t value_count, value_capacity;
    dhowi_step *steps;
    uint32_t step_count, step_capacity;
    int32_t *inputs, *outputs, *parameters; /* values */
    char **output_names;
    uint32_t input_count, output_count, parameter_count;
};

dhow_status dhowi_model_check(const dhow_model *model, const char *function);
/* "step 3 (fc1, linear)" */
const char *dhowi_step_text(const dhow_model *model, uint32_t step, char *buffer, size_t capacity);
/* The parameter of a name, or NULL. */
dhowi_value *dhowi_model_find_parameter(const dhow_model *model, const char *name);

#endif /* DHOWI_MODEL_MODEL_H_ */
