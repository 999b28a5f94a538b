/* SPDX-License-Identifier: Apache-2.0
 *
 * Models on CUDA: runs that come again with the same tensors become graphs, and compute the same.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dhow/dhow.h"
#include "fakecuda.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())

enum { BATCH = 3, IN = 8, HIDDEN = 16, OUT = 4 };

static dhow_context *g_context;
static dhow_model *g_model;
static dhow_device *g_device;

static void fill(float *values, size_t count, unsigned seed) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(int)(seed >> 16 & 255) / 128.0f - 1.0f;
    }
}

static void set(const char *name, int32_t rank, const int64_t *shape, size_t count) {
    float values[IN * HIDDEN];
    dhow_device *cpu;
    dhow_tensor *t;
    fill(values, count, (unsigned)count);
    OK(dhow_device_get(g_context, "cpu", &cpu));
    OK(dhow_tensor_from_data(cpu, DHOW_F32, rank, shape, values, &t));
    OK(dhow_model_set_parameter(g_model, name, t));
    dhow_tensor_release(t);
}

static void begin_on(const char *settings, const char *faults) {
    dhow_model_value v;
    cr_assert(fakecuda_reset(settings, faults, NULL, 0));
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_model_create(g_context, &g_model));
    OK(dhow_model_input(g_model, "x", DHOW_F32, DHOW_SHAPE(-1, IN), &v));
    OK(dhow_model_linear(g_model, "a", v, IN, HIDDEN, 1, &v));
    OK(dhow_model_gelu(g_model, v, &v));
    OK(dhow_model_linear(g_model, "b", v, HIDDEN, OUT, 0, &v));
    OK(dhow_model_softmax(g_model, v, 1, &v));
    OK(dhow_model_output(g_model, "y", v));
    set("a.weight", DHOW_SHAPE(HIDDEN, IN), HIDDEN * IN);
    set("a.bias", DHOW_SHAPE(HIDDEN), HIDDEN);
    set("b.weight", DHOW_SHAPE(OUT, HIDDEN), OUT * HIDDEN);
}

static void setup(void) { begin_on(NULL, NULL); }
static void setup_without_graphs(void) { begin_on(NULL, "cudaStreamBeginCapture@1+=801"); }

static void teardown(void) {
    dhow_model_release(g_model);
    dhow_context_release(g_context);
    cr_assert_eq(fakecuda_complaints(), 0, "%s", fakecuda_first_complaint());
    cr_assert_eq(fakecuda_live_objects(NULL), 0, "objects of CUDA are left");
}

static void run_on(const float *x, float *y, dhow_tensor *in, dhow_tensor *out) {
    OK(dhow_tensor_write(in, x, BATCH * IN * sizeof *x));
    OK(dhow_model_run_into(g_model, NULL, &in, 1, &out, 1));
    OK(dhow_tensor_read(out, y, BATCH * OUT * sizeof *y));
}

static void tensors(dhow_tensor **in, dhow_tensor **out) {
    OK(dhow_tensor_create(g_device, DHOW_F32, DHOW_SHAPE(BATCH, IN), in));
    OK(dhow_tensor_create(g_device, DHOW_F32, DHOW_SHAPE(BATCH, OUT), out));
}

/* What the CPU computes for this input. */
static void reference(const float *x, float *y) {
    dhow_tensor *in, *out;
    OK(dhow_device_get(g_context, "cpu", &g_device));
    OK(dhow_model_to(g_model, g_device));
    tensors(&in, &out);
    run_on(x, y, in, out);
    dhow_tensor_release(in);
    dhow_tensor_release(out);
}

static void expect_close(const float *got, const float *want, int run) {
    for (int i = 0; i < BATCH * OUT; i++)
        cr_assert(got[i] - want[i] < 1e-5f && want[i] - got[i] < 1e-5f, "run %d: %g, not %g", run,
                  (double)got[i], (double)want[i]);
}

Test(model, runs_with_the_same_tensors_become_a_graph, .init = setup, .fini = teardown) {
    enum { INPUTS = 5 };
    float x[INPUTS][BATCH * IN], want[INPUTS][BATCH * OUT], y[BATCH * OUT];
    for (int i = 0; i < INPUTS; i++) {
        fill(x[i], BATCH * IN, 77u + (unsigned)i);
        reference(x[i], want[i]);
    }
    dhow_tensor *in[2], *out[2];
    OK(dhow_device_get(g_context, "cuda:0", &g_device));
    OK(dhow_model_to(g_model, g_device));
    for (int i = 0; i < 2; i++) tensors(&in[i], &out[i]);
    /* Two sets of tensors in turns, as in double buffering. */
    for (int run = 0; run < 20; run++) {
        run_on(x[run % INPUTS], y, in[run % 2], out[run % 2]);
        expect_close(y, want[run % INPUTS], run);
    }
    cr_assert_eq(fakecuda_call_count("cudaGraphInstantiate"), 2);
    cr_assert_eq(fakecuda_call_count("cudaGraphLaunch"), 20 - 2 * 3);
    for (int i = 0; i < 2; i++) {
        dhow_tensor_release(in[i]);
        dhow_tensor_release(out[i]);
    }
}

/* A driver of CUDA 12.2 does not tell of the arguments of kernels; one of 12 starts no cuBLASLt
 * of 13. */
Test(model, runs_on_every_driver_and_gpu) {
    static const char *const drivers[] = {
        "driver=12020,runtime=12080", "driver=12040,runtime=12080", "driver=12080,runtime=12080",
        "driver=13000,runtime=12080", "driver=13000,runtime=13000"};
    static const int gpus[] = {75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121};
    for (size_t i = 0; i < sizeof drivers / sizeof drivers[0]; i++) {
        for (size_t k = 0; k < sizeof gpus / sizeof gpus[0]; k++) {
            float x[BATCH * IN], want[BATCH * OUT], y[BATCH * OUT];
            dhow_device_info info = DHOW_INIT(dhow_device_info);
            dhow_tensor *in, *out;
            char settings[96], wanted[64];
            (void)snprintf(settings, sizeof settings, "devices=1,code=90,%s,cc=%d", drivers[i],
                           gpus[k]);
            (void)setenv("FAKECUDA", settings, 1); /* devices are described by dhow-probe */
            begin_on(settings, NULL);
            fill(x, BATCH * IN, 7);
            reference(x, want);
            OK(dhow_device_get(g_context, "cuda:0", &g_device));
            OK(dhow_device_get_info(g_device, &info));
            (void)snprintf(wanted, sizeof wanted, "compute %d.%d", gpus[k] / 10, gpus[k] % 10);
            cr_assert_not_null(strstr(info.driver, wanted), "%s: %s", settings, info.driver);
            OK(dhow_model_to(g_model, g_device));
            tensors(&in, &out);
            run_on(x, y, in, out);
            expect_close(y, want, gpus[k]);
            dhow_tensor_release(in);
            dhow_tensor_release(out);
            teardown();
        }
    }
}

/* Four sets of tensors that came once each had taken all room for graphs, for ever. */
Test(model, tensors_that_come_again_become_a_graph_after_others_that_did_not, .init = setup,
     .fini = teardown) {
    enum { STRANGERS = 9, RUNS = 12 };
    float x[BATCH * IN], want[BATCH * OUT], y[BATCH * OUT];
    fill(x, BATCH * IN, 5);
    reference(x, want);
    dhow_tensor *in[STRANGERS + 1], *out[STRANGERS + 1];
    OK(dhow_device_get(g_context, "cuda:0", &g_device));
    OK(dhow_model_to(g_model, g_device));
    for (int i = 0; i <= STRANGERS; i++) tensors(&in[i], &out[i]);
    for (int i = 0; i < STRANGERS; i++) run_on(x, y, in[i], out[i]);
    for (int run = 0; run < RUNS; run++) {
        run_on(x, y, in[STRANGERS], out[STRANGERS]);
        expect_close(y, want, run);
    }
    cr_assert_eq(fakecuda_call_count("cudaGraphLaunch"), RUNS - 3);
    /* And others take the place of those that stay away. */
    for (int i = 0; i < STRANGERS; i++) {
        for (int run = 0; run < RUNS; run++) run_on(x, y, in[i], out[i]);
        expect_close(y, want, i);
    }
    cr_assert_gt(fakecuda_call_count("cudaGraphInstantiate"), 4);
    for (int i = 0; i <= STRANGERS; i++) {
        dhow_tensor_release(in[i]);
        dhow_tensor_release(out[i]);
    }
}

/* Behind a buffer of an odd size, larger than itself, lay the workspace of the next product, which
 * cuBLAS wants at 256 bytes: CUBLAS_STATUS_INVALID_VALUE. */
Test(model, workspaces_lie_where_cublas_wants_them, .fini = teardown) {
    dhow_model_value v;
    dhow_tensor *in, *out = NULL;
    cr_assert(fakecuda_reset("noheuristic=1", NULL, NULL, 0));
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, "cuda:0", &g_device));
    OK(dhow_model_create(g_context, &g_model));
    OK(dhow_model_input(g_model, "x", DHOW_F32, DHOW_SHAPE(-1, 1100), &v));
    OK(dhow_model_linear(g_model, "a", v, 1100, 1027, 1, &v));
    OK(dhow_model_linear(g_model, "b", v, 1027, 5, 1, &v));
    OK(dhow_model_output(g_model, "y", v));
    OK(dhow_model_to(g_model, g_device));
    for (int64_t rows = 1030; rows < 1034; rows++) {
        OK(dhow_tensor_create(g_device, DHOW_F32, DHOW_SHAPE(rows, 1100), &in));
        OK(dhow_model_run(g_model, NULL, &in, 1, &out, 1));
        OK(dhow_device_sync(g_device));
        dhow_tensor_release(in);
        dhow_tensor_release(out);
    }
}

/* The stream waited for a word that the copy's thread was to write; freeing memory waited for the
 * stream, with the driver locked; and the copy needs the driver. It hung. */
Test(copies, of_pageable_memory_end_while_memory_is_freed, .timeout = 60) {
    enum { COUNT = 12 << 20 };
    dhow_context *context;
    dhow_device *device, *cpu;
    dhow_tensor *from, *x, *cached, *last;
    double got = -1;
    cr_assert(fakecuda_reset("devices=1,memory=256M,delay_us=5000,quiesce=1", NULL, NULL, 0));
    OK(dhow_context_create(NULL, &context));
    OK(dhow_device_get(context, "cpu", &cpu));
    OK(dhow_device_get(context, "cuda:0", &device));
    OK(dhow_tensor_create(cpu, DHOW_F32, DHOW_SHAPE(COUNT), &from));
    OK(dhow_tensor_create(device, DHOW_F32, DHOW_SHAPE(COUNT), &x));
    OK(dhow_tensor_create(device, DHOW_F32, DHOW_SHAPE(COUNT / 2), &cached));
    OK(dhow_fill(NULL, from, -1));
    OK(dhow_copy_async(NULL, from, x, 0));
    OK(dhow_relu(NULL, x, x));
    dhow_tensor_release(cached);
    OK(dhow_memory_trim(device));
    OK(dhow_tensor_slice(x, 0, COUNT - 1, COUNT, 1, &last));
    OK(dhow_tensor_item(last, &got));
    cr_assert_eq(got, 0);
    dhow_tensor_release(last);
    dhow_tensor_release(from);
    dhow_tensor_release(x);
    dhow_context_release(context);
    cr_assert_eq(fakecuda_live_objects(NULL), 0, "objects of CUDA are left");
}

/* The first refusal was taken for good, and silently: the portable kernel served this shape for as
 * long as the process lived. */
Test(model, cublaslt_is_asked_again_after_a_failure_of_its_own) {
    dhow_context *context;
    dhow_device *device;
    dhow_tensor *x, *y;
    cr_assert(fakecuda_reset("devices=1", "cublasLtMatmulAlgoGetHeuristic@1=14", NULL, 0));
    OK(dhow_context_create(NULL, &context));
    OK(dhow_device_get(context, "cuda:0", &device));
    OK(dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(8, 8), 1, &x));
    OK(dhow_tensor_create(device, DHOW_F32, DHOW_SHAPE(8, 8), &y));
    for (int i = 0; i < 3; i++) OK(dhow_matmul(NULL, x, x, y));
    OK(dhow_device_sync(device));
    cr_assert_eq(fakecuda_call_count("cublasLtMatmulAlgoGetHeuristic"), 2);
    cr_assert_eq(fakecuda_call_count("cublasLtMatmul"), 2);
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    dhow_context_release(context);
    cr_assert_eq(fakecuda_live_objects(NULL), 0, "objects of CUDA are left");
}

/* A wait that the driver refuses is no end of the work: whoever came next took what was not there.
 */
Test(copies, that_nobody_could_wait_for_are_waited_for_again) {
    enum { COUNT = 1 << 16 };
    dhow_context *context;
    dhow_device *device;
    dhow_tensor *x, *pinned;
    void *memory = NULL;
    cr_assert(fakecuda_reset("devices=1,delay_us=100000", "cudaStreamSynchronize@1=900", NULL, 0));
    OK(dhow_context_create(NULL, &context));
    OK(dhow_device_get(context, "cuda:0", &device));
    OK(dhow_tensor_create(device, DHOW_F32, DHOW_SHAPE(COUNT), &x));
    OK(dhow_tensor_create_pinned(device, DHOW_F32, DHOW_SHAPE(COUNT), &pinned));
    OK(dhow_fill(NULL, x, 3));
    OK(dhow_copy_async(NULL, x, pinned, 0));
    cr_assert_eq(dhow_tensor_host_ptr(pinned, &memory), DHOW_UNSUPPORTED, "%s", dhow_last_error());
    OK(dhow_tensor_host_ptr(pinned, &memory));
    cr_assert_eq(((float *)memory)[COUNT - 1], 3, "the copy has not ended");
    dhow_tensor_release(x);
    dhow_tensor_release(pinned);
    dhow_context_release(context);
    cr_assert_eq(fakecuda_live_objects(NULL), 0, "objects of CUDA are left");
}

/* CUDA tells times between two events as floats: after ten minutes in steps of 62 us. */
Test(traces, measure_microseconds_after_hours_too) {
    enum { RUNS = 40 };
    static char text[1 << 20];
    char path[] = "/tmp/fakecuda-trace-XXXXXX";
    int coarse = 0, fine = 0;
    dhow_context *context;
    dhow_device *device;
    dhow_tensor *x;
    cr_assert(fakecuda_reset("devices=1,launch_us=30,clock_s=600", NULL, NULL, 0));
    cr_assert_eq(close(mkstemp(path)), 0);
    OK(dhow_context_create(NULL, &context));
    OK(dhow_device_get(context, "cuda:0", &device));
    OK(dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(64), 1, &x));
    OK(dhow_trace_start(context, 0));
    for (int i = 0; i < RUNS; i++) OK(dhow_relu(NULL, x, x));
    OK(dhow_device_sync(device));
    OK(dhow_trace_stop(context));
    OK(dhow_trace_save(context, path));
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file);
    cr_assert_gt(fread(text, 1, sizeof text - 1, file), 0);
    (void)fclose(file);
    for (const char *at = text; (at = strstr(at, "\"relu_f32\"")) != NULL; at++) {
        const char *end = strchr(at, '}'), *duration = strstr(at, "\"dur\":");
        if (duration == NULL || duration > end) continue;
        const double steps = strtod(duration + 6, NULL) / 62.5;
        const int whole = (int)(steps + 0.5);
        *(steps - whole < 1e-3 && whole - steps < 1e-3 ? &coarse : &fine) += 1;
    }
    cr_assert_geq(coarse + fine, 2 * RUNS, "the host's and the device's");
    cr_assert_lt(coarse, RUNS / 4, "%d durations are in steps of 62.5 us", coarse);
    (void)unlink(path);
    dhow_tensor_release(x);
    dhow_context_release(context);
}

/* No operation worked there. */
Test(model, a_gpu_that_the_plugin_has_no_code_for_computes) {
    const float values[4] = {-1, 2, -3, 4};
    float got[4] = {0};
    dhow_context *context;
    dhow_device *device;
    dhow_tensor *x, *y;
    cr_assert(fakecuda_reset("cc=87,code=80,strict=1", NULL, NULL, 0));
    OK(dhow_context_create(NULL, &context));
    OK(dhow_device_get(context, "cuda:0", &device));
    OK(dhow_tensor_from_data(device, DHOW_F32, DHOW_SHAPE(4), values, &x));
    OK(dhow_tensor_create(device, DHOW_F32, DHOW_SHAPE(4), &y));
    OK(dhow_relu(NULL, x, y));
    OK(dhow_tensor_read(y, got, sizeof got));
    cr_assert(got[0] == 0 && got[1] == 2 && got[2] == 0 && got[3] == 4);
    cr_assert_gt(fakecuda_call_count("nvrtcVersion"), 0);
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    dhow_context_release(context);
    cr_assert_eq(fakecuda_live_objects(NULL), 0, "objects of CUDA are left");
}

Test(model, what_cannot_be_recorded_is_submitted_one_by_one, .init = setup_without_graphs,
     .fini = teardown) {
    float x[BATCH * IN], want[BATCH * OUT], y[BATCH * OUT];
    fill(x, BATCH * IN, 5);
    reference(x, want);
    dhow_tensor *in, *out;
    OK(dhow_device_get(g_context, "cuda:0", &g_device));
    OK(dhow_model_to(g_model, g_device));
    tensors(&in, &out);
    for (int run = 0; run < 8; run++) {
        run_on(x, y, in, out);
        expect_close(y, want, run);
    }
    cr_assert_eq(fakecuda_call_count("cudaStreamBeginCapture"), 1);
    cr_assert_eq(fakecuda_call_count("cudaGraphLaunch"), 0);
    dhow_tensor_release(in);
    dhow_tensor_release(out);
}
