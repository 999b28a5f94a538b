/* SPDX-License-Identifier: Apache-2.0
 *
 * dhow.conv/1: of the engines that there are, the first that takes a convolution computes it.
 * Images lie in NCHW or NHWC, x and y in the same.
 */
#include <stdio.h>
#include <string.h>

#include "conv_kernels.h"

static const struct {
    const char *name;
    dhowi_cuda_conv_choice choice;
} k_choices[] = {{"auto", DHOWI_CUDA_CONV_AUTO},
                 {"cudnn", DHOWI_CUDA_CONV_CUDNN},
                 {"cublas", DHOWI_CUDA_CONV_CUBLAS},
                 {"off", DHOWI_CUDA_CONV_OFF}};

int32_t dhowi_cuda_conv_read_choice(const dhow_host *host, dhowi_cuda_conv_choice *out,
                                    dhow_error *err) {
    const char *word = host->env(host->user, "DHOW_CUDA_CONV");
    *out = DHOWI_CUDA_CONV_AUTO;
    if (word == NULL) return DHOW_OK;
    for (size_t i = 0; i < sizeof k_choices / sizeof k_choices[0]; i++) {
        *out = k_choices[i].choice;
        if (strcmp(word, k_choices[i].name) == 0) return DHOW_OK;
    }
    return dhowi_cuda_refuse(err, DHOW_INVALID_ARGUMENT,
                             "DHOW_CUDA_CONV is '%.64s'; it may be auto, cudnn, cublas or off",
                             word);
}

/* ---- plans ---------------------------------------------------------------------------------- */

static bool is_plain(uint32_t layout) {
    return layout == DHOW_LAYOUT_NCHW || layout == DHOW_LAYOUT_NHWC || layout == DHOW_LAYOUT_ANY;
}

static bool is_convolved(int32_t dtype) {
    return dtype == DHOW_F32 || dtype == DHOW_F16 || dtype == DHOW_BF16;
}

static int32_t check(const dhowi_cuda_device *device, const dhow_conv_desc *d, dhow_error *err) {
    if (!is_convolved(d->dtype) || d->weight_dtype != d->dtype)
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: convolves f32, f16 and bf16",
                                 device->name);
    if ((d->flags & DHOW_CONV_WEIGHT_GRADIENT) != 0)
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED,
                                 "%s: derivatives by the weight are the host's kernels",
                                 device->name);
    if (!is_plain(d->src_layout) || !is_plain(d->dst_layout))
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: convolves images in NCHW and NHWC",
                                 device->name);
    if (d->n < 1 || d->c < 1 || d->h < 1 || d->w < 1 || d->k < 1)
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: the images are empty", device->name);
    return DHOW_OK;
}

static int64_t output_extent(const dhowi_cuda_conv *conv, int i, int64_t pad_after) {
    const int64_t reach = (conv->kernel[i] - 1) * conv->dilation[i] + 1;
    return (conv->in[i] + conv->pad[i] + pad_after - reach) / conv->stride[i] + 1;
}

static void add_dimension(dhowi_cuda_conv *conv, int64_t in, int64_t kernel, int64_t stride,
                          int64_t dilation, const int64_t pad[2], int64_t out) {
    const int i = conv->spatial++;
    conv->in[i] = in;
    conv->kernel[i] = kernel;
    conv->stride[i] = stride;
    conv->dilation[i] = dilation;
    conv->pad[i] = pad[0];
    conv->out[i] =
        dhowi_cuda_conv_has(conv, DHOW_CONV_TRANSPOSED) ? out : output_extent(conv, i, pad[1]);
}

static void measure(dhowi_cuda_conv *conv) {
    const dhow_conv_desc *d = &conv->desc;
    const int64_t rows[] = {d->pad[0], d->pad[2]}, columns[] = {d->pad[1], d->pad[3]};
    if (d->depth > 0)
        add_dimension(conv, d->depth, d->kd, d->stride_d, d->dilation_d, d->pad_d, d->out[0]);
    add_dimension(conv, d->h, d->kh, d->stride[0], d->dilation[0], rows, d->out[1]);
    add_dimension(conv, d->w, d->kw, d->stride[1], d->dilation[1], columns, d->out[2]);
}

/* Both layouts become what is asked for, or what the engine likes best. */
static int32_t settle(dhowi_cuda_conv *conv, uint32_t best, dhow_error *err) {
    dhow_conv_desc *d = &conv->desc;
    if (d->src_layout == DHOW_LAYOUT_ANY) d->src_layout = d->dst_layout;
    if (d->src_layout == DHOW_LAYOUT_ANY) d->src_layout = best;
    if (d->dst_layout == DHOW_LAYOUT_ANY) d->dst_layout = best;
    if (d->src_layout == d->dst_layout) return DHOW_OK;
    return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: x and y have one layout",
                             conv->device->name);
}

static int32_t plan_by(const dhowi_cuda_conv_engine *engine, dhowi_cuda_device *device,
                       const dhow_conv_desc *desc, dhowi_cuda_conv **out, dhow_error *err) {
    dhowi_cuda_conv conv = {.engine = engine, .device = device, .desc = *desc};
    measure(&conv);
    int32_t status = settle(&conv, engine->layout(desc), err);
    if (status != DHOW_OK) return status;
    bool entered;
    const cudaError_t code = dhowi_cuda_require(device, &entered);
    if (code == cudaSuccess) {
        const enum cudaStreamCaptureMode mode = dhowi_cuda_relax(); /* heuristics may allocate */
        status = engine->plan(&conv, out, err);
        dhowi_cuda_unrelax(mode);
    } else {
        status = dhowi_cuda_fail(err, code, "%s: a plan of a convolution", device->name);
    }
    dhowi_cuda_leave(entered);
    return status;
}

static uint64_t image_bytes(const dhowi_cuda_conv *conv, int64_t channels, const int64_t *extents) {
    int64_t count = conv->desc.n * channels;
    for (int i = 0; i < conv->spatial; i++) count *= extents[i];
    return (uint64_t)count * dhowi_cuda_conv_element_bytes(&conv->desc);
}

/* Where each channel is by itself and lies in NHWC, dhow's kernel is faster than cuDNN: on an H100
 * twice with windows of 3 x 3, and many times with 7 x 7. */
static bool wants_own_kernel(const dhow_conv_desc *d) {
    const bool depthwise = d->groups == d->c && d->k == d->c && d->c > 1;
    const bool in_blocks = d->src_layout == DHOW_LAYOUT_NHWC || d->dst_layout == DHOW_LAYOUT_NHWC;
    return depthwise && (in_blocks || d->dtype != DHOW_F32 || d->compute != DHOW_F32);
}

static int32_t plan(void *device_pointer, const dhow_conv_desc *given, void **out_plan,
                    dhow_conv_plan_info *out_info, dhow_error *err) {
    static const struct {
        const dhowi_cuda_conv_engine *engine;
        uint32_t choices;
    } engines[] = {{&dhowi_cuda_conv_by_cudnn, DHOWI_CUDA_CONV_AUTO | DHOWI_CUDA_CONV_CUDNN},
                   {&dhowi_cuda_conv_by_product, DHOWI_CUDA_CONV_AUTO | DHOWI_CUDA_CONV_CUBLAS}};
    enum { ENGINES = sizeof engines / sizeof engines[0] };
    dhowi_cuda_device *device = device_pointer;
    dhowi_cuda_conv *conv = NULL;
    dhow_conv_desc own = {0}; /* an older host knows less of it */
    const dhow_conv_desc *desc = &own;
    memcpy(&own, given, given->struct_size < sizeof own ? given->struct_size : sizeof own);
    *out_plan = NULL;
    int32_t status = check(device, desc, err);
    if (status != DHOW_OK) return status;
    const bool is_turned = wants_own_kernel(desc);
    status = DHOW_UNSUPPORTED;
    for (int i = 0; i < ENGINES && status == DHOW_UNSUPPORTED; i++) {
        const int at = is_turned ? ENGINES - 1 - i : i;
        const bool may_round =
            engines[at].engine == &dhowi_cuda_conv_by_cudnn; /* Winograd's, FFT */
        if (may_round && (desc->flags & DHOW_CONV_EXACT_SUMS) != 0) continue;
        if ((engines[at].choices & device->backend->conv) != 0)
            status = plan_by(engines[at].engine, device, desc, &conv, err);
    }
    if (status != DHOW_OK) return status;
    const dhow_conv_desc *d = &conv->desc;
    out_info->src_layout = d->src_layout;
    out_info->dst_layout = d->dst_layout;
    out_info->workspace_bytes = conv->workspace_bytes;
    out_info->packed_bytes = conv->packed_bytes;
    out_info->src_bytes = image_bytes(conv, d->c, conv->in);
    out_info->dst_bytes = image_bytes(conv, d->k, conv->out);
    *out_plan = conv;
    return DHOW_OK;
}

/* ---- weights and layouts -------------------------------------------------------------------- */

static int32_t pack(void *plan_pointer, void *stream, dhow_buffer weight, dhow_buffer packed,
                    dhow_error *err) {
    dhowi_cuda_conv *conv = plan_pointer;
    return conv->engine->pack(conv, stream, weight, packed, err);
}

/* Each engine packs weights of an extent in one way, but for how far it pads them. */
static uint64_t packed_form(void *plan_pointer) {
    const dhowi_cuda_conv *conv = plan_pointer;
    return 2 * conv->packed_bytes + (conv->engine == &dhowi_cuda_conv_by_cudnn);
}

static int32_t reorder(void *device_pointer, void *stream, int32_t dtype, const int64_t *shape,
                       uint32_t src_layout, dhow_buffer src, uint32_t dst_layout, dhow_buffer dst,
                       dhow_error *err) {
    dhowi_cuda_device *device = device_pointer;
    dhowi_cuda_conv_kernels kernels;
    const int64_t n = shape[0], channels = shape[1], pixels = shape[2] * shape[3];
    const bool to_last = dst_layout == DHOW_LAYOUT_NHWC;
    if (!is_convolved(dtype) || src_layout + dst_layout != DHOW_LAYOUT_NCHW + DHOW_LAYOUT_NHWC)
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: cannot change layout %u to %u",
                                 device->name, src_layout, dst_layout);
    const int32_t status =
        dhowi_cuda_conv_kernels_of(device, dtype, n * channels * pixels, &kernels, err);
    if (status != DHOW_OK) return status;
    const dhowi_cuda_conv_box box = dhowi_cuda_conv_turned(n, channels, pixels, to_last);
    return dhowi_cuda_conv_copy(&kernels, stream, &box, src, dst, err);
}

/* ---- running -------------------------------------------------------------------------------- */

static int32_t run(void *plan_pointer, void *stream, dhow_buffer x, dhow_buffer weight,
                   dhow_buffer y, dhow_buffer bias, dhow_buffer residual, dhow_buffer workspace,
                   dhow_error *err) {
    dhowi_cuda_conv *conv = plan_pointer;
    const dhowi_cuda_conv_buffers buffers = {x, weight, y, bias, residual, workspace};
    return conv->engine->run(conv, stream, &buffers, err);
}

static void destroy(void *plan_pointer) {
    dhowi_cuda_conv *conv = plan_pointer;
    conv->engine->destroy(conv);
}

const dhow_conv dhowi_cuda_conv_table = {.struct_size = (uint32_t)sizeof(dhow_conv),
                                         .minor = 5,
                                         .plan = plan,
                                         .pack = pack,
                                         .run = run,
                                         .destroy = destroy,
                                         .reorder = reorder,
                                         .packed_form = packed_form};
