/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution, and the transposed one.
 */
#include <inttypes.h>
#include <string.h>

#include "base/errors/planted.h"
#include "base/memory/size.h"
#include "kernel/optimise.h"
#include "model/lower/products/products.h"
#include "model/operators/nn/nn.h"

static dhow_status check_convolution(const dhowi_tensor_desc *x, const dhowi_tensor_desc *w,
                                     int64_t groups, bool transposed) {
    char text[160];
    int64_t channels = x->shape[1], own = w->shape[transposed ? 0 : 1];
    if (w->rank != x->rank || w->dtype != x->dtype)
        DHOWI_REFUSE("weight is %s", dhowi_desc_text(w, text, sizeof text));
    if (groups < 1 || channels % groups != 0)
        DHOWI_REFUSE("group %" PRId64 " does not divide %" PRId64 " input channels", groups,
                     channels);
    if (transposed ? own != channels : own * groups != channels)
        DHOWI_REFUSE("weight %s takes %" PRId64 " input channels, x has %" PRId64,
                     dhowi_desc_text(w, text, sizeof text), transposed ? own : own * groups,
                     channels);
    if (!transposed && w->shape[0] % groups != 0)
        DHOWI_REFUSE("group %" PRId64 " does not divide %" PRId64 " output channels", groups,
                     w->shape[0]);
    return DHOW_OK;
}

dhow_status dhowi_kernel_of_weight(const dhowi_lowering *b, const dhowi_tensor_desc *w,
                                   dhowi_window3d *s) {
    uint32_t count;
    const int64_t *given = dhowi_attr_ints(b, "kernel_shape", &count);
    for (int i = 0; i < 3; i++) s->kernel[i] = i < 5 - w->rank ? 1 : w->shape[w->rank - 3 + i];
    for (int i = 0; i < 3; i++) {
        if (s->kernel[i] < 1 || s->kernel[i] > DHOWI_MAX_WINDOW)
            DHOWI_REFUSE("the weight has a kernel of extent %" PRId64, s->kernel[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (count != (uint32_t)w->rank - 2 || given[i] != w->shape[2 + i])
            DHOWI_REFUSE("kernel_shape is not that of the weight");
    }
    return DHOW_OK;
}

static void swap_last(int64_t v[3]) {
    int64_t kept = v[1];
    v[1] = v[2];
    v[2] = kept;
}

/* Images one pixel wide become images one pixel high: rows are what kernels run along. */
static dhow_status lay_down(dhowi_lowering *b, int32_t *in, dhowi_window3d *s,
                            dhowi_tensor_desc *image) {
    for (int i = 0; i < 2; i++) {
        dhowi_tensor_desc desc = *dhowi_desc_at(b, in[i]);
        desc.shape[3] = desc.shape[2];
        desc.shape[2] = 1;
        DHOWI_TRY(dhowi_reshape(b, in[i], 4, desc.shape, &in[i]));
    }
    swap_last(s->kernel);
    swap_last(s->stride);
    swap_last(s->before);
    swap_last(s->after);
    swap_last(s->dilation);
    image->shape[3] = image->shape[2];
    image->shape[2] = 1;
    return DHOW_OK;
}

/* ---- quantised values ---- */

/* With x = (p - z) s and known weights (q - w) t[k], where r = q - w are bytes as well, a result is
 * s t[k] times the sum of (p - z) r: a sum of integers, which is exact, with padding that stands
 * for z. */

/* What a convolution of quantised values is computed of. */
typedef struct codes_of_conv {
    int32_t x, weight;  /* codes */
    int32_t zero;       /* of x */
    int32_t given_zero; /* an item where it is not known, else -1 */
    double scale;
    int32_t weight_zero, weight_scale, bias; /* known items, -1: none */
    bool scaled;                             /* else the sums are wanted, as i32 */
} codes_of_conv;

/* Larger sums would not fit 32 bits. */
enum { MOST_TERMS = 1 << 16 };

/* Whether an item is not there, or known and one number or one for each of the first extent. */
static bool is_by_result(const dhowi_lowering *b, int32_t ref, const dhowi_tensor_desc *weight) {
    if (ref < 0) return true;
    const dhowi_tensor_desc *own = dhowi_desc_at(b, ref);
    const int64_t count = dhowi_count_of(own);
    return dhowi_is_known(b, ref) &&
           (count == 1 ||
            (own->rank == weight->rank && count == weight->shape[0] && own->shape[0] == count));
}

static bool has_codes(dhowi_lowering *b, int32_t x, int32_t weight, int32_t bias,
                      codes_of_conv *c) {
    const dhowi_item *p = &b->items[x], *q = &b->items[weight];
    double zero;
    if (p->codes == 0 || q->codes == 0) return false;
    if (dhowi_count_of(&p->desc) == 0 || dhowi_count_of(&q->desc) == 0) return false;
    const int64_t terms = dhowi_count_of(&q->desc) / q->desc.shape[0];
    *c = (codes_of_conv){.x = p->codes - 1,
                         .weight = q->codes - 1,
                         .weight_zero = q->zero - 1,
                         .weight_scale = q->scale - 1,
                         .bias = bias,
                         .scaled = p->scale != 0};
    if (!dhowi_is_known(b, c->weight) || !b->items[c->weight].contiguous ||
        dhowi_is_known(b, c->x) || terms > MOST_TERMS || (p->scale != 0) != (q->scale != 0) ||
        (bias >= 0 && !dhowi_is_known(b, bias)) || !is_by_result(b, c->weight_zero, &q->desc) ||
        !is_by_result(b, c->weight_scale, &q->desc) ||
        (p->scale != 0 && dhowi_desc_at(b, q->scale - 1)->dtype != DHOW_F32) ||
        (bias >= 0 && dhowi_desc_at(b, bias)->dtype != DHOW_F32) ||
        !dhowi_known_number(b, p->scale - 1, 1, &c->scale))
        return false;
    c->given_zero = -1;
    if (dhowi_known_number(b, p->zero - 1, 0, &zero)) {
        c->zero = (int32_t)zero;
        return true;
    }
    c->given_zero = p->zero - 1;
    return !c->scaled && dhowi_count_of(dhowi_desc_at(b, c->given_zero)) == 1;
}

static bool find_codes(dhowi_lowering *b, int32_t x, int32_t weight, int32_t bias,
                       codes_of_conv *out) {
    return dhowi_optimises(DHOWI_OPTIMISE_INTEGERS) && has_codes(b, x, weight, bias, out);
}

/* A convolution of codes as a step; *out is -1 where the device has none. */
typedef struct code_conv {
    const codes_of_conv *codes;
    int32_t x, zero; /* the zero point as i32[1], or -1 */
    dhow_window window;
    dhowi_tensor_desc weight, y;
} code_conv;

static dhowi_attrs attrs_of(const code_conv *c) {
    return (dhowi_attrs){.sums = {.window = c->window,
                                  .src_zero = c->zero < 0 ? c->codes->zero : 0,
                                  .zero_given = c->zero >= 0}};
}

static dhow_status takes(dhowi_lowering *b, const code_conv *c, bool *out) {
    const dhowi_attrs attrs = attrs_of(c);
    return dhowi_convolves_integers(b->device, dhowi_desc_at(b, c->x), &c->weight, &attrs.sums,
                                    c->y.dtype, NULL, out);
}

/* The same window over x with one result, the sum of what it sees. */
static code_conv sum_of_window(const code_conv *c) {
    code_conv all = *c;
    all.weight.shape[0] = all.y.shape[1] = 1;
    all.weight.dtype = DHOW_I8;
    return all;
}

static dhow_status takes_shifts(dhowi_lowering *b, const code_conv *c, bool *out) {
    const code_conv all = sum_of_window(c);
    *out = !c->codes->scaled && c->window.groups <= 1;
    return *out ? takes(b, &all, out) : DHOW_OK;
}

/* *sums += shifts[k] times the sums of each window of x less its zero point */
static dhow_status add_shifts(dhowi_lowering *b, const code_conv *c, int32_t shifts,
                              int32_t *sums) {
    const dhowi_attrs attrs = attrs_of(c);
    const int64_t by_channel[] = {1, c->weight.shape[0], 1, 1};
    const code_conv all = sum_of_window(c);
    void *ones;
    int32_t in[] = {c->x, -1, c->zero}, windows;
    DHOWI_TRY(dhowi_item_known(b, &all.weight, &in[1]));
    DHOWI_TRY(dhowi_known_data(b, in[1], &ones));
    memset(ones, 1, (size_t)dhowi_count_of(&all.weight));
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_conv2d_integer, in, 3, &attrs, &all.y, &windows));
    DHOWI_TRY(dhowi_reshape(b, shifts, 4, by_channel, &shifts));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, windows, shifts, &windows));
    return dhowi_map_two(b, DHOWI_MAP_ADD, *sums, windows, sums);
}

static dhow_status emit_step(dhowi_lowering *b, const code_conv *c, int32_t *out) {
    const dhowi_attrs attrs = attrs_of(c);
    const int64_t results = c->weight.shape[0];
    int32_t in[] = {c->x, -1, c->zero}, shifts = -1;
    bool fits, shifted;
    DHOWI_TRY(takes_shifts(b, c, &shifted));
    dhowi_code_weights weights = {.codes = c->codes->weight,
                                  .zero = c->codes->weight_zero,
                                  .results = results,
                                  .terms = dhowi_count_of(&c->weight) / results,
                                  .exact = !c->codes->scaled,
                                  .shifts = shifted ? &shifts : NULL};
    code_conv wide = *c;
    wide.weight.dtype = DHOW_I16;
    *out = -1;
    /* Bytes and sums of windows take half the time of 16 bits with VNNI, and no more without. */
    if (!shifted) DHOWI_TRY(takes(b, &wide, &weights.may_be_wide));
    DHOWI_TRY(dhowi_centre_weights(b, &weights, &c->weight, &in[1], &fits));
    if (fits && c->codes->scaled)
        DHOWI_TRY(dhowi_rows_of_sums(b, c->codes->scale, c->codes->weight_scale, c->codes->bias,
                                     results, &in[2], &fits));
    if (!fits) return DHOW_OK;
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_conv2d_integer, in, 3, &attrs, &c->y, out));
    return shifts >= 0 ? add_shifts(b, c, shifts, out) : DHOW_OK;
}

static dhow_status emit_codes(dhowi_lowering *b, const codes_of_conv *codes, int32_t x,
                              int32_t weight, const dhow_window *window,
                              const dhowi_tensor_desc *image, int32_t *out) {
    const int64_t one[] = {1};
    code_conv c = {codes, x, -1, *window, *dhowi_desc_at(b, weight), *image};
    bool fits;
    *out = -1;
    c.weight.dtype = DHOW_I8;
    c.y.dtype = codes->scaled ? DHOW_F32 : DHOW_I32;
    if (codes->given_zero >= 0) {
        DHOWI_TRY(dhowi_reshape(b, codes->given_zero, 1, one, &c.zero));
        DHOWI_TRY(dhowi_cast_to(b, c.zero, DHOW_I32, &c.zero));
    }
    DHOWI_TRY(takes(b, &c, &fits));
    /* centred weights are as large as those they replace */
    return fits ? emit_step(b, &c, out) : DHOW_OK;
}

/* ---- the operator ---- */

/* A convolution by the attributes of the node. */
typedef struct convolution {
    dhowi_tensor_desc x, y;
    dhowi_window3d space;
} convolution;

/* Whether windows at both ends of an image have as much of what is before it: all that cuDNN has.
 */
static bool pads_alike(const dhowi_window3d *s) {
    for (int i = 0; i < 3; i++) {
        const int64_t reach = (s->kernel[i] - 1) * s->dilation[i] + 1;
        const int64_t room = s->in[i] + 2 * s->before[i] - reach;
        if (room < 0 || room / s->stride[i] + 1 != s->out[i]) return false;
    }
    return true;
}

/* Zeros around an image are left to the convolution, unless a window would see nothing else. */
static void take_padding(const dhowi_lowering *b, int32_t *x, convolution *c) {
    const dhowi_item *item = &b->items[*x];
    const int32_t rank = c->x.rank, spatial = rank - 2;
    dhowi_window3d s = c->space;
    if (item->padding == 0 || dhowi_is_known(b, *x) || !dhowi_optimises(DHOWI_OPTIMISE_PADS))
        return;
    const dhowi_padding *p = &b->paddings[item->padding - 1];
    if (!DHOWI_GUARD(padding_of_numbers, p->value == 0)) return;
    const int64_t others = p->before[0] + p->after[0] + p->before[1] + p->after[1];
    if (!DHOWI_GUARD(padding_of_channels, others == 0)) return;
    for (int i = 3 - spatial; i < 3; i++) {
        const int64_t before = p->before[rank - 3 + i], after = p->after[rank - 3 + i];
        s.in[i] -= before + after;
        s.before[i] += before;
        s.after[i] += after;
        if (DHOWI_MAX(s.before[i], s.after[i]) > (s.kernel[i] - 1) * s.dilation[i]) return;
    }
    if (b->device->desc.kind == DHOW_DEVICE_GPU && !pads_alike(&s)) return;
    *x = p->of;
    c->space = s;
}

static dhow_status describe(const dhowi_lowering *b, int32_t *x, int32_t weight, int32_t bias,
                            convolution *c) {
    const dhowi_tensor_desc w = *dhowi_desc_at(b, weight);
    c->x = c->y = *dhowi_desc_at(b, *x);
    DHOWI_TRY(dhowi_check_images(&c->x));
    DHOWI_TRY(check_convolution(&c->x, &w, dhowi_attr_int(b, "group", 1), false));
    DHOWI_TRY(dhowi_kernel_of_weight(b, &w, &c->space));
    DHOWI_TRY(dhowi_window_of(b, &c->x, &c->space));
    DHOWI_TRY(dhowi_window_result(&c->space));
    if (bias >= 0 && dhowi_count_of(dhowi_desc_at(b, bias)) != w.shape[0])
        DHOWI_REFUSE("the bias does not have %" PRId64 " elements", w.shape[0]);
    c->y.shape[1] = w.shape[0];
    dhowi_window_shape(&c->space, c->x.rank, &c->y);
    take_padding(b, x, c);
    return DHOW_OK;
}

static dhow_status convolve_volume(dhowi_lowering *b, const convolution *c, int32_t in[3],
                                   int32_t *out) {
    const dhowi_attrs attrs = {.space = c->space};
    dhowi_tensor_desc y = c->y;
    for (int i = 0; i < 3; i++) {
        if (in[i] >= 0) DHOWI_TRY(dhowi_widened(b, DHOWI_OP_conv3d, in[i], &in[i]));
    }
    y.dtype = dhowi_desc_at(b, in[0])->dtype;
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_conv3d, in, 3, &attrs, &y, out));
    return dhowi_cast_to(b, *out, c->x.dtype, out);
}

/* Of an image or a row: of f32 or, where `codes` is not NULL, of bytes, for which *out may be -1.
 */
static dhow_status convolve_image(dhowi_lowering *b, const convolution *c, int32_t in[3],
                                  const codes_of_conv *codes, int32_t *out) {
    dhowi_window3d s = c->space;
    dhowi_tensor_desc image = {.dtype = c->y.dtype,
                               .rank = 4,
                               .shape = {c->y.shape[0], c->y.shape[1], s.out[1], s.out[2]}};
    const bool tall = s.in[2] == 1 && s.kernel[2] == 1 && s.out[2] == 1 && s.in[1] > 1;
    DHOWI_TRY(dhowi_as_image(b, in[0], &in[0]));
    DHOWI_TRY(dhowi_as_image(b, in[1], &in[1]));
    if (tall) DHOWI_TRY(lay_down(b, in, &s, &image));
    const dhowi_attrs attrs = {
        .window = DHOW_INIT(dhow_window, .kernel = {s.kernel[1], s.kernel[2]},
                            .stride = {s.stride[1], s.stride[2]},
                            .pad = {s.before[1], s.before[2], s.after[1], s.after[2]},
                            .dilation = {s.dilation[1], s.dilation[2]}, .groups = s.groups)};
    DHOWI_TRY(codes != NULL ? emit_codes(b, codes, in[0], in[1], &attrs.window, &image, out)
                            : dhowi_emit(b, DHOWI_OP_conv2d, in, 3, &attrs, &image, out));
    return *out >= 0 && (tall || c->x.rank == 3)
               ? dhowi_reshape(b, *out, c->x.rank, c->y.shape, out)
               : DHOW_OK;
}

/* [n, c, d, h, w] as [n d, c, h, w], and back. */
static dhow_status swap_depth(dhowi_lowering *b, int32_t x, int32_t *out) {
    static const int32_t order[] = {0, 2, 1, 3, 4};
    return dhowi_permute(b, x, order, out);
}

/* As a convolution of images, where it is one; else *out is -1. */
static dhow_status convolve_volume_as_image(dhowi_lowering *b, const convolution *c, int32_t in[3],
                                            int32_t *out) {
    convolution flat = *c;
    dhowi_window3d *s = &flat.space;
    const dhowi_volume_form form = dhowi_volume_as_image(b, &c->x, s);
    const bool slices = form == DHOWI_SLICES;
    const dhowi_tensor_desc w = *dhowi_desc_at(b, in[1]);
    const int64_t n = c->x.shape[0] * (slices ? s->in[0] : 1), k = c->y.shape[1];
    const int64_t x[] = {n, c->x.shape[1], s->in[1], s->in[2]},
                  weight[] = {w.shape[0], w.shape[1], s->kernel[1], s->kernel[2]},
                  y[] = {c->x.shape[0], s->in[0], k, s->out[1], s->out[2]};
    *out = -1;
    if (form == DHOWI_VOLUME) return DHOW_OK;
    flat.x.rank = flat.y.rank = 4;
    flat.y.shape[0] = n;
    flat.y.shape[2] = s->out[1];
    flat.y.shape[3] = s->out[2];
    if (slices) DHOWI_TRY(swap_depth(b, in[0], &in[0]));
    DHOWI_TRY(dhowi_reshape(b, in[0], 4, x, &in[0]));
    DHOWI_TRY(dhowi_reshape(b, in[1], 4, weight, &in[1]));
    DHOWI_TRY(convolve_image(b, &flat, in, NULL, out));
    if (!slices) return dhowi_reshape(b, *out, 5, c->y.shape, out);
    DHOWI_TRY(dhowi_reshape(b, *out, 5, y, out));
    return swap_depth(b, *out, out);
}

/* In integers, if the values are quantised and the device has it; else *out is -1. */
static dhow_status convolve_codes(dhowi_lowering *b, const convolution *c, const int32_t in[3],
                                  bool scaled, int32_t *out) {
    codes_of_conv codes;
    *out = -1;
    if (c->x.rank > 4 || !find_codes(b, in[0], in[1], in[2], &codes) || codes.scaled != scaled)
        return DHOW_OK;
    int32_t of[] = {codes.x, codes.weight, -1};
    return convolve_image(b, c, of, &codes, out);
}

dhow_status dhowi_convolve(dhowi_lowering *b, int32_t x, int32_t weight, int32_t bias,
                           int32_t *out) {
    int32_t in[] = {x, weight, bias};
    convolution c;
    DHOWI_TRY(describe(b, &in[0], weight, bias, &c));
    DHOWI_TRY(convolve_codes(b, &c, in, true, out));
    if (*out < 0) DHOWI_TRY(convolve_volume_as_image(b, &c, in, out));
    if (*out >= 0) return DHOW_OK;
    return c.x.rank == 5 ? convolve_volume(b, &c, in, out) : convolve_image(b, &c, in, NULL, out);
}

dhow_status dhowi_convolve_codes(dhowi_lowering *b, int32_t x, int32_t weight, int32_t bias,
                                 int32_t *out) {
    int32_t in[] = {x, weight, bias};
    convolution c;
    DHOWI_TRY(describe(b, &in[0], weight, bias, &c));
    return convolve_codes(b, &c, in, true, out);
}

dhow_status dhowi_sum_conv(dhowi_lowering *b, int32_t x, int32_t weight, int32_t *out) {
    int32_t in[] = {x, weight, -1};
    convolution c;
    DHOWI_TRY(describe(b, &in[0], weight, -1, &c));
    return convolve_codes(b, &c, in, false, out);
}

dhow_status dhowi_lower_conv(dhowi_lowering *b) {
    return dhowi_convolve(b, b->in[0], b->in[1], dhowi_given(b, 2) ? b->in[2] : -1, &b->out[0]);
}

/* The extents of a transposed convolution, with the padding that output_shape or auto_pad asks for.
 */
static dhow_status transposed_result(const dhowi_lowering *b, int spatial, dhowi_window3d *s) {
    int64_t extra[3], wanted[3];
    uint32_t count;
    DHOWI_TRY(dhowi_window_list(b, "output_padding", spatial, 0, 0, extra));
    DHOWI_TRY(dhowi_window_list(b, "output_shape", spatial, 0, 0, wanted));
    bool shaped = dhowi_attr_ints(b, "output_shape", &count) != NULL;
    bool upper = dhowi_attr_is(b, "auto_pad", "SAME_UPPER", "NOTSET");
    bool same = upper || dhowi_attr_is(b, "auto_pad", "SAME_LOWER", "NOTSET");
    for (int i = 0; i < 3; i++) {
        if (i < 3 - spatial) {
            s->out[i] = 1;
            continue;
        }
        int64_t full =
            s->stride[i] * (s->in[i] - 1) + extra[i] + s->dilation[i] * (s->kernel[i] - 1) + 1;
        s->out[i] = shaped ? wanted[i] : same ? s->in[i] * s->stride[i] : -1;
        if (s->out[i] < 0) {
            s->out[i] = full - s->before[i] - s->after[i];
        } else {
            int64_t total = DHOWI_MAX(full - s->out[i], (int64_t)0);
            s->before[i] = upper ? total / 2 : total - total / 2;
            s->after[i] = total - s->before[i];
        }
        if (s->out[i] < 1) DHOWI_REFUSE("nothing is left of the image");
    }
    return DHOW_OK;
}

dhow_status dhowi_transposed_window(const dhowi_lowering *b, int32_t x, int32_t weight,
                                    dhowi_window3d *s) {
    const dhowi_tensor_desc *own = dhowi_desc_at(b, x), *w = dhowi_desc_at(b, weight);
    DHOWI_TRY(dhowi_check_images(own));
    DHOWI_TRY(check_convolution(own, w, dhowi_attr_int(b, "group", 1), true));
    DHOWI_TRY(dhowi_kernel_of_weight(b, w, s));
    DHOWI_TRY(dhowi_window_of(b, own, s));
    return transposed_result(b, own->rank - 2, s);
}

dhow_status dhowi_lower_conv_transpose(dhowi_lowering *b) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, b->in[0]), w = *dhowi_desc_at(b, b->in[1]);
    dhowi_attrs attrs = {0};
    int32_t in[] = {b->in[0], b->in[1], dhowi_given(b, 2) ? b->in[2] : -1};
    DHOWI_TRY(dhowi_transposed_window(b, in[0], in[1], &attrs.space));
    for (int i = 0; i < 3; i++) {
        if (in[i] >= 0) DHOWI_TRY(dhowi_widened(b, DHOWI_OP_conv_transpose, in[i], &in[i]));
    }
    dhowi_tensor_desc y = own;
    y.dtype = dhowi_desc_at(b, in[0])->dtype;
    y.shape[1] = w.shape[1] * attrs.space.groups;
    dhowi_window_shape(&attrs.space, own.rank, &y);
    if (in[2] >= 0 && dhowi_count_of(dhowi_desc_at(b, in[2])) != y.shape[1])
        DHOWI_REFUSE("the bias does not have %" PRId64 " elements", y.shape[1]);
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_conv_transpose, in, 3, &attrs, &y, &b->out[0]));
    return dhowi_cast_to(b, b->out[0], own.dtype, &b->out[0]);
}
