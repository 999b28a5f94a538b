/* SPDX-License-Identifier: Apache-2.0
 *
 * Eager reductions over any dimensions, see dhow/reduce.h: x is seen as [outer][n][inner], where n
 * are the elements that become one.
 */
#include <math.h>

#include "copy/engine.h"
#include "dhow/create.h"
#include "dhow/reduce.h"
#include "ops/run/op.h"

typedef struct reduction {
    const char *function;
    dhow_stream *stream;
    dhow_tensor *x, *y;
    bool axes[DHOW_MAX_RANK];    /* which become one */
    int64_t kept[DHOW_MAX_RANK]; /* x's shape with extents of 1 for them */
    int64_t n;
} reduction;

/* ---- checks ---- */

static dhow_status mark_axes(reduction *r, const int32_t *dims, uint32_t count) {
    if (count > 0 && dims == NULL)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: dims is NULL", r->function);
    for (uint32_t i = 0; i < count; i++) {
        int32_t dim;
        DHOWI_TRY(dhowi_dim_check(r->function, r->x->rank, dims[i], &dim));
        if (r->axes[dim])
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: dimension %d is named twice", r->function,
                              dim);
        r->axes[dim] = true;
    }
    r->n = 1;
    for (int32_t i = 0; i < r->x->rank; i++) {
        r->axes[i] = r->axes[i] || count == 0;
        r->kept[i] = r->axes[i] ? 1 : r->x->shape[i];
        if (r->axes[i]) r->n *= r->x->shape[i];
    }
    return DHOW_OK;
}

static dhow_status check_result(const reduction *r) {
    const dhow_tensor *x = r->x, *y = r->y;
    int64_t without[DHOW_MAX_RANK];
    int32_t rank = 0;
    char a[192], b[192];
    for (int32_t i = 0; i < x->rank; i++) {
        if (!r->axes[i]) without[rank++] = x->shape[i];
    }
    const bool fits = dhowi_shape_equal(rank, without, y->rank, y->shape) ||
                      dhowi_shape_equal(x->rank, r->kept, y->rank, y->shape);
    if (!fits || x->dtype != y->dtype || dhowi_tensor_device(x) != dhowi_tensor_device(y))
        return dhowi_fail(
            DHOW_INVALID_ARGUMENT,
            "%s: x is %s, y is %s; y needs x's dtype and device, and x's shape without "
            "the reduced dimensions or with extents of 1 for them",
            r->function, dhowi_tensor_text(x, a, sizeof a), dhowi_tensor_text(y, b, sizeof b));
    if (dhowi_tensor_overlap(x, y))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: y overlaps x", r->function);
    return DHOW_OK;
}

static dhow_status begin(reduction *r, const int32_t *dims, uint32_t count) {
    DHOWI_TRY(dhowi_tensor_check_read(r->x, r->function, "x"));
    DHOWI_TRY(dhowi_tensor_check_write(r->y, r->function, "y"));
    DHOWI_TRY(mark_axes(r, dims, count));
    DHOWI_TRY(check_result(r));
    return dhowi_stream_resolve(r->stream, dhowi_tensor_device(r->y), r->function, &r->stream);
}

/* ---- running ---- */

/* The order that brings the marked dimensions together: at the end, unless they are already. */
static void group(const reduction *r, int32_t order[DHOW_MAX_RANK], int64_t parts[3]) {
    const dhow_tensor *x = r->x;
    int32_t first = x->rank, last = -1, marked = 0, at = 0;
    for (int32_t i = 0; i < x->rank; i++) {
        if (!r->axes[i]) continue;
        if (first == x->rank) first = i;
        last = i;
        marked++;
    }
    const bool together = last - first + 1 == marked || marked == 0;
    parts[0] = parts[2] = 1;
    parts[1] = r->n;
    for (int32_t i = 0; i < x->rank; i++) {
        if (!r->axes[i]) parts[together && i > last ? 2 : 0] *= x->shape[i];
        if (together || !r->axes[i]) order[at++] = i;
    }
    for (int32_t i = 0; i < x->rank && !together; i++) {
        if (r->axes[i]) order[at++] = i;
    }
}

/* Into a contiguous y of any shape with the right count. */
static dhow_status reduce_into(const reduction *r, dhowi_op_id id, dhow_tensor *y) {
    int32_t order[DHOW_MAX_RANK];
    int64_t parts[3];
    dhow_tensor *turned = NULL, *packed = NULL, *from = NULL, *to = NULL;
    const dhowi_attrs attrs = {.dim = 1};
    group(r, order, parts);
    dhow_status status = dhow_tensor_permute(r->x, order, &turned);
    if (status == DHOW_OK) status = dhow_tensor_contiguous(r->stream, turned, &packed);
    if (status == DHOW_OK) status = dhow_tensor_reshape(packed, 3, parts, &from);
    if (status == DHOW_OK) status = dhow_tensor_reshape(y, DHOW_SHAPE(parts[0], parts[2]), &to);
    if (status == DHOW_OK) status = dhowi_op_call(id, r->stream, &from, 1, &attrs, to);
    dhow_tensor_release(turned);
    dhow_tensor_release(packed);
    dhow_tensor_release(from);
    dhow_tensor_release(to);
    return status;
}

/* y = x in y's shape and dtype. */
static dhow_status deliver(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y) {
    dhow_tensor *view = NULL;
    dhow_status status = dhow_tensor_reshape(x, y->rank, y->shape, &view);
    if (status == DHOW_OK) status = dhow_cast(stream, view, y);
    dhow_tensor_release(view);
    return status;
}

static dhow_status run(const reduction *r, dhowi_op_id id) {
    dhow_tensor *result;
    if (r->y->contiguous) return reduce_into(r, id, r->y);
    DHOWI_TRY(dhowi_tensor_new(r->stream->device, r->y->dtype, r->y->rank, r->y->shape, &result));
    dhow_status status = reduce_into(r, id, result);
    if (status == DHOW_OK) status = deliver(r->stream, result, r->y);
    dhow_tensor_release(result);
    return status;
}

dhow_status dhow_reduce(dhow_stream *stream, dhow_reduction kind, dhow_tensor *x,
                        const int32_t *dims, uint32_t count, dhow_tensor *y) {
    static const dhowi_op_id ids[] = {[DHOW_REDUCE_SUM] = DHOWI_OP_reduce_sum,
                                      [DHOW_REDUCE_MEAN] = DHOWI_OP_reduce_mean,
                                      [DHOW_REDUCE_MAX] = DHOWI_OP_reduce_max,
                                      [DHOW_REDUCE_MIN] = DHOWI_OP_reduce_min,
                                      [DHOW_REDUCE_PROD] = DHOWI_OP_reduce_prod};
    reduction r = {.function = "dhow_reduce", .stream = stream, .x = x, .y = y};
    DHOWI_TRY(begin(&r, dims, count));
    if (kind < DHOW_REDUCE_SUM || kind > DHOW_REDUCE_PROD)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %d is no reduction", r.function, (int)kind);
    return run(&r, ids[kind]);
}

/* ---- variance ---- */

/* variance = sum of (x - mean)^2 / (n - correction), of x in a type to compute in. */
static dhow_status variance_of(const reduction *r, double correction, dhow_tensor *mean,
                               dhow_tensor *apart, dhow_tensor *variance) {
    reduction squares = *r;
    squares.x = apart;
    DHOWI_TRY(reduce_into(r, DHOWI_OP_reduce_mean, mean));
    DHOWI_TRY(dhow_sub(r->stream, r->x, mean, apart));
    DHOWI_TRY(dhow_mul(r->stream, apart, apart, apart));
    DHOWI_TRY(reduce_into(&squares, DHOWI_OP_reduce_sum, variance));
    const double divisor = fmax(0, (double)r->n - correction);
    return dhow_div_scalar(r->stream, variance, dhow_scalar_f64(divisor), variance);
}

static dhow_status spread(const char *function, dhow_stream *stream, dhow_tensor *x,
                          const int32_t *dims, uint32_t count, double correction, bool root,
                          dhow_tensor *y) {
    reduction r = {.function = function, .stream = stream, .x = x, .y = y};
    dhow_tensor *wide = NULL, *mean = NULL, *apart = NULL, *variance = NULL;
    DHOWI_TRY(begin(&r, dims, count));
    if ((DHOWI_FLOATS & DHOW_DTYPE_BIT(x->dtype)) == 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: x is %s, which it does not take", function,
                          dhow_dtype_name(x->dtype));
    if (y->count == 0) return DHOW_OK;
    const dhow_dtype dtype = x->dtype == DHOW_F64 ? DHOW_F64 : DHOW_F32;
    dhow_device *device = r.stream->device;
    dhow_status status = dhow_tensor_to_dtype(r.stream, x, dtype, &wide);
    r.x = wide;
    if (status == DHOW_OK) status = dhowi_tensor_new(device, dtype, x->rank, r.kept, &mean);
    if (status == DHOW_OK) status = dhowi_tensor_new(device, dtype, x->rank, r.kept, &variance);
    if (status == DHOW_OK) status = dhowi_tensor_new(device, dtype, x->rank, x->shape, &apart);
    if (status == DHOW_OK) status = variance_of(&r, correction, mean, apart, variance);
    if (status == DHOW_OK && root) status = dhow_sqrt(r.stream, variance, variance);
    if (status == DHOW_OK) status = deliver(r.stream, variance, y);
    dhow_tensor_release(wide);
    dhow_tensor_release(mean);
    dhow_tensor_release(apart);
    dhow_tensor_release(variance);
    return status;
}

dhow_status dhow_var(dhow_stream *stream, dhow_tensor *x, const int32_t *dims, uint32_t count,
                     double correction, dhow_tensor *y) {
    return spread("dhow_var", stream, x, dims, count, correction, false, y);
}

dhow_status dhow_std(dhow_stream *stream, dhow_tensor *x, const int32_t *dims, uint32_t count,
                     double correction, dhow_tensor *y) {
    return spread("dhow_std", stream, x, dims, count, correction, true, y);
}
