/* SPDX-License-Identifier: Apache-2.0
 *
 * The convolution that the fake cuDNN queues.
 */
#ifndef TESTS_FAKECUDA_CONV_H_
#define TESTS_FAKECUDA_CONV_H_

#include "fakecuda.h"
#include "numbers.h"

/* y = relu(alpha conv(x, w) + beta z + bias), in three dimensions of space. Strides are in
 * elements, in the order n c d h w; those of w k c d h w. */
typedef struct fake_conv {
    int32_t type;                           /* cudaDataType_t */
    bool tf32, relu, keeps_nan, transforms; /* transforms: a NaN spreads over its image */
    bool transposed;                        /* w maps y to x: [c][k/groups] */
    int64_t n, c, k, groups;
    int64_t in[3], out[3], kernel[3], pad[3], stride[3], dilation[3];
    int64_t x_strides[5], y_strides[5], w_strides[5];
    double alpha, beta;
    const void *x, *w, *z, *bias, *y;
    void *workspace;
    uint64_t workspace_bytes;
} fake_conv;

/* Whether the stream took it. */
bool fake_conv_submit(cudaStream_t stream, const fake_conv *conv);

#endif /* TESTS_FAKECUDA_CONV_H_ */
