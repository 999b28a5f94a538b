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

enum { TALL = 8, FEW = 4 }; /* rows that are computed at once; fewer pay one by one */

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
    int64_t height; /* lines */
    float *lines;
    int64_t *tap; /* where what a column of the window sees begins */
} patch;

INLINE int64_t within(int64_t at, int64_t most) { return at < 0 ? 0 : at < most ? at : most; }

/* Of the floats p[0], p[step] .. those from number `begin` to `end` - 1, at their places, and
 * zeros; no others are read. */
INLINE vec load_between(const float *p, int64_t begin, int64_t end, const int64_t step) {
    if (step == 1) return (vec)LOAD_MASKED(p, mask_between(begin, end));
    if (step > 2) {
        float lanes[LANES] = {0};
        for (int64_t i = within(begin, LANES); i < end && i < LANES; i++) lanes[i] = p[i * step];
        return load(lanes);
    }
    const vec a = (vec)LOAD_MASKED(p, mask_between(2 * begin, 2 * end - 1)),
              b = (vec)LOAD_MASKED(p + LANES, mask_between(2 * begin - LANES, 2 * end - 1 - LANES));
    return EVENS(a, b);
}

/* Every step-th column of the rows from `top` on, the first of them number `left`: zeros beyond the
 * image. Up to LANES - 1 floats behind the lines may be zeros afterwards: the last vectors come
 * first, as the next line overwrites what is behind one. */
INLINE void copy_lines(const patch *p, const float *x, int64_t top, int64_t left,
                       const int64_t step, float *to) {
    const int64_t width = p->job->width, pitch = p->job->pitch, height = p->height,
                  begin = (step - 1 - left) / step, end = (width - 1 - left + step) / step,
                  first = within(-top, height), last = within(p->job->height - top, height);
    x += top * width + left;
    for (int64_t t = (pitch - 1) / LANES * LANES; t >= 0; t -= LANES) {
        for (int64_t i = 0; i < height; i++) {
            const int is_there = i >= first && i < last;
            store(to + i * pitch + t,
                  is_there ? load_between(x + i * width + t * step, begin - t, end - t, step)
                           : (vec){0});
        }
    }
}

/* Of the plane x, what windows from this row and column of the image on see. */
static void copy_patch(const patch *p, const float *x, int64_t top, int64_t left) {
    const int64_t step = p->job->stride[1];
    for (int64_t at = 0; at < step; at++) {
        float *to = p->lines + at * p->height * p->job->pitch;
        if (step == 1) {
            copy_lines(p, x, top, left + at, 1, to);
        } else if (step == 2) {
            copy_lines(p, x, top, left + at, 2, to);
        } else {
            copy_lines(p, x, top, left + at, step, to);
        }
    }
}

/* The results of a vector of columns, of so many rows from `top` on, that are from row `row` on,
 * and not behind the last one. */
static __attribute__((noinline)) void put(const patch *p, const vec *sums, int rows, int64_t top,
                                          int64_t row, int64_t column) {
    const int64_t width = p->job->out_width, left = p->columns - column;
    for (int r = (int)(row - top); r < rows; r++) {
        const int64_t to = (top + r) * width + column, rest = p->rows * width - to;
        if (rest <= 0) break;
        vec sum = sums[r];
        if (p->residual) sum += load_part(p->residual + to, left);
        store_part(p->y + to, activate(sum, &p->activation), p->flows ? rest : left);
    }
}

/* One vector of columns of TALL rows. */
static __attribute__((noinline)) void compute_tall(const patch *p, int64_t top, int64_t row,
                                                   int64_t column) {
    const window_job *job = p->job;
    const int64_t next = job->stride[0] * job->pitch, down = job->dilation[0] * p->job->pitch;
    const float *weight = p->weight, *line = p->lines + top * next + column;
    vec sums[TALL];
    UNROLL for (int r = 0; r < TALL; r++) sums[r] = all(p->bias);
    for (int64_t i = 0; i < job->kh; i++, line += down) {
        for (int64_t j = 0; j < job->kw; j++) {
            const vec w = all(*weight++);
            const float *from = line + p->tap[j], *half = from + TALL / 2 * next;
            UNROLL for (int r = 0; r < TALL; r++) sums[r] +=
                load((r < TALL / 2 ? from : half) + r % (TALL / 2) * next) * w;
        }
    }
    put(p, sums, TALL, top, row, column);
}

/* The same of windows of so many rows, one below the other: what is loaded is part of as many
 * results. */
INLINE void compute_dense(const patch *p, int64_t top, int64_t row, int64_t column, const int kh) {
    const int64_t pitch = p->job->pitch, kw = p->job->kw;
    const float *line = p->lines + top * pitch + column;
    vec sums[TALL];
    UNROLL for (int r = 0; r < TALL; r++) sums[r] = all(p->bias);
    for (int64_t j = 0; j < kw; j++) {
        const float *from = line + p->tap[j];
        vec w[5];
        UNROLL for (int i = 0; i < kh; i++) w[i] = all(p->weight[i * kw + j]);
        UNROLL for (int q = 0; q < TALL + kh - 1; q++) {
            const vec x = load(from + q * pitch);
            UNROLL for (int i = 0; i < kh; i++) if (q >= i && q - i < TALL) sums[q - i] += x * w[i];
        }
    }
    put(p, sums, TALL, top, row, column);
}

static __attribute__((noinline)) void compute_3(const patch *p, int64_t top, int64_t row,
                                                int64_t column) {
    compute_dense(p, top, row, column, 3);
}

static __attribute__((noinline)) void compute_5(const patch *p, int64_t top, int64_t row,
                                                int64_t column) {
    compute_dense(p, top, row, column, 5);
}

/* So many vectors of columns of one row. */
INLINE void compute_row(const patch *p, int64_t row, int64_t column, const int vectors) {
    const window_job *job = p->job;
    const int64_t down = job->dilation[0] * job->pitch;
    const float *weight = p->weight, *line = p->lines + row * job->stride[0] * job->pitch + column;
    vec sums[4];
    UNROLL for (int v = 0; v < vectors; v++) sums[v] = all(p->bias);
    for (int64_t i = 0; i < job->kh; i++, line += down) {
        for (int64_t j = 0; j < job->kw; j++) {
            const vec w = all(*weight++);
            UNROLL for (int v = 0; v < vectors; v++) sums[v] +=
                load(line + p->tap[j] + v * LANES) * w;
        }
    }
    UNROLL for (int v = 0; v < vectors; v++) put(p, sums + v, 1, row, row, column + v * LANES);
}

static void compute_rows(const patch *p) {
    for (int64_t row = 0; row < p->rows; row++) {
        int64_t c = 0;
        for (; c + 3 * LANES < p->columns; c += 4 * LANES) compute_row(p, row, c, 4);
        for (; c < p->columns; c += LANES) compute_row(p, row, c, 1);
    }
}

/* The last rows together with some before them, or behind them where there are none. The last
 * columns come first: what is written behind a row is overwritten. */
static void compute_together(const patch *p) {
    const window_job *job = p->job;
    const int dense = job->stride[0] == 1 && job->dilation[0] == 1;
    for (int64_t c = (p->columns - 1) / LANES * LANES; c >= 0; c -= LANES) {
        for (int64_t row = 0; row < p->rows; row += TALL) {
            const int64_t top = within(p->rows - TALL, row);
            if (dense && job->kh == 3)
                compute_3(p, top, row, c);
            else if (dense && job->kh == 5)
                compute_5(p, top, row, c);
            else
                compute_tall(p, top, row, c);
        }
    }
}

static void find_taps(patch *p) {
    const window_job *job = p->job;
    for (int64_t j = 0, line = 0, steps = 0; j < job->kw; j++) {
        p->tap[j] = line * p->height * job->pitch + steps;
        for (line += job->dilation[1]; line >= job->stride[1]; line -= job->stride[1]) steps++;
    }
}

/* What windows see of the plane x, from this row and column on, is added to what the patch has. */
static void compute_patch(patch *p, const float *x, int64_t top, int64_t left) {
    const window_job *job = p->job;
    const int64_t rows_behind = p->rows < TALL ? (TALL - p->rows) * job->stride[0] : 0,
                  used = (p->height * job->stride[1] + rows_behind) * job->pitch;
    p->flows = p->columns == job->out_width && p->residual != p->y;
    copy_patch(p, x, top, left);
    if (p->rows > (p->columns > LANES ? FEW : 1) && used <= PLANES_ROOM)
        compute_together(p);
    else
        compute_rows(p);
}

/* Part number `at` of the results of a plane, which windows see in the planes from x on, of volumes
 * from number `front` on: one after the other, each adding to the results. Windows beyond all of
 * them see rows behind one. */
static void compute_part(patch *p, const float *x, int64_t plane, int64_t front, int64_t at) {
    const window_job *job = p->job;
    const int64_t rows = job->rows, columns = job->columns, across = job->across,
                  down = at == 0 ? 0 : at / across, row = down * rows,
                  column = (at - down * across) * columns;
    const int64_t first = (plane * job->out_height + row) * job->out_width + column,
                  top = row * job->stride[0] - job->pad[0],
                  left = column * job->stride[1] - job->pad[1];
    const window_range seen = window_range_at(front, job->kd, job->dilation_d, job->depth);
    const float *weight = p->weight;
    int64_t tap[PLANES_MOST_TAPS], t = seen.begin;
    p->y = job->y + first;
    p->residual = job->residual ? job->residual + first : NULL;
    p->rows = job->out_height - row < rows ? job->out_height - row : rows;
    p->columns = job->out_width - column < columns ? job->out_width - column : columns;
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
    /* Divisions take as long as a small plane. */
    const int64_t parts = job->parts, plane = parts == 1 ? part : part / parts,
                  channel = job->out_depth == 1 ? plane : plane / job->out_depth,
                  image = channel / job->k, k = channel - image * job->k,
                  seen = image * job->c + (job->k == job->c ? k : k / (job->k / job->c));
    const float *x = job->x + seen * job->depth * job->height * job->width;
    float lines[PLANES_ROOM + LANES];
    patch p;
    p.job = job;
    p.lines = lines;
    p.weight = job->weight + k * job->kd * job->kh * job->kw;
    p.bias = job->bias ? job->bias[k] : 0;
    compute_part(&p, x, plane, (plane - channel * job->out_depth) * job->stride_d - job->pad_d,
                 part - plane * parts);
    if (!cpu_activates(job->activation.kind))
        activate_rows(ACTIVATE, p.y, job->out_width, p.rows, p.columns, &job->activation);
}
