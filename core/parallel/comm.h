/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations that devices of one backend do together by its dhow.coll/1: a rank for each device,
 * all of this process or one of each of several, each with a stream of its own.
 */
#ifndef DHOWI_PARALLEL_COMM_H_
#define DHOWI_PARALLEL_COMM_H_

#include "tensor/tensor.h"

typedef struct dhowi_comm dhowi_comm;

/* What a rank works on: `out` may be NULL where the operation writes none there. */
typedef struct dhowi_comm_part {
    dhow_tensor *in, *out;
} dhowi_comm_part;

/* Rank i has devices[i]. UNSUPPORTED, saying what is missing, where the devices are not of one
 * backend, or of one without the table or its library. */
dhow_status dhowi_comm_create(dhow_device *const *devices, uint32_t count, dhowi_comm **out);
/* Whether a device can be a rank beside those of other processes, and why not; `id` is made for all
 * of them, NULL: another process makes it. */
dhow_status dhowi_comm_find(dhow_device *device, dhow_coll_id *id);
/* The rank of this process; blocks until all have come, for `timeout_ms` at most. */
dhow_status dhowi_comm_join(dhow_device *device, const dhow_coll_id *id, uint32_t rank,
                            uint32_t size, uint32_t timeout_ms, dhowi_comm **out);
/* False once it was given up. */
bool dhowi_comm_is_usable(const dhowi_comm *comm);
/* Its work has ended or been given up by dhowi_comm_wait(). NULL is allowed. */
void dhowi_comm_end(dhowi_comm *comm);

dhow_stream *dhowi_comm_stream(const dhowi_comm *comm, uint32_t rank);

/* Submits one operation of all ranks of this process, DHOW_COLL_ALL_REDUCE or another: `count`
 * elements of parts[i] on the stream of rank i. A failure is that of rank *failed. With `ordered`
 * streams wait for what the storages ask for and are noted there; without, the caller has made them
 * wait, and calls dhowi_comm_wait() before anybody else uses the tensors. One thread at a time. */
dhow_status dhowi_comm_run(dhowi_comm *comm, uint32_t op, uint32_t root,
                           const dhowi_comm_part *parts, int64_t count, bool ordered,
                           uint32_t *failed);

/* Blocks until all has ended, for `seconds` at most unless that is 0. Where a rank fails the others
 * are let go, the communicator is of no use any more, and *failed is that rank. */
dhow_status dhowi_comm_wait(dhowi_comm *comm, double seconds, uint32_t *failed);
/* How long a sum of so many bytes over processes may take, in seconds, before a rank counts as
 * lost: generously. */
static inline double dhowi_comm_patience(uint64_t bytes) { return 10 + (double)bytes / 50e6; }
/* Lets all ranks' work end, whatever is left undone; the communicator is of no use any more. */
void dhowi_comm_give_up(dhowi_comm *comm);

#endif /* DHOWI_PARALLEL_COMM_H_ */
