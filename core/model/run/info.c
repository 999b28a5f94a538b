/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model tells about itself.
 */
#include <string.h>

#include "base/objects/struct_size.h"
#include "model/run/run.h"

uint32_t dhow_model_input_count(const dhow_model *m) {
    return dhowi_handle_is(m, DHOWI_MODEL) ? m->input_count : 0;
}

uint32_t dhow_model_output_count(const dhow_model *m) {
    return dhowi_handle_is(m, DHOWI_MODEL) ? m->output_count : 0;
}

typedef enum list { INPUTS, OUTPUTS, PARAMETERS } list;

static dhow_status value_at(const dhow_model *m, const char *function, list from, uint32_t index,
                            dhow_model_value_info *given) {
    dhow_model_value_info own, *out = &own;
    DHOWI_TRY(DHOWI_STRUCT_OUT(dhow_model_value_info, given, &own, function));
    DHOWI_TRY(dhowi_model_check(m, function));
    const int32_t *values[] = {m->inputs, m->outputs, m->parameters};
    const uint32_t counts[] = {m->input_count, m->output_count, m->parameter_count};
    if (index >= counts[from]) {
        return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: index %u, the model has %u", function, index,
                          counts[from]);
    }
    const dhowi_value *v = &m->values[values[from][index]];
    out->name = from == OUTPUTS ? m->output_names[index] : v->name;
    out->dtype = v->desc.dtype;
    out->rank = v->desc.rank;
    out->kind = v->form;
    out->optional = v->optional;
    out->encoding = v->desc.encoding != 0 ? dhowi_onnx_type_name(v->desc.encoding) : NULL;
    memcpy(out->shape, v->desc.shape, sizeof out->shape);
    DHOWI_STRUCT_GIVE(given, out);
    return DHOW_OK;
}

dhow_status dhow_model_input_at(const dhow_model *m, uint32_t index, dhow_model_value_info *out) {
    return value_at(m, "dhow_model_input_at", INPUTS, index, out);
}

dhow_status dhow_model_output_at(const dhow_model *m, uint32_t index, dhow_model_value_info *out) {
    return value_at(m, "dhow_model_output_at", OUTPUTS, index, out);
}

dhow_status dhow_model_parameter_describe(const dhow_model *m, uint32_t index,
                                          dhow_model_value_info *out) {
    return value_at(m, "dhow_model_parameter_describe", PARAMETERS, index, out);
}

/* ---- plans ---- */

/* Of a model that only changes what it remembers. */
static pthread_mutex_t *mutex_of(const dhow_model *m) {
    return &((dhow_model *)(uintptr_t)m)->mutex;
}

static void describe_plans(const dhow_model *m, dhow_model_summary *out) {
    for (const dhowi_model_plan *p = m->plans; p != NULL; p = p->next) out->plan_count++;
    if (m->plans == NULL) return;
    out->step_count = m->plans->lowering.step_count;
    out->copied_bytes = m->plans->copied_bytes;
    for (uint32_t i = 0; i < out->step_count; i++)
        out->fallback_count += m->plans->lowering.steps[i].on_host;
    out->segment_count = m->plans->segment_count;
    for (uint32_t i = 0; i < m->plans->segment_count; i++)
        out->arena_bytes += m->plans->segments[i].arena_bytes;
}

static dhow_status describe_step(const dhow_model *m, const char *function, uint32_t index,
                                 dhow_model_step_info *out) {
    const dhowi_model_plan *plan = m->plans;
    uint32_t count = plan != NULL ? plan->lowering.step_count : 0;
    if (index >= count) {
        return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: index %u, the plan has %u step%s", function,
                          index, count, count == 1 ? "" : "s");
    }
    const dhowi_step *s = &plan->lowering.steps[index];
    out->kernel = dhowi_op_of(s->op)->name;
    out->operation = s->node == NULL ? "output" : s->node->operation;
    out->node = s->node != NULL && s->node->name != NULL ? s->node->name : "";
    const dhowi_tensor_desc *result = &plan->lowering.items[s->out].desc;
    out->dtype = result->dtype;
    out->rank = result->rank;
    memcpy(out->shape, result->shape, sizeof out->shape);
    out->device = s->on_host ? m->context->cpu : m->device;
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        const dhowi_segment *seg = &plan->segments[i];
        if (seg->nanoseconds != NULL && index >= seg->first_step &&
            index < seg->first_step + seg->step_count)
            out->nanoseconds = seg->nanoseconds[index - seg->first_step];
    }
    return DHOW_OK;
}

dhow_status dhow_model_get_summary(const dhow_model *m, dhow_model_summary *given) {
    dhow_model_summary own, *out = &own;
    static const char function[] = "dhow_model_get_summary";
    DHOWI_TRY(DHOWI_STRUCT_OUT(dhow_model_summary, given, &own, function));
    DHOWI_TRY(dhowi_model_check(m, function));
    for (uint32_t i = 0; i < m->parameter_count; i++) {
        const dhowi_tensor_desc *desc = &m->values[m->parameters[i]].desc;
        out->parameter_bytes += (uint64_t)dhowi_count_of(desc) * dhow_dtype_bytes(desc->dtype);
    }
    out->node_count = m->graph.node_count;
    pthread_mutex_lock(mutex_of(m));
    describe_plans(m, out);
    pthread_mutex_unlock(mutex_of(m));
    DHOWI_STRUCT_GIVE(given, out);
    return DHOW_OK;
}

dhow_status dhow_model_step_at(const dhow_model *m, uint32_t index, dhow_model_step_info *given) {
    dhow_model_step_info own, *out = &own;
    static const char function[] = "dhow_model_step_at";
    DHOWI_TRY(DHOWI_STRUCT_OUT(dhow_model_step_info, given, &own, function));
    DHOWI_TRY(dhowi_model_check(m, function));
    pthread_mutex_lock(mutex_of(m));
    dhow_status status = describe_step(m, function, index, out);
    pthread_mutex_unlock(mutex_of(m));
    DHOWI_STRUCT_GIVE(given, out);
    return status;
}
dhow_status dhow_model_set_profiling(dhow_model *m, int32_t on) {
    DHOWI_TRY(dhowi_model_check(m, "dhow_model_set_profiling"));
    DHOWI_TRY(dhowi_model_begin_change(m, "dhow_model_set_profiling"));
    m->profiling = on != 0;
    for (dhowi_model_plan *p = m->plans; p != NULL; p = p->next) {
        for (uint32_t i = 0; i < p->segment_count; i++) {
            dhowi_segment *seg = &p->segments[i];
            if (seg->nanoseconds != NULL)
                memset(seg->nanoseconds, 0, (size_t)seg->step_count * sizeof *seg->nanoseconds);
        }
    }
    dhowi_model_end_change(m);
    return DHOW_OK;
}

dhow_status dhow_model_set_memory_limit(dhow_model *m, uint64_t bytes) {
    DHOWI_TRY(dhowi_model_check(m, "dhow_model_set_memory_limit"));
    DHOWI_TRY(dhowi_model_begin_change(m, "dhow_model_set_memory_limit"));
    m->memory_limit = bytes;
    dhowi_model_end_change(m);
    return DHOW_OK;
}
