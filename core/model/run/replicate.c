/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of a model on other devices: one graph, one set of host tensors, plans of their own.
 */
#include <string.h>

#include "base/memory/alloc.h"
#include "copy/engine.h"
#include "model/run/run.h"

static dhow_status copy_graph(dhow_model *m, const dhowi_subgraph *from, dhowi_subgraph *to) {
    *to = (dhowi_subgraph){.outputs = from->outputs,
                           .output_count = from->output_count,
                           .inputs = from->inputs,
                           .input_count = from->input_count};
    to->nodes = dhowi_arena_array(&m->arena, from->node_count, sizeof *to->nodes);
    if (to->nodes == NULL) return dhowi_fail_memory("model");
    for (; to->node_count < from->node_count; to->node_count++) {
        dhowi_node *n = &to->nodes[to->node_count];
        *n = from->nodes[to->node_count];
        n->foldings = NULL;
        n->branch[0] = n->branch[1] = NULL;
    }
    for (uint32_t i = 0; i < to->node_count; i++) {
        for (int k = 0; k < 2; k++) {
            const dhowi_subgraph *branch = from->nodes[i].branch[k];
            if (branch == NULL) continue;
            dhowi_subgraph *copy = dhowi_arena_array(&m->arena, 1, sizeof *copy);
            if (copy == NULL) return dhowi_fail_memory("model");
            to->nodes[i].branch[k] = copy;
            DHOWI_TRY(copy_graph(m, branch, copy));
        }
    }
    return DHOW_OK;
}

static bool copy_array(void **to, const void *from, size_t count, size_t bytes) {
    *to = dhowi_alloc_array(count + 1, bytes);
    if (*to != NULL && count > 0) memcpy(*to, from, count * bytes);
    return *to != NULL;
}

/* Parameters are shared with the original, which lives as long as its copies; what was computed
 * from them is not. */
static dhow_status copy_values(dhow_model *m, dhow_model *from) {
    for (uint32_t i = 0; i < from->parameter_count; i++) {
        dhow_tensor *t; /* read once, for all */
        DHOWI_TRY(dhowi_model_tensor(from, &from->values[from->parameters[i]], &t));
    }
    m->values = dhowi_alloc_array((size_t)from->value_count + 1, sizeof *m->values);
    if (m->values == NULL) return dhowi_fail_memory("model");
    m->value_count = m->value_capacity = from->value_count;
    for (uint32_t i = 0; i < from->value_count; i++) {
        dhowi_value *v = &m->values[i];
        *v = from->values[i];
        v->resident = v->half_resident = NULL;
        if (v->kind == DHOWI_VALUE_RESULT) {
            v->known = v->half_tried = false;
            v->tensor = v->half = NULL;
        }
        if (v->half != NULL) dhowi_handle_retain(&v->half->handle);
        if (v->tensor != NULL) dhowi_handle_retain(&v->tensor->handle);
    }
    return DHOW_OK;
}

static dhow_status copy_into(dhow_model *m, dhow_model *from) {
    m->origin = from;
    dhowi_handle_retain(&from->handle);
    m->name = from->name;
    m->placement = from->placement;
    m->precision = from->precision;
    pthread_mutex_lock(&from->making); /* a run may be making a plan */
    dhow_status status = copy_values(m, from);
    pthread_mutex_unlock(&from->making);
    DHOWI_TRY(status);
    DHOWI_TRY(copy_graph(m, &from->graph, &m->graph));
    bool copied =
        copy_array((void **)&m->inputs, from->inputs, from->input_count, sizeof *m->inputs) &&
        copy_array((void **)&m->outputs, from->outputs, from->output_count, sizeof *m->outputs) &&
        copy_array((void **)&m->parameters, from->parameters, from->parameter_count,
                   sizeof *m->parameters) &&
        copy_array((void **)&m->output_names, from->output_names, from->output_count,
                   sizeof *m->output_names);
    if (!copied) return dhowi_fail_memory("model");
    m->input_count = from->input_count;
    m->output_count = from->output_count;
    m->parameter_count = from->parameter_count;
    m->file = from->file; /* the original's */
    m->external_bytes = from->external_bytes;
    m->memory_limit = from->memory_limit;
    atomic_store(&m->time_limit, atomic_load(&from->time_limit));
    m->parameters_given = from->parameters_given;
    return DHOW_OK;
}

dhow_status dhowi_model_copy(dhow_model *from, dhow_model **out) {
    dhow_model *m;
    *out = NULL;
    DHOWI_TRY(dhow_model_create(from->context, &m));
    dhow_status status = copy_into(m, from);
    if (status == DHOW_OK) {
        *out = m;
    } else {
        dhow_model_release(m);
    }
    return status;
}

/* A copy whose device the next one's reaches: weights go from device to device then. */
static const dhow_model *find_near(dhow_model *const *copies, uint32_t count, dhow_device *device) {
    if (dhowi_device_is_host(device) || dhowi_device_open(device) != DHOW_OK) {
        dhowi_error_clear(); /* placing the copy tells it */
        return NULL;
    }
    for (uint32_t i = count; i-- > 0;) {
        dhow_device *there = copies[i]->device;
        if (there != device && !dhowi_device_is_host(there) && dhowi_peer_works(device, there))
            return copies[i];
    }
    return NULL;
}

static dhow_status place_copy(dhow_model *m, dhow_model *const *copies, uint32_t count,
                              dhow_device *device, dhow_placement placement) {
    const bool live = dhowi_handle_is(device, DHOWI_DEVICE) && device->context == m->context;
    m->near = live ? find_near(copies, count, device) : NULL;
    const dhow_status status = dhow_model_place(m, device, placement);
    if (status == DHOW_OK && !dhowi_device_is_host(device))
        dhowi_log_line(&m->context->log, DHOW_LOG_INFO, "weights on %s are copied from %s",
                       device->name, m->near != NULL ? m->near->device->name : "the host");
    m->near = NULL;
    return status;
}

dhow_status dhow_model_replicate(dhow_model *model, dhow_device *const *devices, uint32_t count,
                                 dhow_model **out) {
    static const char function[] = "dhow_model_replicate";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    for (uint32_t i = 0; i < count; i++) out[i] = NULL;
    if (devices == NULL && count > 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: devices is NULL", function);
    DHOWI_TRY(dhowi_model_check(model, function));
    dhow_status status = DHOW_OK;
    for (uint32_t i = 0; i < count && status == DHOW_OK; i++) {
        status = dhowi_model_copy(model, &out[i]);
        if (status == DHOW_OK) status = place_copy(out[i], out, i, devices[i], model->placement);
        if (status != DHOW_OK) status = dhowi_fail_prefix(status, "%s: copy %u", function, i);
    }
    for (uint32_t i = 0; i < count && status != DHOW_OK; i++) {
        dhow_model_release(out[i]);
        out[i] = NULL;
    }
    return status;
}
