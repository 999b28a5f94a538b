/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters of models: looking, setting, loading, saving.
 */
#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/objects/struct_size.h"
#include "base/text/near.h"
#include "base/text/text.h"
#include "model/graph/model.h"

uint32_t dhow_model_parameter_count(const dhow_model *model) {
    return dhowi_handle_is(model, DHOWI_MODEL) ? model->parameter_count : 0;
}

dhow_status dhow_model_parameter_at(const dhow_model *m, uint32_t index,
                                    dhow_model_parameter_info *given) {
    dhow_model_parameter_info own, *out = &own;
    static const char function[] = "dhow_model_parameter_at";
    DHOWI_TRY(DHOWI_STRUCT_OUT(dhow_model_parameter_info, given, &own, function));
    DHOWI_TRY(dhowi_model_check(m, function));
    if (index >= m->parameter_count) {
        return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: index %u, the model has %u parameters", function,
                          index, m->parameter_count);
    }
    dhow_model *model =
        (dhow_model *)(uintptr_t)m; /* what a file holds is read when it is wanted */
    dhowi_value *v = &model->values[m->parameters[index]];
    out->name = v->name;
    pthread_mutex_lock(&model->making);
    dhow_status status = dhowi_model_resident(model, v, &out->tensor);
    pthread_mutex_unlock(&model->making);
    DHOWI_STRUCT_GIVE(given, out);
    return status;
}

/* A parameter is replaced, never written: an old tensor may be frozen and packed. */
static void replace(dhow_model *m, dhowi_value *v, dhow_tensor *tensor) {
    dhowi_model_forget(m);
    m->parameters_given = true;
    dhow_tensor_release(v->tensor);
    dhow_tensor_release(v->resident);
    v->tensor = tensor;
    v->resident = NULL;
    v->source = NULL;
    dhowi_value_drop_half(v);
    (void)dhowi_copy_text(tensor->storage->label, sizeof tensor->storage->label, v->name);
}

/* Names the one that is nearest, else the first few. */
static dhow_status no_parameter(const dhow_model *m, const char *function, const char *name) {
    dhowi_near near = {.wanted = name};
    char buffer[400] = "";
    dhowi_text names = DHOWI_TEXT(buffer);
    for (uint32_t i = 0; i < m->parameter_count; i++) {
        const char *own = m->values[m->parameters[i]].name;
        dhowi_near_try(&near, own);
        if (i < 6) dhowi_text_add(&names, "%s'%.64s'", i > 0 ? ", " : "", own);
    }
    if (near.found != NULL)
        return dhowi_fail(DHOW_NOT_FOUND,
                          "%s: the model has no parameter '%.64s'; is '%.64s' meant?", function,
                          name, near.found);
    return dhowi_fail(DHOW_NOT_FOUND, "%s: the model has no parameter '%.64s'; it has %s%s",
                      function, name, m->parameter_count > 0 ? buffer : "none",
                      m->parameter_count > 6 ? ", ..." : "");
}

dhow_status dhow_model_set_parameter(dhow_model *m, const char *name, dhow_tensor *value) {
    static const char function[] = "dhow_model_set_parameter";
    char a[160], b[192];
    dhow_tensor *copy;
    DHOWI_TRY(dhowi_model_check(m, function));
    DHOWI_TRY(dhowi_tensor_check_read(value, function, "value"));
    dhowi_value *v = name != NULL ? dhowi_model_find_parameter(m, name) : NULL;
    if (v == NULL) {
        return no_parameter(m, function, name != NULL ? name : "");
    }
    if (value->dtype != v->desc.dtype ||
        !dhowi_shape_equal(value->rank, value->shape, v->desc.rank, v->desc.shape)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: '%s' is %s, given %s", function, name,
                          dhowi_desc_text(&v->desc, a, sizeof a),
                          dhowi_tensor_text(value, b, sizeof b));
    }
    DHOWI_TRY(dhowi_tensor_new(m->context->cpu, v->desc.dtype, v->desc.rank, v->desc.shape, &copy));
    dhow_status status = dhow_copy(value, copy);
    if (status == DHOW_OK) status = dhowi_model_begin_change(m, function);
    if (status != DHOW_OK) {
        dhow_tensor_release(copy);
        return status;
    }
    replace(m, v, copy);
    dhowi_model_end_change(m);
    return DHOW_OK;
}

/* ---- loading ---- */

static const dhowi_value *wanted(const dhow_model *m, uint32_t i) {
    return &m->values[m->parameters[i]];
}

static bool find_entry(const dhow_safetensors *file, const char *name,
                       dhow_safetensors_entry *entry) {
    for (uint32_t i = 0; i < dhow_safetensors_count(file); i++) {
        if (dhow_safetensors_at(file, i, entry) == DHOW_OK && strcmp(entry->name, name) == 0)
            return true;
    }
    return false;
}

/* What differs, report to the caller and gathered for the message as far as it has room. */
typedef struct comparison {
    dhow_state_fn *report;
    void *user;
    uint32_t flags;
    dhowi_text text;
    char buffer[600];
    uint32_t unnamed; /* found no room */
    uint32_t count[DHOW_STATE_MISMATCHED + 1];
} comparison;

static void note(comparison *s, dhow_state_difference difference, const char *name,
                 const char *detail) {
    static const char *const words[] = {"", "missing: ", "unexpected: ", ""};
    char line[560];
    dhowi_text one = DHOWI_TEXT(line);
    s->count[difference]++;
    dhowi_text_add(&one, "; %s%.100s%s%s", words[difference], name, detail[0] != '\0' ? " is " : "",
                   detail);
    if (s->unnamed == 0 && s->text.length + one.length < sizeof s->buffer) {
        dhowi_text_add(&s->text, "%s", line);
    } else {
        s->unnamed++;
    }
    if (s->report != NULL) s->report(s->user, difference, name, detail);
}

static bool fits(const dhowi_value *v, const dhow_safetensors_entry *entry, uint32_t flags) {
    return (entry->dtype == v->desc.dtype || (flags & DHOW_STATE_CONVERT) != 0) &&
           dhowi_shape_equal(entry->rank, entry->shape, v->desc.rank, v->desc.shape);
}

/* A count that training keeps and no run reads; older files lack it. */
static bool is_needless(const char *name) {
    static const char word[] = "num_batches_tracked";
    const size_t length = strlen(name), own = sizeof word - 1;
    return length >= own && strcmp(name + length - own, word) == 0;
}

/* Compares names, shapes and dtypes and tells everything that differs. */
static void compare(const dhow_model *m, const dhow_safetensors *file, comparison *s) {
    char detail[400], a[160], b[160];
    dhow_safetensors_entry entry = DHOW_INIT(dhow_safetensors_entry);
    for (uint32_t i = 0; i < m->parameter_count; i++) {
        const dhowi_value *v = wanted(m, i);
        if (!find_entry(file, v->name, &entry)) {
            if (!is_needless(v->name)) note(s, DHOW_STATE_MISSING, v->name, "");
        } else if (!fits(v, &entry, s->flags)) {
            dhowi_tensor_desc there = {.dtype = entry.dtype, .rank = entry.rank};
            memcpy(there.shape, entry.shape, sizeof there.shape);
            (void)snprintf(detail, sizeof detail, "%s in the file, %s in the model",
                           dhowi_desc_text(&there, a, sizeof a),
                           dhowi_desc_text(&v->desc, b, sizeof b));
            note(s, DHOW_STATE_MISMATCHED, v->name, detail);
        }
    }
    for (uint32_t i = 0; i < dhow_safetensors_count(file); i++) {
        if (dhow_safetensors_at(file, i, &entry) == DHOW_OK &&
            dhowi_model_find_parameter(m, entry.name) == NULL)
            note(s, DHOW_STATE_UNEXPECTED, entry.name, "");
    }
}

static dhow_status refuse(const comparison *s, const char *path) {
    char more[32] = "";
    if (s->unnamed > 0) (void)snprintf(more, sizeof more, "; and %u more", s->unnamed);
    return dhowi_fail(
        DHOW_INVALID_ARGUMENT,
        "%.200s does not fit the model (%u missing, %u unexpected, %u differ); "
        "dhow_model_load_state_with() takes what fits with DHOW_STATE_PARTIAL%s%s%s",
        path, s->count[DHOW_STATE_MISSING], s->count[DHOW_STATE_UNEXPECTED],
        s->count[DHOW_STATE_MISMATCHED],
        s->count[DHOW_STATE_MISMATCHED] > 0 ? ", and other dtypes with DHOW_STATE_CONVERT" : "",
        s->buffer, more);
}

/* Puts the same values in another dtype in its place. */
static dhow_status convert(dhow_dtype dtype, dhow_tensor **t) {
    dhow_tensor *from = *t;
    dhow_tensor *to;
    DHOWI_TRY(dhowi_tensor_new(dhowi_tensor_device(from), dtype, from->rank, from->shape, &to));
    *t = to;
    dhow_status status = from->count > 0 ? dhow_cast(NULL, from, *t) : DHOW_OK;
    dhow_tensor_release(from);
    return status;
}

/* Those that fit; the others stay NULL. */
static dhow_status load_all(dhow_model *m, const dhow_safetensors *file, uint32_t flags,
                            dhow_tensor **loaded) {
    dhow_safetensors_entry entry = DHOW_INIT(dhow_safetensors_entry);
    for (uint32_t i = 0; i < m->parameter_count; i++) {
        const dhowi_value *v = wanted(m, i);
        if (!find_entry(file, v->name, &entry) || !fits(v, &entry, flags)) continue;
        DHOWI_TRY(dhow_safetensors_load(file, v->name, m->context->cpu, &loaded[i]));
        if (entry.dtype != v->desc.dtype) DHOWI_TRY(convert(v->desc.dtype, &loaded[i]));
    }
    return DHOW_OK;
}

static dhow_status load(dhow_model *m, const char *function, const char *path, uint32_t flags,
                        comparison *s) {
    dhow_safetensors *file;
    DHOWI_TRY(dhow_safetensors_open(m->context, path, &file));
    dhow_tensor **loaded = dhowi_alloc_array((size_t)m->parameter_count + 1, sizeof(dhow_tensor *));
    dhow_status status = loaded == NULL ? dhowi_fail_memory(function) : DHOW_OK;
    if (status == DHOW_OK) compare(m, file, s);
    if (status == DHOW_OK && (flags & DHOW_STATE_PARTIAL) == 0 && s->text.length > 0)
        status = refuse(s, path);
    if (status == DHOW_OK) status = load_all(m, file, flags, loaded);
    for (uint32_t i = 0; loaded != NULL && i < m->parameter_count; i++) {
        if (status == DHOW_OK && loaded[i] != NULL) {
            replace(m, &m->values[m->parameters[i]], loaded[i]);
        } else {
            dhow_tensor_release(loaded[i]);
        }
    }
    dhowi_free(loaded);
    dhow_safetensors_close(file);
    return status;
}

dhow_status dhow_model_load_state_with(dhow_model *m, const char *path, uint32_t flags,
                                       dhow_state_fn *report, void *user) {
    static const char function[] = "dhow_model_load_state_with";
    DHOWI_TRY(dhowi_model_check(m, function));
    if ((flags & ~(uint32_t)(DHOW_STATE_PARTIAL | DHOW_STATE_CONVERT)) != 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: flags %#x are unknown", function, flags);
    comparison s = {.report = report, .user = user, .flags = flags};
    s.text = DHOWI_TEXT(s.buffer);
    DHOWI_TRY(dhowi_model_begin_change(m, function));
    dhow_status status = load(m, function, path, flags, &s);
    dhowi_model_end_change(m);
    return status;
}

dhow_status dhow_model_load_state(dhow_model *m, const char *path) {
    return dhow_model_load_state_with(m, path, 0, NULL, NULL);
}

dhow_status dhow_model_save_state(dhow_model *m, const char *path) {
    static const char function[] = "dhow_model_save_state";
    DHOWI_TRY(dhowi_model_check(m, function));
    const char **names = dhowi_alloc_array(m->parameter_count, sizeof(char *));
    dhow_tensor **tensors = dhowi_alloc_array(m->parameter_count, sizeof(dhow_tensor *));
    dhow_status status = names == NULL || tensors == NULL ? dhowi_fail_memory(function) : DHOW_OK;
    pthread_mutex_lock(&m->making);
    for (uint32_t i = 0; status == DHOW_OK && i < m->parameter_count; i++) {
        names[i] = wanted(m, i)->name;
        status = dhowi_model_tensor(m, &m->values[m->parameters[i]], &tensors[i]);
    }
    pthread_mutex_unlock(&m->making);
    if (status == DHOW_OK) status = dhow_safetensors_save(path, m->parameter_count, names, tensors);
    dhowi_free(names);
    dhowi_free(tensors);
    return status;
}
