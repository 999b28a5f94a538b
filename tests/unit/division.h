/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of training on several devices share: devices, small networks, batches, and the curve
 * of a training. The devices are those that DHOW_TEST_DEVICES names, the CPU and two simulated ones
 * otherwise.
 */
#ifndef TESTS_UNIT_DIVISION_H_
#define TESTS_UNIT_DIVISION_H_

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "dhow/dhow.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())
#define SAYS(wanted)                                                                  \
    cr_assert_not_null(strstr(dhow_last_error(), (wanted)), "'%s' does not say '%s'", \
                       dhow_last_error(), (wanted))

enum { MOST = 8, STEPS = 8, CLASSES = 5, SIDE = 6, FEATURES = SIDE * SIDE };

extern dhow_context *g_context;
extern dhow_device *g_devices[MOST];
extern uint32_t g_count;

/* With DHOW_SIM and DHOW_SIM_FAULTS. */
void open_devices(const char *settings, const char *faults);
void set_up(void);
void tear_down(void);

/* ---- models and batches ---- */

typedef void build(dhow_model *m, dhow_model_value x, dhow_model_value *y);
build net_mlp, net_cnn, net_dropout, net_batchnorm;

/* Of `rows` rows, -1 for any number, on the first device. */
dhow_model *model_of(build *net, int64_t rows);
float number(int64_t i);
/* The last one is shorter, as an epoch's. */
int64_t rows_of(int step);
void batch_of(int step, bool classes, dhow_device *device, dhow_batch *out);
void release(dhow_batch *batch);

/* ---- curves ---- */

typedef struct curve {
    double losses[STEPS];
    float parameters[2048];
    size_t count;
} curve;

void read_parameters(const dhow_trainer *t, curve *out);
/* A training of STEPS steps, whose gradients are those of `accumulate` of them. */
void train(build *net, const dhow_trainer_options *options, int accumulate, dhow_device *data,
           curve *out);
/* Sums in another order: a part in a million of losses and parameters. */
void check_alike(const char *what, const curve *one, const curve *many);
/* A trainer that cannot be made says so. */
void refused(const dhow_model *m, const dhow_trainer_options *options, const char *says);

#endif /* TESTS_UNIT_DIVISION_H_ */
