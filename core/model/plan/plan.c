/* SPDX-License-Identifier: Apache-2.0
 *
 * Making plans, see plan.h.
 */
#include "model/plan/plan.h"

#include <string.h>

#include "base/errors/planted.h"
#include "base/memory/alloc.h"
#include "base/memory/array.h"
#include "base/memory/size.h"
#include "model/passes/passes.h"
#include "ops/run/optimise.h"

typedef struct maker {
    dhow_model *m;
    dhowi_run_io *io;
    dhowi_plan_of_model *plan;
    dhowi_lowering *b;
    dhowi_storage **storages; /* of buffers: a placeholder, or the arena of an earlier segment */
    int64_t *offsets;         /* bytes in it */
    uint32_t storage_count, storage_capacity, offset_capacity;
} maker;

/* ---- inputs ---- */

/* Always a copy: the plan keeps it, while the tensor's values change from run to run. */
static dhow_status host_copy(dhow_tensor *t, dhow_tensor **out) {
    dhow_device *cpu = t->storage->device->context->cpu;
    DHOWI_TRY(dhowi_tensor_new(cpu, t->dtype, t->rank, t->shape, out));
    dhow_status status = t->count > 0 ? dhow_copy(t, *out) : DHOW_OK;
    if (status != DHOW_OK) dhow_tensor_release(*out);
    return status;
}

/* An input is a buffer that the caller fills; one whose values decide the plan is known. */
static dhow_status begin_tensor(maker *k, uint32_t slot, bool keyed, const dhowi_spec *declared,
                                int32_t *ref) {
    dhowi_spec spec = *declared;
    dhow_tensor *host;
    if (k->io != NULL) dhowi_spec_of(k->io->inputs[slot], &spec);
    if (keyed && k->io != NULL) {
        DHOWI_TRY(host_copy(k->io->inputs[slot], &host));
        dhow_status status = dhowi_known(k->b, host, -1, ref);
        dhow_tensor_release(host);
        return status;
    }
    DHOWI_TRY(dhowi_blank(k->b, &spec, ref));
    k->b->buffers[k->b->items[*ref].buffer].external = 1 + (int32_t)slot;
    return DHOW_OK;
}

/* Texts are known, and part of the plan's key; a sequence is as long as the one given. */
static dhow_status begin_value(maker *k, const dhowi_value *v, const dhow_datum *given,
                               uint32_t *slot, int32_t *ref) {
    dhowi_lowering *b = k->b;
    int32_t *elements;
    switch (given->kind) {
        case DHOW_DATUM_TEXTS:
            return dhowi_texts(b, (dhow_datum *)(uintptr_t)given, ref);
        case DHOW_DATUM_NOTHING:
            return dhowi_nothing(b, ref);
        case DHOW_DATUM_SEQUENCE:
            DHOWI_TRY(dhowi_sequence(b, (uint32_t)given->count, ref, &elements));
            for (int64_t i = 0; i < given->count; i++)
                DHOWI_TRY(begin_value(k, v, given->items[i], slot, &elements[i]));
            return DHOW_OK;
        default:
            return begin_tensor(k, (*slot)++, v->keyed, &v->spec, ref);
    }
}

static dhow_status begin(maker *k) {
    dhow_model *m = k->m;
    k->b->model = m;
    k->b->device = m->device;
    k->b->refs = dhowi_alloc_array((size_t)m->value_count + 1, sizeof *k->b->refs);
    if (k->b->refs == NULL) return dhowi_fail_memory("plan");
    memset(k->b->refs, 0xff, ((size_t)m->value_count + 1) * sizeof *k->b->refs);
    uint64_t bytes = 0; /* of what is there already: their sum fits an address */
    for (uint32_t i = 0; k->io != NULL && i < k->io->input_count; i++)
        bytes += dhowi_tensor_bytes(k->io->inputs[i]);
    dhowi_limit_host(k->b, bytes);
    for (uint32_t i = 0, slot = 0; i < m->input_count; i++) {
        const dhowi_value *v = &m->values[m->inputs[i]];
        int32_t *ref = &k->b->refs[m->inputs[i]];
        if (k->io != NULL && k->io->values != NULL) {
            DHOWI_TRY(begin_value(k, v, k->io->values[i], &slot, ref));
        } else {
            DHOWI_TRY(begin_tensor(k, i, v->keyed, &v->spec, ref));
        }
    }
    return DHOW_OK;
}

/* ---- recording ---- */

static dhow_status storage_of(maker *k, dhowi_segment *seg, int32_t buffer, dhowi_storage **out) {
    while (k->storage_count <= (uint32_t)buffer) {
        if (!dhowi_room((void **)&k->storages, k->storage_count, &k->storage_capacity,
                        sizeof *k->storages) ||
            !dhowi_room((void **)&k->offsets, k->storage_count, &k->offset_capacity,
                        sizeof *k->offsets))
            return dhowi_fail_memory("plan");
        k->storages[k->storage_count] = NULL;
        k->offsets[k->storage_count++] = 0;
    }
    *out = k->storages[buffer];
    if (*out != NULL) return DHOW_OK;
    const dhowi_buffer *own = &k->b->buffers[buffer];
    DHOWI_TRY(
        seg->recorder.sink.storage(&seg->recorder.sink, DHOWI_MAX(own->bytes, (uint64_t)1), out));
    dhowi_storage_release(*out); /* the recorder's reference stays */
    dhowi_place *place = &seg->recorder.places[seg->recorder.place_count - 1];
    place->external = own->external != 0;
    place->buffer = buffer;
    const bool shares = dhowi_optimises(DHOWI_OPTIMISE_ARENA);
    place->first = own->first < 0 || !shares ? 0 : (uint32_t)own->first;
    place->last = own->kept || !shares ? UINT32_MAX : (uint32_t)DHOWI_MAX(own->last, own->first);
    k->storages[buffer] = *out;
    return DHOW_OK;
}

/* What is repeated is moved once: a constant of a huge shape may be a single number. */
static dhow_status move_known(dhowi_item *item, dhow_device *device) {
    const dhow_tensor *t = item->tensor;
    int64_t shape[DHOW_MAX_RANK], strides[DHOW_MAX_RANK];
    dhow_tensor *once, *moved;
    bool repeats = false;
    for (int32_t i = 0; i < t->rank; i++) {
        bool still = t->strides[i] == 0 && t->shape[i] > 1;
        repeats = repeats || still;
        shape[i] = still ? 1 : t->shape[i];
    }
    if (!repeats || t->count == 0) return dhow_tensor_to(item->tensor, device, &item->resident);
    DHOWI_TRY(
        dhowi_tensor_view(t->storage, t->dtype, t->rank, shape, t->strides, t->offset, &once));
    dhow_status status = dhow_tensor_to(once, device, &moved);
    dhow_tensor_release(once);
    DHOWI_TRY(status);
    for (int32_t i = 0; i < t->rank; i++)
        strides[i] = shape[i] == t->shape[i] ? moved->strides[i] : 0;
    status = dhowi_tensor_view(moved->storage, t->dtype, t->rank, t->shape, strides, moved->offset,
                               &item->resident);
    dhow_tensor_release(moved);
    return status;
}

/* A known item on the model's device. */
static dhow_status resident_of(maker *k, dhowi_item *item, dhow_tensor **out) {
    *out = item->tensor;
    if (k->m->device == k->m->context->cpu) return DHOW_OK;
    if (item->value >= 0) return dhowi_model_resident(k->m, &k->m->values[item->value], out);
    if (item->resident == NULL) {
        dhowi_sink *sink = dhowi_sink_set(NULL);
        dhow_status status = move_known(item, k->m->device);
        (void)dhowi_sink_set(sink);
        DHOWI_TRY(status);
    }
    *out = item->resident;
    return DHOW_OK;
}

/* A tensor for an item; release it. */
static dhow_status tensor_of(maker *k, dhowi_segment *seg, int32_t ref, dhow_tensor **out) {
    dhowi_item *item = &k->b->items[ref];
    dhowi_storage *storage;
    *out = NULL;
    if (item->tensor != NULL) {
        DHOWI_TRY(resident_of(k, item, out));
        atomic_store_explicit(&(*out)->storage->frozen, true, memory_order_relaxed);
        dhowi_handle_retain(&(*out)->handle);
        return DHOW_OK;
    }
    DHOWI_TRY(storage_of(k, seg, item->buffer, &storage));
    int64_t base = k->offsets[item->buffer] / (int64_t)dhow_dtype_bytes(item->spec.dtype);
    return dhowi_tensor_view(storage, item->spec.dtype, item->spec.rank, item->spec.shape,
                             item->strides, item->offset + base, out);
}

static dhow_status record_step(maker *k, dhowi_segment *seg, dhowi_step *s) {
    dhowi_call call = {.op = dhowi_op_of(s->op), .stream = k->io->stream, .attrs = &s->attrs};
    dhow_tensor *out = NULL, *second = NULL;
    dhow_status status = DHOW_OK;
    for (int i = 0; i < DHOWI_OP_MAX_INPUTS && status == DHOW_OK; i++) {
        if (s->in[i] < 0) continue;
        if (s->elsewhere && dhowi_is_known(k->b, s->in[i])) {
            call.in[i] = k->b->items[s->in[i]].tensor;
            dhowi_handle_retain(&call.in[i]->handle);
        } else {
            status = tensor_of(k, seg, s->in[i], &call.in[i]);
        }
    }
    if (status == DHOW_OK) status = tensor_of(k, seg, s->out, &out);
    if (status == DHOW_OK && s->second >= 0) status = tensor_of(k, seg, s->second, &second);
    call.out = out;
    call.second = second;
    if (status == DHOW_OK) {
        (void)dhowi_sink_set(&seg->recorder.sink);
        status = s->elsewhere ? dhowi_record_elsewhere(seg, k->io->stream, k->b, s, &call,
                                                       &k->plan->copied_bytes)
                              : call.op->run(&call);
        (void)dhowi_sink_set(NULL);
    }
    for (int i = 0; i < DHOWI_OP_MAX_INPUTS; i++) dhow_tensor_release(call.in[i]);
    dhow_tensor_release(out);
    dhow_tensor_release(second);
    if (status == DHOW_OK || s->node == NULL) return status;
    char text[160];
    return dhowi_fail_prefix(status, "%s on %s", dhowi_node_text(s->node, text, sizeof text),
                             k->m->device->name);
}

/* Steps that the device has no kernel for are refused, or marked where the caller allows the CPU.
 */
static dhow_status check_steps(dhowi_lowering *b, uint32_t first_step) {
    for (uint32_t i = first_step; i < b->step_count; i++) {
        dhowi_step *s = &b->steps[i];
        dhow_dtype dtype = b->items[s->in[0] >= 0 ? s->in[0] : s->out].spec.dtype;
        if (dtype == DHOW_BOOL) dtype = DHOW_U8;
        dhow_status status = dhowi_op_supported(dhowi_op_of(s->op), dtype, b->device);
        char text[160];
        if (status == DHOW_OK || s->node == NULL) continue;
        s->elsewhere = b->model->placement == DHOW_PLACEMENT_FALLBACK;
        if (s->elsewhere) continue;
        return dhowi_fail_prefix(status, "%s", dhowi_node_text(s->node, text, sizeof text));
    }
    return DHOW_OK;
}

/* ---- lifetimes ---- */

static void use_buffer(dhowi_lowering *b, int32_t ref, int32_t step, bool writes) {
    if (ref < 0 || b->items[ref].tensor != NULL) return;
    dhowi_buffer *buffer = &b->buffers[b->items[ref].buffer];
    if (writes && buffer->first < 0) buffer->first = step;
    if (!DHOWI_GUARD(lives_until_written, false) || writes) buffer->last = step;
}

static void find_lifetimes(dhowi_lowering *b, uint32_t first_step) {
    for (uint32_t i = first_step; i < b->step_count; i++) {
        const dhowi_step *s = &b->steps[i];
        int32_t at = (int32_t)(i - first_step);
        for (int k = 0; k < DHOWI_OP_MAX_INPUTS; k++) use_buffer(b, s->in[k], at, false);
        use_buffer(b, s->out, at, true);
        use_buffer(b, s->second, at, true);
    }
}

/* Buffers of which one took the other's place: now[i] is the buffer that i is, or leads to it. */
static int32_t buffer_now(const int32_t *now, int32_t buffer) {
    while (now[buffer] != buffer) buffer = now[buffer];
    return buffer;
}

/* Whether a step may write its result over operand k, which nobody reads afterwards. */
static bool can_overwrite(const dhowi_lowering *b, const int32_t *now, const dhowi_step *s, int k,
                          int32_t at) {
    const dhowi_item *in = &b->items[s->in[k]], *out = &b->items[s->out];
    if (in->buffer < 0 || in->tensor != NULL) return false;
    const int32_t own = buffer_now(now, in->buffer), result = buffer_now(now, out->buffer);
    const dhowi_buffer *from = &b->buffers[own], *to = &b->buffers[result];
    const bool whole = in->spec.dtype == out->spec.dtype && from->bytes == to->bytes &&
                       DHOWI_GUARD(in_place_of_another_order,
                                   in->contiguous && in->offset == 0 &&
                                       dhowi_shape_equal(in->spec.rank, in->spec.shape,
                                                         out->spec.rank, out->spec.shape));
    bool twice = false; /* another view of it is read as well */
    for (int q = 0; q < DHOWI_MAP_OPERANDS && s->in[q] >= 0; q++) {
        const int32_t other = b->items[s->in[q]].buffer;
        twice = twice ||
                (q != k && s->in[q] != s->in[k] && other >= 0 && buffer_now(now, other) == own);
    }
    return own != result && whole && DHOWI_GUARD(in_place_of_two_views, !twice) &&
           DHOWI_GUARD(in_place_of_an_input, from->external == 0) && !from->kept &&
           DHOWI_GUARD(in_place_and_read_later, from->last == at) && from->first >= 0;
}

static bool takes_place(const dhowi_lowering *b, const int32_t *now, const dhowi_step *s,
                        int32_t at) {
    if (s->op != DHOWI_OP_map || b->items[s->out].buffer < 0) return false;
    const dhowi_item *out = &b->items[s->out];
    const dhowi_buffer *to = &b->buffers[buffer_now(now, out->buffer)];
    return to->external == 0 && !to->kept && to->first == at && out->contiguous && out->offset == 0;
}

/* Elementwise steps write over an input that nobody reads afterwards. */
static dhow_status reuse_inputs(dhowi_lowering *b, uint32_t first_step) {
    int32_t *now = dhowi_alloc_array((size_t)b->buffer_count + 1, sizeof *now);
    if (now == NULL) return dhowi_fail_memory("plan");
    for (uint32_t i = 0; i < b->buffer_count; i++) now[i] = (int32_t)i;
    for (uint32_t i = first_step; i < b->step_count; i++) {
        const dhowi_step *s = &b->steps[i];
        const int32_t at = (int32_t)(i - first_step);
        if (!takes_place(b, now, s, at)) continue;
        for (int k = 0; k < DHOWI_MAP_OPERANDS && s->in[k] >= 0; k++) {
            if (!can_overwrite(b, now, s, k, at)) continue;
            const int32_t own = buffer_now(now, b->items[s->in[k]].buffer);
            const int32_t result = buffer_now(now, b->items[s->out].buffer);
            b->buffers[own].last = b->buffers[result].last;
            now[result] = own;
            break;
        }
    }
    for (uint32_t i = 0; i < b->buffer_count; i++) now[i] = buffer_now(now, (int32_t)i);
    for (uint32_t i = 0; i < b->item_count; i++)
        if (b->items[i].buffer >= 0) b->items[i].buffer = now[b->items[i].buffer];
    dhowi_free(now);
    return DHOW_OK;
}

/* ---- the end of a segment ---- */

typedef struct relocator {
    maker *k;
    dhowi_segment *seg;
    dhow_status status;
} relocator;

static void relocate(void *user, uint64_t *handle, uint64_t *offset) {
    relocator *r = user;
    dhowi_segment *seg = r->seg;
    int32_t index = dhowi_record_place(&seg->recorder, *handle);
    if (index < 0 || r->status != DHOW_OK) return;
    const dhowi_place *place = &seg->recorder.places[index];
    if (!place->external) {
        *handle = seg->arena->native;
        *offset += place->offset;
        return;
    }
    if (!dhowi_room((void **)&seg->relocations, seg->relocation_count, &seg->relocation_capacity,
                    sizeof *seg->relocations)) {
        r->status = dhowi_fail_memory("plan");
        return;
    }
    const int32_t external = r->k->b->buffers[place->buffer].external;
    uint32_t slot =
        external > 0 ? (uint32_t)external - 1 : r->k->io->input_count + (uint32_t)(-external - 1);
    seg->relocations[seg->relocation_count++] = (dhowi_relocation){handle, offset, *offset, slot};
}

static dhow_status give_places(maker *k, dhowi_segment *seg) {
    /* A workspace of cuBLAS, which lies in the arena as well, wants 256 bytes. */
    uint64_t align = DHOWI_MAX((uint64_t)k->m->device->desc.offset_align, (uint64_t)256);
    DHOWI_TRY(dhowi_record_lay_out(&seg->recorder, align, &seg->arena_bytes));
    if (seg->arena_bytes > 0) {
        DHOWI_TRY(dhowi_limit_memory(k->b, seg->arena_bytes, "what its steps share"));
        DHOWI_TRY(dhowi_storage_create(k->m->device, seg->arena_bytes, &seg->arena));
        memcpy(seg->arena->label, "arena of a model", sizeof "arena of a model");
    }
    relocator r = {k, seg, DHOW_OK};
    for (uint32_t i = 0; i < seg->recorder.command_count; i++)
        dhowi_command_buffers(seg->recorder.commands[i], relocate, &r);
    DHOWI_TRY(r.status);
    /* Later segments read what stays. */
    for (uint32_t p = 0; p < seg->recorder.place_count; p++) {
        const dhowi_place *place = &seg->recorder.places[p];
        if (place->buffer < 0) continue;
        k->storages[place->buffer] = place->external ? NULL : seg->arena;
        k->offsets[place->buffer] = (int64_t)place->offset;
    }
    return DHOW_OK;
}

static dhow_status close_segment(maker *k, uint32_t first_step, dhowi_segment **out) {
    dhowi_plan_of_model *plan = k->plan;
    if (!dhowi_room((void **)&plan->segments, plan->segment_count, &plan->segment_capacity,
                    sizeof *plan->segments))
        return dhowi_fail_memory("plan");
    dhowi_segment *seg = *out = &plan->segments[plan->segment_count++];
    *seg = (dhowi_segment){.first_step = first_step};
    dhowi_recorder_init(&seg->recorder, k->m->device);
    if (k->m->device != k->m->context->cpu) DHOWI_TRY(check_steps(k->b, first_step));
    find_lifetimes(k->b, first_step);
    if (dhowi_optimises(DHOWI_OPTIMISE_IN_PLACE)) DHOWI_TRY(reuse_inputs(k->b, first_step));
    seg->step_count = k->b->step_count - first_step;
    for (uint32_t i = 0; i < seg->step_count; i++) {
        DHOWI_TRY(dhowi_stop_check());
        seg->recorder.step = i;
        DHOWI_TRY(record_step(k, seg, &k->b->steps[first_step + i]));
    }
    return give_places(k, seg);
}

/* ---- outputs ---- */

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

static dhow_status find_results(maker *k) {
    for (uint32_t i = 0; i < k->m->output_count; i++) {
        int32_t ref;
        DHOWI_TRY(dhowi_ref_of(k->b, k->m->outputs[i], &ref));
        dhow_datum_kind kind = dhowi_kind_of(k->b, ref);
        if (k->io->results == NULL && kind != DHOW_DATUM_TENSOR) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "output '%.64s' is %s, no tensor: dhow_model_run_data() gives it",
                              k->m->output_names[i], dhowi_datum_kind_text(kind));
        }
        DHOWI_TRY(add_result(k->b, ref));
    }
    k->plan->outputs = dhowi_alloc_array((size_t)k->b->result_count + 1, sizeof(dhowi_spec));
    return k->plan->outputs != NULL ? DHOW_OK : dhowi_fail_memory("plan");
}

/* The buffer of an output becomes the caller's tensor where it is that and nothing else. */
static dhow_status bind_output(maker *k, uint32_t i, uint32_t first_step) {
    dhowi_lowering *b = k->b;
    int32_t ref = b->results[i], copy;
    k->plan->outputs[i] = b->items[ref].spec;
    int64_t count = dhowi_count_of(&b->items[ref].spec);
    const dhowi_item *item = &b->items[ref];
    bool own =
        item->tensor == NULL && item->contiguous && item->offset == 0 &&
        b->buffers[item->buffer].external == 0 &&
        b->buffers[item->buffer].bytes == (uint64_t)count * dhow_dtype_bytes(item->spec.dtype);
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
    const dhowi_spec spec = item->spec;
    b->node = NULL;
    DHOWI_TRY(dhowi_blank(b, &spec, &copy));
    b->buffers[b->items[copy].buffer].external = -1 - (int32_t)i;
    return dhowi_emit_into(b, DHOWI_OP_copy, &ref, 1, NULL, copy);
}

/* ---- making ---- */

/* Ends the segment at the wanted item: runs what there is so far and reads it. */
static dhow_status look_at_values(maker *k, uint32_t *first_step) {
    dhowi_lowering *b = k->b;
    dhowi_item *item = &b->items[b->wanted];
    dhowi_segment *seg;
    int32_t external = b->buffers[item->buffer].external;
    if (external > 0) { /* an input: it becomes part of the key, and the plan is made anew */
        uint32_t input = (uint32_t)external - 1;
        if (k->io != NULL && k->io->values != NULL) input = k->io->owners[input];
        atomic_store_explicit(&k->m->values[k->m->inputs[input]].keyed, true, memory_order_relaxed);
        return DHOWI_NEEDS_VALUES;
    }
    if (k->io == NULL) return DHOWI_NEEDS_VALUES;
    DHOWI_TRY(dhowi_host_room(b, dhowi_count_of(&item->spec), dhow_dtype_bytes(item->spec.dtype)));
    for (uint32_t i = 0; i < b->buffer_count; i++) b->buffers[i].kept = true;
    DHOWI_TRY(close_segment(k, *first_step, &seg));
    *first_step = b->step_count;
    DHOWI_TRY(dhowi_segment_run(k->m, k->plan, k->plan->segment_count - 1, k->io));
    DHOWI_TRY(tensor_of(k, seg, b->wanted, &seg->guard));
    DHOWI_TRY(host_copy(seg->guard, &seg->guard_host));
    item->tensor = seg->guard_host;
    dhowi_handle_retain(&item->tensor->handle);
    memcpy(item->strides, seg->guard_host->strides, sizeof item->strides);
    item->offset = 0;
    item->contiguous = true;
    return DHOW_OK;
}

static dhow_status lower_all(maker *k, uint32_t *first_step) {
    const dhowi_graph *g = &k->m->graph;
    for (uint32_t i = 0; i < g->node_count;) {
        dhow_status status = dhowi_lower_node(k->b, &g->nodes[i]);
        if (status == DHOWI_NEEDS_VALUES) {
            DHOWI_TRY(look_at_values(k, first_step));
            continue;
        }
        DHOWI_TRY(status);
        i++;
    }
    return DHOW_OK;
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

static const char *name_of_result(const maker *k, uint32_t i) {
    return k->io->results != NULL ? "of a sequence" : k->m->output_names[i];
}

static dhow_status new_outputs(maker *k) {
    DHOWI_TRY(grow_outputs(k->io, k->b->result_count));
    for (uint32_t i = 0; i < k->b->result_count; i++) {
        const dhowi_spec *spec = &k->plan->outputs[i];
        dhow_tensor **out = &k->io->outputs[i];
        if (*out == NULL) {
            DHOWI_TRY(dhowi_tensor_new(k->m->device, spec->dtype, spec->rank, spec->shape, out));
            continue;
        }
        if ((*out)->dtype == spec->dtype &&
            dhowi_shape_equal((*out)->rank, (*out)->shape, spec->rank, spec->shape))
            continue;
        char p[192], q[160];
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "output '%.64s' is %s, the result is %s",
                          name_of_result(k, i), dhowi_tensor_text(*out, p, sizeof p),
                          dhowi_spec_text(spec, q, sizeof q));
    }
    return DHOW_OK;
}

static dhow_status make(maker *k) {
    uint32_t first_step = 0;
    dhowi_segment *seg;
    DHOWI_TRY(begin(k));
    DHOWI_TRY(lower_all(k, &first_step));
    DHOWI_TRY(find_results(k));
    DHOWI_TRY(dhowi_fuse(k->b, first_step));
    if (dhowi_optimises(DHOWI_OPTIMISE_LAYOUTS)) DHOWI_TRY(dhowi_use_blocks(k->b, first_step));
    for (uint32_t i = 0; i < k->b->result_count; i++) DHOWI_TRY(bind_output(k, i, first_step));
    DHOWI_TRY(new_outputs(k));
    DHOWI_TRY(close_segment(k, first_step, &seg));
    return dhowi_segment_run(k->m, k->plan, k->plan->segment_count - 1, k->io);
}

static void end_maker(maker *k) {
    dhowi_free(k->storages);
    dhowi_free(k->offsets);
}

dhow_status dhowi_plan_make(dhow_model *m, dhowi_run_io *io, const int64_t *key,
                            uint32_t key_length, dhowi_plan_of_model **out) {
    *out = NULL;
    dhowi_plan_of_model *plan = dhowi_alloc(sizeof *plan);
    if (plan == NULL) return dhowi_fail_memory("plan");
    maker k = {.m = m, .io = io, .plan = plan, .b = &plan->lowering};
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
    dhowi_plan_of_model plan = {0};
    maker k = {.m = m, .plan = &plan, .b = &b};
    uint32_t first_step = 0;
    for (uint32_t i = 0; i < m->input_count; i++) {
        const dhowi_value *v = &m->values[m->inputs[i]];
        bool open = v->spec.rank < 0 || v->keyed || v->form != DHOW_DATUM_TENSOR || v->optional;
        for (int32_t d = 0; d < v->spec.rank; d++) open = open || v->spec.shape[d] < 0;
        if (open) return DHOW_OK; /* the first run finds out */
    }
    dhow_status status = begin(&k);
    if (status == DHOW_OK) status = lower_all(&k, &first_step);
    if (status == DHOW_OK) status = check_steps(&b, 0);
    dhowi_lowering_end(&b);
    end_maker(&k);
    return status == DHOWI_NEEDS_VALUES ? DHOW_OK : status;
}

/* ---- replaying ---- */

/* Whether the values that the next segment was made for are there again. */
static dhow_status check_guard(const dhowi_segment *seg, bool *stale) {
    dhow_tensor *now;
    void *p, *q;
    DHOWI_TRY(host_copy(seg->guard, &now));
    dhow_status status = dhow_tensor_host_ptr(now, &p);
    if (status == DHOW_OK) status = dhow_tensor_host_ptr(seg->guard_host, &q);
    if (status == DHOW_OK) *stale = memcmp(p, q, dhowi_tensor_bytes(now)) != 0;
    dhow_tensor_release(now);
    return status;
}

dhow_status dhowi_plan_replay(dhow_model *m, dhowi_plan_of_model *plan, dhowi_run_io *io,
                              bool *stale) {
    maker k = {.m = m, .io = io, .plan = plan, .b = &plan->lowering};
    *stale = false;
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        if (i + 1 == plan->segment_count) DHOWI_TRY(new_outputs(&k));
        DHOWI_TRY(dhowi_segment_run(m, plan, i, io));
        if (plan->segments[i].guard == NULL) continue;
        DHOWI_TRY(check_guard(&plan->segments[i], stale));
        if (*stale) return DHOW_OK;
    }
    plan->runs++;
    return DHOW_OK;
}

/* ---- ending ---- */

void dhowi_plan_end(dhowi_plan_of_model *plan) {
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
    dhowi_free(plan->key);
    dhowi_free(plan);
}

void dhowi_plans_end(dhow_model *m) {
    while (m->plans != NULL) {
        dhowi_plan_of_model *next = m->plans->next;
        dhowi_plan_end(m->plans);
        m->plans = next;
    }
}
