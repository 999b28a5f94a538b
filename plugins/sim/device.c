/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices: what there is, and opening them.
 */
#include <stdio.h>

#include "sim.h"

int32_t sim_device_count(void *backend, uint32_t *out_count, dhow_error *err) {
    (void)err;
    *out_count = simdev_machine_device_count(((sim_backend *)backend)->machine);
    return DHOW_OK;
}

/* The host has zeroed `out`; what stays zero is unknown or absent. No device context may be needed
 * for it: `devinfo` describes devices that nobody opens. */
int32_t sim_device_describe(void *handle, uint32_t index, dhow_device_desc *out, dhow_error *err) {
    const sim_backend *backend = handle;
    const simdev_config *config = simdev_machine_config(backend->machine);
    int32_t status = simdev_machine_enter(backend->machine, "device_describe", err);
    if (status != DHOW_OK) return status;
    if (index >= config->device_count) {
        return sim_fail(err, DHOW_OUT_OF_RANGE,
                        "there are %u simulated devices, asked for number %u", config->device_count,
                        index);
    }
    out->kind = DHOW_DEVICE_SIMULATED;
    /* Handles are no pointers, nothing is mapped, memory not pinned makes copies block. */
    out->flags = DHOW_DEVICE_RUNS_KERNELS;
    out->compute_units = 1;
    out->offset_align = config->offset_align;
    out->index_bits = 64;
    out->memory_bytes = config->memory_bytes;
    for (int dtype = DHOW_F32; dtype <= DHOW_BOOL; dtype++) out->dtypes |= DHOW_DTYPE_BIT(dtype);
    (void)snprintf(out->name, sizeof out->name, "simulated device %u", index);
    if (config->pci_bus != 0)
        (void)snprintf(out->pci, sizeof out->pci, "0000:%02x:00.0",
                       (unsigned)((config->pci_bus + index) & 0xff));
    (void)snprintf(out->driver, sizeof out->driver, "simulated machine %s", DHOW_SIM_VERSION);
    return DHOW_OK;
}

int32_t sim_device_open(void *handle, uint32_t index, void **out_device, dhow_error *err) {
    const sim_backend *backend = handle;
    *out_device = NULL;
    sim_device *device = sim_new(backend->host, sizeof *device);
    if (device == NULL)
        return sim_fail(err, DHOW_OUT_OF_MEMORY, "no host memory for simulated device %u", index);
    device->host = backend->host;
    device->machine = backend->machine;
    int32_t status = simdev_device_open(backend->machine, index, &device->native, err);
    if (status != DHOW_OK) {
        sim_delete(backend->host, device);
        return status;
    }
    *out_device = device;
    return DHOW_OK;
}

void sim_device_close(void *handle) {
    sim_device *device = handle;
    simdev_device_close(device->native);
    sim_delete(device->host, device);
}
