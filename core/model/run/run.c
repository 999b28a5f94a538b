/* SPDX-License-Identifier: Apache-2.0
 *
 * Running a model: inputs and outputs are checked and bound; cache.c finds the plan for them.
 */
#include "model/run/run.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "copy/engine.h"

enum { FEW_TENSORS = 16 };

dhow_status dhowi_check_input(const dhow_model *m, uint32_t i, dhow_tensor *t) {
    const dhowi_value *v = &m->values[m->inputs[i]];
    char what[96], a[160], b[192];
    (void)snprintf(what, sizeof what, "input '%.64s'", v->name);
    if (v->form != DHOW_DATUM_TENSOR)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "dhow_model_run: %s is %s, no tensor: dhow_model_run_data() takes it",
                          what, dhowi_datum_kind_text(v->form));
    DHOWI_TRY(dhowi_tensor_check_read(t, "dhow_model_run", what));
    bool fits = t->dtype == v->spec.dtype && (v->spec.rank < 0 || t->rank == v->spec.rank);
    for (int32_t k = 0; fits && k < v->spec.rank; k++)
        fits = v->spec.shape[k] < 0 || v->spec.shape[k] == t->shape[k];
    if (!fits) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_model_run: %s is %s, the model wants %s",
                          what, dhowi_tensor_text(t, b, sizeof b),
                          dhowi_spec_text(&v->spec, a, sizeof a));
    }
    if (dhowi_tensor_device(t) == m->device) return DHOW_OK;
    return dhowi_fail(
        DHOW_INVALID_ARGUMENT,
        "dhow_model_run: %s is on %s, the model on %s; move one with dhow_tensor_to or "
        "dhow_model_to",
        what, dhowi_tensor_device(t)->name, m->device->name);
}

static bool is_plain(const dhow_tensor *t) {
    uint64_t align = DHOWI_MAX((uint64_t)dhowi_tensor_device(t)->desc.offset_align, (uint64_t)1);
    return t->contiguous && dhowi_tensor_offset_bytes(t) % align == 0;
}

dhow_status dhowi_plain_input(dhow_stream *stream, dhow_tensor *t, dhow_tensor **out) {
    if (is_plain(t)) {
        dhowi_handle_retain(&t->handle);
        *out = t;
        return DHOW_OK;
    }
    DHOWI_TRY(dhowi_tensor_new(stream->device, t->dtype, t->rank, t->shape, out));
    return t->count > 0 ? dhowi_copy_local(stream, t, *out, true) : DHOW_OK;
}

static dhow_status bind_inputs(dhow_model *m, dhowi_run_io *io, dhow_tensor *const *inputs,
                               uint32_t count) {
    if (count != m->input_count || (count > 0 && inputs == NULL)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "dhow_model_run: %u inputs given, the model has %u", count,
                          m->input_count);
    }
    for (uint32_t i = 0; i < count; i++) {
        DHOWI_TRY(dhowi_check_input(m, i, inputs[i]));
        DHOWI_TRY(dhowi_plain_input(io->stream, inputs[i], &io->inputs[i]));
    }
    return DHOW_OK;
}

/* Outputs that the plan can write to directly; others get a tensor of their own and are copied. */
static dhow_status bind_outputs(dhow_model *m, dhowi_run_io *io, dhow_tensor **outputs,
                                uint32_t count) {
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
        if (dhowi_tensor_device(outputs[i]) != m->device)
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_model_run: %s is on %s, the model on %s",
                              what, dhowi_tensor_device(outputs[i])->name, m->device->name);
        bool apart = is_plain(outputs[i]);
        for (uint32_t k = 0; k < m->input_count; k++)
            apart = apart && !dhowi_tensor_overlap(outputs[i], io->inputs[k]);
        if (!apart) continue;
        dhowi_handle_retain(&outputs[i]->handle);
        io->outputs[i] = outputs[i];
    }
    return DHOW_OK;
}

/* New tensors are handed out when nothing can fail any more. */
static dhow_status hand_out(dhow_model *m, dhowi_run_io *io, dhow_tensor **outputs) {
    for (uint32_t i = 0; i < m->output_count; i++) {
        if (outputs[i] != NULL && outputs[i] != io->outputs[i]) {
            const dhow_tensor *from = io->outputs[i];
            if (from->dtype != outputs[i]->dtype ||
                !dhowi_shape_equal(from->rank, from->shape, outputs[i]->rank, outputs[i]->shape)) {
                char a[192], b[192];
                return dhowi_fail(DHOW_INVALID_ARGUMENT,
                                  "dhow_model_run: output '%.64s' is %s, the result is %s",
                                  m->output_names[i], dhowi_tensor_text(outputs[i], a, sizeof a),
                                  dhowi_tensor_text(from, b, sizeof b));
            }
            DHOWI_TRY(dhow_copy_async(io->stream, io->outputs[i], outputs[i], 0));
        }
    }
    for (uint32_t i = 0; i < m->output_count; i++) {
        if (outputs[i] != NULL) continue;
        outputs[i] = io->outputs[i];
        io->outputs[i] = NULL;
    }
    return DHOW_OK;
}

static dhow_status run_tensors(dhow_model *m, dhow_stream *stream, dhow_tensor *const *inputs,
                               uint32_t input_count, dhow_tensor **outputs, uint32_t output_count) {
    dhowi_run_io io = {.stream = stream};
    dhow_tensor *few[FEW_TENSORS] = {NULL};
    uint32_t tensors = m->input_count + m->output_count;
    io.inputs = few;
    if (tensors > FEW_TENSORS) io.inputs = dhowi_alloc_array(tensors, sizeof(dhow_tensor *));
    if (io.inputs == NULL) return dhowi_fail_memory("dhow_model_run");
    io.outputs = io.inputs + m->input_count;
    io.input_count = m->input_count;
    io.output_count = m->output_count;
    dhow_status status = bind_inputs(m, &io, inputs, input_count);
    if (status == DHOW_OK) status = bind_outputs(m, &io, outputs, output_count);
    if (status == DHOW_OK) status = dhowi_run_planned(m, &io);
    if (status == DHOW_OK) status = hand_out(m, &io, outputs);
    for (uint32_t i = 0; i < m->input_count + m->output_count; i++)
        dhow_tensor_release(io.inputs[i]);
    if (io.inputs != few) dhowi_free(io.inputs);
    return status;
}

dhow_status dhow_model_run(dhow_model *m, dhow_stream *stream, dhow_tensor *const *inputs,
                           uint32_t input_count, dhow_tensor **outputs, uint32_t output_count) {
    static const char function[] = "dhow_model_run";
    dhowi_run_stream run;
    DHOWI_TRY(dhowi_model_check(m, function));
    DHOWI_TRY(dhowi_model_begin_run(m, function, stream, &run));
    dhow_status status = run_tensors(m, run.stream, inputs, input_count, outputs, output_count);
    dhowi_model_end_run(m, &run);
    return status;
}
