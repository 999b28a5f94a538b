/* SPDX-License-Identifier: Apache-2.0
 *
 * A model over more rows than a GPU is given at once: from pageable memory, through the loader.
 */
#include <stdio.h>
#include <unistd.h>

#include "bench.h"
#include "raw_cuda.h"

void bench_feed(bench *b);

enum { HIDDEN = 1024, OUTPUTS = 10 };

typedef struct feed {
    dhow_context *context;
    dhow_model *model;
    dhow_loader *loader;
    dhow_tensor *batch, *result;
    dhow_device *device;
    raw_cuda raw;
    int batches;
} feed;

static void predict(void *data) {
    feed *f = data;
    dhow_sink *sink;
    BENCH_OK(dhow_sink_to_tensors(f->context, &sink));
    BENCH_OK(dhow_predict(f->model, f->loader, sink));
    dhow_sink_release(sink);
}
static void only_send(void *data) {
    feed *f = data;
    for (int i = 0; i < f->batches; i++) raw_cuda_upload(&f->raw);
}
static void only_compute(void *data) {
    feed *f = data;
    for (int i = 0; i < f->batches; i++)
        BENCH_OK(dhow_model_run_into(f->model, NULL, &f->batch, 1, &f->result, 1));
    BENCH_OK(dhow_device_sync(f->device));
}

static dhow_model *make_model(dhow_context *context, dhow_device *device, int64_t columns) {
    dhow_model *m;
    dhow_model_value v;
    BENCH_OK(dhow_model_create(context, &m));
    BENCH_OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(-1, columns), &v));
    BENCH_OK(dhow_model_linear(m, "fc1", v, columns, HIDDEN, 1, &v));
    BENCH_OK(dhow_model_relu(m, v, &v));
    BENCH_OK(dhow_model_linear(m, "fc2", v, HIDDEN, OUTPUTS, 1, &v));
    BENCH_OK(dhow_model_output(m, "y", v));
    BENCH_OK(dhow_model_to(m, device));
    return m;
}

/* One core copies slower into pinned memory than the link takes it away. */
static uint32_t workers_of(void) {
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores > 16 ? 8 : cores > 2 ? (uint32_t)cores / 2 : 1;
}

void bench_feed(bench *b) {
    const int small = bench_is_small(b);
    const int64_t columns = small ? 16 : 4096, batch = small ? 16 : 4096, batches = small ? 4 : 128;
    const uint32_t workers = workers_of();
    dhow_device *device = bench_main_device(b), *cpu = bench_device(b, "cpu");
    dhow_tensor *rows;
    dhow_dataset *dataset;
    feed f = {.context = bench_context(b), .device = device, .batches = (int)batches};
    f.model = make_model(f.context, device, columns);
    BENCH_OK(dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(batch * batches, columns), 1, &rows));
    BENCH_OK(dhow_dataset_from_tensors(&rows, 1, &dataset));
    BENCH_OK(
        dhow_loader_create(dataset,
                           &DHOW_INIT(dhow_loader_options, .batch_size = batch, .device = device,
                                      .workers = workers, .prefetch = workers + 2),
                           &f.loader));
    BENCH_OK(dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(batch, columns), 1, &f.batch));
    BENCH_OK(dhow_model_run(f.model, NULL, &f.batch, 1, &f.result, 1));
    raw_cuda_open((size_t)(batch * columns) * 4, 1, 1, &f.raw);
    const double send = bench_seconds(1, only_send, &f);
    const double compute = bench_seconds(1, only_compute, &f);
    const double ours = bench_seconds(1, predict, &f);
    bench_report(b, "predict over 8 GiB of pageable rows",
                 send > compute ? "pinned cudaMemcpyAsync of them" : "the model on resident rows",
                 0.90, ours, send > compute ? send : compute);
    raw_cuda_close(&f.raw);
    dhow_tensor_release(f.batch);
    dhow_tensor_release(f.result);
    dhow_loader_release(f.loader);
    dhow_dataset_release(dataset);
    dhow_tensor_release(rows);
    dhow_model_release(f.model);
}
