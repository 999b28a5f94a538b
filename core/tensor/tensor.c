/* SPDX-License-Identifier: Apache-2.0
 *
 * Making and looking at tensors, see dhow/tensor.h.
 */
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/size.h"
#include "base/objects/struct_size.h"
#include "base/text/text.h"
#include "memory/native.h"

/* ---- making ---- */

/* Takes over a reference to the storage; without memory for the tensor the caller keeps it. */
static dhow_status make_view(dhowi_storage *storage, dhow_dtype dtype, int32_t rank,
                             const int64_t *shape, const int64_t *strides, int64_t offset,
                             dhow_tensor **out) {
    dhow_tensor *t = dhowi_handle_new(DHOWI_TENSOR, sizeof *t);
    if (t == NULL) return dhowi_fail_memory("tensor");
    t->storage = storage;
    t->dtype = dtype;
    t->rank = rank;
    t->offset = offset;
    t->count = 1;
    for (int32_t i = 0; i < rank; i++) {
        t->shape[i] = shape[i];
        t->strides[i] = strides[i];
        t->count *= shape[i];
        t->overlapping |= shape[i] > 1 && strides[i] == 0;
    }
    t->contiguous = true;
    int64_t packed = 1;
    for (int32_t i = rank; i-- > 0;) {
        if (shape[i] != 1 && strides[i] != packed) t->contiguous = false;
        packed *= shape[i];
    }
    if (t->count <= 1) t->contiguous = true;
    *out = t;
    return DHOW_OK;
}

dhow_status dhowi_tensor_view(dhowi_storage *storage, dhow_dtype dtype, int32_t rank,
                              const int64_t *shape, const int64_t *strides, int64_t offset,
                              dhow_tensor **out) {
    DHOWI_TRY(make_view(storage, dtype, rank, shape, strides, offset, out));
    dhowi_storage_retain(storage);
    return DHOW_OK;
}

/* A row-major tensor over a storage whose reference it takes over, or releases. */
static dhow_status over_storage(dhowi_storage *storage, dhow_dtype dtype, int32_t rank,
                                const int64_t *shape, dhow_tensor **out) {
    int64_t strides[DHOW_MAX_RANK];
    dhowi_shape_strides(rank, shape, strides);
    dhow_status status = make_view(storage, dtype, rank, shape, strides, 0, out);
    if (status != DHOW_OK) dhowi_storage_release(storage);
    return status;
}

dhow_status dhowi_tensor_new(dhow_device *device, dhow_dtype dtype, int32_t rank,
                             const int64_t *shape, dhow_tensor **out) {
    int64_t count = 1;
    for (int32_t i = 0; i < rank; i++) count *= shape[i];
    dhowi_storage *storage;
    *out = NULL;
    DHOWI_TRY(dhowi_storage_create(device, (uint64_t)count * dhow_dtype_bytes(dtype), &storage));
    return over_storage(storage, dtype, rank, shape, out);
}

dhow_status dhow_tensor_create(dhow_device *device, dhow_dtype dtype, int32_t rank,
                               const int64_t *shape, dhow_tensor **out) {
    static const char function[] = "dhow_tensor_create";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    int64_t count;
    uint64_t bytes;
    DHOWI_TRY(dhowi_device_check(device, function));
    DHOWI_TRY(dhowi_shape_check(function, dtype, rank, shape, &count, &bytes));
    return dhowi_tensor_new(device, dtype, rank, shape, out);
}

dhow_status dhow_tensor_create_pinned(dhow_device *device, dhow_dtype dtype, int32_t rank,
                                      const int64_t *shape, dhow_tensor **out) {
    static const char function[] = "dhow_tensor_create_pinned";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    int64_t count;
    uint64_t bytes;
    dhowi_storage *storage;
    DHOWI_TRY(dhowi_device_check(device, function));
    DHOWI_TRY(dhowi_shape_check(function, dtype, rank, shape, &count, &bytes));
    DHOWI_TRY(dhowi_storage_create_pinned(device, bytes, &storage));
    return over_storage(storage, dtype, rank, shape, out);
}

dhow_status dhow_tensor_wrap(dhow_context *context, dhow_dtype dtype, int32_t rank,
                             const int64_t *shape, void *data, void (*release)(void *user),
                             void *user, dhow_tensor **out) {
    static const char function[] = "dhow_tensor_wrap";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    int64_t count;
    uint64_t bytes;
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, function, "context"));
    DHOWI_TRY(dhowi_shape_check(function, dtype, rank, shape, &count, &bytes));
    if (data == NULL && count > 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: data is NULL", function);
    if ((uintptr_t)data % dhow_dtype_bytes(dtype) != 0) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: data is not aligned to %u bytes, %s needs that", function,
                          dhow_dtype_bytes(dtype), dhow_dtype_name(dtype));
    }
    dhowi_storage *storage;
    /* The caller keeps the memory when anything fails: release is set last. */
    DHOWI_TRY(dhowi_storage_wrap(context, data, bytes, NULL, user, &storage));
    DHOWI_TRY(over_storage(storage, dtype, rank, shape, out));
    (*out)->storage->release = release;
    return DHOW_OK;
}

dhow_status dhow_tensor_pin(dhow_tensor *tensor, dhow_device *device) {
    static const char function[] = "dhow_tensor_pin";
    DHOWI_TRY(dhowi_tensor_check(tensor, function, "tensor"));
    DHOWI_TRY(dhowi_device_check(device, function));
    char text[192];
    if (tensor->storage->host == NULL) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the tensor is %s, not in host memory",
                          function, dhowi_tensor_text(tensor, text, sizeof text));
    }
    if (tensor->storage->device->context != device->context) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: the tensor and the device belong to different contexts", function);
    }
    DHOWI_TRY(dhowi_device_usable(device));
    return dhowi_storage_pin(tensor->storage, device);
}

dhow_status dhow_tensor_retain(dhow_tensor *tensor) {
    DHOWI_TRY(dhowi_tensor_check(tensor, "dhow_tensor_retain", "tensor"));
    dhowi_handle_retain(&tensor->handle);
    return DHOW_OK;
}

void dhow_tensor_release(dhow_tensor *tensor) {
    if (!dhowi_handle_is(tensor, DHOWI_TENSOR) || !dhowi_handle_drop(&tensor->handle)) return;
    dhowi_storage *storage = tensor->storage;
    dhowi_handle_free(DHOWI_TENSOR, tensor);
    dhowi_storage_release(storage);
}

dhow_status dhow_tensor_set_label(dhow_tensor *tensor, const char *label) {
    DHOWI_TRY(dhowi_tensor_check(tensor, "dhow_tensor_set_label", "tensor"));
    if (label == NULL)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_tensor_set_label: label is NULL");
    (void)dhowi_copy_text(tensor->storage->label, sizeof tensor->storage->label, label);
    return DHOW_OK;
}

dhow_status dhow_tensor_freeze(dhow_tensor *tensor) {
    DHOWI_TRY(dhowi_tensor_check(tensor, "dhow_tensor_freeze", "tensor"));
    atomic_store(&tensor->storage->frozen, true);
    return DHOW_OK;
}

/* ---- checks ---- */

dhow_status dhowi_tensor_check_read(const dhow_tensor *tensor, const char *function,
                                    const char *name) {
    DHOWI_TRY(dhowi_tensor_check(tensor, function, name));
    if (atomic_load_explicit(&tensor->storage->exported, memory_order_relaxed)) {
        return dhowi_fail(
            DHOW_INVALID_ARGUMENT,
            "%s: %s is exported by dhow_tensor_native(); call dhow_tensor_native_done() first",
            function, name);
    }
    return DHOW_OK;
}

dhow_status dhowi_tensor_check_write(const dhow_tensor *tensor, const char *function,
                                     const char *name) {
    DHOWI_TRY(dhowi_tensor_check_read(tensor, function, name));
    if (atomic_load_explicit(&tensor->storage->frozen, memory_order_relaxed)) {
        return dhowi_fail(
            DHOW_INVALID_ARGUMENT,
            "%s: %s is frozen, its values must not change; write to a copy, and give it to "
            "a model with dhow_model_set_parameter()",
            function, name);
    }
    if (tensor->overlapping) {
        return dhowi_fail(
            DHOW_INVALID_ARGUMENT,
            "%s: %s is an expanded view, several indices share an element; write to a copy",
            function, name);
    }
    return DHOW_OK;
}

const char *dhowi_tensor_text(const dhow_tensor *tensor, char *buffer, size_t capacity) {
    char shape[128];
    (void)snprintf(buffer, capacity, "%s%s on %s", dhow_dtype_name(tensor->dtype),
                   dhowi_shape_text(tensor->rank, tensor->shape, shape, sizeof shape),
                   dhowi_tensor_device(tensor)->name);
    return buffer;
}

/* ---- looking ---- */

dhow_status dhow_tensor_get_info(const dhow_tensor *tensor, dhow_tensor_info *given) {
    dhow_tensor_info own, *out = &own;
    DHOWI_TRY(DHOWI_STRUCT_OUT(dhow_tensor_info, given, &own, "dhow_tensor_get_info"));
    DHOWI_TRY(dhowi_tensor_check(tensor, "dhow_tensor_get_info", "tensor"));
    out->device = dhowi_tensor_device(tensor);
    out->dtype = tensor->dtype;
    out->rank = tensor->rank;
    memcpy(out->shape, tensor->shape, sizeof out->shape);
    memcpy(out->strides, tensor->strides, sizeof out->strides);
    out->count = tensor->count;
    out->bytes = dhowi_tensor_bytes(tensor);
    out->contiguous = tensor->contiguous;
    out->pinned = tensor->storage->pinned_by != NULL;
    DHOWI_STRUCT_GIVE(given, out);
    return DHOW_OK;
}

dhow_device *dhow_tensor_device(const dhow_tensor *tensor) {
    return dhowi_handle_is(tensor, DHOWI_TENSOR) ? dhowi_tensor_device(tensor) : NULL;
}

int64_t dhow_tensor_count(const dhow_tensor *tensor) {
    return dhowi_handle_is(tensor, DHOWI_TENSOR) ? tensor->count : -1;
}

int64_t dhow_tensor_extent(const dhow_tensor *tensor, int32_t dim) {
    if (!dhowi_handle_is(tensor, DHOWI_TENSOR)) return -1;
    if (dim < 0) dim += tensor->rank;
    return dim >= 0 && dim < tensor->rank ? tensor->shape[dim] : -1;
}

dhow_status dhow_tensor_host_ptr(dhow_tensor *tensor, void **out) {
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_tensor_host_ptr: out is NULL");
    *out = NULL;
    DHOWI_TRY(dhowi_tensor_check(tensor, "dhow_tensor_host_ptr", "tensor"));
    if (tensor->storage->host == NULL) {
        return dhowi_fail(
            DHOW_INVALID_ARGUMENT,
            "dhow_tensor_host_ptr: the tensor is on %s, not in host memory; use dhow_tensor_read() "
            "or dhow_tensor_to()",
            dhowi_tensor_device(tensor)->name);
    }
    DHOWI_TRY(dhowi_device_usable(dhowi_tensor_device(tensor)));
    dhow_status there =
        dhowi_hazard_wait(&tensor->storage->hazard, DHOW_ACCESS_READ | DHOW_ACCESS_WRITE);
    if (there == DHOW_OK) there = dhowi_storage_readable(tensor->storage, true);
    dhowi_storage_written(tensor->storage); /* told once: the next pointer is for writing anew */
    if (there != DHOW_OK) return there;
    *out = (char *)tensor->storage->host + dhowi_tensor_offset_bytes(tensor);
    return DHOW_OK;
}

dhow_status dhow_tensor_native(dhow_tensor *tensor, uint64_t *out_handle, uint64_t *out_offset) {
    if (out_handle == NULL || out_offset == NULL) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_tensor_native: an output is NULL");
    }
    *out_handle = *out_offset = 0;
    DHOWI_TRY(dhowi_tensor_check(tensor, "dhow_tensor_native", "tensor"));
    DHOWI_TRY(dhowi_device_usable(dhowi_tensor_device(tensor)));
    DHOWI_TRY(dhowi_hazard_wait(&tensor->storage->hazard, DHOW_ACCESS_WRITE));
    atomic_store(&tensor->storage->exported, true);
    *out_handle = dhowi_storage_native(tensor->storage);
    *out_offset = dhowi_tensor_offset_bytes(tensor);
    return DHOW_OK;
}

dhow_status dhow_tensor_native_done(dhow_tensor *tensor, dhow_stream *stream) {
    static const char function[] = "dhow_tensor_native_done";
    DHOWI_TRY(dhowi_tensor_check(tensor, function, "tensor"));
    if (!atomic_load(&tensor->storage->exported)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the tensor is not exported", function);
    }
    if (stream != NULL) {
        dhowi_use use = {tensor->storage, DHOW_ACCESS_READ | DHOW_ACCESS_WRITE};
        DHOWI_TRY(dhowi_stream_resolve(stream, dhowi_tensor_device(tensor), function, &stream));
        DHOWI_TRY(dhowi_stream_begin(stream, &use, 1));
        DHOWI_TRY(dhowi_stream_end(stream, &use, 1, DHOW_OK));
    }
    atomic_store(&tensor->storage->exported, false);
    return DHOW_OK;
}
