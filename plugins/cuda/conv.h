/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions: what the table shares with the engines that compute them.
 */
#ifndef DHOW_CUDA_CONV_H_
#define DHOW_CUDA_CONV_H_

#include "cuda_plugin.h"

typedef struct dhowi_cuda_conv_engine dhowi_cuda_conv_engine;

/* A plan; an engine's own begins with it. */
typedef struct dhowi_cuda_conv {
    const dhowi_cuda_conv_engine *engine;
    dhowi_cuda_device *device;
    dhow_conv_desc desc; /* its layouts are settled: both NCHW or both NHWC */
    /* Height and width, or depth, height and width; `pad` is that before the first element. */
    int spatial;
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
    uint64_t workspace_bytes;
    uint64_t packed_bytes; /* of the weight as the engine wants it; 0: as it is */
} dhowi_cuda_conv;

typedef struct dhowi_cuda_conv_buffers {
    dhow_buffer x, weight, y, bias, residual, workspace;
} dhowi_cuda_conv_buffers;

struct dhowi_cuda_conv_engine {
    /* The layout that it computes in most quickly. */
    uint32_t (*layout)(const dhow_conv_desc *desc);
    /* Plans `conv`, in which the bytes are still missing. UNSUPPORTED leaves it to the next engine.
     * The device's context is current. */
    int32_t (*plan)(const dhowi_cuda_conv *conv, dhowi_cuda_conv **out, dhow_error *err);
    int32_t (*pack)(dhowi_cuda_conv *conv, dhowi_cuda_stream *stream, dhow_buffer weight,
                    dhow_buffer packed, dhow_error *err);
    int32_t (*run)(dhowi_cuda_conv *conv, dhowi_cuda_stream *stream,
                   const dhowi_cuda_conv_buffers *buffers, dhow_error *err);
    void (*destroy)(dhowi_cuda_conv *conv);
};

extern const dhowi_cuda_conv_engine dhowi_cuda_conv_by_cudnn, dhowi_cuda_conv_by_product;

static inline bool dhowi_cuda_conv_has(const dhowi_cuda_conv *conv, uint32_t flag) {
    return (conv->desc.flags & flag) != 0;
}

/* Whether f32 may be rounded to TF32. */
static inline bool dhowi_cuda_conv_is_relaxed(const dhow_conv_desc *desc) {
    return desc->compute == DHOW_BF16 || desc->compute == DHOW_F16;
}

static inline uint64_t dhowi_cuda_conv_element_bytes(const dhow_conv_desc *desc) {
    return desc->dtype == DHOW_F32 ? 4 : 2;
}

static inline dhow_buffer dhowi_cuda_at(dhow_buffer buffer, uint64_t bytes) {
    buffer.offset += bytes;
    return buffer;
}

static inline uint64_t dhowi_cuda_align(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

#endif /* DHOW_CUDA_CONV_H_ */
