/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and fills. A box of bytes is first folded to as few dimensions as it really has; what is
 * left goes out as one linear or one rectangle command, and boxes outside OpenCL's rules (rows that
 * overlap, planes not a whole number of rows apart) as several.
 */
#include <string.h>

#include "opencl.h"

/* One end while a box is taken apart. */
typedef struct copy_end {
    cl_mem mem; /* NULL: host */
    char *host;
    uint64_t offset;
    uint64_t pitch[2];
} copy_end;

typedef struct copy_box {
    uint64_t extent[3];
    copy_end src, dst;
} copy_box;

static copy_end end_of(const dhow_copy_end *end) {
    copy_end result = {NULL, NULL, end->offset, {end->pitch[0], end->pitch[1]}};
    if (end->space == DHOW_SPACE_DEVICE)
        result.mem = dhowi_cl_buffer_of(end->handle)->mem;
    else
        result.host = (char *)(uintptr_t)end->handle;
    return result;
}

/* Planes become rows, rows become planes of one. */
static void drop_dimension(copy_box *box) {
    box->extent[1] = box->extent[2];
    box->extent[2] = 1;
    box->src.pitch[0] = box->src.pitch[1];
    box->dst.pitch[0] = box->dst.pitch[1];
}

static void fold(copy_box *box) {
    for (int i = 0; i < 2; i++) {
        if (box->extent[1] == 1) {
            drop_dimension(box);
        } else if (box->src.pitch[0] == box->extent[0] && box->dst.pitch[0] == box->extent[0]) {
            box->extent[0] *= box->extent[1];
            drop_dimension(box);
        }
    }
    if (box->extent[2] > 1 && box->src.pitch[1] == box->extent[1] * box->src.pitch[0] &&
        box->dst.pitch[1] == box->extent[1] * box->dst.pitch[0]) {
        box->extent[1] *= box->extent[2];
        box->extent[2] = 1;
    }
}

static cl_int enqueue_linear(dhowi_cl_stream *stream, const copy_box *box) {
    const copy_end *src = &box->src, *dst = &box->dst;
    const size_t bytes = (size_t)box->extent[0];
    cl_int code = CL_SUCCESS;
    if (src->mem == NULL)
        code = dhowi_cl.EnqueueWriteBuffer(stream->queue, dst->mem, CL_FALSE, (size_t)dst->offset,
                                           bytes, src->host + src->offset, 0, NULL, NULL);
    else if (dst->mem == NULL)
        code = dhowi_cl.EnqueueReadBuffer(stream->queue, src->mem, CL_FALSE, (size_t)src->offset,
                                          bytes, dst->host + dst->offset, 0, NULL, NULL);
    else
        code = dhowi_cl.EnqueueCopyBuffer(stream->queue, src->mem, dst->mem, (size_t)src->offset,
                                          (size_t)dst->offset, bytes, 0, NULL, NULL);
    if (code == CL_SUCCESS) dhowi_cl_stream_submitted(stream);
    return code;
}

/* Whether one end meets the rules of the rectangle commands. */
static bool end_is_regular(const copy_box *box, const copy_end *end) {
    return end->pitch[0] >= box->extent[0] &&
           (box->extent[2] == 1 || (end->pitch[1] >= box->extent[1] * end->pitch[0] &&
                                    end->pitch[1] % end->pitch[0] == 0));
}

/* Within one buffer the command takes equal pitches only. */
static bool pitches_fit(const copy_box *box) {
    if (box->src.mem != box->dst.mem) return true;
    return box->src.pitch[0] == box->dst.pitch[0] &&
           (box->extent[2] == 1 || box->src.pitch[1] == box->dst.pitch[1]);
}

static cl_int enqueue_rect(dhowi_cl_stream *stream, const copy_box *box) {
    const copy_end *src = &box->src, *dst = &box->dst;
    const size_t region[3] = {(size_t)box->extent[0], (size_t)box->extent[1],
                              (size_t)box->extent[2]};
    const size_t src_row = (size_t)src->pitch[0], dst_row = (size_t)dst->pitch[0];
    const size_t src_plane = box->extent[2] > 1 ? (size_t)src->pitch[1] : 0;
    const size_t dst_plane = box->extent[2] > 1 ? (size_t)dst->pitch[1] : 0;
    /* Offsets as rows and bytes: runtimes test boxes within one buffer for overlap by their
     * origins. */
    const size_t src_origin[3] = {(size_t)src->offset % src_row, (size_t)src->offset / src_row, 0};
    const size_t dst_origin[3] = {(size_t)dst->offset % dst_row, (size_t)dst->offset / dst_row, 0};
    const size_t zero[3] = {0, 0, 0};
    cl_int code = CL_SUCCESS;
    if (src->mem == NULL)
        code = dhowi_cl.EnqueueWriteBufferRect(stream->queue, dst->mem, CL_FALSE, dst_origin, zero,
                                               region, dst_row, dst_plane, src_row, src_plane,
                                               src->host + src->offset, 0, NULL, NULL);
    else if (dst->mem == NULL)
        code = dhowi_cl.EnqueueReadBufferRect(stream->queue, src->mem, CL_FALSE, src_origin, zero,
                                              region, src_row, src_plane, dst_row, dst_plane,
                                              dst->host + dst->offset, 0, NULL, NULL);
    else
        code = dhowi_cl.EnqueueCopyBufferRect(stream->queue, src->mem, dst->mem, src_origin,
                                              dst_origin, region, src_row, src_plane, dst_row,
                                              dst_plane, 0, NULL, NULL);
    if (code == CL_SUCCESS) dhowi_cl_stream_submitted(stream);
    return code;
}

/* Rows one by one. */
static cl_int enqueue_rows(dhowi_cl_stream *stream, const copy_box *box) {
    cl_int code = CL_SUCCESS;
    copy_box row = *box;
    for (uint64_t i = 0; i < box->extent[1] && code == CL_SUCCESS; i++) {
        row.src.offset = box->src.offset + i * box->src.pitch[0];
        row.dst.offset = box->dst.offset + i * box->dst.pitch[0];
        code = enqueue_linear(stream, &row);
    }
    return code;
}

static cl_int enqueue_box(dhowi_cl_stream *stream, const copy_box *box);

/* All but the last plane, or row, at once, then that one. */
static cl_int enqueue_but_last(dhowi_cl_stream *stream, const copy_box *box) {
    const int outer = box->extent[2] > 1 ? 2 : 1;
    copy_box most = *box, last = *box;
    most.extent[outer]--;
    last.extent[outer] = 1;
    last.src.offset += most.extent[outer] * box->src.pitch[outer - 1];
    last.dst.offset += most.extent[outer] * box->dst.pitch[outer - 1];
    const cl_int code = enqueue_rect(stream, &most);
    return code == CL_SUCCESS ? enqueue_box(stream, &last) : code;
}

static cl_int enqueue_box(dhowi_cl_stream *stream, const copy_box *box) {
    if (box->extent[1] == 1 && box->extent[2] == 1) return enqueue_linear(stream, box);
    if (pitches_fit(box) && end_is_regular(box, &box->src) && end_is_regular(box, &box->dst)) {
        /* Interleaved boxes of one buffer may be refused as overlapping although they share no
         * byte. NVIDIA's driver wants a whole pitch behind the last row inside the buffer. */
        cl_int code = enqueue_rect(stream, box);
        if (code == CL_INVALID_VALUE) code = enqueue_but_last(stream, box);
        if (code != CL_MEM_COPY_OVERLAP && code != CL_INVALID_VALUE) return code;
    }
    if (box->extent[2] == 1) return enqueue_rows(stream, box);
    cl_int code = CL_SUCCESS;
    copy_box plane = *box;
    plane.extent[2] = 1;
    for (uint64_t i = 0; i < box->extent[2] && code == CL_SUCCESS; i++) {
        plane.src.offset = box->src.offset + i * box->src.pitch[1];
        plane.dst.offset = box->dst.offset + i * box->dst.pitch[1];
        code = enqueue_box(stream, &plane);
    }
    return code;
}

int32_t dhowi_cl_copy(void *stream_pointer, const dhow_copy_rect *rect, dhow_error *err) {
    dhowi_cl_stream *stream = stream_pointer;
    if (rect->extent[0] == 0 || rect->extent[1] == 0 || rect->extent[2] == 0) return DHOW_OK;
    copy_box box = {{rect->extent[0], rect->extent[1], rect->extent[2]},
                    end_of(&rect->src),
                    end_of(&rect->dst)};
    if (box.src.mem == NULL && box.dst.mem == NULL)
        return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT, "a copy needs an end on the device");
    fold(&box);
    cl_int code = enqueue_box(stream, &box);
    if (code != CL_SUCCESS)
        return dhowi_cl_fail(err, code, "%s: a copy of %llu x %llu x %llu bytes was refused",
                             stream->device->name, (unsigned long long)rect->extent[0],
                             (unsigned long long)rect->extent[1],
                             (unsigned long long)rect->extent[2]);
    return DHOW_OK;
}

int32_t dhowi_cl_fill(void *stream_pointer, uint64_t handle, uint64_t offset, uint64_t bytes,
                      uint64_t pattern, uint32_t pattern_bytes, dhow_error *err) {
    dhowi_cl_stream *stream = stream_pointer;
    if (bytes == 0) return DHOW_OK;
    if (offset % pattern_bytes != 0 || bytes % pattern_bytes != 0)
        return dhowi_cl_refuse(err, DHOW_UNSUPPORTED,
                               "a fill must begin and end at a multiple of its pattern (%u bytes)",
                               pattern_bytes);
    cl_int code =
        dhowi_cl.EnqueueFillBuffer(stream->queue, dhowi_cl_buffer_of(handle)->mem, &pattern,
                                   pattern_bytes, (size_t)offset, (size_t)bytes, 0, NULL, NULL);
    if (code != CL_SUCCESS)
        return dhowi_cl_fail(err, code, "%s: a fill of %llu bytes was refused",
                             stream->device->name, (unsigned long long)bytes);
    dhowi_cl_stream_submitted(stream);
    return DHOW_OK;
}
