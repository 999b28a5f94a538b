/* SPDX-License-Identifier: Apache-2.0
 *
 * See activate.h. LANES and ACTIVATE are given by the build.
 */
#include "activate.h"

#include "vectors.h"

/* Numbers below the least normal one take processors a hundred times as long wherever they are met,
 * the convolution behind included: both functions are 0 before their results, and what these are
 * computed of, come so near to it. */

/* x Phi(x), where 1 - Phi is a polynomial times e^(-x^2/2): formula 7.1.26 of Abramowitz and
 * Stegun, Handbook of Mathematical Functions, within 1.5e-7. */
INLINE vec gelu(vec x) {
    static const float far = 12.75f, root_half = 0.707106781f;
    const vec held = at_most(at_least(x, -far), far), size = choose(held < all(0.0f), -held, held);
    const vec t = reciprocal(1.0f + size * (0.3275911f * root_half));
    vec p = all(0.5f * 1.061405429f);
    p = p * t - 0.5f * 1.453152027f;
    p = p * t + 0.5f * 1.421413741f;
    p = p * t - 0.5f * 0.284496736f;
    p = p * t + 0.5f * 0.254829592f;
    const vec tail = p * t * exponential(held * held * -0.5f),
              beyond = choose(size < all(far), tail, all(0.0f));
    return at_least(x, -far) * choose(held < all(0.0f), beyond, 1.0f - beyond);
}

INLINE vec gelu_tanh(vec x) {
    static const float far = -9.75f;
    const vec held = at_least(x, far), twice = 1.59576912f * held; /* 2 sqrt(2 / pi) */
    const vec y = held * reciprocal(1.0f + exponential(-twice * (1.0f + 0.044715f * held * held)));
    return choose(x < all(far), all(0.0f), y);
}

#define EACH(activated)                                 \
    for (int64_t i = 0; i < count; i += LANES) {        \
        const vec x = load_part(values + i, count - i); \
        store_part(values + i, activated, count - i);   \
    }

void ACTIVATE(float *values, const float *residual, int64_t count, const cpu_activation *a) {
    if (residual) EACH(x + load_part(residual + i, count - i))
    switch (a->kind) {
        case DHOW_ACTIVATION_NONE:
            break;
        case DHOW_ACTIVATION_SILU:
            EACH(silu(x)) break;
        case DHOW_ACTIVATION_GELU:
            EACH(gelu(x)) break;
        case DHOW_ACTIVATION_GELU_TANH:
            EACH(gelu_tanh(x)) break;
        default:
            EACH(activate(x, a)) break;
    }
}
