/* SPDX-License-Identifier: Apache-2.0
 *
 * Eager functions along one dimension, see dhow/reduce.h: smallest elements, running sums, the k
 * largest.
 */
#include <inttypes.h>

#include "copy/engine.h"
#include "dhow/create.h"
#include "dhow/reduce.h"
#include "ops/run/op.h"

/* The order of elements reversed: -x, of integers -x - 1, which none of them lacks. */
static dhow_status reversed(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y) {
    if ((DHOWI_FLOATS & DHOW_DTYPE_BIT(x->dtype)) != 0) return dhow_neg(stream, x, y);
    return dhow_affine(stream, x, dhow_scalar_i64(-1), dhow_scalar_i64(-1), y);
}

dhow_status dhow_argmin(dhow_stream *stream, dhow_tensor *x, int32_t dim, dhow_tensor *y) {
    static const char function[] = "dhow_argmin";
    dhow_tensor *mirror;
    DHOWI_TRY(dhowi_tensor_check_read(x, function, "x"));
    DHOWI_TRY(dhowi_tensor_check_write(y, function, "y"));
    DHOWI_TRY(dhowi_stream_resolve(stream, dhowi_tensor_device(y), function, &stream));
    if ((DHOWI_REDUCIBLE & DHOW_DTYPE_BIT(x->dtype)) == 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: x is %s, which it does not take", function,
                          dhow_dtype_name(x->dtype));
    DHOWI_TRY(dhow_tensor_empty_like(x, &mirror));
    dhow_status status = reversed(stream, x, mirror);
    if (status == DHOW_OK) status = dhow_argmax(stream, mirror, dim, y);
    dhow_tensor_release(mirror);
    return status;
}

/* ---- rows that only models used: extents around an axis ---- */

static dhow_status check(const char *function, dhow_tensor *x, int32_t *dim) {
    DHOWI_TRY(dhowi_tensor_check_read(x, function, "x"));
    return dhowi_dim_check(function, x->rank, *dim, dim);
}

static dhow_status check_wide(const char *function, const dhow_tensor *x) {
    if ((DHOWI_WIDE & DHOW_DTYPE_BIT(x->dtype)) != 0) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "%s: x is %s, which it does not take; dhow_cast() it to f32, f64, i32 or i64",
                      function, dhow_dtype_name(x->dtype));
}

static dhow_status check_out(const char *function, const char *name, dhow_tensor *x,
                             dhow_dtype dtype, int32_t dim, int64_t extent, dhow_tensor *y) {
    char a[192], b[192];
    DHOWI_TRY(dhowi_tensor_check_write(y, function, name));
    bool fits =
        y->dtype == dtype && y->rank == x->rank && dhowi_tensor_device(x) == dhowi_tensor_device(y);
    for (int32_t i = 0; fits && i < x->rank; i++)
        fits = y->shape[i] == (i == dim ? extent : x->shape[i]);
    if (!fits)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: x is %s, %s is %s; it needs x's device, %s and extent %" PRId64
                          " at dimension %d",
                          function, dhowi_tensor_text(x, a, sizeof a), name,
                          dhowi_tensor_text(y, b, sizeof b), dhow_dtype_name(dtype), extent, dim);
    if (dhowi_tensor_overlap(x, y))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s overlaps x", function, name);
    return DHOW_OK;
}

static void extents(const dhow_tensor *x, int32_t dim, dhowi_axis_split *run) {
    run->outer = run->inner = 1;
    run->n = x->shape[dim];
    for (int32_t i = 0; i < dim; i++) run->outer *= x->shape[i];
    for (int32_t i = dim + 1; i < x->rank; i++) run->inner *= x->shape[i];
}

/* A contiguous place for a result: itself where it is one. */
static dhow_status place_of(dhow_tensor *y, dhow_tensor **out) {
    *out = NULL;
    if (!y->contiguous) return dhow_tensor_empty_like(y, out);
    DHOWI_TRY(dhow_tensor_retain(y));
    *out = y;
    return DHOW_OK;
}

static dhow_status bring(dhow_stream *stream, dhow_tensor *from, dhow_tensor *y) {
    return from == y ? DHOW_OK : dhowi_copy_local(stream, from, y, true);
}

/* second may be NULL */
static dhow_status run_along(dhowi_op_id id, dhow_stream *stream, dhow_tensor *x,
                             const dhowi_attrs *attrs, dhow_tensor *y, dhow_tensor *second) {
    dhowi_call call = {.op = dhowi_op_of(id), .stream = stream, .attrs = attrs};
    dhow_status status = dhow_tensor_contiguous(stream, x, &call.in[0]);
    if (status == DHOW_OK) status = place_of(y, &call.out);
    if (status == DHOW_OK && second != NULL) status = place_of(second, &call.second);
    if (status == DHOW_OK) status = call.op->run(&call);
    if (status == DHOW_OK) status = bring(stream, call.out, y);
    if (status == DHOW_OK && second != NULL) status = bring(stream, call.second, second);
    dhow_tensor_release(call.in[0]);
    dhow_tensor_release(call.out);
    dhow_tensor_release(call.second);
    return status;
}

dhow_status dhow_cumsum(dhow_stream *stream, dhow_tensor *x, int32_t dim, dhow_tensor *y) {
    static const char function[] = "dhow_cumsum";
    dhowi_attrs attrs = {0};
    DHOWI_TRY(check(function, x, &dim));
    DHOWI_TRY(check_wide(function, x));
    DHOWI_TRY(check_out(function, "y", x, x->dtype, dim, x->shape[dim], y));
    DHOWI_TRY(dhowi_stream_resolve(stream, dhowi_tensor_device(y), function, &stream));
    extents(x, dim, &attrs.split);
    return y->count > 0 ? run_along(DHOWI_OP_cumsum, stream, x, &attrs, y, NULL) : DHOW_OK;
}

static dhow_status run_topk(const char *function, dhow_stream *stream, dhow_tensor *x, int64_t k,
                            int32_t dim, bool largest, dhow_tensor *values, dhow_tensor *indices) {
    dhowi_attrs attrs = {0};
    DHOWI_TRY(check(function, x, &dim));
    if (k < 0 || k > x->shape[dim])
        return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: k is %" PRId64 " of an extent of %" PRId64,
                          function, k, x->shape[dim]);
    DHOWI_TRY(check_out(function, "values", x, x->dtype, dim, k, values));
    DHOWI_TRY(check_out(function, "indices", x, DHOW_I64, dim, k, indices));
    if (dhowi_tensor_overlap(values, indices))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: values overlap indices", function);
    DHOWI_TRY(dhowi_stream_resolve(stream, dhowi_tensor_device(values), function, &stream));
    extents(x, dim, &attrs.split);
    attrs.split.count = k;
    attrs.split.flag[0] = largest;
    if (values->count == 0) return DHOW_OK;
    return run_along(DHOWI_OP_topk, stream, x, &attrs, values, indices);
}

dhow_status dhow_topk(dhow_stream *stream, dhow_tensor *x, int64_t k, int32_t dim, int32_t largest,
                      dhow_tensor *values, dhow_tensor *indices) {
    return run_topk("dhow_topk", stream, x, k, dim, largest != 0, values, indices);
}

dhow_status dhow_sort(dhow_stream *stream, dhow_tensor *x, int32_t dim, int32_t descending,
                      dhow_tensor *values, dhow_tensor *indices) {
    DHOWI_TRY(check("dhow_sort", x, &dim));
    return run_topk("dhow_sort", stream, x, x->shape[dim], dim, descending != 0, values, indices);
}
