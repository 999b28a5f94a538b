/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions without cuDNN: as matrix products of cuBLASLt over images in NHWC, whose pixels are
 * the rows of a matrix. A 1x1 convolution is a product as it lies; others have their windows laid
 * out before, some pixels at a time. Where each channel is by itself a kernel of dhow's convolves.
 * Images in NCHW are turned before and after.
 */
#include <string.h>

#include "conv_kernels.h"

enum {
    MATRIX_BYTES = 32 << 20, /* of windows laid out at once: what an L2 cache holds */
    MOST_MATRIX_BYTES = 256 << 20,
    PIXELS_STEP = 64, /* of pixels laid out at once */
    ALIGN = DHOWI_CUDA_OFFSET_ALIGN
};

typedef struct product_plan {
    dhowi_cuda_conv conv;
    dhowi_cuda_conv_kernels kernels;
    bool depthwise, direct; /* direct: x is the matrix */
    bool turns;             /* x and y are NCHW */
    bool starts_biased;     /* y is bias and residual first, and the product is added to it */
    bool reorders;          /* the weight, to [k][row], or [kh][kw][c] where it is depthwise */
    int64_t row;            /* elements in a group's part of a row of the matrix */
    int64_t pixels, chunk;  /* of y; those laid out at once */
    void *products[2];      /* of a chunk, and of what is left behind the last one */
    uint64_t x_at, y_at, weight_at, matrix_at, product_at; /* in the workspace */
} product_plan;

static uint64_t bytes_of(const product_plan *p, int64_t elements) {
    return (uint64_t)elements * dhowi_cuda_conv_element_bytes(&p->conv.desc);
}

static int64_t inner_of(const dhow_conv_desc *d) { return d->c / d->groups; }
static int64_t taps_of(const dhow_conv_desc *d) { return d->kh * d->kw; }

/* ---- plans ---------------------------------------------------------------------------------- */

static bool is_direct(const dhow_conv_desc *d) {
    return taps_of(d) == 1 && d->stride[0] == 1 && d->stride[1] == 1 && d->pad[0] == 0 &&
           d->pad[1] == 0 && d->pad[2] == 0 && d->pad[3] == 0;
}

/* Tensor cores want rows of whole 16 bytes. */
static int64_t row_of(const product_plan *p) {
    const dhow_conv_desc *d = &p->conv.desc;
    const int64_t step = ALIGN / (int64_t)dhowi_cuda_conv_element_bytes(d);
    const int64_t used = taps_of(d) * inner_of(d);
    return p->direct ? used : (used + step - 1) / step * step;
}

/* As many pixels as MATRIX_BYTES hold, shared out evenly. */
static int64_t chunk_of(const product_plan *p) {
    const int64_t limit =
        (int64_t)(MATRIX_BYTES / bytes_of(p, p->conv.desc.groups * p->row)) / PIXELS_STEP;
    const int64_t most = (limit > 0 ? limit : 1) * PIXELS_STEP;
    if (p->direct || p->pixels <= most) return p->pixels;
    const int64_t chunks = (p->pixels + most - 1) / most;
    const int64_t even = (p->pixels + chunks - 1) / chunks;
    return (even + PIXELS_STEP - 1) / PIXELS_STEP * PIXELS_STEP;
}

static void shape(product_plan *p) {
    const dhow_conv_desc *d = &p->conv.desc;
    p->depthwise = d->groups == d->c && d->k == d->c && d->c > 1;
    p->direct = !p->depthwise && is_direct(d);
    p->turns = d->src_layout == DHOW_LAYOUT_NCHW;
    p->row = p->depthwise ? taps_of(d) : row_of(p);
    p->pixels = d->n * p->conv.out[0] * p->conv.out[1];
    p->chunk = p->depthwise ? p->pixels : chunk_of(p);
    p->starts_biased =
        !p->depthwise && d->groups > 1 && dhowi_cuda_conv_has(&p->conv, DHOW_EPILOGUE_BIAS);
    const bool lies_so = taps_of(d) == 1 || (inner_of(d) == 1 && !p->depthwise);
    p->reorders = !lies_so || p->row != taps_of(d) * inner_of(d);
}

/* Whether the kernel can hold numbers so: by a minimum of a maximum. */
static bool holds(uint32_t activation, float low, float high) {
    return activation == DHOW_ACTIVATION_CLIP && low <= high;
}

/* A product's are those of dhow's matmul; where each channel is by itself the kernel does CLIP too.
 * Others follow: where there is cuDNN, behind a faster convolution. */
static bool ends_well(const product_plan *p) {
    const dhow_conv_desc *d = &p->conv.desc;
    if (p->depthwise && holds(d->activation, d->activation_alpha, d->activation_beta)) return true;
    return d->activation <=
           (p->depthwise || p->direct ? DHOW_ACTIVATION_SILU : DHOW_ACTIVATION_NONE);
}

static bool starts_well(const product_plan *p) {
    const dhow_conv_desc *d = &p->conv.desc;
    return d->src_activation == DHOW_ACTIVATION_NONE ||
           (p->depthwise &&
            (d->src_activation == DHOW_ACTIVATION_RELU ||
             holds(d->src_activation, d->src_activation_alpha, d->src_activation_beta)));
}

static int32_t check(const product_plan *p, dhow_error *err) {
    const dhow_conv_desc *d = &p->conv.desc;
    const char *name = p->conv.device->name;
    if (p->conv.spatial != 2 || dhowi_cuda_conv_has(&p->conv, DHOW_CONV_TRANSPOSED))
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: products convolve images alone", name);
    if (!ends_well(p))
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: a product has no such activation",
                                 name);
    if (!starts_well(p))
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED,
                                 "%s: a product reads x through no such activation", name);
    if (p->starts_biased && p->turns && dhowi_cuda_conv_has(&p->conv, DHOW_EPILOGUE_RESIDUAL))
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED,
                                 "%s: products of groups add bias and residual in NHWC", name);
    if (!p->depthwise && d->groups > 1 && inner_of(d) == 1)
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED,
                                 "%s: products of single channels are slower than a kernel", name);
    if (!p->depthwise && !p->direct &&
        bytes_of(p, p->chunk) > (uint64_t)MOST_MATRIX_BYTES / (uint64_t)(d->groups * p->row))
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: a window too large for a matrix",
                                 name);
    return DHOW_OK;
}

/* y[pixels][k/groups] = matrix[pixels][row] weight[k/groups][row]^T, with a group for each entry of
 * the batch. cuBLASLt's bias would be the same for all of them. */
static dhow_blas_desc describe(const product_plan *p, int64_t pixels) {
    const dhow_conv_desc *d = &p->conv.desc;
    const int64_t each = d->k / d->groups;
    const uint32_t ends = p->starts_biased
                              ? DHOW_EPILOGUE_RESIDUAL
                              : d->flags & (DHOW_EPILOGUE_BIAS | DHOW_EPILOGUE_RESIDUAL);
    return (dhow_blas_desc){
        .struct_size = (uint32_t)sizeof(dhow_blas_desc),
        .flags = DHOW_BLAS_TRANSPOSE_B | (d->flags & DHOW_BLAS_CONSTANT_B) | ends,
        .dtype_a = d->dtype,
        .dtype_b = d->dtype,
        .dtype_c = d->dtype,
        .compute = d->compute,
        .activation = d->activation,
        .m = pixels,
        .n = each,
        .k = p->row,
        .batch = d->groups,
        .lda = d->groups * p->row,
        .ldb = p->row,
        .ldc = d->k,
        .stride_a = p->row,
        .stride_b = each * p->row,
        .stride_c = each,
        .alpha = 1};
}

static int32_t plan_products(product_plan *p, uint64_t *out_bytes, dhow_error *err) {
    const int64_t counts[] = {p->chunk, p->pixels % p->chunk};
    int32_t status = DHOW_OK;
    for (int i = 0; i < 2 && status == DHOW_OK && counts[i] > 0; i++) {
        const dhow_blas_desc desc = describe(p, counts[i]);
        uint64_t bytes = 0, packed = 0;
        status = dhowi_cuda_blas.plan(p->conv.device, &desc, &p->products[i], &bytes, &packed, err);
        if (bytes > *out_bytes) *out_bytes = bytes;
    }
    return status;
}

static int64_t weight_count(const product_plan *p) {
    const dhow_conv_desc *d = &p->conv.desc;
    return p->depthwise ? taps_of(d) * d->c : d->k * p->row;
}

static int64_t x_count(const product_plan *p) {
    const dhow_conv_desc *d = &p->conv.desc;
    return d->n * d->c * d->h * d->w;
}

static int64_t y_count(const product_plan *p) { return p->pixels * p->conv.desc.k; }

static int64_t matrix_count(const product_plan *p) {
    return p->depthwise || p->direct ? 0 : p->chunk * p->conv.desc.groups * p->row;
}

/* Returns where the next part of the workspace begins. */
static uint64_t reserve(uint64_t *at, uint64_t bytes) {
    const uint64_t own = *at;
    *at = dhowi_cuda_align(own + bytes);
    return own;
}

static void lay_out(product_plan *p, uint64_t product_bytes) {
    const uint64_t weight_bytes = p->reorders ? bytes_of(p, weight_count(p)) : 0;
    const bool constant = dhowi_cuda_conv_has(&p->conv, DHOW_BLAS_CONSTANT_B);
    uint64_t at = 0;
    p->conv.packed_bytes = constant ? weight_bytes : 0;
    p->product_at = reserve(&at, product_bytes);
    p->matrix_at = reserve(&at, bytes_of(p, matrix_count(p)));
    p->weight_at = reserve(&at, constant ? 0 : weight_bytes);
    p->x_at = reserve(&at, p->turns ? bytes_of(p, x_count(p)) : 0);
    p->y_at = reserve(&at, p->turns ? bytes_of(p, y_count(p)) : 0);
    p->conv.workspace_bytes = at;
}

static uint32_t layout(const dhow_conv_desc *desc) {
    (void)desc;
    return DHOW_LAYOUT_NHWC;
}

static void destroy(dhowi_cuda_conv *conv) {
    product_plan *p = (product_plan *)conv;
    for (int i = 0; i < 2; i++) {
        if (p->products[i] != NULL) dhowi_cuda_blas.destroy(p->products[i]);
    }
    dhowi_cuda_delete(conv->device->host, p);
}

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static int32_t plan(const dhowi_cuda_conv *conv, dhowi_cuda_conv **out, dhow_error *err) {
    dhowi_cuda_device *device = conv->device;
    product_plan *p = dhowi_cuda_new(device->host, sizeof *p);
    uint64_t product_bytes = 0;
    if (p == NULL)
        return dhowi_cuda_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", device->name);
    p->conv = *conv;
    shape(p);
    int32_t status = check(p, err);
    if (status == DHOW_OK)
        status = dhowi_cuda_conv_kernels_of(device, conv->desc.dtype,
                                            most(most(x_count(p), y_count(p)), matrix_count(p)),
                                            &p->kernels, err);
    if (status == DHOW_OK && !p->depthwise) status = plan_products(p, &product_bytes, err);
    if (status != DHOW_OK) {
        destroy(&p->conv);
        return status;
    }
    lay_out(p, product_bytes);
    *out = &p->conv;
    return DHOW_OK;
}

/* ---- running -------------------------------------------------------------------------------- */

static int32_t pack(dhowi_cuda_conv *conv, dhowi_cuda_stream *stream, dhow_buffer weight,
                    dhow_buffer packed, dhow_error *err) {
    const product_plan *p = (const product_plan *)conv;
    const dhow_conv_desc *d = &conv->desc;
    const int64_t inner = inner_of(d), taps = taps_of(d);
    dhowi_cuda_conv_box box = {
        .shape = {d->k, taps, inner}, .from = {taps * inner, 1, taps}, .to = {p->row, inner, 1}};
    if (p->depthwise)
        box = (dhowi_cuda_conv_box){
            .shape = {1, taps, d->c}, .from = {0, 1, taps}, .to = {0, d->c, 1}};
    int32_t status = DHOW_OK;
    if (!p->depthwise && p->row > taps * inner)
        status = dhowi_cuda_fill(stream, packed.handle, packed.offset, bytes_of(p, weight_count(p)),
                                 0, 1, err);
    if (status == DHOW_OK)
        status = dhowi_cuda_conv_copy(&p->kernels, stream, &box, weight, packed, err);
    return status;
}

static int32_t multiply(const product_plan *p, dhowi_cuda_stream *stream,
                        const dhowi_cuda_conv_buffers *b, dhow_buffer matrix, int64_t first,
                        void *product, dhow_error *err) {
    const uint64_t pixel = bytes_of(p, first * p->conv.desc.k);
    const dhow_buffer y = dhowi_cuda_at(b->y, pixel);
    const dhow_buffer residual = dhowi_cuda_at(b->residual, pixel); /* unused where there is none */
    return dhowi_cuda_blas.run(product, stream, matrix, b->weight, y, b->bias,
                               p->starts_biased ? y : residual,
                               dhowi_cuda_at(b->workspace, p->product_at), err);
}

static int32_t start_biased(const product_plan *p, dhowi_cuda_stream *stream,
                            const dhowi_cuda_conv_buffers *b, dhow_error *err) {
    const int64_t k = p->conv.desc.k;
    const dhowi_cuda_conv_box every_pixel = {
        .shape = {1, p->pixels, k}, .from = {0, 0, 1}, .to = {0, k, 1}};
    int32_t status = dhowi_cuda_conv_copy(&p->kernels, stream, &every_pixel, b->bias, b->y, err);
    if (status == DHOW_OK && dhowi_cuda_conv_has(&p->conv, DHOW_EPILOGUE_RESIDUAL))
        status = dhowi_cuda_conv_add(&p->kernels, stream, y_count(p), b->residual, b->y, err);
    return status;
}

static int32_t run_products(const product_plan *p, dhowi_cuda_stream *stream,
                            const dhowi_cuda_conv_buffers *b, dhow_error *err) {
    const dhow_buffer matrix = p->direct ? b->x : dhowi_cuda_at(b->workspace, p->matrix_at);
    int32_t status = p->starts_biased ? start_biased(p, stream, b, err) : DHOW_OK;
    for (int64_t first = 0; first < p->pixels && status == DHOW_OK; first += p->chunk) {
        const bool last = p->pixels - first < p->chunk;
        const int64_t count = last ? p->pixels - first : p->chunk;
        if (!p->direct)
            status = dhowi_cuda_conv_im2col(&p->kernels, stream, &p->conv, b->x, matrix, first,
                                            count, p->row, err);
        if (status == DHOW_OK)
            status = multiply(p, stream, b, matrix, first, p->products[last ? 1 : 0], err);
    }
    return status;
}

/* What lies otherwise than NHWC has it, laid out anew in the workspace. */
static int32_t prepare(product_plan *p, dhowi_cuda_stream *stream, dhowi_cuda_conv_buffers *b,
                       dhow_error *err) {
    const dhow_conv_desc *d = &p->conv.desc;
    int32_t status = DHOW_OK;
    if (p->reorders && p->conv.packed_bytes == 0) {
        const dhow_buffer packed = dhowi_cuda_at(b->workspace, p->weight_at);
        status = pack(&p->conv, stream, b->weight, packed, err);
        b->weight = packed;
    }
    if (!p->turns) return status;
    const dhow_buffer x = dhowi_cuda_at(b->workspace, p->x_at);
    const dhow_buffer y = dhowi_cuda_at(b->workspace, p->y_at);
    const dhowi_cuda_conv_box image = dhowi_cuda_conv_turned(d->n, d->c, d->h * d->w, true);
    const dhowi_cuda_conv_box result = dhowi_cuda_conv_turned(d->n, d->k, p->pixels / d->n, true);
    if (status == DHOW_OK) status = dhowi_cuda_conv_copy(&p->kernels, stream, &image, b->x, x, err);
    if (status == DHOW_OK && dhowi_cuda_conv_has(&p->conv, DHOW_EPILOGUE_RESIDUAL))
        status = dhowi_cuda_conv_copy(&p->kernels, stream, &result, b->residual, y, err);
    b->x = x;
    b->y = b->residual = y;
    return status;
}

static int32_t run(dhowi_cuda_conv *conv, dhowi_cuda_stream *stream,
                   const dhowi_cuda_conv_buffers *buffers, dhow_error *err) {
    product_plan *p = (product_plan *)conv;
    dhowi_cuda_conv_buffers b = *buffers;
    int32_t status = prepare(p, stream, &b, err);
    if (status == DHOW_OK)
        status = p->depthwise ? dhowi_cuda_conv_depthwise(&p->kernels, stream, conv, &b, err)
                              : run_products(p, stream, &b, err);
    if (status != DHOW_OK || !p->turns) return status;
    const dhowi_cuda_conv_box home =
        dhowi_cuda_conv_turned(conv->desc.n, conv->desc.k, p->pixels / conv->desc.n, false);
    return dhowi_cuda_conv_copy(&p->kernels, stream, &home, b.y, buffers->y, err);
}

const dhowi_cuda_conv_engine dhowi_cuda_conv_by_product = {
    .layout = layout, .plan = plan, .pack = pack, .run = run, .destroy = destroy};
