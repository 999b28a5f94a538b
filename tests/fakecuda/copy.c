/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and fills. What the machine finds out when the work runs, CUDA knows at the call: whose
 * memory it is and whether the range fits.
 */
#include <string.h>

#include "fake.h"

enum { MAX_PITCH = 0x7fffffff };

/* ---- copies ---- */

typedef struct end_place {
    bool known; /* to CUDA: device memory or pinned */
    simdev_place place;
} end_place;

static end_place find_end(uint64_t address) {
    end_place end = {0};
    end.known = simdev_find(fake.machine, address, &end.place);
    return end;
}

static bool is_device_end(const end_place *end) { return end->known && !end->place.pinned; }

static bool fits(const end_place *end, const dhow_copy_end *at, const uint64_t *extent) {
    const uint64_t span =
        extent[0] + (extent[1] - 1) * at->pitch[0] + (extent[2] - 1) * at->pitch[1];
    return !end->known || span <= end->place.bytes - (at->handle - end->place.start);
}

static bool kind_fits(enum cudaMemcpyKind kind, bool from_device, bool to_device) {
    switch (kind) {
        case cudaMemcpyHostToHost:
            return !from_device && !to_device;
        case cudaMemcpyHostToDevice:
            return !from_device && to_device;
        case cudaMemcpyDeviceToHost:
            return from_device && !to_device;
        case cudaMemcpyDeviceToDevice:
            return from_device && to_device;
        default:
            return true;
    }
}

static cudaError_t copy(fake_stream *stream, dhow_copy_rect *rect, enum cudaMemcpyKind kind) {
    fake_command command = {.kind = FAKE_COPY, .src_device = stream->device};
    if (rect->extent[0] == 0 || rect->extent[1] == 0 || rect->extent[2] == 0) return cudaSuccess;
    const end_place src = find_end(rect->src.handle), dst = find_end(rect->dst.handle);
    const bool from_device = is_device_end(&src), to_device = is_device_end(&dst);
    if ((unsigned)kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    if (!kind_fits(kind, from_device, to_device)) return cudaErrorInvalidValue;
    if (!fits(&src, &rect->src, rect->extent) || !fits(&dst, &rect->dst, rect->extent))
        return cudaErrorInvalidValue;
    if (!from_device && !to_device) {
        fakecuda_complain("a copy from host to host");
        return cudaErrorInvalidValue;
    }
    if (to_device && dst.place.device != fake.devices[stream->device]) {
        fakecuda_complain("a copy to another device than the stream's");
        return cudaErrorInvalidValue;
    }
    rect->src.space = from_device ? DHOW_SPACE_DEVICE : DHOW_SPACE_HOST;
    rect->dst.space = to_device ? DHOW_SPACE_DEVICE : DHOW_SPACE_HOST;
    command.rect = *rect;
    if (from_device && src.place.device != fake.devices[stream->device]) {
        if (!to_device || rect->extent[1] != 1 || rect->extent[2] != 1) {
            fakecuda_complain("a copy from another device than the stream's");
            return cudaErrorInvalidValue;
        }
        command.kind = FAKE_PEER_COPY;
        command.src_device = (int)simdev_device_index(src.place.device);
    }
    return fake_submit(stream, &command);
}

static fake_stream *begin_on(fake_call *call, const char *name, cudaStream_t handle,
                             cudaError_t *code) {
    fake_stream *stream = fake_stream_of(handle);
    *code = fake_begin(call, name, stream != NULL ? stream->device : FAKE_CURRENT);
    if (*code == cudaSuccess && stream == NULL) *code = cudaErrorInvalidResourceHandle;
    return stream;
}

static dhow_copy_rect box(void *to, const void *from, size_t width, size_t height, size_t depth) {
    dhow_copy_rect rect = {.extent = {width, height, depth}};
    rect.src.handle = (uint64_t)(uintptr_t)from;
    rect.dst.handle = (uint64_t)(uintptr_t)to;
    rect.src.pitch[0] = rect.src.pitch[1] = rect.dst.pitch[0] = rect.dst.pitch[1] = width;
    return rect;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t handle) {
    fake_call call;
    cudaError_t code;
    fake_stream *stream = begin_on(&call, "cudaMemcpyAsync", handle, &code);
    dhow_copy_rect rect = box(to, from, bytes, 1, 1);
    if (code == cudaSuccess) code = copy(stream, &rect, kind);
    return fake_end(&call, code);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t handle) {
    fake_call call;
    cudaError_t code;
    fake_stream *stream = begin_on(&call, "cudaMemcpy2DAsync", handle, &code);
    dhow_copy_rect rect = box(to, from, width, height, 1);
    rect.src.pitch[0] = from_pitch;
    rect.dst.pitch[0] = to_pitch;
    if (code == cudaSuccess &&
        (width > to_pitch || width > from_pitch || to_pitch > MAX_PITCH || from_pitch > MAX_PITCH))
        code = cudaErrorInvalidPitchValue;
    if (code == cudaSuccess) code = copy(stream, &rect, kind);
    return fake_end(&call, code);
}

static bool set_end(dhow_copy_end *end, const struct cudaPitchedPtr *p, const struct cudaPos *at,
                    const struct cudaExtent *extent) {
    end->handle =
        (uint64_t)(uintptr_t)p->ptr + at->z * p->pitch * p->ysize + at->y * p->pitch + at->x;
    end->pitch[0] = p->pitch;
    end->pitch[1] = p->pitch * p->ysize;
    return at->x + extent->width <= p->pitch && p->pitch <= MAX_PITCH &&
           (extent->depth <= 1 || at->y + extent->height <= p->ysize);
}

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t handle) {
    fake_call call;
    cudaError_t code;
    fake_stream *stream = begin_on(&call, "cudaMemcpy3DAsync", handle, &code);
    dhow_copy_rect rect = box(NULL, NULL, p->extent.width, p->extent.height, p->extent.depth);
    if (code == cudaSuccess && (p->srcArray != NULL || p->dstArray != NULL))
        code = cudaErrorInvalidValue;
    if (code == cudaSuccess && (!set_end(&rect.src, &p->srcPtr, &p->srcPos, &p->extent) ||
                                !set_end(&rect.dst, &p->dstPtr, &p->dstPos, &p->extent)))
        code = cudaErrorInvalidPitchValue;
    if (code == cudaSuccess) code = copy(stream, &rect, p->kind);
    return fake_end(&call, code);
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t bytes, cudaStream_t handle) {
    fake_call call;
    cudaError_t code;
    fake_stream *stream = begin_on(&call, "cudaMemcpyPeerAsync", handle, &code);
    fake_command command = {.kind = FAKE_PEER_COPY, .src_device = from_device};
    command.rect = box(to, from, bytes, 1, 1);
    if (code != cudaSuccess) return fake_end(&call, code);
    const int count = (int)fake.settings.machine.device_count;
    if (to_device < 0 || to_device >= count || from_device < 0 || from_device >= count)
        return fake_end(&call, cudaErrorInvalidDevice);
    const end_place src = find_end((uint64_t)(uintptr_t)from),
                    dst = find_end((uint64_t)(uintptr_t)to);
    if (bytes != 0 && (!is_device_end(&src) || !is_device_end(&dst) ||
                       src.place.device != fake.devices[from_device] ||
                       dst.place.device != fake.devices[to_device] ||
                       !fits(&src, &command.rect.src, command.rect.extent) ||
                       !fits(&dst, &command.rect.dst, command.rect.extent)))
        code = cudaErrorInvalidValue;
    if (code == cudaSuccess && to_device != stream->device) {
        fakecuda_complain("a copy between devices on a stream that is not the destination's");
        code = cudaErrorInvalidValue;
    }
    const int other = atomic_load(&fake.sticky[from_device]);
    if (code == cudaSuccess && other != 0) code = (cudaError_t)other;
    if (code == cudaSuccess && bytes != 0) code = fake_submit(stream, &command);
    return fake_end(&call, code);
}

/* ---- fills ---- */

typedef struct filling {
    uint64_t pitch, width, height; /* bytes, units, rows */
    uint32_t pattern, unit;
} filling;

static void fill(void *data, unsigned char *const *memory) {
    filling what;
    memcpy(&what, data, sizeof what);
    for (uint64_t row = 0; row < what.height; row++) {
        unsigned char *at = memory[0] + row * what.pitch;
        for (uint64_t i = 0; i < what.width; i++)
            memcpy(at + i * what.unit, &what.pattern, what.unit);
    }
}

static cudaError_t submit_fill(cudaStream_t handle, uint64_t address, const filling *what) {
    if (what->width == 0 || what->height == 0) return cudaSuccess;
    const uint64_t span = (what->height - 1) * what->pitch + what->width * what->unit;
    const end_place to = find_end(address);
    const fakecuda_range range = {(const void *)(uintptr_t)address, span, true};
    if (address % what->unit != 0 || what->pitch % what->unit != 0) return cudaErrorInvalidValue;
    if (what->height > 1 && what->width * what->unit > what->pitch) return cudaErrorInvalidValue;
    if (!is_device_end(&to) || to.place.device != fake.devices[handle->device] ||
        span > to.place.bytes - (address - to.place.start))
        return cudaErrorInvalidValue;
    fakecuda_log("fill %llu x %llu", (unsigned long long)(what->width * what->unit),
                 (unsigned long long)what->height);
    return fakecuda_work(handle, fill, what, sizeof *what, &range, 1);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t handle) {
    fake_call call;
    cudaError_t code;
    const filling what = {0, bytes, 1, (uint32_t)(value & 0xff), 1};
    (void)begin_on(&call, "cudaMemsetAsync", handle, &code);
    if (code == cudaSuccess) code = submit_fill(handle, (uint64_t)(uintptr_t)to, &what);
    return fake_end(&call, code);
}

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t handle) {
    fake_call call;
    cudaError_t code;
    const filling what = {pitch, width, height, (uint32_t)(value & 0xff), 1};
    (void)begin_on(&call, "cudaMemset2DAsync", handle, &code);
    if (code == cudaSuccess) code = submit_fill(handle, (uint64_t)(uintptr_t)to, &what);
    return fake_end(&call, code);
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream handle) {
    fake_call call;
    cudaError_t code;
    const filling what = {0, count, 1, value, 2};
    (void)begin_on(&call, "cuMemsetD16Async", handle, &code);
    if (code == cudaSuccess) code = submit_fill(handle, to, &what);
    return fake_driver_end(&call, code);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream handle) {
    fake_call call;
    cudaError_t code;
    const filling what = {0, count, 1, value, 4};
    (void)begin_on(&call, "cuMemsetD32Async", handle, &code);
    if (code == cudaSuccess) code = submit_fill(handle, to, &what);
    return fake_driver_end(&call, code);
}

CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width,
                            size_t height, CUstream handle) {
    fake_call call;
    cudaError_t code;
    const filling what = {pitch, width, height, value, 4};
    (void)begin_on(&call, "cuMemsetD2D32Async", handle, &code);
    if (code == cudaSuccess) code = submit_fill(handle, to, &what);
    return fake_driver_end(&call, code);
}
