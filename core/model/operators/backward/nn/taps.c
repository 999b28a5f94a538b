/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows over volumes, see taps.h.
 */
#include "model/operators/backward/nn/taps.h"

#include "base/memory/size.h"
#include "model/operators/nn/nn.h"

enum { MOST_TAPS = 4096 }; /* each is a few steps of the plan */

dhow_status dhowi_as_volume(dhowi_lowering *b, int32_t x, int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    int64_t shape[5] = {own.shape[0], own.shape[1], 1, 1, 1};
    for (int32_t i = 2; i < own.rank; i++) shape[i + 5 - own.rank] = own.shape[i];
    return dhowi_reshape(b, x, 5, shape, out);
}

int64_t dhowi_taps_count(const dhowi_taps *f) { return f->kernel[0] * f->kernel[1] * f->kernel[2]; }

int64_t dhowi_taps_reach(const dhowi_taps *f, int axis) {
    return f->dilation[axis] * (f->kernel[axis] - 1) + 1;
}

dhow_status dhowi_taps_of_space(const dhowi_window3d *s, dhowi_taps *f) {
    *f = (dhowi_taps){.groups = s->groups};
    if (s->kernel[0] > MOST_TAPS || s->kernel[1] > MOST_TAPS / s->kernel[0] ||
        s->kernel[2] > MOST_TAPS / s->kernel[0] / s->kernel[1])
        DHOWI_REFUSE("a window of %lld x %lld x %lld; it has steps for up to %d places",
                     (long long)s->kernel[0], (long long)s->kernel[1], (long long)s->kernel[2],
                     MOST_TAPS);
    for (int i = 0; i < 3; i++) {
        f->in[i] = s->in[i];
        f->out[i] = s->out[i];
        f->kernel[i] = s->kernel[i];
        f->stride[i] = s->stride[i];
        f->dilation[i] = s->dilation[i];
        f->before[i] = s->before[i];
        f->padded[i] = DHOWI_MAX(s->in[i] + s->before[i] + s->after[i],
                                 (s->out[i] - 1) * s->stride[i] + dhowi_taps_reach(f, i));
    }
    return DHOW_OK;
}

/* The builder's are of images. */
static void built_window(const dhow_window *w, const int64_t *kernel, dhowi_window3d *s) {
    *s = (dhowi_window3d){.groups = DHOWI_MAX(w->groups, (int64_t)1)};
    for (int i = 0; i < 3; i++) {
        const bool flat = i == 0;
        s->kernel[i] = kernel != NULL ? kernel[i] : flat ? 1 : w->kernel[i - 1];
        s->stride[i] = flat ? 1 : DHOWI_MAX(w->stride[i - 1], (int64_t)1);
        s->dilation[i] = flat ? 1 : DHOWI_MAX(w->dilation[i - 1], (int64_t)1);
        s->before[i] = flat ? 0 : w->pad[i - 1];
        s->after[i] = flat ? 0 : w->pad[i + 1];
    }
}

dhow_status dhowi_taps_of(dhowi_reverser *r, const int64_t *kernel, dhowi_taps *f) {
    int32_t x;
    dhowi_window3d s = {.kernel = {1, 1, 1}};
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    const dhowi_tensor_desc own = *dhowi_desc_at(r->b, x), y = *dhowi_desc_at(r->b, r->dy);
    if (own.rank < 3 || own.rank > 5) DHOWI_REFUSE("x has %d dimensions", own.rank);
    if (dhowi_is_built(r->node)) {
        built_window(&r->node->attrs->window, kernel, &s);
    } else {
        if (kernel == NULL)
            DHOWI_TRY(dhowi_window_list(r->b, "kernel_shape", own.rank - 2, 0, 1, s.kernel));
        for (int i = 0; kernel != NULL && i < 3; i++) s.kernel[i] = kernel[i];
        DHOWI_TRY(dhowi_window_of(r->b, &own, &s));
    }
    for (int32_t i = 0; i < 3; i++) {
        const bool flat = i < 5 - own.rank;
        s.in[i] = flat ? 1 : own.shape[own.rank - 3 + i];
        s.out[i] = flat ? 1 : y.shape[y.rank - 3 + i];
    }
    DHOWI_TRY(dhowi_taps_of_space(&s, f));
    if (dhowi_is_built(r->node)) return DHOW_OK;
    return dhowi_attr_flag(r->b, "count_include_pad", false, &f->counts_padding);
}

dhow_status dhowi_pad_volume(dhowi_lowering *b, int32_t x, const dhowi_taps *f, double value,
                             int32_t *out) {
    int64_t before[5] = {0}, after[5] = {0};
    bool any = false;
    for (int i = 0; i < 3; i++) {
        before[2 + i] = f->before[i];
        after[2 + i] = f->padded[i] - f->in[i] - f->before[i];
        any = any || before[2 + i] != 0 || after[2 + i] != 0;
    }
    *out = x;
    return any ? dhowi_pad_with(b, x, before, after, value, out) : DHOW_OK;
}

dhow_status dhowi_tap_of(dhowi_lowering *b, int32_t x, const dhowi_taps *f, int64_t t,
                         int32_t *out) {
    *out = x;
    for (int i = 2; i >= 0; i--, t /= f->kernel[i + 1])
        DHOWI_TRY(dhowi_narrow(b, *out, 2 + i, t % f->kernel[i] * f->dilation[i], f->out[i],
                               f->stride[i], out));
    return DHOW_OK;
}

dhow_status dhowi_cut_padding(dhowi_lowering *b, const dhowi_taps *f, int32_t x, int32_t *out) {
    *out = x;
    for (int i = 0; i < 3; i++)
        DHOWI_TRY(dhowi_narrow(b, *out, 2 + i, f->before[i], f->in[i], 1, out));
    return DHOW_OK;
}

dhow_status dhowi_zeros(dhowi_lowering *b, const dhowi_tensor_desc *desc, int32_t *out) {
    const dhowi_attrs zero = {.scalar = {dhow_scalar_f64(0)}};
    DHOWI_TRY(dhowi_blank(b, desc, out));
    return dhowi_emit_into(b, DHOWI_OP_fill, NULL, 0, &zero, *out);
}

dhowi_spread dhowi_spread_of(const dhowi_taps *f, const dhowi_tensor_desc *volume) {
    dhowi_spread s = {.f = *f, .desc = *volume, .volume = -1};
    for (int i = 0; i < 3; i++) s.desc.shape[2 + i] = f->padded[i];
    return s;
}

dhow_status dhowi_spread_tap(dhowi_lowering *b, dhowi_spread *s, int64_t t, int32_t d) {
    const dhowi_taps *f = &s->f;
    bool apart = true;
    int32_t volume = s->volume, place;
    for (int i = 0; i < 3; i++) apart = apart && f->stride[i] >= dhowi_taps_reach(f, i);
    if (volume < 0 || !apart) DHOWI_TRY(dhowi_zeros(b, &s->desc, &volume));
    DHOWI_TRY(dhowi_tap_of(b, volume, f, t, &place));
    DHOWI_TRY(dhowi_emit_into(b, DHOWI_OP_copy, &d, 1, NULL, place));
    if (s->volume < 0 || apart) {
        s->volume = volume;
        return DHOW_OK;
    }
    return dhowi_map_two(b, DHOWI_MAP_ADD, s->volume, volume, &s->volume);
}

dhow_status dhowi_pass_volume(dhowi_reverser *r, uint32_t i, int32_t d) {
    int32_t x;
    DHOWI_TRY(dhowi_back_input(r, i, &x));
    const dhowi_tensor_desc own = *dhowi_desc_at(r->b, x);
    DHOWI_TRY(dhowi_reshape(r->b, d, own.rank, own.shape, &d));
    return dhowi_back_pass(r, i, d);
}
