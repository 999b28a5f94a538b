/* SPDX-License-Identifier: Apache-2.0
 *
 * Making and ending a division, and joining those of several processes.
 */
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "stream/stream.h"
#include "tensor/tensor.h"
#include "train/division/division.h"

static const char k_create[] = "dhow_trainer_create";
static const uint64_t k_bucket_bytes = UINT64_C(25) << 20; /* as DistributedDataParallel's */

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
    dhowi_part *p = &d->parts[i];
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
    return dhowi_team_start(&d->team, k_create, count - 1, dhowi_division_do_part, d);
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
    return d->way == DHOWI_SUMS_REDUCED ? dhowi_early_ready(d->early, 0, bucket, stream) : DHOW_OK;
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

bool dhowi_division_sums_by_devices(const dhowi_division *d) {
    uint32_t live = 0;
    for (uint32_t i = 0; i < d->shares.count; i++) live += d->shares.live[i];
    return live == 1 || dhowi_reducer_broadcasts(d->reducer);
}

dhow_status dhowi_division_join(dhowi_division *d, dhowi_saved_error *own) {
    bool early;
    uint64_t bytes = d->bucket_bytes;
    if (d->t->group.size < 2) return DHOW_OK;
    const bool able = d->t->comm == NULL || dhowi_division_sums_by_devices(d);
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
        dhowi_part *p = &d->parts[i];
        if (p->replica != NULL && p->replica != d->t) dhowi_replica_end(p->replica);
        dhowi_free(p->columns);
    }
    dhowi_free(d->parts);
    dhowi_free(d->groups);
    dhowi_free(d);
}
