/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of a file: what they are made of takes the place of each call, before names become
 * values. Names inside of a call have its number in front.
 */
#include "model/onnx/functions.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/array.h"
#include "model/onnx/scope.h"

/* Functions that call each other can be a file of a few bytes and nodes without end. */
enum { MOST_DEEP = 64, MOST_NODES = 1 << 17, ROOM = MOST_NODES * 512 };

typedef struct inliner {
    dhowi_onnx_file *file;
    uint32_t calls, node_count, depth;
} inliner;

typedef struct nodes {
    dhowi_onnx_node *items;
    uint32_t count, capacity;
} nodes;

/* A call; NULL: the graph itself. */
typedef struct call {
    const dhowi_onnx_function *of;
    const dhowi_onnx_node *node;
    uint32_t number;
} call;

static dhow_status expand(inliner *in, const call *c, const dhowi_onnx_node *from, uint32_t count,
                          nodes *to);

static void *room_for(inliner *in, size_t count, size_t bytes) {
    return dhowi_arena_array(&in->file->arena, count > 0 ? count : 1, bytes);
}

static const dhowi_onnx_function *function_of(const inliner *in, const dhowi_onnx_node *n) {
    for (uint32_t i = 0; i < in->file->function_count; i++) {
        const dhowi_onnx_function *f = &in->file->functions[i];
        if (dhowi_slice_equal(f->name, n->op) && dhowi_slice_equal(f->domain, n->domain) &&
            dhowi_slice_equal(f->overload, n->overload))
            return f;
    }
    return NULL;
}

/* ---- names ---- */

static dhow_status numbered(inliner *in, const call *c, dhowi_slice name, dhowi_slice *out) {
    char number[16];
    const int length = snprintf(number, sizeof number, "%" PRIu32 "/", c->number);
    char *text = room_for(in, (size_t)length + name.length + 1, 1);
    if (text == NULL) return dhowi_fail_memory("model");
    memcpy(text, number, (size_t)length);
    memcpy(text + length, name.data, name.length);
    *out = (dhowi_slice){text, (size_t)length + name.length};
    return DHOW_OK;
}

/* What a name of a function is where it is called: an input that is missing is no name. */
static dhow_status rename_one(inliner *in, const call *c, dhowi_slice name, dhowi_slice *out) {
    static const dhowi_slice none = {"", 0};
    *out = name;
    if (c == NULL || name.length == 0) return DHOW_OK;
    for (uint32_t i = 0; i < c->of->input_count; i++) {
        if (!dhowi_slice_equal(c->of->inputs[i], name)) continue;
        *out = i < c->node->input_count ? c->node->inputs[i] : none;
        return DHOW_OK;
    }
    for (uint32_t i = 0; i < c->of->output_count; i++) {
        if (!dhowi_slice_equal(c->of->outputs[i], name)) continue;
        if (i >= c->node->output_count || c->node->outputs[i].length == 0) break;
        *out = c->node->outputs[i];
        return DHOW_OK;
    }
    return numbered(in, c, name, out);
}

static dhow_status rename_all(inliner *in, const call *c, const dhowi_slice *from, uint32_t count,
                              const dhowi_slice **out) {
    *out = from;
    if (c == NULL || count == 0) return DHOW_OK;
    dhowi_slice *names = room_for(in, count, sizeof *names);
    if (names == NULL) return dhowi_fail_memory("model");
    for (uint32_t i = 0; i < count; i++) DHOWI_TRY(rename_one(in, c, from[i], &names[i]));
    *out = names;
    return DHOW_OK;
}

/* ---- graphs in attributes ---- */

static dhow_status rename_values(inliner *in, const call *c, const dhowi_onnx_value *from,
                                 uint32_t count, const dhowi_onnx_value **out) {
    *out = from;
    if (c == NULL || count == 0) return DHOW_OK;
    dhowi_onnx_value *values = room_for(in, count, sizeof *values);
    if (values == NULL) return dhowi_fail_memory("model");
    for (uint32_t i = 0; i < count; i++) {
        values[i] = from[i];
        DHOWI_TRY(rename_one(in, c, from[i].name, &values[i].name));
    }
    *out = values;
    return DHOW_OK;
}

static dhow_status rename_tensors(inliner *in, const call *c, const dhowi_onnx_tensor *from,
                                  uint32_t count, const dhowi_onnx_tensor **out) {
    *out = from;
    if (c == NULL || count == 0) return DHOW_OK;
    dhowi_onnx_tensor *tensors = room_for(in, count, sizeof *tensors);
    if (tensors == NULL) return dhowi_fail_memory("model");
    for (uint32_t i = 0; i < count; i++) {
        tensors[i] = from[i];
        DHOWI_TRY(rename_one(in, c, from[i].name, &tensors[i].name));
    }
    *out = tensors;
    return DHOW_OK;
}

static dhow_status expand_graph(inliner *in, const call *c, const dhowi_onnx_graph *from,
                                const dhowi_onnx_graph **out) {
    nodes list = {0};
    dhowi_onnx_graph *g = room_for(in, 1, sizeof *g);
    if (g == NULL) return dhowi_fail_memory("model");
    *g = *from;
    dhow_status status = expand(in, c, from->nodes, from->node_count, &list);
    dhowi_onnx_node *own = room_for(in, list.count, sizeof *own);
    if (status == DHOW_OK && own == NULL) status = dhowi_fail_memory("model");
    if (status == DHOW_OK && list.count > 0) memcpy(own, list.items, list.count * sizeof *own);
    dhowi_free(list.items);
    if (status != DHOW_OK) return status;
    g->nodes = own;
    g->node_count = list.count;
    DHOWI_TRY(rename_tensors(in, c, from->initializers, from->initializer_count, &g->initializers));
    DHOWI_TRY(rename_values(in, c, from->inputs, from->input_count, &g->inputs));
    DHOWI_TRY(rename_values(in, c, from->outputs, from->output_count, &g->outputs));
    *out = g;
    return DHOW_OK;
}

/* ---- attributes ---- */

static const dhowi_onnx_attribute *named(const dhowi_onnx_attribute *all, uint32_t count,
                                         dhowi_slice name) {
    for (uint32_t i = 0; i < count; i++)
        if (dhowi_slice_equal(all[i].name, name)) return &all[i];
    return NULL;
}

/* Those that are a call's own take its values, or the function's, or go. */
static dhow_status bind_attributes(inliner *in, const call *c, dhowi_onnx_node *n) {
    if (n->attribute_count == 0) return DHOW_OK;
    dhowi_onnx_attribute *all = room_for(in, n->attribute_count, sizeof *all);
    uint32_t count = 0;
    if (all == NULL) return dhowi_fail_memory("model");
    for (uint32_t i = 0; i < n->attribute_count; i++) {
        const dhowi_onnx_attribute *a = &n->attributes[i];
        if (c != NULL && a->of_call.length > 0) {
            const dhowi_onnx_attribute *given =
                named(c->node->attributes, c->node->attribute_count, a->of_call);
            if (given == NULL) given = named(c->of->defaults, c->of->default_count, a->of_call);
            if (given == NULL) continue;
            all[count] = *given;
            all[count++].name = a->name;
            continue;
        }
        all[count] = *a;
        if (a->graph != NULL) DHOWI_TRY(expand_graph(in, c, a->graph, &all[count].graph));
        count++;
    }
    n->attributes = all;
    n->attribute_count = count;
    return DHOW_OK;
}

/* ---- nodes ---- */

static dhow_status add(nodes *to, const dhowi_onnx_node *n) {
    if (!dhowi_room((void **)&to->items, to->count, &to->capacity, sizeof *to->items))
        return dhowi_fail_memory("model");
    to->items[to->count++] = *n;
    return DHOW_OK;
}

static dhow_status call_function(inliner *in, const dhowi_onnx_function *f,
                                 const dhowi_onnx_node *n, nodes *to) {
    const call own = {f, n, ++in->calls};
    if (n->input_count > f->input_count || n->output_count > f->output_count)
        return dhowi_fail(DHOW_CORRUPT,
                          "%.*s (node '%.*s'): the file's function has %u inputs and %u outputs, "
                          "the node %u and %u",
                          DHOWI_NAMED(n->op), DHOWI_NAMED(n->name), f->input_count, f->output_count,
                          n->input_count, n->output_count);
    if (++in->depth > MOST_DEEP)
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "%.*s (node '%.*s'): functions call each other more than %d deep",
                          DHOWI_NAMED(n->op), DHOWI_NAMED(n->name), MOST_DEEP);
    DHOWI_TRY(expand(in, &own, f->nodes, f->node_count, to));
    in->depth--;
    return DHOW_OK;
}

static dhow_status expand(inliner *in, const call *c, const dhowi_onnx_node *from, uint32_t count,
                          nodes *to) {
    for (uint32_t i = 0; i < count; i++) {
        dhowi_onnx_node n = from[i];
        if (c != NULL && ++in->node_count > MOST_NODES)
            return dhowi_fail(DHOW_UNSUPPORTED, "its functions come to more than %d nodes",
                              MOST_NODES);
        DHOWI_TRY(rename_all(in, c, n.inputs, n.input_count, &n.inputs));
        DHOWI_TRY(rename_all(in, c, n.outputs, n.output_count, &n.outputs));
        DHOWI_TRY(bind_attributes(in, c, &n));
        if (c != NULL) n.opset = c->of->opset;
        const dhowi_onnx_function *f = function_of(in, &n);
        if (f == NULL)
            DHOWI_TRY(add(to, &n));
        else
            DHOWI_TRY(call_function(in, f, &n, to));
    }
    return DHOW_OK;
}

dhow_status dhowi_inline_functions(dhowi_onnx_file *file, dhowi_arena *model) {
    inliner in = {.file = file};
    if (file->function_count == 0) return DHOW_OK;
    if (file->arena.limit != 0) file->arena.limit += ROOM;
    if (model->limit != 0) model->limit += ROOM;
    return expand_graph(&in, NULL, file->graph, &file->graph);
}
