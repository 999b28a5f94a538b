/* SPDX-License-Identifier: Apache-2.0
 *
 * "dhow.native/1": memory, streams and events of the program's own, and dhow's in its hands.
 * Native handles are CUDA's: device addresses, cudaStream_t, cudaEvent_t.
 */
#include "cuda_plugin.h"

/* What cudaMalloc aligns to. */
enum { BLOCK_ALIGN = 256 };

/* The beginning of the allocation that an address lies in, and the bytes from the address on. Kernels
 * look at offsets to tell what is aligned and take handles for aligned ones; and ranges of one
 * allocation are known to overlap by their handle. */
static uint64_t base_of(const dhowi_cuda_device *device, uint64_t address, uint64_t *out_room) {
    CUdeviceptr base = 0;
    size_t bytes = 0;
    bool entered;
    CUresult code = (CUresult)dhowi_cuda_require(device, &entered);
    if (code == CUDA_SUCCESS && dhowi_cu.MemGetAddressRange == NULL)
        code = CUDA_ERROR_NOT_SUPPORTED;
    if (code == CUDA_SUCCESS) code = dhowi_cu.MemGetAddressRange(&base, &bytes, address);
    dhowi_cuda_leave(entered);
    const bool found = code == CUDA_SUCCESS && base <= address && base % BLOCK_ALIGN == 0;
    *out_room = found ? base + bytes - address : UINT64_MAX;
    return found ? base : address - address % BLOCK_ALIGN;
}

static int32_t mem_wrap(void *device_pointer, uint64_t native, uint64_t bytes, uint64_t *out_handle,
                        uint64_t *out_offset, dhow_error *err) {
    dhowi_cuda_device *device = device_pointer;
    struct cudaPointerAttributes place = {.type = cudaMemoryTypeUnregistered};
    uint64_t room = 0;
    *out_handle = *out_offset = 0;
    bool entered;
    cudaError_t code = dhowi_cuda_require(device, &entered);
    if (code == cudaSuccess)
        code = cudaPointerGetAttributes(&place, (const void *)(uintptr_t)native);
    dhowi_cuda_leave(entered);
    if (code != cudaSuccess)
        return dhowi_cuda_fail(err, code, "%s: asking whose memory %#llx is", device->name,
                               (unsigned long long)native);
    if (place.type != cudaMemoryTypeDevice && place.type != cudaMemoryTypeManaged)
        return dhowi_cuda_refuse(
            err, DHOW_INVALID_ARGUMENT, "%s: %#llx is %s, no device memory", device->name,
            (unsigned long long)native,
            place.type == cudaMemoryTypeHost ? "pinned host memory" : "memory CUDA does not know");
    if (place.type == cudaMemoryTypeDevice && place.device != device->ordinal)
        return dhowi_cuda_refuse(err, DHOW_INVALID_ARGUMENT, "%s: %#llx is memory of cuda:%d",
                                 device->name, (unsigned long long)native, place.device);
    const uint64_t base = base_of(device, native, &room);
    if (bytes > room)
        return dhowi_cuda_refuse(err, DHOW_INVALID_ARGUMENT,
                                 "%s: there are %llu bytes at %#llx, %llu are wanted", device->name,
                                 (unsigned long long)room, (unsigned long long)native,
                                 (unsigned long long)bytes);
    *out_offset = native - base;
    *out_handle = base;
    return DHOW_OK;
}

static void mem_unwrap(void *device, uint64_t handle) {
    (void)device;
    (void)handle;
}

static int32_t mem_native(void *device, uint64_t handle, uint64_t *out_native, dhow_error *err) {
    (void)device;
    (void)err;
    *out_native = handle;
    return DHOW_OK;
}

/* The default streams belong to whatever context is current. */
static bool is_default(cudaStream_t stream) {
    return stream == NULL || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

static int32_t check_context(const dhowi_cuda_device *device, cudaStream_t native,
                             dhow_error *err) {
    CUcontext context = NULL;
    if (is_default(native) || dhowi_cu.StreamGetCtx == NULL) return DHOW_OK;
    const CUresult code = dhowi_cu.StreamGetCtx(native, &context);
    if (code != CUDA_SUCCESS)
        return dhowi_cuda_fail(err, (cudaError_t)code, "%s: %p is no stream", device->name,
                               (void *)native);
    if (context != device->context)
        return dhowi_cuda_refuse(err, DHOW_INVALID_ARGUMENT,
                                 "%s: the stream belongs to another device or to a context of its "
                                 "own; dhow works in the primary context, as cudaSetDevice() does",
                                 device->name);
    return DHOW_OK;
}

static int32_t stream_wrap(void *device_pointer, uint64_t native_number, uint32_t flags,
                           void **out_stream, dhow_error *err) {
    dhowi_cuda_device *device = device_pointer;
    cudaStream_t native = (cudaStream_t)(uintptr_t)native_number;
    *out_stream = NULL;
    if (native == cudaStreamPerThread && (flags & DHOW_STREAM_THIS_THREAD) == 0)
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED,
                                 "%s: cudaStreamPerThread is another stream in each thread; use "
                                 "cudaStreamLegacy or a stream of your own",
                                 device->name);
    const int32_t status = check_context(device, native, err);
    if (status != DHOW_OK) return status;
    dhowi_cuda_stream *stream = dhowi_cuda_new(device->host, sizeof *stream);
    if (stream == NULL)
        return dhowi_cuda_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", device->name);
    stream->device = device;
    stream->native = native == NULL ? cudaStreamLegacy : native;
    stream->wrapped = true;
    *out_stream = stream;
    return DHOW_OK;
}

static int32_t stream_native(void *stream, uint64_t *out_native, dhow_error *err) {
    (void)err;
    *out_native = (uint64_t)(uintptr_t)((dhowi_cuda_stream *)stream)->native;
    return DHOW_OK;
}

static int32_t stream_wait_native(void *stream_pointer, uint64_t native_event, dhow_error *err) {
    dhowi_cuda_stream *stream = stream_pointer;
    bool entered;
    cudaError_t code = dhowi_cuda_require(stream->device, &entered);
    if (code == cudaSuccess)
        code =
            cudaStreamWaitEvent(dhowi_cuda_target(stream), (cudaEvent_t)(uintptr_t)native_event, 0);
    dhowi_cuda_leave(entered);
    return code == cudaSuccess
               ? DHOW_OK
               : dhowi_cuda_fail_on(stream, err, code, "waiting for an event of the program");
}

const dhow_native dhowi_cuda_native = {.struct_size = sizeof dhowi_cuda_native,
                                       .mem_wrap = mem_wrap,
                                       .mem_unwrap = mem_unwrap,
                                       .mem_native = mem_native,
                                       .stream_wrap = stream_wrap,
                                       .stream_native = stream_native,
                                       .stream_wait_native = stream_wait_native,
                                       .event_native = dhowi_cuda_event_native};
