/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the path of a copy, see dhow/copy.h and engine.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/size.h"
#include "base/objects/struct_size.h"
#include "base/text/text.h"
#include "copy/engine.h"

/* ---- choosing ---- */

static bool is_host(const dhow_tensor *t) { return t->storage->host != NULL; }

/* Whether a device copies to and from this host tensor by itself, without a detour. */
static bool can_dma(const dhow_device *device, const dhow_tensor *host, uint64_t bytes) {
    return bytes <= DHOWI_SMALL_BYTES || dhowi_can_dma(device, host->storage);
}

static bool is_visible(const dhow_tensor *t) {
    return (dhowi_tensor_device(t)->desc.flags & DHOW_DEVICE_HOST_VISIBLE) != 0;
}

static dhow_copy_path choose(const dhow_tensor *src, const dhow_tensor *dst) {
    dhow_device *from = dhowi_tensor_device(src), *to = dhowi_tensor_device(dst);
    uint64_t bytes = dhowi_tensor_bytes(src);
    if (src->count == 0 || dhowi_tensor_same(src, dst)) return DHOW_COPY_NOTHING;
    if (from == to) return DHOW_COPY_NATIVE;
    if (is_host(src))
        return can_dma(to, src, bytes) ? DHOW_COPY_HOST
               : is_visible(dst)       ? DHOW_COPY_MAPPED
                                       : DHOW_COPY_STAGED;
    if (is_host(dst))
        return can_dma(from, dst, bytes) ? DHOW_COPY_HOST
               : is_visible(src)         ? DHOW_COPY_MAPPED
                                         : DHOW_COPY_STAGED;
    if (dhowi_peer_works(to, from)) return DHOW_COPY_PEER;
    return is_visible(src) || is_visible(dst) ? DHOW_COPY_MAPPED : DHOW_COPY_STAGED;
}

/* Between devices only boxes copy_by_path as they are, and only on the direct path. */
static bool needs_packing(const dhow_tensor *src, const dhow_tensor *dst, dhow_copy_path path) {
    if (path == DHOW_COPY_NOTHING || path == DHOW_COPY_NATIVE) return false;
    if (src->contiguous && dst->contiguous) return false;
    dhowi_layout layout;
    dhowi_layout_of(src, dst, &layout);
    return path != DHOW_COPY_HOST || !dhowi_layout_is_box(&layout, DHOWI_MIN_ROW_BYTES);
}

static dhow_status check_pair(const char *function, const dhow_tensor *src,
                              const dhow_tensor *dst) {
    char a[192], b[192];
    DHOWI_TRY(dhowi_tensor_check_read(src, function, "src"));
    DHOWI_TRY(dhowi_tensor_check_write(dst, function, "dst"));
    if (dhowi_tensor_device(src)->context != dhowi_tensor_device(dst)->context) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the tensors belong to different contexts",
                          function);
    }
    if (!dhowi_shape_equal(src->rank, src->shape, dst->rank, dst->shape)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: src is %s, dst is %s; shapes must be equal",
                          function, dhowi_tensor_text(src, a, sizeof a),
                          dhowi_tensor_text(dst, b, sizeof b));
    }
    if (src->dtype != dst->dtype) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: src is %s, dst is %s; dhow_cast() converts dtypes", function,
                          dhowi_tensor_text(src, a, sizeof a), dhowi_tensor_text(dst, b, sizeof b));
    }
    return DHOW_OK;
}

/* The stream of a copy: given, or the default of the device that is no host. */
static dhow_status resolve_stream(const char *function, dhow_stream *stream, const dhow_tensor *src,
                                  const dhow_tensor *dst, dhow_stream **out) {
    dhow_device *from = dhowi_tensor_device(src), *to = dhowi_tensor_device(dst);
    dhow_device *device = is_host(dst) ? from : to;
    if (stream != NULL) {
        DHOWI_TRY(dhowi_handle_check(stream, DHOWI_STREAM, function, "stream"));
        if (stream->device == from || stream->device == to) device = stream->device;
    }
    return dhowi_stream_resolve(stream, device, function, out);
}

/* ---- paths ---- */

/* Within one device; overlapping views go through a temporary. */
static dhow_status copy_native(dhow_stream *stream, dhow_tensor *src, dhow_tensor *dst,
                               bool ordered) {
    if (!dhowi_tensor_overlap(src, dst)) return dhowi_copy_local(stream, src, dst, ordered);
    dhow_tensor *temporary;
    DHOWI_TRY(dhowi_tensor_new(stream->device, src->dtype, src->rank, src->shape, &temporary));
    dhow_status status = dhowi_copy_local(stream, src, temporary, true);
    if (status == DHOW_OK) status = dhowi_copy_local(stream, temporary, dst, true);
    dhow_tensor_release(temporary);
    return status;
}

/* The device that is no host does the work; a stream of the other one comes before and after it. */
static dhow_status copy_direct(dhow_stream *stream, dhow_tensor *src, dhow_tensor *dst,
                               bool ordered,
                               dhow_status (*copy)(dhow_stream *, dhow_tensor *, dhow_tensor *,
                                                   bool)) {
    dhow_device *device = dhowi_tensor_device(is_host(dst) ? src : dst);
    if (stream->device == device) return copy(stream, src, dst, ordered);
    DHOWI_TRY(dhowi_stream_refuse_recording(stream, "a copy done by another device"));
    dhow_stream *worker;
    DHOWI_TRY(dhowi_stream_default(device, &worker));
    DHOWI_TRY(dhowi_stream_follow(worker, stream));
    DHOWI_TRY(copy(worker, src, dst, ordered));
    dhowi_stream_attach(stream, dhowi_stream_tail(worker));
    return DHOW_OK;
}

static dhow_status copy_by_path(dhow_stream *stream, dhow_tensor *src, dhow_tensor *dst,
                                dhow_copy_path path, bool ordered) {
    switch (path) {
        case DHOW_COPY_NOTHING:
            return DHOW_OK;
        case DHOW_COPY_NATIVE:
            return copy_native(stream, src, dst, ordered);
        case DHOW_COPY_HOST:
            return copy_direct(stream, src, dst, ordered, dhowi_copy_local);
        case DHOW_COPY_PEER:
            return copy_direct(stream, src, dst, ordered, dhowi_copy_peer);
        case DHOW_COPY_MAPPED:
        case DHOW_COPY_STAGED:
            break;
    }
    return dhowi_copy_queue(stream, src, dst, ordered);
}

/* Gathers on the source device, travels, scatters on the destination device. What is dhow's own is
 * waited for also where the caller's tensors are not: work that makes it, and earlier work in
 * memory that serves again. */
static dhow_status travel_packed(dhow_stream *stream, dhow_tensor *src, dhow_tensor *dst,
                                 dhow_copy_path path, bool ordered) {
    dhow_tensor *packed = NULL, *arrived = NULL;
    dhow_stream *there = NULL;
    dhow_stream *here = stream->device == dhowi_tensor_device(src) ? stream : NULL;
    dhow_status status = dhow_tensor_contiguous(here, src, &packed);
    if (status == DHOW_OK && dst->contiguous) {
        status = copy_by_path(stream, packed, dst, path, ordered || packed != src);
    } else if (status == DHOW_OK) {
        dhow_device *device = dhowi_tensor_device(dst);
        status = dhowi_tensor_new(device, dst->dtype, dst->rank, dst->shape, &arrived);
        if (status == DHOW_OK) status = copy_by_path(stream, packed, arrived, path, true);
        if (status == DHOW_OK) {
            status = dhowi_stream_resolve(stream->device == device ? stream : NULL, device, "copy",
                                          &there);
        }
        if (status == DHOW_OK) status = dhowi_copy_local(there, arrived, dst, true);
        if (status == DHOW_OK && there != stream)
            dhowi_stream_attach(stream, dhowi_stream_tail(there));
    }
    dhow_tensor_release(packed);
    dhow_tensor_release(arrived);
    return status;
}

/* ---- the public side ---- */

static dhow_status start_copy(const char *function, dhow_stream *stream, dhow_tensor *src,
                              dhow_tensor *dst, bool ordered) {
    DHOWI_TRY(check_pair(function, src, dst));
    DHOWI_TRY(dhowi_device_usable(dhowi_tensor_device(src)));
    DHOWI_TRY(resolve_stream(function, stream, src, dst, &stream));
    dhow_copy_path path = choose(src, dst);
    if (needs_packing(src, dst, path)) return travel_packed(stream, src, dst, path, ordered);
    return copy_by_path(stream, src, dst, path, ordered);
}

dhow_status dhow_copy_async(dhow_stream *stream, dhow_tensor *src, dhow_tensor *dst,
                            uint32_t flags) {
    static const char function[] = "dhow_copy_async";
    if ((flags & ~(uint32_t)DHOW_COPY_UNORDERED) != 0) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: flags 0x%x; 0 and DHOW_COPY_UNORDERED exist",
                          function, flags);
    }
    return start_copy(function, stream, src, dst, (flags & DHOW_COPY_UNORDERED) == 0);
}

/* The bytes are there once dst's writers are done. */
static dhow_status await_copy(dhow_tensor *dst) {
    DHOWI_TRY(dhowi_hazard_wait(&dst->storage->hazard, DHOW_ACCESS_READ));
    return dhowi_storage_readable(dst->storage, true);
}

dhow_status dhow_copy(dhow_tensor *src, dhow_tensor *dst) {
    DHOWI_TRY(start_copy("dhow_copy", NULL, src, dst, true));
    return await_copy(dst);
}

dhow_status dhow_tensor_to_async(dhow_stream *stream, dhow_tensor *tensor, dhow_device *device,
                                 dhow_tensor **out) {
    static const char function[] = "dhow_tensor_to";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_tensor_check_read(tensor, function, "tensor"));
    DHOWI_TRY(dhowi_device_check(device, function));
    if (stream != NULL) DHOWI_TRY(dhowi_handle_check(stream, DHOWI_STREAM, function, "stream"));
    if (dhowi_tensor_device(tensor) == device) {
        dhowi_handle_retain(&tensor->handle);
        *out = tensor;
        return DHOW_OK;
    }
    dhow_tensor *t;
    DHOWI_TRY(dhowi_tensor_new(device, tensor->dtype, tensor->rank, tensor->shape, &t));
    dhow_status status = start_copy(function, stream, tensor, t, true);
    if (status != DHOW_OK) {
        dhow_tensor_release(t);
        return status;
    }
    (void)dhowi_copy_text(t->storage->label, sizeof t->storage->label, tensor->storage->label);
    *out = t;
    return DHOW_OK;
}

dhow_status dhow_tensor_to(dhow_tensor *tensor, dhow_device *device, dhow_tensor **out) {
    DHOWI_TRY(dhow_tensor_to_async(NULL, tensor, device, out));
    dhow_status status = await_copy(*out);
    if (status != DHOW_OK) {
        dhow_tensor_release(*out);
        *out = NULL;
    }
    return status;
}

static void describe(dhow_copy_plan_info *plan, const dhow_tensor *src, const dhow_tensor *dst) {
    const char *from = dhowi_tensor_device(src)->name, *to = dhowi_tensor_device(dst)->name;
    dhowi_text text = DHOWI_TEXT(plan->text);
    if (plan->packs_src) dhowi_text_add(&text, "gather on %s, ", from);
    switch (plan->path) {
        case DHOW_COPY_NOTHING:
            dhowi_text_add(&text, "nothing to copy");
            break;
        case DHOW_COPY_NATIVE:
            dhowi_text_add(&text, "within %s", from);
            break;
        case DHOW_COPY_HOST:
            dhowi_text_add(&text, "%s to %s, straight by the driver", from, to);
            break;
        case DHOW_COPY_MAPPED:
            dhowi_text_add(&text, "%s to %s, copied once through memory the host sees", from, to);
            break;
        case DHOW_COPY_PEER:
            dhowi_text_add(&text, "%s to %s, peer to peer", from, to);
            break;
        case DHOW_COPY_STAGED:
            dhowi_text_add(&text, "%s to %s through a ring of %u chunks of %" PRIu64 " KiB", from,
                           to, plan->chunk_count, plan->chunk_bytes >> 10);
            break;
    }
    if (plan->unpacks_dst) dhowi_text_add(&text, ", scatter on %s", to);
}

dhow_status dhow_copy_plan(dhow_tensor *src, dhow_tensor *dst, dhow_copy_plan_info *given) {
    dhow_copy_plan_info own, *out = &own;
    static const char function[] = "dhow_copy_plan";
    DHOWI_TRY(DHOWI_STRUCT_OUT(dhow_copy_plan_info, given, &own, function));
    DHOWI_TRY(check_pair(function, src, dst));
    out->path = choose(src, dst);
    out->bytes = dhowi_tensor_bytes(src);
    if (out->path == DHOW_COPY_STAGED) {
        out->chunk_bytes = DHOWI_CHUNK_BYTES;
        out->chunk_count = DHOWI_CHUNK_COUNT;
    }
    bool packing = needs_packing(src, dst, out->path);
    out->packs_src = packing && !src->contiguous;
    out->unpacks_dst = packing && !dst->contiguous;
    describe(out, src, dst);
    DHOWI_STRUCT_GIVE(given, out);
    return DHOW_OK;
}
