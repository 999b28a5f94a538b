/* SPDX-License-Identifier: Apache-2.0
 *
 * Making, ending and moving models, see dhow/model.h.
 */
#include "model/model.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

dhow_status dhowi_model_check(const dhow_model *model, const char *function) {
    return dhowi_handle_check(model, DHOWI_MODEL, function, "model");
}

const char *dhowi_step_text(const dhow_model *model, uint32_t step, char *buffer, size_t capacity) {
    const dhowi_step *s = &model->steps[step];
    (void)snprintf(buffer, capacity, "step %u (%s%s%s)", step, s->layer != NULL ? s->layer : "",
                   s->layer != NULL ? ", " : "", dhowi_op_of(s->op)->name);
    return buffer;
}

dhow_status dhow_model_create(dhow_context *context, dhow_model **out) {
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_model_create: out is NULL");
    *out = NULL;
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, "dhow_model_create", "context"));
    dhow_model *m = dhowi_handle_new(DHOWI_MODEL, sizeof *m);
    if (m == NULL) return dhowi_fail_memory("model");
    m->context = context;
    m->device = context->cpu;
    dhowi_handle_retain(&context->handle);
    *out = m;
    return DHOW_OK;
}

void dhow_model_release(dhow_model *m) {
    if (!dhowi_handle_is(m, DHOWI_MODEL) || !dhowi_handle_drop(&m->handle)) return;
    dhow_context *context = m->context;
    for (uint32_t i = 0; i < m->value_count; i++) {
        dhow_tensor_release(m->values[i].tensor);
        dhowi_free(m->values[i].name);
    }
    for (uint32_t i = 0; i < m->step_count; i++) dhowi_free(m->steps[i].layer);
    for (uint32_t i = 0; i < m->output_count; i++) dhowi_free(m->output_names[i]);
    dhowi_free(m->values);
    dhowi_free(m->steps);
    dhowi_free(m->inputs);
    dhowi_free(m->outputs);
    dhowi_free(m->parameters);
    dhowi_free(m->output_names);
    dhowi_handle_free(DHOWI_MODEL, m);
    dhowi_context_drop(context);
}

dhow_device *dhow_model_device(const dhow_model *model) {
    return dhowi_handle_is(model, DHOWI_MODEL) ? model->device : NULL;
}

/* Every step's kernel must exist on the device before anything moves. */
static dhow_status check_support(const dhow_model *m, dhow_device *device) {
    for (uint32_t i = 0; i < m->step_count; i++) {
        const dhowi_step *s = &m->steps[i];
        dhow_status status =
            dhowi_op_supported(dhowi_op_of(s->op), m->values[s->in[0]].spec.dtype, device);
        if (status != DHOW_OK) {
            char text[96];
            return dhowi_fail_prefix(status, "dhow_model_to: %s",
                                     dhowi_step_text(m, i, text, sizeof text));
        }
    }
    return DHOW_OK;
}

static dhow_status move_parameters(dhow_model *m, dhow_device *device, dhow_tensor **moved) {
    for (uint32_t i = 0; i < m->parameter_count; i++) {
        const dhowi_value *v = &m->values[m->parameters[i]];
        dhow_status status = dhow_tensor_to_async(NULL, v->tensor, device, &moved[i]);
        if (status != DHOW_OK)
            return dhowi_fail_prefix(status, "dhow_model_to: parameter '%.64s'", v->name);
    }
    for (uint32_t i = 0; i < m->parameter_count; i++) {
        DHOWI_TRY(dhowi_hazard_wait(&moved[i]->storage->hazard, DHOW_ACCESS_READ));
        DHOWI_TRY(dhowi_storage_readable(moved[i]->storage));
    }
    return DHOW_OK;
}

dhow_status dhow_model_to(dhow_model *m, dhow_device *device) {
    DHOWI_TRY(dhowi_model_check(m, "dhow_model_to"));
    DHOWI_TRY(dhowi_device_check(device, "dhow_model_to"));
    if (device->context != m->context) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_model_to: %s belongs to another context",
                          device->name);
    }
    DHOWI_TRY(dhowi_device_open(device));
    DHOWI_TRY(check_support(m, device));
    dhow_tensor **moved = dhowi_alloc_array(m->parameter_count, sizeof(dhow_tensor *));
    if (moved == NULL) return dhowi_fail_memory("dhow_model_to");
    dhow_status status = move_parameters(m, device, moved);
    for (uint32_t i = 0; i < m->parameter_count; i++) {
        dhow_tensor **own = &m->values[m->parameters[i]].tensor, *old = *own;
        if (status == DHOW_OK) {
            *own = moved[i];
            dhow_tensor_release(old);
        } else {
            dhow_tensor_release(moved[i]);
        }
    }
    dhowi_free(moved);
    if (status == DHOW_OK) m->device = device;
    return status;
}
