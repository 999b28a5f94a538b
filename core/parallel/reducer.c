/* SPDX-License-Identifier: Apache-2.0
 *
 * See reducer.h. A bucket of the backend's operation, or one that goes from device to device, is
 * handed in for all devices by the last member that tells of it, so that a member that fails before
 * leaves nobody waiting for it.
 */
#include "parallel/reducer.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "copy/engine.h"
#include "dhow/copy.h"
#include "dhow/create.h"
#include "dhow/ops.h"
#include "kernel/kernel.h"
#include "parallel/comm.h"
#include "stream/stream.h"

enum { LEAST_THAT_PASS = 3 }; /* of two devices the first one's link is no narrower */
static const char k_what[] = "sums between devices";
static const uint64_t k_piece_bytes = UINT64_C(4) << 20; /* that is passed on while others come */

struct dhowi_reducer {
    uint32_t count;
    dhow_device *devices[DHOWI_MAX_MEMBERS];
    dhow_dtype dtype;
    dhowi_buckets buckets;
    /* By the backend. */
    dhowi_comm *comm;
    bool refused; /* it was looked for in vain, and the log says why */
    uint32_t ranks, member_of[DHOWI_MAX_MEMBERS]; /* live ones */
    pthread_mutex_t mutex;                        /* the next two, and handing in */
    uint32_t told[DHOWI_MAX_BUCKETS];
    dhowi_timepoint written[DHOWI_MAX_BUCKETS][DHOWI_MAX_MEMBERS]; /* by bucket and rank */
    dhowi_saved_error error; /* of handing in, and whose it is */
    uint32_t failed;
    dhowi_reducer_summed *summed; /* NULL: nobody is told */
    void *user;
    /* From device to device. */
    bool passes;
    dhow_tensor *passed[DHOWI_MAX_MEMBERS]; /* what comes to a member */
    dhow_stream *sums[DHOWI_MAX_MEMBERS];
    uint32_t parts,
        part[DHOWI_MAX_MEMBERS]; /* of the round: the first member and those with rows */
    /* By copies. */
    dhow_tensor *arrived[DHOWI_MAX_MEMBERS]; /* arrays of other devices, on the first */
    dhow_stream *copies[DHOWI_MAX_MEMBERS];
    /* Of the round. */
    dhow_tensor *arrays[DHOWI_MAX_MEMBERS];
    bool counts[DHOWI_MAX_MEMBERS]; /* has rows */
};

/* ---- making and ending ---- */

dhow_status dhowi_reducer_create(dhow_device *const *devices, uint32_t count, dhow_dtype dtype,
                                 const dhowi_buckets *buckets, dhowi_reducer **out) {
    dhowi_reducer *r = *out = dhowi_alloc(sizeof *r);
    if (r == NULL) return dhowi_fail_memory(k_what);
    *r = (dhowi_reducer){.count = count, .dtype = dtype, .buckets = *buckets};
    memcpy(r->devices, devices, count * sizeof(dhow_device *));
    pthread_mutex_init(&r->mutex, NULL);
    return DHOW_OK;
}

void dhowi_reducer_divide(dhowi_reducer *r, const dhowi_buckets *buckets) { r->buckets = *buckets; }

void dhowi_reducer_tell(dhowi_reducer *r, dhowi_reducer_summed *summed, void *user) {
    r->summed = summed;
    r->user = user;
}

static void drop_comm(dhowi_reducer *r) {
    dhowi_comm_end(r->comm);
    r->comm = NULL;
}

void dhowi_reducer_end(dhowi_reducer *r) {
    if (r == NULL) return;
    drop_comm(r);
    for (uint32_t i = 0; i < r->count; i++) {
        dhow_tensor_release(r->arrived[i]);
        dhow_stream_release(r->copies[i]);
        dhow_tensor_release(r->passed[i]);
        dhow_stream_release(r->sums[i]);
    }
    pthread_mutex_destroy(&r->mutex);
    dhowi_free(r);
}

/* Whoever is no part of a group of ranks has failed, and so is not live. */
static bool same_ranks(const dhowi_reducer *r, const uint32_t *members, uint32_t count) {
    return r->ranks == count && memcmp(r->member_of, members, count * sizeof *members) == 0;
}

static void find_comm(dhowi_reducer *r) {
    dhow_device *devices[DHOWI_MAX_MEMBERS];
    const dhowi_log *log = &r->devices[0]->context->log;
    for (uint32_t i = 0; i < r->ranks; i++) devices[i] = r->devices[r->member_of[i]];
    const dhow_status status = dhowi_comm_create(devices, r->ranks, &r->comm);
    if (status == DHOW_OK) return;
    r->refused = true;
    dhowi_log_line(log, status == DHOW_UNSUPPORTED ? DHOW_LOG_INFO : DHOW_LOG_WARN,
                   "gradients are added up by copies to %s%s: %s", r->devices[0]->name,
                   r->passes ? ", from device to device" : "", dhow_last_error());
    dhowi_error_clear();
}

/* Whether all live devices reach each other. */
static bool can_pass(const dhowi_reducer *r) {
    if (r->ranks < LEAST_THAT_PASS) return false;
    for (uint32_t i = 0; i < r->ranks; i++) {
        dhow_device *to = r->devices[r->member_of[i]];
        if (dhowi_device_is_host(to)) return false;
        for (uint32_t k = i + 1; k < r->ranks; k++) {
            dhow_device *from = r->devices[r->member_of[k]];
            if (from == to || !dhowi_peer_works(to, from)) return false;
        }
    }
    return true;
}

static int64_t elements_of(const dhowi_reducer *r) {
    int64_t elements = 0;
    for (uint32_t b = 0; b < r->buckets.count; b++) elements += r->buckets.elements[b];
    return elements;
}

static dhow_status make_copies(dhowi_reducer *r, uint32_t i) {
    const int64_t elements = elements_of(r);
    if (i == 0 || r->arrived[i] != NULL) return DHOW_OK;
    /* A copy between devices is work of the one that is written, and of the other beside a host. */
    dhow_device *worker = r->devices[dhowi_device_is_host(r->devices[0]) ? i : 0];
    if (r->copies[i] == NULL) DHOWI_TRY(dhow_stream_create(worker, &r->copies[i]));
    return dhowi_tensor_new(r->devices[0], r->dtype, 1, &elements, &r->arrived[i]);
}

static dhow_status make_pass(dhowi_reducer *r, uint32_t i) {
    const int64_t elements = elements_of(r);
    if (r->passed[i] != NULL) return DHOW_OK;
    if (r->sums[i] == NULL) DHOWI_TRY(dhow_stream_create(r->devices[i], &r->sums[i]));
    return dhowi_tensor_new(r->devices[i], r->dtype, 1, &elements, &r->passed[i]);
}

dhow_status dhowi_reducer_prepare(dhowi_reducer *r, const bool *live, bool copies) {
    uint32_t members[DHOWI_MAX_MEMBERS], count = 0;
    const bool may = r->devices[0]->context->collectives;
    for (uint32_t i = 0; i < r->count; i++)
        if (live[i]) members[count++] = i;
    if (!same_ranks(r, members, count)) {
        drop_comm(r);
        r->ranks = count;
        memcpy(r->member_of, members, count * sizeof *members);
        r->passes = may && can_pass(r);
    }
    if (count < 2) return DHOW_OK;
    if (r->comm == NULL && !r->refused && may) find_comm(r);
    copies = copies && r->comm == NULL;
    for (uint32_t i = 0; i < count && copies; i++)
        DHOWI_TRY(r->passes ? make_pass(r, members[i]) : make_copies(r, members[i]));
    return DHOW_OK;
}

bool dhowi_reducer_wants(const dhowi_reducer *r, uint32_t member) {
    return r->comm != NULL || r->passes || member > 0;
}

/* ---- to the other devices ---- */

bool dhowi_reducer_broadcasts(const dhowi_reducer *r) { return r->comm != NULL; }

dhow_status dhowi_reducer_broadcast(dhowi_reducer *r, dhow_tensor *const *arrays,
                                    uint32_t *failed) {
    dhowi_comm_part parts[DHOWI_MAX_MEMBERS];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < r->ranks; i++)
        parts[i] = (dhowi_comm_part){arrays[r->member_of[i]], arrays[r->member_of[i]]};
    dhow_status status =
        dhowi_comm_run(r->comm, DHOW_COLL_BROADCAST, 0, parts, arrays[0]->count, true, &rank);
    if (status == DHOW_OK) status = dhowi_comm_wait(r->comm, 0, &rank);
    *failed = r->member_of[rank];
    return status;
}

/* ---- a round ---- */

/* Those without rows take part with zeros. */
static dhow_status take_part(dhowi_reducer *r, uint32_t member) {
    dhow_stream *stream;
    DHOWI_TRY(dhow_stream_default(r->devices[member], &stream));
    DHOWI_TRY(dhow_fill(stream, r->arrays[member], 0));
    for (uint32_t b = 0; b < r->buckets.count; b++)
        DHOWI_TRY(dhowi_reducer_ready(r, member, b, stream));
    return DHOW_OK;
}

dhow_status dhowi_reducer_begin(dhowi_reducer *r, dhow_stream *stream, dhow_tensor *const *arrays,
                                const int64_t *rows) {
    memset(r->told, 0, sizeof r->told);
    r->error.status = DHOW_OK;
    r->failed = 0;
    r->parts = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        r->arrays[i] = arrays[i];
        r->counts[i] = rows[i] > 0;
        /* What arrived the last time has been added up before it is written again. */
        if (r->comm == NULL && r->counts[i] && r->copies[i] != NULL)
            DHOWI_TRY(dhowi_stream_follow(r->copies[i], stream));
    }
    for (uint32_t i = 0; i < r->ranks; i++) {
        const uint32_t member = r->member_of[i];
        if (r->comm != NULL || member == 0 || r->counts[member]) r->part[r->parts++] = member;
    }
    for (uint32_t k = 0; k < r->parts && (r->comm != NULL || r->passes); k++)
        if (!r->counts[r->part[k]]) DHOWI_TRY(take_part(r, r->part[k]));
    if (r->comm == NULL && !r->passes && rows[0] == 0) return dhow_fill(stream, arrays[0], 0);
    return DHOW_OK;
}

static dhow_status part_of(const dhowi_reducer *r, dhow_tensor *array, uint32_t bucket,
                           dhow_tensor **out) {
    return dhow_tensor_narrow(array, 0, r->buckets.first[bucket], r->buckets.elements[bucket], out);
}

static dhow_status send(dhowi_reducer *r, uint32_t member, uint32_t bucket, dhow_stream *stream) {
    dhow_tensor *src, *dst = NULL;
    DHOWI_TRY(dhowi_stream_follow(r->copies[member], stream));
    DHOWI_TRY(part_of(r, r->arrays[member], bucket, &src));
    dhow_status status = part_of(r, r->arrived[member], bucket, &dst);
    if (status == DHOW_OK) /* buckets that are being written share its storage */
        status = dhow_copy_async(r->copies[member], src, dst, DHOW_COPY_UNORDERED);
    dhow_tensor_release(src);
    dhow_tensor_release(dst);
    return status;
}

static dhow_status reduce(const dhowi_reducer *r, uint32_t bucket, uint32_t *failed) {
    dhowi_comm_part parts[DHOWI_MAX_MEMBERS] = {{NULL, NULL}};
    *failed = 0;
    dhow_status status = DHOW_OK;
    for (uint32_t i = 0; i < r->ranks && status == DHOW_OK; i++)
        status = part_of(r, r->arrays[r->member_of[i]], bucket, &parts[i].in);
    parts[0].out = parts[0].in;
    if (status == DHOW_OK)
        status = dhowi_comm_run(r->comm, DHOW_COLL_REDUCE, 0, parts, r->buckets.elements[bucket],
                                false, failed);
    for (uint32_t i = 0; i < r->ranks; i++) dhow_tensor_release(parts[i].in);
    return status;
}

static dhow_status add_to(dhow_stream *stream, dhow_tensor *y, const dhow_tensor *x) {
    dhow_kernel *kernel;
    DHOWI_TRY(dhowi_builtin_kernel_named(stream->device,
                                         y->dtype == DHOW_F64 ? "add_f64" : "add_f32", &kernel));
    const dhow_arg args[] = {dhowi_arg_buffer(y, DHOW_ACCESS_READ),
                             dhowi_arg_buffer(x, DHOW_ACCESS_READ),
                             dhowi_arg_buffer(y, DHOW_ACCESS_WRITE), dhowi_arg_i64(y->count)};
    return dhowi_launch(stream, kernel, y->count, y->count, args, 4, NULL, 0);
}

/* From a part to the one before it, which adds. Buckets that are being written share storages, so
 * these order nothing: streams have been made to wait for the bucket. */
static dhow_status pass_piece(const dhowi_reducer *r, uint32_t k, int64_t first, int64_t elements) {
    const uint32_t to = r->part[k], from = r->part[k + 1];
    dhow_stream *stream = r->sums[to];
    dhow_tensor *src, *dst = NULL, *sum = NULL;
    DHOWI_TRY(dhow_tensor_narrow(r->arrays[from], 0, first, elements, &src));
    dhow_status status = dhow_tensor_narrow(r->passed[to], 0, first, elements, &dst);
    if (status == DHOW_OK) status = dhow_tensor_narrow(r->arrays[to], 0, first, elements, &sum);
    if (status == DHOW_OK) status = dhow_copy_async(stream, src, dst, DHOW_COPY_UNORDERED);
    if (status == DHOW_OK) status = add_to(stream, sum, dst);
    dhow_tensor_release(src);
    dhow_tensor_release(dst);
    dhow_tensor_release(sum);
    return status;
}

/* In pieces from the last part to the first, which all do at once: each link carries one array,
 * where that of the first device would carry those of all others. */
static dhow_status pass_on(const dhowi_reducer *r, uint32_t bucket, uint32_t *failed) {
    const int64_t piece = (int64_t)(k_piece_bytes / dhow_dtype_bytes(r->dtype)),
                  end = r->buckets.first[bucket] + r->buckets.elements[bucket];
    for (uint32_t k = 0; k < r->parts && r->parts > 1; k++) {
        const uint32_t at = DHOWI_MIN(k, r->parts - 2); /* the last one's is read by the next */
        *failed = k;
        DHOWI_TRY(dhowi_stream_wait_timepoint(r->sums[r->part[at]], r->written[bucket][k]));
    }
    for (int64_t at = r->buckets.first[bucket]; at < end; at += piece) {
        for (uint32_t k = r->parts - 1; k-- > 0;) {
            *failed = k;
            if (k + 2 < r->parts)
                DHOWI_TRY(dhowi_stream_follow(r->sums[r->part[k]], r->sums[r->part[k + 1]]));
            DHOWI_TRY(pass_piece(r, k, at, DHOWI_MIN(piece, end - at)));
        }
    }
    return DHOW_OK;
}

/* Streams wait for the bucket alone, not for what they were given behind it meanwhile. */
static dhow_status hand_in(dhowi_reducer *r, uint32_t bucket, uint32_t *failed) {
    if (r->comm == NULL) return pass_on(r, bucket, failed);
    for (*failed = 0; *failed < r->ranks; ++*failed)
        DHOWI_TRY(dhowi_stream_wait_timepoint(dhowi_comm_stream(r->comm, *failed),
                                              r->written[bucket][*failed]));
    DHOWI_TRY(reduce(r, bucket, failed));
    *failed = 0;
    return r->summed != NULL ? r->summed(r->user, bucket, dhowi_comm_stream(r->comm, 0)) : DHOW_OK;
}

/* Under the mutex. The failure of another member's device is not this member's. */
static void hand_in_or_keep(dhowi_reducer *r, uint32_t bucket) {
    uint32_t rank;
    if (r->error.status != DHOW_OK) return;
    const dhow_status status = hand_in(r, bucket, &rank);
    if (status == DHOW_OK) return;
    dhowi_error_save(&r->error, status);
    r->failed = r->part[rank];
    dhowi_error_clear();
}

static dhow_status tell(dhowi_reducer *r, uint32_t member, uint32_t bucket, dhow_stream *stream) {
    const dhowi_timepoint point = dhowi_stream_tail(stream);
    uint32_t rank = 0;
    while (r->part[rank] != member) rank++;
    DHOWI_TRY(dhowi_stream_ensure_event(point));
    pthread_mutex_lock(&r->mutex);
    r->written[bucket][rank] = point;
    if (++r->told[bucket] == r->parts) hand_in_or_keep(r, bucket);
    pthread_mutex_unlock(&r->mutex);
    return DHOW_OK;
}

dhow_status dhowi_reducer_ready(dhowi_reducer *r, uint32_t member, uint32_t bucket,
                                dhow_stream *stream) {
    if (r->comm != NULL || r->passes) return tell(r, member, bucket, stream);
    return member > 0 ? send(r, member, bucket, stream) : DHOW_OK;
}

dhow_status dhowi_reducer_settle(dhowi_reducer *r, uint32_t member) {
    return r->comm == NULL && !r->passes && member > 0 ? dhow_stream_sync(r->copies[member])
                                                       : DHOW_OK;
}

dhow_status dhowi_reducer_finish(dhowi_reducer *r, dhow_stream *stream, uint32_t *failed) {
    *failed = r->failed;
    if (r->error.status != DHOW_OK) return dhowi_error_raise(&r->error);
    if (r->comm != NULL) {
        const dhow_status status = dhowi_comm_wait(r->comm, 0, failed);
        *failed = r->member_of[*failed];
        return status;
    }
    for (uint32_t k = r->parts; k-- > 0 && r->passes;) { /* nobody else's stream waits for these */
        *failed = r->part[k];
        DHOWI_TRY(dhow_stream_sync(r->sums[*failed]));
    }
    for (uint32_t i = 1; i < r->count && !r->passes; i++)
        if (r->counts[i]) DHOWI_TRY(dhow_add(stream, r->arrays[0], r->arrived[i], r->arrays[0]));
    return DHOW_OK;
}

void dhowi_reducer_give_up(dhowi_reducer *r) {
    if (r->comm != NULL) dhowi_comm_give_up(r->comm);
    drop_comm(r);
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->copies[i] != NULL && dhow_stream_sync(r->copies[i]) != DHOW_OK) dhowi_error_clear();
        if (r->sums[i] != NULL && dhow_stream_sync(r->sums[i]) != DHOW_OK) dhowi_error_clear();
    }
}
