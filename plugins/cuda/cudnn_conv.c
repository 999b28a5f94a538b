/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions by cuDNN: bias, residual and ReLU in the same call, or behind it where cuDNN does
 * not take them together.
 *
 * Only algorithms that add up products are taken: by Winograd's and by Fourier's transforms a NaN
 * spreads over pixels that do not see it, and sums are less exact than f32 has them.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "conv.h"
#include "cudnn.h"

enum { MOST_RANK = 5, WORKSPACE_BYTES = 256 << 20 };

typedef struct cudnn_plan {
    dhowi_cuda_conv conv;
    dhowi_cuda_cudnn *dnn;
    dnn_tensor x, y, bias;
    dnn_filter weight;
    dnn_conv operation;
    dnn_activation activation;
    int algorithm;
    uint64_t algorithm_bytes; /* of the workspace; behind them, at a multiple of 256, a bias of 0 */
    bool ends, lacks_bias; /* whether something follows the sums; but no bias, which cuDNN wants */
    atomic_bool apart;     /* what follows the sums takes calls of its own */
} cudnn_plan;

/* ---- descriptions --------------------------------------------------------------------------- */

static int data_type(int32_t dtype) {
    return dtype == DHOW_F32 ? DNN_FLOAT : dtype == DHOW_F16 ? DNN_HALF : DNN_BFLOAT16;
}

static bool is_transposed(const dhowi_cuda_conv *conv) {
    return dhowi_cuda_conv_has(conv, DHOW_CONV_TRANSPOSED);
}

/* Whether the padding before the first element gives the same windows at both sides, as cuDNN pads:
 * one that would begin behind the last is none. */
static bool pads_alike(const dhowi_cuda_conv *c) {
    const int64_t *image = is_transposed(c) ? c->out : c->in;
    const int64_t *result = is_transposed(c) ? c->in : c->out;
    for (int i = 0; i < c->spatial; i++) {
        const int64_t reach = (c->kernel[i] - 1) * c->dilation[i] + 1;
        const int64_t padded = image[i] + 2 * c->pad[i];
        if (padded < reach || (padded - reach) / c->stride[i] + 1 != result[i]) return false;
    }
    return true;
}

static double count_of(const dhowi_cuda_conv *conv, int64_t outer, const int64_t *extents) {
    double count = (double)outer;
    for (int i = 0; i < conv->spatial; i++) count *= (double)extents[i];
    return count;
}

/* cuDNN counts in ints, and elements of a tensor too. */
static bool is_countable(const dhowi_cuda_conv *conv) {
    const dhow_conv_desc *d = &conv->desc;
    return count_of(conv, d->n * d->c, conv->in) < INT_MAX &&
           count_of(conv, d->n * d->k, conv->out) < INT_MAX &&
           count_of(conv, d->k * d->c / d->groups, conv->kernel) < INT_MAX;
}

static int describe_image(const cudnn_plan *p, dnn_tensor *out, int64_t channels,
                          const int64_t *extents) {
    const dhow_conv_desc *d = &p->conv.desc;
    const bool last = d->src_layout == DHOW_LAYOUT_NHWC;
    const int rank = 2 + p->conv.spatial;
    int shape[MOST_RANK] = {(int)d->n, (int)channels}, strides[MOST_RANK];
    int step = last ? (int)channels : 1;
    for (int i = rank - 1; i >= 2; i--) {
        shape[i] = (int)extents[i - 2];
        strides[i] = step;
        step *= shape[i];
    }
    strides[1] = last ? 1 : step;
    strides[0] = last ? step : step * (int)channels;
    const int result = p->dnn->tensor_create(out);
    return result != 0 ? result
                       : p->dnn->tensor_set(*out, data_type(d->dtype), rank, shape, strides);
}

static int describe_bias(const cudnn_plan *p, dnn_tensor *out) {
    const int k = (int)p->conv.desc.k;
    const int shape[MOST_RANK] = {1, k, 1, 1, 1}, strides[MOST_RANK] = {k, 1, 1, 1, 1};
    const int result = p->dnn->tensor_create(out);
    return result != 0 ? result
                       : p->dnn->tensor_set(*out, data_type(p->conv.desc.dtype),
                                            2 + p->conv.spatial, shape, strides);
}

/* Of a transposed convolution it is that of the convolution from y to x. */
static int describe_weight(const cudnn_plan *p, dnn_filter *out) {
    const dhow_conv_desc *d = &p->conv.desc;
    const bool turned = is_transposed(&p->conv);
    const int format = d->src_layout == DHOW_LAYOUT_NHWC ? DNN_NHWC : DNN_NCHW;
    int shape[MOST_RANK] = {(int)(turned ? d->c : d->k), (int)((turned ? d->k : d->c) / d->groups)};
    for (int i = 0; i < p->conv.spatial; i++) shape[2 + i] = (int)p->conv.kernel[i];
    const int result = p->dnn->filter_create(out);
    return result != 0
               ? result
               : p->dnn->filter_set(*out, data_type(d->dtype), format, 2 + p->conv.spatial, shape);
}

static int math_of(const dhow_conv_desc *d) {
    if (d->dtype != DHOW_F32) return DNN_TENSOR_OP_MATH;
    return dhowi_cuda_conv_is_relaxed(d) ? DNN_DEFAULT_MATH : DNN_FMA_MATH; /* the former: TF32 */
}

static int describe_operation(const cudnn_plan *p, dnn_conv *out) {
    const dhowi_cuda_cudnn *dnn = p->dnn;
    const dhowi_cuda_conv *c = &p->conv;
    int pad[3], stride[3], dilation[3];
    for (int i = 0; i < c->spatial; i++) {
        pad[i] = (int)c->pad[i];
        stride[i] = (int)c->stride[i];
        dilation[i] = (int)c->dilation[i];
    }
    int result = dnn->conv_create(out);
    if (result == 0)
        result = dnn->conv_set(*out, c->spatial, pad, stride, dilation, DNN_CROSS_CORRELATION,
                               DNN_FLOAT);
    if (result == 0) result = dnn->conv_set_groups(*out, (int)c->desc.groups);
    if (result == 0) result = dnn->conv_set_math(*out, math_of(&c->desc));
    return result;
}

/* cuDNN's ReLU keeps a NaN where it is told to. */
static int describe_activation(const cudnn_plan *p, dnn_activation *out) {
    const int mode = p->conv.desc.activation == DHOW_ACTIVATION_RELU ? DNN_RELU : DNN_IDENTITY;
    const int result = p->dnn->activation_create(out);
    return result != 0 ? result : p->dnn->activation_set(*out, mode, DNN_PROPAGATE_NAN, 0.0);
}

static int describe(cudnn_plan *p) {
    int result = describe_image(p, &p->x, p->conv.desc.c, p->conv.in);
    if (result == 0) result = describe_image(p, &p->y, p->conv.desc.k, p->conv.out);
    if (result == 0) result = describe_bias(p, &p->bias);
    if (result == 0) result = describe_weight(p, &p->weight);
    if (result == 0) result = describe_operation(p, &p->operation);
    if (result == 0) result = describe_activation(p, &p->activation);
    return result;
}

/* ---- algorithms ----------------------------------------------------------------------------- */

static bool is_fit(const cudnn_plan *p, const dnn_algorithm *a) {
    return a->status == 0 && a->workspace_bytes <= WORKSPACE_BYTES &&
           a->determinism == DNN_DETERMINISTIC &&
           a->algorithm <= (is_transposed(&p->conv) ? (int)DNN_BACKWARD_1 : (int)DNN_FWD_DIRECT);
}

/* Without an activation cuDNN adds a bias and a residual by this algorithm alone. */
static bool ends_in_one(const cudnn_plan *p, int algorithm) {
    return !is_transposed(&p->conv) && (p->conv.desc.activation == DHOW_ACTIVATION_RELU ||
                                        algorithm == DNN_FWD_IMPLICIT_PRECOMP_GEMM);
}

/* The first by cuDNN's heuristics, which need no run, that does all in one call; else the first. */
static int find_algorithm(cudnn_plan *p) {
    dnn_algorithm all[DNN_FWD_COUNT];
    const dnn_algorithm *best = NULL;
    int found = 0;
    const int result =
        is_transposed(&p->conv)
            ? p->dnn->backward_algorithms(p->dnn->handle, p->weight, p->x, p->operation, p->y,
                                          DNN_FWD_COUNT, &found, all)
            : p->dnn->algorithms(p->dnn->handle, p->x, p->weight, p->operation, p->y, DNN_FWD_COUNT,
                                 &found, all);
    if (result != 0) return result;
    for (int i = 0; i < found && best == NULL; i++) {
        if (is_fit(p, &all[i]) && (!p->ends || ends_in_one(p, all[i].algorithm))) best = &all[i];
    }
    atomic_init(&p->apart, best == NULL);
    for (int i = 0; i < found && best == NULL; i++) {
        if (is_fit(p, &all[i])) best = &all[i];
    }
    if (best == NULL) return DNN_NOT_SUPPORTED;
    p->algorithm = best->algorithm;
    p->algorithm_bytes = best->workspace_bytes;
    /* What may be less exact than FMA stays as it was asked for. */
    if (math_of(&p->conv.desc) == DNN_FMA_MATH) return 0;
    return p->dnn->conv_set_math(p->operation, best->math);
}

/* ---- plans ---------------------------------------------------------------------------------- */

/* Whether the weight lies otherwise in NHWC: as [k][kh][kw][c/groups]. */
static bool is_turned(const dhow_conv_desc *d) { return d->kh * d->kw > 1 && d->c > d->groups; }

static bool is_plain(const dhowi_cuda_conv *conv) {
    return conv->spatial == 2 && !is_transposed(conv);
}

/* Tensor cores like channels last; FMA does not care, and conversions are saved. */
static uint32_t layout(const dhow_conv_desc *d) {
    const bool varies = (d->flags & DHOW_BLAS_CONSTANT_B) == 0 && is_turned(d);
    return math_of(d) == DNN_FMA_MATH || varies ? DHOW_LAYOUT_NCHW : DHOW_LAYOUT_NHWC;
}

static bool is_packed(const dhow_conv_desc *d) {
    return d->src_layout == DHOW_LAYOUT_NHWC && is_turned(d);
}

static void destroy(dhowi_cuda_conv *conv) {
    cudnn_plan *p = (cudnn_plan *)conv;
    const dhowi_cuda_cudnn *dnn = p->dnn;
    if (p->x != NULL) (void)dnn->tensor_destroy(p->x);
    if (p->y != NULL) (void)dnn->tensor_destroy(p->y);
    if (p->bias != NULL) (void)dnn->tensor_destroy(p->bias);
    if (p->weight != NULL) (void)dnn->filter_destroy(p->weight);
    if (p->operation != NULL) (void)dnn->conv_destroy(p->operation);
    if (p->activation != NULL) (void)dnn->activation_destroy(p->activation);
    dhowi_cuda_delete(conv->device->host, p);
}

static int32_t check(const dhowi_cuda_conv *conv, dhow_error *err) {
    const char *name = conv->device->name;
    if (conv->desc.activation != DHOW_ACTIVATION_NONE &&
        conv->desc.activation != DHOW_ACTIVATION_RELU)
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED,
                                 "%s: cuDNN has no such activation behind a convolution", name);
    if (conv->desc.src_activation != DHOW_ACTIVATION_NONE)
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED,
                                 "%s: cuDNN has no activation before a convolution", name);
    if (!is_plain(conv) && conv->desc.src_layout != DHOW_LAYOUT_NCHW)
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: channels last are for images", name);
    if (!is_countable(conv))
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: an image too large for cuDNN", name);
    if (!pads_alike(conv))
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: cuDNN pads both sides alike", name);
    if (is_packed(&conv->desc) && !dhowi_cuda_conv_has(conv, DHOW_BLAS_CONSTANT_B))
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED,
                                 "%s: in NHWC the weight is packed, and this one may change", name);
    return DHOW_OK;
}

static int32_t plan(const dhowi_cuda_conv *conv, dhowi_cuda_conv **out, dhow_error *err) {
    dhowi_cuda_device *device = conv->device;
    dhowi_cuda_cudnn *dnn = NULL;
    int32_t status = check(conv, err);
    if (status == DHOW_OK) status = dhowi_cuda_cudnn_of(device, &dnn, err);
    if (status != DHOW_OK) return status;
    cudnn_plan *p = dhowi_cuda_new(device->host, sizeof *p);
    if (p == NULL)
        return dhowi_cuda_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", device->name);
    p->conv = *conv;
    p->dnn = dnn;
    p->ends = dhowi_cuda_conv_has(conv, DHOW_EPILOGUE_BIAS | DHOW_EPILOGUE_RESIDUAL) ||
              conv->desc.activation != DHOW_ACTIVATION_NONE;
    p->lacks_bias = p->ends && !dhowi_cuda_conv_has(conv, DHOW_EPILOGUE_BIAS);
    (void)pthread_mutex_lock(&dnn->lock);
    int result = describe(p);
    if (result == 0) result = find_algorithm(p);
    (void)pthread_mutex_unlock(&dnn->lock);
    if (result != 0) {
        destroy(&p->conv);
        return dhowi_cuda_refuse(err,
                                 result >= DNN_INTERNAL_ERROR ? DHOW_UNAVAILABLE : DHOW_UNSUPPORTED,
                                 "%s: cuDNN plans no such convolution: %s (%d)", device->name,
                                 dnn->status_name(result), result);
    }
    p->conv.workspace_bytes = p->algorithm_bytes;
    if (p->lacks_bias)
        p->conv.workspace_bytes =
            dhowi_cuda_align(p->algorithm_bytes) +
            (uint64_t)conv->desc.k * dhowi_cuda_conv_element_bytes(&conv->desc);
    const dhow_conv_desc *d = &conv->desc;
    if (is_packed(d))
        p->conv.packed_bytes = (uint64_t)(d->k * (d->c / d->groups) * d->kh * d->kw) *
                               dhowi_cuda_conv_element_bytes(d);
    *out = &p->conv;
    return DHOW_OK;
}

/* A copy for each tap: it is done once for a weight, and needs no kernel of dhow's. */
static int32_t pack(dhowi_cuda_conv *conv, dhowi_cuda_stream *stream, dhow_buffer weight,
                    dhow_buffer packed, dhow_error *err) {
    const dhow_conv_desc *d = &conv->desc;
    const uint64_t element = dhowi_cuda_conv_element_bytes(d), inner = (uint64_t)(d->c / d->groups);
    const uint64_t taps = (uint64_t)(d->kh * d->kw), plane = inner * taps * element;
    int32_t status = DHOW_OK;
    for (uint64_t tap = 0; tap < taps && status == DHOW_OK; tap++) {
        const dhow_copy_rect rect = {.extent = {element, inner, (uint64_t)d->k},
                                     .src = {.handle = weight.handle,
                                             .offset = weight.offset + tap * element,
                                             .pitch = {taps * element, plane}},
                                     .dst = {.handle = packed.handle,
                                             .offset = packed.offset + tap * inner * element,
                                             .pitch = {element, plane}}};
        status = dhowi_cuda_copy(stream, &rect, err);
    }
    return status;
}

/* ---- running -------------------------------------------------------------------------------- */

static const float k_one = 1, k_zero = 0;

static void *pointer_to(dhow_buffer buffer) {
    return (void *)(uintptr_t)(buffer.handle + buffer.offset);
}

/* The bias of 0, which the workspace has room for. */
static dhow_buffer zero_bias(const cudnn_plan *p, dhow_buffer workspace) {
    return dhowi_cuda_at(workspace, dhowi_cuda_align(p->algorithm_bytes));
}

/* What has to lie ready for the calls. */
static int32_t prepare(const cudnn_plan *p, dhowi_cuda_stream *stream,
                       const dhowi_cuda_conv_buffers *b, bool apart, dhow_error *err) {
    const dhow_conv_desc *d = &p->conv.desc;
    const uint64_t element = dhowi_cuda_conv_element_bytes(d), k = (uint64_t)d->k;
    if (!apart && p->lacks_bias) {
        const dhow_buffer bias = zero_bias(p, b->workspace);
        return dhowi_cuda_fill(stream, bias.handle, bias.offset, k * element, 0, 1, err);
    }
    if (!apart || !dhowi_cuda_conv_has(&p->conv, DHOW_EPILOGUE_RESIDUAL) ||
        pointer_to(b->residual) == pointer_to(b->y))
        return DHOW_OK;
    const uint64_t bytes = (uint64_t)count_of(&p->conv, d->n * d->k, p->conv.out) * element;
    const dhow_copy_rect rect = {
        .extent = {bytes, 1, 1},
        .src = {.handle = b->residual.handle,
                .offset = b->residual.offset,
                .pitch = {bytes, bytes}},
        .dst = {.handle = b->y.handle, .offset = b->y.offset, .pitch = {bytes, bytes}}};
    return dhowi_cuda_copy(stream, &rect, err);
}

static int run_fused(const cudnn_plan *p, const dhowi_cuda_conv_buffers *b) {
    const bool adds = dhowi_cuda_conv_has(&p->conv, DHOW_EPILOGUE_RESIDUAL);
    const dhow_buffer bias = p->lacks_bias ? zero_bias(p, b->workspace) : b->bias;
    return p->dnn->fused(p->dnn->handle, &k_one, p->x, pointer_to(b->x), p->weight,
                         pointer_to(b->weight), p->operation, p->algorithm,
                         pointer_to(b->workspace), p->algorithm_bytes, adds ? &k_one : &k_zero,
                         p->y, pointer_to(adds ? b->residual : b->y), p->bias, pointer_to(bias),
                         p->activation, p->y, pointer_to(b->y));
}

/* The residual is in y already. */
static int run_apart(const cudnn_plan *p, const dhowi_cuda_conv_buffers *b) {
    const dhowi_cuda_cudnn *dnn = p->dnn;
    const bool adds = dhowi_cuda_conv_has(&p->conv, DHOW_EPILOGUE_RESIDUAL);
    void *y = pointer_to(b->y);
    const float *scale = adds ? &k_one : &k_zero;
    int result = is_transposed(&p->conv)
                     ? dnn->backward(dnn->handle, &k_one, p->weight, pointer_to(b->weight), p->x,
                                     pointer_to(b->x), p->operation, p->algorithm,
                                     pointer_to(b->workspace), p->algorithm_bytes, scale, p->y, y)
                     : dnn->forward(dnn->handle, &k_one, p->x, pointer_to(b->x), p->weight,
                                    pointer_to(b->weight), p->operation, p->algorithm,
                                    pointer_to(b->workspace), p->algorithm_bytes, scale, p->y, y);
    if (result == 0 && dhowi_cuda_conv_has(&p->conv, DHOW_EPILOGUE_BIAS))
        result = dnn->add(dnn->handle, &k_one, p->bias, pointer_to(b->bias), &k_one, p->y, y);
    if (result == 0 && p->conv.desc.activation == DHOW_ACTIVATION_RELU)
        result = dnn->activate(dnn->handle, p->activation, &k_one, p->y, y, &k_zero, p->y, y);
    return result;
}

static int32_t run_one_way(const cudnn_plan *p, dhowi_cuda_stream *stream,
                           const dhowi_cuda_conv_buffers *b, bool apart, int *out_result,
                           dhow_error *err) {
    const int32_t status = prepare(p, stream, b, apart, err);
    if (status != DHOW_OK) return status;
    bool entered;
    cudaError_t code = dhowi_cuda_require(p->conv.device, &entered);
    if (code != cudaSuccess) return dhowi_cuda_fail_on(stream, err, code, "a convolution by cuDNN");
    (void)pthread_mutex_lock(&p->dnn->lock);
    *out_result = p->dnn->set_stream(p->dnn->handle, dhowi_cuda_target(stream));
    if (*out_result == 0) *out_result = apart || !p->ends ? run_apart(p, b) : run_fused(p, b);
    (void)pthread_mutex_unlock(&p->dnn->lock);
    if (*out_result != 0) code = dhowi_cuda_stream_fault(dhowi_cuda_target(stream));
    dhowi_cuda_leave(entered);
    return code == cudaSuccess ? DHOW_OK
                               : dhowi_cuda_fail_on(stream, err, code, "a convolution by cuDNN");
}

/* Whether cuDNN takes all in one call comes out at the call alone. */
static bool is_refused(int result) {
    return result >= DNN_BAD_PARAM && result < DNN_INTERNAL_ERROR;
}

static void tell_of_apart(const dhowi_cuda_conv *conv, const char *why) {
    char line[256];
    (void)snprintf(line, sizeof line,
                   "%s: cuDNN takes no bias, residual or activation with a convolution of %" PRId64
                   " to %" PRId64 " channels (%s); they follow in calls of their own",
                   conv->device->name, conv->desc.c, conv->desc.k, why);
    conv->device->host->log(conv->device->host->user, DHOW_LOG_INFO, line);
}

static int32_t run(dhowi_cuda_conv *conv, dhowi_cuda_stream *stream,
                   const dhowi_cuda_conv_buffers *buffers, dhow_error *err) {
    cudnn_plan *p = (cudnn_plan *)conv;
    const bool apart = atomic_load(&p->apart);
    int result = 0;
    int32_t status = run_one_way(p, stream, buffers, apart, &result, err);
    if (status == DHOW_OK && is_refused(result) && p->ends && !apart) {
        if (!atomic_exchange(&p->apart, true)) tell_of_apart(conv, p->dnn->status_name(result));
        status = run_one_way(p, stream, buffers, true, &result, err);
    }
    if (status != DHOW_OK || result == 0) return status;
    status = dhowi_cuda_refuse(err, DHOW_INTERNAL, "%s: a convolution by cuDNN: %s (%d)",
                               conv->device->name, p->dnn->status_name(result), result);
    err->native_code = result;
    return status;
}

const dhowi_cuda_conv_engine dhowi_cuda_conv_by_cudnn = {
    .layout = layout, .plan = plan, .pack = pack, .run = run, .destroy = destroy};
