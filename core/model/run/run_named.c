/* SPDX-License-Identifier: Apache-2.0
 *
 * Running models with tensors by name, see dhow/model.h.
 */
#include <string.h>

#include "base/memory/alloc.h"
#include "base/objects/struct_size.h"
#include "base/text/text.h"
#include "model/run/run.h"

/* Of the caller's array, whose elements may be larger than this version's. */
static dhow_named_tensor *element(const dhow_named_tensor *first, uint32_t i) {
    return (dhow_named_tensor *)(uintptr_t)dhowi_struct_element(first, i);
}

static dhow_status check_sizes(const char *function, const char *name,
                               const dhow_named_tensor *first, uint32_t count) {
    dhow_named_tensor own = DHOW_INIT(dhow_named_tensor);
    for (uint32_t i = 0; i < count; i++)
        DHOWI_TRY(DHOWI_STRUCT_IN(dhow_named_tensor, element(first, i), &own, function, name));
    return DHOW_OK;
}

static dhow_status find_name(const char *function, const dhow_model *m, bool input,
                             const char *name, uint32_t *out) {
    *out = 0;
    uint32_t count = input ? m->input_count : m->output_count;
    for (uint32_t i = 0; i < count && name != NULL; i++) {
        const char *own = input ? m->values[m->inputs[i]].name : m->output_names[i];
        *out = i;
        if (strcmp(own, name) == 0) return DHOW_OK;
    }
    char buffer[400];
    dhowi_text names = DHOWI_TEXT(buffer);
    for (uint32_t i = 0; i < count; i++)
        dhowi_text_add(&names, "%s'%.64s'", i > 0 ? ", " : "",
                       input ? m->values[m->inputs[i]].name : m->output_names[i]);
    return dhowi_fail(DHOW_NOT_FOUND, "%s: the model has no %s '%.64s'; it has %s", function,
                      input ? "input" : "output", name != NULL ? name : "", buffer);
}

/* The tensors of a run in the model's order. */
typedef struct ordered {
    dhow_tensor **inputs, **given, **made;
    bool *wanted; /* outputs */
} ordered;

static dhow_status order_inputs(const char *function, const dhow_model *m,
                                const dhow_named_tensor *inputs, uint32_t count,
                                const ordered *in) {
    uint32_t at;
    for (uint32_t i = 0; i < count; i++) {
        const dhow_named_tensor *named = element(inputs, i);
        DHOWI_TRY(find_name(function, m, true, named->name, &at));
        if (in->inputs[at] != NULL)
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: input '%.64s' is given twice", function,
                              named->name);
        in->inputs[at] = named->tensor;
    }
    for (uint32_t i = 0; i < m->input_count; i++) {
        if (in->inputs[i] == NULL)
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: input '%.64s' is missing", function,
                              m->values[m->inputs[i]].name);
    }
    return DHOW_OK;
}

static dhow_status order_outputs(const char *function, const dhow_model *m,
                                 const dhow_named_tensor *outputs, uint32_t count,
                                 const ordered *in) {
    uint32_t at;
    for (uint32_t i = 0; i < count; i++) {
        const dhow_named_tensor *named = element(outputs, i);
        DHOWI_TRY(find_name(function, m, false, named->name, &at));
        if (in->wanted[at])
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: output '%.64s' is asked for twice",
                              function, named->name);
        in->given[at] = named->tensor;
        in->wanted[at] = true;
    }
    return DHOW_OK;
}

static dhow_status run_ordered(const char *function, dhow_model *m, dhow_stream *stream,
                               const dhow_named_tensor *inputs, uint32_t input_count,
                               dhow_named_tensor *outputs, uint32_t output_count,
                               const ordered *in) {
    uint32_t at;
    DHOWI_TRY(order_inputs(function, m, inputs, input_count, in));
    DHOWI_TRY(order_outputs(function, m, outputs, output_count, in));
    DHOWI_TRY(dhowi_model_run_tensors(m, stream,
                                      &(dhowi_tensor_run){.function = function,
                                                          .inputs = in->inputs,
                                                          .input_count = m->input_count,
                                                          .given = in->given,
                                                          .made = in->made,
                                                          .output_count = m->output_count}));
    for (uint32_t i = 0; i < output_count; i++) {
        DHOWI_TRY(find_name(function, m, false, element(outputs, i)->name, &at));
        if (in->given[at] == NULL) element(outputs, i)->tensor = in->made[at];
    }
    for (uint32_t i = 0; i < m->output_count; i++) {
        if (!in->wanted[i]) dhow_tensor_release(in->made[i]);
    }
    return DHOW_OK;
}

dhow_status dhow_model_run_named(dhow_model *m, dhow_stream *stream,
                                 const dhow_named_tensor *inputs, uint32_t input_count,
                                 dhow_named_tensor *outputs, uint32_t output_count) {
    static const char function[] = "dhow_model_run_named";
    DHOWI_TRY(dhowi_model_check(m, function));
    if ((inputs == NULL && input_count > 0) || (outputs == NULL && output_count > 0))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s is NULL", function,
                          inputs == NULL ? "inputs" : "outputs");
    DHOWI_TRY(check_sizes(function, "inputs", inputs, input_count));
    DHOWI_TRY(check_sizes(function, "outputs", outputs, output_count));
    dhow_tensor **tensors = dhowi_alloc_array(
        (size_t)m->input_count + 3 * (size_t)m->output_count + 1, sizeof *tensors);
    if (tensors == NULL) return dhowi_fail_memory(function);
    ordered in = {.inputs = tensors, .given = tensors + m->input_count};
    in.made = in.given + m->output_count;
    in.wanted = (bool *)(in.made + m->output_count);
    dhow_status status =
        run_ordered(function, m, stream, inputs, input_count, outputs, output_count, &in);
    dhowi_free(tensors);
    return status;
}
