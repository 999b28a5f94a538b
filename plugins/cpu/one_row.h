/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of one row with a matrix, as a decoder has for each token: the matrix is read once, in
 * order, which takes as long as memory does.
 */
#ifndef DHOW_PLUGINS_CPU_ONE_ROW_H_
#define DHOW_PLUGINS_CPU_ONE_ROW_H_

#include <stdint.h>

/* c[n] = a[k] b[k][n], or a[k] b[n][k] transposed. */
typedef struct one_row_job {
    int64_t n, k, ldb; /* ldb: floats from row to row of b */
    int transposed;
    int cached; /* so little that a cache holds what b is a part of */
    int ahead;  /* the processor itself fetches what comes of rows beside each other */
    const float *a, *b;
    float *c;
} one_row_job;

/* Columns first .. end-1, compiled for an instruction set. */
typedef void one_row(const one_row_job *job, int64_t first, int64_t end);
one_row one_row_v3, one_row_v4;

#endif
