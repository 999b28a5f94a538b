/* SPDX-License-Identifier: Apache-2.0
 *
 * A context with the CPU and simulated devices, a folder, and datasets whose values tell where they
 * belong: sample i of column 0 is [i, i + 0.25, i + 0.5], of column 1 the i64 10 * i.
 */
#ifndef TESTS_UNIT_DATA_FIXTURE_H_
#define TESTS_UNIT_DATA_FIXTURE_H_

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dhow/dhow.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())
#define FAILS(status, call) \
    cr_assert_eq((call), (status), "%s: %s, not %s", #call, dhow_last_error(), #status)
#define SAYS(wanted)                                                                  \
    cr_assert_not_null(strstr(dhow_last_error(), (wanted)), "'%s' does not say '%s'", \
                       dhow_last_error(), (wanted))

enum { FEATURES = 3 };

static dhow_context *g_context;
static dhow_device *g_cpu;
static char g_folder[64];

static inline void open_context(const char *settings, const char *faults) {
    static const dhow_context_options options = {.struct_size = sizeof(dhow_context_options),
                                                 .backends = "cpu,sim",
                                                 .plugin_path = DHOW_TEST_SIM_DIR,
                                                 .cache_dir = "off"};
    (void)snprintf(g_folder, sizeof g_folder, "/tmp/dhow-data-XXXXXX");
    cr_assert_not_null(mkdtemp(g_folder));
    (void)setenv("DHOW_SIM", settings, 1);
    (void)setenv("DHOW_SIM_FAULTS", faults, 1);
    OK(dhow_context_create(&options, &g_context));
    OK(dhow_device_get(g_context, "cpu", &g_cpu));
}

static inline void close_context(void) {
    char command[128];
    dhow_context_release(g_context);
    (void)snprintf(command, sizeof command, "rm -rf '%s'", g_folder);
    cr_assert_eq(system(command), 0);
}

static inline dhow_device *device_of(const char *spec) {
    dhow_device *device;
    OK(dhow_device_get(g_context, spec, &device));
    return device;
}

static inline const char *path_of(const char *name) {
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, sizeof paths[0], "%s/%s", g_folder, name);
    return path;
}

static inline void make_columns(int64_t samples, dhow_tensor *columns[2]) {
    float *x = malloc((size_t)(samples + 1) * FEATURES * sizeof *x);
    int64_t *y = malloc((size_t)(samples + 1) * sizeof *y);
    cr_assert(x != NULL && y != NULL);
    for (int64_t i = 0; i < samples; i++) {
        for (int k = 0; k < FEATURES; k++) x[i * FEATURES + k] = (float)i + 0.25f * (float)k;
        y[i] = 10 * i;
    }
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, DHOW_SHAPE(samples, FEATURES), x, &columns[0]));
    OK(dhow_tensor_from_data(g_cpu, DHOW_I64, DHOW_SHAPE(samples), y, &columns[1]));
    free(x);
    free(y);
}

static inline dhow_dataset *make_dataset(int64_t samples) {
    dhow_tensor *columns[2];
    dhow_dataset *dataset;
    make_columns(samples, columns);
    OK(dhow_dataset_from_tensors(columns, 2, &dataset));
    for (int i = 0; i < 2; i++) dhow_tensor_release(columns[i]);
    return dataset;
}

/* The batch holds the samples that the loader's order names. */
static inline void check_batch(const dhow_loader *loader, const dhow_batch *batch) {
    float x[64 * FEATURES];
    int64_t y[64];
    cr_assert(batch->sample_count <= 64 && batch->tensor_count == 2);
    OK(dhow_tensor_read(batch->tensors[0], x,
                        (uint64_t)batch->sample_count * FEATURES * sizeof *x));
    OK(dhow_tensor_read(batch->tensors[1], y, (uint64_t)batch->sample_count * sizeof *y));
    for (int64_t i = 0; i < batch->sample_count; i++) {
        int64_t sample = dhow_loader_sample_at(loader, batch->epoch, batch->first_sample + i);
        cr_assert_eq(y[i], 10 * sample, "batch %ld, sample %ld", (long)batch->index, (long)i);
        for (int k = 0; k < FEATURES; k++)
            cr_assert_eq(x[i * FEATURES + k], (float)sample + 0.25f * (float)k);
    }
}

/* y = x w + b with w of ones: each row's sum plus b. */
static inline dhow_model *make_sums(dhow_device *device, float b) {
    const float ones[FEATURES] = {1, 1, 1};
    dhow_model *m;
    dhow_model_value x;
    dhow_tensor *w, *bias;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(-1, FEATURES), &x));
    OK(dhow_model_linear(m, "sum", x, FEATURES, 1, 1, &x));
    OK(dhow_model_output(m, "y", x));
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, DHOW_SHAPE(1, FEATURES), ones, &w));
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, DHOW_SHAPE(1), &b, &bias));
    OK(dhow_model_set_parameter(m, "sum.weight", w));
    OK(dhow_model_set_parameter(m, "sum.bias", bias));
    dhow_tensor_release(w);
    dhow_tensor_release(bias);
    OK(dhow_model_to(m, device));
    return m;
}

#endif /* TESTS_UNIT_DATA_FIXTURE_H_ */
