/* SPDX-License-Identifier: Apache-2.0
 *
 * See byte_sums.h. LANES is given by the build.
 */
#include "byte_sums.h"

#include <string.h>

#include "vectors.h"

enum { COLUMNS = BYTE_SUMS_COLUMNS, ROWS = BYTE_SUMS_ROWS };

INLINE void widen(const uint8_t *from, int is_signed, __m256i zeros, int16_t *to) {
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)from);
    const __m256i wide = is_signed ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_sub_epi16(wide, zeros));
}

/* The last ones with some of those before. */
void widen_bytes_v3(const uint8_t *from, int is_signed, int32_t zero, int64_t count, int16_t *to) {
    const __m256i zeros = _mm256_set1_epi16((int16_t)zero);
    if (count >= 16) {
        for (int64_t i = 0; i < count - 16; i += 16) widen(from + i, is_signed, zeros, to + i);
        widen(from + count - 16, is_signed, zeros, to + count - 16);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        to[i] = (int16_t)((is_signed ? (int8_t)from[i] : from[i]) - zero);
}

/* ---- what is made of the sums ---- */

/* 16 bytes or fewer as floats. */
INLINE void load_bytes(const char *from, int is_signed, int64_t count, vec to[2]) {
    char bytes[COLUMNS] = {0};
    memcpy(bytes, from, (size_t)(count < COLUMNS ? count : COLUMNS));
    for (int h = 0; h < 2; h++) {
        const __m128i half = _mm_loadl_epi64((const __m128i *)(const void *)(bytes + h * LANES));
        to[h] = (vec)_mm256_cvtepi32_ps(is_signed ? _mm256_cvtepi8_epi32(half)
                                                  : _mm256_cvtepu8_epi32(half));
    }
}

/* To the nearest, the even one of two. */
INLINE __m128i bytes_of(const vec values[2], int is_signed) {
    const float low = is_signed ? -128.0f : 0.0f, high = is_signed ? 127.0f : 255.0f;
    __m256i whole[2];
    UNROLL for (int h = 0; h < 2; h++) whole[h] =
        _mm256_cvtps_epi32((__m256)at_most(at_least(values[h], low), high));
    const __m256i words =
        _mm256_permute4x64_epi64(_mm256_packs_epi32(whole[0], whole[1]), 0xd8); /* in order */
    const __m128i a = _mm256_castsi256_si128(words), b = _mm256_extracti128_si256(words, 1);
    return is_signed ? _mm_packs_epi16(a, b) : _mm_packus_epi16(a, b);
}

INLINE void load_row(const float *from, int64_t count, vec to[2]) {
    for (int h = 0; h < 2; h++) to[h] = load_part(from + h * LANES, count - h * LANES);
}

static void load_residual(const byte_sums_job *j, int64_t at, int64_t count, vec to[2]) {
    if (j->residual_dtype == DHOW_F32) {
        load_row((const float *)(const void *)j->residual + at, count, to);
    } else {
        load_bytes(j->residual + at, j->residual_dtype == DHOW_I8, count, to);
    }
}

#define EACH(changed)                                                                     \
    UNROLL for (int r = 0; r < rows; r++) { UNROLL for (int h = 0; h < 2; h++) changed; } \
    break

/* An operation of the tail, on results k.. of some rows, the first of which is at `at`. */
INLINE void end_with(const byte_sums_job *j, const dhow_conv_tail *t, int64_t at, const int rows,
                     int64_t k, int64_t count, vec v[ROWS][2]) {
    const cpu_activation activation = {t->kind, t->alpha, t->beta};
    vec row[2] = {{0}}, aside[ROWS][2]; /* in memory, which v is not */
    if (t->kind == DHOW_TAIL_MULTIPLY || t->kind == DHOW_TAIL_ADD)
        load_row(j->bias + t->row * j->table + k, count, row);
    switch (t->kind) {
        case DHOW_TAIL_LINEAR:
            EACH(v[r][h] = v[r][h] * t->alpha + t->beta);
        case DHOW_TAIL_ROUND:
            EACH(v[r][h] = (vec)_mm256_round_ps((__m256)v[r][h],
                                                _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
        case DHOW_TAIL_RESIDUAL:
            for (int r = 0; r < rows; r++) load_residual(j, at + r * j->stride, count, aside[r]);
            EACH(v[r][h] += aside[r][h]);
        case DHOW_TAIL_MULTIPLY:
            EACH(v[r][h] *= row[h]);
        case DHOW_TAIL_ADD:
            EACH(v[r][h] += row[h]);
        case DHOW_ACTIVATION_CLIP:
            EACH(v[r][h] = at_most(at_least(v[r][h], t->alpha), t->beta));
        case DHOW_ACTIVATION_RELU:
            EACH(v[r][h] = at_least(v[r][h], 0.0f));
        default:
            UNROLL for (int r = 0; r < rows; r++) {
                UNROLL for (int h = 0; h < 2; h++) aside[r][h] = v[r][h];
            }
            for (int i = 0; i < 2 * rows; i++)
                aside[i / 2][i % 2] = activate_slowly(aside[i / 2][i % 2], &activation);
            EACH(v[r][h] = aside[r][h]);
    }
}

INLINE void store_rows(float *to, int64_t stride, vec v[ROWS][2], const int rows, int64_t count) {
    for (int r = 0; r < rows; r++, to += stride)
        for (int h = 0; h < 2; h++) store_part(to + h * LANES, v[r][h], count - h * LANES);
}

/* So many rows, whose results stay in registers. */
INLINE void end_some(const byte_sums_job *j, __m256i sums[ROWS][2], int64_t row, const int rows,
                     int64_t k, int64_t count) {
    const int64_t first = row * j->stride + k;
    float *to = (float *)(void *)j->y + first;
    vec v[ROWS][2], shift[2], scale[2];
    if (!j->bias) { /* as they are */
        store_rows(to, j->stride, (vec(*)[2])sums, rows, count);
        return;
    }
    load_row(j->bias + k, count, shift);
    load_row(j->bias + j->table + k, count, scale);
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int h = 0; h < 2; h++) v[r][h] =
            ((vec)_mm256_cvtepi32_ps(sums[r][h]) + shift[h]) * scale[h];
    }
    for (uint32_t i = 0; i < j->tail_count; i++) end_with(j, &j->tail[i], first, rows, k, count, v);
    if (j->dst_dtype == DHOW_F32) {
        vec aside[ROWS][2];
        UNROLL for (int r = 0; r < rows; r++) {
            UNROLL for (int h = 0; h < 2; h++) aside[r][h] = v[r][h];
        }
        store_rows(to, j->stride, aside, rows, count);
        return;
    }
    __m128i bytes[ROWS];
    const int is_signed = j->dst_dtype == DHOW_I8;
    UNROLL for (int r = 0; r < rows; r++) bytes[r] = bytes_of(v[r], is_signed);
    char *to_bytes = j->y + first;
    for (int r = 0; r < rows; r++, to_bytes += j->stride) {
        if (count >= COLUMNS) {
            memcpy(to_bytes, &bytes[r], COLUMNS);
        } else {
            memcpy(to_bytes, &bytes[r], (size_t)count);
        }
    }
}

static __attribute__((noinline)) void end_rows(const byte_sums_job *j, __m256i sums[ROWS][2],
                                               int64_t row, int rows, int64_t k, int64_t count) {
    if (rows == ROWS) {
        end_some(j, sums, row, ROWS, k, count);
    } else {
        for (int r = 0; r < rows; r++) end_some(j, sums + r, row + r, 1, k, count);
    }
}

/* ---- sums ---- */

INLINE __m256i words_at(const void *p) { return _mm256_loadu_si256(p); }

/* The same in all lanes. */
INLINE __m256i four_bytes(const void *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm256_set1_epi32(four);
}

/* Sums stay in registers until then, as no other function has their address. */
INLINE void copy_sums(__m256i from[ROWS][2], const int rows, __m256i to[ROWS][2]) {
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int h = 0; h < 2; h++) to[r][h] = from[r][h];
    }
}

INLINE void add_tile(const byte_sums_job *j, int64_t row, const int rows, int64_t k,
                     int64_t count) {
    const int64_t length = 2 * j->pairs;
    const int16_t *x = (const int16_t *)j->rows + row * length,
                  *packed = (const int16_t *)j->packed + k * length;
    __m256i sums[ROWS][2], in_memory[ROWS][2];
    UNROLL for (int r = 0; r < rows; r++) sums[r][0] = sums[r][1] = _mm256_setzero_si256();
    for (int64_t p = 0; p < length; p += 2, packed += 2 * COLUMNS) {
        const __m256i a = words_at(packed), b = words_at(packed + COLUMNS);
        UNROLL for (int r = 0; r < rows; r++) {
            const __m256i pair = four_bytes(x + r * length + p);
            sums[r][0] = _mm256_add_epi32(sums[r][0], _mm256_madd_epi16(pair, a));
            sums[r][1] = _mm256_add_epi32(sums[r][1], _mm256_madd_epi16(pair, b));
        }
    }
    copy_sums(sums, rows, in_memory);
    end_rows(j, in_memory, row, rows, k, count);
}

void byte_sums_v3(const byte_sums_job *j, int64_t first, int64_t end) {
    for (int64_t k = first; k < end; k += COLUMNS) {
        const int64_t count = end - k < COLUMNS ? end - k : COLUMNS;
        int64_t row = 0;
        for (; row + ROWS <= j->count; row += ROWS) add_tile(j, row, ROWS, k, count);
        for (; row < j->count; row++) add_tile(j, row, 1, k, count);
    }
}

/* ---- sums of quads ---- */

enum { HALF = 4 * LANES, QUAD = 2 * HALF /* bytes of a quad's weights, and of eight results' */ };

/* What an instruction makes of a and of 32 bytes that it reads itself: the sums and what is
 * multiplied take all registers. */
#define FROM_MEMORY(name, instruction)                                 \
    INLINE __m256i name(__m256i a, const void *from) {                 \
        __m256i to;                                                    \
        __asm__(instruction " %2, %1, %0"                              \
                : "=x"(to)                                             \
                : "x"(a), "m"(*(const char(*)[sizeof(__m256i)])from)); \
        return to;                                                     \
    }
FROM_MEMORY(products, "vpmaddubsw")
FROM_MEMORY(flipped, "vpxor")

INLINE __m256i added(__m256i sums, __m256i words) {
    return _mm256_add_epi32(sums, _mm256_madd_epi16(words, _mm256_set1_epi16(1)));
}

/* Two quads' products are added in 16 bits. */
INLINE void add_twos(const uint8_t *a, const uint8_t *b, int64_t length, const int8_t *wa,
                     const int8_t *wb, const int rows, __m256i sums[ROWS][2]) {
    UNROLL for (int r = 0; r < rows; r++) {
        const __m256i p = four_bytes(a + r * length), q = four_bytes(b + r * length);
        UNROLL for (int h = 0; h < 2; h++) sums[r][h] = added(
            sums[r][h], _mm256_add_epi16(products(p, wa + h * HALF), products(q, wb + h * HALF)));
    }
}

/* Ways to flip and to turn a quad: 4 turn + flip. */
enum { FLIPS = 4, TURNS = 3, WAY = BYTE_QUADS_WAY };

/* The second, the fourth, or both of each four bytes. */
static const void *flips_of(uint32_t way) {
#define EIGHT(x) \
    { x, x, x, x, x, x, x, x }
    static const uint32_t flips[FLIPS][LANES] = {EIGHT(0), EIGHT(0xff00), EIGHT(0xff000000),
                                                 EIGHT(0xff00ff00)};
    return flips[way % FLIPS];
}

/* The third byte of each four beside the first one, or the fourth. */
static const void *turns_of(uint32_t way) {
#define FOURS(b, c, d) \
    0, b, c, d, 4, 4 + b, 4 + c, 4 + d, 8, 8 + b, 8 + c, 8 + d, 12, 12 + b, 12 + c, 12 + d
    static const uint8_t turns[TURNS][32] = {{FOURS(1, 2, 3), FOURS(1, 2, 3)},
                                             {FOURS(2, 1, 3), FOURS(2, 1, 3)},
                                             {FOURS(3, 1, 2), FOURS(3, 1, 2)}};
    return turns[way / FLIPS];
}

INLINE void add_one(const uint8_t *a, int64_t length, const int8_t *w, const int kind, uint32_t way,
                    const int rows, __m256i sums[ROWS][2]) {
    const void *flips = flips_of(way);
    const __m256i turn = words_at(turns_of(way));
    UNROLL for (int r = 0; r < rows; r++) {
        __m256i p = four_bytes(a + r * length);
        if (kind == BYTE_QUADS_TURNED) p = flipped(_mm256_shuffle_epi8(p, turn), flips);
        UNROLL for (int h = 0; h < 2; h++) sums[r][h] =
            added(sums[r][h], products(p, w + h * HALF));
    }
}

/* Even and odd terms as 16 bits. */
INLINE void add_wide(const uint8_t *a, int64_t length, const int8_t *w, const int rows,
                     __m256i sums[ROWS][2]) {
    UNROLL for (int h = 0; h < 2; h++) {
        const __m256i all = words_at(w + h * HALF), odd = _mm256_srai_epi16(all, 8),
                      even = _mm256_srai_epi16(_mm256_slli_epi16(all, 8), 8);
        UNROLL for (int r = 0; r < rows; r++) {
            const __m256i p = four_bytes(a + r * length),
                          low = _mm256_and_si256(p, _mm256_set1_epi16(255));
            sums[r][h] = _mm256_add_epi32(sums[r][h], _mm256_madd_epi16(low, even));
            sums[r][h] =
                _mm256_add_epi32(sums[r][h], _mm256_madd_epi16(_mm256_srli_epi16(p, 8), odd));
        }
    }
}

/* Rows of quads, and a panel. */
typedef struct quads_at {
    const uint8_t *x;
    int64_t length;
    const byte_quads_panel *panel;
    const int8_t *w;
} quads_at;

/* Quads of a kind, from `order` on. */
INLINE const int32_t *add_kind(const quads_at *a, const int kind, const int32_t *order,
                               const int rows, __m256i sums[ROWS][2]) {
    for (const int32_t *end = order + a->panel->counts[kind]; order < end; order++) {
        const uint32_t way = (uint32_t)*order >> WAY;
        const int64_t q = *order & ((1 << WAY) - 1);
        if (kind == BYTE_QUADS_WIDE)
            add_wide(a->x + 4 * q, a->length, a->w + QUAD * q, rows, sums);
        else
            add_one(a->x + 4 * q, a->length, a->w + QUAD * q, kind, way, rows, sums);
    }
    return order;
}

/* By itself, as it has use for all registers. */
static __attribute__((noinline)) void add_wide_tile(const quads_at *a, const int32_t *order,
                                                    __m256i in_memory[ROWS][2]) {
    __m256i sums[ROWS][2];
    copy_sums(in_memory, ROWS, sums);
    (void)add_kind(a, BYTE_QUADS_WIDE, order, ROWS, sums);
    copy_sums(sums, ROWS, in_memory);
}

INLINE void add_quads(const byte_sums_job *j, const byte_quads_panel *panel, int64_t row,
                      const int rows, int64_t k, int64_t count) {
    const int64_t length = 4 * j->quads;
    const uint8_t *x = (const uint8_t *)j->rows + row * length;
    const int8_t *w = (const int8_t *)panel + byte_quads_before(j->quads);
    const quads_at all = {x, length, panel, w};
    const int32_t *at = panel->order;
    __m256i sums[ROWS][2], in_memory[ROWS][2];
    UNROLL for (int h = 0; h < 2; h++) {
        const __m256i whole = words_at(&panel->sums[h * LANES]),
                      start = words_at(&panel->start[h * LANES]);
        UNROLL for (int r = 0; r < rows; r++) sums[r][h] =
            _mm256_sub_epi32(start, _mm256_mullo_epi32(whole, _mm256_set1_epi32(j->zero)));
    }
    for (const int32_t *end = at + panel->counts[BYTE_QUADS_TWOS]; at < end; at += 2)
        add_twos(x + 4 * at[0], x + 4 * at[1], length, w + QUAD * at[0], w + QUAD * at[1], rows,
                 sums);
    at = add_kind(&all, BYTE_QUADS_ONES, at, rows, sums);
    at = add_kind(&all, BYTE_QUADS_TURNED, at, rows, sums);
    copy_sums(sums, rows, in_memory);
    if (rows < ROWS)
        (void)add_kind(&all, BYTE_QUADS_WIDE, at, rows, in_memory);
    else if (panel->counts[BYTE_QUADS_WIDE] > 0)
        add_wide_tile(&all, at, in_memory);
    end_rows(j, in_memory, row, rows, k, count);
}

void byte_sums_quads_v3(const byte_sums_job *j, int64_t first, int64_t end) {
    for (int64_t k = first; k < end; k += COLUMNS) {
        const byte_quads_panel *panel =
            (const void *)((const char *)j->packed + k / COLUMNS * byte_quads_bytes(j->quads));
        const int64_t count = end - k < COLUMNS ? end - k : COLUMNS;
        int64_t row = 0;
        for (; row + ROWS <= j->count; row += ROWS) add_quads(j, panel, row, ROWS, k, count);
        for (; row < j->count; row++) add_quads(j, panel, row, 1, k, count);
    }
}

/* ---- the order of quads ---- */

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
    const __m256i flips = words_at(flips_of(way)), least = _mm256_set1_epi8(-128);
    __m256i none = _mm256_setzero_si256();
    for (int h = 0; h < 2; h++) {
        const __m256i v = _mm256_shuffle_epi8(words_at(w + h * HALF), words_at(turns_of(way)));
        none = _mm256_or_si256(none, _mm256_and_si256(_mm256_cmpeq_epi8(v, least), flips));
        _mm256_storeu_si256((__m256i *)(void *)(to + h * HALF),
                            _mm256_sub_epi8(_mm256_xor_si256(v, flips), flips)); /* -v */
    }
    return _mm256_testz_si256(none, none);
}

enum { NO_WAY = FLIPS * TURNS };

static int kind_of(uint32_t way) {
    return way == 0 ? BYTE_QUADS_ONES : way < NO_WAY ? BYTE_QUADS_TURNED : BYTE_QUADS_WIDE;
}

/* The first way in which a quad's weights are safe; they go it. */
static uint32_t find_way(int8_t *w) {
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
            sums[h] = added(sums[h], _mm256_maddubs_epi16(ones, words_at(w + QUAD * q + h * HALF)));
    }
}

void byte_quads_order_v3(byte_quads_panel *panel, int64_t quads) {
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

/* ---- sums by channel ---- */

/* 16 bytes, or so many, as 16 bits. */
INLINE __m256i widened(const uint8_t *from, const int is_signed, const int64_t count) {
    __m128i bytes;
    if (count < COLUMNS) {
        uint8_t some[COLUMNS] = {0};
        memcpy(some, from, (size_t)count);
        memcpy(&bytes, some, sizeof bytes);
    } else {
        memcpy(&bytes, from, sizeof bytes);
    }
    return is_signed ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
}

/* Two places at once, whose products of a channel lie beside each other. */
INLINE void add_channels(const uint8_t *const *x, int64_t k, const int16_t *packed, int64_t pairs,
                         const int is_signed, const int64_t count, const __m256i start[2],
                         __m256i sums[2]) {
    __m256i low = start[0], high = start[1];
    for (int64_t p = 0; p < pairs; p++, packed += 2 * COLUMNS, x += 2) {
        const __m256i a = widened(x[0] + k, is_signed, count),
                      b = widened(x[1] + k, is_signed, count);
        low =
            _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), words_at(packed)));
        high = _mm256_add_epi32(
            high, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), words_at(packed + COLUMNS)));
    }
    sums[0] = _mm256_permute2x128_si256(low, high, 0x20); /* in order */
    sums[1] = _mm256_permute2x128_si256(low, high, 0x31);
}

INLINE void add_panel_by_channel(const byte_sums_job *j, int64_t k, const int is_signed,
                                 const int64_t count) {
    const int16_t *packed = (const int16_t *)j->packed + k * 2 * j->pairs;
    const uint8_t *const *x = j->rows;
    __m256i start[2];
    for (int h = 0; h < 2; h++) {
        start[h] = _mm256_setzero_si256();
        for (int64_t p = 0; p < j->pairs; p++)
            start[h] = _mm256_sub_epi32(start[h],
                                        _mm256_madd_epi16(words_at(packed + (2 * p + h) * COLUMNS),
                                                          _mm256_set1_epi16((int16_t)j->zero)));
    }
    for (int64_t row = 0; row < j->count; row += ROWS) {
        const int rows = j->count - row < ROWS ? (int)(j->count - row) : ROWS;
        __m256i sums[ROWS][2];
        for (int r = 0; r < rows; r++)
            add_channels(x + (row + r) * 2 * j->pairs, k, packed, j->pairs, is_signed, count, start,
                         sums[r]);
        end_rows(j, sums, row, rows, k, count);
    }
}

void byte_sums_by_channel_v3(const byte_sums_job *j, int64_t first, int64_t end) {
    for (int64_t k = first; k < end; k += COLUMNS) {
        if (end - k < COLUMNS)
            add_panel_by_channel(j, k, j->is_signed, end - k);
        else if (j->is_signed)
            add_panel_by_channel(j, k, 1, COLUMNS);
        else
            add_panel_by_channel(j, k, 0, COLUMNS);
    }
}
