/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, QAttention and MultiHeadAttention: projections, biases and masks around scaled dot
 * products. What a mask hides is lowered by mask_filter_value, not taken out.
 */
#include "model/operators/attention/attention.h"

#include <inttypes.h>
#include <math.h>

#include "model/lower/products/products.h"
#include "model/operators/microsoft/microsoft.h"

static dhow_status heads_attribute(const dhowi_lowering *b, int64_t *heads) {
    *heads = dhowi_attr_int(b, "num_heads", 0);
    if (*heads < 1) DHOWI_REFUSE("num_heads is %" PRId64, *heads);
    return DHOW_OK;
}

/* Columns first .. first + width - 1 of x[batch, steps, ...] as [batch, heads, steps, features]. */
static dhow_status heads_of(dhowi_lowering *b, int32_t x, int64_t first, int64_t width,
                            int64_t heads, int32_t *out) {
    static const int32_t order[] = {0, 2, 1, 3};
    DHOWI_TRY(dhowi_narrow(b, x, 2, first, width, 1, out));
    DHOWI_TRY(dhowi_by_heads(b, "num_heads", heads, out));
    return dhowi_permute(b, *out, order, out);
}

/* ---- masks ---- */

/* 0 where a condition holds, else mask_filter_value: added to scores. */
static dhow_status filter(dhowi_lowering *b, int32_t condition, dhow_dtype dtype, int32_t *out) {
    const dhowi_tensor_desc one = {.dtype = dtype};
    int32_t zero, low;
    DHOWI_TRY(dhowi_filled(b, &one, 0, &zero));
    DHOWI_TRY(
        dhowi_filled(b, &one, (double)dhowi_attr_float(b, "mask_filter_value", -10000), &low));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_NE, condition, 0, &condition));
    return dhowi_select(b, condition, zero, low, out);
}

/* Keys number < end, and >= begin where that is given, of each sequence: [batch, 1, 1, keys]. */
static dhow_status between(dhowi_lowering *b, int32_t end, int32_t begin, int64_t batch,
                           int64_t keys, int32_t *out) {
    const int64_t column[] = {batch, 1, 1, 1};
    int32_t number, after;
    DHOWI_TRY(dhowi_numbers(b, DHOW_I64, 0, 1, keys, &number));
    DHOWI_TRY(dhowi_as_index(b, end, &end));
    DHOWI_TRY(dhowi_reshape(b, end, 4, column, &end));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_GT, end, number, out));
    if (begin < 0) return DHOW_OK;
    DHOWI_TRY(dhowi_as_index(b, begin, &begin));
    DHOWI_TRY(dhowi_reshape(b, begin, 4, column, &begin));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_LE, begin, number, &after));
    return dhowi_map_two(b, DHOWI_MAP_AND, *out, after, out);
}

/* Ends, or ends and begins, of sequences; or a flag for each key, or for each score. */
static dhow_status padding_mask(dhowi_lowering *b, const char *name, int32_t mask,
                                dhowi_attention *a) {
    const dhowi_tensor_desc m = *dhowi_desc_at(b, mask), q = *dhowi_desc_at(b, a->q);
    const int64_t batch = q.shape[0], keys = dhowi_desc_at(b, a->k)->shape[2];
    const int64_t shape[] = {batch, 1, m.rank == 3 ? q.shape[2] : 1, keys};
    int32_t keep, begin = -1;
    char s[160];
    if (dhowi_is_float(m.dtype)) DHOWI_REFUSE("%s is %s", name, dhow_dtype_name(m.dtype));
    if (m.rank == 1 && (m.shape[0] == batch || m.shape[0] == 2 * batch)) {
        DHOWI_TRY(dhowi_narrow(b, mask, 0, 0, batch, 1, &keep));
        if (m.shape[0] != batch) DHOWI_TRY(dhowi_narrow(b, mask, 0, batch, batch, 1, &begin));
        DHOWI_TRY(between(b, keep, begin, batch, keys, &keep));
    } else if ((m.rank == 2 || m.rank == 3) && m.shape[0] == batch && m.shape[m.rank - 1] == keys &&
               (m.rank == 2 || m.shape[1] == q.shape[2])) {
        DHOWI_TRY(dhowi_reshape(b, mask, 4, shape, &keep));
    } else {
        DHOWI_REFUSE("%s is %s for %" PRId64 " sequences of %" PRId64 " keys", name,
                     dhowi_desc_text(&m, s, sizeof s), batch, keys);
    }
    DHOWI_TRY(dhowi_cast_to(b, keep, DHOW_I64, &keep));
    DHOWI_TRY(filter(b, keep, q.dtype, &keep));
    return dhowi_add_mask(b, name, keep, a);
}

/* The inputs `mask` and `bias`, and what follows each query where that is not to be seen. */
static dhow_status masks(dhowi_lowering *b, const char *name, uint32_t mask, uint32_t bias,
                         dhowi_attention *a) {
    const int64_t steps = dhowi_desc_at(b, a->q)->shape[2], keys = dhowi_desc_at(b, a->k)->shape[2];
    bool causal;
    int32_t row;
    DHOWI_TRY(dhowi_attr_flag(b, "unidirectional", false, &causal));
    if (dhowi_given(b, mask)) DHOWI_TRY(padding_mask(b, name, b->in[mask], a));
    if (dhowi_given(b, bias)) {
        const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[bias]);
        if (x.rank != 4 || x.dtype != dhowi_desc_at(b, a->q)->dtype)
            DHOWI_REFUSE("attention_bias is %s with %d dimensions", dhow_dtype_name(x.dtype),
                         x.rank);
        DHOWI_TRY(dhowi_add_mask(b, "attention_bias", b->in[bias], a));
    }
    if (!causal) return DHOW_OK;
    DHOWI_TRY(dhowi_rows(b, keys - steps, steps, &row));
    return dhowi_window(b, row, keys, -1, 0, &a->masks[a->mask_count++]);
}

static dhow_status attend(dhowi_lowering *b, dhowi_attention *a) {
    const double depth = (double)dhowi_desc_at(b, a->q)->shape[3],
                 given = (double)dhowi_attr_float(b, "scale", 0);
    a->scale = given != 0 ? given : 1 / sqrt(fmax(depth, 1));
    DHOWI_TRY(dhowi_attend(b, a, &b->out[0]));
    return dhowi_heads_together(b, b->out[0], &b->out[0]);
}

/* ---- MultiHeadAttention ---- */

enum { QUERY, KEY, VALUE, BIAS, PADDING, SCORE_BIAS, PAST_KEY, PAST_VALUE, PAST_LENGTH, BEAMS };

static dhow_status check_multi_head(const dhowi_lowering *b) {
    const dhowi_tensor_desc *q = dhowi_desc_at(b, b->in[QUERY]);
    if (!dhowi_given(b, KEY) || !dhowi_given(b, VALUE))
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "key or value is packed into another input; dhow takes "
                          "query, key and value apart");
    if (dhowi_given(b, PAST_LENGTH) || dhowi_given(b, BEAMS))
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "past_sequence_length and cache_indirection are for a "
                          "cache that is shared; dhow takes past_key as it is");
    if (dhowi_given(b, PAST_KEY) != dhowi_given(b, PAST_VALUE))
        DHOWI_REFUSE("past_key and past_value are given together or not at all");
    for (uint32_t i = QUERY; i <= PAST_VALUE; i++) {
        if (!dhowi_given(b, i) || i == PADDING || i == SCORE_BIAS) continue;
        const dhowi_tensor_desc *x = dhowi_desc_at(b, b->in[i]);
        if (x->dtype != q->dtype || !dhowi_is_float(x->dtype))
            DHOWI_REFUSE("input %u is %s, query is %s", i, dhow_dtype_name(x->dtype),
                         dhow_dtype_name(q->dtype));
        const int32_t rank = i == BIAS ? 1 : i > BIAS ? 4 : 3;
        if (x->rank != rank && (i != KEY || x->rank != 4) && (i != VALUE || x->rank != 4))
            DHOWI_REFUSE("input %u has %d dimensions", i, x->rank);
    }
    if (dhowi_desc_at(b, b->in[KEY])->rank != dhowi_desc_at(b, b->in[VALUE])->rank)
        DHOWI_REFUSE("key and value have different numbers of dimensions");
    return DHOW_OK;
}

static dhow_status check_bias(const dhowi_lowering *b) {
    int64_t columns = 0;
    if (!dhowi_given(b, BIAS)) return DHOW_OK;
    if (dhowi_desc_at(b, b->in[KEY])->rank == 4)
        return dhowi_fail(DHOW_UNSUPPORTED, "a bias beside keys whose heads are apart");
    for (uint32_t i = QUERY; i <= VALUE; i++) columns += dhowi_desc_at(b, b->in[i])->shape[2];
    const int64_t count = dhowi_desc_at(b, b->in[BIAS])->shape[0];
    if (count != columns)
        DHOWI_REFUSE("bias has %" PRId64 " numbers for %" PRId64 " columns", count, columns);
    return DHOW_OK;
}

/* One of query, key and value with its part of the bias, from column *at of it on. */
static dhow_status biased_heads(dhowi_lowering *b, uint32_t input, int64_t heads, int64_t *at,
                                int32_t *out) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[input]);
    int32_t bias;
    *out = b->in[input];
    if (x.rank == 4) return DHOW_OK;
    if (dhowi_given(b, BIAS)) {
        DHOWI_TRY(dhowi_narrow(b, b->in[BIAS], 0, *at, x.shape[2], 1, &bias));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, *out, bias, out));
    }
    *at += x.shape[2];
    return heads_of(b, *out, 0, x.shape[2], heads, out);
}

/* What a query sees of more or fewer keys than there are queries, nothing says. */
static dhow_status check_causal(const dhowi_lowering *b, const dhowi_attention *a) {
    const int64_t steps = dhowi_desc_at(b, a->q)->shape[2], keys = dhowi_desc_at(b, a->k)->shape[2];
    if (dhowi_attr_int(b, "unidirectional", 0) != 1 || steps == 1 || steps == keys) return DHOW_OK;
    return dhowi_fail(DHOW_UNSUPPORTED,
                      "unidirectional for %" PRId64 " queries and %" PRId64 " keys of their own",
                      steps, keys);
}

dhow_status dhowi_lower_ms_multi_head(dhowi_lowering *b) {
    dhowi_attention a = {0};
    int64_t heads, at = 0;
    DHOWI_TRY(heads_attribute(b, &heads));
    DHOWI_TRY(check_multi_head(b));
    DHOWI_TRY(check_bias(b));
    DHOWI_TRY(biased_heads(b, QUERY, heads, &at, &a.q));
    DHOWI_TRY(biased_heads(b, KEY, heads, &at, &a.k));
    DHOWI_TRY(biased_heads(b, VALUE, heads, &at, &a.v));
    DHOWI_TRY(check_causal(b, &a));
    DHOWI_TRY(dhowi_after_past(b, PAST_KEY, &a.k));
    DHOWI_TRY(dhowi_after_past(b, PAST_VALUE, &a.v));
    DHOWI_TRY(dhowi_check_heads(b, &a));
    DHOWI_TRY(masks(b, "key_padding_mask", PADDING, SCORE_BIAS, &a));
    b->out[1] = a.k;
    b->out[2] = a.v;
    return attend(b, &a);
}

/* ---- Attention ---- */

enum { INPUT, WEIGHTS, PROJECTION_BIAS, MASK_INDEX, PAST, ADDED, SHARED_LENGTH };

/* Columns of the weights for queries, keys and values. */
static dhow_status widths_of(const dhowi_lowering *b, int64_t widths[3]) {
    const dhowi_tensor_desc *w = dhowi_desc_at(b, b->in[WEIGHTS]);
    uint32_t count;
    const int64_t *given = dhowi_attr_ints(b, "qkv_hidden_sizes", &count);
    int64_t all = 0;
    if (given != NULL && count != 3) DHOWI_REFUSE("qkv_hidden_sizes has %u numbers, not 3", count);
    for (int i = 0; i < 3; i++) {
        widths[i] = given != NULL ? given[i] : w->shape[1] / 3;
        if (widths[i] < 1 || widths[i] > w->shape[1] - all)
            DHOWI_REFUSE("weights have %" PRId64 " columns, too few for queries, keys and values",
                         w->shape[1]);
        all += widths[i];
    }
    if (all != w->shape[1] || widths[0] != widths[1])
        DHOWI_REFUSE("%" PRId64 " columns of weights are not %" PRId64 " of queries, %" PRId64
                     " of keys and %" PRId64 " of values",
                     w->shape[1], widths[0], widths[1], widths[2]);
    return DHOW_OK;
}

static dhow_status check_projection(const dhowi_lowering *b, bool quantised) {
    const dhowi_tensor_desc *x = dhowi_desc_at(b, b->in[INPUT]),
                            *w = dhowi_desc_at(b, b->in[WEIGHTS]);
    char s[160], t[160];
    if (x->rank != 3 || w->rank != 2 || x->shape[2] != w->shape[0] ||
        (!quantised && (!dhowi_is_float(x->dtype) || x->dtype != w->dtype)))
        DHOWI_REFUSE("input %s and weights %s do not fit", dhowi_desc_text(x, s, sizeof s),
                     dhowi_desc_text(w, t, sizeof t));
    if (dhowi_given(b, PROJECTION_BIAS)) {
        const dhowi_tensor_desc *bias = dhowi_desc_at(b, b->in[PROJECTION_BIAS]);
        if (bias->rank != 1 || bias->shape[0] != w->shape[1] ||
            (quantised ? !dhowi_is_float(bias->dtype) : bias->dtype != w->dtype))
            DHOWI_REFUSE("bias is %s for %" PRId64 " columns", dhowi_desc_text(bias, s, sizeof s),
                         w->shape[1]);
    }
    if (dhowi_attr_int(b, "do_rotary", 0) != 0)
        return dhowi_fail(DHOW_UNSUPPORTED, "do_rotary; RotaryEmbedding turns queries and keys");
    if (dhowi_attr_int(b, "past_present_share_buffer", 0) != 0 ||
        (!quantised && dhowi_given(b, SHARED_LENGTH)))
        return dhowi_fail(DHOW_UNSUPPORTED, "a cache that past and present share");
    return DHOW_OK;
}

/* Half `part` of past [2, batch, heads, steps, features] before x. */
static dhow_status behind(dhowi_lowering *b, uint32_t past, int64_t part, int32_t *x) {
    if (!dhowi_given(b, past)) return DHOW_OK;
    const dhowi_tensor_desc p = *dhowi_desc_at(b, b->in[past]), own = *dhowi_desc_at(b, *x);
    char s[160], t[160];
    int32_t in[2] = {-1, *x};
    if (p.rank != 5 || p.shape[0] != 2 || p.shape[1] != own.shape[0] ||
        p.shape[2] != own.shape[1] || p.shape[4] != own.shape[3] || p.dtype != own.dtype)
        DHOWI_REFUSE("past is %s, what follows it %s", dhowi_desc_text(&p, s, sizeof s),
                     dhowi_desc_text(&own, t, sizeof t));
    DHOWI_TRY(dhowi_narrow(b, b->in[past], 0, part, 1, 1, &in[0]));
    DHOWI_TRY(dhowi_reshape(b, in[0], 4, p.shape + 1, &in[0]));
    return dhowi_concat(b, in, 2, 2, x);
}

/* Keys and values as halves of one tensor. */
static dhow_status present(dhowi_lowering *b, int32_t k, int32_t v, int32_t *out) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, k), y = *dhowi_desc_at(b, v);
    const int64_t shape[] = {1, x.shape[0], x.shape[1], x.shape[2], x.shape[3]};
    int32_t in[2];
    if (!dhowi_shape_equal(4, x.shape, 4, y.shape))
        DHOWI_REFUSE("present is for keys and values of one width");
    DHOWI_TRY(dhowi_reshape(b, k, 5, shape, &in[0]));
    DHOWI_TRY(dhowi_reshape(b, v, 5, shape, &in[1]));
    return dhowi_concat(b, in, 2, 0, out);
}

/* Inputs behind the projection. */
typedef struct attention_inputs {
    uint32_t mask, past, added;
} attention_inputs;

/* `all` are queries, keys and values side by side. */
static dhow_status attend_to_projected(dhowi_lowering *b, int32_t all, const attention_inputs *in) {
    dhowi_attention a = {0};
    int64_t heads, widths[3];
    DHOWI_TRY(heads_attribute(b, &heads));
    DHOWI_TRY(widths_of(b, widths));
    DHOWI_TRY(heads_of(b, all, 0, widths[0], heads, &a.q));
    DHOWI_TRY(heads_of(b, all, widths[0], widths[1], heads, &a.k));
    DHOWI_TRY(heads_of(b, all, widths[0] + widths[1], widths[2], heads, &a.v));
    DHOWI_TRY(behind(b, in->past, 0, &a.k));
    DHOWI_TRY(behind(b, in->past, 1, &a.v));
    DHOWI_TRY(masks(b, "mask_index", in->mask, in->added, &a));
    if (b->out_count > 1) DHOWI_TRY(present(b, a.k, a.v, &b->out[1]));
    return attend(b, &a);
}

dhow_status dhowi_lower_ms_attention(dhowi_lowering *b) {
    static const attention_inputs in = {MASK_INDEX, PAST, ADDED};
    int32_t all;
    DHOWI_TRY(check_projection(b, false));
    DHOWI_TRY(dhowi_product(b, b->in[INPUT], b->in[WEIGHTS],
                            dhowi_given(b, PROJECTION_BIAS) ? b->in[PROJECTION_BIAS] : -1, &all));
    return attend_to_projected(b, all, &in);
}

/* ---- QAttention: the projection is one of integers ---- */

dhow_status dhowi_lower_ms_quantised_attention(dhowi_lowering *b) {
    enum { INPUT_SCALE = 3, WEIGHT_SCALE, Q_MASK, INPUT_ZERO, WEIGHT_ZERO, Q_PAST, NONE };
    static const attention_inputs in = {Q_MASK, Q_PAST, NONE};
    int32_t all;
    DHOWI_TRY(check_projection(b, true));
    DHOWI_TRY(dhowi_ms_scaled_product(b, &(dhowi_ms_factor){INPUT, INPUT_SCALE, INPUT_ZERO},
                                      &(dhowi_ms_factor){WEIGHTS, WEIGHT_SCALE, WEIGHT_ZERO},
                                      &all));
    if (dhowi_given(b, PROJECTION_BIAS))
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, all, b->in[PROJECTION_BIAS], &all));
    return attend_to_projected(b, all, &in);
}
