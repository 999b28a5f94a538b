/* SPDX-License-Identifier: Apache-2.0
 *
 * See host_queue.h.
 */
#include "stream/host_queue.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"

enum { KEPT_FAILURES = 16 };

typedef struct failure {
    uint64_t number;
    dhowi_saved_error error;
} failure;

struct dhowi_host_queue {
    dhow_context *context;
    dhowi_timeline *timeline; /* the context's */
    pthread_mutex_t mutex;
    pthread_cond_t wake, done;
    pthread_t thread;
    bool ending;
    bool orphaned; /* the context ended on the queue's own thread */
    dhowi_job *first, *last;
    failure failures[KEPT_FAILURES]; /* a ring */
    uint32_t failure_count;
};

static void free_queue(dhowi_host_queue *q) {
    pthread_mutex_destroy(&q->mutex);
    pthread_cond_destroy(&q->wake);
    pthread_cond_destroy(&q->done);
    dhowi_free(q);
}

static void *work(void *argument) {
    dhowi_host_queue *q = argument;
    pthread_mutex_lock(&q->mutex);
    for (;;) {
        while (q->first == NULL && !q->ending) pthread_cond_wait(&q->wake, &q->mutex);
        dhowi_job *job = q->first;
        if (job == NULL) break;
        q->first = job->next;
        if (q->first == NULL) q->last = NULL;
        pthread_mutex_unlock(&q->mutex);
        uint64_t number = job->number;
        dhow_status status = job->run(job);
        if (q->orphaned) { /* the job held the context's last reference */
            free_queue(q);
            return NULL;
        }
        pthread_mutex_lock(&q->mutex);
        if (status != DHOW_OK) {
            failure *f = &q->failures[q->failure_count++ % KEPT_FAILURES];
            f->number = number;
            dhowi_error_save(&f->error, status);
        }
        dhowi_timeline_complete(q->timeline, number);
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

/* The program's signals are not for this thread. */
static int start_thread(dhowi_host_queue *q) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(&q->thread, NULL, work, q);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
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
    int error = start_thread(q);
    if (error != 0) {
        (void)dhowi_fail(DHOW_OUT_OF_MEMORY, "host queue: cannot start a thread: %s",
                         strerror(error));
        dhowi_free(q);
        return NULL;
    }
    return q;
}

static void end_queue(void *context, void *data) {
    (void)context;
    dhowi_host_queue *q = data;
    dhowi_timeline *timeline = q->timeline;
    if (pthread_equal(pthread_self(), q->thread)) {
        q->orphaned = true;
        (void)pthread_detach(q->thread);
    } else {
        pthread_mutex_lock(&q->mutex);
        q->ending = true;
        pthread_cond_signal(&q->wake);
        pthread_mutex_unlock(&q->mutex);
        (void)pthread_join(q->thread, NULL);
        free_queue(q);
    }
    dhowi_timeline_retire(timeline);
}

dhowi_host_queue *dhowi_host_queue_of(dhow_context *context) {
    return dhowi_context_attach_host_queue(context, make_queue, end_queue);
}

dhowi_mark dhowi_host_queue_push(dhowi_host_queue *q, dhowi_job *job) {
    pthread_mutex_lock(&q->mutex);
    job->next = NULL;
    job->number = atomic_load(&q->timeline->submitted) + 1;
    dhowi_mark mark = {q->timeline, job->number}; /* the job may be gone once the mutex is free */
    atomic_store(&q->timeline->submitted, job->number);
    if (q->last != NULL) {
        q->last->next = job;
    } else {
        q->first = job;
    }
    q->last = job;
    pthread_cond_signal(&q->wake);
    pthread_mutex_unlock(&q->mutex);
    return mark;
}
