/* SPDX-License-Identifier: Apache-2.0
 *
 * How long buffers live, which copies are none, and which steps may write over an input.
 */
#include "base/errors/planted.h"
#include "base/memory/alloc.h"
#include "model/plan/maker.h"

static void use_buffer(dhowi_lowering *b, int32_t ref, int32_t step, bool writes) {
    if (ref < 0 || b->items[ref].tensor != NULL) return;
    dhowi_buffer *buffer = &b->buffers[b->items[ref].buffer];
    if (writes && buffer->first < 0) buffer->first = step;
    if (!DHOWI_GUARD(lives_until_written, false) || writes) buffer->last = step;
}

void dhowi_find_lifetimes(dhowi_lowering *b, uint32_t first_step) {
    for (uint32_t i = first_step; i < b->step_count; i++) {
        const dhowi_step *s = &b->steps[i];
        int32_t at = (int32_t)(i - first_step);
        for (int k = 0; k < DHOWI_OP_MAX_INPUTS; k++) use_buffer(b, s->in[k], at, false);
        use_buffer(b, s->out, at, true);
        use_buffer(b, s->second, at, true);
    }
}

/* ---- copies that are none ---- */

static bool is_whole(const dhowi_lowering *b, int32_t ref) {
    const dhowi_item *item = &b->items[ref];
    if (item->tensor != NULL || item->buffer < 0) return false;
    const dhowi_buffer *buffer = &b->buffers[item->buffer];
    return item->contiguous && item->offset == 0 && buffer->external == 0 && !buffer->kept;
}

/* Whether another step than number `but` writes to a buffer, from number `first` on. */
static bool is_written(const dhowi_lowering *b, int32_t buffer, uint32_t first, uint32_t but) {
    for (uint32_t i = first; i < b->step_count; i++)
        if (i != but && dhowi_step_writes(b, &b->steps[i], buffer)) return true;
    return false;
}

/* Of a whole buffer into a whole other one, in the same order, while both stay as they are. */
static bool is_no_copy(const dhowi_lowering *b, uint32_t first_step, uint32_t at) {
    const dhowi_step *s = &b->steps[at];
    if (s->op != DHOWI_OP_copy || s->on_host || !is_whole(b, s->in[0]) || !is_whole(b, s->out))
        return false;
    const dhowi_item *in = &b->items[s->in[0]], *out = &b->items[s->out];
    return in->buffer != out->buffer && in->desc.dtype == out->desc.dtype &&
           b->buffers[in->buffer].bytes == b->buffers[out->buffer].bytes &&
           !is_written(b, in->buffer, at + 1, at) && !is_written(b, out->buffer, first_step, at);
}

void dhowi_drop_copies(dhowi_lowering *b, uint32_t first_step) {
    uint32_t kept = first_step;
    for (uint32_t i = first_step; i < b->step_count; i++) {
        const dhowi_step *s = &b->steps[i];
        if (!is_no_copy(b, first_step, i)) {
            b->steps[kept++] = *s;
            continue;
        }
        dhowi_move_views(b, b->items[s->out].buffer, b->items[s->in[0]].buffer, 0);
    }
    b->step_count = kept;
}

/* ---- results over inputs ---- */

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
    const bool whole = in->desc.dtype == out->desc.dtype && from->bytes == to->bytes &&
                       DHOWI_GUARD(in_place_of_another_order,
                                   in->contiguous && in->offset == 0 &&
                                       dhowi_shape_equal(in->desc.rank, in->desc.shape,
                                                         out->desc.rank, out->desc.shape));
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

dhow_status dhowi_reuse_inputs(dhowi_lowering *b, uint32_t first_step) {
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
