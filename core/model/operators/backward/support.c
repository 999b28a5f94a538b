/* SPDX-License-Identifier: Apache-2.0
 *
 * What the rules of derivatives share.
 */
#include "model/operators/backward/backward.h"

dhow_status dhowi_back_input(dhowi_reverser *r, uint32_t i, int32_t *out) {
    if (i >= r->node->in_count || r->node->in[i] < 0) DHOWI_REFUSE("its input %u is missing", i);
    DHOWI_TRY(dhowi_ref_of(r->b, r->node->in[i], out));
    return *out >= 0 ? dhowi_in_half(r->b, out, r->half) : DHOW_OK;
}

dhow_status dhowi_back_output(dhowi_reverser *r, int32_t *out) {
    DHOWI_TRY(dhowi_ref_of(r->b, r->node->out[0], out));
    return dhowi_in_half(r->b, out, r->half);
}

dhow_status dhowi_back_inputs(dhowi_reverser *r, uint32_t count, int32_t *in) {
    for (uint32_t i = 0; i < count; i++) {
        in[i] = -1;
        if (i < r->node->in_count && r->node->in[i] >= 0) DHOWI_TRY(dhowi_back_input(r, i, &in[i]));
    }
    return DHOW_OK;
}

dhowi_back_scope dhowi_back_enter(dhowi_reverser *r, int32_t *in, uint32_t count) {
    dhowi_lowering *b = r->b;
    const dhowi_back_scope scope = {b->in, b->in_count, b->out_count};
    b->in = in;
    b->in_count = count;
    b->out_count = r->node->out_count;
    return scope;
}

void dhowi_back_leave(dhowi_reverser *r, dhowi_back_scope scope) {
    r->b->in = scope.in;
    r->b->in_count = scope.in_count;
    r->b->out_count = scope.out_count;
}

dhow_status dhowi_back_lower(dhowi_reverser *r, dhowi_lower_fn *lower, int32_t *in, uint32_t count,
                             int32_t *out) {
    const dhowi_back_scope scope = dhowi_back_enter(r, in, count);
    r->b->out_count = 1;
    dhow_status status = lower(r->b);
    *out = r->b->out[0];
    dhowi_back_leave(r, scope);
    return status;
}

bool dhowi_back_wants(const dhowi_reverser *r, uint32_t i) {
    return i < r->node->in_count && r->node->in[i] >= 0 && r->leads[r->node->in[i]];
}

/* Sums over what was repeated. */
static dhow_status unbroadcast(dhowi_lowering *b, int32_t d, const dhowi_tensor_desc *to,
                               int32_t *out) {
    const dhowi_tensor_desc from = *dhowi_desc_at(b, d);
    bool axes[DHOW_MAX_RANK] = {false}, any = false;
    *out = d;
    if (dhowi_shape_equal(from.rank, from.shape, to->rank, to->shape)) return DHOW_OK;
    for (int32_t i = 0; i < from.rank; i++) {
        int32_t own = i - (from.rank - to->rank);
        axes[i] = own < 0 || (to->shape[own] == 1 && from.shape[i] != 1);
        any = any || axes[i];
    }
    if (any) DHOWI_TRY(dhowi_reduce(b, DHOWI_SUM, d, axes, out));
    return dhowi_reshape(b, *out, to->rank, to->shape, out);
}

dhow_status dhowi_back_pass(dhowi_reverser *r, uint32_t i, int32_t d) {
    int32_t x, *slope = &r->slope[r->node->in[i]];
    DHOWI_TRY(dhowi_back_input(r, i, &x));
    const dhowi_tensor_desc desc = *dhowi_desc_at(r->b, x);
    DHOWI_TRY(unbroadcast(r->b, d, &desc, &d));
    if (r->half) dhowi_mark_half(r->b, d);
    if (*slope < 0) {
        *slope = d;
        return DHOW_OK;
    }
    /* Sums of both kinds are f32. */
    const bool half = r->b->items[*slope].half && r->b->items[d].half;
    DHOWI_TRY(dhowi_in_half(r->b, slope, half));
    DHOWI_TRY(dhowi_in_half(r->b, &d, half));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_ADD, *slope, d, slope));
    if (half) dhowi_mark_half(r->b, *slope);
    return DHOW_OK;
}

dhow_status dhowi_back_times(dhowi_reverser *r, int32_t x, int32_t *out) {
    return dhowi_map_two(r->b, DHOWI_MAP_MUL, r->dy, x, out);
}

dhow_status dhowi_back_scaled(dhowi_reverser *r, int32_t x) {
    int32_t d;
    DHOWI_TRY(dhowi_back_times(r, x, &d));
    return dhowi_back_pass(r, 0, d);
}

dhow_status dhowi_turned(dhowi_lowering *b, int32_t x, int32_t *out) {
    int32_t rank = dhowi_desc_at(b, x)->rank, order[DHOW_MAX_RANK];
    for (int32_t i = 0; i < rank; i++) order[i] = i;
    order[rank - 2] = rank - 1;
    order[rank - 1] = rank - 2;
    return dhowi_permute(b, x, order, out);
}

dhow_status dhowi_as_matrix(dhowi_lowering *b, int32_t x, int32_t *out) {
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, x);
    const int64_t shape[] = {dhowi_extent(&desc, 0, desc.rank - 1), desc.shape[desc.rank - 1]};
    return dhowi_reshape(b, x, 2, shape, out);
}

dhow_status dhowi_sum_along(dhowi_lowering *b, int32_t x, int32_t axis, int32_t *out) {
    bool axes[DHOW_MAX_RANK] = {false};
    axes[axis] = true;
    return dhowi_reduce(b, DHOWI_SUM, x, axes, out);
}

dhow_status dhowi_sum_but(dhowi_lowering *b, int32_t x, int32_t axis, int32_t *out) {
    const dhowi_tensor_desc desc = *dhowi_desc_at(b, x);
    bool axes[DHOW_MAX_RANK];
    for (int32_t i = 0; i < desc.rank; i++) axes[i] = i != axis;
    DHOWI_TRY(dhowi_reduce(b, DHOWI_SUM, x, axes, out));
    return dhowi_reshape(b, *out, 1, &desc.shape[axis], out);
}

/* Positions are compared as floats: f32 tells 2^24 of them apart. */
dhow_status dhowi_one_hot(dhowi_lowering *b, int32_t classes, int32_t axis, int64_t count,
                          dhow_dtype dtype, int32_t *out) {
    const dhow_dtype wide = dtype == DHOW_F64 ? DHOW_F64 : DHOW_F32;
    const int32_t rank = dhowi_desc_at(b, classes)->rank;
    int32_t named, at;
    if (count > 1 << 24) DHOWI_REFUSE("%lld classes; 2^24 are told apart", (long long)count);
    DHOWI_TRY(dhowi_cast_to(b, classes, wide, &named));
    DHOWI_TRY(dhowi_numbers(b, wide, 0, 1, count, &at));
    DHOWI_TRY(dhowi_along(b, at, rank, axis, &at));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_EQ, named, at, out));
    return dhowi_cast_to(b, *out, dtype, out);
}
