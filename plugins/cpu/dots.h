/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions as dot products, NHWC: vectors run along what is summed up, the channels and, where
 * windows are not dilated, also the taps beside each other. For results of few channels, which
 * would leave most of a vector empty, and for long windows over few channels.
 */
#ifndef DHOW_PLUGINS_CPU_DOTS_H_
#define DHOW_PLUGINS_CPU_DOTS_H_

#include "windows.h"

enum { DOTS_LANES = 16, DOTS_MOST = 4 /* channels of the result that are computed at once */ };

/* A row of a window is so many runs of so many floats that lie beside each other. */
static inline int64_t dots_runs(const window_job *job) {
    return job->dilation[1] == 1 ? 1 : job->kw;
}
static inline int64_t dots_run(const window_job *job) {
    return job->dilation[1] == 1 ? job->kw * job->c : job->c;
}

static inline int64_t dots_padded(int64_t floats) {
    return (floats + DOTS_LANES - 1) / DOTS_LANES * DOTS_LANES;
}

static inline int64_t dots_block(int64_t k) { return k < 3 ? k : DOTS_MOST; }

/* The floats of a packed weight[k][c][kh][kw], and packing: [k / block][kh][runs][block][run], with
 * 0 behind each run and for channels beyond k. */
static inline int64_t dots_packed(const window_job *job) {
    const int64_t block = dots_block(job->k);
    return (job->k + block - 1) / block * block * job->kh * dots_runs(job) *
           dots_padded(dots_run(job));
}
void dots_pack(const window_job *job, const float *weight, float *packed);

/* Part number `part` of the rows of all images' results, window_parts() for each row. */
void dots_part(const window_job *job, int64_t part);

#endif
