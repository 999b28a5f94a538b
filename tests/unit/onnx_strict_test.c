/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes that say what no operator means - flags of 2, lists of the wrong length, indices outside,
 * modes nobody knows, more dimensions than there are - are refused by the name of the node and of
 * what is wrong, and odd ones that mean something give what ONNX Runtime gives.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "onnx_fixture.h"

TestSuite(onnx_strict, .init = set_up, .fini = tear_down, .timeout = 60);

/* An initializer of integers: rank 1, or a number where count is 0. */
static void put_ints(bytes *g, const char *name, uint32_t count, const int64_t *values) {
    bytes t = {0};
    if (count > 0) put_number(&t, 1, count);
    put_number(&t, 2, 7);
    for (uint32_t i = 0; i < (count > 0 ? count : 1); i++) put_number(&t, 7, (uint64_t)values[i]);
    put_text(&t, 8, name);
    put_message(g, GRAPH_INITIALIZER, &t);
}

/* An initializer of zeros of a type of ONNX, of any shape. */
static void put_zeros_of(bytes *g, const char *name, uint64_t type, size_t width, uint32_t rank,
                         const int64_t *shape) {
    static const char zeros[4096];
    bytes t = {0};
    size_t count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        put_number(&t, 1, (uint64_t)shape[i]);
        count *= (size_t)shape[i];
    }
    cr_assert_leq(count * width, sizeof zeros);
    put_number(&t, 2, type);
    put_text(&t, 8, name);
    put_varint(&t, 9 << 3 | 2);
    put_varint(&t, count * width);
    put_raw(&t, zeros, count * width);
    put_message(g, GRAPH_INITIALIZER, &t);
}

static void put_zeros(bytes *g, const char *name, uint32_t rank, const int64_t *shape) {
    put_zeros_of(g, name, 1, 4, rank, shape);
}

static void put_bytes(bytes *g, const char *name, uint32_t rank, const int64_t *shape) {
    put_zeros_of(g, name, 2, 1, rank, shape);
}

static dhow_status run(int64_t opset, bytes *g, bytes node, dhow_tensor **out) {
    static const int64_t any[] = {-1};
    put_message(g, GRAPH_NODE, &node);
    bytes v = value_of("y", 1, any);
    put_message(g, GRAPH_OUTPUT, &v);
    bytes file = model_of(opset, g);
    dhow_model *model = NULL;
    *out = NULL;
    dhow_status status = load_bytes(&file, &model);
    if (status == DHOW_OK) status = dhow_model_run(model, NULL, NULL, 0, out, 1);
    dhow_model_release(model);
    bytes_free(&file);
    return status;
}

static void refused(int64_t opset, bytes *g, bytes node, const char *why) {
    dhow_tensor *out;
    dhow_status status = run(opset, g, node, &out);
    cr_assert(status == DHOW_INVALID_ARGUMENT || status == DHOW_UNSUPPORTED, "%s: %s: %s", why,
              dhow_status_name(status), dhow_last_error());
    cr_assert_not_null(strstr(dhow_last_error(), "(node 'n'"), "%s", dhow_last_error());
    cr_assert_not_null(strstr(dhow_last_error(), why), "'%s' is no part of '%s'", why,
                       dhow_last_error());
}

/* x: 0.1 .. 0.6 as [2, 3] */
static bytes with_x(void) {
    bytes g = {0}, t = floats_of("x", 2, 3);
    put_message(&g, GRAPH_INITIALIZER, &t);
    return g;
}

static void expect(int64_t opset, bytes *g, bytes node, int64_t count, const float *values) {
    dhow_tensor *out;
    void *data;
    OK(run(opset, g, node, &out));
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    OK(dhow_tensor_get_info(out, &info));
    cr_assert_eq(info.count, count);
    OK(dhow_tensor_host_ptr(out, &data));
    for (int64_t i = 0; i < count; i++) {
        const float is = ((float *)data)[i];
        cr_assert(is == values[i] || fabsf(is - values[i]) < 1e-6f, "%lld: %g, not %g",
                  (long long)i, (double)is, (double)values[i]);
    }
    dhow_tensor_release(out);
}

Test(onnx_strict, flags_are_0_or_1) {
    static const struct {
        const char *op, *inputs, *flag;
        int64_t opset;
    } cases[] = {{"ReduceMax", "x", "keepdims", 13},
                 {"ReduceSum", "x", "noop_with_empty_axes", 13},
                 {"ArgMax", "x", "select_last_index", 13},
                 {"ArgMax", "x", "keepdims", 13},
                 {"CumSum", "x axis", "exclusive", 13},
                 {"CumSum", "x axis", "reverse", 13},
                 {"Trilu", "x", "upper", 14},
                 {"TopK", "x one", "largest", 13},
                 {"Mod", "x x", "fmod", 13},
                 {"Gemm", "x x", "transA", 13},
                 {"Gemm", "x x", "transB", 13},
                 {"IsInf", "x", "detect_negative", 13},
                 {"Reshape", "x one", "allowzero", 14},
                 {"MaxPool", "image", "ceil_mode", 13},
                 {"AveragePool", "image", "count_include_pad", 13},
                 {"Resize", "image none sizes", "exclude_outside", 13},
                 {"GridSample", "image grid", "align_corners", 16},
                 {"SplitToSequence", "x", "keepdims", 13},
                 {"LSTM", "x x x", "input_forget", 13},
                 {"GRU", "x x x", "layout", 14}};
    static const int64_t values[] = {2, -1, INT64_C(1) << 32, INT64_MIN};
    const int64_t zero = 0, one = 1, kernel[] = {1, 1}, image[] = {1, 1, 2, 2},
                  grid[] = {1, 2, 2, 2};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            char why[96];
            bytes g = with_x();
            put_ints(&g, "axis", 0, &zero);
            put_ints(&g, "one", 1, &one);
            put_zeros(&g, "image", 4, image);
            put_zeros(&g, "grid", 4, grid);
            put_zeros(&g, "sizes", 1, image);
            put_zeros(&g, "none", 1, &zero);
            bytes n = node_of(cases[i].op, "n", cases[i].inputs, "y");
            add_int(&n, cases[i].flag, values[k]);
            if (strstr(cases[i].op, "Pool") != NULL) add_ints(&n, "kernel_shape", 2, kernel);
            (void)snprintf(why, sizeof why, "%s is %lld, not 0 or 1", cases[i].flag,
                           (long long)values[k]);
            refused(cases[i].opset, &g, n, why);
        }
    }
}

/* x as an image of one channel. */
static bytes with_image(void) {
    const int64_t shape[] = {1, 1, 2, 3};
    bytes g = with_x(), reshape = node_of("Reshape", "r", "x shape", "image");
    put_ints(&g, "shape", 4, shape);
    put_message(&g, GRAPH_NODE, &reshape);
    return g;
}

/* x is [1, 1, 2, 3], 0.1 to 0.6; the window k high and one wide. As ONNX Runtime 1.32. */
Test(onnx_strict, pools_larger_than_their_image_take_what_is_there) {
    static const struct {
        const char *op;
        int64_t k, stride, count;
        float y[3];
    } cases[] = {{"MaxPool", 3, 2, 3, {0.4f, 0.5f, 0.6f}},
                 {"MaxPool", 5, 5, 3, {0.4f, 0.5f, 0.6f}},
                 {"AveragePool", 3, 2, 3, {0.25f, 0.35f, 0.45f}},
                 {"AveragePool", 5, 5, 3, {0.25f, 0.35f, 0.45f}},
                 {"LpPool", 3, 2, 3, {0.41231056f, 0.53851648f, 0.67082039f}},
                 {"MaxPool", 4, 2, 0, {0}},
                 {"AveragePool", 3, 1, 0, {0}},
                 {"LpPool", 4, 2, 0, {0}},
                 {"MaxPool", 4, 1, -1, {0}},
                 {"AveragePool", 9, 2, -1, {0}}};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const size_t c = i / 2;
        const int64_t kernel[] = {cases[c].k, 1}, stride[] = {cases[c].stride, 1};
        bytes g = with_image(), n = node_of(cases[c].op, "n", "image", "y");
        add_ints(&n, "kernel_shape", 2, kernel);
        add_ints(&n, "strides", 2, stride);
        add_int(&n, "ceil_mode", i % 2);
        if (cases[c].count < 0) {
            refused(18, &g, n, "the window is larger than the image and its padding");
        } else {
            expect(18, &g, n, cases[c].count, cases[c].y);
        }
    }
}

/* As EfficientNet of Hugging Face writes a mean over the whole image. Taps outside were visited. */
Test(onnx_strict, windows_of_billions_visit_their_image_alone) {
    static const struct {
        const char *op;
        int64_t count_include_pad;
        float y;
    } cases[] = {{"MaxPool", -1, 0.6f},
                 {"AveragePool", 0, 0.35f},
                 {"AveragePool", 1, 0.175f},
                 {"LpPool", -1, 0.95393920f}};
    const int64_t much[] = {1 << 24, 1 << 24}, pads[] = {1, 0, 1, 0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes g = with_image(), n = node_of(cases[i].op, "n", "image", "y");
        add_ints(&n, "kernel_shape", 2, much);
        add_ints(&n, "strides", 2, much);
        add_ints(&n, "pads", 4, pads);
        add_int(&n, "ceil_mode", 1);
        if (cases[i].count_include_pad >= 0)
            add_int(&n, "count_include_pad", cases[i].count_include_pad);
        expect(18, &g, n, 1, &cases[i].y);
    }
}

Test(onnx_strict, what_is_one_number_is_exactly_one) {
    const int64_t pair[] = {0, 1};
    static const struct {
        const char *op, *inputs, *why;
    } cases[] = {{"OneHot", "i none pair", "depth has 0 numbers, not one"},
                 {"OneHot", "i pair pair", "depth has 2 numbers, not one"},
                 {"OneHot", "i one i", "values are no pair"},
                 {"CumSum", "x none", "the axis has 0 numbers, not one"},
                 {"TopK", "x none", "k has 0 numbers, not one"},
                 {"Trilu", "x none", "k has 0 numbers, not one"},
                 {"Range", "one none one", "limit has 0 numbers, not one"},
                 {"Clip", "x nothing", "min has 0 numbers, not one"},
                 {"Dropout", "x nothing", "ratio has 0 numbers, not one"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t one = 1, zero = 0;
        bytes g = with_x(), none = {0};
        put_ints(&g, "pair", 2, pair);
        put_ints(&g, "one", 0, &one);
        put_ints(&g, "i", 1, &zero);
        put_number(&none, 1, 0);
        put_number(&none, 2, 7);
        put_text(&none, 8, "none");
        put_message(&g, GRAPH_INITIALIZER, &none);
        put_zeros(&g, "nothing", 1, &zero);
        refused(14, &g, node_of(cases[i].op, "n", cases[i].inputs, "y"), cases[i].why);
    }
}

Test(onnx_strict, known_indices_are_inside) {
    static const char *const ops[] = {"Gather", "GatherElements", "GatherND", "ScatterND"};
    const int64_t far[] = {0, 5}, below[] = {-4, 0};
    for (size_t i = 0; i < 2 * sizeof ops / sizeof *ops; i++) {
        const char *op = ops[i / 2];
        bytes g = {0}, t = floats_of("x", 3, 0);
        put_message(&g, GRAPH_INITIALIZER, &t);
        put_ints(&g, "flat", 2, i % 2 == 0 ? far : below);
        const int64_t tuples[] = {2, 1}, two = 2;
        put_ints(&g, "shape", 2, tuples);
        put_zeros(&g, "u", 1, &two);
        t = node_of("Reshape", "tuples", "flat shape", "t");
        put_message(&g, GRAPH_NODE, &t);
        const char *in = i / 2 == 3 ? "x t u" : i / 2 == 2 ? "x t" : "x flat";
        refused(16, &g, node_of(op, "n", in, "y"),
                i % 2 == 0 ? "index 5 of an extent of 3" : "index -4 of an extent of 3");
    }
}

Test(onnx_strict, splits_add_up) {
    const int64_t short_[] = {1, 1}, four = 4;
    bytes g = with_x(), n = node_of("Split", "n", "x", "y z");
    add_int(&n, "axis", 1);
    refused(13, &g, n, "3 elements do not split into 2 equal parts");

    g = with_x();
    put_ints(&g, "sizes", 2, short_);
    n = node_of("Split", "n", "x sizes", "y z");
    add_int(&n, "axis", 1);
    refused(13, &g, n, "the parts come to 2 of the extent 3");

    g = with_x(); /* the outputs that nobody names count */
    n = node_of("Split", "n", "x", "y");
    add_int(&n, "axis", 1);
    add_int(&n, "num_outputs", 3);
    static const float column[] = {0.1f, 0.4f};
    expect(18, &g, n, 2, column);

    g = with_x();
    put_ints(&g, "w", 0, &four);
    n = node_of("Identity", "same", "x", "y");
    put_message(&g, GRAPH_NODE, &n);
    dhow_tensor *out;
    dhow_status status = run(13, &g, node_of("Split", "n", "x", ""), &out);
    if (status == DHOW_OK) { /* without results it has nothing to do */
        dhow_tensor_release(out);
    } else {
        cr_assert_not_null(strstr(dhow_last_error(), "it has no outputs"), "%s", dhow_last_error());
    }
}

Test(onnx_strict, groups_need_channels) {
    const int64_t none[] = {2, 0, 3}, zero = 0, four = 4;
    bytes g = {0};
    put_zeros(&g, "x", 3, none);
    put_zeros(&g, "s", 1, &zero);
    bytes n = node_of("GroupNormalization", "n", "x s s", "y");
    add_int(&n, "num_groups", 1);
    refused(21, &g, n, "1 groups do not divide 0 channels");
    g = (bytes){0};
    put_zeros(&g, "x", 1, &four);
    put_zeros(&g, "s", 1, &four);
    n = node_of("GroupNormalization", "n", "x s s", "y");
    add_int(&n, "num_groups", 4);
    refused(21, &g, n, "x has 1 dimensions");
}

Test(onnx_strict, steps_of_any_size_take_one_element) {
    static const int64_t steps[] = {INT64_C(1) << 62, INT64_MAX, -(INT64_C(1) << 62), INT64_MIN};
    for (size_t i = 0; i < 4; i++) {
        const int64_t back = steps[i] < 0, first = back ? 2 : 0, last = back ? -100 : 100, axis = 1;
        static const float from_start[] = {0.1f, 0.4f}, from_end[] = {0.3f, 0.6f};
        bytes g = with_x();
        put_ints(&g, "s", 1, &first);
        put_ints(&g, "e", 1, &last);
        put_ints(&g, "a", 1, &axis);
        put_ints(&g, "d", 1, &steps[i]);
        expect(13, &g, node_of("Slice", "n", "x s e a d", "y"), 2, back ? from_end : from_start);
    }
}

Test(onnx_strict, resizing_takes_what_is_finite) {
    static const double bad[] = {0, -1, 1e300, HUGE_VAL, NAN, 1e18};
    const int64_t image[] = {1, 1, 2, 2};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bytes g = {0}, t = {0};
        const float scales[] = {1, 1, (float)bad[i], 1};
        put_zeros(&g, "x", 4, image);
        put_number(&t, 1, 4);
        put_number(&t, 2, 1);
        put_text(&t, 8, "scales");
        put_varint(&t, 9 << 3 | 2);
        put_varint(&t, sizeof scales);
        put_raw(&t, scales, sizeof scales);
        put_message(&g, GRAPH_INITIALIZER, &t);
        bytes n = node_of("Resize", "n", "x  scales", "y");
        refused(13, &g, n, "axis 2");
    }
}

Test(onnx_strict, unknown_words_are_told) {
    const int64_t image[] = {1, 4, 2, 2}, sizes[] = {1, 4, 4, 4}, pads[] = {0, 0, 0, 0, 0, 0, 1, 1},
                  grid[] = {1, 2, 2, 2}, kernel[] = {1, 1}, rois[] = {1, 4};
    static const struct {
        const char *op, *inputs, *name, *why;
    } cases[] = {{"Resize", "x   sizes", "mode", "unsupported mode 'area'"},
                 {"Resize", "x   sizes", "nearest_mode", "unsupported nearest_mode 'area'"},
                 {"Resize", "x   sizes", "coordinate_transformation_mode", "_mode 'area'"},
                 {"Resize", "x   sizes", "keep_aspect_ratio_policy", "_policy 'area'"},
                 {"Pad", "x pads", "mode", "unsupported mode 'area'"},
                 {"DepthToSpace", "x", "mode", "unsupported mode 'area'"},
                 {"GridSample", "x grid", "mode", "unsupported mode 'area'"},
                 {"GridSample", "x grid", "padding_mode", "unsupported padding_mode 'area'"},
                 {"MaxPool", "x", "auto_pad", "unsupported auto_pad 'area'"},
                 {"RoiAlign", "x rois one", "mode", "unsupported mode 'area'"},
                 {"RoiAlign", "x rois one", "coordinate_transformation_mode", "_mode 'area'"},
                 {"Cast", "x", "round_mode", "unsupported round_mode 'area'"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes g = {0}, n = node_of(cases[i].op, "n", cases[i].inputs, "y");
        put_zeros(&g, "x", 4, image);
        put_zeros(&g, "grid", 4, grid);
        put_ints(&g, "sizes", 4, sizes);
        put_ints(&g, "pads", 8, pads);
        put_zeros(&g, "rois", 2, rois);
        put_ints(&g, "one", 1, rois);
        add_text(&n, cases[i].name, "area");
        if (i == 5) add_int(&n, "blocksize", 2);
        if (i == 8) add_ints(&n, "kernel_shape", 2, kernel);
        if (i == 11) add_int(&n, "to", 1);
        refused(18, &g, n, cases[i].why);
    }
}

/* Offsets are pairs for each tap of each output pixel; groups divide the channels. */
Test(onnx_strict, what_is_deformed_fits) {
    const int64_t image[] = {1, 2, 3, 3}, weight[] = {2, 2, 2, 2};
    static const struct {
        int64_t offset[4], mask[4], groups, offset_groups;
        const char *why;
    } cases[] = {{{1, 8, 3, 3}, {1, 4, 2, 2}, 1, 1, "offset is f32[1, 8, 3, 3], not [1, 8, 2, 2]"},
                 {{1, 4, 2, 2}, {1, 4, 2, 2}, 1, 1, "offset is f32[1, 4, 2, 2]"},
                 {{1, 8, 2, 2}, {1, 8, 2, 2}, 1, 1, "mask is f32[1, 8, 2, 2], not [1, 4, 2, 2]"},
                 {{1, 8, 2, 2}, {1, 4, 2, 2}, 2, 1, "2 groups"},
                 {{1, 8, 2, 2}, {1, 4, 2, 2}, 1, 3, "3 of offsets"},
                 {{1, 8, 2, 2}, {1, 4, 2, 2}, 1, 0, "0 of offsets"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes g = {0}, n = node_of("DeformConv", "n", "x w offset  mask", "y");
        put_zeros(&g, "x", 4, image);
        put_zeros(&g, "w", 4, weight);
        put_zeros(&g, "offset", 4, cases[i].offset);
        put_zeros(&g, "mask", 4, cases[i].mask);
        add_int(&n, "group", cases[i].groups);
        add_int(&n, "offset_group", cases[i].offset_groups);
        refused(22, &g, n, cases[i].why);
    }
}

Test(onnx_strict, more_than_eight_dimensions_are_refused) {
    static const int64_t ones[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3};
    static const char *const ops[] = {"Reshape", "Expand", "Tile"};
    for (size_t i = 0; i < 3; i++) {
        bytes g = with_x();
        put_ints(&g, "shape", 12, ones);
        refused(13, &g, node_of(ops[i], "n", "x shape", "y"), "has 12 dimensions, dhow takes 8");
    }
    static const char *const pools[] = {"GlobalMaxPool", "MaxPool"};
    for (size_t i = 0; i < 2; i++) {
        bytes g = {0};
        dhow_tensor *out;
        put_zeros(&g, "x", 12, ones);
        dhow_status status = run(13, &g, node_of(pools[i], "n", "x", "y"), &out);
        cr_assert_eq(status, DHOW_UNSUPPORTED);
        cr_assert_not_null(strstr(dhow_last_error(), "'x' has 12 dimensions, dhow takes 8"), "%s",
                           dhow_last_error());
    }
}

/* Answers of ONNX Runtime where the text of the standard leaves it open. */
Test(onnx_strict, odd_values_mean_what_they_mean_elsewhere) {
    const int64_t axis = 1, empty[] = {2, 0, 2}, none = 0;
    bytes g = with_x(), t = floats_of("low", 1, 0);
    static const float high[] = {0, 0, 0, 0, 0, 0};
    put_message(&g, GRAPH_INITIALIZER, &t);
    const int64_t one = 1;
    put_zeros(&g, "high", 1, &one);
    expect(13, &g, node_of("Clip", "n", "x low high", "y"), 6, high); /* low is above high */

    static const float least[] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY},
                       most[] = {INFINITY, INFINITY, INFINITY, INFINITY};
    static const char *const ops[] = {"ReduceMax", "ReduceMin", "ReduceLogSumExp"};
    for (size_t i = 0; i < 3; i++) {
        g = (bytes){0};
        put_zeros(&g, "x", 3, empty);
        put_ints(&g, "axes", 1, &axis);
        expect(18, &g, node_of(ops[i], "n", "x axes", "y"), 4, i == 1 ? most : least);
    }

    g = (bytes){0}; /* classes that there are not have no hot one */
    const int64_t indices[] = {0, 5, -1, -4}, depth = 3;
    static const float hot[] = {0.2f, 0.1f, 0.1f, 0.1f, 0.1f, 0.1f,
                                0.1f, 0.1f, 0.2f, 0.1f, 0.1f, 0.1f};
    t = floats_of("values", 2, 0);
    put_message(&g, GRAPH_INITIALIZER, &t);
    put_ints(&g, "i", 4, indices);
    put_ints(&g, "depth", 0, &depth);
    expect(13, &g, node_of("OneHot", "n", "i depth values", "y"), 12, hot);

    g = with_x();
    refused(13, &g, node_of("Mod", "n", "x x", "y"), "fmod is 0, floats take 1");

    g = (bytes){0}; /* the scale of nothing is 1 */
    static const float scale[] = {1};
    put_zeros(&g, "x", 1, &none);
    expect(13, &g, node_of("DynamicQuantizeLinear", "n", "x", "q y z"), 1, scale);
}

/* Over no axes nothing is summed up, but squares are squares. */
Test(onnx_strict, reductions_over_no_axes_keep_their_functions) {
    static const float x[] = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f};
    static const struct {
        const char *op;
        float (*of)(float);
    } cases[] = {{"ReduceLogSum", logf}, {"ReduceL1", fabsf}, {"ReduceL2", fabsf}};
    float y[6];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes g = with_x(), n = node_of(cases[i].op, "n", "x", "y");
        add_int(&n, "noop_with_empty_axes", 1);
        for (int k = 0; k < 6; k++) y[k] = cases[i].of(x[k]);
        expect(18, &g, n, 6, y);
    }
    bytes g = with_x(), n = node_of("ReduceSumSquare", "n", "x", "y");
    add_int(&n, "noop_with_empty_axes", 1);
    for (int k = 0; k < 6; k++) y[k] = x[k] * x[k];
    expect(18, &g, n, 6, y);
    g = with_x();
    n = node_of("ReduceSum", "n", "x", "y");
    add_int(&n, "noop_with_empty_axes", 1);
    expect(18, &g, n, 6, x);
}

Test(onnx_strict, rows_of_zeros_have_no_direction) {
    static const float zeros[6] = {0};
    const int64_t shape[] = {2, 3};
    for (int64_t p = 1; p < 3; p++) {
        bytes g = {0}, n = node_of("LpNormalization", "n", "x", "y");
        put_zeros(&g, "x", 2, shape);
        add_int(&n, "p", p);
        expect(18, &g, n, 6, zeros);
    }
}

/* roi cuts images only where coordinates say so. */
Test(onnx_strict, regions_count_where_images_are_cropped) {
    static const float y[] = {0.1f, 0.1f, 0.2f, 0.2f};
    bytes g = {0}, t = floats_of("x", 2, 0), n = node_of("Resize", "n", "x roi  sizes", "y");
    const int64_t two = 2, four = 4;
    put_message(&g, GRAPH_INITIALIZER, &t);
    put_zeros(&g, "roi", 1, &two);
    put_ints(&g, "sizes", 1, &four);
    add_text(&n, "coordinate_transformation_mode", "asymmetric");
    expect(13, &g, n, 4, y);
    g = (bytes){0};
    t = floats_of("x", 2, 0);
    put_message(&g, GRAPH_INITIALIZER, &t);
    put_zeros(&g, "roi", 1, &two);
    t = floats_of("scales", 1, 0); /* 0.1 twenty times is 2 */
    put_message(&g, GRAPH_INITIALIZER, &t);
    const float twenty[] = {20};
    t = (bytes){0};
    put_number(&t, 1, 1);
    put_number(&t, 2, 1);
    put_text(&t, 8, "twenty");
    put_varint(&t, 9 << 3 | 2);
    put_varint(&t, sizeof twenty);
    put_raw(&t, twenty, sizeof twenty);
    put_message(&g, GRAPH_INITIALIZER, &t);
    t = node_of("Mul", "two", "scales twenty", "s");
    put_message(&g, GRAPH_NODE, &t);
    n = node_of("Resize", "n", "x roi s", "y");
    add_text(&n, "coordinate_transformation_mode", "asymmetric");
    add_text(&n, "nearest_mode", "floor");
    expect(13, &g, n, 4, y);
}

/* Eight from the input and eight from the attribute are more than there are dimensions. */
Test(onnx_strict, scales_are_given_once) {
    static const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    const int64_t shape[] = {1, 1, 1, 1, 1, 1, 1, 2}, eight = 8;
    bytes g = {0}, n = node_of("Upsample", "n", "x scales", "y"), a = {0};
    put_zeros(&g, "x", 8, shape);
    put_zeros(&g, "scales", 1, &eight);
    put_text(&a, 1, "scales");
    put_varint(&a, 7 << 3 | 2);
    put_varint(&a, sizeof ones);
    put_raw(&a, ones, sizeof ones);
    put_number(&a, 20, 6);
    put_message(&n, 5, &a);
    refused(9, &g, n, "it has scales twice");
}

Test(onnx_strict, axes_of_slices_are_as_many_as_starts) {
    const int64_t one = 1, two = 2, zero = 0;
    bytes g = with_x(), none = {0};
    put_ints(&g, "s", 1, &one);
    put_ints(&g, "e", 1, &two);
    put_number(&none, 1, (uint64_t)zero);
    put_number(&none, 2, 7);
    put_text(&none, 8, "none");
    put_message(&g, GRAPH_INITIALIZER, &none);
    refused(13, &g, node_of("Slice", "n", "x s e none", "y"), "axes and starts differ in length");
}

/* Bins of any extent would be sampled for any time. */
Test(onnx_strict, scales_of_regions_are_finite) {
    const int64_t image[] = {1, 1, 2, 2}, one[] = {1, 4}, zero = 0;
    bytes g = {0}, n = node_of("RoiAlign", "n", "x rois batch", "y");
    put_zeros(&g, "x", 4, image);
    put_zeros(&g, "rois", 2, one);
    put_ints(&g, "batch", 1, &zero);
    add_float(&n, "spatial_scale", INFINITY);
    refused(16, &g, n, "spatial_scale is inf");
}

Test(onnx_strict, any_number_can_be_the_class_to_ignore) {
    static const struct {
        int64_t ignored;
        float loss;
    } cases[] = {{INT64_MIN, -0.7f}, {INT64_MAX, -0.7f}, {-1, -0.7f}, {0, -0.6f}, {2, -0.1f}};
    const int64_t classes[] = {0, 2};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes g = with_x(), n = node_of("NegativeLogLikelihoodLoss", "n", "x t", "y");
        put_ints(&g, "t", 2, classes);
        add_text(&n, "reduction", "sum");
        add_int(&n, "ignore_index", cases[i].ignored);
        expect(13, &g, n, 1, &cases[i].loss);
    }
}

Test(onnx_strict, approximations_are_known) {
    bytes g = with_x(), n = node_of("Gelu", "n", "x", "y");
    add_text(&n, "approximate", "tahn");
    refused(20, &g, n, "unsupported approximate 'tahn'");
}

/* A wrong number of lengths, and lengths that are none. */
static bytes recurrent_of(int64_t batch, uint32_t count, const int64_t *lengths) {
    const int64_t x[] = {2, batch, 1}, w[] = {1, 4, 1};
    bytes g = {0};
    put_zeros(&g, "x", 3, x);
    put_zeros(&g, "w", 3, w);
    put_ints(&g, "lengths", count, lengths);
    return g;
}

Test(onnx_strict, every_sequence_has_a_length) {
    int64_t lengths[300];
    float zeros[600] = {0};
    for (int i = 0; i < 300; i++) lengths[i] = 2;
    bytes n = node_of("LSTM", "n", "x w w  lengths", "y"), g = recurrent_of(300, 300, lengths);
    add_int(&n, "hidden_size", 1);
    expect(13, &g, n, 600, zeros); /* more than 256 */
    n = node_of("LSTM", "n", "x w w  lengths", "y");
    g = recurrent_of(3, 2, lengths);
    refused(13, &g, n, "sequence_lens has 2 lengths, the batch 3 sequences");
    n = node_of("LSTM", "n", "x w w  lengths", "y");
    lengths[1] = 3;
    g = recurrent_of(3, 3, lengths);
    refused(13, &g, n, "a sequence of length 3 in 2 steps");
}

/* Typed data that its field cannot hold. */
Test(onnx_strict, elements_of_another_type_are_told) {
    bytes g = {0}, t = {0};
    put_number(&t, 1, 2);
    put_number(&t, 2, 1);
    put_number(&t, 4, 7); /* float_data as a varint */
    put_text(&t, 8, "w");
    put_message(&g, GRAPH_INITIALIZER, &t);
    dhow_tensor *out;
    cr_assert_eq(run(13, &g, node_of("Neg", "n", "w", "y"), &out), DHOW_CORRUPT);
    cr_assert_not_null(strstr(dhow_last_error(), "tensor 'w' has other elements than its type"),
                       "%s", dhow_last_error());
}

/* ---- attention ---- */

/* q [2, 3, 8], k and v [2, 3, 4] beside others that do not fit them */
static bytes with_attention(void) {
    static const struct {
        const char *name;
        uint32_t rank;
        int64_t shape[4];
    } zeros[] = {{"q", 3, {2, 3, 8}},       {"k", 3, {2, 3, 4}},     {"q4", 4, {2, 2, 3, 4}},
                 {"k4", 4, {2, 1, 3, 4}},   {"v4", 4, {2, 1, 2, 4}}, {"k0", 4, {2, 2, 3, 4}},
                 {"q0", 4, {2, 0, 3, 4}},   {"p4", 4, {2, 1, 5, 4}}, {"wide", 4, {2, 1, 5, 3}},
                 {"mask", 2, {3, 4}},       {"short", 2, {3, 2}},    {"many", 3, {3, 3, 3}},
                 {"five", 4, {2, 1, 5, 4}}, {"q3", 4, {2, 3, 3, 4}}};
    const int64_t lengths[] = {3, 2, 1};
    bytes g = {0};
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++)
        put_zeros(&g, zeros[i].name, zeros[i].rank, zeros[i].shape);
    put_ints(&g, "two", 2, lengths);
    put_ints(&g, "three", 3, lengths);
    return g;
}

Test(onnx_strict, attention_that_does_not_fit_is_told) {
    static const struct {
        const char *inputs, *why;
        int64_t opset, q_heads, kv_heads;
    } cases[] = {
        {"q k k", "q_num_heads is 0 for 8 features", 24, 0, 1},
        {"q k k", "q_num_heads is 3 for 8 features", 24, 3, 1},
        {"q k k", "kv_num_heads is 0 for 4 features", 24, 2, 0},
        {"q k k", "query f32[2, 2, 3, 4], key f32[2, 2, 3, 2] and value f32[2, 2, 3, 2] do not", 24,
         2, 2},
        {"q4 k4 k4", "q_num_heads is 3, the input has 2 heads", 24, 3, 0},
        {"q4 k4 v4", "do not fit one another", 24, 0, 0},
        {"q3 k0 k0", "3 heads of query do not share 2 of key", 24, 0, 0},
        {"q0 k0 k0", "0 heads of query do not share 2 of key", 24, 0, 0},
        {"q4 k k", "input 1 has 3 dimensions", 24, 0, 0},
        {"mask mask mask", "input 0 has 2 dimensions", 24, 0, 0},
        {"two two two", "query is i64", 24, 0, 0},
        {"q4 two k4", "input 1 is i64, query is f32", 24, 0, 0},
        {"q4 k4 k4 two", "input 3 is i64, query is f32", 24, 0, 0},
        {"q4 k4 k4 mask", "attn_mask f32[3, 4] does not fit scores [2, 2, 3, 3]", 24, 0, 0},
        {"q4 k4 k4 many", "attn_mask f32[3, 3, 3] does not fit scores [2, 2, 3, 3]", 24, 0, 0},
        {"q4 k4 k4 short", "attn_mask f32[3, 2] does not fit scores [2, 2, 3, 3]", 23, 0, 0},
        {"q4 k4 k4  p4", "past_key and past_value are given together or not at all", 24, 0, 0},
        {"q4 k4 k4  p4 wide", "input 5 is f32[2, 1, 5, 3], what follows it f32[2, 1, 3, 4]", 24, 0,
         0},
        {"q4 k4 k4  k p4", "input 4 has 3 dimensions", 24, 0, 0},
        {"q4 k4 k4    two", "nonpad_kv_seqlen is an input since opset 24", 23, 0, 0},
        {"q4 k4 k4    three", "does not have one number for each of 2 sequences", 24, 0, 0},
        {"q4 k4 k4    k4", "does not have one number for each of 2 sequences", 24, 0, 0},
        {"q4 k4 k4  p4 five two", "nonpad_kv_seqlen beside past_key", 24, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes n = node_of("Attention", "n", cases[i].inputs, "y"), g = with_attention();
        if (cases[i].q_heads > 0) add_int(&n, "q_num_heads", cases[i].q_heads);
        if (cases[i].kv_heads > 0) add_int(&n, "kv_num_heads", cases[i].kv_heads);
        refused(cases[i].opset, &g, n, cases[i].why);
    }
}

Test(onnx_strict, attention_takes_numbers_that_mean_something) {
    static const struct {
        const char *name, *why;
        int64_t i;
        float f;
    } cases[] = {{"is_causal", "is_causal is 2, not 0 or 1", 2, 0},
                 {"qk_matmul_output_mode", "qk_matmul_output_mode is 4, not 0 to 3", 4, 0},
                 {"qk_matmul_output_mode", "qk_matmul_output_mode is -1, not 0 to 3", -1, 0},
                 {"left_window_size", "left_window_size is -2, not -1 for none", -2, 0},
                 {"right_window_size", "right_window_size is 4294967296, not -1", 4294967296, 0},
                 {"softmax_precision", "unsupported softmax_precision 7", 7, 0},
                 {"softmax_precision", "unsupported softmax_precision 4294967297", 4294967297, 0},
                 {"scale", "scale is -1", 0, -1},
                 {"scale", "scale is nan", 0, NAN},
                 {"softcap", "softcap is -2", 0, -2},
                 {"softcap", "softcap is inf", 0, INFINITY}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes n = node_of("Attention", "n", "q4 k4 k4", "y"), g = with_attention();
        if (cases[i].i != 0) add_int(&n, cases[i].name, cases[i].i);
        if (cases[i].i == 0) add_float(&n, cases[i].name, cases[i].f);
        refused(24, &g, n, cases[i].why);
    }
}

/* As ONNX Runtime has it, and the standard since onnx 1.21: scores that are masked away stay so
 * behind a cap, and a query that sees nothing gets zeros. */
Test(onnx_strict, attention_caps_before_it_masks) {
    static const float own[] = {0.1f, 0.2f, 0, 0, 0.1f, 0.2f};
    const int64_t shape[] = {1, 1, 3, 2}, square[] = {3, 3}, keep[] = {1, 0, 0, 0, 0, 0, 1, 0, 0};
    bytes g = {0}, t = floats_of("x", 3, 2), n = node_of("Attention", "n", "x4 x4 x4 mask", "y");
    put_message(&g, GRAPH_INITIALIZER, &t);
    put_ints(&g, "shape", 4, shape);
    put_ints(&g, "square", 2, square);
    put_ints(&g, "keep", 9, keep);
    t = node_of("Reshape", "r", "x shape", "x4");
    put_message(&g, GRAPH_NODE, &t);
    t = node_of("Reshape", "s", "keep square", "rows");
    put_message(&g, GRAPH_NODE, &t);
    t = node_of("Cast", "c", "rows", "mask");
    add_int(&t, "to", 9);
    put_message(&g, GRAPH_NODE, &t);
    add_float(&n, "softcap", 2);
    expect(23, &g, n, 6, own);
}

/* A scale of 0 is one: all keys weigh the same. */
Test(onnx_strict, attention_of_scale_0_is_the_mean) {
    static const float means[] = {0.3f, 0.4f, 0.3f, 0.4f, 0.3f, 0.4f};
    const int64_t shape[] = {1, 1, 3, 2};
    bytes g = {0}, t = floats_of("x", 3, 2), n = node_of("Attention", "n", "x4 x4 x4", "y");
    put_message(&g, GRAPH_INITIALIZER, &t);
    put_ints(&g, "shape", 4, shape);
    t = node_of("Reshape", "r", "x shape", "x4");
    put_message(&g, GRAPH_NODE, &t);
    add_float(&n, "scale", 0);
    expect(23, &g, n, 6, means);
}

Test(onnx_strict, caches_are_written_inside) {
    static const struct {
        const char *inputs, *mode, *why;
        int64_t axis, first;
    } cases[] = {{"x u first", "linear", "write_indices is 3 for sequence 0; it is 0 to 2", -2, 3},
                 {"x u first", "linear", "write_indices is -1 for sequence 0", -2, -1},
                 {"x u first", "square", "unsupported mode 'square'", -2, 0},
                 {"x u first", "linear", "axis 0 is the batch", 0, 0},
                 {"x u first", "linear", "axis 3 of a tensor with 3 dimensions", 3, 0},
                 {"x u first", "linear",
                  "update f32[1, 2, 3] does not fit past_cache f32[1, 4, 3] along axis 2", 2, 0},
                 {"u x first", "linear",
                  "update f32[1, 4, 3] does not fit past_cache f32[1, 2, 3] along axis 1", 1, 0},
                 {"x first", "linear", "update i64[1] does not fit", -2, 0},
                 {"x u pair", "linear",
                  "write_indices does not have one number for each of 1 sequences", -2, 0},
                 {"x u u", "linear", "write_indices does not have one number", -2, 0}};
    const int64_t x[] = {1, 4, 3}, u[] = {1, 2, 3}, pair[] = {0, 0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes n = node_of("TensorScatter", "n", cases[i].inputs, "y"), g = {0};
        put_zeros(&g, "x", 3, x);
        put_zeros(&g, "u", 3, u);
        put_ints(&g, "first", 1, &cases[i].first);
        put_ints(&g, "pair", 2, pair);
        add_int(&n, "axis", cases[i].axis);
        add_text(&n, "mode", cases[i].mode);
        refused(24, &g, n, cases[i].why);
    }
}

Test(onnx_strict, what_is_quantised_is_an_integer) {
    static const struct {
        const char *op, *inputs, *why;
    } cases[] = {
        {"DequantizeLinear", "x s", "input 0 is f32, a quantised one is an integer"},
        {"DequantizeLinear", "u s i", "input 2 is i64; a zero point of input 0 is u8 as well"},
        {"QLinearMatMul", "u s z x s z s z", "input 3 is f32, a quantised one is an integer"},
        {"QLinearConv", "image s z codes s z s z", "input 0 is f32, a quantised one is"},
        {"QLinearConv", "codes s z codes s i s z", "input 5 is i64; a zero point of input 3"},
        {"ConvInteger", "codes image", "input 1 is f32, a quantised one is an integer"},
        {"MatMulInteger", "u u i", "input 2 is i64; a zero point of input 0 is u8 as well"}};
    const int64_t square[] = {2, 2}, image[] = {1, 1, 2, 2}, zero = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes g = with_x();
        put_ints(&g, "i", 0, &zero);
        put_zeros(&g, "s", 0, NULL);
        put_zeros(&g, "image", 4, image);
        put_bytes(&g, "z", 0, NULL);
        put_bytes(&g, "u", 2, square);
        put_bytes(&g, "codes", 4, image);
        refused(13, &g, node_of(cases[i].op, "n", cases[i].inputs, "y"), cases[i].why);
    }
}

Test(onnx_strict, deformed_convolutions_have_one_type_and_one_kernel) {
    static const struct {
        const char *inputs, *why;
        int64_t kernel[2];
    } cases[] = {{"image w offset", "kernel_shape is not that of the weight", {2, 1}},
                 {"image w offset i", "input 3 is i64, x is f32", {1, 1}}};
    const int64_t image[] = {1, 1, 2, 2}, w[] = {1, 1, 1, 1}, offset[] = {1, 2, 2, 2}, zero = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes g = with_x(), n = node_of("DeformConv", "n", cases[i].inputs, "y");
        put_ints(&g, "i", 1, &zero);
        put_zeros(&g, "image", 4, image);
        put_zeros(&g, "w", 4, w);
        put_zeros(&g, "offset", 4, offset);
        add_ints(&n, "kernel_shape", 2, cases[i].kernel);
        refused(19, &g, n, cases[i].why);
    }
}

/* ---- com.microsoft ---- */

static bytes with_microsoft(void) {
    static const struct {
        const char *name;
        uint32_t rank;
        int64_t shape[5];
    } zeros[] = {
        {"x", 3, {2, 3, 8}},      {"k", 3, {2, 4, 8}},          {"v", 3, {2, 5, 8}},
        {"a", 4, {2, 2, 4, 4}},   {"p", 4, {2, 2, 1, 4}},       {"p3", 4, {2, 2, 1, 3}},
        {"k4", 3, {2, 3, 4}},     {"g", 4, {2, 1, 2, 4}},       {"w", 2, {8, 24}},
        {"w23", 2, {8, 23}},      {"w7", 2, {7, 24}},           {"row", 1, {8}},
        {"row24", 1, {24}},       {"past", 5, {2, 2, 2, 1, 4}}, {"past3", 5, {2, 2, 2, 1, 3}},
        {"cache", 2, {6, 2}},     {"cache3", 2, {6, 3}},        {"x34", 4, {1, 2, 3, 4}},
        {"big", 4, {3, 2, 3, 4}}, {"words", 2, {5, 8}},         {"words2", 2, {2, 8}},
        {"narrow", 2, {5, 7}},    {"more", 3, {4, 3, 8}},       {"cache2", 2, {2, 2}},
        {"one1", 1, {1}},         {"none", 4, {2, 2, 0, 4}}};
    static const struct {
        const char *name;
        uint32_t rank;
        int64_t shape[3];
    } codes[] = {{"z", 0, {0}},          {"u", 3, {2, 3, 8}},    {"u_w", 2, {8, 24}},
                 {"u_w7", 2, {7, 24}},   {"u_row", 1, {8}},      {"u_row24", 1, {24}},
                 {"u_words", 2, {2, 8}}, {"u_cache", 2, {6, 2}}, {"u_w3", 3, {1, 8, 8}},
                 {"u_r", 3, {1, 2, 8}}};
    const int64_t lengths[] = {3, 2, 1}, ids[] = {2, 3}, flat[] = {0, 1, 2, 0, 1, 2}, total = 3,
                  one = 1, five = 5, far[] = {4, 6}, low[] = {1, 4};
    bytes g = {0}, t = node_of("Reshape", "r", "flat shape", "ids");
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++)
        put_zeros(&g, zeros[i].name, zeros[i].rank, zeros[i].shape);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        put_bytes(&g, codes[i].name, codes[i].rank, codes[i].shape);
    put_zeros(&g, "s", 0, NULL);
    put_ints(&g, "three", 3, lengths);
    put_ints(&g, "two", 2, lengths);
    put_ints(&g, "total", 0, &total);
    put_ints(&g, "one", 0, &one);
    put_ints(&g, "five", 0, &five);
    put_ints(&g, "far", 2, far);
    put_ints(&g, "low", 2, low);
    put_ints(&g, "flat", 6, flat);
    put_ints(&g, "shape", 2, ids);
    put_message(&g, GRAPH_NODE, &t);
    return g;
}

Test(onnx_strict, microsofts_operators_tell_what_does_not_fit) {
    static const struct {
        const char *op, *inputs, *why, *name;
        int64_t value;
    } cases[] = {
        {"FusedMatMul", "row w", "input 0 has 1 dimensions", NULL, 0},
        {"FusedMatMul", "w w", "do not fit", NULL, 0},
        {"FusedMatMul", "w w", "transA is 2, not 0 or 1", "transA", 2},
        {"FusedMatMul", "w w", "transBatchB is 3, not 0 or 1", "transBatchB", 3},
        {"QLinearAdd", "u s z  s s z", "its input 3 is missing", NULL, 0},
        {"QLinearMul", "u_w s z u_w7 s z s", "f32[8, 24] and f32[7, 24] do not", NULL, 0},
        {"QLinearConcat", "s z u s", "it has 4 inputs", NULL, 0},
        {"QLinearConcat", "s z u s ", "it has 4 inputs", NULL, 0},
        {"QLinearConcat", "s z u row z", "axis 7 of a tensor with 3 dim", "axis", 7},
        {"QLinearSoftmax", "u s z row z", "axis 7 of a tensor with 3 dim", "axis", 7},
        {"QLinearConcat", "s z u s z", "its attribute axis is missing", NULL, 0},
        {"QLinearSoftmax", "u s z s z", "its attribute opset is missing", NULL, 0},
        {"QLinearSigmoid", "u s", "the scale of the result is missing", NULL, 0},
        {"QLinearSoftmax", "u s z", "the scale of the result is missing", "opset", 13},
        {"QLinearSigmoid", "u s z row row", "quantised values of type f32", NULL, 0},
        {"QLinearGlobalAveragePool", "u_row s z row z", "images of 1 dim", "channels_last", 1},
        {"QLinearSigmoid", "x s z s z", "input 0 is f32, a quantised one is an integer", NULL, 0},
        {"QLinearSigmoid", "u s one s z", "input 2 is i64; a zero point of input 0 is u8", NULL, 0},
        {"QLinearAdd", "u s z x s z s z", "input 3 is f32, a quantised one is", NULL, 0},
        {"MatMulIntegerToFloat", "u_cache words2 s s", "input 1 is f32, a quantised", NULL, 0},
        {"QGemm", "w s z u_w s z", "input 0 is f32, a quantised one is an integer", NULL, 0},
        {"NhwcMaxPool", "row", "images of 1 dimensions", NULL, 0},
        {"MatMulIntegerToFloat", "u_w u_w s s", "do not fit", NULL, 0},
        {"MatMulIntegerToFloat", "u_cache u_words s row24", "is f32[24] for 8 columns", NULL, 0},
        {"MatMulIntegerToFloat", "u_cache u_words s s  u_row24", "is u8[24] for 8 columns", NULL,
         0},
        {"DynamicQuantizeMatMul", "two w one", "x is i64", NULL, 0},
        {"DynamicQuantizeLSTM", "k u_w3 u_r      row24  row24", "input 8 is f32[24], no scale or",
         "hidden_size", 2},
        {"DynamicQuantizeLSTM", "k u_w3 u_r      s  row24", "input 8 is f32[], no scale or",
         "hidden_size", 2},
        {"DynamicQuantizeLSTM", "k u_w3 u_r      one1 u_row one1",
         "input 9 is u8[8], no scale or zero point of 1 directions with 8 columns", "hidden_size",
         2},
        {"DynamicQuantizeLSTM", "k u_w3 u_r      one1", "its input 10 is missing", "hidden_size",
         2},
        {"DynamicQuantizeLSTM", "k u_r u_r      one1  one1", "W or R does not fit x", "hidden_size",
         2},
        {"DynamicQuantizeLSTM", "k u_w3 k      one1  one1", "W or R does not fit x", "hidden_size",
         2},
        {"DynamicQuantizeLSTM", "two u_w3 u_r      one1  one1", "x is i64, not f32", "hidden_size",
         2},
        {"QGemm", "u s z u_w s z", "A or B is no matrix", NULL, 0},
        {"FusedGemm", "x w", "its operands are no matrices", NULL, 0},
        {"BiasGelu", "x row24", "the bias is f32[24] for f32[2, 3, 8]", NULL, 0},
        {"FastGelu", "x w", "the bias is f32[8, 24]", NULL, 0},
        {"SkipLayerNormalization", "a a row", "input 0 has 4 dimensions", NULL, 0},
        {"SkipLayerNormalization", "x x row24", "input 2 is f32[24] for rows of 8", NULL, 0},
        {"SkipLayerNormalization", "x x row row24", "input 3 is f32[24] for rows of 8", NULL, 0},
        {"SkipLayerNormalization", "x x row row row24", "input 4 is f32[24] for rows of 8", NULL,
         0},
        {"SkipSimplifiedLayerNormalization", "w words row24", "do not broadcast", NULL, 0},
        {"SkipSimplifiedLayerNormalization", "words more row", "do not broadcast", NULL, 0},
        {"EmbedLayerNormalization", "ids  words words  row", "its input 6 is missing", NULL, 0},
        {"EmbedLayerNormalization", "two  words words  row row", "input_ids has 1 dimensions", NULL,
         0},
        {"EmbedLayerNormalization", "ids ids words words  row row",
         "segment_ids and segment_embedding", NULL, 0},
        {"EmbedLayerNormalization", "ids  words narrow  row row",
         "position_embedding is f32[5, 7], no table of rows of 8", NULL, 0},
        {"QEmbedLayerNormalization", "ids  u_words words  u_row u_row  s s  s s",
         "position_embedding is f32[5, 8]", NULL, 0},
        {"QEmbedLayerNormalization", "ids  u_words u_words  u_row u_row  s s  s s",
         "3 steps, position_embedding has 2 rows", NULL, 0},
        {"QEmbedLayerNormalization", "ids  u_words u_words  u_row u_row  s",
         "position_embedding is u8[2, 8]", NULL, 0},
        {"QAttention", "u w row24 s s", "input 1 is f32, a quantised one is an integer",
         "num_heads", 2},
        {"QAttention", "u u_w7 row24 s s", "do not fit", "num_heads", 2},
        {"QAttention", "u u_w row s s", "bias is f32[8] for 24 columns", "num_heads", 2},
        {"QAttention", "u u_w row24 s row", "is f32[8] for 24 columns", "num_heads", 2},
        {"GatherBlockQuantized", "words ids row", "data is f32: it must be u8", "block_size", 16},
        {"GatherBlockQuantized", "u_w ids row", "scales is f32[8] for data u8[8, 24] in blocks",
         "block_size", 16},
        {"GatherBlockQuantized", "u_w ids row", "block_size is 24: it must be a power of two",
         "block_size", 24},
        {"GatherBlockQuantized", "u_w ids row", "unsupported bits 2", "bits", 2},
        {"CDist", "w words", "must be matrices of as many columns", NULL, 0},
        {"GroupQueryAttention", "x k4 k4   two total", "sliding_window_cache without past_key",
         "sliding_window_cache", 1},
        {"GroupQueryAttention", "x k4 k4 p p two five", "or several sequences",
         "sliding_window_cache", 1},
        {"EmbedLayerNormalization", "ids  words words2  row row",
         "3 steps, position_embedding has 2 rows", NULL, 0},
        {"EmbedLayerNormalization", "ids two words words words row row",
         "input 1 does not have a number for each", NULL, 0},
        {"EmbedLayerNormalization", "ids  words words  row24 row",
         "input 5 is f32[24] for rows of 8", NULL, 0},
        {"RotaryEmbedding", "w two cache cache", "input has 2 dimensions", NULL, 0},
        {"RotaryEmbedding", "x three cache cache", "position_ids are i64[3] for 2 sequences of 3",
         NULL, 0},
        {"RotaryEmbedding", "x ids cache cache3", "input 3 is f32[6, 3]", NULL, 0},
        {"RotaryEmbedding", "x ids cache cache2", "input 3 is f32[2, 2], input 2 is f32[6, 2]",
         NULL, 0},
        {"RotaryEmbedding", "x ids cache cache", "num_heads is 3 for 8 features", "num_heads", 3},
        {"RotaryEmbedding", "x ids cache cache",
         "the caches turn 4 features, rotary_embedding_dim is 0, heads have 8", "num_heads", 1},
        {"RotaryEmbedding", "x ids cache cache", "is_packed_batching", "is_packed_batching", 1},
        {"MultiHeadAttention", "x k k", "num_heads is 0", NULL, 0},
        {"MultiHeadAttention", "x k k", "num_heads is 3 for 8 features", "num_heads", 3},
        {"MultiHeadAttention", "x", "key or value is packed", "num_heads", 2},
        {"MultiHeadAttention", "x k v", "do not fit one another", "num_heads", 2},
        {"MultiHeadAttention", "x k a", "different numbers of dimensions", "num_heads", 2},
        {"MultiHeadAttention", "x a a row24", "a bias beside keys", "num_heads", 2},
        {"MultiHeadAttention", "x k k row", "bias has 8 numbers for 24 columns", "num_heads", 2},
        {"MultiHeadAttention", "x k k  three",
         "key_padding_mask is i64[3] for 2 sequences of 4 keys", "num_heads", 2},
        {"MultiHeadAttention", "x k k  x", "key_padding_mask is f32", "num_heads", 2},
        {"MultiHeadAttention", "x k k   x", "attention_bias is f32 with 3 dimensions", "num_heads",
         2},
        {"MultiHeadAttention", "x k k   big",
         "attention_bias f32[3, 2, 3, 4] does not fit scores [2, 2, 3, 4]", "num_heads", 2},
        {"MultiHeadAttention", "x k k    p", "past_key and past_value are given together",
         "num_heads", 2},
        {"MultiHeadAttention", "x k k    p3 p", "input 6 is f32[2, 2, 1, 3], what follows it",
         "num_heads", 2},
        {"MultiHeadAttention", "x k k    p p two", "past_sequence_length and cache_indirection",
         "num_heads", 2},
        {"MultiHeadAttention", "x two k", "input 1 is i64, query is f32", "num_heads", 2},
        {"MultiHeadAttention", "x k k", "unidirectional is 2, not 0 or 1", "unidirectional", 2},
        {"MultiHeadAttention", "x k k", "unidirectional for 3 queries and 4 keys of their own",
         "unidirectional", 1},
        {"GroupQueryAttention", "x k4 k4   two", "its input 6 is missing", NULL, 0},
        {"GroupQueryAttention", "x k4    two total", "one of key and value", NULL, 0},
        {"GroupQueryAttention", "x   p  two total", "one of key and value", NULL, 0},
        {"GroupQueryAttention", "x k k   two total", "key and value do not have 3 steps of 4", NULL,
         0},
        {"GroupQueryAttention", "x k4 k4   three total", "seqlens_k does not have one number", NULL,
         0},
        {"GroupQueryAttention", "x k4 k4   two two", "total_sequence_length has 2 numbers, not one",
         NULL, 0},
        {"GroupQueryAttention", "x k4 k4   two one",
         "total_sequence_length is 1, the new steps are 3", NULL, 0},
        {"GroupQueryAttention", "x k4 k4   two five", "of which 3 are new, and past_key is missing",
         NULL, 0},
        {"GroupQueryAttention", "x k4 k4 p p two five",
         "input 3 is f32[2, 2, 1, 4], what follows it", NULL, 0},
        {"GroupQueryAttention", "x k4 k4 g g far five", "index 5 of an extent of 5", NULL, 0},
        {"GroupQueryAttention", "x k4 k4 g g low five", "index -6 of an extent of 5", NULL, 0},
        {"GroupQueryAttention", "x k4 k4 x x two five", "input 3 is f32 with 3 dimensions", NULL,
         0},
        {"GroupQueryAttention", "x k4 two   two total", "input 2 is i64 with 1 dimensions", NULL,
         0},
        {"GroupQueryAttention", "k     two five", "query has 8 features for 5 heads", "num_heads",
         3},
        {"GroupQueryAttention", "x k4 k4   two total", "num_heads is 3, kv_num_heads 2",
         "kv_num_heads", 2},
        {"GroupQueryAttention", "x k4 k4   two total", "do_rotary without cos_cache", "do_rotary",
         1},
        {"GroupQueryAttention", "x k4 k4   two total cache3 cache3",
         "input 7 is f32[6, 3] for heads of 4", "do_rotary", 1},
        {"GroupQueryAttention", "x k4 k4   two total cache cache two",
         "position_ids are not one number", "do_rotary", 1},
        {"GroupQueryAttention", "x k4 k4   two total    x", "attention_bias is f32 with 3", NULL,
         0},
        {"GroupQueryAttention", "x k4 k4   two total    big",
         "attention_bias f32[3, 2, 3, 4] does not fit", NULL, 0},
        {"GroupQueryAttention", "x k4 k4   two total     row", "head_sink is f32[8] for 2 heads",
         NULL, 0},
        {"GroupQueryAttention", "x k4 k4   two total      row",
         "its input 12 (scales, norms or lengths)", NULL, 0},
        {"CausalConvWithState", "w w", "the input is f32[8, 24], 3 dimensions of floats", NULL, 0},
        {"CausalConvWithState", "x w", "the weight is f32[8, 24] for f32[2, 3, 8]", NULL, 0},
        {"CausalConvWithState", "x w", "ndim is 2, dhow has 1", "ndim", 2},
        {"CausalConvWithState", "x w", "state_window is 1, dhow has 0", "state_window", 1},
        {"LinearAttention", "x x x", "kv_num_heads", "q_num_heads", 2},
        {"GatedDeltaNet", "x", "update_rule gated_delta wants decay", NULL, 0},
        {"GatedDeltaNet", "a a a  words", "update_rule gated_delta wants beta", NULL, 0},
        {"GatedDeltaNet", "a a a  words words", "decay is f32[5, 8]", NULL, 0},
        {"GatedDeltaNet", "x x x  words words", "initial_state is missing, which says", NULL, 0},
        {"GatedDeltaNet", "none none none  none none", "0 heads of query and 0 of key", NULL, 0},
        {"GatedDeltaNet", "a a a two words words", "cu_seqlens and state updates", NULL, 0},
        {"LinearAttentionGate", "x row24 row", "dt_bias is f32[24]", NULL, 0},
        {"GatedRMSNorm", "x row24 x", "scale is f32[24]", NULL, 0},
        {"GatedRMSNorm", "x row k", "gate is f32[2, 4, 8]", NULL, 0},
        {"GatedAdd", "x k row", "Y is f32[2, 4, 8]", NULL, 0},
        {"GatedAdd", "x x row", "gate is f32[8]", NULL, 0},
        {"ScaledSiLU", "x row", "scale is f32[8]", NULL, 0},
        {"MRotaryEmbedding", "x ids cache cache", "mrope_section are not three numbers that come",
         NULL, 0},
        {"MoE", "row w g", "the input is f32[8]", NULL, 0},
        {"MoE", "x w past", "router_probs is f32[8, 24]", NULL, 0},
        {"QMoE", "x w u", "block_size is 24: it must be a power of two", "block_size", 24},
        {"QMoE", "x w u", "unsupported weights_prepacked", "weights_prepacked", 1},
        {"GroupQueryAttention", "x k4 k4   two total", "local_window_size is 0",
         "local_window_size", 0},
        {"GroupQueryAttention", "x k4 k4   two total", "smooth_softmax is 2", "smooth_softmax", 2},
        {"GroupQueryAttention", "x k4 k4   two total", "causal is 0", "causal", 0},
        {"GroupQueryAttention", "x k4 k4   two total", "qk_output is 1", "qk_output", 1},
        {"Attention", "x w", "num_heads is 0", NULL, 0},
        {"Attention", "x w", "num_heads is 3 for 8 features", "num_heads", 3},
        {"Attention", "x w7", "input f32[2, 3, 8] and weights f32[7, 24] do not fit", "num_heads",
         2},
        {"Attention", "x w23",
         "23 columns of weights are not 7 of queries, 7 of keys and 7 of values", "num_heads", 2},
        {"Attention", "x w row", "bias is f32[8] for 24 columns", "num_heads", 2},
        {"Attention", "x w  three", "mask_index is i64[3] for 2 sequences of 3 keys", "num_heads",
         2},
        {"Attention", "x w   past3", "past is f32[2, 2, 2, 1, 3], what follows it", "num_heads", 2},
        {"Attention", "x w    big", "attention_bias f32[3, 2, 3, 4] does not fit", "num_heads", 2},
        {"Attention", "x w     two", "a cache that past and present share", "num_heads", 2},
        {"Attention", "x w", "do_rotary", "do_rotary", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes n = node_of(cases[i].op, "n", cases[i].inputs, "y"), g = with_microsoft();
        put_text(&n, 7, "com.microsoft");
        if (cases[i].name != NULL) add_int(&n, cases[i].name, cases[i].value);
        const bool heads = cases[i].name != NULL && strcmp(cases[i].name, "num_heads") != 0 &&
                           strstr(cases[i].op, "Attention") != NULL;
        if (heads) add_int(&n, "num_heads", strstr(cases[i].why, "num_heads") == NULL ? 2 : 3);
        if (strcmp(cases[i].op, "GroupQueryAttention") == 0 &&
            (cases[i].name == NULL || strcmp(cases[i].name, "kv_num_heads") != 0))
            add_int(&n, "kv_num_heads", 1);
        if (strcmp(cases[i].op, "GroupQueryAttention") == 0 && cases[i].name == NULL)
            add_int(&n, "num_heads", 2);
        refused(17, &g, n, cases[i].why);
    }
}

Test(onnx_strict, blocks_have_a_scale_each) {
    static const struct {
        int64_t block, axis;
        const char *why;
    } cases[] = {{-1, 1, "block_size is -1"},
                 {1, 1, "a scale or zero point is f32[2, 2], blocks of 1 want f32[2, 3]"},
                 {INT64_MAX, 1, "a scale or zero point is f32[2, 2], blocks of"},
                 {2, 0, "a scale or zero point is f32[2, 2], blocks of 2 want f32[1, 3]"},
                 {2, 2, "axis 2 of a tensor with 2 dimensions"}};
    const int64_t square[] = {2, 2};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes g = with_x(), n = node_of("QuantizeLinear", "n", "x s", "y");
        put_zeros(&g, "s", 2, square);
        add_int(&n, "block_size", cases[i].block);
        add_int(&n, "axis", cases[i].axis);
        refused(21, &g, n, cases[i].why);
    }
}

Test(onnx_strict, what_is_unpooled_fits) {
    static const struct {
        const char *inputs, *why;
        int64_t kernel;
    } cases[] = {{"x4 i4", "kernel_shape holds 0", 0},
                 {"x4 x4", "it does not have one index of i64 for each element of x", 2},
                 {"x4 flat", "it does not have one index of i64 for each element of x", 2},
                 {"x i4", "[n, c] and one to three dimensions fit", 2},
                 {"x4 i4", "index 6 of an extent of 6", 2},
                 {"x4 i4 less", "output_shape is less than f32[1, 1, 4, 5]", 4},
                 {"x4 i4 shape", "output_shape is less than f32[1, 1, 4, 5]", 4}};
    const int64_t indices[] = {0, 1, 2, 6}, shape[] = {1, 1, 1, 2}, less[] = {1, 1, 4, 4, 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t kernel[] = {cases[i].kernel, cases[i].kernel};
        bytes g = with_x(), n = node_of("MaxUnpool", "n", cases[i].inputs, "y"), t;
        put_zeros(&g, "x4", 4, shape);
        put_ints(&g, "shape", 4, shape);
        put_ints(&g, "less", 4, less);
        put_ints(&g, "flat", 2, indices + 2);
        t = node_of("Reshape", "r", "flat shape", "i4");
        put_message(&g, GRAPH_NODE, &t);
        add_ints(&n, "kernel_shape", 2, kernel);
        refused(11, &g, n, cases[i].why);
    }
}

Test(onnx_strict, operators_of_opset_26_and_later_tell_what_does_not_fit) {
    static const struct {
        const char *op, *inputs, *name, *why;
        int64_t opset, value;
    } cases[] = {{"BitCast", "x", "to", "x is f32, which is not as wide as i64", 26, 7},
                 {"BitCast", "x", "to", "unsupported type int4", 26, 22},
                 {"Cast", "x", "to", "unsupported type float6e2m3", 28, 27},
                 {"CumProd", "x two", "reverse", "the axis has 2 numbers, not one", 26, 1},
                 {"SwiGLU", "x row", "axis", "A is f32[2, 3] and B is f32[3]: both", 28, 1},
                 {"LinearAttention", "x x x", "q_num_heads", "kv_num_heads", 27, 1},
                 {"CausalConvWithState", "x x", "axis", "the input is f32[2, 3], 3 dim", 27, 1},
                 {"SpaceToDepth", "x", "blocksize", "images [n, c, h, w]", 28, 2},
                 {"Mod", "x x", "fmod", "floats take 1 before opset 28", 27, 0}};
    const int64_t three = 3, places[] = {0, 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes g = with_x(), n = node_of(cases[i].op, "n", cases[i].inputs, "y");
        put_zeros(&g, "row", 1, &three);
        put_ints(&g, "two", 2, places);
        if (strcmp(cases[i].name, "axis") != 0) add_int(&n, cases[i].name, cases[i].value);
        refused(cases[i].opset, &g, n, cases[i].why);
    }
}
