/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers by a formula that the scripts beside the tests have as well (train_losses.py,
 * batchnorm.py).
 */
#ifndef TESTS_UNIT_HASH_FIXTURE_H_
#define TESTS_UNIT_HASH_FIXTURE_H_

#include <stdint.h>

/* The finalizer of MurmurHash3 */
static inline uint32_t mix(uint32_t x) {
    x = (x ^ x >> 16) * UINT32_C(0x85ebca6b);
    x = (x ^ x >> 13) * UINT32_C(0xc2b2ae35);
    return x ^ x >> 16;
}

/* -1 <= x < 1, a multiple of 2^-23 */
static inline double number(uint32_t series, uint32_t i) {
    return (mix(i + (series << 20)) >> 8) * 0x1p-23 - 1;
}

#endif /* TESTS_UNIT_HASH_FIXTURE_H_ */
