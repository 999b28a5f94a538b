/* SPDX-License-Identifier: Apache-2.0
 *
 * Connectionist temporal classification, Graves et al. 2006: the probability of all ways to lay a
 * target over the steps, with blanks (class 0) between and repetitions of each class. Sums over
 * ways go from step to step, in logarithms, for all sequences and places of a target at once.
 */
#include <math.h>

#include "base/memory/size.h"
#include "model/operators/math/math.h"
#include "model/operators/shape/shape.h"

enum { MAX_STEPS = 1 << 16 };
/* A way that does not exist: its exponential is 0, and sums with it are no NaN as with -inf. */
static const double k_nowhere = -1e30;

/* ---- the target ---- */

/* Column i of the target: [batch, 1] as numbers. */
static dhow_status column(dhowi_lowering *b, const dhowi_ctc *c, int32_t target, int64_t i,
                          int32_t *out) {
    DHOWI_TRY(dhowi_narrow(b, target, 1, i, 1, 1, out));
    return dhowi_cast_to(b, *out, c->dtype, out);
}

/* [1, count] */
static dhow_status places(dhowi_lowering *b, const dhowi_ctc *c, int64_t count, int32_t *out) {
    const int64_t row[] = {1, count};
    DHOWI_TRY(dhowi_numbers(b, c->dtype, 0, 1, count, out));
    return dhowi_reshape(b, *out, 2, row, out);
}

/* Adds up to *sum where low <= x <= high does not hold; `where` -1 is everywhere. */
static dhow_status count_outside(dhowi_lowering *b, int32_t x, double low, double high,
                                 int32_t where, int32_t *sum) {
    bool axes[] = {true, true};
    int32_t inside;
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_CLIP, low, high, x, &inside));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_NE, x, inside, &x));
    if (where >= 0) DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, x, where, &x));
    DHOWI_TRY(dhowi_reduce(b, DHOWI_SUM, x, axes, &x));
    if (*sum >= 0) DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, *sum, x, &x));
    *sum = x;
    return DHOW_OK;
}

/* Classes with a blank before, between and behind them: i64[batch, states] within 0 .. classes - 1.
 */
static dhow_status labels_of(dhowi_lowering *b, dhowi_ctc *c, int32_t target) {
    const dhowi_attrs zero = {.scalar = {dhow_scalar_f64(0)}};
    const dhowi_tensor_desc desc = {.dtype = DHOW_I64, .rank = 2, .shape = {c->batch, c->states}};
    int32_t classes, numbers, given, to;
    DHOWI_TRY(dhowi_narrow(b, target, 1, 2, c->labels, 1, &classes));
    DHOWI_TRY(dhowi_cast_to(b, classes, c->dtype, &numbers));
    DHOWI_TRY(places(b, c, c->labels, &given));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_LT, given, c->target_length, &given));
    DHOWI_TRY(count_outside(b, numbers, 1, (double)(c->classes - 1), given, &c->wrong));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_CLIP, 0, (double)(c->classes - 1), classes, &classes));
    DHOWI_TRY(dhowi_blank(b, &desc, &c->label));
    DHOWI_TRY(dhowi_emit_into(b, DHOWI_OP_fill, NULL, 0, &zero, c->label));
    DHOWI_TRY(dhowi_narrow(b, c->label, 1, 1, c->labels, 2, &to));
    return dhowi_emit_into(b, DHOWI_OP_copy, &classes, 1, NULL, to);
}

/* 0 where it holds, else far below: what is added to the logarithm of a way. */
static dhow_status only_where(dhowi_lowering *b, int32_t holds, int32_t *out) {
    return dhowi_map_one(b, DHOWI_MAP_LINEAR, -k_nowhere, k_nowhere, holds, out);
}

/* A way may leave out the blank between two classes that differ. */
static dhow_status skips_of(dhowi_lowering *b, dhowi_ctc *c) {
    const int64_t before[] = {0, 2}, after[] = {0, 0};
    int32_t own, other, no_blank;
    if (c->labels == 0)
        return dhowi_filled(
            b, &(dhowi_tensor_desc){.dtype = c->dtype, .rank = 2, .shape = {c->batch, 1}},
            k_nowhere, &c->skip);
    DHOWI_TRY(dhowi_cast_to(b, c->label, c->dtype, &own));
    DHOWI_TRY(dhowi_narrow(b, own, 1, 0, c->states - 2, 1, &other));
    DHOWI_TRY(dhowi_narrow(b, own, 1, 2, c->states - 2, 1, &own));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_NE, own, other, &other));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_NE, own, 0, &no_blank));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, other, no_blank, &other));
    DHOWI_TRY(dhowi_pad_with(b, other, before, after, 0, &other));
    return only_where(b, other, &c->skip);
}

/* A way ends at the last class or the blank behind it. */
static dhow_status ends_of(dhowi_lowering *b, dhowi_ctc *c) {
    int32_t at, last, blank, end;
    DHOWI_TRY(places(b, c, c->states, &at));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_LINEAR, 2, 0, c->target_length, &blank));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_SUB, blank, 1, &last));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_EQ, at, blank, &end));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_EQ, at, last, &last));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, end, last, &end));
    return only_where(b, end, &c->end);
}

/* log_probs[steps, batch, classes] of each place's class: [steps, batch, states]. */
static dhow_status scores_of(dhowi_lowering *b, dhowi_ctc *c, int32_t x) {
    static const int32_t classes_first[] = {2, 0, 1}, states_last[] = {1, 2, 0},
                         states_first[] = {1, 0};
    const int64_t one[] = {c->states, 1, c->batch}, all[] = {c->states, c->steps, c->batch};
    int32_t in[2], *own = b->in;
    DHOWI_TRY(dhowi_permute(b, x, classes_first, &in[0]));
    DHOWI_TRY(dhowi_dense(b, in[0], &in[0]));
    DHOWI_TRY(dhowi_permute(b, c->label, states_first, &in[1]));
    DHOWI_TRY(dhowi_reshape(b, in[1], 3, one, &in[1]));
    DHOWI_TRY(dhowi_expand(b, in[1], 3, all, &in[1]));
    DHOWI_TRY(dhowi_dense(b, in[1], &in[1]));
    b->in = in;
    dhow_status status = dhowi_lower_gather_elements(b);
    b->in = own;
    DHOWI_TRY(status);
    DHOWI_TRY(dhowi_permute(b, b->out[0], states_last, &c->score));
    return dhowi_map_number(b, DHOWI_MAP_MAX, c->score, k_nowhere, &c->score);
}

static dhow_status read_target(dhowi_lowering *b, int32_t x, int32_t target, dhowi_ctc *c) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x), t = *dhowi_desc_at(b, target);
    char p[160], q[160];
    if (own.rank != 3 || t.rank != 2 || t.shape[0] != own.shape[1] || t.shape[1] < 2)
        DHOWI_REFUSE("target %s does not fit log-probabilities %s; it is [n, 2 + s] of [t, n, c]",
                     dhowi_desc_text(&t, p, sizeof p), dhowi_desc_text(&own, q, sizeof q));
    *c = (dhowi_ctc){.dtype = own.dtype,
                     .steps = own.shape[0],
                     .batch = own.shape[1],
                     .classes = own.shape[2],
                     .labels = t.shape[1] - 2,
                     .states = 2 * (t.shape[1] - 2) + 1,
                     .wrong = -1};
    if (c->steps < 1 || c->steps > MAX_STEPS || c->classes < 1 || c->classes > 1 << 24 ||
        c->labels > MAX_STEPS)
        DHOWI_REFUSE("%s; 1 to %d steps, targets of up to as many classes, and 2^24 classes fit",
                     dhowi_desc_text(&own, q, sizeof q), MAX_STEPS);
    DHOWI_TRY(column(b, c, target, 0, &c->length));
    DHOWI_TRY(column(b, c, target, 1, &c->target_length));
    DHOWI_TRY(count_outside(b, c->length, 1, (double)c->steps, -1, &c->wrong));
    DHOWI_TRY(count_outside(b, c->target_length, 0, (double)c->labels, -1, &c->wrong));
    DHOWI_TRY(labels_of(b, c, target));
    DHOWI_TRY(skips_of(b, c));
    DHOWI_TRY(ends_of(b, c));
    return scores_of(b, c, x);
}

/* ---- ways ---- */

/* log(e^x + e^y + e^z) + score: two or three places before, or behind. */
static dhow_status join_ways(dhowi_lowering *b, int32_t x, int32_t y, int32_t z, int32_t score,
                             int32_t *out) {
    const int32_t all[] = {x, y, z};
    int32_t top, sum;
    dhowi_program largest = {0}, two = {0}, rest = {0};
    (void)dhowi_program_add(&largest, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_add(&largest, DHOWI_MAP_MAX, 1);
    (void)dhowi_program_add(&largest, DHOWI_MAP_MAX, 2);
    DHOWI_TRY(dhowi_map(b, &largest, all, 3, &top));
    const int32_t first[] = {x, y, top};
    (void)dhowi_program_add(&two, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_add(&two, DHOWI_MAP_SUB, 2);
    (void)dhowi_program_constants(&two, DHOWI_MAP_EXP, 0, 0, 0);
    (void)dhowi_program_constants(&two, DHOWI_MAP_SAVE, 0, 0, 0);
    (void)dhowi_program_add(&two, DHOWI_MAP_LOAD, 1);
    (void)dhowi_program_add(&two, DHOWI_MAP_SUB, 2);
    (void)dhowi_program_constants(&two, DHOWI_MAP_EXP, 0, 0, 0);
    (void)dhowi_program_add(&two, DHOWI_MAP_ADD, DHOWI_MAP_SAVED);
    DHOWI_TRY(dhowi_map(b, &two, first, 3, &sum));
    const int32_t last[] = {z, top, sum, score};
    (void)dhowi_program_add(&rest, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_add(&rest, DHOWI_MAP_SUB, 1);
    (void)dhowi_program_constants(&rest, DHOWI_MAP_EXP, 0, 0, 0);
    (void)dhowi_program_add(&rest, DHOWI_MAP_ADD, 2);
    (void)dhowi_program_constants(&rest, DHOWI_MAP_LOG, 0, 0, 0);
    (void)dhowi_program_add(&rest, DHOWI_MAP_ADD, 1);
    (void)dhowi_program_add(&rest, DHOWI_MAP_ADD, 3);
    return dhowi_map(b, &rest, last, 4, out);
}

/* [steps, batch, states + 2] of ways that do not exist, for shifted views of a step. */
static dhow_status room_for_ways(dhowi_lowering *b, const dhowi_ctc *c, int32_t *out) {
    const dhowi_attrs nowhere = {.scalar = {dhow_scalar_f64(k_nowhere)}};
    const dhowi_tensor_desc desc = {
        .dtype = c->dtype, .rank = 3, .shape = {c->steps, c->batch, c->states + 2}};
    DHOWI_TRY(dhowi_blank(b, &desc, out));
    return dhowi_emit_into(b, DHOWI_OP_fill, NULL, 0, &nowhere, *out);
}

/* Places first .. first + states - 1 of a step. */
static dhow_status shifted(dhowi_lowering *b, const dhowi_ctc *c, int32_t ways, int64_t t,
                           int64_t first, int32_t *out) {
    DHOWI_TRY(dhowi_part_of(b, ways, 0, t, out));
    return dhowi_narrow(b, *out, 1, first, c->states, 1, out);
}

static dhow_status write_ways(dhowi_lowering *b, const dhowi_ctc *c, int32_t ways, int64_t t,
                              int64_t first, int32_t d) {
    int32_t to;
    DHOWI_TRY(shifted(b, c, ways, t, first, &to));
    return dhowi_emit_into(b, DHOWI_OP_copy, &d, 1, NULL, to);
}

/* A way begins with the blank or the first class. */
static dhow_status begin_ways(dhowi_lowering *b, const dhowi_ctc *c, int32_t score, int32_t *out) {
    int32_t at;
    DHOWI_TRY(places(b, c, c->states, &at));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_LT, at, 2, &at));
    DHOWI_TRY(only_where(b, at, &at));
    return dhowi_map_two(b, DHOWI_MAP_ADD, score, at, out);
}

/* Ways that have come to each place, up to each step; sequences that have ended keep theirs. */
static dhow_status go_forward(dhowi_lowering *b, dhowi_ctc *c, int32_t ways) {
    int32_t d = -1, before[3], score, alive;
    for (int64_t t = 0; t < c->steps; t++) {
        DHOWI_TRY(dhowi_part_of(b, c->score, 0, t, &score));
        if (t == 0) {
            DHOWI_TRY(begin_ways(b, c, score, &d));
        } else {
            for (int i = 0; i < 3; i++) DHOWI_TRY(shifted(b, c, ways, t - 1, 2 - i, &before[i]));
            DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, before[2], c->skip, &before[2]));
            DHOWI_TRY(join_ways(b, before[0], before[1], before[2], score, &d));
            DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_GT, c->length, (double)t, &alive));
            DHOWI_TRY(dhowi_select(b, alive, d, before[0], &d));
        }
        DHOWI_TRY(write_ways(b, c, ways, t, 2, d));
    }
    c->last = d;
    return DHOW_OK;
}

dhow_status dhowi_ctc_forward(dhowi_lowering *b, int32_t x, int32_t target, dhowi_ctc *c) {
    const bool axes[] = {false, true};
    int32_t ways, end;
    DHOWI_TRY(read_target(b, x, target, c));
    DHOWI_TRY(room_for_ways(b, c, &ways));
    DHOWI_TRY(go_forward(b, c, ways));
    DHOWI_TRY(dhowi_narrow(b, ways, 2, 2, c->states, 1, &c->forward));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, c->last, c->end, &end));
    DHOWI_TRY(dhowi_reduce(b, DHOWI_LOG_SUM_EXP, end, axes, &c->loss));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_NEG, 0, 0, c->loss, &c->loss));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_LT, c->loss, -k_nowhere / 10, &c->fits));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MAX, c->target_length, 1, &c->share));
    return dhowi_map_number(b, DHOWI_MAP_MUL, c->share, (double)c->batch, &c->share);
}

/* Ways that go on from each place, its own score included. */
dhow_status dhowi_ctc_backward(dhowi_lowering *b, dhowi_ctc *c) {
    const int64_t before[] = {0, 0}, after[] = {0, 2};
    int32_t ways, d, behind[3], score, last, ended, skip, nowhere;
    const dhowi_tensor_desc one = {.dtype = c->dtype};
    DHOWI_TRY(room_for_ways(b, c, &ways));
    DHOWI_TRY(dhowi_filled(b, &one, k_nowhere, &nowhere));
    /* what may be left out behind a place is told by the place two further on */
    DHOWI_TRY(dhowi_pad_with(b, c->skip, before, after, k_nowhere, &skip));
    DHOWI_TRY(dhowi_narrow(b, skip, 1, 2, c->states, 1, &skip));
    for (int64_t t = c->steps; t-- > 0;) {
        DHOWI_TRY(dhowi_part_of(b, c->score, 0, t, &score));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, score, c->end, &last));
        d = nowhere;
        if (t + 1 < c->steps) {
            for (int i = 0; i < 3; i++) DHOWI_TRY(shifted(b, c, ways, t + 1, i, &behind[i]));
            DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, behind[2], skip, &behind[2]));
            DHOWI_TRY(join_ways(b, behind[0], behind[1], behind[2], score, &d));
        }
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_EQ, c->length, (double)(t + 1), &ended));
        DHOWI_TRY(dhowi_select(b, ended, last, d, &d));
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MAX, d, k_nowhere, &d));
        DHOWI_TRY(write_ways(b, c, ways, t, 0, d));
    }
    return dhowi_narrow(b, ways, 2, 0, c->states, 1, &c->backward);
}

/* ---- the loss ---- */

/* The mean over the batch of each sequence's loss by the length of its target. */
dhow_status dhowi_lower_ctc(dhowi_lowering *b) {
    const bool zero_infinity = b->node->attrs->dim != 0, axes[] = {true, true};
    const dhowi_tensor_desc one = {.dtype = dhowi_desc_at(b, b->in[0])->dtype};
    dhowi_ctc c;
    int32_t loss, without;
    DHOWI_TRY(dhowi_ctc_forward(b, b->in[0], b->in[1], &c));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_DIV, c.loss, c.share, &loss));
    DHOWI_TRY(dhowi_filled(b, &one, zero_infinity ? 0 : (double)INFINITY, &without));
    DHOWI_TRY(dhowi_select(b, c.fits, loss, without, &loss));
    DHOWI_TRY(dhowi_reduce(b, DHOWI_SUM, loss, axes, &loss));
    /* NaN where the target is none: the root of what is below 0 */
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_NEG, 0, 0, c.wrong, &c.wrong));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SQRT, 0, 0, c.wrong, &c.wrong));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, loss, c.wrong, &loss));
    return dhowi_reshape(b, loss, 0, NULL, &b->out[0]);
}
