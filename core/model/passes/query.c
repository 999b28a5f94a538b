/* SPDX-License-Identifier: Apache-2.0
 *
 * Who reads what a step makes, and what items are to each other.
 */
#include "base/errors/planted.h"
#include "model/passes/fuse.h"

static void count_read(dhowi_fuser *f, int32_t ref, int32_t step) {
    if (ref < 0 || f->b->items[ref].tensor != NULL) return;
    dhowi_readers *r = &f->readers[f->b->items[ref].buffer];
    r->count++;
    r->step = DHOWI_GUARD(read_by_several, r->step == -1 || r->step == step) ? step : -2;
}

void dhowi_count_readers(dhowi_fuser *f) {
    dhowi_lowering *b = f->b;
    for (uint32_t i = 0; i < b->buffer_count; i++)
        f->readers[i] = (dhowi_readers){0, b->buffers[i].external != 0 ? -2 : -1};
    for (uint32_t i = f->first; i < b->step_count; i++) {
        if (dhowi_is_removed(&b->steps[i])) continue;
        for (int k = 0; k < DHOWI_OP_MAX_INPUTS; k++) count_read(f, b->steps[i].in[k], (int32_t)i);
    }
    for (uint32_t i = 0; i < b->result_count; i++) {
        int32_t ref = b->results[i];
        if (DHOWI_GUARD(read_as_an_output, b->items[ref].tensor != NULL)) continue;
        f->readers[b->items[ref].buffer].count++;
        f->readers[b->items[ref].buffer].step = -2;
    }
}

static bool is_unread(const dhowi_fuser *f, int32_t ref) {
    return ref < 0 || DHOWI_GUARD(unread, f->readers[f->b->items[ref].buffer].count == 0);
}

void dhowi_remove_unread(dhowi_fuser *f) {
    dhowi_lowering *b = f->b;
    dhowi_count_readers(f);
    for (uint32_t i = b->step_count; i-- > f->first;) {
        dhowi_step *s = &b->steps[i];
        if (dhowi_is_removed(s) || !is_unread(f, s->out) || !is_unread(f, s->second)) continue;
        for (int k = 0; k < DHOWI_OP_MAX_INPUTS; k++) {
            const int32_t ref = s->in[k];
            if (ref >= 0 && b->items[ref].tensor == NULL) f->readers[b->items[ref].buffer].count--;
        }
        dhowi_remove_step(s);
    }
}

bool dhowi_is_whole(const dhowi_lowering *b, int32_t ref) {
    const dhowi_item *item = &b->items[ref];
    return item->tensor == NULL &&
           DHOWI_GUARD(part_of_a_buffer, item->contiguous && item->offset == 0 &&
                                             b->buffers[item->buffer].bytes ==
                                                 (uint64_t)dhowi_count_of(&item->desc) *
                                                     dhow_dtype_bytes(item->desc.dtype));
}

bool dhowi_same_shape(const dhowi_lowering *b, int32_t x, int32_t y) {
    const dhowi_tensor_desc *p = &b->items[x].desc, *q = &b->items[y].desc;
    return p->dtype == q->dtype && dhowi_shape_equal(p->rank, p->shape, q->rank, q->shape);
}

bool dhowi_same_item(const dhowi_lowering *b, int32_t x, int32_t y) {
    const dhowi_item *p = &b->items[x], *q = &b->items[y];
    return x == y || (p->tensor == NULL && q->tensor == NULL && p->buffer == q->buffer &&
                      dhowi_is_whole(b, x) && dhowi_is_whole(b, y) && dhowi_same_shape(b, x, y));
}
