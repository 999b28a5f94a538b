/* SPDX-License-Identifier: Apache-2.0
 *
 * A fake NCCL 2: communicators, groups, and the sums themselves, which ranks meet for on their
 * streams as they do on GPUs: a rank whose others do not come waits until it is aborted. What NCCL
 * lets pass or hang is complained of: ranks that ask for different things, one thread that drives
 * several ranks without a group, communicators that are not ready or ended too early. The fault
 * "ncclWork@N=CODE" is one of submitted work: rank N's next operation is never done, and the
 * communicator answers CODE when it is asked. FAKENCCL_MISTAKE names a mistake that dhow-conform is
 * to find: a sum leaves out a rank, the root is another, f16 is taken for bf16, the work of a rank
 * alone ends.
 */
#include <library_types.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fakecuda.h"
#include "numbers.h"
#include "plugins/cuda/nccl_abi.h"
#include "sync.h"

enum { MOST_RANKS = 16, MOST_GROUPED = 256, POLLS_UNTIL_READY = 3, PATIENCE_S = 30 };

typedef enum operation { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER } operation;
static const char *const k_names[] = {"ncclAllReduce", "ncclReduce", "ncclBroadcast",
                                      "ncclAllGather", "ncclReduceScatter"};

typedef struct request {
    operation op;
    int type, root;
    size_t count;
    const void *in;
    void *out;
    cudaStream_t stream;
    nccl_comm comm;
    uint64_t group; /* a number of its own for each; of calls outside of groups too */
} request;

/* One operation of all ranks. */
typedef struct meeting {
    struct meeting *next;
    uint64_t number;
    request asked;      /* by the first rank that came */
    int first;          /* that rank */
    const void *thread; /* that asked */
    int arrived;
    bool done;
    const unsigned char *in[MOST_RANKS];
    unsigned char *out[MOST_RANKS];
} meeting;

/* All ranks of an id. Never freed: work of an ended device may still point to it. */
typedef struct clique {
    struct clique *next;
    nccl_id id;
    int size, joined, lost; /* lost: ranks that were aborted or failed */
    bool failed;            /* it has a device twice */
    int devices[MOST_RANKS];
    bool here[MOST_RANKS];
    meeting *meetings;
} clique;

struct nccl_native {
    clique *clique;
    int rank, async, polls;
    bool blocking, ended, aborted;
    uint64_t calls, pending;
    request waiting[MOST_GROUPED]; /* of one that does not block: submitted once it is asked */
    uint32_t waiting_count;
};

static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
static clique *g_cliques;
static uint64_t g_ids;
static _Thread_local int t_depth;
static _Thread_local request t_grouped[MOST_GROUPED];
static _Thread_local uint32_t t_grouped_count;
static _Thread_local uint64_t t_group;
static _Thread_local char t_thread;

static bool planted(const char *mistake) {
    const char *chosen = getenv("FAKENCCL_MISTAKE");
    return chosen != NULL && strcmp(chosen, mistake) == 0;
}

static void pause_ms(void) {
    const struct timespec t = {0, 500000};
    (void)nanosleep(&t, NULL);
}

static double now(void) {
    struct timespec t = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool is_comm(const void *comm, const char *function) {
    if (fakecuda_object_is(comm, FAKECUDA_NCCL)) return true;
    fakecuda_complain("%s of a communicator that is not there", function);
    return false;
}

/* ---- making ---- */

int ncclGetVersion(int *version);
int ncclGetVersion(int *version) {
    const int code = fakecuda_library_call("ncclGetVersion");
    *version = fakecuda_setting("oldnccl") ? 2708 : 22809;
    return code;
}

const char *ncclGetErrorString(int result);
const char *ncclGetErrorString(int result) {
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return result >= 0 && result < 8 ? texts[result] : "unknown result code";
}

const char *ncclGetLastError(nccl_comm comm);
const char *ncclGetLastError(nccl_comm comm) {
    (void)comm;
    return "the fake's last words";
}

int ncclGetUniqueId(nccl_id *out);
int ncclGetUniqueId(nccl_id *out) {
    const int code = fakecuda_library_call("ncclGetUniqueId");
    if (code != 0) return code;
    simdev_lock(&g_lock);
    const uint64_t id = ++g_ids;
    simdev_unlock(&g_lock);
    memset(out, 0, sizeof *out);
    memcpy(out->internal, &id, sizeof id);
    return 0;
}

/* Under the lock. */
static clique *clique_of(const nccl_id *id, int size) {
    for (clique *c = g_cliques; c != NULL; c = c->next)
        if (memcmp(&c->id, id, sizeof *id) == 0) return c->size == size ? c : NULL;
    clique *c = calloc(1, sizeof *c);
    if (c == NULL) return NULL;
    c->id = *id;
    c->size = size;
    c->next = g_cliques;
    g_cliques = c;
    return c;
}

static int join(const nccl_id *id, int size, int rank, int device, bool blocking, nccl_comm *out) {
    *out = NULL;
    if (fakecuda_setting("nonccl")) return NCCL_UNHANDLED_CUDA_ERROR;
    if (size < 1 || size > MOST_RANKS || rank < 0 || rank >= size) return NCCL_INVALID_ARGUMENT;
    if (device < 0) {
        fakecuda_complain("a rank of NCCL without a context");
        return NCCL_UNHANDLED_CUDA_ERROR;
    }
    nccl_comm comm = fakecuda_object_new(FAKECUDA_NCCL, sizeof *comm);
    if (comm == NULL) return NCCL_SYSTEM_ERROR;
    simdev_lock(&g_lock);
    clique *c = clique_of(id, size);
    bool right = c != NULL && !c->here[rank];
    for (int i = 0; right && i < size; i++) right = !c->here[i] || c->devices[i] != device;
    if (right) {
        c->here[rank] = true;
        c->devices[rank] = device;
        c->joined++;
        comm->clique = c;
        comm->rank = rank;
        comm->blocking = blocking;
    }
    if (c != NULL && !right) c->failed = true;
    simdev_unlock(&g_lock);
    if (right) {
        *out = comm;
        return NCCL_SUCCESS;
    }
    fakecuda_object_delete(comm);
    return NCCL_INVALID_USAGE; /* a rank that is there, or two of one device */
}

int ncclCommInitAll(nccl_comm *out, int count, const int *devices);
int ncclCommInitAll(nccl_comm *out, int count, const int *devices) {
    nccl_id id;
    int code = fakecuda_library_call("ncclCommInitAll");
    if (code == 0) code = ncclGetUniqueId(&id);
    int made = 0;
    for (; made < count && code == 0; made++)
        code = join(&id, count, made, devices[made], true, &out[made]);
    for (int i = 0; code != 0 && i < made; i++) {
        if (out[i] != NULL) fakecuda_object_delete(out[i]);
        out[i] = NULL;
    }
    return code;
}

static bool all_joined(const clique *c) {
    simdev_lock(&g_lock);
    const bool all = c->joined == c->size;
    simdev_unlock(&g_lock);
    return all;
}

int ncclCommInitRankConfig(nccl_comm *out, int size, nccl_id id, int rank, nccl_config *config);
int ncclCommInitRankConfig(nccl_comm *out, int size, nccl_id id, int rank, nccl_config *config) {
    const int code = fakecuda_library_call("ncclCommInitRankConfig");
    if (code != 0) return code;
    if (config->magic != NCCL_CONFIG_MAGIC || config->size < sizeof *config ||
        config->version < NCCL_OLDEST)
        return NCCL_INVALID_ARGUMENT;
    const bool blocking = config->blocking != 0;
    const int result = join(&id, size, rank, fakecuda_current_device(), blocking, out);
    if (result != 0 || !blocking) return result != 0 ? result : NCCL_IN_PROGRESS;
    const double begin = now();
    while (!all_joined((*out)->clique)) {
        if (now() - begin > PATIENCE_S) {
            fakecuda_complain("rank %d waits for ranks that do not come", rank);
            return NCCL_SYSTEM_ERROR;
        }
        pause_ms();
    }
    return 0;
}

/* ---- what the work does ---- */

static size_t elements_in(const request *r, int size) {
    return r->op == REDUCE_SCATTER ? r->count * (size_t)size : r->count;
}
static size_t elements_out(const request *r, int size) {
    return r->op == ALL_GATHER ? r->count * (size_t)size : r->count;
}

static int64_t type_bytes(int type) {
    return type == NCCL_FLOAT32 || type == NCCL_INT32      ? 4
           : type == NCCL_FLOAT64 || type == NCCL_INT64    ? 8
           : type == NCCL_FLOAT16 || type == NCCL_BFLOAT16 ? 2
                                                           : 0;
}

static void add(int type, unsigned char *sum, const unsigned char *more) {
    int32_t narrow[2];
    int64_t wide[2];
    const int32_t cuda = type == NCCL_FLOAT32                             ? CUDA_R_32F
                         : type == NCCL_FLOAT64                           ? CUDA_R_64F
                         : type == NCCL_FLOAT16 && !planted("wrong_type") ? CUDA_R_16F
                                                                          : CUDA_R_16BF;
    if (type == NCCL_INT32) {
        memcpy(&narrow[0], sum, 4);
        memcpy(&narrow[1], more, 4);
        narrow[0] = (int32_t)((uint32_t)narrow[0] + (uint32_t)narrow[1]);
        memcpy(sum, &narrow[0], 4);
    } else if (type == NCCL_INT64) {
        memcpy(&wide[0], sum, 8);
        memcpy(&wide[1], more, 8);
        wide[0] = (int64_t)((uint64_t)wide[0] + (uint64_t)wide[1]);
        memcpy(sum, &wide[0], 8);
    } else {
        fake_store(sum, cuda, fake_load(sum, cuda) + fake_load(more, cuda));
    }
}

/* Round the ring, as NCCL adds: from the last rank to the first. */
static void sum_up(const meeting *m, int size, size_t first, size_t count, unsigned char *out) {
    const size_t each = (size_t)type_bytes(m->asked.type);
    memcpy(out, m->in[size - 1] + first * each, count * each);
    const int last = planted("leaves_out") ? 1 : 0;
    for (int rank = size - 2; rank >= last; rank--)
        for (size_t i = 0; i < count; i++)
            add(m->asked.type, out + i * each, m->in[rank] + (first + i) * each);
}

static void compute(const meeting *m, int size) {
    const request *r = &m->asked;
    const size_t each = (size_t)type_bytes(r->type), all = elements_in(r, size);
    const bool sums = r->op == ALL_REDUCE || r->op == REDUCE || r->op == REDUCE_SCATTER;
    const size_t bytes = (sums ? all : r->op == ALL_GATHER ? all * (size_t)size : all) * each;
    unsigned char *result = malloc(bytes + 1);
    if (result == NULL) abort(); /* a test's machine without memory */
    if (sums) sum_up(m, size, 0, all, result);
    const int root = planted("wrong_root") ? (r->root + 1) % size : r->root;
    if (r->op == BROADCAST) memcpy(result, m->in[root], all * each);
    for (int i = 0; r->op == ALL_GATHER && i < size; i++)
        memcpy(result + (size_t)i * all * each, m->in[i], all * each);
    for (int i = 0; i < size; i++) {
        const size_t from = r->op == REDUCE_SCATTER ? (size_t)i * r->count * each : 0;
        if (m->out[i] != NULL && (r->op != REDUCE || i == r->root))
            memcpy(m->out[i], result + from, elements_out(r, size) * each);
    }
    free(result);
}

typedef struct visit {
    meeting *meeting;
    nccl_comm comm;
    clique *clique;
    int rank;
} visit;

static bool may_leave(const visit *v) {
    simdev_lock(&g_lock);
    const bool over =
        v->meeting->done || !fakecuda_object_is(v->comm, FAKECUDA_NCCL) || v->comm->aborted;
    simdev_unlock(&g_lock);
    return over;
}

/* On the stream of a rank. */
static void meet(void *data, unsigned char *const *memory) {
    visit v;
    memcpy(&v, data, sizeof v);
    meeting *m = v.meeting;
    const int size = v.clique->size;
    const double begin = now();
    simdev_lock(&g_lock);
    const bool there = fakecuda_object_is(v.comm, FAKECUDA_NCCL);
    const bool hangs =
        !there || (v.comm->async != NCCL_SUCCESS && v.comm->async != NCCL_IN_PROGRESS);
    m->in[v.rank] = memory[0] != NULL ? memory[0] : memory[1];
    m->out[v.rank] = memory[1];
    if (!hangs) m->arrived++;
    if (m->arrived == size && !m->done) {
        compute(m, size);
        m->done = true;
    }
    simdev_unlock(&g_lock);
    const double patience = planted("done_alone") ? 0.2 : PATIENCE_S;
    while (!may_leave(&v)) {
        if (now() - begin > patience) {
            if (patience == PATIENCE_S)
                fakecuda_complain("rank %d waits for others in %s, who do not come", v.rank,
                                  k_names[m->asked.op]);
            break;
        }
        pause_ms();
    }
    simdev_lock(&g_lock);
    if (fakecuda_object_is(v.comm, FAKECUDA_NCCL)) v.comm->pending--;
    simdev_unlock(&g_lock);
}

/* ---- what ranks ask for ---- */

/* Under the lock: the operation that is this rank's next. */
static meeting *next_meeting(const request *r, char *why, size_t bytes) {
    nccl_comm comm = r->comm;
    clique *c = comm->clique;
    const uint64_t number = comm->calls++;
    meeting *m = c->meetings;
    while (m != NULL && m->number != number) m = m->next;
    if (m == NULL) {
        m = calloc(1, sizeof *m);
        if (m == NULL) return NULL;
        *m = (meeting){.next = c->meetings,
                       .number = number,
                       .asked = *r,
                       .first = comm->rank,
                       .thread = &t_thread};
        c->meetings = m;
        return m;
    }
    const request *other = &m->asked;
    if (other->op != r->op || other->count != r->count || other->type != r->type ||
        other->root != r->root)
        (void)snprintf(why, bytes,
                       "operation %llu of rank %d is %s of %zu elements of type %d from root %d, "
                       "that of rank %d is %s of %zu elements of type %d from root %d",
                       (unsigned long long)number + 1, comm->rank, k_names[r->op], r->count,
                       r->type, r->root, m->first, k_names[other->op], other->count, other->type,
                       other->root);
    else if (comm->blocking && m->thread == &t_thread && other->group != r->group)
        (void)snprintf(why, bytes, "%s of ranks %d and %d by one thread, and in no group together",
                       k_names[r->op], m->first, comm->rank);
    return m;
}

static int hand_in(const request *r) {
    char why[256] = "";
    nccl_comm comm = r->comm;
    const int size = comm->clique->size, at = fakecuda_stream_device(r->stream);
    const int64_t each = type_bytes(r->type);
    const int async = fakecuda_library_call("ncclWork");
    simdev_lock(&g_lock);
    meeting *m = next_meeting(r, why, sizeof why);
    comm->pending++;
    if (async != 0) comm->async = async;
    simdev_unlock(&g_lock);
    if (m == NULL) return NCCL_SYSTEM_ERROR;
    if (at != comm->clique->devices[comm->rank])
        fakecuda_complain("%s of rank %d, device %d, on a stream of device %d", k_names[r->op],
                          comm->rank, comm->clique->devices[comm->rank], at);
    if (why[0] != '\0') {
        fakecuda_complain("%s", why);
        return NCCL_INTERNAL_ERROR;
    }
    const visit v = {m, comm, comm->clique, comm->rank};
    const bool reads = r->op != BROADCAST || comm->rank == r->root;
    const bool writes = r->op != REDUCE || comm->rank == r->root;
    const void *in = reads ? r->in : NULL;
    const bool is_alike = r->op != REDUCE_SCATTER && r->op != ALL_GATHER;
    const fakecuda_range ranges[] = {
        {in == r->out && writes && is_alike ? NULL : in,
         (uint64_t)((int64_t)elements_in(r, size) * each), false},
        {writes ? r->out : NULL, (uint64_t)((int64_t)elements_out(r, size) * each), true}};
    fakecuda_log("NCCL %s %zu of type %d, rank %d of %d", k_names[r->op], r->count, r->type,
                 comm->rank, size);
    const cudaError_t code = fakecuda_work(r->stream, meet, &v, sizeof v, ranges, 2);
    if (code == cudaSuccess) return 0;
    simdev_lock(&g_lock);
    comm->pending--;
    simdev_unlock(&g_lock);
    return NCCL_UNHANDLED_CUDA_ERROR;
}

/* One that does not block hands in later, when it has been asked how far it is. */
static int take(const request *r) {
    nccl_comm comm = r->comm;
    if (comm->blocking) return hand_in(r);
    if (comm->waiting_count == MOST_GROUPED) return NCCL_SYSTEM_ERROR;
    comm->waiting[comm->waiting_count++] = *r;
    comm->polls = POLLS_UNTIL_READY;
    comm->async = NCCL_IN_PROGRESS;
    return NCCL_IN_PROGRESS;
}

static uint64_t new_group(void) {
    static atomic_uint_fast64_t groups;
    return atomic_fetch_add(&groups, 1) + 1;
}

static int ask(request *r) {
    const int code = fakecuda_library_call(k_names[r->op]);
    if (code != 0) return code;
    if (!is_comm(r->comm, k_names[r->op])) return NCCL_INVALID_ARGUMENT;
    if (type_bytes(r->type) == 0) return NCCL_INVALID_ARGUMENT;
    if (r->comm->async == NCCL_IN_PROGRESS && r->comm->waiting_count == 0) {
        fakecuda_complain("%s of a communicator that is not ready", k_names[r->op]);
        return NCCL_INVALID_USAGE;
    }
    if (r->comm->async != 0 && r->comm->async != NCCL_IN_PROGRESS) return r->comm->async;
    r->group = t_group;
    if (t_depth == 0) {
        r->group = new_group();
        return take(r);
    }
    if (t_grouped_count == MOST_GROUPED) return NCCL_SYSTEM_ERROR;
    t_grouped[t_grouped_count++] = *r;
    return 0;
}

int ncclGroupStart(void);
int ncclGroupStart(void) {
    const int code = fakecuda_library_call("ncclGroupStart");
    if (code == 0 && t_depth++ == 0) t_group = new_group();
    return code;
}

int ncclGroupEnd(void);
int ncclGroupEnd(void) {
    int code = fakecuda_library_call("ncclGroupEnd"), later = 0;
    if (t_depth == 0) {
        fakecuda_complain("ncclGroupEnd without ncclGroupStart");
        return NCCL_INVALID_USAGE;
    }
    if (--t_depth > 0) return code;
    for (uint32_t i = 0; i < t_grouped_count && code == 0; i++) {
        code = take(&t_grouped[i]);
        if (code == NCCL_IN_PROGRESS) later = code;
        if (code == NCCL_IN_PROGRESS) code = 0;
    }
    t_grouped_count = 0;
    return code != 0 ? code : later;
}

int ncclAllReduce(const void *in, void *out, size_t count, int type, int op, nccl_comm comm,
                  cudaStream_t stream);
int ncclAllReduce(const void *in, void *out, size_t count, int type, int op, nccl_comm comm,
                  cudaStream_t stream) {
    if (op != NCCL_SUM) return NCCL_INVALID_ARGUMENT;
    return ask(&(request){ALL_REDUCE, type, 0, count, in, out, stream, comm, 0});
}

int ncclReduceScatter(const void *in, void *out, size_t count, int type, int op, nccl_comm comm,
                      cudaStream_t stream);
int ncclReduceScatter(const void *in, void *out, size_t count, int type, int op, nccl_comm comm,
                      cudaStream_t stream) {
    if (op != NCCL_SUM) return NCCL_INVALID_ARGUMENT;
    return ask(&(request){REDUCE_SCATTER, type, 0, count, in, out, stream, comm, 0});
}

int ncclReduce(const void *in, void *out, size_t count, int type, int op, int root, nccl_comm comm,
               cudaStream_t stream);
int ncclReduce(const void *in, void *out, size_t count, int type, int op, int root, nccl_comm comm,
               cudaStream_t stream) {
    if (op != NCCL_SUM) return NCCL_INVALID_ARGUMENT;
    return ask(&(request){REDUCE, type, root, count, in, out, stream, comm, 0});
}

int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, nccl_comm comm,
                  cudaStream_t stream);
int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, nccl_comm comm,
                  cudaStream_t stream) {
    return ask(&(request){BROADCAST, type, root, count, in, out, stream, comm, 0});
}

int ncclAllGather(const void *in, void *out, size_t count, int type, nccl_comm comm,
                  cudaStream_t stream);
int ncclAllGather(const void *in, void *out, size_t count, int type, nccl_comm comm,
                  cudaStream_t stream) {
    return ask(&(request){ALL_GATHER, type, 0, count, in, out, stream, comm, 0});
}

/* ---- how far it is, and the end ---- */

/* One that does not block is ready some questions after all have come. */
static void go_on(nccl_comm comm) {
    if (comm->async != NCCL_IN_PROGRESS && comm->polls == 0 && all_joined(comm->clique)) return;
    if (comm->clique->failed) {
        comm->async = NCCL_INVALID_USAGE;
        return;
    }
    if (!all_joined(comm->clique) || comm->polls-- > 0) {
        comm->async = NCCL_IN_PROGRESS;
        return;
    }
    comm->polls = 0;
    comm->async = 0;
    const uint32_t count = comm->waiting_count;
    comm->waiting_count = 0;
    for (uint32_t i = 0; i < count && comm->async == 0; i++) {
        const int code = hand_in(&comm->waiting[i]);
        if (code != 0) comm->async = code;
    }
}

int ncclCommGetAsyncError(nccl_comm comm, int *out);
int ncclCommGetAsyncError(nccl_comm comm, int *out) {
    const int code = fakecuda_library_call("ncclCommGetAsyncError");
    if (code != 0) return code;
    if (!is_comm(comm, "ncclCommGetAsyncError")) return NCCL_INVALID_ARGUMENT;
    if (!comm->blocking && (comm->async == 0 || comm->async == NCCL_IN_PROGRESS)) go_on(comm);
    simdev_lock(&g_lock);
    *out = comm->async;
    if (*out == 0 && comm->clique->lost > 0) *out = NCCL_REMOTE_ERROR;
    simdev_unlock(&g_lock);
    return 0;
}

int ncclCommFinalize(nccl_comm comm);
int ncclCommFinalize(nccl_comm comm) {
    const int code = fakecuda_library_call("ncclCommFinalize");
    if (code != 0) return code;
    if (!is_comm(comm, "ncclCommFinalize")) return NCCL_INVALID_ARGUMENT;
    comm->ended = true;
    if (comm->blocking) return 0;
    comm->polls = POLLS_UNTIL_READY;
    return NCCL_IN_PROGRESS;
}

int ncclCommDestroy(nccl_comm comm);
int ncclCommDestroy(nccl_comm comm) {
    const int code = fakecuda_library_call("ncclCommDestroy");
    if (!is_comm(comm, "ncclCommDestroy")) return NCCL_INVALID_ARGUMENT;
    simdev_lock(&g_lock);
    const uint64_t pending = comm->pending;
    simdev_unlock(&g_lock);
    if (pending > 0) fakecuda_complain("ncclCommDestroy of rank %d, which still works", comm->rank);
    if (!comm->blocking && !comm->ended)
        fakecuda_complain("ncclCommDestroy of rank %d before ncclCommFinalize", comm->rank);
    simdev_lock(&g_lock);
    fakecuda_object_delete(comm);
    simdev_unlock(&g_lock);
    return code;
}

/* Its work leaves at once; the others' are told, and wait on. */
int ncclCommAbort(nccl_comm comm);
int ncclCommAbort(nccl_comm comm) {
    const int code = fakecuda_library_call("ncclCommAbort");
    const double begin = now();
    if (!is_comm(comm, "ncclCommAbort")) return NCCL_INVALID_ARGUMENT;
    simdev_lock(&g_lock);
    comm->aborted = true;
    comm->clique->lost++;
    uint64_t pending = comm->pending;
    simdev_unlock(&g_lock);
    while (pending > 0 && now() - begin < 1) { /* work of a lost device never comes */
        pause_ms();
        simdev_lock(&g_lock);
        pending = comm->pending;
        simdev_unlock(&g_lock);
    }
    simdev_lock(&g_lock);
    fakecuda_object_delete(comm);
    simdev_unlock(&g_lock);
    return code;
}
