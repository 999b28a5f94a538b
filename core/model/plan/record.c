/* SPDX-License-Identifier: Apache-2.0
 *
 * See record.h.
 */
#include "model/plan/record.h"

#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/array.h"
#include "base/memory/size.h"

/* No device has memory there: user addresses end far below, and handles are addresses or small. */
#define PLACE_HANDLE UINT64_C(0xd40a000000000000)

/* ---- places ---- */

static dhow_status record_storage(dhowi_sink *sink, uint64_t bytes, dhowi_storage **out) {
    dhowi_recorder *r = (dhowi_recorder *)sink;
    *out = NULL;
    if (!dhowi_room((void **)&r->places, r->place_count, &r->place_capacity, sizeof *r->places))
        return dhowi_fail_memory("plan");
    dhowi_storage *s = dhowi_handle_new(DHOWI_STORAGE, sizeof *s);
    if (s == NULL) return dhowi_fail_memory("storage");
    s->device = sink->device;
    s->native = PLACE_HANDLE + r->place_count;
    s->bytes = s->block_bytes = bytes;
    atomic_flag_clear(&s->hazard.lock);
    dhowi_handle_retain(&sink->device->context->handle);
    dhowi_storage_retain(s);   /* the recorder's own */
    if (bytes == 0) bytes = 1; /* of an empty tensor: it lies somewhere all the same */
    r->places[r->place_count++] = (dhowi_recorded_buffer){
        .storage = s, .bytes = bytes, .first = r->step, .last = r->step, .buffer = -1};
    *out = s;
    return DHOW_OK;
}

int32_t dhowi_record_place(const dhowi_recorder *r, uint64_t handle) {
    uint64_t index = handle - PLACE_HANDLE;
    return handle >= PLACE_HANDLE && index < r->place_count ? (int32_t)index : -1;
}

/* ---- commands ---- */

static dhow_status add(dhowi_recorder *r, const dhowi_command *command) {
    if (!dhowi_room((void **)&r->commands, r->command_count, &r->command_capacity, sizeof(void *)))
        return dhowi_fail_memory("plan");
    dhowi_command *kept = dhowi_arena_array(&r->memory, 1, sizeof *kept);
    if (kept == NULL) return dhowi_fail_memory("plan");
    *kept = *command;
    kept->step = r->step;
    r->commands[r->command_count++] = kept;
    return DHOW_OK;
}

static dhow_status record_launch(dhowi_sink *sink, void *native, const dhow_geometry *geometry,
                                 const dhow_arg *args, uint32_t count) {
    dhowi_recorder *r = (dhowi_recorder *)sink;
    dhow_arg *kept = dhowi_arena_array(&r->memory, count, sizeof *kept);
    if (kept == NULL) return dhowi_fail_memory("plan");
    memcpy(kept, args, count * sizeof *kept);
    for (uint32_t i = 0; i < count; i++) {
        if (args[i].kind != DHOW_ARG_DIMS) continue;
        dhow_dims *dims = dhowi_arena_array(&r->memory, 1, sizeof *dims);
        if (dims == NULL) return dhowi_fail_memory("plan");
        *dims = *args[i].u.dims;
        kept[i].u.dims = dims;
    }
    return add(r, &(dhowi_command){.kind = DHOWI_COMMAND_LAUNCH,
                                   .native = native,
                                   .geometry = *geometry,
                                   .args = kept,
                                   .arg_count = count});
}

static dhow_status record_copy(dhowi_sink *sink, const dhow_copy_rect *rect) {
    return add((dhowi_recorder *)sink, &(dhowi_command){.kind = DHOWI_COMMAND_COPY, .rect = *rect});
}

static dhow_status record_fill(dhowi_sink *sink, dhow_buffer to, uint64_t bytes, uint64_t pattern,
                               uint32_t pattern_bytes) {
    return add((dhowi_recorder *)sink, &(dhowi_command){.kind = DHOWI_COMMAND_FILL,
                                                        .buffers = {to},
                                                        .bytes = bytes,
                                                        .pattern = pattern,
                                                        .pattern_bytes = pattern_bytes});
}

static dhow_status record_vendor(dhowi_sink *sink, dhowi_vendor_run_fn *run, void *plan,
                                 const dhow_buffer buffers[6], void *owner,
                                 void (*drop)(void *owner)) {
    dhowi_command c = {
        .kind = DHOWI_COMMAND_VENDOR, .run = run, .native = plan, .owner = owner, .drop = drop};
    memcpy(c.buffers, buffers, sizeof c.buffers);
    return add((dhowi_recorder *)sink, &c);
}

dhow_status dhowi_record_host(dhowi_recorder *r, const dhowi_host_work *work,
                              const dhow_buffer buffers[6]) {
    dhowi_command c = {.kind = DHOWI_COMMAND_HOST, .host = work};
    memcpy(c.buffers, buffers, sizeof c.buffers);
    return add(r, &c);
}

void dhowi_command_buffers(dhowi_command *c, dhowi_buffer_fn *fn, void *user) {
    for (uint32_t i = 0; i < c->arg_count; i++) {
        if (c->args[i].kind == DHOW_ARG_BUFFER)
            fn(user, &c->args[i].u.buffer.handle, &c->args[i].u.buffer.offset);
    }
    if (c->kind == DHOWI_COMMAND_COPY) {
        fn(user, &c->rect.src.handle, &c->rect.src.offset);
        fn(user, &c->rect.dst.handle, &c->rect.dst.offset);
    }
    for (int i = 0; i < 6; i++) fn(user, &c->buffers[i].handle, &c->buffers[i].offset);
}

static int32_t copy_host(const dhowi_command *c, dhow_device *device, void *stream, uint32_t access,
                         dhow_error *err) {
    for (int i = 0; i < 6; i++) {
        uint64_t bytes = c->host->bytes[i];
        if (bytes == 0 || (c->host->access[i] & access) == 0) continue;
        const dhow_copy_end there = {.space = DHOW_SPACE_DEVICE,
                                     .handle = c->buffers[i].handle,
                                     .offset = c->buffers[i].offset,
                                     .pitch = {bytes, bytes}};
        const dhow_copy_end here = {.space = DHOW_SPACE_HOST,
                                    .handle = (uint64_t)(uintptr_t)c->host->memory[i],
                                    .pitch = {bytes, bytes}};
        const bool reads = access == DHOW_ACCESS_READ;
        const dhow_copy_rect rect = {
            .src = reads ? there : here, .dst = reads ? here : there, .extent = {bytes, 1, 1}};
        int32_t code = device->api->copy(stream, &rect, err);
        if (code != DHOW_OK) return code;
    }
    return DHOW_OK;
}

/* The device waits for the host here: a step on the wrong side is not free. */
static int32_t run_host(const dhowi_command *c, dhow_device *device, void *stream,
                        dhow_error *err) {
    int32_t code = copy_host(c, device, stream, DHOW_ACCESS_READ, err);
    if (code == DHOW_OK) code = device->api->stream_sync(stream, err);
    if (code == DHOW_OK) code = (int32_t)c->host->run(c->host->user);
    return code == DHOW_OK ? copy_host(c, device, stream, DHOW_ACCESS_WRITE, err) : code;
}

int32_t dhowi_command_run(const dhowi_command *c, dhow_device *device, void *stream,
                          dhow_error *err) {
    switch (c->kind) {
        case DHOWI_COMMAND_LAUNCH:
            return device->api->launch(stream, c->native, &c->geometry, c->args, c->arg_count, err);
        case DHOWI_COMMAND_VENDOR:
            return c->run(c->native, stream, c->buffers[0], c->buffers[1], c->buffers[2],
                          c->buffers[3], c->buffers[4], c->buffers[5], err);
        case DHOWI_COMMAND_COPY:
            return device->api->copy(stream, &c->rect, err);
        case DHOWI_COMMAND_FILL:
            return device->api->fill(stream, c->buffers[0].handle, c->buffers[0].offset, c->bytes,
                                     c->pattern, c->pattern_bytes, err);
        default:
            return run_host(c, device, stream, err);
    }
}

/* ---- beginning and ending ---- */

void dhowi_recorder_init(dhowi_recorder *r, dhow_device *device) {
    *r = (dhowi_recorder){.sink = {.device = device,
                                   .storage = record_storage,
                                   .launch = record_launch,
                                   .copy = record_copy,
                                   .fill = record_fill,
                                   .vendor = record_vendor}};
}

void dhowi_recorder_end(dhowi_recorder *r) {
    for (uint32_t i = 0; i < r->place_count; i++) dhowi_storage_release(r->places[i].storage);
    for (uint32_t i = 0; i < r->command_count; i++)
        if (r->commands[i]->drop != NULL) r->commands[i]->drop(r->commands[i]->owner);
    dhowi_free(r->places);
    dhowi_free(r->commands);
    dhowi_arena_end(&r->memory);
    *r = (dhowi_recorder){0};
}
