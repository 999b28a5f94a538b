/* SPDX-License-Identifier: Apache-2.0
 *
 * See planes.h. LANES and PLANES are given by the build.
 */
#include "planes.h"

#include "activate.h"
#include "vectors.h"

#if LANES == 16
#define ACTIVATE activate_v4
#else
#define ACTIVATE activate_v3
#endif

enum { SUMS = 8 }; /* vectors that are added up at once, in one row or several */

/* What a part of a plane is computed of: the copy of what its windows see, and its weights. The
 * columns that windows see with a step of the stride lie beside each other in a line; lines of the
 * columns before and behind them follow those of all rows. */
typedef struct patch {
    const window_job *job;
    const float *weight, *residual;
    float *y; /* its first result */
    float bias;
    cpu_activation activation;
    int64_t rows, columns; /* of results */
    int flows; /* rows are computed as a whole: what is written behind one, the next overwrites */
    int64_t height, pitch; /* of lines */
    float *lines;
    int64_t *tap; /* where what a column of the window sees begins */
} patch;

INLINE int64_t within(int64_t at, int64_t most) { return at < 0 ? 0 : at < most ? at : most; }

/* Every step-th column of the rows from `top` on, the first of them number `left`: zeros beyond the
 * image. Up to LANES - 1 floats behind the lines may be zeros afterwards. */
INLINE void copy_lines(const patch *p, const float *x, int64_t top, int64_t left,
                       const int64_t step, float *to) {
    const int64_t width = p->job->width, count = p->pitch,
                  begin = within((step - 1 - left) / step, count),
                  end = within((width - 1 - left + step) / step, count);
    x += top * width + left;
    for (int64_t i = 0; i < p->height; i++, x += width, to += count) {
        const int is_there = top + i >= 0 && top + i < p->job->height;
        int64_t t = is_there ? begin : 0;
        for (int64_t at = 0; at < t; at += LANES) store(to + at, (vec){0});
        if (is_there && step <= 2) {
            for (; t < end; t += LANES)
                store(to + t,
                      step == 2 ? load_evens(x + t * step, end - t) : load_part(x + t, end - t));
        } else if (is_there) {
            for (; t < end; t++) to[t] = x[t * step];
        }
        for (; t < count; t += LANES) store(to + t, (vec){0});
    }
}

/* Of the plane x, what windows from this row and column of the image on see. */
static void copy_patch(const patch *p, const float *x, int64_t top, int64_t left) {
    const int64_t step = p->job->stride[1];
    for (int64_t at = 0; at < step; at++) {
        float *to = p->lines + at * p->height * p->pitch;
        if (step == 1) {
            copy_lines(p, x, top, left + at, 1, to);
        } else if (step == 2) {
            copy_lines(p, x, top, left + at, 2, to);
        } else {
            copy_lines(p, x, top, left + at, step, to);
        }
    }
}

/* Results from a row and column of the patch on. */
INLINE void compute(const patch *p, int64_t row, int64_t column, const int rows,
                    const int vectors) {
    const window_job *job = p->job;
    const int64_t next = job->stride[0] * p->pitch, down = job->dilation[0] * p->pitch;
    const float *weight = p->weight, *from[SUMS];
    vec sums[SUMS];
    UNROLL for (int r = 0; r < rows; r++) from[r] = p->lines + (row + r) * next + column;
    UNROLL for (int s = 0; s < rows * vectors; s++) sums[s] = all(p->bias);
    for (int64_t i = 0; i < job->kh; i++) {
        for (int64_t j = 0; j < job->kw; j++) {
            const vec w = all(*weight++);
            const int64_t tap = p->tap[j];
            UNROLL for (int s = 0; s < rows * vectors; s++) sums[s] +=
                load(from[s / vectors] + tap + s % vectors * LANES) * w;
        }
        UNROLL for (int r = 0; r < rows; r++) from[r] += down;
    }
    for (int s = 0; s < rows * vectors; s++) {
        const int64_t at = column + s % vectors * LANES,
                      to = (row + s / vectors) * job->out_width + at, left = p->columns - at,
                      rest = p->rows * job->out_width - to;
        vec sum = sums[s];
        if (p->residual) sum += load_part(p->residual + to, left);
        store_part(p->y + to, activate(sum, &p->activation), p->flows ? rest : left);
    }
}

/* Columns of so many vectors. */
INLINE void compute_columns(const patch *p, int64_t column, const int vectors) {
    int64_t row = 0;
    for (; row + SUMS / vectors <= p->rows; row += SUMS / vectors)
        compute(p, row, column, SUMS / vectors, vectors);
    for (; row < p->rows; row++) compute(p, row, column, 1, vectors);
}

static void find_taps(patch *p) {
    const window_job *job = p->job;
    for (int64_t j = 0, line = 0, steps = 0; j < job->kw; j++) {
        p->tap[j] = line * p->height * p->pitch + steps;
        for (line += job->dilation[1]; line >= job->stride[1]; line -= job->stride[1]) steps++;
    }
}

/* What windows see of the plane x, from this row and column on, is added to what the patch has. */
static void compute_patch(patch *p, const float *x, int64_t top, int64_t left) {
    p->flows = p->columns == p->job->out_width && p->residual != p->y &&
               (p->columns <= 2 * LANES || (p->columns > 3 * LANES && p->columns <= 4 * LANES));
    copy_patch(p, x, top, left);
    for (int64_t c = 0; c < p->columns;) {
        const int64_t rest = (p->columns - c + LANES - 1) / LANES;
        if (rest >= 4) {
            compute_columns(p, c, 4);
            c += 4 * LANES;
        } else if (rest >= 2) {
            compute_columns(p, c, 2);
            c += 2 * LANES;
        } else {
            compute_columns(p, c, 1);
            c += LANES;
        }
    }
}

/* Part number `at` of plane number `plane`, which windows see in the planes from x on: of volumes
 * one after the other, each adding to the results. Windows beyond all of them see rows behind one.
 */
static void compute_part(patch *p, const float *x, int64_t plane, int64_t at) {
    const window_job *job = p->job;
    const int64_t rows = planes_rows(job), columns = planes_columns(job),
                  across = (job->out_width + columns - 1) / columns, row = at / across * rows,
                  column = at % across * columns;
    const int64_t first = (plane * job->out_height + row) * job->out_width + column,
                  top = row * job->stride[0] - job->pad[0],
                  left = column * job->stride[1] - job->pad[1],
                  front = plane % job->out_depth * job->stride_d - job->pad_d;
    const window_range seen = window_range_at(front, job->kd, job->dilation_d, job->depth);
    const float *weight = p->weight;
    int64_t tap[PLANES_MOST_TAPS], t = seen.begin;
    p->y = job->y + first;
    p->residual = job->residual ? job->residual + first : NULL;
    p->rows = job->out_height - row < rows ? job->out_height - row : rows;
    p->columns = job->out_width - column < columns ? job->out_width - column : columns;
    p->pitch = planes_pitch(job, columns);
    p->height = (p->rows - 1) * job->stride[0] + (job->kh - 1) * job->dilation[0] + 1;
    p->tap = tap;
    find_taps(p);
    do {
        const int is_there = t < seen.end;
        const int64_t z = is_there ? front + t * job->dilation_d : 0;
        p->weight = weight + (is_there ? t : 0) * job->kh * job->kw;
        p->activation = t + 1 >= seen.end ? job->activation : (cpu_activation){0};
        compute_patch(p, x + z * job->height * job->width, is_there ? top : job->height, left);
        p->residual = p->y;
        p->bias = 0;
    } while (++t < seen.end);
}

void PLANES(const window_job *job, int64_t part) {
    const int64_t parts = planes_parts(job), plane = part / parts, channel = plane / job->out_depth,
                  k = channel % job->k, seen = channel / job->k * job->c + k / (job->k / job->c);
    const float *x = job->x + seen * job->depth * job->height * job->width;
    float lines[PLANES_ROOM + LANES];
    patch p;
    p.job = job;
    p.lines = lines;
    p.weight = job->weight + k * job->kd * job->kh * job->kw;
    p.bias = job->bias ? job->bias[k] : 0;
    compute_part(&p, x, plane, part % parts);
    if (!cpu_activates(job->activation.kind))
        activate_rows(ACTIVATE, p.y, job->out_width, p.rows, p.columns, &job->activation);
}
