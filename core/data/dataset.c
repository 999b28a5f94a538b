/* SPDX-License-Identifier: Apache-2.0
 *
 * Making datasets, from tensors and from the caller's function.
 */
#include "data/dataset.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/objects/struct_size.h"

/* ---- the caller's function ---- */

static dhow_status check_column(const char *function, const dhow_dataset_source *source, uint32_t c,
                                dhow_dataset_column *column, uint64_t *out_bytes) {
    DHOWI_TRY(DHOWI_STRUCT_IN(dhow_dataset_column, dhowi_struct_element(source->columns, c), column,
                              function, "source->columns"));
    int64_t shape[DHOW_MAX_RANK], count;
    uint64_t all;
    if (column->rank < 0 || column->rank >= DHOW_MAX_RANK) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: column %u has rank %d; 0 to %d are allowed",
                          function, c, column->rank, DHOW_MAX_RANK - 1);
    }
    DHOWI_TRY(
        dhowi_shape_check(function, column->dtype, column->rank, column->shape, &count, out_bytes));
    /* All samples together must be countable, too. */
    shape[0] = source->sample_count;
    memcpy(shape + 1, column->shape, (size_t)column->rank * sizeof shape[0]);
    return dhowi_shape_check(function, column->dtype, column->rank + 1, shape, &count, &all);
}

dhow_status dhow_dataset_create(dhow_context *context, const dhow_dataset_source *given,
                                dhow_dataset **out) {
    static const char function[] = "dhow_dataset_create";
    dhow_dataset_source own, *source = &own;
    dhow_dataset_column columns[DHOW_MAX_COLUMNS];
    uint64_t sample_bytes[DHOW_MAX_COLUMNS];
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, function, "context"));
    DHOWI_TRY(DHOWI_STRUCT_IN(dhow_dataset_source, given, source, function, "source"));
    if (source->read == NULL || source->columns == NULL)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: source, its read or its columns are NULL",
                          function);
    if (source->sample_count < 0) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %" PRId64 " samples", function,
                          source->sample_count);
    }
    if (source->column_count == 0 || source->column_count > DHOW_MAX_COLUMNS) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %u columns; 1 to %d are allowed", function,
                          source->column_count, DHOW_MAX_COLUMNS);
    }
    for (uint32_t c = 0; c < source->column_count; c++)
        DHOWI_TRY(check_column(function, source, c, &columns[c], &sample_bytes[c]));
    dhow_dataset *dataset = dhowi_handle_new(DHOWI_DATASET, sizeof *dataset);
    if (dataset == NULL) return dhowi_fail_memory(function);
    dhowi_handle_retain(&context->handle);
    dataset->context = context;
    dataset->source = *source;
    dataset->source.columns = dataset->columns;
    memcpy(dataset->columns, columns, source->column_count * sizeof columns[0]);
    memcpy(dataset->sample_bytes, sample_bytes, sizeof sample_bytes);
    *out = dataset;
    return DHOW_OK;
}

void dhow_dataset_release(dhow_dataset *dataset) {
    DHOWI_KEEP_ERROR;
    if (!dhowi_handle_is(dataset, DHOWI_DATASET) || !dhowi_handle_drop(&dataset->handle)) return;
    dhow_context *context = dataset->context;
    if (dataset->source.release != NULL) dataset->source.release(dataset->source.user);
    dhowi_handle_free(DHOWI_DATASET, dataset);
    dhowi_context_drop(context);
}

int64_t dhow_dataset_sample_count(const dhow_dataset *dataset) {
    return dhowi_handle_is(dataset, DHOWI_DATASET) ? dataset->source.sample_count : -1;
}

uint32_t dhow_dataset_column_count(const dhow_dataset *dataset) {
    return dhowi_handle_is(dataset, DHOWI_DATASET) ? dataset->source.column_count : 0;
}

dhow_status dhow_dataset_column_at(const dhow_dataset *dataset, uint32_t index,
                                   dhow_dataset_column *given) {
    dhow_dataset_column own, *out = &own;
    static const char function[] = "dhow_dataset_column_at";
    DHOWI_TRY(DHOWI_STRUCT_OUT(dhow_dataset_column, given, &own, function));
    DHOWI_TRY(dhowi_dataset_check(dataset, function));
    if (index >= dataset->source.column_count) {
        return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: index %u, the dataset has %u columns", function,
                          index, dataset->source.column_count);
    }
    *out = dataset->source.columns[index];
    DHOWI_STRUCT_GIVE(given, out);
    return DHOW_OK;
}

static _Thread_local dhowi_sampling g_sampling;

const dhowi_sampling *dhowi_sampling_now(void) { return &g_sampling; }
void dhowi_sampling_set(const dhowi_sampling *sampling) { g_sampling = *sampling; }

dhow_status dhowi_answer_of(const char *who, dhow_status status) {
    if (status == DHOW_OK || dhow_last_error()[0] != '\0') return status;
    return dhowi_fail(status, "%s returned %s", who, dhow_status_name(status));
}

dhow_status dhowi_dataset_read(dhow_dataset *dataset, const int64_t *indices, int64_t count,
                               void *const *columns) {
    const dhow_dataset_source *source = &dataset->source;
    dhowi_error_clear();
    return dhowi_answer_of("the dataset's read",
                           source->read(source->user, indices, count, columns));
}

void dhowi_rows_gather(const dhowi_rows *rows, const int64_t *indices, int64_t count, void *to) {
    char *at = to;
    if (rows->row_bytes == 0) return; /* there may be no memory at all */
    for (int64_t i = 0, run; i < count; i += run) {
        for (run = 1; i + run < count && indices[i + run] == indices[i] + run;) run++;
        size_t bytes = (size_t)run * rows->row_bytes;
        memcpy(at, rows->data + (uint64_t)indices[i] * rows->row_bytes, bytes);
        at += bytes;
    }
}

/* ---- tensors in memory ---- */

typedef struct tensor_columns {
    uint32_t count;
    dhow_dataset_column columns[DHOW_MAX_COLUMNS];
    dhow_tensor *tensors[DHOW_MAX_COLUMNS];
    uint64_t row_bytes[DHOW_MAX_COLUMNS];
} tensor_columns;

static dhow_status read_tensors(void *user, const int64_t *indices, int64_t count,
                                void *const *columns) {
    const tensor_columns *all = user;
    for (uint32_t c = 0; c < all->count; c++) {
        dhowi_storage *storage = all->tensors[c]->storage;
        DHOWI_TRY(dhowi_hazard_wait(&storage->hazard, DHOW_ACCESS_READ));
        DHOWI_TRY(dhowi_storage_readable(storage, true));
        const dhowi_rows rows = {
            (const char *)storage->host + dhowi_tensor_offset_bytes(all->tensors[c]),
            all->row_bytes[c]};
        dhowi_rows_gather(&rows, indices, count, columns[c]);
    }
    return DHOW_OK;
}

static void release_tensors(void *user) {
    tensor_columns *all = user;
    for (uint32_t c = 0; c < all->count; c++) dhow_tensor_release(all->tensors[c]);
    dhowi_free(all);
}

static dhow_status take_column(const char *function, dhow_tensor *tensor, uint32_t c,
                               dhow_dataset_source *source, tensor_columns *all) {
    char text[192];
    DHOWI_TRY(dhowi_tensor_check_read(tensor, function, "column"));
    (void)dhowi_tensor_text(tensor, text, sizeof text);
    if (tensor->storage->host == NULL) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: column %u is %s; datasets are read by the host, bring it there with "
                          "dhow_tensor_to()",
                          function, c, text);
    }
    if (tensor->rank == 0) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: column %u is %s; its first dimension must be the samples", function,
                          c, text);
    }
    if (c == 0) source->sample_count = tensor->shape[0];
    if (tensor->shape[0] != source->sample_count) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: column %u is %s, but column 0 has %" PRId64 " samples", function, c,
                          text, source->sample_count);
    }
    DHOWI_TRY(dhow_tensor_contiguous(NULL, tensor, &all->tensors[c]));
    all->count = c + 1;
    all->columns[c] = dhowi_column_of_rows(tensor->dtype, tensor->rank, tensor->shape);
    all->row_bytes[c] = dhowi_tensor_element_bytes(tensor);
    for (int32_t i = 1; i < tensor->rank; i++) all->row_bytes[c] *= (uint64_t)tensor->shape[i];
    return DHOW_OK;
}

dhow_status dhow_dataset_from_tensors(dhow_tensor *const *columns, uint32_t count,
                                      dhow_dataset **out) {
    static const char function[] = "dhow_dataset_from_tensors";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    if (columns == NULL || count == 0 || count > DHOW_MAX_COLUMNS) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %u columns; 1 to %d are allowed", function,
                          columns == NULL ? 0 : count, DHOW_MAX_COLUMNS);
    }
    tensor_columns *all = dhowi_alloc(sizeof *all);
    if (all == NULL) return dhowi_fail_memory(function);
    dhow_dataset_source source =
        DHOW_INIT(dhow_dataset_source, .column_count = count, .columns = all->columns,
                  .read = read_tensors, .release = release_tensors, .user = all);
    dhow_status status = DHOW_OK;
    for (uint32_t c = 0; c < count && status == DHOW_OK; c++)
        status = take_column(function, columns[c], c, &source, all);
    if (status == DHOW_OK)
        status = dhow_dataset_create(dhowi_tensor_device(columns[0])->context, &source, out);
    if (status != DHOW_OK) release_tensors(all);
    return status;
}
