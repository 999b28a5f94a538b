/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of up to three dimensions and fills. The hardware knows rows with pitches; what it cannot
 * say in one call - planes whose distance is no whole number of rows, pitches beyond its limit -
 * goes as several calls of fewer dimensions.
 */
#include <string.h>

#include "cuda_plugin.h"

/* Pitches beyond this are refused by every device so far (cudaDevAttrMaxPitch). */
static const uint64_t k_max_pitch = 0x7fffffff;

static char *address_of(const dhow_copy_end *end) {
    return (char *)(uintptr_t)(end->handle + end->offset);
}

static enum cudaMemcpyKind kind_of(const dhow_copy_rect *rect) {
    static const enum cudaMemcpyKind kinds[2][2] = {
        {cudaMemcpyDeviceToDevice, cudaMemcpyDeviceToHost},
        {cudaMemcpyHostToDevice, cudaMemcpyHostToHost}};
    return kinds[rect->src.space][rect->dst.space];
}

static cudaError_t copy_rows(const dhow_copy_rect *rect, uint64_t plane, cudaStream_t stream) {
    char *to = address_of(&rect->dst) + plane * rect->dst.pitch[1];
    const char *from = address_of(&rect->src) + plane * rect->src.pitch[1];
    const uint64_t width = rect->extent[0], rows = rect->extent[1];
    const uint64_t to_pitch = rect->dst.pitch[0], from_pitch = rect->src.pitch[0];
    const enum cudaMemcpyKind kind = kind_of(rect);
    if (rows == 1 || (to_pitch == width && from_pitch == width))
        return cudaMemcpyAsync(to, from, (size_t)(width * rows), kind, stream);
    if (to_pitch >= width && from_pitch >= width && to_pitch <= k_max_pitch &&
        from_pitch <= k_max_pitch)
        return cudaMemcpy2DAsync(to, (size_t)to_pitch, from, (size_t)from_pitch, (size_t)width,
                                 (size_t)rows, kind, stream);
    cudaError_t code = cudaSuccess;
    for (uint64_t row = 0; row < rows && code == cudaSuccess; row++)
        code = cudaMemcpyAsync(to + row * to_pitch, from + row * from_pitch, (size_t)width, kind,
                               stream);
    return code;
}

/* Whether an end's planes lie a whole number of rows apart, at least as many as they have. */
static bool has_whole_planes(const dhow_copy_end *end, const uint64_t *extent) {
    return end->pitch[0] >= extent[0] && end->pitch[0] <= k_max_pitch &&
           end->pitch[1] % end->pitch[0] == 0 && end->pitch[1] / end->pitch[0] >= extent[1];
}

static struct cudaPitchedPtr pitched(const dhow_copy_end *end) {
    struct cudaPitchedPtr p = {.ptr = address_of(end),
                               .pitch = (size_t)end->pitch[0],
                               .xsize = (size_t)end->pitch[0],
                               .ysize = (size_t)(end->pitch[1] / end->pitch[0])};
    return p;
}

static cudaError_t copy_box(const dhow_copy_rect *rect, cudaStream_t stream) {
    const uint64_t *extent = rect->extent;
    if (extent[0] == 0 || extent[1] == 0) return cudaSuccess;
    if (extent[2] > 1 && has_whole_planes(&rect->src, extent) &&
        has_whole_planes(&rect->dst, extent)) {
        struct cudaMemcpy3DParms box;
        memset(&box, 0, sizeof box);
        box.srcPtr = pitched(&rect->src);
        box.dstPtr = pitched(&rect->dst);
        box.extent.width = (size_t)extent[0];
        box.extent.height = (size_t)extent[1];
        box.extent.depth = (size_t)extent[2];
        box.kind = kind_of(rect);
        return cudaMemcpy3DAsync(&box, stream);
    }
    cudaError_t code = cudaSuccess;
    for (uint64_t plane = 0; plane < extent[2] && code == cudaSuccess; plane++)
        code = copy_rows(rect, plane, stream);
    return code;
}

int32_t dhowi_cuda_copy(void *stream_pointer, const dhow_copy_rect *rect, dhow_error *err) {
    dhowi_cuda_stream *stream = stream_pointer;
    bool entered;
    cudaError_t code = dhowi_cuda_require(stream->device, &entered);
    if (code == cudaSuccess) code = copy_box(rect, dhowi_cuda_target(stream));
    dhowi_cuda_leave(entered);
    return code == cudaSuccess ? DHOW_OK : dhowi_cuda_fail_on(stream, err, code, "a copy");
}

/* Eight-byte patterns whose halves differ go as two strided fills of four bytes. */
static cudaError_t fill_words(CUdeviceptr to, uint64_t bytes, uint64_t pattern,
                              uint32_t pattern_bytes, CUstream stream) {
    const uint32_t low = (uint32_t)pattern, high = (uint32_t)(pattern >> 32);
    const size_t count = (size_t)(bytes / pattern_bytes);
    if (pattern_bytes == 1)
        return cudaMemsetAsync((void *)(uintptr_t)to, (int)(pattern & 0xff), count, stream);
    if (pattern_bytes == 2)
        return (cudaError_t)dhowi_cu.MemsetD16Async(to, (unsigned short)pattern, count, stream);
    if (pattern_bytes == 4) return (cudaError_t)dhowi_cu.MemsetD32Async(to, low, count, stream);
    if (low == high) return (cudaError_t)dhowi_cu.MemsetD32Async(to, low, 2 * count, stream);
    CUresult code = dhowi_cu.MemsetD2D32Async(to, 8, low, 1, count, stream);
    if (code == CUDA_SUCCESS) code = dhowi_cu.MemsetD2D32Async(to + 4, 8, high, 1, count, stream);
    return (cudaError_t)code;
}

int32_t dhowi_cuda_fill(void *stream_pointer, uint64_t handle, uint64_t offset, uint64_t bytes,
                        uint64_t pattern, uint32_t pattern_bytes, dhow_error *err) {
    dhowi_cuda_stream *stream = stream_pointer;
    bool entered;
    cudaError_t code = dhowi_cuda_require(stream->device, &entered);
    if (code == cudaSuccess)
        code = fill_words((CUdeviceptr)(handle + offset), bytes, pattern, pattern_bytes,
                          dhowi_cuda_target(stream));
    dhowi_cuda_leave(entered);
    return code == cudaSuccess ? DHOW_OK : dhowi_cuda_fail_on(stream, err, code, "a fill");
}
