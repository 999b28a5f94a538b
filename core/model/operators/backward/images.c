/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of convolutions and pooling over images [n, c, h, w], and rows [n, c, w] as images
 * one pixel high.
 */
#include <math.h>

#include "base/memory/size.h"
#include "model/operators/backward/backward.h"
#include "model/operators/nn/nn.h"

enum { MOST_TAPS = 4096 }; /* each is a few steps of the plan */

/* A window over height and width. */
typedef struct frame {
    int64_t in[2], out[2], kernel[2], stride[2], dilation[2], before[2], after[2], groups;
    bool counts_padding;
} frame;

static frame frame_of_space(const dhowi_window3d *s) {
    frame f = {.groups = s->groups};
    for (int i = 0; i < 2; i++) {
        f.kernel[i] = s->kernel[i + 1];
        f.stride[i] = s->stride[i + 1];
        f.dilation[i] = s->dilation[i + 1];
        f.before[i] = s->before[i + 1];
        f.after[i] = s->after[i + 1];
    }
    return f;
}

/* The node's window: the builder's, or what the attributes of an operator say. `kernel` is that of
 * the weight, of a convolution. */
static dhow_status frame_of(dhowi_reverser *r, int32_t x, const int64_t *kernel, frame *f) {
    const dhowi_tensor_desc image = *dhowi_desc_at(r->b, x), *y = dhowi_desc_at(r->b, r->dy);
    if (image.rank != 3 && image.rank != 4) DHOWI_REFUSE("x has %d dimensions", image.rank);
    if (dhowi_is_built(r->node)) {
        const dhow_window *w = &r->node->attrs->window;
        *f = (frame){.groups = DHOWI_MAX(w->groups, (int64_t)1)};
        for (int i = 0; i < 2; i++) {
            f->kernel[i] = kernel != NULL ? kernel[i] : w->kernel[i];
            f->stride[i] = DHOWI_MAX(w->stride[i], (int64_t)1);
            f->dilation[i] = DHOWI_MAX(w->dilation[i], (int64_t)1);
            f->before[i] = w->pad[i];
            f->after[i] = w->pad[i + 2];
        }
    } else {
        dhowi_window3d s = {.kernel = {1, 1, 1}};
        if (kernel == NULL)
            DHOWI_TRY(dhowi_window_list(r->b, "kernel_shape", image.rank - 2, 0, 1, s.kernel));
        for (int i = 0; kernel != NULL && i < 2; i++) s.kernel[i + 1] = kernel[i];
        DHOWI_TRY(dhowi_window_of(r->b, &image, &s));
        *f = frame_of_space(&s);
        DHOWI_TRY(dhowi_attr_flag(r->b, "count_include_pad", false, &f->counts_padding));
    }
    if (f->kernel[0] > MOST_TAPS / f->kernel[1])
        DHOWI_REFUSE("a window of %lld x %lld; it has steps for up to %d places",
                     (long long)f->kernel[0], (long long)f->kernel[1], MOST_TAPS);
    for (int i = 0; i < 2; i++) {
        const bool flat = image.rank == 3 && i == 0;
        f->in[i] = flat ? 1 : image.shape[image.rank - 2 + i];
        f->out[i] = flat ? 1 : y->shape[y->rank - 2 + i];
    }
    return DHOW_OK;
}

static int64_t reach(const frame *f, int i) { return f->dilation[i] * (f->kernel[i] - 1) + 1; }

/* Extents with padding, and what a last window needs beyond it. */
static int64_t padded(const frame *f, int i) {
    return DHOWI_MAX(f->in[i] + f->before[i] + f->after[i],
                     (f->out[i] - 1) * f->stride[i] + reach(f, i));
}

static dhow_status pad_image(dhowi_lowering *b, int32_t x, const frame *f, double value,
                             int32_t *out) {
    const int64_t before[] = {0, 0, f->before[0], f->before[1]};
    const int64_t after[] = {0, 0, padded(f, 0) - f->in[0] - f->before[0],
                             padded(f, 1) - f->in[1] - f->before[1]};
    *out = x;
    if (before[2] == 0 && before[3] == 0 && after[2] == 0 && after[3] == 0) return DHOW_OK;
    return dhowi_pad_with(b, x, before, after, value, out);
}

/* Of a padded image: the pixels that tap t of each window sees. */
static dhow_status tap_of(dhowi_lowering *b, int32_t x, const frame *f, int64_t t, int32_t *out) {
    const int64_t at[] = {t / f->kernel[1] * f->dilation[0], t % f->kernel[1] * f->dilation[1]};
    *out = x;
    for (int i = 0; i < 2; i++)
        DHOWI_TRY(dhowi_narrow(b, *out, 2 + i, at[i], f->out[i], f->stride[i], out));
    return DHOW_OK;
}

static int64_t taps_of(const frame *f) { return f->kernel[0] * f->kernel[1]; }

static dhow_status zeros(dhowi_lowering *b, const dhowi_tensor_desc *desc, int32_t *out) {
    const dhowi_attrs zero = {.scalar = {dhow_scalar_f64(0)}};
    DHOWI_TRY(dhowi_blank(b, desc, out));
    return dhowi_emit_into(b, DHOWI_OP_fill, NULL, 0, &zero, *out);
}

/* One tap's derivatives, laid into an image of zeros that others may be in already. */
static dhow_status lay_tap(dhowi_lowering *b, int32_t d, const frame *f, int64_t t, int32_t image) {
    int32_t place;
    DHOWI_TRY(tap_of(b, image, f, t, &place));
    return dhowi_emit_into(b, DHOWI_OP_copy, &d, 1, NULL, place);
}

/* The sum over taps, in an image with padding, of which the padding is cut off. Windows that do not
 * overlap share one image. */
typedef struct spread {
    frame f;
    dhowi_tensor_desc desc;
    int32_t image; /* -1: none yet */
} spread;

static dhow_status spread_tap(dhowi_lowering *b, spread *s, int64_t t, int32_t d) {
    const frame *f = &s->f;
    const bool apart = f->stride[0] >= reach(f, 0) && f->stride[1] >= reach(f, 1);
    int32_t image = s->image;
    if (image < 0 || !apart) DHOWI_TRY(zeros(b, &s->desc, &image));
    DHOWI_TRY(lay_tap(b, d, f, t, image));
    if (s->image < 0 || apart) {
        s->image = image;
        return DHOW_OK;
    }
    return dhowi_map_two(b, DHOWI_MAP_ADD, s->image, image, &s->image);
}

static dhow_status cut_padding(dhowi_lowering *b, const frame *f, int32_t image, int32_t *out) {
    *out = image;
    for (int i = 0; i < 2; i++)
        DHOWI_TRY(dhowi_narrow(b, *out, 2 + i, f->before[i], f->in[i], 1, out));
    return DHOW_OK;
}

static spread spread_of(const frame *f, const dhowi_tensor_desc *image) {
    spread s = {.f = *f, .desc = *image, .image = -1};
    for (int i = 0; i < 2; i++) s.desc.shape[2 + i] = padded(f, i);
    return s;
}

/* Passes on what is an image as what the node read. */
static dhow_status pass_image(dhowi_reverser *r, uint32_t i, int32_t d) {
    int32_t x;
    DHOWI_TRY(dhowi_back_input(r, i, &x));
    const dhowi_tensor_desc own = *dhowi_desc_at(r->b, x);
    DHOWI_TRY(dhowi_reshape(r->b, d, own.rank, own.shape, &d));
    return dhowi_back_pass(r, i, d);
}

/* ---- pooling ---- */

/* Each window's derivative goes to its largest pixel, the first of several. */
dhow_status dhowi_back_maxpool(dhowi_reverser *r) {
    dhowi_lowering *b = r->b;
    int32_t x, y, dy, left = -1, hit, d;
    frame f;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_back_output(r, &y));
    DHOWI_TRY(frame_of(r, x, NULL, &f));
    DHOWI_TRY(dhowi_as_image(b, x, &x));
    DHOWI_TRY(dhowi_as_image(b, y, &y));
    DHOWI_TRY(dhowi_as_image(b, r->dy, &dy));
    const dhowi_tensor_desc image = *dhowi_desc_at(b, x);
    spread s = spread_of(&f, &image);
    DHOWI_TRY(pad_image(b, x, &f, -(double)INFINITY, &x));
    for (int64_t t = 0; t < taps_of(&f); t++) {
        DHOWI_TRY(tap_of(b, x, &f, t, &d));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_EQ, d, y, &hit));
        if (left >= 0) DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, hit, left, &hit));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, hit, dy, &d));
        DHOWI_TRY(spread_tap(b, &s, t, d));
        if (left < 0)
            DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_RSUB, hit, 1, &left));
        else
            DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, left, hit, &left));
    }
    DHOWI_TRY(cut_padding(b, &f, s.image, &d));
    return pass_image(r, 0, d);
}

/* How many pixels of a row of windows are no padding. */
static dhow_status counts_along(dhowi_lowering *b, const frame *f, int i, dhow_dtype dtype,
                                int32_t *out) {
    const int64_t shape[] = {i == 0 ? f->out[0] : 1, i == 0 ? 1 : f->out[1]};
    const dhowi_tensor_desc desc = {.dtype = dtype, .rank = 2, .shape = {shape[0], shape[1]}};
    int32_t part;
    DHOWI_TRY(dhowi_filled(b, &desc, 0, out));
    for (int64_t k = 0; k < f->kernel[i]; k++) { /* 0 <= first + stride o < in, as floats */
        const double first = (double)(k * f->dilation[i] - f->before[i]);
        int32_t above;
        DHOWI_TRY(dhowi_numbers(b, dtype, first, (double)f->stride[i], f->out[i], &part));
        DHOWI_TRY(dhowi_reshape(b, part, 2, shape, &part));
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_GE, part, 0, &above));
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_LT, part, (double)f->in[i], &part));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, part, above, &part));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, *out, part, out));
    }
    return DHOW_OK;
}

dhow_status dhowi_back_avgpool(dhowi_reverser *r) {
    dhowi_lowering *b = r->b;
    int32_t x, dy, counts[2], d;
    frame f;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(frame_of(r, x, NULL, &f));
    DHOWI_TRY(dhowi_as_image(b, x, &x));
    DHOWI_TRY(dhowi_as_image(b, r->dy, &dy));
    const dhowi_tensor_desc image = *dhowi_desc_at(b, x);
    spread s = spread_of(&f, &image);
    if (f.counts_padding) {
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, dy, 1 / (double)taps_of(&f), &d));
    } else {
        for (int i = 0; i < 2; i++) DHOWI_TRY(counts_along(b, &f, i, image.dtype, &counts[i]));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, counts[0], counts[1], &d));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_DIV, dy, d, &d));
    }
    for (int64_t t = 0; t < taps_of(&f); t++) DHOWI_TRY(spread_tap(b, &s, t, d));
    DHOWI_TRY(cut_padding(b, &f, s.image, &d));
    return pass_image(r, 0, d);
}

/* The mean of all pixels. */
dhow_status dhowi_back_global_avgpool(dhowi_reverser *r) {
    int32_t x, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    const dhowi_tensor_desc own = *dhowi_desc_at(r->b, x);
    const double pixels = (double)dhowi_extent(&own, 2, own.rank);
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_MUL, r->dy, 1 / pixels, &d));
    DHOWI_TRY(dhowi_expand(r->b, d, own.rank, own.shape, &d));
    return dhowi_back_pass(r, 0, d);
}

/* ---- convolution ---- */

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

/* dy with stride - 1 zeros between pixels, and so many around it that a convolution of stride 1
 * gives the image; negative ones are cut off. *out is -1 where nothing is left: windows that see
 * nothing but padding. */
static dhow_status widen(dhowi_lowering *b, int32_t dy, const frame *f, int32_t *out,
                         int64_t pad[4]) {
    dhowi_tensor_desc desc = *dhowi_desc_at(b, dy);
    int32_t place;
    for (int i = 0; i < 2; i++) desc.shape[2 + i] = (f->out[i] - 1) * f->stride[i] + 1;
    *out = dy;
    if (f->stride[0] > 1 || f->stride[1] > 1) {
        DHOWI_TRY(zeros(b, &desc, out));
        place = *out;
        for (int i = 0; i < 2; i++)
            DHOWI_TRY(dhowi_narrow(b, place, 2 + i, 0, f->out[i], f->stride[i], &place));
        DHOWI_TRY(dhowi_emit_into(b, DHOWI_OP_copy, &dy, 1, NULL, place));
    }
    for (int i = 0; i < 2; i++) {
        int64_t before = reach(f, i) - 1 - f->before[i],
                after = f->in[i] + reach(f, i) - 1 - desc.shape[2 + i] - before;
        const int64_t cut = DHOWI_MAX(-before, (int64_t)0) + DHOWI_MAX(-after, (int64_t)0);
        if (cut >= desc.shape[2 + i]) {
            *out = -1;
            return DHOW_OK;
        }
        if (cut > 0)
            DHOWI_TRY(dhowi_narrow(b, *out, 2 + i, DHOWI_MAX(-before, (int64_t)0),
                                   desc.shape[2 + i] - cut, 1, out));
        pad[i] = DHOWI_MAX(before, (int64_t)0);
        pad[i + 2] = DHOWI_MAX(after, (int64_t)0);
    }
    return dhowi_dense(b, *out, out);
}

static dhow_status by_image(dhowi_reverser *r, int32_t w, int32_t dy, const frame *f,
                            dhowi_tensor_desc image) {
    int64_t pad[4];
    int32_t in[3] = {-1, -1, -1}, d;
    DHOWI_TRY(widen(r->b, dy, f, &in[0], pad));
    if (in[0] < 0) {
        DHOWI_TRY(zeros(r->b, &image, &d));
        return pass_image(r, 0, d);
    }
    DHOWI_TRY(weight_back(r->b, w, f->groups, &in[1]));
    const dhowi_attrs attrs = {
        .window = DHOW_INIT(dhow_window, .kernel = {f->kernel[0], f->kernel[1]}, .stride = {1, 1},
                            .pad = {pad[0], pad[1], pad[2], pad[3]},
                            .dilation = {f->dilation[0], f->dilation[1]}, .groups = f->groups)};
    DHOWI_TRY(dhowi_emit(r->b, DHOWI_OP_conv2d, in, 3, &attrs, &image, &d));
    return pass_image(r, 0, d);
}

/* [n, c, h, w] as [c, n, h, w] */
static dhow_status channels_first(dhowi_lowering *b, int32_t x, int32_t *out) {
    static const int32_t order[] = {1, 0, 2, 3};
    return dhowi_permute(b, x, order, out);
}

/* A product of dy as [k, n pixels] with what the taps see, as [c taps, n pixels]: im2col. */
static dhow_status by_weight(dhowi_reverser *r, int32_t x, int32_t dy, const frame *f) {
    dhowi_lowering *b = r->b;
    const dhowi_tensor_desc image = *dhowi_desc_at(b, x), result = *dhowi_desc_at(b, dy);
    const int64_t taps = taps_of(f), pixels = image.shape[0] * f->out[0] * f->out[1], g = f->groups;
    const int64_t one[] = {image.shape[1], image.shape[0], f->out[0], f->out[1]};
    const int64_t rows[] = {g, result.shape[1] / g, pixels},
                  columns[] = {g, image.shape[1] / g * taps, pixels};
    const dhowi_tensor_desc desc = {
        .dtype = image.dtype, .rank = 5, .shape = {one[0], taps, one[1], one[2], one[3]}};
    int32_t all, seen, place, d;
    DHOWI_TRY(pad_image(b, x, f, 0, &x));
    DHOWI_TRY(dhowi_blank(b, &desc, &all));
    for (int64_t t = 0; t < taps; t++) {
        DHOWI_TRY(tap_of(b, x, f, t, &seen));
        DHOWI_TRY(channels_first(b, seen, &seen));
        const int64_t strides[] = {taps * pixels, one[2] * one[3], one[3], 1};
        DHOWI_TRY(dhowi_view(b, all, 4, one, strides, t * pixels, &place));
        DHOWI_TRY(dhowi_emit_into(b, DHOWI_OP_copy, &seen, 1, NULL, place));
    }
    DHOWI_TRY(dhowi_reshape(b, all, 3, columns, &all));
    DHOWI_TRY(channels_first(b, dy, &d));
    DHOWI_TRY(dhowi_reshape(b, d, 3, rows, &d));
    DHOWI_TRY(dhowi_turned(b, all, &all));
    DHOWI_TRY(dhowi_product(b, d, all, -1, &d));
    return pass_image(r, 1, d);
}

dhow_status dhowi_back_conv(dhowi_reverser *r) {
    dhowi_lowering *b = r->b;
    int32_t x, w, dy, d;
    frame f;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_back_input(r, 1, &w));
    DHOWI_TRY(dhowi_as_image(b, w, &w));
    DHOWI_TRY(frame_of(r, x, dhowi_desc_at(b, w)->shape + 2, &f));
    DHOWI_TRY(dhowi_as_image(b, x, &x));
    DHOWI_TRY(dhowi_as_image(b, r->dy, &dy));
    if (dhowi_back_wants(r, 2)) {
        DHOWI_TRY(dhowi_sum_but(b, dy, 1, &d));
        DHOWI_TRY(dhowi_back_pass(r, 2, d));
    }
    if (dhowi_back_wants(r, 1)) DHOWI_TRY(by_weight(r, x, dy, &f));
    if (!dhowi_back_wants(r, 0)) return DHOW_OK;
    const dhowi_tensor_desc image = *dhowi_desc_at(b, x);
    return by_image(r, w, dy, &f, image);
}
