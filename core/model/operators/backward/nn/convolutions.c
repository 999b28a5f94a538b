/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of convolutions and transposed convolutions over rows, images and volumes. With v the
 * derivative of a convolution y = conv(x, w), that by x is the transposed convolution of v by w,
 * and the other way round; that by w is a product of v with what the taps see of x, for both.
 */
#include <string.h>

#include "base/memory/size.h"
#include "model/lower/products/products.h"
#include "model/operators/backward/nn/taps.h"
#include "model/operators/nn/nn.h"

/* [n, c, 1, h, w] as [n, c, h, w] */
static dhow_status flat(dhowi_lowering *b, int32_t x, int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    const int64_t shape[] = {own.shape[0], own.shape[1], own.shape[3], own.shape[4]};
    return dhowi_reshape(b, x, 4, shape, out);
}

/* ---- by the image ---- */

/* The weight of the convolution that goes back: [g, k/g, c/g, h, w] as [g c/g, k/g, h, w], pixels
 * in the other order. */
static dhow_status weight_back(dhowi_lowering *b, int32_t w, int64_t groups, int32_t *out) {
    static const int32_t order[] = {0, 2, 1, 3, 4};
    const dhowi_tensor_desc d = *dhowi_desc_at(b, w);
    const int64_t *e = d.shape, split[] = {groups, e[0] / groups, e[1], e[2], e[3]};
    const int64_t joined[] = {groups * e[1], e[0] / groups, e[2], e[3]};
    DHOWI_TRY(dhowi_reshape(b, w, 5, split, out));
    DHOWI_TRY(dhowi_permute(b, *out, order, out));
    DHOWI_TRY(dhowi_reshape(b, *out, 4, joined, out));
    for (int i = 2; i < 4; i++) {
        if (e[i] > 1) DHOWI_TRY(dhowi_narrow(b, *out, i, e[i] - 1, e[i], -1, out));
    }
    return dhowi_dense(b, *out, out);
}

/* v[n, k, h, w] with stride - 1 zeros between pixels, and so many around it that a convolution of
 * stride 1 gives the image; negative ones are cut off. *out is -1 where nothing is left: windows
 * that see nothing but padding. */
static dhow_status widen(dhowi_lowering *b, int32_t v, const dhowi_taps *f, int32_t *out,
                         int64_t pad[4]) {
    dhowi_tensor_desc desc = *dhowi_desc_at(b, v);
    int32_t place;
    for (int i = 1; i < 3; i++) desc.shape[1 + i] = (f->out[i] - 1) * f->stride[i] + 1;
    *out = v;
    if (f->stride[1] > 1 || f->stride[2] > 1) {
        DHOWI_TRY(dhowi_zeros(b, &desc, out));
        place = *out;
        for (int i = 1; i < 3; i++)
            DHOWI_TRY(dhowi_narrow(b, place, 1 + i, 0, f->out[i], f->stride[i], &place));
        DHOWI_TRY(dhowi_emit_into(b, DHOWI_OP_copy, &v, 1, NULL, place));
    }
    for (int i = 1; i < 3; i++) {
        int64_t before = dhowi_taps_reach(f, i) - 1 - f->before[i],
                after = f->in[i] + dhowi_taps_reach(f, i) - 1 - desc.shape[1 + i] - before;
        const int64_t cut = DHOWI_MAX(-before, (int64_t)0) + DHOWI_MAX(-after, (int64_t)0);
        if (cut >= desc.shape[1 + i]) {
            *out = -1;
            return DHOW_OK;
        }
        if (cut > 0)
            DHOWI_TRY(dhowi_narrow(b, *out, 1 + i, DHOWI_MAX(-before, (int64_t)0),
                                   desc.shape[1 + i] - cut, 1, out));
        pad[i - 1] = DHOWI_MAX(before, (int64_t)0);
        pad[i + 1] = DHOWI_MAX(after, (int64_t)0);
    }
    return dhowi_dense(b, *out, out);
}

/* Of images: a convolution, whose kernels are the fastest. */
static dhow_status image_back(dhowi_lowering *b, int32_t w, int32_t v, const dhowi_taps *f,
                              const dhowi_tensor_desc *image, int32_t *out) {
    const dhowi_tensor_desc desc = {
        .dtype = image->dtype,
        .rank = 4,
        .shape = {image->shape[0], image->shape[1], image->shape[3], image->shape[4]}};
    int64_t pad[4];
    int32_t in[3] = {-1, -1, -1};
    DHOWI_TRY(flat(b, v, &v));
    DHOWI_TRY(flat(b, w, &w));
    DHOWI_TRY(widen(b, v, f, &in[0], pad));
    if (in[0] < 0) return dhowi_zeros(b, image, out);
    DHOWI_TRY(weight_back(b, w, f->groups, &in[1]));
    const dhowi_attrs attrs = {
        .window = DHOW_INIT(dhow_window, .kernel = {f->kernel[1], f->kernel[2]}, .stride = {1, 1},
                            .pad = {pad[0], pad[1], pad[2], pad[3]},
                            .dilation = {f->dilation[1], f->dilation[2]}, .groups = f->groups)};
    return dhowi_emit(b, DHOWI_OP_conv2d, in, 3, &attrs, &desc, out);
}

/* The transposed convolution that gives the image; where the last windows end before it does,
 * `after` is negative. */
static dhowi_window3d space_back(const dhowi_taps *f) {
    dhowi_window3d s = {.groups = f->groups};
    for (int i = 0; i < 3; i++) {
        s.in[i] = f->out[i];
        s.out[i] = f->in[i];
        s.kernel[i] = f->kernel[i];
        s.stride[i] = f->stride[i];
        s.dilation[i] = f->dilation[i];
        s.before[i] = f->before[i];
        s.after[i] =
            (f->out[i] - 1) * f->stride[i] + dhowi_taps_reach(f, i) - f->in[i] - f->before[i];
    }
    return s;
}

/* The transposed convolution itself: dhow's of volumes, or a library's where it takes it. */
static dhow_status volume_back(dhowi_lowering *b, dhowi_op_id op, int32_t w, int32_t v,
                               const dhowi_taps *f, const dhowi_tensor_desc *volume, int32_t *out) {
    const int32_t in[] = {v, w, -1};
    const dhowi_attrs attrs = {.space = space_back(f)};
    return dhowi_emit(b, op, in, 3, &attrs, volume, out);
}

static dhow_status by_image(dhowi_lowering *b, int32_t w, int32_t v, const dhowi_taps *f,
                            const dhowi_tensor_desc *x, bool volumes, int32_t *out) {
    const dhowi_tensor_desc dy = *dhowi_desc_at(b, v);
    const dhowi_window3d space = space_back(f);
    bool taken;
    if (volumes) return volume_back(b, DHOWI_OP_conv_transpose, w, v, f, x, out);
    DHOWI_TRY(dhowi_conv_takes_transposed(b->device, &space, dy.shape[0], dy.shape[1], x->shape[1],
                                          x->dtype, dhowi_model_inside(b->model), &taken));
    if (!taken) return image_back(b, w, v, f, x, out);
    return volume_back(b, DHOWI_OP_conv_data_gradient, w, v, f, x, out);
}

/* ---- by the weight ---- */

/* [n, c, ...] as [c, n, ...] */
static dhow_status channels_first(dhowi_lowering *b, int32_t x, int32_t *out) {
    static const int32_t order[] = {1, 0, 2, 3, 4};
    return dhowi_permute(b, x, order, out);
}

/* A product of v as [k, n pixels] with what the taps see of x, as [c taps, n pixels]: im2col. */
static dhow_status weight_by_product(dhowi_lowering *b, int32_t x, int32_t v, const dhowi_taps *f,
                                     int32_t *out) {
    const dhowi_tensor_desc volume = *dhowi_desc_at(b, x), result = *dhowi_desc_at(b, v);
    const int64_t taps = dhowi_taps_count(f), g = f->groups, n = volume.shape[0],
                  c = volume.shape[1], each = f->out[0] * f->out[1] * f->out[2], pixels = n * each;
    const int64_t one[] = {c, n, f->out[0], f->out[1], f->out[2]};
    const int64_t rows[] = {g, result.shape[1] / g, pixels}, columns[] = {g, c / g * taps, pixels};
    const dhowi_tensor_desc desc = {
        .dtype = volume.dtype, .rank = 6, .shape = {c, taps, n, one[2], one[3], one[4]}};
    int32_t all, seen, place;
    DHOWI_TRY(dhowi_pad_volume(b, x, f, 0, &x));
    DHOWI_TRY(dhowi_blank(b, &desc, &all));
    for (int64_t t = 0; t < taps; t++) {
        const int64_t strides[] = {taps * pixels, each, one[3] * one[4], one[4], 1};
        DHOWI_TRY(dhowi_tap_of(b, x, f, t, &seen));
        DHOWI_TRY(channels_first(b, seen, &seen));
        DHOWI_TRY(dhowi_view(b, all, 5, one, strides, t * pixels, &place));
        DHOWI_TRY(dhowi_emit_into(b, DHOWI_OP_copy, &seen, 1, NULL, place));
    }
    DHOWI_TRY(dhowi_reshape(b, all, 3, columns, &all));
    DHOWI_TRY(channels_first(b, v, &v));
    DHOWI_TRY(dhowi_reshape(b, v, 3, rows, &v));
    DHOWI_TRY(dhowi_turned(b, all, &all));
    return dhowi_product(b, v, all, -1, out);
}

/* By a library where it takes it. */
static dhow_status by_weight(dhowi_lowering *b, int32_t x, int32_t v, const dhowi_taps *f,
                             int32_t *out) {
    const dhowi_tensor_desc in = *dhowi_desc_at(b, x), result = *dhowi_desc_at(b, v);
    const int32_t operands[] = {x, v};
    dhowi_window3d s = space_back(f); /* the same, seen from the other side */
    memcpy(s.in, f->in, sizeof s.in);
    memcpy(s.out, f->out, sizeof s.out);
    const dhowi_attrs attrs = {.space = s};
    const dhowi_tensor_desc weight = {.dtype = in.dtype,
                                      .rank = 5,
                                      .shape = {result.shape[1], in.shape[1] / f->groups,
                                                f->kernel[0], f->kernel[1], f->kernel[2]}};
    bool taken;
    DHOWI_TRY(dhowi_conv_takes_weight_gradient(b->device, &s, in.shape[0], in.shape[1],
                                               result.shape[1], in.dtype,
                                               dhowi_model_inside(b->model), &taken));
    if (!taken) return weight_by_product(b, x, v, f, out);
    return dhowi_emit(b, DHOWI_OP_conv_weight_gradient, operands, 2, &attrs, &weight, out);
}

/* ---- the operators ---- */

static dhow_status by_bias(dhowi_reverser *r) {
    int32_t d;
    if (!dhowi_back_wants(r, 2)) return DHOW_OK;
    DHOWI_TRY(dhowi_sum_but(r->b, r->dy, 1, &d));
    return dhowi_back_pass(r, 2, d);
}

dhow_status dhowi_back_conv(dhowi_reverser *r) {
    dhowi_lowering *b = r->b;
    int32_t x, w, v, d;
    dhowi_taps f;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_back_input(r, 1, &w));
    const bool volumes = dhowi_desc_at(b, x)->rank == 5;
    DHOWI_TRY(dhowi_as_volume(b, w, &w));
    DHOWI_TRY(dhowi_taps_of(r, dhowi_desc_at(b, w)->shape + 2, &f));
    DHOWI_TRY(dhowi_as_volume(b, x, &x));
    DHOWI_TRY(dhowi_as_volume(b, r->dy, &v));
    DHOWI_TRY(by_bias(r));
    if (dhowi_back_wants(r, 1)) {
        DHOWI_TRY(by_weight(b, x, v, &f, &d));
        DHOWI_TRY(dhowi_pass_volume(r, 1, d));
    }
    if (!dhowi_back_wants(r, 0)) return DHOW_OK;
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    DHOWI_TRY(by_image(b, w, v, &f, &own, volumes, &d));
    return dhowi_pass_volume(r, 0, d);
}

/* conv(v, w), of the extents that x had: pixels of v that no window sees are cut off. */
static dhow_status convolve(dhowi_lowering *b, int32_t v, int32_t w, const dhowi_taps *f,
                            const dhowi_tensor_desc *x, bool volumes, int32_t *out) {
    dhowi_attrs attrs = {0};
    dhowi_tensor_desc desc = *x;
    int32_t in[] = {v, w, -1};
    int64_t after[3], kept[3];
    for (int i = 0; i < 3; i++) {
        after[i] =
            (f->out[i] - 1) * f->stride[i] + dhowi_taps_reach(f, i) - f->in[i] - f->before[i];
        kept[i] = f->in[i] - DHOWI_MAX(-after[i], (int64_t)0);
        after[i] = DHOWI_MAX(after[i], (int64_t)0);
        if (kept[i] < 1) return dhowi_zeros(b, x, out);
        if (kept[i] < f->in[i]) DHOWI_TRY(dhowi_narrow(b, in[0], 2 + i, 0, kept[i], 1, &in[0]));
    }
    DHOWI_TRY(dhowi_dense(b, in[0], &in[0]));
    if (!volumes) {
        attrs.window = DHOW_INIT(dhow_window, .kernel = {f->kernel[1], f->kernel[2]},
                                 .stride = {f->stride[1], f->stride[2]},
                                 .pad = {f->before[1], f->before[2], after[1], after[2]},
                                 .dilation = {f->dilation[1], f->dilation[2]}, .groups = f->groups);
        DHOWI_TRY(flat(b, in[0], &in[0]));
        DHOWI_TRY(flat(b, in[1], &in[1]));
        desc.rank = 4;
        desc.shape[2] = desc.shape[3];
        desc.shape[3] = desc.shape[4];
        return dhowi_emit(b, DHOWI_OP_conv2d, in, 3, &attrs, &desc, out);
    }
    attrs.space.groups = f->groups;
    for (int i = 0; i < 3; i++) {
        attrs.space.in[i] = kept[i];
        attrs.space.out[i] = f->out[i];
        attrs.space.kernel[i] = f->kernel[i];
        attrs.space.stride[i] = f->stride[i];
        attrs.space.dilation[i] = f->dilation[i];
        attrs.space.before[i] = f->before[i];
        attrs.space.after[i] = after[i];
    }
    return dhowi_emit(b, DHOWI_OP_conv3d, in, 3, &attrs, &desc, out);
}

/* The convolution that it is the transpose of has its result as input. */
dhow_status dhowi_back_conv_transpose(dhowi_reverser *r) {
    dhowi_lowering *b = r->b;
    int32_t x, w, v, d;
    dhowi_window3d s;
    dhowi_taps f;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_back_input(r, 1, &w));
    const bool volumes = dhowi_desc_at(b, x)->rank == 5;
    DHOWI_TRY(dhowi_transposed_window(b, x, w, &s));
    for (int i = 0; i < 3; i++) {
        const int64_t extent = s.in[i];
        s.in[i] = s.out[i];
        s.out[i] = extent;
    }
    DHOWI_TRY(dhowi_taps_of_space(&s, &f));
    DHOWI_TRY(dhowi_as_volume(b, w, &w));
    DHOWI_TRY(dhowi_as_volume(b, x, &x));
    DHOWI_TRY(dhowi_as_volume(b, r->dy, &v));
    DHOWI_TRY(by_bias(r));
    if (dhowi_back_wants(r, 1)) {
        DHOWI_TRY(by_weight(b, v, x, &f, &d));
        DHOWI_TRY(dhowi_pass_volume(r, 1, d));
    }
    if (!dhowi_back_wants(r, 0)) return DHOW_OK;
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    DHOWI_TRY(convolve(b, v, w, &f, &own, volumes, &d));
    return dhowi_pass_volume(r, 0, d);
}
