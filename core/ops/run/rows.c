/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations along rows and dimensions: softmax, layer normalisation, reductions, gather, flatten.
 */
#include "ops/run/rows.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/size.h"
#include "copy/engine.h"

/* ---- shapes ---- */

dhow_status dhowi_infer_rows(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                             const dhowi_attrs *attrs, dhowi_tensor_desc *out) {
    int32_t dim;
    DHOWI_TRY(dhowi_dim_check(op->name, in[0]->rank, attrs->dim, &dim));
    *out = *in[0];
    return DHOW_OK;
}

dhow_status dhowi_infer_layernorm(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                                  const dhowi_attrs *attrs, dhowi_tensor_desc *out) {
    (void)attrs;
    const dhowi_tensor_desc *x = in[0];
    for (int i = 1; i <= 2; i++) {
        bool fits = x->rank > 0 && in[i]->rank == 1 && in[i]->shape[0] == x->shape[x->rank - 1] &&
                    in[i]->dtype == x->dtype;
        char a[160], b[160];
        if (!fits) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "layernorm: x is %s, %s is %s; it needs x's last extent and dtype",
                              dhowi_desc_text(x, a, sizeof a), op->inputs[i],
                              dhowi_desc_text(in[i], b, sizeof b));
        }
    }
    *out = *x;
    return DHOW_OK;
}

dhow_status dhowi_infer_reduce(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                               const dhowi_attrs *attrs, dhowi_tensor_desc *out) {
    int32_t dim;
    DHOWI_TRY(dhowi_dim_check(op->name, in[0]->rank, attrs->dim, &dim));
    bool sums = strcmp(op->kernel, "reduce_sum") == 0 || strcmp(op->kernel, "reduce_prod") == 0;
    if (in[0]->shape[dim] == 0 && !sums) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: dimension %d of x has no elements", op->name,
                          dim);
    }
    out->dtype = in[0]->dtype;
    out->rank = 0;
    for (int32_t i = 0; i < in[0]->rank; i++) {
        if (i != dim) out->shape[out->rank++] = in[0]->shape[i];
    }
    return DHOW_OK;
}

dhow_status dhowi_infer_argmax(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                               const dhowi_attrs *attrs, dhowi_tensor_desc *out) {
    DHOWI_TRY(dhowi_infer_reduce(op, in, attrs, out));
    out->dtype = DHOW_I64;
    return DHOW_OK;
}

dhow_status dhowi_infer_gather(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                               const dhowi_attrs *attrs, dhowi_tensor_desc *out) {
    (void)attrs;
    char a[160], b[160];
    if (in[0]->rank < 1 || in[1]->rank != 1 || in[1]->dtype != DHOW_I64) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: x is %s, index is %s; x needs a dimension and index is i64[count]",
                          op->name, dhowi_desc_text(in[0], a, sizeof a),
                          dhowi_desc_text(in[1], b, sizeof b));
    }
    *out = *in[0];
    out->shape[0] = in[1]->shape[0];
    return DHOW_OK;
}

dhow_status dhowi_infer_flatten(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                                const dhowi_attrs *attrs, dhowi_tensor_desc *out) {
    int32_t dim;
    DHOWI_TRY(dhowi_dim_check(op->name, in[0]->rank, attrs->dim, &dim));
    int64_t joined = 1;
    char text[160];
    for (int32_t i = dim; i < in[0]->rank; i++) {
        /* An open extent stays open. */
        if (joined < 0 || in[0]->shape[i] < 0)
            joined = -1;
        else if (__builtin_mul_overflow(joined, in[0]->shape[i], &joined))
            return dhowi_fail(DHOW_OUT_OF_RANGE,
                              "%s: x is %s; dimensions %d to %d have more elements "
                              "than an address holds",
                              op->name, dhowi_desc_text(in[0], text, sizeof text), dim,
                              in[0]->rank - 1);
    }
    *out = *in[0];
    out->rank = dim + 1;
    out->shape[dim] = joined;
    return DHOW_OK;
}

/* ---- running ---- */

/* An item has as many numbers as it keeps, but fewer where rows are too few for all multiprocessors
 * of a large GPU; lanes of a row have 32 bytes side by side, a sector of memory. */
int32_t dhowi_lanes_of(const dhow_device *device, dhow_dtype dtype, int64_t rows, int64_t cols) {
    enum { GROUP = 256, ENOUGH = 512 * GROUP, SECTOR = 32 };
    const int64_t bytes = dhow_dtype_bytes(dtype), share = 16 / DHOWI_MAX(bytes, 4);
    const int64_t kept = dhowi_kept_by_item(dtype);
    const int64_t all = cols + (cols % share == 0 ? 0 : share - 1);
    int64_t lanes = 1;
    if (dhowi_device_is_host(device) || !dhowi_optimises(DHOWI_OPTIMISE_SHARES)) return 0;
    while (lanes < GROUP && lanes * kept < all) lanes *= 2;
    while (lanes < GROUP && lanes * share < cols &&
           (rows < ENOUGH / lanes || lanes * share * bytes < SECTOR))
        lanes *= 2;
    return (int32_t)lanes;
}

/* x as [outer][n][inner] around a dimension. */
typedef struct split {
    int64_t outer, n, inner;
} split;

static dhow_status split_at(const dhowi_call *call, split *s) {
    const dhow_tensor *x = call->in[0];
    int32_t dim;
    DHOWI_TRY(dhowi_dim_check(call->op->name, x->rank, call->attrs->dim, &dim));
    s->outer = s->inner = 1;
    s->n = x->shape[dim];
    for (int32_t i = 0; i < dim; i++) s->outer *= x->shape[i];
    for (int32_t i = dim + 1; i < x->rank; i++) s->inner *= x->shape[i];
    return DHOW_OK;
}

/* How many parts what leads to a result is cut into on GPUs, see kernels/parts.k: by extents alone,
 * so that sums are the same on any number of multiprocessors and devices. A group has `UNIT`
 * columns for each item, or does `lanes` rows at a time and more, and an item adds up at most 256
 * of them.
 */
static int64_t parts_of(const dhow_device *device, const split *s) {
    enum { GROUP = 256, UNIT = 4, GROUPS = 1024, LEAST = 16, MOST = 256 };
    const int64_t lanes = DHOWI_MAX(GROUP / DHOWI_MAX(s->inner, 1), 1);
    const int64_t groups = s->outer * dhowi_ceil_div(s->inner, UNIT * GROUP),
                  steps = dhowi_ceil_div(s->n, lanes);
    if (dhowi_device_is_host(device) || !dhowi_splits_rows(device) || groups == 0 ||
        4 * groups > GROUPS || steps < 2 * LEAST)
        return 1;
    return DHOWI_MAX(DHOWI_MIN(dhowi_ceil_div(GROUPS, groups), steps / LEAST),
                     dhowi_ceil_div(steps, MOST));
}

/* One launch of a reduction; further arguments follow the extents. */
static dhow_status launch_reduction(const dhowi_call *call, dhow_kernel *kernel, int64_t work,
                                    dhow_tensor *x, dhow_tensor *y, const split *s,
                                    const dhow_arg *more, uint32_t more_count) {
    dhow_arg args[8] = {dhowi_arg_buffer(x, DHOW_ACCESS_READ),
                        dhowi_arg_buffer(y, DHOW_ACCESS_WRITE), dhowi_arg_i64(s->outer),
                        dhowi_arg_i64(s->n), dhowi_arg_i64(s->inner)};
    const dhowi_use uses[] = {{x->storage, DHOW_ACCESS_READ}, dhowi_use_of(y, DHOW_ACCESS_WRITE)};
    const int64_t span = DHOWI_MAX(x->count, y->count) + s->inner;
    for (uint32_t i = 0; i < more_count; i++) args[5 + i] = more[i];
    return dhowi_launch(call->stream, kernel, work, span, args, 5 + more_count, uses, 2);
}

/* `last` are the last arguments but lanes. */
static dhow_status reduce_at_once(const dhowi_call *call, const split *s, const dhow_arg *last,
                                  uint32_t last_count) {
    dhow_tensor *x = call->in[0], *y = call->out;
    dhow_device *device = call->stream->device;
    const int32_t lanes = s->inner > 1 ? 0 : dhowi_lanes_of(device, x->dtype, s->outer, s->n);
    dhow_arg more[2];
    dhow_kernel *kernel;
    DHOWI_TRY(dhowi_op_kernel(call->op, x->dtype, device, &kernel));
    for (uint32_t i = 0; i < last_count; i++) more[i] = last[i];
    more[last_count] = dhowi_arg_i32(lanes);
    return launch_reduction(call, kernel,
                            lanes > 0 ? s->outer * lanes : DHOWI_MAX(x->count, y->count), x, y, s,
                            more, last_count + 1);
}

/* Parts are as wide as they are computed in; the last pass narrows. */
static dhow_status parts_kernel(const dhowi_call *call, dhow_dtype from, dhow_dtype to,
                                dhow_kernel **out) {
    dhow_device *device = call->stream->device;
    if (from == DHOW_F32 && to != from)
        return dhowi_builtin_kernel_named(
            device, to == DHOW_F16 ? "reduce_parts_f32_f16" : "reduce_parts_f32_bf16", out);
    return dhowi_kernel_of(device, "reduce_parts", from, out);
}

static dhow_status reduce_in_parts(const dhowi_call *call, split s, float scale) {
    static const char *const kinds[] = {"reduce_sum", "reduce_max", "reduce_min", "reduce_prod"};
    const dhow_dtype dtype = call->out->dtype;
    const bool narrow = dtype == DHOW_F16 || dtype == DHOW_BF16;
    dhow_tensor *x = call->in[0];
    dhow_status status = dhow_tensor_retain(x);
    int32_t kind = 0; /* that of a mean is a sum's */
    while (kind < 3 && strcmp(call->op->kernel, kinds[kind]) != 0) kind++;
    for (int64_t parts = 2; parts > 1 && status == DHOW_OK; s.n = parts) {
        dhow_kernel *kernel;
        dhow_tensor *y = call->out;
        parts = parts_of(call->stream->device, &s);
        const int64_t shape[] = {s.outer, parts, s.inner};
        const dhow_arg more[] = {dhowi_arg_i64(parts), dhowi_arg_i32(kind),
                                 dhowi_arg_f32(parts == 1 ? scale : 1)};
        const dhow_dtype made = narrow && parts > 1 ? DHOW_F32 : dtype;
        status = parts_kernel(call, x->dtype, made, &kernel);
        if (status == DHOW_OK)
            status = parts == 1 ? dhow_tensor_retain(y)
                                : dhowi_tensor_new(call->stream->device, made, 3, shape, &y);
        if (status == DHOW_OK) status = launch_reduction(call, kernel, x->count, x, y, &s, more, 3);
        dhow_tensor_release(x);
        x = y;
    }
    dhow_tensor_release(x);
    return status;
}

/* The first of a row in falling order. */
static dhow_status argmax_by_order(const dhowi_call *call, const split *s) {
    const int64_t shape[] = {s->outer, 1, s->inner};
    const dhowi_attrs attrs = {
        .split = {.outer = s->outer, .n = s->n, .inner = s->inner, .count = 1, .flag = {1}}};
    dhowi_call c = *call;
    c.attrs = &attrs;
    c.second = call->out;
    DHOWI_TRY(dhowi_tensor_new(call->stream->device, call->in[0]->dtype, 3, shape, &c.out));
    const dhow_status status = dhowi_run_topk(&c);
    dhow_tensor_release(c.out);
    return status;
}

/* How many neighbouring rows processors reduce first, where there are few columns: threads then
 * read rows that they wrote, as they wrote them, and not all rows. By extents alone, too. */
static int64_t shares_of(const dhow_device *device, dhow_dtype dtype, const split *s) {
    enum { MOST = 16, LEAST_ROWS = 4, LEAST_COLUMNS = 16, LEAST = 1 << 14, MOST_COLUMNS = 1 << 13 };
    int64_t shares = MOST;
    if (!dhowi_device_is_host(device) || !dhowi_optimises(DHOWI_OPTIMISE_SHARES) ||
        dtype != DHOW_F32 || s->outer != 1 || s->inner < LEAST_COLUMNS || s->inner > MOST_COLUMNS ||
        s->n * s->inner < LEAST)
        return 1;
    while (shares > 1 && (s->n % shares != 0 || s->n / shares < LEAST_ROWS)) shares--;
    return shares;
}

static dhow_status reduce_in_shares(const dhowi_call *call, const split *s, int64_t shares,
                                    const dhow_arg *scale) {
    const int64_t shape[] = {shares, s->inner};
    const split first = {shares, s->n / shares, s->inner}, second = {1, shares, s->inner};
    const dhow_arg one = dhowi_arg_f32(1);
    dhowi_call of_shares = *call, of_all = *call;
    DHOWI_TRY(dhowi_tensor_new(call->stream->device, DHOW_F32, 2, shape, &of_shares.out));
    of_all.in[0] = of_shares.out;
    dhow_status status = reduce_at_once(&of_shares, &first, &one, 1);
    if (status == DHOW_OK) status = reduce_at_once(&of_all, &second, scale, 1);
    dhow_tensor_release(of_shares.out);
    return status;
}

static dhow_status reduce_by(const dhowi_call *call, float scale) {
    const dhow_arg last = dhowi_arg_f32(scale);
    split s;
    DHOWI_TRY(split_at(call, &s));
    const int64_t shares = shares_of(call->stream->device, call->in[0]->dtype, &s);
    if (shares > 1) return reduce_in_shares(call, &s, shares, &last);
    if (parts_of(call->stream->device, &s) > 1) return reduce_in_parts(call, s, scale);
    return reduce_at_once(call, &s, &last, 1);
}

static dhow_status divide_output(const dhowi_call *call, int64_t n) {
    dhow_tensor *divisor;
    DHOWI_TRY(dhowi_tensor_new(call->stream->device, DHOW_F64, 0, NULL, &divisor));
    dhow_status status =
        dhowi_fill_bits(call->stream, divisor, dhowi_dtype_encode(DHOW_F64, (double)n));
    if (status == DHOW_OK) status = dhowi_divide_by(call->stream, call->out, divisor);
    dhow_tensor_release(divisor);
    return status;
}

dhow_status dhowi_run_reduce(const dhowi_call *call) {
    split s;
    DHOWI_TRY(split_at(call, &s));
    bool mean = (call->op->flags & DHOWI_OP_MEAN) != 0;
    if (mean && call->out->dtype == DHOW_F64) { /* the kernel's scale is an f32 */
        DHOWI_TRY(reduce_by(call, 1.0f));
        return divide_output(call, s.n);
    }
    return reduce_by(call, mean ? 1.0f / (float)s.n : 1.0f);
}

/* Of an average pool whose window is the image: the mean of each row, of images that are rows. */
dhow_status dhowi_run_image_mean(const dhowi_call *call) {
    static _Atomic int32_t kernel_index[DHOW_BOOL + 1];
    static const dhowi_op mean_of_rows = {.name = "avgpool2d",
                                          .kernel = "reduce_sum",
                                          .flags = DHOWI_OP_REDUCES | DHOWI_OP_MEAN,
                                          .kernel_index = kernel_index};
    dhow_tensor *x = call->in[0];
    const dhowi_attrs attrs = {.dim = 1};
    const int64_t shape[] = {x->shape[0] * x->shape[1], x->shape[2] * x->shape[3]};
    const int64_t strides[] = {shape[1], 1};
    dhowi_call rows = *call;
    rows.op = &mean_of_rows;
    rows.attrs = &attrs;
    DHOWI_TRY(dhowi_tensor_view(x->storage, x->dtype, 2, shape, strides, x->offset, &rows.in[0]));
    const dhow_status status = dhowi_run_reduce(&rows);
    dhow_tensor_release(rows.in[0]);
    return status;
}

/* Of rows, processors find the largest with vectors, and its place then. */
dhow_status dhowi_run_argmax(const dhowi_call *call) {
    dhow_device *device = call->stream->device;
    split s;
    DHOWI_TRY(split_at(call, &s));
    if (device->desc.kind != DHOW_DEVICE_CPU && s.n <= INT32_MAX && parts_of(device, &s) > 1)
        return argmax_by_order(call, &s);
    return reduce_at_once(call, &s, NULL, 0);
}

dhow_status dhowi_run_gather(const dhowi_call *call) {
    dhow_tensor *x = call->in[0], *index = call->in[1], *y = call->out;
    uint32_t bytes = dhowi_tensor_element_bytes(x);
    char name[32];
    dhow_kernel *kernel;
    (void)snprintf(name, sizeof name, "gather_rows_u%u", bytes * 8);
    DHOWI_TRY(dhowi_builtin_kernel_named(call->stream->device, name, &kernel));
    int64_t cols = y->count / y->shape[0];
    const dhow_arg args[] = {dhowi_arg_buffer(x, DHOW_ACCESS_READ),
                             dhowi_arg_buffer(index, DHOW_ACCESS_READ),
                             dhowi_arg_buffer(y, DHOW_ACCESS_WRITE),
                             dhowi_arg_i64(x->shape[0]),
                             dhowi_arg_i64(cols),
                             dhowi_arg_i64(y->shape[0])};
    const dhowi_use uses[] = {{x->storage, DHOW_ACCESS_READ},
                              {index->storage, DHOW_ACCESS_READ},
                              dhowi_use_of(y, DHOW_ACCESS_WRITE)};
    return dhowi_launch(call->stream, kernel, y->count, DHOWI_MAX(x->count, y->count), args, 6,
                        uses, 3);
}

dhow_status dhowi_run_flatten(const dhowi_call *call) {
    dhow_tensor *view = NULL;
    /* Both sides see the elements in the same order; the shapes differ. */
    dhow_status status =
        dhow_tensor_reshape(call->out, call->in[0]->rank, call->in[0]->shape, &view);
    if (status == DHOW_OK) status = dhowi_copy_local(call->stream, call->in[0], view, true);
    dhow_tensor_release(view);
    return status;
}
