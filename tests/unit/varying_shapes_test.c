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

/* After a run of ones and its tensors are gone. */
static dhow_memory_stats stats_after(dhow_model *m, dhow_device *cpu, int32_t rank,
                                     const int64_t *shape) {
    dhow_tensor *x, *y;
    dhow_memory_stats stats = DHOW_INIT(dhow_memory_stats);
    OK(dhow_tensor_full(cpu, DHOW_F32, rank, shape, 1, &x));
    OK(dhow_model_run(m, NULL, &x, 1, &y, 1));
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    OK(dhow_memory_get_stats(cpu, &stats));
    return stats;
}

static uint64_t live_after(dhow_model *m, dhow_device *cpu, int64_t columns) {
    return stats_after(m, cpu, DHOW_SHAPE(1, CHANNELS, 1, columns)).live;
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

/* Two products, between which there are `rows` of 1 KB. */
static dhow_model *products(dhow_context *context) {
    dhow_model *m;
    dhow_model_value x;
    OK(dhow_model_create(context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(-1, 256), &x));
    OK(dhow_model_linear(m, "first", x, 256, 256, 1, &x));
    OK(dhow_model_linear(m, "second", x, 256, 1, 1, &x));
    OK(dhow_model_output(m, "y", x));
    return m;
}

Test(varying_shapes, plans_of_many_shapes_are_kept) {
    enum { SHAPES = 40, EACH = 2 }; /* x and y */
    dhow_context *context;
    dhow_device *cpu;
    uint64_t before = 0, after = 0;
    OK(dhow_context_create(NULL, &context));
    OK(dhow_device_get(context, "cpu", &cpu));
    dhow_model *m = products(context);
    for (int64_t i = 1; i <= SHAPES; i++)
        before = stats_after(m, cpu, DHOW_SHAPE(i, 256)).allocations;
    for (int64_t i = 1; i <= SHAPES; i++)
        after = stats_after(m, cpu, DHOW_SHAPE(i, 256)).allocations;
    cr_expect_leq(after - before, EACH * SHAPES, "%d allocations of %d runs", (int)(after - before),
                  SHAPES);
    dhow_model_release(m);
    dhow_context_release(context);
}

Test(varying_shapes, memory_of_large_plans_is_given_back) {
    enum { ROWS = 1 << 15, FEW = 8, MANY = 16 }; /* 32 MB each */
    dhow_context *context;
    dhow_device *cpu;
    uint64_t few = 0, many = 0;
    OK(dhow_context_create(NULL, &context));
    OK(dhow_device_get(context, "cpu", &cpu));
    dhow_model *m = products(context);
    for (int64_t i = 0; i < FEW; i++) few = stats_after(m, cpu, DHOW_SHAPE(ROWS + i, 256)).live;
    for (int64_t i = FEW; i < MANY; i++) many = stats_after(m, cpu, DHOW_SHAPE(ROWS + i, 256)).live;
    cr_expect_gt(few, (uint64_t)FEW * ROWS * 1024);
    cr_expect_lt(many, few + few / 8, "%g MB live, %g after %d", (double)many / 1e6,
                 (double)few / 1e6, FEW);
    dhow_model_release(m);
    dhow_context_release(context);
}
