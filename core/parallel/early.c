/* SPDX-License-Identifier: Apache-2.0
 *
 * See early.h.
 */
#include "parallel/early.h"

#include "base/memory/alloc.h"
#include "dhow/copy.h"
#include "dhow/create.h"
#include "parallel/team.h"
#include "stream/stream.h"
#include "tensor/tensor.h"

static const char k_create[] = "dhow_trainer_create";

struct dhowi_early {
    dhow_device *device;
    dhow_dtype dtype;
    dhowi_buckets buckets;
    dhowi_early_sum *sum;
    void *user;
    dhowi_team team; /* the thread */
    pthread_cond_t arrival;
    bool has_arrival;    /* it was made */
    dhow_stream *copies; /* to the host; NULL: gradients are there */
    dhow_tensor *host;
    /* Of a backward. */
    dhow_tensor *array;
    dhowi_fence written[DHOWI_MAX_BUCKETS];
    dhowi_saved_error own;  /* of this process; the thread's until it is done */
    dhowi_saved_error lost; /* of a sum: no more can be made */
    uint32_t given;         /* buckets; it and the next under the team's mutex */
    bool failed;            /* gradients that were not given are of no use */
};

static void note(dhowi_saved_error *own, dhow_status status) {
    if (status != DHOW_OK && own->status == DHOW_OK) dhowi_error_save(own, status);
}

/* ---- the thread ---- */

static dhow_status sum_bucket(dhowi_early *e, uint32_t bucket) {
    const dhow_tensor *t = e->copies != NULL ? e->host : e->array;
    char *data = (char *)t->storage->host + dhowi_tensor_offset_bytes(t) +
                 (uint64_t)e->buckets.first[bucket] * dhow_dtype_bytes(t->dtype);
    if (e->own.status == DHOW_OK) note(&e->own, dhowi_fence_wait(&e->written[bucket]));
    return e->sum(e->user, t->dtype, data, e->buckets.elements[bucket]);
}

/* Whether the bucket is of use; waits for it. */
static bool await(dhowi_early *e, uint32_t bucket) {
    pthread_mutex_lock(&e->team.mutex);
    while (e->given <= bucket && !e->failed) pthread_cond_wait(&e->arrival, &e->team.mutex);
    const bool given = e->given > bucket;
    pthread_mutex_unlock(&e->team.mutex);
    return given;
}

static void sum_all(void *user, uint32_t index) {
    dhowi_early *e = user;
    (void)index;
    for (uint32_t b = 0; b < e->buckets.count && e->lost.status == DHOW_OK; b++) {
        if (!await(e, b) && e->own.status == DHOW_OK)
            e->own = (dhowi_saved_error){.status = DHOW_INTERNAL}; /* its caller has the reason */
        note(&e->lost, sum_bucket(e, b));
    }
}

/* ---- making and ending ---- */

/* Memory that the device copies without a host thread between, where it has such. */
static dhow_status make_host(dhowi_early *e) {
    int64_t count = 0;
    for (uint32_t b = 0; b < e->buckets.count; b++) count += e->buckets.elements[b];
    const dhow_status status = dhow_tensor_create_pinned(e->device, e->dtype, 1, &count, &e->host);
    if (status != DHOW_UNSUPPORTED) return status;
    dhowi_error_clear();
    return dhow_tensor_create(e->device->context->cpu, e->dtype, 1, &count, &e->host);
}

static dhow_status start(dhowi_early *e) {
    if (!dhowi_device_is_host(e->device)) {
        DHOWI_TRY(make_host(e));
        DHOWI_TRY(dhow_stream_create(e->device, &e->copies));
    }
    pthread_cond_init(&e->arrival, NULL);
    e->has_arrival = true;
    return dhowi_team_start(&e->team, k_create, 1, sum_all, e);
}

dhow_status dhowi_early_make(dhow_device *device, dhow_dtype dtype, const dhowi_buckets *buckets,
                             dhowi_early_sum *sum, void *user, dhowi_early **out) {
    dhowi_early *e = *out = dhowi_alloc(sizeof *e);
    if (e == NULL) return dhowi_fail_memory(k_create);
    *e = (dhowi_early){
        .device = device, .dtype = dtype, .buckets = *buckets, .sum = sum, .user = user};
    return start(e);
}

void dhowi_early_end(dhowi_early *e) {
    if (e == NULL) return;
    dhowi_team_end(&e->team);
    if (e->has_arrival) pthread_cond_destroy(&e->arrival);
    dhow_stream_release(e->copies);
    dhow_tensor_release(e->host);
    dhowi_free(e);
}

/* ---- a backward ---- */

void dhowi_early_begin(dhowi_early *e, dhow_tensor *array) {
    e->array = array;
    e->given = 0;
    e->failed = false;
    e->own.status = e->lost.status = DHOW_OK;
    dhowi_team_begin(&e->team);
}

static dhow_status part_of(const dhowi_early *e, dhow_tensor *whole, uint32_t bucket,
                           dhow_tensor **out) {
    return dhow_tensor_narrow(whole, 0, e->buckets.first[bucket], e->buckets.elements[bucket], out);
}

/* Handed in before the rest of the backward, for the stream waits for that behind the copy: buckets
 * that are being written share the storage. */
static dhow_status send(const dhowi_early *e, uint32_t bucket, dhow_stream *stream) {
    dhow_tensor *src, *dst = NULL;
    DHOWI_TRY(dhowi_stream_follow(e->copies, stream));
    DHOWI_TRY(part_of(e, e->array, bucket, &src));
    dhow_status status = part_of(e, e->host, bucket, &dst);
    if (status == DHOW_OK) status = dhow_copy_async(e->copies, src, dst, DHOW_COPY_UNORDERED);
    dhow_tensor_release(src);
    dhow_tensor_release(dst);
    return status;
}

dhow_status dhowi_early_ready(dhowi_early *e, uint32_t bucket, dhow_stream *stream) {
    if (e->copies != NULL) DHOWI_TRY(send(e, bucket, stream));
    const dhowi_timepoint point = dhowi_stream_tail(e->copies != NULL ? e->copies : stream);
    DHOWI_TRY(dhowi_fence_init(&e->written[bucket], point));
    pthread_mutex_lock(&e->team.mutex);
    e->given = bucket + 1;
    pthread_cond_signal(&e->arrival);
    pthread_mutex_unlock(&e->team.mutex);
    return DHOW_OK;
}

/* A backward without samples has told of no bucket: its array is 0. */
dhow_status dhowi_early_finish(dhowi_early *e, dhow_stream *stream, dhowi_saved_error *own) {
    for (uint32_t b = e->given; b < e->buckets.count && own->status == DHOW_OK; b++)
        note(own, dhowi_early_ready(e, b, stream));
    pthread_mutex_lock(&e->team.mutex);
    e->failed = own->status != DHOW_OK;
    pthread_cond_signal(&e->arrival);
    pthread_mutex_unlock(&e->team.mutex);
    dhowi_team_wait(&e->team);
    for (uint32_t b = 0; b < e->given; b++) dhowi_fence_end(&e->written[b]);
    if (e->lost.status != DHOW_OK) return dhowi_error_raise(&e->lost);
    if (own->status == DHOW_OK && e->own.status != DHOW_OK) *own = e->own;
    if (own->status == DHOW_OK && e->copies != NULL)
        note(own, dhow_copy_async(stream, e->host, e->array, 0));
    return DHOW_OK;
}
