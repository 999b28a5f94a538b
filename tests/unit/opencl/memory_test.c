/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory, copies of boxes, fills, maps.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fixture.h"

Test(opencl_plugin, more_memory_than_there_is_is_out_of_memory_with_figures) {
    uint64_t handle = 1;
    FAILS(DHOW_OUT_OF_MEMORY, plugin->mem_alloc(device, UINT64_C(1) << 60, &handle, &err));
    cr_assert_eq(handle, 0);
    SAYS("1152921504606846976 bytes");
    void *memory = &handle;
    FAILS(DHOW_OUT_OF_MEMORY, plugin->host_alloc(device, UINT64_C(1) << 60, &memory, &err));
    cr_assert_null(memory);
}

/* ---- pages of 64 KiB, as some arm64 machines have ---- */

static atomic_bool g_large_pages;
static atomic_int g_unmapped, g_odd;

__attribute__((visibility("default"))) long sysconf(int name) {
    static long (*real)(int);
    if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "sysconf");
    return name == _SC_PAGESIZE && atomic_load(&g_large_pages) ? 65536 : real(name);
}

/* As far before the next huge page as it can be: all of the room is needed. */
__attribute__((visibility("default"))) void *mmap(void *at, size_t bytes, int protection, int flags,
                                                  int file, off_t offset) {
    const bool early = atomic_load(&g_large_pages) && bytes > (4u << 20);
    const size_t room = early ? bytes + (2u << 20) : bytes;
    char *p = (char *)syscall(SYS_mmap, at, room, protection, flags, file, offset);
    return early && p != MAP_FAILED ? p + (4096 - (uintptr_t)p) % (2u << 20) : p;
}

/* Such a machine refuses what begins inside of a page. What lies before the first huge page begins
 * where mmap() put it. */
__attribute__((visibility("default"))) int munmap(void *at, size_t bytes) {
    if (atomic_load(&g_large_pages)) {
        atomic_fetch_add(&g_unmapped, 1);
        const uintptr_t begin = (uintptr_t)at;
        const bool inside = begin % 65536 != 0 && (begin + bytes) % (2u << 20) != 0;
        if (inside || bytes > (4u << 20)) atomic_fetch_add(&g_odd, 1);
    }
    return (int)syscall(SYS_munmap, at, bytes);
}

/* 4096 was a constant: the tail was unmapped from the middle of a page on. */
Test(opencl_plugin, large_buffers_end_where_the_systems_pages_end) {
    const uint64_t bytes = (2u << 20) + 5000;
    atomic_store(&g_large_pages, true);
    uint64_t handle = alloc_bytes(bytes);
    plugin->mem_free(device, handle);
    atomic_store(&g_large_pages, false);
    cr_assert_geq(atomic_load(&g_unmapped), 1, "the plugin's munmap() is another");
    cr_assert_eq(atomic_load(&g_odd), 0);
}

/* The same box done by hand. */
static void copy_box(unsigned char *dst, const unsigned char *src, const dhow_copy_rect *rect) {
    for (uint64_t z = 0; z < rect->extent[2]; z++)
        for (uint64_t y = 0; y < rect->extent[1]; y++)
            memcpy(dst + rect->dst.offset + z * rect->dst.pitch[1] + y * rect->dst.pitch[0],
                   src + rect->src.offset + z * rect->src.pitch[1] + y * rect->src.pitch[0],
                   (size_t)rect->extent[0]);
}

enum { BOX_BYTES = 4096 };

static void check_box(const dhow_copy_rect *shape) {
    unsigned char source[BOX_BYTES], expected[BOX_BYTES], result[BOX_BYTES];
    uint64_t first = alloc_bytes(BOX_BYTES), second = alloc_bytes(BOX_BYTES);
    for (int i = 0; i < BOX_BYTES; i++) source[i] = (unsigned char)(i * 31 + i / 7);
    for (int direction = 0; direction < 3; direction++) {
        dhow_copy_rect rect = *shape;
        memset(expected, 0xee, sizeof expected);
        memset(result, 0xee, sizeof result);
        copy_box(expected, source, shape);
        upload(first, 0, source, BOX_BYTES);
        upload(second, 0, result, BOX_BYTES);
        rect.src.space = direction == 0 ? DHOW_SPACE_HOST : DHOW_SPACE_DEVICE;
        rect.src.handle = direction == 0 ? (uint64_t)(uintptr_t)source : first;
        rect.dst.space = direction == 1 ? DHOW_SPACE_HOST : DHOW_SPACE_DEVICE;
        rect.dst.handle = direction == 1 ? (uint64_t)(uintptr_t)result : second;
        OK(plugin->copy(stream, &rect, &err));
        OK(plugin->stream_sync(stream, &err));
        if (direction != 1) download(result, second, 0, BOX_BYTES);
        cr_assert_arr_eq(result, expected, BOX_BYTES, "box of %d x %d x %d, direction %d",
                         (int)shape->extent[0], (int)shape->extent[1], (int)shape->extent[2],
                         direction);
    }
    plugin->mem_free(device, first);
    plugin->mem_free(device, second);
}

Test(opencl_plugin, boxes_of_every_kind_arrive_byte_for_byte) {
    static const struct {
        uint64_t extent[3], src_offset, src_pitch[2], dst_offset, dst_pitch[2];
    } boxes[] = {
        {{0, 1, 1}, 0, {0, 0}, 0, {0, 0}},        /* nothing */
        {{1, 1, 1}, 3, {0, 0}, 4095, {0, 0}},     /* one byte */
        {{777, 1, 1}, 13, {0, 0}, 5, {0, 0}},     /* odd offsets */
        {{16, 8, 4}, 0, {16, 128}, 0, {16, 128}}, /* contiguous */
        {{16, 8, 4}, 1, {16, 128}, 7, {20, 160}}, /* one end contiguous */
        {{5, 7, 1}, 3, {11, 0}, 2, {9, 0}},       /* rows */
        {{5, 7, 3}, 3, {11, 77}, 2, {9, 90}},     /* planes */
        {{5, 7, 3}, 3, {11, 80}, 2, {9, 64}},     /* planes not a whole number of rows apart */
        {{4, 1, 9}, 0, {0, 100}, 50, {0, 40}},    /* planes of one row */
        {{4, 6, 5}, 0, {200, 8}, 0, {20, 4}},     /* transposed: planes closer than rows */
        {{6, 5, 1}, 9, {3, 0}, 0, {10, 0}},       /* source rows overlap */
        {{6, 5, 4}, 9, {0, 0}, 0, {6, 30}},       /* one row repeated */
    };
    for (size_t i = 0; i < sizeof boxes / sizeof boxes[0]; i++) {
        dhow_copy_rect rect = {
            .extent = {boxes[i].extent[0], boxes[i].extent[1], boxes[i].extent[2]}};
        rect.src.offset = boxes[i].src_offset;
        rect.dst.offset = boxes[i].dst_offset;
        memcpy(rect.src.pitch, boxes[i].src_pitch, sizeof rect.src.pitch);
        memcpy(rect.dst.pitch, boxes[i].dst_pitch, sizeof rect.dst.pitch);
        check_box(&rect);
    }
}

/* Columns 0..3 to columns 4..7 of the same rows: the boxes interleave and share no byte. */
Test(opencl_plugin, interleaved_boxes_of_one_buffer_are_no_overlap) {
    unsigned char bytes[64];
    uint64_t handle = alloc_bytes(64);
    for (int i = 0; i < 64; i++) bytes[i] = (unsigned char)i;
    upload(handle, 0, bytes, 64);
    dhow_copy_rect rect = {
        .extent = {4, 8, 1}, .src = on_device(handle, 0), .dst = on_device(handle, 4)};
    rect.src.pitch[0] = rect.dst.pitch[0] = 8;
    OK(plugin->copy(stream, &rect, &err));
    download(bytes, handle, 0, 64);
    for (int i = 0; i < 64; i++) cr_assert_eq(bytes[i], i / 8 * 8 + i % 4);
    plugin->mem_free(device, handle);
}

Test(opencl_plugin, fill_repeats_patterns_of_1_2_4_and_8_bytes) {
    unsigned char bytes[256];
    uint64_t handle = alloc_bytes(256);
    const uint64_t pattern = UINT64_C(0x8877665544332211);
    for (uint32_t size = 1; size <= 8; size *= 2) {
        OK(plugin->fill(stream, handle, 0, 256, 0, 1, &err));
        OK(plugin->fill(stream, handle, 8, 64, pattern, size, &err));
        download(bytes, handle, 0, 256);
        for (int i = 0; i < 256; i++)
            cr_assert_eq(bytes[i], i < 8 || i >= 72 ? 0 : 0x11 * (1 + (i - 8) % (int)size));
    }
    OK(plugin->fill(stream, handle, 0, 0, 1, 4, &err));
    FAILS(DHOW_UNSUPPORTED, plugin->fill(stream, handle, 2, 8, 1, 4, &err));
    plugin->mem_free(device, handle);
}

Test(opencl_plugin, a_map_shows_the_device_and_pinned_memory_copies) {
    dhow_device_desc desc = {.struct_size = sizeof desc};
    OK(plugin->device_describe(backend, device_count - 1, &desc, &err));
    uint64_t handle = alloc_bytes(1000), free_bytes = 0, total_bytes = 0;
    void *pinned = NULL, *view = NULL;
    OK(plugin->host_alloc(device, 1000, &pinned, &err));
    memset(pinned, 7, 1000);
    dhow_copy_end from = on_host(pinned);
    from.pinned = 1;
    copy_bytes(on_device(handle, 0), from, 1000);
    OK(plugin->stream_sync(stream, &err));
    if (desc.flags & DHOW_DEVICE_HOST_VISIBLE) {
        OK(plugin->map(device, handle, 100, 50, DHOW_ACCESS_READ | DHOW_ACCESS_WRITE, &view, &err));
        cr_assert_eq(((char *)view)[49], 7);
        memset(view, 9, 50);
        OK(plugin->unmap(device, handle, view, &err));
    }
    char bytes[1000];
    download(bytes, handle, 0, 1000);
    cr_assert_eq(bytes[99], 7);
    if (view != NULL) cr_assert(bytes[100] == 9 && bytes[149] == 9);
    cr_assert_eq(bytes[150], 7);
    plugin->host_free(device, pinned);
    plugin->mem_free(device, handle);
    if (plugin->mem_info(device, &free_bytes, &total_bytes, &err) == DHOW_OK) {
        cr_assert_leq(free_bytes, total_bytes);
        cr_assert_eq(total_bytes, desc.memory_bytes);
    }
}
