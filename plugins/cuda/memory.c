/* SPDX-License-Identifier: Apache-2.0
 *
 * Raw device memory and pinned host memory. Caching is the host's, above.
 */
#include "cuda_plugin.h"

int32_t dhowi_cuda_mem_alloc(void *device_pointer, uint64_t bytes, uint64_t *out_handle,
                             dhow_error *err) {
    dhowi_cuda_device *device = device_pointer;
    void *memory = NULL;
    bool entered;
    cudaError_t code = dhowi_cuda_require(device, &entered);
    const enum cudaStreamCaptureMode mode = dhowi_cuda_relax();
    if (code == cudaSuccess) code = cudaMalloc(&memory, (size_t)bytes);
    dhowi_cuda_unrelax(mode);
    dhowi_cuda_leave(entered);
    *out_handle = code == cudaSuccess ? (uint64_t)(uintptr_t)memory : 0;
    if (code == cudaSuccess) return DHOW_OK;
    return dhowi_cuda_fail(err, code, "%s: cudaMalloc of %llu bytes", device->name,
                           (unsigned long long)bytes);
}

void dhowi_cuda_mem_free(void *device_pointer, uint64_t handle) {
    dhowi_cuda_device *device = device_pointer;
    bool entered;
    if (!dhowi_cuda_enter(device, &entered)) return;
    const enum cudaStreamCaptureMode mode = dhowi_cuda_relax();
    /* A lost device keeps its memory to the end of the process. */
    if (cudaFree((void *)(uintptr_t)handle) != cudaSuccess) (void)cudaGetLastError();
    dhowi_cuda_unrelax(mode);
    dhowi_cuda_leave(entered);
}

int32_t dhowi_cuda_mem_info(void *device_pointer, uint64_t *out_free, uint64_t *out_total,
                            dhow_error *err) {
    dhowi_cuda_device *device = device_pointer;
    size_t free_bytes = 0, total = 0;
    bool entered;
    cudaError_t code = dhowi_cuda_require(device, &entered);
    if (code == cudaSuccess) code = cudaMemGetInfo(&free_bytes, &total);
    dhowi_cuda_leave(entered);
    *out_free = free_bytes;
    *out_total = total;
    return code == cudaSuccess ? DHOW_OK
                               : dhowi_cuda_fail(err, code, "%s: memory sizes", device->name);
}

/* Portable: pinned for every CUDA device of the process. */
int32_t dhowi_cuda_host_alloc(void *device_pointer, uint64_t bytes, void **out_memory,
                              dhow_error *err) {
    dhowi_cuda_device *device = device_pointer;
    *out_memory = NULL;
    bool entered;
    cudaError_t code = dhowi_cuda_require(device, &entered);
    const enum cudaStreamCaptureMode mode = dhowi_cuda_relax();
    if (code == cudaSuccess) code = cudaHostAlloc(out_memory, (size_t)bytes, cudaHostAllocPortable);
    dhowi_cuda_unrelax(mode);
    dhowi_cuda_leave(entered);
    if (code == cudaSuccess) return DHOW_OK;
    *out_memory = NULL;
    return dhowi_cuda_fail(err, code, "%s: pinning %llu bytes of host memory", device->name,
                           (unsigned long long)bytes);
}

void dhowi_cuda_host_free(void *device_pointer, void *memory) {
    bool entered;
    if (!dhowi_cuda_enter(device_pointer, &entered)) return;
    const enum cudaStreamCaptureMode mode = dhowi_cuda_relax();
    if (cudaFreeHost(memory) != cudaSuccess) (void)cudaGetLastError();
    dhowi_cuda_unrelax(mode);
    dhowi_cuda_leave(entered);
}

int32_t dhowi_cuda_host_register(void *device_pointer, void *memory, uint64_t bytes,
                                 dhow_error *err) {
    dhowi_cuda_device *device = device_pointer;
    bool entered;
    cudaError_t code = dhowi_cuda_require(device, &entered);
    const enum cudaStreamCaptureMode mode = dhowi_cuda_relax();
    if (code == cudaSuccess)
        code = cudaHostRegister(memory, (size_t)bytes, cudaHostRegisterPortable);
    if (code == cudaErrorInvalidValue || code == cudaErrorNotSupported) {
        /* Perhaps a file that is mapped to be read. */
        (void)cudaGetLastError();
        code = cudaHostRegister(memory, (size_t)bytes,
                                cudaHostRegisterPortable | cudaHostRegisterReadOnly);
    }
    dhowi_cuda_unrelax(mode);
    dhowi_cuda_leave(entered);
    if (code == cudaSuccess) return DHOW_OK;
    if (code == cudaErrorHostMemoryAlreadyRegistered) {
        (void)cudaGetLastError();
        return dhowi_cuda_refuse(err, DHOW_INVALID_ARGUMENT,
                                 "%s: the memory, or a part of it, is pinned already",
                                 device->name);
    }
    return dhowi_cuda_fail(err, code, "%s: pinning %llu bytes in place", device->name,
                           (unsigned long long)bytes);
}

int32_t dhowi_cuda_host_unregister(void *device_pointer, void *memory, dhow_error *err) {
    dhowi_cuda_device *device = device_pointer;
    bool entered;
    cudaError_t code = dhowi_cuda_require(device, &entered);
    const enum cudaStreamCaptureMode mode = dhowi_cuda_relax();
    if (code == cudaSuccess) code = cudaHostUnregister(memory);
    dhowi_cuda_unrelax(mode);
    dhowi_cuda_leave(entered);
    return code == cudaSuccess ? DHOW_OK
                               : dhowi_cuda_fail(err, code, "%s: unpinning", device->name);
}
