/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of nodes: each after those whose results it reads. Files with nodes in any order exist.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "model/onnx/scope.h"
#include "model/operators/operators.h"

/* Depth-first search without recursion: a file decides how long a chain is. */
typedef struct sorter {
    dhowi_scope *s;
    uint32_t *order, count;
    uint8_t *state; /* 0 new, 1 being visited, 2 done */
    uint32_t *stack;
    uint64_t *position, *first; /* in names, of each node */
    dhowi_slice *names;         /* what each node waits for */
} sorter;

/* Appends what a graph's nodes read, those of its branches included; counts when `to` is NULL. */
static uint64_t names_of_graph(const dhowi_onnx_graph *g, dhowi_slice *to);

static uint64_t names_of_node(const dhowi_onnx_node *n, dhowi_slice *to) {
    uint64_t count = n->input_count;
    for (uint32_t i = 0; i < n->input_count && to != NULL; i++) to[i] = n->inputs[i];
    const dhowi_onnx_attribute *y = dhowi_is_gradient(n) ? dhowi_attribute_of(n, "y") : NULL;
    if (y != NULL && to != NULL) to[count] = y->s;
    count += y != NULL;
    for (uint32_t i = 0; i < n->attribute_count; i++) {
        if (n->attributes[i].graph == NULL) continue;
        count += names_of_graph(n->attributes[i].graph, to != NULL ? to + count : NULL);
    }
    return count;
}

static uint64_t names_of_graph(const dhowi_onnx_graph *g, dhowi_slice *to) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < g->node_count; i++)
        count += names_of_node(&g->nodes[i], to != NULL ? to + count : NULL);
    for (uint32_t i = 0; i < g->output_count; i++, count++) {
        if (to != NULL) to[count] = g->outputs[i].name;
    }
    return count;
}

static dhow_status visit(sorter *t, uint32_t root) {
    uint32_t depth = 0;
    t->stack[0] = root;
    t->state[root] = 1;
    for (;;) {
        uint32_t node = t->stack[depth];
        const dhowi_onnx_node *n = &t->s->graph->nodes[node];
        uint64_t at = t->position[node]++;
        if (at == t->first[node + 1]) {
            t->state[node] = 2;
            t->order[t->count++] = node;
            if (depth-- == 0) return DHOW_OK;
            continue;
        }
        const dhowi_name_entry *e = dhowi_scope_slot(t->s, t->names[at]);
        if (e->name.data == NULL || e->producer < 0 || t->state[e->producer] == 2) continue;
        /* A branch may use the names of its own node's results for its own. */
        if ((uint32_t)e->producer == node && at >= t->first[node] + n->input_count) continue;
        if (t->state[e->producer] == 1) {
            return dhowi_fail(DHOW_CORRUPT,
                              "%.*s (node '%.*s', byte %" PRIu64
                              ") waits for its own result: the graph has a cycle",
                              DHOWI_NAMED(n->op), DHOWI_NAMED(n->name), n->at);
        }
        t->stack[++depth] = (uint32_t)e->producer;
        t->state[e->producer] = 1;
    }
}

static dhow_status prepare_sorter(sorter *t, uint32_t n) {
    t->order = dhowi_alloc_array((size_t)n * 2 + 1, sizeof *t->order);
    t->state = dhowi_alloc_array((size_t)n + 1, 1);
    t->position = dhowi_alloc_array((size_t)n * 2 + 2, sizeof *t->position);
    if (t->order == NULL || t->state == NULL || t->position == NULL)
        return dhowi_fail_memory("model");
    t->stack = t->order + n;
    t->first = t->position + n;
    for (uint32_t i = 0; i < n; i++)
        t->first[i + 1] = t->first[i] + names_of_node(&t->s->graph->nodes[i], NULL);
    t->names = dhowi_alloc_array(t->first[n] + 1, sizeof *t->names);
    if (t->names == NULL) return dhowi_fail_memory("model");
    for (uint32_t i = 0; i < n; i++) {
        (void)names_of_node(&t->s->graph->nodes[i], t->names + t->first[i]);
        t->position[i] = t->first[i];
    }
    return DHOW_OK;
}

static void want(sorter *t, dhowi_slice name) {
    const dhowi_name_entry *e = dhowi_scope_slot(t->s, name);
    if (e->name.data != NULL && e->producer >= 0) t->state[e->producer] = 3;
}

/* Puts nodes whose results nobody wants behind the others; those of state 3 are wanted. */
static void part_wanted(sorter *t) {
    const dhowi_onnx_graph *g = t->s->graph;
    uint32_t kept = 0, others = 0;
    for (uint32_t i = 0; i < g->output_count; i++) want(t, g->outputs[i].name);
    for (uint32_t i = t->count; i-- > 0;) {
        const uint32_t node = t->order[i];
        if (t->state[node] != 3) continue;
        for (uint64_t k = t->first[node]; k < t->first[node + 1]; k++) want(t, t->names[k]);
    }
    for (uint32_t i = 0; i < t->count; i++) {
        if (t->state[t->order[i]] == 3)
            t->order[kept++] = t->order[i];
        else
            t->stack[others++] = t->order[i];
    }
    if (others > 0) memcpy(t->order + kept, t->stack, others * sizeof *t->order);
    t->count = kept;
}

dhow_status dhowi_sort_nodes(dhowi_scope *s, uint32_t **out, uint32_t *wanted) {
    uint32_t n = s->graph->node_count;
    sorter t = {.s = s};
    dhow_status status = prepare_sorter(&t, n);
    for (uint32_t i = 0; i < n && status == DHOW_OK; i++) {
        if (t.state[i] == 0) status = visit(&t, i);
    }
    if (status == DHOW_OK) part_wanted(&t);
    *wanted = t.count;
    dhowi_free(t.state);
    dhowi_free(t.position);
    dhowi_free(t.names);
    if (status != DHOW_OK) {
        dhowi_free(t.order);
        t.order = NULL;
    }
    *out = t.order;
    return status;
}
