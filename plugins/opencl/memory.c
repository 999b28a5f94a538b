/* SPDX-License-Identifier: Apache-2.0
 *
 * Device buffers, pinned host memory and maps. Where host and device share memory (processors,
 * integrated GPUs) buffers are allocated so that a map costs no copy.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "opencl.h"

enum { QUERY_FREE_MEMORY_AMD = 0x4039, HUGE_PAGE_BYTES = 2 << 20 };

/* OpenCL may put off the allocation to the first use, where nobody can trim caches and try again.
 * Moving the undefined contents to the device makes it happen now. */
static cl_int commit(dhowi_cl_device *device, cl_mem mem) {
    cl_int code = dhowi_cl.EnqueueMigrateMemObjects(
        device->own_queue, 1, &mem, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, NULL);
    return code == CL_SUCCESS ? dhowi_cl.Finish(device->own_queue) : code;
}

static int32_t fail_alloc(const dhowi_cl_device *device, uint64_t bytes, cl_int code,
                          dhow_error *err) {
    dhowi_cl_fail(err, code, "%s: no buffer of %llu bytes (one may have %llu, all together %llu)",
                  device->name, (unsigned long long)bytes,
                  (unsigned long long)device->max_alloc_bytes,
                  (unsigned long long)device->total_bytes);
    /* CL_INVALID_BUFFER_SIZE and friends: whatever the runtime calls it, there is no memory of that
     * size. */
    if (err->code != DHOW_DEVICE_LOST) err->code = DHOW_OUT_OF_MEMORY;
    return err->code;
}

static size_t bytes_of_pages(uint64_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE); /* up to 64 KiB on arm64 */
    return ((size_t)bytes + page - 1) / page * page;
}

/* Large buffers of a processor lie on huge pages, which runtimes do not ask for: rows and elementwise
 * kernels gain a tenth to a third. NULL leaves the allocation to the runtime. */
static void *huge_pages(uint64_t bytes) {
    if (bytes < HUGE_PAGE_BYTES || bytes > SIZE_MAX - 2 * HUGE_PAGE_BYTES) return NULL;
    const size_t kept = bytes_of_pages(bytes), room = kept + HUGE_PAGE_BYTES;
    char *start = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return NULL;
    const size_t before = -(uintptr_t)start & (HUGE_PAGE_BYTES - 1);
    if (before > 0) (void)munmap(start, before);
    (void)munmap(start + before + kept, room - before - kept);
    (void)madvise(start + before, (size_t)bytes, MADV_HUGEPAGE);
    return start + before;
}

dhowi_cl_buffer *dhowi_cl_buffer_new(const dhowi_cl_device *device, uint64_t bytes) {
    static atomic_uint_fast64_t next_id = 1;
    dhowi_cl_buffer *buffer = dhowi_cl_new(device->host, sizeof *buffer);
    if (buffer == NULL) return NULL;
    buffer->bytes = bytes;
    buffer->id = atomic_fetch_add_explicit(&next_id, 1, memory_order_relaxed);
    return buffer;
}

int32_t dhowi_cl_mem_alloc(void *device_pointer, uint64_t bytes, uint64_t *out_handle,
                           dhow_error *err) {
    dhowi_cl_device *device = device_pointer;
    cl_int code = CL_SUCCESS;
    *out_handle = 0;
    if (bytes == 0) bytes = 1; /* OpenCL has no empty buffers */
    if (bytes > device->max_alloc_bytes || bytes > SIZE_MAX)
        return fail_alloc(device, bytes, CL_INVALID_BUFFER_SIZE, err);
    dhowi_cl_buffer *buffer = dhowi_cl_buffer_new(device, bytes);
    if (buffer == NULL)
        return dhowi_cl_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", device->name);
    cl_mem_flags flags =
        CL_MEM_READ_WRITE | (device->host_visible ? (cl_mem_flags)CL_MEM_ALLOC_HOST_PTR : 0);
    if (device->is_cpu) buffer->memory = huge_pages(bytes);
    if (buffer->memory != NULL) flags = CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR;
    buffer->mem =
        dhowi_cl.CreateBuffer(device->context, flags, (size_t)bytes, buffer->memory, &code);
    if (code == CL_SUCCESS && !device->host_visible) {
        code = commit(device, buffer->mem);
        if (code != CL_SUCCESS) dhowi_cl.ReleaseMemObject(buffer->mem);
    }
    if (code != CL_SUCCESS) {
        if (buffer->memory != NULL) (void)munmap(buffer->memory, bytes_of_pages(bytes));
        dhowi_cl_delete(device->host, buffer);
        return fail_alloc(device, bytes, code, err);
    }
    *out_handle = (uint64_t)(uintptr_t)buffer;
    return DHOW_OK;
}

void dhowi_cl_mem_free(void *device_pointer, uint64_t handle) {
    const dhowi_cl_device *device = device_pointer;
    dhowi_cl_buffer *buffer = dhowi_cl_buffer_of(handle);
    if (buffer == NULL) return;
    dhowi_cl.ReleaseMemObject(buffer->mem);
    if (buffer->memory != NULL) (void)munmap(buffer->memory, bytes_of_pages(buffer->bytes));
    dhowi_cl_delete(device->host, buffer);
}

/* ---- pinned host memory --------------------------------------------------------------------- */

/* A buffer in host memory that stays mapped: drivers know its address and transfer from it without
 * staging. */
int32_t dhowi_cl_host_alloc(void *device_pointer, uint64_t bytes, void **out_memory,
                            dhow_error *err) {
    dhowi_cl_device *device = device_pointer;
    cl_int code = CL_SUCCESS;
    *out_memory = NULL;
    if (bytes == 0) bytes = 1;
    if (bytes > device->max_alloc_bytes || bytes > SIZE_MAX)
        return fail_alloc(device, bytes, CL_INVALID_BUFFER_SIZE, err);
    dhowi_cl_pinned *pinned = dhowi_cl_new(device->host, sizeof *pinned);
    if (pinned == NULL)
        return dhowi_cl_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", device->name);
    pinned->mem = dhowi_cl.CreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                                        (size_t)bytes, NULL, &code);
    if (code == CL_SUCCESS) {
        pinned->memory = dhowi_cl.EnqueueMapBuffer(device->own_queue, pinned->mem, CL_TRUE,
                                                   CL_MAP_READ | CL_MAP_WRITE, 0, (size_t)bytes, 0,
                                                   NULL, NULL, &code);
        if (code != CL_SUCCESS) dhowi_cl.ReleaseMemObject(pinned->mem);
    }
    if (code != CL_SUCCESS) {
        dhowi_cl_delete(device->host, pinned);
        return fail_alloc(device, bytes, code, err);
    }
    pthread_mutex_lock(&device->pinned_lock);
    pinned->next = device->pinned;
    device->pinned = pinned;
    pthread_mutex_unlock(&device->pinned_lock);
    *out_memory = pinned->memory;
    return DHOW_OK;
}

void dhowi_cl_host_free(void *device_pointer, void *memory) {
    dhowi_cl_device *device = device_pointer;
    pthread_mutex_lock(&device->pinned_lock);
    dhowi_cl_pinned **link = &device->pinned;
    while (*link != NULL && (*link)->memory != memory) link = &(*link)->next;
    dhowi_cl_pinned *pinned = *link;
    if (pinned != NULL) *link = pinned->next;
    pthread_mutex_unlock(&device->pinned_lock);
    if (pinned == NULL) return;
    if (dhowi_cl.EnqueueUnmapMemObject(device->own_queue, pinned->mem, memory, 0, NULL, NULL) ==
        CL_SUCCESS)
        dhowi_cl.Finish(device->own_queue);
    dhowi_cl.ReleaseMemObject(pinned->mem);
    dhowi_cl_delete(device->host, pinned);
}

/* ---- maps ----------------------------------------------------------------------------------- */

int32_t dhowi_cl_map(void *device_pointer, uint64_t handle, uint64_t offset, uint64_t bytes,
                     uint32_t access, void **out_memory, dhow_error *err) {
    dhowi_cl_device *device = device_pointer;
    cl_int code = CL_SUCCESS;
    *out_memory = NULL;
    if (!device->host_visible)
        return dhowi_cl_refuse(err, DHOW_UNSUPPORTED, "%s: its memory is not shared with the host",
                               device->name);
    cl_map_flags flags = 0;
    if (access & DHOW_ACCESS_READ) flags |= CL_MAP_READ;
    if (access & DHOW_ACCESS_WRITE) flags |= CL_MAP_WRITE;
    void *memory =
        dhowi_cl.EnqueueMapBuffer(device->own_queue, dhowi_cl_buffer_of(handle)->mem, CL_TRUE,
                                  flags, (size_t)offset, (size_t)bytes, 0, NULL, NULL, &code);
    if (code != CL_SUCCESS)
        return dhowi_cl_fail(err, code, "%s: %llu bytes at %llu cannot be mapped", device->name,
                             (unsigned long long)bytes, (unsigned long long)offset);
    *out_memory = memory;
    return DHOW_OK;
}

int32_t dhowi_cl_unmap(void *device_pointer, uint64_t handle, void *memory, dhow_error *err) {
    dhowi_cl_device *device = device_pointer;
    cl_int code = dhowi_cl.EnqueueUnmapMemObject(device->own_queue, dhowi_cl_buffer_of(handle)->mem,
                                                 memory, 0, NULL, NULL);
    /* The host's next command goes to another queue, which must find the bytes in place. */
    if (code == CL_SUCCESS) code = dhowi_cl.Finish(device->own_queue);
    if (code != CL_SUCCESS) return dhowi_cl_fail(err, code, "%s: unmapping failed", device->name);
    return DHOW_OK;
}

/* ---- figures -------------------------------------------------------------------------------- */

int32_t dhowi_cl_mem_info(void *device_pointer, uint64_t *out_free, uint64_t *out_total,
                          dhow_error *err) {
    const dhowi_cl_device *device = device_pointer;
    *out_free = *out_total = 0;
    uint64_t free_bytes = 0;
    size_t amd_kilobytes[2] = {0, 0}; /* all of it, largest block */
    if (device->is_cpu) {
        long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
        if (pages > 0 && page > 0) free_bytes = (uint64_t)pages * (uint64_t)page;
    } else if (dhowi_cl.GetDeviceInfo(device->id, QUERY_FREE_MEMORY_AMD, sizeof amd_kilobytes,
                                      amd_kilobytes, NULL) == CL_SUCCESS) {
        free_bytes = (uint64_t)amd_kilobytes[0] * 1024;
    } else {
        return dhowi_cl_refuse(err, DHOW_UNSUPPORTED,
                               "%s: this OpenCL driver does not tell how much memory is free",
                               device->name);
    }
    *out_free = free_bytes < device->total_bytes ? free_bytes : device->total_bytes;
    *out_total = device->total_bytes;
    return DHOW_OK;
}
