/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels and their launches. Launches go to the driver: the runtime would look the function up
 * again each time.
 */
#include <string.h>

#include "cuda_plugin.h"

/* ---- kernels -------------------------------------------------------------------------------- */

/* A launch of more groups than run at once gains nothing for portable kernels, whose loops stride
 * over the work, and costs their set-up again and again. Twice as many, so that uneven groups level
 * out. */
static void choose_groups(dhowi_cuda_kernel *kernel) {
    int resident = 0;
    if (dhowi_cu.OccupancyMaxActiveBlocks(&resident, kernel->function, DHOWI_CUDA_GROUP, 0) !=
            CUDA_SUCCESS ||
        resident < 1)
        resident = 8;
    kernel->max_groups = 2 * (uint32_t)resident * kernel->device->compute_units;
}

static void read_params(dhowi_cuda_kernel *kernel) {
    kernel->param_count = -1;
    if (dhowi_cu.FuncGetParamInfo == NULL) return;
    int32_t count = 0;
    size_t offset, bytes;
    CUresult code = CUDA_SUCCESS;
    while (count < DHOW_MAX_KERNEL_ARGS && code == CUDA_SUCCESS) {
        code = dhowi_cu.FuncGetParamInfo(kernel->function, (size_t)count, &offset, &bytes);
        if (code == CUDA_SUCCESS) kernel->param_bytes[count++] = (uint16_t)bytes;
    }
    /* This is how the driver says that there are no more. */
    if (code == CUDA_SUCCESS || code == CUDA_ERROR_INVALID_VALUE) kernel->param_count = count;
}

/* More than 48 KiB of dynamic shared memory has to be asked for. A kernel gets all that its block
 * may have, once: a limit that each launch sets for itself is another thread's as well. */
static CUresult allow_shared(dhowi_cuda_kernel *kernel) {
    const uint32_t most = kernel->device->shared_bytes;
    int fixed = 0;
    CUresult code =
        dhowi_cu.FuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel->function);
    if (code != CUDA_SUCCESS) return code;
    kernel->shared_bytes = (uint32_t)fixed < most ? most - (uint32_t)fixed : 0;
    return dhowi_cu.FuncSetAttribute(kernel->function,
                                     CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                     (int)kernel->shared_bytes);
}

int32_t dhowi_cuda_kernel_init(dhowi_cuda_device *device, cudaLibrary_t library, const char *name,
                               bool portable, dhowi_cuda_kernel *out, dhow_error *err) {
    cudaKernel_t kernel = NULL;
    out->device = device;
    out->portable = portable;
    out->name = dhowi_cuda_keep_name(device, name);
    cudaError_t code = cudaLibraryGetKernel(&kernel, library, name);
    if (code == cudaErrorSymbolNotFound) {
        (void)cudaGetLastError();
        return dhowi_cuda_refuse(err, DHOW_NOT_FOUND,
                                 "%s: the module has no kernel %s; CUDA C needs extern \"C\"",
                                 device->name, name);
    }
    if (code == cudaSuccess)
        code = (cudaError_t)dhowi_cu.KernelGetFunction(&out->function, (CUkernel)kernel);
    if (code == cudaSuccess) code = (cudaError_t)allow_shared(out);
    if (code != cudaSuccess) return dhowi_cuda_fail(err, code, "%s: kernel %s", device->name, name);
    read_params(out);
    if (portable) choose_groups(out);
    return DHOW_OK;
}

static uint32_t param_bytes(const dhow_kernel_param *p) {
    if (p->kind != DHOW_PARAM_VALUE) return 8;
    if (p->type == DHOW_PARAM_DIMS) return sizeof(dhow_dims);
    return p->type == DHOW_I32 || p->type == DHOW_U32 || p->type == DHOW_F32 ? 4 : 8;
}

int32_t dhowi_cuda_kernel_check(const dhowi_cuda_kernel *kernel, const dhow_kernel_decl *decl,
                                dhow_error *err) {
    if (kernel->param_count < 0 || decl->signature[0] == '\0') return DHOW_OK;
    if ((int32_t)decl->param_count != kernel->param_count)
        return dhowi_cuda_refuse(
            err, DHOW_INVALID_ARGUMENT,
            "kernel %s has %d arguments in the binary and %u in the signature %s", kernel->name,
            kernel->param_count, decl->param_count, decl->signature);
    for (uint32_t i = 0; i < decl->param_count; i++) {
        const uint32_t bytes = param_bytes(&decl->params[i]);
        if (kernel->param_bytes[i] == bytes) continue;
        return dhowi_cuda_refuse(
            err, DHOW_INVALID_ARGUMENT,
            "kernel %s: argument %u has %u bytes in the binary and %u in the signature %s",
            kernel->name, i + 1, kernel->param_bytes[i], bytes, decl->signature);
    }
    return DHOW_OK;
}

/* ---- launches ------------------------------------------------------------------------------- */

static uint32_t bytes_of(const dhow_arg *arg) {
    if (arg->kind == DHOW_ARG_VALUE) return arg->bytes;
    return arg->kind == DHOW_ARG_DIMS ? (uint32_t)sizeof(dhow_dims) : 8;
}

/* A native kernel without a signature: nobody else has compared its arguments with the binary. */
static int32_t check_native(const dhowi_cuda_kernel *kernel, const dhow_geometry *geometry,
                            const dhow_arg *args, uint32_t count, dhow_error *err) {
    const dhowi_cuda_device *device = kernel->device;
    const uint64_t items =
        (uint64_t)geometry->block[0] * geometry->block[1] * (uint64_t)geometry->block[2];
    if (items > device->group_items)
        return dhowi_cuda_refuse(
            err, DHOW_INVALID_ARGUMENT, "kernel %s: a block of %llu items; %s takes %u at most",
            kernel->name, (unsigned long long)items, device->name, device->group_items);
    if (geometry->grid[0] > INT32_MAX || geometry->grid[1] > 65535 || geometry->grid[2] > 65535)
        return dhowi_cuda_refuse(
            err, DHOW_INVALID_ARGUMENT,
            "kernel %s: a grid of %u x %u x %u groups; CUDA takes 2147483647 x 65535 x 65535",
            kernel->name, geometry->grid[0], geometry->grid[1], geometry->grid[2]);
    if (geometry->shared_bytes > kernel->shared_bytes)
        return dhowi_cuda_refuse(err, DHOW_INVALID_ARGUMENT,
                                 "kernel %s: %u bytes of shared memory; %s has %u for a block",
                                 kernel->name, geometry->shared_bytes, device->name,
                                 kernel->shared_bytes);
    if (kernel->param_count < 0) return DHOW_OK;
    if ((uint32_t)kernel->param_count != count)
        return dhowi_cuda_refuse(err, DHOW_INVALID_ARGUMENT,
                                 "kernel %s takes %d arguments, given %u", kernel->name,
                                 kernel->param_count, count);
    for (uint32_t i = 0; i < count; i++) {
        if (kernel->param_bytes[i] != bytes_of(&args[i]))
            return dhowi_cuda_refuse(
                err, DHOW_INVALID_ARGUMENT, "kernel %s: argument %u takes %u bytes, given %u",
                kernel->name, i + 1, kernel->param_bytes[i], bytes_of(&args[i]));
    }
    return DHOW_OK;
}

static uint32_t groups_of(const dhowi_cuda_kernel *kernel, uint64_t work) {
    const uint64_t wanted = (work + DHOWI_CUDA_GROUP - 1) / DHOWI_CUDA_GROUP;
    return wanted < kernel->max_groups ? (uint32_t)(wanted > 0 ? wanted : 1) : kernel->max_groups;
}

static void remember(dhowi_cuda_stream *stream, const char *name) {
    const unsigned at = atomic_load_explicit(&stream->launches, memory_order_relaxed);
    atomic_store_explicit(&stream->suspects[at % DHOWI_CUDA_SUSPECTS], name, memory_order_relaxed);
    atomic_store_explicit(&stream->launches, at + 1, memory_order_relaxed);
}

int32_t dhowi_cuda_launch(void *stream_pointer, void *kernel_pointer, const dhow_geometry *geometry,
                          const dhow_arg *args, uint32_t arg_count, dhow_error *err) {
    dhowi_cuda_stream *stream = stream_pointer;
    const dhowi_cuda_kernel *kernel = kernel_pointer;
    uint64_t addresses[DHOW_MAX_KERNEL_ARGS];
    void *params[DHOW_MAX_KERNEL_ARGS];
    for (uint32_t i = 0; i < arg_count; i++) {
        switch (args[i].kind) {
            case DHOW_ARG_BUFFER:
                addresses[i] = args[i].u.buffer.handle + args[i].u.buffer.offset;
                params[i] = &addresses[i];
                break;
            case DHOW_ARG_DIMS:
                params[i] = (void *)(uintptr_t)args[i].u.dims;
                break;
            default:
                params[i] = (void *)(uintptr_t)&args[i].u.value;
        }
    }
    const bool native = geometry->native != 0;
    if (native == kernel->portable)
        return dhowi_cuda_refuse(
            err, DHOW_INVALID_ARGUMENT, "kernel %s is %s and was launched with %s", kernel->name,
            kernel->portable ? "portable" : "native CUDA", native ? "a grid" : "an amount of work");
    if (native) {
        int32_t status = check_native(kernel, geometry, args, arg_count, err);
        if (status != DHOW_OK) return status;
    }
    const uint32_t *grid = geometry->grid, *block = geometry->block;
    bool entered;
    CUresult code = (CUresult)dhowi_cuda_require(stream->device, &entered);
    if (code == CUDA_SUCCESS)
        code = native ? dhowi_cu.LaunchKernel(kernel->function, grid[0], grid[1], grid[2], block[0],
                                              block[1], block[2], geometry->shared_bytes,
                                              dhowi_cuda_target(stream), params, NULL)
                      : dhowi_cu.LaunchKernel(kernel->function, groups_of(kernel, geometry->work),
                                              1, 1, DHOWI_CUDA_GROUP, 1, 1, 0,
                                              dhowi_cuda_target(stream), params, NULL);
    dhowi_cuda_leave(entered);
    if (code == CUDA_SUCCESS) {
        remember(stream, kernel->name);
        return DHOW_OK;
    }
    return dhowi_cuda_fail_on(stream, err, (cudaError_t)code, kernel->name);
}
