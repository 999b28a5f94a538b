/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of each channel by itself, of images and volumes, against sums in double, with both
 * sets of instructions.
 */
#include "plugins/cpu/planes.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { X = 1 << 16, WEIGHTS = 1 << 12, Y = 1 << 16, GUARD = 64 };

static float g_x[X], g_weight[WEIGHTS], g_bias[WEIGHTS], g_residual[Y], g_y[Y + GUARD];

static uint32_t draw(uint32_t *state) { return (*state = *state * 1664525u + 1013904223u) >> 8; }

static int64_t between(uint32_t *state, int64_t low, int64_t high) {
    return low + draw(state) % (high - low + 1);
}

static void fill(float *to, int64_t count, uint32_t *state) {
    for (int64_t i = 0; i < count; i++) to[i] = (float)(draw(state) % 2001) / 1000 - 1;
}

/* False where a random job has no result, or is too large for the arrays. */
static bool draw_job(uint32_t *state, int64_t n, window_job *job) {
    static const uint32_t ends[] = {DHOW_ACTIVATION_NONE, DHOW_ACTIVATION_RELU,
                                    DHOW_ACTIVATION_GELU};
    const bool wide = draw(state) % 8 == 0; /* more than the columns of a copy */
    const int64_t most = draw(state) % 2 == 0 ? 40 : 12, deep = most == 40 ? 1 : 4;
    *job = (window_job){.depth = between(state, 1, deep),
                        .kd = between(state, 1, deep),
                        .stride_d = between(state, 1, deep),
                        .dilation_d = between(state, 1, deep),
                        .pad_d = between(state, 0, 2 * deep - 2),
                        .height = between(state, 1, wide ? 3 : most),
                        .width = wide ? between(state, 200, 700) : between(state, 1, most),
                        .c = between(state, 1, 4),
                        .kh = between(state, 1, 9),
                        .kw = between(state, 1, draw(state) % 4 == 0 ? PLANES_MOST_TAPS : 9),
                        .stride = {between(state, 1, 3), between(state, 1, 4)},
                        .dilation = {between(state, 1, 3), between(state, 1, 3)},
                        .pad = {between(state, 0, 9), between(state, 0, 9)},
                        .x = g_x,
                        .weight = g_weight,
                        .y = g_y};
    const int64_t tall = job->height + job->pad[0] + between(state, 0, 9) - 1 -
                         (job->kh - 1) * job->dilation[0],
                  broad = job->width + job->pad[1] + between(state, 0, 9) - 1 -
                          (job->kw - 1) * job->dilation[1];
    const int64_t many =
        job->depth + job->pad_d + between(state, 0, deep - 1) - 1 - (job->kd - 1) * job->dilation_d;
    job->k = job->c * between(state, 1, 3);
    job->out_depth = many < 0 ? 0 : many / job->stride_d + 1;
    job->out_height = tall < 0 ? 0 : tall / job->stride[0] + 1;
    job->out_width = broad < 0 ? 0 : broad / job->stride[1] + 1;
    if (draw(state) % 2 == 0) job->bias = g_bias;
    if (draw(state) % 2 == 0) job->residual = draw(state) % 2 ? g_residual : g_y;
    job->activation.kind = ends[draw(state) % 3];
    if (job->out_depth < 1 || job->out_height < 1 || job->out_width < 1) return false;
    planes_divide(job);
    return job->parts > 0 && n * job->c * job->depth * job->height * job->width <= X &&
           job->k * job->kd * job->kh * job->kw <= WEIGHTS &&
           n * job->k * job->out_depth * job->out_height * job->out_width <= Y;
}

static double want_at(const window_job *job, int64_t at) {
    const int64_t w = at % job->out_width, h = at / job->out_width % job->out_height,
                  d = at / (job->out_width * job->out_height) % job->out_depth,
                  channel = at / (job->out_width * job->out_height * job->out_depth),
                  image = channel / job->k, k = channel % job->k,
                  taps = job->kd * job->kh * job->kw;
    const float *x =
        g_x + (image * job->c + k / (job->k / job->c)) * job->depth * job->height * job->width;
    double sum = job->bias ? (double)g_bias[k] : 0;
    for (int64_t i = 0; i < taps; i++) {
        const int64_t z = d * job->stride_d + i / (job->kh * job->kw) * job->dilation_d -
                          job->pad_d,
                      r = h * job->stride[0] + i / job->kw % job->kh * job->dilation[0] -
                          job->pad[0],
                      c = w * job->stride[1] + i % job->kw * job->dilation[1] - job->pad[1];
        if (z < 0 || z >= job->depth || r < 0 || r >= job->height || c < 0 || c >= job->width)
            continue;
        sum += (double)g_weight[k * taps + i] * (double)x[(z * job->height + r) * job->width + c];
    }
    if (job->residual) sum += (double)g_residual[at];
    return job->activation.kind == DHOW_ACTIVATION_RELU   ? fmax(sum, 0)
           : job->activation.kind == DHOW_ACTIVATION_GELU ? sum * (1 + erf(sum * sqrt(0.5))) / 2
                                                          : sum;
}

static void check(void (*planes)(const window_job *job, int64_t part)) {
    uint32_t state = 11;
    int checked = 0;
    fill(g_x, X, &state);
    fill(g_weight, WEIGHTS, &state);
    fill(g_bias, WEIGHTS, &state);
    fill(g_residual, Y, &state);
    for (int round = 0; round < 4000; round++) {
        const int64_t n = between(&state, 1, 2);
        window_job job;
        if (!draw_job(&state, n, &job)) continue;
        const int64_t planes_count = n * job.k * job.out_depth,
                      count = planes_count * job.out_height * job.out_width;
        for (int64_t i = 0; i < count + GUARD; i++) g_y[i] = i < count ? g_residual[i] : 77;
        for (int64_t part = planes_count * job.parts; part-- > 0;) planes(&job, part);
        for (int64_t i = 0; i < count; i++) {
            const double want = want_at(&job, i);
            cr_assert_float_eq((double)g_y[i], want, 1e-4, "round %d, element %d: %g, not %g",
                               round, (int)i, (double)g_y[i], want);
        }
        for (int64_t i = count; i < count + GUARD; i++)
            cr_assert_eq(g_y[i], 77, "round %d writes behind its result", round);
        checked++;
    }
    cr_assert_gt(checked, 500);
}

Test(planes, are_sums_of_windows_with_avx2) {
    if (!__builtin_cpu_supports("avx2")) cr_skip_test("this processor has no AVX2");
    check(planes_v3);
}

Test(planes, are_sums_of_windows_with_avx512) {
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl"))
        cr_skip_test("this processor has no AVX-512");
    check(planes_v4);
}
