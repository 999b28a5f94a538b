/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowering nodes: their inputs, the operator, and what to say when one is refused.
 */
#include "base/memory/size.h"
#include "model/graph/stop.h"
#include "model/lower/lower.h"

/* What is computed from parameters alone is kept for the next plan; what comes late once it is
 * there. */
static dhow_status keep_known(dhowi_lowering *b, const dhowi_node *node) {
    for (uint32_t i = 0; i < node->in_count; i++) {
        if (node->in[i] >= 0 && !b->model->values[node->in[i]].known) return DHOW_OK;
    }
    if (node->branch[0] != NULL) return DHOW_OK;
    for (uint32_t i = 0; i < node->out_count && i < b->out_count; i++) {
        const int32_t value = node->out[i], ref = b->out[i];
        dhow_tensor *values;
        if (value < 0 || ref < 0 || !dhowi_is_known(b, ref) || b->model->values[value].known)
            continue;
        dhowi_late_values *late = b->items[ref].late != 0 ? &b->late[b->items[ref].late - 1] : NULL;
        if (late != NULL && late->parameter < 0 && late->make == NULL && late->step.out == ref &&
            dhowi_storage_is_missing(b->items[ref].tensor->storage)) {
            late->value = value;
            continue;
        }
        DHOWI_TRY(dhowi_known_values(b, ref, &values));
        dhowi_keep_value(b, ref, value);
    }
    return DHOW_OK;
}

static bool is_kept(const dhowi_lowering *b, const dhowi_node *node) {
    for (uint32_t i = 0; i < node->out_count; i++) {
        if (node->out[i] >= 0 && !b->model->values[node->out[i]].known) return false;
    }
    return node->out_count > 0;
}

/* ---- nodes ---- */

/* Their codes would be taken for numbers. */
static dhow_status refuse_small(const dhowi_lowering *b, const dhowi_node *node, uint32_t i,
                                int32_t ref) {
    const int32_t encoding = ref >= 0 ? dhowi_desc_at(b, ref)->encoding : 0;
    if (encoding == 0 || (node->op->takes & DHOWI_TAKES_SMALL) != 0) return DHOW_OK;
    return dhowi_fail(DHOW_UNSUPPORTED,
                      "its input %u is of type %s, which dhow converts and moves but does not "
                      "compute with: put a Cast or DequantizeLinear before it",
                      i, dhowi_onnx_type_name(encoding));
}

static dhow_status find_inputs(dhowi_lowering *b, const dhowi_node *node, int32_t *refs) {
    if (node->in_count < node->op->least || node->in_count > node->op->most) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "it has %u inputs, the operator takes %u to %u",
                          node->in_count, node->op->least, node->op->most);
    }
    /* Operators of any number of inputs have none that may be left out, but those of no least
     * number, which look themselves. */
    const bool all = node->op->least > 0 && node->op->most == DHOWI_MAX_OUTPUTS_OF_NODE;
    for (uint32_t i = 0; i < node->in_count; i++) {
        DHOWI_TRY(dhowi_ref_of(b, node->in[i], &refs[i]));
        if (refs[i] < 0 && (all || i < node->op->least))
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "its input %u is missing", i);
        dhow_datum_kind kind = refs[i] >= 0 ? dhowi_kind_of(b, refs[i]) : DHOW_DATUM_TENSOR;
        if (kind != DHOW_DATUM_TENSOR && (node->op->takes & 1u << kind) == 0)
            return dhowi_fail(DHOW_UNSUPPORTED, "its input %u is %s; dhow has it for tensors%s", i,
                              dhowi_datum_kind_text(kind),
                              (node->op->takes & ~(uint32_t)DHOWI_TAKES_SMALL) != 0
                                  ? " and some others"
                                  : " only");
        DHOWI_TRY(refuse_small(b, node, i, refs[i]));
    }
    return DHOW_OK;
}

static dhow_status call_operator(dhowi_lowering *b, const dhowi_node *node, int32_t *refs) {
    b->node = node;
    b->in = refs;
    b->in_count = node->in_count;
    b->out_count = DHOWI_MIN(node->out_count, (uint32_t)DHOWI_MAX_OUTPUTS_OF_NODE);
    for (uint32_t i = 0; i < b->out_count; i++) b->out[i] = -1;
    dhowi_misread own = {NULL, DHOWI_ATTRIBUTE_ANY}, *outer = b->misread;
    b->misread = &own;
    dhow_status status = node->op->lower(b);
    b->misread = outer;
    b->in = NULL;
    return own.attribute != NULL ? dhowi_refuse_misread(&own) : status;
}

/* How far a lowering has come. */
typedef struct mark {
    uint32_t steps, buffers, items;
} mark;

/* Back to a mark. Items stay, since values may be known by them, but not what is in no buffer. */
static dhow_status go_back(dhowi_lowering *b, const mark *m) {
    b->step_count = m->steps;
    b->buffer_count = m->buffers;
    for (uint32_t i = 0; i < b->item_count; i++) {
        dhowi_item *item = &b->items[i];
        if (i < m->items && item->twin > (int32_t)m->items) item->twin = 0;
        if (i >= m->items && item->buffer >= (int32_t)m->buffers) item->buffer = -1;
    }
    const dhowi_item *wanted = &b->items[b->wanted];
    if (wanted->buffer >= 0) return DHOWI_NEEDS_VALUES;
    return dhowi_fail(DHOW_INTERNAL, "it needs values that it computes itself");
}

dhow_status dhowi_lower_node(dhowi_lowering *b, const dhowi_node *node) {
    char text[160];
    if (is_kept(b, node)) return DHOW_OK; /* its readers make items of the values */
    DHOWI_TRY(dhowi_stop_check());
    int32_t refs[DHOWI_MAX_OUTPUTS_OF_NODE];
    bool half = false;
    dhow_dtype wide = 0;
    dhow_status status = find_inputs(b, node, refs);
    /* Casts come before the mark: a node that is lowered again finds them. */
    if (status == DHOW_OK) status = dhowi_take_half(b, node, refs, &half);
    if (status == DHOW_OK) status = dhowi_take_wide(b, node, refs, &wide);
    const mark before = {b->step_count, b->buffer_count, b->item_count};
    if (status == DHOW_OK) status = call_operator(b, node, refs);
    if (status == DHOWI_NEEDS_VALUES &&
        (node->branch[0] != NULL || dhowi_find_frame(b, node) != NULL))
        return status;
    if (status == DHOWI_NEEDS_VALUES)
        status = go_back(b, &before); /* lowered again from the start */
    if (status == DHOWI_NEEDS_VALUES) return status;
    if (status != DHOW_OK)
        return dhowi_fail_prefix(status, "%s", dhowi_node_text(node, text, sizeof text));
    for (uint32_t i = 0; i < b->out_count && half; i++)
        if (b->out[i] >= 0) dhowi_mark_half(b, b->out[i]);
    for (uint32_t i = 0; i < b->out_count && wide != 0; i++)
        if (b->out[i] >= 0) dhowi_mark_wide(b, node, i, wide);
    for (uint32_t i = 0; i < node->out_count; i++) {
        if (node->out[i] < 0) continue;
        if (i >= b->out_count || b->out[i] < 0) {
            return dhowi_fail(DHOW_UNSUPPORTED, "%s: its output %u is not computed",
                              dhowi_node_text(node, text, sizeof text), i);
        }
        b->refs[node->out[i]] = b->out[i];
    }
    return keep_known(b, node);
}

static bool is_lowered(const dhowi_lowering *b, const dhowi_node *node) {
    for (uint32_t i = 0; i < node->out_count; i++) {
        if (node->out[i] >= 0 && b->refs[node->out[i]] < 0) return false;
    }
    return node->out_count > 0;
}

/* A branch goes on where it stopped to look at values. */
dhow_status dhowi_lower_branch(dhowi_lowering *b, const dhowi_subgraph *graph) {
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (!is_lowered(b, &graph->nodes[i])) DHOWI_TRY(dhowi_lower_node(b, &graph->nodes[i]));
    }
    for (uint32_t i = 0; (b->half != 0 || b->widens) && i < graph->output_count; i++) {
        DHOWI_TRY(dhowi_end_half(b, graph->outputs[i]));
        DHOWI_TRY(dhowi_end_wide(b, graph->outputs[i]));
    }
    return DHOW_OK;
}
