/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of a file, scope by scope, and the order of the nodes in one.
 */
#ifndef DHOWI_MODEL_ONNX_SCOPE_H_
#define DHOWI_MODEL_ONNX_SCOPE_H_

#include "base/memory/size.h"
#include "model/graph/model.h"

/* A name for "%.*s" in a message. */
#define DHOWI_NAMED(slice) \
    (int)DHOWI_MIN((slice).length, (size_t)64), (slice).data != NULL ? (slice).data : ""

typedef struct dhowi_name_entry {
    dhowi_slice name;
    int32_t value;
    int32_t producer; /* node of this scope, -1 for inputs and initializers */
} dhowi_name_entry;

typedef struct dhowi_scope {
    const struct dhowi_scope *outer;
    dhowi_name_entry *entries; /* a table with open addresses */
    uint32_t capacity, count;
    const dhowi_onnx_graph *graph;
} dhowi_scope;

dhow_status dhowi_scope_open(dhowi_scope *s, const dhowi_scope *outer,
                             const dhowi_onnx_graph *graph);
/* The entry of a name in this scope, or the free one where it belongs. */
dhowi_name_entry *dhowi_scope_slot(const dhowi_scope *s, dhowi_slice name);
/* The value of a name here or outside, or -1. */
int32_t dhowi_scope_look_up(const dhowi_scope *s, dhowi_slice name);

bool dhowi_is_gradient(const dhowi_onnx_node *n);
/* An attribute, or NULL. */
const dhowi_onnx_attribute *dhowi_attribute_of(const dhowi_onnx_node *n, const char *name);

/* *out is every node in an order that works, of which the first *wanted are to be run. */
dhow_status dhowi_sort_nodes(dhowi_scope *s, uint32_t **out, uint32_t *wanted);

#endif /* DHOWI_MODEL_ONNX_SCOPE_H_ */
