/* SPDX-License-Identifier: Apache-2.0
 *
 * From an ONNX file to a graph: names become values, scope by scope, and nodes are sorted. Files
 * with nodes in any order exist; names of a branch may hide those outside of it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "model/onnx/functions.h"
#include "model/onnx/scope.h"
#include "model/operators/operators.h"

enum { OLDEST_OPSET = 7 };

/* ---- scopes: names to values ---- */

typedef struct importer {
    dhow_model *model;
    const dhowi_onnx_file *file;
    int64_t opset;
} importer;

static dhow_status new_name(importer *im, dhowi_scope *s, dhowi_slice name, dhowi_value_kind kind,
                            const dhowi_tensor_desc *desc, int32_t producer, int32_t *out) {
    dhowi_name_entry *e = dhowi_scope_slot(s, name);
    if (e->name.data != NULL)
        return dhowi_fail(DHOW_CORRUPT, "the name '%.*s' is defined twice", DHOWI_NAMED(name));
    char *text = dhowi_arena_text(&im->model->arena, name.data, name.length);
    if (text == NULL) return dhowi_fail_memory("model");
    DHOWI_TRY(dhowi_model_new_value(im->model, kind, text, desc, out));
    *e = (dhowi_name_entry){name, *out, producer};
    s->count++;
    return DHOW_OK;
}

/* ---- inputs and initializers ---- */

/* Texts are no parameters, which devices have: they are what a Constant node gives. */
static dhow_status add_texts(importer *im, dhowi_scope *s, const dhowi_onnx_tensor *t) {
    static const dhowi_tensor_desc unknown = {.rank = -1};
    int32_t value;
    return new_name(im, s, t->name, DHOWI_VALUE_RESULT, &unknown, -1, &value);
}

static dhow_status add_initializer(importer *im, dhowi_scope *s, const dhowi_onnx_tensor *t) {
    dhowi_tensor_desc desc = {0};
    int64_t count;
    uint64_t bytes;
    int32_t value;
    if (t->type == DHOWI_ONNX_STRING) return add_texts(im, s, t);
    DHOWI_TRY(dhowi_onnx_tensor_check(t, &desc.dtype, &count, &bytes));
    desc.rank = t->rank;
    desc.encoding = dhowi_onnx_encoding(t->type);
    if (t->rank > 0) memcpy(desc.shape, t->shape, (size_t)t->rank * sizeof *t->shape);
    if (t->name.length == 0) return dhowi_fail(DHOW_CORRUPT, "an initializer has no name");
    DHOWI_TRY(new_name(im, s, t->name, DHOWI_VALUE_PARAMETER, &desc, -1, &value));
    im->model->values[value].source = t;
    im->model->values[value].known = true;
    if (s->outer != NULL) return DHOW_OK;
    if (!dhowi_model_append(&im->model->parameters, im->model->parameter_count, value))
        return dhowi_fail_memory("model");
    im->model->parameter_count++;
    return DHOW_OK;
}

static dhow_datum_kind form_of(const dhowi_onnx_value *v) {
    if (v->sequence) return DHOW_DATUM_SEQUENCE;
    return v->type == DHOWI_ONNX_STRING ? DHOW_DATUM_TEXTS : DHOW_DATUM_TENSOR;
}

/* dtype and rank; the extents do not follow before the rank is looked at. */
static dhowi_tensor_desc desc_of(const dhowi_onnx_value *v) {
    return (dhowi_tensor_desc){.dtype = dhowi_onnx_held(v->type),
                               .rank = v->rank,
                               .encoding = dhowi_onnx_encoding(v->type)};
}

static dhow_status add_input(importer *im, dhowi_scope *s, const dhowi_onnx_value *v) {
    dhowi_tensor_desc desc = desc_of(v);
    int32_t value;
    const dhowi_name_entry *there = dhowi_scope_slot(s, v->name);
    if (there->name.data != NULL && im->model->values[there->value].kind == DHOWI_VALUE_PARAMETER)
        return DHOW_OK; /* an initializer, in old files */
    if (v->name.length == 0) return dhowi_fail(DHOW_CORRUPT, "an input has no name");
    const bool texts = v->type == DHOWI_ONNX_STRING;
    if (desc.dtype == 0 && !texts) {
        return dhowi_fail(DHOW_UNSUPPORTED, "input '%.*s' is no tensor, or one of type %s",
                          DHOWI_NAMED(v->name), dhowi_onnx_type_name(v->type));
    }
    if (v->rank > DHOW_MAX_RANK) {
        return dhowi_fail(DHOW_UNSUPPORTED, "input '%.*s' has %d dimensions, dhow takes %d",
                          DHOWI_NAMED(v->name), v->rank, DHOW_MAX_RANK);
    }
    for (int32_t i = 0; i < v->rank; i++) desc.shape[i] = v->shape[i];
    DHOWI_TRY(new_name(im, s, v->name, DHOWI_VALUE_INPUT, &desc, -1, &value));
    im->model->values[value].form = form_of(v);
    im->model->values[value].optional = v->optional;
    if (!dhowi_model_append(&im->model->inputs, im->model->input_count, value))
        return dhowi_fail_memory("model");
    im->model->input_count++;
    return DHOW_OK;
}

/* A Constant node's tensor is a parameter like any other: nothing is left to compute. */
static const dhowi_onnx_tensor *constant_of(const dhowi_onnx_node *n) {
    if (!dhowi_slice_is(n->op, "Constant") || n->output_count != 1) return NULL;
    for (uint32_t i = 0; i < n->attribute_count; i++) {
        if (dhowi_slice_is(n->attributes[i].name, "value")) return n->attributes[i].tensor;
    }
    return NULL;
}

static dhow_status add_results(importer *im, dhowi_scope *s) {
    static const dhowi_tensor_desc unknown = {.rank = -1};
    int32_t value;
    for (uint32_t i = 0; i < s->graph->node_count; i++) {
        const dhowi_onnx_node *n = &s->graph->nodes[i];
        const dhowi_onnx_tensor *t = constant_of(n);
        if (t != NULL && dhowi_onnx_held(t->type) != 0) {
            dhowi_onnx_tensor *named = dhowi_arena_array(&im->model->arena, 1, sizeof *named);
            if (named == NULL) return dhowi_fail_memory("model");
            *named = *t;
            named->name = n->outputs[0];
            DHOWI_TRY(add_initializer(im, s, named));
            continue;
        }
        for (uint32_t k = 0; k < n->output_count; k++) {
            if (n->outputs[k].length == 0) continue;
            DHOWI_TRY(
                new_name(im, s, n->outputs[k], DHOWI_VALUE_RESULT, &unknown, (int32_t)i, &value));
        }
    }
    return DHOW_OK;
}

/* ---- nodes ---- */

static dhow_status import_graph(importer *im, const dhowi_scope *outer,
                                const dhowi_onnx_graph *source, dhowi_subgraph *graph);

static dhow_status find_operator(const importer *im, const dhowi_onnx_node *n,
                                 const dhowi_operator **out) {
    const dhowi_operator *other = NULL;
    bool standard = n->domain.length == 0 || dhowi_slice_is(n->domain, "ai.onnx");
    const dhowi_slice none = {NULL, 0}, domain = standard ? none : n->domain;
    const int64_t opset = n->opset != 0 ? n->opset : im->opset;
    char full[96];
    const int length = snprintf(full, sizeof full, "%.*s%s%.*s", DHOWI_NAMED(domain),
                                standard ? "" : "::", DHOWI_NAMED(n->op));
    *out = length > 0 && (size_t)length < sizeof full
               ? dhowi_operator_find(full, (size_t)length, opset, &other)
               : NULL;
    if (*out != NULL) return DHOW_OK;
    if (other != NULL) {
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "%.*s (node '%.*s', byte %" PRIu64
                          "): dhow has it for opsets %d to %d, "
                          "the model's is %" PRId64,
                          DHOWI_NAMED(n->op), DHOWI_NAMED(n->name), n->at, other->since,
                          other->until, opset);
    }
    return dhowi_fail(DHOW_UNSUPPORTED,
                      "%.*s%s%.*s (node '%.*s', byte %" PRIu64 ", opset %" PRId64
                      ") is no operator that dhow has",
                      DHOWI_NAMED(n->domain), standard ? "" : "::", DHOWI_NAMED(n->op),
                      DHOWI_NAMED(n->name), n->at, opset);
}

static dhow_status import_values(importer *im, const dhowi_scope *s, const dhowi_onnx_node *n,
                                 dhowi_node *node) {
    dhowi_arena *arena = &im->model->arena;
    node->in = dhowi_arena_array(arena, n->input_count, sizeof *node->in);
    node->out = dhowi_arena_array(arena, n->output_count, sizeof *node->out);
    if (node->in == NULL || node->out == NULL) return dhowi_fail_memory("model");
    if (n->input_count > DHOWI_MAX_OUTPUTS_OF_NODE || n->output_count > DHOWI_MAX_OUTPUTS_OF_NODE)
        return dhowi_fail(DHOW_UNSUPPORTED, "more than %d inputs or outputs",
                          DHOWI_MAX_OUTPUTS_OF_NODE);
    for (uint32_t i = 0; i < n->input_count; i++) {
        node->in[i] = n->inputs[i].length == 0 ? -1 : dhowi_scope_look_up(s, n->inputs[i]);
        if (n->inputs[i].length > 0 && node->in[i] < 0)
            return dhowi_fail(DHOW_CORRUPT, "its input '%.*s' is defined nowhere",
                              DHOWI_NAMED(n->inputs[i]));
    }
    for (uint32_t i = 0; i < n->output_count; i++)
        node->out[i] = n->outputs[i].length == 0 ? -1 : dhowi_scope_slot(s, n->outputs[i])->value;
    node->in_count = n->input_count;
    node->out_count = n->output_count;
    /* Trailing empty names say nothing. */
    while (node->in_count > 0 && node->in[node->in_count - 1] < 0) node->in_count--;
    while (node->out_count > 0 && node->out[node->out_count - 1] < 0) node->out_count--;
    return DHOW_OK;
}

/* The gradient is taken where its inputs are xs themselves; y becomes an input after them. */
static dhow_status import_gradient(importer *im, const dhowi_scope *s, const dhowi_onnx_node *n,
                                   dhowi_node *node) {
    const dhowi_onnx_attribute *xs = dhowi_attribute_of(n, "xs"), *y = dhowi_attribute_of(n, "y");
    const int32_t value = y != NULL ? dhowi_scope_look_up(s, y->s) : -1;
    if (xs == NULL || xs->string_count == 0 || value < 0)
        return dhowi_fail(DHOW_CORRUPT, "it has no xs, or no y that is computed");
    if (xs->string_count > node->in_count || xs->string_count > DHOWI_MAX_OUTPUTS_OF_NODE - 1)
        return dhowi_fail(DHOW_CORRUPT, "it has %u inputs for %u xs", node->in_count,
                          xs->string_count);
    for (uint32_t i = 0; i < xs->string_count; i++) {
        if (node->in[i] >= 0 && node->in[i] == dhowi_scope_look_up(s, xs->strings[i])) continue;
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "its input %u is another value than '%.*s', which it stands for", i,
                          DHOWI_NAMED(xs->strings[i]));
    }
    int32_t *in = dhowi_arena_array(&im->model->arena, xs->string_count + 1, sizeof *in);
    if (in == NULL) return dhowi_fail_memory("model");
    memcpy(in, node->in, xs->string_count * sizeof *in);
    in[xs->string_count] = value;
    node->in = in;
    node->in_count = xs->string_count + 1;
    return DHOW_OK;
}

/* Who wrote it meant something by it, so leaving it out would give another result; so would one of
 * two that have one name. */
static dhow_status refuse_odd_attributes(const dhowi_operator *op, const dhowi_onnx_node *n) {
    for (uint32_t i = 0; i < n->attribute_count; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (dhowi_slice_equal(n->attributes[k].name, n->attributes[i].name))
                return dhowi_fail(DHOW_CORRUPT, "its attribute '%.*s' is there twice",
                                  DHOWI_NAMED(n->attributes[i].name));
        }
        if (dhowi_operator_takes_attribute(op, n->attributes[i].name)) continue;
        const char *known = dhowi_operator_attributes(op);
        return dhowi_fail(DHOW_UNSUPPORTED, "unknown attribute '%.*s'; %s%s",
                          DHOWI_NAMED(n->attributes[i].name),
                          *known != 0 ? "dhow knows " : "it has none", known);
    }
    return DHOW_OK;
}

static dhow_status import_node(importer *im, const dhowi_scope *s, const dhowi_onnx_node *n,
                               dhowi_node *node) {
    *node = (dhowi_node){.source = n, .opset = (int32_t)(n->opset != 0 ? n->opset : im->opset)};
    DHOWI_TRY(find_operator(im, n, &node->op));
    node->operation = node->op->name;
    node->name = dhowi_arena_text(&im->model->arena, n->name.data, n->name.length);
    if (node->name == NULL) return dhowi_fail_memory("model");
    char text[160];
    dhow_status status = refuse_odd_attributes(node->op, n);
    if (status == DHOW_OK) status = import_values(im, s, n, node);
    if (status == DHOW_OK && dhowi_is_gradient(n)) status = import_gradient(im, s, n, node);
    if (status != DHOW_OK)
        return dhowi_fail_prefix(status, "%s", dhowi_node_text(node, text, sizeof text));
    for (uint32_t i = 0; i < n->attribute_count; i++) {
        if (n->attributes[i].graph == NULL) continue;
        dhowi_subgraph *branch = dhowi_arena_array(&im->model->arena, 1, sizeof *branch);
        if (branch == NULL) return dhowi_fail_memory("model");
        DHOWI_TRY(import_graph(im, s, n->attributes[i].graph, branch));
        const dhowi_slice name = n->attributes[i].name; /* the second one of two */
        node->branch[dhowi_slice_is(name, "else_branch") || dhowi_slice_is(name, "prob_mod")] =
            branch;
    }
    return DHOW_OK;
}

/* A node with the same attributes and no inputs goes before one that wants them prepared. */
static dhow_status prepare(importer *im, dhowi_subgraph *graph, const dhowi_node *node) {
    static const dhowi_tensor_desc unknown = {.rank = -1};
    const uint32_t given = node->op->least, count = node->op->most - given;
    int32_t *in = dhowi_arena_array(&im->model->arena, node->op->most, sizeof *in);
    char text[160];
    if (in == NULL) return dhowi_fail_memory("model");
    if (node->in_count != given)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: it has %u inputs, the operator takes %u",
                          dhowi_node_text(node, text, sizeof text), node->in_count, given);
    memcpy(in, node->in, given * sizeof *in);
    for (uint32_t i = 0; i < count; i++)
        DHOWI_TRY(
            dhowi_model_new_value(im->model, DHOWI_VALUE_RESULT, NULL, &unknown, &in[given + i]));
    dhowi_node *to = &graph->nodes[graph->node_count++];
    *to = *node;
    to->op = node->op->prepared;
    to->in_count = 0;
    to->out = in + given;
    to->out_count = count;
    to[1] = *node;
    to[1].in = in;
    to[1].in_count = given + count;
    return DHOW_OK;
}

/* The Constant node of an initializer that is texts. */
static dhow_status import_texts(importer *im, const dhowi_scope *s, const dhowi_onnx_tensor *t,
                                dhowi_node *node) {
    static const char op[] = "Constant", name[] = "value";
    const dhowi_operator *other;
    dhowi_arena *arena = &im->model->arena;
    dhowi_onnx_attribute *a = dhowi_arena_array(arena, 1, sizeof *a);
    dhowi_onnx_node *n = dhowi_arena_array(arena, 1, sizeof *n);
    int32_t *out = dhowi_arena_array(arena, 1, sizeof *out);
    if (a == NULL || n == NULL || out == NULL) return dhowi_fail_memory("model");
    *a = (dhowi_onnx_attribute){.name = {name, sizeof name - 1}, .tensor = t};
    *n = (dhowi_onnx_node){.op = {op, sizeof op - 1}, .attributes = a, .attribute_count = 1};
    *out = dhowi_scope_slot(s, t->name)->value;
    *node = (dhowi_node){.op = dhowi_operator_find(op, sizeof op - 1, DHOWI_LATEST_OPSET, &other),
                         .operation = op,
                         .source = n,
                         .opset = DHOWI_LATEST_OPSET,
                         .out = out,
                         .out_count = 1};
    node->name = dhowi_arena_text(arena, t->name.data, t->name.length);
    return node->name != NULL ? DHOW_OK : dhowi_fail_memory("model");
}

static dhow_status import_nodes(importer *im, dhowi_scope *s, dhowi_subgraph *graph) {
    uint32_t *order, wanted;
    DHOWI_TRY(dhowi_sort_nodes(s, &order, &wanted));
    /* Room for constants of texts, and for what operators of other domains have prepared. */
    const dhowi_onnx_graph *g = s->graph;
    size_t more = 0;
    for (uint32_t i = 0; i < g->initializer_count; i++)
        more += g->initializers[i].type == DHOWI_ONNX_STRING;
    for (uint32_t i = 0; i < g->node_count; i++) more += g->nodes[i].domain.length > 0;
    graph->nodes = dhowi_arena_array(&im->model->arena, g->node_count + more, sizeof *graph->nodes);
    dhow_status status = graph->nodes != NULL ? DHOW_OK : dhowi_fail_memory("model");
    for (uint32_t i = 0; i < g->initializer_count && status == DHOW_OK; i++)
        if (g->initializers[i].type == DHOWI_ONNX_STRING)
            status = import_texts(im, s, &g->initializers[i], &graph->nodes[graph->node_count++]);
    for (uint32_t i = 0; i < s->graph->node_count && status == DHOW_OK; i++) {
        const dhowi_onnx_node *n = &s->graph->nodes[order[i]];
        const dhowi_onnx_tensor *t = constant_of(n);
        if (t != NULL && dhowi_onnx_held(t->type) != 0) continue;
        /* A node that nobody wants is looked at like the others, and then forgotten. */
        dhowi_node node;
        status = import_node(im, s, n, &node);
        if (status != DHOW_OK || i >= wanted) continue;
        if (node.op->prepared != NULL) {
            status = prepare(im, graph, &node);
        } else {
            graph->nodes[graph->node_count] = node;
        }
        graph->node_count++;
    }
    dhowi_free(order);
    return status;
}

/* What a file says of a result, for those who list outputs; runs tell what it is. */
static void declare(dhowi_value *v, const dhowi_onnx_value *output) {
    if (v->kind != DHOWI_VALUE_RESULT || v->desc.dtype != 0 || output->rank > DHOW_MAX_RANK) return;
    v->desc = desc_of(output);
    for (int32_t i = 0; i < output->rank; i++) v->desc.shape[i] = output->shape[i];
}

/* Dictionaries in ONNX, the columns that they are made of here. */
static bool is_zipped(const dhowi_subgraph *graph, int32_t value) {
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const dhowi_node *node = &graph->nodes[i];
        if (node->out_count > 0 && node->out[0] == value)
            return strcmp(node->op->name, "ai.onnx.ml::ZipMap") == 0;
    }
    return false;
}

static dhow_status import_outputs(importer *im, const dhowi_scope *s, dhowi_subgraph *graph) {
    graph->outputs =
        dhowi_arena_array(&im->model->arena, s->graph->output_count, sizeof *graph->outputs);
    if (graph->outputs == NULL) return dhowi_fail_memory("model");
    for (uint32_t i = 0; i < s->graph->output_count; i++) {
        dhowi_slice name = s->graph->outputs[i].name;
        int32_t value = dhowi_scope_look_up(s, name);
        if (value < 0)
            return dhowi_fail(DHOW_CORRUPT, "output '%.*s' is computed by no node",
                              DHOWI_NAMED(name));
        graph->outputs[graph->output_count++] = value;
        if (s->outer != NULL) continue;
        declare(&im->model->values[value], &s->graph->outputs[i]);
        im->model->values[value].form = form_of(&s->graph->outputs[i]);
        if (im->model->values[value].form == DHOW_DATUM_SEQUENCE && is_zipped(graph, value)) {
            im->model->values[value].form = DHOW_DATUM_TENSOR;
            im->model->values[value].desc = (dhowi_tensor_desc){.dtype = DHOW_F32, .rank = -1};
        }
        im->model->values[value].optional = s->graph->outputs[i].optional;
        char *text = dhowi_arena_text(&im->model->arena, name.data, name.length);
        if (text == NULL) return dhowi_fail_memory("model");
        DHOWI_TRY(dhowi_model_add_output(im->model, text, value));
    }
    return DHOW_OK;
}

/* The inputs of a body are values that its node gives. */
static dhow_status import_body_inputs(importer *im, dhowi_scope *s, dhowi_subgraph *graph) {
    static const dhowi_tensor_desc unknown = {.rank = -1};
    const dhowi_onnx_graph *g = s->graph;
    graph->inputs = dhowi_arena_array(&im->model->arena, g->input_count, sizeof *graph->inputs);
    if (graph->inputs == NULL) return dhowi_fail_memory("model");
    for (uint32_t i = 0; i < g->input_count; i++)
        DHOWI_TRY(new_name(im, s, g->inputs[i].name, DHOWI_VALUE_RESULT, &unknown, -1,
                           &graph->inputs[graph->input_count++]));
    return DHOW_OK;
}

static dhow_status import_graph(importer *im, const dhowi_scope *outer,
                                const dhowi_onnx_graph *source, dhowi_subgraph *graph) {
    dhowi_scope s;
    DHOWI_TRY(dhowi_scope_open(&s, outer, source));
    dhow_status status = DHOW_OK;
    for (uint32_t i = 0; i < source->initializer_count && status == DHOW_OK; i++)
        status = add_initializer(im, &s, &source->initializers[i]);
    for (uint32_t i = 0; i < source->input_count && status == DHOW_OK && outer == NULL; i++)
        status = add_input(im, &s, &source->inputs[i]);
    if (outer != NULL && status == DHOW_OK) status = import_body_inputs(im, &s, graph);
    if (status == DHOW_OK) status = add_results(im, &s);
    if (status == DHOW_OK) status = import_nodes(im, &s, graph);
    if (status == DHOW_OK) status = import_outputs(im, &s, graph);
    dhowi_free(s.entries);
    return status;
}

static dhow_status opset_of(importer *im) {
    bool given = im->file->opset_count == 0;
    for (uint32_t i = 0; i < im->file->opset_count; i++) {
        const dhowi_onnx_opset *o = &im->file->opsets[i];
        if (o->domain.length != 0 && !dhowi_slice_is(o->domain, "ai.onnx")) continue;
        im->opset = o->version;
        given = true;
    }
    if (!given) im->opset = DHOWI_LATEST_OPSET; /* it has operators of other domains alone */
    if (im->opset >= 1 && im->opset <= DHOWI_LATEST_OPSET) return DHOW_OK;
    return dhowi_fail(DHOW_UNSUPPORTED,
                      "the model's opset is %" PRId64
                      ", dhow takes %d to %d; convert it with "
                      "onnx.version_converter",
                      im->opset, OLDEST_OPSET, DHOWI_LATEST_OPSET);
}

dhow_status dhowi_model_import(dhow_model *model, dhowi_onnx_file *file) {
    importer im = {.model = model, .file = file};
    model->file = file;
    model->name = file->name;
    model->arena.limit = file->bytes < SIZE_MAX / 64 ? file->bytes * 32 + (1u << 20) : 0;
    dhow_status status = opset_of(&im);
    if (status == DHOW_OK) status = dhowi_inline_functions(file, &model->arena);
    if (status == DHOW_OK) status = import_graph(&im, NULL, file->graph, &model->graph);
    if (status != DHOW_OK) return dhowi_fail_prefix(status, "%s", file->name);
    return DHOW_OK;
}
