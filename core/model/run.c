/* SPDX-License-Identifier: Apache-2.0
 *
 * Running a model: its steps in order. Results live until their last reader has been submitted;
 * elementwise steps write over an input that nobody needs any more.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "model/model.h"

typedef struct run {
    dhow_model *model;
    dhow_stream *stream;
    dhow_tensor **tensors; /* by value; retained */
    dhow_tensor **given;   /* by value: outputs to write to, borrowed */
} run;

static dhow_status bind_inputs(run *r, dhow_tensor *const *inputs, uint32_t count) {
    const dhow_model *m = r->model;
    if (count != m->input_count || (count > 0 && inputs == NULL)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "dhow_model_run: %u inputs given, the model has %u", count,
                          m->input_count);
    }
    for (uint32_t i = 0; i < count; i++) {
        const dhowi_value *v = &m->values[m->inputs[i]];
        dhow_tensor *t = inputs[i];
        char what[96], a[160], b[192];
        (void)snprintf(what, sizeof what, "input '%.64s'", v->name);
        DHOWI_TRY(dhowi_tensor_check_read(t, "dhow_model_run", what));
        bool fits = t->dtype == v->spec.dtype && t->rank == v->spec.rank;
        for (int32_t k = 0; fits && k < t->rank; k++)
            fits = v->spec.shape[k] < 0 || v->spec.shape[k] == t->shape[k];
        if (!fits) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_model_run: %s is %s, the model wants %s",
                              what, dhowi_tensor_text(t, b, sizeof b),
                              dhowi_spec_text(&v->spec, a, sizeof a));
        }
        if (dhowi_tensor_device(t) != m->device) {
            return dhowi_fail(
                DHOW_INVALID_ARGUMENT,
                "dhow_model_run: %s is on %s, the model on %s; move one with dhow_tensor_to or "
                "dhow_model_to",
                what, dhowi_tensor_device(t)->name, m->device->name);
        }
        dhowi_handle_retain(&t->handle);
        r->tensors[m->inputs[i]] = t;
    }
    return DHOW_OK;
}

static dhow_status bind_outputs(run *r, dhow_tensor **outputs, uint32_t count) {
    const dhow_model *m = r->model;
    if (count != m->output_count || (count > 0 && outputs == NULL)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "dhow_model_run: room for %u outputs given, the model has %u", count,
                          m->output_count);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (outputs[i] == NULL) continue;
        char what[96];
        (void)snprintf(what, sizeof what, "output '%.64s'", m->output_names[i]);
        DHOWI_TRY(dhowi_tensor_check_write(outputs[i], "dhow_model_run", what));
        r->given[m->outputs[i]] = outputs[i];
    }
    return DHOW_OK;
}

/* A result may take over an input that this step reads last, if nobody outside sees it. */
static dhow_tensor *reusable_input(const run *r, uint32_t index, const dhowi_spec *spec) {
    const dhow_model *m = r->model;
    const dhowi_step *s = &m->steps[index];
    if ((dhowi_op_of(s->op)->flags & DHOWI_OP_ELEMENTWISE) == 0) return NULL;
    for (int i = 0; i < DHOWI_OP_MAX_INPUTS && s->in[i] >= 0; i++) {
        const dhowi_value *v = &m->values[s->in[i]];
        dhow_tensor *t = r->tensors[s->in[i]];
        bool ours = v->kind == DHOWI_VALUE_RESULT && !v->is_output && v->last_use == (int32_t)index;
        bool alone = atomic_load(&t->storage->handle.references) == 1; /* no view of it lives on */
        if (ours && alone && t->contiguous && t->dtype == spec->dtype &&
            dhowi_shape_equal(t->rank, t->shape, spec->rank, spec->shape)) {
            return t;
        }
    }
    return NULL;
}

static dhow_status make_result(run *r, uint32_t index, const dhowi_spec *spec) {
    const dhowi_step *s = &r->model->steps[index];
    dhow_tensor *t = r->given[s->out] != NULL ? r->given[s->out] : reusable_input(r, index, spec);
    if (t != NULL) {
        dhowi_handle_retain(&t->handle);
        r->tensors[s->out] = t;
        return DHOW_OK;
    }
    return dhowi_tensor_new(r->model->device, spec->dtype, spec->rank, spec->shape,
                            &r->tensors[s->out]);
}

static dhow_status run_step(run *r, uint32_t index) {
    const dhowi_step *s = &r->model->steps[index];
    const dhowi_op *op = dhowi_op_of(s->op);
    dhow_tensor *in[DHOWI_OP_MAX_INPUTS] = {NULL};
    dhowi_spec specs[DHOWI_OP_MAX_INPUTS], result;
    const dhowi_spec *given[DHOWI_OP_MAX_INPUTS] = {NULL};
    uint32_t count = 0;
    for (uint32_t i = 0; i < DHOWI_OP_MAX_INPUTS; i++) {
        if (s->in[i] < 0) continue;
        in[i] = r->tensors[s->in[i]];
        dhowi_spec_of(in[i], &specs[i]);
        given[i] = &specs[i];
        count = i + 1;
    }
    DHOWI_TRY(dhowi_op_infer(op, given, &s->attrs, &result));
    if (s->op == DHOWI_OP_flatten && r->given[s->out] == NULL &&
        in[0]->contiguous) { /* only another shape */
        return dhow_tensor_reshape(in[0], result.rank, result.shape, &r->tensors[s->out]);
    }
    DHOWI_TRY(make_result(r, index, &result));
    return dhowi_op_call(s->op, r->stream, in, count, &s->attrs, r->tensors[s->out]);
}

static void let_go(run *r, uint32_t index) {
    const dhowi_step *s = &r->model->steps[index];
    for (int i = 0; i < DHOWI_OP_MAX_INPUTS; i++) {
        if (s->in[i] < 0) continue;
        const dhowi_value *v = &r->model->values[s->in[i]];
        if (v->kind == DHOWI_VALUE_PARAMETER || v->is_output || v->last_use != (int32_t)index)
            continue;
        dhow_tensor_release(r->tensors[s->in[i]]);
        r->tensors[s->in[i]] = NULL;
    }
}

static dhow_status run_steps(run *r) {
    dhow_model *m = r->model;
    for (uint32_t i = 0; i < m->parameter_count; i++) {
        dhow_tensor *t = m->values[m->parameters[i]].tensor;
        atomic_store_explicit(&t->storage->frozen, true, memory_order_relaxed);
        dhowi_handle_retain(&t->handle);
        r->tensors[m->parameters[i]] = t;
    }
    for (uint32_t i = 0; i < m->step_count; i++) {
        dhow_status status = run_step(r, i);
        if (status != DHOW_OK) {
            char text[96];
            return dhowi_fail_prefix(status, "%s", dhowi_step_text(m, i, text, sizeof text));
        }
        let_go(r, i);
    }
    return DHOW_OK;
}

static void hand_out(run *r, dhow_tensor **outputs) {
    for (uint32_t i = 0; i < r->model->output_count; i++) {
        if (outputs[i] != NULL) continue;
        outputs[i] = r->tensors[r->model->outputs[i]];
        dhowi_handle_retain(&outputs[i]->handle);
    }
}

dhow_status dhow_model_run(dhow_model *m, dhow_stream *stream, dhow_tensor *const *inputs,
                           uint32_t input_count, dhow_tensor **outputs, uint32_t output_count) {
    static const char function[] = "dhow_model_run";
    DHOWI_TRY(dhowi_model_check(m, function));
    run r = {.model = m};
    DHOWI_TRY(dhowi_stream_resolve(stream, m->device, function, &r.stream));
    r.tensors = dhowi_alloc_array(2 * (size_t)m->value_count, sizeof(dhow_tensor *));
    if (r.tensors == NULL) return dhowi_fail_memory(function);
    r.given = r.tensors + m->value_count;
    dhow_status status = bind_inputs(&r, inputs, input_count);
    if (status == DHOW_OK) status = bind_outputs(&r, outputs, output_count);
    if (status == DHOW_OK) status = run_steps(&r);
    if (status == DHOW_OK) hand_out(&r, outputs);
    for (uint32_t i = 0; i < m->value_count; i++) dhow_tensor_release(r.tensors[i]);
    dhowi_free(r.tensors);
    return status;
}
