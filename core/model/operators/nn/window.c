/* SPDX-License-Identifier: Apache-2.0
 *
 * The window of a node: its attributes, and the extents that it gives.
 */
#include "model/operators/nn/window.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory/size.h"

dhow_status dhowi_window_list(const dhowi_lowering *b, const char *name, int spatial,
                              int64_t otherwise, int64_t low, int64_t to[3]) {
    uint32_t count;
    const int64_t *list = dhowi_attr_ints(b, name, &count);
    for (int i = 0; i < 3; i++) to[i] = 1;
    if (list != NULL && count != (uint32_t)spatial)
        DHOWI_REFUSE("%s has %u entries, x %d spatial dimensions", name, count, spatial);
    for (int i = 0; i < spatial; i++) {
        int64_t value = list != NULL ? list[i] : otherwise;
        if (value < low || value > DHOWI_MAX_WINDOW) DHOWI_REFUSE("%s holds %" PRId64, name, value);
        to[3 - spatial + i] = value;
    }
    return DHOW_OK;
}

static dhow_status window_pads(const dhowi_lowering *b, int spatial, dhowi_window3d *s) {
    uint32_t count;
    const int64_t *pads = dhowi_attr_ints(b, "pads", &count);
    if (pads != NULL && count != 2 * (uint32_t)spatial)
        DHOWI_REFUSE("pads has %u entries, x %d spatial dimensions", count, spatial);
    for (int i = 0; pads != NULL && i < spatial; i++) {
        if (pads[i] < 0 || pads[i] > DHOWI_MAX_WINDOW || pads[spatial + i] < 0 ||
            pads[spatial + i] > DHOWI_MAX_WINDOW)
            DHOWI_REFUSE("pads holds %" PRId64 " and %" PRId64 ", not 0 to %d", pads[i],
                         pads[spatial + i], DHOWI_MAX_WINDOW);
        s->before[3 - spatial + i] = pads[i];
        s->after[3 - spatial + i] = pads[spatial + i];
    }
    return DHOW_OK;
}

dhow_status dhowi_window_of(const dhowi_lowering *b, const dhowi_tensor_desc *x,
                            dhowi_window3d *s) {
    int spatial = x->rank - 2;
    for (int i = 0; i < 3; i++) {
        s->in[i] = i < 3 - spatial ? 1 : x->shape[x->rank - 3 + i];
        s->before[i] = s->after[i] = 0;
    }
    DHOWI_TRY(dhowi_window_list(b, "strides", spatial, 1, 1, s->stride));
    DHOWI_TRY(dhowi_window_list(b, "dilations", spatial, 1, 1, s->dilation));
    s->groups = dhowi_attr_int(b, "group", 1);
    if (dhowi_attr_is(b, "auto_pad", "NOTSET", "NOTSET")) return window_pads(b, spatial, s);
    if (dhowi_attr_is(b, "auto_pad", "VALID", "NOTSET")) return DHOW_OK;
    if (!dhowi_attr_is(b, "auto_pad", "SAME_UPPER", "NOTSET") &&
        !dhowi_attr_is(b, "auto_pad", "SAME_LOWER", "NOTSET"))
        return dhowi_refuse_text(b, "auto_pad");
    bool upper = dhowi_attr_is(b, "auto_pad", "SAME_UPPER", "NOTSET");
    for (int i = 3 - spatial; i < 3; i++) {
        int64_t out = dhowi_ceil_div(s->in[i], s->stride[i]);
        int64_t reach = s->dilation[i] * (s->kernel[i] - 1) + 1;
        int64_t total = DHOWI_MAX((out - 1) * s->stride[i] + reach - s->in[i], (int64_t)0);
        s->before[i] = upper ? total / 2 : total - total / 2;
        s->after[i] = total - s->before[i];
    }
    return DHOW_OK;
}

/* How far a window can be moved; negative: it is larger than the image and its padding. */
static int64_t room_of(const dhowi_window3d *s, int i) {
    return s->in[i] + s->before[i] + s->after[i] - s->dilation[i] * (s->kernel[i] - 1) - 1;
}

static dhow_status refuse_window(void) {
    DHOWI_REFUSE("the window is larger than the image and its padding");
}

dhow_status dhowi_window_result(dhowi_window3d *s) {
    for (int i = 0; i < 3; i++) {
        const int64_t room = room_of(s, i);
        if (room < 0) return refuse_window();
        s->out[i] = room / s->stride[i] + 1;
    }
    return DHOW_OK;
}

dhow_status dhowi_pool_result(dhowi_window3d *s, bool ceil_mode) {
    for (int i = 0; i < 3; i++) {
        const int64_t room = room_of(s, i), stride = s->stride[i];
        s->out[i] = (ceil_mode && room > 0 ? dhowi_ceil_div(room, stride) : room / stride) + 1;
        if (s->out[i] < 0) return refuse_window();
        /* A window that begins past the image and its padding before is none. */
        if (ceil_mode && (s->out[i] - 1) * s->stride[i] >= s->in[i] + s->before[i]) s->out[i]--;
    }
    return DHOW_OK;
}

void dhowi_window_shape(const dhowi_window3d *s, int32_t rank, dhowi_tensor_desc *y) {
    for (int32_t i = 2; i < rank; i++) y->shape[i] = s->out[i + 3 - rank];
}

dhow_status dhowi_check_images(const dhowi_tensor_desc *x) {
    char text[160];
    if (x->rank < 3 || x->rank > 5)
        DHOWI_REFUSE("x is %s; [n, c] and one to three dimensions fit",
                     dhowi_desc_text(x, text, sizeof text));
    if (!dhowi_is_float(x->dtype)) DHOWI_REFUSE("x is %s", dhow_dtype_name(x->dtype));
    return DHOW_OK;
}

dhow_status dhowi_as_image(dhowi_lowering *b, int32_t x, int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    const int64_t shape[] = {own.shape[0], own.shape[1], 1, own.shape[2]};
    *out = x;
    return own.rank == 3 ? dhowi_reshape(b, x, 4, shape, out) : DHOW_OK;
}
