/* SPDX-License-Identifier: Apache-2.0
 *
 * See vendor.h.
 */
#include "ops/vendor.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "memory/record.h"
#include "ops/optimise.h"
#include "stream/span.h"

enum { BUCKETS = 64 };

typedef struct vendor {
    const dhow_blas *blas;
    const dhow_conv *conv;
    pthread_mutex_t mutex;
    dhowi_plan *plans[BUCKETS];
} vendor;

/* A table of another major has another name; one that is shorter than 1.0 breaks the rules. */
static const void *extension(dhow_device *device, const char *id, size_t bytes) {
    const void *table = device->api->get_extension(dhowi_device_native(device), id);
    if (table == NULL) return NULL;
    uint32_t size;
    memcpy(&size, table, sizeof size);
    if (size >= bytes) return table;
    dhowi_log_line(&device->context->log, DHOW_LOG_WARN,
                   "%s: the table %s has %u bytes, %zu are needed; not used", device->name, id,
                   size, bytes);
    return NULL;
}

static void *make_vendor(dhow_device *device) {
    vendor *v = dhowi_alloc(sizeof *v);
    if (v == NULL) {
        (void)dhowi_fail_memory("plans");
        return NULL;
    }
    pthread_mutex_init(&v->mutex, NULL);
    v->blas = extension(device, "dhow.blas/1", sizeof(dhow_blas));
    v->conv = extension(device, "dhow.conv/1", sizeof(dhow_conv));
    return v;
}

static void end_vendor(void *device, void *data) {
    (void)device;
    vendor *v = data;
    for (int b = 0; b < BUCKETS; b++) {
        while (v->plans[b] != NULL) {
            dhowi_plan *p = v->plans[b];
            v->plans[b] = p->next;
            if (p->native != NULL && p->conv) v->conv->destroy(p->native);
            if (p->native != NULL && !p->conv) v->blas->destroy(p->native);
            dhowi_free(p);
        }
    }
    pthread_mutex_destroy(&v->mutex);
    dhowi_free(v);
}

static vendor *vendor_of(dhow_device *device) {
    return dhowi_device_attach(device, DHOWI_ATTACH_VENDOR, make_vendor, end_vendor);
}

const dhow_blas *dhowi_blas_of(dhow_device *device) {
    const vendor *v = vendor_of(device);
    return v != NULL ? v->blas : NULL;
}
const dhow_conv *dhowi_conv_of(dhow_device *device) {
    const vendor *v = vendor_of(device);
    return v != NULL ? v->conv : NULL;
}

/* Asks the extension; a refusal is remembered as a plan without native part. */
static dhow_status make_plan(dhow_device *device, const vendor *v, dhowi_plan *p) {
    dhow_error err;
    dhowi_error_init(&err);
    void *native = dhowi_device_native(device);
    int32_t code;
    if (p->conv) {
        dhow_conv_plan_info info = {.struct_size = (uint32_t)sizeof info};
        code = v->conv->plan(native, &p->desc.conv, &p->native, &info, &err);
        p->workspace_bytes = info.workspace_bytes;
        p->packed_bytes = info.packed_bytes;
        p->src_layout = info.src_layout;
        p->dst_layout = info.dst_layout;
    } else {
        code = v->blas->plan(native, &p->desc.blas, &p->native, &p->workspace_bytes,
                             &p->packed_bytes, &err);
    }
    if (code == DHOW_OK) return DHOW_OK;
    p->native = NULL;
    if (code == DHOW_UNSUPPORTED || code == DHOW_UNAVAILABLE) {
        dhowi_log_line(&device->context->log, DHOW_LOG_DEBUG, "%s: the portable kernel serves: %s",
                       device->name, err.message);
        return DHOW_OK;
    }
    return dhowi_device_failed(device, &err, code,
                               p->conv ? "planning a convolution" : "planning a matmul");
}

static dhow_status find_plan(dhow_device *device, const dhowi_plan *wanted,
                             const dhowi_plan **out) {
    vendor *v = vendor_of(device);
    if (v == NULL) return DHOW_OUT_OF_MEMORY;
    dhow_status status = DHOW_OK;
    dhowi_plan **bucket = &v->plans[wanted->hash % BUCKETS];
    pthread_mutex_lock(&v->mutex);
    dhowi_plan *p = *bucket;
    while (p != NULL && (p->hash != wanted->hash || p->conv != wanted->conv ||
                         memcmp(&p->desc, &wanted->desc, sizeof p->desc) != 0)) {
        p = p->next;
    }
    if (p == NULL) {
        p = dhowi_alloc(sizeof *p);
        if (p == NULL) {
            status = dhowi_fail_memory("plan");
        } else {
            *p = *wanted;
            status = make_plan(device, v, p);
        }
        if (status == DHOW_OK) {
            p->next = *bucket;
            *bucket = p;
        } else {
            dhowi_free(p);
        }
    }
    pthread_mutex_unlock(&v->mutex);
    if (status == DHOW_OK && p->native != NULL) *out = p;
    return status;
}

dhow_status dhowi_blas_plan(dhow_device *device, const dhow_blas_desc *desc,
                            const dhowi_plan **out) {
    *out = NULL;
    if (dhowi_blas_of(device) == NULL || !dhowi_optimises(DHOWI_OPTIMISE_VENDOR)) return DHOW_OK;
    dhowi_plan wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.desc.blas = *desc;
    wanted.hash = dhowi_hash(DHOWI_HASH_SEED, desc, sizeof *desc);
    return find_plan(device, &wanted, out);
}

dhow_status dhowi_conv_plan(dhow_device *device, const dhow_conv_desc *desc,
                            const dhowi_plan **out) {
    *out = NULL;
    if (dhowi_conv_of(device) == NULL || !dhowi_optimises(DHOWI_OPTIMISE_VENDOR)) return DHOW_OK;
    dhowi_plan wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.conv = true;
    wanted.desc.conv = *desc;
    wanted.hash = dhowi_hash(~DHOWI_HASH_SEED, desc, sizeof *desc);
    return find_plan(device, &wanted, out);
}

/* ---- packed weights ---- */

typedef struct packed {
    dhowi_companion companion;
    dhowi_storage *storage;
} packed;

static void end_packed(dhowi_companion *companion) {
    packed *p = (packed *)companion;
    dhowi_storage_release(p->storage);
    dhowi_free(p);
}

static dhow_status fill_packed(dhow_stream *stream, const dhowi_plan *plan, dhow_tensor *weight,
                               dhowi_storage *storage) {
    dhow_device *device = stream->device;
    const dhowi_use uses[] = {{weight->storage, DHOW_ACCESS_READ}, {storage, DHOW_ACCESS_WRITE}};
    dhow_buffer to = {storage->native, 0};
    dhow_error err;
    dhowi_error_init(&err);
    DHOWI_TRY(dhowi_stream_begin(stream, uses, 2));
    dhowi_span_begin(stream, DHOWI_TRACE_KERNEL, "pack a weight", 0, NULL);
    int32_t code = plan->conv ? dhowi_conv_of(device)->pack(plan->native, stream->native,
                                                            dhowi_buffer_of(weight), to, &err)
                              : dhowi_blas_of(device)->pack(plan->native, stream->native,
                                                            dhowi_buffer_of(weight), to, &err);
    (void)dhowi_stream_end(stream, uses, 2, (dhow_status)code);
    return code == DHOW_OK ? DHOW_OK : dhowi_device_failed(device, &err, code, "packing a weight");
}

static dhow_status make_packed(dhow_stream *stream, const dhowi_plan *plan, dhow_tensor *weight,
                               packed *p) {
    DHOWI_TRY(dhowi_storage_create(stream->device, plan->packed_bytes, &p->storage));
    (void)dhowi_copy_text(p->storage->label, sizeof p->storage->label, "packed weight");
    dhow_status status = fill_packed(stream, plan, weight, p->storage);
    if (status != DHOW_OK) dhowi_storage_release(p->storage);
    return status;
}

dhow_status dhowi_plan_packed(dhow_stream *stream, const dhowi_plan *plan, dhow_tensor *weight,
                              dhowi_storage **out) {
    const uint64_t parts[] = {(uint64_t)(uintptr_t)plan, (uint64_t)weight->offset};
    uint64_t key = dhowi_hash(DHOWI_HASH_SEED, parts, sizeof parts);
    packed *p = (packed *)dhowi_storage_companion(weight->storage, key);
    *out = p != NULL ? p->storage : NULL;
    if (p != NULL) return DHOW_OK;
    p = dhowi_alloc(sizeof *p);
    if (p == NULL) return dhowi_fail_memory("packed weight");
    p->companion.key = key;
    p->companion.end = end_packed;
    /* A packed weight outlives the plan that is perhaps being recorded. */
    dhowi_recorder *recording = dhowi_recording;
    dhowi_recording = NULL;
    dhow_status status = make_packed(stream, plan, weight, p);
    dhowi_recording = recording;
    if (status != DHOW_OK) {
        dhowi_free(p);
        return status;
    }
    p = (packed *)dhowi_storage_keep(weight->storage, &p->companion);
    *out = p->storage;
    return DHOW_OK;
}

/* ---- running ---- */

static dhow_status submit(dhow_stream *stream, const dhowi_plan *plan, const dhowi_use *uses,
                          uint32_t count, const dhow_buffer buffers[6]) {
    dhowi_vendor_run_fn *run =
        plan->conv ? dhowi_conv_of(stream->device)->run : dhowi_blas_of(stream->device)->run;
    dhow_error err;
    if (dhowi_recording != NULL)
        return dhowi_record_vendor(dhowi_recording, run, plan->native, buffers);
    dhowi_error_init(&err);
    DHOWI_TRY(dhowi_stream_begin(stream, uses, count));
    dhowi_span_begin(stream, DHOWI_TRACE_KERNEL, plan->conv ? "convolution" : "matmul", 0, NULL);
    int32_t code = run(plan->native, stream->native, buffers[0], buffers[1], buffers[2], buffers[3],
                       buffers[4], buffers[5], &err);
    (void)dhowi_stream_end(stream, uses, count, (dhow_status)code);
    if (code == DHOW_OK) return DHOW_OK;
    return dhowi_device_failed(stream->device, &err, code, plan->conv ? "conv2d" : "matmul");
}

dhow_status dhowi_plan_run(dhow_stream *stream, const dhowi_plan *plan, dhow_tensor *a,
                           dhow_tensor *b, dhow_tensor *c, dhow_tensor *bias,
                           dhow_tensor *residual) {
    dhowi_storage *workspace = NULL, *packed_b = NULL;
    if (plan->packed_bytes > 0) DHOWI_TRY(dhowi_plan_packed(stream, plan, b, &packed_b));
    if (plan->workspace_bytes > 0)
        DHOWI_TRY(dhowi_storage_create(stream->device, plan->workspace_bytes, &workspace));
    dhowi_use uses[7] = {{a->storage, DHOW_ACCESS_READ},
                         {b->storage, DHOW_ACCESS_READ},
                         {c->storage, DHOW_ACCESS_WRITE}};
    uint32_t count = 3;
    if (bias != NULL) uses[count++] = (dhowi_use){bias->storage, DHOW_ACCESS_READ};
    if (residual != NULL) uses[count++] = (dhowi_use){residual->storage, DHOW_ACCESS_READ};
    if (packed_b != NULL) uses[count++] = (dhowi_use){packed_b, DHOW_ACCESS_READ};
    if (workspace != NULL) uses[count++] = (dhowi_use){workspace, DHOW_ACCESS_WRITE};
    const dhow_buffer none = {0, 0};
    const dhow_buffer buffers[] = {
        dhowi_buffer_of(a),
        packed_b != NULL ? (dhow_buffer){packed_b->native, 0} : dhowi_buffer_of(b),
        dhowi_buffer_of(c),
        dhowi_buffer_of(bias),
        dhowi_buffer_of(residual),
        workspace != NULL ? (dhow_buffer){workspace->native, 0} : none};
    dhow_status status = submit(stream, plan, uses, count, buffers);
    if (workspace != NULL) dhowi_storage_release(workspace);
    return status;
}
