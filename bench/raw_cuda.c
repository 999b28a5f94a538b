/* SPDX-License-Identifier: Apache-2.0
 *
 * See raw_cuda.h. Streams are non-blocking, as dhow's are.
 */
#include "raw_cuda.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/cuda/vendor_abi.h"

void raw_cuda_check(int code, const char *what) {
    if (code == 0) return;
    (void)fprintf(stderr, "dhow-bench-cuda: %s: %s\n", what, cudaGetErrorString((cudaError_t)code));
    exit(1);
}

/* ---- copies ---- */

void raw_cuda_open(size_t bytes, int device_buffers, int pinned_buffers, raw_cuda *out) {
    *out = (raw_cuda){.bytes = bytes};
    for (int i = 0; i < device_buffers; i++) {
        RAW_CUDA(cudaMalloc(&out->device[i], bytes));
    }
    for (int i = 0; i < pinned_buffers; i++) {
        RAW_CUDA(cudaHostAlloc(&out->pinned[i], bytes, cudaHostAllocPortable));
        memset(out->pinned[i], i + 1, bytes);
    }
    for (int i = 0; i < 2; i++) {
        cudaStream_t stream;
        RAW_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        out->stream[i] = stream;
    }
}

void raw_cuda_close(raw_cuda *raw) {
    for (int i = 0; i < 3; i++) RAW_CUDA(cudaFree(raw->device[i]));
    for (int i = 0; i < 2; i++) {
        RAW_CUDA(cudaStreamDestroy(raw->stream[i]));
        if (raw->pinned[i] != NULL) RAW_CUDA(cudaFreeHost(raw->pinned[i]));
    }
}

static void start(raw_cuda *raw, int up, int which) {
    RAW_CUDA(cudaMemcpyAsync(
        up ? raw->device[which] : raw->pinned[which], up ? raw->pinned[which] : raw->device[which],
        raw->bytes, up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, raw->stream[which]));
}

void raw_cuda_upload(raw_cuda *raw) {
    start(raw, 1, 0);
    RAW_CUDA(cudaStreamSynchronize(raw->stream[0]));
}

void raw_cuda_download(raw_cuda *raw) {
    start(raw, 0, 0);
    RAW_CUDA(cudaStreamSynchronize(raw->stream[0]));
}

void raw_cuda_both(raw_cuda *raw) {
    start(raw, 1, 0);
    start(raw, 0, 1);
    RAW_CUDA(cudaStreamSynchronize(raw->stream[0]));
    RAW_CUDA(cudaStreamSynchronize(raw->stream[1]));
}

void raw_cuda_copy(raw_cuda *raw, size_t bytes) {
    RAW_CUDA(cudaMemcpyAsync(raw->device[1], raw->device[0], bytes, cudaMemcpyDeviceToDevice,
                             raw->stream[0]));
    RAW_CUDA(cudaStreamSynchronize(raw->stream[0]));
}

/* ---- launches ---- */

void raw_launch_open(const char *ptx, const char *name, size_t bytes, raw_launch *out) {
    cudaLibrary_t library;
    cudaKernel_t kernel;
    cudaStream_t stream;
    RAW_CUDA(cudaLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    RAW_CUDA(cudaLibraryGetKernel(&kernel, library, name));
    RAW_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    *out = (raw_launch){library, kernel, stream, {NULL, NULL, NULL}};
    for (int i = 0; i < 3; i++) RAW_CUDA(cudaMalloc(&out->buffers[i], bytes));
}

void raw_launch_run(raw_launch *raw, int count) {
    float factor = 2.0f;
    void *args[] = {&raw->buffers[0], &raw->buffers[1], &raw->buffers[2], &factor};
    cudaLaunchConfig_t config;
    memset(&config, 0, sizeof config);
    config.gridDim = (dim3){1, 1, 1};
    config.blockDim = (dim3){256, 1, 1};
    config.stream = raw->stream;
    for (int i = 0; i < count; i++) RAW_CUDA(cudaLaunchKernelExC(&config, raw->kernel, args));
    RAW_CUDA(cudaStreamSynchronize(raw->stream));
}

void raw_launch_close(raw_launch *raw) {
    for (int i = 0; i < 3; i++) RAW_CUDA(cudaFree(raw->buffers[i]));
    RAW_CUDA(cudaStreamDestroy(raw->stream));
    RAW_CUDA(cudaLibraryUnload(raw->library));
}

/* ---- products ---- */

enum { WORKSPACE_BYTES = 32 << 20 };

struct raw_matmul {
    void *library;
    lt_handle handle;
    lt_desc operation;
    lt_layout layout;
    lt_algorithm algorithm;
    lt_matmul_fn *matmul;
    void *buffers[3], *workspace;
    size_t workspace_bytes;
    cudaStream_t stream;
};

static void *symbol(void *library, const char *name) {
    void *address = dlsym(library, name);
    if (address == NULL) {
        (void)fprintf(stderr, "dhow-bench-cuda: no %s\n", name);
        exit(1);
    }
    return address;
}
#define FUNCTION(type, variable, name)                 \
    type *variable;                                    \
    {                                                  \
        void *address_ = symbol(library, name);        \
        memcpy(&variable, &address_, sizeof address_); \
    }

static void fill_random(void *buffer, size_t bytes, raw_type type, cudaStream_t stream) {
    unsigned char *host = malloc(bytes);
    if (host == NULL) exit(1);
    unsigned state = 1;
    for (size_t i = 0; i < bytes; i += type == RAW_BF16 ? 2 : 4) {
        state = state * 1664525u + 1013904223u;
        const float value = (float)(int)(state >> 8) / 8388608.0f - 1.0f;
        if (type == RAW_BF16) {
            memcpy(host + i, (const char *)&value + 2, 2);
        } else {
            memcpy(host + i, &value, 4);
        }
    }
    RAW_CUDA(cudaMemcpyAsync(buffer, host, bytes, cudaMemcpyHostToDevice, stream));
    RAW_CUDA(cudaStreamSynchronize(stream));
    free(host);
}

raw_matmul *raw_matmul_open(raw_type type, long long n) {
    static const char *const names[] = {
        "libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13", "libcublasLt.so.12"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && library == NULL; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return NULL;
    FUNCTION(lt_create_fn, create, "cublasLtCreate")
    FUNCTION(lt_desc_create_fn, desc_create, "cublasLtMatmulDescCreate")
    FUNCTION(lt_layout_create_fn, layout_create, "cublasLtMatrixLayoutCreate")
    FUNCTION(lt_preference_create_fn, preference_create, "cublasLtMatmulPreferenceCreate")
    FUNCTION(lt_preference_set_fn, preference_set, "cublasLtMatmulPreferenceSetAttribute")
    FUNCTION(lt_heuristic_fn, heuristic, "cublasLtMatmulAlgoGetHeuristic")
    FUNCTION(lt_matmul_fn, matmul, "cublasLtMatmul")
    raw_matmul *m = calloc(1, sizeof *m);
    if (m == NULL) exit(1);
    const cudaDataType_t data = type == RAW_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    const size_t bytes = (size_t)n * (size_t)n * (type == RAW_BF16 ? 2 : 4);
    const uint64_t workspace = WORKSPACE_BYTES;
    const uint32_t reduction = LT_REDUCE_IN_COMPUTE_TYPE; /* as dhow asks */
    lt_preference preference;
    lt_heuristic best;
    int found = 0;
    memset(&best, 0, sizeof best);
    m->library = library;
    m->matmul = matmul;
    RAW_CUDA(create(&m->handle));
    RAW_CUDA(desc_create(&m->operation,
                         type == RAW_TF32 ? LT_COMPUTE_32F_FAST_TF32 : LT_COMPUTE_32F, CUDA_R_32F));
    RAW_CUDA(layout_create(&m->layout, data, (uint64_t)n, (uint64_t)n, n));
    RAW_CUDA(preference_create(&preference));
    RAW_CUDA(preference_set(preference, LT_PREFERENCE_MAX_WORKSPACE, &workspace, sizeof workspace));
    RAW_CUDA(
        preference_set(preference, LT_PREFERENCE_REDUCTION_SCHEMES, &reduction, sizeof reduction));
    RAW_CUDA(heuristic(m->handle, m->operation, m->layout, m->layout, m->layout, m->layout,
                       preference, 1, &best, &found));
    m->algorithm = best.algorithm;
    m->workspace_bytes = best.workspace_bytes;
    RAW_CUDA(cudaStreamCreateWithFlags(&m->stream, cudaStreamNonBlocking));
    for (int i = 0; i < 3; i++) {
        RAW_CUDA(cudaMalloc(&m->buffers[i], bytes));
        fill_random(m->buffers[i], bytes, type, m->stream);
    }
    RAW_CUDA(cudaMalloc(&m->workspace, WORKSPACE_BYTES));
    return m;
}

void raw_matmul_run(raw_matmul *m) {
    const float one = 1, zero = 0;
    RAW_CUDA(m->matmul(m->handle, m->operation, &one, m->buffers[1], m->layout, m->buffers[0],
                       m->layout, &zero, m->buffers[2], m->layout, m->buffers[2], m->layout,
                       &m->algorithm, m->workspace, m->workspace_bytes, m->stream));
    RAW_CUDA(cudaStreamSynchronize(m->stream));
}

void raw_matmul_close(raw_matmul *m) {
    for (int i = 0; i < 3; i++) RAW_CUDA(cudaFree(m->buffers[i]));
    RAW_CUDA(cudaFree(m->workspace));
    RAW_CUDA(cudaStreamDestroy(m->stream));
    free(m); /* the library's own objects end with the process */
}
