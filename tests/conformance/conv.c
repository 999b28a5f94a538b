/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of dhow.conv/1: convolutions in every layout a plan may settle on, against sums in double.
 */
#include "vendor.h"

typedef struct tally {
    uint32_t ran, refused;
    char why[200];
} tally;

/* Images here are in NCHW; other layouts are made from it on the host or by reorder. */
typedef struct convolution {
    const dhow_conv *conv;
    dhow_conv_desc d;
    dhow_conv_plan_info info;
    void *stream, *plan;
    int64_t oh, ow;
    vendor_array x, weight, bias, residual, y;
} convolution;

static int64_t out_extent(int64_t in, int64_t kernel, int64_t stride, int64_t dilation,
                          int64_t pad) {
    return (in + pad - dilation * (kernel - 1) - 1) / stride + 1;
}

static double wanted(const convolution *c, int64_t n, int64_t k, int64_t oy, int64_t ox,
                     double *size) {
    const dhow_conv_desc *d = &c->d;
    const int64_t per = d->c / d->groups, first = k / (d->k / d->groups) * per;
    double sum = 0;
    *size = 1;
    for (int64_t i = 0; i < per * d->kh * d->kw; i++) {
        const int64_t ch = i / (d->kh * d->kw), ky = i / d->kw % d->kh, kx = i % d->kw;
        const int64_t iy = oy * d->stride[0] - d->pad[0] + ky * d->dilation[0];
        const int64_t ix = ox * d->stride[1] - d->pad[1] + kx * d->dilation[1];
        if (iy < 0 || iy >= d->h || ix < 0 || ix >= d->w) continue;
        const double term = c->x.value[((n * d->c + first + ch) * d->h + iy) * d->w + ix] *
                            c->weight.value[k * per * d->kh * d->kw + i];
        sum += term;
        *size += fabs(term);
    }
    if ((d->flags & DHOW_EPILOGUE_BIAS) != 0) sum += c->bias.value[k];
    if ((d->flags & DHOW_EPILOGUE_RESIDUAL) != 0)
        sum += c->residual.value[((n * d->k + k) * c->oh + oy) * c->ow + ox];
    return vendor_activate(d->activation, (double)d->activation_alpha, (double)d->activation_beta,
                           sum);
}

static conform_result make_operands(conform_env *env, convolution *c) {
    const dhow_conv_desc *d = &c->d;
    const dhow_dtype t = (dhow_dtype)d->dtype;
    const int64_t y = d->n * d->k * c->oh * c->ow;
    TRY(slot_stream(env, &c->stream));
    TRY(vendor_array_new(env, c->stream, t, d->n * d->c * d->h * d->w, 1, &c->x));
    TRY(vendor_array_new(env, c->stream, t, d->k * (d->c / d->groups) * d->kh * d->kw, 2,
                         &c->weight));
    TRY(vendor_array_new(env, c->stream, t, d->k, 3, &c->bias));
    TRY(vendor_array_new(env, c->stream, t, y, 4, &c->residual));
    return vendor_array_new(env, c->stream, t, y, 5, &c->y);
}

/* An image in the layout of the plan: itself, or reordered into a buffer of `bytes`. */
static conform_result in_layout(conform_env *env, const convolution *c, const int64_t *shape,
                                uint64_t nchw, uint32_t layout, uint64_t bytes, bool fill,
                                dhow_buffer *out) {
    *out = (dhow_buffer){nchw, 0};
    if (layout == DHOW_LAYOUT_NCHW) return CONFORM_PASS;
    CHECK(bytes > 0, "layout %u without its bytes", layout);
    TRY(slot_memory(env, bytes, &out->handle));
    if (fill)
        SLOT(c->conv->reorder(DEVICE, c->stream, c->d.dtype, shape, DHOW_LAYOUT_NCHW,
                              (dhow_buffer){nchw, 0}, layout, *out, ERR));
    return CONFORM_PASS;
}

static conform_result run(conform_env *env, convolution *c) {
    const dhow_buffer none = {0, 0};
    const int64_t in[] = {c->d.n, c->d.c, c->d.h, c->d.w}, to[] = {c->d.n, c->d.k, c->oh, c->ow};
    dhow_buffer x, y, residual = none, weight = {c->weight.handle, 0}, workspace = none;
    TRY(in_layout(env, c, in, c->x.handle, c->info.src_layout, c->info.src_bytes, true, &x));
    TRY(in_layout(env, c, to, c->y.handle, c->info.dst_layout, c->info.dst_bytes, false, &y));
    if ((c->d.flags & DHOW_EPILOGUE_RESIDUAL) != 0)
        TRY(in_layout(env, c, to, c->residual.handle, c->info.dst_layout, c->info.dst_bytes, true,
                      &residual));
    if (c->info.packed_bytes > 0) {
        dhow_buffer packed = none;
        TRY(slot_memory(env, c->info.packed_bytes, &packed.handle));
        SLOT(c->conv->pack(c->plan, c->stream, weight, packed, ERR));
        weight = packed;
    }
    if (c->info.workspace_bytes > 0)
        TRY(slot_memory(env, c->info.workspace_bytes, &workspace.handle));
    const dhow_buffer bias = {c->bias.handle, 0};
    SLOT(c->conv->run(c->plan, c->stream, x, weight, y,
                      (c->d.flags & DHOW_EPILOGUE_BIAS) != 0 ? bias : none, residual, workspace,
                      ERR));
    if (c->info.dst_layout != DHOW_LAYOUT_NCHW)
        SLOT(c->conv->reorder(DEVICE, c->stream, c->d.dtype, to, c->info.dst_layout, y,
                              DHOW_LAYOUT_NCHW, (dhow_buffer){c->y.handle, 0}, ERR));
    return slot_sync(env, c->stream);
}

static conform_result compare(conform_env *env, const convolution *c, const char *what) {
    double *got = conform_memory(env, (size_t)c->y.count * sizeof *got);
    TRY(vendor_array_read(env, c->stream, &c->y, got));
    for (int64_t i = 0; i < c->y.count; i++) {
        const int64_t ox = i % c->ow, oy = i / c->ow % c->oh, k = i / (c->ow * c->oh) % c->d.k;
        double size;
        const double want = wanted(c, i / (c->ow * c->oh * c->d.k), k, oy, ox, &size);
        CHECK(fabs(got[i] - want) <= vendor_tolerance(c->y.dtype, want, size),
              "%s: channel %" PRId64 " at [%" PRId64 "][%" PRId64 "] is %.9g, not %.9g", what, k,
              oy, ox, got[i], want);
    }
    return CONFORM_PASS;
}

static conform_result check_convolution(conform_env *env, const dhow_conv_desc *d, tally *t) {
    convolution c = {.conv = API->get_extension(DEVICE, "dhow.conv/1"), .d = *d};
    char what[240];
    c.oh = out_extent(d->h, d->kh, d->stride[0], d->dilation[0], d->pad[0] + d->pad[2]);
    c.ow = out_extent(d->w, d->kw, d->stride[1], d->dilation[1], d->pad[1] + d->pad[3]);
    c.info.struct_size = (uint32_t)sizeof c.info;
    (void)snprintf(what, sizeof what,
                   "%s x[%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "] with w[%" PRId64
                   ", %" PRId64 ", %" PRId64 ", %" PRId64 "], stride %" PRId64 ", dilation %" PRId64
                   ", flags 0x%x, activation %u, layouts %u to %u",
                   dhow_dtype_name((dhow_dtype)d->dtype), d->n, d->c, d->h, d->w, d->k,
                   d->c / d->groups, d->kh, d->kw, d->stride[0], d->dilation[0], d->flags,
                   d->activation, d->src_layout, d->dst_layout);
    int32_t code = c.conv->plan(DEVICE, &c.d, &c.plan, &c.info, ERR);
    if (code == DHOW_UNSUPPORTED || code == DHOW_UNAVAILABLE) {
        CHECK(c.plan == NULL, "%s: a plan came out of a refusal", what);
        (void)snprintf(t->why, sizeof t->why, "%.190s", env->slots->err.message);
        t->refused++;
        return CONFORM_PASS;
    }
    CHECK(code == DHOW_OK, "%s: plan: %s: %.300s", what, slot_status(code),
          env->slots->err.message);
    conform_result result = make_operands(env, &c);
    if (result == CONFORM_PASS && d->src_layout != DHOW_LAYOUT_ANY &&
        c.info.src_layout != d->src_layout)
        result =
            conform_fail(env, __FILE__, __LINE__, "the plan takes layout %u", c.info.src_layout);
    if (result == CONFORM_PASS) result = run(env, &c);
    if (result == CONFORM_FAIL) vendor_prefix(env, what);
    if (result == CONFORM_PASS) result = compare(env, &c, what);
    (void)API->stream_sync(c.stream, ERR);
    c.conv->destroy(c.plan);
    conform_slots_release(env->slots);
    conform_release_all(env);
    t->ran++;
    return result;
}

/* ---- cases ---- */

static dhow_conv_desc plain(dhow_dtype dtype, int64_t c, int64_t h, int64_t w, int64_t k,
                            int64_t kernel) {
    return (dhow_conv_desc){.struct_size = (uint32_t)sizeof(dhow_conv_desc),
                            .dtype = (int32_t)dtype,
                            .weight_dtype = (int32_t)dtype,
                            .compute = dtype == DHOW_F64 ? DHOW_F64 : DHOW_F32,
                            .n = 2,
                            .c = c,
                            .h = h,
                            .w = w,
                            .k = k,
                            .kh = kernel,
                            .kw = kernel,
                            .groups = 1,
                            .stride = {1, 1},
                            .dilation = {1, 1}};
}

static conform_result sum_up(conform_env *env, const tally *t) {
    if (t->ran == 0) return conform_unsupported(env, "no plan: %s", t->why);
    (void)snprintf(env->message, sizeof env->message, "%u convolutions, %u refused", t->ran,
                   t->refused);
    return CONFORM_PASS;
}

#define NEEDS_CONV                                                                       \
    if (API->get_extension == NULL || API->get_extension(DEVICE, "dhow.conv/1") == NULL) \
    return conform_unsupported(env, "the plugin has no dhow.conv/1")

static conform_result convolutions(conform_env *env, dhow_dtype dtype) {
    tally t = {0};
    NEEDS_CONV;
    NEEDS_DTYPE_BIT(dtype);
    for (uint32_t flags = 0; flags < 16; flags += 4) { /* constant weight, bias */
        for (int64_t kernel = 1; kernel <= 5; kernel += 2) {
            dhow_conv_desc d = plain(dtype, 3, 9, 11, 6, kernel);
            d.flags = flags;
            TRY(check_convolution(env, &d, &t));
            d.pad[0] = d.pad[2] = d.pad[1] = d.pad[3] = kernel / 2;
            TRY(check_convolution(env, &d, &t));
        }
    }
    return sum_up(env, &t);
}

static conform_result convolutions_f32(conform_env *env) { return convolutions(env, DHOW_F32); }
static conform_result convolutions_f16(conform_env *env) { return convolutions(env, DHOW_F16); }
static conform_result convolutions_bf16(conform_env *env) { return convolutions(env, DHOW_BF16); }

static conform_result convolutions_with_windows(conform_env *env) {
    tally t = {0};
    NEEDS_CONV;
    dhow_conv_desc d = plain(DHOW_F32, 4, 13, 10, 8, 3);
    d.stride[0] = 2;
    d.stride[1] = 3;
    TRY(check_convolution(env, &d, &t));
    d.pad[0] = 1; /* another padding on each side */
    d.pad[1] = 2;
    d.pad[2] = 0;
    d.pad[3] = 1;
    TRY(check_convolution(env, &d, &t));
    d.stride[0] = d.stride[1] = 1;
    d.dilation[0] = 2;
    d.dilation[1] = 3;
    TRY(check_convolution(env, &d, &t));
    d.kh = 1; /* a kernel that is no square */
    TRY(check_convolution(env, &d, &t));
    return sum_up(env, &t);
}

static conform_result convolutions_in_groups(conform_env *env) {
    static const int64_t groups[] = {2, 4, 8};
    tally t = {0};
    NEEDS_CONV;
    for (int i = 0; i < 3; i++) {
        dhow_conv_desc d = plain(DHOW_F32, 8, 8, 9, 16, 3);
        d.groups = groups[i];
        d.flags = DHOW_EPILOGUE_BIAS;
        TRY(check_convolution(env, &d, &t));
        d.flags |= DHOW_BLAS_CONSTANT_B;
        TRY(check_convolution(env, &d, &t));
    }
    return sum_up(env, &t);
}

/* Windows of one pixel of images that stay as they are. */
static conform_result convolutions_of_pixels(conform_env *env) {
    static const int64_t shapes[][5] = {{3, 7, 34, 10, 1},  {5, 5, 136, 68, 4}, {4, 9, 24, 48, 4},
                                        {28, 28, 12, 9, 3}, {1, 70, 40, 40, 8}, {2, 3, 8, 8, 2}};
    tally t = {0};
    NEEDS_CONV;
    for (int i = 0; i < 6 * 4; i++) {
        const int64_t *s = shapes[i / 4];
        dhow_conv_desc d = plain(DHOW_F32, s[2], s[0], s[1], s[3], 1);
        d.groups = s[4];
        d.src_layout = d.dst_layout = DHOW_LAYOUT_NCHW;
        d.flags = i % 2 ? DHOW_EPILOGUE_BIAS | DHOW_BLAS_CONSTANT_B : 0;
        if (i % 4 >= 2) d.flags |= DHOW_EPILOGUE_RESIDUAL;
        d.activation = i % 3 == 0   ? DHOW_ACTIVATION_NONE
                       : i % 3 == 1 ? DHOW_ACTIVATION_RELU
                                    : DHOW_ACTIVATION_GELU;
        TRY(check_convolution(env, &d, &t));
    }
    return sum_up(env, &t);
}

static conform_result convolutions_activated(conform_env *env) {
    static const uint32_t flags[] = {0, DHOW_EPILOGUE_BIAS | DHOW_BLAS_CONSTANT_B,
                                     DHOW_EPILOGUE_BIAS | DHOW_EPILOGUE_RESIDUAL,
                                     DHOW_EPILOGUE_RESIDUAL};
    tally t = {0};
    NEEDS_CONV;
    for (uint32_t a = DHOW_ACTIVATION_NONE; a <= DHOW_ACTIVATION_CLIP; a++) {
        for (int f = 0; f < 4; f++) {
            dhow_conv_desc d = plain(DHOW_F32, 5, 7, 7, 6, 3);
            d.activation = a;
            d.activation_alpha = -0.25f;
            d.activation_beta = 0.5f;
            d.flags = flags[f];
            TRY(check_convolution(env, &d, &t));
        }
    }
    return sum_up(env, &t);
}

/* What is added before the activation, of images and single pixels, of channels that fill no
 * vector: oneDNN 2.6 adds wrong elements in some of its forms. */
static conform_result convolutions_with_residuals(conform_env *env, dhow_dtype dtype) {
    static const int64_t channels[] = {3, 8, 17, 24, 33},
                         images[][2] = {{6, 5}, {1, 1}, {1, 30}, {3, 3}};
    tally t = {0};
    NEEDS_CONV;
    NEEDS_DTYPE_BIT(dtype);
    for (int i = 0; i < 2 * 2 * 2 * 4 * 5; i++) {
        const int64_t c = channels[i % 5], *image = images[i / 5 % 4];
        dhow_conv_desc d = plain(dtype, c, image[0], image[1], c, i / 20 % 2 ? 3 : 1);
        d.n = 1;
        d.pad[0] = d.pad[1] = d.pad[2] = d.pad[3] = d.kh / 2;
        d.groups = i / 40 % 2 ? c : 1;
        d.src_layout = d.dst_layout = i / 80 % 2 ? DHOW_LAYOUT_NHWC : DHOW_LAYOUT_NCHW;
        d.flags = DHOW_BLAS_CONSTANT_B | DHOW_EPILOGUE_RESIDUAL;
        TRY(check_convolution(env, &d, &t));
    }
    return sum_up(env, &t);
}

static conform_result residuals_f32(conform_env *env) {
    return convolutions_with_residuals(env, DHOW_F32);
}
static conform_result residuals_bf16(conform_env *env) {
    return convolutions_with_residuals(env, DHOW_BF16);
}

/* Layouts of the plan's choice, with what brings images into them and back. */
static conform_result convolutions_in_layouts(conform_env *env) {
    static const uint32_t layouts[] = {DHOW_LAYOUT_NHWC, DHOW_LAYOUT_ANY, DHOW_LAYOUT_BLOCKS_8,
                                       DHOW_LAYOUT_BLOCKS_16};
    tally t = {0};
    NEEDS_CONV;
    for (int from = 0; from < 4; from++) {
        for (int64_t channels = 16; channels <= 21; channels += 5) { /* whole blocks, and not */
            dhow_conv_desc d = plain(DHOW_F32, channels, 6, 5, channels, 3);
            d.src_layout = d.dst_layout = layouts[from];
            d.flags = DHOW_BLAS_CONSTANT_B | DHOW_EPILOGUE_BIAS;
            TRY(check_convolution(env, &d, &t));
            d.dst_layout = DHOW_LAYOUT_NCHW;
            TRY(check_convolution(env, &d, &t));
        }
    }
    return sum_up(env, &t);
}

const conform_case conform_conv_cases[] = {
    CASE("conv/f32", convolutions_f32, "conv,f32"),
    CASE("conv/f16", convolutions_f16, "conv,f16"),
    CASE("conv/bf16", convolutions_bf16, "conv,bf16"),
    CASE("conv/window", convolutions_with_windows, "conv"),
    CASE("conv/groups", convolutions_in_groups, "conv"),
    CASE("conv/pixels", convolutions_of_pixels, "conv"),
    CASE("conv/activation", convolutions_activated, "conv"),
    CASE("conv/residual_f32", residuals_f32, "conv,f32"),
    CASE("conv/residual_bf16", residuals_bf16, "conv,bf16"),
    CASE("conv/layout", convolutions_in_layouts, "conv"),
    CASE("conv/bytes", conform_convolutions_of_bytes, "conv"),
    CASE("conv/packed_forms", conform_packed_forms, "conv"),
};
CASES_END(conform_conv);
