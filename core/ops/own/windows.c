/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations over windows, and what samples images.
 */
#include <string.h>

#include "ops/own/own.h"
#include "ops/run/vendor.h"

static void window_dims(const dhowi_window3d *s, dhow_dims *g, dhow_dims *w) {
    memset(g, 0, sizeof *g);
    memset(w, 0, sizeof *w);
    g->rank = w->rank = 3;
    for (int i = 0; i < 3; i++) {
        g->shape[i] = s->in[i];
        g->stride[0][i] = s->out[i];
        g->stride[1][i] = s->kernel[i];
        g->stride[2][i] = s->stride[i];
        w->shape[i] = s->dilation[i];
        w->stride[0][i] = s->before[i];
        w->stride[1][i] = s->after[i];
        for (int k = 0; k < 3; k++) g->stride[k][3 + i] = dhowi_multiplier(g->stride[k][i]);
    }
}

static int64_t window_work(const dhowi_call *call, int64_t channels) {
    const dhowi_window3d *s = &call->attrs->space;
    const int64_t taps = s->kernel[0] * s->kernel[1] * s->kernel[2];
    return dhowi_work_of(dhowi_work_of(call->out->count, taps), channels);
}

dhow_status dhowi_run_pool(const dhowi_call *call) {
    const dhowi_window3d *s = &call->attrs->space;
    dhow_dims g, w;
    dhowi_own_launch l = {0};
    window_dims(s, &g, &w);
    dhowi_add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, call->in[0]->shape[0] * call->in[0]->shape[1]);
    l.args[l.arg_count++] = dhowi_arg_dims(&g);
    l.args[l.arg_count++] = dhowi_arg_dims(&w);
    l.args[l.arg_count++] = dhowi_arg_i32(s->mode);
    l.args[l.arg_count++] = dhowi_arg_f32(s->p);
    return dhowi_run_own(call, &l, window_work(call, 1));
}

dhow_status dhowi_run_pool_index(const dhowi_call *call) {
    dhow_dims g, w;
    dhowi_own_launch l = {0};
    window_dims(&call->attrs->space, &g, &w);
    dhowi_add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, call->in[0]->shape[0] * call->in[0]->shape[1]);
    l.args[l.arg_count++] = dhowi_arg_dims(&g);
    l.args[l.arg_count++] = dhowi_arg_dims(&w);
    l.args[l.arg_count++] = dhowi_arg_i32(call->attrs->space.mode);
    return dhowi_run_own(call, &l, window_work(call, 1));
}

static dhow_status run_window(const dhowi_call *call, int64_t channels_per_output) {
    const dhowi_window3d *s = &call->attrs->space;
    dhow_tensor *bias = call->in[2] != NULL ? call->in[2] : call->in[1];
    dhow_dims g, w;
    dhowi_own_launch l = {0};
    window_dims(s, &g, &w);
    dhowi_add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->in[1], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, bias, DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, call->in[0]->shape[0], call->in[0]->shape[1], call->out->shape[1],
                     s->groups);
    l.args[l.arg_count++] = dhowi_arg_dims(&g);
    l.args[l.arg_count++] = dhowi_arg_dims(&w);
    l.args[l.arg_count++] = dhowi_arg_i32(call->in[2] != NULL);
    return dhowi_run_own(call, &l, window_work(call, channels_per_output));
}

dhow_status dhowi_run_conv3d(const dhowi_call *call) {
    bool done;
    DHOWI_TRY(dhowi_conv_in_space(call, false, &done));
    return done ? DHOW_OK : run_window(call, call->in[1]->shape[1]);
}

dhow_status dhowi_run_conv_transpose(const dhowi_call *call) {
    bool done;
    DHOWI_TRY(dhowi_conv_in_space(call, true, &done));
    return done ? DHOW_OK : run_window(call, call->in[1]->shape[0] / call->attrs->space.groups);
}

dhow_status dhowi_run_resample(const dhowi_call *call) {
    const dhowi_axis_split *r = &call->attrs->split;
    dhowi_own_launch l = {0};
    for (int i = 0; i < 3; i++) dhowi_add_tensor(&l, call->in[i], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, r->outer, r->n, r->inner, r->count, r->taps);
    l.args[l.arg_count++] = dhowi_arg_f32(r->value);
    return dhowi_run_own(call, &l, call->out->count * r->taps);
}

/* attrs->split: `count` bins down and `inner` across of `taps` samples, at the scale alpha; flags
 * are half pixels and the largest. x is [n, h, w, c] where `stride` is 1. */
dhow_status dhowi_run_roi_align(const dhowi_call *call) {
    const dhowi_axis_split *r = &call->attrs->split;
    const int64_t *x = call->in[0]->shape;
    const bool last = r->stride == 1;
    const int64_t c = last ? x[3] : x[1], h = last ? x[1] : x[2], w = last ? x[2] : x[3];
    dhowi_own_launch l = {0};
    for (int i = 0; i < 3; i++) dhowi_add_tensor(&l, call->in[i], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, call->in[2]->count, x[0], c, h, w, r->count, r->inner, r->taps,
                     last ? 1 : h * w, last ? c : 1);
    l.args[l.arg_count++] = dhowi_arg_f32(r->alpha);
    l.args[l.arg_count++] = dhowi_arg_i32(r->flag[0]);
    l.args[l.arg_count++] = dhowi_arg_i32(r->flag[1]);
    return dhowi_run_own(call, &l, call->out->count * 16);
}
