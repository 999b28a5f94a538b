/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels that models need beside the operations: every build - each instruction set, and
 * phases backwards - and every division into groups gives what simple loops give.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernel_support.h"

TestSuite(kernels_models, .fini = release_all, .timeout = 120);

enum { MOST = 4096 };

/* ---- elementwise programs ---- */

/* v = a; v *= b; v += constant; saved = v; v = sigmoid(v); v *= saved  with b per column */
Test(kernels_models, a_program_of_several_instructions_is_one_pass) {
    enum { ROWS = 7, COLUMNS = 53 };
    for (int t = E_F32; t < E_FLOATS; t++) {
        element type = (element)t;
        char name[32];
        (void)snprintf(name, sizeof name, "map_%s", element_names[type]);
        void *a = scratch_values(type, ROWS * COLUMNS, -2, 2),
             *b = scratch_values(type, COLUMNS, -1, 1);
        void *y = scratch(ROWS * COLUMNS * element_bytes(type));
        dhow_dims d = {.rank = 2, .shape = {ROWS, COLUMNS}}, f = {.rank = 2}, p = {.rank = 6};
        const int64_t words[] = {1 | 0 << 8, 5 | 1 << 8, 2 | 4 << 8, 28, 43, 5 | 5 << 8};
        union {
            float f;
            double d;
            int64_t i;
        } half = {.i = 0};
        if (type == E_F64) {
            half.d = 0.5;
        } else {
            half.f = 0.5f;
        }
        memcpy(p.shape, words, sizeof words);
        p.stride[0][0] = half.i;
        d.stride[0][0] = d.stride[2][0] = COLUMNS;
        d.stride[0][1] = d.stride[1][1] = d.stride[2][1] = 1;
        double want[ROWS * COLUMNS];
        for (size_t i = 0; i < ROWS * COLUMNS; i++) {
            double v = element_get(type, a, i) * element_get(type, b, i % COLUMNS) + 0.5;
            want[i] = v / (1 + exp(-v));
        }
        void *argv[] = {&a, &b, &a, &a, &y, &d, &f, &p};
        expect_all_builds(name, type, argv, 4, want, ROWS * COLUMNS, 4e-6);
        release_all();
    }
}

static const struct {
    int op;
    double (*function)(double);
    double low, high;
} k_functions[] = {
    {32, sqrt, 0, 9},      {33, exp, -5, 5},    {34, log, 0.1, 9},    {37, floor, -4, 4},
    {38, ceil, -4, 4},     {39, rint, -4, 4},   {44, tanh, -4, 4},    {46, erf, -3, 3},
    {47, sin, -9, 9},      {48, cos, -9, 9},    {47, sin, -2e8, 2e8}, {48, cos, -2e8, 2e8},
    {47, sin, -4e8, 4e8},  {48, cos, -1e30, 9}, {49, tan, -1, 1},     {50, asin, -1, 1},
    {51, acos, -0.9, 0.9}, {52, atan, -9, 9},   {53, sinh, -3, 3},    {54, cosh, -3, 3},
    {55, asinh, -9, 9},    {56, acosh, 1.1, 9}, {57, atanh, -.9, .9}, {31, fabs, -4, 4}};

Test(kernels_models, functions_of_programs_match_a_double_reference) {
    enum { N = 301 };
    for (size_t k = 0; k < sizeof k_functions / sizeof k_functions[0]; k++) {
        float *a = scratch_values(E_F32, N, k_functions[k].low, k_functions[k].high);
        float *y = scratch(N * sizeof *y);
        dhow_dims d = {.rank = 1, .shape = {N}}, f = {.rank = 1}, p = {.rank = 2};
        double want[N];
        d.stride[0][0] = d.stride[2][0] = 1;
        p.shape[0] = 1;
        p.shape[1] = k_functions[k].op;
        for (size_t i = 0; i < N; i++) want[i] = k_functions[k].function((double)a[i]);
        void *argv[] = {&a, &a, &a, &a, &y, &d, &f, &p};
        expect_all_builds("map_f32", E_F32, argv, 4, want, N, 8e-6);
        release_all();
    }
}

/* ---- index ---- */

/* The k-th index of an axis of n: from the end too, and some outside. */
static int64_t index_at(int64_t k, int64_t n) {
    const int64_t at = k * 7 % (n + 2);
    return k % 3 == 1 ? at - n : at;
}

/* Where that is, or -1. */
static int64_t place_of(int64_t index, int64_t n) {
    const int64_t at = index < 0 ? index + n : index;
    return at >= 0 && at < n ? at : -1;
}

static void expect_gather(int64_t outer, int64_t n, int64_t inner, int64_t count) {
    const size_t all = (size_t)(outer * count * inner);
    int32_t *x = scratch_values(E_I32, (size_t)(outer * n * inner), -900, 900);
    int32_t *y = scratch(all * sizeof *y);
    int64_t *index = scratch((size_t)count * sizeof *index);
    double *want = scratch(all * sizeof *want);
    for (int64_t k = 0; k < count; k++) index[k] = index_at(k, n);
    for (int64_t i = 0; i < outer * count * inner; i++) {
        const int64_t from = place_of(index[i / inner % count], n), o = i / inner / count;
        want[i] = from >= 0 ? x[(o * n + from) * inner + i % inner] : 0;
    }
    void *argv[] = {&x, &index, &y, &outer, &n, &inner, &count};
    expect_all_builds("gather_axis_u32", E_I32, argv, 2, want, all, 0);
}

Test(kernels_models, slices_of_any_width_are_gathered) {
    expect_gather(3, 5, 20, 6);
    expect_gather(3, 5, 1, 6);
    expect_gather(2, 90, 1, 2100);
    expect_gather(2, 40, 3, 1030);
    expect_gather(70, 4, 2, 1);
}

/* x[a][n][c] by index[a][m][c], along the axis of n; or, transposed, with that axis last. */
static void expect_elements(int64_t a, int64_t n, int64_t m, int64_t c, bool last) {
    dhow_dims d = {.rank = 3, .shape = {a, last ? c : m, last ? m : c}};
    int64_t count = a * m * c, stride = last ? 1 : c;
    int32_t *x = scratch_values(E_I32, (size_t)(a * n * c), -900, 900);
    int32_t *values = scratch_values(E_I32, (size_t)count, -900, 900);
    int32_t *y = scratch((size_t)count * sizeof *y), *z = scratch((size_t)(a * n * c) * sizeof *z);
    int64_t *index = scratch((size_t)count * sizeof *index);
    double *want = scratch((size_t)count * sizeof *want);
    double *placed = scratch((size_t)(a * n * c) * sizeof *placed);
    d.stride[0][0] = n * c, d.stride[0][last ? 1 : 2] = last ? n : 1;
    d.stride[2][0] = m * c, d.stride[2][1] = d.shape[2], d.stride[2][2] = 1;
    for (int64_t i = 0; i < count; i++) {
        const int64_t k = last ? i % m : i / c % m, base = i / (m * c) * n * c;
        const int64_t column = last ? i / m % c * n : i % c;
        index[i] = index_at(k, n);
        const int64_t at = place_of(index[i], n);
        want[i] = at >= 0 ? x[base + column + at * stride] : 0;
    }
    void *gather[] = {&x, &index, &y, &count, &n, &stride, &d};
    expect_all_builds("gather_elements_u32", E_I32, gather, 2, want, (size_t)count, 0);
    for (int64_t i = 0; i < count; i++) {
        const int64_t k = last ? i % m : i / c % m, base = i / (m * c) * n * c;
        index[i] = k < n ? n - 1 - k : n;
        if (k < n) placed[base + (last ? i / m % c * n : i % c) + (n - 1 - k) * stride] = values[i];
    }
    void *scatter[] = {&values, &index, &z, &count, &n, &stride, &d};
    expect_all_builds("scatter_elements_u32", E_I32, scatter, 2, placed, (size_t)(a * n * c), 0);
}

Test(kernels_models, elements_are_gathered_and_scattered_along_any_axis) {
    expect_elements(3, 5, 4, 7, false);
    expect_elements(3, 5, 4, 7, true);
    expect_elements(1, 3, 2, 1500, false);
    expect_elements(2, 1100, 1050, 1, true);
    expect_elements(4, 6, 9, 1, false);
}

Test(kernels_models, rows_are_scattered_by_index) {
    enum { N = 5, INNER = 20, COUNT = 6 };
    int64_t n = N, inner = INNER, count = COUNT;
    /* row 9 is outside and goes nowhere */
    int32_t *rows = scratch_values(E_I32, COUNT * INNER, -900, 900),
            *target = scratch(N * INNER * sizeof *target);
    double placed[N * INNER] = {0};
    const int64_t unique[COUNT] = {4, 0, 3, 2, 9, 1};
    const int64_t *places = unique;
    for (int k = 0; k < COUNT; k++) {
        for (int i = 0; i < INNER && unique[k] < N; i++)
            placed[unique[k] * INNER + i] = rows[k * INNER + i];
    }
    void *scatter[] = {&rows, &places, &target, &n, &inner, &count};
    expect_all_builds("scatter_rows_u32", E_I32, scatter, 2, placed, N * INNER, 0);
}

/* ---- windows ---- */

enum { CHANNELS = 4, H = 9, W = 7, OH = 5, OW = 4 };

static void image_dims(dhow_dims *g, dhow_dims *w) {
    const int64_t in[] = {1, H, W}, out[] = {1, OH, OW}, kernel[] = {1, 3, 2}, stride[] = {1, 2, 2};
    const int64_t dilation[] = {1, 1, 1}, before[] = {0, 1, 1}, after[] = {0, 1, 0};
    memset(g, 0, sizeof *g);
    memset(w, 0, sizeof *w);
    for (int i = 0; i < 3; i++) {
        g->shape[i] = in[i], g->stride[0][i] = out[i], g->stride[1][i] = kernel[i];
        g->stride[2][i] = stride[i], w->shape[i] = dilation[i];
        w->stride[0][i] = before[i], w->stride[1][i] = after[i];
    }
}

Test(kernels_models, pooling_in_blocks_is_pooling) {
    enum { BLOCK = 70 };
    float *x = scratch_values(E_F32, H * W * BLOCK, -3, 3),
          *y = scratch(OH * OW * BLOCK * sizeof *y);
    double want[2][OH * OW * BLOCK];
    for (int oy = 0; oy < OH; oy++) {
        for (int ox = 0; ox < OW; ox++) {
            for (int q = 0; q < BLOCK; q++) {
                double top = -INFINITY, sum = 0;
                int inside = 0;
                for (int t = 0; t < 6; t++) {
                    int iy = oy * 2 - 1 + t / 2, ix = ox * 2 - 1 + t % 2;
                    if (iy < 0 || iy >= H || ix < 0 || ix >= W) continue;
                    double v = (double)x[(iy * W + ix) * BLOCK + q];
                    top = fmax(top, v), sum += v, inside++;
                }
                want[0][(oy * OW + ox) * BLOCK + q] = top;
                want[1][(oy * OW + ox) * BLOCK + q] = sum / inside;
            }
        }
    }
    int64_t planes = 1, block = BLOCK, h = H, w = W, oh = OH, ow = OW, kh = 3, kw = 2, two = 2,
            one = 1;
    for (int32_t mode = 0; mode < 2; mode++) {
        void *argv[] = {&x,  &y,  &planes, &block, &h,   &w,   &oh,  &ow,
                        &kh, &kw, &two,    &two,   &one, &one, &mode};
        expect_all_builds("pool_blocks_f32", E_F32, argv, 1, want[mode], OH * OW * BLOCK, 1e-6);
    }
    /* the general kernel on the same image, one channel at a time */
    dhow_dims g, v;
    float *plane = scratch(H * W * sizeof *plane), *small = scratch(OH * OW * sizeof *small);
    double one_channel[OH * OW], p = 2;
    float power = (float)p;
    for (int i = 0; i < H * W; i++) plane[i] = x[i * BLOCK + 3];
    for (int i = 0; i < OH * OW; i++) one_channel[i] = want[0][i * BLOCK + 3];
    image_dims(&g, &v);
    int32_t maximum = 0;
    void *argv[] = {&plane, &small, &planes, &g, &v, &maximum, &power};
    expect_all_builds("pool3d_f32", E_F32, argv, 1, one_channel, OH * OW, 1e-6);
}

/* <conv(x), y> = <x, conv_transpose(y)>: one is the other's adjoint. */
Test(kernels_models, a_transposed_convolution_is_the_adjoint_of_the_convolution) {
    enum { K = 3, WEIGHTS = K * CHANNELS * 6 };
    float *x = scratch_values(E_F32, CHANNELS * H * W, -1, 1),
          *y = scratch_values(E_F32, K * OH * OW, -1, 1);
    float *weight = scratch_values(E_F32, WEIGHTS, -1, 1);
    float *cx = scratch(K * OH * OW * sizeof *cx), *ty = scratch(CHANNELS * H * W * sizeof *ty);
    int64_t n = 1, c = CHANNELS, k = K, groups = 1;
    int32_t none = 0;
    dhow_dims g, w, back;
    image_dims(&g, &w);
    back = g;
    memcpy(back.shape, g.stride[0], sizeof back.shape);
    memcpy(back.stride[0], g.shape, sizeof back.stride[0]);
    for (int build = 0; build < build_count(); build++) {
        void *forward[] = {&x, &weight, &weight, &cx, &n, &c, &k, &groups, &g, &w, &none};
        /* weight[k][c][...] is what the transpose calls [its inputs][its outputs] */
        void *adjoint[] = {&y, &weight, &weight, &ty, &n, &k, &c, &groups, &back, &w, &none};
        run_kernel(build_of("conv3d_f32", build), 3, forward);
        run_kernel(build_of("conv_transpose3d_f32", build), 2, adjoint);
        double left = 0, right = 0;
        for (int i = 0; i < K * OH * OW; i++) left += (double)cx[i] * (double)y[i];
        for (int i = 0; i < CHANNELS * H * W; i++) right += (double)x[i] * (double)ty[i];
        cr_assert_float_eq(left, right, 1e-3, "%s: %g, %g", build_name(build), left, right);
    }
}

/* ---- sequences ---- */

Test(kernels_models, running_sums_follow_their_axis) {
    enum { OUTER = 2, N = 11, INNER = 5 };
    float *x = scratch_values(E_F32, OUTER * N * INNER, -5, 5),
          *y = scratch(OUTER * N * INNER * sizeof *y);
    double sums[OUTER * N * INNER];
    int64_t outer = OUTER, n = N, inner = INNER;
    int32_t yes = 1;
    for (int o = 0; o < OUTER; o++) {
        for (int i = 0; i < INNER; i++) {
            double run = 0;
            for (int j = N - 1; j >= 0; j--) { /* exclusive, from the end */
                sums[(o * N + j) * INNER + i] = run;
                run += (double)x[(o * N + j) * INNER + i];
            }
        }
    }
    void *cumsum[] = {&x, &y, &outer, &n, &inner, &yes, &yes};
    expect_all_builds("cumsum_f32", E_F32, cumsum, 1, sums, OUTER * N * INNER, 1e-5);
    int64_t one = 1;
    int32_t no = 0;
    void *parts[] = {&x, &x, &y, &outer, &n, &inner, &one, &no, &yes, &yes};
    expect_all_builds("cumsum_parts_f32", E_F32, parts, 2, sums, OUTER * N * INNER, 1e-5);
}

/* Comparisons with NaN are false both ways, and -0 is 0: keys tell. */
Test(kernels_models, keys_are_in_the_order_of_their_elements) {
    enum { N = 8 };
    const float values[N] = {-INFINITY, -2, -1e-40f, -0.0f, 0, 1e-40f, INFINITY, NAN};
    float *x = scratch(N * sizeof *x);
    uint32_t *keys = scratch(N * sizeof *keys);
    int64_t one = 1, n = N;
    memcpy(x, values, sizeof values);
    for (int32_t falling = 0; falling < 2; falling++) {
        void *args[] = {&x, &keys, &one, &n, &one, &falling};
        for (int build = 0; build < build_count(); build++) {
            memset(keys, 0, N * sizeof *keys);
            run_kernel(build_of("sort_keys_f32", build), 1, args);
            cr_assert_eq(keys[3], keys[4]);
            for (int i = 1; i < N; i++)
                cr_assert(i == 4 || (falling ? keys[i - 1] > keys[i] : keys[i - 1] < keys[i]),
                          "%s: key %d", build_name(build), i);
        }
    }
}

/* 70 keys with ties: runs of 32 by counting, two of them merged, the third copied. */
Test(kernels_models, runs_are_sorted_and_merged_in_a_stable_way) {
    enum { N = 70 };
    uint32_t *x = scratch(N * sizeof *x), *key = scratch(N * sizeof *key),
             *to = scratch(N * sizeof *to), *place = scratch(N * sizeof *place),
             *to_place = scratch(N * sizeof *to_place);
    int64_t one = 1, n = N, run = 32;
    for (uint32_t i = 0; i < N; i++) x[i] = i * 2654435761u >> 28;
    void *runs[] = {&x, &key, &place, &one, &n};
    void *merge[] = {&key, &place, &to, &to_place, &one, &n, &run};
    for (int build = 0; build < build_count(); build++) {
        run_kernel(build_of("sort_runs_u32", build), 1, runs);
        run_kernel(build_of("sort_merge_u32", build), 1, merge);
        for (uint32_t i = 0; i < N; i++) {
            cr_assert_eq(to[i], x[to_place[i]], "%s: place %u", build_name(build), i);
            if (i == 0 || i == 64) continue;
            cr_assert(to[i - 1] < to[i] || (to[i - 1] == to[i] && to_place[i - 1] < to_place[i]),
                      "%s: element %u", build_name(build), i);
        }
    }
}

Test(kernels_models, the_index_of_a_pool_is_that_of_its_first_nan) {
    enum { WIDTH = 4 };
    const float rows[3][WIDTH] = {{1, 2, NAN, 3}, {NAN, 2, NAN, 3}, {1, 2, 5, 3}};
    const double first[3] = {2, WIDTH + 0, 2 * WIDTH + 2};
    float *x = scratch(sizeof rows);
    int64_t *y = scratch(3 * sizeof *y), planes = 3;
    int32_t column = 0;
    memcpy(x, rows, sizeof rows);
    /* One window of the size of the plane: extents in, out, window; steps 1, no padding. */
    dhow_dims g = {.rank = 3, .shape = {1, 1, WIDTH}}, w = {.rank = 3, .shape = {1, 1, 1}};
    for (int i = 0; i < 3; i++) g.stride[0][i] = 1, g.stride[1][i] = 1, g.stride[2][i] = 1;
    g.stride[1][2] = WIDTH;
    void *pool[] = {&x, &y, &planes, &g, &w, &column};
    expect_all_builds("maxpool3d_index_f32", E_I64, pool, 1, first, 3, 0);
}

Test(kernels_models, normalised_rows_have_mean_0_and_variance_1) {
    enum { ROWS = 4, COLUMNS = 77 };
    float *x = scratch_values(E_F32, ROWS * COLUMNS, 1, 9),
          *y = scratch(ROWS * COLUMNS * sizeof *y);
    double want[ROWS * COLUMNS];
    int64_t rows = ROWS, columns = COLUMNS;
    float eps = 1e-5f;
    int32_t centred = 1, scaled = 0, lanes = 0;
    for (int r = 0; r < ROWS; r++) {
        double mean = 0, squares = 0;
        for (int i = 0; i < COLUMNS; i++) mean += (double)x[r * COLUMNS + i] / COLUMNS;
        for (int i = 0; i < COLUMNS; i++)
            squares += pow((double)x[r * COLUMNS + i] - mean, 2) / COLUMNS;
        for (int i = 0; i < COLUMNS; i++)
            want[r * COLUMNS + i] =
                ((double)x[r * COLUMNS + i] - mean) / sqrt(squares + (double)eps);
    }
    float *gamma = scratch_values(E_F32, COLUMNS, 2, 9);
    void *argv[] = {&x, &gamma, &y, &rows, &columns, &eps, &centred, &scaled, &lanes};
    expect_all_builds("normalize_f32", E_F32, argv, 2, want, ROWS * COLUMNS, 5e-6);
    scaled = 1;
    for (int i = 0; i < ROWS * COLUMNS; i++) want[i] *= (double)gamma[i % COLUMNS];
    expect_all_builds("normalize_f32", E_F32, argv, 2, want, ROWS * COLUMNS,
                      5e-5); /* gamma is up to 9 */
}
