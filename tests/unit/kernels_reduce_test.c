/* SPDX-License-Identifier: Apache-2.0
 *
 * Row, reduction, matmul and image kernels of every type and build against a double reference.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernel_support.h"

TestSuite(kernels_reduce, .fini = release_all, .timeout = 300);

static const k_info *find(const char *op, element type, int build, char *what, size_t bytes) {
    char name[64];
    (void)snprintf(name, sizeof name, "%s_%s", op, element_names[type]);
    (void)snprintf(what, bytes, "%s %s", name, build_name(build));
    const k_info *kernel = build_of(name, build);
    cr_assert(kernel != NULL, "no kernel %s", name);
    return kernel;
}

/* ---- rows
 * --------------------------------------------------------------------------------------------------------
 */

static void expect_softmax(element type, const void *x, const void *y, int64_t rows, int64_t cols,
                           int logarithm, const char *what) {
    for (int64_t r = 0; r < rows; r++) {
        double top = -INFINITY, sum = 0;
        for (int64_t j = 0; j < cols; j++)
            top = fmax(top, element_get(type, x, (size_t)(r * cols + j)));
        for (int64_t j = 0; j < cols; j++)
            sum += exp(element_get(type, x, (size_t)(r * cols + j)) - top);
        for (int64_t j = 0; j < cols; j++) {
            const size_t i = (size_t)(r * cols + j);
            const double below = element_get(type, x, i) - top;
            expect_near(type, element_get(type, y, i),
                        logarithm ? below - log(sum) : exp(below) / sum, 1e-6, what, i);
        }
    }
}

static void check_softmax(element type, int build, int64_t cols, int logarithm) {
    char what[96];
    int64_t rows = 5;
    int32_t lanes = 0; /* of GPUs */
    const size_t count = (size_t)(rows * cols);
    const k_info *kernel =
        find(logarithm ? "log_softmax" : "softmax", type, build, what, sizeof what);
    void *x = scratch_values(type, count, -20, 20), *y = scratch(count * element_bytes(type));
    void *argv[] = {&x, &y, &rows, &cols, &lanes};
    run_kernel(kernel, 2, argv);
    expect_softmax(type, x, y, rows, cols, logarithm, what);
    release_all();
}

Test(kernels_reduce, softmax_matches_a_double_reference) {
    static const int64_t widths[] = {1, 7, 64, 1000};
    for (int type = 0; type < E_FLOATS; type++) {
        for (int build = 0; build < build_count(); build++) {
            for (int w = 0; w < 4; w++) {
                check_softmax((element)type, build, widths[w], 0);
                check_softmax((element)type, build, widths[w], 1);
            }
        }
    }
}

Test(kernels_reduce, softmax_of_a_row_with_nan_is_nan) {
    for (int build = 0; build < build_count(); build++) {
        float x[40], y[40];
        const void *px = x;
        void *py = y;
        int64_t rows = 2, cols = 20;
        int32_t lanes = 0;
        for (int i = 0; i < 40; i++) x[i] = (float)i;
        x[25] = NAN;
        void *argv[] = {&px, &py, &rows, &cols, &lanes};
        run_kernel(build_of("softmax_f32", build), 1, argv);
        for (int i = 0; i < 40; i++)
            cr_assert(isnan(y[i]) == (i >= 20), "%s element %d", build_name(build), i);
    }
}

/* Of rows in parts of 32 elements. */
static void check_softmax_in_parts(element type, int build, int64_t cols, int32_t logarithm) {
    char what[96];
    int64_t rows = 3, length = 32, parts = (cols + length - 1) / length;
    const size_t count = (size_t)(rows * cols);
    void *x = scratch_values(type, count, -20, 20), *y = scratch(count * element_bytes(type)),
         *part = scratch((size_t)(rows * parts) * 8);
    void *first[] = {&x, &part, &rows, &cols, &parts, &length},
         *second[] = {&x, &part, &y, &rows, &cols, &parts, &length, &logarithm};
    run_kernel(find("softmax_part", type, build, what, sizeof what), 2, first);
    run_kernel(find("softmax_join", type, build, what, sizeof what), 2, second);
    expect_softmax(type, x, y, rows, cols, logarithm, what);
    release_all();
}

Test(kernels_reduce, softmax_in_parts_matches_a_double_reference) {
    static const int64_t widths[] = {7, 64, 1000};
    static const element types[] = {E_F32, E_F16, E_BF16};
    for (int type = 0; type < 3; type++) {
        for (int build = 0; build < build_count(); build++) {
            for (int w = 0; w < 3; w++) {
                check_softmax_in_parts(types[type], build, widths[w], 0);
                check_softmax_in_parts(types[type], build, widths[w], 1);
            }
        }
    }
}

static void expect_layernorm(element type, const void *x, const void *gamma, const void *beta,
                             const void *y, int64_t rows, int64_t cols, float eps,
                             const char *what) {
    for (int64_t r = 0; r < rows; r++) {
        double mean = 0, variance = 0;
        for (int64_t j = 0; j < cols; j++)
            mean += element_get(type, x, (size_t)(r * cols + j)) / (double)cols;
        for (int64_t j = 0; j < cols; j++) {
            variance += pow(element_get(type, x, (size_t)(r * cols + j)) - mean, 2) / (double)cols;
        }
        for (int64_t j = 0; j < cols; j++) {
            const size_t i = (size_t)(r * cols + j);
            const double v = (element_get(type, x, i) - mean) / sqrt(variance + (double)eps);
            expect_near(
                type, element_get(type, y, i),
                v * element_get(type, gamma, (size_t)j) + element_get(type, beta, (size_t)j),
                cols > 1 ? 5e-6 : 1e-3, what, i);
        }
    }
}

static void check_layernorm(element type, int build, int64_t cols, int64_t length) {
    char what[96];
    int64_t rows = 4;
    int32_t lanes = 0;
    float eps = 1e-5f;
    const size_t count = (size_t)(rows * cols);
    void *x = scratch_values(type, count, -1, 3), *y = scratch(count * element_bytes(type));
    void *gamma = scratch_values(type, (size_t)cols, -2, 2),
         *beta = scratch_values(type, (size_t)cols, -1, 1);
    void *argv[] = {&x, &gamma, &beta, &y, &rows, &cols, &eps, &lanes};
    if (length == 0) {
        run_kernel(find("layernorm", type, build, what, sizeof what), 3, argv);
    } else {
        int64_t parts = (cols + length - 1) / length;
        int32_t one = 1;
        void *part = scratch((size_t)(rows * parts) * 8);
        void *first[] = {&x, &part, &rows, &cols, &parts, &length, &one},
             *second[] = {&x,    &gamma, &beta,   &part, &y,   &rows,
                          &cols, &parts, &length, &eps,  &one, &one};
        run_kernel(find("norm_part", type, build, what, sizeof what), 3, first);
        run_kernel(find("norm_join", type, build, what, sizeof what), 3, second);
    }
    expect_layernorm(type, x, gamma, beta, y, rows, cols, eps, what);
    release_all();
}

Test(kernels_reduce, layernorm_matches_a_double_reference) {
    static const int64_t widths[] = {2, 31, 768};
    for (int type = 0; type < E_FLOATS; type++) {
        for (int build = 0; build < build_count(); build++) {
            for (int w = 0; w < 3; w++) check_layernorm((element)type, build, widths[w], 0);
            if (type == E_F64) continue;
            for (int w = 0; w < 3; w++) check_layernorm((element)type, build, widths[w], 32);
        }
    }
}

/* ---- reductions
 * --------------------------------------------------------------------------------------------------
 */

static const element reduced[] = {E_F32, E_F64, E_F16, E_BF16, E_I32, E_I64};
enum { REDUCED = sizeof reduced / sizeof reduced[0] };

static double reference(int op, element type, const void *x, int64_t o, int64_t n, int64_t inner,
                        int64_t j) {
    double best = op == 0 ? 0 : op == 1 ? -INFINITY : INFINITY, top = NAN;
    int64_t first = -1;
    for (int64_t k = 0; k < n; k++) {
        const double v = element_get(type, x, (size_t)((o * n + k) * inner + j));
        if (op == 0) best += v;
        if (op == 1) best = fmax(best, v);
        if (op == 2) best = fmin(best, v);
        if (first < 0 || v > top) {
            top = v;
            first = k;
        }
    }
    return op == 3 ? (double)first : best;
}

/* Results of x[outer, n, inner], sums of floats times 0.25. */
static void expect_reduced(int op, element type, const void *x, element result_type, const void *y,
                           size_t results, int64_t n, int64_t inner, const char *what) {
    for (size_t i = 0; i < results; i++) {
        double want = reference(op, type, x, (int64_t)i / inner, n, inner, (int64_t)i % inner);
        if (op == 0 && type < E_FLOATS) want *= 0.25;
        /* a sum's error grows with its terms, not with its value */
        const double relative = op == 0 ? 2e-6 * (double)n : 1e-9;
        expect_near(result_type, element_get(result_type, y, i), want, relative, what, i);
    }
}

static void check_reduction(int op, element type, int build, int64_t outer, int64_t n,
                            int64_t inner) {
    static const char *const names[] = {"reduce_sum", "reduce_max", "reduce_min", "argmax"};
    char what[96];
    const k_info *kernel = find(names[op], type, build, what, sizeof what);
    const size_t results = (size_t)(outer * inner);
    const element result_type = op == 3 ? E_I64 : type;
    void *x = scratch_values(type, (size_t)(outer * n * inner), -50, 50), *y = scratch(results * 8);
    float scale = 0.25f;
    int32_t lanes = 0;
    void *argv[] = {&x, &y, &outer, &n, &inner, &scale, &lanes};
    if (op == 3) argv[5] = &lanes;
    run_kernel(kernel, 3, argv);
    expect_reduced(op, type, x, result_type, y, results, n, inner, what);
    release_all();
}

Test(kernels_reduce, reductions_match_a_double_reference) {
    static const int64_t shapes[][3] = {
        {3, 7, 1}, {1, 1000, 1}, {2, 5, 300}, {3, 1, 4}, {4, 33, 17}};
    for (int op = 0; op < 4; op++) {
        for (int t = 0; t < REDUCED; t++) {
            for (int build = 0; build < build_count(); build++) {
                for (int s = 0; s < 5; s++) {
                    check_reduction(op, reduced[t], build, shapes[s][0], shapes[s][1],
                                    shapes[s][2]);
                }
            }
        }
    }
}

/* In parts, and those to one. */
static void check_parts(int op, element type, int build, int64_t outer, int64_t n, int64_t inner,
                        int64_t parts) {
    char what[96];
    const bool narrow = type == E_F16 || type == E_BF16;
    const size_t results = (size_t)(outer * inner);
    void *x = scratch_values(type, (size_t)(outer * n * inner), -50, 50),
         *part = scratch(results * (size_t)parts * 8), *y = scratch(results * 8);
    int64_t one = 1;
    float scale = 0.25f, same = 1;
    void *first[] = {&x, &part, &outer, &n, &inner, &parts, &op, &same},
         *second[] = {&part, &y, &outer, &parts, &inner, &one, &op, &scale};
    run_kernel(find("reduce_parts", type, build, what, sizeof what), 3, first);
    run_kernel(find(narrow ? "reduce_parts_f32" : "reduce_parts", type, build, what, sizeof what),
               3, second);
    expect_reduced(op, type, x, type, y, results, n, inner, what);
    release_all();
}

Test(kernels_reduce, reductions_in_parts_match_a_double_reference) {
    static const int64_t shapes[][4] = {
        {3, 7, 1, 4}, {1, 1000, 1, 3}, {2, 5, 300, 2}, {3, 1, 4, 1}, {4, 133, 17, 5}};
    for (int op = 0; op < 3; op++) {
        for (int t = 0; t < REDUCED; t++) {
            for (int build = 0; build < build_count(); build++) {
                for (int s = 0; s < 5; s++)
                    check_parts(op, reduced[t], build, shapes[s][0], shapes[s][1], shapes[s][2],
                                shapes[s][3]);
            }
        }
    }
}

Test(kernels_reduce, nan_wins_and_the_first_largest_is_found) {
    for (int build = 0; build < build_count(); build++) {
        float x[64], y = 0;
        int64_t outer = 1, n = 64, inner = 1, index = -1;
        float scale = 1;
        int32_t lanes = 0;
        const void *px = x;
        void *py = &y, *pi = &index;
        for (int i = 0; i < 64; i++) x[i] = (float)(i % 10);
        void *argmax[] = {&px, &pi, &outer, &n, &inner, &lanes},
             *reduce[] = {&px, &py, &outer, &n, &inner, &scale, &lanes};
        run_kernel(build_of("argmax_f32", build), 1, argmax);
        cr_assert(index == 9);
        x[30] = -NAN;
        x[40] = NAN;
        run_kernel(build_of("argmax_f32", build), 1, argmax);
        cr_assert(index == 30, "%s found %lld", build_name(build), (long long)index);
        run_kernel(build_of("reduce_max_f32", build), 1, reduce);
        cr_assert(isnan(y));
        run_kernel(build_of("reduce_min_f32", build), 1, reduce);
        cr_assert(isnan(y));
        /* the same across rows */
        inner = 32, n = 2;
        int64_t columns[32];
        pi = columns;
        run_kernel(build_of("argmax_f32", build), 1, argmax);
        cr_assert(columns[30] == 0 && columns[8] == 1 && columns[9] == 0 && columns[0] == 1);
    }
}

/* ---- matmul
 * ------------------------------------------------------------------------------------------------------
 */

typedef struct product {
    int64_t m, n, k, batch;
    int transpose_a, transpose_b;
    int bias, activation;
} product;

static void check_matmul(element type, int build, int groups, const product *p) {
    char what[160], name[96];
    const k_info *kernel = find("matmul", type, build, name, sizeof name);
    (void)snprintf(what, sizeof what, "%s %lldx%lldx%lld a%d b%d groups %d", name, (long long)p->m,
                   (long long)p->n, (long long)p->k, p->transpose_a, p->transpose_b, groups);
    const int64_t m = p->m, n = p->n, k = p->k;
    void *a = scratch_values(type, (size_t)(p->batch * m * k), -1, 1);
    void *b = scratch_values(type, (size_t)(p->batch * k * n), -1, 1);
    void *bias = scratch_values(type, (size_t)n, -1, 1),
         *c = scratch((size_t)(p->batch * m * n) * element_bytes(type));
    int64_t a_row = p->transpose_a ? 1 : k, a_col = p->transpose_a ? m : 1;
    int64_t b_row = p->transpose_b ? 1 : n, b_col = p->transpose_b ? k : 1;
    int64_t a_batch = m * k, b_batch = k * n, mm = m, nn = n, kk = k, batch = p->batch;
    int32_t bias_mode = p->bias, activation = p->activation;
    void *argv[] = {&a,     &b,     &bias,  &c,     &mm,      &nn,      &kk,        &batch,
                    &a_row, &a_col, &b_row, &b_col, &a_batch, &b_batch, &bias_mode, &activation};
    run_kernel(kernel, groups, argv);
    for (int64_t i = 0; i < p->batch * m * n; i++) {
        if (m * n > 4000 && i % 37 != 0) continue; /* a sample of the large ones */
        const int64_t g = i / (m * n), r = i / n % m, j = i % n;
        double sum = p->bias ? element_get(type, bias, (size_t)j) : 0;
        for (int64_t q = 0; q < k; q++) {
            sum += element_get(type, a, (size_t)(g * a_batch + r * a_row + q * a_col)) *
                   element_get(type, b, (size_t)(g * b_batch + q * b_row + j * b_col));
        }
        expect_near(type, element_get(type, c, (size_t)i), activate(sum, p->activation),
                    1e-6 * sqrt((double)k) + 2e-6, what, (size_t)i);
    }
    release_all();
}

Test(kernels_reduce, matmul_matches_a_double_reference) {
    static const product products[] = {
        {1, 1, 1, 1, 0, 0, 0, 0},     {3, 5, 7, 2, 0, 0, 1, 1},       {1, 300, 40, 1, 0, 0, 1, 2},
        {2, 300, 40, 1, 0, 1, 0, 3},  {4, 33, 70, 1, 1, 0, 1, 4},     {3, 33, 70, 1, 1, 1, 1, 5},
        {13, 37, 300, 2, 0, 0, 0, 0}, {13, 37, 300, 1, 0, 1, 1, 1},   {13, 37, 300, 1, 1, 0, 1, 6},
        {13, 37, 300, 1, 1, 1, 1, 2}, {130, 270, 261, 1, 0, 0, 1, 1}, {250, 530, 17, 1, 0, 1, 0, 0},
        {5, 1, 3, 1, 0, 0, 0, 0},     {12, 64, 256, 1, 0, 0, 0, 0},
    };
    for (int type = 0; type < E_FLOATS; type++) {
        for (int build = 0; build < build_count(); build++) {
            for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
                check_matmul((element)type, build, 1, &products[i]);
                check_matmul((element)type, build, 5, &products[i]);
            }
        }
    }
}

/* ---- images
 * ------------------------------------------------------------------------------------------------------
 */

typedef struct image {
    int64_t n, c, h, w, k, kh, kw, groups, stride_h, stride_w, dil_h, dil_w, top, left, oh, ow;
    int32_t bias, activation;
} image;

static double convolve(const image *p, element type, const void *x, const void *w, int64_t i) {
    const int64_t ox = i % p->ow, oy = i / p->ow % p->oh, k = i / (p->ow * p->oh) % p->k;
    const int64_t image_index = i / (p->ow * p->oh * p->k), inputs = p->c / p->groups;
    double sum = 0;
    for (int64_t c = 0; c < inputs; c++) {
        for (int64_t ky = 0; ky < p->kh; ky++) {
            for (int64_t kx = 0; kx < p->kw; kx++) {
                const int64_t iy = oy * p->stride_h - p->top + ky * p->dil_h;
                const int64_t ix = ox * p->stride_w - p->left + kx * p->dil_w;
                const int64_t channel = k / (p->k / p->groups) * inputs + c;
                if (iy < 0 || iy >= p->h || ix < 0 || ix >= p->w) continue;
                sum += element_get(
                           type, x,
                           (size_t)(((image_index * p->c + channel) * p->h + iy) * p->w + ix)) *
                       element_get(type, w, (size_t)(((k * inputs + c) * p->kh + ky) * p->kw + kx));
            }
        }
    }
    return sum;
}

static void check_conv(const char *name, element type, int build, const image *shape) {
    char what[96];
    image p = *shape;
    const k_info *kernel = find(name, type, build, what, sizeof what);
    const size_t outputs = (size_t)(p.n * p.k * p.oh * p.ow);
    void *x = scratch_values(type, (size_t)(p.n * p.c * p.h * p.w), -1, 1);
    void *w = scratch_values(type, (size_t)(p.k * p.c / p.groups * p.kh * p.kw), -1, 1);
    void *bias = scratch_values(type, (size_t)p.k, -1, 1),
         *y = scratch(outputs * element_bytes(type));
    void *argv[] = {&x,     &w,        &bias,       &y,           &p.n,     &p.c,
                    &p.h,   &p.w,      &p.k,        &p.kh,        &p.kw,    &p.oh,
                    &p.ow,  &p.groups, &p.stride_h, &p.stride_w,  &p.dil_h, &p.dil_w,
                    &p.top, &p.left,   &p.bias,     &p.activation};
    run_kernel(kernel, 3, argv);
    for (size_t i = 0; i < outputs; i++) {
        const int64_t channel = (int64_t)i / (p.oh * p.ow) % p.k;
        const double sum = convolve(&p, type, x, w, (int64_t)i) +
                           (p.bias ? element_get(type, bias, (size_t)channel) : 0);
        expect_near(type, element_get(type, y, i), activate(sum, p.activation),
                    2e-6 * sqrt((double)(p.c / p.groups * p.kh * p.kw)) + 1e-5, what, i);
    }
    release_all();
}

Test(kernels_reduce, convolution_matches_a_double_reference) {
    static const image images[] = {
        {1, 1, 8, 8, 6, 3, 3, 1, 1, 1, 1, 1, 1, 1, 8, 8, 1, 1},
        {2, 6, 9, 11, 4, 3, 5, 2, 2, 2, 1, 1, 1, 2, 5, 6, 1, 0},
        {1, 3, 10, 300, 5, 2, 3, 1, 1, 1, 2, 2, 0, 0, 8, 296, 0, 2},
        {1, 4, 7, 7, 4, 3, 3, 4, 1, 3, 1, 1, 0, 2, 5, 3, 1, 6},
        {1, 2, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 0, 0, 3, 3, 0, 0},
        {3, 8, 7, 7, 26, 3, 3, 2, 1, 1, 1, 1, 1, 1, 7, 7, 1, 1},
        {1, 29, 5, 120, 130, 3, 3, 1, 1, 1, 1, 1, 1, 1, 5, 120, 1, 0},
        {2, 12, 31, 33, 24, 5, 3, 1, 2, 2, 3, 2, 4, 3, 14, 18, 0, 3},
        {5, 40, 1, 1, 9, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 5},
    };
    for (int type = 0; type < E_FLOATS; type++) {
        for (int build = 0; build < build_count(); build++) {
            for (size_t i = 0; i < sizeof images / sizeof images[0]; i++)
                check_conv("conv2d", (element)type, build, &images[i]);
            for (size_t i = 0; i < sizeof images / sizeof images[0]; i++)
                check_conv("conv2d_tiled", (element)type, build, &images[i]);
        }
    }
}

static void check_pool(element type, int build, int average) {
    char what[96];
    int64_t planes = 3, h = 7, w = 9, oh = 4, ow = 5, kh = 3, kw = 3, stride = 2, pad = 1;
    const k_info *kernel =
        find(average ? "avgpool2d" : "maxpool2d", type, build, what, sizeof what);
    void *x = scratch_values(type, (size_t)(planes * h * w), -1, 1), *y = scratch(60 * 8);
    void *argv[] = {&x, &y, &planes, &h, &w, &oh, &ow, &kh, &kw, &stride, &stride, &pad, &pad};
    run_kernel(kernel, 2, argv);
    for (int64_t i = 0; i < planes * oh * ow; i++) {
        const int64_t ox = i % ow, oy = i / ow % oh, plane = i / (ow * oh);
        double best = -INFINITY, sum = 0, count = 0;
        for (int64_t iy = oy * stride - pad; iy < oy * stride - pad + kh; iy++) {
            for (int64_t ix = ox * stride - pad; ix < ox * stride - pad + kw; ix++) {
                if (iy < 0 || iy >= h || ix < 0 || ix >= w) continue;
                const double v = element_get(type, x, (size_t)((plane * h + iy) * w + ix));
                best = fmax(best, v);
                sum += v;
                count++;
            }
        }
        expect_near(type, element_get(type, y, (size_t)i), average ? sum / count : best, 1e-6, what,
                    (size_t)i);
    }
    release_all();
}

Test(kernels_reduce, pooling_counts_only_pixels_inside) {
    for (int type = 0; type < E_FLOATS; type++) {
        for (int build = 0; build < build_count(); build++) {
            check_pool((element)type, build, 0);
            check_pool((element)type, build, 1);
        }
    }
}
