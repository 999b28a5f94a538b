/* SPDX-License-Identifier: Apache-2.0
 *
 * Free memory from the driver's management library, which needs no context; CUDA's own answer
 * would make one of several hundred megabytes per device.
 */
#include <string.h>

#include "cuda_plugin.h"
#include "vendor_abi.h"

enum { INIT, HANDLE, MEMORY, FUNCTIONS };

bool dhowi_cuda_nvml_memory(const dhow_host *host, const char *pci, uint64_t *out_free,
                            uint64_t *out_total) {
    static const char *const symbols[] = {"nvmlInit_v2", "nvmlDeviceGetHandleByPciBusId_v2",
                                          "nvmlDeviceGetMemoryInfo", NULL};
    void *found[FUNCTIONS];
    char why[256];
    if (!dhowi_cuda_library_open(host, DHOWI_CUDA_NVML, symbols, found, why, sizeof why))
        return false;
    nvml_init_fn *init;
    nvml_handle_fn *handle_of;
    nvml_memory_fn *memory_of;
    memcpy(&init, &found[INIT], sizeof init);
    memcpy(&handle_of, &found[HANDLE], sizeof handle_of);
    memcpy(&memory_of, &found[MEMORY], sizeof memory_of);
    nvml_device device = NULL;
    nvml_memory memory = {0};
    /* NVML counts its initialisations and lives to the end of the process, as its users do. */
    if (init() != 0 || handle_of(pci, &device) != 0 || memory_of(device, &memory) != 0)
        return false;
    *out_free = memory.free;
    *out_total = memory.total;
    return true;
}
