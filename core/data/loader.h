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

#endif /* DHOWI_DATA_LOADER_H_ */
