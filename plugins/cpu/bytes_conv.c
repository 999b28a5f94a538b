/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of quantised images on processors with AVX2 and without VNNI: what a window sees of
 * an image is written in a row, as u8, as 16 bits less the zero point, or as pointers where
 * channels stay apart, and multiplied by packed weights.
 */
#include <omp.h>
#include <string.h>

#include "byte_quads.h"
#include "onednn.h"
#include "shares.h"

/* Weights and rows of a group. */
typedef struct bytes_plan {
    const dhow_conv *table;
    dhow_conv_desc desc;
    int by_channel; /* each channel is a group, and all are one here */
    int is_whole;   /* rows are the pixels of the image, as they lie */
    int64_t groups;
    int64_t inputs, results; /* of a group */
    int by_quads;            /* u8 by i8, else by i16 */
    int64_t terms, length;   /* of a row: a multiple of its pairs or quads, and its bytes */
    int64_t zeros;           /* bytes of a pixel of padding, where rows are pointers */
    int64_t packed;          /* of a group, in bytes */
    int64_t width, pixels;   /* of the result: of a row, and of all images */
    int64_t block;           /* pixels that are written as rows at once */
    int64_t room;            /* what a thread needs for them, in bytes */
    onednn_work work;        /* without primitives */
} bytes_plan;

/* Of what is in a row for each term. */
static int64_t size_of(const bytes_plan *p) {
    return p->by_quads ? 1 : p->by_channel ? (int64_t)sizeof(uint8_t *) : (int64_t)sizeof(int16_t);
}

/* ---- plans ---- */

static void bytes_destroy(void *handle) {
    bytes_plan *plan = handle;
    const dhow_host *host = plan->work.device->backend->host;
    host->free(host->user, plan);
}

static int has_tail(const dhow_conv_desc *d) {
    for (uint32_t i = 0; i < d->tail_count; i++)
        if (d->tail[i].kind < DHOW_TAIL_LINEAR && !cpu_activates(d->tail[i].kind)) return 0;
    return 1;
}

static int is_by_channel(const dhow_conv_desc *d) {
    return d->groups > 1 && d->groups == d->c && d->groups == d->k;
}

static int has_padding(const dhow_conv_desc *d) {
    return d->pad[0] != 0 || d->pad[1] != 0 || d->pad[2] != 0 || d->pad[3] != 0;
}

static int is_empty(const dhow_conv_desc *d) {
    return d->n <= 0 || d->c <= 0 || d->k <= 0 || onednn_extent(d, 0) <= 0 ||
           onednn_extent(d, 1) <= 0;
}

/* What pads is a byte, too. */
static int is_byte_zero(const dhow_conv_desc *d) {
    const int32_t least = d->dtype == DHOW_I8 ? -128 : 0;
    return d->src_zero >= least && d->src_zero <= least + 255;
}

/* Other groups of few channels would be zeros for the most part. */
static int fits(const dhow_conv_desc *d) {
    enum { LEAST = 8, QUADS = 1 << BYTE_QUADS_WAY };
    return !is_empty(d) && d->c / d->groups * d->kh * d->kw / 4 < QUADS && onednn_is_of_bytes(d) &&
           is_byte_zero(d) && has_tail(d) &&
           (d->weight_dtype == DHOW_I8 || d->weight_dtype == DHOW_I16) &&
           (d->groups == 1 || is_by_channel(d) ||
            (d->c / d->groups >= LEAST && d->k / d->groups >= LEAST));
}

/* Rows of so many bytes that stay in the second cache beside a panel. */
static int64_t block_of(int64_t length) {
    enum { ROOM = 1 << 17, MOST = 32 };
    const int64_t tiles = ROOM / (length * BYTE_SUMS_ROWS);
    return BYTE_SUMS_ROWS * (tiles < 1 ? 1 : tiles > MOST ? MOST : tiles);
}

static int64_t round_up(int64_t count, int64_t to) { return (count + to - 1) / to * to; }

static int32_t bytes_plan_make(void *handle, const dhow_conv_desc *d, void **out_plan,
                               dhow_conv_plan_info *out_info, dhow_error *err) {
    cpu_device *device = handle;
    const dhow_host *host = device->backend->host;
    *out_plan = NULL;
    if (device->isa < CPU_ISA_V3 || device->backend->bytes == CPU_NEVER || !fits(d))
        return cpu_fail(err, DHOW_UNSUPPORTED, 0,
                        "convolutions of bytes want AVX2, constant weights and channels last");
    bytes_plan *plan = host->alloc(host->user, sizeof *plan, 64);
    if (!plan) return cpu_fail(err, DHOW_OUT_OF_MEMORY, 0, "cannot allocate a convolution plan");
    memset(plan, 0, sizeof *plan);
    plan->table = &cpu_bytes;
    plan->desc = *d;
    plan->by_channel = is_by_channel(d);
    plan->groups = plan->by_channel ? 1 : d->groups;
    plan->inputs = d->c / plan->groups;
    plan->results = d->k / plan->groups;
    plan->by_quads = d->weight_dtype == DHOW_I8 && !plan->by_channel;
    plan->terms =
        round_up((plan->by_channel ? 1 : plan->inputs) * d->kh * d->kw, plan->by_quads ? 4 : 2);
    plan->length = plan->terms * size_of(plan);
    plan->zeros = plan->by_channel ? round_up(d->c, 64) : 0;
    plan->packed = plan->by_quads ? round_up(plan->results, BYTE_SUMS_COLUMNS) / BYTE_SUMS_COLUMNS *
                                        byte_quads_bytes(plan->terms / 4)
                                  : byte_sums_packed(plan->results, plan->terms / 2) * 2;
    plan->width = onednn_extent(d, 1);
    plan->pixels = d->n * onednn_extent(d, 0) * plan->width;
    plan->block = block_of(plan->length);
    plan->is_whole = !plan->by_channel && plan->terms == d->c &&
                     plan->pixels == d->n * d->h * d->w && !has_padding(d);
    plan->room = round_up(plan->zeros + plan->block * plan->length, 64);
    onednn_work_init(&plan->work, device, onednn_products(d));
    *out_info = (dhow_conv_plan_info){
        .struct_size = out_info->struct_size,
        .src_layout = DHOW_LAYOUT_NHWC,
        .dst_layout = DHOW_LAYOUT_NHWC,
        .workspace_bytes = (uint64_t)(plan->room * device->team.threads),
        .packed_bytes = (uint64_t)(plan->groups * plan->packed),
        .src_bytes = (uint64_t)(d->n * d->h * d->w * d->c),
        .dst_bytes = (uint64_t)(plan->pixels * d->k) * (onednn_is_byte(d->dst_dtype) ? 1 : 4)};
    *out_plan = plan;
    return DHOW_OK;
}

/* ---- packing ---- */

/* i8 or i16 */
static int16_t weight_at(const bytes_plan *p, const void *weight, int64_t i) {
    return p->desc.weight_dtype == DHOW_I8 ? ((const int8_t *)weight)[i]
                                           : ((const int16_t *)weight)[i];
}

static byte_quads_panel *panel_of(const bytes_plan *p, void *packed, int64_t k) {
    const int64_t panel = k % p->results / BYTE_SUMS_COLUMNS;
    return (void *)((char *)packed + k / p->results * p->packed +
                    panel * byte_quads_bytes(p->terms / 4));
}

/* The weights of a result from the first on, whose channels lie `apart`; a row has those of a
 * window's first pixel first. */
static void pack_result(const bytes_plan *p, const void *weight, int64_t first, int64_t apart,
                        void *packed, int64_t k) {
    const int64_t own = k % p->results, column = own % BYTE_SUMS_COLUMNS,
                  unit = p->by_quads ? 4 : 2;
    int8_t *bytes = (int8_t *)panel_of(p, packed, k) + byte_quads_before(p->terms / 4) + column * 4;
    int16_t *words = (int16_t *)(void *)((char *)packed + k / p->results * p->packed) +
                     (own - column) * p->terms + column * 2;
    int64_t at = 0, in = 0; /* a unit of all results, and in it */
    for (int64_t tap = 0; tap < p->desc.kh * p->desc.kw; tap++) {
        for (int64_t c = 0; c < p->inputs; c++) {
            const int16_t value = weight_at(p, weight, first + c * apart + tap);
            if (p->by_quads)
                bytes[at + in] = (int8_t)value;
            else
                words[at + in] = value;
            if (++in < unit) continue;
            in = 0;
            at += unit * BYTE_SUMS_COLUMNS;
        }
    }
}

/* Results lie `next` apart. */
static void pack_all(const bytes_plan *p, const void *weight, int64_t next, int64_t apart,
                     void *packed) {
    memset(packed, 0, (size_t)(p->groups * p->packed));
    for (int64_t k = 0; k < p->desc.k; k++) pack_result(p, weight, k * next, apart, packed, k);
    if (!p->by_quads) return;
    for (int64_t k = 0; k < p->desc.k; k++)
        if (k % p->results % BYTE_SUMS_COLUMNS == 0)
            byte_quads_order_v3(panel_of(p, packed, k), p->terms / 4);
}

static void pack_channels(const bytes_plan *p, const void *weight, int16_t *packed) {
    const int64_t taps = p->desc.kh * p->desc.kw;
    memset(packed, 0, (size_t)p->packed);
    for (int64_t k = 0; k < p->results; k++) {
        const int64_t own = k % BYTE_SUMS_COLUMNS;
        for (int64_t tap = 0; tap < taps; tap++)
            packed[(k - own) * p->terms + byte_sums_place(own, tap)] =
                weight_at(p, weight, k * taps + tap);
    }
}

static int32_t bytes_pack(void *handle, void *stream, dhow_buffer weight, dhow_buffer packed,
                          dhow_error *err) {
    const bytes_plan *p = handle;
    const int64_t taps = p->desc.kh * p->desc.kw;
    (void)stream, (void)err;
    if (p->by_channel) {
        pack_channels(p, onednn_address(weight), onednn_address(packed));
        return DHOW_OK;
    }
    pack_all(p, onednn_address(weight), p->inputs * taps, taps, onednn_address(packed));
    return DHOW_OK;
}

void cpu_bytes_pack_columns(const void *plan, const void *b, void *packed) {
    const bytes_plan *p = plan;
    pack_all(p, b, 1, p->desc.k, packed);
}

/* ---- running ---- */

typedef struct bytes_run {
    const uint8_t *x;
    byte_sums_job job; /* of all pixels and channels */
} bytes_run;

/* What pads the image, so many numbers of it. */
static void fill_zeros(const bytes_plan *p, const bytes_run *r, int64_t count, char *to) {
    memset(to, p->by_quads ? r->job.zero : 0, (size_t)(count * size_of(p)));
}

/* So many bytes of the image as numbers of a row. */
static void write_numbers(const bytes_plan *p, const bytes_run *r, const uint8_t *from,
                          int64_t count, char *to) {
    if (!p->by_quads) {
        widen_bytes_v3(from, p->desc.dtype == DHOW_I8, r->job.zero, count, (int16_t *)(void *)to);
    } else if (p->desc.dtype == DHOW_U8) {
        memcpy(to, from, (size_t)count);
    } else {
        move_up_bytes_v3(from, count, (uint8_t *)to);
    }
}

/* How many of so many places from x on are in a row of `width`. */
static int64_t overlap(int64_t x, int64_t count, int64_t width) {
    const int64_t first = x < 0 ? 0 : x, end = x + count < width ? x + count : width;
    return end > first ? end - first : 0;
}

typedef struct place {
    int64_t image, row, column; /* of a result */
} place;

/* What the window of a pixel sees of a group's channels, from `first` on. */
static void write_row(const bytes_plan *p, const bytes_run *r, const place *at, int64_t first,
                      char *to) {
    const dhow_conv_desc *d = &p->desc;
    const int64_t top = at->row * d->stride[0] - d->pad[0],
                  left = at->column * d->stride[1] - d->pad[1];
    /* Pixels of all channels beside each other are read at once. */
    const int64_t together = p->groups == 1 && d->dilation[1] == 1 ? d->kw : 1;
    const int64_t pixel = p->inputs * size_of(p);
    char *const end = to + p->length;
    for (int64_t i = 0; i < d->kh; i++) {
        const int64_t y = top + i * d->dilation[0];
        for (int64_t k = 0; k < d->kw; k += together, to += together * pixel) {
            const int64_t x = left + k * d->dilation[1],
                          there = y < 0 || y >= d->h ? 0 : overlap(x, together, d->w),
                          before = there > 0 && x < 0 ? -x : 0, after = before + there;
            if (before > 0) fill_zeros(p, r, before * p->inputs, to);
            if (there > 0)
                write_numbers(p, r,
                              r->x + ((at->image * d->h + y) * d->w + x + before) * d->c + first,
                              there * p->inputs, to + before * pixel);
            if (after < together)
                fill_zeros(p, r, (together - after) * p->inputs, to + after * pixel);
        }
    }
    if (to < end) memset(to, 0, (size_t)(end - to)); /* what fills the last pair or quad */
}

/* Where the window of a pixel sees all channels. */
static void write_places(const bytes_plan *p, const bytes_run *r, const place *at,
                         const uint8_t *zeros, const uint8_t **to) {
    const dhow_conv_desc *d = &p->desc;
    const uint8_t *image = r->x + at->image * d->h * d->w * d->c;
    int64_t y = at->row * d->stride[0] - d->pad[0];
    for (int64_t i = 0; i < d->kh; i++, y += d->dilation[0]) {
        int64_t x = at->column * d->stride[1] - d->pad[1];
        for (int64_t k = 0; k < d->kw; k++, x += d->dilation[1])
            *to++ =
                y < 0 || y >= d->h || x < 0 || x >= d->w ? zeros : image + (y * d->w + x) * d->c;
    }
    if (d->kh * d->kw < p->terms) *to = zeros;
}

static void write_rows(const bytes_plan *p, const bytes_run *r, int64_t pixel, int64_t count,
                       int64_t first, char *to) {
    const dhow_conv_desc *d = &p->desc;
    const int64_t height = p->pixels / d->n / p->width;
    place at = {pixel / p->width / height, pixel / p->width % height, pixel % p->width};
    if (p->is_whole) {
        write_numbers(p, r, r->x + pixel * d->c, count * d->c, to);
        return;
    }
    const uint8_t *zeros = (const uint8_t *)to;
    if (p->by_channel) {
        memset(to, r->job.zero, (size_t)d->c);
        to += p->zeros;
    }
    for (int64_t i = 0; i < count; i++, to += p->length) {
        if (p->by_channel)
            write_places(p, r, &at, zeros, (const uint8_t **)(void *)to);
        else
            write_row(p, r, &at, first, to);
        if (++at.column < p->width) continue;
        at.column = 0;
        if (++at.row < height) continue;
        at.row = 0;
        at.image++;
    }
}

/* Some pixels of some results of a group. */
static void run_part(const bytes_plan *p, const bytes_run *r, int64_t group, int64_t pixel,
                     int64_t first, int64_t end, char *rows) {
    const int64_t size = onednn_is_byte(p->desc.dst_dtype) ? 1 : 4,
                  added = onednn_is_byte(p->desc.residual_dtype) ? 1 : 4,
                  at = pixel * p->desc.k + group * p->results;
    byte_sums_job job = r->job;
    job.count = p->pixels - pixel < p->block ? p->pixels - pixel : p->block;
    job.rows = rows + p->zeros;
    if (p->by_quads && p->is_whole && p->desc.dtype == DHOW_U8) {
        job.rows = r->x + pixel * p->desc.c;
    } else {
        write_rows(p, r, pixel, job.count, group * p->inputs, rows);
    }
    job.packed = (const char *)job.packed + group * p->packed;
    job.y += at * size;
    if (job.residual) job.residual += at * added;
    if (job.bias) job.bias += group * p->results;
    if (p->by_channel) {
        byte_sums_by_channel_v3(&job, first, end);
    } else if (p->by_quads) {
        byte_sums_quads_v3(&job, first, end);
    } else {
        byte_sums_v3(&job, first, end);
    }
}

static int32_t zero_of(const dhow_conv_desc *d, dhow_buffer bias, dhow_buffer residual) {
    if (!(d->flags & DHOW_CONV_ZERO_GIVEN)) return d->src_zero;
    return *(const int32_t *)onednn_address(d->dst_dtype == DHOW_I32 ? bias : residual);
}

static int32_t bytes_run_plan(void *handle, void *stream, dhow_buffer x, dhow_buffer weight,
                              dhow_buffer y, dhow_buffer bias, dhow_buffer residual,
                              dhow_buffer workspace, dhow_error *err) {
    bytes_plan *p = handle;
    const dhow_conv_desc *d = &p->desc;
    char *rooms = onednn_address(workspace);
    const int32_t zero = zero_of(d, bias, residual);
    const bytes_run r = {
        .x = onednn_address(x),
        .job = {.pairs = p->terms / 2,
                .quads = p->terms / 4,
                .packed = onednn_address(weight),
                .zero = p->by_quads && d->dtype == DHOW_I8 ? zero + 128 : zero,
                .is_signed = d->dtype == DHOW_I8,
                .dst_dtype = d->dst_dtype,
                .residual_dtype = d->residual_dtype,
                .y = onednn_address(y),
                .residual = d->flags & DHOW_EPILOGUE_RESIDUAL ? onednn_address(residual) : NULL,
                .stride = d->k,
                .bias = d->flags & DHOW_EPILOGUE_BIAS ? onednn_address(bias) : NULL,
                .table = d->k,
                .tail_count = d->tail_count,
                .tail = d->tail}};
    (void)stream, (void)err;
    const cpu_region region = onednn_work_begin(&p->work);
    const int64_t blocks = (p->pixels + p->block - 1) / p->block * p->groups,
                  columns = (p->results + BYTE_SUMS_COLUMNS - 1) / BYTE_SUMS_COLUMNS,
                  each = onednn_part_of(&region, blocks, columns) * BYTE_SUMS_COLUMNS,
                  across = (p->results + each - 1) / each;
    cpu_shares shares;
    cpu_shares_init(&shares, blocks * across, region.threads);
#pragma omp parallel num_threads(region.threads) if (region.threads > 1)
    CPU_EACH_ITEM(shares, part) {
        const int64_t group = part / across % p->groups, first = part % across * each,
                      end = first + each < p->results ? first + each : p->results;
        run_part(p, &r, group, part / across / p->groups * p->block, first, end,
                 rooms + omp_get_thread_num() * p->room);
    }
    onednn_work_end(&p->work, &region);
    return DHOW_OK;
}

static uint64_t bytes_packed_form(void *plan) {
    (void)plan;
    return BYTES_FORM;
}

/* The rows of a are pixels. */
int32_t cpu_bytes_product(cpu_device *device, const dhow_blas_desc *d, void **out_plan,
                          uint64_t *out_workspace_bytes, uint64_t *out_packed_bytes,
                          dhow_error *err) {
    const dhow_conv_desc conv = {.struct_size = (uint32_t)sizeof conv,
                                 .flags = d->flags,
                                 .dtype = d->dtype_a,
                                 .weight_dtype = DHOW_I8,
                                 .compute = DHOW_I32,
                                 .dst_dtype = DHOW_I32,
                                 .src_layout = DHOW_LAYOUT_NHWC,
                                 .dst_layout = DHOW_LAYOUT_NHWC,
                                 .n = 1,
                                 .c = d->k,
                                 .h = 1,
                                 .w = d->m,
                                 .k = d->n,
                                 .kh = 1,
                                 .kw = 1,
                                 .groups = 1,
                                 .stride = {1, 1},
                                 .dilation = {1, 1}};
    dhow_conv_plan_info info = {.struct_size = (uint32_t)sizeof info};
    if (d->batch != 1 || d->alpha != 1.0f || d->beta != 0.0f || d->lda != d->k || d->ldb != d->n ||
        d->ldc != d->n || d->flags != DHOW_BLAS_CONSTANT_B)
        return cpu_fail(err, DHOW_UNSUPPORTED, 0, "products of bytes are of whole matrices");
    const int32_t status = bytes_plan_make(device, &conv, out_plan, &info, err);
    *out_workspace_bytes = info.workspace_bytes;
    *out_packed_bytes = info.packed_bytes;
    return status;
}

const dhow_conv cpu_bytes = {.struct_size = (uint32_t)sizeof(dhow_conv),
                             .minor = 8,
                             .plan = bytes_plan_make,
                             .pack = bytes_pack,
                             .run = bytes_run_plan,
                             .destroy = bytes_destroy,
                             .packed_form = bytes_packed_form};
