/* SPDX-License-Identifier: Apache-2.0
 *
 * Models as ONNX files (onnx.proto, opset 25).
 */
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "tensor/tensor.h"

enum { OPSET = 25, GRAPH_NAME = 2 };

static uint32_t onnx_type(dhow_dtype dtype) {
    switch (dtype) {
        case DHOW_F32:
            return 1;
        case DHOW_U8:
            return 2;
        case DHOW_I8:
            return 3;
        case DHOW_I32:
            return 6;
        case DHOW_I64:
            return 7;
        case DHOW_BOOL:
            return 9;
        case DHOW_F16:
            return 10;
        case DHOW_F64:
            return 11;
        default:
            return 16; /* bf16 */
    }
}

/* Floats of the model are written in another type; all others stay. */
static dhow_dtype written(const model *m, const value *v, dhow_dtype dtype) {
    return v->dtype == m->dtype && !v->stays ? dtype : v->dtype;
}

static void name_of(char *text, int v) {
    if (v < 0) (void)strcpy(text, "-");
    if (v >= 0) (void)snprintf(text, 16, "v%d", v);
}

static bytes tensor_of(const model *m, int i, dhow_dtype dtype) {
    const value *v = &m->values[i];
    const dhow_dtype type = written(m, v, dtype);
    bytes t = {0}, raw = {0};
    char name[16];
    for (int32_t k = 0; k < v->rank; k++) put_number(&t, 1, (uint64_t)v->shape[k]);
    put_number(&t, 2, onnx_type(type));
    name_of(name, i);
    put_text(&t, 8, name);
    for (int64_t k = 0; k < value_count(v); k++) {
        const uint64_t bits = dhowi_dtype_encode(type, v->data[k]);
        put_raw(&raw, &bits, dhow_dtype_bytes(type));
    }
    put_message(&t, 9, &raw);
    return t;
}

static bytes value_info(const model *m, int i, dhow_dtype dtype, bool shaped) {
    const value *v = &m->values[i];
    bytes info = {0}, type = {0}, tensor = {0}, extents = {0};
    char name[16];
    for (int32_t k = 0; k < v->rank; k++) {
        bytes dim = {0};
        if (v->open[k]) put_text(&dim, 2, "n");
        if (!v->open[k]) put_number(&dim, 1, (uint64_t)v->shape[k]);
        put_message(&extents, 1, &dim);
    }
    put_number(&tensor, 1, onnx_type(written(m, v, dtype)));
    if (shaped) put_message(&tensor, 2, &extents);
    if (!shaped) bytes_free(&extents);
    put_message(&type, 1, &tensor);
    name_of(name, i);
    put_text(&info, 1, name);
    put_message(&info, 2, &type);
    return info;
}

static bytes graph_of(const model *m, int scope, dhow_dtype dtype, bool fed);

static void put_attribute(const model *m, bytes *to, const attribute *a, dhow_dtype dtype,
                          bool fed) {
    bytes message = {0};
    switch (a->kind) {
        case ATTRIBUTE_INT:
            add_int(to, a->name, a->ints[0]);
            return;
        case ATTRIBUTE_INTS:
            add_ints(to, a->name, (uint32_t)a->count, a->ints);
            return;
        case ATTRIBUTE_TEXT:
            add_text(to, a->name, a->text);
            return;
        case ATTRIBUTE_GRAPH:
            message = graph_of(m, (int)a->ints[0], dtype, fed);
            add_graph(to, a->name, &message);
            return;
        default:
            add_float(to, a->name, (float)a->number);
            return;
    }
}

static bytes node_bytes(const model *m, const node *n, int number, dhow_dtype dtype, bool fed) {
    char in[MAX_IN * 17 + 1] = "", out[MAX_OUT * 17 + 1] = "", name[16];
    for (int k = 0; k < n->in_count; k++) {
        name_of(name, n->in[k]);
        (void)strcat(strcat(in, k > 0 ? " " : ""), name);
    }
    for (int k = 0; k < n->out_count; k++) {
        name_of(name, n->out[k]);
        (void)strcat(strcat(out, k > 0 ? " " : ""), name);
    }
    (void)snprintf(name, sizeof name, "n%d", number);
    bytes b = node_of(n->op, name, in, out);
    for (int k = 0; k < n->attribute_count; k++) {
        attribute a = n->attributes[k];
        /* Cast to the model's floats follows them. */
        if (strcmp(a.name, "to") == 0 && a.ints[0] == (int64_t)m->dtype) a.ints[0] = (int64_t)dtype;
        if (strcmp(a.name, "to") == 0)
            a.ints[0] = a.ints[0] > SMALL_TYPES ? a.ints[0] - SMALL_TYPES
                                                : (int64_t)onnx_type((dhow_dtype)a.ints[0]);
        put_attribute(m, &b, &a, dtype, fed);
    }
    return b;
}

static bytes graph_of(const model *m, int scope, dhow_dtype dtype, bool fed) {
    const graph *g = &m->graphs[scope];
    bytes b = {0}, part;
    for (int i = 0; i < g->node_count; i++) {
        part = node_bytes(m, &m->nodes[g->nodes[i]], g->nodes[i], dtype, fed);
        put_message(&b, GRAPH_NODE, &part);
    }
    put_text(&b, GRAPH_NAME, scope == 0 ? "random" : "branch");
    for (int i = 0; i < m->value_count; i++) {
        const value *v = &m->values[i];
        if (v->data == NULL || v->scope != scope) continue;
        const bool input =
            v->kind == VALUE_INPUT || (fed && scope == 0 && v->dtype == m->dtype && !v->stays);
        part = input ? value_info(m, i, dtype, true) : tensor_of(m, i, dtype);
        put_message(&b, input ? GRAPH_INPUT : GRAPH_INITIALIZER, &part);
    }
    for (int i = 0; i < g->input_count; i++) {
        part = value_info(m, g->inputs[i], dtype, true);
        put_message(&b, GRAPH_INPUT, &part);
    }
    for (int i = 0; i < g->output_count; i++) {
        part = value_info(m, g->outputs[i], dtype, false);
        put_message(&b, GRAPH_OUTPUT, &part);
    }
    return b;
}

bytes model_write(const model *m, dhow_dtype dtype, bool fed) {
    bytes top = graph_of(m, 0, dtype, fed);
    return model_of(OPSET, &top);
}
