/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors of LANES floats, 8 or 16, for files that are compiled for such instructions.
 */
#ifndef DHOW_PLUGINS_CPU_VECTORS_H_
#define DHOW_PLUGINS_CPU_VECTORS_H_

#include <immintrin.h>
#include <stdint.h>

#include "activation.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 24")

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef float loose_vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));

INLINE vec all(float x) { return x - (vec){0}; }
INLINE vec load(const float *p) { return *(const loose_vec *)p; }
INLINE void store(float *p, vec v) { *(loose_vec *)p = v; }

/* Of the first `count` floats, which may be more than a vector has; of those from number `begin` to
 * `end` - 1, of which a vector may have none. */
#if LANES == 16
INLINE __mmask16 mask_of(int64_t count) { return (__mmask16)((1u << count) - 1); }
INLINE __mmask16 mask_between(int64_t begin, int64_t end) {
    const int64_t first = begin < 0 ? 0 : begin, count = end < LANES ? end : LANES;
    return first < count ? mask_of(count) & (__mmask16)~mask_of(first) : 0;
}
#define LOAD_MASKED(p, mask) _mm512_maskz_loadu_ps(mask, p)
#define STORE_MASKED(p, mask, v) _mm512_mask_storeu_ps(p, mask, v)
#else
INLINE __m256i mask_of(int64_t count) {
    const ints places = {0, 1, 2, 3, 4, 5, 6, 7};
    return (__m256i)(places < (int32_t)count - (ints){0});
}
INLINE __m256i mask_between(int64_t begin, int64_t end) {
    return _mm256_andnot_si256(mask_of(begin), mask_of(end));
}
#define LOAD_MASKED(p, mask) _mm256_maskload_ps(p, mask)
#define STORE_MASKED(p, mask, v) _mm256_maskstore_ps(p, mask, v)
#endif

INLINE vec load_part(const float *p, int64_t count) {
    return count >= LANES ? load(p) : (vec)LOAD_MASKED(p, mask_of(count));
}

/* Every other float of two vectors. */
#if LANES == 16
#define EVENS(a, b) \
    __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#else
#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#endif

INLINE void store_part(float *p, vec v, int64_t count) {
    if (count >= LANES) {
        store(p, v);
    } else {
        STORE_MASKED(p, mask_of(count), v);
    }
}

#if LANES == 16
/* Lane i: the sum of sums[i]. */
INLINE vec sum_lanes(const vec sums[LANES]) {
    __m512 quads[4], pairs[8];
    UNROLL for (int i = 0; i < 8; i++) {
        const __m512 a = (__m512)sums[i / 2 * 4 + i % 2], b = (__m512)sums[i / 2 * 4 + i % 2 + 2];
        pairs[i] = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    }
    UNROLL for (int i = 0; i < 4; i++) {
        const __m512 a = pairs[2 * i], b = pairs[2 * i + 1];
        quads[i] = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    }
    UNROLL for (int i = 0; i < 4; i += 2) quads[i / 2] =
        _mm512_add_ps(_mm512_shuffle_f32x4(quads[i], quads[i + 1], 0x88),
                      _mm512_shuffle_f32x4(quads[i], quads[i + 1], 0xdd));
    return (vec)_mm512_add_ps(_mm512_shuffle_f32x4(quads[0], quads[1], 0x88),
                              _mm512_shuffle_f32x4(quads[0], quads[1], 0xdd));
}
#else
INLINE vec sum_lanes(const vec sums[LANES]) {
    __m256 pairs[4], quads[2];
    UNROLL for (int i = 0; i < 4; i++) {
        const __m256 a = (__m256)sums[i / 2 * 4 + i % 2], b = (__m256)sums[i / 2 * 4 + i % 2 + 2];
        pairs[i] = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    }
    UNROLL for (int i = 0; i < 2; i++) {
        const __m256 a = pairs[2 * i], b = pairs[2 * i + 1];
        quads[i] = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    }
    return (vec)_mm256_add_ps(_mm256_permute2f128_ps(quads[0], quads[1], 0x20),
                              _mm256_permute2f128_ps(quads[0], quads[1], 0x31));
}
#endif

INLINE vec choose(ints condition, vec a, vec b) {
    return (vec)(((ints)a & condition) | ((ints)b & ~condition));
}

/* Of a NaN both give x, which is why it comes second. */
#if LANES == 16
INLINE vec at_least(vec x, float low) { return (vec)_mm512_max_ps((__m512)all(low), (__m512)x); }
INLINE vec at_most(vec x, float high) { return (vec)_mm512_min_ps((__m512)all(high), (__m512)x); }
#else
INLINE vec at_least(vec x, float low) { return (vec)_mm256_max_ps((__m256)all(low), (__m256)x); }
INLINE vec at_most(vec x, float high) { return (vec)_mm256_min_ps((__m256)all(high), (__m256)x); }
#endif

/* e^x by 2^n e^r, |r| <= ln 2 / 2, with a polynomial of degree 6: within 2 units of the last place
 * for x from -87 to 87, where the result and its reciprocal are normal; beyond these as there. */
INLINE vec exponential(vec x) {
    static const float log2e = 1.44269504f, high = 0.693359375f, low = -2.12194440e-4f,
                       rounds = 12582912.0f;
    const vec held = at_most(at_least(x, -87.0f), 87.0f);
    const vec shifted = held * log2e + rounds, n = shifted - rounds;
    const vec r = held - n * high - n * low;
    vec p = all(1.0f / 720);
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return (vec)((ints)p + (((ints)shifted - (ints)all(rounds)) << 23));
}

/* 1 / x within 2 units of the last place, by a guess and a step of Newton's: division takes as long
 * as all of the exponential. */
INLINE vec reciprocal(vec x) {
#if LANES == 16
    const vec guess = (vec)_mm512_rcp14_ps((__m512)x);
#else
    const vec guess = (vec)_mm256_rcp_ps((__m256)x);
#endif
    return guess * (2.0f - x * guess);
}

/* Of large negative x the reciprocal is next to 0, not 0. */
INLINE vec silu(vec x) {
    return choose(x < all(-87.0f), all(0.0f), x * reciprocal(1.0f + exponential(-x)));
}

/* Those that take longer than a call. */
static __attribute__((noinline, unused)) vec activate_slowly(vec x, const cpu_activation *a) {
    switch (a->kind) {
        case DHOW_ACTIVATION_LEAKY_RELU:
            return choose(x < all(0.0f), a->alpha * x, x);
        case DHOW_ACTIVATION_CLIP:
            return at_most(at_least(x, a->alpha), a->beta);
        case DHOW_ACTIVATION_HARD_SWISH:
            return x * at_most(at_least(x * (1.0f / 6) + 0.5f, 0.0f), 1.0f);
        case DHOW_ACTIVATION_SIGMOID:
            return reciprocal(1.0f + exponential(-x));
        case DHOW_ACTIVATION_SILU:
            return silu(x);
        default:
            return x;
    }
}

INLINE vec activate(vec x, const cpu_activation *a) {
    if (a->kind == DHOW_ACTIVATION_NONE) return x;
    return a->kind == DHOW_ACTIVATION_RELU ? at_least(x, 0.0f) : activate_slowly(x, a);
}

#endif
