/* SPDX-License-Identifier: Apache-2.0
 *
 * A Feistel network over the next even number of bits, walked until it falls below the count
 * (cycle walking: Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002).
 */
#include "data/order.h"

#include <stddef.h>

#include "base/memory/array.h"
#include "base/memory/splitmix64.h"

/* Over fewer elements the network's permutations are far from equally likely. */
enum { LEAST_HALF_BITS = 4 };

dhowi_order dhowi_order_make(uint64_t count, bool shuffle, uint64_t seed, uint64_t epoch) {
    dhowi_order order = {.count = count};
    if (!shuffle || count < 2) return order;
    order.half_bits = LEAST_HALF_BITS;
    while (order.half_bits < 32 && (count - 1) >> (2 * order.half_bits) != 0) order.half_bits++;
    uint64_t state = dhowi_splitmix64(seed) + epoch;
    for (int i = 0; i < DHOWI_ORDER_ROUNDS; i++)
        order.keys[i] = dhowi_splitmix64(state += DHOWI_SPLITMIX64_STEP);
    return order;
}

static uint64_t encipher(const dhowi_order *order, uint64_t x) {
    uint64_t mask = (UINT64_C(1) << order->half_bits) - 1;
    uint64_t left = x >> order->half_bits, right = x & mask;
    for (int i = 0; i < DHOWI_ORDER_ROUNDS; i++) {
        uint64_t next = left ^ (dhowi_splitmix64(right + order->keys[i]) >> 32 & mask);
        left = right;
        right = next;
    }
    return left << order->half_bits | right;
}

dhowi_order dhowi_order_draw(const dhowi_odds *odds, uint64_t draws, uint64_t seed,
                             uint64_t epoch) {
    dhowi_order order = {.odds = odds, .count = draws};
    order.keys[0] = dhowi_splitmix64(dhowi_splitmix64(seed) + epoch);
    return order;
}

/* The first sample whose sum lies above a number of 53 bits between 0 and the whole. */
static uint64_t draw(const dhowi_order *order, uint64_t position) {
    const dhowi_odds *odds = order->odds;
    const uint64_t bits = dhowi_splitmix64(order->keys[0] + position * DHOWI_SPLITMIX64_STEP);
    const double point = (double)(bits >> 11) * 0x1p-53 * odds->sums[odds->count - 1];
    uint64_t sample;
    DHOWI_FIRST_ABOVE(sample, odds->sums, odds->count, point);
    return sample;
}

uint64_t dhowi_order_at(const dhowi_order *order, uint64_t position) {
    if (order->odds != NULL) return draw(order, position);
    if (order->half_bits == 0) return position;
    uint64_t x = position;
    do {
        x = encipher(order, x);
    } while (x >= order->count);
    return x;
}
