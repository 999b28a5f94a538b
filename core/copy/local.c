/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and fills within one device: the plugin's own copy for boxes of bytes, the portable kernel
 * for other strides, and rows of single elements where a plugin has neither kernels nor a compiler.
 */
#include <stdio.h>
#include <string.h>

#include "base/errors/planted.h"
#include "base/memory/size.h"
#include "copy/engine.h"
#include "kernel/optimise.h"

void dhowi_copy_end_of(const dhow_tensor *t, const dhow_device *executor, dhow_copy_end *end) {
    const dhowi_storage *s = t->storage;
    bool host = s->device != executor;
    end->space = host ? DHOW_SPACE_HOST : DHOW_SPACE_DEVICE;
    end->pinned = host && dhowi_pinned_for(s, executor);
    end->handle = host ? (uint64_t)(uintptr_t)s->host : s->native;
    end->offset = dhowi_tensor_offset_bytes(t);
}

static const char *path_of(const dhow_copy_rect *rect) {
    if (rect->src.space == rect->dst.space) return "within";
    return rect->dst.space == DHOW_SPACE_DEVICE ? "host to device" : "device to host";
}

/* A driver may read a source in memory that is not pinned while it is handed the copy, whatever the
 * stream waits for on the device: the source must be there by then. */
static dhow_status await_source(const dhow_stream *stream, const dhow_copy_rect *rect,
                                dhowi_storage *src) {
    const bool read_later =
        rect->src.space == DHOW_SPACE_DEVICE || dhowi_can_dma(stream->device, src);
    return read_later || dhowi_thread_sink != NULL || stream->recording != NULL
               ? DHOW_OK
               : dhowi_hazard_wait(&src->hazard, DHOW_ACCESS_READ);
}

uint32_t dhowi_copy_pending(const dhowi_use uses[2], const dhowi_timeline *self,
                            dhowi_timepoint pending[DHOWI_COPY_PENDING]) {
    uint32_t n = dhowi_hazard_pending(&uses[0].storage->hazard, uses[0].access, self, pending);
    return n + dhowi_hazard_pending(&uses[1].storage->hazard, uses[1].access, self, pending + n);
}

dhow_status dhowi_copy_add_values(dhowi_origins *origins, dhowi_storage *storage,
                                  const dhow_device *own) {
    dhowi_timepoint pending[DHOWI_MAX_PENDING];
    DHOWI_TRY(dhowi_storage_readable(storage, false));
    DHOWI_TRY(dhowi_origins_add_storage(origins, storage));
    const uint32_t count = dhowi_hazard_pending(&storage->hazard, DHOW_ACCESS_READ, NULL, pending);
    for (uint32_t i = 0; i < count; i++)
        if (own == NULL || pending[i].timeline->lost != &own->lost)
            DHOWI_TRY(dhowi_origins_add(origins, pending[i]));
    return DHOW_OK;
}

/* Notes a copy that was handed in without waiting for anybody, together with all it has not waited
 * for: the stream waits for them behind it, and who comes later waits for the stream. */
static dhow_status note_unordered(dhow_stream *stream, const dhowi_use uses[2]) {
    dhowi_timepoint pending[DHOWI_COPY_PENDING];
    uint32_t n = dhowi_copy_pending(uses, &stream->timeline, pending);
    for (uint32_t i = 0; i < n; i++) { /* syncing them reports their failures */
        if (dhowi_stream_wait_timepoint(stream, pending[i]) != DHOW_OK)
            (void)pending[i].timeline->wait(pending[i].timeline, pending[i].number);
    }
    if (dhowi_planted("an unordered copy is not noted")) return DHOW_OK;
    DHOWI_TRY(dhowi_stream_begin(stream, NULL, 0));
    return dhowi_stream_end(stream, uses, 2, DHOW_OK);
}

dhow_status dhowi_copy_submit_unordered(dhow_stream *stream, const dhowi_work *work,
                                        const dhowi_use uses[2]) {
    dhowi_origins values = {.count = 0};
    DHOWI_TRY(dhowi_copy_add_values(&values, uses[0].storage, stream->device));
    DHOWI_TRY(dhowi_submit(stream, work, uses, 0));
    DHOWI_TRY(note_unordered(stream, uses));
    dhowi_storage_set_origins(uses[1].storage, &values);
    return DHOW_OK;
}

dhow_status dhowi_copy_submit(dhow_stream *stream, const dhow_copy_rect *rect,
                              const dhowi_use uses[2], bool ordered) {
    const dhowi_work work = {.kind = DHOWI_WORK_COPY,
                             .traced = DHOWI_TRACE_COPY,
                             .name = "copy",
                             .what = "copy",
                             .bytes = rect->extent[0] * rect->extent[1] * rect->extent[2],
                             .path = path_of(rect),
                             .u.copy = rect};
    DHOWI_TRY(await_source(stream, rect, uses[0].storage));
    return dhowi_copy_submit_work(stream, &work, uses, ordered);
}

static void uses_of(const dhow_tensor *src, const dhow_tensor *dst, dhowi_use uses[2]) {
    uses[0] = (dhowi_use){src->storage, DHOW_ACCESS_READ};
    uses[1] = dhowi_use_of(dst, DHOW_ACCESS_WRITE);
}

static const char *width_name(uint32_t bytes) {
    return bytes == 1 ? "u8" : bytes == 2 ? "u16" : bytes == 4 ? "u32" : "u64";
}

static int64_t span_of(const dhow_tensor *t) {
    uint64_t begin, end;
    dhowi_tensor_extent_bytes(t, &begin, &end);
    return (int64_t)(end / dhowi_tensor_element_bytes(t));
}

/* How many bytes, of 8 or 16, both sides have side by side everywhere; 0 where it is fewer. */
static int64_t pack_bytes(const dhowi_layout *l, const dhow_dims *d) {
    const int64_t last = l->rank - 1;
    const bool dense = d->stride[0][last] == 1 && d->stride[1][last] == 1;
    for (int64_t bytes = 16; bytes >= 8 && dense; bytes /= 2) {
        const int64_t count = bytes / l->element_bytes;
        if (d->shape[last] % count == 0 && dhowi_has_shares(d, d->stride[0], count) &&
            dhowi_has_shares(d, d->stride[1], count))
            return dhowi_optimises(DHOWI_OPTIMISE_SHARES) ? bytes : 0;
    }
    return 0;
}

/* On the host: pairs and fours of elements that lie side by side everywhere are one element. */
static uint32_t widen(const dhow_tensor *src, const dhow_tensor *dst, uint32_t bytes,
                      dhow_dims *d) {
    enum { WIDEST = 8 };
    const int64_t last = d->rank - 1;
    const int64_t count = WIDEST / bytes;
    if (d->offset[2] < WIDEST || dhowi_tensor_offset_bytes(src) % WIDEST != 0 ||
        dhowi_tensor_offset_bytes(dst) % WIDEST != 0)
        return bytes;
    for (int64_t i = 0; i < last; i++) {
        d->stride[0][i] /= count;
        d->stride[1][i] /= count;
    }
    d->shape[last] /= count;
    if (d->shape[last] == 1 && last > 0) d->rank--;
    return WIDEST;
}

static dhow_status by_kernel(dhow_stream *stream, const dhowi_layout *l, dhow_tensor *src,
                             dhow_tensor *dst, bool ordered) {
    char name[32];
    dhow_kernel *kernel;
    uint32_t bytes = l->element_bytes;
    dhow_dims dims = {.rank = l->rank};
    for (int32_t i = 0; i < l->rank; i++) {
        dims.shape[i] = l->shape[i];
        dims.stride[0][i] = l->src_stride[i];
        dims.stride[1][i] = l->dst_stride[i];
    }
    dims.offset[2] = pack_bytes(l, &dims);
    if (stream->device == stream->device->context->cpu) bytes = widen(src, dst, bytes, &dims);
    (void)snprintf(name, sizeof name, "copy_dims_%s", width_name(bytes));
    DHOWI_TRY(dhowi_builtin_kernel_named(stream->device, name, &kernel));
    const dhow_arg args[] = {dhowi_arg_buffer(src, DHOW_ACCESS_READ),
                             dhowi_arg_buffer(dst, DHOW_ACCESS_WRITE), dhowi_arg_dims(&dims)};
    dhowi_use uses[2];
    uses_of(src, dst, uses);
    const int64_t span = dhowi_multipliers(stream->device, &dims,
                                           DHOWI_MAX(span_of(src), span_of(dst)), dims.stride[2]);
    (void)ordered; /* a launch always orders itself: only boxes can be left unordered */
    return dhowi_launch(stream, kernel, src->count / (bytes / l->element_bytes), span, args, 3,
                        uses, 2);
}

/* Boxes of the innermost dimensions, one after the other. */
static dhow_status by_boxes(dhow_stream *stream, const dhowi_layout *l, dhow_tensor *src,
                            dhow_tensor *dst, bool ordered) {
    int32_t inner = l->src_stride[l->rank - 1] == 1 && l->dst_stride[l->rank - 1] == 1 ? 3 : 2;
    int32_t outer = l->rank > inner ? l->rank - inner : 0;
    int64_t index[DHOW_MAX_RANK] = {0};
    dhowi_use uses[2];
    dhow_copy_rect rect;
    uses_of(src, dst, uses);
    dhowi_layout box = *l;
    box.rank = l->rank - outer;
    memmove(box.shape, l->shape + outer, (size_t)box.rank * sizeof box.shape[0]);
    memmove(box.src_stride, l->src_stride + outer, (size_t)box.rank * sizeof box.src_stride[0]);
    memmove(box.dst_stride, l->dst_stride + outer, (size_t)box.rank * sizeof box.dst_stride[0]);
    for (;;) {
        int64_t src_at = 0, dst_at = 0;
        for (int32_t i = 0; i < outer; i++) {
            src_at += index[i] * l->src_stride[i];
            dst_at += index[i] * l->dst_stride[i];
        }
        dhowi_copy_end_of(src, stream->device, &rect.src);
        dhowi_copy_end_of(dst, stream->device, &rect.dst);
        dhowi_layout_rect(&box, &rect);
        rect.src.offset += (uint64_t)src_at * l->element_bytes;
        rect.dst.offset += (uint64_t)dst_at * l->element_bytes;
        DHOWI_TRY(dhowi_copy_submit(stream, &rect, uses, ordered));
        int32_t i = outer - 1;
        while (i >= 0 && ++index[i] == l->shape[i]) index[i--] = 0;
        if (i < 0) return DHOW_OK;
    }
}

/* On the host a row costs a call of memcpy, elsewhere a part of a box that is slow. */
static uint64_t least_row_bytes(const dhow_device *device) {
    enum { OF_HOST = 32 };
    return device == device->context->cpu ? OF_HOST : DHOWI_MIN_ROW_BYTES;
}

dhow_status dhowi_copy_local(dhow_stream *stream, dhow_tensor *src, dhow_tensor *dst,
                             bool ordered) {
    dhowi_layout layout;
    dhowi_layout_of(src, dst, &layout);
    bool both_here = src->storage->device == dst->storage->device;
    if (both_here && !dhowi_layout_is_box(&layout, least_row_bytes(stream->device))) {
        dhow_status status = by_kernel(stream, &layout, src, dst, ordered);
        if (status != DHOW_UNSUPPORTED) return status;
    }
    return by_boxes(stream, &layout, src, dst, ordered);
}

/* ---- fills ---- */

static dhow_status fill_run(dhow_stream *stream, dhow_tensor *t, uint64_t bits) {
    const dhowi_use use = dhowi_use_of(t, DHOW_ACCESS_WRITE);
    const uint64_t bytes = dhowi_tensor_bytes(t);
    const dhowi_work work = {.kind = DHOWI_WORK_FILL,
                             .traced = DHOWI_TRACE_FILL,
                             .name = "fill",
                             .what = "fill",
                             .bytes = bytes,
                             .u.fill = {{t->storage->native, dhowi_tensor_offset_bytes(t)},
                                        bytes,
                                        bits,
                                        dhowi_tensor_element_bytes(t)}};
    return dhowi_submit(stream, &work, &use, 1);
}

dhow_status dhowi_fill_bits(dhow_stream *stream, dhow_tensor *t, uint64_t bits) {
    if (t->count == 0) return DHOW_OK;
    if (t->contiguous) return fill_run(stream, t, bits);
    char name[32];
    dhow_kernel *kernel;
    (void)snprintf(name, sizeof name, "fill_dims_%s", width_name(dhowi_tensor_element_bytes(t)));
    DHOWI_TRY(dhowi_builtin_kernel_named(stream->device, name, &kernel));
    dhow_dims dims = {.rank = t->rank};
    memcpy(dims.shape, t->shape, sizeof dims.shape);
    memcpy(dims.stride[0], t->strides, sizeof dims.stride[0]);
    const int64_t span = dhowi_multipliers(stream->device, &dims, span_of(t), dims.stride[2]);
    const dhow_arg args[] = {dhowi_arg_buffer(t, DHOW_ACCESS_WRITE), dhowi_arg_i64((int64_t)bits),
                             dhowi_arg_dims(&dims)};
    dhowi_use use = dhowi_use_of(t, DHOW_ACCESS_WRITE);
    return dhowi_launch(stream, kernel, t->count, span, args, 3, &use, 1);
}

dhow_status dhow_tensor_contiguous(dhow_stream *stream, dhow_tensor *tensor, dhow_tensor **out) {
    static const char function[] = "dhow_tensor_contiguous";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_tensor_check_read(tensor, function, "tensor"));
    if (stream != NULL) DHOWI_TRY(dhowi_handle_check(stream, DHOWI_STREAM, function, "stream"));
    if (tensor->contiguous) {
        dhowi_handle_retain(&tensor->handle);
        *out = tensor;
        return DHOW_OK;
    }
    dhow_tensor *packed;
    DHOWI_TRY(dhowi_stream_resolve(stream, dhowi_tensor_device(tensor), function, &stream));
    DHOWI_TRY(
        dhowi_tensor_new(stream->device, tensor->dtype, tensor->rank, tensor->shape, &packed));
    dhow_status status =
        tensor->count > 0 ? dhowi_copy_local(stream, tensor, packed, true) : DHOW_OK;
    if (status != DHOW_OK) {
        dhow_tensor_release(packed);
        return status;
    }
    *out = packed;
    return DHOW_OK;
}
