/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for onednn*.c where oneDNN's headers were not found at build time.
 */
#include <stdio.h>

#include "cpu.h"

int32_t cpu_onednn_component(dhow_component *out) {
    (void)snprintf(out->name, sizeof out->name, "oneDNN");
    (void)snprintf(out->purpose, sizeof out->purpose, "matmul and convolution");
    (void)snprintf(
        out->detail, sizeof out->detail,
        "not built in: oneDNN's headers were missing; install libdnnl-dev and build again");
    return DHOW_OK;
}

const dhow_blas *cpu_blas(void) { return NULL; }

const dhow_conv *cpu_conv(void) { return NULL; }
