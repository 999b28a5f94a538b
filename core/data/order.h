/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of an epoch: a permutation of 0 .. count-1 that is computed, not stored, so that a
 * shuffle of a billion samples costs no memory and any worker can ask for any position. It depends
 * on seed and epoch alone.
 */
#ifndef DHOWI_DATA_ORDER_H_
#define DHOWI_DATA_ORDER_H_

#include <stdbool.h>
#include <stdint.h>

enum { DHOWI_ORDER_ROUNDS = 8 };

/* Odds of samples: drawn with replacement, each position by itself. */
typedef struct dhowi_odds {
    uint64_t count; /* up to the last that is not 0 */
    double sums[];  /* of the weights up to and with each */
} dhowi_odds;

typedef struct dhowi_order {
    const dhowi_odds *odds; /* NULL: a permutation */
    uint64_t count;
    uint32_t half_bits; /* 0: the natural order */
    uint64_t keys[DHOWI_ORDER_ROUNDS];
} dhowi_order;

dhowi_order dhowi_order_make(uint64_t count, bool shuffle, uint64_t seed, uint64_t epoch);
dhowi_order dhowi_order_draw(const dhowi_odds *odds, uint64_t draws, uint64_t seed, uint64_t epoch);
/* What is at a position, 0 <= position < count. */
uint64_t dhowi_order_at(const dhowi_order *order, uint64_t position);

#endif /* DHOWI_DATA_ORDER_H_ */
