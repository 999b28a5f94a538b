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
    int64_t stride;    /* floats from row to row of b */
    const float *bias; /* of its columns; NULL, or added */
    const float *next; /* that which is multiplied behind it, where it is packed; NULL */
    int relu;
} panel;

/* What is added to the rows of a product: rows of floats, as many times as `times`, and a number
 * each (NULL: none). */
typedef struct addend {
    const float *rows;
    int64_t stride;
    float times;
    const float *row_bias;
} addend;

/* What of a row of c lies in vector number `h`. */
INLINE int64_t there_of(const panel *p, int h) { return p->columns - h * LANES; }

static __attribute__((noinline)) void copy_rows(const float *from, int64_t stride, float *to,
                                                int64_t to_stride, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < columns; i += LANES)
            store_part(to + r * to_stride + i, load_part(from + r * stride + i, columns - i),
                       columns - i);
}

/* Some rows of the columns of a panel, as so many vectors. */
INLINE void add_tile(const panels_job *j, const panel *p, const float *a, float *c, addend added,
                     const int rows, const int vectors) {
    const float *b = p->b;
    const int64_t row = j->a_row, column = j->a_column, stride = p->stride;
    const int whole = p->columns == vectors * LANES;
    float edge[ROWS * WIDTH], *to = whole ? c : edge;
    const int64_t to_row = whole ? j->ldc : WIDTH;
    vec sums[ROWS][2], bias[2] = {{0}};
    UNROLL for (int r = 0; r < rows; r++) __builtin_prefetch(c + r * j->ldc, 1);
    if (p->bias)
        UNROLL for (int h = 0; h < vectors; h++) bias[h] =
            load_part(p->bias + h * LANES, there_of(p, h));
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int h = 0; h < vectors; h++) sums[r][h] = bias[h];
    }
    if (added.row_bias) {
        UNROLL for (int r = 0; r < rows; r++) {
            UNROLL for (int h = 0; h < vectors; h++) sums[r][h] = all(added.row_bias[r]);
        }
    }
    for (int64_t l = 0; l < p->depth; l++, a += column, b += stride) {
        vec beside[2];
        UNROLL for (int h = 0; h < vectors; h++) beside[h] = load(b + h * LANES);
        UNROLL for (int r = 0; r < rows; r++) {
            const float x = a[r * row];
            UNROLL for (int h = 0; h < vectors; h++) sums[r][h] += beside[h] * x;
        }
    }
    if (added.times != 0 && !whole) {
        copy_rows(added.rows, added.stride, edge, WIDTH, rows, p->columns);
        added.rows = edge;
        added.stride = WIDTH;
    }
    if (added.times != 0 || j->alpha != 1) {
        UNROLL for (int r = 0; r < rows; r++) {
            UNROLL for (int h = 0; h < vectors; h++) {
                const vec more = load(added.rows + r * added.stride + h * LANES);
                sums[r][h] = sums[r][h] * j->alpha + more * added.times;
            }
        }
    }
    if (p->relu) {
        UNROLL for (int r = 0; r < rows; r++) {
            UNROLL for (int h = 0; h < vectors; h++) sums[r][h] = at_least(sums[r][h], 0.0f);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int h = 0; h < vectors; h++) store(to + r * to_row + h * LANES, sums[r][h]);
    }
    if (!whole) copy_rows(edge, WIDTH, c, j->ldc, rows, p->columns);
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
    for (int64_t i = 0; i < p->columns; i++) {
        const float *column = from + i * j->b_column;
        for (int64_t l = 0; l < p->depth; l++) room[l * WIDTH + i] = column[l * j->b_row];
    }
    for (int64_t i = p->columns; i < vectors * LANES; i++)
        for (int64_t l = 0; l < p->depth; l++) room[l * WIDTH + i] = 0;
}

/* Has the second cache fetch so many rows of a panel: processors do not by themselves, since the
 * one before it lies elsewhere. */
INLINE const float *fetch(const float *from, int64_t rows) {
    if (!from) return NULL;
    for (int64_t l = 0; l < rows; l++) __builtin_prefetch(from + l * WIDTH, 0, 2);
    return from + rows * WIDTH;
}

INLINE void add_rows(const panels_job *j, const panel *p, const float *a, float *c, addend added,
                     const int vectors) {
    int64_t left = j->m;
    const float *next = p->next;
    const int64_t share = next ? p->depth * ROWS / left + 1 : 0; /* of each tile */
#define ROWS_AT_ONCE(most)                                                         \
    for (; left >= most; left -= most, a += most * j->a_row, c += most * j->ldc) { \
        next = fetch(next, share);                                                 \
        add_tile(j, p, a, c, added, most, vectors);                                \
        added.rows += most * added.stride;                                         \
        if (added.row_bias) added.row_bias += most;                                \
    }
    ROWS_AT_ONCE(ROWS)
    if (ROWS > 8) ROWS_AT_ONCE(8)
    if (ROWS < 8) ROWS_AT_ONCE(5) /* fewer sums than six take as long as the first of them */
    ROWS_AT_ONCE(4)
    if (ROWS < 8) ROWS_AT_ONCE(3)
    if (ROWS < 8) ROWS_AT_ONCE(2)
    ROWS_AT_ONCE(1)
#undef ROWS_AT_ONCE
}

static void add_panel(const panels_job *j, const panel *p, int64_t first, int64_t at) {
    static const float none[WIDTH];
    const float *a = j->a + first * j->a_column;
    float *c = j->c + at;
    const addend added = first != 0 ? (addend){c, j->ldc, 1, NULL}
                         : j->added ? (addend){j->added + at, j->added_row, j->beta, j->row_bias}
                                    : (addend){none, 0, 0, j->row_bias};
    if (p->columns > LANES) {
        add_rows(j, p, a, c, added, 2);
    } else {
        add_rows(j, p, a, c, added, 1);
    }
}

/* Whether a panel is read where it lies: few rows would not pay for packing it, nor does it leave
 * the nearest cache. */
INLINE int lies_well(const panels_job *j, const panel *p) {
    return j->b_column == 1 && p->columns % LANES == 0 && (j->m <= 2 * ROWS || j->k <= 32);
}

INLINE panel panel_of(const panels_job *j, int64_t end, int64_t at, int64_t l) {
    return (panel){.depth = j->k - l < DEPTH ? j->k - l : DEPTH,
                   .columns = end - at < WIDTH ? end - at : WIDTH,
                   .b = j->packed ? j->packed + at * j->k + l * WIDTH : j->b + l * j->b_row + at,
                   .stride = j->packed ? WIDTH : j->b_row,
                   .bias = j->bias && l == 0 ? j->bias + at : NULL,
                   .relu = j->relu && l + DEPTH >= j->k};
}

/* What is read of a stays in the second cache while the panels pass by it. */
void PANELS(const panels_job *j, int64_t first, int64_t end) {
    float room[DEPTH * WIDTH] __attribute__((aligned(64)));
    for (int64_t l = 0; l < j->k; l += DEPTH) {
        for (int64_t at = first; at < end; at += WIDTH) {
            panel p = panel_of(j, end, at, l);
            if (j->packed && at + WIDTH < end) p.next = panel_of(j, end, at + WIDTH, l).b;
            if (!j->packed && !lies_well(j, &p)) pack(j, l, at, &p, room);
            add_panel(j, &p, l, at);
        }
    }
}

#ifdef PACK_PANELS
void PACK_PANELS(const panels_job *j, int64_t first, int64_t end, float *packed) {
    for (int64_t at = first; at < end; at += WIDTH) {
        for (int64_t l = 0; l < j->k; l += DEPTH) {
            panel p = panel_of(j, end, at, l);
            pack(j, l, at, &p, packed + at * j->k + l * WIDTH);
        }
    }
}
#endif
