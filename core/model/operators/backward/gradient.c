/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradient of ai.onnx.preview.training: reverse mode over the nodes that lead from xs to y. The
 * derivatives become steps like any other, made when the shapes are known, so that broadcasting is
 * undone where it happened.
 */

#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "model/operators/backward/backward.h"
#include "model/operators/math/math.h"

/* Rules that compute in 16 bits behind a node that did: products, what only moves elements, and
 * what looks for the node's result among its inputs, which are to be those that it read. All others
 * compute in f32, as their sums and differences want. */
static bool has_half(dhowi_back_fn *back) {
    static dhowi_back_fn *const rules[] = {
        dhowi_back_extreme, dhowi_back_global_pool,    dhowi_back_maxpool,  dhowi_back_concat,
        dhowi_back_conv,    dhowi_back_conv_transpose, dhowi_back_gemm,     dhowi_back_identity,
        dhowi_back_linear,  dhowi_back_matmul,         dhowi_back_narrow,   dhowi_back_reshape,
        dhowi_back_slice,   dhowi_back_split,          dhowi_back_transpose};
    for (size_t i = 0; i < DHOWI_COUNT(rules); i++)
        if (back == rules[i]) return true;
    return false;
}

/* The derivatives of what the node made, in the floats that its rule computes in. */
static dhow_status choose_floats(dhowi_reverser *r, const dhowi_node *n, dhowi_back_fn *back) {
    int32_t ref;
    r->half = false;
    if (r->b->half == 0) return DHOW_OK;
    if (n->out[0] >= 0 && has_half(back)) {
        DHOWI_TRY(dhowi_ref_of(r->b, n->out[0], &ref));
        r->half = r->b->items[ref].half;
    }
    for (uint32_t i = 0; i < n->out_count; i++)
        if (n->out[i] >= 0 && r->slope[n->out[i]] >= 0)
            DHOWI_TRY(dhowi_in_half(r->b, &r->slope[n->out[i]], r->half));
    return DHOW_OK;
}

static dhow_status walk_node(dhowi_reverser *r, const dhowi_node *n) {
    const dhowi_node *gradient = r->b->node;
    dhowi_back_fn *back = dhowi_back_of(n);
    char text[160];
    int32_t first = -1, reached = -1; /* the last output that has a derivative */
    DHOWI_TRY(choose_floats(r, n, back));
    for (uint32_t i = 0; i < n->out_count; i++) {
        if (n->out[i] < 0 || !r->leads[n->out[i]] || r->slope[n->out[i]] < 0) continue;
        if (i == 0) first = r->slope[n->out[i]];
        reached = (int32_t)i;
    }
    if (reached < 0) return DHOW_OK;
    /* Most rules take the derivative of the first output: that of another is not to be lost. */
    if (reached > 0 && !n->op->back_all)
        return dhowi_fail(DHOW_UNSUPPORTED, "dhow has no derivative of output %d of %s", reached,
                          dhowi_node_text(n, text, sizeof text));
    r->dy = first;
    r->node = n;
    (void)dhowi_node_text(n, text, sizeof text);
    if (back == NULL) return dhowi_fail(DHOW_UNSUPPORTED, "dhow has no derivative of %s", text);
    DHOWI_TRY(dhowi_back_check(r->b->model, n, r->leads));
    r->b->node = n;
    dhow_status status = back(r);
    r->b->node = gradient;
    if (status == DHOW_OK || status == DHOWI_NEEDS_VALUES) return status;
    return dhowi_fail_prefix(status, "the derivative of %s", text);
}

bool dhowi_is_marked(const bool *marks, const int32_t *values, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (values[i] >= 0 && marks[values[i]]) return true;
    return false;
}

static bool reads_marked(const dhowi_node *n, const bool *marks);

static bool branch_reads_marked(const dhowi_subgraph *g, const bool *marks) {
    for (uint32_t i = 0; i < g->node_count; i++)
        if (reads_marked(&g->nodes[i], marks)) return true;
    return dhowi_is_marked(marks, g->outputs, g->output_count);
}

/* What branches read from outside is not among the inputs. */
static bool reads_marked(const dhowi_node *n, const bool *marks) {
    for (int k = 0; k < 2; k++)
        if (n->branch[k] != NULL && branch_reads_marked(n->branch[k], marks)) return true;
    return dhowi_is_marked(marks, n->in, n->in_count);
}

void dhowi_find_leads(const dhowi_node *nodes, uint32_t count, bool *leads) {
    for (uint32_t i = 0; i < count; i++) {
        if (!reads_marked(&nodes[i], leads)) continue;
        for (uint32_t k = 0; k < nodes[i].out_count; k++)
            if (nodes[i].out[k] >= 0) leads[nodes[i].out[k]] = true;
    }
}

/* ---- segments, of which results are computed again (Chen et al., 2016) ---- */

/* Results that are floats: shapes and indices are small, and a plan may hang on their values. */
static bool is_repeated(const dhowi_lowering *b, int32_t value) {
    const int32_t ref = value >= 0 ? b->refs[value] : -1;
    return ref >= 0 && !b->model->values[value].known && b->items[ref].kind == DHOW_DATUM_TENSOR &&
           b->items[ref].tensor == NULL && dhowi_is_float(b->items[ref].desc.dtype);
}

static int32_t find_repeated(const dhowi_lowering *b, const dhowi_node *n) {
    for (uint32_t i = 0; i < n->out_count; i++)
        if (is_repeated(b, n->out[i])) return b->refs[n->out[i]];
    return -1;
}

static dhow_status lower_again(dhowi_lowering *b, const dhowi_node *n) {
    const int32_t before = n->branch[0] == NULL ? find_repeated(b, n) : -1;
    const uint32_t steps = b->step_count;
    if (before < 0) return DHOW_OK;
    b->half_before = b->items[before].half ? 1 : -1;
    dhow_status status = dhowi_lower_node(b, n);
    b->half_before = 0;
    DHOWI_TRY(status);
    for (uint32_t i = steps; i < b->step_count; i++)
        if (b->steps[i].op == DHOWI_OP_write_steps)
            DHOWI_REFUSE("a cache that is written in place, in a segment that is computed again");
    return DHOW_OK;
}

/* From here on the derivatives of nodes begin .. end-1 read these results, so that the first ones
 * live no longer than their last reader on the way forward. */
static dhow_status compute_again(dhowi_reverser *r, const dhowi_node *nodes, uint32_t begin,
                                 uint32_t end) {
    const dhowi_node *self = r->b->node;
    const dhowi_back_scope scope = {r->b->in, r->b->in_count, r->b->out_count};
    dhow_status status = DHOW_OK;
    for (uint32_t i = begin; i < end && status == DHOW_OK; i++)
        status = lower_again(r->b, &nodes[i]);
    dhowi_back_leave(r, scope);
    r->b->node = self;
    return status;
}

/* The first node of a segment; all but the last segment are computed again. */
static uint32_t begin_of(uint32_t nodes, uint32_t segments, uint32_t segment) {
    return (uint32_t)((uint64_t)nodes * segment / segments);
}

/* ---- the walk ---- */

static dhow_status reverse(dhowi_reverser *r, const dhowi_subgraph *graph, int32_t y) {
    dhowi_lowering *b = r->b;
    const dhowi_node *self = b->node;
    const uint32_t xs = b->in_count - 1, at = (uint32_t)(self - graph->nodes);
    const uint32_t wanted = self->attrs != NULL ? (uint32_t)self->attrs->split.count : 1,
                   segments = DHOWI_MAX(DHOWI_MIN(wanted, at), 1U);
    uint32_t segment = segments - 1;
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, y);
    if (!dhowi_is_float(desc.dtype)) DHOWI_REFUSE("y is %s", dhow_dtype_name(desc.dtype));
    for (uint32_t i = 0; i < b->model->value_count; i++) r->slope[i] = -1;
    for (uint32_t i = 0; i < xs; i++) r->leads[self->in[i]] = true;
    dhowi_find_leads(graph->nodes, at, r->leads);
    DHOWI_TRY(dhowi_filled(b, &desc, 1, &r->slope[self->in[xs]]));
    /* Nodes of xs themselves are passed over: xs are what is varied. */
    for (uint32_t i = at; i-- > 0;) {
        bool is_x = false;
        while (i < begin_of(at, segments, segment)) {
            segment--;
            DHOWI_TRY(compute_again(r, graph->nodes, begin_of(at, segments, segment),
                                    begin_of(at, segments, segment + 1)));
        }
        for (uint32_t k = 0; k < xs; k++)
            is_x = is_x || (graph->nodes[i].out_count > 0 && graph->nodes[i].out[0] == self->in[k]);
        if (!is_x) DHOWI_TRY(walk_node(r, &graph->nodes[i]));
    }
    for (uint32_t i = 0; i < b->out_count && i < xs; i++) {
        b->out[i] = r->slope[self->in[i]];
        if (b->out[i] >= 0) DHOWI_TRY(dhowi_in_half(b, &b->out[i], false));
        const dhowi_tensor_desc own = *dhowi_desc_at(b, b->in[i]);
        if (b->out[i] < 0) DHOWI_TRY(dhowi_filled(b, &own, 0, &b->out[i]));
    }
    return DHOW_OK;
}

/* Its inputs are xs and, put there by the import, y. */
dhow_status dhowi_lower_gradient(dhowi_lowering *b) {
    const dhowi_subgraph *graph = &b->model->graph;
    if (b->node < graph->nodes || b->node >= graph->nodes + graph->node_count)
        return dhowi_fail(DHOW_UNSUPPORTED, "a gradient inside a branch");
    dhowi_reverser r = {.b = b};
    const size_t count = (size_t)b->model->value_count + 1;
    int32_t *refs = dhowi_alloc_array(count, sizeof *refs);
    r.leads = dhowi_alloc_array(count, sizeof *r.leads);
    r.slope = dhowi_alloc_array(count, sizeof *r.slope);
    dhow_status status;
    if (refs == NULL || r.leads == NULL || r.slope == NULL) {
        status = dhowi_fail_memory("plan");
    } else {
        memcpy(refs, b->refs, count * sizeof *refs);
        status = reverse(&r, graph, b->in[b->in_count - 1]);
        memcpy(b->refs, refs, count * sizeof *refs); /* outputs of the model are the first ones */
    }
    dhowi_free(r.leads);
    dhowi_free(r.slope);
    dhowi_free(refs);
    return status;
}
