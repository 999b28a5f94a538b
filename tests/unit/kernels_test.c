/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise, cast and layout kernels of every type and build against a double reference, with odd
 * sizes, strides, broadcasts and in place.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernel_support.h"

TestSuite(kernels, .fini = release_all, .timeout = 300);

enum { ODD = 1003 };

/* ---- unary
 * -------------------------------------------------------------------------------------------------------
 */

static double f_relu(double x) { return activate(x, DHOW_ACTIVATION_RELU); }
static double f_gelu(double x) { return activate(x, DHOW_ACTIVATION_GELU); }
static double f_gelu_tanh(double x) { return activate(x, DHOW_ACTIVATION_GELU_TANH); }
static double f_silu(double x) { return activate(x, DHOW_ACTIVATION_SILU); }
static double f_sigmoid(double x) { return activate(x, DHOW_ACTIVATION_SIGMOID); }
static double f_neg(double x) { return -x; }

static const struct {
    const char *name;
    double (*function)(double);
    double low, high;
} unary[] = {{"relu", f_relu, -4, 4},
             {"gelu", f_gelu, -9, 9},
             {"gelu_tanh", f_gelu_tanh, -9, 9},
             {"silu", f_silu, -20, 20},
             {"sigmoid", f_sigmoid, -20, 20},
             {"tanh", tanh, -9, 9},
             {"exp", exp, -10, 10},
             {"log", log, 1e-3, 100},
             {"sqrt", sqrt, 0, 100},
             {"neg", f_neg, -4, 4},
             {"abs", fabs, -4, 4}};
enum { UNARY = sizeof unary / sizeof unary[0] };

static void check_unary(int op, element type, int build, int groups, int in_place) {
    char name[64], what[96];
    (void)snprintf(name, sizeof name, "%s_%s", unary[op].name, element_names[type]);
    (void)snprintf(what, sizeof what, "%s %s", name, build_name(build));
    const k_info *kernel = build_of(name, build);
    cr_assert(kernel != NULL, "no kernel %s", name);
    void *x = scratch_values(type, ODD, unary[op].low, unary[op].high),
         *kept = scratch(ODD * element_bytes(type));
    memcpy(kept, x, ODD * element_bytes(type));
    void *y = in_place ? x : scratch(ODD * element_bytes(type));
    int64_t n = ODD;
    void *argv[] = {&x, &y, &n};
    run_kernel(kernel, groups, argv);
    for (size_t i = 0; i < ODD; i++) {
        const double v = element_get(type, kept, i);
        expect_near(type, element_get(type, y, i), unary[op].function(v), 2.5e-6, what, i);
    }
    release_all();
}

Test(kernels, elementwise_functions_match_a_double_reference) {
    for (int op = 0; op < UNARY; op++) {
        for (int type = 0; type < E_FLOATS; type++) {
            for (int build = 0; build < build_count(); build++) {
                check_unary(op, (element)type, build, 1, 0);
                check_unary(op, (element)type, build, 3, 1);
            }
        }
    }
}

Test(kernels, elementwise_functions_keep_nan_and_infinity) {
    const float inputs[] = {NAN,   -NAN,   INFINITY, -INFINITY, 0.0f,
                            -0.0f, 1e-40f, 89.0f,    -89.0f,    3e38f};
    for (int op = 0; op < UNARY; op++) {
        for (int build = 0; build < build_count(); build++) {
            char name[64];
            (void)snprintf(name, sizeof name, "%s_f32", unary[op].name);
            float y[10];
            const void *x = inputs;
            void *out = y;
            int64_t n = 10;
            void *argv[] = {&x, &out, &n};
            run_kernel(build_of(name, build), 1, argv);
            for (size_t i = 0; i < 10; i++) {
                if (inputs[i] == -INFINITY && strstr(name, "lu")) continue; /* -inf * 0 */
                expect_near(E_F32, y[i], (double)(float)unary[op].function(inputs[i]), 1e-5, name,
                            i);
            }
        }
    }
}

/* ---- binary
 * ------------------------------------------------------------------------------------------------------
 */

static const char *const binary[] = {"add", "sub", "mul", "div", "max", "min"};

/* What an integer becomes when the result does not fit. */
static double wrapped(element type, double value) {
    const double bits = 8.0 * (double)element_bytes(type), span = ldexp(1, (int)bits);
    if (type < E_FLOATS || type == E_I64) return value;
    value = fmod(value, span);
    if (value < 0) value += span;
    return type != E_U8 && value >= span / 2 ? value - span : value;
}

static double combine(int op, element type, double a, double b) {
    switch (op) {
        case 0:
            return wrapped(type, a + b);
        case 1:
            return wrapped(type, a - b);
        case 2:
            return wrapped(type, a * b);
        case 3:
            return type < E_FLOATS ? a / b : b == 0 ? 0 : wrapped(type, trunc(a / b));
        case 4:
            return isnan(a) || isnan(b) ? NAN : fmax(a, b);
        default:
            return isnan(a) || isnan(b) ? NAN : fmin(a, b);
    }
}

static void check_binary(int op, element type, int build, const dhow_dims *d) {
    char name[64], what[96];
    (void)snprintf(name, sizeof name, "%s%s_%s", binary[op], d ? "_dims" : "", element_names[type]);
    (void)snprintf(what, sizeof what, "%s %s", name, build_name(build));
    const size_t count = 4096;
    const double low = type == E_U8 ? 0 : -60, high = 60;
    void *a = scratch_values(type, count, low, high), *b = scratch_values(type, count, low, high);
    void *y = scratch(count * element_bytes(type));
    int64_t n = ODD;
    union {
        const dhow_dims *from;
        void *to;
    } dims = {.from = d};
    dhow_dims more = {0}; /* of GPUs */
    void *argv[] = {&a, &b, &y, d ? dims.to : (void *)&n, &more};
    run_kernel(build_of(name, build), 3, argv);
    if (!d) {
        for (size_t i = 0; i < ODD; i++) {
            expect_near(type, element_get(type, y, i),
                        combine(op, type, element_get(type, a, i), element_get(type, b, i)), 5e-7,
                        what, i);
        }
    } else {
        for (int64_t i = 0; i < d->shape[0] * d->shape[1] * d->shape[2]; i++) {
            const int64_t at[3] = {i / (d->shape[1] * d->shape[2]), i / d->shape[2] % d->shape[1],
                                   i % d->shape[2]};
            int64_t offset[3];
            for (int o = 0; o < 3; o++) {
                offset[o] = d->offset[o];
                for (int k = 0; k < 3; k++) offset[o] += at[k] * d->stride[o][k];
            }
            expect_near(type, element_get(type, y, (size_t)offset[2]),
                        combine(op, type, element_get(type, a, (size_t)offset[0]),
                                element_get(type, b, (size_t)offset[1])),
                        5e-7, what, (size_t)i);
        }
    }
    release_all();
}

Test(kernels, arithmetic_matches_a_double_reference_flat_strided_and_broadcast) {
    static const dhow_dims shapes[] = {
        {3,
         {3, 5, 37},
         {{185, 37, 1}, {0, 0, 1}, {185, 37, 1}},
         {0, 3, 1}}, /* a row for all rows */
        {3, {3, 5, 37}, {{185, 37, 1}, {5, 1, 0}, {185, 37, 1}}, {0, 0, 0}}, /* a column */
        {3, {3, 5, 37}, {{0, 0, 0}, {185, 37, 1}, {185, 37, 1}}, {7, 0, 0}}, /* a scalar */
        {3,
         {2, 4, 301},
         {{1204, 1, 4}, {1204, 301, 1}, {1204, 301, 1}},
         {0, 0, 0}},                                                        /* a transposed */
        {3, {2, 3, 5}, {{30, 10, 2}, {15, 5, 1}, {60, 20, 4}}, {1, 2, 3}},  /* gaps, in y too */
        {3, {1, 2, 301}, {{0, 301, 1}, {0, 0, 0}, {0, 301, 1}}, {0, 9, 0}}, /* a number for b, */
        {3, {1, 2, 301}, {{0, 1, 0}, {0, 301, 1}, {0, 301, 1}}, {0, 0, 0}}, /* one a row for a, */
        {3, {1, 2, 301}, {{0, 1, 0}, {0, 0, 0}, {0, 301, 1}}, {0, 2, 0}},   /* both, */
        {3, {1, 2, 301}, {{0, 0, 0}, {0, 602, 2}, {0, 602, 2}}, {5, 0, 0}}, /* with steps of 2 */
        {3, {1, 2, 301}, {{0, 602, 2}, {0, 0, 0}, {0, 301, 1}}, {0, 5, 0}},
    };
    for (int op = 0; op < 6; op++) {
        for (int type = 0; type < E_COUNT; type++) {
            for (int build = 0; build < build_count(); build++) {
                check_binary(op, (element)type, build, NULL);
                for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
                    check_binary(op, (element)type, build, &shapes[s]);
                }
            }
        }
    }
}

Test(kernels, maximum_and_minimum_keep_nan) {
    const float a[] = {NAN, 1, NAN, 2}, b[] = {1, NAN, NAN, 3};
    for (int op = 4; op < 6; op++) {
        for (int build = 0; build < build_count(); build++) {
            char name[32];
            float y[4];
            const void *pa = a, *pb = b;
            void *py = y;
            int64_t n = 4;
            void *argv[] = {&pa, &pb, &py, &n};
            (void)snprintf(name, sizeof name, "%s_f32", binary[op]);
            run_kernel(build_of(name, build), 1, argv);
            cr_assert(isnan(y[0]) && isnan(y[1]) && isnan(y[2]) && y[3] == (op == 4 ? 3 : 2), "%s",
                      name);
        }
    }
}

Test(kernels, integer_division_neither_traps_nor_invents) {
    const int32_t a[] = {7, INT32_MIN, INT32_MIN, -7}, b[] = {0, -1, 0, 2};
    for (int build = 0; build < build_count(); build++) {
        int32_t y[4];
        const void *pa = a, *pb = b;
        void *py = y;
        int64_t n = 4;
        void *argv[] = {&pa, &pb, &py, &n};
        run_kernel(build_of("div_i32", build), 1, argv);
        cr_assert(y[0] == 0 && y[1] == INT32_MIN && y[2] == 0 && y[3] == -3);
    }
}

/* ---- cast
 * --------------------------------------------------------------------------------------------------------
 */

static double converted(element to, double v) {
    static const double low[E_COUNT] = {0, 0, 0, 0, -128, 0, -2147483648.0, -9223372036854775808.0};
    static const double high[E_COUNT] = {0, 0, 0, 0, 127, 255, 2147483647.0, 9223372036854775808.0};
    if (to < E_FLOATS) return element_round(to, v);
    if (isnan(v)) return 0;
    v = trunc(v);
    return v < low[to] ? low[to] : v > high[to] ? high[to] : v;
}

Test(kernels, casts_round_truncate_and_saturate) {
    static const double edges[] = {
        0,     -0.0,     0.5,       -0.5,  1.5,          2.5,          -1.999,        127,
        128.5, -128,     -129,      255,   256,          -1,           65504,         65520,
        65536, 1e-7,     6e-8,      3e-8,  1e10,         -1e10,        1e20,          -1e20,
        NAN,   INFINITY, -INFINITY, 3.0e9, 2147483520.0, 1.0009765625, 1.00048828125, 1e-40};
    enum { EDGES = sizeof edges / sizeof edges[0] };
    for (int from = 0; from < E_COUNT; from++) {
        for (int to = 0; to < E_COUNT; to++) {
            for (int build = 0; build < build_count(); build++) {
                char name[64];
                (void)snprintf(name, sizeof name, "cast_%s_%s", element_names[from],
                               element_names[to]);
                const k_info *kernel = build_of(name, build);
                cr_assert(kernel != NULL, "no kernel %s", name);
                void *x = scratch(EDGES * 8), *y = scratch(EDGES * 8);
                for (size_t i = 0; i < EDGES; i++) {
                    element_set((element)from, x, i,
                                from < E_FLOATS ? edges[i] : (double)(i * 3 % 120));
                }
                int64_t n = EDGES;
                void *argv[] = {&x, &y, &n};
                run_kernel(kernel, 1, argv);
                for (size_t i = 0; i < EDGES; i++) {
                    const double v = element_get((element)from, x, i),
                                 want = converted((element)to, v);
                    const double got = element_get((element)to, y, i);
                    cr_assert(isnan(want) ? isnan(got) : got == want,
                              "%s %s: %.9g became %.9g, not %.9g", name, build_name(build), v, got,
                              want);
                }
                release_all();
            }
        }
    }
}

Test(kernels, casts_to_bool_are_zero_or_one) {
    for (int build = 0; build < build_count(); build++) {
        const float values[] = {0.0f, -0.0f, 1e-30f, -3.0f, NAN};
        uint8_t y[5];
        const void *x = values;
        void *out = y;
        int64_t n = 5;
        void *argv[] = {&x, &out, &n};
        run_kernel(build_of("cast_f32_bool", build), 1, argv);
        cr_assert(y[0] == 0 && y[1] == 0 && y[2] == 1 && y[3] == 1 && y[4] == 1);
    }
}

/* ---- layout
 * ------------------------------------------------------------------------------------------------------
 */

static const struct {
    const char *name;
    size_t bytes;
} widths[] = {{"u8", 1}, {"u16", 2}, {"u32", 4}, {"u64", 8}};

static void check_copy(const dhow_dims *d, int width, int build, int groups) {
    char name[32];
    const size_t bytes = widths[width].bytes, count = 1 << 16;
    (void)snprintf(name, sizeof name, "copy_dims_%s", widths[width].name);
    unsigned char *x = scratch_values(E_U8, count * bytes, 0, 255.9), *y = scratch(count * bytes);
    unsigned char *want = scratch(count * bytes);
    const void *px = x;
    void *py = y;
    union {
        const dhow_dims *from;
        void *to;
    } dims = {.from = d};
    void *argv[] = {&px, &py, dims.to};
    run_kernel(build_of(name, build), groups, argv);
    for (int64_t i = 0; i < d->shape[0] * d->shape[1] * d->shape[2]; i++) {
        const int64_t at[3] = {i / (d->shape[1] * d->shape[2]), i / d->shape[2] % d->shape[1],
                               i % d->shape[2]};
        int64_t from = d->offset[0], to = d->offset[1];
        for (int k = 0; k < 3; k++) {
            from += at[k] * d->stride[0][k];
            to += at[k] * d->stride[1][k];
        }
        memcpy(want + (size_t)to * bytes, x + (size_t)from * bytes, bytes);
    }
    cr_assert(memcmp(y, want, count * bytes) == 0, "%s %s with %d groups copied wrongly", name,
              build_name(build), groups);
    release_all();
}

Test(kernels, copies_follow_any_strides) {
    static const dhow_dims shapes[] = {
        {3, {2, 130, 70}, {{9100, 1, 130}, {9100, 70, 1}}, {0, 0}}, /* transposed, ragged */
        {3, {1, 128, 192}, {{0, 1, 128}, {0, 192, 1}}, {0, 0}},     /* transposed, whole squares */
        {3,
         {70, 3, 100},
         {{1, 7000, 70}, {300, 100, 1}},
         {5, 9}},                                              /* first dimension innermost in x */
        {3, {4, 5, 6}, {{240, 40, 2}, {30, 6, 1}}, {1, 0}},    /* gaps in x */
        {3, {4, 5, 6}, {{30, 6, 1}, {240, 40, 3}}, {0, 2}},    /* gaps in y */
        {3, {2, 3, 9}, {{-27, -9, -1}, {27, 9, 1}}, {53, 0}},  /* backwards */
        {3, {4, 5, 60}, {{0, 60, 1}, {300, 60, 1}}, {0, 0}},   /* repeated */
        {3, {6, 40, 90}, {{40, 1, 0}, {3600, 90, 1}}, {0, 0}}, /* rows of one element each */
        {3, {1100, 2, 28}, {{28, 0, 1}, {56, 28, 1}}, {0, 0}}, /* short rows, twice each */
        {3, {700, 2, 30}, {{60, 1, 2}, {60, 30, 1}}, {0, 0}},  /* many pairs of rows taken apart */
        {3,
         {3, 600, 5},
         {{3000, 1, 600}, {3000, 5, 1}},
         {0, 0}}, /* and few long ones put together */
        {3, {1, 1, 1}, {{0, 0, 0}, {0, 0, 0}}, {17, 3}},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        for (int width = 0; width < 4; width++) {
            for (int build = 0; build < build_count(); build++) {
                check_copy(&shapes[s], width, build, 1);
                check_copy(&shapes[s], width, build, 5);
            }
        }
    }
}

Test(kernels, large_transposed_copies_are_whole) {
    enum { SIDE = 1536 }; /* 9 MiB: beyond the size from which stores go past the cache */
    const dhow_dims d = {2, {SIDE, SIDE}, {{1, SIDE}, {SIDE, 1}}, {0, 0}};
    uint32_t *x = scratch(SIDE * SIDE * 4), *space = scratch(SIDE * SIDE * 4 + 64);
    uint32_t *y = (uint32_t *)(void *)(((uintptr_t)space + 63) & ~(uintptr_t)63);
    for (uint32_t i = 0; i < SIDE * SIDE; i++) x[i] = i;
    dhow_dims copy = d;
    void *argv[] = {&x, &y, &copy};
    for (int build = 0; build < build_count(); build++) {
        memset(y, 0, SIDE * SIDE * 4);
        run_kernel(build_of("copy_dims_u32", build), 3, argv);
        for (uint32_t i = 0; i < SIDE * SIDE; i++) {
            cr_assert(y[i] == i % SIDE * SIDE + i / SIDE, "%s: element %u", build_name(build), i);
        }
    }
}

Test(kernels, fills_touch_only_their_elements) {
    for (int width = 0; width < 4; width++) {
        for (int build = 0; build < build_count(); build++) {
            char name[32];
            (void)snprintf(name, sizeof name, "fill_dims_%s", widths[width].name);
            const size_t bytes = widths[width].bytes;
            const uint64_t pattern = UINT64_C(0x1122334455667788);
            uint64_t value = pattern;
            dhow_dims d = {2, {5, 7}, {{20, 2}}, {3}};
            unsigned char *y = scratch(200 * bytes), *want = scratch(200 * bytes);
            void *argv[] = {&y, &value, &d};
            run_kernel(build_of(name, build), 2, argv);
            for (size_t i = 0; i < 35; i++)
                memcpy(want + (3 + i / 7 * 20 + i % 7 * 2) * bytes, &pattern, bytes);
            cr_assert(memcmp(y, want, 200 * bytes) == 0, "%s %s", name, build_name(build));
            release_all();
        }
    }
}

Test(kernels, gathered_rows_outside_are_zero) {
    for (int width = 0; width < 4; width++) {
        for (int build = 0; build < build_count(); build++) {
            char name[32];
            (void)snprintf(name, sizeof name, "gather_rows_%s", widths[width].name);
            const size_t bytes = widths[width].bytes;
            const int64_t index_values[] = {2, 0, -1, 3, 2, INT64_MAX};
            unsigned char *x = scratch_values(E_U8, 33 * bytes, 1, 255), *y = scratch(66 * bytes);
            const unsigned char *zero = scratch(66 * bytes);
            const void *index = index_values;
            int64_t rows = 3, cols = 11, count = 6;
            memset(y, 0xff, 66 * bytes);
            void *argv[] = {&x, &index, &y, &rows, &cols, &count};
            run_kernel(build_of(name, build), 2, argv);
            for (size_t r = 0; r < 6; r++) {
                const int inside = index_values[r] >= 0 && index_values[r] < 3;
                const unsigned char *want =
                    inside ? x + (size_t)index_values[r] * 11 * bytes : zero;
                cr_assert(memcmp(y + r * 11 * bytes, want, 11 * bytes) == 0, "%s row %zu", name, r);
            }
            release_all();
        }
    }
}
