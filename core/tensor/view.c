/* SPDX-License-Identifier: Apache-2.0
 *
 * Views: new shapes over the same storage, see dhow/tensor.h.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/size.h"
#include "base/text/text.h"
#include "tensor/tensor.h"

static dhow_status begin_view(const char *function, const dhow_tensor *tensor, dhow_tensor **out) {
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    return dhowi_tensor_check(tensor, function, "tensor");
}

static dhow_status view_of(const dhow_tensor *t, int32_t rank, const int64_t *shape,
                           const int64_t *strides, int64_t offset, dhow_tensor **out) {
    return dhowi_tensor_view(t->storage, t->dtype, rank, shape, strides, offset, out);
}

static int64_t clamp(int64_t value, int64_t extent) {
    if (value < 0) value += extent;
    return value < 0 ? 0 : value > extent ? extent : value;
}

dhow_status dhow_tensor_slice(dhow_tensor *t, int32_t dim, int64_t start, int64_t stop,
                              int64_t step, dhow_tensor **out) {
    static const char function[] = "dhow_tensor_slice";
    DHOWI_TRY(begin_view(function, t, out));
    DHOWI_TRY(dhowi_dim_check(function, t->rank, dim, &dim));
    if (step < 1) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: step %" PRId64 "; 1 or more is allowed",
                          function, step);
    }
    int64_t shape[DHOW_MAX_RANK], strides[DHOW_MAX_RANK];
    memcpy(shape, t->shape, sizeof shape);
    memcpy(strides, t->strides, sizeof strides);
    start = clamp(start, t->shape[dim]);
    stop = clamp(stop, t->shape[dim]);
    shape[dim] = stop > start ? dhowi_ceil_div(stop - start, step) : 0;
    /* An empty view must not point past the end. */
    int64_t offset = shape[dim] > 0 ? t->offset + start * t->strides[dim] : t->offset;
    if (shape[dim] > 1) strides[dim] *= step;
    return view_of(t, t->rank, shape, strides, offset, out);
}

dhow_status dhow_tensor_narrow(dhow_tensor *t, int32_t dim, int64_t start, int64_t length,
                               dhow_tensor **out) {
    static const char function[] = "dhow_tensor_narrow";
    DHOWI_TRY(begin_view(function, t, out));
    DHOWI_TRY(dhowi_dim_check(function, t->rank, dim, &dim));
    if (start < 0 || length < 0 || start > t->shape[dim] || length > t->shape[dim] - start) {
        return dhowi_fail(DHOW_OUT_OF_RANGE,
                          "%s: %" PRId64 " indices from %" PRId64 " on, of an extent of %" PRId64,
                          function, length, start, t->shape[dim]);
    }
    return dhow_tensor_slice(t, dim, start, start + length, 1, out);
}

/* Parts of a dimension one after the other: of these sizes, or with NULL of `each`, the last ones
 * of what is left. */
static dhow_status make_parts(dhow_tensor *t, int32_t dim, const int64_t *sizes, int64_t each,
                              uint32_t count, dhow_tensor **out) {
    int64_t start = 0;
    for (uint32_t i = 0; i < count; i++) {
        const int64_t size = sizes != NULL ? sizes[i] : DHOWI_MIN(each, t->shape[dim] - start);
        dhow_status status = dhow_tensor_slice(t, dim, start, start + size, 1, &out[i]);
        start += size;
        if (status == DHOW_OK) continue;
        for (uint32_t k = 0; k < i; k++) {
            dhow_tensor_release(out[k]);
            out[k] = NULL;
        }
        return status;
    }
    return DHOW_OK;
}

static dhow_status begin_parts(const char *function, const dhow_tensor *t, int32_t *dim,
                               uint32_t count, dhow_tensor **out) {
    if (out == NULL || count == 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s", function,
                          out == NULL ? "out is NULL" : "0 parts");
    for (uint32_t i = 0; i < count; i++) out[i] = NULL;
    DHOWI_TRY(dhowi_tensor_check(t, function, "tensor"));
    return dhowi_dim_check(function, t->rank, *dim, dim);
}

dhow_status dhowi_parts_check(const char *function, int64_t extent, const int64_t *sizes,
                              uint32_t count) {
    int64_t left = extent;
    if (sizes == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: sizes is NULL", function);
    for (uint32_t i = 0; i < count; i++) {
        if (sizes[i] < 0 || sizes[i] > left)
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: size %u is %" PRId64 ", of the extent %" PRId64
                              " there are %" PRId64 " left",
                              function, i, sizes[i], extent, left);
        left -= sizes[i];
    }
    if (left == 0) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "%s: the sizes come to %" PRId64 " of the extent %" PRId64, function,
                      extent - left, extent);
}

dhow_status dhow_tensor_split(dhow_tensor *t, int32_t dim, const int64_t *sizes, uint32_t count,
                              dhow_tensor **out) {
    static const char function[] = "dhow_tensor_split";
    DHOWI_TRY(begin_parts(function, t, &dim, count, out));
    DHOWI_TRY(dhowi_parts_check(function, t->shape[dim], sizes, count));
    return make_parts(t, dim, sizes, 0, count, out);
}

dhow_status dhow_tensor_chunk(dhow_tensor *t, int32_t dim, uint32_t count, dhow_tensor **out) {
    DHOWI_TRY(begin_parts("dhow_tensor_chunk", t, &dim, count, out));
    return make_parts(t, dim, NULL, dhowi_ceil_div(t->shape[dim], count), count, out);
}

dhow_status dhow_tensor_select(dhow_tensor *t, int32_t dim, int64_t index, dhow_tensor **out) {
    static const char function[] = "dhow_tensor_select";
    DHOWI_TRY(begin_view(function, t, out));
    DHOWI_TRY(dhowi_dim_check(function, t->rank, dim, &dim));
    int64_t extent = t->shape[dim];
    if (index < -extent || index >= extent) {
        return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: index %" PRId64 " of an extent of %" PRId64,
                          function, index, extent);
    }
    int64_t shape[DHOW_MAX_RANK], strides[DHOW_MAX_RANK];
    int32_t rank = 0;
    for (int32_t i = 0; i < t->rank; i++) {
        if (i == dim) continue;
        shape[rank] = t->shape[i];
        strides[rank++] = t->strides[i];
    }
    if (index < 0) index += extent;
    int64_t offset = t->count > 0 ? t->offset + index * t->strides[dim] : t->offset;
    return view_of(t, rank, shape, strides, offset, out);
}

dhow_status dhow_tensor_permute(dhow_tensor *t, const int32_t *order, dhow_tensor **out) {
    static const char function[] = "dhow_tensor_permute";
    DHOWI_TRY(begin_view(function, t, out));
    if (order == NULL && t->rank > 0) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: order is NULL", function);
    }
    int64_t shape[DHOW_MAX_RANK], strides[DHOW_MAX_RANK];
    uint32_t seen = 0;
    for (int32_t i = 0; i < t->rank; i++) {
        if (order[i] < 0 || order[i] >= t->rank || (seen & (1u << order[i])) != 0) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: order is no permutation of 0 to %d (%d at position %d)",
                              function, t->rank - 1, order[i], i);
        }
        seen |= 1u << order[i];
        shape[i] = t->shape[order[i]];
        strides[i] = t->strides[order[i]];
    }
    return view_of(t, t->rank, shape, strides, t->offset, out);
}

dhow_status dhow_tensor_transpose(dhow_tensor *t, int32_t dim0, int32_t dim1, dhow_tensor **out) {
    static const char function[] = "dhow_tensor_transpose";
    DHOWI_TRY(begin_view(function, t, out));
    DHOWI_TRY(dhowi_dim_check(function, t->rank, dim0, &dim0));
    DHOWI_TRY(dhowi_dim_check(function, t->rank, dim1, &dim1));
    int32_t order[DHOW_MAX_RANK];
    for (int32_t i = 0; i < t->rank; i++) order[i] = i == dim0 ? dim1 : i == dim1 ? dim0 : i;
    return dhow_tensor_permute(t, order, out);
}

/* Works out an extent of -1. */
static dhow_status resolve_shape(const char *function, const dhow_tensor *t, int32_t rank,
                                 const int64_t *shape, int64_t *resolved) {
    int32_t open = -1;
    int64_t known = 1, count;
    uint64_t bytes;
    for (int32_t i = 0; i < rank && i < DHOW_MAX_RANK && shape != NULL; i++) {
        resolved[i] = shape[i];
        if (shape[i] != -1) {
            if (!dhowi_mul_i64(known, shape[i], &known)) known = -1;
            continue;
        }
        if (open >= 0) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: two extents are -1", function);
        open = i;
        resolved[i] = 0;
    }
    if (open >= 0 && known > 0 && t->count % known == 0) resolved[open] = t->count / known;
    DHOWI_TRY(dhowi_shape_check(function, t->dtype, rank,
                                rank > 0 && shape == NULL ? NULL : resolved, &count, &bytes));
    if (count != t->count || (open >= 0 && known == 0)) {
        char from[128], to[128];
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s has %" PRId64 " elements, %s does not",
                          function, dhowi_shape_text(t->rank, t->shape, from, sizeof from),
                          t->count, dhowi_shape_text(rank, shape, to, sizeof to));
    }
    return DHOW_OK;
}

/* Strides of a reshaped view: each run of dimensions that is contiguous in itself is split anew. */
static bool reshape_strides(const dhow_tensor *t, int32_t rank, const int64_t *shape,
                            int64_t *strides) {
    if (t->count == 0 || t->contiguous) {
        dhowi_shape_strides(rank, shape, strides);
        return true;
    }
    int32_t to = rank - 1;
    for (int32_t from = t->rank - 1; from >= 0;) {
        int64_t run = t->shape[from], inner = t->strides[from];
        int32_t first = from;
        while (first > 0 &&
               (t->shape[first - 1] == 1 || run == 1 || t->strides[first - 1] == inner * run)) {
            if (run == 1) inner = t->strides[first - 1];
            run *= t->shape[--first];
        }
        int64_t filled = 1;
        while (to >= 0 && (filled < run || shape[to] == 1)) {
            strides[to] = inner * filled;
            filled *= shape[to--];
        }
        if (filled != run) return false;
        from = first - 1;
    }
    for (; to >= 0; to--) strides[to] = 1;
    return true;
}

dhow_status dhow_tensor_reshape(dhow_tensor *t, int32_t rank, const int64_t *shape,
                                dhow_tensor **out) {
    static const char function[] = "dhow_tensor_reshape";
    DHOWI_TRY(begin_view(function, t, out));
    int64_t resolved[DHOW_MAX_RANK] = {0}, strides[DHOW_MAX_RANK] = {0};
    DHOWI_TRY(resolve_shape(function, t, rank, shape, resolved));
    if (!reshape_strides(t, rank, resolved, strides)) {
        char from[128], to[128];
        return dhowi_fail(
            DHOW_INVALID_ARGUMENT,
            "%s: the strides of %s allow no view of shape %s; call dhow_tensor_contiguous() first",
            function, dhowi_shape_text(t->rank, t->shape, from, sizeof from),
            dhowi_shape_text(rank, resolved, to, sizeof to));
    }
    return view_of(t, rank, resolved, strides, t->offset, out);
}

dhow_status dhow_tensor_squeeze(dhow_tensor *t, int32_t dim, dhow_tensor **out) {
    static const char function[] = "dhow_tensor_squeeze";
    DHOWI_TRY(begin_view(function, t, out));
    int64_t shape[DHOW_MAX_RANK], strides[DHOW_MAX_RANK];
    int32_t rank = 0;
    const bool all = dim == DHOW_ALL_DIMS;
    if (!all) DHOWI_TRY(dhowi_dim_check(function, t->rank, dim, &dim));
    for (int32_t i = 0; i < t->rank; i++) {
        if (t->shape[i] == 1 && (all || i == dim)) continue;
        shape[rank] = t->shape[i];
        strides[rank++] = t->strides[i];
    }
    return view_of(t, rank, shape, strides, t->offset, out);
}

dhow_status dhow_tensor_unsqueeze(dhow_tensor *t, int32_t dim, dhow_tensor **out) {
    static const char function[] = "dhow_tensor_unsqueeze";
    DHOWI_TRY(begin_view(function, t, out));
    if (t->rank == DHOW_MAX_RANK)
        return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: the tensor has all %d dimensions already",
                          function, DHOW_MAX_RANK);
    DHOWI_TRY(dhowi_dim_check(function, t->rank + 1, dim, &dim));
    int64_t shape[DHOW_MAX_RANK], strides[DHOW_MAX_RANK];
    for (int32_t i = 0; i <= t->rank; i++) {
        shape[i] = i == dim ? 1 : t->shape[i - (i > dim)];
        strides[i] = i < dim ? t->strides[i] : i > dim ? t->strides[i - 1] : 1;
    }
    return view_of(t, t->rank + 1, shape, strides, t->offset, out);
}

dhow_status dhow_tensor_flatten(dhow_tensor *t, int32_t first, int32_t last, dhow_tensor **out) {
    static const char function[] = "dhow_tensor_flatten";
    DHOWI_TRY(begin_view(function, t, out));
    const int32_t rank = t->rank > 0 ? t->rank : 1; /* as PyTorch takes a single number */
    DHOWI_TRY(dhowi_dim_check(function, rank, first, &first));
    DHOWI_TRY(dhowi_dim_check(function, rank, last, &last));
    if (last < first)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: the last dimension, %d, is before the first, %d", function, last,
                          first);
    int64_t shape[DHOW_MAX_RANK], joined = 1;
    int32_t to = 0;
    for (int32_t i = 0; i < first; i++) shape[to++] = t->shape[i];
    for (int32_t i = first; i <= last && i < t->rank; i++) joined *= t->shape[i];
    shape[to++] = joined;
    for (int32_t i = last + 1; i < t->rank; i++) shape[to++] = t->shape[i];
    return dhow_tensor_reshape(t, to, shape, out);
}

dhow_status dhow_tensor_expand(dhow_tensor *t, int32_t rank, const int64_t *shape,
                               dhow_tensor **out) {
    static const char function[] = "dhow_tensor_expand";
    DHOWI_TRY(begin_view(function, t, out));
    int64_t count, strides[DHOW_MAX_RANK];
    uint64_t bytes;
    DHOWI_TRY(dhowi_shape_check(function, t->dtype, rank, shape, &count, &bytes));
    for (int32_t i = 0; i < rank; i++) {
        int32_t own = i - (rank - t->rank);
        int64_t extent = own >= 0 ? t->shape[own] : 1;
        if (rank < t->rank || (extent != shape[i] && extent != 1)) {
            char from[128], to[128];
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s does not expand to %s", function,
                              dhowi_shape_text(t->rank, t->shape, from, sizeof from),
                              dhowi_shape_text(rank, shape, to, sizeof to));
        }
        strides[i] = own >= 0 && extent == shape[i] ? t->strides[own] : 0;
    }
    if (rank < t->rank) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: rank %d to rank %d", function, t->rank, rank);
    }
    return view_of(t, rank, shape, strides, t->offset, out);
}
