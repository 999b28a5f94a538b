/* SPDX-License-Identifier: Apache-2.0
 *
 * See vendor.h.
 */
#include "ops/run/vendor.h"

#include <stddef.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/text.h"
#include "kernel/optimise.h"
#include "stream/submit.h"

enum { BUCKETS = 64, MOST_PLANS = 512 };

typedef struct vendor {
    const dhow_blas *blas;
    const dhow_conv *conv;
    pthread_mutex_t mutex;
    dhowi_vendor_plan *plans[BUCKETS];
    uint32_t plan_count;
    uint64_t lookups, made;
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
    v->blas = extension(device, "dhow.blas/1", offsetof(dhow_blas, packed_form));
    v->conv = extension(device, "dhow.conv/1", offsetof(dhow_conv, packed_form));
    return v;
}

void dhowi_vendor_plan_drop(const dhowi_vendor_plan *plan) {
    dhowi_vendor_plan *p = (dhowi_vendor_plan *)(uintptr_t)plan;
    if (p == NULL || atomic_fetch_sub(&p->users, 1) != 1) return;
    if (p->native != NULL) p->destroy(p->native);
    dhowi_vendor_plan_drop(p->settled);
    dhowi_free(p);
}

static void end_vendor(void *device, void *data) {
    (void)device;
    vendor *v = data;
    for (int b = 0; b < BUCKETS; b++) {
        while (v->plans[b] != NULL) {
            dhowi_vendor_plan *p = v->plans[b];
            v->plans[b] = p->next;
            dhowi_vendor_plan_drop(p);
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

/* A number for how a plan packs weights of its shape; 0: as no other plan does. */
static uint64_t form_of(const vendor *v, const dhowi_vendor_plan *p) {
    const dhow_conv_desc *c = &p->desc.conv;
    const dhow_blas_desc *b = &p->desc.blas;
    const uint32_t size = p->conv ? v->conv->struct_size : v->blas->struct_size;
    if (p->packed_bytes == 0 || size < (p->conv ? sizeof(dhow_conv) : sizeof(dhow_blas))) return 0;
    uint64_t (*ask)(void *plan) = p->conv ? v->conv->packed_form : v->blas->packed_form;
    const int64_t number = ask != NULL ? (int64_t)ask(p->native) : 0;
    const int64_t of_conv[] = {number,
                               c->c,
                               c->k,
                               c->kd,
                               c->kh,
                               c->kw,
                               c->groups,
                               c->weight_dtype,
                               c->flags & DHOW_CONV_TRANSPOSED};
    const int64_t of_blas[] = {number, b->n,        b->k,       b->batch,
                               b->ldb, b->stride_b, b->dtype_b, b->flags & DHOW_BLAS_TRANSPOSE_B};
    if (number == 0) return 0;
    return p->conv ? dhowi_hash(~DHOWI_HASH_SEED, of_conv, sizeof of_conv)
                   : dhowi_hash(DHOWI_HASH_SEED, of_blas, sizeof of_blas);
}

/* Asks the extension; a refusal is a plan without native part, to be remembered unless it is of the
 * moment alone. */
static dhow_status make_plan(dhow_device *device, const vendor *v, dhowi_vendor_plan *p,
                             bool *out_lasting) {
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
    *out_lasting = code != DHOW_UNAVAILABLE;
    if (code == DHOW_OK) {
        p->packed_form = form_of(v, p);
        return DHOW_OK;
    }
    p->native = NULL;
    if (code == DHOW_UNSUPPORTED || code == DHOW_UNAVAILABLE) {
        dhowi_log_line(&device->context->log, DHOW_LOG_DEBUG, "%s: the portable kernel serves: %s",
                       device->name, err.message);
        return DHOW_OK;
    }
    return dhowi_device_failed(device, &err, code,
                               p->conv ? "planning a convolution" : "planning a matmul");
}

/* The one that was not looked up for longest leaves the list; who holds it keeps it. */
static void drop_oldest(vendor *v) {
    dhowi_vendor_plan **oldest = NULL;
    for (int b = 0; b < BUCKETS; b++) {
        for (dhowi_vendor_plan **p = &v->plans[b]; *p != NULL; p = &(*p)->next)
            if (oldest == NULL || (*p)->used < (*oldest)->used) oldest = p;
    }
    dhowi_vendor_plan *plan = *oldest;
    *oldest = plan->next;
    v->plan_count--;
    dhowi_vendor_plan_drop(plan);
}

/* Under the mutex: whether the device has the plan. *out holds it, or NULL for a refusal. */
static bool look_up(vendor *v, const dhowi_vendor_plan *wanted, const dhowi_vendor_plan **out) {
    dhowi_vendor_plan *p = v->plans[wanted->hash % BUCKETS];
    while (p != NULL && (p->hash != wanted->hash || p->conv != wanted->conv ||
                         memcmp(&p->desc, &wanted->desc, sizeof p->desc) != 0)) {
        p = p->next;
    }
    if (p == NULL) return false;
    p->used = ++v->lookups;
    if (p->settled != NULL) p = p->settled;
    if (p->native != NULL) {
        atomic_fetch_add(&p->users, 1);
        *out = p;
    }
    return true;
}

/* Under the mutex. */
static void insert(vendor *v, dhowi_vendor_plan *p) {
    if (v->plan_count == MOST_PLANS) drop_oldest(v);
    v->plan_count++;
    dhowi_vendor_plan **bucket = &v->plans[p->hash % BUCKETS];
    p->next = *bucket;
    *bucket = p;
}

static dhowi_vendor_plan *new_plan(const vendor *v, const dhowi_vendor_plan *wanted) {
    dhowi_vendor_plan *p = dhowi_alloc(sizeof *p);
    if (p == NULL) return NULL;
    *p = *wanted;
    p->destroy = p->conv ? v->conv->destroy : v->blas->destroy;
    atomic_init(&p->users, 1);
    return p;
}

/* Under the mutex: p, or what another thread has made of the same description meanwhile. */
static void add(vendor *v, dhowi_vendor_plan *p, const dhowi_vendor_plan **out) {
    if (!look_up(v, p, out)) {
        p->serial = ++v->made;
        insert(v, p);
        (void)look_up(v, p, out);
        return;
    }
    dhowi_vendor_plan_drop(p);
}

/* A convolution in any layouts has become one in those that it settled on: the steps that ask for
 * these later need no other. */
static bool settles(const dhowi_vendor_plan *p) {
    return p->conv && p->native != NULL &&
           (p->desc.conv.src_layout != p->src_layout || p->desc.conv.dst_layout != p->dst_layout);
}

static uint64_t hash_of(bool conv, const void *desc, size_t bytes) {
    return dhowi_hash(conv ? ~DHOWI_HASH_SEED : DHOWI_HASH_SEED, desc, bytes);
}

static void settle(dhowi_vendor_plan *p) {
    p->desc.conv.src_layout = p->src_layout;
    p->desc.conv.dst_layout = p->dst_layout;
    p->hash = hash_of(true, &p->desc.conv, sizeof p->desc.conv);
}

/* The library may think for long, and other threads go on meanwhile. Where two of them make the
 * same plan, the first that is ready serves both. */
static dhow_status add_plan(dhow_device *device, vendor *v, const dhowi_vendor_plan *wanted,
                            const dhowi_vendor_plan **out) {
    bool lasting = false;
    dhowi_vendor_plan *p = new_plan(v, wanted);
    const dhow_status status =
        p != NULL ? make_plan(device, v, p, &lasting) : dhowi_fail_memory("plan");
    if (status != DHOW_OK || !lasting) {
        dhowi_vendor_plan_drop(p);
        return status;
    }
    const bool settled = settles(p);
    dhowi_vendor_plan *asked = settled ? new_plan(v, wanted) : NULL; /* NULL: asked again */
    if (settled) settle(p);
    pthread_mutex_lock(&v->mutex);
    add(v, p, out);
    if (asked != NULL && *out != NULL) {
        asked->settled = (dhowi_vendor_plan *)(uintptr_t)*out;
        add(v, asked, out);
        asked = NULL;
    }
    pthread_mutex_unlock(&v->mutex);
    dhowi_vendor_plan_drop(asked);
    return DHOW_OK;
}

static dhow_status find_plan(dhow_device *device, const dhowi_vendor_plan *wanted,
                             const dhowi_vendor_plan **out) {
    vendor *v = vendor_of(device);
    if (v == NULL) return DHOW_OUT_OF_MEMORY;
    pthread_mutex_lock(&v->mutex);
    const bool found = look_up(v, wanted, out);
    pthread_mutex_unlock(&v->mutex);
    return found ? DHOW_OK : add_plan(device, v, wanted, out);
}

dhow_status dhowi_blas_plan(dhow_device *device, const dhow_blas_desc *desc,
                            const dhowi_vendor_plan **out) {
    *out = NULL;
    if (dhowi_blas_of(device) == NULL || !dhowi_optimises(DHOWI_OPTIMISE_VENDOR)) return DHOW_OK;
    dhowi_vendor_plan wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.desc.blas = *desc;
    wanted.hash = hash_of(false, desc, sizeof *desc);
    return find_plan(device, &wanted, out);
}

dhow_status dhowi_conv_plan(dhow_device *device, const dhow_conv_desc *desc,
                            const dhowi_vendor_plan **out) {
    *out = NULL;
    if (dhowi_conv_of(device) == NULL || !dhowi_optimises(DHOWI_OPTIMISE_VENDOR)) return DHOW_OK;
    dhowi_vendor_plan wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.conv = true;
    wanted.desc.conv = *desc;
    wanted.hash = hash_of(true, desc, sizeof *desc);
    return find_plan(device, &wanted, out);
}

/* ---- packed weights ---- */

typedef struct packing {
    const dhowi_vendor_plan *plan;
    dhow_buffer from, to;
} packing;

static int32_t run_packing(const void *user, dhow_device *device, void *stream, dhow_error *err) {
    const packing *p = user;
    return p->plan->conv
               ? dhowi_conv_of(device)->pack(p->plan->native, stream, p->from, p->to, err)
               : dhowi_blas_of(device)->pack(p->plan->native, stream, p->from, p->to, err);
}

static dhow_status fill_packed(dhow_stream *stream, const dhowi_vendor_plan *plan,
                               dhow_tensor *weight, dhowi_storage *storage) {
    const dhowi_use uses[] = {{weight->storage, DHOW_ACCESS_READ}, {storage, DHOW_ACCESS_WRITE}};
    const packing p = {plan, dhowi_buffer_of(weight), {storage->native, 0}};
    const dhowi_work work = {.kind = DHOWI_WORK_CALL,
                             .traced = DHOWI_TRACE_KERNEL,
                             .name = "pack a weight",
                             .what = "packing a weight",
                             .u.call = {run_packing, &p}};
    return dhowi_submit(stream, &work, uses, 2);
}

static dhow_status make_packed(dhow_stream *stream, const dhowi_vendor_plan *plan,
                               dhow_tensor *weight, dhowi_storage **out) {
    DHOWI_TRY(dhowi_storage_create(stream->device, plan->packed_bytes, out));
    (void)dhowi_copy_text((*out)->label, sizeof(*out)->label, "packed weight");
    dhow_status status = fill_packed(stream, plan, weight, *out);
    if (status != DHOW_OK) dhowi_storage_release(*out);
    return status;
}

dhow_status dhowi_vendor_plan_packed(dhow_stream *stream, const dhowi_vendor_plan *plan,
                                     dhow_tensor *weight, dhowi_storage **out) {
    const uint64_t form = plan->packed_form != 0 ? plan->packed_form : plan->serial;
    const uint64_t parts[] = {form, (uint64_t)weight->offset};
    uint64_t key = dhowi_hash(DHOWI_HASH_SEED, parts, sizeof parts);
    dhowi_storage *packed;
    *out = dhowi_storage_companion(weight->storage, key);
    if (*out != NULL) return DHOW_OK;
    /* A packed weight outlives the plan that is perhaps being recorded. */
    dhowi_sink *sink = dhowi_sink_set(NULL);
    dhow_status status = dhowi_storage_make(weight->storage);
    if (status == DHOW_OK) status = make_packed(stream, plan, weight, &packed);
    (void)dhowi_sink_set(sink);
    DHOWI_TRY(status);
    return dhowi_storage_keep(weight->storage, key, packed, out);
}

/* ---- running ---- */

/* What a recorded command uses for as long as it is kept. */
typedef struct owner {
    const dhowi_vendor_plan *plan;
    dhowi_storage *packed;
} owner;

static void drop_owner(void *data) {
    owner *o = data;
    if (o->packed != NULL) dhowi_storage_release(o->packed);
    dhowi_vendor_plan_drop(o->plan);
    dhowi_free(o);
}

static dhow_status keep_owner(const void *user, void **out_owner) {
    owner *o = dhowi_alloc(sizeof *o);
    if (o == NULL) return dhowi_fail_memory("plan");
    *o = *(const owner *)user;
    atomic_fetch_add(&((dhowi_vendor_plan *)(uintptr_t)o->plan)->users, 1);
    if (o->packed != NULL) dhowi_storage_retain(o->packed);
    *out_owner = o;
    return DHOW_OK;
}

static dhow_status submit(dhow_stream *stream, const dhowi_vendor_plan *plan, dhowi_storage *packed,
                          const dhowi_use *uses, uint32_t count, const dhow_buffer buffers[6]) {
    const owner used = {plan, packed};
    const dhowi_work work = {.kind = DHOWI_WORK_VENDOR,
                             .traced = DHOWI_TRACE_KERNEL,
                             .name = plan->conv ? "convolution" : "matmul",
                             .what = plan->conv ? "conv2d" : "matmul",
                             .u.vendor = {plan->conv ? dhowi_conv_of(stream->device)->run
                                                     : dhowi_blas_of(stream->device)->run,
                                          plan->native, buffers, keep_owner, drop_owner, &used}};
    return dhowi_submit(stream, &work, uses, count);
}

dhow_status dhowi_vendor_plan_run(dhow_stream *stream, const dhowi_vendor_plan *plan,
                                  dhow_tensor *a, dhow_tensor *b, dhow_tensor *c, dhow_tensor *bias,
                                  dhow_tensor *residual) {
    dhowi_storage *workspace = NULL, *packed_b = NULL;
    if (plan->packed_bytes > 0) DHOWI_TRY(dhowi_vendor_plan_packed(stream, plan, b, &packed_b));
    dhow_status status = DHOW_OK;
    if (plan->workspace_bytes > 0)
        status = dhowi_storage_create(stream->device, plan->workspace_bytes, &workspace);
    dhowi_use uses[7] = {{a->storage, DHOW_ACCESS_READ},
                         {b->storage, DHOW_ACCESS_READ},
                         dhowi_use_of(c, DHOW_ACCESS_WRITE)};
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
    if (status == DHOW_OK) status = submit(stream, plan, packed_b, uses, count, buffers);
    if (packed_b != NULL) dhowi_storage_release(packed_b);
    if (workspace != NULL) dhowi_storage_release(workspace);
    return status;
}
