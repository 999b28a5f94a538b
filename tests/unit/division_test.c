/* SPDX-License-Identifier: Apache-2.0
 *
 * Training on several devices together: losses and parameters are those of one device, whatever the
 * shares.
 */
#include "division.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dhow/model_steps.h"

TestSuite(division, .init = set_up, .fini = tear_down, .timeout = 300);

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
