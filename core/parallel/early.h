/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over processes, bucket by bucket while a backward of one or several devices makes them, on a
 * thread of their own: on the host, which also adds up the devices of a process, in their order, or
 * on the first devices of all processes, by a communicator of these. All processes hand in all
 * buckets in the same order, also one that has failed, so that none waits for it.
 */
#ifndef DHOWI_PARALLEL_EARLY_H_
#define DHOWI_PARALLEL_EARLY_H_

#include "base/errors/error.h"
#include "parallel/buckets.h"
#include "parallel/comm.h"
#include "tensor/tensor.h"

typedef struct dhowi_early dhowi_early;

/* Adds up numbers in host memory over all processes, on the thread. */
typedef dhow_status dhowi_early_sum(void *user, dhow_dtype dtype, void *data, int64_t count);

typedef struct dhowi_early_setup {
    dhow_device *const *devices; /* the members' */
    uint32_t count, processes;
    dhow_dtype dtype; /* of flat arrays, all of the buckets' elements */
    const dhowi_buckets *buckets;
    dhowi_early_sum *sum;
    void *user;
    dhowi_comm *comm; /* of the first devices of all processes; NULL: the host sums */
} dhowi_early_setup;

/* After a failure dhowi_early_end() must follow as well. */
dhow_status dhowi_early_make(const dhowi_early_setup *setup, dhowi_early **out);
void dhowi_early_end(dhowi_early *early); /* NULL is allowed */

/* Before a backward, whose gradients go to arrays[i], NULL of a member that takes no part; the
 * first one does. A communicator sums those of the first alone, and only if `usable` in all
 * processes. dhowi_early_finish() must follow. */
void dhowi_early_begin(dhowi_early *early, dhow_tensor *const *arrays, bool usable);
/* `stream` has been given all that writes the bucket of a member, and nothing behind it. They come
 * in their order, those of a member from one thread at a time. */
dhow_status dhowi_early_ready(dhowi_early *early, uint32_t member, uint32_t bucket,
                              dhow_stream *stream);
/* Blocks until what the member has told of has left it. */
dhow_status dhowi_early_settle(const dhowi_early *early, uint32_t member);
/* Blocks until all buckets are summed, those of a process that has failed, *own, too: the sums are
 * in the first array once `stream` comes to it, and are of use once all have agreed. Returns the
 * failure of a sum, after which no process can go on; what else fails is left in *own. *done is
 * false where some process was not usable: none has summed. */
dhow_status dhowi_early_finish(dhowi_early *early, dhow_stream *stream, dhowi_saved_error *own,
                               bool *done);

#endif /* DHOWI_PARALLEL_EARLY_H_ */
