/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts over a folder with a bad plugin, for the tests of the loader: what became of the bad
 * one, what was logged, and that the good ones beside it still compute.
 */
#ifndef TESTS_UNIT_LOADER_FIXTURE_H_
#define TESTS_UNIT_LOADER_FIXTURE_H_

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())
#define SAYS(text, wanted) \
    cr_assert_not_null(strstr((text), (wanted)), "'%s' does not say '%s'", (text), (wanted))

typedef struct log_text {
    char text[16384];
    int warnings;
} log_text;

static inline void keep_log(void *user, dhow_log_level level, const char *message) {
    log_text *log = user;
    size_t length = strlen(log->text);
    if (level <= DHOW_LOG_WARN) log->warnings++;
    (void)snprintf(log->text + length, sizeof log->text - length, "%s\n", message);
}

/* A context of the folder, the simulated devices and the CPU. */
static inline dhow_context *open_beside(const char *folder, log_text *log) {
    char path[8192];
    (void)snprintf(path, sizeof path, "%s:%s", folder, DHOW_TEST_SIM_DIR);
    unsetenv("DHOW_PLUGIN_PATH");
    const dhow_context_options options =
        DHOW_INIT(dhow_context_options, .plugin_path = path, .backends = "-opencl",
                  .cache_dir = "off", .log = log != NULL ? keep_log : NULL, .log_user = log);
    dhow_context *context;
    OK(dhow_context_create(&options, &context));
    return context;
}

/* The first record below the folder. */
static inline dhow_plugin_record record_in(dhow_context *context, const char *folder) {
    dhow_plugin_record record = DHOW_INIT(dhow_plugin_record);
    for (uint32_t i = 0; i < dhow_plugin_count(context); i++) {
        OK(dhow_plugin_at(context, i, &record));
        if (strncmp(record.path, folder, strlen(folder)) == 0) return record;
    }
    cr_assert_fail("no record of a plugin in %s", folder);
    return record;
}

static inline int devices_called(dhow_context *context, const char *name) {
    int count = 0;
    for (uint32_t i = 0; i < dhow_device_count(context); i++) {
        dhow_device *device;
        OK(dhow_device_at(context, i, &device));
        count += strcmp(dhow_device_name(device), name) == 0;
    }
    return count;
}

/* Computes on one device and brings the result home. */
static inline void computes(dhow_context *context, const char *name) {
    dhow_device *device;
    dhow_tensor *x, *y;
    float result[6];
    OK(dhow_device_get(context, name, &device));
    OK(dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(2, 3), 1.5, &x));
    OK(dhow_tensor_create(device, DHOW_F32, DHOW_SHAPE(2, 3), &y));
    OK(dhow_add(NULL, x, x, y));
    OK(dhow_tensor_read(y, result, sizeof result));
    for (int i = 0; i < 6; i++) cr_assert_eq(result[i], 3.0f);
    dhow_tensor_release(x);
    dhow_tensor_release(y);
}

/* The folder's plugin has this state and says this, and nobody else suffers. */
static inline void expect_record(const char *folder, dhow_plugin_state state, const char *reason,
                                 const char *hint) {
    dhow_context *context = open_beside(folder, NULL);
    dhow_plugin_record record = record_in(context, folder);
    cr_assert_eq(record.state, state, "%s: state %d, expected %d: %s", folder, record.state, state,
                 record.reason);
    SAYS(record.reason, reason);
    SAYS(record.hint, hint);
    cr_assert_null(strpbrk(record.reason, "\n\r"), "reasons have one line: %s", record.reason);
    cr_assert_null(strpbrk(record.hint, "\n\r"), "hints have one line: %s", record.hint);
    cr_assert(state == DHOW_PLUGIN_READY || record.device_count == 0);
    computes(context, "cpu");
    computes(context, "sim:1");
    dhow_context_release(context);
}

#endif /* TESTS_UNIT_LOADER_FIXTURE_H_ */
