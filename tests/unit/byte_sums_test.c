/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of bytes with AVX2, and what ends them, against plain loops.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/cpu/byte_quads.h"

enum { ROWS = 13, RESULTS = 37, TERMS = 41, PAIRS = (TERMS + 1) / 2, STRIDE = RESULTS + 3 };

static int16_t g_rows[ROWS * 2 * PAIRS], g_packed[RESULTS * 2 * PAIRS + 16 * 2 * PAIRS];
static float g_bias[3 * RESULTS], g_added[ROWS * STRIDE];
static unsigned char g_bytes[ROWS * STRIDE];
static int32_t g_sums[ROWS][RESULTS];

static uint32_t draw(uint32_t *state) { return (*state = *state * 1664525u + 1013904223u) >> 8; }

/* Values of x - zero and weights up to their bounds. */
static void draw_all(void) {
    uint32_t state = 7;
    int8_t weight[RESULTS][TERMS];
    memset(g_packed, 0, sizeof g_packed);
    memset(g_sums, 0, sizeof g_sums);
    for (int k = 0; k < RESULTS; k++) {
        for (int i = 0; i < TERMS; i++) {
            weight[k][i] = (int8_t)(draw(&state) % 5 == 0 ? -128 : (int)(draw(&state) % 256) - 128);
            g_packed[(k / 16 * PAIRS + i / 2) * 32 + k % 16 * 2 + i % 2] = weight[k][i];
        }
    }
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < TERMS; i++) {
            const int x = draw(&state) % 5 == 0 ? -255 : (int)(draw(&state) % 511) - 255;
            g_rows[r * 2 * PAIRS + i] = (int16_t)x;
            for (int k = 0; k < RESULTS; k++) g_sums[r][k] += x * weight[k][i];
        }
    }
    for (int i = 0; i < 3 * RESULTS; i++)
        g_bias[i] = i / RESULTS == 1 ? 0x1p-12f * (float)(1 + i % 7) : (float)(i % 40) - 20;
    for (int i = 0; i < ROWS * STRIDE; i++) {
        g_bytes[i] = (unsigned char)draw(&state);
        g_added[i] = (float)(int)(draw(&state) % 100) - 50;
    }
}

static float byte_value(int32_t dtype, unsigned char byte) {
    return dtype == DHOW_I8 ? (float)(signed char)byte : (float)byte;
}

static float residual_at(const byte_sums_job *j, int64_t at) {
    return j->residual_dtype == DHOW_F32 ? g_added[at] : byte_value(j->residual_dtype, g_bytes[at]);
}

static float ended(const byte_sums_job *j, int r, int k) {
    float v = ((float)g_sums[r][k] + g_bias[k]) * g_bias[RESULTS + k];
    for (uint32_t i = 0; i < j->tail_count; i++) {
        const dhow_conv_tail *t = &j->tail[i];
        const float row = g_bias[t->row * RESULTS + (uint32_t)k];
        v = t->kind == DHOW_TAIL_LINEAR       ? fmaf(v, t->alpha, t->beta)
            : t->kind == DHOW_TAIL_ROUND      ? rintf(v)
            : t->kind == DHOW_TAIL_RESIDUAL   ? v + residual_at(j, r * STRIDE + k)
            : t->kind == DHOW_TAIL_MULTIPLY   ? v * row
            : t->kind == DHOW_TAIL_ADD        ? v + row
            : t->kind == DHOW_ACTIVATION_CLIP ? fminf(fmaxf(v, t->alpha), t->beta)
                                              : fmaxf(v, 0);
    }
    if (j->dst_dtype == DHOW_I8) return fminf(fmaxf(rintf(v), -128), 127);
    return j->dst_dtype == DHOW_U8 ? fminf(fmaxf(rintf(v), 0), 255) : v;
}

static float value_at(const byte_sums_job *j, int64_t at) {
    float v;
    memcpy(&v, j->y + (j->dst_dtype == DHOW_F32 ? at * 4 : 0), sizeof v);
    return j->dst_dtype == DHOW_F32 ? v : byte_value(j->dst_dtype, (unsigned char)j->y[at]);
}

static void expect_values(const byte_sums_job *j, const char *what) {
    for (int r = 0; r < ROWS; r++) {
        for (int k = 0; k < RESULTS; k++)
            cr_assert_eq(value_at(j, r * STRIDE + k), ended(j, r, k),
                         "%s, type %d, [%d][%d]: %g, not %g", what, (int)j->dst_dtype, r, k,
                         (double)value_at(j, r * STRIDE + k), (double)ended(j, r, k));
        for (int k = RESULTS; k < STRIDE; k++) {
            const int64_t at = r * STRIDE + k, each = j->dst_dtype == DHOW_F32 ? 4 : 1;
            for (int64_t i = 0; i < each; i++)
                cr_assert_eq(j->y[at * each + i], 0x55, "beside row %d", r);
        }
    }
}

static void run(byte_sums_job *j, void *y, size_t bytes) {
    memset(y, 0x55, bytes);
    j->y = y;
    byte_sums_v3(j, 16, RESULTS);
    byte_sums_v3(j, 0, 16);
}

static byte_sums_job job_to(int32_t dtype) {
    return (byte_sums_job){.count = ROWS,
                           .pairs = PAIRS,
                           .rows = g_rows,
                           .packed = g_packed,
                           .dst_dtype = dtype,
                           .stride = STRIDE,
                           .bias = dtype == DHOW_I32 ? NULL : g_bias,
                           .table = RESULTS};
}

static void set_up(void) {
    if (!__builtin_cpu_supports("avx2")) cr_skip_test("this processor has no AVX2");
    draw_all();
}
TestSuite(byte_sums, .init = set_up, .timeout = 60);

static void expect_sums(int32_t y[ROWS * STRIDE], const char *what) {
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < RESULTS; k++)
            cr_assert_eq(y[r * STRIDE + k], g_sums[r][k], "%s, [%d][%d]: %d, not %d", what, r, k,
                         y[r * STRIDE + k], g_sums[r][k]);
}

Test(byte_sums, sums_are_exact) {
    static int32_t y[ROWS * STRIDE];
    byte_sums_job j = job_to(DHOW_I32);
    run(&j, y, sizeof y);
    expect_sums(y, "pairs");
}

/* ---- quads ---- */

enum { QUADS = (TERMS + 3) / 4, PANELS = (RESULTS + 15) / 16 };

static uint8_t g_x[ROWS * 4 * QUADS];
static _Alignas(64) char g_panels[PANELS * 4096];

static byte_quads_panel *panel_of(int p) {
    cr_assert_leq(byte_quads_bytes(QUADS), 4096);
    return (void *)(g_panels + p * byte_quads_bytes(QUADS));
}

/* Weights of up to `width`, -128 among the widest, by values of which many are the largest; adds up
 * how many quads are of each kind. */
static void draw_quads(int width, int zero, uint32_t *state, int kinds[BYTE_QUADS_KINDS]) {
    memset(g_panels, 0, sizeof g_panels);
    memset(g_sums, 0, sizeof g_sums);
    for (int i = 0; i < ROWS * 4 * QUADS; i++)
        g_x[i] = (uint8_t)(draw(state) % 2 == 0 ? 255 : draw(state) % 256);
    for (int k = 0; k < RESULTS; k++) {
        int8_t *to = (int8_t *)panel_of(k / 16) + byte_quads_before(QUADS);
        for (int i = 0; i < TERMS; i++) {
            const int drawn = (int)(draw(state) % (2 * (uint32_t)width + 1)) - width,
                      w = width == 127 && draw(state) % 8 == 0 ? -128 : drawn;
            to[(i / 4 * 16 + k % 16) * 4 + i % 4] = (int8_t)w;
            for (int r = 0; r < ROWS; r++) g_sums[r][k] += (g_x[r * 4 * QUADS + i] - zero) * w;
        }
    }
    for (int p = 0; p < PANELS; p++) {
        byte_quads_order_v3(panel_of(p), QUADS);
        for (int kind = 0; kind < BYTE_QUADS_KINDS; kind++)
            kinds[kind] += panel_of(p)->counts[kind];
    }
}

/* Of each kind there are some. */
Test(byte_sums, sums_of_quads_are_exact) {
    static const int widths[] = {20, 30, 45, 64, 70, 80, 90, 127}, zeros[] = {0, 3, 255};
    static int32_t y[ROWS * STRIDE];
    int kinds[BYTE_QUADS_KINDS] = {0};
    uint32_t state = 11;
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        for (size_t z = 0; z < sizeof zeros / sizeof *zeros; z++) {
            byte_sums_job j = job_to(DHOW_I32);
            draw_quads(widths[w], zeros[z], &state, kinds);
            j.quads = QUADS;
            j.rows = g_x;
            j.packed = g_panels;
            j.zero = zeros[z];
            memset(y, 0x55, sizeof y);
            j.y = (char *)y;
            byte_sums_quads_v3(&j, 16, RESULTS);
            byte_sums_quads_v3(&j, 0, 16);
            expect_sums(y, "quads");
        }
    }
    for (int kind = 0; kind < BYTE_QUADS_KINDS; kind++) cr_assert_gt(kinds[kind], 0, "%d", kind);
}

/* Of rows [places][channels], in an odd number of places. */
static void expect_by_channel(bool is_signed, int32_t zero) {
    enum { PLACES = 9, PAIRS_OF = (PLACES + 1) / 2 };
    static uint8_t x[ROWS][PLACES][RESULTS], zeros[RESULTS];
    static int16_t packed[3 * 16 * 2 * PAIRS_OF];
    static int32_t y[ROWS * STRIDE];
    const uint8_t *rows[ROWS][2 * PAIRS_OF];
    uint32_t state = 3;
    memset(packed, 0, sizeof packed);
    memset(g_sums, 0, sizeof g_sums);
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < PLACES; i++) rows[r][i] = x[r][i];
        rows[r][PLACES] = zeros;
    }
    for (int i = 0; i < PLACES; i++) {
        for (int k = 0; k < RESULTS; k++) {
            const int weight = (int)(draw(&state) % 511) - 255;
            packed[k / 16 * 16 * 2 * PAIRS_OF + byte_sums_place(k % 16, i)] = (int16_t)weight;
            for (int r = 0; r < ROWS; r++) {
                x[r][i][k] = (uint8_t)draw(&state);
                g_sums[r][k] += ((is_signed ? (int8_t)x[r][i][k] : x[r][i][k]) - zero) * weight;
            }
        }
    }
    byte_sums_job j = job_to(DHOW_I32);
    j.rows = rows;
    j.packed = packed;
    j.pairs = PAIRS_OF;
    j.zero = zero;
    j.is_signed = is_signed;
    j.y = (char *)y;
    byte_sums_by_channel_v3(&j, 16, RESULTS);
    byte_sums_by_channel_v3(&j, 0, 16);
    expect_sums(y, is_signed ? "channels of i8" : "channels of u8");
}

Test(byte_sums, sums_by_channel_are_exact) {
    expect_by_channel(false, 0);
    expect_by_channel(false, 255);
    expect_by_channel(true, -128);
    expect_by_channel(true, 5);
}

Test(byte_sums, tails_follow_in_their_order) {
    static const dhow_conv_tail tail[] = {{DHOW_TAIL_RESIDUAL, 0, 0, 0},
                                          {DHOW_ACTIVATION_RELU, 0, 0, 0},
                                          {DHOW_TAIL_MULTIPLY, 2, 0, 0},
                                          {DHOW_TAIL_LINEAR, 0, 0.5f, 3},
                                          {DHOW_TAIL_ADD, 2, 0, 0},
                                          {DHOW_TAIL_ROUND, 0, 0, 0},
                                          {DHOW_ACTIVATION_CLIP, 0, -100, 200}};
    static const int32_t to[] = {DHOW_F32, DHOW_U8, DHOW_I8},
                         added[] = {DHOW_F32, DHOW_U8, DHOW_I8};
    static float y[ROWS * STRIDE];
    for (int t = 0; t < 3; t++) {
        for (int a = 0; a < 3; a++) {
            for (uint32_t count = 0; count <= sizeof tail / sizeof *tail; count++) {
                byte_sums_job j = job_to(to[t]);
                j.tail = tail;
                j.tail_count = count;
                j.residual_dtype = added[a];
                j.residual = a == 0 ? (const char *)g_added : (const char *)g_bytes;
                run(&j, y, sizeof y);
                expect_values(&j, "tail");
            }
        }
    }
}

Test(byte_sums, bytes_are_moved_up) {
    unsigned char from[70], to[71];
    for (int i = 0; i < 70; i++) from[i] = (unsigned char)(i * 37 + 100);
    for (int count = 0; count <= 70; count++) {
        to[count] = 77;
        move_up_bytes_v3(from, count, to);
        for (int i = 0; i < count; i++) cr_assert_eq(to[i], (signed char)from[i] + 128);
        cr_assert_eq(to[count], 77);
    }
}

Test(byte_sums, bytes_are_widened_less_their_zero_point) {
    unsigned char from[50];
    int16_t to[51];
    for (int i = 0; i < 50; i++) from[i] = (unsigned char)(i * 37 + 100);
    for (int count = 0; count <= 50; count++) {
        for (int is_signed = 0; is_signed < 2; is_signed++) {
            to[count] = 777;
            widen_bytes_v3(from, is_signed, is_signed ? -128 : 255, count, to);
            for (int i = 0; i < count; i++)
                cr_assert_eq(to[i], is_signed ? (signed char)from[i] + 128 : from[i] - 255);
            cr_assert_eq(to[count], 777);
        }
    }
}
