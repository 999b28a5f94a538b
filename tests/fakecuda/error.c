/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and texts of errors: those that occur here, spelled as the runtime spells them.
 */
#include "fake.h"

typedef struct error_text {
    int code;
    const char *name, *text;
} error_text;

#define ROW(name, text) \
    { name, #name, text }
static const error_text k_errors[] = {
    ROW(cudaSuccess, "no error"),
    ROW(cudaErrorInvalidValue, "invalid argument"),
    ROW(cudaErrorMemoryAllocation, "out of memory"),
    ROW(cudaErrorInitializationError, "initialization error"),
    ROW(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    ROW(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    ROW(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    ROW(cudaErrorStubLibrary, "CUDA driver is a stub library"),
    ROW(cudaErrorInsufficientDriver,
        "CUDA driver version is insufficient for CUDA runtime version"),
    ROW(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
    ROW(cudaErrorInvalidDeviceFunction, "invalid device function"),
    ROW(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ROW(cudaErrorInvalidDevice, "invalid device ordinal"),
    ROW(cudaErrorInvalidKernelImage, "device kernel image is invalid"),
    ROW(cudaErrorDeviceUninitialized, "invalid device context"),
    ROW(cudaErrorNoKernelImageForDevice,
        "no kernel image is available for execution on the device"),
    ROW(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    ROW(cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    ROW(cudaErrorInvalidPtx, "a PTX JIT compilation failed"),
    ROW(cudaErrorNvlinkUncorrectable, "uncorrectable NVLink error detected during the execution"),
    ROW(cudaErrorUnsupportedPtxVersion,
        "the provided PTX was compiled with an unsupported "
        "toolchain."),
    ROW(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ROW(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    ROW(cudaErrorSymbolNotFound, "named symbol not found"),
    ROW(cudaErrorNotReady, "device not ready"),
    ROW(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    ROW(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    ROW(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    ROW(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    ROW(cudaErrorContextIsDestroyed, "context is destroyed"),
    ROW(cudaErrorAssert, "device-side assert triggered"),
    ROW(cudaErrorHostMemoryAlreadyRegistered,
        "part or all of the requested memory range is already mapped"),
    ROW(cudaErrorHostMemoryNotRegistered,
        "pointer does not correspond to a registered memory region"),
    ROW(cudaErrorHardwareStackError, "hardware stack error"),
    ROW(cudaErrorIllegalInstruction, "an illegal instruction was encountered"),
    ROW(cudaErrorMisalignedAddress, "misaligned address"),
    ROW(cudaErrorInvalidAddressSpace, "operation not supported on global/shared address space"),
    ROW(cudaErrorInvalidPc, "invalid program counter"),
    ROW(cudaErrorLaunchFailure, "unspecified launch failure"),
    ROW(cudaErrorNotPermitted, "operation not permitted"),
    ROW(cudaErrorNotSupported, "operation not supported"),
    ROW(cudaErrorSystemNotReady, "system not yet initialized"),
    ROW(cudaErrorSystemDriverMismatch,
        "system has unsupported display driver / cuda driver combination"),
    ROW(cudaErrorMpsServerNotReady, "the MPS server is not ready to accept new client requests"),
    ROW(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    ROW(cudaErrorStreamCaptureInvalidated,
        "operation failed due to a previous error during "
        "capture"),
    ROW(cudaErrorStreamCaptureImplicit,
        "operation would make the legacy stream depend on a capturing blocking stream"),
    ROW(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    ROW(cudaErrorCapturedEvent,
        "operation not permitted on an event last recorded in a capturing "
        "stream"),
    ROW(cudaErrorStreamCaptureWrongThread,
        "attempt to terminate a thread-local capture sequence from another thread"),
    ROW(cudaErrorUnknown, "unknown error")};
#undef ROW

static const error_text *find(int code) {
    for (size_t i = 0; i < sizeof k_errors / sizeof k_errors[0]; i++) {
        if (k_errors[i].code == code) return &k_errors[i];
    }
    return NULL;
}

const char *cudaGetErrorName(cudaError_t code) {
    const error_text *row = find((int)code);
    return row != NULL ? row->name : "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t code) {
    const error_text *row = find((int)code);
    return row != NULL ? row->text : "unrecognized error code";
}

CUresult cuGetErrorName(CUresult code, const char **out) {
    const error_text *row = find((int)code);
    *out = row != NULL ? row->name : NULL;
    return row != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char **out) {
    const error_text *row = find((int)code);
    *out = row != NULL ? row->text : NULL;
    return row != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
