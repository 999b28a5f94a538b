/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of a device, on its thread.
 */
#include <inttypes.h>

#include "base/threads/clock.h"
#include "dhow/create.h"
#include "stream/stream.h"
#include "tensor/tensor.h"
#include "train/division/division.h"

static dhow_status bring(const dhowi_part *p, dhow_tensor *whole, dhow_stream *stream,
                         dhow_tensor **out) {
    dhow_tensor *rows;
    DHOWI_TRY(dhow_tensor_slice(whole, 0, p->begin, p->begin + p->rows, 1, &rows));
    dhow_status status = dhow_tensor_to_async(stream, rows, p->device, out);
    dhow_tensor_release(rows);
    return status;
}

static dhow_status bucket_written(void *user, uint32_t bucket, dhow_stream *stream) {
    const dhowi_part *p = user;
    const dhowi_division *d = p->division;
    const uint32_t index = (uint32_t)(p - d->parts);
    return d->way == DHOWI_SUMS_DIRECT ? dhowi_early_ready(d->early, index, bucket, stream)
                                       : dhowi_reducer_ready(d->reducer, index, bucket, stream);
}

static dhow_status compute(const dhowi_division *d, dhowi_part *p, dhow_stream *stream) {
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
    const bool tells = d->way == DHOWI_SUMS_DIRECT || dhowi_reducer_wants(d->reducer, index);
    DHOWI_TRY(dhowi_replica_run(r, stream, p->columns, p->columns[t->input_count], more, &piece,
                                tells ? &groups : NULL));
    DHOWI_TRY(dhowi_replica_loss(r, &p->loss));
    DHOWI_TRY(dhow_stream_sync(stream));
    return d->way == DHOWI_SUMS_DIRECT ? dhowi_early_settle(d->early, index)
                                       : dhowi_reducer_settle(d->reducer, index);
}

void dhowi_division_work(const dhowi_division *d, dhowi_part *p, dhow_stream *given) {
    dhow_stream *stream = NULL;
    p->loss = 0;
    if (p->rows == 0) return;
    if (p->status != DHOW_OK) (void)dhowi_error_raise(&p->error); /* of the caller's thread */
    if (p->status == DHOW_OK)
        p->status = dhowi_stream_resolve(given, p->device, "dhow_trainer_step", &stream);
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

void dhowi_division_do_part(void *division, uint32_t index) {
    const dhowi_division *d = division;
    dhowi_division_work(d, &d->parts[index + 1], NULL);
}
