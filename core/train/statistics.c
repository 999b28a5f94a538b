/* SPDX-License-Identifier: Apache-2.0
 *
 * Running statistics of batch norms: inputs of the training graph, whose further outputs take
 * their place after each run.
 */
#include <string.h>

#include "base/memory/alloc.h"
#include "dhow/copy.h"
#include "model/operators/nn/layer.h"
#include "tensor/tensor.h"
#include "train/train.h"

static const char k_create[] = "dhow_trainer_create";
enum { MEAN = 3, VARIANCE = 4 }; /* inputs of a batch norm */

bool dhowi_is_batch_norm(const dhowi_node *n) {
    return n->in_count > VARIANCE && (n->op == dhowi_layer_operator(DHOWI_LAYER_BATCHNORM) ||
                                      strcmp(n->op->name, "BatchNormalization") == 0);
}

bool dhowi_is_statistic(const dhow_model *m, int32_t value) {
    for (uint32_t i = 0; i < m->graph.node_count; i++) {
        const dhowi_node *n = &m->graph.nodes[i];
        if (dhowi_is_batch_norm(n) && (n->in[MEAN] == value || n->in[VARIANCE] == value))
            return true;
    }
    return false;
}

static dhow_status refuse(const dhowi_node *n, const char *why) {
    char text[160];
    return dhowi_fail(DHOW_UNSUPPORTED,
                      "%s: the running statistics of %s %s; set freeze_batchnorm to leave them",
                      k_create, dhowi_node_text(n, text, sizeof text), why);
}

static dhow_status take(dhow_trainer *t, const dhowi_node *n, int32_t value) {
    const dhowi_value *v = &t->model->values[value];
    if (v->kind != DHOWI_VALUE_PARAMETER || v->name == NULL) return refuse(n, "are no parameters");
    if (v->desc.dtype != t->dtype) return refuse(n, "are of another type than what is trained");
    for (uint32_t i = 0; i < t->statistic_count; i++)
        if (t->statistics[i].value == value) return refuse(n, "are those of another layer as well");
    t->statistics[t->statistic_count++] = (dhowi_statistic){
        .value = value, .first = dhowi_flat_take(t->dtype, &v->desc, &t->statistic_elements)};
    return DHOW_OK;
}

dhow_status dhowi_statistics_choose(dhow_trainer *t) {
    const dhowi_subgraph *g = &t->model->graph;
    if (t->options.freeze_batchnorm != 0) return DHOW_OK;
    t->statistics = dhowi_alloc_array((size_t)g->node_count * 2 + 1, sizeof *t->statistics);
    if (t->statistics == NULL) return dhowi_fail_memory(k_create);
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (!dhowi_is_batch_norm(&g->nodes[i])) continue;
        DHOWI_TRY(take(t, &g->nodes[i], g->nodes[i].in[MEAN]));
        DHOWI_TRY(take(t, &g->nodes[i], g->nodes[i].in[VARIANCE]));
    }
    return DHOW_OK;
}

dhow_status dhowi_statistics_allocate(dhow_trainer *t) {
    if (t->statistic_count == 0) return DHOW_OK;
    DHOWI_TRY(dhowi_flat(t, t->statistic_elements, &t->running));
    DHOWI_TRY(dhowi_flat(t, t->statistic_elements, &t->next));
    for (uint32_t i = 0; i < t->statistic_count; i++) {
        dhowi_statistic *s = &t->statistics[i];
        DHOWI_TRY(dhowi_flat_part(t, s->value, s->first, t->running, &s->running));
        DHOWI_TRY(dhowi_flat_part(t, s->value, s->first, t->next, &s->next));
        DHOWI_TRY(dhowi_flat_copy_in(t, s->value, s->running));
    }
    return DHOW_OK;
}

dhow_status dhowi_statistics_follow(const dhow_trainer *t, dhow_stream *stream) {
    return t->next != NULL && t->next->count > 0 ? dhow_copy_async(stream, t->next, t->running, 0)
                                                 : DHOW_OK;
}

void dhowi_statistics_end(dhow_trainer *t) {
    for (uint32_t i = 0; i < t->statistic_count; i++) {
        dhow_tensor_release(t->statistics[i].running);
        dhow_tensor_release(t->statistics[i].next);
    }
    dhow_tensor_release(t->running);
    dhow_tensor_release(t->next);
    dhowi_free(t->statistics);
}
