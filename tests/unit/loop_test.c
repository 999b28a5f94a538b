/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops whose end a device computes, loops inside of loops, and loops without an end.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_fixture.h"

TestSuite(loop, .init = set_up, .fini = tear_down, .timeout = 60);

static const int64_t k_two[] = {2};

static void put_node(bytes *g, bytes node) { put_message(g, GRAPH_NODE, &node); }
static void put_value(bytes *g, int where, const char *name) {
    bytes v = value_of(name, 1, k_two);
    put_message(g, (uint32_t)where, &v);
}
static void put_float(bytes *g, const char *name, float value) {
    bytes t = {0}, raw = {0};
    put_number(&t, 2, 1);
    put_text(&t, 8, name);
    put_raw(&raw, &value, sizeof value);
    put_message(&t, 9, &raw);
    put_message(g, GRAPH_INITIALIZER, &t);
}
static void put_int(bytes *g, const char *name, int64_t value) {
    bytes t = {0};
    put_number(&t, 2, 7);
    put_number(&t, 7, (uint64_t)value);
    put_text(&t, 8, name);
    put_message(g, GRAPH_INITIALIZER, &t);
}

/* while (max(x) < limit) x += x: iteration i, condition c, carried value in, doubled, gathered */
static bytes doubling_body(const char *limit) {
    bytes g = {0}, n;
    char in[32];
    put_node(&g, node_of("Add", "double", "in in", "out"));
    n = node_of("ReduceMax", "largest", "out", "top");
    add_int(&n, "keepdims", 0);
    put_node(&g, n);
    (void)snprintf(in, sizeof in, "top %s", limit);
    put_node(&g, node_of("Less", "again", in, "go"));
    put_value(&g, GRAPH_INPUT, "i");
    put_value(&g, GRAPH_INPUT, "c");
    put_value(&g, GRAPH_INPUT, "in");
    put_value(&g, GRAPH_OUTPUT, "go");
    put_value(&g, GRAPH_OUTPUT, "out");
    put_value(&g, GRAPH_OUTPUT, "top");
    return g;
}

static dhow_model *load(bytes *g) {
    static bytes file;
    dhow_model *model;
    bytes_free(&file);
    file = model_of(13, g);
    OK(load_bytes(&file, &model));
    return model;
}

/* Runs with x = {value, value}; the first element and the count of each output. */
static void run(dhow_model *model, double value, uint32_t outputs, float *first, int64_t *counts) {
    dhow_tensor *in, *out[2] = {NULL};
    void *data;
    OK(dhow_tensor_full(g_cpu, DHOW_F32, 1, k_two, value, &in));
    OK(dhow_model_run(model, NULL, &in, 1, out, outputs));
    for (uint32_t i = 0; i < outputs; i++) {
        OK(dhow_tensor_host_ptr(out[i], &data));
        first[i] = *(float *)data;
        counts[i] = dhow_tensor_count(out[i]);
        dhow_tensor_release(out[i]);
    }
    dhow_tensor_release(in);
}

Test(loop, a_condition_that_is_computed_ends_it) {
    bytes g = {0}, body = doubling_body("limit"), n = node_of("Loop", "grow", "- - x", "y tops");
    float first[2];
    int64_t counts[2];
    add_graph(&n, "body", &body);
    put_node(&g, n);
    put_float(&g, "limit", 100);
    put_value(&g, GRAPH_INPUT, "x");
    put_value(&g, GRAPH_OUTPUT, "y");
    put_value(&g, GRAPH_OUTPUT, "tops");
    dhow_model *model = load(&g);
    const double given[] = {1, 1, 60, 30, 1};
    const float want[] = {128, 128, 120, 120, 128};
    const int64_t turns[] = {7, 7, 1, 2, 7};
    for (int i = 0; i < 5; i++) {
        run(model, given[i], 2, first, counts);
        cr_assert_float_eq(first[0], want[i], 1e-3);
        cr_assert_eq(counts[1], turns[i], "%d turns", (int)counts[1]);
        cr_assert_float_eq(first[1], 2 * given[i], 1e-3);
    }
    dhow_model_release(model);
}

/* Three times: double until the limit, then take a quarter. */
Test(loop, a_loop_runs_inside_of_another) {
    bytes g = {0}, outer = {0}, inner = doubling_body("limit"), n;
    float first[1];
    int64_t counts[1];
    n = node_of("Loop", "inner", "- - held", "grown");
    add_graph(&n, "body", &inner);
    put_node(&outer, n);
    put_node(&outer, node_of("Mul", "quarter", "grown fourth", "less"));
    put_node(&outer, node_of("Identity", "same", "oc", "og"));
    put_value(&outer, GRAPH_INPUT, "oi");
    put_value(&outer, GRAPH_INPUT, "oc");
    put_value(&outer, GRAPH_INPUT, "held");
    put_value(&outer, GRAPH_OUTPUT, "og");
    put_value(&outer, GRAPH_OUTPUT, "less");
    n = node_of("Loop", "outer", "three - x", "y");
    add_graph(&n, "body", &outer);
    put_node(&g, n);
    put_float(&g, "limit", 100);
    put_float(&g, "fourth", 0.25f);
    put_int(&g, "three", 3);
    put_value(&g, GRAPH_INPUT, "x");
    put_value(&g, GRAPH_OUTPUT, "y");
    dhow_model *model = load(&g);
    for (int again = 0; again < 2; again++) {
        run(model, 1, 1, first, counts);
        cr_assert_float_eq(first[0], 32, 1e-3, "%g", (double)first[0]);
        run(model, 3, 1, first, counts); /* 192, 48; 96, 192, 48; the same */
        cr_assert_float_eq(first[0], 48, 1e-3, "%g", (double)first[0]);
    }
    dhow_model_release(model);
}

static dhow_model *load_endless(void) {
    bytes g = {0}, body = {0}, n = node_of("Loop", "forever", "- - x", "y");
    put_node(&body, node_of("Identity", "same", "c", "go"));
    put_node(&body, node_of("Neg", "minus", "in", "out"));
    put_value(&body, GRAPH_INPUT, "i");
    put_value(&body, GRAPH_INPUT, "c");
    put_value(&body, GRAPH_INPUT, "in");
    put_value(&body, GRAPH_OUTPUT, "go");
    put_value(&body, GRAPH_OUTPUT, "out");
    add_graph(&n, "body", &body);
    put_node(&g, n);
    put_value(&g, GRAPH_INPUT, "x");
    put_value(&g, GRAPH_OUTPUT, "y");
    return load(&g);
}

Test(loop, one_without_an_end_is_refused) {
    dhow_tensor *in, *out = NULL;
    dhow_model *model = load_endless();
    OK(dhow_tensor_full(g_cpu, DHOW_F32, 1, k_two, 1, &in));
    cr_assert_eq(dhow_model_run(model, NULL, &in, 1, &out, 1), DHOW_UNSUPPORTED);
    cr_assert_not_null(strstr(dhow_last_error(), "Loop (node 'forever'"), "%s", dhow_last_error());
    cr_assert_not_null(strstr(dhow_last_error(), "more than 262144 nodes"));
    dhow_tensor_release(in);
    dhow_model_release(model);
}

/* Laying out 262144 nodes took seconds that nobody could cut short. */
Test(loop, a_time_limit_ends_one_without_an_end_first) {
    dhow_tensor *in, *out = NULL;
    dhow_model *model = load_endless();
    OK(dhow_tensor_full(g_cpu, DHOW_F32, 1, k_two, 1, &in));
    OK(dhow_model_set_time_limit(model, 1e-3));
    cr_assert_eq(dhow_model_run(model, NULL, &in, 1, &out, 1), DHOW_TIMED_OUT);
    cr_assert_null(out);
    cr_assert_not_null(strstr(dhow_last_error(), "Loop (node 'forever'"), "%s", dhow_last_error());
    cr_assert_not_null(strstr(dhow_last_error(), "longer than its limit of 0.001 s"));
    OK(dhow_model_set_time_limit(model, 0));
    cr_assert_eq(dhow_model_run(model, NULL, &in, 1, &out, 1), DHOW_UNSUPPORTED);
    const double bad[] = {-1, 1e10, (double)NAN};
    for (int i = 0; i < 3; i++)
        cr_assert_eq(dhow_model_set_time_limit(model, bad[i]), DHOW_INVALID_ARGUMENT);
    dhow_tensor_release(in);
    dhow_model_release(model);
}

Test(loop, a_body_that_does_not_fit_is_refused) {
    bytes g = {0}, body = doubling_body("limit"), n = node_of("Loop", "odd", "- - x x", "y");
    dhow_tensor *in, *out = NULL;
    add_graph(&n, "body", &body);
    put_node(&g, n);
    put_float(&g, "limit", 100);
    put_value(&g, GRAPH_INPUT, "x");
    put_value(&g, GRAPH_OUTPUT, "y");
    dhow_model *model = load(&g);
    OK(dhow_tensor_full(g_cpu, DHOW_F32, 1, k_two, 1, &in));
    cr_assert_eq(dhow_model_run(model, NULL, &in, 1, &out, 1), DHOW_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(dhow_last_error(), "for 2 values that are carried"), "%s",
                       dhow_last_error());
    dhow_tensor_release(in);
    dhow_model_release(model);
}
