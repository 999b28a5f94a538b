/* SPDX-License-Identifier: Apache-2.0
 *
 * Long rows of few results, which are cut into parts, give what they give in one piece, which
 * DHOW_SPLITS=0 asks for. On the device that DHOW_DEVICE names.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())

enum { WHOLE, IN_PARTS, WAYS, MOST = 40000 };
static dhow_context *g_context[WAYS];
static dhow_device *g_device[WAYS];

static void set_up(void) {
    for (int way = 0; way < WAYS; way++) {
        OK(way == WHOLE ? (setenv("DHOW_SPLITS", "0", 1), DHOW_OK)
                        : (unsetenv("DHOW_SPLITS"), DHOW_OK));
        OK(dhow_context_create(NULL, &g_context[way]));
        OK(dhow_device_get(g_context[way], NULL, &g_device[way]));
    }
}
static void tear_down(void) {
    for (int way = 0; way < WAYS; way++) dhow_context_release(g_context[way]);
}
TestSuite(splits, .init = set_up, .fini = tear_down, .timeout = 280);

static double g_x[MOST], g_y[WAYS][4096];

static dhow_tensor *upload(int way, dhow_dtype dtype, int32_t rank, const int64_t *shape,
                           const double *numbers) {
    dhow_tensor *wide, *host, *x;
    dhow_device *cpu;
    OK(dhow_device_get(g_context[way], "cpu", &cpu));
    OK(dhow_tensor_from_data(cpu, DHOW_F64, rank, shape, numbers, &wide));
    OK(dhow_tensor_to_dtype(NULL, wide, dtype, &host));
    OK(dhow_tensor_to(host, g_device[way], &x));
    dhow_tensor_release(wide);
    dhow_tensor_release(host);
    return x;
}

static void download(int way, dhow_tensor *x, double *numbers) {
    dhow_tensor *host, *wide;
    dhow_device *cpu;
    OK(dhow_device_get(g_context[way], "cpu", &cpu));
    OK(dhow_tensor_to(x, cpu, &host));
    OK(dhow_tensor_to_dtype(NULL, host, DHOW_F64, &wide));
    OK(dhow_tensor_read(wide, numbers, (uint64_t)dhow_tensor_count(wide) * sizeof *numbers));
    dhow_tensor_release(host);
    dhow_tensor_release(wide);
}

/* ---- reductions ---- */

typedef enum reduction { SUM, MEAN, LARGEST, LEAST, PLACE, REDUCTIONS } reduction;
typedef struct extents {
    int64_t outer, n, inner;
} extents;

static dhow_status reduce(reduction r, dhow_tensor *x, dhow_tensor *y) {
    switch (r) {
        case SUM:
            return dhow_reduce_sum(NULL, x, 1, y);
        case MEAN:
            return dhow_reduce_mean(NULL, x, 1, y);
        case LARGEST:
            return dhow_reduce_max(NULL, x, 1, y);
        case LEAST:
            return dhow_reduce_min(NULL, x, 1, y);
        default:
            return dhow_argmax(NULL, x, 1, y);
    }
}

static double expected(reduction r, const extents *e, int64_t i) {
    const double *from = g_x + i / e->inner * e->n * e->inner + i % e->inner;
    double sum = 0, top = from[0], low = from[0];
    int64_t place = 0;
    for (int64_t k = 0; k < e->n; k++) {
        const double v = from[k * e->inner];
        sum += v;
        low = v < low || isnan(v) ? v : low;
        if (v > top || (isnan(v) && !isnan(top))) top = v, place = k;
    }
    return r == SUM       ? sum
           : r == MEAN    ? sum / (double)e->n
           : r == LARGEST ? top
           : r == LEAST   ? low
                          : (double)place;
}

static void run_reduction(int way, reduction r, dhow_dtype dtype, const extents *e) {
    const int64_t shape[] = {e->outer, e->n, e->inner}, result[] = {e->outer, e->inner};
    dhow_tensor *x = upload(way, dtype, 3, shape, g_x), *y;
    OK(dhow_tensor_create(g_device[way], r == PLACE ? DHOW_I64 : dtype, 2, result, &y));
    OK(reduce(r, x, y));
    download(way, y, g_y[way]);
    dhow_tensor_release(x);
    dhow_tensor_release(y);
}

/* Rows, a few columns, many of them. */
static const extents k_extents[] = {
    {1, 9000, 1}, {2, 8193, 1}, {1, 1100, 8}, {2, 200, 40}, {1, 40, 300}};
enum { EXTENTS = sizeof k_extents / sizeof *k_extents };

static const dhow_dtype k_types[] = {DHOW_F32, DHOW_F64, DHOW_F16, DHOW_BF16, DHOW_I32, DHOW_I64};

/* Sums of these are exact in f32, so that the order of terms does not matter. */
static void draw(bool whole, int64_t count) {
    uint32_t state = 1;
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        g_x[i] = whole ? (double)(state >> 25) - 50 : (double)(state >> 26) / 64;
    }
}

Test(splits, reductions_in_parts_are_those_of_whole_rows) {
    for (size_t t = 0; t < sizeof k_types / sizeof *k_types; t++) {
        const bool whole = k_types[t] == DHOW_I32 || k_types[t] == DHOW_I64;
        for (int k = 0; k < EXTENTS; k++) {
            const extents *e = &k_extents[k];
            draw(whole, e->outer * e->n * e->inner);
            for (reduction r = SUM; r < REDUCTIONS; r++) {
                if (whole && r == MEAN) continue;
                for (int way = 0; way < WAYS; way++) run_reduction(way, r, k_types[t], e);
                for (int64_t i = 0; i < e->outer * e->inner; i++) {
                    const double whole_y = g_y[WHOLE][i], want = expected(r, e, i);
                    const double part = k_types[t] == DHOW_F16    ? 1e-3
                                        : k_types[t] == DHOW_BF16 ? 8e-3
                                                                  : 1e-6;
                    cr_assert_eq(g_y[IN_PARTS][i], whole_y,
                                 "reduction %d of %s [%d, %d, %d] at %d is %.17g, whole %.17g", r,
                                 dhow_dtype_name(k_types[t]), (int)e->outer, (int)e->n,
                                 (int)e->inner, (int)i, g_y[IN_PARTS][i], whole_y);
                    const bool too_large = k_types[t] == DHOW_F16 && want > 65504;
                    cr_assert(
                        too_large ? isinf(whole_y) : fabs(whole_y - want) <= part * fabs(want),
                        "reduction %d of %s: %.17g, not %.17g", r, dhow_dtype_name(k_types[t]),
                        whole_y, want);
                }
            }
        }
    }
}

Test(splits, sums_of_many_equal_terms_keep_their_digits) {
    for (int k = 0; k < EXTENTS; k++) {
        const extents *e = &k_extents[k];
        for (int64_t i = 0; i < e->outer * e->n * e->inner; i++) g_x[i] = (double)0.1f;
        run_reduction(IN_PARTS, SUM, DHOW_F32, e);
        for (int64_t i = 0; i < e->outer * e->inner; i++)
            cr_assert_float_eq(g_y[IN_PARTS][i] / ((double)0.1f * (double)e->n), 1, 3e-6,
                               "[%d, %d, %d]: %.9g", (int)e->outer, (int)e->n, (int)e->inner,
                               g_y[IN_PARTS][i]);
    }
}

Test(splits, nan_wins_and_the_first_of_equals_is_found) {
    for (int k = 0; k < EXTENTS; k++) {
        const extents *e = &k_extents[k];
        const int64_t count = e->outer * e->n * e->inner, last = (e->n - 1) * e->inner;
        for (int nan = 0; nan < 2; nan++) {
            for (int64_t i = 0; i < count; i++) g_x[i] = (double)(i % 5) - 7; /* ties all over */
            for (int64_t i = 0; i < e->inner && nan; i += 2)
                g_x[last + i] = g_x[last / 2 / e->inner * e->inner + i] = (double)NAN;
            for (reduction r = LARGEST; r < REDUCTIONS; r++) {
                run_reduction(IN_PARTS, r, DHOW_F32, e);
                for (int64_t i = 0; i < e->outer * e->inner; i++) {
                    const double want = expected(r, e, i), got = g_y[IN_PARTS][i];
                    cr_assert(got == want || (isnan(got) && isnan(want)),
                              "reduction %d of [%d, %d, %d] at %d: %g, not %g", r, (int)e->outer,
                              (int)e->n, (int)e->inner, (int)i, got, want);
                }
            }
        }
    }
}

/* ---- running sums, the first of rows ---- */

typedef enum along { RUNNING, FIRST, LAST } along;

static void run_along(int way, along a, dhow_dtype dtype, const extents *e, int64_t k,
                      dhow_tensor *y[2]) {
    const int64_t shape[] = {e->outer, e->n, e->inner}, few[] = {e->outer, k, e->inner};
    dhow_tensor *x = upload(way, dtype, 3, shape, g_x);
    for (int i = 0; i < 2; i++)
        OK(dhow_tensor_create(g_device[way], i == 0 ? dtype : DHOW_I64, 3, few, &y[i]));
    if (a == RUNNING)
        OK(dhow_cumsum(NULL, x, 1, y[0]));
    else
        OK(dhow_topk(NULL, x, k, 1, a == FIRST, y[0], y[1]));
    dhow_tensor_release(x);
}

static void expect_same_along(along a, dhow_dtype dtype, const extents *e, int64_t k) {
    static double held[WAYS][MOST];
    dhow_tensor *y[WAYS][2];
    for (int way = 0; way < WAYS; way++) run_along(way, a, dtype, e, k, y[way]);
    for (int i = 0; i < (a == RUNNING ? 1 : 2); i++) {
        for (int way = 0; way < WAYS; way++) download(way, y[way][i], held[way]);
        for (int64_t j = 0; j < e->outer * k * e->inner; j++)
            cr_assert(held[WHOLE][j] == held[IN_PARTS][j] ||
                          (isnan(held[WHOLE][j]) && isnan(held[IN_PARTS][j])),
                      "%d of %s [%d, %d, %d], %d of it, result %d at %d: %.17g, whole %.17g", a,
                      dhow_dtype_name(dtype), (int)e->outer, (int)e->n, (int)e->inner, (int)k, i,
                      (int)j, held[IN_PARTS][j], held[WHOLE][j]);
    }
    for (int way = 0; way < WAYS; way++)
        for (int i = 0; i < 2; i++) dhow_tensor_release(y[way][i]);
}

static const extents k_lines[] = {
    {2, 64, 3}, {1, 4097, 1}, {3, 2049, 1}, {1, 300, 40}, {1, 70, 300}};
enum { LINES = sizeof k_lines / sizeof *k_lines };

Test(splits, running_sums_in_parts_are_those_of_whole_rows) {
    static const dhow_dtype types[] = {DHOW_F32, DHOW_F64, DHOW_I32, DHOW_I64};
    for (int t = 0; t < 4; t++) {
        for (int k = 0; k < LINES; k++) {
            draw(t > 1, k_lines[k].outer * k_lines[k].n * k_lines[k].inner);
            expect_same_along(RUNNING, types[t], &k_lines[k], k_lines[k].n);
        }
    }
}

/* Of few values, and of many that are NaN. */
Test(splits, the_first_of_tiles_are_those_of_sorted_rows) {
    static const dhow_dtype types[] = {DHOW_F32, DHOW_I64, DHOW_BF16};
    for (int t = 0; t < 3; t++) {
        for (int k = 0; k < LINES; k++) {
            const extents *e = &k_lines[k];
            const int64_t count = e->outer * e->n * e->inner;
            draw(types[t] == DHOW_I64, count);
            for (int64_t i = 0; i < count && t == 0; i += 3) g_x[i] = (double)NAN;
            for (int64_t few = 1; few <= 50; few += 49) {
                expect_same_along(FIRST, types[t], e, few);
                expect_same_along(LAST, types[t], e, few);
            }
        }
    }
}

/* ---- softmax and norms ---- */

typedef enum rows_of { SOFTMAX, LOG_SOFTMAX, LAYERNORM, RMSNORM, ROWS_OF } rows_of;

static void run_rows(int way, rows_of f, dhow_dtype dtype, const int64_t shape[2], double *result) {
    dhow_tensor *x = upload(way, dtype, 2, shape, g_x), *y;
    dhow_tensor *gamma = upload(way, dtype, 1, shape + 1, g_x + 1),
                *beta = upload(way, dtype, 1, shape + 1, g_x + 5);
    OK(dhow_tensor_create(g_device[way], dtype, 2, shape, &y));
    if (f == SOFTMAX)
        OK(dhow_softmax(NULL, x, 1, y));
    else if (f == LOG_SOFTMAX)
        OK(dhow_log_softmax(NULL, x, -1, y));
    else if (f == LAYERNORM)
        OK(dhow_layernorm(NULL, x, gamma, beta, 1e-5f, y));
    else
        OK(dhow_rmsnorm(NULL, x, gamma, 1e-5f, y));
    download(way, y, result);
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    dhow_tensor_release(gamma);
    dhow_tensor_release(beta);
}

static void expect_same_rows(rows_of f, dhow_dtype dtype, const int64_t shape[2], bool finite) {
    static double held[WAYS][MOST];
    const double few = dtype == DHOW_F16 ? 2e-3 : dtype == DHOW_BF16 ? 1.6e-2 : 1e-5;
    for (int way = 0; way < WAYS; way++) run_rows(way, f, dtype, shape, held[way]);
    for (int64_t i = 0; i < shape[0] * shape[1]; i++) {
        const double part = held[IN_PARTS][i], whole = held[WHOLE][i];
        cr_assert(part == whole || fabs(part - whole) <= few * (fabs(whole) + 1) ||
                      (isnan(part) && isnan(whole)),
                  "%d of %s [%d, %d] at %d: %.9g, whole %.9g", f, dhow_dtype_name(dtype),
                  (int)shape[0], (int)shape[1], (int)i, part, whole);
        cr_assert(!finite || isfinite(part));
    }
}

static const int64_t k_rows[][2] = {{1, 10000}, {3, 8200}, {2, 9001}, {4, 8193}};

Test(splits, softmax_and_norms_in_parts_are_those_of_whole_rows) {
    static const dhow_dtype types[] = {DHOW_F32, DHOW_F16, DHOW_BF16, DHOW_F64};
    for (int t = 0; t < 4; t++) {
        for (int k = 0; k < 4; k++) {
            draw(false, MOST);
            for (rows_of f = SOFTMAX; f < ROWS_OF; f++)
                expect_same_rows(f, types[t], k_rows[k], true);
        }
    }
}

/* A part, and then a whole row, of nothing but one of them. */
Test(splits, rows_with_infinities_and_nan_are_those_of_whole_rows) {
    static const double odd[] = {-(double)INFINITY, (double)INFINITY, (double)NAN};
    for (int k = 0; k < 3; k++) {
        for (int64_t count = 1; count <= 10000; count = count * 50 + 50) {
            draw(false, MOST);
            for (int64_t i = 0; i < count && i < 8200; i++) g_x[8200 + i] = odd[k];
            for (rows_of f = SOFTMAX; f < ROWS_OF; f++)
                expect_same_rows(f, DHOW_F32, k_rows[1], false);
        }
    }
}

/* ---- attention to a cache ---- */

enum { SHARED = 2, SHARING = 3, ROOM = 300, DEPTH = 20, FEATURES = 12 };

static void attend(int way, dhow_dtype dtype, int64_t steps, int64_t length) {
    const int64_t q[] = {1, SHARED * SHARING, steps, DEPTH}, k[] = {1, SHARED, ROOM, DEPTH},
                  v[] = {1, SHARED, ROOM, FEATURES}, one = 1;
    dhow_model_value in[4], y;
    dhow_tensor *given[4], *out;
    dhow_model *m;
    OK(dhow_model_create(g_context[way], &m));
    OK(dhow_model_input(m, "q", dtype, 4, q, &in[0]));
    OK(dhow_model_input(m, "k", dtype, 4, k, &in[1]));
    OK(dhow_model_input(m, "v", dtype, 4, v, &in[2]));
    OK(dhow_model_input(m, "lengths", DHOW_I64, 1, &one, &in[3]));
    OK(dhow_model_cached_attention(m, in[0], in[1], in[2], in[3], 1, 0.5, 0, &y));
    OK(dhow_model_output(m, "y", y));
    OK(dhow_model_to(m, g_device[way]));
    given[0] = upload(way, dtype, 4, q, g_x);
    given[1] = upload(way, dtype, 4, k, g_x + 100);
    given[2] = upload(way, dtype, 4, v, g_x + 200);
    given[3] = upload(way, DHOW_I64, 1, &one, (const double[]){(double)length});
    OK(dhow_model_run(m, NULL, given, 4, &out, 1));
    download(way, out, g_y[way]);
    for (int i = 0; i < 4; i++) dhow_tensor_release(given[i]);
    dhow_tensor_release(out);
    dhow_model_release(m);
}

Test(splits, attention_split_over_keys_is_that_of_all_keys) {
    static const int64_t lengths[] = {2, 63, 64, 65, 129, 299, 300};
    static const dhow_dtype types[] = {DHOW_F32, DHOW_F16, DHOW_BF16};
    draw(false, SHARED * ROOM * DEPTH + 200);
    for (int t = 0; t < 3; t++) {
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
            const int64_t steps = 1 + (int64_t)k % 2;
            for (int way = 0; way < WAYS; way++) attend(way, types[t], steps, lengths[k]);
            for (int i = 0; i < SHARED * SHARING * steps * FEATURES; i++)
                cr_assert_float_eq(g_y[IN_PARTS][i], g_y[WHOLE][i],
                                   types[t] == DHOW_F32   ? 2e-6
                                   : types[t] == DHOW_F16 ? 1e-3
                                                          : 8e-3,
                                   "%s, %d keys: at %d %g, not %g", dhow_dtype_name(types[t]),
                                   (int)lengths[k], i, g_y[IN_PARTS][i], g_y[WHOLE][i]);
        }
    }
}
