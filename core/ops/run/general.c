/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows over kernels that take extents around an axis, or a window in three dimensions: their
 * attributes are already what the kernel wants.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/size.h"
#include "ops/run/rows.h"
#include "ops/run/vendor.h"

/* A launch of inputs, then outputs, then values. */
typedef struct launch {
    dhow_arg args[DHOW_MAX_KERNEL_ARGS];
    dhowi_use uses[8];
    uint32_t arg_count, use_count;
    int64_t span;
} launch;

static void add_tensor(launch *l, dhow_tensor *t, uint32_t access) {
    l->args[l->arg_count++] = dhowi_arg_buffer(t, access);
    l->uses[l->use_count++] = dhowi_use_of(t, access);
    l->span = DHOWI_MAX(l->span, dhowi_span_of(t));
}

static void add_values(launch *l, uint32_t count, const int64_t *values) {
    for (uint32_t i = 0; i < count; i++) l->args[l->arg_count++] = dhowi_arg_i64(values[i]);
}
#define ADD_VALUES(l, ...)                                                        \
    add_values(l, (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
               (const int64_t[]){__VA_ARGS__})

static dhow_status run_kernel(const dhowi_call *call, const launch *l, dhow_kernel *kernel,
                              int64_t work) {
    return dhowi_launch(call->stream, kernel, work, l->span, l->args, l->arg_count, l->uses,
                        l->use_count);
}

static dhow_status run_own(const dhowi_call *call, const launch *l, int64_t work) {
    dhow_kernel *kernel;
    DHOWI_TRY(dhowi_op_kernel(call->op, call->in[0]->dtype, call->stream->device, &kernel));
    return run_kernel(call, l, kernel, work);
}

/* elements x each */
static int64_t work_of(int64_t elements, int64_t each) {
    int64_t work;
    return dhowi_mul_i64(elements, each, &work) ? work : INT64_MAX;
}

/* ---- windows ---- */

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
    return work_of(work_of(call->out->count, taps), channels);
}

dhow_status dhowi_run_pool(const dhowi_call *call) {
    const dhowi_window3d *s = &call->attrs->space;
    dhow_dims g, w;
    launch l = {0};
    window_dims(s, &g, &w);
    add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    ADD_VALUES(&l, call->in[0]->shape[0] * call->in[0]->shape[1]);
    l.args[l.arg_count++] = dhowi_arg_dims(&g);
    l.args[l.arg_count++] = dhowi_arg_dims(&w);
    l.args[l.arg_count++] = dhowi_arg_i32(s->mode);
    l.args[l.arg_count++] = dhowi_arg_f32(s->p);
    return run_own(call, &l, window_work(call, 1));
}

dhow_status dhowi_run_pool_index(const dhowi_call *call) {
    dhow_dims g, w;
    launch l = {0};
    window_dims(&call->attrs->space, &g, &w);
    add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    ADD_VALUES(&l, call->in[0]->shape[0] * call->in[0]->shape[1]);
    l.args[l.arg_count++] = dhowi_arg_dims(&g);
    l.args[l.arg_count++] = dhowi_arg_dims(&w);
    l.args[l.arg_count++] = dhowi_arg_i32(call->attrs->space.mode);
    return run_own(call, &l, window_work(call, 1));
}

static dhow_status run_window(const dhowi_call *call, int64_t channels_per_output) {
    const dhowi_window3d *s = &call->attrs->space;
    dhow_tensor *bias = call->in[2] != NULL ? call->in[2] : call->in[1];
    dhow_dims g, w;
    launch l = {0};
    window_dims(s, &g, &w);
    add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    add_tensor(&l, call->in[1], DHOW_ACCESS_READ);
    add_tensor(&l, bias, DHOW_ACCESS_READ);
    add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    ADD_VALUES(&l, call->in[0]->shape[0], call->in[0]->shape[1], call->out->shape[1], s->groups);
    l.args[l.arg_count++] = dhowi_arg_dims(&g);
    l.args[l.arg_count++] = dhowi_arg_dims(&w);
    l.args[l.arg_count++] = dhowi_arg_i32(call->in[2] != NULL);
    return run_own(call, &l, window_work(call, channels_per_output));
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
    launch l = {0};
    for (int i = 0; i < 3; i++) add_tensor(&l, call->in[i], DHOW_ACCESS_READ);
    add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    ADD_VALUES(&l, r->outer, r->n, r->inner, r->count, r->taps);
    l.args[l.arg_count++] = dhowi_arg_f32(r->value);
    return run_own(call, &l, call->out->count * r->taps);
}

/* attrs->split: `count` bins down and `inner` across of `taps` samples, at the scale alpha; flags
 * are half pixels and the largest. */
dhow_status dhowi_run_roi_align(const dhowi_call *call) {
    const dhowi_axis_split *r = &call->attrs->split;
    const int64_t *x = call->in[0]->shape;
    launch l = {0};
    for (int i = 0; i < 3; i++) add_tensor(&l, call->in[i], DHOW_ACCESS_READ);
    add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    ADD_VALUES(&l, call->in[2]->count, x[0], x[1], x[2], x[3], r->count, r->inner, r->taps);
    l.args[l.arg_count++] = dhowi_arg_f32(r->alpha);
    l.args[l.arg_count++] = dhowi_arg_i32(r->flag[0]);
    l.args[l.arg_count++] = dhowi_arg_i32(r->flag[1]);
    return run_own(call, &l, call->out->count * 16);
}

/* ---- index ---- */

/* Elements are moved by their width, whatever they mean. */
static dhow_status width_kernel(const dhowi_call *call, const char *base, dhow_kernel **out) {
    char name[48];
    (void)snprintf(name, sizeof name, "%s_u%u", base, dhowi_tensor_element_bytes(call->out) * 8);
    return dhowi_builtin_kernel_named(call->stream->device, name, out);
}

dhow_status dhowi_run_gather_axis(const dhowi_call *call) {
    const dhowi_axis_split *r = &call->attrs->split;
    dhow_kernel *kernel;
    launch l = {0};
    DHOWI_TRY(width_kernel(call, "gather_axis", &kernel));
    add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    add_tensor(&l, call->in[1], DHOW_ACCESS_READ);
    add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    ADD_VALUES(&l, r->outer, r->n, r->inner, r->count);
    return run_kernel(call, &l, kernel, call->out->count);
}

static dhow_status run_elements(const dhowi_call *call, const char *base, uint32_t access) {
    const dhowi_axis_split *r = &call->attrs->split;
    dhow_dims d = {.rank = r->rank};
    dhow_kernel *kernel;
    launch l = {0};
    DHOWI_TRY(width_kernel(call, base, &kernel));
    memcpy(d.shape, r->shape, sizeof d.shape);
    memcpy(d.stride[0], r->strides, sizeof d.stride[0]);
    add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    add_tensor(&l, call->in[1], DHOW_ACCESS_READ);
    add_tensor(&l, call->out, access);
    l.span = dhowi_multipliers(call->stream->device, &d, l.span, d.stride[2]);
    ADD_VALUES(&l, r->count, r->n, r->stride);
    l.args[l.arg_count++] = dhowi_arg_dims(&d);
    return run_kernel(call, &l, kernel, r->count);
}

dhow_status dhowi_run_gather_elements(const dhowi_call *call) {
    return run_elements(call, "gather_elements", DHOW_ACCESS_WRITE);
}

dhow_status dhowi_run_scatter_elements(const dhowi_call *call) {
    return run_elements(call, "scatter_elements", DHOW_ACCESS_READ | DHOW_ACCESS_WRITE);
}

dhow_status dhowi_run_scatter_rows(const dhowi_call *call) {
    const dhowi_axis_split *r = &call->attrs->split;
    dhow_kernel *kernel;
    launch l = {0};
    DHOWI_TRY(width_kernel(call, "scatter_rows", &kernel));
    add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    add_tensor(&l, call->in[1], DHOW_ACCESS_READ);
    add_tensor(&l, call->out, DHOW_ACCESS_READ | DHOW_ACCESS_WRITE);
    ADD_VALUES(&l, r->n, r->inner, r->count);
    return run_kernel(call, &l, kernel, r->count * r->inner);
}

/* ---- rows and sequences ---- */

dhow_status dhowi_run_normalize(const dhowi_call *call) {
    const dhowi_axis_split *r = &call->attrs->split;
    const bool scaled = call->in[1] != NULL;
    launch l = {0};
    add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    add_tensor(&l, call->in[scaled ? 1 : 0], DHOW_ACCESS_READ);
    add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    ADD_VALUES(&l, r->outer, r->n);
    l.args[l.arg_count++] = dhowi_arg_f32(call->attrs->eps);
    l.args[l.arg_count++] = dhowi_arg_i32(r->flag[0]);
    l.args[l.arg_count++] = dhowi_arg_i32(scaled);
    return run_own(call, &l, call->out->count);
}

dhow_status dhowi_run_lrn(const dhowi_call *call) {
    const dhowi_axis_split *r = &call->attrs->split;
    launch l = {0};
    add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    ADD_VALUES(&l, r->outer, r->n, r->inner, r->count);
    l.args[l.arg_count++] = dhowi_arg_f32(r->alpha);
    l.args[l.arg_count++] = dhowi_arg_f32(r->beta);
    l.args[l.arg_count++] = dhowi_arg_f32(r->value);
    return run_own(call, &l, call->out->count * r->count);
}

dhow_status dhowi_run_lstm_cell(const dhowi_call *call) {
    const dhow_tensor *c = call->in[2];
    launch l = {0};
    for (int i = 0; i < 3; i++) add_tensor(&l, call->in[i], DHOW_ACCESS_READ);
    add_tensor(&l, call->in[3] != NULL ? call->in[3] : call->in[2], DHOW_ACCESS_READ);
    add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    add_tensor(&l, call->second, DHOW_ACCESS_WRITE);
    int64_t hidden = c->shape[c->rank - 1];
    ADD_VALUES(&l, c->count / hidden, hidden);
    l.args[l.arg_count++] = dhowi_arg_i32(call->in[3] != NULL);
    return run_own(call, &l, c->count * 16);
}

/* Whether threads share the cells of a sequence, each time step a launch: where most of them would
 * have no sequence to themselves, and a step takes longer than they wait for each other. */
static bool shares_steps(const dhowi_call *call, int64_t gates) {
    enum { ROWS = 4, LEAST_PRODUCTS = 1 << 17, MOST_STEPS = 1 << 12 };
    const dhow_device *device = call->stream->device;
    const int64_t *shape = call->out->shape, hidden = shape[3];
    const int64_t groups = shape[1] * dhowi_ceil_div(shape[2], ROWS);
    const bool twice =
        gates == 3 && (call->attrs->recurrent.flags & DHOWI_RECURRENT_RESET_AFTER) == 0;
    return dhowi_device_is_host(device) && 2 * groups <= device->desc.compute_units && !twice &&
           shape[0] <= MOST_STEPS && work_of(gates * hidden, hidden) >= LEAST_PRODUCTS;
}

/* x, r, h0, c0, peepholes or a bias, lengths: x stands in for what there is not. */
dhow_status dhowi_run_recurrent(const dhowi_call *call) {
    enum { BEGINS_H = 2, BEGINS_C = 4, HAS_MORE = 8, HAS_LENGTHS = 16 }; /* of the kernel */
    static const int32_t given[] = {0, 0, BEGINS_H, BEGINS_C, HAS_MORE, HAS_LENGTHS};
    const dhowi_recurrent *r = &call->attrs->recurrent;
    const int64_t *shape = call->out->shape; /* [steps, directions, batch, hidden] */
    const int64_t together = shares_steps(call, r->gates) ? 1 : shape[0];
    int32_t flags = r->flags, functions = 0;
    launch l = {0};
    for (int i = 0; i < 6; i++) {
        add_tensor(&l, call->in[i] != NULL ? call->in[i] : call->in[0], DHOW_ACCESS_READ);
        if (call->in[i] != NULL) flags |= given[i];
    }
    add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    add_tensor(&l, call->second, DHOW_ACCESS_WRITE);
    ADD_VALUES(&l, shape[0], shape[2], shape[3], shape[1], 0, together);
    dhow_arg *range = &l.args[l.arg_count - 2];
    for (int i = 0; i < DHOWI_RECURRENT_FUNCTIONS; i++)
        functions |= (int32_t)r->function[i] << 4 * i;
    const int32_t numbers[] = {r->gates, flags, functions};
    for (int i = 0; i < 3; i++) l.args[l.arg_count++] = dhowi_arg_i32(numbers[i]);
    for (int i = 0; i < 3; i++) l.args[l.arg_count++] = dhowi_arg_f32(r->alpha[i]);
    for (int i = 0; i < 3; i++) l.args[l.arg_count++] = dhowi_arg_f32(r->beta[i]);
    l.args[l.arg_count++] = dhowi_arg_f32(r->clip);
    /* as many multiplications as a gate takes */
    const int64_t each = work_of(call->in[0]->count / shape[0], dhowi_ceil_div(shape[3], 4));
    for (int64_t t = 0; t < shape[0]; t += together) {
        range[0] = dhowi_arg_i64(t);
        range[1] = dhowi_arg_i64(t + together);
        DHOWI_TRY(run_own(call, &l, work_of(each, together)));
    }
    return DHOW_OK;
}

/* One launch of parts of x, which begin with what is before them, if it is given. */
static dhow_status add_up_parts(const dhowi_call *call, dhow_tensor *x, dhow_tensor *before,
                                dhow_tensor *y, int64_t n, int64_t parts, int32_t exclusive) {
    const dhowi_axis_split *r = &call->attrs->split;
    dhow_kernel *kernel;
    launch l = {0};
    DHOWI_TRY(dhowi_kernel_of(call->stream->device, "cumsum_parts", x->dtype, &kernel));
    add_tensor(&l, x, DHOW_ACCESS_READ);
    add_tensor(&l, before != NULL ? before : x, DHOW_ACCESS_READ);
    add_tensor(&l, y, DHOW_ACCESS_WRITE);
    ADD_VALUES(&l, r->outer, n, r->inner, parts);
    l.args[l.arg_count++] = dhowi_arg_i32(before != NULL);
    l.args[l.arg_count++] = dhowi_arg_i32(exclusive);
    l.args[l.arg_count++] = dhowi_arg_i32(r->flag[1]);
    return run_kernel(call, &l, kernel, x->count);
}

/* Sums of parts, running sums of those, and with these the parts: see kernels/parts.k. */
static dhow_status cumsum_in_parts(const dhowi_call *call, dhow_tensor *x, dhow_tensor *y,
                                   int64_t n, int32_t exclusive) {
    enum { GROUP = 256, STEPS = 16 };
    const dhowi_axis_split *r = &call->attrs->split;
    const int64_t lanes = DHOWI_MAX(GROUP / r->inner, 1), parts = dhowi_ceil_div(n, lanes * STEPS);
    const int64_t shape[] = {r->outer, parts, r->inner};
    dhow_device *device = call->stream->device;
    dhow_tensor *sums = NULL, *before = NULL;
    dhow_kernel *kernel;
    launch l = {0};
    if (parts == 1) return add_up_parts(call, x, NULL, y, n, 1, exclusive);
    DHOWI_TRY(dhowi_kernel_of(device, "reduce_parts", x->dtype, &kernel));
    dhow_status status = dhowi_tensor_new(device, x->dtype, 3, shape, &sums);
    if (status == DHOW_OK) status = dhowi_tensor_new(device, x->dtype, 3, shape, &before);
    if (status == DHOW_OK) {
        add_tensor(&l, x, DHOW_ACCESS_READ);
        add_tensor(&l, sums, DHOW_ACCESS_WRITE);
        ADD_VALUES(&l, r->outer, n, r->inner, parts);
        l.args[l.arg_count++] = dhowi_arg_i32(0); /* sums */
        l.args[l.arg_count++] = dhowi_arg_f32(1);
        status = run_kernel(call, &l, kernel, x->count);
    }
    if (status == DHOW_OK) status = cumsum_in_parts(call, sums, before, parts, 1);
    if (status == DHOW_OK) status = add_up_parts(call, x, before, y, n, parts, exclusive);
    dhow_tensor_release(sums);
    dhow_tensor_release(before);
    return status;
}

dhow_status dhowi_run_cumsum(const dhowi_call *call) {
    enum { LEAST_STEPS = 64, MOST_LINES = 1 << 16 };
    const dhowi_axis_split *r = &call->attrs->split;
    const dhow_device *device = call->stream->device;
    launch l = {0};
    if (!dhowi_device_is_host(device) && dhowi_splits_rows(device) && r->n >= LEAST_STEPS &&
        call->out->count > 0 && r->outer * r->inner < MOST_LINES)
        return cumsum_in_parts(call, call->in[0], call->out, r->n, r->flag[0]);
    add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    ADD_VALUES(&l, r->outer, r->n, r->inner);
    l.args[l.arg_count++] = dhowi_arg_i32(r->flag[0]);
    l.args[l.arg_count++] = dhowi_arg_i32(r->flag[1]);
    return run_own(call, &l, call->out->count);
}

dhow_status dhowi_run_dropout(const dhowi_call *call) {
    const dhowi_attrs *a = call->attrs;
    const double zeros = a->number, scale = zeros < 1 ? 1 / (1 - zeros) : 0;
    launch l = {0};
    add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    add_tensor(&l, call->in[1], DHOW_ACCESS_READ);
    add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    ADD_VALUES(&l, call->out->count, a->split.n, (int64_t)ldexp(zeros, 32));
    l.args[l.arg_count++] =
        call->out->dtype == DHOW_F64 ? dhowi_arg_f64(scale) : dhowi_arg_f32((float)scale);
    ADD_VALUES(&l, call->in[1]->count > 1);
    return run_own(call, &l, call->out->count * 4);
}

dhow_status dhowi_run_determinant(const dhowi_call *call) {
    const dhow_tensor *x = call->in[0];
    launch l = {0};
    add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    add_tensor(&l, call->second, DHOW_ACCESS_WRITE);
    ADD_VALUES(&l, call->out->count, x->shape[x->rank - 1]);
    return run_own(call, &l, x->count);
}

/* ---- attention ---- */

/* Strides of a tensor of up to four dimensions over a larger shape. */
static void broadcast_strides(const dhow_tensor *t, int64_t strides[4]) {
    const int32_t missing = 4 - t->rank;
    for (int32_t i = missing; i < 4; i++)
        strides[i] = t->shape[i - missing] == 1 ? 0 : t->strides[i - missing];
}

/* q[batch, heads, rows, depth], k[batch, shared, keys, depth], v[batch, shared, keys, features], a
 * mask that broadcasts to [batch, heads, rows, keys], or none, and of a cache the numbers of keys
 * [batch] and what splits come to, if it is split; the result is [batch, rows, heads, features].
 * `dims` stay as long as the launch. */
static void add_attention(launch *l, const dhowi_call *call, dhow_tensor *part, dhow_dims dims[2]) {
    enum { BATCH, HEAD, ROW, ELEMENT, RANK };
    const dhow_tensor *q = call->in[0], *k = call->in[1], *v = call->in[2], *y = call->out;
    const bool masked = call->in[3] != NULL;
    const int64_t heads = q->shape[HEAD];
    const int64_t shape[] = {q->shape[BATCH],  heads,         heads / k->shape[HEAD],
                             q->shape[ROW],    k->shape[ROW], q->shape[ELEMENT],
                             v->shape[ELEMENT]};
    const int64_t y_strides[] = {y->strides[0], y->strides[2], y->strides[1], y->strides[3]};
    dhow_dims *from = &dims[0], *to = &dims[1];
    *from = *to = (dhow_dims){.rank = RANK};
    memcpy(from->shape, shape, sizeof shape);
    for (int i = 0; i < 3; i++) {
        memcpy(from->stride[i], call->in[i]->strides, RANK * sizeof(int64_t));
        add_tensor(l, call->in[i], DHOW_ACCESS_READ);
    }
    memcpy(to->stride[0], y_strides, sizeof y_strides);
    if (masked) broadcast_strides(call->in[3], to->stride[1]);
    add_tensor(l, call->in[masked ? 3 : 0], DHOW_ACCESS_READ);
    if (call->in[4] != NULL) {
        add_tensor(l, call->in[4], DHOW_ACCESS_READ);
        add_tensor(l, part != NULL ? part : call->out, DHOW_ACCESS_WRITE);
    }
    add_tensor(l, call->out, DHOW_ACCESS_WRITE);
    l->args[l->arg_count++] = dhowi_arg_dims(from);
    l->args[l->arg_count++] = dhowi_arg_dims(to);
}

/* attrs->split: alpha scales, flag[0] makes rows that see nothing 0. */
dhow_status dhowi_run_attention(const dhowi_call *call) {
    const dhowi_axis_split *r = &call->attrs->split;
    dhow_dims dims[2];
    launch l = {0};
    add_attention(&l, call, NULL, dims);
    l.args[l.arg_count++] = dhowi_arg_f32(r->alpha);
    l.args[l.arg_count++] = dhowi_arg_i32(call->in[3] != NULL);
    l.args[l.arg_count++] = dhowi_arg_i32(r->flag[0]);
    return run_own(call, &l, work_of(call->out->count, call->in[1]->shape[2]));
}

/* How many groups share the keys of a head, see kernels/cache.k: by extents alone. */
static int64_t splits_of(const dhowi_call *call) {
    enum { GROUPS = 512, ROWS = 4, LEAST_KEYS = 64 };
    const int64_t *q = call->in[0]->shape, *k = call->in[1]->shape;
    const int64_t groups = q[0] * k[1] * dhowi_ceil_div(q[1] / k[1] * q[2], ROWS);
    const dhow_device *device = call->stream->device;
    if (dhowi_device_is_host(device) || !dhowi_splits_rows(device) || 2 * groups > GROUPS) return 1;
    return DHOWI_MIN(dhowi_ceil_div(GROUPS, groups), dhowi_ceil_div(k[2], LEAST_KEYS));
}

/* Splits become the result. */
static dhow_status join_splits(const dhowi_call *call, dhow_tensor *part, const dhow_dims dims[2],
                               int64_t splits) {
    dhow_kernel *kernel;
    launch l = {0};
    DHOWI_TRY(dhowi_kernel_of(call->stream->device, "attention_join", call->out->dtype, &kernel));
    add_tensor(&l, part, DHOW_ACCESS_READ);
    add_tensor(&l, call->in[4], DHOW_ACCESS_READ);
    add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    l.args[l.arg_count++] = dhowi_arg_dims(&dims[0]);
    l.args[l.arg_count++] = dhowi_arg_dims(&dims[1]);
    l.args[l.arg_count++] = dhowi_arg_i32((int32_t)splits);
    l.args[l.arg_count++] = dhowi_arg_i32(call->attrs->split.flag[0]);
    return run_kernel(call, &l, kernel, part->count);
}

/* Further, beta caps scores and flag[1] lets rows see no later keys. */
dhow_status dhowi_run_attention_cache(const dhowi_call *call) {
    const dhowi_axis_split *r = &call->attrs->split;
    const int64_t *y = call->out->shape, splits = splits_of(call);
    const int64_t shape[] = {y[0] * y[1] * y[2], splits, 2 + y[3]};
    dhow_tensor *part = NULL;
    dhow_dims dims[2];
    launch l = {0};
    if (splits > 1) DHOWI_TRY(dhowi_tensor_new(call->stream->device, DHOW_F32, 3, shape, &part));
    add_attention(&l, call, part, dims);
    l.args[l.arg_count++] = dhowi_arg_f32(r->alpha);
    l.args[l.arg_count++] = dhowi_arg_f32(r->beta);
    l.args[l.arg_count++] = dhowi_arg_i32(call->in[3] != NULL);
    l.args[l.arg_count++] = dhowi_arg_i32(r->flag[1]);
    l.args[l.arg_count++] = dhowi_arg_i32(r->flag[0]);
    l.args[l.arg_count++] = dhowi_arg_i32((int32_t)splits);
    dhow_status status = run_own(call, &l, work_of(call->out->count, call->in[1]->shape[2]));
    if (status == DHOW_OK && part != NULL) status = join_splits(call, part, dims, splits);
    dhow_tensor_release(part);
    return status;
}

/* x[batch, c, steps, inner] into out[batch, c, places, inner], from a place of each batch on;
 * attrs->split: flag[0] goes round. */
dhow_status dhowi_run_write_steps(const dhowi_call *call) {
    const dhow_tensor *x = call->in[0], *y = call->out;
    dhow_dims d = {.rank = 4};
    dhow_kernel *kernel;
    launch l = {0};
    DHOWI_TRY(width_kernel(call, "write_steps", &kernel));
    memcpy(d.shape, x->shape, 4 * sizeof *d.shape);
    memcpy(d.stride[0], x->strides, 4 * sizeof *d.shape);
    memcpy(d.stride[1], y->strides, 4 * sizeof *d.shape);
    add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    add_tensor(&l, call->in[1], DHOW_ACCESS_READ);
    add_tensor(&l, call->out, DHOW_ACCESS_READ | DHOW_ACCESS_WRITE);
    ADD_VALUES(&l, x->count / x->shape[3], y->shape[2]);
    l.args[l.arg_count++] = dhowi_arg_i32(call->attrs->split.flag[0]);
    l.args[l.arg_count++] = dhowi_arg_dims(&d);
    return run_kernel(call, &l, kernel, x->count);
}

/* ---- weights of 4 or 8 bits ---- */

/* Inputs are a, w, scales and, if given, zero points as packed bytes, zero points as numbers, bias.
 * attrs->split: n, inner = k, `count` blocks of 2^stride codes of `taps` bits. */
static void add_nbits(launch *l, const dhowi_call *call) {
    const dhowi_axis_split *r = &call->attrs->split;
    add_tensor(l, call->in[1], DHOW_ACCESS_READ);
    add_tensor(l, call->in[2], DHOW_ACCESS_READ);
    add_tensor(l, call->in[call->in[3] != NULL ? 3 : 1], DHOW_ACCESS_READ);
    add_tensor(l, call->in[call->in[4] != NULL ? 4 : 2], DHOW_ACCESS_READ);
    l->span = DHOWI_MAX(l->span, r->n * r->inner);
}

static void add_nbits_values(launch *l, const dhowi_call *call) {
    const dhowi_axis_split *r = &call->attrs->split;
    ADD_VALUES(l, r->n, r->inner, r->count);
    l->args[l->arg_count++] = dhowi_arg_i32((int32_t)r->stride);
    l->args[l->arg_count++] = dhowi_arg_i32((int32_t)r->taps);
    l->args[l->arg_count++] = dhowi_arg_i32(call->in[3] != NULL ? 1 : call->in[4] != NULL ? 2 : 0);
}

/* Unpacks w into the second result, [n][k], and multiplies by that. */
static dhow_status run_unpacked(const dhowi_call *call, int64_t rows) {
    const dhowi_axis_split *r = &call->attrs->split;
    dhow_kernel *kernel;
    launch l = {0};
    DHOWI_TRY(dhowi_kernel_of(call->stream->device, "unpack_nbits", call->in[0]->dtype, &kernel));
    add_nbits(&l, call);
    add_tensor(&l, call->second, DHOW_ACCESS_WRITE);
    add_nbits_values(&l, call);
    DHOWI_TRY(run_kernel(call, &l, kernel, r->n * r->inner));
    const dhowi_gemm g = {.op = call->op, /* whose kernel is that of products */
                          .m = rows,
                          .n = r->n,
                          .k = r->inner,
                          .batch = 1,
                          .a_row = r->inner,
                          .a_col = 1,
                          .b_row = 1,
                          .b_col = r->inner,
                          .a = call->in[0],
                          .b = call->second,
                          .bias = call->in[5],
                          .inside = call->inside,
                          .c = call->out};
    return dhowi_gemm_run(call->stream, &g);
}

dhow_status dhowi_run_matmul_nbits(const dhowi_call *call) {
    const int64_t n = call->attrs->split.n, rows = call->out->count / n;
    dhow_kernel *kernel;
    launch l = {0};
    if (call->second != NULL) return run_unpacked(call, rows);
    add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    add_nbits(&l, call);
    add_tensor(&l, call->in[call->in[5] != NULL ? 5 : 2], DHOW_ACCESS_READ);
    add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    ADD_VALUES(&l, rows);
    add_nbits_values(&l, call);
    l.args[l.arg_count++] = dhowi_arg_i32(call->in[5] != NULL);
    DHOWI_TRY(dhowi_kernel_of(call->stream->device, "matmul_nbits", call->in[0]->dtype, &kernel));
    return run_kernel(call, &l, kernel, work_of(call->out->count, call->attrs->split.inner));
}

/* ---- codes ---- */

/* Inputs are what the kernel takes, in its order. */
static dhow_status run_codes(const dhowi_call *call, uint32_t inputs) {
    launch l = {0};
    for (uint32_t i = 0; i < inputs; i++) add_tensor(&l, call->in[i], DHOW_ACCESS_READ);
    add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    ADD_VALUES(&l, call->out->count);
    return run_own(call, &l, call->out->count);
}

dhow_status dhowi_run_decode(const dhowi_call *call) { return run_codes(call, 2); }

dhow_status dhowi_run_encode(const dhowi_call *call) { return run_codes(call, 3); }
