/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX files written in memory that are trained: nodes that are only there for training, and those
 * whose derivative is another node's.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "onnx_fixture.h"
#include "onnx_text.h"

TestSuite(onnx_train, .init = set_up, .fini = tear_down, .timeout = 120);

/* A model of one input x and one output y of the same rank, and what trains it. */
typedef struct trained {
    bytes file;
    dhow_model *model;
    dhow_trainer *trainer;
    dhow_tensor *x;
} trained;

static trained trained_of(int opset, bytes *graph, int32_t rank, const int64_t *shape,
                          const int64_t *y_shape, const float *values,
                          const dhow_trainer_options *options) {
    trained t = {0};
    bytes v = value_of("x", (uint32_t)rank, shape);
    put_message(graph, GRAPH_INPUT, &v);
    v = value_of("y", (uint32_t)rank, y_shape);
    put_message(graph, GRAPH_OUTPUT, &v);
    t.file = model_of(opset, graph);
    OK(load_bytes(&t.file, &t.model));
    OK(dhow_tensor_from_data(dhow_model_device(t.model), DHOW_F32, rank, shape, values, &t.x));
    OK(dhow_trainer_create(t.model, options, &t.trainer));
    return t;
}

static void free_trained(trained *t) {
    dhow_tensor_release(t->x);
    dhow_trainer_release(t->trainer);
    dhow_model_release(t->model);
    bytes_free(&t->file);
}

enum { DROPPED = 4000 };

/* y = sum(dropout(dropout(x w))), x being threes. */
static trained dropping(int opset, bytes *drop) {
    static float threes[DROPPED];
    static const int64_t shape[] = {DROPPED}, one[] = {1};
    bytes g = {0}, t = node_of("Mul", "scale", "x w", "a");
    put_message(&g, GRAPH_NODE, &t);
    put_message(&g, GRAPH_NODE, drop);
    t = node_of("Dropout", "plain", "b", "c");
    put_message(&g, GRAPH_NODE, &t);
    t = node_of("ReduceSum", "sum", "c", "y");
    put_message(&g, GRAPH_NODE, &t);
    t = floats_of("w", DROPPED, 0);
    put_message(&g, GRAPH_INITIALIZER, &t);
    t = floats_of("r", 1, 0); /* 0.1 */
    put_message(&g, GRAPH_INITIALIZER, &t);
    for (int i = 0; i < DROPPED; i++) threes[i] = 3;
    return trained_of(opset, &g, 1, shape, one, threes,
                      &DHOW_INIT(dhow_trainer_options, .trainable = "w"));
}

/* Elements grow by what they are kept with, and as many as that are left. */
Test(onnx_train, dropouts_drop) {
    static float slopes[2][DROPPED];
    for (int k = 0; k < 2; k++) {
        const double ratio = k == 0 ? 0.1 : 0.75; /* an input, an attribute */
        bytes drop = node_of("Dropout", "drop", k == 0 ? "a r" : "a", "b");
        if (k == 1) add_float(&drop, "ratio", 0.75f);
        trained m = dropping(k == 0 ? 13 : 10, &drop);
        dhow_tensor *slope;
        int kept = 0;
        OK(dhow_trainer_parameter_at(m.trainer, 0, NULL, NULL, &slope));
        for (int step = 0; step < 2; step++) {
            OK(dhow_trainer_zero_gradients(m.trainer));
            OK(dhow_trainer_backward(m.trainer, NULL, &m.x, 1, NULL, NULL));
            OK(dhow_tensor_read(slope, slopes[step], sizeof slopes[step]));
        }
        for (int i = 0; i < DROPPED; i++) {
            const double is = (double)slopes[0][i], whole = 3 / (1 - ratio) * 2;
            cr_assert(is == 0 || fabs(is - whole) < 1e-5 * whole, "%g, not %g", is, whole);
            kept += is != 0;
        }
        cr_expect_float_eq((double)kept / DROPPED, (1 - ratio) / 2, 0.03, "%d", kept);
        cr_expect_neq(memcmp(slopes[0], slopes[1], sizeof slopes[0]), 0, "the same mask again");
        dhow_tensor_release(slope);
        free_trained(&m);
    }
}

static double parameter_of(const dhow_model *m, const char *name) {
    dhow_model_parameter_info info = DHOW_INIT(dhow_model_parameter_info);
    float found = 0;
    for (uint32_t i = 0; i < dhow_model_parameter_count(m); i++) {
        cr_assert_eq(dhow_model_parameter_at(m, i, &info), DHOW_OK);
        if (strcmp(info.name, name) == 0)
            cr_assert_eq(dhow_tensor_read(info.tensor, &found, sizeof found), DHOW_OK);
    }
    return (double)found;
}

/* One channel of 1, 2, 3, 6: mean 3, variance 3.5, unbiased 14/3. The momentum of a file is what
 * the running statistics keep, 0.75 here; that of the options is what the batch counts. */
Test(onnx_train, batch_norms_are_trained_with_their_momentum) {
    static const float values[] = {1, 2, 3, 6};
    static const char *const names[] = {"s", "b", "m", "v"};
    static const double options[] = {0, 0.5};
    static const int64_t shape[] = {4, 1};
    for (int i = 0; i < 2; i++) {
        const double counts = i == 0 ? 0.25 : options[i];
        bytes g = {0}, t = node_of("BatchNormalization", "norm", "x s b m v", "y");
        add_float(&t, "momentum", 0.75f);
        put_message(&g, GRAPH_NODE, &t);
        for (int k = 0; k < 4; k++) {
            t = floats_of(names[k], 1, 0);
            put_message(&g, GRAPH_INITIALIZER, &t);
        }
        trained m = trained_of(13, &g, 2, shape, shape, values,
                               &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE,
                                          .batchnorm_momentum = options[i]));
        cr_assert_eq(dhow_trainer_parameter_count(m.trainer), 2);
        OK(dhow_trainer_backward(m.trainer, NULL, &m.x, 1, m.x, NULL));
        OK(dhow_trainer_update_model(m.trainer));
        cr_expect_float_eq(parameter_of(m.model, "m"), 0.1 * (1 - counts) + 3 * counts, 1e-6);
        cr_expect_float_eq(parameter_of(m.model, "v"), 0.1 * (1 - counts) + 14 * counts / 3, 1e-6);
        free_trained(&m);
    }
}

/* What a norm of x[2, 3, 4] gives its scale, its bias and x, which is scaled by w before. */
static void slopes_of_norm(bytes *node, float slopes[10]) {
    static const char *const names[] = {"w", "s", "b"};
    static const int64_t shape[] = {2, 3, 4};
    bytes g = {0}, t = node_of("Mul", "scale", "x w", "a");
    float values[24];
    dhow_tensor *slope;
    for (int i = 0; i < 24; i++) values[i] = (float)(i * 7 % 24) / 8;
    put_message(&g, GRAPH_NODE, &t);
    put_message(&g, GRAPH_NODE, node);
    for (int k = 0; k < 3; k++) {
        t = floats_of(names[k], k == 0 ? 4 : 3, 0);
        put_message(&g, GRAPH_INITIALIZER, &t);
    }
    trained m = trained_of(21, &g, 3, shape, shape, values,
                           &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE));
    OK(dhow_trainer_backward(m.trainer, NULL, &m.x, 1, m.x, NULL));
    for (uint32_t k = 0; k < 3; k++) {
        OK(dhow_trainer_parameter_at(m.trainer, k, NULL, NULL, &slope));
        const size_t count = (size_t)dhow_tensor_count(slope);
        OK(dhow_tensor_read(slope, slopes, count * sizeof *slopes));
        dhow_tensor_release(slope);
        slopes += count;
    }
    free_trained(&m);
}

/* An instance norm is a group norm of as many groups as channels, whose derivative is compared with
 * differences in train_layers_test.c. */
Test(onnx_train, an_instance_norm_has_the_derivative_of_a_group_norm) {
    float one[10], other[10];
    bytes node = node_of("InstanceNormalization", "norm", "a s b", "y");
    slopes_of_norm(&node, one);
    node = node_of("GroupNormalization", "norm", "a s b", "y");
    add_int(&node, "num_groups", 3);
    slopes_of_norm(&node, other);
    for (int i = 0; i < 10; i++) {
        cr_expect(fabsf(one[i]) > 1e-6f, "%d: %g", i, (double)one[i]);
        cr_expect_float_eq(one[i], other[i], 1e-6f, "%d: %g, %g", i, (double)one[i],
                           (double)other[i]);
    }
}

/* ---- what no derivative goes by ---- */

/* Trains what the nodes make of a[4] = x w, summed up; both are double. */
static dhow_status trainer_of(const char *nodes, bytes *file, dhow_model **model,
                              dhow_trainer **trainer) {
    char text[768];
    (void)snprintf(text, sizeof text,
                   "double x 4; doubles w 4; result y 1; node Mul m x w -> a; %s; "
                   "node Flatten f b -> c axis=0; node ReduceSum s c k -> d; ints k 1; ints o 1; "
                   "node Reshape t d o -> y",
                   nodes);
    bytes graph = graph_of_text(text);
    *file = model_of(23, &graph);
    OK(load_bytes(file, model));
    return dhow_trainer_create(*model, NULL, trainer);
}

/* Their derivative was 0, and AdamW shrank them. */
Test(onnx_train, constants_of_nodes_are_not_trained) {
    static const char *const cases[] = {
        "doubles lo; doubles hi; node Clip n a lo hi -> b",
        "doubles lo; node Identity i lo -> l; node Clip n a l -> b",
        "doubles v; ints p 0 1; node Pad n a p v -> b",
        "doubles like 1; node CastLike n a like -> b",
        "doubles q 1; node Greater g x q -> z; node Where n z a x -> b",
        "doubles q 1; node Floor g q -> z; node Add n a z -> b",
        "doubles v 2; ints i 2; number e 4; node OneHot h i e v -> z; node Mul n a z -> b",
        "doubles q 2; ints h 2 2; ints g 0 1; node Reshape r a h -> z; "
        "node SoftmaxCrossEntropyLoss n z g q -> b",
        "doubles q 2; ints h 2 2; ints g 0 1; node Reshape r a h -> z; "
        "node NegativeLogLikelihoodLoss n z g q -> b",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes file;
        dhow_model *model;
        dhow_trainer *trainer;
        const char *name = NULL;
        cr_assert_eq(trainer_of(cases[i], &file, &model, &trainer), DHOW_OK, "%s: %s", cases[i],
                     dhow_last_error());
        cr_expect_eq(dhow_trainer_parameter_count(trainer), 1, "%s: %u", cases[i],
                     dhow_trainer_parameter_count(trainer));
        OK(dhow_trainer_parameter_at(trainer, 0, &name, NULL, NULL));
        cr_expect_str_eq(name, "w", "%s: %s", cases[i], name);
        dhow_trainer_release(trainer);
        dhow_model_release(model);
        bytes_free(&file);
    }
}

Test(onnx_train, constants_that_depend_on_what_is_trained_are_refused) {
    static const struct {
        const char *nodes, *input;
    } cases[] = {
        {"doubles v; node Mul u a v -> q; node Clip n q v -> b", "1, 'v'"},
        {"ints k2 0; node ReduceMax g a k2 -> q keepdims=0; node Clip n a - q -> b", "2, 'q'"},
        {"doubles v; node Mul u a v -> q; ints p 0 1; node Pad n q p v -> b", "2, 'v'"},
        {"ints h 2 2; ints g 0 1; node Reshape r a h -> z; ints i 0 1; node Gather j a i -> q; "
         "node NegativeLogLikelihoodLoss n z g q -> b",
         "2, 'q'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes file;
        dhow_model *model;
        dhow_trainer *trainer;
        dhow_status status = trainer_of(cases[i].nodes, &file, &model, &trainer);
        cr_expect_eq(status, DHOW_UNSUPPORTED, "%s: %s: %s", cases[i].nodes,
                     dhow_status_name(status), dhow_last_error());
        cr_expect_not_null(strstr(dhow_last_error(), "(node 'n'"), "%s", dhow_last_error());
        cr_expect_not_null(strstr(dhow_last_error(), cases[i].input), "%s", dhow_last_error());
        dhow_trainer_release(trainer);
        dhow_model_release(model);
        bytes_free(&file);
    }
}

/* ---- branches ---- */

/* y = sum(a w), a being what the nodes make of x; `c` is whether its largest element is not 0. */
static dhow_status branching(const char *nodes, const dhow_trainer_options *options, bytes *file,
                             dhow_model **model, dhow_trainer **trainer) {
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "double x 4; doubles w 4; result y; node ReduceMax r x -> p keepdims=0; "
                   "node Cast c p -> c to=9; %s; node Mul m a w -> b; ints k 0; "
                   "node ReduceSum s b k -> y keepdims=0",
                   nodes);
    bytes graph = graph_of_text(text);
    *file = model_of(23, &graph);
    OK(load_bytes(file, model));
    return dhow_trainer_create(*model, options, trainer);
}

#define EITHER(then, otherwise) \
    "node If i c -> a then_branch={" then "; output v} else_branch={" otherwise "; output v}"

/* The derivative by w is a, whichever branch is taken. */
static void check_both_ways(const char *nodes, uint32_t segments) {
    static const int64_t four[] = {4};
    static const double x[2][4] = {{1, 2, 3, 4}, {0, 0, 0, 0}},
                        wanted[2][4] = {{-1, -2, -3, -4}, {1, 1, 1, 1}};
    bytes file;
    dhow_model *model;
    dhow_trainer *trainer;
    dhow_tensor *in, *slope;
    double is[4];
    const dhow_trainer_options options =
        DHOW_INIT(dhow_trainer_options, .trainable = "w", .checkpoint_segments = segments);
    const dhow_status status = branching(nodes, &options, &file, &model, &trainer);
    cr_assert_eq(status, DHOW_OK, "%s: %s", nodes, dhow_last_error());
    OK(dhow_trainer_parameter_at(trainer, 0, NULL, NULL, &slope));
    for (int turn = 0; turn < 4; turn++) {
        OK(dhow_tensor_from_data(g_cpu, DHOW_F64, 1, four, x[turn % 2], &in));
        OK(dhow_trainer_zero_gradients(trainer));
        OK(dhow_trainer_backward(trainer, NULL, &in, 1, NULL, NULL));
        OK(dhow_tensor_read(slope, is, sizeof is));
        for (int k = 0; k < 4; k++)
            cr_expect_eq(is[k], wanted[turn % 2][k], "%s, turn %d: %g", nodes, turn, is[k]);
        OK(dhow_trainer_update(trainer, NULL));
        dhow_tensor_release(in);
    }
    dhow_tensor_release(slope);
    dhow_trainer_release(trainer);
    dhow_model_release(model);
    bytes_free(&file);
}

/* It was refused, as if whatever has branches depended on what is trained. */
Test(onnx_train, branches_before_what_is_trained_have_no_part_in_it) {
    static const char *const cases[] = {
        EITHER("node Neg n x -> v", "node Exp e x -> v"),
        EITHER("node If j c -> v then_branch={node Neg n x -> u; output u} "
               "else_branch={node Identity z x -> u; output u}",
               "node Exp e x -> v"),
        "doubles f 4; node Sub o f f -> o; " EITHER("node Sub n o x -> v", "node Exp e x -> v"),
        "ints s 1; node Loop l s - x -> a body={node Neg n g -> v; node If j c -> u "
        "then_branch={node Identity z v -> t; output t} "
        "else_branch={node Exp e g -> t; output t}; "
        "node Identity q h -> d; input i; input h; input g; output d; output u}",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_both_ways(cases[i], 0);
        check_both_ways(cases[i], 3);
    }
}

Test(onnx_train, branches_that_read_what_is_trained_are_refused) {
    static const struct {
        const char *nodes, *trainable, *says;
    } cases[] = {
        {EITHER("node Mul n x w -> v", "node Exp e x -> v"), NULL, "derivative of If (node 'i'"},
        {EITHER("node Neg n x -> v", "node Mul e x w -> v"), NULL, "derivative of If (node 'i'"},
        {"node If i c -> a then_branch={node Neg n x -> v; output v} else_branch={output w}", NULL,
         "derivative of If (node 'i'"},
        {EITHER("node If j c -> v then_branch={node Mul n x w -> u; output u} "
                "else_branch={node Neg z x -> u; output u}",
                "node Exp e x -> v"),
         NULL, "derivative of If (node 'i'"},
        {"node Exp t w -> g; " EITHER("node Mul n x g -> v", "node Exp e x -> v"), NULL,
         "derivative of If (node 'i'"},
        {"ints s 1; node Loop l s - x -> a body={node Mul n g w -> u; node Identity q h -> d; "
         "input i; input h; input g; output d; output u}",
         NULL, "derivative of Loop (node 'l'"},
        /* a bound of Clip is not trained, but what a branch reads as well is */
        {"doubles f; node Clip t x f -> g; " EITHER("node Mul n g f -> v", "node Exp e x -> v"),
         NULL, "derivative of If (node 'i'"},
        {EITHER("node Dropout n x -> v", "node Exp e x -> v"), "w", "Dropout (node 'n'"},
        {"node If h c -> g then_branch={node Dropout n x -> v; output v} "
         "else_branch={node Exp e x -> v; output v}; " EITHER("node Neg j g -> v",
                                                              "node Exp l x -> v"),
         "w", "export the model without it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes file;
        dhow_model *model;
        dhow_trainer *trainer;
        const dhow_status status = branching(
            cases[i].nodes, &DHOW_INIT(dhow_trainer_options, .trainable = cases[i].trainable),
            &file, &model, &trainer);
        cr_expect_eq(status, DHOW_UNSUPPORTED, "%s: %s: %s", cases[i].nodes,
                     dhow_status_name(status), dhow_last_error());
        cr_expect_not_null(strstr(dhow_last_error(), cases[i].says), "%s: %s", cases[i].nodes,
                           dhow_last_error());
        dhow_trainer_release(trainer);
        dhow_model_release(model);
        bytes_free(&file);
    }
}

/* Their running statistics would stand still in silence. */
Test(onnx_train, a_batch_norm_inside_a_branch_is_to_be_frozen) {
    static const char nodes[] =
        "doubles f 1; doubles z 1; doubles u 1; node Mul q u u -> s; ints h 4 1; ints l 4; "
        "node Reshape o x h -> g; " EITHER(
            "node BatchNormalization n g f z u s -> t; node Reshape d t l -> v",
            "node Exp e x -> v");
    for (int frozen = 0; frozen < 2; frozen++) {
        bytes file;
        dhow_model *model;
        dhow_trainer *trainer;
        const dhow_status status = branching(
            nodes, &DHOW_INIT(dhow_trainer_options, .trainable = "w", .freeze_batchnorm = frozen),
            &file, &model, &trainer);
        cr_expect_eq(status, frozen ? DHOW_OK : DHOW_UNSUPPORTED, "%s", dhow_last_error());
        if (!frozen)
            cr_expect_not_null(strstr(dhow_last_error(), "set freeze_batchnorm"), "%s",
                               dhow_last_error());
        dhow_trainer_release(trainer);
        dhow_model_release(model);
        bytes_free(&file);
    }
}

/* ---- what is no loss ---- */

/* An output of ONNX's type `dtype`, whose shape the file does not tell or one number. */
static bytes output_of(int64_t dtype, bool shapeless) {
    bytes v = {0}, type = {0}, tensor = {0};
    if (!shapeless) return typed_value_of("y", dtype, 0, NULL);
    put_number(&tensor, 1, (uint64_t)dtype);
    put_message(&type, 1, &tensor);
    put_text(&v, 1, "y");
    put_message(&v, 2, &type);
    return v;
}

/* The scale, or the share of a device, was to be multiplied with it before it was looked at. */
Test(onnx_train, an_output_that_is_no_loss_is_told_with_a_scale_and_several_devices) {
    static const struct {
        int64_t dtype;
        const char *says;
    } cases[] = {{10, "the loss is f16[]; it is one number of type f64"},
                 {11, "the loss is f64[?]; it is one number of type f64"}};
    for (int i = 0; i < 2; i++) {
        char text[256];
        dhow_model *model;
        (void)snprintf(text, sizeof text,
                       "double x 4; doubles w 4; node Mul m x w -> a; ints k 0; "
                       "node ReduceSum s a k -> b keepdims=0; node Cast c b -> y to=%d",
                       (int)cases[i].dtype);
        bytes graph = graph_of_text(text), y = output_of(cases[i].dtype, i == 1);
        put_message(&graph, GRAPH_OUTPUT, &y);
        bytes file = model_of(23, &graph);
        OK(load_bytes(&file, &model));
        for (int way = 0; way < 3; way++) {
            dhow_device *const twice[] = {g_cpu, g_cpu};
            dhow_trainer *trainer;
            const dhow_trainer_options options =
                DHOW_INIT(dhow_trainer_options, .loss_scale = way == 1 ? 1024 : 0, .devices = twice,
                          .device_count = way == 2 ? 2 : 0);
            cr_expect_eq(dhow_trainer_create(model, &options, &trainer), DHOW_INVALID_ARGUMENT);
            cr_expect_not_null(strstr(dhow_last_error(), cases[i].says), "way %d: %s", way,
                               dhow_last_error());
        }
        dhow_model_release(model);
        bytes_free(&file);
    }
}
