/* SPDX-License-Identifier: Apache-2.0
 *
 * Random graphs of the builder's functions that have derivatives: values are used more than once,
 * broadcast, viewed and joined, and extents are 1 to 4.
 */
#ifndef DHOW_TESTS_GRADIENTS_GEN_H_
#define DHOW_TESTS_GRADIENTS_GEN_H_

#include "dhow/dhow.h"
#include "dhow/model_steps.h"

enum { MOST_VALUES = 64, MOST_RANK = 5, MOST_ELEMENTS = 600 };

typedef struct value {
    dhow_model_value v;
    int32_t rank;
    int64_t shape[MOST_RANK];
} value;

typedef struct graph {
    dhow_model *model;
    dhow_dtype dtype;
    value values[MOST_VALUES];
    uint32_t count, parameters, inputs;
    uint64_t seed, random;
    char text[1024]; /* the steps, for the report of a failure */
} graph;

uint64_t random_below(graph *g, uint64_t count);
/* -1 to 1, no two the same: two equal ones would be a corner of what is larger. */
double random_number(graph *g);
int64_t count_of(const value *x);
/* Inputs "x" and the weights of the sum that is the output; parameters p0, q1 and so on. */
void generate(graph *g, dhow_context *context, dhow_dtype dtype, uint64_t seed);
void check(dhow_status status, const char *what, const graph *g);
#define OK(expression) check((expression), #expression, g)

/* steps.c: adds a value, or nothing where the drawn step does not fit. */
void add_step(graph *g);
/* A further parameter. */
value add_parameter(graph *g, int32_t rank, const int64_t *shape);

#endif /* DHOW_TESTS_GRADIENTS_GEN_H_ */
