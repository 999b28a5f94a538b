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

enum { IDS, SEGMENTS, WORDS, POSITIONS, SEGMENT_WORDS, GAMMA, BETA, MASK, PLACES };

static dhow_status check_embeddings(const dhowi_lowering *b) {
    static const uint32_t wanted[] = {WORDS, POSITIONS, GAMMA, BETA},
                          tables[] = {WORDS, POSITIONS, SEGMENT_WORDS},
                          numbers[] = {SEGMENTS, MASK};
    for (size_t i = 0; i < 4; i++)
        if (!dhowi_given(b, wanted[i])) DHOWI_REFUSE("its input %u is missing", wanted[i]);
    const dhowi_tensor_desc *ids = dhowi_desc_at(b, b->in[IDS]),
                            *words = dhowi_desc_at(b, b->in[WORDS]);
    if (ids->rank != 2) DHOWI_REFUSE("input_ids has %d dimensions", ids->rank);
    if (dhowi_given(b, SEGMENTS) != dhowi_given(b, SEGMENT_WORDS))
        DHOWI_REFUSE("segment_ids and segment_embedding are given together or not at all");
    for (size_t i = 0; i < 3; i++) {
        if (!dhowi_given(b, tables[i])) continue;
        const dhowi_tensor_desc *t = dhowi_desc_at(b, b->in[tables[i]]);
        if (t->rank != 2 || words->rank != 2 || t->shape[1] != words->shape[1])
            DHOWI_REFUSE("input %u is no table of rows as long as those of word_embedding",
                         tables[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        if (!dhowi_given(b, numbers[i])) continue;
        const dhowi_tensor_desc *n = dhowi_desc_at(b, b->in[numbers[i]]);
        if (!dhowi_shape_equal(n->rank, n->shape, 2, ids->shape))
            DHOWI_REFUSE("input %u does not have a number for each of input_ids", numbers[i]);
    }
    DHOWI_TRY(check_rows(b, GAMMA, words->shape[1]));
    return check_rows(b, BETA, words->shape[1]);
}

static dhow_status add_positions(dhowi_lowering *b, int64_t steps, int32_t *sum) {
    const dhowi_tensor_desc table = *dhowi_desc_at(b, b->in[POSITIONS]);
    int32_t rows;
    if (dhowi_given(b, PLACES)) {
        DHOWI_TRY(dhowi_gather_along(b, b->in[POSITIONS], 0, b->in[PLACES], &rows));
    } else {
        if (steps > table.shape[0])
            DHOWI_REFUSE("%" PRId64 " steps, position_embedding has %" PRId64 " rows", steps,
                         table.shape[0]);
        DHOWI_TRY(dhowi_narrow(b, b->in[POSITIONS], 0, 0, steps, 1, &rows));
    }
    return add_to(b, *sum, rows, sum);
}

/* The number of steps that the mask holds, of each sequence; 0 without one. */
static dhow_status mask_index(dhowi_lowering *b, int64_t batch, int32_t *out) {
    static const bool rows[] = {false, true};
    const dhowi_tensor_desc none = {.dtype = DHOW_I32, .rank = 1, .shape = {batch}};
    if (!dhowi_given(b, MASK)) return dhowi_filled(b, &none, 0, out);
    DHOWI_TRY(dhowi_reduce(b, DHOWI_SUM, b->in[MASK], rows, out));
    return dhowi_reshape(b, *out, 1, &batch, out);
}

dhow_status dhowi_lower_ms_embed_norm(dhowi_lowering *b) {
    DHOWI_TRY(check_embeddings(b));
    const dhowi_tensor_desc ids = *dhowi_desc_at(b, b->in[IDS]);
    int32_t sum, segments;
    DHOWI_TRY(dhowi_gather_along(b, b->in[WORDS], 0, b->in[IDS], &sum));
    DHOWI_TRY(add_positions(b, ids.shape[1], &sum));
    if (dhowi_given(b, SEGMENTS)) {
        DHOWI_TRY(dhowi_gather_along(b, b->in[SEGMENT_WORDS], 0, b->in[SEGMENTS], &segments));
        DHOWI_TRY(add_to(b, sum, segments, &sum));
    }
    b->out[2] = sum;
    DHOWI_TRY(mask_index(b, ids.shape[0], &b->out[1]));
    return dhowi_norm(b, sum, b->in[GAMMA], b->in[BETA],
                      (double)dhowi_attr_float(b, "epsilon", k_epsilon), true, &b->out[0]);
}
