/* SPDX-License-Identifier: Apache-2.0
 *
 * Winograd's transforms and products on tiles, for the instruction set that this file is compiled
 * for: WINOGRAD_TILES names the table, LANES the floats of a vector.
 */
#include <stdbool.h>
#include <string.h>

#include "vectors.h"
#include "winograd.h"

enum {
    POINTS = WINOGRAD_POINTS,
    SIDE = WINOGRAD_SIDE,
    RESULTS = WINOGRAD_RESULTS,
    PANEL_VECTORS = LANES / 4, /* with the rows below as many sums as there are registers for */
    PANEL = PANEL_VECTORS * LANES,
    MOST = 48 /* tiles of a call */
};

static const float ROOT = 1.41421356237309505f, HALF_ROOT = 0.70710678118654752f;

/* ---- transforms ---- */

typedef struct tile {
    int64_t image, row, column; /* of its first result */
} tile;

static tile tile_at(const winograd_job *job, int64_t at) {
    const int64_t each = job->tiles_down * job->tiles_across, image = at / each;
    const int64_t rest = at - image * each;
    return (tile){image, rest / job->tiles_across * RESULTS, rest % job->tiles_across * RESULTS};
}

/* The transpose of B: a polynomial's values at the points, without the factor of each. */
INLINE void transform_pixels(const vec *d, int64_t apart, vec *out) {
    const vec d0 = d[0], d1 = d[apart], d2 = d[2 * apart], d3 = d[3 * apart], d4 = d[4 * apart],
              d5 = d[5 * apart];
    const vec e = d4 - 2.0f * d2, o = HALF_ROOT * (d3 - 2.0f * d1);
    const vec f = d4 - 0.5f * d2, p = ROOT * (d3 - 0.5f * d1);
    out[0] = d0 - 2.5f * d2 + d4;
    out[1] = e + o;
    out[2] = e - o;
    out[3] = f + p;
    out[4] = f - p;
    out[5] = d1 - 2.5f * d3 + d5;
}

/* The transpose of A: coefficients from values at the points. */
INLINE void transform_sums(const vec *m, int64_t apart, vec *out) {
    const vec m0 = m[0], m1 = m[apart], m2 = m[2 * apart], m3 = m[3 * apart], m4 = m[4 * apart],
              m5 = m[5 * apart];
    const vec s = m1 + m2, d = m1 - m2, t = m3 + m4, e = m3 - m4;
    out[0] = m0 + s + t;
    out[1] = HALF_ROOT * d + ROOT * e;
    out[2] = 0.5f * s + 2.0f * t;
    out[3] = 0.5f * HALF_ROOT * d + 2.0f * ROOT * e + m5;
}

INLINE void store_transform(const vec pixels[SIDE * SIDE], float *to, int64_t apart) {
    vec columns[SIDE * SIDE], row[SIDE];
    UNROLL for (int j = 0; j < SIDE; j++) {
        transform_pixels(pixels + j, SIDE, row);
        for (int i = 0; i < SIDE; i++) columns[i * SIDE + j] = row[i];
    }
    UNROLL for (int i = 0; i < SIDE; i++) {
        transform_pixels(columns + i * SIDE, 1, row);
        for (int j = 0; j < SIDE; j++) store(to + (i * SIDE + j) * apart, row[j]);
    }
}

/* A tile's pixels, those of the padding 0, to[point][c]. */
static void read_tile(const winograd_job *job, int64_t at, float *to, int64_t apart) {
    const winograd_image *from = &job->from;
    const tile t = tile_at(job, at);
    const int64_t row = t.row - job->top, column = t.column - job->left;
    const float *x = job->x + t.image * from->image + (row * from->width + column) * from->pixel;
    const bool inside =
        row >= 0 && column >= 0 && row + SIDE <= from->height && column + SIDE <= from->width;
    for (int64_t c = 0; c < from->channels; c += LANES, x += from->vector) {
        const int64_t count = from->channels - c;
        vec pixels[SIDE * SIDE];
        if (inside && count >= LANES) {
            UNROLL for (int i = 0; i < SIDE; i++) {
                const float *line = x + i * from->width * from->pixel;
                for (int j = 0; j < SIDE; j++) pixels[i * SIDE + j] = load(line + j * from->pixel);
            }
        } else {
            for (int64_t i = 0; i < SIDE * SIDE; i++) {
                const int64_t h = row + i / SIDE, w = column + i % SIDE;
                pixels[i] = (vec){0};
                if (h >= 0 && h < from->height && w >= 0 && w < from->width)
                    pixels[i] =
                        load_part(x + (i / SIDE * from->width + i % SIDE) * from->pixel, count);
            }
        }
        store_transform(pixels, to + c, apart);
    }
}

/* ---- products ---- */

/* Rows whose sums stay in registers: enough of them that each addition has ended when the next one
 * of its sum begins. */
#define ROWS(vectors) ((vectors) == 1 ? 12 : 6)

/* m[row][panel] of so many rows of v. */
INLINE void multiply_rows(const float *v, int64_t apart, const float *u, int64_t c, float *m,
                          const int vectors, const int rows) {
    vec sums[6 * PANEL_VECTORS], weights[PANEL_VECTORS];
    UNROLL for (int i = 0; i < rows * vectors; i++) sums[i] = (vec){0};
    for (int64_t i = 0; i < c; i++, u += vectors * LANES) {
        UNROLL for (int j = 0; j < vectors; j++) weights[j] = load(u + j * LANES);
        UNROLL for (int r = 0; r < rows; r++) {
            const vec value = all(v[r * apart + i]);
            UNROLL for (int j = 0; j < vectors; j++) sums[r * vectors + j] += value * weights[j];
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int j = 0; j < vectors; j++)
            store(m + r * PANEL + j * LANES, sums[r * vectors + j]);
    }
}

#define MULTIPLY(n)                                                                              \
    static void multiply_##n(const float *v, int64_t apart, const float *u, int64_t c, float *m, \
                             int64_t rows) {                                                     \
        for (int64_t r = 0; r < rows; r += ROWS(n))                                              \
            multiply_rows(v + r * apart, apart, u, c, m + r * PANEL, n, ROWS(n));                \
    }
MULTIPLY(1)
MULTIPLY(2)
#if LANES == 16
MULTIPLY(3)
MULTIPLY(4)
#endif

static void multiply(const float *v, int64_t apart, const float *u, int64_t c, float *m,
                     int64_t rows, int64_t vectors) {
    switch (vectors) {
        case 1:
            multiply_1(v, apart, u, c, m, rows);
            break;
        case 2:
            multiply_2(v, apart, u, c, m, rows);
            break;
#if LANES == 16
        case 3:
            multiply_3(v, apart, u, c, m, rows);
            break;
        default:
            multiply_4(v, apart, u, c, m, rows);
            break;
#endif
    }
}

/* ---- results ---- */

/* Results of one vector of channels: rows and columns of a tile that lie within the image. */
typedef struct target {
    int64_t row, column, rows, columns, k, count;
    const float *x; /* the image */
    int64_t offset; /* of the first result in y and residual */
} target;

INLINE void put(const winograd_job *job, const target *t, int64_t i, int64_t j, vec value) {
    const int64_t at = t->offset + (i * job->to.width + j) * job->to.pixel;
    if (job->bias) value += load_part(job->bias + t->k, t->count);
    if (job->residual) value += load_part(job->residual + at, t->count);
    store_part(job->y + at, activate(value, &job->activation), t->count);
}

/* What is infinite, is none, or became so in the transforms, must not spread over its tile. */
static void put_direct(const winograd_job *job, const target *t) {
    const int64_t count = t->count < LANES ? t->count : LANES;
    for (int64_t i = 0; i < t->rows; i++) {
        for (int64_t j = 0; j < t->columns; j++) {
            vec value = {0};
            for (int64_t k = 0; k < count; k++)
                value[k] = winograd_direct(job, &WINOGRAD_TILES, t->x, t->k + k, t->row + i,
                                           t->column + j);
            put(job, t, i, j, value);
        }
    }
}

static void write_vector(const winograd_job *job, const target *t, const float *m, int64_t apart) {
    vec sums[SIDE * SIDE], columns[RESULTS * SIDE], results[RESULTS * RESULTS], bad = {0};
    UNROLL for (int i = 0; i < SIDE * SIDE; i++) sums[i] = load(m + i * apart);
    UNROLL for (int j = 0; j < SIDE; j++) {
        vec row[RESULTS];
        transform_sums(sums + j, SIDE, row);
        for (int i = 0; i < RESULTS; i++) columns[i * SIDE + j] = row[i];
    }
    UNROLL for (int i = 0; i < RESULTS; i++) {
        transform_sums(columns + i * SIDE, 1, results + i * RESULTS);
        for (int j = 0; j < RESULTS; j++) bad += results[i * RESULTS + j] * 0.0f;
    }
    bool finite = true;
    for (int i = 0; i < LANES; i++) finite &= bad[i] == 0.0f;
    if (!finite) {
        put_direct(job, t);
        return;
    }
    if (t->rows == RESULTS && t->columns == RESULTS) {
        UNROLL for (int i = 0; i < RESULTS * RESULTS; i++)
            put(job, t, i / RESULTS, i % RESULTS, results[i]);
        return;
    }
    for (int64_t i = 0; i < t->rows; i++)
        for (int64_t j = 0; j < t->columns; j++) put(job, t, i, j, results[i * RESULTS + j]);
}

/* m[point][panel] of channels k0 .. of a tile becomes results. */
static void write_tile(const winograd_job *job, int64_t at, int64_t k0, int64_t vectors,
                       const float *m, int64_t apart) {
    const winograd_image *to = &job->to;
    const tile t = tile_at(job, at);
    const int64_t down = to->height - t.row, across = to->width - t.column;
    target here = {.row = t.row,
                   .column = t.column,
                   .rows = down < RESULTS ? down : RESULTS,
                   .columns = across < RESULTS ? across : RESULTS,
                   .x = job->x + t.image * job->from.image};
    for (int64_t i = 0; i < vectors; i++) {
        here.k = k0 + i * LANES;
        here.count = to->channels - here.k;
        here.offset = t.image * to->image + here.k / LANES * to->vector +
                      (t.row * to->width + t.column) * to->pixel;
        write_vector(job, &here, m + i * LANES, apart);
    }
}

/* ---- all of it ---- */

static int64_t rows(int64_t k) {
    const int64_t vectors = winograd_padded(k, LANES) / LANES;
    return ROWS(vectors % PANEL_VECTORS);
}

static void run(const winograd_job *job, int64_t first, int64_t count, float *room) {
    const int64_t c = job->from.channels, row = winograd_row(c, LANES);
    const int64_t whole = rows(job->to.channels), padded = (count + whole - 1) / whole * whole;
    float *v = room, *m = room + POINTS * padded * row;
    const float *u = job->weight;
    for (int64_t i = 0; i < count; i++) read_tile(job, first + i, v + i * row, padded * row);
    for (int64_t p = 0; p < POINTS && count < padded; p++)
        memset(v + (p * padded + count) * row, 0, (size_t)((padded - count) * row) * sizeof *v);
    int64_t vectors = winograd_padded(job->to.channels, LANES) / LANES;
    for (int64_t k = 0; vectors > 0; k += PANEL, vectors -= PANEL_VECTORS) {
        const int64_t wide = vectors < PANEL_VECTORS ? vectors : PANEL_VECTORS;
        for (int64_t p = 0; p < POINTS; p++, u += c * wide * LANES)
            multiply(v + p * padded * row, row, u, c, m + p * padded * PANEL, padded, wide);
        for (int64_t i = 0; i < count; i++)
            write_tile(job, first + i, k, wide, m + i * PANEL, padded * PANEL);
    }
}

const winograd_tiles WINOGRAD_TILES = {
    .lanes = LANES, .panel = PANEL, .most = MOST, .rows = rows, .run = run};
