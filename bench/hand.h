/* SPDX-License-Identifier: Apache-2.0
 *
 * What a C programmer would write by hand: plain loops, OpenMP, the compiler's fast mathematics.
 */
#ifndef DHOW_BENCH_HAND_H_
#define DHOW_BENCH_HAND_H_

#include <stdint.h>

void hand_relu(const float *restrict x, float *restrict y, int64_t n);
void hand_add(const float *restrict a, const float *restrict b, float *restrict y, int64_t n);
/* STREAM's: a = b + s c. */
void hand_triad(float *restrict a, const float *restrict b, const float *restrict c, float s,
                int64_t n, int threads);
void hand_gelu(const float *restrict x, float *restrict y, int64_t n); /* tanh form */
void hand_softmax(const float *restrict x, float *restrict y, int rows, int cols);
void hand_layernorm(const float *restrict x, const float *restrict gamma,
                    const float *restrict beta, float *restrict y, int rows, int cols, float eps);

#endif /* DHOW_BENCH_HAND_H_ */
