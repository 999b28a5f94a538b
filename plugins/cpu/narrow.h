/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions to few channels, NHWC: vectors run over the channels that are summed up, since those
 * of the result would leave most of a vector empty.
 */
#ifndef DHOW_PLUGINS_CPU_NARROW_H_
#define DHOW_PLUGINS_CPU_NARROW_H_

#include <stdint.h>

#include "activation.h"

enum { NARROW_LANES = 16, NARROW_MOST = 4 /* channels of the result */ };

typedef struct narrow_job {
    int64_t height, width, c, k;   /* of x; channels of x and y */
    int64_t out_height, out_width; /* of y */
    int64_t kh, kw;
    int64_t stride[2], dilation[2], pad[2]; /* top, left */
    const float *x, *weight;                /* the weight as narrow_pack() leaves it */
    const float *bias, *residual;
    float *y;
    cpu_activation activation;
} narrow_job;

static inline int64_t narrow_padded(int64_t c) {
    return (c + NARROW_LANES - 1) / NARROW_LANES * NARROW_LANES;
}

/* Row number `row` of all images' results. */
void narrow_row(const narrow_job *job, int64_t row);

#endif
