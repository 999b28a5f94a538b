/* SPDX-License-Identifier: Apache-2.0
 *
 * Caches: an output that a run has given the very tensor of an input for is written in place, where
 * the model copies that input and changes parts of the copy. Nothing else reads the input from the
 * first change on.
 */
#include <string.h>

#include "base/errors/planted.h"
#include "base/memory/size.h"
#include "kernel/optimise.h"
#include "model/plan/maker.h"
#include "stream/stream.h"
#include "tensor/tensor.h"

/* ---- in place ---- */

static bool reads(const dhowi_lowering *b, const dhowi_step *s, int32_t buffer) {
    for (int i = 0; i < DHOWI_OP_MAX_INPUTS; i++) {
        if (s->in[i] >= 0 && !dhowi_is_known(b, s->in[i]) && b->items[s->in[i]].buffer == buffer)
            return true;
    }
    return false;
}

static bool is_whole(const dhowi_lowering *b, const dhowi_item *item) {
    return item->tensor == NULL && item->contiguous && item->offset == 0 &&
           b->buffers[item->buffer].bytes ==
               (uint64_t)dhowi_count_of(&item->desc) * dhow_dtype_bytes(item->desc.dtype);
}

static int32_t buffer_of_input(const dhowi_lowering *b, uint32_t input) {
    for (uint32_t i = 0; i < b->buffer_count; i++)
        if (b->buffers[i].external == 1 + (int32_t)input) return (int32_t)i;
    return -1;
}

/* The step that copies all of one buffer to another, which nothing has written before; -1. */
static int32_t copy_between(const dhowi_lowering *b, uint32_t first_step, int32_t from,
                            int32_t to) {
    for (uint32_t i = 0; i < b->step_count; i++) {
        const dhowi_step *s = &b->steps[i];
        if (!dhowi_step_writes(b, s, to)) continue;
        const bool copies = i >= first_step && s->op == DHOWI_OP_copy && reads(b, s, from) &&
                            is_whole(b, &b->items[s->in[0]]) && is_whole(b, &b->items[s->out]) &&
                            !s->on_host;
        return copies ? (int32_t)i : -1;
    }
    return -1;
}

/* Whether `from` is read from the first change of `to` behind the copy on, or given as a result. */
static bool is_read_later(const dhowi_lowering *b, int32_t copy, int32_t from, int32_t to) {
    bool changed = false;
    for (uint32_t i = (uint32_t)copy + 1; i < b->step_count; i++) {
        changed = changed || dhowi_step_writes(b, &b->steps[i], to);
        if (changed && reads(b, &b->steps[i], from)) return true;
    }
    return false;
}

static int results_of(const dhowi_lowering *b, int32_t buffer) {
    int count = 0;
    for (uint32_t i = 0; i < b->result_count; i++) {
        const dhowi_item *item = &b->items[b->results[i]];
        count += item->kind == DHOW_DATUM_TENSOR && item->tensor == NULL && item->buffer == buffer;
    }
    return count;
}

static bool write_in_place(dhowi_lowering *b, uint32_t first_step, uint32_t output,
                           uint32_t input) {
    const dhowi_item *item = &b->items[b->results[output]];
    const int32_t from = buffer_of_input(b, input), to = item->buffer;
    if (from < 0 || item->tensor != NULL || !is_whole(b, item) || to == from ||
        b->buffers[to].external != 0)
        return false;
    const int32_t copy = copy_between(b, first_step, from, to);
    if (copy < 0 || !DHOWI_GUARD(cache_read_after_writing, !is_read_later(b, copy, from, to)) ||
        !DHOWI_GUARD(cache_given_as_it_was, results_of(b, from) == 0) || results_of(b, to) != 1)
        return false; /* further results of `to` would be views of what the caller has */
    dhowi_move_views(b, to, from, 0);
    b->step_count--;
    memmove(&b->steps[copy], &b->steps[copy + 1],
            (b->step_count - (uint32_t)copy) * sizeof *b->steps);
    return true;
}

void dhowi_write_caches(dhowi_maker *k, uint32_t first_step) {
    const dhowi_run_io *io = k->io;
    if (io == NULL || io->shares == NULL || !dhowi_optimises(DHOWI_OPTIMISE_CACHES)) return;
    for (uint32_t i = 0; i < k->b->result_count; i++) {
        if (io->shares[i] == 0) continue;
        k->plan->in_place[i] = write_in_place(k->b, first_step, i, io->shares[i] - 1);
    }
}

/* ---- numbers that lead out of a cache ---- */

enum { FEW = 64 };

static dhow_status check_numbers(const dhowi_bounds *r, dhow_tensor *t) {
    int64_t few[FEW];
    dhow_tensor *wide = NULL, *host = NULL;
    void *data = few;
    char text[160];
    dhow_status status = DHOW_OK;
    if (t->dtype == DHOW_I64 && t->count <= FEW) {
        status = dhow_tensor_read(t, few, (uint64_t)t->count * sizeof *few);
    } else {
        dhow_device *cpu = t->storage->device->context->cpu;
        status = dhowi_host_copy(t, &host);
        if (status == DHOW_OK) status = dhowi_tensor_new(cpu, DHOW_I64, t->rank, t->shape, &wide);
        if (status == DHOW_OK) status = dhow_cast(NULL, host, wide);
        if (status == DHOW_OK) status = dhow_tensor_host_ptr(wide, &data);
    }
    if (status == DHOW_OK) {
        status = dhowi_check_bounds(data, (uint32_t)t->count, r);
        if (status != DHOW_OK)
            status = dhowi_fail_prefix(status, "%s", dhowi_node_text(r->node, text, sizeof text));
    }
    dhow_tensor_release(wide);
    dhow_tensor_release(host);
    return status;
}

/* An operator may take a part of an input: other numbers of it are none of its. */
static dhow_status check(const dhowi_lowering *b, const dhowi_bounds *r, dhow_tensor *t) {
    const dhowi_item *item = &b->items[r->item];
    dhow_tensor *part;
    if (item->contiguous && item->offset == 0 && dhowi_count_of(&item->desc) == t->count)
        return check_numbers(r, t);
    DHOWI_TRY(dhowi_tensor_view(t->storage, t->dtype, item->desc.rank, item->desc.shape,
                                item->strides, t->offset + item->offset, &part));
    const dhow_status status = check_numbers(r, part);
    dhow_tensor_release(part);
    return status;
}

dhow_status dhowi_check_lengths(const dhowi_maker *k) {
    const dhow_context *context = k->m->context;
    /* Elsewhere that would wait for the device, which a stream that records cannot. */
    if (k->m->device != context->cpu && (!context->validate || k->io->stream->recording != NULL))
        return DHOW_OK;
    for (uint32_t i = 0; i < k->b->bound_count; i++)
        DHOWI_TRY(check(k->b, &k->b->bounds[i], k->io->inputs[k->b->bounds[i].slot]));
    return DHOW_OK;
}
