/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans of "dhow.conv/1" by Winograd's transforms, where they take less time than oneDNN's direct
 * convolution.
 */
#include <omp.h>
#include <string.h>

#include "onednn.h"
#include "shares.h"
#include "winograd.h"

typedef struct winograd_plan {
    const dhow_conv *table;
    dhow_conv_desc desc;
    const winograd_tiles *tiles;
    winograd_job job; /* without addresses */
    int64_t count, chunk, room;
    onednn_work work; /* without primitives */
} winograd_plan;

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* ---- whether it pays ---- */

static int fits(const dhow_conv_desc *d) {
    int whole = d->stride[0] == 1 && d->stride[1] == 1 && d->dilation[0] == 1 &&
                d->dilation[1] == 1 && d->kh == 3 && d->kw == 3 && d->groups == 1 && d->depth == 0;
    for (int i = 0; i < 4; i++) whole = whole && d->pad[i] >= 0 && d->pad[i] <= 2;
    return whole && d->dtype == DHOW_F32 && d->weight_dtype == DHOW_F32 && d->compute == DHOW_F32 &&
           (d->flags & DHOW_BLAS_CONSTANT_B) &&
           !(d->flags &
             (DHOW_CONV_TRANSPOSED | DHOW_CONV_WEIGHT_GRADIENT | DHOW_CONV_EXACT_SUMS)) &&
           cpu_activates(d->activation);
}

/* Chunks of tiles, of which each thread gets as many as others. */
typedef struct division {
    int64_t chunk, chunks;
    double rows; /* that the busiest thread multiplies */
} division;

static division divide(const winograd_tiles *t, int64_t k, int64_t count, int threads) {
    const int64_t rows = t->rows(k);
    division best = {.rows = 0};
    for (int64_t chunk = rows; chunk <= t->most; chunk += rows) {
        const int64_t chunks = ceil_div(count, chunk);
        const double busiest = (double)(ceil_div(chunks, threads) * chunk);
        if (best.chunk == 0 || busiest < 1.02 * best.rows) /* larger ones read weights less often */
            best = (division){chunk, chunks, busiest};
    }
    return best;
}

/* Vectors that are multiplied and added in a cycle, as seen on Zen 4 with both sets of
 * instructions: of direct sums, of products here, which begin and end so many channels late; and
 * cycles of a vector's transforms in a tile. Weights beyond what a cache holds come so many bytes
 * in a cycle, whatever the threads. */
static int pays(const dhow_conv_desc *d, const winograd_tiles *t, int64_t count, int threads) {
    static const double direct_rate = 0.95, rate = 0.9, late = 4, pixels = 300, sums = 270;
    static const double cached = 2 << 20, bytes_per_cycle = 8;
    const double c = (double)d->c, in = (double)ceil_div(d->c, t->lanes),
                 out = (double)ceil_div(d->k, t->lanes);
    const double weights = (double)winograd_packed(t, d->k, d->c) * sizeof(float);
    const double places = (double)(d->n * onednn_extent(d, 0) * onednn_extent(d, 1));
    const double direct = places * 9 * c * out / direct_rate / threads;
    double own = divide(t, d->k, count, threads).rows *
                 (WINOGRAD_POINTS * (c + late) * out / rate + pixels * in + sums * out);
    if (weights > cached) own += weights / bytes_per_cycle;
    return own < 0.85 * direct;
}

/* ---- layouts ---- */

/* The form that oneDNN likes best with the same instructions. */
static uint32_t layout_for(const dhow_conv_desc *d, const winograd_tiles *t) {
    const uint32_t blocks = (uint32_t)t->lanes, own = t->lanes == 16 ? DHOW_LAYOUT_NHWC : blocks;
    const uint32_t src = d->src_layout == DHOW_LAYOUT_ANY ? own : d->src_layout;
    const uint32_t dst = d->dst_layout == DHOW_LAYOUT_ANY ? src : d->dst_layout;
    if (src != dst || (src != DHOW_LAYOUT_NHWC && src != blocks)) return DHOW_LAYOUT_ANY;
    if (src == blocks && (d->c % t->lanes != 0 || d->k % t->lanes != 0)) return DHOW_LAYOUT_ANY;
    return src;
}

static winograd_image image_of(int64_t height, int64_t width, int64_t channels, uint32_t layout,
                               int64_t lanes) {
    const int nhwc = layout == DHOW_LAYOUT_NHWC;
    return (winograd_image){.height = height,
                            .width = width,
                            .channels = channels,
                            .pixel = nhwc ? channels : lanes,
                            .vector = nhwc ? lanes : height * width * lanes,
                            .image = height * width * channels};
}

/* ---- plans ---- */

static void winograd_destroy(void *handle) {
    winograd_plan *plan = handle;
    const dhow_host *host = plan->work.device->backend->host;
    host->free(host->user, plan);
}

/* Those of the instructions that oneDNN uses too, and with them its layouts. */
static const winograd_tiles *tiles_of(const cpu_device *device, const onednn_library *dnnl) {
    if (device->isa == CPU_ISA_V4 && onednn_computes_with(dnnl, dnnl_cpu_isa_avx512_core))
        return &winograd_tiles_v4;
    const int narrow = onednn_computes_with(dnnl, dnnl_cpu_isa_avx2);
    return device->isa >= CPU_ISA_V3 && narrow ? &winograd_tiles_v3 : NULL;
}

static int32_t winograd_plan_make(void *handle, const dhow_conv_desc *d, void **out_plan,
                                  dhow_conv_plan_info *out_info, dhow_error *err) {
    cpu_device *device = handle;
    const dhow_host *host = device->backend->host;
    const cpu_when when = device->backend->winograd;
    *out_plan = NULL;
    if (!fits(d) || when == CPU_NEVER) return DHOW_UNSUPPORTED;
    const onednn_library *dnnl = onednn_open(err);
    const winograd_tiles *t = dnnl ? tiles_of(device, dnnl) : NULL;
    if (!t) return DHOW_UNSUPPORTED;
    const uint32_t layout = layout_for(d, t);
    const int64_t height = onednn_extent(d, 0), width = onednn_extent(d, 1);
    const int64_t down = ceil_div(height, WINOGRAD_RESULTS),
                  across = ceil_div(width, WINOGRAD_RESULTS);
    if (layout == DHOW_LAYOUT_ANY ||
        (when != CPU_ALWAYS && !pays(d, t, d->n * down * across, device->team.threads)))
        return DHOW_UNSUPPORTED;
    winograd_plan *plan = host->alloc(host->user, sizeof *plan, 64);
    if (!plan) return cpu_fail(err, DHOW_OUT_OF_MEMORY, 0, "cannot allocate a convolution plan");
    memset(plan, 0, sizeof *plan);
    plan->table = &cpu_winograd;
    plan->desc = *d;
    plan->tiles = t;
    plan->count = d->n * down * across;
    plan->job =
        (winograd_job){.from = image_of(d->h, d->w, d->c, layout, t->lanes),
                       .to = image_of(height, width, d->k, layout, t->lanes),
                       .top = d->pad[0],
                       .left = d->pad[1],
                       .tiles_down = down,
                       .tiles_across = across,
                       .activation = {d->activation, d->activation_alpha, d->activation_beta}};
    plan->chunk = divide(t, d->k, plan->count, device->team.threads).chunk;
    plan->room = winograd_room(t, d->c, plan->chunk);
    onednn_work_init(&plan->work, device,
                     (double)plan->count * WINOGRAD_POINTS * (double)d->c * (double)d->k);
    *out_info = (dhow_conv_plan_info){
        .struct_size = out_info->struct_size,
        .src_layout = layout,
        .dst_layout = layout,
        .workspace_bytes = (uint64_t)(plan->room * device->team.threads) * sizeof(float),
        .packed_bytes = (uint64_t)winograd_packed(t, d->k, d->c) * sizeof(float),
        .src_bytes = (uint64_t)(d->n * plan->job.from.image) * sizeof(float),
        .dst_bytes = (uint64_t)(d->n * plan->job.to.image) * sizeof(float)};
    *out_plan = plan;
    return DHOW_OK;
}

static int32_t winograd_pack_weight(void *handle, void *stream, dhow_buffer weight,
                                    dhow_buffer packed, dhow_error *err) {
    const winograd_plan *plan = handle;
    (void)stream, (void)err;
    winograd_pack(plan->tiles, onednn_address(weight), plan->desc.k, plan->desc.c,
                  onednn_address(packed));
    cpu_drop_subnormals(onednn_address(packed),
                        winograd_packed(plan->tiles, plan->desc.k, plan->desc.c));
    return DHOW_OK;
}

static int32_t winograd_run(void *handle, void *stream, dhow_buffer x, dhow_buffer weight,
                            dhow_buffer y, dhow_buffer bias, dhow_buffer residual,
                            dhow_buffer workspace, dhow_error *err) {
    winograd_plan *plan = handle;
    const uint32_t flags = plan->desc.flags;
    winograd_job job = plan->job;
    float *rooms = onednn_address(workspace);
    (void)stream, (void)err;
    job.x = onednn_address(x);
    job.weight = onednn_address(weight);
    job.y = onednn_address(y);
    job.bias = flags & DHOW_EPILOGUE_BIAS ? onednn_address(bias) : NULL;
    job.residual = flags & DHOW_EPILOGUE_RESIDUAL ? onednn_address(residual) : NULL;
    const cpu_region region = onednn_work_begin(&plan->work);
    cpu_shares shares;
    cpu_shares_init(&shares, (plan->count + plan->chunk - 1) / plan->chunk, region.threads);
#pragma omp parallel num_threads(region.threads) if (region.threads > 1)
    CPU_EACH_ITEM(shares, i) {
        const int64_t first = i * plan->chunk, rest = plan->count - first;
        plan->tiles->run(&job, first, rest < plan->chunk ? rest : plan->chunk,
                         rooms + omp_get_thread_num() * plan->room);
    }
    onednn_work_end(&plan->work, &region);
    return DHOW_OK;
}

static uint64_t winograd_packed_form(void *plan) {
    (void)plan;
    return WINOGRAD_FORM;
}

const dhow_conv cpu_winograd = {.struct_size = (uint32_t)sizeof(dhow_conv),
                                .minor = 1,
                                .plan = winograd_plan_make,
                                .pack = winograd_pack_weight,
                                .run = winograd_run,
                                .destroy = winograd_destroy,
                                .packed_form = winograd_packed_form};
