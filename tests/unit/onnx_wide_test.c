/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of 16-bit floats on the CPU, which computes them in f32: results have the types of the
 * file and are as near to those of f32 as one rounding is, or a Cast in between; memory that a run
 * gives is written in place, and parameters of a model that moves are what they were.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernel/optimise.h"
#include "onnx_fixture.h"
#include "onnx_text.h"

TestSuite(onnx_wide, .init = set_up, .fini = tear_down, .timeout = 60);

enum { ROWS = 4, COLUMNS = 24, COUNT = ROWS * COLUMNS, MOST = 4096 };

/* h is x in 16 bits; %d is their type. `y` is what is compared. */
static const struct {
    const char *what, *text;
    dhow_dtype dtype; /* of y, or one of 16 bits */
} k_graphs[] = {
    {"a product and its activation",
     "floats w 24 8; node Cast c x -> h to=%d; node Cast d w -> v to=%d; node MatMul m h v -> p; "
     "node Tanh t p -> y",
     DHOW_F16},
    {"a norm that is written out",
     "ints a 1; number n 2; node Cast c x -> h to=%d; node Cast k n -> e to=%d; "
     "node ReduceMean r h -> m axes=1,; node Sub s h m -> d; node Pow p d e -> q; "
     "node ReduceMean v q -> o axes=1,; node Sqrt z o -> f; node Div i d f -> y",
     DHOW_F16},
    {"statistics of a norm, which are f32",
     "floats w 24; node Cast c x -> h to=%d; node Cast k w -> s to=%d; node Softmax o h -> g; "
     "node LayerNormalization l g s -> q y",
     DHOW_F32},
    {"a Cast, which rounds",
     "node Cast c x -> h to=%d; node Softmax s h -> p; node Cast b p -> y to=1", DHOW_F32},
    {"a sum of both, and a comparison of it",
     "node Cast c x -> h to=%d; node Softmax s h -> p; node Add a p h -> q; node Less l q h -> y",
     DHOW_BOOL},
    {"types after a tensor's",
     "node Cast c x -> h to=%d; node Softmax s h -> p; node CastLike l x p -> y", DHOW_F16},
    {"what is passed on", "node Cast c x -> h to=%d; node Transpose t h -> y perm=1,0", DHOW_F16},
    {"the same value twice",
     "node Cast c x -> h to=%d; node Softmax s h -> p; "
     "node Mul m p p -> q; node Sub u q p -> y",
     DHOW_F16},
    {"the largest and their places",
     "ints k 3; node Cast c x -> h to=%d; node Softmax s h -> p; node TopK t p k -> y i", DHOW_F16},
    {"a loop",
     "number n 3; node Cast c x -> h to=%d; node Softmax s h -> p; node Loop l n - p -> y "
     "body={input i; input go; input v; node Tanh t v -> w; node Add a w p -> z; "
     "node Identity o go -> on; output on; output z}",
     DHOW_F16},
    {"constants of both types",
     "floats w 24; node Cast k w -> f to=%d; node Cast c x -> h to=%d; node Exp e f -> g; "
     "node Mul m h g -> q; node Relu r q -> y",
     DHOW_F16},
    {"parts side by side",
     "node Cast c x -> h to=%d; node Softmax s h -> p; node Concat n p h -> y axis=1", DHOW_F16},
};

static bytes graph_of(const char *text, int type) {
    char whole[2048];
    bytes g;
    int length = snprintf(whole, sizeof whole, "input x %d %d; output y; ", ROWS, COLUMNS);
    for (const char *at = text; *at != 0 && length < (int)sizeof whole - 8; at++) {
        if (at[0] == '%' && at[1] == 'd') {
            length += snprintf(whole + length, 8, "%d", type);
            at++;
        } else {
            whole[length++] = *at;
        }
    }
    whole[length] = 0;
    g = graph_of_text(whole);
    return g;
}

/* As f32; its type, and how many. */
static int64_t run(const char *text, int type, float *out, dhow_dtype *dtype) {
    static const int64_t shape[] = {ROWS, COLUMNS};
    float x[COUNT];
    bytes g = graph_of(text, type), file = model_of(17, &g);
    dhow_tensor *in, *y = NULL, *cast = NULL;
    dhow_model *model;
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    for (int i = 0; i < COUNT; i++) x[i] = (float)(i * 37 % 101 - 50) / 29;
    OK(load_bytes(&file, &model));
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, 2, shape, x, &in));
    for (int i = 0; i < 2; i++) { /* by the plan that is kept, too */
        dhow_tensor_release(y);
        OK(dhow_model_run(model, NULL, &in, 1, &y, 1));
    }
    const int64_t count = dhow_tensor_count(y);
    cr_assert_leq(count, MOST);
    OK(dhow_tensor_get_info(y, &info));
    *dtype = info.dtype;
    OK(dhow_tensor_to_dtype(NULL, y, DHOW_F32, &cast));
    OK(dhow_tensor_read(cast, out, (uint64_t)count * sizeof *out));
    dhow_tensor_release(cast);
    dhow_tensor_release(y);
    dhow_tensor_release(in);
    dhow_model_release(model);
    bytes_free(&file);
    return count;
}

Test(onnx_wide, results_are_those_of_16_bits) {
    static float wide[MOST], narrow[MOST];
    for (size_t i = 0; i < sizeof k_graphs / sizeof *k_graphs; i++) {
        for (int form = 0; form < 2; form++) {
            const int type = form == 0 ? 10 : 16;
            const dhow_dtype half = form == 0 ? DHOW_F16 : DHOW_BF16,
                             want = k_graphs[i].dtype == DHOW_F16 ? half : k_graphs[i].dtype;
            const float near = form == 0 ? 0x1p-8f : 0x1p-5f; /* some roundings */
            dhow_dtype dtype, other;
            const int64_t count = run(k_graphs[i].text, type, wide, &dtype);
            dhowi_optimisations = DHOWI_OPTIMISE_ALL & ~(uint32_t)DHOWI_OPTIMISE_WIDE;
            cr_assert_eq(run(k_graphs[i].text, type, narrow, &other), count);
            dhowi_optimisations = DHOWI_OPTIMISE_ALL;
            cr_assert_eq(dtype, want, "%s: %s", k_graphs[i].what, dhow_dtype_name(dtype));
            cr_assert_eq(other, want, "%s: %s", k_graphs[i].what, dhow_dtype_name(other));
            for (int64_t k = 0; k < count; k++)
                cr_assert(fabsf(wide[k] - narrow[k]) <= near * fmaxf(1, fabsf(narrow[k])),
                          "%s, %s, element %d: %g, not %g", k_graphs[i].what, dhow_dtype_name(half),
                          (int)k, (double)wide[k], (double)narrow[k]);
        }
    }
}

/* What a Cast to 16 bits takes away is gone. */
Test(onnx_wide, a_cast_is_not_left_out) {
    static float y[MOST];
    dhow_dtype dtype;
    const int64_t count =
        run("node Softmax s x -> p; node Cast c p -> h to=%d; "
            "node Cast b h -> f to=1; node Sub d p f -> y",
            16, y, &dtype);
    int lost = 0;
    for (int64_t i = 0; i < count; i++) lost += y[i] != 0;
    cr_assert_gt(lost, count / 2);
}

/* Between the Cast at its begin and the one at its end a network is f32. */
Test(onnx_wide, nothing_is_cast_in_between) {
    bytes g = graph_of(
              "floats w 24 24; node Cast c x -> h to=%d; node Cast d w -> v to=%d; "
              "node MatMul m h v -> p; node Softmax s p -> q; node MatMul n q v -> y",
              10),
          file = model_of(17, &g);
    static const int64_t shape[] = {ROWS, COLUMNS};
    static const float x[COUNT];
    dhow_model_summary s = DHOW_INIT(dhow_model_summary);
    dhow_tensor *in, *y;
    dhow_model *model;
    int casts = 0;
    OK(load_bytes(&file, &model));
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, 2, shape, x, &in));
    OK(dhow_model_run(model, NULL, &in, 1, &y, 1));
    OK(dhow_model_get_summary(model, &s));
    for (uint32_t i = 0; i < s.step_count; i++) {
        dhow_model_step_info step = DHOW_INIT(dhow_model_step_info);
        OK(dhow_model_step_at(model, i, &step));
        casts += strcmp(step.kernel, "cast") == 0;
    }
    cr_assert_leq(casts, 3, "%d casts", casts); /* to 16 bits and back, and the result */
    dhow_tensor_release(y);
    dhow_tensor_release(in);
    dhow_model_release(model);
    bytes_free(&file);
}
