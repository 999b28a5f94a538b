/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a loss that is not finite comes from, as torch.autograd.detect_anomaly: the first of the
 * batch's tensors, the parameters and the values of the training graph, in the order in which they
 * are computed. The graph is run once more, with all its values as outputs.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "dhow/copy.h"
#include "dhow/create.h"
#include "model/run/run.h"
#include "tensor/tensor.h"
#include "train/train.h"

typedef struct finding {
    char what[256]; /* "" while nothing is found */
    double number;
    int64_t element;
} finding;

static dhow_status look_at(dhow_tensor *x, finding *f, bool *bad) {
    double *numbers;
    *bad = false;
    if (!dhowi_is_float(x->dtype) || x->count == 0) return DHOW_OK;
    DHOWI_TRY(dhowi_read_numbers("detect_anomaly", x, &numbers));
    for (int64_t i = 0; i < x->count && !*bad; i++) {
        *bad = !isfinite(numbers[i]);
        f->number = isnan(numbers[i]) ? NAN : numbers[i]; /* of no sign */
        f->element = i;
    }
    dhowi_free(numbers);
    return DHOW_OK;
}

/* ---- what goes in ---- */

static dhow_status look_at_inputs(const dhow_trainer *t, dhow_tensor *const *inputs,
                                  dhow_tensor *target, finding *f) {
    bool bad;
    for (uint32_t i = 0; i < t->input_count; i++) {
        DHOWI_TRY(look_at(inputs[i], f, &bad));
        if (!bad) continue;
        (void)snprintf(f->what, sizeof f->what, "input '%.64s' of the batch",
                       t->model->values[t->model->inputs[i]].name);
        return DHOW_OK;
    }
    if (target != NULL) {
        DHOWI_TRY(look_at(target, f, &bad));
        if (bad) (void)snprintf(f->what, sizeof f->what, "the target");
        if (bad) return DHOW_OK;
    }
    for (uint32_t i = 0; i < t->trained_count; i++) {
        DHOWI_TRY(look_at(t->trained[i].parameter, f, &bad));
        if (!bad) continue;
        (void)snprintf(f->what, sizeof f->what, "parameter '%.64s', by a step before",
                       t->model->values[t->trained[i].value].name);
        return DHOW_OK;
    }
    return DHOW_OK;
}

/* ---- what is computed ---- */

static bool is_watched(const dhow_model *m, int32_t value) {
    return value >= 0 && m->values[value].form == DHOW_DATUM_TENSOR;
}

/* The last Gradient is the trainer's; behind it are only derivatives. */
static uint32_t count_forward(const dhow_model *m) {
    uint32_t count = m->graph.node_count;
    while (count > 0 && strcmp(m->graph.nodes[count - 1].operation, "Gradient") != 0) count--;
    return count > 0 ? count - 1 : 0;
}

/* All nodes on the way forward. */
static dhow_status open_values(dhow_model *m) {
    m->output_count = 0;
    m->graph.node_count = count_forward(m);
    for (uint32_t i = 0; i < m->graph.node_count; i++) {
        const dhowi_node *n = &m->graph.nodes[i];
        for (uint32_t k = 0; k < n->out_count; k++)
            if (is_watched(m, n->out[k]))
                DHOWI_TRY(dhowi_model_add_output(m, "dhow.watched", n->out[k]));
    }
    return DHOW_OK;
}

static dhow_status look_at_values(const dhow_model *m, dhow_tensor *const *values, finding *f) {
    uint32_t at = 0;
    char text[160];
    bool bad = false;
    for (uint32_t i = 0; i < m->graph.node_count && !bad; i++) {
        const dhowi_node *n = &m->graph.nodes[i];
        for (uint32_t k = 0; k < n->out_count && !bad; k++) {
            if (!is_watched(m, n->out[k])) continue;
            DHOWI_TRY(look_at(values[at++], f, &bad));
            if (bad)
                (void)snprintf(f->what, sizeof f->what, "the result of node %u, %s", i,
                               dhowi_node_text(n, text, sizeof text));
        }
    }
    return DHOW_OK;
}

static dhow_status run_again(dhow_trainer *t, dhow_model *m, dhow_tensor *const *inputs,
                             dhow_tensor *target, uint64_t key, dhow_tensor **values, finding *f) {
    const dhowi_piece piece = {
        .key = key, .rows = dhowi_samples_of(t, inputs), .share = 1, .scale = 1};
    DHOWI_TRY(dhow_model_place(m, t->graph->device, t->graph->placement));
    DHOWI_TRY(dhowi_replica_bind(t, NULL, inputs, target, false, &piece));
    DHOWI_TRY(dhow_model_run(m, NULL, t->run_inputs, m->input_count, values, m->output_count));
    return look_at_values(m, values, f);
}

static dhow_status watch(dhow_trainer *t, dhow_tensor *const *inputs, dhow_tensor *target,
                         uint64_t key, finding *f) {
    dhow_model *m;
    DHOWI_TRY(dhowi_model_copy(t->graph, &m));
    dhow_model *origin = m->origin;
    m->origin = NULL; /* while it is built on */
    dhow_status status = open_values(m);
    m->origin = origin;
    const size_t count = (size_t)m->output_count + 1;
    dhow_tensor **values = dhowi_alloc_array(count, sizeof(dhow_tensor *));
    if (values == NULL && status == DHOW_OK) status = dhowi_fail_memory("detect_anomaly");
    if (values != NULL) memset(values, 0, count * sizeof(dhow_tensor *));
    if (status == DHOW_OK) status = run_again(t, m, inputs, target, key, values, f);
    for (uint32_t i = 0; i < m->output_count && values != NULL; i++) dhow_tensor_release(values[i]);
    dhowi_free(values);
    dhow_model_release(m);
    return status;
}

/* ---- telling ---- */

static dhow_status find(dhow_trainer *t, dhow_tensor *const *inputs, dhow_tensor *target,
                        uint64_t key, finding *f) {
    DHOWI_TRY(look_at_inputs(t, inputs, target, f));
    return f->what[0] != '\0' ? DHOW_OK : watch(t, inputs, target, key, f);
}

/* Tensors of a divided batch may be on any device. */
static dhow_status bring_and_find(dhow_trainer *t, dhow_tensor *const *inputs, dhow_tensor *target,
                                  uint64_t key, finding *f) {
    const uint32_t count = t->input_count + (target != NULL ? 1 : 0);
    dhow_tensor **there = dhowi_alloc_array((size_t)count + 1, sizeof(dhow_tensor *));
    if (there == NULL) return dhowi_fail_memory("detect_anomaly");
    memset(there, 0, ((size_t)count + 1) * sizeof(dhow_tensor *));
    dhow_status status = DHOW_OK;
    for (uint32_t i = 0; i < count && status == DHOW_OK; i++)
        status =
            dhow_tensor_to(i < t->input_count ? inputs[i] : target, t->graph->device, &there[i]);
    if (status == DHOW_OK)
        status = find(t, there, target != NULL ? there[t->input_count] : NULL, key, f);
    for (uint32_t i = 0; i < count; i++) dhow_tensor_release(there[i]);
    dhowi_free(there);
    return status;
}

dhow_status dhowi_anomaly_tell(dhow_trainer *t, dhow_tensor *const *inputs, dhow_tensor *target,
                               uint64_t key, double loss) {
    finding f = {.what = ""};
    if (isfinite(loss)) return DHOW_OK;
    if (isnan(loss)) loss = NAN;
    const dhow_status status =
        dhowi_samples_of(t, inputs) > 0 ? bring_and_find(t, inputs, target, key, &f) : DHOW_OK;
    if (status != DHOW_OK)
        return dhowi_fail_prefix(status, "step %" PRIu64 ": the loss is %g; looking for its origin",
                                 t->steps + 1, loss);
    if (f.what[0] == '\0')
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "step %" PRIu64 ": the loss is %g, all values before it are finite%s",
                          t->steps + 1, loss,
                          t->group.size > 1 ? " in this process; others tell what theirs are" : "");
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "step %" PRIu64
                      ": the loss is %g; the first tensor that is not finite is "
                      "%s: its element %" PRId64 " is %g. Parameters are those before the step",
                      t->steps + 1, loss, f.what, f.element, f.number);
}
