/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution and pooling of images.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/size.h"
#include "kernel/optimise.h"
#include "ops/run/rows.h"
#include "ops/run/vendor.h"

enum { MAX_WINDOW = 1 << 24 }; /* keeps all index arithmetic far from overflow */

dhow_status dhowi_window_check(const char *op, const dhow_window *window, int64_t kernel_h,
                               int64_t kernel_w, dhow_window *out) {
    *out = *window;
    out->kernel[0] = kernel_h;
    out->kernel[1] = kernel_w;
    if (out->groups == 0) out->groups = 1;
    for (int i = 0; i < 2; i++) {
        if (out->stride[i] == 0) out->stride[i] = 1;
        if (out->dilation[i] == 0) out->dilation[i] = 1;
        if (out->kernel[i] < 1 || out->stride[i] < 1 || out->dilation[i] < 1 ||
            out->kernel[i] > MAX_WINDOW || out->stride[i] > MAX_WINDOW ||
            out->dilation[i] > MAX_WINDOW) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: kernel, stride and dilation lie between 1 and %d", op,
                              MAX_WINDOW);
        }
    }
    for (int i = 0; i < 4; i++) {
        if (out->pad[i] < 0 || out->pad[i] > MAX_WINDOW) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: padding lies between 0 and %d", op,
                              MAX_WINDOW);
        }
    }
    if (out->groups < 1)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: groups is %" PRId64, op, out->groups);
    return DHOW_OK;
}

/* Output extent of one direction, -1 when the window does not fit, open when the input is. */
static int64_t output_extent(const dhow_window *w, int i, int64_t extent) {
    int64_t padded = extent + w->pad[i] + w->pad[i + 2],
            reach = w->dilation[i] * (w->kernel[i] - 1) + 1;
    return padded < reach ? -1 : (padded - reach) / w->stride[i] + 1;
}

static dhow_status infer_window(const dhowi_op *op, const dhowi_tensor_desc *x,
                                const dhow_window *w, int64_t channels, dhowi_tensor_desc *out) {
    *out = *x;
    out->shape[1] = channels;
    for (int i = 0; i < 2; i++) {
        if (x->shape[2 + i] < 0) continue;
        out->shape[2 + i] = output_extent(w, i, x->shape[2 + i]);
        if (out->shape[2 + i] < 0) {
            char text[160];
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: the window %" PRId64 "x%" PRId64 " does not fit x, %s", op->name,
                              w->kernel[0], w->kernel[1], dhowi_desc_text(x, text, sizeof text));
        }
    }
    return DHOW_OK;
}

dhow_status dhowi_infer_conv2d(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                               const dhowi_attrs *attrs, dhowi_tensor_desc *out) {
    const dhowi_tensor_desc *x = in[0], *w = in[1], *bias = in[2];
    dhow_window window;
    char a[160], b[160];
    if (x->rank == 4 && w->rank == 4) {
        DHOWI_TRY(dhowi_window_check(op->name, &attrs->window, w->shape[2], w->shape[3], &window));
        bool fits = x->dtype == w->dtype && w->shape[0] % window.groups == 0 &&
                    x->shape[1] == w->shape[1] * window.groups;
        if (fits && bias != NULL)
            fits = bias->rank == 1 && bias->shape[0] == w->shape[0] && bias->dtype == x->dtype;
        if (fits) return infer_window(op, x, &window, w->shape[0], out);
    }
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "conv2d: x is %s, weight is %s; x[n, c, h, w], weight[k, c/groups, kh, kw] "
                      "and bias[k] of one "
                      "dtype fit",
                      dhowi_desc_text(x, a, sizeof a), dhowi_desc_text(w, b, sizeof b));
}

dhow_status dhowi_infer_pool2d(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                               const dhowi_attrs *attrs, dhowi_tensor_desc *out) {
    const dhowi_tensor_desc *x = in[0];
    dhow_window window;
    char text[160];
    if (x->rank != 4) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: x is %s; x[n, c, h, w] fits", op->name,
                          dhowi_desc_text(x, text, sizeof text));
    }
    DHOWI_TRY(dhowi_window_check(op->name, &attrs->window, attrs->window.kernel[0],
                                 attrs->window.kernel[1], &window));
    if (window.dilation[0] != 1 || window.dilation[1] != 1 || window.groups != 1) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: dilation and groups belong to conv2d",
                          op->name);
    }
    for (int i = 0; i < 4; i++) { /* a window of padding alone would have no value */
        if (window.pad[i] >= window.kernel[i % 2]) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: padding %" PRId64 " is not smaller than the window %" PRId64,
                              op->name, window.pad[i], window.kernel[i % 2]);
        }
    }
    return infer_window(op, x, &window, x->shape[1], out);
}

/* ---- convolution ---- */

/* [n, c, h, w], or [n, c/b, h, w, b] with channels in blocks of b, which only a vendor's plan
 * takes. The shape alone does not tell one block of all channels from NHWC, and plans are for one.
 */
static uint32_t layout_of(const dhow_tensor *t, const dhowi_attrs *attrs) {
    return t->rank == 5 ? attrs->layout : DHOW_LAYOUT_NCHW;
}

static void end_with(const dhowi_activation *activation, dhow_conv_desc *d) {
    d->activation = activation->kind;
    d->activation_alpha = activation->alpha;
    d->activation_beta = activation->beta;
}

static void start_with(const dhowi_activation *activation, dhow_conv_desc *d) {
    d->src_activation = activation->kind;
    d->src_activation_alpha = activation->alpha;
    d->src_activation_beta = activation->beta;
}

/* x[n][c][h][w] and weight[k][c/groups][kh][kw] of a type, in layouts of either kind. `flags` are
 * those of the operands. */
static void describe(dhow_device *device, dhow_dtype dtype, const int64_t *x, const int64_t *weight,
                     const dhow_window *w, const dhowi_attrs *attrs, dhowi_inside inside,
                     uint32_t flags, dhow_conv_desc *d) {
    memset(d, 0, sizeof *d);
    d->struct_size = (uint32_t)sizeof *d;
    d->dtype = d->weight_dtype = (int32_t)dtype;
    d->compute = (int32_t)dhowi_compute_in(attrs->exact_sums ? DHOWI_EXACT : inside, device, dtype);
    d->n = x[0], d->c = weight[1] * w->groups, d->h = x[2], d->w = x[3];
    d->k = weight[0], d->kh = weight[2], d->kw = weight[3];
    d->groups = w->groups;
    memcpy(d->stride, w->stride, sizeof d->stride);
    memcpy(d->dilation, w->dilation, sizeof d->dilation);
    memcpy(d->pad, w->pad, sizeof d->pad);
    d->flags = flags | (attrs->exact_sums ? DHOW_CONV_EXACT_SUMS : 0u);
    start_with(&attrs->src_activation, d);
    end_with(&attrs->activation, d);
}

static void describe_call(const dhowi_call *call, const dhow_window *w, dhow_conv_desc *d) {
    const dhow_tensor *x = call->in[0], *weight = call->in[1];
    const bool frozen = atomic_load_explicit(&weight->storage->frozen, memory_order_relaxed);
    describe(
        dhowi_tensor_device(x), x->dtype, x->shape, weight->shape, w, call->attrs, call->inside,
        (frozen ? DHOW_BLAS_CONSTANT_B : 0u) | (call->in[2] != NULL ? DHOW_EPILOGUE_BIAS : 0u) |
            (call->in[3] != NULL ? DHOW_EPILOGUE_RESIDUAL : 0u),
        d);
    d->src_layout = layout_of(x, call->attrs);
    d->dst_layout = layout_of(call->out, call->attrs);
}

/* As a product, if the tiles of one are filled: a few channels each, as in depthwise convolution,
 * are faster without. Places in the image must fit the kernel's 32 bits. */
static bool is_tiled(const dhowi_call *call, int64_t groups) {
    enum { LEAST_CHANNELS = 8, MOST_EXTENT = 1 << 24 };
    const dhow_tensor *x = call->in[0], *y = call->out;
    return dhowi_optimises(DHOWI_OPTIMISE_TILED_CONV) && y->count > 0 &&
           y->shape[1] / groups >= LEAST_CHANNELS && x->shape[2] < MOST_EXTENT &&
           x->shape[3] < MOST_EXTENT;
}

static dhow_status portable_kernel(const dhowi_call *call, int64_t groups, dhow_kernel **out) {
    const dhow_dtype dtype = call->in[0]->dtype;
    dhow_device *device = call->stream->device;
    return is_tiled(call, groups) ? dhowi_kernel_of(device, "conv2d_tiled", dtype, out)
                                  : dhowi_op_kernel(call->op, dtype, device, out);
}

static dhow_status run_portable(const dhowi_call *call, const dhow_window *w) {
    dhow_tensor *x = call->in[0], *weight = call->in[1], *y = call->out;
    dhow_tensor *bias = call->in[2] != NULL ? call->in[2] : weight;
    const dhowi_activation *activation = &call->attrs->activation;
    const bool whole = call->in[3] == NULL && dhowi_kernels_end_with(activation);
    dhow_kernel *kernel;
    DHOWI_TRY(portable_kernel(call, w->groups, &kernel));
    const dhow_arg args[] = {
        dhowi_arg_buffer(x, DHOW_ACCESS_READ),
        dhowi_arg_buffer(weight, DHOW_ACCESS_READ),
        dhowi_arg_buffer(bias, DHOW_ACCESS_READ),
        dhowi_arg_buffer(y, DHOW_ACCESS_WRITE),
        dhowi_arg_i64(x->shape[0]),
        dhowi_arg_i64(x->shape[1]),
        dhowi_arg_i64(x->shape[2]),
        dhowi_arg_i64(x->shape[3]),
        dhowi_arg_i64(weight->shape[0]),
        dhowi_arg_i64(weight->shape[2]),
        dhowi_arg_i64(weight->shape[3]),
        dhowi_arg_i64(y->shape[2]),
        dhowi_arg_i64(y->shape[3]),
        dhowi_arg_i64(w->groups),
        dhowi_arg_i64(w->stride[0]),
        dhowi_arg_i64(w->stride[1]),
        dhowi_arg_i64(w->dilation[0]),
        dhowi_arg_i64(w->dilation[1]),
        dhowi_arg_i64(w->pad[0]),
        dhowi_arg_i64(w->pad[1]),
        dhowi_arg_i32(call->in[2] != NULL),
        dhowi_arg_i32(whole ? (int32_t)activation->kind : (int32_t)DHOW_ACTIVATION_NONE)};
    const dhowi_use uses[] = {{x->storage, DHOW_ACCESS_READ},
                              {weight->storage, DHOW_ACCESS_READ},
                              {bias->storage, DHOW_ACCESS_READ},
                              dhowi_use_of(y, DHOW_ACCESS_WRITE)};
    int64_t taps = weight->count / weight->shape[0], work;
    if (!dhowi_mul_i64(y->count, DHOWI_MAX(taps, 1), &work)) work = INT64_MAX;
    DHOWI_TRY(dhowi_launch(call->stream, kernel, work, DHOWI_MAX(x->count, y->count), args,
                           (uint32_t)DHOWI_COUNT(args), uses, 4));
    if (whole) return DHOW_OK;
    if (call->in[3] != NULL) DHOWI_TRY(dhowi_add_to(call->stream, y, call->in[3]));
    return dhowi_activate(call->stream, activation, y);
}

/* Older tables know of no activation of x. */
static dhow_status find_whole_plan(dhow_device *device, const dhow_conv_desc *d,
                                   const dhowi_vendor_plan **out) {
    const dhow_conv *table = dhowi_conv_of(device);
    *out = NULL;
    if (d->src_activation != DHOW_ACTIVATION_NONE && (table == NULL || table->minor < 3))
        return DHOW_OK;
    return dhowi_conv_plan(device, d, out);
}

/* With all that follows the sums; else without the activation, which is a step of its own then, as
 * d says afterwards. */
static dhow_status find_plan(dhow_device *device, dhow_conv_desc *d,
                             const dhowi_vendor_plan **out) {
    DHOWI_TRY(find_whole_plan(device, d, out));
    if (*out != NULL || d->activation == DHOW_ACTIVATION_NONE) return DHOW_OK;
    end_with(&(const dhowi_activation){0}, d);
    return find_whole_plan(device, d, out);
}

/* By dhow's kernels. Those read x as it is, which is the convolution's alone. */
static dhow_status run_without_plan(const dhowi_call *call, const dhow_window *w) {
    if (call->in[0]->rank == 5 || call->out->rank == 5)
        return dhowi_fail(DHOW_INTERNAL, "conv2d: a plan for blocks of channels is gone");
    DHOWI_TRY(dhowi_activate(call->stream, &call->attrs->src_activation, call->in[0]));
    return run_portable(call, w);
}

dhow_status dhowi_run_conv2d(const dhowi_call *call) {
    const dhow_tensor *weight = call->in[1];
    dhow_window window;
    dhow_conv_desc desc;
    const dhowi_vendor_plan *plan;
    DHOWI_TRY(dhowi_window_check(call->op->name, &call->attrs->window, weight->shape[2],
                                 weight->shape[3], &window));
    describe_call(call, &window, &desc);
    DHOWI_TRY(find_plan(call->stream->device, &desc, &plan));
    if (plan == NULL) return run_without_plan(call, &window);
    dhow_status status = dhowi_vendor_plan_run(call->stream, plan, call->in[0], call->in[1],
                                               call->out, call->in[2], call->in[3]);
    dhowi_vendor_plan_drop(plan);
    if (status != DHOW_OK || desc.activation == call->attrs->activation.kind) return status;
    return dhowi_activate(call->stream, &call->attrs->activation, call->out);
}

/* The same of a step, of which the tensors are yet to be made. */
static dhow_status describe_step(dhow_device *device, const dhowi_tensor_desc *x,
                                 const dhowi_tensor_desc *weight, const dhowi_attrs *attrs,
                                 bool bias, bool residual, dhowi_inside inside, dhow_conv_desc *d) {
    dhow_window window;
    DHOWI_TRY(
        dhowi_window_check("conv2d", &attrs->window, weight->shape[2], weight->shape[3], &window));
    describe(device, x->dtype, x->shape, weight->shape, &window, attrs, inside,
             DHOW_BLAS_CONSTANT_B | (bias ? DHOW_EPILOGUE_BIAS : 0u) |
                 (residual ? DHOW_EPILOGUE_RESIDUAL : 0u),
             d);
    return DHOW_OK;
}

dhow_status dhowi_conv_layouts(dhow_device *device, const dhowi_tensor_desc *x,
                               const dhowi_tensor_desc *weight, const dhowi_attrs *attrs, bool bias,
                               bool residual, dhowi_inside inside, uint32_t *src, uint32_t *dst) {
    dhow_conv_desc d;
    const dhowi_vendor_plan *plan;
    DHOWI_TRY(describe_step(device, x, weight, attrs, bias, residual, inside, &d));
    d.src_layout = *src;
    d.dst_layout = *dst;
    *src = *dst = DHOW_LAYOUT_ANY;
    DHOWI_TRY(find_plan(device, &d, &plan));
    if (plan == NULL) return DHOW_OK;
    *src = plan->src_layout;
    *dst = plan->dst_layout;
    dhowi_vendor_plan_drop(plan);
    return DHOW_OK;
}

dhow_status dhowi_conv_takes(dhow_device *device, const dhowi_tensor_desc *x,
                             const dhowi_tensor_desc *weight, const dhowi_attrs *attrs, bool bias,
                             bool residual, dhowi_inside inside, bool ends, bool *out) {
    dhow_conv_desc d;
    const dhowi_vendor_plan *plan;
    DHOWI_TRY(describe_step(device, x, weight, attrs, bias, residual, inside, &d));
    d.src_layout = d.dst_layout = DHOW_LAYOUT_ANY;
    DHOWI_TRY(ends ? find_whole_plan(device, &d, &plan) : find_plan(device, &d, &plan));
    *out = plan != NULL;
    if (plan != NULL) dhowi_vendor_plan_drop(plan);
    return DHOW_OK;
}

/* ---- pooling ---- */

/* x and y are [n, c/b, h, w, b], or [n, c, h, w] with blocks of one. */
dhow_status dhowi_run_pool_blocks(const dhowi_call *call) {
    dhow_tensor *x = call->in[0], *y = call->out;
    const dhow_window *w = &call->attrs->window;
    const int64_t block = x->rank == 5 ? x->shape[4] : 1;
    dhow_kernel *kernel;
    DHOWI_TRY(dhowi_op_kernel(call->op, x->dtype, call->stream->device, &kernel));
    const dhow_arg args[] = {dhowi_arg_buffer(x, DHOW_ACCESS_READ),
                             dhowi_arg_buffer(y, DHOW_ACCESS_WRITE),
                             dhowi_arg_i64(x->shape[0] * x->shape[1]),
                             dhowi_arg_i64(block),
                             dhowi_arg_i64(x->shape[2]),
                             dhowi_arg_i64(x->shape[3]),
                             dhowi_arg_i64(y->shape[2]),
                             dhowi_arg_i64(y->shape[3]),
                             dhowi_arg_i64(w->kernel[0]),
                             dhowi_arg_i64(w->kernel[1]),
                             dhowi_arg_i64(w->stride[0]),
                             dhowi_arg_i64(w->stride[1]),
                             dhowi_arg_i64(w->pad[0]),
                             dhowi_arg_i64(w->pad[1]),
                             dhowi_arg_i32(call->attrs->dim)};
    const dhowi_use uses[] = {{x->storage, DHOW_ACCESS_READ}, dhowi_use_of(y, DHOW_ACCESS_WRITE)};
    return dhowi_launch(call->stream, kernel, y->count * w->kernel[0] * w->kernel[1],
                        DHOWI_MAX(x->count, y->count), args, (uint32_t)DHOWI_COUNT(args), uses, 2);
}

/* One window over all of each image. */
static bool is_whole(const dhow_tensor *x, const dhow_window *w) {
    return w->kernel[0] == x->shape[2] && w->kernel[1] == x->shape[3] && x->count > 0 &&
           (w->pad[0] | w->pad[1] | w->pad[2] | w->pad[3]) == 0;
}

dhow_status dhowi_run_pool2d(const dhowi_call *call) {
    dhow_tensor *x = call->in[0], *y = call->out;
    const dhow_window *given = &call->attrs->window;
    dhow_window w;
    dhow_kernel *kernel;
    DHOWI_TRY(dhowi_window_check(call->op->name, given, given->kernel[0], given->kernel[1], &w));
    if (strcmp(call->op->kernel, "avgpool2d") == 0 && is_whole(x, &w))
        return dhowi_run_image_mean(call);
    DHOWI_TRY(dhowi_op_kernel(call->op, x->dtype, call->stream->device, &kernel));
    const dhow_arg args[] = {dhowi_arg_buffer(x, DHOW_ACCESS_READ),
                             dhowi_arg_buffer(y, DHOW_ACCESS_WRITE),
                             dhowi_arg_i64(x->shape[0] * x->shape[1]),
                             dhowi_arg_i64(x->shape[2]),
                             dhowi_arg_i64(x->shape[3]),
                             dhowi_arg_i64(y->shape[2]),
                             dhowi_arg_i64(y->shape[3]),
                             dhowi_arg_i64(w.kernel[0]),
                             dhowi_arg_i64(w.kernel[1]),
                             dhowi_arg_i64(w.stride[0]),
                             dhowi_arg_i64(w.stride[1]),
                             dhowi_arg_i64(w.pad[0]),
                             dhowi_arg_i64(w.pad[1])};
    const dhowi_use uses[] = {{x->storage, DHOW_ACCESS_READ}, dhowi_use_of(y, DHOW_ACCESS_WRITE)};
    int64_t work;
    if (!dhowi_mul_i64(y->count, w.kernel[0] * w.kernel[1], &work)) work = INT64_MAX;
    return dhowi_launch(call->stream, kernel, work, DHOWI_MAX(x->count, y->count), args,
                        (uint32_t)DHOWI_COUNT(args), uses, 2);
}
