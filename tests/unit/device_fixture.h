/* SPDX-License-Identifier: Apache-2.0
 *
 * The device that DHOW_DEVICE names, in a context of its own, for suites that run on several.
 * Included by tests, each of which is a program of its own.
 */
#ifndef TESTS_UNIT_DEVICE_FIXTURE_H_
#define TESTS_UNIT_DEVICE_FIXTURE_H_

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"

#define OK(expression) cr_assert_eq((expression), DHOW_OK, "%s: %s", #expression, dhow_last_error())

static dhow_context *g_context;
static dhow_device *g_device;

/* Plugins of the build, unless the environment names others. */
static inline void open_device(void) {
    const char *device = getenv("DHOW_DEVICE");
    const int sim = device != NULL && strcmp(device, "sim") == 0;
    (void)setenv("DHOW_PLUGIN_PATH", sim ? DHOW_TEST_SIM_DIR : DHOW_TEST_PLUGIN_DIR, 0);
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, device, &g_device));
}
static inline void close_device(void) { dhow_context_release(g_context); }

#endif /* TESTS_UNIT_DEVICE_FIXTURE_H_ */
