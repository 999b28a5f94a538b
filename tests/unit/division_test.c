/* SPDX-License-Identifier: Apache-2.0
 *
 * Training on several devices together: losses and parameters are those of one device, whatever the
 * shares. The devices are those that DHOW_TEST_DEVICES names, the CPU and two simulated ones
 * otherwise.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"
#include "dhow/model_steps.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())
#define SAYS(wanted)                                                                  \
    cr_assert_not_null(strstr(dhow_last_error(), (wanted)), "'%s' does not say '%s'", \
                       dhow_last_error(), (wanted))

enum { MOST = 8, STEPS = 8, CLASSES = 5, SIDE = 6, FEATURES = SIDE * SIDE };

static dhow_context *g_context;
static dhow_device *g_devices[MOST];
static uint32_t g_count;

static void open_devices(const char *settings, const char *faults) {
    const char *names = getenv("DHOW_TEST_DEVICES");
    char text[128], *rest = NULL;
    (void)snprintf(text, sizeof text, "%s", names != NULL ? names : "cpu,sim:0,sim:1");
    (void)setenv("DHOW_PLUGIN_PATH",
                 getenv("DHOW_TEST_DEVICES") != NULL ? DHOW_TEST_PLUGIN_DIR ":" DHOW_TEST_SIM_DIR
                                                     : DHOW_TEST_SIM_DIR,
                 0);
    (void)setenv("DHOW_SIM", settings, 1);
    (void)setenv("DHOW_SIM_FAULTS", faults, 1);
    OK(dhow_context_create(NULL, &g_context));
    g_count = 0;
    for (char *name = strtok_r(text, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest))
        OK(dhow_device_get(g_context, name, &g_devices[g_count++]));
}
static void set_up(void) { open_devices("jitter_us=100", ""); }
static void tear_down(void) { dhow_context_release(g_context); }
TestSuite(division, .init = set_up, .fini = tear_down, .timeout = 300);

/* ---- models and batches ---- */

static void net_mlp(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    OK(dhow_model_linear(m, "first", x, FEATURES, 16, 1, y));
    OK(dhow_model_gelu(m, *y, y));
    OK(dhow_model_linear(m, "second", *y, 16, CLASSES, 1, y));
}

static void net_cnn(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    OK(dhow_model_reshape(m, x, 4, (int64_t[]){-1, 1, SIDE, SIDE}, y));
    OK(dhow_model_conv2d(m, "conv", *y, 1, 3, &DHOW_INIT(dhow_window, .kernel = {3, 3}), 1, y));
    OK(dhow_model_tanh(m, *y, y));
    OK(dhow_model_reshape(m, *y, 2, (int64_t[]){-1, 3 * (SIDE - 2) * (SIDE - 2)}, y));
    OK(dhow_model_linear(m, "last", *y, 3 * (SIDE - 2) * (SIDE - 2), CLASSES, 1, y));
}

static void net_dropout(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    OK(dhow_model_dropout(m, x, 0.3, y));
    OK(dhow_model_linear(m, "first", *y, FEATURES, 16, 1, y));
    OK(dhow_model_tanh(m, *y, y));
    OK(dhow_model_dropout(m, *y, 0.5, y));
    OK(dhow_model_linear(m, "second", *y, 16, CLASSES, 1, y));
}

static void net_batchnorm(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    OK(dhow_model_linear(m, "first", x, FEATURES, 16, 1, y));
    OK(dhow_model_batchnorm(m, "norm", *y, 16, 1e-5f, y));
    OK(dhow_model_linear(m, "second", *y, 16, CLASSES, 1, y));
}

typedef void build(dhow_model *m, dhow_model_value x, dhow_model_value *y);

static dhow_model *model_of(build *net, int64_t rows) {
    dhow_model *m;
    dhow_model_value x, y;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, 2, (int64_t[]){rows, FEATURES}, &x));
    net(m, x, &y);
    OK(dhow_model_output(m, "y", y));
    OK(dhow_model_init_parameters(m, 7));
    OK(dhow_model_to(m, g_devices[0]));
    return m;
}

static float number(int64_t i) {
    return (float)((uint64_t)(i + 1) * UINT64_C(2654435761) >> 7 & 1023) / 512 - 1;
}

/* The last one is shorter, as an epoch's. */
static int64_t rows_of(int step) { return step % 4 == 3 ? 2 : 11 + step % 2; }

static void batch_of(int step, bool classes, dhow_device *device, dhow_batch *out) {
    float x[12 * FEATURES], t[12 * CLASSES];
    int64_t labels[12];
    const int64_t rows = rows_of(step);
    for (int64_t i = 0; i < rows * FEATURES; i++) x[i] = number(i + step * 1009);
    for (int64_t i = 0; i < rows * CLASSES; i++) t[i] = 0.5f + 0.5f * number(i + step * 31 + 5);
    for (int64_t i = 0; i < rows; i++) labels[i] = (i * i + step) % CLASSES;
    *out = DHOW_INIT(dhow_batch, .tensor_count = 2);
    OK(dhow_tensor_from_data(device, DHOW_F32, 2, (int64_t[]){rows, FEATURES}, x,
                             &out->tensors[0]));
    if (classes)
        OK(dhow_tensor_from_data(device, DHOW_I64, 1, &rows, labels, &out->tensors[1]));
    else
        OK(dhow_tensor_from_data(device, DHOW_F32, 2, (int64_t[]){rows, CLASSES}, t,
                                 &out->tensors[1]));
}

static void release(dhow_batch *batch) {
    dhow_tensor_release(batch->tensors[0]);
    dhow_tensor_release(batch->tensors[1]);
}

/* ---- beside one device ---- */

typedef struct curve {
    double losses[STEPS];
    float parameters[2048];
    size_t count;
} curve;

static void read_parameters(const dhow_trainer *t, curve *out) {
    out->count = 0;
    for (uint32_t i = 0; i < dhow_trainer_parameter_count(t); i++) {
        dhow_tensor *w;
        OK(dhow_trainer_parameter_at(t, i, NULL, &w, NULL));
        const size_t count = (size_t)dhow_tensor_count(w);
        cr_assert_leq(out->count + count, sizeof out->parameters / sizeof *out->parameters);
        OK(dhow_tensor_read(w, out->parameters + out->count, count * sizeof(float)));
        out->count += count;
        dhow_tensor_release(w);
    }
}

static void train(build *net, const dhow_trainer_options *options, int accumulate,
                  dhow_device *data, curve *out) {
    const bool classes = options->loss == DHOW_LOSS_CROSS_ENTROPY || options->loss == DHOW_LOSS_NLL;
    dhow_model *m = model_of(net, -1);
    dhow_trainer *t;
    OK(dhow_trainer_create(m, options, &t));
    for (int step = 0; step < STEPS; step++) {
        dhow_batch batch;
        batch_of(step, classes, data, &batch);
        if (accumulate > 1) {
            OK(dhow_trainer_backward(t, NULL, batch.tensors, 1, batch.tensors[1],
                                     &out->losses[step]));
            if ((step + 1) % accumulate == 0) {
                OK(dhow_trainer_update(t, NULL));
                OK(dhow_trainer_zero_gradients(t));
            }
        } else {
            OK(dhow_trainer_step(t, &batch, &out->losses[step]));
        }
        release(&batch);
    }
    read_parameters(t, out);
    dhow_trainer_release(t);
    dhow_model_release(m);
}

/* Sums in another order: a part in a million of losses and parameters. */
static void check_alike(const char *what, const curve *one, const curve *many) {
    for (int i = 0; i < STEPS; i++)
        cr_expect(fabs(one->losses[i] - many->losses[i]) <= 2e-6 * fabs(one->losses[i]) + 1e-7,
                  "%s: loss %d is %.9g on one device, %.9g on %u", what, i, one->losses[i],
                  many->losses[i], g_count);
    cr_assert_eq(one->count, many->count);
    for (size_t i = 0; i < one->count; i++)
        cr_assert(fabsf(one->parameters[i] - many->parameters[i]) <= 2e-5f,
                  "%s: parameter %zu is %.9g on one device, %.9g on %u", what, i,
                  (double)one->parameters[i], (double)many->parameters[i], g_count);
}

static void compare(const char *what, build *net, const dhow_trainer_options *options,
                    int accumulate) {
    static const double uneven[MOST] = {3, 1, 2, 1, 1, 1, 1, 1}, lazy[MOST] = {0, 1, 3, 1};
    static const double *const shares[] = {NULL, uneven, lazy};
    static curve one, many;
    dhow_device *cpu;
    OK(dhow_device_get(g_context, "cpu", &cpu));
    train(net, options, accumulate, g_devices[0], &one);
    for (int k = 0; k < 3; k++) {
        dhow_trainer_options together = *options;
        together.devices = g_devices;
        together.device_count = g_count;
        together.shares = shares[k];
        together.fixed_shares = shares[k] != NULL;
        train(net, &together, accumulate, k == 1 ? cpu : g_devices[0], &many);
        check_alike(what, &one, &many);
    }
}

Test(division, networks_learn_as_on_one_device) {
    const dhow_trainer_options sgd =
                                   DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY,
                                             .learning_rate = 0.05, .momentum = 0.9),
                               clipped =
                                   DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY,
                                             .learning_rate = 0.05, .clip_norm = 0.3);
    compare("MLP", net_mlp, &sgd, 1);
    compare("CNN", net_cnn, &sgd, 1);
    compare("MLP with the norm of gradients clipped", net_mlp, &clipped, 1);
    compare("MLP with gradients of two batches", net_mlp, &sgd, 2);
}

Test(division, masks_of_dropout_are_those_of_one_device) {
    const dhow_trainer_options options = DHOW_INIT(
        dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY, .learning_rate = 0.1, .seed = 5);
    compare("dropout", net_dropout, &options, 1);
    compare("dropout, gradients of four batches", net_dropout, &options, 4);
}

/* Each loss has a denominator of its own; shares of a batch may be all ignored. */
Test(division, losses_are_divided_by_what_divides_them_on_one_device) {
    const float weights[CLASSES] = {0.5f, 2, 1, 0, 3};
    const int64_t classes = CLASSES, ignored = 1;
    dhow_tensor *weight;
    OK(dhow_tensor_from_data(g_devices[0], DHOW_F32, 1, &classes, weights, &weight));
    const dhow_trainer_options all[] = {
        DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY, .learning_rate = 0.1,
                  .weight = weight, .ignore_index = &ignored),
        DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY, .learning_rate = 0.1,
                  .weight = weight, .ignore_index = &ignored, .label_smoothing = 0.2),
        DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY, .learning_rate = 0.1,
                  .label_smoothing = 0.1),
        DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_NLL, .learning_rate = 0.1,
                  .ignore_index = &ignored),
        DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY_PROBABILITIES,
                  .learning_rate = 0.1, .weight = weight),
        DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE, .learning_rate = 0.1),
        DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_L1, .learning_rate = 0.01),
        DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_HUBER, .learning_rate = 0.1),
        DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_BCE_WITH_LOGITS, .learning_rate = 0.1),
        DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_KL_DIV, .learning_rate = 0.01)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char what[32];
        (void)snprintf(what, sizeof what, "loss case %zu", i);
        compare(what, net_mlp, &all[i], 1);
    }
    dhow_tensor_release(weight);
}

/* ---- batch norms ---- */

static void read_named(const dhow_model *m, const char *name, float *out, uint64_t count) {
    for (uint32_t i = 0; i < dhow_model_parameter_count(m); i++) {
        dhow_model_parameter_info info = DHOW_INIT(dhow_model_parameter_info);
        OK(dhow_model_parameter_at((dhow_model *)(uintptr_t)m, i, &info));
        if (strcmp(info.name, name) != 0) continue;
        OK(dhow_tensor_read(info.tensor, out, count * sizeof *out));
        return;
    }
    cr_assert_fail("no parameter %s", name);
}

static void statistics_of(const dhow_trainer_options *options, int64_t rows, float mean[16]) {
    dhow_model *m = model_of(net_batchnorm, -1);
    dhow_trainer *t;
    dhow_batch batch;
    OK(dhow_trainer_create(m, options, &t));
    batch_of(1, true, g_devices[0], &batch); /* 12 samples */
    for (int i = 0; i < 2 && rows > 0; i++) {
        dhow_tensor *part;
        OK(dhow_tensor_narrow(batch.tensors[i], 0, 0, rows, &part));
        dhow_tensor_release(batch.tensors[i]);
        batch.tensors[i] = part;
    }
    OK(dhow_trainer_step(t, &batch, NULL));
    OK(dhow_trainer_update_model(t));
    read_named(m, "norm.running_mean", mean, 16);
    release(&batch);
    dhow_trainer_release(t);
    dhow_model_release(m);
}

/* As DistributedDataParallel: each device has the statistics of its part, the first one's are kept.
 */
Test(division, running_statistics_are_those_of_the_first_part) {
    static const double shares[MOST] = {2, 1, 1, 1, 1, 1, 1, 1};
    dhow_trainer_options options =
        DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY, .fixed_shares = 1);
    float together[16], alone[16];
    const int64_t first = 12 * 2 / (g_count + 1);
    statistics_of(&options, first, alone);
    options.devices = g_devices;
    options.device_count = g_count;
    options.shares = shares;
    statistics_of(&options, 0, together);
    for (int i = 0; i < 16; i++) cr_assert_float_eq(together[i], alone[i], 1e-6f);
}

/* Which has no variance: a slow device, or an epoch's last batch, made the step fail. */
Test(division, a_part_of_one_sample_joins_another_for_batch_norms) {
    static const double shares[MOST] = {1, 10, 1, 1, 1, 1, 1, 1};
    double losses[2];
    for (int64_t rows = 2; rows <= 12; rows++) {
        for (int k = 0; k < 2; k++) {
            dhow_model *m = model_of(net_batchnorm, -1);
            dhow_trainer *t;
            dhow_batch batch;
            OK(dhow_trainer_create(
                m,
                &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY, .fixed_shares = 1,
                           .shares = k == 0 ? NULL : shares, .devices = k == 0 ? NULL : g_devices,
                           .device_count = k == 0 ? 0 : g_count),
                &t));
            batch_of(1, true, g_devices[0], &batch);
            for (int i = 0; i < 2; i++) {
                dhow_tensor *part;
                OK(dhow_tensor_narrow(batch.tensors[i], 0, 0, rows, &part));
                dhow_tensor_release(batch.tensors[i]);
                batch.tensors[i] = part;
            }
            OK(dhow_trainer_step(t, &batch, &losses[k]));
            release(&batch);
            dhow_trainer_release(t);
            dhow_model_release(m);
        }
        /* All on one device, where it is the same network. */
        if (rows <= 3) cr_assert_float_eq(losses[0], losses[1], 1e-5);
    }
}

/* They were NaN from then on, though the step was refused. */
Test(division, a_loss_that_is_no_number_leaves_running_statistics) {
    for (int k = 0; k < 2; k++) {
        const dhow_trainer_options options =
            DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY, .detect_anomaly = 1,
                      .devices = k == 0 ? NULL : g_devices, .device_count = k == 0 ? 0 : g_count);
        dhow_model *m = model_of(net_batchnorm, -1);
        dhow_trainer *t;
        dhow_batch batch;
        float before[16], after[16];
        OK(dhow_trainer_create(m, &options, &t));
        batch_of(0, true, g_devices[0], &batch);
        OK(dhow_trainer_step(t, &batch, NULL));
        OK(dhow_trainer_update_model(t));
        read_named(m, "norm.running_mean", before, 16);
        OK(dhow_fill(NULL, batch.tensors[0], NAN));
        cr_assert_eq(dhow_trainer_step(t, &batch, NULL), DHOW_INVALID_ARGUMENT);
        SAYS("input 'x' of the batch");
        OK(dhow_trainer_update_model(t));
        read_named(m, "norm.running_mean", after, 16);
        cr_assert_arr_eq(after, before, sizeof before);
        release(&batch);
        dhow_trainer_release(t);
        dhow_model_release(m);
    }
}

/* ---- members ---- */

/* What a program writes to a parameter reaches all devices, and so does a checkpoint. */
Test(division, parameters_that_are_written_count_everywhere) {
    dhow_trainer_options options = DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE);
    double losses[2];
    for (int k = 0; k < 2; k++) {
        dhow_model *m = model_of(net_mlp, -1);
        dhow_trainer *t;
        dhow_tensor *w;
        dhow_batch batch;
        options.devices = k == 0 ? NULL : g_devices;
        options.device_count = k == 0 ? 0 : g_count;
        OK(dhow_trainer_create(m, &options, &t));
        batch_of(0, false, g_devices[0], &batch);
        OK(dhow_trainer_step(t, &batch, NULL));
        OK(dhow_trainer_parameter_at(t, 0, NULL, &w, NULL));
        OK(dhow_fill(NULL, w, 0.25));
        OK(dhow_trainer_step(t, &batch, &losses[k]));
        cr_assert_eq(dhow_trainer_member_count(t), k == 0 ? 1 : g_count);
        for (uint32_t i = 0; i < dhow_trainer_member_count(t); i++) {
            dhow_parallel_member member = DHOW_INIT(dhow_parallel_member);
            OK(dhow_trainer_member_at(t, i, &member));
            cr_assert_eq(member.device, g_devices[i]);
            cr_assert(member.share > 0 && member.status == DHOW_OK);
            cr_assert((member.rows_per_second > 0) == (k == 1));
        }
        dhow_parallel_member none = DHOW_INIT(dhow_parallel_member);
        cr_assert_eq(dhow_trainer_member_at(t, g_count, &none), DHOW_OUT_OF_RANGE);
        dhow_tensor_release(w);
        release(&batch);
        dhow_trainer_release(t);
        dhow_model_release(m);
    }
    cr_assert_float_eq(losses[0], losses[1], 1e-6 * losses[0]);
}

static void refused(const dhow_model *m, const dhow_trainer_options *options, const char *says) {
    dhow_trainer *t;
    cr_assert_eq(dhow_trainer_create((dhow_model *)(uintptr_t)m, options, &t),
                 DHOW_INVALID_ARGUMENT, "%s", dhow_last_error());
    cr_assert_null(t);
    SAYS(says);
}

Test(division, mistakes_are_told) {
    static const double none[MOST], negative[MOST] = {1, -1, 1};
    dhow_device *others[] = {g_devices[1], g_devices[0]};
    dhow_model *m = model_of(net_mlp, -1), *closed = model_of(net_mlp, 4);
    dhow_trainer_options o =
        DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE, .device_count = 2);
    refused(m, &o, "0 devices; 1 to 64");
    o.devices = others;
    refused(m, &o, "name its device first, or move it with dhow_model_to()");
    o.device_count = 1;
    refused(m, &o, "name its device first");
    o.device_count = 2;
    o.devices = g_devices;
    refused(closed, &o, "input 'x' is f32[4, 36]; to be divided among devices");
    o.shares = none;
    refused(m, &o, "all shares are 0");
    o.shares = negative;
    refused(m, &o, "share 1 is -1");
    o.shares = NULL;
    dhow_trainer *t;
    dhow_batch batch;
    OK(dhow_trainer_create(m, &o, &t));
    batch_of(0, false, g_devices[0], &batch);
    dhow_tensor *part;
    OK(dhow_tensor_narrow(batch.tensors[1], 0, 0, 3, &part));
    cr_assert_eq(dhow_trainer_backward(t, NULL, batch.tensors, 1, part, NULL),
                 DHOW_INVALID_ARGUMENT);
    SAYS("dhow_trainer_backward: target 0 is f32[3, 5]");
    dhow_tensor_release(part);
    cr_assert_eq(dhow_trainer_update(t, NULL), DHOW_INVALID_ARGUMENT);
    release(&batch);
    dhow_trainer_release(t);
    dhow_model_release(m), dhow_model_release(closed);
}

/* ---- a device that is lost ---- */

static void lose(int skip, curve *out) {
    dhow_trainer_options options =
        DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE, .learning_rate = 0.1,
                  .skip_failed_devices = skip, .devices = g_devices, .device_count = g_count);
    dhow_model *m = model_of(net_mlp, -1);
    dhow_trainer *t;
    dhow_batch batch;
    curve before, after;
    OK(dhow_trainer_create(m, &options, &t));
    dhow_status status = DHOW_OK;
    for (int step = 0; step < STEPS && status == DHOW_OK; step++) {
        batch_of(step, false, g_devices[0], &batch);
        read_parameters(t, &before);
        status = dhow_trainer_step(t, &batch, &out->losses[step]);
        release(&batch);
    }
    if (skip) {
        dhow_parallel_member member = DHOW_INIT(dhow_parallel_member);
        OK(status);
        OK(dhow_trainer_member_at(t, 2, &member));
        cr_assert(member.status == DHOW_DEVICE_LOST && member.share == 0);
        cr_assert_not_null(strstr(member.reason, "sim:1"), "%s", member.reason);
        read_parameters(t, out);
    } else {
        cr_assert_eq(status, DHOW_DEVICE_LOST, "%s", dhow_last_error());
        SAYS("dhow_trainer_step: samples ");
        SAYS(" on sim:1: ");
        read_parameters(t, &after); /* nothing is lost of what was learnt */
        cr_assert_arr_eq(after.parameters, before.parameters, after.count * sizeof(float));
        OK(dhow_trainer_update_model(t));
    }
    dhow_trainer_release(t);
    dhow_model_release(m);
}

/* In the middle of a backward, in the fifth step or so. */
Test(division_lost, a_device_that_is_lost_is_named_and_takes_no_weights_along, .timeout = 120) {
    if (getenv("DHOW_TEST_DEVICES") != NULL) cr_skip_test("simulated devices fail by a script");
    static curve one, many;
    dhow_trainer_options options =
        DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE, .learning_rate = 0.1);
    open_devices("", "launch#1@60=DEVICE_LOST!");
    lose(0, &many);
    tear_down();
    open_devices("", "launch#1@60=DEVICE_LOST!");
    lose(1, &many);
    train(net_mlp, &options, 1, g_devices[0], &one);
    check_alike("without the device", &one, &many);
    tear_down();
}

/* The second try of a step counted its batch twice in running statistics. */
Test(division_lost, a_step_that_failed_can_be_made_again, .timeout = 120) {
    if (getenv("DHOW_TEST_DEVICES") != NULL) cr_skip_test("simulated devices fail by a script");
    float means[2][16];
    for (int k = 0; k < 2; k++) {
        dhow_model *m;
        dhow_trainer *t;
        dhow_batch batch;
        open_devices("", k == 0 ? "" : "kernel:sgd_f32@1=OUT_OF_MEMORY");
        m = model_of(net_batchnorm, -1);
        OK(dhow_model_to(m, g_devices[1]));
        OK(dhow_trainer_create(m, &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY),
                               &t));
        batch_of(0, true, g_devices[1], &batch);
        if (k == 1) cr_assert_eq(dhow_trainer_step(t, &batch, NULL), DHOW_OUT_OF_MEMORY);
        OK(dhow_trainer_step(t, &batch, NULL));
        OK(dhow_trainer_update_model(t));
        read_named(m, "norm.running_mean", means[k], 16);
        release(&batch);
        dhow_trainer_release(t);
        dhow_model_release(m);
        tear_down();
    }
    cr_assert_arr_eq(means[1], means[0], sizeof means[0]);
}

/* ---- process groups, with threads in the place of processes ---- */

enum { PROCESSES = 3 };

/* Of all processes: their sums may begin early, in buckets of so many bytes. */
static struct {
    bool any_thread, lost;  /* lost: reading parameters may fail as well */
    bool all_devices, skip; /* each process has all devices, its own first; and does without */
    uint64_t bucket_bytes;
} g_sums;

typedef struct meeting {
    pthread_barrier_t barrier;
    double sums[4096];
} meeting;

/* What rank 1 does wrong: in its third step, or when it makes its trainer. */
typedef enum mistake {
    NO_MISTAKE,
    SHORT_TARGET,
    NO_TARGET,
    NO_BATCH,
    NO_MODEL,
    BAD_RATE,
    BAD_LOSS,
    NO_NUMBER /* in its fourth, where rank 0 has no samples */
} mistake;

typedef struct process {
    meeting *all;
    uint32_t rank;
    mistake makes;
    dhow_device *device; /* of its own; NULL: the first, and rank 1 has two */
    pthread_t thread;
    int elsewhere; /* sums on other threads */
    bool without;  /* it has lost its second device */
    curve out;
    dhow_status status;
    char says[512];
} process;

static dhow_status sum_over_threads(void *user, dhow_dtype dtype, void *data, int64_t count) {
    process *p = user;
    meeting *m = p->all;
    cr_assert_leq(count, 4096);
    if (!pthread_equal(pthread_self(), p->thread)) p->elsewhere++;
    for (uint32_t rank = 0; rank < PROCESSES; rank++) {
        (void)pthread_barrier_wait(&m->barrier);
        for (int64_t i = 0; i < count && rank == p->rank; i++)
            m->sums[i] = (rank == 0 ? 0 : m->sums[i]) +
                         (dtype == DHOW_F64 ? ((double *)data)[i] : (double)((float *)data)[i]);
    }
    (void)pthread_barrier_wait(&m->barrier);
    for (int64_t i = 0; i < count; i++) {
        if (dtype == DHOW_F64)
            ((double *)data)[i] = m->sums[i];
        else
            ((float *)data)[i] = (float)m->sums[i];
    }
    (void)pthread_barrier_wait(&m->barrier);
    return DHOW_OK;
}

/* Its own comes first, of several rank 1 has two, or all have all. */
static uint32_t devices_of(const process *p, dhow_device **out) {
    const uint32_t first = p->device == NULL ? 0 : p->rank;
    for (uint32_t i = 0; i < g_count; i++) out[i] = g_devices[(first + i) % g_count];
    return g_sums.all_devices ? g_count : p->device == NULL && p->rank == 1 ? 2 : 1;
}

static dhow_status train_a_part(process *p) {
    dhow_device *devices[MOST];
    const uint32_t device_count = devices_of(p, devices);
    const dhow_process_group group =
        DHOW_INIT(dhow_process_group, .rank = p->rank, .size = PROCESSES,
                  .all_reduce = sum_over_threads, .user = p, .any_thread = g_sums.any_thread);
    const mistake makes = p->rank == 1 ? p->makes : NO_MISTAKE;
    const dhow_trainer_options options = DHOW_INIT(
        dhow_trainer_options, .loss = makes == BAD_LOSS ? (dhow_loss)99 : DHOW_LOSS_CROSS_ENTROPY,
        .learning_rate = makes == BAD_RATE ? -1 : 0.1, .seed = 5, .devices = devices,
        .device_count = device_count, .fixed_shares = 1, .skip_failed_devices = g_sums.skip,
        .process_group = &group, .detect_anomaly = p->makes == NO_NUMBER,
        .bucket_bytes = p->rank == 0 ? g_sums.bucket_bytes : 77);
    dhow_model *m = model_of(net_dropout, -1);
    dhow_trainer *t;
    if (p->rank > 0) OK(dhow_model_init_parameters(m, 99)); /* they begin as rank 0's */
    if (p->device != NULL) OK(dhow_model_to(m, p->device));
    dhow_status status = dhow_trainer_create(makes == NO_MODEL ? NULL : m, &options, &t);
    if (status != DHOW_OK) {
        (void)snprintf(p->says, sizeof p->says, "%s", dhow_last_error());
        dhow_model_release(m);
        return status;
    }
    for (int step = 0; step < STEPS && status == DHOW_OK; step++) {
        const int64_t rows = rows_of(step), begin = rows * p->rank / PROCESSES,
                      end = rows * (p->rank + 1) / PROCESSES; /* of 2 samples the first has none */
        const mistake now = step == 2 ? makes : NO_MISTAKE;
        const int64_t cut = now == SHORT_TARGET ? end - 1 : end;
        dhow_batch batch, part = DHOW_INIT(dhow_batch, .tensor_count = 2);
        batch_of(step, true, g_devices[0], &batch);
        OK(dhow_tensor_slice(batch.tensors[0], 0, begin, end, 1, &part.tensors[0]));
        OK(dhow_tensor_slice(batch.tensors[1], 0, begin, cut, 1, &part.tensors[1]));
        if (now == NO_TARGET) part.tensor_count = 1;
        if (makes == NO_NUMBER && step == 3) OK(dhow_fill(NULL, batch.tensors[0], NAN));
        /* Only some ask for the loss. */
        double *loss = p->rank < 2 ? &p->out.losses[step] : NULL;
        status = dhow_trainer_step(t, now == NO_BATCH ? NULL : &part, loss);
        release(&batch);
        release(&part);
    }
    (void)snprintf(p->says, sizeof p->says, "%s", status != DHOW_OK ? dhow_last_error() : "");
    if (status == DHOW_OK && !g_sums.lost) read_parameters(t, &p->out);
    if (device_count > 1) {
        dhow_parallel_member second = DHOW_INIT(dhow_parallel_member);
        OK(dhow_trainer_member_at(t, 1, &second));
        p->without = second.status != DHOW_OK;
    }
    dhow_trainer_release(t);
    dhow_model_release(m);
    return status;
}

static void *be_a_process(void *argument) {
    process *p = argument;
    p->thread = pthread_self();
    p->status = train_a_part(p);
    return NULL;
}

static void run_processes(mistake makes, bool apart, process *all) {
    pthread_t threads[PROCESSES];
    static meeting m;
    cr_assert_eq(pthread_barrier_init(&m.barrier, NULL, PROCESSES), 0);
    for (uint32_t i = 0; i < PROCESSES; i++) {
        all[i] = (process){.all = &m, .rank = i, .makes = makes};
        if (apart) all[i].device = g_devices[i];
        cr_assert_eq(pthread_create(&threads[i], NULL, be_a_process, &all[i]), 0);
    }
    for (int i = 0; i < PROCESSES; i++) cr_assert_eq(pthread_join(threads[i], NULL), 0);
    (void)pthread_barrier_destroy(&m.barrier);
}

Test(division, processes_learn_as_one) {
    static process all[PROCESSES];
    static curve one;
    const dhow_trainer_options options = DHOW_INIT(
        dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY, .learning_rate = 0.1, .seed = 5);
    train(net_dropout, &options, 1, g_devices[0], &one);
    run_processes(NO_MISTAKE, false, all);
    for (int i = 0; i < PROCESSES; i++) {
        OK(all[i].status);
        if (i == 2) memcpy(all[i].out.losses, one.losses, sizeof one.losses);
        check_alike("process", &one, &all[i].out);
        cr_assert_arr_eq(all[i].out.parameters, all[0].out.parameters,
                         one.count * sizeof(float)); /* the same bits */
    }
}

static void same_bits(const process *whole, const process *parts) {
    for (int i = 0; i < PROCESSES; i++) {
        OK(whole[i].status);
        OK(parts[i].status);
        cr_assert_eq(whole[i].elsewhere, 0);
        cr_assert_geq(parts[i].elsewhere, 2 * STEPS, "only %d sums", parts[i].elsewhere);
        cr_assert_gt(parts[i].out.count, 0);
        cr_assert_arr_eq(parts[i].out.parameters, whole[i].out.parameters,
                         whole[i].out.count * sizeof(float));
        if (i < 2)
            cr_assert_arr_eq(parts[i].out.losses, whole[i].out.losses, sizeof whole[i].out.losses);
    }
}

/* A third of the samples is too few for some, whose gradients are 0 then. With one device each, two
 * of rank 1, and all of each in another order. */
Test(division, processes_that_sum_early_have_the_same_bits) {
    static process whole[PROCESSES], parts[PROCESSES];
    tear_down();
    cr_assert_eq(setenv("DHOW_COLLECTIVES", "off", 1), 0); /* NCCL adds in another order */
    set_up();
    g_sums.any_thread = true;
    for (int k = 0; k < 3; k++) {
        g_sums.all_devices = k == 2;
        g_sums.bucket_bytes = UINT64_MAX;
        run_processes(NO_MISTAKE, k != 1, whole);
        g_sums.bucket_bytes = 256;
        run_processes(NO_MISTAKE, k != 1, parts);
        same_bits(whole, parts);
    }
    g_sums.any_thread = false;
    run_processes(NO_MISTAKE, true, parts);
    for (int i = 0; i < PROCESSES; i++) cr_assert_eq(parts[i].elsewhere, 0);
}

/* A rank that failed before it looked at the group left the others waiting for it. */
Test(division, a_process_that_fails_tells_the_others) {
    static const struct {
        mistake makes;
        const char *says;
    } all_mistakes[] = {{SHORT_TARGET, "dhow_trainer_step: target 0 is i64[3]"},
                        {NO_TARGET, "dhow_trainer_step: the batch has 1 columns"},
                        {NO_BATCH, "dhow_trainer_step: batch is NULL"},
                        {NO_MODEL, "dhow_trainer_create: model is NULL"},
                        {BAD_RATE, "dhow_trainer_create: learning_rate is -1"},
                        {BAD_LOSS, "dhow_trainer_create: 99 is no loss"}};
    static process all[PROCESSES];
    for (size_t k = 0; k < sizeof all_mistakes / sizeof *all_mistakes; k++) {
        run_processes(all_mistakes[k].makes, false, all);
        cr_assert_eq(all[1].status, DHOW_INVALID_ARGUMENT, "%s", all[1].says);
        cr_assert_eq(strncmp(all[1].says, all_mistakes[k].says, strlen(all_mistakes[k].says)), 0,
                     "'%s' is not '%s'", all[1].says, all_mistakes[k].says);
        for (int i = 0; i < PROCESSES; i += 2) {
            cr_assert_eq(all[i].status, DHOW_UNAVAILABLE, "%s", all[i].says);
            cr_assert_not_null(strstr(all[i].says, "1 of the others failed"), "%s", all[i].says);
        }
    }
}

/* The others searched values that they had not computed. */
Test(division, a_loss_that_is_no_number_is_told_by_the_process_that_made_it) {
    static process all[PROCESSES];
    run_processes(NO_NUMBER, false, all);
    for (int i = 0; i < PROCESSES; i++) {
        const char *says = i == 1 ? "input 'x' of the batch: its element 0 is nan"
                                  : "all values before it are finite in this process";
        cr_assert_eq(all[i].status, DHOW_INVALID_ARGUMENT, "%s", all[i].says);
        cr_assert_not_null(strstr(all[i].says, "step 4: the loss is nan"), "%s", all[i].says);
        cr_assert_not_null(strstr(all[i].says, says), "process %d: %s", i, all[i].says);
    }
}

/* In each of its copies, those of gradients that are added up included: all that others wait for.
 */
static void lose_in_each_copy(void) {
    static process all[PROCESSES];
    bool lost = true;
    g_sums.lost = true;
    for (int at = 5; lost; at++) { /* behind those of the four parameters to the device */
        char faults[64];
        (void)snprintf(faults, sizeof faults, "copy#1@%d=DEVICE_LOST!", at);
        open_devices("", faults);
        run_processes(NO_MISTAKE, true, all);
        lost = all[2].status != DHOW_OK;
        for (int i = 0; i < PROCESSES && lost; i++)
            cr_assert_eq(all[i].status, i == 2 ? DHOW_DEVICE_LOST : DHOW_UNAVAILABLE,
                         "copy %d, process %d: %s", at, i, all[i].says);
        tear_down();
        cr_assert_lt(at, 1000);
    }
}

Test(division_lost, a_process_whose_device_is_lost_tells_the_others, .timeout = 240) {
    if (getenv("DHOW_TEST_DEVICES") != NULL) cr_skip_test("simulated devices fail by a script");
    lose_in_each_copy();
}

Test(division_lost, a_process_whose_device_is_lost_while_sums_go_on_tells_too, .timeout = 240) {
    if (getenv("DHOW_TEST_DEVICES") != NULL) cr_skip_test("simulated devices fail by a script");
    g_sums.any_thread = true;
    g_sums.bucket_bytes = 256;
    lose_in_each_copy();
}

/* Rank 1 loses its second device wherever that is, also when buckets have been summed with the
 * others: all begin the step again, and none fails. */
static void go_on_without(const char *slot, const char *kind) {
    static process all[PROCESSES];
    static curve one;
    const dhow_trainer_options options = DHOW_INIT(
        dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY, .learning_rate = 0.1, .seed = 5);
    bool lost = true;
    int at = 9; /* behind what makes the trainer */
    g_sums.skip = true;
    open_devices("", "");
    train(net_dropout, &options, 1, g_devices[0], &one);
    tear_down();
    for (; lost; at += at < 20 ? 3 : 17) {
        char faults[64];
        (void)snprintf(faults, sizeof faults, "%s#0@%d=%sDEVICE_LOST!", slot, at, kind);
        open_devices("", faults);
        run_processes(NO_MISTAKE, false, all);
        for (int i = 0; i < PROCESSES; i++) {
            cr_assert_eq(all[i].status, DHOW_OK, "%s: %s", faults, all[i].says);
            if (i == 2) memcpy(all[i].out.losses, one.losses, sizeof one.losses);
            check_alike("process", &one, &all[i].out);
        }
        lost = all[1].without;
        tear_down();
        cr_assert_lt(at, 2000);
    }
    cr_assert_gt(at, 20);
}

Test(division_lost, processes_go_on_without_a_device_that_is_lost, .timeout = 240) {
    if (getenv("DHOW_TEST_DEVICES") != NULL) cr_skip_test("simulated devices fail by a script");
    g_sums.any_thread = true;
    g_sums.bucket_bytes = 256;
    go_on_without("launch", "");
    go_on_without("launch", "async:");
    go_on_without("copy", "");
    go_on_without("copy", "async:");
}

static dhow_status fail_to_sum(void *user, dhow_dtype dtype, void *data, int64_t count) {
    (void)dtype, (void)data, (void)count;
    return user != NULL ? dhow_set_error(DHOW_UNAVAILABLE, "%s", (const char *)user)
                        : DHOW_UNAVAILABLE;
}

/* The message ended behind its colon. */
Test(division, a_group_that_fails_is_named_whether_it_says_why_or_not) {
    char why[] = "the wire is cut";
    dhow_model *m = model_of(net_mlp, -1);
    dhow_trainer *t;
    for (int k = 0; k < 2; k++) {
        const dhow_process_group group = DHOW_INIT(
            dhow_process_group, .size = 2, .all_reduce = fail_to_sum, .user = k == 0 ? NULL : why);
        cr_assert_eq(
            dhow_trainer_create(
                m, &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE, .process_group = &group),
                &t),
            DHOW_UNAVAILABLE);
        SAYS(k == 0 ? "process 0 of 2: the group's all_reduce failed with UNAVAILABLE"
                    : "process 0 of 2: the wire is cut");
    }
    dhow_model_release(m);
}

Test(division, groups_that_are_none_are_refused) {
    dhow_process_group group = DHOW_INIT(dhow_process_group, .rank = 2, .size = 2);
    dhow_trainer_options o =
        DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE, .process_group = &group);
    dhow_model *m = model_of(net_mlp, -1);
    refused(m, &o, "process_group has no all_reduce");
    group.all_reduce = sum_over_threads;
    refused(m, &o, "rank 2 of 2 processes");
    dhow_model_release(m);
}
