/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches that several devices share: each has the training graph and does its samples on a thread,
 * with the first one's parameters. The losses of parts are multiplied by their share of the whole
 * batch, so gradients only need to be added up; that is done on the first device, which alone makes
 * the optimiser's step. So there is one state, and replicas cannot drift apart.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/text.h"
#include "base/threads/clock.h"
#include "dhow/copy.h"
#include "dhow/create.h"
#include "parallel/parallel.h"
#include "parallel/team.h"
#include "stream/stream.h"
#include "tensor/tensor.h"
#include "train/train.h"

static const char k_create[] = "dhow_trainer_create";

typedef struct part {
    dhow_device *device;
    dhow_trainer *replica; /* of the first part the trainer itself */
    dhow_tensor *arrived;  /* gradients of other devices, on the first */
    dhow_tensor **columns; /* its rows of the inputs, then of the target; room for them */
    int64_t begin, rows;
    double loss, seconds;
    dhow_status status;
    dhowi_saved_error error, gone; /* why it is left out */
} part;

struct dhowi_division {
    dhow_trainer *t;
    dhowi_team team; /* of all parts but the first, which is the caller's */
    dhowi_shares shares;
    bool fixed_shares, skips;
    part *parts;
    double loss; /* of the backward before */
    /* Of the backward that runs. */
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
    return dhowi_flat(t, t->count, &p->arrived);
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
        d->parts[i].device = count > 1 ? o->devices[i] : d->t->graph->device;
        d->shares.live[i] = true;
        d->shares.share[i] = o->shares != NULL ? o->shares[i] : 1;
    }
    for (uint32_t i = 0; i < count; i++) DHOWI_TRY(make_part(d, i));
    return dhowi_team_start(&d->team, k_create, count - 1, do_part, d);
}

dhow_status dhowi_division_make(dhow_trainer *t, const dhow_trainer_options *options) {
    t->division = dhowi_alloc(sizeof *t->division);
    if (t->division == NULL) return dhowi_fail_memory(k_create);
    *t->division = (dhowi_division){.t = t};
    return start(t->division, options);
}

void dhowi_division_end(dhowi_division *d) {
    if (d == NULL) return;
    dhowi_team_end(&d->team);
    for (uint32_t i = 0; d->parts != NULL && i < d->shares.count; i++) {
        part *p = &d->parts[i];
        if (p->replica != NULL && p->replica != d->t) dhowi_replica_end(p->replica);
        dhow_tensor_release(p->arrived);
        dhowi_free(p->columns);
    }
    dhowi_free(d->parts);
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
    DHOWI_TRY(dhowi_replica_run(r, stream, p->columns, p->columns[t->input_count], more, &piece));
    if (r != t) /* parameters came after what read these the last time */
        DHOWI_TRY(dhow_copy_async(stream, r->gradients, p->arrived, DHOW_COPY_UNORDERED));
    DHOWI_TRY(dhowi_replica_loss(r, &p->loss));
    return dhow_stream_sync(stream);
}

static void work(const dhowi_division *d, part *p, dhow_stream *given) {
    dhow_stream *stream;
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
}

static void do_part(void *division, uint32_t index) {
    const dhowi_division *d = division;
    work(d, &d->parts[index + 1], NULL);
}

/* ---- a backward ---- */

/* Samples of this process: the first extent of inputs and target. */
static dhow_status count_rows(dhowi_division *d) {
    const dhow_trainer *t = d->t;
    char text[160];
    d->rows = t->group.size > 1 && t->input_count > 0 && d->inputs[0] == NULL ? 0 : -1;
    if (d->rows == 0) return DHOW_OK;
    for (uint32_t i = 0; i <= t->input_count; i++) {
        const dhow_tensor *x = i < t->input_count ? d->inputs[i] : d->target;
        if (i == t->input_count && !t->has_target) break;
        DHOWI_TRY(dhowi_tensor_check(x, "batch", i < t->input_count ? "input" : "target"));
        if (x->rank > 0 && (d->rows < 0 || x->shape[0] == d->rows)) {
            d->rows = x->shape[0];
            continue;
        }
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s %u is %s; samples are the first dimension, of the same extent in "
                          "all inputs and the target",
                          i < t->input_count ? "input" : "target", i < t->input_count ? i : 0,
                          dhowi_tensor_text(x, text, sizeof text));
    }
    if (d->rows > 0 || t->group.size > 1) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "the batch has no samples");
}

static dhow_status find_place(dhowi_division *d, dhow_status own) {
    const dhow_trainer *t = d->t;
    double count = 0;
    if (own == DHOW_OK) own = count_rows(d);
    if (own == DHOW_OK) own = dhowi_loss_count(t, d->target, d->rows, &count);
    d->place = (dhowi_place){.count = count, .rows = d->rows};
    if (t->group.size == 0) return own;
    DHOWI_TRY(dhowi_group_place(t, own, count, d->rows, &d->place));
    if (d->place.rows > 0) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "no process has samples");
}

/* The parameters as they are now, for the program may have written them too. */
static dhow_status follow(const dhow_trainer *t, const part *p) {
    const dhow_trainer *r = p->replica;
    dhow_stream *stream;
    if (r == t || p->rows == 0) return DHOW_OK;
    DHOWI_TRY(dhow_stream_default(p->device, &stream));
    DHOWI_TRY(dhow_copy_async(stream, t->parameters, r->parameters, 0));
    if (t->running == NULL || t->running->count == 0) return DHOW_OK;
    return dhow_copy_async(stream, t->running, r->running, 0);
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
        p->status = follow(d->t, p);
        if (p->status != DHOW_OK) dhowi_error_save(&p->error, p->status);
    }
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

static dhow_status run_parts(dhowi_division *d) {
    for (bool again = true; again;) {
        again = false;
        run_round(d);
        for (uint32_t i = 0; i < d->shares.count; i++) {
            if (d->parts[i].status == DHOW_OK) continue;
            if (!leave_out(d, i)) return dhowi_error_raise(&d->parts[i].error);
            again = true;
        }
    }
    for (uint32_t i = 0; i < d->shares.count; i++)
        if (d->parts[i].rows > 0)
            dhowi_shares_note(&d->shares, i, d->parts[i].rows, d->parts[i].seconds);
    if (!d->fixed_shares) dhowi_shares_adapt(&d->shares);
    return DHOW_OK;
}

static dhow_status add_up(dhowi_division *d, dhow_tensor *sums) {
    d->loss = 0;
    if (d->parts[0].rows == 0) DHOWI_TRY(dhow_fill(d->stream, sums, 0));
    for (uint32_t i = 0; i < d->shares.count; i++) {
        const part *p = &d->parts[i];
        d->loss += p->loss;
        if (i > 0 && p->rows > 0) DHOWI_TRY(dhow_add(d->stream, sums, p->arrived, sums));
    }
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

/* Also by a process that has failed: the others would wait for it otherwise. */
static dhow_status with_others(dhowi_division *d, dhow_status status, dhow_tensor *sums) {
    const dhow_trainer *t = d->t;
    dhowi_saved_error own = {.status = DHOW_OK};
    if (t->group.size == 0) return status;
    dhowi_group_note(&own, status);
    DHOWI_TRY(dhowi_group_sum(t, d->stream, sums, &own));
    DHOWI_TRY(dhowi_group_take_first(t, d->stream, t->next, &own));
    return dhowi_group_agree(&t->group, &own, &d->loss);
}

dhow_status dhowi_division_run(dhowi_division *d, dhow_status checked, dhow_stream *stream,
                               dhow_tensor *const *inputs, dhow_tensor *target, bool more,
                               uint64_t key) {
    dhow_trainer *t = d->t;
    dhow_tensor *sums = more ? t->more : t->gradients;
    d->stream = stream;
    d->inputs = inputs;
    d->target = target;
    d->more = more;
    d->key = key;
    DHOWI_TRY(find_place(d, checked));
    dhow_status status = run_parts(d);
    if (status == DHOW_OK) status = add_up(d, sums);
    if (status == DHOW_OK) status = keep_statistics(d);
    return with_others(d, status, sums);
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
