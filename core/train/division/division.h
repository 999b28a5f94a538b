/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches that several devices share, see round.c: what its files have in common.
 */
#ifndef DHOWI_TRAIN_DIVISION_H_
#define DHOWI_TRAIN_DIVISION_H_

#include "parallel/early.h"
#include "parallel/parallel.h"
#include "parallel/reducer.h"
#include "parallel/team.h"
#include "train/train.h"

typedef struct dhowi_part {
    struct dhowi_division *division;
    dhow_device *device;
    dhow_trainer *replica; /* of the first part the trainer itself */
    dhow_tensor **columns; /* its rows of the inputs, then of the target; room for them */
    int64_t begin, rows;
    double loss, seconds;
    dhow_status status;
    dhowi_saved_error error, gone; /* why it is left out */
} dhowi_part;

/* How the gradients of a round reach the sums over processes. */
typedef enum dhowi_way {
    DHOWI_SUMS_LATE,    /* they are added up afterwards, or there are no processes */
    DHOWI_SUMS_DIRECT,  /* each part's buckets go there by themselves */
    DHOWI_SUMS_REDUCED, /* the backend adds up each bucket within the process before */
} dhowi_way;

struct dhowi_division {
    dhow_trainer *t;
    dhowi_team team; /* of all parts but the first, which is the caller's */
    dhowi_shares shares;
    bool fixed_shares, skips;
    dhowi_part *parts;
    dhowi_reducer *reducer; /* of gradients; its members are the parts */
    dhowi_buckets buckets;
    uint64_t bucket_bytes;
    uint32_t *groups;   /* the bucket of each output of the training graph */
    dhowi_early *early; /* with processes, whose sums begin early; NULL: after the backward */
    double loss;        /* of the backward before */
    /* Of the backward that runs. */
    dhowi_way way; /* of its round */
    dhow_stream *stream;
    dhow_tensor *const *inputs;
    dhow_tensor *target;
    bool more;
    uint64_t key;
    double began;
    int64_t rows;      /* of this process */
    dhowi_place place; /* of these in the batch of all processes */
};

/* Devices that the backend adds up within the process, or one, may be summed by devices. */
bool dhowi_division_sums_by_devices(const dhowi_division *d);
/* What a part has to do of a round, on the calling thread; and of a team's member, which has the
 * part behind its index, since the first is the caller's. */
void dhowi_division_work(const dhowi_division *d, dhowi_part *p, dhow_stream *given);
void dhowi_division_do_part(void *division, uint32_t index);

#endif /* DHOWI_TRAIN_DIVISION_H_ */
