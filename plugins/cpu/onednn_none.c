/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for onednn*.c where oneDNN's headers were not found at build time, and on processors
 * that are not x86-64.
 */
#include <stdio.h>

#include "cpu.h"

int32_t cpu_onednn_component(dhow_component *out) {
    (void)snprintf(out->name, sizeof out->name, "oneDNN");
    (void)snprintf(out->purpose, sizeof out->purpose, "matmul and convolution");
#if defined(__x86_64__)
    (void)snprintf(
        out->detail, sizeof out->detail,
        "not built in: oneDNN's headers were missing; install libdnnl-dev and build again");
#else
    (void)snprintf(out->detail, sizeof out->detail,
                   "used on x86-64 only; here dhow's own kernels do its work");
#endif
    return DHOW_OK;
}

void cpu_onednn_limit(int isa) { (void)isa; }

void onednn_forms_release(cpu_device *device) { (void)device; }

const dhow_blas *cpu_blas(void) { return NULL; }

const dhow_conv *cpu_conv(void) { return NULL; }
