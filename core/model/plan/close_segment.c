/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a segment: its steps become commands, its buffers places in an arena.
 */
#include <string.h>

#include "base/errors/planted.h"
#include "base/memory/array.h"
#include "base/memory/size.h"
#include "kernel/optimise.h"
#include "model/plan/maker.h"

static dhow_status storage_of(dhowi_maker *k, dhowi_segment *seg, int32_t buffer,
                              dhowi_storage **out) {
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
    dhowi_recorded_buffer *place = &seg->recorder.places[seg->recorder.place_count - 1];
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

/* Whether a known item is on the model's device already. */
static bool is_there(const dhowi_maker *k, const dhowi_item *item) {
    const dhowi_value *v = item->value >= 0 ? &k->m->values[item->value] : NULL;
    if (v == NULL) return item->resident != NULL;
    return (item->half ? v->half_resident : v->resident) != NULL;
}

/* A known item on the model's device. */
static dhow_status resident_of(dhowi_maker *k, dhowi_item *item, dhow_tensor **out) {
    *out = item->tensor;
    if (k->m->device == k->m->context->cpu) return DHOW_OK;
    if (item->value >= 0) {
        dhowi_value *v = &k->m->values[item->value];
        return item->half ? dhowi_model_half_resident(k->m, v, out)
                          : dhowi_model_resident(k->m, v, out);
    }
    if (item->resident == NULL) {
        dhowi_sink *sink = dhowi_sink_set(NULL);
        dhow_status status = move_known(item, k->m->device);
        (void)dhowi_sink_set(sink);
        DHOWI_TRY(status);
        if (item->late != 0 &&
            dhowi_hazard_wait(&item->tensor->storage->hazard, DHOW_ACCESS_WRITE) == DHOW_OK)
            dhowi_shed_known(k->b, (int32_t)(item - k->b->items));
    }
    *out = item->resident;
    return DHOW_OK;
}

dhow_status dhowi_plan_tensor(dhowi_maker *k, dhowi_segment *seg, int32_t ref, dhow_tensor **out) {
    dhowi_item *item = &k->b->items[ref];
    dhowi_storage *storage;
    *out = NULL;
    if (item->tensor != NULL) {
        if (!is_there(k, item)) DHOWI_TRY(dhowi_known_values(k->b, ref, out));
        DHOWI_TRY(resident_of(k, item, out));
        atomic_store_explicit(&(*out)->storage->frozen, true, memory_order_relaxed);
        dhowi_handle_retain(&(*out)->handle);
        return DHOW_OK;
    }
    DHOWI_TRY(storage_of(k, seg, item->buffer, &storage));
    int64_t base = k->offsets[item->buffer] / (int64_t)dhow_dtype_bytes(item->desc.dtype);
    return dhowi_tensor_view(storage, item->desc.dtype, item->desc.rank, item->desc.shape,
                             item->strides, item->offset + base, out);
}

/* Names a node in the message, and the device where the message does not begin with it. */
static dhow_status blame(const dhow_device *device, const dhowi_node *node, dhow_status status) {
    const size_t length = strlen(device->name);
    const char *message = dhow_last_error();
    char text[160];
    (void)dhowi_node_text(node, text, sizeof text);
    if (strncmp(message, device->name, length) == 0 && message[length] == ':')
        return dhowi_fail_prefix(status, "%s", text);
    return dhowi_fail_prefix(status, "%s on %s", text, device->name);
}

/* ---- weights that a step packs ---- */

/* The plan of the CPU takes the weights as they are, or what was packed of them: which of both is
 * seen in its commands. */
typedef struct weights {
    dhowi_lowering *b;
    const dhowi_step *step;
} weights;

typedef struct search {
    uint64_t handle;
    bool found;
} search;

static bool has_weights(const dhowi_maker *k, const dhowi_step *s, int i) {
    return k->m->device == k->m->context->cpu && s->in[i] >= 0 && dhowi_is_known(k->b, s->in[i]) &&
           k->b->items[s->in[i]].late != 0;
}

static dhow_status make_weights(void *user, dhowi_storage *storage) {
    const weights *w = user;
    dhow_tensor *values;
    for (int i = 0; i < DHOWI_OP_MAX_INPUTS; i++)
        if (w->step->in[i] >= 0 && dhowi_is_known(w->b, w->step->in[i]) &&
            w->b->items[w->step->in[i]].tensor->storage == storage)
            return dhowi_known_values(w->b, w->step->in[i], &values);
    return DHOW_OK;
}

static void find_handle(void *user, uint64_t *handle, uint64_t *offset) {
    search *s = user;
    (void)offset;
    s->found = s->found || *handle == s->handle;
}

/* Lets go of weights that were packed; what commands read as it is stays where it is. */
static dhow_status end_weights(dhowi_maker *k, const dhowi_segment *seg, const dhowi_step *s,
                               uint32_t first_command) {
    for (int i = 0; i < DHOWI_OP_MAX_INPUTS; i++) {
        if (!has_weights(k, s, i)) continue;
        dhow_tensor *values;
        dhowi_storage *storage = k->b->items[s->in[i]].tensor->storage;
        search plain = {.handle = storage->native};
        for (uint32_t c = first_command; c < seg->recorder.command_count; c++)
            dhowi_command_buffers(seg->recorder.commands[c], find_handle, &plain);
        if (DHOWI_GUARD(weights_read_and_shed, !plain.found)) {
            dhowi_shed_known(k->b, s->in[i]);
            continue;
        }
        DHOWI_TRY(dhowi_known_values(k->b, s->in[i], &values));
        dhowi_storage_lend(storage);
    }
    return DHOW_OK;
}

static dhow_status take_input(dhowi_maker *k, dhowi_segment *seg, const dhowi_step *s, int i,
                              dhow_tensor **out) {
    const bool here = s->on_host && dhowi_is_known(k->b, s->in[i]);
    if (!here && !has_weights(k, s, i)) return dhowi_plan_tensor(k, seg, s->in[i], out);
    if (here) DHOWI_TRY(dhowi_known_values(k->b, s->in[i], out));
    *out = k->b->items[s->in[i]].tensor;
    if (here) dhowi_storage_lend((*out)->storage); /* the host's work reads it where it is */
    if (!here) atomic_store_explicit(&(*out)->storage->frozen, true, memory_order_relaxed);
    dhowi_handle_retain(&(*out)->handle);
    return DHOW_OK;
}

static dhow_status record_step(dhowi_maker *k, dhowi_segment *seg, dhowi_step *s) {
    weights w = {.b = k->b, .step = s};
    const dhowi_values_maker maker = {make_weights, &w};
    const uint32_t first_command = seg->recorder.command_count;
    dhowi_call call = {.op = dhowi_op_of(s->op),
                       .stream = k->io->stream,
                       .attrs = &s->attrs,
                       .inside = dhowi_inside_of(k->b, s)};
    dhow_tensor *out = NULL, *second = NULL;
    dhow_status status = DHOW_OK;
    for (int i = 0; i < DHOWI_OP_MAX_INPUTS && status == DHOW_OK; i++) {
        if (s->in[i] >= 0) status = take_input(k, seg, s, i, &call.in[i]);
    }
    if (status == DHOW_OK) status = dhowi_plan_tensor(k, seg, s->out, &out);
    if (status == DHOW_OK && s->second >= 0) status = dhowi_plan_tensor(k, seg, s->second, &second);
    call.out = out;
    call.second = second;
    if (status == DHOW_OK) {
        (void)dhowi_sink_set(&seg->recorder.sink);
        dhowi_values_maker_of_thread = &maker;
        status = s->on_host ? dhowi_record_on_host(seg, k->io->stream, k->b, s, &call,
                                                   &k->plan->copied_bytes)
                            : dhowi_op_run(&call);
        dhowi_values_maker_of_thread = NULL;
        (void)dhowi_sink_set(NULL);
    }
    if (status == DHOW_OK) status = end_weights(k, seg, s, first_command);
    for (int i = 0; i < DHOWI_OP_MAX_INPUTS; i++) dhow_tensor_release(call.in[i]);
    dhow_tensor_release(out);
    dhow_tensor_release(second);
    if (status == DHOW_OK || s->node == NULL) return status;
    return blame(k->m->device, s->node, status);
}

dhow_status dhowi_check_steps(dhowi_lowering *b, uint32_t first_step) {
    for (uint32_t i = first_step; i < b->step_count; i++) {
        dhowi_step *s = &b->steps[i];
        dhow_dtype dtype = b->items[s->in[0] >= 0 ? s->in[0] : s->out].desc.dtype;
        if (dtype == DHOW_BOOL) dtype = DHOW_U8;
        dhow_status status = dhowi_op_supported(dhowi_op_of(s->op), dtype, b->device);
        char text[160];
        if (status == DHOW_OK || s->node == NULL) continue;
        s->on_host = b->model->placement == DHOW_PLACEMENT_FALLBACK;
        if (s->on_host) continue;
        return dhowi_fail_prefix(status, "%s", dhowi_node_text(s->node, text, sizeof text));
    }
    return DHOW_OK;
}

typedef struct relocator {
    dhowi_maker *k;
    dhowi_segment *seg;
    uint32_t command;
    dhow_status status;
} relocator;

static void relocate(void *user, uint64_t *handle, uint64_t *offset) {
    relocator *r = user;
    dhowi_segment *seg = r->seg;
    int32_t index = dhowi_record_place(&seg->recorder, *handle);
    if (index < 0 || r->status != DHOW_OK) return;
    const dhowi_recorded_buffer *place = &seg->recorder.places[index];
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
    seg->relocations[seg->relocation_count++] =
        (dhowi_relocation){handle, offset, *offset, slot, r->command};
}

static bool writes(const dhowi_lowering *b, const dhowi_step *s, int32_t buffer) {
    return b->items[s->out].buffer == buffer ||
           (s->second >= 0 && b->items[s->second].buffer == buffer);
}

/* The step whose result, or workspace, is the largest of an arena. */
static const dhowi_step *largest_step(const dhowi_lowering *b, const dhowi_segment *seg) {
    const dhowi_step *steps = b->steps + seg->first_step;
    const dhowi_recorded_buffer *most = NULL;
    for (uint32_t i = 0; i < seg->recorder.place_count; i++) {
        const dhowi_recorded_buffer *p = &seg->recorder.places[i];
        if (!p->external && (most == NULL || p->bytes > most->bytes)) most = p;
    }
    if (most == NULL || seg->step_count == 0) return NULL;
    for (uint32_t i = 0; most->buffer >= 0 && i < seg->step_count; i++)
        if (writes(b, &steps[i], most->buffer)) return &steps[i];
    return &steps[DHOWI_MIN(most->first, seg->step_count - 1)];
}

static dhow_status take_arena(const dhowi_maker *k, const dhowi_segment *seg) {
    dhow_status status = dhowi_take_memory(k->b, seg->arena_bytes, "what its steps share");
    if (status == DHOW_OK) return DHOW_OK;
    const dhowi_step *step = largest_step(k->b, seg);
    char text[160];
    if (step == NULL || step->node == NULL) return status;
    return dhowi_fail_prefix(status, "most for %s", dhowi_node_text(step->node, text, sizeof text));
}

static dhow_status give_places(dhowi_maker *k, dhowi_segment *seg) {
    /* A workspace of cuBLAS, which lies in the arena as well, wants 256 bytes. */
    uint64_t align = DHOWI_MAX((uint64_t)k->m->device->desc.offset_align, (uint64_t)256);
    DHOWI_TRY(dhowi_record_lay_out(&seg->recorder, align, &seg->arena_bytes));
    if (seg->arena_bytes > 0) {
        DHOWI_TRY(take_arena(k, seg));
        DHOWI_TRY(dhowi_storage_create(k->m->device, seg->arena_bytes, &seg->arena));
        memcpy(seg->arena->label, "arena of a model", sizeof "arena of a model");
    }
    relocator r = {k, seg, 0, DHOW_OK};
    for (; r.command < seg->recorder.command_count; r.command++)
        dhowi_command_buffers(seg->recorder.commands[r.command], relocate, &r);
    DHOWI_TRY(r.status);
    seg->cuts[0] = seg->recorder.command_count;
    seg->piece_count = 1;
    /* Later segments read what stays. */
    for (uint32_t p = 0; p < seg->recorder.place_count; p++) {
        const dhowi_recorded_buffer *place = &seg->recorder.places[p];
        if (place->buffer < 0) continue;
        k->storages[place->buffer] = place->external ? NULL : seg->arena;
        k->offsets[place->buffer] = (int64_t)place->offset;
    }
    return DHOW_OK;
}

dhow_status dhowi_close_segment(dhowi_maker *k, uint32_t first_step, dhowi_segment **out) {
    dhowi_model_plan *plan = k->plan;
    if (!dhowi_room((void **)&plan->segments, plan->segment_count, &plan->segment_capacity,
                    sizeof *plan->segments))
        return dhowi_fail_memory("plan");
    dhowi_segment *seg = *out = &plan->segments[plan->segment_count++];
    *seg = (dhowi_segment){.first_step = first_step};
    dhowi_recorder_init(&seg->recorder, k->m->device);
    if (k->m->device != k->m->context->cpu) DHOWI_TRY(dhowi_check_steps(k->b, first_step));
    if (dhowi_optimises(DHOWI_OPTIMISE_IN_PLACE)) dhowi_drop_copies(k->b, first_step);
    dhowi_find_lifetimes(k->b, first_step);
    if (dhowi_optimises(DHOWI_OPTIMISE_IN_PLACE)) DHOWI_TRY(dhowi_reuse_inputs(k->b, first_step));
    seg->step_count = k->b->step_count - first_step;
    for (uint32_t i = 0; i < seg->step_count; i++) {
        DHOWI_TRY(dhowi_stop_check());
        seg->recorder.step = i;
        DHOWI_TRY(record_step(k, seg, &k->b->steps[first_step + i]));
    }
    return give_places(k, seg);
}
