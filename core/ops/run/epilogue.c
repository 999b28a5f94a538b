/* SPDX-License-Identifier: Apache-2.0
 *
 * What follows a product or a reduction where its kernel cannot do it: sums, quotients and
 * activations over the result, in place.
 */
#include "ops/run/rows.h"

static _Atomic int32_t g_kernel_index[2][DHOW_BOOL + 1];
static const dhowi_op k_add = {.name = "add", .kernel = "add", .kernel_index = g_kernel_index[0]},
                      k_div = {.name = "div", .kernel = "div", .kernel_index = g_kernel_index[1]};

static dhow_status change(const dhowi_op *op, dhow_stream *stream, dhow_tensor *y, dhow_tensor *x) {
    const dhowi_call call = {.op = op, .stream = stream, .in = {y, x}, .out = y};
    return dhowi_run_binary(&call);
}

dhow_status dhowi_add_to(dhow_stream *stream, dhow_tensor *y, dhow_tensor *x) {
    return change(&k_add, stream, y, x);
}

dhow_status dhowi_divide_by(dhow_stream *stream, dhow_tensor *y, dhow_tensor *x) {
    return change(&k_div, stream, y, x);
}

dhow_status dhowi_activate(dhow_stream *stream, uint32_t activation, dhow_tensor *y) {
    static _Atomic int32_t index[DHOW_ACTIVATION_SILU + 1][DHOW_BOOL + 1];
    static const char *const kernels[] = {
        [DHOW_ACTIVATION_RELU] = "relu",           [DHOW_ACTIVATION_GELU] = "gelu",
        [DHOW_ACTIVATION_GELU_TANH] = "gelu_tanh", [DHOW_ACTIVATION_SIGMOID] = "sigmoid",
        [DHOW_ACTIVATION_TANH] = "tanh",           [DHOW_ACTIVATION_SILU] = "silu"};
    if (activation == DHOW_ACTIVATION_NONE) return DHOW_OK;
    const dhowi_op op = {.name = kernels[activation],
                         .kernel = kernels[activation],
                         .kernel_index = index[activation]};
    const dhowi_call call = {.op = &op, .stream = stream, .in = {y}, .out = y};
    return dhowi_run_unary(&call);
}
