/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX's Attention: heads side by side or apart, keys and values of earlier calls, masks. As the
 * standard has it since onnx 1.21: the cap is applied before the masks, and rows that keep nothing
 * are zeros.
 */
#include "formats/onnx.h"

#include <inttypes.h>
#include <math.h>

#include "model/operators/attention/attention.h"

enum { QUERY, KEY, VALUE, MASK, PAST_KEY, PAST_VALUE, VALID };
enum { PRESENT_KEY = 1, PRESENT_VALUE, SCORES };
enum { SINCE_VALID = 24 }; /* the opset that has shorter masks and numbers of valid keys */

/* An input as [batch, heads, steps, features], a view. */
static dhow_status with_heads_apart(dhowi_lowering *b, int32_t x, const char *name, int32_t *out) {
    static const int32_t order[] = {0, 2, 1, 3};
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    const int64_t heads = dhowi_attr_int(b, name, 0);
    *out = x;
    if (own.rank == 4 && heads != 0 && heads != own.shape[1])
        DHOWI_REFUSE("%s is %" PRId64 ", the input has %" PRId64 " heads", name, heads,
                     own.shape[1]);
    if (own.rank == 4) return DHOW_OK;
    DHOWI_TRY(dhowi_by_heads(b, name, heads, out));
    return dhowi_permute(b, *out, order, out);
}

static dhow_status check_types(const dhowi_lowering *b) {
    const dhowi_tensor_desc *q = dhowi_desc_at(b, b->in[QUERY]);
    if (!dhowi_is_float(q->dtype)) DHOWI_REFUSE("query is %s", dhow_dtype_name(q->dtype));
    for (uint32_t i = QUERY; i <= PAST_VALUE; i++) {
        if (!dhowi_given(b, i)) continue;
        const dhowi_tensor_desc *x = dhowi_desc_at(b, b->in[i]);
        if (x->dtype != q->dtype && (i != MASK || x->dtype != DHOW_BOOL))
            DHOWI_REFUSE("input %u is %s, query is %s", i, dhow_dtype_name(x->dtype),
                         dhow_dtype_name(q->dtype));
        const bool fits = i == MASK   ? x->rank >= 1 && x->rank <= 4
                          : i > MASK  ? x->rank == 4
                          : i > QUERY ? x->rank == q->rank
                                      : x->rank == 3 || x->rank == 4;
        if (!fits) DHOWI_REFUSE("input %u has %d dimensions", i, x->rank);
    }
    return DHOW_OK;
}

static dhow_status queries_keys_values(dhowi_lowering *b, dhowi_attention *a) {
    if (dhowi_given(b, PAST_KEY) != dhowi_given(b, PAST_VALUE))
        DHOWI_REFUSE("past_key and past_value are given together or not at all");
    DHOWI_TRY(check_types(b));
    DHOWI_TRY(with_heads_apart(b, b->in[QUERY], "q_num_heads", &a->q));
    DHOWI_TRY(with_heads_apart(b, b->in[KEY], "kv_num_heads", &a->k));
    DHOWI_TRY(with_heads_apart(b, b->in[VALUE], "kv_num_heads", &a->v));
    DHOWI_TRY(dhowi_after_past(b, PAST_KEY, &a->k));
    DHOWI_TRY(dhowi_after_past(b, PAST_VALUE, &a->v));
    return dhowi_check_heads(b, a);
}

/* ---- masks ---- */

/* A mask over fewer keys than there are lets nobody look at the rest. */
static dhow_status widen_mask(dhowi_lowering *b, int64_t keys, int32_t *mask) {
    const dhowi_tensor_desc m = *dhowi_desc_at(b, *mask);
    const int64_t none[4] = {0}, missing = keys - m.shape[m.rank - 1];
    int64_t after[4] = {0};
    if (b->node->opset < SINCE_VALID || missing <= 0) return DHOW_OK;
    after[m.rank - 1] = missing;
    return dhowi_pad_with(b, *mask, none, after, m.dtype == DHOW_BOOL ? 0 : -INFINITY, mask);
}

/* The numbers of keys of the sequences that are there. */
static dhow_status take_lengths(dhowi_lowering *b, dhowi_attention *a) {
    const int64_t batch = dhowi_desc_at(b, a->q)->shape[0];
    if (!dhowi_given(b, VALID)) return DHOW_OK;
    if (b->node->opset < SINCE_VALID)
        DHOWI_REFUSE("nonpad_kv_seqlen is an input since opset %d", SINCE_VALID);
    const dhowi_tensor_desc *n = dhowi_desc_at(b, b->in[VALID]);
    if (dhowi_given(b, PAST_KEY)) DHOWI_REFUSE("nonpad_kv_seqlen beside past_key");
    if (n->rank != 1 || n->shape[0] != batch)
        DHOWI_REFUSE("nonpad_kv_seqlen does not have one number for each of %" PRId64 " sequences",
                     batch);
    DHOWI_TRY(dhowi_keep_within(b, b->in[VALID], "nonpad_kv_seqlen", 0,
                                dhowi_desc_at(b, a->k)->shape[2]));
    DHOWI_TRY(dhowi_as_index(b, b->in[VALID], &a->lengths));
    a->lengths++;
    return DHOW_OK;
}

static dhow_status window_size(const dhowi_lowering *b, const char *name, int64_t *out) {
    *out = dhowi_attr_int(b, name, -1);
    if (*out < -1 || *out > INT32_MAX)
        DHOWI_REFUSE("%s is %" PRId64 ", not -1 for none or a number of keys", name, *out);
    return DHOW_OK;
}

/* What a query sees by its place: keys of the past come before the first, or the queries are the
 * last of the keys that are there. */
static dhow_status masks_by_place(dhowi_lowering *b, dhowi_attention *a) {
    const dhowi_tensor_desc q = *dhowi_desc_at(b, a->q), k = *dhowi_desc_at(b, a->k);
    const int64_t past = dhowi_given(b, PAST_KEY) ? dhowi_desc_at(b, b->in[PAST_KEY])->shape[2] : 0;
    const int64_t column[] = {q.shape[0], 1, 1, 1};
    int64_t left, right;
    int32_t row, length;
    bool causal;
    DHOWI_TRY(dhowi_attr_flag(b, "is_causal", false, &causal));
    DHOWI_TRY(window_size(b, "left_window_size", &left));
    DHOWI_TRY(window_size(b, "right_window_size", &right));
    DHOWI_TRY(take_lengths(b, a));
    if (causal) right = 0;
    a->causal = a->lengths > 0 && right == 0;
    if (a->causal) right = -1; /* said already */
    if (left < 0 && right < 0) return DHOW_OK;
    DHOWI_TRY(dhowi_rows(b, a->lengths > 0 ? -q.shape[2] : past, q.shape[2], &row));
    if (a->lengths > 0) {
        DHOWI_TRY(dhowi_reshape(b, a->lengths - 1, 4, column, &length));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, row, length, &row));
    }
    return dhowi_window(b, row, k.shape[2], left, right, &a->masks[a->mask_count++]);
}

/* ---- the operator ---- */

/* `otherwise` where it is missing; what is negative or no number is refused. */
static dhow_status positive(const dhowi_lowering *b, const char *name, double otherwise,
                            double *out) {
    const dhowi_onnx_attribute *given = dhowi_attr(b, name, DHOWI_ATTRIBUTE_FLOAT);
    *out = given != NULL ? (double)given->f : otherwise;
    if (!(*out >= 0 && *out < INFINITY)) DHOWI_REFUSE("%s is %g", name, *out);
    return DHOW_OK;
}

static dhow_status softmax_precision(const dhowi_lowering *b, dhow_dtype *out) {
    const int64_t type = dhowi_attr_int(b, "softmax_precision", 0);
    *out = type > 0 && type <= INT32_MAX ? dhowi_onnx_dtype((int32_t)type) : 0;
    if (type != 0 && !dhowi_is_float(*out))
        DHOWI_REFUSE("unsupported softmax_precision %" PRId64 ", not a type of floats", type);
    return DHOW_OK;
}

dhow_status dhowi_lower_attention(dhowi_lowering *b) {
    const int64_t mode = dhowi_attr_int(b, "qk_matmul_output_mode", DHOWI_SCORES_SCALED);
    const bool together = dhowi_desc_at(b, b->in[QUERY])->rank == 3;
    dhowi_attention a = {.empty_is_zero = true};
    DHOWI_TRY(queries_keys_values(b, &a));
    const double depth = (double)dhowi_desc_at(b, a.q)->shape[3];
    DHOWI_TRY(positive(b, "scale", 1 / sqrt(fmax(depth, 1)), &a.scale));
    DHOWI_TRY(positive(b, "softcap", 0, &a.softcap));
    DHOWI_TRY(softmax_precision(b, &a.precision));
    if (mode < 0 || mode >= DHOWI_SCORE_STAGES)
        DHOWI_REFUSE("qk_matmul_output_mode is %" PRId64 ", not 0 to 3", mode);
    if (dhowi_given(b, MASK)) {
        int32_t mask = b->in[MASK];
        DHOWI_TRY(widen_mask(b, dhowi_desc_at(b, a.k)->shape[2], &mask));
        DHOWI_TRY(dhowi_add_mask(b, "attn_mask", mask, &a));
    }
    DHOWI_TRY(masks_by_place(b, &a));
    a.wants_scores = b->out_count > SCORES;
    DHOWI_TRY(dhowi_attend(b, &a, &b->out[0]));
    if (together) DHOWI_TRY(dhowi_heads_together(b, b->out[0], &b->out[0]));
    b->out[PRESENT_KEY] = a.k;
    b->out[PRESENT_VALUE] = a.v;
    if (a.wants_scores) b->out[SCORES] = a.scores[mode];
    return DHOW_OK;
}
