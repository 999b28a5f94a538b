/* SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void check(dhow_status status, const char *what, const graph *g) {
    if (status == DHOW_OK) return;
    fprintf(stderr, "%s: %s\n%s\n", what, dhow_last_error(), g->text);
    exit(1);
}

/* SplitMix64 */
static uint64_t next(graph *g) {
    uint64_t z = g->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t random_below(graph *g, uint64_t count) { return next(g) % count; }

double random_number(graph *g) { return (double)(next(g) >> 11) * 0x1p-52 - 1; }

int64_t count_of(const value *x) {
    int64_t count = 1;
    for (int32_t i = 0; i < x->rank; i++) count *= x->shape[i];
    return count;
}

value add_parameter(graph *g, int32_t rank, const int64_t *shape) {
    value p = {.rank = rank};
    char name[16];
    (void)snprintf(name, sizeof name, "%c%u", random_below(g, 3) > 0 ? 'p' : 'q', g->parameters++);
    if (rank > 0) memcpy(p.shape, shape, (size_t)rank * sizeof *shape);
    OK(dhow_model_parameter(g->model, name, g->dtype, rank, p.shape, &p.v));
    g->values[g->count++] = p;
    return p;
}

static void random_shape(graph *g, int32_t *rank, int64_t *shape) {
    *rank = (int32_t)random_below(g, 5);
    for (int32_t i = 0; i < *rank; i++) shape[i] = 1 + (int64_t)random_below(g, 4);
}

/* The last value and any other, as one line, times weights that an input brings: places matter. */
static void add_output(graph *g) {
    const value last = g->values[g->count - 1], other = g->values[random_below(g, g->count)];
    const int64_t counts[] = {count_of(&last), count_of(&other)}, all = counts[0] + counts[1];
    dhow_model_value part[2], y, weights;
    OK(dhow_model_reshape(g->model, last.v, 1, &counts[0], &part[0]));
    OK(dhow_model_reshape(g->model, other.v, 1, &counts[1], &part[1]));
    OK(dhow_model_cat(g->model, part, 2, 0, &y));
    OK(dhow_model_input(g->model, "weights", g->dtype, 1, &all, &weights));
    OK(dhow_model_mul(g->model, y, weights, &y));
    OK(dhow_model_reduce(g->model, DHOW_REDUCE_SUM, y, NULL, 0, 0, &y));
    OK(dhow_model_output(g->model, "loss", y));
}

void generate(graph *g, dhow_context *context, dhow_dtype dtype, uint64_t seed) {
    memset(g, 0, sizeof *g);
    g->dtype = dtype;
    g->seed = g->random = seed;
    OK(dhow_model_create(context, &g->model));
    value x = {0};
    random_shape(g, &x.rank, x.shape);
    OK(dhow_model_input(g->model, "x", g->dtype, x.rank, x.shape, &x.v));
    g->values[g->count++] = x;
    random_shape(g, &x.rank, x.shape);
    (void)add_parameter(g, x.rank, x.shape);
    for (uint64_t steps = 2 + random_below(g, 9); steps > 0; steps--) add_step(g);
    add_output(g);
}
