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

/* Divides planes into parts of so many rows and columns; none where the copy of what one row sees
 * has no room. A line of the copy has every stride-th column of an image: as many lines for a row
 * as the stride is. */
static inline void planes_divide(window_job *job) {
    job->parts = 0;
    if (job->out_height < 1 || job->out_width < 1) return;
    job->columns = job->out_width < PLANES_COLUMNS ? job->out_width : PLANES_COLUMNS;
    job->pitch = job->columns + (job->kw - 1) * job->dilation[1] / job->stride[1];
    const int64_t lines = PLANES_ROOM / (job->pitch * job->stride[1]) -
                          (job->kh - 1) * job->dilation[0],
                  rows = lines < 1 ? 0 : (lines - 1) / job->stride[0] + 1;
    job->rows = rows < job->out_height ? rows : job->out_height;
    job->across = (job->out_width + job->columns - 1) / job->columns;
    if (rows > 0) job->parts = (job->out_height + job->rows - 1) / job->rows * job->across;
}

/* Part number `part` of all planes' results, job->parts for each. */
void planes_v3(const window_job *job, int64_t part);
void planes_v4(const window_job *job, int64_t part);

#endif
