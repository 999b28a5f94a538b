/* SPDX-License-Identifier: Apache-2.0
 *
 * Results of a run that are made, and results that are written to tensors of the caller.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s", dhow_last_error())
#define REFUSES(call, text)                                                             \
    do {                                                                                \
        cr_assert_eq((call), DHOW_INVALID_ARGUMENT);                                    \
        cr_assert_not_null(strstr(dhow_last_error(), (text)), "'%s' does not say '%s'", \
                           dhow_last_error(), (text));                                  \
    } while (0)

enum { N = 4 };

static dhow_context *g_context;
static dhow_device *g_cpu;
static dhow_model *g_model; /* double: x + x, square: x * x */
static dhow_tensor *g_x, *g_wrong;

static void set_up(void) {
    static const float x[N] = {1, 2, 3, 4};
    dhow_model_value in, v;
    (void)setenv("DHOW_PLUGIN_PATH", DHOW_TEST_PLUGIN_DIR, 1);
    (void)setenv("DHOW_BACKENDS", "cpu", 1);
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, "cpu", &g_cpu));
    OK(dhow_model_create(g_context, &g_model));
    OK(dhow_model_input(g_model, "x", DHOW_F32, DHOW_SHAPE(N), &in));
    OK(dhow_model_add(g_model, in, in, &v));
    OK(dhow_model_output(g_model, "double", v));
    OK(dhow_model_mul(g_model, in, in, &v));
    OK(dhow_model_output(g_model, "square", v));
    OK(dhow_model_to(g_model, g_cpu));
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, DHOW_SHAPE(N), x, &g_x));
    OK(dhow_tensor_zeros(g_cpu, DHOW_F32, DHOW_SHAPE(N + 1), &g_wrong));
}

static void tear_down(void) {
    dhow_tensor_release(g_x);
    dhow_tensor_release(g_wrong);
    dhow_model_release(g_model);
    dhow_context_release(g_context);
}

TestSuite(run, .init = set_up, .fini = tear_down, .timeout = 60);

static dhow_tensor *zeros(int64_t count) {
    dhow_tensor *t;
    OK(dhow_tensor_zeros(g_cpu, DHOW_F32, 1, &count, &t));
    return t;
}

static void expect(dhow_tensor *y, float first, float last) {
    float got[N];
    OK(dhow_tensor_read(y, got, sizeof got));
    cr_assert_float_eq(got[0], first, 0);
    cr_assert_float_eq(got[N - 1], last, 0);
}

/* A variable that nobody had set was taken for a tensor to write to. */
Test(run, what_is_in_the_outputs_before_is_not_read) {
    dhow_tensor *out[2];
    memset(out, 0x5a, sizeof out);
    OK(dhow_model_run(g_model, NULL, &g_x, 1, out, 2));
    expect(out[0], 2, 8);
    expect(out[1], 1, 16);
    for (int i = 0; i < 2; i++) dhow_tensor_release(out[i]);
    memset(out, 0x5a, sizeof out);
    REFUSES(dhow_model_run(g_model, NULL, &g_wrong, 1, out, 2), "dhow_model_run: input 'x' is");
    cr_assert(out[0] == NULL && out[1] == NULL, "a failure leaves something to release");
}

Test(run, results_go_into_tensors_of_the_caller) {
    dhow_tensor *out[] = {zeros(N), zeros(N)};
    for (int again = 0; again < 2; again++) {
        OK(dhow_fill(NULL, out[0], -1));
        OK(dhow_model_run_into(g_model, NULL, &g_x, 1, out, 2));
        expect(out[0], 2, 8);
        expect(out[1], 1, 16);
    }
    for (int i = 0; i < 2; i++) dhow_tensor_release(out[i]);
}

Test(run, results_go_through_views_and_over_inputs) {
    dhow_tensor *whole = zeros(2 * N), *out[2];
    float got[2 * N];
    OK(dhow_tensor_slice(whole, 0, 1, 2 * N, 2, &out[0]));
    OK(dhow_tensor_clone(NULL, g_x, &out[1]));
    OK(dhow_model_run_into(g_model, NULL, &out[1], 1, out, 2));
    expect(out[1], 1, 16);
    OK(dhow_tensor_read(whole, got, sizeof got));
    for (int i = 0; i < N; i++)
        cr_assert(got[2 * i] == 0 && got[2 * i + 1] == 2 * (float)(i + 1), "element %d", i);
    for (int i = 0; i < 2; i++) dhow_tensor_release(out[i]);
    dhow_tensor_release(whole);
}

Test(run, tensors_that_cannot_take_the_results_are_named) {
    dhow_tensor *good = zeros(N), *whole = zeros(2 * N), *first, *second;
    dhow_tensor *missing[] = {good, NULL}, *wrong[] = {good, g_wrong}, *twice[] = {good, good};
    OK(dhow_tensor_slice(whole, 0, 0, N, 1, &first));
    OK(dhow_tensor_slice(whole, 0, 1, N + 1, 1, &second));
    dhow_tensor *overlapping[] = {first, second};
    REFUSES(dhow_model_run_into(g_model, NULL, &g_x, 1, missing, 2),
            "dhow_model_run_into: output 'square' is NULL");
    REFUSES(dhow_model_run_into(g_model, NULL, &g_x, 1, wrong, 2), "'square'");
    REFUSES(dhow_model_run_into(g_model, NULL, &g_x, 1, twice, 2),
            "output 'square' shares memory with output 'double'");
    REFUSES(dhow_model_run_into(g_model, NULL, &g_x, 1, overlapping, 2),
            "output 'square' shares memory with output 'double'");
    REFUSES(dhow_model_run_into(g_model, NULL, &g_x, 1, &good, 1),
            "room for 1 outputs given, the model has 2");
    REFUSES(dhow_model_run_into(g_model, NULL, &g_x, 1, NULL, 2), "room for 0 outputs given");
    dhow_tensor_release(first);
    dhow_tensor_release(second);
    dhow_tensor_release(whole);
    dhow_tensor_release(good);
}

Test(run, by_name_some_are_given_some_made_some_not_wanted) {
    dhow_tensor *mine = zeros(N);
    dhow_named_tensor in = DHOW_INIT(dhow_named_tensor, .name = "x", .tensor = g_x);
    dhow_named_tensor out[] = {DHOW_FIELDS(dhow_named_tensor, .name = "square"),
                               DHOW_FIELDS(dhow_named_tensor, .name = "double", .tensor = mine)};
    OK(dhow_model_run_named(g_model, NULL, &in, 1, out, 2));
    cr_assert_eq(out[1].tensor, mine);
    expect(mine, 2, 8);
    expect(out[0].tensor, 1, 16);
    dhow_tensor_release(out[0].tensor);
    out[0].tensor = NULL;
    OK(dhow_model_run_named(g_model, NULL, &in, 1, out, 1));
    expect(out[0].tensor, 1, 16);
    dhow_tensor_release(out[0].tensor);
    out[0].tensor = NULL;
    in.tensor = g_wrong;
    REFUSES(dhow_model_run_named(g_model, NULL, &in, 1, out, 1),
            "dhow_model_run_named: input 'x' is");
    cr_assert_null(out[0].tensor);
    dhow_tensor_release(mine);
}
