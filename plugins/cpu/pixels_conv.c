/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans of "dhow.conv/1" for windows of one pixel of plain images: the weight times the pixels
 * where they lie, by panels. oneDNN blocks channels, which groups of other counts than a block has
 * cannot be, and multiplies plain images by its sgemm.
 */
#include "onednn.h"
#include "shares.h"

typedef struct pixel_plan {
    const dhow_conv *table;
    dhow_conv_desc desc;
    panels *multiply;
    activate_values *activate;
    onednn_work work; /* without primitives */
} pixel_plan;

static int is_of_pixels(const dhow_conv_desc *d) {
    return d->depth == 0 && d->kh == 1 && d->kw == 1 && d->stride[0] == 1 && d->stride[1] == 1 &&
           d->pad[0] == 0 && d->pad[1] == 0 && d->pad[2] == 0 && d->pad[3] == 0 &&
           !(d->flags & (DHOW_CONV_TRANSPOSED | DHOW_CONV_WEIGHT_GRADIENT));
}

static int is_of_floats(const dhow_conv_desc *d) {
    return d->dtype == DHOW_F32 && d->weight_dtype == DHOW_F32 && d->compute == DHOW_F32 &&
           cpu_ends_with(d->activation);
}

/* Fewer are no panel. */
static int has_pixels(const dhow_conv_desc *d) {
    enum { FEWEST = 8 };
    return d->h * d->w >= FEWEST;
}

static panels *panels_for(const cpu_device *device, const dhow_conv_desc *d) {
    return is_of_pixels(d) && is_of_floats(d) && has_pixels(d)
               ? cpu_panels(device, d->k / d->groups, d->h * d->w, d->c / d->groups)
               : NULL;
}

int cpu_keeps_plain(const cpu_device *device, const dhow_conv_desc *d) {
    enum { BLOCK = 16 };
    const int cut = d->c / d->groups % BLOCK != 0 || d->k / d->groups % BLOCK != 0;
    return d->groups > 1 && (cut || device->isa == CPU_ISA_V3) && panels_for(device, d);
}

static int is_plain(uint32_t layout, int kept) {
    return layout == DHOW_LAYOUT_NCHW || (kept && layout == DHOW_LAYOUT_ANY);
}

static void pixel_plan_destroy(void *handle) {
    pixel_plan *plan = handle;
    const dhow_host *host = plan->work.device->backend->host;
    host->free(host->user, plan);
}

static int32_t pixel_plan_make(void *handle, const dhow_conv_desc *d, void **out_plan,
                               dhow_conv_plan_info *out_info, dhow_error *err) {
    cpu_device *device = handle;
    const dhow_host *host = device->backend->host;
    *out_plan = NULL;
    panels *multiply = panels_for(device, d);
    const int kept = multiply && cpu_keeps_plain(device, d);
    if (!multiply || !is_plain(d->src_layout, kept) || !is_plain(d->dst_layout, kept))
        return DHOW_UNSUPPORTED;
    pixel_plan *plan = host->alloc(host->user, sizeof *plan, 64);
    if (!plan) return cpu_fail(err, DHOW_OUT_OF_MEMORY, 0, "cannot allocate a convolution plan");
    *plan = (pixel_plan){.table = &cpu_pixels,
                         .desc = *d,
                         .multiply = multiply,
                         .activate = device->isa == CPU_ISA_V4 ? activate_v4 : activate_v3};
    onednn_work_init(&plan->work, device, onednn_products(d));
    *out_info =
        (dhow_conv_plan_info){.struct_size = out_info->struct_size,
                              .src_layout = DHOW_LAYOUT_NCHW,
                              .dst_layout = DHOW_LAYOUT_NCHW,
                              .src_bytes = (uint64_t)(d->n * d->c * d->h * d->w) * sizeof(float),
                              .dst_bytes = (uint64_t)(d->n * d->k * d->h * d->w) * sizeof(float)};
    *out_plan = plan;
    return DHOW_OK;
}

/* Neighbouring pixels of a group of channels. */
typedef struct pixel_part {
    int64_t group; /* of all images */
    int64_t first, end;
} pixel_part;

static void run_part(const pixel_plan *plan, const panels_job *of_all, pixel_part part) {
    const dhow_conv_desc *d = &plan->desc;
    panels_job job = *of_all;
    const int64_t k = part.group % d->groups * job.m, y = part.group * job.m * job.n;
    job.a += k * job.k;
    job.b += part.group * job.k * job.n;
    job.c += y;
    if (job.row_bias) job.row_bias += k;
    if (job.added) job.added += y;
    plan->multiply(&job, part.first, part.end);
    if (!job.relu && d->activation != DHOW_ACTIVATION_NONE) /* what was just computed */
        activate_rows(plan->activate, job.c + part.first, job.n, job.m, part.end - part.first,
                      &(cpu_activation){d->activation, d->activation_alpha, d->activation_beta});
}

static int32_t pixel_plan_run(void *handle, void *stream, dhow_buffer x, dhow_buffer weight,
                              dhow_buffer y, dhow_buffer bias, dhow_buffer residual,
                              dhow_buffer workspace, dhow_error *err) {
    pixel_plan *plan = handle;
    const dhow_conv_desc *d = &plan->desc;
    const int64_t pixels = d->h * d->w, channels = d->c / d->groups;
    const panels_job job = {
        .m = d->k / d->groups,
        .n = pixels,
        .k = channels,
        .a = onednn_address(weight),
        .a_row = channels,
        .a_column = 1,
        .b = onednn_address(x),
        .b_row = pixels,
        .b_column = 1,
        .c = onednn_address(y),
        .ldc = pixels,
        .row_bias = d->flags & DHOW_EPILOGUE_BIAS ? onednn_address(bias) : NULL,
        .added = d->flags & DHOW_EPILOGUE_RESIDUAL ? onednn_address(residual) : NULL,
        .added_row = pixels,
        .alpha = 1,
        .beta = 1,
        .relu = d->activation == DHOW_ACTIVATION_RELU};
    (void)stream, (void)workspace, (void)err;
    const cpu_region region = onednn_work_begin(&plan->work);
    const int64_t groups = d->n * d->groups, whole = (pixels + PANEL_COLUMNS - 1) / PANEL_COLUMNS,
                  each = onednn_part_of(&region, groups, whole) * PANEL_COLUMNS,
                  across = (pixels + each - 1) / each;
    cpu_shares shares;
    cpu_shares_init(&shares, groups * across, region.threads);
#pragma omp parallel num_threads(region.threads) if (region.threads > 1)
    CPU_EACH_ITEM(shares, part) {
        const int64_t first = part % across * each, end = first + each;
        run_part(plan, &job, (pixel_part){part / across, first, end < pixels ? end : pixels});
    }
    onednn_work_end(&plan->work, &region);
    return DHOW_OK;
}

const dhow_conv cpu_pixels = {.struct_size = (uint32_t)sizeof(dhow_conv),
                              .minor = 1,
                              .plan = pixel_plan_make,
                              .run = pixel_plan_run,
                              .destroy = pixel_plan_destroy};
