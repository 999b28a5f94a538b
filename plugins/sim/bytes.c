/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of products of bytes, as processors with VNNI have them: products by "dhow.blas/1",
 * convolutions with channels last by "dhow.conv/1". A device has them where its convolutions like
 * NHWC, so that models of quantised values are tested on every machine.
 */
#include <math.h>
#include <string.h>

#include "sim.h"

static int is_byte(int32_t dtype) { return dtype == DHOW_U8 || dtype == DHOW_I8; }

static int32_t byte_at(const void *memory, int32_t dtype, int64_t at) {
    return dtype == DHOW_I8 ? ((const int8_t *)memory)[at] : ((const uint8_t *)memory)[at];
}

/* ---- convolutions ---- */

int sim_takes_bytes(const dhow_conv_desc *d) {
    const int sums = d->dst_dtype == DHOW_I32, given = (d->flags & DHOW_CONV_ZERO_GIVEN) != 0;
    return is_byte(d->dtype) && d->weight_dtype == DHOW_I8 && d->compute == DHOW_I32 &&
           d->depth == 0 && (sums || d->dst_dtype == DHOW_F32 || is_byte(d->dst_dtype)) &&
           sums == ((d->flags & DHOW_EPILOGUE_BIAS) == 0) &&
           !(given && (d->flags & DHOW_EPILOGUE_RESIDUAL) != 0);
}

static int32_t sum_at(const sim_conv_plan *p, const void *x, const int8_t *weight, int32_t zero,
                      int64_t n, int64_t pixel, int64_t k) {
    const dhow_conv_desc *d = &p->desc;
    const int64_t inner = d->c / d->groups, first = k / (d->k / d->groups) * inner;
    const int64_t row = pixel / p->y.w, column = pixel % p->y.w;
    uint32_t sum = 0;
    for (int64_t i = 0; i < inner * d->kh * d->kw; i++) {
        const int64_t h = row * d->stride[0] + i / d->kw % d->kh * d->dilation[0] - d->pad[0],
                      w = column * d->stride[1] + i % d->kw * d->dilation[1] - d->pad[1];
        if (h < 0 || h >= d->h || w < 0 || w >= d->w) continue;
        const int64_t at = ((n * d->h + h) * d->w + w) * d->c + first + i / (d->kh * d->kw);
        sum +=
            (uint32_t)((byte_at(x, d->dtype, at) - zero) * weight[k * inner * d->kh * d->kw + i]);
    }
    return (int32_t)sum;
}

static float follow(const dhow_conv_desc *d, const float *rows, const void *residual, float v,
                    int64_t k, int64_t at) {
    for (uint32_t i = 0; i < d->tail_count; i++) {
        const dhow_conv_tail *t = &d->tail[i];
        const float row = rows[(int64_t)t->row * d->k + k];
        switch (t->kind) {
            case DHOW_TAIL_LINEAR:
                v = t->alpha * v + t->beta;
                break;
            case DHOW_TAIL_ROUND:
                v = rintf(v);
                break;
            case DHOW_TAIL_RESIDUAL:
                v += d->residual_dtype == DHOW_F32
                         ? ((const float *)residual)[at]
                         : (float)byte_at(residual, d->residual_dtype, at);
                break;
            case DHOW_TAIL_MULTIPLY:
                v *= row;
                break;
            case DHOW_TAIL_ADD:
                v += row;
                break;
            default:
                v = (float)sim_activate(t->kind, t->alpha, t->beta, (double)v);
        }
    }
    return v;
}

static void put(void *y, int32_t dtype, int64_t at, float v) {
    const float low = dtype == DHOW_U8 ? 0 : -128;
    if (dtype == DHOW_F32) {
        ((float *)y)[at] = v;
        return;
    }
    const int32_t code = (int32_t)fminf(fmaxf(rintf(v), low), low + 255);
    ((uint8_t *)y)[at] = (uint8_t)code;
}

int32_t sim_convolve_bytes(simdev_stream *stream, void *data, unsigned char *const *memory) {
    const sim_conv_plan *p = data;
    const dhow_conv_desc *d = &p->desc;
    const int sums = d->dst_dtype == DHOW_I32;
    const void *rows = memory[SIM_CONV_BIAS], *residual = memory[SIM_CONV_RESIDUAL];
    int32_t zero = d->src_zero;
    (void)stream;
    if ((d->flags & DHOW_CONV_ZERO_GIVEN) != 0) memcpy(&zero, sums ? rows : residual, sizeof zero);
    for (int64_t i = 0; i < p->y.n * p->y.h * p->y.w * d->k; i++) {
        const int64_t k = i % d->k, pixels = p->y.h * p->y.w, pixel = i / d->k % pixels;
        const int32_t sum = sum_at(p, memory[SIM_CONV_X], (const int8_t *)memory[SIM_CONV_WEIGHT],
                                   zero, i / (d->k * pixels), pixel, k);
        if (sums) {
            ((int32_t *)memory[SIM_CONV_Y])[i] = sum;
            continue;
        }
        const float *of = rows, v = ((float)sum + of[k]) * of[d->k + k];
        put(memory[SIM_CONV_Y], d->dst_dtype, i, follow(d, of, residual, v, k, i));
    }
    return DHOW_OK;
}

/* Rows that biases, scales and the tail read. */
uint64_t sim_byte_rows(const dhow_conv_desc *d) {
    uint64_t rows = 2;
    for (uint32_t i = 0; i < d->tail_count; i++) {
        const int reads = d->tail[i].kind == DHOW_TAIL_MULTIPLY || d->tail[i].kind == DHOW_TAIL_ADD;
        if (reads && d->tail[i].row >= rows) rows = (uint64_t)d->tail[i].row + 1;
    }
    return rows;
}

/* ---- products ---- */

typedef struct product {
    const dhow_host *host;
    dhow_blas_desc desc;
} product;

static int32_t multiply(simdev_stream *stream, void *data, unsigned char *const *memory) {
    const dhow_blas_desc *d = &((const product *)data)->desc;
    const int8_t *b = (const int8_t *)memory[1];
    (void)stream;
    for (int64_t i = 0; i < d->m * d->n; i++) {
        const int64_t row = i / d->n, column = i % d->n;
        uint32_t sum = 0;
        for (int64_t k = 0; k < d->k; k++)
            sum += (uint32_t)(byte_at(memory[0], d->dtype_a, row * d->lda + k) *
                              b[k * d->ldb + column]);
        ((int32_t *)memory[2])[row * d->ldc + column] = (int32_t)sum;
    }
    return DHOW_OK;
}

static int32_t blas_plan(void *handle, const dhow_blas_desc *d, void **out_plan,
                         uint64_t *out_workspace_bytes, uint64_t *out_packed_bytes,
                         dhow_error *err) {
    const sim_device *device = handle;
    *out_plan = NULL;
    *out_workspace_bytes = *out_packed_bytes = 0;
    if (!is_byte(d->dtype_a) || d->dtype_b != DHOW_I8 || d->dtype_c != DHOW_I32 || d->batch != 1 ||
        (d->flags & ~(uint32_t)DHOW_BLAS_CONSTANT_B) != 0)
        return sim_fail(err, DHOW_UNSUPPORTED, "simulated devices multiply matrices of bytes");
    product *plan = sim_new(device->host, sizeof *plan);
    if (plan == NULL) return sim_fail(err, DHOW_OUT_OF_MEMORY, "no host memory for a plan");
    *plan = (product){device->host, *d};
    *out_plan = plan;
    return DHOW_OK;
}

static int32_t blas_pack(void *plan, void *stream, dhow_buffer b, dhow_buffer packed,
                         dhow_error *err) {
    (void)plan, (void)stream, (void)b, (void)packed;
    return sim_fail(err, DHOW_UNSUPPORTED, "simulated devices pack no weights");
}

static int32_t blas_run(void *handle, void *stream, dhow_buffer a, dhow_buffer b, dhow_buffer c,
                        dhow_buffer bias, dhow_buffer residual, dhow_buffer workspace,
                        dhow_error *err) {
    const product *plan = handle;
    const dhow_blas_desc *d = &plan->desc;
    (void)bias, (void)residual, (void)workspace;
    simdev_job job = {.run = multiply, .data = plan, .data_bytes = sizeof *plan, .range_count = 3};
    job.ranges[0] = sim_range(a, (uint64_t)((d->m - 1) * d->lda + d->k), DHOW_ACCESS_READ);
    job.ranges[1] = sim_range(b, (uint64_t)((d->k - 1) * d->ldb + d->n), DHOW_ACCESS_READ);
    job.ranges[2] = sim_range(c, (uint64_t)((d->m - 1) * d->ldc + d->n) * 4, DHOW_ACCESS_WRITE);
    return simdev_call(((sim_stream *)stream)->native, &job, err);
}

static void blas_destroy(void *handle) {
    product *plan = handle;
    sim_delete(plan->host, plan);
}

const dhow_blas sim_blas = {.struct_size = sizeof sim_blas,
                            .minor = 1,
                            .plan = blas_plan,
                            .pack = blas_pack,
                            .run = blas_run,
                            .destroy = blas_destroy};
