/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches that several devices share: each has the training graph and does its samples on a thread,
 * with the first one's parameters. The losses of parts are multiplied by their share of the whole
 * batch, so gradients only need to be added up; that is done on the first device, bucket by bucket
 * while they are made (parallel/reducer.h), or with those of other processes (parallel/early.h),
 * and it alone makes the optimiser's step. So there is one state, and replicas cannot drift apart.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "base/text/text.h"
#include "base/threads/clock.h"
#include "dhow/copy.h"
#include "dhow/create.h"
#include "parallel/early.h"
#include "parallel/parallel.h"
#include "parallel/reducer.h"
#include "parallel/team.h"
#include "stream/stream.h"
#include "tensor/tensor.h"
#include "train/train.h"

static const char k_create[] = "dhow_trainer_create";
static const uint64_t k_bucket_bytes = UINT64_C(25) << 20; /* as DistributedDataParallel's */

typedef struct part {
    struct dhowi_division *division;
    dhow_device *device;
    dhow_trainer *replica; /* of the first part the trainer itself */
    dhow_tensor **columns; /* its rows of the inputs, then of the target; room for them */
    int64_t begin, rows;
    double loss, seconds;
    dhow_status status;
    dhowi_saved_error error, gone; /* why it is left out */
} part;

/* How the gradients of a round reach the sums over processes. */
typedef enum way {
    LATE,    /* they are added up afterwards, or there are no processes */
    DIRECT,  /* each part's buckets go there by themselves */
    REDUCED, /* the backend adds up each bucket within the process before */
} way;

struct dhowi_division {
    dhow_trainer *t;
    dhowi_team team; /* of all parts but the first, which is the caller's */
    dhowi_shares shares;
    bool fixed_shares, skips;
    part *parts;
    dhowi_reducer *reducer; /* of gradients; its members are the parts */
    dhowi_buckets buckets;
    uint64_t bucket_bytes;
    uint32_t *groups;   /* the bucket of each output of the training graph */
    dhowi_early *early; /* with processes, whose sums begin early; NULL: after the backward */
    double loss;        /* of the backward before */
    /* Of the backward that runs. */
    way way; /* of its round */
    dhow_stream *stream;
    dhow_tensor *const *inputs;
    dhow_tensor *target;
    bool more;
    uint64_t key;
    double began;
    int64_t rows;      /* of this process */
    dhowi_place place; /* of these in the batch of all processes */
};

/* ---- making ---- */

dhow_status dhowi_division_check(const dhow_trainer *t, const dhow_trainer_options *o) {
    const dhow_model *m = t->model;
    char text[160];
    if (o->devices == NULL && o->device_count == 0) return DHOW_OK;
    if (o->devices == NULL || o->device_count == 0 || o->device_count > DHOWI_MAX_MEMBERS)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %u devices; 1 to %d are allowed", k_create,
                          o->devices == NULL ? 0 : o->device_count, DHOWI_MAX_MEMBERS);
    for (uint32_t i = 0; i < o->device_count; i++) {
        DHOWI_TRY(dhowi_device_check(o->devices[i], k_create));
        if (o->devices[i]->context != m->context)
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: the model and devices[%u] belong to different contexts",
                              k_create, i);
    }
    if (o->devices[0] != t->graph->device)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: devices[0] is %s, the model is on %s; name its device first, or "
                          "move it with dhow_model_to()",
                          k_create, o->devices[0]->name, t->graph->device->name);
    for (uint32_t i = 0; i < t->input_count && o->device_count > 1; i++) {
        const dhowi_value *v = &m->values[m->inputs[i]];
        if (v->desc.rank < 0 || (v->desc.rank > 0 && v->desc.shape[0] < 0)) continue;
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: input '%.64s' is %s; to be divided among devices, samples are its "
                          "first dimension, and its extent is open, -1",
                          k_create, v->name, dhowi_desc_text(&v->desc, text, sizeof text));
    }
    return dhowi_parallel_check_shares(k_create, o->shares, o->device_count);
}

static dhow_status make_part(const dhowi_division *d, uint32_t i) {
    dhow_trainer *t = d->t;
    part *p = &d->parts[i];
    const size_t columns = (size_t)t->input_count + 1;
    p->columns = dhowi_alloc_array(columns, sizeof(dhow_tensor *));
    if (p->columns == NULL) return dhowi_fail_memory(k_create);
    memset(p->columns, 0, columns * sizeof(dhow_tensor *));
    if (i == 0) {
        p->replica = t;
        return DHOW_OK;
    }
    dhow_status status = dhowi_replica_of(t, p->device, &p->replica);
    if (status != DHOW_OK) return dhowi_fail_prefix(status, "devices[%u], %s", i, p->device->name);
    return DHOW_OK;
}

/* Outputs of the graph are the loss, gradients, and what belongs to no bucket. */
static dhow_status make_buckets(dhowi_division *d) {
    const dhow_trainer *t = d->t;
    const uint32_t outputs = t->graph->output_count;
    const uint64_t wanted = d->bucket_bytes / dhow_dtype_bytes(t->dtype);
    int64_t *firsts = dhowi_alloc_array((size_t)t->trained_count + 1, sizeof *firsts);
    if (d->groups == NULL) d->groups = dhowi_alloc_array((size_t)outputs + 1, sizeof *d->groups);
    if (firsts == NULL || d->groups == NULL) {
        dhowi_free(firsts);
        return dhowi_fail_memory(k_create);
    }
    for (uint32_t i = 0; i < t->trained_count; i++) firsts[i] = t->trained[i].first;
    dhowi_buckets_divide(firsts, t->trained_count, t->count,
                         (int64_t)DHOWI_MIN(wanted, (uint64_t)INT64_MAX), d->groups + 1,
                         &d->buckets);
    d->groups[0] = d->buckets.count;
    for (uint32_t i = 1 + t->trained_count; i < outputs; i++) d->groups[i] = d->buckets.count;
    dhowi_free(firsts);
    return DHOW_OK;
}

static dhow_status make_reducer(dhowi_division *d) {
    dhow_device *devices[DHOWI_MAX_MEMBERS];
    for (uint32_t i = 0; i < d->shares.count; i++) devices[i] = d->parts[i].device;
    DHOWI_TRY(make_buckets(d));
    DHOWI_TRY(
        dhowi_reducer_create(devices, d->shares.count, d->t->dtype, &d->buckets, &d->reducer));
    return dhowi_reducer_prepare(d->reducer, d->shares.live, d->t->group.size < 2);
}

static void do_part(void *division, uint32_t index);

static dhow_status start(dhowi_division *d, const dhow_trainer_options *o) {
    const uint32_t count = o->device_count > 0 ? o->device_count : 1;
    d->parts = dhowi_alloc_array(count, sizeof *d->parts);
    if (d->parts == NULL) return dhowi_fail_memory(k_create);
    memset(d->parts, 0, count * sizeof *d->parts);
    d->fixed_shares = o->fixed_shares != 0;
    d->skips = o->skip_failed_devices != 0;
    for (; d->shares.count < count; d->shares.count++) {
        const uint32_t i = d->shares.count;
        d->parts[i].division = d;
        d->parts[i].device = count > 1 ? o->devices[i] : d->t->graph->device;
        d->shares.live[i] = true;
        d->shares.share[i] = o->shares != NULL ? o->shares[i] : 1;
    }
    for (uint32_t i = 0; i < count; i++) DHOWI_TRY(make_part(d, i));
    d->bucket_bytes = o->bucket_bytes > 0 ? o->bucket_bytes : k_bucket_bytes;
    DHOWI_TRY(make_reducer(d));
    return dhowi_team_start(&d->team, k_create, count - 1, do_part, d);
}

dhow_status dhowi_division_make(dhow_trainer *t, const dhow_trainer_options *options) {
    t->division = dhowi_alloc(sizeof *t->division);
    if (t->division == NULL) return dhowi_fail_memory(k_create);
    *t->division = (dhowi_division){.t = t};
    return start(t->division, options);
}

static dhow_status sum_over_group(void *division, dhow_dtype dtype, void *data, int64_t count) {
    const dhowi_division *d = division;
    return dhowi_group_add_up(&d->t->group, dtype, data, count);
}

static dhow_status bucket_reduced(void *division, uint32_t bucket, dhow_stream *stream) {
    const dhowi_division *d = division;
    return d->way == REDUCED ? dhowi_early_ready(d->early, 0, bucket, stream) : DHOW_OK;
}

/* One bucket is not early. */
static dhow_status make_early(dhowi_division *d) {
    const dhow_trainer *t = d->t;
    dhow_device *devices[DHOWI_MAX_MEMBERS];
    for (uint32_t i = 0; i < d->shares.count; i++) devices[i] = d->parts[i].device;
    DHOWI_TRY(make_buckets(d));
    dhowi_reducer_divide(d->reducer, &d->buckets);
    dhowi_reducer_tell(d->reducer, bucket_reduced, d);
    if (d->buckets.count == 1) return DHOW_OK;
    return dhowi_early_make(&(dhowi_early_setup){.devices = devices,
                                                 .count = d->shares.count,
                                                 .processes = t->group.size,
                                                 .dtype = t->dtype,
                                                 .buckets = &d->buckets,
                                                 .sum = sum_over_group,
                                                 .user = d,
                                                 .comm = t->comm},
                            &d->early);
}

/* Devices that the backend adds up within the process, or one, may be summed by devices. */
static bool sums_by_devices(const dhowi_division *d) {
    uint32_t live = 0;
    for (uint32_t i = 0; i < d->shares.count; i++) live += d->shares.live[i];
    return live == 1 || dhowi_reducer_broadcasts(d->reducer);
}

dhow_status dhowi_division_join(dhowi_division *d, dhowi_saved_error *own) {
    bool early;
    uint64_t bytes = d->bucket_bytes;
    if (d->t->group.size < 2) return DHOW_OK;
    const bool able = d->t->comm == NULL || sums_by_devices(d);
    DHOWI_TRY(dhowi_group_agree_early(d->t, able, &bytes, &early));
    if (early) {
        d->bucket_bytes = bytes;
        dhowi_group_note(own, make_early(d));
    }
    if (d->early == NULL)
        dhowi_group_note(own, dhowi_reducer_prepare(d->reducer, d->shares.live, true));
    return DHOW_OK;
}

void dhowi_division_end(dhowi_division *d) {
    if (d == NULL) return;
    dhowi_early_end(d->early);
    dhowi_team_end(&d->team);
    dhowi_reducer_end(d->reducer);
    for (uint32_t i = 0; d->parts != NULL && i < d->shares.count; i++) {
        part *p = &d->parts[i];
        if (p->replica != NULL && p->replica != d->t) dhowi_replica_end(p->replica);
        dhowi_free(p->columns);
    }
    dhowi_free(d->parts);
    dhowi_free(d->groups);
    dhowi_free(d);
}

/* ---- the part of a device, on its thread ---- */

static dhow_status bring(const part *p, dhow_tensor *whole, dhow_stream *stream,
                         dhow_tensor **out) {
    dhow_tensor *rows;
    DHOWI_TRY(dhow_tensor_slice(whole, 0, p->begin, p->begin + p->rows, 1, &rows));
    dhow_status status = dhow_tensor_to_async(stream, rows, p->device, out);
    dhow_tensor_release(rows);
    return status;
}

static dhow_status bucket_written(void *user, uint32_t bucket, dhow_stream *stream) {
    const part *p = user;
    const dhowi_division *d = p->division;
    const uint32_t index = (uint32_t)(p - d->parts);
    return d->way == DIRECT ? dhowi_early_ready(d->early, index, bucket, stream)
                            : dhowi_reducer_ready(d->reducer, index, bucket, stream);
}

static dhow_status compute(const dhowi_division *d, part *p, dhow_stream *stream) {
    const dhow_trainer *t = d->t;
    dhow_trainer *r = p->replica;
    const double share = dhowi_loss_sums(&t->options) ? 1 : (double)p->rows;
    const dhowi_piece piece = {.key = d->key,
                               .first = d->place.first + p->begin,
                               .rows = p->rows,
                               .share = share / d->place.count,
                               .scale = t->options.loss_scale};
    for (uint32_t i = 0; i < t->input_count; i++)
        DHOWI_TRY(bring(p, d->inputs[i], stream, &p->columns[i]));
    if (t->has_target) DHOWI_TRY(bring(p, d->target, stream, &p->columns[t->input_count]));
    const bool more = r == t && d->more;
    const uint32_t index = (uint32_t)(p - d->parts);
    dhowi_output_groups groups = {
        .count = d->buckets.count, .group = d->groups, .written = bucket_written, .user = p};
    const bool tells = d->way == DIRECT || dhowi_reducer_wants(d->reducer, index);
    DHOWI_TRY(dhowi_replica_run(r, stream, p->columns, p->columns[t->input_count], more, &piece,
                                tells ? &groups : NULL));
    DHOWI_TRY(dhowi_replica_loss(r, &p->loss));
    DHOWI_TRY(dhow_stream_sync(stream));
    return d->way == DIRECT ? dhowi_early_settle(d->early, index)
                            : dhowi_reducer_settle(d->reducer, index);
}

static void work(const dhowi_division *d, part *p, dhow_stream *given) {
    dhow_stream *stream = NULL;
    p->loss = 0;
    if (p->rows == 0) return;
    if (p->status != DHOW_OK) (void)dhowi_error_raise(&p->error); /* of the caller's thread */
    if (p->status == DHOW_OK) p->status = dhowi_stream_resolve(given, p->device, k_create, &stream);
    if (p->status == DHOW_OK) p->status = compute(d, p, stream);
    for (uint32_t i = 0; i <= d->t->input_count; i++) {
        dhow_tensor_release(p->columns[i]);
        p->columns[i] = NULL;
    }
    p->seconds = dhowi_seconds() - d->began;
    if (p->status == DHOW_OK) return;
    p->status = dhowi_fail_prefix(p->status, "samples %" PRId64 " to %" PRId64 " on %s", p->begin,
                                  p->begin + p->rows - 1, p->device->name);
    dhowi_error_save(&p->error, p->status);
    if (stream != NULL && dhow_stream_sync(stream) != DHOW_OK) dhowi_error_clear(); /* told above */
}

static void do_part(void *division, uint32_t index) {
    const dhowi_division *d = division;
    work(d, &d->parts[index + 1], NULL);
}

/* ---- a backward ---- */

static void keep_failure(const dhowi_division *d, uint32_t i, dhow_status status) {
    part *p = &d->parts[i];
    if (status == DHOW_OK || p->status != DHOW_OK) return;
    p->status = status;
    dhowi_error_save(&p->error, status);
}

/* The parameters as they are now, for the program may have written them too. */
static dhow_status follow(const dhowi_division *d, const part *p) {
    const dhow_trainer *t = d->t, *r = p->replica;
    dhow_stream *stream;
    if (r == t || p->rows == 0) return DHOW_OK;
    DHOWI_TRY(dhow_stream_default(p->device, &stream));
    if (!dhowi_reducer_broadcasts(d->reducer))
        DHOWI_TRY(dhow_copy_async(stream, t->parameters, r->parameters, 0));
    if (t->running == NULL || t->running->count == 0) return DHOW_OK;
    return dhow_copy_async(stream, t->running, r->running, 0);
}

static way find_way(const dhowi_division *d) {
    if (d->early == NULL) return LATE;
    if (d->t->comm != NULL && !sums_by_devices(d)) return LATE;
    return dhowi_reducer_broadcasts(d->reducer) ? REDUCED : DIRECT;
}

static dhow_status begin_sums(const dhowi_division *d, dhow_tensor *const *gradients,
                              const int64_t *rows) {
    const dhow_trainer *t = d->t;
    dhow_tensor *parts[DHOWI_MAX_MEMBERS];
    const bool usable = d->way != LATE && (t->comm == NULL || dhowi_comm_is_usable(t->comm));
    for (uint32_t i = 0; i < d->shares.count; i++)
        parts[i] = i == 0 || (d->way == DIRECT && rows[i] > 0) ? gradients[i] : NULL;
    if (d->early != NULL) dhowi_early_begin(d->early, parts, usable);
    if (d->way != DIRECT) return dhowi_reducer_begin(d->reducer, d->stream, gradients, rows);
    if (rows[0] > 0) return DHOW_OK;
    DHOWI_TRY(dhow_fill(d->stream, gradients[0], 0));
    for (uint32_t b = 0; b < d->buckets.count; b++)
        DHOWI_TRY(dhowi_early_ready(d->early, 0, b, d->stream));
    return DHOW_OK;
}

static void set_out(dhowi_division *d) {
    dhow_tensor *parameters[DHOWI_MAX_MEMBERS], *gradients[DHOWI_MAX_MEMBERS];
    int64_t rows[DHOWI_MAX_MEMBERS];
    uint32_t failed = 0;
    const bool copies = d->early == NULL || d->t->comm != NULL;
    dhow_status status = dhowi_reducer_prepare(d->reducer, d->shares.live, copies);
    d->way = find_way(d);
    for (uint32_t i = 0; i < d->shares.count; i++) {
        dhow_trainer *r = d->parts[i].replica;
        parameters[i] = r->parameters;
        gradients[i] = i == 0 && d->more ? r->more : r->gradients;
        rows[i] = d->parts[i].rows;
    }
    if (status == DHOW_OK && dhowi_reducer_broadcasts(d->reducer))
        status = dhowi_reducer_broadcast(d->reducer, parameters, &failed);
    keep_failure(d, failed, status);
    for (uint32_t i = 0; i < d->shares.count; i++) keep_failure(d, i, follow(d, &d->parts[i]));
    keep_failure(d, 0, begin_sums(d, gradients, rows));
}

/* A batch norm has no variance of one sample: a part of one goes to the largest other. */
static void join_single_rows(const dhow_trainer *t, uint32_t count, int64_t *rows) {
    for (uint32_t i = 0; i < count && t->statistic_count > 0; i++) {
        uint32_t most = i == 0 && count > 1 ? 1 : 0;
        for (uint32_t k = 0; k < count; k++)
            if (k != i && rows[k] > rows[most]) most = k;
        if (rows[i] != 1 || most == i || rows[most] == 0) continue;
        rows[most]++;
        rows[i] = 0;
    }
}

/* Parameters set out before the first device begins: what is submitted later may wait for all that
 * it has. */
static void run_round(dhowi_division *d) {
    int64_t rows[DHOWI_MAX_MEMBERS], begin = 0;
    dhowi_shares_split(&d->shares, d->rows, rows);
    join_single_rows(d->t, d->shares.count, rows);
    d->began = dhowi_seconds();
    for (uint32_t i = 0; i < d->shares.count; i++) {
        part *p = &d->parts[i];
        p->begin = begin;
        p->rows = rows[i];
        begin += rows[i];
        p->status = DHOW_OK;
    }
    set_out(d);
    dhowi_team_begin(&d->team);
    work(d, &d->parts[0], d->stream);
    dhowi_team_wait(&d->team);
}

/* A mistake of the caller would be the same on every device, and the first has the optimiser's
 * state. */
static bool leave_out(dhowi_division *d, uint32_t i) {
    part *p = &d->parts[i];
    if (!d->skips || i == 0 || p->status == DHOW_INVALID_ARGUMENT) return false;
    d->shares.live[i] = false;
    p->gone = p->error;
    dhowi_log_line(&d->t->model->context->log, DHOW_LOG_WARN, "%s is left out from now on: %s",
                   p->device->name, p->error.message);
    return true;
}

/* The sums, unless a part has failed: they are of all or of none. */
static void finish_round(dhowi_division *d) {
    bool whole = true;
    uint32_t failed;
    if (d->way == DIRECT) return; /* dhowi_early_finish() does it */
    for (uint32_t i = 0; i < d->shares.count; i++) whole = whole && d->parts[i].status == DHOW_OK;
    if (whole) {
        const dhow_status status = dhowi_reducer_finish(d->reducer, d->stream, &failed);
        keep_failure(d, failed, status);
        whole = status == DHOW_OK;
    }
    if (!whole) dhowi_reducer_give_up(d->reducer);
}

static void keep_results(dhowi_division *d) {
    d->loss = 0;
    for (uint32_t i = 0; i < d->shares.count; i++) {
        if (d->parts[i].rows == 0) continue;
        d->loss += d->parts[i].loss;
        dhowi_shares_note(&d->shares, i, d->parts[i].rows, d->parts[i].seconds);
    }
    if (!d->fixed_shares) dhowi_shares_adapt(&d->shares);
}

/* *again: without the parts that have failed, which are left out. */
static dhow_status run_parts(dhowi_division *d, bool *again) {
    *again = false;
    run_round(d);
    finish_round(d);
    for (uint32_t i = 0; i < d->shares.count; i++) {
        if (d->parts[i].status == DHOW_OK) continue;
        if (!leave_out(d, i)) return dhowi_error_raise(&d->parts[i].error);
        *again = true;
    }
    if (!*again) keep_results(d);
    return DHOW_OK;
}

/* The next statistics are those of the first part, as rank 0's in DistributedDataParallel. */
static dhow_status keep_statistics(const dhowi_division *d) {
    const dhow_trainer *t = d->t;
    if (t->next == NULL || t->next->count == 0) return DHOW_OK;
    for (uint32_t i = 0; i < d->shares.count; i++) {
        const dhow_trainer *r = d->parts[i].replica;
        if (d->parts[i].rows == 0) continue;
        return r == t ? DHOW_OK : dhow_copy_async(d->stream, r->next, t->next, 0);
    }
    return dhow_copy_async(d->stream, t->running, t->next, 0);
}

/* Buckets that were given are summed: of a process that begins again they are of no use. */
static dhow_status sum_early(dhowi_division *d, dhow_tensor *sums, bool again,
                             dhowi_saved_error *own) {
    dhowi_saved_error partial = {.status = DHOW_UNAVAILABLE};
    bool done;
    DHOWI_TRY(dhowi_early_finish(d->early, d->stream, again ? &partial : own, &done));
    return done ? DHOW_OK : dhowi_group_sum(d->t, d->stream, sums, own);
}

/* Also by a process that has failed: the others would wait for it otherwise. */
static dhow_status with_others(dhowi_division *d, dhow_status status, dhow_tensor *sums,
                               bool *again) {
    const dhow_trainer *t = d->t;
    dhowi_saved_error own = {.status = DHOW_OK};
    if (t->group.size == 0) return status;
    dhowi_group_note(&own, status);
    if (d->early != NULL)
        DHOWI_TRY(sum_early(d, sums, *again, &own));
    else
        DHOWI_TRY(dhowi_group_sum(t, d->stream, sums, &own));
    DHOWI_TRY(dhowi_group_take_first(t, d->stream, t->next, &own));
    return dhowi_group_agree(&t->group, &own, &d->loss, again);
}

/* One that leaves out a device begins again: by itself where no sum has begun, else with all. */
static dhow_status run_once(dhowi_division *d, dhow_tensor *sums, bool *again) {
    dhow_status status;
    do status = run_parts(d, again);
    while (status == DHOW_OK && *again && d->early == NULL);
    if (status == DHOW_OK && !*again) status = keep_statistics(d);
    return with_others(d, status, sums, again);
}

dhow_status dhowi_division_run(dhowi_division *d, dhow_status checked, dhow_stream *stream,
                               dhow_tensor *const *inputs, dhow_tensor *target, bool more,
                               uint64_t key) {
    dhow_trainer *t = d->t;
    dhow_tensor *sums = more ? t->more : t->gradients;
    if (checked == DHOW_OK)
        checked = dhowi_stream_resolve(stream, t->graph->device, "the stream", &d->stream);
    d->inputs = inputs;
    d->target = target;
    d->more = more;
    d->key = key;
    DHOWI_TRY(dhowi_find_place(t, checked, inputs, target, &d->rows, &d->place));
    for (bool again = true; again;) DHOWI_TRY(run_once(d, sums, &again));
    return DHOW_OK;
}

double dhowi_division_loss(const dhowi_division *d) { return d->loss; }

/* ---- looking ---- */

uint32_t dhowi_division_count(const dhowi_division *d) { return d->shares.count; }

void dhowi_division_at(const dhowi_division *d, uint32_t index, dhow_parallel_member *out) {
    const part *p = &d->parts[index];
    double sum = 0;
    for (uint32_t i = 0; i < d->shares.count; i++)
        sum += d->shares.live[i] ? d->shares.share[i] : 0;
    out->device = p->device;
    out->share = d->shares.live[index] && sum > 0 ? d->shares.share[index] / sum : 0;
    out->rows_per_second = d->shares.rate[index];
    out->status = p->gone.status;
    (void)dhowi_copy_text(out->reason, sizeof out->reason, p->gone.message);
}
