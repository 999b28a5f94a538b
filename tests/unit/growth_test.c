/* SPDX-License-Identifier: Apache-2.0
 *
 * What is kept for later - plans, packed weights - does not grow with every new shape.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "dhow/dhow.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())

enum { FEATURES = 256 };

static dhow_context *g_context;
static dhow_device *g_cpu;

static void set_up(void) {
    (void)setenv("DHOW_PLUGIN_PATH", DHOW_TEST_PLUGIN_DIR, 1);
    (void)setenv("DHOW_BACKENDS", "cpu", 1);
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, "cpu", &g_cpu));
}
static void tear_down(void) { dhow_context_release(g_context); }

TestSuite(growth, .init = set_up, .fini = tear_down, .timeout = 120);

static uint64_t live_after(dhow_model *model, int64_t first, int64_t last) {
    dhow_memory_stats stats = DHOW_INIT(dhow_memory_stats);
    for (int64_t rows = first; rows < last; rows++) {
        dhow_tensor *x, *y = NULL;
        OK(dhow_tensor_full(g_cpu, DHOW_F32, 2, (const int64_t[]){rows, FEATURES}, 1, &x));
        OK(dhow_model_run(model, NULL, &x, 1, &y, 1));
        dhow_tensor_release(x);
        dhow_tensor_release(y);
    }
    OK(dhow_memory_get_stats(g_cpu, &stats));
    return stats.live;
}

/* Each number of rows had a plan of oneDNN and a packed copy of the weight, for ever. */
Test(growth, a_model_that_sees_many_lengths_keeps_a_few_packed_weights) {
    dhow_model *model;
    dhow_model_value x, y;
    OK(dhow_model_create(g_context, &model));
    OK(dhow_model_input(model, "x", DHOW_F32, DHOW_SHAPE(-1, FEATURES), &x));
    OK(dhow_model_linear(model, "a", x, FEATURES, FEATURES, 1, &y));
    OK(dhow_model_output(model, "y", y));
    const uint64_t early = live_after(model, 1, 60), late = live_after(model, 60, 700);
    cr_assert_lt(late, early + early / 4, "%llu bytes after 60 lengths, %llu after 700",
                 (unsigned long long)early, (unsigned long long)late);
    /* And an early length comes to the same as before. */
    (void)live_after(model, 1, 3);
    dhow_model_release(model);
}
