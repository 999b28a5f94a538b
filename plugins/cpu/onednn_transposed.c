/* SPDX-License-Identifier: Apache-2.0
 *
 * Transposed convolutions of images: a product of weight and image, whose rows are then added up to
 * rows of y. oneDNN's own (2.6) takes twice the time for its bias and ten times for an activation.
 */
#include <omp.h>
#include <string.h>

#include "onednn.h"
#include "shares.h"

enum {
    PRODUCT_BYTES = 1 << 19,       /* of a task, which stay in a core's cache */
    ENOUGH_ROWS = 48,              /* of the weight, for products to be fast */
    MOST_WORKSPACE_BYTES = 1 << 28 /* more makes no sense: the rows of such images are too long */
};

/* A task computes `rows` rows of `channels` channels of one group of one image. */
typedef struct transposed_plan {
    const dhow_conv *table;
    const onednn_library *dnnl;
    dhow_conv_desc desc;
    onednn_work work; /* without primitives */
    int64_t taps, rows, row_parts, channels, channel_parts;
    int64_t product_floats, room_floats; /* of a thread: the product and a row of sums */
} transposed_plan;

/* Elements of a row that lie across are lines apart, which fall upon each other in a cache. */
static int is_packed(const dhow_conv_desc *d) { return (d->flags & DHOW_BLAS_CONSTANT_B) != 0; }

static int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
static int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- sums ---- */

static void add(float *restrict to, const float *restrict from, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) to[i] += from[i];
}

/* Elements of y that lie `step` apart see the same taps and stand together in `sums`. */
static void spread(float *restrict y, const float *restrict sums, int64_t width, int64_t step) {
    const int64_t part = ceil_div(width, step), whole = step == 2 ? width / 2 : 0;
#pragma omp simd
    for (int64_t i = 0; i < whole; i++) {
        y[2 * i] = sums[i];
        y[2 * i + 1] = sums[part + i];
    }
    for (int64_t phase = 0; phase < step; phase++) {
        for (int64_t i = whole; i * step + phase < width; i++)
            y[i * step + phase] = sums[phase * part + i];
    }
}

/* Adds the products of one row of x with a row of the kernel. */
static void add_taps(const dhow_conv_desc *d, const float *product, int64_t apart, float *sums) {
    const int64_t step = d->stride[1], width = d->out[2], part = ceil_div(width, step);
    for (int64_t t = 0; t < d->kw; t++) {
        const int64_t at = t * d->dilation[1] - d->pad[1], shift = floor_div(at, step);
        const int64_t phase = at - shift * step, first = most(0, -shift);
        const int64_t end = least(d->w, ceil_div(width - phase, step) - shift);
        add(sums + phase * part + shift + first, product + t * apart + first, end - first);
    }
}

/* Rows of x that rows of y see. */
typedef struct row_range {
    int64_t begin, end;
} row_range;

static row_range rows_below(const dhow_conv_desc *d, int64_t first, int64_t end) {
    const int64_t reach = (d->kh - 1) * d->dilation[0];
    return (row_range){most(0, ceil_div(first + d->pad[0] - reach, d->stride[0])),
                       least(d->h, floor_div(end - 1 + d->pad[0], d->stride[0]) + 1)};
}

/* `product` holds the rows `seen` of x for each tap of a channel. */
static void sum_row(const dhow_conv_desc *d, const float *product, row_range seen, int64_t row,
                    float bias, float *sums, float *y) {
    const int64_t apart = (seen.end - seen.begin) * d->w, step = d->stride[1];
    const int64_t count = ceil_div(d->out[2], step) * step;
    if (step == 1) sums = y;
    for (int64_t i = 0; i < count; i++) sums[i] = bias;
    for (int64_t t = 0; t < d->kh; t++) {
        const int64_t at = row + d->pad[0] - t * d->dilation[0], from = at / d->stride[0];
        if (at < 0 || at % d->stride[0] != 0 || from >= d->h) continue;
        add_taps(d, product + t * d->kw * apart + (from - seen.begin) * d->w, apart, sums);
    }
    if (step > 1) spread(y, sums, d->out[2], step);
}

/* Windows that lie beside each other: each element of y sees one of x. */
static int is_tiled(const dhow_conv_desc *d) {
    return d->kh == d->stride[0] && d->kw == d->stride[1] && d->dilation[0] == 1 &&
           d->dilation[1] == 1 && d->pad[0] == 0 && d->pad[1] == 0 && d->out[1] == d->h * d->kh &&
           d->out[2] == d->w * d->kw;
}

/* y[width][step] = bias + product[step][width], whose rows are `apart` */
static void interleave(float *restrict y, const float *restrict product, int64_t apart,
                       int64_t width, int64_t step, float bias) {
    if (step == 2) {
        const float *restrict second = product + apart;
#pragma omp simd
        for (int64_t i = 0; i < width; i++) {
            y[2 * i] = bias + product[i];
            y[2 * i + 1] = bias + second[i];
        }
        return;
    }
    for (int64_t t = 0; t < step; t++)
        for (int64_t i = 0; i < width; i++) y[i * step + t] = bias + product[t * apart + i];
}

static void take_row(const dhow_conv_desc *d, const float *product, row_range seen, int64_t row,
                     float bias, float *y) {
    const int64_t apart = (seen.end - seen.begin) * d->w, from = row / d->kh - seen.begin;
    interleave(y, product + row % d->kh * d->kw * apart + from * d->w, apart, d->w, d->kw, bias);
}

typedef struct transposed_operands {
    const float *x, *weight, *bias;
    float *y, *rooms;
} transposed_operands;

/* Rows of the weight, one for each tap of a channel of y: side by side where it was packed, else
 * they lie across. */
typedef struct weight_rows {
    int64_t row, column; /* floats apart */
} weight_rows;

static weight_rows rows_of_weight(const transposed_plan *plan) {
    const dhow_conv_desc *d = &plan->desc;
    return is_packed(d) ? (weight_rows){d->c / d->groups, 1}
                        : (weight_rows){1, d->k / d->groups * plan->taps};
}

/* c[m][n] of rows of the weight with x. */
static dnnl_status_t multiply(const transposed_plan *plan, int64_t m, int64_t n,
                              const float *weight, const float *x, float *c) {
    const dhow_conv_desc *d = &plan->desc;
    const int64_t inputs = d->c / d->groups;
    const weight_rows lie = rows_of_weight(plan);
    panels *by_panels = cpu_panels(plan->work.device, m, n, inputs);
    if (!by_panels)
        return plan->dnnl->dnnl_sgemm(is_packed(d) ? 'N' : 'T', 'N', m, n, inputs, 1.0f, weight,
                                      is_packed(d) ? lie.row : lie.column, x, d->h * d->w, 0.0f, c,
                                      n);
    const panels_job job = {.m = m,
                            .n = n,
                            .k = inputs,
                            .a = weight,
                            .a_row = lie.row,
                            .a_column = lie.column,
                            .b = x,
                            .b_row = d->h * d->w,
                            .b_column = 1,
                            .c = c,
                            .ldc = n,
                            .alpha = 1};
    by_panels(&job, 0, n);
    return dnnl_success;
}

static dnnl_status_t run_task(const transposed_plan *plan, const transposed_operands *o,
                              int64_t task, float *room) {
    const dhow_conv_desc *d = &plan->desc;
    const int64_t inputs = d->c / d->groups, outputs = d->k / d->groups, taps = plan->taps;
    const int64_t row = task % plan->row_parts * plan->rows;
    const int64_t k = task / plan->row_parts % plan->channel_parts * plan->channels;
    const int64_t group = task / plan->row_parts / plan->channel_parts; /* of all images */
    const int64_t channels = least(plan->channels, outputs - k);
    const int64_t end = least(row + plan->rows, d->out[1]);
    const row_range seen = rows_below(d, row, end);
    const int64_t count = most(0, seen.end - seen.begin) * d->w;
    if (count > 0) {
        const float *weight = o->weight + group % d->groups * inputs * outputs * taps +
                              k * taps * rows_of_weight(plan).row;
        const float *x = o->x + (group * inputs * d->h + seen.begin) * d->w;
        const dnnl_status_t status = multiply(plan, channels * taps, count, weight, x, room);
        if (status != dnnl_success) return status;
    }
    const int tiled = is_tiled(d);
    for (int64_t i = 0; i < channels; i++) {
        const float bias = o->bias ? o->bias[group % d->groups * outputs + k + i] : 0.0f;
        float *plane = o->y + (group * outputs + k + i) * d->out[1] * d->out[2];
        for (int64_t r = row; r < end; r++) {
            const float *product = room + i * taps * count;
            float *y = plane + r * d->out[2];
            if (tiled)
                take_row(d, product, seen, r, bias, y);
            else
                sum_row(d, product, seen, r, bias, room + plan->product_floats, y);
        }
    }
    return dnnl_success;
}

/* ---- plans ---- */

/* Rows of x that so many rows of y see at most. */
static int64_t most_rows_below(const dhow_conv_desc *d, int64_t rows) {
    return least(d->h, (rows - 1 + (d->kh - 1) * d->dilation[0]) / d->stride[0] + 1);
}

static int64_t whole_lines(int64_t floats) { return (floats + 15) / 16 * 16; }

/* Neighbouring tasks compute the rows between them twice, so they are high; and few rows of the
 * weight take as long as some more. */
static void divide(transposed_plan *plan, int threads) {
    const dhow_conv_desc *d = &plan->desc;
    const int64_t outputs = d->k / d->groups, groups = d->n * d->groups, step = d->stride[0];
    const int64_t between = most_rows_below(d, 1) - 1, fit = PRODUCT_BYTES / 4 / d->w / plan->taps;
    const int64_t height = least(d->h, 8 * (between + 1));
    plan->channels = most(least(fit / height, outputs), ceil_div(ENOUGH_ROWS, plan->taps));
    plan->channels = least(plan->channels, outputs);
    plan->channel_parts = ceil_div(outputs, plan->channels);
    plan->channels = ceil_div(outputs, plan->channel_parts);
    const int64_t least_parts = ceil_div(2 * threads, groups * plan->channel_parts);
    plan->rows = most(1, fit / plan->channels - between) * step;
    plan->rows = most(step, least(plan->rows, ceil_div(d->out[1], threads > 1 ? least_parts : 1)));
    plan->row_parts = ceil_div(d->out[1], plan->rows);
    plan->product_floats =
        whole_lines(plan->channels * plan->taps * most_rows_below(d, plan->rows) * d->w);
    plan->room_floats = plan->product_floats + whole_lines(d->out[2] + d->stride[1]);
}

static void transposed_destroy(void *handle) {
    transposed_plan *plan = handle;
    const dhow_host *host = plan->work.device->backend->host;
    onednn_work_release(&plan->work);
    host->free(host->user, plan);
}

static int is_fit(const dhow_conv_desc *d) {
    return d->dtype == DHOW_F32 && d->weight_dtype == DHOW_F32 &&
           d->activation == DHOW_ACTIVATION_NONE && !(d->flags & DHOW_EPILOGUE_RESIDUAL) &&
           d->depth == 0 && d->src_layout == DHOW_LAYOUT_NCHW && d->dst_layout == DHOW_LAYOUT_NCHW;
}

static int is_empty(const dhow_conv_desc *d) {
    return d->n * d->c * d->h * d->w == 0 || d->k * d->out[1] * d->out[2] == 0;
}

static uint64_t weight_bytes(const dhow_conv_desc *d) {
    return (uint64_t)(d->c * (d->k / d->groups) * d->kh * d->kw) * sizeof(float);
}

static int32_t transposed_plan_make(void *handle, const dhow_conv_desc *d, void **out_plan,
                                    dhow_conv_plan_info *out_info, dhow_error *err) {
    cpu_device *device = handle;
    const dhow_host *host = device->backend->host;
    *out_plan = NULL;
    const onednn_library *dnnl = onednn_open(err);
    if (!dnnl) return DHOW_UNSUPPORTED;
    if (!is_fit(d) || is_empty(d)) {
        return cpu_fail(err, DHOW_UNSUPPORTED, 0,
                        "transposed convolutions are of f32 images in NCHW, with nothing but a "
                        "bias behind");
    }
    transposed_plan *plan = host->alloc(host->user, sizeof *plan, 64);
    if (!plan) return cpu_fail(err, DHOW_OUT_OF_MEMORY, 0, "cannot allocate a convolution plan");
    memset(plan, 0, sizeof *plan);
    plan->table = &onednn_transposed;
    plan->dnnl = dnnl;
    plan->desc = *d;
    plan->taps = d->kh * d->kw;
    onednn_work_init(&plan->work, device,
                     (double)(d->n * d->c * d->h * d->w) * (double)(d->k / d->groups * plan->taps));
    const int threads = plan->work.alone ? 1 : device->team.threads;
    divide(plan, threads);
    const uint64_t bytes = (uint64_t)plan->room_floats * 4 * (uint64_t)threads;
    if (bytes > MOST_WORKSPACE_BYTES) {
        transposed_destroy(plan);
        return cpu_fail(err, DHOW_UNSUPPORTED, 0, "rows of x are too long to keep their products");
    }
    *out_info =
        (dhow_conv_plan_info){.struct_size = out_info->struct_size,
                              .src_layout = DHOW_LAYOUT_NCHW,
                              .dst_layout = DHOW_LAYOUT_NCHW,
                              .workspace_bytes = bytes,
                              .packed_bytes = is_packed(d) ? weight_bytes(d) : 0,
                              .src_bytes = (uint64_t)(d->n * d->c * d->h * d->w) * 4,
                              .dst_bytes = (uint64_t)(d->n * d->k * d->out[1] * d->out[2]) * 4};
    *out_plan = plan;
    return DHOW_OK;
}

/* weight[groups][inputs][rows] as [groups][rows][inputs] */
static int32_t transposed_pack(void *handle, void *stream, dhow_buffer weight, dhow_buffer packed,
                               dhow_error *err) {
    const transposed_plan *plan = handle;
    const dhow_conv_desc *d = &plan->desc;
    const int64_t inputs = d->c / d->groups, rows = d->k / d->groups * plan->taps;
    enum { LINE = 16 /* floats that are read at once */ };
    const float *from = onednn_address(weight);
    float *to = onednn_address(packed);
    (void)stream, (void)err;
    for (int64_t g = 0; g < d->groups; g++, from += inputs * rows, to += inputs * rows) {
        for (int64_t first = 0; first < rows; first += LINE) {
            const int64_t end = least(rows, first + LINE);
            for (int64_t i = 0; i < inputs; i++)
                for (int64_t r = first; r < end; r++) to[r * inputs + i] = from[i * rows + r];
        }
    }
    cpu_drop_subnormals(onednn_address(packed), d->groups * inputs * rows);
    return DHOW_OK;
}

static uint64_t transposed_packed_form(void *handle) {
    (void)handle;
    return TRANSPOSED_FORM;
}

static int32_t transposed_run(void *handle, void *stream, dhow_buffer x, dhow_buffer weight,
                              dhow_buffer y, dhow_buffer bias, dhow_buffer residual,
                              dhow_buffer workspace, dhow_error *err) {
    transposed_plan *plan = handle;
    const dhow_conv_desc *d = &plan->desc;
    const transposed_operands operands = {
        onednn_address(x), onednn_address(weight),
        d->flags & DHOW_EPILOGUE_BIAS ? onednn_address(bias) : NULL, onednn_address(y),
        onednn_address(workspace)};
    const int64_t tasks = d->n * d->groups * plan->channel_parts * plan->row_parts;
    atomic_int failed = dnnl_success;
    (void)stream, (void)residual;
    cpu_region region = onednn_work_begin(&plan->work);
    const int before = onednn_threads_enter(region.threads); /* within a region sgemm has one */
    cpu_shares shares;
    cpu_shares_init(&shares, tasks, region.threads);
#pragma omp parallel num_threads(region.threads) if (region.threads > 1)
    CPU_EACH_ITEM(shares, i) {
        float *room = operands.rooms + omp_get_thread_num() * plan->room_floats;
        const dnnl_status_t status = run_task(plan, &operands, i, room);
        if (status != dnnl_success) atomic_store(&failed, (int)status);
    }
    onednn_threads_leave(before);
    onednn_work_end(&plan->work, &region);
    const dnnl_status_t status = (dnnl_status_t)atomic_load(&failed);
    return status == dnnl_success ? DHOW_OK : onednn_fail(err, "sgemm", status);
}

const dhow_conv onednn_transposed = {.struct_size = (uint32_t)sizeof(dhow_conv),
                                     .minor = 1,
                                     .plan = transposed_plan_make,
                                     .pack = transposed_pack,
                                     .run = transposed_run,
                                     .destroy = transposed_destroy,
                                     .packed_form = transposed_packed_form};
