/* SPDX-License-Identifier: Apache-2.0
 *
 * Dropout in training: the masks are those of the documented generator on every device.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "dhow/dhow.h"
#include "trial_fixture.h"

TestSuite(train_dropout, .init = set_up, .fini = close_device, .timeout = 300);

enum { DROPPED = 3000, SHARE = 4 }; /* elements; one in four becomes 0 */

/* SplitMix64 as include/dhow/model_steps.h and kernels/dropout.k have it. */
static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}
static int is_dropped(uint64_t seed, uint64_t step, uint64_t layer, uint64_t element) {
    const uint64_t each = UINT64_C(0x9e3779b97f4a7c15),
                   key = mixed(mixed(seed + each) + step * each),
                   state = mixed(key + (layer + 1) * each);
    return mixed(state + (element + 1) * each) >> 32 < (UINT64_C(1) << 32) / SHARE;
}

/* The sum of dropout(dropout(x w)) as a model and its loss. */
static dhow_model *dropping(dhow_dtype dtype) {
    dhow_model *m;
    dhow_model_value x, w, y;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", dtype, SHAPE(2, DROPPED / 2), &x));
    OK(dhow_model_parameter(m, "w", dtype, SHAPE(2, DROPPED / 2), &w));
    OK(dhow_model_mul(m, x, w, &y));
    static const dhow_layer layers[] = {
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_DROPOUT, .p = 1.0 / SHARE),
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_DROPOUT),
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_DROPOUT, .p = 1.0 / SHARE)};
    OK(dhow_model_sequential(m, NULL, y, layers, 3, &y));
    OK(dhow_model_reduce(m, DHOW_REDUCE_SUM, y, NULL, 0, 0, &y));
    OK(dhow_model_output(m, "y", y));
    dhow_tensor *ones;
    OK(dhow_tensor_full(g_cpu, dtype, SHAPE(2, DROPPED / 2), 1, &ones));
    OK(dhow_model_set_parameter(m, "w", ones));
    dhow_tensor_release(ones);
    OK(dhow_model_to(m, g_device));
    return m;
}

static void read_numbers(dhow_tensor *t, double *values, uint64_t count) {
    dhow_tensor *home, *wide;
    OK(dhow_tensor_to(t, g_cpu, &home));
    OK(dhow_tensor_to_dtype(NULL, home, DHOW_F64, &wide));
    OK(dhow_tensor_read(wide, values, count * sizeof *values));
    dhow_tensor_release(home), dhow_tensor_release(wide);
}

/* The gradient by w is x where nothing fell to either layer's mask, which is known beforehand: the
 * same on all devices. */
static void check_masks(dhow_dtype dtype, uint64_t seed) {
    static double gradients[DROPPED];
    dhow_model *m = dropping(dtype);
    dhow_tensor *x, *g, *y;
    dhow_trainer *trainer;
    OK(dhow_tensor_full(g_device, dtype, SHAPE(2, DROPPED / 2), 2, &x));
    OK(dhow_trainer_create(m, &DHOW_INIT(dhow_trainer_options, .seed = seed), &trainer));
    OK(dhow_trainer_parameter_at(trainer, 0, NULL, NULL, &g));
    for (uint64_t step = 1; step <= 6; step++) { /* the later ones are replayed */
        const double kept = 1.0 / (1 - 1.0 / SHARE);
        double loss, sum = 0;
        int zeros = 0;
        OK(dhow_trainer_zero_gradients(trainer));
        OK(dhow_trainer_backward(trainer, NULL, &x, 1, NULL, &loss));
        read_numbers(g, gradients, DROPPED);
        for (uint64_t i = 0; i < DROPPED; i++) {
            const int gone = is_dropped(seed, step, 0, i) || is_dropped(seed, step, 1, i);
            const double want = gone ? 0 : 2 * kept * kept;
            zeros += gone;
            sum += want;
            cr_assert_float_eq(gradients[i], want, 1e-5 * want, "step %d, element %d: %g, not %g",
                               (int)step, (int)i, gradients[i], want);
        }
        cr_assert_float_eq(loss, sum, 1e-4 * sum, "%g is the loss, %g the sum", loss, sum);
        /* 7/16 with a standard deviation of 27 */
        cr_assert(abs(zeros - DROPPED * 7 / 16) < 110, "%d zeros of %d", zeros, DROPPED);
    }
    OK(dhow_model_run(m, NULL, &x, 1, &y, 1)); /* evaluated, nothing is dropped */
    read_numbers(y, gradients, 1);
    cr_assert_eq(gradients[0], 2.0 * DROPPED);
    dhow_tensor_release(x), dhow_tensor_release(y), dhow_tensor_release(g);
    dhow_trainer_release(trainer);
    dhow_model_release(m);
}

Test(train_dropout, dropout_has_the_same_masks_everywhere_and_none_in_evaluation) {
    check_masks(DHOW_F32, 0);
    check_masks(DHOW_F64, UINT64_C(0xfedcba9876543210));
}

Test(train_dropout, dropout_of_everything_and_of_no_probability) {
    dhow_model *m;
    dhow_model_value x, y, i;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, SHAPE(4), &x));
    OK(dhow_model_input(m, "i", DHOW_I64, SHAPE(4), &i));
    static const struct {
        double p;
        const char *says;
    } wrong[] = {{-0.5, "p is -0.5"}, {1.5, "p is 1.5"}, {NAN, "p is nan"}};
    for (int k = 0; k < 3; k++) {
        cr_assert_eq(dhow_model_dropout(m, x, wrong[k].p, &y), DHOW_INVALID_ARGUMENT);
        cr_assert_not_null(strstr(dhow_last_error(), wrong[k].says), "%s", dhow_last_error());
    }
    cr_assert_eq(dhow_model_dropout(m, i, 0.5, &y), DHOW_INVALID_ARGUMENT);
    dhow_model_value w;
    dhow_tensor *t, *g;
    dhow_trainer *trainer;
    double loss, slopes[4];
    OK(dhow_model_parameter(m, "w", DHOW_F32, SHAPE(4), &w));
    OK(dhow_model_add(m, x, w, &y));
    OK(dhow_model_dropout(m, y, 1, &y));
    OK(dhow_model_reduce(m, DHOW_REDUCE_SUM, y, NULL, 0, 0, &y));
    OK(dhow_model_output(m, "y", y));
    OK(dhow_model_to(m, g_device));
    OK(dhow_trainer_create(m, NULL, &trainer));
    OK(dhow_tensor_full(g_device, DHOW_F32, SHAPE(4), INFINITY, &t));
    OK(dhow_tensor_to_dtype(NULL, t, DHOW_I64, &g));
    OK(dhow_trainer_backward(trainer, NULL, (dhow_tensor *[]){t, g}, 2, NULL, &loss));
    cr_assert_eq(loss, 0, "not infinity times 0: %g", loss);
    dhow_tensor_release(g);
    OK(dhow_trainer_parameter_at(trainer, 0, NULL, NULL, &g));
    read_numbers(g, slopes, 4);
    for (int k = 0; k < 4; k++) cr_assert_eq(slopes[k], 0);
    dhow_tensor_release(t), dhow_tensor_release(g);
    dhow_trainer_release(trainer);
    dhow_model_release(m);
}
