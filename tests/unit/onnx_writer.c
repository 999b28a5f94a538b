/* SPDX-License-Identifier: Apache-2.0
 *
 * See onnx_writer.h.
 */
#include "onnx_writer.h"

#include <stdlib.h>
#include <string.h>

void bytes_free(bytes *b) {
    free(b->data);
    *b = (bytes){0};
}

void put_raw(bytes *b, const void *data, size_t length) {
    if (b->length + length > b->capacity) {
        b->capacity = (b->length + length) * 2 + 64;
        b->data = realloc(b->data, b->capacity);
        if (b->data == NULL) abort();
    }
    if (length > 0) memcpy(b->data + b->length, data, length);
    b->length += length;
}

void put_varint(bytes *b, uint64_t value) {
    do {
        uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        put_raw(b, &byte, 1);
        value >>= 7;
    } while (value != 0);
}

void put_number(bytes *b, uint32_t field, uint64_t value) {
    put_varint(b, (uint64_t)field << 3);
    put_varint(b, value);
}

static void put_bytes(bytes *b, uint32_t field, const void *data, size_t length) {
    put_varint(b, (uint64_t)field << 3 | 2);
    put_varint(b, length);
    put_raw(b, data, length);
}

void put_text(bytes *b, uint32_t field, const char *text) {
    put_bytes(b, field, text, strlen(text));
}

void put_message(bytes *b, uint32_t field, bytes *message) {
    put_bytes(b, field, message->data, message->length);
    bytes_free(message);
}

static void put_words(bytes *b, uint32_t field, const char *words) {
    while (*words != '\0') {
        size_t length = strcspn(words, " ");
        put_bytes(b, field, words, words[0] == '-' ? 0 : length);
        words += length + (words[length] == ' ');
    }
}

bytes node_of(const char *op, const char *name, const char *inputs, const char *outputs) {
    bytes n = {0};
    put_words(&n, 1, inputs);
    put_words(&n, 2, outputs);
    put_text(&n, 3, name);
    put_text(&n, 4, op);
    return n;
}

void add_ints(bytes *node, const char *name, uint32_t count, const int64_t *values) {
    bytes a = {0};
    put_text(&a, 1, name);
    for (uint32_t i = 0; i < count; i++) put_number(&a, 8, (uint64_t)values[i]);
    put_number(&a, 20, 7);
    put_message(node, 5, &a);
}

void add_int(bytes *node, const char *name, int64_t value) {
    bytes a = {0};
    put_text(&a, 1, name);
    put_number(&a, 3, (uint64_t)value);
    put_number(&a, 20, 2);
    put_message(node, 5, &a);
}

void add_floats(bytes *node, const char *name, uint32_t count, const float *values) {
    bytes a = {0};
    put_text(&a, 1, name);
    put_bytes(&a, 7, values, count * sizeof *values);
    put_number(&a, 20, 6);
    put_message(node, 5, &a);
}

void add_texts(bytes *node, const char *name, uint32_t count, const char *const *values) {
    bytes a = {0};
    put_text(&a, 1, name);
    for (uint32_t i = 0; i < count; i++) put_text(&a, 9, values[i]);
    put_number(&a, 20, 8);
    put_message(node, 5, &a);
}

void add_float(bytes *node, const char *name, float value) {
    bytes a = {0};
    put_text(&a, 1, name);
    put_varint(&a, 2 << 3 | 5);
    put_raw(&a, &value, sizeof value);
    put_number(&a, 20, 1);
    put_message(node, 5, &a);
}

void add_text(bytes *node, const char *name, const char *text) {
    bytes a = {0};
    put_text(&a, 1, name);
    put_text(&a, 4, text);
    put_number(&a, 20, 3);
    put_message(node, 5, &a);
}

void add_graph(bytes *node, const char *name, bytes *graph) {
    bytes a = {0};
    put_text(&a, 1, name);
    put_message(&a, 6, graph);
    put_number(&a, 20, 5);
    put_message(node, 5, &a);
}

bytes floats_of(const char *name, int64_t rows, int64_t columns) {
    bytes t = {0}, raw = {0};
    int64_t count = rows * (columns > 0 ? columns : 1);
    put_number(&t, 1, (uint64_t)rows);
    if (columns > 0) put_number(&t, 1, (uint64_t)columns);
    put_number(&t, 2, 1);
    put_text(&t, 8, name);
    for (int64_t i = 0; i < count; i++) {
        float value = 0.1f * (float)(i + 1);
        put_raw(&raw, &value, sizeof value);
    }
    put_message(&t, 9, &raw);
    return t;
}

bytes value_of(const char *name, uint32_t rank, const int64_t *shape) {
    return typed_value_of(name, 1, rank, shape);
}

bytes typed_value_of(const char *name, int64_t dtype, uint32_t rank, const int64_t *shape) {
    bytes v = {0}, type = {0}, tensor = {0}, extents = {0};
    for (uint32_t i = 0; i < rank; i++) {
        bytes dim = {0};
        if (shape[i] >= 0) put_number(&dim, 1, (uint64_t)shape[i]);
        if (shape[i] < 0) put_text(&dim, 2, "n");
        put_message(&extents, 1, &dim);
    }
    put_number(&tensor, 1, (uint64_t)dtype);
    put_message(&tensor, 2, &extents);
    put_message(&type, 1, &tensor);
    put_text(&v, 1, name);
    put_message(&v, 2, &type);
    return v;
}

bytes model_of(int64_t opset, bytes *graph) {
    bytes m = {0}, o = {0};
    put_number(&m, 1, 8);
    put_number(&o, 2, (uint64_t)opset);
    put_message(&m, 8, &o);
    put_message(&m, 7, graph);
    return m;
}
