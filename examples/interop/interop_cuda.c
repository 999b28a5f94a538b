/* SPDX-License-Identifier: Apache-2.0
 *
 * The same with CUDA: the program draws tiles with the runtime's own calls on a stream of its own,
 * a model of dhow finds their edges on that stream and in that memory, and the program copies the
 * result behind it. The stream is awaited once, at the end.
 *
 *     interop_cuda [--device cuda:0]
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "edges.h"

typedef struct program {
    cudaStream_t stream;
    void *picture, *edges;
    cudaError_t code; /* the first failure */
} program;

static void note(program *p, cudaError_t code) {
    if (p->code == cudaSuccess) p->code = code;
}

static void make_program(program *p, const dhow_device *device) {
    dhow_device_info info = DHOW_INIT(dhow_device_info);
    if (dhow_device_get_info(device, &info) != DHOW_OK) note(p, cudaErrorInvalidDevice);
    note(p, cudaSetDevice((int)info.index));
    note(p, cudaStreamCreateWithFlags(&p->stream, cudaStreamNonBlocking));
    note(p, cudaMalloc(&p->picture, PICTURE_BYTES));
    note(p, cudaMalloc(&p->edges, PICTURE_BYTES));
}

static void end_program(program *p) {
    if (p->stream != NULL) (void)cudaStreamDestroy(p->stream);
    if (p->picture != NULL) (void)cudaFree(p->picture);
    if (p->edges != NULL) (void)cudaFree(p->edges);
}

/* Four bytes of 0x3f are the float 0.747. */
static void draw(program *p) {
    enum { TILE = 32, TILE_BYTES = TILE * 4, PITCH = WIDTH * 4 };
    note(p, cudaMemset2DAsync(p->picture, PITCH, 0, PITCH, HEIGHT, p->stream));
    for (int row = 0; row < HEIGHT / TILE; row++) {
        for (int column = row % 2; column < WIDTH / TILE; column += 2) {
            char *tile = (char *)p->picture + row * TILE * PITCH + column * TILE_BYTES;
            note(p, cudaMemset2DAsync(tile, PITCH, 0x3f, TILE_BYTES, TILE, p->stream));
        }
    }
}

/* dhow's work goes into the program's stream, between the program's own. */
static int work(dhow_device *device, program *p, float *picture, float *edges) {
    wrapped w;
    int good = wrap_program(device, (uint64_t)(uintptr_t)p->stream, (uint64_t)(uintptr_t)p->picture,
                            (uint64_t)(uintptr_t)p->edges, &w);
    if (good) {
        draw(p);
        good = find_edges(&w);
        note(p, cudaMemcpyAsync(picture, p->picture, PICTURE_BYTES, cudaMemcpyDeviceToHost,
                                p->stream));
        note(p, cudaMemcpyAsync(edges, p->edges, PICTURE_BYTES, cudaMemcpyDeviceToHost, p->stream));
        note(p, cudaStreamSynchronize(p->stream));
    }
    unwrap_program(&w);
    return good && p->code == cudaSuccess;
}

int main(int argc, char **argv) {
    const char *spec = device_named(argc, argv, "cuda:0");
    if (spec == NULL) return 2;
    dhow_context *context = NULL;
    dhow_device *device;
    program p = {0};
    float *picture = malloc(PICTURE_BYTES), *edges = malloc(PICTURE_BYTES);
    int good = picture != NULL && edges != NULL &&
               ((dhow_context_create(NULL, &context) == DHOW_OK &&
                 dhow_device_get(context, spec, &device) == DHOW_OK &&
                 dhow_device_open(device) == DHOW_OK) ||
                give_up("the device"));
    if (good) make_program(&p, device);
    good = good && p.code == cudaSuccess && work(device, &p, picture, edges) &&
           check_edges(context, picture, edges);
    if (p.code != cudaSuccess) (void)fprintf(stderr, "interop: CUDA's error %d\n", (int)p.code);
    end_program(&p);
    free(picture);
    free(edges);
    dhow_context_release(context);
    return good ? 0 : 1;
}
