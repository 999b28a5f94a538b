/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers that look random, computed from other numbers: the mixing of splitmix64 (Steele, Lea and
 * Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
 */
#ifndef DHOWI_BASE_SPLITMIX64_H_
#define DHOWI_BASE_SPLITMIX64_H_

#include <stdint.h>

#define DHOWI_SPLITMIX64_STEP \
    UINT64_C(0x9e3779b97f4a7c15) /* between the states of successive numbers */

static inline uint64_t dhowi_splitmix64(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

#endif /* DHOWI_BASE_SPLITMIX64_H_ */
