/* SPDX-License-Identifier: Apache-2.0
 *
 * See batch.h.
 */
#include "data/batch.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "dhow/copy.h"
#include "stream/span.h"

/* ---- memory ---- */

/* Nobody else holds the tensor or looks at its memory through a view. */
static bool is_ours(dhow_tensor *t) {
    return t != NULL && atomic_load(&t->handle.references) == 1 &&
           atomic_load(&t->storage->handle.references) == 1;
}

static dhow_status renew(const dhowi_batch_kind *kind, uint32_t c, dhow_device *device, bool pinned,
                         dhow_tensor **t) {
    const dhow_dataset_column *column = &kind->dataset->source.columns[c];
    int64_t shape[DHOW_MAX_RANK] = {kind->batch_size};
    if (is_ours(*t)) return DHOW_OK;
    dhow_tensor_release(*t);
    *t = NULL;
    memcpy(shape + 1, column->shape, (size_t)column->rank * sizeof shape[0]);
    if (pinned) return dhow_tensor_create_pinned(device, column->dtype, column->rank + 1, shape, t);
    return dhow_tensor_create(device, column->dtype, column->rank + 1, shape, t);
}

static void drop_batch(dhowi_batch_place *place) {
    for (int c = 0; c < DHOW_MAX_COLUMNS; c++) {
        dhow_tensor_release(place->batch[c]);
        place->batch[c] = NULL;
    }
}

static dhow_status prepare(const dhowi_batch_kind *kind, dhowi_batch_place *place) {
    const dhow_device *cpu = kind->dataset->context->cpu;
    drop_batch(place);
    if (place->indices == NULL) {
        place->indices = dhowi_alloc_array((size_t)kind->batch_size, sizeof place->indices[0]);
        if (place->indices == NULL) return dhowi_fail_memory("indices");
    }
    for (uint32_t c = 0; c < kind->dataset->source.column_count; c++) {
        bool travels = kind->stream != NULL;
        dhow_device *near = travels ? kind->device : (dhow_device *)(uintptr_t)cpu;
        DHOWI_TRY(renew(kind, c, near, travels, &place->host[c]));
        if (travels) DHOWI_TRY(renew(kind, c, kind->device, false, &place->device[c]));
    }
    return DHOW_OK;
}

/* ---- making ---- */

static dhow_status read_samples(const dhowi_batch_kind *kind, dhowi_batch_place *place,
                                const dhowi_order *order) {
    const dhow_dataset_source *source = &kind->dataset->source;
    void *columns[DHOW_MAX_COLUMNS];
    for (uint32_t c = 0; c < source->column_count; c++)
        DHOWI_TRY(dhow_tensor_host_ptr(place->host[c], &columns[c]));
    for (int64_t i = 0; i < place->sample_count; i++) {
        place->indices[i] = (int64_t)dhowi_order_at(order, (uint64_t)(place->first_sample + i));
    }
    dhowi_error_clear();
    dhow_context *context = kind->dataset->context;
    const int64_t begin = dhowi_host_span_begin(context);
    dhow_status status = source->read(source->user, place->indices, place->sample_count, columns);
    dhowi_host_span_end(context, begin, DHOWI_TRACE_DATA, "read", 0, NULL);
    if (status == DHOW_OK) return DHOW_OK;
    if (dhow_last_error()[0] == '\0')
        return dhowi_fail(status, "the dataset's read returned %s", dhow_status_name(status));
    return status;
}

/* The first samples of a tensor of batch_size, as a tensor of its own: whoever keeps it without
 * retaining it is told that it is over, and does not see the next batch. */
static dhow_status begin_of(dhow_tensor *whole, int64_t samples, dhow_tensor **out) {
    return dhow_tensor_slice(whole, 0, 0, samples, 1, out);
}

static dhow_status send(const dhowi_batch_kind *kind, dhowi_batch_place *place) {
    for (uint32_t c = 0; c < kind->dataset->source.column_count; c++) {
        dhow_tensor *from;
        DHOWI_TRY(begin_of(place->host[c], place->sample_count, &from));
        dhow_status status = dhow_copy_async(kind->stream, from, place->batch[c], 0);
        dhow_tensor_release(from);
        DHOWI_TRY(status);
    }
    if (place->arrived != NULL && atomic_load(&place->arrived->handle.references) > 1) {
        dhow_event_release(place->arrived); /* somebody will still ask for the earlier batch */
        place->arrived = NULL;
    }
    if (place->arrived == NULL) DHOWI_TRY(dhow_event_create(kind->device, 0, &place->arrived));
    return dhow_event_record(place->arrived, kind->stream);
}

dhow_status dhowi_batch_settle(dhowi_batch_place *place) {
    dhow_status status = place->arrived != NULL ? dhow_event_sync(place->arrived) : DHOW_OK;
    if (status == DHOW_OK) return DHOW_OK;
    dhow_event_release(place->arrived); /* it would fail for ever */
    place->arrived = NULL;
    return dhowi_fail_prefix(status, "a batch before it has not arrived");
}

dhow_status dhowi_batch_make(const dhowi_batch_kind *kind, dhowi_batch_place *place,
                             const dhowi_order *order) {
    bool travels = kind->stream != NULL;
    /* This copy alone, not what the stream was given after it. */
    DHOWI_TRY(dhowi_batch_settle(place));
    DHOWI_TRY(prepare(kind, place));
    DHOWI_TRY(read_samples(kind, place, order));
    for (uint32_t c = 0; c < kind->dataset->source.column_count; c++) {
        DHOWI_TRY(begin_of(travels ? place->device[c] : place->host[c], place->sample_count,
                           &place->batch[c]));
    }
    return travels ? send(kind, place) : DHOW_OK;
}

dhow_status dhowi_batch_give_back(const dhowi_batch_kind *kind, dhowi_batch_place *place) {
    dhowi_mark pending[DHOWI_MAX_PENDING];
    drop_batch(place);
    if (kind->stream == NULL) return DHOW_OK;
    for (uint32_t c = 0; c < kind->dataset->source.column_count; c++) {
        uint32_t count = dhowi_hazard_pending(&place->device[c]->storage->hazard, DHOW_ACCESS_WRITE,
                                              &kind->stream->timeline, pending);
        for (uint32_t i = 0; i < count; i++) DHOWI_TRY(dhowi_stream_point(pending[i]));
    }
    return DHOW_OK;
}

void dhowi_batch_end(dhowi_batch_place *place) {
    drop_batch(place);
    for (int c = 0; c < DHOW_MAX_COLUMNS; c++) {
        dhow_tensor_release(place->host[c]);
        dhow_tensor_release(place->device[c]);
    }
    dhow_event_release(place->arrived);
    dhowi_free(place->indices);
}
