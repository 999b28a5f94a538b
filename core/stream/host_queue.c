/* SPDX-License-Identifier: Apache-2.0
 *
 * See host_queue.h.
 */
#include "stream/host_queue.h"

#include <stddef.h>
#include <string.h>

#include "base/errors/planted.h"
#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "base/threads/thread.h"

enum { KEPT_FAILURES = 16, KEPT_NUMBERS = 1024 };

typedef struct failure {
    uint64_t number;
    dhowi_saved_error error;
} failure;

typedef struct job_list {
    dhowi_job *first, *last;
} job_list;

typedef struct dhowi_host_queue dhowi_host_queue;

/* The thread of a lane. */
typedef struct worker {
    dhowi_host_queue *queue;
    dhowi_host_lane lane;
    pthread_t thread;
    bool started;
    pthread_cond_t wake;
    job_list jobs;
    failure failures[KEPT_FAILURES]; /* a ring */
    uint64_t failed[KEPT_NUMBERS];   /* the same without reasons, which last longer */
    uint32_t failure_count;
} worker;

struct dhowi_host_queue {
    dhow_context *context;
    pthread_mutex_t mutex;
    pthread_mutex_t copying; /* handing in copies; taken before `mutex` */
    pthread_cond_t done, dead;
    worker workers[DHOWI_HOST_LANES];
    uint32_t streams; /* that have been given a lane */
    pthread_t reaper;
    bool ending;
    bool detached; /* the context ended on the reaper's own thread */
    job_list ended;
    uint64_t pushed, reaped; /* jobs handed in, and ended */
};

static void put(job_list *list, dhowi_job *job) {
    job->next = NULL;
    if (list->last != NULL) {
        list->last->next = job;
    } else {
        list->first = job;
    }
    list->last = job;
}

static dhowi_job *take(job_list *list) {
    dhowi_job *job = list->first;
    if (job != NULL) list->first = job->next;
    if (list->first == NULL) list->last = NULL;
    return job;
}

static void free_queue(dhowi_host_queue *q) {
    pthread_mutex_destroy(&q->mutex);
    pthread_mutex_destroy(&q->copying);
    for (int i = 0; i < DHOWI_HOST_LANES; i++) pthread_cond_destroy(&q->workers[i].wake);
    pthread_cond_destroy(&q->done);
    pthread_cond_destroy(&q->dead);
    dhowi_free(q);
}

/* Under the mutex: the next job, or NULL when the queue ends. */
static dhowi_job *next_job(dhowi_host_queue *q, job_list *list, pthread_cond_t *news) {
    while (list->first == NULL && !q->ending) pthread_cond_wait(news, &q->mutex);
    return take(list);
}

static void *work(void *argument) {
    worker *w = argument;
    dhowi_host_queue *q = w->queue;
    dhowi_job *job;
    pthread_mutex_lock(&q->mutex);
    while ((job = next_job(q, &w->jobs, &w->wake)) != NULL) {
        const uint64_t number = dhowi_ticket_mark(q->context, job->ticket).number;
        if (dhowi_planted("a job counts before it has run"))
            dhowi_timeline_complete(w->lane.timeline, number);
        pthread_mutex_unlock(&q->mutex);
        dhow_status status = job->run(job);
        pthread_mutex_lock(&q->mutex);
        if (status != DHOW_OK) {
            failure *f = &w->failures[w->failure_count % KEPT_FAILURES];
            f->number = w->failed[w->failure_count++ % KEPT_NUMBERS] = number;
            dhowi_error_save(&f->error, status);
        }
        dhowi_timeline_complete(w->lane.timeline, number);
        pthread_cond_broadcast(&q->done);
        put(&q->ended, job);
        pthread_cond_signal(&q->dead);
    }
    pthread_mutex_unlock(&q->mutex);
    return NULL;
}

/* Ending a job may end streams, wrapped memory and the context, all of which wait. */
static void *reap(void *argument) {
    dhowi_host_queue *q = argument;
    dhow_context *context = q->context;
    dhowi_job *job;
    pthread_mutex_lock(&q->mutex);
    while ((job = next_job(q, &q->ended, &q->dead)) != NULL) {
        pthread_mutex_unlock(&q->mutex);
        job->end(job);
        dhowi_context_drop(context); /* the job's reference */
        if (q->detached) {
            free_queue(q);
            return NULL;
        }
        pthread_mutex_lock(&q->mutex);
        q->reaped++;
        pthread_cond_broadcast(&q->done);
    }
    pthread_mutex_unlock(&q->mutex);
    return NULL;
}

static worker *worker_of(dhowi_host_lane *lane) {
    return (worker *)(void *)((char *)lane - offsetof(worker, lane));
}

/* Under the mutex: how a job that is done has ended. */
static dhow_status outcome(const worker *w, uint64_t number) {
    for (uint32_t i = 0; i < DHOWI_MIN(w->failure_count, (uint32_t)KEPT_FAILURES); i++) {
        if (w->failures[i].number == number) return dhowi_error_raise(&w->failures[i].error);
    }
    for (uint32_t i = 0; i < DHOWI_MIN(w->failure_count, (uint32_t)KEPT_NUMBERS); i++) {
        if (w->failed[i] == number)
            return dhowi_fail(DHOW_CANCELLED, "an earlier copy failed, too long ago to know why");
    }
    return DHOW_OK;
}

static dhow_status wait_number(dhowi_timeline *timeline, uint64_t number) {
    if (atomic_load_explicit(&timeline->completed, memory_order_acquire) == UINT64_MAX)
        return DHOW_OK;
    const worker *w = ((const dhowi_background *)(const void *)timeline)->owner;
    dhowi_host_queue *q = w->queue;
    pthread_mutex_lock(&q->mutex);
    while (atomic_load(&timeline->completed) < number) pthread_cond_wait(&q->done, &q->mutex);
    dhow_status status = outcome(w, number);
    pthread_mutex_unlock(&q->mutex);
    return status;
}

static dhow_status fail_thread(int error) {
    return dhowi_fail(DHOW_OUT_OF_MEMORY, "host queue: cannot start a thread: %s", strerror(error));
}

static void stop(dhowi_host_queue *q) {
    pthread_mutex_lock(&q->mutex);
    q->ending = true;
    for (int i = 0; i < DHOWI_HOST_LANES; i++) pthread_cond_broadcast(&q->workers[i].wake);
    pthread_cond_broadcast(&q->dead);
    pthread_mutex_unlock(&q->mutex);
    for (int i = 0; i < DHOWI_HOST_LANES; i++) {
        if (q->workers[i].started) (void)pthread_join(q->workers[i].thread, NULL);
    }
}

static void *make_queue(dhow_context *context) {
    dhowi_host_queue *q = dhowi_alloc(sizeof *q);
    if (q == NULL) {
        (void)dhowi_fail_memory("host queue");
        return NULL;
    }
    q->context = context;
    pthread_mutex_init(&q->mutex, NULL);
    pthread_mutex_init(&q->copying, NULL);
    pthread_cond_init(&q->done, NULL);
    pthread_cond_init(&q->dead, NULL);
    for (uint32_t i = 0; i < DHOWI_HOST_LANES; i++) {
        dhowi_background *background = &context->background[i];
        background->owner = &q->workers[i];
        dhowi_timeline_start(&background->timeline, wait_number, NULL, NULL);
        q->workers[i].queue = q;
        q->workers[i].lane = (dhowi_host_lane){&background->timeline, i};
        pthread_cond_init(&q->workers[i].wake, NULL);
    }
    int error = dhowi_thread_start(&q->reaper, reap, q);
    if (error != 0) {
        (void)fail_thread(error);
        free_queue(q);
        return NULL;
    }
    return q;
}

/* Every job holds the context, so none is left. */
static void end_queue(void *context, void *data) {
    dhow_context *owner = context;
    dhowi_host_queue *q = data;
    stop(q);
    for (int i = 0; i < DHOWI_HOST_LANES; i++)
        dhowi_timeline_retire(&owner->background[i].timeline);
    if (pthread_equal(pthread_self(), q->reaper)) {
        q->detached = true;
        (void)pthread_detach(q->reaper);
    } else {
        (void)pthread_join(q->reaper, NULL);
        free_queue(q);
    }
}

static void drain_queue(void *data) {
    dhowi_host_queue *q = data;
    if (pthread_equal(pthread_self(), q->reaper)) return;
    pthread_mutex_lock(&q->mutex);
    uint64_t pushed = q->pushed;
    while (q->reaped < pushed && !dhowi_planted("a drain looks at what is done"))
        pthread_cond_wait(&q->done, &q->mutex);
    pthread_mutex_unlock(&q->mutex);
}

/* ---- handing in ---- */

static dhow_status start_worker(worker *w) {
    int error = w->started ? 0 : dhowi_thread_start(&w->thread, work, w);
    w->started = error == 0;
    return w->started ? DHOW_OK : fail_thread(error);
}

dhowi_host_lane *dhowi_host_lane_of(dhow_stream *stream) {
    dhow_context *context = stream->device->context;
    dhowi_host_queue *q = dhowi_context_attach_work(context, make_queue, end_queue, drain_queue);
    uint32_t number = atomic_load(&stream->lane);
    if (q != NULL && number != 0) return &q->workers[number - 1].lane;
    if (q == NULL) return NULL;
    pthread_mutex_lock(&q->mutex);
    if (!dhowi_planted("a lane is chosen twice")) number = atomic_load(&stream->lane);
    if (number == 0) {
        const uint32_t next = q->streams % DHOWI_HOST_LANES;
        if (start_worker(&q->workers[next]) == DHOW_OK) {
            q->streams++;
            number = next + 1;
            atomic_store(&stream->lane, number);
        }
    }
    pthread_mutex_unlock(&q->mutex);
    return number != 0 ? &q->workers[number - 1].lane : NULL;
}

dhowi_timepoint dhowi_host_lane_push(dhowi_host_lane *lane, dhowi_job *job,
                                     _Atomic uint64_t *out_ticket) {
    worker *w = worker_of(lane);
    dhowi_host_queue *q = w->queue;
    dhow_context *context = q->context;
    dhowi_handle_retain(&context->handle);
    pthread_mutex_lock(&q->mutex);
    /* The job may be gone once the mutex is free. */
    dhowi_timepoint point = {lane->timeline, atomic_load(&lane->timeline->submitted) + 1};
    job->ticket = dhowi_ticket(lane->index, point.number);
    atomic_store(&lane->timeline->submitted, point.number);
    if (out_ticket != NULL) atomic_store(out_ticket, job->ticket);
    put(&w->jobs, job);
    q->pushed++;
    if (!dhowi_planted("a job is put where nobody is woken")) pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&q->mutex);
    return point;
}

void dhowi_host_lane_lock(dhowi_host_lane *lane) {
    pthread_mutex_lock(&worker_of(lane)->queue->copying);
}

void dhowi_host_lane_unlock(dhowi_host_lane *lane) {
    pthread_mutex_unlock(&worker_of(lane)->queue->copying);
}
