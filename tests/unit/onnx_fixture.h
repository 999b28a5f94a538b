/* SPDX-License-Identifier: Apache-2.0
 *
 * A context of the CPU alone, for the suites that run ONNX files written in memory. Included by
 * tests, each of which is a program of its own.
 */
#ifndef TESTS_UNIT_ONNX_FIXTURE_H_
#define TESTS_UNIT_ONNX_FIXTURE_H_

#include <criterion/criterion.h>
#include <stdlib.h>

#include "dhow/dhow.h"
#include "onnx_writer.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())

static dhow_context *g_context;
static dhow_device *g_cpu;

static void set_up(void) {
    (void)setenv("DHOW_PLUGIN_PATH", DHOW_TEST_PLUGIN_PATH, 1);
    (void)setenv("DHOW_BACKENDS", "cpu", 1);
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, "cpu", &g_cpu));
}
static void tear_down(void) { dhow_context_release(g_context); }

static inline dhow_status load_bytes(const bytes *file, dhow_model **model) {
    return dhow_model_load_memory(g_context, file->data, file->length, model);
}

#endif /* TESTS_UNIT_ONNX_FIXTURE_H_ */
