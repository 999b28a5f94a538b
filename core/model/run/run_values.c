/* SPDX-License-Identifier: Apache-2.0
 *
 * Running models that take or give more than tensors: sequences are laid out as the tensors they
 * hold, texts and what is missing are part of the plan.
 */
#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "model/run/run.h"

static const char k_function[] = "dhow_model_run_data";

/* ---- inputs ---- */

static dhow_status wrong_kind(const dhowi_value *v, const dhow_datum *given) {
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: input '%.64s' is %s, the model wants %s",
                      k_function, v->name, dhowi_datum_kind_text(given->kind),
                      dhowi_datum_kind_text(v->form));
}

/* Files declare the shapes of what a sequence holds loosely: its elements' type is what counts. */
static dhow_status check_item(const dhow_model *m, const dhowi_value *v, const dhow_datum *item) {
    bool texts = v->desc.dtype == 0;
    if (item->kind != (texts ? DHOW_DATUM_TEXTS : DHOW_DATUM_TENSOR)) return wrong_kind(v, item);
    if (texts) return DHOW_OK;
    char what[96];
    (void)snprintf(what, sizeof what, "sequence '%.64s'", v->name);
    DHOWI_TRY(dhowi_tensor_check_read(item->tensor, k_function, what));
    if (item->tensor->dtype != v->desc.dtype)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s holds %s, the model wants %s", k_function,
                          what, dhow_dtype_name(item->tensor->dtype),
                          dhow_dtype_name(v->desc.dtype));
    if (dhowi_tensor_device(item->tensor) == m->device) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "%s: a tensor of %s is on %s, the model on %s; move one with dhow_tensor_to "
                      "or dhow_model_to",
                      k_function, what, dhowi_tensor_device(item->tensor)->name, m->device->name);
}

static dhow_status check_texts(const dhowi_value *v, const dhow_datum *given) {
    bool fits = v->desc.rank < 0 || v->desc.rank == given->rank;
    for (int32_t k = 0; fits && k < v->desc.rank; k++)
        fits = v->desc.shape[k] < 0 || v->desc.shape[k] == given->shape[k];
    if (fits) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the texts of input '%.64s' have another shape",
                      k_function, v->name);
}

static dhow_status check_given(const dhow_model *m, uint32_t i, const dhow_datum *given,
                               uint32_t *slots) {
    const dhowi_value *v = &m->values[m->inputs[i]];
    char what[96];
    (void)snprintf(what, sizeof what, "input '%.64s'", v->name);
    DHOWI_TRY(dhowi_handle_check(given, DHOWI_DATUM, k_function, what));
    if (given->kind == DHOW_DATUM_NONE && v->optional) return DHOW_OK;
    if (given->kind != v->form) return wrong_kind(v, given);
    if (given->kind == DHOW_DATUM_TEXTS) return check_texts(v, given);
    int64_t tensors = given->kind == DHOW_DATUM_TENSOR ? 1 : given->count;
    if (tensors > (int64_t)(INT32_MAX - *slots))
        return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: too many tensors", k_function);
    for (int64_t k = 0; given->kind == DHOW_DATUM_SEQUENCE && k < given->count; k++)
        DHOWI_TRY(check_item(m, v, given->items[k]));
    if (given->kind == DHOW_DATUM_TENSOR)
        DHOWI_TRY(dhowi_check_input(m, k_function, i, given->tensor));
    *slots += (uint32_t)tensors;
    return DHOW_OK;
}

static dhow_status take_tensor(dhowi_run_io *io, dhow_tensor *t, uint32_t input) {
    io->owners[io->input_count] = input;
    DHOWI_TRY(dhowi_plain_input(io->stream, t, &io->inputs[io->input_count]));
    io->input_count++;
    return DHOW_OK;
}

static dhow_status take_inputs(const dhow_model *m, dhowi_run_io *io) {
    uint32_t slots = 0;
    for (uint32_t i = 0; i < m->input_count; i++)
        DHOWI_TRY(check_given(m, i, io->values[i], &slots));
    io->inputs = dhowi_alloc_array((size_t)slots + 1, sizeof(dhow_tensor *));
    io->owners = dhowi_alloc_array((size_t)slots + 1, sizeof *io->owners);
    if (io->inputs == NULL || io->owners == NULL) return dhowi_fail_memory(k_function);
    for (uint32_t i = 0; i < m->input_count; i++) {
        const dhow_datum *v = io->values[i];
        if (v->kind == DHOW_DATUM_TENSOR) DHOWI_TRY(take_tensor(io, v->tensor, i));
        for (int64_t k = 0; v->kind == DHOW_DATUM_SEQUENCE && k < v->count; k++) {
            if (v->items[k]->kind == DHOW_DATUM_TENSOR)
                DHOWI_TRY(take_tensor(io, v->items[k]->tensor, i));
        }
    }
    return DHOW_OK;
}

/* ---- running ---- */

static dhow_status run_values(dhow_model *m, dhowi_run_io *io) {
    dhow_status status = take_inputs(m, io);
    if (status == DHOW_OK) status = dhowi_run_planned(m, io);
    for (uint32_t i = 0; i < io->input_count; i++) dhow_tensor_release(io->inputs[i]);
    for (uint32_t i = 0; i < io->output_count; i++) dhow_tensor_release(io->outputs[i]);
    dhowi_free(io->inputs);
    dhowi_free(io->owners);
    dhowi_free(io->outputs);
    return status;
}

dhow_status dhow_model_run_data(dhow_model *m, dhow_stream *stream, dhow_datum *const *inputs,
                                uint32_t input_count, dhow_datum **outputs, uint32_t output_count) {
    dhowi_run_io io = {.values = inputs, .results = outputs};
    for (uint32_t i = 0; outputs != NULL && i < output_count; i++) outputs[i] = NULL;
    DHOWI_TRY(dhowi_model_check(m, k_function));
    if (input_count != m->input_count || (inputs == NULL && input_count > 0))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %u inputs given, the model has %u",
                          k_function, input_count, m->input_count);
    if (output_count != m->output_count || (outputs == NULL && output_count > 0))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: room for %u outputs given, the model has %u",
                          k_function, output_count, m->output_count);
    dhow_datum *none = NULL;
    if (inputs == NULL) io.values = &none;
    dhowi_run_stream run;
    DHOWI_TRY(dhowi_model_begin_run(m, k_function, stream, &run));
    io.stream = run.stream;
    dhow_status status = run_values(m, &io);
    dhowi_model_end_run(m, &run);
    for (uint32_t i = 0; i < output_count && status != DHOW_OK; i++) {
        dhow_datum_release(outputs[i]);
        outputs[i] = NULL;
    }
    return status;
}
