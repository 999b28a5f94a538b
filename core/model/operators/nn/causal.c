/* SPDX-License-Identifier: Apache-2.0
 *
 * CausalConvWithState, of ONNX and of ONNX Runtime: windows over steps and those of calls before.
 */
#include <inttypes.h>

#include "base/memory/size.h"
#include "model/operators/nn/nn.h"

enum { X, WEIGHT, BIAS, PAST };

/* Channels before steps, or what was so as the node has it. */
static dhow_status turned(dhowi_lowering *b, bool channels_last, int32_t x, int32_t *out) {
    static const int32_t swapped[] = {0, 2, 1};
    *out = x;
    return channels_last ? dhowi_permute(b, x, swapped, out) : DHOW_OK;
}

/* *state is the shape of the steps that are carried. */
static dhow_status check(const dhowi_lowering *b, const int32_t in[4], int64_t dilation,
                         dhowi_tensor_desc *state) {
    const dhowi_tensor_desc *x = dhowi_desc_at(b, in[X]), *w = dhowi_desc_at(b, in[WEIGHT]);
    char s[160], t[160];
    if (w->rank != 3 || w->shape[0] != x->shape[1] || w->shape[1] != 1 || w->shape[2] < 1 ||
        w->dtype != x->dtype)
        DHOWI_REFUSE("the weight is %s for %s", dhowi_desc_text(w, s, sizeof s),
                     dhowi_desc_text(x, t, sizeof t));
    if (dilation < 1 || dilation > DHOWI_MAX_WINDOW || w->shape[2] > DHOWI_MAX_WINDOW)
        DHOWI_REFUSE("a window of %" PRId64 " with dilation %" PRId64, w->shape[2], dilation);
    *state = *x;
    state->shape[2] = (w->shape[2] - 1) * dilation;
    if (in[BIAS] >= 0) {
        const dhowi_tensor_desc *bias = dhowi_desc_at(b, in[BIAS]);
        if (bias->rank != 1 || bias->shape[0] != x->shape[1])
            return dhowi_refuse_input(b, BIAS, "the bias");
    }
    if (in[PAST] < 0) return DHOW_OK;
    const dhowi_tensor_desc *p = dhowi_desc_at(b, in[PAST]);
    if (p->dtype == x->dtype && dhowi_shape_equal(p->rank, p->shape, 3, state->shape))
        return DHOW_OK;
    DHOWI_REFUSE("the state is %s for %s and %" PRId64 " steps before it",
                 dhowi_desc_text(p, s, sizeof s), dhowi_desc_text(x, t, sizeof t), state->shape[2]);
}

/* The convolution, and the steps that the next call has before its own. */
static dhow_status convolve(dhowi_lowering *b, int32_t in[4], int64_t dilation, bool silu,
                            int32_t *out, int32_t *carried) {
    const dhowi_attrs attrs = {.split = {.stride = dilation, .flag = {silu}}};
    dhowi_tensor_desc y = *dhowi_desc_at(b, in[X]), state;
    const dhow_dtype dtype = y.dtype;
    DHOWI_TRY(check(b, in, dilation, &state));
    for (int i = X; i <= PAST; i++)
        if (in[i] >= 0) DHOWI_TRY(dhowi_cast_to(b, in[i], DHOW_F32, &in[i]));
    y.dtype = state.dtype = DHOW_F32;
    *carried = in[PAST];
    if (dhowi_count_of(&y) == 0) { /* no steps change nothing */
        DHOWI_TRY(dhowi_blank(b, &y, out));
        if (*carried < 0) DHOWI_TRY(dhowi_filled(b, &state, 0, carried));
    } else if (dhowi_count_of(&state) == 0) { /* none are carried */
        DHOWI_TRY(dhowi_emit(b, DHOWI_OP_causal_conv, in, 4, &attrs, &y, out));
        DHOWI_TRY(dhowi_blank(b, &state, carried));
    } else {
        DHOWI_TRY(dhowi_emit_two(b, DHOWI_OP_causal_conv, in, 4, &attrs, &y, &state, out, carried));
    }
    DHOWI_TRY(dhowi_cast_to(b, *out, dtype, out));
    return dhowi_cast_to(b, *carried, dtype, carried);
}

dhow_status dhowi_lower_causal_conv(dhowi_lowering *b) {
    static const char *const others[] = {"state_window", "state_update_capacity", "state_length",
                                         "input_channels", "input_channel_offset"};
    static const char *const names[] = {[X] = "the input", [PAST] = "the state"};
    const bool plain = dhowi_attr_is(b, "activation", "none", "none");
    int32_t in[] = {-1, b->in[WEIGHT], dhowi_given(b, BIAS) ? b->in[BIAS] : -1, -1}, y, state;
    bool last;
    if (!plain && !dhowi_attr_is(b, "activation", "silu", "none") &&
        !dhowi_attr_is(b, "activation", "swish", "none"))
        return dhowi_refuse_text(b, "activation");
    DHOWI_TRY(dhowi_attr_flag(b, "channels_last", false, &last));
    DHOWI_TRY(dhowi_attr_only(b, "ndim", 1));
    DHOWI_TRY(dhowi_attr_only(b, "state_channels_last", -1));
    for (size_t i = 0; i < DHOWI_COUNT(others); i++) DHOWI_TRY(dhowi_attr_only(b, others[i], 0));
    for (uint32_t i = X; i <= PAST; i += PAST) {
        if (!dhowi_given(b, i)) continue;
        DHOWI_TRY(dhowi_expect_floats(b, i, names[i], 3));
        DHOWI_TRY(turned(b, last, b->in[i], &in[i]));
    }
    DHOWI_TRY(convolve(b, in, dhowi_attr_int(b, "dilation", 1), !plain, &y, &state));
    DHOWI_TRY(turned(b, last, y, &b->out[0]));
    return b->out_count < 2 ? DHOW_OK : turned(b, last, state, &b->out[1]);
}
