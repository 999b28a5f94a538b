/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams. All that are made here are non-blocking ones: work on the legacy stream, which belongs
 * to whoever else uses CUDA in the process, neither waits for them nor holds them up.
 */
#include "cuda_plugin.h"

uintptr_t dhowi_cuda_thread(void) {
    static _Thread_local char own;
    return (uintptr_t)&own;
}

int32_t dhowi_cuda_stream_create(void *device_pointer, uint32_t flags, void **out_stream,
                                 dhow_error *err) {
    dhowi_cuda_device *device = device_pointer;
    (void)flags; /* CUDA has no streams for copies alone, and priorities are none of copies */
    *out_stream = NULL;
    dhowi_cuda_stream *stream = dhowi_cuda_new(device->host, sizeof *stream);
    if (stream == NULL)
        return dhowi_cuda_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", device->name);
    stream->device = device;
    bool entered;
    cudaError_t code = dhowi_cuda_require(device, &entered);
    const enum cudaStreamCaptureMode mode = dhowi_cuda_relax();
    if (code == cudaSuccess)
        code = cudaStreamCreateWithFlags(&stream->native, cudaStreamNonBlocking);
    dhowi_cuda_unrelax(mode);
    dhowi_cuda_leave(entered);
    if (code != cudaSuccess) {
        dhowi_cuda_delete(device->host, stream);
        return dhowi_cuda_fail(err, code, "%s: creating a stream", device->name);
    }
    *out_stream = stream;
    return DHOW_OK;
}

void dhowi_cuda_stream_destroy(void *stream_pointer) {
    dhowi_cuda_stream *stream = stream_pointer;
    bool entered;
    const bool alive = dhowi_cuda_enter(stream->device, &entered);
    const enum cudaStreamCaptureMode mode = dhowi_cuda_relax();
    if (alive && !stream->wrapped && cudaStreamDestroy(stream->native) != cudaSuccess)
        (void)cudaGetLastError();
    if (alive && stream->recorder != NULL && cudaStreamDestroy(stream->recorder) != cudaSuccess)
        (void)cudaGetLastError();
    dhowi_cuda_unrelax(mode);
    dhowi_cuda_leave(entered);
    dhowi_cuda_delete(stream->device->host, stream);
}

/* Who records must not wait for it: that is for the recorder to refuse. Other threads mean the work
 * of before. */
static cudaStream_t awaited(const dhowi_cuda_stream *stream) {
    const uintptr_t recording = atomic_load_explicit(&stream->recording, memory_order_acquire);
    return recording != 0 && recording == dhowi_cuda_thread() ? stream->recorder : stream->native;
}

int32_t dhowi_cuda_stream_sync(void *stream_pointer, dhow_error *err) {
    dhowi_cuda_stream *stream = stream_pointer;
    bool entered;
    cudaError_t code = dhowi_cuda_require(stream->device, &entered);
    const enum cudaStreamCaptureMode mode = dhowi_cuda_relax();
    if (code == cudaSuccess) code = cudaStreamSynchronize(awaited(stream));
    dhowi_cuda_unrelax(mode);
    dhowi_cuda_leave(entered);
    return code == cudaSuccess ? DHOW_OK
                               : dhowi_cuda_fail_on(stream, err, code, "waiting for a stream");
}

int32_t dhowi_cuda_stream_query(void *stream_pointer, dhow_error *err) {
    dhowi_cuda_stream *stream = stream_pointer;
    bool entered;
    cudaError_t code = dhowi_cuda_require(stream->device, &entered);
    const enum cudaStreamCaptureMode mode = dhowi_cuda_relax();
    if (code == cudaSuccess) code = cudaStreamQuery(awaited(stream));
    dhowi_cuda_unrelax(mode);
    dhowi_cuda_leave(entered);
    if (code == cudaSuccess) return DHOW_OK;
    if (code == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return DHOW_NOT_READY;
    }
    return dhowi_cuda_fail_on(stream, err, code, "asking for a stream's state");
}

cudaError_t dhowi_cuda_stream_fault(cudaStream_t stream) {
    enum cudaStreamCaptureStatus recording = cudaStreamCaptureStatusNone;
    cudaError_t code = cudaStreamIsCapturing(stream, &recording);
    if (code == cudaSuccess &&
        recording == cudaStreamCaptureStatusNone) /* else it must not be asked */
        code = cudaStreamQuery(stream);
    if (code != cudaErrorNotReady) return code;
    (void)cudaGetLastError();
    return cudaSuccess;
}
