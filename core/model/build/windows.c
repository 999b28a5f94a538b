/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of one to three dimensions, transposed ones, and interpolation, in models.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/memory/size.h"
#include "base/objects/struct_size.h"
#include "model/build/build.h"

/* ---- convolutions ---- */

/* The options with their defaults, of which the first `spatial` numbers count. */
static dhow_status read_options(const char *function, const dhow_conv_options *given,
                                bool transposed, int spatial, dhow_conv_options *o) {
    DHOWI_TRY(DHOWI_STRUCT_IN(dhow_conv_options, given, o, function, "options"));
    if (o->groups == 0) o->groups = 1;
    DHOWI_TRY(dhowi_build_extent(function, "options->groups", o->groups));
    for (int i = 0; i < spatial; i++) {
        if (o->stride[i] == 0) o->stride[i] = 1;
        if (o->dilation[i] == 0) o->dilation[i] = 1;
        DHOWI_TRY(dhowi_build_extent(function, "options->stride", o->stride[i]));
        DHOWI_TRY(dhowi_build_extent(function, "options->dilation", o->dilation[i]));
        if (o->padding[i] < 0 || o->padding[i] > INT32_MAX)
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: options->padding[%d] is %" PRId64 "; 0 to 2^31-1 is allowed",
                              function, i, o->padding[i]);
        const int64_t below = transposed ? DHOWI_MAX(o->stride[i], o->dilation[i]) : 1;
        if (o->output_padding[i] < 0 || o->output_padding[i] >= below)
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: options->output_padding[%d] is %" PRId64
                              "; it is for transposed convolutions, below their stride or dilation",
                              function, i, o->output_padding[i]);
    }
    return DHOW_OK;
}

/* -1 for an open extent */
static int64_t extent_of(int64_t in, int64_t kernel, const dhow_conv_options *o, int i,
                         bool transposed) {
    const int64_t reach = o->dilation[i] * (kernel - 1) + 1, pads = 2 * o->padding[i];
    if (in < 0) return -1;
    if (transposed) return o->stride[i] * (in - 1) + reach + o->output_padding[i] - pads;
    return in + pads < reach ? 0 : (in + pads - reach) / o->stride[i] + 1;
}

/* in: x[n, c, ...], weight[k, c / groups, ...], or [c, k / groups, ...] of a transposed one, and
 * perhaps bias[k] */
static dhow_status conv_shape(const dhow_model *m, const dhowi_build_step *s,
                              const dhow_conv_options *o, bool transposed, int spatial,
                              dhowi_tensor_desc *y) {
    const dhowi_tensor_desc x = *y, *w = &m->values[s->in[1]].desc;
    char a[160], b[160];
    bool fits = x.rank == spatial + 2 && w->rank == x.rank && dhowi_is_float(x.dtype) &&
                w->dtype == x.dtype;
    const int64_t channels = fits ? transposed ? w->shape[0] : w->shape[1] * o->groups : 0;
    y->shape[1] = fits ? transposed ? w->shape[1] * o->groups : w->shape[0] : 0;
    fits = fits && (x.shape[1] < 0 || x.shape[1] == channels) && channels % o->groups == 0 &&
           y->shape[1] % o->groups == 0;
    if (!fits)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: x is %s, weight %s, with %" PRId64
                          " groups; they take floats x[n, c, ...] of rank %d and weight[%s, ...]",
                          s->function, dhowi_desc_text(&x, a, sizeof a),
                          dhowi_desc_text(w, b, sizeof b), o->groups, spatial + 2,
                          transposed ? "c, k / groups" : "k, c / groups");
    for (int i = 0; i < spatial; i++) {
        y->shape[2 + i] = extent_of(x.shape[2 + i], w->shape[2 + i], o, i, transposed);
        if (y->shape[2 + i] >= 1 || x.shape[2 + i] < 0) continue;
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: nothing is left of dimension %d: x is %s, weight %s, the padding "
                          "%" PRId64,
                          s->function, 2 + i, dhowi_desc_text(&x, a, sizeof a),
                          dhowi_desc_text(w, b, sizeof b), o->padding[i]);
    }
    if (s->in[2] < 0) return DHOW_OK;
    const dhowi_tensor_desc *bias = &m->values[s->in[2]].desc;
    if (bias->rank == 1 && bias->shape[0] == y->shape[1] && bias->dtype == x.dtype) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: bias is %s; it takes %s[%" PRId64 "]",
                      s->function, dhowi_desc_text(bias, a, sizeof a), dhow_dtype_name(x.dtype),
                      y->shape[1]);
}

dhow_status dhowi_build_conv(dhow_model *m, const char *function, const char *layer,
                             const int32_t in[3], int spatial, bool transposed,
                             const dhow_conv_options *given, dhow_model_value *out) {
    dhow_conv_options o = DHOW_INIT(dhow_conv_options);
    dhowi_build_step s;
    int64_t pads[6];
    DHOWI_TRY(dhowi_step_begin(m, &s, function, transposed ? "ConvTranspose" : "Conv", in, 3, out));
    DHOWI_TRY(dhowi_build_value(m, function, in[1]));
    DHOWI_TRY(read_options(function, given, transposed, spatial, &o));
    DHOWI_TRY(conv_shape(m, &s, &o, transposed, spatial, &s.result[0]));
    s.layer = layer;
    for (int i = 0; i < spatial; i++) pads[i] = pads[spatial + i] = o.padding[i];
    const uint32_t count = (uint32_t)spatial;
    dhowi_step_int(&s, "group", o.groups);
    dhowi_step_ints(m, &s, "strides", o.stride, count);
    dhowi_step_ints(m, &s, "dilations", o.dilation, count);
    dhowi_step_ints(m, &s, "pads", pads, 2 * count);
    if (transposed) dhowi_step_ints(m, &s, "output_padding", o.output_padding, count);
    return dhowi_step_end(m, &s, out);
}

static dhow_status add_conv(dhow_model *m, const char *function, const char *name,
                            dhow_model_value x, int64_t in_channels, int64_t out_channels,
                            int spatial, bool transposed, const dhow_conv_options *options,
                            int32_t bias, dhow_model_value *out) {
    dhow_conv_options o = DHOW_INIT(dhow_conv_options);
    int32_t in[] = {x, -1, -1};
    DHOWI_TRY(dhowi_build_begin(m, function, out));
    DHOWI_TRY(dhowi_build_value(m, function, x));
    if (options == NULL)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: options is NULL, its kernel is needed",
                          function);
    DHOWI_TRY(read_options(function, options, transposed, spatial, &o));
    DHOWI_TRY(dhowi_build_extent(function, "in_channels", in_channels));
    DHOWI_TRY(dhowi_build_extent(function, "out_channels", out_channels));
    if (in_channels % o.groups != 0 || out_channels % o.groups != 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: %" PRId64 " groups do not divide %" PRId64 " and %" PRId64
                          " channels",
                          function, o.groups, in_channels, out_channels);
    const dhow_dtype dtype = m->values[x].desc.dtype;
    const dhowi_tensor_desc row = {.dtype = dtype, .rank = 1, .shape = {out_channels}};
    dhowi_tensor_desc weight = {dtype,
                                2 + spatial,
                                {transposed ? in_channels : out_channels,
                                 transposed ? out_channels / o.groups : in_channels / o.groups},
                                0};
    for (int i = 0; i < spatial; i++) {
        DHOWI_TRY(dhowi_build_extent(function, "options->kernel", o.kernel[i]));
        weight.shape[2 + i] = o.kernel[i];
    }
    const dhowi_build_mark mark = dhowi_build_here(m);
    dhow_status status = dhowi_build_parameter(m, function, name, "weight", &weight, 0, &in[1]);
    if (status == DHOW_OK && bias != 0)
        status = dhowi_build_parameter(m, function, name, "bias", &row, 0, &in[2]);
    if (status == DHOW_OK)
        status = dhowi_build_conv(m, function, name, in, spatial, transposed, options, out);
    return status == DHOW_OK ? DHOW_OK : dhowi_build_undo(m, mark, status);
}

#define CONV(kind, spatial, transposed)                                                          \
    dhow_status dhow_model_##kind(dhow_model *model, const char *name, dhow_model_value x,       \
                                  int64_t in_channels, int64_t out_channels,                     \
                                  const dhow_conv_options *options, int32_t bias,                \
                                  dhow_model_value *out) {                                       \
        return add_conv(model, "dhow_model_" #kind, name, x, in_channels, out_channels, spatial, \
                        transposed, options, bias, out);                                         \
    }
CONV(conv1d, 1, false)
CONV(conv3d, 3, false)
CONV(conv_transpose1d, 1, true)
CONV(conv_transpose2d, 2, true)
CONV(conv_transpose3d, 3, true)

/* ---- interpolation ---- */

static dhow_status read_extents(const char *function, const int64_t *size, const double *scales,
                                dhowi_tensor_desc *y) {
    if ((size == NULL) == (scales == NULL))
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: it takes a size or scale factors, one of them", function);
    for (int32_t i = 0; i + 2 < y->rank; i++) {
        int64_t *extent = &y->shape[2 + i];
        if (size != NULL) DHOWI_TRY(dhowi_build_extent(function, "size", size[i]));
        if (scales != NULL && !(scales[i] > 0 && scales[i] < 1e9))
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: scale factor %d is %g", function, i,
                              scales[i]);
        const double scaled = scales != NULL ? floor((double)*extent * scales[i]) : 1;
        if (*extent == 0 || (*extent > 0 && !(scaled >= 1 && scaled <= INT32_MAX)))
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: dimension %d of extent %" PRId64 " would get %g", function,
                              2 + i, *extent, *extent == 0 ? 0 : scaled);
        if (size != NULL || *extent > 0) *extent = size != NULL ? size[i] : (int64_t)scaled;
    }
    return DHOW_OK;
}

dhow_status dhowi_build_interpolate(dhow_model *m, const char *function, dhow_model_value x,
                                    const int64_t *size, const double *scales,
                                    dhow_interpolation mode, int32_t align_corners,
                                    dhow_model_value *out) {
    static const char *const names[] = {[DHOW_INTERPOLATE_NEAREST] = "nearest",
                                        [DHOW_INTERPOLATE_LINEAR] = "linear",
                                        [DHOW_INTERPOLATE_CUBIC] = "cubic",
                                        [DHOW_INTERPOLATE_NEAREST_EXACT] = "nearest",
                                        [DHOW_INTERPOLATE_AREA] = "area"};
    static const int64_t axes[] = {2, 3, 4};
    dhowi_build_step s;
    char text[160];
    DHOWI_TRY(dhowi_step_begin(m, &s, function, "Resize", &x, 1, out));
    dhowi_tensor_desc *y = &s.result[0];
    if (mode < DHOW_INTERPOLATE_NEAREST || mode > DHOW_INTERPOLATE_AREA)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: mode is %d; DHOW_INTERPOLATE_... are allowed",
                          function, (int)mode);
    if (y->rank < 3 || y->rank > 5 || !dhowi_is_float(y->dtype))
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: x is %s; it takes floats x[n, c] and one to three dimensions",
                          function, dhowi_desc_text(y, text, sizeof text));
    const bool takes_corners = mode == DHOW_INTERPOLATE_LINEAR || mode == DHOW_INTERPOLATE_CUBIC;
    if (!takes_corners && align_corners != 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: align_corners is for linear and cubic",
                          function);
    DHOWI_TRY(read_extents(function, size, scales, y));
    const int64_t count = y->rank - 2;
    dhowi_step_text(&s, "mode", names[mode]);
    dhowi_step_text(&s, "coordinate_transformation_mode",
                    mode == DHOW_INTERPOLATE_NEAREST ? "asymmetric"
                    : align_corners != 0             ? "align_corners"
                                                     : "half_pixel");
    dhowi_step_text(&s, "nearest_mode",
                    mode == DHOW_INTERPOLATE_NEAREST ? "floor" : "round_prefer_ceil");
    dhowi_step_ints(m, &s, "axes", axes, (uint32_t)count);
    s.in[s.in_count++] = -1; /* a region */
    if (scales != NULL) dhowi_step_constant(m, &s, DHOW_F64, 1, count, scales);
    if (scales == NULL) s.in[s.in_count++] = -1;
    if (size != NULL) dhowi_step_constant(m, &s, DHOW_I64, 1, count, size);
    return dhowi_step_end(m, &s, out);
}

dhow_status dhow_model_interpolate(dhow_model *m, dhow_model_value x, const int64_t *size,
                                   const double *scale_factor, dhow_interpolation mode,
                                   int32_t align_corners, dhow_model_value *out) {
    return dhowi_build_interpolate(m, "dhow_model_interpolate", x, size, scale_factor, mode,
                                   align_corners, out);
}
