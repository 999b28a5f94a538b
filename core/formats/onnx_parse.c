/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX messages. Each is walked twice: once to count its repeated fields, once to fill arrays of
 * exactly that size.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "formats/onnx_wire.h"

enum { MAX_DEPTH = 32, MAX_FIELD = 32 };

typedef struct reader {
    dhowi_wire wire;
    dhowi_arena *arena;
    int depth; /* of graphs */
} reader;

static reader inside(const reader *r, dhowi_slice bytes) {
    return (reader){dhowi_wire_inside(&r->wire, bytes), r->arena, r->depth};
}

static bool join(reader *r, const reader *part) { return dhowi_wire_join(&r->wire, &part->wire); }

static void *array(reader *r, size_t count, size_t element_bytes) {
    void *memory = dhowi_arena_array(r->arena, count, element_bytes);
    if (memory == NULL) {
        (void)dhowi_wire_fail(&r->wire, DHOW_OUT_OF_MEMORY,
                              "the structure takes more memory than a file of this size may");
    }
    return memory;
}

/* How often each field occurs; false when the message is bad. */
static bool count_fields(reader *r, uint32_t counts[MAX_FIELD]) {
    dhowi_wire walk = r->wire;
    dhowi_field field;
    memset(counts, 0, MAX_FIELD * sizeof *counts);
    while (dhowi_wire_next(&walk, &field)) {
        if (field.number < MAX_FIELD) counts[field.number]++;
    }
    return dhowi_wire_join(&r->wire, &walk);
}

/* ---- repeated scalars, packed or not ---- */

static uint32_t count_ints(reader *r, uint32_t number) {
    dhowi_wire walk = r->wire;
    dhowi_field field;
    uint64_t count = 0;
    while (dhowi_wire_next(&walk, &field)) {
        if (field.number != number) continue;
        if (field.type == DHOWI_WIRE_VARINT) count++;
        for (size_t i = 0; i < field.bytes.length; i++) count += (field.bytes.data[i] & 0x80) == 0;
    }
    return count <= UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

static const int64_t *read_ints(reader *r, uint32_t number, uint32_t *out_count) {
    uint32_t count = count_ints(r, number), n = 0;
    *out_count = 0;
    if (count == 0) return NULL;
    int64_t *values = array(r, count, sizeof *values);
    dhowi_wire walk = r->wire;
    dhowi_field field;
    while (values != NULL && dhowi_wire_next(&walk, &field)) {
        if (field.number != number) continue;
        if (field.type == DHOWI_WIRE_VARINT && n < count) values[n++] = (int64_t)field.value;
        if (field.type != DHOWI_WIRE_BYTES) continue;
        dhowi_wire packed = dhowi_wire_inside(&walk, field.bytes);
        uint64_t value;
        while (packed.at < packed.end && n < count && dhowi_wire_varint(&packed, &value))
            values[n++] = (int64_t)value;
        if (!dhowi_wire_join(&r->wire, &packed)) return NULL;
    }
    *out_count = n;
    return values;
}

static const float *read_floats(reader *r, uint32_t number, uint32_t *out_count) {
    dhowi_wire walk = r->wire;
    dhowi_field field;
    size_t bytes = 0, filled = 0;
    *out_count = 0;
    while (dhowi_wire_next(&walk, &field)) {
        if (field.number == number) bytes += field.bytes.length;
    }
    if (bytes == 0) return NULL;
    float *values = array(r, bytes / sizeof(float) + 1, sizeof *values);
    walk = r->wire;
    while (values != NULL && dhowi_wire_next(&walk, &field)) {
        if (field.number != number || field.bytes.length == 0) continue;
        memcpy((char *)values + filled, field.bytes.data, field.bytes.length);
        filled += field.bytes.length;
    }
    *out_count = (uint32_t)(filled / sizeof(float));
    return values;
}

static const dhowi_slice *read_strings(reader *r, uint32_t number, uint32_t count,
                                       uint32_t *out_count) {
    dhowi_slice *values = count > 0 ? array(r, count, sizeof *values) : NULL;
    dhowi_wire walk = r->wire;
    dhowi_field field;
    *out_count = 0;
    while (values != NULL && dhowi_wire_next(&walk, &field)) {
        if (field.number == number && field.type == DHOWI_WIRE_BYTES)
            values[(*out_count)++] = field.bytes;
    }
    return values;
}

/* ---- tensors ---- */

static bool parse_decimal(dhowi_slice text, uint64_t *out) {
    uint64_t value = 0;
    if (text.length == 0 || text.length > 18) return false;
    for (size_t i = 0; i < text.length; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        value = value * 10 + (uint64_t)(text.data[i] - '0');
    }
    *out = value;
    return true;
}

/* StringStringEntryProto: location, offset, length; others mean nothing to us. */
static bool read_external(reader *r, dhowi_slice bytes, dhowi_onnx_tensor *t) {
    reader entry = inside(r, bytes);
    dhowi_slice key = {NULL, 0}, value = {NULL, 0};
    dhowi_field field;
    bool good = true;
    while (dhowi_wire_next(&entry.wire, &field)) {
        if (field.number == 1) key = field.bytes;
        if (field.number == 2) value = field.bytes;
    }
    if (!join(r, &entry)) return false;
    if (dhowi_slice_is(key, "location")) t->location = value;
    if (dhowi_slice_is(key, "offset")) good = parse_decimal(value, &t->offset);
    if (dhowi_slice_is(key, "length")) good = parse_decimal(value, &t->length);
    return good || dhowi_wire_fail(&r->wire, DHOW_CORRUPT,
                                   "offset or length of external data is no decimal number");
}

static bool read_tensor(reader *r, dhowi_onnx_tensor *t) {
    uint32_t rank;
    dhowi_field field;
    memset(t, 0, sizeof *t);
    t->message = (dhowi_slice){r->wire.at, (size_t)(r->wire.end - r->wire.at)};
    t->shape = read_ints(r, 1, &rank);
    t->rank = (int32_t)DHOWI_MIN(rank, (uint32_t)INT32_MAX);
    while (dhowi_wire_next(&r->wire, &field)) {
        if (field.number == 2) t->type = (int32_t)DHOWI_MIN(field.value, (uint64_t)INT32_MAX);
        if (field.number == 8) t->name = field.bytes;
        if (field.number == 9) t->raw = field.bytes;
        if (field.number == 13 && !read_external(r, field.bytes, t)) return false;
        if (field.number == 14) t->external = field.value == 1;
    }
    return r->wire.status == DHOW_OK;
}

/* ---- values: TypeProto.Tensor with its shape ---- */

static bool read_dimension(reader *r, dhowi_slice bytes, int64_t *out) {
    reader part = inside(r, bytes);
    dhowi_field field;
    *out = -1;
    while (dhowi_wire_next(&part.wire, &field)) {
        if (field.number == 1 && (int64_t)field.value >= 0) *out = (int64_t)field.value;
    }
    return join(r, &part);
}

static bool read_shape(reader *r, dhowi_slice bytes, dhowi_onnx_value *v) {
    reader part = inside(r, bytes);
    uint32_t counts[MAX_FIELD];
    dhowi_field field;
    if (!count_fields(&part, counts)) return join(r, &part);
    if (counts[1] > 64)
        return dhowi_wire_fail(&r->wire, DHOW_UNSUPPORTED, "a shape has more than 64 dimensions");
    int64_t *shape = array(&part, counts[1], sizeof *shape);
    int32_t rank = 0;
    while (shape != NULL && dhowi_wire_next(&part.wire, &field)) {
        if (field.number == 1 && !read_dimension(&part, field.bytes, &shape[rank++])) break;
    }
    v->rank = rank;
    v->shape = shape;
    return join(r, &part);
}

static bool read_tensor_type(reader *r, dhowi_slice bytes, dhowi_onnx_value *v) {
    reader part = inside(r, bytes);
    dhowi_field field;
    while (dhowi_wire_next(&part.wire, &field)) {
        if (field.number == 1) v->type = (int32_t)DHOWI_MIN(field.value, (uint64_t)INT32_MAX);
        if (field.number == 2 && !read_shape(&part, field.bytes, v)) break;
    }
    return join(r, &part);
}

static bool read_type(reader *r, dhowi_slice bytes, dhowi_onnx_value *v);

/* The type inside of a sequence or an optional. */
static bool read_element_type(reader *r, dhowi_slice bytes, dhowi_onnx_value *v) {
    reader part = inside(r, bytes);
    dhowi_field field;
    while (dhowi_wire_next(&part.wire, &field)) {
        if (field.number == 1 && !read_type(&part, field.bytes, v)) break;
    }
    return join(r, &part);
}

/* TypeProto: a tensor, a sequence of them, or an optional of either; others are left as no type. */
static bool read_type(reader *r, dhowi_slice bytes, dhowi_onnx_value *v) {
    reader part = inside(r, bytes);
    dhowi_field field;
    while (dhowi_wire_next(&part.wire, &field)) {
        bool good = true;
        if (field.number == 1) good = read_tensor_type(&part, field.bytes, v);
        if (field.number == 4 && !v->sequence) {
            v->sequence = true;
            good = read_element_type(&part, field.bytes, v);
        }
        if (field.number == 9 && !v->sequence && !v->optional) {
            v->optional = true;
            good = read_element_type(&part, field.bytes, v);
        }
        if (!good) break;
    }
    return join(r, &part);
}

static bool read_value(reader *r, dhowi_onnx_value *v) {
    dhowi_field field;
    memset(v, 0, sizeof *v);
    v->rank = -1;
    while (dhowi_wire_next(&r->wire, &field)) {
        if (field.number == 1) v->name = field.bytes;
        if (field.number == 2 && !read_type(r, field.bytes, v)) return false;
    }
    return r->wire.status == DHOW_OK;
}

/* ---- nodes and graphs ---- */

static dhowi_onnx_graph *read_graph(reader *r);

static bool read_attribute(reader *r, dhowi_onnx_attribute *a) {
    uint32_t counts[MAX_FIELD];
    dhowi_field field;
    if (!count_fields(r, counts)) return false;
    memset(a, 0, sizeof *a);
    if (counts[7] > 0) a->floats = read_floats(r, 7, &a->float_count);
    if (counts[8] > 0) a->ints = read_ints(r, 8, &a->int_count);
    if (counts[9] > 0) a->strings = read_strings(r, 9, counts[9], &a->string_count);
    while (dhowi_wire_next(&r->wire, &field)) {
        if (field.number == 1) a->name = field.bytes;
        if (field.number == 2 && field.bytes.length == sizeof a->f)
            memcpy(&a->f, field.bytes.data, sizeof a->f);
        if (field.number == 3) a->i = (int64_t)field.value;
        if (field.number == 4) a->s = field.bytes;
        if (field.number == 21) a->of_call = field.bytes;
        if (field.number == 20) a->type = (int32_t)DHOWI_MIN(field.value, (uint64_t)INT32_MAX);
        if (field.number == 5) {
            reader part = inside(r, field.bytes);
            dhowi_onnx_tensor *t = array(r, 1, sizeof *t);
            if (t == NULL || !read_tensor(&part, t)) return t != NULL && join(r, &part);
            a->tensor = t;
        }
        if (field.number == 6) {
            reader part = inside(r, field.bytes);
            a->graph = read_graph(&part);
            if (!join(r, &part)) return false;
        }
    }
    return r->wire.status == DHOW_OK;
}

/* Fills an array with the messages of one field. */
#define READ_EACH(r, field_number, items, item_count, read_item)                              \
    do {                                                                                      \
        dhowi_wire walk_ = (r)->wire;                                                         \
        dhowi_field field_;                                                                   \
        while (items != NULL && dhowi_wire_next(&walk_, &field_)) {                           \
            if (field_.number != (field_number) || field_.type != DHOWI_WIRE_BYTES) continue; \
            reader part_ = inside((r), field_.bytes);                                         \
            if (!read_item(&part_, &(items)[(item_count)++])) {                               \
                (void)join((r), &part_);                                                      \
                break;                                                                        \
            }                                                                                 \
        }                                                                                     \
    } while (0)

static bool read_node(reader *r, dhowi_onnx_node *n) {
    uint32_t counts[MAX_FIELD];
    dhowi_field field;
    memset(n, 0, sizeof *n);
    n->at = (uint64_t)(r->wire.at - r->wire.begin);
    if (!count_fields(r, counts)) return false;
    n->inputs = read_strings(r, 1, counts[1], &n->input_count);
    n->outputs = read_strings(r, 2, counts[2], &n->output_count);
    if (counts[5] > 0) {
        dhowi_onnx_attribute *attributes = array(r, counts[5], sizeof *attributes);
        READ_EACH(r, 5, attributes, n->attribute_count, read_attribute);
        n->attributes = attributes;
    }
    while (dhowi_wire_next(&r->wire, &field)) {
        if (field.number == 3) n->name = field.bytes;
        if (field.number == 4) n->op = field.bytes;
        if (field.number == 7) n->domain = field.bytes;
        if (field.number == 8) n->overload = field.bytes;
    }
    return r->wire.status == DHOW_OK;
}

static dhowi_onnx_graph *read_graph(reader *r) {
    uint32_t counts[MAX_FIELD];
    if (++r->depth > MAX_DEPTH) {
        (void)dhowi_wire_fail(&r->wire, DHOW_UNSUPPORTED, "graphs are nested more than 32 deep");
        return NULL;
    }
    if (!count_fields(r, counts)) return NULL;
    if (counts[15] > 0) {
        (void)dhowi_wire_fail(&r->wire, DHOW_UNSUPPORTED,
                              "the graph has sparse initializers; save the model with dense ones");
        return NULL;
    }
    dhowi_onnx_graph *g = array(r, 1, sizeof *g);
    if (g == NULL) return NULL;
    dhowi_onnx_node *nodes = array(r, counts[1], sizeof *nodes);
    READ_EACH(r, 1, nodes, g->node_count, read_node);
    dhowi_onnx_tensor *initializers = array(r, counts[5], sizeof *initializers);
    READ_EACH(r, 5, initializers, g->initializer_count, read_tensor);
    dhowi_onnx_value *inputs = array(r, counts[11], sizeof *inputs);
    READ_EACH(r, 11, inputs, g->input_count, read_value);
    dhowi_onnx_value *outputs = array(r, counts[12], sizeof *outputs);
    READ_EACH(r, 12, outputs, g->output_count, read_value);
    g->nodes = nodes;
    g->initializers = initializers;
    g->inputs = inputs;
    g->outputs = outputs;
    return g;
}

/* ---- the file ---- */

static bool read_opset(reader *r, dhowi_onnx_opset *opset) {
    dhowi_field field;
    memset(opset, 0, sizeof *opset);
    while (dhowi_wire_next(&r->wire, &field)) {
        if (field.number == 1) opset->domain = field.bytes;
        if (field.number == 2) opset->version = (int64_t)field.value;
    }
    return r->wire.status == DHOW_OK;
}

static bool read_function(reader *r, dhowi_onnx_function *f) {
    uint32_t counts[MAX_FIELD], opset_count = 0;
    dhowi_field field;
    memset(f, 0, sizeof *f);
    if (!count_fields(r, counts)) return false;
    f->inputs = read_strings(r, 4, counts[4], &f->input_count);
    f->outputs = read_strings(r, 5, counts[5], &f->output_count);
    dhowi_onnx_node *nodes = array(r, counts[7], sizeof *nodes);
    READ_EACH(r, 7, nodes, f->node_count, read_node);
    dhowi_onnx_attribute *defaults = array(r, counts[11], sizeof *defaults);
    READ_EACH(r, 11, defaults, f->default_count, read_attribute);
    dhowi_onnx_opset *opsets = array(r, counts[9], sizeof *opsets);
    READ_EACH(r, 9, opsets, opset_count, read_opset);
    f->nodes = nodes;
    f->defaults = defaults;
    for (uint32_t i = 0; i < opset_count; i++) {
        if (opsets[i].domain.length == 0 || dhowi_slice_is(opsets[i].domain, "ai.onnx"))
            f->opset = opsets[i].version;
    }
    while (dhowi_wire_next(&r->wire, &field)) {
        if (field.number == 1) f->name = field.bytes;
        if (field.number == 10) f->domain = field.bytes;
        if (field.number == 13) f->overload = field.bytes;
    }
    return r->wire.status == DHOW_OK;
}

static dhow_status read_model(reader *r, dhowi_onnx_file *file) {
    uint32_t counts[MAX_FIELD];
    dhowi_field field;
    dhowi_slice graph = {NULL, 0};
    if (!count_fields(r, counts)) {
        return dhowi_fail_prefix(r->wire.status, "%s is no ONNX file, or a damaged one",
                                 file->name);
    }
    dhowi_onnx_opset *opsets = array(r, counts[8], sizeof *opsets);
    READ_EACH(r, 8, opsets, file->opset_count, read_opset);
    file->opsets = opsets;
    dhowi_onnx_function *functions = array(r, counts[25], sizeof *functions);
    READ_EACH(r, 25, functions, file->function_count, read_function);
    file->functions = functions;
    while (dhowi_wire_next(&r->wire, &field)) {
        if (field.number == 1) file->ir_version = (int64_t)field.value;
        if (field.number == 7 && field.type == DHOWI_WIRE_BYTES) graph = field.bytes;
    }
    if (r->wire.status != DHOW_OK) return r->wire.status;
    if (graph.data == NULL || file->opset_count == 0) {
        return dhowi_fail(DHOW_CORRUPT, "%s is no ONNX model: it has no %s", file->name,
                          graph.data == NULL ? "graph" : "opset");
    }
    reader part = inside(r, graph);
    file->graph = read_graph(&part);
    return part.wire.status;
}

static reader reader_of(const char *name, const void *data, size_t bytes, dhowi_arena *arena) {
    return (reader){.wire = {.at = data,
                             .end = (const char *)data + bytes,
                             .begin = data,
                             .name = name,
                             .status = DHOW_OK},
                    .arena = arena};
}

dhow_status dhowi_onnx_parse(const char *name, const void *data, size_t bytes,
                             dhowi_onnx_file **out) {
    *out = NULL;
    dhowi_onnx_file *file = dhowi_alloc(sizeof *file);
    if (file == NULL) return dhowi_fail_memory("model file");
    file->fd = -1;
    file->name = dhowi_strdup(name);
    file->data = data;
    file->bytes = bytes;
    size_t room;
    file->arena.limit = dhowi_mul(bytes, 32, &room) && room < SIZE_MAX / 2 ? room + (1u << 20) : 0;
    dhow_status status = DHOW_OK;
    if (file->name == NULL) status = dhowi_fail_memory("model file");
    if (status == DHOW_OK) {
        reader r = reader_of(file->name, data, bytes, &file->arena);
        status = read_model(&r, file);
    }
    if (status != DHOW_OK) {
        dhowi_onnx_close(file);
        return status;
    }
    *out = file;
    return DHOW_OK;
}

dhow_status dhowi_onnx_parse_tensor(const char *name, const void *data, size_t bytes,
                                    dhowi_arena *arena, dhowi_onnx_tensor *out) {
    reader r = reader_of(name, data, bytes, arena);
    (void)read_tensor(&r, out);
    return r.wire.status;
}

void dhowi_onnx_close(dhowi_onnx_file *file) {
    if (file == NULL) return;
    if (file->fd >= 0) {
        (void)munmap((void *)(uintptr_t)file->data, file->bytes);
        (void)close(file->fd);
    }
    dhowi_arena_end(&file->arena);
    dhowi_free(file->name);
    dhowi_free(file->folder);
    dhowi_free(file);
}
