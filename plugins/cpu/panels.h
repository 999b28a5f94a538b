/* SPDX-License-Identifier: Apache-2.0
 *
 * Products by panels of b, which is a plain matrix or was packed. oneDNN's sgemm writes code for 36
 * ms before its first product, as long as many a model takes to load and to run once.
 */
#ifndef DHOW_PLUGINS_CPU_PANELS_H_
#define DHOW_PLUGINS_CPU_PANELS_H_

#include <stdint.h>

enum { PANEL_COLUMNS = 32, PANELS_FEW_ROWS = 2 /* so few do not pay for it */ };

/* c[m][n] = alpha (a[m][k] b[k][n] + bias[n] or row_bias[m]) + beta added[m][n]. Elements are so
 * many floats apart from row to row and from column to column; those of c and of what is added lie
 * beside each other. */
typedef struct panels_job {
    int64_t m, n, k;
    const float *a;
    int64_t a_row, a_column;
    const float *b;
    int64_t b_row, b_column;
    const float *packed; /* b by pack_panels, read in its place; NULL where it is not packed */
    float *c;
    int64_t ldc;
    const float *bias, *row_bias, *added; /* NULL: none. c may be what is added */
    int64_t added_row;
    float alpha, beta;
    int relu; /* what is below 0 becomes 0 at last */
} panels_job;

/* Columns first .. end-1, compiled for an instruction set. Each panel of PANEL_COLUMNS is packed by
 * who computes it, so a part is best whole panels and all rows. */
typedef void panels(const panels_job *job, int64_t first, int64_t end);
panels panels_v3, panels_v4;

/* The same columns of b, of b's k rows each: to packed_panels(n, k) floats for all of them. */
typedef void pack_panels(const panels_job *job, int64_t first, int64_t end, float *packed);
pack_panels pack_panels_v3;

static inline int64_t packed_panels(int64_t n, int64_t k) {
    return (n + PANEL_COLUMNS - 1) / PANEL_COLUMNS * PANEL_COLUMNS * k;
}

#endif
