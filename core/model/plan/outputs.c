/* SPDX-License-Identifier: Apache-2.0
 *
 * The outputs of a plan: where results lie, and the caller's tensors for them.
 */
#include "base/errors/planted.h"
#include "base/memory/alloc.h"
#include "base/memory/array.h"
#include "model/plan/maker.h"

static dhow_status add_result(dhowi_lowering *b, int32_t ref) {
    const dhowi_item *item = &b->items[ref];
    if (item->kind == DHOW_DATUM_SEQUENCE) {
        for (uint32_t i = 0; i < item->count; i++) {
            if (dhowi_kind_of(b, dhowi_elements(b, ref)[i]) == DHOW_DATUM_TENSOR)
                DHOWI_TRY(add_result(b, dhowi_elements(b, ref)[i]));
        }
    }
    if (item->kind != DHOW_DATUM_TENSOR) return DHOW_OK;
    if (!dhowi_room((void **)&b->results, b->result_count, &b->result_capacity, sizeof *b->results))
        return dhowi_fail_memory("plan");
    b->results[b->result_count++] = ref;
    return DHOW_OK;
}

dhow_status dhowi_find_results(dhowi_maker *k) {
    for (uint32_t i = 0; i < k->m->output_count; i++) {
        int32_t ref;
        DHOWI_TRY(dhowi_end_half(k->b, k->m->outputs[i]));
        DHOWI_TRY(dhowi_end_wide(k->b, k->m->outputs[i]));
        DHOWI_TRY(dhowi_ref_of(k->b, k->m->outputs[i], &ref));
        dhow_datum_kind kind = dhowi_kind_of(k->b, ref);
        if (k->io->results == NULL && kind != DHOW_DATUM_TENSOR) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "output '%.64s' is %s, no tensor: dhow_model_run_data() gives it",
                              k->m->output_names[i], dhowi_datum_kind_text(kind));
        }
        DHOWI_TRY(add_result(k->b, ref));
    }
    const size_t count = (size_t)k->b->result_count + 1;
    k->plan->outputs = dhowi_alloc_array(count, sizeof(dhowi_tensor_desc));
    k->plan->in_place = dhowi_alloc_array(count, sizeof(bool));
    return k->plan->outputs != NULL && k->plan->in_place != NULL ? DHOW_OK
                                                                 : dhowi_fail_memory("plan");
}

/* ---- what later segments read ---- */

/* With what belongs to it: an operator may read that in its place. */
static dhow_status add_live(dhowi_lowering *b, int32_t ref) {
    if (ref < 0) return DHOW_OK;
    DHOWI_TRY(add_result(b, ref));
    const dhowi_item *item = &b->items[ref];
    const int32_t beside[] = {item->twin - 1, item->codes - 1, item->zero - 1, item->scale - 1,
                              item->padding != 0 ? b->paddings[item->padding - 1].of : -1};
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        if (beside[i] >= 0) DHOWI_TRY(add_result(b, beside[i]));
    return DHOW_OK;
}

static dhow_status add_read(dhowi_maker *k, const dhowi_subgraph *g, uint32_t first) {
    for (uint32_t i = first; i < g->node_count; i++) {
        const dhowi_node *n = &g->nodes[i];
        for (uint32_t j = 0; j < n->in_count; j++)
            if (!DHOWI_GUARD(read_after_the_segment, n->in[j] < 0))
                DHOWI_TRY(add_live(k->b, k->b->refs[n->in[j]]));
        for (int j = 0; j < 2; j++)
            if (n->branch[j] != NULL) DHOWI_TRY(add_read(k, n->branch[j], 0));
    }
    for (uint32_t i = 0; i < g->output_count; i++)
        DHOWI_TRY(add_live(k->b, k->b->refs[g->outputs[i]]));
    return DHOW_OK;
}

dhow_status dhowi_find_read(dhowi_maker *k, uint32_t first_node) {
    DHOWI_TRY(add_live(k->b, k->b->wanted));
    DHOWI_TRY(add_read(k, &k->m->graph, first_node));
    for (uint32_t i = 0; i < k->m->output_count; i++)
        DHOWI_TRY(add_live(k->b, k->b->refs[k->m->outputs[i]]));
    return DHOW_OK;
}

/* ---- outputs ---- */

static const dhowi_node *node_of(const dhowi_lowering *b, const dhowi_subgraph *g, int32_t ref) {
    for (uint32_t i = 0; i < g->node_count; i++) {
        const dhowi_node *n = &g->nodes[i];
        for (uint32_t o = 0; o < n->out_count; o++)
            if (n->out[o] >= 0 && b->refs[n->out[o]] == ref) return n;
    }
    return NULL;
}

/* The caller's tensor holds an input that is read while the result is made: it is copied there in
 * the end. */
static bool is_busy(const dhowi_maker *k, uint32_t i) {
    return k->io->shares != NULL && k->io->shares[i] != 0 && !k->plan->in_place[i];
}

/* Counts the memory of a result that the caller has brought no tensor for. */
static dhow_status take_output(dhowi_maker *k, uint32_t i) {
    dhowi_lowering *b = k->b;
    const dhowi_tensor_desc *desc = &b->items[b->results[i]].desc;
    if (i < k->io->output_count && k->io->outputs[i] != NULL && !is_busy(k, i)) return DHOW_OK;
    const uint64_t bytes = (uint64_t)dhowi_count_of(desc) * dhow_dtype_bytes(desc->dtype);
    return dhowi_take_memory(b, bytes, "an output");
}

static dhow_status bind_output(dhowi_maker *k, uint32_t i, uint32_t first_step) {
    dhowi_lowering *b = k->b;
    int32_t ref = b->results[i], copy;
    k->plan->outputs[i] = b->items[ref].desc;
    DHOWI_TRY(take_output(k, i));
    if (k->plan->in_place[i]) return DHOW_OK;
    int64_t count = dhowi_count_of(&b->items[ref].desc);
    const dhowi_item *item = &b->items[ref];
    bool own =
        item->tensor == NULL && item->contiguous && item->offset == 0 &&
        b->buffers[item->buffer].external == 0 &&
        b->buffers[item->buffer].bytes == (uint64_t)count * dhow_dtype_bytes(item->desc.dtype);
    bool made_here = false; /* by the last segment */
    for (uint32_t s = first_step; own && s < b->step_count; s++) {
        int32_t out = b->steps[s].out, second = b->steps[s].second;
        made_here = made_here || b->items[out].buffer == item->buffer ||
                    (second >= 0 && b->items[second].buffer == item->buffer);
    }
    if (count == 0) return DHOW_OK;
    if (own && made_here) {
        b->buffers[item->buffer].external = -1 - (int32_t)i;
        return DHOW_OK;
    }
    const dhowi_tensor_desc desc = item->desc;
    b->node = NULL;
    DHOWI_TRY(dhowi_blank(b, &desc, &copy));
    b->buffers[b->items[copy].buffer].external = -1 - (int32_t)i;
    return dhowi_emit_into(b, DHOWI_OP_copy, &ref, 1, NULL, copy);
}

dhow_status dhowi_bind_output(dhowi_maker *k, uint32_t i, uint32_t first_step) {
    const int32_t ref = k->b->results[i];
    dhow_status status = bind_output(k, i, first_step);
    if (status == DHOW_OK) return DHOW_OK;
    const dhowi_node *node = node_of(k->b, &k->m->graph, ref);
    char text[160];
    if (node == NULL) return status;
    return dhowi_fail_prefix(status, "%s", dhowi_node_text(node, text, sizeof text));
}

static dhow_status grow_outputs(dhowi_run_io *io, uint32_t count) {
    if (io->results == NULL || count <= io->output_count) return DHOW_OK;
    dhow_tensor **grown = dhowi_realloc_array(io->outputs, count, sizeof(dhow_tensor *));
    if (grown == NULL) return dhowi_fail_memory("dhow_model_run_data");
    for (uint32_t i = io->output_count; i < count; i++) grown[i] = NULL;
    io->outputs = grown;
    io->output_count = count;
    return DHOW_OK;
}

static const char *name_of_result(const dhowi_maker *k, uint32_t i) {
    return k->io->results != NULL ? "of a sequence" : k->m->output_names[i];
}

dhow_status dhowi_new_outputs(dhowi_maker *k) {
    DHOWI_TRY(grow_outputs(k->io, k->b->result_count));
    for (uint32_t i = 0; i < k->b->result_count; i++) {
        const dhowi_tensor_desc *desc = &k->plan->outputs[i];
        dhow_tensor **out = &k->io->outputs[i];
        if (is_busy(k, i)) {
            dhow_tensor_release(*out);
            *out = NULL;
        }
        if (*out == NULL) {
            DHOWI_TRY(dhowi_tensor_new(k->m->device, desc->dtype, desc->rank, desc->shape, out));
            continue;
        }
        if ((*out)->dtype == desc->dtype &&
            dhowi_shape_equal((*out)->rank, (*out)->shape, desc->rank, desc->shape))
            continue;
        char p[192], q[160];
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "output '%.64s' is %s, the result is %s",
                          name_of_result(k, i), dhowi_tensor_text(*out, p, sizeof p),
                          dhowi_desc_text(desc, q, sizeof q));
    }
    return DHOW_OK;
}
