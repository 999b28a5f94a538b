/* SPDX-License-Identifier: Apache-2.0
 *
 * Models, with graphs and without: a small one in three batches, and those of the field that
 * docs/cuda.md calculates, with random weights. PyTorch's side is measured by peer_torch_cuda.py,
 * which reads these rows.
 */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "tests/fakecuda/launch_models.h"

void bench_mlp(bench *b);
void bench_models(bench *b);

enum { MOST = 8 };

typedef struct network {
    dhow_model *model;
    dhow_tensor *x[MOST], *y[MOST];
    uint32_t inputs, outputs;
    dhow_stream *stream;
    dhow_graph *graph;
    int runs;
} network;

static dhow_status run_once(void *data, dhow_stream *stream) {
    network *n = data;
    return dhow_model_run_into(n->model, stream, n->x, n->inputs, n->y, n->outputs);
}
static void run_eager(void *data) {
    network *n = data;
    for (int i = 0; i < n->runs; i++) BENCH_OK(run_once(n, n->stream));
    BENCH_OK(dhow_stream_sync(n->stream));
}
static void run_graph(void *data) {
    network *n = data;
    for (int i = 0; i < n->runs; i++) BENCH_OK(dhow_graph_replay(n->graph, n->stream));
    BENCH_OK(dhow_stream_sync(n->stream));
}

/* Records the graph, and reports both. */
static void measure(bench *b, const char *name, network *n) {
    BENCH_OK(dhow_graph_record(n->stream, run_once, n, &n->graph));
    if (dhow_graph_reason(n->graph)[0] != '\0')
        printf("no graph: %s\n", dhow_graph_reason(n->graph));
    const double eager = bench_seconds(1, run_eager, n) / n->runs;
    bench_report(b, name, "the same without a graph", 0, bench_seconds(1, run_graph, n) / n->runs,
                 eager);
    dhow_graph_release(n->graph);
}

static dhow_model *make_mlp(dhow_context *context, dhow_device *device) {
    static const int64_t sizes[] = {784, 512, 256, 10};
    static const char *const names[] = {"fc1", "fc2", "fc3"};
    dhow_model *m;
    dhow_model_value v;
    BENCH_OK(dhow_model_create(context, &m));
    BENCH_OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(-1, 784), &v));
    for (int i = 0; i < 3; i++) {
        BENCH_OK(dhow_model_linear(m, names[i], v, sizes[i], sizes[i + 1], 1, &v));
        if (i < 2) BENCH_OK(dhow_model_relu(m, v, &v));
    }
    BENCH_OK(dhow_model_output(m, "y", v));
    BENCH_OK(dhow_model_to(m, device));
    return m;
}

void bench_mlp(bench *b) {
    const int64_t batches[] = {1, bench_is_small(b) ? 2 : 32, bench_is_small(b) ? 3 : 1024};
    dhow_device *device = bench_main_device(b);
    network n = {.model = make_mlp(bench_context(b), device),
                 .inputs = 1,
                 .outputs = 1,
                 .runs = bench_is_small(b) ? 2 : 100};
    BENCH_OK(dhow_stream_create(device, &n.stream));
    for (int i = 0; i < 3; i++) {
        char name[64];
        const int64_t shape[] = {batches[i], 784};
        (void)snprintf(name, sizeof name, "MLP batch %lld, graph", (long long)batches[i]);
        n.x[0] = bench_tensor(device, 2, shape);
        BENCH_OK(dhow_tensor_create(device, DHOW_F32, DHOW_SHAPE(batches[i], 10), &n.y[0]));
        measure(b, name, &n);
        dhow_tensor_release(n.x[0]);
        dhow_tensor_release(n.y[0]);
    }
    dhow_stream_release(n.stream);
    dhow_model_release(n.model);
}

static void open_network(bench *b, const launch_model *of, network *n) {
    dhow_device *device = bench_main_device(b);
    dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
    BENCH_OK(dhow_model_create(bench_context(b), &n->model));
    BENCH_OK(of->build(n->model, of->dtype, of->batch));
    BENCH_OK(dhow_model_init_parameters(n->model, 1));
    BENCH_OK(dhow_model_set_precision(n->model, of->precision));
    BENCH_OK(dhow_model_to(n->model, device));
    BENCH_OK(dhow_stream_create(device, &n->stream));
    n->inputs = dhow_model_input_count(n->model);
    n->outputs = dhow_model_output_count(n->model);
    for (uint32_t i = 0; i < n->inputs; i++) {
        BENCH_OK(dhow_model_input_at(n->model, i, &info));
        BENCH_OK(
            dhow_tensor_uniform(device, info.dtype, info.rank, info.shape, -1, 1, i + 1, &n->x[i]));
    }
    BENCH_OK(dhow_model_run(n->model, n->stream, n->x, n->inputs, n->y, n->outputs));
}

static void close_network(network *n) {
    for (uint32_t i = 0; i < n->inputs; i++) dhow_tensor_release(n->x[i]);
    for (uint32_t i = 0; i < n->outputs; i++) dhow_tensor_release(n->y[i]);
    dhow_stream_release(n->stream);
    dhow_model_release(n->model);
}

void bench_models(bench *b) {
    for (int i = 0; i < LAUNCH_MODELS; i++) {
        const launch_model *of = &launch_models[i];
        if (bench_is_small(b) && strcmp(of->name, "digits") != 0) continue;
        network n = {.runs = bench_is_small(b) ? 1 : 20};
        char name[128];
        (void)snprintf(name, sizeof name, "%s, batch %lld, graph", of->title, (long long)of->batch);
        open_network(b, of, &n);
        measure(b, name, &n);
        close_network(&n);
    }
}
