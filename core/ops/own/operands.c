/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of two operands, see kernels/operands.k: softmax of scores with scale and mask, norms of a
 * sum. Models make them of two steps; attrs->split says which row of the second operand goes with
 * which of the first.
 */
#include <string.h>

#include "ops/own/own.h"

bool dhowi_joins_rows(dhow_dtype dtype, int64_t cols) {
    enum { GROUP = 256, SHARE = 4 };
    return cols <= GROUP * dhowi_kept_by_item(dtype) - SHARE;
}

static dhow_status run_rows(const dhowi_call *call, dhowi_own_launch *l, const dhow_arg *values,
                            uint32_t count) {
    const dhowi_axis_split *s = &call->attrs->split;
    dhow_dims dims = {.rank = s->rank};
    memcpy(dims.shape, s->shape, sizeof dims.shape);
    memcpy(dims.stride[0], s->strides, sizeof dims.stride[0]);
    l->span = dhowi_multipliers(call->stream->device, &dims, l->span, dims.stride[2]);
    DHOWI_ADD_VALUES(l, s->outer, s->n);
    l->args[l->arg_count++] = dhowi_arg_dims(&dims);
    for (uint32_t i = 0; i < count; i++) l->args[l->arg_count++] = values[i];
    return dhowi_run_rows(call, l, s->outer, s->n);
}

dhow_status dhowi_run_softmax_scores(const dhowi_call *call) {
    dhow_tensor *x = call->in[0], *mask = call->in[1];
    const dhow_arg values[] = {dhowi_arg_f32(call->attrs->split.alpha),
                               dhowi_arg_i32(mask != NULL)};
    dhowi_own_launch l = {0};
    dhowi_add_tensor(&l, x, DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, mask != NULL ? mask : x, DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    return run_rows(call, &l, values, DHOWI_COUNT(values));
}

/* x, the other operand, gamma and beta; the second result is the sum. */
dhow_status dhowi_run_norm_sum(const dhowi_call *call) {
    dhow_tensor *x = call->in[0], *gamma = call->in[2], *beta = call->in[3], *sum = call->second;
    const dhow_arg values[] = {
        dhowi_arg_f32(call->attrs->eps), dhowi_arg_i32(call->attrs->split.flag[0]),
        dhowi_arg_i32(gamma != NULL), dhowi_arg_i32(beta != NULL), dhowi_arg_i32(sum != NULL)};
    dhowi_own_launch l = {0};
    dhowi_add_tensor(&l, x, DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->in[1], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, gamma != NULL ? gamma : x, DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, beta != NULL ? beta : x, DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, sum != NULL ? sum : call->out, DHOW_ACCESS_WRITE);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    return run_rows(call, &l, values, DHOWI_COUNT(values));
}
