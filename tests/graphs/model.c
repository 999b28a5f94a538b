/* SPDX-License-Identifier: Apache-2.0
 *
 * Models as data: making, copying, pruning, printing.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

uint64_t dice_next(dice *d) { /* splitmix64, Steele, Lea and Flood 2014 */
    uint64_t x = d->state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}
int dice_below(dice *d, int n) { return (int)(dice_next(d) % (uint64_t)n); }
bool dice_one_in(dice *d, int n) { return dice_below(d, n) == 0; }

int64_t value_count(const value *v) {
    int64_t count = 1;
    for (int32_t i = 0; i < v->rank; i++) count *= v->shape[i];
    return count;
}

bool is_float(dhow_dtype dtype) {
    return dtype == DHOW_F32 || dtype == DHOW_F64 || dtype == DHOW_F16 || dtype == DHOW_BF16;
}

model *model_new(uint64_t seed, dhow_dtype dtype) {
    model *m = calloc(1, sizeof *m);
    if (m == NULL) abort();
    m->seed = seed;
    m->dtype = dtype;
    m->graph_count = 1;
    m->graphs[0].parent = -1;
    return m;
}

model *model_copy(const model *from) {
    model *m = malloc(sizeof *m);
    if (m == NULL) abort();
    *m = *from;
    for (int i = 0; i < m->value_count; i++) {
        value *v = &m->values[i];
        if (v->data == NULL) continue;
        const size_t size = ((size_t)value_count(v) + 1) * sizeof(double);
        v->data = malloc(size);
        if (v->data == NULL) abort();
        memcpy(v->data, from->values[i].data, size);
    }
    return m;
}

void model_free(model *m) {
    if (m == NULL) return;
    for (int i = 0; i < m->value_count; i++) free(m->values[i].data);
    free(m);
}

int add_value(model *m, value_kind kind, dhow_dtype dtype, int32_t rank, const int64_t *shape,
              int scope) {
    if (m->value_count == MAX_VALUES) return -1;
    value *v = &m->values[m->value_count];
    *v = (value){.kind = kind, .dtype = dtype, .rank = rank, .scope = scope};
    for (int32_t i = 0; i < rank; i++) v->shape[i] = shape[i];
    if (kind == VALUE_INPUT || kind == VALUE_CONSTANT) {
        v->data = calloc((size_t)value_count(v) + 1, sizeof(double));
        if (v->data == NULL) abort();
    }
    return m->value_count++;
}

node *add_node(model *m, int scope, const char *op) {
    if (m->node_count == MAX_NODES) return NULL;
    node *n = &m->nodes[m->node_count];
    *n = (node){.op = op};
    graph *g = &m->graphs[scope];
    g->nodes[g->node_count++] = m->node_count++;
    return n;
}

/* ---- pruning ---- */

static void want(bool *wanted, int v) {
    if (v >= 0) wanted[v] = true;
}

static void prune_graph(model *m, int scope, bool *wanted) {
    graph *g = &m->graphs[scope];
    for (int i = 0; i < g->output_count; i++) want(wanted, g->outputs[i]);
    for (int i = g->node_count; i-- > 0;) {
        node *n = &m->nodes[g->nodes[i]];
        bool needed = false;
        for (int k = 0; k < n->out_count; k++)
            needed = needed || (n->out[k] >= 0 && wanted[n->out[k]]);
        n->gone = !needed;
        if (!needed) continue;
        for (int k = 0; k < n->in_count; k++) want(wanted, n->in[k]);
        for (int k = 0; k < n->attribute_count; k++) {
            if (n->attributes[k].kind == ATTRIBUTE_GRAPH)
                prune_graph(m, (int)n->attributes[k].ints[0], wanted);
        }
    }
}

void model_prune(model *m) {
    bool wanted[MAX_VALUES] = {false};
    prune_graph(m, 0, wanted);
    for (int s = 0; s < m->graph_count; s++) {
        graph *g = &m->graphs[s];
        int kept = 0;
        for (int i = 0; i < g->node_count; i++) {
            if (!m->nodes[g->nodes[i]].gone) g->nodes[kept++] = g->nodes[i];
        }
        g->node_count = kept;
    }
    for (int i = 0; i < m->value_count; i++) {
        value *v = &m->values[i];
        if (wanted[i] || v->data == NULL) continue;
        free(v->data);
        v->data = NULL;
        v->kind = VALUE_RESULT; /* of no node: it is not written */
    }
}

/* ---- printing ---- */

static void print_value(const model *m, int i, FILE *to) {
    const value *v = &m->values[i];
    (void)fprintf(to, "v%d %s[", i, dhow_dtype_name(v->dtype));
    for (int32_t k = 0; k < v->rank; k++)
        (void)fprintf(to, "%s%" PRId64 "%s", k > 0 ? ", " : "", v->shape[k], v->open[k] ? "?" : "");
    (void)fprintf(to, "]");
}

static void print_attribute(const attribute *a, FILE *to) {
    (void)fprintf(to, " %s=", a->name);
    if (a->kind == ATTRIBUTE_TEXT) (void)fprintf(to, "%s", a->text);
    if (a->kind == ATTRIBUTE_FLOAT) (void)fprintf(to, "%g", a->number);
    if (a->kind == ATTRIBUTE_GRAPH) (void)fprintf(to, "graph %" PRId64, a->ints[0]);
    for (int i = 0; i < a->count && (a->kind == ATTRIBUTE_INT || a->kind == ATTRIBUTE_INTS); i++)
        (void)fprintf(to, "%s%" PRId64, i > 0 ? "," : "", a->ints[i]);
}

static void print_graph(const model *m, int scope, int indent, FILE *to) {
    const graph *g = &m->graphs[scope];
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &m->nodes[g->nodes[i]];
        (void)fprintf(to, "%*s", indent, "");
        for (int k = 0; k < n->out_count; k++) {
            if (k > 0) (void)fprintf(to, ", ");
            if (n->out[k] >= 0) print_value(m, n->out[k], to);
        }
        (void)fprintf(to, " = %s(", n->op);
        for (int k = 0; k < n->in_count; k++)
            (void)fprintf(to, n->in[k] >= 0 ? "%sv%d" : "%s-", k > 0 ? ", " : "", n->in[k]);
        (void)fprintf(to, ")");
        for (int k = 0; k < n->attribute_count; k++) print_attribute(&n->attributes[k], to);
        (void)fprintf(to, "\n");
        for (int k = 0; k < n->attribute_count; k++) {
            if (n->attributes[k].kind == ATTRIBUTE_GRAPH)
                print_graph(m, (int)n->attributes[k].ints[0], indent + 4, to);
        }
    }
    (void)fprintf(to, "%*soutputs", indent, "");
    for (int i = 0; i < g->output_count; i++) (void)fprintf(to, " v%d", g->outputs[i]);
    (void)fprintf(to, "\n");
}

void model_print(const model *m, FILE *to) {
    enum { SHOWN = 16 };
    (void)fprintf(to, "model of seed %" PRIu64 "\n", m->seed);
    for (int i = 0; i < m->value_count; i++) {
        const value *v = &m->values[i];
        if (v->data == NULL) continue;
        (void)fprintf(to, "  %s ", v->kind == VALUE_INPUT ? "input" : "constant");
        print_value(m, i, to);
        (void)fprintf(to, " =");
        for (int64_t k = 0; k < value_count(v) && k < SHOWN; k++)
            (void)fprintf(to, " %g", v->data[k]);
        (void)fprintf(to, value_count(v) > SHOWN ? " ...\n" : "\n");
    }
    print_graph(m, 0, 2, to);
}
