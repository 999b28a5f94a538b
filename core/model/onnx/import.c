/* SPDX-License-Identifier: Apache-2.0
 *
 * From an ONNX file to a graph: names become values, scope by scope, and nodes are sorted. Files
 * with nodes in any order exist; names of a branch may hide those outside of it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "base/text/text.h"
#include "model/operators/operators.h"

enum { OLDEST_OPSET = 7, LATEST_OPSET = 25 };

#define NAMED(slice) \
    (int)DHOWI_MIN((slice).length, (size_t)64), (slice).data != NULL ? (slice).data : ""

/* ---- scopes: names to values ---- */

typedef struct name_entry {
    dhowi_slice name;
    int32_t value;
    int32_t producer; /* node of this scope, -1 for inputs and initializers */
} name_entry;

typedef struct scope {
    const struct scope *outer;
    name_entry *entries; /* a table with open addresses */
    uint32_t capacity, count;
    const dhowi_onnx_graph *graph;
} scope;

typedef struct importer {
    dhow_model *model;
    const dhowi_onnx_file *file;
    int64_t opset;
} importer;

static name_entry *find_slot(const scope *s, dhowi_slice name) {
    uint64_t at = dhowi_hash(DHOWI_HASH_SEED, name.data, name.length);
    for (;; at++) {
        name_entry *e = &s->entries[at & (s->capacity - 1)];
        if (e->name.data == NULL || dhowi_slice_equal(e->name, name)) return e;
    }
}

static dhow_status open_scope(scope *s, const scope *outer, const dhowi_onnx_graph *graph) {
    uint64_t names = (uint64_t)graph->input_count + graph->initializer_count;
    for (uint32_t i = 0; i < graph->node_count; i++) names += graph->nodes[i].output_count;
    *s = (scope){.outer = outer, .graph = graph, .capacity = 16};
    while (s->capacity < 2 * names && s->capacity < UINT32_MAX / 4) s->capacity *= 2;
    s->entries = dhowi_alloc_array(s->capacity, sizeof *s->entries);
    return s->entries != NULL ? DHOW_OK : dhowi_fail_memory("model");
}

static int32_t look_up(const scope *s, dhowi_slice name) {
    for (; s != NULL; s = s->outer) {
        const name_entry *e = find_slot(s, name);
        if (e->name.data != NULL) return e->value;
    }
    return -1;
}

static dhow_status new_name(importer *im, scope *s, dhowi_slice name, dhowi_value_kind kind,
                            const dhowi_spec *spec, int32_t producer, int32_t *out) {
    name_entry *e = find_slot(s, name);
    if (e->name.data != NULL)
        return dhowi_fail(DHOW_CORRUPT, "the name '%.*s' is defined twice", NAMED(name));
    char *text = dhowi_arena_text(&im->model->arena, name.data, name.length);
    if (text == NULL) return dhowi_fail_memory("model");
    DHOWI_TRY(dhowi_model_new_value(im->model, kind, text, spec, out));
    *e = (name_entry){name, *out, producer};
    s->count++;
    return DHOW_OK;
}

/* ---- inputs and initializers ---- */

static dhow_status add_initializer(importer *im, scope *s, const dhowi_onnx_tensor *t) {
    dhowi_spec spec = {0};
    int64_t count;
    uint64_t bytes;
    int32_t value;
    DHOWI_TRY(dhowi_onnx_tensor_check(t, &spec.dtype, &count, &bytes));
    spec.rank = t->rank;
    if (t->rank > 0) memcpy(spec.shape, t->shape, (size_t)t->rank * sizeof *t->shape);
    if (t->name.length == 0) return dhowi_fail(DHOW_CORRUPT, "an initializer has no name");
    DHOWI_TRY(new_name(im, s, t->name, DHOWI_VALUE_PARAMETER, &spec, -1, &value));
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

static dhow_status add_input(importer *im, scope *s, const dhowi_onnx_value *v) {
    dhowi_spec spec = {.dtype = dhowi_onnx_dtype(v->type), .rank = v->rank};
    int32_t value;
    if (find_slot(s, v->name)->name.data != NULL) return DHOW_OK; /* an initializer, in old files */
    if (v->name.length == 0) return dhowi_fail(DHOW_CORRUPT, "an input has no name");
    const bool texts = v->type == DHOWI_ONNX_STRING;
    if (spec.dtype == 0 && !texts) {
        return dhowi_fail(DHOW_UNSUPPORTED, "input '%.*s' is no tensor, or one of type %s",
                          NAMED(v->name), dhowi_onnx_type_name(v->type));
    }
    if (v->rank > DHOW_MAX_RANK) {
        return dhowi_fail(DHOW_UNSUPPORTED, "input '%.*s' has %d dimensions, dhow takes %d",
                          NAMED(v->name), v->rank, DHOW_MAX_RANK);
    }
    for (int32_t i = 0; i < v->rank; i++) spec.shape[i] = v->shape[i];
    DHOWI_TRY(new_name(im, s, v->name, DHOWI_VALUE_INPUT, &spec, -1, &value));
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

static dhow_status add_results(importer *im, scope *s) {
    static const dhowi_spec unknown = {.rank = -1};
    int32_t value;
    for (uint32_t i = 0; i < s->graph->node_count; i++) {
        const dhowi_onnx_node *n = &s->graph->nodes[i];
        const dhowi_onnx_tensor *t = constant_of(n);
        if (t != NULL && dhowi_onnx_dtype(t->type) != 0) {
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

/* ---- sorting ---- */

/* Depth-first search without recursion: a file decides how long a chain is. */
typedef struct sorter {
    scope *s;
    uint32_t *order, count;
    uint8_t *state; /* 0 new, 1 being visited, 2 done */
    uint32_t *stack;
    uint64_t *position, *first; /* in names, of each node */
    dhowi_slice *names;         /* what each node waits for */
} sorter;

static bool is_gradient(const dhowi_onnx_node *n) {
    return dhowi_slice_is(n->domain, DHOWI_TRAINING) && dhowi_slice_is(n->op, "Gradient");
}

static const dhowi_onnx_attribute *attribute_of(const dhowi_onnx_node *n, const char *name) {
    for (uint32_t i = 0; i < n->attribute_count; i++) {
        if (dhowi_slice_is(n->attributes[i].name, name)) return &n->attributes[i];
    }
    return NULL;
}

/* Appends what a graph's nodes read, those of its branches included; counts when `to` is NULL. */
static uint64_t names_of_graph(const dhowi_onnx_graph *g, dhowi_slice *to);
static uint64_t names_of_node(const dhowi_onnx_node *n, dhowi_slice *to) {
    uint64_t count = n->input_count;
    for (uint32_t i = 0; i < n->input_count && to != NULL; i++) to[i] = n->inputs[i];
    const dhowi_onnx_attribute *y = is_gradient(n) ? attribute_of(n, "y") : NULL;
    if (y != NULL && to != NULL) to[count] = y->s;
    count += y != NULL;
    for (uint32_t i = 0; i < n->attribute_count; i++) {
        if (n->attributes[i].graph == NULL) continue;
        count += names_of_graph(n->attributes[i].graph, to != NULL ? to + count : NULL);
    }
    return count;
}
static uint64_t names_of_graph(const dhowi_onnx_graph *g, dhowi_slice *to) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < g->node_count; i++)
        count += names_of_node(&g->nodes[i], to != NULL ? to + count : NULL);
    for (uint32_t i = 0; i < g->output_count; i++, count++) {
        if (to != NULL) to[count] = g->outputs[i].name;
    }
    return count;
}

static dhow_status visit(sorter *t, uint32_t root) {
    uint32_t depth = 0;
    t->stack[0] = root;
    t->state[root] = 1;
    for (;;) {
        uint32_t node = t->stack[depth];
        const dhowi_onnx_node *n = &t->s->graph->nodes[node];
        uint64_t at = t->position[node]++;
        if (at == t->first[node + 1]) {
            t->state[node] = 2;
            t->order[t->count++] = node;
            if (depth-- == 0) return DHOW_OK;
            continue;
        }
        const name_entry *e = find_slot(t->s, t->names[at]);
        if (e->name.data == NULL || e->producer < 0 || t->state[e->producer] == 2) continue;
        /* A branch may use the names of its own node's results for its own. */
        if ((uint32_t)e->producer == node && at >= t->first[node] + n->input_count) continue;
        if (t->state[e->producer] == 1) {
            return dhowi_fail(DHOW_CORRUPT,
                              "%.*s (node '%.*s', byte %" PRIu64
                              ") waits for its own result: the graph has a cycle",
                              NAMED(n->op), NAMED(n->name), n->at);
        }
        t->stack[++depth] = (uint32_t)e->producer;
        t->state[e->producer] = 1;
    }
}

static dhow_status prepare_sorter(sorter *t, uint32_t n) {
    t->order = dhowi_alloc_array((size_t)n * 2 + 1, sizeof *t->order);
    t->state = dhowi_alloc_array((size_t)n + 1, 1);
    t->position = dhowi_alloc_array((size_t)n * 2 + 2, sizeof *t->position);
    if (t->order == NULL || t->state == NULL || t->position == NULL)
        return dhowi_fail_memory("model");
    t->stack = t->order + n;
    t->first = t->position + n;
    for (uint32_t i = 0; i < n; i++)
        t->first[i + 1] = t->first[i] + names_of_node(&t->s->graph->nodes[i], NULL);
    t->names = dhowi_alloc_array(t->first[n] + 1, sizeof *t->names);
    if (t->names == NULL) return dhowi_fail_memory("model");
    for (uint32_t i = 0; i < n; i++) {
        (void)names_of_node(&t->s->graph->nodes[i], t->names + t->first[i]);
        t->position[i] = t->first[i];
    }
    return DHOW_OK;
}

static void want(sorter *t, dhowi_slice name) {
    const name_entry *e = find_slot(t->s, name);
    if (e->name.data != NULL && e->producer >= 0) t->state[e->producer] = 3;
}

/* Puts nodes whose results nobody wants behind the others; those of state 3 are wanted. */
static void part_wanted(sorter *t) {
    const dhowi_onnx_graph *g = t->s->graph;
    uint32_t kept = 0, others = 0;
    for (uint32_t i = 0; i < g->output_count; i++) want(t, g->outputs[i].name);
    for (uint32_t i = t->count; i-- > 0;) {
        const uint32_t node = t->order[i];
        if (t->state[node] != 3) continue;
        for (uint64_t k = t->first[node]; k < t->first[node + 1]; k++) want(t, t->names[k]);
    }
    for (uint32_t i = 0; i < t->count; i++) {
        if (t->state[t->order[i]] == 3)
            t->order[kept++] = t->order[i];
        else
            t->stack[others++] = t->order[i];
    }
    if (others > 0) memcpy(t->order + kept, t->stack, others * sizeof *t->order);
    t->count = kept;
}

/* *out is every node in an order that works, of which the first *wanted are to be run. */
static dhow_status sort_nodes(scope *s, uint32_t **out, uint32_t *wanted) {
    uint32_t n = s->graph->node_count;
    sorter t = {.s = s};
    dhow_status status = prepare_sorter(&t, n);
    for (uint32_t i = 0; i < n && status == DHOW_OK; i++) {
        if (t.state[i] == 0) status = visit(&t, i);
    }
    if (status == DHOW_OK) part_wanted(&t);
    *wanted = t.count;
    dhowi_free(t.state);
    dhowi_free(t.position);
    dhowi_free(t.names);
    if (status != DHOW_OK) {
        dhowi_free(t.order);
        t.order = NULL;
    }
    *out = t.order;
    return status;
}

/* ---- nodes ---- */

static dhow_status import_graph(importer *im, const scope *outer, const dhowi_onnx_graph *source,
                                dhowi_graph *graph);

static dhow_status find_operator(const importer *im, const dhowi_onnx_node *n,
                                 const dhowi_operator **out) {
    const dhowi_operator *other = NULL;
    bool standard = n->domain.length == 0 || dhowi_slice_is(n->domain, "ai.onnx");
    const dhowi_slice none = {NULL, 0}, domain = standard ? none : n->domain;
    char full[96];
    const int length = snprintf(full, sizeof full, "%.*s%s%.*s", NAMED(domain),
                                standard ? "" : "::", NAMED(n->op));
    *out = length > 0 && (size_t)length < sizeof full
               ? dhowi_operator_find(full, (size_t)length, im->opset, &other)
               : NULL;
    if (*out != NULL) return DHOW_OK;
    if (other != NULL) {
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "%.*s (node '%.*s', byte %" PRIu64
                          "): dhow has it for opsets %d to %d, "
                          "the model's is %" PRId64,
                          NAMED(n->op), NAMED(n->name), n->at, other->since, other->until,
                          im->opset);
    }
    return dhowi_fail(DHOW_UNSUPPORTED,
                      "%.*s%s%.*s (node '%.*s', byte %" PRIu64 ", opset %" PRId64
                      ") is no operator that dhow has",
                      NAMED(n->domain), standard ? "" : "::", NAMED(n->op), NAMED(n->name), n->at,
                      im->opset);
}

static dhow_status import_values(importer *im, const scope *s, const dhowi_onnx_node *n,
                                 dhowi_node *node) {
    dhowi_arena *arena = &im->model->arena;
    node->in = dhowi_arena_array(arena, n->input_count, sizeof *node->in);
    node->out = dhowi_arena_array(arena, n->output_count, sizeof *node->out);
    if (node->in == NULL || node->out == NULL) return dhowi_fail_memory("model");
    if (n->input_count > DHOWI_MAX_OUTPUTS_OF_NODE || n->output_count > DHOWI_MAX_OUTPUTS_OF_NODE)
        return dhowi_fail(DHOW_UNSUPPORTED, "more than %d inputs or outputs",
                          DHOWI_MAX_OUTPUTS_OF_NODE);
    for (uint32_t i = 0; i < n->input_count; i++) {
        node->in[i] = n->inputs[i].length == 0 ? -1 : look_up(s, n->inputs[i]);
        if (n->inputs[i].length > 0 && node->in[i] < 0)
            return dhowi_fail(DHOW_CORRUPT, "its input '%.*s' is defined nowhere",
                              NAMED(n->inputs[i]));
    }
    for (uint32_t i = 0; i < n->output_count; i++)
        node->out[i] = n->outputs[i].length == 0 ? -1 : find_slot(s, n->outputs[i])->value;
    node->in_count = n->input_count;
    node->out_count = n->output_count;
    /* Trailing empty names say nothing. */
    while (node->in_count > 0 && node->in[node->in_count - 1] < 0) node->in_count--;
    while (node->out_count > 0 && node->out[node->out_count - 1] < 0) node->out_count--;
    return DHOW_OK;
}

/* The gradient is taken where its inputs are xs themselves; y becomes an input after them. */
static dhow_status import_gradient(importer *im, const scope *s, const dhowi_onnx_node *n,
                                   dhowi_node *node) {
    const dhowi_onnx_attribute *xs = attribute_of(n, "xs"), *y = attribute_of(n, "y");
    const int32_t value = y != NULL ? look_up(s, y->s) : -1;
    if (xs == NULL || xs->string_count == 0 || value < 0)
        return dhowi_fail(DHOW_CORRUPT, "it has no xs, or no y that is computed");
    if (xs->string_count > node->in_count || xs->string_count > DHOWI_MAX_OUTPUTS_OF_NODE - 1)
        return dhowi_fail(DHOW_CORRUPT, "it has %u inputs for %u xs", node->in_count,
                          xs->string_count);
    for (uint32_t i = 0; i < xs->string_count; i++) {
        if (node->in[i] >= 0 && node->in[i] == look_up(s, xs->strings[i])) continue;
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "its input %u is another value than '%.*s', which it stands for", i,
                          NAMED(xs->strings[i]));
    }
    int32_t *in = dhowi_arena_array(&im->model->arena, xs->string_count + 1, sizeof *in);
    if (in == NULL) return dhowi_fail_memory("model");
    memcpy(in, node->in, xs->string_count * sizeof *in);
    in[xs->string_count] = value;
    node->in = in;
    node->in_count = xs->string_count + 1;
    return DHOW_OK;
}

static dhow_status import_node(importer *im, const scope *s, const dhowi_onnx_node *n,
                               dhowi_node *node) {
    *node = (dhowi_node){.source = n, .opset = (int32_t)im->opset};
    DHOWI_TRY(find_operator(im, n, &node->op));
    node->operation = node->op->name;
    node->name = dhowi_arena_text(&im->model->arena, n->name.data, n->name.length);
    if (node->name == NULL) return dhowi_fail_memory("model");
    char text[160];
    dhow_status status = import_values(im, s, n, node);
    if (status == DHOW_OK && is_gradient(n)) status = import_gradient(im, s, n, node);
    if (status != DHOW_OK)
        return dhowi_fail_prefix(status, "%s", dhowi_node_text(node, text, sizeof text));
    for (uint32_t i = 0; i < n->attribute_count; i++) {
        if (n->attributes[i].graph == NULL) continue;
        dhowi_graph *branch = dhowi_arena_array(&im->model->arena, 1, sizeof *branch);
        if (branch == NULL) return dhowi_fail_memory("model");
        DHOWI_TRY(import_graph(im, s, n->attributes[i].graph, branch));
        node->branch[dhowi_slice_is(n->attributes[i].name, "else_branch")] = branch;
    }
    return DHOW_OK;
}

static dhow_status import_nodes(importer *im, scope *s, dhowi_graph *graph) {
    uint32_t *order, wanted;
    DHOWI_TRY(sort_nodes(s, &order, &wanted));
    graph->nodes = dhowi_arena_array(&im->model->arena, s->graph->node_count, sizeof *graph->nodes);
    dhow_status status = graph->nodes != NULL ? DHOW_OK : dhowi_fail_memory("model");
    for (uint32_t i = 0; i < s->graph->node_count && status == DHOW_OK; i++) {
        const dhowi_onnx_node *n = &s->graph->nodes[order[i]];
        const dhowi_onnx_tensor *t = constant_of(n);
        if (t != NULL && dhowi_onnx_dtype(t->type) != 0) continue;
        /* A node that nobody wants is looked at like the others, and then forgotten. */
        status = import_node(im, s, n, &graph->nodes[graph->node_count]);
        graph->node_count += i < wanted;
    }
    dhowi_free(order);
    return status;
}

/* What a file says of a result, for those who list outputs; runs tell what it is. */
static void declare(dhowi_value *v, const dhowi_onnx_value *output) {
    if (v->kind != DHOWI_VALUE_RESULT || v->spec.dtype != 0 || output->rank > DHOW_MAX_RANK) return;
    v->spec = (dhowi_spec){.dtype = dhowi_onnx_dtype(output->type), .rank = output->rank};
    for (int32_t i = 0; i < output->rank; i++) v->spec.shape[i] = output->shape[i];
}

static dhow_status import_outputs(importer *im, const scope *s, dhowi_graph *graph) {
    graph->outputs =
        dhowi_arena_array(&im->model->arena, s->graph->output_count, sizeof *graph->outputs);
    if (graph->outputs == NULL) return dhowi_fail_memory("model");
    for (uint32_t i = 0; i < s->graph->output_count; i++) {
        dhowi_slice name = s->graph->outputs[i].name;
        int32_t value = look_up(s, name);
        if (value < 0)
            return dhowi_fail(DHOW_CORRUPT, "output '%.*s' is computed by no node", NAMED(name));
        graph->outputs[graph->output_count++] = value;
        if (s->outer != NULL) continue;
        declare(&im->model->values[value], &s->graph->outputs[i]);
        im->model->values[value].form = form_of(&s->graph->outputs[i]);
        im->model->values[value].optional = s->graph->outputs[i].optional;
        char *text = dhowi_arena_text(&im->model->arena, name.data, name.length);
        if (text == NULL) return dhowi_fail_memory("model");
        DHOWI_TRY(dhowi_model_add_output(im->model, text, value));
    }
    return DHOW_OK;
}

/* The inputs of a body are values that its node gives. */
static dhow_status import_body_inputs(importer *im, scope *s, dhowi_graph *graph) {
    static const dhowi_spec unknown = {.rank = -1};
    const dhowi_onnx_graph *g = s->graph;
    graph->inputs = dhowi_arena_array(&im->model->arena, g->input_count, sizeof *graph->inputs);
    if (graph->inputs == NULL) return dhowi_fail_memory("model");
    for (uint32_t i = 0; i < g->input_count; i++)
        DHOWI_TRY(new_name(im, s, g->inputs[i].name, DHOWI_VALUE_RESULT, &unknown, -1,
                           &graph->inputs[graph->input_count++]));
    return DHOW_OK;
}

static dhow_status import_graph(importer *im, const scope *outer, const dhowi_onnx_graph *source,
                                dhowi_graph *graph) {
    scope s;
    DHOWI_TRY(open_scope(&s, outer, source));
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
    for (uint32_t i = 0; i < im->file->opset_count; i++) {
        const dhowi_onnx_opset *o = &im->file->opsets[i];
        if (o->domain.length == 0 || dhowi_slice_is(o->domain, "ai.onnx")) im->opset = o->version;
    }
    if (im->opset >= 1 && im->opset <= LATEST_OPSET) return DHOW_OK;
    return dhowi_fail(DHOW_UNSUPPORTED,
                      "the model's opset is %" PRId64
                      ", dhow takes %d to %d; convert it with "
                      "onnx.version_converter",
                      im->opset, OLDEST_OPSET, LATEST_OPSET);
}

dhow_status dhowi_model_import(dhow_model *model, dhowi_onnx_file *file) {
    importer im = {.model = model, .file = file};
    model->file = file;
    model->name = file->name;
    model->arena.limit = file->bytes < SIZE_MAX / 64 ? file->bytes * 32 + (1u << 20) : 0;
    dhow_status status = opset_of(&im);
    if (status == DHOW_OK) status = import_graph(&im, NULL, file->graph, &model->graph);
    if (status != DHOW_OK) return dhowi_fail_prefix(status, "%s", file->name);
    return DHOW_OK;
}
