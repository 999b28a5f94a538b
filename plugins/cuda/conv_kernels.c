/* SPDX-License-Identifier: Apache-2.0
 *
 * See conv_kernels.h.
 */
#include "conv_kernels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* `params`: of the kernel as it is launched here; the texts are written elsewhere. */
static int32_t kernel_of(dhowi_cuda_device *device, const char *operation, const char *type,
                         uint32_t index_bits, int32_t params, void **out, dhow_error *err) {
    char name[32];
    (void)snprintf(name, sizeof name, "%s_%s", operation, type);
    const int32_t status = dhowi_cuda_builtin_kernel(device, name, index_bits, out, err);
    const dhowi_cuda_kernel *kernel = *out;
    if (status == DHOW_OK && kernel->param_count >= 0 && kernel->param_count != params)
        return dhowi_cuda_refuse(err, DHOW_INTERNAL, "%s: kernel %s takes %d arguments, not %d",
                                 device->name, name, kernel->param_count, params);
    if (status != DHOW_NOT_FOUND) return status;
    return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: the plugin has no code of %s for it",
                             device->name, name);
}

int32_t dhowi_cuda_conv_kernels_of(dhowi_cuda_device *device, int32_t dtype, int64_t elements,
                                   dhowi_cuda_conv_kernels *out, dhow_error *err) {
    /* As the host chooses: with room for items that run past the end. */
    const uint32_t bits = elements < INT32_MAX - (1 << 24) ? 32 : 64;
    const char *type = dtype == DHOW_F32 ? "f32" : dtype == DHOW_F16 ? "f16" : "bf16";
    int32_t status =
        kernel_of(device, "copy_dims", dtype == DHOW_F32 ? "u32" : "u16", bits, 3, &out->copy, err);
    if (status == DHOW_OK) status = kernel_of(device, "add", type, bits, 4, &out->add, err);
    if (status == DHOW_OK) status = kernel_of(device, "im2col", type, bits, 19, &out->im2col, err);
    if (status == DHOW_OK)
        status = kernel_of(device, "depthwise", type, bits, 27, &out->depthwise, err);
    return status;
}

/* ---- arguments ------------------------------------------------------------------------------ */

static dhow_arg buffer(dhow_buffer b, uint32_t access) {
    return (dhow_arg){.kind = DHOW_ARG_BUFFER, .bytes = access, .u.buffer = {b.handle, b.offset}};
}
static dhow_arg in(dhow_buffer b) { return buffer(b, DHOW_ACCESS_READ); }
static dhow_arg out(dhow_buffer b) { return buffer(b, DHOW_ACCESS_WRITE); }

static dhow_arg i64(int64_t value) {
    return (dhow_arg){.kind = DHOW_ARG_VALUE, .bytes = 8, .u.value = (uint64_t)value};
}

static dhow_arg i32(uint32_t value) {
    return (dhow_arg){.kind = DHOW_ARG_VALUE, .bytes = 4, .u.value = value};
}

static dhow_arg f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return i32(bits);
}

/* How kernels of convolutions take their window. */
#define WINDOW(d)                                                                                \
    i64((d)->kh), i64((d)->kw), i64((d)->stride[0]), i64((d)->stride[1]), i64((d)->dilation[0]), \
        i64((d)->dilation[1]), i64((d)->pad[0]), i64((d)->pad[1])

static int32_t launch(dhowi_cuda_stream *stream, void *kernel, int64_t work, const dhow_arg *args,
                      size_t count, dhow_error *err) {
    const dhow_geometry geometry = {.work = (uint64_t)work};
    return dhowi_cuda_launch(stream, kernel, &geometry, args, (uint32_t)count, err);
}
#define LAUNCH(stream, kernel, work, args, err) \
    launch(stream, kernel, work, args, sizeof(args) / sizeof(args)[0], err)

/* ---- kernels -------------------------------------------------------------------------------- */

dhowi_cuda_conv_box dhowi_cuda_conv_turned(int64_t n, int64_t channels, int64_t pixels,
                                           bool to_last) {
    const int64_t rows = to_last ? pixels : channels, cols = to_last ? channels : pixels;
    return (dhowi_cuda_conv_box){
        .shape = {n, rows, cols}, .from = {rows * cols, 1, rows}, .to = {rows * cols, cols, 1}};
}

/* What k.h calls the multiplier of an extent: kernels of 32-bit indices divide by it. */
static int64_t multiplier(int64_t extent) {
    const uint64_t divisor = (uint64_t)extent, one = UINT64_C(1) << 32;
    int up = 0;
    if (extent > INT32_MAX) return 0;
    while ((UINT64_C(1) << up) < divisor) up++;
    return (int64_t)(((one << up) + divisor - 1) / divisor - one);
}

int32_t dhowi_cuda_conv_copy(const dhowi_cuda_conv_kernels *kernels, dhowi_cuda_stream *stream,
                             const dhowi_cuda_conv_box *box, dhow_buffer from, dhow_buffer to,
                             dhow_error *err) {
    dhow_dims dims = {.rank = 3};
    memcpy(dims.shape, box->shape, sizeof box->shape);
    memcpy(dims.stride[0], box->from, sizeof box->from);
    memcpy(dims.stride[1], box->to, sizeof box->to);
    for (int i = 0; i < 3; i++) dims.stride[2][i] = multiplier(box->shape[i]);
    const dhow_arg args[] = {in(from), out(to), {.kind = DHOW_ARG_DIMS, .u.dims = &dims}};
    return LAUNCH(stream, kernels->copy, box->shape[0] * box->shape[1] * box->shape[2], args, err);
}

int32_t dhowi_cuda_conv_add(const dhowi_cuda_conv_kernels *kernels, dhowi_cuda_stream *stream,
                            int64_t count, dhow_buffer x, dhow_buffer y, dhow_error *err) {
    const dhow_arg args[] = {in(y), in(x), out(y), i64(count)};
    return LAUNCH(stream, kernels->add, count, args, err);
}

/* A kernel gets as many groups as its items want: those of 16 bytes of channels. */
static int64_t items_of(const dhow_conv_desc *d, int64_t pixels, int64_t channels) {
    const int64_t lanes = 16 / (int64_t)dhowi_cuda_conv_element_bytes(d);
    return pixels * (channels % lanes == 0 ? channels / lanes : channels);
}

int32_t dhowi_cuda_conv_im2col(const dhowi_cuda_conv_kernels *kernels, dhowi_cuda_stream *stream,
                               const dhowi_cuda_conv *conv, dhow_buffer x, dhow_buffer matrix,
                               int64_t first, int64_t pixels, int64_t row, dhow_error *err) {
    const dhow_conv_desc *d = &conv->desc;
    const dhow_arg args[] = {
        in(x),     out(matrix),       i64(first),        i64(pixels),    i64(d->c), i64(d->h),
        i64(d->w), i64(conv->out[0]), i64(conv->out[1]), i64(d->groups), WINDOW(d), i64(row)};
    const int64_t items = items_of(d, pixels * d->groups, d->c / d->groups);
    return LAUNCH(stream, kernels->im2col, items, args, err);
}

int32_t dhowi_cuda_conv_depthwise(const dhowi_cuda_conv_kernels *kernels, dhowi_cuda_stream *stream,
                                  const dhowi_cuda_conv *conv, const dhowi_cuda_conv_buffers *b,
                                  dhow_error *err) {
    const dhow_conv_desc *d = &conv->desc;
    const bool biased = dhowi_cuda_conv_has(conv, DHOW_EPILOGUE_BIAS);
    const bool adds = dhowi_cuda_conv_has(conv, DHOW_EPILOGUE_RESIDUAL);
    const bool held = d->src_activation == DHOW_ACTIVATION_CLIP; /* else ReLU, or as it is */
    const dhow_arg args[] = {in(b->x),
                             in(b->weight),
                             in(biased ? b->bias : b->weight), /* not read where there is none */
                             in(adds ? b->residual : b->y),
                             out(b->y),
                             i64(d->n),
                             i64(d->c),
                             i64(d->h),
                             i64(d->w),
                             i64(conv->out[0]),
                             i64(conv->out[1]),
                             WINDOW(d),
                             i32(biased),
                             i32(adds),
                             i32(d->activation),
                             f32(d->activation_alpha),
                             f32(d->activation_beta),
                             i32(d->src_activation != DHOW_ACTIVATION_NONE),
                             f32(held ? d->src_activation_alpha : 0),
                             f32(held ? d->src_activation_beta : INFINITY)};
    const int64_t items = items_of(d, d->n * conv->out[0] * conv->out[1], d->c);
    return LAUNCH(stream, kernels->depthwise, items, args, err);
}
