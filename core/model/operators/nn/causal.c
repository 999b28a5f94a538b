/* SPDX-License-Identifier: Apache-2.0
 *
 * CausalConvWithState, of ONNX and of ONNX Runtime: windows over steps and those of calls before.
 */
#include <inttypes.h>

#include "base/memory/size.h"
#include "model/operators/math/math.h"
#include "model/operators/nn/nn.h"

typedef struct causal {
    int64_t reach; /* steps before one that it sees */
    bool channels_last;
} causal;

static dhow_status check_causal(const dhowi_lowering *b, int32_t x, int64_t dilation, causal *c) {
    enum { WEIGHT = 1, BIAS = 2 };
    const dhowi_tensor_desc *own = dhowi_desc_at(b, x), *w = dhowi_desc_at(b, b->in[WEIGHT]);
    char s[160], t[160];
    if (w->rank != 3 || w->shape[0] != own->shape[1] || w->shape[1] != 1 || w->shape[2] < 1 ||
        w->dtype != own->dtype)
        DHOWI_REFUSE("the weight is %s for %s", dhowi_desc_text(w, s, sizeof s),
                     dhowi_desc_text(own, t, sizeof t));
    if (dilation < 1 || dilation > DHOWI_MAX_WINDOW || w->shape[2] > DHOWI_MAX_WINDOW)
        DHOWI_REFUSE("a window of %" PRId64 " with dilation %" PRId64, w->shape[2], dilation);
    c->reach = (w->shape[2] - 1) * dilation;
    return DHOW_OK;
}

/* Channels before steps, or what was so as the node has it. */
static dhow_status turned(dhowi_lowering *b, const causal *c, int32_t x, int32_t *out) {
    static const int32_t swapped[] = {0, 2, 1};
    *out = x;
    return c->channels_last ? dhowi_permute(b, x, swapped, out) : DHOW_OK;
}

/* x[batch, channels, steps] behind what came before, the input `past` or zeros. */
static dhow_status behind_past(dhowi_lowering *b, const causal *c, uint32_t past, int32_t x,
                               int32_t *out) {
    static const int64_t none[DHOW_MAX_RANK] = {0};
    const int64_t before[] = {0, 0, c->reach};
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    int32_t in[] = {-1, x};
    char s[160], t[160];
    if (!dhowi_given(b, past)) return dhowi_pad_with(b, x, before, none, 0, out);
    DHOWI_TRY(dhowi_expect_floats(b, past, "the state", 3));
    DHOWI_TRY(turned(b, c, b->in[past], &in[0]));
    const dhowi_tensor_desc p = *dhowi_desc_at(b, in[0]);
    if (p.shape[0] != own.shape[0] || p.shape[1] != own.shape[1] || p.shape[2] != c->reach ||
        p.dtype != own.dtype)
        DHOWI_REFUSE("the state is %s for %s and %" PRId64 " steps before it",
                     dhowi_desc_text(&p, s, sizeof s), dhowi_desc_text(&own, t, sizeof t),
                     c->reach);
    return dhowi_concat(b, in, 2, 2, out);
}

dhow_status dhowi_lower_causal_conv(dhowi_lowering *b) {
    enum { X, WEIGHT, BIAS, PAST };
    static const char *const others[] = {"state_window", "state_update_capacity", "state_length",
                                         "input_channels", "input_channel_offset"};
    const int64_t dilation = dhowi_attr_int(b, "dilation", 1);
    const bool plain = dhowi_attr_is(b, "activation", "none", "none");
    causal c = {0};
    int32_t x, y;
    if (!plain && !dhowi_attr_is(b, "activation", "silu", "none") &&
        !dhowi_attr_is(b, "activation", "swish", "none"))
        return dhowi_refuse_text(b, "activation");
    DHOWI_TRY(dhowi_attr_flag(b, "channels_last", false, &c.channels_last));
    DHOWI_TRY(dhowi_attr_only(b, "ndim", 1));
    DHOWI_TRY(dhowi_attr_only(b, "state_channels_last", -1));
    for (size_t i = 0; i < DHOWI_COUNT(others); i++) DHOWI_TRY(dhowi_attr_only(b, others[i], 0));
    DHOWI_TRY(dhowi_expect_floats(b, X, "the input", 3));
    DHOWI_TRY(turned(b, &c, b->in[X], &x));
    const int64_t steps = dhowi_desc_at(b, x)->shape[2];
    DHOWI_TRY(check_causal(b, x, dilation, &c));
    DHOWI_TRY(behind_past(b, &c, PAST, x, &x));
    if (b->out_count > 1) {
        DHOWI_TRY(dhowi_narrow(b, x, 2, steps, c.reach, 1, &b->out[1]));
        DHOWI_TRY(turned(b, &c, b->out[1], &b->out[1]));
    }
    DHOWI_TRY(dhowi_convolve_row(b, x, b->in[WEIGHT], dhowi_given(b, BIAS) ? b->in[BIAS] : -1,
                                 dilation, &y));
    if (!plain) DHOWI_TRY(dhowi_swish(b, y, 1, &y));
    return turned(b, &c, y, &b->out[0]);
}
