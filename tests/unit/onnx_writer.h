/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes small ONNX files, right ones and wrong ones, field by field.
 */
#ifndef TESTS_UNIT_ONNX_WRITER_H_
#define TESTS_UNIT_ONNX_WRITER_H_

#include <stddef.h>
#include <stdint.h>

typedef struct bytes {
    uint8_t *data;
    size_t length, capacity;
} bytes;

void bytes_free(bytes *b);
void put_raw(bytes *b, const void *data, size_t length);
void put_varint(bytes *b, uint64_t value);
/* A field with a number, a text or a message; the message is freed. */
void put_number(bytes *b, uint32_t field, uint64_t value);
void put_text(bytes *b, uint32_t field, const char *text);
void put_message(bytes *b, uint32_t field, bytes *message);

/* NodeProto with space-separated names; attributes, or a domain, may be appended to it before it is
 * put. */
bytes node_of(const char *op, const char *name, const char *inputs, const char *outputs);
void add_ints(bytes *node, const char *name, uint32_t count, const int64_t *values);
void add_int(bytes *node, const char *name, int64_t value);
void add_float(bytes *node, const char *name, float value);
void add_floats(bytes *node, const char *name, uint32_t count, const float *values);
void add_texts(bytes *node, const char *name, uint32_t count, const char *const *values);
void add_text(bytes *node, const char *name, const char *text);
void add_graph(bytes *node, const char *name, bytes *graph);
/* A float tensor of rank 1 or 2 (columns > 0) with values 0.1, 0.2, ... */
bytes floats_of(const char *name, int64_t rows, int64_t columns);
/* A float value of a graph: rank extents, -1 for an open one. */
bytes value_of(const char *name, uint32_t rank, const int64_t *shape);
/* Of another element type of ONNX. */
bytes typed_value_of(const char *name, int64_t dtype, uint32_t rank, const int64_t *shape);
/* The whole file; the graph is freed. */
bytes model_of(int64_t opset, bytes *graph);

enum { NODE_DOMAIN = 7 };
enum { GRAPH_NODE = 1, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };

#endif /* TESTS_UNIT_ONNX_WRITER_H_ */
