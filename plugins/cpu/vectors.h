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

/* Of the first `count` floats, which may be more than a vector has. */
#if LANES == 16
INLINE __mmask16 mask_of(int64_t count) { return (__mmask16)((1u << count) - 1); }
#define LOAD_MASKED(p, mask) _mm512_maskz_loadu_ps(mask, p)
#define STORE_MASKED(p, mask, v) _mm512_mask_storeu_ps(p, mask, v)
#else
INLINE __m256i mask_of(int64_t count) {
    const ints places = {0, 1, 2, 3, 4, 5, 6, 7};
    return (__m256i)(places < (int32_t)count - (ints){0});
}
#define LOAD_MASKED(p, mask) _mm256_maskload_ps(p, mask)
#define STORE_MASKED(p, mask, v) _mm256_maskstore_ps(p, mask, v)
#endif

INLINE vec load_part(const float *p, int64_t count) {
    return count >= LANES ? load(p) : (vec)LOAD_MASKED(p, mask_of(count));
}

INLINE void store_part(float *p, vec v, int64_t count) {
    if (count >= LANES) {
        store(p, v);
    } else {
        STORE_MASKED(p, mask_of(count), v);
    }
}

INLINE vec choose(ints condition, vec a, vec b) {
    return (vec)(((ints)a & condition) | ((ints)b & ~condition));
}

/* Of a NaN both give x. */
INLINE vec at_least(vec x, float low) { return choose(x < all(low), all(low), x); }
INLINE vec at_most(vec x, float high) { return choose(x > all(high), all(high), x); }

/* e^x by 2^n e^r, |r| <= ln 2 / 2, with a polynomial of degree 6: within 2 units of the last place
 * where the result is normal. */
INLINE vec exponential(vec x) {
    static const float log2e = 1.44269504f, high = 0.693359375f, low = -2.12194440e-4f,
                       rounds = 12582912.0f;
    const vec held = at_most(at_least(x, -87.0f), 88.0f);
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

/* Those that take longer than a call. */
static __attribute__((noinline)) vec activate_slowly(vec x, const cpu_activation *a) {
    switch (a->kind) {
        case DHOW_ACTIVATION_LEAKY_RELU:
            return choose(x < all(0.0f), a->alpha * x, x);
        case DHOW_ACTIVATION_CLIP:
            return at_most(at_least(x, a->alpha), a->beta);
        case DHOW_ACTIVATION_HARD_SWISH:
            return x * at_most(at_least(x * (1.0f / 6) + 0.5f, 0.0f), 1.0f);
        case DHOW_ACTIVATION_SIGMOID:
            return 1.0f / (1.0f + exponential(-x));
        case DHOW_ACTIVATION_SILU:
            return x / (1.0f + exponential(-x));
        default:
            return x;
    }
}

INLINE vec activate(vec x, const cpu_activation *a) {
    if (a->kind == DHOW_ACTIVATION_NONE) return x;
    return a->kind == DHOW_ACTIVATION_RELU ? at_least(x, 0.0f) : activate_slowly(x, a);
}

#endif
