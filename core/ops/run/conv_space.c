/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of rows, images and volumes by a vendor: their transpose, and what training wants of
 * them.
 */
#include <string.h>

#include "ops/run/rows.h"
#include "ops/run/vendor.h"

static void describe(const dhowi_window3d *s, int64_t n, int64_t channels, int64_t results,
                     dhow_dtype dtype, dhow_dtype compute, dhow_conv_desc *d) {
    memset(d, 0, sizeof *d); /* layouts are plain: 0 */
    d->struct_size = (uint32_t)sizeof *d;
    d->dtype = d->weight_dtype = (int32_t)dtype;
    d->compute = (int32_t)compute;
    d->n = n, d->groups = s->groups;
    d->c = channels, d->h = s->in[1], d->w = s->in[2];
    d->k = results, d->kh = s->kernel[1], d->kw = s->kernel[2];
    for (int i = 0; i < 2; i++) {
        d->stride[i] = s->stride[1 + i];
        d->dilation[i] = s->dilation[1 + i];
        d->pad[i] = s->before[1 + i];
        d->pad[i + 2] = s->after[1 + i];
    }
    /* One plane from one plane is an image, but where the result lies in the padding before it. */
    if (s->in[0] > 1 || s->kernel[0] > 1 || s->out[0] > 1 || s->before[0] > 0) {
        d->depth = s->in[0], d->kd = s->kernel[0];
        d->stride_d = s->stride[0], d->dilation_d = s->dilation[0];
        d->pad_d[0] = s->before[0], d->pad_d[1] = s->after[0];
    }
}

static void transpose(const dhowi_window3d *s, dhow_conv_desc *d) {
    d->flags |= DHOW_CONV_TRANSPOSED;
    memcpy(d->out, s->out, sizeof d->out);
}

static dhow_dtype compute_of(const dhowi_call *call) {
    return dhowi_compute_in(call->inside, call->stream->device, call->in[0]->dtype);
}

/* What tables of the device's minor are asked for; *out is NULL otherwise as well. */
static dhow_status find_plan(dhow_device *device, uint32_t minor, const dhow_conv_desc *d,
                             const dhowi_vendor_plan **out) {
    const dhow_conv *table = dhowi_conv_of(device);
    *out = NULL;
    return table != NULL && table->minor >= minor ? dhowi_conv_plan(device, d, out) : DHOW_OK;
}

dhow_status dhowi_conv_in_space(const dhowi_call *call, bool transposed, bool *done) {
    const dhow_tensor *x = call->in[0], *weight = call->in[1];
    const dhowi_vendor_plan *plan;
    dhow_conv_desc d;
    describe(&call->attrs->space, x->shape[0], x->shape[1], call->out->shape[1], x->dtype,
             compute_of(call), &d);
    if (atomic_load_explicit(&weight->storage->frozen, memory_order_relaxed))
        d.flags |= DHOW_BLAS_CONSTANT_B;
    if (call->in[2] != NULL) d.flags |= DHOW_EPILOGUE_BIAS;
    if (transposed) transpose(&call->attrs->space, &d);
    DHOWI_TRY(find_plan(call->stream->device, 1, &d, &plan));
    *done = plan != NULL;
    if (plan == NULL) return DHOW_OK;
    dhow_status status = dhowi_vendor_plan_run(call->stream, plan, call->in[0], call->in[1],
                                               call->out, call->in[2], NULL);
    dhowi_vendor_plan_drop(plan);
    return status;
}

/* ---- derivatives ---- */

static dhow_status takes(dhow_device *device, uint32_t minor, const dhow_conv_desc *d, bool *out) {
    const dhowi_vendor_plan *plan;
    DHOWI_TRY(find_plan(device, minor, d, &plan));
    *out = plan != NULL;
    if (plan != NULL) dhowi_vendor_plan_drop(plan);
    return DHOW_OK;
}

dhow_status dhowi_conv_takes_transposed(dhow_device *device, const dhowi_window3d *space, int64_t n,
                                        int64_t channels, int64_t results, dhow_dtype dtype,
                                        dhowi_inside inside, bool *out) {
    dhow_conv_desc d;
    describe(space, n, channels, results, dtype, dhowi_compute_in(inside, device, dtype), &d);
    transpose(space, &d);
    return takes(device, 1, &d, out);
}

dhow_status dhowi_conv_takes_weight_gradient(dhow_device *device, const dhowi_window3d *space,
                                             int64_t n, int64_t channels, int64_t results,
                                             dhow_dtype dtype, dhowi_inside inside, bool *out) {
    dhow_conv_desc d;
    describe(space, n, channels, results, dtype, dhowi_compute_in(inside, device, dtype), &d);
    d.flags = DHOW_CONV_WEIGHT_GRADIENT;
    return takes(device, 2, &d, out);
}

/* dy and w, to dx: a transposed convolution of any float. */
dhow_status dhowi_run_conv_data_gradient(const dhowi_call *call) {
    bool done;
    DHOWI_TRY(dhowi_conv_in_space(call, true, &done));
    if (done) return DHOW_OK;
    return dhowi_fail(DHOW_INTERNAL, "conv: the plan for an image's derivative is gone");
}

/* x and dy, to dw. */
dhow_status dhowi_run_conv_weight_gradient(const dhowi_call *call) {
    const dhow_tensor *x = call->in[0], *dy = call->in[1];
    const dhowi_vendor_plan *plan;
    dhow_conv_desc d;
    describe(&call->attrs->space, x->shape[0], x->shape[1], dy->shape[1], x->dtype,
             compute_of(call), &d);
    d.flags = DHOW_CONV_WEIGHT_GRADIENT;
    DHOWI_TRY(find_plan(call->stream->device, 2, &d, &plan));
    if (plan == NULL)
        return dhowi_fail(DHOW_INTERNAL, "conv: the plan for a weight's derivative is gone");
    dhow_status status =
        dhowi_vendor_plan_run(call->stream, plan, call->in[0], call->in[1], call->out, NULL, NULL);
    dhowi_vendor_plan_drop(plan);
    return status;
}
