/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets inside core: whatever the samples come from, they are read by one function.
 */
#ifndef DHOWI_DATA_DATASET_H_
#define DHOWI_DATA_DATASET_H_

#include "dhow/data.h"
#include "tensor/tensor.h"

struct dhow_dataset {
    dhowi_handle handle;
    dhow_context *context;      /* retained */
    dhow_dataset_source source; /* with the columns that follow */
    dhow_dataset_column columns[DHOW_MAX_COLUMNS];
    uint64_t sample_bytes[DHOW_MAX_COLUMNS];
};

/* What a function of the program's has returned; a failure without a message gets one. `who` as in
 * "the dataset's read". Before the call: dhowi_error_clear(). */
dhow_status dhowi_answer_of(const char *who, dhow_status status);

/* Reads samples; a failure without a message gets one. */
dhow_status dhowi_dataset_read(dhow_dataset *dataset, const int64_t *indices, int64_t count,
                               void *const *columns);

/* What the thread reads samples for: a loader says it, mappings hand it on. */
typedef struct dhowi_sampling {
    int64_t epoch;
    uint64_t seed;
    uint32_t worker;
} dhowi_sampling;
const dhowi_sampling *dhowi_sampling_now(void);
void dhowi_sampling_set(const dhowi_sampling *sampling);

/* Rows that lie in memory one after the other, the common form of tensors and mapped files. */
typedef struct dhowi_rows {
    const char *data;
    uint64_t row_bytes;
} dhowi_rows;

/* Copies rows by index; neighbours travel together. */
void dhowi_rows_gather(const dhowi_rows *rows, const int64_t *indices, int64_t count, void *to);

/* The column of rows: the first extent counts samples, the others are a sample's. */
static inline dhow_dataset_column dhowi_column_of_rows(dhow_dtype dtype, int32_t rank,
                                                       const int64_t *shape) {
    dhow_dataset_column column = DHOW_INIT(dhow_dataset_column, .dtype = dtype, .rank = rank - 1);
    for (int32_t i = 1; i < rank; i++) column.shape[i - 1] = shape[i];
    return column;
}

static inline dhow_status dhowi_dataset_check(const dhow_dataset *dataset, const char *function) {
    return dhowi_handle_check(dataset, DHOWI_DATASET, function, "dataset");
}

#endif /* DHOWI_DATA_DATASET_H_ */
