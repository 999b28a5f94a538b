/* SPDX-License-Identifier: Apache-2.0
 *
 * dhow.coll/1 by NCCL 2, which is opened with the first communicator. Communicators of one process
 * block, as their calls wait for nobody. Those of ranks do not: NCCL would wait forever for a rank
 * that has died, so it is asked how far it is until the time is over.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cuda_plugin.h"
#include "nccl_abi.h"

#define SYMBOL_(type, member, symbol) symbol,
static const char *const k_symbols[] = {DHOWI_NCCL_FUNCTIONS(SYMBOL_) NULL};
#undef SYMBOL_
static const char k_what[] = "an operation of several devices";
enum { SYMBOLS = sizeof k_symbols / sizeof k_symbols[0] - 1, MOST_DEVICES = 64 };

typedef struct nccl_functions {
#define MEMBER_(type, member, symbol) type *member;
    DHOWI_NCCL_FUNCTIONS(MEMBER_)
#undef MEMBER_
} nccl_functions;
_Static_assert(sizeof(nccl_functions) == SYMBOLS * sizeof(void *), "functions and nothing else");

typedef struct coll_comm {
    nccl_functions nccl;
    dhowi_cuda_device *device;
    uint32_t rank, size, timeout_ms; /* timeout_ms: 0 of one that blocks */
    pthread_mutex_t lock;            /* of `native`: NULL after an abort */
    nccl_comm native;
    atomic_bool aborted;
} coll_comm;

/* ---- NCCL's answers ---- */

static dhow_status status_of(int result) {
    switch (result) {
        case NCCL_SYSTEM_ERROR:
        case NCCL_REMOTE_ERROR:
            return DHOW_UNAVAILABLE;
        case NCCL_INVALID_ARGUMENT:
        case NCCL_INVALID_USAGE:
            return DHOW_INVALID_ARGUMENT;
        default:
            return DHOW_INTERNAL;
    }
}

static int32_t fail(const nccl_functions *nccl, const dhowi_cuda_device *device, dhow_error *err,
                    int result, const char *what) {
    const char *remedy = "; NCCL_DEBUG=WARN shows NCCL's own words";
    if (result == NCCL_REMOTE_ERROR) remedy = "; another rank failed, and tells why there";
    if (result == NCCL_UNHANDLED_CUDA_ERROR)
        remedy = "; NCCL has to be for the CUDA version that nvidia-smi shows";
    (void)dhowi_cuda_refuse(err, status_of(result), "%s: NCCL, %s: %s (%d), %.200s%s", device->name,
                            what, nccl->error_text(result), result, nccl->last_error(NULL), remedy);
    err->native_code = result;
    return err->code;
}

static int32_t load(const dhowi_cuda_device *device, nccl_functions *out, dhow_error *err) {
    void *found[SYMBOLS];
    char why[400];
    int version = 0;
    if (!dhowi_cuda_library_open(device->host, DHOWI_CUDA_NCCL, k_symbols, found, why, sizeof why))
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: no NCCL: %s", device->name, why);
    memcpy(out, found, sizeof *out);
    const int result = out->get_version(&version);
    if (result != NCCL_SUCCESS) return fail(out, device, err, result, "its version");
    if (version >= NCCL_OLDEST) return DHOW_OK;
    return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED,
                             "%s: NCCL says that it is version %d; install NCCL 2.14 or later, or "
                             "name its folder in DHOW_CUDA_LIBRARY_PATH",
                             device->name, version);
}

/* ---- waiting for what does not block ---- */

static int64_t now_ms(void) {
    struct timespec t = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int ask(coll_comm *c) {
    int result = NCCL_SUCCESS, asked = NCCL_INVALID_USAGE;
    (void)pthread_mutex_lock(&c->lock);
    if (c->native != NULL) asked = c->nccl.async_error(c->native, &result);
    (void)pthread_mutex_unlock(&c->lock);
    return asked != NCCL_SUCCESS ? asked : result;
}

static int32_t refuse_aborted(const coll_comm *c, dhow_error *err) {
    return dhowi_cuda_refuse(err, DHOW_UNAVAILABLE, "%s: rank %u of %u was aborted",
                             c->device->name, c->rank, c->size);
}

static int32_t settle(coll_comm *c, dhow_error *err, const char *what) {
    const int64_t begin = now_ms();
    const struct timespec pause = {0, 200000};
    for (;;) {
        if (atomic_load(&c->aborted)) return refuse_aborted(c, err);
        const int result = ask(c);
        if (result == NCCL_SUCCESS) return DHOW_OK;
        if (result != NCCL_IN_PROGRESS) return fail(&c->nccl, c->device, err, result, what);
        if (now_ms() - begin > (int64_t)c->timeout_ms)
            return dhowi_cuda_refuse(err, DHOW_TIMED_OUT,
                                     "%s: rank %u of %u has waited %u ms for the others, %s; has "
                                     "one of them failed?",
                                     c->device->name, c->rank, c->size, c->timeout_ms, what);
        (void)nanosleep(&pause, NULL);
    }
}

/* ---- communicators ---- */

static coll_comm *comm_new(dhowi_cuda_device *device, const nccl_functions *nccl, uint32_t rank,
                           uint32_t size, dhow_error *err) {
    coll_comm *c = dhowi_cuda_new(device->host, sizeof *c);
    if (c == NULL) {
        (void)dhowi_cuda_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", device->name);
        return NULL;
    }
    c->nccl = *nccl;
    c->device = device;
    c->rank = rank;
    c->size = size;
    (void)pthread_mutex_init(&c->lock, NULL);
    return c;
}

static void comm_abort(void *comm) {
    coll_comm *c = comm;
    bool entered;
    atomic_store(&c->aborted, true);
    const bool alive = dhowi_cuda_enter(c->device, &entered);
    (void)pthread_mutex_lock(&c->lock);
    if (alive && c->native != NULL) (void)c->nccl.abort(c->native);
    c->native = NULL;
    (void)pthread_mutex_unlock(&c->lock);
    dhowi_cuda_leave(entered);
}

/* Where ranks do not block, destroying would wait for those that have died. */
static bool is_finished(coll_comm *c) {
    dhow_error ignored = {.struct_size = sizeof ignored};
    if (c->timeout_ms == 0) return ask(c) == NCCL_SUCCESS;
    const int result = c->nccl.finalize(c->native);
    return (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS) &&
           settle(c, &ignored, "to end together") == DHOW_OK;
}

static void comm_destroy(void *comm) {
    coll_comm *c = comm;
    const dhow_host *host = c->device->host;
    bool entered;
    const bool alive = dhowi_cuda_enter(c->device, &entered);
    if (alive && c->native != NULL) {
        if (is_finished(c))
            (void)c->nccl.destroy(c->native);
        else
            (void)c->nccl.abort(c->native);
    }
    dhowi_cuda_leave(entered);
    (void)pthread_mutex_destroy(&c->lock);
    dhowi_cuda_delete(host, c);
}

static int32_t make_all(void *const *devices, uint32_t count, coll_comm **comms, dhow_error *err) {
    nccl_functions nccl;
    nccl_comm natives[MOST_DEVICES] = {NULL};
    int ordinals[MOST_DEVICES];
    dhowi_cuda_device *first = devices[0];
    bool entered;
    if (count > MOST_DEVICES)
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: %u devices; NCCL is given at most %d",
                                 first->name, count, MOST_DEVICES);
    int32_t status = load(first, &nccl, err);
    for (uint32_t i = 0; i < count && status == DHOW_OK; i++) {
        ordinals[i] = ((dhowi_cuda_device *)devices[i])->ordinal;
        comms[i] = comm_new(devices[i], &nccl, i, count, err);
        if (comms[i] == NULL) status = DHOW_OUT_OF_MEMORY;
    }
    if (status != DHOW_OK) return status;
    const cudaError_t code = dhowi_cuda_require(first, &entered);
    const enum cudaStreamCaptureMode mode = dhowi_cuda_relax();
    const int result =
        code == cudaSuccess ? nccl.init_all(natives, (int)count, ordinals) : NCCL_SUCCESS;
    dhowi_cuda_unrelax(mode);
    dhowi_cuda_leave(entered);
    if (code != cudaSuccess) return dhowi_cuda_fail(err, code, "%s: its context", first->name);
    if (result != NCCL_SUCCESS) return fail(&nccl, first, err, result, "making communicators");
    for (uint32_t i = 0; i < count; i++) comms[i]->native = natives[i];
    return DHOW_OK;
}

static int32_t create_all(void *const *devices, uint32_t count, void **out_comms, dhow_error *err) {
    coll_comm *comms[MOST_DEVICES] = {NULL};
    for (uint32_t i = 0; i < count; i++) out_comms[i] = NULL;
    const int32_t status = make_all(devices, count, comms, err);
    for (uint32_t i = 0; i < count && i < MOST_DEVICES; i++) {
        if (status == DHOW_OK)
            out_comms[i] = comms[i];
        else if (comms[i] != NULL)
            comm_destroy(comms[i]);
    }
    return status;
}

static int32_t unique_id(void *device, dhow_coll_id *out, dhow_error *err) {
    nccl_functions nccl;
    nccl_id id;
    const int32_t status = load(device, &nccl, err);
    memset(out, 0, sizeof *out);
    if (status != DHOW_OK) return status;
    const int result = nccl.unique_id(&id);
    if (result != NCCL_SUCCESS) return fail(&nccl, device, err, result, "making an id");
    _Static_assert(sizeof id == sizeof *out, "an id");
    memcpy(out, &id, sizeof id);
    return DHOW_OK;
}

static int32_t begin_rank(coll_comm *c, const dhow_coll_id *given, dhow_error *err) {
    nccl_id id;
    nccl_config config = {sizeof config, NCCL_CONFIG_MAGIC, NCCL_OLDEST, 0};
    bool entered;
    memcpy(&id, given, sizeof id);
    const cudaError_t code = dhowi_cuda_require(c->device, &entered);
    const enum cudaStreamCaptureMode mode = dhowi_cuda_relax();
    const int result = code == cudaSuccess
                           ? c->nccl.init_rank(&c->native, (int)c->size, id, (int)c->rank, &config)
                           : NCCL_SUCCESS;
    dhowi_cuda_unrelax(mode);
    dhowi_cuda_leave(entered);
    if (code != cudaSuccess) return dhowi_cuda_fail(err, code, "%s: its context", c->device->name);
    if (result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS)
        return fail(&c->nccl, c->device, err, result, "making a rank");
    return settle(c, err, "making a rank");
}

static int32_t create_rank(void *device, const dhow_coll_id *id, uint32_t rank, uint32_t size,
                           uint32_t timeout_ms, void **out_comm, dhow_error *err) {
    nccl_functions nccl;
    *out_comm = NULL;
    int32_t status = load(device, &nccl, err);
    if (status != DHOW_OK) return status;
    coll_comm *c = comm_new(device, &nccl, rank, size, err);
    if (c == NULL) return DHOW_OUT_OF_MEMORY;
    c->timeout_ms = timeout_ms > 0 ? timeout_ms : 1;
    status = begin_rank(c, id, err);
    if (status == DHOW_OK) {
        *out_comm = c;
        return DHOW_OK;
    }
    comm_abort(c);
    comm_destroy(c);
    return status;
}

/* ---- operations ---- */

static int type_of(int32_t dtype) {
    switch (dtype) {
        case DHOW_F32:
            return NCCL_FLOAT32;
        case DHOW_F64:
            return NCCL_FLOAT64;
        case DHOW_F16:
            return NCCL_FLOAT16;
        case DHOW_BF16:
            return NCCL_BFLOAT16;
        case DHOW_I32:
            return NCCL_INT32;
        case DHOW_I64:
            return NCCL_INT64;
        default:
            return -1;
    }
}

static int32_t check(const dhow_coll_call *call, dhow_error *err) {
    const coll_comm *c = call->comm;
    if (atomic_load(&c->aborted)) return refuse_aborted(c, err);
    if (type_of(call->dtype) < 0)
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: NCCL is not asked for dtype %d",
                                 c->device->name, call->dtype);
    if (call->op < DHOW_COLL_ALL_REDUCE || call->op > DHOW_COLL_REDUCE_SCATTER)
        return dhowi_cuda_refuse(err, DHOW_UNSUPPORTED, "%s: unknown operation %u of dhow.coll/1",
                                 c->device->name, call->op);
    return DHOW_OK;
}

static int submit(const dhow_coll_call *call) {
    const coll_comm *c = call->comm;
    const nccl_functions *nccl = &c->nccl;
    const cudaStream_t stream = dhowi_cuda_target(call->stream);
    const int type = type_of(call->dtype), root = (int)call->root;
    const void *in = (const void *)(uintptr_t)(call->in.handle + call->in.offset);
    void *out = (void *)(uintptr_t)(call->out.handle + call->out.offset);
    switch (call->op) {
        case DHOW_COLL_ALL_REDUCE:
            return nccl->all_reduce(in, out, call->count, type, NCCL_SUM, c->native, stream);
        case DHOW_COLL_REDUCE:
            return nccl->reduce(in, out, call->count, type, NCCL_SUM, root, c->native, stream);
        case DHOW_COLL_BROADCAST:
            return nccl->broadcast(in, out, call->count, type, root, c->native, stream);
        case DHOW_COLL_ALL_GATHER:
            return nccl->all_gather(in, out, call->count, type, c->native, stream);
        default:
            return nccl->reduce_scatter(in, out, call->count, type, NCCL_SUM, c->native, stream);
    }
}

/* What NCCL calls an error of CUDA may be the fault of earlier work on a stream of the group, which
 * the stream can tell. */
static int32_t failed(const dhow_coll_call *const *calls, uint32_t count, uint32_t *at, int result,
                      dhow_error *err) {
    for (uint32_t i = 0; i < count && result == NCCL_UNHANDLED_CUDA_ERROR; i++) {
        dhowi_cuda_stream *stream = calls[i]->stream;
        bool entered;
        cudaError_t code = dhowi_cuda_require(stream->device, &entered);
        if (code == cudaSuccess) code = dhowi_cuda_stream_fault(stream->native);
        dhowi_cuda_leave(entered);
        if (code == cudaSuccess) continue;
        *at = i;
        return dhowi_cuda_fail_on(stream, err, code, k_what);
    }
    const coll_comm *c = calls[*at]->comm;
    return fail(&c->nccl, c->device, err, result, k_what);
}

/* Between the library's begin and end of a group. */
static int submit_all(const dhow_coll_call *const *calls, uint32_t count, uint32_t *at,
                      cudaError_t *code) {
    int result = NCCL_SUCCESS;
    for (uint32_t i = 0; i < count && result == NCCL_SUCCESS && *code == cudaSuccess; i++) {
        bool entered;
        *at = i;
        *code = dhowi_cuda_require(((coll_comm *)calls[i]->comm)->device, &entered);
        if (*code == cudaSuccess) result = submit(calls[i]);
        if (result == NCCL_IN_PROGRESS) result = NCCL_SUCCESS;
        dhowi_cuda_leave(entered);
    }
    return result;
}

static int32_t settle_all(const dhow_coll_call *const *calls, uint32_t count, uint32_t *at,
                          dhow_error *err) {
    for (*at = 0; *at < count; ++*at) {
        coll_comm *c = calls[*at]->comm;
        const int32_t status = c->timeout_ms > 0 ? settle(c, err, k_what) : DHOW_OK;
        if (status != DHOW_OK) return status;
    }
    return DHOW_OK;
}

static int32_t run(const dhow_coll_call *const *calls, uint32_t count, uint32_t *at,
                   dhow_error *err) {
    cudaError_t code = cudaSuccess;
    for (*at = 0; *at < count; ++*at) {
        const int32_t status = check(calls[*at], err);
        if (status != DHOW_OK) return status;
    }
    *at = 0;
    if (count == 0) return DHOW_OK;
    const nccl_functions *nccl = &((coll_comm *)calls[0]->comm)->nccl;
    int result = nccl->group_begin();
    if (result != NCCL_SUCCESS) return failed(calls, count, at, result, err);
    result = submit_all(calls, count, at, &code);
    const int ended = nccl->group_end(); /* also after a failure: the thread leaves the group */
    if (result == NCCL_SUCCESS && ended != NCCL_IN_PROGRESS) result = ended;
    if (code != cudaSuccess) return dhowi_cuda_fail_on(calls[*at]->stream, err, code, k_what);
    if (result != NCCL_SUCCESS) return failed(calls, count, at, result, err);
    return settle_all(calls, count, at, err);
}

static int32_t query(void *comm, dhow_error *err) {
    coll_comm *c = comm;
    if (atomic_load(&c->aborted)) return refuse_aborted(c, err);
    const int result = ask(c);
    if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS) return DHOW_OK;
    return fail(&c->nccl, c->device, err, result, k_what);
}

const dhow_coll dhowi_cuda_coll = {.struct_size = sizeof(dhow_coll),
                                   .create_all = create_all,
                                   .unique_id = unique_id,
                                   .create_rank = create_rank,
                                   .run = run,
                                   .query = query,
                                   .abort = comm_abort,
                                   .destroy = comm_destroy};
