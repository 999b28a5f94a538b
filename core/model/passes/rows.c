/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows [n, c, w] beside convolutions, which take them as images [n, c, 1, w]. What is elementwise,
 * or puts rows side by side, takes them so as well: it can join a convolution then, and images keep
 * the layout that convolutions like.
 */
#include <string.h>

#include "base/memory/alloc.h"
#include "model/passes/fuse.h"

/* By buffer: whether it holds such rows. */
typedef struct rows {
    dhowi_lowering *b;
    uint32_t first;
    bool *is_image;
} rows;

static bool are_rows(const dhowi_lowering *b, int32_t ref) {
    return ref >= 0 && b->items[ref].tensor == NULL && b->items[ref].desc.rank == 3;
}

/* Elements in the order of their dimensions, as in a part of what is joined. */
static bool is_in_order(const dhowi_item *x) {
    const int64_t *stride = x->strides;
    return (x->desc.shape[2] == 1 || stride[2] == 1) && stride[0] >= stride[1] &&
           stride[1] >= stride[2];
}

static bool can_lift(const dhowi_lowering *b, const dhowi_step *s) {
    if (s->on_host || !are_rows(b, s->out)) return false;
    return s->op == DHOWI_OP_map ||
           (s->op == DHOWI_OP_copy && are_rows(b, s->in[0]) && is_in_order(&b->items[s->in[0]]) &&
            is_in_order(&b->items[s->out]));
}

static void mark(rows *r, int32_t ref, bool *changed) {
    const dhowi_item *item = &r->b->items[ref];
    bool *at = &r->is_image[item->buffer];
    *changed = *changed || !*at;
    *at = true;
}

/* From convolutions on, and back from those that follow. */
static void mark_neighbours(rows *r, const dhowi_step *s, bool *changed) {
    const dhowi_lowering *b = r->b;
    bool near = r->is_image[b->items[s->out].buffer];
    for (int i = 0; i < DHOWI_OP_MAX_INPUTS; i++)
        near = near || (are_rows(b, s->in[i]) && r->is_image[b->items[s->in[i]].buffer]);
    if (!near) return;
    mark(r, s->out, changed);
    for (int i = 0; i < DHOWI_OP_MAX_INPUTS; i++) {
        if (are_rows(b, s->in[i]) &&
            (s->op == DHOWI_OP_copy || dhowi_same_shape(b, s->in[i], s->out)))
            mark(r, s->in[i], changed);
    }
}

static bool mark_convolutions(rows *r) {
    const dhowi_lowering *b = r->b;
    bool any = false;
    for (uint32_t i = r->first; i < b->step_count; i++) {
        const dhowi_step *s = &b->steps[i];
        if (s->op != DHOWI_OP_conv2d && s->op != DHOWI_OP_conv2d_integer) continue;
        const int32_t images[] = {s->in[0], s->out};
        for (int k = 0; k < 2; k++) {
            const dhowi_item *x = &b->items[images[k]];
            if (x->tensor == NULL && x->desc.rank == 4 && x->desc.shape[2] == 1)
                mark(r, images[k], &any);
        }
    }
    return any;
}

/* x with an extent of 1 before its last one. */
static dhow_status lift(dhowi_lowering *b, int32_t *x) {
    const dhowi_item item = b->items[*x];
    const int32_t last = item.desc.rank - 1;
    int64_t shape[4], strides[4];
    if (last < 0) return DHOW_OK;
    memcpy(shape, item.desc.shape, sizeof shape);
    memcpy(strides, item.strides, sizeof strides);
    shape[last + 1] = shape[last];
    strides[last + 1] = strides[last];
    strides[last] *= shape[last];
    shape[last] = 1;
    return dhowi_view(b, *x, last + 2, shape, strides, item.offset, x);
}

static dhow_status lift_step(dhowi_lowering *b, uint32_t at) {
    dhowi_step s = b->steps[at];
    DHOWI_TRY(lift(b, &s.out));
    for (int i = 0; i < DHOWI_OP_MAX_INPUTS; i++)
        if (s.in[i] >= 0) DHOWI_TRY(lift(b, &s.in[i]));
    b->steps[at] = s;
    return DHOW_OK;
}

static dhow_status lift_steps(rows *r) {
    dhowi_lowering *b = r->b;
    bool changed = mark_convolutions(r);
    while (changed) {
        changed = false;
        for (uint32_t i = r->first; i < b->step_count; i++)
            if (can_lift(b, &b->steps[i])) mark_neighbours(r, &b->steps[i], &changed);
        for (uint32_t i = b->step_count; i-- > r->first;)
            if (can_lift(b, &b->steps[i])) mark_neighbours(r, &b->steps[i], &changed);
    }
    for (uint32_t i = r->first; i < b->step_count; i++) {
        if (can_lift(b, &b->steps[i]) && r->is_image[b->items[b->steps[i].out].buffer])
            DHOWI_TRY(lift_step(b, i));
    }
    return DHOW_OK;
}

dhow_status dhowi_lift_rows(dhowi_lowering *b, uint32_t first_step) {
    rows r = {.b = b, .first = first_step};
    r.is_image = dhowi_alloc_array((size_t)b->buffer_count + 1, sizeof *r.is_image);
    if (r.is_image == NULL) return dhowi_fail_memory("plan");
    memset(r.is_image, 0, (size_t)b->buffer_count + 1);
    const dhow_status status = lift_steps(&r);
    dhowi_free(r.is_image);
    return status;
}
