/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations that read and write by index.
 */
#include <string.h>

#include "ops/own/own.h"

dhow_status dhowi_run_gather_axis(const dhowi_call *call) {
    const dhowi_axis_split *r = &call->attrs->split;
    dhow_kernel *kernel;
    dhowi_own_launch l = {0};
    DHOWI_TRY(dhowi_width_kernel(call, "gather_axis", &kernel));
    dhowi_add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->in[1], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, r->outer, r->n, r->inner, r->count);
    return dhowi_run_launch(call, &l, kernel, call->out->count);
}

static dhow_status run_elements(const dhowi_call *call, const char *base, uint32_t access) {
    const dhowi_axis_split *r = &call->attrs->split;
    dhow_dims d = {.rank = r->rank};
    dhow_kernel *kernel;
    dhowi_own_launch l = {0};
    DHOWI_TRY(dhowi_width_kernel(call, base, &kernel));
    memcpy(d.shape, r->shape, sizeof d.shape);
    memcpy(d.stride[0], r->strides, sizeof d.stride[0]);
    dhowi_add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->in[1], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, access);
    l.span = dhowi_multipliers(call->stream->device, &d, l.span, d.stride[2]);
    DHOWI_ADD_VALUES(&l, r->count, r->n, r->stride);
    l.args[l.arg_count++] = dhowi_arg_dims(&d);
    return dhowi_run_launch(call, &l, kernel, r->count);
}

dhow_status dhowi_run_gather_elements(const dhowi_call *call) {
    return run_elements(call, "gather_elements", DHOW_ACCESS_WRITE);
}

dhow_status dhowi_run_scatter_elements(const dhowi_call *call) {
    return run_elements(call, "scatter_elements", DHOW_ACCESS_READ | DHOW_ACCESS_WRITE);
}

dhow_status dhowi_run_scatter_rows(const dhowi_call *call) {
    const dhowi_axis_split *r = &call->attrs->split;
    dhow_kernel *kernel;
    dhowi_own_launch l = {0};
    DHOWI_TRY(dhowi_width_kernel(call, "scatter_rows", &kernel));
    dhowi_add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->in[1], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_READ | DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, r->n, r->inner, r->count);
    return dhowi_run_launch(call, &l, kernel, r->count * r->inner);
}
