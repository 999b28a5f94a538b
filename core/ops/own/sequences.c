/* SPDX-License-Identifier: Apache-2.0
 *
 * Norms over channels, running sums and recurrent layers.
 */
#include <math.h>

#include "ops/own/own.h"

dhow_status dhowi_run_lrn(const dhowi_call *call) {
    const dhowi_axis_split *r = &call->attrs->split;
    dhowi_own_launch l = {0};
    dhowi_add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, r->outer, r->n, r->inner, r->count);
    l.args[l.arg_count++] = dhowi_arg_f32(r->alpha);
    l.args[l.arg_count++] = dhowi_arg_f32(r->beta);
    l.args[l.arg_count++] = dhowi_arg_f32(r->value);
    return dhowi_run_own(call, &l, call->out->count * r->count);
}

dhow_status dhowi_run_lstm_cell(const dhowi_call *call) {
    const dhow_tensor *c = call->in[2];
    dhowi_own_launch l = {0};
    for (int i = 0; i < 3; i++) dhowi_add_tensor(&l, call->in[i], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->in[3] != NULL ? call->in[3] : call->in[2], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    dhowi_add_tensor(&l, call->second, DHOW_ACCESS_WRITE);
    int64_t hidden = c->shape[c->rank - 1];
    DHOWI_ADD_VALUES(&l, c->count / hidden, hidden);
    l.args[l.arg_count++] = dhowi_arg_i32(call->in[3] != NULL);
    return dhowi_run_own(call, &l, c->count * 16);
}

/* Whether threads share the cells of a sequence, each time step a launch: where most of them would
 * have no sequence to themselves, and a step takes longer than they wait for each other. */
static bool shares_steps(const dhowi_call *call, int64_t gates) {
    enum { ROWS = 4, LEAST_PRODUCTS = 1 << 17, MOST_STEPS = 1 << 12 };
    const dhow_device *device = call->stream->device;
    const int64_t *shape = call->out->shape, hidden = shape[3];
    const int64_t groups = shape[1] * dhowi_ceil_div(shape[2], ROWS);
    const bool twice =
        gates == 3 && (call->attrs->recurrent.flags & DHOWI_RECURRENT_RESET_AFTER) == 0;
    return dhowi_device_is_host(device) && 2 * groups <= device->desc.compute_units && !twice &&
           shape[0] <= MOST_STEPS && dhowi_work_of(gates * hidden, hidden) >= LEAST_PRODUCTS;
}

/* x, r, h0, c0, peepholes or a bias, lengths: x stands in for what there is not. */
dhow_status dhowi_run_recurrent(const dhowi_call *call) {
    enum { BEGINS_H = 2, BEGINS_C = 4, HAS_MORE = 8, HAS_LENGTHS = 16 }; /* of the kernel */
    static const int32_t given[] = {0, 0, BEGINS_H, BEGINS_C, HAS_MORE, HAS_LENGTHS};
    const dhowi_recurrent *r = &call->attrs->recurrent;
    const int64_t *shape = call->out->shape; /* [steps, directions, batch, hidden] */
    const int64_t together = shares_steps(call, r->gates) ? 1 : shape[0];
    int32_t flags = r->flags, functions = 0;
    dhowi_own_launch l = {0};
    for (int i = 0; i < 6; i++) {
        dhowi_add_tensor(&l, call->in[i] != NULL ? call->in[i] : call->in[0], DHOW_ACCESS_READ);
        if (call->in[i] != NULL) flags |= given[i];
    }
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    dhowi_add_tensor(&l, call->second, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, shape[0], shape[2], shape[3], shape[1], 0, together);
    dhow_arg *range = &l.args[l.arg_count - 2];
    for (int i = 0; i < DHOWI_RECURRENT_FUNCTIONS; i++)
        functions |= (int32_t)r->function[i] << 4 * i;
    const int32_t numbers[] = {r->gates, flags, functions};
    for (int i = 0; i < 3; i++) l.args[l.arg_count++] = dhowi_arg_i32(numbers[i]);
    for (int i = 0; i < 3; i++) l.args[l.arg_count++] = dhowi_arg_f32(r->alpha[i]);
    for (int i = 0; i < 3; i++) l.args[l.arg_count++] = dhowi_arg_f32(r->beta[i]);
    l.args[l.arg_count++] = dhowi_arg_f32(r->clip);
    /* as many multiplications as a gate takes */
    const int64_t each = dhowi_work_of(call->in[0]->count / shape[0], dhowi_ceil_div(shape[3], 4));
    for (int64_t t = 0; t < shape[0]; t += together) {
        range[0] = dhowi_arg_i64(t);
        range[1] = dhowi_arg_i64(t + together);
        DHOWI_TRY(dhowi_run_own(call, &l, dhowi_work_of(each, together)));
    }
    return DHOW_OK;
}

/* One launch of parts of x, which begin with what is before them, if it is given. */
static dhow_status add_up_parts(const dhowi_call *call, dhow_tensor *x, dhow_tensor *before,
                                dhow_tensor *y, int64_t n, int64_t parts, int32_t exclusive) {
    const dhowi_axis_split *r = &call->attrs->split;
    dhow_kernel *kernel;
    dhowi_own_launch l = {0};
    DHOWI_TRY(dhowi_kernel_of(call->stream->device, "cumsum_parts", x->dtype, &kernel));
    dhowi_add_tensor(&l, x, DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, before != NULL ? before : x, DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, y, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, r->outer, n, r->inner, parts);
    l.args[l.arg_count++] = dhowi_arg_i32(before != NULL);
    l.args[l.arg_count++] = dhowi_arg_i32(exclusive);
    l.args[l.arg_count++] = dhowi_arg_i32(r->flag[1]);
    return dhowi_run_launch(call, &l, kernel, x->count);
}

/* Sums of parts, running sums of those, and with these the parts: see kernels/parts.k. */
static dhow_status cumsum_in_parts(const dhowi_call *call, dhow_tensor *x, dhow_tensor *y,
                                   int64_t n, int32_t exclusive) {
    enum { GROUP = 256, STEPS = 16 };
    const dhowi_axis_split *r = &call->attrs->split;
    const int64_t lanes = DHOWI_MAX(GROUP / r->inner, 1), parts = dhowi_ceil_div(n, lanes * STEPS);
    const int64_t shape[] = {r->outer, parts, r->inner};
    dhow_device *device = call->stream->device;
    dhow_tensor *sums = NULL, *before = NULL;
    dhow_kernel *kernel;
    dhowi_own_launch l = {0};
    if (parts == 1) return add_up_parts(call, x, NULL, y, n, 1, exclusive);
    DHOWI_TRY(dhowi_kernel_of(device, "reduce_parts", x->dtype, &kernel));
    dhow_status status = dhowi_tensor_new(device, x->dtype, 3, shape, &sums);
    if (status == DHOW_OK) status = dhowi_tensor_new(device, x->dtype, 3, shape, &before);
    if (status == DHOW_OK) {
        dhowi_add_tensor(&l, x, DHOW_ACCESS_READ);
        dhowi_add_tensor(&l, sums, DHOW_ACCESS_WRITE);
        DHOWI_ADD_VALUES(&l, r->outer, n, r->inner, parts);
        l.args[l.arg_count++] = dhowi_arg_i32(0); /* sums */
        l.args[l.arg_count++] = dhowi_arg_f32(1);
        status = dhowi_run_launch(call, &l, kernel, x->count);
    }
    if (status == DHOW_OK) status = cumsum_in_parts(call, sums, before, parts, 1);
    if (status == DHOW_OK) status = add_up_parts(call, x, before, y, n, parts, exclusive);
    dhow_tensor_release(sums);
    dhow_tensor_release(before);
    return status;
}

/* A launch in which an item has all steps of a line. */
static dhow_status run_lines(const dhowi_call *call) {
    const dhowi_axis_split *r = &call->attrs->split;
    dhowi_own_launch l = {0};
    dhowi_add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, r->outer, r->n, r->inner);
    l.args[l.arg_count++] = dhowi_arg_i32(r->flag[0]);
    l.args[l.arg_count++] = dhowi_arg_i32(r->flag[1]);
    return dhowi_run_own(call, &l, call->out->count);
}

dhow_status dhowi_run_cumsum(const dhowi_call *call) {
    enum { LEAST_STEPS = 64, MOST_LINES = 1 << 16 };
    const dhowi_axis_split *r = &call->attrs->split;
    const dhow_device *device = call->stream->device;
    if (!dhowi_device_is_host(device) && dhowi_splits_rows(device) && r->n >= LEAST_STEPS &&
        call->out->count > 0 && r->outer * r->inner < MOST_LINES)
        return cumsum_in_parts(call, call->in[0], call->out, r->n, r->flag[0]);
    return run_lines(call);
}

dhow_status dhowi_run_cumprod(const dhowi_call *call) { return run_lines(call); }

dhow_status dhowi_run_dropout(const dhowi_call *call) {
    const dhowi_attrs *a = call->attrs;
    const double zeros = a->number, scale = zeros < 1 ? 1 / (1 - zeros) : 0;
    dhowi_own_launch l = {0};
    dhowi_add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->in[1], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, call->out->count, a->split.n, (int64_t)ldexp(zeros, 32));
    l.args[l.arg_count++] =
        call->out->dtype == DHOW_F64 ? dhowi_arg_f64(scale) : dhowi_arg_f32((float)scale);
    DHOWI_ADD_VALUES(&l, call->in[1]->count > 1);
    return dhowi_run_own(call, &l, call->out->count * 4);
}

dhow_status dhowi_run_determinant(const dhowi_call *call) {
    const dhow_tensor *x = call->in[0];
    dhowi_own_launch l = {0};
    dhowi_add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    dhowi_add_tensor(&l, call->second, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, call->out->count, x->shape[x->rank - 1]);
    return dhowi_run_own(call, &l, x->count);
}
