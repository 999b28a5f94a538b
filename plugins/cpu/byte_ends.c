/* SPDX-License-Identifier: Apache-2.0
 *
 * What is made of sums of bytes: see dhow_conv_desc.
 */
#include "byte_lanes.h"

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

INLINE void store_bytes(TILE, const int is_signed, vec v[ROWS][2]) {
    char *to = j->y + at + k;
    UNROLL for (int r = 0; r < rows; r += 2, to += 2 * j->stride) {
        const int next = r + 1 < rows ? r + 1 : r;
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
    if (j->dst_dtype == DHOW_U8) {
        store_bytes(j, rows, halves, whole, at, k, count, 0, v);
    } else if (j->dst_dtype == DHOW_I8) {
        store_bytes(j, rows, halves, whole, at, k, count, 1, v);
    } else {
        vec aside[ROWS][2];
        EACH_OF(aside[r][h] = v[r][h])
        store_floats(j, rows, halves, whole, at, k, count, aside);
    }
}

void byte_sums_end(const byte_sums_job *j, __m256i sums[ROWS][2], int64_t row, int rows, int64_t k,
                   int64_t count) {
    const int64_t at = row * j->stride;
    if (rows == ROWS && count == COLUMNS) {
        end_some(j, ROWS, 2, 1, at, k, count, sums);
    } else if (rows == ROWS && count == LANES) {
        end_some(j, ROWS, 1, 1, at, k, count, sums);
    } else {
        for (int r = 0; r < rows; r++) end_some(j, 1, 2, 0, at + r * j->stride, k, count, sums + r);
    }
}
