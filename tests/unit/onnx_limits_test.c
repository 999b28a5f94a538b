/* SPDX-License-Identifier: Apache-2.0
 *
 * Small files that ask for much: constants that a few words make huge are refused by the node's
 * name before memory is taken, or left to the device where they are merely large.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "onnx_fixture.h"

TestSuite(onnx_limits, .init = set_up, .fini = tear_down, .timeout = 60);

/* What was asked of the allocator in pieces of a MiB and more. */
static uint64_t g_asked;
static bool count_bytes(size_t size) {
    if (size >= 1u << 20) g_asked += size;
    return true;
}

static void put_node(bytes *g, bytes node) { put_message(g, GRAPH_NODE, &node); }

/* An initializer of integers: rank 1, or a number where count is 0. */
static void put_ints(bytes *g, const char *name, uint32_t count, const int64_t *values) {
    bytes t = {0};
    if (count > 0) put_number(&t, 1, count);
    put_number(&t, 2, 7);
    for (uint32_t i = 0; i < (count > 0 ? count : 1); i++) put_number(&t, 7, (uint64_t)values[i]);
    put_text(&t, 8, name);
    put_message(g, GRAPH_INITIALIZER, &t);
}

static void put_shape(bytes *g, const char *name, int64_t extent) { put_ints(g, name, 1, &extent); }

static dhow_status run(bytes *g, dhow_tensor **out, dhow_model_summary *summary) {
    static const int64_t any[] = {-1};
    bytes v = value_of("y", 1, any);
    put_message(g, GRAPH_OUTPUT, &v);
    bytes file = model_of(13, g);
    dhow_model *model = NULL;
    *out = NULL;
    g_asked = 0;
    dhowi_alloc_set_hook(count_bytes);
    dhow_status status = load_bytes(&file, &model);
    if (status == DHOW_OK) status = dhow_model_run(model, NULL, NULL, 0, out, 1);
    dhowi_alloc_set_hook(NULL);
    if (status == DHOW_OK && summary != NULL) OK(dhow_model_get_summary(model, summary));
    dhow_model_release(model);
    bytes_free(&file);
    return status;
}

static void expect_refusal(bytes *g, const char *node) {
    dhow_tensor *out;
    dhow_status status = run(g, &out, NULL);
    cr_assert_eq(status, DHOW_UNSUPPORTED, "%s: %s: %s", node, dhow_status_name(status),
                 dhow_last_error());
    cr_assert_not_null(strstr(dhow_last_error(), node), "%s", dhow_last_error());
    cr_assert_not_null(
        strstr(dhow_last_error(), "save the tensor in the file, or make it an input"), "%s",
        dhow_last_error());
    cr_assert_lt(g_asked, UINT64_C(800) << 20, "%s: %llu bytes were taken", node,
                 (unsigned long long)g_asked);
}

/* c: a constant of `extent` zeros */
static bytes constant_graph(int64_t extent) {
    bytes g = {0};
    put_shape(&g, "shape", extent);
    put_node(&g, node_of("ConstantOfShape", "zeros", "shape", "c"));
    return g;
}

Test(onnx_limits, constants_that_a_few_words_make_huge_are_refused_by_the_node_s_name) {
    static const char *const ops[] = {"Neg", "Exp", "NonZero", "Hardmax", "CumSum", "Softmax"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        bytes g = constant_graph(INT64_C(1) << 30);
        char want[64];
        put_shape(&g, "axis", 0);
        put_node(&g, node_of(ops[i], "big", i == 4 ? "c axis" : "c", "y"));
        (void)snprintf(want, sizeof want, "%s (node 'big'", ops[i]);
        expect_refusal(&g, want);
    }
}

Test(onnx_limits, shapes_and_counts_are_data_too) {
    const int64_t big = INT64_C(1) << 33, most = INT32_MAX - 1, zero = 0, one = 1, pair[] = {0, 1},
                  square[] = {2, 2}, pads[] = {0, 0, 1 << 20, 1 << 20};
    bytes g = {0};
    put_ints(&g, "start", 0, &zero);
    put_ints(&g, "end", 0, &most);
    put_ints(&g, "step", 0, &one);
    put_node(&g, node_of("Range", "count", "start end step", "y"));
    expect_refusal(&g, "Range (node 'count'");

    g = (bytes){0};
    put_ints(&g, "x", 2, pair);
    put_shape(&g, "times", big);
    put_node(&g, node_of("Tile", "again", "x times", "y"));
    expect_refusal(&g, "Tile (node 'again'");

    g = (bytes){0};
    put_ints(&g, "shape", 2, square);
    put_ints(&g, "pads", 4, pads);
    put_node(&g, node_of("ConstantOfShape", "zeros", "shape", "x"));
    put_node(&g, node_of("Pad", "around", "x pads", "y"));
    expect_refusal(&g, "Pad (node 'around'");

    g = (bytes){0};
    put_ints(&g, "x", 2, pair);
    put_ints(&g, "depth", 0, &most);
    put_ints(&g, "values", 2, pair);
    put_node(&g, node_of("OneHot", "hot", "x depth values", "y"));
    expect_refusal(&g, "OneHot (node 'hot'");

    g = (bytes){0};
    put_ints(&g, "x", 1, &one);
    put_shape(&g, "shape", big);
    put_node(&g, node_of("Expand", "wide", "x shape", "e"));
    put_node(&g, node_of("Add", "twice", "e e", "y"));
    expect_refusal(&g, "Add (node 'twice'");

    g = constant_graph(INT64_C(1) << 30);
    put_shape(&g, "first", -1);
    put_shape(&g, "last", INT64_MIN + 1);
    put_shape(&g, "axes", 0);
    put_shape(&g, "back", -1);
    put_node(&g, node_of("Slice", "reverse", "c first last axes back", "y"));
    expect_refusal(&g, "Slice (node 'reverse'");
}

Test(onnx_limits, sequences_count_too) {
    bytes g = constant_graph(INT64_C(1) << 30);
    put_node(&g, node_of("SplitToSequence", "parts", "c", "s"));
    put_node(&g, node_of("SequenceLength", "length", "s", "y"));
    expect_refusal(&g, "SplitToSequence (node 'parts'");
}

Test(onnx_limits, many_small_steps_do_not_lead_further_than_a_large_one) {
    bytes g = constant_graph(INT64_C(1) << 20);
    char from[16] = "c", to[16], pair[40];
    for (int i = 0; i < 16; i++) {
        (void)snprintf(to, sizeof to, i == 15 ? "y" : "c%d", i);
        (void)snprintf(pair, sizeof pair, "%s %s", from, from);
        bytes n = node_of("Concat", "double", pair, to);
        add_int(&n, "axis", 0);
        put_node(&g, n);
        (void)snprintf(from, sizeof from, "%s", to);
    }
    expect_refusal(&g, "Concat (node 'double'");
}

Test(onnx_limits, a_large_constant_is_left_to_the_device) {
    bytes g = constant_graph(INT64_C(80) << 20); /* 320 MiB */
    dhow_tensor *out;
    dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
    void *data;
    put_node(&g, node_of("Exp", "ones", "c", "y"));
    OK(run(&g, &out, &summary));
    cr_assert_geq(summary.step_count, 1);
    OK(dhow_tensor_host_ptr(out, &data));
    cr_assert_float_eq(((float *)data)[(80 << 20) - 1], 1, 1e-6);
    dhow_tensor_release(out);
}

Test(onnx_limits, a_small_constant_leaves_no_step_but_the_copy) {
    bytes g = constant_graph(1000);
    dhow_tensor *out;
    dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
    put_node(&g, node_of("Exp", "ones", "c", "y"));
    OK(run(&g, &out, &summary));
    cr_assert_eq(summary.step_count, 1);
    dhow_tensor_release(out);
}

/* Elements in a further file are looked for before memory is taken for them. */
Test(onnx_limits, data_in_a_missing_file_take_no_memory) {
    bytes g = {0}, t = {0}, where = {0};
    put_number(&t, 1, UINT64_C(1) << 40);
    put_number(&t, 2, 1);
    put_text(&t, 8, "w");
    put_text(&where, 1, "location");
    put_text(&where, 2, "none.bin");
    put_message(&t, 13, &where);
    put_number(&t, 14, 1);
    put_message(&g, GRAPH_INITIALIZER, &t);
    put_node(&g, node_of("Neg", "minus", "w", "y"));
    dhow_tensor *out;
    dhow_status status = run(&g, &out, NULL);
    cr_assert_eq(status, DHOW_UNSUPPORTED, "%s: %s", dhow_status_name(status), dhow_last_error());
    cr_assert_not_null(strstr(dhow_last_error(), "'w' lies in another file"), "%s",
                       dhow_last_error());
    cr_assert_eq(g_asked, 0);
}

/* ---- memory of the device, which inputs of small files lead to as well ---- */

/* y = op(x ...) with x [n] and the numbers [extent] as inputs, so that nothing is constant. */
static dhow_status run_large(const char *op, const char *inputs, int64_t extent, uint64_t limit) {
    static const int64_t some[] = {8}, any[] = {-1};
    float x[8] = {0};
    bytes g = {0}, v = value_of("x", 1, some), n = node_of(op, "big", inputs, "y");
    put_shape(&g, "shape", extent);
    put_message(&g, GRAPH_INPUT, &v);
    put_ints(&g, "column", 2, (const int64_t[]){-1, 1});
    put_ints(&g, "axis", 0, &(const int64_t){1});
    put_node(&g, node_of("Reshape", "stand", "x column", "c"));
    put_ints(&g, "wide", 2, (const int64_t[]){8, extent});
    put_ints(&g, "pair", 2, (const int64_t[]){1, extent});
    put_node(&g, node_of("Expand", "spread", "c wide", "w"));
    put_node(&g, n);
    v = value_of("y", 1, any);
    put_message(&g, GRAPH_OUTPUT, &v);
    bytes file = model_of(13, &g);
    dhow_model *model;
    dhow_tensor *in, *out = NULL;
    OK(load_bytes(&file, &model));
    OK(dhow_model_set_memory_limit(model, limit));
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, 1, some, x, &in));
    g_asked = 0;
    dhowi_alloc_set_hook(count_bytes);
    dhow_status status = dhow_model_run(model, NULL, &in, 1, &out, 1);
    dhowi_alloc_set_hook(NULL);
    dhow_tensor_release(out);
    dhow_tensor_release(in);
    dhow_model_release(model);
    bytes_free(&file);
    return status;
}

Test(onnx_limits, results_on_the_device_have_a_limit_that_can_be_raised) {
    static const struct {
        const char *op, *inputs;
    } cases[] = {{"Exp", "w"}, {"Softmax", "w"}, {"Tile", "c pair"}, {"CumSum", "w axis"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t extent = INT64_C(1) << 26; /* 2 GiB */
        dhow_status status = run_large(cases[i].op, cases[i].inputs, extent, 0);
        cr_assert_eq(status, DHOW_UNSUPPORTED, "%s: %s: %s", cases[i].op, dhow_status_name(status),
                     dhow_last_error());
        cr_assert_not_null(strstr(dhow_last_error(), "(node 'big'"), "%s", dhow_last_error());
        cr_assert_not_null(strstr(dhow_last_error(), "dhow_model_set_memory_limit()"), "%s",
                           dhow_last_error());
        cr_assert_lt(g_asked, UINT64_C(64) << 20, "%s: %llu bytes were taken", cases[i].op,
                     (unsigned long long)g_asked);
    }
    /* told 1 MiB, and told enough: 8 x 2^16 floats */
    cr_assert_eq(run_large("Exp", "w", 1 << 16, UINT64_C(1) << 20), DHOW_UNSUPPORTED);
    cr_assert_not_null(strstr(dhow_last_error(), "takes 2097152 bytes, 1048576 is what the model"),
                       "%s", dhow_last_error());
    OK(run_large("Exp", "w", 1 << 16, UINT64_C(4) << 20));
    /* an output that is only a view becomes memory when it is given */
    cr_assert_eq(run_large("Identity", "w", INT64_C(1) << 26, 0), DHOW_UNSUPPORTED);
}

/* Whatever nobody reads costs nothing, not even a refusal. */
Test(onnx_limits, nodes_whose_results_nobody_wants_are_left_out) {
    bytes g = constant_graph(INT64_C(1) << 40);
    dhow_tensor *out;
    dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
    put_node(&g, node_of("Exp", "unused", "c", "e"));
    put_shape(&g, "x", 7);
    put_node(&g, node_of("Neg", "used", "x", "y"));
    OK(run(&g, &out, &summary));
    cr_assert_eq(summary.step_count, 1);
    dhow_tensor_release(out);
}

/* ---- weights that stay in the file ---- */

enum { ROWS = 512, COLUMNS = 256 }; /* of a weight: 512 KiB */

static char g_path[64];

static void attach_tensor(bytes *node, bytes *tensor) {
    bytes a = {0};
    put_text(&a, 1, "value");
    put_message(&a, 5, tensor);
    put_number(&a, 20, 4);
    put_message(node, 5, &a);
}

/* then_branch and else_branch: x times a constant of their own. */
static bytes branches_of(const char *name) {
    const int64_t result[] = {1, COLUMNS};
    bytes branch = node_of("If", "branch", "which", name);
    for (int i = 0; i < 2; i++) {
        bytes g = {0}, constant = node_of("Constant", "constant", "", "c");
        bytes weight = floats_of("c", ROWS, COLUMNS), out = value_of("r", 2, result);
        attach_tensor(&constant, &weight);
        put_node(&g, constant);
        put_node(&g, node_of("MatMul", "inner", "x c", "r"));
        put_message(&g, GRAPH_OUTPUT, &out);
        add_graph(&branch, i == 0 ? "then_branch" : "else_branch", &g);
    }
    return branch;
}

/* y = x * first + x * c + small, where a small tensor follows each large one. */
static bytes large_model(void) {
    const int64_t in[] = {1, ROWS}, result[] = {1, COLUMNS};
    const uint8_t yes = 1;
    bytes graph = {0}, which = {0}, raw = {0};
    bytes weight = floats_of("first", ROWS, COLUMNS), small = floats_of("small", COLUMNS, 0);
    bytes x = value_of("x", 2, in), y = value_of("y", 2, result);
    put_number(&which, 2, 9);
    put_text(&which, 8, "which");
    put_raw(&raw, &yes, 1);
    put_message(&which, 9, &raw);
    put_message(&graph, GRAPH_INITIALIZER, &weight);
    put_message(&graph, GRAPH_INITIALIZER, &small);
    put_message(&graph, GRAPH_INITIALIZER, &which);
    put_node(&graph, node_of("MatMul", "product", "x first", "p"));
    put_node(&graph, branches_of("b"));
    put_node(&graph, node_of("Add", "sum", "p b", "s"));
    put_node(&graph, node_of("Add", "last", "s small", "y"));
    put_message(&graph, GRAPH_INPUT, &x);
    put_message(&graph, GRAPH_OUTPUT, &y);
    return model_of(13, &graph);
}

static void write_file(const bytes *file) {
    (void)snprintf(g_path, sizeof g_path, "/tmp/dhow-onnx-XXXXXX");
    int fd = mkstemp(g_path);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, file->data, file->length), (ssize_t)file->length);
    (void)close(fd);
}

static dhow_status run_product(dhow_model *model, float *to) {
    const int64_t shape[] = {1, ROWS};
    dhow_tensor *x, *y = NULL;
    OK(dhow_tensor_full(g_cpu, DHOW_F32, 2, shape, 0.5, &x));
    dhow_status status = dhow_model_run(model, NULL, &x, 1, &y, 1);
    if (status == DHOW_OK) OK(dhow_tensor_read(y, to, COLUMNS * sizeof *to));
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    return status;
}

Test(onnx_limits, large_weights_of_a_file_are_those_of_the_same_bytes_in_memory) {
    bytes file = large_model();
    dhow_model *model;
    static float from_file[COLUMNS], from_memory[COLUMNS];
    write_file(&file);
    OK(dhow_model_load(g_context, g_path, &model));
    OK(run_product(model, from_file));
    dhow_model_release(model);
    OK(load_bytes(&file, &model));
    OK(run_product(model, from_memory));
    dhow_model_release(model);
    cr_assert_gt(from_file[0], 1);
    for (int i = 0; i < COLUMNS; i++) /* the order of a sum is that of the threads that are free */
        cr_assert_float_eq(from_file[i], from_memory[i], 1e-5f * from_memory[i], "%d: %.9g, %.9g",
                           i, (double)from_file[i], (double)from_memory[i]);
    (void)unlink(g_path);
    bytes_free(&file);
}

/* A mapped file ended the program with SIGBUS. */
Test(onnx_limits, a_file_that_is_cut_short_after_loading_is_a_status) {
    bytes file = large_model();
    dhow_model *model;
    static float y[COLUMNS];
    for (int kept = 0; kept < 3; kept++) {
        write_file(&file);
        OK(dhow_model_load(g_context, g_path, &model));
        cr_assert_eq(truncate(g_path, kept * 400000), 0);
        dhow_status status = run_product(model, y);
        cr_assert_eq(status, DHOW_CORRUPT, "%s: %s", dhow_status_name(status), dhow_last_error());
        cr_assert_not_null(strstr(dhow_last_error(), "while it was in use; load the model again"),
                           "%s", dhow_last_error());
        cr_assert_not_null(strstr(dhow_last_error(), g_path), "%s", dhow_last_error());
        dhow_model_release(model);
        (void)unlink(g_path);
    }
    bytes_free(&file);
}

/* Nor is any length of a file more than a status when it is loaded. */
Test(onnx_limits, every_length_of_a_file_with_large_weights_is_a_status) {
    bytes file = large_model();
    dhow_model *model;
    write_file(&file);
    for (size_t left = file.length; left > 1; left -= left > 2000 ? 1999 : 1) {
        cr_assert_eq(truncate(g_path, (off_t)(left - 1)), 0);
        cr_assert_eq(dhow_model_load(g_context, g_path, &model), DHOW_CORRUPT, "%zu bytes", left);
    }
    (void)unlink(g_path);
    bytes_free(&file);
}
