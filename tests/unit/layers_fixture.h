/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of layers with known parameters, on the device that DHOW_DEVICE names. Included by tests,
 * each of which is a program of its own.
 */
#ifndef TESTS_UNIT_LAYERS_FIXTURE_H_
#define TESTS_UNIT_LAYERS_FIXTURE_H_

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dhow/dhow.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())

enum { MOST = 8192 };

static dhow_context *g_context;
static dhow_device *g_cpu, *g_device;
static char g_path[] = "/tmp/dhow-layers-XXXXXX";

static inline void set_up(void) {
    (void)setenv("DHOW_PLUGIN_PATH", DHOW_TEST_PLUGIN_DIR, 1);
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, "cpu", &g_cpu));
    OK(dhow_device_get(g_context, NULL, &g_device));
    cr_assert_geq(mkstemp(g_path), 0);
}
static inline void tear_down(void) {
    (void)unlink(g_path);
    dhow_context_release(g_context);
}
TestSuite(layers, .init = set_up, .fini = tear_down, .timeout = 60);

/* ---- numbers ---- */

static inline double number(unsigned seed, unsigned i) {
    unsigned x = (seed * 7919u + i) * 2654435761u;
    return (double)((x >> 8) % 1000) / 500 - 1;
}

/* Fills every float parameter by its position; variances stay above 0. */
static inline void fill(dhow_model *m) {
    for (uint32_t p = 0; p < dhow_model_parameter_count(m); p++) {
        dhow_model_parameter_info info = DHOW_INIT(dhow_model_parameter_info);
        dhow_tensor_info t = DHOW_INIT(dhow_tensor_info);
        dhow_tensor *tensor;
        float values[MOST];
        OK(dhow_model_parameter_at(m, p, &info));
        OK(dhow_tensor_get_info(info.tensor, &t));
        if (t.dtype != DHOW_F32) continue;
        bool variance = strstr(info.name, "running_var") != NULL;
        for (unsigned i = 0; i < dhow_tensor_count(info.tensor); i++)
            values[i] = (float)(variance ? 1.5 + number(p, i) : 0.5 * number(p, i));
        OK(dhow_tensor_from_data(g_cpu, DHOW_F32, t.rank, t.shape, values, &tensor));
        OK(dhow_model_set_parameter(m, info.name, tensor));
        dhow_tensor_release(tensor);
    }
}

/* A parameter's values in double; kept for the next 255 calls. */
static inline const double *values_of(dhow_model *m, const char *name) {
    static double rooms[256][MOST];
    static int next;
    dhow_model_parameter_info info = DHOW_INIT(dhow_model_parameter_info);
    void *data;
    for (uint32_t p = 0; p < dhow_model_parameter_count(m); p++) {
        OK(dhow_model_parameter_at(m, p, &info));
        if (strcmp(info.name, name) != 0) continue;
        double *room = rooms[next++ % 256];
        OK(dhow_tensor_host_ptr(info.tensor, &data));
        for (int64_t i = 0; i < dhow_tensor_count(info.tensor); i++)
            room[i] = (double)((const float *)data)[i];
        return room;
    }
    cr_assert_fail("no parameter %s", name);
    return NULL;
}

static inline dhow_tensor *input(int32_t rank, const int64_t *shape, double *values) {
    float data[MOST];
    dhow_tensor *t;
    int64_t count = 1;
    for (int32_t i = 0; i < rank; i++) count *= shape[i];
    for (int64_t i = 0; i < count; i++) {
        data[i] = (float)number(99, (unsigned)i);
        values[i] = (double)data[i];
    }
    OK(dhow_tensor_from_data(g_device, DHOW_F32, rank, shape, data, &t));
    return t;
}

static inline void expect(dhow_model *m, dhow_tensor *x, const double *want, int64_t count) {
    static float is[MOST];
    OK(dhow_model_to(m, g_device));
    for (int run = 0; run < 2; run++) { /* the second replays */
        dhow_tensor *y;
        OK(dhow_model_run(m, NULL, &x, 1, &y, 1));
        cr_assert_eq(dhow_tensor_count(y), count);
        OK(dhow_tensor_read(y, is, (uint64_t)count * sizeof *is));
        for (int64_t i = 0; i < count; i++) {
            cr_assert(fabs((double)is[i] - want[i]) <= 2e-5 * fmax(1, fabs(want[i])),
                      "run %d, element %d is %g, not %g", run, (int)i, (double)is[i], want[i]);
        }
        dhow_tensor_release(y);
    }
}

static inline dhow_model *model_of(int32_t rank, const int64_t *shape, dhow_model_value *x) {
    dhow_model *m;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, rank, shape, x));
    return m;
}

#endif /* TESTS_UNIT_LAYERS_FIXTURE_H_ */
