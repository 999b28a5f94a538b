/* SPDX-License-Identifier: Apache-2.0
 *
 * Events. Each record makes a point of its own, so that a wait stands for the record that was the
 * latest when it was submitted, whatever becomes of the event later.
 */
#include "internal.h"

void simdev_point_release(const simdev_machine *machine, simdev_point *point) {
    if (atomic_fetch_sub(&point->refs, 1) == 1) simdev_delete(machine, point);
}

static simdev_point *point_new(const simdev_machine *machine, unsigned refs) {
    simdev_point *point = simdev_new(machine, sizeof *point);
    if (point != NULL) atomic_init(&point->refs, refs);
    return point;
}

void simdev_point_reach(simdev_machine *machine, simdev_point *point, int64_t when,
                        const simdev_failure *failure) {
    if (point->reached) return;
    point->reached = true;
    point->nanoseconds = when;
    if (failure != NULL) point->failure = *failure;
    SIMDEV_RELEASE(point);
    simdev_cond_broadcast(&machine->progress);
}

/* The latest point, held; NULL when there is none. */
static simdev_point *take_latest(simdev_event *event) {
    simdev_lock(&event->device->machine->lock);
    simdev_point *point = event->latest;
    if (point != NULL) (void)atomic_fetch_add(&point->refs, 1);
    simdev_unlock(&event->device->machine->lock);
    return point;
}

int32_t simdev_event_create(simdev_device *device, uint32_t flags, simdev_event **out,
                            dhow_error *err) {
    simdev_machine *machine = device->machine;
    const bool host = (flags & DHOW_EVENT_HOST) != 0;
    *out = NULL;
    int32_t status = simdev_enter(device, "event_create", NULL, err);
    if (status != DHOW_OK) return status;
    if (host && !machine->config.host_events)
        return simdev_fail(err, DHOW_UNSUPPORTED,
                           "streams of simulated device %u cannot wait for the host",
                           device->index);
    simdev_event *event = simdev_new(machine, sizeof *event);
    if (event == NULL) return simdev_fail(err, DHOW_OUT_OF_MEMORY, "no host memory for an event");
    event->device = device;
    event->flags = flags;
    if (host) event->latest = point_new(machine, 1);
    if (host && event->latest == NULL) {
        simdev_delete(machine, event);
        return simdev_fail(err, DHOW_OUT_OF_MEMORY, "no host memory for an event");
    }
    simdev_lock(&machine->lock);
    device->event_count++;
    simdev_unlock(&machine->lock);
    *out = event;
    return DHOW_OK;
}

void simdev_event_destroy(simdev_event *event) {
    if (event == NULL) return;
    simdev_machine *machine = event->device->machine;
    simdev_lock(&machine->lock);
    event->device->event_count--;
    if (event->flags & DHOW_EVENT_HOST)
        simdev_point_reach(machine, event->latest, simdev_now(), NULL);
    simdev_unlock(&machine->lock);
    if (event->latest != NULL) simdev_point_release(machine, event->latest);
    simdev_delete(machine, event);
}

int32_t simdev_event_record(simdev_event *event, simdev_stream *stream, dhow_error *err) {
    simdev_machine *machine = stream->device->machine;
    int32_t status = simdev_enter(stream->device, "event_record", NULL, err);
    if (status != DHOW_OK) return status;
    if (event->flags & DHOW_EVENT_HOST)
        return simdev_fail(err, DHOW_INVALID_ARGUMENT,
                           "an event for the host is signalled, not recorded");
    if (event->device != stream->device)
        return simdev_fail(err, DHOW_INVALID_ARGUMENT,
                           "an event of device %u is recorded on device %u", event->device->index,
                           stream->device->index);
    simdev_op *op = simdev_op_new(stream, SIMDEV_RECORD, err);
    if (op == NULL) return DHOW_OUT_OF_MEMORY;
    simdev_point *point = op->point = point_new(machine, 2); /* the operation's and ours */
    if (point == NULL) {
        simdev_op_delete(machine, op);
        return simdev_fail(err, DHOW_OUT_OF_MEMORY, "no host memory to record an event");
    }
    status = simdev_submit(stream, op, false, err);
    if (status != DHOW_OK) {
        simdev_point_release(machine, point);
        return status;
    }
    simdev_lock(&machine->lock);
    simdev_point *before = event->latest;
    event->latest = point;
    simdev_unlock(&machine->lock);
    if (before != NULL) simdev_point_release(machine, before);
    return DHOW_OK;
}

int32_t simdev_event_sync(simdev_event *event, dhow_error *err) {
    simdev_device *device = event->device;
    simdev_machine *machine = device->machine;
    simdev_failure failure = {DHOW_OK, ""};
    simdev_point *point = take_latest(event);
    if (point != NULL) {
        simdev_lock(&machine->lock);
        /* Recorded points of a lost device are reached too, once its work has ended; nobody may
         * signal a host event. */
        while (!point->reached &&
               !((event->flags & DHOW_EVENT_HOST) && simdev_lost(device)->status != DHOW_OK))
            simdev_cond_wait(&machine->progress, &machine->lock);
        SIMDEV_ACQUIRE(point);
        failure = point->failure;
        simdev_unlock(&machine->lock);
        simdev_point_release(machine, point);
    }
    int32_t status = simdev_enter(device, "event_sync", NULL, err);
    return failure.status != DHOW_OK ? simdev_report(err, &failure) : status;
}

int32_t simdev_event_query(simdev_event *event, dhow_error *err) {
    simdev_machine *machine = event->device->machine;
    simdev_failure failure = {DHOW_OK, ""};
    bool reached = true;
    int32_t status = simdev_enter(event->device, "event_query", NULL, err);
    if (status != DHOW_OK) return status;
    simdev_lock(&machine->lock);
    if (event->latest != NULL) {
        reached = event->latest->reached;
        if (reached) {
            SIMDEV_ACQUIRE(event->latest);
            failure = event->latest->failure;
        }
    }
    simdev_unlock(&machine->lock);
    return reached ? simdev_report(err, &failure) : DHOW_NOT_READY;
}

int32_t simdev_event_signal(simdev_event *event, dhow_error *err) {
    simdev_machine *machine = event->device->machine;
    int32_t status = simdev_enter(event->device, "event_signal", NULL, err);
    /* Streams of other devices wait for it whatever became of its own. */
    if (status != DHOW_OK && status != DHOW_DEVICE_LOST) return status;
    if ((event->flags & DHOW_EVENT_HOST) == 0)
        return simdev_fail(err, DHOW_INVALID_ARGUMENT,
                           "an event that is not for the host is recorded, not signalled");
    simdev_lock(&machine->lock);
    simdev_point_reach(machine, event->latest, simdev_now(), NULL);
    simdev_unlock(&machine->lock);
    return status;
}

int32_t simdev_event_elapsed(simdev_event *start, simdev_event *end, int64_t *out_nanoseconds,
                             dhow_error *err) {
    simdev_machine *machine = start->device->machine;
    *out_nanoseconds = 0;
    int32_t status = simdev_enter(start->device, "event_elapsed", NULL, err);
    if (status != DHOW_OK) return status;
    if ((start->flags & end->flags & DHOW_EVENT_TIMING) == 0)
        return simdev_fail(err, DHOW_INVALID_ARGUMENT,
                           "only events made for timing know when they were reached");
    simdev_lock(&machine->lock);
    const simdev_point *from = start->latest, *to = end->latest;
    if (from == NULL || to == NULL) {
        status =
            simdev_fail(err, DHOW_INVALID_ARGUMENT, "an event that was never recorded has no time");
    } else if (!from->reached || !to->reached) {
        status = DHOW_NOT_READY;
    } else {
        *out_nanoseconds = to->nanoseconds - from->nanoseconds;
    }
    simdev_unlock(&machine->lock);
    return status;
}
