/* SPDX-License-Identifier: Apache-2.0
 *
 * See host_queue.h.
 */
#include "stream/host_queue.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "base/thread.h"

enum { KEPT_FAILURES = 16 };

typedef struct failure {
    uint64_t number;
    dhowi_saved_error error;
} failure;

typedef struct job_list {
    dhowi_job *first, *last;
} job_list;

struct dhowi_host_queue {
    dhow_context *context;
    dhowi_timeline *timeline; /* the context's */
    pthread_mutex_t mutex;
    pthread_cond_t wake, done, dead;
    pthread_t worker, undertaker;
    bool ending;
    bool orphaned; /* the context ended on the undertaker's own thread */
    job_list jobs, ended;
    uint64_t pushed, buried;         /* jobs handed in, and ended */
    failure failures[KEPT_FAILURES]; /* a ring */
    uint32_t failure_count;
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
    pthread_cond_destroy(&q->wake);
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
    dhowi_host_queue *q = argument;
    dhowi_job *job;
    pthread_mutex_lock(&q->mutex);
    while ((job = next_job(q, &q->jobs, &q->wake)) != NULL) {
        pthread_mutex_unlock(&q->mutex);
        dhow_status status = job->run(job);
        pthread_mutex_lock(&q->mutex);
        if (status != DHOW_OK) {
            failure *f = &q->failures[q->failure_count++ % KEPT_FAILURES];
            f->number = job->number;
            dhowi_error_save(&f->error, status);
        }
        dhowi_timeline_complete(q->timeline, job->number);
        pthread_cond_broadcast(&q->done);
        put(&q->ended, job);
        pthread_cond_signal(&q->dead);
    }
    pthread_mutex_unlock(&q->mutex);
    return NULL;
}

/* Ending a job may end streams, wrapped memory and the context, all of which wait. */
static void *bury(void *argument) {
    dhowi_host_queue *q = argument;
    dhow_context *context = q->context;
    dhowi_job *job;
    pthread_mutex_lock(&q->mutex);
    while ((job = next_job(q, &q->ended, &q->dead)) != NULL) {
        pthread_mutex_unlock(&q->mutex);
        job->end(job);
        dhowi_context_drop(context); /* the job's reference */
        if (q->orphaned) {
            free_queue(q);
            return NULL;
        }
        pthread_mutex_lock(&q->mutex);
        q->buried++;
        pthread_cond_broadcast(&q->done);
    }
    pthread_mutex_unlock(&q->mutex);
    return NULL;
}

static dhow_status wait_number(dhowi_timeline *timeline, uint64_t number) {
    if (atomic_load_explicit(&timeline->completed, memory_order_acquire) == UINT64_MAX)
        return DHOW_OK;
    const dhow_context *context =
        (dhow_context *)(void *)((char *)timeline - offsetof(dhow_context, host_timeline));
    dhowi_host_queue *q = atomic_load_explicit(&context->host_queue.data, memory_order_acquire);
    dhow_status status = DHOW_OK;
    pthread_mutex_lock(&q->mutex);
    while (atomic_load(&timeline->completed) < number) pthread_cond_wait(&q->done, &q->mutex);
    uint32_t kept = DHOWI_MIN(q->failure_count, (uint32_t)KEPT_FAILURES);
    for (uint32_t i = 0; i < kept; i++) {
        if (q->failures[i].number == number) status = dhowi_error_raise(&q->failures[i].error);
    }
    pthread_mutex_unlock(&q->mutex);
    return status;
}

static void stop(dhowi_host_queue *q) {
    pthread_mutex_lock(&q->mutex);
    q->ending = true;
    pthread_cond_broadcast(&q->wake);
    pthread_cond_broadcast(&q->dead);
    pthread_mutex_unlock(&q->mutex);
    (void)pthread_join(q->worker, NULL);
}

static int start_threads(dhowi_host_queue *q) {
    int error = dhowi_thread_start(&q->worker, work, q);
    if (error != 0) return error;
    error = dhowi_thread_start(&q->undertaker, bury, q);
    if (error != 0) stop(q);
    return error;
}

static void *make_queue(dhow_context *context) {
    dhowi_host_queue *q = dhowi_alloc(sizeof *q);
    if (q == NULL) {
        (void)dhowi_fail_memory("host queue");
        return NULL;
    }
    q->context = context;
    q->timeline = &context->host_timeline;
    dhowi_timeline_start(q->timeline, wait_number);
    pthread_mutex_init(&q->mutex, NULL);
    pthread_cond_init(&q->wake, NULL);
    pthread_cond_init(&q->done, NULL);
    pthread_cond_init(&q->dead, NULL);
    int error = start_threads(q);
    if (error != 0) {
        (void)dhowi_fail(DHOW_OUT_OF_MEMORY, "host queue: cannot start a thread: %s",
                         strerror(error));
        free_queue(q);
        return NULL;
    }
    return q;
}

/* Every job holds the context, so none is left. */
static void end_queue(void *context, void *data) {
    (void)context;
    dhowi_host_queue *q = data;
    dhowi_timeline *timeline = q->timeline;
    stop(q);
    if (pthread_equal(pthread_self(), q->undertaker)) {
        q->orphaned = true;
        (void)pthread_detach(q->undertaker);
    } else {
        (void)pthread_join(q->undertaker, NULL);
        free_queue(q);
    }
    dhowi_timeline_retire(timeline);
}

static void drain_queue(void *data) {
    dhowi_host_queue *q = data;
    if (pthread_equal(pthread_self(), q->undertaker)) return;
    pthread_mutex_lock(&q->mutex);
    uint64_t pushed = q->pushed;
    while (q->buried < pushed) pthread_cond_wait(&q->done, &q->mutex);
    pthread_mutex_unlock(&q->mutex);
}

dhowi_host_queue *dhowi_host_queue_of(dhow_context *context) {
    return dhowi_context_attach_host_queue(context, make_queue, end_queue, drain_queue);
}

dhowi_mark dhowi_host_queue_push(dhowi_host_queue *q, dhowi_job *job,
                                 _Atomic uint64_t *out_number) {
    dhowi_handle_retain(&q->context->handle);
    pthread_mutex_lock(&q->mutex);
    job->number = atomic_load(&q->timeline->submitted) + 1;
    dhowi_mark mark = {q->timeline, job->number}; /* the job may be gone once the mutex is free */
    atomic_store(&q->timeline->submitted, job->number);
    if (out_number != NULL) atomic_store(out_number, job->number);
    put(&q->jobs, job);
    q->pushed++;
    pthread_cond_signal(&q->wake);
    pthread_mutex_unlock(&q->mutex);
    return mark;
}
