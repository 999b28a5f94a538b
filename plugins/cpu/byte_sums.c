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

INLINE __m256i words_at(const int16_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* The weights from the i-th on. */
INLINE __m256i weights_at(const void *packed, int64_t i, const int narrow) {
    if (!narrow) return words_at((const int16_t *)packed + i);
    const int8_t *from = (const int8_t *)packed + i;
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)from));
}

INLINE void add_tile(const byte_sums_job *j, const int narrow, int64_t row, const int rows,
                     int64_t k, int64_t count) {
    const int64_t length = 2 * j->pairs;
    const int16_t *x = j->rows + row * length;
    int64_t at = k * length;
    __m256i sums[ROWS][2];
    UNROLL for (int r = 0; r < rows; r++) sums[r][0] = sums[r][1] = _mm256_setzero_si256();
    for (int64_t p = 0; p < length; p += 2, at += 2 * COLUMNS) {
        const __m256i a = weights_at(j->packed, at, narrow),
                      b = weights_at(j->packed, at + COLUMNS, narrow);
        UNROLL for (int r = 0; r < rows; r++) {
            int32_t pair;
            memcpy(&pair, x + r * length + p, sizeof pair);
            const __m256i all_pair = _mm256_set1_epi32(pair);
            sums[r][0] = _mm256_add_epi32(sums[r][0], _mm256_madd_epi16(all_pair, a));
            sums[r][1] = _mm256_add_epi32(sums[r][1], _mm256_madd_epi16(all_pair, b));
        }
    }
    __m256i ended[ROWS][2]; /* sums stay in registers, as no other function has their address */
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int h = 0; h < 2; h++) ended[r][h] = sums[r][h];
    }
    end_rows(j, ended, row, rows, k, count);
}

INLINE void add_panel(const byte_sums_job *j, const int narrow, int64_t k, int64_t count) {
    int64_t row = 0;
    for (; row + ROWS <= j->count; row += ROWS) add_tile(j, narrow, row, ROWS, k, count);
    for (; row < j->count; row++) add_tile(j, narrow, row, 1, k, count);
}

void byte_sums_v3(const byte_sums_job *j, int64_t first, int64_t end) {
    for (int64_t k = first; k < end; k += COLUMNS) {
        const int64_t count = end - k < COLUMNS ? end - k : COLUMNS;
        if (j->narrow)
            add_panel(j, 1, k, count);
        else
            add_panel(j, 0, k, count);
    }
}

/* ---- sums by channel ---- */

/* Two windows' places at once, whose products of a channel lie beside each other. */
INLINE void add_channels(const byte_sums_job *j, const int16_t *x, const int16_t *packed,
                         __m256i sums[2]) {
    __m256i low = _mm256_setzero_si256(), high = low;
    for (int64_t p = 0; p < j->pairs; p++, packed += 2 * COLUMNS, x += 2 * j->channels) {
        const __m256i a = words_at(x), b = words_at(x + j->channels);
        low =
            _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), words_at(packed)));
        high = _mm256_add_epi32(
            high, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), words_at(packed + COLUMNS)));
    }
    sums[0] = _mm256_permute2x128_si256(low, high, 0x20); /* in order */
    sums[1] = _mm256_permute2x128_si256(low, high, 0x31);
}

void byte_sums_by_channel_v3(const byte_sums_job *j, int64_t first, int64_t end) {
    const int64_t length = 2 * j->pairs * j->channels;
    for (int64_t k = first; k < end; k += COLUMNS) {
        const int16_t *packed = (const int16_t *)j->packed + k * 2 * j->pairs;
        const int64_t count = end - k < COLUMNS ? end - k : COLUMNS;
        for (int64_t row = 0; row < j->count; row += ROWS) {
            const int rows = j->count - row < ROWS ? (int)(j->count - row) : ROWS;
            __m256i sums[ROWS][2];
            for (int r = 0; r < rows; r++)
                add_channels(j, j->rows + (row + r) * length + k, packed, sums[r]);
            end_rows(j, sums, row, rows, k, count);
        }
    }
}
