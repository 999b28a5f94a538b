/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps that go into the rows behind them on GPUs: scores are scaled and masked while softmax reads
 * them, a sum is made while a norm reads it, which writes the sum as well where others read it. It
 * goes after the other passes, so that it takes what no product ends with. A processor has the rows
 * in its cache in any case.
 */
#include <math.h>

#include "base/errors/planted.h"
#include "model/passes/fuse.h"
#include "ops/run/rows.h"

/* x scale + other */
typedef struct pair {
    int32_t map;      /* the step */
    int32_t x, other; /* items, the second -1 where there is none */
    double scale;
} pair;

/* ---- reading maps ---- */

/* The step that makes all of what an item sees, in order. */
static int32_t maker_of(const dhowi_finder *f, int32_t ref) {
    const dhowi_lowering *b = f->b;
    const int32_t step = dhowi_writer_of(f, ref);
    return step >= 0 && b->steps[step].op == DHOWI_OP_map &&
                   dhowi_is_whole(b, b->steps[step].out) &&
                   dhowi_same_elements(b, ref, b->steps[step].out)
               ? step
               : -1;
}

/* A program of a load, perhaps a product with a number, and perhaps a sum with another operand. */
static bool read_pair(const dhowi_lowering *b, int32_t step, pair *k) {
    const dhowi_step *s = &b->steps[step];
    const dhowi_program *p = &s->attrs.program;
    const uint32_t first = dhowi_word_source(p->word[0]);
    uint32_t at = 1;
    if (dhowi_word_op(p->word[0]) != DHOWI_MAP_LOAD || first >= DHOWI_MAP_OPERANDS) return false;
    *k = (pair){.map = step, .x = s->in[first], .other = -1, .scale = 1};
    if (at < p->words && dhowi_word_source(p->word[at]) == DHOWI_MAP_CONSTANT) {
        const uint32_t op = dhowi_word_op(p->word[at]);
        const double number = p->constant[dhowi_word_constant(p->word[at++])];
        if (op != DHOWI_MAP_MUL && op != DHOWI_MAP_DIV) return false;
        k->scale = op == DHOWI_MAP_MUL ? number : 1 / number;
    }
    if (at < p->words && dhowi_word_op(p->word[at]) == DHOWI_MAP_ADD &&
        dhowi_word_source(p->word[at]) < DHOWI_MAP_OPERANDS)
        k->other = s->in[dhowi_word_source(p->word[at++])];
    if (k->scale == 1 && k->other >= 0 && !dhowi_same_shape(b, k->x, s->out)) { /* mask + scores */
        const int32_t x = k->x;
        k->x = k->other;
        k->other = x;
    }
    return at == p->words && at > 1 && isfinite((float)k->scale);
}

static bool is_dense(const dhowi_lowering *b, int32_t ref) {
    return b->items[ref].contiguous && dhowi_is_aligned(b, ref);
}

/* Which row of the other operand goes with which row of x; kernels have room for three dimensions.
 */
static bool lay_out_rows(const dhowi_lowering *b, const pair *k, dhowi_axis_split *s) {
    enum { DIMENSIONS = 3 };
    const dhowi_tensor_desc *x = &b->items[k->x].desc,
                            *o = &b->items[k->other >= 0 ? k->other : k->x].desc;
    const int32_t further = x->rank - o->rank;
    int64_t stride = dhowi_count_of(o) / DHOWI_MAX(s->n, (int64_t)1);
    s->rank = 0;
    if (dhowi_shape_equal(x->rank, x->shape, o->rank, o->shape)) {
        s->shape[0] = s->outer;
        s->strides[0] = 1;
        s->rank = 1;
        return true;
    }
    if (!DHOWI_GUARD(rows_of_other_extents,
                     o->rank > 0 && x->shape[x->rank - 1] == s->n && o->shape[o->rank - 1] == s->n))
        return false;
    for (int32_t i = 0; i < x->rank - 1; i++) {
        const int64_t own = i >= further ? o->shape[i - further] : 1;
        stride /= own;
        if (x->shape[i] == 1) continue;
        const int64_t moves = DHOWI_GUARD(rows_that_repeat, own != 1) ? stride : 0;
        const bool joins = s->rank > 0 && s->strides[s->rank - 1] == moves * x->shape[i];
        if (!joins && s->rank == DIMENSIONS) return false;
        const int32_t at = joins ? s->rank - 1 : s->rank++;
        s->shape[at] = joins ? s->shape[at] * x->shape[i] : x->shape[i];
        s->strides[at] = moves;
    }
    if (s->rank == 0) s->shape[s->rank++] = 1;
    return true;
}

/* Fills in the rows of n elements that a step is made of; whether kernels take it so. */
static bool fits(const dhowi_lowering *b, const pair *k, dhowi_op_id op, int64_t n, dhowi_step *s) {
    const int32_t out = b->steps[k->map].out;
    const dhow_dtype dtype = b->items[out].desc.dtype;
    const int64_t count = dhowi_count_of(&b->items[out].desc);
    s->op = op;
    s->attrs.split = (dhowi_axis_split){.outer = n > 0 ? count / n : 0, .n = n};
    return count > 0 && dhowi_same_shape(b, k->x, out) &&
           DHOWI_GUARD(rows_that_lie_apart, is_dense(b, k->x)) &&
           (k->other < 0 || (is_dense(b, k->other) && b->items[k->other].desc.dtype == dtype)) &&
           lay_out_rows(b, k, &s->attrs.split) && dhowi_joins_rows(dtype, n) &&
           dhowi_op_supported(dhowi_op_of(op), dtype, b->device) == DHOW_OK;
}

/* ---- joining ---- */

/* Scores that nobody else reads go with the softmax. */
static void join_softmax(const dhowi_finder *f, int32_t step) {
    dhowi_lowering *b = f->b;
    dhowi_step s = b->steps[step];
    const dhowi_tensor_desc *x = &b->items[s.in[0]].desc;
    const int32_t map = maker_of(f, s.in[0]), last = x->rank - 1;
    pair k;
    if (map < 0 || !read_pair(b, map, &k) ||
        !DHOWI_GUARD(masked_and_read_again, f->of[b->items[s.in[0]].buffer].reads == 1) ||
        !DHOWI_GUARD(masked_along_others, s.attrs.dim == -1 || s.attrs.dim == last) ||
        !fits(b, &k, DHOWI_OP_softmax_scores, x->shape[last], &s))
        return;
    s.attrs.split.alpha = (float)k.scale;
    s.in[0] = k.x;
    s.in[1] = k.other;
    dhowi_remove_step(&b->steps[map]);
    b->steps[step] = s;
}

static bool is_known_or_none(const dhowi_lowering *b, int32_t ref) {
    return ref < 0 || b->items[ref].tensor != NULL;
}

/* The norm takes the place of the sum, which others may read before it. */
static void join_norm(const dhowi_finder *f, int32_t step) {
    dhowi_lowering *b = f->b;
    dhowi_step s = b->steps[step];
    const bool centred = s.op == DHOWI_OP_layernorm || s.attrs.split.flag[0] != 0;
    const dhowi_tensor_desc *x = &b->items[s.in[0]].desc;
    const int64_t n = s.op == DHOWI_OP_layernorm ? x->shape[x->rank - 1] : s.attrs.split.n;
    const int32_t map = maker_of(f, s.in[0]);
    pair k;
    if (map < 0 || !read_pair(b, map, &k) || k.other < 0 || k.scale != 1 ||
        !is_known_or_none(b, s.in[1]) || !is_known_or_none(b, s.in[2]) ||
        !fits(b, &k, DHOWI_OP_norm_sum, n, &s))
        return;
    s.attrs.split.flag[0] = centred;
    s.in[3] = s.in[2];
    s.in[2] = s.in[1];
    s.in[0] = k.x;
    s.in[1] = k.other;
    if (!DHOWI_GUARD(sum_read_again, f->of[b->items[b->steps[map].out].buffer].reads == 1))
        s.second = b->steps[map].out;
    dhowi_remove_step(&b->steps[step]);
    b->steps[map] = s;
}

dhow_status dhowi_join_rows(dhowi_lowering *b, uint32_t first_step) {
    dhowi_finder f;
    if (dhowi_device_is_host(b->device)) return DHOW_OK;
    DHOWI_TRY(dhowi_finder_begin(&f, b, first_step));
    for (uint32_t i = first_step; i < b->step_count; i++) {
        const dhowi_op_id op = b->steps[i].op;
        if (op == DHOWI_OP_softmax) join_softmax(&f, (int32_t)i);
        if (op == DHOWI_OP_layernorm || op == DHOWI_OP_normalize) join_norm(&f, (int32_t)i);
    }
    dhowi_finder_end(&f);
    return DHOW_OK;
}
