/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams over queues of the program's own, and the vendor's handles of streams and events.
 *
 * What a program hands to its own queue is not numbered by dhow. Where everything in a stream is
 * waited for - a sync, its end, a stream that follows it - such work is counted first, as one
 * number, so that the wait covers it.
 */
#include "memory/native.h"

#include "stream/stream.h"

dhow_status dhowi_stream_wrap(dhow_device *device, uint64_t native, bool briefly,
                              dhow_stream **out) {
    const dhow_native *table;
    void *wrapped = NULL;
    dhow_error err;
    dhowi_error_init(&err);
    *out = NULL;
    DHOWI_TRY(dhowi_device_open(device));
    DHOWI_TRY(dhowi_native_of(device, "dhow_stream_wrap", &table));
    dhowi_device_streams *streams = dhowi_device_streams_of(device);
    if (streams == NULL) return DHOW_OUT_OF_MEMORY;
    int32_t code = table->stream_wrap(dhowi_device_native(device), native,
                                      briefly ? DHOW_STREAM_THIS_THREAD : 0, &wrapped, &err);
    if (code != DHOW_OK) return dhowi_device_failed(device, &err, code, "wrapping a stream");
    dhow_status status = dhowi_stream_adopt(device, streams, wrapped, !briefly, out);
    if (status != DHOW_OK) {
        device->api->stream_destroy(wrapped);
        return status;
    }
    dhowi_handle_retain(&device->context->handle);
    return DHOW_OK;
}

dhow_status dhow_stream_wrap(dhow_device *device, uint64_t native, dhow_stream **out) {
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_stream_wrap: out is NULL");
    *out = NULL;
    DHOWI_TRY(dhowi_device_check(device, "dhow_stream_wrap"));
    return dhowi_stream_wrap(device, native, false, out);
}

dhow_status dhow_stream_native(dhow_stream *stream, uint64_t *out_native) {
    static const char function[] = "dhow_stream_native";
    const dhow_native *table;
    dhow_error err;
    dhowi_error_init(&err);
    if (out_native == NULL)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out_native is NULL", function);
    *out_native = 0;
    DHOWI_TRY(dhowi_handle_check(stream, DHOWI_STREAM, function, "stream"));
    DHOWI_TRY(dhowi_device_usable(stream->device));
    DHOWI_TRY(dhowi_native_of(stream->device, function, &table));
    int32_t code = table->stream_native(stream->native, out_native, &err);
    return code == DHOW_OK ? DHOW_OK : dhowi_device_failed(stream->device, &err, code, function);
}

dhow_status dhow_stream_wait_native(dhow_stream *stream, uint64_t native_event) {
    static const char function[] = "dhow_stream_wait_native";
    const dhow_native *table;
    dhow_error err;
    dhowi_error_init(&err);
    DHOWI_TRY(dhowi_handle_check(stream, DHOWI_STREAM, function, "stream"));
    DHOWI_TRY(dhowi_device_usable(stream->device));
    DHOWI_TRY(dhowi_stream_refuse_recording(stream, "a wait for an event"));
    DHOWI_TRY(dhowi_native_of(stream->device, function, &table));
    if (native_event == 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the event is NULL", function);
    DHOWI_TRY(dhowi_stream_begin(stream, NULL, 0));
    int32_t code = table->stream_wait_native(stream->native, native_event, &err);
    /* The wait counts as work, for those who follow the stream. */
    (void)dhowi_stream_end(stream, NULL, 0, dhowi_error_take(&err, code));
    return code == DHOW_OK ? DHOW_OK : dhowi_device_failed(stream->device, &err, code, function);
}

dhow_status dhow_event_native(dhow_event *event, uint64_t *out_native) {
    static const char function[] = "dhow_event_native";
    const dhow_native *table;
    dhow_error err;
    dhowi_error_init(&err);
    if (out_native == NULL)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out_native is NULL", function);
    *out_native = 0;
    DHOWI_TRY(dhowi_handle_check(event, DHOWI_EVENT, function, "event"));
    DHOWI_TRY(dhowi_device_usable(event->device));
    DHOWI_TRY(dhowi_native_of(event->device, function, &table));
    int32_t code = table->event_native(event->native, out_native, &err);
    return code == DHOW_OK ? DHOW_OK : dhowi_device_failed(event->device, &err, code, function);
}
