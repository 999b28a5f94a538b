/* SPDX-License-Identifier: Apache-2.0
 *
 * Events: points in a stream, or, made with DHOW_EVENT_HOST, points that the host signals. A device
 * that cannot wait for the host answers UNSUPPORTED to such a flag, and the host does without.
 */
#include "sim.h"

int32_t sim_event_create(void *handle, uint32_t flags, void **out_event, dhow_error *err) {
    sim_device *device = handle;
    *out_event = NULL;
    sim_event *event = sim_new(device->host, sizeof *event);
    if (event == NULL) return sim_fail(err, DHOW_OUT_OF_MEMORY, "no host memory for an event");
    event->device = device;
    int32_t status = simdev_event_create(device->native, flags, &event->native, err);
    if (status != DHOW_OK) {
        sim_delete(device->host, event);
        return status;
    }
    *out_event = event;
    return DHOW_OK;
}

void sim_event_destroy(void *handle) {
    sim_event *event = handle;
    simdev_event_destroy(event->native);
    sim_delete(event->device->host, event);
}

int32_t sim_event_record(void *event, void *stream, dhow_error *err) {
    sim_event *e = event;
    int32_t status = simdev_event_record(e->native, ((sim_stream *)stream)->native, err);
    if (status == DHOW_OK) e->recorded = 1;
    return status;
}

int32_t sim_event_sync(void *event, dhow_error *err) {
    return simdev_event_sync(((sim_event *)event)->native, err);
}

int32_t sim_event_query(void *event, dhow_error *err) {
    return simdev_event_query(((sim_event *)event)->native, err);
}

int32_t sim_event_signal(void *event, dhow_error *err) {
    return simdev_event_signal(((sim_event *)event)->native, err);
}

int32_t sim_event_elapsed(void *start, void *end, int64_t *out_nanoseconds, dhow_error *err) {
    return simdev_event_elapsed(((sim_event *)start)->native, ((sim_event *)end)->native,
                                out_nanoseconds, err);
}
