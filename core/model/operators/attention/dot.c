/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaled dot products of queries and keys that weigh values.
 */
#include <inttypes.h>
#include <math.h>

#include "base/errors/planted.h"
#include "kernel/optimise.h"
#include "model/lower/products/products.h"
#include "model/operators/attention/attention.h"

/* ---- masks ---- */

/* x where the condition holds, else what softmax makes 0 of */
static dhow_status keep_where(dhowi_lowering *b, int32_t condition, int32_t x, int32_t *out) {
    const dhowi_tensor_desc one = {.dtype = dhowi_desc_at(b, x)->dtype};
    int32_t least;
    DHOWI_TRY(dhowi_filled(b, &one, -INFINITY, &least));
    return dhowi_select(b, condition, x, least, out);
}

dhow_status dhowi_rows(dhowi_lowering *b, int64_t first, int64_t l, int32_t *out) {
    const int64_t down[] = {l, 1};
    DHOWI_TRY(dhowi_numbers(b, DHOW_I64, (double)first, 1, l, out));
    return dhowi_reshape(b, *out, 2, down, out);
}

dhow_status dhowi_window(dhowi_lowering *b, int32_t row, int64_t keys, int64_t left, int64_t right,
                         int32_t *out) {
    int32_t column, before, after;
    DHOWI_TRY(dhowi_numbers(b, DHOW_I64, 0, 1, keys, &column));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, row, column, &column));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_LE, column, (double)left, &before));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_GE, column, -(double)right, &after));
    if (left >= 0 && right >= 0) DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_AND, before, after, &after));
    return dhowi_cast_to(b, right >= 0 ? after : before, DHOW_BOOL, out);
}

static dhow_status apply_masks(dhowi_lowering *b, const dhowi_attention *a, int32_t scores,
                               int32_t *out) {
    *out = scores;
    for (uint32_t i = 0; i < a->mask_count; i++) {
        const bool keeps = dhowi_desc_at(b, a->masks[i])->dtype == DHOW_BOOL;
        DHOWI_TRY(keeps ? keep_where(b, a->masks[i], *out, out)
                        : dhowi_map_two(b, DHOWI_MAP_ADD, *out, a->masks[i], out));
    }
    return DHOW_OK;
}

/* ---- scores and weights ---- */

dhow_status dhowi_with_heads(dhowi_lowering *b, int32_t x, int64_t heads, int32_t *out) {
    dhowi_tensor_desc y = *dhowi_desc_at(b, x);
    *out = x;
    if (y.rank < 3 || y.shape[y.rank - 3] == heads) return DHOW_OK;
    y.shape[y.rank - 2] = y.shape[y.rank - 3] * y.shape[y.rank - 2] / heads;
    y.shape[y.rank - 3] = heads;
    return dhowi_reshape(b, x, y.rank, y.shape, out);
}

dhow_status dhowi_scaled_scores(dhowi_lowering *b, const dhowi_attention *a, int32_t *out) {
    const dhowi_tensor_desc k = *dhowi_desc_at(b, a->k);
    int32_t order[DHOW_MAX_RANK], q, kt;
    int64_t heads, shared;
    DHOWI_TRY(dhowi_heads_of(b, a, &heads, &shared));
    for (int32_t i = 0; i < k.rank; i++) order[i] = i;
    order[k.rank - 2] = k.rank - 1;
    order[k.rank - 1] = k.rank - 2;
    DHOWI_TRY(dhowi_permute(b, a->k, order, &kt));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, a->q, a->scale, &q));
    DHOWI_TRY(dhowi_with_heads(b, q, shared, &q));
    DHOWI_TRY(dhowi_product(b, q, kt, -1, out));
    return dhowi_with_heads(b, *out, heads, out);
}

/* cap tanh(x / cap) */
static dhow_status capped(dhowi_lowering *b, double cap, int32_t x, int32_t *out) {
    dhowi_program p = {0};
    *out = x;
    if (cap == 0) return DHOW_OK;
    (void)dhowi_program_add(&p, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_constants(&p, DHOWI_MAP_DIV, 1, cap, 0);
    (void)dhowi_program_add(&p, DHOWI_MAP_TANH, 0);
    (void)dhowi_program_constants(&p, DHOWI_MAP_MUL, 1, cap, 0);
    return dhowi_map(b, &p, &x, 1, out);
}

/* Rows of scores that keep nothing have weights of 0. */
static dhow_status zero_empty(dhowi_lowering *b, int32_t scores, int32_t *weights) {
    const dhowi_tensor_desc one = {.dtype = dhowi_desc_at(b, scores)->dtype};
    bool last[DHOW_MAX_RANK] = {false};
    int32_t most, zero;
    last[dhowi_desc_at(b, scores)->rank - 1] = true;
    DHOWI_TRY(dhowi_reduce(b, DHOWI_MAX_OF, scores, last, &most));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_IS_INF, 1, 0, most, &most));
    DHOWI_TRY(dhowi_filled(b, &one, 0, &zero));
    return dhowi_select(b, most, zero, *weights, weights);
}

/* Scores [..., heads, l, s] and behind each row its head's sink, a score without a value. */
static dhow_status beside_sinks(dhowi_lowering *b, int32_t sinks, int32_t scores, int32_t *out) {
    dhowi_tensor_desc column = *dhowi_desc_at(b, scores);
    const int64_t heads[] = {column.shape[column.rank - 3], 1, 1};
    int32_t in[] = {scores, -1};
    column.shape[column.rank - 1] = 1;
    DHOWI_TRY(dhowi_cast_to(b, sinks, column.dtype, &in[1]));
    DHOWI_TRY(dhowi_reshape(b, in[1], 3, heads, &in[1]));
    DHOWI_TRY(dhowi_expand(b, in[1], column.rank, column.shape, &in[1]));
    return dhowi_concat(b, in, 2, column.rank - 1, out);
}

static dhow_status weights(dhowi_lowering *b, const dhowi_attention *a, int32_t scores,
                           int32_t *out) {
    const dhow_dtype own = dhowi_desc_at(b, scores)->dtype;
    DHOWI_TRY(dhowi_cast_to(b, scores, a->precision != 0 ? a->precision : own, out));
    const dhowi_tensor_desc plain = *dhowi_desc_at(b, *out);
    const int32_t dim = plain.rank - 1;
    if (a->sinks > 0) DHOWI_TRY(beside_sinks(b, a->sinks - 1, *out, out));
    const dhowi_tensor_desc square = *dhowi_desc_at(b, *out);
    const dhowi_attrs last = {.dim = dim};
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_softmax, out, 1, &last, &square, out));
    if (a->sinks > 0) DHOWI_TRY(dhowi_narrow(b, *out, dim, 0, plain.shape[dim], 1, out));
    DHOWI_TRY(dhowi_cast_to(b, *out, own, out));
    return a->empty_is_zero && a->mask_count > 0 ? zero_empty(b, scores, out) : DHOW_OK;
}

dhow_status dhowi_heads_of(dhowi_lowering *b, const dhowi_attention *a, int64_t *heads,
                           int64_t *shared) {
    const dhowi_tensor_desc *q = dhowi_desc_at(b, a->q), *k = dhowi_desc_at(b, a->k);
    *heads = q->rank > 2 ? q->shape[q->rank - 3] : 1;
    *shared = k->rank > 2 ? k->shape[k->rank - 3] : 1;
    if (*heads == *shared || (*heads > 0 && *shared > 0 && *heads % *shared == 0)) return DHOW_OK;
    DHOWI_REFUSE("%" PRId64 " heads of query do not share %" PRId64 " of key", *heads, *shared);
}

dhow_status dhowi_attend_scores(dhowi_lowering *b, dhowi_attention *a) {
    int32_t *s = a->scores;
    DHOWI_TRY(dhowi_scaled_scores(b, a, &s[DHOWI_SCORES_SCALED]));
    DHOWI_TRY(capped(b, a->softcap, s[DHOWI_SCORES_SCALED], &s[DHOWI_SCORES_CAPPED]));
    DHOWI_TRY(apply_masks(b, a, s[DHOWI_SCORES_CAPPED], &s[DHOWI_SCORES_MASKED]));
    return weights(b, a, s[DHOWI_SCORES_MASKED], &s[DHOWI_SCORES_WEIGHTS]);
}

/* ---- in one step ---- */

/* Fewer rows do not fill the kernels' vectors and tiles. */
enum { LEAST_ROWS = 8 };

/* ATTENTION_MOST of kernels/attention.k, 0 where the device's library is faster: on GPUs, but with
 * tensor cores. */
static int64_t most_features(const dhowi_lowering *b, dhow_dtype dtype) {
    const dhow_device_desc *device = &b->device->desc;
    const bool half = dtype == DHOW_F16 || dtype == DHOW_BF16;
    if (device->kind == DHOW_DEVICE_CPU) return 256;
    return half && (device->flags & DHOW_DEVICE_TENSOR_CORES) != 0 ? 128 : 0;
}

static bool has_types_of_step(const dhowi_lowering *b, const dhowi_attention *a, dhowi_op_id op) {
    const dhow_dtype dtype = dhowi_desc_at(b, a->q)->dtype;
    for (uint32_t i = 0; i < a->mask_count; i++) {
        const dhow_dtype mask = dhowi_desc_at(b, a->masks[i])->dtype;
        if (mask != DHOW_BOOL && mask != dtype) return false;
    }
    return dhowi_desc_at(b, a->k)->dtype == dtype && dhowi_desc_at(b, a->v)->dtype == dtype &&
           (a->precision == 0 || a->precision == DHOW_F32) &&
           dhowi_op_supported(dhowi_op_of(op), dtype, b->device) == DHOW_OK;
}

static bool has_extents_of_step(const dhowi_lowering *b, const dhowi_attention *a) {
    const dhowi_tensor_desc *q = dhowi_desc_at(b, a->q), *k = dhowi_desc_at(b, a->k),
                            *v = dhowi_desc_at(b, a->v);
    const int64_t most = most_features(b, q->dtype);
    if (q->rank != 4 || k->rank != 4 || v->rank != 4) return false;
    return k->shape[0] == q->shape[0] && v->shape[0] == q->shape[0] && v->shape[1] == k->shape[1] &&
           q->shape[2] >= LEAST_ROWS && k->shape[2] > 0 && q->shape[3] > 0 && v->shape[3] > 0 &&
           q->shape[3] <= most && v->shape[3] <= most;
}

/* Tensor cores' tiles are filled with pieces of rows; elements that lie apart come one by one. */
static bool lies_as_step_likes(const dhowi_lowering *b, const dhowi_attention *a) {
    const int32_t refs[] = {a->q, a->k, a->v};
    if (b->device->desc.kind == DHOW_DEVICE_CPU) return true;
    for (int i = 0; i < 3; i++) {
        const dhowi_item *item = &b->items[refs[i]];
        if (item->desc.shape[3] > 1 && item->strides[3] != 1) return false;
    }
    return true;
}

bool dhowi_attends_at_once(const dhowi_lowering *b, const dhowi_attention *a) {
    return dhowi_optimises(DHOWI_OPTIMISE_ATTENTION) && !a->wants_scores && a->sinks == 0 &&
           DHOWI_GUARD(attention_capped, a->softcap == 0) && has_extents_of_step(b, a) &&
           has_types_of_step(b, a, DHOWI_OP_attention) && lies_as_step_likes(b, a);
}

/* All masks as one that is added; -1 without any. */
static dhow_status added_mask(dhowi_lowering *b, const dhowi_attention *a, int32_t *out) {
    const dhowi_tensor_desc one = {.dtype = dhowi_desc_at(b, a->q)->dtype};
    int32_t zero;
    *out = a->mask_count == 1 ? a->masks[0] : -1;
    if (a->mask_count == 0 || (*out >= 0 && dhowi_desc_at(b, *out)->dtype == one.dtype))
        return DHOW_OK;
    DHOWI_TRY(dhowi_filled(b, &one, 0, &zero));
    *out = zero;
    return apply_masks(b, a, zero, out);
}

/* The kernels write heads of a row side by side. */
static dhow_status in_one_step(dhowi_lowering *b, const dhowi_attention *a, dhowi_op_id op,
                               int32_t *out) {
    static const int32_t by_heads[] = {0, 2, 1, 3};
    const dhowi_attrs attrs = {.split = {.alpha = (float)a->scale,
                                         .beta = (float)a->softcap,
                                         .flag = {a->empty_is_zero, a->causal}}};
    const dhowi_tensor_desc *q = dhowi_desc_at(b, a->q), *v = dhowi_desc_at(b, a->v);
    const dhowi_tensor_desc y = {.dtype = q->dtype,
                                 .rank = 4,
                                 .shape = {q->shape[0], q->shape[2], q->shape[1], v->shape[3]}};
    int32_t in[] = {a->q, a->k, a->v, -1, -1};
    DHOWI_TRY(added_mask(b, a, &in[3]));
    if (a->lengths > 0) DHOWI_TRY(dhowi_dense(b, a->lengths - 1, &in[4]));
    DHOWI_TRY(dhowi_emit(b, op, in, a->lengths > 0 ? 5 : 4, &attrs, &y, out));
    return dhowi_permute(b, *out, by_heads, out);
}

/* ---- caches ---- */

enum {
    MOST_CACHE_FEATURES = 256, /* MOST of kernels/cache.k */
    MOST_CACHE_ROWS = 8,       /* on GPUs: of more, products and a softmax are faster */
    FEW_CACHE_ROWS = 32 /* of more, tiles are three times as fast on CPUs: for long prompts */
};

/* The first call, a prompt, usually has all the keys that there are: tiles look at the whole room.
 */
static bool has_rows_of_cache(const dhowi_lowering *b, int64_t steps, int64_t sharing,
                              int64_t room) {
    if (b->device->desc.kind != DHOW_DEVICE_CPU) return steps * sharing <= MOST_CACHE_ROWS;
    return steps <= FEW_CACHE_ROWS || steps <= room / 2;
}

static bool has_extents_of_cache(const dhowi_lowering *b, const dhowi_attention *a) {
    const dhowi_tensor_desc *q = dhowi_desc_at(b, a->q), *k = dhowi_desc_at(b, a->k),
                            *v = dhowi_desc_at(b, a->v);
    if (q->rank != 4 || k->rank != 4 || v->rank != 4 || k->shape[1] < 1 || k->shape[2] < 1)
        return false;
    return q->shape[3] > 0 && q->shape[3] <= MOST_CACHE_FEATURES &&
           v->shape[3] <= MOST_CACHE_FEATURES && b->items[a->k].strides[3] == 1 &&
           b->items[a->v].strides[3] == 1 &&
           has_rows_of_cache(b, q->shape[2], q->shape[1] / k->shape[1], k->shape[2]);
}

static bool attends_to_cache(const dhowi_lowering *b, const dhowi_attention *a) {
    return dhowi_optimises(DHOWI_OPTIMISE_ATTENTION) && a->lengths > 0 && !a->wants_scores &&
           a->sinks == 0 && has_extents_of_cache(b, a) &&
           has_types_of_step(b, a, DHOWI_OP_attention_cache);
}

/* What the lengths say, as a mask. */
static dhow_status mask_lengths(dhowi_lowering *b, dhowi_attention *a) {
    const int64_t column[] = {dhowi_desc_at(b, a->q)->shape[0], 1, 1, 1},
                  steps = dhowi_desc_at(b, a->q)->shape[2], keys = dhowi_desc_at(b, a->k)->shape[2];
    int32_t length, place, *mask = &a->masks[a->mask_count++];
    DHOWI_TRY(dhowi_reshape(b, a->lengths - 1, 4, column, &length));
    if (a->causal) { /* which goes no further than the length */
        DHOWI_TRY(dhowi_rows(b, -steps, steps, &place));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, place, length, &place));
        return dhowi_window(b, place, keys, -1, 0, mask);
    }
    DHOWI_TRY(dhowi_numbers(b, DHOW_I64, 0, 1, keys, &place));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_GT, length, place, &place));
    return dhowi_cast_to(b, place, DHOW_BOOL, mask);
}

/* ---- all of it ---- */

dhow_status dhowi_attend(dhowi_lowering *b, dhowi_attention *a, int32_t *out) {
    int64_t heads, shared;
    int32_t p;
    DHOWI_TRY(dhowi_heads_of(b, a, &heads, &shared));
    if (attends_to_cache(b, a)) return in_one_step(b, a, DHOWI_OP_attention_cache, out);
    if (a->lengths > 0) DHOWI_TRY(mask_lengths(b, a));
    a->lengths = 0;
    if (dhowi_attends_at_once(b, a)) return in_one_step(b, a, DHOWI_OP_attention, out);
    DHOWI_TRY(dhowi_attend_scores(b, a));
    DHOWI_TRY(dhowi_with_heads(b, a->scores[DHOWI_SCORES_WEIGHTS], shared, &p));
    DHOWI_TRY(dhowi_product(b, p, a->v, -1, out));
    return dhowi_with_heads(b, *out, heads, out);
}
