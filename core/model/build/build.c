/* SPDX-License-Identifier: Apache-2.0
 *
 * Building models step by step.
 */
#include "model/build/build.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/array.h"
#include "base/objects/struct_size.h"
#include "model/lower/lower.h"

static dhow_status new_value(dhow_model *m, dhowi_value_kind kind, const char *name,
                             const dhowi_tensor_desc *desc, dhow_model_value *out) {
    char *kept = NULL;
    if (name != NULL) {
        kept = dhowi_arena_text(&m->arena, name, strlen(name));
        if (kept == NULL) return dhowi_fail_memory("model");
    }
    return dhowi_model_new_value(m, kind, kept, desc, out);
}

dhow_status dhowi_build_value(const dhow_model *m, const char *function, dhow_model_value value) {
    if (value >= 0 && (uint32_t)value < m->value_count) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %d is no value of this model", function, value);
}

/* The graph of a model from a file, and of a copy, lies in one piece and does not grow. */
static dhow_status check_open(const dhow_model *m, const char *function) {
    DHOWI_TRY(dhowi_model_check(m, function));
    if (m->file == NULL && m->origin == NULL) return dhowi_model_check_idle(m, function);
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: a model %s is complete, nothing is added to it",
                      function, m->origin != NULL ? "made as a copy" : "loaded from a file");
}

dhow_status dhowi_build_begin(dhow_model *m, const char *function, dhow_model_value *out) {
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = -1;
    return check_open(m, function);
}

static dhow_status check_name(const dhow_model *m, const char *function, const char *name) {
    if (name == NULL || name[0] == '\0')
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: a name is needed", function);
    for (uint32_t i = 0; i < m->value_count; i++) {
        if (m->values[i].name != NULL && strcmp(m->values[i].name, name) == 0) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the name '%.64s' is taken", function,
                              name);
        }
    }
    return DHOW_OK;
}

/* ---- inputs, outputs, parameters ---- */

dhow_status dhow_model_input(dhow_model *m, const char *name, dhow_dtype dtype, int32_t rank,
                             const int64_t *shape, dhow_model_value *out) {
    static const char function[] = "dhow_model_input";
    DHOWI_TRY(dhowi_build_begin(m, function, out));
    DHOWI_TRY(check_name(m, function, name));
    int64_t closed[DHOW_MAX_RANK], count;
    uint64_t bytes;
    for (int32_t i = 0; i < rank && i < DHOW_MAX_RANK && shape != NULL; i++)
        closed[i] = shape[i] == -1 ? 1 : shape[i];
    DHOWI_TRY(
        dhowi_shape_check(function, dtype, rank, shape != NULL ? closed : NULL, &count, &bytes));
    dhowi_tensor_desc desc = {.dtype = dtype, .rank = rank};
    if (rank > 0) memcpy(desc.shape, shape, (size_t)rank * sizeof *shape);
    if (!dhowi_model_append(&m->inputs, m->input_count, (int32_t)m->value_count))
        return dhowi_fail_memory(function);
    DHOWI_TRY(new_value(m, DHOWI_VALUE_INPUT, name, &desc, out));
    m->input_count++;
    return DHOW_OK;
}

dhow_status dhow_model_output(dhow_model *m, const char *name, dhow_model_value value) {
    static const char function[] = "dhow_model_output";
    DHOWI_TRY(check_open(m, function));
    DHOWI_TRY(dhowi_build_value(m, function, value));
    if (name == NULL || name[0] == '\0')
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: a name is needed", function);
    if (m->values[value].kind != DHOWI_VALUE_RESULT) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: '%.64s' is no result of a step", function,
                          name);
    }
    for (uint32_t i = 0; i < m->output_count; i++) {
        if (strcmp(m->output_names[i], name) == 0)
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: there is an output '%.64s' already",
                              function, name);
    }
    char *kept = dhowi_arena_text(&m->arena, name, strlen(name));
    if (kept == NULL) return dhowi_fail_memory(function);
    return dhowi_model_add_output(m, kept, value);
}

/* `name` is what is left after the scopes. */
static dhow_status new_parameter(dhow_model *m, const char *function, const char *rest,
                                 const dhowi_tensor_desc *desc, double value,
                                 dhow_model_value *out) {
    dhow_tensor *zeros;
    char name[DHOWI_SCOPE + 2 * DHOWI_LAYER_NAME];
    if (rest == NULL || rest[0] == '\0')
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: a name is needed", function);
    if (snprintf(name, sizeof name, "%s%s", m->scope, rest) >= (int)sizeof name)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the name '%.64s...' is too long", function,
                          rest);
    DHOWI_TRY(check_name(m, function, name));
    DHOWI_TRY(
        dhow_tensor_full(m->context->cpu, desc->dtype, desc->rank, desc->shape, value, &zeros));
    dhow_status status = dhow_tensor_set_label(zeros, name);
    if (status == DHOW_OK &&
        !dhowi_model_append(&m->parameters, m->parameter_count, (int32_t)m->value_count)) {
        status = dhowi_fail_memory(function);
    }
    if (status == DHOW_OK) status = new_value(m, DHOWI_VALUE_PARAMETER, name, desc, out);
    if (status != DHOW_OK) {
        dhow_tensor_release(zeros);
        return status;
    }
    m->values[*out].tensor = zeros;
    m->values[*out].known = true;
    m->parameter_count++;
    return DHOW_OK;
}

dhow_status dhow_model_parameter(dhow_model *m, const char *name, dhow_dtype dtype, int32_t rank,
                                 const int64_t *shape, dhow_model_value *out) {
    static const char function[] = "dhow_model_parameter";
    int64_t count;
    uint64_t bytes;
    DHOWI_TRY(dhowi_build_begin(m, function, out));
    DHOWI_TRY(dhowi_shape_check(function, dtype, rank, shape, &count, &bytes));
    dhowi_tensor_desc desc = {.dtype = dtype, .rank = rank};
    if (rank > 0) memcpy(desc.shape, shape, (size_t)rank * sizeof *shape);
    return new_parameter(m, function, name, &desc, 0, out);
}

/* ---- steps ---- */

/* A node of the operation table with its attributes. */
static dhow_status new_node(dhow_model *m, dhowi_op_id id, const char *layer, const int32_t *in,
                            uint32_t count, uint32_t results, const dhowi_attrs *attrs,
                            dhowi_node *node) {
    dhowi_attrs *kept = dhowi_arena_array(&m->arena, 1, sizeof *kept);
    char name[DHOWI_SCOPE + DHOWI_LAYER_NAME + 1];
    *node = (dhowi_node){.op = dhowi_operator_of_row(), .row = id, .attrs = kept};
    node->in = dhowi_arena_array(&m->arena, count, sizeof *node->in);
    node->out = dhowi_arena_array(&m->arena, results, sizeof *node->out);
    if (kept == NULL || node->in == NULL || node->out == NULL) return dhowi_fail_memory("model");
    if (layer != NULL) {
        (void)snprintf(name, sizeof name, "%s%s", m->scope, layer);
        node->name = dhowi_arena_text(&m->arena, name, strlen(name));
        if (node->name == NULL) return dhowi_fail_memory("model");
    }
    if (attrs != NULL) *kept = *attrs;
    memcpy(node->in, in, count * sizeof *in);
    node->in_count = count;
    node->out_count = results;
    return DHOW_OK;
}

static dhow_status keep_node(dhow_model *m, const dhowi_node *node,
                             const dhowi_tensor_desc *results, dhow_model_value *out) {
    dhowi_subgraph *g = &m->graph;
    if (!dhowi_room((void **)&g->nodes, g->node_count, &g->node_capacity, sizeof *g->nodes))
        return dhowi_fail_memory("model");
    for (uint32_t i = 0; i < node->out_count; i++)
        DHOWI_TRY(new_value(m, DHOWI_VALUE_RESULT, NULL, &results[i], &node->out[i]));
    g->nodes[g->node_count++] = *node;
    memcpy(out, node->out, node->out_count * sizeof *out);
    dhowi_model_forget(m);
    return DHOW_OK;
}

static dhow_status add_step(dhow_model *m, dhowi_op_id id, const char *layer, const int32_t *in,
                            uint32_t count, const dhowi_attrs *attrs, dhow_model_value *out) {
    static const dhowi_attrs none;
    const dhowi_op *op = dhowi_op_of(id);
    const dhowi_tensor_desc *descs[DHOWI_OP_MAX_INPUTS] = {NULL};
    dhowi_tensor_desc result;
    dhowi_node node;
    for (uint32_t i = 0; i < count; i++) {
        if (in[i] < 0 && i >= op->required) continue;
        DHOWI_TRY(dhowi_build_value(m, op->name, in[i]));
        if (m->values[in[i]].desc.rank < 0)
            return dhowi_fail(DHOW_UNSUPPORTED, "%s: the shape of its input is not known",
                              op->name);
        descs[i] = &m->values[in[i]].desc;
    }
    dhow_status status = dhowi_op_infer(op, descs, attrs != NULL ? attrs : &none, &result);
    if (status != DHOW_OK)
        return layer != NULL ? dhowi_fail_prefix(status, "layer '%.64s'", layer) : status;
    DHOWI_TRY(new_node(m, id, layer, in, count, 1, attrs, &node));
    node.operation = op->name;
    return keep_node(m, &node, &result, out);
}

dhow_status dhowi_build_node(dhow_model *m, const dhowi_operator *op, const char *layer,
                             const int32_t *in, uint32_t count, const dhowi_attrs *attrs,
                             const dhowi_tensor_desc *result, dhow_model_value *out) {
    dhowi_node node;
    DHOWI_TRY(new_node(m, DHOWI_OP_COUNT, layer, in, count, 1, attrs, &node));
    node.op = op;
    node.operation = op->name;
    return keep_node(m, &node, result, out);
}

dhow_status dhowi_build_operator(dhow_model *m, const dhowi_build_step *s, const dhowi_operator *op,
                                 const dhowi_onnx_node *source, dhow_model_value *out) {
    dhowi_node node;
    DHOWI_TRY(
        new_node(m, DHOWI_OP_COUNT, s->layer, s->in, s->in_count, s->result_count, NULL, &node));
    node.op = op;
    node.operation = op->name;
    node.source = source;
    node.opset = op->until;
    return keep_node(m, &node, s->result, out);
}

dhow_status dhowi_build_constant(dhow_model *m, dhow_dtype dtype, int32_t rank, int64_t count,
                                 const void *data, int32_t *out) {
    dhow_tensor *t;
    const dhowi_tensor_desc desc = {.dtype = dtype, .rank = rank, .shape = {count}};
    DHOWI_TRY(dhow_tensor_from_data(m->context->cpu, dtype, rank, &count, data, &t));
    dhow_status status = new_value(m, DHOWI_VALUE_PARAMETER, NULL, &desc, out);
    if (status == DHOW_OK) {
        m->values[*out].tensor = t;
        m->values[*out].known = true;
    } else {
        dhow_tensor_release(t);
    }
    return status;
}

dhowi_build_mark dhowi_build_here(const dhow_model *m) {
    return (dhowi_build_mark){m->value_count, m->parameter_count, m->graph.node_count};
}

dhow_status dhowi_build_undo(dhow_model *m, dhowi_build_mark mark, dhow_status status) {
    while (m->value_count > mark.values) dhow_tensor_release(m->values[--m->value_count].tensor);
    m->parameter_count = mark.parameters;
    m->graph.node_count = mark.nodes;
    return status;
}

static dhow_status add_plain(dhow_model *m, dhowi_op_id id, const int32_t *in, uint32_t count,
                             const dhowi_attrs *attrs, dhow_model_value *out) {
    DHOWI_TRY(dhowi_build_begin(m, dhowi_op_of(id)->name, out));
    return add_step(m, id, NULL, in, count, attrs, out);
}

#define UNARY(name, formula)                                                                      \
    dhow_status dhow_model_##name(dhow_model *model, dhow_model_value x, dhow_model_value *out) { \
        return add_plain(model, DHOWI_OP_##name, &x, 1, NULL, out);                               \
    }
DHOW_UNARY_MAP(UNARY)

#define BINARY(name, formula)                                                                \
    dhow_status dhow_model_##name(dhow_model *model, dhow_model_value a, dhow_model_value b, \
                                  dhow_model_value *out) {                                   \
        const int32_t in[] = {a, b};                                                         \
        return add_plain(model, DHOWI_OP_##name, in, 2, NULL, out);                          \
    }
DHOW_BINARY_MAP(BINARY)

#define WITH_SCALAR(name, formula)                                                               \
    dhow_status dhow_model_##name##_scalar(dhow_model *model, dhow_model_value x, dhow_scalar s, \
                                           dhow_model_value *out) {                              \
        const dhowi_attrs attrs = {.scalar = {s, dhow_scalar_i64(0)}};                           \
        return add_plain(model, DHOWI_OP_##name##_scalar, &x, 1, &attrs, out);                   \
    }
DHOW_SCALAR_MAP(WITH_SCALAR)

dhow_status dhow_model_affine(dhow_model *model, dhow_model_value x, dhow_scalar a, dhow_scalar b,
                              dhow_model_value *out) {
    const dhowi_attrs attrs = {.scalar = {a, b}};
    return add_plain(model, DHOWI_OP_affine, &x, 1, &attrs, out);
}

#define ALONG(name)                                                                   \
    dhow_status dhow_model_##name(dhow_model *model, dhow_model_value x, int32_t dim, \
                                  dhow_model_value *out) {                            \
        const dhowi_attrs attrs = {.dim = dim};                                       \
        return add_plain(model, DHOWI_OP_##name, &x, 1, &attrs, out);                 \
    }
ALONG(softmax)
ALONG(log_softmax)
ALONG(argmax)
ALONG(flatten)

#define POOL(name)                                                                               \
    dhow_status dhow_model_##name(dhow_model *model, dhow_model_value x,                         \
                                  const dhow_window *window, dhow_model_value *out) {            \
        dhowi_attrs attrs = {0};                                                                 \
        DHOWI_TRY(dhowi_build_begin(model, "dhow_model_" #name, out));                           \
        DHOWI_TRY(                                                                               \
            DHOWI_STRUCT_IN(dhow_window, window, &attrs.window, "dhow_model_" #name, "window")); \
        return add_plain(model, DHOWI_OP_##name, &x, 1, &attrs, out);                            \
    }
POOL(maxpool2d)
POOL(avgpool2d)

dhow_status dhow_model_matmul(dhow_model *model, dhow_model_value a, dhow_model_value b,
                              dhow_model_value *out) {
    const int32_t in[] = {a, b};
    return add_plain(model, DHOWI_OP_matmul, in, 2, NULL, out);
}

/* ---- layers: a step with parameters of its own ---- */

typedef struct layer {
    const char *function, *name;
    dhowi_op_id op;
    dhow_model_value x;
    dhowi_tensor_desc weight, bias;
    double scale; /* what the weight holds at first */
    bool has_bias;
    const dhowi_attrs *attrs;
} layer;

dhow_status dhowi_build_parameter(dhow_model *m, const char *function, const char *owner,
                                  const char *name, const dhowi_tensor_desc *desc, double value,
                                  int32_t *out) {
    char text[2 * DHOWI_LAYER_NAME];
    if (owner == NULL || owner[0] == '\0' || strlen(owner) > DHOWI_LAYER_NAME) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: a layer needs a name of at most %d bytes",
                          function, DHOWI_LAYER_NAME);
    }
    (void)snprintf(text, sizeof text, "%s.%s", owner, name);
    return new_parameter(m, function, text, desc, value, out);
}

static dhow_status add_layer(dhow_model *m, const layer *l, dhow_model_value *out) {
    const dhowi_build_mark mark = dhowi_build_here(m);
    int32_t in[] = {l->x, -1, -1};
    DHOWI_TRY(dhowi_build_value(m, l->function, l->x));
    dhow_status status =
        dhowi_build_parameter(m, l->function, l->name, "weight", &l->weight, l->scale, &in[1]);
    if (status == DHOW_OK && l->has_bias)
        status = dhowi_build_parameter(m, l->function, l->name, "bias", &l->bias, 0, &in[2]);
    if (status == DHOW_OK) status = add_step(m, l->op, l->name, in, 3, l->attrs, out);
    return status == DHOW_OK ? DHOW_OK : dhowi_build_undo(m, mark, status);
}

dhow_status dhowi_build_extent(const char *function, const char *what, int64_t extent) {
    if (extent >= 1 && extent <= INT32_MAX) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s is %lld; 1 to 2^31-1 is allowed", function,
                      what, (long long)extent);
}

/* The dtype of a layer is its input's. */
static dhow_dtype dtype_of(const dhow_model *m, dhow_model_value x) {
    return x >= 0 && (uint32_t)x < m->value_count ? m->values[x].desc.dtype : DHOW_F32;
}

dhow_status dhow_model_linear(dhow_model *m, const char *name, dhow_model_value x,
                              int64_t in_features, int64_t out_features, int32_t bias,
                              dhow_model_value *out) {
    static const char function[] = "dhow_model_linear";
    DHOWI_TRY(dhowi_build_begin(m, function, out));
    DHOWI_TRY(dhowi_build_extent(function, "in_features", in_features));
    DHOWI_TRY(dhowi_build_extent(function, "out_features", out_features));
    dhow_dtype dtype = dtype_of(m, x);
    const layer l = {.function = function,
                     .name = name,
                     .op = DHOWI_OP_linear,
                     .x = x,
                     .weight = {.dtype = dtype, .rank = 2, .shape = {out_features, in_features}},
                     .bias = {.dtype = dtype, .rank = 1, .shape = {out_features}},
                     .has_bias = bias != 0};
    return add_layer(m, &l, out);
}

dhow_status dhow_model_conv2d(dhow_model *m, const char *name, dhow_model_value x,
                              int64_t in_channels, int64_t out_channels, const dhow_window *given,
                              int32_t bias, dhow_model_value *out) {
    static const char function[] = "dhow_model_conv2d";
    DHOWI_TRY(dhowi_build_begin(m, function, out));
    if (given == NULL)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: window is NULL, its kernel is needed",
                          function);
    dhow_window own, *window = &own;
    DHOWI_TRY(DHOWI_STRUCT_IN(dhow_window, given, window, function, "window"));
    int64_t groups = window->groups == 0 ? 1 : window->groups;
    DHOWI_TRY(dhowi_build_extent(function, "in_channels", in_channels));
    DHOWI_TRY(dhowi_build_extent(function, "out_channels", out_channels));
    DHOWI_TRY(dhowi_build_extent(function, "window->kernel[0]", window->kernel[0]));
    DHOWI_TRY(dhowi_build_extent(function, "window->kernel[1]", window->kernel[1]));
    if (groups < 1 || in_channels % groups != 0) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: groups does not divide in_channels",
                          function);
    }
    dhow_dtype dtype = dtype_of(m, x);
    const dhowi_attrs attrs = {.window = *window};
    const layer l = {.function = function,
                     .name = name,
                     .op = DHOWI_OP_conv2d,
                     .x = x,
                     .weight = {.dtype = dtype,
                                .rank = 4,
                                .shape = {out_channels, in_channels / groups, window->kernel[0],
                                          window->kernel[1]}},
                     .bias = {.dtype = dtype, .rank = 1, .shape = {out_channels}},
                     .has_bias = bias != 0,
                     .attrs = &attrs};
    return add_layer(m, &l, out);
}

dhow_status dhow_model_layernorm(dhow_model *m, const char *name, dhow_model_value x,
                                 int64_t features, float eps, dhow_model_value *out) {
    static const char function[] = "dhow_model_layernorm";
    DHOWI_TRY(dhowi_build_begin(m, function, out));
    DHOWI_TRY(dhowi_build_extent(function, "features", features));
    dhow_dtype dtype = dtype_of(m, x);
    const dhowi_attrs attrs = {.eps = eps};
    const layer l = {.function = function,
                     .name = name,
                     .op = DHOWI_OP_layernorm,
                     .x = x,
                     .scale = 1,
                     .weight = {.dtype = dtype, .rank = 1, .shape = {features}},
                     .bias = {.dtype = dtype, .rank = 1, .shape = {features}},
                     .has_bias = true,
                     .attrs = &attrs};
    return add_layer(m, &l, out);
}
