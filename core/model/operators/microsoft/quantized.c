/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators on quantised values, which stand for scale (x - zero): computed in f32 and rounded
 * once, halves to the even one.
 */
#include <inttypes.h>

#include "model/lower/products/products.h"
#include "model/operators/microsoft/microsoft.h"
#include "model/operators/nn/nn.h"

static dhow_dtype type_of(const dhowi_lowering *b, uint32_t input) {
    return dhowi_desc_at(b, b->in[input])->dtype;
}

/* Inputs a, its scale and zero point, b with the same, those of the result; the row's argument is
 * the operation. */
dhow_status dhowi_lower_ms_qlinear_binary(dhowi_lowering *b) {
    int32_t x, y;
    DHOWI_TRY(dhowi_real_of(b, 0, 1, &x));
    DHOWI_TRY(dhowi_real_of(b, 3, 1, &y));
    DHOWI_TRY(dhowi_map_two(b, (dhowi_map_op)b->node->op->arg, x, y, &x));
    return dhowi_quantized_by(b, x, 6, type_of(b, 0), &b->out[0]);
}

/* x, its scale and zero point, those of the result: input 3 and 4. */
dhow_status dhowi_lower_ms_qlinear_unary(dhowi_lowering *b) {
    const double alpha = (double)dhowi_attr_float(b, "alpha", 0.01f);
    int32_t x;
    DHOWI_TRY(dhowi_real_of(b, 0, 1, &x));
    DHOWI_TRY(dhowi_map_one(b, (dhowi_map_op)b->node->op->arg, alpha, 0, x, &x));
    return dhowi_quantized_by(b, x, 3, type_of(b, 0), &b->out[0]);
}

/* Scale and zero point of the result, then x, scale and zero point of each part. */
dhow_status dhowi_lower_ms_qlinear_concat(dhowi_lowering *b) {
    int32_t parts[DHOWI_MAX_OUTPUTS_OF_NODE], axis;
    const uint32_t count = (b->in_count - 2) / 3;
    if ((b->in_count - 2) % 3 != 0)
        DHOWI_REFUSE("it has %u inputs: two, and three for each part", b->in_count);
    int64_t along;
    DHOWI_TRY(dhowi_attr_needed(b, "axis", &along));
    DHOWI_TRY(dhowi_axis(dhowi_desc_at(b, b->in[2]), along, &axis));
    for (uint32_t i = 0; i < count; i++) {
        DHOWI_TRY(dhowi_real_of(b, 2 + 3 * i, 1, &parts[i]));
        DHOWI_TRY(dhowi_quantized_by(b, parts[i], 0, DHOW_U8, &parts[i]));
    }
    return dhowi_concat(b, parts, count, axis, &b->out[0]);
}

/* The last dimension becomes the second one, or the other way round. */
static dhow_status move_channels(dhowi_lowering *b, bool first, int32_t *x) {
    const int32_t rank = dhowi_desc_at(b, *x)->rank;
    int32_t order[DHOW_MAX_RANK] = {0};
    if (rank < 3) DHOWI_REFUSE("images of %d dimensions", rank);
    for (int32_t i = 1; i < rank; i++) {
        if (first) order[i] = i == 1 ? rank - 1 : i - 1;
        if (!first) order[i] = i == rank - 1 ? 1 : i + 1;
    }
    return dhowi_permute(b, *x, order, x);
}

/* Lowers a pool of x in place of the node's first input. */
static dhow_status pooled(dhowi_lowering *b, int32_t x, bool last, dhowi_lower_fn *pool,
                          int32_t *out) {
    if (last) DHOWI_TRY(move_channels(b, true, &x));
    b->in[0] = x;
    DHOWI_TRY(pool(b));
    *out = b->out[0];
    return last ? move_channels(b, false, out) : DHOW_OK;
}

static dhow_status qlinear_pool(dhowi_lowering *b, dhowi_lower_fn *pool) {
    const dhow_dtype dtype = type_of(b, 0);
    bool last;
    int32_t x;
    DHOWI_TRY(dhowi_attr_flag(b, "channels_last", false, &last));
    DHOWI_TRY(dhowi_real_of(b, 0, 1, &x));
    DHOWI_TRY(pooled(b, x, last, pool, &x));
    return dhowi_quantized_by(b, x, 3, dtype, &b->out[0]);
}

dhow_status dhowi_lower_ms_qlinear_pool(dhowi_lowering *b) {
    return qlinear_pool(b, dhowi_lower_pool);
}

dhow_status dhowi_lower_ms_qlinear_global_pool(dhowi_lowering *b) {
    return qlinear_pool(b, dhowi_lower_global_pool);
}

dhow_status dhowi_lower_ms_nhwc_pool(dhowi_lowering *b) {
    return pooled(b, b->in[0], true, dhowi_lower_pool, &b->out[0]);
}

/* condition, x with scale and zero point, y with the same, those of the result */
dhow_status dhowi_lower_ms_qlinear_where(dhowi_lowering *b) {
    int32_t x, y;
    DHOWI_TRY(dhowi_real_of(b, 1, 1, &x));
    DHOWI_TRY(dhowi_real_of(b, 4, 1, &y));
    DHOWI_TRY(dhowi_select(b, b->in[0], x, y, &x));
    return dhowi_quantized_by(b, x, 7, type_of(b, 1), &b->out[0]);
}

/* Rows are the axis, or for models of before opset 13 all from it on. */
dhow_status dhowi_lower_ms_qlinear_softmax(dhowi_lowering *b) {
    int64_t opset;
    int32_t x, axis;
    DHOWI_TRY(dhowi_axis(dhowi_desc_at(b, b->in[0]), dhowi_attr_int(b, "axis", -1), &axis));
    DHOWI_TRY(dhowi_attr_needed(b, "opset", &opset));
    DHOWI_TRY(dhowi_real_of(b, 0, 1, &x));
    DHOWI_TRY(dhowi_softmax_along(b, DHOWI_OP_softmax, x, axis, opset < 13, &x));
    return dhowi_quantized_by(b, x, 3, type_of(b, 0), &b->out[0]);
}

/* ---- integers in, floats out ---- */

/* A scale or zero point of x such that it broadcasts to it: one number, or one for each column. */
static dhow_status across(dhowi_lowering *b, int32_t v, int32_t x, int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, v), of = *dhowi_desc_at(b, x);
    const int64_t columns = of.rank > 0 ? of.shape[of.rank - 1] : 1;
    char s[160];
    *out = v;
    if (dhowi_count_of(&own) == 1) return dhowi_reshape(b, v, 0, NULL, out);
    if (own.rank == 0 || own.shape[own.rank - 1] != columns)
        DHOWI_REFUSE("a scale or zero point is %s for %" PRId64 " columns",
                     dhowi_desc_text(&own, s, sizeof s), columns);
    return own.rank == 1 ? dhowi_along(b, v, of.rank, of.rank - 1, out) : DHOW_OK;
}

static dhow_status times(dhowi_lowering *b, int32_t x, int32_t scale, int32_t *out) {
    DHOWI_TRY(across(b, scale, x, &scale));
    DHOWI_TRY(dhowi_cast_to(b, scale, DHOW_F32, &scale));
    return dhowi_map_two(b, DHOWI_MAP_MUL, x, scale, out);
}

/* (x - zero) as f32; zero, input i, may be missing. It stays as it is: what packs constant weights
 * as bytes takes off what it reads there. */
static dhow_status centred(dhowi_lowering *b, uint32_t x, uint32_t i, int32_t *out) {
    int32_t zero = -1;
    DHOWI_TRY(dhowi_check_quantised(b, x, i));
    if (dhowi_given(b, i)) DHOWI_TRY(across(b, b->in[i], b->in[x], &zero));
    return dhowi_centred(b, b->in[x], zero, out);
}

dhow_status dhowi_ms_scaled_product(dhowi_lowering *b, const dhowi_ms_factor *left,
                                    const dhowi_ms_factor *right, int32_t *out) {
    int32_t x, y;
    DHOWI_TRY(centred(b, left->codes, left->zero, &x));
    DHOWI_TRY(centred(b, right->codes, right->zero, &y));
    DHOWI_TRY(dhowi_product(b, x, y, -1, &x));
    DHOWI_TRY(times(b, x, b->in[left->scale], &x));
    return times(b, x, b->in[right->scale], out);
}

/* A, B, scales of A and B, zero points of A and B, bias. */
dhow_status dhowi_lower_ms_matmul_integer_to_float(dhowi_lowering *b) {
    const dhow_dtype dtype = type_of(b, 2);
    int32_t x, y;
    DHOWI_TRY(
        dhowi_ms_scaled_product(b, &(dhowi_ms_factor){0, 2, 4}, &(dhowi_ms_factor){1, 3, 5}, &x));
    if (dhowi_given(b, 6)) {
        DHOWI_TRY(dhowi_cast_to(b, b->in[6], DHOW_F32, &y));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, x, y, &x));
    }
    return dhowi_cast_to(b, x, dtype, &b->out[0]);
}

/* A of floats, B, its scale and zero point, bias. A is quantised by its own range. */
dhow_status dhowi_lower_ms_dynamic_matmul(dhowi_lowering *b) {
    int32_t x, y, range[3];
    DHOWI_TRY(dhowi_quantised_by_range(b, b->in[0], range));
    DHOWI_TRY(dhowi_centred(b, range[0], range[2], &x));
    DHOWI_TRY(centred(b, 1, 3, &y));
    DHOWI_TRY(dhowi_product(b, x, y, -1, &x));
    DHOWI_TRY(times(b, x, range[1], &x));
    DHOWI_TRY(times(b, x, b->in[2], &x));
    b->out[0] = x;
    if (!dhowi_given(b, 4)) return DHOW_OK;
    return dhowi_map_two(b, DHOWI_MAP_ADD, x, b->in[4], &b->out[0]);
}

/* alpha a_scale b_scale ((A - zero) (B - zero) + C), quantised where there is a scale for that. */
dhow_status dhowi_lower_ms_qgemm(dhowi_lowering *b) {
    enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, C, Y_SCALE };
    static const int32_t swapped[] = {1, 0};
    const double alpha = (double)dhowi_attr_float(b, "alpha", 1);
    bool a_swapped, b_swapped;
    int32_t x, y;
    DHOWI_TRY(dhowi_attr_flag(b, "transA", false, &a_swapped));
    DHOWI_TRY(dhowi_attr_flag(b, "transB", false, &b_swapped));
    if (dhowi_desc_at(b, b->in[A])->rank != 2 || dhowi_desc_at(b, b->in[B])->rank != 2)
        DHOWI_REFUSE("A or B is no matrix");
    if (a_swapped) DHOWI_TRY(dhowi_permute(b, b->in[A], swapped, &b->in[A]));
    if (b_swapped) DHOWI_TRY(dhowi_permute(b, b->in[B], swapped, &b->in[B]));
    DHOWI_TRY(centred(b, A, A_ZERO, &x));
    DHOWI_TRY(centred(b, B, B_ZERO, &y));
    DHOWI_TRY(dhowi_product(b, x, y, -1, &x));
    if (dhowi_given(b, C)) {
        DHOWI_TRY(dhowi_cast_to(b, b->in[C], DHOW_F32, &y));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, x, y, &x));
    }
    DHOWI_TRY(times(b, x, b->in[A_SCALE], &x));
    DHOWI_TRY(times(b, x, b->in[B_SCALE], &x));
    if (alpha != 1) DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, x, alpha, &x));
    b->out[0] = x;
    return dhowi_given(b, Y_SCALE) ? dhowi_quantized_by(b, x, Y_SCALE, DHOW_U8, &b->out[0])
                                   : DHOW_OK;
}
