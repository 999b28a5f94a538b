/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA backend's front: opening, components, and the table of its slots.
 */
#include <stdio.h>
#include <string.h>

#include "cuda_plugin.h"
#include "images.h"

/* Whether streams may wait for a word that a thread of the host writes. CUDA does not know of such
 * an order: calls that wait for a device, cudaFree among them, lock the driver meanwhile, and the
 * thread that has to use it before it writes never comes to that. */
static int32_t read_host_waits(const dhow_host *host, bool *out, dhow_error *err) {
    const char *word = host->env(host->user, "DHOW_CUDA_HOST_WAITS");
    *out = word != NULL && (strcmp(word, "on") == 0 || strcmp(word, "1") == 0);
    if (word == NULL || *out || strcmp(word, "off") == 0 || strcmp(word, "0") == 0) return DHOW_OK;
    return dhowi_cuda_refuse(err, DHOW_INVALID_ARGUMENT,
                             "DHOW_CUDA_HOST_WAITS is '%.64s'; it may be on or off", word);
}

static int32_t open_backend(const dhow_host *host, void **out_backend, dhow_error *err) {
    int count = 0;
    bool host_waits;
    *out_backend = NULL;
    dhowi_cuda_conv_choice conv;
    int32_t status = read_host_waits(host, &host_waits, err);
    if (status == DHOW_OK) status = dhowi_cuda_conv_read_choice(host, &conv, err);
    if (status != DHOW_OK) return status;
    const cudaError_t code = cudaGetDeviceCount(&count);
    if (code != cudaSuccess) return dhowi_cuda_fail(err, code, "cuda: cudaGetDeviceCount");
    dhowi_cuda_started();
    dhowi_cuda_backend *backend = dhowi_cuda_new(host, sizeof *backend);
    if (backend == NULL) return dhowi_cuda_refuse(err, DHOW_OUT_OF_MEMORY, "cuda: no host memory");
    backend->host = host;
    backend->device_count = (uint32_t)count;
    backend->host_waits = host_waits;
    backend->conv = conv;
    *out_backend = backend;
    return DHOW_OK;
}

static void close_backend(void *backend_pointer) {
    dhowi_cuda_backend *backend = backend_pointer;
    dhowi_cuda_delete(backend->host, backend);
}

/* What is looked for is not opened: cuBLASLt alone takes half a second. */
static int32_t component(void *backend_pointer, uint32_t index, dhow_component *out,
                         dhow_error *err) {
    static const struct {
        dhowi_cuda_library_id id;
        const char *name, *purpose;
    } libraries[] = {{DHOWI_CUDA_CUBLASLT, "cuBLASLt", "matmul"},
                     {DHOWI_CUDA_CUBLAS, "cuBLAS", "matmul that cuBLASLt has no algorithm for"},
                     {DHOWI_CUDA_CUDNN, "cuDNN", "convolution"},
                     {DHOWI_CUDA_NCCL, "NCCL", "sums between GPUs that train together"},
                     {DHOWI_CUDA_NVRTC, "NVRTC", "kernels compiled at run time"},
                     {DHOWI_CUDA_NVML, "NVML", "free memory of devices nobody has opened"}};
    const uint32_t count = sizeof libraries / sizeof libraries[0];
    const dhow_host *host =
        backend_pointer != NULL ? ((dhowi_cuda_backend *)backend_pointer)->host : NULL;
    if (index > count || host == NULL)
        return dhowi_cuda_refuse(err, DHOW_OUT_OF_RANGE, "the CUDA plugin has %u components",
                                 count + 1);
    if (index == count) {
        const bool built = dhowi_cuda_image(0, 32) != NULL;
        (void)snprintf(out->name, sizeof out->name, "kernels");
        (void)snprintf(out->purpose, sizeof out->purpose, "built-in kernels as GPU code");
        (void)snprintf(out->detail, sizeof out->detail, "%s",
                       built ? "compiled with the plugin"
                             : "the plugin was built without nvcc; NVRTC compiles them on first "
                               "use");
        out->present = built ? 1 : 0;
        return DHOW_OK;
    }
    (void)snprintf(out->name, sizeof out->name, "%s", libraries[index].name);
    (void)snprintf(out->purpose, sizeof out->purpose, "%s", libraries[index].purpose);
    out->present =
        dhowi_cuda_library_locate(host, libraries[index].id, out->detail, sizeof out->detail) ? 1
                                                                                              : 0;
    return DHOW_OK;
}

static const void *get_extension(void *device, const char *id) {
    const bool convolves =
        ((const dhowi_cuda_device *)device)->backend->conv != DHOWI_CUDA_CONV_OFF;
    if (strcmp(id, "dhow.blas/1") == 0) return &dhowi_cuda_blas;
    if (strcmp(id, "dhow.conv/1") == 0) return convolves ? &dhowi_cuda_conv_table : NULL;
    if (strcmp(id, "dhow.coll/1") == 0) return &dhowi_cuda_coll;
    if (strcmp(id, "dhow.graph/1") == 0) return &dhowi_cuda_capture;
    if (strcmp(id, "dhow.native/1") == 0) return &dhowi_cuda_native;
    return NULL;
}

DHOW_PLUGIN_EXPORT const dhow_plugin dhow_plugin_v1 = {
    DHOW_PLUGIN_HEADER,
    .name = "cuda",
    .version = DHOW_CUDA_VERSION,
    .probe = dhowi_cuda_probe,
    .open = open_backend,
    .close = close_backend,
    .device_count = dhowi_cuda_device_count,
    .device_describe = dhowi_cuda_device_describe,
    .device_open = dhowi_cuda_device_open,
    .device_close = dhowi_cuda_device_close,
    .mem_alloc = dhowi_cuda_mem_alloc,
    .mem_free = dhowi_cuda_mem_free,
    .stream_create = dhowi_cuda_stream_create,
    .stream_destroy = dhowi_cuda_stream_destroy,
    .stream_sync = dhowi_cuda_stream_sync,
    .stream_query = dhowi_cuda_stream_query,
    .stream_wait = dhowi_cuda_stream_wait,
    .event_create = dhowi_cuda_event_create,
    .event_destroy = dhowi_cuda_event_destroy,
    .event_record = dhowi_cuda_event_record,
    .event_sync = dhowi_cuda_event_sync,
    .event_query = dhowi_cuda_event_query,
    .copy = dhowi_cuda_copy,
    .fill = dhowi_cuda_fill,
    .module_build = dhowi_cuda_module_build,
    .module_free = dhowi_cuda_module_free,
    .module_kernel = dhowi_cuda_module_kernel,
    .launch = dhowi_cuda_launch,
    .builtin_kernel = dhowi_cuda_builtin_kernel,
    .host_alloc = dhowi_cuda_host_alloc,
    .host_free = dhowi_cuda_host_free,
    .host_register = dhowi_cuda_host_register,
    .host_unregister = dhowi_cuda_host_unregister,
    .can_copy = dhowi_cuda_can_copy,
    .peer_copy = dhowi_cuda_peer_copy,
    .event_signal = dhowi_cuda_event_signal,
    .event_elapsed = dhowi_cuda_event_elapsed,
    .mem_info = dhowi_cuda_mem_info,
    .component = component,
    .get_extension = get_extension,
};
