/* SPDX-License-Identifier: Apache-2.0
 *
 * The eager functions of dhow/ops.h: each is a call of its row.
 */
#include "base/objects/struct_size.h"
#include "ops/run/op.h"

#define UNARY(name, formula)                                                       \
    dhow_status dhow_##name(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y) { \
        return dhowi_op_call(DHOWI_OP_##name, stream, &x, 1, NULL, y);             \
    }
DHOW_UNARY_MAP(UNARY)

#define BINARY(name, formula)                                                                      \
    dhow_status dhow_##name(dhow_stream *stream, dhow_tensor *a, dhow_tensor *b, dhow_tensor *y) { \
        dhow_tensor *const in[] = {a, b};                                                          \
        return dhowi_op_call(DHOWI_OP_##name, stream, in, 2, NULL, y);                             \
    }
DHOW_BINARY_MAP(BINARY)

#define ALONG(name)                                                                             \
    dhow_status dhow_##name(dhow_stream *stream, dhow_tensor *x, int32_t dim, dhow_tensor *y) { \
        const dhowi_attrs attrs = {.dim = dim};                                                 \
        return dhowi_op_call(DHOWI_OP_##name, stream, &x, 1, &attrs, y);                        \
    }
ALONG(softmax)
ALONG(log_softmax)
ALONG(reduce_sum)
ALONG(reduce_mean)
ALONG(reduce_max)
ALONG(reduce_min)
ALONG(argmax)

dhow_status dhow_matmul(dhow_stream *stream, dhow_tensor *a, dhow_tensor *b, dhow_tensor *c) {
    dhow_tensor *const in[] = {a, b};
    return dhowi_op_call(DHOWI_OP_matmul, stream, in, 2, NULL, c);
}

dhow_status dhow_linear(dhow_stream *stream, dhow_tensor *x, dhow_tensor *w, dhow_tensor *bias,
                        dhow_tensor *y) {
    dhow_tensor *const in[] = {x, w, bias};
    return dhowi_op_call(DHOWI_OP_linear, stream, in, bias != NULL ? 3 : 2, NULL, y);
}

static dhow_status with_window(dhowi_op_id id, dhow_stream *stream, dhow_tensor *const *in,
                               uint32_t count, const dhow_window *window, dhow_tensor *y) {
    dhowi_attrs attrs = {0};
    DHOWI_TRY(DHOWI_STRUCT_IN(dhow_window, window, &attrs.window, dhowi_op_of(id)->name, "window"));
    return dhowi_op_call(id, stream, in, count, &attrs, y);
}

dhow_status dhow_conv2d(dhow_stream *stream, dhow_tensor *x, dhow_tensor *weight, dhow_tensor *bias,
                        const dhow_window *window, dhow_tensor *y) {
    dhow_tensor *const in[] = {x, weight, bias};
    return with_window(DHOWI_OP_conv2d, stream, in, bias != NULL ? 3 : 2, window, y);
}

dhow_status dhow_maxpool2d(dhow_stream *stream, dhow_tensor *x, const dhow_window *window,
                           dhow_tensor *y) {
    return with_window(DHOWI_OP_maxpool2d, stream, &x, 1, window, y);
}

dhow_status dhow_avgpool2d(dhow_stream *stream, dhow_tensor *x, const dhow_window *window,
                           dhow_tensor *y) {
    return with_window(DHOWI_OP_avgpool2d, stream, &x, 1, window, y);
}

dhow_status dhow_layernorm(dhow_stream *stream, dhow_tensor *x, dhow_tensor *gamma,
                           dhow_tensor *beta, float eps, dhow_tensor *y) {
    dhow_tensor *const in[] = {x, gamma, beta};
    const dhowi_attrs attrs = {.eps = eps};
    return dhowi_op_call(DHOWI_OP_layernorm, stream, in, 3, &attrs, y);
}

dhow_status dhow_gather(dhow_stream *stream, dhow_tensor *x, dhow_tensor *index, dhow_tensor *y) {
    dhow_tensor *const in[] = {x, index};
    return dhowi_op_call(DHOWI_OP_gather, stream, in, 2, NULL, y);
}
