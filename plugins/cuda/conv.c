/* SPDX-License-Identifier: Apache-2.0
 *
 * dhow.conv/1: of the engines that there are, the first that takes a convolution computes it.
 * Images lie in NCHW or NHWC, x and y in the same.
 */
#include "conv.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    dhowi_cuda_conv_choice choice;
} k_choices[] = {
    {"auto", DHOWI_CUDA_CONV_AUTO}, {"cudnn", DHOWI_CUDA_CONV_CUDNN}, {"off", DHOWI_CUDA_CONV_OFF}};

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
                             "DHOW_CUDA_CONV is '%.64s'; it may be auto, cudnn or off", word);
}

/* ---- plans ---------------------------------------------------------------------------------- */

static bool is_plain(uint32_t layout) {
    return layout == DHOW_LAYOUT_NCHW || layout == DHOW_LAYOUT_NHWC || layout == DHOW_LAYOUT_ANY;
}

static int32_t check(const dhowi_cuda_device *device, const dhow_conv_desc *d, dhow_error *err) {
    if ((d->dtype != DHOW_F32 && d->dtype != DHOW_F16 && d->dtype != DHOW_BF16) ||
        d->weight_dtype != d->dtype)
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: convolves f32, f16 and bf16",
                                 device->name);
    if (!is_plain(d->src_layout) || !is_plain(d->dst_layout))
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: convolves images in NCHW and NHWC",
                                 device->name);
    if (d->n < 1 || d->c < 1 || d->h < 1 || d->w < 1 || d->k < 1)
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: the images are empty", device->name);
    return DHOW_OK;
}

static int64_t output_extent(const dhow_conv_desc *d, int i) {
    const int64_t extent = i == 0 ? d->h : d->w, kernel = i == 0 ? d->kh : d->kw;
    return (extent + d->pad[i] + d->pad[i + 2] - ((kernel - 1) * d->dilation[i] + 1)) /
               d->stride[i] +
           1;
}

/* Both layouts become what is asked for, or what the engine likes best; the weight follows. */
static int32_t settle(dhowi_cuda_conv *conv, uint32_t best, dhow_error *err) {
    dhow_conv_desc *d = &conv->desc;
    const bool reordered = d->kh * d->kw > 1 && d->c > d->groups;
    if (reordered && !dhowi_cuda_conv_has(conv, DHOW_BLAS_CONSTANT_B)) best = DHOW_LAYOUT_NCHW;
    if (d->src_layout == DHOW_LAYOUT_ANY) d->src_layout = d->dst_layout;
    if (d->src_layout == DHOW_LAYOUT_ANY) d->src_layout = best;
    if (d->dst_layout == DHOW_LAYOUT_ANY) d->dst_layout = d->src_layout;
    conv->packed = d->src_layout == DHOW_LAYOUT_NHWC && reordered;
    if (d->src_layout != d->dst_layout)
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: x and y have one layout",
                                 conv->device->name);
    if (conv->packed && !dhowi_cuda_conv_has(conv, DHOW_BLAS_CONSTANT_B))
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED,
                                 "%s: in NHWC the weight is packed, and this one may change",
                                 conv->device->name);
    return DHOW_OK;
}

static int32_t plan_by(const dhowi_cuda_conv_engine *engine, dhowi_cuda_device *device,
                       const dhow_conv_desc *desc, dhowi_cuda_conv **out, dhow_error *err) {
    dhowi_cuda_conv conv = {.engine = engine, .device = device, .desc = *desc};
    for (int i = 0; i < 2; i++) conv.out[i] = output_extent(desc, i);
    int32_t status = settle(&conv, engine->layout(desc), err);
    if (status != DHOW_OK) return status;
    bool entered;
    const cudaError_t code = dhowi_cuda_require(device, &entered);
    status = code == cudaSuccess
                 ? engine->plan(&conv, out, err)
                 : dhowi_cuda_fail(err, code, "%s: a plan of a convolution", device->name);
    dhowi_cuda_leave(entered);
    return status;
}

static uint64_t image_bytes(const dhow_conv_desc *d, int64_t channels, int64_t h, int64_t w) {
    return (uint64_t)(d->n * channels * h * w) * dhowi_cuda_conv_element_bytes(d);
}

static uint64_t weight_bytes(const dhow_conv_desc *d) {
    return (uint64_t)(d->k * (d->c / d->groups) * d->kh * d->kw) * dhowi_cuda_conv_element_bytes(d);
}

static int32_t plan(void *device_pointer, const dhow_conv_desc *desc, void **out_plan,
                    dhow_conv_plan_info *out_info, dhow_error *err) {
    static const struct {
        const dhowi_cuda_conv_engine *engine;
        uint32_t choices;
    } engines[] = {{&dhowi_cuda_conv_by_cudnn, DHOWI_CUDA_CONV_AUTO | DHOWI_CUDA_CONV_CUDNN}};
    dhowi_cuda_device *device = device_pointer;
    dhowi_cuda_conv *conv = NULL;
    *out_plan = NULL;
    int32_t status = check(device, desc, err);
    if (status != DHOW_OK) return status;
    status = DHOW_UNSUPPORTED;
    for (size_t i = 0; i < sizeof engines / sizeof engines[0] && status == DHOW_UNSUPPORTED; i++) {
        if ((engines[i].choices & device->backend->conv) != 0)
            status = plan_by(engines[i].engine, device, desc, &conv, err);
    }
    if (status != DHOW_OK) return status;
    const dhow_conv_desc *d = &conv->desc;
    out_info->src_layout = d->src_layout;
    out_info->dst_layout = d->dst_layout;
    out_info->workspace_bytes = conv->workspace_bytes;
    out_info->packed_bytes = conv->packed ? weight_bytes(d) : 0;
    out_info->src_bytes = image_bytes(d, d->c, d->h, d->w);
    out_info->dst_bytes = image_bytes(d, d->k, conv->out[0], conv->out[1]);
    *out_plan = conv;
    return DHOW_OK;
}

/* ---- weights and layouts -------------------------------------------------------------------- */

/* Turns count matrices [rows][cols] of elements around; a copy for each row. It is done once for a
 * weight, and needs no kernel of dhow's. */
static int32_t transpose(dhowi_cuda_stream *stream, uint64_t element, int64_t count, int64_t rows,
                         int64_t cols, dhow_buffer from, dhow_buffer to, dhow_error *err) {
    const uint64_t r = (uint64_t)rows, c = (uint64_t)cols, plane = r * c * element;
    int32_t status = DHOW_OK;
    for (uint64_t col = 0; col < c && status == DHOW_OK; col++) {
        const dhow_copy_rect rect = {.extent = {element, r, (uint64_t)count},
                                     .src = {.handle = from.handle,
                                             .offset = from.offset + col * element,
                                             .pitch = {c * element, plane}},
                                     .dst = {.handle = to.handle,
                                             .offset = to.offset + col * r * element,
                                             .pitch = {element, plane}}};
        status = dhowi_cuda_copy(stream, &rect, err);
    }
    return status;
}

/* [k][c/groups][kh kw] becomes [k][kh kw][c/groups]. */
static int32_t pack(void *plan_pointer, void *stream, dhow_buffer weight, dhow_buffer packed,
                    dhow_error *err) {
    const dhow_conv_desc *d = &((dhowi_cuda_conv *)plan_pointer)->desc;
    return transpose(stream, dhowi_cuda_conv_element_bytes(d), d->k, d->c / d->groups,
                     d->kh * d->kw, weight, packed, err);
}

/* core makes images' layouts by copies of its own; this is for other hosts. */
static int32_t reorder(void *device, void *stream, int32_t dtype, const int64_t *shape,
                       uint32_t src_layout, dhow_buffer src, uint32_t dst_layout, dhow_buffer dst,
                       dhow_error *err) {
    (void)stream, (void)dtype, (void)shape, (void)src, (void)dst;
    return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: does not change layout %u to %u",
                             ((dhowi_cuda_device *)device)->name, src_layout, dst_layout);
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
                                         .minor = 0,
                                         .plan = plan,
                                         .pack = pack,
                                         .run = run,
                                         .destroy = destroy,
                                         .reorder = reorder};
