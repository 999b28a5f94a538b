/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams.
 */
#include <string.h>

#include "fake.h"

/* The default stream of the current device, made on first use; it is no object of the program. */
static fake_stream *default_stream(void) {
    dhow_error err = {.struct_size = sizeof err};
    const int device = fake_current_or_first();
    if (device < 0) return NULL;
    fake_lock();
    fake_stream *stream = fake.defaults[device];
    if (stream == NULL && (stream = fake_new(sizeof *stream)) != NULL) {
        stream->device = device;
        if (simdev_stream_create(fake.devices[device], 0, &stream->native, &err) != DHOW_OK) {
            fake_delete(stream);
            stream = NULL;
        }
        fake.defaults[device] = stream;
    }
    fake_unlock();
    return stream;
}

void fake_stream_end_defaults(void) {
    for (int i = 0; i < SIMDEV_MAX_DEVICES; i++) {
        fake_stream *stream = fake.defaults[i];
        fake.defaults[i] = NULL;
        if (stream == NULL) continue;
        simdev_stream_destroy(stream->native);
        fake_delete(stream);
    }
}

fake_stream *fake_stream_of(cudaStream_t stream) {
    const bool is_default =
        stream == NULL || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
    if (is_default && fake.settings.legacy) return default_stream();
    if (is_default) {
        fakecuda_complain("the %s stream is used",
                          stream == cudaStreamPerThread ? "per-thread" : "legacy");
        return NULL;
    }
    return fakecuda_object_is(stream, FAKECUDA_STREAM) ? stream : NULL;
}

int fakecuda_stream_device(cudaStream_t handle) {
    const fake_stream *stream = fake_stream_of(handle);
    return stream != NULL ? stream->device : -1;
}

bool fake_stream_is_capturing(const fake_stream *stream) {
    fake_lock();
    const bool capturing = stream->capture != NULL;
    fake_unlock();
    return capturing;
}

static cudaError_t create(fake_call *call, cudaStream_t *out, unsigned flags) {
    dhow_error err = {.struct_size = sizeof err};
    if ((flags & cudaStreamNonBlocking) == 0)
        fakecuda_complain("a stream is created that waits for the legacy stream");
    fake_stream *stream = fakecuda_object_new(FAKECUDA_STREAM, sizeof *stream);
    if (stream == NULL) return cudaErrorMemoryAllocation;
    stream->device = call->device;
    const cudaError_t code = fake_code(
        call->device, simdev_stream_create(fake.devices[call->device], 0, &stream->native, &err));
    if (code != cudaSuccess) {
        if (stream->native != NULL) simdev_stream_destroy(stream->native);
        fakecuda_object_delete(stream);
        return code;
    }
    *out = stream;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cudaStreamCreateWithFlags", FAKE_CURRENT);
    if (code == cudaSuccess) code = create(&call, out, flags);
    return fake_end(&call, code);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority) {
    fake_call call;
    cudaError_t code = fake_begin(&call, "cudaStreamCreateWithPriority", FAKE_CURRENT);
    (void)priority;
    if (code == cudaSuccess) code = create(&call, out, flags);
    return fake_end(&call, code);
}

void fake_stream_end(fake_stream *stream) {
    fake_capture_drop(stream);
    simdev_stream_destroy(stream->native);
}

static fake_stream *begin_on(fake_call *call, const char *name, cudaStream_t handle,
                             cudaError_t *code) {
    fake_stream *stream = fake_stream_of(handle);
    *code = fake_begin(call, name, stream != NULL ? stream->device : FAKE_CURRENT);
    if (*code == cudaSuccess && stream == NULL) *code = cudaErrorInvalidResourceHandle;
    return stream;
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
    fake_call call;
    cudaError_t code;
    fake_stream *stream = begin_on(&call, "cudaStreamDestroy", handle, &code);
    if (stream != NULL && call.device != FAKE_NOWHERE) {
        fake_stream_end(stream);
        fakecuda_object_delete(stream);
    }
    return fake_end(&call, code);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
    fake_call call;
    cudaError_t code;
    dhow_error err = {.struct_size = sizeof err};
    fake_stream *stream = begin_on(&call, "cudaStreamSynchronize", handle, &code);
    if (code == cudaSuccess) code = fake_forbidden_on(stream);
    /* Also on a failed device: its work has ended. */
    if (stream != NULL && (code == cudaSuccess || fake_is_sticky((int)code))) {
        const cudaError_t now = fake_done(stream->device, simdev_stream_sync(stream->native, &err));
        if (code == cudaSuccess) code = now;
    }
    return fake_end(&call, code);
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
    fake_call call;
    cudaError_t code;
    dhow_error err = {.struct_size = sizeof err};
    fake_stream *stream = begin_on(&call, "cudaStreamQuery", handle, &code);
    if (code == cudaSuccess) code = fake_forbidden_on(stream);
    if (code == cudaSuccess)
        code = fake_done(stream->device, simdev_stream_query(stream->native, &err));
    return fake_end(&call, code);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t run, void *data) {
    fake_call call;
    cudaError_t code;
    fake_stream *stream = begin_on(&call, "cudaLaunchHostFunc", handle, &code);
    fake_command command = {.kind = FAKE_HOST};
    command.u.host.run = run;
    command.u.host.data = data;
    if (code == cudaSuccess) code = fake_submit(stream, &command);
    return fake_end(&call, code);
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *out) {
    fake_call call;
    cudaError_t code;
    const fake_stream *stream = begin_on(&call, "cuStreamGetCtx", handle, &code);
    if (code == cudaSuccess) *out = &fake.contexts[stream->device];
    return fake_driver_end(&call, code);
}

/* ---- words in host memory ---- */

CUresult cuStreamWaitValue32(CUstream handle, CUdeviceptr address, cuuint32_t value,
                             unsigned flags) {
    fake_call call;
    cudaError_t code;
    simdev_place place;
    fake_stream *stream = begin_on(&call, "cuStreamWaitValue32", handle, &code);
    fake_command command = {.kind = FAKE_WAIT_VALUE};
    const bool is_pinned = code == cudaSuccess && address % 4 == 0 &&
                           simdev_find(fake.machine, address, &place) && place.pinned &&
                           address + 4 <= place.start + place.bytes;
    if (code == cudaSuccess && !is_pinned) {
        fakecuda_complain("a stream waits for a word at %#llx, which is not in pinned memory",
                          (unsigned long long)address);
        code = cudaErrorInvalidValue;
    }
    if (code == cudaSuccess && flags > CU_STREAM_WAIT_VALUE_NOR) code = cudaErrorInvalidValue;
    if (code == cudaSuccess) code = fake_forbidden_on(stream);
    command.u.wait.word = (const uint32_t *)(uintptr_t)address;
    command.u.wait.value = value;
    command.u.wait.flags = flags;
    if (code == cudaSuccess) code = fake_submit(stream, &command);
    return fake_driver_end(&call, code);
}

static void write_word(void *data, unsigned char *const *memory) {
    (void)memory;
    struct {
        uint32_t *word;
        uint32_t value;
    } what;
    memcpy(&what, data, sizeof what);
    __atomic_store_n(what.word, what.value, __ATOMIC_RELEASE);
}

CUresult cuStreamWriteValue32(CUstream handle, CUdeviceptr address, cuuint32_t value,
                              unsigned flags) {
    fake_call call;
    cudaError_t code;
    simdev_place place;
    fake_stream *stream = begin_on(&call, "cuStreamWriteValue32", handle, &code);
    if (code == cudaSuccess && (flags > 1 || address % 4 != 0 ||
                                !simdev_find(fake.machine, address, &place) || !place.pinned))
        code = cudaErrorInvalidValue;
    if (code == cudaSuccess) code = fake_forbidden_on(stream);
    const struct {
        uint32_t *word;
        uint32_t value;
    } what = {(uint32_t *)(uintptr_t)address, value};
    fakecuda_log("write a word");
    if (code == cudaSuccess) code = fakecuda_work(handle, write_word, &what, sizeof what, NULL, 0);
    return fake_driver_end(&call, code);
}
