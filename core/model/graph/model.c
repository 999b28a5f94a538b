/* SPDX-License-Identifier: Apache-2.0
 *
 * Making and ending models, see dhow/model.h.
 */
#include "model/graph/model.h"

#include "base/memory/alloc.h"

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
    m->precision = DHOW_PRECISION_DEVICE;
    pthread_mutex_init(&m->making, NULL);
    pthread_mutex_init(&m->mutex, NULL);
    dhowi_handle_retain(&context->handle);
    *out = m;
    return DHOW_OK;
}

static void forget_nodes(dhowi_subgraph *g) {
    for (uint32_t i = 0; i < g->node_count; i++) {
        dhowi_node *n = &g->nodes[i];
        while (n->foldings != NULL) {
            dhowi_folding *f = n->foldings;
            n->foldings = f->next;
            for (uint32_t k = 0; k < f->count; k++) {
                dhow_tensor_release(f->of[k].weight);
                dhow_tensor_release(f->of[k].bias);
                dhow_tensor_release(f->of[k].scale);
                dhow_tensor_release(f->of[k].shift);
            }
            dhow_tensor_release(f->weight);
            dhow_tensor_release(f->bias);
            dhowi_free(f);
        }
        for (int k = 0; k < 2; k++)
            if (n->branch[k] != NULL) forget_nodes(n->branch[k]);
    }
}

void dhowi_model_forget(dhow_model *m) {
    if (m->plans != NULL) m->end_plans(m);
    if (!m->keeps_results) return; /* building a model forgets once a step */
    m->keeps_results = false;
    for (uint32_t i = 0; i < m->value_count; i++) {
        dhowi_value *v = &m->values[i];
        if (v->kind != DHOWI_VALUE_RESULT || !v->known) continue;
        v->known = false;
        dhow_tensor_release(v->tensor);
        dhow_tensor_release(v->resident);
        v->tensor = v->resident = NULL;
        dhowi_value_drop_half(v);
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
        dhowi_value_drop_half(&m->values[i]);
    }
    if (m->graph.node_capacity > 0) dhowi_free(m->graph.nodes);
    dhowi_free(m->values);
    dhowi_free(m->inputs);
    dhowi_free(m->outputs);
    dhowi_free(m->parameters);
    dhowi_free(m->output_names);
    dhowi_arena_end(&m->arena);
    pthread_mutex_destroy(&m->making);
    pthread_mutex_destroy(&m->mutex);
    dhow_model *origin = m->origin;
    if (origin == NULL) dhowi_onnx_close(m->file);
    dhowi_handle_free(DHOWI_MODEL, m);
    dhow_model_release(origin);
    dhowi_context_drop(context);
}
