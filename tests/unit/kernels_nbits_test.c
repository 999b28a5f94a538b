/* SPDX-License-Identifier: Apache-2.0
 *
 * Products with weights of 4 or 8 bits, and such weights written down, against double references.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#include "kernel_support.h"

static const element k_types[] = {E_F32, E_F16, E_BF16};

typedef struct shape {
    int64_t m, n, k;
    int32_t shift, bits, zero_mode, bias_mode;
} shape;

/* Blocks shorter and longer than a vector, filled or not; rows that fill a tile or not; more codes
 * in a row than the CPU takes at once. */
static const shape k_shapes[] = {
    {1, 21, 64, 5, 4, 0, 1},   {5, 20, 200, 4, 4, 1, 0},  {7, 9, 129, 6, 4, 2, 1},
    {1, 5, 9000, 7, 4, 1, 0},  {4, 3, 2500, 11, 4, 1, 1}, {1, 18, 77, 5, 8, 1, 0},
    {6, 7, 2304, 8, 8, 0, 1},  {2, 300, 48, 4, 8, 2, 0},  {1, 1, 1, 4, 4, 0, 0},
    {4, 17, 4096, 5, 4, 2, 0},
};

typedef struct weights {
    uint8_t *codes, *zeros;
    void *scales, *zero_numbers;
    int64_t blocks, row_bytes, zero_bytes;
} weights;

static weights weights_of(const shape *s, element type) {
    weights w = {.blocks = ((s->k - 1) >> s->shift) + 1};
    w.row_bytes = (w.blocks << s->shift) * s->bits / 8;
    w.zero_bytes = (w.blocks * s->bits + 7) / 8;
    w.codes = scratch_values(E_U8, (size_t)(s->n * w.row_bytes), 0, 255);
    w.zeros = scratch_values(E_U8, (size_t)(s->n * w.zero_bytes), 0, 255);
    w.scales = scratch_values(type, (size_t)(s->n * w.blocks), -0.1, 0.1);
    w.zero_numbers = scratch_values(type, (size_t)(s->n * w.blocks), 0, 15);
    return w;
}

static int code_at(const uint8_t *row, int64_t i, int bits) {
    return bits == 8 ? row[i] : i % 2 == 0 ? row[i / 2] & 15 : row[i / 2] >> 4;
}

static double weight_at(const shape *s, element type, const weights *w, int64_t j, int64_t p) {
    const int64_t block = p >> s->shift;
    const size_t at = (size_t)(j * w->blocks + block);
    double zero = s->bits == 8 ? 128 : 8;
    if (s->zero_mode == 1) zero = code_at(w->zeros + j * w->zero_bytes, block, s->bits);
    if (s->zero_mode == 2) zero = element_get(type, w->zero_numbers, at);
    return element_get(type, w->scales, at) *
           (code_at(w->codes + j * w->row_bytes, p, s->bits) - zero);
}

/* What rows as bytes may differ by: each block of a row is rounded by its largest value over 127,
 * and errors add up as their squares do. */
static double rounding_of(const shape *s, element type, const void *a, const double *plain) {
    double most = 0;
    for (int64_t i = 0; i < s->m; i++) {
        for (int64_t j = 0; j < s->n; j++) {
            double squares = 0, largest = 0;
            for (int64_t p = 0; p < s->k; p++) {
                if ((p & ((1 << s->shift) - 1)) == 0) {
                    largest = 0;
                    for (int64_t q = p; q < s->k && q < p + (1 << s->shift); q++)
                        largest = fmax(largest, fabs(element_get(type, a, (size_t)(i * s->k + q))));
                }
                const double error = largest / 254 * plain[j * s->k + p];
                squares += error * error;
            }
            most = fmax(most, squares);
        }
    }
    return 6 * sqrt(most);
}

static void check(const shape *s, element type) {
    const size_t count = (size_t)(s->m * s->n), all = (size_t)(s->n * s->k);
    weights w = weights_of(s, type);
    void *a = scratch_values(type, (size_t)(s->m * s->k), -1, 1);
    void *bias = scratch_values(type, (size_t)s->n, -1, 1);
    void *c = scratch(count * element_bytes(type)), *y = scratch(all * element_bytes(type));
    double *want = scratch(count * sizeof *want), *plain = scratch(all * sizeof *plain), most = 0;
    shape v = *s;
    char name[64];
    for (int64_t j = 0; j < s->n; j++)
        for (int64_t p = 0; p < s->k; p++) plain[j * s->k + p] = weight_at(s, type, &w, j, p);
    for (int64_t i = 0; i < s->m; i++) {
        for (int64_t j = 0; j < s->n; j++) {
            double sum = s->bias_mode != 0 ? element_get(type, bias, (size_t)j) : 0, size = 1;
            for (int64_t p = 0; p < s->k; p++) {
                const double term =
                    element_get(type, a, (size_t)(i * s->k + p)) * plain[j * s->k + p];
                sum += term;
                size += term < 0 ? -term : term;
            }
            want[i * s->n + j] = sum;
            most = size > most ? size : most;
        }
    }
    void *argv[] = {&a,        &w.codes, &w.scales, &w.zeros,     &w.zero_numbers,
                    &bias,     &c,       &v.m,      &v.n,         &v.k,
                    &w.blocks, &v.shift, &v.bits,   &v.zero_mode, &v.bias_mode};
    (void)snprintf(name, sizeof name, "matmul_nbits_%s", element_names[type]);
    expect_all_builds(name, type, argv, 6, want, count, 2e-6 * most);
    v.zero_mode += 4;
    expect_all_builds(name, type, argv, 6, want, count,
                      2e-6 * most + rounding_of(s, type, a, plain));
    v.zero_mode = s->zero_mode;
    void *written[] = {&w.codes, &w.scales, &w.zeros, &w.zero_numbers, &y,          &v.n,
                       &v.k,     &w.blocks, &v.shift, &v.bits,         &v.zero_mode};
    (void)snprintf(name, sizeof name, "unpack_nbits_%s", element_names[type]);
    expect_all_builds(name, type, written, 4, plain, all, 1e-6);
    release_all();
}

Test(kernels_nbits, weights_of_few_bits_are_those_of_a_double_reference, .timeout = 120) {
    for (size_t t = 0; t < sizeof k_types / sizeof *k_types; t++)
        for (size_t i = 0; i < sizeof k_shapes / sizeof *k_shapes; i++)
            check(&k_shapes[i], k_types[t]);
}
