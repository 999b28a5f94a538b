/* SPDX-License-Identifier: Apache-2.0
 *
 * See conv.h.
 */
#include "conv.h"

#include <library_types.h>
#include <math.h>
#include <string.h>

enum { X, W, Z, BIAS, Y, WORKSPACE, RANGES };

static double load_at(const fake_conv *c, const unsigned char *memory, int64_t at) {
    const double value = fake_load(memory + at * fake_type_bytes(c->type), c->type);
    return c->tf32 ? fake_tf32(value) : value;
}

/* The place in x that a tap of an element of y sees, -1 where there is none. */
static int64_t place(const fake_conv *c, const int64_t *pixel, const int64_t *tap) {
    int64_t at = 0;
    for (int i = 0; i < 3; i++) {
        int64_t p = pixel[i] * c->stride[i] + tap[i] * c->dilation[i] - c->pad[i];
        if (c->transposed) {
            const int64_t reached = pixel[i] + c->pad[i] - tap[i] * c->dilation[i];
            p = reached % c->stride[i] == 0 ? reached / c->stride[i] : -1;
        }
        if (p < 0 || p >= c->in[i]) return -1;
        at += p * c->x_strides[2 + i];
    }
    return at;
}

/* The same as below for plain floats, without a look at the type of each: models take minutes
 * else. Four sums, for one waits for itself. */
static double products(const float *x, int64_t x_step, const float *w, int64_t w_step,
                       int64_t count) {
    double sum[4] = {0};
    for (int64_t i = 0; i < count; i++) sum[i & 3] += (double)x[i * x_step] * (double)w[i * w_step];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

/* The products of one tap. */
static double tap_at(const fake_conv *c, unsigned char *const *memory, int64_t n, int64_t k,
                     int64_t at, int64_t tap) {
    const int64_t inner = c->c / c->groups, each = c->k / c->groups, first = k / each * inner;
    const int64_t w_step = c->w_strides[c->transposed ? 0 : 1];
    const int64_t w_at = c->transposed ? first * w_step + k % each * c->w_strides[1] + tap
                                       : k * c->w_strides[0] + tap;
    const int64_t x_at = n * c->x_strides[0] + first * c->x_strides[1] + at;
    double sum = 0;
    if (c->type == CUDA_R_32F && !c->tf32)
        return products((const float *)(const void *)memory[X] + x_at, c->x_strides[1],
                        (const float *)(const void *)memory[W] + w_at, w_step, inner);
    for (int64_t i = 0; i < inner; i++)
        sum += load_at(c, memory[X], x_at + i * c->x_strides[1]) *
               load_at(c, memory[W], w_at + i * w_step);
    return sum;
}

static double sum_at(const fake_conv *c, unsigned char *const *memory, int64_t n, int64_t k,
                     const int64_t *pixel) {
    double sum = 0;
    int64_t tap[3];
    for (tap[0] = 0; tap[0] < c->kernel[0]; tap[0]++) {
        for (tap[1] = 0; tap[1] < c->kernel[1]; tap[1]++) {
            for (tap[2] = 0; tap[2] < c->kernel[2]; tap[2]++) {
                const int64_t at = place(c, pixel, tap);
                const int64_t *step = c->w_strides + 2;
                if (at >= 0)
                    sum += tap_at(c, memory, n, k, at,
                                  tap[0] * step[0] + tap[1] * step[1] + tap[2] * step[2]);
            }
        }
    }
    return sum;
}

static double relu(const fake_conv *c, double value) {
    if (isnan(value)) return c->keeps_nan ? value : 0;
    return value > 0 ? value : 0;
}

static void compute(const fake_conv *c, unsigned char *const *memory, int64_t n, int64_t k,
                    const int64_t *pixel, bool spoilt) {
    const int64_t bytes = fake_type_bytes(c->type);
    const int64_t at = n * c->y_strides[0] + k * c->y_strides[1] + pixel[0] * c->y_strides[2] +
                       pixel[1] * c->y_strides[3] + pixel[2] * c->y_strides[4];
    double value = spoilt ? NAN : c->alpha != 0 ? c->alpha * sum_at(c, memory, n, k, pixel) : 0;
    if (c->beta != 0) value += c->beta * fake_load(memory[Z] + at * bytes, c->type);
    if (c->bias != NULL) value += fake_load(memory[BIAS] + k * bytes, c->type);
    fake_store(memory[Y] + at * bytes, c->type, c->relu ? relu(c, value) : value);
}

static bool has_nan(const fake_conv *c, const unsigned char *x) {
    const int64_t count = c->n * c->c * c->in[0] * c->in[1] * c->in[2];
    for (int64_t i = 0; i < count; i++) {
        if (isnan(fake_load(x + i * fake_type_bytes(c->type), c->type))) return true;
    }
    return false;
}

static void run(void *data, unsigned char *const *memory) {
    fake_conv c;
    int64_t p[3];
    memcpy(&c, data, sizeof c);
    if (memory[WORKSPACE] != NULL) memset(memory[WORKSPACE], 0xEE, (size_t)c.workspace_bytes);
    const bool spoilt = c.transforms && has_nan(&c, memory[X]);
    for (int64_t n = 0; n < c.n; n++) {
        for (int64_t k = 0; k < c.k; k++) {
            for (p[0] = 0; p[0] < c.out[0]; p[0]++) {
                for (p[1] = 0; p[1] < c.out[1]; p[1]++) {
                    for (p[2] = 0; p[2] < c.out[2]; p[2]++) compute(&c, memory, n, k, p, spoilt);
                }
            }
        }
    }
}

static fakecuda_range range_of(const fake_conv *c, const void *address, int64_t count,
                               bool writes) {
    return (fakecuda_range){address, (uint64_t)(count * fake_type_bytes(c->type)), writes};
}

bool fake_conv_submit(cudaStream_t stream, const fake_conv *c) {
    _Static_assert(sizeof *c <= FAKECUDA_MAX_DATA, "a convolution is too large a description");
    const int64_t y_count = c->n * c->k * c->out[0] * c->out[1] * c->out[2];
    const int64_t x_count = c->n * c->c * c->in[0] * c->in[1] * c->in[2];
    const int64_t taps = c->kernel[0] * c->kernel[1] * c->kernel[2];
    const fakecuda_range ranges[RANGES] = {
        [X] = range_of(c, c->x, x_count, false),
        [W] = range_of(c, c->w, c->k * c->c / c->groups * taps, false),
        [Z] = range_of(c, c->beta != 0 ? c->z : NULL, y_count, false),
        [BIAS] = range_of(c, c->bias, c->k, false),
        [Y] = range_of(c, c->y, y_count, true),
        [WORKSPACE] = {c->workspace, c->workspace_bytes, true}};
    fakecuda_log("cuDNN %s [%lld,%lld,%lld,%lld,%lld] by [%lld,%lld,%lld,%lld,%lld]%s%s%s %s",
                 c->transposed ? "backward data" : "forward", (long long)c->n, (long long)c->c,
                 (long long)c->in[0], (long long)c->in[1], (long long)c->in[2], (long long)c->k,
                 (long long)(c->c / c->groups), (long long)c->kernel[0], (long long)c->kernel[1],
                 (long long)c->kernel[2], c->bias != NULL ? " + bias" : "",
                 c->beta != 0 ? " + residual" : "", c->relu ? ", relu" : "",
                 fake_type_name(c->type));
    return fakecuda_work(stream, run, c, sizeof *c, ranges, RANGES) == cudaSuccess;
}
