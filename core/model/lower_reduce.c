/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions, softmax and normalisation.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "model/operators.h"

dhow_status dhowi_along(dhowi_lowering *b, int32_t v, int32_t rank, int32_t axis, int32_t *out) {
    int64_t shape[DHOW_MAX_RANK];
    for (int32_t i = 0; i < rank; i++)
        shape[i] = i == axis ? dhowi_count_of(dhowi_spec_at(b, v)) : 1;
    return dhowi_reshape(b, v, rank, shape, out);
}

/* ---- reductions ---- */

/* x with the marked axes side by side, as [outer][n][inner]. *moved says that they came from apart,
 * to the end. */
static dhow_status gather_axes(dhowi_lowering *b, const bool *axes, int32_t *x, int64_t parts[3]) {
    const dhowi_spec spec = *dhowi_spec_at(b, *x);
    int32_t first = -1, last = -1, marked = 0, order[DHOW_MAX_RANK], n = 0;
    for (int32_t i = 0; i < spec.rank; i++) {
        if (!axes[i]) continue;
        if (first < 0) first = i;
        last = i;
        marked++;
    }
    if (last - first + 1 == marked) {
        parts[0] = dhowi_extent(&spec, 0, first);
        parts[1] = dhowi_extent(&spec, first, last + 1);
        parts[2] = dhowi_extent(&spec, last + 1, spec.rank);
    } else {
        parts[0] = parts[1] = parts[2] = 1;
        for (int32_t i = 0; i < spec.rank; i++) {
            if (!axes[i]) order[n++] = i;
            *(axes[i] ? &parts[1] : &parts[0]) *= spec.shape[i];
        }
        for (int32_t i = 0; i < spec.rank; i++) {
            if (axes[i]) order[n++] = i;
        }
        DHOWI_TRY(dhowi_permute(b, *x, order, x));
    }
    return dhowi_reshape(b, *x, 3, parts, x);
}

/* The largest value of a type, or the least. */
static double bound_of(dhow_dtype dtype, bool largest) {
    const int bits = (int)dhow_dtype_bytes(dtype) * 8;
    const bool is_signed =
        dtype == DHOW_I8 || dtype == DHOW_I16 || dtype == DHOW_I32 || dtype == DHOW_I64;
    if (dhowi_is_float(dtype)) return largest ? (double)INFINITY : -(double)INFINITY;
    if (dtype == DHOW_BOOL) return largest;
    if (!largest) return is_signed ? -ldexp(1, bits - 1) : 0;
    return ldexp(1, is_signed ? bits - 1 : bits) - 1; /* of 64 bits saturated when it is stored */
}

static dhow_status reduce_row(dhowi_lowering *b, dhowi_op_id op, int32_t x, const bool *axes,
                              int32_t *out) {
    const dhowi_spec own = *dhowi_spec_at(b, x);
    dhowi_spec result = own;
    int64_t parts[3];
    int32_t marked = 0;
    for (int32_t i = 0; i < own.rank; i++) {
        marked += axes[i];
        if (axes[i]) result.shape[i] = 1;
    }
    *out = x;
    if (marked == 0) return DHOW_OK;
    DHOWI_TRY(dhowi_widened(b, op, x, &x));
    DHOWI_TRY(gather_axes(b, axes, &x, parts));
    dhowi_spec flat = {
        .dtype = dhowi_spec_at(b, x)->dtype, .rank = 2, .shape = {parts[0], parts[2]}};
    if (parts[1] == 0 && (op == DHOWI_OP_reduce_max || op == DHOWI_OP_reduce_min)) {
        return dhowi_filled(b, &result, bound_of(own.dtype, op == DHOWI_OP_reduce_min), out);
    }
    if (parts[1] == 0 && op != DHOWI_OP_reduce_sum && op != DHOWI_OP_reduce_prod)
        DHOWI_REFUSE("nothing is left of an axis without elements");
    const dhowi_attrs attrs = {.dim = 1};
    DHOWI_TRY(dhowi_emit(b, op, &x, 1, &attrs, &flat, out));
    DHOWI_TRY(dhowi_reshape(b, *out, result.rank, result.shape, out));
    return dhowi_cast_to(b, *out, own.dtype, out);
}

/* log sum exp(x), with the largest one taken out first where it is finite */
static dhow_status log_sum_exp(dhowi_lowering *b, int32_t x, const bool *axes, int32_t *out) {
    int32_t top, part, finite, none;
    const dhowi_spec zero = {.dtype = dhowi_spec_at(b, x)->dtype};
    if (!dhowi_is_float(zero.dtype)) DHOWI_REFUSE("x is %s", dhow_dtype_name(zero.dtype));
    DHOWI_TRY(reduce_row(b, DHOWI_OP_reduce_max, x, axes, &top));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, top, top, &finite));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_EQ, finite, 0, &finite));
    DHOWI_TRY(dhowi_filled(b, &zero, 0, &none));
    DHOWI_TRY(dhowi_select(b, finite, top, none, &top));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, x, top, &part));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_EXP, 0, 0, part, &part));
    DHOWI_TRY(reduce_row(b, DHOWI_OP_reduce_sum, part, axes, &part));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_LOG, 0, 0, part, &part));
    return dhowi_map_two(b, DHOWI_MAP_ADD, part, top, out);
}

dhow_status dhowi_reduce(dhowi_lowering *b, int kind, int32_t x, const bool *axes, int32_t *out) {
    static const struct {
        dhowi_op_id op;
        dhowi_map_op before, after; /* 0: nothing */
    } forms[] = {[DHOWI_SUM] = {DHOWI_OP_reduce_sum, 0, 0},
                 [DHOWI_MEAN] = {DHOWI_OP_reduce_mean, 0, 0},
                 [DHOWI_MAX_OF] = {DHOWI_OP_reduce_max, 0, 0},
                 [DHOWI_MIN_OF] = {DHOWI_OP_reduce_min, 0, 0},
                 [DHOWI_PROD] = {DHOWI_OP_reduce_prod, 0, 0},
                 [DHOWI_L1] = {DHOWI_OP_reduce_sum, DHOWI_MAP_ABS, 0},
                 [DHOWI_L2] = {DHOWI_OP_reduce_sum, DHOWI_MAP_SQUARE, DHOWI_MAP_SQRT},
                 [DHOWI_LOG_SUM] = {DHOWI_OP_reduce_sum, 0, DHOWI_MAP_LOG},
                 [DHOWI_SUM_SQUARE] = {DHOWI_OP_reduce_sum, DHOWI_MAP_SQUARE, 0}};
    dhow_dtype dtype = dhowi_spec_at(b, x)->dtype;
    if (kind == DHOWI_LOG_SUM_EXP) return log_sum_exp(b, x, axes, out);
    bool whole = !dhowi_is_float(dtype) && (kind == DHOWI_MEAN || forms[kind].after != 0);
    if (whole) DHOWI_TRY(dhowi_cast_to(b, x, DHOW_F64, &x));
    if (forms[kind].before != 0) DHOWI_TRY(dhowi_map_one(b, forms[kind].before, 0, 0, x, &x));
    DHOWI_TRY(reduce_row(b, forms[kind].op, x, axes, out));
    if (forms[kind].after != 0) DHOWI_TRY(dhowi_map_one(b, forms[kind].after, 0, 0, *out, out));
    return dhowi_cast_to(b, *out, dtype, out);
}

/* Without the extents of 1 that the marked axes have become. */
static dhow_status drop_axes(dhowi_lowering *b, int32_t x, const bool *axes, int32_t *out) {
    const dhowi_spec spec = *dhowi_spec_at(b, x);
    int64_t shape[DHOW_MAX_RANK];
    int32_t rank = 0;
    for (int32_t i = 0; i < spec.rank; i++) {
        if (!axes[i]) shape[rank++] = spec.shape[i];
    }
    return dhowi_reshape(b, x, rank, shape, out);
}

dhow_status dhowi_lower_reduce(dhowi_lowering *b) {
    const dhowi_spec x = *dhowi_spec_at(b, b->in[0]);
    int64_t given[DHOW_MAX_RANK];
    bool axes[DHOW_MAX_RANK] = {false};
    uint32_t count;
    bool noop, keep;
    DHOWI_TRY(dhowi_axes(b, 1, given, &count));
    DHOWI_TRY(dhowi_attr_flag(b, "noop_with_empty_axes", false, &noop));
    DHOWI_TRY(dhowi_attr_flag(b, "keepdims", true, &keep));
    if (count == 0 && noop) return dhowi_lower_identity(b);
    for (int32_t i = 0; count == 0 && i < x.rank; i++) axes[i] = true;
    for (uint32_t i = 0; i < count; i++) {
        int32_t axis;
        DHOWI_TRY(dhowi_axis(&x, given[i], &axis));
        axes[axis] = true;
    }
    DHOWI_TRY(dhowi_reduce(b, b->node->op->arg, b->in[0], axes, &b->out[0]));
    if (keep) return DHOW_OK;
    return drop_axes(b, b->out[0], axes, &b->out[0]);
}

/* Of the largest, or (arg != 0) the smallest; select_last_index looks from the end. */
dhow_status dhowi_lower_arg(dhowi_lowering *b) {
    int32_t x = b->in[0], axis;
    bool axes[DHOW_MAX_RANK] = {false};
    int64_t parts[3];
    DHOWI_TRY(dhowi_axis(dhowi_spec_at(b, x), dhowi_attr_int(b, "axis", 0), &axis));
    dhowi_spec result = *dhowi_spec_at(b, x);
    int64_t n = result.shape[axis];
    bool last, keep;
    DHOWI_TRY(dhowi_attr_flag(b, "select_last_index", false, &last));
    DHOWI_TRY(dhowi_attr_flag(b, "keepdims", true, &keep));
    if (n == 0) DHOWI_REFUSE("the axis has no elements");
    result.shape[axis] = 1;
    axes[axis] = true;
    DHOWI_TRY(dhowi_widened(b, DHOWI_OP_argmax, x, &x));
    if (b->node->op->arg != 0) DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_NEG, 0, 0, x, &x));
    if (last) {
        int32_t order;
        DHOWI_TRY(dhowi_numbers(b, DHOW_I64, (double)(n - 1), -1, n, &order));
        DHOWI_TRY(dhowi_gather_along(b, x, axis, order, &x));
    }
    DHOWI_TRY(gather_axes(b, axes, &x, parts));
    const dhowi_spec flat = {.dtype = DHOW_I64, .rank = 2, .shape = {parts[0], parts[2]}};
    const dhowi_attrs attrs = {.dim = 1};
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_argmax, &x, 1, &attrs, &flat, &b->out[0]));
    if (last) {
        DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_LINEAR, -1, (double)(n - 1), b->out[0], &b->out[0]));
    }
    DHOWI_TRY(dhowi_reshape(b, b->out[0], result.rank, result.shape, &b->out[0]));
    if (keep) return DHOW_OK;
    return drop_axes(b, b->out[0], axes, &b->out[0]);
}

/* ---- softmax ---- */

/* Before opset 13 everything from the axis on is one row. */
static dhow_status softmax_view(dhowi_lowering *b, int32_t *x, int32_t *axis) {
    const dhowi_spec spec = *dhowi_spec_at(b, b->in[0]);
    bool old = b->node->opset < 13;
    *x = b->in[0];
    DHOWI_TRY(dhowi_axis(&spec, dhowi_attr_int(b, "axis", old ? 1 : -1), axis));
    if (!old) return DHOW_OK;
    const int64_t flat[] = {dhowi_extent(&spec, 0, *axis), dhowi_extent(&spec, *axis, spec.rank)};
    *axis = 1;
    return dhowi_reshape(b, *x, 2, flat, x);
}

dhow_status dhowi_lower_softmax(dhowi_lowering *b) {
    const dhowi_spec own = *dhowi_spec_at(b, b->in[0]);
    int32_t x;
    dhowi_attrs attrs = {0};
    DHOWI_TRY(softmax_view(b, &x, &attrs.dim));
    const dhowi_spec spec = *dhowi_spec_at(b, x);
    if (!dhowi_is_float(spec.dtype)) DHOWI_REFUSE("x is %s", dhow_dtype_name(spec.dtype));
    DHOWI_TRY(dhowi_emit(b, (dhowi_op_id)b->node->op->arg, &x, 1, &attrs, &spec, &b->out[0]));
    return dhowi_reshape(b, b->out[0], own.rank, own.shape, &b->out[0]);
}

dhow_status dhowi_lower_hardmax(dhowi_lowering *b) {
    const dhowi_spec own = *dhowi_spec_at(b, b->in[0]);
    int32_t x, axis, top, classes;
    int64_t parts[3];
    bool axes[DHOW_MAX_RANK] = {false};
    DHOWI_TRY(softmax_view(b, &x, &axis));
    axes[axis] = true;
    DHOWI_TRY(gather_axes(b, axes, &x, parts));
    const dhowi_spec flat = {.dtype = DHOW_I64, .rank = 3, .shape = {parts[0], 1, parts[2]}};
    const dhowi_attrs attrs = {.dim = 1};
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_argmax, &x, 1, &attrs, &flat, &top));
    DHOWI_TRY(dhowi_numbers(b, DHOW_I64, 0, 1, parts[1], &classes));
    DHOWI_TRY(dhowi_along(b, classes, 3, 1, &classes));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_EQ, top, classes, &top));
    DHOWI_TRY(dhowi_cast_to(b, top, own.dtype, &top));
    return dhowi_reshape(b, top, own.rank, own.shape, &b->out[0]);
}

/* ---- normalisation ---- */

static dhow_status normalize_rows(dhowi_lowering *b, int32_t x, int64_t rows, int64_t cols,
                                  double eps, bool centred, int32_t *out) {
    const int64_t flat[] = {rows, cols};
    const dhowi_attrs attrs = {.eps = (float)eps,
                               .run = {.outer = rows, .n = cols, .flag = {centred}}};
    const dhow_dtype dtype = dhowi_spec_at(b, x)->dtype;
    DHOWI_TRY(dhowi_widened(b, DHOWI_OP_normalize, x, &x));
    DHOWI_TRY(dhowi_reshape(b, x, 2, flat, &x));
    const dhowi_spec spec = *dhowi_spec_at(b, x);
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_normalize, &x, 1, &attrs, &spec, out));
    return dhowi_cast_to(b, *out, dtype, out);
}

/* v * scale + shift, each -1 for none */
static dhow_status scale_shift(dhowi_lowering *b, int32_t x, int32_t scale, int32_t shift,
                               int32_t *out) {
    int32_t in[3] = {x};
    uint32_t count = 1;
    dhowi_program p = {0};
    (void)dhowi_program_add(&p, DHOWI_MAP_LOAD, 0);
    if (scale >= 0) {
        in[count] = scale;
        (void)dhowi_program_add(&p, DHOWI_MAP_MUL, (int)count++);
    }
    if (shift >= 0) {
        in[count] = shift;
        (void)dhowi_program_add(&p, DHOWI_MAP_ADD, (int)count++);
    }
    return dhowi_map(b, &p, in, count, out);
}

/* The mean and 1 / sqrt(variance + eps) of rows, which are the second and third output. */
static dhow_status row_statistics(dhowi_lowering *b, int32_t x, double eps, const bool *axes,
                                  int32_t *mean, int32_t *inverse) {
    int32_t d;
    DHOWI_TRY(dhowi_reduce(b, DHOWI_MEAN, x, axes, mean));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, x, *mean, &d));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SQUARE, 0, 0, d, &d));
    DHOWI_TRY(dhowi_reduce(b, DHOWI_MEAN, d, axes, &d));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_ADD, d, eps, &d));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SQRT, 0, 0, d, &d));
    return dhowi_map_one(b, DHOWI_MAP_RECIPROCAL, 0, 0, d, inverse);
}

static dhow_status layer_norm_row(dhowi_lowering *b, const dhowi_spec *x, int64_t rows,
                                  int64_t cols, double eps) {
    const int64_t flat[] = {rows, cols};
    int32_t in[3] = {b->in[0], b->in[1], dhowi_given(b, 2) ? b->in[2] : -1};
    dhowi_spec line = {.dtype = x->dtype, .rank = 1, .shape = {cols}};
    DHOWI_TRY(dhowi_reshape(b, in[0], 2, flat, &in[0]));
    DHOWI_TRY(dhowi_reshape(b, in[1], 1, &cols, &in[1]));
    if (in[2] >= 0) {
        DHOWI_TRY(dhowi_reshape(b, in[2], 1, &cols, &in[2]));
    } else {
        DHOWI_TRY(dhowi_filled(b, &line, 0, &in[2]));
    }
    const dhowi_attrs attrs = {.eps = (float)eps};
    const dhowi_spec spec = *dhowi_spec_at(b, in[0]);
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_layernorm, in, 3, &attrs, &spec, &b->out[0]));
    return dhowi_reshape(b, b->out[0], x->rank, x->shape, &b->out[0]);
}

dhow_status dhowi_lower_layer_norm(dhowi_lowering *b) {
    const dhowi_spec x = *dhowi_spec_at(b, b->in[0]);
    double eps = (double)dhowi_attr_float(b, "epsilon", 1e-5f);
    bool axes[DHOW_MAX_RANK] = {false};
    int32_t axis;
    DHOWI_TRY(dhowi_axis(&x, dhowi_attr_int(b, "axis", -1), &axis));
    int64_t cols = dhowi_extent(&x, axis, x.rank);
    if (dhowi_count_of(dhowi_spec_at(b, b->in[1])) == cols) {
        DHOWI_TRY(layer_norm_row(b, &x, dhowi_extent(&x, 0, axis), cols, eps));
    } else { /* the scale broadcasts */
        DHOWI_TRY(
            normalize_rows(b, b->in[0], dhowi_extent(&x, 0, axis), cols, eps, true, &b->out[0]));
        DHOWI_TRY(dhowi_reshape(b, b->out[0], x.rank, x.shape, &b->out[0]));
        DHOWI_TRY(
            scale_shift(b, b->out[0], b->in[1], dhowi_given(b, 2) ? b->in[2] : -1, &b->out[0]));
    }
    if (b->out_count < 2) return DHOW_OK;
    for (int32_t i = axis; i < x.rank; i++) axes[i] = true;
    return row_statistics(b, b->in[0], eps, axes, &b->out[1], &b->out[2]);
}

dhow_status dhowi_lower_rms_norm(dhowi_lowering *b) {
    const dhowi_spec x = *dhowi_spec_at(b, b->in[0]);
    int32_t axis;
    DHOWI_TRY(dhowi_axis(&x, dhowi_attr_int(b, "axis", -1), &axis));
    DHOWI_TRY(normalize_rows(b, b->in[0], dhowi_extent(&x, 0, axis), dhowi_extent(&x, axis, x.rank),
                             (double)dhowi_attr_float(b, "epsilon", 1e-5f), false, &b->out[0]));
    DHOWI_TRY(dhowi_reshape(b, b->out[0], x.rank, x.shape, &b->out[0]));
    return scale_shift(b, b->out[0], b->in[1], -1, &b->out[0]);
}

/* y = x scale' + shift' with scale' = scale / sqrt(variance + eps), shift' = bias - mean scale' */
dhow_status dhowi_batch_norm(dhowi_lowering *b, double eps, int32_t *out) {
    const int32_t rank = dhowi_spec_at(b, b->in[0])->rank;
    int32_t scale, shift;
    if (rank < 2) DHOWI_REFUSE("x has %d dimensions", rank);
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_ADD, b->in[4], eps, &scale));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SQRT, 0, 0, scale, &scale));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_DIV, b->in[1], scale, &scale));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, b->in[3], scale, &shift));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, b->in[2], shift, &shift));
    dhow_dtype dtype = dhowi_spec_at(b, b->in[0])->dtype;
    DHOWI_TRY(dhowi_cast_to(b, scale, dtype, &scale));
    DHOWI_TRY(dhowi_cast_to(b, shift, dtype, &shift));
    DHOWI_TRY(dhowi_along(b, scale, rank, 1, &scale));
    DHOWI_TRY(dhowi_along(b, shift, rank, 1, &shift));
    return scale_shift(b, b->in[0], scale, shift, out);
}

dhow_status dhowi_lower_batch_norm(dhowi_lowering *b) {
    bool training;
    DHOWI_TRY(dhowi_attr_flag(b, "training_mode", false, &training));
    if (training || (b->node->opset < 14 && b->out_count > 1))
        return dhowi_fail(DHOW_UNSUPPORTED, "training mode; export the model for inference");
    b->out_count = 1;
    return dhowi_batch_norm(b, (double)dhowi_attr_float(b, "epsilon", 1e-5f), &b->out[0]);
}

dhow_status dhowi_lower_instance_norm(dhowi_lowering *b) {
    const dhowi_spec x = *dhowi_spec_at(b, b->in[0]);
    int32_t scale, shift;
    if (x.rank < 3) DHOWI_REFUSE("x has %d dimensions", x.rank);
    DHOWI_TRY(normalize_rows(b, b->in[0], dhowi_extent(&x, 0, 2), dhowi_extent(&x, 2, x.rank),
                             (double)dhowi_attr_float(b, "epsilon", 1e-5f), true, &b->out[0]));
    DHOWI_TRY(dhowi_reshape(b, b->out[0], x.rank, x.shape, &b->out[0]));
    DHOWI_TRY(dhowi_along(b, b->in[1], x.rank, 1, &scale));
    DHOWI_TRY(dhowi_along(b, b->in[2], x.rank, 1, &shift));
    return scale_shift(b, b->out[0], scale, shift, &b->out[0]);
}

/* Opset 18 has scale and bias per group, 21 per channel. */
dhow_status dhowi_lower_group_norm(dhowi_lowering *b) {
    const dhowi_spec x = *dhowi_spec_at(b, b->in[0]);
    int64_t groups = dhowi_attr_int(b, "num_groups", 1);
    int32_t scale = b->in[1], shift = b->in[2];
    if (x.rank < 2) DHOWI_REFUSE("x has %d dimensions", x.rank);
    if (groups < 1 || x.shape[1] < 1 || x.shape[1] % groups != 0)
        DHOWI_REFUSE("%" PRId64 " groups do not divide %" PRId64 " channels", groups, x.shape[1]);
    int64_t cols = dhowi_extent(&x, 1, x.rank) / groups;
    DHOWI_TRY(normalize_rows(b, b->in[0], x.shape[0] * groups, cols,
                             (double)dhowi_attr_float(b, "epsilon", 1e-5f), true, &b->out[0]));
    bool per_group = dhowi_count_of(dhowi_spec_at(b, scale)) == groups;
    const int64_t channels = per_group ? groups : x.shape[1];
    const int64_t parts[] = {x.shape[0], channels, dhowi_extent(&x, 1, x.rank) / channels};
    DHOWI_TRY(dhowi_reshape(b, b->out[0], 3, parts, &b->out[0]));
    DHOWI_TRY(dhowi_along(b, scale, 3, 1, &scale));
    DHOWI_TRY(dhowi_along(b, shift, 3, 1, &shift));
    DHOWI_TRY(scale_shift(b, b->out[0], scale, shift, &b->out[0]));
    return dhowi_reshape(b, b->out[0], x.rank, x.shape, &b->out[0]);
}

dhow_status dhowi_lower_lp_norm(dhowi_lowering *b) {
    int32_t axis, size;
    bool axes[DHOW_MAX_RANK] = {false};
    int64_t p = dhowi_attr_int(b, "p", 2);
    DHOWI_TRY(dhowi_axis(dhowi_spec_at(b, b->in[0]), dhowi_attr_int(b, "axis", -1), &axis));
    if (p != 1 && p != 2) DHOWI_REFUSE("p is %" PRId64 ", not 1 or 2", p);
    axes[axis] = true;
    DHOWI_TRY(dhowi_reduce(b, p == 1 ? DHOWI_L1 : DHOWI_L2, b->in[0], axes, &size));
    return dhowi_map_two(b, DHOWI_MAP_DIV, b->in[0], size, &b->out[0]);
}

dhow_status dhowi_lower_mvn(dhowi_lowering *b) {
    static const int64_t standard[] = {0, 2, 3};
    const dhowi_spec *x = dhowi_spec_at(b, b->in[0]);
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
    DHOWI_TRY(dhowi_reduce(b, DHOWI_MEAN, b->in[0], axes, &mean));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, b->in[0], mean, &d));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SQUARE, 0, 0, d, &size));
    DHOWI_TRY(dhowi_reduce(b, DHOWI_MEAN, size, axes, &size));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SQRT, 0, 0, size, &size));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_ADD, size, 1e-9, &size));
    return dhowi_map_two(b, DHOWI_MAP_DIV, d, size, &b->out[0]);
}

dhow_status dhowi_lower_lrn(dhowi_lowering *b) {
    int32_t x = b->in[0];
    const dhow_dtype dtype = dhowi_spec_at(b, x)->dtype;
    DHOWI_TRY(dhowi_widened(b, DHOWI_OP_lrn, x, &x));
    const dhowi_spec spec = *dhowi_spec_at(b, x);
    int64_t size = dhowi_attr_int(b, "size", 0);
    if (spec.rank < 2 || size < 1 || size > INT32_MAX) DHOWI_REFUSE("size %" PRId64, size);
    const dhowi_attrs attrs = {.run = {.outer = spec.shape[0],
                                       .n = spec.shape[1],
                                       .inner = dhowi_extent(&spec, 2, spec.rank),
                                       .count = size,
                                       .alpha = dhowi_attr_float(b, "alpha", 1e-4f),
                                       .beta = dhowi_attr_float(b, "beta", 0.75f),
                                       .value = dhowi_attr_float(b, "bias", 1.0f)}};
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_lrn, &x, 1, &attrs, &spec, &b->out[0]));
    return dhowi_cast_to(b, b->out[0], dtype, &b->out[0]);
}
