/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of u8 by i8 with AVX2, exact ones: of bytes by bytes where two products, or four, stay
 * within 16 bits whatever the u8 are, which the weights tell when they are packed. Four terms of a
 * row, a quad, are multiplied at once.
 */
#ifndef DHOW_PLUGINS_CPU_BYTE_QUADS_H_
#define DHOW_PLUGINS_CPU_BYTE_QUADS_H_

#include "byte_sums.h"

/* How a quad (of all results of a panel) is added up: the sums of products that stay within 16 bits
 * for any u8. */
enum {
    BYTE_QUADS_TWOS,    /* of two quads: terms 0 and 1 of both, 2 and 3 of both */
    BYTE_QUADS_ONES,    /* terms 0 and 1, 2 and 3 */
    BYTE_QUADS_FLIPPED, /* the same, of 255 - x and -w in place of some x and w */
    BYTE_QUADS_TURNED,  /* and with others beside each other */
    BYTE_QUADS_WIDE,    /* none: as 16 bits */
    BYTE_QUADS_KINDS
};

/* Before a panel's weights, which lie [quad][result][4], flipped and turned as their quad is. */
typedef struct byte_quads_panel {
    int32_t sums[BYTE_SUMS_COLUMNS];   /* of a result's weights */
    int32_t start[BYTE_SUMS_COLUMNS];  /* 255 w of those that are flipped */
    int32_t counts[BYTE_SUMS_COLUMNS]; /* quads of each kind; the rest is unused */
    int32_t order[]; /* the quads, by kind; from bit BYTE_QUADS_WAY on how they are flipped and
                        turned */
} byte_quads_panel;

enum { BYTE_QUADS_WAY = 24 };

/* Bytes of a panel before its weights, a multiple of 64. */
static inline int64_t byte_quads_before(int64_t quads) {
    return (int64_t)sizeof(byte_quads_panel) + (quads + 15) / 16 * 64;
}

/* Bytes of a panel. */
static inline int64_t byte_quads_bytes(int64_t quads) {
    return byte_quads_before(quads) + quads * 4 * BYTE_SUMS_COLUMNS;
}

/* Makes all the rest of a panel whose weights lie in it as they are. */
void byte_quads_order_v3(byte_quads_panel *panel, int64_t quads);

/* Ways to flip and to turn a quad, 4 turn + flip: the second, the fourth, or both of its terms are
 * flipped; the third lies beside the first one, or the fourth. As masks, and orders of bytes. */
enum { BYTE_QUADS_FLIPS = 4, BYTE_QUADS_TURNS = 3 };
extern const uint32_t byte_quads_flips[BYTE_QUADS_FLIPS][8];
extern const uint8_t byte_quads_turns[BYTE_QUADS_TURNS][32];

/* Bytes of a quad's weights, and of those of the first eight results. */
enum { BYTE_QUADS_HALF = 32, BYTE_QUADS_SIZE = 2 * BYTE_QUADS_HALF };

/* Of u8 rows by panels of i8 weights. */
void byte_sums_quads_v3(const byte_sums_job *job, int64_t first, int64_t end);

#endif
