/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights of products that read the same value - queries, keys and values of attention, gate and up
 * of a transformer - lie side by side on a device, so that one product can compute them all, see
 * passes/merge_products.c. Each parameter stays what it was: a view of what they share.
 */
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "kernel/optimise.h"
#include "model/run/run.h"

enum { MOST_TOGETHER = 8 };

/* Products of one value: out channels of their weights lie along `axis`. */
typedef struct group {
    int32_t axis;
    uint32_t count;
    dhowi_value *weight[MOST_TOGETHER];
} group;

/* The dimension of a node's weight that its result has; -1 where it is no product. */
static int32_t axis_of(const dhowi_node *n) {
    if (n->in_count < 2 || n->in[0] < 0 || n->in[1] < 0) return -1;
    if (n->source == NULL) return n->row == DHOWI_OP_linear ? 0 : -1;
    return strcmp(n->op->name, "MatMul") == 0 ? 1 : -1;
}

static uint32_t reads_of(const dhowi_node *n, int32_t value) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < n->in_count; k++) count += n->in[k] == value;
    return count;
}

/* How many nodes read each value, those of branches and outputs included. */
static void count_uses(const dhowi_subgraph *g, uint32_t *uses) {
    for (uint32_t i = 0; i < g->node_count; i++) {
        const dhowi_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->in_count; k++)
            if (n->in[k] >= 0) uses[n->in[k]]++;
        for (int k = 0; k < 2; k++)
            if (n->branch[k] != NULL) count_uses(n->branch[k], uses);
    }
    for (uint32_t i = 0; i < g->output_count; i++)
        if (g->outputs[i] >= 0) uses[g->outputs[i]]++;
}

static bool is_own_weight(const dhow_model *m, const dhowi_node *n, const uint32_t *uses) {
    const dhowi_value *w = &m->values[n->in[1]];
    return w->kind == DHOWI_VALUE_PARAMETER && dhowi_is_float(w->desc.dtype) && w->desc.rank == 2 &&
           w->resident == NULL && w->half_resident == NULL && uses[n->in[1]] == 1;
}

/* What products read of it: 16-bit floats where the model computes in them. */
static dhow_status held_of(dhow_model *m, dhowi_value *w, dhow_tensor **out) {
    const bool half = dhowi_model_half_type(m) != 0 && w->desc.dtype == DHOW_F32;
    *out = NULL;
    if (half) DHOWI_TRY(dhowi_model_half(m, w, out));
    bool later;
    return *out != NULL ? DHOW_OK : dhowi_model_tensor_later(m, w, out, &later);
}

/* Where each part begins, of weights and of results, suits the device's kernels and libraries. */
static bool is_aligned(const dhow_model *m, const dhowi_value *w, const dhow_tensor *held,
                       int32_t axis) {
    const uint64_t align = DHOWI_MAX((uint64_t)m->device->desc.offset_align, (uint64_t)16);
    return w->desc.shape[0] > 0 && w->desc.shape[1] > 0 &&
           (uint64_t)w->desc.shape[axis] * dhow_dtype_bytes(held->dtype) % align == 0;
}

static dhow_status fits(dhow_model *m, const group *g, dhowi_value *w, bool *out) {
    const dhowi_tensor_desc *first = &g->weight[0]->desc, *own = &w->desc;
    dhow_tensor *held, *leader;
    *out = false;
    if (own->dtype != first->dtype || own->shape[1 - g->axis] != first->shape[1 - g->axis])
        return DHOW_OK;
    DHOWI_TRY(held_of(m, w, &held));
    DHOWI_TRY(held_of(m, g->weight[0], &leader));
    *out = held->dtype == leader->dtype && is_aligned(m, w, held, g->axis);
    return DHOW_OK;
}

/* ---- on the device ---- */

static dhow_status place_part(dhow_model *m, dhowi_value *w, dhow_tensor *joined, int64_t offset) {
    dhow_tensor *host, *part;
    DHOWI_TRY(held_of(m, w, &host));
    if (host == w->tensor) DHOWI_TRY(dhowi_model_read(m, w));
    DHOWI_TRY(dhowi_tensor_view(joined->storage, joined->dtype, 2, w->desc.shape, joined->strides,
                                offset, &part));
    dhow_status status = dhow_copy(dhowi_model_source(m, w, host), part);
    if (status != DHOW_OK) {
        dhow_tensor_release(part);
        return dhowi_fail_prefix(status, "parameter '%.64s'", w->name != NULL ? w->name : "");
    }
    *(host == w->half ? &w->half_resident : &w->resident) = part;
    if (host == w->tensor) dhowi_model_moved(m, w);
    return DHOW_OK;
}

static dhow_status place_group(dhow_model *m, const group *g) {
    dhowi_tensor_desc desc = g->weight[0]->desc;
    dhow_tensor *joined, *held;
    dhow_status status = DHOW_OK;
    int64_t at = 0;
    for (uint32_t i = 1; i < g->count; i++)
        desc.shape[g->axis] += g->weight[i]->desc.shape[g->axis];
    DHOWI_TRY(held_of(m, g->weight[0], &held));
    DHOWI_TRY(dhowi_tensor_new(m->device, held->dtype, 2, desc.shape, &joined));
    for (uint32_t i = 0; i < g->count && status == DHOW_OK; i++) {
        status = place_part(m, g->weight[i], joined, at * joined->strides[g->axis]);
        at += g->weight[i]->desc.shape[g->axis];
    }
    atomic_store_explicit(&joined->storage->frozen, true, memory_order_relaxed);
    dhow_tensor_release(joined);
    return status;
}

static dhow_status place_from(dhow_model *m, uint32_t first, const uint32_t *uses) {
    const dhowi_subgraph *nodes = &m->graph;
    const dhowi_node *n = &nodes->nodes[first];
    group g = {.axis = axis_of(n)};
    if (g.axis < 0 || uses[n->in[0]] < 2 || !is_own_weight(m, n, uses)) return DHOW_OK;
    g.weight[g.count++] = &m->values[n->in[1]];
    bool suits;
    DHOWI_TRY(fits(m, &g, g.weight[0], &suits));
    if (!suits) return DHOW_OK;
    uint32_t left = uses[n->in[0]] - reads_of(n, n->in[0]);
    for (uint32_t i = first + 1; left > 0 && i < nodes->node_count && g.count < MOST_TOGETHER;
         i++) {
        const dhowi_node *other = &nodes->nodes[i];
        left -= reads_of(other, n->in[0]);
        if (axis_of(other) != g.axis || other->in[0] != n->in[0] || !is_own_weight(m, other, uses))
            continue;
        DHOWI_TRY(fits(m, &g, &m->values[other->in[1]], &suits));
        if (suits) g.weight[g.count++] = &m->values[other->in[1]];
    }
    return g.count > 1 ? place_group(m, &g) : DHOW_OK;
}

dhow_status dhowi_join_weights(dhow_model *m) {
    if (m->device == m->context->cpu || !dhowi_optimises(DHOWI_OPTIMISE_PRODUCTS)) return DHOW_OK;
    uint32_t *uses = dhowi_alloc_array((size_t)m->value_count + 1, sizeof *uses);
    if (uses == NULL) return dhowi_fail_memory("dhow_model_to");
    dhow_status status = DHOW_OK;
    count_uses(&m->graph, uses);
    for (uint32_t i = 0; i < m->output_count; i++) uses[m->outputs[i]]++;
    for (uint32_t i = 0; i < m->graph.node_count && status == DHOW_OK; i++)
        status = place_from(m, i, uses);
    dhowi_model_end_move(m);
    dhowi_free(uses);
    return status;
}
