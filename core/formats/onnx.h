/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX files as plain structures. Strings and tensor data point into the file's bytes, of which the
 * large weights stay in the file until tensor_read() (see onnx_load.c); nothing here
 * knows what an operator means. A file is data from a stranger: depth, sizes and memory are
 * bounded, and a bad one is a status that names the byte.
 */
#ifndef DHOWI_FORMATS_ONNX_H_
#define DHOWI_FORMATS_ONNX_H_

#include <stdbool.h>
#include <string.h>

#include "base/errors/error.h"
#include "base/memory/arena.h"
#include "dhow/types.h"

/* Bytes of the file; not terminated. */
typedef struct dhowi_slice {
    const char *data;
    size_t length;
} dhowi_slice;

static inline bool dhowi_slice_is(dhowi_slice slice, const char *text) {
    size_t length = strlen(text);
    return slice.length == length && (length == 0 || memcmp(slice.data, text, length) == 0);
}
bool dhowi_slice_equal(dhowi_slice a, dhowi_slice b);

typedef struct dhowi_onnx_graph dhowi_onnx_graph;

typedef struct dhowi_onnx_tensor {
    dhowi_slice name;
    int32_t type; /* ONNX's number; dhowi_onnx_dtype() */
    int32_t rank; /* may exceed DHOW_MAX_RANK */
    const int64_t *shape;
    dhowi_slice raw;     /* raw_data */
    dhowi_slice message; /* the whole message: typed data is decoded from it when it is read */
    bool external;       /* the data lies in another file */
    dhowi_slice location;
    uint64_t offset, length; /* of external data; length 0: to the file's end */
} dhowi_onnx_tensor;

typedef struct dhowi_onnx_attribute {
    dhowi_slice name;
    dhowi_slice of_call; /* in a function: the attribute of a call that it is; else empty */
    int32_t type;        /* ONNX's number, 0 when the file gives none */
    float f;
    int64_t i;
    dhowi_slice s;
    const dhowi_onnx_tensor *tensor;
    const dhowi_onnx_graph *graph;
    const float *floats;
    const int64_t *ints;
    const dhowi_slice *strings;
    uint32_t float_count, int_count, string_count;
} dhowi_onnx_attribute;

typedef struct dhowi_onnx_node {
    dhowi_slice name, op, domain;
    const dhowi_slice *inputs, *outputs;
    const dhowi_onnx_attribute *attributes;
    uint32_t input_count, output_count, attribute_count;
    uint64_t at;          /* byte of the file, for messages */
    dhowi_slice overload; /* of the function that is called */
    int64_t opset;        /* of a function's node; 0: the file's */
} dhowi_onnx_node;

typedef struct dhowi_onnx_value {
    dhowi_slice name;
    bool sequence, optional;
    int32_t type;         /* 0: none, or something else; of a sequence that of its tensors */
    int32_t rank;         /* -1: not known */
    const int64_t *shape; /* -1: open */
} dhowi_onnx_value;

struct dhowi_onnx_graph {
    const dhowi_onnx_node *nodes;
    const dhowi_onnx_tensor *initializers;
    const dhowi_onnx_value *inputs, *outputs;
    uint32_t node_count, initializer_count, input_count, output_count;
};

typedef struct dhowi_onnx_opset {
    dhowi_slice domain;
    int64_t version;
} dhowi_onnx_opset;

/* A function of the file: nodes that stand for one of that domain and name. */
typedef struct dhowi_onnx_function {
    dhowi_slice domain, name, overload;
    const dhowi_slice *inputs, *outputs;
    const dhowi_onnx_attribute *defaults; /* attributes that a call need not give */
    const dhowi_onnx_node *nodes;
    uint32_t input_count, output_count, default_count, node_count;
    int64_t opset; /* of ONNX's own operators; 0: it has none */
} dhowi_onnx_function;

typedef struct dhowi_onnx_file {
    char *name;   /* for messages */
    char *folder; /* where external data may lie; NULL: nowhere */
    const char *data;
    size_t bytes;
    int fd; /* of the file: large weights are read from it; -1: all of it lies in memory */
    int64_t written[2]; /* when it was last, seconds and nanoseconds: it must not be since */
    dhowi_arena arena;
    const dhowi_onnx_graph *graph;
    const dhowi_onnx_opset *opsets;
    const dhowi_onnx_function *functions;
    uint32_t opset_count, function_count;
    int64_t ir_version;
} dhowi_onnx_file;

/* Opens and parses a file: NOT_FOUND, IO_ERROR, CORRUPT, UNSUPPORTED, OUT_OF_MEMORY. */
dhow_status dhowi_onnx_open(const char *path, dhowi_onnx_file **out);
/* When a file was last written to. */
void dhowi_onnx_written(int fd, int64_t out[2]);
/* The same for bytes in memory, which stay the caller's and must outlive the result. */
dhow_status dhowi_onnx_parse(const char *name, const void *data, size_t bytes,
                             dhowi_onnx_file **out);
void dhowi_onnx_close(dhowi_onnx_file *file);

/* Raw data of this size and more are left in the file by load(). */
enum { DHOWI_ONNX_LEFT_BYTES = 1 << 18 };
/* Brings a file into memory, all but its large weights; end it with munmap(): IO_ERROR, CORRUPT,
 * OUT_OF_MEMORY. */
dhow_status dhowi_onnx_load(int fd, const char *path, uint64_t bytes, void **out);

/* A single TensorProto, for tests' data. */
dhow_status dhowi_onnx_parse_tensor(const char *name, const void *data, size_t bytes,
                                    dhowi_arena *arena, dhowi_onnx_tensor *out);

enum { DHOWI_ONNX_STRING = 8 };
/* The dtype of an ONNX number; 0 for an unsupported one. */
dhow_dtype dhowi_onnx_dtype(int32_t type);
/* The same with small types, of which dhow has no dtype: float8 and float4 are held as u8 that are
 * codes, integers of fewer than 8 bits as i8 or u8, one element in each byte. */
dhow_dtype dhowi_onnx_held(int32_t type);
/* The number itself where it is that of a small type, else 0. */
int32_t dhowi_onnx_encoding(int32_t type);
/* "float8e4m3fn": what a file's element type is called. */
const char *dhowi_onnx_type_name(int32_t type);
/* dtype, as held(), shape and size of a tensor, checked: CORRUPT, UNSUPPORTED. */
dhow_status dhowi_onnx_tensor_check(const dhowi_onnx_tensor *t, dhow_dtype *out_dtype,
                                    int64_t *out_count, uint64_t *out_bytes);
/* Whether another file that holds a tensor's elements is there and large enough, which is asked
 * before memory is taken for them, and when it was last written to: it must not be since. */
dhow_status dhowi_onnx_tensor_find(const dhowi_onnx_file *file, const dhowi_onnx_tensor *t,
                                   int64_t written[2]);
/* Copies the elements to `to`, which holds as many bytes as check() returned. `file` may be NULL
 * for tensors that have no external data. `since` is what find() told of another file; NULL: it is
 * read once. */
dhow_status dhowi_onnx_tensor_read(const dhowi_onnx_file *file, const dhowi_onnx_tensor *t,
                                   const int64_t since[2], void *to);

/* The elements of one of texts, which are a part of the file: `count` of them. */
dhow_status dhowi_onnx_tensor_texts(const dhowi_onnx_tensor *t, int64_t count, dhowi_slice *out);

/* Opens a file beneath `folder` for reading: no `..`, no absolute path, no link of any kind. */
dhow_status dhowi_onnx_open_external(const char *folder, dhowi_slice location, int *out_fd,
                                     uint64_t *out_bytes);

#endif /* DHOWI_FORMATS_ONNX_H_ */
