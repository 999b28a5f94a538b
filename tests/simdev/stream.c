/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams: a queue and a thread each. The head of the queue is the operation that runs.
 */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "internal.h"

/* ---- operations ---- */

void simdev_op_delete(const simdev_machine *machine, simdev_op *op) {
    if (op == NULL) return;
    simdev_delete(machine, op->staging);
    if (op->point != NULL) simdev_point_release(machine, op->point);
    simdev_delete(machine, op);
}

static void reclaim(simdev_stream *stream) {
    simdev_machine *machine = stream->device->machine;
    simdev_lock(&machine->lock);
    simdev_op *op = stream->finished;
    stream->finished = NULL;
    simdev_unlock(&machine->lock);
    while (op != NULL) {
        simdev_op *next = op->next;
        simdev_op_delete(machine, op);
        op = next;
    }
}

simdev_op *simdev_op_new(simdev_stream *stream, simdev_op_kind kind, dhow_error *err) {
    reclaim(stream);
    simdev_op *op = simdev_new(stream->device->machine, sizeof *op);
    if (op == NULL) {
        (void)simdev_fail(err, DHOW_OUT_OF_MEMORY, "no host memory to queue work for device %u",
                          stream->device->index);
        return NULL;
    }
    op->kind = kind;
    return op;
}

/* ---- the thread ---- */

/* Work behind it begins when the point was reached, not when this thread learnt of it. */
static void wait_for_point(simdev_stream *stream, simdev_point *point) {
    simdev_machine *machine = stream->device->machine;
    while (!point->reached && !stream->quit && simdev_lost(stream->device)->status == DHOW_OK)
        simdev_cond_wait(&machine->progress, &machine->lock);
    if (!point->reached) return;
    SIMDEV_ACQUIRE(point);
    if (point->nanoseconds > stream->free_at) stream->free_at = point->nanoseconds;
}

static void work(simdev_stream *stream, simdev_op *op) {
    simdev_device *device = stream->device;
    simdev_failure why = {DHOW_OK, ""};
    if (stream->quit || simdev_lost(device)->status != DHOW_OK) return;
    simdev_unlock(&device->machine->lock);
    simdev_run(stream, op, &why);
    simdev_lock(&device->machine->lock);
    if (why.status == DHOW_OK) return;
    const simdev_config *config = &device->machine->config;
    const bool loses = config->failed != NULL &&
                       config->failed(config->user, device->index, why.status, why.message);
    if (stream->failure.status == DHOW_OK) stream->failure = why;
    if (op->fault_loses || loses) simdev_lose_locked(device, &why);
}

static void run_head(simdev_stream *stream) {
    simdev_machine *machine = stream->device->machine;
    simdev_op *op = stream->head;
    SIMDEV_ACQUIRE(op);
    if (op->kind == SIMDEV_WAIT) {
        wait_for_point(stream, op->point);
    } else if (op->kind == SIMDEV_RECORD) {
        const simdev_failure *lost = simdev_lost(stream->device);
        simdev_point_reach(machine, op->point, simdev_begin_of(stream, op),
                           lost->status != DHOW_OK ? lost : &stream->failure);
    } else {
        work(stream, op);
    }
    stream->head = op->next;
    if (stream->head == NULL) stream->tail = NULL;
    op->next = stream->finished;
    stream->finished = op;
    stream->completed++;
    SIMDEV_RELEASE(&stream->completed);
    simdev_cond_broadcast(&machine->progress);
}

/* The system lets sleeping threads lie for 50 us more, which would be most of what a short kernel
 * takes. */
static void *run_stream(void *argument) {
    simdev_stream *stream = argument;
    simdev_machine *machine = stream->device->machine;
    (void)prctl(PR_SET_TIMERSLACK, 1UL);
    simdev_lock(&machine->lock);
    while (stream->head != NULL || !stream->quit) {
        if (stream->head != NULL) {
            run_head(stream);
        } else {
            simdev_cond_wait(&stream->arrival, &machine->lock);
        }
    }
    simdev_unlock(&machine->lock);
    return NULL;
}

/* Signals are for the program's own threads. */
static int start_thread(simdev_stream *stream) {
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&stream->thread, NULL, run_stream, stream);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

/* ---- submission and waiting ---- */

static void wait_for(simdev_stream *stream, uint64_t number) {
    simdev_machine *machine = stream->device->machine;
    while (stream->completed < number) simdev_cond_wait(&machine->progress, &machine->lock);
    SIMDEV_ACQUIRE(&stream->completed);
}

int32_t simdev_submit(simdev_stream *stream, simdev_op *op, bool wait, dhow_error *err) {
    simdev_machine *machine = stream->device->machine;
    simdev_lock(&machine->lock);
    if (!stream->started) {
        int code = start_thread(stream);
        if (code != 0) {
            simdev_unlock(&machine->lock);
            simdev_op_delete(machine, op);
            return simdev_fail(err, DHOW_OUT_OF_MEMORY, "cannot start a stream's thread: %s",
                               strerror(code));
        }
        stream->started = true;
    }
    SIMDEV_RELEASE(op);
    op->arrived = simdev_now();
    if (stream->tail != NULL) {
        stream->tail->next = op;
    } else {
        stream->head = op;
    }
    stream->tail = op;
    uint64_t number = ++stream->submitted;
    simdev_cond_broadcast(&stream->arrival);
    if (wait) wait_for(stream, number);
    simdev_unlock(&machine->lock);
    return DHOW_OK;
}

/* ---- the calls ---- */

int32_t simdev_stream_create(simdev_device *device, uint32_t flags, simdev_stream **out,
                             dhow_error *err) {
    simdev_machine *machine = device->machine;
    *out = NULL;
    int32_t status = simdev_enter(device, "stream_create", NULL, err);
    if (status != DHOW_OK) return status;
    simdev_stream *stream = simdev_new(machine, sizeof *stream);
    if (stream == NULL) return simdev_fail(err, DHOW_OUT_OF_MEMORY, "no host memory for a stream");
    stream->device = device;
    stream->flags = flags;
    (void)pthread_cond_init(&stream->arrival, NULL);
    simdev_lock(&machine->lock);
    /* Any value but 0 serves; neighbours must not wait alike. */
    stream->random =
        ((machine->config.seed + ++machine->stream_number) * UINT64_C(0x9E3779B97F4A7C15)) | 1;
    stream->next = device->streams;
    device->streams = stream;
    simdev_unlock(&machine->lock);
    *out = stream;
    return DHOW_OK;
}

void simdev_stream_destroy(simdev_stream *stream) {
    if (stream == NULL) return;
    simdev_device *device = stream->device;
    simdev_machine *machine = device->machine;
    simdev_lock(&machine->lock);
    simdev_stream **at = &device->streams;
    while (*at != stream) at = &(*at)->next;
    *at = stream->next;
    stream->quit = true;
    simdev_cond_broadcast(&stream->arrival);
    simdev_cond_broadcast(&machine->progress);
    simdev_unlock(&machine->lock);
    if (stream->started) (void)pthread_join(stream->thread, NULL);
    reclaim(stream);
    (void)pthread_cond_destroy(&stream->arrival);
    simdev_delete(machine, stream);
}

int32_t simdev_stream_sync(simdev_stream *stream, dhow_error *err) {
    simdev_machine *machine = stream->device->machine;
    simdev_failure failure = {DHOW_OK, ""};
    simdev_lock(&machine->lock);
    wait_for(stream, stream->submitted);
    if (simdev_lost(stream->device)->status == DHOW_OK) {
        failure = stream->failure;
        stream->failure.status = DHOW_OK;
    }
    simdev_unlock(&machine->lock);
    reclaim(stream);
    int32_t status = simdev_enter(stream->device, "stream_sync", NULL, err);
    return failure.status != DHOW_OK ? simdev_report(err, &failure) : status;
}

void simdev_device_drain(simdev_device *device) {
    simdev_machine *machine = device->machine;
    bool busy = true;
    simdev_lock(&machine->lock);
    for (simdev_stream *s = device->streams; s != NULL; s = s->next) s->drain = s->submitted;
    while (busy) {
        busy = false;
        for (simdev_stream *s = device->streams; s != NULL && !busy; s = s->next)
            busy = s->completed < s->drain;
        if (busy) simdev_cond_wait(&machine->progress, &machine->lock);
    }
    simdev_unlock(&machine->lock);
}

bool simdev_stream_is_stopping(simdev_stream *stream) {
    simdev_lock(&stream->device->machine->lock);
    const bool stopping = stream->quit || simdev_lost(stream->device)->status != DHOW_OK;
    simdev_unlock(&stream->device->machine->lock);
    return stopping;
}

int32_t simdev_stream_query(simdev_stream *stream, dhow_error *err) {
    simdev_machine *machine = stream->device->machine;
    int32_t status = simdev_enter(stream->device, "stream_query", NULL, err);
    simdev_lock(&machine->lock);
    bool idle = stream->completed == stream->submitted;
    if (idle) SIMDEV_ACQUIRE(&stream->completed);
    simdev_unlock(&machine->lock);
    if (!idle && status == DHOW_OK) return DHOW_NOT_READY;
    return status;
}

int32_t simdev_stream_wait(simdev_stream *stream, simdev_event *event, dhow_error *err) {
    simdev_machine *machine = stream->device->machine;
    int32_t status = simdev_enter(stream->device, "stream_wait", NULL, err);
    if (status != DHOW_OK) return status;
    simdev_op *op = simdev_op_new(stream, SIMDEV_WAIT, err);
    if (op == NULL) return DHOW_OUT_OF_MEMORY;
    simdev_lock(&machine->lock);
    op->point = event->latest;
    if (op->point != NULL) (void)atomic_fetch_add(&op->point->refs, 1);
    simdev_unlock(&machine->lock);
    if (op->point == NULL) { /* never recorded: reached */
        simdev_op_delete(machine, op);
        return DHOW_OK;
    }
    return simdev_submit(stream, op, false, err);
}
