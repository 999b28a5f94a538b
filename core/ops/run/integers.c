/* SPDX-License-Identifier: Apache-2.0
 *
 * Products and convolutions of bytes, which a vendor's library adds up as integers.
 */
#include <string.h>

#include "base/memory/size.h"
#include "copy/engine.h"
#include "ops/run/rows.h"
#include "ops/run/vendor.h"

/* ---- products ---- */

/* Row-major, one matrix each. */
static dhow_status plan_integers(dhow_device *device, dhow_dtype dtype, int64_t m, int64_t k,
                                 int64_t n, bool constant, const dhowi_vendor_plan **out) {
    const dhow_blas *table = dhowi_blas_of(device);
    dhow_blas_desc d;
    *out = NULL;
    if (table == NULL || table->minor < 1 || m == 0 || k == 0 || n == 0) return DHOW_OK;
    memset(&d, 0, sizeof d);
    d.struct_size = (uint32_t)sizeof d;
    d.flags = constant ? DHOW_BLAS_CONSTANT_B : 0u;
    d.dtype_a = (int32_t)dtype;
    d.dtype_b = DHOW_I8;
    d.dtype_c = DHOW_I32;
    d.compute = DHOW_I32;
    d.m = m, d.n = n, d.k = k, d.batch = 1;
    d.lda = k, d.ldb = n, d.ldc = n;
    d.alpha = 1;
    return dhowi_blas_plan(device, &d, out);
}

dhow_status dhowi_takes_integers(dhow_device *device, dhow_dtype dtype, int64_t m, int64_t k,
                                 int64_t n, bool *out) {
    const dhowi_vendor_plan *plan;
    DHOWI_TRY(plan_integers(device, dtype, m, k, n, true, &plan));
    *out = plan != NULL;
    if (plan != NULL) dhowi_vendor_plan_drop(plan);
    return DHOW_OK;
}

dhow_status dhowi_run_matmul_integer(const dhowi_call *call) {
    dhow_tensor *x = call->in[0], *w = call->in[1];
    const int64_t k = w->shape[0];
    const dhowi_vendor_plan *plan;
    DHOWI_TRY(plan_integers(call->stream->device, x->dtype, x->count / k, k, w->shape[1],
                            atomic_load_explicit(&w->storage->frozen, memory_order_relaxed),
                            &plan));
    if (plan == NULL)
        return dhowi_fail(DHOW_INTERNAL, "matmul: the plan for sums of integers is gone");
    dhow_status status = dhowi_vendor_plan_run(call->stream, plan, x, w, call->out, NULL, NULL);
    dhowi_vendor_plan_drop(plan);
    return status;
}

/* ---- convolutions ---- */

/* x and y are [n, c, h, w]. */
static dhow_status describe(const dhowi_tensor_desc *x, const dhowi_tensor_desc *weight,
                            const dhowi_sums *sums, dhow_dtype dtype, const dhow_dtype *residual,
                            dhow_conv_desc *d) {
    dhow_window window;
    DHOWI_TRY(
        dhowi_window_check("conv2d", &sums->window, weight->shape[2], weight->shape[3], &window));
    memset(d, 0, sizeof *d);
    d->struct_size = (uint32_t)sizeof *d;
    d->dtype = (int32_t)x->dtype;
    d->weight_dtype = (int32_t)weight->dtype;
    d->compute = DHOW_I32;
    d->dst_dtype = (int32_t)dtype;
    d->flags = DHOW_BLAS_CONSTANT_B | (dtype != DHOW_I32 ? DHOW_EPILOGUE_BIAS : 0u) |
               (residual != NULL ? DHOW_EPILOGUE_RESIDUAL : 0u) |
               (sums->zero_given ? DHOW_CONV_ZERO_GIVEN : 0u);
    d->residual_dtype = residual != NULL ? (int32_t)*residual : 0;
    d->src_layout = d->dst_layout = DHOW_LAYOUT_NHWC;
    d->n = x->shape[0], d->c = x->shape[1], d->h = x->shape[2], d->w = x->shape[3];
    d->k = weight->shape[0], d->kh = weight->shape[2], d->kw = weight->shape[3];
    d->groups = window.groups;
    memcpy(d->stride, window.stride, sizeof d->stride);
    memcpy(d->dilation, window.dilation, sizeof d->dilation);
    memcpy(d->pad, window.pad, sizeof d->pad);
    d->src_zero = sums->src_zero;
    d->tail_count = sums->tail_count;
    memcpy(d->tail, sums->tail, sums->tail_count * sizeof *d->tail);
    return DHOW_OK;
}

static dhow_status find_plan(dhow_device *device, const dhow_conv_desc *d,
                             const dhowi_vendor_plan **out) {
    const dhow_conv *table = dhowi_conv_of(device);
    const uint32_t minor = d->weight_dtype == DHOW_I16              ? 8
                           : (d->flags & DHOW_CONV_ZERO_GIVEN) == 0 ? 4
                           : d->dst_dtype == DHOW_I32               ? 6
                                                                    : 7;
    *out = NULL;
    return table != NULL && table->minor >= minor ? dhowi_conv_plan(device, d, out) : DHOW_OK;
}

dhow_status dhowi_convolves_integers(dhow_device *device, const dhowi_tensor_desc *x,
                                     const dhowi_tensor_desc *weight, const dhowi_sums *sums,
                                     dhow_dtype dtype, const dhow_dtype *residual, bool *out) {
    dhow_conv_desc d;
    const dhowi_vendor_plan *plan;
    DHOWI_TRY(describe(x, weight, sums, dtype, residual, &d));
    DHOWI_TRY(find_plan(device, &d, &plan));
    *out = plan != NULL;
    if (plan != NULL) dhowi_vendor_plan_drop(plan);
    return DHOW_OK;
}

/* The image [n, c, h, w] with its channels last. */
static dhow_status turned(dhow_tensor *t, dhow_tensor **out) {
    static const int order[] = {0, 2, 3, 1};
    int64_t shape[4], strides[4];
    for (int i = 0; i < 4; i++) {
        shape[i] = t->shape[order[i]];
        strides[i] = t->strides[order[i]];
    }
    return dhowi_tensor_view(t->storage, t->dtype, 4, shape, strides, t->offset, out);
}

/* A copy of an image with its channels last, or room for one where `copied` is false. */
static dhow_status channels_last(dhow_stream *stream, dhow_tensor *t, bool copied,
                                 dhow_tensor **out) {
    dhow_tensor *view;
    *out = NULL;
    if (t == NULL) return DHOW_OK;
    DHOWI_TRY(turned(t, &view));
    dhow_status status = dhowi_tensor_new(stream->device, t->dtype, 4, view->shape, out);
    if (status == DHOW_OK && copied) status = dhowi_copy_local(stream, view, *out, true);
    dhow_tensor_release(view);
    return status;
}

static dhow_status copy_back(dhow_stream *stream, dhow_tensor *from, dhow_tensor *to) {
    dhow_tensor *view;
    DHOWI_TRY(turned(to, &view));
    dhow_status status = dhowi_copy_local(stream, from, view, true);
    dhow_tensor_release(view);
    return status;
}

/* On plain images. */
static dhow_status run_turned(const dhowi_call *call, const dhowi_vendor_plan *plan) {
    dhow_tensor *x = NULL, *residual = NULL, *y = NULL;
    dhow_status status = channels_last(call->stream, call->in[0], true, &x);
    if (status == DHOW_OK) status = channels_last(call->stream, call->in[3], true, &residual);
    if (status == DHOW_OK) status = channels_last(call->stream, call->out, false, &y);
    if (status == DHOW_OK)
        status =
            dhowi_vendor_plan_run(call->stream, plan, x, call->in[1], y, call->in[2], residual);
    if (status == DHOW_OK) status = copy_back(call->stream, y, call->out);
    dhow_tensor_release(x);
    dhow_tensor_release(residual);
    dhow_tensor_release(y);
    return status;
}

/* Images of rank 5 have their channels last: [n, 1, h, w, c]. */
dhow_status dhowi_run_conv2d_integer(const dhowi_call *call) {
    const dhow_tensor *weight = call->in[1], *residual = call->in[3];
    const bool last = call->in[0]->rank == 5;
    dhowi_tensor_desc x, w;
    dhow_conv_desc d;
    const dhowi_vendor_plan *plan;
    dhowi_desc_of(call->in[0], &x);
    dhowi_desc_of(weight, &w);
    if (last) x.shape[1] = x.shape[4];
    DHOWI_TRY(describe(&x, &w, &call->attrs->sums, call->out->dtype,
                       residual != NULL ? &residual->dtype : NULL, &d));
    DHOWI_TRY(find_plan(call->stream->device, &d, &plan));
    if (plan == NULL)
        return dhowi_fail(DHOW_INTERNAL, "conv2d: the plan for sums of integers is gone");
    dhow_status status = last ? dhowi_vendor_plan_run(call->stream, plan, call->in[0], call->in[1],
                                                      call->out, call->in[2], call->in[3])
                              : run_turned(call, plan);
    dhowi_vendor_plan_drop(plan);
    return status;
}

dhowi_tensor_desc dhowi_image_of_rows(dhow_dtype dtype, int64_t count, int64_t terms) {
    return (dhowi_tensor_desc){.dtype = dtype, .rank = 4, .shape = {1, terms, 1, count / terms}};
}

/* x[..., m, k] by weight[n, k, 1, 1]: rows of x lie as pixels with their channels last. */
dhow_status dhowi_run_matmul_codes(const dhowi_call *call) {
    const dhow_tensor *residual = call->attrs->sums.zero_given ? NULL : call->in[3];
    const dhowi_tensor_desc x =
        dhowi_image_of_rows(call->in[0]->dtype, call->in[0]->count, call->in[1]->shape[1]);
    dhowi_tensor_desc w;
    dhow_conv_desc d;
    const dhowi_vendor_plan *plan;
    dhowi_desc_of(call->in[1], &w);
    DHOWI_TRY(describe(&x, &w, &call->attrs->sums, call->out->dtype,
                       residual != NULL ? &residual->dtype : NULL, &d));
    DHOWI_TRY(find_plan(call->stream->device, &d, &plan));
    if (plan == NULL)
        return dhowi_fail(DHOW_INTERNAL, "matmul: the plan for sums of integers is gone");
    dhow_status status = dhowi_vendor_plan_run(call->stream, plan, call->in[0], call->in[1],
                                               call->out, call->in[2], call->in[3]);
    dhowi_vendor_plan_drop(plan);
    return status;
}
