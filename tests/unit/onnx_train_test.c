/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX files written in memory that are trained: nodes that are only there for training, and those
 * whose derivative is another node's.
 */
#include <math.h>
#include <string.h>

#include "onnx_fixture.h"

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

/* A model with it could not be trained: its derivative was missing. */
Test(onnx_train, dropout_is_trained_as_it_is_evaluated) {
    static const int64_t shape[] = {4}, one[] = {1};
    static const float threes[] = {3, 3, 3, 3};
    bytes g = {0}, t = node_of("Mul", "scale", "x w", "a");
    dhow_tensor *slope;
    float slopes[4];
    put_message(&g, GRAPH_NODE, &t);
    t = node_of("Dropout", "drop", "a", "b");
    put_message(&g, GRAPH_NODE, &t);
    t = node_of("ReduceSum", "sum", "b", "y");
    put_message(&g, GRAPH_NODE, &t);
    t = floats_of("w", 4, 0);
    put_message(&g, GRAPH_INITIALIZER, &t);
    trained m = trained_of(13, &g, 1, shape, one, threes, NULL);
    OK(dhow_trainer_backward(m.trainer, NULL, &m.x, 1, NULL, NULL));
    OK(dhow_trainer_parameter_at(m.trainer, 0, NULL, NULL, &slope));
    OK(dhow_tensor_read(slope, slopes, sizeof slopes));
    for (int i = 0; i < 4; i++) cr_assert_eq(slopes[i], 3);
    dhow_tensor_release(slope);
    free_trained(&m);
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
