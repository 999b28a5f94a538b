/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX files from strangers: cut, flipped, too deep, in a circle, with absurd sizes. Each gives a
 * status that names the place, or a model that runs or refuses.
 */
#include <math.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "onnx_fixture.h"

TestSuite(onnx, .init = set_up, .fini = tear_down, .timeout = 120);

static const int64_t k_vector[] = {4};

/* y = relu(x w + b), then two heads in one of two branches */
static bytes dense_model(void) {
    bytes g = {0}, t, v;
    const int64_t open[] = {-1, 4}, out[] = {-1, 3};
    t = node_of("MatMul", "product", "x w", "p");
    put_message(&g, GRAPH_NODE, &t);
    t = node_of("Add", "bias", "p b", "q");
    put_message(&g, GRAPH_NODE, &t);
    t = node_of("Relu", "act", "q", "y");
    put_message(&g, GRAPH_NODE, &t);
    t = floats_of("w", 4, 3);
    put_message(&g, GRAPH_INITIALIZER, &t);
    t = floats_of("b", 3, 0);
    put_message(&g, GRAPH_INITIALIZER, &t);
    v = value_of("x", 2, open);
    put_message(&g, GRAPH_INPUT, &v);
    v = value_of("y", 2, out);
    put_message(&g, GRAPH_OUTPUT, &v);
    return model_of(13, &g);
}

/* An If whose branches both call their result "y", as the node does. */
static bytes branch_model(void) {
    bytes g = {0}, then_graph = {0}, else_graph = {0}, t, n;
    t = node_of("Neg", "inner", "x", "y");
    put_message(&then_graph, GRAPH_NODE, &t);
    t = value_of("y", 1, k_vector);
    put_message(&then_graph, GRAPH_OUTPUT, &t);
    t = node_of("Exp", "inner", "x", "y");
    put_message(&else_graph, GRAPH_NODE, &t);
    t = value_of("y", 1, k_vector);
    put_message(&else_graph, GRAPH_OUTPUT, &t);
    t = node_of("ReduceSum", "sum", "x", "s");
    add_int(&t, "keepdims", 0);
    put_message(&g, GRAPH_NODE, &t);
    t = node_of("Cast", "flag", "s", "c");
    add_int(&t, "to", 9);
    put_message(&g, GRAPH_NODE, &t);
    n = node_of("If", "choice", "c", "y");
    add_graph(&n, "then_branch", &then_graph);
    add_graph(&n, "else_branch", &else_graph);
    put_message(&g, GRAPH_NODE, &n);
    t = value_of("x", 1, k_vector);
    put_message(&g, GRAPH_INPUT, &t);
    t = value_of("y", 1, k_vector);
    put_message(&g, GRAPH_OUTPUT, &t);
    return model_of(13, &g);
}

/* Nodes in the wrong order, and a reshape whose shape is computed from x. */
static bytes unsorted_model(void) {
    bytes g = {0}, t;
    const int64_t open[] = {-1, 4}, flat[] = {-1};
    t = node_of("Reshape", "last", "x n", "y");
    put_message(&g, GRAPH_NODE, &t);
    t = node_of("Concat", "shape", "count", "n");
    add_int(&t, "axis", 0);
    put_message(&g, GRAPH_NODE, &t);
    t = node_of("Unsqueeze", "one", "size axes", "count");
    put_message(&g, GRAPH_NODE, &t);
    t = node_of("Size", "first", "x", "size");
    put_message(&g, GRAPH_NODE, &t);
    bytes axes = {0};
    put_number(&axes, 1, 1);
    put_number(&axes, 2, 7);
    put_number(&axes, 7, 0);
    put_text(&axes, 8, "axes");
    put_message(&g, GRAPH_INITIALIZER, &axes);
    t = value_of("x", 2, open);
    put_message(&g, GRAPH_INPUT, &t);
    t = value_of("y", 1, flat);
    put_message(&g, GRAPH_OUTPUT, &t);
    return model_of(13, &g);
}

/* Whatever loads either runs or says why not. */
static void try_to_run(dhow_model *model, int32_t rank, const int64_t *shape) {
    dhow_device *cpu = dhow_model_device(model);
    dhow_tensor *in = NULL, *out[4] = {NULL};
    if (dhow_model_input_count(model) == 1 && dhow_model_output_count(model) <= 4) {
        cr_assert_eq(dhow_tensor_full(cpu, DHOW_F32, rank, shape, 0.5, &in), DHOW_OK);
        dhow_status status =
            dhow_model_run(model, NULL, &in, 1, out, dhow_model_output_count(model));
        cr_assert(status == DHOW_OK || dhow_last_error()[0] != '\0');
        cr_assert(status <= DHOW_INTERNAL, "status %d leaves the library", status);
    }
    for (int i = 0; i < 4; i++) dhow_tensor_release(out[i]);
    dhow_tensor_release(in);
}

static void expect_output(const bytes *file, int32_t rank, const int64_t *shape, double value,
                          const float *want, int64_t count) {
    dhow_model *model;
    dhow_tensor *in, *out = NULL;
    void *data;
    cr_assert_eq(load_bytes(file, &model), DHOW_OK, "%s", dhow_last_error());
    cr_assert_eq(dhow_tensor_full(dhow_model_device(model), DHOW_F32, rank, shape, value, &in),
                 DHOW_OK);
    cr_assert_eq(dhow_model_run(model, NULL, &in, 1, &out, 1), DHOW_OK, "%s", dhow_last_error());
    cr_assert_eq(dhow_tensor_count(out), count);
    cr_assert_eq(dhow_tensor_host_ptr(out, &data), DHOW_OK);
    for (int64_t i = 0; i < count; i++)
        cr_assert_float_eq(((float *)data)[i], want[i], 1e-4, "element %d", (int)i);
    dhow_tensor_release(in);
    dhow_tensor_release(out);
    dhow_model_release(model);
}

/* One float without dimensions. */
static bytes scalar_of(const char *name, float value) {
    bytes t = {0}, raw = {0};
    put_number(&t, 2, 1);
    put_text(&t, 8, name);
    put_raw(&raw, &value, sizeof value);
    put_message(&t, 9, &raw);
    return t;
}

typedef struct number {
    const char *name;
    float value;
} number;

/* Nodes {operator, inputs, output} and numbers that they read. */
static void put_nodes(bytes *graph, size_t nodes, const char *const (*node)[3], size_t numbers,
                      const number *known) {
    for (size_t i = 0; i < nodes; i++) {
        bytes t = node_of(node[i][0], "", node[i][1], node[i][2]);
        put_message(graph, GRAPH_NODE, &t);
    }
    for (size_t i = 0; i < numbers; i++) {
        bytes t = scalar_of(known[i].name, known[i].value);
        put_message(graph, GRAPH_INITIALIZER, &t);
    }
}

/* y[2][3] of x[2][4] by nodes {type, inputs, output} with the product p = x w, a bias b and
 * numbers. */
static bytes ended_product(size_t nodes, const char *const (*node)[3], size_t numbers,
                           const number *known) {
    bytes g = {0}, t = node_of("MatMul", "", "x w", "p");
    const int64_t in[] = {2, 4}, out[] = {2, 3};
    put_message(&g, GRAPH_NODE, &t);
    put_nodes(&g, nodes, node, numbers, known);
    t = floats_of("w", 4, 3);
    put_message(&g, GRAPH_INITIALIZER, &t);
    t = floats_of("b", 3, 0);
    put_message(&g, GRAPH_INITIALIZER, &t);
    t = value_of("x", 2, in);
    put_message(&g, GRAPH_INPUT, &t);
    t = value_of("y", 2, out);
    put_message(&g, GRAPH_OUTPUT, &t);
    return model_of(13, &g);
}

/* x is -0.5: columns of w sum to 2.2, 2.6, 3.0. */
static double product_of(int column) { return -0.5 * (2.2 + 0.4 * column); }

static void expect_steps(bytes *file, const float *want, uint32_t steps) {
    const int64_t shape[] = {2, 4};
    dhow_model *model;
    dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
    expect_output(file, 2, shape, -0.5, want, 6);
    cr_assert_eq(load_bytes(file, &model), DHOW_OK, "%s", dhow_last_error());
    try_to_run(model, 2, shape);
    cr_assert_eq(dhow_model_get_summary(model, &summary), DHOW_OK);
    cr_assert_eq(summary.step_count, steps, "%u steps", summary.step_count);
    dhow_model_release(model);
    bytes_free(file);
}

/* As PyTorch's exporter writes them. */
Test(onnx, a_bias_and_a_gelu_in_five_nodes_are_the_end_of_a_product) {
    static const char *const nodes[][3] = {{"Add", "b p", "h"},      {"Div", "h root", "q"},
                                           {"Erf", "q", "e"},        {"Add", "e one", "e1"},
                                           {"Mul", "h e1", "twice"}, {"Mul", "twice half", "y"}};
    static const number known[] = {{"root", 1.41421354f}, {"one", 1}, {"half", 0.5f}};
    bytes file = ended_product(6, nodes, 3, known);
    float want[6];
    for (int i = 0; i < 6; i++) {
        double h = product_of(i % 3) + 0.1 * (i % 3 + 1);
        want[i] = (float)(h / 2 * (1 + erf(h / sqrt(2))));
    }
    expect_steps(&file, want, 1);
}

/* A GELU keeps the digits of what is nearly nothing, which 1 + erf of it has lost. */
Test(onnx, a_gelu_in_five_nodes_of_a_sum_is_a_gelu) {
    static const char *const nodes[][3] = {{"Add", "x b", "h"},      {"Div", "h root", "q"},
                                           {"Erf", "q", "e"},        {"Add", "e one", "e1"},
                                           {"Mul", "h e1", "twice"}, {"Mul", "twice half", "y"}};
    static const number known[] = {{"root", 1.41421354f}, {"one", 1}, {"half", 0.5f}};
    static const int64_t shape[] = {2, 4};
    bytes g = {0}, t = floats_of("b", 4, 0);
    dhow_model *model;
    dhow_tensor *x, *y = NULL;
    void *data;
    put_message(&g, GRAPH_INITIALIZER, &t);
    put_nodes(&g, sizeof nodes / sizeof *nodes, nodes, sizeof known / sizeof *known, known);
    t = value_of("x", 2, shape);
    put_message(&g, GRAPH_INPUT, &t);
    t = value_of("y", 2, shape);
    put_message(&g, GRAPH_OUTPUT, &t);
    bytes file = model_of(13, &g);
    cr_assert_eq(load_bytes(&file, &model), DHOW_OK, "%s", dhow_last_error());
    cr_assert_eq(dhow_tensor_full(dhow_model_device(model), DHOW_F32, 2, shape, -6.5, &x), DHOW_OK);
    cr_assert_eq(dhow_model_run(model, NULL, &x, 1, &y, 1), DHOW_OK, "%s", dhow_last_error());
    cr_assert_eq(dhow_tensor_host_ptr(y, &data), DHOW_OK);
    for (int i = 0; i < 8; i++) {
        const double h = -6.5 + 0.1 * (i % 4 + 1), want = h / 2 * erfc(-h / sqrt(2));
        cr_assert_float_eq(((float *)data)[i] / want, 1, 1e-4, "%g of %g, not %g",
                           (double)((float *)data)[i], h, want);
    }
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    dhow_model_release(model);
    bytes_free(&file);
}

/* As PaddlePaddle's exporter writes them: scales of one number before and after. */
Test(onnx, a_scale_and_a_hard_swish_in_four_nodes_are_the_end_of_a_product) {
    static const char *const nodes[][3] = {
        {"Mul", "two p", "s"},        {"Add", "s one", "h"},     {"Add", "h three", "h3"},
        {"Clip", "h3 none six", "c"}, {"Mul", "h c", "hc"},      {"Div", "hc six", "y"},
        {"Mul", "half y", "scaled"},  {"Add", "scaled one", "z"}};
    static const number known[] = {{"two", 2},  {"one", 1}, {"three", 3},
                                   {"none", 0}, {"six", 6}, {"half", 0.5f}};
    for (int scaled = 0; scaled < 2; scaled++) {
        const char *node[8][3];
        float want[6];
        memcpy(node, nodes, sizeof node);
        if (scaled) node[5][2] = "swish", node[6][1] = "half swish", node[7][2] = "y";
        bytes file = ended_product(scaled ? 8 : 6, (const char *const(*)[3])node, 6, known);
        for (int i = 0; i < 6; i++) {
            double h = 2 * product_of(i % 3) + 1, y = h * fmin(fmax(h + 3, 0), 6) / 6;
            want[i] = (float)(scaled ? y / 2 + 1 : y);
        }
        expect_steps(&file, want, scaled ? 2 : 1);
    }
}

static bytes ints_of(const char *name, uint32_t count, const int64_t *values) {
    bytes t = {0}, raw = {0};
    put_number(&t, 1, count);
    put_number(&t, 2, 7);
    put_text(&t, 8, name);
    put_raw(&raw, values, count * sizeof *values);
    put_message(&t, 9, &raw);
    return t;
}

/* y = -reshape(transpose(x)[1:3]): `shape` takes views apart or needs a copy. */
static bytes regrouped_model(uint32_t rank, const int64_t *shape) {
    static const int64_t one[] = {1}, three[] = {3};
    static const char *const nodes[][3] = {{"Transpose", "x", "t"},
                                           {"Slice", "t one three", "s"},
                                           {"Reshape", "s shape", "r"},
                                           {"Neg", "r", "y"}};
    bytes g = {0}, t;
    const int64_t in[] = {6, 4};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        t = node_of(nodes[i][0], "", nodes[i][1], nodes[i][2]);
        put_message(&g, GRAPH_NODE, &t);
    }
    t = ints_of("one", 1, one);
    put_message(&g, GRAPH_INITIALIZER, &t);
    t = ints_of("three", 1, three);
    put_message(&g, GRAPH_INITIALIZER, &t);
    t = ints_of("shape", rank, shape);
    put_message(&g, GRAPH_INITIALIZER, &t);
    t = value_of("x", 2, in);
    put_message(&g, GRAPH_INPUT, &t);
    t = value_of("y", rank, shape);
    put_message(&g, GRAPH_OUTPUT, &t);
    return model_of(13, &g);
}

Test(onnx, a_reshaped_view_keeps_the_order_of_its_elements) {
    static const struct {
        uint32_t rank;
        int64_t shape[4];
        uint32_t steps; /* 1: no copy */
    } cases[] = {{3, {2, 2, 3}, 1}, {4, {1, 2, 1, 6}, 1}, {4, {2, 3, 1, 2}, 1},
                 {1, {12}, 2},      {2, {4, 3}, 2},       {2, {3, 4}, 2}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        bytes file = regrouped_model(cases[c].rank, cases[c].shape);
        float x[24];
        dhow_model *model;
        dhow_tensor *in, *out = NULL;
        dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
        void *data;
        for (int i = 0; i < 24; i++) x[i] = (float)i;
        cr_assert_eq(load_bytes(&file, &model), DHOW_OK, "%s", dhow_last_error());
        cr_assert_eq(
            dhow_tensor_from_data(dhow_model_device(model), DHOW_F32, DHOW_SHAPE(6, 4), x, &in),
            DHOW_OK);
        cr_assert_eq(dhow_model_run(model, NULL, &in, 1, &out, 1), DHOW_OK, "%s",
                     dhow_last_error());
        cr_assert_eq(dhow_tensor_host_ptr(out, &data), DHOW_OK);
        for (int i = 0; i < 12; i++)
            cr_assert_float_eq(((float *)data)[i], -x[i % 6 * 4 + 1 + i / 6], 0, "case %zu, %d", c,
                               i);
        cr_assert_eq(dhow_model_get_summary(model, &summary), DHOW_OK);
        cr_assert_eq(summary.step_count, cases[c].steps, "case %zu: %u steps", c,
                     summary.step_count);
        dhow_tensor_release(in);
        dhow_tensor_release(out);
        dhow_model_release(model);
        bytes_free(&file);
    }
}

Test(onnx, a_model_in_memory_runs) {
    bytes file = dense_model();
    const int64_t shape[] = {1, 4};
    const float want[] = {1.0f * 2.2f + 0.1f, 2.6f + 0.2f, 3.0f + 0.3f};
    expect_output(&file, 2, shape, 1, want, 3);
    bytes_free(&file);
}

Test(onnx, nothing_is_added_to_a_loaded_model_or_a_copy) {
    bytes file = dense_model();
    dhow_model *models[2];
    cr_assert_eq(load_bytes(&file, &models[0]), DHOW_OK);
    dhow_device *cpu;
    cr_assert_eq(dhow_device_get(g_context, "cpu", &cpu), DHOW_OK);
    cr_assert_eq(dhow_model_replicate(models[0], &cpu, 1, &models[1]), DHOW_OK);
    for (int i = 0; i < 2; i++) {
        dhow_model_value out;
        cr_assert_eq(dhow_model_relu(models[i], 0, &out), DHOW_INVALID_ARGUMENT);
        cr_assert_eq(dhow_model_output(models[i], "more", 0), DHOW_INVALID_ARGUMENT);
        cr_assert_neq(strstr(dhow_last_error(), "is complete"), NULL);
    }
    for (int i = 0; i < 2; i++) dhow_model_release(models[i]);
    bytes_free(&file);
}

Test(onnx, a_branch_is_chosen_by_a_computed_value_and_may_hide_outer_names) {
    bytes file = branch_model();
    const float negated[] = {-0.5f, -0.5f, -0.5f, -0.5f}, raised[] = {1, 1, 1, 1};
    expect_output(&file, 1, k_vector, 0.5, negated, 4);
    expect_output(&file, 1, k_vector, 0, raised, 4);
    bytes_free(&file);
}

Test(onnx, one_model_takes_both_branches_in_turn) {
    bytes file = branch_model();
    dhow_model *model;
    cr_assert_eq(load_bytes(&file, &model), DHOW_OK);
    for (int i = 0; i < 4; i++) {
        dhow_tensor *in, *out = NULL;
        void *data;
        double value = i % 2 == 0 ? 0.5 : 0;
        cr_assert_eq(dhow_tensor_full(dhow_model_device(model), DHOW_F32, 1, k_vector, value, &in),
                     DHOW_OK);
        cr_assert_eq(dhow_model_run(model, NULL, &in, 1, &out, 1), DHOW_OK, "%s",
                     dhow_last_error());
        cr_assert_eq(dhow_tensor_host_ptr(out, &data), DHOW_OK);
        cr_assert_float_eq(((float *)data)[0], i % 2 == 0 ? -0.5f : 1.0f, 1e-6, "run %d", i);
        dhow_tensor_release(in);
        dhow_tensor_release(out);
    }
    dhow_model_release(model);
    bytes_free(&file);
}

Test(onnx, nodes_in_any_order_are_sorted) {
    bytes file = unsorted_model();
    const int64_t shape[] = {2, 4};
    const float want[] = {3, 3, 3, 3, 3, 3, 3, 3};
    expect_output(&file, 2, shape, 3, want, 8);
    bytes_free(&file);
}

Test(onnx, every_truncation_is_a_status) {
    bytes (*makers[])(void) = {dense_model, branch_model, unsorted_model};
    for (int m = 0; m < 3; m++) {
        bytes file = makers[m]();
        for (size_t length = 1; length < file.length; length++) {
            dhow_model *model;
            bytes cut = {file.data, length, 0};
            dhow_status status = load_bytes(&cut, &model);
            cr_assert_neq(status, DHOW_OK, "model %d loads with %zu of %zu bytes", m, length,
                          file.length);
            cr_assert_neq(dhow_last_error()[0], '\0');
            cr_assert_null(model);
        }
        bytes_free(&file);
    }
}

Test(onnx, every_flipped_bit_is_a_status_or_another_model) {
    bytes (*makers[])(void) = {dense_model, branch_model, unsorted_model};
    const int64_t shapes[][2] = {{2, 4}, {4, 0}, {2, 4}};
    const int32_t ranks[] = {2, 1, 2};
    for (int m = 0; m < 3; m++) {
        bytes file = makers[m]();
        for (size_t bit = 0; bit < file.length * 8; bit++) {
            dhow_model *model;
            file.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            if (load_bytes(&file, &model) == DHOW_OK) try_to_run(model, ranks[m], shapes[m]);
            dhow_model_release(model);
            file.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        bytes_free(&file);
    }
}

static void expect_refusal(bytes *file, dhow_status status, const char *text) {
    dhow_model *model;
    dhow_status got = load_bytes(file, &model);
    cr_assert_eq(got, status, "%s: %s", dhow_status_name(got), dhow_last_error());
    cr_assert_not_null(strstr(dhow_last_error(), text), "'%s' does not say '%s'", dhow_last_error(),
                       text);
    bytes_free(file);
}

Test(onnx, graphs_nested_three_thousand_deep_are_refused) {
    bytes g = {0};
    for (int i = 0; i < 3000; i++) {
        bytes outer = {0}, n = node_of("If", "deep", "c", "y");
        add_graph(&n, "then_branch", &g);
        put_message(&outer, GRAPH_NODE, &n);
        g = outer;
    }
    bytes file = model_of(13, &g);
    expect_refusal(&file, DHOW_UNSUPPORTED, "nested more than 32 deep");
}

Test(onnx, a_cycle_is_refused_by_the_node_s_name) {
    bytes g = {0}, t;
    t = node_of("Add", "first", "x b", "a");
    put_message(&g, GRAPH_NODE, &t);
    t = node_of("Neg", "second", "a", "b");
    put_message(&g, GRAPH_NODE, &t);
    t = value_of("x", 1, k_vector);
    put_message(&g, GRAPH_INPUT, &t);
    t = value_of("b", 1, k_vector);
    put_message(&g, GRAPH_OUTPUT, &t);
    bytes file = model_of(13, &g);
    expect_refusal(&file, DHOW_CORRUPT, "cycle");
}

Test(onnx, extents_that_overflow_are_refused) {
    bytes g = {0}, t = {0};
    put_number(&t, 1, UINT64_C(1) << 62);
    put_number(&t, 1, UINT64_C(1) << 62);
    put_number(&t, 2, 1);
    put_text(&t, 8, "w");
    put_text(&t, 9, "1234");
    put_message(&g, GRAPH_INITIALIZER, &t);
    bytes file = model_of(13, &g);
    expect_refusal(&file, DHOW_CORRUPT, "tensor 'w'");
}

Test(onnx, a_shape_larger_than_its_data_is_refused_before_memory_is_taken) {
    bytes g = {0}, t = {0};
    put_number(&t, 1, UINT64_C(1) << 34);
    put_number(&t, 2, 1);
    put_text(&t, 8, "w");
    put_text(&t, 9, "1234");
    put_message(&g, GRAPH_INITIALIZER, &t);
    bytes file = model_of(13, &g);
    expect_refusal(&file, DHOW_CORRUPT, "needs 68719476736 bytes");
}

Test(onnx, a_name_defined_twice_is_refused) {
    bytes g = {0}, t;
    for (int i = 0; i < 2; i++) {
        t = node_of("Neg", "twin", "x", "y");
        put_message(&g, GRAPH_NODE, &t);
    }
    t = value_of("x", 1, k_vector);
    put_message(&g, GRAPH_INPUT, &t);
    t = value_of("y", 1, k_vector);
    put_message(&g, GRAPH_OUTPUT, &t);
    bytes file = model_of(13, &g);
    expect_refusal(&file, DHOW_CORRUPT, "'y' is defined twice");
}

Test(onnx, an_unknown_operator_is_named_with_node_and_opset) {
    bytes g = {0}, t = node_of("Frobnicate", "strange", "x", "y");
    put_message(&g, GRAPH_NODE, &t);
    t = value_of("x", 1, k_vector);
    put_message(&g, GRAPH_INPUT, &t);
    bytes file = model_of(13, &g);
    expect_refusal(&file, DHOW_UNSUPPORTED, "Frobnicate (node 'strange'");
}

Test(onnx, an_input_that_nobody_defines_is_named) {
    bytes g = {0}, t = node_of("Neg", "lonely", "ghost", "y");
    put_message(&g, GRAPH_NODE, &t);
    t = value_of("x", 1, k_vector);
    put_message(&g, GRAPH_INPUT, &t);
    bytes file = model_of(13, &g);
    expect_refusal(&file, DHOW_CORRUPT, "'ghost' is defined nowhere");
}

Test(onnx, wrong_groups_are_told_in_words) {
    bytes g = {0}, t;
    const int64_t image[] = {1, 64, 5, 5}, kernel[] = {3, 3};
    t = node_of("Conv", "conv1", "x w", "y");
    add_int(&t, "group", 3);
    add_ints(&t, "kernel_shape", 2, kernel);
    put_message(&g, GRAPH_NODE, &t);
    bytes w = {0}, raw = {0};
    const int64_t shape[] = {3, 21, 3, 3};
    float zero = 0;
    for (int i = 0; i < 4; i++) put_number(&w, 1, (uint64_t)shape[i]);
    put_number(&w, 2, 1);
    put_text(&w, 8, "w");
    for (int i = 0; i < 3 * 21 * 9; i++) put_raw(&raw, &zero, sizeof zero);
    put_message(&w, 9, &raw);
    put_message(&g, GRAPH_INITIALIZER, &w);
    t = value_of("x", 4, image);
    put_message(&g, GRAPH_INPUT, &t);
    t = value_of("y", 4, image);
    put_message(&g, GRAPH_OUTPUT, &t);
    bytes file = model_of(11, &g);
    dhow_model *model;
    dhow_tensor *in, *out = NULL;
    cr_assert_eq(load_bytes(&file, &model), DHOW_OK, "%s", dhow_last_error());
    cr_assert_eq(dhow_tensor_full(dhow_model_device(model), DHOW_F32, 4, image, 0, &in), DHOW_OK);
    cr_assert_eq(dhow_model_run(model, NULL, &in, 1, &out, 1), DHOW_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(dhow_last_error(),
                              "Conv (node 'conv1', opset 11): group 3 does not "
                              "divide 64 input channels"),
                       "%s", dhow_last_error());
    dhow_tensor_release(in);
    dhow_model_release(model);
    bytes_free(&file);
}

/* ---- memory ---- */

static int64_t g_allocations_left;
static bool fail_after(size_t size) {
    (void)size;
    return g_allocations_left-- > 0;
}

/* Loads and runs with the n-th allocation failing; true when none did. */
static bool run_short_of_memory(const bytes *file, int32_t rank, const int64_t *shape, int64_t n) {
    dhow_model *model = NULL;
    dhow_tensor *in, *out = NULL;
    dhow_device *cpu;
    cr_assert_eq(dhow_device_get(g_context, "cpu", &cpu), DHOW_OK);
    cr_assert_eq(dhow_tensor_full(cpu, DHOW_F32, rank, shape, 0.5, &in), DHOW_OK);
    g_allocations_left = n;
    dhowi_alloc_set_hook(fail_after);
    dhow_status status = load_bytes(file, &model);
    if (status == DHOW_OK) status = dhow_model_run(model, NULL, &in, 1, &out, 1);
    dhowi_alloc_set_hook(NULL);
    cr_assert(status == DHOW_OK || status == DHOW_OUT_OF_MEMORY, "allocation %d: %s: %s", (int)n,
              dhow_status_name(status), dhow_last_error());
    if (status == DHOW_OUT_OF_MEMORY && model != NULL) { /* and works when there is memory again */
        cr_assert_eq(dhow_model_run(model, NULL, &in, 1, &out, 1), DHOW_OK, "after %d: %s", (int)n,
                     dhow_last_error());
    }
    dhow_tensor_release(in);
    dhow_tensor_release(out);
    dhow_model_release(model);
    return g_allocations_left > 0;
}

/* Runs a node whose inputs are all inputs of the graph, of these shapes. */
static void expect_node_refusal(bytes *node, uint32_t count, const char *const *names,
                                const int64_t (*shapes)[4], const char *text) {
    bytes g = {0}, v;
    const int64_t any[] = {-1};
    dhow_model *model = NULL;
    dhow_tensor *in[8] = {NULL}, *out = NULL;
    put_message(&g, GRAPH_NODE, node);
    for (uint32_t i = 0; i < count; i++) {
        v = value_of(names[i], (uint32_t)shapes[i][0], shapes[i] + 1);
        put_message(&g, GRAPH_INPUT, &v);
    }
    v = value_of("y", 1, any);
    put_message(&g, GRAPH_OUTPUT, &v);
    bytes file = model_of(8, &g);
    dhow_status status = load_bytes(&file, &model);
    for (uint32_t i = 0; status == DHOW_OK && i < count; i++)
        cr_assert_eq(dhow_tensor_full(dhow_model_device(model), DHOW_F32, (int32_t)shapes[i][0],
                                      shapes[i] + 1, 0.5, &in[i]),
                     DHOW_OK);
    if (status == DHOW_OK) status = dhow_model_run(model, NULL, in, count, &out, 1);
    cr_assert_eq(status, DHOW_INVALID_ARGUMENT, "%s: %s", dhow_status_name(status),
                 dhow_last_error());
    cr_assert_not_null(strstr(dhow_last_error(), text), "'%s' does not say '%s'", dhow_last_error(),
                       text);
    for (uint32_t i = 0; i < count; i++) dhow_tensor_release(in[i]);
    dhow_tensor_release(out);
    dhow_model_release(model);
    bytes_free(&file);
}

/* They were narrowed unchecked: reads and writes beside the heap block. */
Test(onnx, optional_inputs_of_a_recurrent_node_have_its_shapes) {
    static const struct {
        const char *name, *text;
        int64_t right[4], wrong[4];
    } rows[] = {{"b", "B is f32[1, 2]", {2, 1, 40}, {2, 1, 2}},
                {"h", "initial_h is f32[1, 700, 5]", {3, 1, 2, 5}, {3, 1, 700, 5}},
                {"c", "initial_c is f32[2]", {3, 1, 2, 5}, {1, 2}},
                {"p", "P is f32[1, 3]", {2, 1, 15}, {2, 1, 3}}};
    static const char *const names[] = {"x", "w", "r", "b", "h", "c", "p"};
    for (int bad = 0; bad < 4; bad++) {
        int64_t shapes[7][4] = {{3, 3, 2, 4}, {3, 1, 20, 4}, {3, 1, 20, 5}};
        for (int i = 0; i < 4; i++)
            memcpy(shapes[3 + i], i == bad ? rows[i].wrong : rows[i].right, sizeof shapes[0]);
        bytes node = node_of("LSTM", "cell", "x w r b", "y");
        put_text(&node, 1, ""); /* the lengths of the sequences */
        put_text(&node, 1, "h");
        put_text(&node, 1, "c");
        put_text(&node, 1, "p");
        add_int(&node, "hidden_size", 5);
        expect_node_refusal(&node, 7, names, (const int64_t(*)[4])shapes, rows[bad].text);
    }
}

Test(onnx, a_slice_without_starts_or_ends_is_refused) {
    static const char *const names[] = {"x", "s"};
    static const int64_t shapes[][4] = {{1, 4}, {1, 1}};
    bytes node = node_of("Slice", "cut", "x s", "y");
    expect_node_refusal(&node, 2, names, shapes, "no starts and ends");
    node = node_of("Slice", "cut", "x", "y");
    expect_node_refusal(&node, 1, names, shapes, "no starts and ends");
}

Test(onnx, attributes_that_overflow_are_refused) {
    static const char *const names[] = {"x"};
    static const int64_t shapes[][4] = {{3, 1, 2, 3}};
    bytes node = node_of("LRN", "wide", "x", "y");
    add_int(&node, "size", INT64_C(1) << 62);
    expect_node_refusal(&node, 1, names, shapes, "size 4611686018427387904");
}

Test(onnx, every_allocation_may_fail_and_nothing_is_lost) {
    bytes (*makers[])(void) = {dense_model, branch_model, unsorted_model};
    const int64_t shapes[][2] = {{2, 4}, {4, 0}, {2, 4}};
    const int32_t ranks[] = {2, 1, 2};
    for (int m = 0; m < 3; m++) {
        bytes file = makers[m]();
        (void)run_short_of_memory(&file, ranks[m], shapes[m], INT32_MAX); /* fills caches */
        int64_t live = dhowi_alloc_live();
        int64_t n = 0;
        while (!run_short_of_memory(&file, ranks[m], shapes[m], n)) n++;
        cr_assert_gt(n, 20, "model %d takes %d allocations", m, (int)n);
        cr_assert_leq(dhowi_alloc_live(), live + 4, "model %d: %d blocks are lost", m,
                      (int)(dhowi_alloc_live() - live));
        bytes_free(&file);
    }
}
