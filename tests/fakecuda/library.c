/* SPDX-License-Identifier: Apache-2.0
 *
 * Libraries of kernels: built-in ones, those that the fake compiler made, and binaries and PTX that
 * are only read.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"
#include "ptx.h"

fake_kernel *fake_kernel_add(fake_library *library, const char *name, size_t name_bytes) {
    fake_kernel *kernel = NULL;
    if (name_bytes < sizeof kernel->name)
        kernel = fakecuda_object_new(FAKECUDA_KERNEL, sizeof *kernel);
    if (kernel == NULL) return NULL;
    memcpy(kernel->name, name, name_bytes);
    kernel->library = library;
    fake_lock();
    kernel->next = library->kernels;
    library->kernels = kernel;
    fake_unlock();
    return kernel;
}

/* ---- loading ---- */

static bool write_all(int fd, const unsigned char *data, uint64_t bytes) {
    while (bytes > 0) {
        const ssize_t written = write(fd, data, (size_t)bytes);
        if (written <= 0) return false;
        data += written;
        bytes -= (uint64_t)written;
    }
    return true;
}

/* The file stays open while the library is loaded: the loader tells libraries apart by the path,
 * and the path has the descriptor's number. */
static cudaError_t load_module(fake_library *library, const fake_cubin *cubin) {
    char path[64];
    library->fd = memfd_create("fakecuda-module", MFD_CLOEXEC);
    if (library->fd < 0) return cudaErrorMemoryAllocation;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", library->fd);
    if (!write_all(library->fd, (const unsigned char *)(cubin + 1), cubin->bytes))
        return cudaErrorMemoryAllocation;
    library->kind = FAKE_MODULE;
    library->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library->handle == NULL) {
        (void)fprintf(stderr, "fake CUDA: %s\n", dlerror());
        return cudaErrorInvalidKernelImage;
    }
    if (!fake.settings.ptx) return cudaSuccess;
    if (cubin->ptx_bytes == 0) {
        (void)fprintf(
            stderr,
            "fake CUDA: a program was compiled without ptx=1; give it another DHOW_CACHE_DIR\n");
        return cudaErrorInvalidKernelImage;
    }
    return fake_ptx_parse(library, (const char *)(cubin + 1) + cubin->bytes);
}

static cudaError_t load(fake_library *library, const void *code) {
    const unsigned char *bytes = code;
    uint32_t magic;
    memcpy(&magic, code, sizeof magic);
    if (magic == FAKE_FATBIN_MAGIC) {
        library->kind = FAKE_BUILTIN;
        const fake_fatbin *image = code;
        if (strcmp(image->mark, FAKE_FATBIN_MARK) != 0) return cudaErrorNoKernelImageForDevice;
        library->wide = image->wide;
        return fake.settings.ptx && image->text != NULL ? fake_ptx_read(library, image->text)
                                                        : cudaSuccess;
    }
    library->kind = FAKE_NATIVE;
    if (memcmp(bytes, "\177ELF", 4) == 0) {
        const fake_cubin *cubin = code;
        if (memcmp(cubin->mark, FAKE_CUBIN_MARK, sizeof FAKE_CUBIN_MARK) != 0)
            return fake_read_elf(library, bytes);
        if ((int)cubin->arch > fake.settings.cc) return cudaErrorNoKernelImageForDevice;
        if (cubin->module != 0) return load_module(library, cubin);
        return fake_read_lines(library, (const char *)(cubin + 1), (size_t)cubin->bytes);
    }
    return fake_read_ptx(library, code);
}

void fake_library_end(fake_library *library) {
    fake_kernels_delete(library->kernels);
    ptx_free(library->ptx);
    if (library->handle != NULL) (void)dlclose(library->handle);
    if (library->fd >= 0) (void)close(library->fd);
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t *out, const void *code_bytes,
                                enum cudaJitOption *jit_options, void **jit_values,
                                unsigned jit_count, enum cudaLibraryOption *options, void **values,
                                unsigned count) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cudaLibraryLoadData", FAKE_NOWHERE);
    if (fake.settings.eager) (void)fake_current_or_first();
    (void)options, (void)values, (void)count;
    if (code == cudaSuccess && code_bytes == NULL) code = cudaErrorInvalidValue;
    if (code != cudaSuccess) return fake_end(&call, code);
    fake_library *library = fakecuda_object_new(FAKECUDA_LIBRARY, sizeof *library);
    if (library == NULL) return fake_end(&call, cudaErrorMemoryAllocation);
    library->fd = -1;
    for (unsigned i = 0; i < jit_count; i++) {
        if (jit_options[i] == cudaJitErrorLogBuffer) library->log = jit_values[i];
        if (jit_options[i] == cudaJitErrorLogBufferSizeBytes)
            library->log_bytes = (size_t)(uintptr_t)jit_values[i];
    }
    library->failure = load(library, code_bytes);
    if (library->failure == cudaErrorInvalidKernelImage) { /* what it is shows at once */
        fake_library_end(library);
        fakecuda_object_delete(library);
        return fake_end(&call, cudaErrorInvalidKernelImage);
    }
    *out = library;
    return fake_end(&call, cudaSuccess);
}

cudaError_t fake_library_need(fake_library *library) {
    if (library->failure == cudaErrorInvalidPtx && library->log_bytes > 0)
        (void)snprintf(library->log, library->log_bytes, "ptxas fatal: this is no PTX");
    return library->failure;
}

CUresult cuLibraryGetModule(CUmodule *out, CUlibrary library) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cuLibraryGetModule", FAKE_NOWHERE);
    if (code == cudaSuccess && fake_current() < 0) code = cudaErrorDeviceUninitialized;
    if (code == cudaSuccess && !fakecuda_object_is(library, FAKECUDA_LIBRARY))
        code = cudaErrorInvalidResourceHandle;
    if (code == cudaSuccess) code = fake_library_need(library);
    if (code == cudaSuccess) *out = (CUmodule)(void *)library;
    return fake_driver_end(&call, code);
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
    fake_call call;
    const cudaError_t code = fake_begin(&call, "cudaLibraryUnload", FAKE_NOWHERE);
    if (fake.settings.eager) (void)fake_current_or_first();
    if (!fakecuda_object_is(library, FAKECUDA_LIBRARY))
        return fake_end(&call, code != cudaSuccess ? code : cudaErrorInvalidResourceHandle);
    for (int i = 0; i < SIMDEV_MAX_DEVICES; i++) { /* its kernels may still run */
        if (fake.devices[i] != NULL) fake_drain(fake.devices[i]);
    }
    fake_library_end(library);
    fakecuda_object_delete(library);
    return fake_end(&call, code);
}

/* ---- kernels of a library ---- */

static const k_info *find_info(const fake_library *library, const char *name) {
    char symbol[128];
    if (library->kind == FAKE_BUILTIN) return dhow_cpu_kernel(name, CPU_ISA_V2);
    if (library->kind != FAKE_MODULE) return NULL;
    (void)snprintf(symbol, sizeof symbol, "%s__base", name);
    return dlsym(library->handle, symbol);
}

static fake_kernel *add_portable(fake_library *library, const char *name) {
    dhow_error err = {.struct_size = sizeof err};
    uint32_t kind, bytes;
    simdev_kernel *native = NULL;
    const k_info *info = find_info(library, name);
    if (info == NULL || simdev_kernel_make(fake.machine, info, &native, &err) != DHOW_OK)
        return NULL;
    fake_kernel *kernel = fake_kernel_add(library, name, strlen(name));
    if (kernel == NULL) {
        simdev_kernel_free(fake.machine, native);
        return NULL;
    }
    kernel->info = info;
    kernel->native = native;
    while (simdev_kernel_arg(native, kernel->param_count, &kind, &bytes))
        kernel->param_bytes[kernel->param_count++] = (uint16_t)bytes;
    fake_kernel_layout(kernel);
    return library->ptx == NULL || fake_ptx_find(kernel) ? kernel : NULL;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *out, cudaLibrary_t library, const char *name) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cudaLibraryGetKernel", FAKE_NOWHERE);
    if (code == cudaSuccess && !fakecuda_object_is(library, FAKECUDA_LIBRARY))
        code = cudaErrorInvalidResourceHandle;
    if (code == cudaSuccess) code = fake_library_need(library);
    if (code != cudaSuccess) return fake_end(&call, code);
    fake_lock();
    fake_kernel *kernel = library->kernels;
    while (kernel != NULL && strcmp(kernel->name, name) != 0) kernel = kernel->next;
    fake_unlock();
    if (kernel == NULL && library->kind != FAKE_NATIVE) kernel = add_portable(library, name);
    if (kernel == NULL) return fake_end(&call, cudaErrorSymbolNotFound);
    *out = (cudaKernel_t)(void *)kernel;
    return fake_end(&call, cudaSuccess);
}

cudaError_t cudaLibraryGetKernelCount(unsigned *out, cudaLibrary_t library) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cudaLibraryGetKernelCount", FAKE_NOWHERE);
    if (code == cudaSuccess && !fakecuda_object_is(library, FAKECUDA_LIBRARY))
        code = cudaErrorInvalidResourceHandle;
    if (code == cudaSuccess && library->kind != FAKE_NATIVE) code = cudaErrorNotSupported;
    if (code != cudaSuccess) return fake_end(&call, code);
    *out = 0;
    fake_lock();
    for (const fake_kernel *kernel = library->kernels; kernel != NULL; kernel = kernel->next)
        (*out)++;
    fake_unlock();
    return fake_end(&call, cudaSuccess);
}
