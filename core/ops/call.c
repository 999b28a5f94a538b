/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of a call: tensors are checked against the row, strided ones made contiguous where
 * needed, then the row runs.
 */
#include <string.h>

#include "copy/engine.h"
#include "ops/run/op.h"

static dhow_status check_inputs(const dhowi_op *op, dhow_tensor *const *in, uint32_t count) {
    if (count < op->required || count > op->allowed) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %u inputs given", op->name, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (in[i] == NULL && i >= op->required) continue;
        DHOWI_TRY(dhowi_tensor_check_read(in[i], op->name, op->inputs[i]));
        if (i == 0 || dhowi_tensor_device(in[i]) == dhowi_tensor_device(in[0])) continue;
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: %s is on %s, %s on %s; move one with dhow_tensor_to", op->name,
                          op->inputs[0], dhowi_tensor_device(in[0])->name, op->inputs[i],
                          dhowi_tensor_device(in[i])->name);
    }
    return DHOW_OK;
}

static dhow_status check_output(const dhowi_op *op, dhow_tensor *const *in, dhow_tensor *out) {
    DHOWI_TRY(dhowi_tensor_check_write(out, op->name, "the output"));
    if (dhowi_tensor_device(in[0]) == dhowi_tensor_device(out)) return DHOW_OK;
    return dhowi_fail(
        DHOW_INVALID_ARGUMENT, "%s: %s is on %s, the output on %s; move one with dhow_tensor_to",
        op->name, op->inputs[0], dhowi_tensor_device(in[0])->name, dhowi_tensor_device(out)->name);
}

static bool fits(const dhowi_op *op, const dhowi_tensor_desc *want, const dhow_tensor *out,
                 const dhow_tensor *first, const dhowi_attrs *attrs) {
    if (want->dtype != out->dtype) return false;
    if (dhowi_shape_equal(want->rank, want->shape, out->rank, out->shape)) return true;
    if ((op->flags & DHOWI_OP_REDUCES) == 0 || out->rank != want->rank + 1) return false;
    int32_t dim = attrs->dim < 0 ? attrs->dim + first->rank : attrs->dim;
    for (int32_t i = 0; i < out->rank; i++) {
        if (out->shape[i] != (i == dim ? 1 : want->shape[i < dim ? i : i - 1])) return false;
    }
    return true;
}

static dhow_status check_specs(const dhowi_op *op, dhow_tensor *const *in, uint32_t count,
                               const dhowi_attrs *attrs, const dhow_tensor *out) {
    dhowi_tensor_desc descs[DHOWI_OP_MAX_INPUTS], want;
    const dhowi_tensor_desc *given[DHOWI_OP_MAX_INPUTS] = {NULL};
    for (uint32_t i = 0; i < count && i < DHOWI_OP_MAX_INPUTS; i++) {
        if (in[i] == NULL) continue;
        dhowi_desc_of(in[i], &descs[i]);
        given[i] = &descs[i];
    }
    DHOWI_TRY(dhowi_op_infer(op, given, attrs, &want));
    if (fits(op, &want, out, in[0], attrs)) return DHOW_OK;
    char a[160], b[192];
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the output is %s, the result is %s", op->name,
                      dhowi_tensor_text(out, b, sizeof b), dhowi_desc_text(&want, a, sizeof a));
}

static dhow_status check_aliasing(const dhowi_op *op, dhow_tensor *const *in, uint32_t count,
                                  const dhow_tensor *out) {
    for (uint32_t i = 0; i < count; i++) {
        if (in[i] == NULL || !dhowi_tensor_overlap(in[i], out)) continue;
        bool elementwise = (op->flags & DHOWI_OP_ELEMENTWISE) != 0;
        if (elementwise && dhowi_tensor_same(in[i], out)) continue;
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the output overlaps %s%s", op->name,
                          op->inputs[i],
                          elementwise ? "; exactly the same tensor would be allowed" : "");
    }
    return DHOW_OK;
}

static bool is_plain(const dhow_tensor *t, const dhow_device *device) {
    return t->contiguous && dhowi_tensor_offset_bytes(t) % device->desc.offset_align == 0;
}

/* Contiguous, well-placed copies of inputs that are not, and a temporary for such an output. */
static dhow_status run_packed(dhowi_call *call, uint32_t count) {
    dhow_device *device = call->stream->device;
    dhow_tensor *out = call->out, *temporary = NULL, *packed[DHOWI_OP_MAX_INPUTS] = {NULL};
    dhow_status status = DHOW_OK;
    for (uint32_t i = 0; i < count && status == DHOW_OK; i++) {
        dhow_tensor *t = call->in[i];
        if (t == NULL || is_plain(t, device)) continue;
        status = dhowi_tensor_new(device, t->dtype, t->rank, t->shape, &packed[i]);
        if (status == DHOW_OK) status = dhowi_copy_local(call->stream, t, packed[i], true);
        call->in[i] = packed[i];
    }
    if (status == DHOW_OK && !is_plain(out, device)) {
        status = dhowi_tensor_new(device, out->dtype, out->rank, out->shape, &temporary);
        call->out = temporary;
    }
    if (status == DHOW_OK) status = call->op->run(call);
    if (status == DHOW_OK && temporary != NULL)
        status = dhowi_copy_local(call->stream, temporary, out, true);
    for (uint32_t i = 0; i < count; i++) dhow_tensor_release(packed[i]);
    dhow_tensor_release(temporary);
    return status;
}

static bool all_plain(const dhowi_call *call, uint32_t count) {
    const dhow_device *device = call->stream->device;
    for (uint32_t i = 0; i < count; i++) {
        if (call->in[i] != NULL && !is_plain(call->in[i], device)) return false;
    }
    return is_plain(call->out, device);
}

dhow_status dhowi_op_run(const dhowi_call *call) {
    const bool strided = (call->op->flags & DHOWI_OP_STRIDED) != 0;
    for (uint32_t i = 0; i < DHOWI_OP_MAX_INPUTS && !strided; i++) {
        if (call->in[i] != NULL && !call->in[i]->contiguous)
            return dhowi_fail(DHOW_INTERNAL, "%s: input %u of a planned step is strided",
                              call->op->name, i);
    }
    return call->op->run(call);
}

dhow_status dhowi_op_call(dhowi_op_id id, dhow_stream *stream, dhow_tensor *const *in,
                          uint32_t count, const dhowi_attrs *attrs, dhow_tensor *out) {
    static const dhowi_attrs none;
    dhowi_call call = {.op = dhowi_op_of(id), .out = out, .attrs = attrs != NULL ? attrs : &none};
    DHOWI_TRY(check_inputs(call.op, in, count));
    DHOWI_TRY(check_output(call.op, in, out));
    DHOWI_TRY(dhowi_stream_resolve(stream, dhowi_tensor_device(out), call.op->name, &call.stream));
    DHOWI_TRY(check_specs(call.op, in, count, call.attrs, out));
    DHOWI_TRY(check_aliasing(call.op, in, count, out));
    if (out->count == 0) return DHOW_OK;
    for (uint32_t i = 0; i < count; i++) call.in[i] = in[i];
    if ((call.op->flags & DHOWI_OP_STRIDED) != 0 || all_plain(&call, count))
        return call.op->run(&call);
    return run_packed(&call, count);
}
