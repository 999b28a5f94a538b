/* SPDX-License-Identifier: Apache-2.0
 *
 * dhow.graph/1 on CUDA graphs.
 */
#include "cuda_plugin.h"

typedef struct recorded_graph {
    dhowi_cuda_device *device;
    cudaGraphExec_t native;
} recorded_graph;

/* Recorded is a private stream. On the program's own, other threads that wait for it or ask for its
 * state would spoil the recording, and be refused themselves. */
static int32_t begin(void *stream_pointer, dhow_error *err) {
    dhowi_cuda_stream *stream = stream_pointer;
    bool entered;
    cudaError_t code = dhowi_cuda_require(stream->device, &entered);
    if (code == cudaSuccess && stream->recorder == NULL)
        code = cudaStreamCreateWithFlags(&stream->recorder, cudaStreamNonBlocking);
    /* Relaxed: the host may have to allocate memory meanwhile, which touches no stream. */
    if (code == cudaSuccess)
        code = cudaStreamBeginCapture(stream->recorder, cudaStreamCaptureModeRelaxed);
    dhowi_cuda_leave(entered);
    if (code != cudaSuccess) return dhowi_cuda_fail_on(stream, err, code, "recording a graph");
    atomic_store(&stream->recording, dhowi_cuda_thread());
    return DHOW_OK;
}

static int32_t end(void *stream_pointer, void **out_graph, dhow_error *err) {
    dhowi_cuda_stream *stream = stream_pointer;
    dhowi_cuda_device *device = stream->device;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t native = NULL;
    recorded_graph *recorded = NULL;
    if (out_graph != NULL) *out_graph = NULL;
    if (atomic_exchange(&stream->recording, 0) == 0)
        return dhowi_cuda_refuse(err, DHOW_INVALID_ARGUMENT, "%s: the stream records no graph",
                                 device->name);
    if (out_graph != NULL) recorded = dhowi_cuda_new(device->host, sizeof *recorded);
    bool entered;
    cudaError_t code = dhowi_cuda_require(device, &entered);
    const enum cudaStreamCaptureMode mode = dhowi_cuda_relax();
    if (code == cudaSuccess) code = cudaStreamEndCapture(stream->recorder, &graph);
    if (code == cudaSuccess && recorded != NULL) code = cudaGraphInstantiate(&native, graph, 0);
    if (graph != NULL) (void)cudaGraphDestroy(graph);
    dhowi_cuda_unrelax(mode);
    dhowi_cuda_leave(entered);
    if (code != cudaSuccess) {
        dhowi_cuda_delete(device->host, recorded);
        return dhowi_cuda_fail_on(stream, err, code, "recording a graph");
    }
    if (out_graph == NULL) return DHOW_OK;
    if (recorded == NULL)
        return dhowi_cuda_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", device->name);
    recorded->device = device;
    recorded->native = native;
    *out_graph = recorded;
    return DHOW_OK;
}

static int32_t launch(void *graph, void *stream_pointer, dhow_error *err) {
    const recorded_graph *recorded = graph;
    dhowi_cuda_stream *stream = stream_pointer;
    bool entered;
    cudaError_t code = dhowi_cuda_require(stream->device, &entered);
    if (code == cudaSuccess) code = cudaGraphLaunch(recorded->native, stream->native);
    dhowi_cuda_leave(entered);
    return code == cudaSuccess ? DHOW_OK
                               : dhowi_cuda_fail_on(stream, err, code, "replaying a graph");
}

static void destroy(void *graph) {
    recorded_graph *recorded = graph;
    bool entered;
    const bool alive = dhowi_cuda_enter(recorded->device, &entered);
    if (alive && cudaGraphExecDestroy(recorded->native) != cudaSuccess) (void)cudaGetLastError();
    dhowi_cuda_leave(entered);
    dhowi_cuda_delete(recorded->device->host, recorded);
}

const dhow_capture dhowi_cuda_capture = {.struct_size = (uint32_t)sizeof(dhow_capture),
                                         .minor = 0,
                                         .begin = begin,
                                         .end = end,
                                         .launch = launch,
                                         .destroy = destroy};
