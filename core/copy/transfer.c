/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors from and to plain host memory, filled tensors and contiguous copies: small uses of the
 * copy engine.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/memory/size.h"
#include "copy/engine.h"

/* A CPU tensor over the caller's memory, for the time of a call. */
static dhow_status borrow(dhow_context *context, const dhow_tensor *like, const void *data,
                          dhow_tensor **out) {
    dhowi_storage *storage;
    int64_t strides[DHOW_MAX_RANK];
    dhowi_shape_strides(like->rank, like->shape, strides);
    DHOWI_TRY(dhowi_storage_wrap(context, (void *)(uintptr_t)data, dhowi_tensor_bytes(like), NULL,
                                 NULL, &storage));
    dhow_status status =
        dhowi_tensor_view(storage, like->dtype, like->rank, like->shape, strides, 0, out);
    dhowi_storage_release(storage);
    return status;
}

static dhow_status check_memory(const char *function, const dhow_tensor *tensor, const void *data,
                                uint64_t bytes) {
    char text[192];
    DHOWI_TRY(dhowi_tensor_check(tensor, function, "tensor"));
    if (bytes != dhowi_tensor_bytes(tensor)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s has %" PRIu64 " bytes, given %" PRIu64,
                          function, dhowi_tensor_text(tensor, text, sizeof text),
                          dhowi_tensor_bytes(tensor), bytes);
    }
    if (data == NULL && bytes > 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: data is NULL", function);
    return DHOW_OK;
}

dhow_status dhow_tensor_read(dhow_tensor *tensor, void *data, uint64_t bytes) {
    DHOWI_TRY(check_memory("dhow_tensor_read", tensor, data, bytes));
    dhow_tensor *host;
    DHOWI_TRY(borrow(dhowi_tensor_device(tensor)->context, tensor, data, &host));
    dhow_status status = dhow_copy(tensor, host);
    dhow_tensor_release(host);
    return status;
}

dhow_status dhow_tensor_write(dhow_tensor *tensor, const void *data, uint64_t bytes) {
    DHOWI_TRY(check_memory("dhow_tensor_write", tensor, data, bytes));
    dhow_tensor *host;
    DHOWI_TRY(borrow(dhowi_tensor_device(tensor)->context, tensor, data, &host));
    dhow_status status = dhow_copy(host, tensor);
    dhow_tensor_release(host);
    return status;
}

dhow_status dhow_tensor_from_data(dhow_device *device, dhow_dtype dtype, int32_t rank,
                                  const int64_t *shape, const void *data, dhow_tensor **out) {
    DHOWI_TRY(dhow_tensor_create(device, dtype, rank, shape, out));
    dhow_status status = dhow_tensor_write(*out, data, dhowi_tensor_bytes(*out));
    if (status == DHOW_OK) return DHOW_OK;
    dhow_tensor_release(*out);
    *out = NULL;
    return status;
}

static dhow_status new_filled(dhow_device *device, dhow_dtype dtype, int32_t rank,
                              const int64_t *shape, uint64_t bits, dhow_tensor **out) {
    DHOWI_TRY(dhow_tensor_create(device, dtype, rank, shape, out));
    dhow_stream *stream;
    dhow_status status = dhowi_stream_default(device, &stream);
    if (status == DHOW_OK) status = dhowi_fill_bits(stream, *out, bits);
    if (status == DHOW_OK) return DHOW_OK;
    dhow_tensor_release(*out);
    *out = NULL;
    return status;
}

dhow_status dhow_tensor_full(dhow_device *device, dhow_dtype dtype, int32_t rank,
                             const int64_t *shape, double value, dhow_tensor **out) {
    return new_filled(device, dtype, rank, shape, dhowi_dtype_encode(dtype, value), out);
}

dhow_status dhow_tensor_full_scalar(dhow_device *device, dhow_dtype dtype, int32_t rank,
                                    const int64_t *shape, dhow_scalar value, dhow_tensor **out) {
    static const char function[] = "dhow_tensor_full_scalar";
    int64_t count;
    uint64_t bytes, bits;
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_shape_check(function, dtype, rank, shape, &count, &bytes));
    DHOWI_TRY(dhowi_scalar_bits(function, dtype, value, &bits));
    return new_filled(device, dtype, rank, shape, bits, out);
}
