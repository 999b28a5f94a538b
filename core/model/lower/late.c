/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of known items: computed at once, or when they are read.
 */
#include "base/memory/array.h"
#include "kernel/optimise.h"
#include "memory/sink.h"
#include "model/lower/lower.h"

void dhowi_keep_value(dhowi_lowering *b, int32_t ref, int32_t value) {
    dhowi_value *v = &b->model->values[value];
    dhowi_item *item = &b->items[ref];
    if (v->known) return; /* of an earlier round of a loop */
    b->model->keeps_results = true;
    v->known = true;
    v->tensor = item->tensor;
    v->desc.encoding = item->desc.encoding;
    item->value = value;
    dhowi_handle_retain(&v->tensor->handle);
    dhowi_storage_lend(v->tensor->storage); /* nothing makes them again */
    atomic_store_explicit(&v->tensor->storage->frozen, true, memory_order_relaxed);
}

dhow_status dhowi_run_now(dhowi_lowering *b, const dhowi_step *s) {
    dhowi_call call = {.op = dhowi_op_of(s->op), .attrs = &s->attrs, .inside = DHOWI_EXACT};
    DHOWI_TRY(dhowi_stream_default(b->model->context->cpu, &call.stream));
    for (uint32_t i = 0; i < DHOWI_OP_MAX_INPUTS; i++)
        if (s->in[i] >= 0) DHOWI_TRY(dhowi_known_values(b, s->in[i], &call.in[i]));
    call.out = b->items[s->out].tensor;
    call.second = s->second >= 0 ? b->items[s->second].tensor : NULL;
    return dhowi_op_run(&call);
}

static dhow_status add_late(dhowi_lowering *b, int32_t ref, const dhowi_late_values *late) {
    if (!dhowi_room((void **)&b->late, b->late_count, &b->late_capacity, sizeof *b->late))
        return dhowi_fail_memory("plan");
    b->late[b->late_count++] = *late;
    b->items[ref].late = (int32_t)b->late_count;
    return DHOW_OK;
}

dhow_status dhowi_run_later(dhowi_lowering *b, const dhowi_step *s) {
    dhowi_storage_expect(b->items[s->out].tensor->storage);
    return add_late(b, s->out, &(dhowi_late_values){.parameter = -1, .step = *s, .value = -1});
}

dhow_status dhowi_read_later(dhowi_lowering *b, int32_t ref, int32_t value) {
    return add_late(b, ref, &(dhowi_late_values){.parameter = value, .value = -1});
}

dhow_status dhowi_make_later(dhowi_lowering *b, int32_t ref, const dhowi_late_values *late) {
    return add_late(b, ref, late);
}

static dhow_status make_values(dhowi_lowering *b, const dhowi_late_values *late) {
    if (late->parameter >= 0) return dhowi_model_read(b->model, &b->model->values[late->parameter]);
    if (late->make != NULL) return late->make(b, late);
    dhowi_sink *sink = dhowi_sink_set(NULL); /* a plan may be in the middle of its recording */
    const dhow_status status = dhowi_run_now(b, &late->step);
    (void)dhowi_sink_set(sink);
    if (status == DHOW_OK && late->value >= 0) dhowi_keep_value(b, late->step.out, late->value);
    for (uint32_t i = 0; i < DHOWI_OP_MAX_INPUTS; i++) /* whom else they serve makes them again */
        if (late->step.in[i] >= 0) dhowi_shed_known(b, late->step.in[i]);
    return status;
}

dhow_status dhowi_known_values(dhowi_lowering *b, int32_t ref, dhow_tensor **out) {
    const dhowi_item *item = &b->items[ref];
    *out = NULL;
    if (item->late != 0 && dhowi_storage_is_missing(item->tensor->storage))
        DHOWI_TRY(make_values(b, &b->late[item->late - 1]));
    *out = b->items[ref].tensor;
    return DHOW_OK;
}

void dhowi_shed_known(const dhowi_lowering *b, int32_t ref) {
    dhow_tensor *values = b->items[ref].tensor;
    if (dhowi_optimises(DHOWI_OPTIMISE_SHEDDING) && b->items[ref].late != 0 && values != NULL &&
        values->storage->bytes >= dhowi_least_shed)
        dhowi_storage_shed(values->storage);
}

dhow_status dhowi_known_data(dhowi_lowering *b, int32_t ref, void **out) {
    dhow_tensor *tensor;
    *out = NULL;
    DHOWI_TRY(dhowi_known_values(b, ref, &tensor));
    return dhow_tensor_host_ptr(tensor, out);
}
