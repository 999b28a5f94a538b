/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA's errors as dhow's: the status, the code's own name and number, and where there is one the
 * remedy.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda_plugin.h"

typedef struct code_row {
    int code;
    dhow_status status;
    const char *remedy; /* NULL: nothing better than the message */
} code_row;

/* Codes that mean something other than INTERNAL. Those with DEVICE_LOST stick to the context. */
static const code_row k_codes[] = {
    {cudaErrorMemoryAllocation, DHOW_OUT_OF_MEMORY, NULL},
    {cudaErrorInitializationError, DHOW_UNAVAILABLE,
     "run nvidia-smi; a container or WSL needs the driver's files, and the child of a process that "
     "used CUDA before fork() cannot use it"},
    {cudaErrorStubLibrary, DHOW_UNAVAILABLE,
     "the toolkit's stub of libcuda.so.1 was found; take its folder out of LD_LIBRARY_PATH"},
    {cudaErrorInsufficientDriver, DHOW_UNAVAILABLE, "update the NVIDIA driver"},
    {cudaErrorCallRequiresNewerDriver, DHOW_UNSUPPORTED, "update the NVIDIA driver"},
    {cudaErrorDevicesUnavailable, DHOW_UNAVAILABLE,
     "another process uses the device exclusively; see nvidia-smi"},
    {cudaErrorIncompatibleDriverContext, DHOW_UNAVAILABLE,
     "the process made a CUDA context of its own that is not the primary one"},
    {cudaErrorNoDevice, DHOW_UNAVAILABLE, NULL},
    {cudaErrorInvalidDevice, DHOW_UNAVAILABLE, NULL},
    {cudaErrorInvalidConfiguration, DHOW_INVALID_ARGUMENT,
     "the grid, block or shared memory is larger than the device allows"},
    {cudaErrorInvalidKernelImage, DHOW_COMPILE_ERROR, "the image is damaged or no CUDA binary"},
    {cudaErrorNoKernelImageForDevice, DHOW_UNSUPPORTED,
     "the binary has no code for this GPU; build it for its compute capability, or ship PTX"},
    {cudaErrorInvalidPtx, DHOW_COMPILE_ERROR, "the PTX does not assemble"},
    {cudaErrorUnsupportedPtxVersion, DHOW_UNSUPPORTED,
     "the PTX is newer than the driver; update the driver, or build with an older toolkit"},
    {cudaErrorJitCompilerNotFound, DHOW_UNAVAILABLE,
     "libnvidia-ptxjitcompiler.so of the driver is missing"},
    {cudaErrorJitCompilationDisabled, DHOW_UNSUPPORTED, "CUDA_DISABLE_PTX_JIT is set"},
    {cudaErrorInvalidSource, DHOW_COMPILE_ERROR, NULL},
    {cudaErrorSymbolNotFound, DHOW_NOT_FOUND, NULL},
    {cudaErrorNotReady, DHOW_NOT_READY, NULL},
    {cudaErrorLaunchOutOfResources, DHOW_INVALID_ARGUMENT,
     "the block needs more registers or shared memory than a multiprocessor has; use a smaller "
     "one"},
    {cudaErrorNotPermitted, DHOW_UNAVAILABLE, "the operation is not permitted to this user"},
    {cudaErrorNotSupported, DHOW_UNSUPPORTED, NULL},
    {cudaErrorSystemNotReady, DHOW_UNAVAILABLE,
     "start the fabric manager (nvidia-fabricmanager) and the nvidia-persistenced service"},
    {cudaErrorSystemDriverMismatch, DHOW_UNAVAILABLE,
     "driver library and kernel module differ: reboot, or reload the nvidia modules"},
    {cudaErrorMpsConnectionFailed, DHOW_UNAVAILABLE, "the MPS server does not answer"},
    {cudaErrorMpsServerNotReady, DHOW_UNAVAILABLE, "the MPS server is not ready; try again"},
    {cudaErrorMpsMaxClientsReached, DHOW_UNAVAILABLE, "the MPS server has no room for a client"},
    {cudaErrorStreamCaptureUnsupported, DHOW_UNSUPPORTED, "it cannot be recorded in a graph"},
    {cudaErrorStreamCaptureInvalidated, DHOW_UNSUPPORTED, "the recording had failed before"},
    {cudaErrorStreamCaptureImplicit, DHOW_UNSUPPORTED, "it cannot be recorded in a graph"},
    {cudaErrorStreamCaptureIsolation, DHOW_UNSUPPORTED,
     "a graph records one stream, and this depends on another"},
    {cudaErrorECCUncorrectable, DHOW_DEVICE_LOST, "memory of the GPU is damaged; see nvidia-smi"},
    {cudaErrorNvlinkUncorrectable, DHOW_DEVICE_LOST, "a link between GPUs failed; see nvidia-smi"},
    {cudaErrorContained, DHOW_DEVICE_LOST, NULL},
    {cudaErrorIllegalAddress, DHOW_DEVICE_LOST, NULL},
    {cudaErrorLaunchTimeout, DHOW_DEVICE_LOST,
     "the kernel ran longer than the display's watchdog allows"},
    {cudaErrorContextIsDestroyed, DHOW_DEVICE_LOST,
     "something in this process destroyed the context, perhaps cudaDeviceReset()"},
    {cudaErrorDeviceUninitialized, DHOW_DEVICE_LOST,
     "something in this process destroyed the context, perhaps cudaDeviceReset()"},
    {cudaErrorExternalDevice, DHOW_DEVICE_LOST, "a device that works with the GPU failed"},
    {cudaErrorAssert, DHOW_DEVICE_LOST, NULL},
    {cudaErrorHardwareStackError, DHOW_DEVICE_LOST, NULL},
    {cudaErrorIllegalInstruction, DHOW_DEVICE_LOST, NULL},
    {cudaErrorMisalignedAddress, DHOW_DEVICE_LOST, NULL},
    {cudaErrorInvalidAddressSpace, DHOW_DEVICE_LOST, NULL},
    {cudaErrorInvalidPc, DHOW_DEVICE_LOST, NULL},
    {cudaErrorLaunchFailure, DHOW_DEVICE_LOST, NULL},
    {cudaErrorTensorMemoryLeak, DHOW_DEVICE_LOST, NULL},
    {cudaErrorMpsRpcFailure, DHOW_DEVICE_LOST, "the MPS server failed"},
    {cudaErrorMpsClientTerminated, DHOW_DEVICE_LOST, "the MPS server ended this client"}};

static const code_row k_forked = {
    cudaErrorInitializationError, DHOW_FORKED,
    "CUDA was initialised before fork(); use it in the parent, or exec the child"};

static atomic_int g_process; /* that started CUDA; 0: none yet */

void dhowi_cuda_started(void) { atomic_store(&g_process, (int)getpid()); }

static const code_row *row_of(cudaError_t code) {
    const int process = atomic_load(&g_process);
    if (code == cudaErrorInitializationError && process != 0 && process != (int)getpid())
        return &k_forked;
    for (size_t i = 0; i < sizeof k_codes / sizeof k_codes[0]; i++) {
        if (k_codes[i].code == (int)code) return &k_codes[i];
    }
    return NULL;
}

bool dhowi_cuda_is_sticky(cudaError_t code) {
    const code_row *row = row_of(code);
    return row != NULL && row->status == DHOW_DEVICE_LOST;
}

__attribute__((format(printf, 2, 3))) static void append(dhow_error *err, const char *format, ...) {
    const size_t used = strlen(err->message);
    va_list list;
    va_start(list, format);
    (void)vsnprintf(err->message + used, sizeof err->message - used, format, list);
    va_end(list);
}

/* What the message says after the caller's words. */
static int32_t finish(dhow_error *err, cudaError_t code) {
    const code_row *row = row_of(code);
    err->code = (int32_t)(row != NULL ? row->status : DHOW_INTERNAL);
    err->native_code = (int64_t)code;
    append(err, ": %s (%d), %s", cudaGetErrorName(code), (int)code, cudaGetErrorString(code));
    if (row != NULL && row->remedy != NULL) append(err, "; %s", row->remedy);
    (void)cudaGetLastError();
    return err->code;
}

int32_t dhowi_cuda_fail(dhow_error *err, cudaError_t code, const char *format, ...) {
    va_list list;
    va_start(list, format);
    (void)vsnprintf(err->message, sizeof err->message, format, list);
    va_end(list);
    return finish(err, code);
}

int32_t dhowi_cuda_fail_on(dhowi_cuda_stream *stream, dhow_error *err, cudaError_t code,
                           const char *what) {
    (void)snprintf(err->message, sizeof err->message, "%s: %s", stream->device->name, what);
    const int32_t status = finish(err, code);
    if (!dhowi_cuda_is_sticky(code)) return status;
    const unsigned count = atomic_load_explicit(&stream->launches, memory_order_relaxed);
    const char *separator = "; the last launches on this stream, newest first: ";
    for (unsigned i = 0; i < DHOWI_CUDA_SUSPECTS && i < count; i++) {
        const char *name = atomic_load_explicit(
            &stream->suspects[(count - 1 - i) % DHOWI_CUDA_SUSPECTS], memory_order_relaxed);
        append(err, "%s%s", separator, name != NULL ? name : "?");
        separator = ", ";
    }
    return status;
}

int32_t dhowi_cuda_refuse(dhow_error *err, dhow_status status, const char *format, ...) {
    va_list list;
    va_start(list, format);
    (void)vsnprintf(err->message, sizeof err->message, format, list);
    va_end(list);
    err->code = (int32_t)status;
    err->native_code = 0;
    return err->code;
}

void *dhowi_cuda_new(const dhow_host *host, size_t bytes) {
    void *memory = host->alloc(host->user, bytes, 16);
    if (memory != NULL) memset(memory, 0, bytes);
    return memory;
}

void dhowi_cuda_delete(const dhow_host *host, void *memory) {
    if (memory != NULL) host->free(host->user, memory);
}
