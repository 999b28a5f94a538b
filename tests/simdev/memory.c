/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory, pinned host memory, and the table that tells addresses apart.
 *
 * A block of device memory is one mapping: an inaccessible range, whose addresses are the handles,
 * and behind it the accessible pages that only streams' threads know, between inaccessible guard
 * pages. The block ends at its last page's end but for the padding to 256 bytes, which is checked
 * after each kernel.
 *
 *     [ handles: PROT_NONE ............ | guard ][ ... 0xCD ... block | tail ][ guard ]
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

enum {
    ALIGN = 256,     /* of handles, as vendors have it */
    NEW = 0xCD,      /* what fresh memory is full of */
    GONE = 0xDD,     /* what freed memory is full of */
    REMEMBERED = 256 /* freed blocks */
};

static uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

static uint64_t page_bytes(void) { return (uint64_t)sysconf(_SC_PAGESIZE); }

/* ---- the table; the lock is held ---- */

/* Index of the first block that begins behind the address. */
static size_t upper_bound(const simdev_machine *machine, uint64_t address) {
    size_t low = 0, high = machine->block_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (machine->blocks[middle]->start <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static simdev_block *find(const simdev_machine *machine, uint64_t address) {
    size_t at = upper_bound(machine, address);
    if (at == 0) return NULL;
    simdev_block *block = machine->blocks[at - 1];
    return address - block->start < block->bytes ? block : NULL;
}

static bool insert(simdev_machine *machine, simdev_block *block) {
    if (machine->block_count == machine->block_capacity) {
        size_t capacity = machine->block_capacity != 0 ? 2 * machine->block_capacity : 64;
        simdev_block **blocks = simdev_new(machine, capacity * sizeof(simdev_block *));
        if (blocks == NULL) return false;
        if (machine->block_count != 0)
            memcpy(blocks, machine->blocks, machine->block_count * sizeof(simdev_block *));
        simdev_delete(machine, machine->blocks);
        machine->blocks = blocks;
        machine->block_capacity = capacity;
    }
    size_t at = upper_bound(machine, block->start);
    memmove(&machine->blocks[at + 1], &machine->blocks[at],
            (machine->block_count - at) * sizeof(simdev_block *));
    machine->blocks[at] = block;
    machine->block_count++;
    return true;
}

static void forget(simdev_machine *machine, simdev_block *block) {
    size_t at = upper_bound(machine, block->start) - 1;
    machine->block_count--;
    memmove(&machine->blocks[at], &machine->blocks[at + 1],
            (machine->block_count - at) * sizeof(simdev_block *));
    if (block->freed) machine->freed_count--;
    if (block->mapping != NULL) (void)munmap(block->mapping, block->mapping_bytes);
    simdev_delete(machine, block);
}

static void forget_oldest(simdev_machine *machine) {
    simdev_block *oldest = NULL;
    for (size_t i = 0; i < machine->block_count; i++) {
        simdev_block *block = machine->blocks[i];
        if (block->freed && block->uses == 0 &&
            (oldest == NULL || block->freed_at < oldest->freed_at))
            oldest = block;
    }
    if (oldest != NULL) forget(machine, oldest);
}

/* Gives the pages back and keeps the addresses. */
static void withdraw(simdev_block *block) {
    if (block->mapping == NULL) return;
    (void)madvise(block->pages, block->pages_bytes, MADV_DONTNEED);
    (void)mprotect(block->pages, block->pages_bytes, PROT_NONE);
}

static void release(simdev_machine *machine, simdev_block *block) {
    if (block->kind != SIMDEV_BLOCK_REGISTERED) memset(block->pages, GONE, block->pages_bytes);
    if (block->kind == SIMDEV_BLOCK_DEVICE)
        block->device->used_bytes -= round_up(block->bytes, ALIGN);
    block->freed = true;
    block->freed_at = ++machine->frees;
    machine->freed_count++;
    if (block->uses == 0) {
        /* Registered memory is the program's, which may register it again. */
        if (block->kind == SIMDEV_BLOCK_REGISTERED) {
            forget(machine, block);
            return;
        }
        withdraw(block);
    }
    if (machine->freed_count > REMEMBERED) forget_oldest(machine);
}

void simdev_blocks_drop(simdev_machine *machine, const simdev_device *device) {
    uint64_t left = 0, bytes = 0;
    for (size_t i = machine->block_count; i-- > 0;) {
        simdev_block *block = machine->blocks[i];
        if (device != NULL && block->device != device) continue;
        if (!block->freed) {
            left++;
            bytes += block->bytes;
        }
        forget(machine, block);
    }
    if (left != 0) {
        simdev_complain(machine,
                        "%llu allocations or registrations of %llu bytes were never given back",
                        (unsigned long long)left, (unsigned long long)bytes);
    }
}

/* ---- mappings ---- */

/* `hidden` puts the range of handles in front of the accessible pages. */
static bool map_block(simdev_block *block, bool hidden) {
    const uint64_t page = page_bytes(), rounded = round_up(block->bytes, ALIGN);
    block->pages_bytes = round_up(rounded, page);
    const uint64_t before = (hidden ? block->pages_bytes : 0) + page;
    block->mapping_bytes = before + block->pages_bytes + page;
    void *mapping = mmap(NULL, block->mapping_bytes, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) return false;
    block->mapping = mapping;
    block->pages = (unsigned char *)mapping + before;
    if (mprotect(block->pages, block->pages_bytes, PROT_READ | PROT_WRITE) != 0) {
        (void)munmap(mapping, block->mapping_bytes);
        block->mapping = NULL;
        return false;
    }
    memset(block->pages, NEW, block->pages_bytes);
    block->memory = block->pages + (block->pages_bytes - rounded);
    block->tail = rounded - block->bytes;
    unsigned char *shown = hidden ? block->memory - block->pages_bytes - page : block->memory;
    block->start = (uint64_t)(uintptr_t)shown;
    return true;
}

static int32_t add_mapped(simdev_device *device, simdev_block_kind kind, uint64_t bytes,
                          simdev_block **out, dhow_error *err) {
    simdev_machine *machine = device->machine;
    int32_t status = DHOW_OK;
    simdev_block *block = simdev_new(machine, sizeof *block);
    *out = NULL;
    if (block == NULL)
        return simdev_fail(err, DHOW_OUT_OF_MEMORY, "no host memory for a block's description");
    block->kind = kind;
    block->device = device;
    block->bytes = bytes != 0 ? bytes : 1;
    if (!map_block(block, kind == SIMDEV_BLOCK_DEVICE)) {
        status = simdev_fail(err, DHOW_OUT_OF_MEMORY,
                             "cannot map %llu bytes for simulated device %u: %s",
                             (unsigned long long)bytes, device->index, strerror(errno));
    } else {
        simdev_lock(&machine->lock);
        if (!insert(machine, block))
            status = simdev_fail(err, DHOW_OUT_OF_MEMORY, "no host memory for the block table");
        simdev_unlock(&machine->lock);
    }
    if (status != DHOW_OK) {
        if (block->mapping != NULL) (void)munmap(block->mapping, block->mapping_bytes);
        simdev_delete(machine, block);
        return status;
    }
    *out = block;
    return DHOW_OK;
}

/* ---- device memory ---- */

/* Takes the bytes from the device's limit. */
static int32_t reserve(simdev_device *device, uint64_t bytes, dhow_error *err) {
    simdev_machine *machine = device->machine;
    const uint64_t total = machine->config.memory_bytes;
    int32_t status = DHOW_OK;
    simdev_lock(&machine->lock);
    const uint64_t left = total - device->used_bytes;
    if (bytes > total || round_up(bytes, ALIGN) > left) {
        status = simdev_fail(err, DHOW_OUT_OF_MEMORY,
                             "simulated device %u has %llu of %llu bytes free, asked for %llu",
                             device->index, (unsigned long long)left, (unsigned long long)total,
                             (unsigned long long)bytes);
    } else {
        device->used_bytes += round_up(bytes, ALIGN);
    }
    simdev_unlock(&machine->lock);
    return status;
}

int32_t simdev_mem_alloc(simdev_device *device, uint64_t bytes, uint64_t *out_handle,
                         dhow_error *err) {
    simdev_block *block = NULL;
    const uint64_t wanted = bytes != 0 ? bytes : 1;
    *out_handle = 0;
    int32_t status = simdev_enter(device, "mem_alloc", NULL, err);
    if (status == DHOW_OK) status = reserve(device, wanted, err);
    if (status != DHOW_OK) return status;
    status = add_mapped(device, SIMDEV_BLOCK_DEVICE, wanted, &block, err);
    if (status != DHOW_OK) {
        simdev_lock(&device->machine->lock);
        device->used_bytes -= round_up(wanted, ALIGN);
        simdev_unlock(&device->machine->lock);
        return status;
    }
    *out_handle = block->start;
    return DHOW_OK;
}

static void free_block(simdev_device *device, simdev_block_kind kind, uint64_t start) {
    simdev_machine *machine = device->machine;
    simdev_lock(&machine->lock);
    simdev_block *block = find(machine, start);
    bool fits = block != NULL && !block->freed && block->kind == kind && block->start == start;
    if (fits && kind == SIMDEV_BLOCK_DEVICE) fits = block->device == device;
    if (fits) release(machine, block);
    simdev_unlock(&machine->lock);
    if (!fits) {
        simdev_complain(
            machine, "simulated device %u: 0x%llx is freed, but is no live allocation of this kind",
            device->index, (unsigned long long)start);
    }
}

void simdev_mem_free(simdev_device *device, uint64_t handle) {
    if (handle != 0) free_block(device, SIMDEV_BLOCK_DEVICE, handle);
}

int32_t simdev_mem_info(simdev_device *device, uint64_t *out_free, uint64_t *out_total,
                        dhow_error *err) {
    *out_free = *out_total = 0;
    int32_t status = simdev_enter(device, "mem_info", NULL, err);
    if (status != DHOW_OK) return status;
    simdev_lock(&device->machine->lock);
    *out_total = device->machine->config.memory_bytes;
    *out_free = *out_total - device->used_bytes;
    simdev_unlock(&device->machine->lock);
    return DHOW_OK;
}

/* ---- pinned host memory ---- */

int32_t simdev_host_alloc(simdev_device *device, uint64_t bytes, void **out_memory,
                          dhow_error *err) {
    simdev_block *block = NULL;
    *out_memory = NULL;
    int32_t status = simdev_enter(device, "host_alloc", NULL, err);
    /* No driver pins what the machine has not; the system itself might promise it and kill later.
     */
    const uint64_t machine_bytes =
        (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    if (status == DHOW_OK && bytes > machine_bytes)
        status = simdev_fail(err, DHOW_OUT_OF_MEMORY, "cannot pin %llu bytes",
                             (unsigned long long)bytes);
    if (status == DHOW_OK) status = add_mapped(device, SIMDEV_BLOCK_PINNED, bytes, &block, err);
    if (status != DHOW_OK) return status;
    *out_memory = block->memory;
    return DHOW_OK;
}

void simdev_host_free(simdev_device *device, void *memory) {
    if (memory != NULL) free_block(device, SIMDEV_BLOCK_PINNED, (uint64_t)(uintptr_t)memory);
}

int32_t simdev_host_register(simdev_device *device, void *memory, uint64_t bytes, dhow_error *err) {
    simdev_machine *machine = device->machine;
    const uint64_t start = (uint64_t)(uintptr_t)memory;
    int32_t status = simdev_enter(device, "host_register", NULL, err);
    if (status != DHOW_OK) return status;
    if (memory == NULL || bytes == 0 || bytes > UINT64_MAX - start)
        return simdev_fail(err, DHOW_INVALID_ARGUMENT, "cannot pin %llu bytes at %p",
                           (unsigned long long)bytes, memory);
    simdev_block *block = simdev_new(machine, sizeof *block);
    if (block == NULL)
        return simdev_fail(err, DHOW_OUT_OF_MEMORY, "no host memory for a block's description");
    block->kind = SIMDEV_BLOCK_REGISTERED;
    block->device = device;
    block->start = start;
    block->bytes = bytes;
    block->memory = memory;
    simdev_lock(&machine->lock);
    size_t next = upper_bound(machine, start);
    bool overlaps = find(machine, start) != NULL ||
                    (next < machine->block_count && machine->blocks[next]->start < start + bytes);
    if (overlaps) {
        status = simdev_fail(err, DHOW_INVALID_ARGUMENT,
                             "%llu bytes at %p are pinned already, or in part",
                             (unsigned long long)bytes, memory);
    } else if (!insert(machine, block)) {
        status = simdev_fail(err, DHOW_OUT_OF_MEMORY, "no host memory for the block table");
    }
    simdev_unlock(&machine->lock);
    if (status != DHOW_OK) simdev_delete(machine, block);
    return status;
}

int32_t simdev_host_unregister(simdev_device *device, void *memory, dhow_error *err) {
    int32_t status = simdev_enter(device, "host_unregister", NULL, err);
    return status == DHOW_OK ? simdev_host_unregister_always(device, memory, err) : status;
}

int32_t simdev_host_unregister_always(simdev_device *device, void *memory, dhow_error *err) {
    simdev_machine *machine = device->machine;
    int32_t status = DHOW_OK;
    simdev_lock(&machine->lock);
    simdev_block *block = find(machine, (uint64_t)(uintptr_t)memory);
    if (block == NULL || block->kind != SIMDEV_BLOCK_REGISTERED || block->freed ||
        block->memory != memory) {
        status = simdev_fail(err, DHOW_INVALID_ARGUMENT, "memory at %p was not registered", memory);
    } else {
        release(machine, block);
    }
    simdev_unlock(&machine->lock);
    return status;
}

bool simdev_find(simdev_machine *machine, uint64_t address, simdev_place *out) {
    simdev_lock(&machine->lock);
    const simdev_block *block = find(machine, address);
    const bool live = block != NULL && !block->freed;
    if (live) {
        out->pinned = block->kind != SIMDEV_BLOCK_DEVICE;
        out->registered = block->kind == SIMDEV_BLOCK_REGISTERED;
        out->device = block->device;
        out->start = block->start;
        out->bytes = block->bytes;
    }
    simdev_unlock(&machine->lock);
    return live;
}

static bool pinned_range(const simdev_machine *machine, uint64_t start, uint64_t bytes) {
    const simdev_block *block = find(machine, start);
    return block != NULL && block->kind != SIMDEV_BLOCK_DEVICE && !block->freed &&
           bytes <= block->bytes - (start - block->start);
}

bool simdev_host_is_pinned(simdev_device *device, const void *memory, uint64_t bytes) {
    simdev_lock(&device->machine->lock);
    bool pinned = pinned_range(device->machine, (uint64_t)(uintptr_t)memory, bytes);
    simdev_unlock(&device->machine->lock);
    return pinned;
}

/* ---- use by work ---- */

bool simdev_use_begin(simdev_machine *machine, const simdev_device *device, uint64_t handle,
                      uint64_t offset, uint64_t bytes, simdev_block **out_block,
                      unsigned char **out_memory, simdev_failure *why) {
    simdev_block *block = find(machine, handle);
    const char *what = device != NULL ? "device memory" : "pinned host memory";
    const unsigned long long shown = handle;
    if (block == NULL || (block->kind == SIMDEV_BLOCK_DEVICE) != (device != NULL)) {
        simdev_set_failure(why, DHOW_INVALID_ARGUMENT, "0x%llx is no %s", shown, what);
    } else if (block->freed) {
        simdev_set_failure(why, DHOW_INVALID_ARGUMENT,
                           "the %s at 0x%llx was freed before the work ran", what, shown);
    } else if (device != NULL && block->device != device) {
        simdev_set_failure(why, DHOW_INVALID_ARGUMENT,
                           "the memory at 0x%llx is device %u's, used on device %u", shown,
                           block->device->index, device->index);
    } else {
        const uint64_t inside = handle - block->start, left = block->bytes - inside;
        if (offset > left || bytes > left - offset) {
            simdev_set_failure(why, DHOW_OUT_OF_RANGE,
                               "%llu bytes at offset %llu of %llu bytes of %s",
                               (unsigned long long)bytes, (unsigned long long)offset,
                               (unsigned long long)left, what);
        } else {
            block->uses++;
            *out_block = block;
            *out_memory = block->memory + inside + offset;
            return true;
        }
    }
    return false;
}

void simdev_use_end(simdev_machine *machine, simdev_block *block, simdev_failure *why) {
    block->uses--;
    if (block->freed) {
        simdev_set_failure(why, DHOW_INVALID_ARGUMENT,
                           "the memory at 0x%llx was freed while the work ran",
                           (unsigned long long)block->start);
        if (block->uses == 0 && block->kind == SIMDEV_BLOCK_REGISTERED) {
            forget(machine, block);
        } else if (block->uses == 0) {
            withdraw(block);
        }
        return;
    }
    for (uint64_t i = 0; i < block->tail; i++) {
        if (block->memory[block->bytes + i] == NEW) continue;
        simdev_set_failure(why, DHOW_OUT_OF_RANGE,
                           "the work wrote past the end of the %llu bytes at 0x%llx",
                           (unsigned long long)block->bytes, (unsigned long long)block->start);
        memset(block->memory + block->bytes, NEW, block->tail);
        break;
    }
}
