/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans of "dhow.conv/1" for convolutions as dot products.
 */
#include <string.h>

#include "dots.h"
#include "onednn.h"

typedef struct dots_plan {
    const dhow_conv *table;
    dots_job job; /* without addresses */
    uint32_t flags;
    int64_t parts;
    onednn_work work; /* without primitives */
} dots_plan;

static int fits(const cpu_device *device, const dhow_conv_desc *d) {
    /* One channel lies alike in both. */
    const int src = d->src_layout == DHOW_LAYOUT_ANY || d->src_layout == DHOW_LAYOUT_NHWC ||
                    (d->src_layout == DHOW_LAYOUT_NCHW && d->c == 1);
    const int dst = d->dst_layout == DHOW_LAYOUT_ANY || d->dst_layout == DHOW_LAYOUT_NHWC ||
                    (d->dst_layout == DHOW_LAYOUT_NCHW && d->k == 1);
    return device->isa == CPU_ISA_V4 && src && dst && d->groups == 1 && d->depth == 0 &&
           d->dtype == DHOW_F32 && d->weight_dtype == DHOW_F32 && d->compute == DHOW_F32 &&
           (d->flags & DHOW_BLAS_CONSTANT_B) &&
           !(d->flags & (DHOW_CONV_TRANSPOSED | DHOW_CONV_WEIGHT_GRADIENT)) &&
           cpu_activates(d->activation);
}

/* Vectors that are multiplied and added for a result of all channels, by oneDNN, which computes as
 * many channels at once as a vector has, and here, where each result also is the sum of a vector.
 * oneDNN writes long windows out instruction by instruction, which takes it up to 0.1 s. */
static int pays(const dhow_conv_desc *d, const dots_job *job) {
    enum { SUM = 4 /* as many as a vector's sum takes */, LONG = 128 };
    const int64_t block = dots_block(d->k), channels = (d->k + block - 1) / block * block;
    const double direct = (double)(d->kh * d->kw * d->c) * (double)(dots_padded(d->k) / DOTS_LANES),
                 own = (double)(dots_packed(job) / DOTS_LANES + SUM * channels);
    return own < (dots_run(job) >= LONG && d->c == 1 ? 1.25 : 0.8) * direct;
}

static void dots_plan_destroy(void *handle) {
    dots_plan *plan = handle;
    const dhow_host *host = plan->work.device->backend->host;
    host->free(host->user, plan);
}

static uint32_t settled(uint32_t layout) {
    return layout == DHOW_LAYOUT_ANY ? DHOW_LAYOUT_NHWC : layout;
}

static dots_job job_of(const dhow_conv_desc *d) {
    enum { PART = 64 }; /* as many neighbours as let threads share even a single row */
    return (dots_job){.height = d->h,
                      .width = d->w,
                      .c = d->c,
                      .k = d->k,
                      .out_height = onednn_extent(d, 0),
                      .out_width = onednn_extent(d, 1),
                      .kh = d->kh,
                      .kw = d->kw,
                      .stride = {d->stride[0], d->stride[1]},
                      .dilation = {d->dilation[0], d->dilation[1]},
                      .pad = {d->pad[0], d->pad[1]},
                      .part = PART,
                      .activation = {d->activation, d->activation_alpha, d->activation_beta}};
}

static int32_t dots_plan_make(void *handle, const dhow_conv_desc *d, void **out_plan,
                              dhow_conv_plan_info *out_info, dhow_error *err) {
    cpu_device *device = handle;
    const dhow_host *host = device->backend->host;
    const cpu_when when = device->backend->dots;
    *out_plan = NULL;
    if (!fits(device, d) || when == CPU_NEVER) return DHOW_UNSUPPORTED;
    const dots_job job = job_of(d);
    if (when != CPU_ALWAYS && !pays(d, &job)) return DHOW_UNSUPPORTED;
    const onednn_library *dnnl = onednn_open(err);
    if (!dnnl || !onednn_computes_with(dnnl, dnnl_cpu_isa_avx512_core)) return DHOW_UNSUPPORTED;
    dots_plan *plan = host->alloc(host->user, sizeof *plan, 64);
    if (!plan) return cpu_fail(err, DHOW_OUT_OF_MEMORY, 0, "cannot allocate a convolution plan");
    memset(plan, 0, sizeof *plan);
    const int64_t results = d->n * job.out_height * job.out_width;
    plan->table = &cpu_dots;
    plan->flags = d->flags;
    plan->parts = d->n * job.out_height * dots_parts(&job);
    plan->job = job;
    onednn_work_init(&plan->work, device, (double)results * (double)dots_packed(&job));
    *out_info =
        (dhow_conv_plan_info){.struct_size = out_info->struct_size,
                              .src_layout = settled(d->src_layout),
                              .dst_layout = settled(d->dst_layout),
                              .packed_bytes = (uint64_t)dots_packed(&job) * sizeof(float),
                              .src_bytes = (uint64_t)(d->n * d->h * d->w * d->c) * sizeof(float),
                              .dst_bytes = (uint64_t)(results * d->k) * sizeof(float)};
    *out_plan = plan;
    return DHOW_OK;
}

static int32_t dots_plan_pack(void *handle, void *stream, dhow_buffer weight, dhow_buffer packed,
                              dhow_error *err) {
    (void)stream, (void)err;
    dots_pack(&((dots_plan *)handle)->job, onednn_address(weight), onednn_address(packed));
    return DHOW_OK;
}

static int32_t dots_plan_run(void *handle, void *stream, dhow_buffer x, dhow_buffer weight,
                             dhow_buffer y, dhow_buffer bias, dhow_buffer residual,
                             dhow_buffer workspace, dhow_error *err) {
    dots_plan *plan = handle;
    dots_job job = plan->job;
    (void)stream, (void)workspace, (void)err;
    job.x = onednn_address(x);
    job.weight = onednn_address(weight);
    job.y = onednn_address(y);
    job.bias = plan->flags & DHOW_EPILOGUE_BIAS ? onednn_address(bias) : NULL;
    job.residual = plan->flags & DHOW_EPILOGUE_RESIDUAL ? onednn_address(residual) : NULL;
    const cpu_region region = onednn_work_begin(&plan->work);
    const int64_t chunk = plan->parts / (4 * region.threads) + 1;
#pragma omp parallel for schedule(dynamic, chunk) \
    num_threads(region.threads) if (region.threads > 1)
    for (int64_t part = 0; part < plan->parts; part++) dots_part(&job, part);
    onednn_work_end(&plan->work, &region);
    return DHOW_OK;
}

static uint64_t dots_packed_form(void *handle) {
    const dots_plan *plan = handle;
    return plan->job.dilation[1] == 1 ? DOTS_FORM : DOTS_DILATED_FORM;
}

const dhow_conv cpu_dots = {.struct_size = (uint32_t)sizeof(dhow_conv),
                            .minor = 1,
                            .plan = dots_plan_make,
                            .pack = dots_plan_pack,
                            .run = dots_plan_run,
                            .destroy = dots_plan_destroy,
                            .packed_form = dots_packed_form};
