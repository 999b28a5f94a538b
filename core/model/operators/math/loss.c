/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax, LogSoftmax and Hardmax; losses by class: what the target names is picked from the
 * scores, weighted and reduced.
 */
#include <inttypes.h>

#include "model/operators/math/math.h"

typedef struct loss {
    int32_t classes; /* [n, 1, ...], i64, of ignored targets 0 */
    int32_t weight;  /* [n, 1, ...]; -1: all ones */
} loss;

/* 1 where a target counts and 0 where it is the one to ignore, in the scores' dtype. */
static dhow_status skip_ignored(dhowi_lowering *b, dhow_dtype dtype, loss *l) {
    int32_t kept;
    if (dhowi_attr(b, "ignore_index", DHOWI_ATTRIBUTE_INT) == NULL) return DHOW_OK;
    const int64_t ignored = dhowi_attr_int(b, "ignore_index", 0);
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_NE, l->classes, (double)ignored, &kept));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, l->classes, kept, &l->classes));
    DHOWI_TRY(dhowi_cast_to(b, kept, dtype, &kept));
    l->weight = kept;
    return DHOW_OK;
}

static dhow_status weigh(dhowi_lowering *b, const dhowi_tensor_desc *x, loss *l) {
    int32_t own;
    if (!dhowi_given(b, 2)) return DHOW_OK;
    const dhowi_tensor_desc *w = dhowi_desc_at(b, b->in[2]);
    if (w->rank != 1 || w->shape[0] != x->shape[1] || w->dtype != x->dtype)
        DHOWI_REFUSE("there is no weight of type %s for each of %" PRId64 " classes",
                     dhow_dtype_name(x->dtype), x->shape[1]);
    DHOWI_TRY(dhowi_gather_along(b, b->in[2], 0, l->classes, &own));
    if (l->weight < 0) {
        l->weight = own;
        return DHOW_OK;
    }
    return dhowi_map_two(b, DHOWI_MAP_MUL, l->weight, own, &l->weight);
}

/* The scores that the classes name: [n, c, ...] to [n, 1, ...]. */
static dhow_status pick_classes(dhowi_lowering *b, int32_t x, const loss *l, int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x), chosen = *dhowi_desc_at(b, l->classes);
    const int32_t in[] = {x, l->classes};
    const dhowi_tensor_desc desc = {.dtype = own.dtype, .rank = own.rank};
    dhowi_tensor_desc y = desc;
    dhowi_attrs attrs = {
        .split = {.n = own.shape[1], .count = dhowi_count_of(&chosen), .rank = own.rank}};
    for (int32_t i = 0; i < own.rank; i++) y.shape[i] = attrs.split.shape[i] = chosen.shape[i];
    for (int32_t i = own.rank - 1, step = 0; i >= 0; i--, step++)
        attrs.split.strides[i] = step == 0 ? 1 : attrs.split.strides[i + 1] * own.shape[i + 1];
    attrs.split.stride = attrs.split.strides[1];
    attrs.split.strides[1] = 0;
    return dhowi_emit(b, DHOWI_OP_gather_elements, in, 2, &attrs, &y, out);
}

static dhow_status reduce_loss(dhowi_lowering *b, const loss *l, int32_t x, int32_t *out) {
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, x);
    const bool mean = dhowi_attr_is(b, "reduction", "mean", "mean");
    bool axes[DHOW_MAX_RANK];
    int32_t total;
    if (dhowi_attr_is(b, "reduction", "none", "mean")) {
        int64_t shape[DHOW_MAX_RANK];
        for (int32_t i = 0; i + 1 < desc.rank; i++) shape[i] = desc.shape[i == 0 ? 0 : i + 1];
        return dhowi_reshape(b, x, desc.rank - 1, shape, out);
    }
    if (!mean && !dhowi_attr_is(b, "reduction", "sum", "mean"))
        return dhowi_refuse_text(b, "reduction");
    for (int32_t i = 0; i < desc.rank; i++) axes[i] = true;
    DHOWI_TRY(dhowi_reduce(b, mean && l->weight < 0 ? DHOWI_MEAN : DHOWI_SUM, x, axes, out));
    if (mean && l->weight >= 0) {
        DHOWI_TRY(dhowi_reduce(b, DHOWI_SUM, l->weight, axes, &total));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_DIV, *out, total, out));
    }
    return dhowi_reshape(b, *out, 0, NULL, out);
}

/* From logarithms of probabilities. */
static dhow_status likelihood(dhowi_lowering *b, int32_t x, int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x), t = *dhowi_desc_at(b, b->in[1]);
    loss l = {.weight = -1};
    dhowi_tensor_desc wide = own;
    bool fits = own.rank >= 2 && t.rank == own.rank - 1 && t.shape[0] == own.shape[0];
    for (int32_t i = 2; fits && i < own.rank; i++) fits = t.shape[i - 1] == own.shape[i];
    if (!fits || dhowi_is_float(t.dtype)) {
        char p[160], q[160];
        DHOWI_REFUSE("scores %s and targets %s do not fit", dhowi_desc_text(&own, p, sizeof p),
                     dhowi_desc_text(&t, q, sizeof q));
    }
    wide.shape[1] = 1;
    DHOWI_TRY(dhowi_as_index(b, b->in[1], &l.classes));
    DHOWI_TRY(dhowi_reshape(b, l.classes, wide.rank, wide.shape, &l.classes));
    DHOWI_TRY(skip_ignored(b, own.dtype, &l));
    DHOWI_TRY(weigh(b, &own, &l));
    DHOWI_TRY(pick_classes(b, x, &l, out));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_NEG, 0, 0, *out, out));
    if (l.weight >= 0) DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, *out, l.weight, out));
    return reduce_loss(b, &l, *out, out);
}

dhow_status dhowi_lower_likelihood_loss(dhowi_lowering *b) {
    return likelihood(b, b->in[0], &b->out[0]);
}

dhow_status dhowi_lower_entropy_loss(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    const dhowi_attrs attrs = {.dim = 1};
    int32_t logarithms;
    if (x.rank < 2 || !dhowi_is_float(x.dtype)) {
        char text[160];
        DHOWI_REFUSE("x is %s, floats [n, c, ...] fit", dhowi_desc_text(&x, text, sizeof text));
    }
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_log_softmax, b->in, 1, &attrs, &x, &logarithms));
    if (b->out_count > 1) b->out[1] = logarithms;
    return likelihood(b, logarithms, &b->out[0]);
}

/* ---- softmax ---- */

/* Rows along an axis, or, `flat`, of everything from it on. */
static dhow_status rows_along(dhowi_lowering *b, int64_t at, bool flat, int32_t *x, int32_t *axis) {
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, *x);
    DHOWI_TRY(dhowi_axis(&desc, at, axis));
    if (!flat) return DHOW_OK;
    const int64_t rows[] = {dhowi_extent(&desc, 0, *axis), dhowi_extent(&desc, *axis, desc.rank)};
    *axis = 1;
    return dhowi_reshape(b, *x, 2, rows, x);
}

dhow_status dhowi_softmax_along(dhowi_lowering *b, dhowi_op_id op, int32_t x, int64_t axis,
                                bool flat, int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    dhowi_attrs attrs = {0};
    DHOWI_TRY(rows_along(b, axis, flat, &x, &attrs.dim));
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, x);
    if (!dhowi_is_float(desc.dtype)) DHOWI_REFUSE("x is %s", dhow_dtype_name(desc.dtype));
    DHOWI_TRY(dhowi_emit(b, op, &x, 1, &attrs, &desc, out));
    return dhowi_reshape(b, *out, own.rank, own.shape, out);
}

/* Before opset 13 everything from the axis on is one row. */
static bool is_flat(const dhowi_lowering *b) { return b->node->opset < 13; }

static int64_t axis_of(const dhowi_lowering *b) {
    return dhowi_attr_int(b, "axis", is_flat(b) ? 1 : -1);
}

dhow_status dhowi_lower_softmax(dhowi_lowering *b) {
    return dhowi_softmax_along(b, (dhowi_op_id)b->node->op->arg, b->in[0], axis_of(b), is_flat(b),
                               &b->out[0]);
}

dhow_status dhowi_lower_hardmax(dhowi_lowering *b) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, b->in[0]);
    int32_t x = b->in[0], axis, top, classes;
    int64_t parts[3];
    bool axes[DHOW_MAX_RANK] = {false};
    DHOWI_TRY(rows_along(b, axis_of(b), is_flat(b), &x, &axis));
    axes[axis] = true;
    DHOWI_TRY(dhowi_group_axes(b, axes, &x, parts));
    const dhowi_tensor_desc flat = {.dtype = DHOW_I64, .rank = 3, .shape = {parts[0], 1, parts[2]}};
    const dhowi_attrs attrs = {.dim = 1};
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_argmax, &x, 1, &attrs, &flat, &top));
    DHOWI_TRY(dhowi_numbers(b, DHOW_I64, 0, 1, parts[1], &classes));
    DHOWI_TRY(dhowi_along(b, classes, 3, 1, &classes));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_EQ, top, classes, &top));
    DHOWI_TRY(dhowi_cast_to(b, top, own.dtype, &top));
    return dhowi_reshape(b, top, own.rank, own.shape, &b->out[0]);
}
