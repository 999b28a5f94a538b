/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that models use: convolution, pooling, interpreted maps, indices, sequences.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "nbits.h"

static const struct {
    const char *name;
    element type;
    double tolerance, rounding;
} k_reals[] = {
    {"f32", F32, 1e-5, 0x1p-24}, {"f16", F16, 2e-3, 0x1p-11}, {"bf16", BF16, 1.6e-2, 0x1p-8}};

static const char *named(char *name, size_t bytes, const char *operation, size_t t) {
    (void)snprintf(name, bytes, "%s_%s", operation, k_reals[t].name);
    return name;
}

/* y [2][outputs][5][11] */
static void check_convolution(const char *unit, const char *operation, size_t t, int64_t outputs) {
    const element e = k_reals[t].type;
    ptx_module *m = ptx_load(unit, k_reals[t].name, 32, NULL);
    for (int groups = 1; groups <= 2; groups++) {
        char name[64];
        AS_CPU(m, named(name, sizeof name, operation, t), 2, 10 * k_reals[t].tolerance,
               IN(x, e, 2 * 4 * 9 * 11, 0), IN(w, e, (size_t)(outputs * 4 / groups * 9), 0),
               IN(bias, e, (size_t)outputs, 0), OUT(y, e, (size_t)(2 * outputs * 5 * 11), 0),
               INT64(n, 2), INT64(c, 4), INT64(h, 9), INT64(w_, 11), INT64(k, outputs),
               INT64(kh, 3), INT64(kw, 3), INT64(oh, 5), INT64(ow, 11), INT64(groups, groups),
               INT64(stride_h, 2), INT64(stride_w, 1), INT64(dil_h, 1), INT64(dil_w, 1),
               INT64(pad_top, 1), INT64(pad_left, 1), INT32(bias_mode, 1), INT32(activation, 1));
    }
    ptx_free(m);
}

Test(ptx_models, convolutions_are_those_of_the_cpu) {
    for (size_t t = 0; t < 3; t++) {
        check_convolution("conv", "conv2d", t, 6);
        check_convolution("matmul", "conv2d_tiled", t, 6);
        check_convolution("matmul", "conv2d_tiled", t, 140);
    }
}

Test(ptx_models, pooling_is_that_of_the_cpu) {
    static const char *const operations[] = {"maxpool2d", "avgpool2d"};
    for (size_t t = 0; t < 2; t++) {
        const element e = k_reals[t].type;
        ptx_module *m = ptx_load("conv", k_reals[t].name, 32, NULL);
        for (size_t o = 0; o < 2; o++) {
            char name[64];
            AS_CPU(m, named(name, sizeof name, operations[o], t), 2, k_reals[t].tolerance,
                   IN(x, e, 3 * 9 * 11, 0), OUT(y, e, 3 * 5 * 6, 0), INT64(planes, 3), INT64(h, 9),
                   INT64(w, 11), INT64(oh, 5), INT64(ow, 6), INT64(kh, 3), INT64(kw, 3),
                   INT64(stride_h, 2), INT64(stride_w, 2), INT64(pad_top, 1), INT64(pad_left, 1));
        }
        ptx_free(m);
    }
}

/* x [2][4][7][9][11] with a kernel of [2][3][3]: pooling, convolution in two groups, and its
 * transpose from there. */
Test(ptx_models, windows_in_three_dimensions_are_those_of_the_cpu) {
    ptx_module *m = ptx_load("window", "f32", 32, NULL);
#define G(d0, d1, d2, o0, o1, o2)            \
    DIMS(g, 3, {d0, d1, d2},                 \
         {{o0, o1, o2, M(o0), M(o1), M(o2)}, \
          {2, 3, 3, M(2), M(3), M(3)},       \
          {1, 2, 3, M(1), M(2), M(3)}},      \
         {0})
#define W DIMS(w, 3, {1, 2, 1}, {{0, 1, 1}, {1, 1, 1}}, {0})
    for (int mode = 0; mode < 4; mode++)
        AS_CPU(m, "pool3d_f32", 2, 1e-5, IN(x, F32, 8 * 7 * 9 * 11, 0),
               OUT(y, F32, 8 * 7 * 4 * 4, 0), INT64(planes, 8), G(7, 9, 11, 7, 4, 4), W,
               INT32(mode, mode), FLOAT32(p, 2));
    AS_CPU(m, "maxpool3d_index_f32", 2, 0, IN(x, F32, 8 * 7 * 9 * 11, 0),
           OUT(y, I64, 8 * 7 * 4 * 4, 0), INT64(planes, 8), G(7, 9, 11, 7, 4, 4), W,
           INT32(column, 0));
    AS_CPU(m, "conv3d_f32", 2, 1e-4, IN(x, F32, 8 * 7 * 9 * 11, 0), IN(weight, F32, 6 * 2 * 18, 0),
           IN(bias, F32, 6, 0), OUT(y, F32, 12 * 6 * 4 * 4, 0), INT64(n, 2), INT64(c, 4),
           INT64(k, 6), INT64(groups, 2), G(7, 9, 11, 6, 4, 4), W, INT32(bias_mode, 1));
    AS_CPU(m, "conv_transpose3d_f32", 2, 1e-4, IN(x, F32, 12 * 6 * 4 * 4, 0),
           IN(weight, F32, 6 * 2 * 18, 0), IN(bias, F32, 4, 0), OUT(y, F32, 8 * 7 * 9 * 11, 0),
           INT64(n, 2), INT64(c, 6), INT64(k, 4), INT64(groups, 2), G(6, 4, 4, 7, 9, 11), W,
           INT32(bias_mode, 1));
#undef W
#undef G
    ptx_free(m);
}

/* Channels that fill 16 bytes and go as such, channels that do not, and images that lie elsewhere.
 */
Test(ptx_models, kernels_of_channels_innermost_are_those_of_the_cpu) {
    static const struct {
        int channels, groups, shift, bits;
    } cases[] = {{32, 2, 0, 32}, {12, 3, 0, 32}, {32, 2, 1, 32}, {32, 1, 0, 64}};
    static const int activations[] = {0, 1, 10, 1}; /* as is, ReLU, held between bounds */
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        const size_t t = i % 2, s = (size_t)cases[i / 2].shift;
        const int c = cases[i / 2].channels, groups = cases[i / 2].groups;
        const int row = c / groups * 6 + 8, pixels = 30, all = 2 * 5 * 6;
        const element e = k_reals[t].type;
        char name[64];
        if (t == 0 && cases[i / 2].bits == 64) continue;
        ptx_module *m = ptx_load("nhwc", k_reals[t].name, cases[i / 2].bits, NULL);
        AS_CPU(m, named(name, sizeof name, "im2col", t), 2, 0,
               IN(x, e, (size_t)(2 * 9 * 11 * c), s), OUT(y, e, (size_t)(pixels * groups * row), 0),
               INT64(first, 17), INT64(pixels, pixels), INT64(c, c), INT64(h, 9), INT64(w_, 11),
               INT64(oh, 5), INT64(ow, 6), INT64(groups, groups), INT64(kh, 3), INT64(kw, 2),
               INT64(stride_h, 1), INT64(stride_w, 2), INT64(dil_h, 2), INT64(dil_w, 1),
               INT64(pad_top, 0), INT64(pad_left, 1), INT64(row, row));
        for (int mode = 0; mode < 4; mode++)
            AS_CPU(m, named(name, sizeof name, "depthwise", t), 2, 10 * k_reals[t].tolerance,
                   IN(x, e, (size_t)(2 * 9 * 11 * c), s), IN(weight, e, (size_t)(6 * c), 0),
                   IN(bias, e, (size_t)c, 0), IN(residual, e, (size_t)(all * c), 0),
                   OUT(y, e, (size_t)(all * c), 0), INT64(n, 2), INT64(c, c), INT64(h, 9),
                   INT64(w_, 11), INT64(oh, 5), INT64(ow, 6), INT64(kh, 3), INT64(kw, 2),
                   INT64(stride_h, 1), INT64(stride_w, 2), INT64(dil_h, 2), INT64(dil_w, 1),
                   INT64(pad_top, 0), INT64(pad_left, 1), INT32(bias_mode, mode & 1),
                   INT32(residual_mode, 1 - (mode & 1)), INT32(activation, activations[mode]),
                   FLOAT32(low, -0.5), FLOAT32(high, 0.75), INT32(x_mode, mode / 2),
                   FLOAT32(x_low, 0.125), FLOAT32(x_high, 0.5));
        for (int mode = 0; mode < 2; mode++)
            AS_CPU(m, named(name, sizeof name, "pool_blocks", t), 2, k_reals[t].tolerance,
                   IN(x, e, (size_t)(2 * 9 * 11 * c), s), OUT(y, e, (size_t)(2 * 5 * 6 * c), 0),
                   INT64(planes, 2), INT64(block, c), INT64(h, 9), INT64(w, 11), INT64(oh, 5),
                   INT64(ow, 6), INT64(kh, 3), INT64(kw, 3), INT64(stride_h, 2), INT64(stride_w, 2),
                   INT64(pad_top, 1), INT64(pad_left, 1), INT32(mode, mode));
        ptx_free(m);
    }
}

/* The largest of bytes, in images whose bytes fill 16 and in others. */
Test(ptx_models, pools_of_bytes_are_those_of_the_cpu) {
    static const char *const types[] = {"u8", "i8"}, *const kernels[] = {"pool_blocks_u8",
                                                                         "pool_blocks_i8"};
    for (int i = 0; i < 4; i++) {
        const int c = i % 2 == 0 ? 32 : 12;
        ptx_module *m = ptx_load("nhwc", types[i / 2], 32, NULL);
        AS_CPU(m, kernels[i / 2], 2, 0, IN(x, U8, (size_t)(2 * 9 * 11 * c), 0),
               OUT(y, U8, (size_t)(2 * 5 * 6 * c), 0), INT64(planes, 2), INT64(block, c),
               INT64(h, 9), INT64(w, 11), INT64(oh, 5), INT64(ow, 6), INT64(kh, 3), INT64(kw, 3),
               INT64(stride_h, 2), INT64(stride_w, 2), INT64(pad_top, 1), INT64(pad_left, 1),
               INT32(mode, 0));
        ptx_free(m);
    }
}

/* Each instruction of the kernel's own interpreter, behind one that loads x and two that save it:
 * for single elements, for packs of rows, which an address may forbid, for packs in which rows
 * meet, and for one row with a tail. */
static void check_map(const ptx_module *m, size_t t, long long instruction) {
    const element e = k_reals[t].type;
    char name[64];
    named(name, sizeof name, "map", t);
#define MAP(a_count, b_count, shift, d_, f_)                                                     \
    AS_CPU(m, name, 2, 5 * k_reals[t].tolerance, IN(a, e, a_count, 0), IN(b, e, b_count, shift), \
           IN(c, e, 1, 0), IN(e, e, 12, 0), OUT(y, e, a_count, 0), d_, f_,                       \
           DIMS(program, 4, {1, 28, 29, instruction | 1 << 8}, {{0x3f000000, 0x3f800000}},       \
                {35, M(35)}))
    MAP(12 * 35, 35, 0, DIMS(d, 2, {12, 35}, {{35, 1}, {0, 1}, {35, 1}}, {0}),
        DIMS(f, 2, {M(12), M(35)}, {{0}}, {0}));
    for (size_t shift = 0; shift < 2; shift++)
        MAP(12 * 40, 40, shift, DIMS(d, 2, {12, 40}, {{40, 1}, {0, 1}, {40, 1}}, {2, 2, 1}),
            DIMS(f, 4, {M(12), M(40)}, {{0, 0}, {1, 0}}, {0, 0, 1}));
    for (size_t shift = 0; shift < 2; shift++)
        MAP(12 * 35, 35, shift, DIMS(d, 2, {12, 35}, {{35, 1}, {0, 1}, {35, 1}}, {2, 1, 2}),
            DIMS(f, 4, {M(12), M(35)}, {{0, 0}, {1, 0}}, {0, 0, 1}));
    MAP(2051, 1, 0, DIMS(d, 1, {2051}, {{1}, {0}, {1}}, {2, 0, 1}),
        DIMS(f, 2, {M(2051)}, {{0}}, {0}));
#undef MAP
}

Test(ptx_models, maps_are_those_of_the_cpu) {
    for (size_t t = 0; t < 2; t++) {
        ptx_module *m = ptx_load("map", k_reals[t].name, 32, NULL);
        for (long long instruction = 1; instruction <= 73; instruction++)
            if (instruction != 14 && instruction != 27) check_map(m, t, instruction);
        ptx_free(m);
    }
}

/* c and e, which the instructions above do not read: as rows, and one number for each row. */
Test(ptx_models, maps_read_all_operands) {
    for (size_t t = 0; t < 2; t++) {
        const element e = k_reals[t].type;
        ptx_module *m = ptx_load("map", k_reals[t].name, 32, NULL);
        for (long long mode = 0; mode < 3; mode++) { /* elements, packs, packs in which rows meet */
            const long long n = mode == 2 ? 11 : 16, all = 6 * n;
            const long long by_n = multiplier(mode == 2 ? 11 : 16);
            char name[64];
            AS_CPU(
                m, named(name, sizeof name, "map", t), 2, k_reals[t].tolerance,
                IN(a, e, (size_t)all, 0), IN(b, e, 6, 0), IN(c, e, (size_t)n, 0),
                IN(e, e, (size_t)all, 0), OUT(y, e, (size_t)all, 0),
                DIMS(d, 3, {2, 3, n}, {{3 * n, n, 1}, {3, 1, 0}, {3 * n, n, 1}}, {2, 0, mode}),
                DIMS(f, 4, {M(2), M(3), by_n}, {{0, 0, 1}, {3 * n, n, 1}}, {mode == 2 ? 1 : 2, 2}),
                DIMS(program, 4, {1, 5 | 1 << 8, 2 | 2 << 8, 3 | 3 << 8}, {{0}}, {n, by_n}));
        }
        ptx_free(m);
    }
}

/* Every 16th pattern of bits of 16-bit floats, NaN and infinity too: within a last place of the
 * CPU's, which computes it to all digits of f32. Of -infinity the CPU makes NaN, as a product of an
 * infinity and 0, and GPUs 0. */
Test(ptx_models, gelu_of_narrow_floats_is_that_of_the_cpu) {
    enum { N = 4096 };
    static const struct {
        const char *type, *kernel;
        element e;
        double last_place;
    } types[] = {{"f16", "map_f16", F16, 9.8e-4}, {"bf16", "map_bf16", BF16, 7.9e-3}};
    unsigned short patterns[N];
    for (unsigned i = 0; i < N; i++) patterns[i] = (unsigned short)(i * 16);
    for (size_t t = 0; t < 2; t++) {
        const element e = types[t].e;
        const unsigned minus_infinity = e == F16 ? 0xfc00 : 0xff80;
        patterns[minus_infinity / 16] = 0;
        ptx_module *m = ptx_load("map", types[t].type, 32, NULL);
        AS_CPU(m, types[t].kernel, 2, types[t].last_place, {"a", INPUT, e, N, 0, patterns, 0},
               IN(b, e, 1, 0), IN(c, e, 1, 0), IN(e, e, 1, 0), OUT(y, e, N, 0),
               DIMS(d, 1, {N}, {{1}, {0}, {1}}, {2, 0, 1}), DIMS(f, 1, {M(N)}, {{0}}, {0, 0, 1}),
               DIMS(program, 2, {1, 41}, {{0}}, {0}));
        ptx_free(m);
    }
}

Test(ptx_models, indexed_rows_are_those_of_the_cpu) {
    ptx_module *m = ptx_load("index", "u32", 32, NULL);
    AS_CPU(m, "gather_axis_u32", 2, 0, IN(x, U32, 3 * 6 * 50, 0),
           {"index", INPUT, I64, 4, 0, (const long long[]){5, 0, 3, 3}, 0},
           OUT(y, U32, 3 * 4 * 50, 0), INT64(outer, 3), INT64(n, 6), INT64(inner, 50),
           INT64(count, 4));
    ptx_free(m);
}

Test(ptx_models, sequences_are_those_of_the_cpu) {
    ptx_module *m = ptx_load("sequence", "f32", 32, NULL);
    ptx_module *in_parts = ptx_load("parts", "f32", 32, NULL);
    for (int flag = 0; flag < 2; flag++) {
        for (int parts = 1; parts <= 7; parts += 3)
            AS_CPU(in_parts, "cumsum_parts_f32", 2, 1e-5, IN(x, F32, 3 * 40 * 7, 0),
                   IN(before, F32, 3 * 7 * 7, 0), OUT(y, F32, 3 * 40 * 7, 0), INT64(outer, 3),
                   INT64(n, 40), INT64(inner, 7), INT64(parts, parts), INT32(has_before, parts > 1),
                   INT32(exclusive, flag), INT32(reverse, flag ^ (parts == 4)));
        AS_CPU(m, "cumsum_f32", 2, 1e-5, IN(x, F32, 3 * 40 * 7, 0), OUT(y, F32, 3 * 40 * 7, 0),
               INT64(outer, 3), INT64(n, 40), INT64(inner, 7), INT32(exclusive, flag),
               INT32(reverse, flag));
    }
    ptx_free(in_parts);
    AS_CPU(m, "lrn_f32", 2, 1e-5, IN(x, F32, 2 * 8 * 30, 0), OUT(y, F32, 2 * 8 * 30, 0),
           INT64(n, 2), INT64(c, 8), INT64(inner, 30), INT64(size, 5), FLOAT32(alpha, 1e-2f),
           FLOAT32(beta, 0.75f), FLOAT32(bias, 1));
    AS_CPU(m, "lstm_cell_f32", 2, 1e-5, IN(x, F32, 3 * 4 * 20, 0), IN(h, F32, 3 * 4 * 20, 0),
           IN(c, F32, 3 * 20, 0), IN(p, F32, 3 * 20, 0), OUT(h_out, F32, 3 * 20, 0),
           OUT(c_out, F32, 3 * 20, 0), INT64(batch, 3), INT64(hidden, 20), INT32(peep, 1));
    ptx_free(m);
}

/* Gates, flags and functions of each kind of layer; two directions, sequences of several lengths.
 */
Test(ptx_models, recurrent_layers_are_those_of_the_cpu) {
    enum { STEPS = 3, BATCH = 2, HIDDEN = 20, BLOCKS = 2, UNITS = 16, PLACES = 2 * BATCH * HIDDEN };
    static const int kinds[][3] = {{4, 2 | 4 | 8 | 16, 0x110},
                                   {3, 2 | 16, 0x10},
                                   {3, 8 | 32, 0x10},
                                   {1, 2, 0x1},
                                   {4, 64, 0x986}};
    static const int lengths[BATCH] = {3, 1};
    ptx_module *m = ptx_load("recurrent", "f32", 32, NULL);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t gates = (size_t)kinds[i][0];
        AS_CPU(m, "recurrent_f32", 2, 1e-5, IN(x, F32, STEPS * PLACES * gates, 0),
               IN(r, F32, 2 * BLOCKS * HIDDEN * gates * UNITS, 0), IN(h0, F32, PLACES, 0),
               IN(c0, F32, PLACES, 0), IN(more, F32, 2 * 3 * HIDDEN, 0),
               {"lengths", INPUT, I32, BATCH, 0, lengths, 0}, OUT(y, F32, STEPS * PLACES, 0),
               OUT(state, F32, 2 * PLACES, 0), INT64(steps, STEPS), INT64(batch, BATCH),
               INT64(hidden, HIDDEN), INT64(directions, 2), INT64(begin, 0), INT64(until, STEPS),
               INT32(gates, kinds[i][0]), INT32(flags, kinds[i][1]), INT32(functions, kinds[i][2]),
               FLOAT32(alpha_f, 0.5f), FLOAT32(alpha_g, 0.5f), FLOAT32(alpha_h, 0.5f),
               FLOAT32(beta_f, 0.5f), FLOAT32(beta_g, 0.5f), FLOAT32(beta_h, 0.5f),
               FLOAT32(clip, 2));
    }
    ptx_free(m);
}

/* Keys of any bits; two rows of 100 keys in sorted runs of 32, whose pairs items share. */
Test(ptx_models, sorting_is_that_of_the_cpu) {
    static unsigned keys[2 * 100], places[2 * 100];
    for (unsigned i = 0; i < 200; i++) {
        places[i] = i % 100;
        keys[i] = i % 100 % 32 * 7 / 3 + i / 100;
    }
    ptx_module *m = ptx_load("keys", "f32", 32, NULL);
    for (int falling = 0; falling < 2; falling++)
        AS_CPU(m, "sort_keys_f32", 2, 0, IN(x, U32, 3 * 40 * 2, 0), OUT(key, U32, 3 * 40 * 2, 0),
               INT64(outer, 3), INT64(n, 40), INT64(inner, 2), INT32(falling, falling));
    ptx_free(m);
    m = ptx_load("sort", "u32", 32, NULL);
    AS_CPU(m, "sort_runs_u32", 2, 0, IN(key, U32, 200, 0), OUT(to, U32, 200, 0),
           OUT(place, U32, 200, 0), INT64(rows, 2), INT64(n, 100));
    AS_CPU(m, "sort_merge_u32", 2, 0, {"key", INPUT, U32, 200, 0, keys, 0},
           {"place", INPUT, U32, 200, 0, places, 0}, OUT(to, U32, 200, 0),
           OUT(to_place, U32, 200, 0), INT64(rows, 2), INT64(n, 100), INT64(run, 32));
    ptx_free(m);
    m = ptx_load("tiles", "u32", 32, NULL);
    static unsigned best[2 * 2300], rising[2 * 2300]; /* keys of which a few items have the first */
    for (int i = 0; i < 2 * 2300; i++) {
        const int item = i % 2300 % 256;
        best[i] = (unsigned)(item < 40 ? item * 100 + 9 - i % 2300 / 256 : 9000);
        rising[i] = 3u * (unsigned)i;
    }
    static const struct {
        int count, tile;
        const unsigned *keys; /* NULL: random ones with many equal */
    } k_best[] = {{7, 4096, NULL},   {64, 4096, NULL}, {104, 4096, NULL},
                  {200, 1024, NULL}, {7, 1024, NULL},  {40, 4096, best}};
    for (size_t i = 0; i < 2 * sizeof k_best / sizeof k_best[0]; i++)
        AS_CPU(m, "sort_best_u32", 2, 0, {"key", INPUT, U32, 2 * 2300, 0, k_best[i / 2].keys, 0},
               {"place", INPUT, U32, 2 * 2300, 0, rising, 0}, OUT(to, U32, 2 * 2300, 0),
               OUT(to_place, U32, 2 * 2300, 0), INT64(rows, 2), INT64(n, 2300), INT64(size, 2200),
               INT64(count, k_best[i / 2].count), INT64(tile, k_best[i / 2].tile),
               INT32(has_place, i % 2));
    ptx_free(m);
    m = ptx_load("index", "u32", 32, NULL);
    AS_CPU(m, "sort_take_u32", 2, 0, IN(x, U32, 2 * 100, 0),
           {"place", INPUT, U32, 200, 0, places, 0}, OUT(y, U32, 2 * 7, 0),
           OUT(index, I64, 2 * 7, 0), INT64(outer, 2), INT64(n, 100), INT64(inner, 1), INT64(k, 7));
    ptx_free(m);
}

/* Codes on multiples of 16 bytes, of four or of none, rows of a on those of a share or not, blocks
 * that are filled or not, one row and a tile with one more, fewer and more codes than a group takes
 * at once. */
Test(ptx_models, weights_of_few_bits_are_multiplied_as_in_f64) {
    static const struct {
        int m, n, k, shift, bits, zeros;
        size_t shift_of_codes, shift_of_a;
    } cases[] = {
        {1, 19, 160, 5, 4, 1, 0, 0},  {2, 16, 1120, 5, 4, 0, 0, 0}, {4, 37, 352, 7, 4, 2, 0, 0},
        {7, 18, 2080, 5, 4, 1, 0, 0}, {1, 7, 176, 4, 4, 1, 0, 0},   {5, 9, 72, 4, 4, 0, 1, 0},
        {2, 11, 131, 6, 4, 2, 0, 1},  {4, 8, 64, 5, 8, 1, 0, 0},    {1, 3, 50, 4, 8, 2, 2, 1}};
    for (size_t i = 0; i < 3 * sizeof cases / sizeof *cases; i++) {
        const size_t t = i % 3;
        const element e = k_reals[t].type;
        const int m = cases[i / 3].m, n = cases[i / 3].n, k = cases[i / 3].k,
                  shift = cases[i / 3].shift, bits = cases[i / 3].bits, mode = cases[i / 3].zeros,
                  blocks = ((k - 1) >> shift) + 1;
        const size_t codes = (size_t)(n * (blocks << shift) * bits / 8),
                     zeros = (size_t)(n * ((blocks * bits + 7) / 8)), all = (size_t)(n * blocks);
        exact *results = nbits_exact(&(nbits_shape){e, m, n, k, shift, bits, mode, mode % 2});
        char name[64];
        ptx_module *module = ptx_load("nbits", k_reals[t].name, 32, NULL);
#define WEIGHTS                                                                                    \
    IN(w, U8, codes, cases[i / 3].shift_of_codes), IN(scales, e, all, 0), IN(zeros, U8, zeros, 0), \
        IN(zero_numbers, e, all, 0)
        AS_CPU(module, named(name, sizeof name, "matmul_nbits", t), 2, k_reals[t].rounding,
               IN(a, e, (size_t)(m * k), cases[i / 3].shift_of_a), WEIGHTS,
               IN(bias, e, (size_t)n, 0), OUT_EXACT(c, e, (size_t)(m * n), 0, results), INT64(m, m),
               INT64(n, n), INT64(k, k), INT64(blocks, blocks), INT32(shift, shift),
               INT32(bits, bits), INT32(zero_mode, mode), INT32(bias_mode, mode % 2));
        AS_CPU(module, named(name, sizeof name, "unpack_nbits", t), 2, k_reals[t].tolerance,
               WEIGHTS, OUT(y, e, (size_t)(n * k), 0), INT64(n, n), INT64(k, k),
               INT64(blocks, blocks), INT32(shift, shift), INT32(bits, bits),
               INT32(zero_mode, mode));
#undef WEIGHTS
        ptx_free(module);
        free(results);
    }
}
