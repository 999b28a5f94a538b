/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling.
 */
#include <inttypes.h>
#include <string.h>

#include "base/errors/planted.h"
#include "base/memory/size.h"
#include "kernel/optimise.h"
#include "model/operators/nn/nn.h"
#include "model/operators/shape/shape.h"

enum { MAXIMUM, MEAN, MEAN_WITH_PADS, P_NORM }; /* of kernels; arg has all but the third */

/* A mean with pads is one of what lies inside where there are none. */
static int mode_of(const dhowi_window3d *s, bool count_pads) {
    int64_t pads = 0;
    for (int i = 0; i < 3; i++) pads += s->before[i] + s->after[i];
    return count_pads && pads > 0 ? MEAN_WITH_PADS : MEAN;
}

/* Whether the last windows end within the padding, so that all have as many pixels. */
static bool are_whole(const dhowi_window3d *s) {
    bool whole = true;
    for (int i = 1; i < 3; i++)
        whole = whole && (s->out[i] - 1) * s->stride[i] + s->kernel[i] <=
                             s->in[i] + s->before[i] + s->after[i];
    return whole;
}

/* Those that the kernels for images do. */
static bool is_plain_pool(const dhowi_lowering *b, const dhowi_window3d *s,
                          const dhowi_tensor_desc *x, int mode) {
    const bool counts =
        mode == MEAN_WITH_PADS && dhowi_optimises(DHOWI_OPTIMISE_LAYOUTS) && x->dtype != DHOW_F64 &&
        DHOWI_GUARD(pads_not_there, are_whole(s)) &&
        dhowi_op_supported(dhowi_op_of(DHOWI_OP_pool_blocks), x->dtype, b->device) == DHOW_OK;
    return x->rank <= 4 && (mode == MAXIMUM || mode == MEAN || counts) && s->dilation[1] == 1 &&
           s->dilation[2] == 1 && s->in[0] == 1;
}

static dhow_status pool_images(dhowi_lowering *b, int32_t x, const dhowi_window3d *s, int mode,
                               const dhowi_tensor_desc *y, int32_t *out) {
    const dhowi_attrs attrs = {
        .dim = mode,
        .window = {.kernel = {s->kernel[1], s->kernel[2]},
                   .stride = {s->stride[1], s->stride[2]},
                   .pad = {s->before[1], s->before[2], s->after[1], s->after[2]}}};
    const dhowi_tensor_desc image = {
        .dtype = y->dtype, .rank = 4, .shape = {y->shape[0], y->shape[1], s->out[1], s->out[2]}};
    const bool blocks = !dhowi_is_float(y->dtype) || mode == MEAN_WITH_PADS; /* of one channel */
    const dhowi_op_id op = blocks            ? DHOWI_OP_pool_blocks
                           : mode == MAXIMUM ? DHOWI_OP_maxpool2d
                                             : DHOWI_OP_avgpool2d;
    DHOWI_TRY(dhowi_as_image(b, x, &x));
    DHOWI_TRY(dhowi_emit(b, op, &x, 1, &attrs, &image, out));
    return dhowi_reshape(b, *out, y->rank, y->shape, out);
}

/* Whether a volume's maximum is one of images, or its mean one of theirs, of which a window's all
 * have as many pixels: not where a window lies in the padding alone, for which those have another
 * value. Means of 16 bits would be rounded twice. */
static bool has_image_windows(const dhowi_window3d *s, const dhowi_tensor_desc *x) {
    const bool of_images = s->mode == MAXIMUM || (s->mode == MEAN && x->dtype == DHOW_F32);
    bool inside = true;
    for (int i = 0; i < 3; i++)
        inside = inside && s->before[i] < s->kernel[i] &&
                 (s->out[i] - 1) * s->stride[i] - s->before[i] < s->in[i];
    return x->rank == 5 && of_images && dhowi_optimises(DHOWI_OPTIMISE_VOLUMES) &&
           DHOWI_GUARD(windows_of_padding, inside) &&
           DHOWI_GUARD(windows_with_gaps, s->dilation[0] * s->dilation[1] * s->dilation[2] == 1);
}

/* The maxima or means of slices, and those of them along the depth. */
static dhow_status pool_slices(dhowi_lowering *b, int32_t x, const dhowi_window3d *s,
                               const dhowi_tensor_desc *y, int32_t *out) {
    const int64_t n = y->shape[0], c = y->shape[1], pixels = s->out[1] * s->out[2];
    const int64_t images[] = {n, c * s->in[0], s->in[1], s->in[2]},
                  columns[] = {n, c, s->in[0], pixels};
    const dhowi_window3d depth = {.out = {1, s->out[0], pixels},
                                  .kernel = {1, s->kernel[0], 1},
                                  .stride = {1, s->stride[0], 1},
                                  .before = {0, s->before[0], 0},
                                  .after = {0, s->after[0], 0}};
    const dhowi_tensor_desc slices = {
        .dtype = y->dtype, .rank = 4, .shape = {n, c * s->in[0], s->out[1], s->out[2]}};
    DHOWI_TRY(dhowi_reshape(b, x, 4, images, &x));
    DHOWI_TRY(pool_images(b, x, s, s->mode, &slices, &x));
    DHOWI_TRY(dhowi_reshape(b, x, 4, columns, &x));
    return pool_images(b, x, &depth, s->mode, y, out);
}

/* Taps behind image and padding are in nobody's window; models write windows of thousands for
 * "all". */
static void cut_window(dhowi_window3d *s) {
    for (int i = 0; i < 3; i++) {
        const int64_t reach = (s->in[i] + s->before[i] + s->after[i] - 1) / s->dilation[i];
        if (s->out[i] > 0) s->kernel[i] = DHOWI_MIN(s->kernel[i], reach + 1);
    }
}

/* arg: MAXIMUM, MEAN, P_NORM */
dhow_status dhowi_lower_pool(dhowi_lowering *b) {
    int32_t x = b->in[0], mode = b->node->op->arg;
    const dhow_dtype dtype = dhowi_desc_at(b, x)->dtype;
    dhowi_attrs attrs = {0};
    dhowi_window3d *s = &attrs.space;
    bool ceil_mode, count_pads, columns;
    const bool bytes =
        (dtype == DHOW_U8 || dtype == DHOW_I8) && mode == MAXIMUM && b->out_count < 2 &&
        dhowi_optimises(DHOWI_OPTIMISE_INTEGERS) &&
        dhowi_op_supported(dhowi_op_of(DHOWI_OP_pool_blocks), dtype, b->device) == DHOW_OK;
    if (!dhowi_is_float(dtype) && !bytes) DHOWI_TRY(dhowi_cast_to(b, x, DHOW_F32, &x));
    dhowi_tensor_desc own = *dhowi_desc_at(b, x), number = own;
    if (bytes) number.dtype = DHOW_F32;
    DHOWI_TRY(dhowi_check_images(&number));
    DHOWI_TRY(dhowi_window_list(b, "kernel_shape", own.rank - 2, 0, 1, s->kernel));
    DHOWI_TRY(dhowi_window_of(b, &own, s));
    DHOWI_TRY(dhowi_attr_flag(b, "ceil_mode", false, &ceil_mode));
    DHOWI_TRY(dhowi_attr_flag(b, "count_include_pad", false, &count_pads));
    DHOWI_TRY(dhowi_attr_flag(b, "storage_order", false, &columns));
    DHOWI_TRY(dhowi_pool_result(s, ceil_mode));
    if (mode == MEAN) mode = mode_of(s, count_pads);
    cut_window(s);
    s->mode = mode;
    s->p = (float)dhowi_attr_int(b, "p", 2);
    if (bytes && !is_plain_pool(b, s, &own, mode)) {
        DHOWI_TRY(dhowi_cast_to(b, x, DHOW_F32, &x));
        own = *dhowi_desc_at(b, x);
    }
    dhowi_tensor_desc y = own;
    dhowi_window_shape(s, own.rank, &y);
    if (is_plain_pool(b, s, &own, mode)) {
        DHOWI_TRY(pool_images(b, x, s, mode, &y, &b->out[0]));
    } else if (has_image_windows(s, &own)) {
        DHOWI_TRY(pool_slices(b, x, s, &y, &b->out[0]));
    } else {
        int32_t wide;
        DHOWI_TRY(dhowi_widened(b, DHOWI_OP_pool, x, &wide));
        dhowi_tensor_desc desc = y;
        desc.dtype = dhowi_desc_at(b, wide)->dtype;
        DHOWI_TRY(dhowi_emit(b, DHOWI_OP_pool, &wide, 1, &attrs, &desc, &b->out[0]));
    }
    DHOWI_TRY(dhowi_cast_to(b, b->out[0], dtype, &b->out[0]));
    if (b->out_count < 2) return DHOW_OK;
    DHOWI_TRY(dhowi_widened(b, DHOWI_OP_pool_index, x, &x));
    y.dtype = DHOW_I64;
    s->mode = columns;
    return dhowi_emit(b, DHOWI_OP_pool_index, &x, 1, &attrs, &y, &b->out[1]);
}

/* The image that MaxPool's indices count in. */
static dhow_status unpooled(const dhowi_lowering *b, dhowi_tensor_desc *y) {
    dhowi_window3d s = {0};
    DHOWI_TRY(dhowi_window_list(b, "kernel_shape", y->rank - 2, 0, 1, s.kernel));
    DHOWI_TRY(dhowi_window_of(b, y, &s));
    for (int32_t i = 2; i < y->rank; i++) {
        const int32_t k = i + 3 - y->rank;
        int64_t last;
        if (!dhowi_mul_i64(y->shape[i] - 1, s.stride[k], &last) ||
            !dhowi_add_i64(last, s.kernel[k] - s.before[k] - s.after[k], &y->shape[i]) ||
            y->shape[i] < 1)
            DHOWI_REFUSE("axis %d of the result has no extent", i);
    }
    return DHOW_OK;
}

/* Larger by output_shape: zeros follow. */
static dhow_status widen_to(dhowi_lowering *b, int32_t shape, int32_t *x) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, *x);
    const int64_t none[DHOW_MAX_RANK] = {0};
    int64_t wanted[DHOW_MAX_RANK];
    uint32_t count;
    char text[160];
    DHOWI_TRY(dhowi_shape_values(b, shape, "output_shape", wanted, &count));
    bool fits = count == (uint32_t)own.rank;
    for (int32_t i = 0; fits && i < own.rank; i++) {
        fits = i < 2 ? wanted[i] == own.shape[i] : wanted[i] >= own.shape[i];
        wanted[i] -= own.shape[i];
    }
    if (!fits)
        DHOWI_REFUSE("output_shape is less than %s", dhowi_desc_text(&own, text, sizeof text));
    return dhowi_pad_with(b, *x, none, wanted, 0, x);
}

dhow_status dhowi_lower_max_unpool(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]), at = *dhowi_desc_at(b, b->in[1]);
    const int64_t each = dhowi_count_of(&x);
    dhowi_tensor_desc y = x;
    int64_t all;
    uint64_t bytes;
    int32_t flat, index;
    DHOWI_TRY(dhowi_check_images(&x));
    if (at.dtype != DHOW_I64 || !dhowi_shape_equal(x.rank, x.shape, at.rank, at.shape))
        DHOWI_REFUSE("it does not have one index of i64 for each element of x");
    DHOWI_TRY(unpooled(b, &y));
    DHOWI_TRY(dhowi_shape_check("result", y.dtype, y.rank, y.shape, &all, &bytes));
    const dhowi_tensor_desc line = {.dtype = x.dtype, .rank = 1, .shape = {all}};
    DHOWI_TRY(dhowi_filled(b, &line, 0, &b->out[0]));
    DHOWI_TRY(dhowi_reshape(b, b->in[0], 1, &each, &flat));
    DHOWI_TRY(dhowi_reshape(b, b->in[1], 1, &each, &index));
    DHOWI_TRY(dhowi_scatter_along(b, b->out[0], flat, index, 0, &b->out[0]));
    DHOWI_TRY(dhowi_reshape(b, b->out[0], y.rank, y.shape, &b->out[0]));
    return dhowi_given(b, 2) ? widen_to(b, b->in[2], &b->out[0]) : DHOW_OK;
}

/* arg: as of dhowi_reduce(), L2 standing for the p-norm */
dhow_status dhowi_lower_global_pool(dhowi_lowering *b) {
    const dhowi_tensor_desc *x = dhowi_desc_at(b, b->in[0]);
    bool axes[DHOW_MAX_RANK] = {false};
    int kind = b->node->op->arg;
    int64_t p = dhowi_attr_int(b, "p", 2);
    if (x->rank < 3) DHOWI_REFUSE("x has %d dimensions", x->rank);
    if (kind == DHOWI_L2 && p != 1 && p != 2) DHOWI_REFUSE("p is %" PRId64 ", not 1 or 2", p);
    for (int32_t i = 2; i < x->rank; i++) axes[i] = true;
    return dhowi_reduce(b, kind == DHOWI_L2 && p == 1 ? DHOWI_L1 : kind, b->in[0], axes,
                        &b->out[0]);
}
