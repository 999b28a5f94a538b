/* SPDX-License-Identifier: Apache-2.0
 *
 * See one_row.h. LANES and ONE_ROW are given by the build.
 */
#include "one_row.h"

#include "vectors.h"

/* Of long rows several are read beside each other. Short ones are read one after the other, but
 * with AVX2 alone: b as a whole is one stream then, which most processors fetch ahead. */
enum { SHORT = 1024, BESIDE = 8, COLUMNS = 4 };

/* What comes next, which may lie beyond b. */
INLINE void fetch(const float *p) { _mm_prefetch((const char *)p, _MM_HINT_T0); }

/* ---- b[k][n]: rows of b are added up, c meanwhile stays in the nearest cache ---- */

/* Vectors of a row that are read at once, where the processor reads ahead and else. */
enum { ACROSS_AHEAD = LANES == 16 ? 2 : 4, ACROSS = LANES == 16 ? 1 : 4, LINE = 16 /* floats */ };

/* Rows beside each other, from column 0 on, and what each is multiplied with. */
typedef struct row_group {
    const float *b[BESIDE], *next; /* the row behind them */
    vec a[BESIDE];
} row_group;

/* Some vectors from column `at` on, of the last of which so many columns are there. */
INLINE void add_at(const one_row_job *j, const row_group *g, int64_t row, int64_t at, int64_t there,
                   const int rows, const int vectors, const int fetches) {
    vec sums[ACROSS_AHEAD];
    if (rows > 1 && fetches) {
        for (int h = 0; h < vectors * LANES; h += LINE)
            UNROLL for (int r = 0; r < rows; r++) fetch(g->next + r * j->ldb + at + h);
    }
    UNROLL for (int h = 0; h < vectors; h++) sums[h] =
        row > 0 ? load_part(j->c + at + h * LANES, there) : (vec){0};
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int h = 0; h < vectors; h++) sums[h] +=
            load_part(g->b[r] + at + h * LANES, there) * g->a[r];
    }
    UNROLL for (int h = 0; h < vectors; h++) store_part(j->c + at + h * LANES, sums[h], there);
}

INLINE void add_rows(const one_row_job *j, int64_t row, int64_t first, int64_t end, const int rows,
                     const int across, const int fetches) {
    row_group g = {.next = j->b + (row + rows) * j->ldb};
    UNROLL for (int r = 0; r < rows; r++) {
        g.b[r] = j->b + (row + r) * j->ldb;
        g.a[r] = (vec){0} + j->a[row + r];
    }
    int64_t at = first;
    for (; across > 1 && at + across * LANES <= end; at += across * LANES)
        add_at(j, &g, row, at, LANES, rows, across, fetches);
    for (; at + LANES <= end; at += LANES) add_at(j, &g, row, at, LANES, rows, 1, fetches);
    if (at < end) add_at(j, &g, row, at, end - at, rows, 1, fetches);
}

INLINE void add_all(const one_row_job *j, int64_t first, int64_t end, const int beside,
                    const int across, const int fetches) {
    int64_t row = 0;
    for (; row + beside <= j->k; row += beside)
        add_rows(j, row, first, end, beside, across, fetches);
    for (; row < j->k; row++) add_rows(j, row, first, end, 1, across, 0);
}

/* With AVX2 alone the next rows are fetched where they leave room for these in the nearest cache:
 * long ones take half as long without. */
INLINE void by_rows(const one_row_job *j, int64_t first, int64_t end) {
    enum { NEAR = 2048 }; /* columns whose sums stay near */
    for (int64_t part = first; part < end; part += NEAR) {
        const int64_t stop = part + NEAR < end ? part + NEAR : end;
        if (j->ahead)
            add_all(j, part, stop, BESIDE, ACROSS_AHEAD, 0);
        else if (LANES == 16 && j->n <= SHORT && !j->cached)
            add_all(j, part, stop, 1, ACROSS, 0);
        else if (LANES == 16 || j->n < SHORT)
            add_all(j, part, stop, BESIDE, ACROSS, 1);
        else
            add_all(j, part, stop, BESIDE, ACROSS, 0);
    }
}

/* ---- b[n][k]: dot products ---- */

/* What so many columns add up from `at` on. */
INLINE void multiply_at(const one_row_job *j, int64_t column, int64_t at, int64_t there, vec *sums,
                        const int columns) {
    const vec a = load_part(j->a + at, there);
    UNROLL for (int c = 0; c < columns; c++) sums[c] +=
        a * load_part(j->b + (column + c) * j->ldb + at, there);
}

/* sums[c]: what is to be added up for column number c. */
INLINE void dot_beside(const one_row_job *j, int64_t column, vec *sums) {
    int64_t k = 0;
    for (; k + LANES <= j->k; k += LANES) multiply_at(j, column, k, LANES, sums, COLUMNS);
    if (k < j->k) multiply_at(j, column, k, j->k - k, sums, COLUMNS);
}

/* The same of one column, with sums that do not wait for each other. */
INLINE vec dot_alone(const one_row_job *j, int64_t column) {
    enum { STEP = COLUMNS * LANES };
    const float *b = j->b + column * j->ldb;
    vec sums[COLUMNS] = {{0}};
    int64_t k = 0;
    for (; k + STEP <= j->k; k += STEP)
        UNROLL for (int c = 0; c < COLUMNS; c++) sums[c] +=
            load(b + k + c * LANES) * load(j->a + k + c * LANES);
    for (; k < j->k; k += LANES) multiply_at(j, column, k, j->k - k, sums, 1);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

INLINE void by_columns(const one_row_job *j, int64_t first, int64_t end) {
    for (int64_t column = first; column < end; column += LANES) {
        vec sums[LANES] = {{0}};
        const int there = end - column < LANES ? (int)(end - column) : LANES;
        int at = 0;
        for (; j->k > SHORT && at + COLUMNS <= there; at += COLUMNS)
            dot_beside(j, column + at, sums + at);
        for (; at < there; at++) sums[at] = dot_alone(j, column + at);
        store_part(j->c + column, sum_lanes(sums), there);
    }
}

void ONE_ROW(const one_row_job *j, int64_t first, int64_t end) {
    if (j->transposed) {
        by_columns(j, first, end);
    } else {
        by_rows(j, first, end);
    }
}
