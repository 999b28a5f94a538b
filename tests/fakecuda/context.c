/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts: each thread has a stack of them. A runtime call where the stack is empty works on
 * device 0 and brings its primary context to life, which a test can see.
 */
#include "fake.h"

enum { STACK = 32 };

static _Thread_local struct {
    uint64_t generation;
    int depth;
    int devices[STACK];
} t_stack;

static void check_generation(void) {
    if (t_stack.generation == fake.generation) return;
    t_stack.generation = fake.generation;
    t_stack.depth = 0;
}

int fake_current(void) {
    check_generation();
    return t_stack.depth > 0 ? t_stack.devices[t_stack.depth - 1] : -1;
}

static void retain(int device) {
    fake_lock();
    if (fake.contexts[device].retained++ == 0) fake.contexts_made++;
    fake_unlock();
}

static void set_top(int device) {
    check_generation();
    if (t_stack.depth == 0) t_stack.depth = 1;
    t_stack.devices[t_stack.depth - 1] = device;
}

int fake_current_or_first(void) {
    int device = fake_current();
    if (device >= 0) return device;
    retain(0); /* and nobody gives it back */
    set_top(0);
    return 0;
}

static bool is_device(int device) {
    return device >= 0 && device < (int)fake.settings.machine.device_count;
}

/* ---- the runtime ---- */

cudaError_t cudaSetDevice(int device) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cudaSetDevice", FAKE_NOWHERE);
    if (code == cudaSuccess && !is_device(device)) code = cudaErrorInvalidDevice;
    if (code == cudaSuccess) {
        fake_lock();
        const bool alive = fake.contexts[device].retained > 0;
        fake_unlock();
        if (!alive) retain(device);
        set_top(device);
        code = (cudaError_t)atomic_load(&fake.sticky[device]);
    }
    return fake_end(&call, code);
}

cudaError_t cudaGetDevice(int *device) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cudaGetDevice", FAKE_NOWHERE);
    if (code == cudaSuccess) *device = fake_current() >= 0 ? fake_current() : 0;
    return fake_end(&call, code);
}

cudaError_t cudaDeviceReset(void) {
    fake_call call;
    const cudaError_t code = fake_begin(&call, "cudaDeviceReset", FAKE_CURRENT);
    fakecuda_complain("cudaDeviceReset destroys what others in the process made");
    return fake_end(&call, code);
}

/* ---- the driver ---- */

CUresult cuInit(unsigned flags) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cuInit", FAKE_NOWHERE);
    if (code == cudaSuccess && flags != 0) code = cudaErrorInvalidValue;
    return fake_driver_end(&call, code);
}

CUresult cuDriverGetVersion(int *version) {
    fake_call call;
    const cudaError_t code = fake_begin(&call, "cuDriverGetVersion", FAKE_ALWAYS);
    if (code == cudaSuccess) *version = fake.settings.driver;
    return fake_driver_end(&call, code);
}

CUresult cuDeviceGetCount(int *count) {
    fake_call call;
    const cudaError_t code = fake_begin(&call, "cuDeviceGetCount", FAKE_NOWHERE);
    if (code == cudaSuccess) *count = (int)fake.settings.machine.device_count;
    return fake_driver_end(&call, code);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cuDeviceGet", FAKE_NOWHERE);
    if (code == cudaSuccess && !is_device(ordinal)) code = cudaErrorInvalidDevice;
    if (code == cudaSuccess) *device = ordinal;
    return fake_driver_end(&call, code);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cuDevicePrimaryCtxRetain", FAKE_NOWHERE);
    if (code == cudaSuccess && !is_device(device)) code = cudaErrorInvalidDevice;
    if (code == cudaSuccess) code = (cudaError_t)atomic_load(&fake.sticky[device]);
    if (code == cudaSuccess) {
        retain(device);
        *context = &fake.contexts[device];
    }
    return fake_driver_end(&call, code);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cuDevicePrimaryCtxRelease", FAKE_NOWHERE);
    if (!is_device(device)) return fake_driver_end(&call, cudaErrorInvalidDevice);
    fake_lock();
    const bool retained = fake.contexts[device].retained > 0;
    if (retained) fake.contexts[device].retained--;
    fake_unlock();
    if (!retained) {
        fakecuda_complain("the primary context of device %d is released once too often", device);
        code = cudaErrorDeviceUninitialized;
    }
    return fake_driver_end(&call, code);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cuDevicePrimaryCtxGetState", FAKE_NOWHERE);
    if (code == cudaSuccess && !is_device(device)) code = cudaErrorInvalidDevice;
    if (code == cudaSuccess) {
        fake_lock();
        *flags = 0;
        *active = fake.contexts[device].retained > 0 ? 1 : 0;
        fake_unlock();
    }
    return fake_driver_end(&call, code);
}

/* 0, or why the context cannot be made current. */
static cudaError_t check(CUcontext context) {
    if (context < fake.contexts || context >= fake.contexts + fake.settings.machine.device_count)
        return cudaErrorDeviceUninitialized; /* CUDA_ERROR_INVALID_CONTEXT */
    fake_lock();
    const bool alive = context->retained > 0;
    fake_unlock();
    return alive ? cudaSuccess : cudaErrorContextIsDestroyed;
}

CUresult cuCtxPushCurrent(CUcontext context) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cuCtxPushCurrent", FAKE_NOWHERE);
    if (code == cudaSuccess) code = check(context);
    check_generation();
    if (code == cudaSuccess && t_stack.depth == STACK) {
        fakecuda_complain("%d contexts are pushed and not popped", STACK);
        code = cudaErrorInvalidValue;
    }
    if (code == cudaSuccess) t_stack.devices[t_stack.depth++] = context->device;
    return fake_driver_end(&call, code);
}

/* Pops whatever a script says: a stack that only grows would be the fake's own. */
CUresult cuCtxPopCurrent(CUcontext *context) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cuCtxPopCurrent", FAKE_NOWHERE);
    const int device = fake_current();
    if (device < 0) {
        code = cudaErrorDeviceUninitialized;
    } else {
        t_stack.depth--;
        if (context != NULL) *context = &fake.contexts[device];
    }
    return fake_driver_end(&call, code);
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    fake_call call;
    const cudaError_t code = fake_begin(&call, "cuCtxGetCurrent", FAKE_NOWHERE);
    const int device = fake_current();
    if (code == cudaSuccess) *context = device >= 0 ? &fake.contexts[device] : NULL;
    return fake_driver_end(&call, code);
}

CUresult cuCtxSetCurrent(CUcontext context) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cuCtxSetCurrent", FAKE_NOWHERE);
    if (code == cudaSuccess && context != NULL) code = check(context);
    if (code == cudaSuccess && context != NULL) {
        set_top(context->device);
    } else if (code == cudaSuccess && t_stack.depth > 0) {
        t_stack.depth--;
    }
    return fake_driver_end(&call, code);
}

CUresult cuCtxGetDevice(CUdevice *device) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cuCtxGetDevice", FAKE_NOWHERE);
    if (code == cudaSuccess && fake_current() < 0) code = cudaErrorDeviceUninitialized;
    if (code == cudaSuccess) *device = fake_current();
    return fake_driver_end(&call, code);
}
