/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers in tensors that say where a kernel reads or how much it does - infinities, NaN, what is
 * far outside - end soon and in what ONNX Runtime gives, or in NaN where it stops with an error.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "onnx_fixture.h"
#include "onnx_text.h"

TestSuite(onnx_extremes, .init = set_up, .fini = tear_down, .timeout = 60);

#define COUNT(array) (int64_t)(sizeof(array) / sizeof(array)[0])

/* What a graph with a float input x [count] computes, whose first elements are compared. */
static void expect(const char *text, const float *x, int64_t count, const float *y,
                   int64_t y_count) {
    dhow_model *model = NULL;
    dhow_tensor *in, *out = NULL;
    void *data;
    bytes graph = graph_of_text(text), file = model_of(20, &graph);
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, 1, &count, x, &in));
    OK(load_bytes(&file, &model));
    OK(dhow_model_run(model, NULL, &in, 1, &out, 1));
    OK(dhow_tensor_host_ptr(out, &data));
    for (int64_t i = 0; i < y_count; i++) {
        const float is = ((float *)data)[i];
        cr_expect(is == y[i] || fabsf(is - y[i]) < 1e-6f || (isnan(is) && isnan(y[i])),
                  "%s of %g %g %g %g: %lld is %g, not %g", strstr(text, "node"), (double)x[0],
                  (double)x[1], (double)x[2], (double)x[3], (long long)i, (double)is, (double)y[i]);
    }
    dhow_tensor_release(out);
    dhow_tensor_release(in);
    dhow_model_release(model);
    bytes_free(&file);
}

/* The samples of a region are as many as it has pixels: without an end where it has none. */
Test(onnx_extremes, regions_of_any_extent_are_sampled_soon) {
    static const struct {
        float region[4], mean, largest;
    } cases[] = {
        {{0, 0, INFINITY, INFINITY}, NAN, NAN},
        {{-INFINITY, 0, 2, 2}, NAN, NAN},
        {{0, 0, NAN, 2}, NAN, NAN},
        {{0, NAN, 2, 2}, NAN, NAN},
        {{-3e38f, -3e38f, 3e38f, 3e38f}, NAN, NAN},
        {{0, 0, 1e30f, 1e30f}, 0, 0.1f},
        {{-1e30f, -1e30f, 1e30f, 1e30f}, 0, 0},
        {{1e30f, 1e30f, 1.1e30f, 1.1e30f}, 0, 0},
        {{-1e4f, -1e4f, 1e4f, 1e4f}, 0, 0.1f},
        {{3, 3, -1e30f, -1e30f}, 0, 0},
        {{2, 2, 4, 4}, 0.1f, 0.1f},
    };
    static const char graph[] =
        "input x 4; output y; ints regions 1 4; ints shape 1 1 4 4; ints b 0; floats v 1; "
        "node Reshape a x regions -> r; node Expand e v shape -> i; "
        "node RoiAlign n i r b -> y sampling_ratio=%d mode='%s' spatial_scale=%s";
    char text[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)snprintf(text, sizeof text, graph, 0, "avg", "1.");
        expect(text, cases[i].region, 4, &cases[i].mean, 1);
        (void)snprintf(text, sizeof text, graph, 0, "max", "1.");
        expect(text, cases[i].region, 4, &cases[i].largest, 1);
    }
    (void)snprintf(text, sizeof text, graph, 0, "avg", "1.0e30");
    expect(text, cases[5].region, 4, &cases[0].mean, 1);
}

/* The search for a pivot passed over NaN, and what is singular beside it was 0. */
Test(onnx_extremes, determinants_of_what_is_not_finite_are_nan) {
    static const struct {
        float matrix[9], is;
    } cases[] = {
        {{0, 0, NAN, 0, 0, 1, 1, 2, 3}, NAN},      {{0, 1, 2, 0, NAN, 1, 0, 1, 1}, NAN},
        {{1, 2, 3, NAN, 2, 1, 2, 2, 2}, NAN},      {{0, 0, 0, 0, NAN, 1, 0, 2, 3}, NAN},
        {{0, 0, 0, 0, INFINITY, 1, 0, 2, 3}, NAN}, {{INFINITY, 0, 0, 0, 1, 0, 0, 0, 1}, INFINITY},
        {{0, 0, 0, 0, 1, 1, 0, 2, 3}, 0},          {{0, 2, 0, 1, 0, 0, 0, 0, 3}, -6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect("input x 9; output y; ints s 3 3; node Reshape r x s -> m; node Det n m -> y",
               cases[i].matrix, COUNT(cases[i].matrix), &cases[i].is, 1);
}

/* The frames were those of the memory's first samples. */
Test(onnx_extremes, frames_of_a_part_begin_in_the_part) {
    static const float x[16] = {5, 1, 4, 2, 8, 3, 7, 6, 2, 9, 1, 5, 3, 3, 8, 4}, zeros[12];
    expect(
        "input x 16; output y; ints s 1 16 1; ints from 4; ints to 12; ints axis 1; "
        "number step 2; number length 4; node Reshape r x s -> w; "
        "node Slice p w from to axis -> part; node Relu q part -> own; "
        "node STFT a part step - length -> f; node STFT b own step - length -> g; "
        "node Sub d f g -> e; ints flat -1; node Reshape u e flat -> y",
        x, COUNT(x), zeros, COUNT(zeros));
}

/* The least integer is its own negative. */
Test(onnx_extremes, the_least_integer_is_the_least) {
    static const float x[4] = {3, -9223372036854775808.0f, 0, -2147483648.0f}, one = 1, three = 3;
    expect(
        "input x 4; output y; node Cast c x -> i to=7; node ArgMin a i -> k axis=0 keepdims=1; "
        "node Cast d k -> y to=1",
        x, COUNT(x), &one, 1);
    expect(
        "input x 4; output y; ints from 2; ints to 4; node Slice s x from to -> p; "
        "ints add 1; node Cast c p -> i to=6; node ArgMin a i -> k axis=0 keepdims=1; "
        "node Add e k add -> n; node Add f n add -> o; node Cast d o -> y to=1",
        x, COUNT(x), &three, 1);
}

/* 1 + exp(x) has lost exp(x). */
Test(onnx_extremes, softplus_of_small_numbers_is_their_exponential) {
    static const float x[4] = {-15, -16, -17, -30}, ones[4] = {1, 1, 1, 1};
    expect("input x 4; output y; node Softplus s x -> a; node Exp e x -> b; node Div d a b -> y", x,
           COUNT(x), ones, COUNT(ones));
}

/* Doubles do not tell these apart. */
Test(onnx_extremes, ranges_of_large_integers_count_by_one) {
    static const float x[4], steps[3] = {0, 1, 2}, two[2] = {0, -2};
    expect(
        "input x 4; output y; number a 9007199254740993; number b 9007199254740996; number c 1; "
        "node Range r a b c -> r; node Sub s r a -> d; node Cast k d -> y to=1",
        x, COUNT(x), steps, COUNT(steps));
    expect(
        "input x 4; output y; number a -4611686018427387904; number b -4611686018427387907; "
        "number c -2; node Range r a b c -> r; node Sub s r a -> d; node Cast k d -> y to=1",
        x, COUNT(x), two, COUNT(two));
}

/* 300^2 is no number of f16. */
Test(onnx_extremes, squares_of_16_bits_are_summed_in_32) {
    static const float x[4] = {300, -400, 0, 0}, root = 500;
    expect(
        "input x 4; output y; node Cast c x -> h to=10; node ReduceL2 r h -> s keepdims=1; "
        "node Cast d s -> y to=1",
        x, COUNT(x), &root, 1);
    static const float rounded[2] = {0.60009765625f, -0.7998046875f}; /* of f16 */
    expect(
        "input x 4; output y; node Cast c x -> h to=10; node LpNormalization r h -> s axis=0 "
        "p=2; node Cast d s -> y to=1",
        x, COUNT(x), rounded, COUNT(rounded));
}

static void run_doubles(const char *text, uint32_t outputs, double y[6]) {
    static const double x[] = {1, 2, 4, -3, 0.5, 7};
    static const int64_t shape[] = {2, 3};
    dhow_model *model = NULL;
    dhow_tensor *in, *out[2] = {NULL, NULL};
    bytes graph = graph_of_text(text), file = model_of(20, &graph);
    OK(dhow_tensor_from_data(g_cpu, DHOW_F64, 2, shape, x, &in));
    OK(load_bytes(&file, &model));
    OK(dhow_model_run(model, NULL, &in, 1, out, outputs));
    OK(dhow_tensor_read(out[0], y, sizeof x));
    dhow_tensor_release(out[0]), dhow_tensor_release(out[1]);
    dhow_tensor_release(in);
    dhow_model_release(model);
    bytes_free(&file);
}

/* A norm that is written out was one step, whose epsilon is f32; one of which more is read is none.
 */
Test(onnx_extremes, norms_of_doubles_keep_their_epsilon) {
    static const char norm[] =
        "double x 2 3; result y 2 3; %s doubles eps 1; node Exp z eps -> e; ints axis -1; "
        "node ReduceMean m x axis -> mean keepdims=1; node Sub s x mean -> d; "
        "node Mul q d d -> square; node ReduceMean v square axis -> variance keepdims=1; "
        "node Add a variance e -> sum; node Sqrt r sum -> root; node Div o d root -> n; doubles g "
        "3; node Mul w n g -> y";
    char text[512];
    double joined[6], apart[6];
    (void)snprintf(text, sizeof text, norm, "");
    run_doubles(text, 1, joined);
    (void)snprintf(text, sizeof text, norm, "result root 2 1;");
    run_doubles(text, 2, apart);
    for (int i = 0; i < 6; i++)
        cr_expect_float_eq(joined[i], apart[i], 1e-14, "%.17g, %.17g", joined[i], apart[i]);
}

/* 2^53 + 1, once or twice, is no double. */
Test(onnx_extremes, products_of_large_integers_are_exact) {
    static const float x[4] = {1, 1, 0, 1}, over[4] = {1, 2, 0, 1};
    expect(
        "input x 4; output y; ints s 2 2; ints large 9007199254740993; node Cast c x -> i to=7; "
        "node Reshape r i s -> m; node Mul l m large -> n; node MatMul p n m -> q; "
        "ints sum 9007199254740992 18014398509481984 0 9007199254740992; node Reshape t sum s -> "
        "u; "
        "node Sub e q u -> d; node Cast f d -> g to=1; ints flat -1; node Reshape h g flat -> y",
        x, COUNT(x), over, COUNT(over));
}
