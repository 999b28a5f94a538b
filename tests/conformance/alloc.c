/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of raw memory: sizes, separateness, running out, pinned memory.
 */
#include <unistd.h>

#include "slots.h"

enum { MIB = 1 << 20 };

/* Blocks of many sizes at once, each with its own pattern to the last byte. */
static conform_result keeps_blocks_apart(conform_env *env) {
    static const uint64_t sizes[] = {1, 3, 64, 255, 256, 257, 4096, 4097, 65536, MIB + 1, 3 * MIB};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    uint64_t handle[COUNT];
    void *stream;
    char what[64];
    TRY(slot_stream(env, &stream));
    for (int i = 0; i < COUNT; i++) {
        unsigned char *data = conform_memory(env, sizes[i]);
        TRY(slot_memory(env, sizes[i], &handle[i]));
        for (int k = 0; k < i; k++)
            CHECK(handle[k] != handle[i], "two live allocations have one handle");
        conform_pattern(data, sizes[i], (uint64_t)i + 1);
        TRY(slot_write(env, stream, handle[i], 0, data, sizes[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        unsigned char *want = conform_memory(env, sizes[i]), *got = conform_memory(env, sizes[i]);
        conform_pattern(want, sizes[i], (uint64_t)i + 1);
        TRY(slot_read(env, stream, handle[i], 0, got, sizes[i]));
        (void)snprintf(what, sizeof what, "block of %" PRIu64 " bytes", sizes[i]);
        TRY(slot_same_bytes(env, got, want, sizes[i], what));
    }
    return CONFORM_PASS;
}

/* Where handles are pointers their alignment can be seen. */
static conform_result aligns_blocks(conform_env *env) {
    static const uint64_t sizes[] = {1, 24, 100, 4095, MIB + 3};
    if ((env->slots->desc.flags & DHOW_DEVICE_HOST_INLINE) == 0)
        return conform_unsupported(env, "handles are no pointers");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t handle;
        TRY(slot_memory(env, sizes[i], &handle));
        CHECK(handle % env->slots->desc.offset_align == 0 && handle % 16 == 0,
              "%" PRIu64 " bytes lie at 0x%" PRIx64 ", offset_align is %u", sizes[i], handle,
              env->slots->desc.offset_align);
    }
    return CONFORM_PASS;
}

/* The host empties its cache and tries again on this status, and on no other. */
static conform_result says_out_of_memory(conform_env *env) {
    const uint64_t total = env->slots->desc.memory_bytes;
    const uint64_t sizes[] = {total < UINT64_MAX / 8 ? 4 * total + MIB : UINT64_MAX / 2,
                              UINT64_C(1) << 50, UINT64_C(1) << 62};
    for (int i = 0; i < 3; i++) {
        uint64_t handle = 77;
        int32_t code = API->mem_alloc(DEVICE, sizes[i], &handle, ERR);
        if (code == DHOW_OK && handle != 0) {
            API->mem_free(DEVICE, handle);
            if (i == 0) continue; /* memory that is not touched may be promised */
        }
        CHECK(code == DHOW_OUT_OF_MEMORY, "%" PRIu64 " bytes: %s instead of OUT_OF_MEMORY: %.400s",
              sizes[i], slot_status(code), env->slots->err.message);
        CHECK(handle == 0, "%" PRIu64 " bytes: a handle came out of a failure", sizes[i]);
        TRY(slot_refusal(env, "mem_alloc", code));
    }
    uint64_t small;
    return slot_memory(env, 4096, &small); /* and works on */
}

static conform_result gives_memory_back(conform_env *env) {
    const uint64_t total = env->slots->desc.memory_bytes;
    uint64_t chunk = total / 8 < (UINT64_C(1) << 31) ? total / 8 : UINT64_C(1) << 31;
    const uint64_t rounds = total / chunk + 4 < 4096 ? total / chunk + 4 : 4096;
    for (uint64_t i = 0; i < rounds; i++) {
        uint64_t handle = 0;
        int32_t code = API->mem_alloc(DEVICE, chunk, &handle, ERR);
        if (code == DHOW_OUT_OF_MEMORY && i == 0)
            return conform_unsupported(env, "%" PRIu64 " bytes are not free", chunk);
        CHECK(code == DHOW_OK,
              "round %" PRIu64 " of allocating and freeing %" PRIu64
              " bytes: %s: "
              "%.300s",
              i + 1, chunk, slot_status(code), env->slots->err.message);
        API->mem_free(DEVICE, handle);
    }
    return CONFORM_PASS;
}

static conform_result tells_what_is_free(conform_env *env) {
    uint64_t available = 0, total = 0;
    NEEDS_SLOT(mem_info);
    int32_t code = API->mem_info(DEVICE, &available, &total, ERR);
    if (code == DHOW_UNSUPPORTED)
        return conform_unsupported(env, "%.480s", env->slots->err.message);
    SLOT(code);
    CHECK(total > 0 && available <= total, "%" PRIu64 " of %" PRIu64 " bytes are free", available,
          total);
    return CONFORM_PASS;
}

static conform_result copies_pinned_memory(conform_env *env, const void *from, void *to,
                                           uint64_t bytes) {
    void *stream;
    uint64_t handle;
    TRY(slot_stream(env, &stream));
    TRY(slot_memory(env, bytes, &handle));
    const dhow_copy_end there = slot_device_end(handle, 0, 0, 0);
    const dhow_copy_rect up = slot_flat(slot_host_end(from, 1, 0, 0), there, bytes);
    const dhow_copy_rect down = slot_flat(there, slot_host_end(to, 1, 0, 0), bytes);
    SLOT(API->copy(stream, &up, ERR));
    SLOT(API->copy(stream, &down, ERR));
    TRY(slot_sync(env, stream));
    return slot_same_bytes(env, to, from, bytes, "there and back");
}

static conform_result pins_memory(conform_env *env) {
    void *from, *to;
    uint32_t pinned;
    const uint64_t bytes = 5 * MIB + 13;
    NEEDS_SLOT(host_alloc);
    TRY(slot_pinned(env, bytes, &from, &pinned));
    TRY(slot_pinned(env, bytes, &to, &pinned));
    if (!pinned) return conform_unsupported(env, "%.480s", env->slots->err.message);
    CHECK((uintptr_t)from % 64 == 0 && (uintptr_t)to % 64 == 0,
          "pinned memory lies at %p; multiples of 64 are needed", from);
    conform_pattern(from, bytes, 3);
    memset(to, 0, bytes);
    return copies_pinned_memory(env, from, to, bytes);
}

static conform_result pins_memory_in_place(conform_env *env) {
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), bytes = 70 * page;
    NEEDS_SLOT(host_register);
    unsigned char *raw = conform_memory(env, 2 * bytes + 2 * page);
    unsigned char *from = raw + (page - (uintptr_t)raw % page), *to = from + bytes;
    int32_t code = API->host_register(DEVICE, from, 2 * bytes, ERR);
    if (code == DHOW_UNSUPPORTED)
        return conform_unsupported(env, "%.480s", env->slots->err.message);
    SLOT(code);
    conform_pattern(from, bytes, 4);
    conform_result result = copies_pinned_memory(env, from, to, bytes);
    SLOT(API->host_unregister(DEVICE, from, ERR));
    return result;
}

/* A view of device memory shows what is there, and what is written to it stays there. */
static conform_result maps_memory(conform_env *env) {
    enum { BYTES = 70000, AT = 256, PART = 5001 };
    unsigned char want[BYTES], got[BYTES];
    void *stream, *view = NULL;
    uint64_t handle;
    if ((env->slots->desc.flags & DHOW_DEVICE_HOST_VISIBLE) == 0)
        return conform_unsupported(env, "the device's memory is not host-visible");
    TRY(slot_stream(env, &stream));
    TRY(slot_memory(env, BYTES, &handle));
    for (int round = 0; round < 3; round++) { /* a view made again shows what came between */
        conform_pattern(want, BYTES, (uint64_t)round + 7);
        TRY(slot_write(env, stream, handle, 0, want, BYTES));
        SLOT(API->map(DEVICE, handle, AT, PART, DHOW_ACCESS_READ | DHOW_ACCESS_WRITE, &view, ERR));
        CHECK(view != NULL, "map reported success and gave nothing");
        conform_result seen = slot_same_bytes(env, view, want + AT, PART, "the view");
        for (int i = 0; i < PART; i++) want[AT + i] = ((unsigned char *)view)[i] ^ 0x5a;
        memcpy(view, want + AT, PART);
        SLOT(API->unmap(DEVICE, handle, view, ERR));
        TRY(seen);
        TRY(slot_read(env, stream, handle, 0, got, BYTES));
        TRY(slot_same_bytes(env, got, want, BYTES, "memory after a write through a view"));
    }
    return CONFORM_PASS;
}

const conform_case conform_alloc_cases[] = {
    CASE("alloc/sizes", keeps_blocks_apart, "alloc"),
    CASE("alloc/align", aligns_blocks, "alloc"),
    CASE("alloc/out_of_memory", says_out_of_memory, "alloc,error"),
    CASE("alloc/give_back", gives_memory_back, "alloc"),
    CASE("alloc/info", tells_what_is_free, "alloc"),
    CASE("alloc/pinned", pins_memory, "alloc,pinned"),
    CASE("alloc/register", pins_memory_in_place, "alloc,pinned"),
    CASE("alloc/map", maps_memory, "alloc,map"),
};
CASES_END(conform_alloc);
