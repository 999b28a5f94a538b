/* SPDX-License-Identifier: Apache-2.0
 *
 * What nvcc made of the kernels computes what the CPU's kernels do, with no access that is
 * misaligned, out of bounds, or in a race: f32 and f16, packs and tails, indices of 32 and 64 bits.
 */
#include <criterion/criterion.h>
#include <stdio.h>

#include "support.h"

typedef struct real {
    const char *name;
    element type;
    double tolerance; /* a few roundings of the result */
} real;
static const real k_reals[] = {
    {"f32", F32, 1e-5}, {"f16", F16, 2e-3}, {"bf16", BF16, 1.6e-2}, {"f64", F64, 1e-11}};
enum { REALS = sizeof k_reals / sizeof k_reals[0] };

static void named(char *name, size_t bytes, const char *operation, const char *type) {
    (void)snprintf(name, bytes, "%s_%s", operation, type);
}

static void check_unary(const real *r, int bits) {
    static const char *const operations[] = {"relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh",
                                             "exp",  "log",  "sqrt",      "neg",  "abs"};
    static const size_t counts[] = {0, 1, 9, 1024, 4099};
    ptx_module *m = ptx_load("unary", r->name, bits, NULL);
    for (size_t o = 0; o < sizeof operations / sizeof operations[0]; o++) {
        for (size_t c = 0; c < 2 * sizeof counts / sizeof counts[0]; c++) {
            char name[64];
            const size_t n = counts[c / 2], shift = c % 2;
            named(name, sizeof name, operations[o], r->name);
            AS_CPU(m, name, 2, r->tolerance, IN(x, r->type, n, shift), OUT(y, r->type, n, shift),
                   INT64(n, (long long)n));
        }
    }
    ptx_free(m);
}

Test(ptx, unary_kernels_compute_what_the_cpu_does) {
    for (size_t t = 0; t < REALS; t++) check_unary(&k_reals[t], 32);
    check_unary(&k_reals[0], 64);
}

static const char *const k_binary[] = {"add", "sub", "mul", "div", "max", "min"};

Test(ptx, binary_kernels_compute_what_the_cpu_does) {
    static const size_t counts[] = {0, 1, 9, 1024, 4099};
    for (size_t t = 0; t < REALS; t++) {
        const real *r = &k_reals[t];
        ptx_module *m = ptx_load("binary", r->name, 32, NULL);
        for (size_t o = 0; o < 6; o++) {
            for (size_t c = 0; c < 2 * sizeof counts / sizeof counts[0]; c++) {
                char name[64];
                const size_t n = counts[c / 2], shift = c % 2;
                named(name, sizeof name, k_binary[o], r->name);
                AS_CPU(m, name, 2, r->tolerance, IN(a, r->type, n, shift), IN(b, r->type, n, 0),
                       OUT(y, r->type, n, shift), INT64(n, (long long)n));
            }
        }
        ptx_free(m);
    }
}

Test(ptx, broadcasting_kernels_compute_what_the_cpu_does) {
    for (size_t t = 0; t < REALS; t++) {
        const real *r = &k_reals[t];
        ptx_module *m = ptx_load("binary", r->name, 32, NULL);
        for (size_t o = 0; o < 6; o++) {
            char operation[32], name[64];
            (void)snprintf(operation, sizeof operation, "%s_dims", k_binary[o]);
            named(name, sizeof name, operation, r->name);
            AS_CPU(m, name, 2, r->tolerance, IN(a, r->type, 5 * 7 * 33, 0),
                   IN(b, r->type, 5 * 33, 0), OUT(y, r->type, 5 * 7 * 33, 0),
                   DIMS(d, 3, {5, 7, 33}, {{231, 33, 1}, {33, 0, 1}, {231, 33, 1}}, {0}),
                   DIMS(f, 0, {M(5), M(7), M(33)}, {{0}}, {0}));
            for (size_t shift = 0; shift < 2; shift++) { /* packs of rows, and of one with a tail */
                AS_CPU(m, name, 2, r->tolerance, IN(a, r->type, 5 * 7 * 40, 0),
                       IN(b, r->type, 5 * 40, shift), OUT(y, r->type, 5 * 7 * 40, 0),
                       DIMS(d, 3, {5, 7, 40}, {{280, 40, 1}, {40, 0, 1}, {280, 40, 1}}, {0}),
                       DIMS(f, 0, {M(5), M(7), M(40)}, {{40, M(40)}}, {2, 2, 1}));
                AS_CPU(m, name, 2, r->tolerance, IN(a, r->type, 2051, shift), IN(b, r->type, 1, 0),
                       OUT(y, r->type, 2051, 0), DIMS(d, 1, {2051}, {{1}, {0}, {1}}, {0}),
                       DIMS(f, 0, {M(2051)}, {{2051, M(2051)}}, {2, 0, 1}));
            }
            /* packs in which rows meet: a row for each of seven, a number for each row */
            AS_CPU(m, name, 2, r->tolerance, IN(a, r->type, 5 * 33, 0),
                   IN(b, r->type, 5 * 7 * 33, 0), OUT(y, r->type, 5 * 7 * 33, 0),
                   DIMS(d, 3, {5, 7, 33}, {{33, 0, 1}, {231, 33, 1}, {231, 33, 1}}, {0}),
                   DIMS(f, 0, {M(5), M(7), M(33)}, {{33, M(33)}}, {1, 2, 2}));
            AS_CPU(m, name, 2, r->tolerance, IN(a, r->type, 35 * 9, 0), IN(b, r->type, 35, 0),
                   OUT(y, r->type, 35 * 9, 0), DIMS(d, 2, {35, 9}, {{9, 1}, {1, 0}, {9, 1}}, {0}),
                   DIMS(f, 0, {M(35), M(9)}, {{9, M(9)}}, {2, 0, 2}));
        }
        ptx_free(m);
    }
}

Test(ptx, scalar_kernels_compute_what_the_cpu_does) {
    for (size_t t = 0; t < 3; t++) {
        const real *r = &k_reals[t];
        ptx_module *m = ptx_load("scalar", r->name, 32, NULL);
        for (int form = 0; form <= 10; form++) {
            char name[64];
            named(name, sizeof name, "scalar", r->name);
            AS_CPU(m, name, 2, r->tolerance, IN(x, r->type, 1031, 0), OUT(y, r->type, 1031, 0),
                   INT64(n, 1031), INT32(form, form), INT64(first, 0x40200000),
                   INT64(second, 0x3f000000)); /* 2.5, 0.5 */
        }
        ptx_free(m);
    }
}

Test(ptx, casts_give_what_the_cpu_gives) {
    static const struct {
        const char *from, *name;
        element x, y;
    } casts[] = {{"f32", "cast_f32_f16", F32, F16}, {"f32", "cast_f32_i32", F32, I32},
                 {"f32", "cast_f32_u8", F32, U8},   {"f32", "cast_f32_f64", F32, F64},
                 {"f32", "cast_f32_i64", F32, I64}, {"f16", "cast_f16_f32", F16, F32},
                 {"f16", "cast_f16_i32", F16, I32}, {"f16", "cast_f16_i64", F16, I64},
                 {"f16", "cast_f16_f64", F16, F64}};
    for (size_t k = 0; k < sizeof casts / sizeof casts[0]; k++) {
        ptx_module *m = ptx_load("cast", casts[k].from, 32, NULL);
        for (size_t shift = 0; shift < 3; shift++)
            AS_CPU(m, casts[k].name, 2, 0, IN(x, casts[k].x, 1031, shift % 2),
                   OUT(y, casts[k].y, 1031, shift / 2), INT64(n, 1031));
        ptx_free(m);
    }
}

/* Whole groups, lanes that hold a row, and lanes that do not, at all places on a share. */
static void check_rows(const real *r, int bits) {
    static const struct {
        size_t columns;
        int lanes;
    } cases[] = {{1, 0},     {10, 1},     {64, 0},     {64, 4},    {100, 8},
                 {77, 4},    {1000, 32},  {1024, 0},   {1023, 64}, {4096, 128},
                 {3001, 64}, {8192, 256}, {8196, 256}, {10002, 0}};
    ptx_module *m = ptx_load("rows", r->name, bits, NULL);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const size_t n = cases[c].columns, rows = n < 1000 ? 35 : 3, all = n * rows, shift = c % 3;
        const long long cols = (long long)n, count = (long long)rows;
        const int lanes = cases[c].lanes;
        char name[64];
        named(name, sizeof name, "softmax", r->name);
        AS_CPU(m, name, 2, r->tolerance, IN(x, r->type, all, 0), OUT(y, r->type, all, 0),
               INT64(rows, count), INT64(cols, cols), INT32(lanes, lanes));
        named(name, sizeof name, "log_softmax", r->name);
        AS_CPU(m, name, 2, r->tolerance, IN(x, r->type, all, 1), OUT(y, r->type, all, shift),
               INT64(rows, count), INT64(cols, cols), INT32(lanes, lanes));
        named(name, sizeof name, "layernorm", r->name);
        AS_CPU(m, name, 2, 10 * r->tolerance, IN(x, r->type, all, shift), IN(gamma, r->type, n, 0),
               IN(beta, r->type, n, 0), OUT(y, r->type, all, 0), INT64(rows, count),
               INT64(cols, cols), FLOAT32(eps, 1e-5f), INT32(lanes, lanes));
        named(name, sizeof name, "normalize", r->name);
        for (int k = 0; k < 4; k++)
            AS_CPU(m, name, 2, 10 * r->tolerance, IN(x, r->type, all, 0), IN(gamma, r->type, n, 0),
                   OUT(y, r->type, all, 0), INT64(rows, count), INT64(cols, cols),
                   FLOAT32(eps, 1e-5f), INT32(centred, k % 2), INT32(scaled, k / 2),
                   INT32(lanes, lanes));
    }
    ptx_free(m);
}

/* What is near zero has the rounding of the CPU's sums, which have one term after the other. */
#define SUMS 2e-3

/* A row of the other operand for each of x, one for heads, and one for all; and none. */
static void check_operands(const real *r, int bits) {
    static const struct {
        size_t columns;
        int lanes;
    } cases[] = {{1, 1}, {64, 0}, {64, 4}, {100, 8}, {77, 4}, {1000, 32}, {1023, 64}, {4096, 128}};
    enum { ROWS = 12 };
    ptx_module *m = ptx_load("operands", r->name, bits, NULL);
    for (size_t c = 0; c < 4 * sizeof cases / sizeof cases[0]; c++) {
        const size_t n = cases[c / 4].columns, all = n * ROWS, shift = c % 3;
        const long long cols = (long long)n;
        const int lanes = cases[c / 4].lanes, k = (int)(c % 4);
        const size_t others = k == 0 ? 6 : k == 1 ? 1 : 12;
        const arg d = k == 0 ? (arg)DIMS(d, 3, {2, 3, 2}, {{2, 0, 1}, {0}, {M(2), M(3), M(2)}}, {0})
                      : k == 1 ? (arg)DIMS(d, 1, {12}, {{0}, {0}, {M(12)}}, {0})
                               : (arg)DIMS(d, 1, {12}, {{1}, {0}, {M(12)}}, {0});
        char name[64];
        named(name, sizeof name, "softmax_scores", r->name);
        AS_CPU(m, name, 2, r->tolerance, IN(x, r->type, all, shift),
               IN(mask, r->type, others * n, 0), OUT(y, r->type, all, 0), INT64(rows, ROWS),
               INT64(cols, cols), d, FLOAT32(scale, k == 3 ? -0.5f : 0.25f), INT32(masked, k != 2),
               INT32(lanes, lanes));
        named(name, sizeof name, "norm_sum", r->name);
        AS_CPU(m, name, 2, 10 * r->tolerance + SUMS, IN(x, r->type, all, 0),
               IN(other, r->type, others * n, shift), IN(gamma, r->type, n, 0),
               IN(beta, r->type, n, 0), OUT(total, r->type, all, 0), OUT(y, r->type, all, shift),
               INT64(rows, ROWS), INT64(cols, cols), d, FLOAT32(eps, 1e-5f), INT32(centred, k % 2),
               INT32(scaled, k > 0), INT32(shifted, k > 1), INT32(wanted, 1), INT32(lanes, lanes));
    }
    ptx_free(m);
}

Test(ptx, rows_of_two_operands_compute_what_the_cpu_does) {
    for (size_t t = 0; t < 3; t++) check_operands(&k_reals[t], 32);
    check_operands(&k_reals[0], 64);
}

Test(ptx, rows_compute_what_the_cpu_does) {
    for (size_t t = 0; t < REALS; t++) check_rows(&k_reals[t], 32);
}

Test(ptx, rows_with_wide_indices_compute_what_the_cpu_does) { check_rows(&k_reals[0], 64); }

/* Several pixels of a line at once, whose ends lie outside, and one by one where windows move on.
 */
static void check_depthwise(const real *r, long long taps, long long stride, long long dilation) {
    enum { H = 9, W = 11 };
    const long long lanes = r->type == F32 ? 4 : 8, c = 16 * lanes;
    const long long pad = 1, reach = (taps - 1) * dilation + 1;
    const long long oh = (H + 2 * pad - reach) / stride + 1,
                    ow = (W + 2 * pad - reach) / stride + 1;
    const size_t in = (size_t)(2 * H * W * c), out = (size_t)(2 * oh * ow * c);
    char name[64];
    ptx_module *m = ptx_load("nhwc", r->name, 32, NULL);
    named(name, sizeof name, "depthwise", r->name);
    for (int held = 0; held < 2; held++)
        AS_CPU(m, name, 2, 10 * r->tolerance + SUMS, IN(x, r->type, in, 0),
               IN(weight, r->type, (size_t)(taps * taps * c), 0), IN(bias, r->type, (size_t)c, 0),
               IN(residual, r->type, out, 0), OUT(y, r->type, out, 0), INT64(n, 2), INT64(c, c),
               INT64(h, H), INT64(w_, W), INT64(oh, oh), INT64(ow, ow), INT64(kh, taps),
               INT64(kw, taps), INT64(stride_h, stride), INT64(stride_w, stride),
               INT64(dil_h, dilation), INT64(dil_w, dilation), INT64(pad_top, pad),
               INT64(pad_left, pad), INT32(bias_mode, 1), INT32(residual_mode, !held),
               INT32(activation, held ? 10 : 1), FLOAT32(low, 0), FLOAT32(high, 0.75f),
               INT32(x_mode, held), FLOAT32(x_low, 0.125f), FLOAT32(x_high, 0.5f));
    ptx_free(m);
}

Test(ptx, depthwise_convolutions_compute_what_the_cpu_does) {
    for (size_t t = 0; t < 3; t++) {
        check_depthwise(&k_reals[t], 3, 1, 1);
        check_depthwise(&k_reals[t], 5, 1, 1);
        check_depthwise(&k_reals[t], 2, 1, 1);
        check_depthwise(&k_reals[t], 3, 2, 1);
        check_depthwise(&k_reals[t], 3, 1, 2);
    }
}

/* By a group for each row, and by lanes of several rows. */
static void check_reductions(const real *r, const size_t shape[3], int lanes, size_t shift) {
    static const char *const operations[] = {"reduce_sum", "reduce_max", "reduce_min",
                                             "reduce_prod"};
    const size_t outer = shape[0], n = shape[1], inner = shape[2];
    char name[64];
    ptx_module *m = ptx_load("reduce", r->name, 32, NULL);
    for (size_t o = 0; o < 4; o++) {
        named(name, sizeof name, operations[o], r->name);
        AS_CPU(m, name, 2, r->tolerance, IN(x, r->type, outer * n * inner, shift),
               OUT(y, r->type, outer * inner, 0), INT64(outer, (long long)outer),
               INT64(n, (long long)n), INT64(inner, (long long)inner), FLOAT32(scale, 0.125f),
               INT32(lanes, lanes));
    }
    named(name, sizeof name, "argmax", r->name);
    AS_CPU(m, name, 2, 0, IN(x, r->type, outer * n * inner, shift), OUT(y, I64, outer * inner, 0),
           INT64(outer, (long long)outer), INT64(n, (long long)n), INT64(inner, (long long)inner),
           INT32(lanes, lanes));
    ptx_free(m);
}

Test(ptx, reductions_compute_what_the_cpu_does) {
    static const size_t shapes[][3] = {{3, 1, 1},   {5, 100, 1}, {2, 3001, 1},
                                       {67, 64, 1}, {9, 77, 1},  {3, 17, 40}};
    static const int lanes[] = {0, 1, 4, 32, 128};
    for (size_t t = 0; t < REALS; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
            for (size_t l = 0; l < sizeof lanes / sizeof lanes[0]; l++)
                check_reductions(&k_reals[t], shapes[s], lanes[l], (s + l) % 4);
}

/* What parts leave, and what is made of it; the last part is shorter. */
static void check_split_rows(const real *r, long long rows, long long cols, long long length,
                             size_t shift) {
    const long long parts = (cols + length - 1) / length;
    const size_t all = (size_t)(rows * cols), n = (size_t)cols, some = (size_t)(rows * parts * 2);
    const element e = r->type;
    char name[64];
    ptx_module *m = ptx_load("split", r->name, 32, NULL);
    named(name, sizeof name, "softmax_part", r->name);
    AS_CPU(m, name, 2, 1e-4, IN(x, e, all, shift), OUT(part, F32, some, 0), INT64(rows, rows),
           INT64(cols, cols), INT64(parts, parts), INT64(length, length));
    for (int way = 0; way < 2; way++) {
        named(name, sizeof name, "norm_part", r->name);
        AS_CPU(m, name, 2, 1e-4, IN(x, e, all, shift), OUT(part, F32, some, 0), INT64(rows, rows),
               INT64(cols, cols), INT64(parts, parts), INT64(length, length), INT32(centred, way));
        named(name, sizeof name, "softmax_join", r->name);
        AS_CPU(m, name, 2, r->tolerance, IN(x, e, all, shift), IN(part, F32, some, 0),
               OUT(y, e, all, way ? shift : 0), INT64(rows, rows), INT64(cols, cols),
               INT64(parts, parts), INT64(length, length), INT32(logarithm, way));
        named(name, sizeof name, "norm_join", r->name);
        AS_CPU(m, name, 2, 10 * r->tolerance, IN(x, e, all, shift), IN(gamma, e, n, 0),
               IN(beta, e, n, shift), IN(part, F32, some, 0), OUT(y, e, all, 0), INT64(rows, rows),
               INT64(cols, cols), INT64(parts, parts), INT64(length, length), FLOAT32(eps, 1e-5f),
               INT32(scaled, 1), INT32(shifted, way));
    }
    ptx_free(m);
}

Test(ptx, long_rows_in_parts_compute_what_the_cpu_does) {
    for (size_t t = 0; t < REALS; t++) {
        if (k_reals[t].type == F64) continue;
        check_split_rows(&k_reals[t], 2, 8192, 2048, 0);
        check_split_rows(&k_reals[t], 3, 3001, 1024, 0);
        check_split_rows(&k_reals[t], 1, 5000, 1024, 1);
    }
}

/* Rows, few columns, many columns; more parts than rows leave some empty. */
Test(ptx, reductions_in_parts_compute_what_the_cpu_does) {
    static const long long shapes[][4] = {{2, 3001, 1, 3}, {1, 170, 3, 4}, {2, 17, 300, 5},
                                          {1, 5, 200, 4},  {3, 1, 1, 1},   {1, 600, 8, 1}};
    for (size_t t = 0; t < REALS; t++) {
        const real *r = &k_reals[t];
        ptx_module *m = ptx_load("parts", r->name, 32, NULL);
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
            const long long outer = shapes[s][0], n = shapes[s][1], inner = shapes[s][2],
                            parts = shapes[s][3];
            char name[64];
            named(name, sizeof name, "reduce_parts", r->name);
            for (int kind = 0; kind < 4; kind++)
                AS_CPU(m, name, 2, 1e-5, IN(x, r->type, (size_t)(outer * n * inner), 0),
                       OUT(y, r->type == F64 ? F64 : F32, (size_t)(outer * parts * inner), 0),
                       INT64(outer, outer), INT64(n, n), INT64(inner, inner), INT64(parts, parts),
                       INT32(kind, kind), FLOAT32(scale, 0.125f));
        }
        ptx_free(m);
    }
}

Test(ptx, products_of_matrices_are_those_of_the_cpu) {
    static const long long shapes[][4] = {
        {1, 1, 1, 1}, {64, 64, 16, 1}, {70, 65, 37, 2}, {5, 130, 20, 1}};
    for (size_t t = 0; t < REALS; t++) {
        const real *r = &k_reals[t];
        ptx_module *module = ptx_load("matmul", r->name, 32, NULL);
        for (size_t s = 0; s < 2 * sizeof shapes / sizeof shapes[0]; s++) {
            const long long m = shapes[s / 2][0], n = shapes[s / 2][1], k = shapes[s / 2][2],
                            batch = shapes[s / 2][3];
            const bool turned = s % 2; /* b lies transposed, with a bias */
            char name[64];
            named(name, sizeof name, "matmul", r->name);
            AS_CPU(module, name, 3, r->tolerance, IN(a, r->type, (size_t)(m * k * batch), 0),
                   IN(b, r->type, (size_t)(k * n * batch), 0), IN(bias, r->type, (size_t)n, 0),
                   OUT(c, r->type, (size_t)(m * n * batch), 0), INT64(m, m), INT64(n, n),
                   INT64(k, k), INT64(batch, batch), INT64(a_row, k), INT64(a_col, 1),
                   INT64(b_row, turned ? 1 : n), INT64(b_col, turned ? k : 1),
                   INT64(a_batch, m * k), INT64(b_batch, k * n), INT32(bias_mode, turned),
                   INT32(activation, turned));
        }
        ptx_free(module);
    }
}

/* Extents of attention; `apart`: elements between one row and the next, more than it has. */
typedef struct attention_case {
    long long batch, heads, sharing, rows, keys, depth, features, apart;
} attention_case;

static void check_attention(const real *r, const attention_case *c) {
    const long long B = c->batch, H = c->heads, G = H / c->sharing, L = c->rows, S = c->keys;
    const long long E = c->depth + c->apart, F = c->features + c->apart, V = c->features;
    const element e = r->type;
    /* weights of 16 bits before the second product */
    const double tolerance = e == F32 ? r->tolerance : 2 * r->tolerance;
    char name[64];
    ptx_module *m = ptx_load("attention", r->name, 32, NULL);
    named(name, sizeof name, "attention", r->name);
    for (int masked = 0; masked < 2; masked++)
        AS_CPU(m, name, 3, tolerance, IN(q, e, (size_t)(B * H * L * E), 0),
               IN(k, e, (size_t)(B * G * S * E), 0), IN(v, e, (size_t)(B * G * S * F), 0),
               IN(mask, e, (size_t)(L * S), 0), OUT(y, e, (size_t)(B * L * H * V), 0),
               DIMS(from, 4, {B, H, c->sharing, L, S, c->depth, V},
                    {{H * L * E, L * E, E, 1}, {G * S * E, E, G * E, 1}, {G * S * F, S * F, F, 1}},
                    {0}),
               DIMS(to, 4, {0}, {{L * H * V, V, H * V, 1}, {0, 0, S, 1}}, {0}),
               FLOAT32(scale, 0.25f), INT32(masked, masked), INT32(empty_is_zero, 1));
    ptx_free(m);
}

/* Heads that share a key; rows and keys are no multiples of what a group takes; tensor cores have
 * a form for each of three widths, and pieces of 16 bytes or single elements. */
Test(ptx, attention_is_that_of_the_cpu) {
    static const attention_case cases[] = {
        {2, 4, 2, 7, 70, 9, 5, 0},     {1, 2, 1, 40, 33, 32, 16, 0}, {1, 2, 2, 130, 64, 64, 64, 0},
        {1, 1, 1, 17, 129, 64, 40, 8}, {1, 1, 1, 20, 65, 128, 8, 0}, {1, 1, 1, 9, 70, 72, 128, 3},
        {1, 1, 1, 128, 1, 31, 33, 1}};
    for (size_t t = 0; t < REALS; t++) {
        if (k_reals[t].type == F64) continue; /* the scale is f32 */
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
            check_attention(&k_reals[t], &cases[c]);
    }
}

/* Scores of -inf or the lowest number: a row that sees nothing, and keys that only some rows see.
 */
static void check_unseen(const char *type, element e, uint16_t unseen) {
    enum { L = 3, S = 66, E = 16 };
    uint16_t mask[L * S] = {0};
    char name[64];
    ptx_module *m = ptx_load("attention", type, 32, NULL);
    named(name, sizeof name, "attention", type);
    for (int j = 0; j < S; j++) mask[S + j] = unseen;
    for (int j = 0; j < 64; j++) mask[2 * S + j] = unseen;
    for (int empty_is_zero = 0; empty_is_zero < 2; empty_is_zero++)
        AS_CPU(
            m, name, 1, 0.02, IN(q, e, L * E, 0), IN(k, e, S * E, 0), IN(v, e, S * E, 0),
            {"mask", INPUT, e, L * S, 0, mask, 0}, OUT(y, e, L * E, 0),
            DIMS(from, 4, {1, 1, 1, L, S, E, E}, {{0, 0, E, 1}, {0, 0, E, 1}, {0, 0, E, 1}}, {0}),
            DIMS(to, 4, {0}, {{0, 0, E, 1}, {0, 0, S, 1}}, {0}), FLOAT32(scale, 0.25f),
            INT32(masked, 1), INT32(empty_is_zero, empty_is_zero));
    ptx_free(m);
}

Test(ptx, attention_of_nothing_is_that_of_the_cpu) {
    check_unseen("f16", F16, 0xfc00);
    check_unseen("f16", F16, 0xfbff);
    check_unseen("bf16", BF16, 0xff80);
    check_unseen("bf16", BF16, 0xff7f);
}

/* Caches of which the second is shorter than its room, the third empty, the fourth has a length
 * that is none. */
static void check_cache(const real *r, const attention_case *c) {
    const long long B = 4, H = c->heads, G = H / c->sharing, L = c->rows, S = c->keys;
    const long long E = c->depth, F = c->features, lengths[] = {S, S > L ? S - 1 : S, 0, S + 1};
    const element e = r->type;
    char name[64];
    ptx_module *m = ptx_load("cache", r->name, 32, NULL);
    named(name, sizeof name, "attention_cache", r->name);
    for (int way = 0; way < 8; way++) {
        const int splits = way % 3 + 1; /* of which the last of short caches have nothing to do */
        AS_CPU(m, name, 3, r->tolerance, IN(q, e, (size_t)(B * H * L * E), 0),
               IN(k, e, (size_t)(B * G * S * E), 0), IN(v, e, (size_t)(B * G * S * F), 0),
               IN(mask, e, (size_t)(L * S), 0), {"lengths", INPUT, I64, 4, 0, lengths, 0},
               OUT(part, F32, (size_t)(B * L * H * splits * (F + 2)), 0),
               OUT(y, e, (size_t)(B * L * H * F), 0),
               DIMS(from, 4, {B, H, c->sharing, L, S, E, F},
                    {{H * L * E, L * E, E, 1}, {G * S * E, S * E, E, 1}, {G * S * F, S * F, F, 1}},
                    {0}),
               DIMS(to, 4, {0}, {{L * H * F, F, H * F, 1}, {0, 0, S, 1}}, {0}),
               FLOAT32(scale, 0.25f), FLOAT32(cap, way & 4 ? 2.0f : 0.0f), INT32(masked, way & 1),
               INT32(causal, way >> 1 & 1), INT32(empty_is_zero, 1), INT32(splits, splits));
    }
    ptx_free(m);
    m = ptx_load("join", r->name, 32, NULL);
    named(name, sizeof name, "attention_join", r->name);
    AS_CPU(m, name, 3, 10 * r->tolerance, IN(part, F32, (size_t)(B * L * H * 3 * (F + 2)), 0),
           {"lengths", INPUT, I64, 4, 0, lengths, 0}, OUT(y, e, (size_t)(B * L * H * F), 0),
           DIMS(from, 4, {B, H, c->sharing, L, S, E, F}, {{0}}, {0}),
           DIMS(to, 4, {0}, {{L * H * F, F, H * F, 1}, {0, 0, S, 1}}, {0}), INT32(splits, 3),
           INT32(empty_is_zero, 1));
    ptx_free(m);
}

Test(ptx, attention_to_caches_is_that_of_the_cpu) {
    static const attention_case cases[] = {
        {4, 2, 1, 1, 300, 64, 64, 0}, {4, 6, 3, 1, 40, 9, 17, 0}, {4, 2, 2, 5, 257, 16, 8, 0}};
    for (size_t t = 0; t < REALS; t++) {
        if (k_reals[t].type == F64) continue; /* the scale is f32 */
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
            check_cache(&k_reals[t], &cases[c]);
    }
}

Test(ptx, layouts_are_those_of_the_cpu) {
    static const struct {
        const char *type;
        element e;
    } types[] = {{"u32", U32}, {"u16", U16}};
    for (size_t t = 0; t < 2; t++) {
        char name[64];
        const element e = types[t].e;
        ptx_module *m = ptx_load("layout", types[t].type, 32, NULL);
        named(name, sizeof name, "copy_dims", types[t].type);
        AS_CPU(m, name, 2, 0, IN(x, e, 2 * 45 * 70, 0),
               OUT(y, e, 2 * 45 * 70, 0), /* transposes by tiles */
               DIMS(d, 3, {2, 70, 45}, {{3150, 1, 70}, {3150, 45, 1}, {M(2), M(70), M(45)}}, {0}));
        for (size_t shift = 0; shift < 3;
             shift++) /* whole tiles and parts, by pairs where they lie so */
            AS_CPU(m, name, 2, 0, IN(x, e, 2 * 130 * 70, shift), OUT(y, e, 2 * 130 * 70, shift / 2),
                   DIMS(d, 3, {2, 70, 130}, {{9100, 1, 70}, {9100, 130, 1}, {M(2), M(70), M(130)}},
                        {0}));
        AS_CPU(m, name, 2, 0, IN(x, e, 4 * 3 * 5 * 8, 0),
               OUT(y, e, 4 * 3 * 5 * 8, 0), /* heads of attention */
               DIMS(d, 4, {4, 5, 3, 8},
                    {{120, 8, 40, 1}, {120, 24, 8, 1}, {M(4), M(5), M(3), M(8)}}, {0}));
        for (size_t shift = 0; shift < 3; shift++) /* heads by 16 bytes, 8 and elements */
            for (long long bytes = 8; bytes <= 16; bytes += 8)
                AS_CPU(m, name, 2, 0, IN(x, e, 4 * 3 * 5 * 8, 2 * shift),
                       OUT(y, e, 4 * 3 * 5 * 8, shift),
                       DIMS(d, 4, {4, 5, 3, 8},
                            {{120, 8, 40, 1}, {120, 24, 8, 1}, {M(4), M(5), M(3), M(8)}},
                            {0, 0, bytes}));
        named(name, sizeof name, "gather_rows", types[t].type);
        for (size_t shift = 0; shift < 2; shift++) /* by 16 bytes, by elements */
            for (long long cols = 296; cols <= 300; cols++)
                AS_CPU(m, name, 2, 0, IN(x, e, (size_t)(6 * cols), shift),
                       {"index", INPUT, I64, 4, 0, (const long long[]){5, 0, 7, 3}, 0},
                       OUT(y, e, (size_t)(4 * cols), 0), INT64(rows, 6), INT64(cols, cols),
                       INT64(count, 4));
        ptx_free(m);
    }
}
