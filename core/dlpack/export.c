/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors of dhow for other libraries, see dhow/dlpack.h.
 */
#include <string.h>

#include "base/memory/alloc.h"
#include "dlpack/types.h"
#include "memory/native.h"

/* What a managed tensor's manager_ctx is: it lies in it, with the tensor that it keeps alive. */
typedef struct exported {
    union {
        DLManagedTensorVersioned versioned;
        DLManagedTensor unversioned;
    } managed;
    dhow_tensor *tensor; /* retained */
    int64_t shape[DHOW_MAX_RANK], strides[DHOW_MAX_RANK];
} exported;

static void drop(exported *e) {
    DHOWI_KEEP_ERROR;
    dhow_tensor_release(e->tensor);
    dhowi_free(e);
}
static void drop_versioned(DLManagedTensorVersioned *self) { drop(self->manager_ctx); }
static void drop_unversioned(DLManagedTensor *self) { drop(self->manager_ctx); }

static bool is_read_only(const dhow_tensor *t) {
    return t->overlapping || atomic_load(&t->storage->frozen);
}

/* ---- waiting ---- */

static uint32_t access_of(const dhow_tensor *t) {
    return is_read_only(t) ? DHOW_ACCESS_READ : DHOW_ACCESS_READ | DHOW_ACCESS_WRITE;
}

/* Makes the consumer's queue wait on the device for what dhow still does with the storage. */
static dhow_status order_before(dhow_tensor *t, void *stream) {
    dhowi_timepoint pending[DHOWI_MAX_PENDING];
    dhow_stream *consumer;
    DHOWI_TRY(
        dhowi_stream_wrap(dhowi_tensor_device(t), (uint64_t)(uintptr_t)stream, true, &consumer));
    dhowi_hazard *hazard = &t->storage->hazard;
    uint32_t count = dhowi_hazard_pending(hazard, access_of(t), NULL, pending);
    dhow_status status = DHOW_OK;
    for (uint32_t i = 0; i < count && status == DHOW_OK; i++) {
        status = dhowi_stream_wait_timepoint(consumer, pending[i]);
        if (status == DHOW_DEVICE_LOST &&
            !dhowi_hazard_needs(hazard, access_of(t), NULL, pending[i]))
            status = DHOW_OK;
    }
    dhow_stream_release(consumer);
    return status == DHOW_OK ? dhowi_storage_readable(t->storage, false) : status;
}

static dhow_status wait_here(dhow_tensor *t) {
    DHOWI_TRY(dhowi_hazard_wait(&t->storage->hazard, access_of(t)));
    return dhowi_storage_readable(t->storage, true);
}

static dhow_status order(const char *function, dhow_tensor *t, void *stream) {
    if (stream == DHOW_DLPACK_NO_SYNC) return DHOW_OK;
    if (stream == NULL) return wait_here(t);
    if (t->storage->host != NULL) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: a stream for a tensor in host memory, which has none; give NULL",
                          function);
    }
    return order_before(t, stream);
}

/* ---- describing ---- */

static dhow_status describe(const char *function, exported *e, DLTensor *out) {
    const dhow_tensor *t = e->tensor;
    const uint64_t offset = dhowi_tensor_offset_bytes(t);
    DHOWI_TRY(dhowi_dlpack_device(function, t, &out->device));
    memcpy(e->shape, t->shape, sizeof e->shape);
    memcpy(e->strides, t->strides, sizeof e->strides);
    out->ndim = t->rank;
    out->dtype = dhowi_dlpack_dtype(t->dtype);
    out->shape = e->shape;
    out->strides = e->strides;
    out->byte_offset = 0;
    out->data = NULL; /* of no elements */
    if (t->count == 0) return DHOW_OK;
    const uint64_t native = dhowi_storage_native(t->storage);
    const bool is_address = out->device.device_type != kDLOpenCL;
    if (!is_address) out->byte_offset = offset;
    out->data = (void *)(uintptr_t)(is_address ? native + offset : native);
    return DHOW_OK;
}

/* All but the struct's own head. */
static dhow_status export_tensor(const char *function, dhow_tensor *tensor, void *stream,
                                 DLTensor *(*place)(exported *e), exported **out) {
    *out = NULL;
    DHOWI_TRY(dhowi_tensor_check_read(tensor, function, "tensor"));
    DHOWI_TRY(dhowi_device_usable(dhowi_tensor_device(tensor)));
    exported *e = dhowi_alloc(sizeof *e);
    if (e == NULL) return dhowi_fail_memory("DLPack tensor");
    e->tensor = tensor;
    dhow_status status = describe(function, e, place(e));
    if (status == DHOW_OK) status = order(function, tensor, stream);
    if (status != DHOW_OK) {
        dhowi_free(e);
        return status;
    }
    dhowi_handle_retain(&tensor->handle);
    *out = e;
    return DHOW_OK;
}

static DLTensor *in_versioned(exported *e) { return &e->managed.versioned.dl_tensor; }
static DLTensor *in_unversioned(exported *e) { return &e->managed.unversioned.dl_tensor; }

dhow_status dhow_tensor_to_dlpack(dhow_tensor *tensor, void *stream,
                                  DLManagedTensorVersioned **out) {
    static const char function[] = "dhow_tensor_to_dlpack";
    exported *e;
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(export_tensor(function, tensor, stream, in_versioned, &e));
    DLManagedTensorVersioned *m = &e->managed.versioned;
    m->version = (DLPackVersion){DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    m->manager_ctx = e;
    m->deleter = drop_versioned;
    m->flags = is_read_only(tensor) ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
    *out = m;
    return DHOW_OK;
}

dhow_status dhow_tensor_to_dlpack_unversioned(dhow_tensor *tensor, void *stream,
                                              DLManagedTensor **out) {
    static const char function[] = "dhow_tensor_to_dlpack_unversioned";
    exported *e;
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_tensor_check(tensor, function, "tensor"));
    if (is_read_only(tensor)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: the tensor is %s, and a DLManagedTensor cannot say that it must not "
                          "be written; use dhow_tensor_to_dlpack()",
                          function, tensor->overlapping ? "an expanded view" : "frozen");
    }
    DHOWI_TRY(export_tensor(function, tensor, stream, in_unversioned, &e));
    DLManagedTensor *m = &e->managed.unversioned;
    m->manager_ctx = e;
    m->deleter = drop_unversioned;
    *out = m;
    return DHOW_OK;
}
