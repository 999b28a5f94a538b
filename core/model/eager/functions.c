/* SPDX-License-Identifier: Apache-2.0
 *
 * The eager functions of dhow/nn.h: their arguments, and the step that each of them is.
 */
#include <string.h>

#include "base/memory/size.h"
#include "base/objects/struct_size.h"
#include "dhow/nn.h"
#include "model/eager/one_step.h"

/* The call of a step with a struct of arguments, or none. */
#define CALL(inputs, ...)                 \
    dhowi_run_one_step(&(dhowi_one_step){ \
        .function = function, .stream = stream, .y = y, .in_count = (inputs), __VA_ARGS__})
#define WITH(arguments_) .arguments = (arguments_), .argument_bytes = sizeof *(arguments_)

/* ---- pad, interpolate ---- */

typedef struct pad_arguments {
    int64_t pads[2 * DHOW_MAX_RANK];
    double value;
    uint32_t count;
    dhow_pad_mode mode;
} pad_arguments;

static dhow_status build_pad(dhow_model *m, const char *function, const int32_t *in,
                             const void *arguments, dhow_model_value *out) {
    const pad_arguments *a = arguments;
    return dhowi_build_pad(m, function, in[0], a->pads, a->count, a->mode, a->value, out);
}

dhow_status dhow_pad(dhow_stream *stream, dhow_tensor *x, const int64_t *pads, uint32_t count,
                     dhow_pad_mode mode, double value, dhow_tensor *y) {
    static const char function[] = "dhow_pad";
    pad_arguments a;
    memset(&a, 0, sizeof a);
    a.value = value;
    a.mode = mode;
    a.count = count;
    if (count > 2 * DHOW_MAX_RANK || (count > 0 && pads == NULL))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %u pads, or pads is NULL; at most %d",
                          function, count, 2 * DHOW_MAX_RANK);
    if (count > 0) memcpy(a.pads, pads, count * sizeof *pads);
    return CALL(1, .names = {"x"}, .in = {x}, .build = build_pad, WITH(&a));
}

typedef struct resize_arguments {
    int64_t size[3];
    double scales[3];
    dhow_interpolation mode;
    int32_t align_corners, by_size, by_scale;
} resize_arguments;

static dhow_status build_resize(dhow_model *m, const char *function, const int32_t *in,
                                const void *arguments, dhow_model_value *out) {
    const resize_arguments *a = arguments;
    return dhowi_build_interpolate(m, function, in[0], a->by_size ? a->size : NULL,
                                   a->by_scale ? a->scales : NULL, a->mode, a->align_corners, out);
}

dhow_status dhow_interpolate(dhow_stream *stream, dhow_tensor *x, const int64_t *size,
                             const double *scale_factor, dhow_interpolation mode,
                             int32_t align_corners, dhow_tensor *y) {
    static const char function[] = "dhow_interpolate";
    resize_arguments a;
    memset(&a, 0, sizeof a);
    a.mode = mode;
    a.align_corners = align_corners != 0;
    a.by_size = size != NULL;
    a.by_scale = scale_factor != NULL;
    DHOWI_TRY(dhowi_tensor_check_read(x, function, "x"));
    for (int32_t i = 0; i < 3 && i + 2 < x->rank; i++) {
        if (size != NULL) a.size[i] = size[i];
        if (scale_factor != NULL) a.scales[i] = scale_factor[i];
    }
    return CALL(1, .names = {"x"}, .in = {x}, .build = build_resize, WITH(&a));
}

/* ---- by index ---- */

typedef struct index_arguments {
    int32_t dim;
    dhow_scatter_mode reduce;
} index_arguments;

static dhow_status build_index_select(dhow_model *m, const char *function, const int32_t *in,
                                      const void *arguments, dhow_model_value *out) {
    const index_arguments *a = arguments;
    return dhowi_build_index_select(m, function, in[0], a->dim, in[1], out);
}

dhow_status dhow_index_select(dhow_stream *stream, dhow_tensor *x, int32_t dim, dhow_tensor *index,
                              dhow_tensor *y) {
    static const char function[] = "dhow_index_select";
    const index_arguments a = {.dim = dim};
    return CALL(2, .names = {"x", "index"}, .in = {x, index}, .build = build_index_select,
                WITH(&a));
}

static dhow_status build_embedding(dhow_model *m, const char *function, const int32_t *in,
                                   const void *arguments, dhow_model_value *out) {
    (void)arguments;
    return dhowi_build_embedding(m, function, in[0], in[1], out);
}

dhow_status dhow_embedding(dhow_stream *stream, dhow_tensor *index, dhow_tensor *weight,
                           dhow_tensor *y) {
    static const char function[] = "dhow_embedding";
    return CALL(2, .names = {"index", "weight"}, .in = {index, weight}, .build = build_embedding);
}

static dhow_status build_take(dhow_model *m, const char *function, const int32_t *in,
                              const void *arguments, dhow_model_value *out) {
    const index_arguments *a = arguments;
    return dhowi_build_take_along_dim(m, function, in[0], in[1], a->dim, out);
}

dhow_status dhow_take_along_dim(dhow_stream *stream, dhow_tensor *x, dhow_tensor *index,
                                int32_t dim, dhow_tensor *y) {
    static const char function[] = "dhow_take_along_dim";
    const index_arguments a = {.dim = dim};
    return CALL(2, .names = {"x", "index"}, .in = {x, index}, .build = build_take, WITH(&a));
}

static dhow_status build_scatter(dhow_model *m, const char *function, const int32_t *in,
                                 const void *arguments, dhow_model_value *out) {
    const index_arguments *a = arguments;
    return dhowi_build_scatter(m, function, in[0], a->dim, in[1], in[2], a->reduce, out);
}

dhow_status dhow_scatter(dhow_stream *stream, dhow_tensor *x, int32_t dim, dhow_tensor *index,
                         dhow_tensor *source, dhow_scatter_mode reduce, dhow_tensor *y) {
    static const char function[] = "dhow_scatter";
    const index_arguments a = {dim, reduce};
    return CALL(3, .names = {"x", "index", "source"}, .in = {x, index, source},
                .build = build_scatter, WITH(&a));
}

/* ---- convolutions ---- */

typedef struct conv_arguments {
    dhow_conv_options options;
    int32_t spatial, transposed;
} conv_arguments;

static dhow_status build_conv(dhow_model *m, const char *function, const int32_t *in,
                              const void *arguments, dhow_model_value *out) {
    const conv_arguments *a = arguments;
    return dhowi_build_conv(m, function, NULL, in, a->spatial, a->transposed != 0, &a->options,
                            out);
}

static dhow_status run_conv(const char *function, dhow_stream *stream, dhow_tensor *x,
                            dhow_tensor *weight, dhow_tensor *bias,
                            const dhow_conv_options *options, int32_t spatial, int32_t transposed,
                            dhow_tensor *y) {
    conv_arguments a;
    memset(&a, 0, sizeof a);
    a.spatial = spatial;
    a.transposed = transposed;
    DHOWI_TRY(DHOWI_STRUCT_IN(dhow_conv_options, options, &a.options, function, "options"));
    a.options.struct_size = sizeof a.options;
    return CALL(3, .names = {"x", "weight", "bias"}, .in = {x, weight, bias}, .optional = 1u << 2,
                .build = build_conv, WITH(&a));
}

#define CONV(name, spatial, transposed)                                                            \
    dhow_status dhow_##name(dhow_stream *stream, dhow_tensor *x, dhow_tensor *weight,              \
                            dhow_tensor *bias, const dhow_conv_options *options, dhow_tensor *y) { \
        return run_conv("dhow_" #name, stream, x, weight, bias, options, spatial, transposed, y);  \
    }
CONV(conv1d, 1, 0)
CONV(conv3d, 3, 0)
CONV(conv_transpose1d, 1, 1)
CONV(conv_transpose2d, 2, 1)
CONV(conv_transpose3d, 3, 1)

/* ---- norms ---- */

typedef struct norm_arguments {
    int64_t groups;
    double eps;
} norm_arguments;

static dhow_status build_batchnorm(dhow_model *m, const char *function, const int32_t *in,
                                   const void *arguments, dhow_model_value *out) {
    const norm_arguments *a = arguments;
    const int32_t order[] = {in[0], in[3], in[4], in[1], in[2]};
    return dhowi_build_batchnorm(m, function, order, (float)a->eps, out);
}

dhow_status dhow_batchnorm(dhow_stream *stream, dhow_tensor *x, dhow_tensor *running_mean,
                           dhow_tensor *running_var, dhow_tensor *weight, dhow_tensor *bias,
                           float eps, dhow_tensor *y) {
    static const char function[] = "dhow_batchnorm";
    const norm_arguments a = {.eps = (double)eps};
    return CALL(5, .names = {"x", "running_mean", "running_var", "weight", "bias"},
                .in = {x, running_mean, running_var, weight, bias}, .build = build_batchnorm,
                WITH(&a));
}

static dhow_status build_groupnorm(dhow_model *m, const char *function, const int32_t *in,
                                   const void *arguments, dhow_model_value *out) {
    const norm_arguments *a = arguments;
    return dhowi_build_groupnorm(m, function, NULL, in, a->groups, (float)a->eps, out);
}

dhow_status dhow_groupnorm(dhow_stream *stream, dhow_tensor *x, int64_t groups, dhow_tensor *weight,
                           dhow_tensor *bias, float eps, dhow_tensor *y) {
    static const char function[] = "dhow_groupnorm";
    const norm_arguments a = {groups, (double)eps};
    return CALL(3, .names = {"x", "weight", "bias"}, .in = {x, weight, bias},
                .build = build_groupnorm, WITH(&a));
}

static dhow_status build_rmsnorm(dhow_model *m, const char *function, const int32_t *in,
                                 const void *arguments, dhow_model_value *out) {
    const norm_arguments *a = arguments;
    return dhowi_build_rmsnorm(m, function, NULL, in, (float)a->eps, out);
}

dhow_status dhow_rmsnorm(dhow_stream *stream, dhow_tensor *x, dhow_tensor *weight, float eps,
                         dhow_tensor *y) {
    static const char function[] = "dhow_rmsnorm";
    const norm_arguments a = {.eps = (double)eps};
    return CALL(2, .names = {"x", "weight"}, .in = {x, weight}, .build = build_rmsnorm, WITH(&a));
}

/* ---- dropout ---- */

static dhow_status build_dropout(dhow_model *m, const char *function, const int32_t *in,
                                 const void *arguments, dhow_model_value *out) {
    return dhowi_build_dropout(m, function, in, *(const double *)arguments, out);
}

dhow_status dhow_dropout(dhow_stream *stream, dhow_tensor *x, double p, uint64_t seed,
                         dhow_tensor *y) {
    static const char function[] = "dhow_dropout";
    const int64_t one = 1;
    dhow_tensor *key;
    DHOWI_TRY(dhowi_tensor_check(x, function, "x"));
    DHOWI_TRY(dhowi_tensor_new(dhowi_tensor_device(x), DHOW_I64, 1, &one, &key));
    dhow_status status = dhow_fill_scalar(stream, key, dhow_scalar_i64((int64_t)seed));
    if (status == DHOW_OK)
        status = CALL(2, .names = {"x", "key"}, .in = {x, key}, .build = build_dropout, WITH(&p));
    dhow_tensor_release(key);
    return status;
}

/* ---- attention ---- */

typedef struct attention_arguments {
    double scale;
    int64_t is_causal;
} attention_arguments;

static dhow_status build_attention(dhow_model *m, const char *function, const int32_t *in,
                                   const void *arguments, dhow_model_value *out) {
    const attention_arguments *a = arguments;
    return dhowi_build_attention(m, function, in, a->is_causal != 0, a->scale, out);
}

dhow_status dhow_scaled_dot_product_attention(dhow_stream *stream, dhow_tensor *query,
                                              dhow_tensor *key, dhow_tensor *value,
                                              dhow_tensor *mask, int32_t is_causal, double scale,
                                              dhow_tensor *y) {
    static const char function[] = "dhow_scaled_dot_product_attention";
    const attention_arguments a = {scale, is_causal != 0};
    return CALL(4, .names = {"query", "key", "value", "mask"}, .in = {query, key, value, mask},
                .optional = 1u << 3, .build = build_attention, WITH(&a));
}
