/* SPDX-License-Identifier: Apache-2.0
 *
 * Resize and Upsample: one axis after the other, each a list of source indices and weights that is
 * made here, once per plan.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "model/lower/products/products.h"
#include "model/operators/nn/nn.h"

typedef enum coordinates {
    HALF_PIXEL,
    PYTORCH_HALF_PIXEL,
    HALF_PIXEL_SYMMETRIC,
    ALIGN_CORNERS,
    ASYMMETRIC,
    TF_HALF_PIXEL,
    TF_CROP
} coordinates;

typedef struct resize {
    coordinates mode;
    int reach;      /* 0 nearest, 1 linear, 2 cubic: pixels to each side that have a weight */
    int taps;       /* of an output element */
    double stretch; /* of the weights over more pixels, where antialiasing shrinks an axis; 1 */
    char rounding;  /* of nearest: f floor, c ceil, d half down, u half up */
    double cubic;
    bool exclude_outside, antialias, area;
    float extrapolation;
    bool backwards; /* for the derivative */
} resize;

/* One axis. */
typedef struct axis_plan {
    int64_t from, to;
    double scale, begin, end; /* of the crop */
} axis_plan;

static double source_of(const resize *r, const axis_plan *a, int64_t i) {
    double x = (double)i, n = (double)a->from, m = (double)a->to;
    switch (r->mode) {
        case ALIGN_CORNERS:
            return a->to == 1 ? 0 : x * (n - 1) / (m - 1);
        case ASYMMETRIC:
            return x / a->scale;
        case TF_HALF_PIXEL:
            return (x + 0.5) / a->scale;
        case PYTORCH_HALF_PIXEL:
            return a->to > 1 ? (x + 0.5) / a->scale - 0.5 : 0;
        case HALF_PIXEL_SYMMETRIC: {
            double adjustment = m / (a->scale * n), centre = n / 2;
            return centre * (1 - adjustment) + (x + 0.5) / a->scale - 0.5;
        }
        case TF_CROP:
            return a->to > 1 ? a->begin * (n - 1) + x * (a->end - a->begin) * (n - 1) / (m - 1)
                             : 0.5 * (a->begin + a->end) * (n - 1);
        default:
            return (x + 0.5) / a->scale - 0.5;
    }
}

static double cubic_weight(double a, double d) {
    d = fabs(d);
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

static double weight_of(const resize *r, double distance) {
    const double d = distance * r->stretch;
    return r->reach == 2 ? cubic_weight(r->cubic, d) : fmax(1 - fabs(d), 0);
}

/* Of the taps to each side the last one before what has no weight. */
static int64_t first_tap(const resize *r) { return (int64_t)floor(-r->reach / r->stretch) + 1; }

static int64_t nearest_of(const resize *r, double x) {
    switch (r->rounding) {
        case 'f':
            return (int64_t)floor(x);
        case 'c':
            return (int64_t)ceil(x);
        case 'u':
            return (int64_t)floor(x + 0.5);
        default:
            return (int64_t)ceil(x - 0.5);
    }
}

/* The mean of what output element i covers, in part or as a whole. */
static void area_of(const resize *r, const axis_plan *a, int64_t i, int64_t *index,
                    double *weight) {
    const int64_t first = i * a->from / a->to, end = dhowi_ceil_div((i + 1) * a->from, a->to);
    for (int t = 0; t < r->taps; t++) {
        const bool inside = first + t < end;
        index[t] = inside ? first + t : -1;
        weight[t] = inside ? 1 / (double)(end - first) : 0;
    }
}

/* Indices and weights of output element i. */
static void taps_of(const resize *r, const axis_plan *a, int64_t i, int64_t *index,
                    double *weight) {
    const int64_t last = a->from - 1;
    /* Further out than a window nothing changes, and every whole number has an int64_t. */
    const double n = (double)a->from;
    const double x = fmin(fmax(source_of(r, a, i), -n - 8), 2 * n + 8);
    const int64_t first = (int64_t)floor(x) + first_tap(r);
    double sum = 0;
    const bool outside = r->mode == TF_CROP && (x < 0 || x > (double)last);
    for (int t = 0; t < r->taps; t++) {
        int64_t at = r->reach == 0 ? nearest_of(r, x) : first + t;
        double w = r->reach == 0 ? 1 : weight_of(r, x - (double)at);
        if (r->exclude_outside && (at < 0 || at > last)) w = 0;
        index[t] = outside ? -1 : at < 0 ? 0 : at > last ? last : at;
        weight[t] = outside ? (t == 0) : w;
        sum += weight[t];
    }
    const bool scaled = (r->exclude_outside || r->antialias) && sum != 0;
    for (int t = 0; t < r->taps && scaled; t++) weight[t] /= sum;
}

/* The derivative along an axis: a product with the weights as a matrix [from, to]. */
static dhow_status emit_back(dhowi_lowering *b, const resize *r, const axis_plan *a, int32_t axis,
                             const int64_t *index, const double *weight, int32_t *x) {
    dhowi_tensor_desc own = *dhowi_desc_at(b, *x);
    const int64_t shape[] = {a->from, a->to};
    const int64_t parts[] = {dhowi_extent(&own, 0, axis), a->to,
                             dhowi_extent(&own, axis + 1, own.rank)};
    int32_t matrix, d;
    if (a->from > INT32_MAX / a->to)
        DHOWI_REFUSE("axis %d of %" PRId64 " elements made of %" PRId64, axis, a->to, a->from);
    const size_t count = (size_t)(a->from * a->to);
    DHOWI_TRY(dhowi_host_room(b, a->from * a->to, sizeof(double)));
    double *m = dhowi_alloc_array(count + 1, sizeof *m);
    if (m == NULL) return dhowi_fail_memory("plan");
    memset(m, 0, count * sizeof *m);
    for (int64_t i = 0; i < a->to * r->taps; i++) {
        const bool picks = r->taps == 1 && r->mode != TF_CROP;
        if (index[i] >= 0) m[index[i] * a->to + i / r->taps] += picks ? 1 : weight[i];
    }
    dhow_status status = dhowi_constant(b, DHOW_F64, 2, shape, m, &matrix);
    dhowi_free(m);
    DHOWI_TRY(status);
    DHOWI_TRY(dhowi_cast_to(b, matrix, own.dtype, &matrix));
    DHOWI_TRY(dhowi_reshape(b, *x, 3, parts, &d));
    DHOWI_TRY(dhowi_product(b, matrix, d, -1, &d));
    own.shape[axis] = a->from;
    return dhowi_reshape(b, d, own.rank, own.shape, x);
}

static dhow_status emit_axis(dhowi_lowering *b, const resize *r, const axis_plan *a, int32_t axis,
                             const int64_t *index, const double *weight, int32_t *x) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, *x);
    const int64_t shape[] = {a->to, r->taps};
    dhowi_tensor_desc y = own;
    int32_t in[] = {*x, -1, -1};
    if (r->backwards) return emit_back(b, r, a, axis, index, weight, x);
    y.shape[axis] = a->to;
    if (r->taps == 1 && r->mode != TF_CROP) return dhowi_pick(b, *x, axis, index, a->to, x);
    const dhowi_attrs attrs = {.split = {.outer = dhowi_extent(&own, 0, axis),
                                         .n = a->from,
                                         .inner = dhowi_extent(&own, axis + 1, own.rank),
                                         .count = a->to,
                                         .taps = r->taps,
                                         .value = r->extrapolation}};
    DHOWI_TRY(dhowi_constant(b, DHOW_I64, 2, shape, index, &in[1]));
    DHOWI_TRY(dhowi_constant(b, DHOW_F64, 2, shape, weight, &in[2]));
    DHOWI_TRY(dhowi_cast_to(b, in[2], own.dtype, &in[2]));
    return dhowi_emit(b, DHOWI_OP_resample, in, 3, &attrs, &y, x);
}

static dhow_status resize_axis(dhowi_lowering *b, const resize *given, const axis_plan *a,
                               int32_t axis, int32_t *x) {
    resize own = *given, *r = &own;
    if (r->antialias) r->stretch = fmin(a->scale, 1);
    if (r->reach / r->stretch > INT16_MAX)
        DHOWI_REFUSE("the scale of axis %d is %g", axis, a->scale);
    r->taps = r->reach == 0 ? 1 : (int)(2 - 2 * first_tap(r));
    if (r->area) { /* one of them may be cut at both ends */
        if (a->from / a->to > INT16_MAX)
            DHOWI_REFUSE("axis %d of %" PRId64 " becomes %" PRId64 " elements", axis, a->from,
                         a->to);
        r->taps = (int)(a->from / a->to) + 2;
    }
    DHOWI_TRY(dhowi_host_room(b, a->to, (size_t)r->taps * sizeof(double)));
    size_t count = (size_t)a->to * (size_t)r->taps;
    int64_t *index = dhowi_alloc_array(count + 1, sizeof *index);
    double *weight = dhowi_alloc_array(count + 1, sizeof *weight);
    dhow_status status = DHOW_OK;
    if (index == NULL || weight == NULL) status = dhowi_fail_memory("plan");
    for (int64_t i = 0; status == DHOW_OK && i < a->to; i++)
        (r->area ? area_of : taps_of)(r, a, i, index + i * r->taps, weight + i * r->taps);
    if (status == DHOW_OK) status = emit_axis(b, r, a, axis, index, weight, x);
    dhowi_free(index);
    dhowi_free(weight);
    return status;
}

static dhow_status modes_of(const dhowi_lowering *b, resize *r) {
    static const char *const names[] = {[HALF_PIXEL] = "half_pixel",
                                        [PYTORCH_HALF_PIXEL] = "pytorch_half_pixel",
                                        [HALF_PIXEL_SYMMETRIC] = "half_pixel_symmetric",
                                        [ALIGN_CORNERS] = "align_corners",
                                        [ASYMMETRIC] = "asymmetric",
                                        [TF_HALF_PIXEL] = "tf_half_pixel_for_nn",
                                        [TF_CROP] = "tf_crop_and_resize"};
    bool old = b->node->opset < 11; /* Upsample, and the first Resize */
    const char *standard = old ? "asymmetric" : "half_pixel";
    size_t found = DHOWI_COUNT(names);
    for (size_t i = 0; i < DHOWI_COUNT(names); i++) {
        if (dhowi_attr_is(b, "coordinate_transformation_mode", names[i], standard)) found = i;
    }
    r->stretch = 1;
    r->reach = dhowi_attr_is(b, "mode", "cubic", "nearest") ? 2
               : dhowi_attr_is(b, "mode", "linear", "nearest") ||
                       dhowi_attr_is(b, "mode", "bilinear", "nearest")
                   ? 1
                   : 0;
    DHOWI_TRY(dhowi_attr_flag(b, "antialias", false, &r->antialias));
    DHOWI_TRY(dhowi_attr_flag(b, "exclude_outside", false, &r->exclude_outside));
    if (found == DHOWI_COUNT(names)) return dhowi_refuse_text(b, "coordinate_transformation_mode");
    r->area = b->node->source->op.length == 0 && dhowi_attr_is(b, "mode", "area", "nearest");
    if (r->area) r->reach = 1; /* at least; only the builder has it */
    if (r->reach == 0 && !dhowi_attr_is(b, "mode", "nearest", "nearest"))
        return dhowi_refuse_text(b, "mode");
    if (r->antialias && r->reach == 0)
        return dhowi_fail(DHOW_UNSUPPORTED, "antialias of the nearest pixel");
    const char *half_down = old ? "floor" : "round_prefer_floor";
    r->mode = (coordinates)found;
    r->rounding = dhowi_attr_is(b, "nearest_mode", "floor", half_down)               ? 'f'
                  : dhowi_attr_is(b, "nearest_mode", "ceil", half_down)              ? 'c'
                  : dhowi_attr_is(b, "nearest_mode", "round_prefer_ceil", half_down) ? 'u'
                                                                                     : 'd';
    if (r->rounding == 'd' &&
        !dhowi_attr_is(b, "nearest_mode", "round_prefer_floor", "round_prefer_floor"))
        return dhowi_refuse_text(b, "nearest_mode");
    r->cubic = (double)dhowi_attr_float(b, "cubic_coeff_a", -0.75f);
    r->extrapolation = dhowi_attr_float(b, "extrapolation_value", 0);
    return DHOW_OK;
}

/* What keep_aspect_ratio_policy makes of sizes: one scale for all axes, the least or the largest; 0
 * where every axis has its own. */
static dhow_status common_scale(const dhowi_lowering *b, const dhowi_tensor_desc *x,
                                const int64_t *sizes, const int64_t *axes, uint32_t count,
                                double *out) {
    static const char *const name = "keep_aspect_ratio_policy";
    const bool smaller = dhowi_attr_is(b, name, "not_larger", "stretch");
    *out = 0;
    if (dhowi_attr_is(b, name, "stretch", "stretch")) return DHOW_OK;
    if (!smaller && !dhowi_attr_is(b, name, "not_smaller", "stretch"))
        return dhowi_refuse_text(b, name);
    for (uint32_t i = 0; i < count; i++) {
        int32_t axis;
        DHOWI_TRY(dhowi_axis(x, axes[i], &axis));
        if (x->shape[axis] < 1) DHOWI_REFUSE("axis %d has no elements", axis);
        const double own = (double)sizes[i] / (double)x->shape[axis];
        if (i == 0 || (smaller ? own < *out : own > *out)) *out = own;
    }
    return DHOW_OK;
}

/* Scales or sizes, whichever the node gives, for all axes or those of `axes`. What roi says counts
 * where the node `crops`. */
static dhow_status extents_of(dhowi_lowering *b, const dhowi_tensor_desc *x, bool crops,
                              axis_plan plans[]) {
    double scales[DHOW_MAX_RANK], roi[2 * DHOW_MAX_RANK];
    int64_t sizes[DHOW_MAX_RANK], axes[DHOW_MAX_RANK];
    uint32_t scale_count = 0, size_count = 0, roi_count = 0, count;
    bool old = b->node->opset < 11;
    const dhowi_onnx_attribute *listed = dhowi_attr(b, "scales", DHOWI_ATTRIBUTE_FLOATS);
    if (!old && dhowi_given(b, 3))
        DHOWI_TRY(dhowi_ints(b, b->in[3], sizes, DHOW_MAX_RANK, &size_count));
    uint32_t at = old ? 1 : 2;
    if (size_count == 0 && dhowi_given(b, at))
        DHOWI_TRY(dhowi_floats(b, b->in[at], scales, DHOW_MAX_RANK, &scale_count));
    if (listed != NULL && scale_count > 0) DHOWI_REFUSE("it has scales twice");
    for (uint32_t i = 0; listed != NULL && i < listed->float_count && i < DHOW_MAX_RANK; i++)
        scales[scale_count++] = (double)listed->floats[i];
    if (!old && crops && dhowi_given(b, 1) && dhowi_count_of(dhowi_desc_at(b, b->in[1])) > 0)
        DHOWI_TRY(dhowi_floats(b, b->in[1], roi, 2 * DHOW_MAX_RANK, &roi_count));
    const int64_t *given = dhowi_attr_ints(b, "axes", &count);
    if (given == NULL) count = (uint32_t)x->rank;
    if (count > DHOW_MAX_RANK || (size_count != count && scale_count != count))
        DHOWI_REFUSE("%u sizes or scales for %u axes", DHOWI_MAX(size_count, scale_count), count);
    if (roi_count != 0 && roi_count != 2 * count)
        DHOWI_REFUSE("roi has %u numbers for %u axes", roi_count, count);
    for (uint32_t i = 0; i < count; i++) axes[i] = given != NULL ? given[i] : (int64_t)i;
    double common = 0;
    if (size_count > 0) DHOWI_TRY(common_scale(b, x, sizes, axes, count, &common));
    for (uint32_t i = 0; i < count; i++) {
        int32_t axis;
        DHOWI_TRY(dhowi_axis(x, axes[i], &axis));
        axis_plan *a = &plans[axis];
        a->begin = roi_count != 0 ? roi[i] : 0;
        a->end = roi_count != 0 ? roi[count + i] : 1;
        if (!isfinite(a->begin) || !isfinite(a->end))
            DHOWI_REFUSE("roi of axis %d is not finite", axis);
        if (size_count == 0 && !(scales[i] > 0 && isfinite(scales[i])))
            DHOWI_REFUSE("the scale of axis %d is %g", axis, scales[i]);
        double to = common > 0       ? floor((double)a->from * common + 0.5)
                    : size_count > 0 ? (double)sizes[i]
                                     : floor((double)a->from * scales[i] * (a->end - a->begin));
        if (a->from == 0 && to == 0) continue; /* as in a batch of no images */
        if (!(to >= 1 && to < 2147483647.0)) DHOWI_REFUSE("axis %d becomes %g elements", axis, to);
        a->to = (int64_t)to;
        a->scale = common > 0       ? common
                   : size_count > 0 ? (double)a->to / (double)a->from
                                    : scales[i];
    }
    return DHOW_OK;
}

/* Codes of quantised images are summed as f32 and lose what is behind the point, as in ONNX
 * Runtime. A little more keeps sums that are whole but for their rounding. */
static dhow_status as_codes(dhowi_lowering *b, int32_t sums, dhow_dtype dtype, int32_t *out) {
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, sums, 1 + 0x1p-16, out));
    return dhowi_cast_to(b, *out, dtype, out);
}

/* x by the node's attributes, or a derivative of its result. */
static dhow_status resize_by_axes(dhowi_lowering *b, int32_t from, bool backwards, int32_t *out) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    axis_plan plans[DHOW_MAX_RANK];
    resize r = {.backwards = backwards};
    for (int32_t i = 0; i < x.rank; i++)
        plans[i] = (axis_plan){.from = x.shape[i], .to = x.shape[i], .scale = 1, .end = 1};
    DHOWI_TRY(modes_of(b, &r));
    DHOWI_TRY(extents_of(b, &x, r.mode == TF_CROP, plans));
    const bool sums = r.reach > 0 || r.mode == TF_CROP;
    const bool codes = sums && (x.dtype == DHOW_U8 || x.dtype == DHOW_I8);
    *out = from;
    if (codes) DHOWI_TRY(dhowi_cast_to(b, *out, DHOW_F32, out));
    if (sums) DHOWI_TRY(dhowi_widened(b, DHOWI_OP_resample, *out, out));
    for (int32_t i = x.rank - 1; i >= 0; i--) {
        bool same = plans[i].to == plans[i].from && plans[i].scale == 1 && plans[i].begin == 0 &&
                    plans[i].end == 1;
        if (plans[i].from < 1 && !same) DHOWI_REFUSE("axis %d has no elements", i);
        if (!same) DHOWI_TRY(resize_axis(b, &r, &plans[i], i, out));
    }
    return codes ? as_codes(b, *out, x.dtype, out) : dhowi_cast_to(b, *out, x.dtype, out);
}

dhow_status dhowi_lower_resize(dhowi_lowering *b) {
    return resize_by_axes(b, b->in[0], false, &b->out[0]);
}

dhow_status dhowi_resize_back(dhowi_lowering *b, int32_t dy, int32_t *out) {
    return resize_by_axes(b, dy, true, out);
}
