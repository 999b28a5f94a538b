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

/* The command of a piece of work, which points to what the caller fills in; NULL without memory. */
static dhowi_command *add(dhowi_recorder *r, const dhowi_work *work) {
    dhowi_command *c = NULL;
    if (dhowi_room((void **)&r->commands, r->command_count, &r->command_capacity, sizeof(void *)))
        c = dhowi_arena_array(&r->memory, 1, sizeof *c);
    if (c == NULL) {
        (void)dhowi_fail_memory("plan");
        return NULL;
    }
    *c = (dhowi_command){.work = *work, .step = r->step};
    c->work.name = c->work.what = NULL; /* the caller's; a plan names its steps */
    r->commands[r->command_count++] = c;
    return c;
}

static dhow_status keep_arguments(dhowi_recorder *r, dhowi_command *c) {
    const uint32_t count = c->work.u.launch.count;
    c->args = dhowi_arena_array(&r->memory, count, sizeof *c->args);
    if (c->args == NULL) return dhowi_fail_memory("plan");
    memcpy(c->args, c->work.u.launch.args, count * sizeof *c->args);
    for (uint32_t i = 0; i < count; i++) {
        if (c->args[i].kind != DHOW_ARG_DIMS) continue;
        dhow_dims *dims = dhowi_arena_array(&r->memory, 1, sizeof *dims);
        if (dims == NULL) return dhowi_fail_memory("plan");
        *dims = *c->args[i].u.dims;
        c->args[i].u.dims = dims;
    }
    c->geometry = *c->work.u.launch.geometry;
    c->work.u.launch.args = c->args;
    c->work.u.launch.geometry = &c->geometry;
    return DHOW_OK;
}

static dhow_status record_work(dhowi_sink *sink, const dhowi_work *work) {
    dhowi_recorder *r = (dhowi_recorder *)sink;
    if (work->kind == DHOWI_WORK_CALL)
        return dhowi_fail(DHOW_UNSUPPORTED, "%s: %s cannot be part of a plan", sink->device->name,
                          work->what);
    dhowi_command *c = add(r, work);
    if (c == NULL) return DHOW_OUT_OF_MEMORY;
    switch (work->kind) {
        case DHOWI_WORK_LAUNCH:
            return keep_arguments(r, c);
        case DHOWI_WORK_COPY:
            c->rect = *work->u.copy;
            c->work.u.copy = &c->rect;
            return DHOW_OK;
        case DHOWI_WORK_VENDOR:
            memcpy(c->buffers, work->u.vendor.buffers, sizeof c->buffers);
            c->work.u.vendor.buffers = c->buffers;
            return work->u.vendor.keep(work->u.vendor.user, &c->owner);
        default:
            return DHOW_OK;
    }
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
static int32_t run_host(const void *user, dhow_device *device, void *stream, dhow_error *err) {
    const dhowi_command *c = user;
    int32_t code = copy_host(c, device, stream, DHOW_ACCESS_READ, err);
    if (code == DHOW_OK) code = device->api->stream_sync(stream, err);
    if (code == DHOW_OK) code = (int32_t)c->host->run(c->host->user);
    return code == DHOW_OK ? copy_host(c, device, stream, DHOW_ACCESS_WRITE, err) : code;
}

dhow_status dhowi_record_host(dhowi_recorder *r, const dhowi_host_work *work,
                              const dhow_buffer buffers[6]) {
    dhowi_command *c = add(r, &(dhowi_work){.kind = DHOWI_WORK_CALL, .u.call.run = run_host});
    if (c == NULL) return DHOW_OUT_OF_MEMORY;
    memcpy(c->buffers, buffers, sizeof c->buffers);
    c->host = work;
    c->work.u.call.user = c;
    return DHOW_OK;
}

void dhowi_command_buffers(dhowi_command *c, dhowi_buffer_fn *fn, void *user) {
    dhow_buffer *to = &c->work.u.fill.to;
    switch (c->work.kind) {
        case DHOWI_WORK_LAUNCH:
            for (uint32_t i = 0; i < c->work.u.launch.count; i++) {
                if (c->args[i].kind == DHOW_ARG_BUFFER)
                    fn(user, &c->args[i].u.buffer.handle, &c->args[i].u.buffer.offset);
            }
            return;
        case DHOWI_WORK_COPY:
            fn(user, &c->rect.src.handle, &c->rect.src.offset);
            fn(user, &c->rect.dst.handle, &c->rect.dst.offset);
            return;
        case DHOWI_WORK_FILL:
            fn(user, &to->handle, &to->offset);
            return;
        default:
            for (int i = 0; i < 6; i++) fn(user, &c->buffers[i].handle, &c->buffers[i].offset);
    }
}

/* ---- beginning and ending ---- */

void dhowi_recorder_init(dhowi_recorder *r, dhow_device *device) {
    *r = (dhowi_recorder){
        .sink = {.device = device, .storage = record_storage, .take = record_work}};
}

void dhowi_recorder_end(dhowi_recorder *r) {
    for (uint32_t i = 0; i < r->place_count; i++) dhowi_storage_release(r->places[i].storage);
    for (uint32_t i = 0; i < r->command_count; i++)
        if (r->commands[i]->owner != NULL)
            r->commands[i]->work.u.vendor.drop(r->commands[i]->owner);
    dhowi_free(r->places);
    dhowi_free(r->commands);
    dhowi_arena_end(&r->memory);
    *r = (dhowi_recorder){0};
}
