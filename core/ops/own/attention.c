/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, its caches, the join of its parts, and linear attention.
 */
#include <string.h>

#include "ops/own/own.h"

/* Strides of a tensor of up to four dimensions over a larger shape. */
static void broadcast_strides(const dhow_tensor *t, int64_t strides[4]) {
    const int32_t missing = 4 - t->rank;
    for (int32_t i = missing; i < 4; i++)
        strides[i] = t->shape[i - missing] == 1 ? 0 : t->strides[i - missing];
}

/* q[batch, heads, rows, depth], k[batch, shared, keys, depth], v[batch, shared, keys, features], a
 * mask that broadcasts to [batch, heads, rows, keys], or none, and of a cache the numbers of keys
 * [batch] and what splits come to, if it is split; the result is [batch, rows, heads, features].
 * `dims` stay as long as the launch. */
static void add_attention(dhowi_own_launch *l, const dhowi_call *call, dhow_tensor *part,
                          dhow_dims dims[2]) {
    enum { BATCH, HEAD, ROW, ELEMENT, RANK };
    const dhow_tensor *q = call->in[0], *k = call->in[1], *v = call->in[2], *y = call->out;
    const bool masked = call->in[3] != NULL;
    const int64_t heads = q->shape[HEAD];
    const int64_t shape[] = {q->shape[BATCH],  heads,         heads / k->shape[HEAD],
                             q->shape[ROW],    k->shape[ROW], q->shape[ELEMENT],
                             v->shape[ELEMENT]};
    const int64_t y_strides[] = {y->strides[0], y->strides[2], y->strides[1], y->strides[3]};
    dhow_dims *from = &dims[0], *to = &dims[1];
    *from = *to = (dhow_dims){.rank = RANK};
    memcpy(from->shape, shape, sizeof shape);
    for (int i = 0; i < 3; i++) {
        memcpy(from->stride[i], call->in[i]->strides, RANK * sizeof(int64_t));
        dhowi_add_tensor(l, call->in[i], DHOW_ACCESS_READ);
    }
    memcpy(to->stride[0], y_strides, sizeof y_strides);
    if (masked) broadcast_strides(call->in[3], to->stride[1]);
    dhowi_add_tensor(l, call->in[masked ? 3 : 0], DHOW_ACCESS_READ);
    if (call->in[4] != NULL) {
        dhowi_add_tensor(l, call->in[4], DHOW_ACCESS_READ);
        dhowi_add_tensor(l, part != NULL ? part : call->out, DHOW_ACCESS_WRITE);
    }
    dhowi_add_tensor(l, call->out, DHOW_ACCESS_WRITE);
    l->args[l->arg_count++] = dhowi_arg_dims(from);
    l->args[l->arg_count++] = dhowi_arg_dims(to);
}

/* attrs->split: alpha scales, flag[0] makes rows that see nothing 0. */
dhow_status dhowi_run_attention(const dhowi_call *call) {
    const dhowi_axis_split *r = &call->attrs->split;
    dhow_dims dims[2];
    dhowi_own_launch l = {0};
    add_attention(&l, call, NULL, dims);
    l.args[l.arg_count++] = dhowi_arg_f32(r->alpha);
    l.args[l.arg_count++] = dhowi_arg_i32(call->in[3] != NULL);
    l.args[l.arg_count++] = dhowi_arg_i32(r->flag[0]);
    return dhowi_run_own(call, &l, dhowi_work_of(call->out->count, call->in[1]->shape[2]));
}

/* How many groups share the keys of a head, see kernels/cache.k: by extents alone. */
static int64_t splits_of(const dhowi_call *call) {
    enum { GROUPS = 512, ROWS = 4, LEAST_KEYS = 64 };
    const int64_t *q = call->in[0]->shape, *k = call->in[1]->shape;
    const int64_t groups = q[0] * k[1] * dhowi_ceil_div(q[1] / k[1] * q[2], ROWS);
    const dhow_device *device = call->stream->device;
    if (dhowi_device_is_host(device) || !dhowi_splits_rows(device) || 2 * groups > GROUPS) return 1;
    return DHOWI_MIN(dhowi_ceil_div(GROUPS, groups), dhowi_ceil_div(k[2], LEAST_KEYS));
}

/* Splits become the result. */
static dhow_status join_splits(const dhowi_call *call, dhow_tensor *part, const dhow_dims dims[2],
                               int64_t splits) {
    dhow_kernel *kernel;
    dhowi_own_launch l = {0};
    DHOWI_TRY(dhowi_kernel_of(call->stream->device, "attention_join", call->out->dtype, &kernel));
    dhowi_add_tensor(&l, part, DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->in[4], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    l.args[l.arg_count++] = dhowi_arg_dims(&dims[0]);
    l.args[l.arg_count++] = dhowi_arg_dims(&dims[1]);
    l.args[l.arg_count++] = dhowi_arg_i32((int32_t)splits);
    l.args[l.arg_count++] = dhowi_arg_i32(call->attrs->split.flag[0]);
    return dhowi_run_launch(call, &l, kernel, part->count);
}

/* Further, beta caps scores and flag[1] lets rows see no later keys. */
dhow_status dhowi_run_attention_cache(const dhowi_call *call) {
    const dhowi_axis_split *r = &call->attrs->split;
    const int64_t *y = call->out->shape, splits = splits_of(call);
    const int64_t shape[] = {y[0] * y[1] * y[2], splits, 2 + y[3]};
    dhow_tensor *part = NULL;
    dhow_dims dims[2];
    dhowi_own_launch l = {0};
    if (splits > 1) DHOWI_TRY(dhowi_tensor_new(call->stream->device, DHOW_F32, 3, shape, &part));
    add_attention(&l, call, part, dims);
    l.args[l.arg_count++] = dhowi_arg_f32(r->alpha);
    l.args[l.arg_count++] = dhowi_arg_f32(r->beta);
    l.args[l.arg_count++] = dhowi_arg_i32(call->in[3] != NULL);
    l.args[l.arg_count++] = dhowi_arg_i32(r->flag[1]);
    l.args[l.arg_count++] = dhowi_arg_i32(r->flag[0]);
    l.args[l.arg_count++] = dhowi_arg_i32((int32_t)splits);
    dhow_status status =
        dhowi_run_own(call, &l, dhowi_work_of(call->out->count, call->in[1]->shape[2]));
    if (status == DHOW_OK && part != NULL) status = join_splits(call, part, dims, splits);
    dhow_tensor_release(part);
    return status;
}

/* q, k and v[batch, steps, heads, ..], and, where they are given, a state [batch, heads, depth,
 * features], factors that it is kept with [batch, steps, heads, 1 or depth] and shares of a
 * correction [batch, steps, heads]; attrs->split: alpha scales. */
dhow_status dhowi_run_linear_attention(const dhowi_call *call) {
    enum { BEGINS = 1, KEEPS = 2, BY_ROW = 4, CORRECTS = 8 }; /* of the kernel */
    static const int32_t given[] = {0, 0, 0, BEGINS, KEEPS, CORRECTS};
    const int64_t *q = call->in[0]->shape, *k = call->in[1]->shape, *v = call->in[2]->shape;
    int32_t flags = 0;
    dhowi_own_launch l = {0};
    for (int i = 0; i < 6; i++) {
        dhowi_add_tensor(&l, call->in[i] != NULL ? call->in[i] : call->in[0], DHOW_ACCESS_READ);
        if (call->in[i] != NULL) flags |= given[i];
    }
    if (call->in[4] != NULL && call->in[4]->shape[3] > 1) flags |= BY_ROW;
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    dhowi_add_tensor(&l, call->second, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, q[0], q[1], q[2], k[2], v[2], q[3], v[3]);
    l.args[l.arg_count++] = dhowi_arg_i32(flags);
    l.args[l.arg_count++] = dhowi_arg_f32(call->attrs->split.alpha);
    return dhowi_run_own(call, &l, dhowi_work_of(call->second->count, 4 * q[1]));
}

/* x[batch, channels, steps], weight[channels, 1, taps], and a bias [channels] and the steps before,
 * where they are given; attrs->split: `stride` is the dilation, flag[0] ends with SiLU. */
dhow_status dhowi_run_causal_conv(const dhowi_call *call) {
    enum { BEGINS = 1, BIASED = 2, SILU = 4 }; /* of the kernel */
    const dhowi_axis_split *r = &call->attrs->split;
    const int64_t *x = call->in[0]->shape, taps = call->in[1]->shape[2];
    int32_t flags = r->flag[0] != 0 ? SILU : 0;
    dhowi_own_launch l = {0};
    for (int i = 0; i < 4; i++)
        dhowi_add_tensor(&l, call->in[i] != NULL ? call->in[i] : call->in[0], DHOW_ACCESS_READ);
    if (call->in[2] != NULL) flags |= BIASED;
    if (call->in[3] != NULL) flags |= BEGINS;
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    dhowi_add_tensor(&l, call->second != NULL ? call->second : call->out, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, x[0], x[1], x[2], taps, r->stride);
    l.args[l.arg_count++] = dhowi_arg_i32(flags);
    return dhowi_run_own(call, &l, dhowi_work_of(call->out->count, taps + (flags & SILU) * 4));
}

/* x[batch, c, steps, inner] into out[batch, c, places, inner], from a place of each batch on;
 * attrs->split: flag[0] goes round. */
dhow_status dhowi_run_write_steps(const dhowi_call *call) {
    const dhow_tensor *x = call->in[0], *y = call->out;
    dhow_dims d = {.rank = 4};
    dhow_kernel *kernel;
    dhowi_own_launch l = {0};
    DHOWI_TRY(dhowi_width_kernel(call, "write_steps", &kernel));
    memcpy(d.shape, x->shape, 4 * sizeof *d.shape);
    memcpy(d.stride[0], x->strides, 4 * sizeof *d.shape);
    memcpy(d.stride[1], y->strides, 4 * sizeof *d.shape);
    dhowi_add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->in[1], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_READ | DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, x->count / x->shape[3], y->shape[2]);
    l.args[l.arg_count++] = dhowi_arg_i32(call->attrs->split.flag[0]);
    l.args[l.arg_count++] = dhowi_arg_dims(&d);
    return dhowi_run_launch(call, &l, kernel, x->count);
}
