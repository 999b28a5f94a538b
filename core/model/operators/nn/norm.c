/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalisation.
 */
#include <inttypes.h>

#include "kernel/optimise.h"
#include "model/operators/nn/nn.h"

/* Times `gamma`, one number a column, where that is not -1. */
static dhow_status normalize_rows(dhowi_lowering *b, int32_t x, int32_t gamma, int64_t rows,
                                  int64_t cols, double eps, bool centred, int32_t *out) {
    const int64_t flat[] = {rows, cols};
    const dhowi_attrs attrs = {.eps = (float)eps,
                               .split = {.outer = rows, .n = cols, .flag = {centred}}};
    int32_t in[] = {-1, -1};
    DHOWI_TRY(dhowi_reshape(b, x, 2, flat, &in[0]));
    if (gamma >= 0) DHOWI_TRY(dhowi_reshape(b, gamma, 1, &cols, &in[1]));
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, in[0]);
    return dhowi_emit(b, DHOWI_OP_normalize, in, gamma >= 0 ? 2 : 1, &attrs, &desc, out);
}

/* v * scale + shift, each -1 for none */
static dhow_status scale_shift(dhowi_lowering *b, int32_t x, int32_t scale, int32_t shift,
                               int32_t *out) {
    int32_t in[3] = {x};
    uint32_t count = 1;
    dhowi_program p = {0};
    *out = x;
    if (scale < 0 && shift < 0) return DHOW_OK;
    (void)dhowi_program_add(&p, DHOWI_MAP_LOAD, 0);
    if (scale >= 0) {
        in[count] = scale;
        (void)dhowi_program_add(&p, DHOWI_MAP_MUL, (int)count++);
    }
    if (shift >= 0) {
        in[count] = shift;
        (void)dhowi_program_add(&p, DHOWI_MAP_ADD, (int)count++);
    }
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    DHOWI_TRY(dhowi_map(b, &p, in, count, out));
    const dhowi_tensor_desc *made = dhowi_desc_at(b, *out);
    if (!dhowi_shape_equal(own.rank, own.shape, made->rank, made->shape))
        DHOWI_REFUSE("its scale or bias has more elements than x to scale");
    return DHOW_OK;
}

dhow_status dhowi_inverse_root(dhowi_lowering *b, int32_t x, double eps, int32_t *out) {
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_ADD, x, eps, out));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SQRT, 0, 0, *out, out));
    return dhowi_map_one(b, DHOWI_MAP_RECIPROCAL, 0, 0, *out, out);
}

/* The mean and 1 / sqrt(variance + eps) of rows, which are the second and third output. */
static dhow_status row_statistics(dhowi_lowering *b, int32_t x, double eps, const bool *axes,
                                  int32_t *mean, int32_t *inverse) {
    int32_t d;
    DHOWI_TRY(dhowi_reduce(b, DHOWI_MEAN, x, axes, mean));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, x, *mean, &d));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SQUARE, 0, 0, d, &d));
    DHOWI_TRY(dhowi_reduce(b, DHOWI_MEAN, d, axes, &d));
    return dhowi_inverse_root(b, d, eps, inverse);
}

/* Rows of `cols` elements; `shift` may be -1. */
static dhow_status layer_norm_row(dhowi_lowering *b, int32_t x, int32_t scale, int32_t shift,
                                  int64_t cols, double eps, int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    const int64_t count = dhowi_count_of(&own), flat[] = {cols > 0 ? count / cols : 0, cols};
    int32_t in[3] = {x, scale, shift};
    dhowi_tensor_desc line = {.dtype = own.dtype, .rank = 1, .shape = {cols}};
    DHOWI_TRY(dhowi_reshape(b, in[0], 2, flat, &in[0]));
    DHOWI_TRY(dhowi_reshape(b, in[1], 1, &cols, &in[1]));
    if (in[2] >= 0) {
        DHOWI_TRY(dhowi_reshape(b, in[2], 1, &cols, &in[2]));
    } else {
        DHOWI_TRY(dhowi_filled(b, &line, 0, &in[2]));
    }
    const dhowi_attrs attrs = {.eps = (float)eps};
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, in[0]);
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_layernorm, in, 3, &attrs, &desc, out));
    return dhowi_reshape(b, *out, own.rank, own.shape, out);
}

/* The last dimension is a row. */
dhow_status dhowi_norm(dhowi_lowering *b, int32_t x, int32_t scale, int32_t shift, double eps,
                       bool centred, int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    const int64_t cols = own.shape[own.rank - 1];
    if (centred) return layer_norm_row(b, x, scale, shift, cols, eps, out);
    DHOWI_TRY(
        normalize_rows(b, x, scale, dhowi_extent(&own, 0, own.rank - 1), cols, eps, false, out));
    DHOWI_TRY(dhowi_reshape(b, *out, own.rank, own.shape, out));
    return shift < 0 ? DHOW_OK : scale_shift(b, *out, -1, shift, out);
}

/* Whether an input has an element for each of a row, in the row's own shape; one that is left out
 * does as well. */
static bool is_row(const dhowi_lowering *b, uint32_t input, const dhowi_tensor_desc *x,
                   int32_t axis) {
    if (!dhowi_given(b, input)) return true;
    const dhowi_tensor_desc *v = dhowi_desc_at(b, b->in[input]);
    for (int32_t i = 0, at = x->rank - v->rank; i < v->rank; i++, at++) {
        if (v->shape[i] != (at >= axis ? x->shape[at] : 1)) return false;
    }
    return dhowi_count_of(v) == dhowi_extent(x, axis, x->rank);
}

dhow_status dhowi_lower_layer_norm(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    double eps = (double)dhowi_attr_float(b, "epsilon", 1e-5f);
    bool axes[DHOW_MAX_RANK] = {false};
    int32_t axis;
    DHOWI_TRY(dhowi_axis(&x, dhowi_attr_int(b, "axis", -1), &axis));
    int64_t cols = dhowi_extent(&x, axis, x.rank);
    if (is_row(b, 1, &x, axis) && is_row(b, 2, &x, axis)) {
        DHOWI_TRY(layer_norm_row(b, b->in[0], b->in[1], dhowi_given(b, 2) ? b->in[2] : -1, cols,
                                 eps, &b->out[0]));
    } else { /* the scale or bias broadcasts */
        DHOWI_TRY(normalize_rows(b, b->in[0], -1, dhowi_extent(&x, 0, axis), cols, eps, true,
                                 &b->out[0]));
        DHOWI_TRY(dhowi_reshape(b, b->out[0], x.rank, x.shape, &b->out[0]));
        DHOWI_TRY(
            scale_shift(b, b->out[0], b->in[1], dhowi_given(b, 2) ? b->in[2] : -1, &b->out[0]));
    }
    if (b->out_count < 2) return DHOW_OK;
    for (int32_t i = axis; i < x.rank; i++) axes[i] = true;
    int32_t rows = b->in[0]; /* of 16 bits have statistics of f32 */
    if (x.dtype != DHOW_F64) DHOWI_TRY(dhowi_cast_to(b, rows, DHOW_F32, &rows));
    return row_statistics(b, rows, eps, axes, &b->out[1], &b->out[2]);
}

dhow_status dhowi_lower_rms_norm(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    int32_t axis;
    DHOWI_TRY(dhowi_axis(&x, dhowi_attr_int(b, "axis", -1), &axis));
    const int64_t cols = dhowi_extent(&x, axis, x.rank);
    const bool whole = is_row(b, 1, &x, axis); /* else it broadcasts */
    DHOWI_TRY(normalize_rows(b, b->in[0], whole ? b->in[1] : -1, dhowi_extent(&x, 0, axis), cols,
                             (double)dhowi_attr_float(b, "epsilon", 1e-5f), false, &b->out[0]));
    DHOWI_TRY(dhowi_reshape(b, b->out[0], x.rank, x.shape, &b->out[0]));
    return whole ? DHOW_OK : scale_shift(b, b->out[0], b->in[1], -1, &b->out[0]);
}

static dhow_status one_for_each(const dhowi_lowering *b, uint32_t input, int64_t channels) {
    const int64_t count = dhowi_count_of(dhowi_desc_at(b, b->in[input]));
    if (count == channels) return DHOW_OK;
    DHOWI_REFUSE("its input %u has %" PRId64 " numbers for %" PRId64 " channels", input, count,
                 channels);
}

static dhow_status scale_channels(dhowi_lowering *b, int32_t x, int32_t scale, int32_t shift,
                                  int32_t *out) {
    static const dhowi_attrs none;
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, x);
    int32_t in[] = {x, scale, shift};
    for (int i = 1; i < 3; i++) {
        DHOWI_TRY(dhowi_cast_to(b, in[i], DHOW_F32, &in[i]));
        DHOWI_TRY(dhowi_reshape(b, in[i], 1, &desc.shape[1], &in[i]));
    }
    return dhowi_emit(b, DHOWI_OP_scale_channels, in, 3, &none, &desc, out);
}

/* Known numbers go into the weights of a convolution before it; others keep their digits. */
static bool keeps_digits(const dhowi_lowering *b) {
    const dhow_dtype dtype = dhowi_desc_at(b, b->in[0])->dtype;
    bool known = true;
    for (uint32_t i = 1; i < 5; i++) known = known && dhowi_is_known(b, b->in[i]);
    return (dtype == DHOW_F16 || dtype == DHOW_BF16) && !known;
}

/* y = x scale' + shift' with scale' = scale / sqrt(variance + eps), shift' = bias - mean scale',
 * which are f32 where x has 16 bits. */
dhow_status dhowi_batch_norm(dhowi_lowering *b, double eps, int32_t *out) {
    const int32_t rank = dhowi_desc_at(b, b->in[0])->rank;
    int32_t scale, shift, in[5];
    if (rank < 2) DHOWI_REFUSE("x has %d dimensions", rank);
    const int64_t channels = dhowi_desc_at(b, b->in[0])->shape[1];
    for (uint32_t i = 1; i < 5; i++) DHOWI_TRY(one_for_each(b, i, channels));
    const dhow_dtype dtype = dhowi_desc_at(b, b->in[0])->dtype;
    for (uint32_t i = 1; i < 5; i++) {
        const dhow_dtype own = dhowi_desc_at(b, b->in[i])->dtype;
        DHOWI_TRY(dhowi_cast_to(b, b->in[i], own == DHOW_F64 ? own : DHOW_F32, &in[i]));
    }
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_ADD, in[4], eps, &scale));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SQRT, 0, 0, scale, &scale));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_DIV, in[1], scale, &scale));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, in[3], scale, &shift));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, in[2], shift, &shift));
    if (keeps_digits(b)) return scale_channels(b, b->in[0], scale, shift, out);
    DHOWI_TRY(dhowi_cast_to(b, scale, dtype, &scale));
    DHOWI_TRY(dhowi_cast_to(b, shift, dtype, &shift));
    DHOWI_TRY(dhowi_along(b, scale, rank, 1, &scale));
    DHOWI_TRY(dhowi_along(b, shift, rank, 1, &shift));
    return scale_shift(b, b->in[0], scale, shift, out);
}

double dhowi_norm_eps(const dhowi_lowering *b) {
    if (b->node->source == NULL) return (double)b->node->attrs->eps;
    return (double)dhowi_attr_float(b, "epsilon", 1e-5f);
}

dhow_status dhowi_batch_statistics(dhowi_lowering *b, int32_t x, int32_t *mean, int32_t *apart,
                                   int32_t *variance) {
    const int32_t rank = dhowi_desc_at(b, x)->rank;
    bool axes[DHOW_MAX_RANK];
    for (int32_t i = 0; i < rank; i++) axes[i] = i != 1;
    DHOWI_TRY(dhowi_reduce(b, DHOWI_MEAN, x, axes, mean));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, x, *mean, apart));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SQUARE, 0, 0, *apart, variance));
    return dhowi_reduce(b, DHOWI_MEAN, *variance, axes, variance);
}

/* running (1 - momentum) + batch momentum */
static dhow_status follow(dhowi_lowering *b, int32_t running, double momentum, int32_t batch,
                          double scale, int32_t *out) {
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, running);
    DHOWI_TRY(dhowi_reshape(b, batch, desc.rank, desc.shape, &batch));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, batch, momentum * scale, &batch));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, running, 1 - momentum, out));
    return dhowi_map_two(b, DHOWI_MAP_ADD, *out, batch, out);
}

/* y = (x - mean) weight / sqrt(variance + eps) + bias. Running statistics follow by `momentum`; the
 * variance may be the unbiased one, which a single value has not. */
static dhow_status by_batch(dhowi_lowering *b, double momentum, bool unbiased) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    int32_t mean, apart, variance, scale, shift;
    if (x.rank < 2) DHOWI_REFUSE("x has %d dimensions", x.rank);
    if (b->node->source != NULL && dhowi_attr_int(b, "spatial", 1) == 0)
        DHOWI_REFUSE("spatial 0, statistics of each position");
    for (uint32_t i = 1; i < 5; i++) DHOWI_TRY(one_for_each(b, i, x.shape[1]));
    const double n = (double)dhowi_count_of(&x) / (double)x.shape[1];
    if (!(n >= 1) || (unbiased && n == 1))
        DHOWI_REFUSE(
            "one value for each channel has no variance; give larger batches, or set "
            "freeze_batchnorm");
    DHOWI_TRY(dhowi_batch_statistics(b, b->in[0], &mean, &apart, &variance));
    DHOWI_TRY(follow(b, b->in[3], momentum, mean, 1, &b->out[1]));
    DHOWI_TRY(follow(b, b->in[4], momentum, variance, unbiased ? n / (n - 1) : 1, &b->out[2]));
    DHOWI_TRY(dhowi_inverse_root(b, variance, dhowi_norm_eps(b), &scale));
    DHOWI_TRY(dhowi_along(b, b->in[1], x.rank, 1, &shift));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, scale, shift, &scale));
    DHOWI_TRY(dhowi_along(b, b->in[2], x.rank, 1, &shift));
    return scale_shift(b, apart, scale, shift, &b->out[0]);
}

/* Of a trainer, as PyTorch does it. */
dhow_status dhowi_lower_batch_norm_training(dhowi_lowering *b) {
    double momentum = b->node->attrs->number;
    if (momentum == 0) momentum = 1 - (double)dhowi_attr_float(b, "momentum", 0.9f);
    return by_batch(b, momentum, true);
}

/* From opset 14 on, ONNX's training mode is by the batch's own variance. */
dhow_status dhowi_lower_batch_norm(dhowi_lowering *b) {
    bool training;
    DHOWI_TRY(dhowi_attr_flag(b, "training_mode", false, &training));
    if (training) return by_batch(b, 1 - (double)dhowi_attr_float(b, "momentum", 0.9f), false);
    if (b->node->opset < 14 && b->out_count > 1)
        return dhowi_fail(DHOW_UNSUPPORTED, "training mode; export the model for inference");
    if (dhowi_attr_int(b, "spatial", 1) == 0)
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "unsupported spatial 0, statistics of each position; "
                          "export the model with opset 9 or later");
    b->out_count = 1;
    return dhowi_batch_norm(b, dhowi_norm_eps(b), &b->out[0]);
}

/* -1 for an operand that is known to be nothing but `number`, which changes no result: exporters
 * write norms of groups as those of instances, and what scales them behind. */
static int32_t unless_all(dhowi_lowering *b, int32_t ref, double number) {
    enum { MOST = 256 };
    double values[MOST];
    uint32_t count;
    if (!dhowi_optimises(DHOWI_OPTIMISE_NUMBERS) || !dhowi_is_known(b, ref) ||
        dhowi_count_of(dhowi_desc_at(b, ref)) > MOST ||
        dhowi_floats(b, ref, values, MOST, &count) != DHOW_OK)
        return ref;
    for (uint32_t i = 0; i < count; i++)
        if (values[i] != number) return ref;
    return -1;
}

dhow_status dhowi_lower_instance_norm(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    int32_t scale, shift;
    if (x.rank < 3) DHOWI_REFUSE("x has %d dimensions", x.rank);
    for (uint32_t i = 1; i < 3; i++) DHOWI_TRY(one_for_each(b, i, x.shape[1]));
    DHOWI_TRY(normalize_rows(b, b->in[0], -1, dhowi_extent(&x, 0, 2), dhowi_extent(&x, 2, x.rank),
                             (double)dhowi_attr_float(b, "epsilon", 1e-5f), true, &b->out[0]));
    DHOWI_TRY(dhowi_reshape(b, b->out[0], x.rank, x.shape, &b->out[0]));
    DHOWI_TRY(dhowi_along(b, b->in[1], x.rank, 1, &scale));
    DHOWI_TRY(dhowi_along(b, b->in[2], x.rank, 1, &shift));
    return scale_shift(b, b->out[0], unless_all(b, scale, 1), unless_all(b, shift, 0), &b->out[0]);
}

/* Opset 18 has scale and bias per group, 21 per channel. */
dhow_status dhowi_lower_group_norm(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    int64_t groups;
    int32_t scale = b->in[1], shift = b->in[2];
    if (x.rank < 2) DHOWI_REFUSE("x has %d dimensions", x.rank);
    DHOWI_TRY(dhowi_attr_needed(b, "num_groups", &groups));
    if (groups < 1 || x.shape[1] < 1 || x.shape[1] % groups != 0)
        DHOWI_REFUSE("%" PRId64 " groups do not divide %" PRId64 " channels", groups, x.shape[1]);
    int64_t cols = dhowi_extent(&x, 1, x.rank) / groups;
    DHOWI_TRY(normalize_rows(b, b->in[0], -1, x.shape[0] * groups, cols,
                             (double)dhowi_attr_float(b, "epsilon", 1e-5f), true, &b->out[0]));
    bool per_group = dhowi_count_of(dhowi_desc_at(b, scale)) == groups;
    const int64_t channels = per_group ? groups : x.shape[1];
    for (uint32_t i = 1; i < 3; i++) DHOWI_TRY(one_for_each(b, i, channels));
    const int64_t parts[] = {x.shape[0], channels, dhowi_extent(&x, 1, x.rank) / channels};
    DHOWI_TRY(dhowi_reshape(b, b->out[0], 3, parts, &b->out[0]));
    DHOWI_TRY(dhowi_along(b, scale, 3, 1, &scale));
    DHOWI_TRY(dhowi_along(b, shift, 3, 1, &shift));
    DHOWI_TRY(
        scale_shift(b, b->out[0], unless_all(b, scale, 1), unless_all(b, shift, 0), &b->out[0]));
    return dhowi_reshape(b, b->out[0], x.rank, x.shape, &b->out[0]);
}

dhow_status dhowi_norm_to_divide_by(dhowi_lowering *b, int kind, int32_t x, const bool *axes,
                                    int32_t *out) {
    int32_t zero;
    DHOWI_TRY(dhowi_reduce(b, kind, x, axes, out));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_EQ, *out, 0, &zero));
    return dhowi_map_two(b, DHOWI_MAP_ADD, *out, zero, out);
}

dhow_status dhowi_lower_lp_norm(dhowi_lowering *b) {
    int32_t axis, size;
    bool axes[DHOW_MAX_RANK] = {false};
    int64_t p = dhowi_attr_int(b, "p", 2);
    DHOWI_TRY(dhowi_axis(dhowi_desc_at(b, b->in[0]), dhowi_attr_int(b, "axis", -1), &axis));
    if (p != 1 && p != 2) DHOWI_REFUSE("p is %" PRId64 ", not 1 or 2", p);
    axes[axis] = true;
    DHOWI_TRY(dhowi_norm_to_divide_by(b, p == 1 ? DHOWI_L1 : DHOWI_L2, b->in[0], axes, &size));
    return dhowi_map_two(b, DHOWI_MAP_DIV, b->in[0], size, &b->out[0]);
}

dhow_status dhowi_lower_mvn(dhowi_lowering *b) {
    static const int64_t standard[] = {0, 2, 3};
    const dhowi_tensor_desc *x = dhowi_desc_at(b, b->in[0]);
    bool axes[DHOW_MAX_RANK] = {false};
    uint32_t count;
    int32_t mean, d, size;
    const int64_t *given = dhowi_attr_ints(b, "axes", &count);
    if (given == NULL) {
        given = standard;
        count = 3;
    }
    for (uint32_t i = 0; i < count; i++) {
        int32_t axis;
        DHOWI_TRY(dhowi_axis(x, given[i], &axis));
        axes[axis] = true;
    }
    const dhow_dtype dtype = x->dtype;
    int32_t wide;
    DHOWI_TRY(dhowi_cast_to(b, b->in[0], dtype == DHOW_F64 ? DHOW_F64 : DHOW_F32, &wide));
    DHOWI_TRY(dhowi_reduce(b, DHOWI_MEAN, wide, axes, &mean));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, wide, mean, &d));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SQUARE, 0, 0, d, &size));
    DHOWI_TRY(dhowi_reduce(b, DHOWI_MEAN, size, axes, &size));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SQRT, 0, 0, size, &size));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_ADD, size, 1e-9, &size));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_DIV, d, size, &d));
    return dhowi_cast_to(b, d, dtype, &b->out[0]);
}

dhow_status dhowi_lower_lrn(dhowi_lowering *b) {
    int32_t x = b->in[0];
    const dhow_dtype dtype = dhowi_desc_at(b, x)->dtype;
    DHOWI_TRY(dhowi_widened(b, DHOWI_OP_lrn, x, &x));
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, x);
    int64_t size = dhowi_attr_int(b, "size", 0);
    if (desc.rank < 2 || size < 1 || size > INT32_MAX) DHOWI_REFUSE("size %" PRId64, size);
    const dhowi_attrs attrs = {.split = {.outer = desc.shape[0],
                                         .n = desc.shape[1],
                                         .inner = dhowi_extent(&desc, 2, desc.rank),
                                         .count = size,
                                         .alpha = dhowi_attr_float(b, "alpha", 1e-4f),
                                         .beta = dhowi_attr_float(b, "beta", 0.75f),
                                         .value = dhowi_attr_float(b, "bias", 1.0f)}};
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_lrn, &x, 1, &attrs, &desc, &b->out[0]));
    return dhowi_cast_to(b, b->out[0], dtype, &b->out[0]);
}
