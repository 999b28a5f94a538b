/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax and normalisation of rows. On GPUs a row that fits stays in registers, and longer ones
 * are cut into parts.
 */
#include <string.h>

#include "copy/engine.h"
#include "ops/own/own.h"

/* The elements of a part, see kernels/split.k, or 0 where rows are not cut: by extents alone. A
 * part stays in the cache of a multiprocessor, and a row has no more of them than its groups read
 * at once. */
static int64_t length_of(const dhow_device *device, dhow_dtype dtype, int64_t rows, int64_t cols) {
    enum {
        GROUP = 256,
        GROUPS = 1024,
        LEAST = 1024,
        BYTES = 32768,
        SHARE = 4,
        MOST_PARTS = 512,
        LINE = 64
    };
    if (dhowi_device_is_host(device) || !dhowi_splits_rows(device) || dtype == DHOW_F64 ||
        cols <= GROUP * dhowi_kept_by_item(dtype) - SHARE || rows == 0)
        return 0;
    const int64_t most = BYTES / dhow_dtype_bytes(dtype);
    const int64_t wanted = dhowi_ceil_div(cols, dhowi_ceil_div(GROUPS, rows));
    const int64_t length = DHOWI_MIN(DHOWI_MAX(wanted, LEAST), most);
    return dhowi_ceil_div(DHOWI_MAX(length, dhowi_ceil_div(cols, MOST_PARTS)), LINE) * LINE;
}

typedef struct long_rows {
    dhow_tensor *x, *y, *gamma, *beta; /* the last two or NULL */
    int64_t rows, cols, length;
    float eps;
    int32_t centred, logarithm;
} long_rows;

/* A launch of softmax_part, softmax_join, norm_part or norm_join. */
static dhow_status run_parts(const dhowi_call *call, const long_rows *r, bool norm, bool joins,
                             dhow_tensor *part) {
    static const char *const names[2][2] = {{"softmax_part", "softmax_join"},
                                            {"norm_part", "norm_join"}};
    dhow_kernel *kernel;
    dhowi_own_launch l = {0};
    DHOWI_TRY(dhowi_kernel_of(call->stream->device, names[norm][joins], r->x->dtype, &kernel));
    dhowi_add_tensor(&l, r->x, DHOW_ACCESS_READ);
    if (norm && joins) {
        dhowi_add_tensor(&l, r->gamma != NULL ? r->gamma : r->x, DHOW_ACCESS_READ);
        dhowi_add_tensor(&l, r->beta != NULL ? r->beta : r->x, DHOW_ACCESS_READ);
    }
    dhowi_add_tensor(&l, part, joins ? DHOW_ACCESS_READ : DHOW_ACCESS_WRITE);
    if (joins) dhowi_add_tensor(&l, r->y, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, r->rows, r->cols, part->shape[1], r->length);
    if (norm && joins) l.args[l.arg_count++] = dhowi_arg_f32(r->eps);
    if (norm && joins) l.args[l.arg_count++] = dhowi_arg_i32(r->gamma != NULL);
    if (norm && joins) l.args[l.arg_count++] = dhowi_arg_i32(r->beta != NULL);
    if (norm && !joins) l.args[l.arg_count++] = dhowi_arg_i32(r->centred);
    if (!norm && joins) l.args[l.arg_count++] = dhowi_arg_i32(r->logarithm);
    return dhowi_run_launch(call, &l, kernel, r->x->count);
}

static dhow_status run_in_parts(const dhowi_call *call, const long_rows *r, bool norm) {
    const int64_t shape[] = {r->rows, dhowi_ceil_div(r->cols, r->length), 2};
    dhow_tensor *part;
    DHOWI_TRY(dhowi_tensor_new(call->stream->device, DHOW_F32, 3, shape, &part));
    dhow_status status = run_parts(call, r, norm, false, part);
    if (status == DHOW_OK) status = run_parts(call, r, norm, true, part);
    dhow_tensor_release(part);
    return status;
}

dhow_status dhowi_run_rows(const dhowi_call *call, dhowi_own_launch *l, int64_t rows,
                           int64_t cols) {
    const dhow_dtype dtype = call->out->dtype;
    int32_t lanes = dhowi_lanes_of(call->stream->device, dtype, rows, cols);
    if (cols > lanes * dhowi_kept_by_item(dtype)) lanes = 0;
    l->args[l->arg_count++] = dhowi_arg_i32(lanes);
    return dhowi_run_own(call, l, dhowi_work_of(rows, lanes > 0 ? lanes : cols));
}

static dhow_status softmax_rows(const dhowi_call *call, dhow_tensor *x, dhow_tensor *y) {
    const int64_t cols = x->shape[x->rank - 1], rows = x->count / cols;
    const long_rows r = {.x = x,
                         .y = y,
                         .rows = rows,
                         .cols = cols,
                         .length = length_of(call->stream->device, x->dtype, rows, cols),
                         .logarithm = strcmp(call->op->kernel, "log_softmax") == 0};
    dhowi_own_launch l = {0};
    if (r.length > 0) return run_in_parts(call, &r, false);
    dhowi_add_tensor(&l, x, DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, y, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, rows, cols);
    return dhowi_run_rows(call, &l, rows, cols);
}

/* Along another than the last dimension: swapped to the end, computed, swapped back. */
static dhow_status softmax_across(const dhowi_call *call, int32_t dim) {
    dhow_tensor *x = NULL, *y = NULL, *packed = NULL, *result = NULL;
    dhow_status status = dhow_tensor_transpose(call->in[0], dim, -1, &x);
    if (status == DHOW_OK) status = dhow_tensor_transpose(call->out, dim, -1, &y);
    if (status == DHOW_OK) status = dhow_tensor_contiguous(call->stream, x, &packed);
    if (status == DHOW_OK)
        status = dhowi_tensor_new(call->stream->device, x->dtype, x->rank, x->shape, &result);
    if (status == DHOW_OK) status = softmax_rows(call, packed, result);
    if (status == DHOW_OK) status = dhowi_copy_local(call->stream, result, y, true);
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    dhow_tensor_release(packed);
    dhow_tensor_release(result);
    return status;
}

dhow_status dhowi_run_softmax(const dhowi_call *call) {
    int32_t dim, rank = call->in[0]->rank;
    DHOWI_TRY(dhowi_dim_check(call->op->name, rank, call->attrs->dim, &dim));
    if (dim != rank - 1) return softmax_across(call, dim);
    return softmax_rows(call, call->in[0], call->out);
}

dhow_status dhowi_run_layernorm(const dhowi_call *call) {
    dhow_tensor *x = call->in[0];
    const int64_t cols = x->shape[x->rank - 1], rows = x->count / cols;
    const long_rows r = {.x = x,
                         .y = call->out,
                         .gamma = call->in[1],
                         .beta = call->in[2],
                         .rows = rows,
                         .cols = cols,
                         .length = length_of(call->stream->device, x->dtype, rows, cols),
                         .eps = call->attrs->eps,
                         .centred = 1};
    dhowi_own_launch l = {0};
    if (r.length > 0) return run_in_parts(call, &r, true);
    for (int i = 0; i < 3; i++) dhowi_add_tensor(&l, call->in[i], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, rows, cols);
    l.args[l.arg_count++] = dhowi_arg_f32(r.eps);
    return dhowi_run_rows(call, &l, rows, cols);
}

dhow_status dhowi_run_normalize(const dhowi_call *call) {
    dhow_tensor *x = call->in[0], *gamma = call->in[1];
    const dhowi_axis_split *s = &call->attrs->split;
    const long_rows r = {.x = x,
                         .y = call->out,
                         .gamma = gamma,
                         .rows = s->outer,
                         .cols = s->n,
                         .length = length_of(call->stream->device, x->dtype, s->outer, s->n),
                         .eps = call->attrs->eps,
                         .centred = s->flag[0]};
    dhowi_own_launch l = {0};
    if (r.length > 0) return run_in_parts(call, &r, true);
    dhowi_add_tensor(&l, x, DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, gamma != NULL ? gamma : x, DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, r.rows, r.cols);
    l.args[l.arg_count++] = dhowi_arg_f32(r.eps);
    l.args[l.arg_count++] = dhowi_arg_i32(r.centred);
    l.args[l.arg_count++] = dhowi_arg_i32(gamma != NULL);
    return dhowi_run_rows(call, &l, r.rows, r.cols);
}
