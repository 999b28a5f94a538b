/* SPDX-License-Identifier: Apache-2.0
 *
 * Norms of sums: of a residual, and of embeddings.
 */
#include <inttypes.h>

#include "model/operators/microsoft/microsoft.h"
#include "model/operators/nn/nn.h"

static const float k_epsilon = 1e-12f;

static dhow_status check_rows(const dhowi_lowering *b, uint32_t input, int64_t width) {
    const dhowi_tensor_desc *x = dhowi_given(b, input) ? dhowi_desc_at(b, b->in[input]) : NULL;
    char s[160];
    if (x == NULL || (x->rank == 1 && x->shape[0] == width)) return DHOW_OK;
    DHOWI_REFUSE("input %u is %s for rows of %" PRId64, input, dhowi_desc_text(x, s, sizeof s),
                 width);
}

/* x and what broadcasts to it. */
static dhow_status add_to(dhowi_lowering *b, int32_t x, int32_t y, int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x), other = *dhowi_desc_at(b, y);
    char s[160], t[160];
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, x, y, out));
    const dhowi_tensor_desc *sum = dhowi_desc_at(b, *out);
    if (dhowi_shape_equal(own.rank, own.shape, sum->rank, sum->shape)) return DHOW_OK;
    DHOWI_REFUSE("%s is more than is added to, %s", dhowi_desc_text(&other, s, sizeof s),
                 dhowi_desc_text(&own, t, sizeof t));
}

/* input, skip, gamma, then beta where rows are centred, and bias. The sum is the fourth output. */
dhow_status dhowi_lower_ms_skip_norm(dhowi_lowering *b) {
    const bool centred = b->node->op->arg != 0;
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    const uint32_t beta = 3, bias = centred ? 4 : 3;
    const bool shifted = centred && dhowi_given(b, beta);
    int32_t sum;
    if (x.rank != 2 && x.rank != 3) DHOWI_REFUSE("input 0 has %d dimensions", x.rank);
    for (uint32_t i = 2; i <= bias; i++) DHOWI_TRY(check_rows(b, i, x.shape[x.rank - 1]));
    DHOWI_TRY(add_to(b, b->in[0], b->in[1], &sum));
    if (dhowi_given(b, bias)) DHOWI_TRY(add_to(b, sum, b->in[bias], &sum));
    b->out[3] = sum;
    return dhowi_norm(b, sum, b->in[2], shifted ? b->in[beta] : -1,
                      (double)dhowi_attr_float(b, "epsilon", k_epsilon), centred, &b->out[0]);
}

/* ---- embeddings ---- */

enum { MISSING = 64 }; /* no node has so many inputs */

/* Inputs: a table, and what its codes stand for where it is one of bytes. */
typedef struct table_inputs {
    const char *name;
    uint32_t rows, scale, zero;
} table_inputs;

typedef struct embedding_inputs {
    table_inputs words, positions, segments, gamma, beta;
    uint32_t mask, places;
} embedding_inputs;

enum { IDS, SEGMENTS };

static bool is_quantised(const table_inputs *t) { return t->scale != MISSING; }

static dhow_status check_table(const dhowi_lowering *b, const table_inputs *t, int64_t width) {
    const dhowi_tensor_desc *x = dhowi_given(b, t->rows) ? dhowi_desc_at(b, b->in[t->rows]) : NULL;
    char s[160];
    if (x == NULL) DHOWI_REFUSE("its input %u, %s, is missing", t->rows, t->name);
    if (x->rank != 2 || x->shape[1] != width)
        DHOWI_REFUSE("%s is %s, no table of rows of %" PRId64, t->name,
                     dhowi_desc_text(x, s, sizeof s), width);
    if (is_quantised(t) != (x->dtype == DHOW_U8 || x->dtype == DHOW_I8) ||
        (is_quantised(t) && !dhowi_given(b, t->scale)))
        DHOWI_REFUSE("%s is %s", t->name, dhowi_desc_text(x, s, sizeof s));
    return DHOW_OK;
}

static dhow_status check_embeddings(const dhowi_lowering *b, const embedding_inputs *in) {
    const uint32_t numbers[] = {SEGMENTS, in->mask}, rows[] = {in->gamma.rows, in->beta.rows};
    const dhowi_tensor_desc *ids = dhowi_desc_at(b, b->in[IDS]);
    if (ids->rank != 2) DHOWI_REFUSE("input_ids has %d dimensions", ids->rank);
    if (dhowi_given(b, SEGMENTS) != dhowi_given(b, in->segments.rows))
        DHOWI_REFUSE("segment_ids and segment_embedding are given together or not at all");
    const dhowi_tensor_desc *words =
        dhowi_given(b, in->words.rows) ? dhowi_desc_at(b, b->in[in->words.rows]) : NULL;
    const int64_t width = words != NULL && words->rank == 2 ? words->shape[1] : 0;
    DHOWI_TRY(check_table(b, &in->words, width));
    DHOWI_TRY(check_table(b, &in->positions, width));
    if (dhowi_given(b, SEGMENTS)) DHOWI_TRY(check_table(b, &in->segments, width));
    for (size_t i = 0; i < 2; i++) {
        if (!dhowi_given(b, rows[i])) DHOWI_REFUSE("its input %u is missing", rows[i]);
        DHOWI_TRY(check_rows(b, rows[i], width));
        if (!dhowi_given(b, numbers[i])) continue;
        const dhowi_tensor_desc *n = dhowi_desc_at(b, b->in[numbers[i]]);
        if (!dhowi_shape_equal(n->rank, n->shape, 2, ids->shape))
            DHOWI_REFUSE("input %u does not have a number for each of input_ids", numbers[i]);
    }
    return DHOW_OK;
}

/* x, of a table, as numbers. */
static dhow_status numbers_of(dhowi_lowering *b, const table_inputs *t, int32_t x, int32_t *out) {
    int32_t zero = -1, scale;
    *out = x;
    if (!is_quantised(t)) return DHOW_OK;
    if (!dhowi_given(b, t->scale)) DHOWI_REFUSE("%s has no scale", t->name);
    if (dhowi_given(b, t->zero)) DHOWI_TRY(dhowi_reshape(b, b->in[t->zero], 0, NULL, &zero));
    DHOWI_TRY(dhowi_reshape(b, b->in[t->scale], 0, NULL, &scale));
    DHOWI_TRY(dhowi_centred(b, x, zero, &x));
    return dhowi_map_two(b, DHOWI_MAP_MUL, x, scale, out);
}

/* The rows that `index` names. */
static dhow_status look_up(dhowi_lowering *b, const table_inputs *t, int32_t index, int32_t *out) {
    DHOWI_TRY(dhowi_gather_along(b, b->in[t->rows], 0, index, out));
    return numbers_of(b, t, *out, out);
}

static dhow_status add_positions(dhowi_lowering *b, const embedding_inputs *in, int64_t steps,
                                 int32_t *sum) {
    const table_inputs *t = &in->positions;
    const dhowi_tensor_desc table = *dhowi_desc_at(b, b->in[t->rows]);
    int32_t rows;
    if (dhowi_given(b, in->places)) {
        DHOWI_TRY(look_up(b, t, b->in[in->places], &rows));
    } else {
        if (steps > table.shape[0])
            DHOWI_REFUSE("%" PRId64 " steps, %s has %" PRId64 " rows", steps, t->name,
                         table.shape[0]);
        DHOWI_TRY(dhowi_narrow(b, b->in[t->rows], 0, 0, steps, 1, &rows));
        DHOWI_TRY(numbers_of(b, t, rows, &rows));
    }
    return add_to(b, *sum, rows, sum);
}

/* The number of steps that the mask holds, of each sequence; 0 without one. */
static dhow_status mask_index(dhowi_lowering *b, uint32_t mask, int64_t batch, int32_t *out) {
    static const bool rows[] = {false, true};
    const dhowi_tensor_desc none = {.dtype = DHOW_I32, .rank = 1, .shape = {batch}};
    if (!dhowi_given(b, mask)) return dhowi_filled(b, &none, 0, out);
    DHOWI_TRY(dhowi_reduce(b, DHOWI_SUM, b->in[mask], rows, out));
    return dhowi_reshape(b, *out, 1, &batch, out);
}

static dhow_status embed_norm(dhowi_lowering *b, const embedding_inputs *in) {
    DHOWI_TRY(check_embeddings(b, in));
    const dhowi_tensor_desc ids = *dhowi_desc_at(b, b->in[IDS]);
    int32_t sum, segments, gamma, beta;
    DHOWI_TRY(look_up(b, &in->words, b->in[IDS], &sum));
    DHOWI_TRY(add_positions(b, in, ids.shape[1], &sum));
    if (dhowi_given(b, SEGMENTS)) {
        DHOWI_TRY(look_up(b, &in->segments, b->in[SEGMENTS], &segments));
        DHOWI_TRY(add_to(b, sum, segments, &sum));
    }
    b->out[2] = sum;
    DHOWI_TRY(mask_index(b, in->mask, ids.shape[0], &b->out[1]));
    DHOWI_TRY(numbers_of(b, &in->gamma, b->in[in->gamma.rows], &gamma));
    DHOWI_TRY(numbers_of(b, &in->beta, b->in[in->beta.rows], &beta));
    return dhowi_norm(b, sum, gamma, beta, (double)dhowi_attr_float(b, "epsilon", k_epsilon), true,
                      &b->out[0]);
}

dhow_status dhowi_lower_ms_embed_norm(dhowi_lowering *b) {
    static const embedding_inputs in = {.words = {"word_embedding", 2, MISSING, MISSING},
                                        .positions = {"position_embedding", 3, MISSING, MISSING},
                                        .segments = {"segment_embedding", 4, MISSING, MISSING},
                                        .gamma = {"gamma", 5, MISSING, MISSING},
                                        .beta = {"beta", 6, MISSING, MISSING},
                                        .mask = 7,
                                        .places = 8};
    return embed_norm(b, &in);
}

/* Of bytes are the tables, gamma and beta. */
dhow_status dhowi_lower_ms_quantised_embed_norm(dhowi_lowering *b) {
    static const embedding_inputs in = {.words = {"word_embedding", 2, 8, 13},
                                        .positions = {"position_embedding", 3, 9, 14},
                                        .segments = {"segment_embedding", 4, 10, 15},
                                        .gamma = {"gamma", 5, 11, 16},
                                        .beta = {"beta", 6, 12, 17},
                                        .mask = 7,
                                        .places = MISSING};
    return embed_norm(b, &in);
}
