/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels, the functions they are on each device, and launches.
 */
#include <stdio.h>
#include <string.h>

#include "fake.h"

enum { GROUP = 256 /* items that portable kernels are compiled for */ };

void fake_kernel_layout(fake_kernel *kernel) {
    uint32_t offset = 0;
    for (uint32_t i = 0; i < kernel->param_count; i++) {
        const uint32_t bytes = kernel->param_bytes[i];
        const uint32_t align = bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : bytes % 2 == 0 ? 2 : 1;
        offset = (offset + align - 1) / align * align;
        kernel->param_offset[i] = (uint16_t)offset;
        offset += bytes;
    }
}

void fake_kernels_delete(fake_kernel *kernels) {
    while (kernels != NULL) {
        fake_kernel *next = kernels->next;
        for (int i = 0; i < SIMDEV_MAX_DEVICES; i++) {
            if (kernels->functions[i] != NULL) fakecuda_object_delete(kernels->functions[i]);
        }
        if (kernels->native != NULL) simdev_kernel_free(fake.machine, kernels->native);
        fakecuda_object_delete(kernels);
        kernels = next;
    }
}

cudaError_t fake_function_of(fake_kernel *kernel, int device, fake_function **out) {
    dhow_error err = {.struct_size = sizeof err};
    fake_lock();
    *out = kernel->functions[device];
    fake_unlock();
    if (*out != NULL) return cudaSuccess;
    if (fake.settings.quiesce) fake_drain(fake.devices[device]); /* loads it */
    fake_function *made = fakecuda_object_new(FAKECUDA_FUNCTION, sizeof *made);
    if (made == NULL) return cudaErrorMemoryAllocation;
    made->kernel = kernel;
    made->device = device;
    made->max_shared = 48 * 1024;
    made->native = kernel->native;
    if (kernel->library->kind == FAKE_BUILTIN &&
        simdev_kernel_find(fake.devices[device], kernel->name, &made->native, &err) != DHOW_OK) {
        fakecuda_object_delete(made);
        return fake_code(device, err.code);
    }
    fake_lock();
    if (kernel->functions[device] == NULL) kernel->functions[device] = made;
    *out = kernel->functions[device];
    fake_unlock();
    if (*out != made) fakecuda_object_delete(made);
    return cudaSuccess;
}

/* ---- what kernels are ---- */

/* Code runs on later minors of its major; Tegra (8.7) wants its own. Libraries are loaded lazily:
 * that there is no code shows when a function is asked for. */
static bool has_code(const fake_kernel *kernel) {
    const int code = fake.settings.code, cc = fake.settings.cc;
    if (kernel->library->kind != FAKE_BUILTIN || code == 0 || code == cc) return true;
    return code / 10 == cc / 10 && code < cc && cc != 87;
}

CUresult cuKernelGetFunction(CUfunction *out, CUkernel handle) {
    fake_call call;
    fake_kernel *kernel = (fake_kernel *)(void *)handle;
    cudaError_t code = fake_begin(&call, "cuKernelGetFunction", FAKE_NOWHERE);
    const int device = fake_current();
    if (code == cudaSuccess && device < 0) code = cudaErrorDeviceUninitialized;
    if (code == cudaSuccess) code = (cudaError_t)atomic_load(&fake.sticky[device]);
    if (code == cudaSuccess && !fakecuda_object_is(kernel, FAKECUDA_KERNEL))
        code = cudaErrorInvalidResourceHandle;
    if (code == cudaSuccess && !has_code(kernel)) code = cudaErrorNoKernelImageForDevice;
    if (code == cudaSuccess) code = fake_function_of(kernel, device, out);
    return fake_driver_end(&call, code);
}

static cudaError_t param(const fake_kernel *kernel, size_t index, size_t *offset, size_t *bytes) {
    if (index >= kernel->param_count) return cudaErrorInvalidValue;
    *offset = kernel->param_offset[index];
    if (bytes != NULL) *bytes = kernel->param_bytes[index];
    return cudaSuccess;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *bytes) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cuFuncGetParamInfo", FAKE_NOWHERE);
    if (code == cudaSuccess && !fakecuda_object_is(function, FAKECUDA_FUNCTION))
        code = cudaErrorInvalidResourceHandle;
    if (code == cudaSuccess) code = param(function->kernel, index, offset, bytes);
    return fake_driver_end(&call, code);
}

CUresult cuKernelGetParamInfo(CUkernel handle, size_t index, size_t *offset, size_t *bytes) {
    fake_call call;
    const fake_kernel *kernel = (const fake_kernel *)(void *)handle;
    cudaError_t code = fake_begin(&call, "cuKernelGetParamInfo", FAKE_NOWHERE);
    if (code == cudaSuccess && !fakecuda_object_is(kernel, FAKECUDA_KERNEL))
        code = cudaErrorInvalidResourceHandle;
    if (code == cudaSuccess) code = param(kernel, index, offset, bytes);
    return fake_driver_end(&call, code);
}

int fake_shared_limit(void) {
    const int cc = fake.settings.cc;
    const int kilobytes = cc < 80                ? 64
                          : cc == 80 || cc == 87 ? 163
                          : cc < 90 || cc >= 120 ? 99
                                                 : 227;
    return kilobytes * 1024;
}

static int max_threads(const fake_kernel *kernel) { return kernel->info != NULL ? GROUP : 1024; }

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cuFuncGetAttribute", FAKE_NOWHERE);
    if (code == cudaSuccess && !fakecuda_object_is(function, FAKECUDA_FUNCTION))
        code = cudaErrorInvalidResourceHandle;
    if (code != cudaSuccess) return fake_driver_end(&call, code);
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
            *value = max_threads(function->kernel);
            break;
        case CU_FUNC_ATTRIBUTE_NUM_REGS:
            *value = 32;
            break;
        case CU_FUNC_ATTRIBUTE_PTX_VERSION:
        case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
            *value = fake.settings.cc;
            break;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
            *value = function->max_shared;
            break;
        default:
            *value = 0;
    }
    return fake_driver_end(&call, cudaSuccess);
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cuFuncSetAttribute", FAKE_NOWHERE);
    if (code == cudaSuccess && !fakecuda_object_is(function, FAKECUDA_FUNCTION))
        code = cudaErrorInvalidResourceHandle;
    if (code == cudaSuccess && attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        if (value < 0 || value > fake_shared_limit()) code = cudaErrorInvalidValue;
        if (code == cudaSuccess) function->max_shared = value;
    }
    return fake_driver_end(&call, code);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *count, CUfunction function, int block,
                                                     size_t shared_bytes) {
    fake_call call;
    cudaError_t code =
        fake_begin(&call, "cuOccupancyMaxActiveBlocksPerMultiprocessor", FAKE_NOWHERE);
    (void)shared_bytes;
    if (code == cudaSuccess && (!fakecuda_object_is(function, FAKECUDA_FUNCTION) || block < 1))
        code = cudaErrorInvalidValue;
    if (code == cudaSuccess) *count = block <= 1024 ? 2048 / block : 0;
    return fake_driver_end(&call, code);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *handle) {
    fake_call call;
    const fake_kernel *kernel = handle;
    cudaError_t code = fake_begin(&call, "cudaFuncGetAttributes", FAKE_CURRENT);
    if (code == cudaSuccess && !fakecuda_object_is(kernel, FAKECUDA_KERNEL))
        code = cudaErrorInvalidDeviceFunction;
    if (code == cudaSuccess) {
        memset(out, 0, sizeof *out);
        out->maxThreadsPerBlock = max_threads(kernel);
        out->numRegs = 32;
        out->binaryVersion = out->ptxVersion = fake.settings.cc;
        out->maxDynamicSharedSizeBytes = 48 * 1024;
    }
    return fake_end(&call, code);
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t handle, enum cudaFuncAttribute attribute,
                                            int value, int device) {
    fake_call call;
    fake_function *function = NULL;
    fake_kernel *kernel = (fake_kernel *)(void *)handle;
    cudaError_t code = fake_begin(&call, "cudaKernelSetAttributeForDevice", FAKE_NOWHERE);
    if (code == cudaSuccess && !fakecuda_object_is(kernel, FAKECUDA_KERNEL))
        code = cudaErrorInvalidResourceHandle;
    if (code == cudaSuccess && (device < 0 || device >= (int)fake.settings.machine.device_count))
        code = cudaErrorInvalidDevice;
    if (code == cudaSuccess && (value < 0 || value > fake_shared_limit()))
        code = cudaErrorInvalidValue;
    if (code == cudaSuccess) code = fake_function_of(kernel, device, &function);
    if (code == cudaSuccess && attribute == cudaFuncAttributeMaxDynamicSharedMemorySize)
        function->max_shared = value;
    return fake_end(&call, code);
}

/* ---- launches ---- */

typedef struct launch_shape {
    unsigned grid[3], block[3];
    size_t shared;
} launch_shape;

static bool shape_fits(const launch_shape *shape) {
    static const unsigned grid_limit[3] = {0x7fffffff, 65535, 65535},
                          block_limit[3] = {1024, 1024, 64};
    for (int i = 0; i < 3; i++) {
        if (shape->grid[i] == 0 || shape->grid[i] > grid_limit[i]) return false;
        if (shape->block[i] == 0 || shape->block[i] > block_limit[i]) return false;
    }
    return (uint64_t)shape->block[0] * shape->block[1] * shape->block[2] <= 1024;
}

/* Kernels of 32-bit indices divide by multipliers, which the machine's kernels do not read. */
static void check_multipliers(const fake_kernel *kernel, const dhow_dims *dims) {
    for (int64_t k = 0; k < dims->rank; k++) {
        const uint64_t extent = (uint64_t)dims->shape[k], one = UINT64_C(1) << 32;
        uint64_t power = 1;
        if (extent == 0 || extent > INT32_MAX) continue;
        while (power < extent) power *= 2;
        if ((uint64_t)dims->stride[2][k] != (one * power + extent - 1) / extent - one)
            fakecuda_complain("%s is given no multiplier for extent %lld", kernel->name,
                              (long long)extent);
    }
}

static bool divides_by_multipliers(const fake_kernel *kernel) {
    return kernel->library->kind == FAKE_BUILTIN && !kernel->library->wide &&
           strncmp(kernel->name, "copy_dims_", 10) == 0;
}

/* Arguments are read here and never again. `invalid`: what a bad shape is called. */
static cudaError_t launch(fake_stream *stream, fake_function *function, const launch_shape *shape,
                          void **args, cudaError_t invalid) {
    const fake_kernel *kernel = function->kernel;
    const unsigned threads = shape->block[0] * shape->block[1] * shape->block[2];
    fake_command command = {.kind = FAKE_LAUNCH, .function = function};
    command.blocks = shape->grid[0] * shape->grid[1] * shape->grid[2];
    if (function->device != stream->device) return cudaErrorInvalidResourceHandle;
    if (!shape_fits(shape) || shape->shared > (size_t)function->max_shared) return invalid;
    if (kernel->info == NULL) return cudaErrorNotSupported;
    if (threads > GROUP) return cudaErrorLaunchOutOfResources;
    if (threads != GROUP)
        fakecuda_complain("%s is launched with blocks of %u items; it has phases of %d",
                          kernel->name, threads, GROUP);
    for (uint32_t i = 0; i < kernel->param_count; i++) {
        if (kernel->param_offset[i] + kernel->param_bytes[i] > FAKE_PARAM_BYTES || args[i] == NULL)
            return cudaErrorInvalidValue;
        memcpy(command.u.params + kernel->param_offset[i], args[i], kernel->param_bytes[i]);
    }
    if (divides_by_multipliers(kernel)) check_multipliers(kernel, args[2]);
    return fake_submit(stream, &command);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream handle, void **args, void **extra) {
    fake_call call;
    fake_stream *stream = fake_stream_of(handle);
    cudaError_t code =
        fake_begin(&call, "cuLaunchKernel", stream != NULL ? stream->device : FAKE_CURRENT);
    const launch_shape shape = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared};
    if (code == cudaSuccess && (stream == NULL || !fakecuda_object_is(function, FAKECUDA_FUNCTION)))
        code = cudaErrorInvalidResourceHandle;
    if (code == cudaSuccess && extra != NULL) code = cudaErrorInvalidValue;
    if (code == cudaSuccess) code = launch(stream, function, &shape, args, cudaErrorInvalidValue);
    return fake_driver_end(&call, code);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *handle, void **args) {
    fake_call call;
    fake_function *function = NULL;
    union {
        const void *from;
        fake_kernel *to;
    } kernel = {handle};
    fake_stream *stream = fake_stream_of(config->stream);
    cudaError_t code =
        fake_begin(&call, "cudaLaunchKernelExC", stream != NULL ? stream->device : FAKE_CURRENT);
    const launch_shape shape = {{config->gridDim.x, config->gridDim.y, config->gridDim.z},
                                {config->blockDim.x, config->blockDim.y, config->blockDim.z},
                                config->dynamicSmemBytes};
    if (code == cudaSuccess && stream == NULL) code = cudaErrorInvalidResourceHandle;
    if (code == cudaSuccess && !fakecuda_object_is(handle, FAKECUDA_KERNEL))
        code = cudaErrorInvalidDeviceFunction;
    if (code == cudaSuccess) code = fake_function_of(kernel.to, stream->device, &function);
    if (code == cudaSuccess)
        code = launch(stream, function, &shape, args, cudaErrorInvalidConfiguration);
    return fake_end(&call, code);
}
