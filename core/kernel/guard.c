/* SPDX-License-Identifier: Apache-2.0
 *
 * See guard.h.
 */
#include "kernel/guard.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory/size.h"
#include "stream/stream.h"

#define PATTERN UINT64_C(0xd00dfeedc0ffee5a)
enum { MAX_GUARD_BYTES = 4096 };

/* None around memory that is the program's own. */
static bool is_guarded(const dhowi_guarded *g, uint32_t i) {
    const dhow_tensor *t = g->tensors[i];
    return t != NULL && (g->given[i].bytes & DHOW_ACCESS_WRITE) != 0 && t->storage->pool != NULL;
}

/* Before the tensor's bytes in the copy: what kernels take as the beginning of a buffer. */
static uint64_t front_of(const dhowi_guarded *g) {
    return DHOWI_MAX((uint64_t)g->stream->device->desc.offset_align, (uint64_t)DHOWI_GUARD_BYTES);
}

/* Fills of eight bytes begin at a multiple of eight. */
static uint64_t behind(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

/* ---- bytes of the device ---- */

static dhow_status set_pattern(dhow_stream *stream, dhowi_storage *s, uint64_t at, uint64_t bytes) {
    const dhowi_use use = {s, DHOW_ACCESS_WRITE};
    dhow_error err;
    dhowi_error_init(&err);
    DHOWI_TRY(dhowi_stream_begin(stream, &use, 1));
    int32_t code = stream->device->api->fill(stream->native, s->native, at, bytes, PATTERN,
                                             sizeof PATTERN, &err);
    (void)dhowi_stream_end(stream, &use, 1, (dhow_status)code);
    return code == DHOW_OK ? DHOW_OK : dhowi_device_failed(stream->device, &err, code, "a guard");
}

static dhow_status read_pattern(dhow_stream *stream, dhowi_storage *s, uint64_t at, uint64_t bytes,
                                unsigned char *out) {
    const dhowi_use use = {s, DHOW_ACCESS_READ};
    const dhow_copy_rect rect = {.src = {.space = DHOW_SPACE_DEVICE,
                                         .handle = s->native,
                                         .offset = at,
                                         .pitch = {bytes, bytes}},
                                 .dst = {.space = DHOW_SPACE_HOST,
                                         .handle = (uint64_t)(uintptr_t)out,
                                         .pitch = {bytes, bytes}},
                                 .extent = {bytes, 1, 1}};
    dhow_error err;
    dhowi_error_init(&err);
    DHOWI_TRY(dhowi_stream_begin(stream, &use, 1));
    int32_t code = stream->device->api->copy(stream->native, &rect, &err);
    if (code == DHOW_OK) code = stream->device->api->stream_sync(stream->native, &err);
    (void)dhowi_stream_end(stream, &use, 1, (dhow_status)code);
    return code == DHOW_OK ? DHOW_OK : dhowi_device_failed(stream->device, &err, code, "a guard");
}

static dhow_status copy_bytes(dhow_stream *stream, dhowi_storage *from, uint64_t from_at,
                              dhowi_storage *to, uint64_t to_at, uint64_t bytes) {
    const dhowi_use uses[] = {{from, DHOW_ACCESS_READ}, {to, DHOW_ACCESS_WRITE}};
    const dhow_copy_rect rect = {.src = {.space = DHOW_SPACE_DEVICE,
                                         .handle = from->native,
                                         .offset = from_at,
                                         .pitch = {bytes, bytes}},
                                 .dst = {.space = DHOW_SPACE_DEVICE,
                                         .handle = to->native,
                                         .offset = to_at,
                                         .pitch = {bytes, bytes}},
                                 .extent = {bytes, 1, 1}};
    dhow_error err;
    dhowi_error_init(&err);
    if (bytes == 0) return DHOW_OK;
    DHOWI_TRY(dhowi_stream_begin(stream, uses, 2));
    int32_t code = stream->device->api->copy(stream->native, &rect, &err);
    (void)dhowi_stream_end(stream, uses, 2, (dhow_status)code);
    return code == DHOW_OK ? DHOW_OK
                           : dhowi_device_failed(stream->device, &err, code, "a guarded copy");
}

/* ---- before ---- */

static bool has_room_behind(const dhowi_storage *s) {
    return s->block_bytes >= s->bytes + DHOWI_GUARD_BYTES;
}

static dhow_status set_behind(const dhowi_guarded *g, dhowi_storage *s) {
    if (!has_room_behind(s)) return DHOW_OK;
    return set_pattern(g->stream, s, behind(s->bytes),
                       (s->bytes + DHOWI_GUARD_BYTES - behind(s->bytes)) / 8 * 8);
}

static dhow_status make_copy(const dhowi_guarded *g, dhowi_guard *guard) {
    dhowi_storage *s = guard->storage;
    const uint64_t front = front_of(g), end = front + behind(s->bytes);
    /* What there is cannot be longer than an address. */
    if (dhowi_storage_create(g->stream->device, end + DHOWI_GUARD_BYTES, &guard->copy) != DHOW_OK) {
        guard->copy = NULL;
        return set_behind(g, s);
    }
    DHOWI_TRY(set_pattern(g->stream, guard->copy, 0, front));
    DHOWI_TRY(set_pattern(g->stream, guard->copy, end, DHOWI_GUARD_BYTES));
    return copy_bytes(g->stream, s, 0, guard->copy, front, s->bytes);
}

static dhowi_guard *guard_of(dhowi_guarded *g, const dhowi_storage *s) {
    for (uint32_t i = 0; i < g->guard_count; i++)
        if (g->guards[i].storage == s) return &g->guards[i];
    return NULL;
}

dhow_status dhowi_guards_set(dhowi_guarded *g) {
    dhow_status status = DHOW_OK;
    g->guard_count = 0;
    memcpy(g->args, g->given, g->count * sizeof *g->args);
    for (uint32_t i = 0; i < g->count && status == DHOW_OK; i++) {
        if (!is_guarded(g, i) || guard_of(g, g->tensors[i]->storage) != NULL) continue;
        dhowi_guard *guard = &g->guards[g->guard_count++];
        *guard = (dhowi_guard){.storage = g->tensors[i]->storage, .argument = i};
        status = make_copy(g, guard);
    }
    for (uint32_t i = 0; i < g->count; i++) { /* also those that read it */
        const dhowi_guard *guard =
            g->tensors[i] != NULL ? guard_of(g, g->tensors[i]->storage) : NULL;
        if (guard == NULL || guard->copy == NULL) continue;
        g->args[i].u.buffer.handle = guard->copy->native;
        g->args[i].u.buffer.offset += front_of(g);
    }
    return status == DHOW_OK ? DHOW_OK : dhowi_guards_check(g, status);
}

/* ---- after ---- */

/* `base` is the place of the tensor's first byte. */
static dhow_status look(const dhowi_guarded *g, const dhowi_guard *guard, dhowi_storage *s,
                        uint64_t at, uint64_t bytes, uint64_t base) {
    unsigned char got[MAX_GUARD_BYTES];
    const uint64_t pattern = PATTERN;
    const char *label = guard->storage->label;
    DHOWI_TRY(read_pattern(g->stream, s, at, bytes, got));
    for (uint64_t i = 0; i < bytes; i++) {
        if (got[i] == ((const unsigned char *)&pattern)[i % sizeof pattern]) continue;
        return dhowi_fail(DHOW_OUT_OF_RANGE,
                          "%s writes %s of its argument %u%s%s%s: byte %" PRId64 " of %" PRIu64
                          " changed; let it write no element that is not there",
                          g->kernel, at < base ? "before the begin" : "past the end",
                          guard->argument + 1, label[0] != '\0' ? " '" : "", label,
                          label[0] != '\0' ? "'" : "", (int64_t)(at + i) - (int64_t)base,
                          guard->storage->bytes);
    }
    return DHOW_OK;
}

static dhow_status check_one(const dhowi_guarded *g, const dhowi_guard *guard) {
    dhowi_storage *s = guard->storage;
    const uint64_t front = front_of(g), end = behind(s->bytes);
    if (guard->copy == NULL)
        return has_room_behind(s)
                   ? look(g, guard, s, end, (s->bytes + DHOWI_GUARD_BYTES - end) / 8 * 8, 0)
                   : DHOW_OK;
    DHOWI_TRY(copy_bytes(g->stream, guard->copy, front, s, 0, s->bytes));
    DHOWI_TRY(look(g, guard, guard->copy, front + end, DHOWI_GUARD_BYTES, front));
    return look(g, guard, guard->copy, 0, front, front);
}

dhow_status dhowi_guards_check(dhowi_guarded *g, dhow_status launched) {
    dhow_status status = launched;
    for (uint32_t i = 0; i < g->guard_count; i++) {
        if (status == DHOW_OK) status = check_one(g, &g->guards[i]);
        DHOWI_KEEP_ERROR;
        if (g->guards[i].copy != NULL) dhowi_storage_release(g->guards[i].copy);
    }
    g->guard_count = 0;
    return status;
}
