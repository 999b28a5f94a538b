/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of parameters: read from the file when they are first needed, and moved to the
 * model's device.
 */
#include <math.h>

#include "base/text/text.h"
#include "kernel/optimise.h"
#include "model/graph/model.h"

/* Without its values. */
static dhow_status make_tensor(dhow_model *m, dhowi_value *v) {
    dhow_tensor *made;
    const dhow_status there = dhowi_onnx_tensor_find(m->file, v->source, v->written);
    if (there != DHOW_OK) return dhowi_fail_prefix(there, "%s", m->name);
    DHOWI_TRY(dhowi_tensor_new(m->context->cpu, v->desc.dtype, v->desc.rank, v->desc.shape, &made));
    (void)dhowi_copy_text(made->storage->label, sizeof made->storage->label,
                          v->name != NULL ? v->name : "");
    dhowi_storage_expect(made->storage);
    v->tensor = made;
    if (v->source->external) m->external_bytes += dhowi_tensor_bytes(made);
    return DHOW_OK;
}

static dhow_status read_values(dhow_model *m, dhowi_value *v) {
    dhowi_storage *storage = v->tensor->storage;
    void *data;
    dhowi_storage_written(storage);
    dhow_status status = dhow_tensor_host_ptr(v->tensor, &data);
    if (status == DHOW_OK) status = dhowi_onnx_tensor_read(m->file, v->source, v->written, data);
    if (status == DHOW_OK) {
        atomic_store_explicit(&storage->frozen, true, memory_order_relaxed);
        return DHOW_OK;
    }
    dhowi_storage_expect(storage);
    return dhowi_fail_prefix(status, "%s", m->name);
}

static bool is_read_again(const dhowi_value *v) {
    dhow_dtype dtype;
    int64_t count;
    uint64_t bytes;
    return v->source != NULL &&
           dhowi_onnx_tensor_check(v->source, &dtype, &count, &bytes) == DHOW_OK &&
           bytes >= dhowi_least_shed;
}

dhow_status dhowi_model_tensor_later(dhow_model *m, dhowi_value *v, dhow_tensor **out,
                                     bool *later) {
    *out = NULL;
    *later = is_read_again(v);
    if (!*later) return dhowi_model_tensor(m, v, out);
    if (v->tensor == NULL) DHOWI_TRY(make_tensor(m, v));
    *out = v->tensor;
    return DHOW_OK;
}

dhow_status dhowi_model_read(dhow_model *m, dhowi_value *v) {
    return dhowi_storage_is_missing(v->tensor->storage) ? read_values(m, v) : DHOW_OK;
}

dhow_status dhowi_model_tensor(dhow_model *m, dhowi_value *v, dhow_tensor **out) {
    *out = NULL;
    if (v->tensor == NULL) DHOWI_TRY(make_tensor(m, v));
    DHOWI_TRY(dhowi_model_read(m, v));
    dhowi_storage_lend(v->tensor->storage);
    *out = v->tensor;
    return DHOW_OK;
}

/* What the copies have made each for themselves is not shared. */
dhow_tensor *dhowi_model_source(const dhow_model *m, const dhowi_value *v, dhow_tensor *host) {
    if (m->near == NULL) return host;
    const dhowi_value *there = &m->near->values[v - m->values];
    if (there->tensor == host && there->resident != NULL) return there->resident;
    return there->half == host && there->half_resident != NULL ? there->half_resident : host;
}

/* Where its copy to a device has ended, nobody needs the host's. */
void dhowi_model_end_move(dhow_model *m) {
    if (m->moving == 0) return;
    const dhowi_value *v = &m->values[m->moving - 1];
    m->moving = 0;
    if (v->tensor != NULL && is_read_again(v) &&
        dhowi_hazard_wait(&v->tensor->storage->hazard, DHOW_ACCESS_WRITE) == DHOW_OK)
        dhowi_storage_shed(v->tensor->storage);
}

void dhowi_model_moved(dhow_model *m, const dhowi_value *v) {
    dhowi_model_end_move(m);
    if (is_read_again(v) && dhowi_optimises(DHOWI_OPTIMISE_SHEDDING))
        m->moving = (uint32_t)(v - m->values) + 1;
}

/* One parameter is read while the one before is on its way. */
static dhow_status move(dhow_model *m, dhowi_value *v) {
    dhow_tensor *host;
    bool later;
    DHOWI_TRY(dhowi_model_tensor_later(m, v, &host, &later));
    dhow_tensor *source = dhowi_model_source(m, v, host);
    if (source == host) DHOWI_TRY(dhowi_model_read(m, v));
    const dhow_status status = dhow_tensor_to(source, m->device, &v->resident);
    if (status != DHOW_OK)
        return dhowi_fail_prefix(status, "parameter '%.64s'", v->name != NULL ? v->name : "");
    atomic_store_explicit(&v->resident->storage->frozen, true, memory_order_relaxed);
    dhowi_model_moved(m, v);
    return DHOW_OK;
}

dhow_status dhowi_model_resident(dhow_model *m, dhowi_value *v, dhow_tensor **out) {
    *out = NULL;
    if (m->device == m->context->cpu) return dhowi_model_tensor(m, v, out);
    if (v->resident == NULL) DHOWI_TRY(move(m, v));
    *out = v->resident;
    return DHOW_OK;
}

/* ---- as 16-bit floats ---- */

static dhow_status find_range(dhow_tensor *t, float *largest, bool *nonzero) {
    void *data;
    DHOWI_TRY(dhow_tensor_host_ptr(t, &data));
    const float *x = data;
    for (int64_t i = 0; i < t->count; i++) {
        const float size = fabsf(x[i]);
        *nonzero = *nonzero || size != 0;
        if (isfinite(size) && size > *largest) *largest = size;
    }
    return DHOW_OK;
}

/* A view without repetitions: a constant of a huge shape may be a single number. */
static dhow_status once_of(dhow_tensor *t, dhow_tensor **out) {
    int64_t shape[DHOW_MAX_RANK];
    for (int32_t i = 0; i < t->rank; i++)
        shape[i] = t->strides[i] == 0 && t->shape[i] > 1 ? 1 : t->shape[i];
    return dhowi_tensor_view(t->storage, t->dtype, t->rank, shape, t->strides, t->offset, out);
}

/* The same elements one after another. */
static dhow_status dense_of(dhow_tensor *t, dhow_tensor **out) {
    dhow_tensor *once;
    DHOWI_TRY(once_of(t, &once));
    if (once->contiguous) {
        *out = once;
        return DHOW_OK;
    }
    dhow_status status =
        dhowi_tensor_new(dhowi_tensor_device(t), t->dtype, t->rank, once->shape, out);
    if (status == DHOW_OK && once->count > 0) {
        status = dhow_copy(once, *out);
        if (status != DHOW_OK) dhow_tensor_release(*out);
    }
    dhow_tensor_release(once);
    return status;
}

dhow_status dhowi_fits_half(dhow_tensor *t, dhow_dtype half, bool added, bool *fits) {
    const float most = half == DHOW_F16 ? 65504.0f : 0x1.fep127f;
    const float least = half == DHOW_F16 ? 0x1p-14f : 0x1p-126f; /* the smallest normal ones */
    dhow_tensor *dense;
    float largest = 0;
    bool nonzero = false;
    DHOWI_TRY(dense_of(t, &dense));
    dhow_status status = find_range(dense, &largest, &nonzero);
    dhow_tensor_release(dense);
    *fits = largest <= most && (added || !nonzero || largest == 0 || largest >= least);
    return status;
}

/* In the shape of t, with its repetitions. */
static dhow_status cast_of(dhow_tensor *t, dhow_dtype half, dhow_tensor **out) {
    dhow_tensor *once, *made;
    int64_t strides[DHOW_MAX_RANK];
    DHOWI_TRY(once_of(t, &once));
    dhow_status status =
        dhowi_tensor_new(dhowi_tensor_device(t), half, t->rank, once->shape, &made);
    if (status == DHOW_OK) {
        if (t->count > 0) status = dhow_cast(NULL, once, made);
        for (int32_t i = 0; i < t->rank; i++)
            strides[i] = once->shape[i] == t->shape[i] ? made->strides[i] : 0;
        if (status == DHOW_OK)
            status = dhowi_tensor_view(made->storage, half, t->rank, t->shape, strides, 0, out);
        dhow_tensor_release(made);
    }
    dhow_tensor_release(once);
    return status;
}

dhow_status dhowi_model_half(dhow_model *m, dhowi_value *v, dhow_tensor **out) {
    const dhow_dtype half = dhowi_model_half_type(m);
    dhow_tensor *host, *made;
    bool fits;
    *out = v->half;
    if (v->half_tried) return DHOW_OK;
    DHOWI_TRY(dhowi_model_tensor(m, v, &host));
    DHOWI_TRY(dhowi_fits_half(host, half, false, &fits));
    if (fits) {
        dhow_status status = cast_of(host, half, &made);
        if (status != DHOW_OK)
            return dhowi_fail_prefix(status, "parameter '%.64s'", v->name != NULL ? v->name : "");
        atomic_store_explicit(&made->storage->frozen, true, memory_order_relaxed);
        (void)dhowi_copy_text(made->storage->label, sizeof made->storage->label,
                              v->name != NULL ? v->name : "");
        *out = v->half = made;
    }
    v->half_tried = true;
    return DHOW_OK;
}

dhow_status dhowi_model_wide(dhow_model *m, dhowi_value *v, dhow_tensor **out, bool *later) {
    dhow_tensor *host;
    DHOWI_TRY(dhowi_model_tensor_later(m, v, &host, later));
    if (v->half == NULL) {
        const dhow_status status =
            *later ? dhowi_tensor_new(m->context->cpu, DHOW_F32, host->rank, host->shape, &v->half)
                   : cast_of(host, DHOW_F32, &v->half);
        if (status != DHOW_OK)
            return dhowi_fail_prefix(status, "parameter '%.64s'", v->name != NULL ? v->name : "");
        if (*later) dhowi_storage_expect(v->half->storage);
        atomic_store_explicit(&v->half->storage->frozen, !*later, memory_order_relaxed);
        (void)dhowi_copy_text(v->half->storage->label, sizeof v->half->storage->label,
                              v->name != NULL ? v->name : "");
    }
    *out = v->half;
    return DHOW_OK;
}

dhow_status dhowi_model_half_resident(dhow_model *m, dhowi_value *v, dhow_tensor **out) {
    *out = v->half;
    if (m->device == m->context->cpu) return DHOW_OK;
    if (v->half_resident == NULL) {
        dhow_status status =
            dhow_tensor_to(dhowi_model_source(m, v, v->half), m->device, &v->half_resident);
        if (status != DHOW_OK)
            return dhowi_fail_prefix(status, "parameter '%.64s'", v->name != NULL ? v->name : "");
        atomic_store_explicit(&v->half_resident->storage->frozen, true, memory_order_relaxed);
    }
    *out = v->half_resident;
    return DHOW_OK;
}

void dhowi_value_drop_half(dhowi_value *v) {
    dhow_tensor_release(v->half);
    dhow_tensor_release(v->half_resident);
    v->half = v->half_resident = NULL;
    v->half_tried = false;
}

void dhowi_model_drop_halves(dhow_model *m) {
    for (uint32_t i = 0; i < m->value_count; i++) dhowi_value_drop_half(&m->values[i]);
}
