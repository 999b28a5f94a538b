/* SPDX-License-Identifier: Apache-2.0
 *
 * "dhow.conv/1": convolutions that like their images in the layout that DHOW_SIM=images= names, as
 * vendor libraries do on one processor or another. Plain loops: what counts is that the host keeps
 * images in that layout from one convolution to the next, and loses nothing on the way.
 */
#include <string.h>

#include "sim.h"

/* ---- layouts ---- */

static int is_layout(uint32_t layout) {
    return layout == DHOW_LAYOUT_NCHW || layout == DHOW_LAYOUT_NHWC ||
           layout == DHOW_LAYOUT_BLOCKS_4 || layout == DHOW_LAYOUT_BLOCKS_8 ||
           layout == DHOW_LAYOUT_BLOCKS_16;
}

/* Channels in memory: those of the last block are padded with zeros. */
static int64_t stored_channels(const sim_image *i) {
    const int64_t block = i->layout > DHOW_LAYOUT_ANY ? (int64_t)i->layout : 1;
    return (i->c + block - 1) / block * block;
}

static int64_t index_of(const sim_image *i, int64_t n, int64_t c, int64_t pixel) {
    const int64_t channels = stored_channels(i), pixels = i->h * i->w;
    const int64_t block = i->layout == DHOW_LAYOUT_NCHW   ? 1
                          : i->layout == DHOW_LAYOUT_NHWC ? channels
                                                          : (int64_t)i->layout;
    return (n * channels + c / block * block) * pixels + pixel * block + c % block;
}

static uint64_t bytes_of(int32_t dtype) {
    return dtype == DHOW_F64 ? 8 : dtype == DHOW_U8 || dtype == DHOW_I8 ? 1 : 4;
}

static uint64_t image_bytes(const sim_image *i, int32_t dtype) {
    return (uint64_t)(i->n * stored_channels(i) * i->h * i->w) * bytes_of(dtype);
}

/* ---- numbers ---- */

static double get(const void *memory, int32_t dtype, int64_t at) {
    return dtype == DHOW_F64 ? ((const double *)memory)[at] : (double)((const float *)memory)[at];
}

static void put(void *memory, int32_t dtype, int64_t at, double value) {
    if (dtype == DHOW_F64) {
        ((double *)memory)[at] = value;
    } else {
        ((float *)memory)[at] = (float)value;
    }
}

/* ---- convolving ---- */

static double sum_at(const sim_conv_plan *p, const void *x, const void *weight, int64_t n,
                     int64_t k, int64_t row, int64_t column) {
    const dhow_conv_desc *d = &p->desc;
    const int64_t inner = d->c / d->groups, first = k / (d->k / d->groups) * inner;
    double sum = 0;
    for (int64_t c = 0; c < inner; c++) {
        for (int64_t i = 0; i < d->kh; i++) {
            for (int64_t j = 0; j < d->kw; j++) {
                const int64_t h = row * d->stride[0] + i * d->dilation[0] - d->pad[0];
                const int64_t w = column * d->stride[1] + j * d->dilation[1] - d->pad[1];
                if (h < 0 || h >= d->h || w < 0 || w >= d->w) continue;
                const double value = get(x, d->dtype, index_of(&p->x, n, first + c, h * d->w + w));
                sum += sim_activate(d->src_activation, d->src_activation_alpha,
                                    d->src_activation_beta, value) *
                       get(weight, d->dtype, ((k * inner + c) * d->kh + i) * d->kw + j);
            }
        }
    }
    return sum;
}

static int32_t convolve(simdev_stream *stream, void *data, unsigned char *const *memory) {
    const sim_conv_plan *p = data;
    const dhow_conv_desc *d = &p->desc;
    const sim_image *y = &p->y;
    (void)stream;
    for (int64_t n = 0; n < y->n; n++) {
        for (int64_t k = 0; k < stored_channels(y); k++) {
            for (int64_t pixel = 0; pixel < y->h * y->w; pixel++) {
                const int64_t at = index_of(y, n, k, pixel);
                double value = 0;
                if (k < y->c) {
                    value = sum_at(p, memory[SIM_CONV_X], memory[SIM_CONV_WEIGHT], n, k,
                                   pixel / y->w, pixel % y->w);
                    if (memory[SIM_CONV_BIAS] != NULL)
                        value += get(memory[SIM_CONV_BIAS], d->dtype, k);
                    if (memory[SIM_CONV_RESIDUAL] != NULL)
                        value += get(memory[SIM_CONV_RESIDUAL], d->dtype, at);
                    value =
                        sim_activate(d->activation, d->activation_alpha, d->activation_beta, value);
                }
                put(memory[SIM_CONV_Y], d->dtype, at, value);
            }
        }
    }
    return DHOW_OK;
}

/* ---- slots ---- */

static int64_t extent_of(int64_t size, int64_t before, int64_t after, int64_t kernel,
                         int64_t dilation, int64_t stride) {
    return (size + before + after - dilation * (kernel - 1) - 1) / stride + 1;
}

/* What the host leaves open is what the device likes. */
static uint32_t settle(uint32_t asked, uint32_t liked) {
    return asked == DHOW_LAYOUT_ANY ? liked : asked;
}

/* As libraries on GPUs: with channels last CLIP, before as well as behind, is for convolutions of
 * each channel by itself. */
static int takes_clip(const dhow_conv_desc *d, uint32_t layout) {
    return layout != DHOW_LAYOUT_NHWC || (d->groups == d->c && d->k == d->c && d->c > 1) ||
           (d->activation != DHOW_ACTIVATION_CLIP && d->src_activation == DHOW_ACTIVATION_NONE);
}

static int32_t conv_plan(void *handle, const dhow_conv_desc *d, void **out_plan,
                         dhow_conv_plan_info *out_info, dhow_error *err) {
    const sim_device *device = handle;
    const uint32_t liked = simdev_device_images(device->native);
    const sim_image x = {settle(d->src_layout, liked), d->n, d->c, d->h, d->w};
    const sim_image y = {
        settle(d->dst_layout, liked), d->n, d->k,
        extent_of(d->h, d->pad[0], d->pad[2], d->kh, d->dilation[0], d->stride[0]),
        extent_of(d->w, d->pad[1], d->pad[3], d->kw, d->dilation[1], d->stride[1])};
    *out_plan = NULL;
    const int bytes =
        x.layout == DHOW_LAYOUT_NHWC && y.layout == DHOW_LAYOUT_NHWC && sim_takes_bytes(d);
    if (!bytes && ((d->dtype != DHOW_F32 && d->dtype != DHOW_F64) || d->weight_dtype != d->dtype))
        return sim_fail(err, DHOW_UNSUPPORTED,
                        "simulated devices convolve f32 and f64, and bytes with channels last");
    if ((d->flags & (DHOW_CONV_TRANSPOSED | DHOW_CONV_WEIGHT_GRADIENT)) != 0 || d->depth > 0)
        return sim_fail(err, DHOW_UNSUPPORTED, "simulated devices convolve images alone");
    if (!takes_clip(d, x.layout))
        return sim_fail(err, DHOW_UNSUPPORTED, "simulated devices hold single channels alone");
    if (!is_layout(x.layout) || !is_layout(y.layout))
        return sim_fail(err, DHOW_UNSUPPORTED, "simulated devices know no image layout %u",
                        is_layout(x.layout) ? y.layout : x.layout);
    sim_conv_plan *plan = sim_new(device->host, sizeof *plan);
    if (plan == NULL) return sim_fail(err, DHOW_OUT_OF_MEMORY, "no host memory for a plan");
    *plan = (sim_conv_plan){device->host, *d, x, y};
    *out_info =
        (dhow_conv_plan_info){.struct_size = out_info->struct_size,
                              .src_layout = x.layout,
                              .dst_layout = y.layout,
                              .src_bytes = image_bytes(&x, d->dtype),
                              .dst_bytes = image_bytes(&y, bytes ? d->dst_dtype : d->dtype)};
    *out_plan = plan;
    return DHOW_OK;
}

static int32_t conv_pack(void *plan, void *stream, dhow_buffer weight, dhow_buffer packed,
                         dhow_error *err) {
    (void)plan, (void)stream, (void)weight, (void)packed;
    return sim_fail(err, DHOW_UNSUPPORTED, "simulated devices pack no weights");
}

static int32_t conv_run(void *handle, void *stream, dhow_buffer x, dhow_buffer weight,
                        dhow_buffer y, dhow_buffer bias, dhow_buffer residual,
                        dhow_buffer workspace, dhow_error *err) {
    const sim_conv_plan *plan = handle;
    const dhow_conv_desc *d = &plan->desc;
    const int bytes = d->compute == DHOW_I32, rows = bytes && d->dst_dtype != DHOW_I32;
    const uint64_t x_bytes = image_bytes(&plan->x, d->dtype),
                   y_bytes = image_bytes(&plan->y, bytes ? d->dst_dtype : d->dtype),
                   weights =
                       (uint64_t)(d->k * (d->c / d->groups) * d->kh * d->kw) * bytes_of(d->dtype),
                   biases = bytes && !rows ? 4
                                           : (uint64_t)d->k * (bytes ? 4 * sim_byte_rows(d)
                                                                     : bytes_of(d->dtype)),
                   added = (d->flags & DHOW_CONV_ZERO_GIVEN) != 0
                               ? 4
                               : image_bytes(&plan->y, bytes ? d->residual_dtype : d->dtype);
    (void)workspace;
    simdev_job job = {.run = bytes ? sim_convolve_bytes : convolve,
                      .data = plan,
                      .data_bytes = sizeof *plan,
                      .range_count = SIM_CONV_OPERANDS};
    job.ranges[SIM_CONV_X] = sim_range(x, x_bytes, DHOW_ACCESS_READ);
    job.ranges[SIM_CONV_WEIGHT] = sim_range(weight, weights, DHOW_ACCESS_READ);
    job.ranges[SIM_CONV_Y] = sim_range(y, y_bytes, DHOW_ACCESS_WRITE);
    job.ranges[SIM_CONV_BIAS] = sim_range(bias, biases, DHOW_ACCESS_READ);
    job.ranges[SIM_CONV_RESIDUAL] = sim_range(residual, added, DHOW_ACCESS_READ);
    return simdev_call(((sim_stream *)stream)->native, &job, err);
}

static void conv_destroy(void *handle) {
    sim_conv_plan *plan = handle;
    sim_delete(plan->host, plan);
}

typedef struct reorder_data {
    int32_t dtype;
    sim_image from, to;
} reorder_data;

static int32_t run_reorder(simdev_stream *stream, void *data, unsigned char *const *memory) {
    const reorder_data *r = data;
    (void)stream;
    for (int64_t n = 0; n < r->to.n; n++) {
        for (int64_t c = 0; c < stored_channels(&r->to); c++) {
            for (int64_t pixel = 0; pixel < r->to.h * r->to.w; pixel++) {
                const double value =
                    c < r->to.c ? get(memory[0], r->dtype, index_of(&r->from, n, c, pixel)) : 0;
                put(memory[1], r->dtype, index_of(&r->to, n, c, pixel), value);
            }
        }
    }
    return DHOW_OK;
}

static int32_t conv_reorder(void *device, void *stream, int32_t dtype, const int64_t *shape,
                            uint32_t src_layout, dhow_buffer src, uint32_t dst_layout,
                            dhow_buffer dst, dhow_error *err) {
    const reorder_data data = {dtype,
                               {src_layout, shape[0], shape[1], shape[2], shape[3]},
                               {dst_layout, shape[0], shape[1], shape[2], shape[3]}};
    (void)device;
    if ((dtype != DHOW_F32 && dtype != DHOW_F64) || !is_layout(src_layout) ||
        !is_layout(dst_layout))
        return sim_fail(err, DHOW_UNSUPPORTED, "simulated devices cannot change layout %u to %u",
                        src_layout, dst_layout);
    simdev_job job = {.run = run_reorder,
                      .data = &data,
                      .data_bytes = sizeof data,
                      .range_count = 2,
                      .ranges = {sim_range(src, image_bytes(&data.from, dtype), DHOW_ACCESS_READ),
                                 sim_range(dst, image_bytes(&data.to, dtype), DHOW_ACCESS_WRITE)}};
    return simdev_call(((sim_stream *)stream)->native, &job, err);
}

static const dhow_conv sim_conv = {.struct_size = sizeof sim_conv,
                                   .minor = 7,
                                   .plan = conv_plan,
                                   .pack = conv_pack,
                                   .run = conv_run,
                                   .destroy = conv_destroy,
                                   .reorder = conv_reorder};

const void *sim_get_extension(void *device, const char *id) {
    if (strcmp(id, "dhow.native/1") == 0) return &sim_native;
    const int offered =
        simdev_device_images(((const sim_device *)device)->native) != DHOW_LAYOUT_NCHW;
    if (offered && strcmp(id, "dhow.blas/1") == 0) return &sim_blas;
    return offered && strcmp(id, "dhow.conv/1") == 0 ? &sim_conv : NULL;
}
