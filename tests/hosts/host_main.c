/* SPDX-License-Identifier: Apache-2.0
 *
 *     host_main [--sigchld] [--plugins FOLDER] context|devices|build
 *
 * Makes a context; looks at all devices too; or builds a kernel from text on the CPU and runs it;
 * exit status 1 with the reason where that fails. --sigchld ignores SIGCHLD, as servers do.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "dhow/dhow.h"

static const char k_text[] =
    "KERNEL(twice, (IN(f32,x), OUT(f32,y), VAL(i64,n)))\n"
    "{ GRID_FOR(i, n) y[i] = 2.0f * x[i]; }\n";

static dhow_status build(dhow_context *context) {
    dhow_device *device;
    dhow_module *module = NULL;
    dhow_kernel *kernel = NULL;
    dhow_tensor *x = NULL, *y = NULL;
    float result[3] = {0, 0, 0};
    dhow_status status = dhow_device_get(context, "cpu", &device);
    if (status == DHOW_OK)
        status = dhow_module_build(device, &DHOW_INIT(dhow_module_source, .text = k_text), &module);
    if (status == DHOW_OK) status = dhow_module_kernel(module, "twice", &kernel);
    if (status == DHOW_OK) status = dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(3), 1.5, &x);
    if (status == DHOW_OK) status = dhow_tensor_create(device, DHOW_F32, DHOW_SHAPE(3), &y);
    if (status == DHOW_OK) status = dhow_launch(NULL, kernel, 3, x, y, (int64_t)3);
    if (status == DHOW_OK) status = dhow_tensor_read(y, result, sizeof result);
    if (status == DHOW_OK && (result[0] != 3.0f || result[2] != 3.0f)) status = DHOW_INTERNAL;
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    dhow_kernel_release(kernel);
    dhow_module_release(module);
    return status;
}

int main(int argc, char **argv) {
    dhow_context_options options = DHOW_INIT(dhow_context_options, .cache_dir = "off");
    int at = 1;
    for (; at < argc - 1; at++) {
        if (strcmp(argv[at], "--sigchld") == 0) (void)signal(SIGCHLD, SIG_IGN);
        if (strcmp(argv[at], "--plugins") == 0) options.plugin_path = argv[++at];
    }
    if (at >= argc) return 2;
    dhow_context *context = NULL;
    dhow_status status = dhow_context_create(&options, &context);
    if (status == DHOW_OK && strcmp(argv[at], "devices") == 0 && dhow_device_count(context) == 0)
        status = DHOW_INTERNAL;
    if (status == DHOW_OK && strcmp(argv[at], "build") == 0) status = build(context);
    if (status != DHOW_OK) (void)fprintf(stderr, "host_main: %s\n", dhow_last_error());
    dhow_context_release(context);
    return status != DHOW_OK;
}
