/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands: what a stream is given, in a form that can be kept and given again. A stream that is
 * recording keeps them; any other hands them to the machine.
 */
#include <string.h>
#include <time.h>

#include "fake.h"

/* ---- jobs of the machine ---- */

typedef struct failing {
    int code;
} failing;

static int32_t fail_now(simdev_stream *stream, void *data, unsigned char *const *memory) {
    (void)stream, (void)memory;
    return FAKE_STATUS + ((const failing *)data)->code;
}

cudaError_t fake_perform_failure(fake_stream *stream, int code) {
    dhow_error err = {.struct_size = sizeof err};
    const failing what = {code};
    const simdev_job job = {.run = fail_now, .data = &what, .data_bytes = sizeof what};
    return fake_code(stream->device, simdev_call(stream->native, &job, &err));
}

typedef struct waiting {
    const uint32_t *word;
    uint32_t value;
    unsigned flags;
} waiting;

static bool satisfied(const waiting *w, uint32_t now) {
    switch (w->flags) {
        case CU_STREAM_WAIT_VALUE_GEQ:
            return (int32_t)(now - w->value) >= 0;
        case CU_STREAM_WAIT_VALUE_EQ:
            return now == w->value;
        case CU_STREAM_WAIT_VALUE_AND:
            return (now & w->value) != 0;
        default:
            return ~(now | w->value) != 0;
    }
}

static int32_t wait_for_word(simdev_stream *stream, void *data, unsigned char *const *memory) {
    const struct timespec pause = {0, 50000};
    const waiting *w = data;
    (void)memory;
    while (!satisfied(w, __atomic_load_n(w->word, __ATOMIC_ACQUIRE))) {
        if (simdev_stream_is_stopping(stream)) return DHOW_OK;
        (void)nanosleep(&pause, NULL);
    }
    simdev_word_seen(w->word);
    return DHOW_OK;
}

typedef struct called {
    void (*run)(void *data, unsigned char *const *memory);
    unsigned char data[FAKECUDA_MAX_DATA];
} called;

static int32_t run_called(simdev_stream *stream, void *data, unsigned char *const *memory) {
    (void)stream;
    ((called *)data)->run(((called *)data)->data, memory);
    return DHOW_OK;
}

static int32_t run_host(simdev_stream *stream, void *data, unsigned char *const *memory) {
    struct {
        cudaHostFn_t run;
        void *data;
    } host;
    (void)stream, (void)memory;
    memcpy(&host, data, sizeof host);
    host.run(host.data);
    return DHOW_OK;
}

static cudaError_t perform_work(fake_stream *stream, const fake_command *command) {
    dhow_error err = {.struct_size = sizeof err};
    called what;
    simdev_job job = {.run = run_called, .data = &what, .data_bytes = sizeof what};
    what.run = command->u.work.run;
    memcpy(what.data, command->u.work.data, sizeof what.data);
    job.range_count = command->u.work.range_count;
    for (uint32_t i = 0; i < job.range_count; i++) {
        const fakecuda_range *range = &command->u.work.ranges[i];
        job.ranges[i].handle = (uint64_t)(uintptr_t)range->address;
        job.ranges[i].bytes = range->bytes;
        job.ranges[i].access = range->writes ? DHOW_ACCESS_WRITE : DHOW_ACCESS_READ;
    }
    return fake_code(stream->device, simdev_call(stream->native, &job, &err));
}

/* ---- copies ---- */

static void set_pinned(dhow_copy_end *end) {
    simdev_place place;
    if (end->space == DHOW_SPACE_HOST)
        end->pinned = simdev_find(fake.machine, end->handle, &place) && place.pinned ? 1 : 0;
}

static void spoil(void *data, unsigned char *const *memory) {
    size_t bytes;
    memcpy(&bytes, data, sizeof bytes);
    memset(memory[0], 0x5A, bytes);
}

static cudaError_t perform_peer_copy(fake_stream *stream, const fake_command *command) {
    dhow_error err = {.struct_size = sizeof err};
    const dhow_copy_rect *rect = &command->rect;
    const dhow_buffer from = {rect->src.handle, 0}, to = {rect->dst.handle, 0};
    if (fake.settings.peer == 2) {
        fake_command wrong = {.kind = FAKE_WORK};
        const size_t bytes = (size_t)rect->extent[0];
        wrong.u.work.run = spoil;
        memcpy(wrong.u.work.data, &bytes, sizeof bytes);
        wrong.u.work.ranges[0] =
            (fakecuda_range){(const void *)(uintptr_t)rect->dst.handle, bytes, true};
        wrong.u.work.range_count = 1;
        return perform_work(stream, &wrong);
    }
    return fake_code(stream->device,
                     simdev_peer_copy(stream->native, fake.devices[command->src_device], from, to,
                                      rect->extent[0], &err));
}

static cudaError_t perform_copy(fake_stream *stream, const fake_command *command) {
    dhow_error err = {.struct_size = sizeof err};
    dhow_copy_rect rect = command->rect;
    set_pinned(&rect.src);
    set_pinned(&rect.dst);
    return fake_code(stream->device, simdev_copy(stream->native, &rect, &err));
}

/* ---- kernels ---- */

bool fake_find_block(uint64_t address, simdev_place *out) {
    memset(out, 0, sizeof *out);
    if (address == 0) return true;
    return (simdev_find(fake.machine, address, out) ||
            simdev_find(fake.machine, address - 1, out)) &&
           !out->pinned;
}

/* A pointer as block and offset, so that the machine can check its alignment. */
static bool take_pointer(const unsigned char *param, dhow_arg *out) {
    uint64_t address;
    simdev_place place;
    memcpy(&address, param, sizeof address);
    *out = (dhow_arg){.kind = DHOW_ARG_BUFFER, .bytes = DHOW_ACCESS_READ | DHOW_ACCESS_WRITE};
    if (!fake_find_block(address, &place)) return false;
    out->u.buffer.handle = place.start;
    out->u.buffer.offset = address - place.start;
    return true;
}

static cudaError_t perform_launch(fake_stream *stream, const fake_command *command) {
    dhow_error err = {.struct_size = sizeof err};
    const fake_function *function = command->function;
    const fake_kernel *kernel = function->kernel;
    dhow_arg args[DHOW_MAX_KERNEL_ARGS];
    dhow_dims dims[4];
    uint32_t kind, bytes, dims_count = 0;
    const int fault = fake_kernel_fault(kernel->name, stream->device);
    if (fault != 0) return fake_perform_failure(stream, fault);
    if (kernel->ptx != NULL) return fake_ptx_perform(stream, command);
    for (uint32_t i = 0; simdev_kernel_arg(function->native, i, &kind, &bytes); i++) {
        const unsigned char *param = command->u.params + kernel->param_offset[i];
        args[i] = (dhow_arg){.kind = kind, .bytes = bytes};
        if (kind == DHOW_ARG_BUFFER && !take_pointer(param, &args[i]))
            return fake_perform_failure(stream, cudaErrorIllegalAddress);
        if (kind == DHOW_ARG_VALUE) memcpy(&args[i].u.value, param, bytes);
        if (kind == DHOW_ARG_DIMS) {
            memcpy(&dims[dims_count], param, sizeof dims[0]);
            args[i].u.dims = &dims[dims_count++];
        }
    }
    const int32_t status =
        simdev_launch(stream->native, function->native, 0, args, kernel->param_count, &err);
    if (status == DHOW_INVALID_ARGUMENT) /* an offset that does not suit the kernel's accesses */
        return fake_perform_failure(stream, cudaErrorMisalignedAddress);
    return fake_code(stream->device, status);
}

/* ---- all of them ---- */

cudaError_t fake_perform(fake_stream *stream, const fake_command *command) {
    dhow_error err = {.struct_size = sizeof err};
    simdev_job job = {0};
    const bool computes =
        command->kind == FAKE_WORK || (command->kind == FAKE_LAUNCH && !fake.settings.ptx);
    if (fake.settings.idle && computes) return cudaSuccess;
    switch (command->kind) {
        case FAKE_COPY:
            return perform_copy(stream, command);
        case FAKE_PEER_COPY:
            return perform_peer_copy(stream, command);
        case FAKE_LAUNCH:
            return perform_launch(stream, command);
        case FAKE_WORK:
            return perform_work(stream, command);
        case FAKE_RECORD:
            return fake_code(stream->device,
                             simdev_event_record(command->event->native, stream->native, &err));
        case FAKE_WAIT:
            return fake_code(stream->device,
                             simdev_stream_wait(stream->native, command->event->native, &err));
        case FAKE_WAIT_VALUE:
            job.run = wait_for_word;
            job.data = &command->u.wait;
            job.data_bytes = sizeof command->u.wait;
            break;
        case FAKE_HOST:
            job.run = run_host;
            job.data = &command->u.host;
            job.data_bytes = sizeof command->u.host;
            break;
    }
    return fake_code(stream->device, simdev_call(stream->native, &job, &err));
}

void fake_drain(simdev_device *device) {
    const bool locks = fake.settings.quiesce;
    if (locks) simdev_lock(&fake.driver);
    simdev_device_drain(device);
    if (locks) simdev_unlock(&fake.driver);
}

cudaError_t fake_submit(fake_stream *stream, const fake_command *command) {
    bool recorded = false;
    if (fake.settings.quiesce) {
        simdev_lock(&fake.driver);
        simdev_unlock(&fake.driver);
    }
    fake_log_command(command);
    const cudaError_t code = fake_record(stream, command, &recorded);
    return code != cudaSuccess || recorded ? code : fake_perform(stream, command);
}

cudaError_t fakecuda_work(cudaStream_t handle,
                          void (*run)(void *data, unsigned char *const *memory), const void *data,
                          size_t data_bytes, const fakecuda_range *ranges, uint32_t range_count) {
    fake_stream *stream = fake_stream_of(handle);
    fake_command command = {.kind = FAKE_WORK};
    if (stream == NULL) return cudaErrorInvalidResourceHandle;
    if (data_bytes > FAKECUDA_MAX_DATA || range_count > FAKECUDA_MAX_RANGES)
        return cudaErrorInvalidValue;
    const int stuck = atomic_load(&fake.sticky[stream->device]);
    if (stuck != 0) return (cudaError_t)stuck;
    command.u.work.run = run;
    command.u.work.data_bytes = data_bytes;
    if (data_bytes != 0) memcpy(command.u.work.data, data, data_bytes);
    if (range_count != 0) memcpy(command.u.work.ranges, ranges, range_count * sizeof *ranges);
    command.u.work.range_count = range_count;
    return fake_submit(stream, &command);
}
