/* SPDX-License-Identifier: Apache-2.0
 *
 * See batch.h.
 */
#include "data/batch.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/splitmix64.h"
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

static void drop_batch(dhowi_batch_slot *slot) {
    for (int c = 0; c < DHOW_MAX_COLUMNS; c++) {
        dhow_tensor_release(slot->batch[c]);
        slot->batch[c] = NULL;
    }
}

static dhow_status prepare(const dhowi_batch_kind *kind, dhowi_batch_slot *slot) {
    const dhow_device *cpu = kind->dataset->context->cpu;
    drop_batch(slot);
    if (slot->indices == NULL) {
        slot->indices = dhowi_alloc_array((size_t)kind->batch_size, sizeof slot->indices[0]);
        if (slot->indices == NULL) return dhowi_fail_memory("indices");
    }
    for (uint32_t c = 0; c < kind->dataset->source.column_count; c++) {
        bool travels = kind->stream != NULL;
        dhow_device *near = travels ? kind->device : (dhow_device *)(uintptr_t)cpu;
        DHOWI_TRY(renew(kind, c, near, travels, &slot->host[c]));
        if (travels) DHOWI_TRY(renew(kind, c, kind->device, false, &slot->device[c]));
    }
    return DHOW_OK;
}

/* ---- making ---- */

/* Leaves out what lies beyond the extents that a batch keeps of a column: samples move together.
 * Every element goes to where it was or before. */
static void close_up(char *data, uint64_t element, int64_t count, const dhow_dataset_column *column,
                     const int64_t *kept) {
    int64_t at[DHOW_MAX_RANK] = {0}, rows = count;
    uint64_t row = element;
    const int32_t last = column->rank - 1;
    if (last >= 0) row *= (uint64_t)kept[last];
    for (int32_t k = 0; k < last; k++) rows *= kept[k];
    for (int64_t r = 0, sample = 0; r < rows; r++) {
        uint64_t from = (uint64_t)sample;
        for (int32_t k = 0; k < last; k++)
            from = from * (uint64_t)column->shape[k] + (uint64_t)at[k];
        if (last >= 0) from *= (uint64_t)column->shape[last];
        memmove(data + (uint64_t)r * row, data + from * element, row);
        int32_t k = last - 1;
        for (; k >= 0 && ++at[k] == kept[k]; k--) at[k] = 0;
        if (k < 0) sample++;
    }
}

static dhow_status collate(const dhowi_batch_kind *kind, dhowi_batch_slot *slot,
                           void *const *columns) {
    const dhow_dataset_source *source = &kind->dataset->source;
    const dhowi_sampling *sampling = dhowi_sampling_now();
    const dhow_collation batch = {
        .struct_size = sizeof batch,
        .column_count = source->column_count,
        .epoch = sampling->epoch,
        .index = slot->first_sample / kind->batch_size,
        .sample_count = slot->sample_count,
        .seed = dhowi_splitmix64(dhowi_splitmix64(sampling->seed + (uint64_t)sampling->epoch) +
                                 (uint64_t)slot->first_sample),
        .columns = columns,
        .extents = slot->extents};
    DHOWI_TRY(dhowi_answer_of("the loader's collate", kind->collate(kind->collate_user, &batch)));
    for (uint32_t c = 0; c < source->column_count; c++) {
        const dhow_dataset_column *column = &source->columns[c];
        bool whole = true;
        for (int32_t k = 0; k < column->rank; k++) {
            const int64_t kept = slot->extents[c][k];
            whole = whole && kept == column->shape[k];
            if (kept >= 0 && kept <= column->shape[k]) continue;
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "the loader's collate set extents[%u][%d] to %" PRId64
                              "; 0 to %" PRId64 " are allowed",
                              c, k, kept, column->shape[k]);
        }
        if (!whole)
            close_up(columns[c], dhow_dtype_bytes(column->dtype), slot->sample_count, column,
                     slot->extents[c]);
    }
    return DHOW_OK;
}

static dhow_status read_samples(const dhowi_batch_kind *kind, dhowi_batch_slot *slot,
                                const dhowi_order *order) {
    const dhow_dataset_source *source = &kind->dataset->source;
    void *columns[DHOW_MAX_COLUMNS];
    for (uint32_t c = 0; c < source->column_count; c++)
        DHOWI_TRY(dhow_tensor_host_ptr(slot->host[c], &columns[c]));
    for (int64_t i = 0; i < slot->sample_count; i++) {
        slot->indices[i] = (int64_t)dhowi_order_at(order, (uint64_t)(slot->first_sample + i));
    }
    for (uint32_t c = 0; c < source->column_count; c++)
        memcpy(slot->extents[c], source->columns[c].shape, sizeof slot->extents[c]);
    dhow_context *context = kind->dataset->context;
    const int64_t begin = dhowi_host_span_begin(context);
    dhow_status status =
        dhowi_dataset_read(kind->dataset, slot->indices, slot->sample_count, columns);
    if (status == DHOW_OK && kind->collate != NULL) status = collate(kind, slot, columns);
    dhowi_host_span_end(context, begin, DHOWI_TRACE_DATA, "read", 0, NULL);
    return status;
}

/* The batch in a tensor of batch_size whole samples, as a tensor of its own: whoever keeps it
 * without retaining it is told that it is over, and does not see the next batch. */
static dhow_status begin_of(const dhowi_batch_slot *slot, uint32_t c, dhow_tensor *whole,
                            dhow_tensor **out) {
    int64_t shape[DHOW_MAX_RANK] = {slot->sample_count}, strides[DHOW_MAX_RANK];
    memcpy(shape + 1, slot->extents[c], (size_t)(whole->rank - 1) * sizeof shape[0]);
    dhowi_shape_strides(whole->rank, shape, strides);
    return dhowi_tensor_view(whole->storage, whole->dtype, whole->rank, shape, strides, 0, out);
}

static dhow_status send(const dhowi_batch_kind *kind, dhowi_batch_slot *slot) {
    for (uint32_t c = 0; c < kind->dataset->source.column_count; c++) {
        dhow_tensor *from;
        DHOWI_TRY(begin_of(slot, c, slot->host[c], &from));
        dhow_status status = dhow_copy_async(kind->stream, from, slot->batch[c], 0);
        dhow_tensor_release(from);
        DHOWI_TRY(status);
    }
    if (slot->arrived != NULL && atomic_load(&slot->arrived->handle.references) > 1) {
        dhow_event_release(slot->arrived); /* somebody will still ask for the earlier batch */
        slot->arrived = NULL;
    }
    if (slot->arrived == NULL) DHOWI_TRY(dhow_event_create(kind->device, 0, &slot->arrived));
    return dhow_event_record(slot->arrived, kind->stream);
}

dhow_status dhowi_batch_settle(dhowi_batch_slot *slot) {
    dhow_status status = slot->arrived != NULL ? dhow_event_sync(slot->arrived) : DHOW_OK;
    if (status == DHOW_OK) return DHOW_OK;
    dhow_event_release(slot->arrived); /* it would fail for ever */
    slot->arrived = NULL;
    return dhowi_fail_prefix(status, "a batch before it has not arrived");
}

dhow_status dhowi_batch_make(const dhowi_batch_kind *kind, dhowi_batch_slot *slot,
                             const dhowi_order *order) {
    bool travels = kind->stream != NULL;
    /* This copy alone, not what the stream was given after it. */
    DHOWI_TRY(dhowi_batch_settle(slot));
    DHOWI_TRY(prepare(kind, slot));
    DHOWI_TRY(read_samples(kind, slot, order));
    for (uint32_t c = 0; c < kind->dataset->source.column_count; c++) {
        DHOWI_TRY(begin_of(slot, c, travels ? slot->device[c] : slot->host[c], &slot->batch[c]));
    }
    return travels ? send(kind, slot) : DHOW_OK;
}

dhow_status dhowi_batch_give_back(const dhowi_batch_kind *kind, dhowi_batch_slot *slot) {
    dhowi_timepoint pending[DHOWI_MAX_PENDING];
    drop_batch(slot);
    if (kind->stream == NULL) return DHOW_OK;
    for (uint32_t c = 0; c < kind->dataset->source.column_count; c++) {
        uint32_t count = dhowi_hazard_pending(&slot->device[c]->storage->hazard, DHOW_ACCESS_WRITE,
                                              &kind->stream->timeline, pending);
        for (uint32_t i = 0; i < count; i++) DHOWI_TRY(dhowi_stream_ensure_event(pending[i]));
    }
    return DHOW_OK;
}

void dhowi_batch_end(dhowi_batch_slot *slot) {
    drop_batch(slot);
    for (int c = 0; c < DHOW_MAX_COLUMNS; c++) {
        dhow_tensor_release(slot->host[c]);
        dhow_tensor_release(slot->device[c]);
    }
    dhow_event_release(slot->arrived);
    dhowi_free(slot->indices);
}
