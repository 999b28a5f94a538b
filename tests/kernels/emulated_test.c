/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA form of kernels whose text differs from the one that runs everywhere else - whole packs
 * at a time, rows in registers - computes what the CPU form does, on every path: aligned and not,
 * with tails, for rows that fit and rows that do not.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate_launch.h"
#include "kernels/cpu_table.h"

enum { GROUPS = 3, SPACE = 70000 };

/* ---- unary and binary ---- */

#define UNARY_MAP(X) \
    X(relu) X(gelu) X(gelu_tanh) X(silu) X(sigmoid) X(tanh) X(exp) X(log) X(sqrt) X(neg) X(abs)
#define BINARY_MAP(X) X(add) X(sub) X(mul) X(div) X(max) X(min)

typedef struct flat {
    const float *a, *b;
    float *y;
    long long n;
} flat;

#define UNARY_(name)                                        \
    void name##_f32(const float *x, float *y, long long n); \
    static void run_##name(void *user) {                    \
        const flat *f = user;                               \
        name##_f32(f->a, f->y, f->n);                       \
    }
UNARY_MAP(UNARY_)
#define BINARY_(name)                                                       \
    void name##_f32(const float *a, const float *b, float *y, long long n); \
    static void run_##name(void *user) {                                    \
        const flat *f = user;                                               \
        name##_f32(f->a, f->b, f->y, f->n);                                 \
    }
BINARY_MAP(BINARY_)

static const struct {
    const char *name;
    void (*run)(void *user);
    int operands;
} k_flat[] = {
#define UNARY_ROW_(name) {#name "_f32", run_##name, 1},
#define BINARY_ROW_(name) {#name "_f32", run_##name, 2},
    UNARY_MAP(UNARY_ROW_) BINARY_MAP(BINARY_ROW_)};

static float *values(size_t count) {
    float *v = malloc(count * sizeof *v);
    cr_assert_not_null(v);
    uint32_t state = 12345;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        v[i] =
            0.01f + (float)(state >> 8) / 4194304.0f; /* 0.01 to 4.01: every function has a value */
    }
    return v;
}

static void expect_close(const float *got, const float *want, long long count, const char *what) {
    for (long long i = 0; i < count; i++) {
        const float far = fabsf(got[i] - want[i]);
        cr_assert(far <= 1e-5f + 4e-6f * fabsf(want[i]), "%s: element %lld is %g, not %g", what, i,
                  (double)got[i], (double)want[i]);
    }
}

static void run_on_cpu(const char *name, void *const *arguments) {
    const k_info *kernel = dhow_cpu_kernel(name, CPU_ISA_V2);
    cr_assert_not_null(kernel, "%s", name);
    kernel->run(0, 1, arguments);
}

static void check_flat(size_t k, long long n, size_t shift, const float *a, const float *b) {
    float *got = malloc(SPACE * sizeof *got), *want = malloc(SPACE * sizeof *want);
    char what[96];
    flat f = {a + shift, b, got, n};
    const void *x = f.a, *y = want, *other = b;
    (void)snprintf(what, sizeof what, "%s of %lld, shift %zu", k_flat[k].name, n, shift);
    memset(got, 0xff, SPACE * sizeof *got);
    cr_assert(emulate_launch(GROUPS, k_flat[k].run, &f));
    void *unary[] = {(void *)&x, (void *)&y, &n};
    void *binary[] = {(void *)&x, (void *)&other, (void *)&y, &n};
    run_on_cpu(k_flat[k].name, k_flat[k].operands == 1 ? unary : binary);
    expect_close(got, want, n, what);
    cr_assert(isnan(got[n]), "%s writes behind its end", what);
    free(got);
    free(want);
}

Test(emulated, packs_and_tails_compute_what_single_elements_do) {
    static const long long counts[] = {0, 1, 3, 4, 5, 1023, 1024, 3073, 12345};
    float *a = values(SPACE), *b = values(SPACE);
    for (size_t k = 0; k < sizeof k_flat / sizeof k_flat[0]; k++)
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
            for (size_t shift = 0; shift < 2; shift++) check_flat(k, counts[i], shift, a, b);
    free(a);
    free(b);
}

/* ---- rows ---- */

typedef struct rows {
    const float *x, *gamma, *beta;
    float *y;
    long long rows, cols;
    int lanes;
} rows;

void softmax_f32(const float *x, float *y, long long count, long long cols, int lanes);
void log_softmax_f32(const float *x, float *y, long long count, long long cols, int lanes);
void layernorm_f32(const float *x, const float *gamma, const float *beta, float *y, long long count,
                   long long cols, float eps, int lanes);

static void run_softmax(void *user) {
    const rows *r = user;
    softmax_f32(r->x, r->y, r->rows, r->cols, r->lanes);
}
static void run_log_softmax(void *user) {
    const rows *r = user;
    log_softmax_f32(r->x, r->y, r->rows, r->cols, r->lanes);
}
static void run_layernorm(void *user) {
    const rows *r = user;
    layernorm_f32(r->x, r->gamma, r->beta, r->y, r->rows, r->cols, 1e-5f, r->lanes);
}

static void check_rows(const char *name, void (*run)(void *user), const rows *shape) {
    rows r = *shape;
    const long long count = r.rows * r.cols;
    float *got = malloc(SPACE * sizeof *got), *want = malloc(SPACE * sizeof *want), eps = 1e-5f;
    char what[96];
    (void)snprintf(what, sizeof what, "%s of %lld x %lld, %d lanes", name, r.rows, r.cols, r.lanes);
    memset(got, 0xff, SPACE * sizeof *got);
    r.y = got;
    cr_assert(emulate_launch(2, run, &r));
    void *softmax[] = {(void *)&r.x, (void *)&want, &r.rows, &r.cols, &r.lanes};
    void *layernorm[] = {(void *)&r.x,  (void *)&r.gamma, (void *)&r.beta,
                         (void *)&want, &r.rows,          &r.cols,
                         &eps,          &r.lanes};
    run_on_cpu(name, run == run_layernorm ? layernorm : softmax);
    expect_close(got, want, count, what);
    cr_assert(isnan(got[count]), "%s writes behind its end", what);
    free(got);
    free(want);
}

/* Lanes that a row needs, more, and too few for it. */
Test(emulated, rows_in_registers_compute_what_rows_in_memory_do) {
    static const long long cols[] = {1, 4, 10, 64, 100, 1000, 1023, 1024, 4096, 8191, 8192, 8196};
    static const int lanes[] = {0, 1, 4, 32, 64, 256};
    float *x = values(SPACE), *gamma = values(SPACE), *beta = values(SPACE);
    for (size_t i = 0; i < 12 * 6; i++) {
        for (size_t shift = 0; shift < 3; shift++) {
            const long long n = cols[i % 12];
            const rows r = {x + shift,        gamma, beta + shift / 2, NULL,
                            n > 1000 ? 3 : 9, n,     lanes[i / 12]};
            check_rows("softmax_f32", run_softmax, &r);
            check_rows("log_softmax_f32", run_log_softmax, &r);
            check_rows("layernorm_f32", run_layernorm, &r);
        }
    }
    free(x);
    free(gamma);
    free(beta);
}
