/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions by tiles of pixels and channels, of NHWC to NHWC or blocks of channels: for long
 * rows, of which oneDNN writes code for 40 ms that differs from one length to the next, and for
 * what it has no code for with AVX2.
 */
#ifndef DHOW_PLUGINS_CPU_TILES_H_
#define DHOW_PLUGINS_CPU_TILES_H_

#include "windows.h"

/* Compiled for an instruction set. */
typedef struct tiles {
    int lanes;
    /* A weight[k][c][kh][kw] as [k / lanes / 2][kh][kw][c][2 lanes], 0 for channels beyond k, of
     * which there are less than `lanes`. */
    void (*pack)(const window_job *job, const float *weight, float *packed);
    /* Part number `part` of the rows of all images' results, window_parts() for each row. */
    void (*part)(const window_job *job, int64_t part);
    /* The same of groups of TILES_GROUP channels each, of x and of y, both in blocks of `lanes`;
     * the weight[k][group][kh][kw] becomes [k / lanes][kh][kw][group][lanes]. NULL in tiles_v4. */
    void (*pack_groups)(const window_job *job, const float *weight, float *packed);
    void (*part_of_groups)(const window_job *job, int64_t part);
} tiles;
enum { TILES_PIXELS = 6 }; /* that tiles_v3 computes at once, of two vectors of channels each */
enum { TILES_GROUP = 4 };  /* lanes of a vector among which instructions deal without delay */
extern const tiles tiles_v3, tiles_v4;

static inline int64_t tiles_packed_groups(const window_job *job) {
    return job->k * job->kh * job->kw * TILES_GROUP;
}

static inline int64_t tiles_packed(const tiles *t, const window_job *job) {
    return (job->k + t->lanes - 1) / t->lanes * t->lanes * job->kh * job->kw * job->c;
}

#endif
