/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of pools, of planes and of blocks of channels, against double references: windows of any
 * extent and stride, beyond what they hold at once, in part or all outside the image, and with NaN.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#include "kernel_support.h"

static const element k_types[] = {E_F16, E_BF16, E_F64}; /* blocks: the first two */
enum { MAXIMUM, MEAN, MEAN_WITH_PADDING };

typedef struct pool {
    int64_t planes, block, h, w, oh, ow, kh, kw, stride_h, stride_w, top, left;
} pool;

static double pooled(element type, const void *x, const pool *p, int64_t plane, int64_t oy,
                     int64_t ox, int64_t channel, int mode) {
    double sum = mode == MAXIMUM ? -INFINITY : 0;
    int64_t pixels = 0;
    for (int64_t iy = oy * p->stride_h - p->top, y1 = iy + p->kh; iy < y1; iy++) {
        for (int64_t ix = ox * p->stride_w - p->left, x1 = ix + p->kw; ix < x1; ix++) {
            if (iy < 0 || iy >= p->h || ix < 0 || ix >= p->w) continue;
            const double v = element_get(
                type, x, (size_t)(((plane * p->h + iy) * p->w + ix) * p->block + channel));
            pixels++;
            if (mode != MAXIMUM) {
                sum += v;
            } else if (isnan(v) || v > sum) {
                sum = isnan(sum) ? sum : v;
            }
        }
    }
    if (pixels == 0 || mode == MAXIMUM) return pixels == 0 ? 0 : sum;
    return sum / (double)(mode == MEAN ? pixels : p->kh * p->kw);
}

static void check(element type, pool p, int32_t mode, bool in_blocks) {
    char name[64];
    const int64_t count = p.planes * p.oh * p.ow * p.block, all = p.planes * p.h * p.w * p.block;
    void *x = scratch_values(type, (size_t)all, -3, 3);
    if (mode == MAXIMUM) element_set(type, x, (size_t)all / 3, NAN);
    void *y = scratch_values(type, (size_t)count, 7, 9);
    double *want = scratch((size_t)count * sizeof *want), *to = want;
    for (int64_t plane = 0; plane < p.planes; plane++)
        for (int64_t oy = 0; oy < p.oh; oy++)
            for (int64_t ox = 0; ox < p.ow; ox++)
                for (int64_t channel = 0; channel < p.block; channel++)
                    *to++ = pooled(type, x, &p, plane, oy, ox, channel, mode);
    (void)snprintf(name, sizeof name, "%s_%s",
                   in_blocks         ? "pool_blocks"
                   : mode == MAXIMUM ? "maxpool2d"
                                     : "avgpool2d",
                   element_names[type]);
    void *of_blocks[] = {&x,    &y,    &p.planes,   &p.block,    &p.h,   &p.w,    &p.oh, &p.ow,
                         &p.kh, &p.kw, &p.stride_h, &p.stride_w, &p.top, &p.left, &mode};
    void *of_planes[] = {&x,    &y,    &p.planes,   &p.h,        &p.w,   &p.oh,  &p.ow,
                         &p.kh, &p.kw, &p.stride_h, &p.stride_w, &p.top, &p.left};
    expect_all_builds(name, type, in_blocks ? of_blocks : of_planes, 1, want, (size_t)count,
                      mode == MAXIMUM ? 0 : 2e-6);
    release_all();
}

static uint32_t next(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 12;
}

/* One of several extents, by dice. */
static int64_t one_of(uint32_t *seed, const int64_t *choices, size_t count) {
    return choices[next(seed) % count];
}
#define ONE_OF(seed, ...) \
    one_of(seed, (int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* Windows that begin `left` before an image and end behind it at most as far, or further. */
static int64_t results(uint32_t *seed, int64_t extent, int64_t window, int64_t stride,
                       int64_t left) {
    const int64_t fits = (extent + 2 * left - window) / stride + 1;
    return fits < 1 ? 1 : fits + (next(seed) % 8 == 0);
}

static pool any_pool(uint32_t *seed) {
    pool p = {.planes = ONE_OF(seed, 1, 2, 5), .block = 1};
    p.kh = ONE_OF(seed, 1, 2, 3, 3, 5, 7);
    p.kw = ONE_OF(seed, 1, 2, 3, 3, 5, 7, 13);
    p.stride_h = ONE_OF(seed, 1, 1, 2, 2, 3);
    p.stride_w = ONE_OF(seed, 1, 1, 2, 2, 3, 5);
    p.top = next(seed) % (uint32_t)(p.kh + 1);
    p.left = next(seed) % (uint32_t)(p.kw + 1);
    p.h = ONE_OF(seed, 1, 2, 5, 7, 14, 30);
    p.w = ONE_OF(seed, 1, 3, 7, 8, 14, 17, 31, 56);
    p.oh = results(seed, p.h, p.kh, p.stride_h, p.top);
    p.ow = results(seed, p.w, p.kw, p.stride_w, p.left);
    return p;
}

Test(kernels_pools, windows_of_planes) {
    uint32_t seed = 7;
    for (int i = 0; i < 300; i++) {
        const pool p = any_pool(&seed);
        check(i % 4 == 3 ? k_types[i / 4 % 3] : E_F32, p, i / 4 % 2 == 0 ? MAXIMUM : MEAN, false);
    }
}

Test(kernels_pools, windows_of_blocks_of_channels) {
    uint32_t seed = 11;
    for (int i = 0; i < 300; i++) {
        pool p = any_pool(&seed);
        p.block = ONE_OF(&seed, 8, 16, 16, 24, 32, 64, 96, 200, 3);
        check(i % 4 == 3 ? k_types[i / 4 % 2] : E_F32, p, i / 4 % 3, true);
    }
}

Test(kernels_pools, rows_and_windows_beyond_what_is_held_at_once) {
    for (int32_t mode = MAXIMUM; mode <= MEAN; mode++) {
        check(E_F32, (pool){2, 1, 3, 5000, 2, 2501, 2, 3, 1, 2, 0, 2}, mode, false);
        check(E_F32, (pool){1, 1, 2, 4500, 1, 4500, 2, 9, 1, 1, 0, 4}, mode, false);
        check(E_F32, (pool){1, 1, 2, 1500, 1, 701, 2, 600, 1, 3, 0, 601}, mode, false);
        check(E_F32, (pool){1, 1, 4, 3000, 2, 4, 2, 10, 2, 900, 0, 0}, mode, false);
        check(E_F32, (pool){1, 1, 9, 9, 2, 2, 700, 700, 3, 3, 350, 350}, mode, false);
        check(E_F32, (pool){1, 64, 3, 300, 3, 298, 3, 3, 1, 1, 1, 0}, mode, true);
        check(E_F32, (pool){1, 16, 2, 200, 2, 101, 1, 100, 1, 1, 0, 0}, mode, true);
        check(E_F32, (pool){1, 64, 2, 90, 2, 2, 1, 31, 1, 40, 0, 0}, mode, true);
    }
}
