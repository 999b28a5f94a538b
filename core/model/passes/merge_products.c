/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of one row with weights that lie side by side on the device are one product, whose
 * result the steps behind it read in parts. With more rows the parts would lie apart, and their
 * readers want them dense; there a product is no less work than its launch.
 */
#include "base/errors/planted.h"
#include "model/lower/composite.h"
#include "model/passes/fuse.h"

enum { MOST_TOGETHER = 8 };

typedef struct products {
    uint32_t count, step[MOST_TOGETHER]; /* in the order of their weights */
    int32_t axis;                        /* of the weights, along which they are joined */
    int64_t channels;                    /* of all */
} products;

static dhow_tensor *weight_of(const dhowi_lowering *b, const dhowi_step *s) {
    const dhowi_item *item = s->in[1] >= 0 ? &b->items[s->in[1]] : NULL;
    if (item == NULL || item->value < 0) return NULL;
    const dhowi_value *v = &b->model->values[item->value];
    return item->half ? v->half_resident : v->resident;
}

static bool same_input(const dhowi_lowering *b, int32_t x, int32_t y) {
    const dhowi_item *p = &b->items[x], *q = &b->items[y];
    return p->tensor == NULL && q->tensor == NULL && p->buffer == q->buffer &&
           p->offset == q->offset && p->contiguous && q->contiguous && dhowi_same_shape(b, x, y);
}

/* A result that nobody but steps of this segment looks at: as an output it would be copied. */
static bool is_inner(const dhowi_lowering *b, int32_t ref) {
    const int32_t buffer = b->items[ref].buffer;
    for (uint32_t i = 0; i < b->result_count; i++) {
        const dhowi_item *item = &b->items[b->results[i]];
        if (item->tensor == NULL && item->buffer == buffer) return false;
    }
    return b->buffers[buffer].external == 0 && !b->buffers[buffer].kept;
}

static bool is_row(const dhowi_lowering *b, const dhowi_step *s) {
    const dhowi_tensor_desc *y = &b->items[s->out].desc;
    return DHOWI_GUARD(products_of_many_rows, dhowi_count_of(y) == y->shape[y->rank - 1]) &&
           dhowi_is_whole(b, s->out);
}

/* One that can be part of a joined product, and whose weight is a part of others. */
static bool can_join(const dhowi_lowering *b, const dhowi_step *s) {
    if (s->op != DHOWI_OP_linear && s->op != DHOWI_OP_matmul) return false;
    const dhow_tensor *w = weight_of(b, s);
    return w != NULL && w->rank == 2 && s->in[3] < 0 && is_row(b, s) && is_inner(b, s->out) &&
           w->storage->bytes > dhowi_tensor_bytes(w) &&
           (s->in[2] < 0 || b->items[s->in[2]].tensor != NULL);
}

static bool alike(const dhowi_lowering *b, const dhowi_step *p, const dhowi_step *q) {
    const dhowi_activation *a = &p->attrs.activation, *c = &q->attrs.activation;
    return p->op == q->op && weight_of(b, p)->storage == weight_of(b, q)->storage &&
           same_input(b, p->in[0], q->in[0]) && (p->in[2] < 0) == (q->in[2] < 0) &&
           DHOWI_GUARD(products_with_other_ends,
                       a->kind == c->kind && a->alpha == c->alpha && a->beta == c->beta);
}

/* Those whose weights follow the first one's, each where the one before it ends. */
static bool find_products(const dhowi_fuser *f, uint32_t first, products *g) {
    const dhowi_lowering *b = f->b;
    const dhowi_step *s = &b->steps[first];
    *g = (products){.axis = s->op == DHOWI_OP_linear ? 0 : 1};
    if (!can_join(b, s)) return false;
    int64_t next = weight_of(b, s)->offset;
    for (uint32_t i = first; i < b->step_count && g->count < MOST_TOGETHER; i++) {
        const dhowi_step *other = &b->steps[i];
        if (!can_join(b, other) || !alike(b, s, other)) continue;
        const dhow_tensor *w = weight_of(b, other);
        if (!DHOWI_GUARD(weights_of_another_order, w->offset == next)) continue;
        next = w->offset + w->shape[g->axis] * w->strides[g->axis];
        g->channels += w->shape[g->axis];
        g->step[g->count++] = i;
    }
    return g->count > 1;
}

static dhow_status joined_weight(dhowi_lowering *b, const products *g, int32_t *out) {
    const dhow_tensor *w = weight_of(b, &b->steps[g->step[0]]);
    int64_t shape[2] = {w->shape[0], w->shape[1]};
    dhow_tensor *all;
    shape[g->axis] = g->channels;
    DHOWI_TRY(dhowi_tensor_view(w->storage, w->dtype, 2, shape, w->strides, w->offset, &all));
    dhow_status status = dhowi_known(b, all, -1, out);
    if (status != DHOW_OK) {
        dhow_tensor_release(all);
        return status;
    }
    b->items[*out].resident = all; /* it is on the device alone */
    return DHOW_OK;
}

static dhow_status joined_bias(dhowi_lowering *b, const products *g, int32_t *out) {
    int32_t rows[MOST_TOGETHER];
    *out = -1;
    if (b->steps[g->step[0]].in[2] < 0) return DHOW_OK;
    for (uint32_t i = 0; i < g->count; i++) rows[i] = b->steps[g->step[i]].in[2];
    b->free_of_limit = true; /* rows of constants that are there */
    dhow_status status = dhowi_concat(b, rows, g->count, 0, out);
    b->free_of_limit = false;
    return status;
}

static dhow_status merge(dhowi_fuser *f, const products *g) {
    dhowi_lowering *b = f->b;
    dhowi_step joined = b->steps[g->step[0]];
    dhowi_tensor_desc desc = b->items[joined.out].desc;
    int64_t at = 0;
    desc.shape[desc.rank - 1] = g->channels;
    DHOWI_TRY(joined_weight(b, g, &joined.in[1]));
    DHOWI_TRY(joined_bias(b, g, &joined.in[2]));
    DHOWI_TRY(dhowi_blank(b, &desc, &joined.out));
    for (uint32_t i = 0; i < g->count; i++) {
        dhowi_step *s = &b->steps[g->step[i]];
        const int64_t n = b->items[s->out].desc.shape[desc.rank - 1];
        dhowi_move_views(b, b->items[s->out].buffer, b->items[joined.out].buffer, at);
        at += n;
        dhowi_remove_step(s);
    }
    b->steps[g->step[0]] = joined;
    return DHOW_OK;
}

dhow_status dhowi_merge_products(dhowi_fuser *f) {
    dhowi_lowering *b = f->b;
    products g;
    if (b->device == b->model->context->cpu || b->model->placement != DHOW_PLACEMENT_STRICT)
        return DHOW_OK;
    for (uint32_t i = f->first; i < b->step_count; i++)
        if (find_products(f, i, &g)) DHOWI_TRY(merge(f, &g));
    return DHOW_OK;
}
