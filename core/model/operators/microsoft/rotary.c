/* SPDX-License-Identifier: Apache-2.0
 *
 * RotaryEmbedding and MRotaryEmbedding of com.microsoft: positions stand before the caches, may be
 * one offset, and may be those in time, height and width.
 */
#include <inttypes.h>

#include "model/operators/attention/attention.h"
#include "model/operators/microsoft/microsoft.h"

enum { INPUT, POSITIONS, COSINES, SINES };

/* x as [batch, steps, heads, features]; heads are as wide as the caches where nothing says more. */
static dhow_status by_heads(dhowi_lowering *b, int64_t half, int32_t *x) {
    static const int32_t order[] = {0, 2, 1, 3};
    const dhowi_tensor_desc own = *dhowi_desc_at(b, *x);
    const int64_t told = dhowi_attr_int(b, "num_heads", 0),
                  part = dhowi_attr_int(b, "rotary_embedding_dim", 0);
    int64_t heads = told;
    if (own.rank != 3 && own.rank != 4) DHOWI_REFUSE("input has %d dimensions", own.rank);
    if (own.rank == 4) DHOWI_TRY(dhowi_permute(b, *x, order, x));
    if (own.rank == 3 && told == 0 && part == 0 && half > 0) heads = own.shape[2] / (2 * half);
    if (own.rank == 3) DHOWI_TRY(dhowi_by_heads(b, "num_heads", heads, x));
    const int64_t features = dhowi_desc_at(b, *x)->shape[3];
    if (half < 1 || 2 * half != (part != 0 ? part : features) || 2 * half > features)
        DHOWI_REFUSE("the caches turn %" PRId64 " features, rotary_embedding_dim is %" PRId64
                     ", heads have %" PRId64,
                     2 * half, part, features);
    return DHOW_OK;
}

/* Rows of a cache by position: [batch or 1, steps, 1, half]. */
static dhow_status angles(dhowi_lowering *b, uint32_t cache, int32_t places, int32_t *out) {
    const dhowi_tensor_desc p = *dhowi_desc_at(b, places);
    const int64_t shape[] = {p.shape[0], p.shape[1], 1, dhowi_desc_at(b, b->in[cache])->shape[1]};
    DHOWI_TRY(dhowi_gather_along(b, b->in[cache], 0, places, out));
    return dhowi_reshape(b, *out, 4, shape, out);
}

/* [batch, steps], or [1, steps] from one offset on. */
static dhow_status places_of(dhowi_lowering *b, int64_t batch, int64_t steps, int32_t *out) {
    const dhowi_tensor_desc p = *dhowi_desc_at(b, b->in[POSITIONS]);
    const int64_t row[] = {1, steps}, one[] = {1, 1};
    char s[160];
    int32_t first;
    DHOWI_TRY(dhowi_as_index(b, b->in[POSITIONS], &first));
    *out = first;
    if (p.rank == 2 && p.shape[0] == batch && p.shape[1] == steps) return DHOW_OK;
    if (p.rank > 1 || dhowi_count_of(&p) != 1)
        DHOWI_REFUSE("position_ids are %s for %" PRId64 " sequences of %" PRId64,
                     dhowi_desc_text(&p, s, sizeof s), batch, steps);
    DHOWI_TRY(dhowi_numbers(b, DHOW_I64, 0, 1, steps, out));
    DHOWI_TRY(dhowi_reshape(b, *out, 2, row, out));
    DHOWI_TRY(dhowi_reshape(b, first, 2, one, &first));
    return dhowi_map_two(b, DHOWI_MAP_ADD, *out, first, out);
}

static dhow_status check_caches(const dhowi_lowering *b) {
    const dhowi_tensor_desc *x = dhowi_desc_at(b, b->in[INPUT]);
    for (uint32_t i = COSINES; i <= SINES; i++) {
        const dhowi_tensor_desc *c = dhowi_desc_at(b, b->in[i]);
        char s[160];
        if (c->rank != 2 || c->dtype != x->dtype ||
            c->shape[1] != dhowi_desc_at(b, b->in[COSINES])->shape[1])
            DHOWI_REFUSE("input %u is %s, no table of %s", i, dhowi_desc_text(c, s, sizeof s),
                         dhow_dtype_name(x->dtype));
    }
    const dhowi_tensor_desc *c = dhowi_desc_at(b, b->in[COSINES]),
                            *s = dhowi_desc_at(b, b->in[SINES]);
    if (c->shape[0] != s->shape[0]) {
        char of_c[160], of_s[160];
        DHOWI_REFUSE("input %u is %s, input %u is %s", SINES, dhowi_desc_text(s, of_s, sizeof of_s),
                     COSINES, dhowi_desc_text(c, of_c, sizeof of_c));
    }
    if (dhowi_attr_int(b, "is_packed_batching", 0) != 0)
        return dhowi_fail(DHOW_UNSUPPORTED, "is_packed_batching");
    if (dhowi_attr_float(b, "scale", 1) != 1) return dhowi_fail(DHOW_UNSUPPORTED, "a scale");
    return DHOW_OK;
}

static dhow_status turn(dhowi_lowering *b, int32_t x, int32_t cosine, int32_t sine) {
    static const int32_t order[] = {0, 2, 1, 3};
    const dhowi_tensor_desc own = *dhowi_desc_at(b, b->in[INPUT]);
    bool interleaved;
    DHOWI_TRY(dhowi_attr_flag(b, "interleaved", false, &interleaved));
    DHOWI_TRY(dhowi_turn(b, x, cosine, sine, interleaved, &b->out[0]));
    if (own.rank == 4) return dhowi_permute(b, b->out[0], order, &b->out[0]);
    return dhowi_reshape(b, b->out[0], 3, own.shape, &b->out[0]);
}

dhow_status dhowi_lower_ms_rotary(dhowi_lowering *b) {
    int32_t x = b->in[INPUT], places, cosine, sine;
    DHOWI_TRY(check_caches(b));
    DHOWI_TRY(by_heads(b, dhowi_desc_at(b, b->in[COSINES])->shape[1], &x));
    const dhowi_tensor_desc apart = *dhowi_desc_at(b, x);
    DHOWI_TRY(places_of(b, apart.shape[0], apart.shape[1], &places));
    DHOWI_TRY(angles(b, COSINES, places, &cosine));
    DHOWI_TRY(angles(b, SINES, places, &sine));
    return turn(b, x, cosine, sine);
}

/* ---- MRotaryEmbedding: positions in time, height and width, and a part of the features for each
 * ---- */

enum { STREAMS = 3, MOST_HALF = 4096 };

/* Which of a row's angles in three streams, [3 half], the features take. */
static dhow_status streams_of(dhowi_lowering *b, int64_t half, int64_t from[MOST_HALF]) {
    uint32_t count;
    const int64_t *sections = dhowi_attr_ints(b, "mrope_section", &count);
    const int64_t layout = dhowi_attr_int(b, "mrope_layout", 0);
    if (layout != 0 && layout != 1) DHOWI_REFUSE("mrope_layout is %" PRId64, layout);
    if (half > MOST_HALF) DHOWI_REFUSE("caches of %" PRId64 " columns", half);
    if (sections == NULL || count != STREAMS || sections[0] < 0 || sections[1] < 0 ||
        sections[2] < 0 || sections[0] > half || sections[1] > half || sections[2] > half ||
        sections[0] + sections[1] + sections[2] != half)
        DHOWI_REFUSE("mrope_section are not three numbers that come to %" PRId64, half);
    for (int64_t f = 0; f < half; f++) {
        const int64_t turn = f % STREAMS, next = sections[0] + sections[1];
        const int64_t stream = layout == 1       ? (f < STREAMS * sections[turn] ? turn : 0)
                               : f < sections[0] ? 0
                               : f < next        ? 1
                                                 : 2;
        from[f] = stream * half + f;
    }
    return DHOW_OK;
}

/* places[3, batch, steps] of a cache, as [batch, steps, 1, half] */
static dhow_status angles_of_streams(dhowi_lowering *b, uint32_t cache, int32_t places,
                                     const int64_t *from, int32_t *out) {
    static const int32_t streams_side_by_side[] = {1, 2, 0, 3};
    const dhowi_tensor_desc p = *dhowi_desc_at(b, places);
    const int64_t half = dhowi_desc_at(b, b->in[cache])->shape[1];
    const int64_t rows[] = {p.shape[1], p.shape[2], STREAMS * half},
                  shape[] = {p.shape[1], p.shape[2], 1, half};
    DHOWI_TRY(dhowi_gather_along(b, b->in[cache], 0, places, out));
    DHOWI_TRY(dhowi_permute(b, *out, streams_side_by_side, out));
    DHOWI_TRY(dhowi_reshape(b, *out, 3, rows, out));
    DHOWI_TRY(dhowi_pick(b, *out, 2, from, half, out));
    return dhowi_reshape(b, *out, 4, shape, out);
}

dhow_status dhowi_lower_ms_rotary_3(dhowi_lowering *b) {
    const dhowi_tensor_desc p = *dhowi_desc_at(b, b->in[POSITIONS]);
    int64_t from[MOST_HALF];
    int32_t x = b->in[INPUT], places, cosine, sine;
    char s[160];
    DHOWI_TRY(check_caches(b));
    const int64_t half = dhowi_desc_at(b, b->in[COSINES])->shape[1];
    DHOWI_TRY(streams_of(b, half, from));
    DHOWI_TRY(by_heads(b, half, &x));
    const dhowi_tensor_desc apart = *dhowi_desc_at(b, x);
    if (p.rank != 3 || p.shape[0] != STREAMS || p.shape[1] != apart.shape[0] ||
        p.shape[2] != apart.shape[1])
        DHOWI_REFUSE("position_ids are %s for %" PRId64 " sequences of %" PRId64,
                     dhowi_desc_text(&p, s, sizeof s), apart.shape[0], apart.shape[1]);
    DHOWI_TRY(dhowi_as_index(b, b->in[POSITIONS], &places));
    DHOWI_TRY(angles_of_streams(b, COSINES, places, from, &cosine));
    DHOWI_TRY(angles_of_streams(b, SINES, places, from, &sine));
    return turn(b, x, cosine, sine);
}
