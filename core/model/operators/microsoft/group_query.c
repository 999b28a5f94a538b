/* SPDX-License-Identifier: Apache-2.0
 *
 * GroupQueryAttention: new keys and values are written into caches, behind those of each sequence,
 * and a query sees what stands up to its own place. Caches that slide have room for a window and
 * some more; once that is full the window's rows move to the front.
 */
#include <inttypes.h>
#include <math.h>

#include "base/memory/size.h"
#include "model/operators/attention/attention.h"
#include "model/operators/microsoft/microsoft.h"
#include "model/operators/shape/shape.h"

enum {
    QUERY,
    KEY,
    VALUE,
    PAST_KEY,
    PAST_VALUE,
    LENGTHS,
    TOTAL,
    COSINES,
    SINES,
    PLACES,
    BIAS,
    SINKS
};

typedef struct group_query {
    int64_t heads, shared; /* of queries; of keys and values */
    int64_t steps, total;
    bool joint;      /* past and present are one memory: how long they are is data */
    int32_t q, k, v; /* [batch, steps, heads, features] */
    int32_t row;     /* [batch or 1, steps]: the place of each new key */
    int32_t first;   /* of shared memory: [batch, 1], that of the first one */
    bool slides;
    int64_t held, kept; /* rows of caches that slide, before and after */
} group_query;

static dhow_status check_inputs(const dhowi_lowering *b) {
    const dhowi_tensor_desc *q = dhowi_desc_at(b, b->in[QUERY]);
    static const uint32_t wanted[] = {LENGTHS, TOTAL};
    for (size_t i = 0; i < 2; i++)
        if (!dhowi_given(b, wanted[i])) DHOWI_REFUSE("its input %u is missing", wanted[i]);
    if (dhowi_given(b, KEY) != dhowi_given(b, VALUE) ||
        dhowi_given(b, PAST_KEY) != dhowi_given(b, PAST_VALUE) ||
        dhowi_given(b, COSINES) != dhowi_given(b, SINES))
        DHOWI_REFUSE(
            "one of key and value, past_key and past_value, cos_cache and sin_cache is "
            "missing");
    for (uint32_t i = SINKS + 1; i < b->in_count; i++)
        if (dhowi_given(b, i))
            return dhowi_fail(DHOW_UNSUPPORTED, "its input %u (scales, norms or lengths)", i);
    for (uint32_t i = QUERY; i <= PAST_VALUE; i++) {
        if (!dhowi_given(b, i)) continue;
        const dhowi_tensor_desc *x = dhowi_desc_at(b, b->in[i]);
        if (x->dtype != q->dtype || !dhowi_is_float(x->dtype) ||
            x->rank != (i < PAST_KEY ? 3 : 4) || x->shape[0] != q->shape[0])
            DHOWI_REFUSE("input %u is %s with %d dimensions, query is %s of %" PRId64 " sequences",
                         i, dhow_dtype_name(x->dtype), x->rank, dhow_dtype_name(q->dtype),
                         q->shape[0]);
    }
    if (dhowi_count_of(dhowi_desc_at(b, b->in[LENGTHS])) != q->shape[0])
        DHOWI_REFUSE("seqlens_k does not have one number for each of %" PRId64 " sequences",
                     q->shape[0]);
    return DHOW_OK;
}

static dhow_status check_attributes(const dhowi_lowering *b) {
    static const char *const types[] = {"k_quant_type", "v_quant_type"};
    bool slides;
    DHOWI_TRY(dhowi_attr_flag(b, "sliding_window_cache", false, &slides));
    DHOWI_TRY(dhowi_attr_only(b, "kv_cache_bit_width", 0));
    DHOWI_TRY(dhowi_attr_only(b, "qk_output", 0));
    DHOWI_TRY(dhowi_attr_only(b, "causal", 1));
    for (size_t i = 0; i < 2; i++)
        if (!dhowi_attr_is(b, types[i], "NONE", "NONE")) return dhowi_refuse_text(b, types[i]);
    return DHOW_OK;
}

/* Queries, keys and values, which may lie side by side in the first input. */
static dhow_status take_apart(dhowi_lowering *b, group_query *g) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[QUERY]);
    const bool packed = !dhowi_given(b, KEY);
    g->heads = dhowi_attr_int(b, "num_heads", 0);
    g->shared = dhowi_attr_int(b, "kv_num_heads", 0);
    if (g->heads < 1 || g->shared < 1 || g->heads > INT32_MAX || g->shared > INT32_MAX ||
        g->heads % g->shared != 0)
        DHOWI_REFUSE("num_heads is %" PRId64 ", kv_num_heads %" PRId64, g->heads, g->shared);
    const int64_t all = packed ? g->heads + 2 * g->shared : g->heads, e = x.shape[2] / all;
    g->steps = x.shape[1];
    g->q = b->in[QUERY];
    if (x.shape[2] % all != 0 || e < 1)
        DHOWI_REFUSE("query has %" PRId64 " features for %" PRId64 " heads", x.shape[2], all);
    if (packed) {
        DHOWI_TRY(dhowi_narrow(b, g->q, 2, g->heads * e, g->shared * e, 1, &g->k));
        DHOWI_TRY(dhowi_narrow(b, g->q, 2, (g->heads + g->shared) * e, g->shared * e, 1, &g->v));
        DHOWI_TRY(dhowi_narrow(b, g->q, 2, 0, g->heads * e, 1, &g->q));
    } else {
        g->k = b->in[KEY];
        g->v = b->in[VALUE];
    }
    DHOWI_TRY(dhowi_by_heads(b, "num_heads", g->heads, &g->q));
    DHOWI_TRY(dhowi_by_heads(b, "kv_num_heads", g->shared, &g->k));
    DHOWI_TRY(dhowi_by_heads(b, "kv_num_heads", g->shared, &g->v));
    const dhowi_tensor_desc *k = dhowi_desc_at(b, g->k), *v = dhowi_desc_at(b, g->v);
    if (!dhowi_shape_equal(4, k->shape, 4, v->shape) || k->shape[1] != g->steps || k->shape[3] != e)
        DHOWI_REFUSE("key and value do not have %" PRId64 " steps of %" PRId64 " features",
                     g->steps, g->shared * e);
    return DHOW_OK;
}

/* The numbers of the new steps from `first` on, as [1, steps]. */
static dhow_status steps_from(dhowi_lowering *b, const group_query *g, int64_t first,
                              int32_t *out) {
    const int64_t row[] = {1, g->steps};
    DHOWI_TRY(dhowi_numbers(b, DHOW_I64, (double)first, 1, g->steps, out));
    return dhowi_reshape(b, *out, 2, row, out);
}

/* Past and present in one memory have the room that they have, and no number decides a shape. */
static dhow_status rows_in_shared(dhowi_lowering *b, group_query *g) {
    const int64_t column[] = {dhowi_desc_at(b, b->in[QUERY])->shape[0], 1};
    const int64_t room = dhowi_desc_at(b, b->in[PAST_KEY])->shape[2];
    int32_t first, number;
    if (room < g->steps || dhowi_desc_at(b, b->in[PAST_VALUE])->shape[2] != room)
        DHOWI_REFUSE("past_key and past_value do not have room for %" PRId64 " steps", g->steps);
    g->total = room;
    if (dhowi_given(b, BIAS)) { /* is as wide as the longest sequence: no more keys are read */
        const dhowi_tensor_desc *x = dhowi_desc_at(b, b->in[BIAS]);
        if (x->rank == 4 && x->shape[3] >= g->steps) g->total = DHOWI_MIN(room, x->shape[3]);
    }
    DHOWI_TRY(dhowi_keep_within(b, b->in[LENGTHS], "seqlens_k", 0, g->total - 1));
    DHOWI_TRY(dhowi_as_index(b, b->in[LENGTHS], &first));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_ADD, first, 1 - (double)g->steps, &first));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MAX, first, 0, &first)); /* the first call, padded */
    DHOWI_TRY(dhowi_reshape(b, first, 2, column, &first));
    DHOWI_TRY(steps_from(b, g, 0, &number));
    g->first = first;
    return dhowi_map_two(b, DHOWI_MAP_ADD, first, number, &g->row);
}

/* Rows of a cache that has `room` for more than its window, once `count` keys were written. */
static int64_t rows_held(int64_t count, int64_t window, int64_t room) {
    const int64_t over = DHOWI_MAX(count - window, (int64_t)0), spare = room - window + 1;
    return count - over / spare * spare;
}

/* Of one sequence, whose length is known. */
static dhow_status rows_that_slide(dhowi_lowering *b, group_query *g) {
    const int64_t window = dhowi_attr_int(b, "local_window_size", -1);
    int64_t all;
    if (!dhowi_given(b, PAST_KEY)) DHOWI_REFUSE("sliding_window_cache without past_key");
    if (dhowi_given(b, BIAS) || dhowi_desc_at(b, b->in[QUERY])->shape[0] != 1)
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "sliding_window_cache with attention_bias or several sequences");
    const int64_t room = dhowi_desc_at(b, b->in[PAST_KEY])->shape[2];
    if (window < 1 || room < window || dhowi_desc_at(b, b->in[PAST_VALUE])->shape[2] != room)
        DHOWI_REFUSE("past_key has room for %" PRId64 " rows: local_window_size is %" PRId64
                     ", and past_value has as many",
                     room, window);
    DHOWI_TRY(dhowi_one_int(b, b->in[TOTAL], "total_sequence_length", &all));
    if (all < g->steps || all > INT32_MAX)
        DHOWI_REFUSE("total_sequence_length is %" PRId64 ", the new steps are %" PRId64, all,
                     g->steps);
    DHOWI_TRY(dhowi_keep_within(b, b->in[LENGTHS], "seqlens_k", all - 1, all - 1));
    g->held = rows_held(all - g->steps, window, room);
    g->kept = rows_held(all, window, room);
    g->total = g->held + g->steps;
    return steps_from(b, g, all - g->steps, &g->row);
}

/* The first call begins at 0; later ones at the length of the sequence less what is new. */
static dhow_status rows_of(dhowi_lowering *b, group_query *g) {
    const int64_t column[] = {dhowi_desc_at(b, b->in[QUERY])->shape[0], 1};
    int32_t length;
    DHOWI_TRY(dhowi_attr_flag(b, "sliding_window_cache", false, &g->slides));
    if (g->slides) return rows_that_slide(b, g);
    g->joint = dhowi_given(b, PAST_KEY) && dhowi_is_shared(b, b->in[PAST_KEY]) &&
               dhowi_is_shared(b, b->in[PAST_VALUE]);
    if (g->joint) return rows_in_shared(b, g);
    DHOWI_TRY(dhowi_one_int(b, b->in[TOTAL], "total_sequence_length", &g->total));
    if (g->total < g->steps || g->total > INT32_MAX)
        DHOWI_REFUSE("total_sequence_length is %" PRId64 ", the new steps are %" PRId64, g->total,
                     g->steps);
    const bool first = g->total == g->steps;
    DHOWI_TRY(steps_from(b, g, first ? 0 : 1 - g->steps, &g->row));
    if (first) return DHOW_OK;
    DHOWI_TRY(dhowi_as_index(b, b->in[LENGTHS], &length));
    DHOWI_TRY(dhowi_reshape(b, length, 2, column, &length));
    return dhowi_map_two(b, DHOWI_MAP_ADD, length, g->row, &g->row);
}

/* ---- turning ---- */

static dhow_status angles(dhowi_lowering *b, uint32_t cache, int32_t places, int32_t *out) {
    const dhowi_tensor_desc p = *dhowi_desc_at(b, places), c = *dhowi_desc_at(b, b->in[cache]);
    const int64_t shape[] = {p.shape[0], p.shape[1], 1, c.shape[1]};
    DHOWI_TRY(dhowi_gather_along(b, b->in[cache], 0, places, out));
    return dhowi_reshape(b, *out, 4, shape, out);
}

static dhow_status turn(dhowi_lowering *b, group_query *g) {
    const dhowi_tensor_desc q = *dhowi_desc_at(b, g->q);
    int32_t places = g->row, cosine, sine;
    bool turned, interleaved;
    DHOWI_TRY(dhowi_attr_flag(b, "do_rotary", false, &turned));
    DHOWI_TRY(dhowi_attr_flag(b, "rotary_interleaved", false, &interleaved));
    if (!turned) return DHOW_OK;
    if (!dhowi_given(b, COSINES)) DHOWI_REFUSE("do_rotary without cos_cache and sin_cache");
    for (uint32_t i = COSINES; i <= SINES; i++) {
        const dhowi_tensor_desc *c = dhowi_desc_at(b, b->in[i]);
        char s[160];
        if (c->rank != 2 || c->dtype != q.dtype || c->shape[1] < 1 ||
            2 * c->shape[1] > q.shape[3] ||
            c->shape[1] != dhowi_desc_at(b, b->in[COSINES])->shape[1])
            DHOWI_REFUSE("input %u is %s for heads of %" PRId64 " features", i,
                         dhowi_desc_text(c, s, sizeof s), q.shape[3]);
    }
    if (dhowi_given(b, PLACES)) {
        const dhowi_tensor_desc *p = dhowi_desc_at(b, b->in[PLACES]);
        const int64_t all[] = {q.shape[0], q.shape[1]};
        if (!dhowi_shape_equal(p->rank, p->shape, 2, all))
            DHOWI_REFUSE("position_ids are not one number for each of %" PRId64
                         " sequences of "
                         "%" PRId64,
                         all[0], all[1]);
        places = b->in[PLACES];
    }
    DHOWI_TRY(angles(b, COSINES, places, &cosine));
    DHOWI_TRY(angles(b, SINES, places, &sine));
    DHOWI_TRY(dhowi_turn(b, g->q, cosine, sine, interleaved, &g->q));
    return dhowi_turn(b, g->k, cosine, sine, interleaved, &g->k);
}

/* ---- caches ---- */

/* Whether x[batch, shared, steps, features] can follow what a cache holds. */
static dhow_status check_cache(const dhowi_lowering *b, uint32_t past, int32_t x) {
    const dhowi_tensor_desc *p = dhowi_desc_at(b, b->in[past]), *own = dhowi_desc_at(b, x);
    char s[160], t[160];
    if (p->shape[1] == own->shape[1] && p->shape[3] == own->shape[3]) return DHOW_OK;
    DHOWI_REFUSE("input %u is %s, what follows it %s", past, dhowi_desc_text(p, s, sizeof s),
                 dhowi_desc_text(own, t, sizeof t));
}

/* x[batch, steps, shared, features] written into a cache [batch, shared, places, features]. */
static dhow_status cached(dhowi_lowering *b, const group_query *g, uint32_t past, int32_t x,
                          int32_t *out) {
    static const int32_t order[] = {0, 2, 1, 3};
    const int64_t none[4] = {0};
    int32_t cache, row;
    DHOWI_TRY(dhowi_permute(b, x, order, &x));
    const int64_t index[] = {dhowi_desc_at(b, g->row)->shape[0], 1, g->steps, 1};
    *out = x;
    if (!dhowi_given(b, past) && g->total == g->steps) return DHOW_OK;
    if (!dhowi_given(b, past))
        DHOWI_REFUSE("total_sequence_length is %" PRId64 ", of which %" PRId64
                     " are new, and past_key is missing",
                     g->total, g->steps);
    const dhowi_tensor_desc p = *dhowi_desc_at(b, b->in[past]);
    DHOWI_TRY(check_cache(b, past, x));
    if (g->joint) return dhowi_write_steps(b, b->in[past], x, g->first, 2, false, out);
    const int64_t after[] = {0, 0, g->total > p.shape[2] ? g->total - p.shape[2] : 0, 0};
    DHOWI_TRY(dhowi_reshape(b, g->row, 4, index, &row));
    DHOWI_TRY(dhowi_pad_with(b, b->in[past], none, after, 0, &cache));
    if (cache == b->in[past] || dhowi_is_known(b, cache))
        return dhowi_scatter_along(b, cache, x, row, 2, out);
    *out = cache;
    return dhowi_scatter_into(b, cache, x, row, 2);
}

/* *out is what is left in the cache of what is held and x, which *all are. */
static dhow_status slid(dhowi_lowering *b, const group_query *g, uint32_t past, int32_t x,
                        int32_t *all, int32_t *out) {
    static const int32_t order[] = {0, 2, 1, 3};
    const int64_t none[4] = {0};
    int32_t parts[2];
    DHOWI_TRY(dhowi_permute(b, x, order, &parts[1]));
    DHOWI_TRY(check_cache(b, past, parts[1]));
    const int64_t after[] = {0, 0, dhowi_desc_at(b, b->in[past])->shape[2] - g->kept, 0};
    DHOWI_TRY(dhowi_narrow(b, b->in[past], 2, 0, g->held, 1, &parts[0]));
    DHOWI_TRY(dhowi_concat(b, parts, 2, 2, all));
    DHOWI_TRY(dhowi_narrow(b, *all, 2, g->total - g->kept, g->kept, 1, out));
    return dhowi_pad_with(b, *out, none, after, 0, out);
}

/* What queries see, and the caches behind them. */
static dhow_status keys_and_values(dhowi_lowering *b, group_query *g, dhowi_attention *a) {
    if (g->slides) {
        DHOWI_TRY(slid(b, g, PAST_KEY, g->k, &a->k, &b->out[1]));
        DHOWI_TRY(slid(b, g, PAST_VALUE, g->v, &a->v, &b->out[2]));
        return steps_from(b, g, g->held, &g->row);
    }
    DHOWI_TRY(cached(b, g, PAST_KEY, g->k, &b->out[1]));
    DHOWI_TRY(cached(b, g, PAST_VALUE, g->v, &b->out[2]));
    DHOWI_TRY(dhowi_narrow(b, b->out[1], 2, 0, g->total, 1, &a->k));
    return dhowi_narrow(b, b->out[2], 2, 0, g->total, 1, &a->v);
}

static dhow_status score_masks(dhowi_lowering *b, const group_query *g, dhowi_attention *a) {
    const int64_t shape[] = {dhowi_desc_at(b, g->row)->shape[0], 1, g->steps, 1};
    const int64_t window = dhowi_attr_int(b, "local_window_size", -1);
    int32_t row;
    if (window == 0 || window < -1 || window > INT32_MAX)
        DHOWI_REFUSE("local_window_size is %" PRId64, window);
    DHOWI_TRY(dhowi_reshape(b, g->row, 4, shape, &row));
    if (g->joint) { /* the queries are the last of the keys, and what follows does not count */
        const int64_t flat = dhowi_desc_at(b, a->q)->shape[0];
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_ADD, g->first, (double)g->steps, &a->lengths));
        DHOWI_TRY(dhowi_reshape(b, a->lengths, 1, &flat, &a->lengths));
        a->lengths++;
        a->causal = true;
    }
    if (!g->joint || window >= 0)
        DHOWI_TRY(dhowi_window(b, row, g->total, window < 0 ? -1 : window - 1, g->joint ? -1 : 0,
                               &a->masks[a->mask_count++]));
    if (!dhowi_given(b, BIAS)) return DHOW_OK;
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[BIAS]);
    if (x.rank != 4 || x.dtype != dhowi_desc_at(b, a->q)->dtype)
        DHOWI_REFUSE("attention_bias is %s with %d dimensions", dhow_dtype_name(x.dtype), x.rank);
    return dhowi_add_mask(b, "attention_bias", b->in[BIAS], a);
}

/* What each head's softmax has besides its keys: a score that is given, or 0. */
static dhow_status sinks_of(dhowi_lowering *b, const group_query *g, dhowi_attention *a) {
    const dhow_dtype dtype = dhowi_desc_at(b, a->q)->dtype;
    const int64_t smooth = dhowi_attr_int(b, "smooth_softmax", -1);
    const dhowi_tensor_desc row = {.dtype = dtype, .rank = 1, .shape = {g->heads}};
    char s[160];
    if (dhowi_given(b, SINKS)) {
        const dhowi_tensor_desc *own = dhowi_desc_at(b, b->in[SINKS]);
        if (own->rank != 1 || own->shape[0] != g->heads)
            DHOWI_REFUSE("head_sink is %s for %" PRId64 " heads", dhowi_desc_text(own, s, sizeof s),
                         g->heads);
        a->sinks = b->in[SINKS] + 1;
        return DHOW_OK;
    }
    if (smooth == 0 || smooth == -1) return DHOW_OK;
    if (smooth != 1) return dhowi_fail(DHOW_UNSUPPORTED, "smooth_softmax is %" PRId64, smooth);
    DHOWI_TRY(dhowi_filled(b, &row, 0, &a->sinks));
    a->sinks++;
    return DHOW_OK;
}

dhow_status dhowi_lower_ms_group_query(dhowi_lowering *b) {
    static const int32_t order[] = {0, 2, 1, 3};
    dhowi_attention a = {0};
    group_query g = {0};
    DHOWI_TRY(check_inputs(b));
    DHOWI_TRY(check_attributes(b));
    DHOWI_TRY(take_apart(b, &g));
    DHOWI_TRY(rows_of(b, &g));
    DHOWI_TRY(turn(b, &g));
    DHOWI_TRY(dhowi_permute(b, g.q, order, &a.q));
    DHOWI_TRY(keys_and_values(b, &g, &a));
    DHOWI_TRY(dhowi_check_heads(b, &a));
    const double depth = (double)dhowi_desc_at(b, a.q)->shape[3],
                 scale = (double)dhowi_attr_float(b, "scale", 0);
    a.scale = scale != 0 ? scale : 1 / sqrt(depth);
    a.softcap = (double)dhowi_attr_float(b, "softcap", 0);
    if (!(a.softcap >= 0 && a.softcap < INFINITY)) DHOWI_REFUSE("softcap is %g", a.softcap);
    DHOWI_TRY(sinks_of(b, &g, &a));
    DHOWI_TRY(score_masks(b, &g, &a));
    DHOWI_TRY(dhowi_attend(b, &a, &b->out[0]));
    return dhowi_heads_together(b, b->out[0], &b->out[0]);
}
