/* SPDX-License-Identifier: Apache-2.0
 *
 * oneDNN and OpenBLAS called directly, as peers.
 */
#ifndef DHOW_BENCH_RAW_BLAS_H_
#define DHOW_BENCH_RAW_BLAS_H_

#include <stdbool.h>
#include <stdint.h>

/* c[m][n] = a[m][k] b, b[k][n] or, transposed, b[n][k], with b packed once. NULL when oneDNN was
 * not there at build time. */
typedef struct raw_onednn raw_onednn;
raw_onednn *raw_onednn_make(int64_t m, int64_t n, int64_t k, float *a, float *b, bool transposed,
                            float *c);
void raw_onednn_run(raw_onednn *p);
void raw_onednn_end(raw_onednn *p);

/* The same through libopenblas.so.0. Its threads start with the library, so only the process that
 * measures loads it. */
bool raw_openblas_found(void);
void raw_openblas(int64_t m, int64_t n, int64_t k, const float *a, const float *b, bool transposed,
                  float *c);

#endif /* DHOW_BENCH_RAW_BLAS_H_ */
