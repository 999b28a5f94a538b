/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that draw numbers: their distributions, and that the same seed means the same numbers,
 * in every run.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "onnx_fixture.h"
#include "onnx_text.h"

TestSuite(onnx_random, .init = set_up, .fini = tear_down, .timeout = 60);

enum { F32 = 1, I64 = 7, ROWS = 100, COLUMNS = 200, N = ROWS * COLUMNS };
static const int64_t k_shape[] = {ROWS, COLUMNS};

/* The results of a node, or of two, of x[ROWS, COLUMNS], which are F32 or I64. */
static void draw(bytes nodes[], int count, int64_t type, float x, dhow_tensor *out[2]) {
    static const char *const results[] = {"a", "b"};
    static const int64_t any[] = {-1, -1};
    static float values[N];
    bytes g = {0}, in = value_of("x", 2, k_shape);
    dhow_tensor *given;
    dhow_model *model;
    for (int i = 0; i < N; i++) values[i] = x;
    put_message(&g, GRAPH_INPUT, &in);
    for (int i = 0; i < count; i++) {
        bytes y = typed_value_of(results[i], type, 2, any);
        put_message(&g, GRAPH_NODE, &nodes[i]);
        put_message(&g, GRAPH_OUTPUT, &y);
    }
    bytes file = model_of(17, &g);
    OK(load_bytes(&file, &model));
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, 2, k_shape, values, &given));
    for (int run = 0; run < 2; run++) {
        for (int i = 0; run > 0 && i < count; i++) dhow_tensor_release(out[i]);
        OK(dhow_model_run(model, NULL, &given, 1, out, (uint32_t)count));
    }
    dhow_tensor_release(given);
    dhow_model_release(model);
    bytes_free(&file);
}

static const float *numbers_of(dhow_tensor *t) {
    void *data;
    OK(dhow_tensor_host_ptr(t, &data));
    return data;
}

static void expect_moments(const float *v, double mean, double deviation) {
    double sum = 0, squares = 0;
    for (int i = 0; i < N; i++) sum += (double)v[i];
    for (int i = 0; i < N; i++) squares += pow((double)v[i] - sum / N, 2);
    cr_assert_float_eq(sum / N, mean, 0.04 * deviation, "mean %g", sum / N);
    cr_assert_float_eq(sqrt(squares / N), deviation, 0.04 * deviation);
}

Test(onnx_random, numbers_are_distributed_as_asked) {
    bytes node[] = {node_of("RandomNormalLike", "n", "x", "a"),
                    node_of("RandomUniform", "u", "", "b")};
    dhow_tensor *out[2];
    add_float(&node[0], "mean", 2);
    add_float(&node[0], "scale", 3);
    add_float(&node[1], "low", -1);
    add_float(&node[1], "high", 4);
    add_ints(&node[1], "shape", 2, k_shape);
    draw(node, 2, F32, 0, out);
    expect_moments(numbers_of(out[0]), 2, 3);
    expect_moments(numbers_of(out[1]), 1.5, 5 / sqrt(12));
    for (int i = 0; i < N; i++) cr_assert(numbers_of(out[1])[i] >= -1 && numbers_of(out[1])[i] < 4);
    dhow_tensor_release(out[0]);
    dhow_tensor_release(out[1]);
}

/* Two nodes of the same seed draw the same numbers, two without a seed others. */
Test(onnx_random, seeds_decide) {
    for (int seeded = 0; seeded < 2; seeded++) {
        bytes node[] = {node_of("RandomNormalLike", "n", "x", "a"),
                        node_of("RandomNormalLike", "m", "x", "b")};
        dhow_tensor *out[2];
        int same = 0;
        for (int i = 0; i < 2 && seeded; i++) add_float(&node[i], "seed", 7);
        draw(node, 2, F32, 0, out);
        for (int i = 0; i < N; i++) same += numbers_of(out[0])[i] == numbers_of(out[1])[i];
        cr_assert(seeded ? same == N : same < N / 100, "%d alike", same);
        dhow_tensor_release(out[0]);
        dhow_tensor_release(out[1]);
    }
}

Test(onnx_random, bernoulli_has_the_probability_of_x) {
    bytes node[] = {node_of("Bernoulli", "n", "x", "a")};
    dhow_tensor *out[2];
    draw(node, 1, F32, 0.3f, out);
    expect_moments(numbers_of(out[0]), 0.3, sqrt(0.3 * 0.7));
    dhow_tensor_release(out[0]);
}

/* All classes alike, and as integers of 64 bits. */
Test(onnx_random, multinomial_draws_classes) {
    enum { DRAWS = 400 };
    bytes node[] = {node_of("Multinomial", "n", "x", "a")};
    dhow_tensor *out[2];
    void *data;
    double sum = 0;
    add_int(&node[0], "sample_size", DRAWS);
    add_int(&node[0], "dtype", I64);
    draw(node, 1, I64, -2, out);
    OK(dhow_tensor_host_ptr(out[0], &data));
    for (int i = 0; i < ROWS * DRAWS; i++) {
        const int64_t class = ((const int64_t *)data)[i];
        cr_assert(class >= 0 && class < COLUMNS);
        sum += (double)class;
    }
    cr_assert_float_eq(sum / (ROWS * DRAWS), (COLUMNS - 1) / 2.0, 2.0);
    dhow_tensor_release(out[0]);
}

Test(onnx_random, what_has_no_probabilities_is_refused) {
    bytes g = {0}, in = value_of("x", 2, k_shape), node = node_of("Multinomial", "n", "x", "a");
    bytes y = typed_value_of("a", I64, 2, (const int64_t[]){-1, -1});
    dhow_tensor *given, *out = NULL;
    dhow_model *model;
    add_int(&node, "sample_size", 0);
    put_message(&g, GRAPH_INPUT, &in);
    put_message(&g, GRAPH_OUTPUT, &y);
    put_message(&g, GRAPH_NODE, &node);
    bytes file = model_of(17, &g);
    OK(load_bytes(&file, &model));
    OK(dhow_tensor_full(g_cpu, DHOW_F32, 2, k_shape, 0.5, &given));
    cr_assert_neq(dhow_model_run(model, NULL, &given, 1, &out, 1), DHOW_OK);
    cr_assert_not_null(strstr(dhow_last_error(), "0 samples"), "%s", dhow_last_error());
    dhow_tensor_release(given);
    dhow_model_release(model);
    bytes_free(&file);
}

/* ---- Dropout in training ---- */

/* What two nodes of other names make of ones, and the mask of the first: of seeds, where given. */
static dhow_status drop(const char *ratio, const char *seed, dhow_tensor *out[3]) {
    char text[512];
    dhow_tensor *given;
    dhow_model *model;
    (void)snprintf(text, sizeof text,
                   "input x 100 200; output a; output b; output kept; number one 1;"
                   "node Constant r -> ratio value_float=%s; node Equal e one one -> training;"
                   "node Dropout n x ratio training -> a kept %s;"
                   "node Dropout m x ratio training -> b %s",
                   ratio, seed, seed);
    bytes graph = graph_of_text(text), file = model_of(22, &graph);
    OK(load_bytes(&file, &model));
    OK(dhow_tensor_full(g_cpu, DHOW_F32, 2, k_shape, 1, &given));
    const dhow_status status = dhow_model_run(model, NULL, &given, 1, out, 3);
    dhow_tensor_release(given);
    dhow_model_release(model);
    bytes_free(&file);
    return status;
}

Test(onnx_random, dropout_in_training_zeroes_a_share_and_scales_the_rest) {
    static const char *const seeds[] = {"", "seed=5"};
    for (int seeded = 0; seeded < 2; seeded++) {
        dhow_tensor *out[3];
        void *data;
        int zeros = 0, same = 0;
        OK(drop("0.2", seeds[seeded], out));
        OK(dhow_tensor_host_ptr(out[2], &data));
        const float *a = numbers_of(out[0]), *b = numbers_of(out[1]);
        for (int i = 0; i < N; i++) {
            cr_assert_eq(((const uint8_t *)data)[i], a[i] != 0);
            cr_assert(a[i] == 0 || fabsf(a[i] - 1.25f) < 1e-6f, "%g", (double)a[i]);
            zeros += a[i] == 0;
            same += (a[i] == 0) == (b[i] == 0);
        }
        cr_assert_float_eq((double)zeros / N, 0.2, 0.02);
        cr_assert(seeded ? same == N : same < N * 3 / 4, "%d alike", same);
        for (int i = 0; i < 3; i++) dhow_tensor_release(out[i]);
    }
}

Test(onnx_random, dropout_of_a_share_that_is_none_is_refused) {
    dhow_tensor *out[3] = {NULL};
    cr_assert_neq(drop("1.5", "", out), DHOW_OK);
    cr_assert_not_null(strstr(dhow_last_error(), "ratio is 1.5; 0 to 1 is allowed"), "%s",
                       dhow_last_error());
}
