/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch norms in training: losses, running statistics and scores are PyTorch's (batchnorm.py, which
 * has the same network and numbers in Python), derivatives those of central differences, on the
 * device that DHOW_DEVICE names.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dhow/dhow.h"
#include "dhow/model_steps.h"
#include "hash_fixture.h"
#include "train_fixture.h"

enum { STEPS = 50, SIZE = 16, CLASSES = 5, PIXELS = 72, NUMBERS = 36 };

static const struct {
    double losses[STEPS], statistics[NUMBERS], scores[SIZE * CLASSES];
} k_wanted[] = {
#include "batchnorm.inc"
};
static const dhow_trainer_options k_optimizers[] = {
    DHOW_FIELDS(dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY,
                .optimizer = DHOW_OPTIMIZER_SGD, .learning_rate = 0.05, .momentum = 0.9),
    DHOW_FIELDS(dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY,
                .optimizer = DHOW_OPTIMIZER_ADAMW, .learning_rate = 1e-2,
                .batchnorm_momentum = 0.3)};

TestSuite(batchnorm, .init = open_device, .fini = close_device, .timeout = 300);

/* ---- numbers ---- */

/* scale x + shift */
static dhow_tensor *numbers(dhow_dtype dtype, int32_t rank, const int64_t *shape, uint32_t series,
                            double scale, double shift) {
    double wide[MOST];
    float narrow[MOST];
    int64_t count = 1;
    dhow_tensor *t;
    for (int32_t i = 0; i < rank; i++) count *= shape[i];
    cr_assert_leq(count, MOST);
    for (uint32_t i = 0; i < count; i++) {
        wide[i] = scale * number(series, i) + shift;
        narrow[i] = (float)wide[i];
    }
    OK(dhow_tensor_from_data(g_device, dtype, rank, shape,
                             dtype == DHOW_F64 ? (const void *)wide : narrow, &t));
    return t;
}

static dhow_tensor *images(dhow_dtype dtype, uint32_t step) {
    return numbers(dtype, DHOW_SHAPE(SIZE, 2, 6, 6), 100 + step, 2, 0.5);
}

static dhow_tensor *classes(uint32_t step) {
    int64_t y[SIZE];
    dhow_tensor *t;
    for (uint32_t i = 0; i < SIZE; i++) y[i] = mix(i + (step << 20)) % CLASSES;
    OK(dhow_tensor_from_data(g_device, DHOW_I64, DHOW_SHAPE(SIZE), y, &t));
    return t;
}

/* ---- the network ---- */

/* No layer before a batch norm has a bias: its derivative is 0 but for rounding, which AdamW makes
 * steps of full size of. */
static const char *const k_names[] = {"conv.weight",  "norm1.weight", "norm1.bias", "fc1.weight",
                                      "norm2.weight", "norm2.bias",   "fc2.weight", "fc2.bias"};
enum { TRAINED = sizeof k_names / sizeof *k_names };
static const char *const k_statistics[] = {"norm1.running_mean", "norm1.running_var",
                                           "norm2.running_mean", "norm2.running_var"};

static void begin(dhow_model *m, dhow_dtype dtype) {
    for (uint32_t i = 0; i < dhow_model_parameter_count(m); i++) {
        dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
        OK(dhow_model_parameter_describe(m, i, &info));
        for (uint32_t k = 0; k < TRAINED; k++) {
            if (strcmp(info.name, k_names[k]) != 0) continue;
            const int scale = strstr(info.name, "norm") != NULL && strstr(info.name, "weight");
            dhow_tensor *w = numbers(dtype, info.rank, info.shape, k, 0.3, scale);
            OK(dhow_model_set_parameter(m, info.name, w));
            dhow_tensor_release(w);
        }
    }
}

/* `smooth`: without the corners of relu and maxpool */
static dhow_model *network(dhow_dtype dtype, int smooth) {
    const dhow_window three = DHOW_INIT(dhow_window, .kernel = {3, 3}, .pad = {1, 1, 1, 1}),
                      two = DHOW_INIT(dhow_window, .kernel = {2, 2}, .stride = {2, 2});
    dhow_model *m;
    dhow_model_value y;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "image", dtype, DHOW_SHAPE(-1, 2, 6, 6), &y));
    OK(dhow_model_conv2d(m, "conv", y, 2, 6, &three, 0, &y));
    OK(dhow_model_batchnorm(m, "norm1", y, 6, 1e-5f, &y));
    OK((smooth ? dhow_model_gelu : dhow_model_relu)(m, y, &y));
    OK((smooth ? dhow_model_avgpool2d : dhow_model_maxpool2d)(m, y, &two, &y));
    OK(dhow_model_flatten(m, y, 1, &y));
    OK(dhow_model_linear(m, "fc1", y, 54, 12, 0, &y));
    OK(dhow_model_batchnorm(m, "norm2", y, 12, 1e-5f, &y));
    OK(dhow_model_gelu(m, y, &y));
    OK(dhow_model_linear(m, "fc2", y, 12, CLASSES, 1, &y));
    OK(dhow_model_output(m, "y", y));
    begin(m, dtype);
    OK(dhow_model_to(m, g_device));
    return m;
}

static double step(dhow_trainer *t, uint32_t n) {
    dhow_tensor *x = images(DHOW_F32, n % 8), *y = classes(n % 8);
    double loss;
    OK(dhow_trainer_step(t, &DHOW_INIT(dhow_batch, .tensor_count = 2, .tensors = {x, y}), &loss));
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    return loss;
}

static void read_statistics(const dhow_model *m, float *out) {
    for (size_t i = 0; i < sizeof k_statistics / sizeof *k_statistics; i++) {
        dhow_model_parameter_info info = DHOW_INIT(dhow_model_parameter_info);
        for (uint32_t k = 0; k < dhow_model_parameter_count(m); k++) {
            OK(dhow_model_parameter_at(m, k, &info));
            if (strcmp(info.name, k_statistics[i]) == 0) break;
        }
        const size_t count = (size_t)dhow_tensor_count(info.tensor);
        OK(dhow_tensor_read(info.tensor, out, count * sizeof *out));
        out += count;
    }
}

/* ---- beside PyTorch ---- */

static void compare(const char *what, const float *found, const double *wanted, int count) {
    for (int i = 0; i < count; i++)
        cr_expect(fabs((double)found[i] - wanted[i]) <= 1e-4 * fmax(1, fabs(wanted[i])),
                  "%s %d: %.9g, PyTorch's %.9g", what, i, (double)found[i], wanted[i]);
}

Test(batchnorm, fifty_steps_are_those_of_pytorch) {
    float statistics[NUMBERS], scores[SIZE * CLASSES];
    double worst = 0;
    for (int o = 0; o < 2; o++) {
        dhow_model *m = network(DHOW_F32, 0);
        dhow_trainer *t;
        dhow_tensor *x = images(DHOW_F32, 9), *y;
        OK(dhow_trainer_create(m, &k_optimizers[o], &t));
        cr_assert_eq(dhow_trainer_parameter_count(t), TRAINED); /* statistics are not trained */
        for (uint32_t n = 0; n < STEPS; n++) {
            const double loss = step(t, n), want = k_wanted[o].losses[n];
            worst = fmax(worst, fabs(loss - want) / want);
            cr_expect(fabs(loss - want) <= 1e-4 * want, "step %u: %.9g, PyTorch's %.9g", n, loss,
                      want);
        }
        OK(dhow_trainer_update_model(t));
        read_statistics(m, statistics);
        compare("statistic", statistics, k_wanted[o].statistics, NUMBERS);
        OK(dhow_model_run(m, NULL, &x, 1, &y, 1)); /* by the running statistics */
        OK(dhow_tensor_read(y, scores, sizeof scores));
        compare("score", scores, k_wanted[o].scores, SIZE * CLASSES);
        dhow_tensor_release(x);
        dhow_tensor_release(y);
        dhow_trainer_release(t);
        dhow_model_release(m);
    }
    cr_log_info("losses differ by %.1e at most", worst);
}

Test(batchnorm, a_checkpoint_has_the_running_statistics) {
    char path[] = "/tmp/dhow-batchnorm-XXXXXX";
    const int file = mkstemp(path);
    float whole[NUMBERS], resumed[NUMBERS];
    cr_assert(file >= 0 && close(file) == 0);
    dhow_model *m[2] = {network(DHOW_F32, 0), network(DHOW_F32, 0)};
    dhow_trainer *t[2];
    for (int i = 0; i < 2; i++) OK(dhow_trainer_create(m[i], &k_optimizers[1], &t[i]));
    for (uint32_t n = 0; n < 5; n++) (void)step(t[0], n);
    OK(dhow_trainer_save(t[0], path));
    OK(dhow_trainer_load(t[1], path));
    for (uint32_t n = 5; n < 10; n++) cr_expect_eq(step(t[0], n), step(t[1], n));
    for (int i = 0; i < 2; i++) OK(dhow_trainer_update_model(t[i]));
    read_statistics(m[0], whole);
    read_statistics(m[1], resumed);
    cr_expect_arr_eq(whole, resumed, sizeof whole);
    for (int i = 0; i < 2; i++) dhow_trainer_release(t[i]), dhow_model_release(m[i]);
    cr_assert_eq(unlink(path), 0);
}

/* ---- derivatives ---- */

static void check_derivatives(int32_t freeze) {
    dhow_model *m = network(DHOW_F64, 1);
    trial t = {.x = images(DHOW_F64, 0), .target = classes(0)};
    for (uint32_t i = 0; i < 4; i++) {
        dhow_tensor *w = numbers(DHOW_F64, 1, &(int64_t){i < 2 ? 6 : 12}, 20 + i, 0.5, i % 2);
        OK(dhow_model_set_parameter(m, k_statistics[i], w));
        dhow_tensor_release(w);
    }
    OK(dhow_trainer_create(m,
                           &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY,
                                      .freeze_batchnorm = freeze),
                           &t.trainer));
    cr_assert_eq(dhow_trainer_parameter_count(t.trainer), TRAINED);
    for (uint32_t i = 0; i < TRAINED; i++) check_parameter(&t, freeze ? "frozen" : "training", i);
    dhow_trainer_release(t.trainer);
    dhow_tensor_release(t.x);
    dhow_tensor_release(t.target);
    dhow_model_release(m);
}

Test(batchnorm, derivatives_are_what_central_differences_say) {
    check_derivatives(0);
    check_derivatives(1);
}

/* ---- frozen ---- */

Test(batchnorm, frozen_ones_keep_their_statistics) {
    float before[NUMBERS], after[NUMBERS];
    dhow_trainer_options options = k_optimizers[0];
    dhow_model *m = network(DHOW_F32, 0);
    dhow_trainer *t;
    options.freeze_batchnorm = 1;
    read_statistics(m, before);
    OK(dhow_trainer_create(m, &options, &t));
    cr_assert_eq(dhow_trainer_parameter_count(t), TRAINED);
    for (uint32_t n = 0; n < 3; n++) (void)step(t, n);
    OK(dhow_trainer_update_model(t));
    read_statistics(m, after);
    cr_expect_arr_eq(before, after, sizeof before);
    dhow_trainer_release(t);
    dhow_model_release(m);
}

/* ---- mistakes ---- */

static void refused(dhow_status status, dhow_status wanted, const char *part) {
    cr_expect_eq(status, wanted, "%s", dhow_last_error());
    cr_expect_not_null(strstr(dhow_last_error(), part), "'%s' is not in '%s'", part,
                       dhow_last_error());
}

Test(batchnorm, mistakes_are_named) {
    dhow_trainer_options options = k_optimizers[0];
    dhow_model *m;
    dhow_model_value y;
    dhow_trainer *t;
    dhow_tensor *x, *target;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(-1, 3), &y));
    OK(dhow_model_batchnorm(m, "norm", y, 3, 1e-5f, &y));
    OK(dhow_model_output(m, "y", y));
    OK(dhow_model_to(m, g_device));
    options.batchnorm_momentum = -1;
    refused(dhow_trainer_create(m, &options, &t), DHOW_INVALID_ARGUMENT, "batchnorm_momentum");
    options.batchnorm_momentum = 0;
    OK(dhow_trainer_create(m, &options, &t));
    OK(dhow_tensor_zeros(g_device, DHOW_F32, DHOW_SHAPE(1, 3), &x));
    OK(dhow_tensor_zeros(g_device, DHOW_I64, DHOW_SHAPE(1), &target));
    refused(dhow_trainer_backward(t, NULL, &x, 1, target, NULL), DHOW_INVALID_ARGUMENT,
            "freeze_batchnorm");
    dhow_trainer_release(t);
    dhow_model_release(m);
    /* Statistics of another type than what is trained */
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F64, DHOW_SHAPE(-1, 3), &y));
    OK(dhow_model_batchnorm(m, "norm", y, 3, 1e-5f, &y));
    OK(dhow_model_cast(m, y, DHOW_F32, &y));
    OK(dhow_model_linear(m, "fc", y, 3, 2, 1, &y));
    OK(dhow_model_output(m, "y", y));
    OK(dhow_model_to(m, g_device));
    options.trainable = "fc.*";
    refused(dhow_trainer_create(m, &options, &t), DHOW_UNSUPPORTED, "freeze_batchnorm");
    options.freeze_batchnorm = 1;
    OK(dhow_trainer_create(m, &options, &t));
    dhow_trainer_release(t);
    dhow_model_release(m);
    dhow_tensor_release(x);
    dhow_tensor_release(target);
}
