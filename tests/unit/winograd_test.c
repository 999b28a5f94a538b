/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions by Winograd's transforms against sums in double, with both sets of instructions.
 */
#include "plugins/cpu/winograd.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numbers_fixture.h"

typedef struct shape {
    int64_t n, c, h, w, k;
    int64_t pad[4]; /* top, left, bottom, right */
} shape;

typedef struct operands {
    float *x, *weight, *bias, *residual, *y;
    double *want;
    double size; /* the largest sum of absolute values: tiles share their rounding errors */
} operands;

static int64_t height_of(const shape *s) { return s->h + s->pad[0] + s->pad[2] - 2; }
static int64_t width_of(const shape *s) { return s->w + s->pad[1] + s->pad[3] - 2; }
static int64_t count_of(const shape *s) { return s->n * s->k * height_of(s) * width_of(s); }

static winograd_image image_of(int64_t height, int64_t width, int64_t channels, int64_t block,
                               int64_t lanes) {
    return (winograd_image){.height = height,
                            .width = width,
                            .channels = channels,
                            .pixel = block > 0 ? block : channels,
                            .vector = block > 0 ? height * width * lanes : lanes,
                            .image = height * width * channels};
}

static int64_t at(const winograd_image *i, int64_t lanes, int64_t n, int64_t c, int64_t h,
                  int64_t w) {
    return n * i->image + c / lanes * i->vector + c % lanes + (h * i->width + w) * i->pixel;
}

static double activated(double x, const winograd_job *job) {
    switch (job->activation.kind) {
        case DHOW_ACTIVATION_RELU:
            return fmax(x, 0);
        case DHOW_ACTIVATION_LEAKY_RELU:
            return x < 0 ? x * job->activation.alpha : x;
        case DHOW_ACTIVATION_CLIP:
            return fmin(fmax(x, job->activation.alpha), job->activation.beta);
        case DHOW_ACTIVATION_HARD_SWISH:
            return x * fmin(fmax(x / 6 + 0.5, 0), 1);
        case DHOW_ACTIVATION_SIGMOID:
            return 1 / (1 + exp(-x));
        case DHOW_ACTIVATION_SILU:
            return x / (1 + exp(-x));
        default:
            return x;
    }
}

static void sum_directly(const shape *s, const winograd_job *job, int64_t lanes, operands *o) {
    const winograd_image *from = &job->from, *to = &job->to;
    for (int64_t i = 0; i < count_of(s); i++) {
        const int64_t w = i % to->width, h = i / to->width % to->height,
                      k = i / (to->width * to->height) % s->k, n = i / to->image;
        const int64_t place = at(to, lanes, n, k, h, w);
        double sum = o->bias[k] + o->residual[place], size = fabs(sum);
        for (int64_t c = 0; c < s->c; c++) {
            for (int64_t t = 0; t < 9; t++) {
                const int64_t row = h + t / 3 - s->pad[0], column = w + t % 3 - s->pad[1];
                if (row < 0 || row >= s->h || column < 0 || column >= s->w) continue;
                const double term = (double)o->weight[(k * s->c + c) * 9 + t] *
                                    o->x[at(from, lanes, n, c, row, column)];
                sum += term;
                size += fabs(term);
            }
        }
        o->want[place] = activated(sum, job);
        o->size = fmax(o->size, size);
    }
}

static winograd_job job_of(const shape *s, const winograd_tiles *t, int64_t block) {
    const int64_t height = height_of(s), width = width_of(s);
    return (winograd_job){.from = image_of(s->h, s->w, s->c, block, t->lanes),
                          .to = image_of(height, width, s->k, block, t->lanes),
                          .top = s->pad[0],
                          .left = s->pad[1],
                          .tiles_down = (height + 3) / 4,
                          .tiles_across = (width + 3) / 4};
}

static operands operands_of(const shape *s) {
    return (operands){.x = numbers(s->n * s->c * s->h * s->w),
                      .weight = numbers(s->k * s->c * 9),
                      .bias = numbers(s->k),
                      .residual = numbers(count_of(s)),
                      .y = numbers(count_of(s)),
                      .want = calloc((size_t)count_of(s), sizeof(double))};
}

static void release(operands *o) {
    free(o->x), free(o->weight), free(o->bias), free(o->residual), free(o->y);
    free(o->want);
}

/* In pieces of `chunk` tiles. */
static void run(const shape *s, const winograd_tiles *t, winograd_job *job, operands *o,
                int64_t chunk) {
    const int64_t tiles = s->n * job->tiles_down * job->tiles_across;
    const int64_t rows = t->rows(s->k), padded = (chunk + rows - 1) / rows * rows;
    float *packed = malloc((size_t)winograd_packed(t, s->k, s->c) * sizeof *packed);
    float *room = malloc((size_t)winograd_room(t, s->c, padded) * sizeof *room);
    cr_assert(packed != NULL && room != NULL);
    memset(room, 0xff, (size_t)winograd_room(t, s->c, padded) * sizeof *room); /* NaN */
    winograd_pack(t, o->weight, s->k, s->c, packed);
    job->x = o->x, job->weight = packed, job->y = o->y;
    job->bias = o->bias, job->residual = o->residual;
    for (int64_t first = 0; first < tiles; first += chunk)
        t->run(job, first, tiles - first < chunk ? tiles - first : chunk, room);
    free(packed), free(room);
}

static bool same(double got, double want, double tolerance) {
    if (isnan(want)) return isnan(got);
    return isinf(want) ? got == want : fabs(got - want) <= tolerance;
}

static void expect(const shape *s, const operands *o, double part, const char *what) {
    for (int64_t i = 0; i < count_of(s); i++)
        cr_assert(same(o->y[i], o->want[i], part * o->size),
                  "%s: %lld x %lld -> %lld at %lld x %lld: element %lld is %.9g, not %.9g", what,
                  (long long)s->n, (long long)s->c, (long long)s->k, (long long)s->h,
                  (long long)s->w, (long long)i, o->y[i], o->want[i]);
}

static const shape k_shapes[] = {
    {1, 16, 12, 12, 16, {1, 1, 1, 1}}, {1, 16, 9, 11, 32, {0, 0, 0, 0}},
    {2, 3, 7, 5, 1, {2, 1, 0, 2}},     {3, 33, 6, 6, 17, {1, 0, 2, 1}},
    {1, 7, 3, 3, 48, {0, 0, 0, 0}},    {1, 1, 1, 1, 9, {1, 1, 1, 1}},
    {2, 64, 10, 13, 96, {1, 1, 1, 1}}, {1, 40, 5, 30, 130, {2, 2, 2, 2}}};
enum { SHAPES = sizeof k_shapes / sizeof k_shapes[0] };

static const winograd_tiles *const k_tiles[] = {&winograd_tiles_v3, &winograd_tiles_v4};

static bool can_run(const winograd_tiles *t) {
    return t->lanes == 16 ? __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")
                          : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

Test(winograd, equals_sums_in_double) {
    int ran = 0;
    for (int i = 0; i < 2 * SHAPES; i++) {
        const winograd_tiles *t = k_tiles[i % 2];
        const shape *s = &k_shapes[i / 2];
        if (!can_run(t)) continue;
        operands o = operands_of(s);
        winograd_job job = job_of(s, t, 0);
        sum_directly(s, &job, t->lanes, &o);
        const int64_t chunks[] = {1, 5, t->most};
        for (int k = 0; k < 3; k++) {
            memset(o.y, 0xff, (size_t)count_of(s) * sizeof *o.y);
            run(s, t, &job, &o, chunks[k]);
            expect(s, &o, 8e-7, t->lanes == 16 ? "v4" : "v3");
        }
        release(&o);
        ran++;
    }
    cr_assert(ran > 0, "this processor has neither AVX2 nor AVX-512");
}

Test(winograd, channels_in_blocks) {
    for (int i = 0; i < 2; i++) {
        const winograd_tiles *t = k_tiles[i];
        const shape s = {2, 2 * t->lanes, 9, 6, 3 * t->lanes, {1, 1, 1, 1}};
        if (!can_run(t)) continue;
        operands o = operands_of(&s);
        winograd_job job = job_of(&s, t, t->lanes);
        sum_directly(&s, &job, t->lanes, &o);
        run(&s, t, &job, &o, 7);
        expect(&s, &o, 8e-7, "blocks");
        release(&o);
    }
}

Test(winograd, activations) {
    const shape s = {1, 20, 8, 8, 24, {1, 1, 1, 1}};
    static const uint32_t kinds[] = {DHOW_ACTIVATION_RELU,    DHOW_ACTIVATION_LEAKY_RELU,
                                     DHOW_ACTIVATION_CLIP,    DHOW_ACTIVATION_HARD_SWISH,
                                     DHOW_ACTIVATION_SIGMOID, DHOW_ACTIVATION_SILU};
    for (int i = 0; i < 12; i++) {
        const winograd_tiles *t = k_tiles[i % 2];
        if (!can_run(t)) continue;
        operands o = operands_of(&s);
        winograd_job job = job_of(&s, t, 0);
        const bool clips = kinds[i / 2] == DHOW_ACTIVATION_CLIP;
        job.activation = (cpu_activation){kinds[i / 2], clips ? -0.5f : 0.25f, 0.75f};
        for (int64_t k = 0; k < s.k; k++) o.bias[k] *= k % 3 == 0 ? 200 : 1; /* saturates */
        sum_directly(&s, &job, t->lanes, &o);
        run(&s, t, &job, &o, 4);
        expect(&s, &o, 8e-7, "activation");
        release(&o);
    }
}

/* What is not finite, or becomes so in the transforms, reaches the results of its window alone. */
Test(winograd, infinities_and_nan_stay_where_they_are) {
    const shape s = {1, 18, 12, 12, 20, {1, 1, 1, 1}};
    static const float values[] = {INFINITY, -INFINITY, NAN, 3e38f};
    for (int i = 0; i < 8; i++) {
        const winograd_tiles *t = k_tiles[i % 2];
        if (!can_run(t)) continue;
        operands o = operands_of(&s);
        winograd_job job = job_of(&s, t, 0);
        o.x[at(&job.from, t->lanes, 0, 4, 5, 6)] = values[i / 2];
        o.x[at(&job.from, t->lanes, 0, 17, 0, 11)] = values[i / 2];
        for (int64_t k = 0; k < 9 * 18; k++) o.weight[k] = 0; /* 0 times infinity is none */
        sum_directly(&s, &job, t->lanes, &o);
        for (int64_t k = 0; k < count_of(&s); k++) {
            if (fabs(o.want[k]) > 3.4e38) o.want[k] = copysign(INFINITY, o.want[k]);
        }
        run(&s, t, &job, &o, 9);
        expect(&s, &o, 8e-7, "not finite");
        release(&o);
    }
}
