/* SPDX-License-Identifier: Apache-2.0
 *
 * The context's host queue does what devices cannot do by themselves - staged copies, and signals
 * from one backend to another. It has a few lanes; each is a thread that does its jobs in order,
 * and has a timeline like a stream, so storages and streams can wait for it. The jobs of a stream
 * go to one lane, so that a job that waits for a long kernel keeps nobody else waiting. One more
 * thread ends the jobs that are done.
 *
 * No lane waits for another for ever: a job waits for what was submitted before it was pushed, and
 * for the jobs before it in its lane, all of which were pushed earlier.
 */
#ifndef DHOWI_STREAM_HOST_QUEUE_H_
#define DHOWI_STREAM_HOST_QUEUE_H_

#include "stream/stream.h"

typedef struct dhowi_job {
    struct dhowi_job *next;
    uint64_t ticket;
    /* Runs on the lane's thread; a failure is kept for those who wait for this job. It must not
     * wait for more than what was submitted before the job was pushed, so it ends no object. */
    dhow_status (*run)(struct dhowi_job *job);
    /* Releases what the job holds and frees it, on a thread that may wait for anything. */
    void (*end)(struct dhowi_job *job);
} dhowi_job;

enum { DHOWI_HOST_LANES = DHOWI_BACKGROUND_TIMELINES };

/* An order of jobs. */
typedef struct dhowi_host_lane {
    dhowi_timeline *timeline; /* of the context */
    uint32_t index;
} dhowi_host_lane;

/* The lane of a stream's jobs, whose thread starts on first use; NULL with an error when that
 * fails. */
dhowi_host_lane *dhowi_host_lane_of(dhow_stream *stream);
/* Hands a job in; it is the queue's from then on. The context lives until the job has ended.
 * `out_ticket`, which may be NULL, is set before the job runs. */
dhowi_timepoint dhowi_host_lane_push(dhowi_host_lane *lane, dhowi_job *job,
                                     _Atomic uint64_t *out_ticket);

/* From what is pending to what is noted is one step for those who hand in copies: while one of them
 * holds the lock, copies of other threads into the same tensors see all of it or nothing. */
void dhowi_host_lane_lock(dhowi_host_lane *lane);
void dhowi_host_lane_unlock(dhowi_host_lane *lane);

#endif /* DHOWI_STREAM_HOST_QUEUE_H_ */
