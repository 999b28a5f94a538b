/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernels' PTX executes for each byte that it has to move, and how wide its accesses are,
 * against tests/kernels/budgets.txt. A GPU of 2020 to 2025 has 7 instructions for each byte of its
 * memory's speed, so what stays below them is as fast as a copy.
 */
#include "budgets.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nbits.h"

static const real k_reals[] = {{"f32", "u32", F32, U32, 1e-5, 0x1p-24},
                               {"f16", "u16", F16, U16, 4e-3, 0x1p-11},
                               {"bf16", "u16", BF16, U16, 3.2e-2, 0x1p-8}};
enum { REALS = sizeof k_reals / sizeof k_reals[0] };

/* ---- kernels ---- */

static void unary(budgets *b, const real *r) {
    static const char *const k_operations[] = {"relu",    "gelu", "gelu_tanh", "silu",
                                               "sigmoid", "tanh", "exp"};
    char name[64];
    ptx_module *m = ptx_load("unary", r->name, 32, NULL);
    for (size_t k = 0; k < sizeof k_operations / sizeof k_operations[0]; k++)
        MEASURE(b, MUST, m, named(name, k_operations[k], r->name), "flat", r->tolerance,
                IN(x, r->type, FLAT, 0), OUT(y, r->type, FLAT, 0), INT64(n, FLAT));
    ptx_free(m);
    m = ptx_load("scalar", r->name, 32, NULL); /* x c + q */
    MEASURE(b, MUST, m, named(name, "scalar", r->name), "flat", r->tolerance,
            IN(x, r->type, FLAT, 0), OUT(y, r->type, FLAT, 0), INT64(n, FLAT), INT32(form, 0),
            INT64(first, 0x3f000000), INT64(second, 0x3f800000));
    ptx_free(m);
}

/* A number for each channel of images in NCHW and in NHWC, and keys to sort by. */
static void channels_and_keys(budgets *b, const real *r) {
    char name[64];
    if (r->type == F32) return;
    ptx_module *m = ptx_load("channels", r->name, 32, NULL);
    named(name, "scale_channels", r->name);
#define CHANNELS(shape, count, channels_, inner_)                                                  \
    MEASURE(b, MUST, m, name, shape, r->tolerance, IN(x, r->type, count, 0),                       \
            OUT(y, r->type, count, 0), IN(scale, F32, channels_, 0), IN(shift, F32, channels_, 0), \
            INT64(n, count), INT64(channels, channels_), INT64(inner, inner_))
    CHANNELS("2x64x256", FLAT, 64, 256);
    CHANNELS("10x64x49", 10 * 64 * 49, 64, 49);
    CHANNELS("512x64", FLAT, 64, 1);
#undef CHANNELS
    ptx_free(m);
    m = ptx_load("keys", r->name, 32, NULL);
    MEASURE(b, MUST, m, named(name, "sort_keys", r->name), "flat", 0, IN(x, r->type_bits, FLAT, 0),
            OUT(key, U32, FLAT, 0), INT64(outer, 1), INT64(n, FLAT), INT64(inner, 1),
            INT32(falling, 1));
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
            DIMS(f, 0, {M(128), M(256)}, {{0}}, {2, 2, 1}));
    MEASURE(b, MUST, m, name, "mask_4x32x256", r->tolerance, IN(a, r->type, FLAT, 0),
            IN(b, r->type, 4 * 256, 0), OUT(y, r->type, FLAT, 0),
            DIMS(d, 3, {4, 32, 256}, {{8192, 256, 1}, {256, 0, 1}, {8192, 256, 1}}, {0}),
            DIMS(f, 0, {M(4), M(32), M(256)}, {{0}}, {2, 2, 1}));
    MEASURE(b, MUST, m, name, "channel_600x49", r->tolerance, IN(a, r->type, 600 * 49, 0),
            IN(b, r->type, 600, 0), OUT(y, r->type, 600 * 49, 0),
            DIMS(d, 2, {600, 49}, {{49, 1}, {1, 0}, {49, 1}}, {0}),
            DIMS(f, 0, {M(600), M(49)}, {{49, M(49)}}, {2, 0, 2}));
    MEASURE(b, MUST, m, name, "bias_77x425", r->tolerance, IN(a, r->type, 77 * 425, 0),
            IN(b, r->type, 425, 0), OUT(y, r->type, 77 * 425, 0),
            DIMS(d, 2, {77, 425}, {{425, 1}, {0, 1}, {425, 1}}, {0}),
            DIMS(f, 0, {M(77), M(425)}, {{425, M(425)}}, {2, 1, 2}));
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
    MEASURE(b, MUST, m, name, "transpose_4x64x128", 0, IN(x, e, FLAT, 0), OUT(y, e, FLAT, 0),
            DIMS(d, 3, {4, 64, 128}, {{8192, 1, 64}, {8192, 128, 1}, {M(4), M(64), M(128)}}, {0}));
    MEASURE(b, MUST, m, name, "colours_2x3x4096", 0, IN(x, e, 24576, 0), OUT(y, e, 24576, 0),
            DIMS(d, 3, {2, 4096, 3}, {{12288, 1, 4096}, {12288, 3, 1}, {M(2), M(4096), M(3)}}, {0}));
    named(name, "gather_rows", r->bits);
    for (long long columns = 64; columns <= 768; columns += 704) {
        const long long count = columns == 64 ? 128 : 32;
        const size_t all = (size_t)(count * columns);
        long long index[128];
        char shape[32];
        for (int i = 0; i < count; i++) index[i] = i * 37 % count;
        (void)snprintf(shape, sizeof shape, "%lldx%lld", count, columns);
        MEASURE(b, MUST, m, name, shape, 0, IN(x, e, all, 0),
                {"index", INPUT, I64, (size_t)count, 0, index, 0}, OUT(y, e, all, 0),
                INT64(rows, count), INT64(cols, columns), INT64(count, count));
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
    MEASURE(b, MUST, m, named(name, "depthwise", r->name), "3x3_of_16x16x64", 10 * r->tolerance,
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
    MEASURE(b, MUST, m, named(name, "pool_blocks", r->name), "3x3_of_16x16x64", r->tolerance,
            IN(x, e, PIXELS * C, 0), OUT(y, e, PIXELS / 4 * C, 0), INT64(planes, 1),
            INT64(block, C), INT64(h, H), INT64(w, H), INT64(oh, H / 2), INT64(ow, H / 2),
            INT64(kh, 3), INT64(kw, 3), INT64(stride_h, 2), INT64(stride_w, 2), INT64(pad_top, 1),
            INT64(pad_left, 1), INT32(mode, 0));
    ptx_free(m);
}

/* One row and four by rows of codes of 4 bits in blocks of 32: an element is two codes. */
static void nbits(budgets *b, const real *r) {
    const element e = r->type;
    char name[64];
    ptx_module *m = ptx_load("nbits", r->name, 32, NULL);
    named(name, "matmul_nbits", r->name);
#define NBITS(d, shape, m_, n_, k_)                                                           \
    do {                                                                                      \
        exact *results = nbits_exact(&(nbits_shape){e, m_, n_, k_, 5, 4, 1, 1});              \
        MEASURE(b, d, m, name, shape, r->rounding, IN(a, e, (m_) * (k_), 0),                  \
                IN(w, U8, (n_) * (k_) / 2, 0), IN(scales, e, (n_) * (k_) / 32, 0),            \
                IN(zeros, U8, (n_) * (k_) / 64, 0), IN(zero_numbers, e, (n_) * (k_) / 32, 0), \
                IN(bias, e, n_, 0), OUT_EXACT(c, e, (m_) * (n_), 0, results), INT64(m, m_),   \
                INT64(n, n_), INT64(k, k_), INT64(blocks, (k_) / 32), INT32(shift, 5),        \
                INT32(bits, 4), INT32(zero_mode, 1), INT32(bias_mode, 1));                    \
        free(results);                                                                        \
    } while (0)
    NBITS(r->type == BF16 ? MAY : MUST, "1x64x1024", 1, 64, 1024);
    NBITS(MAY, "4x64x1024", 4, 64, 1024);
    NBITS(MUST, "1x512x4096", 1, 512, 4096);
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
    named(name, "map", r->name);
    /* Of the operands' dims: how many there are, and multipliers of the extents. */
#define MORE(operands, ...) DIMS(f, operands, {__VA_ARGS__}, {{0}}, {0, 0, 1})
#define MAP(d, shape, second, d_, f_, ...)                                                  \
    MEASURE(b, d, m, name, shape, 2 * r->tolerance, IN(a, e, FLAT, 0), IN(b, e, second, 0), \
            IN(c, e, 1, 0), IN(e, e, 1, 0), OUT(y, e, FLAT, 0), d_, f_,                     \
            DIMS(program, __VA_ARGS__))
#define FLAT_DIMS DIMS(d, 1, {FLAT}, {{1}, {1}, {1}}, {2, 2, 1})
    MAP(MUST, "relu_flat", 1, FLAT_DIMS, MORE(1, 0), 2, {LOAD, RELU}, {{0}}, {0});
    MAP(MUST, "clip_flat", 1, FLAT_DIMS, MORE(1, 0), 2, {LOAD, CLIP | NUMBER},
        {{0x3f000000, 0x3f800000}}, {0});
    MAP(MUST, "add_relu_flat", FLAT, FLAT_DIMS, MORE(2, 0), 3, {LOAD, ADD | SECOND, RELU}, {{0}},
        {0});
    MAP(MUST, "bias_gelu_128x256", 256,
        DIMS(d, 2, {128, 256}, {{256, 1}, {0, 1}, {256, 1}}, {2, 2, 1}), MORE(2, M(128), M(256)), 3,
        {LOAD, ADD | SECOND, GELU}, {{0}}, {0});
    MAP(MUST, "scale_mask_4x32x256", 4 * 256,
        DIMS(d, 3, {4, 32, 256}, {{8192, 256, 1}, {256, 0, 1}, {8192, 256, 1}}, {2, 2, 1}),
        MORE(2, M(4), M(32), M(256)), 3, {LOAD, MUL | NUMBER, ADD | SECOND}, {{0x3f000000}}, {0});
    MAP(MUST, "channel_512x64", 512, DIMS(d, 2, {512, 64}, {{64, 1}, {1, 0}, {64, 1}}, {2, 0, 1}),
        MORE(2, M(512), M(64)), 2, {LOAD, MUL | SECOND}, {{0}}, {0});
    MAP(MAY, "odd_rows_4681x7", 4681, DIMS(d, 2, {4681, 7}, {{7, 1}, {1, 0}, {7, 1}}, {0}),
        MORE(2, M(4681), M(7)), 2, {LOAD, MUL | SECOND}, {{0}}, {0});
    MAP(MUST, "channel_668x49", 668, DIMS(d, 2, {668, 49}, {{49, 1}, {1, 0}, {49, 1}}, {2, 0, 2}),
        MORE(2, M(668), M(49)), 2, {LOAD, MUL | SECOND}, {{0}}, {49, M(49)});
    MAP(MUST, "bias_77x425", 425, DIMS(d, 2, {77, 425}, {{425, 1}, {0, 1}, {425, 1}}, {2, 1, 2}),
        MORE(2, M(77), M(425)), 2, {LOAD, ADD | SECOND}, {{0}}, {425, M(425)});
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
                      head, budget_limit) > 0);
    for (size_t t = 0; t < REALS; t++) {
        unary(&b, &k_reals[t]);
        channels_and_keys(&b, &k_reals[t]);
        binary(&b, &k_reals[t]);
        measure_rows(&b, &k_reals[t]);
        measure_operands(&b, &k_reals[t]);
        measure_split_rows(&b, &k_reals[t]);
        measure_parts(&b, &k_reals[t]);
        measure_caches(&b, &k_reals[t]);
        if (k_reals[t].type != BF16) copies(&b, &k_reals[t]);
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
