/* SPDX-License-Identifier: Apache-2.0
 *
 * Running a model: inputs are checked, the plan for their shapes is found or made, and replayed.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "copy/engine.h"
#include "model/plan.h"

enum { FEW_TENSORS = 16, MAX_PLANS = 8, KEY_ROOM = 64, MAX_KEYED_WORDS = 64 };

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

static dhow_status hand_out(dhow_model *m, dhowi_run_io *io, dhow_tensor **outputs) {
    for (uint32_t i = 0; i < m->output_count; i++) {
        if (outputs[i] == NULL) {
            outputs[i] = io->outputs[i];
            io->outputs[i] = NULL;
        } else if (outputs[i] != io->outputs[i]) {
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
    return DHOW_OK;
}

/* ---- the plan for these inputs ---- */

typedef struct run_key {
    int64_t room[KEY_ROOM], *words;
    uint32_t length, capacity;
} run_key;

static bool add_word(run_key *key, int64_t word) {
    if (key->length == key->capacity) {
        int64_t *old = key->words == key->room ? NULL : key->words;
        int64_t *grown = dhowi_realloc_array(old, (size_t)key->capacity * 2, sizeof *grown);
        if (grown == NULL) return false;
        if (old == NULL) memcpy(grown, key->room, sizeof key->room);
        key->words = grown;
        key->capacity *= 2;
    }
    key->words[key->length++] = word;
    return true;
}

static dhow_status add_values(run_key *key, dhow_tensor *t) {
    dhow_tensor *host;
    void *data;
    DHOWI_TRY(dhow_tensor_to(t, t->storage->device->context->cpu, &host));
    dhow_status status = dhow_tensor_host_ptr(host, &data);
    uint64_t bytes = dhowi_tensor_bytes(host);
    for (uint64_t i = 0; status == DHOW_OK && i < bytes; i += sizeof(int64_t)) {
        int64_t word = 0;
        memcpy(&word, (const char *)data + i, DHOWI_MIN(bytes - i, (uint64_t)sizeof word));
        if (!add_word(key, word)) status = dhowi_fail_memory("dhow_model_run");
    }
    dhow_tensor_release(host);
    return status;
}

static dhow_status add_tensor(run_key *key, dhow_tensor *t, bool keyed) {
    bool added = add_word(key, t->rank);
    for (int32_t k = 0; k < t->rank; k++) added = added && add_word(key, t->shape[k]);
    if (!added) return dhowi_fail_memory("dhow_model_run");
    return keyed ? add_values(key, t) : DHOW_OK;
}

static dhow_status add_texts(run_key *key, const dhow_datum *texts) {
    bool added = add_word(key, texts->rank);
    for (int32_t k = 0; k < texts->rank; k++) added = added && add_word(key, texts->shape[k]);
    for (int64_t i = 0; i < texts->count && added; i++) {
        size_t length = strlen(texts->texts[i]);
        added = add_word(key, (int64_t)length);
        for (size_t at = 0; at < length && added; at += sizeof(int64_t)) {
            int64_t word = 0;
            memcpy(&word, texts->texts[i] + at, DHOWI_MIN(length - at, sizeof word));
            added = add_word(key, word);
        }
    }
    return added ? DHOW_OK : dhowi_fail_memory("dhow_model_run_data");
}

static dhow_status add_given(run_key *key, const dhowi_run_io *io, const dhow_datum *given,
                             bool keyed, uint32_t *slot) {
    if (!add_word(key, given->kind) || !add_word(key, given->count))
        return dhowi_fail_memory("dhow_model_run_data");
    if (given->kind == DHOW_DATUM_TEXTS) return add_texts(key, given);
    if (given->kind == DHOW_DATUM_TENSOR) return add_tensor(key, io->inputs[(*slot)++], keyed);
    for (int64_t i = 0; i < given->count; i++)
        DHOWI_TRY(add_given(key, io, given->items[i], keyed, slot));
    return DHOW_OK;
}

static dhow_status make_key(const dhow_model *m, const dhowi_run_io *io, run_key *key) {
    if (key->words != key->room) dhowi_free(key->words);
    key->words = key->room;
    key->capacity = KEY_ROOM;
    key->length = 0;
    (void)add_word(key, (int64_t)dhowi_device_compute(m->device, DHOW_F32));
    for (uint32_t i = 0, slot = 0; i < m->input_count; i++) {
        bool keyed = m->values[m->inputs[i]].keyed;
        DHOWI_TRY(io->values != NULL ? add_given(key, io, io->values[i], keyed, &slot)
                                     : add_tensor(key, io->inputs[i], keyed));
    }
    return DHOW_OK;
}

static dhowi_plan_of_model *find_plan(dhow_model *m, const run_key *key) {
    for (dhowi_plan_of_model **p = &m->plans; *p != NULL; p = &(*p)->next) {
        dhowi_plan_of_model *plan = *p;
        if (plan->key_length != key->length ||
            memcmp(plan->key, key->words, key->length * sizeof *key->words) != 0)
            continue;
        *p = plan->next;
        plan->next = m->plans; /* the latest used comes first */
        m->plans = plan;
        return plan;
    }
    return NULL;
}

static void keep_plan(dhow_model *m, dhowi_plan_of_model *plan) {
    plan->next = m->plans;
    m->plans = plan;
    uint32_t count = 0;
    for (dhowi_plan_of_model **p = &m->plans; *p != NULL; p = &(*p)->next) {
        if (++count < MAX_PLANS || (*p)->next == NULL) continue;
        dhowi_plan_end((*p)->next);
        (*p)->next = NULL;
    }
}

/* Whether the device is still set to the precision that the key holds: a plan made while another
 * thread changed it is of no use to anyone. */
static bool is_of_now(const dhow_model *m, const run_key *key) {
    return key->words[0] == (int64_t)dhowi_device_compute(m->device, DHOW_F32);
}

static void drop_first_plan(dhow_model *m) {
    dhowi_plan_of_model *plan = m->plans;
    m->plans = plan->next;
    dhowi_plan_end(plan);
}

static dhow_status run_by_key(dhow_model *m, dhowi_run_io *io, run_key *key) {
    dhowi_plan_of_model *plan;
    for (uint32_t tries = 0; tries <= m->input_count; tries++) {
        bool stale = false;
        DHOWI_TRY(make_key(m, io, key));
        plan = find_plan(m, key);
        if (plan != NULL) {
            DHOWI_TRY(dhowi_plan_replay(m, plan, io, &stale));
            if (!stale) return dhowi_give_results(m, plan, io);
            drop_first_plan(m);
        }
        dhow_status status = dhowi_plan_make(m, io, key->words, key->length, &plan);
        if (status == DHOW_OK) {
            status = dhowi_give_results(m, plan, io);
            keep_plan(m, plan);
        }
        if (status == DHOW_OK && !is_of_now(m, key)) drop_first_plan(m);
        /* Another input turned out to decide the plan: once more with its values. */
        if (status != DHOWI_NEEDS_VALUES) return status;
    }
    return dhowi_fail(DHOW_INTERNAL, "%s: no plan can be made", m->name);
}

dhow_status dhowi_run_planned(dhow_model *m, dhowi_run_io *io) {
    run_key key = {.words = key.room};
    dhow_status status = run_by_key(m, io, &key);
    if (key.words != key.room) dhowi_free(key.words);
    return status;
}

dhow_status dhow_model_run(dhow_model *m, dhow_stream *stream, dhow_tensor *const *inputs,
                           uint32_t input_count, dhow_tensor **outputs, uint32_t output_count) {
    static const char function[] = "dhow_model_run";
    dhowi_run_io io = {0};
    DHOWI_TRY(dhowi_model_check(m, function));
    DHOWI_TRY(dhowi_stream_resolve(stream, m->device, function, &io.stream));
    dhow_tensor *few[FEW_TENSORS] = {NULL};
    uint32_t tensors = m->input_count + m->output_count;
    io.inputs = few;
    if (tensors > FEW_TENSORS) io.inputs = dhowi_alloc_array(tensors, sizeof(dhow_tensor *));
    if (io.inputs == NULL) return dhowi_fail_memory(function);
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
