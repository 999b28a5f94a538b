/* SPDX-License-Identifier: Apache-2.0
 *
 * The CTC loss beside the sum over all ways, one by one, and its derivative beside central
 * differences, on the device that DHOW_DEVICE names.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "dhow/dhow.h"
#include "dhow/model_steps.h"
#include "train_fixture.h"

TestSuite(ctc, .init = open_device, .fini = close_device, .timeout = 300);

enum { STEPS = 5, BATCH = 4, CLASSES = 3, LABELS = 3, COLUMNS = 2 + LABELS };

/* One class twice, fewer steps than there are, no class at all, and one alone with what lies behind
 * a target. */
static const int64_t k_targets[BATCH][COLUMNS] = {
    {5, 3, 1, 1, 2}, {4, 2, 2, 1, -7}, {3, 0, 0, 9, 0}, {5, 1, 2, 2, 1}};

static double number(int64_t i) {
    return (double)((uint64_t)(i + 7) * UINT64_C(2654435761) >> 9 & 1023) / 512 - 1;
}

/* Scores of x w, or their log-softmax. */
static void begin(trial *t, dhow_dtype dtype, int normal, const int64_t *targets,
                  int32_t zero_infinity) {
    static const int64_t shape[] = {STEPS, BATCH, CLASSES}, rows[] = {BATCH, COLUMNS};
    double wide[STEPS * BATCH * CLASSES];
    float narrow[STEPS * BATCH * CLASSES];
    dhow_tensor *w;
    dhow_model_value x, y;
    OK(dhow_model_create(g_context, &t->model));
    OK(dhow_model_input(t->model, "x", dtype, 3, shape, &x));
    OK(dhow_model_parameter(t->model, "w", dtype, 3, shape, &y));
    OK(dhow_model_mul(t->model, x, y, &y));
    if (normal) OK(dhow_model_log_softmax(t->model, y, -1, &y));
    OK(dhow_model_output(t->model, "y", y));
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < STEPS * BATCH * CLASSES; i++)
            narrow[i] = (float)(wide[i] = number(i + 100 * k) + (k == 1));
        const void *data = dtype == DHOW_F64 ? (const void *)wide : narrow;
        if (k == 1) OK(dhow_tensor_from_data(g_device, dtype, 3, shape, data, &t->x));
        if (k == 1) continue;
        OK(dhow_tensor_from_data(g_device, dtype, 3, shape, data, &w));
        OK(dhow_model_set_parameter(t->model, "w", w));
        dhow_tensor_release(w);
    }
    OK(dhow_model_to(t->model, g_device));
    OK(dhow_tensor_from_data(g_device, DHOW_I64, 2, rows, targets, &t->target));
    OK(dhow_trainer_create(
        t->model,
        &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_CTC, .ctc_zero_infinity = zero_infinity),
        &t->trainer));
}

static void end(trial *t) {
    dhow_trainer_release(t->trainer);
    dhow_model_release(t->model);
    dhow_tensor_release(t->x);
    dhow_tensor_release(t->target);
}

/* ---- all ways ---- */

/* Whether the classes of a way, without repetitions and blanks, are the target. */
static int spells(const int *way, int64_t steps, const int64_t *target, int64_t count) {
    int64_t found = 0;
    int before = 0;
    for (int64_t t = 0; t < steps; before = way[t++]) {
        if (way[t] == 0 || way[t] == before) continue;
        if (found == count || target[found++] != way[t]) return 0;
    }
    return found == count;
}

static double loss_of_ways(const int64_t *target, int64_t n, int normal) {
    double scores[STEPS][CLASSES], sum = 0;
    int way[STEPS] = {0};
    for (int64_t t = 0; t < target[0]; t++) {
        double total = 0;
        for (int64_t c = 0; c < CLASSES; c++) {
            const int64_t i = (t * BATCH + n) * CLASSES + c;
            scores[t][c] = number(i) * (number(i + 100) + 1);
            total += exp(scores[t][c]);
        }
        for (int64_t c = 0; c < CLASSES && normal; c++) scores[t][c] -= log(total);
    }
    for (int64_t t = 0; t < target[0];) {
        double score = 0;
        for (int64_t i = 0; i < target[0]; i++) score += scores[i][way[i]];
        if (spells(way, target[0], target + 2, target[1])) sum += exp(score);
        for (t = 0; t < target[0] && ++way[t] == CLASSES; t++) way[t] = 0;
    }
    return -log(sum) / (target[1] > 0 ? (double)target[1] : 1);
}

static double mean_of_ways(const int64_t (*targets)[COLUMNS], int normal) {
    double sum = 0;
    for (int64_t n = 0; n < BATCH; n++) sum += loss_of_ways(targets[n], n, normal);
    return sum / BATCH;
}

Test(ctc, it_is_the_sum_over_all_ways) {
    for (int normal = 0; normal < 2; normal++) {
        const double wanted = mean_of_ways(k_targets, normal);
        for (int narrow = 0; narrow < 2; narrow++) {
            trial t;
            begin(&t, narrow ? DHOW_F32 : DHOW_F64, normal, k_targets[0], 0);
            cr_expect_float_eq(loss_of(&t), wanted, narrow ? 1e-6 : 1e-13, "%.15g, not %.15g",
                               loss_of(&t), wanted);
            end(&t);
        }
    }
}

Test(ctc, its_derivative_is_what_central_differences_say) {
    for (int normal = 0; normal < 2; normal++) {
        trial t;
        begin(&t, DHOW_F64, normal, k_targets[0], 0);
        check_parameter(&t, normal ? "log-softmax" : "scores", 0);
        end(&t);
    }
}

/* Every other way's logarithm is kept apart from -inf, or the derivative would be NaN. */
Test(ctc, a_target_that_its_input_is_too_short_for_is_infinite_or_left_out) {
    int64_t targets[BATCH][COLUMNS];
    double slopes[STEPS * BATCH * CLASSES], wanted = 0;
    dhow_tensor *g;
    memcpy(targets, k_targets, sizeof targets);
    targets[0][0] = 3; /* 1 1 2 want a blank between */
    for (int64_t n = 1; n < BATCH; n++) wanted += loss_of_ways(targets[n], n, 1) / BATCH;
    for (int32_t zero = 0; zero < 2; zero++) {
        trial t;
        begin(&t, DHOW_F64, 1, targets[0], zero);
        const double loss = loss_of(&t);
        cr_expect(zero ? fabs(loss - wanted) < 1e-13 : isinf(loss) && loss > 0, "%g", loss);
        OK(dhow_trainer_parameter_at(t.trainer, 0, NULL, NULL, &g));
        OK(dhow_tensor_read(g, slopes, sizeof slopes));
        for (int i = 0; i < STEPS * BATCH * CLASSES; i++)
            cr_expect(i / CLASSES % BATCH == 0 ? slopes[i] == 0 : isfinite(slopes[i]), "%d: %g", i,
                      slopes[i]);
        if (zero) check_parameter(&t, "one left out", 0);
        dhow_tensor_release(g);
        end(&t);
    }
}

Test(ctc, lengths_and_classes_that_are_none_make_the_loss_nan) {
    static const struct {
        int column;
        int64_t value;
    } wrong[] = {{0, STEPS + 1}, {0, 0}, {1, LABELS + 1}, {1, -1}, {2, 0}, {3, CLASSES}, {4, -1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int64_t targets[BATCH][COLUMNS];
        trial t;
        memcpy(targets, k_targets, sizeof targets);
        targets[0][wrong[i].column] = wrong[i].value;
        begin(&t, DHOW_F64, 1, targets[0], 0);
        const double loss = loss_of(&t);
        cr_expect(isnan(loss), "%zu: %g", i, loss);
        end(&t);
    }
}

Test(ctc, mistakes_are_named) {
    const int64_t shape[] = {STEPS, CLASSES}, one[] = {BATCH, 1};
    dhow_trainer *trainer;
    dhow_tensor *narrow;
    dhow_model *m;
    dhow_model_value x, y;
    trial t;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F64, 2, shape, &x));
    OK(dhow_model_parameter(m, "w", DHOW_F64, 2, shape, &y));
    OK(dhow_model_mul(m, x, y, &y));
    OK(dhow_model_output(m, "y", y));
    cr_expect_eq(
        dhow_trainer_create(m, &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_CTC), &trainer),
        DHOW_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(dhow_last_error(), "[steps, n, classes]"), "%s", dhow_last_error());
    cr_expect_eq(
        dhow_trainer_create(
            m, &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE, .ctc_zero_infinity = 1),
            &trainer),
        DHOW_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(dhow_last_error(), "ctc_zero_infinity is of DHOW_LOSS_CTC"), "%s",
                       dhow_last_error());
    dhow_model_release(m);
    begin(&t, DHOW_F64, 1, k_targets[0], 0);
    OK(dhow_tensor_zeros(g_device, DHOW_I64, 2, one, &narrow));
    cr_expect_eq(dhow_trainer_backward(t.trainer, NULL, &t.x, 1, narrow, NULL),
                 DHOW_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(dhow_last_error(), "[n, 2 + s]"), "%s", dhow_last_error());
    dhow_tensor_release(narrow);
    end(&t);
}
