/* SPDX-License-Identifier: Apache-2.0
 *
 * Submission of copies and fills: what must be known at the time of the call.
 */
#include <string.h>

#include "internal.h"

/* Whether a host end is pinned memory, as the machine knows it. */
static bool end_is_pinned(simdev_stream *stream, const dhow_copy_end *end, const uint64_t *extent) {
    uint64_t span = 0;
    if (end->space != DHOW_SPACE_HOST || !simdev_span(extent, end->pitch, &span)) return false;
    return simdev_host_is_pinned(stream->device,
                                 (const void *)(uintptr_t)(end->handle + end->offset), span);
}

/* Replaces a source by what it holds now. */
static int32_t take_snapshot(simdev_stream *stream, simdev_op *op, dhow_error *err) {
    dhow_copy_rect *rect = &op->u.copy.rect;
    const uint64_t pitch[2] = {rect->extent[0], rect->extent[0] * rect->extent[1]};
    const uint64_t bytes = pitch[1] * rect->extent[2];
    op->staging = simdev_new(stream->device->machine, bytes);
    if (op->staging == NULL)
        return simdev_fail(err, DHOW_OUT_OF_MEMORY, "no host memory to stage %llu bytes",
                           (unsigned long long)bytes);
    simdev_copy_box(op->staging, pitch,
                    (const unsigned char *)(uintptr_t)(rect->src.handle + rect->src.offset),
                    rect->src.pitch, rect->extent);
    rect->src.handle = (uint64_t)(uintptr_t)op->staging;
    rect->src.offset = 0;
    rect->src.pitch[0] = pitch[0];
    rect->src.pitch[1] = pitch[1];
    return DHOW_OK;
}

/* Decides how host memory is treated; `*out_wait`: the call returns after the copy. */
static int32_t treat_host_end(simdev_stream *stream, simdev_op *op, bool *out_wait,
                              dhow_error *err) {
    const simdev_config *config = &stream->device->machine->config;
    dhow_copy_rect *rect = &op->u.copy.rect;
    const bool to_device = rect->src.space == DHOW_SPACE_HOST;
    const dhow_copy_end *end = to_device ? &rect->src : &rect->dst;
    *out_wait = false;
    if (to_device == (rect->dst.space == DHOW_SPACE_HOST)) return DHOW_OK; /* no host end */
    const bool pinned = end_is_pinned(stream, end, rect->extent);
    op->u.copy.src_pinned = to_device && pinned;
    op->u.copy.dst_pinned = !to_device && pinned;
    if (end->pinned && !pinned)
        return simdev_fail(err, DHOW_INVALID_ARGUMENT,
                           "host memory at 0x%llx is said to be pinned and is not",
                           (unsigned long long)(end->handle + end->offset));
    if (pinned || config->pageable == SIMDEV_PAGEABLE_LATE) return DHOW_OK;
    if (config->pageable == SIMDEV_PAGEABLE_SNAPSHOT && to_device)
        return take_snapshot(stream, op, err);
    *out_wait = true;
    return DHOW_OK;
}

int32_t simdev_copy(simdev_stream *stream, const dhow_copy_rect *rect, dhow_error *err) {
    const uint64_t *extent = rect->extent;
    bool wait = false;
    if (rect->src.space == DHOW_SPACE_HOST && rect->dst.space == DHOW_SPACE_HOST)
        return simdev_fail(err, DHOW_INVALID_ARGUMENT, "a device does not copy from host to host");
    simdev_op *op = simdev_op_new(stream, SIMDEV_COPY, err);
    if (op == NULL) return DHOW_OUT_OF_MEMORY;
    op->u.copy.rect = *rect;
    op->u.copy.src_device = stream->device;
    int32_t status = simdev_enter(stream->device, "copy", op, err);
    const bool empty = extent[0] == 0 || extent[1] == 0 || extent[2] == 0;
    if (status == DHOW_OK && !empty) status = treat_host_end(stream, op, &wait, err);
    if (status != DHOW_OK || empty) {
        simdev_op_delete(stream->device->machine, op);
        return status;
    }
    return simdev_submit(stream, op, wait, err);
}

int32_t simdev_fill(simdev_stream *stream, uint64_t handle, uint64_t offset, uint64_t bytes,
                    uint64_t pattern, uint32_t pattern_bytes, dhow_error *err) {
    if (pattern_bytes != 1 && pattern_bytes != 2 && pattern_bytes != 4 && pattern_bytes != 8)
        return simdev_fail(err, DHOW_INVALID_ARGUMENT,
                           "a pattern of %u bytes; 1, 2, 4 and 8 are possible", pattern_bytes);
    simdev_op *op = simdev_op_new(stream, SIMDEV_FILL, err);
    if (op == NULL) return DHOW_OUT_OF_MEMORY;
    op->u.fill.to.handle = handle;
    op->u.fill.to.offset = offset;
    op->u.fill.bytes = bytes;
    op->u.fill.pattern = pattern;
    op->u.fill.pattern_bytes = pattern_bytes;
    int32_t status = simdev_enter(stream->device, "fill", op, err);
    if (status != DHOW_OK || bytes == 0) {
        simdev_op_delete(stream->device->machine, op);
        return status;
    }
    return simdev_submit(stream, op, false, err);
}

int32_t simdev_can_copy(simdev_device *dst, simdev_device *src, dhow_error *err) {
    int32_t status = simdev_enter(dst, "can_copy", NULL, err);
    if (status != DHOW_OK) return status;
    if (dst->machine != src->machine)
        return simdev_fail(err, DHOW_UNSUPPORTED, "the devices belong to different machines");
    if (dst != src && !dst->machine->config.peer)
        return simdev_fail(err, DHOW_UNSUPPORTED,
                           "simulated devices %u and %u have no link (peer=0)", src->index,
                           dst->index);
    return DHOW_OK;
}

int32_t simdev_peer_copy(simdev_stream *stream, simdev_device *src, dhow_buffer from,
                         dhow_buffer to, uint64_t bytes, dhow_error *err) {
    simdev_device *dst = stream->device;
    if (dst->machine != src->machine || (dst != src && !dst->machine->config.peer))
        return simdev_fail(err, DHOW_UNSUPPORTED, "simulated devices %u and %u have no link",
                           src->index, dst->index);
    simdev_op *op = simdev_op_new(stream, SIMDEV_COPY, err);
    if (op == NULL) return DHOW_OUT_OF_MEMORY;
    dhow_copy_rect *rect = &op->u.copy.rect;
    rect->extent[0] = bytes;
    rect->extent[1] = rect->extent[2] = 1;
    rect->src.handle = from.handle;
    rect->src.offset = from.offset;
    rect->dst.handle = to.handle;
    rect->dst.offset = to.offset;
    op->u.copy.src_device = src;
    int32_t status = simdev_enter(dst, "peer_copy", op, err);
    if (status != DHOW_OK || bytes == 0) {
        simdev_op_delete(dst->machine, op);
        return status;
    }
    return simdev_submit(stream, op, false, err);
}

int32_t simdev_call(simdev_stream *stream, const simdev_job *job, dhow_error *err) {
    simdev_machine *machine = stream->device->machine;
    simdev_op *op = simdev_op_new(stream, SIMDEV_CALL, err);
    if (op == NULL) return DHOW_OUT_OF_MEMORY;
    op->u.job = *job;
    op->u.job.data = NULL;
    int32_t status = simdev_enter(stream->device, "call", op, err);
    if (status == DHOW_OK && job->data_bytes != 0) {
        op->staging = simdev_new(machine, job->data_bytes);
        if (op->staging == NULL) {
            status = simdev_fail(err, DHOW_OUT_OF_MEMORY, "no host memory for a call's data");
        } else {
            SIMDEV_PRIVATE_BEGIN();
            memcpy(op->staging, job->data, job->data_bytes);
            SIMDEV_PRIVATE_END();
        }
    }
    if (status != DHOW_OK) {
        simdev_op_delete(machine, op);
        return status;
    }
    return simdev_submit(stream, op, false, err);
}
