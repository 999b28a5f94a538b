/* SPDX-License-Identifier: Apache-2.0
 *
 * Random models: a graph of ONNX nodes made from a seed alone, written as a file and run in many
 * ways that must all give the same numbers.
 */
#ifndef TESTS_GRAPHS_GRAPH_H_
#define TESTS_GRAPHS_GRAPH_H_

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "../unit/onnx_writer.h"
#include "dhow/dhow.h"

enum {
    MAX_VALUES = 400,
    MAX_NODES = 200, /* of all graphs of a model */
    MAX_GRAPHS = 12, /* number 0 is the model's; the others are branches and bodies */
    MAX_IN = 9,
    MAX_OUT = 4,
    MAX_ATTRIBUTES = 10,
    MAX_LIST = 16,
    MAX_OUTPUTS = 64,
    MAX_ELEMENTS = 1 << 14, /* of a value */
    SMALL_TYPES = 100       /* and ONNX's number: of a Cast to a type that is no dtype */
};

typedef enum value_kind { VALUE_INPUT, VALUE_CONSTANT, VALUE_RESULT, VALUE_LOCAL } value_kind;

typedef struct value {
    value_kind kind; /* VALUE_LOCAL: an input of a loop's body */
    dhow_dtype dtype;
    int32_t rank;
    int64_t shape[DHOW_MAX_RANK];
    int scope; /* the graph that it belongs to */
    int bits;  /* of floats that are known without rounding: comparing them is safe; 0: rounded */
    bool open[DHOW_MAX_RANK]; /* of an input: declared without this extent */
    bool stays;               /* its type is not the model's floats, though it may be the same */
    double *data;             /* of inputs and constants, shape's elements */
} value;

typedef enum attribute_kind {
    ATTRIBUTE_INT,
    ATTRIBUTE_INTS,
    ATTRIBUTE_FLOAT,
    ATTRIBUTE_TEXT,
    ATTRIBUTE_GRAPH
} attribute_kind;

typedef struct attribute {
    const char *name;
    attribute_kind kind;
    int64_t ints[MAX_LIST];
    int count;
    double number;
    const char *text;
} attribute;

typedef struct node {
    const char *op;
    int in[MAX_IN], out[MAX_OUT], in_count, out_count; /* values, -1 for none */
    attribute attributes[MAX_ATTRIBUTES];
    int attribute_count;
    bool gone;
} node;

typedef struct graph {
    int parent; /* -1: the model's own */
    int nodes[MAX_NODES], node_count;
    int inputs[MAX_IN], input_count; /* of a body */
    int outputs[MAX_OUTPUTS], output_count;
} graph;

typedef struct model {
    uint64_t seed;
    dhow_dtype dtype; /* of its floats */
    dhow_dtype half;  /* that it computes in, of f32: dhow_model_set_precision(); 0 for none */
    value values[MAX_VALUES];
    node nodes[MAX_NODES];
    graph graphs[MAX_GRAPHS];
    int value_count, node_count, graph_count;
} model;

/* ---- numbers from a seed ---- */

typedef struct dice {
    uint64_t state;
} dice;

uint64_t dice_next(dice *d);
/* 0 .. n-1 */
int dice_below(dice *d, int n);
/* One in n. */
bool dice_one_in(dice *d, int n);

/* ---- models, see model.c ---- */

model *model_new(uint64_t seed, dhow_dtype dtype);
model *model_copy(const model *m);
void model_free(model *m);
int64_t value_count(const value *v);
bool is_float(dhow_dtype dtype);
/* A new value, or -1 when there is no room. */
int add_value(model *m, value_kind kind, dhow_dtype dtype, int32_t rank, const int64_t *shape,
              int scope);
/* A node at the end of a graph; NULL when there is no room. */
node *add_node(model *m, int scope, const char *op);
/* Takes away the nodes and constants that no output needs. */
void model_prune(model *m);
void model_print(const model *m, FILE *to);
/* The ONNX file, with the floats in `dtype`; with `fed`, constants of floats are inputs. */
bytes model_write(const model *m, dhow_dtype dtype, bool fed);

/* ---- random ones, see generate.c ---- */

/* `half` is what it computes in, of f32; 0 for none. */
model *model_generate(uint64_t seed, int nodes, dhow_dtype half);

#endif /* TESTS_GRAPHS_GRAPH_H_ */
