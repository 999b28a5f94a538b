/* SPDX-License-Identifier: Apache-2.0
 *
 * Making plans, see plan.h.
 */
#include <string.h>

#include "base/memory/alloc.h"
#include "kernel/optimise.h"
#include "model/codes/codes.h"
#include "model/passes/passes.h"
#include "model/plan/maker.h"

/* ---- making ---- */

/* The plan keeps the values that it was made for. */
static dhow_status take_values(dhowi_lowering *b, const dhowi_item *item) {
    const int64_t count = dhowi_count_of(&item->desc);
    const size_t element_bytes = dhow_dtype_bytes(item->desc.dtype);
    char text[160];
    dhow_status status = dhowi_host_room(b, count, element_bytes);
    if (status == DHOW_OK)
        status =
            dhowi_take_memory(b, (uint64_t)count * element_bytes, "a value that the plan keeps");
    if (status == DHOW_OK || b->node == NULL) return status;
    return dhowi_fail_prefix(status, "%s", dhowi_node_text(b->node, text, sizeof text));
}

static dhow_status optimise(dhowi_lowering *b, uint32_t first_step) {
    DHOWI_TRY(dhowi_fuse(b, first_step));
    DHOWI_TRY(dhowi_join_codes(b, first_step));
    return dhowi_optimises(DHOWI_OPTIMISE_LAYOUTS) ? dhowi_use_blocks(b, first_step) : DHOW_OK;
}

/* Of a segment that others follow. In the middle of a loop its frame reads values, too. */
static dhow_status optimise_segment(dhowi_maker *k, uint32_t node, uint32_t first_step) {
    if (k->b->frames != NULL || !dhowi_optimises(DHOWI_OPTIMISE_SEGMENTS)) return DHOW_OK;
    DHOWI_TRY(dhowi_find_read(k, node));
    const dhow_status status = optimise(k->b, first_step);
    k->b->result_count = 0;
    return status;
}

/* Ends the segment at the wanted item, which a node needs: runs what there is so far and reads it.
 */
static dhow_status look_at_values(dhowi_maker *k, uint32_t node, uint32_t *first_step) {
    dhowi_lowering *b = k->b;
    dhowi_item *item = &b->items[b->wanted];
    dhowi_segment *seg;
    int32_t external = b->buffers[item->buffer].external;
    if (k->io == NULL) return DHOWI_NEEDS_VALUES; /* a run may bind its tensors otherwise */
    if (external > 0) { /* an input: it becomes part of the key, and the plan is made anew */
        uint32_t input = (uint32_t)external - 1;
        if (k->io->values != NULL) input = k->io->owners[input];
        atomic_store_explicit(&k->m->values[k->m->inputs[input]].keyed, true, memory_order_relaxed);
        return DHOWI_NEEDS_VALUES;
    }
    DHOWI_TRY(take_values(b, item));
    DHOWI_TRY(optimise_segment(k, node, *first_step));
    item = &b->items[b->wanted];
    for (uint32_t i = 0; i < b->buffer_count; i++) b->buffers[i].kept = true;
    DHOWI_TRY(dhowi_close_segment(k, *first_step, &seg));
    *first_step = b->step_count;
    DHOWI_TRY(dhowi_check_lengths(k));
    dhowi_output_groups *groups = k->io->groups; /* what is not written yet is told of later */
    k->io->groups = NULL;
    const dhow_status status = dhowi_segment_run(k->m, k->plan, k->plan->segment_count - 1, k->io);
    k->io->groups = groups;
    DHOWI_TRY(status);
    DHOWI_TRY(dhowi_plan_tensor(k, seg, b->wanted, &seg->guard));
    DHOWI_TRY(dhowi_host_copy(seg->guard, &seg->guard_host));
    item->tensor = seg->guard_host;
    dhowi_handle_retain(&item->tensor->handle);
    memcpy(item->strides, seg->guard_host->strides, sizeof item->strides);
    item->offset = 0;
    item->contiguous = true;
    return DHOW_OK;
}

static dhow_status lower_all(dhowi_maker *k, uint32_t *first_step) {
    const dhowi_subgraph *g = &k->m->graph;
    for (uint32_t i = 0; i < g->node_count;) {
        dhow_status status = dhowi_lower_node(k->b, &g->nodes[i]);
        if (status == DHOWI_NEEDS_VALUES) {
            DHOWI_TRY(look_at_values(k, i, first_step));
            continue;
        }
        DHOWI_TRY(status);
        i++;
    }
    return DHOW_OK;
}

static dhow_status make(dhowi_maker *k) {
    uint32_t first_step = 0;
    dhowi_segment *seg;
    DHOWI_TRY(dhowi_plan_inputs(k));
    DHOWI_TRY(lower_all(k, &first_step));
    DHOWI_TRY(dhowi_find_results(k));
    DHOWI_TRY(optimise(k->b, first_step));
    dhowi_write_caches(k, first_step);
    for (uint32_t i = 0; i < k->b->result_count; i++)
        DHOWI_TRY(dhowi_bind_output(k, i, first_step));
    DHOWI_TRY(dhowi_check_lengths(k));
    DHOWI_TRY(dhowi_new_outputs(k));
    DHOWI_TRY(dhowi_close_segment(k, first_step, &seg));
    DHOWI_TRY(dhowi_drop_unread(k->b));
    dhowi_model_end_move(k->m);
    return dhowi_segment_run(k->m, k->plan, k->plan->segment_count - 1, k->io);
}

static void end_maker(dhowi_maker *k) {
    k->b->shares = NULL; /* of the run */
    k->b->share_count = 0;
    dhowi_free(k->storages);
    dhowi_free(k->offsets);
}

dhow_status dhowi_plan_make(dhow_model *m, dhowi_run_io *io, const int64_t *key,
                            uint32_t key_length, dhowi_model_plan **out) {
    *out = NULL;
    dhowi_model_plan *plan = dhowi_alloc(sizeof *plan);
    if (plan == NULL) return dhowi_fail_memory("plan");
    dhowi_maker k = {.m = m, .io = io, .plan = plan, .b = &plan->lowering};
    plan->key = dhowi_alloc_array((size_t)key_length + 1, sizeof *plan->key);
    dhow_status status = plan->key != NULL ? DHOW_OK : dhowi_fail_memory("plan");
    if (status == DHOW_OK) {
        memcpy(plan->key, key, key_length * sizeof *key);
        plan->key_length = key_length;
        status = make(&k);
    }
    end_maker(&k);
    if (status != DHOW_OK) {
        dhowi_plan_end(plan);
        return status;
    }
    *out = plan;
    return DHOW_OK;
}

/* ---- a trial ---- */

dhow_status dhowi_plan_trial(dhow_model *m) {
    dhowi_lowering b = {.dry = true};
    dhowi_model_plan plan = {0};
    dhowi_maker k = {.m = m, .plan = &plan, .b = &b};
    uint32_t first_step = 0;
    for (uint32_t i = 0; i < m->input_count; i++) {
        const dhowi_value *v = &m->values[m->inputs[i]];
        bool open = v->desc.rank < 0 || v->keyed || v->form != DHOW_DATUM_TENSOR || v->optional;
        for (int32_t d = 0; d < v->desc.rank; d++) open = open || v->desc.shape[d] < 0;
        if (open) return DHOW_OK; /* the first run finds out */
    }
    dhow_status status = dhowi_plan_inputs(&k);
    if (status == DHOW_OK) status = lower_all(&k, &first_step);
    if (status == DHOW_OK) status = dhowi_check_steps(&b, 0);
    end_maker(&k);
    dhowi_lowering_end(&b);
    return status == DHOWI_NEEDS_VALUES ? DHOW_OK : status;
}

/* ---- replaying ---- */

/* Whether the values that the next segment was made for are there again. */
static dhow_status check_guard(const dhowi_segment *seg, bool *stale) {
    dhow_tensor *now;
    void *p, *q;
    DHOWI_TRY(dhowi_host_copy(seg->guard, &now));
    dhow_status status = dhow_tensor_host_ptr(now, &p);
    if (status == DHOW_OK) status = dhow_tensor_host_ptr(seg->guard_host, &q);
    if (status == DHOW_OK) *stale = memcmp(p, q, dhowi_tensor_bytes(now)) != 0;
    dhow_tensor_release(now);
    return status;
}

dhow_status dhowi_plan_replay(dhow_model *m, dhowi_model_plan *plan, dhowi_run_io *io,
                              bool *stale) {
    dhowi_maker k = {.m = m, .io = io, .plan = plan, .b = &plan->lowering};
    *stale = false;
    DHOWI_TRY(dhowi_check_lengths(&k));
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        if (i + 1 == plan->segment_count) DHOWI_TRY(dhowi_new_outputs(&k));
        DHOWI_TRY(dhowi_segment_run(m, plan, i, io));
        if (plan->segments[i].guard == NULL) continue;
        DHOWI_TRY(check_guard(&plan->segments[i], stale));
        if (*stale) return DHOW_OK;
    }
    plan->runs++;
    return DHOW_OK;
}

/* ---- ending ---- */

void dhowi_plan_end(dhowi_model_plan *plan) {
    if (plan == NULL) return;
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        dhowi_segment *seg = &plan->segments[i];
        /* Commands still running may read constants of the plan. */
        if (seg->arena != NULL) (void)dhowi_hazard_wait(&seg->arena->hazard, DHOW_ACCESS_WRITE);
        dhowi_segment_end_graphs(seg->recorder.sink.device, seg);
        dhow_tensor_release(seg->guard);
        dhow_tensor_release(seg->guard_host);
        if (seg->arena != NULL) dhowi_storage_release(seg->arena);
        dhowi_free(seg->relocations);
        dhowi_free(seg->nanoseconds);
        dhowi_free(seg->uses);
        dhowi_recorder_end(&seg->recorder);
    }
    dhowi_lowering_end(&plan->lowering);
    dhowi_free(plan->segments);
    dhowi_free(plan->outputs);
    dhowi_free(plan->in_place);
    dhowi_free(plan->key);
    dhowi_free(plan);
}

void dhowi_plans_end(dhow_model *m) {
    while (m->plans != NULL) {
        dhowi_model_plan *next = m->plans->next;
        dhowi_plan_end(m->plans);
        m->plans = next;
    }
}
