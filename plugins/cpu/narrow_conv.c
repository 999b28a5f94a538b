/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans of "dhow.conv/1" for convolutions to few channels.
 */
#include <string.h>

#include "narrow.h"
#include "onednn.h"

typedef struct narrow_plan {
    const dhow_conv *table;
    narrow_job job; /* without addresses */
    uint32_t flags;
    int64_t rows;
    onednn_work work; /* without primitives */
} narrow_plan;

/* oneDNN fills a vector with as many channels as the result has, and computes all 16. */
static int fits(const cpu_device *device, const dhow_conv_desc *d) {
    const int nhwc = (d->src_layout == DHOW_LAYOUT_ANY || d->src_layout == DHOW_LAYOUT_NHWC) &&
                     (d->dst_layout == DHOW_LAYOUT_ANY || d->dst_layout == DHOW_LAYOUT_NHWC);
    return device->isa == CPU_ISA_V4 && nhwc && d->k <= NARROW_MOST && d->c >= NARROW_LANES &&
           d->groups == 1 && d->depth == 0 && d->dtype == DHOW_F32 && d->weight_dtype == DHOW_F32 &&
           d->compute == DHOW_F32 && (d->flags & DHOW_BLAS_CONSTANT_B) &&
           !(d->flags & (DHOW_CONV_TRANSPOSED | DHOW_CONV_WEIGHT_GRADIENT)) &&
           cpu_activates(d->activation);
}

static void narrow_destroy(void *handle) {
    narrow_plan *plan = handle;
    const dhow_host *host = plan->work.device->backend->host;
    host->free(host->user, plan);
}

static int32_t narrow_plan_make(void *handle, const dhow_conv_desc *d, void **out_plan,
                                dhow_conv_plan_info *out_info, dhow_error *err) {
    cpu_device *device = handle;
    const dhow_host *host = device->backend->host;
    *out_plan = NULL;
    if (!fits(device, d)) return DHOW_UNSUPPORTED;
    const onednn_library *dnnl = onednn_open(err);
    if (!dnnl || !onednn_computes_with(dnnl, dnnl_cpu_isa_avx512_core)) return DHOW_UNSUPPORTED;
    narrow_plan *plan = host->alloc(host->user, sizeof *plan, 64);
    if (!plan) return cpu_fail(err, DHOW_OUT_OF_MEMORY, 0, "cannot allocate a convolution plan");
    memset(plan, 0, sizeof *plan);
    const int64_t height = onednn_extent(d, 0), width = onednn_extent(d, 1);
    const int64_t packed = d->kh * d->kw * d->k * narrow_padded(d->c);
    plan->table = &cpu_narrow;
    plan->flags = d->flags;
    plan->rows = d->n * height;
    plan->job =
        (narrow_job){.height = d->h,
                     .width = d->w,
                     .c = d->c,
                     .k = d->k,
                     .out_height = height,
                     .out_width = width,
                     .kh = d->kh,
                     .kw = d->kw,
                     .stride = {d->stride[0], d->stride[1]},
                     .dilation = {d->dilation[0], d->dilation[1]},
                     .pad = {d->pad[0], d->pad[1]},
                     .activation = {d->activation, d->activation_alpha, d->activation_beta}};
    onednn_work_init(&plan->work, device, (double)(plan->rows * width) * (double)packed);
    *out_info =
        (dhow_conv_plan_info){.struct_size = out_info->struct_size,
                              .src_layout = DHOW_LAYOUT_NHWC,
                              .dst_layout = DHOW_LAYOUT_NHWC,
                              .packed_bytes = (uint64_t)packed * sizeof(float),
                              .src_bytes = (uint64_t)(d->n * d->h * d->w * d->c) * sizeof(float),
                              .dst_bytes = (uint64_t)(plan->rows * width * d->k) * sizeof(float)};
    *out_plan = plan;
    return DHOW_OK;
}

/* [kh][kw][k][c], with channels of 0 behind. */
static int32_t narrow_pack(void *handle, void *stream, dhow_buffer weight, dhow_buffer packed,
                           dhow_error *err) {
    const narrow_job *job = &((narrow_plan *)handle)->job;
    const int64_t taps = job->kh * job->kw, padded = narrow_padded(job->c);
    const float *from = onednn_address(weight);
    float *to = onednn_address(packed);
    (void)stream, (void)err;
    memset(to, 0, (size_t)(taps * job->k * padded) * sizeof *to);
    for (int64_t at = 0; at < job->k * job->c; at++)
        for (int64_t t = 0; t < taps; t++)
            to[(t * job->k + at / job->c) * padded + at % job->c] = from[at * taps + t];
    return DHOW_OK;
}

static int32_t narrow_run(void *handle, void *stream, dhow_buffer x, dhow_buffer weight,
                          dhow_buffer y, dhow_buffer bias, dhow_buffer residual,
                          dhow_buffer workspace, dhow_error *err) {
    narrow_plan *plan = handle;
    narrow_job job = plan->job;
    (void)stream, (void)workspace, (void)err;
    job.x = onednn_address(x);
    job.weight = onednn_address(weight);
    job.y = onednn_address(y);
    job.bias = plan->flags & DHOW_EPILOGUE_BIAS ? onednn_address(bias) : NULL;
    job.residual = plan->flags & DHOW_EPILOGUE_RESIDUAL ? onednn_address(residual) : NULL;
    const cpu_region region = onednn_work_begin(&plan->work);
    const int64_t part = plan->rows / (4 * region.threads) + 1;
#pragma omp parallel for schedule(dynamic, part) num_threads(region.threads) if (region.threads > 1)
    for (int64_t row = 0; row < plan->rows; row++) narrow_row(&job, row);
    onednn_work_end(&plan->work, &region);
    return DHOW_OK;
}

const dhow_conv cpu_narrow = {.struct_size = (uint32_t)sizeof(dhow_conv),
                              .minor = 1,
                              .plan = narrow_plan_make,
                              .pack = narrow_pack,
                              .run = narrow_run,
                              .destroy = narrow_destroy};
