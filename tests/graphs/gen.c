/* SPDX-License-Identifier: Apache-2.0
 *
 * See gen.h.
 */
#include "gen.h"

#include <string.h>

/* ---- values ---- */

int64_t extent(gen *g) {
    static const int64_t extents[] = {1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 16, 17};
    return extents[below(g, (int)(sizeof extents / sizeof extents[0]))];
}

static void fill(gen *g, int v) {
    value *x = val(g, v);
    for (int64_t i = 0; i < value_count(x); i++) x->data[i] = (below(g, 17) - 8) * 0.25;
    x->bits = 4;
}

int new_input(gen *g, int32_t rank, const int64_t *shape) {
    const int v = add_value(g->m, VALUE_INPUT, g->m->dtype, rank, shape, 0);
    if (v < 0) return -1;
    fill(g, v);
    if (rank > 0 && shape[0] == g->batch && !one_in(g, 4)) val(g, v)->open[0] = true;
    return v;
}

int new_constant(gen *g, int32_t rank, const int64_t *shape) {
    const int v = add_value(g->m, VALUE_CONSTANT, g->m->dtype, rank, shape, g->at);
    if (v >= 0) fill(g, v);
    return v;
}

int new_number(gen *g, double number) {
    const int64_t one = 1;
    const int v = add_value(g->m, VALUE_CONSTANT, g->m->dtype, one_in(g, 3) ? 1 : 0, &one, g->at);
    if (v < 0) return -1;
    val(g, v)->data[0] = number;
    val(g, v)->bits = number * 16 == (double)(int64_t)(number * 16) && number < 16 ? 6 : 0;
    return v;
}

int new_ints(gen *g, int count, const int64_t *values) {
    const int64_t shape[] = {count};
    const int v = add_value(g->m, VALUE_CONSTANT, DHOW_I64, 1, shape, g->at);
    for (int i = 0; v >= 0 && i < count; i++) val(g, v)->data[i] = (double)values[i];
    return v;
}

static bool is_visible(const gen *g, int v) {
    const value *x = &g->m->values[v];
    for (int scope = g->at; scope >= 0; scope = g->m->graphs[scope].parent)
        if (x->scope == scope) return true;
    return false;
}

static int pick_where(gen *g, dhow_dtype dtype, int32_t least, int32_t most, int like) {
    int found[MAX_VALUES], count = 0;
    for (int i = 0; i < g->m->value_count; i++) {
        const value *v = val(g, i);
        bool fits = v->dtype == dtype && v->rank >= least && v->rank <= most && is_visible(g, i) &&
                    v->kind != VALUE_CONSTANT;
        if (fits && like >= 0)
            fits = v->rank == val(g, like)->rank &&
                   memcmp(v->shape, val(g, like)->shape, (size_t)v->rank * sizeof *v->shape) == 0;
        if (fits) found[count++] = i;
    }
    if (count == 0) return -1;
    const int a = below(g, count), b = below(g, count);
    return found[a > b ? a : b]; /* rather a late one */
}

int pick(gen *g, int32_t least, int32_t most) {
    if (g->last >= 0 && !one_in(g, 4)) {
        const value *v = val(g, g->last);
        if (v->dtype == g->m->dtype && v->rank >= least && v->rank <= most &&
            is_visible(g, g->last))
            return g->last;
    }
    const int v = pick_where(g, g->m->dtype, least, most, -1);
    if (v >= 0 && !one_in(g, 12)) return v;
    int64_t shape[DHOW_MAX_RANK];
    const int32_t rank = least + below(g, (most < least + 3 ? most : least + 3) - least + 1);
    for (int32_t i = 0; i < rank; i++) shape[i] = extent(g);
    if (rank > 0) shape[0] = g->batch;
    return new_input(g, rank, shape);
}

int pick_type(gen *g, dhow_dtype dtype) { return pick_where(g, dtype, 0, DHOW_MAX_RANK, -1); }

int pick_like(gen *g, int v) {
    if (one_in(g, 3)) return v;
    return pick_where(g, g->m->dtype, 0, DHOW_MAX_RANK, v);
}

/* ---- bits ---- */

int bits_fit(const gen *g, int bits) {
    const dhow_dtype dtype = g->m->half != 0 ? g->m->half : g->m->dtype;
    const int most = dtype == DHOW_F16 ? 10 : dtype == DHOW_BF16 ? 7 : 22;
    return bits <= most ? bits : 0;
}
int bits_sum(const gen *g, int a, int b) {
    return a == 0 || b == 0 ? 0 : bits_fit(g, (a > b ? a : b) + 1);
}
int bits_product(const gen *g, int a, int b, int64_t terms) {
    int bits = a + b;
    if (a == 0 || b == 0) return 0;
    for (; terms > 1; terms = (terms + 1) / 2) bits++;
    return bits_fit(g, bits);
}

/* ---- nodes ---- */

node *put(gen *g, const char *op, int count, const int *in) {
    if (count > 0 && in[0] < 0) return NULL; /* what it needs could not be made */
    node *n = add_node(g->m, g->at, op);
    if (n == NULL) return NULL;
    n->in_count = count;
    for (int i = 0; i < count; i++) n->in[i] = in[i];
    return n;
}

int result(gen *g, node *n, dhow_dtype dtype, int32_t rank, const int64_t *shape, int bits) {
    if (n == NULL) return -1;
    const int v = add_value(g->m, VALUE_RESULT, dtype, rank, shape, g->at);
    if (v < 0) return -1;
    val(g, v)->bits = bits;
    n->out[n->out_count++] = v;
    if (dtype == g->m->dtype) g->last = v;
    return v;
}

int unary(gen *g, const char *op, int v, int bits) {
    if (v < 0) return -1;
    node *n = put(g, op, 1, &v);
    return result(g, n, val(g, v)->dtype, val(g, v)->rank, val(g, v)->shape, bits);
}

bool broadcast(const value *a, const value *b, int32_t *rank, int64_t *shape) {
    *rank = a->rank > b->rank ? a->rank : b->rank;
    for (int32_t i = 0; i < *rank; i++) {
        const int32_t p = i - (*rank - a->rank), q = i - (*rank - b->rank);
        const int64_t x = p >= 0 ? a->shape[p] : 1, y = q >= 0 ? b->shape[q] : 1;
        if (x != y && x != 1 && y != 1) return false;
        shape[i] = x == 1 ? y : x;
    }
    return true;
}

int binary(gen *g, const char *op, int a, int b) {
    if (a < 0 || b < 0) return -1;
    const int in[] = {a, b};
    int64_t shape[DHOW_MAX_RANK];
    int32_t rank;
    const value *x = val(g, a), *y = val(g, b);
    if (x->dtype != y->dtype || !broadcast(x, y, &rank, shape)) return -1;
    int64_t count = 1;
    for (int32_t i = 0; i < rank; i++) count *= shape[i];
    if (count > MAX_ELEMENTS) return -1;
    int bits = 0;
    if (strcmp(op, "Add") == 0 || strcmp(op, "Sub") == 0 || strcmp(op, "Sum") == 0)
        bits = bits_sum(g, x->bits, y->bits);
    if (strcmp(op, "Mul") == 0) bits = bits_product(g, x->bits, y->bits, 1);
    if ((strcmp(op, "Max") == 0 || strcmp(op, "Min") == 0) && x->bits > 0 && y->bits > 0)
        bits = x->bits > y->bits ? x->bits : y->bits;
    return result(g, put(g, op, 2, in), x->dtype, rank, shape, bits);
}

static attribute *set(node *n, const char *name, attribute_kind kind) {
    static attribute nowhere;
    if (n == NULL || n->attribute_count == MAX_ATTRIBUTES) return &nowhere;
    attribute *a = &n->attributes[n->attribute_count++];
    *a = (attribute){.name = name, .kind = kind};
    return a;
}
void set_int(node *n, const char *name, int64_t number) {
    attribute *a = set(n, name, ATTRIBUTE_INT);
    a->ints[0] = number;
    a->count = 1;
}
void set_ints(node *n, const char *name, int count, const int64_t *values) {
    attribute *a = set(n, name, ATTRIBUTE_INTS);
    a->count = count;
    for (int i = 0; i < count; i++) a->ints[i] = values[i];
}
void set_float(node *n, const char *name, double number) {
    set(n, name, ATTRIBUTE_FLOAT)->number = number;
}
void set_text(node *n, const char *name, const char *text) {
    set(n, name, ATTRIBUTE_TEXT)->text = text;
}
