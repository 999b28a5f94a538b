/* SPDX-License-Identifier: Apache-2.0
 *
 * What others need to know of a loader.
 */
#ifndef DHOWI_DATA_LOADER_H_
#define DHOWI_DATA_LOADER_H_

#include "data/dataset.h"

/* The loader is the caller's until dhowi_loader_end(): INVALID_ARGUMENT when another thread is in
 * it. */
dhow_status dhowi_loader_begin(dhow_loader *loader, const char *function);
void dhowi_loader_end(dhow_loader *loader);
/* As dhow_loader_next(), between those two. */
dhow_status dhowi_loader_next(dhow_loader *loader, dhow_batch *out);

uint32_t dhowi_loader_column_count(const dhow_loader *loader);
/* Tells whether the batch given last has arrived: owned, NULL for batches that do not travel. */
dhow_event *dhowi_loader_arrival(const dhow_loader *loader);
/* Samples that are still to be given in the epoch; of the next one, where this one is over. */
int64_t dhowi_loader_rest(const dhow_loader *loader);

/* Where a loader stands, and what decides about its batches. */
typedef struct dhowi_loader_place {
    int64_t epoch, batch; /* the next one; the count of batches where the end is to be told yet */
    int64_t samples, batch_size;
    int64_t seed;
    int64_t order; /* 0: as they are, 1: shuffled, 2: drawn by weights */
    int64_t drop_last;
} dhowi_loader_place;
dhowi_loader_place dhowi_loader_place_of(const dhow_loader *loader);

#endif /* DHOWI_DATA_LOADER_H_ */
