/* SPDX-License-Identifier: Apache-2.0
 *
 * Data on its way: batches that arrive while others are computed, small copies, one batch on
 * several devices, loaders beside PyTorch's. Simulated devices take as long as they are told, so
 * that what can be reached is known.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "process.h"
#include "raw_opencl.h"

void bench_moving(bench *b);
void bench_trace(bench *b);

enum { ROUNDS = 7 };

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double time_of(bench_fn fn, void *data) {
    double start = now();
    fn(data);
    return now() - start;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *times) {
    qsort(times, ROUNDS, sizeof *times, ascending);
    return times[ROUNDS / 2];
}

/* A context of its own, on a machine of these settings. */
static dhow_context *simulate(const char *settings) {
    dhow_context *context;
    const dhow_context_options options =
        DHOW_INIT(dhow_context_options, .plugin_path = BENCH_SIM, .backends = "cpu,sim");
    (void)setenv("DHOW_SIM", settings, 1);
    BENCH_OK(dhow_context_create(&options, &context));
    return context;
}

static dhow_device *device_of(dhow_context *context, const char *spec) {
    dhow_device *device;
    BENCH_OK(dhow_device_get(context, spec, &device));
    return device;
}

/* ---- arriving and computing at the same time ---- */

enum { BATCH_ROWS = 1024, COLUMNS = 256 };

typedef struct overlap {
    dhow_device *device;
    dhow_loader *loader;
    dhow_tensor *x, *y;
    int batches;
} overlap;

static void take_batches(const overlap *o, int computing) {
    dhow_batch batch = DHOW_INIT(dhow_batch);
    for (;;) {
        BENCH_OK(dhow_loader_next(o->loader, &batch));
        if (batch.sample_count == 0) break;
        if (computing) BENCH_OK(dhow_relu(NULL, batch.tensors[0], o->y));
    }
    BENCH_OK(dhow_device_sync(o->device));
}
static void only_arrive(void *data) { take_batches(data, 0); }
static void arrive_and_compute(void *data) { take_batches(data, 1); }
static void only_compute(void *data) {
    overlap *o = data;
    for (int i = 0; i < o->batches; i++) BENCH_OK(dhow_relu(NULL, o->x, o->y));
    BENCH_OK(dhow_device_sync(o->device));
}

/* A batch is 1 MiB: 8 ms on the link, and 8 ms of work. */
static void bench_overlap(bench *b) {
    dhow_context *context = simulate("devices=1,bandwidth=128M,work_rate=32M");
    dhow_dataset *samples;
    dhow_tensor *rows;
    overlap o = {.device = device_of(context, "sim:0"), .batches = bench_is_small(b) ? 4 : 64};
    double both[ROUNDS], arrive[ROUNDS], compute[ROUNDS];
    BENCH_OK(dhow_tensor_uniform(device_of(context, "cpu"), DHOW_F32,
                                 DHOW_SHAPE(o.batches * BATCH_ROWS, COLUMNS), -1, 1, 1, &rows));
    BENCH_OK(dhow_dataset_from_tensors(&rows, 1, &samples));
    BENCH_OK(dhow_loader_create(
        samples,
        &DHOW_INIT(dhow_loader_options, .batch_size = BATCH_ROWS, .workers = 1, .device = o.device),
        &o.loader));
    BENCH_OK(dhow_tensor_full(o.device, DHOW_F32, DHOW_SHAPE(BATCH_ROWS, COLUMNS), 1, &o.x));
    BENCH_OK(dhow_tensor_full(o.device, DHOW_F32, DHOW_SHAPE(BATCH_ROWS, COLUMNS), 1, &o.y));
    for (int i = 0; i < ROUNDS; i++) {
        arrive[i] = time_of(only_arrive, &o);
        compute[i] = time_of(only_compute, &o);
        both[i] = time_of(arrive_and_compute, &o);
    }
    const double first = median(arrive), second = median(compute);
    bench_report(b, "loader to a device, transfer as long as work", "the longer of both alone", 0.9,
                 median(both), first > second ? first : second);
    dhow_tensor_release(o.x);
    dhow_tensor_release(o.y);
    dhow_tensor_release(rows);
    dhow_loader_release(o.loader);
    dhow_dataset_release(samples);
    dhow_context_release(context);
}

/* ---- one batch on two devices ---- */

typedef struct division {
    dhow_parallel *parallel;
    dhow_tensor *x, *y;
} division;

static void run_division(void *data) {
    division *d = data;
    BENCH_OK(dhow_parallel_run_into(d->parallel, &d->x, 1, &d->y, 1));
}

static dhow_model *make_relu(dhow_context *context) {
    dhow_model *m;
    dhow_model_value v;
    BENCH_OK(dhow_model_create(context, &m));
    BENCH_OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(-1, COLUMNS), &v));
    BENCH_OK(dhow_model_relu(m, v, &v));
    BENCH_OK(dhow_model_output(m, "y", v));
    return m;
}

/* A quarter of the work is 32 ms of the first device, three quarters are of the second. */
static void bench_parallel(bench *b) {
    dhow_context *context = simulate("devices=2,work_rate=8M,speeds=1:3");
    dhow_device *devices[] = {device_of(context, "sim:0"), device_of(context, "sim:1")};
    dhow_model *model = make_relu(context);
    const int64_t shape[] = {4 * BATCH_ROWS, COLUMNS};
    division all[3] = {{0}};
    double times[3][ROUNDS];
    for (int i = 0; i < 3; i++) {
        all[i].x = bench_tensor(device_of(context, "cpu"), 2, shape);
        BENCH_OK(dhow_parallel_create(model, i < 2 ? &devices[i] : devices, i < 2 ? 1 : 2, NULL,
                                      &all[i].parallel));
        BENCH_OK(dhow_parallel_run(all[i].parallel, &all[i].x, 1, &all[i].y, 1));
        for (int k = 0; k < 5; k++) run_division(&all[i]); /* shares settle */
    }
    for (int i = 0; i < ROUNDS; i++)
        for (int k = 0; k < 3; k++) times[k][i] = time_of(run_division, &all[k]);
    const double together = 1 / (1 / median(times[0]) + 1 / median(times[1]));
    bench_report(b, "a batch on two devices, speeds 1:3", "the sum of both rates", 0.9,
                 median(times[2]), together);
    for (int i = 0; i < 3; i++) {
        dhow_parallel_release(all[i].parallel);
        dhow_tensor_release(all[i].x);
        dhow_tensor_release(all[i].y);
    }
    dhow_model_release(model);
    dhow_context_release(context);
}

/* ---- small copies ---- */

enum { COPIES = 1000, COPY_BYTES = 4096 };

typedef struct copies {
    dhow_device *device;
    dhow_tensor *here, *there;
    raw_buffer raw;
    char data[COPY_BYTES];
} copies;

static void send_each(void *data) {
    copies *c = data;
    for (int i = 0; i < COPIES; i++) BENCH_OK(dhow_copy(c->here, c->there));
}
static void fetch_each(void *data) {
    copies *c = data;
    for (int i = 0; i < COPIES; i++) BENCH_OK(dhow_copy(c->there, c->here));
}
static void send_all(void *data) {
    copies *c = data;
    for (int i = 0; i < COPIES; i++) BENCH_OK(dhow_copy_async(NULL, c->here, c->there, 0));
    BENCH_OK(dhow_device_sync(c->device));
}
static void raw_send_each(void *data) {
    copies *c = data;
    raw_opencl_writes(&c->raw, c->data, COPY_BYTES, COPIES, true);
}
static void raw_fetch_each(void *data) {
    copies *c = data;
    raw_opencl_reads(&c->raw, c->data, COPY_BYTES, COPIES, true);
}
static void raw_send_all(void *data) {
    copies *c = data;
    raw_opencl_writes(&c->raw, c->data, COPY_BYTES, COPIES, false);
}

static void bench_small_copies(bench *b) {
    copies c = {.device = bench_device(b, "opencl:0")};
    if (c.device == NULL || !raw_opencl_open(0, COPY_BYTES, &c.raw)) return;
    BENCH_OK(dhow_tensor_full(bench_device(b, "cpu"), DHOW_U8, DHOW_SHAPE(COPY_BYTES), 1, &c.here));
    BENCH_OK(dhow_tensor_full(c.device, DHOW_U8, DHOW_SHAPE(COPY_BYTES), 1, &c.there));
    bench_compare_pairs(b, "1000 writes of 4 KiB, each awaited, opencl", "clEnqueueWriteBuffer",
                        0.8, 1, send_each, raw_send_each, &c);
    bench_compare_pairs(b, "1000 reads of 4 KiB, each awaited, opencl", "clEnqueueReadBuffer", 0.8,
                        1, fetch_each, raw_fetch_each, &c);
    bench_compare_pairs(b, "1000 writes of 4 KiB and a wait, opencl",
                        "clEnqueueWriteBuffer, clFinish", 0.8, 3, send_all, raw_send_all, &c);
    dhow_tensor_release(c.here);
    dhow_tensor_release(c.there);
    raw_opencl_close(&c.raw);
}

/* ---- beside PyTorch's DataLoader ---- */

static void run_epoch(void *loader) {
    dhow_batch batch = DHOW_INIT(dhow_batch);
    do {
        BENCH_OK(dhow_loader_next(loader, &batch));
    } while (batch.sample_count > 0);
}

static void bench_feeding(bench *b) {
    const int64_t samples = bench_is_small(b) ? 320 : 10000;
    const char *python = getenv("BENCH_TORCH_PYTHON");
    char count[24];
    dhow_device *cpu = bench_device(b, "cpu");
    dhow_tensor *columns[2];
    dhow_dataset *dataset;
    (void)snprintf(count, sizeof count, "%lld", (long long)samples);
    BENCH_OK(dhow_tensor_uniform(cpu, DHOW_F32, DHOW_SHAPE(samples, 100), 0, 1, 1, &columns[0]));
    BENCH_OK(dhow_tensor_uniform(cpu, DHOW_I64, DHOW_SHAPE(samples), 0, 10, 2, &columns[1]));
    BENCH_OK(dhow_dataset_from_tensors(columns, 2, &dataset));
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        char name[96];
        dhow_loader *loader;
        double ours[ROUNDS], theirs[ROUNDS];
        process torch = {.name = "PyTorch",
                         .args = {python != NULL ? python : "/usr/bin/python3",
                                  BENCH_SOURCE "/feed_torch.py", count, shuffle ? "1" : "0"}};
        (void)snprintf(name, sizeof name, "an epoch of 10000x100 in batches of 32%s",
                       shuffle ? ", shuffled" : "");
        BENCH_OK(dhow_loader_create(
            dataset, &DHOW_INIT(dhow_loader_options, .batch_size = 32, .shuffle = shuffle),
            &loader));
        if (!process_start(&torch)) {
            printf("%-44s no PyTorch\n", name);
        } else {
            for (int i = 0; i < ROUNDS; i++) {
                run_epoch(loader);
                ours[i] = time_of(run_epoch, loader);
                theirs[i] = process_run(&torch, 3);
            }
            bench_report(b, name, "PyTorch DataLoader(TensorDataset)", 20, median(ours),
                         median(theirs));
            process_end(&torch);
        }
        dhow_loader_release(loader);
    }
    dhow_dataset_release(dataset);
    dhow_tensor_release(columns[0]);
    dhow_tensor_release(columns[1]);
}

void bench_moving(bench *b) {
    bench_overlap(b);
    bench_parallel(b);
    bench_small_copies(b);
    bench_feeding(b);
    bench_trace(b);
}
