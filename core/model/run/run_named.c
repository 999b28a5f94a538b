/* SPDX-License-Identifier: Apache-2.0
 *
 * Running models with tensors by name, see dhow/model.h.
 */
#include <string.h>

#include "base/memory/alloc.h"
#include "base/objects/struct_size.h"
#include "base/text/text.h"
#include "model/graph/model.h"

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

static dhow_status find_name(const dhow_model *m, bool input, const char *name, uint32_t *out) {
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
    return dhowi_fail(DHOW_NOT_FOUND,
                      "dhow_model_run_named: the model has no %s '%.64s'; it has %s",
                      input ? "input" : "output", name != NULL ? name : "", buffer);
}

static dhow_status run_named(dhow_model *m, dhow_stream *stream, const dhow_named_tensor *inputs,
                             uint32_t input_count, dhow_named_tensor *outputs,
                             uint32_t output_count, dhow_tensor **tensors) {
    dhow_tensor **results = tensors + m->input_count;
    bool *taken = (bool *)(results + m->output_count);
    uint32_t at;
    for (uint32_t i = 0; i < input_count; i++) {
        DHOWI_TRY(find_name(m, true, element(inputs, i)->name, &at));
        if (tensors[at] != NULL)
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "dhow_model_run_named: input '%.64s' is given twice",
                              element(inputs, i)->name);
        tensors[at] = element(inputs, i)->tensor;
    }
    for (uint32_t i = 0; i < m->input_count; i++) {
        if (tensors[i] == NULL)
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "dhow_model_run_named: input '%.64s' is missing",
                              m->values[m->inputs[i]].name);
    }
    for (uint32_t i = 0; i < output_count; i++) {
        DHOWI_TRY(find_name(m, false, element(outputs, i)->name, &at));
        if (taken[at])
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "dhow_model_run_named: output '%.64s' is asked for twice",
                              element(outputs, i)->name);
        results[at] = element(outputs, i)->tensor;
        taken[at] = true;
    }
    DHOWI_TRY(dhow_model_run(m, stream, tensors, m->input_count, results, m->output_count));
    for (uint32_t i = 0; i < output_count; i++) {
        (void)find_name(m, false, element(outputs, i)->name, &at);
        element(outputs, i)->tensor = results[at];
    }
    for (uint32_t i = 0; i < m->output_count; i++) {
        if (!taken[i]) dhow_tensor_release(results[i]);
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
        (size_t)m->input_count + 2 * (size_t)m->output_count + 1, sizeof *tensors);
    if (tensors == NULL) return dhowi_fail_memory(function);
    dhow_status status = run_named(m, stream, inputs, input_count, outputs, output_count, tensors);
    dhowi_free(tensors);
    return status;
}
