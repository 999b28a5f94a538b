/* SPDX-License-Identifier: Apache-2.0
 *
 * Joining tensors of any devices: along a dimension, and along a new one.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/memory/size.h"
#include "copy/engine.h"
#include "memory/origins.h"

static dhow_status check_parts(const char *function, dhow_tensor *const *tensors, uint32_t count,
                               int32_t dim, const dhow_tensor *y) {
    char a[192], b[192];
    int64_t extent = 0;
    for (uint32_t i = 0; i < count; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "tensor %u", i);
        DHOWI_TRY(dhowi_tensor_check_read(tensors[i], function, name));
        const dhow_tensor *t = tensors[i];
        bool fits = t->rank == y->rank && t->dtype == y->dtype;
        for (int32_t d = 0; fits && d < y->rank; d++) fits = d == dim || t->shape[d] == y->shape[d];
        if (!fits) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s is %s, which is no part of %s",
                              function, name, dhowi_tensor_text(t, a, sizeof a),
                              dhowi_tensor_text(y, b, sizeof b));
        }
        if (dhowi_tensor_overlap(t, y))
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: y overlaps %s", function, name);
        if (!dhowi_add_i64(extent, t->shape[dim], &extent)) extent = -1;
    }
    if (extent == y->shape[dim]) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "%s: dimension %d of the tensors adds up to %" PRId64 ", y is %s", function,
                      dim, extent, dhowi_tensor_text(y, a, sizeof a));
}

/* All of y is written, part by part: what was to be there before is of no matter any more. */
static void begin_anew(dhow_tensor *y) {
    if (dhowi_tensor_covers(y)) dhowi_storage_written(y->storage);
}

dhow_status dhow_cat(dhow_stream *stream, dhow_tensor *const *tensors, uint32_t count, int32_t dim,
                     dhow_tensor *y) {
    static const char function[] = "dhow_cat";
    DHOWI_TRY(dhowi_tensor_check_write(y, function, "y"));
    DHOWI_TRY(dhowi_dim_check(function, y->rank, dim, &dim));
    if (tensors == NULL || count == 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: there are no tensors", function);
    if (stream != NULL) DHOWI_TRY(dhowi_handle_check(stream, DHOWI_STREAM, function, "stream"));
    DHOWI_TRY(check_parts(function, tensors, count, dim, y));
    begin_anew(y);
    int64_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        int64_t next = at + tensors[i]->shape[dim];
        dhow_tensor *place;
        DHOWI_TRY(dhow_tensor_slice(y, dim, at, next, 1, &place));
        dhow_status status = dhow_copy_async(stream, tensors[i], place, 0);
        dhow_tensor_release(place);
        DHOWI_TRY(status);
        at = next;
    }
    return DHOW_OK;
}

/* y without `dim` is what each of them must be. */
static dhow_status check_layers(const char *function, dhow_tensor *const *tensors, uint32_t count,
                                int32_t dim, const dhow_tensor *y) {
    char a[192], b[192];
    for (uint32_t i = 0; i < count; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "tensor %u", i);
        DHOWI_TRY(dhowi_tensor_check_read(tensors[i], function, name));
        const dhow_tensor *t = tensors[i];
        bool fits = t->rank == y->rank - 1 && t->dtype == y->dtype;
        for (int32_t d = 0; fits && d < t->rank; d++)
            fits = t->shape[d] == y->shape[d + (d >= dim)];
        if (!fits) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s is %s, which is no layer of %s",
                              function, name, dhowi_tensor_text(t, a, sizeof a),
                              dhowi_tensor_text(y, b, sizeof b));
        }
        if (dhowi_tensor_overlap(t, y))
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: y overlaps %s", function, name);
    }
    if (y->shape[dim] == (int64_t)count) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: there are %u tensors, y is %s", function, count,
                      dhowi_tensor_text(y, a, sizeof a));
}

dhow_status dhow_stack(dhow_stream *stream, dhow_tensor *const *tensors, uint32_t count,
                       int32_t dim, dhow_tensor *y) {
    static const char function[] = "dhow_stack";
    DHOWI_TRY(dhowi_tensor_check_write(y, function, "y"));
    DHOWI_TRY(dhowi_dim_check(function, y->rank, dim, &dim));
    if (tensors == NULL || count == 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: there are no tensors", function);
    if (stream != NULL) DHOWI_TRY(dhowi_handle_check(stream, DHOWI_STREAM, function, "stream"));
    DHOWI_TRY(check_layers(function, tensors, count, dim, y));
    begin_anew(y);
    for (uint32_t i = 0; i < count; i++) {
        dhow_tensor *place;
        DHOWI_TRY(dhow_tensor_select(y, dim, i, &place));
        dhow_status status = dhow_copy_async(stream, tensors[i], place, 0);
        dhow_tensor_release(place);
        DHOWI_TRY(status);
    }
    return DHOW_OK;
}
