/* SPDX-License-Identifier: Apache-2.0
 *
 * See panels.h. LANES and PANELS are given by the build.
 */
#include "panels.h"

#include "vectors.h"

/* A panel of DEPTH rows and two vectors stays in the nearest cache, as many rows of sums as there
 * are registers for. */
enum { DEPTH = 256, WIDTH = 2 * LANES, ROWS = LANES == 16 ? 12 : 6 };

typedef struct panel {
    int64_t depth, columns; /* of WIDTH, those that are there */
    const float *b;
    int64_t stride; /* floats from row to row of b */
} panel;

/* What of a row of c lies in vector number `h`. */
INLINE int64_t there_of(const panel *p, int h) { return p->columns - h * LANES; }

/* Some rows of the columns of a panel, as so many vectors. */
INLINE void add_tile(const panels_job *j, const panel *p, const float *a, float *c, float keep,
                     const int rows, const int vectors) {
    const float *b = p->b;
    const int64_t row = j->a_row, column = j->a_column, stride = p->stride;
    vec sums[ROWS][2] = {{{0}}};
    for (int64_t l = 0; l < p->depth; l++, a += column, b += stride) {
        vec beside[2];
        UNROLL for (int h = 0; h < vectors; h++) beside[h] = load(b + h * LANES);
        UNROLL for (int r = 0; r < rows; r++) {
            const float x = a[r * row];
            UNROLL for (int h = 0; h < vectors; h++) sums[r][h] += beside[h] * x;
        }
    }
    if (keep == 0 && j->alpha == 1 && p->columns == vectors * LANES) {
        UNROLL for (int r = 0; r < rows; r++) {
            UNROLL for (int h = 0; h < vectors; h++) store(c + r * j->ldc + h * LANES, sums[r][h]);
        }
        return;
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int h = 0; h < vectors; h++) {
            float *to = c + r * j->ldc + h * LANES;
            sums[r][h] *= j->alpha;
            if (keep != 0) sums[r][h] += load_part(to, there_of(p, h)) * keep;
            store_part(to, sums[r][h], there_of(p, h));
        }
    }
}

/* Rows `first`.. of b's columns at.., zeros beyond the last column. */
INLINE void pack(const panels_job *j, int64_t first, int64_t at, panel *p, float *room) {
    const float *from = j->b + first * j->b_row + at * j->b_column;
    const int vectors = p->columns > LANES ? 2 : 1;
    p->b = room;
    p->stride = WIDTH;
    if (j->b_column == 1) {
        for (int64_t l = 0; l < p->depth; l++, from += j->b_row, room += WIDTH) {
            for (int h = 0; h < vectors; h++)
                store(room + h * LANES, load_part(from + h * LANES, there_of(p, h)));
        }
        return;
    }
    for (int64_t i = 0; i < vectors * LANES; i++) {
        const float *column = from + i * j->b_column;
        for (int64_t l = 0; l < p->depth; l++)
            room[l * WIDTH + i] = i < p->columns ? column[l * j->b_row] : 0;
    }
}

INLINE void add_rows(const panels_job *j, const panel *p, const float *a, float *c, float keep,
                     const int vectors) {
    int64_t left = j->m;
#define ROWS_AT_ONCE(rows)                                                       \
    for (; left >= rows; left -= rows, a += rows * j->a_row, c += rows * j->ldc) \
    add_tile(j, p, a, c, keep, rows, vectors)
    ROWS_AT_ONCE(ROWS);
    if (ROWS > 8) ROWS_AT_ONCE(8);
    ROWS_AT_ONCE(4);
    ROWS_AT_ONCE(1);
#undef ROWS_AT_ONCE
}

static void add_panel(const panels_job *j, const panel *p, int64_t first, int64_t at, float keep) {
    const float *a = j->a + first * j->a_column;
    if (p->columns > LANES) {
        add_rows(j, p, a, j->c + at, keep, 2);
    } else {
        add_rows(j, p, a, j->c + at, keep, 1);
    }
}

/* Whether a panel is read where it lies: few rows would not pay for packing it, nor does it leave
 * the nearest cache. */
INLINE int lies_well(const panels_job *j, const panel *p) {
    return j->b_column == 1 && p->columns % LANES == 0 && (j->m <= 2 * ROWS || j->k <= 32);
}

void PANELS(const panels_job *j, int64_t first, int64_t end) {
    float room[DEPTH * WIDTH] __attribute__((aligned(64)));
    for (int64_t at = first; at < end; at += WIDTH) {
        for (int64_t l = 0; l < j->k; l += DEPTH) {
            panel p = {.depth = j->k - l < DEPTH ? j->k - l : DEPTH,
                       .columns = end - at < WIDTH ? end - at : WIDTH,
                       .b = j->b + l * j->b_row + at,
                       .stride = j->b_row};
            if (!lies_well(j, &p)) pack(j, l, at, &p, room);
            add_panel(j, &p, l, at, l == 0 ? j->beta : 1);
        }
    }
}
