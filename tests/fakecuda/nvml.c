/* SPDX-License-Identifier: Apache-2.0
 *
 * A fake NVML: free and total memory of the fake runtime's devices.
 */
#include <stdio.h>
#include <string.h>

#include "fakecuda.h"
#include "plugins/cuda/vendor_abi.h"

enum { NOT_FOUND = 6, NOT_LOADED = 9, UNINITIALIZED = 1 };

static char g_devices[16]; /* their addresses are handles */
static _Atomic int g_started;

int nvmlInit_v2(void);
int nvmlInit_v2(void) {
    const int code = fakecuda_library_call("nvmlInit_v2");
    if (code != 0) return NOT_LOADED;
    if (fakecuda_setting("nonvml")) return NOT_LOADED;
    g_started++;
    return 0;
}

int nvmlShutdown(void);
int nvmlShutdown(void) {
    if (g_started == 0) return UNINITIALIZED;
    g_started--;
    return 0;
}

const char *nvmlErrorString(int code);
const char *nvmlErrorString(int code) {
    switch (code) {
        case 0:
            return "Success";
        case UNINITIALIZED:
            return "Uninitialized";
        case NOT_FOUND:
            return "Not Found";
        case NOT_LOADED:
            return "Driver Not Loaded";
        default:
            return "Unknown Error";
    }
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, nvml_device *out);
int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, nvml_device *out) {
    const int code = fakecuda_library_call("nvmlDeviceGetHandleByPciBusId_v2");
    unsigned domain = 0, bus = 0;
    if (code != 0) return code;
    if (g_started == 0) return UNINITIALIZED;
    if (sscanf(pci, "%x:%x:00.0", &domain, &bus) != 2 || bus < 0x1A ||
        bus >= 0x1Au + (unsigned)fakecuda_device_count())
        return NOT_FOUND;
    *out = &g_devices[bus - 0x1A];
    return 0;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, nvml_device *out);
int nvmlDeviceGetHandleByUUID(const char *uuid, nvml_device *out) {
    const int code = fakecuda_library_call("nvmlDeviceGetHandleByUUID");
    unsigned number = 0;
    if (code != 0) return code;
    if (g_started == 0) return UNINITIALIZED;
    if (sscanf(uuid, "GPU-%2xfa4ec0-da00-4001-8002-030405060708", &number) != 1 || number < 1 ||
        number > (unsigned)fakecuda_device_count())
        return NOT_FOUND;
    *out = &g_devices[number - 1];
    return 0;
}

int nvmlDeviceGetMemoryInfo(nvml_device device, nvml_memory *out);
int nvmlDeviceGetMemoryInfo(nvml_device device, nvml_memory *out) {
    const int code = fakecuda_library_call("nvmlDeviceGetMemoryInfo");
    uint64_t left = 0, total = 0;
    if (code != 0) return code;
    if (g_started == 0) return UNINITIALIZED;
    if (!fakecuda_memory_info((int)((char *)device - g_devices), &left, &total)) return NOT_FOUND;
    if (fakecuda_setting("mig")) {
        left += 3 * total;
        total *= 4;
    }
    out->free = left;
    out->total = total;
    out->used = total - left;
    return 0;
}

int nvmlDeviceGetEccMode(nvml_device device, unsigned *current, unsigned *pending);
int nvmlDeviceGetEccMode(nvml_device device, unsigned *current, unsigned *pending) {
    (void)device;
    *current = *pending = 1;
    return g_started == 0 ? UNINITIALIZED : 0;
}
