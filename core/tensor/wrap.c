/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors over memory that a program made: on the host, or by a vendor's API.
 */
#include <inttypes.h>

#include "base/memory/size.h"
#include "memory/native.h"
#include "tensor/tensor.h"

/* Row-major strides where none are given. Strides of extents that have one index or none say
 * nothing, whatever they are. */
static dhow_status take_strides(const char *function, const dhowi_wrapped_memory *f, int64_t count,
                                int64_t *out) {
    dhowi_shape_strides(f->rank, f->shape, out);
    if (f->strides == NULL || count == 0) return DHOW_OK;
    for (int32_t i = 0; i < f->rank; i++) {
        if (f->shape[i] <= 1) continue;
        if (f->strides[i] < 0) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: stride %d is %" PRId64
                              "; dhow has no negative strides, make a contiguous copy first",
                              function, i, f->strides[i]);
        }
        out[i] = f->strides[i];
    }
    return DHOW_OK;
}

/* Elements from the first to the last and one more. From the smallest stride up, each has to step
 * over all that the smaller ones reach. */
static dhow_status reach_of(const char *function, const dhowi_wrapped_memory *f,
                            const int64_t *strides, int64_t count, int64_t *out) {
    bool done[DHOW_MAX_RANK] = {false};
    int64_t reach = count == 0 ? 0 : 1, span;
    for (int32_t step = 0; step < f->rank && count > 0; step++) {
        int32_t at = -1;
        for (int32_t i = 0; i < f->rank; i++)
            if (!done[i] && f->shape[i] > 1 && (at < 0 || strides[i] < strides[at])) at = i;
        if (at < 0) break;
        done[at] = true;
        if (strides[at] < reach) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: stride %d is %" PRId64
                              ": several indices overlap, that is share an element; make a "
                              "contiguous copy first",
                              function, at, strides[at]);
        }
        if (!dhowi_mul_i64(f->shape[at] - 1, strides[at], &span) ||
            !dhowi_add_i64(reach, span, &reach)) {
            return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: stride %d is %" PRId64 ", out of any memory",
                              function, at, strides[at]);
        }
    }
    *out = reach;
    return DHOW_OK;
}

static dhow_status check_place(const char *function, const dhowi_wrapped_memory *f, int64_t reach) {
    const uint32_t element = dhow_dtype_bytes(f->dtype);
    int64_t bytes;
    if (f->native == 0 && reach > 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the memory is NULL", function);
    if ((f->native % element != 0 || f->offset_bytes % element != 0) && reach > 0) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: address %#" PRIx64 " with offset %" PRIu64
                          " is not aligned to %u bytes, %s needs that",
                          function, f->native, f->offset_bytes, element, dhow_dtype_name(f->dtype));
    }
    if (!dhowi_mul_i64(reach, element, &bytes) || f->offset_bytes > f->bytes ||
        (uint64_t)bytes > f->bytes - f->offset_bytes) {
        return dhowi_fail(DHOW_OUT_OF_RANGE,
                          "%s: %" PRId64 " elements of %s at byte %" PRIu64
                          " do not fit into %" PRIu64 " bytes",
                          function, reach, dhow_dtype_name(f->dtype), f->offset_bytes, f->bytes);
    }
    return DHOW_OK;
}

/* The storage begins *out_before bytes before the memory. */
static dhow_status make_storage(const char *function, dhow_device *device,
                                const dhowi_wrapped_memory *f, uint64_t bytes, dhowi_storage **out,
                                uint64_t *out_before) {
    *out_before = 0;
    if (!dhowi_device_is_host(device))
        return dhowi_storage_wrap_native(device, function, f->native, bytes, out, out_before);
    DHOWI_TRY(
        dhowi_storage_wrap(device->context, (void *)(uintptr_t)f->native, bytes, NULL, NULL, out));
    (*out)->pinned_by = f->pinned_by;
    return DHOW_OK;
}

dhow_status dhowi_tensor_wrap(const char *function, dhow_device *device,
                              const dhowi_wrapped_memory *f, dhow_tensor **out) {
    int64_t count, reach = 0, strides[DHOW_MAX_RANK];
    uint64_t packed, before;
    dhowi_storage *storage;
    DHOWI_TRY(dhowi_shape_check(function, f->dtype, f->rank, f->shape, &count, &packed));
    DHOWI_TRY(take_strides(function, f, count, strides));
    DHOWI_TRY(reach_of(function, f, strides, count, &reach));
    DHOWI_TRY(check_place(function, f, reach));
    const uint64_t element = dhow_dtype_bytes(f->dtype), offset = reach > 0 ? f->offset_bytes : 0;
    DHOWI_TRY(
        make_storage(function, device, f, offset + (uint64_t)reach * element, &storage, &before));
    dhow_status status = dhowi_tensor_view(storage, f->dtype, f->rank, f->shape, strides,
                                           (int64_t)((before + offset) / element), out);
    if (status == DHOW_OK) {
        atomic_store(&storage->frozen, f->frozen);
        /* The caller keeps the memory when anything fails: release is set last. */
        storage->release = f->release;
        storage->user = f->user;
    }
    dhowi_storage_release(storage);
    return status;
}

dhow_status dhow_tensor_wrap_device(dhow_device *device, dhow_dtype dtype, int32_t rank,
                                    const int64_t *shape, const int64_t *strides, uint64_t native,
                                    uint64_t offset_bytes, uint64_t bytes,
                                    void (*release)(void *user), void *user, dhow_tensor **out) {
    static const char function[] = "dhow_tensor_wrap_device";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_device_check(device, function));
    return dhowi_tensor_wrap(function, device,
                             &(dhowi_wrapped_memory){.dtype = dtype,
                                                     .rank = rank,
                                                     .shape = shape,
                                                     .strides = strides,
                                                     .native = native,
                                                     .offset_bytes = offset_bytes,
                                                     .bytes = bytes,
                                                     .release = release,
                                                     .user = user},
                             out);
}
