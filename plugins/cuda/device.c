/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices: what they are, asked without a context on them, and opening their primary context.
 */
#include <stdio.h>
#include <string.h>

#include "dhow/dlpack.h"

#include "cuda_plugin.h"

int32_t dhowi_cuda_device_count(void *backend, uint32_t *out_count, dhow_error *err) {
    (void)err;
    *out_count = ((dhowi_cuda_backend *)backend)->device_count;
    return DHOW_OK;
}

/* ---- describing ----------------------------------------------------------------------------- */

static int attribute_of(int ordinal, enum cudaDeviceAttr attribute) {
    int value = 0;
    if (cudaDeviceGetAttribute(&value, attribute, ordinal) != cudaSuccess) {
        (void)cudaGetLastError();
        return 0;
    }
    return value;
}

/* "0000:65:00.0"; CUDA writes the bus in capitals. */
static void pci_of(int ordinal, char *out, size_t bytes) {
    char text[32] = "";
    if (cudaDeviceGetPCIBusId(text, (int)sizeof text, ordinal) != cudaSuccess) {
        (void)cudaGetLastError();
        return;
    }
    for (char *c = text; *c != '\0'; c++) {
        if (*c >= 'A' && *c <= 'F') *c = (char)(*c - 'A' + 'a');
    }
    (void)snprintf(out, bytes, "%.*s", (int)bytes - 1, text);
}

static void write_uuid(const struct cudaDeviceProp *properties, char *out) {
    for (size_t i = 0; i < sizeof properties->uuid.bytes; i++) {
        (void)snprintf(out + 2 * i, 3, "%02x", (unsigned char)properties->uuid.bytes[i]);
    }
}

/* "CUDA 13.0, runtime 13.0, compute 9.0, ECC, 3 copy engines, peers 1 2" */
static void write_driver(const dhowi_cuda_backend *backend, int ordinal,
                         const struct cudaDeviceProp *properties, char *out, size_t bytes) {
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    int used = snprintf(
        out, bytes, "CUDA %d.%d, runtime %d.%d, compute %d.%d, %s, %d copy engine%s", driver / 1000,
        driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10, properties->major,
        properties->minor, attribute_of(ordinal, cudaDevAttrEccEnabled) != 0 ? "ECC" : "no ECC",
        properties->asyncEngineCount, properties->asyncEngineCount == 1 ? "" : "s");
    const char *separator = ", peers ";
    for (int other = 0; other < (int)backend->device_count; other++) {
        int can = 0;
        if (other == ordinal || used < 0 || (size_t)used >= bytes) continue;
        if (cudaDeviceCanAccessPeer(&can, ordinal, other) != cudaSuccess || can == 0) continue;
        used += snprintf(out + used, bytes - (size_t)used, "%s%d", separator, other);
        separator = " ";
    }
    (void)cudaGetLastError();
}

int32_t dhowi_cuda_device_describe(void *backend_pointer, uint32_t index, dhow_device_desc *out,
                                   dhow_error *err) {
    const dhowi_cuda_backend *backend = backend_pointer;
    struct cudaDeviceProp properties;
    const int ordinal = (int)index;
    memset(&properties, 0, sizeof properties);
    const cudaError_t code = cudaGetDeviceProperties(&properties, ordinal);
    if (code != cudaSuccess) return dhowi_cuda_fail(err, code, "cuda:%d: its properties", ordinal);
    out->kind = DHOW_DEVICE_GPU;
    out->flags = DHOW_DEVICE_RUNS_KERNELS;
    if (properties.major >= 8) out->flags |= DHOW_DEVICE_TENSOR_CORES; /* mma.m16n8k16 */
    out->dlpack_type = kDLCUDA;
    out->dlpack_host_type = kDLCUDAHost;
    out->compute_units = (uint32_t)properties.multiProcessorCount;
    out->offset_align = DHOWI_CUDA_OFFSET_ALIGN;
    out->index_bits = 32 | 64;
    out->memory_bytes = properties.totalGlobalMem;
    out->dtypes = DHOW_DTYPE_BIT(DHOW_F32) | DHOW_DTYPE_BIT(DHOW_F64) | DHOW_DTYPE_BIT(DHOW_F16) |
                  DHOW_DTYPE_BIT(DHOW_BF16) | DHOW_DTYPE_BIT(DHOW_I8) | DHOW_DTYPE_BIT(DHOW_U8) |
                  DHOW_DTYPE_BIT(DHOW_I32) | DHOW_DTYPE_BIT(DHOW_I64) | DHOW_DTYPE_BIT(DHOW_BOOL);
    (void)snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, properties.name);
    write_driver(backend, ordinal, &properties, out->driver, sizeof out->driver);
    write_uuid(&properties, out->uuid);
    pci_of(ordinal, out->pci, sizeof out->pci);
    uint64_t left = 0, total = 0;
    (void)dhowi_cuda_nvml_memory(backend->host, out->pci, &left, &total);
    /* Of a part of a GPU (MIG) NVML tells about the whole, which has the same place. */
    const bool whole = total <= out->memory_bytes + out->memory_bytes / 4;
    out->free_bytes = whole && left <= out->memory_bytes ? left : whole ? out->memory_bytes : 0;
    return DHOW_OK;
}

/* ---- opening -------------------------------------------------------------------------------- */

static cudaError_t read_limits(dhowi_cuda_device *device) {
    enum { MAJOR, MINOR, UNITS, SHARED, ITEMS, LIMITS };
    static const enum cudaDeviceAttr attributes[LIMITS] = {
        [MAJOR] = cudaDevAttrComputeCapabilityMajor,
        [MINOR] = cudaDevAttrComputeCapabilityMinor,
        [UNITS] = cudaDevAttrMultiProcessorCount,
        [SHARED] = cudaDevAttrMaxSharedMemoryPerBlockOptin,
        [ITEMS] = cudaDevAttrMaxThreadsPerBlock};
    int values[LIMITS] = {0};
    cudaError_t code = cudaSuccess;
    for (int i = 0; i < LIMITS && code == cudaSuccess; i++)
        code = cudaDeviceGetAttribute(&values[i], attributes[i], device->ordinal);
    device->arch = (uint32_t)(10 * values[MAJOR] + values[MINOR]);
    device->compute_units = (uint32_t)values[UNITS];
    device->shared_bytes = (uint32_t)values[SHARED];
    device->group_items = (uint32_t)values[ITEMS];
    device->host_waits = device->backend->host_waits && dhowi_cu.StreamWaitValue32 != NULL;
    return code;
}

int32_t dhowi_cuda_device_open(void *backend_pointer, uint32_t index, void **out_device,
                               dhow_error *err) {
    dhowi_cuda_backend *backend = backend_pointer;
    *out_device = NULL;
    char why[400];
    CUresult code = dhowi_cu_driver_load(why, sizeof why);
    if (code == CUDA_ERROR_NOT_FOUND)
        return dhowi_cuda_refuse(err, DHOW_UNAVAILABLE, "cuda:%u: %s", index, why);
    if (code != CUDA_SUCCESS)
        return dhowi_cuda_fail(err, (cudaError_t)code, "cuda:%u: %s", index, why);
    dhowi_cuda_device *device = dhowi_cuda_new(backend->host, sizeof *device);
    if (device == NULL)
        return dhowi_cuda_refuse(err, DHOW_OUT_OF_MEMORY, "cuda:%u: no host memory", index);
    device->host = backend->host;
    device->backend = backend;
    device->ordinal = (int)index;
    (void)snprintf(device->name, sizeof device->name, "cuda:%u", index);
    code = dhowi_cu.DeviceGet(&device->id, device->ordinal);
    if (code == CUDA_SUCCESS) code = dhowi_cu.DevicePrimaryCtxRetain(&device->context, device->id);
    if (code != CUDA_SUCCESS) {
        dhowi_cuda_delete(backend->host, device);
        return dhowi_cuda_fail(err, (cudaError_t)code, "cuda:%u: its context", index);
    }
    bool entered;
    cudaError_t limits = dhowi_cuda_require(device, &entered);
    if (limits == cudaSuccess) limits = read_limits(device);
    dhowi_cuda_leave(entered);
    if (limits != cudaSuccess) {
        (void)dhowi_cu.DevicePrimaryCtxRelease(device->id);
        dhowi_cuda_delete(backend->host, device);
        return dhowi_cuda_fail(err, limits, "cuda:%u: its limits", index);
    }
    (void)pthread_mutex_init(&device->lock, NULL);
    (void)pthread_mutex_init(&device->blas_lock, NULL);
    (void)pthread_mutex_init(&device->cudnn_lock, NULL);
    (void)pthread_cond_init(&device->signalled, NULL);
    dhowi_cuda_builtins_begin(device);
    *out_device = device;
    return DHOW_OK;
}

void dhowi_cuda_device_close(void *device_pointer) {
    dhowi_cuda_device *device = device_pointer;
    const dhow_host *host = device->host;
    bool entered;
    const bool alive = dhowi_cuda_enter(device, &entered);
    dhowi_cuda_cudnn_end(device, alive);
    dhowi_cuda_blas_end(device, alive);
    dhowi_cuda_builtins_end(device, alive);
    dhowi_cuda_events_end(device, alive);
    dhowi_cuda_leave(entered);
    (void)dhowi_cu.DevicePrimaryCtxRelease(device->id);
    while (device->names != NULL) {
        dhowi_cuda_name *next = device->names->next;
        dhowi_cuda_delete(host, device->names);
        device->names = next;
    }
    (void)pthread_cond_destroy(&device->signalled);
    (void)pthread_mutex_destroy(&device->lock);
    (void)pthread_mutex_destroy(&device->blas_lock);
    (void)pthread_mutex_destroy(&device->cudnn_lock);
    dhowi_cuda_delete(host, device);
}
