/* SPDX-License-Identifier: Apache-2.0
 *
 * See guard.h.
 */
#include "kernel/guard.h"

#include <inttypes.h>
#include <string.h>

#include "stream/stream.h"

#define PATTERN UINT64_C(0xd00dfeedc0ffee5a)

/* Room for a guard behind a tensor's storage; none behind memory that is the program's own. */
static bool is_guarded(const dhowi_guarded *g, uint32_t i) {
    const dhow_tensor *t = g->tensors[i];
    return t != NULL && (g->args[i].bytes & DHOW_ACCESS_WRITE) != 0 && t->storage->pool != NULL &&
           t->storage->block_bytes >= t->storage->bytes + DHOWI_GUARD_BYTES;
}

/* Fills of eight bytes begin at a multiple of eight. */
static uint64_t begin_of(const dhowi_storage *s) { return (s->bytes + 7) / 8 * 8; }
static uint64_t bytes_of(const dhowi_storage *s) {
    return (s->bytes + DHOWI_GUARD_BYTES - begin_of(s)) / 8 * 8;
}

static dhow_status set_one(dhow_stream *stream, dhowi_storage *s) {
    const dhowi_use use = {s, DHOW_ACCESS_WRITE};
    dhow_error err;
    dhowi_error_init(&err);
    DHOWI_TRY(dhowi_stream_begin(stream, &use, 1));
    int32_t code = stream->device->api->fill(stream->native, s->native, begin_of(s), bytes_of(s),
                                             PATTERN, sizeof PATTERN, &err);
    (void)dhowi_stream_end(stream, &use, 1, (dhow_status)code);
    return code == DHOW_OK ? DHOW_OK : dhowi_device_failed(stream->device, &err, code, "a guard");
}

static dhow_status read_one(dhow_stream *stream, dhowi_storage *s, unsigned char *out) {
    const dhowi_use use = {s, DHOW_ACCESS_READ};
    const uint64_t bytes = bytes_of(s);
    const dhow_copy_rect rect = {.src = {.space = DHOW_SPACE_DEVICE,
                                         .handle = s->native,
                                         .offset = begin_of(s),
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

static dhow_status check_one(const dhowi_guarded *g, uint32_t i) {
    dhowi_storage *s = g->tensors[i]->storage;
    unsigned char got[DHOWI_GUARD_BYTES];
    const uint64_t pattern = PATTERN;
    DHOWI_TRY(read_one(g->stream, s, got));
    for (uint64_t at = 0; at < bytes_of(s); at++) {
        if (got[at] == ((const unsigned char *)&pattern)[at % sizeof pattern]) continue;
        return dhowi_fail(DHOW_OUT_OF_RANGE,
                          "%s writes past the end of its argument %u%s%s%s: byte %" PRIu64
                          " of %" PRIu64 " changed; let it write no element that is not there",
                          g->kernel, i + 1, s->label[0] != '\0' ? " '" : "", s->label,
                          s->label[0] != '\0' ? "'" : "", begin_of(s) + at, s->bytes);
    }
    return DHOW_OK;
}

dhow_status dhowi_guards_set(const dhowi_guarded *g) {
    for (uint32_t i = 0; i < g->count; i++)
        if (is_guarded(g, i)) DHOWI_TRY(set_one(g->stream, g->tensors[i]->storage));
    return DHOW_OK;
}

dhow_status dhowi_guards_check(const dhowi_guarded *g) {
    for (uint32_t i = 0; i < g->count; i++)
        if (is_guarded(g, i)) DHOWI_TRY(check_one(g, i));
    return DHOW_OK;
}
