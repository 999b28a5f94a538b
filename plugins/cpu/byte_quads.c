/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of bytes by bytes: see byte_quads.h.
 */
#include "byte_quads.h"

#include "byte_lanes.h"

enum { HALF = BYTE_QUADS_HALF, QUAD = BYTE_QUADS_SIZE, WAY = BYTE_QUADS_WAY };

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
        UNROLL for (int h = 0; h < halves; h++) sums[r][h] = add_pairs(
            sums[r][h], _mm256_add_epi16(products(p, v + h * HALF), products(q, w + h * HALF)));
    }
}

INLINE void add_one(const quads_at *a, const int kind, int64_t quad, uint32_t way, SUMS) {
    const uint8_t *x = a->x + 4 * quad;
    const int8_t *w = a->w + QUAD * quad;
    const void *flips = byte_quads_flips[way % BYTE_QUADS_FLIPS];
    const __m256i turn = words_at(byte_quads_turns[way / BYTE_QUADS_FLIPS]);
    UNROLL for (int r = 0; r < rows; r++) {
        __m256i p = four_bytes(x + r * a->length);
        if (kind == BYTE_QUADS_FLIPPED) p = _mm256_xor_si256(p, words_at(flips));
        if (kind == BYTE_QUADS_TURNED) p = flipped(_mm256_shuffle_epi8(p, turn), flips);
        UNROLL for (int h = 0; h < halves; h++) sums[r][h] =
            add_pairs(sums[r][h], products(p, w + h * HALF));
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
    order = add_kind(&a, BYTE_QUADS_FLIPPED, order, rows, halves, sums);
    order = add_kind(&a, BYTE_QUADS_TURNED, order, rows, halves, sums);
    copy_sums(sums, rows, in_memory);
    if (rows < ROWS)
        (void)add_kind(&a, BYTE_QUADS_WIDE, order, rows, halves, in_memory);
    else if (a.panel->counts[BYTE_QUADS_WIDE] > 0)
        add_wide_tile(&a, order, in_memory);
    byte_sums_end(j, in_memory + ready, row + ready, rows - ready, k, count);
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
