/* SPDX-License-Identifier: Apache-2.0
 *
 * Floats as their bits and back, and halves as IEEE 754 has them, for tests and for the devices
 * that tests stand in for: by arithmetic of their own, so that dhow's is not compared with itself.
 */
#ifndef TESTS_FLOAT_BITS_H_
#define TESTS_FLOAT_BITS_H_

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t bits_of_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline uint64_t bits_of_f64(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float f32_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline double f64_of_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline double double_of_half(uint16_t half) {
    const int exponent = half >> 10 & 31;
    const double fraction = half & 1023;
    const double size = exponent == 0    ? ldexp(fraction, -24)
                        : exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                         : ldexp(1024 + fraction, exponent - 25);
    return (half & 0x8000) != 0 ? -size : size;
}

/* To the nearest, ties to even; NaN is the one of the PTX ISA. */
static inline uint16_t half_of_double(double value) {
    const unsigned sign = signbit(value) ? 0x8000 : 0;
    const double size = fabs(value);
    int exponent;
    if (isnan(value)) return 0x7fff;
    if (size >= 65520) return (uint16_t)(sign | 0x7c00);
    if (size < 0x1p-14) return (uint16_t)(sign | (unsigned)nearbyint(size * 0x1p24));
    const double fraction = frexp(size, &exponent); /* 0.5 to 1 */
    return (uint16_t)(sign |
                      ((((unsigned)exponent + 13u) << 10) + (unsigned)nearbyint(fraction * 2048)));
}

#endif /* TESTS_FLOAT_BITS_H_ */
