/* SPDX-License-Identifier: Apache-2.0
 *
 * Budgets of kernels along rows: softmax, norms, reductions, attention to caches.
 */
#include "budgets.h"

#define LANES(n) , INT32(lanes, n)

/* The families that work on rows: many of 64 columns to few of 4096, with the lanes that core gives
 * rows that fill a GPU (dhowi_lanes_of); some do not begin on a share. */
typedef struct shape {
    size_t rows, columns;
    int lanes;
} shape;
static const shape k_shapes[] = {{512, 64, 2},   {256, 128, 4},  {128, 256, 8},  {64, 512, 16},
                                 {32, 1024, 32}, {16, 2048, 64}, {8, 4096, 128}, {4, 8192, 256},
                                 {320, 100, 4},  {77, 425, 16}};

static void measure_shape(budgets *b, const real *r, const shape *s, const ptx_module *m,
                          const ptx_module *sums) {
    const size_t n = s->columns, all = n * s->rows;
    const long long cols = (long long)n, count = (long long)s->rows;
    const double tolerance = 10 * r->tolerance;
    const element e = r->type;
    const int lanes = e == F32 || n > 64 ? s->lanes : 4; /* a sector */
    char name[64], title[32];
    (void)snprintf(title, sizeof title, "%lldx%lld", count, cols);
    MEASURE(b, MUST, m, named(name, "softmax", r->name), title, tolerance, IN(x, e, all, 0),
            OUT(y, e, all, 0), INT64(rows, count), INT64(cols, cols) LANES(lanes));
    MEASURE(b, MUST, m, named(name, "log_softmax", r->name), title, tolerance, IN(x, e, all, 0),
            OUT(y, e, all, 0), INT64(rows, count), INT64(cols, cols) LANES(lanes));
    MEASURE(b, MUST, m, named(name, "layernorm", r->name), title, tolerance, IN(x, e, all, 0),
            IN(gamma, e, n, 0), IN(beta, e, n, 0), OUT(y, e, all, 0), INT64(rows, count),
            INT64(cols, cols), FLOAT32(eps, 1e-5f) LANES(lanes));
    MEASURE(b, MUST, m, named(name, "normalize", r->name), title, tolerance, IN(x, e, all, 0),
            IN(gamma, e, n, 0), OUT(y, e, all, 0), INT64(rows, count), INT64(cols, cols),
            FLOAT32(eps, 1e-5f), INT32(centred, 0), INT32(scaled, 1) LANES(lanes));
    for (int k = 0; k < 2; k++)
        MEASURE(b, MUST, sums, named(name, k == 0 ? "reduce_sum" : "reduce_max", r->name), title,
                tolerance, IN(x, e, all, 0), OUT(y, e, s->rows, 0), INT64(outer, count),
                INT64(n, cols), INT64(inner, 1), FLOAT32(scale, 1) LANES(lanes));
    MEASURE(b, MUST, sums, named(name, "argmax", r->name), title, 0, IN(x, e, all, 0),
            OUT(y, I64, s->rows, 0), INT64(outer, count), INT64(n, cols),
            INT64(inner, 1) LANES(lanes));
}

void measure_rows(budgets *b, const real *r) {
    char name[64];
    ptx_module *m = ptx_load("rows", r->name, 32, NULL),
               *sums = ptx_load("reduce", r->name, 32, NULL);
    for (size_t k = 0; k < sizeof k_shapes / sizeof k_shapes[0]; k++)
        measure_shape(b, r, &k_shapes[k], m, sums);
    MEASURE(b, MUST, sums, named(name, "reduce_sum", r->name), "8x64x64", 10 * r->tolerance,
            IN(x, r->type, FLAT, 0), OUT(y, r->type, 512, 0), INT64(outer, 8), INT64(n, 64),
            INT64(inner, 64), FLOAT32(scale, 1) LANES(0));
    ptx_free(m);
    ptx_free(sums);
}

/* Scores of two heads that share a mask, and the sum of a residual, which is kept. */
void measure_operands(budgets *b, const real *r) {
    const element e = r->type;
    ptx_module *m = ptx_load("operands", r->name, 32, NULL);
    for (size_t k = 0; k < sizeof k_shapes / sizeof k_shapes[0]; k++) {
        const shape *s = &k_shapes[k];
        const size_t n = s->columns, all = n * s->rows, half = s->rows / 2;
        const long long cols = (long long)n, count = (long long)s->rows, part = (long long)half;
        const int lanes = e == F32 || n > 64 ? s->lanes : 4;
        char name[64], title[32];
        if (s->rows % 2 != 0) continue;
        (void)snprintf(title, sizeof title, "%lldx%lld", count, cols);
        MEASURE(b, MUST, m, named(name, "softmax_scores", r->name), title, 10 * r->tolerance,
                IN(x, e, all, 0), IN(mask, e, half * n, 0), OUT(y, e, all, 0), INT64(rows, count),
                INT64(cols, cols), DIMS(d, 2, {2, part}, {{0, 1}, {0}, {M(2), M(half)}}, {0}),
                FLOAT32(scale, 0.125f), INT32(masked, 1) LANES(lanes));
        MEASURE(b, MUST, m, named(name, "norm_sum", r->name), title, 0.01 + 10 * r->tolerance,
                IN(x, e, all, 0), IN(other, e, all, 0), IN(gamma, e, n, 0), IN(beta, e, n, 0),
                OUT(total, e, all, 0), OUT(y, e, all, 0), INT64(rows, count), INT64(cols, cols),
                DIMS(d, 1, {count}, {{1}, {0}, {M(s->rows)}}, {0}), FLOAT32(eps, 1e-5f),
                INT32(centred, 1), INT32(scaled, 1), INT32(shifted, 1),
                INT32(wanted, 1) LANES(lanes));
    }
    ptx_free(m);
}

/* Few long rows: a launch that leaves two numbers of each part, and one that makes y of them. */
void measure_split_rows(budgets *b, const real *r) {
    enum { PARTS = 2, PART_BYTES = 32768 };
    const element e = r->type;
    const long long length = PART_BYTES / (e == F32 ? 4 : 2), cols = length * PARTS;
    const size_t n = (size_t)cols, some = FLAT / n * PARTS * 2;
    const long long rows = FLAT / cols;
    const char *title = e == F32 ? "2x16384_in_2" : "1x32768_in_2";
    const double tolerance = 10 * r->tolerance;
    char name[64];
    ptx_module *m = ptx_load("split", r->name, 32, NULL);
#define SIZES INT64(rows, rows), INT64(cols, cols), INT64(parts, PARTS), INT64(length, length)
    MEASURE(b, MUST, m, named(name, "softmax_part", r->name), title, 1e-4, IN(x, e, FLAT, 0),
            OUT(part, F32, some, 0), SIZES);
    MEASURE(b, MUST, m, named(name, "softmax_join", r->name), title, tolerance, IN(x, e, FLAT, 0),
            IN(part, F32, some, 0), OUT(y, e, FLAT, 0), SIZES, INT32(logarithm, 0));
    MEASURE(b, MUST, m, named(name, "norm_part", r->name), title, 1e-4, IN(x, e, FLAT, 0),
            OUT(part, F32, some, 0), SIZES, INT32(centred, 1));
    MEASURE(b, MUST, m, named(name, "norm_join", r->name), title, tolerance, IN(x, e, FLAT, 0),
            IN(gamma, e, n, 0), IN(beta, e, n, 0), IN(part, F32, some, 0), OUT(y, e, FLAT, 0),
            SIZES, FLOAT32(eps, 1e-5f), INT32(scaled, 1), INT32(shifted, 1));
#undef SIZES
    ptx_free(m);
}

/* Rows and columns in parts, a running sum, the first of rows. */
void measure_parts(budgets *b, const real *r) {
    char name[64];
    ptx_module *m = ptx_load("parts", r->name, 32, NULL);
    named(name, "reduce_parts", r->name);
#define PARTS(shape, outer_, n_, inner_, parts_)                                                \
    MEASURE(b, MUST, m, name, shape, r->tolerance, IN(x, r->type, FLAT, 0),                     \
            OUT(y, F32, (outer_) * (parts_) * (inner_), 0), INT64(outer, outer_), INT64(n, n_), \
            INT64(inner, inner_), INT64(parts, parts_), INT32(kind, 0), FLOAT32(scale, 1))
    PARTS("1x32768_in_4", 1, 32768, 1, 4);
    PARTS("4096x8_in_4", 1, 4096, 8, 4);
    PARTS("64x512_in_2", 1, 64, 512, 2);
#undef PARTS
    if (r->type != F32) {
        ptx_free(m);
        return;
    }
    MEASURE(b, MAY, m, "cumsum_parts_f32", "1x32768_in_8", 1e-4, IN(x, F32, FLAT, 0),
            IN(before, F32, 8, 0), OUT(y, F32, FLAT, 0), INT64(outer, 1), INT64(n, FLAT),
            INT64(inner, 1), INT64(parts, 8), INT32(has_before, 1), INT32(exclusive, 0),
            INT32(reverse, 0));
    ptx_free(m);
    m = ptx_load("tiles", "u32", 32, NULL);
    MEASURE(b, MAY, m, "sort_best_u32", "50_of_4096", 0, IN(key, U32, 4096, 0),
            IN(place, U32, 1, 0), OUT(to, U32, 4096, 0), OUT(to_place, U32, 4096, 0),
            INT64(rows, 1), INT64(n, 4096), INT64(size, 4096), INT64(count, 50), INT64(tile, 4096),
            INT32(has_place, 0));
    ptx_free(m);
}

/* A row of four heads that share keys and values, split over 512 of these, and one of a head. */
void measure_caches(budgets *b, const real *r) {
    enum { S = 512, E = 128 };
    const element e = r->type;
    char name[64];
    ptx_module *m = ptx_load("cache", r->name, 32, NULL);
    named(name, "attention_cache", r->name);
#define CACHE(sharing, shape)                                                             \
    MEASURE(b, MUST, m, name, shape, 10 * r->tolerance, IN(q, e, (sharing)*E, 0),         \
            IN(k, e, S * E, 0), IN(v, e, S * E, 0), IN(mask, e, 1, 0),                    \
            {"lengths", INPUT, I64, 1, 0, (const long long[]){S}, 0},                     \
            OUT(part, F32, (sharing)*2 * (2 + E), 0), OUT(y, e, (sharing)*E, 0),          \
            DIMS(from, 4, {1, sharing, sharing, 1, S, E, E},                              \
                 {{0, E, E, 1}, {0, S * E, E, 1}, {0, S * E, E, 1}}, {0}),                \
            DIMS(to, 4, {0}, {{0, E, (sharing)*E, 1}}, {0}), FLOAT32(scale, 0.1f),        \
            FLOAT32(cap, 0), INT32(masked, 0), INT32(causal, 1), INT32(empty_is_zero, 0), \
            INT32(splits, 2))
    CACHE(1, "1x512x128_in_2");
    CACHE(4, "4x512x128_in_2");
#undef CACHE
    ptx_free(m);
}
