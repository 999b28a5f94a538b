/* SPDX-License-Identifier: Apache-2.0
 *
 * See early.h.
 */
#include "parallel/early.h"

#include <string.h>

#include "base/memory/alloc.h"
#include "dhow/copy.h"
#include "dhow/create.h"
#include "parallel/team.h"
#include "stream/stream.h"
#include "tensor/tensor.h"

static const char k_create[] = "dhow_trainer_create";

typedef struct member {
    dhow_device *device;
    dhow_stream *copies; /* to the host; NULL: arrays are there, or stay where they are */
    dhow_tensor *host;
    /* Of a backward. */
    dhow_tensor *array; /* NULL: takes no part */
    uint32_t told;      /* buckets */
    dhowi_fence written[DHOWI_MAX_BUCKETS];
} member;

struct dhowi_early {
    dhowi_early_setup setup; /* its devices and buckets are those of making */
    dhowi_buckets buckets;
    member *members;
    uint32_t count;
    dhowi_team team; /* the thread */
    pthread_cond_t arrival;
    bool has_arrival; /* it was made */
    /* Of a backward. */
    dhowi_saved_error own;  /* of this process; the thread's until it is done */
    dhowi_saved_error lost; /* of a sum: no more can be made */
    bool usable, done;      /* of a communicator */
    uint32_t parts;         /* members that take part; it and the rest under the team's mutex */
    uint32_t told[DHOWI_MAX_BUCKETS]; /* by so many members */
    uint32_t given;                   /* buckets that all have told of */
    bool failed;                      /* gradients that were not given are of no use */
};

static void note(dhowi_saved_error *own, dhow_status status) {
    if (status != DHOW_OK && own->status == DHOW_OK) dhowi_error_save(own, status);
}

/* Whether the bucket is of use; waits for it. */
static bool await(dhowi_early *e, uint32_t bucket) {
    pthread_mutex_lock(&e->team.mutex);
    while (e->given <= bucket && !e->failed) pthread_cond_wait(&e->arrival, &e->team.mutex);
    const bool given = e->given > bucket;
    pthread_mutex_unlock(&e->team.mutex);
    if (!given && e->own.status == DHOW_OK)
        e->own = (dhowi_saved_error){.status = DHOW_INTERNAL}; /* its caller has the reason */
    return given;
}

static dhow_status part_of(const dhowi_early *e, dhow_tensor *whole, uint32_t bucket,
                           dhow_tensor **out) {
    return dhow_tensor_narrow(whole, 0, e->buckets.first[bucket], e->buckets.elements[bucket], out);
}

/* ---- the thread: sums on the host ---- */

static char *bytes_of(const dhowi_early *e, const member *m, uint32_t bucket) {
    const dhow_tensor *t = m->copies != NULL ? m->host : m->array;
    return (char *)t->storage->host + dhowi_tensor_offset_bytes(t) +
           (uint64_t)e->buckets.first[bucket] * dhow_dtype_bytes(t->dtype);
}

static void add(dhow_dtype dtype, void *restrict sum, const void *restrict more, int64_t count) {
    float *narrow = sum;
    double *wide = sum;
    for (int64_t i = 0; dtype == DHOW_F32 && i < count; i++) narrow[i] += ((const float *)more)[i];
    for (int64_t i = 0; dtype == DHOW_F64 && i < count; i++) wide[i] += ((const double *)more)[i];
}

/* Into the first member's, in the order of members: the same bits as on a device. */
static dhow_status sum_on_host(dhowi_early *e, uint32_t bucket) {
    const int64_t elements = e->buckets.elements[bucket];
    char *sum = bytes_of(e, &e->members[0], bucket);
    for (uint32_t i = 0; i < e->count && e->own.status == DHOW_OK; i++) {
        member *m = &e->members[i];
        if (m->array == NULL) continue;
        note(&e->own, dhowi_fence_wait(&m->written[bucket]));
        if (i > 0 && e->own.status == DHOW_OK)
            add(e->setup.dtype, sum, bytes_of(e, m, bucket), elements);
    }
    return e->setup.sum(e->setup.user, e->setup.dtype, sum, elements);
}

static void sum_all_on_host(dhowi_early *e) {
    for (uint32_t b = 0; b < e->buckets.count && e->lost.status == DHOW_OK; b++) {
        (void)await(e, b);
        note(&e->lost, sum_on_host(e, b));
    }
}

/* ---- the thread: sums on devices ---- */

static dhow_status reduce(const dhowi_early *e, uint32_t bucket) {
    const member *m = &e->members[0];
    const dhowi_fence *written = &m->written[bucket];
    dhow_tensor *part;
    uint32_t rank;
    if (written->stream != NULL)
        DHOWI_TRY(dhowi_stream_wait_event(dhowi_comm_stream(e->setup.comm, 0), m->device,
                                          written->event, written->point));
    DHOWI_TRY(part_of(e, m->array, bucket, &part));
    const dhow_status status =
        dhowi_comm_run(e->setup.comm, DHOW_COLL_ALL_REDUCE, 0, &(dhowi_comm_part){part, part},
                       part->count, false, &rank);
    dhow_tensor_release(part);
    return status;
}

/* All have come to the bucket before the devices sum it, for those would wait for a process that
 * has died. Whether another has failed is heard when all agree. */
static bool may_reduce(dhowi_early *e, uint32_t bucket) {
    const bool given = !e->usable || await(e, bucket);
    double numbers[] = {!given || e->own.status != DHOW_OK, bucket > 0 || e->usable};
    note(&e->lost, e->setup.sum(e->setup.user, DHOW_F64, numbers, 2));
    if (e->lost.status != DHOW_OK) return false;
    e->done = numbers[1] == (double)e->setup.processes;
    return e->done && numbers[0] == 0;
}

static void give_up(const dhowi_early *e) {
    if (e->lost.status == DHOW_OK)
        dhowi_log_line(&e->members[0].device->context->log, DHOW_LOG_WARN,
                       "gradients go by way of the host from now on: %s", e->own.message);
    dhowi_comm_give_up(e->setup.comm);
}

/* One that cannot go on tells the others with the next bucket, or when all agree. */
static void sum_all_on_devices(dhowi_early *e) {
    const uint64_t bytes = dhowi_tensor_bytes(e->members[0].array);
    bool waits = false, broken = false;
    uint32_t rank;
    for (uint32_t b = 0; b < e->buckets.count && may_reduce(e, b); b++) {
        waits = true;
        const dhow_status status = reduce(e, b);
        broken = broken || status != DHOW_OK;
        note(&e->own, status);
    }
    if (!waits) return;
    if (!broken && e->lost.status == DHOW_OK) {
        const dhow_status status =
            dhowi_comm_wait(e->setup.comm, dhowi_comm_patience(bytes), &rank);
        broken = status != DHOW_OK;
        note(&e->own, status);
    }
    if (broken || e->lost.status != DHOW_OK) give_up(e);
}

static void sum_all(void *user, uint32_t index) {
    dhowi_early *e = user;
    (void)index;
    e->done = true;
    if (e->setup.comm != NULL)
        sum_all_on_devices(e);
    else
        sum_all_on_host(e);
}

/* ---- making and ending ---- */

/* Memory that the device copies without a host thread between, where it has such. */
static dhow_status make_host(const dhowi_early *e, member *m) {
    int64_t count = 0;
    for (uint32_t b = 0; b < e->buckets.count; b++) count += e->buckets.elements[b];
    const dhow_dtype dtype = e->setup.dtype;
    const dhow_status status = dhow_tensor_create_pinned(m->device, dtype, 1, &count, &m->host);
    if (status != DHOW_UNSUPPORTED) return status;
    dhowi_error_clear();
    return dhow_tensor_create(m->device->context->cpu, dtype, 1, &count, &m->host);
}

static dhow_status make_way(const dhowi_early *e, member *m) {
    if (e->setup.comm != NULL || dhowi_device_is_host(m->device)) return DHOW_OK;
    if (m->host == NULL) DHOWI_TRY(make_host(e, m));
    return m->copies == NULL ? dhow_stream_create(m->device, &m->copies) : DHOW_OK;
}

static dhow_status start(dhowi_early *e) {
    const size_t bytes = e->count * sizeof *e->members;
    e->members = dhowi_alloc(bytes);
    if (e->members == NULL) return dhowi_fail_memory(k_create);
    memset(e->members, 0, bytes);
    for (uint32_t i = 0; i < e->count; i++) e->members[i].device = e->setup.devices[i];
    DHOWI_TRY(make_way(e, &e->members[0]));
    pthread_cond_init(&e->arrival, NULL);
    e->has_arrival = true;
    return dhowi_team_start(&e->team, k_create, 1, sum_all, e);
}

dhow_status dhowi_early_make(const dhowi_early_setup *setup, dhowi_early **out) {
    dhowi_early *e = *out = dhowi_alloc(sizeof *e);
    if (e == NULL) return dhowi_fail_memory(k_create);
    *e = (dhowi_early){.setup = *setup, .buckets = *setup->buckets, .count = setup->count};
    return start(e);
}

void dhowi_early_end(dhowi_early *e) {
    if (e == NULL) return;
    dhowi_team_end(&e->team);
    if (e->has_arrival) pthread_cond_destroy(&e->arrival);
    for (uint32_t i = 0; e->members != NULL && i < e->count; i++) {
        dhow_stream_release(e->members[i].copies);
        dhow_tensor_release(e->members[i].host);
    }
    dhowi_free(e->members);
    dhowi_free(e);
}

/* ---- a backward ---- */

void dhowi_early_begin(dhowi_early *e, dhow_tensor *const *arrays, bool usable) {
    e->parts = 0;
    for (uint32_t i = 0; i < e->count; i++) {
        e->members[i].array = arrays[i];
        e->members[i].told = 0;
        e->parts += arrays[i] != NULL;
    }
    memset(e->told, 0, sizeof e->told);
    e->usable = usable;
    e->given = 0;
    e->failed = false;
    e->own.status = e->lost.status = DHOW_OK;
    dhowi_team_begin(&e->team);
}

/* Handed in before the rest of the backward, for the stream waits for that behind the copy: buckets
 * that are being written share the storage. */
static dhow_status send(const dhowi_early *e, const member *m, uint32_t bucket,
                        dhow_stream *stream) {
    dhow_tensor *src, *dst = NULL;
    DHOWI_TRY(dhowi_stream_follow(m->copies, stream));
    DHOWI_TRY(part_of(e, m->array, bucket, &src));
    dhow_status status = part_of(e, m->host, bucket, &dst);
    if (status == DHOW_OK) status = dhow_copy_async(m->copies, src, dst, DHOW_COPY_UNORDERED);
    dhow_tensor_release(src);
    dhow_tensor_release(dst);
    return status;
}

dhow_status dhowi_early_ready(dhowi_early *e, uint32_t index, uint32_t bucket,
                              dhow_stream *stream) {
    member *m = &e->members[index];
    DHOWI_TRY(make_way(e, m)); /* the first time: devices that sum by themselves need none */
    if (m->copies != NULL) DHOWI_TRY(send(e, m, bucket, stream));
    const dhowi_timepoint point = dhowi_stream_tail(m->copies != NULL ? m->copies : stream);
    DHOWI_TRY(dhowi_fence_init(&m->written[bucket], point));
    m->told = bucket + 1;
    pthread_mutex_lock(&e->team.mutex);
    if (++e->told[bucket] == e->parts) e->given = bucket + 1; /* the last one has told all before */
    pthread_cond_signal(&e->arrival);
    pthread_mutex_unlock(&e->team.mutex);
    return DHOW_OK;
}

dhow_status dhowi_early_settle(const dhowi_early *e, uint32_t index) {
    const member *m = &e->members[index];
    return m->copies != NULL ? dhow_stream_sync(m->copies) : DHOW_OK;
}

/* Of a failed process nothing goes on, so that the next backward finds all as it was. */
static void end_backward(dhowi_early *e, bool failed) {
    for (uint32_t i = 0; i < e->count; i++) {
        member *m = &e->members[i];
        if (failed && m->copies != NULL && dhow_stream_sync(m->copies) != DHOW_OK)
            dhowi_error_clear();
        for (uint32_t b = 0; b < m->told; b++) dhowi_fence_end(&m->written[b]);
    }
}

dhow_status dhowi_early_finish(dhowi_early *e, dhow_stream *stream, dhowi_saved_error *own,
                               bool *done) {
    member *first = &e->members[0];
    pthread_mutex_lock(&e->team.mutex);
    e->failed = own->status != DHOW_OK;
    pthread_cond_signal(&e->arrival);
    pthread_mutex_unlock(&e->team.mutex);
    dhowi_team_wait(&e->team);
    *done = e->done;
    end_backward(e, own->status != DHOW_OK || e->own.status != DHOW_OK);
    if (e->lost.status != DHOW_OK) return dhowi_error_raise(&e->lost);
    if (own->status == DHOW_OK && e->own.status != DHOW_OK) *own = e->own;
    if (own->status == DHOW_OK && first->copies != NULL)
        note(own, dhow_copy_async(stream, first->host, first->array, 0));
    return DHOW_OK;
}
