/* SPDX-License-Identifier: Apache-2.0
 *
 * See division.h.
 */
#include "division.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dhow/model_steps.h"

dhow_context *g_context;
dhow_device *g_devices[MOST];
uint32_t g_count;

void open_devices(const char *settings, const char *faults) {
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
void set_up(void) { open_devices("jitter_us=100", ""); }
void tear_down(void) { dhow_context_release(g_context); }
/* ---- models and batches ---- */

void net_mlp(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    OK(dhow_model_linear(m, "first", x, FEATURES, 16, 1, y));
    OK(dhow_model_gelu(m, *y, y));
    OK(dhow_model_linear(m, "second", *y, 16, CLASSES, 1, y));
}

void net_cnn(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    OK(dhow_model_reshape(m, x, 4, (int64_t[]){-1, 1, SIDE, SIDE}, y));
    OK(dhow_model_conv2d(m, "conv", *y, 1, 3, &DHOW_INIT(dhow_window, .kernel = {3, 3}), 1, y));
    OK(dhow_model_tanh(m, *y, y));
    OK(dhow_model_reshape(m, *y, 2, (int64_t[]){-1, 3 * (SIDE - 2) * (SIDE - 2)}, y));
    OK(dhow_model_linear(m, "last", *y, 3 * (SIDE - 2) * (SIDE - 2), CLASSES, 1, y));
}

void net_dropout(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    OK(dhow_model_dropout(m, x, 0.3, y));
    OK(dhow_model_linear(m, "first", *y, FEATURES, 16, 1, y));
    OK(dhow_model_tanh(m, *y, y));
    OK(dhow_model_dropout(m, *y, 0.5, y));
    OK(dhow_model_linear(m, "second", *y, 16, CLASSES, 1, y));
}

void net_batchnorm(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    OK(dhow_model_linear(m, "first", x, FEATURES, 16, 1, y));
    OK(dhow_model_batchnorm(m, "norm", *y, 16, 1e-5f, y));
    OK(dhow_model_linear(m, "second", *y, 16, CLASSES, 1, y));
}

dhow_model *model_of(build *net, int64_t rows) {
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

float number(int64_t i) {
    return (float)((uint64_t)(i + 1) * UINT64_C(2654435761) >> 7 & 1023) / 512 - 1;
}

int64_t rows_of(int step) { return step % 4 == 3 ? 2 : 11 + step % 2; }

void batch_of(int step, bool classes, dhow_device *device, dhow_batch *out) {
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

void release(dhow_batch *batch) {
    dhow_tensor_release(batch->tensors[0]);
    dhow_tensor_release(batch->tensors[1]);
}

/* ---- beside one device ---- */

void read_parameters(const dhow_trainer *t, curve *out) {
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

void train(build *net, const dhow_trainer_options *options, int accumulate, dhow_device *data,
           curve *out) {
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

void check_alike(const char *what, const curve *one, const curve *many) {
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

void refused(const dhow_model *m, const dhow_trainer_options *options, const char *says) {
    dhow_trainer *t;
    cr_assert_eq(dhow_trainer_create((dhow_model *)(uintptr_t)m, options, &t),
                 DHOW_INVALID_ARGUMENT, "%s", dhow_last_error());
    cr_assert_null(t);
    SAYS(says);
}
