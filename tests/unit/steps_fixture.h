/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays of doubles beside tensors and values of models: what steps_test.c and network_test.c
 * compute the plain way and compare with. On the device that DHOW_DEVICE names.
 */
#ifndef DHOW_TEST_STEPS_FIXTURE_H_
#define DHOW_TEST_STEPS_FIXTURE_H_

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())
#define FAILS(status, text, call)                                                                \
    do {                                                                                         \
        cr_assert_eq((call), status, "%s: %s", #call, dhow_last_error());                        \
        cr_assert(strstr(dhow_last_error(), text) != NULL, "'%s' lacks '%s'", dhow_last_error(), \
                  text);                                                                         \
    } while (0)

enum { MOST = 8192, FEW = 5 };

/* They live until the test ends. */
typedef struct array {
    struct array *next;
    dhow_dtype dtype;
    int32_t rank;
    int64_t shape[DHOW_MAX_RANK], count;
    double v[MOST];
} array;

static dhow_context *g_context;
static dhow_device *g_cpu, *g_device;

static inline void set_up(void) {
    const char *device = getenv("DHOW_DEVICE");
    const int sim = device != NULL && strcmp(device, "sim") == 0;
    (void)setenv("DHOW_PLUGIN_PATH", sim ? DHOW_TEST_SIM_DIR : DHOW_TEST_PLUGIN_DIR, 1);
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, "cpu", &g_cpu));
    OK(dhow_device_get(g_context, device, &g_device));
}
static array *g_arrays;
static inline void tear_down(void) {
    dhow_context_release(g_context);
    while (g_arrays != NULL) {
        array *next = g_arrays->next;
        free(g_arrays);
        g_arrays = next;
    }
}

/* ---- arrays ---- */

static inline array *array_new(dhow_dtype dtype, int32_t rank, const int64_t *shape) {
    array *a = calloc(1, sizeof *a);
    cr_assert(a != NULL);
    a->next = g_arrays;
    g_arrays = a;
    a->dtype = dtype;
    a->rank = rank;
    a->count = 1;
    for (int32_t i = 0; i < rank; i++) a->count *= a->shape[i] = shape[i];
    cr_assert(a->count <= MOST);
    return a;
}
#define NEW(dtype, ...) array_new(dtype, DHOW_SHAPE(__VA_ARGS__))

/* Every dtype has these: eighths from -4 to 4, of integers whole numbers. */
static inline array *array_filled(unsigned seed, array *a) {
    for (int64_t i = 0; i < a->count; i++) {
        const unsigned x = (seed * 7919u + (unsigned)i) * 2654435761u;
        const int n = (int)((x >> 8) % 65) - 32;
        a->v[i] = a->dtype == DHOW_BOOL                          ? n > 0
                  : a->dtype == DHOW_I64 || a->dtype == DHOW_I32 ? n
                                                                 : n / 8.0;
    }
    return a;
}
#define FILLED(seed, dtype, ...) array_filled(seed, NEW(dtype, __VA_ARGS__))

/* The place of `at` in an array, and the places of a number i. */
static inline int64_t place(const array *a, const int64_t *at) {
    int64_t i = 0;
    for (int32_t k = 0; k < a->rank; k++) i = i * a->shape[k] + at[k];
    return i;
}
static inline void places(const array *a, int64_t i, int64_t *at) {
    for (int32_t k = a->rank; k-- > 0; i /= a->shape[k]) at[k] = i % a->shape[k];
}

/* ---- tensors ---- */

/* On the device. `strided`: a view of every second element of rows that are twice as long. */
static inline dhow_tensor *tensor_of(const array *a, int strided) {
    dhow_tensor *wide, *t, *made;
    int64_t shape[DHOW_MAX_RANK] = {0};
    static double values[2 * MOST];
    const int apart = strided && a->rank > 0;
    for (int32_t i = 0; i < a->rank; i++) shape[i] = a->shape[i];
    if (apart) shape[a->rank - 1] *= 2;
    for (int64_t i = 0; i < a->count; i++) values[apart ? 2 * i : i] = a->v[i];
    OK(dhow_tensor_from_data(g_cpu, DHOW_F64, a->rank, shape, values, &wide));
    OK(dhow_tensor_to_dtype(NULL, wide, a->dtype, &made));
    dhow_tensor_release(wide);
    OK(dhow_tensor_to(made, g_device, &wide));
    dhow_tensor_release(made);
    if (!apart) return wide;
    OK(dhow_tensor_slice(wide, a->rank - 1, 0, shape[a->rank - 1], 2, &t));
    dhow_tensor_release(wide);
    return t;
}

static inline double tolerance(dhow_dtype dtype) {
    return dtype == DHOW_F64    ? 1e-12
           : dtype == DHOW_F16  ? 4e-3
           : dtype == DHOW_BF16 ? 3e-2
           : dtype == DHOW_F32  ? 2e-5
                                : 0;
}

static inline void expect(dhow_tensor *y, const array *want, const char *what) {
    dhow_tensor *home, *wide;
    static double is[MOST];
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    OK(dhow_tensor_get_info(y, &info));
    cr_assert_eq(info.dtype, want->dtype, "%s: dtype %s", what, dhow_dtype_name(info.dtype));
    cr_assert_eq(info.rank, want->rank, "%s: rank %d, not %d", what, info.rank, want->rank);
    for (int32_t i = 0; i < want->rank; i++)
        cr_assert_eq(info.shape[i], want->shape[i], "%s: extent %d is %d, not %d", what, i,
                     (int)info.shape[i], (int)want->shape[i]);
    OK(dhow_tensor_to(y, g_cpu, &home));
    OK(dhow_tensor_to_dtype(NULL, home, DHOW_F64, &wide));
    OK(dhow_tensor_read(wide, is, (uint64_t)want->count * sizeof *is));
    for (int64_t i = 0; i < want->count; i++) {
        const double w = want->v[i];
        const int same = isnan(w) ? isnan(is[i]) : is[i] == w;
        cr_assert(same || fabs(is[i] - w) <= tolerance(want->dtype) * fmax(1, fabs(w)),
                  "%s: element %d is %.9g, not %.9g", what, (int)i, is[i], w);
    }
    dhow_tensor_release(home);
    dhow_tensor_release(wide);
}

/* An eager call on t[0], ... with the result `into`, with plain and strided tensors; `call` is
 * repeated, so that the second one finds what the first one kept. */
#define EAGER(in_, count_, want_, ...)                                          \
    for (int pass_ = 0; pass_ < 5; pass_++) {                                   \
        dhow_tensor *t[FEW] = {NULL}, *into = tensor_of(want_, pass_ & 2);      \
        for (uint32_t i_ = 0; i_ < (count_); i_++)                              \
            t[i_] = (in_)[i_] != NULL ? tensor_of((in_)[i_], pass_ & 1) : NULL; \
        OK(dhow_fill(NULL, into, 77));                                          \
        OK(__VA_ARGS__);                                                        \
        expect(into, want_, #__VA_ARGS__);                                      \
        for (uint32_t i_ = 0; i_ < (count_); i_++) dhow_tensor_release(t[i_]);  \
        dhow_tensor_release(into);                                              \
    }

/* ---- models ---- */

/* A model with an input for each array; with `open` their first extent is. */
typedef struct built {
    dhow_model *m;
    dhow_model_value in[FEW], out[2];
    uint32_t count;
} built;

static inline built begin_model(array *const *in, uint32_t count, int open) {
    built b = {.count = count};
    OK(dhow_model_create(g_context, &b.m));
    for (uint32_t i = 0; i < count; i++) {
        char name[16];
        int64_t shape[DHOW_MAX_RANK];
        (void)snprintf(name, sizeof name, "x%u", i);
        memcpy(shape, in[i]->shape, sizeof shape);
        if (open && in[i]->rank > 0) shape[0] = -1;
        OK(dhow_model_input(b.m, name, in[i]->dtype, in[i]->rank, shape, &b.in[i]));
    }
    return b;
}

/* Runs it with plain and with strided inputs; the last run replays. */
static inline void check_model(built *b, array *const *in, array *const *want, uint32_t results,
                               const char *what) {
    for (uint32_t i = 0; i < results; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "y%u", i);
        OK(dhow_model_output(b->m, name, b->out[i]));
        dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
        OK(dhow_model_output_at(b->m, i, &info));
        cr_assert_eq(info.dtype, want[i]->dtype, "%s: declared %s", what,
                     dhow_dtype_name(info.dtype));
        cr_assert_eq(info.rank, want[i]->rank, "%s: declared rank %d", what, info.rank);
        for (int32_t k = 0; k < info.rank; k++)
            cr_assert(info.shape[k] == want[i]->shape[k] || info.shape[k] == -1,
                      "%s: declared extent %d is %d", what, k, (int)info.shape[k]);
    }
    OK(dhow_model_to(b->m, g_device));
    for (int run = 0; run < 3; run++) {
        dhow_tensor *x[FEW], *y[2];
        for (uint32_t i = 0; i < b->count; i++) x[i] = tensor_of(in[i], run == 1);
        OK(dhow_model_run(b->m, NULL, x, b->count, y, results));
        for (uint32_t i = 0; i < results; i++) expect(y[i], want[i], what);
        for (uint32_t i = 0; i < results; i++) dhow_tensor_release(y[i]);
        for (uint32_t i = 0; i < b->count; i++) dhow_tensor_release(x[i]);
    }
}

/* The same, and ends it. */
static inline void end_model(built *b, array *const *in, array *const *want, uint32_t results,
                             const char *what) {
    check_model(b, in, want, results, what);
    dhow_model_release(b->m);
}

#endif /* DHOW_TEST_STEPS_FIXTURE_H_ */
