/* SPDX-License-Identifier: Apache-2.0
 *
 * See numbers.h.
 */
#include "numbers.h"

#include <library_types.h>
#include <math.h>
#include <string.h>

int64_t fake_type_bytes(int32_t type) {
    switch (type) {
        case CUDA_R_32F:
            return 4;
        case CUDA_R_64F:
            return 8;
        case CUDA_R_16F:
        case CUDA_R_16BF:
            return 2;
        default:
            return 0;
    }
}

static double half_to_double(uint16_t h) {
    const int exponent = h >> 10 & 31;
    const double fraction = h & 1023;
    const double value = exponent == 0    ? ldexp(fraction, -24)
                         : exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                          : ldexp(1024 + fraction, exponent - 25);
    return (h & 0x8000) != 0 ? -value : value;
}

static uint16_t double_to_half(double value) {
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    double a = fabs(value);
    int exponent;
    if (isnan(value)) return 0x7e00;
    if (a >= 65520.0) return sign | 0x7c00;
    if (a < ldexp(1, -14)) return (uint16_t)(sign | (unsigned)nearbyint(ldexp(a, 24)));
    a = frexp(a, &exponent); /* [0.5, 1) */
    const unsigned fraction = (unsigned)nearbyint(ldexp(a, 11));
    return (uint16_t)(sign | ((((unsigned)exponent + 13u) << 10) + fraction));
}

static float bits_to_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t float_to_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Keeps `kept` of the 23 bits of the fraction, to the nearest, ties to even. */
static uint32_t round_bits(float value, unsigned kept) {
    const uint32_t bits = float_to_bits(value), drop = 23 - kept;
    if (value != value) return bits | 0x400000;
    return (bits + (1u << (drop - 1)) - 1 + (bits >> drop & 1)) & ~((1u << drop) - 1);
}

double fake_load(const unsigned char *p, int32_t type) {
    uint16_t half;
    float single;
    double wide;
    switch (type) {
        case CUDA_R_64F:
            memcpy(&wide, p, sizeof wide);
            return wide;
        case CUDA_R_32F:
            memcpy(&single, p, sizeof single);
            return (double)single;
        case CUDA_R_16F:
            memcpy(&half, p, sizeof half);
            return half_to_double(half);
        default:
            memcpy(&half, p, sizeof half);
            return (double)bits_to_float((uint32_t)half << 16);
    }
}

void fake_store(unsigned char *p, int32_t type, double value) {
    const float single = (float)value;
    uint16_t half;
    switch (type) {
        case CUDA_R_64F:
            memcpy(p, &value, sizeof value);
            return;
        case CUDA_R_32F:
            memcpy(p, &single, sizeof single);
            return;
        case CUDA_R_16F:
            half = double_to_half(value);
            break;
        default:
            half = (uint16_t)(round_bits(single, 7) >> 16);
    }
    memcpy(p, &half, sizeof half);
}

double fake_tf32(double value) { return (double)bits_to_float(round_bits((float)value, 10)); }
