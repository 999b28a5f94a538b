/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory and pinned host memory. Functions that release do so whatever they answer: an error
 * there is news of earlier work.
 */
#include <stdio.h>

#include "fake.h"

static void count(uint32_t *counter, int by) {
    fake_lock();
    *counter += (uint32_t)by;
    fake_unlock();
}

cudaError_t cudaMalloc(void **out, size_t bytes) {
    fake_call call;
    dhow_error err = {.struct_size = sizeof err};
    uint64_t handle = 0;
    cudaError_t code = fake_begin(&call, "cudaMalloc", FAKE_CURRENT);
    if (code == cudaSuccess) code = fake_forbidden();
    if (code != cudaSuccess) return fake_end(&call, code);
    *out = NULL;
    if (bytes == 0) return fake_end(&call, cudaSuccess);
    code =
        fake_code(call.device, simdev_mem_alloc(fake.devices[call.device], bytes, &handle, &err));
    *out = (void *)(uintptr_t)handle;
    if (code == cudaSuccess) count(&fake.device_blocks, 1);
    return fake_end(&call, code);
}

cudaError_t cudaFree(void *memory) {
    fake_call call;
    simdev_place place = {0};
    cudaError_t code = fake_begin(&call, "cudaFree", FAKE_CURRENT);
    if (call.device == FAKE_NOWHERE || memory == NULL) return fake_end(&call, code);
    const bool is_block = simdev_find(fake.machine, (uintptr_t)memory, &place) && !place.pinned &&
                          place.start == (uintptr_t)memory;
    if (!is_block) {
        fakecuda_complain("cudaFree of %p, which cudaMalloc did not give", memory);
        return fake_end(&call, code != cudaSuccess ? code : cudaErrorInvalidValue);
    }
    if (code == cudaSuccess) code = fake_forbidden();
    fake_drain(place.device);
    simdev_mem_free(place.device, place.start);
    count(&fake.device_blocks, -1);
    return fake_end(&call, code == cudaSuccess ? fake_done(call.device, DHOW_OK) : code);
}

cudaError_t cudaMemGetInfo(size_t *out_free, size_t *out_total) {
    fake_call call;
    dhow_error err = {.struct_size = sizeof err};
    uint64_t free_bytes = 0, total = 0;
    cudaError_t code = fake_begin(&call, "cudaMemGetInfo", FAKE_CURRENT);
    if (code == cudaSuccess)
        code = fake_code(call.device,
                         simdev_mem_info(fake.devices[call.device], &free_bytes, &total, &err));
    if (code == cudaSuccess) {
        *out_free = (size_t)free_bytes;
        *out_total = (size_t)total;
    }
    return fake_end(&call, code);
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags) {
    fake_call call;
    dhow_error err = {.struct_size = sizeof err};
    cudaError_t code = fake_begin(&call, "cudaHostAlloc", FAKE_CURRENT);
    if (code == cudaSuccess) code = fake_forbidden();
    if (code == cudaSuccess && flags > 7) code = cudaErrorInvalidValue;
    if (code != cudaSuccess) return fake_end(&call, code);
    *out = NULL;
    if (bytes == 0) return fake_end(&call, cudaSuccess);
    if (fake.settings.quiesce) fake_drain(fake.devices[call.device]);
    code = fake_code(call.device, simdev_host_alloc(fake.devices[call.device], bytes, out, &err));
    if (code == cudaSuccess) count(&fake.host_blocks, 1);
    return fake_end(&call, code);
}

cudaError_t cudaFreeHost(void *memory) {
    fake_call call;
    simdev_place place = {0};
    cudaError_t code = fake_begin(&call, "cudaFreeHost", FAKE_CURRENT);
    if (call.device == FAKE_NOWHERE || memory == NULL) return fake_end(&call, code);
    const bool is_block = simdev_find(fake.machine, (uintptr_t)memory, &place) && place.pinned &&
                          !place.registered && place.start == (uintptr_t)memory;
    if (!is_block) {
        fakecuda_complain("cudaFreeHost of %p, which cudaHostAlloc did not give", memory);
        return fake_end(&call, code != cudaSuccess ? code : cudaErrorInvalidValue);
    }
    if (code == cudaSuccess) code = fake_forbidden();
    fake_drain(place.device);
    simdev_host_free(place.device, memory);
    count(&fake.host_blocks, -1);
    return fake_end(&call, code == cudaSuccess ? fake_done(call.device, DHOW_OK) : code);
}

/* Whether the page at an address may not be written to. */
static bool is_read_only(const void *memory) {
    unsigned long long begin, end;
    char line[512], rights[8];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && !found && fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%llx-%llx %7s", &begin, &end, rights) != 3) continue;
        found = (uintptr_t)memory >= begin && (uintptr_t)memory < end;
    }
    if (maps != NULL) (void)fclose(maps);
    return found && rights[1] != 'w';
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags) {
    fake_call call;
    dhow_error err = {.struct_size = sizeof err};
    simdev_place place;
    cudaError_t code = fake_begin(&call, "cudaHostRegister", FAKE_CURRENT);
    if (code == cudaSuccess) code = fake_forbidden();
    if (code == cudaSuccess && (flags > 15 || memory == NULL || bytes == 0))
        code = cudaErrorInvalidValue;
    if (code == cudaSuccess && (simdev_find(fake.machine, (uintptr_t)memory, &place) ||
                                simdev_find(fake.machine, (uintptr_t)memory + bytes - 1, &place)))
        code = cudaErrorHostMemoryAlreadyRegistered;
    if (code == cudaSuccess && is_read_only(memory) && (flags & cudaHostRegisterReadOnly) == 0)
        code = cudaErrorInvalidValue;
    if (code != cudaSuccess) return fake_end(&call, code);
    const int32_t status = simdev_host_register(fake.devices[call.device], memory, bytes, &err);
    code = fake_code(call.device, status);
    if (code == cudaSuccess) count(&fake.registrations, 1);
    return fake_end(&call, code);
}

cudaError_t cudaHostUnregister(void *memory) {
    fake_call call;
    dhow_error err = {.struct_size = sizeof err};
    simdev_place place = {0};
    cudaError_t code = fake_begin(&call, "cudaHostUnregister", FAKE_CURRENT);
    if (call.device == FAKE_NOWHERE) return fake_end(&call, code);
    const bool is_block = simdev_find(fake.machine, (uintptr_t)memory, &place) &&
                          place.registered && place.start == (uintptr_t)memory;
    if (!is_block)
        return fake_end(&call, code != cudaSuccess ? code : cudaErrorHostMemoryNotRegistered);
    fake_drain(place.device);
    (void)simdev_host_unregister_always(place.device, memory, &err);
    count(&fake.registrations, -1);
    return fake_end(&call, code == cudaSuccess ? fake_done(call.device, DHOW_OK) : code);
}

cudaError_t cudaHostGetDevicePointer(void **out, void *memory, unsigned flags) {
    fake_call call;
    simdev_place place;
    cudaError_t code = fake_begin(&call, "cudaHostGetDevicePointer", FAKE_CURRENT);
    if (code == cudaSuccess &&
        (flags != 0 || !simdev_find(fake.machine, (uintptr_t)memory, &place) || !place.pinned))
        code = cudaErrorInvalidValue;
    if (code == cudaSuccess) *out = memory;
    return fake_end(&call, code);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *pointer) {
    fake_call call;
    simdev_place place;
    const cudaError_t code = fake_begin(&call, "cudaPointerGetAttributes", FAKE_NOWHERE);
    if (code != cudaSuccess) return fake_end(&call, code);
    *out = (struct cudaPointerAttributes){.type = cudaMemoryTypeUnregistered, .device = -2};
    if (simdev_find(fake.machine, (uintptr_t)pointer, &place)) {
        out->type = place.pinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
        out->device = (int)simdev_device_index(place.device);
        out->devicePointer = (void *)(uintptr_t)pointer;
        out->hostPointer = place.pinned ? (void *)(uintptr_t)pointer : NULL;
    }
    return fake_end(&call, code);
}

CUresult cuMemGetAddressRange(CUdeviceptr *out_base, size_t *out_bytes, CUdeviceptr address) {
    fake_call call;
    simdev_place place;
    cudaError_t code = fake_begin(&call, "cuMemGetAddressRange", FAKE_CURRENT);
    if (code == cudaSuccess && !simdev_find(fake.machine, address, &place))
        code = cudaErrorInvalidValue;
    if (code == cudaSuccess) {
        if (out_base != NULL) *out_base = place.start;
        if (out_bytes != NULL) *out_bytes = place.bytes;
    }
    return fake_driver_end(&call, code);
}
