/* SPDX-License-Identifier: Apache-2.0
 *
 * The training graph: a copy of a model, in which parameters to train are inputs, with a loss and
 * its derivatives behind it. It is planned, fused and replayed as any model.
 */
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/array.h"
#include "dhow/model_elementwise.h"
#include "dhow/model_steps.h"
#include "model/build/build.h"
#include "model/operators/backward/backward.h"
#include "model/operators/operators.h"
#include "model/run/run.h"
#include "train/train.h"

static const char k_function[] = "dhow_trainer_create";
enum { IGNORED_CLASS = -100 };

/* ---- a copy that grows ---- */

/* Parameters become inputs. */
static dhow_status open_parameters(dhow_model *m, const int32_t *values, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        dhowi_value *v = &m->values[values[i]];
        if (!dhowi_model_append(&m->inputs, m->input_count, values[i]))
            return dhowi_fail_memory(k_function);
        m->input_count++;
        v->kind = DHOWI_VALUE_INPUT;
        v->known = false;
        dhow_tensor_release(v->tensor);
        v->tensor = NULL;
        uint32_t kept = 0;
        for (uint32_t k = 0; k < m->parameter_count; k++)
            if (m->parameters[k] != values[i]) m->parameters[kept++] = m->parameters[k];
        m->parameter_count = kept;
    }
    return DHOW_OK;
}

/* Nodes move from the arena to an array that grows. */
static dhow_status open_nodes(dhow_model *m) {
    const uint32_t count = m->graph.node_count, room = count + 32;
    dhowi_node *nodes = dhowi_alloc_array(room, sizeof *nodes);
    if (nodes == NULL) return dhowi_fail_memory(k_function);
    memcpy(nodes, m->graph.nodes, count * sizeof *nodes);
    m->graph.nodes = nodes;
    m->graph.node_capacity = room;
    return DHOW_OK;
}

/* Dropout layers read the key of a step, a further input. */
static dhow_status open_dropouts(dhow_model *m) {
    const dhowi_operator *op = dhowi_layer_operator(DHOWI_LAYER_DROPOUT);
    dhow_model_value key = -1;
    for (uint32_t i = 0; i < m->graph.node_count; i++) {
        dhowi_node *n = &m->graph.nodes[i];
        if (n->op != op) continue;
        int32_t *in = dhowi_arena_array(&m->arena, 2, sizeof *in);
        if (in == NULL) return dhowi_fail_memory(k_function);
        if (key < 0) DHOWI_TRY(dhow_model_input(m, "dhow.dropout", DHOW_I64, DHOW_SHAPE(1), &key));
        in[0] = n->in[0];
        in[1] = key;
        n->in = in;
        n->in_count = 2;
    }
    return DHOW_OK;
}

/* ---- losses ---- */

/* The loss becomes NaN where a class is none: with e = t - clip(t), which is t itself below 0, only
 * e (e - ignored) = 0 is right. */
static dhow_status tell_classes(dhow_model *m, dhow_model_value t, int64_t count, dhow_dtype dtype,
                                dhow_model_value *loss) {
    dhow_model_value inside, apart;
    if (count < 1) return DHOW_OK; /* not known */
    DHOWI_TRY(dhow_model_cast(m, t, dtype, &t));
    DHOWI_TRY(dhow_model_clip(m, t, 0, (double)(count - 1), &inside));
    DHOWI_TRY(dhow_model_sub(m, t, inside, &t));
    DHOWI_TRY(dhow_model_sub_scalar(m, t, dhow_scalar_f64(IGNORED_CLASS), &apart));
    DHOWI_TRY(dhow_model_mul(m, t, apart, &t));
    DHOWI_TRY(dhow_model_abs(m, t, &t));
    DHOWI_TRY(dhow_model_reduce(m, DHOW_REDUCE_SUM, t, NULL, 0, 0, &t));
    DHOWI_TRY(dhow_model_neg(m, t, &t));
    DHOWI_TRY(dhow_model_sqrt(m, t, &t));
    return dhow_model_add(m, *loss, t, loss);
}

static dhow_status loss_by_class(dhow_model *m, const char *op, int32_t y, dhow_model_value *out) {
    const dhowi_tensor_desc own = m->values[y].desc;
    dhowi_tensor_desc target = {.dtype = DHOW_I64, .rank = own.rank - 1};
    dhowi_build_step s;
    char text[160];
    int32_t in[2] = {y, -1};
    if (own.rank < 2 || !dhowi_is_float(own.dtype))
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: the output is %s; a loss by class takes floats [n, classes, ...]",
                          k_function, dhowi_desc_text(&own, text, sizeof text));
    target.shape[0] = own.shape[0];
    for (int32_t i = 2; i < own.rank; i++) target.shape[i - 1] = own.shape[i];
    DHOWI_TRY(dhow_model_input(m, "dhow.target", target.dtype, target.rank, target.shape, &in[1]));
    DHOWI_TRY(dhowi_step_begin(m, &s, k_function, op, in, 2, out));
    dhowi_step_text(&s, "reduction", "mean");
    dhowi_step_int(&s, "ignore_index", IGNORED_CLASS);
    s.result[0].rank = 0;
    DHOWI_TRY(dhowi_step_end(m, &s, out));
    return tell_classes(m, in[1], own.shape[1], own.dtype, out);
}

/* c (d - c / 2) with d = |y - t| and c = min(d, 1) */
static dhow_status smooth(dhow_model *m, dhow_model_value d, dhow_model_value *out) {
    dhow_model_value c, half;
    DHOWI_TRY(dhow_model_min_scalar(m, d, dhow_scalar_f64(1), &c));
    DHOWI_TRY(dhow_model_mul_scalar(m, c, dhow_scalar_f64(0.5), &half));
    DHOWI_TRY(dhow_model_sub(m, d, half, &d));
    return dhow_model_mul(m, c, d, out);
}

/* softplus(y) - y t */
static dhow_status binary_entropy(dhow_model *m, dhow_model_value y, dhow_model_value t,
                                  dhow_model_value *out) {
    dhow_model_value part;
    DHOWI_TRY(dhow_model_softplus(m, y, out));
    DHOWI_TRY(dhow_model_mul(m, y, t, &part));
    return dhow_model_sub(m, *out, part, out);
}

static dhow_status loss_by_element(dhow_model *m, dhow_loss loss, int32_t y,
                                   dhow_model_value *out) {
    const dhowi_tensor_desc own = m->values[y].desc;
    dhow_model_value t, d;
    if (own.rank < 0)
        return dhowi_fail(DHOW_UNSUPPORTED, "%s: the shape of the output is not known", k_function);
    DHOWI_TRY(dhow_model_input(m, "dhow.target", own.dtype, own.rank, own.shape, &t));
    if (loss == DHOW_LOSS_BCE_WITH_LOGITS) {
        DHOWI_TRY(binary_entropy(m, y, t, &d));
    } else {
        DHOWI_TRY(dhow_model_sub(m, y, t, &d));
        if (loss == DHOW_LOSS_MSE) DHOWI_TRY(dhow_model_mul(m, d, d, &d));
        if (loss == DHOW_LOSS_L1 || loss == DHOW_LOSS_SMOOTH_L1)
            DHOWI_TRY(dhow_model_abs(m, d, &d));
        if (loss == DHOW_LOSS_SMOOTH_L1) DHOWI_TRY(smooth(m, d, &d));
    }
    return dhow_model_reduce(m, DHOW_REDUCE_MEAN, d, NULL, 0, 0, out);
}

static dhow_status add_loss(dhow_model *m, dhow_loss loss, int32_t y, dhow_model_value *out) {
    *out = y;
    switch (loss) {
        case DHOW_LOSS_OUTPUT:
            return DHOW_OK;
        case DHOW_LOSS_CROSS_ENTROPY:
            return loss_by_class(m, "SoftmaxCrossEntropyLoss", y, out);
        case DHOW_LOSS_NLL:
            return loss_by_class(m, "NegativeLogLikelihoodLoss", y, out);
        default:
            return loss_by_element(m, loss, y, out);
    }
}

/* ---- derivatives ---- */

static bool is_marked(const bool *marks, const int32_t *values, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (values[i] >= 0 && marks[values[i]]) return true;
    return false;
}

static void mark(bool *marks, const int32_t *values, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (values[i] >= 0) marks[values[i]] = true;
}

/* Every node between parameters and loss needs a derivative: said now, not when it runs. */
static dhow_status check_derivatives(const dhow_model *m, const int32_t *values, uint32_t count,
                                     int32_t loss) {
    bool *leads = dhowi_alloc_array((size_t)m->value_count * 2, sizeof *leads);
    dhow_status status = DHOW_OK;
    char text[160];
    if (leads == NULL) return dhowi_fail_memory(k_function);
    bool *wanted = leads + m->value_count;
    mark(leads, values, count);
    wanted[loss] = true;
    const dhowi_node *nodes = m->graph.nodes;
    dhowi_find_leads(nodes, m->graph.node_count, leads);
    for (uint32_t i = m->graph.node_count; i-- > 0 && status == DHOW_OK;) {
        const dhowi_node *n = &nodes[i];
        if (!is_marked(wanted, n->out, n->out_count)) continue;
        mark(wanted, n->in, n->in_count);
        if (is_marked(leads, n->out, n->out_count) && dhowi_back_of(n) == NULL)
            status = dhowi_fail(DHOW_UNSUPPORTED,
                                "%s: dhow has no derivative of %s; name the parameters behind it "
                                "in `trainable`",
                                k_function, dhowi_node_text(n, text, sizeof text));
    }
    if (status == DHOW_OK && !leads[loss])
        status = dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the loss depends on no parameter to train",
                            k_function);
    dhowi_free(leads);
    return status;
}

/* Nodes before the gradient's are walked back from `loss`. */
static dhow_status add_gradient(dhow_model *m, const int32_t *values, uint32_t count,
                                int32_t loss) {
    static const char name[] = DHOWI_TRAINING "::Gradient";
    const dhowi_operator *other, *op = dhowi_operator_find(name, sizeof name - 1, 1, &other);
    dhowi_subgraph *g = &m->graph;
    dhowi_node *node = &g->nodes[g->node_count];
    *node = (dhowi_node){.op = op, .operation = "Gradient", .row = DHOWI_OP_COUNT, .opset = 1};
    node->source = dhowi_arena_array(&m->arena, 1, sizeof *node->source); /* without attributes */
    node->in = dhowi_arena_array(&m->arena, (size_t)count + 1, sizeof *node->in);
    node->out = dhowi_arena_array(&m->arena, count, sizeof *node->out);
    if (node->source == NULL || node->in == NULL || node->out == NULL)
        return dhowi_fail_memory(k_function);
    memcpy(node->in, values, count * sizeof *values);
    node->in[count] = loss;
    node->in_count = count + 1;
    node->out_count = count;
    DHOWI_TRY(dhowi_model_add_output(m, "loss", loss));
    for (uint32_t i = 0; i < count; i++) {
        const dhowi_tensor_desc desc = m->values[values[i]].desc;
        DHOWI_TRY(dhowi_model_new_value(m, DHOWI_VALUE_RESULT, NULL, &desc, &node->out[i]));
        DHOWI_TRY(dhowi_model_add_output(m, m->values[values[i]].name, node->out[i]));
    }
    g->node_count++;
    return DHOW_OK;
}

static dhow_status extend(dhow_model *m, dhow_loss loss, const int32_t *values, uint32_t count) {
    dhow_model_value y;
    if (m->output_count == 0 || m->values[m->outputs[0]].form != DHOW_DATUM_TENSOR)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the model has no output that is a tensor",
                          k_function);
    if (count >= DHOWI_MAX_OUTPUTS_OF_NODE)
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "%s: %u parameters to train; it takes %d, choose some with `trainable`",
                          k_function, count, DHOWI_MAX_OUTPUTS_OF_NODE - 1);
    DHOWI_TRY(open_nodes(m));
    DHOWI_TRY(open_parameters(m, values, count));
    DHOWI_TRY(add_loss(m, loss, m->outputs[0], &y));
    DHOWI_TRY(open_dropouts(m));
    DHOWI_TRY(check_derivatives(m, values, count, y));
    m->output_count = 0;
    if (!dhowi_room((void **)&m->graph.nodes, m->graph.node_count, &m->graph.node_capacity,
                    sizeof *m->graph.nodes))
        return dhowi_fail_memory(k_function);
    return add_gradient(m, values, count, y);
}

dhow_status dhowi_train_graph(dhow_model *model, dhow_loss loss, const int32_t *values,
                              uint32_t count, dhow_model **out) {
    dhow_model *m;
    *out = NULL;
    DHOWI_TRY(dhowi_model_copy(model, &m));
    dhow_model *origin = m->origin;
    dhowi_onnx_file *file = m->file;
    m->origin = NULL; /* while it is built on */
    m->file = NULL;
    dhow_status status = extend(m, loss, values, count);
    m->origin = origin;
    m->file = file;
    if (status == DHOW_OK) status = dhow_model_place(m, model->device, model->placement);
    if (status == DHOW_OK) {
        *out = m;
    } else {
        dhow_model_release(m);
    }
    return status;
}
