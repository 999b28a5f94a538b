/* SPDX-License-Identifier: Apache-2.0
 *
 * See hand.h. Compiled by gcc -O3 -march=native -ffast-math -fopenmp.
 */
#include "hand.h"

#include <math.h>

void hand_relu(const float *restrict x, float *restrict y, int64_t n) {
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) y[i] = x[i] > 0 ? x[i] : 0;
}

void hand_add(const float *restrict a, const float *restrict b, float *restrict y, int64_t n) {
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

void hand_triad(float *restrict a, const float *restrict b, const float *restrict c, float s,
                int64_t n, int threads) {
#pragma omp parallel for simd num_threads(threads)
    for (int64_t i = 0; i < n; i++) a[i] = b[i] + s * c[i];
}

void hand_gelu(const float *restrict x, float *restrict y, int64_t n) {
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) {
        float u = 1.59576912f * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
        y[i] = x[i] / (1.0f + expf(-u));
    }
}

void hand_softmax(const float *restrict x, float *restrict y, int rows, int cols) {
#pragma omp parallel for
    for (int r = 0; r < rows; r++) {
        const float *xr = x + (int64_t)r * cols;
        float *yr = y + (int64_t)r * cols, largest = -INFINITY, sum = 0;
        for (int j = 0; j < cols; j++) largest = xr[j] > largest ? xr[j] : largest;
        for (int j = 0; j < cols; j++) {
            float e = expf(xr[j] - largest);
            yr[j] = e;
            sum += e;
        }
        float inverse = 1 / sum;
        for (int j = 0; j < cols; j++) yr[j] *= inverse;
    }
}

void hand_layernorm(const float *restrict x, const float *restrict gamma,
                    const float *restrict beta, float *restrict y, int rows, int cols, float eps) {
#pragma omp parallel for
    for (int r = 0; r < rows; r++) {
        const float *xr = x + (int64_t)r * cols;
        float *yr = y + (int64_t)r * cols, sum = 0, squares = 0;
        for (int j = 0; j < cols; j++) sum += xr[j];
        float mean = sum / (float)cols;
        for (int j = 0; j < cols; j++) squares += (xr[j] - mean) * (xr[j] - mean);
        float scale = 1 / sqrtf(squares / (float)cols + eps);
        for (int j = 0; j < cols; j++) yr[j] = (xr[j] - mean) * scale * gamma[j] + beta[j];
    }
}
