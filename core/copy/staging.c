/* SPDX-License-Identifier: Apache-2.0
 *
 * See staging.h.
 */
#include "copy/staging.h"

#include "base/memory/alloc.h"

static void *make_staging(dhow_device *device) {
    dhowi_staging *s = dhowi_alloc(sizeof *s);
    if (s == NULL) {
        (void)dhowi_fail_memory("staging");
        return NULL;
    }
    s->device = device;
    pthread_mutex_init(&s->mutex, NULL);
    pthread_mutex_init(&s->peer_mutex, NULL);
    return s;
}

static void end_staging(void *owner, void *data) {
    dhow_device *device = owner;
    dhowi_staging *s = data;
    void *native = dhowi_device_native(device);
    for (int i = 0; i < DHOWI_CHUNK_COUNT; i++) {
        if (s->in_events[i] != NULL) device->api->event_destroy(s->in_events[i]);
        if (s->out_events[i] != NULL) device->api->event_destroy(s->out_events[i]);
        if (s->chunks[i] == NULL) continue;
        if (s->pinned) {
            device->api->host_free(native, s->chunks[i]);
        } else {
            dhowi_free(s->chunks[i]);
        }
    }
    pthread_mutex_destroy(&s->mutex);
    pthread_mutex_destroy(&s->peer_mutex);
    dhowi_free(s);
}

dhowi_staging *dhowi_staging_of(dhow_device *device) {
    return dhowi_device_attach(device, DHOWI_ATTACH_STAGING, make_staging, end_staging);
}

static dhow_status make_event(dhow_device *device, void **event) {
    dhow_error err;
    dhowi_error_init(&err);
    if (*event != NULL) return DHOW_OK;
    int32_t code = device->api->event_create(dhowi_device_native(device), 0, event, &err);
    return code == DHOW_OK ? DHOW_OK : dhowi_device_failed(device, &err, code, "creating an event");
}

dhow_status dhowi_staging_streams(dhowi_staging *s) {
    if (s->in == NULL) DHOWI_TRY(dhowi_stream_create_owned(s->device, &s->in));
    if (s->out == NULL) DHOWI_TRY(dhowi_stream_create_owned(s->device, &s->out));
    for (int i = 0; i < DHOWI_CHUNK_COUNT; i++) {
        DHOWI_TRY(make_event(s->device, &s->in_events[i]));
        DHOWI_TRY(make_event(s->device, &s->out_events[i]));
    }
    return DHOW_OK;
}

static dhow_status make_chunk(dhowi_staging *s, int i) {
    dhow_error err;
    dhowi_error_init(&err);
    void *memory = NULL;
    int32_t code = DHOW_UNSUPPORTED;
    if (i == 0 || s->pinned) {
        code = s->device->api->host_alloc(dhowi_device_native(s->device), DHOWI_CHUNK_BYTES,
                                          &memory, &err);
    }
    if (i == 0) s->pinned = code == DHOW_OK;
    if (!s->pinned) memory = dhowi_alloc_aligned(DHOWI_CHUNK_BYTES, 4096);
    if (s->pinned && code != DHOW_OK)
        return dhowi_device_failed(s->device, &err, code, "the staging ring of copies");
    if (memory == NULL) {
        return dhowi_fail(DHOW_OUT_OF_MEMORY, "%s: no memory for the staging ring of copies",
                          s->device->name);
    }
    s->chunks[i] = memory;
    dhowi_memory_count_staging(s->device, DHOWI_CHUNK_BYTES);
    return DHOW_OK;
}

dhow_status dhowi_staging_ring(dhowi_staging *s) {
    for (int i = 0; i < DHOWI_CHUNK_COUNT; i++) {
        if (s->chunks[i] == NULL) DHOWI_TRY(make_chunk(s, i));
    }
    return DHOW_OK;
}
