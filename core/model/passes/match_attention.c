/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention spelt in single nodes: a product of queries and turned keys, perhaps scaled by a number
 * (the scores, or queries or keys before) and with a mask added, a softmax of its rows, a product
 * with values, and often a copy that puts heads of a row side by side. It becomes one step where
 * dhowi_attends_at_once() would make one of an Attention node, and nobody else reads the scores.
 * It goes before the other passes, which would join scale and mask to something else.
 */
#include <math.h>

#include "base/errors/planted.h"
#include "kernel/optimise.h"
#include "model/operators/attention/attention.h"
#include "model/passes/fuse.h"

enum { MOST_GONE = 8, HEAD_RANK = 4 };

/* What was found; steps, -1 for one that is not there. */
typedef struct written {
    int32_t weigh, copy, product, cast;
    int32_t gone[MOST_GONE]; /* steps that the one step does as well */
    uint32_t gone_count;
    int32_t scores; /* the item that a mask was added to, else the product */
    bool scaled;
    bool unscaled; /* queries or keys are read as they were before a pass that scales them */
    int64_t keys;
    dhowi_attention a;
    int32_t out; /* [batch, rows, heads, features] */
} written;

/* ---- reading steps ---- */

/* The step that makes all of what an item sees, in order, for one reader. */
static int32_t made_for_one(const dhowi_finder *f, int32_t ref) {
    const dhowi_lowering *b = f->b;
    const int32_t step = dhowi_writer_of(f, ref);
    if (step < 0 || b->steps[step].second >= 0) return -1;
    const int32_t out = b->steps[step].out;
    const dhowi_traffic *t = &f->of[b->items[out].buffer];
    return dhowi_is_whole(b, out) && dhowi_same_elements(b, ref, out) &&
                   DHOWI_GUARD(scores_read_elsewhere, t->reads == 1)
               ? step
               : -1;
}

static bool take(written *k, int32_t step) {
    if (k->gone_count == MOST_GONE) return false;
    k->gone[k->gone_count++] = step;
    return true;
}

static bool is_plain_product(const dhowi_lowering *b, const dhowi_step *s) {
    return s->op == DHOWI_OP_matmul && s->in[2] < 0 && s->in[3] < 0 &&
           s->attrs.activation.kind == 0 && b->items[s->in[0]].desc.rank >= 2 &&
           b->items[s->in[0]].desc.rank <= HEAD_RANK &&
           b->items[s->in[1]].desc.rank <= b->items[s->in[0]].desc.rank;
}

/* A map that multiplies an item by a number that is known. */
static bool read_scale(const dhowi_finder *f, int32_t step, int32_t *x, double *number) {
    dhowi_form g;
    if (!dhowi_read_form(f, step, &g) || f->b->items[g.x].tensor != NULL ||
        (g.op != DHOWI_MAP_MUL && g.op != DHOWI_MAP_DIV) ||
        (g.y >= 0 && !dhowi_number_of(f->b, g.y, &g.number)))
        return false;
    *x = g.x;
    *number = g.op == DHOWI_MAP_MUL ? g.number : 1 / g.number;
    return true;
}

/* ---- finding ---- */

static bool find_product(const dhowi_finder *f, int32_t ref, written *k);

/* One of two operands is the scores, to which the other does not add dimensions. */
static bool find_masked(const dhowi_finder *f, int32_t step, written *k) {
    const dhowi_lowering *b = f->b;
    const written before = *k;
    dhowi_form g;
    if (!dhowi_read_form(f, step, &g) || g.op != DHOWI_MAP_ADD || g.y < 0) return false;
    if (!DHOWI_GUARD(mask_scaled_too, !k->scaled) || k->a.mask_count > 0) return false;
    for (int side = 0; side < 2; side++) {
        const int32_t scores = side == 0 ? g.x : g.y;
        *k = before;
        k->a.masks[k->a.mask_count++] = side == 0 ? g.y : g.x;
        k->scores = scores;
        if (DHOWI_GUARD(mask_with_more_rows, dhowi_same_shape(b, scores, b->steps[step].out)) &&
            find_product(f, scores, k))
            return true;
    }
    return false;
}

/* From the scores back to the product that they are of. */
static bool find_product(const dhowi_finder *f, int32_t ref, written *k) {
    const int32_t step = made_for_one(f, ref);
    double number;
    if (step < 0 || !take(k, step)) return false;
    const dhowi_step *s = &f->b->steps[step];
    if (is_plain_product(f->b, s)) {
        k->product = step;
        return true;
    }
    if (s->op == DHOWI_OP_cast && k->cast < 0) { /* softmax of f16 in f32 */
        k->cast = step;
        return find_product(f, s->in[0], k);
    }
    if (read_scale(f, step, &ref, &number)) {
        k->scaled = true;
        k->a.scale *= number;
        return find_product(f, ref, k);
    }
    return find_masked(f, step, k);
}

/* Queries or keys without a number that only they were multiplied by. */
static void unscale(const dhowi_finder *f, int32_t *ref, written *k) {
    const int32_t step = made_for_one(f, *ref);
    int32_t x;
    double number;
    if (step < 0 || !read_scale(f, step, &x, &number) || !dhowi_same_shape(f->b, x, *ref) ||
        !take(k, step))
        return;
    k->a.scale *= number;
    k->unscaled = true;
    *ref = x;
}

/* x[..., rows, columns] as [batch, heads, rows, columns] */
static dhow_status with_heads(dhowi_lowering *b, const int64_t heads[2], int32_t x, int32_t *out) {
    const dhowi_item item = b->items[x];
    const int32_t rank = item.desc.rank;
    *out = x;
    if (rank == HEAD_RANK) return DHOW_OK;
    const bool one = rank < 3 || item.desc.shape[0] == 1; /* for all heads */
    const int64_t step = one ? 0 : item.strides[0];
    const int64_t shape[] = {one ? 1 : heads[0], one ? 1 : heads[1], item.desc.shape[rank - 2],
                             item.desc.shape[rank - 1]};
    const int64_t strides[] = {step * heads[1], step, item.strides[rank - 2],
                               item.strides[rank - 1]};
    return dhowi_view(b, x, HEAD_RANK, shape, strides, item.offset, out);
}

/* Batch and heads of the scores. A mask may tell them apart where the product does not. */
static bool find_heads(const dhowi_lowering *b, const written *k, int64_t heads[2]) {
    const int32_t product = b->steps[k->product].out;
    const dhowi_tensor_desc *p = &b->items[product].desc,
                            *m = &b->items[k->scores >= 0 ? k->scores : product].desc;
    const int32_t further = m->rank - p->rank;
    if (!DHOWI_GUARD(mask_of_other_rows,
                     further >= 0 && m->rank <= HEAD_RANK &&
                         dhowi_shape_equal(2, m->shape + m->rank - 2, 2, p->shape + p->rank - 2) &&
                         (further > 0 || dhowi_shape_equal(m->rank, m->shape, p->rank, p->shape))))
        return false;
    const dhowi_tensor_desc *from = further > 0 ? m : p;
    heads[0] = from->rank == HEAD_RANK ? from->shape[0] : 1;
    heads[1] = from->rank >= 3 ? from->shape[from->rank - 3] : 1;
    return true;
}

static dhow_status find_operands(const dhowi_finder *f, written *k, int64_t heads[2]) {
    dhowi_lowering *b = f->b;
    const dhowi_step product = b->steps[k->product], weigh = b->steps[k->weigh];
    int32_t q = product.in[0], kt = product.in[1];
    int32_t order[] = {0, 1, 2, 3};
    const int32_t rank = b->items[kt].desc.rank;
    order[rank - 2] = rank - 1;
    order[rank - 1] = rank - 2;
    unscale(f, &q, k);
    unscale(f, &kt, k);
    DHOWI_TRY(dhowi_permute(b, kt, order, &k->a.k));
    unscale(f, &k->a.k, k);
    DHOWI_TRY(with_heads(b, heads, q, &k->a.q));
    DHOWI_TRY(with_heads(b, heads, k->a.k, &k->a.k));
    return with_heads(b, heads, weigh.in[1], &k->a.v);
}

/* Two items that see the same elements in the same places. */
static bool same_view(const dhowi_lowering *b, int32_t x, int32_t y) {
    const dhowi_item *p = &b->items[x], *q = &b->items[y];
    if (p->buffer != q->buffer || p->offset != q->offset || !dhowi_same_shape(b, x, y))
        return false;
    for (int32_t i = 0; i < p->desc.rank; i++)
        if (p->desc.shape[i] != 1 && p->strides[i] != q->strides[i]) return false;
    return true;
}

/* What a copy reads, with a batch of 1 where it names none. */
static dhow_status with_batch(dhowi_lowering *b, int32_t x, int32_t *out) {
    const dhowi_item item = b->items[x];
    const int64_t *shape = item.desc.shape, *strides = item.strides;
    *out = x;
    if (item.desc.rank != HEAD_RANK - 1) return DHOW_OK;
    const int64_t all[] = {1, shape[0], shape[1], shape[2]};
    const int64_t steps[] = {0, strides[0], strides[1], strides[2]};
    return dhowi_view(b, x, HEAD_RANK, all, steps, item.offset, out);
}

/* Where the step writes: to the copy that puts heads side by side, or to the product's place. */
static dhow_status find_out(const dhowi_finder *f, const int64_t heads[2], written *k) {
    static const int32_t by_heads[] = {0, 2, 1, 3};
    dhowi_lowering *b = f->b;
    const int32_t out = b->steps[k->weigh].out;
    const dhowi_traffic *t = &f->of[b->items[out].buffer];
    int32_t read;
    k->copy = -1;
    DHOWI_TRY(with_heads(b, heads, out, &k->out));
    DHOWI_TRY(dhowi_permute(b, k->out, by_heads, &k->out));
    if (t->reads != 1 || b->steps[t->reader].op != DHOWI_OP_copy) return DHOW_OK;
    const dhowi_step copy = b->steps[t->reader];
    const dhowi_tensor_desc y = b->items[k->out].desc;
    DHOWI_TRY(with_batch(b, copy.in[0], &read));
    if (!DHOWI_GUARD(heads_put_otherwise, same_view(b, read, k->out)) ||
        !dhowi_same_shape(b, copy.in[0], copy.out) || !dhowi_is_whole(b, copy.out))
        return DHOW_OK;
    k->copy = t->reader;
    return dhowi_reshape(b, copy.out, HEAD_RANK, y.shape, &k->out);
}

/* The softmax that makes the weights of a product of steps. */
static bool find_weights(const dhowi_finder *f, int32_t weigh, written *k, int32_t *scores) {
    const dhowi_lowering *b = f->b;
    const dhowi_step *s = &b->steps[weigh];
    *k = (written){.weigh = weigh, .product = -1, .cast = -1, .scores = -1, .a.scale = 1};
    if (!is_plain_product(b, s) || !dhowi_is_whole(b, s->out)) return false;
    const dhowi_tensor_desc *p = &b->items[s->in[0]].desc;
    int32_t step = made_for_one(f, s->in[0]);
    if (step >= 0 && b->steps[step].op == DHOWI_OP_cast && take(k, step))
        step = made_for_one(f, b->steps[step].in[0]);
    if (step < 0 || b->steps[step].op != DHOWI_OP_softmax || !take(k, step)) return false;
    *scores = b->steps[step].in[0];
    const dhowi_tensor_desc *x = &b->items[*scores].desc;
    k->keys = p->shape[p->rank - 1];
    k->a.precision = x->dtype == p->dtype ? (dhow_dtype)0 : x->dtype;
    const int32_t dim = b->steps[step].attrs.dim; /* models made in C may say -1 */
    return DHOWI_GUARD(softmax_of_other_rows,
                       (dim == -1 || dim == x->rank - 1) && x->shape[x->rank - 1] == k->keys);
}

/* Whether the step is faster than oneDNN's products, which does not pay where rows and keys are few
 * beside the features. Measured with AVX-512 on one thread, of their time: with heads of 64
 * features 2.2 for 8 rows and keys, 1.8 for 16, 1.1 to 1.2 for 32 to 128, 1.02 for 197, 0.95 for
 * 384; 0.75 for 64 rows of 16 features, 0.92 for 128 of 32, 0.93 for 1024 of 128, and 1.25 for 512
 * of 200. What is added to scores, and numbers that queries and keys are multiplied by, are passes
 * of their own beside products: with the first 197 rows of 64 take 0.8 of their time with AVX2. */
static bool pays(const dhowi_lowering *b, const written *found) {
    const dhowi_attention *a = &found->a;
    const dhowi_tensor_desc *q = &b->items[a->q].desc, *k = &b->items[a->k].desc;
    const int64_t least = (a->mask_count > 0 || found->unscaled ? 3 : 4) * q->shape[3];
    if (b->device != b->model->context->cpu || q->dtype != DHOW_F32) return true;
    return q->shape[2] >= least && k->shape[2] >= least;
}

/* Tensor cores' kernel takes powers of two: the least number of bf16 as a mask would be minus
 * infinity, and rows that see nothing NaN. */
static bool keeps_mask(const dhowi_lowering *b, const dhowi_attention *a) {
    return a->mask_count == 0 || b->items[a->masks[0]].desc.dtype != DHOW_BF16 ||
           (b->device->desc.flags & DHOW_DEVICE_TENSOR_CORES) == 0;
}

static bool are_aligned(const dhowi_lowering *b, const dhowi_attention *a) {
    return dhowi_is_aligned(b, a->q) && dhowi_is_aligned(b, a->k) && dhowi_is_aligned(b, a->v) &&
           (a->mask_count == 0 || dhowi_is_aligned(b, a->masks[0]));
}

static dhow_status find_attention(const dhowi_finder *f, int32_t weigh, written *k, bool *found) {
    int64_t heads[2];
    int32_t scores;
    *found = false;
    if (!find_weights(f, weigh, k, &scores) || !find_product(f, scores, k) ||
        !find_heads(f->b, k, heads))
        return DHOW_OK;
    DHOWI_TRY(find_operands(f, k, heads));
    DHOWI_TRY(find_out(f, heads, k));
    /* Kernels scale queries, whoever was scaled before: what that leaves of floats is theirs. */
    *found = DHOWI_GUARD(scaled_beyond_floats, fabs(k->a.scale) <= 0x1p32) &&
             dhowi_attends_at_once(f->b, &k->a) && pays(f->b, k) && keeps_mask(f->b, &k->a) &&
             are_aligned(f->b, &k->a);
    return DHOW_OK;
}

/* ---- replacing ---- */

static void replace(dhowi_lowering *b, const written *k) {
    const int32_t last = k->copy >= 0 ? k->copy : k->weigh;
    const dhowi_step s = {
        .op = DHOWI_OP_attention,
        .in = {k->a.q, k->a.k, k->a.v, k->a.mask_count > 0 ? k->a.masks[0] : -1, -1, -1},
        .out = k->out,
        .second = -1,
        .node = b->steps[k->weigh].node,
        .attrs = {.split = {.alpha = (float)k->a.scale}}};
    for (uint32_t i = 0; i < k->gone_count; i++) dhowi_remove_step(&b->steps[k->gone[i]]);
    dhowi_remove_step(&b->steps[k->weigh]);
    b->steps[last] = s;
}

dhow_status dhowi_recognise_attention(dhowi_lowering *b, uint32_t first_step) {
    dhowi_finder f;
    dhow_status status = dhowi_finder_begin(&f, b, first_step);
    for (uint32_t i = first_step; i < b->step_count && status == DHOW_OK; i++) {
        written k = {0};
        bool found = false;
        if (b->steps[i].op == DHOWI_OP_matmul) status = find_attention(&f, (int32_t)i, &k, &found);
        if (found) replace(b, &k);
    }
    dhowi_finder_end(&f);
    return status;
}
