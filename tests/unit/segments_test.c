/* SPDX-License-Identifier: Apache-2.0
 *
 * What comes before a value that decides on shapes is optimised as the rest of a model is, and what
 * is read later stays.
 */
#include <string.h>

#include "kernel/optimise.h"
#include "onnx_fixture.h"
#include "onnx_text.h"

TestSuite(segments, .init = set_up, .fini = tear_down, .timeout = 60);

enum { COUNT = 4 * 6 * 6 };

/* A convolution with an activation, numbers from it that give a shape, and it is read again. */
static const char k_model[] =
    "input x 1 4 6 6; output y; floats w9 16 9; ints s9 4 4 3 3; ints none 0; ints rows 4 36; "
    "node Reshape a w9 s9 -> k; node Conv b x k -> c pads=1,1,1,1; node Relu d c -> r; "
    "node Reshape e r rows -> flat; node ReduceMax f flat -> top keepdims=0; "
    "node Cast g top -> i to=7; node Mul h i none -> zero; node Add j zero rows -> s; "
    "node Reshape l r s -> y";

/* But copies, and fills of padded channels: how images lie in memory differs by processor. */
static uint32_t steps_of(const dhow_model *m) {
    dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
    uint32_t count = 0;
    OK(dhow_model_get_summary(m, &summary));
    for (uint32_t i = 0; i < summary.step_count; i++) {
        dhow_model_step_info step = DHOW_INIT(dhow_model_step_info);
        OK(dhow_model_step_at(m, i, &step));
        count += strcmp(step.kernel, "copy") != 0 && strcmp(step.kernel, "fill") != 0;
    }
    return count;
}

static uint32_t run(uint32_t optimisations, float *y) {
    const int64_t shape[] = {1, 4, 6, 6};
    dhow_tensor *in, *out;
    dhow_model *m;
    float x[COUNT];
    bytes graph = graph_of_text(k_model), file = model_of(16, &graph);
    for (int i = 0; i < COUNT; i++) x[i] = (float)(i * 13 % 29 - 14) / 16;
    dhowi_optimisations = optimisations;
    OK(load_bytes(&file, &m));
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, 4, shape, x, &in));
    for (int i = 0; i < 2; i++) { /* the second run takes the plan of the first */
        memset(y, 0, COUNT * sizeof *y);
        OK(dhow_model_run(m, NULL, &in, 1, &out, 1));
        OK(dhow_tensor_read(out, y, COUNT * sizeof *y));
        dhow_tensor_release(out);
    }
    const uint32_t steps = steps_of(m);
    dhow_tensor_release(in);
    dhow_model_release(m);
    bytes_free(&file);
    dhowi_optimisations = DHOWI_OPTIMISE_ALL;
    return steps;
}

Test(segments, steps_before_a_shape_that_is_computed_are_joined) {
    float apart[COUNT], joined[COUNT];
    const uint32_t many = run(DHOWI_OPTIMISE_ALL & ~(uint32_t)DHOWI_OPTIMISE_SEGMENTS, apart),
                   few = run(DHOWI_OPTIMISE_ALL, joined);
    cr_expect_lt(few, many, "%u steps, %u apart", few, many);
    for (int i = 0; i < COUNT; i++)
        cr_assert_float_eq(joined[i], apart[i], 1e-4, "%d: %g %g", i, joined[i], apart[i]);
}
