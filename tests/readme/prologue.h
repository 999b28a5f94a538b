/* SPDX-License-Identifier: Apache-2.0
 *
 * What the blocks of docs/from-pytorch.md take as given. snippets.sh makes a function of each block
 * and wraps every call that returns a status, so that one that fails ends the test where the
 * document leaves the check out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"

#ifndef SNIPPET_DOCUMENT
#define SNIPPET_DOCUMENT "docs/from-pytorch.md"
#endif

static int g_may_fail; /* the block shows what a failure says */

static inline dhow_status snippet_check(dhow_status status, const char *call, int line) {
    if (status == DHOW_OK || g_may_fail) return status;
    (void)fprintf(stderr, "%s:%d: %s: %s\n", SNIPPET_DOCUMENT, line, call, dhow_last_error());
    exit(1);
}
#define SNIPPET_CHECK(call) snippet_check((call), #call, __LINE__)

static dhow_context *context;
static dhow_device *cpu, *device, *gpus[2];
static dhow_model *model;
static dhow_tensor *x; /* f32[128, 784] on the CPU: so many images */
static const char *k_devices[] = {BACKEND ":0", BACKEND ":1"};
static const char k_default[] = BACKEND;

/* Objects are released where the document does it, others with the process. */
static void snippet_begin(void) {
    if (dhow_context_create(NULL, &context) != DHOW_OK ||
        dhow_device_get(context, "cpu", &cpu) != DHOW_OK ||
        dhow_device_get(context, k_default, &device) != DHOW_OK ||
        dhow_tensor_uniform(cpu, DHOW_F32, DHOW_SHAPE(128, 784), 0, 1, 1, &x) != DHOW_OK) {
        (void)fprintf(stderr, "%s\n", dhow_last_error());
        exit(1);
    }
    for (int i = 0; i < 2; i++)
        if (dhow_device_get(context, k_devices[i], &gpus[i]) != DHOW_OK) gpus[i] = cpu;
}
