/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules and their kernels: the built-in ones out of embedded fat binaries, and those that users
 * bring as text, PTX or cubin. A loaded library serves all devices; the function in it belongs to
 * one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_plugin.h"
#include "images.h"

typedef struct dhowi_cuda_images {
    pthread_mutex_t lock;
    cudaLibrary_t loaded[]; /* [unit][index bits 32, 64] */
} dhowi_cuda_images;

typedef struct dhowi_cuda_module {
    dhowi_cuda_device *device;
    cudaLibrary_t library;
    bool portable;
    pthread_mutex_t lock;
    dhowi_cuda_kernel *kernels;
} dhowi_cuda_module;

/* ---- built-in kernels ----------------------------------------------------------------------- */

static int compare_names(const void *name, const void *entry) {
    return strcmp(name, ((const dhowi_cuda_builtin_name *)entry)->name);
}

/* Guards the images of a backend and the number of its open devices. */
static pthread_mutex_t g_images = PTHREAD_MUTEX_INITIALIZER;

static dhowi_cuda_images *images_of(dhowi_cuda_backend *backend) {
    (void)pthread_mutex_lock(&g_images);
    if (backend->images == NULL) {
        const size_t count = (size_t)dhowi_cuda_unit_count * 2;
        dhowi_cuda_images *images =
            dhowi_cuda_new(backend->host, sizeof *images + count * sizeof(cudaLibrary_t));
        if (images != NULL) (void)pthread_mutex_init(&images->lock, NULL);
        backend->images = images;
    }
    (void)pthread_mutex_unlock(&g_images);
    return backend->images;
}

static int32_t load_image(dhowi_cuda_device *device, uint32_t unit, uint32_t index_bits,
                          cudaLibrary_t *out, dhow_error *err) {
    const void *image = dhowi_cuda_image(unit, index_bits);
    dhowi_cuda_images *images = images_of(device->backend);
    cudaError_t code = cudaSuccess;
    if (images == NULL)
        return dhowi_cuda_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", device->name);
    if (image == NULL)
        return dhowi_cuda_refuse(err, DHOW_NOT_FOUND, "this plugin was built without nvcc");
    cudaLibrary_t *slot = &images->loaded[2 * unit + (index_bits == 64 ? 1 : 0)];
    (void)pthread_mutex_lock(&images->lock);
    const enum cudaStreamCaptureMode mode = dhowi_cuda_relax();
    if (*slot == NULL) code = cudaLibraryLoadData(slot, image, NULL, NULL, 0, NULL, NULL, 0);
    dhowi_cuda_unrelax(mode);
    if (code != cudaSuccess) *slot = NULL;
    *out = *slot;
    (void)pthread_mutex_unlock(&images->lock);
    return code == cudaSuccess
               ? DHOW_OK
               : dhowi_cuda_fail(err, code, "%s: loading built-in kernels", device->name);
}

/* Codes of drivers that do not run what the binary holds, and may run what NVRTC makes here. */
static bool lacks_code(int64_t native_code) {
    return native_code == cudaErrorInvalidKernelImage ||
           native_code == cudaErrorNoKernelImageForDevice ||
           native_code == cudaErrorJitCompilerNotFound ||
           native_code == cudaErrorUnsupportedPtxVersion ||
           native_code == cudaErrorJitCompilationDisabled;
}

/* NOT_FOUND leaves the kernel to its text. Told once for a device. */
static int32_t leave_to_text(dhowi_cuda_device *device, dhow_error *err) {
    char line[700];
    if (!atomic_exchange(&device->told_of_text, true)) {
        (void)snprintf(line, sizeof line, "%s; NVRTC compiles the built-in kernels on first use",
                       err->message);
        device->host->log(device->host->user, DHOW_LOG_INFO, line);
    }
    err->code = DHOW_NOT_FOUND;
    return err->code;
}

static dhowi_cuda_kernel *known_builtin(dhowi_cuda_device *device, const char *name,
                                        uint32_t index_bits) {
    (void)pthread_mutex_lock(&device->lock);
    dhowi_cuda_kernel *kernel = device->builtin_kernels;
    while (kernel != NULL && (kernel->index_bits != index_bits || strcmp(kernel->name, name) != 0))
        kernel = kernel->next;
    (void)pthread_mutex_unlock(&device->lock);
    return kernel;
}

int32_t dhowi_cuda_builtin_kernel(void *device_pointer, const char *name, uint32_t index_bits,
                                  void **out_kernel, dhow_error *err) {
    dhowi_cuda_device *device = device_pointer;
    cudaLibrary_t library = NULL;
    *out_kernel = NULL;
    const dhowi_cuda_builtin_name *entry =
        bsearch(name, dhowi_cuda_builtin_names, dhowi_cuda_builtin_count,
                sizeof *dhowi_cuda_builtin_names, compare_names);
    if (entry == NULL)
        return dhowi_cuda_refuse(err, DHOW_NOT_FOUND, "%s: no built-in kernel %s", device->name,
                                 name);
    *out_kernel = known_builtin(device, name, index_bits);
    if (*out_kernel != NULL) return DHOW_OK;
    dhowi_cuda_kernel *kernel = dhowi_cuda_new(device->host, sizeof *kernel);
    if (kernel == NULL)
        return dhowi_cuda_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", device->name);
    bool entered;
    const cudaError_t code = dhowi_cuda_require(device, &entered);
    int32_t status = code == cudaSuccess
                         ? load_image(device, entry->unit, index_bits, &library, err)
                         : dhowi_cuda_fail(err, code, "%s: kernel %s", device->name, name);
    if (status == DHOW_OK)
        status = dhowi_cuda_kernel_init(device, library, name, true, kernel, err);
    dhowi_cuda_leave(entered);
    if (status != DHOW_OK) {
        dhowi_cuda_delete(device->host, kernel);
        return lacks_code(err->native_code) ? leave_to_text(device, err) : status;
    }
    /* Two threads may bring the same kernel; both copies are right and live as long. */
    kernel->index_bits = index_bits;
    (void)pthread_mutex_lock(&device->lock);
    kernel->next = device->builtin_kernels;
    device->builtin_kernels = kernel;
    (void)pthread_mutex_unlock(&device->lock);
    *out_kernel = kernel;
    return DHOW_OK;
}

static void delete_kernels(const dhow_host *host, dhowi_cuda_kernel *kernels) {
    while (kernels != NULL) {
        dhowi_cuda_kernel *next = kernels->next;
        dhowi_cuda_delete(host, kernels);
        kernels = next;
    }
}

void dhowi_cuda_builtins_begin(dhowi_cuda_device *device) {
    (void)pthread_mutex_lock(&g_images);
    device->backend->open_devices++;
    (void)pthread_mutex_unlock(&g_images);
}

static void unload_images(dhowi_cuda_backend *backend, bool alive) {
    dhowi_cuda_images *images = backend->images;
    if (images == NULL) return;
    for (uint32_t i = 0; i < 2 * dhowi_cuda_unit_count && alive; i++) {
        if (images->loaded[i] != NULL && cudaLibraryUnload(images->loaded[i]) != cudaSuccess)
            (void)cudaGetLastError();
    }
    (void)pthread_mutex_destroy(&images->lock);
    dhowi_cuda_delete(backend->host, images);
    backend->images = NULL;
}

/* With the last device, while its context is current: without one the runtime might make that of
 * the first GPU. */
void dhowi_cuda_builtins_end(dhowi_cuda_device *device, bool alive) {
    delete_kernels(device->host, device->builtin_kernels);
    device->builtin_kernels = NULL;
    (void)pthread_mutex_lock(&g_images);
    if (--device->backend->open_devices == 0) unload_images(device->backend, alive);
    (void)pthread_mutex_unlock(&g_images);
}

/* ---- users' modules ------------------------------------------------------------------------- */

/* PTX is text that the driver compiles: it wants a terminating zero, and says what is wrong. It
 * would do so when the first kernel is asked for, into a log that is no longer there: asking for
 * the module makes it do so now. */
static cudaError_t load_library(const dhow_module_desc *desc, const void *image,
                                cudaLibrary_t *out) {
    enum cudaJitOption options[] = {cudaJitErrorLogBuffer, cudaJitErrorLogBufferSizeBytes};
    void *values[] = {desc->log, (void *)(uintptr_t)desc->log_bytes};
    const unsigned count = desc->format == DHOW_MODULE_PTX && desc->log != NULL ? 2 : 0;
    CUmodule unused;
    const cudaError_t code = cudaLibraryLoadData(out, image, count > 0 ? options : NULL,
                                                 count > 0 ? values : NULL, count, NULL, NULL, 0);
    if (code != cudaSuccess) {
        *out = NULL;
        return code;
    }
    return (cudaError_t)dhowi_cu.LibraryGetModule(&unused, (CUlibrary)*out);
}

/* What the driver is given: compiled text, or a terminated copy of what the user brought. */
static int32_t image_of(dhowi_cuda_device *device, const dhow_module_desc *desc, void **out,
                        dhow_error *err) {
    uint64_t bytes = 0;
    if (desc->format == DHOW_MODULE_PORTABLE || desc->format == DHOW_MODULE_CUDA_C)
        return dhowi_cuda_compile(device, desc, out, &bytes, err);
    if (desc->format != DHOW_MODULE_PTX && desc->format != DHOW_MODULE_CUBIN)
        return dhowi_cuda_refuse(
            err, DHOW_UNSUPPORTED, "%s: CUDA takes portable text, CUDA C, PTX and cubin, not %s",
            desc->name, desc->format == DHOW_MODULE_OPENCL_C ? "OpenCL C" : "this format");
    *out = dhowi_cuda_new(device->host, (size_t)desc->text_bytes + 1);
    if (*out == NULL)
        return dhowi_cuda_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", desc->name);
    memcpy(*out, desc->text, (size_t)desc->text_bytes);
    return DHOW_OK;
}

/* A cubin's header says how long it is; the driver believes it. */
static int32_t check_image(const dhow_module_desc *desc, dhow_error *err) {
    static const unsigned char elf[] = {0x7f, 'E', 'L', 'F', 2, 1};
    static const unsigned char fatbin[] = {0x50, 0xed, 0x55, 0xba};
    const unsigned char *text = desc->text;
    uint64_t claimed = 0;
    if (desc->format != DHOW_MODULE_CUBIN) return DHOW_OK;
    if (desc->text_bytes >= 64 && memcmp(text, elf, sizeof elf) == 0) {
        uint64_t sections;
        uint16_t entry_bytes, count;
        memcpy(&sections, text + 40, sizeof sections);
        memcpy(&entry_bytes, text + 58, sizeof entry_bytes);
        memcpy(&count, text + 60, sizeof count);
        claimed =
            sections > desc->text_bytes ? UINT64_MAX : sections + (uint64_t)entry_bytes * count;
    } else if (desc->text_bytes >= 16 && memcmp(text, fatbin, sizeof fatbin) == 0) {
        uint64_t body;
        uint16_t header;
        memcpy(&header, text + 6, sizeof header);
        memcpy(&body, text + 8, sizeof body);
        claimed = body > desc->text_bytes ? UINT64_MAX : body + header;
    } else {
        return dhowi_cuda_refuse(err, DHOW_CORRUPT, "%s is neither a cubin nor a fat binary",
                                 desc->name);
    }
    if (claimed <= desc->text_bytes) return DHOW_OK;
    return dhowi_cuda_refuse(err, DHOW_CORRUPT,
                             "%s is shorter than its own header says: %llu bytes", desc->name,
                             (unsigned long long)desc->text_bytes);
}

static int32_t check_declared(dhowi_cuda_module *module, const dhow_module_desc *desc,
                              dhow_error *err) {
    for (uint32_t i = 0; i < desc->kernel_count; i++) {
        void *kernel = NULL;
        int32_t status = dhowi_cuda_module_kernel(module, desc->kernels[i].name, &kernel, err);
        if (status == DHOW_OK) status = dhowi_cuda_kernel_check(kernel, &desc->kernels[i], err);
        if (status != DHOW_OK) return status;
    }
    return DHOW_OK;
}

static int32_t build(dhowi_cuda_device *device, const dhow_module_desc *desc, bool portable,
                     void **out_module, dhow_error *err) {
    void *image = NULL;
    int32_t status = check_image(desc, err);
    if (status == DHOW_OK) status = image_of(device, desc, &image, err);
    if (status != DHOW_OK) return status;
    dhowi_cuda_module *module = dhowi_cuda_new(device->host, sizeof *module);
    if (module == NULL) {
        dhowi_cuda_delete(device->host, image);
        return dhowi_cuda_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", desc->name);
    }
    module->device = device;
    module->portable = portable;
    (void)pthread_mutex_init(&module->lock, NULL);
    bool entered;
    cudaError_t code = dhowi_cuda_require(device, &entered);
    const enum cudaStreamCaptureMode mode = dhowi_cuda_relax();
    if (code == cudaSuccess) code = load_library(desc, image, &module->library);
    dhowi_cuda_unrelax(mode);
    dhowi_cuda_leave(entered);
    dhowi_cuda_delete(device->host, image);
    if (code != cudaSuccess) {
        status = dhowi_cuda_fail(err, code, "%s: %s", device->name, desc->name);
    } else {
        status = check_declared(module, desc, err);
    }
    if (status != DHOW_OK) {
        dhowi_cuda_module_free(module);
        return status;
    }
    *out_module = module;
    return DHOW_OK;
}

/* The fat binary that was compiled with the program for this index width, as a description of its
 * own; false where there is none. */
static bool find_ready(const dhow_module_desc *desc, dhow_module_desc *out) {
    if (desc->format != DHOW_MODULE_PORTABLE ||
        desc->struct_size < offsetof(dhow_module_desc, flags))
        return false;
    for (uint64_t i = 0; i < desc->image_count; i++) {
        const dhow_module_image *image = &desc->images[i];
        if (image->kind != DHOW_IMAGE_CUDA || image->index_bits != desc->index_bits) continue;
        memset(out, 0, sizeof *out);
        memcpy(out, desc, desc->struct_size < sizeof *out ? desc->struct_size : sizeof *out);
        out->format = DHOW_MODULE_CUBIN;
        out->text = image->data;
        out->text_bytes = image->bytes;
        return true;
    }
    return false;
}

int32_t dhowi_cuda_module_build(void *device_pointer, const dhow_module_desc *desc,
                                void **out_module, dhow_error *err) {
    dhowi_cuda_device *device = device_pointer;
    dhow_module_desc ready;
    *out_module = NULL;
    /* A GPU that the binary has no code for gets the text. */
    if (find_ready(desc, &ready) && build(device, &ready, true, out_module, err) == DHOW_OK)
        return DHOW_OK;
    return build(device, desc, desc->format == DHOW_MODULE_PORTABLE, out_module, err);
}

void dhowi_cuda_module_free(void *module_pointer) {
    dhowi_cuda_module *module = module_pointer;
    const dhow_host *host = module->device->host;
    delete_kernels(host, module->kernels);
    bool entered;
    const bool alive = dhowi_cuda_enter(module->device, &entered);
    if (alive && module->library != NULL && cudaLibraryUnload(module->library) != cudaSuccess)
        (void)cudaGetLastError();
    dhowi_cuda_leave(entered);
    (void)pthread_mutex_destroy(&module->lock);
    dhowi_cuda_delete(host, module);
}

int32_t dhowi_cuda_module_kernel(void *module_pointer, const char *name, void **out_kernel,
                                 dhow_error *err) {
    dhowi_cuda_module *module = module_pointer;
    dhowi_cuda_device *device = module->device;
    int32_t status = DHOW_OK;
    *out_kernel = NULL;
    (void)pthread_mutex_lock(&module->lock);
    dhowi_cuda_kernel *kernel = module->kernels;
    while (kernel != NULL && strcmp(kernel->name, name) != 0) kernel = kernel->next;
    if (kernel == NULL) {
        kernel = dhowi_cuda_new(device->host, sizeof *kernel);
        if (kernel == NULL) {
            status = dhowi_cuda_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", device->name);
        } else {
            bool entered;
            const cudaError_t code = dhowi_cuda_require(device, &entered);
            status = code == cudaSuccess
                         ? dhowi_cuda_kernel_init(device, module->library, name, module->portable,
                                                  kernel, err)
                         : dhowi_cuda_fail(err, code, "%s: kernel %s", device->name, name);
            dhowi_cuda_leave(entered);
        }
        if (status == DHOW_OK) {
            kernel->next = module->kernels;
            module->kernels = kernel;
        } else {
            dhowi_cuda_delete(device->host, kernel);
            kernel = NULL;
        }
    }
    (void)pthread_mutex_unlock(&module->lock);
    *out_kernel = kernel;
    return status;
}
