/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory and pinned host memory. A handle may be any 64-bit number but 0; here it is the
 * vendor's address. The host adds offsets in other slots, never to the handle. Caching is the
 * host's: a slot allocates and frees at once.
 */
#include "sim.h"

int32_t sim_mem_alloc(void *device, uint64_t bytes, uint64_t *out_handle, dhow_error *err) {
    return simdev_mem_alloc(((sim_device *)device)->native, bytes, out_handle, err);
}

void sim_mem_free(void *device, uint64_t handle) {
    simdev_mem_free(((sim_device *)device)->native, handle);
}

int32_t sim_mem_info(void *device, uint64_t *out_free, uint64_t *out_total, dhow_error *err) {
    return simdev_mem_info(((sim_device *)device)->native, out_free, out_total, err);
}

int32_t sim_host_alloc(void *device, uint64_t bytes, void **out_memory, dhow_error *err) {
    return simdev_host_alloc(((sim_device *)device)->native, bytes, out_memory, err);
}

void sim_host_free(void *device, void *memory) {
    simdev_host_free(((sim_device *)device)->native, memory);
}

int32_t sim_host_register(void *device, void *memory, uint64_t bytes, dhow_error *err) {
    return simdev_host_register(((sim_device *)device)->native, memory, bytes, err);
}

int32_t sim_host_unregister(void *device, void *memory, dhow_error *err) {
    return simdev_host_unregister(((sim_device *)device)->native, memory, err);
}

simdev_range sim_range(dhow_buffer buffer, uint64_t bytes, uint32_t access) {
    const uint64_t handle = buffer.handle == 0 ? 0 : buffer.handle + buffer.offset;
    return (simdev_range){handle, handle == 0 ? 0 : bytes, access};
}
