/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of each channel by itself, of plain images: oneDNN has code for blocks of channels
 * alone, and multiplies matrices of one row for others.
 */
#ifndef DHOW_PLUGINS_CPU_PLANES_H_
#define DHOW_PLUGINS_CPU_PLANES_H_

#include "windows.h"

/* Results that are computed of one copy of what their windows see, which has up to PLANES_ROOM
 * floats: so many rows of a plane, and columns of these. */
enum { PLANES_ROOM = 8192, PLANES_COLUMNS = 128, PLANES_MOST_TAPS = 64 /* of a row */ };

/* Floats of a line of the copy, which has every stride-th column of an image: as many lines for a
 * row as the stride is. */
static inline int64_t planes_pitch(const window_job *job, int64_t columns) {
    return columns + (job->kw - 1) * job->dilation[1] / job->stride[1] + 1;
}

static inline int64_t planes_columns(const window_job *job) {
    const int64_t most = job->out_width < PLANES_COLUMNS ? job->out_width : PLANES_COLUMNS;
    return (most + 15) / 16 * 16; /* whole vectors */
}

/* Rows of results; 0 where the copy of what one of them sees has no room. */
static inline int64_t planes_rows(const window_job *job) {
    const int64_t row = planes_pitch(job, planes_columns(job)) * job->stride[1],
                  lines = PLANES_ROOM / row - (job->kh - 1) * job->dilation[0],
                  rows = lines < 1 ? 0 : (lines - 1) / job->stride[0] + 1;
    return rows < job->out_height ? rows : job->out_height;
}

/* Of a plane of results. */
static inline int64_t planes_parts(const window_job *job) {
    const int64_t rows = planes_rows(job), columns = planes_columns(job);
    return (job->out_height + rows - 1) / rows * ((job->out_width + columns - 1) / columns);
}

/* Part number `part` of all planes' results, planes_parts() for each. */
void planes_v3(const window_job *job, int64_t part);
void planes_v4(const window_job *job, int64_t part);

#endif
