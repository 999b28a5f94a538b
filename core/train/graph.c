/* SPDX-License-Identifier: Apache-2.0
 *
 * The training graph: a copy of a model, in which parameters to train are inputs, with a loss and
 * its derivatives behind it. It is planned, fused and replayed as any model.
 */
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/array.h"
#include "dhow/print.h"
#include "model/build/build.h"
#include "model/operators/backward/backward.h"
#include "model/operators/operators.h"
#include "model/run/run.h"
#include "train/train.h"

static const char k_function[] = "dhow_trainer_create";

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

/* ---- dropouts ---- */

/* Of ONNX's node: an input of newer opsets, an attribute of older ones. */
static dhow_status read_ratio(dhow_model *m, const dhowi_node *n, double *out) {
    char text[160];
    dhow_tensor *held;
    *out = 0.5;
    for (uint32_t i = 0; i < n->source->attribute_count; i++)
        if (dhowi_slice_is(n->source->attributes[i].name, "ratio"))
            *out = (double)n->source->attributes[i].f;
    if (n->in_count < 2 || n->in[1] < 0) return DHOW_OK;
    dhowi_value *v = &m->values[n->in[1]];
    if (!v->known || dhowi_count_of(&v->desc) != 1)
        return dhowi_fail(DHOW_UNSUPPORTED, "%s: the ratio of %s is no constant number", k_function,
                          dhowi_node_text(n, text, sizeof text));
    DHOWI_TRY(dhowi_model_tensor(m, v, &held));
    return dhow_tensor_item(held, out);
}

/* ONNX's Dropout becomes the builder's, the index-th of the model. */
static dhow_status take_dropout(dhow_model *m, dhowi_node *n, int64_t index) {
    char text[160];
    double ratio;
    DHOWI_TRY(read_ratio(m, n, &ratio));
    if (n->out_count > 1 && n->out[1] >= 0)
        return dhowi_fail(DHOW_UNSUPPORTED, "%s: the mask of %s is read", k_function,
                          dhowi_node_text(n, text, sizeof text));
    if (!(ratio >= 0 && ratio <= 1))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the ratio of %s is %g", k_function,
                          dhowi_node_text(n, text, sizeof text), ratio);
    dhowi_attrs *attrs = dhowi_arena_array(&m->arena, 1, sizeof *attrs);
    if (attrs == NULL) return dhowi_fail_memory(k_function);
    *attrs = (dhowi_attrs){.number = ratio, .split.n = index};
    n->attrs = attrs;
    n->op = dhowi_layer_operator(DHOWI_LAYER_DROPOUT);
    n->in_count = n->out_count = 1;
    return DHOW_OK;
}

static dhow_status take_dropouts(dhow_model *m) {
    const dhowi_operator *op = dhowi_layer_operator(DHOWI_LAYER_DROPOUT);
    int64_t count = 0;
    for (uint32_t i = 0; i < m->graph.node_count; i++) {
        dhowi_node *n = &m->graph.nodes[i];
        const bool is_onnx = n->source != NULL && strcmp(n->op->name, "Dropout") == 0;
        if (is_onnx && n->op != op) DHOWI_TRY(take_dropout(m, n, count));
        count += n->op == op;
    }
    return DHOW_OK;
}

/* They read the key of a step, a further input. */
static dhow_status open_dropouts(dhow_model *m, const dhow_trainer *t) {
    const int64_t count = dhowi_divides(&t->options) ? 3 : 1; /* with first sample and samples */
    const dhowi_operator *op = dhowi_layer_operator(DHOWI_LAYER_DROPOUT);
    dhow_model_value key = -1;
    for (uint32_t i = 0; i < m->graph.node_count; i++) {
        dhowi_node *n = &m->graph.nodes[i];
        if (n->op != op) continue;
        int32_t *in = dhowi_arena_array(&m->arena, 2, sizeof *in);
        if (in == NULL) return dhowi_fail_memory(k_function);
        if (key < 0) DHOWI_TRY(dhow_model_input(m, "dhow.dropout", DHOW_I64, 1, &count, &key));
        in[0] = n->in[0];
        in[1] = key;
        n->in = in;
        n->in_count = 2;
    }
    return DHOW_OK;
}

/* Batch norms, whose statistics are inputs already, make the next ones. */
static dhow_status open_batch_norms(dhow_model *m, const dhow_trainer *t, int32_t *next) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->graph.node_count && t->statistic_count > 0; i++) {
        dhowi_node *n = &m->graph.nodes[i];
        if (!dhowi_is_batch_norm(n)) continue;
        const double given = t->options.batchnorm_momentum, otherwise = n->source == NULL ? 0.1 : 0;
        dhowi_attrs *attrs = dhowi_arena_array(&m->arena, 1, sizeof *attrs);
        int32_t *out = dhowi_arena_array(&m->arena, 3, sizeof *out);
        if (attrs == NULL || out == NULL) return dhowi_fail_memory(k_function);
        *attrs = (dhowi_attrs){.eps = n->source == NULL ? n->attrs->eps : 0,
                               .number = given > 0 ? given : otherwise};
        out[0] = n->out[0];
        for (int k = 1; k < 3; k++) {
            const dhowi_tensor_desc desc = m->values[n->in[2 + k]].desc;
            DHOWI_TRY(dhowi_model_new_value(m, DHOWI_VALUE_RESULT, NULL, &desc, &out[k]));
            next[count++] = out[k];
        }
        n->op = dhowi_layer_operator(DHOWI_LAYER_BATCHNORM_TRAINING);
        n->attrs = attrs;
        n->out = out;
        n->out_count = 3;
        n->in_count = 5;
    }
    return DHOW_OK;
}

/* ---- derivatives ---- */

static void mark(bool *marks, const int32_t *values, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (values[i] >= 0) marks[values[i]] = true;
}

static dhow_status refuse_inner(const dhowi_node *n, const char *does, const char *remedy) {
    char text[160];
    return dhowi_fail(DHOW_UNSUPPORTED, "%s: %s inside a branch %s while it trains; %s", k_function,
                      dhowi_node_text(n, text, sizeof text), does, remedy);
}

/* Nodes of branches compute as when the model runs, which is not what some do in a training. What
 * they read is wanted. */
static dhow_status check_branches(const dhow_trainer *t, const dhowi_node *n, bool *wanted) {
    for (int k = 0; k < 2; k++) {
        const dhowi_subgraph *g = n->branch[k];
        for (uint32_t i = 0; g != NULL && i < g->node_count; i++) {
            const dhowi_node *inner = &g->nodes[i];
            if (strcmp(inner->op->name, "Dropout") == 0)
                return refuse_inner(inner, "drops nothing", "export the model without it");
            if (dhowi_is_batch_norm(inner) && t->options.freeze_batchnorm == 0)
                return refuse_inner(inner, "leaves its running statistics", "set freeze_batchnorm");
            mark(wanted, inner->in, inner->in_count);
            DHOWI_TRY(check_branches(t, inner, wanted));
        }
        if (g != NULL) mark(wanted, g->outputs, g->output_count);
    }
    return DHOW_OK;
}

/* Every node between parameters and loss needs a derivative: said now, not when it runs. */
static dhow_status check_derivatives(const dhow_model *m, const dhow_trainer *t,
                                     const int32_t *values, int32_t loss) {
    bool *leads = dhowi_alloc_array((size_t)m->value_count * 2, sizeof *leads);
    dhow_status status = DHOW_OK;
    char text[160];
    if (leads == NULL) return dhowi_fail_memory(k_function);
    bool *wanted = leads + m->value_count;
    mark(leads, values, t->trained_count);
    wanted[loss] = true;
    const dhowi_node *nodes = m->graph.nodes;
    dhowi_find_leads(nodes, m->graph.node_count, leads);
    for (uint32_t i = m->graph.node_count; i-- > 0 && status == DHOW_OK;) {
        const dhowi_node *n = &nodes[i];
        if (!dhowi_is_marked(wanted, n->out, n->out_count)) continue;
        mark(wanted, n->in, n->in_count);
        if (dhowi_is_marked(leads, n->out, n->out_count) && dhowi_back_of(n) == NULL)
            status = dhowi_fail(DHOW_UNSUPPORTED,
                                "%s: dhow has no derivative of %s; name the parameters behind it "
                                "in `trainable`",
                                k_function, dhowi_node_text(n, text, sizeof text));
        if (status == DHOW_OK) status = check_branches(t, n, wanted);
        if (status == DHOW_OK) status = dhowi_back_check(m, n, leads);
    }
    if (status == DHOW_OK && !leads[loss])
        status = dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the loss depends on no parameter to train",
                            k_function);
    dhowi_free(leads);
    return status;
}

/* Nodes before the gradient's are walked back from `loss`. */
static dhow_status add_gradient(dhow_model *m, const int32_t *values, uint32_t count, int32_t loss,
                                uint32_t segments, const int32_t **slopes) {
    static const char name[] = DHOWI_TRAINING "::Gradient";
    const dhowi_operator *other, *op = dhowi_operator_find(name, sizeof name - 1, 1, &other);
    dhowi_subgraph *g = &m->graph;
    if (!dhowi_room((void **)&g->nodes, g->node_count, &g->node_capacity, sizeof *g->nodes))
        return dhowi_fail_memory(k_function);
    dhowi_node *node = &g->nodes[g->node_count];
    *node = (dhowi_node){.op = op, .operation = "Gradient", .row = DHOWI_OP_COUNT, .opset = 1};
    node->source = dhowi_arena_array(&m->arena, 1, sizeof *node->source); /* without attributes */
    node->in = dhowi_arena_array(&m->arena, (size_t)count + 1, sizeof *node->in);
    node->out = dhowi_arena_array(&m->arena, count, sizeof *node->out);
    dhowi_attrs *attrs = dhowi_arena_array(&m->arena, 1, sizeof *attrs);
    if (node->source == NULL || node->in == NULL || node->out == NULL || attrs == NULL)
        return dhowi_fail_memory(k_function);
    *attrs = (dhowi_attrs){.split.count = segments > 1 ? segments : 1};
    node->attrs = attrs;
    memcpy(node->in, values, count * sizeof *values);
    node->in[count] = loss;
    node->in_count = count + 1;
    node->out_count = count;
    for (uint32_t i = 0; i < count; i++) {
        const dhowi_tensor_desc desc = m->values[values[i]].desc;
        DHOWI_TRY(dhowi_model_new_value(m, DHOWI_VALUE_RESULT, NULL, &desc, &node->out[i]));
    }
    *slopes = node->out;
    g->node_count++;
    return DHOW_OK;
}

/* The derivatives of a loss that is multiplied, perhaps, are outputs behind it. */
static dhow_status add_gradients(dhow_model *m, const dhow_trainer *t, const int32_t *values,
                                 dhow_model_value loss) {
    const int32_t *slopes = NULL;
    dhow_model_value scale, from = loss, d;
    const bool scales = t->options.loss_scale > 0;
    if (scales) {
        DHOWI_TRY(dhow_model_input(m, "dhow.loss_scale", t->dtype, 0, NULL, &scale));
        DHOWI_TRY(dhow_model_mul(m, loss, scale, &from));
    }
    DHOWI_TRY(
        add_gradient(m, values, t->trained_count, from, t->options.checkpoint_segments, &slopes));
    DHOWI_TRY(dhowi_model_add_output(m, "loss", loss));
    for (uint32_t i = 0; i < t->trained_count; i++) {
        d = slopes[i];
        if (scales) DHOWI_TRY(dhow_model_div(m, d, scale, &d));
        DHOWI_TRY(dhowi_model_add_output(m, m->values[values[i]].name, d));
    }
    return DHOW_OK;
}

/* Before steps are built on it, which would refuse it in words of their own. */
static dhow_status check_loss(const dhow_trainer *t, const dhowi_tensor_desc *loss) {
    char text[160];
    if (loss->dtype == t->dtype && loss->rank >= 0 && dhowi_count_of(loss) == 1) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the loss is %s; it is one number of type %s",
                      k_function, dhowi_desc_text(loss, text, sizeof text),
                      dhow_dtype_name(t->dtype));
}

/* `values`: the parameters to train, then statistics; `next` has room for the latter. */
static dhow_status extend(dhow_model *m, const dhow_trainer *t, const int32_t *values,
                          int32_t *next) {
    const uint32_t count = t->trained_count;
    dhow_model_value y;
    if (m->output_count == 0 || m->values[m->outputs[0]].form != DHOW_DATUM_TENSOR)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the model has no output that is a tensor",
                          k_function);
    if (count >= DHOWI_MAX_OUTPUTS_OF_NODE)
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "%s: %u parameters to train; it takes %d, choose some with `trainable`",
                          k_function, count, DHOWI_MAX_OUTPUTS_OF_NODE - 1);
    DHOWI_TRY(open_nodes(m));
    DHOWI_TRY(open_parameters(m, values, count + t->statistic_count));
    const uint32_t first = m->graph.node_count;
    DHOWI_TRY(dhowi_add_loss(m, &t->options, m->outputs[0], &y));
    DHOWI_TRY(check_loss(t, &m->values[y].desc));
    for (uint32_t i = first; i < m->graph.node_count; i++) m->graph.nodes[i].stays_wide = true;
    if (dhowi_divides(&t->options)) {
        dhow_model_value share;
        DHOWI_TRY(dhow_model_input(m, "dhow.share", t->dtype, 0, NULL, &share));
        DHOWI_TRY(dhow_model_mul(m, y, share, &y));
    }
    DHOWI_TRY(take_dropouts(m));
    DHOWI_TRY(open_dropouts(m, t));
    DHOWI_TRY(open_batch_norms(m, t, next));
    DHOWI_TRY(check_derivatives(m, t, values, y));
    m->output_count = 0;
    DHOWI_TRY(add_gradients(m, t, values, y));
    for (uint32_t i = 0; i < t->statistic_count; i++)
        DHOWI_TRY(dhowi_model_add_output(m, m->values[values[count + i]].name, next[i]));
    return DHOW_OK;
}

static dhow_status extend_by_values(dhow_model *m, const dhow_trainer *t) {
    const uint32_t count = t->trained_count + t->statistic_count;
    int32_t *values = dhowi_alloc_array((size_t)count + t->statistic_count, sizeof *values);
    if (values == NULL) return dhowi_fail_memory(k_function);
    for (uint32_t i = 0; i < count; i++)
        values[i] =
            i < t->trained_count ? t->trained[i].value : t->statistics[i - t->trained_count].value;
    dhow_status status = extend(m, t, values, values + count);
    dhowi_free(values);
    return status;
}

dhow_status dhowi_train_graph(const dhow_trainer *t, dhow_model **out) {
    dhow_model *m, *model = t->model;
    *out = NULL;
    DHOWI_TRY(dhowi_model_copy(model, &m));
    dhowi_model_drop_halves(m); /* of parameters that become inputs */
    dhow_model *origin = m->origin;
    dhowi_onnx_file *file = m->file;
    m->origin = NULL; /* while it is built on */
    m->file = NULL;
    dhow_status status = extend_by_values(m, t);
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
