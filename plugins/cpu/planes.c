/* SPDX-License-Identifier: Apache-2.0
 *
 * See planes.h. LANES and PLANES are given by the build.
 */
#include "planes.h"

#include <string.h>

#include "activate.h"
#include "vectors.h"

#if LANES == 16
#define ACTIVATE activate_v4
#else
#define ACTIVATE activate_v3
#endif

enum { SUMS = 8 }; /* vectors that are added up at once, in one row or several */

/* What a part of a plane is computed of: the copy of what its windows see, and its weights. */
typedef struct patch {
    const window_job *job;
    const float *weight, *residual;
    float *y; /* its first result */
    float bias;
    int64_t rows, columns; /* of results */
    int64_t phase, pitch;
    int64_t tap[PLANES_MOST_TAPS]; /* where what a column of the window sees begins in a line */
    float *lines;
} patch;

/* Element t of a line is that of x at first + t step, 0 beyond the image. */
static void copy_line(const float *x, int64_t width, int64_t first, int64_t step, int64_t count,
                      float *to) {
    int64_t begin = first < 0 ? (-first + step - 1) / step : 0,
            end = first < width ? (width - 1 - first) / step + 1 : 0;
    if (begin > count) begin = count;
    if (end > count) end = count;
    if (end < begin) end = begin;
    memset(to, 0, (size_t)begin * sizeof *to);
    if (step == 1) {
        memcpy(to + begin, x + first + begin, (size_t)(end - begin) * sizeof *to);
    } else {
        for (int64_t t = begin; t < end; t++) to[t] = x[first + t * step];
    }
    memset(to + end, 0, (size_t)(count - end) * sizeof *to);
}

/* Of the plane x, what windows from this row and column of the image on see. */
static void copy_lines(patch *p, const float *x, int64_t top, int64_t left) {
    const window_job *job = p->job;
    const int64_t count = (p->rows - 1) * job->stride[0] + (job->kh - 1) * job->dilation[0] + 1;
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = top + i;
        float *line = p->lines + i * p->pitch;
        if (row < 0 || row >= job->height) {
            memset(line, 0, (size_t)p->pitch * sizeof *line);
            continue;
        }
        for (int64_t at = 0; at < job->stride[1]; at++)
            copy_line(x + row * job->width, job->width, left + at, job->stride[1], p->phase,
                      line + at * p->phase);
    }
}

/* Results from a row and column of the patch on. */
INLINE void compute(const patch *p, int64_t row, int64_t column, const int rows,
                    const int vectors) {
    const window_job *job = p->job;
    const int64_t next = job->stride[0] * p->pitch;
    const float *from = p->lines + row * next + column, *weight = p->weight;
    vec sums[SUMS];
    UNROLL for (int s = 0; s < rows * vectors; s++) sums[s] = all(p->bias);
    for (int64_t i = 0; i < job->kh; i++, from += job->dilation[0] * p->pitch) {
        for (int64_t j = 0; j < job->kw; j++) {
            const vec w = all(*weight++);
            const float *seen = from + p->tap[j];
            UNROLL for (int s = 0; s < rows * vectors; s++) sums[s] +=
                load(seen + s / vectors * next + s % vectors * LANES) * w;
        }
    }
    for (int s = 0; s < rows * vectors; s++) {
        const int64_t at = column + s % vectors * LANES, left = p->columns - at,
                      to = (row + s / vectors) * job->out_width + at;
        vec sum = sums[s];
        if (p->residual) sum += load_part(p->residual + to, left);
        store_part(p->y + to, activate(sum, &job->activation), left);
    }
}

/* Columns of so many vectors. */
INLINE void compute_columns(const patch *p, int64_t column, const int vectors) {
    int64_t row = 0;
    for (; row + SUMS / vectors <= p->rows; row += SUMS / vectors)
        compute(p, row, column, SUMS / vectors, vectors);
    for (; row < p->rows; row++) compute(p, row, column, 1, vectors);
}

void PLANES(const window_job *job, int64_t part) {
    const int64_t parts = planes_parts(job), plane = part / parts, rows = planes_rows(job),
                  columns = planes_columns(job), across = (job->out_width + columns - 1) / columns,
                  row = part % parts / across * rows, column = part % parts % across * columns,
                  image = plane / job->k, k = plane % job->k,
                  first = (plane * job->out_height + row) * job->out_width + column;
    float lines[PLANES_ROOM];
    patch p = {.job = job,
               .lines = lines,
               .weight = job->weight + k * job->kh * job->kw,
               .y = job->y + first,
               .residual = job->residual ? job->residual + first : NULL,
               .bias = job->bias ? job->bias[k] : 0,
               .rows = job->out_height - row < rows ? job->out_height - row : rows,
               .columns = job->out_width - column < columns ? job->out_width - column : columns,
               .phase = planes_phase(job, columns)};
    p.pitch = p.phase * job->stride[1];
    for (int64_t j = 0; j < job->kw; j++)
        p.tap[j] =
            j * job->dilation[1] % job->stride[1] * p.phase + j * job->dilation[1] / job->stride[1];
    copy_lines(&p, job->x + (image * job->c + k / (job->k / job->c)) * job->height * job->width,
               row * job->stride[0] - job->pad[0], column * job->stride[1] - job->pad[1]);
    for (int64_t at = 0; at < p.columns;) {
        const int64_t left = (p.columns - at + LANES - 1) / LANES;
        if (left >= 4) {
            compute_columns(&p, at, 4);
            at += 4 * LANES;
        } else if (left >= 2) {
            compute_columns(&p, at, 2);
            at += 2 * LANES;
        } else {
            compute_columns(&p, at, 1);
            at += LANES;
        }
    }
    if (!cpu_activates(job->activation.kind))
        activate_rows(ACTIVATE, p.y, job->out_width, p.rows, p.columns, &job->activation);
}
