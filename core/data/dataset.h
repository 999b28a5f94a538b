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

/* Rows that lie in memory one after the other, the common form of tensors and mapped files. */
typedef struct dhowi_rows {
    const char *data;
    uint64_t row_bytes;
} dhowi_rows;

/* Copies rows by index; neighbours travel together. */
void dhowi_rows_gather(const dhowi_rows *rows, const int64_t *indices, int64_t count, void *to);

static inline dhow_status dhowi_dataset_check(const dhow_dataset *dataset, const char *function) {
    return dhowi_handle_check(dataset, DHOWI_DATASET, function, "dataset");
}

#endif /* DHOWI_DATA_DATASET_H_ */
