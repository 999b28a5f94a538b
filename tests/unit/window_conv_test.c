/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions as dot products and by tiles, and activations, against results in double.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numbers_fixture.h"
#include "plugins/cpu/activate.h"
#include "plugins/cpu/dots.h"
#include "plugins/cpu/tiles.h"

static int64_t extent(int64_t n, int64_t kernel, int64_t stride, int64_t dilation, int64_t pads) {
    return (n + pads - (kernel - 1) * dilation - 1) / stride + 1;
}

/* Where channel c of a pixel of an image of x is. */
static int64_t seen_at(const window_job *j, int64_t n, int64_t pixel, int64_t c) {
    const int64_t image = j->height * j->width, block = j->src_block;
    return n * image * j->c + (c / block * image + pixel) * block + c % block;
}

static double sum_at(const window_job *j, const float *weight, int64_t n, int64_t h, int64_t w,
                     int64_t k) {
    double sum = j->bias[k];
    for (int64_t t = 0; t < j->kh * j->kw; t++) {
        const int64_t y = h * j->stride[0] - j->pad[0] + t / j->kw * j->dilation[0];
        const int64_t x = w * j->stride[1] - j->pad[1] + t % j->kw * j->dilation[1];
        if (y < 0 || y >= j->height || x < 0 || x >= j->width) continue;
        for (int64_t c = 0; c < j->c; c++)
            sum += (double)j->x[seen_at(j, n, y * j->width + x, c)] *
                   weight[(k * j->c + c) * j->kh * j->kw + t];
    }
    return sum;
}

static int64_t packed_by_tiles_v3(const window_job *j) { return tiles_packed(&tiles_v3, j); }
static int64_t packed_by_tiles_v4(const window_job *j) { return tiles_packed(&tiles_v4, j); }

typedef struct way {
    int64_t (*packed)(const window_job *job);
    void (*pack)(const window_job *job, const float *weight, float *packed);
    void (*part)(const window_job *job, int64_t part);
    int64_t lanes; /* of the blocks that it can write; 0 for none */
} way;

/* Where channel k of a place of the first image is, in blocks or NHWC. */
static int64_t place_of(const window_job *j, int64_t place, int64_t k, int64_t lanes) {
    return place * j->pixel + k / lanes * j->vector + k % lanes;
}

static void expect_rows(const way *by, window_job *j, int64_t images) {
    const int64_t image = j->out_height * j->out_width;
    const int in_blocks = by->lanes > 0 && j->k % by->lanes == 0 && j->c != 1;
    const int64_t lanes = by->lanes > 0 ? by->lanes : j->k;
    j->pixel = in_blocks ? lanes : j->k;
    j->vector = in_blocks ? image * lanes : lanes;
    j->image = image * j->k;
    const int64_t places = images * j->out_height * j->out_width;
    float *x = numbers(images * j->height * j->width * j->c), *bias = numbers(j->k),
          *weight = numbers(j->k * j->c * j->kh * j->kw), *packed = numbers(by->packed(j)),
          *residual = numbers(places * j->k), *y = numbers(places * j->k);
    const int is_added = j->part % 2 == 0, in_place = j->part % 3 == 0;
    by->pack(j, weight, packed);
    j->x = x, j->weight = packed, j->bias = bias, j->y = y;
    j->residual = is_added ? (in_place ? y : residual) : NULL;
    memcpy(y, residual, (size_t)(places * j->k) * sizeof *y);
    for (int64_t p = 0; p < images * j->out_height * window_parts(j); p++) by->part(j, p);
    for (int64_t i = 0; i < places * j->k; i++) {
        const int64_t k = i % j->k, w = i / j->k % j->out_width,
                      h = i / j->k / j->out_width % j->out_height, n = i / j->k / image,
                      at = n * j->image + place_of(j, i / j->k % image, k, lanes);
        const double sum = sum_at(j, weight, n, h, w, k) + (is_added ? residual[at] : 0),
                     want = j->activation.kind == DHOW_ACTIVATION_RELU ? fmax(sum, 0) : sum;
        cr_assert_float_eq(y[at], want, 1e-5 + 1.2e-7 * (double)(j->c * j->kh * j->kw),
                           "k %d c %d %dx%d: element %d is %.9g, not %.9g", (int)j->k, (int)j->c,
                           (int)j->kh, (int)j->kw, (int)i, y[at], want);
    }
    free(x), free(bias), free(weight), free(packed), free(residual), free(y);
}

static void expect_all(const way *by) {
    static const int64_t windows[][2] = {{1, 1}, {3, 3}, {2, 5}, {1, 20}},
                         results[] = {1, 2, 3, 4, 8, 16, 45};
    for (int i = 0; i < 7 * 4 * 8; i++) {
        const int64_t *window = windows[i / 7 % 4], how = i / 28;
        const int far = how > 5 && window[1] < 20; /* windows reach far beyond the image */
        window_job j = {
            .height = 7,
            .width = 45,
            .c = how % 4 == 3   ? 1
                 : how % 4 == 2 ? 8 + how * 4
                                : 5 + how * 9,
            .k = results[i % 7],
            .kh = window[0],
            .kw = window[1],
            .stride = {1 + how % 2, 1 + how / 2 % 2},
            .dilation = {1 + how / 4 % 2, far ? 11 : 1 + how % 2},
            .pad = {how % 3, far ? 15 : how % 4},
            .part = 16 + 5 * (i % 3) + 2 * (i % 5),
            .activation = {how == 5 ? DHOW_ACTIVATION_NONE : DHOW_ACTIVATION_RELU, 0, 0}};
        j.out_height = extent(j.height, j.kh, j.stride[0], j.dilation[0], 2 * j.pad[0]);
        j.out_width = extent(j.width, j.kw, j.stride[1], j.dilation[1], 2 * j.pad[1]);
        j.src_block = j.c;
        expect_rows(by, &j, 2);
        for (j.src_block = 1; by->lanes > 0 && j.src_block <= 8; j.src_block += 7)
            if (j.c % j.src_block == 0) expect_rows(by, &j, 2);
    }
}

Test(window_conv, dots_equal_sums_in_double) {
    if (!__builtin_cpu_supports("avx512vl")) cr_skip_test("this processor has no AVX-512");
    expect_all(&(way){dots_packed, dots_pack, dots_part, 0});
}

Test(window_conv, tiles_equal_sums_in_double) {
    if (!__builtin_cpu_supports("avx2")) cr_skip_test("this processor has no AVX2");
    expect_all(&(way){packed_by_tiles_v3, tiles_v3.pack, tiles_v3.part, 8});
    if (__builtin_cpu_supports("avx512vl"))
        expect_all(&(way){packed_by_tiles_v4, tiles_v4.pack, tiles_v4.part, 16});
}

/* Groups of four channels, x and y in blocks of `lanes`. */
static void expect_groups(const tiles *t, window_job *j, int64_t images) {
    const int64_t from = j->height * j->width, to = j->out_height * j->out_width,
                  taps = j->kh * j->kw;
    j->pixel = t->lanes, j->vector = to * t->lanes, j->image = to * j->k;
    float *x = numbers(images * from * j->c), *bias = numbers(j->k),
          *weight = numbers(j->k * TILES_GROUP * taps), *packed = numbers(tiles_packed_groups(j)),
          *residual = numbers(images * j->image), *y = numbers(images * j->image);
    t->pack_groups(j, weight, packed);
    j->x = x, j->weight = packed, j->bias = bias, j->residual = j->part % 2 == 0 ? residual : NULL,
    j->y = y;
    for (int64_t p = 0; p < images * j->out_height * window_parts(j); p++) t->part_of_groups(j, p);
    for (int64_t i = 0; i < images * j->image; i++) {
        const int64_t n = i / j->image, k = i / to % j->k, h = i / j->out_width % j->out_height,
                      w = i % j->out_width;
        const int64_t at = n * j->image + place_of(j, h * j->out_width + w, k, t->lanes);
        double sum = bias[k] + (j->residual ? residual[at] : 0);
        for (int64_t l = 0; l < TILES_GROUP * taps; l++) {
            const int64_t c = k / TILES_GROUP * TILES_GROUP + l / taps,
                          row = h * j->stride[0] - j->pad[0] + l % taps / j->kw * j->dilation[0],
                          column = w * j->stride[1] - j->pad[1] + l % j->kw * j->dilation[1];
            if (row < 0 || row >= j->height || column < 0 || column >= j->width) continue;
            sum += (double)weight[k * TILES_GROUP * taps + l] *
                   x[n * from * j->c + (c / t->lanes * from + row * j->width + column) * t->lanes +
                     c % t->lanes];
        }
        if (j->activation.kind == DHOW_ACTIVATION_RELU) sum = fmax(sum, 0);
        cr_assert_float_eq(y[at], sum, 2e-5, "c %d %dx%d: element %d is %.9g, not %.9g", (int)j->c,
                           (int)j->kh, (int)j->kw, (int)i, y[at], sum);
    }
    free(x), free(bias), free(weight), free(packed), free(residual), free(y);
}

Test(window_conv, groups_equal_sums_in_double) {
    static const int64_t windows[][2] = {{1, 1}, {3, 3}, {2, 5}};
    if (!__builtin_cpu_supports("avx2")) cr_skip_test("this processor has no AVX2");
    for (int how = 0; how < 3 * 16; how++) {
        window_job j = {
            .height = 7,
            .width = 29,
            .c = 8 * (1 + how % 3),
            .kh = windows[how % 3][0],
            .kw = windows[how % 3][1],
            .stride = {1 + how / 3 % 2, 1 + how / 6 % 2},
            .dilation = {1 + how / 12 % 2, 1 + how / 3 % 2},
            .pad = {how % 3, how % 4},
            .part = 16 + 5 * (how % 2),
            .activation = {how % 5 == 0 ? DHOW_ACTIVATION_NONE : DHOW_ACTIVATION_RELU, 0, 0}};
        j.k = j.c;
        j.out_height = extent(j.height, j.kh, j.stride[0], j.dilation[0], 2 * j.pad[0]);
        j.out_width = extent(j.width, j.kw, j.stride[1], j.dilation[1], 2 * j.pad[1]);
        expect_groups(&tiles_v3, &j, 2);
    }
}

static double activated(uint32_t kind, double x) {
    switch (kind) {
        case DHOW_ACTIVATION_GELU:
            return x / 2 * erfc(-x / sqrt(2));
        case DHOW_ACTIVATION_GELU_TANH:
            return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
        case DHOW_ACTIVATION_NONE:
            return x;
        case DHOW_ACTIVATION_RELU:
            return fmax(x, 0);
        case DHOW_ACTIVATION_CLIP:
            return fmin(fmax(x, -2), 3);
        default:
            return x / (1 + exp(-x));
    }
}

static void expect_activations(activate_values *by) {
    enum { MOST = 45, KINDS = 6 };
    static const uint32_t kinds[KINDS] = {DHOW_ACTIVATION_GELU, DHOW_ACTIVATION_GELU_TANH,
                                          DHOW_ACTIVATION_SILU, DHOW_ACTIVATION_NONE,
                                          DHOW_ACTIVATION_RELU, DHOW_ACTIVATION_CLIP};
    for (int i = 0; i < 2 * KINDS * MOST; i++) {
        const int count = i / KINDS / 2, adds = i / KINDS % 2;
        const cpu_activation a = {kinds[i % KINDS], -2, 3};
        float values[MOST + 1], x[MOST], residual[MOST];
        for (int j = 0; j < count; j++) {
            x[j] = values[j] = (float)(j - 22) * (j % 7 == 0 ? 6.5f : 0.31f);
            residual[j] = (float)(j % 5) * 0.75f;
            if (adds) x[j] += residual[j];
        }
        values[count] = 7;
        by(values, adds ? residual : NULL, count, &a);
        for (int j = 0; j < count; j++) {
            const double want = activated(a.kind, x[j]);
            cr_assert_float_eq(values[j], want,
                               (a.kind == DHOW_ACTIVATION_SILU ? 1e-36 : 5e-7) + 4e-7 * fabs(want),
                               "%d of %d: f(%g) is %.9g, not %.9g", j, count, x[j], values[j],
                               want);
        }
        cr_assert_eq(values[count], 7, "nothing is written beyond %d", count);
    }
    for (int k = 0; k < 3; k++) {
        const cpu_activation a = {kinds[k], 0, 0};
        float odd[] = {NAN, INFINITY, 0.0f, -INFINITY, -3e38f};
        by(odd, NULL, 5, &a);
        cr_assert(isnan(odd[0]) && odd[1] == INFINITY && odd[2] == 0.0f, "%u", kinds[k]);
        cr_assert(fabsf(odd[3]) < 1e-30f && fabsf(odd[4]) < 1e-30f, "%u: %g %g", kinds[k], odd[3],
                  odd[4]);
    }
}

/* Of every x below -13 GELU was such a number, and the convolution behind it took ten times as
 * long. */
static void expect_normal(activate_values *by) {
    static const uint32_t kinds[] = {DHOW_ACTIVATION_GELU, DHOW_ACTIVATION_GELU_TANH,
                                     DHOW_ACTIVATION_SILU, DHOW_ACTIVATION_SIGMOID};
    for (int k = 0; k < 4; k++) {
        for (float x = -300; x < 300; x += 0.0234375f) {
            const cpu_activation a = {kinds[k], 0, 0};
            float y = x;
            by(&y, NULL, 1, &a);
            cr_assert(y == 0 || isnormal(y), "%u: f(%g) is %g", kinds[k], (double)x, (double)y);
        }
    }
}

Test(activations, are_0_or_normal) {
    if (!__builtin_cpu_supports("avx2")) cr_skip_test("this processor has no AVX2");
    expect_normal(activate_v3);
    if (__builtin_cpu_supports("avx512vl")) expect_normal(activate_v4);
}

Test(activations, equal_those_in_double) {
    if (!__builtin_cpu_supports("avx2")) cr_skip_test("this processor has no AVX2");
    expect_activations(activate_v3);
    if (__builtin_cpu_supports("avx512vl")) expect_activations(activate_v4);
}
