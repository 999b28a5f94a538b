/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans of "dhow.conv/1" for convolutions as dot products, by tiles and by planes, which need no
 * code to be written.
 */
#include <string.h>

#include "dots.h"
#include "onednn.h"
#include "planes.h"
#include "shares.h"
#include "tiles.h"

typedef struct window_plan {
    const dhow_conv *table;
    window_job job; /* without addresses */
    void (*pack)(const window_job *job, const float *weight, float *packed);
    void (*part)(const window_job *job, int64_t part);
    int64_t packed; /* floats of the weight, 0 where it stays as it is */
    uint64_t form;
    uint32_t flags, src, dst; /* layouts where it may choose */
    int64_t rows;             /* of all results, or parts of planes */
    onednn_work work;         /* without primitives */
} window_plan;

static int fits(const dhow_conv_desc *d) {
    return d->dtype == DHOW_F32 && d->weight_dtype == DHOW_F32 && d->compute == DHOW_F32 &&
           (d->flags & DHOW_BLAS_CONSTANT_B) &&
           !(d->flags & (DHOW_CONV_TRANSPOSED | DHOW_CONV_WEIGHT_GRADIENT)) &&
           cpu_ends_with(d->activation);
}

/* One channel lies alike in NHWC and NCHW, as many as a block has in NHWC and blocks. */
static int is_nhwc(uint32_t layout, int64_t channels) {
    return layout == DHOW_LAYOUT_ANY || layout == DHOW_LAYOUT_NHWC ||
           (layout == DHOW_LAYOUT_NCHW && channels == 1) ||
           (layout == DHOW_LAYOUT_BLOCKS_8 && channels == 8);
}

static int is_in_blocks(uint32_t layout, int64_t channels, int lanes) {
    return layout == (uint32_t)lanes && channels % lanes == 0;
}

static void set_form(window_plan *plan, uint32_t dst, int lanes) {
    window_job *job = &plan->job;
    const int64_t image = job->out_height * job->out_width;
    const int in_blocks = is_in_blocks(dst, job->k, lanes);
    job->pixel = in_blocks ? lanes : job->k;
    job->vector = in_blocks ? image * lanes : lanes;
    job->image = image * job->k;
}

/* ---- dot products ---- */

/* Vectors that are multiplied and added for a result of all channels, by oneDNN, which computes as
 * many channels at once as a vector has, and here, where each result also is the sum of a vector.
 * oneDNN writes long windows out instruction by instruction, which takes it up to 0.1 s. */
static int dots_pay(const dhow_conv_desc *d, const window_job *job) {
    enum { SUM = 4 /* as many as a vector's sum takes */, LONG = 128 };
    const int64_t block = dots_block(d->k), channels = (d->k + block - 1) / block * block;
    const double direct = (double)(d->kh * d->kw * d->c) * (double)(dots_padded(d->k) / DOTS_LANES),
                 own = (double)(dots_packed(job) / DOTS_LANES + SUM * channels);
    return own < (dots_run(job) >= LONG && d->c == 1 ? 1.25 : 0.8) * direct;
}

static int choose_dots(const cpu_device *device, const dhow_conv_desc *d, window_plan *plan) {
    const cpu_when when = device->backend->dots;
    const window_job *job = &plan->job;
    if (device->isa != CPU_ISA_V4 || when == CPU_NEVER || !is_nhwc(d->src_layout, d->c) ||
        !is_nhwc(d->dst_layout, d->k) || (when != CPU_ALWAYS && !dots_pay(d, job)))
        return 0;
    plan->pack = dots_pack;
    plan->part = dots_part;
    plan->packed = dots_packed(job);
    plan->form = job->dilation[1] == 1 ? DOTS_FORM : DOTS_DILATED_FORM;
    return 1;
}

/* ---- tiles ---- */

/* Long rows: oneDNN takes 4 us for each pixel of a row to write its code. Many multiplications for
 * a pixel are worth that. */
static int is_long_row(const dhow_conv_desc *d, const window_job *job) {
    enum { LONG = 512, MANY = 48 << 10 };
    return d->h == 1 && job->out_width >= LONG && d->kw > 1 && d->c * d->k * d->kw <= MANY;
}

/* Whether tiles of six pixels, whose windows the ends of the row cut alike, make up for pixels by
 * themselves, which take nearly half as long each. */
static int are_tiles_whole(const window_job *job) {
    const int64_t tile = TILES_PIXELS;
    double spent = 0;
    for (int64_t w = 0, end; w < job->out_width; w = end) {
        end = window_run_at(job, w, job->out_width).end;
        spent += end - w < tile ? 0.42 * (double)(end - w) : (double)((end - w + tile - 1) / tile);
    }
    return (double)tile * spent < 1.5 * (double)job->out_width;
}

/* With AVX2 oneDNN gathers windows that reach beyond the image by more than it computes at once,
 * for a product; and adds up three pixels of 8 channels, where the instructions take ten to do so
 * without waiting. */
static int is_slow_with_avx2(const dhow_conv_desc *d, const window_job *job) {
    enum { REACH = 3, LANES = 8 };
    const int reaches =
        d->pad[1] > REACH && ((d->h > 1 && d->k <= 2 * LANES) || are_tiles_whole(job));
    return d->kh * d->kw > 1 && d->c > 1 && (reaches || (d->h > 1 && d->k <= LANES && d->k > 2));
}

/* The layout of x, where tiles can read the one that is asked for; else any. Narrow tiles read all
 * that there are, the first images of a network and blocks of channels among them. */
static uint32_t tiles_src(const tiles *t, const dhow_conv_desc *d, int images) {
    const uint32_t blocks = DHOW_LAYOUT_BLOCKS_8, plain = DHOW_LAYOUT_NCHW;
    const int narrow = t == &tiles_v3, has_blocks = narrow && d->c % t->lanes == 0;
    if (narrow && d->src_layout == plain) return plain;
    if (has_blocks && d->src_layout == blocks) return blocks;
    if (d->src_layout == DHOW_LAYOUT_ANY && images)
        return has_blocks ? blocks : narrow && d->c < t->lanes ? plain : DHOW_LAYOUT_NHWC;
    return is_nhwc(d->src_layout, d->c) ? DHOW_LAYOUT_NHWC : DHOW_LAYOUT_ANY;
}

static int choose_tiles(const cpu_device *device, const dhow_conv_desc *d, window_plan *plan) {
    const cpu_when when = device->backend->tiles;
    window_job *job = &plan->job;
    if (device->isa < CPU_ISA_V3 || when == CPU_NEVER) return 0;
    /* Half of a wide vector would be empty. */
    const tiles *t = device->isa == CPU_ISA_V4 && d->k > tiles_v3.lanes ? &tiles_v4 : &tiles_v3;
    const int images = device->isa == CPU_ISA_V3 && is_slow_with_avx2(d, job);
    const uint32_t src = tiles_src(t, d, images);
    if (src == DHOW_LAYOUT_ANY ||
        (!is_nhwc(d->dst_layout, d->k) && !is_in_blocks(d->dst_layout, d->k, t->lanes)))
        return 0;
    if (when != CPU_ALWAYS && !images && !is_long_row(d, job)) return 0;
    plan->src = src;
    job->src_block = src == DHOW_LAYOUT_NCHW ? 1 : src == DHOW_LAYOUT_NHWC ? d->c : t->lanes;
    if (images && d->k % t->lanes == 0) plan->dst = DHOW_LAYOUT_BLOCKS_8;
    plan->pack = t->pack;
    plan->part = t->part;
    plan->packed = tiles_packed(t, job);
    plan->form = t == &tiles_v4 ? TILES_FORM : NARROW_TILES_FORM;
    job->part = 0; /* as threads share rows best */
    set_form(plan, d->dst_layout == DHOW_LAYOUT_ANY ? plan->dst : d->dst_layout, t->lanes);
    return 1;
}

/* With AVX2 oneDNN multiplies groups of fewer channels than a vector has one after the other. */
static int choose_groups(const cpu_device *device, const dhow_conv_desc *d, window_plan *plan) {
    const cpu_when when = device->backend->tiles;
    const uint32_t blocks = DHOW_LAYOUT_BLOCKS_8;
    if (device->isa < CPU_ISA_V3 || when == CPU_NEVER ||
        (when != CPU_ALWAYS && device->isa != CPU_ISA_V3) || d->c != d->k ||
        d->c != d->groups * TILES_GROUP || d->c % tiles_v3.lanes != 0 ||
        (d->src_layout != DHOW_LAYOUT_ANY && d->src_layout != blocks) ||
        (d->dst_layout != DHOW_LAYOUT_ANY && d->dst_layout != blocks))
        return 0;
    plan->src = plan->dst = blocks;
    plan->pack = tiles_v3.pack_groups;
    plan->part = tiles_v3.part_of_groups;
    plan->packed = tiles_packed_groups(&plan->job);
    plan->form = GROUPED_TILES_FORM;
    plan->job.part = 0;
    set_form(plan, blocks, tiles_v3.lanes);
    return 1;
}

/* ---- planes ---- */

/* Where windows reach beyond the image by more pixels of a row than oneDNN computes at once, it has
 * no code for blocks of channels either: 31 neighbours of a row take it 50 times as long. */
static int is_beyond_blocks(const cpu_device *device, const dhow_conv_desc *d) {
    const int64_t at_once = device->isa == CPU_ISA_V4 ? 6 : 4,
                  behind = (onednn_extent(d, 1) - 1) * d->stride[1] - d->pad[1] +
                           (d->kw - 1) * d->dilation[1] + 1 - d->w;
    return d->pad[1] > at_once || behind > at_once;
}

static int are_planes(const cpu_device *device, const dhow_conv_desc *d, const window_job *job) {
    return device->isa >= CPU_ISA_V3 && device->backend->tiles != CPU_NEVER && d->groups > 1 &&
           d->groups == d->c && d->kw <= PLANES_MOST_TAPS && job->parts > 0;
}

/* Plain images are computed as they are where they can be, and where turning them twice takes
 * longer: small ones turn fast. */
static int choose_planes(const cpu_device *device, const dhow_conv_desc *d, window_plan *plan) {
    enum { NARROW = 8 }; /* half of a wide vector would be empty */
    const uint32_t plain = DHOW_LAYOUT_NCHW;
    const int is_wide = device->isa == CPU_ISA_V4, beyond = is_beyond_blocks(device, d),
              large = plan->job.out_width > (is_wide ? NARROW : 2 * NARROW),
              src = d->src_layout == plain || (d->src_layout == DHOW_LAYOUT_ANY && beyond),
              dst = d->dst_layout == plain || (d->dst_layout == DHOW_LAYOUT_ANY &&
                                               (beyond || (d->src_layout == plain && large)));
    if (!are_planes(device, d, &plan->job) || !src || !dst) return 0;
    plan->src = plan->dst = plain;
    plan->part = is_wide && plan->job.out_width > NARROW ? planes_v4 : planes_v3;
    return 1;
}

static int choose(const cpu_device *device, const dhow_conv_desc *d, window_plan *plan) {
    if (choose_planes(device, d, plan)) return 1;
    if (d->depth != 0 || !cpu_activates(d->activation)) return 0;
    if (d->groups > 1) return choose_groups(device, d, plan);
    return choose_dots(device, d, plan) || choose_tiles(device, d, plan);
}

/* ---- plans ---- */

static void window_plan_destroy(void *handle) {
    window_plan *plan = handle;
    const dhow_host *host = plan->work.device->backend->host;
    host->free(host->user, plan);
}

static uint32_t settled(uint32_t layout, uint32_t own) {
    return layout == DHOW_LAYOUT_ANY ? own : layout;
}

static window_job job_of(const dhow_conv_desc *d) {
    enum { PART = 64 }; /* as many neighbours as let threads share even a single row */
    const int is_volume = d->depth != 0;
    window_job job = {.height = d->h,
                      .width = d->w,
                      .c = d->c,
                      .k = d->k,
                      .src_block = d->c,
                      .out_height = onednn_extent(d, 0),
                      .out_width = onednn_extent(d, 1),
                      .kh = d->kh,
                      .kw = d->kw,
                      .stride = {d->stride[0], d->stride[1]},
                      .dilation = {d->dilation[0], d->dilation[1]},
                      .pad = {d->pad[0], d->pad[1]},
                      .depth = is_volume ? d->depth : 1,
                      .out_depth = is_volume ? onednn_depth(d) : 1,
                      .kd = is_volume ? d->kd : 1,
                      .stride_d = is_volume ? d->stride_d : 1,
                      .dilation_d = is_volume ? d->dilation_d : 1,
                      .pad_d = is_volume ? d->pad_d[0] : 0,
                      .part = PART,
                      .activation = {d->activation, d->activation_alpha, d->activation_beta}};
    planes_divide(&job);
    return job;
}

int cpu_wants_planes(const cpu_device *device, const dhow_conv_desc *d) {
    const window_job job = job_of(d);
    return fits(d) && are_planes(device, d, &job) && is_beyond_blocks(device, d);
}

static int32_t window_plan_make(void *handle, const dhow_conv_desc *d, void **out_plan,
                                dhow_conv_plan_info *out_info, dhow_error *err) {
    cpu_device *device = handle;
    const dhow_host *host = device->backend->host;
    *out_plan = NULL;
    if (!fits(d)) return DHOW_UNSUPPORTED;
    window_plan made = {.table = &cpu_windows,
                        .flags = d->flags,
                        .src = DHOW_LAYOUT_NHWC,
                        .dst = DHOW_LAYOUT_NHWC,
                        .job = job_of(d)};
    if (!choose(device, d, &made)) return DHOW_UNSUPPORTED;
    const onednn_library *dnnl = onednn_open(err);
    const dnnl_cpu_isa_t isa =
        device->isa == CPU_ISA_V4 ? dnnl_cpu_isa_avx512_core : dnnl_cpu_isa_avx2;
    if (!dnnl || !onednn_computes_with(dnnl, isa)) return DHOW_UNSUPPORTED;
    window_plan *plan = host->alloc(host->user, sizeof *plan, 64);
    if (!plan) return cpu_fail(err, DHOW_OUT_OF_MEMORY, 0, "cannot allocate a convolution plan");
    const int64_t planes = d->n * made.job.out_depth, rows = planes * made.job.out_height,
                  results = rows * made.job.out_width;
    *plan = made;
    plan->rows = made.packed > 0 ? rows : planes * d->k * made.job.parts;
    onednn_work_init(
        &plan->work, device,
        (double)results *
            (double)(made.packed > 0 ? made.packed : d->k * made.job.kd * d->kh * d->kw));
    *out_info = (dhow_conv_plan_info){
        .struct_size = out_info->struct_size,
        .src_layout = settled(d->src_layout, made.src),
        .dst_layout = settled(d->dst_layout, made.dst),
        .packed_bytes = (uint64_t)made.packed * sizeof(float),
        .src_bytes = (uint64_t)(d->n * made.job.depth * d->h * d->w * d->c) * sizeof(float),
        .dst_bytes = (uint64_t)(results * d->k) * sizeof(float)};
    *out_plan = plan;
    return DHOW_OK;
}

static int32_t window_plan_pack(void *handle, void *stream, dhow_buffer weight, dhow_buffer packed,
                                dhow_error *err) {
    const window_plan *plan = handle;
    (void)stream, (void)err;
    plan->pack(&plan->job, onednn_address(weight), onednn_address(packed));
    cpu_drop_subnormals(onednn_address(packed), plan->packed);
    return DHOW_OK;
}

/* Parts that stay in the nearest cache, as many of them for each thread, of whole tiles. */
static int64_t part_for(const window_plan *plan, int threads) {
    enum { MOST = 48, TILE = 12 };
    const int64_t width = plan->job.out_width,
                  parts = (plan->rows * width + MOST * threads - 1) / (MOST * threads) * threads,
                  each = (parts + plan->rows - 1) / plan->rows, part = (width + each - 1) / each;
    return (part + TILE - 1) / TILE * TILE;
}

static int32_t window_plan_run(void *handle, void *stream, dhow_buffer x, dhow_buffer weight,
                               dhow_buffer y, dhow_buffer bias, dhow_buffer residual,
                               dhow_buffer workspace, dhow_error *err) {
    window_plan *plan = handle;
    window_job job = plan->job;
    (void)stream, (void)workspace, (void)err;
    job.x = onednn_address(x);
    job.weight = onednn_address(weight);
    job.y = onednn_address(y);
    job.bias = plan->flags & DHOW_EPILOGUE_BIAS ? onednn_address(bias) : NULL;
    job.residual = plan->flags & DHOW_EPILOGUE_RESIDUAL ? onednn_address(residual) : NULL;
    const cpu_region region = onednn_work_begin(&plan->work);
    if (job.part == 0) job.part = part_for(plan, region.threads);
    cpu_shares shares;
    cpu_shares_init(&shares, plan->rows * (plan->packed > 0 ? window_parts(&job) : 1),
                    region.threads);
#pragma omp parallel num_threads(region.threads) if (region.threads > 1)
    CPU_EACH_ITEM(shares, part) plan->part(&job, part);
    onednn_work_end(&plan->work, &region);
    return DHOW_OK;
}

static uint64_t window_packed_form(void *handle) { return ((const window_plan *)handle)->form; }

const dhow_conv cpu_windows = {.struct_size = (uint32_t)sizeof(dhow_conv),
                               .minor = 1,
                               .plan = window_plan_make,
                               .pack = window_plan_pack,
                               .run = window_plan_run,
                               .destroy = window_plan_destroy,
                               .packed_form = window_packed_form};
