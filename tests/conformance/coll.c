/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of dhow.coll/1: every operation and type on up to four devices of the backend, whole
 * numbers that every type holds exactly; that work waits for its stream, and ends by an abort.
 */
#include <string.h>
#include <time.h>

#include "slots.h"

enum { MOST = 4, COUNT = 1000, BYTES = MOST * COUNT * 8 };

typedef struct rank {
    void *device, *stream, *comm;
    uint64_t in, out;
} rank;

/* Devices of the backend, the case's first. */
typedef struct party {
    const dhow_coll *coll;
    rank ranks[MOST];
    uint32_t count;
} party;

#define TABLE(env) API->get_extension(DEVICE, "dhow.coll/1")

/* ---- ranks ---- */

static conform_result open_rank(conform_env *env, party *p, uint32_t index) {
    rank *r = &p->ranks[p->count];
    if (index == env->slots->index)
        r->device = DEVICE;
    else
        SLOT(API->device_open(env->slots->backend, index, &r->device, ERR));
    p->count++;
    SLOT(API->stream_create(r->device, 0, &r->stream, ERR));
    SLOT(API->mem_alloc(r->device, BYTES, &r->in, ERR));
    SLOT(API->mem_alloc(r->device, BYTES, &r->out, ERR));
    return CONFORM_PASS;
}

static conform_result open_all(conform_env *env, party *p) {
    uint32_t devices = 0;
    *p = (party){.coll = API->get_extension != NULL ? TABLE(env) : NULL};
    if (p->coll == NULL)
        return conform_unsupported(env, "the plugin has no operations of several devices");
    SLOT(API->device_count(env->slots->backend, &devices, ERR));
    TRY(open_rank(env, p, env->slots->index));
    for (uint32_t i = 0; i < devices && p->count < MOST; i++)
        if (i != env->slots->index) TRY(open_rank(env, p, i));
    return CONFORM_PASS;
}

static conform_result connect_all(conform_env *env, party *p) {
    void *devices[MOST], *comms[MOST];
    for (uint32_t i = 0; i < p->count; i++) devices[i] = p->ranks[i].device;
    const int32_t code = p->coll->create_all(devices, p->count, comms, ERR);
    if (code == DHOW_UNSUPPORTED && env->slots->err.message[0] != '\0')
        return conform_unsupported(env, "%.480s", env->slots->err.message);
    SLOT(code);
    for (uint32_t i = 0; i < p->count; i++) p->ranks[i].comm = comms[i];
    return CONFORM_PASS;
}

static void end(conform_env *env, party *p) {
    dhow_error ignored = {.struct_size = sizeof ignored};
    for (uint32_t i = 0; i < p->count; i++)
        if (p->ranks[i].stream != NULL) (void)API->stream_sync(p->ranks[i].stream, &ignored);
    for (uint32_t i = p->count; i-- > 0;) {
        rank *r = &p->ranks[i];
        if (r->comm != NULL) p->coll->destroy(r->comm);
        if (r->in != 0) API->mem_free(r->device, r->in);
        if (r->out != 0) API->mem_free(r->device, r->out);
        if (r->stream != NULL) API->stream_destroy(r->stream);
        if (r->device != DEVICE && r->device != NULL) API->device_close(r->device);
    }
}

/* Runs `body` with ranks that are connected. */
static conform_result with_party(conform_env *env, conform_result (*body)(conform_env *, party *)) {
    party p;
    conform_result result = open_all(env, &p);
    if (result == CONFORM_PASS) result = connect_all(env, &p);
    if (result == CONFORM_PASS) result = body(env, &p);
    end(env, &p);
    return result;
}

/* ---- values ---- */

static double value_of(uint32_t at, int64_t i) { return (double)(at * 7 + (uint64_t)i % 13); }

static conform_result write_values(conform_env *env, rank *r, uint32_t index, dhow_dtype dtype,
                                   uint64_t handle) {
    unsigned char *bytes = conform_memory(env, BYTES);
    const uint64_t each = dhow_dtype_bytes(dtype);
    for (int64_t i = 0; i < MOST * COUNT; i++)
        conform_encode(dtype, value_of(index, i), bytes + (uint64_t)i * each);
    return slot_write(env, r->stream, handle, 0, bytes, MOST * COUNT * each);
}

/* What element i of a rank's result is; negative: it is not looked at. */
static double wanted(const party *p, uint32_t op, uint32_t root, uint32_t at, int64_t i) {
    double sum = 0;
    if (op == DHOW_COLL_BROADCAST) return value_of(root, i);
    if (op == DHOW_COLL_ALL_GATHER) return value_of((uint32_t)(i / COUNT), i % COUNT);
    if (op == DHOW_COLL_REDUCE && at != root) return -1;
    if (op == DHOW_COLL_REDUCE_SCATTER) i += (int64_t)at * COUNT;
    for (uint32_t k = 0; k < p->count; k++) sum += value_of(k, i);
    return sum;
}

static conform_result check_values(conform_env *env, const party *p, const dhow_coll_call *call,
                                   uint32_t at) {
    const dhow_dtype dtype = (dhow_dtype)call->dtype;
    const uint64_t each = dhow_dtype_bytes(dtype);
    const int64_t count = call->op == DHOW_COLL_ALL_GATHER ? (int64_t)p->count * COUNT : COUNT;
    unsigned char *bytes = conform_memory(env, BYTES);
    TRY(slot_read(env, p->ranks[at].stream, call->out.handle, call->out.offset, bytes,
                  (uint64_t)count * each));
    for (int64_t i = 0; i < count; i++) {
        const double want = wanted(p, call->op, call->root, at, i),
                     got = conform_decode(dtype, bytes + (uint64_t)i * each);
        if (want >= 0 && got != want)
            FAIL("operation %u, %s, root %u: rank %u of %u has %g at %lld, not %g", call->op,
                 dhow_dtype_name(dtype), call->root, at, p->count, got, (long long)i, want);
    }
    return CONFORM_PASS;
}

static dhow_coll_call call_of(const rank *r, uint32_t op, dhow_dtype dtype, uint32_t root) {
    return (dhow_coll_call){.struct_size = sizeof(dhow_coll_call),
                            .op = op,
                            .dtype = (int32_t)dtype,
                            .root = root,
                            .count = COUNT,
                            .comm = r->comm,
                            .stream = r->stream,
                            .in = {r->in, 0},
                            .out = {r->out, 0}};
}

static conform_result submit(conform_env *env, const party *p, const dhow_coll_call *calls) {
    const dhow_coll_call *list[MOST];
    uint32_t at;
    for (uint32_t i = 0; i < p->count; i++) list[i] = &calls[i];
    SLOT(p->coll->run(list, p->count, &at, ERR));
    return CONFORM_PASS;
}

/* In place, and from one array to another. */
static conform_result run_one(conform_env *env, party *p, uint32_t op, dhow_dtype dtype,
                              uint32_t root, bool in_place) {
    dhow_coll_call calls[MOST];
    const uint64_t part = COUNT * dhow_dtype_bytes(dtype);
    for (uint32_t i = 0; i < p->count; i++) {
        rank *r = &p->ranks[i];
        TRY(write_values(env, r, i, dtype, r->in));
        calls[i] = call_of(r, op, dtype, root);
        if (in_place) calls[i].out = calls[i].in;
        if (in_place && op == DHOW_COLL_REDUCE_SCATTER) calls[i].out.offset = i * part;
        if (in_place && op == DHOW_COLL_ALL_GATHER) {
            TRY(write_values(env, r, i, dtype, r->out));
            calls[i].out = (dhow_buffer){r->in, 0};
            calls[i].in = (dhow_buffer){r->in, i * part};
            const dhow_copy_rect own = slot_flat(slot_device_end(r->out, 0, 0, 0),
                                                 slot_device_end(r->in, i * part, 0, 0), part);
            SLOT(API->copy(r->stream, &own, ERR));
        }
    }
    TRY(submit(env, p, calls));
    for (uint32_t i = 0; i < p->count; i++) TRY(check_values(env, p, &calls[i], i));
    return CONFORM_PASS;
}

/* ---- cases ---- */

static conform_result has_its_slots(conform_env *env) {
    const dhow_coll *coll = API->get_extension != NULL ? TABLE(env) : NULL;
    if (coll == NULL)
        return conform_unsupported(env, "the plugin has no operations of several devices");
    if (coll->struct_size < sizeof *coll)
        FAIL("the table has %u bytes, dhow.coll/1 has %zu", coll->struct_size, sizeof *coll);
    if (coll->create_all == NULL || coll->unique_id == NULL || coll->create_rank == NULL ||
        coll->run == NULL || coll->query == NULL || coll->abort == NULL || coll->destroy == NULL)
        FAIL("a function of the table is NULL");
    return CONFORM_PASS;
}

static conform_result operate(conform_env *env, party *p, bool in_place) {
    for (uint32_t op = DHOW_COLL_ALL_REDUCE; op <= DHOW_COLL_REDUCE_SCATTER; op++)
        for (uint32_t root = 0; root < p->count; root++)
            TRY(run_one(env, p, op, DHOW_F32, root, in_place));
    for (uint32_t i = 0; i < p->count; i++) SLOT(p->coll->query(p->ranks[i].comm, ERR));
    return CONFORM_PASS;
}

static conform_result operate_apart(conform_env *env, party *p) { return operate(env, p, false); }
static conform_result operate_in_place(conform_env *env, party *p) { return operate(env, p, true); }

static conform_result add_types(conform_env *env, party *p) {
    static const dhow_dtype dtypes[] = {DHOW_F32,  DHOW_F64, DHOW_F16,
                                        DHOW_BF16, DHOW_I32, DHOW_I64};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if ((env->slots->desc.dtypes & DHOW_DTYPE_BIT(dtypes[i])) == 0) continue;
        TRY(run_one(env, p, DHOW_COLL_ALL_REDUCE, dtypes[i], 0, true));
    }
    return CONFORM_PASS;
}

/* What is not known is refused with words, and leaves the ranks as they are. */
static conform_result refuse(conform_env *env, party *p) {
    dhow_coll_call call = call_of(&p->ranks[0], 4711, DHOW_F32, 0);
    const dhow_coll_call *list[] = {&call};
    uint32_t at;
    int32_t code = p->coll->run(list, 1, &at, ERR);
    if (code != DHOW_UNSUPPORTED) FAIL("operation 4711 answers %s", slot_status(code));
    TRY(slot_refusal(env, "run", code));
    call = call_of(&p->ranks[0], DHOW_COLL_ALL_REDUCE, DHOW_BOOL, 0);
    code = p->coll->run(list, 1, &at, ERR);
    if (code != DHOW_UNSUPPORTED) FAIL("a sum of bool answers %s", slot_status(code));
    TRY(slot_refusal(env, "run", code));
    return run_one(env, p, DHOW_COLL_ALL_REDUCE, DHOW_F32, 0, false);
}

/* Several calls, one after the other on the streams: each sees what the one before wrote. */
static conform_result follow_the_stream(conform_env *env, party *p) {
    dhow_coll_call calls[MOST];
    double factor = 1;
    for (uint32_t i = 0; i < p->count; i++) {
        TRY(write_values(env, &p->ranks[i], i, DHOW_F32, p->ranks[i].in));
        calls[i] = call_of(&p->ranks[i], DHOW_COLL_ALL_REDUCE, DHOW_F32, 0);
        calls[i].out = calls[i].in;
    }
    for (int k = 0; k < 3; k++) TRY(submit(env, p, calls));
    for (int k = 1; k < 3; k++) factor *= p->count;
    for (uint32_t at = 0; at < p->count; at++) {
        float got[COUNT];
        TRY(slot_read(env, p->ranks[at].stream, calls[at].out.handle, 0, got, sizeof got));
        for (int64_t i = 0; i < COUNT; i++) {
            const double want = factor * wanted(p, DHOW_COLL_ALL_REDUCE, 0, at, i);
            if ((double)got[i] != want)
                FAIL("rank %u: three sums give %g at %lld, not %g", at, (double)got[i],
                     (long long)i, want);
        }
    }
    return CONFORM_PASS;
}

/* A rank alone waits for the others until it is aborted. */
static conform_result end_by_abort(conform_env *env, party *p) {
    if (p->count < 2) return conform_unsupported(env, "there is one device");
    const dhow_coll_call call = call_of(&p->ranks[0], DHOW_COLL_ALL_REDUCE, DHOW_F32, 0);
    const dhow_coll_call *list[] = {&call};
    uint32_t at;
    const struct timespec half = {0, 500000000};
    SLOT(p->coll->run(list, 1, &at, ERR));
    (void)nanosleep(&half, NULL);
    const int32_t alone = API->stream_query(p->ranks[0].stream, ERR);
    if (alone != DHOW_NOT_READY)
        FAIL("the stream of a rank whose others did not come answers %s", slot_status(alone));
    for (uint32_t i = 0; i < p->count; i++) p->coll->abort(p->ranks[i].comm);
    SLOT(API->stream_sync(p->ranks[0].stream, ERR));
    const int32_t after = p->coll->query(p->ranks[0].comm, ERR);
    if (after == DHOW_OK) FAIL("query answers OK after an abort");
    return slot_refusal(env, "query", after);
}

/* A rank by its id: the only one, since each has a process of its own. */
static conform_result join_by_id(conform_env *env) {
    party p;
    dhow_coll_id id;
    conform_result result = open_all(env, &p);
    if (result == CONFORM_PASS) {
        int32_t code = p.coll->unique_id(DEVICE, &id, ERR);
        if (code == DHOW_OK)
            code = p.coll->create_rank(DEVICE, &id, 0, 1, 30000, &p.ranks[0].comm, ERR);
        if (code == DHOW_UNSUPPORTED)
            result = conform_unsupported(env, "%.480s", env->slots->err.message);
        else if (code != DHOW_OK)
            result = slot_failed(env, __FILE__, __LINE__, "create_rank", code, &env->slots->err);
    }
    if (result == CONFORM_PASS) {
        party one = {p.coll, {p.ranks[0]}, 1};
        result = operate_apart(env, &one);
    }
    end(env, &p);
    return result;
}

#define PARTY(name, body) \
    static conform_result name(conform_env *env) { return with_party(env, body); }
PARTY(all_operations, operate_apart)
PARTY(all_in_place, operate_in_place)
PARTY(all_types, add_types)
PARTY(refusals, refuse)
PARTY(order_of_the_stream, follow_the_stream)
PARTY(an_abort, end_by_abort)

const conform_case conform_coll_cases[] = {
    CASE("coll/table", has_its_slots, "coll"),
    CASE("coll/operations", all_operations, "coll,devices"),
    CASE("coll/in_place", all_in_place, "coll,devices"),
    CASE("coll/types", all_types, "coll,devices"),
    CASE("coll/refusals", refusals, "coll,devices"),
    CASE("coll/order", order_of_the_stream, "coll,devices"),
    CASE("coll/abort", an_abort, "coll,devices"),
    CASE("coll/rank", join_by_id, "coll"),
};
CASES_END(conform_coll);
