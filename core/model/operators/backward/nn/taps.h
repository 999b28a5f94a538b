/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows over volumes [n, c, d, h, w], walked tap by tap: what the derivatives of convolutions and
 * pooling share. Images are volumes of depth 1, rows [n, c, w] are of height 1 as well.
 */
#ifndef DHOWI_MODEL_OPERATORS_BACKWARD_TAPS_H_
#define DHOWI_MODEL_OPERATORS_BACKWARD_TAPS_H_

#include "model/operators/backward/backward.h"
#include "ops/run/op.h"

typedef struct dhowi_taps {
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], before[3], groups;
    int64_t padded[3]; /* in, its padding, and what a last window needs beyond it */
    bool counts_padding;
} dhowi_taps;

/* x[n, c, ...] of rank 3 to 5 as [n, c, d, h, w]; weights as well. */
dhow_status dhowi_as_volume(dhowi_lowering *b, int32_t x, int32_t *out);
/* The node's window: the builder's, or what the attributes of an operator say. `kernel` is that of
 * the weight, of a convolution; NULL for a pooling. */
dhow_status dhowi_taps_of(dhowi_reverser *r, const int64_t *kernel, dhowi_taps *f);
/* Of a window whose extents are known; more than 4096 taps are refused. */
dhow_status dhowi_taps_of_space(const dhowi_window3d *s, dhowi_taps *f);
int64_t dhowi_taps_count(const dhowi_taps *f);
/* What one tap reaches along an axis, from the first of its window to the last. */
int64_t dhowi_taps_reach(const dhowi_taps *f, int axis);
/* A volume with padding of a value around it. */
dhow_status dhowi_pad_volume(dhowi_lowering *b, int32_t x, const dhowi_taps *f, double value,
                             int32_t *out);
/* Of a padded volume: the pixels that tap t of each window sees. */
dhow_status dhowi_tap_of(dhowi_lowering *b, int32_t x, const dhowi_taps *f, int64_t t,
                         int32_t *out);
dhow_status dhowi_cut_padding(dhowi_lowering *b, const dhowi_taps *f, int32_t x, int32_t *out);
/* Zeros that steps may write into. */
dhow_status dhowi_zeros(dhowi_lowering *b, const dhowi_tensor_desc *desc, int32_t *out);
/* Passes on what is a volume as what the node read. */
dhow_status dhowi_pass_volume(dhowi_reverser *r, uint32_t i, int32_t d);

/* The sum over taps, in a volume with padding. Windows that do not overlap share one volume. */
typedef struct dhowi_spread {
    dhowi_taps f;
    dhowi_tensor_desc desc;
    int32_t volume; /* -1: none yet */
} dhowi_spread;
dhowi_spread dhowi_spread_of(const dhowi_taps *f, const dhowi_tensor_desc *volume);
dhow_status dhowi_spread_tap(dhowi_lowering *b, dhowi_spread *s, int64_t t, int32_t d);

#endif /* DHOWI_MODEL_OPERATORS_BACKWARD_TAPS_H_ */
