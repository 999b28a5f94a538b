/* SPDX-License-Identifier: Apache-2.0
 *
 * See stream.h and dhow/stream.h.
 */
#include "stream/stream.h"

#include <string.h>

#include "base/memory/alloc.h"
#include "base/objects/call_sites.h"

/* ---- streams of a device ---- */

/* Makes it dhow's own: it holds no context, and no program has left it behind. */
static void own(dhow_stream *stream) {
    stream->owned = true;
    if (dhowi_call_sites_kept()) dhowi_call_site_forget(stream);
}

dhow_status dhowi_stream_default(dhow_device *device, dhow_stream **out) {
    dhowi_device_streams *streams = dhowi_device_attached(device, DHOWI_ATTACH_STREAMS);
    *out = streams != NULL ? atomic_load_explicit(&streams->default_stream, memory_order_acquire)
                           : NULL;
    if (*out != NULL) return DHOW_OK;
    DHOWI_TRY(dhowi_device_open(device));
    streams = dhowi_device_streams_of(device);
    if (streams == NULL) return DHOW_OUT_OF_MEMORY;
    dhow_status status = DHOW_OK;
    pthread_mutex_lock(&device->mutex);
    dhow_stream *stream = atomic_load(&streams->default_stream);
    if (stream == NULL) {
        status = dhowi_stream_new(device, streams, 0, &stream);
        if (status == DHOW_OK) {
            own(stream);
            atomic_store_explicit(&streams->default_stream, stream, memory_order_release);
        }
    }
    pthread_mutex_unlock(&device->mutex);
    *out = stream;
    return status;
}

dhow_status dhowi_stream_create_owned(dhow_device *device, dhow_stream **out) {
    *out = NULL;
    DHOWI_TRY(dhowi_device_open(device));
    dhowi_device_streams *streams = dhowi_device_streams_of(device);
    if (streams == NULL) return DHOW_OUT_OF_MEMORY;
    DHOWI_TRY(dhowi_stream_new(device, streams, DHOW_STREAM_COPIES_ONLY, out));
    own(*out);
    return DHOW_OK;
}

dhow_status dhowi_stream_resolve(dhow_stream *stream, dhow_device *device, const char *function,
                                 dhow_stream **out) {
    *out = NULL;
    if (stream == NULL) return dhowi_stream_default(device, out);
    DHOWI_TRY(dhowi_handle_check(stream, DHOWI_STREAM, function, "stream"));
    if (stream->device != device) {
        return dhowi_fail(
            DHOW_INVALID_ARGUMENT,
            "%s: the stream is on %s, the tensors are on %s; use a stream of that device, or NULL",
            function, stream->device->name, device->name);
    }
    *out = stream;
    return DHOW_OK;
}

/* ---- the public side ---- */

dhow_status dhow_stream_create(dhow_device *device, dhow_stream **out) {
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_stream_create: out is NULL");
    *out = NULL;
    DHOWI_TRY(dhowi_device_check(device, "dhow_stream_create"));
    DHOWI_TRY(dhowi_device_open(device));
    dhowi_device_streams *streams = dhowi_device_streams_of(device);
    if (streams == NULL) return DHOW_OUT_OF_MEMORY;
    DHOWI_TRY(dhowi_stream_new(device, streams, 0, out));
    dhowi_handle_retain(&device->context->handle);
    return DHOW_OK;
}

dhow_status dhow_stream_default(dhow_device *device, dhow_stream **out) {
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_stream_default: out is NULL");
    *out = NULL;
    DHOWI_TRY(dhowi_device_check(device, "dhow_stream_default"));
    return dhowi_stream_default(device, out);
}

dhow_device *dhow_stream_device(const dhow_stream *stream) {
    return dhowi_handle_is(stream, DHOWI_STREAM) ? stream->device : NULL;
}

dhow_status dhow_stream_sync(dhow_stream *stream) {
    DHOWI_TRY(dhowi_handle_check(stream, DHOWI_STREAM, "dhow_stream_sync", "stream"));
    DHOWI_TRY(dhowi_device_usable(stream->device));
    DHOWI_TRY(dhowi_stream_refuse_recording(stream, "waiting for the stream"));
    return dhowi_stream_sync(stream);
}

dhow_status dhow_stream_query(dhow_stream *stream) {
    DHOWI_TRY(dhowi_handle_check(stream, DHOWI_STREAM, "dhow_stream_query", "stream"));
    DHOWI_TRY(dhowi_device_usable(stream->device));
    dhowi_timepoint attached[DHOWI_MAX_ATTACHED];
    if (dhowi_stream_attached(stream, attached) > 0)
        return dhowi_fail(DHOW_NOT_READY, "%s: a copy is running", stream->device->name);
    dhow_error err;
    dhowi_error_init(&err);
    uint64_t tail = dhowi_stream_tail(stream).number;
    int32_t code = stream->device->api->stream_query(stream->native, &err);
    if (code == DHOW_NOT_READY)
        return dhowi_fail(DHOW_NOT_READY, "%s: work is running", stream->device->name);
    if (code != DHOW_DEVICE_LOST) dhowi_timeline_complete(&stream->timeline, tail);
    if (code != DHOW_OK)
        return dhowi_device_failed(stream->device, &err, code, "work submitted before failed");
    return dhowi_stream_take_failure(stream);
}

/* The device's streams, each with a reference. */
static dhow_status hold_streams(dhowi_device_streams *streams, dhow_stream ***out,
                                uint32_t *out_count) {
    uint32_t count = 0;
    pthread_mutex_lock(&streams->mutex);
    for (dhow_stream *s = streams->all; s != NULL; s = s->next) count++;
    *out = dhowi_alloc_array(count, sizeof(dhow_stream *));
    *out_count = 0;
    for (dhow_stream *s = streams->all; *out != NULL && s != NULL; s = s->next) {
        if (dhowi_handle_try_retain(&s->handle)) (*out)[(*out_count)++] = s;
    }
    pthread_mutex_unlock(&streams->mutex);
    return *out != NULL ? DHOW_OK : dhowi_fail_memory("dhow_device_sync");
}

dhow_status dhow_device_sync(dhow_device *device) {
    DHOWI_TRY(dhowi_device_check(device, "dhow_device_sync"));
    DHOWI_TRY(dhowi_device_usable(device));
    dhowi_device_streams *streams = dhowi_device_attached(device, DHOWI_ATTACH_STREAMS);
    if (streams == NULL) return DHOW_OK;
    dhow_stream **held;
    uint32_t count;
    DHOWI_TRY(hold_streams(streams, &held, &count));
    dhow_status status = DHOW_OK;
    dhowi_saved_error first;
    for (uint32_t i = 0; i < count; i++) {
        dhow_status one = dhowi_stream_sync(held[i]);
        if (status == DHOW_OK && one != DHOW_OK) dhowi_error_save(&first, status = one);
        dhow_stream_release(held[i]);
    }
    dhowi_free(held);
    return status == DHOW_OK ? DHOW_OK : dhowi_error_raise(&first);
}
