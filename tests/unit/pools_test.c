/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling of random images by the built-in kernels, plain and with channels in blocks, against sums
 * in double.
 */
#include <math.h>

#include "device_fixture.h"
#include "numbers_fixture.h"

TestSuite(pools, .init = open_device, .fini = close_device);

/* Of planes[h][w][block]; mode: 0 maximum, 1 mean of the pixels inside, 2 mean of all. */
typedef struct pool {
    int64_t planes, block, h, w, oh, ow, kernel[2], stride[2], pad[2];
    int32_t mode;
} pool;

static uint32_t draw(uint32_t *state) { return (*state = *state * 1664525u + 1013904223u) >> 8; }

static int64_t between(uint32_t *state, int64_t low, int64_t high) {
    return low + draw(state) % (high - low + 1);
}

/* False where it has no result. Some rows are longer than what is held at once. */
static bool draw_pool(uint32_t *state, int64_t block, pool *p) {
    const bool is_long = draw(state) % 6 == 0;
    *p = (pool){.planes = between(state, 1, 3),
                .block = block,
                .h = is_long ? between(state, 1, 4) : between(state, 1, 20),
                .w = is_long ? between(state, 60, 1500) : between(state, 1, 20),
                .kernel = {between(state, 1, 5), is_long && draw(state) % 2 ? between(state, 1, 700)
                                                                            : between(state, 1, 5)},
                .stride = {between(state, 1, 3), between(state, 1, 4)},
                .mode = (int32_t)between(state, 0, block == 1 ? 1 : 2)};
    int64_t out[2];
    for (int i = 0; i < 2; i++) {
        p->pad[i] = between(state, 0, p->kernel[i] + 1);
        const int64_t extent = i == 0 ? p->h : p->w,
                      rest = extent + p->pad[i] + between(state, 0, 4) - p->kernel[i];
        if (rest < 0) return false;
        out[i] = rest / p->stride[i] + 1;
    }
    p->oh = out[0];
    p->ow = out[1];
    return p->planes * block * p->h * p->w < 50000;
}

static double want_at(const pool *p, const float *x, int64_t i) {
    const int64_t q = i % p->block, ox = i / p->block % p->ow, oy = i / (p->block * p->ow) % p->oh,
                  plane = i / (p->block * p->ow * p->oh);
    double sum = 0, largest = -INFINITY;
    int64_t pixels = 0;
    for (int64_t t = 0; t < p->kernel[0] * p->kernel[1]; t++) {
        const int64_t r = oy * p->stride[0] - p->pad[0] + t / p->kernel[1],
                      c = ox * p->stride[1] - p->pad[1] + t % p->kernel[1];
        if (r < 0 || r >= p->h || c < 0 || c >= p->w) continue;
        const double v = x[((plane * p->h + r) * p->w + c) * p->block + q];
        if (!isnan(largest) && !(largest >= v)) largest = v; /* a NaN stays */
        sum += v;
        pixels++;
    }
    if (pixels == 0) return 0;
    return p->mode == 0   ? largest
           : p->mode == 1 ? sum / (double)pixels
                          : sum / (double)(p->kernel[0] * p->kernel[1]);
}

static void launch(const pool *p, const dhow_tensor *x, dhow_tensor *y) {
    dhow_kernel *kernel;
    const char *name = p->block > 1   ? "pool_blocks_f32"
                       : p->mode == 0 ? "maxpool2d_f32"
                                      : "avgpool2d_f32";
    OK(dhow_kernel_get(g_device, name, &kernel));
    dhow_value values[15] = {DHOW_ARG(x), DHOW_ARG(y), DHOW_ARG(p->planes)};
    const int64_t extents[] = {p->h,         p->w,         p->oh,        p->ow,     p->kernel[0],
                               p->kernel[1], p->stride[0], p->stride[1], p->pad[0], p->pad[1]};
    uint32_t count = 3;
    if (p->block > 1) values[count++] = DHOW_ARG(p->block);
    for (int i = 0; i < 10; i++) values[count++] = DHOW_ARG(extents[i]);
    if (p->block > 1) values[count++] = DHOW_ARG(p->mode);
    OK(dhow_launch_values(NULL, kernel, p->planes * p->block * p->oh * p->ow, count, values));
    dhow_kernel_release(kernel);
}

static void check(const pool *p, uint32_t *state) {
    const int64_t count = p->planes * p->h * p->w * p->block,
                  results = p->planes * p->oh * p->ow * p->block;
    float *x = numbers(count), *got = malloc((size_t)results * sizeof *got);
    dhow_tensor *from, *to;
    if (draw(state) % 3 == 0) x[draw(state) % count] = NAN;
    OK(dhow_tensor_from_data(g_device, DHOW_F32, DHOW_SHAPE(count), x, &from));
    OK(dhow_tensor_create(g_device, DHOW_F32, DHOW_SHAPE(results), &to));
    launch(p, from, to);
    OK(dhow_tensor_read(to, got, (size_t)results * sizeof *got));
    for (int64_t i = 0; i < results; i++) {
        const double want = want_at(p, x, i);
        cr_assert(
            isnan(want) ? isnan(got[i]) : fabs(got[i] - want) <= 1e-5,
            "%d planes of %d x %d, blocks of %d, window %d x %d, stride %d, %d, padding %d, %d, "
            "mode %d: result %d is %.9g, not %.9g",
            (int)p->planes, (int)p->h, (int)p->w, (int)p->block, (int)p->kernel[0],
            (int)p->kernel[1], (int)p->stride[0], (int)p->stride[1], (int)p->pad[0], (int)p->pad[1],
            p->mode, (int)i, (double)got[i], want);
    }
    dhow_tensor_release(from);
    dhow_tensor_release(to);
    free(x), free(got);
}

Test(pools, are_those_of_their_windows, .timeout = 120) {
    static const int64_t blocks[] = {1, 8, 1, 16, 24, 3, 72};
    uint32_t state = 5;
    int checked = 0;
    for (int round = 0; round < 900; round++) {
        pool p;
        if (!draw_pool(&state, blocks[round % 7], &p)) continue;
        check(&p, &state);
        checked++;
    }
    cr_assert_gt(checked, 300);
}
