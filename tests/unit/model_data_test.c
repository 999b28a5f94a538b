/* SPDX-License-Identifier: Apache-2.0
 *
 * Models that take or give more than tensors: texts, sequences, optional values; branches inside of
 * branches; and gradients, compared with differences.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "onnx_fixture.h"

TestSuite(model_data, .init = set_up, .fini = tear_down, .timeout = 60);

static void put_node(bytes *g, bytes node) { put_message(g, GRAPH_NODE, &node); }
static void put_float(bytes *g, int where, const char *name, uint32_t rank, const int64_t *shape) {
    bytes v = value_of(name, rank, shape);
    put_message(g, (uint32_t)where, &v);
}

/* A value whose type is texts, or a sequence of floats, or an optional one of those. */
static void put_typed(bytes *g, int where, const char *name, int element, int sequence,
                      int optional) {
    bytes v = {0}, type = {0}, tensor = {0};
    put_number(&tensor, 1, (uint64_t)element);
    put_message(&type, 1, &tensor);
    for (int i = 0; i < 2; i++) {
        bytes inner = {0}, outer = {0};
        if (!(i == 0 ? sequence : optional)) continue;
        put_message(&inner, 1, &type);
        put_message(&outer, i == 0 ? 4 : 9, &inner);
        type = outer;
    }
    put_text(&v, 1, name);
    put_message(&v, 2, &type);
    put_message(g, (uint32_t)where, &v);
}

static dhow_model *load(bytes *graph, int64_t opset) {
    static bytes file;
    dhow_model *model;
    bytes_free(&file);
    file = model_of(opset, graph);
    OK(load_bytes(&file, &model));
    return model;
}

static dhow_datum *vector_of(int64_t count, double value) {
    dhow_tensor *t;
    dhow_datum *d;
    OK(dhow_tensor_full(g_cpu, DHOW_F32, 1, &count, value, &t));
    OK(dhow_datum_of_tensor(t, &d));
    dhow_tensor_release(t);
    return d;
}

static float first_of(const dhow_datum *d) {
    dhow_tensor *t;
    void *data;
    OK(dhow_datum_tensor(d, &t));
    OK(dhow_tensor_host_ptr(t, &data));
    return *(float *)data;
}

/* ---- sequences ---- */

/* s = insert(x, -y); the sum of all */
static bytes sequence_graph(void) {
    bytes g = {0};
    put_node(&g, node_of("Neg", "minus", "y", "n"));
    put_node(&g, node_of("SequenceInsert", "more", "x n", "s"));
    bytes join = node_of("ConcatFromSequence", "join", "s", "all");
    add_int(&join, "axis", 0);
    put_node(&g, join);
    put_node(&g, node_of("ReduceSum", "total", "all", "t"));
    put_typed(&g, GRAPH_INPUT, "x", 1, 1, 0);
    put_typed(&g, GRAPH_INPUT, "y", 1, 0, 0);
    put_typed(&g, GRAPH_OUTPUT, "s", 1, 1, 0);
    put_typed(&g, GRAPH_OUTPUT, "t", 1, 0, 0);
    return g;
}

static dhow_datum *sequence_of(const int64_t *counts, uint32_t count) {
    dhow_datum *items[4], *out;
    for (uint32_t i = 0; i < count; i++) items[i] = vector_of(counts[i], i + 1);
    OK(dhow_datum_of_sequence(items, count, &out));
    for (uint32_t i = 0; i < count; i++) dhow_datum_release(items[i]);
    return out;
}

static void expect_total(dhow_model *model, const int64_t *counts, uint32_t count, float want) {
    dhow_datum *in[] = {sequence_of(counts, count), vector_of(3, 0.5)}, *out[2], *last;
    dhow_datum_info info = DHOW_INIT(dhow_datum_info);
    for (int again = 0; again < 2; again++) { /* the second run replays the plan */
        OK(dhow_model_run_data(model, NULL, in, 2, out, 2));
        OK(dhow_datum_get_info(out[0], &info));
        cr_assert_eq(info.kind, DHOW_DATUM_SEQUENCE);
        cr_assert_eq(info.count, count + 1);
        OK(dhow_datum_item(out[0], count, &last));
        cr_assert_float_eq(first_of(last), -0.5, 1e-6);
        cr_assert_float_eq(first_of(out[1]), want, 1e-5);
        dhow_datum_release(out[0]);
        dhow_datum_release(out[1]);
    }
    dhow_datum_release(in[0]);
    dhow_datum_release(in[1]);
}

Test(model_data, sequences_of_any_length_go_in_and_come_out) {
    bytes g = sequence_graph();
    dhow_model *model = load(&g, 13);
    dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
    OK(dhow_model_input_at(model, 0, &info));
    cr_assert_eq(info.kind, DHOW_DATUM_SEQUENCE);
    cr_assert_eq(info.dtype, DHOW_F32);
    OK(dhow_model_output_at(model, 0, &info));
    cr_assert_eq(info.kind, DHOW_DATUM_SEQUENCE);
    expect_total(model, (const int64_t[]){2, 1}, 2, 2 + 2 - 1.5f);
    expect_total(model, (const int64_t[]){1, 2}, 2, 1 + 4 - 1.5f);
    expect_total(model, (const int64_t[]){4}, 1, 4 - 1.5f);
    expect_total(model, NULL, 0, -1.5f);
    dhow_model_release(model);
}

Test(model_data, a_run_with_tensors_alone_is_refused_by_the_input_s_name) {
    bytes g = sequence_graph();
    dhow_model *model = load(&g, 13);
    dhow_datum *y = vector_of(3, 1), *pair[] = {y, y}, *none[2];
    dhow_tensor *t, *out[2] = {NULL};
    OK(dhow_datum_tensor(y, &t));
    dhow_tensor *in[] = {t, t};
    cr_assert_eq(dhow_model_run(model, NULL, in, 2, out, 2), DHOW_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(dhow_last_error(), "input 'x' is a sequence"), "%s",
                       dhow_last_error());
    cr_assert_not_null(strstr(dhow_last_error(), "dhow_model_run_data()"));
    cr_assert_eq(dhow_model_run_data(model, NULL, pair, 2, none, 2), DHOW_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(dhow_last_error(), "is a tensor, the model wants a sequence"), "%s",
                       dhow_last_error());
    cr_assert_null(none[0]);
    dhow_datum_release(y);
    dhow_model_release(model);
}

Test(model_data, a_sequence_where_a_tensor_belongs_is_refused_by_the_node_s_name) {
    bytes g = {0};
    put_node(&g, node_of("Neg", "wrong", "x", "y"));
    put_typed(&g, GRAPH_INPUT, "x", 1, 1, 0);
    put_typed(&g, GRAPH_OUTPUT, "y", 1, 0, 0);
    dhow_model *model = load(&g, 13);
    dhow_datum *in = sequence_of((const int64_t[]){2}, 1), *out;
    cr_assert_eq(dhow_model_run_data(model, NULL, &in, 1, &out, 1), DHOW_UNSUPPORTED);
    cr_assert_not_null(strstr(dhow_last_error(), "Neg (node 'wrong'"), "%s", dhow_last_error());
    cr_assert_not_null(strstr(dhow_last_error(), "input 0 is a sequence"));
    dhow_datum_release(in);
    dhow_model_release(model);
}

Test(model_data, an_optional_input_may_be_missing) {
    bytes g = {0};
    put_node(&g, node_of("OptionalHasElement", "has", "x", "y"));
    put_typed(&g, GRAPH_INPUT, "x", 1, 0, 1);
    put_typed(&g, GRAPH_OUTPUT, "y", 9, 0, 0);
    dhow_model *model = load(&g, 15);
    for (int there = 0; there < 2; there++) {
        dhow_datum *in = NULL, *out;
        dhow_tensor *t;
        void *data;
        if (there) in = vector_of(1, 1);
        if (!there) OK(dhow_datum_of_nothing(&in));
        OK(dhow_model_run_data(model, NULL, &in, 1, &out, 1));
        OK(dhow_datum_tensor(out, &t));
        OK(dhow_tensor_host_ptr(t, &data));
        cr_assert_eq(*(uint8_t *)data, there);
        dhow_datum_release(in);
        dhow_datum_release(out);
    }
    dhow_model_release(model);
}

/* ---- texts ---- */

static dhow_model *normalizer(const char *action) {
    bytes g = {0}, n = node_of("StringNormalizer", "words", "x", "y"), a = {0};
    add_text(&n, "case_change_action", action);
    put_text(&a, 1, "stopwords");
    put_text(&a, 9, "monday");
    put_text(&a, 9, "\xc3\xa4hm");
    put_message(&n, 5, &a);
    put_node(&g, n);
    put_typed(&g, GRAPH_INPUT, "x", 8, 0, 0);
    put_typed(&g, GRAPH_OUTPUT, "y", 8, 0, 0);
    return load(&g, 10);
}

static void expect_texts(dhow_model *model, const char *const *texts, int64_t count,
                         const char *const *want, int64_t want_count) {
    dhow_datum *in, *out;
    dhow_datum_info info = DHOW_INIT(dhow_datum_info);
    const char *text;
    OK(dhow_datum_of_texts(1, &count, texts, &in));
    OK(dhow_model_run_data(model, NULL, &in, 1, &out, 1));
    OK(dhow_datum_get_info(out, &info));
    cr_assert_eq(info.kind, DHOW_DATUM_TEXTS);
    cr_assert_eq(info.rank, 1);
    cr_assert_eq(info.count, want_count);
    for (int64_t i = 0; i < want_count; i++) {
        OK(dhow_datum_text(out, i, &text));
        cr_assert_str_eq(text, want[i]);
    }
    dhow_datum_release(in);
    dhow_datum_release(out);
}

Test(model_data, texts_lose_stop_words_and_change_their_case) {
    dhow_model *model = normalizer("UPPER");
    expect_texts(model,
                 (const char *const[]){"Monday", "tuesday", "\xc3\x84HM", "\xc3\xbc\xe2\x82\xac"},
                 4, (const char *const[]){"TUESDAY", "\xc3\x9c\xe2\x82\xac"}, 2);
    expect_texts(model, (const char *const[]){"MONDAY"}, 1, (const char *const[]){""}, 1);
    dhow_model_release(model);
    model = normalizer("LOWER");
    expect_texts(model, (const char *const[]){"A", "\xd0\x96"}, 2,
                 (const char *const[]){"a", "\xd0\xb6"}, 2);
    dhow_model_release(model);
}

Test(model_data, other_texts_of_one_shape_give_another_plan) {
    dhow_model *model = normalizer("NONE");
    const char *const first[] = {"one"}, *const second[] = {"two"};
    expect_texts(model, first, 1, first, 1);
    expect_texts(model, second, 1, second, 1);
    expect_texts(model, first, 1, first, 1);
    dhow_model_release(model);
}

Test(model_data, data_tell_what_they_are_not) {
    dhow_datum *d, *items[2], *out;
    dhow_tensor *t;
    const char *text;
    const int64_t one = 1;
    OK(dhow_datum_of_texts(1, &one, (const char *const[]){"a"}, &d));
    cr_assert_eq(dhow_datum_tensor(d, &t), DHOW_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(dhow_last_error(), "is an array of texts, not a tensor"));
    cr_assert_eq(dhow_datum_text(d, 1, &text), DHOW_OUT_OF_RANGE);
    cr_assert_eq(dhow_datum_item(d, 0, &out), DHOW_INVALID_ARGUMENT);
    items[0] = d;
    items[1] = vector_of(1, 1);
    cr_assert_eq(dhow_datum_of_sequence(items, 2, &out), DHOW_INVALID_ARGUMENT);
    cr_assert_null(out);
    cr_assert_eq(dhow_datum_of_texts(1, &one, (const char *const[]){NULL}, &out),
                 DHOW_INVALID_ARGUMENT);
    cr_assert_eq(dhow_datum_of_texts(9, &one, NULL, &out), DHOW_INVALID_ARGUMENT);
    dhow_datum_release(d);
    dhow_datum_release(items[1]);
}

/* ---- branches in branches ---- */

static void flag_of(bytes *g, const char *from, const char *sum, const char *flag) {
    bytes n = node_of("ReduceMax", sum, from, sum);
    add_int(&n, "keepdims", 0);
    put_node(g, n);
    n = node_of("Cast", flag, sum, flag);
    add_int(&n, "to", 9);
    put_node(g, n);
}

static bytes one_node(const char *op, const char *from, const char *to) {
    bytes g = {0};
    put_node(&g, node_of(op, "leaf", from, to));
    put_float(&g, GRAPH_OUTPUT, to, 1, (const int64_t[]){3});
    return g;
}

/* The inner condition is computed inside of the outer branch: planning stops in its middle, and
 * once went round for ever. */
Test(model_data, a_branch_stops_for_values_and_goes_on) {
    const int64_t three[] = {3};
    bytes g = {0}, outer = {0}, inner_then = one_node("Exp", "m", "r"),
          inner_else = one_node("Neg", "m", "s"), other = one_node("Neg", "x", "z");
    put_node(&outer, node_of("Relu", "half", "x", "m"));
    flag_of(&outer, "m", "q", "f");
    bytes n = node_of("If", "inner", "f", "w");
    add_graph(&n, "then_branch", &inner_then);
    add_graph(&n, "else_branch", &inner_else);
    put_node(&outer, n);
    put_float(&outer, GRAPH_OUTPUT, "w", 1, three);
    flag_of(&g, "x", "p", "c");
    n = node_of("If", "outer", "c", "y");
    add_graph(&n, "then_branch", &outer);
    add_graph(&n, "else_branch", &other);
    put_node(&g, n);
    put_float(&g, GRAPH_INPUT, "x", 1, three);
    put_float(&g, GRAPH_OUTPUT, "y", 1, three);
    dhow_model *model = load(&g, 13);
    const double given[] = {1, 0, -1, 2}, want[] = {exp(1), -0.0, -0.0, exp(2)};
    for (int i = 0; i < 4; i++) {
        dhow_datum *in = vector_of(3, given[i]), *out;
        OK(dhow_model_run_data(model, NULL, &in, 1, &out, 1));
        cr_assert_float_eq(first_of(out), want[i], 1e-4, "x = %g gives %g", given[i],
                           (double)first_of(out));
        dhow_datum_release(in);
        dhow_datum_release(out);
    }
    dhow_model_release(model);
}

/* ---- gradients ---- */

static void add_gradient(bytes *g, const char *xs, const char *y, const char *outputs) {
    bytes n = node_of("Gradient", "slope", xs, outputs), a = {0};
    put_text(&n, 7, "ai.onnx.preview.training");
    put_text(&a, 1, "xs");
    while (*xs != '\0') {
        char name[16];
        size_t length = strcspn(xs, " ");
        memcpy(name, xs, length);
        name[length] = '\0';
        put_text(&a, 9, name);
        xs += length + (xs[length] == ' ');
    }
    put_message(&n, 5, &a);
    add_text(&n, "y", y);
    put_node(g, n);
}

/* y = mean(sqrt(exp(relu(a b) / 2) + c^3 log(c))) - sum of transposed a; b broadcasts over c */
static bytes chain_graph(void) {
    bytes g = {0}, n;
    const int64_t a[] = {2, 3}, b[] = {3, 4}, c[] = {4};
    add_gradient(&g, "a b c", "y", "da db dc"); /* before what it needs: nodes are sorted */
    put_node(&g, node_of("MatMul", "product", "a b", "p"));
    put_node(&g, node_of("Relu", "relu", "p", "q"));
    put_node(&g, node_of("Div", "half", "q two", "h"));
    put_node(&g, node_of("Exp", "exp", "h", "e"));
    put_node(&g, node_of("Pow", "cube", "c three", "c3"));
    put_node(&g, node_of("Log", "log", "c", "l"));
    put_node(&g, node_of("Mul", "cl", "c3 l", "m"));
    put_node(&g, node_of("Add", "add", "e m", "s"));
    put_node(&g, node_of("Sqrt", "root", "s", "r"));
    n = node_of("ReduceMean", "mean", "r", "u");
    add_int(&n, "keepdims", 0);
    put_node(&g, n);
    put_node(&g, node_of("Transpose", "turn", "a", "t"));
    n = node_of("ReduceSum", "sum", "t", "v");
    add_int(&n, "keepdims", 0);
    put_node(&g, n);
    put_node(&g, node_of("Sub", "minus", "u v", "y"));
    put_float(&g, GRAPH_INPUT, "a", 2, a);
    put_float(&g, GRAPH_INPUT, "b", 2, b);
    put_float(&g, GRAPH_INPUT, "c", 1, c);
    const char *const names[] = {"y", "da", "db", "dc"};
    for (int i = 0; i < 4; i++) put_typed(&g, GRAPH_OUTPUT, names[i], 1, 0, 0);
    const float numbers[] = {2, 3};
    for (int i = 0; i < 2; i++) {
        bytes t = {0}, raw = {0};
        put_number(&t, 2, 1);
        put_text(&t, 8, i == 0 ? "two" : "three");
        put_raw(&raw, &numbers[i], sizeof(float));
        put_message(&t, 9, &raw);
        put_message(&g, GRAPH_INITIALIZER, &t);
    }
    return g;
}

static double run_chain(dhow_model *model, float *const *values, float *const *slopes) {
    static const int64_t shapes[][2] = {{2, 3}, {3, 4}, {4}};
    static const int32_t ranks[] = {2, 2, 1};
    dhow_tensor *in[3], *out[4] = {NULL};
    void *data;
    for (int i = 0; i < 3; i++)
        OK(dhow_tensor_from_data(g_cpu, DHOW_F32, ranks[i], shapes[i], values[i], &in[i]));
    OK(dhow_model_run(model, NULL, in, 3, out, 4));
    OK(dhow_tensor_host_ptr(out[0], &data));
    double y = *(float *)data;
    for (int i = 0; i < 3 && slopes != NULL; i++) {
        OK(dhow_tensor_host_ptr(out[i + 1], &data));
        memcpy(slopes[i], data, (size_t)dhow_tensor_count(in[i]) * sizeof(float));
    }
    for (int i = 0; i < 3; i++) dhow_tensor_release(in[i]);
    for (int i = 0; i < 4; i++) dhow_tensor_release(out[i]);
    return y;
}

Test(model_data, a_gradient_is_what_differences_say) {
    bytes g = chain_graph();
    dhow_model *model = load(&g, 12);
    float a[6], b[12], c[4], da[6], db[12], dc[4];
    float *const values[] = {a, b, c}, *const slopes[] = {da, db, dc};
    const int counts[] = {6, 12, 4};
    for (int i = 0; i < 12; i++) {
        b[i] = (0.3f + 0.1f * (float)(i % 5)) * (i % 4 == 3 ? -1.0f : 1.0f); /* no kink near */
        if (i < 6) a[i] = 0.2f + 0.25f * (float)i;
        if (i < 4) c[i] = 1.2f + 0.3f * (float)i;
    }
    (void)run_chain(model, values, slopes);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < counts[k]; i++) {
            const float kept = values[k][i], step = 1e-2f;
            values[k][i] = kept + step;
            double up = run_chain(model, values, NULL);
            values[k][i] = kept - step;
            double down = run_chain(model, values, NULL);
            values[k][i] = kept;
            cr_assert_float_eq(slopes[k][i], (up - down) / (2 * (double)step), 5e-3,
                               "input %d, element %d: %g and %g", k, i, (double)slopes[k][i],
                               (up - down) / (2 * (double)step));
        }
    }
    dhow_model_release(model);
}

/* Of x = 1 the sum's derivative is what Dropout made. */
Test(model_data, a_gradient_drops_what_dropout_dropped) {
    static const float ratio = 0.25f;
    static const uint8_t yes = 1;
    const int64_t size[] = {1000};
    bytes g = {0}, n = node_of("ReduceSum", "sum", "a", "y");
    for (int i = 0; i < 2; i++) {
        bytes t = {0}, raw = {0};
        put_number(&t, 2, i == 0 ? 1 : 9); /* f32, bool */
        put_text(&t, 8, i == 0 ? "ratio" : "training");
        put_raw(&raw, i == 0 ? (const void *)&ratio : &yes, i == 0 ? sizeof ratio : sizeof yes);
        put_message(&t, 9, &raw);
        put_message(&g, GRAPH_INITIALIZER, &t);
    }
    add_int(&n, "keepdims", 0);
    put_node(&g, node_of("Dropout", "drop", "x ratio training", "a"));
    put_node(&g, n);
    add_gradient(&g, "x", "y", "d");
    put_float(&g, GRAPH_INPUT, "x", 1, size);
    put_float(&g, GRAPH_OUTPUT, "a", 1, size);
    put_float(&g, GRAPH_OUTPUT, "d", 1, size);
    dhow_model *model = load(&g, 22);
    dhow_tensor *in, *out[2] = {NULL};
    void *data[2];
    int zeros = 0;
    OK(dhow_tensor_full(g_cpu, DHOW_F32, 1, size, 1, &in));
    OK(dhow_model_run(model, NULL, &in, 1, out, 2));
    for (int i = 0; i < 2; i++) OK(dhow_tensor_host_ptr(out[i], &data[i]));
    cr_assert_arr_eq(data[0], data[1], 1000 * sizeof(float));
    for (int i = 0; i < 1000; i++) zeros += ((const float *)data[0])[i] == 0;
    cr_assert(zeros > 200 && zeros < 300, "%d", zeros);
    for (int i = 0; i < 2; i++) dhow_tensor_release(out[i]);
    dhow_tensor_release(in);
    dhow_model_release(model);
}

Test(model_data, an_operator_without_a_derivative_is_named) {
    bytes g = {0};
    const int64_t three[] = {3};
    put_node(&g, node_of("Unique", "bell", "x", "y"));
    add_gradient(&g, "x", "y", "d");
    put_float(&g, GRAPH_INPUT, "x", 1, three);
    put_float(&g, GRAPH_OUTPUT, "d", 1, three);
    dhow_model *model = load(&g, 13);
    dhow_datum *in = vector_of(3, 1), *out;
    cr_assert_eq(dhow_model_run_data(model, NULL, &in, 1, &out, 1), DHOW_UNSUPPORTED);
    dhow_datum_release(in);
    cr_assert_not_null(strstr(dhow_last_error(), "no derivative of Unique (node 'bell'"), "%s",
                       dhow_last_error());
    dhow_model_release(model);
}

Test(model_data, a_gradient_by_what_does_not_matter_is_zero) {
    bytes g = {0};
    const int64_t three[] = {3};
    put_node(&g, node_of("Neg", "minus", "x", "y"));
    add_gradient(&g, "x z", "y", "dx dz");
    put_float(&g, GRAPH_INPUT, "x", 1, three);
    put_float(&g, GRAPH_INPUT, "z", 1, three);
    put_float(&g, GRAPH_OUTPUT, "dx", 1, three);
    put_float(&g, GRAPH_OUTPUT, "dz", 1, three);
    dhow_model *model = load(&g, 13);
    dhow_datum *in[] = {vector_of(3, 1), vector_of(3, 1)}, *out[2];
    OK(dhow_model_run_data(model, NULL, in, 2, out, 2));
    cr_assert_float_eq(first_of(out[0]), -1, 1e-6);
    cr_assert_float_eq(first_of(out[1]), 0, 1e-6);
    for (int i = 0; i < 2; i++) {
        dhow_datum_release(in[i]);
        dhow_datum_release(out[i]);
    }
    dhow_model_release(model);
}

/* The batch's own mean follows each of its elements, so the sum of all never changes. */
Test(model_data, a_gradient_through_a_batch_norm_in_training_mode_is_by_its_batch) {
    bytes g = {0}, w = floats_of("w", 1, 0), flat = node_of("Flatten", "flat", "x", "f"),
          norm = node_of("BatchNormalization", "norm", "f w w w w", "n"),
          sum = node_of("ReduceSum", "sum", "n", "y");
    const int64_t three[] = {3};
    add_int(&flat, "axis", 1);
    add_int(&norm, "training_mode", 1);
    add_int(&sum, "keepdims", 0);
    put_message(&g, GRAPH_INITIALIZER, &w);
    put_node(&g, flat);
    put_node(&g, norm);
    put_node(&g, sum);
    add_gradient(&g, "x", "y", "dx");
    put_float(&g, GRAPH_INPUT, "x", 1, three);
    put_float(&g, GRAPH_OUTPUT, "dx", 1, three);
    dhow_model *model = load(&g, 15);
    dhow_datum *in = vector_of(3, 1), *out;
    OK(dhow_model_run_data(model, NULL, &in, 1, &out, 1));
    cr_assert_float_eq(first_of(out), 0, 1e-6);
    dhow_datum_release(in);
    dhow_datum_release(out);
    dhow_model_release(model);
}

/* ---- memory ---- */

static int64_t g_allocations_left;
static bool fail_after(size_t size) {
    (void)size;
    return g_allocations_left-- > 0;
}

static bool run_short(bytes *file, int64_t allocations) {
    dhow_model *model = NULL;
    dhow_datum *out[2], *in[] = {sequence_of((const int64_t[]){2, 1}, 2), vector_of(3, 1)};
    g_allocations_left = allocations;
    dhowi_alloc_set_hook(fail_after);
    dhow_status status = dhow_model_load_memory(g_context, file->data, file->length, &model);
    if (status == DHOW_OK) status = dhow_model_run_data(model, NULL, in, 2, out, 2);
    dhowi_alloc_set_hook(NULL);
    cr_assert(status == DHOW_OK || status == DHOW_OUT_OF_MEMORY, "%s", dhow_last_error());
    for (int i = 0; i < 2; i++) {
        if (status == DHOW_OK) dhow_datum_release(out[i]);
        dhow_datum_release(in[i]);
    }
    dhow_model_release(model);
    return status == DHOW_OK;
}

Test(model_data, every_allocation_may_fail_and_nothing_is_lost) {
    bytes g = sequence_graph(), file = model_of(13, &g);
    cr_assert(run_short(&file, INT32_MAX)); /* fills caches */
    int64_t live = dhowi_alloc_live(), n = 0;
    while (!run_short(&file, n)) n++;
    cr_assert_gt(n, 20);
    cr_assert_leq(dhowi_alloc_live(), live + 4, "%d blocks are lost",
                  (int)(dhowi_alloc_live() - live));
    bytes_free(&file);
}
