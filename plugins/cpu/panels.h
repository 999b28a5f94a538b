/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of plain matrices, by panels of b. oneDNN's sgemm writes code for 36 ms before its first
 * product, as long as many a model takes to load and to run once.
 */
#ifndef DHOW_PLUGINS_CPU_PANELS_H_
#define DHOW_PLUGINS_CPU_PANELS_H_

#include <stdint.h>

enum { PANEL_COLUMNS = 32 };

/* c[m][n] = alpha a[m][k] b[k][n] + beta c. Elements are so many floats apart from row to row and
 * from column to column; those of c lie beside each other. */
typedef struct panels_job {
    int64_t m, n, k;
    const float *a;
    int64_t a_row, a_column;
    const float *b;
    int64_t b_row, b_column;
    float *c;
    int64_t ldc;
    float alpha, beta;
} panels_job;

/* Columns first .. end-1, compiled for an instruction set. Each panel of PANEL_COLUMNS is packed by
 * who computes it, so a part is best whole panels and all rows. */
typedef void panels(const panels_job *job, int64_t first, int64_t end);
panels panels_v3, panels_v4;

#endif
