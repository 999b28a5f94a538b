/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps that the CPU computes for a device that lacks their kernel, where the caller has allowed
 * it: what they read is copied to the host, what they write back, inside the plan.
 */
#include <string.h>

#include "copy/engine.h"
#include "model/plan/plan.h"

/* Everything a host step needs in each run; lives in the recorder's memory, its tensors as items of
 * the lowering. */
typedef struct host_step {
    dhowi_host_work work;
    dhowi_call call;
    dhowi_attrs attrs;
} host_step;

static dhow_status run_on_host(void *user) {
    host_step *h = user;
    return dhowi_op_run(&h->call);
}

/* A host tensor for one of the device, kept by the lowering. */
static dhow_status host_tensor(dhowi_lowering *b, const dhow_tensor *like, dhow_tensor **out) {
    int32_t item;
    dhow_device *cpu = b->model->context->cpu;
    DHOWI_TRY(dhowi_take_memory(b, dhowi_tensor_bytes(like), "a copy for the CPU"));
    DHOWI_TRY(dhowi_tensor_new(cpu, like->dtype, like->rank, like->shape, out));
    dhow_status status = dhowi_known(b, *out, -1, &item);
    dhow_tensor_release(*out);
    return status;
}

static dhow_status add_buffer(dhowi_lowering *b, host_step *h, int at, uint32_t access,
                              dhow_tensor *device, dhow_tensor **host, dhow_buffer *buffers,
                              uint64_t *copied) {
    void *data;
    DHOWI_TRY(host_tensor(b, device, host));
    DHOWI_TRY(dhow_tensor_host_ptr(*host, &data));
    h->work.memory[at] = data;
    h->work.bytes[at] = dhowi_tensor_bytes(device);
    h->work.access[at] = access;
    buffers[at] = (dhow_buffer){device->storage->native, dhowi_tensor_offset_bytes(device)};
    *copied += h->work.bytes[at];
    return DHOW_OK;
}

/* A dense tensor of the device with the same values, or that is copied from afterwards. */
static dhow_status dense_form(dhow_stream *stream, dhow_tensor *t, bool filled, dhow_tensor **out) {
    if (t->contiguous) {
        dhowi_handle_retain(&t->handle);
        *out = t;
        return DHOW_OK;
    }
    DHOWI_TRY(dhowi_tensor_new(stream->device, t->dtype, t->rank, t->shape, out));
    return filled ? dhowi_copy_local(stream, t, *out, true) : DHOW_OK;
}

dhow_status dhowi_record_on_host(dhowi_segment *seg, dhow_stream *stream, dhowi_lowering *b,
                                 dhowi_step *s, dhowi_call *call, uint64_t *copied) {
    enum { OUT = 4, SECOND = 5 };
    dhow_buffer buffers[6] = {{0, 0}};
    dhow_tensor *dense[6] = {NULL};
    host_step *h = dhowi_arena_array(&seg->recorder.memory, 1, sizeof *h);
    if (h == NULL) return dhowi_fail_memory("plan");
    h->attrs = s->attrs;
    h->call = (dhowi_call){.op = call->op, .attrs = &h->attrs};
    h->work.run = run_on_host;
    h->work.user = h;
    dhow_status status = dhowi_stream_default(b->model->context->cpu, &h->call.stream);
    for (int i = 0; i < OUT && status == DHOW_OK; i++) {
        if (call->in[i] == NULL) continue;
        if (dhowi_tensor_device(call->in[i]) != stream->device) { /* known: the CPU has it */
            h->call.in[i] = call->in[i];
            continue;
        }
        status = dense_form(stream, call->in[i], true, &dense[i]);
        if (status == DHOW_OK)
            status =
                add_buffer(b, h, i, DHOW_ACCESS_READ, dense[i], &h->call.in[i], buffers, copied);
    }
    /* Parts of a result that others write must survive: it is read as well. */
    const uint32_t both = DHOW_ACCESS_READ | DHOW_ACCESS_WRITE;
    if (status == DHOW_OK) status = dense_form(stream, call->out, true, &dense[OUT]);
    if (status == DHOW_OK)
        status = add_buffer(b, h, OUT, both, dense[OUT], &h->call.out, buffers, copied);
    if (status == DHOW_OK && call->second != NULL) {
        status = dense_form(stream, call->second, false, &dense[SECOND]);
        if (status == DHOW_OK)
            status = add_buffer(b, h, SECOND, DHOW_ACCESS_WRITE, dense[SECOND], &h->call.second,
                                buffers, copied);
    }
    if (status == DHOW_OK) status = dhowi_record_host(&seg->recorder, &h->work, buffers);
    if (status == DHOW_OK && dense[OUT] != call->out)
        status = dhowi_copy_local(stream, dense[OUT], call->out, true);
    for (int i = 0; i < 6; i++) dhow_tensor_release(dense[i]);
    return status;
}
