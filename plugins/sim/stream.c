/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams: in-order queues of the device. The host lets one thread at a time submit to a stream,
 * but sync and query come from any thread meanwhile; whatever they share with submission needs a
 * lock. Here the vendor has it.
 */
#include "sim.h"

int32_t sim_stream_create(void *handle, uint32_t flags, void **out_stream, dhow_error *err) {
    sim_device *device = handle;
    *out_stream = NULL;
    sim_stream *stream = sim_new(device->host, sizeof *stream);
    if (stream == NULL) return sim_fail(err, DHOW_OUT_OF_MEMORY, "no host memory for a stream");
    stream->device = device;
    int32_t status = simdev_stream_create(device->native, flags, &stream->native, err);
    if (status != DHOW_OK) {
        sim_delete(device->host, stream);
        return status;
    }
    *out_stream = stream;
    return DHOW_OK;
}

void sim_stream_destroy(void *handle) {
    sim_stream *stream = handle;
    if (!stream->wrapped) simdev_stream_destroy(stream->native);
    sim_delete(stream->device->host, stream);
}

/* The first failure of the stream's work since the last sync comes out here, and only once, unless
 * the device is lost: then every call says so. */
int32_t sim_stream_sync(void *stream, dhow_error *err) {
    return simdev_stream_sync(((sim_stream *)stream)->native, err);
}

int32_t sim_stream_query(void *stream, dhow_error *err) {
    return simdev_stream_query(((sim_stream *)stream)->native, err);
}

/* The event may be another device's. It is recorded again or destroyed while the wait is still in
 * the queue. */
int32_t sim_stream_wait(void *stream, void *event, dhow_error *err) {
    return simdev_stream_wait(((sim_stream *)stream)->native, ((sim_event *)event)->native, err);
}
