/* SPDX-License-Identifier: Apache-2.0
 *
 * Trainers: optimisers against their formulas, and what callers do with a trainer, rightly and
 * wrongly, on the device that DHOW_DEVICE names.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "dhow/dhow.h"
#include "trial_fixture.h"

TestSuite(trainer, .init = set_up, .fini = close_device, .timeout = 300);

/* ---- optimisers ---- */

enum { WEIGHTS = 5, STEPS = 6 };

static void net_squares(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    dhow_model_value w;
    parameter(m, "w", SHAPE(WEIGHTS), &w);
    OK(dhow_model_mul(m, w, w, y));
    OK(dhow_model_mul(m, *y, x, y));
    OK(dhow_model_reduce(m, DHOW_REDUCE_SUM, *y, NULL, 0, 0, y));
}

/* torch.optim's pages, one number at a time. */
static void step_of(const dhow_trainer_options *o, int n, double g, double *w, double s[2]) {
    const double lr = o->learning_rate, decay = fmax(0, o->weight_decay);
    switch (o->optimizer) {
        case DHOW_OPTIMIZER_SGD:
            g += decay * *w;
            s[0] = n == 1 ? g : o->momentum * s[0] + (1 - o->dampening) * g;
            *w -= lr * (o->nesterov ? g + o->momentum * s[0] : s[0]);
            break;
        case DHOW_OPTIMIZER_ADAM:
        case DHOW_OPTIMIZER_ADAMW:
            if (o->optimizer == DHOW_OPTIMIZER_ADAM)
                g += decay * *w;
            else
                *w -= lr * decay * *w;
            s[0] = 0.9 * s[0] + 0.1 * g;
            s[1] = 0.999 * s[1] + 0.001 * g * g;
            *w -= lr * (s[0] / (1 - pow(0.9, n))) / (sqrt(s[1] / (1 - pow(0.999, n))) + 1e-8);
            break;
        case DHOW_OPTIMIZER_RMSPROP:
            g += decay * *w;
            s[0] = 0.99 * s[0] + 0.01 * g * g;
            s[1] = o->momentum * s[1] + g / (sqrt(s[0]) + 1e-8);
            *w -= lr * s[1];
            break;
        default:
            *w *= 1 - lr * decay;
            const double u = 0.9 * s[0] + 0.1 * g;
            *w -= lr * (u > 0 ? 1 : u < 0 ? -1 : 0);
            s[0] = 0.99 * s[0] + 0.01 * g;
            break;
    }
}

static void check_optimizer(const dhow_trainer_options *options) {
    double want[WEIGHTS], got[WEIGHTS], x[WEIGHTS], state[WEIGHTS][2] = {{0}};
    const net n = {"squares", 1, {WEIGHTS}, net_squares, DHOW_LOSS_OUTPUT};
    trial t = begin(&n, options->optimizer);
    dhow_trainer_release(t.trainer);
    OK(dhow_trainer_create(t.model, options, &t.trainer));
    dhow_batch batch = DHOW_INIT(dhow_batch, .tensor_count = 1, .tensors = {t.x});
    dhow_tensor *w;
    OK(dhow_trainer_parameter_at(t.trainer, 0, NULL, &w, NULL));
    OK(dhow_tensor_read(w, want, sizeof want));
    OK(dhow_tensor_read(t.x, x, sizeof x));
    for (int i = 1; i <= STEPS; i++) {
        double loss, sum = 0, norm = 0, scale = 1;
        for (int k = 0; k < WEIGHTS; k++) {
            sum += want[k] * want[k] * x[k];
            norm += 4 * want[k] * want[k] * x[k] * x[k];
        }
        if (options->clip_norm > 0) scale = fmin(1, options->clip_norm / (sqrt(norm) + 1e-6));
        OK(dhow_trainer_step(t.trainer, &batch, &loss));
        cr_expect_float_eq(loss, sum, 1e-12);
        for (int k = 0; k < WEIGHTS; k++)
            step_of(options, i, scale * 2 * want[k] * x[k], &want[k], state[k]);
    }
    OK(dhow_trainer_update_model(t.trainer));
    dhow_model_parameter_info info = DHOW_INIT(dhow_model_parameter_info);
    OK(dhow_model_parameter_at(t.model, 0, &info));
    OK(dhow_tensor_read(info.tensor, got, sizeof got));
    for (int k = 0; k < WEIGHTS; k++)
        cr_expect_float_eq(got[k], want[k], 1e-12, "optimizer %d, weight %d: %.15g, not %.15g",
                           (int)options->optimizer, k, got[k], want[k]);
    dhow_tensor_release(w);
    end(&t);
}

Test(trainer, optimisers_step_as_their_formulas_say) {
    check_optimizer(&DHOW_INIT(dhow_trainer_options, .learning_rate = 0.1));
    check_optimizer(&DHOW_INIT(dhow_trainer_options, .learning_rate = 0.1, .momentum = 0.9,
                               .dampening = 0.2, .weight_decay = 0.01));
    check_optimizer(&DHOW_INIT(dhow_trainer_options, .learning_rate = 0.1, .momentum = 0.9,
                               .nesterov = 1, .clip_norm = 0.5));
    for (int kind = DHOW_OPTIMIZER_ADAM; kind <= DHOW_OPTIMIZER_LION; kind++) {
        check_optimizer(&DHOW_INIT(dhow_trainer_options, .optimizer = (dhow_optimizer)kind,
                                   .learning_rate = 0.05, .weight_decay = 0.1));
        check_optimizer(&DHOW_INIT(dhow_trainer_options, .optimizer = (dhow_optimizer)kind,
                                   .learning_rate = 0.05, .weight_decay = -1, .clip_norm = 0.3,
                                   .momentum = kind == DHOW_OPTIMIZER_RMSPROP ? 0.9 : 0));
    }
}

/* ---- what a caller does ---- */

Test(trainer, gradients_add_up_until_they_are_zeroed) {
    const net n = {"linear", 2, {3, 4}, net_linear, DHOW_LOSS_MSE};
    trial t = begin(&n, DHOW_OPTIMIZER_SGD);
    dhow_tensor *g;
    double once[20], twice[20];
    OK(dhow_trainer_parameter_at(t.trainer, 0, NULL, NULL, &g));
    (void)loss_of(&t);
    OK(dhow_tensor_read(g, once, sizeof once));
    OK(dhow_trainer_backward(t.trainer, NULL, &t.x, 1, t.target, NULL));
    OK(dhow_tensor_read(g, twice, sizeof twice));
    for (int i = 0; i < 20; i++) cr_expect_eq(twice[i], 2 * once[i]);
    dhow_tensor_release(g);
    end(&t);
}

/* What is built on later, or moved, is not what the trainer was made of. */
Test(trainer, a_model_that_changes_leaves_its_trainer_alone) {
    const net n = {"linear", 2, {3, 4}, net_linear, DHOW_LOSS_MSE};
    trial t = begin(&n, DHOW_OPTIMIZER_SGD);
    dhow_model_value more;
    const double before = loss_of(&t);
    for (int i = 0; i < 40; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "x%d", i);
        OK(dhow_model_input(t.model, name, DHOW_F64, SHAPE(1), &more));
    }
    OK(dhow_model_to(t.model, g_cpu));
    cr_expect_eq(loss_of(&t), before);
    OK(dhow_trainer_backward(t.trainer, NULL, &t.x, 1, t.target, NULL));
    OK(dhow_trainer_update(t.trainer, NULL));
    OK(dhow_trainer_update_model(t.trainer));
    cr_expect_lt(loss_of(&t), before);
    end(&t);
}

Test(trainer, patterns_choose_what_is_trained) {
    const net n = {"linear", 2, {3, 4}, net_linear, DHOW_LOSS_MSE};
    trial t = begin(&n, DHOW_OPTIMIZER_SGD);
    static const struct {
        const char *pattern;
        uint32_t count;
    } cases[] = {{"*", 3},        {"second*", 1}, {"*.bias", 1}, {"f?rst.*", 2},
                 {"*s*t*t**", 1}, {"**.b*s", 1},  {"*d.w?*", 1}, {"*.weight", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dhow_trainer *some;
        OK(dhow_trainer_create(
            t.model,
            &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE, .trainable = cases[i].pattern),
            &some));
        cr_expect_eq(dhow_trainer_parameter_count(some), cases[i].count, "%s", cases[i].pattern);
        dhow_trainer_release(some);
    }
    end(&t);
}

static void refused(dhow_status status, dhow_status wanted, const char *part) {
    cr_expect_eq(status, wanted, "%s", dhow_last_error());
    cr_expect_not_null(strstr(dhow_last_error(), part), "'%s' is not in '%s'", part,
                       dhow_last_error());
}

static void net_long_name(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    OK(dhow_model_linear(m, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", x, 4, 3, 0, y));
}

/* Each star took as many tries as the name has letters, for every try of those before it. */
Test(trainer, a_pattern_of_many_stars_takes_no_longer, .timeout = 30) {
    const net n = {"long name", 2, {3, 4}, net_long_name, DHOW_LOSS_MSE};
    trial t = begin(&n, DHOW_OPTIMIZER_SGD);
    dhow_trainer *some;
    refused(dhow_trainer_create(t.model,
                                &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE,
                                           .trainable = "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b"),
                                &some),
            DHOW_INVALID_ARGUMENT, "*b'");
    end(&t);
}

/* Each place of a window is some steps of the plan: a few bytes of a file could ask for millions.
 */
Test(trainer, a_window_with_too_many_places_is_refused) {
    const dhow_window wide = DHOW_INIT(dhow_window, .kernel = {70, 70}, .stride = {1, 1});
    const int64_t shape[] = {1, 1, 70, 70};
    dhow_model *m;
    dhow_model_value x, y;
    dhow_trainer *t;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F64, 4, shape, &x));
    parameter(m, "w", 4, shape, &y);
    OK(dhow_model_mul(m, x, y, &y));
    OK(dhow_model_avgpool2d(m, y, &wide, &y));
    OK(dhow_model_reduce(m, DHOW_REDUCE_SUM, y, NULL, 0, 0, &y));
    OK(dhow_model_output(m, "y", y));
    OK(dhow_model_to(m, g_device));
    dhow_status status = dhow_trainer_create(m, NULL, &t);
    if (status == DHOW_OK) { /* said when the shapes are known */
        dhow_tensor *image;
        OK(dhow_tensor_zeros(g_device, DHOW_F64, 4, shape, &image));
        status = dhow_trainer_backward(t, NULL, &image, 1, NULL, NULL);
        dhow_tensor_release(image);
        dhow_trainer_release(t);
    }
    refused(status, DHOW_INVALID_ARGUMENT, "70 x 70");
    dhow_model_release(m);
}

Test(trainer, mistakes_are_named) {
    const net n = {"linear", 2, {3, 4}, net_linear, DHOW_LOSS_MSE};
    trial t = begin(&n, DHOW_OPTIMIZER_SGD);
    dhow_trainer *none = t.trainer;
    refused(dhow_trainer_create(NULL, NULL, &none), DHOW_INVALID_ARGUMENT, "model is NULL");
    cr_expect_null(none);
    refused(dhow_trainer_create(t.model, NULL, &none), DHOW_INVALID_ARGUMENT, "one number");
    refused(dhow_trainer_create(t.model, &DHOW_INIT(dhow_trainer_options, .trainable = "third.*"),
                                &none),
            DHOW_INVALID_ARGUMENT, "'third.*'");
    refused(dhow_trainer_create(t.model, &DHOW_INIT(dhow_trainer_options, .beta1 = 1), &none),
            DHOW_INVALID_ARGUMENT, "beta1");
    refused(dhow_trainer_create(t.model, &DHOW_INIT(dhow_trainer_options, .nesterov = 1), &none),
            DHOW_INVALID_ARGUMENT, "momentum");
    refused(
        dhow_trainer_create(t.model, &DHOW_INIT(dhow_trainer_options, .learning_rate = NAN), &none),
        DHOW_INVALID_ARGUMENT, "learning_rate");
    refused(dhow_trainer_create(t.model, &DHOW_INIT(dhow_trainer_options, .dampening = NAN), &none),
            DHOW_INVALID_ARGUMENT, "dampening");
    refused(dhow_trainer_backward(t.trainer, NULL, NULL, 1, t.target, NULL), DHOW_INVALID_ARGUMENT,
            "inputs is NULL");
    dhow_tensor *empty;
    OK(dhow_tensor_create(g_device, DHOW_F64, SHAPE(0, 3), &empty));
    refused(dhow_trainer_backward(t.trainer, NULL, &t.x, 1, empty, NULL), DHOW_INVALID_ARGUMENT,
            "batches without samples");
    dhow_tensor_release(empty);
    refused(dhow_trainer_update(t.trainer, NULL), DHOW_INVALID_ARGUMENT, "dhow_trainer_backward");
    refused(dhow_trainer_backward(t.trainer, NULL, &t.x, 1, NULL, NULL), DHOW_INVALID_ARGUMENT,
            "target is NULL");
    refused(dhow_trainer_backward(t.trainer, NULL, &t.x, 1, t.x, NULL), DHOW_INVALID_ARGUMENT,
            "dhow.target");
    refused(dhow_trainer_step(t.trainer,
                              &DHOW_INIT(dhow_batch, .tensor_count = 1, .tensors = {t.x}), NULL),
            DHOW_INVALID_ARGUMENT, "1 columns");
    refused(dhow_trainer_set_learning_rate(t.trainer, -1), DHOW_INVALID_ARGUMENT, "-1");
    refused(dhow_trainer_parameter_at(t.trainer, 3, NULL, NULL, NULL), DHOW_OUT_OF_RANGE, "3 of 3");
    end(&t);
}

/* ---- losses that are not finite ---- */

/* log(x w + v): where the product is 0 or below it is -inf or NaN. */
static void net_log(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    dhow_model_value w;
    parameter(m, "w", SHAPE(3), &w);
    OK(dhow_model_mul(m, x, w, y));
    OK(dhow_model_log(m, *y, y));
    OK(dhow_model_tanh(m, *y, y));
    OK(dhow_model_log(m, *y, y));
    OK(dhow_model_reduce(m, DHOW_REDUCE_SUM, *y, NULL, 0, 0, y));
}

static void find_anomaly(const double x[3], const double w[3], const char *says) {
    const net n = {"log", 1, {3}, net_log, DHOW_LOSS_OUTPUT};
    trial t = begin(&n, DHOW_OPTIMIZER_SGD);
    double loss, after[3];
    dhow_tensor *parameter;
    dhow_trainer_release(t.trainer);
    OK(dhow_trainer_create(
        t.model, &DHOW_INIT(dhow_trainer_options, .learning_rate = 0.1, .detect_anomaly = 1),
        &t.trainer));
    OK(dhow_trainer_parameter_at(t.trainer, 0, NULL, &parameter, NULL));
    OK(dhow_tensor_write(parameter, w, 3 * sizeof *w));
    OK(dhow_tensor_write(t.x, x, 3 * sizeof *x));
    dhow_batch batch = DHOW_INIT(dhow_batch, .tensor_count = 1, .tensors = {t.x});
    dhow_status status = dhow_trainer_step(t.trainer, &batch, &loss);
    if (says == NULL) {
        OK(status);
    } else {
        cr_expect_eq(status, DHOW_INVALID_ARGUMENT);
        cr_expect_not_null(strstr(dhow_last_error(), says), "'%s' does not say '%s'",
                           dhow_last_error(), says);
        OK(dhow_tensor_read(parameter, after, sizeof after));
        cr_expect_arr_eq(after, w, sizeof after);
    }
    dhow_tensor_release(parameter);
    end(&t);
}

Test(trainer, a_loss_that_is_not_finite_names_its_origin) {
    const double fine[3] = {3, 4, 5}, ones[3] = {1, 1, 1}, zero[3] = {3, 0, 5};
    const double less[3] = {3, 4, 0.5}, bad[3] = {3, 4, NAN};
    find_anomaly(fine, ones, NULL);
    find_anomaly(bad, ones,
                 "step 1: the loss is nan; the first tensor that is not finite is "
                 "input 'x' of the batch: its element 2 is nan");
    find_anomaly(fine, bad, "is parameter 'w', by a step before: its element 2 is nan");
    find_anomaly(zero, ones, "is the result of node 1, log: its element 1 is -inf");
    find_anomaly(less, ones, "is the result of node 3, log: its element 2 is nan");
}

/* Another process adds nothing but a loss that is NaN, the second of the three last numbers. */
static dhow_status add_nan(void *user, dhow_dtype dtype, void *data, int64_t count) {
    (void)user;
    if (dtype == DHOW_F64 && count == 3) ((double *)data)[1] = NAN;
    return DHOW_OK;
}

/* sqrt(x w) at 0: with a scale the derivative was looked at too, which is NaN in every step. */
Test(trainer, the_origin_of_a_loss_is_no_derivative) {
    static const double x[3] = {4, 0, 1};
    const dhow_process_group group =
        DHOW_INIT(dhow_process_group, .rank = 0, .size = 2, .all_reduce = add_nan);
    dhow_model *m;
    dhow_model_value v, w;
    dhow_trainer *t;
    dhow_tensor *in;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F64, SHAPE(-1), &v));
    parameter(m, "w", SHAPE(1), &w);
    OK(dhow_model_abs(m, w, &w));
    OK(dhow_model_mul(m, v, w, &v));
    OK(dhow_model_sqrt(m, v, &v));
    OK(dhow_model_reduce(m, DHOW_REDUCE_SUM, v, NULL, 0, 0, &v));
    OK(dhow_model_output(m, "y", v));
    OK(dhow_model_init_parameters(m, 1));
    OK(dhow_model_to(m, g_device));
    OK(dhow_tensor_from_data(g_device, DHOW_F64, SHAPE(3), x, &in));
    for (int scaled = 0; scaled < 2; scaled++) {
        OK(dhow_trainer_create(m,
                               &DHOW_INIT(dhow_trainer_options, .process_group = &group,
                                          .detect_anomaly = 1, .loss_scale = scaled ? 1024 : 0),
                               &t));
        refused(dhow_trainer_backward(t, NULL, &in, 1, NULL, NULL), DHOW_INVALID_ARGUMENT,
                "the loss is nan, all values before it are finite in this process");
        dhow_trainer_release(t);
    }
    dhow_tensor_release(in);
    dhow_model_release(m);
}
