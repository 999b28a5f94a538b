/* SPDX-License-Identifier: Apache-2.0
 *
 * See conv.h.
 */
#include "conv.h"

#include <library_types.h>
#include <math.h>
#include <stdlib.h>
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

/* Sums of that many neighbouring pixels grow at once: models take minutes one by one. */
enum { PIXELS = 16 };
typedef double pixels __attribute__((vector_size(PIXELS * sizeof(double))));

static int64_t taps_of(const fake_conv *c) { return c->kernel[0] * c->kernel[1] * c->kernel[2]; }
static int64_t pixels_of(const fake_conv *c) { return c->out[0] * c->out[1] * c->out[2]; }

/* The index in three dimensions, the last one fastest. */
static void unflatten(const int64_t *shape, int64_t at, int64_t *index) {
    for (int i = 2; i >= 0; i--) {
        index[i] = at % shape[i];
        at /= shape[i];
    }
}

/* w as [k][c / groups][taps]. */
static void gather_weights(const fake_conv *c, const unsigned char *w, double *to) {
    const int64_t inner = c->c / c->groups, each = c->k / c->groups, taps = taps_of(c);
    int64_t tap[3];
    for (int64_t k = 0; k < c->k; k++) {
        for (int64_t i = 0; i < inner; i++) {
            const int64_t first = c->transposed ? (k / each * inner + i) * c->w_strides[0] +
                                                      k % each * c->w_strides[1]
                                                : k * c->w_strides[0] + i * c->w_strides[1];
            for (int64_t t = 0; t < taps; t++) {
                unflatten(c->kernel, t, tap);
                *to++ = load_at(c, w,
                                first + tap[0] * c->w_strides[2] + tap[1] * c->w_strides[3] +
                                    tap[2] * c->w_strides[4]);
            }
        }
    }
}

/* What the pixels from `first` on see of image n, as [c][taps]; 0 where that is padding. */
static void gather_pixels(const fake_conv *c, const unsigned char *x, int64_t n, int64_t first,
                          pixels *to) {
    const int64_t taps = taps_of(c), count = pixels_of(c);
    int64_t pixel[3], tap[3];
    memset(to, 0, (size_t)(c->c * taps) * sizeof *to);
    for (int p = 0; p < PIXELS && first + p < count; p++) {
        unflatten(c->out, first + p, pixel);
        for (int64_t t = 0; t < taps; t++) {
            unflatten(c->kernel, t, tap);
            const int64_t at = place(c, pixel, tap);
            for (int64_t i = 0; at >= 0 && i < c->c; i++)
                to[i * taps + t][p] = load_at(c, x, n * c->x_strides[0] + i * c->x_strides[1] + at);
        }
    }
}

static double relu(const fake_conv *c, double value) {
    if (isnan(value)) return c->keeps_nan ? value : 0;
    return value > 0 ? value : 0;
}

static void finish(const fake_conv *c, unsigned char *const *memory, int64_t n, int64_t k,
                   int64_t at_pixel, double sum) {
    const int64_t bytes = fake_type_bytes(c->type);
    int64_t pixel[3];
    unflatten(c->out, at_pixel, pixel);
    const int64_t at = n * c->y_strides[0] + k * c->y_strides[1] + pixel[0] * c->y_strides[2] +
                       pixel[1] * c->y_strides[3] + pixel[2] * c->y_strides[4];
    double value = c->alpha != 0 ? c->alpha * sum : 0;
    if (c->beta != 0) value += c->beta * fake_load(memory[Z] + at * bytes, c->type);
    if (c->bias != NULL) value += fake_load(memory[BIAS] + k * bytes, c->type);
    fake_store(memory[Y] + at * bytes, c->type, c->relu ? relu(c, value) : value);
}

/* All channels of the pixels from `first` on. */
static void compute(const fake_conv *c, unsigned char *const *memory, int64_t n, int64_t first,
                    const double *w, const pixels *seen, bool spoilt) {
    const int64_t products = c->c / c->groups * taps_of(c), each = c->k / c->groups;
    for (int64_t k = 0; k < c->k; k++) {
        const pixels *x = seen + k / each * products;
        pixels sum = {0};
        for (int64_t i = 0; i < products; i++) sum += w[k * products + i] * x[i];
        for (int p = 0; p < PIXELS && first + p < pixels_of(c); p++)
            finish(c, memory, n, k, first + p, spoilt ? NAN : sum[p]);
    }
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
    memcpy(&c, data, sizeof c);
    if (memory[WORKSPACE] != NULL) memset(memory[WORKSPACE], 0xEE, (size_t)c.workspace_bytes);
    const bool spoilt = c.transforms && has_nan(&c, memory[X]);
    const size_t taps = (size_t)taps_of(&c);
    double *w = malloc((size_t)(c.k * (c.c / c.groups)) * taps * sizeof *w);
    pixels *seen = aligned_alloc(sizeof *seen, (size_t)c.c * taps * sizeof *seen);
    if (w == NULL || seen == NULL) abort();
    gather_weights(&c, memory[W], w);
    for (int64_t n = 0; n < c.n; n++) {
        for (int64_t first = 0; first < pixels_of(&c); first += PIXELS) {
            gather_pixels(&c, memory[X], n, first, seen);
            compute(&c, memory, n, first, w, seen, spoilt);
        }
    }
    free(seen);
    free(w);
}

static fakecuda_range range_of(const fake_conv *c, const void *address, int64_t count,
                               bool writes) {
    return (fakecuda_range){address, (uint64_t)(count * fake_type_bytes(c->type)), writes};
}

bool fake_conv_submit(cudaStream_t stream, const fake_conv *c) {
    _Static_assert(sizeof *c <= FAKECUDA_MAX_DATA, "a convolution is too large a description");
    const int64_t y_count = c->n * c->k * c->out[0] * c->out[1] * c->out[2];
    const int64_t x_count = c->n * c->c * c->in[0] * c->in[1] * c->in[2];
    const fakecuda_range ranges[RANGES] = {
        [X] = range_of(c, c->x, x_count, false),
        [W] = range_of(c, c->w, c->k * c->c / c->groups * taps_of(c), false),
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
    fakecuda_cost(
        "cuDNN", c->tf32 ? "tf32" : fake_type_name(c->type), ranges, RANGES,
        2.0 *
            (double)(c->transposed ? x_count * (c->k / c->groups) : y_count * (c->c / c->groups)) *
            (double)taps_of(c));
    return fakecuda_work(stream, run, c, sizeof *c, ranges, RANGES) == cudaSuccess;
}
