/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches that several devices share: each has the training graph and does its samples on a thread,
 * with the first one's parameters. The losses of parts are multiplied by their share of the whole
 * batch, so gradients only need to be added up; that is done on the first device, bucket by bucket
 * while they are made (parallel/reducer.h), or with those of other processes (parallel/early.h),
 * and it alone makes the optimiser's step. So there is one state, and replicas cannot drift apart.
 */
#include "base/memory/size.h"
#include "base/text/text.h"
#include "base/threads/clock.h"
#include "dhow/copy.h"
#include "stream/stream.h"
#include "tensor/tensor.h"
#include "train/division/division.h"

static void keep_failure(const dhowi_division *d, uint32_t i, dhow_status status) {
    dhowi_part *p = &d->parts[i];
    if (status == DHOW_OK || p->status != DHOW_OK) return;
    p->status = status;
    dhowi_error_save(&p->error, status);
}

/* The parameters as they are now, for the program may have written them too. */
static dhow_status follow(const dhowi_division *d, const dhowi_part *p) {
    const dhow_trainer *t = d->t, *r = p->replica;
    dhow_stream *stream;
    if (r == t || p->rows == 0) return DHOW_OK;
    DHOWI_TRY(dhow_stream_default(p->device, &stream));
    if (!dhowi_reducer_broadcasts(d->reducer))
        DHOWI_TRY(dhow_copy_async(stream, t->parameters, r->parameters, 0));
    if (t->running == NULL || t->running->count == 0) return DHOW_OK;
    return dhow_copy_async(stream, t->running, r->running, 0);
}

static dhowi_way find_way(const dhowi_division *d) {
    if (d->early == NULL) return DHOWI_SUMS_LATE;
    if (d->t->comm != NULL && !dhowi_division_sums_by_devices(d)) return DHOWI_SUMS_LATE;
    return dhowi_reducer_broadcasts(d->reducer) ? DHOWI_SUMS_REDUCED : DHOWI_SUMS_DIRECT;
}

static dhow_status begin_sums(const dhowi_division *d, dhow_tensor *const *gradients,
                              const int64_t *rows) {
    const dhow_trainer *t = d->t;
    dhow_tensor *parts[DHOWI_MAX_MEMBERS];
    const bool usable =
        d->way != DHOWI_SUMS_LATE && (t->comm == NULL || dhowi_comm_is_usable(t->comm));
    for (uint32_t i = 0; i < d->shares.count; i++)
        parts[i] = i == 0 || (d->way == DHOWI_SUMS_DIRECT && rows[i] > 0) ? gradients[i] : NULL;
    if (d->early != NULL) dhowi_early_begin(d->early, parts, usable);
    if (d->way != DHOWI_SUMS_DIRECT)
        return dhowi_reducer_begin(d->reducer, d->stream, gradients, rows);
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
        dhowi_part *p = &d->parts[i];
        p->begin = begin;
        p->rows = rows[i];
        begin += rows[i];
        p->status = DHOW_OK;
    }
    set_out(d);
    dhowi_team_begin(&d->team);
    dhowi_division_work(d, &d->parts[0], d->stream);
    dhowi_team_wait(&d->team);
}

/* A mistake of the caller would be the same on every device, and the first has the optimiser's
 * state. */
static bool leave_out(dhowi_division *d, uint32_t i) {
    dhowi_part *p = &d->parts[i];
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
    if (d->way == DHOWI_SUMS_DIRECT) return; /* dhowi_early_finish() does it */
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
    const dhowi_part *p = &d->parts[index];
    double sum = 0;
    for (uint32_t i = 0; i < d->shares.count; i++)
        sum += d->shares.live[i] ? d->shares.share[i] : 0;
    out->device = p->device;
    out->share = d->shares.live[index] && sum > 0 ? d->shares.share[index] / sum : 0;
    out->rows_per_second = d->shares.rate[index];
    out->status = p->gone.status;
    (void)dhowi_copy_text(out->reason, sizeof out->reason, p->gone.message);
}
