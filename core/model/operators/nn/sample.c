/* SPDX-License-Identifier: Apache-2.0
 *
 * Images between their pixels: GridSample, DeformConv, RoiAlign. For the first two the pixels
 * around every point are gathered and weighed, by one step for an image where there are few. Places
 * and weights of the axes are computed apart, one for each tap: 1 of the nearest pixel, 2 between
 * two, 4 of a cubic.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "kernel/optimise.h"
#include "model/lower/products/products.h"
#include "model/operators/nn/nn.h"

enum { ZEROS, BORDER, REFLECTION };
enum { MAX_SAMPLES = 1024 }; /* along an axis of a bin of a region */
enum { MOST_TAPS = 16, MOST_IMAGES = 64 /* that have a step each */ };

typedef struct sampling {
    int taps, padding;
    bool align;
} sampling;

/* Items of the grid's shape, with 1 for its last extent; weights are -1 where they are 1. */
typedef struct axis_taps {
    int32_t place[4], weight[4];
} axis_taps;

/* c[3] t^3 + c[2] t^2 + c[1] t + c[0] */
static dhow_status polynomial(dhowi_lowering *b, int32_t t, const double c[4], int32_t *out) {
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_LINEAR, c[3], c[2], t, out));
    for (int i = 1; i >= 0; i--) {
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, *out, t, out));
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_ADD, *out, c[i], out));
    }
    return DHOW_OK;
}

/* The cubic convolution with -3/4, for points at f, 1 + f and the same from the other side. */
static dhow_status cubic_weights(dhowi_lowering *b, int32_t f, int32_t *weight) {
    static const double near_[] = {1, 0, -2.25, 1.25}, far_[] = {3, -6, 3.75, -0.75};
    int32_t t;
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_ADD, f, 1, &t));
    DHOWI_TRY(polynomial(b, t, far_, &weight[0]));
    DHOWI_TRY(polynomial(b, f, near_, &weight[1]));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_LINEAR, -1, 1, f, &t));
    DHOWI_TRY(polynomial(b, t, near_, &weight[2]));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_LINEAR, -1, 2, f, &t));
    return polynomial(b, t, far_, &weight[3]);
}

/* A place outside of 0 .. n-1: it weighs nothing, or another one stands for it. */
static dhow_status pad_place(dhowi_lowering *b, const sampling *s, int64_t n, int32_t *place,
                             int32_t *weight) {
    const double last = (double)(n - 1);
    int32_t above, below;
    if (s->padding == ZEROS) {
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_GE, *place, 0, &above));
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_LE, *place, last, &below));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, above, below, &above));
        if (*weight >= 0) DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, *weight, above, &above));
        *weight = above;
    }
    if (s->padding == REFLECTION && n > 1) { /* about the outer pixels, or about their edges */
        const double period = s->align ? 2 * last : 2 * (double)n;
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MOD, *place, period, place));
        DHOWI_TRY(
            dhowi_map_one(b, DHOWI_MAP_LINEAR, -1, s->align ? period : period - 1, *place, &below));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MIN, *place, below, place));
    }
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_CLIP, 0, last, *place, place));
    return dhowi_cast_to(b, *place, DHOW_I64, place);
}

/* The taps of places in pixels. */
static dhow_status taps_at(dhowi_lowering *b, const sampling *s, int32_t at, int64_t n,
                           axis_taps *out) {
    int32_t base, f;
    DHOWI_TRY(dhowi_map_one(b, s->taps == 1 ? DHOWI_MAP_ROUND : DHOWI_MAP_FLOOR, 0, 0, at, &base));
    out->weight[0] = -1;
    if (s->taps > 1) DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, at, base, &f));
    if (s->taps == 2) {
        DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_LINEAR, -1, 1, f, &out->weight[0]));
        out->weight[1] = f;
    }
    if (s->taps == 4) DHOWI_TRY(cubic_weights(b, f, out->weight));
    for (int k = 0; k < s->taps; k++) {
        const double offset = s->taps == 4 ? k - 1 : k;
        out->place[k] = base;
        if (offset != 0)
            DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_ADD, base, offset, &out->place[k]));
        DHOWI_TRY(pad_place(b, s, n, &out->place[k], &out->weight[k]));
    }
    return DHOW_OK;
}

/* Those of one coordinate of a grid from -1 to 1. */
static dhow_status taps_of_axis(dhowi_lowering *b, const sampling *s, int32_t grid, int32_t which,
                                int64_t n, axis_taps *out) {
    const double last = (double)(n - 1), scale = s->align ? last / 2 : (double)n / 2;
    const int32_t dim = dhowi_desc_at(b, grid)->rank - 1;
    int32_t at;
    DHOWI_TRY(dhowi_narrow(b, grid, dim, which, 1, 1, &at));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_LINEAR, scale, last / 2, at, &at));
    return taps_at(b, s, at, n, out);
}

/* sum += weight x[place]; x is [n, c, pixels], places and weights [n, 1, points] */
static dhow_status add_tap(dhowi_lowering *b, int32_t x, int32_t place, int32_t weight,
                           int64_t points, int32_t *sum) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    const int64_t line[] = {own.shape[0], 1, points}, wide[] = {own.shape[0], own.shape[1], points};
    int32_t in[] = {x, -1}, tap;
    DHOWI_TRY(dhowi_reshape(b, place, 3, line, &in[1]));
    DHOWI_TRY(dhowi_expand(b, in[1], 3, wide, &in[1]));
    const dhowi_attrs attrs = {.split = {.n = own.shape[2],
                                         .count = own.shape[0] * own.shape[1] * points,
                                         .rank = 3,
                                         .shape = {own.shape[0], own.shape[1], points},
                                         .strides = {own.shape[1] * own.shape[2], own.shape[2], 0},
                                         .stride = 1}};
    const dhowi_tensor_desc desc = {
        .dtype = own.dtype, .rank = 3, .shape = {own.shape[0], own.shape[1], points}};
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_gather_elements, in, 2, &attrs, &desc, &tap));
    if (weight >= 0) {
        DHOWI_TRY(dhowi_cast_to(b, weight, own.dtype, &weight));
        DHOWI_TRY(dhowi_reshape(b, weight, 3, line, &weight));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, tap, weight, &tap));
    }
    if (*sum >= 0) return dhowi_map_two(b, DHOWI_MAP_ADD, *sum, tap, sum);
    *sum = tap;
    return DHOW_OK;
}

static dhow_status sampling_of(const dhowi_lowering *b, const dhowi_tensor_desc *x,
                               const dhowi_tensor_desc *grid, sampling *s) {
    DHOWI_TRY(dhowi_attr_flag(b, "align_corners", false, &s->align));
    s->taps = dhowi_attr_is(b, "mode", "nearest", "bilinear") ? 1
              : dhowi_attr_is(b, "mode", "bilinear", "bilinear") ||
                      dhowi_attr_is(b, "mode", "linear", "bilinear")
                  ? 2
              : dhowi_attr_is(b, "mode", "bicubic", "bilinear") ||
                      dhowi_attr_is(b, "mode", "cubic", "bilinear")
                  ? 4
                  : 0;
    s->padding = dhowi_attr_is(b, "padding_mode", "zeros", "zeros")        ? ZEROS
                 : dhowi_attr_is(b, "padding_mode", "border", "zeros")     ? BORDER
                 : dhowi_attr_is(b, "padding_mode", "reflection", "zeros") ? REFLECTION
                                                                           : -1;
    if (s->taps == 0) return dhowi_refuse_text(b, "mode");
    if (s->padding < 0) return dhowi_refuse_text(b, "padding_mode");
    if (x->rank != 4 && x->rank != 5)
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "%d dimensions; dhow samples [n, c, h, w] and [n, c, d, h, w]", x->rank);
    if (x->rank == 5 && s->taps == 4)
        return dhowi_fail(DHOW_UNSUPPORTED, "cubic mode is for images [n, c, h, w] only");
    if (grid->rank != x->rank || grid->shape[x->rank - 1] != x->rank - 2 ||
        grid->shape[0] != x->shape[0])
        DHOWI_REFUSE("the grid is no [n, ..., %d] of the images' n and rank", x->rank - 2);
    if (!dhowi_is_float(grid->dtype) || (s->taps > 1 && !dhowi_is_float(x->dtype)))
        DHOWI_REFUSE("elements of type %s", dhow_dtype_name(x->dtype));
    if (dhowi_count_of(x) == 0) DHOWI_REFUSE("the images are empty");
    return DHOW_OK;
}

/* All taps of a place, one axis after the other, as indices of pixels. */
typedef struct tap_walk {
    int taps, dims;
    axis_taps axis[3];
    int64_t extent[3], points;
    int32_t place[MOST_TAPS], weight[MOST_TAPS];
    uint32_t count;
} tap_walk;

static dhow_status walk_axis(dhowi_lowering *b, tap_walk *w, int axis, int32_t place,
                             int32_t weight) {
    if (axis == w->dims) {
        w->place[w->count] = place;
        w->weight[w->count++] = weight;
        return DHOW_OK;
    }
    if (axis > 0)
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, place, (double)w->extent[axis], &place));
    for (int k = 0; k < w->taps; k++) {
        int32_t at = w->axis[axis].place[k], share = w->axis[axis].weight[k];
        if (axis > 0) DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, place, at, &at));
        if (axis > 0 && share >= 0)
            DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, weight, share, &share));
        DHOWI_TRY(walk_axis(b, w, axis + 1, at, share));
    }
    return DHOW_OK;
}

/* One for each tap, side by side: [n, points, taps]. */
static dhow_status side_by_side(dhowi_lowering *b, const tap_walk *w, const int32_t *items,
                                int64_t n, dhow_dtype dtype, int32_t *out) {
    const int64_t shape[] = {n, w->points, 1};
    int32_t in[MOST_TAPS];
    for (uint32_t t = 0; t < w->count; t++) {
        DHOWI_TRY(dhowi_cast_to(b, items[t], dtype, &in[t]));
        DHOWI_TRY(dhowi_reshape(b, in[t], 3, shape, &in[t]));
    }
    return dhowi_concat(b, in, w->count, 2, out);
}

/* The sums of the taps of x[n, c, pixels] by a step for each image. */
static dhow_status resample_images(dhowi_lowering *b, const tap_walk *w, int32_t x, int32_t *out) {
    int32_t all[3];
    DHOWI_TRY(dhowi_widened(b, DHOWI_OP_resample, x, &all[0]));
    dhowi_tensor_desc desc = *dhowi_desc_at(b, all[0]);
    const int64_t n = desc.shape[0];
    const dhowi_attrs attrs = {.split = {.outer = desc.shape[1],
                                         .n = desc.shape[2],
                                         .inner = 1,
                                         .count = w->points,
                                         .taps = w->count}};
    DHOWI_TRY(side_by_side(b, w, w->place, n, DHOW_I64, &all[1]));
    DHOWI_TRY(side_by_side(b, w, w->weight, n, desc.dtype, &all[2]));
    desc.shape[2] = w->points;
    DHOWI_TRY(dhowi_blank_of(b, &desc, all, 3, out));
    for (int64_t i = 0; i < n; i++) {
        int32_t in[3], to;
        for (int k = 0; k < 3; k++) DHOWI_TRY(dhowi_narrow(b, all[k], 0, i, 1, 1, &in[k]));
        DHOWI_TRY(dhowi_narrow(b, *out, 0, i, 1, 1, &to));
        DHOWI_TRY(dhowi_emit_into(b, DHOWI_OP_resample, in, 3, &attrs, to));
    }
    return dhowi_cast_to(b, *out, dhowi_desc_at(b, x)->dtype, out);
}

/* x[n, c, pixels] at all places, [n, c, points]. */
static dhow_status sample(dhowi_lowering *b, tap_walk *w, int32_t x, int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    DHOWI_TRY(walk_axis(b, w, 0, -1, -1));
    if (w->count > 1 && own.shape[0] <= MOST_IMAGES && w->points > 0)
        return resample_images(b, w, x, out);
    *out = -1;
    for (uint32_t t = 0; t < w->count; t++)
        DHOWI_TRY(add_tap(b, x, w->place[t], w->weight[t], w->points, out));
    return DHOW_OK;
}

dhow_status dhowi_lower_grid_sample(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]), grid = *dhowi_desc_at(b, b->in[1]);
    tap_walk w = {.dims = x.rank - 2};
    sampling s;
    int32_t places = b->in[1], image;
    DHOWI_TRY(sampling_of(b, &x, &grid, &s));
    const int64_t flat[] = {x.shape[0], x.shape[1], dhowi_extent(&x, 2, x.rank)};
    w.taps = s.taps;
    w.points = dhowi_extent(&grid, 1, grid.rank - 1);
    if (grid.dtype != DHOW_F64) DHOWI_TRY(dhowi_cast_to(b, places, DHOW_F32, &places));
    DHOWI_TRY(dhowi_reshape(b, b->in[0], 3, flat, &image));
    for (int i = w.dims - 1; i >= 0; i--) { /* the grid begins with the innermost axis */
        w.extent[i] = x.shape[2 + i];
        DHOWI_TRY(taps_of_axis(b, &s, places, w.dims - 1 - i, w.extent[i], &w.axis[i]));
    }
    DHOWI_TRY(sample(b, &w, image, &image));
    int64_t shape[DHOW_MAX_RANK] = {x.shape[0], x.shape[1]};
    for (int i = 0; i < w.dims; i++) shape[2 + i] = grid.shape[1 + i];
    return dhowi_reshape(b, image, x.rank, shape, &b->out[0]);
}

/* ---- DeformConv: a convolution whose taps lie where an input says ---- */

/* offset[n, kernel y, kernel x, 2, y, x] along an axis as places in pixels. */
static dhow_status moved_places(dhowi_lowering *b, int32_t offset, const dhowi_window3d *s,
                                int axis, int32_t *out) {
    enum { KERNEL = 1, PAIR = 3, OUT = 4, RANK = 6 };
    const dhow_dtype dtype = dhowi_desc_at(b, offset)->dtype;
    const int at = 1 + axis; /* of three spatial dimensions */
    int32_t tap, place;
    DHOWI_TRY(dhowi_numbers(b, dtype, -(double)s->before[at], (double)s->dilation[at],
                            s->kernel[at], &tap));
    DHOWI_TRY(dhowi_along(b, tap, RANK, KERNEL + axis, &tap));
    DHOWI_TRY(dhowi_numbers(b, dtype, 0, (double)s->stride[at], s->out[at], &place));
    DHOWI_TRY(dhowi_along(b, place, RANK, OUT + axis, &place));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, place, tap, &place));
    DHOWI_TRY(dhowi_narrow(b, offset, PAIR, axis, 1, 1, out));
    return dhowi_map_two(b, DHOWI_MAP_ADD, *out, place, out);
}

static dhow_status expect_shape(const dhowi_lowering *b, int32_t ref, const char *name,
                                const int64_t wanted[4]) {
    const dhowi_tensor_desc *desc = dhowi_desc_at(b, ref);
    char text[160];
    if (dhowi_shape_equal(desc->rank, desc->shape, 4, wanted)) return DHOW_OK;
    DHOWI_REFUSE("%s is %s, not [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]", name,
                 dhowi_desc_text(desc, text, sizeof text), wanted[0], wanted[1], wanted[2],
                 wanted[3]);
}

static dhow_status deform_window(dhowi_lowering *b, int64_t groups, dhowi_window3d *s) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]), w = *dhowi_desc_at(b, b->in[1]);
    if (x.rank != 4 || w.rank != 4)
        return dhowi_fail(DHOW_UNSUPPORTED, "%d dimensions; dhow deforms images [n, c, h, w]",
                          x.rank);
    if (!dhowi_is_float(x.dtype)) DHOWI_REFUSE("x is %s", dhow_dtype_name(x.dtype));
    for (uint32_t i = 1; i < 5; i++) {
        const dhow_dtype own = dhowi_given(b, i) ? dhowi_desc_at(b, b->in[i])->dtype : x.dtype;
        if (own != x.dtype)
            DHOWI_REFUSE("input %u is %s, x is %s", i, dhow_dtype_name(own),
                         dhow_dtype_name(x.dtype));
    }
    if (dhowi_count_of(&x) == 0 || dhowi_count_of(&w) == 0) DHOWI_REFUSE("x or W is empty");
    DHOWI_TRY(dhowi_kernel_of_weight(b, &w, s));
    DHOWI_TRY(dhowi_window_of(b, &x, s));
    DHOWI_TRY(dhowi_window_result(s));
    if (s->groups < 1 || groups < 1 || x.shape[1] % s->groups != 0 || x.shape[1] % groups != 0 ||
        w.shape[0] % s->groups != 0 || w.shape[1] != x.shape[1] / s->groups)
        DHOWI_REFUSE("%" PRId64 " groups, %" PRId64 " of offsets, do not fit the channels",
                     s->groups, groups);
    const int64_t taps = groups * s->kernel[1] * s->kernel[2];
    const int64_t offset[] = {x.shape[0], 2 * taps, s->out[1], s->out[2]},
                  mask[] = {x.shape[0], taps, s->out[1], s->out[2]};
    DHOWI_TRY(expect_shape(b, b->in[2], "offset", offset));
    return dhowi_given(b, 4) ? expect_shape(b, b->in[4], "mask", mask) : DHOW_OK;
}

/* The pixels under all taps, [n groups, channels, taps, pixels]. */
static dhow_status deformed_columns(dhowi_lowering *b, const dhowi_window3d *s, int64_t groups,
                                    int32_t *out) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    const sampling linear = {.taps = 2, .padding = ZEROS};
    const int64_t n = x.shape[0] * groups, taps = s->kernel[1] * s->kernel[2];
    const int64_t image[] = {n, x.shape[1] / groups, x.shape[2] * x.shape[3]},
                  moved[] = {n, s->kernel[1], s->kernel[2], 2, s->out[1], s->out[2]};
    tap_walk walk = {.taps = 2, .dims = 2, .points = taps * s->out[1] * s->out[2]};
    int32_t offset = b->in[2], place, mask, pixels;
    if (dhowi_desc_at(b, offset)->dtype != DHOW_F64)
        DHOWI_TRY(dhowi_cast_to(b, offset, DHOW_F32, &offset));
    DHOWI_TRY(dhowi_reshape(b, offset, 6, moved, &offset));
    DHOWI_TRY(dhowi_reshape(b, b->in[0], 3, image, &pixels));
    for (int i = 0; i < 2; i++) {
        walk.extent[i] = x.shape[2 + i];
        DHOWI_TRY(moved_places(b, offset, s, i, &place));
        DHOWI_TRY(taps_at(b, &linear, place, walk.extent[i], &walk.axis[i]));
    }
    DHOWI_TRY(sample(b, &walk, pixels, out));
    if (!dhowi_given(b, 4)) return DHOW_OK;
    const int64_t line[] = {n, 1, walk.points};
    DHOWI_TRY(dhowi_reshape(b, b->in[4], 3, line, &mask));
    return dhowi_map_two(b, DHOWI_MAP_MUL, *out, mask, out);
}

dhow_status dhowi_lower_deform_conv(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]), w = *dhowi_desc_at(b, b->in[1]);
    const int64_t groups = dhowi_attr_int(b, "offset_group", 1);
    dhowi_window3d s = {0};
    int32_t weight, columns, bias;
    DHOWI_TRY(deform_window(b, groups, &s));
    DHOWI_TRY(deformed_columns(b, &s, groups, &columns));
    const int64_t rows = w.shape[1] * s.kernel[1] * s.kernel[2];
    const int64_t matrix[] = {x.shape[0], s.groups, rows, s.out[1] * s.out[2]},
                  kernel[] = {1, s.groups, w.shape[0] / s.groups, rows},
                  y[] = {x.shape[0], w.shape[0], s.out[1], s.out[2]};
    DHOWI_TRY(dhowi_reshape(b, columns, 4, matrix, &columns));
    DHOWI_TRY(dhowi_reshape(b, b->in[1], 4, kernel, &weight));
    DHOWI_TRY(dhowi_product(b, weight, columns, -1, &b->out[0]));
    DHOWI_TRY(dhowi_reshape(b, b->out[0], 4, y, &b->out[0]));
    if (!dhowi_given(b, 3)) return DHOW_OK;
    if (dhowi_count_of(dhowi_desc_at(b, b->in[3])) != y[1])
        DHOWI_REFUSE("B has not one number for each of %" PRId64 " channels", y[1]);
    DHOWI_TRY(dhowi_along(b, b->in[3], 4, 1, &bias));
    return dhowi_map_two(b, DHOWI_MAP_ADD, b->out[0], bias, &b->out[0]);
}

/* ---- RoiAlign ---- */

static dhow_status roi_options(const dhowi_lowering *b, dhowi_axis_split *r) {
    static const char mode[] = "coordinate_transformation_mode";
    const char *otherwise = b->node->opset < 16 ? "output_half_pixel" : "half_pixel";
    r->flag[0] = dhowi_attr_is(b, mode, "half_pixel", otherwise);
    r->flag[1] = dhowi_attr_is(b, "mode", "max", "avg");
    r->count = dhowi_attr_int(b, "output_height", 1);
    r->inner = dhowi_attr_int(b, "output_width", 1);
    r->taps = dhowi_attr_int(b, "sampling_ratio", 0);
    r->alpha = dhowi_attr_float(b, "spatial_scale", 1);
    if (!r->flag[0] && !dhowi_attr_is(b, mode, "output_half_pixel", otherwise))
        return dhowi_refuse_text(b, mode);
    if (!r->flag[1] && !dhowi_attr_is(b, "mode", "avg", "avg")) return dhowi_refuse_text(b, "mode");
    if (!isfinite(r->alpha)) DHOWI_REFUSE("spatial_scale is %g", (double)r->alpha);
    if (r->count < 1 || r->count > DHOWI_MAX_WINDOW || r->inner < 1 ||
        r->inner > DHOWI_MAX_WINDOW || r->taps < 0 || r->taps > MAX_SAMPLES)
        DHOWI_REFUSE("%" PRId64 " x %" PRId64 " bins of %" PRId64 " samples", r->count, r->inner,
                     r->taps);
    return DHOW_OK;
}

dhow_status dhowi_lower_roi_align(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]), rois = *dhowi_desc_at(b, b->in[1]),
                            batch = *dhowi_desc_at(b, b->in[2]);
    dhowi_attrs attrs = {.split = {0}};
    int32_t in[3];
    DHOWI_TRY(roi_options(b, &attrs.split));
    if (x.rank != 4 || rois.rank != 2 || rois.shape[1] != 4 || batch.rank != 1 ||
        batch.shape[0] != rois.shape[0])
        DHOWI_REFUSE("images [n, c, h, w], regions [r, 4] and batch indices [r] fit");
    if (!dhowi_is_float(x.dtype) || rois.dtype != x.dtype)
        DHOWI_REFUSE("x is %s, the regions %s", dhow_dtype_name(x.dtype),
                     dhow_dtype_name(rois.dtype));
    if (dhowi_count_of(&x) == 0) DHOWI_REFUSE("the images are empty");
    for (int i = 0; i < 2; i++) DHOWI_TRY(dhowi_widened(b, DHOWI_OP_roi_align, b->in[i], &in[i]));
    DHOWI_TRY(dhowi_as_index(b, b->in[2], &in[2]));
    if (dhowi_device_is_host(b->device) && dhowi_optimises(DHOWI_OPTIMISE_LAYOUTS)) {
        static const int32_t channels_last[] = {0, 2, 3, 1};
        attrs.split.stride = 1;
        DHOWI_TRY(dhowi_permute(b, in[0], channels_last, &in[0]));
    }
    const dhowi_tensor_desc y = {
        .dtype = dhowi_desc_at(b, in[0])->dtype,
        .rank = 4,
        .shape = {rois.shape[0], x.shape[1], attrs.split.count, attrs.split.inner}};
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_roi_align, in, 3, &attrs, &y, &b->out[0]));
    return dhowi_cast_to(b, b->out[0], x.dtype, &b->out[0]);
}
