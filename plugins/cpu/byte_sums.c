/* SPDX-License-Identifier: Apache-2.0
 *
 * See byte_sums.h: sums of pairs of 16 bits, and by channel.
 */
#include "byte_lanes.h"

/* ---- bytes as numbers ---- */

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

/* ---- sums of pairs ---- */

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
    byte_sums_end(j, in_memory, row, rows, k, count);
}

void byte_sums_v3(const byte_sums_job *j, int64_t first, int64_t end) {
    for (int64_t k = first; k < end; k += COLUMNS) {
        const int64_t count = end - k < COLUMNS ? end - k : COLUMNS;
        int64_t row = 0;
        for (; row + ROWS <= j->count; row += ROWS) add_tile(j, row, ROWS, k, count);
        for (; row < j->count; row++) add_tile(j, row, 1, k, count);
    }
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
        byte_sums_end(j, sums, row, rows, k, count);
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
