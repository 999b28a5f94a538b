/* SPDX-License-Identifier: Apache-2.0
 *
 * See numbers.h.
 */
#include "numbers.h"

#include <library_types.h>

#include "tests/float_bits.h"

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

const char *fake_type_name(int32_t type) {
    switch (type) {
        case CUDA_R_32F:
            return "f32";
        case CUDA_R_64F:
            return "f64";
        case CUDA_R_16F:
            return "f16";
        case CUDA_R_16BF:
            return "bf16";
        default:
            return "another type";
    }
}

/* Keeps `kept` of the 23 bits of the fraction, to the nearest, ties to even. */
static uint32_t round_bits(float value, unsigned kept) {
    const uint32_t bits = bits_of_f32(value), drop = 23 - kept;
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
            return double_of_half(half);
        default:
            memcpy(&half, p, sizeof half);
            return (double)f32_of_bits((uint32_t)half << 16);
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
            half = half_of_double(value);
            break;
        default:
            half = (uint16_t)(round_bits(single, 7) >> 16);
    }
    memcpy(p, &half, sizeof half);
}

double fake_tf32(double value) { return (double)f32_of_bits(round_bits((float)value, 10)); }
