/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations along rows and dimensions: softmax, layer normalisation, reductions, gather, flatten.
 */
#include "ops/run/rows.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/size.h"
#include "copy/engine.h"

/* ---- shapes ---- */

dhow_status dhowi_infer_rows(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                             const dhowi_attrs *attrs, dhowi_tensor_desc *out) {
    int32_t dim;
    DHOWI_TRY(dhowi_dim_check(op->name, in[0]->rank, attrs->dim, &dim));
    *out = *in[0];
    return DHOW_OK;
}

dhow_status dhowi_infer_layernorm(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                                  const dhowi_attrs *attrs, dhowi_tensor_desc *out) {
    (void)attrs;
    const dhowi_tensor_desc *x = in[0];
    for (int i = 1; i <= 2; i++) {
        bool fits = x->rank > 0 && in[i]->rank == 1 && in[i]->shape[0] == x->shape[x->rank - 1] &&
                    in[i]->dtype == x->dtype;
        char a[160], b[160];
        if (!fits) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "layernorm: x is %s, %s is %s; it needs x's last extent and dtype",
                              dhowi_desc_text(x, a, sizeof a), op->inputs[i],
                              dhowi_desc_text(in[i], b, sizeof b));
        }
    }
    *out = *x;
    return DHOW_OK;
}

dhow_status dhowi_infer_reduce(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                               const dhowi_attrs *attrs, dhowi_tensor_desc *out) {
    int32_t dim;
    DHOWI_TRY(dhowi_dim_check(op->name, in[0]->rank, attrs->dim, &dim));
    bool sums = strcmp(op->kernel, "reduce_sum") == 0 || strcmp(op->kernel, "reduce_prod") == 0;
    if (in[0]->shape[dim] == 0 && !sums) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: dimension %d of x has no elements", op->name,
                          dim);
    }
    out->dtype = in[0]->dtype;
    out->rank = 0;
    for (int32_t i = 0; i < in[0]->rank; i++) {
        if (i != dim) out->shape[out->rank++] = in[0]->shape[i];
    }
    return DHOW_OK;
}

dhow_status dhowi_infer_argmax(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                               const dhowi_attrs *attrs, dhowi_tensor_desc *out) {
    DHOWI_TRY(dhowi_infer_reduce(op, in, attrs, out));
    out->dtype = DHOW_I64;
    return DHOW_OK;
}

dhow_status dhowi_infer_gather(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                               const dhowi_attrs *attrs, dhowi_tensor_desc *out) {
    (void)attrs;
    char a[160], b[160];
    if (in[0]->rank < 1 || in[1]->rank != 1 || in[1]->dtype != DHOW_I64) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: x is %s, index is %s; x needs a dimension and index is i64[count]",
                          op->name, dhowi_desc_text(in[0], a, sizeof a),
                          dhowi_desc_text(in[1], b, sizeof b));
    }
    *out = *in[0];
    out->shape[0] = in[1]->shape[0];
    return DHOW_OK;
}

dhow_status dhowi_infer_flatten(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                                const dhowi_attrs *attrs, dhowi_tensor_desc *out) {
    int32_t dim;
    DHOWI_TRY(dhowi_dim_check(op->name, in[0]->rank, attrs->dim, &dim));
    int64_t joined = 1;
    char text[160];
    for (int32_t i = dim; i < in[0]->rank; i++) {
        /* An open extent stays open. */
        if (joined < 0 || in[0]->shape[i] < 0)
            joined = -1;
        else if (__builtin_mul_overflow(joined, in[0]->shape[i], &joined))
            return dhowi_fail(DHOW_OUT_OF_RANGE,
                              "%s: x is %s; dimensions %d to %d have more elements "
                              "than an address holds",
                              op->name, dhowi_desc_text(in[0], text, sizeof text), dim,
                              in[0]->rank - 1);
    }
    *out = *in[0];
    out->rank = dim + 1;
    out->shape[dim] = joined;
    return DHOW_OK;
}

/* ---- running ---- */

static dhow_status run_rows(const dhowi_call *call, dhow_tensor *x, dhow_tensor *y, int64_t cols) {
    dhow_kernel *kernel;
    DHOWI_TRY(dhowi_op_kernel(call->op, x->dtype, call->stream->device, &kernel));
    const dhow_arg args[] = {dhowi_arg_buffer(x, DHOW_ACCESS_READ),
                             dhowi_arg_buffer(y, DHOW_ACCESS_WRITE), dhowi_arg_i64(x->count / cols),
                             dhowi_arg_i64(cols)};
    const dhowi_use uses[] = {{x->storage, DHOW_ACCESS_READ}, dhowi_use_of(y, DHOW_ACCESS_WRITE)};
    return dhowi_launch(call->stream, kernel, x->count, x->count, args, 4, uses, 2);
}

/* Along another than the last dimension: swapped to the end, computed, swapped back. */
static dhow_status run_rows_across(const dhowi_call *call, int32_t dim) {
    dhow_tensor *x = NULL, *y = NULL, *packed = NULL, *result = NULL;
    dhow_status status = dhow_tensor_transpose(call->in[0], dim, -1, &x);
    if (status == DHOW_OK) status = dhow_tensor_transpose(call->out, dim, -1, &y);
    if (status == DHOW_OK) status = dhow_tensor_contiguous(call->stream, x, &packed);
    if (status == DHOW_OK)
        status = dhowi_tensor_new(call->stream->device, x->dtype, x->rank, x->shape, &result);
    if (status == DHOW_OK) status = run_rows(call, packed, result, x->shape[x->rank - 1]);
    if (status == DHOW_OK) status = dhowi_copy_local(call->stream, result, y, true);
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    dhow_tensor_release(packed);
    dhow_tensor_release(result);
    return status;
}

dhow_status dhowi_run_softmax(const dhowi_call *call) {
    int32_t dim, rank = call->in[0]->rank;
    DHOWI_TRY(dhowi_dim_check(call->op->name, rank, call->attrs->dim, &dim));
    if (dim != rank - 1) return run_rows_across(call, dim);
    return run_rows(call, call->in[0], call->out, call->in[0]->shape[dim]);
}

dhow_status dhowi_run_layernorm(const dhowi_call *call) {
    dhow_tensor *x = call->in[0], *gamma = call->in[1], *beta = call->in[2], *y = call->out;
    dhow_kernel *kernel;
    int64_t cols = x->shape[x->rank - 1];
    DHOWI_TRY(dhowi_op_kernel(call->op, x->dtype, call->stream->device, &kernel));
    const dhow_arg args[] = {
        dhowi_arg_buffer(x, DHOW_ACCESS_READ),    dhowi_arg_buffer(gamma, DHOW_ACCESS_READ),
        dhowi_arg_buffer(beta, DHOW_ACCESS_READ), dhowi_arg_buffer(y, DHOW_ACCESS_WRITE),
        dhowi_arg_i64(x->count / cols),           dhowi_arg_i64(cols),
        dhowi_arg_f32(call->attrs->eps)};
    const dhowi_use uses[] = {{x->storage, DHOW_ACCESS_READ},
                              {gamma->storage, DHOW_ACCESS_READ},
                              {beta->storage, DHOW_ACCESS_READ},
                              dhowi_use_of(y, DHOW_ACCESS_WRITE)};
    return dhowi_launch(call->stream, kernel, x->count, x->count, args, 7, uses, 4);
}

/* x as [outer][n][inner] around a dimension. */
typedef struct split {
    int64_t outer, n, inner;
} split;

static dhow_status split_at(const dhowi_call *call, split *s) {
    const dhow_tensor *x = call->in[0];
    int32_t dim;
    DHOWI_TRY(dhowi_dim_check(call->op->name, x->rank, call->attrs->dim, &dim));
    s->outer = s->inner = 1;
    s->n = x->shape[dim];
    for (int32_t i = 0; i < dim; i++) s->outer *= x->shape[i];
    for (int32_t i = dim + 1; i < x->rank; i++) s->inner *= x->shape[i];
    return DHOW_OK;
}

static dhow_status launch_reduction(const dhowi_call *call, bool scaled, float scale) {
    dhow_tensor *x = call->in[0], *y = call->out;
    dhow_kernel *kernel;
    split s;
    DHOWI_TRY(split_at(call, &s));
    DHOWI_TRY(dhowi_op_kernel(call->op, x->dtype, call->stream->device, &kernel));
    const dhow_arg args[] = {dhowi_arg_buffer(x, DHOW_ACCESS_READ),
                             dhowi_arg_buffer(y, DHOW_ACCESS_WRITE),
                             dhowi_arg_i64(s.outer),
                             dhowi_arg_i64(s.n),
                             dhowi_arg_i64(s.inner),
                             dhowi_arg_f32(scale)};
    const dhowi_use uses[] = {{x->storage, DHOW_ACCESS_READ}, dhowi_use_of(y, DHOW_ACCESS_WRITE)};
    int64_t work = DHOWI_MAX(x->count, y->count);
    return dhowi_launch(call->stream, kernel, work, work, args, scaled ? 6 : 5, uses, 2);
}

static dhow_status divide_output(const dhowi_call *call, int64_t n) {
    dhow_tensor *divisor;
    DHOWI_TRY(dhowi_tensor_new(call->stream->device, DHOW_F64, 0, NULL, &divisor));
    dhow_status status =
        dhowi_fill_bits(call->stream, divisor, dhowi_dtype_encode(DHOW_F64, (double)n));
    if (status == DHOW_OK) status = dhowi_divide_by(call->stream, call->out, divisor);
    dhow_tensor_release(divisor);
    return status;
}

dhow_status dhowi_run_reduce(const dhowi_call *call) {
    split s;
    DHOWI_TRY(split_at(call, &s));
    bool mean = (call->op->flags & DHOWI_OP_MEAN) != 0;
    if (mean && call->out->dtype == DHOW_F64) { /* the kernel's scale is an f32 */
        DHOWI_TRY(launch_reduction(call, true, 1.0f));
        return divide_output(call, s.n);
    }
    return launch_reduction(call, true, mean ? 1.0f / (float)s.n : 1.0f);
}

dhow_status dhowi_run_argmax(const dhowi_call *call) { return launch_reduction(call, false, 0); }

dhow_status dhowi_run_gather(const dhowi_call *call) {
    dhow_tensor *x = call->in[0], *index = call->in[1], *y = call->out;
    uint32_t bytes = dhowi_tensor_element_bytes(x);
    char name[32];
    dhow_kernel *kernel;
    (void)snprintf(name, sizeof name, "gather_rows_u%u", bytes * 8);
    DHOWI_TRY(dhowi_builtin_kernel_named(call->stream->device, name, &kernel));
    int64_t cols = y->count / y->shape[0];
    const dhow_arg args[] = {dhowi_arg_buffer(x, DHOW_ACCESS_READ),
                             dhowi_arg_buffer(index, DHOW_ACCESS_READ),
                             dhowi_arg_buffer(y, DHOW_ACCESS_WRITE),
                             dhowi_arg_i64(x->shape[0]),
                             dhowi_arg_i64(cols),
                             dhowi_arg_i64(y->shape[0])};
    const dhowi_use uses[] = {{x->storage, DHOW_ACCESS_READ},
                              {index->storage, DHOW_ACCESS_READ},
                              dhowi_use_of(y, DHOW_ACCESS_WRITE)};
    return dhowi_launch(call->stream, kernel, y->count, DHOWI_MAX(x->count, y->count), args, 6,
                        uses, 3);
}

dhow_status dhowi_run_flatten(const dhowi_call *call) {
    dhow_tensor *view = NULL;
    /* Both sides see the elements in the same order; the shapes differ. */
    dhow_status status =
        dhow_tensor_reshape(call->out, call->in[0]->rank, call->in[0]->shape, &view);
    if (status == DHOW_OK) status = dhowi_copy_local(call->stream, call->in[0], view, true);
    dhow_tensor_release(view);
    return status;
}
