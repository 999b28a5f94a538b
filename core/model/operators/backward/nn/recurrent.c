/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of LSTM, GRU and RNN, back through time. The states before each step are the results
 * of the one before it, so the gates of all steps are computed again at once; what goes back from
 * step to step is one product and the gates, and the weights get one product over all steps.
 */
#include <string.h>

#include "base/memory/alloc.h"
#include "model/lower/products/products.h"
#include "model/operators/backward/backward.h"
#include "model/operators/nn/layer.h"
#include "model/operators/nn/nn.h"

enum { X, W, R, BIAS, LENGTHS, STATE, CELL, PEEPHOLES, INPUTS };
enum { IN_GATE, OUT_GATE, FORGET_GATE, FRESH, OLD_CELL, NEW_CELL, KEPT }; /* of an LSTM's step */

/* One direction. */
typedef struct pass {
    dhowi_lowering *b;
    int gates;
    int64_t steps, batch, inputs, hidden;
    bool reverse, reset_after; /* of GRU: linear_before_reset */
    int32_t x, w, r;           /* [steps batch, inputs], [gates hidden, inputs or hidden] */
    int32_t bias[2];           /* [gates hidden] or -1 */
    int32_t lengths;           /* [batch, 1] or -1 */
    int32_t y, dy;             /* [steps, batch, hidden]; dy may be -1 */
    int32_t h, c, peepholes;   /* states before the first step, [batch, hidden]; [3 hidden] or -1 */
    int32_t old;               /* states before each step, [steps batch, hidden] */
    int32_t gx, gh;            /* shares of input and state, [steps, batch, gates hidden] */
    int32_t reset;             /* of GRU, all steps: [steps batch, hidden] */
    int32_t dx, dh;            /* derivatives of gx and gh, to be written */
    int32_t at_h, at_c;        /* those of the states on the way; -1: none yet */
    int32_t alive;             /* of the step: [batch, 1] or -1 */
    int32_t peep[3];           /* those of peepholes, sums over steps: i, o, f */
    int32_t (*kept)[KEPT];     /* of an LSTM, by step */
} pass;

typedef dhow_status step_back(pass *p, int64_t t, int32_t d);

/* ---- small helpers; -1 is nothing ---- */

static dhow_status plus(dhowi_lowering *b, int32_t x, int32_t y, int32_t *out) {
    *out = x < 0 ? y : x;
    return x < 0 || y < 0 ? DHOW_OK : dhowi_map_two(b, DHOWI_MAP_ADD, x, y, out);
}

static dhow_status times(dhowi_lowering *b, int32_t x, int32_t y, int32_t *out) {
    *out = -1;
    return x < 0 || y < 0 ? DHOW_OK : dhowi_map_two(b, DHOWI_MAP_MUL, x, y, out);
}

/* d s (1 - s) of s = sigmoid, d (1 - s^2) of s = tanh */
static dhow_status through_sigmoid(dhowi_lowering *b, int32_t d, int32_t s, int32_t *out) {
    int32_t rest;
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_RSUB, s, 1, &rest));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, d, s, out));
    return dhowi_map_two(b, DHOWI_MAP_MUL, *out, rest, out);
}
static dhow_status through_tanh(dhowi_lowering *b, int32_t d, int32_t s, int32_t *out) {
    int32_t rest;
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SQUARE, 0, 0, s, &rest));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_RSUB, rest, 1, &rest));
    return dhowi_map_two(b, DHOWI_MAP_MUL, d, rest, out);
}

/* Columns of a gate; of rows of any rank. */
static dhow_status gate(const pass *p, int32_t x, int index, int32_t *out) {
    return dhowi_narrow(p->b, x, dhowi_desc_at(p->b, x)->rank - 1, index * p->hidden, p->hidden, 1,
                        out);
}

/* Writes the derivative of a gate of step t. */
static dhow_status put(const pass *p, int32_t all, int64_t t, int index, int32_t d) {
    int32_t to;
    DHOWI_TRY(dhowi_part_of(p->b, all, 0, t, &to));
    DHOWI_TRY(gate(p, to, index, &to));
    return dhowi_emit_into(p->b, DHOWI_OP_copy, &d, 1, NULL, to);
}

/* The derivative of gh, or some gates of it, times as many rows of r. */
static dhow_status to_state(const pass *p, int64_t t, int gates, int32_t *out) {
    int32_t d, r;
    DHOWI_TRY(dhowi_part_of(p->b, p->dh, 0, t, &d));
    DHOWI_TRY(dhowi_narrow(p->b, d, 1, 0, gates * p->hidden, 1, &d));
    DHOWI_TRY(dhowi_narrow(p->b, p->r, 0, 0, gates * p->hidden, 1, &r));
    return dhowi_product(p->b, d, r, -1, out);
}

static int64_t time_of(const pass *p, int64_t step) {
    return p->reverse ? p->steps - 1 - step : step;
}

static dhow_status alive_at(pass *p, int64_t t) {
    p->alive = -1;
    if (p->lengths < 0) return DHOW_OK;
    return dhowi_map_number(p->b, DHOWI_MAP_GT, p->lengths, (double)t, &p->alive);
}

/* What of d comes to a sequence's new state, and what to the old one that has been kept. */
static dhow_status part_alive(const pass *p, int32_t d, int32_t *fresh, int32_t *kept) {
    *fresh = d;
    *kept = -1;
    if (p->alive < 0 || d < 0) return DHOW_OK;
    DHOWI_TRY(dhowi_map_two(p->b, DHOWI_MAP_MUL, d, p->alive, fresh));
    return dhowi_map_two(p->b, DHOWI_MAP_SUB, d, *fresh, kept);
}

/* ---- cells ---- */

/* Cells of all steps: they alone go from step to step. */
static dhow_status run_lstm(pass *p) {
    dhowi_lowering *b = p->b;
    int32_t c = p->c, pre, of[4], peep[3] = {-1, -1, -1}, part, fresh;
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, p->gx, p->gh, &pre));
    for (int i = 0; i < 3 && p->peepholes >= 0; i++)
        DHOWI_TRY(dhowi_narrow(b, p->peepholes, 0, i * p->hidden, p->hidden, 1, &peep[i]));
    for (int64_t i = 0; i < p->steps; i++) {
        const int64_t t = time_of(p, i);
        int32_t *k = p->kept[t];
        DHOWI_TRY(dhowi_part_of(b, pre, 0, t, &part));
        for (int g = 0; g < 4; g++) DHOWI_TRY(gate(p, part, g, &of[g]));
        for (int g = 0; g < 3; g += 2) { /* i and f look at the old cell */
            DHOWI_TRY(times(b, c, peep[g], &part));
            DHOWI_TRY(plus(b, of[g], part, &of[g]));
            DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SIGMOID, 0, 0, of[g], &k[g]));
        }
        DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_TANH, 0, 0, of[3], &k[FRESH]));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, k[IN_GATE], k[FRESH], &fresh));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, k[FORGET_GATE], c, &part));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, fresh, part, &k[NEW_CELL]));
        k[OLD_CELL] = c;
        DHOWI_TRY(times(b, k[NEW_CELL], peep[1], &part));
        DHOWI_TRY(plus(b, of[1], part, &of[1]));
        DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SIGMOID, 0, 0, of[1], &k[OUT_GATE]));
        DHOWI_TRY(alive_at(p, t));
        c = k[NEW_CELL];
        if (p->alive >= 0) DHOWI_TRY(dhowi_select(b, p->alive, c, k[OLD_CELL], &c));
    }
    return DHOW_OK;
}

/* The sum over the batch of d c, where peepholes have a derivative. */
static dhow_status to_peephole(pass *p, int index, int32_t d, int32_t c) {
    int32_t sum;
    if (p->peepholes < 0) return DHOW_OK;
    DHOWI_TRY(dhowi_map_two(p->b, DHOWI_MAP_MUL, d, c, &sum));
    DHOWI_TRY(dhowi_sum_but(p->b, sum, 1, &sum));
    return plus(p->b, p->peep[index], sum, &p->peep[index]);
}

static dhow_status by_peephole(const pass *p, int index, int32_t d, int32_t *sum) {
    int32_t w;
    if (p->peepholes < 0) return DHOW_OK;
    DHOWI_TRY(dhowi_narrow(p->b, p->peepholes, 0, index * p->hidden, p->hidden, 1, &w));
    DHOWI_TRY(dhowi_map_two(p->b, DHOWI_MAP_MUL, d, w, &w));
    return plus(p->b, *sum, w, sum);
}

/* h = o tanh(c), c = f old + i g; d comes to h. */
static dhow_status lstm_back(pass *p, int64_t t, int32_t d) {
    dhowi_lowering *b = p->b;
    const int32_t *k = p->kept[t];
    int32_t wide, of[4], dc, kept, own;
    DHOWI_TRY(part_alive(p, p->at_c, &dc, &kept));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_TANH, 0, 0, k[NEW_CELL], &wide));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, d, wide, &of[OUT_GATE]));
    DHOWI_TRY(through_sigmoid(b, of[OUT_GATE], k[OUT_GATE], &of[OUT_GATE]));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, d, k[OUT_GATE], &own));
    DHOWI_TRY(through_tanh(b, own, wide, &own));
    DHOWI_TRY(plus(b, own, dc, &dc));
    DHOWI_TRY(by_peephole(p, 1, of[OUT_GATE], &dc));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, dc, k[FRESH], &of[IN_GATE]));
    DHOWI_TRY(through_sigmoid(b, of[IN_GATE], k[IN_GATE], &of[IN_GATE]));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, dc, k[OLD_CELL], &of[FORGET_GATE]));
    DHOWI_TRY(through_sigmoid(b, of[FORGET_GATE], k[FORGET_GATE], &of[FORGET_GATE]));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, dc, k[IN_GATE], &of[FRESH]));
    DHOWI_TRY(through_tanh(b, of[FRESH], k[FRESH], &of[FRESH]));
    DHOWI_TRY(to_peephole(p, 0, of[IN_GATE], k[OLD_CELL]));
    DHOWI_TRY(to_peephole(p, 1, of[OUT_GATE], k[NEW_CELL]));
    DHOWI_TRY(to_peephole(p, 2, of[FORGET_GATE], k[OLD_CELL]));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, dc, k[FORGET_GATE], &dc));
    DHOWI_TRY(by_peephole(p, 0, of[IN_GATE], &dc));
    DHOWI_TRY(by_peephole(p, 2, of[FORGET_GATE], &dc));
    DHOWI_TRY(plus(b, dc, kept, &p->at_c));
    for (int g = 0; g < 4; g++) DHOWI_TRY(put(p, p->dx, t, g, of[g]));
    return to_state(p, t, 4, &p->at_h);
}

/* z, r and what comes to n, of all steps: h' = n + z (h - n), n = tanh(x + r (h R)) or
 * tanh(x + (r h) R). */
static dhow_status gates_of_gru(pass *p, int32_t of[3], int32_t *share) {
    dhowi_lowering *b = p->b;
    const int64_t rows[] = {p->steps * p->batch, p->hidden};
    const int64_t all[] = {p->steps, p->batch, p->hidden};
    int32_t x, h, r;
    for (int i = 0; i < 2; i++) {
        DHOWI_TRY(gate(p, p->gx, i, &x));
        DHOWI_TRY(gate(p, p->gh, i, &h));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, x, h, &x));
        DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SIGMOID, 0, 0, x, &of[i]));
    }
    DHOWI_TRY(dhowi_reshape(b, of[1], 2, rows, &p->reset));
    if (p->reset_after) {
        DHOWI_TRY(gate(p, p->gh, 2, share));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, of[1], *share, &h));
    } else {
        DHOWI_TRY(dhowi_narrow(b, p->r, 0, 2 * p->hidden, p->hidden, 1, &r));
        DHOWI_TRY(dhowi_turned(b, r, &r));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, p->reset, p->old, &h));
        DHOWI_TRY(dhowi_product(b, h, r, -1, &h));
        DHOWI_TRY(dhowi_reshape(b, h, 3, all, &h));
        if (p->bias[1] >= 0) {
            DHOWI_TRY(gate(p, p->bias[1], 2, &r));
            DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, h, r, &h));
        }
        *share = -1;
    }
    DHOWI_TRY(gate(p, p->gx, 2, &x));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, x, h, &x));
    return dhowi_map_one(b, DHOWI_MAP_TANH, 0, 0, x, &of[2]);
}

static dhow_status run_gru(pass *p) {
    const int64_t all[] = {p->steps, p->batch, p->hidden};
    int32_t of[5];
    DHOWI_TRY(gates_of_gru(p, of, &of[3]));
    DHOWI_TRY(dhowi_reshape(p->b, p->old, 3, all, &of[4]));
    for (int64_t t = 0; t < p->steps; t++) {
        for (int i = 0; i < 5; i++) {
            if (of[i] >= 0) DHOWI_TRY(dhowi_part_of(p->b, of[i], 0, t, &p->kept[t][i]));
        }
    }
    return DHOW_OK;
}

static dhow_status gru_back(pass *p, int64_t t, int32_t d) {
    dhowi_lowering *b = p->b;
    const int32_t *k = p->kept[t], z = k[0], reset = k[1], n = k[2], share = k[3], h = k[4];
    int32_t dz, dr, dn, on, back, r, way;
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, h, n, &dz));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, d, dz, &dz));
    DHOWI_TRY(through_sigmoid(b, dz, z, &dz));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, d, z, &back));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, d, back, &dn));
    DHOWI_TRY(through_tanh(b, dn, n, &dn));
    on = dn;
    if (p->reset_after) {
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, dn, share, &dr));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, dn, reset, &on));
    } else {
        DHOWI_TRY(dhowi_narrow(b, p->r, 0, 2 * p->hidden, p->hidden, 1, &r));
        DHOWI_TRY(dhowi_product(b, dn, r, -1, &way));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, way, h, &dr));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, way, reset, &way));
        DHOWI_TRY(plus(b, back, way, &back));
    }
    DHOWI_TRY(through_sigmoid(b, dr, reset, &dr));
    const int32_t of[] = {dz, dr, dn};
    for (int g = 0; g < 3; g++) DHOWI_TRY(put(p, p->dx, t, g, of[g]));
    for (int g = 0; g < 3; g++) DHOWI_TRY(put(p, p->dh, t, g, g < 2 ? of[g] : on));
    DHOWI_TRY(to_state(p, t, p->reset_after ? 3 : 2, &way));
    return plus(b, back, way, &p->at_h);
}

static dhow_status rnn_back(pass *p, int64_t t, int32_t d) {
    int32_t y;
    DHOWI_TRY(dhowi_part_of(p->b, p->y, 0, t, &y));
    DHOWI_TRY(through_tanh(p->b, d, y, &d));
    DHOWI_TRY(put(p, p->dx, t, 0, d));
    return to_state(p, t, 1, &p->at_h);
}

/* ---- one direction ---- */

/* States before each step: the results of the others, which lie beside them, and the first one. */
static dhow_status old_states(pass *p) {
    dhowi_lowering *b = p->b;
    const int64_t first[] = {1, p->batch, p->hidden}, rows[] = {p->steps * p->batch, p->hidden};
    int32_t parts[2];
    DHOWI_TRY(dhowi_reshape(b, p->h, 3, first, &parts[p->reverse]));
    DHOWI_TRY(dhowi_narrow(b, p->y, 0, p->reverse, p->steps - 1, 1, &parts[!p->reverse]));
    p->old = parts[p->reverse];
    if (p->steps > 1) DHOWI_TRY(dhowi_concat(b, parts, 2, 0, &p->old));
    return dhowi_reshape(b, p->old, 2, rows, &p->old);
}

/* Backwards each sequence begins with the first state where it ends, behind results of zeros. */
static dhow_status old_states_from_ends(pass *p) {
    int32_t *parts = dhowi_alloc_array((size_t)p->steps, sizeof *parts);
    if (parts == NULL) return dhowi_fail_memory("plan");
    dhow_status status = DHOW_OK;
    for (int64_t t = 1; t < p->steps && status == DHOW_OK; t++) {
        status = dhowi_part_of(p->b, p->y, 0, t, &parts[t - 1]);
        if (status == DHOW_OK) status = alive_at(p, t);
        if (status == DHOW_OK)
            status = dhowi_select(p->b, p->alive, parts[t - 1], p->h, &parts[t - 1]);
    }
    parts[p->steps - 1] = p->h;
    if (status == DHOW_OK) status = dhowi_concat(p->b, parts, (uint32_t)p->steps, 0, &p->old);
    dhowi_free(parts);
    return status;
}

/* States before each step, and what input and states come to, of all steps. */
static dhow_status prepare(pass *p) {
    dhowi_lowering *b = p->b;
    const int64_t wide = p->gates * p->hidden, all[] = {p->steps, p->batch, wide};
    int32_t w;
    DHOWI_TRY(p->reverse && p->lengths >= 0 ? old_states_from_ends(p) : old_states(p));
    DHOWI_TRY(dhowi_turned(b, p->w, &w));
    DHOWI_TRY(dhowi_product(b, p->x, w, -1, &p->gx));
    DHOWI_TRY(plus(b, p->gx, p->bias[0], &p->gx));
    DHOWI_TRY(dhowi_reshape(b, p->gx, 3, all, &p->gx));
    DHOWI_TRY(dhowi_turned(b, p->r, &w));
    DHOWI_TRY(dhowi_product(b, p->old, w, -1, &p->gh));
    DHOWI_TRY(plus(b, p->gh, p->bias[1], &p->gh));
    DHOWI_TRY(dhowi_reshape(b, p->gh, 3, all, &p->gh));
    const dhowi_tensor_desc desc = {
        .dtype = dhowi_desc_at(b, p->x)->dtype, .rank = 3, .shape = {p->steps, p->batch, wide}};
    DHOWI_TRY(dhowi_blank(b, &desc, &p->dx));
    p->dh = p->dx;
    return p->gates == 3 ? dhowi_blank(b, &desc, &p->dh) : DHOW_OK;
}

static dhow_status go_back(pass *p, step_back *back) {
    const dhowi_tensor_desc state = {
        .dtype = dhowi_desc_at(p->b, p->x)->dtype, .rank = 2, .shape = {p->batch, p->hidden}};
    for (int64_t i = p->steps; i-- > 0;) {
        const int64_t t = time_of(p, i);
        int32_t d = -1, fresh, kept;
        if (p->dy >= 0) DHOWI_TRY(dhowi_part_of(p->b, p->dy, 0, t, &d));
        DHOWI_TRY(plus(p->b, p->at_h, d, &d));
        if (d < 0) DHOWI_TRY(dhowi_filled(p->b, &state, 0, &d));
        DHOWI_TRY(alive_at(p, t));
        DHOWI_TRY(part_alive(p, d, &fresh, &kept));
        if (kept >= 0) /* the result of a step that is not there is zeros */
            DHOWI_TRY(part_alive(p, p->at_h, &d, &kept));
        DHOWI_TRY(back(p, t, fresh));
        DHOWI_TRY(plus(p->b, p->at_h, kept, &p->at_h));
    }
    return DHOW_OK;
}

/* ---- the weights ---- */

/* Derivatives of the inputs, as the node has them but for the order of x and the states. */
typedef struct results {
    int32_t of[INPUTS];
    int32_t parts[INPUTS][2]; /* by direction */
} results;

/* dt x of rows, [out, in] as a direction of it. */
static dhow_status weight_of(dhowi_lowering *b, int32_t d, int32_t x, int32_t *out) {
    DHOWI_TRY(dhowi_turned(b, d, &d));
    return dhowi_product(b, d, x, -1, out);
}

static dhow_status recurrent_weight(const pass *p, int32_t d, int32_t *out) {
    dhowi_lowering *b = p->b;
    int32_t parts[2], at;
    if (p->gates != 3 || p->reset_after) return weight_of(b, d, p->old, out);
    DHOWI_TRY(dhowi_narrow(b, d, 1, 0, 2 * p->hidden, 1, &at));
    DHOWI_TRY(weight_of(b, at, p->old, &parts[0]));
    DHOWI_TRY(dhowi_narrow(b, d, 1, 2 * p->hidden, p->hidden, 1, &at));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, p->reset, p->old, &parts[1]));
    DHOWI_TRY(weight_of(b, at, parts[1], &parts[1]));
    return dhowi_concat(b, parts, 2, 0, out);
}

static dhow_status collect(const pass *p, int direction, results *to) {
    dhowi_lowering *b = p->b;
    const int64_t rows[] = {p->steps * p->batch, p->gates * p->hidden};
    int32_t dx, dh, both[2], part;
    DHOWI_TRY(dhowi_reshape(b, p->dx, 2, rows, &dx));
    DHOWI_TRY(dhowi_reshape(b, p->dh, 2, rows, &dh));
    DHOWI_TRY(dhowi_product(b, dx, p->w, -1, &part));
    DHOWI_TRY(plus(b, to->of[X], part, &to->of[X]));
    DHOWI_TRY(weight_of(b, dx, p->x, &to->parts[W][direction]));
    DHOWI_TRY(recurrent_weight(p, dh, &to->parts[R][direction]));
    DHOWI_TRY(dhowi_sum_but(b, dx, 1, &both[0]));
    DHOWI_TRY(dhowi_sum_but(b, dh, 1, &both[1]));
    DHOWI_TRY(dhowi_concat(b, both, 2, 0, &to->parts[BIAS][direction]));
    to->parts[STATE][direction] = p->at_h;
    to->parts[CELL][direction] = p->at_c;
    if (p->peepholes >= 0)
        DHOWI_TRY(dhowi_concat(b, p->peep, 3, 0, &to->parts[PEEPHOLES][direction]));
    return DHOW_OK;
}

/* [directions, ...] */
static dhow_status stack(dhowi_lowering *b, int directions, results *to) {
    for (int i = W; i < INPUTS; i++) {
        int32_t *parts = to->parts[i];
        for (int d = 0; d < directions && parts[d] >= 0; d++) {
            const dhowi_tensor_desc own = *dhowi_desc_at(b, parts[d]);
            int64_t shape[DHOW_MAX_RANK] = {1};
            memcpy(shape + 1, own.shape, (size_t)own.rank * sizeof *shape);
            DHOWI_TRY(dhowi_reshape(b, parts[d], own.rank + 1, shape, &parts[d]));
        }
        to->of[i] = parts[0];
        if (directions > 1 && parts[0] >= 0) DHOWI_TRY(dhowi_concat(b, parts, 2, 0, &to->of[i]));
    }
    return DHOW_OK;
}

/* ---- the node ---- */

/* A node of ONNX: x[steps, batch, inputs], y and its derivative [steps, directions, batch, hidden],
 * states [directions, batch, hidden]; -1 is nothing. */
typedef struct network {
    int gates;
    bool reverse, reset_after;
    int32_t in[INPUTS], y, dy, at_h, at_c;
} network;

static dhow_status direction_of(dhowi_lowering *b, const network *n, int d, pass *p) {
    static const int32_t none[] = {-1, -1, -1};
    const dhowi_tensor_desc x = *dhowi_desc_at(b, n->in[X]), r = *dhowi_desc_at(b, n->in[R]);
    const int64_t rows[] = {x.shape[0] * x.shape[1], x.shape[2]}, column[] = {x.shape[1], 1};
    const int64_t wide = n->gates * r.shape[2];
    const dhowi_tensor_desc state = {
        .dtype = x.dtype, .rank = 2, .shape = {x.shape[1], r.shape[2]}};
    int32_t both;
    *p = (pass){.b = b,
                .gates = n->gates,
                .steps = x.shape[0],
                .batch = x.shape[1],
                .inputs = x.shape[2],
                .hidden = r.shape[2],
                .reverse = n->reverse || d == 1,
                .reset_after = n->reset_after,
                .bias = {-1, -1},
                .lengths = -1,
                .dy = -1,
                .c = -1,
                .peepholes = -1,
                .reset = -1,
                .at_h = -1,
                .at_c = -1,
                .alive = -1,
                .kept = p->kept};
    memcpy(p->peep, none, sizeof none);
    DHOWI_TRY(dhowi_reshape(b, n->in[X], 2, rows, &p->x));
    DHOWI_TRY(dhowi_part_of(b, n->in[W], 0, d, &p->w));
    DHOWI_TRY(dhowi_part_of(b, n->in[R], 0, d, &p->r));
    if (n->in[BIAS] >= 0) {
        DHOWI_TRY(dhowi_part_of(b, n->in[BIAS], 0, d, &both));
        for (int i = 0; i < 2; i++)
            DHOWI_TRY(dhowi_narrow(b, both, 0, i * wide, wide, 1, &p->bias[i]));
    }
    if (n->in[LENGTHS] >= 0) {
        DHOWI_TRY(dhowi_reshape(b, n->in[LENGTHS], 2, column, &p->lengths));
        DHOWI_TRY(dhowi_cast_to(b, p->lengths, x.dtype, &p->lengths));
    }
    for (int i = STATE; i <= (n->gates == 4 ? CELL : STATE); i++) {
        int32_t *to = i == STATE ? &p->h : &p->c;
        DHOWI_TRY(n->in[i] >= 0 ? dhowi_part_of(b, n->in[i], 0, d, to)
                                : dhowi_filled(b, &state, 0, to));
    }
    if (n->in[PEEPHOLES] >= 0) DHOWI_TRY(dhowi_part_of(b, n->in[PEEPHOLES], 0, d, &p->peepholes));
    DHOWI_TRY(dhowi_part_of(b, n->y, 1, d, &p->y));
    if (n->dy >= 0) DHOWI_TRY(dhowi_part_of(b, n->dy, 1, d, &p->dy));
    if (n->at_h >= 0) DHOWI_TRY(dhowi_part_of(b, n->at_h, 0, d, &p->at_h));
    return n->at_c >= 0 ? dhowi_part_of(b, n->at_c, 0, d, &p->at_c) : DHOW_OK;
}

static dhow_status back_direction(dhowi_lowering *b, const network *n, int d, pass *p,
                                  results *to) {
    DHOWI_TRY(direction_of(b, n, d, p));
    DHOWI_TRY(prepare(p));
    if (n->gates == 4) DHOWI_TRY(run_lstm(p));
    if (n->gates == 3) DHOWI_TRY(run_gru(p));
    DHOWI_TRY(go_back(p, n->gates == 4 ? lstm_back : n->gates == 3 ? gru_back : rnn_back));
    return collect(p, d, to);
}

static dhow_status back_network(dhowi_lowering *b, const network *n, results *to) {
    const int directions = (int)dhowi_desc_at(b, n->in[W])->shape[0];
    const int64_t steps = dhowi_desc_at(b, n->in[X])->shape[0];
    pass p = {.kept = NULL};
    dhow_status status = DHOW_OK;
    memset(to, -1, sizeof *to);
    if (steps < 1) DHOWI_REFUSE("a sequence without steps");
    p.kept = dhowi_alloc_array((size_t)steps, sizeof *p.kept);
    if (p.kept == NULL) return dhowi_fail_memory("plan");
    for (int d = 0; d < directions && status == DHOW_OK; d++)
        status = back_direction(b, n, d, &p, to);
    dhowi_free(p.kept);
    return status == DHOW_OK ? stack(b, directions, to) : status;
}

/* Dimensions of a batch that comes first in the standard's order, or back. */
static dhow_status change_places(dhowi_lowering *b, bool batchwise, int32_t *x) {
    static const int32_t order[] = {1, 0, 2};
    return batchwise && *x >= 0 ? dhowi_permute(b, *x, order, x) : DHOW_OK;
}

static dhow_status pass_on(dhowi_reverser *r, bool batchwise, results *to) {
    const dhowi_tensor_desc *own;
    int32_t x;
    for (uint32_t i = 0; i < INPUTS; i++) {
        if (i == LENGTHS || !dhowi_back_wants(r, i) || to->of[i] < 0) continue;
        if (i == X) { /* rows as steps */
            DHOWI_TRY(dhowi_back_input(r, X, &x));
            own = dhowi_desc_at(r->b, x);
            const int64_t shape[] = {own->shape[batchwise], own->shape[!batchwise], own->shape[2]};
            DHOWI_TRY(dhowi_reshape(r->b, to->of[X], 3, shape, &to->of[X]));
        }
        if (i == X || i == STATE || i == CELL)
            DHOWI_TRY(change_places(r->b, batchwise, &to->of[i]));
        DHOWI_TRY(dhowi_back_pass(r, i, to->of[i]));
    }
    return DHOW_OK;
}

static int32_t slope_of(const dhowi_reverser *r, uint32_t output) {
    return output < r->node->out_count && r->node->out[output] >= 0 ? r->slope[r->node->out[output]]
                                                                    : -1;
}

static dhow_status back_of(dhowi_reverser *r, int gates) {
    static const int32_t steps_first[] = {1, 2, 0, 3};
    dhowi_lowering *b = r->b;
    network n = {.gates = gates};
    results to;
    bool batchwise;
    DHOWI_TRY(dhowi_attr_flag(b, "layout", false, &batchwise));
    dhowi_recurrent_node rules = {.gates = gates, .directions = 1};
    if (dhowi_attr_is(b, "direction", "bidirectional", "forward")) rules.directions = 2;
    DHOWI_TRY(dhowi_recurrent_rules(b, &rules));
    if (!rules.ordinary)
        return dhowi_fail(
            DHOW_UNSUPPORTED,
            "dhow has no derivative of activations other than the standard's, of clip "
            "or input_forget");
    n.reset_after = (rules.rules[0].flags & DHOWI_RECURRENT_RESET_AFTER) != 0;
    n.reverse = dhowi_attr_is(b, "direction", "reverse", "forward");
    DHOWI_TRY(dhowi_back_inputs(r, INPUTS, n.in));
    if (r->node->out[0] >= 0)
        DHOWI_TRY(dhowi_back_output(r, &n.y));
    else
        DHOWI_TRY(dhowi_back_lower(r, r->node->op->lower, n.in, r->node->in_count, &n.y));
    n.dy = slope_of(r, 0);
    n.at_h = slope_of(r, 1);
    n.at_c = slope_of(r, 2);
    DHOWI_TRY(change_places(b, batchwise, &n.in[X]));
    DHOWI_TRY(change_places(b, batchwise, &n.in[STATE]));
    DHOWI_TRY(change_places(b, batchwise, &n.in[CELL]));
    DHOWI_TRY(change_places(b, batchwise, &n.at_h));
    DHOWI_TRY(change_places(b, batchwise, &n.at_c));
    if (batchwise) DHOWI_TRY(dhowi_permute(b, n.y, steps_first, &n.y));
    if (batchwise && n.dy >= 0) DHOWI_TRY(dhowi_permute(b, n.dy, steps_first, &n.dy));
    DHOWI_TRY(back_network(b, &n, &to));
    return pass_on(r, batchwise, &to);
}

dhow_status dhowi_back_lstm(dhowi_reverser *r) { return back_of(r, 4); }
dhow_status dhowi_back_gru(dhowi_reverser *r) { return back_of(r, 3); }
dhow_status dhowi_back_rnn(dhowi_reverser *r) { return back_of(r, 1); }

/* ---- the builder's layer ---- */

/* [batch, steps, directions hidden] as [steps, directions, batch, hidden] */
static dhow_status by_directions(dhowi_lowering *b, int32_t x, int64_t directions, int32_t *out) {
    static const int32_t order[] = {1, 2, 0, 3};
    const int64_t *e = dhowi_desc_at(b, x)->shape;
    const int64_t shape[] = {e[0], e[1], directions, e[2] / directions};
    DHOWI_TRY(dhowi_reshape(b, x, 4, shape, out));
    return dhowi_permute(b, *out, order, out);
}

/* Of one direction, gates in PyTorch's order: i f g o. */
static dhow_status pass_gates(dhowi_reverser *r, uint32_t input, int32_t d) {
    static const int from[] = {0, 2, 3, 1};
    int32_t parts[4];
    if (!dhowi_back_wants(r, input)) return DHOW_OK;
    const int64_t hidden = dhowi_desc_at(r->b, d)->shape[0] / 4;
    for (int i = 0; i < 4; i++)
        DHOWI_TRY(dhowi_narrow(r->b, d, 0, from[i] * hidden, hidden, 1, &parts[i]));
    DHOWI_TRY(dhowi_concat(r->b, parts, 4, 0, &d));
    return dhowi_back_pass(r, input, d);
}

/* Its inputs: x, and for each direction weights of input and state, and their biases. */
dhow_status dhowi_back_lstm_layer(dhowi_reverser *r) {
    dhowi_lowering *b = r->b;
    network n = {.gates = 4, .at_h = -1, .at_c = -1};
    results to;
    int32_t in[9], y, d;
    memset(n.in, -1, sizeof n.in);
    DHOWI_TRY(dhowi_back_inputs(r, r->node->in_count, in));
    dhowi_back_scope scope = dhowi_back_enter(r, in, r->node->in_count);
    dhow_status status = dhowi_lstm_of_layer(b, n.in);
    dhowi_back_leave(r, scope);
    DHOWI_TRY(status);
    const int64_t directions = dhowi_desc_at(b, n.in[W])->shape[0];
    DHOWI_TRY(dhowi_back_output(r, &y));
    DHOWI_TRY(by_directions(b, y, directions, &n.y));
    DHOWI_TRY(by_directions(b, r->dy, directions, &n.dy));
    DHOWI_TRY(back_network(b, &n, &to));
    for (int32_t i = 0; i < directions; i++) {
        const uint32_t first = 1 + 4 * (uint32_t)i;
        for (uint32_t k = 0; k < 2; k++) {
            DHOWI_TRY(dhowi_part_of(b, to.of[k == 0 ? W : R], 0, i, &d));
            DHOWI_TRY(pass_gates(r, first + k, d));
            DHOWI_TRY(dhowi_part_of(b, to.of[BIAS], 0, i, &d));
            const int64_t wide = dhowi_desc_at(b, d)->shape[0] / 2;
            DHOWI_TRY(dhowi_narrow(b, d, 0, k * wide, wide, 1, &d));
            DHOWI_TRY(pass_gates(r, first + 2 + k, d));
        }
    }
    if (!dhowi_back_wants(r, 0)) return DHOW_OK;
    const int64_t *e = dhowi_desc_at(b, in[0])->shape, steps[] = {e[1], e[0], e[2]};
    DHOWI_TRY(dhowi_reshape(b, to.of[X], 3, steps, &d));
    DHOWI_TRY(change_places(b, true, &d));
    return dhowi_back_pass(r, 0, d);
}
