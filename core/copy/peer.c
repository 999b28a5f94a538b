/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between two devices of one backend. A pair is used only after real bytes went across and
 * came back right: some machines promise peer access and deliver garbage.
 */
#include <string.h>

#include "base/text.h"
#include "copy/staging.h"
#include "stream/span.h"

enum { TRIAL_BYTES = 4096 };

static dhow_status submit_peer(dhow_stream *stream, dhow_tensor *src, dhow_tensor *dst,
                               bool ordered) {
    dhow_error err;
    dhow_device *device = stream->device;
    const dhowi_use uses[] = {{src->storage, DHOW_ACCESS_READ}, {dst->storage, DHOW_ACCESS_WRITE}};
    if (stream->recording != NULL) ordered = true; /* a graph knows the order by itself */
    DHOWI_TRY(dhowi_stream_begin(stream, uses, ordered ? 2 : 0));
    dhowi_error_init(&err);
    dhowi_span_begin(stream, DHOWI_TRACE_COPY, "copy", dhowi_tensor_bytes(src), "peer to peer");
    int32_t code = device->api->peer_copy(
        stream->native, dhowi_device_native(dhowi_tensor_device(src)), src->storage->native,
        dhowi_tensor_offset_bytes(src), dst->storage->native, dhowi_tensor_offset_bytes(dst),
        dhowi_tensor_bytes(src), &err);
    (void)dhowi_stream_end(stream, uses, ordered ? 2 : 0, dhowi_error_take(&err, code));
    if (code != DHOW_OK) return dhowi_device_failed(device, &err, code, "peer copy");
    return ordered ? DHOW_OK : dhowi_copy_note_unordered(stream, uses);
}

dhow_status dhowi_copy_peer(dhow_stream *stream, dhow_tensor *src, dhow_tensor *dst, bool ordered) {
    return submit_peer(stream, src, dst, ordered);
}

static dhow_status send_trial(dhow_device *dst, dhow_device *src, unsigned char *sent,
                              unsigned char *got) {
    dhow_tensor *a = NULL, *b = NULL;
    dhow_stream *stream;
    const int64_t shape[] = {TRIAL_BYTES};
    for (int i = 0; i < TRIAL_BYTES; i++) sent[i] = (unsigned char)(i * 37 + 11);
    dhow_status status = dhow_tensor_from_data(src, DHOW_U8, 1, shape, sent, &a);
    if (status == DHOW_OK) status = dhow_tensor_create(dst, DHOW_U8, 1, shape, &b);
    if (status == DHOW_OK) status = dhowi_stream_default(dst, &stream);
    if (status == DHOW_OK) status = submit_peer(stream, a, b, true);
    if (status == DHOW_OK) status = dhow_tensor_read(b, got, TRIAL_BYTES);
    dhow_tensor_release(a);
    dhow_tensor_release(b);
    return status;
}

/* The reason against it goes to `reason`, which is empty where the driver offers no such copies. */
static bool try_pair(dhow_device *dst, dhow_device *src, dhowi_text *reason) {
    dhow_error err;
    dhowi_error_init(&err);
    if (dst->api->can_copy(dhowi_device_native(dst), dhowi_device_native(src), &err) != DHOW_OK)
        return false;
    unsigned char sent[TRIAL_BYTES], got[TRIAL_BYTES] = {0};
    dhow_status status = send_trial(dst, src, sent, got);
    if (status == DHOW_OK && memcmp(sent, got, sizeof sent) == 0) return true;
    dhowi_text_add(reason, "%s",
                   status == DHOW_OK ? "a trial delivered wrong bytes" : dhow_last_error());
    return false;
}

bool dhowi_peer_works(dhow_device *dst, dhow_device *src) {
    if (dst->plugin != src->plugin) return false;
    dhowi_staging *s = dhowi_staging_of(dst);
    if (s == NULL || dhowi_device_open(dst) != DHOW_OK || dhowi_device_open(src) != DHOW_OK)
        return false;
    char story[512] = "";
    dhowi_text reason = DHOWI_TEXT(story);
    pthread_mutex_lock(&s->peer_mutex);
    uint32_t i = 0;
    while (i < s->peer_count && s->peers[i].device != src) i++;
    if (i == s->peer_count && i < DHOWI_MAX_PEERS) {
        s->peers[i].device = src;
        s->peers[i].works = try_pair(dst, src, &reason);
        s->peer_count++;
    }
    bool works = i < s->peer_count && s->peers[i].works;
    pthread_mutex_unlock(&s->peer_mutex);
    if (story[0] != '\0') {
        dhowi_log_line(&dst->context->log, DHOW_LOG_WARN,
                       "peer copies from %s to %s are not used: %s", src->name, dst->name, story);
    }
    return works;
}
