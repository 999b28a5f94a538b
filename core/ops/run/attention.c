/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention in one kernel, see kernels/matmul.k.
 */
#include <string.h>

#include "base/memory/size.h"
#include "ops/run/rows.h"

enum { BATCH, HEAD, ROW, ELEMENT, RANK };

/* Strides of a tensor of up to four dimensions over a larger shape. */
static void broadcast_strides(const dhow_tensor *t, int64_t *strides) {
    const int32_t missing = RANK - t->rank;
    for (int32_t i = missing; i < RANK; i++)
        strides[i] = t->shape[i - missing] == 1 ? 0 : t->strides[i - missing];
}

/* q[batch, heads, rows, depth], k[batch, shared, keys, depth], v[batch, shared, keys, features] and
 * a mask that broadcasts to [batch, heads, rows, keys], or none; the result is [batch, rows, heads,
 * features]. attrs->split: alpha scales, flag[0] makes rows that see nothing 0. */
dhow_status dhowi_run_attention(const dhowi_call *call) {
    const dhow_tensor *q = call->in[0], *k = call->in[1], *v = call->in[2], *y = call->out;
    dhow_tensor *mask = call->in[3] != NULL ? call->in[3] : call->in[0];
    const int64_t heads = q->shape[HEAD], rows = q->shape[ROW], keys = k->shape[ROW];
    dhow_dims from = {.rank = RANK}, to = {.rank = RANK};
    const int64_t shape[] = {
        q->shape[BATCH],  heads, heads / k->shape[HEAD], rows, keys, q->shape[ELEMENT],
        v->shape[ELEMENT]};
    dhow_kernel *kernel;
    dhow_arg args[10];
    dhowi_use uses[5];
    int64_t span = y->count;
    DHOWI_TRY(dhowi_op_kernel(call->op, q->dtype, call->stream->device, &kernel));
    memcpy(from.shape, shape, sizeof shape);
    for (int i = 0; i < 3; i++)
        memcpy(from.stride[i], call->in[i]->strides, RANK * sizeof(int64_t));
    const int64_t y_strides[] = {y->strides[0], y->strides[2], y->strides[1], y->strides[3]};
    memcpy(to.stride[0], y_strides, sizeof y_strides);
    if (call->in[3] != NULL) broadcast_strides(mask, to.stride[1]);
    dhow_tensor *const tensors[] = {call->in[0], call->in[1], call->in[2], mask, call->out};
    for (int i = 0; i < 5; i++) {
        const uint32_t access = i < 4 ? DHOW_ACCESS_READ : DHOW_ACCESS_WRITE;
        args[i] = dhowi_arg_buffer(tensors[i], access);
        uses[i] = (dhowi_use){tensors[i]->storage, access};
        span = DHOWI_MAX(span, dhowi_span_of(tensors[i]));
    }
    args[5] = dhowi_arg_dims(&from);
    args[6] = dhowi_arg_dims(&to);
    args[7] = dhowi_arg_f32(call->attrs->split.alpha);
    args[8] = dhowi_arg_i32(call->in[3] != NULL);
    args[9] = dhowi_arg_i32(call->attrs->split.flag[0]);
    const int64_t work = DHOWI_MAX(y->count, 1) * DHOWI_MAX(keys, 1); /* and as much for scores */
    return dhowi_launch(call->stream, kernel, work, span, args, 10, uses, 5);
}
