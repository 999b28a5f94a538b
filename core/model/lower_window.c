/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators with windows over images: convolution, pooling; and those that change an image's
 * extent: padding, resizing.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "model/operators.h"

enum { MAX_WINDOW = 1 << 24 };

/* ---- the window of a node ---- */

/* One list attribute over the spatial dimensions, which are laid at the end of three. */
static dhow_status window_list(const dhowi_lowering *b, const char *name, int spatial,
                               int64_t otherwise, int64_t low, int64_t to[3]) {
    uint32_t count;
    const int64_t *list = dhowi_attr_ints(b, name, &count);
    for (int i = 0; i < 3; i++) to[i] = 1;
    if (list != NULL && count != (uint32_t)spatial)
        DHOWI_REFUSE("%s has %u entries, x %d spatial dimensions", name, count, spatial);
    for (int i = 0; i < spatial; i++) {
        int64_t value = list != NULL ? list[i] : otherwise;
        if (value < low || value > MAX_WINDOW) DHOWI_REFUSE("%s holds %" PRId64, name, value);
        to[3 - spatial + i] = value;
    }
    return DHOW_OK;
}

static dhow_status window_pads(const dhowi_lowering *b, int spatial, dhowi_space *s) {
    uint32_t count;
    const int64_t *pads = dhowi_attr_ints(b, "pads", &count);
    if (pads != NULL && count != 2 * (uint32_t)spatial)
        DHOWI_REFUSE("pads has %u entries, x %d spatial dimensions", count, spatial);
    for (int i = 0; pads != NULL && i < spatial; i++) {
        if (pads[i] < 0 || pads[i] > MAX_WINDOW || pads[spatial + i] < 0 ||
            pads[spatial + i] > MAX_WINDOW)
            DHOWI_REFUSE("pads holds a negative or absurd number");
        s->before[3 - spatial + i] = pads[i];
        s->after[3 - spatial + i] = pads[spatial + i];
    }
    return DHOW_OK;
}

/* Everything but the kernel, which is set before. */
static dhow_status window_of(const dhowi_lowering *b, const dhowi_spec *x, dhowi_space *s) {
    int spatial = x->rank - 2;
    for (int i = 0; i < 3; i++) {
        s->in[i] = i < 3 - spatial ? 1 : x->shape[x->rank - 3 + i];
        s->before[i] = s->after[i] = 0;
    }
    DHOWI_TRY(window_list(b, "strides", spatial, 1, 1, s->stride));
    DHOWI_TRY(window_list(b, "dilations", spatial, 1, 1, s->dilation));
    s->groups = dhowi_attr_int(b, "group", 1);
    if (dhowi_attr_is(b, "auto_pad", "NOTSET", "NOTSET")) return window_pads(b, spatial, s);
    if (dhowi_attr_is(b, "auto_pad", "VALID", "NOTSET")) return DHOW_OK;
    if (!dhowi_attr_is(b, "auto_pad", "SAME_UPPER", "NOTSET") &&
        !dhowi_attr_is(b, "auto_pad", "SAME_LOWER", "NOTSET"))
        return dhowi_refuse_text(b, "auto_pad");
    bool upper = dhowi_attr_is(b, "auto_pad", "SAME_UPPER", "NOTSET");
    for (int i = 3 - spatial; i < 3; i++) {
        int64_t out = dhowi_ceil_div(s->in[i], s->stride[i]);
        int64_t reach = s->dilation[i] * (s->kernel[i] - 1) + 1;
        int64_t total = DHOWI_MAX((out - 1) * s->stride[i] + reach - s->in[i], (int64_t)0);
        s->before[i] = upper ? total / 2 : total - total / 2;
        s->after[i] = total - s->before[i];
    }
    return DHOW_OK;
}

static dhow_status window_result(dhowi_space *s, bool ceil_mode) {
    for (int i = 0; i < 3; i++) {
        int64_t room = s->in[i] + s->before[i] + s->after[i];
        room -= s->dilation[i] * (s->kernel[i] - 1) + 1;
        if (room < 0) DHOWI_REFUSE("the window is larger than the image and its padding");
        s->out[i] = (ceil_mode ? dhowi_ceil_div(room, s->stride[i]) : room / s->stride[i]) + 1;
        /* A window that begins past the image and its padding before is none. */
        if (ceil_mode && (s->out[i] - 1) * s->stride[i] >= s->in[i] + s->before[i]) s->out[i]--;
    }
    return DHOW_OK;
}

static void spatial_shape(const dhowi_space *s, int32_t rank, dhowi_spec *y) {
    for (int32_t i = 2; i < rank; i++) y->shape[i] = s->out[i + 3 - rank];
}

static dhow_status check_images(const dhowi_spec *x) {
    char text[160];
    if (x->rank < 3 || x->rank > 5)
        DHOWI_REFUSE("x is %s; [n, c] and one to three dimensions fit",
                     dhowi_spec_text(x, text, sizeof text));
    if (!dhowi_is_float(x->dtype)) DHOWI_REFUSE("x is %s", dhow_dtype_name(x->dtype));
    return DHOW_OK;
}

/* [n, c, w] as [n, c, 1, w]. */
static dhow_status as_image(dhowi_lowering *b, int32_t x, int32_t *out) {
    const dhowi_spec own = *dhowi_spec_at(b, x);
    const int64_t shape[] = {own.shape[0], own.shape[1], 1, own.shape[2]};
    *out = x;
    return own.rank == 3 ? dhowi_reshape(b, x, 4, shape, out) : DHOW_OK;
}

/* ---- convolution ---- */

static dhow_status check_convolution(const dhowi_spec *x, const dhowi_spec *w, int64_t groups,
                                     bool transposed) {
    char text[160];
    int64_t channels = x->shape[1], own = w->shape[transposed ? 0 : 1];
    if (w->rank != x->rank || w->dtype != x->dtype)
        DHOWI_REFUSE("weight is %s", dhowi_spec_text(w, text, sizeof text));
    if (groups < 1 || channels % groups != 0)
        DHOWI_REFUSE("group %" PRId64 " does not divide %" PRId64 " input channels", groups,
                     channels);
    if (transposed ? own != channels : own * groups != channels)
        DHOWI_REFUSE("weight %s takes %" PRId64 " input channels, x has %" PRId64,
                     dhowi_spec_text(w, text, sizeof text), transposed ? own : own * groups,
                     channels);
    if (!transposed && w->shape[0] % groups != 0)
        DHOWI_REFUSE("group %" PRId64 " does not divide %" PRId64 " output channels", groups,
                     w->shape[0]);
    return DHOW_OK;
}

static dhow_status kernel_of_weight(const dhowi_lowering *b, const dhowi_spec *w, dhowi_space *s) {
    uint32_t count;
    const int64_t *given = dhowi_attr_ints(b, "kernel_shape", &count);
    for (int i = 0; i < 3; i++) s->kernel[i] = i < 5 - w->rank ? 1 : w->shape[w->rank - 3 + i];
    for (int i = 0; i < 3; i++) {
        if (s->kernel[i] < 1 || s->kernel[i] > MAX_WINDOW)
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
static dhow_status lay_down(dhowi_lowering *b, int32_t *in, dhowi_space *s, dhowi_spec *image) {
    for (int i = 0; i < 2; i++) {
        dhowi_spec spec = *dhowi_spec_at(b, in[i]);
        spec.shape[3] = spec.shape[2];
        spec.shape[2] = 1;
        DHOWI_TRY(dhowi_reshape(b, in[i], 4, spec.shape, &in[i]));
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

dhow_status dhowi_convolve(dhowi_lowering *b, int32_t x, int32_t weight, int32_t bias,
                           int32_t *out) {
    const dhowi_spec own = *dhowi_spec_at(b, x), w = *dhowi_spec_at(b, weight);
    dhowi_attrs attrs = {0};
    dhowi_space s;
    DHOWI_TRY(check_images(&own));
    DHOWI_TRY(check_convolution(&own, &w, dhowi_attr_int(b, "group", 1), false));
    DHOWI_TRY(kernel_of_weight(b, &w, &s));
    DHOWI_TRY(window_of(b, &own, &s));
    DHOWI_TRY(window_result(&s, false));
    if (bias >= 0 && dhowi_count_of(dhowi_spec_at(b, bias)) != w.shape[0])
        DHOWI_REFUSE("the bias does not have %" PRId64 " elements", w.shape[0]);
    dhowi_spec y = own;
    y.shape[1] = w.shape[0];
    spatial_shape(&s, own.rank, &y);
    int32_t in[] = {x, weight, bias};
    if (own.rank == 5) {
        const dhow_dtype dtype = own.dtype;
        for (int i = 0; i < 3; i++) {
            if (in[i] >= 0) DHOWI_TRY(dhowi_widened(b, DHOWI_OP_conv3d, in[i], &in[i]));
        }
        y.dtype = dhowi_spec_at(b, in[0])->dtype;
        attrs.space = s;
        DHOWI_TRY(dhowi_emit(b, DHOWI_OP_conv3d, in, 3, &attrs, &y, out));
        return dhowi_cast_to(b, *out, dtype, out);
    }
    DHOWI_TRY(as_image(b, x, &in[0]));
    DHOWI_TRY(as_image(b, weight, &in[1]));
    dhowi_spec image = {
        .dtype = y.dtype, .rank = 4, .shape = {y.shape[0], y.shape[1], s.out[1], s.out[2]}};
    bool tall = s.in[2] == 1 && s.kernel[2] == 1 && s.out[2] == 1 && s.in[1] > 1;
    if (tall) DHOWI_TRY(lay_down(b, in, &s, &image));
    attrs.window = (dhow_window){.kernel = {s.kernel[1], s.kernel[2]},
                                 .stride = {s.stride[1], s.stride[2]},
                                 .pad = {s.before[1], s.before[2], s.after[1], s.after[2]},
                                 .dilation = {s.dilation[1], s.dilation[2]},
                                 .groups = s.groups};
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_conv2d, in, 3, &attrs, &image, out));
    if (tall) return dhowi_reshape(b, *out, own.rank, y.shape, out);
    return own.rank == 3 ? dhowi_reshape(b, *out, 3, y.shape, out) : DHOW_OK;
}

dhow_status dhowi_lower_conv(dhowi_lowering *b) {
    return dhowi_convolve(b, b->in[0], b->in[1], dhowi_given(b, 2) ? b->in[2] : -1, &b->out[0]);
}

/* The extents of a transposed convolution, with the padding that output_shape or auto_pad asks for.
 */
static dhow_status transposed_result(const dhowi_lowering *b, int spatial, dhowi_space *s) {
    int64_t extra[3], wanted[3];
    uint32_t count;
    DHOWI_TRY(window_list(b, "output_padding", spatial, 0, 0, extra));
    DHOWI_TRY(window_list(b, "output_shape", spatial, 0, 0, wanted));
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

dhow_status dhowi_lower_conv_transpose(dhowi_lowering *b) {
    const dhowi_spec own = *dhowi_spec_at(b, b->in[0]), w = *dhowi_spec_at(b, b->in[1]);
    dhowi_attrs attrs = {0};
    int32_t in[] = {b->in[0], b->in[1], dhowi_given(b, 2) ? b->in[2] : -1};
    DHOWI_TRY(check_images(&own));
    DHOWI_TRY(check_convolution(&own, &w, dhowi_attr_int(b, "group", 1), true));
    DHOWI_TRY(kernel_of_weight(b, &w, &attrs.space));
    DHOWI_TRY(window_of(b, &own, &attrs.space));
    DHOWI_TRY(transposed_result(b, own.rank - 2, &attrs.space));
    for (int i = 0; i < 3; i++) {
        if (in[i] >= 0) DHOWI_TRY(dhowi_widened(b, DHOWI_OP_conv_transpose, in[i], &in[i]));
    }
    dhowi_spec y = own;
    y.dtype = dhowi_spec_at(b, in[0])->dtype;
    y.shape[1] = w.shape[1] * attrs.space.groups;
    spatial_shape(&attrs.space, own.rank, &y);
    if (in[2] >= 0 && dhowi_count_of(dhowi_spec_at(b, in[2])) != y.shape[1])
        DHOWI_REFUSE("the bias does not have %" PRId64 " elements", y.shape[1]);
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_conv_transpose, in, 3, &attrs, &y, &b->out[0]));
    return dhowi_cast_to(b, b->out[0], own.dtype, &b->out[0]);
}

/* ---- pooling ---- */

/* Those that the kernels for images do. */
static bool is_plain_pool(const dhowi_space *s, int32_t rank, int mode) {
    return rank <= 4 && mode <= 1 && s->dilation[1] == 1 && s->dilation[2] == 1 && s->in[0] == 1;
}

static dhow_status pool_images(dhowi_lowering *b, int32_t x, const dhowi_space *s, int mode,
                               const dhowi_spec *y, int32_t *out) {
    const dhowi_attrs attrs = {
        .window = {.kernel = {s->kernel[1], s->kernel[2]},
                   .stride = {s->stride[1], s->stride[2]},
                   .pad = {s->before[1], s->before[2], s->after[1], s->after[2]}}};
    const dhowi_spec image = {
        .dtype = y->dtype, .rank = 4, .shape = {y->shape[0], y->shape[1], s->out[1], s->out[2]}};
    DHOWI_TRY(as_image(b, x, &x));
    DHOWI_TRY(dhowi_emit(b, mode == 0 ? DHOWI_OP_maxpool2d : DHOWI_OP_avgpool2d, &x, 1, &attrs,
                         &image, out));
    return dhowi_reshape(b, *out, y->rank, y->shape, out);
}

/* arg: 0 maximum, 1 mean, 3 p-norm */
dhow_status dhowi_lower_pool(dhowi_lowering *b) {
    int32_t x = b->in[0], mode = b->node->op->arg;
    const dhow_dtype dtype = dhowi_spec_at(b, x)->dtype;
    dhowi_attrs attrs = {0};
    dhowi_space *s = &attrs.space;
    bool ceil_mode, count_pads, columns;
    if (!dhowi_is_float(dtype)) DHOWI_TRY(dhowi_cast_to(b, x, DHOW_F32, &x));
    const dhowi_spec own = *dhowi_spec_at(b, x);
    DHOWI_TRY(check_images(&own));
    DHOWI_TRY(window_list(b, "kernel_shape", own.rank - 2, 0, 1, s->kernel));
    DHOWI_TRY(window_of(b, &own, s));
    DHOWI_TRY(dhowi_attr_flag(b, "ceil_mode", false, &ceil_mode));
    DHOWI_TRY(dhowi_attr_flag(b, "count_include_pad", false, &count_pads));
    DHOWI_TRY(dhowi_attr_flag(b, "storage_order", false, &columns));
    DHOWI_TRY(window_result(s, ceil_mode));
    if (mode == 1 && count_pads) mode = 2;
    s->mode = mode;
    s->p = (float)dhowi_attr_int(b, "p", 2);
    dhowi_spec y = own;
    spatial_shape(s, own.rank, &y);
    if (is_plain_pool(s, own.rank, mode)) {
        DHOWI_TRY(pool_images(b, x, s, mode, &y, &b->out[0]));
    } else {
        int32_t wide;
        DHOWI_TRY(dhowi_widened(b, DHOWI_OP_pool, x, &wide));
        dhowi_spec spec = y;
        spec.dtype = dhowi_spec_at(b, wide)->dtype;
        DHOWI_TRY(dhowi_emit(b, DHOWI_OP_pool, &wide, 1, &attrs, &spec, &b->out[0]));
    }
    DHOWI_TRY(dhowi_cast_to(b, b->out[0], dtype, &b->out[0]));
    if (b->out_count < 2) return DHOW_OK;
    DHOWI_TRY(dhowi_widened(b, DHOWI_OP_pool_index, x, &x));
    y.dtype = DHOW_I64;
    s->mode = columns;
    return dhowi_emit(b, DHOWI_OP_pool_index, &x, 1, &attrs, &y, &b->out[1]);
}

/* arg: as of dhowi_reduce(), L2 standing for the p-norm */
dhow_status dhowi_lower_global_pool(dhowi_lowering *b) {
    const dhowi_spec *x = dhowi_spec_at(b, b->in[0]);
    bool axes[DHOW_MAX_RANK] = {false};
    int kind = b->node->op->arg;
    int64_t p = dhowi_attr_int(b, "p", 2);
    if (x->rank < 3) DHOWI_REFUSE("x has %d dimensions", x->rank);
    if (kind == DHOWI_L2 && p != 1 && p != 2) DHOWI_REFUSE("p is %" PRId64 ", not 1 or 2", p);
    for (int32_t i = 2; i < x->rank; i++) axes[i] = true;
    return dhowi_reduce(b, kind == DHOWI_L2 && p == 1 ? DHOWI_L1 : kind, b->in[0], axes,
                        &b->out[0]);
}

/* ---- padding ---- */

/* Where an index before or past the end comes from. */
static int64_t mirrored(int64_t i, int64_t n, const char mode) {
    if (mode == 'e') return i < 0 ? 0 : i >= n ? n - 1 : i;
    if (mode == 'w') return ((i % n) + n) % n;
    if (n == 1) return 0;
    int64_t period = 2 * (n - 1);
    i = ((i % period) + period) % period;
    return i < n ? i : period - i;
}

static dhow_status pad_by_index(dhowi_lowering *b, const int64_t *before, const int64_t *after,
                                char mode) {
    b->out[0] = b->in[0];
    for (int32_t axis = 0; axis < dhowi_spec_at(b, b->in[0])->rank; axis++) {
        int64_t n = dhowi_spec_at(b, b->out[0])->shape[axis],
                count = n + before[axis] + after[axis];
        if (before[axis] == 0 && after[axis] == 0) continue;
        if (n < 1 || count < 0) DHOWI_REFUSE("nothing to repeat along axis %d", axis);
        DHOWI_TRY(dhowi_host_room(b, count, sizeof *before));
        int64_t *index = dhowi_alloc_array((size_t)count + 1, sizeof *index);
        if (index == NULL) return dhowi_fail_memory("plan");
        for (int64_t i = 0; i < count; i++) index[i] = mirrored(i - before[axis], n, mode);
        dhow_status status = dhowi_pick(b, b->out[0], axis, index, count, &b->out[0]);
        dhowi_free(index);
        DHOWI_TRY(status);
    }
    return DHOW_OK;
}

dhow_status dhowi_pad_with(dhowi_lowering *b, int32_t x, const int64_t *before,
                           const int64_t *after, double value, int32_t *out) {
    int32_t part = x, target;
    dhowi_spec y = *dhowi_spec_at(b, part);
    for (int32_t i = 0; i < y.rank; i++) { /* negative padding cuts */
        int64_t n = y.shape[i], cut = DHOWI_MAX(-before[i], (int64_t)0);
        int64_t kept = n - cut - DHOWI_MAX(-after[i], (int64_t)0);
        y.shape[i] = n + before[i] + after[i];
        if (kept < 0 || y.shape[i] < 0) DHOWI_REFUSE("the padding cuts away more than there is");
        if (kept != n) DHOWI_TRY(dhowi_narrow(b, part, i, cut, kept, 1, &part));
    }
    const dhowi_attrs attrs = {.run = {.value = (float)value}};
    DHOWI_TRY(dhowi_blank_of(b, &y, &part, 1, out));
    DHOWI_TRY(dhowi_emit_into(b, DHOWI_OP_fill, NULL, 0, &attrs, *out));
    target = *out;
    for (int32_t i = 0; i < y.rank; i++) {
        DHOWI_TRY(dhowi_narrow(b, target, i, DHOWI_MAX(before[i], (int64_t)0),
                               dhowi_spec_at(b, part)->shape[i], 1, &target));
    }
    return dhowi_emit_into(b, DHOWI_OP_copy, &part, 1, NULL, target);
}

dhow_status dhowi_lower_pad(dhowi_lowering *b) {
    const int32_t rank = dhowi_spec_at(b, b->in[0])->rank;
    int64_t pads[2 * DHOW_MAX_RANK], before[DHOW_MAX_RANK] = {0}, after[DHOW_MAX_RANK] = {0};
    int64_t axes[DHOW_MAX_RANK];
    uint32_t count, axis_count = (uint32_t)rank;
    double value = (double)dhowi_attr_float(b, "value", 0);
    const int64_t *given = dhowi_attr_ints(b, b->node->opset < 2 ? "paddings" : "pads", &count);
    if (given != NULL && count <= 2 * DHOW_MAX_RANK) memcpy(pads, given, count * sizeof *pads);
    if (given == NULL && dhowi_given(b, 1))
        DHOWI_TRY(dhowi_ints(b, b->in[1], pads, 2 * DHOW_MAX_RANK, &count));
    if (dhowi_given(b, 2) && dhowi_count_of(dhowi_spec_at(b, b->in[2])) > 0) {
        DHOWI_TRY(dhowi_one_float(b, b->in[2], "constant_value", &value));
    }
    for (int32_t i = 0; i < rank; i++) axes[i] = i;
    if (dhowi_given(b, 3)) DHOWI_TRY(dhowi_ints(b, b->in[3], axes, DHOW_MAX_RANK, &axis_count));
    if (count != 2 * axis_count) DHOWI_REFUSE("pads has %u entries, not %u", count, 2 * axis_count);
    for (uint32_t i = 0; i < axis_count; i++) {
        int32_t axis;
        DHOWI_TRY(dhowi_axis(dhowi_spec_at(b, b->in[0]), axes[i], &axis));
        before[axis] = pads[i];
        after[axis] = pads[axis_count + i];
        if (before[axis] < -MAX_WINDOW || before[axis] > MAX_WINDOW || after[axis] < -MAX_WINDOW ||
            after[axis] > MAX_WINDOW)
            DHOWI_REFUSE("an absurd padding");
    }
    if (dhowi_attr_is(b, "mode", "constant", "constant"))
        return dhowi_pad_with(b, b->in[0], before, after, value, &b->out[0]);
    char mode = dhowi_attr_is(b, "mode", "edge", "")      ? 'e'
                : dhowi_attr_is(b, "mode", "reflect", "") ? 'r'
                : dhowi_attr_is(b, "mode", "wrap", "")    ? 'w'
                                                          : 0;
    if (mode == 0) return dhowi_refuse_text(b, "mode");
    return pad_by_index(b, before, after, mode);
}
