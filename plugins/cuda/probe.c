/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether CUDA can work here, and if not, exactly why. The runtime answers every machine without a
 * usable driver with the same error; the driver's version tells them apart. No context is made.
 */
#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda_plugin.h"

__attribute__((format(printf, 4, 5))) static void answer(dhow_probe *out, dhow_plugin_state state,
                                                         const char *hint, const char *format,
                                                         ...) {
    va_list list;
    out->state = (int32_t)state;
    va_start(list, format);
    (void)vsnprintf(out->reason, sizeof out->reason, format, list);
    va_end(list);
    (void)snprintf(out->hint, sizeof out->hint, "%s", hint);
}

/* The first device file that exists and may not be opened, or false. */
static bool forbidden_file(char *path, size_t bytes) {
    static const char *const patterns[] = {"/dev/nvidiactl", "/dev/nvidia[0-9]*",
                                           "/dev/nvidia-uvm"};
    bool found = false;
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0] && !found; i++) {
        glob_t files;
        if (glob(patterns[i], 0, NULL, &files) != 0) continue;
        for (size_t f = 0; f < files.gl_pathc && !found; f++) {
            found = access(files.gl_pathv[f], R_OK | W_OK) != 0 && errno == EACCES;
            if (found) (void)snprintf(path, bytes, "%s", files.gl_pathv[f]);
        }
        globfree(&files);
    }
    return found;
}

static void answer_no_driver(dhow_probe *out) {
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    const char *text = library == NULL ? dlerror() : NULL;
    if (text != NULL) {
        answer(out, DHOW_PLUGIN_NO_DRIVER,
               "install the NVIDIA driver (Debian: nvidia-driver, non-free); a container needs the "
               "NVIDIA container toolkit",
               "no NVIDIA driver: %.200s", text);
    } else {
        answer(out, DHOW_PLUGIN_NO_DRIVER, "run nvidia-smi; reinstall the NVIDIA driver",
               "no NVIDIA driver: libcuda.so.1 is there and gives no version");
    }
    if (library != NULL) (void)dlclose(library);
}

static void answer_no_device(const dhow_host *host, dhow_probe *out) {
    const char *visible = host->env(host->user, "CUDA_VISIBLE_DEVICES");
    char path[96];
    if (forbidden_file(path, sizeof path)) {
        answer(out, DHOW_PLUGIN_NO_PERMISSION,
               "add the user to the file's group (usermod -aG GROUP NAME) and log in again",
               "%s is there and this user may not open it", path);
    } else if (visible != NULL) {
        answer(out, DHOW_PLUGIN_NO_DEVICE,
               "unset CUDA_VISIBLE_DEVICES, or name a GPU of nvidia-smi -L; a bad entry hides "
               "itself and all after it",
               "CUDA_VISIBLE_DEVICES is '%.64s' and hides every GPU", visible);
    } else {
        answer(out, DHOW_PLUGIN_NO_DEVICE,
               "run nvidia-smi; a container needs --gpus all, a virtual machine a GPU passed "
               "through",
               "the NVIDIA driver shows no GPU");
    }
}

static void answer_failure(const dhow_host *host, dhow_probe *out, cudaError_t code, int driver) {
    switch ((int)code) {
        case cudaErrorInsufficientDriver:
            if (driver == 0) {
                answer_no_driver(out);
            } else {
                answer(out, DHOW_PLUGIN_DRIVER_TOO_OLD,
                       "update the NVIDIA driver: CUDA 13 needs R580 or later, CUDA 12 R525 or "
                       "later",
                       "the driver supports CUDA %d.%d, this plugin was built with CUDA %d.%d",
                       driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                       CUDART_VERSION % 1000 / 10);
            }
            break;
        case cudaErrorStubLibrary:
            answer(out, DHOW_PLUGIN_NO_DRIVER,
                   "take the toolkit's folder lib64/stubs out of LD_LIBRARY_PATH",
                   "libcuda.so.1 is the toolkit's stub, not a driver");
            break;
        case cudaErrorNoDevice:
        case cudaErrorInvalidDevice:
            answer_no_device(host, out);
            break;
        case cudaErrorNotPermitted:
            answer(out, DHOW_PLUGIN_NO_PERMISSION, "see the permissions of /dev/nvidia*",
                   "the NVIDIA driver refuses this user");
            break;
        case cudaErrorDevicesUnavailable:
            answer(out, DHOW_PLUGIN_INIT_FAILED,
                   "nvidia-smi shows who uses it; nvidia-smi -c 0 allows several",
                   "every GPU is busy or set to exclusive use");
            break;
        case cudaErrorInitializationError:
            answer(out, DHOW_PLUGIN_INIT_FAILED,
                   "run nvidia-smi; a container needs --gpus all; after fork() use CUDA in the "
                   "parent process, or exec the child",
                   "CUDA does not start: cudaErrorInitializationError (3), as in a container "
                   "without the driver's files, or after fork()");
            break;
        case cudaErrorSystemDriverMismatch:
            answer(out, DHOW_PLUGIN_INIT_FAILED, "reboot, or reload the nvidia kernel modules",
                   "driver library and kernel module are of different versions (803)");
            break;
        case cudaErrorSystemNotReady:
            answer(out, DHOW_PLUGIN_INIT_FAILED,
                   "start nvidia-fabricmanager and nvidia-persistenced",
                   "the GPUs are not ready: cudaErrorSystemNotReady (802)");
            break;
        default:
            answer(out, DHOW_PLUGIN_INIT_FAILED, "run nvidia-smi; see dmesg for NVRM messages",
                   "cudaGetDeviceCount: %s (%d), %s", cudaGetErrorName(code), (int)code,
                   cudaGetErrorString(code));
    }
    (void)cudaGetLastError();
}

int32_t dhowi_cuda_probe(const dhow_host *host, dhow_probe *out, dhow_error *err) {
    int driver = 0, count = 0;
    (void)err;
    (void)cudaDriverGetVersion(&driver);
    const cudaError_t code = cudaGetDeviceCount(&count);
    if (code != cudaSuccess) {
        answer_failure(host, out, code, driver);
    } else if (count == 0) {
        answer_no_device(host, out);
    } else {
        answer(out, DHOW_PLUGIN_READY, "", "%s", "");
    }
    return DHOW_OK;
}
