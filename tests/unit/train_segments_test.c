/* SPDX-License-Identifier: Apache-2.0
 *
 * Trainings that compute parts of a model again for the way back: the same losses, in less memory.
 * On the device that DHOW_DEVICE names.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_fixture.h"
#include "dhow/dhow.h"
#include "dhow/model_steps.h"

#define SHAPE(...) \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]) { __VA_ARGS__ }

TestSuite(train_segments, .init = open_device, .fini = close_device, .timeout = 300);

enum { ROWS = 64, WIDTH = 64, LAYERS = 16, STEPS = 4, MOST = 1 << 19 };

/* ---- networks ---- */

static dhow_model_value input_of(dhow_model *m, int32_t rank, const int64_t *shape) {
    dhow_model_value x;
    OK(dhow_model_input(m, "x", DHOW_F32, rank, shape, &x));
    return x;
}

static const char *name_of(const char *kind, int i) {
    static char name[32];
    (void)snprintf(name, sizeof name, "%s%d", kind, i);
    return name;
}

/* Residuals pass over the ends of segments; the first value is read by the last layer, too. */
static dhow_model_value residuals(dhow_model *m) {
    dhow_model_value x = input_of(m, SHAPE(-1, WIDTH)), first = x, y;
    for (int i = 0; i < LAYERS; i++) {
        OK(dhow_model_layernorm(m, name_of("norm", i), x, WIDTH, 1e-5f, &y));
        OK(dhow_model_linear(m, name_of("wide", i), y, WIDTH, 2 * WIDTH, 1, &y));
        OK(dhow_model_gelu(m, y, &y));
        OK(dhow_model_dropout(m, y, 0.2, &y));
        OK(dhow_model_linear(m, name_of("narrow", i), y, 2 * WIDTH, WIDTH, 1, &y));
        OK(dhow_model_add(m, x, y, &x));
    }
    OK(dhow_model_mul(m, x, first, &x));
    return x;
}

/* Running statistics are outputs of nodes that are computed twice. */
static dhow_model_value images(dhow_model *m) {
    const dhow_window same = DHOW_INIT(dhow_window, .kernel = {3, 3}, .pad = {1, 1, 1, 1});
    dhow_model_value x;
    OK(dhow_model_reshape(m, input_of(m, SHAPE(-1, WIDTH)), SHAPE(-1, 1, 8, 8), &x));
    for (int i = 0; i < 4; i++) {
        OK(dhow_model_conv2d(m, name_of("conv", i), x, i == 0 ? 1 : 8, 8, &same, 0, &x));
        OK(dhow_model_batchnorm(m, name_of("norm", i), x, 8, 1e-5f, &x));
        OK(dhow_model_relu(m, x, &x));
    }
    OK(dhow_model_flatten(m, x, 1, &x));
    OK(dhow_model_linear(m, "last", x, 512, WIDTH, 1, &x));
    return x;
}

static dhow_model_value attention(dhow_model *m) {
    dhow_model_value x, y;
    OK(dhow_model_reshape(m, input_of(m, SHAPE(-1, WIDTH)), SHAPE(-1, 4, 16), &x));
    for (int i = 0; i < 3; i++) {
        OK(dhow_model_multihead_attention(m, name_of("attention", i), x, x, x, -1, 16, 2, 1, &y));
        OK(dhow_model_add(m, x, y, &x));
        OK(dhow_model_rmsnorm(m, name_of("norm", i), x, 16, 1e-5f, &x));
    }
    OK(dhow_model_flatten(m, x, 1, &x));
    return x;
}

/* ---- trainings ---- */

typedef struct result {
    double losses[STEPS];
    int64_t count;
    uint64_t peak_bytes;
    float parameters[MOST];
} result;

static void copy_out(dhow_trainer *t, dhow_model *m, result *out) {
    out->count = 0;
    OK(dhow_trainer_update_model(t));
    for (uint32_t i = 0; i < dhow_model_parameter_count(m); i++) {
        dhow_model_parameter_info info = DHOW_INIT(dhow_model_parameter_info);
        OK(dhow_model_parameter_at(m, i, &info));
        dhow_tensor_info tensor = DHOW_INIT(dhow_tensor_info);
        OK(dhow_tensor_get_info(info.tensor, &tensor));
        if (tensor.dtype != DHOW_F32) continue; /* the shape of a reshape */
        const int64_t count = dhow_tensor_count(info.tensor);
        cr_assert_leq(out->count + count, MOST);
        OK(dhow_tensor_read(info.tensor, out->parameters + out->count, (uint64_t)count * 4));
        out->count += count;
    }
}

static void train(dhow_model_value (*build)(dhow_model *m), int64_t rows, dhow_precision precision,
                  uint32_t segments, result *out) {
    dhow_model *m;
    dhow_trainer *t;
    dhow_tensor *data[2];
    dhow_memory_stats memory = DHOW_INIT(dhow_memory_stats);
    float *numbers = malloc((size_t)rows * WIDTH * sizeof *numbers);
    cr_assert_not_null(numbers);
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_output(m, "y", build(m)));
    OK(dhow_model_init_parameters(m, 3));
    OK(dhow_model_to(m, g_device));
    OK(dhow_model_set_precision(m, precision));
    OK(dhow_trainer_create(
        m,
        &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE, .optimizer = DHOW_OPTIMIZER_ADAM,
                   .seed = 7, .checkpoint_segments = segments),
        &t));
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < rows * WIDTH; i++)
            numbers[i] = (float)((uint64_t)(i + 7 + k) * 2654435761u >> 9 & 1023) / 512 - 1;
        OK(dhow_tensor_from_data(g_device, DHOW_F32, SHAPE(rows, WIDTH), numbers, &data[k]));
    }
    const dhow_batch batch =
        DHOW_INIT(dhow_batch, .tensor_count = 2, .tensors = {data[0], data[1]});
    for (int i = 0; i < STEPS; i++) OK(dhow_trainer_step(t, &batch, &out->losses[i]));
    OK(dhow_memory_get_stats(g_device, &memory));
    out->peak_bytes = memory.live_peak;
    copy_out(t, m, out);
    dhow_tensor_release(data[0]);
    dhow_tensor_release(data[1]);
    dhow_trainer_release(t);
    dhow_model_release(m);
    free(numbers);
}

/* ---- tests ---- */

static const struct {
    const char *name;
    dhow_model_value (*build)(dhow_model *m);
} k_networks[] = {{"residuals", residuals}, {"images", images}, {"attention", attention}};
static const uint32_t k_segments[] = {1, 2, 3, 7, UINT32_MAX};
enum { NETWORKS = sizeof k_networks / sizeof *k_networks, NUMBERS = 5 };

/* Steps that are joined round once, and those whose values wait for the way back are not. */
Test(train_segments, a_training_in_segments_goes_the_same_way) {
    static const struct {
        dhow_precision precision;
        double most;
    } k[] = {{DHOW_PRECISION_F32, 2e-6}, {DHOW_PRECISION_F16, 1e-3}, {DHOW_PRECISION_BF16, 1e-2}};
    static result plain, parted;
    for (int n = 0; n < NETWORKS; n++)
        for (int p = 0; p < 3; p++) {
            train(k_networks[n].build, ROWS, k[p].precision, 0, &plain);
            for (int s = 0; s < NUMBERS; s++) {
                train(k_networks[n].build, ROWS, k[p].precision, k_segments[s], &parted);
                for (int i = 0; i < STEPS; i++)
                    cr_expect_float_eq(
                        parted.losses[i], plain.losses[i], k[p].most * plain.losses[0],
                        "%s, precision %d, %u segments, step %d: %.9g and %.9g", k_networks[n].name,
                        (int)k[p].precision, k_segments[s], i, parted.losses[i], plain.losses[i]);
            }
        }
}

/* The statistics of a batch norm follow once a step, however often it is computed. */
Test(train_segments, running_statistics_follow_once) {
    static result plain, parted;
    train(images, ROWS, DHOW_PRECISION_F32, 0, &plain);
    train(images, ROWS, DHOW_PRECISION_F32, 4, &parted);
    for (int64_t i = 0; i < plain.count; i++)
        cr_assert_float_eq(parted.parameters[i], plain.parameters[i], 1e-4, "%lld: %g and %g",
                           (long long)i, (double)parted.parameters[i], (double)plain.parameters[i]);
}

/* Of 16 layers, each of which keeps some five times what it passes on. */
Test(train_segments, segments_take_less_memory) {
    static result plain, parted;
    train(residuals, 4096, DHOW_PRECISION_F32, 4, &parted); /* the peak only grows */
    train(residuals, 4096, DHOW_PRECISION_F32, 0, &plain);
    cr_expect_lt((double)parted.peak_bytes, 0.5 * (double)plain.peak_bytes, "%.3g of %.3g bytes",
                 (double)parted.peak_bytes, (double)plain.peak_bytes);
}
