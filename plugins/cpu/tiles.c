/* SPDX-License-Identifier: Apache-2.0
 *
 * See tiles.h. LANES and TILES are given by the build.
 */
#include "tiles.h"

#include <string.h>

#include "vectors.h"

/* Sums that the registers hold: of so many pixels, two vectors of channels each or one. */
enum { WIDE = 2 * LANES, PIXELS = 12, PIXELS_WIDE = LANES == 16 ? 12 : TILES_PIXELS };

/* Channels that are computed at once, as one vector or two. */
typedef struct block {
    const float *weight;
    int64_t first, count;
} block;

static __attribute__((cold)) void pack(const window_job *job, const float *weight, float *packed) {
    const int64_t taps = job->kh * job->kw;
    memset(packed, 0, (size_t)tiles_packed(&TILES, job) * sizeof *packed);
    for (int64_t at = 0; at < job->k * job->c * taps; at++) {
        const int64_t k = at / (job->c * taps), c = at / taps % job->c, tap = at % taps;
        const int64_t first = k / WIDE * WIDE, wide = job->k - first > LANES ? WIDE : LANES;
        packed[first * taps * job->c + (tap * job->c + c) * wide + k - first] = weight[at];
    }
}

/* Sums [vector][pixel] become results. */
static __attribute__((noinline)) void finish(const window_job *job, const block *b,
                                             const float *sums, int64_t y, int pixels,
                                             int vectors) {
    for (int v = 0; v < vectors; v++) {
        const int64_t at = b->first + v * LANES, there = b->count - v * LANES;
        const vec bias = job->bias ? load_part(job->bias + at, there) : (vec){0};
        for (int p = 0; p < pixels; p++, sums += LANES) {
            const int64_t to = y + p * job->pixel + at / LANES * job->vector;
            vec sum = load(sums) + bias;
            if (job->residual) sum += load_part(job->residual + to, there);
            store_part(job->y + to, activate(sum, &job->activation), there);
        }
    }
}

/* Adds up what lies in some windows beside each other, all channels of x for each of y. */
INLINE void add_windows(const window_job *job, const block *b, window_range rows, window_range taps,
                        const float *x, vec sums[PIXELS][2], const int pixels, const int vectors) {
    const int64_t near = job->src_block, step = job->stride[1] * near,
                  next = job->height * job->width * near;
    const int64_t together = /* taps side by side */
        job->dilation[1] == 1 && near == job->c ? taps.end - taps.begin : 1;
    for (int64_t i = rows.begin; i < rows.end; i++) {
        for (int64_t j = taps.begin; j < taps.end; j += together) {
            const float *from =
                x + (i * job->dilation[0] * job->width + j * job->dilation[1]) * near;
            const float *weight = b->weight + (i * job->kw + j) * job->c * vectors * LANES;
            for (int64_t at = 0; at < job->c; at += near, from += next) {
                for (int64_t l = 0; l < together * near; l++, weight += vectors * LANES) {
                    vec beside[2];
                    UNROLL for (int v = 0; v < vectors; v++) beside[v] = load(weight + v * LANES);
                    UNROLL for (int p = 0; p < pixels; p++) {
                        const float value = from[p * step + l];
                        UNROLL for (int v = 0; v < vectors; v++) sums[p][v] += beside[v] * value;
                    }
                }
            }
        }
    }
}

#if LANES == 8
/* The same of the own group of each channel. */
INLINE void add_groups(const window_job *job, const block *b, window_range rows, window_range taps,
                       const float *x, vec sums[PIXELS][2], const int pixels) {
    const int64_t step = job->stride[1] * LANES;
    for (int64_t i = rows.begin; i < rows.end; i++) {
        for (int64_t j = taps.begin; j < taps.end; j++) {
            const float *from =
                x + (i * job->dilation[0] * job->width + j * job->dilation[1]) * LANES;
            const float *weight = b->weight + (i * job->kw + j) * TILES_GROUP * LANES;
#define ADD(l)                                                                          \
    {                                                                                   \
        const vec beside = load(weight + (l)*LANES);                                    \
        UNROLL for (int p = 0; p < pixels; p++) sums[p][0] +=                           \
            beside * (vec)_mm256_permute_ps((__m256)load(from + p * step), 0x55 * (l)); \
    }
            ADD(0) ADD(1) ADD(2) ADD(3)
        }
    }
}
#endif

/* The results of some pixels beside each other whose windows lie within the image alike. */
INLINE void put(const window_job *job, const block *b, window_range rows, window_range taps,
                const float *x, int64_t y, const int pixels, const int vectors, const int grouped) {
    vec sums[PIXELS][2];
    UNROLL for (int p = 0; p < pixels; p++) {
        UNROLL for (int v = 0; v < vectors; v++) sums[p][v] = (vec){0};
    }
#if LANES == 8
    if (grouped) add_groups(job, b, rows, taps, x, sums, pixels);
#endif
    if (!grouped) add_windows(job, b, rows, taps, x, sums, pixels, vectors);
    if (pixels > 1 && !grouped && job->residual == NULL &&
        job->activation.kind == DHOW_ACTIVATION_NONE) {
        UNROLL for (int v = 0; v < vectors; v++) {
            const int64_t at = b->first + v * LANES, there = b->count - v * LANES;
            const vec bias = job->bias ? load_part(job->bias + at, there) : (vec){0};
            float *to = job->y + y + at / LANES * job->vector;
            UNROLL for (int p = 0; p < pixels; p++)
                store_part(to + p * job->pixel, sums[p][v] + bias, there);
        }
        return;
    }
    float all[PIXELS_WIDE * WIDE]; /* short code: sums are few beside what they are made of */
    UNROLL for (int p = 0; p < pixels; p++) {
        UNROLL for (int v = 0; v < vectors; v++) store(all + (v * pixels + p) * LANES, sums[p][v]);
    }
    finish(job, b, all, y, pixels, vectors);
}

/* `c`: floats between neighbours of x, which lies there. */
INLINE void part_of_block(const window_job *job, int64_t part, const block *b, const float *x,
                          const int64_t c, const int vectors, const int grouped) {
    const int pixels = vectors == 1 ? PIXELS : PIXELS_WIDE;
    const int64_t row = part / window_parts(job), first = part % window_parts(job) * job->part,
                  end = first + job->part < job->out_width ? first + job->part : job->out_width;
    const int64_t image = row / job->out_height, h = row % job->out_height,
                  top = h * job->stride[0] - job->pad[0],
                  to = image * job->image + h * job->out_width * job->pixel;
    const int is_once = job->residual != NULL && job->residual == job->y; /* added where it lies */
    x += (image * job->c / c * job->height + top) * job->width * c;
    const window_range rows = window_range_at(top, job->kh, job->dilation[0], job->height);
    for (int64_t w = first; w < end;) {
        const window_run run = window_run_at(job, w, end);
        const int64_t begin = w;
        while (w < run.end) {
            const int whole = run.end - begin >= pixels && (run.end - w >= pixels || !is_once);
            if (whole && run.end - w < pixels) w = run.end - pixels; /* some a second time */
            const float *from = x + (w * job->stride[1] - job->pad[1]) * c;
            if (whole) {
                put(job, b, rows, run.taps, from, to + w * job->pixel, pixels, vectors, grouped);
                w += pixels;
            } else {
                put(job, b, rows, run.taps, from, to + w * job->pixel, 1, vectors, grouped);
                w++;
            }
        }
    }
}

static void compute_part(const window_job *job, int64_t part) {
    for (int64_t k = 0; k < job->k; k += WIDE) {
        const block b = {.weight = job->weight + k * job->kh * job->kw * job->c,
                         .first = k,
                         .count = job->k - k < WIDE ? job->k - k : WIDE};
        if (b.count > LANES) {
            part_of_block(job, part, &b, job->x, job->src_block, 2, 0);
        } else {
            part_of_block(job, part, &b, job->x, job->src_block, 1, 0);
        }
    }
}

#if LANES == 8
static __attribute__((cold)) void pack_groups(const window_job *job, const float *weight,
                                              float *packed) {
    const int64_t taps = job->kh * job->kw;
    for (int64_t at = 0; at < job->k * TILES_GROUP * taps; at++) {
        const int64_t k = at / (TILES_GROUP * taps), c = at / taps % TILES_GROUP, tap = at % taps;
        packed[((k / LANES * taps + tap) * TILES_GROUP + c) * LANES + k % LANES] = weight[at];
    }
}

static void part_of_groups(const window_job *job, int64_t part) {
    for (int64_t k = 0; k < job->k; k += LANES) {
        const block b = {.weight = job->weight + k * job->kh * job->kw * TILES_GROUP,
                         .first = k,
                         .count = LANES};
        part_of_block(job, part, &b, job->x + k * job->height * job->width, LANES, 1, 1);
    }
}
#endif

const tiles TILES = {
#if LANES == 8 /* beyond that oneDNN has code of its own */
    .pack_groups = pack_groups,
    .part_of_groups = part_of_groups,
#endif
    .lanes = LANES,
    .pack = pack,
    .part = compute_part};
