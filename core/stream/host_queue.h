/* SPDX-License-Identifier: Apache-2.0
 *
 * The context's host queue: one thread that does, in order, what devices cannot do by themselves -
 * staged copies, and signals from one backend to another. It has a timeline like a stream, so
 * storages and streams can wait for it. A second thread ends the jobs that are done.
 */
#ifndef DHOWI_STREAM_HOST_QUEUE_H_
#define DHOWI_STREAM_HOST_QUEUE_H_

#include "stream/stream.h"

typedef struct dhowi_job {
    struct dhowi_job *next;
    uint64_t number;
    /* Runs on the queue's thread; a failure is kept for those who wait for this number. It must not
     * wait for more than what was submitted before the job was pushed, so it ends no object. */
    dhow_status (*run)(struct dhowi_job *job);
    /* Releases what the job holds and frees it, on a thread that may wait for anything. */
    void (*end)(struct dhowi_job *job);
} dhowi_job;

typedef struct dhowi_host_queue dhowi_host_queue;

/* Starts the thread on first use; NULL with an error when that fails. */
dhowi_host_queue *dhowi_host_queue_of(dhow_context *context);
/* Hands a job in; it is the queue's from then on. The context lives until the job has ended.
 * `out_number`, which may be NULL, is set before the job runs. */
dhowi_mark dhowi_host_queue_push(dhowi_host_queue *queue, dhowi_job *job,
                                 _Atomic uint64_t *out_number);

#endif /* DHOWI_STREAM_HOST_QUEUE_H_ */
