/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a device can run any built-in kernel at all: what "auto" asks of devices of foreign
 * backends, whose description promises more than some keep.
 */
#include <string.h>

#include "kernel/builtin.h"
#include "kernel/kernel.h"

static uint32_t index_bits(const dhow_device *device) {
    return dhowi_index_width(device, 0) == DHOWI_INDEX_64 ? 64 : 32;
}

static bool brings(dhow_device *device, const char *name) {
    void *native = NULL;
    dhow_error err;
    dhowi_error_init(&err);
    return device->api->builtin_kernel(dhowi_device_native(device), name, index_bits(device),
                                       &native, &err) == DHOW_OK;
}

static bool is_of_dtype(const dhowi_builtin *b, uint64_t dtypes) {
    const char *dtype = strrchr(b->name, '_');
    for (int t = DHOW_F32; t <= DHOW_BOOL && dtype != NULL; t++) {
        if ((dtypes & DHOW_DTYPE_BIT(t)) != 0 &&
            strcmp(dtype + 1, dhow_dtype_name((dhow_dtype)t)) == 0)
            return true;
    }
    return false;
}

/* Asking for ready-made kernels is cheap; one text is compiled, and kept for the operations. */
static dhow_status ask(dhow_device *device) {
    int32_t first = -1;
    DHOWI_TRY(dhowi_device_open(device));
    for (size_t i = 0; i < dhowi_builtin_kernel_count; i++) {
        const dhowi_builtin *b = &dhowi_builtin_kernels[i];
        if (brings(device, b->name)) return DHOW_OK;
        if (first < 0 && is_of_dtype(b, device->desc.dtypes)) first = (int32_t)i;
    }
    dhow_kernel *kernel;
    void *native;
    if (first < 0)
        return dhowi_fail(DHOW_UNSUPPORTED, "dhow has no kernel for the dtypes it computes");
    DHOWI_TRY(dhowi_builtin_kernel(device, first, &kernel));
    return dhowi_kernel_native(kernel, dhowi_index_width(device, 0), &native);
}

__attribute__((constructor)) static void offer(void) { dhowi_device_ask_by(ask); }
