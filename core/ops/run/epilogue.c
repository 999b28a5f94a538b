/* SPDX-License-Identifier: Apache-2.0
 *
 * What follows a product or a reduction where its kernel cannot do it: sums, quotients and
 * activations over the result, in place.
 */
#include "ops/run/map.h"
#include "ops/run/rows.h"

static _Atomic int32_t g_kernel_index[3][DHOW_BOOL + 1];
static const dhowi_op k_add = {.name = "add", .kernel = "add", .kernel_index = g_kernel_index[0]},
                      k_div = {.name = "div", .kernel = "div", .kernel_index = g_kernel_index[1]},
                      k_map = {.name = "map", .kernel = "map", .kernel_index = g_kernel_index[2]};

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

bool dhowi_kernels_end_with(const dhowi_activation *activation) {
    return activation->kind <= DHOW_ACTIVATION_SILU;
}

/* The program of those that are no kernel of their own. */
static void write_program(const dhowi_activation *a, dhowi_program *out) {
    static const dhowi_map_op operations[] = {[DHOW_ACTIVATION_HARD_SWISH] = DHOWI_MAP_HARD_SWISH,
                                              [DHOW_ACTIVATION_MISH] = DHOWI_MAP_MISH,
                                              [DHOW_ACTIVATION_LEAKY_RELU] = DHOWI_MAP_LEAKY,
                                              [DHOW_ACTIVATION_CLIP] = DHOWI_MAP_CLIP};
    const dhowi_map_op op = operations[a->kind];
    (void)dhowi_program_add(out, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_constants(out, op, dhowi_map_constants(op), (double)a->alpha,
                                  (double)a->beta);
}

dhow_status dhowi_activate(dhow_stream *stream, const dhowi_activation *activation,
                           dhow_tensor *y) {
    static _Atomic int32_t index[DHOW_ACTIVATION_SILU + 1][DHOW_BOOL + 1];
    static const char *const kernels[] = {
        [DHOW_ACTIVATION_RELU] = "relu",           [DHOW_ACTIVATION_GELU] = "gelu",
        [DHOW_ACTIVATION_GELU_TANH] = "gelu_tanh", [DHOW_ACTIVATION_SIGMOID] = "sigmoid",
        [DHOW_ACTIVATION_TANH] = "tanh",           [DHOW_ACTIVATION_SILU] = "silu"};
    dhowi_call call = {.stream = stream, .in = {y}, .out = y};
    if (activation->kind == DHOW_ACTIVATION_NONE) return DHOW_OK;
    if (!dhowi_kernels_end_with(activation)) {
        dhowi_attrs attrs = {0};
        write_program(activation, &attrs.program);
        call.op = &k_map;
        call.attrs = &attrs;
        return dhowi_run_map(&call);
    }
    const dhowi_op op = {.name = kernels[activation->kind],
                         .kernel = kernels[activation->kind],
                         .kernel_index = index[activation->kind]};
    call.op = &op;
    return dhowi_run_unary(&call);
}
