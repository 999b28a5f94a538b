/* SPDX-License-Identifier: Apache-2.0
 *
 * Building layers that are more than one step, scopes of names, and networks that are a table.
 */
#include <stdio.h>
#include <string.h>

#include "base/objects/struct_size.h"
#include "model/build/build.h"

/* ---- scopes ---- */

dhow_status dhow_model_begin_scope(dhow_model *m, const char *name) {
    static const char function[] = "dhow_model_begin_scope";
    DHOWI_TRY(dhowi_model_check(m, function));
    if (name == NULL || name[0] == '\0')
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: a name is needed", function);
    const size_t length = strlen(m->scope), more = strlen(name);
    if (m->scope_count == DHOWI_SCOPES || more + 2 > sizeof m->scope - length) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: '%.64s': scopes may be %d deep and %zu bytes together", function,
                          name, DHOWI_SCOPES, sizeof m->scope - 1);
    }
    m->scope_ends[m->scope_count++] = (uint32_t)length;
    (void)snprintf(m->scope + length, sizeof m->scope - length, "%s.", name);
    return DHOW_OK;
}

static void leave_scope(dhow_model *m) { m->scope[m->scope_ends[--m->scope_count]] = '\0'; }

dhow_status dhow_model_end_scope(dhow_model *m) {
    static const char function[] = "dhow_model_end_scope";
    DHOWI_TRY(dhowi_model_check(m, function));
    if (m->scope_count == 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: no scope is open", function);
    leave_scope(m);
    return DHOW_OK;
}

/* ---- one layer ---- */

typedef struct part {
    const char *name;
    dhowi_tensor_desc desc;
    double value;
} part;

/* Parameters behind the first `count` inputs, then the node; nothing where one of them fails. */
static dhow_status add(dhow_model *m, const char *function, const char *layer,
                       dhowi_layer_kind kind, int32_t *in, uint32_t count, const part *parts,
                       uint32_t part_count, const dhowi_attrs *attrs,
                       const dhowi_tensor_desc *result, dhow_model_value *out) {
    const dhowi_build_mark mark = dhowi_build_here(m);
    dhow_status status = DHOW_OK;
    for (uint32_t i = 0; i < part_count && status == DHOW_OK; i++, count++) {
        in[count] = -1;
        if (parts[i].name != NULL)
            status = dhowi_build_parameter(m, function, layer, parts[i].name, &parts[i].desc,
                                           parts[i].value, &in[count]);
    }
    if (status == DHOW_OK)
        status =
            dhowi_build_node(m, dhowi_layer_operator(kind), layer, in, count, attrs, result, out);
    return status == DHOW_OK ? DHOW_OK : dhowi_build_undo(m, mark, status);
}

/* x exists, has a known rank of at least `least`, floats, and `extent` (or an open one) at `dim`,
 * which counts from the end when negative. */
static dhow_status check_input(const dhow_model *m, const char *function, const char *name,
                               dhow_model_value x, int32_t least, int32_t most, int32_t dim,
                               int64_t extent) {
    char text[160];
    DHOWI_TRY(dhowi_build_value(m, function, x));
    const dhowi_tensor_desc *desc = &m->values[x].desc;
    if (desc->rank >= least && desc->rank <= most && dhowi_is_float(desc->dtype)) {
        const int64_t has = desc->shape[dim < 0 ? dim + desc->rank : dim];
        if (has == extent || has < 0) return DHOW_OK;
    }
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "%s: layer '%.64s': its input is %s, %lld is wanted %s", function,
                      name != NULL ? name : "", dhowi_desc_text(desc, text, sizeof text),
                      (long long)extent, dim < 0 ? "at its end" : "as its second extent");
}

dhow_status dhow_model_embedding(dhow_model *m, const char *name, dhow_model_value index,
                                 int64_t count, int64_t features, dhow_dtype dtype,
                                 dhow_model_value *out) {
    static const char function[] = "dhow_model_embedding";
    int32_t in[2];
    DHOWI_TRY(dhowi_build_begin(m, function, out));
    DHOWI_TRY(dhowi_build_extent(function, "count", count));
    DHOWI_TRY(dhowi_build_extent(function, "features", features));
    DHOWI_TRY(dhowi_build_value(m, function, index));
    dhowi_tensor_desc result = m->values[index].desc;
    if (result.dtype != DHOW_I64 || result.rank < 0 || result.rank + 1 > DHOW_MAX_RANK ||
        !dhowi_is_float(dtype))
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: layer '%.64s': indices are i64 of rank 0 to %d, weights are floats",
                          function, name != NULL ? name : "", DHOW_MAX_RANK - 1);
    const dhowi_tensor_desc weight = {.dtype = dtype, .rank = 2, .shape = {count, features}};
    const dhowi_build_mark mark = dhowi_build_here(m);
    result.dtype = dtype;
    result.shape[result.rank++] = features;
    DHOWI_TRY(dhowi_build_parameter(m, function, name, "weight", &weight, 0, &in[0]));
    in[1] = index;
    dhow_status status = dhowi_build_node(m, dhowi_layer_operator(DHOWI_LAYER_EMBEDDING), name, in,
                                          2, NULL, &result, out);
    return status == DHOW_OK ? DHOW_OK : dhowi_build_undo(m, mark, status);
}

dhow_status dhow_model_batchnorm(dhow_model *m, const char *name, dhow_model_value x,
                                 int64_t features, float eps, dhow_model_value *out) {
    static const char function[] = "dhow_model_batchnorm";
    int32_t in[DHOWI_LAYER_INPUTS] = {x}, ignored;
    DHOWI_TRY(dhowi_build_begin(m, function, out));
    DHOWI_TRY(dhowi_build_extent(function, "features", features));
    DHOWI_TRY(check_input(m, function, name, x, 2, DHOW_MAX_RANK, 1, features));
    const dhowi_tensor_desc desc = m->values[x].desc, row = {desc.dtype, 1, {features}, 0},
                            number = {DHOW_I64, 0, {0}, 0};
    const part parts[] = {
        {"weight", row, 1}, {"bias", row, 0}, {"running_mean", row, 0}, {"running_var", row, 1}};
    const dhowi_attrs attrs = {.eps = eps};
    const dhowi_build_mark mark = dhowi_build_here(m);
    /* PyTorch saves how many batches it has seen; nothing reads it. */
    DHOWI_TRY(
        dhowi_build_parameter(m, function, name, "num_batches_tracked", &number, 0, &ignored));
    dhow_status status =
        add(m, function, name, DHOWI_LAYER_BATCHNORM, in, 1, parts, 4, &attrs, &desc, out);
    return status == DHOW_OK ? DHOW_OK : dhowi_build_undo(m, mark, status);
}

dhow_status dhow_model_multihead_attention(dhow_model *m, const char *name, dhow_model_value query,
                                           dhow_model_value key, dhow_model_value value,
                                           dhow_model_value mask, int64_t features, int32_t heads,
                                           int32_t bias, dhow_model_value *out) {
    static const char function[] = "dhow_model_multihead_attention";
    int32_t in[DHOWI_LAYER_INPUTS] = {query, key, value, mask};
    DHOWI_TRY(dhowi_build_begin(m, function, out));
    DHOWI_TRY(dhowi_build_extent(function, "features", features));
    DHOWI_TRY(dhowi_build_extent(function, "heads", heads));
    if (features % heads != 0 || features > INT32_MAX / 3)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: layer '%.64s': %d heads do not divide %lld",
                          function, name != NULL ? name : "", heads, (long long)features);
    for (int i = 0; i < 3; i++)
        DHOWI_TRY(check_input(m, function, name, in[i], 3, 3, -1, features));
    if (mask >= 0) DHOWI_TRY(dhowi_build_value(m, function, mask));
    const dhowi_tensor_desc result = m->values[query].desc;
    const dhow_dtype t = result.dtype;
    const part parts[] = {{"in_proj_weight", {t, 2, {3 * features, features}, 0}, 0},
                          {bias != 0 ? "in_proj_bias" : NULL, {t, 1, {3 * features}, 0}, 0},
                          {"out_proj.weight", {t, 2, {features, features}, 0}, 0},
                          {bias != 0 ? "out_proj.bias" : NULL, {t, 1, {features}, 0}, 0}};
    const dhowi_attrs attrs = {.dim = heads};
    return add(m, function, name, DHOWI_LAYER_ATTENTION, in, 4, parts, 4, &attrs, &result, out);
}

/* One layer of an LSTM in one or both directions. */
static dhow_status lstm_layer(dhow_model *m, const char *function, const char *name, int32_t layer,
                              int64_t inputs, int64_t hidden, int32_t directions, bool bias,
                              dhow_model_value x, dhow_model_value *out) {
    static const char *const kinds[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    char names[8][40];
    part parts[8];
    int32_t in[DHOWI_LAYER_INPUTS] = {x};
    dhowi_tensor_desc result = m->values[x].desc;
    for (int i = 0; i < 4 * directions; i++) {
        (void)snprintf(names[i], sizeof names[i], "%s_l%d%s", kinds[i % 4], layer,
                       i < 4 ? "" : "_reverse");
        const int64_t columns = i % 4 == 0 ? inputs : hidden;
        parts[i] = (part){names[i], {result.dtype, i % 4 < 2 ? 2 : 1, {4 * hidden, columns}, 0}, 0};
        if (i % 4 >= 2 && !bias) parts[i].name = NULL;
    }
    result.shape[2] = directions * hidden;
    return add(m, function, name, DHOWI_LAYER_LSTM, in, 1, parts, 4 * (uint32_t)directions, NULL,
               &result, out);
}

dhow_status dhow_model_lstm(dhow_model *m, const char *name, dhow_model_value x,
                            int64_t in_features, int64_t hidden, int32_t layers,
                            int32_t bidirectional, int32_t bias, dhow_model_value *out) {
    static const char function[] = "dhow_model_lstm";
    const int32_t directions = bidirectional != 0 ? 2 : 1;
    DHOWI_TRY(dhowi_build_begin(m, function, out));
    DHOWI_TRY(dhowi_build_extent(function, "in_features", in_features));
    DHOWI_TRY(dhowi_build_extent(function, "hidden", hidden));
    DHOWI_TRY(dhowi_build_extent(function, "layers", layers));
    if (hidden > INT32_MAX / 8 || layers > 1000)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %lld hidden features, %d layers", function,
                          (long long)hidden, layers);
    DHOWI_TRY(check_input(m, function, name, x, 3, 3, -1, in_features));
    const dhowi_build_mark mark = dhowi_build_here(m);
    for (int32_t i = 0; i < layers; i++) {
        dhow_status status =
            lstm_layer(m, function, name, i, i == 0 ? in_features : directions * hidden, hidden,
                       directions, bias != 0, x, &x);
        if (status != DHOW_OK) return dhowi_build_undo(m, mark, status);
    }
    *out = x;
    return DHOW_OK;
}

/* ---- networks that are a table ---- */

typedef dhow_status conv_layer(dhow_model *, const char *, dhow_model_value, int64_t, int64_t,
                               const dhow_conv_options *, int32_t, dhow_model_value *);
static conv_layer *const k_convs[] = {[DHOW_LAYER_CONV1D] = dhow_model_conv1d,
                                      [DHOW_LAYER_CONV3D] = dhow_model_conv3d,
                                      [DHOW_LAYER_CONV_TRANSPOSE1D] = dhow_model_conv_transpose1d,
                                      [DHOW_LAYER_CONV_TRANSPOSE2D] = dhow_model_conv_transpose2d,
                                      [DHOW_LAYER_CONV_TRANSPOSE3D] = dhow_model_conv_transpose3d};

static dhow_status add_upsample(dhow_model *m, const dhow_layer *l, dhow_model_value x,
                                dhow_model_value *out) {
    const double scales[] = {l->scale, l->scale, l->scale};
    return dhow_model_interpolate(m, x, NULL, scales, l->mode, 0, out);
}

/* Layers without parameters. */
static dhow_status add_function(dhow_model *m, const dhow_layer *l, dhow_model_value x,
                                dhow_model_value *out) {
    switch (l->kind) {
        case DHOW_LAYER_MAXPOOL2D:
            return dhow_model_maxpool2d(m, x, l->window, out);
        case DHOW_LAYER_AVGPOOL2D:
            return dhow_model_avgpool2d(m, x, l->window, out);
        case DHOW_LAYER_FLATTEN:
            return dhow_model_flatten(m, x, 1, out);
        case DHOW_LAYER_SOFTMAX:
            return dhow_model_softmax(m, x, -1, out);
        case DHOW_LAYER_LOG_SOFTMAX:
            return dhow_model_log_softmax(m, x, -1, out);
        case DHOW_LAYER_LEAKY_RELU:
            return dhow_model_leaky_relu(m, x, l->alpha != 0 ? l->alpha : 0.01, out);
        case DHOW_LAYER_ELU:
            return dhow_model_elu(m, x, l->alpha != 0 ? l->alpha : 1, out);
        case DHOW_LAYER_UPSAMPLE:
            return add_upsample(m, l, x, out);
        case DHOW_LAYER_ACTIVATION:
            if (l->activation != NULL) return l->activation(m, x, out);
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "its activation is NULL");
        case DHOW_LAYER_DROPOUT:
            *out = x;
            return l->p != 0 ? dhow_model_dropout(m, x, l->p, out) : DHOW_OK;
        default:
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%d is no kind of layer", (int)l->kind);
    }
}

static dhow_status one_layer(dhow_model *m, const char *name, const dhow_layer *l,
                             dhow_model_value x, dhow_model_value *out) {
    const int32_t bias = l->no_bias == 0;
    const float eps = l->eps > 0 ? l->eps : 1e-5f;
    switch (l->kind) {
        case DHOW_LAYER_LINEAR:
            return dhow_model_linear(m, name, x, l->in, l->out, bias, out);
        case DHOW_LAYER_CONV2D:
            return dhow_model_conv2d(m, name, x, l->in, l->out, l->window, bias, out);
        case DHOW_LAYER_CONV1D:
        case DHOW_LAYER_CONV3D:
        case DHOW_LAYER_CONV_TRANSPOSE1D:
        case DHOW_LAYER_CONV_TRANSPOSE2D:
        case DHOW_LAYER_CONV_TRANSPOSE3D:
            return k_convs[l->kind](m, name, x, l->in, l->out, l->conv, bias, out);
        case DHOW_LAYER_BATCHNORM:
            return dhow_model_batchnorm(m, name, x, l->in, eps, out);
        case DHOW_LAYER_LAYERNORM:
            return dhow_model_layernorm(m, name, x, l->in, eps, out);
        case DHOW_LAYER_GROUPNORM:
            return dhow_model_groupnorm(m, name, x, l->groups, l->in, eps, out);
        case DHOW_LAYER_RMSNORM:
            return dhow_model_rmsnorm(m, name, x, l->in, l->eps > 0 ? l->eps : 1e-6f, out);
        case DHOW_LAYER_EMBEDDING:
            return dhow_model_embedding(m, name, x, l->in, l->out,
                                        l->dtype != 0 ? l->dtype : DHOW_F32, out);
        case DHOW_LAYER_LSTM:
            return dhow_model_lstm(m, name, x, l->in, l->out, 1, 0, bias, out);
        case DHOW_LAYER_SEQUENTIAL:
            return dhow_model_sequential(m, name, x, l->layers, l->layer_count, out);
        default:
            return add_function(m, l, x, out);
    }
}

dhow_status dhow_model_sequential(dhow_model *m, const char *name, dhow_model_value x,
                                  const dhow_layer *layers, uint32_t count, dhow_model_value *out) {
    static const char function[] = "dhow_model_sequential";
    DHOWI_TRY(dhowi_build_begin(m, function, out));
    DHOWI_TRY(dhowi_build_value(m, function, x));
    if (layers == NULL && count > 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: layers is NULL", function);
    const bool scoped = name != NULL && name[0] != '\0';
    const dhowi_build_mark mark = dhowi_build_here(m);
    dhow_status status = scoped ? dhow_model_begin_scope(m, name) : DHOW_OK;
    if (status != DHOW_OK) return status;
    for (uint32_t i = 0; i < count && status == DHOW_OK; i++) {
        char number[16];
        dhow_layer layer = DHOW_INIT(dhow_layer);
        (void)snprintf(number, sizeof number, "%u", i);
        status = DHOWI_STRUCT_IN(dhow_layer, dhowi_struct_element(layers, i), &layer, function,
                                 "layers");
        if (status == DHOW_OK) status = one_layer(m, number, &layer, x, &x);
        if (status != DHOW_OK) status = dhowi_fail_prefix(status, "layer %s%u", m->scope, i);
    }
    if (scoped) leave_scope(m);
    if (status != DHOW_OK) return dhowi_build_undo(m, mark, status);
    *out = x;
    return DHOW_OK;
}
