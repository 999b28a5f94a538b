/* SPDX-License-Identifier: Apache-2.0
 *
 * Models whose inputs vary in shape keep each weight packed once.
 */
#include <criterion/criterion.h>

#include "dhow/dhow.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())

enum { CHANNELS = 128, WEIGHT_BYTES = CHANNELS * CHANNELS * 5 * 5 * 4 };

/* A convolution of 1.6 MB, which two scales go into. */
static dhow_model *network(dhow_context *context) {
    dhow_model *m;
    dhow_model_value x, scale;
    OK(dhow_model_create(context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(1, CHANNELS, 1, -1), &x));
    OK(dhow_model_conv2d(m, "conv", x, CHANNELS, CHANNELS,
                         &DHOW_INIT(dhow_window, .kernel = {5, 5}, .pad = {2, 2, 2, 2}), 1, &x));
    for (int i = 0; i < 2; i++) {
        OK(dhow_model_parameter(m, i == 0 ? "scale" : "again", DHOW_F32,
                                DHOW_SHAPE(1, CHANNELS, 1, 1), &scale));
        OK(dhow_model_mul(m, x, scale, &x));
    }
    OK(dhow_model_output(m, "y", x));
    return m;
}

/* Bytes that live after a run of so many columns and its tensors are gone. */
static uint64_t live_after(dhow_model *m, dhow_device *cpu, int64_t columns) {
    dhow_tensor *x, *y;
    dhow_memory_stats stats = DHOW_INIT(dhow_memory_stats);
    OK(dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(1, CHANNELS, 1, columns), 1, &x));
    OK(dhow_model_run(m, NULL, &x, 1, &y, 1));
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    OK(dhow_memory_get_stats(cpu, &stats));
    return stats.live;
}

Test(varying_shapes, weights_are_packed_once_for_all) {
    dhow_context *context;
    dhow_device *cpu;
    OK(dhow_context_create(NULL, &context));
    OK(dhow_device_get(context, "cpu", &cpu));
    dhow_model *m = network(context);
    const uint64_t first = live_after(m, cpu, 24);
    for (int64_t columns = 25; columns < 30; columns++) {
        const uint64_t live = live_after(m, cpu, columns);
        /* oneDNN has another form for some widths. */
        cr_expect(live < first + 2 * WEIGHT_BYTES,
                  "after %d columns %g MB live, after the first %g", (int)columns,
                  (double)live / 1e6, (double)first / 1e6);
    }
    dhow_model_release(m);
    dhow_context_release(context);
}
