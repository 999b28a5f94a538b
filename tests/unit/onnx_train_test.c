/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX files written in memory that are trained: nodes that are only there for training, and those
 * whose derivative is another node's.
 */
#include <math.h>
#include <string.h>

#include "onnx_fixture.h"

TestSuite(onnx_train, .init = set_up, .fini = tear_down, .timeout = 120);

static const int64_t k_four[] = {4};

static dhow_status load(const bytes *file, dhow_model **model) {
    return dhow_model_load_memory(g_context, file->data, file->length, model);
}

/* A model with it could not be trained: its derivative was missing. */
Test(onnx_train, dropout_is_trained_as_it_is_evaluated) {
    bytes g = {0}, t = node_of("Mul", "scale", "x w", "a"), v = value_of("x", 1, k_four);
    dhow_model *model = NULL;
    dhow_trainer *trainer;
    dhow_tensor *x, *slope;
    float slopes[4];
    put_message(&g, GRAPH_NODE, &t);
    t = node_of("Dropout", "drop", "a", "b");
    put_message(&g, GRAPH_NODE, &t);
    t = node_of("ReduceSum", "sum", "b", "y");
    put_message(&g, GRAPH_NODE, &t);
    t = floats_of("w", 4, 0);
    put_message(&g, GRAPH_INITIALIZER, &t);
    put_message(&g, GRAPH_INPUT, &v);
    v = value_of("y", 1, (const int64_t[]){1});
    put_message(&g, GRAPH_OUTPUT, &v);
    bytes file = model_of(13, &g);
    cr_assert_eq(load(&file, &model), DHOW_OK, "%s", dhow_last_error());
    cr_assert_eq(dhow_trainer_create(model, NULL, &trainer), DHOW_OK, "%s", dhow_last_error());
    cr_assert_eq(dhow_tensor_full(dhow_model_device(model), DHOW_F32, 1, k_four, 3, &x), DHOW_OK);
    cr_assert_eq(dhow_trainer_backward(trainer, NULL, &x, 1, NULL, NULL), DHOW_OK, "%s",
                 dhow_last_error());
    cr_assert_eq(dhow_trainer_parameter_at(trainer, 0, NULL, NULL, &slope), DHOW_OK);
    cr_assert_eq(dhow_tensor_read(slope, slopes, sizeof slopes), DHOW_OK);
    for (int i = 0; i < 4; i++) cr_assert_eq(slopes[i], 3);
    dhow_tensor_release(x);
    dhow_tensor_release(slope);
    dhow_trainer_release(trainer);
    dhow_model_release(model);
    bytes_free(&file);
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
        bytes g = {0}, t = node_of("BatchNormalization", "norm", "x s b m v", "y"),
              v = value_of("x", 2, shape);
        dhow_model *model = NULL;
        dhow_trainer *trainer;
        dhow_tensor *x;
        add_float(&t, "momentum", 0.75f);
        put_message(&g, GRAPH_NODE, &t);
        for (int k = 0; k < 4; k++) {
            t = floats_of(names[k], 1, 0);
            put_message(&g, GRAPH_INITIALIZER, &t);
        }
        put_message(&g, GRAPH_INPUT, &v);
        v = value_of("y", 2, shape);
        put_message(&g, GRAPH_OUTPUT, &v);
        bytes file = model_of(13, &g);
        cr_assert_eq(load(&file, &model), DHOW_OK, "%s", dhow_last_error());
        cr_assert_eq(
            dhow_tensor_from_data(dhow_model_device(model), DHOW_F32, 2, shape, values, &x),
            DHOW_OK);
        cr_assert_eq(dhow_trainer_create(model,
                                         &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE,
                                                    .batchnorm_momentum = options[i]),
                                         &trainer),
                     DHOW_OK, "%s", dhow_last_error());
        cr_assert_eq(dhow_trainer_parameter_count(trainer), 2);
        cr_assert_eq(dhow_trainer_backward(trainer, NULL, &x, 1, x, NULL), DHOW_OK, "%s",
                     dhow_last_error());
        cr_assert_eq(dhow_trainer_update_model(trainer), DHOW_OK);
        cr_expect_float_eq(parameter_of(model, "m"), 0.1 * (1 - counts) + 3 * counts, 1e-6);
        cr_expect_float_eq(parameter_of(model, "v"), 0.1 * (1 - counts) + 14 * counts / 3, 1e-6);
        dhow_tensor_release(x);
        dhow_trainer_release(trainer);
        dhow_model_release(model);
        bytes_free(&file);
    }
}

/* What a norm of x[2, 3, 4] gives its scale, its bias and x, which is scaled by w before. */
static void slopes_of_norm(bytes *node, float slopes[10]) {
    static const char *const names[] = {"w", "s", "b"};
    static const int64_t shape[] = {2, 3, 4};
    bytes g = {0}, t = node_of("Mul", "scale", "x w", "a"), v = value_of("x", 3, shape);
    dhow_model *model = NULL;
    dhow_trainer *trainer;
    float values[24];
    dhow_tensor *x, *slope;
    for (int i = 0; i < 24; i++) values[i] = (float)(i * 7 % 24) / 8;
    put_message(&g, GRAPH_NODE, &t);
    put_message(&g, GRAPH_NODE, node);
    for (int k = 0; k < 3; k++) {
        t = floats_of(names[k], k == 0 ? 4 : 3, 0);
        put_message(&g, GRAPH_INITIALIZER, &t);
    }
    put_message(&g, GRAPH_INPUT, &v);
    v = value_of("y", 3, shape);
    put_message(&g, GRAPH_OUTPUT, &v);
    bytes file = model_of(21, &g);
    cr_assert_eq(load(&file, &model), DHOW_OK, "%s", dhow_last_error());
    cr_assert_eq(dhow_tensor_from_data(dhow_model_device(model), DHOW_F32, 3, shape, values, &x),
                 DHOW_OK);
    cr_assert_eq(dhow_trainer_create(model, &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE),
                                     &trainer),
                 DHOW_OK, "%s", dhow_last_error());
    cr_assert_eq(dhow_trainer_backward(trainer, NULL, &x, 1, x, NULL), DHOW_OK, "%s",
                 dhow_last_error());
    for (uint32_t k = 0; k < 3; k++) {
        cr_assert_eq(dhow_trainer_parameter_at(trainer, k, NULL, NULL, &slope), DHOW_OK);
        const size_t count = (size_t)dhow_tensor_count(slope);
        cr_assert_eq(dhow_tensor_read(slope, slopes, count * sizeof *slopes), DHOW_OK);
        dhow_tensor_release(slope);
        slopes += count;
    }
    dhow_tensor_release(x);
    dhow_trainer_release(trainer);
    dhow_model_release(model);
    bytes_free(&file);
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
