/* SPDX-License-Identifier: Apache-2.0
 *
 * Other libraries' tensors for dhow, see dhow/dlpack.h.
 */
#include <inttypes.h>

#include "dlpack/types.h"

static void end_versioned(void *managed) {
    DLManagedTensorVersioned *m = managed;
    if (m->deleter != NULL) m->deleter(m);
}

static void end_unversioned(void *managed) {
    DLManagedTensor *m = managed;
    if (m->deleter != NULL) m->deleter(m);
}

/* What the producer has made the default stream wait for comes first: as if that stream had
 * written the tensor. */
static dhow_status follow_default_stream(dhow_tensor *tensor) {
    dhow_device *device = dhowi_tensor_device(tensor);
    dhowi_use use = {tensor->storage, DHOW_ACCESS_READ | DHOW_ACCESS_WRITE};
    dhow_stream *stream;
    if (dhowi_device_is_host(device)) return DHOW_OK;
    DHOWI_TRY(dhowi_stream_default(device, &stream));
    DHOWI_TRY(dhowi_stream_begin(stream, &use, 1));
    return dhowi_stream_end(stream, &use, 1, DHOW_OK);
}

static dhow_status check_form(const char *function, const DLTensor *t) {
    if (t->ndim < 0 || t->ndim > DHOW_MAX_RANK) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: ndim is %d; 0 to %d is allowed", function,
                          t->ndim, DHOW_MAX_RANK);
    }
    if (t->ndim > 0 && t->shape == NULL)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: shape is NULL", function);
    return DHOW_OK;
}

/* `end` is called with `managed` when the tensor's storage ends; the caller's release is set last,
 * so that nothing is called when this fails. */
static dhow_status import_tensor(const char *function, dhow_context *context, const DLTensor *t,
                                 uint64_t flags, void (*end)(void *managed), void *managed,
                                 dhow_tensor **out) {
    dhow_device *device;
    dhowi_wrapped_memory f = {.rank = t->ndim,
                              .shape = t->shape,
                              .strides = t->strides,
                              .native = (uint64_t)(uintptr_t)t->data,
                              .offset_bytes = t->byte_offset,
                              .bytes = UINT64_MAX, /* DLPack does not tell */
                              .frozen = (flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0};
    DHOWI_TRY(check_form(function, t));
    DHOWI_TRY(dhowi_dlpack_dtype_of(function, t->dtype, &f.dtype));
    DHOWI_TRY(dhowi_dlpack_device_of(function, context, t->device, &device, &f.pinned_by));
    if (t->device.device_type != kDLOpenCL && t->data != NULL) { /* an address */
        if (__builtin_add_overflow(f.native, f.offset_bytes, &f.native)) {
            return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: byte_offset is %" PRIu64, function,
                              t->byte_offset);
        }
        f.offset_bytes = 0;
    }
    DHOWI_TRY(dhowi_tensor_wrap(function, device, &f, out));
    dhow_status status = follow_default_stream(*out);
    if (status != DHOW_OK) {
        dhowi_saved_error failure;
        dhowi_error_save(&failure, status);
        dhow_tensor_release(*out);
        *out = NULL;
        return dhowi_error_raise(&failure);
    }
    (*out)->storage->user = managed;
    (*out)->storage->release = end;
    return DHOW_OK;
}

dhow_status dhow_tensor_from_dlpack(dhow_context *context, DLManagedTensorVersioned *managed,
                                    dhow_tensor **out) {
    static const char function[] = "dhow_tensor_from_dlpack";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, function, "context"));
    if (managed == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: managed is NULL", function);
    if (managed->version.major != DLPACK_MAJOR_VERSION) {
        return dhowi_fail(DHOW_INCOMPATIBLE,
                          "%s: DLPack %u.%u, dhow reads 1.x; ask the producer for "
                          "max_version=(1, 1)",
                          function, managed->version.major, managed->version.minor);
    }
    return import_tensor(function, context, &managed->dl_tensor, managed->flags, end_versioned,
                         managed, out);
}

dhow_status dhow_tensor_from_dlpack_unversioned(dhow_context *context, DLManagedTensor *managed,
                                                dhow_tensor **out) {
    static const char function[] = "dhow_tensor_from_dlpack_unversioned";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, function, "context"));
    if (managed == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: managed is NULL", function);
    return import_tensor(function, context, &managed->dl_tensor, 0, end_unversioned, managed, out);
}
