/* SPDX-License-Identifier: Apache-2.0
 *
 * One model, many threads: inference does not change a model, so any number of threads may run it.
 * Before, they shared one plan's memory and commands, and 1 to 124 of 1200 runs were wrong.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dhow/dhow.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())

enum { THREADS = 4, RUNS = 2500, IN = 12, OUT = 7, MAX_ROWS = 5 };

static dhow_context *g_context;
static dhow_device *g_device;
static dhow_model *g_model;
static float g_want[MAX_ROWS + 1][MAX_ROWS * OUT];
static _Atomic int g_wrong, g_failed;
static char g_story[400];

static void set_up(void) {
    const char *device = getenv("DHOW_TEST_DEVICE");
    (void)setenv("DHOW_PLUGIN_PATH", DHOW_TEST_PLUGIN_DIR ":" DHOW_TEST_SIM_DIR, 1);
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, device != NULL ? device : "cpu", &g_device));
}

static void tear_down(void) {
    dhow_model_release(g_model);
    dhow_context_release(g_context);
}

TestSuite(model_threads, .init = set_up, .fini = tear_down, .timeout = 300);

static void set_numbers(const char *name, int32_t rank, const int64_t *shape, float step) {
    dhow_device *cpu;
    dhow_tensor *t;
    int64_t count = rank == 2 ? shape[0] * shape[1] : shape[0];
    float *values = malloc((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++) values[i] = step * (float)(i % 13 - 6);
    OK(dhow_device_get(g_context, "cpu", &cpu));
    OK(dhow_tensor_from_data(cpu, DHOW_F32, rank, shape, values, &t));
    OK(dhow_model_set_parameter(g_model, name, t));
    dhow_tensor_release(t);
    free(values);
}

/* Several steps and buffers between input and output. */
static void build(void) {
    dhow_model_value x, h, y;
    OK(dhow_model_create(g_context, &g_model));
    OK(dhow_model_input(g_model, "x", DHOW_F32, DHOW_SHAPE(-1, IN), &x));
    OK(dhow_model_linear(g_model, "a", x, IN, 32, 1, &h));
    OK(dhow_model_tanh(g_model, h, &h));
    OK(dhow_model_softmax(g_model, h, 1, &y));
    OK(dhow_model_mul(g_model, h, y, &h));
    OK(dhow_model_linear(g_model, "b", h, 32, OUT, 1, &y));
    OK(dhow_model_output(g_model, "y", y));
    set_numbers("a.weight", 2, (const int64_t[]){32, IN}, 0.05f);
    set_numbers("a.bias", 1, (const int64_t[]){32}, 0.1f);
    set_numbers("b.weight", 2, (const int64_t[]){OUT, 32}, 0.07f);
    set_numbers("b.bias", 1, (const int64_t[]){OUT}, 0.3f);
    OK(dhow_model_to(g_model, g_device));
}

/* Rows of thread `which`; the numbers are the same whoever runs them. */
static dhow_status run_rows(dhow_stream *stream, int rows, float *out) {
    float in[MAX_ROWS * IN];
    const int64_t shape[] = {rows, IN};
    dhow_tensor *x = NULL, *y = NULL;
    for (int i = 0; i < rows * IN; i++) in[i] = 0.25f * (float)((i * 7 + rows) % 11 - 5);
    dhow_status status = dhow_tensor_from_data(g_device, DHOW_F32, 2, shape, in, &x);
    if (status == DHOW_OK) status = dhow_model_run(g_model, stream, &x, 1, &y, 1);
    if (status == DHOW_OK) status = dhow_tensor_read(y, out, (uint64_t)(rows * OUT) * sizeof *out);
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    return status;
}

typedef struct worker {
    int number, runs;
    bool own_stream;
} worker;

static void *work(void *data) {
    const worker *w = data;
    dhow_stream *stream = NULL;
    float got[MAX_ROWS * OUT];
    if (w->own_stream && dhow_stream_create(g_device, &stream) != DHOW_OK) g_failed++;
    for (int i = 0; i < w->runs; i++) {
        const int rows = 1 + (i + w->number) % MAX_ROWS;
        if (run_rows(stream, rows, got) != DHOW_OK) {
            if (g_failed++ == 0) (void)snprintf(g_story, sizeof g_story, "%s", dhow_last_error());
            continue;
        }
        for (int k = 0; k < rows * OUT; k++) {
            const float d = got[k] - g_want[rows][k];
            if (!(d < 1e-5f && d > -1e-5f)) {
                g_wrong++;
                break;
            }
        }
    }
    dhow_stream_release(stream);
    return NULL;
}

static int runs_of_each(void) {
    const char *text = getenv("DHOW_TEST_RUNS");
    return text != NULL ? atoi(text) : RUNS;
}

static void run_all(bool own_streams) {
    pthread_t threads[THREADS];
    worker workers[THREADS];
    build();
    for (int rows = 1; rows <= MAX_ROWS; rows++) OK(run_rows(NULL, rows, g_want[rows]));
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){i, runs_of_each(), own_streams};
        cr_assert_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) (void)pthread_join(threads[i], NULL);
    cr_assert_eq(g_failed, 0, "%d runs failed: %s", g_failed, g_story);
    cr_assert_eq(g_wrong, 0, "%d of %d runs gave wrong numbers", g_wrong, THREADS * runs_of_each());
}

Test(model_threads, one_model_runs_right_on_the_default_stream_of_many_threads) { run_all(false); }

Test(model_threads, one_model_runs_right_on_a_stream_of_each_thread) { run_all(true); }

/* ---- changes meanwhile ---- */

static _Atomic int g_go, g_refused;

static void *change(void *data) {
    (void)data;
    while (g_go != 0) {
        dhow_status status = dhow_model_to(g_model, g_device); /* where it is: nothing to do */
        if (status != DHOW_OK && strstr(dhow_last_error(), "another thread") == NULL) g_failed++;
        if (status != DHOW_OK) g_refused++;
    }
    return NULL;
}

Test(model_threads, a_change_beside_a_run_is_refused_and_harms_nothing) {
    pthread_t changer;
    float got[MAX_ROWS * OUT];
    int right = 0;
    build();
    OK(run_rows(NULL, 3, g_want[3]));
    g_go = 1;
    cr_assert_eq(pthread_create(&changer, NULL, change, NULL), 0);
    /* The other thread may lose its core in the middle of a change, and every run is refused then.
     */
    for (int i = 0; i < 10000000 && right < 500; i++) {
        if (run_rows(NULL, 3, got) != DHOW_OK) {
            (void)sched_yield();
            cr_assert_not_null(strstr(dhow_last_error(), "another thread"), "%s",
                               dhow_last_error());
            continue;
        }
        right += memcmp(got, g_want[3], 3 * OUT * sizeof *got) == 0;
    }
    g_go = 0;
    (void)pthread_join(changer, NULL);
    cr_assert_eq(g_failed, 0);
    cr_assert_eq(right, 500);
}

/* ---- stopping ---- */

static atomic_bool g_over;

static void *keep_cancelling(void *unused) {
    (void)unused;
    while (!atomic_load(&g_over)) {
        OK(dhow_model_cancel(g_model));
        (void)nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
    return NULL;
}

/* Products that no optimisation joins. */
static void build_chain(int length) {
    dhow_model_value x, w;
    OK(dhow_model_create(g_context, &g_model));
    OK(dhow_model_input(g_model, "x", DHOW_F32, DHOW_SHAPE(64, 64), &x));
    w = x;
    for (int i = 0; i < length; i++) OK(dhow_model_matmul(g_model, x, w, &x));
    OK(dhow_model_output(g_model, "y", x));
    OK(dhow_model_to(g_model, g_device));
}

/* There was no way to end a run from another thread. */
Test(model_threads, a_long_run_is_cancelled_by_another_thread_and_later_ones_are_not) {
    dhow_tensor *x, *y;
    pthread_t other;
    dhow_status status = DHOW_OK;
    build_chain(4000);
    OK(dhow_tensor_full(g_device, DHOW_F32, DHOW_SHAPE(64, 64), 1.0 / 64, &x));
    OK(dhow_tensor_zeros(g_device, DHOW_F32, DHOW_SHAPE(64, 64), &y));
    OK(dhow_model_cancel(g_model)); /* nothing runs */
    for (int planned = 0; planned < 2; planned++) {
        cr_assert_eq(pthread_create(&other, NULL, keep_cancelling, NULL), 0);
        for (int i = 0; i < 100 && status == DHOW_OK; i++)
            status = dhow_model_run_into(g_model, NULL, &x, 1, &y, 1);
        atomic_store(&g_over, true);
        cr_assert_eq(pthread_join(other, NULL), 0);
        cr_assert_eq(status, DHOW_CANCELLED, "%s", dhow_last_error());
        cr_assert_not_null(strstr(dhow_last_error(), "dhow_model_cancel()"), "%s",
                           dhow_last_error());
        if (planned)
            cr_assert_not_null(strstr(dhow_last_error(), "matmul"), "%s", dhow_last_error());
        status = dhow_model_run_into(g_model, NULL, &x, 1, &y, 1);
        cr_assert_eq(status, DHOW_OK, "%s", dhow_last_error());
        float got[64 * 64];
        OK(dhow_tensor_read(y, got, sizeof got));
        for (int i = 0; i < 64 * 64; i++) cr_assert_float_eq(got[i], 1.0 / 64, 1e-4);
        atomic_store(&g_over, false);
    }
    dhow_tensor_release(x);
    dhow_tensor_release(y);
}
