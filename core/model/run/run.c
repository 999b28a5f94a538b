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

dhow_status dhowi_check_input(const dhow_model *m, const char *function, uint32_t i,
                              dhow_tensor *t) {
    const dhowi_value *v = &m->values[m->inputs[i]];
    char what[96], a[160], b[192];
    (void)snprintf(what, sizeof what, "input '%.64s'", v->name);
    if (v->form != DHOW_DATUM_TENSOR)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: %s is %s, no tensor: dhow_model_run_data() takes it", function, what,
                          dhowi_datum_kind_text(v->form));
    DHOWI_TRY(dhowi_tensor_check_read(t, function, what));
    bool fits = t->dtype == v->desc.dtype && (v->desc.rank < 0 || t->rank == v->desc.rank);
    for (int32_t k = 0; fits && k < v->desc.rank; k++)
        fits = v->desc.shape[k] < 0 || v->desc.shape[k] == t->shape[k];
    if (!fits) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s is %s, the model wants %s", function, what,
                          dhowi_tensor_text(t, b, sizeof b),
                          dhowi_desc_text(&v->desc, a, sizeof a));
    }
    if (dhowi_tensor_device(t) == m->device) return DHOW_OK;
    return dhowi_fail(
        DHOW_INVALID_ARGUMENT,
        "%s: %s is on %s, the model on %s; move one with dhow_tensor_to or dhow_model_to", function,
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

static dhow_status check_counts(const dhow_model *m, const dhowi_tensor_run *run) {
    if (run->input_count != m->input_count || (run->input_count > 0 && run->inputs == NULL))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %u inputs given, the model has %u",
                          run->function, run->inputs == NULL ? 0 : run->input_count,
                          m->input_count);
    bool room = run->given != NULL || run->made != NULL;
    if (run->output_count != m->output_count || (run->output_count > 0 && !room))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: room for %u outputs given, the model has %u",
                          run->function, room ? run->output_count : 0, m->output_count);
    return DHOW_OK;
}

static dhow_status bind_inputs(const dhow_model *m, dhowi_run_io *io, const dhowi_tensor_run *run) {
    for (uint32_t i = 0; i < m->input_count; i++) {
        DHOWI_TRY(dhowi_check_input(m, run->function, i, run->inputs[i]));
        DHOWI_TRY(dhowi_plain_input(io->stream, run->inputs[i], &io->inputs[i]));
    }
    return DHOW_OK;
}

static bool is_given(const dhowi_tensor_run *run, uint32_t i) {
    return run->given != NULL && (run->made == NULL || run->given[i] != NULL);
}

/* How many inputs a given tensor shares memory with; *out is the last of them. */
static uint32_t find_overlaps(const dhow_model *m, const dhowi_run_io *io, const dhow_tensor *given,
                              uint32_t *out) {
    uint32_t overlaps = 0;
    for (uint32_t k = 0; k < m->input_count; k++) {
        if (!dhowi_tensor_overlap(given, io->inputs[k])) continue;
        overlaps++;
        *out = k;
    }
    return overlaps;
}

/* What the plan can write to directly; other results get a tensor of their own and are copied. */
static dhow_status bind_output(const dhow_model *m, dhowi_run_io *io, const dhowi_tensor_run *run,
                               uint32_t i) {
    dhow_tensor *given = run->given[i];
    char what[96];
    (void)snprintf(what, sizeof what, "output '%.64s'", m->output_names[i]);
    DHOWI_TRY(dhowi_tensor_check_write(given, run->function, what));
    if (dhowi_tensor_device(given) != m->device)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s is on %s, the model on %s", run->function,
                          what, dhowi_tensor_device(given)->name, m->device->name);
    for (uint32_t k = 0; k < i; k++) {
        if (is_given(run, k) && dhowi_tensor_overlap(given, run->given[k]))
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s shares memory with output '%.64s'",
                              run->function, what, m->output_names[k]);
    }
    if (!is_plain(given)) return DHOW_OK;
    uint32_t input = 0;
    const uint32_t overlaps = find_overlaps(m, io, given, &input);
    if (overlaps == 1 && dhowi_tensor_same(given, io->inputs[input]))
        io->shares[i] = 1 + input;
    else if (overlaps > 0)
        return DHOW_OK;
    dhowi_handle_retain(&given->handle);
    io->outputs[i] = given;
    return DHOW_OK;
}

/* A result that the plan could not write to the caller's tensor directly. */
static dhow_status copy_out(const dhow_model *m, const dhowi_run_io *io,
                            const dhowi_tensor_run *run, uint32_t i) {
    dhow_tensor *from = io->outputs[i], *to = run->given[i];
    if (from->dtype != to->dtype ||
        !dhowi_shape_equal(from->rank, from->shape, to->rank, to->shape)) {
        char a[192], b[192];
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: output '%.64s' is %s, the result is %s",
                          run->function, m->output_names[i], dhowi_tensor_text(to, a, sizeof a),
                          dhowi_tensor_text(from, b, sizeof b));
    }
    return dhow_copy_async(io->stream, from, to, 0);
}

/* New tensors are handed out when nothing can fail any more. */
static dhow_status hand_out(const dhow_model *m, dhowi_run_io *io, const dhowi_tensor_run *run) {
    for (uint32_t i = 0; i < m->output_count; i++) {
        if (is_given(run, i) && run->given[i] != io->outputs[i]) DHOWI_TRY(copy_out(m, io, run, i));
    }
    for (uint32_t i = 0; i < m->output_count; i++) {
        if (is_given(run, i)) continue;
        run->made[i] = io->outputs[i];
        io->outputs[i] = NULL;
    }
    return DHOW_OK;
}

/* Results that are copied to the tensors given are there at the end. */
static bool writes_directly(const dhow_model *m, const dhowi_run_io *io,
                            const dhowi_tensor_run *run) {
    for (uint32_t i = 0; i < m->output_count; i++)
        if (run->groups->group[i] < run->groups->count && io->outputs[i] != run->given[i])
            return false;
    return true;
}

static dhow_status run_bound(dhow_model *m, dhowi_run_io *io, const dhowi_tensor_run *run) {
    DHOWI_TRY(bind_inputs(m, io, run));
    for (uint32_t i = 0; i < m->output_count; i++) {
        if (is_given(run, i)) DHOWI_TRY(bind_output(m, io, run, i));
    }
    bool shared = false;
    for (uint32_t i = 0; i < m->output_count; i++) shared = shared || io->shares[i] != 0;
    if (!shared) io->shares = NULL;
    if (run->groups != NULL && writes_directly(m, io, run)) io->groups = run->groups;
    DHOWI_TRY(dhowi_run_planned(m, io));
    DHOWI_TRY(hand_out(m, io, run));
    return run->groups == NULL ? DHOW_OK
                               : dhowi_groups_tell(run->groups, io->stream, run->groups->count);
}

static dhow_status run_on(dhow_model *m, dhow_stream *stream, const dhowi_tensor_run *run) {
    dhowi_run_io io = {.stream = stream};
    dhow_tensor *few[FEW_TENSORS] = {NULL};
    uint32_t few_shares[FEW_TENSORS] = {0}, *shares = few_shares;
    uint32_t tensors = m->input_count + m->output_count;
    io.inputs = few;
    if (tensors > FEW_TENSORS) {
        const size_t each = sizeof(dhow_tensor *) + sizeof(uint32_t);
        io.inputs = dhowi_alloc_array(tensors, each);
        if (io.inputs == NULL) return dhowi_fail_memory(run->function);
        shares = (uint32_t *)(io.inputs + tensors);
    }
    io.outputs = io.inputs + m->input_count;
    io.shares = shares;
    io.input_count = m->input_count;
    io.output_count = m->output_count;
    dhow_status status = run_bound(m, &io, run);
    for (uint32_t i = 0; i < tensors; i++) dhow_tensor_release(io.inputs[i]);
    if (io.inputs != few) dhowi_free(io.inputs);
    return status;
}

dhow_status dhowi_model_run_tensors(dhow_model *m, dhow_stream *stream,
                                    const dhowi_tensor_run *run) {
    dhowi_run_stream on;
    DHOWI_TRY(dhowi_model_check(m, run->function));
    DHOWI_TRY(check_counts(m, run));
    DHOWI_TRY(dhowi_model_begin_run(m, run->function, stream, &on));
    dhow_status status = run_on(m, on.stream, run);
    dhowi_model_end_run(m, &on);
    return status;
}

dhow_status dhow_model_run(dhow_model *m, dhow_stream *stream, dhow_tensor *const *inputs,
                           uint32_t input_count, dhow_tensor **outputs, uint32_t output_count) {
    for (uint32_t i = 0; outputs != NULL && i < output_count; i++) outputs[i] = NULL;
    return dhowi_model_run_tensors(m, stream,
                                   &(dhowi_tensor_run){.function = "dhow_model_run",
                                                       .inputs = inputs,
                                                       .input_count = input_count,
                                                       .made = outputs,
                                                       .output_count = output_count});
}

dhow_status dhow_model_run_into(dhow_model *m, dhow_stream *stream, dhow_tensor *const *inputs,
                                uint32_t input_count, dhow_tensor *const *outputs,
                                uint32_t output_count) {
    return dhowi_model_run_tensors(m, stream,
                                   &(dhowi_tensor_run){.function = "dhow_model_run_into",
                                                       .inputs = inputs,
                                                       .input_count = input_count,
                                                       .given = outputs,
                                                       .output_count = output_count});
}
