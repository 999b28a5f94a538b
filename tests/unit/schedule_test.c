/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules of the learning rate: the rates of 100 steps are those that PyTorch printed
 * (train_options.py), a trainer follows them by itself, and goes on with them from a checkpoint.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device_fixture.h"
#include "dhow/dhow.h"

enum { STEPS = 100 };

static const struct {
    const char *name;
    double rates[STEPS];
} k_wanted[] = {
#include "schedules.inc"
};

#define WARM .warmup_steps = 7, .start_factor = 0.1
static const dhow_schedule k_schedules[] = {
    DHOW_FIELDS(dhow_schedule, .kind = DHOW_SCHEDULE_CONSTANT),
    DHOW_FIELDS(dhow_schedule, .kind = DHOW_SCHEDULE_STEP, .step_size = 13, .gamma = 0.7),
    DHOW_FIELDS(dhow_schedule, .kind = DHOW_SCHEDULE_EXPONENTIAL, .gamma = 0.97),
    DHOW_FIELDS(dhow_schedule, .kind = DHOW_SCHEDULE_COSINE, .total_steps = 90, .eta_min = 0.002),
    DHOW_FIELDS(dhow_schedule, .kind = DHOW_SCHEDULE_STEP, .step_size = 13, WARM),
    DHOW_FIELDS(dhow_schedule, .kind = DHOW_SCHEDULE_EXPONENTIAL, .gamma = 0.97, WARM),
    DHOW_FIELDS(dhow_schedule, .kind = DHOW_SCHEDULE_COSINE, .total_steps = 93, WARM),
    DHOW_FIELDS(dhow_schedule, .kind = DHOW_SCHEDULE_ONE_CYCLE, .total_steps = STEPS),
    DHOW_FIELDS(dhow_schedule, .kind = DHOW_SCHEDULE_ONE_CYCLE, .total_steps = STEPS,
                .pct_start = 0.1, .div_factor = 4, .final_div_factor = 10)};
enum { KINDS = sizeof k_schedules / sizeof *k_schedules };

static const double k_rate = 0.05;

TestSuite(schedule, .init = open_device, .fini = close_device, .timeout = 300);

Test(schedule, rates_of_100_steps_are_those_of_pytorch) {
    cr_assert_eq(sizeof k_wanted / sizeof *k_wanted, KINDS);
    for (int i = 0; i < KINDS; i++) {
        for (uint64_t n = 0; n < STEPS; n++) {
            const double rate = dhow_schedule_rate(&k_schedules[i], k_rate, n),
                         want = k_wanted[i].rates[n];
            cr_expect(fabs(rate - want) <= 1e-12 * k_rate, "%s, step %d: %.16g, PyTorch's %.16g",
                      k_wanted[i].name, (int)n, rate, want);
        }
    }
}

/* PyTorch's raises an error there. */
Test(schedule, a_cycle_stays_at_its_end) {
    const double end = dhow_schedule_rate(&k_schedules[7], k_rate, STEPS - 1);
    cr_expect_float_eq(dhow_schedule_rate(&k_schedules[7], k_rate, STEPS + 1000), end, 1e-18);
}

/* A warm-up leads to the first rate of what follows. */
Test(schedule, a_warm_up_comes_before_a_cycle) {
    const dhow_schedule s = DHOW_INIT(dhow_schedule, .kind = DHOW_SCHEDULE_ONE_CYCLE,
                                      .total_steps = STEPS, .warmup_steps = 3);
    cr_expect_float_eq(dhow_schedule_rate(&s, 3, 0), 3.0 / 25 / 3, 1e-15);
    for (uint64_t n = 0; n < STEPS; n++)
        cr_expect_eq(dhow_schedule_rate(&s, k_rate, 3 + n),
                     dhow_schedule_rate(&k_schedules[7], k_rate, n));
}

/* ---- trainers ---- */

/* Its output is its loss, and 1 its derivative: SGD takes the rate off the parameter. */
static dhow_trainer *falling(dhow_model **model) {
    dhow_model *m;
    dhow_model_value w;
    dhow_trainer *t;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_parameter(m, "w", DHOW_F64, 0, NULL, &w));
    OK(dhow_model_mul_scalar(m, w, dhow_scalar_f64(1), &w));
    OK(dhow_model_output(m, "y", w));
    OK(dhow_model_to(m, g_device));
    OK(dhow_trainer_create(m, &DHOW_INIT(dhow_trainer_options, .learning_rate = k_rate), &t));
    *model = m;
    return t;
}

/* Each step goes as far as its rate. */
static void follow(dhow_trainer *t, const double *rates, int first, int end) {
    dhow_tensor *w;
    double before, after;
    OK(dhow_trainer_parameter_at(t, 0, NULL, &w, NULL));
    for (int n = first; n < end; n++) {
        cr_expect_float_eq(dhow_trainer_learning_rate(t), rates[n], 1e-12 * k_rate);
        OK(dhow_tensor_read(w, &before, sizeof before));
        OK(dhow_trainer_step(t, &DHOW_INIT(dhow_batch), NULL));
        OK(dhow_tensor_read(w, &after, sizeof after));
        cr_expect_float_eq(before - after, rates[n], 1e-14, "step %d: %.16g, not %.16g", n,
                           before - after, rates[n]);
    }
    dhow_tensor_release(w);
}

Test(schedule, a_trainer_follows_it_and_goes_on_from_a_checkpoint) {
    char path[] = "/tmp/dhow-schedule-XXXXXX";
    const int file = mkstemp(path);
    cr_assert(file >= 0 && close(file) == 0);
    for (int i = 0; i < KINDS; i++) {
        dhow_model *m[2];
        dhow_trainer *one = falling(&m[0]), *other = falling(&m[1]);
        OK(dhow_trainer_set_schedule(one, &k_schedules[i]));
        follow(one, k_wanted[i].rates, 0, 40);
        OK(dhow_trainer_save(one, path));
        follow(one, k_wanted[i].rates, 40, STEPS);
        OK(dhow_trainer_load(other, path)); /* the schedule is in the file */
        follow(other, k_wanted[i].rates, 40, STEPS);
        dhow_trainer_release(one), dhow_trainer_release(other);
        dhow_model_release(m[0]), dhow_model_release(m[1]);
    }
    cr_assert_eq(unlink(path), 0);
}

/* The rate that a schedule begins from is the trainer's; a file without one leaves it. */
Test(schedule, rates_are_multiples_of_the_trainers) {
    char path[] = "/tmp/dhow-schedule-XXXXXX";
    const int file = mkstemp(path);
    cr_assert(file >= 0 && close(file) == 0);
    dhow_model *m;
    dhow_trainer *t = falling(&m);
    OK(dhow_trainer_save(t, path));
    OK(dhow_trainer_set_schedule(t, &k_schedules[7]));
    OK(dhow_trainer_set_learning_rate(t, 50));
    cr_expect_float_eq(dhow_trainer_learning_rate(t), 2, 1e-12);
    OK(dhow_trainer_load(t, path));
    cr_expect_float_eq(dhow_trainer_learning_rate(t), k_rate / 25, 1e-12);
    OK(dhow_trainer_set_schedule(t, NULL));
    cr_expect_eq(dhow_trainer_learning_rate(t), k_rate);
    cr_expect_eq(dhow_trainer_learning_rate(NULL), 0);
    dhow_trainer_release(t);
    dhow_model_release(m);
    cr_assert_eq(unlink(path), 0);
}

static void refused(const dhow_schedule *s, const char *part) {
    cr_expect(isnan(dhow_schedule_rate(s, k_rate, 0)), "%s", part);
    cr_expect_not_null(strstr(dhow_last_error(), part), "'%s' is not in '%s'", part,
                       dhow_last_error());
}
#define REFUSED(part, ...) refused(&DHOW_INIT(dhow_schedule, __VA_ARGS__), part)

Test(schedule, mistakes_are_named) {
    dhow_model *m;
    dhow_trainer *t = falling(&m);
    refused(NULL, "schedule is NULL");
    refused(&(dhow_schedule){0}, "DHOW_INIT(dhow_schedule)");
    REFUSED("5 is no kind", .kind = (dhow_schedule_kind)5);
    REFUSED("step_size is 0", .kind = DHOW_SCHEDULE_STEP);
    REFUSED("gamma is 0", .kind = DHOW_SCHEDULE_EXPONENTIAL);
    REFUSED("gamma is -1", .kind = DHOW_SCHEDULE_STEP, .step_size = 1, .gamma = -1);
    REFUSED("total_steps is 0", .kind = DHOW_SCHEDULE_COSINE);
    REFUSED("eta_min is -1", .kind = DHOW_SCHEDULE_COSINE, .total_steps = 1, .eta_min = -1);
    REFUSED("total_steps is 0", .kind = DHOW_SCHEDULE_ONE_CYCLE);
    REFUSED("pct_start is 2", .kind = DHOW_SCHEDULE_ONE_CYCLE, .total_steps = 9, .pct_start = 2);
    REFUSED("is no step of 3", .kind = DHOW_SCHEDULE_ONE_CYCLE, .total_steps = 3);
    REFUSED("div_factor is -1", .kind = DHOW_SCHEDULE_ONE_CYCLE, .total_steps = 9,
            .div_factor = -1);
    REFUSED("final_div_factor is nan", .kind = DHOW_SCHEDULE_ONE_CYCLE, .total_steps = 9,
            .final_div_factor = NAN);
    REFUSED("start_factor is 3", .start_factor = 3);
    cr_expect(isnan(dhow_schedule_rate(&k_schedules[0], -1, 0)));
    cr_expect_eq(dhow_trainer_set_schedule(
                     t, &DHOW_INIT(dhow_schedule, .kind = DHOW_SCHEDULE_STEP, .gamma = 1)),
                 DHOW_INVALID_ARGUMENT);
    cr_expect_eq(dhow_trainer_learning_rate(t), k_rate);
    dhow_trainer_release(t);
    dhow_model_release(m);
}
