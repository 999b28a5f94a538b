/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of convolutions as dot products, with vectors of 16 floats.
 */
#include <string.h>

#define LANES 16
#include "dots.h"
#include "vectors.h"

/* ---- packing ---- */

void dots_pack(const window_job *job, const float *weight, float *packed) {
    const int64_t block = dots_block(job->k), runs = dots_runs(job), run = dots_run(job),
                  padded = dots_padded(run), taps = job->kh * job->kw;
    memset(packed, 0, (size_t)dots_packed(job) * sizeof *packed);
    for (int64_t at = 0; at < job->k * job->c * taps; at++) {
        const int64_t k = at / (job->c * taps), c = at / taps % job->c, h = at % taps / job->kw,
                      w = at % job->kw;
        const int64_t r = runs == 1 ? 0 : w, along = runs == 1 ? w * job->c + c : c;
        const int64_t row = ((k / block * job->kh + h) * runs + r) * block + k % block;
        packed[row * padded + along] = weight[at];
    }
}

/* ---- sums ---- */

typedef struct window {
    window_range rows, runs, floats; /* of each run */
} window;

/* Channels of the result. */
typedef struct block {
    const float *weight;
    vec bias; /* for all neighbours */
    int64_t first, count;
} block;

/* Lanes [neighbour][channel] of some memory [neighbour][job->k]. */
INLINE vec gather(const float *from, int64_t stride, int64_t live, const int k, const int count) {
    float lanes[LANES] = {0};
    if (stride == k) return load_part(from, k * count);
    for (int p = 0; p < count; p++)
        for (int64_t m = 0; m < live; m++) lanes[p * k + m] = from[p * stride + m];
    return load(lanes);
}

INLINE void scatter(float *to, vec v, int64_t stride, int64_t live, const int k, const int count) {
    float lanes[LANES];
    if (stride == k) {
        store_part(to, v, k * count);
        return;
    }
    store(lanes, v);
    UNROLL for (int p = 0; p < count; p++) {
        if (live == k) {
            memcpy(to + p * stride, lanes + p * k, (size_t)k * sizeof *to);
        } else {
            for (int64_t m = 0; m < live; m++) to[p * stride + m] = lanes[p * k + m];
        }
    }
}

/* The next floats of a run, for `count` neighbours and `k` channels. */
INLINE void add(vec *sums, const float *x, int64_t step, const float *weight, int64_t padded,
                int64_t floats, const int k, const int count) {
    vec weights[DOTS_MOST];
    UNROLL for (int m = 0; m < k; m++) weights[m] = load_part(weight + m * padded, floats);
    UNROLL for (int p = 0; p < count; p++) {
        const vec value = load_part(x + p * step, floats);
        UNROLL for (int m = 0; m < k; m++) sums[p * k + m] += value * weights[m];
    }
}

/* `count` neighbours whose windows lie within the image alike. */
INLINE void put(const window_job *job, const block *b, const window *in, const float *x, int64_t y,
                const int k, const int count) {
    const int64_t c = job->c, padded = dots_padded(dots_run(job)), runs = dots_runs(job),
                  step = job->stride[1] * c;
    vec sums[LANES];
    UNROLL for (int i = 0; i < LANES; i++) sums[i] = (vec){0};
    for (int64_t i = in->rows.begin; i < in->rows.end; i++) {
        for (int64_t j = in->runs.begin; j < in->runs.end; j++) {
            const float *from = x + (i * job->dilation[0] * job->width + j * job->dilation[1]) * c;
            const float *weight = b->weight + (i * runs + j) * k * padded;
            int64_t at = in->floats.begin;
            for (; at + LANES <= in->floats.end; at += LANES)
                add(sums, from + at, step, weight + at, padded, LANES, k, count);
            if (at < in->floats.end)
                add(sums, from + at, step, weight + at, padded, in->floats.end - at, k, count);
        }
    }
    vec result = sum_lanes(sums) + b->bias;
    if (job->residual) result += gather(job->residual + y, job->k, b->count, k, count);
    scatter(job->y + y, activate(result, &job->activation), job->k, b->count, k, count);
}

INLINE block block_of(const window_job *job, int64_t first, const int k) {
    const int64_t left = job->k - first;
    block b = {
        .weight = job->weight + first * job->kh * dots_runs(job) * dots_padded(dots_run(job)),
        .first = first,
        .count = left < k ? left : k};
    float lanes[LANES] = {0};
    for (int i = 0; i < LANES; i++)
        if (job->bias && i % k < b.count) lanes[i] = job->bias[first + i % k];
    b.bias = load(lanes);
    return b;
}

INLINE void part_of(const window_job *job, int64_t part, const int k) {
    const int together = LANES / k;
    const int64_t row = part / window_parts(job), first = part % window_parts(job) * job->part,
                  end = first + job->part < job->out_width ? first + job->part : job->out_width;
    const int64_t image = row / job->out_height, h = row % job->out_height;
    const int64_t top = h * job->stride[0] - job->pad[0], last = (job->kw - 1) * job->dilation[1];
    const float *x = job->x + (image * job->height + top) * job->width * job->c;
    window in = {.rows = window_range_at(top, job->kh, job->dilation[0], job->height)};
    for (int64_t channel = 0; channel < job->k; channel += k) {
        const block b = block_of(job, channel, k);
        for (int64_t w = first; w < end;) {
            const int64_t left = w * job->stride[1] - job->pad[1],
                          right = left + (together - 1) * job->stride[1] + last,
                          y = (row * job->out_width + w) * job->k + channel;
            const int whole = left >= 0 && right < job->width && w + together <= end;
            const window_range taps =
                whole ? (window_range){0, job->kw}
                      : window_range_at(left, job->kw, job->dilation[1], job->width);
            in.runs = dots_runs(job) == 1 ? (window_range){0, 1} : taps;
            in.floats = dots_runs(job) == 1 ? (window_range){taps.begin * job->c, taps.end * job->c}
                                            : (window_range){0, job->c};
            if (whole) {
                put(job, &b, &in, x + left * job->c, y, k, together);
            } else {
                put(job, &b, &in, x + left * job->c, y, k, 1);
            }
            w += whole ? together : 1;
        }
    }
}

void dots_part(const window_job *job, int64_t part) {
    switch (dots_block(job->k)) {
        case 1:
            part_of(job, part, 1);
            break;
        case 2:
            part_of(job, part, 2);
            break;
        default:
            part_of(job, part, DOTS_MOST);
            break;
    }
}
