/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory of the CPU: pages of the system. Blocks are remembered by a header in front of
 * them, since mem_free gets no size. Large ones lie on 2 MiB boundaries and ask for huge pages,
 * which saves most of the cost of first touch.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include "cpu.h"

#define HUGE_PAGE (UINT64_C(1) << 21)
#define PAGE UINT64_C(4096)
#define HEADER UINT64_C(64)

/* In the 64 bytes before each block. */
typedef struct block_header {
    void *mapping; /* NULL: the host's allocator, from the header's own address */
    uint64_t bytes;
} block_header;

void cpu_memory_info(const dhow_host *host, uint64_t *out_free, uint64_t *out_total) {
    struct sysinfo info;
    *out_free = *out_total = 0;
    if (host->struct_size >= sizeof *host && host->memory) {
        host->memory(host->user, out_free, out_total);
    } else if (sysinfo(&info) == 0) {
        *out_total = (uint64_t)info.totalram * info.mem_unit;
        *out_free = ((uint64_t)info.freeram + info.bufferram) * info.mem_unit;
    }
}

static int32_t out_of_memory(uint64_t bytes, dhow_error *err, int code) {
    return cpu_fail(err, DHOW_OUT_OF_MEMORY, code, "cannot allocate %llu bytes of host memory: %s",
                    (unsigned long long)bytes, strerror(code));
}

/* Address space for the block, its header page and the way to the next boundary; untouched pages
 * cost nothing. */
static void *map_large(uint64_t bytes, int *out_code) {
    const uint64_t total = bytes + HUGE_PAGE + PAGE;
    void *mapping = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
        *out_code = errno;
        return NULL;
    }
    const uint64_t start =
        ((uint64_t)(uintptr_t)mapping + HEADER + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    unsigned char *block = (unsigned char *)mapping + (start - (uint64_t)(uintptr_t)mapping);
    (void)madvise(block, bytes, MADV_HUGEPAGE); /* a kernel without huge pages serves small ones */
    block_header *header = (block_header *)(void *)(block - HEADER);
    header->mapping = mapping;
    header->bytes = total;
    return block;
}

int32_t cpu_mem_alloc(void *device, uint64_t bytes, uint64_t *out_handle, dhow_error *err) {
    const dhow_host *host = ((cpu_device *)device)->backend->host;
    void *block = NULL;
    int code = ENOMEM;
    *out_handle = 0;
    if (bytes >= HUGE_PAGE) {
        /* The system may overcommit and kill later, so what can never fit is refused here. */
        const uint64_t total = ((cpu_device *)device)->memory_bytes;
        if (bytes > UINT64_MAX / 2 || (total > 0 && bytes > total)) {
            return out_of_memory(bytes, err, ENOMEM);
        }
        block = map_large(bytes, &code);
    } else {
        unsigned char *memory = host->alloc(host->user, bytes + HEADER, 64);
        if (memory) {
            ((block_header *)(void *)memory)->mapping = NULL;
            block = memory + HEADER;
        }
    }
    if (!block) return out_of_memory(bytes, err, code);
    *out_handle = (uint64_t)(uintptr_t)block;
    return DHOW_OK;
}

void cpu_mem_free(void *device, uint64_t handle) {
    const dhow_host *host = ((cpu_device *)device)->backend->host;
    if (handle == 0) return;
    unsigned char *start = (unsigned char *)(uintptr_t)handle - HEADER;
    block_header *header = (block_header *)(void *)start;
    if (header->mapping) {
        (void)munmap(header->mapping, header->bytes);
    } else {
        host->free(host->user, start);
    }
}

/* All host memory is equal to the CPU, so pinning is a plain allocation and registering is nothing.
 */
int32_t cpu_host_alloc(void *device, uint64_t bytes, void **out_memory, dhow_error *err) {
    uint64_t handle = 0;
    const int32_t status = cpu_mem_alloc(device, bytes, &handle, err);
    *out_memory = (void *)(uintptr_t)handle;
    return status;
}

void cpu_host_free(void *device, void *memory) {
    cpu_mem_free(device, (uint64_t)(uintptr_t)memory);
}

int32_t cpu_host_register(void *device, void *memory, uint64_t bytes, dhow_error *err) {
    (void)device, (void)memory, (void)bytes, (void)err;
    return DHOW_OK;
}

int32_t cpu_host_unregister(void *device, void *memory, dhow_error *err) {
    (void)device, (void)memory, (void)err;
    return DHOW_OK;
}

int32_t cpu_map(void *device, uint64_t handle, uint64_t offset, uint64_t bytes, uint32_t access,
                void **out_memory, dhow_error *err) {
    (void)device, (void)bytes, (void)access, (void)err;
    *out_memory = (void *)(uintptr_t)(handle + offset);
    return DHOW_OK;
}

int32_t cpu_unmap(void *device, uint64_t handle, void *memory, dhow_error *err) {
    (void)device, (void)handle, (void)memory, (void)err;
    return DHOW_OK;
}

int32_t cpu_mem_info(void *device, uint64_t *out_free, uint64_t *out_total, dhow_error *err) {
    (void)err;
    cpu_memory_info(((cpu_device *)device)->backend->host, out_free, out_total);
    return DHOW_OK;
}
