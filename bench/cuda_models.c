/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of the field, with random weights: the ones that docs/cuda.md calculates.
 */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "tests/fakecuda/launch_models.h"

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
    BENCH_OK(dhow_graph_record(n->stream, run_once, n, &n->graph));
    if (dhow_graph_reason(n->graph)[0] != '\0')
        printf("no graph: %s\n", dhow_graph_reason(n->graph));
}

static void close_network(network *n) {
    dhow_graph_release(n->graph);
    for (uint32_t i = 0; i < n->inputs; i++) dhow_tensor_release(n->x[i]);
    for (uint32_t i = 0; i < n->outputs; i++) dhow_tensor_release(n->y[i]);
    dhow_stream_release(n->stream);
    dhow_model_release(n->model);
}

/* PyTorch's side is measured by peer_torch_cuda.py, which reads these rows. */
void bench_models(bench *b) {
    for (int i = 0; i < LAUNCH_MODELS; i++) {
        const launch_model *of = &launch_models[i];
        if (bench_is_small(b) && strcmp(of->name, "digits") != 0) continue;
        network n = {.runs = bench_is_small(b) ? 1 : 20};
        char name[128];
        (void)snprintf(name, sizeof name, "%s, batch %lld, graph", of->title, (long long)of->batch);
        open_network(b, of, &n);
        const double eager = bench_seconds(1, run_eager, &n) / n.runs;
        bench_report(b, name, "the same without a graph", 0,
                     bench_seconds(1, run_graph, &n) / n.runs, eager);
        close_network(&n);
    }
}
