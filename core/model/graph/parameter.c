/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of parameters: read from the file when they are first needed, and moved to the
 * model's device.
 */
#include "base/text/text.h"
#include "model/graph/model.h"

dhow_status dhowi_model_tensor(dhow_model *m, dhowi_value *v, dhow_tensor **out) {
    void *data;
    *out = v->tensor;
    if (v->tensor != NULL) return DHOW_OK;
    if (v->source != NULL && v->source->external) {
        dhow_status there = dhowi_onnx_tensor_find(m->file, v->source);
        if (there != DHOW_OK) return dhowi_fail_prefix(there, "%s", m->name);
    }
    DHOWI_TRY(dhowi_tensor_new(m->context->cpu, v->desc.dtype, v->desc.rank, v->desc.shape, out));
    dhow_status status = dhow_tensor_host_ptr(*out, &data);
    if (status == DHOW_OK) status = dhowi_onnx_tensor_read(m->file, v->source, data);
    if (status != DHOW_OK) {
        dhow_tensor_release(*out);
        *out = NULL;
        return dhowi_fail_prefix(status, "%s", m->name);
    }
    v->tensor = *out;
    if (v->source->external) m->external_bytes += dhowi_tensor_bytes(*out);
    atomic_store_explicit(&v->tensor->storage->frozen, true, memory_order_relaxed);
    (void)dhowi_copy_text(v->tensor->storage->label, sizeof v->tensor->storage->label,
                          v->name != NULL ? v->name : "");
    return DHOW_OK;
}

dhow_status dhowi_model_resident(dhow_model *m, dhowi_value *v, dhow_tensor **out) {
    dhow_tensor *host;
    DHOWI_TRY(dhowi_model_tensor(m, v, &host));
    *out = host;
    if (m->device == m->context->cpu) return DHOW_OK;
    if (v->resident == NULL) {
        dhow_status status = dhow_tensor_to(host, m->device, &v->resident);
        if (status != DHOW_OK)
            return dhowi_fail_prefix(status, "parameter '%.64s'", v->name != NULL ? v->name : "");
        atomic_store_explicit(&v->resident->storage->frozen, true, memory_order_relaxed);
    }
    *out = v->resident;
    return DHOW_OK;
}
