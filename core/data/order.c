/* SPDX-License-Identifier: Apache-2.0
 *
 * A Feistel network over the next even number of bits, walked until it falls below the count
 * (cycle walking: Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002).
 */
#include "data/order.h"

#include "base/memory/mix.h"

/* Over fewer elements the network's permutations are far from equally likely. */
enum { LEAST_HALF_BITS = 4 };

dhowi_order dhowi_order_make(uint64_t count, bool shuffle, uint64_t seed, uint64_t epoch) {
    dhowi_order order = {.count = count};
    if (!shuffle || count < 2) return order;
    order.half_bits = LEAST_HALF_BITS;
    while (order.half_bits < 32 && (count - 1) >> (2 * order.half_bits) != 0) order.half_bits++;
    uint64_t state = dhowi_mix(seed) + epoch;
    for (int i = 0; i < DHOWI_ORDER_ROUNDS; i++) order.keys[i] = dhowi_mix(state += DHOWI_MIX_STEP);
    return order;
}

static uint64_t encipher(const dhowi_order *order, uint64_t x) {
    uint64_t mask = (UINT64_C(1) << order->half_bits) - 1;
    uint64_t left = x >> order->half_bits, right = x & mask;
    for (int i = 0; i < DHOWI_ORDER_ROUNDS; i++) {
        uint64_t next = left ^ (dhowi_mix(right + order->keys[i]) >> 32 & mask);
        left = right;
        right = next;
    }
    return left << order->half_bits | right;
}

uint64_t dhowi_order_at(const dhowi_order *order, uint64_t position) {
    if (order->half_bits == 0) return position;
    uint64_t x = position;
    do {
        x = encipher(order, x);
    } while (x >= order->count);
    return x;
}
