/* SPDX-License-Identifier: Apache-2.0
 *
 * Scopes: names of a file become values; names of a branch may hide those outside of it.
 */
#include "model/onnx/scope.h"

#include "base/memory/alloc.h"
#include "base/text/text.h"
#include "model/operators/operators.h"

dhowi_name_entry *dhowi_scope_slot(const dhowi_scope *s, dhowi_slice name) {
    uint64_t at = dhowi_hash(DHOWI_HASH_SEED, name.data, name.length);
    for (;; at++) {
        dhowi_name_entry *e = &s->entries[at & (s->capacity - 1)];
        if (e->name.data == NULL || dhowi_slice_equal(e->name, name)) return e;
    }
}

dhow_status dhowi_scope_open(dhowi_scope *s, const dhowi_scope *outer,
                             const dhowi_onnx_graph *graph) {
    uint64_t names = (uint64_t)graph->input_count + graph->initializer_count;
    for (uint32_t i = 0; i < graph->node_count; i++) names += graph->nodes[i].output_count;
    *s = (dhowi_scope){.outer = outer, .graph = graph, .capacity = 16};
    while (s->capacity < 2 * names && s->capacity < UINT32_MAX / 4) s->capacity *= 2;
    s->entries = dhowi_alloc_array(s->capacity, sizeof *s->entries);
    return s->entries != NULL ? DHOW_OK : dhowi_fail_memory("model");
}

int32_t dhowi_scope_look_up(const dhowi_scope *s, dhowi_slice name) {
    for (; s != NULL; s = s->outer) {
        const dhowi_name_entry *e = dhowi_scope_slot(s, name);
        if (e->name.data != NULL) return e->value;
    }
    return -1;
}

bool dhowi_is_gradient(const dhowi_onnx_node *n) {
    return dhowi_slice_is(n->domain, DHOWI_TRAINING) && dhowi_slice_is(n->op, "Gradient");
}

const dhowi_onnx_attribute *dhowi_attribute_of(const dhowi_onnx_node *n, const char *name) {
    for (uint32_t i = 0; i < n->attribute_count; i++) {
        if (dhowi_slice_is(n->attributes[i].name, name)) return &n->attributes[i];
    }
    return NULL;
}
