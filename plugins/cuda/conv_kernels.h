/* SPDX-License-Identifier: Apache-2.0
 *
 * The built-in kernels around convolutions, launched by the plugin itself.
 */
#ifndef DHOW_CUDA_CONV_KERNELS_H_
#define DHOW_CUDA_CONV_KERNELS_H_

#include "conv.h"

typedef struct dhowi_cuda_conv_kernels {
    void *copy, *add, *im2col, *depthwise;
} dhowi_cuda_conv_kernels;

/* For buffers of at most `elements`. UNSUPPORTED where the plugin has no code for the device:
 * texts are the host's. */
int32_t dhowi_cuda_conv_kernels_of(dhowi_cuda_device *device, int32_t dtype, int64_t elements,
                                   dhowi_cuda_conv_kernels *out, dhow_error *err);

/* A box of elements, each end with strides of its own. */
typedef struct dhowi_cuda_conv_box {
    int64_t shape[3], from[3], to[3];
} dhowi_cuda_conv_box;
/* Images between NCHW and NHWC; to_last: channels become the last dimension. */
dhowi_cuda_conv_box dhowi_cuda_conv_turned(int64_t n, int64_t channels, int64_t pixels,
                                           bool to_last);
int32_t dhowi_cuda_conv_copy(const dhowi_cuda_conv_kernels *kernels, dhowi_cuda_stream *stream,
                             const dhowi_cuda_conv_box *box, dhow_buffer from, dhow_buffer to,
                             dhow_error *err);

/* y += x, of `count` elements. */
int32_t dhowi_cuda_conv_add(const dhowi_cuda_conv_kernels *kernels, dhowi_cuda_stream *stream,
                            int64_t count, dhow_buffer x, dhow_buffer y, dhow_error *err);

/* The pixels of y from `first` on as rows of a matrix, each group's part of a row `row` elements.
 */
int32_t dhowi_cuda_conv_im2col(const dhowi_cuda_conv_kernels *kernels, dhowi_cuda_stream *stream,
                               const dhowi_cuda_conv *conv, dhow_buffer x, dhow_buffer matrix,
                               int64_t first, int64_t pixels, int64_t row, dhow_error *err);

/* In NHWC, with all that follows; the weight is [kh][kw][c]. */
int32_t dhowi_cuda_conv_depthwise(const dhowi_cuda_conv_kernels *kernels, dhowi_cuda_stream *stream,
                                  const dhowi_cuda_conv *conv,
                                  const dhowi_cuda_conv_buffers *buffers, dhow_error *err);

#endif /* DHOW_CUDA_CONV_KERNELS_H_ */
