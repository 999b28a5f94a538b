/* SPDX-License-Identifier: Apache-2.0
 *
 * LSTM, GRU and RNN: one product for all steps of the input, then a product and the gates for each
 * step. The graph is unrolled when its length is known. See recurrent_whole.c for the form that is
 * not.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "model/lower/products/products.h"
#include "model/operators/nn/nn.h"

enum { MAX_STEPS = 1 << 16 };
enum { W_SCALE = 8, R_SCALE = 10 }; /* inputs of DynamicQuantizeLSTM, zero points behind them */

/* One direction of a network with `gates` gates. */
typedef struct recurrence {
    int gates;
    int64_t steps, batch, inputs, hidden;
    int32_t x;      /* [steps, batch, inputs] */
    int32_t gx;     /* [steps, batch, gates hidden]: the input's share, biases added */
    int32_t r, rb;  /* transposed recurrent weights [hidden, gates hidden], their bias or -1 */
    bool quantised; /* weights are integers less their zero points, [1, 1] or [1, gates hidden] */
    int32_t w_scale, r_scale;
    int32_t h, c, peepholes; /* state [batch, hidden]; -1 where there is none */
    int32_t lengths;         /* of each sequence [batch, 1], -1 when all are alike */
    int64_t length;          /* of the longest one: steps behind it give zeros */
    int32_t y;               /* [steps, batch, hidden] of this direction, to be written */
    bool reverse;
} recurrence;

typedef dhow_status step_fn(dhowi_lowering *b, recurrence *n, int32_t gx);

/* ---- small helpers ---- */

static dhow_status gate(dhowi_lowering *b, const recurrence *n, int32_t x, int index,
                        int32_t *out) {
    return dhowi_narrow(b, x, 1, index * n->hidden, n->hidden, 1, out);
}

static dhow_status transposed(dhowi_lowering *b, int32_t x, int32_t *out) {
    static const int32_t order[] = {1, 0};
    return dhowi_permute(b, x, order, out);
}

/* op(x + y) */
static dhow_status sum_then(dhowi_lowering *b, dhowi_map_op op, int32_t x, int32_t y,
                            int32_t *out) {
    const int32_t in[] = {x, y};
    dhowi_program p = {0};
    (void)dhowi_program_add(&p, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_add(&p, DHOWI_MAP_ADD, 1);
    (void)dhowi_program_constants(&p, op, 0, 0, 0);
    return dhowi_map(b, &p, in, 2, out);
}

/* ---- one direction ---- */

/* x weight + bias; with quantised weights of this scale, x is quantised by its range as well, as a
 * whole, as ONNX Runtime does it. */
static dhow_status weighed(dhowi_lowering *b, const recurrence *n, int32_t x, int32_t weight,
                           int32_t scale, int32_t bias, int32_t *out) {
    int32_t range[3];
    if (!n->quantised) return dhowi_product(b, x, weight, bias, out);
    DHOWI_TRY(dhowi_quantised_by_range(b, x, range));
    DHOWI_TRY(dhowi_centred(b, range[0], range[2], &x));
    DHOWI_TRY(dhowi_product(b, x, weight, -1, out));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, *out, range[1], out));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, *out, scale, out));
    return bias < 0 ? DHOW_OK : dhowi_map_two(b, DHOWI_MAP_ADD, *out, bias, out);
}

/* Weights [k, gates hidden] of direction d from input `codes`, quantised by the two inputs at
 * `scale`: one number, or one for each column. */
static dhow_status quantised_weights(dhowi_lowering *b, const recurrence *n, int32_t d,
                                     uint32_t codes, uint32_t at, int32_t *weights,
                                     int32_t *scale) {
    int32_t both[] = {-1, -1};
    DHOWI_TRY(dhowi_check_quantised(b, codes, at + 1));
    for (uint32_t i = 0; i < 2; i++) {
        if (i == 1 && !dhowi_given(b, at + 1)) break;
        const dhowi_tensor_desc own = *dhowi_desc_at(b, b->in[at + i]);
        const int64_t directions = dhowi_desc_at(b, b->in[codes])->shape[0];
        const int64_t each =
            own.rank > 0 && own.shape[0] == directions ? dhowi_extent(&own, 1, own.rank) : 0;
        const int64_t rows[] = {directions, each}, row[] = {1, each};
        char s[160];
        if (own.rank > 2 || (each != 1 && each != n->gates * n->hidden))
            DHOWI_REFUSE("input %u is %s, no scale or zero point of %" PRId64
                         " directions with %" PRId64 " columns",
                         at + i, dhowi_desc_text(&own, s, sizeof s), directions,
                         n->gates * n->hidden);
        DHOWI_TRY(dhowi_reshape(b, b->in[at + i], 2, rows, &both[i]));
        DHOWI_TRY(dhowi_part_of(b, both[i], 0, d, &both[i]));
        DHOWI_TRY(dhowi_reshape(b, both[i], 2, row, &both[i]));
    }
    *scale = both[0];
    DHOWI_TRY(dhowi_part_of(b, b->in[codes], 0, d, weights));
    return dhowi_centred(b, *weights, both[1], weights);
}

/* W [gates hidden, inputs], R [gates hidden, hidden], B [2 gates hidden] of direction d.
 * `split_bias`: the recurrent bias is not the same as the input's (GRU). */
static dhow_status prepare(dhowi_lowering *b, recurrence *n, int32_t d, bool split_bias) {
    int64_t rows = n->gates * n->hidden;
    const int64_t flat[] = {n->steps * n->batch, n->inputs}, wide[] = {n->steps, n->batch, rows};
    int32_t w, x, bias = -1, wb;
    if (n->quantised) {
        DHOWI_TRY(quantised_weights(b, n, d, 1, W_SCALE, &w, &n->w_scale));
        DHOWI_TRY(quantised_weights(b, n, d, 2, R_SCALE, &n->r, &n->r_scale));
    } else {
        DHOWI_TRY(dhowi_part_of(b, b->in[1], 0, d, &w));
        DHOWI_TRY(dhowi_part_of(b, b->in[2], 0, d, &n->r));
        DHOWI_TRY(transposed(b, w, &w));
        DHOWI_TRY(transposed(b, n->r, &n->r));
    }
    n->rb = -1;
    if (dhowi_given(b, 3)) {
        DHOWI_TRY(dhowi_part_of(b, b->in[3], 0, d, &bias));
        DHOWI_TRY(dhowi_narrow(b, bias, 0, 0, rows, 1, &wb));
        DHOWI_TRY(dhowi_narrow(b, bias, 0, rows, rows, 1, &n->rb));
        if (split_bias) {
            bias = wb;
        } else {
            DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, wb, n->rb, &bias));
            n->rb = -1;
        }
        DHOWI_TRY(dhowi_dense(b, bias, &bias));
    }
    DHOWI_TRY(dhowi_reshape(b, n->x, 2, flat, &x));
    DHOWI_TRY(weighed(b, n, x, w, n->w_scale, bias, &n->gx));
    return dhowi_reshape(b, n->gx, 3, wide, &n->gx);
}

/* Sequences that have ended keep their state and give zeros. */
static dhow_status hold_ended(dhowi_lowering *b, recurrence *n, int64_t t, int32_t old_h,
                              int32_t old_c, int32_t *y) {
    int32_t alive;
    if (n->lengths < 0) return DHOW_OK;
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_GT, n->lengths, (double)t, &alive));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, n->h, alive, y));
    DHOWI_TRY(dhowi_select(b, alive, n->h, old_h, &n->h));
    return n->c >= 0 ? dhowi_select(b, alive, n->c, old_c, &n->c) : DHOW_OK;
}

static dhow_status run_direction(dhowi_lowering *b, recurrence *n, step_fn *step) {
    int32_t to;
    for (int64_t i = 0; i < n->length; i++) {
        int64_t t = n->reverse ? n->length - 1 - i : i;
        int32_t gx, old_h = n->h, old_c = n->c, y;
        DHOWI_TRY(dhowi_part_of(b, n->gx, 0, t, &gx));
        DHOWI_TRY(step(b, n, gx));
        y = n->h;
        DHOWI_TRY(hold_ended(b, n, t, old_h, old_c, &y));
        DHOWI_TRY(dhowi_part_of(b, n->y, 0, t, &to));
        DHOWI_TRY(dhowi_emit_into(b, DHOWI_OP_copy, &y, 1, NULL, to));
    }
    if (n->length == n->steps) return DHOW_OK;
    const dhowi_attrs zero = {.scalar = {dhow_scalar_f64(0)}};
    DHOWI_TRY(dhowi_narrow(b, n->y, 0, n->length, n->steps - n->length, 1, &to));
    return dhowi_emit_into(b, DHOWI_OP_fill, NULL, 0, &zero, to);
}

/* ---- the node ---- */

static dhow_status state_of(dhowi_lowering *b, const recurrence *n, uint32_t input, bool batchwise,
                            int32_t d, int32_t *out) {
    const dhowi_tensor_desc zero = {
        .dtype = dhowi_desc_at(b, n->x)->dtype, .rank = 2, .shape = {n->batch, n->hidden}};
    if (!dhowi_given(b, input)) return dhowi_filled(b, &zero, 0, out);
    return dhowi_part_of(b, b->in[input], batchwise ? 1 : 0, d, out);
}

/* The longest sequence, and whether all are as long; refuses lengths that are none. */
static dhow_status longest_of(dhowi_lowering *b, int32_t ref, recurrence *n, bool *alike) {
    uint32_t count;
    DHOWI_TRY(dhowi_need(b, ref));
    DHOWI_TRY(dhowi_host_room(b, n->batch, sizeof(int64_t)));
    if (n->batch > INT32_MAX) DHOWI_REFUSE("%" PRId64 " sequences", n->batch);
    int64_t *lengths = dhowi_alloc_array((size_t)n->batch + 1, sizeof *lengths), wrong = 0;
    if (lengths == NULL) return dhowi_fail_memory("plan");
    dhow_status status = dhowi_ints(b, ref, lengths, (uint32_t)n->batch, &count);
    *alike = true;
    n->length = 0;
    for (int64_t i = 0; i < n->batch && status == DHOW_OK; i++) {
        *alike = *alike && lengths[i] == lengths[0];
        n->length = DHOWI_MAX(n->length, lengths[i]);
        if (lengths[i] < 0 || lengths[i] > n->steps) wrong = lengths[i];
    }
    dhowi_free(lengths);
    DHOWI_TRY(status);
    if (wrong != 0)
        DHOWI_REFUSE("a sequence of length %" PRId64 " in %" PRId64 " steps", wrong, n->steps);
    return DHOW_OK;
}

static dhow_status check_lengths(const dhowi_lowering *b, const recurrence *n) {
    const dhowi_tensor_desc *given = dhowi_desc_at(b, b->in[4]);
    if (given->rank == 1 && given->shape[0] == n->batch) return DHOW_OK;
    DHOWI_REFUSE("sequence_lens has %" PRId64 " lengths, the batch %" PRId64 " sequences",
                 dhowi_count_of(given), n->batch);
}

static dhow_status lengths_of(dhowi_lowering *b, recurrence *n, int32_t *out) {
    const int64_t column[] = {n->batch, 1};
    bool alike = true;
    *out = -1;
    n->length = n->steps;
    if (!dhowi_given(b, 4)) return DHOW_OK;
    DHOWI_TRY(check_lengths(b, n));
    DHOWI_TRY(longest_of(b, b->in[4], n, &alike));
    if (alike) return DHOW_OK;
    DHOWI_TRY(dhowi_reshape(b, b->in[4], 2, column, out));
    return dhowi_cast_to(b, *out, dhowi_desc_at(b, n->x)->dtype, out);
}

/* Lengths for the kernel of all steps: a plan need not know them. */
static dhow_status lengths_as_given(dhowi_lowering *b, recurrence *n, int32_t *out) {
    bool alike;
    *out = -1;
    if (!dhowi_given(b, 4)) return DHOW_OK;
    DHOWI_TRY(check_lengths(b, n));
    if (dhowi_is_known(b, b->in[4])) {
        DHOWI_TRY(longest_of(b, b->in[4], n, &alike));
        if (alike && n->length == n->steps) return DHOW_OK;
    } else {
        DHOWI_TRY(dhowi_keep_within(b, b->in[4], "sequence_lens", 0, n->steps));
    }
    return dhowi_cast_to(b, b->in[4], DHOW_I32, out);
}

static dhow_status measure(dhowi_lowering *b, recurrence *n, bool batchwise) {
    static const int32_t swapped[] = {1, 0, 2};
    int64_t hidden = dhowi_attr_int(b, "hidden_size", 0);
    n->x = b->in[0];
    if (dhowi_desc_at(b, n->x)->rank != 3) DHOWI_REFUSE("x does not have three dimensions");
    if (batchwise) DHOWI_TRY(dhowi_permute(b, n->x, swapped, &n->x));
    const dhowi_tensor_desc *x = dhowi_desc_at(b, n->x), *r = dhowi_desc_at(b, b->in[2]);
    const dhowi_tensor_desc *w = dhowi_desc_at(b, b->in[1]);
    const int k = n->quantised ? 1 : 2, columns = n->quantised ? 2 : 1; /* of W and R */
    n->steps = x->shape[0];
    n->batch = x->shape[1];
    n->inputs = x->shape[2];
    if (r->rank != 3 || w->rank != 3 || w->shape[k] != n->inputs ||
        r->shape[columns] != n->gates * r->shape[k] || w->shape[columns] != r->shape[columns])
        DHOWI_REFUSE("W or R does not fit x");
    n->hidden = r->shape[k];
    if (hidden != 0 && hidden != n->hidden) DHOWI_REFUSE("hidden_size is not that of R");
    return DHOW_OK;
}

/* Final states of all directions, [directions, batch, hidden] or batch first. */
static dhow_status stack(dhowi_lowering *b, const recurrence *n, const int32_t *states,
                         int32_t directions, bool batchwise, int32_t *out) {
    const int64_t shape[] = {batchwise ? n->batch : 1, batchwise ? 1 : n->batch, n->hidden};
    int32_t parts[2];
    for (int32_t d = 0; d < directions; d++)
        DHOWI_TRY(dhowi_reshape(b, states[d], 3, shape, &parts[d]));
    return dhowi_concat(b, parts, (uint32_t)directions, batchwise ? 1 : 0, out);
}

/* Refuses an optional input of another shape. */
static dhow_status expect(dhowi_lowering *b, uint32_t input, const char *name, int32_t rank,
                          const int64_t *shape) {
    if (!dhowi_given(b, input)) return DHOW_OK;
    const dhowi_tensor_desc *is = dhowi_desc_at(b, b->in[input]);
    dhowi_tensor_desc wanted = {.dtype = dhowi_desc_at(b, b->in[0])->dtype, .rank = rank};
    char p[160], q[160];
    for (int32_t i = 0; i < rank; i++) wanted.shape[i] = shape[i];
    if (is->dtype == wanted.dtype && dhowi_shape_equal(is->rank, is->shape, rank, shape))
        return DHOW_OK;
    DHOWI_REFUSE("%s is %s, %s is wanted", name, dhowi_desc_text(is, p, sizeof p),
                 dhowi_desc_text(&wanted, q, sizeof q));
}

static dhow_status check_optional(dhowi_lowering *b, const recurrence *n, int32_t directions,
                                  bool batchwise, bool has_cell) {
    const int64_t bias[] = {directions, 2 * n->gates * n->hidden};
    const int64_t state[] = {batchwise ? n->batch : directions, batchwise ? directions : n->batch,
                             n->hidden};
    const int64_t peepholes[] = {directions, 3 * n->hidden};
    DHOWI_TRY(expect(b, 3, "B", 2, bias));
    DHOWI_TRY(expect(b, 5, "initial_h", 3, state));
    if (!has_cell) return DHOW_OK;
    DHOWI_TRY(expect(b, 6, "initial_c", 3, state));
    return expect(b, 7, "P", 2, peepholes);
}

/* All time steps in one kernel, where the device and the node have that form. */
static dhow_status in_one_step(dhowi_lowering *b, recurrence *n, dhowi_recurrent_node *whole,
                               bool *done) {
    int32_t lengths;
    whole->steps = n->steps;
    whole->batch = n->batch;
    whole->inputs = n->inputs;
    whole->hidden = n->hidden;
    whole->x = n->x;
    *done = false;
    if (n->quantised && !whole->ordinary)
        return dhowi_fail(DHOW_UNSUPPORTED, "activations, clip and input_forget of integers");
    if (!n->quantised) DHOWI_TRY(dhowi_recurs_whole(b, whole, done));
    if (!*done) return DHOW_OK;
    DHOWI_TRY(lengths_as_given(b, n, &lengths));
    return dhowi_recur_whole(b, whole, lengths);
}

static dhow_status directions_of(const dhowi_lowering *b, int *directions) {
    /* A layer of the builder has no attributes: its weights tell. */
    const bool both = b->node->source == NULL
                          ? dhowi_desc_at(b, b->in[1])->shape[0] == 2
                          : dhowi_attr_is(b, "direction", "bidirectional", "forward");
    *directions = both ? 2 : 1;
    if (!both && !dhowi_attr_is(b, "direction", "forward", "forward") &&
        !dhowi_attr_is(b, "direction", "reverse", "forward"))
        return dhowi_refuse_text(b, "direction");
    return DHOW_OK;
}

/* Each time step as steps of its own. */
static dhow_status unrolled(dhowi_lowering *b, recurrence *n, int directions, bool batchwise,
                            step_fn *step) {
    static const int32_t batch_first[] = {2, 0, 1, 3};
    const bool has_cell = n->gates == 4;
    int32_t h[2], c[2], all;
    if (n->steps > MAX_STEPS) DHOWI_REFUSE("%" PRId64 " steps", n->steps);
    DHOWI_TRY(lengths_of(b, n, &n->lengths));
    const dhowi_tensor_desc y = {.dtype = dhowi_desc_at(b, n->x)->dtype,
                                 .rank = 4,
                                 .shape = {n->steps, directions, n->batch, n->hidden}};
    DHOWI_TRY(dhowi_blank_of(b, &y, b->in, b->in_count, &all));
    for (int32_t d = 0; d < directions; d++) {
        n->reverse = d == 1 || dhowi_attr_is(b, "direction", "reverse", "forward");
        DHOWI_TRY(prepare(b, n, d, n->gates == 3));
        DHOWI_TRY(state_of(b, n, 5, batchwise, d, &n->h));
        if (has_cell) DHOWI_TRY(state_of(b, n, 6, batchwise, d, &n->c));
        if (has_cell && dhowi_given(b, 7))
            DHOWI_TRY(dhowi_part_of(b, b->in[7], 0, d, &n->peepholes));
        DHOWI_TRY(dhowi_part_of(b, all, 1, d, &n->y));
        DHOWI_TRY(run_direction(b, n, step));
        h[d] = n->h;
        c[d] = n->c;
    }
    b->out[0] = all;
    if (batchwise) DHOWI_TRY(dhowi_permute(b, all, batch_first, &b->out[0]));
    if (b->out_count > 1) DHOWI_TRY(stack(b, n, h, directions, batchwise, &b->out[1]));
    if (b->out_count > 2 && has_cell) DHOWI_TRY(stack(b, n, c, directions, batchwise, &b->out[2]));
    return DHOW_OK;
}

static dhow_status recurrent(dhowi_lowering *b, int gates, bool quantised, step_fn *step) {
    recurrence n = {.gates = gates, .quantised = quantised, .c = -1, .peepholes = -1};
    dhowi_recurrent_node whole = {.gates = gates};
    bool done;
    int directions;
    DHOWI_TRY(dhowi_attr_flag(b, "layout", false, &whole.batchwise));
    DHOWI_TRY(directions_of(b, &directions));
    whole.directions = directions;
    DHOWI_TRY(dhowi_recurrent_rules(b, &whole));
    DHOWI_TRY(measure(b, &n, whole.batchwise));
    if (dhowi_desc_at(b, b->in[1])->shape[0] != directions ||
        dhowi_desc_at(b, b->in[2])->shape[0] != directions)
        DHOWI_REFUSE("W and R do not have %d directions", directions);
    DHOWI_TRY(check_optional(b, &n, directions, whole.batchwise, gates == 4));
    DHOWI_TRY(in_one_step(b, &n, &whole, &done));
    return done ? DHOW_OK : unrolled(b, &n, directions, whole.batchwise, step);
}

/* ---- cells ---- */

static dhow_status lstm_step(dhowi_lowering *b, recurrence *n, int32_t gx) {
    int32_t gh, in[4];
    dhowi_tensor_desc state = *dhowi_desc_at(b, n->h);
    DHOWI_TRY(weighed(b, n, n->h, n->r, n->r_scale, -1, &gh));
    in[0] = gx, in[1] = gh, in[2] = n->c, in[3] = n->peepholes;
    const dhow_dtype dtype = state.dtype;
    for (int i = 0; i < 4; i++) {
        if (in[i] >= 0) DHOWI_TRY(dhowi_widened(b, DHOWI_OP_lstm_cell, in[i], &in[i]));
    }
    state.dtype = dhowi_desc_at(b, in[0])->dtype;
    DHOWI_TRY(dhowi_emit_two(b, DHOWI_OP_lstm_cell, in, 4, NULL, &state, &state, &n->h, &n->c));
    DHOWI_TRY(dhowi_cast_to(b, n->h, dtype, &n->h));
    return dhowi_cast_to(b, n->c, dtype, &n->c);
}

dhow_status dhowi_lower_lstm(dhowi_lowering *b) { return recurrent(b, 4, false, lstm_step); }

dhow_status dhowi_lower_ms_dynamic_lstm(dhowi_lowering *b) {
    const dhow_dtype dtype = dhowi_desc_at(b, b->in[0])->dtype;
    if (dtype != DHOW_F32) DHOWI_REFUSE("x is %s, not f32", dhow_dtype_name(dtype));
    for (uint32_t i = W_SCALE; i <= R_SCALE; i += R_SCALE - W_SCALE)
        if (!dhowi_given(b, i)) DHOWI_REFUSE("its input %u is missing", i);
    return recurrent(b, 4, true, lstm_step);
}

/* z, r, h: h' = (1 - z) tanh(..) + z h */
static dhow_status gru_step(dhowi_lowering *b, recurrence *n, int32_t gx) {
    bool before;
    DHOWI_TRY(dhowi_attr_flag(b, "linear_before_reset", false, &before));
    int32_t x[3], r[3], h[3], z, reset, fresh, gh = -1, blend[3];
    int parts = before ? 3 : 2;
    const int64_t two = 2 * n->hidden;
    int32_t weight = n->r, bias = n->rb;
    if (!before) { /* the third product waits for the reset gate */
        DHOWI_TRY(dhowi_narrow(b, n->r, 1, 0, two, 1, &weight));
        if (bias >= 0) DHOWI_TRY(dhowi_narrow(b, n->rb, 0, 0, two, 1, &bias));
    }
    DHOWI_TRY(dhowi_product(b, n->h, weight, -1, &gh));
    if (bias >= 0) DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, gh, bias, &gh));
    for (int i = 0; i < 3; i++) DHOWI_TRY(gate(b, n, gx, i, &x[i]));
    for (int i = 0; i < parts; i++) DHOWI_TRY(gate(b, n, gh, i, &h[i]));
    DHOWI_TRY(sum_then(b, DHOWI_MAP_SIGMOID, x[0], h[0], &z));
    DHOWI_TRY(sum_then(b, DHOWI_MAP_SIGMOID, x[1], h[1], &reset));
    if (before) {
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, reset, h[2], &fresh));
    } else {
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, reset, n->h, &fresh));
        DHOWI_TRY(dhowi_narrow(b, n->r, 1, two, n->hidden, 1, &r[2]));
        DHOWI_TRY(dhowi_product(b, fresh, r[2], -1, &fresh));
        if (n->rb >= 0) {
            DHOWI_TRY(dhowi_narrow(b, n->rb, 0, two, n->hidden, 1, &r[2]));
            DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, fresh, r[2], &fresh));
        }
    }
    DHOWI_TRY(sum_then(b, DHOWI_MAP_TANH, x[2], fresh, &fresh));
    /* fresh + z (h - fresh) */
    blend[0] = n->h, blend[1] = fresh, blend[2] = z;
    dhowi_program p = {0};
    (void)dhowi_program_add(&p, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_add(&p, DHOWI_MAP_SUB, 1);
    (void)dhowi_program_add(&p, DHOWI_MAP_MUL, 2);
    (void)dhowi_program_add(&p, DHOWI_MAP_ADD, 1);
    return dhowi_map(b, &p, blend, 3, &n->h);
}

dhow_status dhowi_lower_gru(dhowi_lowering *b) { return recurrent(b, 3, false, gru_step); }

static dhow_status rnn_step(dhowi_lowering *b, recurrence *n, int32_t gx) {
    int32_t gh;
    DHOWI_TRY(dhowi_product(b, n->h, n->r, -1, &gh));
    return sum_then(b, DHOWI_MAP_TANH, gx, gh, &n->h);
}

dhow_status dhowi_lower_rnn(dhowi_lowering *b) { return recurrent(b, 1, false, rnn_step); }
