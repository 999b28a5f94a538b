/* SPDX-License-Identifier: Apache-2.0
 *
 * Items of a lowering: known values, results, and what is no tensor.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/array.h"
#include "model/lower/lower.h"

void dhowi_lowering_end(dhowi_lowering *b) {
    for (uint32_t i = 0; i < b->item_count; i++) {
        dhow_tensor_release(b->items[i].tensor);
        dhow_tensor_release(b->items[i].resident);
        dhow_datum_release(b->items[i].texts);
    }
    while (b->frames != NULL) dhowi_close_frame(b);
    dhowi_free(b->items);
    dhowi_free(b->steps);
    dhowi_free(b->buffers);
    dhowi_free(b->refs);
    dhowi_free(b->elements);
    dhowi_free(b->results);
    dhowi_free(b->bounds);
    dhowi_free(b->late);
    dhowi_free(b->paddings);
    dhowi_free(b->branches);
    memset(b, 0, sizeof *b);
}

dhow_status dhowi_drop_unread(dhowi_lowering *b) {
    bool *read = dhowi_alloc_array((size_t)b->item_count + 1, sizeof *read);
    if (read == NULL) return dhowi_fail_memory("plan");
    memset(read, 0, ((size_t)b->item_count + 1) * sizeof *read);
    bool *at = read + 1; /* -1: none */
    for (uint32_t i = 0; i < b->step_count; i++) {
        const dhowi_step *s = &b->steps[i];
        for (uint32_t j = 0; j < DHOWI_OP_MAX_INPUTS; j++) at[s->in[j]] = true;
        at[s->out] = at[s->second] = true;
    }
    for (uint32_t i = 0; i < b->result_count; i++) at[b->results[i]] = true;
    for (uint32_t i = 0; i < b->element_count; i++) at[b->elements[i]] = true;
    for (uint32_t i = 0; i < b->bound_count; i++) at[b->bounds[i].item] = true;
    for (uint32_t i = 0; i < b->item_count; i++) {
        dhow_tensor **tensor = &b->items[i].tensor;
        if (at[i] || b->items[i].late == 0) continue;
        dhowi_shed_known(b, (int32_t)i);
        dhow_tensor_release(*tensor);
        *tensor = NULL;
    }
    dhowi_free(read);
    return DHOW_OK;
}

int64_t dhowi_count_of(const dhowi_tensor_desc *desc) { return dhowi_extent(desc, 0, desc->rank); }

int64_t dhowi_extent(const dhowi_tensor_desc *desc, int32_t begin, int32_t end) {
    uint64_t product = 1; /* beside an extent of 0 others may be absurd */
    for (int32_t i = begin; i < end; i++) product *= (uint64_t)desc->shape[i];
    return (int64_t)product;
}

dhow_status dhowi_axis(const dhowi_tensor_desc *desc, int64_t axis, int32_t *out) {
    int64_t wrapped = axis < 0 ? axis + desc->rank : axis;
    if (wrapped < 0 || wrapped >= desc->rank)
        DHOWI_REFUSE("axis %" PRId64 " of a tensor with %d dimensions", axis, desc->rank);
    *out = (int32_t)wrapped;
    return DHOW_OK;
}

/* Of any number: what callers give is not checked yet. */
bool dhowi_is_float(dhow_dtype dtype) {
    return (uint32_t)dtype < 64 && (DHOWI_FLOATS & DHOW_DTYPE_BIT(dtype)) != 0;
}

dhow_status dhowi_item_new(dhowi_lowering *b, const dhowi_tensor_desc *desc, int32_t *out) {
    int64_t count;
    uint64_t bytes;
    *out = -1;
    DHOWI_TRY(dhowi_shape_check("result", desc->dtype, desc->rank, desc->shape, &count, &bytes));
    dhowi_item item = {.desc = *desc, .contiguous = true, .buffer = -1, .value = -1};
    dhowi_shape_strides(desc->rank, desc->shape, item.strides);
    if (!dhowi_room((void **)&b->items, b->item_count, &b->item_capacity, sizeof *b->items))
        return dhowi_fail_memory("plan");
    b->items[b->item_count] = item;
    *out = (int32_t)b->item_count++;
    return DHOW_OK;
}

static dhow_status new_buffer(dhowi_lowering *b, uint64_t bytes, int32_t *out) {
    if (!dhowi_room((void **)&b->buffers, b->buffer_count, &b->buffer_capacity, sizeof *b->buffers))
        return dhowi_fail_memory("plan");
    b->buffers[b->buffer_count] = (dhowi_buffer){.bytes = bytes, .first = -1, .last = -1};
    *out = (int32_t)b->buffer_count++;
    return DHOW_OK;
}

dhow_status dhowi_known(dhowi_lowering *b, dhow_tensor *tensor, int32_t value, int32_t *out) {
    dhowi_tensor_desc desc;
    dhowi_desc_of(tensor, &desc);
    DHOWI_TRY(dhowi_item_new(b, &desc, out));
    dhowi_item *item = &b->items[*out];
    memcpy(item->strides, tensor->strides, sizeof item->strides);
    item->offset = tensor->offset;
    item->contiguous = tensor->contiguous;
    item->tensor = tensor;
    item->value = value;
    dhowi_handle_retain(&tensor->handle);
    return DHOW_OK;
}

dhow_status dhowi_ref_of(dhowi_lowering *b, int32_t value, int32_t *out) {
    *out = -1;
    if (value < 0) return DHOW_OK;
    dhowi_value *v = &b->model->values[value];
    if (b->refs[value] < 0 && v->known) {
        dhow_tensor *t;
        bool later;
        DHOWI_TRY(dhowi_model_tensor_later(b->model, v, &t, &later));
        DHOWI_TRY(dhowi_known(b, t, value, &b->refs[value]));
        if (later) DHOWI_TRY(dhowi_read_later(b, b->refs[value], value));
        b->items[b->refs[value]].desc.encoding = v->desc.encoding;
    }
    *out = b->refs[value];
    if (*out >= 0) return DHOW_OK;
    return dhowi_fail(DHOW_CORRUPT, "its input '%.64s' is computed by no node before it",
                      v->name != NULL ? v->name : "?");
}

static uint64_t bytes_of(const dhowi_tensor_desc *desc) {
    return (uint64_t)dhowi_count_of(desc) * dhow_dtype_bytes(desc->dtype);
}

dhow_status dhowi_item_known(dhowi_lowering *b, const dhowi_tensor_desc *desc, int32_t *out) {
    DHOWI_TRY(dhowi_item_new(b, desc, out));
    dhowi_item *item = &b->items[*out];
    return dhowi_tensor_new(b->model->context->cpu, item->desc.dtype, item->desc.rank,
                            item->desc.shape, &item->tensor);
}

dhow_status dhowi_item_unknown(dhowi_lowering *b, const dhowi_tensor_desc *desc, bool fixed,
                               int32_t *out) {
    DHOWI_TRY(dhowi_item_new(b, desc, out));
    const uint64_t bytes = bytes_of(&b->items[*out].desc);
    b->items[*out].fixed = fixed;
    if (fixed) DHOWI_TRY(dhowi_fix(b, bytes));
    DHOWI_TRY(dhowi_limit_result(b, bytes));
    return new_buffer(b, bytes, &b->items[*out].buffer);
}

dhow_status dhowi_constant(dhowi_lowering *b, dhow_dtype dtype, int32_t rank, const int64_t *shape,
                           const void *data, int32_t *out) {
    dhow_tensor *tensor;
    int64_t count;
    uint64_t bytes;
    *out = -1;
    DHOWI_TRY(dhowi_shape_check("constant", dtype, rank, shape, &count, &bytes));
    DHOWI_TRY(dhowi_fix(b, bytes));
    DHOWI_TRY(dhow_tensor_from_data(b->model->context->cpu, dtype, rank, shape, data, &tensor));
    dhow_status status = dhowi_known(b, tensor, -1, out);
    dhow_tensor_release(tensor);
    return status;
}

static dhow_status no_tensor(dhowi_lowering *b, dhow_datum_kind kind, int32_t *out) {
    *out = -1;
    if (!dhowi_room((void **)&b->items, b->item_count, &b->item_capacity, sizeof *b->items))
        return dhowi_fail_memory("plan");
    b->items[b->item_count] = (dhowi_item){.buffer = -1, .value = -1, .kind = kind};
    *out = (int32_t)b->item_count++;
    return DHOW_OK;
}

dhow_status dhowi_texts(dhowi_lowering *b, dhow_datum *texts, int32_t *out) {
    DHOWI_TRY(no_tensor(b, DHOW_DATUM_TEXTS, out));
    dhowi_handle_retain(&texts->handle);
    b->items[*out].texts = texts;
    b->items[*out].desc.rank = texts->rank;
    if (texts->rank > 0)
        memcpy(b->items[*out].desc.shape, texts->shape, (size_t)texts->rank * sizeof(int64_t));
    return DHOW_OK;
}

dhow_status dhowi_nothing(dhowi_lowering *b, int32_t *out) {
    return no_tensor(b, DHOW_DATUM_NONE, out);
}

dhow_status dhowi_sequence(dhowi_lowering *b, uint32_t count, int32_t *out, int32_t **elements) {
    *out = -1;
    DHOWI_TRY(dhowi_fix(b, (uint64_t)count * sizeof **elements));
    if (b->elements == NULL || count > b->element_capacity - b->element_count) {
        size_t wanted =
            ((size_t)b->element_count + count) * 2 + 1; /* an empty one lies somewhere */
        if (wanted > UINT32_MAX) DHOWI_REFUSE("its sequences hold too many values");
        int32_t *grown = dhowi_realloc_array(b->elements, wanted, sizeof *grown);
        if (grown == NULL) return dhowi_fail_memory("plan");
        b->elements = grown;
        b->element_capacity = (uint32_t)wanted;
    }
    DHOWI_TRY(no_tensor(b, DHOW_DATUM_SEQUENCE, out));
    b->items[*out].first = b->element_count;
    b->items[*out].count = count;
    *elements = b->elements + b->element_count;
    b->element_count += count;
    return DHOW_OK;
}

bool dhowi_is_shared(const dhowi_lowering *b, int32_t ref) {
    const dhowi_item *item = &b->items[ref];
    if (item->tensor != NULL || item->buffer < 0) return false;
    const int32_t external = b->buffers[item->buffer].external;
    for (uint32_t i = 0; external > 0 && i < b->share_count; i++)
        if (b->shares[i] == (uint32_t)external) return true;
    return false;
}

dhow_status dhowi_need(dhowi_lowering *b, int32_t ref) {
    if (dhowi_is_known(b, ref)) return DHOW_OK;
    b->wanted = ref;
    return DHOWI_NEEDS_VALUES;
}

dhow_status dhowi_blank(dhowi_lowering *b, const dhowi_tensor_desc *desc, int32_t *out) {
    return dhowi_item_unknown(b, desc, false, out);
}

dhowi_frame *dhowi_find_frame(const dhowi_lowering *b, const dhowi_node *node) {
    dhowi_frame *f = b->frames;
    while (f != NULL && f->node != node) f = f->outer;
    return f;
}

dhow_status dhowi_open_frame(dhowi_lowering *b, dhowi_frame **out) {
    *out = dhowi_alloc(sizeof **out);
    if (*out == NULL) return dhowi_fail_memory("plan");
    **out = (dhowi_frame){.outer = b->frames, .node = b->node, .out_count = b->out_count};
    b->frames = *out;
    return DHOW_OK;
}

void dhowi_close_frame(dhowi_lowering *b) {
    dhowi_frame *f = b->frames;
    b->frames = f->outer;
    dhowi_free(f->gathered);
    dhowi_free(f);
}
