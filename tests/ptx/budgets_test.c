/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernels' PTX executes for each byte that it has to move, and how wide its accesses are,
 * against tests/kernels/budgets.txt. A GPU of 2020 to 2025 has 7 instructions for each byte of its
 * memory's speed, so what stays below them is as fast as a copy.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

static const double k_limit = 7, k_growth = 1.05;

typedef struct real {
    const char *name, *bits; /* of floats, and of what moves them as bits */
    element type, type_bits;
    double tolerance;
} real;
static const real k_reals[] = {{"f32", "u32", F32, U32, 1e-5}, {"f16", "u16", F16, U16, 4e-3}};
enum { REALS = sizeof k_reals / sizeof k_reals[0] };

/* Instructions for a byte, bytes of a load and of a store, sectors of a request of global memory,
 * passes over the banks for one of shared memory (0: it has none). */
enum { FIGURES = 5 };

/* MUST: the limit holds. */
typedef enum demand { MAY, MUST } demand;

typedef struct budgets {
    FILE *file;  /* what is measured */
    char *known; /* what is in the repository */
    bool same_compiler;
    unsigned wrong;
} budgets;

/* The bytes that somebody has to move: all of the inputs and outputs, once. */
static size_t bytes_of(const arg *args, size_t count) {
    static const size_t bytes[] = {4, 2, 2, 8, 1, 2, 4, 8, 4, 8};
    size_t sum = 0;
    for (size_t k = 0; k < count; k++)
        if (args[k].role != VALUE) sum += args[k].count * bytes[args[k].type];
    return sum;
}

static void complain(budgets *b, const char *line, const char *what) {
    (void)fprintf(stderr, "%.*s: %s\n", (int)strcspn(line, "\n"), line, what);
    b->wrong++;
}

/* A line is "kernel case" and the figures; the same kernel and case has it in both files.
 */
static void check_line(budgets *b, const char *line, const double figures[FIGURES]) {
    char key[128], what[128];
    double known[FIGURES];
    const int length = (int)(strchr(strchr(line, ' ') + 1, ' ') - line);
    (void)snprintf(key, sizeof key, "\n%.*s ", length, line);
    const char *at = strstr(b->known, key);
    if (at == NULL || sscanf(at + strlen(key), "%lf %lf %lf %lf %lf", &known[0], &known[1],
                             &known[2], &known[3], &known[4]) != FIGURES) {
        complain(b, line, "it is not in tests/kernels/budgets.txt");
        return;
    }
    if (!b->same_compiler) return;
    (void)snprintf(what, sizeof what, "instructions for a byte were %.2f", known[0]);
    if (figures[0] > known[0] * k_growth) complain(b, line, what);
    (void)snprintf(what, sizeof what, "loads had %.1f bytes, stores %.1f", known[1], known[2]);
    if (figures[1] * k_growth < known[1] || figures[2] * k_growth < known[2])
        complain(b, line, what);
    (void)snprintf(what, sizeof what, "a request had %.1f sectors, and %.2f passes over banks",
                   known[3], known[4]);
    if (figures[3] > known[3] * k_growth || figures[4] > known[4] * k_growth)
        complain(b, line, what);
}

static void measure(budgets *b, demand d, const ptx_module *m, const char *kernel, const char *name,
                    double tolerance, const arg *args, size_t count) {
    ptx_report r;
    char why[256] = "", line[128];
    const bool same = compare_with_cpu(m, kernel, 2, tolerance, args, count, &r, why, sizeof why);
    cr_assert_eq(r.count, 0, "%s", r.findings[0].text);
    cr_assert(same, "%s", why);
    const double f[FIGURES] = {
        r.machine_instructions / (double)bytes_of(args, count),
        (double)r.bytes[0] / (double)r.accesses[0], (double)r.bytes[1] / (double)r.accesses[1],
        (double)r.sectors / (double)r.requests,
        r.shared_requests == 0 ? 0 : (double)r.shared_passes / (double)r.shared_requests};
    (void)snprintf(line, sizeof line, "%s %s %.2f %.1f %.1f %.1f %.2f%s\n", kernel, name, f[0],
                   f[1], f[2], f[3], f[4], d == MUST ? " *" : "");
    cr_assert(fputs(line, b->file) >= 0);
    check_line(b, line, f);
    if (d == MUST && f[0] > k_limit)
        complain(b, line, "more than 7 instructions for a byte: slower than the memory");
}

#define MEASURE(b, d, module, kernel, name, tolerance, ...)                                    \
    do {                                                                                       \
        const arg args_[] = {__VA_ARGS__};                                                     \
        measure(b, d, module, kernel, name, tolerance, args_, sizeof args_ / sizeof args_[0]); \
    } while (0)

static const char *named(char name[64], const char *operation, const char *type) {
    (void)snprintf(name, 64, "%s_%s", operation, type);
    return name;
}

/* ---- kernels ---- */

enum { FLAT = 32768 };

static void unary(budgets *b, const real *r) {
    char name[64];
    ptx_module *m = ptx_load("unary", r->name, 32, NULL);
    MEASURE(b, MUST, m, named(name, "relu", r->name), "flat", r->tolerance, IN(x, r->type, FLAT, 0),
            OUT(y, r->type, FLAT, 0), INT64(n, FLAT));
    MEASURE(b, MAY, m, named(name, "gelu", r->name), "flat", r->tolerance, IN(x, r->type, FLAT, 0),
            OUT(y, r->type, FLAT, 0), INT64(n, FLAT));
    ptx_free(m);
}

static void binary(budgets *b, const real *r) {
    char name[64];
    ptx_module *m = ptx_load("binary", r->name, 32, NULL);
    MEASURE(b, MUST, m, named(name, "add", r->name), "flat", r->tolerance, IN(a, r->type, FLAT, 0),
            IN(b, r->type, FLAT, 0), OUT(y, r->type, FLAT, 0), INT64(n, FLAT));
    named(name, "add_dims", r->name);
    MEASURE(b, MUST, m, name, "bias_128x256", r->tolerance, IN(a, r->type, FLAT, 0),
            IN(b, r->type, 256, 0), OUT(y, r->type, FLAT, 0),
            DIMS(d, 2, {128, 256}, {{256, 1}, {0, 1}, {256, 1}}, {0}),
            DIMS(f, 0, {M(128), M(256)}, {{0}}, {1, 1, 1}));
    MEASURE(b, MUST, m, name, "mask_4x32x256", r->tolerance, IN(a, r->type, FLAT, 0),
            IN(b, r->type, 4 * 256, 0), OUT(y, r->type, FLAT, 0),
            DIMS(d, 3, {4, 32, 256}, {{8192, 256, 1}, {256, 0, 1}, {8192, 256, 1}}, {0}),
            DIMS(f, 0, {M(4), M(32), M(256)}, {{0}}, {1, 1, 1}));
    MEASURE(b, MAY, m, name, "channel_600x49", r->tolerance, IN(a, r->type, 600 * 49, 0),
            IN(b, r->type, 600, 0), OUT(y, r->type, 600 * 49, 0),
            DIMS(d, 2, {600, 49}, {{49, 1}, {1, 0}, {49, 1}}, {0}),
            DIMS(f, 0, {M(600), M(49)}, {{0}}, {0}));
    ptx_free(m);
}

static void cast(budgets *b) {
    ptx_module *m = ptx_load("cast", "f32", 32, NULL);
    MEASURE(b, MUST, m, "cast_f32_f16", "flat", 0, IN(x, F32, FLAT, 0), OUT(y, F16, FLAT, 0),
            INT64(n, FLAT));
    MEASURE(b, MUST, m, "cast_f32_i64", "flat", 0, IN(x, F32, FLAT, 0), OUT(y, I64, FLAT, 0),
            INT64(n, FLAT));
    ptx_free(m);
    m = ptx_load("cast", "f16", 32, NULL);
    MEASURE(b, MUST, m, "cast_f16_f32", "flat", 0, IN(x, F16, FLAT, 0), OUT(y, F32, FLAT, 0),
            INT64(n, FLAT));
    ptx_free(m);
}

static void rows(budgets *b, const real *r) {
    static const struct {
        size_t rows, columns;
        const char *name;
    } shapes[] = {{64, 128, "64x128"}, {16, 768, "16x768"}, {8, 4096, "8x4096"}};
    char name[64];
    ptx_module *m = ptx_load("rows", r->name, 32, NULL),
               *sums = ptx_load("reduce", r->name, 32, NULL);
    for (size_t s = 0; s < 3; s++) {
        const size_t n = shapes[s].columns, all = n * shapes[s].rows;
        const long long cols = (long long)n, count = (long long)shapes[s].rows;
        MEASURE(b, MAY, m, named(name, "softmax", r->name), shapes[s].name, 10 * r->tolerance,
                IN(x, r->type, all, 0), OUT(y, r->type, all, 0), INT64(rows, count),
                INT64(cols, cols));
        MEASURE(b, MAY, m, named(name, "layernorm", r->name), shapes[s].name, 10 * r->tolerance,
                IN(x, r->type, all, 0), IN(gamma, r->type, n, 0), IN(beta, r->type, n, 0),
                OUT(y, r->type, all, 0), INT64(rows, count), INT64(cols, cols),
                FLOAT32(eps, 1e-5f));
        MEASURE(b, MAY, m, named(name, "normalize", r->name), shapes[s].name, 10 * r->tolerance,
                IN(x, r->type, all, 0), IN(gamma, r->type, n, 0), OUT(y, r->type, all, 0),
                INT64(rows, count), INT64(cols, cols), FLOAT32(eps, 1e-5f), INT32(centred, 0),
                INT32(scaled, 1));
        MEASURE(b, MAY, sums, named(name, "reduce_sum", r->name), shapes[s].name, 10 * r->tolerance,
                IN(x, r->type, all, 0), OUT(y, r->type, shapes[s].rows, 0), INT64(outer, count),
                INT64(n, cols), INT64(inner, 1), FLOAT32(scale, 1));
    }
    ptx_free(m);
    ptx_free(sums);
}

/* Rows and columns in parts, a running sum, the first of rows. */
static void parts(budgets *b, const real *r) {
    char name[64];
    ptx_module *m = ptx_load("parts", r->name, 32, NULL);
    named(name, "reduce_parts", r->name);
#define PARTS(shape, outer_, n_, inner_, parts_)                                                   \
    MEASURE(b, r->type == F32 ? MUST : MAY, m, name, shape, r->tolerance, IN(x, r->type, FLAT, 0), \
            OUT(y, F32, (outer_) * (parts_) * (inner_), 0), INT64(outer, outer_), INT64(n, n_),    \
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
            INT64(rows, 1), INT64(n, 4096), INT64(size, 4096), INT64(count, 50),
            INT32(has_place, 0));
    ptx_free(m);
}

static void copies(budgets *b, const real *r) {
    const element e = r->type_bits;
    char name[64];
    ptx_module *m = ptx_load("layout", r->bits, 32, NULL);
    named(name, "copy_dims", r->bits);
    MEASURE(b, MUST, m, name, "heads_16x8x4x64", 0, IN(x, e, FLAT, 0), OUT(y, e, FLAT, 0),
            DIMS(d, 4, {16, 4, 8, 64},
                 {{2048, 64, 256, 1}, {2048, 512, 64, 1}, {M(16), M(4), M(8), M(64)}}, {0, 0, 16}));
    MEASURE(b, MUST, m, name, "part_128x255_of_256", 0, IN(x, e, FLAT, 0), OUT(y, e, 128 * 255, 0),
            DIMS(d, 2, {128, 255}, {{256, 1}, {255, 1}, {M(128), M(255)}}, {0}));
    MEASURE(b, MAY, m, name, "transpose_4x64x128", 0, IN(x, e, FLAT, 0), OUT(y, e, FLAT, 0),
            DIMS(d, 3, {4, 64, 128}, {{8192, 1, 64}, {8192, 128, 1}, {M(4), M(64), M(128)}}, {0}));
    named(name, "gather_rows", r->bits);
    for (long long columns = 64; columns <= 768; columns += 704) {
        char shape[32];
        (void)snprintf(shape, sizeof shape, "8x%lld", columns);
        MEASURE(b, MAY, m, name, shape, 0, IN(x, e, (size_t)(8 * columns), 0),
                {"index", INPUT, I64, 8, 0, (const long long[]){5, 0, 3, 7, 1, 2, 6, 4}, 0},
                OUT(y, e, (size_t)(8 * columns), 0), INT64(rows, 8), INT64(cols, columns),
                INT64(count, 8));
    }
    ptx_free(m);
}

/* Images of 16 x 16 pixels and 64 channels: windows of 3 x 3 laid out, depthwise, a pool. */
static void images(budgets *b, const real *r) {
    enum { H = 16, C = 64, PIXELS = H * H, ROW = 9 * C };
    const element e = r->type;
    char name[64];
    ptx_module *m = ptx_load("nhwc", r->name, 32, NULL);
    MEASURE(b, MUST, m, named(name, "im2col", r->name), "3x3_of_16x16x64", 0,
            IN(x, e, PIXELS * C, 0), OUT(y, e, PIXELS * ROW, 0), INT64(first, 0),
            INT64(pixels, PIXELS), INT64(c, C), INT64(h, H), INT64(w_, H), INT64(oh, H),
            INT64(ow, H), INT64(groups, 1), INT64(kh, 3), INT64(kw, 3), INT64(stride_h, 1),
            INT64(stride_w, 1), INT64(dil_h, 1), INT64(dil_w, 1), INT64(pad_top, 1),
            INT64(pad_left, 1), INT64(row, ROW));
    MEASURE(b, MAY, m, named(name, "depthwise", r->name), "3x3_of_16x16x64", 10 * r->tolerance,
            IN(x, e, PIXELS * C, 0), IN(weight, e, 9 * C, 0), IN(bias, e, C, 0),
            IN(residual, e, PIXELS * C, 0), OUT(y, e, PIXELS * C, 0), INT64(n, 1), INT64(c, C),
            INT64(h, H), INT64(w_, H), INT64(oh, H), INT64(ow, H), INT64(kh, 3), INT64(kw, 3),
            INT64(stride_h, 1), INT64(stride_w, 1), INT64(dil_h, 1), INT64(dil_w, 1),
            INT64(pad_top, 1), INT64(pad_left, 1), INT32(bias_mode, 1), INT32(residual_mode, 1),
            INT32(activation, 1), FLOAT32(low, 0), FLOAT32(high, 6), INT32(x_mode, 0),
            FLOAT32(x_low, 0), FLOAT32(x_high, 6));
    MEASURE(b, MAY, m, named(name, "depthwise", r->name), "3x3_held", 10 * r->tolerance,
            IN(x, e, PIXELS * C, 0), IN(weight, e, 9 * C, 0), IN(bias, e, C, 0),
            IN(residual, e, PIXELS * C, 0), OUT(y, e, PIXELS * C, 0), INT64(n, 1), INT64(c, C),
            INT64(h, H), INT64(w_, H), INT64(oh, H), INT64(ow, H), INT64(kh, 3), INT64(kw, 3),
            INT64(stride_h, 1), INT64(stride_w, 1), INT64(dil_h, 1), INT64(dil_w, 1),
            INT64(pad_top, 1), INT64(pad_left, 1), INT32(bias_mode, 1), INT32(residual_mode, 1),
            INT32(activation, 10), FLOAT32(low, 0), FLOAT32(high, 6), INT32(x_mode, 1),
            FLOAT32(x_low, 0), FLOAT32(x_high, 6));
    MEASURE(b, MAY, m, named(name, "pool_blocks", r->name), "3x3_of_16x16x64", r->tolerance,
            IN(x, e, PIXELS * C, 0), OUT(y, e, PIXELS / 4 * C, 0), INT64(planes, 1),
            INT64(block, C), INT64(h, H), INT64(w, H), INT64(oh, H / 2), INT64(ow, H / 2),
            INT64(kh, 3), INT64(kw, 3), INT64(stride_h, 2), INT64(stride_w, 2), INT64(pad_top, 1),
            INT64(pad_left, 1), INT32(mode, 0));
    ptx_free(m);
}

/* One row and four by 64 rows of 1024 codes of 4 bits in blocks of 32: an element is two codes. */
static void nbits(budgets *b, const real *r) {
    enum { N = 64, K = 1024, BLOCKS = K / 32 };
    const element e = r->type;
    char name[64];
    ptx_module *m = ptx_load("nbits", r->name, 32, NULL);
    named(name, "matmul_nbits", r->name);
#define NBITS(rows, shape)                                                                       \
    MEASURE(b, MAY, m, name, shape, 20 * r->tolerance, IN(a, e, (rows)*K, 0),                    \
            IN(w, U8, N * K / 2, 0), IN(scales, e, N * BLOCKS, 0),                               \
            IN(zeros, U8, N * BLOCKS / 2, 0), IN(zero_numbers, e, N * BLOCKS, 0),                \
            IN(bias, e, N, 0), OUT(c, e, (rows)*N, 0), INT64(m, rows), INT64(n, N), INT64(k, K), \
            INT64(blocks, BLOCKS), INT32(shift, 5), INT32(bits, 4), INT32(zero_mode, 1),         \
            INT32(bias_mode, 1))
    NBITS(1, "1x64x1024");
    NBITS(4, "4x64x1024");
#undef NBITS
    ptx_free(m);
}

/* ---- programs ---- */

enum {
    LOAD = 1,
    ADD = 2,
    MUL = 5,
    RELU = 40,
    GELU = 41,
    CLIP = 69,
    NUMBER = 4 << 8,
    SECOND = 1 << 8
};

static void maps(budgets *b, const real *r) {
    const element e = r->type;
    char name[64];
    ptx_module *m = ptx_load("map", r->name, 32, NULL);
    const demand wide = e == F32 ? MUST : MAY;
    named(name, "map", r->name);
    /* Of the operands' dims: how many there are, and multipliers of the extents. */
#define MORE(operands, ...) DIMS(f, operands, {__VA_ARGS__}, {{0}}, {0})
#define MAP(d, shape, second, d_, f_, ...)                                                  \
    MEASURE(b, d, m, name, shape, 2 * r->tolerance, IN(a, e, FLAT, 0), IN(b, e, second, 0), \
            IN(c, e, 1, 0), IN(e, e, 1, 0), OUT(y, e, FLAT, 0), d_, f_,                     \
            DIMS(program, __VA_ARGS__))
#define FLAT_DIMS DIMS(d, 1, {FLAT}, {{1}, {1}, {1}}, {1, 1, 1})
    MAP(MUST, "relu_flat", 1, FLAT_DIMS, MORE(1, 0), 2, {LOAD, RELU}, {{0}}, {0});
    MAP(wide, "clip_flat", 1, FLAT_DIMS, MORE(1, 0), 2, {LOAD, CLIP | NUMBER},
        {{0x3f000000, 0x3f800000}}, {0});
    MAP(MUST, "add_relu_flat", FLAT, FLAT_DIMS, MORE(2, 0), 3, {LOAD, ADD | SECOND, RELU}, {{0}},
        {0});
    MAP(MAY, "bias_gelu_128x256", 256,
        DIMS(d, 2, {128, 256}, {{256, 1}, {0, 1}, {256, 1}}, {1, 1, 1}), MORE(2, M(128), M(256)), 3,
        {LOAD, ADD | SECOND, GELU}, {{0}}, {0});
    MAP(wide, "scale_mask_4x32x256", 4 * 256,
        DIMS(d, 3, {4, 32, 256}, {{8192, 256, 1}, {256, 0, 1}, {8192, 256, 1}}, {1, 1, 1}),
        MORE(2, M(4), M(32), M(256)), 3, {LOAD, MUL | NUMBER, ADD | SECOND}, {{0x3f000000}}, {0});
    MAP(wide, "channel_512x64", 512, DIMS(d, 2, {512, 64}, {{64, 1}, {1, 0}, {64, 1}}, {1, 0, 1}),
        MORE(2, M(512), M(64)), 2, {LOAD, MUL | SECOND}, {{0}}, {0});
    MAP(MAY, "odd_rows_4681x7", 4681, DIMS(d, 2, {4681, 7}, {{7, 1}, {1, 0}, {7, 1}}, {0}),
        MORE(2, M(4681), M(7)), 2, {LOAD, MUL | SECOND}, {{0}}, {0});
#undef MAP
#undef MORE
    ptx_free(m);
}

/* Two heads of 128 rows and 512 keys: a group for each, on tensor cores. */
static void heads(budgets *b) {
    enum { H = 2, L = 128, S = 512, E = 64 };
    ptx_module *m = ptx_load("attention", "f16", 32, NULL);
    MEASURE(b, MAY, m, "attention_f16", "128x512x64", 1e-2, IN(q, F16, H * L * E, 0),
            IN(k, F16, H * S * E, 0), IN(v, F16, H * S * E, 0), IN(mask, F16, 1, 0),
            OUT(y, F16, H * L * E, 0),
            DIMS(from, 4, {1, H, 1, L, S, E, E},
                 {{0, L * E, E, 1}, {0, S * E, E, 1}, {0, S * E, E, 1}}, {0}),
            DIMS(to, 4, {0}, {{0, E, H * E, 1}}, {0}), FLOAT32(scale, 0.125f), INT32(masked, 0),
            INT32(empty_is_zero, 0));
    ptx_free(m);
}

/* A row of four heads that share keys and values, split over 512 of these, and one of a head. */
static void caches(budgets *b, const real *r) {
    enum { S = 512, E = 128 };
    const element e = r->type;
    char name[64];
    ptx_module *m = ptx_load("cache", r->name, 32, NULL);
    named(name, "attention_cache", r->name);
#define CACHE(sharing, shape)                                                                    \
    MEASURE(b, (sharing) == 1 ? MUST : MAY, m, name, shape, 10 * r->tolerance,                   \
            IN(q, e, (sharing)*E, 0), IN(k, e, S * E, 0), IN(v, e, S * E, 0), IN(mask, e, 1, 0), \
            {"lengths", INPUT, I64, 1, 0, (const long long[]){S}, 0},                            \
            OUT(part, F32, (sharing)*2 * (2 + E), 0), OUT(y, e, (sharing)*E, 0),                 \
            DIMS(from, 4, {1, sharing, sharing, 1, S, E, E},                                     \
                 {{0, E, E, 1}, {0, S * E, E, 1}, {0, S * E, E, 1}}, {0}),                       \
            DIMS(to, 4, {0}, {{0, E, (sharing)*E, 1}}, {0}), FLOAT32(scale, 0.1f),               \
            FLOAT32(cap, 0), INT32(masked, 0), INT32(causal, 1), INT32(empty_is_zero, 0),        \
            INT32(splits, 2))
    CACHE(1, "1x512x128_in_2");
    CACHE(4, "4x512x128_in_2");
#undef CACHE
    ptx_free(m);
}

/* ---- all ---- */

static char *read_known(void) {
    FILE *file = fopen(PTX_BUDGETS, "rb");
    char *text = calloc(1, 1 << 16);
    cr_assert_not_null(file, "%s", PTX_BUDGETS);
    cr_assert_not_null(text);
    cr_assert_gt(fread(text, 1, (1 << 16) - 1, file), 0);
    (void)fclose(file);
    return text;
}

Test(ptx_budgets, no_kernel_executes_more_than_its_budget) {
    static const char head[] = "# nvcc " PTX_NVCC "\n";
    budgets b = {fopen(PTX_BUDGETS_MEASURED, "wb"), read_known(), false, 0};
    cr_assert_not_null(b.file);
    b.same_compiler = strncmp(b.known, head, strlen(head)) == 0;
    cr_assert(fprintf(b.file,
                      "%s# Of a launch of two groups on the interpreter in tests/ptx: instructions "
                      "for each byte moved, bytes of a load,\n# bytes of a store, sectors of a "
                      "warp's request, passes over the banks for one of shared memory (1: no "
                      "conflict, 0: no request);\n# * has to stay within %.0f instructions.\n",
                      head, k_limit) > 0);
    for (size_t t = 0; t < REALS; t++) {
        unary(&b, &k_reals[t]);
        binary(&b, &k_reals[t]);
        rows(&b, &k_reals[t]);
        parts(&b, &k_reals[t]);
        caches(&b, &k_reals[t]);
        copies(&b, &k_reals[t]);
        images(&b, &k_reals[t]);
        nbits(&b, &k_reals[t]);
        maps(&b, &k_reals[t]);
    }
    cast(&b);
    heads(&b);
    cr_assert_eq(fclose(b.file), 0);
    free(b.known);
    cr_assert_eq(b.wrong, 0, "%u budgets differ; where that is meant, copy %s over %s", b.wrong,
                 PTX_BUDGETS_MEASURED, PTX_BUDGETS);
}
