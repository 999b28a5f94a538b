/* SPDX-License-Identifier: Apache-2.0
 *
 * What every call has in common: the state of driver and devices, faults by script, counts, and the
 * error that the runtime remembers for each thread.
 */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

/* Sorted. */
static const char *const k_functions[] = {
#define FAKE_NAME_(name) #name,
#include "functions.inc"
#undef FAKE_NAME_
};
enum { FUNCTIONS = sizeof k_functions / sizeof k_functions[0] };

static _Atomic uint64_t g_calls[FUNCTIONS];
static _Thread_local int t_last_error;
static _Thread_local uint64_t t_generation;

const char *fakecuda_function(size_t index) {
    return index < FUNCTIONS ? k_functions[index] : NULL;
}

static int index_of(const char *name) {
    int low = 0, high = FUNCTIONS - 1;
    while (low <= high) {
        const int middle = (low + high) / 2, order = strcmp(name, k_functions[middle]);
        if (order == 0) return middle;
        if (order < 0) {
            high = middle - 1;
        } else {
            low = middle + 1;
        }
    }
    return -1;
}

uint64_t fakecuda_call_count(const char *function) {
    const int index = index_of(function);
    return index >= 0 ? atomic_load(&g_calls[index]) : 0;
}

void fake_counts_clear(void) {
    for (size_t i = 0; i < FUNCTIONS; i++) atomic_store(&g_calls[i], 0);
}

/* ---- errors that stick ---- */

bool fake_is_sticky(int code) {
    static const int codes[] = {214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 911};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (codes[i] == code) return true;
    }
    return false;
}

void fake_stick(int device, int code) {
    int none = 0;
    if (device < 0 || !fake_is_sticky(code)) return;
    if (atomic_compare_exchange_strong(&fake.sticky[device], &none, code))
        simdev_device_lose(fake.devices[device], "the context has failed");
}

/* ---- faults ---- */

int fakecuda_device_error(int device) {
    return device >= 0 && device < SIMDEV_MAX_DEVICES ? atomic_load(&fake.sticky[device]) : 0;
}

/* The lock is held. */
static const fake_fault *hit(const char *name, int device) {
    const fake_fault *found = NULL;
    for (uint32_t i = 0; i < fake.fault_count; i++) {
        fake_fault *fault = &fake.faults[i];
        if (strcmp(fault->function, name) != 0) continue;
        if (fault->device != -1 && fault->device != device) continue;
        fault->seen++;
        const bool strikes =
            fault->seen == fault->nth || (fault->onwards && fault->seen > fault->nth);
        if (found == NULL && strikes) found = fault;
    }
    if (found != NULL) atomic_fetch_add(&fake.struck, 1);
    return found;
}

int fake_kernel_fault(const char *kernel, int device) {
    char name[64] = "kernel:";
    fake_lock();
    strncat(name, kernel, sizeof name - 8);
    const fake_fault *fault = hit(name, device);
    const fake_fault *any = hit("kernel:*", device);
    const int code = fault != NULL ? fault->code : any != NULL ? any->code : 0;
    fake_unlock();
    return code;
}

/* ---- the state of the driver ---- */

static int driver_state(void) {
    const fake_settings *s = &fake.settings;
    if (fake.process != getpid()) return cudaErrorInitializationError; /* forked */
    if (s->stub) return cudaErrorStubLibrary;
    if (s->driver / 1000 < s->runtime / 1000) return cudaErrorInsufficientDriver;
    if (s->init != 0) return s->init;
    return s->hidden || s->machine.device_count == 0 ? cudaErrorNoDevice : 0;
}

/* ---- calls ---- */

static void take_time(const char *name) {
    static const char *const slow[] = {"cublasLtCreate", "cublasCreate_v2", "cudaHostAlloc"};
    const int ms = fake.settings.slow_ms;
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};
    for (size_t i = 0; i < sizeof slow / sizeof slow[0] && ms > 0; i++) {
        if (strcmp(slow[i], name) == 0) (void)nanosleep(&pause, NULL);
    }
}

cudaError_t fake_begin(fake_call *call, const char *name, int device) {
    const int index = index_of(name);
    fakecuda_start();
    if (t_generation != fake.generation) {
        t_generation = fake.generation;
        t_last_error = 0;
    }
    *call = (fake_call){.name = name, .device = FAKE_NOWHERE, .runtime = true};
    if (index < 0) {
        fakecuda_complain("%s is missing in functions.inc", name);
    } else {
        atomic_fetch_add(&g_calls[index], 1);
    }
    take_time(name);
    int code = device == FAKE_ALWAYS ? 0 : driver_state();
    if (code != 0) return (cudaError_t)code;
    if (device == FAKE_CURRENT) device = fake_current_or_first();
    call->device = device;
    const int stuck = device >= 0 ? atomic_load(&fake.sticky[device]) : 0;
    /* A call whose answer needs no context still fails by script; what sticks does so to the
     * context that is current. */
    const int victim = device >= 0 ? device : fake_current();
    fake_lock();
    const fake_fault *fault = hit(name, victim);
    if (stuck != 0) {
        code = stuck;
    } else if (fault != NULL && fault->async) {
        call->async_code = fault->code;
    } else if (fault != NULL) {
        code = fault->code;
    }
    fake_unlock();
    if (stuck == 0) fake_stick(victim, code);
    return (cudaError_t)code;
}

cudaError_t fake_end(fake_call *call, cudaError_t code) {
    if (call->async_code != 0)
        fake_stick(call->device >= 0 ? call->device : fake_current(), call->async_code);
    if (!call->runtime || code == cudaSuccess) return code;
    t_last_error = (int)code;
    const int device = call->device >= 0 ? call->device : fake_current();
    if (device >= 0 && fake_is_sticky((int)code)) fake.sticky_reported[device] = true;
    return code;
}

cudaError_t fake_code(int device, int32_t status) {
    const int stuck = device >= 0 ? atomic_load(&fake.sticky[device]) : 0;
    if (status > FAKE_STATUS) return (cudaError_t)(stuck != 0 ? stuck : status - FAKE_STATUS);
    switch (status) {
        case DHOW_OK:
            return cudaSuccess;
        case DHOW_NOT_READY:
            return cudaErrorNotReady;
        case DHOW_OUT_OF_MEMORY:
            return cudaErrorMemoryAllocation;
        case DHOW_DEVICE_LOST:
            return stuck != 0 ? (cudaError_t)stuck : cudaErrorUnknown;
        default:
            return stuck != 0 ? (cudaError_t)stuck : cudaErrorInvalidValue;
    }
}

cudaError_t fake_done(int device, int32_t status) {
    const cudaError_t code = fake_code(device, status);
    return code == cudaSuccess ? (cudaError_t)atomic_load(&fake.sticky[device]) : code;
}

int fakecuda_library_call(const char *function) {
    fake_call call;
    const cudaError_t code = fake_begin(&call, function, FAKE_NOWHERE);
    call.runtime = false;
    return (int)fake_end(&call, code);
}

/* ---- the runtime's memory of errors ---- */

/* Only what this runtime was told itself: NVIDIA's libraries have runtimes of their own inside. */
static int remembered(void) {
    const int device = fake_current();
    if (device >= 0 && atomic_load(&fake.sticky_reported[device]))
        return atomic_load(&fake.sticky[device]);
    return t_last_error;
}

cudaError_t cudaGetLastError(void) {
    const int code = remembered();
    t_last_error = 0;
    return (cudaError_t)code;
}

cudaError_t cudaPeekAtLastError(void) { return (cudaError_t)remembered(); }

cudaError_t cudaDriverGetVersion(int *version) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cudaDriverGetVersion", FAKE_ALWAYS);
    if (code == cudaSuccess && version == NULL) code = cudaErrorInvalidValue;
    if (code == cudaSuccess) *version = fake.settings.driver;
    return fake_end(&call, code);
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cudaRuntimeGetVersion", FAKE_ALWAYS);
    if (code == cudaSuccess && version == NULL) code = cudaErrorInvalidValue;
    if (code == cudaSuccess) *version = fake.settings.runtime;
    return fake_end(&call, code);
}
