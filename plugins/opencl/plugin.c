/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenCL backend's front: probing, opening, and the table of its slots. It works with every
 * OpenCL 1.2 runtime: GPUs of any vendor, and PoCL on the processor.
 */
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "opencl.h"

#define VENDOR_FOLDER "/etc/OpenCL/vendors"

/* ---- probe ---------------------------------------------------------------------------------- */

static void answer(dhow_probe *out, dhow_plugin_state state, const char *reason, const char *hint) {
    out->state = (int32_t)state;
    snprintf(out->reason, sizeof out->reason, "%s", reason);
    snprintf(out->hint, sizeof out->hint, "%s", hint);
}

/* The first GPU device file that exists and may not be opened, or NULL. Drivers answer such a
 * machine with "no device", which sends people looking in the wrong place. */
static const char *forbidden_device(char *path, size_t path_bytes) {
    static const char *const patterns[] = {"/dev/dri/renderD*", "/dev/kfd", "/dev/nvidia[0-9]*",
                                           "/dev/nvidiactl"};
    const char *found = NULL;
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0] && found == NULL; i++) {
        glob_t files;
        if (glob(patterns[i], 0, NULL, &files) == 0) {
            for (size_t f = 0; f < files.gl_pathc && found == NULL; f++)
                if (access(files.gl_pathv[f], R_OK | W_OK) != 0 && errno == EACCES) {
                    snprintf(path, path_bytes, "%s", files.gl_pathv[f]);
                    found = path;
                }
            globfree(&files);
        }
    }
    return found;
}

static bool answer_forbidden(dhow_probe *out) {
    char path[96], reason[200];
    if (forbidden_device(path, sizeof path) == NULL) return false;
    snprintf(reason, sizeof reason, "%s is there and this user may not open it", path);
    answer(out, DHOW_PLUGIN_NO_PERMISSION, reason,
           "add the user to the groups render and video (usermod -aG render,video NAME) and log in "
           "again");
    return true;
}

static void answer_no_platform(const dhow_host *host, dhow_probe *out) {
    char reason[256];
    const char *folder = host->env(host->user, "OCL_ICD_VENDORS");
    if (folder == NULL || folder[0] == '\0') folder = VENDOR_FOLDER;
    if (access(folder, F_OK) == 0 && access(folder, R_OK | X_OK) != 0) {
        snprintf(reason, sizeof reason, "the folder of OpenCL drivers, %.120s, may not be read: %s",
                 folder, strerror(errno));
        answer(out, DHOW_PLUGIN_NO_PERMISSION, reason, "make the folder readable (chmod a+rx)");
        return;
    }
    snprintf(reason, sizeof reason,
             "the OpenCL loader is there and finds no driver (%.150s names none that loads)",
             folder);
    answer(out, DHOW_PLUGIN_NO_DRIVER, reason,
           "install pocl-opencl-icd (processor) or the GPU vendor's OpenCL driver; each puts a "
           "file into " VENDOR_FOLDER);
}

static int32_t probe(const dhow_host *host, dhow_probe *out, dhow_error *err) {
    char why[192] = "";
    (void)err;
    switch (dhowi_cl_load(DHOWI_CL_SONAME, why, sizeof why)) {
        case DHOWI_CL_NO_LIBRARY:
            answer(out, DHOW_PLUGIN_NO_DRIVER, why,
                   "install ocl-icd-libopencl1 (Debian, Ubuntu) and a driver: pocl-opencl-icd for "
                   "the processor, or "
                   "the GPU vendor's");
            return DHOW_OK;
        case DHOWI_CL_NO_SYMBOL:
            answer(out, DHOW_PLUGIN_DRIVER_TOO_OLD, why,
                   "install an OpenCL loader of version 1.2 or later");
            return DHOW_OK;
        case DHOWI_CL_LOADED:
            break;
    }
    dhowi_cl_listed *devices = NULL;
    uint32_t count = 0, platforms = 0;
    cl_int code = dhowi_cl_list_devices(host, &devices, &count, &platforms, why, sizeof why);
    dhowi_cl_delete(host, devices);
    if (code != CL_SUCCESS) {
        char reason[256];
        snprintf(reason, sizeof reason, "clGetPlatformIDs: %s (%d)", dhowi_cl_error_name(code),
                 (int)code);
        answer(out, DHOW_PLUGIN_INIT_FAILED, reason,
               "run clinfo; if it fails too, reinstall the OpenCL driver");
    } else if (platforms == 0) {
        answer_no_platform(host, out);
    } else if (count > 0) {
        answer(out, DHOW_PLUGIN_READY, "", "");
    } else if (!answer_forbidden(out)) {
        char reason[256];
        snprintf(reason, sizeof reason, "%u OpenCL platform%s, no usable device: %s", platforms,
                 platforms == 1 ? "" : "s", why);
        /* Of a folder that it cannot write to, PoCL tells only by showing no device. */
        answer(out, DHOW_PLUGIN_NO_DEVICE, reason,
               strstr(why, "Portable Computing Language") != NULL
                   ? "PoCL needs a writable HOME, or a folder in POCL_CACHE_DIR"
                   : "run clinfo; pocl-opencl-icd makes the processor an OpenCL device");
    }
    return DHOW_OK;
}

/* ---- open ----------------------------------------------------------------------------------- */

static int32_t read_blas_mode(const dhow_host *host, dhowi_cl_blas_mode *out, dhow_error *err) {
    const char *word = host->env(host->user, "DHOW_OPENCL_BLAS");
    if (word == NULL || strcmp(word, "auto") == 0) {
        *out = DHOWI_CL_BLAS_AUTO;
    } else if (strcmp(word, "on") == 0 || strcmp(word, "1") == 0) {
        *out = DHOWI_CL_BLAS_ON;
    } else if (strcmp(word, "off") == 0 || strcmp(word, "0") == 0) {
        *out = DHOWI_CL_BLAS_OFF;
    } else {
        return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT,
                               "DHOW_OPENCL_BLAS is '%.64s'; it may be on, off or auto", word);
    }
    return DHOW_OK;
}

static int32_t read_joined(const dhow_host *host, bool *out, dhow_error *err) {
    const char *word = host->env(host->user, "DHOW_OPENCL_JOINED");
    *out = word == NULL || strcmp(word, "on") == 0 || strcmp(word, "1") == 0;
    if (*out || strcmp(word, "off") == 0 || strcmp(word, "0") == 0) return DHOW_OK;
    return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT,
                           "DHOW_OPENCL_JOINED is '%.64s'; it may be 0, 1, on or off", word);
}

static int32_t open_backend(const dhow_host *host, void **out_backend, dhow_error *err) {
    char why[192] = "";
    uint32_t platforms = 0;
    dhowi_cl_blas_mode mode = DHOWI_CL_BLAS_AUTO;
    *out_backend = NULL;
    bool joined = true;
    int32_t status = read_blas_mode(host, &mode, err);
    if (status == DHOW_OK) status = read_joined(host, &joined, err);
    if (status != DHOW_OK) return status;
    if (dhowi_cl_load(DHOWI_CL_SONAME, why, sizeof why) != DHOWI_CL_LOADED)
        return dhowi_cl_refuse(err, DHOW_UNAVAILABLE, "%s", why);
    dhowi_cl_backend *backend = dhowi_cl_new(host, sizeof *backend);
    if (backend == NULL) return dhowi_cl_refuse(err, DHOW_OUT_OF_MEMORY, "opencl: no host memory");
    backend->host = host;
    backend->blas_mode = mode;
    backend->joins_values = joined;
    cl_int code = dhowi_cl_list_devices(host, &backend->devices, &backend->device_count, &platforms,
                                        why, sizeof why);
    if (code != CL_SUCCESS) {
        dhowi_cl_delete(host, backend);
        return dhowi_cl_fail(err, code, "OpenCL devices cannot be listed");
    }
    *out_backend = backend;
    return DHOW_OK;
}

static void close_backend(void *backend_pointer) {
    dhowi_cl_backend *backend = backend_pointer;
    const dhow_host *host = backend->host;
    dhowi_cl_delete(host, backend->devices);
    dhowi_cl_delete(host, backend);
}

/* ---- components and extensions -------------------------------------------------------------- */

static int32_t component(void *backend, uint32_t index, dhow_component *out, dhow_error *err) {
    (void)backend;
    if (index > 0)
        return dhowi_cl_refuse(err, DHOW_OUT_OF_RANGE, "the OpenCL plugin has one component");
    snprintf(out->name, sizeof out->name, "CLBlast");
    snprintf(out->purpose, sizeof out->purpose, "matmul on OpenCL GPUs");
    out->present = dhowi_cl_blas_present(out->detail, sizeof out->detail) ? 1 : 0;
    return DHOW_OK;
}

static const void *get_extension(void *device, const char *id) {
    (void)device;
    if (strcmp(id, "dhow.native/1") == 0) return &dhowi_cl_native;
    return strcmp(id, "dhow.blas/1") == 0 ? &dhowi_cl_blas : NULL;
}

DHOW_PLUGIN_EXPORT const dhow_plugin dhow_plugin_v1 = {
    DHOW_PLUGIN_HEADER,
    .name = "opencl",
    .version = DHOW_OPENCL_VERSION,
    .probe = probe,
    .open = open_backend,
    .close = close_backend,
    .device_count = dhowi_cl_device_count,
    .device_describe = dhowi_cl_device_describe,
    .device_open = dhowi_cl_device_open,
    .device_close = dhowi_cl_device_close,
    .mem_alloc = dhowi_cl_mem_alloc,
    .mem_free = dhowi_cl_mem_free,
    .stream_create = dhowi_cl_stream_create,
    .stream_destroy = dhowi_cl_stream_destroy,
    .stream_sync = dhowi_cl_stream_sync,
    .stream_query = dhowi_cl_stream_query,
    .stream_wait = dhowi_cl_stream_wait,
    .event_create = dhowi_cl_event_create,
    .event_destroy = dhowi_cl_event_destroy,
    .event_record = dhowi_cl_event_record,
    .event_sync = dhowi_cl_event_sync,
    .event_query = dhowi_cl_event_query,
    .copy = dhowi_cl_copy,
    .fill = dhowi_cl_fill,
    .module_build = dhowi_cl_module_build,
    .module_free = dhowi_cl_module_free,
    .module_kernel = dhowi_cl_module_kernel,
    .launch = dhowi_cl_launch,
    .host_alloc = dhowi_cl_host_alloc,
    .host_free = dhowi_cl_host_free,
    .map = dhowi_cl_map,
    .unmap = dhowi_cl_unmap,
    .event_signal = dhowi_cl_event_signal,
    .event_elapsed = dhowi_cl_event_elapsed,
    .mem_info = dhowi_cl_mem_info,
    .component = component,
    .get_extension = get_extension,
};
