/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over any axes.
 */
#include <math.h>
#include <string.h>

#include "model/lower/composite.h"

dhow_status dhowi_group_axes(dhowi_lowering *b, const bool *axes, int32_t *x, int64_t parts[3]) {
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, *x);
    int32_t first = -1, last = -1, marked = 0, order[DHOW_MAX_RANK], n = 0;
    for (int32_t i = 0; i < desc.rank; i++) {
        if (!axes[i]) continue;
        if (first < 0) first = i;
        last = i;
        marked++;
    }
    if (last - first + 1 == marked) {
        parts[0] = dhowi_extent(&desc, 0, first);
        parts[1] = dhowi_extent(&desc, first, last + 1);
        parts[2] = dhowi_extent(&desc, last + 1, desc.rank);
    } else {
        parts[0] = parts[1] = parts[2] = 1;
        for (int32_t i = 0; i < desc.rank; i++) {
            if (!axes[i]) order[n++] = i;
            *(axes[i] ? &parts[1] : &parts[0]) *= desc.shape[i];
        }
        for (int32_t i = 0; i < desc.rank; i++) {
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
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    dhowi_tensor_desc result = own;
    int64_t parts[3];
    int32_t marked = 0;
    for (int32_t i = 0; i < own.rank; i++) {
        marked += axes[i];
        if (axes[i]) result.shape[i] = 1;
    }
    *out = x;
    if (marked == 0) return DHOW_OK;
    DHOWI_TRY(dhowi_widened(b, op, x, &x));
    DHOWI_TRY(dhowi_group_axes(b, axes, &x, parts));
    dhowi_tensor_desc flat = {
        .dtype = dhowi_desc_at(b, x)->dtype, .rank = 2, .shape = {parts[0], parts[2]}};
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
    const dhowi_tensor_desc zero = {.dtype = dhowi_desc_at(b, x)->dtype};
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
    dhow_dtype dtype = dhowi_desc_at(b, x)->dtype;
    if (kind == DHOWI_LOG_SUM_EXP) return log_sum_exp(b, x, axes, out);
    bool whole = !dhowi_is_float(dtype) && (kind == DHOWI_MEAN || forms[kind].after != 0);
    if (whole) DHOWI_TRY(dhowi_cast_to(b, x, DHOW_F64, &x));
    /* Squares, and their sums, leave f16 long before the root does. */
    if (forms[kind].before != 0 && (dtype == DHOW_F16 || dtype == DHOW_BF16))
        DHOWI_TRY(dhowi_cast_to(b, x, DHOW_F32, &x));
    if (forms[kind].before != 0) DHOWI_TRY(dhowi_map_one(b, forms[kind].before, 0, 0, x, &x));
    DHOWI_TRY(reduce_row(b, forms[kind].op, x, axes, out));
    if (forms[kind].after != 0) DHOWI_TRY(dhowi_map_one(b, forms[kind].after, 0, 0, *out, out));
    return dhowi_cast_to(b, *out, dtype, out);
}
