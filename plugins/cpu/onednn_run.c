/* SPDX-License-Identifier: Apache-2.0
 *
 * Primitives of oneDNN and how they run. A primitive divides its work for a fixed number of
 * threads and its memory objects are for one caller, so a plan has as many of them as there were
 * numbers of threads and callers at the same time: mostly one.
 */
#include <omp.h>
#include <stdbool.h>
#include <string.h>

#include "onednn.h"

int onednn_threads_enter(int threads) {
    const int before = omp_get_max_threads();
    if (before != threads) omp_set_num_threads(threads);
    return before;
}

void onednn_threads_leave(int before) {
    if (omp_get_max_threads() != before) omp_set_num_threads(before);
}

/* Or neither has such an operand. */
static int is_same(dnnl_primitive_desc_t pd, dnnl_primitive_desc_t other, dnnl_query_t what) {
    onednn_md own, others;
    memset(&own, 0, sizeof own);
    memset(&others, 0, sizeof others);
    const int has = onednn_md_query(&own, pd, what) == dnnl_success,
              other_has = onednn_md_query(&others, other, what) == dnnl_success;
    const int same =
        has == other_has && (!has || onednn_loaded.dnnl_memory_desc_equal(MD(own), MD(others)));
    if (has) onednn_md_release(&own);
    if (other_has) onednn_md_release(&others);
    return same;
}

/* Whether a primitive takes its weights and scratch memory as its description says. */
static int is_as_described(dnnl_primitive_t primitive, dnnl_primitive_desc_t pd) {
    const_dnnl_primitive_desc_t of_primitive;
    if (onednn_loaded.dnnl_primitive_get_primitive_desc(primitive, &of_primitive) != dnnl_success)
        return 1;
    dnnl_primitive_desc_t own = (dnnl_primitive_desc_t)of_primitive;
    return is_same(own, pd, dnnl_query_weights_md) && is_same(own, pd, dnnl_query_scratchpad_md);
}

/* NCHW and NHWC are the same to oneDNN's cache where an image has one channel or one pixel: what it
 * finds there may be other code, for weights packed in another way. Without the cache it makes what
 * was described. */
static dnnl_status_t create(dnnl_primitive_t *primitive, dnnl_primitive_desc_t pd) {
    const onednn_library *dnnl = &onednn_loaded;
    dnnl_status_t status = dnnl->dnnl_primitive_create(primitive, pd);
    int capacity;
    if (status != dnnl_success || is_as_described(*primitive, pd)) return status;
    (void)dnnl->dnnl_primitive_destroy(*primitive);
    *primitive = NULL;
    status = dnnl->dnnl_get_primitive_cache_capacity(&capacity);
    if (status != dnnl_success) return status;
    (void)dnnl->dnnl_set_primitive_cache_capacity(0);
    status = dnnl->dnnl_primitive_create(primitive, pd);
    (void)dnnl->dnnl_set_primitive_cache_capacity(capacity);
    return status;
}

dnnl_status_t onednn_primitive_make(onednn_primitive *made, dnnl_primitive_desc_t pd) {
    const onednn_library *dnnl = &onednn_loaded;
    const dnnl_status_t status = create(&made->primitive, pd);
    if (status != dnnl_success) return status;
    return dnnl->dnnl_stream_create(&made->stream, dnnl->engine, dnnl_stream_default_flags);
}

dnnl_status_t onednn_primitive_make_later(onednn_primitive *made, dnnl_primitive_desc_t pd) {
    const onednn_library *dnnl = &onednn_loaded;
    const dnnl_status_t status = dnnl->dnnl_primitive_desc_clone(&made->description, pd);
    if (status != dnnl_success) return status;
    return dnnl->dnnl_stream_create(&made->stream, dnnl->engine, dnnl_stream_default_flags);
}

static dnnl_status_t write_code(onednn_primitive *made) {
    const onednn_library *dnnl = &onednn_loaded;
    if (made->primitive) return dnnl_success;
    const int before = onednn_threads_enter(made->threads);
    const dnnl_status_t status = create(&made->primitive, made->description);
    onednn_threads_leave(before);
    if (status != dnnl_success) return status;
    (void)dnnl->dnnl_primitive_desc_destroy(made->description);
    made->description = NULL;
    return dnnl_success;
}

dnnl_status_t onednn_primitive_operand(onednn_primitive *made, int id, onednn_md md) {
    const onednn_library *dnnl = &onednn_loaded;
    onednn_operand *operand = &made->operands[made->count];
    const dnnl_status_t status =
        dnnl->dnnl_memory_create(&operand->memory, MD(md), dnnl->engine, DNNL_MEMORY_NONE);
    if (status != dnnl_success) return status;
    operand->id = id;
    operand->address = NULL;
    if (id == DNNL_ARG_SCRATCHPAD) made->workspace_bytes = dnnl->dnnl_memory_desc_get_size(MD(md));
    made->count++;
    return dnnl_success;
}

void onednn_primitive_release(onednn_primitive *made) {
    const onednn_library *dnnl = &onednn_loaded;
    for (int i = 0; i < made->count; i++) (void)dnnl->dnnl_memory_destroy(made->operands[i].memory);
    if (made->stream) (void)dnnl->dnnl_stream_destroy(made->stream);
    if (made->primitive) (void)dnnl->dnnl_primitive_destroy(made->primitive);
    if (made->description) (void)dnnl->dnnl_primitive_desc_destroy(made->description);
    memset(made, 0, sizeof *made);
}

static dnnl_status_t execute(onednn_primitive *made, void *const *addresses) {
    const onednn_library *dnnl = &onednn_loaded;
    dnnl_exec_arg_t args[ONEDNN_OPERANDS];
    dnnl_status_t status = dnnl_success;
    if (made->summed_bytes > 0 && addresses[2] != addresses[made->count])
        memmove(addresses[2], addresses[made->count], made->summed_bytes);
    const int before = onednn_threads_enter(made->threads);
    for (int i = 0; i < made->count && status == dnnl_success; i++) {
        onednn_operand *operand = &made->operands[i];
        const int own = operand->id == DNNL_ARG_SCRATCHPAD && made->workspace;
        void *address = own ? made->workspace : addresses[i];
        if (operand->address != address) {
            status = dnnl->dnnl_memory_set_data_handle(operand->memory, address);
            operand->address = address;
        }
        args[i].arg = operand->id;
        args[i].memory = operand->memory;
    }
    if (status == dnnl_success) {
        status = dnnl->dnnl_primitive_execute(made->primitive, made->stream, made->count, args);
    }
    if (status == dnnl_success) status = dnnl->dnnl_stream_wait(made->stream);
    onednn_threads_leave(before);
    return status;
}

/* ---- what a plan runs ---- */

enum {                        /* multiplications */
       ALONE_BELOW = 1 << 17, /* waking threads costs more than it saves */
       MADE_TWICE_BELOW = 1 << 23
};

void onednn_work_init(onednn_work *work, cpu_device *device, double products) {
    work->device = device;
    work->alone = products < ALONE_BELOW;
    work->whole = 0;
    work->times.products = products;
}

static void destroy(onednn_primitive *one, const dhow_host *host) {
    void *workspace = one->workspace;
    onednn_primitive_release(one);
    if (workspace) host->free(host->user, workspace);
    host->free(host->user, one);
}

/* The plan's workspace was measured for its first primitive. */
static dnnl_status_t make(onednn_work *work, onednn_primitive *made, int threads,
                          uint64_t planned_bytes) {
    const dhow_host *host = work->device->backend->host;
    made->threads = threads;
    atomic_init(&made->taken, true);
    const int before = onednn_threads_enter(threads);
    const dnnl_status_t status = work->make(work->plan, made);
    onednn_threads_leave(before);
    if (status != dnnl_success || made->workspace_bytes <= planned_bytes) return status;
    made->workspace = host->alloc(host->user, made->workspace_bytes, 64);
    return made->workspace ? dnnl_success : dnnl_out_of_memory;
}

/* The list is only ever pushed to, so its last entry is the plan's first primitive. */
static uint64_t planned_workspace(onednn_work *work) {
    const onednn_primitive *one = atomic_load(&work->first);
    while (one && one->next) one = one->next;
    return one ? one->workspace_bytes : UINT64_MAX;
}

/* A primitive that nobody else uses, made where there is none. */
static int32_t take(onednn_work *work, int threads, onednn_primitive **out, dhow_error *err) {
    const dhow_host *host = work->device->backend->host;
    for (onednn_primitive *one = atomic_load(&work->first); one; one = one->next) {
        if (one->threads == threads && !atomic_exchange(&one->taken, true)) {
            *out = one;
            return DHOW_OK;
        }
    }
    onednn_primitive *one = host->alloc(host->user, sizeof *one, 64);
    if (!one) return cpu_fail(err, DHOW_OUT_OF_MEMORY, 0, "cannot allocate a primitive");
    memset(one, 0, sizeof *one);
    const dnnl_status_t status = make(work, one, threads, planned_workspace(work));
    if (status != dnnl_success) {
        destroy(one, host);
        return onednn_fail(err, "making a primitive", status);
    }
    one->next = atomic_load(&work->first);
    while (!atomic_compare_exchange_weak(&work->first, &one->next, one)) {
    }
    *out = one;
    return DHOW_OK;
}

static int planned_threads(const onednn_work *work) {
    return work->alone ? 1 : work->device->team.threads;
}

int32_t onednn_work_prepare(onednn_work *work, dhow_error *err) {
    onednn_primitive *first = NULL, *alone = NULL;
    const int32_t status = take(work, planned_threads(work), &first, err);
    if (status != DHOW_OK) return status;
    /* Writing the code of a primitive takes as long as a hundred runs of a small one. */
    if (first->threads > 1 && !work->whole && work->times.products < MADE_TWICE_BELOW &&
        take(work, 1, &alone, err) == DHOW_OK) {
        atomic_store(&alone->taken, false);
    }
    atomic_store(&first->taken, false);
    return DHOW_OK;
}

/* Before a primitive runs for the first time, which takes as long as it likes: whether threads come
 * at once. The first run of a model has hundreds of such regions, each late on a busy machine. */
static void call_roll(cpu_team *team, const cpu_region *region) {
    if (region->threads == 1 || region->starts) return;
    const int64_t start = cpu_now();
#pragma omp parallel num_threads(region->threads)
    __asm__ volatile("" ::: "memory");
    cpu_region_called(team, cpu_now() - start);
}

cpu_region onednn_work_begin(onednn_work *work) {
    if (work->alone) return (cpu_region){.threads = 1};
    return cpu_region_begin(&work->device->team);
}

int onednn_work_threads(const onednn_work *work, const cpu_region *region) {
    return work->whole ? planned_threads(work) : region->threads;
}

int32_t onednn_work_run(onednn_work *work, cpu_region *region, void *const *addresses,
                        dhow_error *err) {
    onednn_primitive *one = NULL;
    int32_t found = take(work, onednn_work_threads(work, region), &one, err);
    /* oneDNN may not have the plan's layouts for fewer threads. */
    if (found == DHOW_UNSUPPORTED) found = take(work, planned_threads(work), &one, err);
    if (found != DHOW_OK) return found;
    const dnnl_status_t written = write_code(one);
    if (written != dnnl_success) {
        atomic_store(&one->taken, false);
        return onednn_fail(err, "making a primitive", written);
    }
    if (!one->has_run) {
        call_roll(&work->device->team, region);
        region->starts = 1; /* oneDNN too puts things off until then */
    }
    region->start = cpu_now(); /* making it took its time */
    one->has_run = 1;
    const dnnl_status_t status = execute(one, addresses);
    atomic_store(&one->taken, false);
    return status == dnnl_success ? DHOW_OK : onednn_fail(err, "running a primitive", status);
}

void onednn_work_end(onednn_work *work, const cpu_region *region) {
    cpu_region_end_timed(&work->device->team, region, &work->times);
}

void onednn_work_release(onednn_work *work) {
    onednn_primitive *one = atomic_load(&work->first);
    while (one) {
        onednn_primitive *next = one->next;
        destroy(one, work->device->backend->host);
        one = next;
    }
}

/* ---- changes of layout ---- */

int32_t onednn_reorder(cpu_device *device, onednn_md from, const void *src, onednn_md to, void *dst,
                       dhow_error *err) {
    const onednn_library *dnnl = &onednn_loaded;
    onednn_primitive made;
    dnnl_primitive_desc_t pd = NULL;
    union {
        const void *from;
        void *to;
    } source = {.from = src};
    memset(&made, 0, sizeof made);
    cpu_region region = cpu_region_begin(&device->team);
    call_roll(&device->team, &region);
    region.starts = 1; /* its own time tells nothing: it writes its code */
    const int before = onednn_threads_enter(region.threads);
    dnnl_status_t status = dnnl->dnnl_reorder_primitive_desc_create(&pd, MD(from), dnnl->engine,
                                                                    MD(to), dnnl->engine, NULL);
    if (status == dnnl_success) status = onednn_primitive_make(&made, pd);
    onednn_threads_leave(before);
    if (status == dnnl_success) status = onednn_primitive_operand(&made, DNNL_ARG_FROM, from);
    if (status == dnnl_success) status = onednn_primitive_operand(&made, DNNL_ARG_TO, to);
    int32_t result = DHOW_OK;
    made.threads = region.threads;
    if (status == dnnl_success) {
        void *addresses[] = {source.to, dst};
        status = execute(&made, addresses);
    }
    if (status != dnnl_success) result = onednn_fail(err, "a change of layout", status);
    cpu_region_end(&device->team, &region, 0);
    onednn_primitive_release(&made);
    if (pd) (void)dnnl->dnnl_primitive_desc_destroy(pd);
    return result;
}
