/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices: what they are. None of these calls needs a context.
 */
#include <stdio.h>
#include <string.h>

#include "fake.h"

static bool is_device(int device) {
    return device >= 0 && device < (int)fake.settings.machine.device_count;
}

cudaError_t cudaGetDeviceCount(int *count) {
    fake_call call;
    const cudaError_t code = fake_begin(&call, "cudaGetDeviceCount", FAKE_NOWHERE);
    if (code == cudaSuccess) *count = (int)fake.settings.machine.device_count;
    return fake_end(&call, code);
}

static int attribute(enum cudaDeviceAttr name) {
    const fake_settings *s = &fake.settings;
    switch (name) {
        case cudaDevAttrMaxThreadsPerBlock:
        case cudaDevAttrMaxBlockDimX:
        case cudaDevAttrMaxBlockDimY:
            return 1024;
        case cudaDevAttrMaxBlockDimZ:
            return 64;
        case cudaDevAttrMaxGridDimX:
            return 0x7fffffff;
        case cudaDevAttrMaxGridDimY:
        case cudaDevAttrMaxGridDimZ:
            return 65535;
        case cudaDevAttrMaxSharedMemoryPerBlock:
            return 48 * 1024;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin:
            return fake_shared_limit();
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
            return 228 * 1024;
        case cudaDevAttrMaxRegistersPerBlock:
            return 65536;
        case cudaDevAttrMaxThreadsPerMultiProcessor:
            return 2048;
        case cudaDevAttrWarpSize:
            return 32;
        case cudaDevAttrMaxPitch:
            return 0x7fffffff;
        case cudaDevAttrMultiProcessorCount:
            return s->sms;
        case cudaDevAttrComputeCapabilityMajor:
            return s->cc / 10;
        case cudaDevAttrComputeCapabilityMinor:
            return s->cc % 10;
        case cudaDevAttrEccEnabled:
            return s->ecc;
        case cudaDevAttrAsyncEngineCount:
            return 3;
        case cudaDevAttrUnifiedAddressing:
        case cudaDevAttrCanMapHostMemory:
        case cudaDevAttrConcurrentKernels:
        case cudaDevAttrCanUseHostPointerForRegisteredMem:
        case cudaDevAttrHostRegisterSupported:
        case cudaDevAttrHostRegisterReadOnlySupported:
        case cudaDevAttrStreamPrioritiesSupported:
            return 1;
        default:
            return 0;
    }
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr name, int device) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cudaDeviceGetAttribute", FAKE_NOWHERE);
    if (code == cudaSuccess && !is_device(device)) code = cudaErrorInvalidDevice;
    if (code == cudaSuccess) *value = attribute(name);
    return fake_end(&call, code);
}

/* The first bytes are the device's number, so that two devices differ. */
static void write_uuid(int device, char *out) {
    static const unsigned char text[16] = {0,    0xfa, 0x4e, 0xc0, 0xda, 0, 0x40, 1,
                                           0x80, 2,    3,    4,    5,    6, 7,    8};
    memcpy(out, text, sizeof text);
    out[0] = (char)(device + 1);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cudaGetDeviceProperties", FAKE_NOWHERE);
    if (code == cudaSuccess && !is_device(device)) code = cudaErrorInvalidDevice;
    if (code != cudaSuccess) return fake_end(&call, code);
    memset(out, 0, sizeof *out);
    (void)snprintf(out->name, sizeof out->name, "Fake GPU %d", device);
    write_uuid(device, out->uuid.bytes);
    out->totalGlobalMem = (size_t)fake.settings.machine.memory_bytes;
    out->sharedMemPerBlock = (size_t)attribute(cudaDevAttrMaxSharedMemoryPerBlock);
    out->sharedMemPerBlockOptin = (size_t)attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    out->sharedMemPerMultiprocessor =
        (size_t)attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
    out->regsPerBlock = attribute(cudaDevAttrMaxRegistersPerBlock);
    out->warpSize = 32;
    out->maxThreadsPerBlock = 1024;
    out->maxThreadsPerMultiProcessor = 2048;
    out->memPitch = 0x7fffffff;
    out->major = fake.settings.cc / 10;
    out->minor = fake.settings.cc % 10;
    out->multiProcessorCount = fake.settings.sms;
    out->ECCEnabled = fake.settings.ecc;
    out->asyncEngineCount = attribute(cudaDevAttrAsyncEngineCount);
    out->unifiedAddressing = 1;
    out->canMapHostMemory = 1;
    out->concurrentKernels = 1;
    out->pciBusID = 0x1A + device;
    return fake_end(&call, code);
}

cudaError_t cudaDeviceGetPCIBusId(char *out, int bytes, int device) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cudaDeviceGetPCIBusId", FAKE_NOWHERE);
    if (code == cudaSuccess && !is_device(device)) code = cudaErrorInvalidDevice;
    if (code == cudaSuccess && bytes < 13) code = cudaErrorInvalidValue;
    if (code == cudaSuccess)
        (void)snprintf(out, (size_t)bytes, "0000:%02X:00.0", (unsigned)(0x1A + device));
    return fake_end(&call, code);
}

CUresult cuDeviceGetUuid(CUuuid *out, CUdevice device) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cuDeviceGetUuid", FAKE_NOWHERE);
    if (code == cudaSuccess && !is_device(device)) code = cudaErrorInvalidDevice;
    if (code == cudaSuccess) write_uuid(device, out->bytes);
    return fake_driver_end(&call, code);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    fake_call call;
    const cudaError_t code = fake_begin(&call, "cudaDeviceGetStreamPriorityRange", FAKE_CURRENT);
    if (code == cudaSuccess) {
        *least = 0;
        *greatest = -5;
    }
    return fake_end(&call, code);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cudaDeviceCanAccessPeer", FAKE_NOWHERE);
    if (code == cudaSuccess && (!is_device(device) || !is_device(peer)))
        code = cudaErrorInvalidDevice;
    if (code == cudaSuccess) *can = device != peer && fake.settings.peer != 0 ? 1 : 0;
    return fake_end(&call, code);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cudaDeviceEnablePeerAccess", FAKE_CURRENT);
    if (code == cudaSuccess && flags != 0) code = cudaErrorInvalidValue;
    if (code == cudaSuccess && (!is_device(peer) || peer == call.device))
        code = cudaErrorInvalidDevice;
    if (code == cudaSuccess && fake.settings.peer == 0) code = cudaErrorPeerAccessUnsupported;
    if (code == cudaSuccess) {
        fake_lock();
        if (fake.peers[call.device][peer]) code = cudaErrorPeerAccessAlreadyEnabled;
        fake.peers[call.device][peer] = true;
        fake_unlock();
    }
    return fake_end(&call, code);
}

cudaError_t cudaDeviceSynchronize(void) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cudaDeviceSynchronize", FAKE_CURRENT);
    if (code == cudaSuccess) code = fake_forbidden();
    if (code == cudaSuccess) {
        simdev_device_drain(fake.devices[call.device]);
        code = fake_done(call.device, DHOW_OK);
    }
    return fake_end(&call, code);
}
