/* SPDX-License-Identifier: Apache-2.0
 *
 * The slots where a loader's batches are made. Each keeps its memory: pinned where the samples are
 * read to, and the device's where they are wanted. Memory that the program still holds, as a
 * retained tensor or a view, is left to it and replaced.
 */
#ifndef DHOWI_DATA_BATCH_H_
#define DHOWI_DATA_BATCH_H_

#include "data/dataset.h"
#include "data/order.h"
#include "dhow/data.h"

typedef enum dhowi_slot_state {
    DHOWI_SLOT_EMPTY,
    DHOWI_SLOT_MAKING,
    DHOWI_SLOT_READY,
    DHOWI_SLOT_FAILED
} dhowi_slot_state;

/* What a loader's batches have in common; does not change. */
typedef struct dhowi_batch_kind {
    dhow_dataset *dataset;
    dhow_device *device;
    dhow_stream *stream; /* of copies to the device; NULL: batches stay with the CPU */
    int64_t batch_size;
    dhow_status (*collate)(void *user, const dhow_collation *batch); /* NULL: none */
    void *collate_user;
} dhowi_batch_kind;

typedef struct dhowi_batch_slot {
    dhowi_slot_state state;  /* the loader's, under its mutex */
    dhowi_saved_error error; /* of DHOWI_SLOT_FAILED */
    int64_t first_sample, sample_count;
    int64_t *indices;
    int64_t extents[DHOW_MAX_COLUMNS][DHOW_MAX_RANK]; /* of one sample, by column */
    dhow_tensor *host[DHOW_MAX_COLUMNS];              /* batch_size samples each */
    dhow_tensor *device[DHOW_MAX_COLUMNS];            /* the same on the device */
    dhow_tensor *batch[DHOW_MAX_COLUMNS]; /* what is handed out: a view of those, for this batch */
    dhow_event *arrived;                  /* the copies out of `host` are done */
} dhowi_batch_slot;

/* Makes the batch of samples first_sample ... of an order. Blocks until the slot's memory is free.
 */
dhow_status dhowi_batch_make(const dhowi_batch_kind *kind, dhowi_batch_slot *slot,
                             const dhowi_order *order);
/* Waits until the batch that the slot was given last has arrived, or tells why it never will. */
dhow_status dhowi_batch_settle(dhowi_batch_slot *slot);
/* The program is done with the batch, though not its work: those who use the memory next wait for
 * what was submitted until now and no more. The tensors that were handed out are released. */
dhow_status dhowi_batch_give_back(const dhowi_batch_kind *kind, dhowi_batch_slot *slot);
void dhowi_batch_end(dhowi_batch_slot *slot);

#endif /* DHOWI_DATA_BATCH_H_ */
