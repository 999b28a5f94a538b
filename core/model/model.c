/* SPDX-License-Identifier: Apache-2.0
 *
 * Making, ending and moving models, see dhow/model.h.
 */
#include "model/model.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "model/build.h"
#include "model/plan.h"

dhow_status dhowi_model_check(const dhow_model *model, const char *function) {
    return dhowi_handle_check(model, DHOWI_MODEL, function, "model");
}

dhow_status dhow_model_create(dhow_context *context, dhow_model **out) {
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_model_create: out is NULL");
    *out = NULL;
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, "dhow_model_create", "context"));
    dhow_model *m = dhowi_handle_new(DHOWI_MODEL, sizeof *m);
    if (m == NULL) return dhowi_fail_memory("model");
    m->context = context;
    m->device = context->cpu;
    m->name = "model";
    pthread_mutex_init(&m->making, NULL);
    pthread_mutex_init(&m->mutex, NULL);
    dhowi_handle_retain(&context->handle);
    *out = m;
    return DHOW_OK;
}

/* ---- files ---- */

static dhow_status take_file(dhow_context *context, dhowi_onnx_file *file, dhow_model **out) {
    dhow_status status = dhow_model_create(context, out);
    if (status != DHOW_OK) {
        dhowi_onnx_close(file);
        return status;
    }
    status = dhowi_model_import(*out, file);
    if (status == DHOW_OK) return DHOW_OK;
    dhow_model_release(*out);
    *out = NULL;
    return status;
}

dhow_status dhow_model_load(dhow_context *context, const char *path, dhow_model **out) {
    static const char function[] = "dhow_model_load";
    dhowi_onnx_file *file;
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, function, "context"));
    if (path == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: path is NULL", function);
    DHOWI_TRY(dhowi_onnx_open(path, &file));
    return take_file(context, file, out);
}

dhow_status dhow_model_load_memory(dhow_context *context, const void *data, uint64_t bytes,
                                   dhow_model **out) {
    static const char function[] = "dhow_model_load_memory";
    dhowi_onnx_file *file;
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, function, "context"));
    if (data == NULL || bytes == 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: there is no data", function);
    DHOWI_TRY(dhowi_onnx_parse("model in memory", data, bytes, &file));
    return take_file(context, file, out);
}

/* ---- ending ---- */

static void forget_nodes(dhowi_graph *g) {
    for (uint32_t i = 0; i < g->node_count; i++) {
        dhowi_node *n = &g->nodes[i];
        dhow_tensor_release(n->folding.scale);
        dhow_tensor_release(n->folding.shift);
        dhow_tensor_release(n->folding.weight);
        dhow_tensor_release(n->folding.bias);
        n->folding = (dhowi_folding){0};
        for (int k = 0; k < 2; k++)
            if (n->branch[k] != NULL) forget_nodes(n->branch[k]);
    }
}

void dhowi_model_forget(dhow_model *m) {
    dhowi_plans_end(m);
    for (uint32_t i = 0; i < m->value_count; i++) {
        dhowi_value *v = &m->values[i];
        if (v->kind != DHOWI_VALUE_RESULT || !v->known) continue;
        v->known = false;
        dhow_tensor_release(v->tensor);
        dhow_tensor_release(v->resident);
        v->tensor = v->resident = NULL;
    }
    forget_nodes(&m->graph);
}

void dhow_model_release(dhow_model *m) {
    DHOWI_KEEP_ERROR;
    if (!dhowi_handle_is(m, DHOWI_MODEL) || !dhowi_handle_drop(&m->handle)) return;
    dhow_context *context = m->context;
    dhowi_model_forget(m);
    for (uint32_t i = 0; i < m->value_count; i++) {
        dhow_tensor_release(m->values[i].tensor);
        dhow_tensor_release(m->values[i].resident);
    }
    if (m->graph.node_capacity > 0) dhowi_free(m->graph.nodes);
    dhowi_free(m->values);
    dhowi_free(m->inputs);
    dhowi_free(m->outputs);
    dhowi_free(m->parameters);
    dhowi_free(m->output_names);
    dhowi_arena_end(&m->arena);
    for (uint32_t i = 0; i < m->spare_count; i++) dhow_stream_release(m->spares[i]);
    pthread_mutex_destroy(&m->making);
    pthread_mutex_destroy(&m->mutex);
    dhow_model *origin = m->origin;
    if (origin == NULL) dhowi_onnx_close(m->file);
    dhowi_handle_free(DHOWI_MODEL, m);
    dhow_model_release(origin);
    dhowi_context_drop(context);
}

/* ---- parameters ---- */

dhow_status dhowi_model_tensor(dhow_model *m, dhowi_value *v, dhow_tensor **out) {
    void *data;
    *out = v->tensor;
    if (v->tensor != NULL) return DHOW_OK;
    if (v->source != NULL && v->source->external) {
        dhow_status there = dhowi_onnx_tensor_find(m->file, v->source);
        if (there != DHOW_OK) return dhowi_fail_prefix(there, "%s", m->name);
    }
    DHOWI_TRY(dhowi_tensor_new(m->context->cpu, v->spec.dtype, v->spec.rank, v->spec.shape, out));
    dhow_status status = dhow_tensor_host_ptr(*out, &data);
    if (status == DHOW_OK) status = dhowi_onnx_tensor_read(m->file, v->source, data);
    if (status != DHOW_OK) {
        dhow_tensor_release(*out);
        *out = NULL;
        return dhowi_fail_prefix(status, "%s", m->name);
    }
    v->tensor = *out;
    if (v->source->external) m->external_bytes += dhowi_tensor_bytes(*out);
    atomic_store_explicit(&v->tensor->storage->frozen, true, memory_order_relaxed);
    (void)dhowi_copy_text(v->tensor->storage->label, sizeof v->tensor->storage->label,
                          v->name != NULL ? v->name : "");
    return DHOW_OK;
}

dhow_status dhowi_model_resident(dhow_model *m, dhowi_value *v, dhow_tensor **out) {
    dhow_tensor *host;
    DHOWI_TRY(dhowi_model_tensor(m, v, &host));
    *out = host;
    if (m->device == m->context->cpu) return DHOW_OK;
    if (v->resident == NULL) {
        dhow_status status = dhow_tensor_to(host, m->device, &v->resident);
        if (status != DHOW_OK)
            return dhowi_fail_prefix(status, "parameter '%.64s'", v->name != NULL ? v->name : "");
        atomic_store_explicit(&v->resident->storage->frozen, true, memory_order_relaxed);
    }
    *out = v->resident;
    return DHOW_OK;
}

/* ---- moving ---- */

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
                dhowi_op_supported(dhowi_op_of(rows[k]), m->values[n->in[0]].spec.dtype, device);
        }
        if (status != DHOW_OK) {
            char text[160];
            return dhowi_fail_prefix(status, "%s: %s", function,
                                     dhowi_node_text(n, text, sizeof text));
        }
    }
    return DHOW_OK;
}

static dhow_status move_parameters(dhow_model *m) {
    for (uint32_t i = 0; i < m->parameter_count; i++) {
        dhow_tensor *t;
        dhowi_value *v = &m->values[m->parameters[i]];
        DHOWI_TRY(dhowi_model_resident(m, v, &t));
    }
    return DHOW_OK;
}

static void drop_residents(dhow_model *m, dhow_tensor **kept) {
    for (uint32_t i = 0; i < m->parameter_count; i++) {
        dhowi_value *v = &m->values[m->parameters[i]];
        dhow_tensor_release(v->resident);
        v->resident = kept != NULL ? kept[i] : NULL;
    }
}

static void drop_spares(dhow_model *m) {
    while (m->spare_count > 0) dhow_stream_release(m->spares[--m->spare_count]);
}

static dhow_status move(dhow_model *m, const char *function, dhow_device *device,
                        dhow_placement placement) {
    if (device == m->device && placement == m->placement) return DHOW_OK;
    if (placement == DHOW_PLACEMENT_STRICT) DHOWI_TRY(check_rows(m, function, device));
    dhow_tensor **before = dhowi_alloc_array((size_t)m->parameter_count + 1, sizeof *before);
    if (before == NULL) return dhowi_fail_memory(function);
    dhowi_model_forget(m);
    for (uint32_t i = 0; i < m->parameter_count; i++) {
        before[i] = m->values[m->parameters[i]].resident;
        m->values[m->parameters[i]].resident = NULL;
    }
    drop_spares(m);
    dhow_device *old = m->device;
    dhow_placement old_placement = m->placement;
    m->device = device;
    m->placement = placement;
    dhow_status status = dhowi_plan_trial(m);
    if (status == DHOW_OK) status = move_parameters(m);
    if (status == DHOW_OK) {
        for (uint32_t i = 0; i < m->parameter_count; i++) dhow_tensor_release(before[i]);
    } else {
        dhowi_model_forget(m);
        m->device = old;
        m->placement = old_placement;
        drop_residents(m, before);
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
