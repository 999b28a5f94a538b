/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of copies and fills as slots get them: boxes of bytes with offsets and pitches, in every
 * direction, pinned or not, compared with the same box moved on the host.
 */
#include "slots.h"

enum { GUARD = 0xEE };

typedef enum direction { TO_DEVICE, TO_HOST, WITHIN, DIRECTIONS } direction;
static const char *const k_directions[] = {"host to device", "device to host", "within the device"};

/* A box: its extents, and where it lies at each end. */
typedef struct box {
    uint64_t extent[3];
    uint64_t src_offset, src_pitch[2], dst_offset, dst_pitch[2];
} box;

static uint64_t end_of(const box *b, uint64_t offset, const uint64_t *pitch) {
    const uint64_t *e = b->extent;
    if (e[0] == 0 || e[1] == 0 || e[2] == 0) return offset;
    return offset + (e[2] - 1) * pitch[1] + (e[1] - 1) * pitch[0] + e[0];
}

/* What the copy must do. */
static void move(const box *b, const unsigned char *from, unsigned char *to) {
    for (uint64_t z = 0; z < b->extent[2]; z++) {
        for (uint64_t y = 0; y < b->extent[1]; y++) {
            memcpy(to + b->dst_offset + z * b->dst_pitch[1] + y * b->dst_pitch[0],
                   from + b->src_offset + z * b->src_pitch[1] + y * b->src_pitch[0], b->extent[0]);
        }
    }
}

typedef struct ends {
    void *stream;
    uint64_t src_bytes, dst_bytes, src, dst; /* of the device */
    unsigned char *from, *to, *want;         /* of the host */
    uint32_t pinned;
} ends;

static conform_result make_ends(conform_env *env, const box *b, bool pin, ends *e) {
    uint32_t ignored;
    e->src_bytes = end_of(b, b->src_offset, b->src_pitch) + 40;
    e->dst_bytes = end_of(b, b->dst_offset, b->dst_pitch) + 40;
    e->pinned = 0;
    TRY(slot_stream(env, &e->stream));
    TRY(slot_memory(env, e->src_bytes, &e->src));
    TRY(slot_memory(env, e->dst_bytes, &e->dst));
    e->want = conform_memory(env, e->dst_bytes);
    if (pin) {
        TRY(slot_pinned(env, e->src_bytes, (void **)&e->from, &e->pinned));
        TRY(slot_pinned(env, e->dst_bytes, (void **)&e->to, &ignored));
    } else {
        e->from = conform_memory(env, e->src_bytes);
        e->to = conform_memory(env, e->dst_bytes);
    }
    conform_pattern(e->from, e->src_bytes, b->extent[0] + b->src_offset);
    memset(e->want, GUARD, e->dst_bytes);
    memset(e->to, GUARD, e->dst_bytes);
    move(b, e->from, e->want);
    return CONFORM_PASS;
}

static conform_result run_box(conform_env *env, const box *b, direction d, bool pin,
                              const char *name) {
    ends e;
    char what[160];
    TRY(make_ends(env, b, pin, &e));
    if (d != TO_DEVICE) TRY(slot_write(env, e.stream, e.src, 0, e.from, e.src_bytes));
    if (d != TO_HOST) TRY(slot_write(env, e.stream, e.dst, 0, e.to, e.dst_bytes));
    dhow_copy_end src =
        d == TO_DEVICE ? slot_host_end(e.from, e.pinned, 0, 0) : slot_device_end(e.src, 0, 0, 0);
    dhow_copy_end dst =
        d == TO_HOST ? slot_host_end(e.to, e.pinned, 0, 0) : slot_device_end(e.dst, 0, 0, 0);
    src.offset = b->src_offset;
    dst.offset = b->dst_offset;
    memcpy(src.pitch, b->src_pitch, sizeof src.pitch);
    memcpy(dst.pitch, b->dst_pitch, sizeof dst.pitch);
    const dhow_copy_rect rect = {
        .extent = {b->extent[0], b->extent[1], b->extent[2]}, .src = src, .dst = dst};
    (void)snprintf(what, sizeof what,
                   "%s of %" PRIu64 " x %" PRIu64 " x %" PRIu64 " bytes, %s, %s memory", name,
                   b->extent[2], b->extent[1], b->extent[0], k_directions[d],
                   e.pinned ? "pinned" : "plain");
    int32_t code = API->copy(e.stream, &rect, ERR);
    CHECK(code == DHOW_OK, "%s: %s: %.300s", what, slot_status(code), env->slots->err.message);
    TRY(slot_sync(env, e.stream));
    if (d != TO_HOST) TRY(slot_read(env, e.stream, e.dst, 0, e.to, e.dst_bytes));
    TRY(slot_same_bytes(env, e.to, e.want, e.dst_bytes, what));
    conform_slots_release(env->slots);
    conform_release_all(env);
    return CONFORM_PASS;
}

static conform_result everywhere(conform_env *env, const box *b, const char *name) {
    for (direction d = TO_DEVICE; d < DIRECTIONS; d++) {
        TRY(run_box(env, b, d, false, name));
        if (d != WITHIN && API->host_alloc != NULL) TRY(run_box(env, b, d, true, name));
    }
    return CONFORM_PASS;
}

static box flat(uint64_t bytes, uint64_t src_offset, uint64_t dst_offset) {
    return (box){.extent = {bytes, 1, 1},
                 .src_offset = src_offset,
                 .src_pitch = {bytes, bytes},
                 .dst_offset = dst_offset,
                 .dst_pitch = {bytes, bytes}};
}

/* ---- copies ---- */

static conform_result copies_sizes(conform_env *env) {
    static const uint64_t sizes[] = {1,   2,    3,    4,     7,     8,       15,     63,     64,
                                     255, 4095, 4097, 65535, 65537, 1 << 20, 999999, 3000001};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const box b = flat(sizes[i], 0, 0);
        TRY(everywhere(env, &b, "a copy"));
    }
    return CONFORM_PASS;
}

static conform_result copies_at_offsets(conform_env *env) {
    static const uint64_t offsets[][2] = {{1, 0}, {0, 1}, {3, 5}, {64, 0}, {0, 4096}, {4097, 129}};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        const box b = flat(1001, offsets[i][0], offsets[i][1]);
        TRY(everywhere(env, &b, "a copy at offsets"));
    }
    return CONFORM_PASS;
}

static conform_result copies_rows(conform_env *env) {
    static const box boxes[] = {{{1, 2, 1}, 0, {3, 6}, 0, {1, 2}},        /* single bytes */
                                {{20, 7, 1}, 0, {33, 231}, 0, {20, 140}}, /* gathered */
                                {{20, 7, 1}, 0, {20, 140}, 0, {33, 231}}, /* scattered */
                                {{100, 50, 1}, 11, {128, 6400}, 5, {101, 5050}},
                                {{64, 3, 1}, 0, {64, 192}, 0, {64, 192}}, /* dense, as one */
                                {{4096, 33, 1}, 1, {4100, 135300}, 2, {5000, 165000}}};
    for (size_t i = 0; i < sizeof boxes / sizeof boxes[0]; i++)
        TRY(everywhere(env, &boxes[i], "rows"));
    return CONFORM_PASS;
}

static conform_result copies_planes(conform_env *env) {
    static const box boxes[] = {
        {{5, 4, 3}, 0, {8, 40}, 0, {5, 20}},
        {{5, 4, 3}, 7, {5, 20}, 9, {9, 50}},
        {{30, 6, 5}, 0, {37, 37 * 7 + 3}, 0, {31, 31 * 6 + 1}}, /* planes of no whole rows */
        {{200, 9, 8}, 3, {256, 256 * 10}, 1, {200, 1800}},
        {{16, 1, 6}, 0, {16, 48}, 0, {16, 16}}, /* planes of one row */
    };
    for (size_t i = 0; i < sizeof boxes / sizeof boxes[0]; i++)
        TRY(everywhere(env, &boxes[i], "planes"));
    return CONFORM_PASS;
}

static conform_result copies_nothing(conform_env *env) {
    static const box boxes[] = {
        {{0, 1, 1}, 0, {0, 0}, 0, {0, 0}},
        {{8, 0, 1}, 4, {8, 0}, 4, {8, 0}},
        {{8, 4, 0}, 0, {8, 32}, 0, {8, 32}},
    };
    for (size_t i = 0; i < sizeof boxes / sizeof boxes[0]; i++)
        TRY(everywhere(env, &boxes[i], "a copy of nothing"));
    return CONFORM_PASS;
}

/* Both ends in one allocation, side by side. */
static conform_result copies_within_a_block(conform_env *env) {
    enum { BYTES = 9000 };
    unsigned char data[BYTES], got[BYTES];
    void *stream;
    uint64_t handle;
    TRY(slot_stream(env, &stream));
    TRY(slot_memory(env, BYTES, &handle));
    conform_pattern(data, BYTES, 2);
    TRY(slot_write(env, stream, handle, 0, data, BYTES));
    static const box boxes[] = {{{1000, 1, 1}, 0, {1000, 1000}, 1000, {1000, 1000}},
                                {{1000, 1, 1}, 4001, {1000, 1000}, 3001, {1000, 1000}},
                                {{10, 20, 1}, 5000, {30, 600}, 5010, {30, 600}}}; /* columns */
    for (size_t i = 0; i < sizeof boxes / sizeof boxes[0]; i++) {
        const box *b = &boxes[i];
        const dhow_copy_rect rect = {
            .extent = {b->extent[0], b->extent[1], 1},
            .src = slot_device_end(handle, b->src_offset, b->src_pitch[0], b->src_pitch[1]),
            .dst = slot_device_end(handle, b->dst_offset, b->dst_pitch[0], b->dst_pitch[1])};
        SLOT(API->copy(stream, &rect, ERR));
        move(b, data, data);
        TRY(slot_read(env, stream, handle, 0, got, BYTES));
        TRY(slot_same_bytes(env, got, data, BYTES, "two parts of one allocation"));
    }
    return CONFORM_PASS;
}

/* Nothing of the call is needed after it: the box itself may be gone. */
static conform_result keeps_no_argument(conform_env *env) {
    void *stream;
    unsigned char *from, *to;
    uint32_t pinned;
    uint64_t handle;
    TRY(slot_stream(env, &stream));
    TRY(slot_memory(env, 100000, &handle));
    TRY(slot_pinned(env, 100000, (void **)&from, &pinned));
    TRY(slot_pinned(env, 100000, (void **)&to, &pinned));
    conform_pattern(from, 100000, 1);
    const dhow_copy_end there = slot_device_end(handle, 0, 0, 0);
    dhow_copy_rect *rect = conform_memory(env, sizeof *rect); /* lives on, unlike a local one */
    *rect = slot_flat(slot_host_end(from, pinned, 0, 0), there, 100000);
    SLOT(API->copy(stream, rect, ERR));
    *rect = slot_flat(there, slot_host_end(to, pinned, 0, 0), 100000);
    SLOT(API->copy(stream, rect, ERR));
    rect->extent[0] = 1;
    TRY(slot_sync(env, stream));
    return slot_same_bytes(env, to, from, 100000, "a copy whose box was overwritten");
}

/* Sizes beyond any staging buffer, with odd ends. */
static conform_result copies_large_odd_sizes(conform_env *env) {
    static const uint64_t sizes[] = {(UINT64_C(24) << 20) + 1, (UINT64_C(40) << 20) + 7};
    void *stream;
    TRY(slot_stream(env, &stream));
    for (int i = 0; i < 2; i++) {
        const uint64_t bytes = sizes[i];
        unsigned char *data = conform_memory(env, bytes), *got = conform_memory(env, bytes);
        uint64_t handle;
        TRY(slot_memory(env, bytes, &handle));
        conform_pattern(data, bytes, (uint64_t)i + 9);
        memset(got, GUARD, bytes);
        TRY(slot_write(env, stream, handle, 0, data, bytes));
        TRY(slot_read(env, stream, handle, 0, got, bytes));
        TRY(slot_same_bytes(env, got, data, bytes, "a copy there and back"));
        conform_slots_release(env->slots);
        conform_release_all(env);
        TRY(slot_stream(env, &stream));
    }
    return CONFORM_PASS;
}

/* ---- fills ---- */

/* The allocation ends `behind` bytes after what is filled. */
static conform_result fill_once(conform_env *env, void *stream, uint64_t offset, uint64_t count,
                                uint32_t width, uint64_t behind) {
    enum { MOST = 6000 };
    const uint64_t pattern = UINT64_C(0x8877665544332211), bytes = count * width;
    const uint64_t total = offset + bytes + behind;
    unsigned char want[MOST], got[MOST];
    uint64_t handle;
    char what[120];
    memset(want, GUARD, sizeof want);
    TRY(slot_memory(env, total, &handle));
    TRY(slot_write(env, stream, handle, 0, want, total));
    (void)snprintf(what, sizeof what,
                   "fill of %" PRIu64 " bytes at %" PRIu64 " with a pattern of %u", bytes, offset,
                   width);
    int32_t code = API->fill(stream, handle, offset, bytes, pattern, width, ERR);
    CHECK(code == DHOW_OK, "%s: %s: %.300s", what, slot_status(code), env->slots->err.message);
    for (uint64_t i = 0; i < bytes; i++) want[offset + i] = (unsigned char)(0x11 * (i % width + 1));
    TRY(slot_read(env, stream, handle, 0, got, total));
    API->mem_free(DEVICE, handle);
    slot_disown(env, NULL, handle);
    return slot_same_bytes(env, got, want, total, what);
}

static conform_result fills_patterns(conform_env *env) {
    static const uint32_t widths[] = {1, 2, 4, 8};
    static const uint64_t counts[] = {1, 2, 3, 31, 64, 101, 500};
    void *stream;
    TRY(slot_stream(env, &stream));
    for (int w = 0; w < 4; w++) {
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            TRY(fill_once(env, stream, 0, counts[c], widths[w], 1000));
            TRY(fill_once(env, stream, 3 * widths[w], counts[c], widths[w], 1000));
            TRY(fill_once(env, stream, 3 * widths[w], counts[c], widths[w], 0));
        }
    }
    return CONFORM_PASS;
}

static conform_result fills_nothing(conform_env *env) {
    void *stream;
    TRY(slot_stream(env, &stream));
    TRY(fill_once(env, stream, 0, 0, 4, 1000));
    return fill_once(env, stream, 16, 0, 1, 1000);
}

/* ---- between two devices ---- */

static conform_result peer_pair(conform_env *env, void *other, void *stream) {
    enum { BYTES = 1 << 20 };
    unsigned char *data = conform_memory(env, BYTES), *got = conform_memory(env, BYTES);
    uint64_t here = 0, there = 0;
    TRY(slot_memory(env, BYTES, &here));
    SLOT(API->mem_alloc(other, BYTES, &there, ERR));
    conform_pattern(data, BYTES, 12);
    /* The other device's memory is written by its own stream. */
    void *theirs = NULL;
    const dhow_copy_rect up =
        slot_flat(slot_host_end(data, 0, 0, 0), slot_device_end(there, 0, 0, 0), BYTES);
    int32_t code = API->stream_create(other, 0, &theirs, ERR);
    if (code == DHOW_OK) code = API->copy(theirs, &up, ERR);
    if (code == DHOW_OK) code = API->stream_sync(theirs, ERR);
    if (code == DHOW_OK)
        code = API->peer_copy(stream, other, there, 100, here, 7, BYTES - 333, ERR);
    if (code == DHOW_OK) code = API->stream_sync(stream, ERR);
    if (theirs != NULL) API->stream_destroy(theirs);
    API->mem_free(other, there);
    SLOT(code);
    TRY(slot_read(env, stream, here, 0, got, BYTES));
    return slot_same_bytes(env, got + 7, data + 100, BYTES - 333, "a copy from the other device");
}

static conform_result copies_between_devices(conform_env *env) {
    uint32_t count = 0;
    void *stream, *other = NULL;
    NEEDS_SLOT(can_copy);
    SLOT(API->device_count(env->slots->backend, &count, ERR));
    if (count < 2) return conform_unsupported(env, "there is one device");
    const uint32_t index = env->slots->index == 0 ? 1 : 0;
    SLOT(API->device_open(env->slots->backend, index, &other, ERR));
    conform_result result = CONFORM_PASS;
    int32_t code = API->can_copy(DEVICE, other, ERR);
    if (code == DHOW_UNSUPPORTED) {
        if (env->slots->err.message[0] == '\0')
            result =
                conform_fail(env, __FILE__, __LINE__, "can_copy: UNSUPPORTED without a reason");
        else
            result = conform_unsupported(env, "%.480s", env->slots->err.message);
    } else if (code != DHOW_OK) {
        result = slot_failed(env, __FILE__, __LINE__, "can_copy", code, &env->slots->err);
    } else {
        result = slot_stream(env, &stream);
        if (result == CONFORM_PASS) result = peer_pair(env, other, stream);
        conform_slots_release(env->slots);
    }
    API->device_close(other);
    return result;
}

const conform_case conform_transfer_cases[] = {
    CASE("transfer/sizes", copies_sizes, "copy"),
    CASE("transfer/offsets", copies_at_offsets, "copy"),
    CASE("transfer/rows", copies_rows, "copy,strided"),
    CASE("transfer/planes", copies_planes, "copy,strided"),
    CASE("transfer/nothing", copies_nothing, "copy"),
    CASE("transfer/within", copies_within_a_block, "copy,strided"),
    CASE("transfer/arguments", keeps_no_argument, "copy"),
    CASE("transfer/large", copies_large_odd_sizes, "transfer,large"),
    CASE("transfer/fill", fills_patterns, "fill"),
    CASE("transfer/fill_nothing", fills_nothing, "fill"),
    CASE("transfer/peer", copies_between_devices, "copy,devices"),
};
CASES_END(conform_transfer);
