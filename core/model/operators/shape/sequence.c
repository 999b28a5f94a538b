/* SPDX-License-Identifier: Apache-2.0
 *
 * Sequences and optional values: lists of items that exist while a plan is made. No step of a plan
 * knows them.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "model/operators/shape/shape.h"

static dhow_status check_sequence(const dhowi_lowering *b) {
    if (dhowi_kind_of(b, b->in[0]) == DHOW_DATUM_SEQUENCE) return DHOW_OK;
    DHOWI_REFUSE("its input 0 is %s, no sequence",
                 dhowi_datum_kind_text(dhowi_kind_of(b, b->in[0])));
}

/* A position in a sequence of `count`, from the end when it is negative. */
static dhow_status position(dhowi_lowering *b, uint32_t input, uint32_t count, uint32_t *out) {
    int64_t at;
    DHOWI_TRY(dhowi_one_int(b, b->in[input], "the position", &at));
    int64_t wrapped = at < 0 ? at + count : at;
    if (wrapped < 0 || wrapped >= count)
        DHOWI_REFUSE("position %" PRId64 " in a sequence of %u", at, count);
    *out = (uint32_t)wrapped;
    return DHOW_OK;
}

/* ---- making, changing, looking ---- */

dhow_status dhowi_lower_sequence_empty(dhowi_lowering *b) {
    int32_t *elements;
    return dhowi_sequence(b, 0, &b->out[0], &elements);
}

static dhow_status same_kind(const dhowi_lowering *b, int32_t x, int32_t first) {
    const dhowi_item *p = &b->items[x], *q = &b->items[first];
    if (p->kind == q->kind && p->desc.dtype == q->desc.dtype) return DHOW_OK;
    DHOWI_REFUSE("a sequence of values of different types");
}

dhow_status dhowi_lower_sequence_construct(dhowi_lowering *b) {
    int32_t *elements;
    for (uint32_t i = 0; i < b->in_count; i++) {
        if (b->in[i] < 0) DHOWI_REFUSE("input %u is missing", i);
        DHOWI_TRY(same_kind(b, b->in[i], b->in[0]));
    }
    DHOWI_TRY(dhowi_sequence(b, b->in_count, &b->out[0], &elements));
    memcpy(elements, b->in, b->in_count * sizeof *elements);
    return DHOW_OK;
}

dhow_status dhowi_lower_sequence_insert(dhowi_lowering *b) {
    DHOWI_TRY(check_sequence(b));
    const uint32_t count = b->items[b->in[0]].count;
    if (dhowi_kind_of(b, b->in[1]) == DHOW_DATUM_SEQUENCE)
        DHOWI_REFUSE("a sequence inside a sequence");
    uint32_t at = count;
    int32_t *elements;
    if (dhowi_given(b, 2)) {
        int64_t wanted;
        DHOWI_TRY(dhowi_one_int(b, b->in[2], "the position", &wanted));
        if (wanted < -(int64_t)count || wanted > (int64_t)count)
            DHOWI_REFUSE("a position outside of a sequence of %u", count);
        at = (uint32_t)(wanted < 0 ? wanted + count : wanted);
    }
    if (count > 0) DHOWI_TRY(same_kind(b, b->in[1], dhowi_elements(b, b->in[0])[0]));
    DHOWI_TRY(dhowi_sequence(b, count + 1, &b->out[0], &elements));
    const int32_t *from = dhowi_elements(b, b->in[0]);
    memcpy(elements, from, at * sizeof *from);
    elements[at] = b->in[1];
    memcpy(elements + at + 1, from + at, (count - at) * sizeof *from);
    return DHOW_OK;
}

dhow_status dhowi_lower_sequence_erase(dhowi_lowering *b) {
    DHOWI_TRY(check_sequence(b));
    const uint32_t count = b->items[b->in[0]].count;
    if (count == 0) DHOWI_REFUSE("the sequence is empty");
    uint32_t at = count - 1;
    int32_t *elements;
    if (dhowi_given(b, 1)) DHOWI_TRY(position(b, 1, count, &at));
    DHOWI_TRY(dhowi_sequence(b, count - 1, &b->out[0], &elements));
    const int32_t *from = dhowi_elements(b, b->in[0]);
    memcpy(elements, from, at * sizeof *from);
    memcpy(elements + at, from + at + 1, (count - 1 - at) * sizeof *from);
    return DHOW_OK;
}

dhow_status dhowi_lower_sequence_at(dhowi_lowering *b) {
    uint32_t at = 0;
    DHOWI_TRY(check_sequence(b));
    DHOWI_TRY(position(b, 1, b->items[b->in[0]].count, &at));
    b->out[0] = dhowi_elements(b, b->in[0])[at];
    return DHOW_OK;
}

dhow_status dhowi_lower_sequence_length(dhowi_lowering *b) {
    DHOWI_TRY(check_sequence(b));
    int64_t count = b->items[b->in[0]].count;
    return dhowi_constant(b, DHOW_I64, 0, NULL, &count, &b->out[0]);
}

/* ---- parting and joining ---- */

/* Parts of one size, the last one smaller. */
static dhow_status split_evenly(dhowi_lowering *b, int32_t axis, int64_t part, bool squeeze) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    const int64_t extent = x.shape[axis];
    if (part < 1) DHOWI_REFUSE("parts of %" PRId64, part);
    const int64_t count = dhowi_ceil_div(extent, part);
    int32_t *elements;
    if (count > INT32_MAX) DHOWI_REFUSE("a sequence of %" PRId64 " values", count);
    DHOWI_TRY(dhowi_fix(b, (uint64_t)count * sizeof(dhowi_item)));
    DHOWI_TRY(dhowi_sequence(b, (uint32_t)count, &b->out[0], &elements));
    for (int64_t i = 0; i < count; i++) {
        int64_t at = i * part;
        DHOWI_TRY(
            dhowi_narrow(b, b->in[0], axis, at, DHOWI_MIN(part, extent - at), 1, &elements[i]));
        if (!squeeze) continue;
        const dhowi_item item = b->items[elements[i]];
        int64_t shape[DHOW_MAX_RANK], strides[DHOW_MAX_RANK];
        for (int32_t k = 0, to = 0; k < x.rank; k++) {
            if (k == axis) continue;
            shape[to] = item.desc.shape[k];
            strides[to++] = item.strides[k];
        }
        DHOWI_TRY(
            dhowi_view(b, elements[i], x.rank - 1, shape, strides, item.offset, &elements[i]));
    }
    return DHOW_OK;
}

static dhow_status split_by_sizes(dhowi_lowering *b, int32_t axis, uint32_t count) {
    const int64_t extent = dhowi_desc_at(b, b->in[0])->shape[axis];
    int32_t *elements;
    int64_t at = 0;
    DHOWI_TRY(dhowi_fix(b, (uint64_t)count * sizeof(dhowi_item)));
    int64_t *sizes = dhowi_alloc_array((size_t)count + 1, sizeof *sizes);
    if (sizes == NULL) return dhowi_fail_memory("plan");
    dhow_status status = dhowi_ints(b, b->in[1], sizes, count, &count);
    if (status == DHOW_OK) status = dhowi_sequence(b, count, &b->out[0], &elements);
    for (uint32_t i = 0; i < count && status == DHOW_OK; i++) {
        if (sizes[i] < 0 || sizes[i] > extent - at) {
            status = dhowi_fail(DHOW_INVALID_ARGUMENT,
                                "its sizes do not make up the extent %" PRId64, extent);
            break;
        }
        status = dhowi_narrow(b, b->in[0], axis, at, sizes[i], 1, &elements[i]);
        at += sizes[i];
    }
    if (status == DHOW_OK && at != extent)
        status = dhowi_fail(DHOW_INVALID_ARGUMENT, "its sizes do not make up the extent %" PRId64,
                            extent);
    dhowi_free(sizes);
    return status;
}

dhow_status dhowi_lower_split_to_sequence(dhowi_lowering *b) {
    bool keep;
    int32_t axis;
    DHOWI_TRY(dhowi_axis(dhowi_desc_at(b, b->in[0]), dhowi_attr_int(b, "axis", 0), &axis));
    DHOWI_TRY(dhowi_attr_flag(b, "keepdims", true, &keep));
    if (!dhowi_given(b, 1)) return split_evenly(b, axis, 1, !keep);
    const dhowi_tensor_desc split = *dhowi_desc_at(b, b->in[1]);
    if (split.rank > 1) DHOWI_REFUSE("split has %d dimensions", split.rank);
    if (split.rank == 1) {
        if (split.shape[0] > INT32_MAX) DHOWI_REFUSE("%" PRId64 " parts", split.shape[0]);
        return split_by_sizes(b, axis, (uint32_t)split.shape[0]);
    }
    int64_t part;
    DHOWI_TRY(dhowi_one_int(b, b->in[1], "split", &part));
    return split_evenly(b, axis, part, false);
}

/* x with an extent of 1 before `axis`. */
static dhow_status with_axis(dhowi_lowering *b, int32_t x, int32_t axis, int32_t *out) {
    const dhowi_item item = b->items[x];
    int64_t shape[DHOW_MAX_RANK], strides[DHOW_MAX_RANK];
    for (int32_t k = 0; k <= item.desc.rank; k++) {
        int32_t from = k < axis ? k : k - 1;
        shape[k] = k == axis ? 1 : item.desc.shape[from];
        strides[k] = k == axis ? 0 : item.strides[from];
    }
    return dhowi_view(b, x, item.desc.rank + 1, shape, strides, item.offset, out);
}

dhow_status dhowi_lower_concat_from_sequence(dhowi_lowering *b) {
    DHOWI_TRY(check_sequence(b));
    const uint32_t count = b->items[b->in[0]].count;
    bool stacked;
    int32_t axis;
    DHOWI_TRY(dhowi_attr_flag(b, "new_axis", false, &stacked));
    if (count == 0) DHOWI_REFUSE("the sequence is empty: the result has no shape");
    if (dhowi_kind_of(b, dhowi_elements(b, b->in[0])[0]) != DHOW_DATUM_TENSOR)
        DHOWI_REFUSE("a sequence of texts");
    dhowi_tensor_desc first = *dhowi_desc_at(b, dhowi_elements(b, b->in[0])[0]);
    first.rank += stacked;
    if (first.rank > DHOW_MAX_RANK)
        DHOWI_REFUSE("%d dimensions, dhow takes %d", first.rank, DHOW_MAX_RANK);
    int64_t along;
    DHOWI_TRY(dhowi_attr_needed(b, "axis", &along));
    DHOWI_TRY(dhowi_axis(&first, along, &axis));
    int32_t *parts = dhowi_alloc_array(count, sizeof *parts);
    if (parts == NULL) return dhowi_fail_memory("plan");
    dhow_status status = DHOW_OK;
    for (uint32_t i = 0; i < count && status == DHOW_OK; i++) {
        parts[i] = dhowi_elements(b, b->in[0])[i];
        if (dhowi_desc_at(b, parts[i])->rank != first.rank - stacked)
            status = dhowi_fail(DHOW_INVALID_ARGUMENT, "value %u has another rank", i);
        else if (stacked)
            status = with_axis(b, parts[i], axis, &parts[i]);
    }
    if (status == DHOW_OK) status = dhowi_concat(b, parts, count, axis, &b->out[0]);
    dhowi_free(parts);
    return status;
}

/* ---- optional values: the value itself, or nothing ---- */

dhow_status dhowi_lower_optional(dhowi_lowering *b) {
    if (!dhowi_given(b, 0)) return dhowi_nothing(b, &b->out[0]);
    b->out[0] = b->in[0];
    return DHOW_OK;
}

dhow_status dhowi_lower_optional_has(dhowi_lowering *b) {
    uint8_t there = dhowi_given(b, 0) && dhowi_kind_of(b, b->in[0]) != DHOW_DATUM_NONE;
    return dhowi_constant(b, DHOW_BOOL, 0, NULL, &there, &b->out[0]);
}

dhow_status dhowi_lower_optional_get(dhowi_lowering *b) {
    if (dhowi_kind_of(b, b->in[0]) == DHOW_DATUM_NONE)
        DHOWI_REFUSE("the optional value is not there");
    b->out[0] = b->in[0];
    return DHOW_OK;
}
