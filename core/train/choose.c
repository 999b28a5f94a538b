/* SPDX-License-Identifier: Apache-2.0
 *
 * Which parameters a trainer trains: floats of a name that was asked for, but not what a derivative
 * takes for a constant or is 0 by - a bound of Clip, scales of Resize, weights of a loss - as it
 * would stand still but for the decay of weights.
 */
#include <string.h>

#include "base/memory/alloc.h"
#include "model/operators/backward/backward.h"
#include "train/train.h"

static const char k_create[] = "dhow_trainer_create";

/* ---- what is looked at ---- */

enum { BY_VALUE = 1, BY_CONSTANT = 2 }; /* how outputs read a value, directly or not */

static uint8_t reads_of(const dhowi_node *n, const uint8_t *read) {
    uint8_t found = 0;
    for (uint32_t i = 0; i < n->out_count; i++)
        if (n->out[i] >= 0) found |= read[n->out[i]];
    return found;
}

/* Branches read from outside what is not among the inputs; all of it by value. */
static void note_branches(const dhowi_node *n, uint8_t found, uint8_t *read) {
    for (int k = 0; k < 2; k++) {
        const dhowi_subgraph *g = n->branch[k];
        for (uint32_t i = 0; g != NULL && i < g->node_count; i++) {
            const dhowi_node *inner = &g->nodes[i];
            for (uint32_t j = 0; j < inner->in_count; j++)
                if (inner->in[j] >= 0) read[inner->in[j]] |= found;
            note_branches(inner, found, read);
        }
        for (uint32_t i = 0; g != NULL && i < g->output_count; i++)
            if (g->outputs[i] >= 0) read[g->outputs[i]] |= found;
    }
}

/* By value: bits of how outputs read it. NULL: no memory. */
static uint8_t *find_reads(const dhow_model *m) {
    uint8_t *read = dhowi_alloc_array((size_t)m->value_count + 1, sizeof *read);
    if (read == NULL) return NULL;
    memset(read, 0, m->value_count);
    for (uint32_t i = 0; i < m->output_count; i++) read[m->outputs[i]] = BY_VALUE;
    for (uint32_t i = m->graph.node_count; i-- > 0;) {
        const dhowi_node *n = &m->graph.nodes[i];
        const uint8_t found = reads_of(n, read);
        note_branches(n, found, read);
        for (uint32_t k = 0; k < n->in_count && found != 0; k++) {
            const bool by_value = dhowi_back_by(n, k) == DHOWI_BY_VALUE;
            if (n->in[k] >= 0) read[n->in[k]] |= by_value ? found : BY_CONSTANT;
        }
    }
    return read;
}

/* ---- which parameters ---- */

/* Whether a name has the form of a pattern with * and ?. What the last * stands for grows until the
 * rest fits: those before it need not be looked at again. */
static bool has_form(const char *name, const char *pattern) {
    const char *star = NULL, *behind = NULL; /* the last *, and what it stands for ends here */
    while (*name != '\0') {
        if (*pattern == '*') {
            star = pattern++;
            behind = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star != NULL) {
            pattern = star + 1;
            name = ++behind;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}

static bool is_trained(const dhow_trainer *t, int32_t value) {
    const dhowi_value *v = &t->model->values[value];
    if (!dhowi_is_float(v->desc.dtype) || dhowi_is_statistic(t->model, value)) return false;
    return t->options.trainable == NULL || has_form(v->name, t->options.trainable);
}

static dhow_status take(dhow_trainer *t, int32_t value) {
    const dhowi_value *v = &t->model->values[value];
    dhowi_trained *p = &t->trained[t->trained_count];
    if (t->trained_count == 0) t->dtype = v->desc.dtype;
    if (v->desc.dtype != t->dtype || (t->dtype != DHOW_F32 && t->dtype != DHOW_F64))
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: parameter '%.64s' is %s%s; all that are trained are f32, or all f64",
                          k_create, v->name, dhow_dtype_name(v->desc.dtype),
                          t->trained_count > 0 ? ", others are not" : "");
    *p = (dhowi_trained){.value = value, .first = dhowi_flat_take(t->dtype, &v->desc, &t->count)};
    t->trained_count++;
    return DHOW_OK;
}

static dhow_status choose(dhow_trainer *t, const uint8_t *read) {
    const dhow_model *m = t->model;
    for (uint32_t i = 0; i < m->parameter_count; i++) {
        const int32_t value = m->parameters[i];
        if (is_trained(t, value) && read[value] != BY_CONSTANT) DHOWI_TRY(take(t, value));
    }
    if (t->trained_count > 0) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "%s: no floating parameter of the model that has a derivative is named '%s'",
                      k_create, t->options.trainable != NULL ? t->options.trainable : "*");
}

dhow_status dhowi_choose(dhow_trainer *t) {
    t->trained = dhowi_alloc_array((size_t)t->model->parameter_count + 1, sizeof *t->trained);
    uint8_t *read = find_reads(t->model);
    dhow_status status =
        t->trained != NULL && read != NULL ? choose(t, read) : dhowi_fail_memory(k_create);
    dhowi_free(read);
    return status;
}
