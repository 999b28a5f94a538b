/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of bytes by dhow.conv/1, with channels last: sums of integers, exact; and what is
 * made of them, up to the last bits of f32 and to one step where these decide.
 */
#include "vendor.h"

enum { ROWS = 3 };

typedef struct bytes_conv {
    const dhow_conv *conv;
    dhow_conv_desc d;
    dhow_conv_plan_info info;
    void *stream, *plan;
    int64_t oh, ow;
    int32_t zero; /* src_zero, or what the device is given in its place */
    uint64_t x, weight, rows, residual, given, y; /* given: the zero point */
    int *x_value, *weight_value, *residual_value; /* in memory's order */
    float *row_value; /* [ROWS][k]: biases, scales, and one of the tail */
} bytes_conv;

static uint32_t draw(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Random codes of a type, on the device and here. */
static conform_result make_codes(conform_env *env, bytes_conv *c, int32_t dtype, int64_t count,
                                 uint32_t seed, uint64_t *handle, int **value) {
    unsigned char *bytes = conform_memory(env, (size_t)count);
    *value = conform_memory(env, (size_t)count * sizeof **value);
    for (int64_t i = 0; i < count; i++) {
        bytes[i] = (unsigned char)draw(&seed);
        (*value)[i] = dtype == DHOW_I8 ? (int)(int8_t)bytes[i] : bytes[i];
    }
    TRY(slot_memory(env, (uint64_t)count, handle));
    return slot_write(env, c->stream, *handle, 0, bytes, (uint64_t)count);
}

/* Of i8, or all that the difference of two bytes may be. */
static conform_result make_weights(conform_env *env, bytes_conv *c, int64_t count) {
    uint32_t seed = 2;
    if (c->d.weight_dtype == DHOW_I8)
        return make_codes(env, c, DHOW_I8, count, seed, &c->weight, &c->weight_value);
    int16_t *wide = conform_memory(env, (size_t)count * sizeof *wide);
    c->weight_value = conform_memory(env, (size_t)count * sizeof *c->weight_value);
    for (int64_t i = 0; i < count; i++)
        wide[i] = (int16_t)(c->weight_value[i] = (int)(draw(&seed) % 511) - 255);
    TRY(slot_memory(env, (uint64_t)count * sizeof *wide, &c->weight));
    return slot_write(env, c->stream, c->weight, 0, wide, (uint64_t)count * sizeof *wide);
}

static conform_result make_operands(conform_env *env, bytes_conv *c) {
    const dhow_conv_desc *d = &c->d;
    const int64_t results = d->n * c->oh * c->ow * d->k;
    uint32_t seed = 9;
    TRY(slot_stream(env, &c->stream));
    TRY(make_codes(env, c, d->dtype, d->n * d->h * d->w * d->c, 1, &c->x, &c->x_value));
    TRY(make_weights(env, c, d->k * (d->c / d->groups) * d->kh * d->kw));
    TRY(make_codes(env, c, d->residual_dtype, results, 3, &c->residual, &c->residual_value));
    c->row_value = conform_memory(env, (size_t)(ROWS * d->k) * sizeof *c->row_value);
    for (int64_t k = 0; k < d->k; k++) {
        c->row_value[k] = (float)(int)(draw(&seed) % 2001) - 1000;
        c->row_value[d->k + k] = (float)(1 + draw(&seed) % 64) / 65536;
        c->row_value[2 * d->k + k] = (float)(draw(&seed) % 9) / 4 - 1;
    }
    TRY(slot_memory(env, sizeof c->zero, &c->given));
    TRY(slot_write(env, c->stream, c->given, 0, &c->zero, sizeof c->zero));
    const uint64_t bytes = (uint64_t)(ROWS * d->k) * sizeof *c->row_value;
    TRY(slot_memory(env, bytes, &c->rows));
    TRY(slot_write(env, c->stream, c->rows, 0, c->row_value, bytes));
    return slot_memory(env, (uint64_t)results * 4, &c->y);
}

static conform_result run(conform_env *env, bytes_conv *c) {
    const dhow_buffer none = {0, 0};
    const bool scaled = (c->d.flags & DHOW_EPILOGUE_BIAS) != 0,
               given = (c->d.flags & DHOW_CONV_ZERO_GIVEN) != 0,
               adds = (c->d.flags & DHOW_EPILOGUE_RESIDUAL) != 0;
    dhow_buffer weight = {c->weight, 0}, workspace = none;
    if (c->info.packed_bytes > 0) {
        dhow_buffer packed = none;
        TRY(slot_memory(env, c->info.packed_bytes, &packed.handle));
        SLOT(c->conv->pack(c->plan, c->stream, weight, packed, ERR));
        weight = packed;
    }
    if (c->info.workspace_bytes > 0)
        TRY(slot_memory(env, c->info.workspace_bytes, &workspace.handle));
    SLOT(c->conv->run(c->plan, c->stream, (dhow_buffer){c->x, 0}, weight, (dhow_buffer){c->y, 0},
                      scaled  ? (dhow_buffer){c->rows, 0}
                      : given ? (dhow_buffer){c->given, 0}
                              : none,
                      adds              ? (dhow_buffer){c->residual, 0}
                      : scaled && given ? (dhow_buffer){c->given, 0}
                                        : none,
                      workspace, ERR));
    return slot_sync(env, c->stream);
}

/* ---- the reference ---- */

static int64_t sum_at(const bytes_conv *c, int64_t n, int64_t oy, int64_t ox, int64_t k) {
    const dhow_conv_desc *d = &c->d;
    const int64_t per = d->c / d->groups, first = k / (d->k / d->groups) * per;
    int64_t sum = 0;
    for (int64_t i = 0; i < per * d->kh * d->kw; i++) {
        const int64_t ch = i / (d->kh * d->kw), ky = i / d->kw % d->kh, kx = i % d->kw;
        const int64_t iy = oy * d->stride[0] - d->pad[0] + ky * d->dilation[0];
        const int64_t ix = ox * d->stride[1] - d->pad[1] + kx * d->dilation[1];
        if (iy < 0 || iy >= d->h || ix < 0 || ix >= d->w) continue;
        sum += (int64_t)(c->x_value[((n * d->h + iy) * d->w + ix) * d->c + first + ch] - c->zero) *
               c->weight_value[k * per * d->kh * d->kw + i];
    }
    return sum;
}

static double follow(const bytes_conv *c, double v, int64_t k, int64_t at) {
    for (uint32_t i = 0; i < c->d.tail_count; i++) {
        const dhow_conv_tail *t = &c->d.tail[i];
        const double row = (double)c->row_value[(int64_t)t->row * c->d.k + k];
        v = t->kind == DHOW_TAIL_LINEAR     ? (double)t->alpha * v + (double)t->beta
            : t->kind == DHOW_TAIL_ROUND    ? rint(v)
            : t->kind == DHOW_TAIL_RESIDUAL ? v + c->residual_value[at]
            : t->kind == DHOW_TAIL_MULTIPLY ? v * row
            : t->kind == DHOW_TAIL_ADD
                ? v + row
                : vendor_activate(t->kind, (double)t->alpha, (double)t->beta, v);
    }
    return v;
}

static conform_result compare(conform_env *env, const bytes_conv *c, const char *what) {
    const int32_t type = c->d.dst_dtype;
    const int64_t count = c->d.n * c->oh * c->ow * c->d.k;
    const uint64_t each = dhow_dtype_bytes((dhow_dtype)type);
    unsigned char *bytes = conform_memory(env, (size_t)count * each);
    TRY(slot_read(env, c->stream, c->y, 0, bytes, (uint64_t)count * each));
    for (int64_t i = 0; i < count; i++) {
        const int64_t k = i % c->d.k, ox = i / c->d.k % c->ow, oy = i / (c->d.k * c->ow) % c->oh;
        const int64_t sum = sum_at(c, i / (c->d.k * c->ow * c->oh), oy, ox, k);
        const double got = conform_decode((dhow_dtype)type, bytes + (uint64_t)i * each);
        double want = (double)sum, room = 0;
        if (type != DHOW_I32) {
            const double biased = want + (double)c->row_value[k];
            want = follow(c, biased * (double)c->row_value[c->d.k + k], k, i);
            room = 1e-5 * (1 + fabs(want));
        }
        if (type == DHOW_U8 || type == DHOW_I8) {
            const double low = type == DHOW_U8 ? 0 : -128, high = low + 255;
            const double step = rint(want);
            room = fabs(fabs(want - step) - 0.5) < 1e-3 ? 1 : 0; /* a half, or next to one */
            want = fmin(fmax(step, low), high);
        }
        CHECK(fabs(got - want) <= room,
              "%s: channel %" PRId64 " at [%" PRId64 "][%" PRId64 "] is %.9g, not %.9g", what, k,
              oy, ox, got, want);
    }
    return CONFORM_PASS;
}

/* ---- cases ---- */

static conform_result check(conform_env *env, const dhow_conv_desc *d, bool given, uint32_t *ran) {
    bytes_conv c = {.conv = API->get_extension(DEVICE, "dhow.conv/1"), .d = *d};
    c.zero = d->src_zero;
    if (given) {
        c.d.flags |= DHOW_CONV_ZERO_GIVEN;
        c.d.src_zero = 0;
    }
    char what[200];
    c.oh = (d->h + d->pad[0] + d->pad[2] - d->dilation[0] * (d->kh - 1) - 1) / d->stride[0] + 1;
    c.ow = (d->w + d->pad[1] + d->pad[3] - d->dilation[1] * (d->kw - 1) - 1) / d->stride[1] + 1;
    c.info.struct_size = (uint32_t)sizeof c.info;
    (void)snprintf(what, sizeof what,
                   "%s by %s to %s, %" PRId64 " to %" PRId64 " channels in %" PRId64
                   " groups, kernel %" PRId64 ", %s zero point %d, %u operations behind",
                   dhow_dtype_name((dhow_dtype)d->dtype),
                   dhow_dtype_name((dhow_dtype)d->weight_dtype),
                   dhow_dtype_name((dhow_dtype)d->dst_dtype), d->c, d->k, d->groups, d->kh,
                   given ? "given" : "known", c.zero, d->tail_count);
    const int32_t code = c.conv->plan(DEVICE, &c.d, &c.plan, &c.info, ERR);
    if (code == DHOW_UNSUPPORTED || code == DHOW_UNAVAILABLE) {
        CHECK(c.plan == NULL, "%s: a plan came out of a refusal", what);
        return CONFORM_PASS;
    }
    CHECK(code == DHOW_OK, "%s: plan: %s: %.200s", what, slot_status(code),
          env->slots->err.message);
    conform_result result = make_operands(env, &c);
    if (result == CONFORM_PASS &&
        (c.info.src_layout != DHOW_LAYOUT_NHWC || c.info.dst_layout != DHOW_LAYOUT_NHWC))
        result = conform_fail(env, __FILE__, __LINE__, "%s: the plan has other layouts", what);
    if (result == CONFORM_PASS) result = run(env, &c);
    if (result == CONFORM_PASS) result = compare(env, &c, what);
    (void)API->stream_sync(c.stream, ERR);
    c.conv->destroy(c.plan);
    conform_slots_release(env->slots);
    conform_release_all(env);
    ++*ran;
    return result;
}

static dhow_conv_desc plain(int32_t dtype, int64_t c, int64_t k, int64_t groups, int64_t kernel) {
    return (dhow_conv_desc){.struct_size = (uint32_t)sizeof(dhow_conv_desc),
                            .flags = DHOW_BLAS_CONSTANT_B,
                            .dtype = dtype,
                            .weight_dtype = DHOW_I8,
                            .compute = DHOW_I32,
                            .src_layout = DHOW_LAYOUT_NHWC,
                            .dst_layout = DHOW_LAYOUT_NHWC,
                            .n = 2,
                            .c = c,
                            .h = 7,
                            .w = 9,
                            .k = k,
                            .kh = kernel,
                            .kw = kernel,
                            .groups = groups,
                            .stride = {1, 1},
                            .dilation = {1, 1},
                            .pad = {kernel / 2, kernel / 2, kernel / 2, 0},
                            .dst_dtype = DHOW_I32};
}

/* Scales, then an activation, an image, numbers of channels, and codes with a zero point. */
static void end_with(dhow_conv_desc *d, uint32_t which, int32_t dst_dtype) {
    static const dhow_conv_tail tails[][DHOW_CONV_TAIL] = {
        {{.kind = DHOW_TAIL_ROUND}, {.kind = DHOW_TAIL_LINEAR, .alpha = 1, .beta = 5}},
        {{.kind = DHOW_ACTIVATION_RELU}},
        {{.kind = DHOW_TAIL_ROUND},
         {.kind = DHOW_ACTIVATION_CLIP, .alpha = -100, .beta = 90},
         {.kind = DHOW_TAIL_LINEAR, .alpha = 0.5f, .beta = -3},
         {.kind = DHOW_TAIL_RESIDUAL},
         {.kind = DHOW_TAIL_LINEAR, .alpha = 0.75f},
         {.kind = DHOW_ACTIVATION_CLIP, .alpha = -60, .beta = 60},
         {.kind = DHOW_TAIL_ROUND},
         {.kind = DHOW_TAIL_LINEAR, .alpha = 1, .beta = 40}},
        {{.kind = DHOW_ACTIVATION_CLIP, .alpha = -90, .beta = 90},
         {.kind = DHOW_TAIL_MULTIPLY, .row = 2},
         {.kind = DHOW_TAIL_ADD, .row = 0},
         {.kind = DHOW_ACTIVATION_LEAKY_RELU, .alpha = 0.25f}}};
    static const uint32_t counts[] = {2, 1, 8, 4};
    d->flags =
        DHOW_BLAS_CONSTANT_B | DHOW_EPILOGUE_BIAS | (which == 2 ? DHOW_EPILOGUE_RESIDUAL : 0u);
    d->dst_dtype = dst_dtype;
    d->residual_dtype = which == 2 ? DHOW_U8 : 0;
    d->tail_count = counts[which];
    memcpy(d->tail, tails[which], sizeof d->tail);
}

conform_result conform_convolutions_of_bytes(conform_env *env) {
    static const int64_t channels[][3] = {{3, 16, 1}, {16, 16, 16}, {5, 7, 1},   {64, 33, 1},
                                          {8, 66, 2}, {32, 48, 2},  {12, 12, 12}};
    static const int32_t to[] = {DHOW_F32, DHOW_U8, DHOW_I8};
    uint32_t ran = 0;
    const dhow_conv *conv =
        API->get_extension != NULL ? API->get_extension(DEVICE, "dhow.conv/1") : NULL;
    if (conv == NULL || conv->minor < 4)
        return conform_unsupported(env, "the plugin has no dhow.conv/1 of minor 4");
    for (int i = 0; i < 7 * 3; i++) {
        for (int is_signed = 0; is_signed < 2; is_signed++) {
            dhow_conv_desc d = plain(is_signed ? DHOW_I8 : DHOW_U8, channels[i / 3][0],
                                     channels[i / 3][1], channels[i / 3][2], 1 + i % 3);
            d.src_zero = i % 2 == 0 ? 0 : is_signed ? -7 : 131;
            d.stride[1] = 1 + i % 2;
            TRY(check(env, &d, false, &ran));
            if (conv->minor >= 6) TRY(check(env, &d, true, &ran));
            if (conv->minor >= 8) {
                dhow_conv_desc wide = d;
                wide.weight_dtype = DHOW_I16;
                TRY(check(env, &wide, i % 2 == 0, &ran));
            }
            for (uint32_t which = 0; which < 4; which++) {
                end_with(&d, which, to[(i + (int)which) % 3]);
                TRY(check(env, &d, false, &ran));
                if (conv->minor >= 7 && which != 2) TRY(check(env, &d, true, &ran));
            }
        }
    }
    if (ran == 0) return conform_unsupported(env, "no plan for bytes");
    (void)snprintf(env->message, sizeof env->message, "%u convolutions", ran);
    return CONFORM_PASS;
}
