/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions that are computed without oneDNN, NHWC, and their plans.
 */
#ifndef DHOW_PLUGINS_CPU_WINDOWS_H_
#define DHOW_PLUGINS_CPU_WINDOWS_H_

#include <stdint.h>

#include "activation.h"

typedef struct window_job {
    int64_t height, width, c, k;   /* of x; channels of x and y */
    int64_t out_height, out_width; /* of y */
    int64_t kh, kw;
    int64_t stride[2], dilation[2], pad[2]; /* top, left */
    /* Of volumes, by planes; 1, 1, 1, 1, 1, 0 of images. */
    int64_t depth, out_depth, kd, stride_d, dilation_d, pad_d;
    /* By planes, see planes_divide(): results of a part of a plane; its parts, and those beside
     * each other; floats of a line of the copy. */
    int64_t rows, columns, parts, across, pitch;
    int64_t part;                 /* neighbours of a row that are computed at a time */
    int64_t src_block;            /* channels of x that lie beside each other, a part of c */
    int64_t pixel, vector, image; /* floats of y between neighbours, vectors of channels, images */
    const float *x, *weight;      /* the weight as it is packed */
    const float *bias, *residual;
    float *y;
    cpu_activation activation;
} window_job;

static inline int64_t window_parts(const window_job *job) {
    return (job->out_width + job->part - 1) / job->part;
}

/* Of what a window has in one direction, what lies within the image. */
typedef struct window_range {
    int64_t begin, end;
} window_range;

static inline window_range window_range_at(int64_t first, int64_t count, int64_t step,
                                           int64_t extent) {
    window_range t = {0, count};
    while (t.begin < count && first + t.begin * step < 0) t.begin++;
    while (t.end > t.begin && first + (t.end - 1) * step >= extent) t.end--;
    return t;
}

/* Neighbours of a row, from pixel w to `end` - 1, whose windows have the same taps within it. */
typedef struct window_run {
    window_range taps;
    int64_t end;
} window_run;

static inline window_run window_run_at(const window_job *job, int64_t w, int64_t end) {
    const int64_t step = job->dilation[1], left = w * job->stride[1] - job->pad[1];
    const window_range taps = window_range_at(left, job->kw, step, job->width);
    int64_t alike = job->out_width * job->stride[1]; /* until the last leaves, or another enters */
    if (taps.end > taps.begin) alike = job->width - 1 - left - (taps.end - 1) * step;
    const int64_t before = -(left + (taps.begin - 1) * step) - 1;
    if (taps.begin > 0 && before < alike) alike = before;
    const int64_t next = w + alike / job->stride[1] + 1;
    return (window_run){taps, next < end ? next : end};
}

#endif
