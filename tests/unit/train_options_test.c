/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of losses and gradients: losses and their derivatives are those that PyTorch printed
 * (train_options.py, which has the same cases in Python), on the device that DHOW_DEVICE names.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_fixture.h"
#include "dhow/dhow.h"

#define OPTIONS(...) &DHOW_INIT(dhow_trainer_options, __VA_ARGS__)

enum { COUNT = 12 };

static const struct {
    const char *name;
    double numbers[1 + COUNT]; /* the loss, and its derivative by each score */
} k_wanted[] = {
#include "train_options.inc"
};

static size_t g_case; /* of k_wanted */

static void set_up(void) {
    open_device();
    g_case = 0;
}

TestSuite(train_options, .init = set_up, .fini = close_device, .timeout = 300);

/* ---- numbers ---- */

/* -1 .. 1, none of them near 0 */
static double number(int64_t i) {
    const double x = (double)((uint64_t)(i + 7) * UINT64_C(2654435761) >> 9 & 1023) / 512 - 1;
    return fabs(x) < 0.05 ? x + 0.1 : x;
}

static const int64_t *shape_of(int32_t rank) {
    static const int64_t two[] = {3, 4}, three[] = {2, 3, 2};
    return rank == 2 ? two : three;
}

static dhow_tensor *tensor(int32_t rank, const int64_t *shape, const double *data) {
    dhow_tensor *t;
    OK(dhow_tensor_from_data(g_device, DHOW_F64, rank, shape, data, &t));
    return t;
}

/* scale x; or, with a least number, scale (least + |x|) */
static dhow_tensor *row(int64_t first, int32_t rank, const int64_t *shape, double scale,
                        double least) {
    double data[COUNT];
    for (int64_t i = 0; i < COUNT; i++) {
        const double x = number(first + i);
        data[i] = scale * (least >= 0 ? least + fabs(x) : x);
    }
    return tensor(rank, shape, data);
}

static dhow_tensor *probabilities(int32_t rank) {
    double data[COUNT];
    for (int64_t i = 0; i < COUNT; i++) data[i] = i == 2 ? 0 : fabs(number(80 + i));
    return tensor(rank, shape_of(rank), data);
}

/* ---- losses ---- */

static dhow_model *scores(int32_t rank) {
    dhow_model *m;
    dhow_model_value x, w;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F64, rank, shape_of(rank), &x));
    OK(dhow_model_parameter(m, "w", DHOW_F64, rank, shape_of(rank), &w));
    OK(dhow_model_add(m, x, w, &x));
    OK(dhow_model_output(m, "y", x));
    OK(dhow_model_to(m, g_device));
    return m;
}

/* Numbers before the last one were given for `name`; releases the target. */
static void compare(const char *name, int32_t rank, const dhow_trainer_options *options,
                    dhow_tensor *target) {
    dhow_model *m = scores(rank);
    dhow_tensor *x = row(0, rank, shape_of(rank), 2, -1), *gradient;
    dhow_trainer *t;
    double found[1 + COUNT];
    cr_assert_lt(g_case, sizeof k_wanted / sizeof *k_wanted);
    cr_assert_str_eq(name, k_wanted[g_case].name);
    OK(dhow_trainer_create(m, options, &t));
    OK(dhow_trainer_backward(t, NULL, &x, 1, target, &found[0]));
    OK(dhow_trainer_parameter_at(t, 0, NULL, NULL, &gradient));
    OK(dhow_tensor_read(gradient, &found[1], COUNT * sizeof *found));
    for (int i = 0; i < 1 + COUNT; i++) {
        const double want = k_wanted[g_case].numbers[i];
        cr_expect(fabs(found[i] - want) <= 1e-12 * fmax(1, fabs(want)),
                  "%s, number %d: %.16g, PyTorch's %.16g", name, i, found[i], want);
    }
    g_case++;
    dhow_tensor_release(gradient);
    dhow_tensor_release(target);
    dhow_tensor_release(x);
    dhow_trainer_release(t);
    dhow_model_release(m);
}

static dhow_tensor *classes(int32_t rank, int64_t ignored) {
    const int64_t two[] = {1, ignored, 3}, three[] = {2, ignored, 1, 0}, shape[] = {2, 2},
                  line[] = {3};
    dhow_tensor *t;
    if (rank == 2) OK(dhow_tensor_from_data(g_device, DHOW_I64, 1, line, two, &t));
    if (rank == 3) OK(dhow_tensor_from_data(g_device, DHOW_I64, 2, shape, three, &t));
    return t;
}

static void compare_classes(int32_t rank, dhow_tensor *weight, const int64_t *ignored) {
    static const double smoothings[] = {0, 0.1, 1};
    const int64_t index = ignored != NULL ? *ignored : -100;
    char text[64], name[128];
    (void)snprintf(text, sizeof text, "rank %d, weight %d, ignored %lld", (int)rank, weight != NULL,
                   (long long)index);
    (void)snprintf(name, sizeof name, "nll, %s", text);
    compare(name, rank, OPTIONS(.loss = DHOW_LOSS_NLL, .weight = weight, .ignore_index = ignored),
            classes(rank, index));
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(name, sizeof name, "entropy, %s, smoothing %g", text, smoothings[i]);
        compare(name, rank,
                OPTIONS(.loss = DHOW_LOSS_CROSS_ENTROPY, .weight = weight, .ignore_index = ignored,
                        .label_smoothing = smoothings[i]),
                classes(rank, index));
    }
}

static void compare_probabilities(int32_t rank, dhow_tensor *weight) {
    static const double smoothings[] = {0, 0.1};
    char name[128];
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(name, sizeof name, "probabilities, rank %d, weight %d, smoothing %g",
                       (int)rank, weight != NULL, smoothings[i]);
        compare(name, rank,
                OPTIONS(.loss = DHOW_LOSS_CROSS_ENTROPY_PROBABILITIES, .weight = weight,
                        .label_smoothing = smoothings[i]),
                probabilities(rank));
    }
}

static void by_class(void) {
    static const int64_t ignored[] = {0, 2, -7};
    for (int32_t rank = 2; rank <= 3; rank++) {
        dhow_tensor *weights[] = {NULL, row(40, 1, &shape_of(rank)[1], 1, 0.5)};
        for (int k = 0; k < 2; k++) {
            compare_classes(rank, weights[k], NULL);
            for (int i = 0; i < 3; i++) compare_classes(rank, weights[k], &ignored[i]);
            compare_probabilities(rank, weights[k]);
        }
        dhow_tensor_release(weights[1]);
    }
}

static void by_element(void) {
    static const double widths[] = {0.5, 1, 2};
    char name[128];
    for (int32_t rank = 2; rank <= 3; rank++) {
        const int64_t *shape = shape_of(rank);
        dhow_tensor *weights[] = {NULL, row(60, 1, &shape[rank - 1], 2, 0.25),
                                  row(60, 0, NULL, 2, 0.25)};
        for (int i = 0; i < 3; i++) {
            (void)snprintf(name, sizeof name, "smooth l1, rank %d, width %g", (int)rank, widths[i]);
            compare(name, rank,
                    OPTIONS(.loss = DHOW_LOSS_SMOOTH_L1, .smooth_l1_beta = i == 1 ? 0 : widths[i]),
                    row(90, rank, shape, 2, -1));
            (void)snprintf(name, sizeof name, "huber, rank %d, width %g", (int)rank, widths[i]);
            compare(name, rank,
                    OPTIONS(.loss = DHOW_LOSS_HUBER, .huber_delta = i == 1 ? 0 : widths[i]),
                    row(90, rank, shape, 2, -1));
        }
        for (int i = 0; i < 3; i++) {
            (void)snprintf(name, sizeof name, "binary, rank %d, weight %d", (int)rank, i);
            compare(name, rank,
                    OPTIONS(.loss = DHOW_LOSS_BCE_WITH_LOGITS, .pos_weight = weights[i]),
                    row(80, rank, shape, 1, 0));
        }
        (void)snprintf(name, sizeof name, "divergence, rank %d", (int)rank);
        compare(name, rank, OPTIONS(.loss = DHOW_LOSS_KL_DIV), probabilities(rank));
        dhow_tensor_release(weights[1]);
        dhow_tensor_release(weights[2]);
    }
}

Test(train_options, losses_and_their_derivatives_are_those_of_pytorch) {
    by_class();
    by_element();
    cr_expect_eq(g_case, sizeof k_wanted / sizeof *k_wanted);
}

/* The options' tensors and numbers are copied: the caller may release and change them at once. A
 * class that is none is told with every option. */
Test(train_options, classes_that_are_none_make_the_loss_nan) {
    int64_t ignored = 1;
    dhow_model *m = scores(2);
    dhow_tensor *x = row(0, 2, shape_of(2), 2, -1), *weight = row(40, 1, &shape_of(2)[1], 1, 0.5),
                *target = classes(2, 1);
    dhow_trainer *t;
    double loss;
    OK(dhow_trainer_create(m,
                           OPTIONS(.loss = DHOW_LOSS_CROSS_ENTROPY, .weight = weight,
                                   .ignore_index = &ignored, .label_smoothing = 0.2),
                           &t));
    dhow_tensor_release(weight);
    ignored = 3;
    OK(dhow_trainer_backward(t, NULL, &x, 1, target, &loss));
    cr_expect(isfinite(loss));
    const int64_t wrong[] = {4, -1, -100};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        OK(dhow_tensor_write(target, (int64_t[]){wrong[i], 2, 1}, 3 * sizeof *wrong));
        OK(dhow_trainer_backward(t, NULL, &x, 1, target, &loss));
        cr_expect(isnan(loss), "class %lld of 4, 1 being ignored: %g", (long long)wrong[i], loss);
    }
    dhow_tensor_release(x);
    dhow_tensor_release(target);
    dhow_trainer_release(t);
    dhow_model_release(m);
}

/* ---- gradients ---- */

/* As torch.nn.utils.clip_grad_value_: the mean of squares of 12 differences has slopes d / 6. */
Test(train_options, gradients_are_cut_one_by_one) {
    static const double rate = 0.5, most = 0.125;
    dhow_model *m = scores(2);
    dhow_tensor *x = row(0, 2, shape_of(2), 2, -1), *target = row(90, 2, shape_of(2), 2, -1), *w;
    dhow_trainer *t;
    double found[COUNT];
    int cut = 0;
    OK(dhow_trainer_create(
        m, OPTIONS(.loss = DHOW_LOSS_MSE, .learning_rate = rate, .clip_value = most), &t));
    OK(dhow_trainer_backward(t, NULL, &x, 1, target, NULL));
    OK(dhow_trainer_update(t, NULL));
    OK(dhow_trainer_parameter_at(t, 0, NULL, &w, NULL));
    OK(dhow_tensor_read(w, found, sizeof found));
    for (int i = 0; i < COUNT; i++) {
        const double slope = (2 * number(i) - 2 * number(90 + i)) / 6;
        cut += fabs(slope) > most;
        cr_expect_float_eq(found[i], -rate * fmin(fmax(slope, -most), most), 1e-15, "%d: %g", i,
                           found[i]);
    }
    cr_expect(cut > 0 && cut < COUNT, "%d of %d", cut, COUNT);
    dhow_tensor_release(w);
    dhow_tensor_release(x);
    dhow_tensor_release(target);
    dhow_trainer_release(t);
    dhow_model_release(m);
}

/* ---- mistakes ---- */

static void refused(dhow_model *m, const dhow_trainer_options *options, const char *part) {
    dhow_trainer *t;
    const dhow_status status = dhow_trainer_create(m, options, &t);
    cr_expect_eq(status, DHOW_INVALID_ARGUMENT, "%s", part);
    if (status != DHOW_OK)
        cr_expect_not_null(strstr(dhow_last_error(), part), "'%s' is not in '%s'", part,
                           dhow_last_error());
    dhow_trainer_release(t);
}

Test(train_options, mistakes_are_named) {
    static const int64_t ignored = 0, five = 5, one = 1;
    dhow_model *m = scores(2);
    dhow_tensor *many = row(0, 1, &five, 1, -1), *narrow,
                *square = row(0, 2, (int64_t[]){4, 1}, 1, -1);
    OK(dhow_tensor_zeros(g_device, DHOW_F32, 1, &one, &narrow));
    refused(m, OPTIONS(.loss = (dhow_loss)11), "11 is no loss");
    refused(m, OPTIONS(.loss = DHOW_LOSS_MSE, .label_smoothing = 0.1), "label_smoothing is of");
    refused(m, OPTIONS(.loss = DHOW_LOSS_NLL, .label_smoothing = 0.1), "label_smoothing is of");
    refused(m, OPTIONS(.loss = DHOW_LOSS_CROSS_ENTROPY, .label_smoothing = 1.5), "it is 0 to 1");
    refused(m, OPTIONS(.loss = DHOW_LOSS_CROSS_ENTROPY, .label_smoothing = NAN), "it is 0 to 1");
    refused(m, OPTIONS(.loss = DHOW_LOSS_MSE, .ignore_index = &ignored), "ignore_index is of");
    refused(m, OPTIONS(.loss = DHOW_LOSS_CROSS_ENTROPY_PROBABILITIES, .ignore_index = &ignored),
            "ignore_index is of");
    refused(m, OPTIONS(.loss = DHOW_LOSS_L1, .weight = many), "weight is of");
    refused(m, OPTIONS(.loss = DHOW_LOSS_NLL, .weight = many), "one for each class");
    refused(m, OPTIONS(.loss = DHOW_LOSS_NLL, .weight = square), "one for each class");
    refused(m, OPTIONS(.loss = DHOW_LOSS_NLL, .weight = narrow), "weight is f32, the output f64");
    refused(m, OPTIONS(.loss = DHOW_LOSS_CROSS_ENTROPY, .pos_weight = many), "pos_weight is of");
    refused(m, OPTIONS(.loss = DHOW_LOSS_BCE_WITH_LOGITS, .pos_weight = many),
            "does not broadcast");
    refused(m, OPTIONS(.loss = DHOW_LOSS_L1, .smooth_l1_beta = 2), "smooth_l1_beta is of");
    refused(m, OPTIONS(.loss = DHOW_LOSS_SMOOTH_L1, .smooth_l1_beta = -1), "it is above 0");
    refused(m, OPTIONS(.loss = DHOW_LOSS_SMOOTH_L1, .huber_delta = 1), "huber_delta is of");
    refused(m, OPTIONS(.loss = DHOW_LOSS_HUBER, .huber_delta = INFINITY), "it is above 0");
    refused(m, OPTIONS(.loss = DHOW_LOSS_MSE, .clip_value = -1), "clip_value");
    refused(m, OPTIONS(.loss = DHOW_LOSS_MSE, .clip_value = 1, .clip_norm = 1), "choose one");
    dhow_tensor_release(many);
    dhow_tensor_release(narrow);
    dhow_tensor_release(square);
    dhow_model_release(m);
}
