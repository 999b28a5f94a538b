/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of 3x3 by Winograd's F(4x4, 3x3), as in Lavin and Gray, "Fast Algorithms for
 * Convolutional Neural Networks" (2015): tiles of 4x4 results from tiles of 6x6 pixels, with 36
 * multiplications for each result of a tile in place of 144. The points are 0, +-1/sqrt 2, +-sqrt 2
 * and infinity, whose rounding errors are about twice those of direct sums.
 */
#ifndef DHOW_PLUGINS_CPU_WINOGRAD_H_
#define DHOW_PLUGINS_CPU_WINOGRAD_H_

#include <stdint.h>

#include "activation.h"

enum { WINOGRAD_POINTS = 36, WINOGRAD_SIDE = 6, WINOGRAD_RESULTS = 4 };

/* How an image lies: vectors of channels, as wide as the instruction set has them. */
typedef struct winograd_image {
    int64_t height, width, channels;
    int64_t pixel, vector, image; /* elements from one to the next */
} winograd_image;

typedef struct winograd_job {
    winograd_image from, to; /* to: also the residual's */
    int64_t top, left;       /* padding */
    int64_t tiles_down, tiles_across;
    const float *x, *weight; /* the weight as winograd_pack() leaves it */
    const float *bias, *residual;
    float *y;
    cpu_activation activation;
} winograd_job;

/* The work on tiles, compiled for an instruction set. Their channels are a multiple of `lanes`
 * where images lie in blocks. */
typedef struct winograd_tiles {
    int64_t lanes, panel; /* channels of a vector, and of a result that is computed at once */
    int64_t most;         /* tiles of a call; others than a multiple of rows() waste time */
    int64_t (*rows)(int64_t k);
    /* Tiles first .. first+count-1 of all images; `room` holds winograd_room() floats. */
    void (*run)(const winograd_job *job, int64_t first, int64_t count, float *room);
} winograd_tiles;

extern const winograd_tiles winograd_tiles_v3, winograd_tiles_v4;

static inline int64_t winograd_padded(int64_t channels, int64_t lanes) {
    return (channels + lanes - 1) / lanes * lanes;
}

/* Rows of images' transforms lie so far apart that they do not meet in a cache. */
static inline int64_t winograd_row(int64_t c, int64_t lanes) {
    return winograd_padded(c, lanes) + 16;
}

static inline int64_t winograd_room(const winograd_tiles *t, int64_t c, int64_t count) {
    return WINOGRAD_POINTS * count * (winograd_row(c, t->lanes) + t->panel);
}

/* The floats of a packed weight[k][c][3][3], and packing: [panel][point][c][k of the panel]. */
static inline int64_t winograd_packed(const winograd_tiles *t, int64_t k, int64_t c) {
    return WINOGRAD_POINTS * c * winograd_padded(k, t->lanes);
}

void winograd_pack(const winograd_tiles *t, const float *weight, int64_t k, int64_t c, float *to);

/* One result without the transforms, for tiles that do not stay finite in them: channel k at row,
 * column, before bias and activation. */
float winograd_direct(const winograd_job *job, const winograd_tiles *t, const float *x, int64_t k,
                      int64_t row, int64_t column);

#endif
