/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver's functions, handed out by name and version as the real driver does: the newest form
 * that is not newer than the version asked for.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "fake.h"

typedef void any_function(void);

typedef struct entry {
    const char *name;
    unsigned version;
    any_function *function;
} entry;

#define ENTRY(name, version) \
    { #name, version, (any_function *)name }
/* cuda.h renames some; the names are those that callers ask for. */
static const entry k_entries[] = {
    ENTRY(cuInit, 2000),
    ENTRY(cuDriverGetVersion, 2020),
    ENTRY(cuDeviceGet, 2000),
    ENTRY(cuDeviceGetCount, 2000),
    {"cuDeviceGetUuid", 11040, (any_function *)cuDeviceGetUuid},
    ENTRY(cuDevicePrimaryCtxRetain, 7000),
    {"cuDevicePrimaryCtxRelease", 11000, (any_function *)cuDevicePrimaryCtxRelease},
    ENTRY(cuDevicePrimaryCtxGetState, 7000),
    {"cuCtxPushCurrent", 4000, (any_function *)cuCtxPushCurrent},
    {"cuCtxPopCurrent", 4000, (any_function *)cuCtxPopCurrent},
    ENTRY(cuCtxGetCurrent, 4000),
    ENTRY(cuCtxSetCurrent, 4000),
    ENTRY(cuCtxGetDevice, 2000),
    ENTRY(cuKernelGetFunction, 12000),
    ENTRY(cuLibraryGetModule, 12000),
    ENTRY(cuKernelGetParamInfo, 12040),
    ENTRY(cuFuncGetParamInfo, 12040),
    ENTRY(cuFuncGetAttribute, 2020),
    ENTRY(cuFuncSetAttribute, 9000),
    ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050),
    ENTRY(cuLaunchKernel, 4000),
    {"cuMemGetAddressRange", 3020, (any_function *)cuMemGetAddressRange},
    ENTRY(cuMemsetD16Async, 3020),
    ENTRY(cuMemsetD32Async, 3020),
    ENTRY(cuMemsetD2D32Async, 3020),
    {"cuStreamGetCtx", 9020, (any_function *)cuStreamGetCtx},
    {"cuStreamWaitValue32", 11070, (any_function *)cuStreamWaitValue32},
    {"cuStreamWriteValue32", 11070, (any_function *)cuStreamWriteValue32},
    ENTRY(cuGetErrorName, 6000),
    ENTRY(cuGetErrorString, 6000),
};

static enum cudaDriverEntryPointQueryResult look_up(const char *symbol, unsigned version,
                                                    void **function) {
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    *function = NULL;
    for (size_t i = 0; i < sizeof k_entries / sizeof k_entries[0]; i++) {
        const entry *e = &k_entries[i];
        if (strcmp(e->name, symbol) != 0) continue;
        if (!fake.settings.waits && strncmp(symbol, "cuStreamWaitValue", 17) == 0) continue;
        if (e->version > version || (int)e->version > fake.settings.driver) {
            found = cudaDriverEntryPointVersionNotSufficent;
            continue;
        }
        memcpy(function, &e->function, sizeof *function);
        found = cudaDriverEntryPointSuccess;
    }
    return found;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cudaGetDriverEntryPointByVersion", FAKE_NOWHERE);
    (void)flags;
    if (code == cudaSuccess && (symbol == NULL || function == NULL)) code = cudaErrorInvalidValue;
    if (code != cudaSuccess) return fake_end(&call, code);
    if (fake.settings.eager) (void)fake_current_or_first();
    const enum cudaDriverEntryPointQueryResult found = look_up(symbol, version, function);
    if (result != NULL) {
        *result = found;
    } else if (found != cudaDriverEntryPointSuccess) {
        code = cudaErrorInvalidValue;
    }
    return fake_end(&call, code);
}

/* The numbers of the driver's results are the runtime's. Asking needs no device. */
CUresult fakecuda_look_up(const char *symbol, void **function, int version,
                          CUdriverProcAddressQueryResult *result) {
    fake_call call;
    const cudaError_t code = fake_begin(&call, "cuGetProcAddress_v2", FAKE_ALWAYS);
    if (code == cudaSuccess)
        *result = (CUdriverProcAddressQueryResult)look_up(symbol, (unsigned)version, function);
    return fake_driver_end(&call, code);
}

/* The plugin opens libcuda.so.1 by its name, and its RPATH leads here - but under sanitizers, which
 * call dlopen() themselves. What is loaded is found by its name. */
__attribute__((constructor)) static void load_driver(void) {
    Dl_info here;
    char path[4096];
    if (dladdr(k_entries, &here) == 0) return;
    const char *slash = strrchr(here.dli_fname, '/');
    if (slash == NULL) return;
    (void)snprintf(path, sizeof path, "%.*s/libcuda.so.1", (int)(slash - here.dli_fname),
                   here.dli_fname);
    (void)dlopen(path, RTLD_NOW | RTLD_LOCAL);
}
