/* SPDX-License-Identifier: Apache-2.0 */
#include "network.h"

#include <stddef.h>

#define TRY(expression)                      \
    do {                                     \
        status = (expression);               \
        if (status != DHOW_OK) goto cleanup; \
    } while (0)

dhow_status digits_network(dhow_context *context, dhow_model **out) {
    const dhow_window three = DHOW_INIT(dhow_window, .kernel = {3, 3}, .pad = {1, 1, 1, 1}),
                      two = DHOW_INIT(dhow_window, .kernel = {2, 2}, .stride = {2, 2});
    dhow_model *m = NULL;
    dhow_model_value x, h;
    dhow_status status;
    TRY(dhow_model_create(context, &m));
    TRY(dhow_model_input(m, "image", DHOW_F32, DHOW_SHAPE(-1, 1, DIGITS_SIDE, DIGITS_SIDE), &x));
    TRY(dhow_model_conv2d(m, "conv1", x, 1, 16, &three, 1, &h));
    TRY(dhow_model_relu(m, h, &h));
    TRY(dhow_model_maxpool2d(m, h, &two, &h));
    TRY(dhow_model_conv2d(m, "conv2", h, 16, 32, &three, 1, &h));
    TRY(dhow_model_relu(m, h, &h));
    TRY(dhow_model_maxpool2d(m, h, &two, &h));
    TRY(dhow_model_flatten(m, h, 1, &h));
    TRY(dhow_model_linear(m, "fc1", h, 128, 64, 1, &h));
    TRY(dhow_model_relu(m, h, &h));
    TRY(dhow_model_linear(m, "fc2", h, 64, DIGITS_CLASSES, 1, &h));
    TRY(dhow_model_output(m, "logits", h));
    *out = m;
    return DHOW_OK;
cleanup:
    dhow_model_release(m);
    return status;
}
