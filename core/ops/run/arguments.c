/* SPDX-License-Identifier: Apache-2.0
 *
 * What run() functions share: kernels, and tensors as kernels see them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "ops/run/op.h"

void dhowi_desc_of(const dhow_tensor *t, dhowi_tensor_desc *desc) {
    desc->dtype = t->dtype;
    desc->rank = t->rank;
    desc->encoding = 0;
    memcpy(desc->shape, t->shape, sizeof desc->shape);
}

/* Extents that a model leaves open are question marks. */
const char *dhowi_desc_text(const dhowi_tensor_desc *desc, char *buffer, size_t capacity) {
    dhowi_text text = {buffer, capacity, 0};
    dhowi_text_add(&text, "%s[", desc->dtype != 0 ? dhow_dtype_name(desc->dtype) : "?");
    for (int32_t i = 0; i < desc->rank; i++) {
        if (i > 0) dhowi_text_add(&text, ", ");
        if (desc->shape[i] < 0) dhowi_text_add(&text, "?");
        if (desc->shape[i] >= 0) dhowi_text_add(&text, "%" PRId64, desc->shape[i]);
    }
    dhowi_text_add(&text, desc->rank < 0 ? "?]" : "]");
    return buffer;
}

int64_t dhowi_span_of(const dhow_tensor *t) {
    int64_t last = 0;
    for (int32_t i = 0; i < t->rank; i++) last += (t->shape[i] - 1) * t->strides[i];
    return last + 1;
}

void dhowi_dims_of(int32_t rank, const int64_t *shape, dhow_tensor *const *operands, uint32_t count,
                   dhow_dims *dims) {
    memset(dims, 0, sizeof *dims);
    int64_t n = 0;
    for (int32_t i = 0; i < rank; i++) {
        if (shape[i] == 1) continue;
        int64_t stride[3] = {0};
        bool joins = n > 0;
        for (uint32_t k = 0; k < count; k++) {
            int32_t own = i - (rank - operands[k]->rank);
            bool moves = own >= 0 && operands[k]->shape[own] != 1;
            stride[k] = moves ? operands[k]->strides[own] : 0;
            joins = joins && dims->stride[k][n - 1] == stride[k] * shape[i];
        }
        int64_t at = joins ? n - 1 : n++;
        dims->shape[at] = joins ? dims->shape[at] * shape[i] : shape[i];
        for (uint32_t k = 0; k < count; k++) dims->stride[k][at] = stride[k];
    }
    if (n == 0) { /* a single element */
        dims->shape[0] = 1;
        n = 1;
    }
    dims->rank = n;
}

dhow_status dhowi_kernel_of(dhow_device *device, const char *base, dhow_dtype dtype,
                            dhow_kernel **out) {
    char name[64];
    (void)snprintf(name, sizeof name, "%s_%s", base, dhow_dtype_name(dtype));
    return dhowi_builtin_kernel_named(device, name, out);
}

dhow_status dhowi_op_kernel(const dhowi_op *op, dhow_dtype dtype, dhow_device *device,
                            dhow_kernel **out) {
    int32_t index = atomic_load_explicit(&op->kernel_index[dtype], memory_order_relaxed);
    if (index == 0) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s_%s", op->kernel, dhow_dtype_name(dtype));
        index = dhowi_builtin_index(name) + 1;
        if (index == 0) {
            return dhowi_fail(DHOW_UNSUPPORTED, "%s: there is no kernel %s", op->name, name);
        }
        atomic_store_explicit(&op->kernel_index[dtype], index, memory_order_relaxed);
    }
    return dhowi_builtin_kernel(device, index - 1, out);
}

dhow_status dhowi_op_supported(const dhowi_op *op, dhow_dtype dtype, dhow_device *device) {
    if (op->kernel == NULL) return DHOW_OK;
    dhow_kernel *kernel;
    void *native;
    dhow_status status = DHOW_OK;
    /* Integers need nothing of a device but the kernel. */
    bool is_float = (DHOWI_FLOATS & DHOW_DTYPE_BIT(dtype)) != 0;
    if (is_float && (device->desc.dtypes & DHOW_DTYPE_BIT(dtype)) == 0) {
        status =
            dhowi_fail(DHOW_UNSUPPORTED, "the device does not compute %s", dhow_dtype_name(dtype));
    }
    if (status == DHOW_OK) status = dhowi_op_kernel(op, dtype, device, &kernel);
    if (status == DHOW_OK)
        status = dhowi_kernel_native(kernel, dhowi_index_width(device, 0), &native);
    if (status == DHOW_OK) return DHOW_OK;
    return dhowi_fail_prefix(status, "%s of %s on %s", op->name, dhow_dtype_name(dtype),
                             device->name);
}

dhow_status dhowi_op_infer(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                           const dhowi_attrs *attrs, dhowi_tensor_desc *out) {
    if ((op->dtypes & DHOW_DTYPE_BIT(in[0]->dtype)) == 0) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s is %s, which it does not take", op->name,
                          op->inputs[0], dhow_dtype_name(in[0]->dtype));
    }
    out->encoding = 0; /* which few operators look at */
    return op->infer(op, in, attrs, out);
}
