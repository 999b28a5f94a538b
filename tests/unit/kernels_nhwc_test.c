/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of images with their channels innermost: windows laid out as a matrix, and depthwise
 * convolutions, against double references.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernel_support.h"

enum { N = 2, C = 24, H = 7, W = 9, KH = 3, KW = 2, OH = 5, OW = 5, PIXELS = N * OH * OW };

static const element k_types[] = {E_F32, E_F16, E_BF16};

static const char *named(char *name, size_t bytes, const char *operation, element type) {
    (void)snprintf(name, bytes, "%s_%s", operation, element_names[type]);
    return name;
}

/* Where tap t of the window of an output pixel lies in x, -1 in the padding: rows 1 apart with
 * dilation 2, columns 2 apart; padded by 1 above and at the left. */
static int place(int pixel, int t) {
    const int image = pixel / (OH * OW), oy = pixel / OW % OH, ox = pixel % OW;
    const int iy = oy - 1 + t / KW * 2, ix = ox * 2 - 1 + t % KW;
    return iy < 0 || iy >= H || ix < 0 || ix >= W ? -1 : (image * H + iy) * W + ix;
}

Test(kernels_nhwc, windows_become_the_rows_of_a_matrix, .fini = release_all) {
    enum { FIRST = 7, COUNT = 40, GROUPS = 3, INNER = C / GROUPS, ROW = INNER * KH * KW + 5 };
    static double want[COUNT * GROUPS * ROW];
    for (size_t k = 0; k < sizeof k_types / sizeof k_types[0]; k++) {
        const element type = k_types[k];
        char name[64];
        void *x = scratch_values(type, N * H * W * C, -3, 3);
        void *y = scratch_values(type, COUNT * GROUPS * ROW, 7, 9);
        for (int part = 0; part < COUNT * GROUPS; part++) {
            for (int i = 0; i < ROW; i++) {
                const int t = i / INNER, at = t < KH * KW ? place(FIRST + part / GROUPS, t) : -1;
                const int channel = part % GROUPS * INNER + i % INNER;
                want[part * ROW + i] =
                    at < 0 ? 0 : element_get(type, x, (size_t)(at * C + channel));
            }
        }
        int64_t first = FIRST, count = COUNT, c = C, h = H, w = W, oh = OH, ow = OW,
                groups = GROUPS, kh = KH, kw = KW, one = 1, two = 2, row = ROW;
        void *argv[] = {&x,  &y,  &first, &count, &c,   &h,   &w,   &oh,  &ow, &groups,
                        &kh, &kw, &one,   &two,   &two, &one, &one, &one, &row};
        expect_all_builds(named(name, sizeof name, "im2col", type), type, argv, 1, want,
                          COUNT * GROUPS * ROW, 0);
    }
}

Test(kernels_nhwc, each_channel_is_convolved_by_itself, .fini = release_all) {
    static double want[PIXELS * C];
    for (size_t k = 0; k < sizeof k_types / sizeof k_types[0]; k++) {
        /* 1: a bias; 2: a residual and SiLU; 4: x held between bounds, and y where there is no 2 */
        for (int32_t mode = 0; mode < 8; mode++) {
            const element type = k_types[k];
            char name[64];
            void *x = scratch_values(type, N * H * W * C, -1, 1);
            void *weight = scratch_values(type, KH * KW * C, -1, 1);
            void *bias = scratch_values(type, C, -1, 1);
            void *residual = scratch_values(type, PIXELS * C, -1, 1);
            void *y = scratch_values(type, PIXELS * C, 7, 9);
            int32_t biased = mode & 1, adds = mode / 2 & 1, held = mode / 4;
            int32_t activation = adds != 0 ? 6 : held != 0 ? 10 : 0;
            float low = -0.5f, high = 0.75f, x_low = 0.25f, x_high = 0.5f;
            for (int i = 0; i < PIXELS * C; i++) {
                double sum = 0;
                for (int t = 0; t < KH * KW; t++) {
                    const int at = place(i / C, t);
                    if (at < 0) continue;
                    const double value = element_get(type, x, (size_t)(at * C + i % C));
                    sum += (held ? fmin(fmax(value, 0.25), 0.5) : value) *
                           element_get(type, weight, (size_t)(t * C + i % C));
                }
                if (biased) sum += element_get(type, bias, (size_t)(i % C));
                if (adds) sum += element_get(type, residual, (size_t)i);
                want[i] =
                    activation == 10 ? fmin(fmax(sum, -0.5), 0.75) : activate(sum, activation);
            }
            int64_t n = N, c = C, h = H, w = W, oh = OH, ow = OW, kh = KH, kw = KW, one = 1,
                    two = 2;
            void *argv[] = {&x,   &weight, &bias, &residual,   &y,   &n,    &c,    &h,     &w,
                            &oh,  &ow,     &kh,   &kw,         &one, &two,  &two,  &one,   &one,
                            &one, &biased, &adds, &activation, &low, &high, &held, &x_low, &x_high};
            expect_all_builds(named(name, sizeof name, "depthwise", type), type, argv, 4, want,
                              PIXELS * C, 4e-6);
        }
    }
}
