/* SPDX-License-Identifier: Apache-2.0
 *
 * How quads of weights are added up: see byte_quads.h.
 */
#include "byte_lanes.h"
#include "byte_quads.h"

enum {
    HALF = BYTE_QUADS_HALF,
    QUAD = BYTE_QUADS_SIZE,
    WAY = BYTE_QUADS_WAY,
    FLIPS = BYTE_QUADS_FLIPS,
    TURNS = BYTE_QUADS_TURNS
};

#define EIGHT(x) \
    { x, x, x, x, x, x, x, x }
const uint32_t byte_quads_flips[FLIPS][8] = {EIGHT(0), EIGHT(0xff00), EIGHT(0xff000000),
                                             EIGHT(0xff00ff00)};

#define FOURS(b, c, d) \
    0, b, c, d, 4, 4 + b, 4 + c, 4 + d, 8, 8 + b, 8 + c, 8 + d, 12, 12 + b, 12 + c, 12 + d
const uint8_t byte_quads_turns[TURNS][32] = {{FOURS(1, 2, 3), FOURS(1, 2, 3)},
                                             {FOURS(2, 1, 3), FOURS(2, 1, 3)},
                                             {FOURS(3, 1, 2), FOURS(3, 1, 2)}};

/* Sums of pairs of a quad's weights, of the positive and of the negative ones. */
typedef struct reach {
    __m256i above[2], below[2];
} reach;

static reach reach_of(const int8_t *w) {
    const __m256i ones = _mm256_set1_epi8(1), zero = _mm256_setzero_si256();
    reach r;
    for (int h = 0; h < 2; h++) {
        const __m256i v = words_at(w + h * HALF);
        r.above[h] = _mm256_maddubs_epi16(ones, _mm256_max_epi8(v, zero));
        r.below[h] = _mm256_maddubs_epi16(ones, _mm256_min_epi8(v, zero));
    }
    return r;
}

static reach both(const reach *a, const reach *b) {
    reach r;
    for (int h = 0; h < 2; h++) {
        r.above[h] = _mm256_add_epi16(a->above[h], b->above[h]);
        r.below[h] = _mm256_add_epi16(a->below[h], b->below[h]);
    }
    return r;
}

/* Whether products by any u8 stay within 16 bits: 255 * 128 = 32640. */
static int is_safe(const reach *r) {
    const __m256i most = _mm256_set1_epi16(128), least = _mm256_set1_epi16(-128);
    __m256i out = _mm256_setzero_si256();
    for (int h = 0; h < 2; h++) {
        out = _mm256_or_si256(out, _mm256_cmpgt_epi16(r->above[h], most));
        out = _mm256_or_si256(out, _mm256_cmpgt_epi16(least, r->below[h]));
    }
    return _mm256_testz_si256(out, out);
}

/* A quad's weights turned and flipped; whether they can be so. */
static int go_that_way(const int8_t *w, uint32_t way, int8_t *to) {
    const __m256i flips = words_at(byte_quads_flips[way % FLIPS]), least = _mm256_set1_epi8(-128);
    __m256i none = _mm256_setzero_si256();
    for (int h = 0; h < 2; h++) {
        const __m256i v =
            _mm256_shuffle_epi8(words_at(w + h * HALF), words_at(byte_quads_turns[way / FLIPS]));
        none = _mm256_or_si256(none, _mm256_and_si256(_mm256_cmpeq_epi8(v, least), flips));
        _mm256_storeu_si256((__m256i *)(void *)(to + h * HALF),
                            _mm256_sub_epi8(_mm256_xor_si256(v, flips), flips)); /* -v */
    }
    return _mm256_testz_si256(none, none);
}

enum { NO_WAY = FLIPS * TURNS };

static int kind_of(uint32_t way) {
    return way == 0       ? BYTE_QUADS_ONES
           : way < FLIPS  ? BYTE_QUADS_FLIPPED
           : way < NO_WAY ? BYTE_QUADS_TURNED
                          : BYTE_QUADS_WIDE;
}

/* The first way in which a quad's weights are safe; they go it. */
static __attribute__((cold)) uint32_t find_way(int8_t *w) {
    int8_t there[QUAD];
    for (uint32_t way = 0; way < NO_WAY; way++) {
        if (!go_that_way(w, way, there)) continue;
        const reach its = reach_of(there);
        if (!is_safe(&its)) continue;
        memcpy(w, there, QUAD);
        return way;
    }
    return NO_WAY;
}

static void swap(int32_t *a, int32_t *b) {
    const int32_t was = *a;
    *a = *b;
    *b = was;
}

/* Puts those of so many quads, safe ones, that are so by twos before the others: how many. */
static int32_t pair_up(const int8_t *w, int32_t *order, int64_t end) {
    enum { LOOKS = 8 };
    int64_t at = 0;
    while (at < end) {
        const reach own = reach_of(w + QUAD * order[at]);
        int64_t other = at + 1;
        for (; other < end && other <= at + LOOKS; other++) {
            const reach its = reach_of(w + QUAD * order[other]), sum = both(&own, &its);
            if (is_safe(&sum)) break;
        }
        if (other < end && other <= at + LOOKS) {
            swap(&order[at + 1], &order[other]);
            at += 2;
        } else {
            swap(&order[at], &order[--end]);
        }
    }
    return (int32_t)at;
}

static void sum_up(const int8_t *w, int64_t quads, __m256i sums[2]) {
    const __m256i ones = _mm256_set1_epi8(1);
    for (int h = 0; h < 2; h++) {
        sums[h] = _mm256_setzero_si256();
        for (int64_t q = 0; q < quads; q++)
            sums[h] =
                add_pairs(sums[h], _mm256_maddubs_epi16(ones, words_at(w + QUAD * q + h * HALF)));
    }
}

__attribute__((cold)) void byte_quads_order_v3(byte_quads_panel *panel, int64_t quads) {
    int8_t *w = (int8_t *)panel + byte_quads_before(quads);
    int32_t *order = panel->order;
    __m256i sums[2], other[2];
    sum_up(w, quads, sums);
    for (int64_t q = 0; q < quads; q++) order[q] = (int32_t)(find_way(w + QUAD * q) << WAY | q);
    sum_up(w, quads, other);
    for (int h = 0; h < 2; h++) /* those that are flipped were taken off twice */
        other[h] = _mm256_mullo_epi32(_mm256_srai_epi32(_mm256_sub_epi32(sums[h], other[h]), 1),
                                      _mm256_set1_epi32(255));
    memcpy(panel->sums, sums, sizeof sums);
    memcpy(panel->start, other, sizeof other);
    memset(panel->counts, 0, sizeof panel->counts);
    int64_t at = 0;
    for (int kind = BYTE_QUADS_ONES; kind < BYTE_QUADS_KINDS; kind++) {
        for (int64_t q = at; q < quads; q++) {
            if (kind_of((uint32_t)order[q] >> WAY) != kind) continue;
            swap(&order[at++], &order[q]);
            panel->counts[kind]++;
        }
    }
    panel->counts[BYTE_QUADS_TWOS] = pair_up(w, order, panel->counts[BYTE_QUADS_ONES]);
    panel->counts[BYTE_QUADS_ONES] -= panel->counts[BYTE_QUADS_TWOS];
}
