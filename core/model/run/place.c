/* SPDX-License-Identifier: Apache-2.0
 *
 * Moving models between devices, see dhow/model.h.
 */
#include "base/memory/alloc.h"
#include "model/operators/nn/layer.h"
#include "model/run/run.h"

dhow_device *dhow_model_device(const dhow_model *model) {
    return dhowi_handle_is(model, DHOWI_MODEL) ? model->device : NULL;
}

/* What the builder's nodes need; those of a file are checked by a trial plan. */
static dhow_status check_rows(const dhow_model *m, const char *function, dhow_device *device) {
    for (uint32_t i = 0; i < m->graph.node_count; i++) {
        const dhowi_node *n = &m->graph.nodes[i];
        if (n->source != NULL) continue;
        uint32_t count;
        const dhowi_op_id *rows = dhowi_node_rows(n, &count);
        dhow_status status = DHOW_OK;
        for (uint32_t k = 0; k < count && status == DHOW_OK; k++) {
            status =
                dhowi_op_supported(dhowi_op_of(rows[k]), m->values[n->in[0]].desc.dtype, device);
        }
        if (status != DHOW_OK) {
            char text[160];
            return dhowi_fail_prefix(status, "%s: %s", function,
                                     dhowi_node_text(n, text, sizeof text));
        }
    }
    return DHOW_OK;
}

dhow_status dhowi_check_precision(dhow_device *device, dhow_precision precision) {
    const dhow_dtype half = dhowi_half_of(precision);
    if (half == 0) return DHOW_OK;
    /* What it is for; a trial plan asks for the rest. */
    const dhow_status status = dhowi_op_supported(dhowi_op_of(DHOWI_OP_matmul), half, device);
    if (status == DHOW_OK) return DHOW_OK;
    return dhowi_fail_prefix(status, "DHOW_PRECISION_%s", half == DHOW_BF16 ? "BF16" : "F16");
}

/* Of a model that computes in 16 bits those of f32 go there as what the plans want them. */
dhow_status dhowi_place_parameters(dhow_model *m) {
    DHOWI_TRY(dhowi_join_weights(m));
    for (uint32_t i = 0; i < m->parameter_count; i++) {
        dhow_tensor *t;
        dhowi_value *v = &m->values[m->parameters[i]];
        if (v->half != NULL) {
            DHOWI_TRY(dhowi_model_half_resident(m, v, &t));
        } else if (dhowi_model_half_type(m) == 0 || v->desc.dtype != DHOW_F32) {
            DHOWI_TRY(dhowi_model_resident(m, v, &t));
        }
    }
    return DHOW_OK;
}

void dhowi_model_drop_residents(dhow_model *m) {
    for (uint32_t i = 0; i < m->parameter_count; i++) {
        dhowi_value *v = &m->values[m->parameters[i]];
        dhow_tensor_release(v->resident);
        dhow_tensor_release(v->half_resident);
        v->resident = v->half_resident = NULL;
    }
}

static dhow_status move(dhow_model *m, const char *function, dhow_device *device,
                        dhow_placement placement) {
    if (device == m->device && placement == m->placement) return DHOW_OK;
    if (placement == DHOW_PLACEMENT_STRICT) DHOWI_TRY(check_rows(m, function, device));
    dhow_status half = dhowi_check_precision(device, m->precision);
    if (half != DHOW_OK) return dhowi_fail_prefix(half, "%s", function);
    dhow_tensor **before = dhowi_alloc_array((size_t)m->parameter_count + 1, sizeof *before);
    if (before == NULL) return dhowi_fail_memory(function);
    dhowi_model_forget(m);
    for (uint32_t i = 0; i < m->parameter_count; i++) {
        before[i] = m->values[m->parameters[i]].resident;
        m->values[m->parameters[i]].resident = NULL;
    }
    dhowi_model_drop_residents(m);
    if (dhowi_model_half_type(m) == 0) dhowi_model_drop_halves(m); /* f32 of the CPU */
    dhow_device *old = m->device;
    dhow_placement old_placement = m->placement;
    m->device = device;
    m->placement = placement;
    dhow_status status = dhowi_plan_trial(m);
    if (status == DHOW_OK) status = dhowi_place_parameters(m);
    if (status == DHOW_OK) {
        for (uint32_t i = 0; i < m->parameter_count; i++) dhow_tensor_release(before[i]);
    } else {
        dhowi_model_forget(m);
        m->device = old;
        m->placement = old_placement;
        dhowi_model_drop_residents(m);
        for (uint32_t i = 0; i < m->parameter_count; i++)
            m->values[m->parameters[i]].resident = before[i];
        status = dhowi_fail_prefix(status, "%s: %s", function, device->name);
    }
    dhowi_free(before);
    return status;
}

static dhow_status place(dhow_model *m, const char *function, dhow_device *device,
                         dhow_placement placement) {
    DHOWI_TRY(dhowi_model_check(m, function));
    DHOWI_TRY(dhowi_device_check(device, function));
    if (device->context != m->context) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s belongs to another context", function,
                          device->name);
    }
    DHOWI_TRY(dhowi_device_open(device));
    DHOWI_TRY(dhowi_model_begin_change(m, function));
    dhow_status status = move(m, function, device, placement);
    dhowi_model_end_change(m);
    return status;
}

dhow_status dhow_model_to(dhow_model *m, dhow_device *device) {
    return place(m, "dhow_model_to", device, DHOW_PLACEMENT_STRICT);
}

dhow_status dhow_model_place(dhow_model *m, dhow_device *device, dhow_placement placement) {
    static const char function[] = "dhow_model_place";
    if (placement != DHOW_PLACEMENT_STRICT && placement != DHOW_PLACEMENT_FALLBACK)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %d is no placement", function,
                          (int)placement);
    return place(m, function, device, placement);
}
