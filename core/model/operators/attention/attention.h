/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention: softmax of scaled scores, as layers of the builder and operators of files share it,
 * and what turns or keeps keys and values before it.
 */
#ifndef DHOWI_MODEL_OPERATORS_ATTENTION_H_
#define DHOWI_MODEL_OPERATORS_ATTENTION_H_

#include "model/lower/composite.h"
#include "model/lower/lower.h"

/* What has become of the scores. */
typedef enum dhowi_score_stage {
    DHOWI_SCORES_SCALED,
    DHOWI_SCORES_CAPPED,
    DHOWI_SCORES_MASKED,
    DHOWI_SCORES_WEIGHTS,
    DHOWI_SCORE_STAGES
} dhowi_score_stage;

enum { DHOWI_MOST_MASKS = 3 };

typedef struct dhowi_attention {
    int32_t q, k, v;       /* [..., heads, l, e], [..., shared, s, e], [..., shared, s, f] */
    double scale, softcap; /* softcap tanh(score / softcap); 0: no cap */
    int32_t masks[DHOWI_MOST_MASKS]; /* They broadcast to [..., heads, l, s]: one that is bool keeps
                                        what it is true for, another is added. */
    uint32_t mask_count;
    /* 1 + an item i64[batch]: how many of the keys of a cache are there; 0: all are. Then `causal`
     * lets the queries, which are the last of them, see no later ones. */
    int32_t lengths;
    bool causal;
    int32_t sinks; /* 1 + an item [heads]: scores that each row has besides, without values; 0: none
                    */
    bool empty_is_zero;   /* rows that keep nothing weigh nothing, else they are NaN */
    bool wants_scores;    /* the caller reads them */
    dhow_dtype precision; /* of the softmax; 0: the type of q */
    int32_t scores[DHOWI_SCORE_STAGES]; /* a result: [..., heads, l, s] */
} dhowi_attention;

/* heads.c */
/* x[batch, steps, heads features] as [batch, steps, heads, features]; `name` is what the number of
 * heads is called. */
dhow_status dhowi_by_heads(dhowi_lowering *b, const char *name, int64_t heads, int32_t *x);
/* x[batch, heads, steps, features] as [batch, steps, heads features] */
dhow_status dhowi_heads_together(dhowi_lowering *b, int32_t x, int32_t *out);
/* Keys or values [batch, heads, steps, features] behind those of earlier calls, the input `past`
 * where it is given. */
dhow_status dhowi_after_past(dhowi_lowering *b, uint32_t past, int32_t *x);
/* Refuses q, k and v [batch, heads, steps, features] that do not fit one another. */
dhow_status dhowi_check_heads(const dhowi_lowering *b, const dhowi_attention *a);
/* Adds an input `name` to the masks; more than the scores' elements are refused. */
dhow_status dhowi_add_mask(dhowi_lowering *b, const char *name, int32_t mask, dhowi_attention *a);
/* dot.c */
/* A mask: a query at a place, row[..., l, 1] of i64, sees keys from place - left to place + right;
 * -1 is no bound. */
dhow_status dhowi_window(dhowi_lowering *b, int32_t row, int64_t keys, int64_t left, int64_t right,
                         int32_t *out);
/* Places of l queries, the first one at `first`: [l, 1]. */
dhow_status dhowi_rows(dhowi_lowering *b, int64_t first, int64_t l, int32_t *out);
/* x[..., heads, l, e] with other heads: those that share a key and a value are rows of one. */
dhow_status dhowi_with_heads(dhowi_lowering *b, int32_t x, int64_t heads, int32_t *out);
/* How many heads there are, of query and of key. */
dhow_status dhowi_heads_of(dhowi_lowering *b, const dhowi_attention *a, int64_t *heads,
                           int64_t *shared);
/* scale q kt, [..., heads, l, s] */
dhow_status dhowi_scaled_scores(dhowi_lowering *b, const dhowi_attention *a, int32_t *out);
/* Fills in the scores, whose last stage are the weights. */
dhow_status dhowi_attend_scores(dhowi_lowering *b, dhowi_attention *a);
/* softmax(scale q kt + mask) v, Vaswani et al. 2017; several heads of q may share one of k and v,
 * Ainslie et al. 2023. One step where the device has a kernel for it; there are scores where they
 * are wanted. */
dhow_status dhowi_attend(dhowi_lowering *b, dhowi_attention *a, int32_t *out);
/* Whether the device has a kernel for all of it that pays, DHOWI_OP_attention. */
bool dhowi_attends_at_once(const dhowi_lowering *b, const dhowi_attention *a);
/* flex.c */
dhowi_lower_fn dhowi_lower_flex_attention;
/* onnx.c */
dhowi_lower_fn dhowi_lower_attention;
/* linear.c */
/* Attention whose keys and values have become a state of depth x features for each head of v; -1:
 * none. Where there are fewer heads of q or k, those of v share them, and the other way round. */
typedef struct dhowi_linear_attention {
    int32_t q, k, v; /* [batch, steps, heads, depth], [.., heads or fewer, depth], [.., features] */
    int32_t before;  /* the state so far, [batch, heads, depth, features] */
    int32_t keep;    /* what a step keeps of it, [batch, steps, heads, 1 or depth] */
    int32_t beta;    /* how much of what k recalls is corrected, [batch, steps, heads] */
    double scale;    /* of what q reads */
} dhowi_linear_attention;
/* What is read, [batch, steps, the more heads, features], and the state after the last step, both
 * f32. Yang et al. 2024, "Gated Delta Networks". */
dhow_status dhowi_attend_linear(dhowi_lowering *b, const dhowi_linear_attention *a, int32_t *out,
                                int32_t *state);
/* Refuses an update_rule of the node that its inputs decay and beta do not fit. */
dhow_status dhowi_update_rule(const dhowi_lowering *b, uint32_t decay, uint32_t beta);
/* The factors that decays are the logarithms of. */
dhow_status dhowi_kept(dhowi_lowering *b, int32_t decay, int32_t *out);
dhowi_lower_fn dhowi_lower_linear_attention;
/* rotary.c */
dhowi_lower_fn dhowi_lower_rotary;
/* x[batch, steps, heads, features] turned by angles[batch, steps, 1, half]; batch and steps may be
 * 1 */
dhow_status dhowi_turn(dhowi_lowering *b, int32_t x, int32_t cosine, int32_t sine, bool interleaved,
                       int32_t *out);

#endif /* DHOWI_MODEL_OPERATORS_ATTENTION_H_ */
