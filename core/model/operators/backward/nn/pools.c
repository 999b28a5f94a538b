/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of pooling over rows, images and volumes.
 */
#include <math.h>

#include "model/operators/backward/nn/taps.h"

/* The windows of a pool, and its input, result and the result's derivative as volumes. */
static dhow_status pool_of(dhowi_reverser *r, dhowi_taps *f, int32_t *x, int32_t *y, int32_t *dy) {
    DHOWI_TRY(dhowi_back_input(r, 0, x));
    DHOWI_TRY(dhowi_back_output(r, y));
    DHOWI_TRY(dhowi_taps_of(r, NULL, f));
    DHOWI_TRY(dhowi_as_volume(r->b, *x, x));
    DHOWI_TRY(dhowi_as_volume(r->b, *y, y));
    return dhowi_as_volume(r->b, r->dy, dy);
}

/* Each window's derivative goes to its largest pixel, the first of several. */
dhow_status dhowi_back_maxpool(dhowi_reverser *r) {
    dhowi_lowering *b = r->b;
    int32_t x, y, dy, left = -1, hit, d;
    dhowi_taps f;
    DHOWI_TRY(pool_of(r, &f, &x, &y, &dy));
    const dhowi_tensor_desc volume = *dhowi_desc_at(b, x);
    dhowi_spread s = dhowi_spread_of(&f, &volume);
    DHOWI_TRY(dhowi_pad_volume(b, x, &f, -(double)INFINITY, &x));
    for (int64_t t = 0; t < dhowi_taps_count(&f); t++) {
        DHOWI_TRY(dhowi_tap_of(b, x, &f, t, &d));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_EQ, d, y, &hit));
        if (left >= 0) DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, hit, left, &hit));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, hit, dy, &d));
        DHOWI_TRY(dhowi_spread_tap(b, &s, t, d));
        if (left < 0)
            DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_RSUB, hit, 1, &left));
        else
            DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, left, hit, &left));
    }
    DHOWI_TRY(dhowi_cut_padding(b, &f, s.volume, &d));
    return dhowi_pass_volume(r, 0, d);
}

/* How many pixels of a row of windows are no padding. */
static dhow_status counts_along(dhowi_lowering *b, const dhowi_taps *f, int i, dhow_dtype dtype,
                                int32_t *out) {
    dhowi_tensor_desc desc = {.dtype = dtype, .rank = 3, .shape = {1, 1, 1}};
    int32_t part;
    desc.shape[i] = f->out[i];
    DHOWI_TRY(dhowi_filled(b, &desc, 0, out));
    for (int64_t k = 0; k < f->kernel[i]; k++) { /* 0 <= first + stride o < in, as floats */
        const double first = (double)(k * f->dilation[i] - f->before[i]);
        int32_t above;
        DHOWI_TRY(dhowi_numbers(b, dtype, first, (double)f->stride[i], f->out[i], &part));
        DHOWI_TRY(dhowi_reshape(b, part, 3, desc.shape, &part));
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_GE, part, 0, &above));
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_LT, part, (double)f->in[i], &part));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, part, above, &part));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, *out, part, out));
    }
    return DHOW_OK;
}

dhow_status dhowi_back_avgpool(dhowi_reverser *r) {
    dhowi_lowering *b = r->b;
    int32_t x, dy, counts[3], d;
    dhowi_taps f;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_taps_of(r, NULL, &f));
    DHOWI_TRY(dhowi_as_volume(b, x, &x));
    DHOWI_TRY(dhowi_as_volume(b, r->dy, &dy));
    const dhowi_tensor_desc volume = *dhowi_desc_at(b, x);
    dhowi_spread s = dhowi_spread_of(&f, &volume);
    if (f.counts_padding) {
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, dy, 1 / (double)dhowi_taps_count(&f), &d));
    } else {
        for (int i = 0; i < 3; i++) DHOWI_TRY(counts_along(b, &f, i, volume.dtype, &counts[i]));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, counts[0], counts[1], &d));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, counts[2], d, &d));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_DIV, dy, d, &d));
    }
    for (int64_t t = 0; t < dhowi_taps_count(&f); t++) DHOWI_TRY(dhowi_spread_tap(b, &s, t, d));
    DHOWI_TRY(dhowi_cut_padding(b, &f, s.volume, &d));
    return dhowi_pass_volume(r, 0, d);
}

/* y = (sum of |x|^p)^(1/p): to x goes the sum over its windows of dy y^(1 - p), times
 * sign(x) |x|^(p - 1). Where everything is 0, so is the derivative. */
dhow_status dhowi_back_lp_pool(dhowi_reverser *r) {
    dhowi_lowering *b = r->b;
    const double p = (double)dhowi_attr_int(b, "p", 2);
    int32_t x, y, dy, d, share;
    dhowi_taps f;
    DHOWI_TRY(pool_of(r, &f, &x, &y, &dy));
    const dhowi_tensor_desc volume = *dhowi_desc_at(b, x);
    dhowi_spread s = dhowi_spread_of(&f, &volume);
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_EQ, y, 0, &d));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, y, d, &y));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_POW, y, 1 - p, &y));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, dy, y, &dy));
    for (int64_t t = 0; t < dhowi_taps_count(&f); t++) DHOWI_TRY(dhowi_spread_tap(b, &s, t, dy));
    DHOWI_TRY(dhowi_cut_padding(b, &f, s.volume, &d));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_ABS, 0, 0, x, &share));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_POW, share, p - 1, &share));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SIGN, 0, 0, x, &x));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, share, x, &share));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, d, share, &d));
    return dhowi_pass_volume(r, 0, d);
}
