/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between two GPUs. Access is switched on for each pair once; the host verifies it with real
 * bytes before it relies on it, since some machines report access that does not work.
 */
#include "cuda_plugin.h"

int32_t dhowi_cuda_can_copy(void *dst_pointer, void *src_pointer, dhow_error *err) {
    dhowi_cuda_device *dst = dst_pointer, *src = src_pointer;
    int can = 0;
    cudaError_t code = cudaDeviceCanAccessPeer(&can, dst->ordinal, src->ordinal);
    if (code != cudaSuccess)
        return dhowi_cuda_fail(err, code, "%s: access to %s", dst->name, src->name);
    if (can == 0)
        return dhowi_cuda_refuse(
            err, DHOW_UNSUPPORTED,
            "%s cannot reach the memory of %s (no NVLink, no PCIe peer access)", dst->name,
            src->name);
    bool entered;
    code = dhowi_cuda_require(dst, &entered);
    if (code == cudaSuccess) code = cudaDeviceEnablePeerAccess(src->ordinal, 0);
    dhowi_cuda_leave(entered);
    if (code == cudaErrorPeerAccessAlreadyEnabled) {
        (void)cudaGetLastError();
        code = cudaSuccess;
    }
    return code == cudaSuccess
               ? DHOW_OK
               : dhowi_cuda_fail(err, code, "%s: switching on access to %s", dst->name, src->name);
}

int32_t dhowi_cuda_peer_copy(void *stream_pointer, void *src_device, uint64_t src_handle,
                             uint64_t src_offset, uint64_t dst_handle, uint64_t dst_offset,
                             uint64_t bytes, dhow_error *err) {
    dhowi_cuda_stream *stream = stream_pointer;
    const dhowi_cuda_device *src = src_device;
    bool entered;
    cudaError_t code = dhowi_cuda_require(stream->device, &entered);
    if (code == cudaSuccess)
        code = cudaMemcpyPeerAsync((void *)(uintptr_t)(dst_handle + dst_offset),
                                   stream->device->ordinal,
                                   (const void *)(uintptr_t)(src_handle + src_offset), src->ordinal,
                                   (size_t)bytes, dhowi_cuda_target(stream));
    dhowi_cuda_leave(entered);
    return code == cudaSuccess ? DHOW_OK
                               : dhowi_cuda_fail_on(stream, err, code, "a copy between devices");
}
