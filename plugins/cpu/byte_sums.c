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

/* The last ones with some of those before, here too. */
void move_up_bytes_v3(const uint8_t *from, int64_t count, uint8_t *to) {
    if (count < 16) {
        for (int64_t i = 0; i < count; i++) to[i] = from[i] ^ 0x80;
        return;
    }
    for (int64_t i = 0;; i = i + 16 < count - 16 ? i + 16 : count - 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
        _mm_storeu_si128((__m128i *)(void *)(to + i),
                         _mm_xor_si128(bytes, _mm_set1_epi8((char)0x80)));
        if (i == count - 16) return;
    }
}

/* ---- what is made of the sums ---- */

/* Sums of columns k.. of some rows, the first of which is at `at` of y: the halves of a panel that
 * are there, each LANES columns where they are whole, else what is left of `count`. */
#define TILE                                                                               \
    const byte_sums_job *j, const int rows, const int halves, const int whole, int64_t at, \
        int64_t k, int64_t count
#define EACH_OF(changed) \
    UNROLL for (int r = 0; r < rows; r++) { UNROLL for (int h = 0; h < halves; h++) changed; }
#define EACH(changed) \
    EACH_OF(changed)  \
    break

INLINE vec load_floats(const float *from, const int whole, int64_t count) {
    return whole ? load(from) : load_part(from, count);
}

INLINE vec load_bytes(const char *from, int is_signed, const int whole, int64_t count) {
    char some[LANES] = {0};
    if (!whole) {
        memcpy(some, from, (size_t)(count > LANES ? LANES : count < 0 ? 0 : count));
        from = some;
    }
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)from);
    return (vec)_mm256_cvtepi32_ps(is_signed ? _mm256_cvtepi8_epi32(bytes)
                                             : _mm256_cvtepu8_epi32(bytes));
}

INLINE void load_row(const float *from, const int halves, const int whole, int64_t count,
                     vec to[2]) {
    for (int h = 0; h < halves; h++)
        to[h] = load_floats(from + h * LANES, whole, count - h * LANES);
}

INLINE void add_residual(TILE, vec v[ROWS][2]) {
    const float *floats = (const float *)(const void *)j->residual + at + k;
    const char *bytes = j->residual + at + k;
    if (j->residual_dtype == DHOW_F32) {
        EACH_OF(v[r][h] +=
                load_floats(floats + r * j->stride + h * LANES, whole, count - h * LANES))
    } else if (j->residual_dtype == DHOW_U8) {
        EACH_OF(v[r][h] +=
                load_bytes(bytes + r * j->stride + h * LANES, 0, whole, count - h * LANES))
    } else {
        EACH_OF(v[r][h] +=
                load_bytes(bytes + r * j->stride + h * LANES, 1, whole, count - h * LANES))
    }
}

/* An operation of the tail. */
INLINE void end_with(TILE, const dhow_conv_tail *t, vec v[ROWS][2]) {
    const cpu_activation activation = {t->kind, t->alpha, t->beta};
    vec row[2] = {{0}}, aside[2 * ROWS]; /* in memory, which v is not */
    if (t->kind == DHOW_TAIL_MULTIPLY || t->kind == DHOW_TAIL_ADD)
        load_row(j->bias + t->row * j->table + k, halves, whole, count, row);
    switch (t->kind) {
        case DHOW_TAIL_LINEAR:
            EACH(v[r][h] = v[r][h] * t->alpha + t->beta);
        case DHOW_TAIL_ROUND:
            EACH(v[r][h] = (vec)_mm256_round_ps((__m256)v[r][h],
                                                _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
        case DHOW_TAIL_RESIDUAL:
            add_residual(j, rows, halves, whole, at, k, count, v);
            break;
        case DHOW_TAIL_MULTIPLY:
            EACH(v[r][h] *= row[h]);
        case DHOW_TAIL_ADD:
            EACH(v[r][h] += row[h]);
        case DHOW_ACTIVATION_CLIP:
            EACH(v[r][h] = at_most(at_least(v[r][h], t->alpha), t->beta));
        case DHOW_ACTIVATION_RELU:
            EACH(v[r][h] = at_least(v[r][h], 0.0f));
        default:
            EACH_OF(aside[halves * r + h] = v[r][h])
            for (int i = 0; i < halves * rows; i++)
                aside[i] = activate_slowly(aside[i], &activation);
            EACH(v[r][h] = aside[halves * r + h]);
    }
}

/* To the nearest, the even one of two; below their range and NaN are the least one. */
INLINE __m256i whole_numbers(vec v, float high) {
    return _mm256_cvtps_epi32((__m256)at_most(v, high));
}

/* The bytes of a row and of another behind them. */
INLINE __m256i bytes_of(const vec a[2], const vec b[2], const int halves, int is_signed) {
    const float high = is_signed ? 127.0f : 255.0f;
    const __m256i first = whole_numbers(a[0], high), second = whole_numbers(b[0], high);
    __m256i low = _mm256_packs_epi32(first, second), up = low;
    if (halves == 2) {
        low = _mm256_packs_epi32(first, whole_numbers(a[1], high));
        up = _mm256_packs_epi32(second, whole_numbers(b[1], high));
    }
    return _mm256_permutevar8x32_epi32(
        is_signed ? _mm256_packs_epi16(low, up) : _mm256_packus_epi16(low, up),
        _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

INLINE void store_bytes(TILE, vec v[ROWS][2]) {
    char *to = j->y + at + k;
    for (int r = 0; r < rows; r += 2, to += 2 * j->stride) {
        const int next = r + 1 < rows ? r + 1 : r, is_signed = j->dst_dtype == DHOW_I8;
        const __m256i two = bytes_of(v[r], v[next], halves, is_signed);
        char bytes[2 * COLUMNS];
        memcpy(bytes, &two, sizeof bytes);
        const size_t size = (size_t)(whole ? halves * LANES : count);
        memcpy(to, bytes, size);
        if (next > r) memcpy(to + j->stride, bytes + halves * LANES, size);
    }
}

INLINE void store_floats(TILE, vec v[ROWS][2]) {
    float *to = (float *)(void *)j->y + at + k;
    for (int r = 0; r < rows; r++, to += j->stride) {
        for (int h = 0; h < halves; h++) {
            if (whole)
                store(to + h * LANES, v[r][h]);
            else
                store_part(to + h * LANES, v[r][h], count - h * LANES);
        }
    }
}

/* So many rows, whose results stay in registers. */
INLINE void end_some(TILE, __m256i sums[ROWS][2]) {
    vec v[ROWS][2], shift[2], scale[2];
    if (!j->bias) { /* as they are */
        store_floats(j, rows, halves, whole, at, k, count, (vec(*)[2])sums);
        return;
    }
    load_row(j->bias + k, halves, whole, count, shift);
    load_row(j->bias + j->table + k, halves, whole, count, scale);
    EACH_OF(v[r][h] = ((vec)_mm256_cvtepi32_ps(sums[r][h]) + shift[h]) * scale[h])
    for (uint32_t i = 0; i < j->tail_count; i++)
        end_with(j, rows, halves, whole, at, k, count, &j->tail[i], v);
    vec aside[ROWS][2];
    EACH_OF(aside[r][h] = v[r][h])
    if (j->dst_dtype == DHOW_F32)
        store_floats(j, rows, halves, whole, at, k, count, aside);
    else
        store_bytes(j, rows, halves, whole, at, k, count, aside);
}

static __attribute__((noinline)) void end_rows(const byte_sums_job *j, __m256i sums[ROWS][2],
                                               int64_t row, int rows, int64_t k, int64_t count) {
    const int64_t at = row * j->stride;
    if (rows == ROWS && count == COLUMNS) {
        end_some(j, ROWS, 2, 1, at, k, count, sums);
    } else if (rows == ROWS && count == LANES) {
        end_some(j, ROWS, 1, 1, at, k, count, sums);
    } else {
        for (int r = 0; r < rows; r++) end_some(j, 1, 2, 0, at + r * j->stride, k, count, sums + r);
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

/* Rows of quads, and a panel. */
typedef struct quads_at {
    const uint8_t *x;
    int64_t length;
    const byte_quads_panel *panel;
    const int8_t *w;
} quads_at;

INLINE quads_at quads_of(const byte_sums_job *j, int64_t row, int64_t k) {
    const byte_quads_panel *panel =
        (const void *)((const char *)j->packed + k / COLUMNS * byte_quads_bytes(j->quads));
    return (quads_at){(const uint8_t *)j->rows + row * 4 * j->quads, 4 * j->quads, panel,
                      (const int8_t *)panel + byte_quads_before(j->quads)};
}

/* Some rows' sums of a panel, or of its first half. */
#define SUMS const int rows, const int halves, __m256i sums[ROWS][2]

/* Two quads' products are added in 16 bits. */
INLINE void add_twos(const quads_at *a, const int32_t quads[2], SUMS) {
    const uint8_t *x = a->x + 4 * quads[0], *y = a->x + 4 * quads[1];
    const int8_t *v = a->w + QUAD * quads[0], *w = a->w + QUAD * quads[1];
    UNROLL for (int r = 0; r < rows; r++) {
        const __m256i p = four_bytes(x + r * a->length), q = four_bytes(y + r * a->length);
        UNROLL for (int h = 0; h < halves; h++) sums[r][h] = added(
            sums[r][h], _mm256_add_epi16(products(p, v + h * HALF), products(q, w + h * HALF)));
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

INLINE void add_one(const quads_at *a, const int kind, int64_t quad, uint32_t way, SUMS) {
    const uint8_t *x = a->x + 4 * quad;
    const int8_t *w = a->w + QUAD * quad;
    const void *flips = flips_of(way);
    const __m256i turn = words_at(turns_of(way));
    UNROLL for (int r = 0; r < rows; r++) {
        __m256i p = four_bytes(x + r * a->length);
        if (kind == BYTE_QUADS_TURNED) p = flipped(_mm256_shuffle_epi8(p, turn), flips);
        UNROLL for (int h = 0; h < halves; h++) sums[r][h] =
            added(sums[r][h], products(p, w + h * HALF));
    }
}

/* Even and odd terms as 16 bits. */
INLINE void add_wide(const quads_at *a, int64_t quad, SUMS) {
    const uint8_t *x = a->x + 4 * quad;
    UNROLL for (int h = 0; h < halves; h++) {
        const __m256i all = words_at(a->w + QUAD * quad + h * HALF),
                      odd = _mm256_srai_epi16(all, 8),
                      even = _mm256_srai_epi16(_mm256_slli_epi16(all, 8), 8);
        UNROLL for (int r = 0; r < rows; r++) {
            const __m256i p = four_bytes(x + r * a->length),
                          low = _mm256_and_si256(p, _mm256_set1_epi16(255));
            sums[r][h] = _mm256_add_epi32(sums[r][h], _mm256_madd_epi16(low, even));
            sums[r][h] =
                _mm256_add_epi32(sums[r][h], _mm256_madd_epi16(_mm256_srli_epi16(p, 8), odd));
        }
    }
}

/* Quads of a kind, from `order` on. */
INLINE const int32_t *add_kind(const quads_at *a, const int kind, const int32_t *order, SUMS) {
    const int32_t *end = order + a->panel->counts[kind];
    for (; order < end; order += kind == BYTE_QUADS_TWOS ? 2 : 1) {
        const uint32_t way = (uint32_t)*order >> WAY;
        const int64_t quad = *order & ((1 << WAY) - 1);
        if (kind == BYTE_QUADS_TWOS)
            add_twos(a, order, rows, halves, sums);
        else if (kind == BYTE_QUADS_WIDE)
            add_wide(a, quad, rows, halves, sums);
        else
            add_one(a, kind, quad, way, rows, halves, sums);
    }
    return order;
}

/* By itself, as it has use for all registers. */
static __attribute__((noinline)) void add_wide_tile(const quads_at *a, const int32_t *order,
                                                    __m256i in_memory[ROWS][2]) {
    __m256i sums[ROWS][2];
    copy_sums(in_memory, ROWS, sums);
    (void)add_kind(a, BYTE_QUADS_WIDE, order, ROWS, 2, sums);
    copy_sums(sums, ROWS, in_memory);
}

/* Rows from `row` on, of which `ready` have ended before. */
INLINE void add_quads(const byte_sums_job *j, int64_t row, int ready, const int rows,
                      const int halves, int64_t k, int64_t count) {
    const quads_at a = quads_of(j, row, k);
    const int32_t *order = a.panel->order;
    __m256i sums[ROWS][2], in_memory[ROWS][2];
    UNROLL for (int h = 0; h < 2; h++) {
        const __m256i all = words_at(&a.panel->sums[h * LANES]),
                      start = words_at(&a.panel->start[h * LANES]);
        UNROLL for (int r = 0; r < rows; r++) sums[r][h] =
            _mm256_sub_epi32(start, _mm256_mullo_epi32(all, _mm256_set1_epi32(j->zero)));
    }
    order = add_kind(&a, BYTE_QUADS_TWOS, order, rows, halves, sums);
    order = add_kind(&a, BYTE_QUADS_ONES, order, rows, halves, sums);
    order = add_kind(&a, BYTE_QUADS_TURNED, order, rows, halves, sums);
    copy_sums(sums, rows, in_memory);
    if (rows < ROWS)
        (void)add_kind(&a, BYTE_QUADS_WIDE, order, rows, halves, in_memory);
    else if (a.panel->counts[BYTE_QUADS_WIDE] > 0)
        add_wide_tile(&a, order, in_memory);
    end_rows(j, in_memory + ready, row + ready, rows - ready, k, count);
}

/* The last rows of several are computed with some of those before. */
INLINE void add_panel_of_quads(const byte_sums_job *j, const int halves, int64_t k, int64_t count) {
    for (int64_t row = 0; row < j->count; row += ROWS) {
        const int64_t at = row + ROWS <= j->count ? row : j->count - ROWS;
        add_quads(j, at, (int)(row - at), ROWS, halves, k, count);
    }
}

void byte_sums_quads_v3(const byte_sums_job *j, int64_t first, int64_t end) {
    for (int64_t k = first; k < end; k += COLUMNS) {
        const int64_t count = end - k < COLUMNS ? end - k : COLUMNS;
        if (j->count < ROWS)
            for (int64_t row = 0; row < j->count; row++) add_quads(j, row, 0, 1, 2, k, count);
        else if (count <= LANES)
            add_panel_of_quads(j, 1, k, count);
        else
            add_panel_of_quads(j, 2, k, count);
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
            sums[h] = added(sums[h], _mm256_maddubs_epi16(ones, words_at(w + QUAD * q + h * HALF)));
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

/* ---- sums by channel ---- */

/* 16 bytes, or so many, as 16 bits. */
INLINE __m256i widened(const uint8_t *from, const int is_signed, const int64_t count) {
    __m128i bytes;
    uint8_t some[COLUMNS] = {0};
    if (count == COLUMNS) {
        bytes = _mm_loadu_si128((const __m128i *)(const void *)from);
    } else if (count == LANES) {
        bytes = _mm_loadl_epi64((const __m128i *)(const void *)from);
    } else {
        memcpy(some, from, (size_t)count);
        bytes = _mm_loadu_si128((const __m128i *)(const void *)some);
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
        if (end - k == LANES && !j->is_signed)
            add_panel_by_channel(j, k, 0, LANES);
        else if (end - k < COLUMNS)
            add_panel_by_channel(j, k, j->is_signed, end - k);
        else if (j->is_signed)
            add_panel_by_channel(j, k, 1, COLUMNS);
        else
            add_panel_by_channel(j, k, 0, COLUMNS);
    }
}
