/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of convolutions to few channels, with vectors of 16 floats.
 */
#define LANES 16
#include "narrow.h"
#include "vectors.h"

/* Neighbours of a row that are computed together, so that sums do not wait for one another. */
#define TOGETHER(k) ((k) == 1 ? 8 : 4)

/* Taps of a result that lie within the image, in one direction. */
typedef struct taps {
    int64_t begin, end;
} taps;

static taps taps_at(int64_t first, int64_t count, int64_t step, int64_t extent) {
    taps t = {0, count};
    while (t.begin < count && first + t.begin * step < 0) t.begin++;
    while (t.end > t.begin && first + (t.end - 1) * step >= extent) t.end--;
    return t;
}

/* `count` neighbours, whose windows all have these taps, and their `k` channels. */
INLINE void put(const narrow_job *job, const float *x, taps down, taps across, float *y,
                const float *residual, const int k, const int count) {
    const int64_t c = job->c, padded = narrow_padded(c), step = job->stride[1] * c;
    vec sums[16];
    UNROLL for (int i = 0; i < count * k; i++) sums[i] = (vec){0};
    for (int64_t i = down.begin; i < down.end; i++) {
        for (int64_t j = across.begin; j < across.end; j++) {
            const float *from = x + (i * job->dilation[0] * job->width + j * job->dilation[1]) * c;
            const float *weight = job->weight + (i * job->kw + j) * k * padded;
            for (int64_t at = 0; at < c; at += LANES) {
                vec weights[NARROW_MOST];
                UNROLL for (int m = 0; m < k; m++) weights[m] = load(weight + m * padded + at);
                UNROLL for (int p = 0; p < count; p++) {
                    const vec value = load_part(from + p * step + at, c - at);
                    UNROLL for (int m = 0; m < k; m++) sums[p * k + m] += value * weights[m];
                }
            }
        }
    }
    vec result = {0};
    UNROLL for (int i = 0; i < count * k; i++) {
        result[i] = _mm512_reduce_add_ps((__m512)sums[i]);
        if (job->bias) result[i] += job->bias[i % k];
    }
    if (residual) result += load_part(residual, count * k);
    store_part(y, activate(result, &job->activation), count * k);
}

INLINE void row_of(const narrow_job *job, int64_t row, const int k) {
    const int64_t image = row / job->out_height, h = row % job->out_height;
    const int64_t top = h * job->stride[0] - job->pad[0], last = (job->kw - 1) * job->dilation[1];
    const taps down = taps_at(top, job->kh, job->dilation[0], job->height);
    const float *x = job->x + (image * job->height + top) * job->width * job->c;
    for (int64_t w = 0; w < job->out_width;) {
        const int64_t left = w * job->stride[1] - job->pad[1], at = (row * job->out_width + w) * k;
        const int64_t right = left + (TOGETHER(k) - 1) * job->stride[1];
        const float *residual = job->residual ? job->residual + at : (const float *)0;
        if (left >= 0 && right + last < job->width && w + TOGETHER(k) <= job->out_width) {
            const taps across = {0, job->kw};
            put(job, x + left * job->c, down, across, job->y + at, residual, k, TOGETHER(k));
            w += TOGETHER(k);
        } else {
            const taps across = taps_at(left, job->kw, job->dilation[1], job->width);
            put(job, x + left * job->c, down, across, job->y + at, residual, k, 1);
            w++;
        }
    }
}

void narrow_row(const narrow_job *job, int64_t row) {
    switch (job->k) {
        case 1:
            row_of(job, row, 1);
            break;
        case 2:
            row_of(job, row, 2);
            break;
        case 3:
            row_of(job, row, 3);
            break;
        default:
            row_of(job, row, 4);
            break;
    }
}
